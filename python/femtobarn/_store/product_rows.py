"""Python values as columns of products, by their types, and simple ones directly as bytes."""

from __future__ import annotations

import dataclasses
import functools
import re
import struct
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._core import CLASSES_KNOWN_FOR
from femtobarn._shared.optional import optional
from femtobarn._store.product_forms import As
from femtobarn._store.product_kinds import MOST_EXACT, Kind, List, Number, Record, code_of
from femtobarn._store.product_read import is_plain
from femtobarn._store.product_types import (
    BYTES,
    DTYPES,
    MSGPACK,
    PICKLE,
    dtype_of,
    hints_of,
    inmost,
    is_dataclass_type,
    item_of,
    length_of,
    member_type_name,
    optional_of,
)
from femtobarn._store.product_walk import forget_kinds, kind_in
from femtobarn._store.product_write import are_numbers
from femtobarn._store.ptr import Ptr, note_ptr, ptr_column, text_column
from femtobarn._writing.to_nodes import to_batches
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import Store
    from femtobarn._store.datastore import DataStore

__all__ = [
    "class_of",
    "forget_class",
    "has_classes",
    "kind_of",
    "layout_of",
    "note_kind",
    "note_records",
    "note_table",
    "numbers_bytes",
    "plain_array",
    "table_bytes",
]

_CLASS = re.compile(r"(?!std::)[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[\w:<>, ]+>)?", re.ASCII)

# Known classes of each store, and the time until which their members cannot change
_noted: weakref.WeakKeyDictionary[DataStore, dict[tuple[type, str], float]] = weakref.WeakKeyDictionary()

# Types of stored arrays with fields, by label and dtype, and the time until which their classes cannot change
_tables: weakref.WeakKeyDictionary[DataStore, dict[tuple[str, np.dtype[Any]], tuple[str, float]]] = (
    weakref.WeakKeyDictionary()
)
_MOST_TABLES = 1024


def kind_of(value: Any) -> Any:
    """Return the type of a dataclass, a reference, or a list of these; None for other values.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    type or None
        Its type.
    """
    one = value[0] if isinstance(value, list | tuple) and value else value
    kind = type(one)
    if kind is not Ptr and not is_dataclass_type(kind):
        return None
    return kind if one is value else list[kind]  # type: ignore[valid-type]


def note_kind(store: DataStore, kind: Any, name: str | None = None, above: tuple[type, ...] = ()) -> None:
    """Store descriptions of the classes of a type, with members from annotations.

    Parameters
    ----------
    store : DataStore
        Where.
    kind : type
        The type.
    name : str, optional
        The name for the dataclass of its items, if it differs from its own.
    above : tuple of type
        The classes that contain it.

    Raises
    ------
    UsageError
        If an annotation is not supported in products, or the store has a class of this name with other members.
    """
    kind = inmost(kind)
    if kind is Ptr:
        note_ptr(store._core)
        return
    if not is_dataclass_type(kind):
        return
    name = name or str(kind.__name__)
    known = _noted.setdefault(store, {})
    now = time.monotonic()
    if known.get((kind, name), 0) > now:
        return
    members = []
    for member, hint in hints_of(kind).items():
        if inmost(hint) in (*above, kind):
            raise UsageError(
                f"member {member!r} of {kind.__name__}: a class cannot contain itself, here {inmost(hint).__name__}: "
                "store a flat list of them, with the indices of their children"
            )
        note_kind(store, hint, above=(*above, kind))
        try:
            members.append((member, member_type_name(hint)))
        except UsageError as error:
            raise UsageError(f"member {member!r} of {kind.__name__}: {error}") from None
    store._core.note_class(name, members)
    known[kind, name] = now + CLASSES_KNOWN_FOR


