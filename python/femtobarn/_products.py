"""Values that users store in an event store, and the forms in which they get them back.

What a value is is said by the type in its product's name. Numbers, texts, arrays and dataclasses have types of C++, so
that programs of C++ load them, and products of many events become columns.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
import re
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._libraries import optional
from femtobarn._numpy import layout_to_numpy
from femtobarn._ptr import PTR, Ptr, note_ptr, ptr_column
from femtobarn._to_nodes import to_batches
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch, Batches, Store
    from femtobarn._datastore import DataStore

__all__ = ["OPAQUE", "Arrow", "As", "Awkward", "NumPy", "column", "element", "encoded", "loaded", "type_name_of"]


class As(enum.Enum):
    """The form in which a product is given.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.As.NumPy is fb.NumPy
    True
    """

    Awkward = "ak"
    NumPy = "np"
    Arrow = "arrow"


Awkward = As.Awkward
NumPy = As.NumPy
Arrow = As.Arrow

BYTES = "bytes"
MSGPACK = "msgpack"
PICKLE = "pickle"
OPAQUE = (BYTES, MSGPACK, PICKLE)
_OF_BOOST = re.compile(r"hepnos::(Ptr<|ProductID\b)")

# NumPy's names of numbers, and those of C++ as ROOT normalizes them
_NUMBERS = {
    "bool": "bool",
    "int8": "std::int8_t",
    "uint8": "std::uint8_t",
    "int16": "std::int16_t",
    "uint16": "std::uint16_t",
    "int32": "std::int32_t",
    "uint32": "std::uint32_t",
    "int64": "std::int64_t",
    "uint64": "std::uint64_t",
    "float32": "float",
    "float64": "double",
}
_DTYPES = {name: np.dtype(dtype) for dtype, name in _NUMBERS.items()}
_SCALARS: dict[type, str] = {bool: "bool", int: "std::int64_t", float: "double", str: "std::string"}


def type_name_of(kind: Any) -> str:
    """Return the name of a type as it stands in products' names.

    Parameters
    ----------
    kind : str, type or dtype
        A name of C++ as ROOT normalizes them; `bytes`, `int`, `float`, `bool` or `str`; a dataclass; `Ptr`; ``list[T]``
        of one of these, for a ``std::vector``; or a dtype of NumPy.

    Returns
    -------
    str
        The name.

    Raises
    ------
    UsageError
        If it is something else.

    Examples
    --------
    >>> from femtobarn._products import type_name_of
    >>> type_name_of(list[float])
    'std::vector<double>'
    """
    if isinstance(kind, str):
        return kind
    if kind in (bytes, bytearray, memoryview):
        return BYTES
    if typing.get_origin(kind) in (list, tuple) and typing.get_args(kind):
        return f"std::vector<{type_name_of(typing.get_args(kind)[0])}>"
    if isinstance(kind, type):
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind is Ptr:
            return PTR
        if dataclasses.is_dataclass(kind):
            return kind.__name__
    try:
        return _NUMBERS[np.dtype(kind).name]
    except (TypeError, KeyError):
        pass
    raise UsageError(
        f"{kind!r} is no type of a product: give a name as 'std::vector<float>', bytes, int, float, bool, str, a "
        "dataclass, Ptr, list[...] of one of these, or a dtype of NumPy"
    )


def encoded(store: DataStore, label: str, value: Any, kind: Any) -> tuple[str, bytes]:
    """Return the name of the type of a value, and the bytes that are stored.

    Parameters
    ----------
    store : DataStore
        Where it is to be stored.
    label : str
        The product's label, which names classes that have no name.
    value : object
        The value.
    kind : str, type or None
        Its type, if the user has said it.

    Returns
    -------
    tuple of str and bytes
        The name and the bytes.

    Raises
    ------
    UsageError
        If it is nothing that can be stored.
    """
    name = None if kind is None else type_name_of(kind)
    if name in (None, BYTES) and isinstance(value, bytes | bytearray | memoryview):
        return BYTES, bytes(value)
    if name == PICKLE:
        return PICKLE, pickle.dumps(value, protocol=5)
    if name == MSGPACK or (name is None and (value is None or isinstance(value, dict))):
        packed: bytes = optional("msgpack", "msgpack").packb(value)
        return MSGPACK, packed
    if name == BYTES:
        raise UsageError(f"product {label!r} is to be bytes, and was given {type(value).__name__}")
    quick = _quick(value, name)
    if quick is not None:
        return quick
    core = store._core
    batches = _one(store, label, value)
    if name is not None:
        _note_named(core, batches, value, name)
    name = name or _noted(core, value) or core.describe(batches, label)
    return name, core.encode(batches, name)


def _note_named(store: Store, batches: Batches, value: Any, name: str) -> None:
    """Note the class that a type's name names, as the value has it, if the store has no note of it."""
    if _noted(store, value) is None and (own := _innermost(name)) is not None:
        _describe(store, batches, own)


