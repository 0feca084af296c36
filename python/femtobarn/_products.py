"""Values that users store in an event store, and the forms in which they get them back.

What a value is is said by the type in its product's name. Numbers, texts, arrays and dataclasses have types of C++, so
that programs of C++ load them, and products of many events become columns.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
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
from femtobarn.errors import FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch, Batches, Store
    from femtobarn._datastore import DataStore

__all__ = [
    "Arrow",
    "As",
    "Awkward",
    "Column",
    "ColumnType",
    "NumPy",
    "column",
    "decoded",
    "element",
    "encoded",
    "form_of",
    "is_opaque",
    "loaded",
    "type_name_of",
]


@dataclasses.dataclass(frozen=True)
class ColumnType:
    """The type of a product that is given by columns, where it is more than a name.

    Attributes
    ----------
    name : str
        The name of the type.
    classes : tuple of (str, tuple of (str, str))
        The classes in it, those of members before those that have them: names, and names and types of the members.
    form : str
        What the column holds: "value", the values; "optional", values of which some are missing; "list", lists of one
        value or none; "bytes" and "optional bytes", what is stored. Events without a value get no product.
    label : str or None
        The product's label, where the column has another name since there are several products of one label.
    """

    name: str
    classes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    form: str = "value"
    label: str | None = None


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
_OPAQUE = (BYTES, MSGPACK, PICKLE)
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
    if isinstance(kind, ColumnType):
        return kind.name
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


def form_of(kind: Any) -> Any:
    """Return the form in which values are given whose type was said by one of Python: dataclasses are given as such.

    Parameters
    ----------
    kind : str, type or dtype
        The type.

    Returns
    -------
    type or None
        The form; None for what is natural for the type.
    """
    item = _item(kind)
    if item is None:
        return kind if _is_made(kind) else None
    return list[item] if _is_made(item) else None  # type: ignore[valid-type]


def is_opaque(type_name: str) -> bool:
    """Return whether values of a type are bytes in which femtobarn sees nothing.

    Parameters
    ----------
    type_name : str
        The type in a product's name.

    Returns
    -------
    bool
        Whether they are.
    """
    return type_name in _OPAQUE


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
    if isinstance(kind, ColumnType):
        for name, members in kind.classes:
            core.note_class(name, list(members))
        return kind.name, batches
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
    if is_opaque(type_name):
        return _opaque(label, type_name, stored, form, unpickle)
    if (quick := _quick_loaded(stored, type_name, form)) is not None:
        return quick
    return decoded(store, label, type_name, [stored]).at(0, form)


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
    if is_opaque(type_name) or form is bytes:
        what = "an element has no bytes of its own" if form is bytes else "it has no elements to refer to"
        raise UsageError(f"product {label!r} is a {type_name}: {what}")
    return decoded(store, label, type_name, [stored]).elements(0).at(index, form)


def decoded(store: DataStore, label: str, type_name: str, stored: list[bytes | None]) -> Column:
    """Return stored values of one type.

    Parameters
    ----------
    store : DataStore
        Where they are stored.
    label : str
        The products' label.
    type_name : str
        The type in their names.
    stored : list of bytes or None
        What is stored of each, or none.

    Returns
    -------
    Column
        The values.

    Raises
    ------
    FormatError
        If one of them is damaged.
    UsageError
        If only C++ can read them.
    """
    if _OF_BOOST.search(type_name):
        raise UsageError(
            f"product {label!r} is a {type_name}, which HEPnOS's classes store by Boost: only C++ reads it; load it as "
            "bytes"
        )
    try:
        batch = store._core.decode(stored, type_name, label)
    except FormatError as error:
        inner = type_name.removeprefix("std::vector<").removesuffix(">")
        if inner in _DTYPES:
            raise
        raise FormatError(
            f"product {label!r}: {error}; or hepnos.hpp has stored it, which stores all but numbers, plain structs and "
            "vectors of them by Boost: only C++ reads that; load it as bytes",
            kind=error.kind,
        ) from None
    return Column(store, label, type_name, _awkward(batch, label))


def _quick_loaded(stored: bytes, type_name: str, form: Any) -> Any:
    """Return plain numbers, and arrays of them, without a detour; None if the value is something else, or damaged."""
    dtype = _DTYPES.get(type_name)
    if dtype is not None and form in (None, int, float, bool) and len(stored) == dtype.itemsize:
        value = np.frombuffer(stored, dtype.newbyteorder("<"))[0].item()
        return value if form in (None, type(value)) else None
    inner = _DTYPES.get(type_name.removeprefix("std::vector<").removesuffix(">"))
    if inner is None or dtype is not None or form not in (None, NumPy, Awkward):
        return None
    if inner.kind == "b" or len(stored) < 8 or len(stored) != 8 + int.from_bytes(stored[:8], "little") * inner.itemsize:
        return None
    array = np.frombuffer(stored, inner.newbyteorder("<"), offset=8)
    return array if form is NumPy else optional("awkward", "all").Array(array)


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
            "arrays, dataclasses, or typename='msgpack' or typename='pickle' for other objects"
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


class Column:
    """Values of one type that are decoded together, which each event has one of, or none.

    Parameters
    ----------
    store : DataStore
        Where they are stored.
    label : str
        The products' label.
    type_name : str
        The type in their names.
    array : ak.Array
        The values.
    """

    def __init__(self, store: DataStore, label: str, type_name: str, array: Any) -> None:
        self._store = store
        self._label = label
        self._type_name = type_name
        self._array = array

    @functools.cached_property
    def _values(self) -> Any:
        return self._array.tolist()

    @functools.cached_property
    def _arrays(self) -> Any:
        return layout_to_numpy(self._array.layout)

    def elements(self, n: int) -> Column:
        """Return the elements of one of the values.

        Parameters
        ----------
        n : int
            Which.

        Returns
        -------
        Column
            Its elements.

        Raises
        ------
        UsageError
            If it has none by its type.
        """
        if self._array.ndim < 2:
            raise UsageError(f"product {self._label!r} is a {self._type_name}, which has no elements to refer to")
        item = self._type_name.removeprefix("std::vector<").removesuffix(">")
        return Column(self._store, self._label, item, self._array[n])

    def at(self, n: int, form: Any) -> Any:
        """Return one of the values, which is there.

        Parameters
        ----------
        n : int
            Which.
        form : As, type or None
            What the user wants; None for what is natural for the type.

        Returns
        -------
        object
            The value.

        Raises
        ------
        IndexError
            If there are fewer.
        UsageError
            If it cannot be had in this form.
        """
        if n >= len(self._array):
            raise IndexError(f"it has {len(self._array)} elements")
        if form is NumPy:
            return self._arrays[n]
        if form is not None and not isinstance(form, As):
            return _as_python(self._store, self._values[n], self._label, self._type_name, form)
        if form is None and self._array.ndim == 1 and not self._array.fields:
            return self._values[n]
        value = self._array[n]
        if form is None and self._type_name == PTR:
            return Ptr.from_record(self._store, value)
        if form is not Arrow:
            return value
        ak, arrow = optional("awkward", "all"), optional("pyarrow", "arrow")
        if isinstance(value, ak.Array):
            return ak.to_arrow(value, extensionarray=False)
        return arrow.scalar(value.tolist() if hasattr(value, "tolist") else value)


def _as_python(store: DataStore, plain: Any, label: str, type_name: str, form: Any) -> Any:
    """Return a value as a type of Python: a number, a text, a dataclass, or a list of these."""
    wrong = UsageError(f"product {label!r} is a {type_name}, which is no {getattr(form, '__name__', form)}")
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
