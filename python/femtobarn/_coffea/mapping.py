"""coffea's view of a range of entries: buffers by keys that say how they are computed from columns."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np
from awkward.contents import IndexedOptionArray, ListOffsetArray, NumpyArray, RecordArray
from awkward.index import Index64
from coffea.nanoevents.mapping.base import BaseSourceMapping

from femtobarn._coffea.columns import Description, description_of
from femtobarn._files.awkward_arrays import layouts_of
from femtobarn._files.virtual_arrays import column_of
from femtobarn.errors import KeyNotFoundError

if TYPE_CHECKING:
    from femtobarn._core import Batch, LazyBatch, LazyReader
    from femtobarn._files.ntuple import NTuple

# A buffer that is a part of a column needs no other part of it. All others are computed from whole columns.
_TRANSFORM = re.compile("%21([a-z0-9A-Z]+)")
_PARTS = frozenset({"load", "content", "offsets", "index", "data", "item"})

__all__ = ["Entries", "SourceMapping", "entries_at_once", "entries_when_touched"]


class Entries(ABC):
    """The columns of a range of entries, as layouts of Awkward."""

    def __init__(self, description: Description) -> None:
        self._description = description

    def __contains__(self, name: str) -> bool:
        return name in self._description.columns

    def column(self, name: str) -> Any:
        """Return the layout of a column, by the name that coffea uses."""
        at = self._description.columns[name]
        if isinstance(at, str):
            return self._plain(at)
        inside = [below.rpartition("/")[2] for below in at]
        return RecordArray([self.column(below) for below in at], inside, length=self.n_entries())

    @abstractmethod
    def n_entries(self) -> int:
        """Return the number of entries."""

    @abstractmethod
    def _plain(self, name: str) -> Any: ...


class _AtOnce(Entries):
    """Columns that were read together."""

    def __init__(self, description: Description, batch: Batch) -> None:
        super().__init__(description)
        columns = batch.columns()
        layouts = layouts_of(columns, of_tree=description.of_tree)
        self._layouts = {name: layout for (name, _), layout in zip(columns, layouts, strict=True)}
        self._n_entries = batch.num_entries

    def n_entries(self) -> int:
        return self._n_entries

    def _plain(self, name: str) -> Any:
        if name not in self._layouts:  # it turned out to be unreadable
            raise KeyNotFoundError(f"column {name!r} cannot be read: see `skipped` of the ntuple")
        return self._layouts[name]


class _WhenTouched(Entries):
    """Columns that are read when they are touched."""

    def __init__(self, description: Description, batch: LazyBatch, loaded: _AtOnce | None) -> None:
        super().__init__(description)
        self._batch = batch
        self._at = {name: at for at, name in enumerate(batch.names())}
        self._loaded = loaded
        self._counters: dict[str, Any] = {}

    def n_entries(self) -> int:
        return self._batch.num_entries

    def _plain(self, name: str) -> Any:
        if self._loaded is not None and name in self._loaded._layouts:
            return self._loaded._layouts[name]
        if name in self._counters:
            return self._counters[name]
        layout = column_of(self._batch, self._at[name], self._description.of_tree)
        # Several indexes and offsets are computed of a counter: it is not read again for each of them.
        if layout.is_numpy and layout.dtype.kind in "iu":
            self._counters[name] = layout
        return layout


def entries_at_once(ntuple: NTuple, names: Iterable[str], start: int, stop: int, threads: int | None = None) -> _AtOnce:
    """Read the columns that have the values of some names."""
    description = description_of(ntuple)
    columns = description.plain(iter(names))
    batch = ntuple._read(columns, start, stop, threads)
    return _AtOnce(description, batch)


def entries_when_touched(
    description: Description, reader: LazyReader, start: int, stop: int, loaded: _AtOnce | None = None
) -> Entries:
    """Return columns that are read when they are touched, except for those that are already loaded."""
    return _WhenTouched(description, reader.read(start, stop, prefetch=loaded is None), loaded)


class SourceMapping(BaseSourceMapping):  # type: ignore[misc]
    """Buffers of a range of entries, computed from columns of femtobarn."""

    def __init__(self, entries: Entries, start: int, stop: int, **options: Any) -> None:
        super().__init__(None, start, stop, **options)
        self._entries = entries
        self._materializes = False
        self._materializing = copy.copy(self)
        self._materializing._materializes = True

    def __getitem__(self, key: str) -> Any:
        """Return a buffer, or a function that returns it."""
        is_part = _PARTS.issuperset(_TRANSFORM.findall(key))
        return BaseSourceMapping.__getitem__(self if is_part else self._materializing, key)

    @classmethod
    def _extract_base_form(cls, source: NTuple) -> dict[str, Any]:
        return description_of(source).base_form()

    def key_root(self) -> str:
        """Return the name that begins the keys of sources."""
        return "FemtobarnSourceMapping:"

    def _column_source(self, uuid: str, path_in_source: str) -> Entries:
        return self._entries

    def get_column_handle(self, columnsource: Entries, name: str, allow_missing: bool) -> str | None:
        """Return the name of a column; None if it does not exist and need not."""
        if name in columnsource:
            return name
        if allow_missing:
            return None
        raise KeyNotFoundError(f"no column named {name!r} in the file; a schema that needs it is of other files")

    def extract_column(self, columnhandle: str | None, start: int, stop: int, allow_missing: bool, **_: Any) -> Any:
        """Return the array of a column; lists begin at 0."""
        if columnhandle is None:
            missing = Index64(np.full(stop - start, -1, np.int64))
            return ak.Array(IndexedOptionArray(missing, NumpyArray(np.empty(0, np.bool_))))
        layout = self._entries.column(columnhandle)
        if self._materializes:
            layout = ak.materialize(layout, highlevel=False)
        elif layout.is_numpy and not allow_missing:
            return layout  # the buffer itself
        if allow_missing:
            every = Index64(np.arange(stop - start, dtype=np.int64))
            return ak.Array(IndexedOptionArray.simplified(every, layout))
        if isinstance(layout, ListOffsetArray):
            layout = layout.to_ListOffsetArray64(False)
        return ak.Array(layout)

    def __len__(self) -> int:
        return int(self._stop - self._start)

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError
