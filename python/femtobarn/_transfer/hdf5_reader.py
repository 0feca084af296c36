"""Reading HDF5 files of events: the rows of all tables by event, some events at a time.

Memory holds the keys of all events, some rows, and tables whose rows are in another order than that of the events,
where each event's rows are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from femtobarn._shared.optional import optional
from femtobarn._transfer.chunk import Chunk, ColumnType
from femtobarn._transfer.hdf5 import (
    SEQUENCE,
    Choice,
    Column,
    Table,
    Tables,
    open_hdf5,
    read_keys,
    read_rows,
)
from femtobarn._transfer.hdf5_tables import find_tables
from femtobarn.errors import FormatError

__all__ = ["Hdf5Reader"]

_BLOCK = 1 << 18  # rows whose keys are read together
_BYTES = 64 << 20  # of a chunk, about
_FEW = 64  # pieces of rows that are read one by one


class _Rows(Protocol):
    """Where the rows of a table are, in the order of the events."""

    def before(self, bound: Any) -> Any:
        """Return the keys of the rows of events before one, from where `advance` has come to; None for all."""

    def advance(self, n: int) -> list[tuple[int, int]]:
        """Go beyond some rows; returns their positions as ranges."""


class _InOrder:
    """Rows that are in the order of the events: their keys are read as they are needed."""

    def __init__(self, reader: Hdf5Reader, table: Table) -> None:
        self._reader, self._table = reader, table
        self._first = 0
        self._keys = np.empty(0, "S24")

    def before(self, bound: Any) -> Any:
        end = self._first + len(self._keys)
        pieces = [self._keys]
        while end < self._table.n_rows and (bound is None or not len(pieces[-1]) or pieces[-1][-1] < bound):
            until = min(end + _BLOCK, self._table.n_rows)
            pieces.append(self._reader.keys(self._table, end, until))
            end = until
        self._keys = np.concatenate(pieces) if len(pieces) > 1 else self._keys
        return self._keys if bound is None else self._keys[: np.searchsorted(self._keys, bound)]

    def advance(self, n: int) -> list[tuple[int, int]]:
        first = self._first
        self._first += n
        self._keys = self._keys[n:]
        return [(first, first + n)]


class _InPieces:
    """Rows in any order: pieces with the rows of one event, sorted by event; their rows in the order of the file."""

    def __init__(self, keys: Any, first: Any, n_rows: int) -> None:
        n = np.diff(np.append(first, n_rows))
        order = np.argsort(keys, kind="stable")
        self._keys, self._first, self._n = keys[order], first[order], n[order]
        self._at = 0

    def before(self, bound: Any) -> Any:
        end = len(self._keys) if bound is None else int(np.searchsorted(self._keys, bound))
        return np.repeat(self._keys[self._at : end], self._n[self._at : end])

    def advance(self, n: int) -> list[tuple[int, int]]:
        pieces: list[tuple[int, int]] = []
        while n > 0:
            first, n_own = int(self._first[self._at]), int(self._n[self._at])
            if pieces and pieces[-1][1] == first:
                pieces[-1] = (pieces[-1][0], first + n_own)
            else:
                pieces.append((first, first + n_own))
            n -= n_own
            self._at += 1
        return pieces


@dataclass
class Survey:
    """Which events a file has.

    Attributes
    ----------
    events : array of S24
        Their keys, in their order.
    n_unlisted : int
        How many of them the table of all events does not have.
    """

    events: Any
    n_unlisted: int


class Hdf5Reader:
    """A file of events that is being read.

    Parameters
    ----------
    path : str
        Its path.
    choice : Choice
        Selected parts.
    n_bytes : int
        Bytes of rows that are read together, about; more if one event has more.
    """

    def __init__(self, path: str, choice: Choice, n_bytes: int = _BYTES) -> None:
        self.path = path
        self._n_bytes = n_bytes
        self._file = open_hdf5(path)
        try:
            self.tables: Tables = find_tables(self._file, path, choice)
            self._sequence = self._read_sequence()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keys(self, table: Table, first: int, end: int) -> Any:
        """Return the keys of rows of a table."""
        return read_keys(self._file, self.path, table, first, end, self._sequence)

    def _read_sequence(self) -> Any:
        """Return the keys of the events by their numbers in ``evt.seq``, if tables have no other numbers."""
        events = self.tables.events
        if events is None or all(table.has_index for table in self.tables.tables):
            return None
        numbers = read_rows(self._file[events.group][SEQUENCE], self.path, 0, events.n_rows).reshape(-1)
        if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
            raise FormatError(f"{self.path}: {SEQUENCE} of {events.group!r} must number its rows from 0, each once")
        keys = np.empty(events.n_rows, "S24")
        keys[numbers] = read_keys(self._file, self.path, events, 0, events.n_rows)
        return keys

    def chunks(self) -> Iterator[tuple[Chunk, float]]:
        """Read the file.

        Yields
        ------
        tuple of Chunk and float
            Some events, in order, with a product for each table in which they have rows; and how much of the file is
            read then.
        """
        tables = self.tables.tables
        survey, rows = self._survey()
        events = survey.events
        self.tables.left_out.update(self._unlisted(survey))
        total = sum(self._row_size(table) * table.n_rows for table in tables)
        usual = max(1, len(events) * self._n_bytes // max(total, 1))
        first = 0
        while first < len(events):
            end = min(first + usual, len(events))
            while True:
                bound = events[end] if end < len(events) else None
                keys = [own.before(bound) for own in rows]
                n_bytes = sum(self._row_size(table) * len(own) for table, own in zip(tables, keys, strict=True))
                if n_bytes <= 2 * self._n_bytes or end == first + 1:
                    break
                end = first + max(1, (end - first) // 2)
            yield self._chunk(events[first:end], rows, keys), end / len(events)
            first = end

    def _unlisted(self, survey: Survey) -> dict[str, str]:
        if not survey.n_unlisted:
            return {}
        name = f"{survey.n_unlisted} of the events in {self.tables.events.group}" if self.tables.events else ""
        return {name: "it does not list them, but other groups have rows of them"}

    @staticmethod
    def _row_size(table: Table) -> int:
        """Return about how many bytes a row takes in memory."""
        sizes = [8 * int(np.prod(column.shape)) if column.kind == "number" else 64 for column in table.columns]
        return 24 + sum(sizes)

    def _survey(self) -> tuple[Survey, list[_Rows]]:
        """Read which events there are, and see in which order the rows of each table are."""
        listed = self.tables.events
        events = np.empty(0, "S24")
        n_listed = 0
        if listed is not None:
            keys, _ = self._pieces(listed)
            events = np.unique(keys)
            n_listed = len(events)
        rows: list[_Rows] = []
        for table in self.tables.tables:
            keys, first = self._pieces(table)
            is_sorted = bool(np.all(keys[1:] > keys[:-1]))
            rows.append(_InOrder(self, table) if is_sorted else _InPieces(keys, first, table.n_rows))
            at = np.searchsorted(events, keys)
            is_known = at < len(events)
            is_known[is_known] = events[at[is_known]] == keys[is_known]
            if not is_known.all():
                events = np.union1d(events, keys[~is_known])
        return Survey(events, len(events) - n_listed if listed is not None else 0), rows

    def _pieces(self, table: Table) -> tuple[Any, Any]:
        """Return the pieces of neighbouring rows of one event each: their events, and their first rows."""
        all_keys, all_first = [], []
        last = None
        for first in range(0, table.n_rows, _BLOCK):
            keys = self.keys(table, first, min(first + _BLOCK, table.n_rows))
            is_new = np.ones(len(keys), bool)
            is_new[1:] = keys[1:] != keys[:-1]
            is_new[0] = last is None or keys[0] != last
            last = keys[-1]
            all_keys.append(keys[is_new])
            all_first.append(np.flatnonzero(is_new) + first)
        return np.concatenate(all_keys), np.concatenate(all_first)

    def _chunk(self, events: Any, rows: list[_Rows], keys: list[Any]) -> Chunk:
        numbers = np.frombuffer(np.ascontiguousarray(events).tobytes(), ">u8").reshape(-1, 3).astype(np.uint64)
        chunk = Chunk(numbers[:, 0], numbers[:, 1], numbers[:, 2], {})
        for table, own, own_keys in zip(self.tables.tables, rows, keys, strict=True):
            ranges = own.advance(len(own_keys))
            if len(own_keys):
                first = np.flatnonzero(np.append(True, own_keys[1:] != own_keys[:-1]))
                n = np.zeros(len(events), np.int64)
                n[np.searchsorted(events, own_keys[first])] = np.diff(np.append(first, len(own_keys)))
                chunk.products[table.group] = self._values(table, ranges, n)
                form = "value" if (n > 0).all() else "optional"
                chunk.types[table.group] = ColumnType(table.type, (table.class_note,), form)
        return chunk

    def _values(self, table: Table, ranges: list[tuple[int, int]], n: Any) -> Any:
        """Return the rows of a table as a list of records for each event that has some, and None for others."""
        ak = optional("awkward", "all")
        group = self._file[table.group]
        contents = [self._content(ak, group[column.dataset], table, column, ranges) for column in table.columns]
        names = [column.member for column in table.columns]
        n_rows = int(n.sum())
        records = ak.contents.RecordArray(contents, names, length=n_rows)
        there = n > 0
        offsets = np.zeros(int(there.sum()) + 1, np.int64)
        np.cumsum(n[there], out=offsets[1:])
        lists = ak.contents.ListOffsetArray(ak.index.Index64(offsets), records)
        if not there.all():
            index = np.where(there, np.cumsum(there) - 1, -1)
            lists = ak.contents.IndexedOptionArray(ak.index.Index64(index), lists)
        return ak.Array(lists)

    def _content(self, ak: Any, dataset: Any, table: Table, column: Column, ranges: list[tuple[int, int]]) -> Any:
        values = _gather(dataset, self.path, ranges)
        values = values.reshape(len(values), *column.shape)
        where = f"{self.path}: dataset {column.dataset!r} of group {table.group!r}"
        if column.kind == "list":
            return _lists(ak, values)
        if column.kind == "text":
            _check_texts(values, where, ranges)
            return _nested(ak, _texts(ak, values.reshape(-1)), column.shape)
        values = values.astype(np.float32 if values.dtype == np.float16 else values.dtype.newbyteorder("="), copy=False)
        return _nested(ak, ak.contents.NumpyArray(np.ascontiguousarray(values).reshape(-1)), column.shape)


def _gather(dataset: Any, path: str, ranges: list[tuple[int, int]]) -> Any:
    """Return rows in ranges of a dataset, concatenated."""
    if len(ranges) <= _FEW:
        pieces = [read_rows(dataset, path, first, end) for first, end in ranges]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    # what lies all over the file is read as a whole, some rows at a time, since small reads decompress too much
    wanted = np.concatenate([np.arange(first, end) for first, end in ranges])
    order = np.argsort(wanted)
    rows = wanted[order]
    gathered = None
    for first in range(int(rows[0]), int(rows[-1]) + 1, _BLOCK):
        here = slice(*np.searchsorted(rows, [first, first + _BLOCK]))
        if here.start == here.stop:
            continue
        block = read_rows(dataset, path, first, min(first + _BLOCK, int(rows[-1]) + 1))
        if gathered is None:
            gathered = np.empty((len(rows), *block.shape[1:]), block.dtype)
        gathered[order[here]] = block[rows[here] - first]
    return gathered


def _nested(ak: Any, content: Any, shape: tuple[int, ...]) -> Any:
    for size in reversed(shape):
        content = ak.contents.RegularArray(content, size)
    return content


def _check_texts(values: Any, where: str, ranges: list[tuple[int, int]]) -> None:
    """Raise if a string is not valid UTF-8; the rows are in these ranges of the file."""
    for at, value in enumerate(values.reshape(-1).tolist()):
        try:
            if isinstance(value, bytes):
                value.decode()
        except UnicodeDecodeError as error:
            n = at * len(values) // values.size
            row = next(itertools.islice(itertools.chain(*(range(*own) for own in ranges)), n, None))
            raise FormatError(
                f"{where} has a string that is not valid UTF-8 ({error.reason}): {value!r}, in row {row} (from 0)"
            ) from None


def _texts(ak: Any, values: Any) -> Any:
    """Return strings of HDF5, which have a fixed or variable length."""
    encoded = [value if isinstance(value, bytes) else str(value).encode() for value in values.tolist()]
    characters = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(value) for value in encoded], dtype=np.int64)])
    bytes_of = ak.contents.NumpyArray(characters, parameters={"__array__": "char"})
    return ak.contents.ListOffsetArray(ak.index.Index64(offsets), bytes_of, parameters={"__array__": "string"})


def _lists(ak: Any, values: Any) -> Any:
    """Return rows of any number of numbers."""
    rows = [np.asarray(row) for row in values.reshape(-1)]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
    joined = np.concatenate(rows)
    joined = joined.astype(np.float32 if joined.dtype == np.float16 else joined.dtype.newbyteorder("="), copy=False)
    return ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(joined))
