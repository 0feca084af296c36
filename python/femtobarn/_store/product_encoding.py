"""Encoding of values as products of an event store; `product_decoding` is the way back.

The type in a product's name describes its value. Numbers, strings, arrays and dataclasses have C++ types, so that C++
programs can load them, and products of many events become columns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._shared.optional import is_awkward, optional
from femtobarn._store.product_classes import has_classes, kind_of, note_kind, note_records
from femtobarn._store.product_decoding import rows_dtype
from femtobarn._store.product_types import (
    BYTES,
    DTYPES,
    MSGPACK,
    NUMBERS,
    PICKLE,
    checked_text,
    dtype_of,
    inmost,
    type_name_of,
)
from femtobarn._store.ptr import PTR, Ptr, note_ptr
from femtobarn._writing.to_nodes import counts_rows, to_batches, to_list
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batches, Codec, Encoded, Store
    from femtobarn._store.datastore import DataStore

__all__ = ["column", "encoded", "told_how"]


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
    if (known := store._codec.dump(label, value, kind)) is not None:
        return known
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
    if (walked := _walked(store, label, value, kind, name)) is not None:
        return walked
    if name is None and (table := _table(store._codec, label, value)) is not None:
        return table
    batches = _one(label, _without_classes(value))
    layout = _layout_of(value)
    if name is None and layout is not None and has_classes(layout):
        found = note_records(store, layout, label)
        if "?" not in found:
            name = found if type(value).__name__ == "Record" else f"std::vector<{found}>"
    elif isinstance(kind, str) and not _has_class_of(store._core, value, str(name)):
        _describe(store, batches, layout, str(name))
    name = name or store._core.describe(batches, label)
    return name, _encode(store, label, batches, name)


def _has_class_of(core: Store, value: Any, name: str) -> bool:
    """Return whether values are none, and a store knows the class in a type's name, of which they say nothing."""
    return _is_empty(value) and _innermost(name) in dict(core.classes(name))


def _walked(store: DataStore, label: str, value: Any, kind: Any, name: str | None) -> tuple[str, bytes] | None:
    """Return a value that the core walks, when it knows what its class is; None if it is to be a column."""
    codec, own = store._codec, kind_of(value)
    if own is not None and name in (None, type_name_of(own)):
        one = inmost(own)
        note_kind(store, one)
        codec.learn(one, type_name_of(one))
        return codec.dump(label, value)
    if own is not None and isinstance(kind, str):
        note_kind(store, own, _innermost(name))
        stored = codec.write(label, value, str(name))
        return None if stored is None else (str(name), stored)
    if kind is None or (isinstance(kind, str) and _innermost(name) is not None):
        return None
    note_kind(store, kind)
    try:
        codec.learn(kind, str(name))
    except UsageError as error:
        raise UsageError(f"product {label!r}: {error}", kind=error.kind) from error
    return codec.dump(label, value, kind)


def _without_classes(value: Any) -> Any:
    """Return dataclasses, or a list of them, as dicts."""
    if isinstance(value, list | tuple):
        return [_without_classes(one) for one in value] if kind_of(value) is not None else value
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _table(codec: Codec, label: str, value: Any) -> tuple[str, bytes] | None:
    """Return an array of NumPy with fields that are numbers as it is stored; None of anything else."""
    if type(value) is not np.ndarray or value.dtype.names is None or value.ndim != 1:
        return None
    members = [(name, NUMBERS.get(value.dtype[name].name, "")) for name in value.dtype.names]
    if not members or not all(kind for _, kind in members):
        return None
    own = "::".join(map(_core.identifier, label.split("::")))
    codec.note_class(own, members)
    places = _places(codec, f"std::vector<{own}>")
    if places is None:
        return None
    rows = np.zeros(len(value), places)
    for name in value.dtype.names:
        rows[name] = value[name]
    return f"std::vector<{own}>", len(value).to_bytes(8, "little") + rows.tobytes()


def _places(codec: Codec, type_name: str) -> np.dtype[Any] | None:
    """Return where the numbers in lists of a class lie; None if it has something else."""
    view = codec.view(bytes(8), type_name)
    return rows_dtype(view[1], view[2]) if view is not None and isinstance(view[1], int) else None


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


def _is_empty(value: Any) -> bool:
    return hasattr(value, "__len__") and len(value) == 0


def _layout_of(value: Any) -> Any:
    """Return the layout of an Awkward Array or Record; None for anything else."""
    if not is_awkward(value):
        return None
    layout = value.layout
    return layout.array[layout.at : layout.at + 1] if type(layout).__name__ == "Record" else layout


def _describe(store: DataStore, batches: Batches, layout: Any, name: str) -> None:
    """Store the description of the class in a type's name, from the values; the class of references is known."""
    own = _innermost(name)
    if own == PTR:
        note_ptr(store._codec)
    elif own is not None and layout is not None and has_classes(layout):
        note_records(store, layout, own, is_own=True)
    elif own is not None:
        store._core.describe(batches, own)


def column(store: DataStore, label: str, values: Any, kind: Any) -> tuple[str, Batches | Encoded]:
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
    tuple of str and Batches or Encoded
        The name and the values.
    """
    with of_product(label):
        return _column(store, label, values, kind)


def _column(store: DataStore, label: str, values: Any, kind: Any) -> tuple[str, Batches | Encoded]:
    codec = store._codec
    checked_text(label, "label")
    if values is None or isinstance(values, str | bytes | int | float | np.generic):
        raise UsageError(
            f"product {label!r}: {values!r} is one value instead of one per event: give a list or an array"
        )
    _check_no_names(label, values)
    kind = kind or _kind_of_rows(values)
    if kind is not None and not isinstance(kind, str):
        note_kind(store, kind)
        name = type_name_of(kind)
        if isinstance(values, list | tuple) and (kind is Ptr or dtype_of(inmost(kind)) is None):
            written = codec.write_all(label, values, name)
            if written is not None:
                return name, written
        return name, to_batches({label: values})
    batches, layout = to_batches({label: values}), _layout_of(values)
    if kind is not None:
        _describe(store, batches, layout, type_name_of(kind))
        return type_name_of(kind), batches
    if layout is not None and has_classes(layout) and "?" not in (found := note_records(store, layout, label)):
        return found, batches
    return store._core.describe(batches, label), batches


def _kind_of_rows(values: Any) -> Any:
    """Return the type of a column of dataclasses or references, or of lists of them; None for other columns."""
    if not isinstance(values, list | tuple):
        return None
    one = next((value for value in values if value is not None and not (isinstance(value, list) and not value)), None)
    return kind_of(one)


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
    if None in value.index.names and not counts_rows(value.index):
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
