"""Conversion of values to and from products of an event store.

The type in a product's name describes its value. Numbers, strings, arrays and dataclasses have C++ types, so that C++
programs can load them, and products of many events become columns.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._files.numpy_arrays import layout_to_numpy
from femtobarn._shared.optional import optional
from femtobarn._store.product_forms import Arrow, As, Awkward, NumPy, check_form, form_of, shown
from femtobarn._store.product_made import NotMadeError, maker_for
from femtobarn._store.product_read import NOTHING
from femtobarn._store.product_rows import (
    has_classes,
    kind_of,
    layout_of,
    note_kind,
    note_records,
    note_table,
    numbers_bytes,
    plain_array,
    table_bytes,
)
from femtobarn._store.product_types import (
    BYTES,
    DTYPES,
    MSGPACK,
    NUMBERS,
    PICKLE,
    SCALARS,
    ColumnType,
    Numbers,
    checked_text,
    dtype_of,
    inmost,
    is_opaque,
    length_of,
    numbers_name,
    numbers_of,
    type_name_of,
)
from femtobarn._store.product_walk import kind_in, walked
from femtobarn._store.product_write import stored_bytes
from femtobarn._store.ptr import PTR, Ptr, note_ptr
from femtobarn._writing.to_nodes import to_batches, to_list
from femtobarn.errors import ChecksumError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch, Batches, Store
    from femtobarn._store.datastore import DataStore

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
    "may_be_of_boost",
    "reading",
    "told_how",
    "type_name_of",
]


_NATURAL = {"std::string": str, PTR: Ptr}
_UNKNOWN = re.compile("no description of class|no type that is known")
_OF_BOOST = re.compile(r"hepnos::(Ptr<|ProductID\b)")


def encoded(store: DataStore, label: str, value: Any, kind: Any) -> tuple[str, bytes]:
    """Return the type name of a value, and its stored bytes.

    Parameters
    ----------
    store : DataStore
        The store that gets it.
    label : str
        The product's label, which becomes the name of unnamed classes.
    value : object
        The value.
    kind : str, type or None
        Its type, if given.

    Returns
    -------
    tuple of str and bytes
        The name and the bytes.

    Raises
    ------
    UsageError
        If it cannot be stored.
    """
    try:
        with of_product(label):
            return _encoded(store, label, value, kind)
    except UsageError as error:
        raise told_how(error, "typename='NEW', or of a list typename='std::vector<NEW>'") from error.__cause__


@contextlib.contextmanager
def of_product(label: str) -> Iterator[None]:
    """Convert errors of fields, as which values are encoded, to errors of the product.

    Parameters
    ----------
    label : str
        The product's label, which is the field's name.

    Raises
    ------
    UsageError
        If there is such an error.
    """
    try:
        yield
    except UsageError as error:
        if error._told is None:
            raise
        field, reason = error._told
        member = field.removeprefix(label).removeprefix(".")
        which = f"product {label!r}, member {member!r}" if member and field != member else f"product {label!r}"
        why = reason.replace("counterpart in RNTuple", "counterpart in the store")
        raise UsageError(f"{which}: {why}", kind=error.kind) from error.__cause__


def told_how(error: UsageError, by: str) -> UsageError:
    """Add to the error of a class with other members how to give it another name.

    Parameters
    ----------
    error : UsageError
        Any error.
    by : str
        How the name is given.

    Returns
    -------
    UsageError
        The error.
    """
    if error.kind != "class-differs":
        return error
    how = f"to give another name, use {by}, another dataclass, or for records ak.with_name"
    return UsageError(f"{error}; {how}", kind=error.kind)


def _encoded(store: DataStore, label: str, value: Any, kind: Any) -> tuple[str, bytes]:
    """Return the type name of a value, and its stored bytes."""
    checked_text(label, "label")
    name = None if kind is None else type_name_of(kind)
    if name in (None, BYTES) and isinstance(value, bytes | bytearray | memoryview):
        return BYTES, bytes(value)
    if name == PICKLE:
        return PICKLE, _pickled(label, value)
    if name == MSGPACK or (name is None and (value is None or isinstance(value, dict))):
        return MSGPACK, _packed(label, value)
    if name == BYTES:
        raise UsageError(f"product {label!r} must be bytes, not {type(value).__name__}")
    if name is not None and isinstance(value, bytes | bytearray | memoryview):
        return name, _bytes_within(label, bytes(value), name)
    _check_no_names(label, value)
    quick = _quick(label, value, name)
    if quick is not None:
        return quick
    own = kind_of(value)
    if own is not None:
        own_name = type_name_of(own)
        if kind is None or name == own_name:
            note_kind(store, own)
            plain = stored_bytes(store, own, value)
            if plain is not None:
                return own_name, plain
        kind, name = (own, own_name) if kind is None else (kind, name)
    if kind is not None and not isinstance(kind, str | ColumnType):
        note_kind(store, kind)
        name = type_name_of(kind)
        if (plain := stored_bytes(store, kind, value)) is not None:
            return name, plain
        if own is not None or not _is_array(value):
            return name, _encoded_as(store, label, kind, value, name)
        return name, _encode(store, label, _one(label, value), name)
    if own is not None and name is not None:
        note_kind(store, own, _innermost(name))
        return name, _encoded_as(store, label, own, value, name)
    if name is None and isinstance(value, list | tuple) and set(map(type, value)) == {str}:
        plain = stored_bytes(store, list[str], value)
        if plain is not None:
            return type_name_of(list[str]), plain
    if name is None and (quick := table_bytes(store, label, value)) is not None:
        return quick
    batches = _one(label, value)
    layout = _layout_of(value)
    is_described = name is not None
    if name is not None:
        if not (_is_empty(value) and _innermost(name) in dict(store._core.classes(name))):
            _describe(store._core, batches, layout, name)
    elif layout is not None and has_classes(layout) and "?" not in (found := note_records(store._core, layout, label)):
        name = found if type(value).__name__ == "Record" else f"std::vector<{found}>"
    name = name or store._core.describe(batches, label)
    stored = _encode(store, label, batches, name)
    if not is_described:
        note_table(store, label, value, name)
    return name, stored


def _encoded_as(store: DataStore, label: str, kind: Any, value: Any, name: str) -> bytes:
    """Return the stored form of a value of a Python type."""
    layout = layout_of(store, kind, [value], f"product {label!r}")
    return _encode(store, label, to_batches({label: optional("awkward", "all").Array(layout)}), name)


def _encode(store: DataStore, label: str, batches: Batches, name: str) -> bytes:
    try:
        return store._core.encode(batches, name)
    except UsageError as error:
        raise UsageError(f"product {label!r}: {error}", kind=error.kind) from error


def _pickled(label: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"product {label!r} cannot be pickled: {error}") from error


def _bytes_within(label: str, value: bytes, name: str) -> bytes:
    """Return the stored form of bytes with a given type, which must be a list of bytes."""
    if name in ("std::vector<std::uint8_t>", "std::vector<std::byte>"):
        return len(value).to_bytes(8, "little") + value
    how = (
        "give a string, e.g. value.decode()"
        if name == "std::string"
        else "give values of the type, or leave out typename"
    )
    raise UsageError(f"product {label!r} must be a {name}, not bytes: {how}")


def _packed(label: str, value: Any) -> bytes:
    """Return an object in MessagePack, if it can be restored; NumPy numbers become Python numbers."""
    msgpack = optional("msgpack", "msgpack")

    def plain(one: Any) -> Any:
        if isinstance(one, np.generic) and one.dtype.name in NUMBERS:
            return one.item()
        raise TypeError(f"can not serialize {type(one).__name__!r} object")

    try:
        packed: bytes = msgpack.packb(value, default=plain)
        msgpack.unpackb(packed, strict_map_key=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"product {label!r} cannot be stored as msgpack ({error}): it supports None, 64-bit numbers, strings, "
            "bytes, lists and dicts. Give arrays as .tolist() or as separate products, and other objects with "
            "typename='pickle'"
        ) from error
    return packed


def _check_no_names(label: str, values: Any) -> None:
    """Raise for named tuples or lists of them, which would lose their names."""
    one = values[0] if isinstance(values, list) and values else values
    if isinstance(one, tuple) and hasattr(one, "_fields"):
        members = "; ".join(f"{name}: …" for name in one._fields)
        raise UsageError(
            f"product {label!r}: the names of a namedtuple would be lost: make {type(one).__name__} a dataclass, e.g. "
            f"@dataclass class {type(one).__name__}: {members}"
        )


def _is_array(value: Any) -> bool:
    return not isinstance(value, list | tuple | Mapping | str | int | float | np.generic | None)


def _is_empty(value: Any) -> bool:
    return hasattr(value, "__len__") and len(value) == 0


def _layout_of(value: Any) -> Any:
    """Return the layout of an Awkward Array or Record; None for anything else."""
    if not type(value).__module__.startswith("awkward.") or not hasattr(value, "layout"):
        return None
    layout = value.layout
    return layout.array[layout.at : layout.at + 1] if type(layout).__name__ == "Record" else layout


def _describe(store: Store, batches: Batches, layout: Any, name: str) -> None:
    """Store the description of the class in a type's name, from the values; the class of references is known."""
    own = _innermost(name)
    if own == PTR:
        note_ptr(store)
    elif own is not None and layout is not None and has_classes(layout):
        note_records(store, layout, own, is_own=True)
    elif own is not None:
        store.describe(batches, own)


