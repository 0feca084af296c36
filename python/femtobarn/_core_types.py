"""The forms of what passes between the core and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypedDict

__all__ = ["ColumnRecord", "ConvertTick", "FieldRecord", "FieldSpec", "MergeTick", "Node", "Tick"]

Tick: TypeAlias = Callable[[int, int], None]
"""A function of the bytes that are done and of those there are in all."""

ConvertTick: TypeAlias = Callable[[int, int, int, int, int, bool], None]
"""A function of the file's number, the entries done and in all, the bytes done and in all, and whether it verifies."""

MergeTick: TypeAlias = Callable[[int, int, int, int], None]
"""A function of the files that were added and of those there are, and of the bytes that were brought and there are."""

Node: TypeAlias = tuple[Any, ...]
"""What an array is made of; the first item says what the others are:

- ``("numpy", dtype, buffer)``
- ``("list", offsets, node, "set", "bitset" or None)``
- ``("string", offsets, buffer)``, ``("bytes", offsets, buffer, class_name)``
- ``("option", index, node)``, with -1 for what is missing
- ``("regular", size, length, node)``
- ``("record", names or None for a tuple, nodes, length, type_name)``
- ``("union", tags, index, nodes)``, with tag 0 for no value and tag k for node k - 1

Offsets and indexes are buffers of int64, tags of int8. The same object appears again where columns share it.

For writing there are also ``("arrow", schema, array)`` with Arrow's capsules, and ``("unknown",)`` for an array that
knows no type, having no values.
"""

FieldSpec: TypeAlias = tuple[Any, ...]
"""A field to be written; the first item says what the others are:

- ``("type", name, type, classes)`` with the name of a type of C++ and the classes and enums that it may have, which
  may be left out; ``("number", name, dtype)`` with NumPy's
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
    """A field of the schema; the path is None for anonymous ones."""

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
