"""The entries of an ntuple as work, and those of a fileset, whose files are opened one after another."""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from femtobarn._files.filesets import Source, check_same, metadata_of, ranges_of, sources_of
from femtobarn._files.libraries import grouping
from femtobarn._files.many import File, Line, Request
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import reopening
from femtobarn._files.pickled import Place, Places, local_state, opened_files
from femtobarn._files.queries import Conditions, Wanted
from femtobarn._processing.compiled import CompiledCalls
from femtobarn._processing.work import BATCH, PER_WORKER, Lazy, Piece, Sizes
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import num_bytes
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch, LazyReader, QueryReader, SharedPages
    from femtobarn._files.bad_files import BadFile, BadFiles
    from femtobarn._files.filters import Filter

__all__ = ["FilesetWork", "NTupleWork"]

# Awkward has a fixed cost per batch, which is small for this many entries, if they fit into this memory.
_COLUMNS, _MEMORY = 100_000, "100 MB"
_EVENTS = 16_384  # the same for functions of one event
_COLUMNS_PER_WORKER = 4  # minimum number of batches per worker, as far as these are small
_PER_PROCESS = 2  # the same for other processes, which decompress pages again for each batch
Chosen: TypeAlias = "tuple[tuple[str, ...], Filter]"
"""Fields and expressions to read, and a filter of the names of fields."""

_KEPT = 16  # files that are kept open for the pieces that are handed out
# By which experiments number their events: CMS, ATLAS, FCC and others.
_NUMBERS = (
    ("run", "luminosityBlock", "event"),
    ("runNumber", "lumiBlock", "eventNumber"),
    ("runNumber", "eventNumber"),
    ("run", "lumi", "event"),
    ("run", "subrun", "event"),
    ("run", "event"),
)