def column(store: DataStore, label: str, values: Any, kind: Any) -> tuple[str, Batches]:
    """Return the type name of many values, and the values in the core's form.

    Parameters
    ----------
    store : DataStore
        The store that gets them.
    label : str
        The product's label.
    values : array
        One value per event.
    kind : str, type or None
        Their type, if given.

    Returns
    -------
    tuple of str and Batches
        The name and the values.
    """
    with of_product(label):
        return _column(store, label, values, kind)


def _column(store: DataStore, label: str, values: Any, kind: Any) -> tuple[str, Batches]:
    core = store._core
    checked_text(label, "label")
    if values is None or isinstance(values, str | bytes | int | float | np.generic):
        raise UsageError(
            f"product {label!r}: {values!r} is one value instead of one per event: give a list or an array"
        )
    _check_no_names(label, values)
    kind = kind or _kind_of_rows(values)
    if isinstance(kind, ColumnType):
        for name, members in kind.classes:
            core.note_class(name, list(members))
        return kind.name, to_batches({label: values})
    if kind is not None and not isinstance(kind, str):
        note_kind(store, kind)
        if isinstance(values, list | tuple) and (kind is Ptr or dtype_of(inmost(kind)) is None):
            values = optional("awkward", "all").Array(layout_of(store, kind, values, f"product {label!r}"))
        return type_name_of(kind), to_batches({label: values})
    batches, layout = to_batches({label: values}), _layout_of(values)
    if kind is not None:
        _describe(core, batches, layout, type_name_of(kind))
        return type_name_of(kind), batches
    if layout is not None and has_classes(layout) and "?" not in (found := note_records(core, layout, label)):
        return found, batches
    return core.describe(batches, label), batches


