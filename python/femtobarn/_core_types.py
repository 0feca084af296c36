"""Types of the values that pass between the core and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypedDict

__all__ = ["ColumnRecord", "ConvertTick", "FieldRecord", "FieldSpec", "MergeTick", "Node", "Tick"]

Tick: TypeAlias = Callable[[int, int], None]
"""A function of the bytes done and the total bytes."""

ConvertTick: TypeAlias = Callable[[int, int, int, int, int, bool], None]
"""A function of the file number, entries done, total entries, bytes done, total bytes, and whether it verifies."""

MergeTick: TypeAlias = Callable[[int, int, int, int], None]
"""A function of the files done, the total files, the bytes done and the total bytes."""

Node: TypeAlias = tuple[Any, ...]
"""The parts of an array. The first item determines the others:

- ``("numpy", dtype, buffer)``
- ``("list", offsets, node, "set", "bitset" or None)``
- ``("string", offsets, buffer)``, ``("bytes", offsets, buffer, class_name)``
- ``("option", index, node)``, with -1 for missing values
- ``("regular", size, length, node)``
- ``("record", names or None for a tuple, nodes, length, type_name)``
- ``("union", tags, index, nodes)``, with tag 0 for no value and tag k for node k - 1

Offsets and indexes are buffers of int64, tags of int8. Columns that share a buffer have the same object.

For writing there are also ``("arrow", schema, array)`` with Arrow capsules, and ``("unknown",)`` for an array without
values, whose type is unknown.
"""

FieldSpec: TypeAlias = tuple[Any, ...]
"""A field to be written. The first item determines the others:

- ``("type", name, type, classes)`` with the name of a C++ type and, optionally, the classes and enums in it;
  ``("number", name, dtype)`` with a NumPy dtype
- ``("list", name, field)``, ``("optional", name, field)``, ``("array", name, size, field)``
- ``("variant", name, fields)``, ``("tuple", name, fields)``
- ``("record", name, class or "", fields, version, checksum or None)``
- ``("enum", name, type, field)``
- ``("cardinality", name, source, wide)``, ``("projected", name, type, source, fields)``
"""


class ColumnRecord(TypedDict):
    """A column on disk."""

    id: int
    type: str
    bits: int
    representation: int
    deferred: bool


class FieldRecord(TypedDict):
    """A field of the schema; the path is None for anonymous fields."""

    id: int
    parent: int | None
    name: str
    path: str | None
    typename: str
    typealias: str
    description: str
    role: Literal["plain", "collection", "record", "variant", "streamer"]
    projected: bool
    repetitions: int
    group: bool
    columns: list[ColumnRecord]
    anonymous: bool