def _describe(store: Store, batches: Batches, own: str) -> None:
    """Note a class as values have it; that of references is known."""
    if own == PTR:
        note_ptr(store)
    else:
        store.describe(batches, own)


def _noted(store: Store, value: Any) -> str | None:
    """Return the type's name of a dataclass, a reference or a list of these, and note it; None for other values."""
    one = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(one, Ptr):
        name = note_ptr(store)
    elif _is_dataclass(one):
        name = note_dataclass(store, type(one))
    else:
        return None
    return name if one is value else f"std::vector<{name}>"


def note_dataclass(store: Store, kind: type) -> str:
    """Note the members of a dataclass, with the types that their annotations say.

    Parameters
    ----------
    store : Store
        Where.
    kind : type
        The dataclass.

    Returns
    -------
    str
        Its name.

    Raises
    ------
    UsageError
        If an annotation is no type of a product, or the store has a class of this name with other members.
    """
    hints = _hints(kind)
    members = []
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        inner = _item(hint) or hint
        if inner is Ptr:
            note_ptr(store)
        elif dataclasses.is_dataclass(inner) and isinstance(inner, type) and inner is not kind:
            note_dataclass(store, inner)
        try:
            members.append((field.name, type_name_of(hint)))
        except UsageError as error:
            raise UsageError(f"member {field.name!r} of {kind.__name__}: {error}") from None
    store.note_class(kind.__name__, members)
    return kind.__name__


def column(store: DataStore, label: str, values: Any, kind: Any) -> tuple[str, Batches]:
    """Return the name of the type of many values, and the values as the core takes them.

    Parameters
    ----------
    store : DataStore
        Where they are to be stored.
    label : str
        The product's label.
    values : array
        One value for each event.
    kind : str, type or None
        Their type, if the user has said it.

    Returns
    -------
    tuple of str and Batches
        The name and the values.
    """
    core = store._core
    kind = kind or _kind_of_refs(values)
    if kind is not None and _has_refs(kind) and isinstance(values, list | tuple):
        values = _rows(store, kind, list(values))
    batches = to_batches({label: values})
    if kind is None:
        return core.describe(batches, label), batches
    inner = _item(kind) or kind
    if dataclasses.is_dataclass(inner) and isinstance(inner, type):
        note_dataclass(core, inner)
    elif (own := _innermost(type_name_of(kind))) is not None:
        _describe(core, batches, own)
    return type_name_of(kind), batches


def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's members."""
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise UsageError(f"annotations of {kind.__name__} cannot be looked up where it is defined: {error}") from error


def _item(kind: Any) -> Any:
    """Return what a type is a list of; None if it is none."""
    args = typing.get_args(kind)
    return args[0] if typing.get_origin(kind) in (list, tuple) and args else None


def _kind_of_refs(values: Any) -> Any:
    """Return the type of a column of references, or of lists of them; None for others."""
    if not isinstance(values, list | tuple):
        return None
    if any(isinstance(value, Ptr) for value in values):
        return Ptr
    inner = next((value for value in values if isinstance(value, list | tuple) and value), None)
    return None if inner is None or not isinstance(inner[0], Ptr) else list[Ptr]


def _inmost(kind: Any) -> Any:
    """Return what a type is a list of, of lists, and so on."""
    while (item := _item(kind)) is not None:
        kind = item
    return kind


def _has_refs(kind: Any, above: tuple[Any, ...] = ()) -> bool:
    """Whether there are references in the values of a type, which is in those above."""
    kind = _inmost(kind)
    if not _is_dataclass_type(kind) or kind in above:
        return kind is Ptr
    return any(_has_refs(hint, (*above, kind)) for hint in _hints(kind).values())


def _rows(store: DataStore, kind: Any, values: list[Any]) -> Any:
    """Return values with references in them as a column: these have numbers that lists of Python would not keep."""
    ak = optional("awkward", "all")
    if kind is Ptr:
        return ptr_column(store, values)
    if not _is_made(_inmost(kind)):
        return ak.Array(values)
    if (item := _item(kind)) is not None:
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        inner = _rows(store, item, [one for value in values for one in value])
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), inner.layout))
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    members = [_rows(store, hints[name], [getattr(value, name) for value in values]).layout for name in names]
    return ak.Array(ak.contents.RecordArray(members, names, len(values)))