class _EntriesWork:
    """What is the same for one ntuple and for many."""

    def __init__(self, chosen: Chosen, given: Conditions, lazy: Lazy | None, library: str) -> None:
        fields, filter_name = chosen
        self._fields = list(fields) or None
        self._given = given
        self._filters = (filter_name, None, None, None, grouping(library))
        self._lazy = lazy
        self._library = library
        self._metadata: Mapping[str, Mapping[str, Any]] = {}  # by dataset

    def _identity_of_fields(self) -> dict[str, str]:
        cut, aliases = self._given.texts
        given = {"cut": cut, "aliases": aliases or None, "filter_name": self._filters[0]}
        known = {name: str(value) for name, value in given.items() if value is not None}
        return {"preload": str(self._fields), **known}

    def _found(self, piece: Piece) -> tuple[NTuple, int]:
        """Return the ntuple that has the entries of a piece, and the first of them there."""
        raise NotImplementedError

    def _pages(self, ntuple: NTuple) -> SharedPages:
        """Return the pages that pieces share which end within them."""
        if ntuple._pages is None:
            ntuple._pages = ntuple._core.pages()
        return ntuple._pages

    def _wanted(self, ntuple: NTuple, dataset: str | None = None) -> tuple[list[str] | None, QueryReader | None]:
        """Return the paths of the fields, and what reads them if there is a cut or a computed column."""
        given = self._given.of(dataset)
        wanted, paths = ntuple._wanted(self._fields, given, self._filters)
        return paths, ntuple._query(paths, wanted, given, self._filters, virtual=self._lazy is not None)

    def _offset(self, piece: Piece, at: int) -> int:
        """Return which entry of a piece is the one at a position after the cut."""
        given = self._given.of(piece.dataset)
        if given.cut is None:
            return at
        from femtobarn._files.entry_batch import left_entries

        ntuple, start = self._found(piece)
        query = ntuple._query([], Wanted([], []), given, self._filters)
        assert query is not None, "there is a cut"
        offsets = left_entries(query.read(start, start + piece.n))
        return at if offsets is None else int(offsets[at])

    def _reader(self, ntuple: NTuple, paths: list[str] | None, pages: SharedPages | None = None) -> LazyReader | None:
        """Return what reads columns when they are touched; None if they are read at once."""
        lazy = self._lazy
        if lazy is None:
            return None
        return ntuple._lazy_reader(paths, None, True, lazy.record, lazy.function, pages)

    def _size(self, ntuple: NTuple, n_entries: int, by: str, n_workers: int, in_threads: bool) -> int:
        """Return a size of pieces of an ntuple, if this many entries are processed in all."""
        size = _share(n_entries, by, n_workers, in_threads)
        if by == "event" or self._lazy is not None:
            return size
        n_known = next(filter(None, ntuple._core.file_entries()), 0)  # of one file: others need not be asked
        paths, query = self._wanted(ntuple)
        n_bytes = query.decoded_bytes(0, n_known) if query else ntuple._core.decoded_bytes(paths, 0, n_known)
        return min(size, max(num_bytes(_MEMORY) * n_known // max(n_bytes, 1), BATCH))

    def _whole_clusters(self, reader: LazyReader, size: int, step_size: int) -> Callable[[int, int], int]:
        """Return the sizes of steps for threads.

        Those that touch a column of the same step fetch it once, and few pages are in two steps.
        """

        def step(first: int, high: int) -> int:
            n = 0
            while n < min(step_size, high - first):
                n += reader.step(first + n, high, 1)
            return n // size * size or n

        return step

    @property
    def _can_be_cut(self) -> bool:
        """Whether a step can be cut into pieces, as it has all entries."""
        return self._library == "ak" and self._given.cut is None and not self._given.of_datasets

    def _parts(self, events: Any, piece: Piece, size: int) -> Iterator[Piece]:
        """Cut loaded events of a piece, whose number is that of the first part."""
        if piece.n <= size:
            yield replace(piece, loaded=self._labelled(events, piece))
            return
        from femtobarn._files.virtual_arrays import part_of

        number = piece.number
        for first in range(0, piece.n, size):
            n = min(size, piece.n - first)
            part = self._at(piece, first, n, number)
            yield replace(part, loaded=self._labelled(part_of(events, first, first + n), part))
            number += 1

    def _at(self, piece: Piece, first: int, n: int, number: int) -> Piece:
        """Return a part of a piece."""
        place = piece.place and piece.place._replace(start=piece.place.start + first)
        return replace(piece, number=number, n=n, start=piece.start + first, place=place, loaded=None)

    def _labelled(
        self, events: Any, piece: Piece, counters: frozenset[str] | None = None, read: Batch | None = None
    ) -> Any:
        """Return the events of a piece with their origin, if the library can hold it."""
        if self._library != "ak" or piece.place is None:
            return events
        from femtobarn._files.entry_batch import labelled, left_entries

        place, dataset = piece.place, piece.dataset
        return labelled(
            events,
            counters,
            None if read is None else left_entries(read),
            dataset=dataset,
            metadata={} if dataset is None else self._metadata.get(dataset, {}),
            file=place.file,
            object_path=(place.name or "").partition(";")[0],
            entry_start=place.start,
            entry_stop=place.start + piece.n,
        )

    def load(self, piece: Piece) -> Any:
        ntuple, start = self._found(piece)
        stop = start + piece.n
        pages = self._pages(ntuple)
        paths, query = self._wanted(ntuple, piece.dataset)
        output = ntuple._output(paths, self._library, None, False, virtual=self._lazy is not None)
        reader = self._reader(ntuple, paths, pages)
        if reader is not None:
            return self._labelled(output.group(reader.read(start, stop, prefetch=True)), piece, ntuple._counters())
        ntuple._warn_of_lacking(paths, self._fields, self._filters[0])
        if query is not None:
            read = ntuple._read_query(query, start, stop)
        else:
            read = ntuple._read(paths, start, stop, None, ntuple._is_named(self._fields), pages)
        return self._labelled(output.group(read), piece, ntuple._counters(), read)

    def each(self, loaded: Any) -> Iterator[Any]:
        if isinstance(loaded, CompiledCalls):
            return iter(loaded)
        from femtobarn._files.entry import entries_of

        return entries_of(loaded)

    def compiled(self, function: Any, loaded: Any) -> CompiledCalls:
        return CompiledCalls(function, loaded)

    def single(self, piece: Piece, at: int) -> Piece:
        return self._at(piece, at, 1, piece.number)

    def reloaded(self, piece: Piece, at: int | None) -> Iterator[Any]:
        if self._lazy is None:
            return
        # of a step or a piece that is partly damaged, other parts can be read
        if piece.loaded is not None:
            alone = self.load(piece.without_loaded())
            yield alone if at is None else next(itertools.islice(self.each(alone), at, None))
        if at is not None and piece.n > 1:
            yield next(self.each(self.load(self.single(piece, self._offset(piece, at)))))

    def where(self, piece: Piece, at: int | None) -> str:
        if at is None and piece.n > 1:
            return f"entries {piece.start} to {piece.start + piece.n - 1}"
        entry = piece.start + (at or 0)
        with contextlib.suppress(Exception):  # the error of an unreadable entry is still raised
            offset = 0 if at is None else self._offset(piece, at)
            entry = piece.start + offset
            ntuple, start = self._found(piece)
            at = start + offset
            names = next((names for names in _NUMBERS if all(name in ntuple for name in names)), ())
            record = ntuple.arrays(list(names), entry_start=at, entry_stop=at + 1)
            numbers = ", ".join(f"{name} {record[name][0]}" for name in names)
            return f"entry {entry} ({numbers})" if names else f"entry {entry}"
        return f"entry {entry}"

    def check_left(self) -> None:
        """Files that change while they are read are errors of reading."""


def _share(n_entries: int, by: str, n_workers: int, in_threads: bool) -> int:
    """Return a size of pieces that gives each worker several."""
    n_each = _PER_PROCESS if not in_threads else PER_WORKER if by == "event" else _COLUMNS_PER_WORKER
    return min(max(n_entries // (n_each * n_workers), BATCH), _EVENTS if by == "event" else _COLUMNS)


def _cut(start: int, stop: int, size: int, ends: list[int]) -> Iterator[tuple[int, int]]:
    """Cut a range of entries into ranges of at most `size`, at the ends of clusters, if there are any."""
    while start < stop:
        end = min(start + size, stop)
        if end < stop:
            last = bisect.bisect_right(ends, end)
            end = ends[last - 1] if last and ends[last - 1] > start else end
        yield start, end
        start = end


def _ends(ntuple: NTuple, size: int) -> list[int]:
    """Return the ends of the clusters of a file; none if not all clusters fit into pieces."""
    if len(ntuple._core.files) != 1:
        return []
    clusters = ntuple._core.clusters()
    if any(cluster["num_entries"] > size for cluster in clusters):
        return []
    return [cluster["first_entry"] + cluster["num_entries"] for cluster in clusters]


class NTupleWork(_EntriesWork):
    """The entries of an ntuple, of one file or of many."""

    def __init__(
        self,
        ntuple: NTuple,
        chosen: Chosen,
        given: Conditions,
        lazy: Lazy | None = None,
        library: str = "ak",
    ) -> None:
        super().__init__(chosen, given, lazy, library)
        self._whole: NTuple | None = ntuple
        self._places: Places | None = None
        self._own_pages: SharedPages | None = None  # those of an ntuple of the caller end with the work
        self._is_aligned = False  # whether pieces for other processes end with clusters
        files = ntuple.files
        where = files[0][0] if len(files) == 1 else f"{len(files)} files"
        self.name = f"{ntuple.name} ({where})"

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens only the files of its pieces."""
        places = None if self._whole is None else self._found_places
        return {**self.__dict__, "_whole": None, "_own_pages": None, "_places": places}

    @property
    def _ntuple(self) -> NTuple:
        if self._whole is None:
            raise UsageError("pieces are created where process was called")
        return self._whole

    @property
    def _found_places(self) -> Places:
        if self._places is None:
            self._places = Places(self._ntuple)
        return self._places

    def _found(self, piece: Piece) -> tuple[NTuple, int]:
        if self._whole is not None or piece.place is None or self._places is None:
            return self._ntuple, piece.start
        return self._places.opened(piece.place)

    def _pages(self, ntuple: NTuple) -> SharedPages:
        if self._whole is None:
            return super()._pages(ntuple)
        if self._own_pages is None:
            self._own_pages = ntuple._core.pages()
        return self._own_pages

    def identity(self) -> dict[str, str]:
        core = self._ntuple._core
        files = [(*origin, *state) for origin, state in zip(core.origins(), core.states(), strict=True)]
        digest = hashlib.sha256(repr(files).encode()).hexdigest()[:16]
        return {
            "events": f"{self.name}, {self._ntuple.num_entries} entries (names, sizes and times of files {digest})",
            **self._identity_of_fields(),
        }

    def total(self, patience: float) -> int:
        return int(self._ntuple.num_entries)

    def batch_size(self, by: str, n_workers: int, in_threads: bool) -> int:
        self._is_aligned = by == "batch"
        return self._size(self._ntuple, self._ntuple.num_entries, by, n_workers, in_threads)

    def pieces(self, sizes: Sizes, number: int, after: int | None, *, loads: bool) -> Iterator[Piece]:
        size, input_size = sizes[0] or BATCH, sizes[1]
        start = after or 0
        if not loads:
            ends = _ends(self._ntuple, size) if self._is_aligned else []

            def next_size(first: int, high: int) -> int:
                low, end = next(_cut(first, high, size, ends))
                return end - low

            yield from self._unloaded(next_size, number, start)
            return
        # As a step, a piece never goes beyond the end of a file: an error of one file does not affect the next one.
        step_size = max(input_size // size, 1) * size if self._can_be_cut else size
        reader = self._reader(self._ntuple, self._wanted(self._ntuple)[0])
        if reader is not None:
            for whole in self._unloaded(self._whole_clusters(reader, size, step_size), 0, start):
                for part in self._parts(self.load(whole), replace(whole, number=number), size):
                    yield part
                    number = part.number + 1
            return
        places = iter(self._found_places)
        low = high = 0
        cut, aliases = self._given.texts
        filters = {"filter_name": self._filters[0]}
        chosen: dict[str, Any] = {"cut": cut, "aliases": aliases, "library": self._library, **filters}
        for events in self._ntuple.iterate(self._fields, step_size=step_size, entry_start=start, **chosen):
            while start >= high:
                n_entries, place = next(places)
                low, high = high, high + n_entries
            n = min(step_size, high - start)
            piece = Piece(number, n, start=start, place=place._replace(start=start - low))
            for part in self._parts(events, piece, size):
                yield part
                number = part.number + 1
            start += n

    def _unloaded(self, size: Callable[[int, int], int], number: int, start: int) -> Iterator[Piece]:
        """Iterate over the pieces of each file, after an entry; `size` gives that of the next one, up to an entry."""
        self._ntuple._warn_of_lacking(self._wanted(self._ntuple)[0], self._fields, self._filters[0])
        low = 0
        for n_entries, place in self._found_places:
            high = low + n_entries
            first = max(start, low)
            while first < high:
                n = min(size(first, high), high - first)
                yield Piece(number, n, start=first, place=place._replace(start=first - low))
                number += 1
                first += n
            low = high

    def last(self, piece: Piece) -> int:
        return piece.start + piece.n


class FilesetWork(_EntriesWork):
    """The entries of the files of a fileset, which are opened when they are needed, and closed after that."""

    def __init__(
        self,
        files: Any,
        chosen: Chosen,
        given: Conditions,
        lazy: Lazy | None,
        library: str,
        opening: dict[str, Any],
        bad_files: BadFiles,
    ) -> None:
        super().__init__(chosen, given, lazy, library)
        self._files = files
        self._opening = opening
        self._options = pickle.dumps((opening.get("threads"), opening.get("progress"), reopening(opening)))
        self._bad_files = bad_files
        self._metadata = metadata_of(files)
        self._balance: tuple[str, int, bool] = "batch", 1, True
        self._here: OrderedDict[int, NTuple] = OrderedDict()  # files that are open where process was called

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets no list of files: its pieces name theirs."""
        kept = ("_fields", "_filters", "_given", "_lazy", "_library", "_metadata", "_options")
        return {name: self.__dict__[name] for name in kept} | {"name": self.name, "_here": {}}

    @cached_property
    def sources(self) -> list[Source]:
        """The files, each as a path, where process was called."""
        found = []
        for source in sources_of(self._files, self._opening.get("storage_options")):
            if isinstance(source.of, NTuple):
                if source.of._attribute_of is not None:
                    raise UsageError(f"{source.of.name!r} is an attribute set: process it alone")
                found += [replace(source, of=origin) for origin in source.of._core.origins()]
            else:
                found.append(source)
        return found

    @cached_property
    def name(self) -> str:
        """What errors and the progress bar call the work."""
        datasets = {source.dataset for source in self.sources if source.dataset is not None}
        of = f"{plural(len(datasets), 'dataset')}, " if datasets else ""
        return self.sources[0].path if len(self.sources) == 1 else of + plural(len(self.sources), "file")

    @property
    def bad_files(self) -> list[BadFile]:
        """The files that were left out."""
        return self._bad_files.found

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets in their order."""
        return list(self._metadata)

    def _found(self, piece: Piece) -> tuple[NTuple, int]:
        place = piece.place
        assert place is not None, "pieces of files have their places"
        ntuple = self._here.get(piece.file)
        if ntuple is None:
            ntuple = opened_files([place._replace(start=0)], self._options)
        check_same(place.file, ntuple, place.n_entries, place.uuid)
        return ntuple, place.start

    def identity(self) -> dict[str, str]:
        described = [(one.dataset, one.of, one.steps, local_state(one.path)) for one in self.sources]
        digest = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
        events = f"{self.name} (names and steps, sizes and times {digest})"
        return {"events": events, **self._identity_of_fields()}

    def total(self, patience: float) -> int | None:
        known = [source.num_entries for source in self.sources]
        if None in known:
            return None
        ranges = (ranges_of(source, source.num_entries or 0) for source in self.sources)
        return sum(stop - start for some in ranges for start, stop in some)

    def batch_size(self, by: str, n_workers: int, in_threads: bool) -> None:
        self._balance = by, n_workers, in_threads

    def pieces(self, sizes: Sizes, number: int, after: tuple[int, int] | None, *, loads: bool) -> Iterator[Piece]:
        size, input_size = sizes
        first, entry = after or (0, 0)
        rest = self.sources[first:]
        if rest and entry:
            rest[0] = replace(rest[0], first=entry)
        ahead = [one for one in rest if loads or one.num_entries is None or self._bad_files.are_skipped]

        def step_size(ntuple: NTuple, paths: list[str] | None) -> int:
            own = self._file_size(ntuple, size)
            return max(input_size // own, 1) * own if self._can_be_cut and size is not None else own

        request = Request(
            (self._fields, *self._filters),
            self._given,
            (self._library, None, False),
            step_size,
            prefetch=loads and self._lazy is None,
        )
        line = Line(ahead, self._opening, request, self._bad_files)
        coming: File | None = None
        opened = iter(ahead)
        next_opened = next(opened, None)
        try:
            for at, source in enumerate(rest, first):
                if source is not next_opened:
                    found = self._unopened(source, size)
                else:
                    next_opened = next(opened, None)
                    coming = coming or line.next()
                    if coming is None or coming.source is not source:
                        continue  # it is left out
                    file, coming = coming, None
                    self._keep(at, file.how.nt)
                    found = self._pieces_of(line, file, at, (size, input_size), loads)
                    del file
                for piece in found:
                    yield replace(piece, number=number, file=at, dataset=source.dataset)
                    number += 1
        finally:
            line.close()

    def _pieces_of(self, line: Line, file: File, at: int, sizes: Sizes, loads: bool) -> Iterator[Piece]:
        """Iterate over the pieces of an open file, loaded if they are loaded here."""
        how, source = file.how, file.source
        ntuple = how.nt
        (path, name), state = ntuple._core.origins()[0], ntuple._core.states()[0]
        whole = Piece(0, 0, place=Place.of(path, name, state), file=at, dataset=source.dataset)
        size = self._file_size(ntuple, sizes[0])
        if loads and self._lazy is None:
            for events, report in line.steps(file, skips=False):
                start, stop = report.tree_entry_start, report.tree_entry_stop
                yield from self._parts(events, self._at(whole, start, stop - start, 0), size)
            return
        reader = self._reader(ntuple, how.paths) if loads else None
        ends: list[int] = []
        if sizes[0] is None and self._balance[0] == "batch" and not loads:
            most = self._most(ntuple)
            ends = _ends(ntuple, most)
            size = most if ends else size
        for start, stop in ranges_of(source, ntuple.num_entries):
            if reader is None:
                for low, high in _cut(start, stop, size, ends):
                    yield self._at(whole, low, high - low, 0)
                continue
            step = self._whole_clusters(reader, size, max(sizes[1] // size, 1) * size)
            while start < stop:
                piece = self._at(whole, start, min(step(start, stop), stop - start), 0)
                yield from self._parts(self.load(piece), piece, size)
                start += piece.n

    def _unopened(self, source: Source, size: int | None) -> Iterator[Piece]:
        """Iterate over the pieces of a file whose entries are known: only the workers open it."""
        assert not isinstance(source.of, NTuple), "sources are paths"
        n_entries = source.num_entries or 0
        own = size or _even(n_entries, _share(n_entries * len(self.sources), *self._balance))
        place = Place.of(*source.of, None, n_entries=n_entries, uuid=source.uuid)
        for start, stop in ranges_of(source, n_entries):
            for low, high in _cut(start, stop, own, []):
                yield Piece(0, high - low, start=low, place=place._replace(start=low))

    def _file_size(self, ntuple: NTuple, size: int | None) -> int:
        """Return the size of pieces of a file, which are equal if it is not given."""
        return _even(ntuple.num_entries, self._most(ntuple)) if size is None else size

    def _most(self, ntuple: NTuple) -> int:
        """Return the largest size of pieces of a file, as if all files had as many entries."""
        return self._size(ntuple, ntuple.num_entries * len(self.sources), *self._balance)

    def _keep(self, at: int, ntuple: NTuple) -> None:
        self._here[at] = ntuple
        if len(self._here) > _KEPT:
            self._here.popitem(last=False)

    def where(self, piece: Piece, at: int | None) -> str:
        dataset = "" if piece.dataset is None else f" of dataset {piece.dataset!r}"
        return f"{super().where(piece, at)} of {piece.place.file if piece.place else self.name}{dataset}"

    def last(self, piece: Piece) -> tuple[int, int]:
        return piece.file, piece.start + piece.n


def _even(n_entries: int, most: int) -> int:
    """Return the size of parts that are as equal as possible, and at most `most`."""
    n_parts = -(-n_entries // most)
    return -(-n_entries // max(n_parts, 1)) or 1