def layout_of(store: DataStore, kind: Any, values: Sequence[Any], where: str) -> Any:
    """Return values of one type as a layout of Awkward, using the type, which Python lists alone do not determine.

    Parameters
    ----------
    store : DataStore
        The store that gets them.
    kind : type
        Their type.
    values : sequence
        The values.
    where : str
        Their name, for messages.

    Returns
    -------
    ak.contents.Content
        The layout.

    Raises
    ------
    UsageError
        If a value is not of the type.
    """
    ak = optional("awkward", "all")
    if kind is Ptr:
        return ptr_column(store, values).layout
    if (inner := optional_of(kind)) is not None:
        is_there = np.array([value is not None for value in values], bool)
        index = np.where(is_there, np.cumsum(is_there) - 1, -1)
        content = layout_of(store, inner, [value for value in values if value is not None], where)
        return ak.contents.IndexedOptionArray(ak.index.Index64(index), content)
    if (inner := item_of(kind)) is not None:
        lists = [_items(value, kind, where) for value in values]
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(items) for items in lists], out=offsets[1:])
        if lists and dtype_of(inner) is not None and all(isinstance(items, np.ndarray) for items in lists):
            content = ak.contents.NumpyArray(np.concatenate(lists))
        else:
            content = layout_of(store, inner, [item for items in lists for item in items], where)
        return ak.contents.ListOffsetArray(ak.index.Index64(offsets), content)
    if is_dataclass_type(kind):
        names = list(hints_of(kind))
        rows = [_members(value, kind, names, where) for value in values]
        columns = [
            layout_of(store, hint, [row[n] for row in rows], f"{where}, member {name!r} of {kind.__name__}")
            for n, (name, hint) in enumerate(hints_of(kind).items())
        ]
        return ak.contents.RecordArray(columns, names, len(values))
    if kind is str:
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            raise _is_none(wrong[0], kind, where)
        try:
            return text_column(values)
        except UnicodeEncodeError as error:
            raise UsageError(f"{where}: {error.object!r} is not valid UTF-8 ({error.reason})") from None
    if kind is bytes:
        wrong = [value for value in values if not isinstance(value, bytes | bytearray | memoryview)]
        if wrong:
            raise _is_none(wrong[0], kind, where)
        items = [np.frombuffer(value, np.uint8) for value in values]
        return layout_of(store, list[np.uint8], items, where)
    dtype = dtype_of(kind)
    if dtype is None:
        raise UsageError(f"{where}: values of type {kind!r} cannot be given as lists of Python; give an array")
    return ak.contents.NumpyArray(_numbers(values, dtype, kind, where))


def _is_none(value: Any, kind: Any, where: str) -> UsageError:
    name = getattr(kind, "__name__", str(kind))
    advice = f"; for values that may be missing, use {name} | None" if value is None else ""
    return UsageError(f"{where}: {value!r} is not of type {name}{advice}")