def loaded(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, *, unpickle: bool = False) -> Any:
    """Return a stored value as the user wants it.

    Parameters
    ----------
    store : DataStore
        Where it is stored.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        What the user wants; None for what is natural for the type.
    unpickle : bool
        Whether pickled values are unpickled, which runs what is in them.

    Returns
    -------
    object
        The value.

    Raises
    ------
    UsageError
        If it cannot be had in this form.
    """
    if form is bytes:
        return stored
    if type_name in OPAQUE:
        return _opaque(label, type_name, stored, form, unpickle)
    return _in_form(store, _decoded(store, label, type_name, stored), label, type_name, form)


def element(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, index: int) -> Any:
    """Return an element of a stored value as the user wants it.

    Parameters
    ----------
    store : DataStore
        Where it is stored.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        What the user wants; None for what is natural for the type.
    index : int
        Which element.

    Returns
    -------
    object
        The element.

    Raises
    ------
    IndexError
        If it has fewer.
    UsageError
        If it has no elements, or cannot be had in this form.
    """
    if type_name in OPAQUE or form is bytes:
        what = "an element has no bytes of its own" if form is bytes else "it has no elements to refer to"
        raise UsageError(f"product {label!r} is a {type_name}: {what}")
    array = _decoded(store, label, type_name, stored)
    if array.ndim < 2:
        raise UsageError(f"product {label!r} is a {type_name}, which has no elements to refer to")
    if index >= len(array[0]):
        raise IndexError(f"it has {len(array[0])} elements")
    item = type_name.removeprefix("std::vector<").removesuffix(">")
    return _in_form(store, array[0][index : index + 1], label, item, form)


def _decoded(store: DataStore, label: str, type_name: str, stored: bytes) -> Any:
    """Return a stored value as an array of one entry."""
    if _OF_BOOST.search(type_name):
        raise UsageError(
            f"product {label!r} is a {type_name}, which HEPnOS's classes store by Boost: only C++ reads it; load it as "
            "bytes"
        )
    return _awkward(store._core.decode([stored], type_name, label), label)


def _opaque(label: str, type_name: str, stored: bytes, form: Any, unpickle: bool) -> Any:
    if isinstance(form, As):
        raise UsageError(f"product {label!r} is stored as {type_name}, which is no array: load it without a form")
    if type_name == MSGPACK:
        return optional("msgpack", "msgpack").unpackb(stored)
    if type_name == PICKLE:
        if not unpickle:
            raise UsageError(
                f"product {label!r} is pickled, and unpickling runs whatever is in it: if you trust who stored it, "
                "load it with unpickle=True"
            )
        return pickle.loads(stored)
    return stored


def _quick(value: Any, name: str | None) -> tuple[str, bytes] | None:
    """Return plain numbers and texts without a detour; None if the value is something else."""
    if type(value) in _SCALARS and name in (None, _SCALARS[type(value)]):
        own = _SCALARS[type(value)]
        if isinstance(value, str):
            text = value.encode()
            return own, len(text).to_bytes(8, "little") + text
        if own == "std::int64_t" and not -(2**63) <= value < 2**63:
            raise UsageError(f"{value} has more than 64 bits")
        return own, np.asarray(value, _DTYPES[own]).astype(_DTYPES[own].newbyteorder("<")).tobytes()
    if isinstance(value, np.generic) and value.dtype.name in _NUMBERS:
        own = _NUMBERS[value.dtype.name]
        if name in (None, own):
            return own, value.astype(value.dtype.newbyteorder("<")).tobytes()
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.name in _NUMBERS:
        if isinstance(value, np.ma.MaskedArray):
            return None
        own = f"std::vector<{_NUMBERS[value.dtype.name]}>"
        if name in (None, own):
            return own, len(value).to_bytes(8, "little") + value.astype(value.dtype.newbyteorder("<")).tobytes()
    return None