def _kind_of_rows(values: Any) -> Any:
    """Return the type of a column of dataclasses or references, or of lists of them; None for other columns."""
    if not isinstance(values, list | tuple):
        return None
    one = next((value for value in values if value is not None and not (isinstance(value, list) and not value)), None)
    return kind_of(one)


def loaded(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, *, unpickle: bool = False) -> Any:
    """Return a stored value in the requested form.

    Parameters
    ----------
    store : DataStore
        Its store.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        The requested form; None for the natural one of the type.
    unpickle : bool
        Whether to unpickle pickled values. Unpickling can run any code.

    Returns
    -------
    object
        The value.

    Raises
    ------
    UsageError
        If it cannot be loaded in this form.
    """
    if form is bytes:
        return stored
    if is_opaque(type_name):
        value = _opaque(label, type_name, stored, form, unpickle)
        if form is None or value is None or isinstance(value, typing.get_origin(form) or form):
            return value
        raise UsageError(
            f"product {label!r} is stored as {type_name}, and is a {type(value).__name__}: load it without a form"
        )
    if (quick := _quick_loaded(store, label, stored, type_name, form)) is not NOTHING:
        return quick
    return decoded(store, label, type_name, [stored]).at(0, form)


def element(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, index: int) -> Any:
    """Return an element of a stored value in the requested form.

    Parameters
    ----------
    store : DataStore
        Its store.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        The requested form; None for the natural one of the type.
    index : int
        Index of the element.

    Returns
    -------
    object
        The element.

    Raises
    ------
    IndexError
        If it has fewer elements.
    UsageError
        If it has no elements, or cannot be loaded in this form.
    """
    if is_opaque(type_name) or form is bytes:
        what = "an element cannot be loaded as bytes" if form is bytes else "it has no elements to refer to"
        raise UsageError(f"product {label!r} is a {type_name}: {what}")
    return decoded(store, label, type_name, [stored]).elements(0).at(index, form)


