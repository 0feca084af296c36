"""Stored form of Python values: dataclasses, references and lists of them, without columns.

Values that do not directly match their type are left to columns, which report errors.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from femtobarn._store.product_kinds import (
    MOST_EXACT,
    Kind,
    List,
    Number,
    OddError,
    Optional,
    Record,
    Text,
    code_of,
    kind_named,
    size_of,
)
from femtobarn._store.product_read import is_plain, multiples, packing_of
from femtobarn._store.product_types import (
    dtype_of,
    hints_of,
    inmost,
    is_dataclass_type,
    item_of,
    member_type_name,
    optional_of,
    type_name_of,
)
from femtobarn._store.ptr import Ptr, bytes_of

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["are_numbers", "stored_bytes"]

_Write: TypeAlias = Callable[["DataStore", Any], bytes]
_INTEGERS = frozenset({int, *(np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8))})
_REALS = {"float32": frozenset({float, np.float32}), "float64": frozenset({float, np.float64, np.float32})}


def stored_bytes(store: DataStore, kind: Any, value: Any) -> bytes | None:
    """Return the stored form of a value of a Python type.

    Parameters
    ----------
    store : DataStore
        The store that gets it.
    kind : type
        Its type: a dataclass, a reference, or a list of one.
    value : object
        The value.

    Returns
    -------
    bytes or None
        The bytes; None if it does not directly match its type, or the type is not supported here.
    """
    write = _writer_of(kind)
    if write is None:
        return None
    try:
        return write(store, value)
    except (AttributeError, OverflowError, ValueError, struct.error):
        return None


@functools.lru_cache(maxsize=1024)
def _writer_of(kind: Any) -> _Write | None:
    return _writer(kind_named(type_name_of(kind), _classes_in(kind)), kind)


def _classes_in(kind: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the classes in a type, with members from annotations."""
    kind, classes = inmost(kind), {}
    if is_dataclass_type(kind):
        for hint in hints_of(kind).values():
            classes.update(_classes_in(hint))
        classes[kind.__name__] = [(member, member_type_name(hint)) for member, hint in hints_of(kind).items()]
    return classes


def _writer(kind: Kind, form: Any) -> _Write | None:
    """Return a function that writes values of a Python type as a kind; None if columns are needed."""
    if form is Ptr:
        return _write_ptr
    if isinstance(kind, Number) and dtype_of(form) == kind.dtype:
        return functools.partial(_write_number, kind.dtype.name, struct.Struct("<" + code_of(kind.dtype)))
    if isinstance(kind, Text):
        return _write_text
    if isinstance(kind, Record) and is_dataclass_type(form):
        return _record(kind, form)
    if isinstance(kind, List) and form is bytes:
        return _write_bytes
    item, inner = (kind.item, item_of(form) or optional_of(form)) if isinstance(kind, List | Optional) else (None, None)
    if item is None or inner is None:
        return None
    if isinstance(kind, List) and isinstance(item, Number):
        return functools.partial(_write_numbers, item.dtype)
    if isinstance(kind, List) and is_plain(item) and is_dataclass_type(inner):
        return functools.partial(_write_rows, _plain(item, inner))
    if (write := _writer(item, inner)) is None:
        return None
    return functools.partial(_write_list if isinstance(kind, List) else _write_optional, write)


def are_numbers(dtype: str, values: Sequence[Any]) -> bool:
    """Return whether numbers can be packed directly; other types need a closer check.

    Parameters
    ----------
    dtype : str
        The dtype to store.
    values : sequence
        The values.

    Returns
    -------
    bool
        Whether they are.
    """
    kinds = set(map(type, values))
    if dtype == "bool":
        return kinds <= {bool, np.bool_}
    if not dtype.startswith("float"):
        return kinds <= _INTEGERS
    if kinds <= _REALS[dtype]:
        return True
    is_exact = dtype == "float64" and kinds <= {float, int}
    return is_exact and all(type(one) is float or -MOST_EXACT <= one <= MOST_EXACT for one in values)


def _write_number(dtype: str, packing: struct.Struct, _: DataStore, value: Any) -> bytes:
    if not are_numbers(dtype, (value,)):
        raise OddError
    return packing.pack(value)


def _write_numbers(dtype: np.dtype[Any], _: DataStore, values: Any) -> bytes:
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype == dtype:
        return len(values).to_bytes(8, "little") + values.astype(dtype.newbyteorder("<")).tobytes()
    if not isinstance(values, list | tuple) or not are_numbers(dtype.name, values):
        raise OddError
    return len(values).to_bytes(8, "little") + struct.pack(f"<{len(values)}{code_of(dtype)}", *values)


def _write_text(_: DataStore, value: Any) -> bytes:
    if type(value) is not str:
        raise OddError
    text = value.encode()
    return len(text).to_bytes(8, "little") + text


def _write_bytes(_: DataStore, value: Any) -> bytes:
    if type(value) is not bytes:
        raise OddError
    return len(value).to_bytes(8, "little") + value


def _write_ptr(store: DataStore, value: Any) -> bytes:
    if type(value) is not Ptr:
        raise OddError
    stored = bytes_of(store, value)
    if stored is None:
        raise OddError
    return stored


def _write_optional(write: _Write, store: DataStore, value: Any) -> bytes:
    return b"\0" if value is None else b"\1" + write(store, value)


def _write_list(write: _Write, store: DataStore, values: Any) -> bytes:
    if not isinstance(values, list | tuple):
        raise OddError
    return len(values).to_bytes(8, "little") + b"".join([write(store, value) for value in values])


_Rows: TypeAlias = Callable[[Sequence[Any]], bytes]


def _plain(kind: Record, form: type) -> _Rows:
    """Return a function that writes dataclasses of numbers in their memory layout."""
    names, packing = [name for name, _ in kind.members], packing_of(kind)
    dtypes = [member.dtype.name for _, member in kind.members if isinstance(member, Number)]
    members = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    def write(values: Sequence[Any]) -> bytes:
        if not values:
            return b""
        if set(map(type, values)) != {form}:
            raise OddError
        rows = list(map(members, values))
        if not all(map(are_numbers, dtypes, zip(*rows, strict=True))):
            raise OddError
        return b"".join(starmap(packing.pack, rows))

    return write


def _write_rows(write: _Rows, _: DataStore, values: Any) -> bytes:
    if not isinstance(values, list | tuple):
        raise OddError
    return len(values).to_bytes(8, "little") + write(values)


def _record(kind: Record, form: type) -> _Write | None:
    """Return a function that writes a dataclass."""
    if is_plain(kind):
        write = _plain(kind, form)
        return lambda _, value: write((value,))
    hints = hints_of(form)
    writers = [_writer(member, hints[name]) for name, member in kind.members]
    if not writers or None in writers:
        return None
    size = size_of(kind)
    steps = list(zip(hints, writers, multiples(kind), strict=True))
    whole = 1 if size is None else size[1]

    def write_all(store: DataStore, value: Any) -> bytes:
        if type(value) is not form:
            raise OddError
        written = bytearray()
        for name, writer, multiple in steps:
            written += bytes(-len(written) % multiple)
            written += writer(store, getattr(value, name))  # type: ignore[misc]
        return bytes(written) + bytes(-len(written) % whole)

    return write_all