def _one(store: DataStore, label: str, value: Any) -> Batches:
    """Return a value as a column with one entry."""
    ak = optional("awkward", "all")
    kind = type(value[0]) if isinstance(value, list | tuple) and value else type(value)
    if _has_refs(kind):
        return to_batches({label: _rows(store, kind if isinstance(value, kind) else list[kind], [value])})  # type: ignore[valid-type]
    if _is_dataclass(value):
        return to_batches({label: ak.Array([dataclasses.asdict(value)])})
    if isinstance(value, list | tuple) and value and all(_is_dataclass(item) for item in value):
        value = ak.Array([dataclasses.asdict(item) for item in value])
    if isinstance(value, ak.Record):
        return to_batches({label: value.layout.array[value.layout.at : value.layout.at + 1]})
    if isinstance(value, str | np.generic | int | float | bool):
        return to_batches({label: ak.Array([value])})
    return to_batches({label: _as_list(ak, label, value)})


def _as_list(ak: Any, label: str, value: Any) -> Any:
    """Return an array of one entry that has all items of an array."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.reshape(1)
    try:
        if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
            arrow = optional("pyarrow", "arrow")
            value = ak.from_arrow(value if isinstance(value, arrow.Array | arrow.Table) else arrow.array(value))
        array = value if isinstance(value, ak.Array) else ak.Array(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"product {label!r} cannot be stored: {type(value).__name__} is no array ({error}); give bytes, numbers, "
            "arrays, dataclasses, or type='msgpack' or type='pickle' for other objects"
        ) from error
    layout = ak.to_packed(array).layout
    offsets = ak.index.Index64(np.array([0, len(layout)]))
    return ak.Array(ak.contents.ListOffsetArray(offsets, layout))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_dataclass_type(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) and isinstance(kind, type)


def _innermost(name: str | None) -> str | None:
    """Return ``Track`` of ``std::vector<Track>``: the class that records without a name are to be."""
    if name is None:
        return None
    inner = name.rpartition("<")[2].strip("> ")
    return inner if inner and not inner.startswith("std::") and inner not in _DTYPES else None


def _awkward(batch: Batch, label: str) -> Any:
    optional("awkward", "all")
    from femtobarn._awkward import to_array

    return to_array(batch)[label]


def _in_form(store: DataStore, array: Any, label: str, type_name: str, form: Any) -> Any:
    """Return the one entry of an array in the form that is wanted."""
    value = array[0]
    if form is Awkward:
        return value
    if form is NumPy:
        values = layout_to_numpy(array.layout)
        return values[0]
    if form is Arrow:
        ak, arrow = optional("awkward", "all"), optional("pyarrow", "arrow")
        if isinstance(value, ak.Array):
            return ak.to_arrow(value, extensionarray=False)
        return arrow.scalar(value.tolist() if hasattr(value, "tolist") else value)
    if type_name == PTR and form is None:
        return Ptr.from_record(store, value)
    if form is None:
        return value.item() if isinstance(value, np.generic) else value
    return _as_python(store, value, label, type_name, form)


def _as_python(store: DataStore, value: Any, label: str, type_name: str, form: Any) -> Any:
    """Return a value as a type of Python: a number, a text, a dataclass, or a list of these."""
    wrong = UsageError(f"product {label!r} is a {type_name}, which is no {getattr(form, '__name__', form)}")
    plain = value.tolist() if hasattr(value, "tolist") else value
    if typing.get_origin(form) is list:
        if not isinstance(plain, list):
            raise wrong
        (item,) = typing.get_args(form) or (None,)
        return [_made(store, one, item, wrong) for one in plain]
    return _made(store, plain, form, wrong)


def _made(store: DataStore, plain: Any, form: Any, wrong: UsageError) -> Any:
    if form is Ptr:
        if not isinstance(plain, Mapping):
            raise wrong
        return Ptr.from_record(store, plain)
    if dataclasses.is_dataclass(form) and isinstance(form, type):
        if not isinstance(plain, Mapping):
            raise wrong
        hints = _hints(form)
        names = [field.name for field in dataclasses.fields(form)]
        missing = [name for name in names if name not in plain]
        if missing:
            raise UsageError(f"{wrong}: it has no {', '.join(missing)}")
        return form(**{name: _member(store, plain[name], hints.get(name), wrong) for name in names})
    if isinstance(form, type) and isinstance(plain, form):
        return plain
    if form is float and isinstance(plain, int):
        return float(plain)
    raise wrong


def _member(store: DataStore, plain: Any, form: Any, wrong: UsageError) -> Any:
    """Return a member as its annotation says, where that is a dataclass, a reference or a list of these."""
    if _is_made(form):
        return _made(store, plain, form, wrong)
    if typing.get_origin(form) is list and _is_made(_item(form)):
        return [_made(store, one, _item(form), wrong) for one in plain]
    return plain


def _is_made(form: Any) -> bool:
    return form is Ptr or dataclasses.is_dataclass(form)