def decoded(store: DataStore, label: str, type_name: str, stored: list[bytes | None]) -> Column:
    """Return stored values of one type.

    Parameters
    ----------
    store : DataStore
        Their store.
    label : str
        The products' label.
    type_name : str
        The type in their names.
    stored : list of bytes or None
        The stored bytes of each, or None.

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
    with reading([(label, type_name)]):
        batch = store._core.decode(stored, type_name, label)
    return Column(store, label, type_name, _awkward(batch, label))


@contextlib.contextmanager
def reading(names: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Add to errors of reading products that Boost may have written them.

    Parameters
    ----------
    names : iterable of (str, str)
        Labels and types of the products.

    Raises
    ------
    UsageError
        If only C++ can read one.
    """
    names = list(names)
    for label, type_name in names:
        if _OF_BOOST.search(type_name):
            raise UsageError(
                f"product {label!r} is a {type_name}, which HEPnOS's classes store with Boost: only C++ can read it; "
                "load it as bytes"
            )
    try:
        yield
    except UsageError as error:
        is_unknown = _UNKNOWN.search(str(error)) is not None and "did you mean" not in str(error)
        if error.kind != "product-type" or not is_unknown:
            raise
        raise UsageError(
            f"{error}; C++ may have stored it with Boost, which only C++ can read: load it as bytes", kind=error.kind
        ) from None
    except FormatError as error:
        if isinstance(error, ChecksumError) or error._object is not None:
            raise  # it is damaged, whichever program has stored it
        others = [label for label, kind in names if may_be_of_boost(kind)]
        if not others:
            raise
        which = f"product {others[0]!r}: " if len(names) == 1 else ""
        raise FormatError(
            f"{which}{error}; or hepnos.hpp has stored it: except for numbers, plain structs and vectors of them, it "
            "uses Boost, which only C++ can read; load it as bytes",
            kind=error.kind,
        ) from None


def may_be_of_boost(type_name: str) -> bool:
    """Return whether hepnos.hpp may store values of a type with Boost: all except numbers and vectors of numbers.

    Parameters
    ----------
    type_name : str
        The type.

    Returns
    -------
    bool
        Whether it may.
    """
    return type_name.removeprefix("std::vector<").removesuffix(">") not in DTYPES