def _items(value: Any, kind: Any, where: str) -> Any:
    """Return the items of a list."""
    if isinstance(value, list | tuple):
        return value
    # items of an object array or a masked array can be anything, or missing
    if (
        isinstance(value, np.ndarray)
        and not isinstance(value, np.ma.MaskedArray)
        and value.ndim == 1
        and value.dtype != object
    ):
        return value
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _is_none(value, kind, where)
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _members(value: Any, kind: type, names: list[str], where: str) -> list[Any]:
    """Return the members of a dataclass, or of a dict or record with the same members."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value) is kind or [field.name for field in dataclasses.fields(value)] == names:
            unset = [name for name in names if not hasattr(value, name)]
            if unset:
                raise UsageError(f"{where}: member {unset[0]!r} of this {type(value).__name__} has no value")
            return [getattr(value, name) for name in names]
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping) and value.keys() == set(names):
        return [value[name] for name in names]
    raise _is_none(value, kind, f"{where}: it has the members {', '.join(names)}")


def _numbers(values: Sequence[Any], dtype: np.dtype[Any], kind: Any, where: str) -> np.ndarray[Any, Any]:
    """Return numbers as an array without changing any; storing checks whether they fit the type."""
    kinds = set(map(type, values))
    if not kinds:
        return np.empty(0, dtype)
    if not all(issubclass(one, bool | int | float | np.bool_ | np.integer | np.floating) for one in kinds):
        wrong = next(v for v in values if not isinstance(v, bool | int | float | np.bool_ | np.integer | np.floating))
        raise _is_none(wrong, kind, where)
    if len(kinds) == 1 and not kinds <= {int}:
        return np.array(values)
    if all(issubclass(one, int | np.integer | np.bool_) for one in kinds):
        integers = [int(value) for value in values]
        low, high = min(integers), max(integers)
        if low >= -(2**63) and high < 2**63:
            return np.array(integers, np.int64)
        if low >= 0 and high < 2**64:
            return np.array(integers, np.uint64)
        raise UsageError(f"{where}: {high if high >= 2**63 else low} does not fit into {dtype}")
    wide = [v for v in values if isinstance(v, int | np.integer) and not -MOST_EXACT <= v <= MOST_EXACT]
    if wide:
        raise UsageError(f"{where}: the integer {wide[0]} cannot be represented exactly among floats")
    return np.array([float(value) for value in values])


def note_records(store: Store, layout: Any, name: str, *, is_own: bool = False) -> str:
    """Store descriptions of the named records in an array, and return the name of its type.

    Parameters
    ----------
    store : Store
        Where.
    layout : ak.contents.Content
        The array.
    name : str
        The class of records without a name; nested ones get ``class::member``.
    is_own : bool
        Whether the outermost records get this name even if they have their own.

    Returns
    -------
    str
        The name.
    """
    if layout.is_option:
        inner = note_records(store, layout.content, name, is_own=is_own)
        return inner if inner.startswith("std::optional<") else f"std::optional<{inner}>"
    if layout.is_indexed:
        return note_records(store, layout.project(), name, is_own=is_own)
    if (layout.is_list or layout.is_regular) and layout.parameter("__array__") is None:
        inner = note_records(store, layout.content, name, is_own=is_own)
        return f"std::array<{inner},{layout.size}>" if layout.is_regular else f"std::vector<{inner}>"
    if layout.is_record and not layout.is_tuple:
        own = name if is_own else class_of(layout) or "::".join(map(_core.identifier, name.split("::")))
        within = {key: f"{own}::{_core.identifier(key)}" for key in layout.fields}
        members = [(key, note_records(store, layout.content(key), within[key])) for key in layout.fields]
        if not any("?" in kind for _, kind in members):
            store.note_class(own, members)
        return own if not any("?" in kind for _, kind in members) else "?"
    if layout.is_unknown:
        return "?"
    return store.describe(to_batches({name: optional("awkward", "all").Array(layout)}), name)


def class_of(layout: Any) -> str | None:
    """Return the class name of records; None if they have none.

    Parameters
    ----------
    layout : ak.contents.Content
        The records.

    Returns
    -------
    str or None
        The name.
    """
    name = layout.parameter("__record__")
    is_class = isinstance(name, str) and _CLASS.fullmatch(name) is not None
    return name if is_class and name not in (*DTYPES, BYTES, MSGPACK, PICKLE) else None


def has_classes(layout: Any) -> bool:
    """Return whether an array contains named records.

    Parameters
    ----------
    layout : ak.contents.Content
        The array.

    Returns
    -------
    bool
        True if it does.
    """
    if layout.is_record:
        is_named = not layout.is_tuple and class_of(layout) is not None
        return is_named or any(has_classes(content) for content in layout.contents)
    if layout.is_union:
        return False
    return hasattr(layout, "content") and not layout.is_record and has_classes(layout.content)


def numbers_bytes(values: Sequence[Any], dtype: str | None) -> tuple[str, bytes] | None:
    """Return the stored form of a list of numbers; None for anything else.

    Parameters
    ----------
    values : sequence
        The list.
    dtype : str or None
        The dtype, if known.

    Returns
    -------
    tuple of str and bytes or None
        The dtype, and the bytes.
    """
    own = dtype or {bool: "bool", int: "int64", float: "float64"}.get(type(values[0])) if values else None
    if own is None or not are_numbers(own, values) or (dtype is None and len(set(map(type, values))) != 1):
        return None
    try:
        return own, len(values).to_bytes(8, "little") + struct.pack(f"<{len(values)}{code_of(np.dtype(own))}", *values)
    except (struct.error, OverflowError):
        return None


@functools.lru_cache(maxsize=1024)
def _places(kind: Record) -> np.dtype[Any]:
    """Return the layout of members that are numbers; a bool is a byte, which C++ may have stored with any value."""
    formats = [(name, member.dtype.name.replace("bool", "uint8")) for name, member in kind.members]  # type: ignore[union-attr]
    return np.dtype(formats, align=True).newbyteorder("<")


def plain_array(stored: bytes, kind: Kind, form: As | None) -> Any:
    """Return a list of a class of numbers as an array; None for anything else, or if it is damaged.

    Parameters
    ----------
    stored : bytes
        The stored bytes.
    kind : Kind
        What it is.
    form : As or None
        The requested form.

    Returns
    -------
    array or None
        The elements: as an array of NumPy with fields, or as an Awkward Array of records.
    """
    if form not in (None, As.NumPy, As.Awkward) or not isinstance(kind, List) or not is_plain(kind.item):
        return None
    places = _places(kind.item)
    n = length_of(stored, places.itemsize)
    if n is None:
        return None
    rows = np.frombuffer(stored, places, offset=8)
    dtypes = [(name, member.dtype) for name, member in kind.item.members if isinstance(member, Number)]
    columns = [rows[name] != 0 if dtype.kind == "b" else rows[name].astype(dtype) for name, dtype in dtypes]
    if form is As.NumPy:
        array = np.empty(n, dtypes)
        for (name, _), column in zip(dtypes, columns, strict=True):
            array[name] = column
        return array
    ak = optional("awkward", "all")
    contents = [ak.contents.NumpyArray(column) for column in columns]
    names = [name for name, _ in dtypes]
    return ak.Array(ak.contents.RecordArray(contents, names, n, parameters={"__record__": kind.item.name}))


def table_bytes(store: DataStore, label: str, value: Any) -> tuple[str, bytes] | None:
    """Return the stored form of a NumPy array with fields, if a similar one was stored shortly before.

    Parameters
    ----------
    store : DataStore
        The store that gets it.
    label : str
        The product's label, which is the name of its class.
    value : object
        The value.

    Returns
    -------
    tuple of str and bytes or None
        The type and the bytes; None for anything else.
    """
    if type(value) is not np.ndarray or value.dtype.names is None or value.ndim != 1:
        return None
    name, until = _tables.get(store, {}).get((label, value.dtype), ("", 0.0))
    if until <= time.monotonic():
        return None
    kind = kind_in(store, name)
    if not isinstance(kind, List) or not is_plain(kind.item):
        return None
    rows = np.zeros(len(value), _places(kind.item))
    for member in value.dtype.names:
        rows[member] = value[member]
    return name, len(value).to_bytes(8, "little") + rows.tobytes()


def note_table(store: DataStore, label: str, value: Any, name: str) -> None:
    """Remember that an array was stored, so that its class keeps these members for a while.

    Parameters
    ----------
    store : DataStore
        The store that got it.
    label : str
        The product's label.
    value : object
        The value; only NumPy arrays with fields are remembered.
    name : str
        Its stored type.
    """
    if type(value) is np.ndarray and value.dtype.names is not None:
        known = _tables.setdefault(store, {})
        if len(known) >= _MOST_TABLES:
            known.clear()
        known[label, value.dtype] = name, time.monotonic() + CLASSES_KNOWN_FOR


def forget_class(store: DataStore, name: str) -> None:
    """Clear the known classes of a store, because the members of one may change.

    Parameters
    ----------
    store : DataStore
        The store.
    name : str
        The class.
    """
    store._core.forget_class(name)
    forget_kinds(store)
    _tables.pop(store, None)
    _noted.pop(store, None)
