"""Stored values as Python objects: numbers, strings, lists and dicts, without columns."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from femtobarn._store.product_kinds import Array, Kind, List, Number, OddError, Optional, Record, Text, code_of, size_of

__all__ = ["NOTHING", "Read", "is_plain", "multiples", "packing_of", "plain_of", "reader_of"]

NOTHING: Any = object()  # no value: it is read as a column instead, which reports errors
Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_LENGTH = struct.Struct("<Q")


def plain_of(read: Read | None, stored: bytes) -> Any:
    """Return a stored value as numbers, strings, lists and dicts, as `tolist` of a column does.

    Parameters
    ----------
    read : callable or None
        The reader, from `reader_of`.
    stored : bytes
        The stored bytes.

    Returns
    -------
    object
        The value; `NOTHING` if it is damaged, or there is no reader.
    """
    if read is None:
        return NOTHING
    try:
        value, end = read(stored, 0)
    except (struct.error, ValueError, IndexError):
        return NOTHING
    return value if end == len(stored) else NOTHING


@functools.lru_cache(maxsize=1024)
def reader_of(kind: Kind) -> Read | None:
    """Return a function that reads a value at an offset, and returns its end.

    Parameters
    ----------
    kind : Kind
        What it is.

    Returns
    -------
    callable or None
        The reader; None if it is or contains a kind that can only be read as columns.
    """
    if isinstance(kind, Number):
        return functools.partial(_read_number, struct.Struct("<" + code_of(kind.dtype)))
    if isinstance(kind, Text):
        return _read_text
    if isinstance(kind, Record):
        return _record(kind)
    if not isinstance(kind, List | Array | Optional) or (item := reader_of(kind.item)) is None:
        return None
    if isinstance(kind, Optional):
        return functools.partial(_read_optional, item)
    if isinstance(kind, Array) and isinstance(kind.item, Number):
        return functools.partial(_read_array, struct.Struct(f"<{kind.n}{code_of(kind.item.dtype)}"))
    if isinstance(kind, Array):
        return functools.partial(_read_items, item, kind.n)
    if isinstance(kind.item, Number):
        return functools.partial(_read_numbers, kind.item.dtype.newbyteorder("<"))
    if is_plain(kind.item):
        return functools.partial(_read_rows, tuple(name for name, _ in kind.item.members), packing_of(kind.item))
    return functools.partial(_read_items, item, None)


def _read_number(packing: struct.Struct, stored: bytes, at: int) -> tuple[Any, int]:
    return packing.unpack_from(stored, at)[0], at + packing.size


def _read_array(packing: struct.Struct, stored: bytes, at: int) -> tuple[list[Any], int]:
    return list(packing.unpack_from(stored, at)), at + packing.size


def _read_text(stored: bytes, at: int) -> tuple[str, int]:
    (n,) = _LENGTH.unpack_from(stored, at)
    end = at + 8 + n
    if end > len(stored):
        raise OddError
    return stored[at + 8 : end].decode(), end


def _read_optional(item: Read, stored: bytes, at: int) -> tuple[Any, int]:
    if stored[at] > 1:
        raise OddError
    return item(stored, at + 1) if stored[at] else (None, at + 1)


def _read_numbers(dtype: np.dtype[Any], stored: bytes, at: int) -> tuple[list[Any], int]:
    (n,) = _LENGTH.unpack_from(stored, at)
    end = at + 8 + n * dtype.itemsize
    if end > len(stored):
        raise OddError
    if dtype.kind == "b":
        return [byte != 0 for byte in stored[at + 8 : end]], end
    return np.frombuffer(stored[at + 8 : end], dtype).tolist() if n else [], end


def _read_items(item: Read, n: int | None, stored: bytes, at: int) -> tuple[list[Any], int]:
    """Return a number of items, by default as stored. Each has bytes, so that a wrong number ends with the data."""
    if n is None:
        (n,) = _LENGTH.unpack_from(stored, at)
        at += 8
    items = []
    for _ in range(n):
        value, at = item(stored, at)
        items.append(value)
    return items, at


def _record(kind: Record) -> Read | None:
    """Return a function that reads a record; adjacent numbers are read together."""
    names = [name for name, _ in kind.members]
    readers = [reader_of(member) for _, member in kind.members]
    if not names or None in readers:
        return None
    size = size_of(kind)
    if is_plain(kind):
        return functools.partial(_read_plain, tuple(names), packing_of(kind))
    steps = list(zip(names, readers, multiples(kind), strict=True))
    whole = 1 if size is None else size[1]

    def read(stored: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        start = at
        for name, reader, multiple in steps:
            at += (start - at) % multiple
            found[name], at = reader(stored, at)  # type: ignore[misc]
        return found, at + (start - at) % whole

    return read


def _read_plain(names: tuple[str, ...], packing: struct.Struct, stored: bytes, at: int) -> tuple[dict[str, Any], int]:
    return dict(zip(names, packing.unpack_from(stored, at), strict=True)), at + packing.size


def _read_rows(
    names: tuple[str, ...], packing: struct.Struct, stored: bytes, at: int
) -> tuple[list[dict[str, Any]], int]:
    (n,) = _LENGTH.unpack_from(stored, at)
    end = at + 8 + n * packing.size
    if end > len(stored):
        raise OddError
    rows = packing.iter_unpack(stored[at + 8 : end])
    return [dict(zip(names, row, strict=True)) for row in rows], end


def is_plain(kind: Kind) -> TypeGuard[Record]:
    """Return whether values are records of numbers only.

    Parameters
    ----------
    kind : Kind
        What they are.

    Returns
    -------
    bool
        Whether they are.
    """
    if not isinstance(kind, Record) or not kind.members:
        return False
    return all(isinstance(member, Number) for _, member in kind.members)


def multiples(kind: Record) -> list[int]:
    """Return the alignments of a record's members, as in memory if its size is fixed.

    Parameters
    ----------
    kind : Record
        The record.

    Returns
    -------
    list of int
        One per member.
    """
    sizes = [size_of(member) for _, member in kind.members]
    return [1 if size is None or None in sizes else size[1] for size in sizes]


def packing_of(kind: Record) -> struct.Struct:
    """Return the layout of a record of numbers only.

    Parameters
    ----------
    kind : Record
        The record.

    Returns
    -------
    struct.Struct
        The layout.
    """
    code, at = "<", 0
    for _, member in kind.members:
        assert isinstance(member, Number)
        pad = -at % member.dtype.itemsize
        code += "x" * pad + code_of(member.dtype)
        at += pad + member.dtype.itemsize
    size = size_of(kind)
    return struct.Struct(code + "x" * ((0 if size is None else size[0]) - at))