def _quick_loaded(store: DataStore, label: str, stored: bytes, type_name: str, form: Any) -> Any:
    """Return a value that can be read directly; `NOTHING` for other values, or if it is damaged."""
    dtype, numbers = DTYPES.get(type_name), numbers_of(type_name)
    if form is None and (type_name in ("std::string", PTR) or dtype is not None):
        form = _NATURAL.get(type_name, object)
    if form is not None and not isinstance(form, As):
        check_form(label, form)
        try:
            return walked(store, stored, type_name, form)
        except NotMadeError as error:
            raise _is_none(label, type_name, form, error) from None
    if numbers is None:
        array = None if dtype is not None else plain_array(stored, kind_in(store, type_name), form)
        return NOTHING if array is None else array
    if numbers.dtype.kind == "b" or form is Arrow:
        return NOTHING
    n = length_of(stored, numbers.n_bytes) if numbers.is_list else 1 if len(stored) == numbers.n_bytes else None
    if n is None:
        return NOTHING
    array = np.frombuffer(stored, numbers.dtype.newbyteorder("<"), offset=8 if numbers.is_list else 0)
    array = array.reshape(*((n,) if numbers.is_list else ()), *numbers.shape)
    if form is NumPy:
        return array
    ak = optional("awkward", "all")
    return ak.Array(ak.contents.NumpyArray(array))  # the same result as ak.Array, without inspecting the argument


def _is_none(label: str, type_name: str, form: Any, error: NotMadeError) -> UsageError:
    why = f": {error}" if str(error) else ""
    return UsageError(f"product {label!r} has type {type_name} and cannot be loaded as {shown(form)}{why}")


def _opaque(label: str, type_name: str, stored: bytes, form: Any, unpickle: bool) -> Any:
    if isinstance(form, As):
        raise UsageError(f"product {label!r} is stored as {type_name}, which is not an array: load it without a form")
    if form is not None and not isinstance(typing.get_origin(form) or form, type):
        check_form(label, form)
    if type_name == MSGPACK:
        try:
            return optional("msgpack", "msgpack").unpackb(stored, strict_map_key=False)
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"product {label!r} is not readable as msgpack: {error}", kind="product-damaged"
            ) from error
    if type_name == PICKLE:
        if not unpickle:
            raise UsageError(
                f"product {label!r} is pickled, and unpickling can run any code: if you trust the program that stored "
                "it, load it with unpickle=True"
            )
        return pickle.loads(stored)
    return stored


def _quick(label: str, value: Any, name: str | None) -> tuple[str, bytes] | None:
    """Return the stored form of simple numbers and strings; None for other values."""
    if type(value) in SCALARS and name in (None, SCALARS[type(value)]):
        own = SCALARS[type(value)]
        if isinstance(value, str):
            text = checked_text(value, "value").encode()
            return own, len(text).to_bytes(8, "little") + text
        if own == "std::int64_t" and not -(2**63) <= value < 2**63:
            if not 0 <= value < 2**64 or name is not None:
                raise UsageError(f"product {label!r}: {value} is out of range for {name or 'integer'}")
            own = "std::uint64_t"
        return own, np.asarray(value, DTYPES[own]).astype(DTYPES[own].newbyteorder("<")).tobytes()
    if isinstance(value, np.generic) and value.dtype.name in NUMBERS:
        own = NUMBERS[value.dtype.name]
        if name in (None, own):
            return own, value.astype(value.dtype.newbyteorder("<")).tobytes()
    if isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.name in NUMBERS and 0 not in value.shape[1:]:
        return None if isinstance(value, np.ma.MaskedArray) else _quick_array(value, name)
    return _quick_list(value, name) if isinstance(value, list | tuple) else None


def _quick_array(value: np.ndarray[Any, Any], name: str | None) -> tuple[str, bytes] | None:
    """Return the stored form of a NumPy array of numbers; None if the type has other numbers."""
    own = numbers_name(value.dtype, value.shape)
    if name in (None, own):
        return own, len(value).to_bytes(8, "little") + value.astype(value.dtype.newbyteorder("<")).tobytes()
    if numbers_of(name) == Numbers(False, value.shape, DTYPES[NUMBERS[value.dtype.name]]):
        return name, value.astype(value.dtype.newbyteorder("<")).tobytes()
    return None


