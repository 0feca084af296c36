"""Results of `explain` and `verify`: dataclasses with the numbers of the core."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from femtobarn._shared.repr import format_bytes, format_table, html_table, plural

__all__ = ["Cluster", "Plan", "Value", "VerifyReport", "overhead_of"]


class Value:
    """Base class: objects are made from the dicts of the core, and convert to dicts."""

    @classmethod
    def _from_core(cls, values: Mapping[str, Any]) -> Self:
        """Return an object with the numbers of the core; unknown numbers are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: _frozen(value) for name, value in values.items() if name in known})

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict of plain values, which JSON can represent.

        Returns
        -------
        dict
            One item per number.
        """
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: _thawed(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Cluster(Value):
    """A cluster: consecutive entries whose pages are stored together.

    Parameters
    ----------
    file : str
        Path of the file.
    first_entry : int
        The first entry, counted over all files.
    num_entries : int
        Number of entries.
    group : int
        The cluster group whose page list contains the cluster.
    bytes_on_disk, bytes_uncompressed : int
        Sizes of the pages, in bytes.
    pages : int
        Number of pages.
    """

    file: str
    first_entry: int
    num_entries: int
    group: int = 0
    bytes_on_disk: int = 0
    bytes_uncompressed: int = 0
    pages: int = 0


@dataclass(frozen=True, repr=False)
class Plan(Value):
    """The plan of a read, as returned by `explain`.

    Parameters
    ----------
    num_entries : int
        Number of entries to read.
    clusters, pages : int
        Number of clusters that contain the entries, and number of pages to decode.
    ranges, vectors, requests : int
        Number of page ranges (byte ranges of the pages), of vector reads that fetch them, and of requests as the server
        counts them: one per vector read if the server supports vector reads.
    bytes_needed : int
        Size of the pages, in bytes.
    bytes_read : int
        Bytes to fetch, including gaps between pages that are cheaper to read than to skip.
    bytes_decoded : int
        Size of the resulting arrays, in bytes.
    rounds : int
        Number of consecutive rounds of reading; more than one if offsets must be known first.
    exact : bool
        Whether the numbers are exact; otherwise they are upper bounds.
    fetched_by : tuple of str
        How requests are split, and how many run at the same time, as chosen from the latency of the sources and the
        settings. Also what was read to open the files, which the other numbers do not include.
    per_column : tuple of dict
        Pages and bytes per column.
    notes : tuple of str
        Further remarks.
    """

    num_entries: int = 0
    clusters: int = 0
    pages: int = 0
    ranges: int = 0
    vectors: int = 0
    requests: int = 0
    bytes_needed: int = 0
    bytes_read: int = 0
    bytes_decoded: int = 0
    rounds: int = 1
    exact: bool = True
    fetched_by: tuple[str, ...] = ()
    per_column: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def _from_core(cls, values: Mapping[str, Any]) -> Self:
        """Return an object with the numbers of the core, without columns that no cluster has: they have no field."""
        named = [column for column in values.get("per_column", ()) if column.get("field") != ""]
        return super()._from_core({**values, "per_column": named})

    @property
    def overhead(self) -> float:
        """Bytes that are read in addition, as a fraction of the bytes needed."""
        return overhead_of(self.bytes_read, self.bytes_needed)

    def __repr__(self) -> str:
        lines = [
            f"Plan: {plural(self.num_entries, 'entry')}, {plural(self.clusters, 'cluster')}, "
            f"{plural(self.pages, 'page')}, "
            f"{plural(self.ranges, 'page range')} in {plural(self.requests, 'request')}",
            f"{format_bytes(self.bytes_needed)} needed, {format_bytes(self.bytes_read)} read "
            f"({self.overhead:.1%} more), {format_bytes(self.bytes_decoded)} decoded",
            *self.fetched_by,
        ]
        if self.per_column:
            lines.append(_table(self.per_column, max_cell=60))
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return _html(repr(dataclasses.replace(self, per_column=())), self.per_column)


@dataclass(frozen=True, repr=False)
class VerifyReport(Value):
    """The result of `verify`. It is true if no problem was found and at least one field could be checked.

    Parameters
    ----------
    clusters, pages : int
        Number of clusters and pages that were checked.
    bytes : int
        Size of the pages, in bytes.
    pages_without_checksum : int
        Pages without a stored checksum. They could be decompressed; nothing else is known about them.
    damages : tuple of dict
        The damage: file, field, column, cluster, offset, bytes, problem, and the entries that are affected.
    not_checked : tuple of dict
        Fields that cannot be read, so that their values were not checked: file, field and reason.
    nothing_checked : tuple of str
        Files with entries of which no field could be checked. Such files are not good.
    against : dict or None
        The result of the comparison with inputs, if any: `pages_equal` and `bytes_equal`, pages that are the same as in
        the inputs; `by_value`, the fields whose values were compared; `missing` and `left_out`, fields that an input or
        the ntuple does not have; `not_compared`, fields that cannot be read, with the reasons; `equal`, whether
        everything was compared and is equal.
    differences : tuple of dict
        Differences from the inputs, the first one of each field: field (with the position in it, as ``tracks[2].pt``),
        entry, input, input_entry, found and expected.
    """

    clusters: int = 0
    pages: int = 0
    bytes: int = 0
    pages_without_checksum: int = 0
    damages: tuple[Mapping[str, Any], ...] = ()
    not_checked: tuple[Mapping[str, Any], ...] = ()
    nothing_checked: tuple[str, ...] = ()
    against: Mapping[str, Any] | None = None
    differences: tuple[Mapping[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problem was found, fields could be checked, and everything requested was compared."""
        is_good = not self.damages and not self.nothing_checked
        return is_good and (self.against is None or bool(self.against["equal"]))

    def __bool__(self) -> bool:
        return self.ok

    def _text(self) -> str:
        """Return the text above the tables."""
        lines = [
            f"VerifyReport: {self._state}; {plural(self.clusters, 'cluster')}, {plural(self.pages, 'page')} "
            f"({format_bytes(self.bytes)}) checked"
        ]
        if n := self.pages_without_checksum:
            lines.append(f"{plural(n, 'page')} without checksum: verified only size and compression")
        lines += [f"not checked: {field['field']}: {field['reason']}" for field in self.not_checked]
        if self.against is not None:
            lines.append(self._compared(self.against))
            lines += [f"not compared: {field['field']}: {field['reason']}" for field in self.against["not_compared"]]
        lines += [_count(difference) for difference in self.differences if not difference["field"]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        tables = [_table(records) for records in (self.damages, self._records) if records]
        return "\n".join([self._text(), *tables])

    @property
    def _state(self) -> str:
        """Return the result in a few words, as `fb verify` prints it."""
        if self.damages:
            are_pages = all(damage.get("bytes") for damage in self.damages)
            return f"DAMAGED: {plural(len(self.damages), 'damaged page' if are_pages else 'fault')}"
        if n := len(self.nothing_checked):
            whose = "its fields" if n == 1 else f"the fields of {n} files"
            return f"NOT CHECKED: none of {whose} can be read"
        if not self.ok:
            state = "NOT AS IN THE INPUTS" if self.differences else "NOT COMPLETELY COMPARED"
            return f"{state}, but no page is damaged"
        n = len(self.not_checked)
        return "good" + (f", except for {'a field' if n == 1 else f'{n} fields'} that cannot be read" if n else "")

    def _compared(self, against: Mapping[str, Any]) -> str:
        state = "as in the inputs" if against["equal"] else "NOT AS IN THE INPUTS"
        line = f"{state}: {plural(against['pages_equal'], 'page')} ({format_bytes(against['bytes_equal'])}) the same"
        n = len(against["by_value"])
        return line + (f", {plural(n, 'field')} compared by value" if n else "")

    def _repr_html_(self) -> str:
        return _html(self._text(), self.damages or self._records)

    @property
    def _records(self) -> tuple[Mapping[str, Any], ...]:
        """Differences of fields, for a table."""
        return tuple(difference for difference in self.differences if difference["field"])


def _count(difference: Mapping[str, Any]) -> str:
    """Describe a difference that is not about a field: the number of entries, or a whole ntuple."""
    found, expected, where = difference["found"], difference["expected"], difference["input"]
    return (
        f"differs: {found}, but {where} has {expected}"
        if where
        else f"differs: {found} entries, but {expected} in the inputs"
    )


def overhead_of(n_read: int, n_needed: int) -> float:
    """Return the bytes that are read in addition, as a fraction of the bytes needed."""
    return max(0, n_read - n_needed) / n_needed if n_needed else 0.0


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, (tuple, list)) else value


def _table(records: Sequence[Mapping[str, Any]], max_cell: int | None = None) -> str:
    header, rows, right = _cells(records)
    return format_table(header, rows, right=right, max_cell=max_cell)


def _cells(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]], list[int]]:
    """Return titles, cells, and the columns that contain numbers."""
    header = list(dict.fromkeys(key for record in records for key in record))
    numbers = [i for i, key in enumerate(header) if isinstance(records[0].get(key), int)]
    rows = [[_cell(key, record.get(key)) for key in header] for record in records]
    return [key.replace("_", " ") for key in header], rows, numbers


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return format_bytes(value) if "bytes" in key else f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(key, item) for item in value)
    return str(value)


def _html(head: str, records: Sequence[Mapping[str, Any]]) -> str:
    import html

    header, rows, right = _cells(records) if records else ([], [], [])
    body = html_table(header, rows, right=right) if records else ""
    return f"<pre>{html.escape(head)}</pre>{body}"
