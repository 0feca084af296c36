"""The table of fields that `show` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from femtobarn._shared.repr import format_bytes

if TYPE_CHECKING:
    from femtobarn._files.schema import Schema

__all__ = ["FIELD_HEADER", "FieldRow", "field_rows"]

FIELD_HEADER = ("field", "C++ type", "columns", "on disk", "compression")


class FieldRow(NamedTuple):
    """A line of the table of fields."""

    name: str
    typename: str
    columns: str
    on_disk: str
    compression: str


def field_rows(
    schema: Schema, ids: Iterable[int], sizes: dict[int, dict[str, Any]], base: int | None
) -> list[FieldRow]:
    """Return the rows of the table for some fields.

    Parameters
    ----------
    schema : Schema
        The fields of the ntuple.
    ids : iterable of int
        The fields, parents before children.
    sizes : dict
        The `column_sizes` of the core; empty if they are unknown.
    base : int or None
        The field relative to which names are shown.

    Returns
    -------
    list of FieldRow
        One row per field; bytes and compression include all subfields.
    """
    return [_row(schema, i, sizes, base) for i in ids]


def _row(schema: Schema, i: int, sizes: dict[int, dict[str, Any]], base: int | None) -> FieldRow:
    record = schema.records[i]
    depth, above = 0, schema.visible_parent(i)
    while above is not None and above != base:
        depth, above = depth + 1, schema.visible_parent(above)
    own = [column for f in _own_fields(schema, i) for column in schema.records[f]["columns"]]
    below = [column["id"] for f in _subtree(schema, i) for column in schema.records[f]["columns"]]
    known = [sizes[column] for column in dict.fromkeys(below) if column in sizes]
    compressions = dict.fromkeys(name for size in known for name in size["compressions"])
    if record["projected"]:
        on_disk = "projected"
    else:
        on_disk = format_bytes(sum(size["bytes_on_disk"] for size in known)) if known else ""
    return FieldRow(
        "  " * depth + schema.names[i],
        record["typename"] or "(untyped)",
        ", ".join(dict.fromkeys(column["type"] for column in own)),
        on_disk,
        ", ".join(compressions),
    )


def _own_fields(schema: Schema, i: int) -> list[int]:
    """Return a field and the anonymous fields directly below it."""
    found = [i]
    for child in schema.children.get(i, ()):
        if schema.records[child]["anonymous"]:
            found += _own_fields(schema, child)
    return found


def _subtree(schema: Schema, i: int) -> list[int]:
    found = [i]
    for child in schema.children.get(i, ()):
        found += _subtree(schema, child)
    return found