def _quick_list(value: list[Any] | tuple[Any, ...], name: str | None) -> tuple[str, bytes] | None:
    """Return the stored form of a list of numbers; None for other lists."""
    wanted = None if name is None else numbers_of(name)
    if name is None or wanted is None or wanted.ndim != 1:
        quick = numbers_bytes(value, None) if name is None else None
        return None if quick is None else (f"std::vector<{NUMBERS[quick[0]]}>", quick[1])
    quick = numbers_bytes(value, wanted.dtype.name)
    if quick is None or (not wanted.is_list and wanted.shape != (len(value),)):
        return None
    return name, quick[1] if wanted.is_list else quick[1][8:]


def _one(label: str, value: Any) -> Batches:
    """Return a value as a column with one entry."""
    layout = _layout_of(value)
    if layout is not None and type(value).__name__ == "Record":
        return to_batches({label: optional("awkward", "all").Array(layout)})
    _check_index(label, value)
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0 and not isinstance(value, str | bytes):
        return to_batches({label: np.asarray(value).reshape(1)})
    if isinstance(value, str | int | float | Mapping | None):
        return to_batches({label: [value]})
    is_arrow = hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")
    if not (is_arrow or isinstance(value, Iterable)):
        raise UsageError(
            f"product {label!r} cannot be stored: {type(value).__name__} is not an array; give bytes, numbers, arrays, "
            "dataclasses, or typename='msgpack' or typename='pickle' for other objects"
        )
    return to_list(label, list(value) if isinstance(value, tuple) else value)


def _check_index(label: str, value: Any) -> None:
    """Raise if the index of a pandas DataFrame would be lost: it has no name and is not a plain count."""
    if type(value).__name__ != "DataFrame" or type(value).__module__.split(".")[0] != "pandas":
        return
    index = value.index
    if type(index).__name__ == "RangeIndex" or index.equals(optional("pandas", "pandas").RangeIndex(len(index))):
        return
    if None in index.names:
        raise UsageError(
            f"product {label!r}: the index of the DataFrame has no name, and would be lost: keep it as a column with "
            ".rename_axis('name'), or leave it out with .reset_index(drop=True)"
        )


def _innermost(name: str | None) -> str | None:
    """Return ``Track`` of ``std::vector<Track>``: the class for unnamed records."""
    if name is None:
        return None
    inner = name.rpartition("<")[2].strip("> ")
    return inner if inner and not inner.startswith("std::") and inner not in DTYPES else None


def _awkward(batch: Batch, label: str) -> Any:
    optional("awkward", "all")
    from femtobarn._files.awkward_arrays import to_array

    return to_array(batch, named=True)[label]


class Column:
    """Values of one type that are decoded together; each event has one or none.

    Parameters
    ----------
    store : DataStore
        Their store.
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
        """Return the elements of a value.

        Parameters
        ----------
        n : int
            Index of the value.

        Returns
        -------
        Column
            Its elements.

        Raises
        ------
        UsageError
            If its type has no elements.
        """
        if self._array.ndim < 2:
            raise UsageError(f"product {self._label!r} is a {self._type_name}, which has no elements to refer to")
        item = self._type_name.removeprefix("std::vector<").removesuffix(">")
        return Column(self._store, self._label, item, self._array[n])

    def at(self, n: int, form: Any) -> Any:
        """Return an existing value.

        Parameters
        ----------
        n : int
            Index of the value.
        form : As, type or None
            The requested form; None for the natural one of the type.

        Returns
        -------
        object
            The value.

        Raises
        ------
        IndexError
            If there are fewer values.
        UsageError
            If it cannot be loaded in this form.
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
    """Return a value as a Python type: a number, a string, a dataclass, or a list of these."""
    check_form(label, form)
    try:
        make = maker_for(kind_in(store, type_name), form)
        return plain if make is None else make(store, plain)
    except NotMadeError as error:
        raise _is_none(label, type_name, form, error) from None
