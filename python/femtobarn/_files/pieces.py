"""Entries of one file that are read in steps. The first steps of some files are read while others are in use."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.report import Report
from femtobarn._shared.caller import note_line
from femtobarn._shared.progress import Progress
from femtobarn._shared.steps import num_bytes, step_entries
from femtobarn.errors import FemtobarnError

if TYPE_CHECKING:
    from collections.abc import Callable

    from femtobarn._core import BatchIterator, LazyBatchIterator, LazyReader, QueryReader
    from femtobarn._files.libraries import Output
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.reading import Readable

__all__ = ["AHEAD", "How", "Piece", "begin_ahead", "give", "pieces_of"]

# Maximum number of files that are opened, or whose first step is read, before they are requested.
AHEAD = 8

# Memory limit of pending steps, unless one step is larger.
_BUDGET = 64 << 20


@dataclass(frozen=True)
class How:
    """How fields are read in steps.

    Parameters
    ----------
    source : Readable
        The object that is iterated over.
    paths : list of str or None
        The paths of the fields.
    output : Output
        The form of the result.
    step_size : int or str
        Number of entries per step, or memory per step.
    threads : int
        Number of threads.
    prefetch : bool
        Whether steps are read before they are requested.
    named : bool
        Whether the fields are requested by name.
    global_offset : int
        Number of entries in all files before this ntuple.
    lazy : LazyReader, optional
        Reads columns when they are touched; None to read them at once.
    query : QueryReader, optional
        Reads computed columns, and the entries that pass a cut.
    dataset : str, optional
        The dataset of the fileset that the ntuple belongs to.
    metadata : dict
        The metadata of the dataset.
    """

    source: Readable
    paths: list[str] | None
    output: Output
    step_size: str | SupportsIndex
    threads: int
    prefetch: bool
    named: bool
    global_offset: int = 0
    lazy: LazyReader | None = None
    query: QueryReader | None = None
    dataset: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def nt(self) -> NTuple:
        """The ntuple to read."""
        return self.source.ntuple


@dataclass
class Piece:
    """Entries of one file.

    Parameters
    ----------
    how : How
        How to read them.
    place : tuple of str
        Path of the file, and name of the ntuple in it.
    first : int
        The first entry of the ntuple in this file.
    start, stop : int
        The entries to read, with the same counting as `first`.
    """

    how: How
    place: tuple[str, str]
    first: int
    start: int
    stop: int
    begun: BatchIterator | LazyBatchIterator | None = None

    @cached_property
    def _decoded(self) -> int:
        if self.how.query is not None:
            return self.how.query.decoded_bytes(self.start, self.stop)
        return self.how.nt._core.decoded_bytes(self.how.paths, self.start, self.stop)

    @property
    def _lazy_step(self) -> tuple[int | None, int]:
        """Number of entries per step, if it was given; otherwise memory per step."""
        size = self.how.step_size
        return (None, num_bytes(size)) if isinstance(size, str) else (self.step, 0)

    @cached_property
    def step(self) -> int:
        """Number of entries per step."""
        size, number = self.how.step_size, self.stop - self.start
        return min(step_entries(size, self._decoded if isinstance(size, str) else 0, number), number)

    def n_bytes(self, entry: int) -> int:
        """Return the memory of the step that begins with this entry.

        Parameters
        ----------
        entry : int
            An entry; after the last one, there is no step.

        Returns
        -------
        int
            A number of bytes, estimated from the metadata.
        """
        if self.how.lazy is not None:
            return self.how.lazy.step_bytes(entry, self.stop, *self._lazy_step)
        number = min(self.step, self.stop - entry)
        return self._decoded * number // (self.stop - self.start)

    def begin(self, settled: bool) -> BatchIterator | LazyBatchIterator:
        """Start reading.

        Parameters
        ----------
        settled : bool
            Whether steps of the ntuple were returned already: later steps must have the same fields.

        Returns
        -------
        BatchIterator
            The steps.
        """
        note_line()
        if self.begun is None and self.how.lazy is not None:
            lazy, prefetch = self.how.lazy, self.how.prefetch
            self.begun = lazy.steps(self.start, self.stop, *self._lazy_step, prefetch=prefetch)
        if self.begun is None:
            how = self.how
            options: dict[str, Any] = {"threads": how.threads, "prefetch": how.prefetch}
            entries = self.start, self.stop, self.step
            if how.query is not None:
                self.begun = how.query.steps(*entries, prefetch=how.prefetch, settled=settled)
                return self.begun
            self.begun = how.nt._core.iterate(how.paths, *entries, **options, named=how.named, settled=settled)
        return self.begun


def pieces_of(how: How, entries: tuple[int, int]) -> deque[Piece]:
    """Return the entries to read from each file.

    Parameters
    ----------
    how : How
        How to read them.
    entries : tuple of int
        The first entry of the ntuple, and the one after the last.

    Returns
    -------
    deque of Piece
        The pieces in the order of the files; files without any of these entries have none.
    """
    core = how.nt._core
    found: deque[Piece] = deque()
    first = 0
    for place, num_entries in zip(core.files, core.file_entries(), strict=True):
        start, stop = max(entries[0], first), min(entries[1], first + num_entries)
        if start < stop:
            found.append(Piece(how, place, first, start, stop))
        first += num_entries
    return found


def begin_ahead(pieces: Iterable[tuple[Piece, bool]], pending: int, step_size: str | SupportsIndex) -> None:
    """Start reading pieces before they are requested, as many as the memory limit allows.

    Parameters
    ----------
    pieces : iterable of tuple of Piece and bool
        The next pieces in order, each with whether steps of its ntuple were returned already.
    pending : int
        Bytes that are pending already.
    step_size : int or str
        The size of a step, which may be pending. If nothing is pending, one piece is always started.
    """
    budget = max(_BUDGET, num_bytes(step_size) if isinstance(step_size, str) else 0)
    try:
        for piece, settled in itertools.islice(pieces, AHEAD):
            n_bytes = piece.n_bytes(piece.start)
            if pending and pending + n_bytes > budget:
                return
            pending += max(n_bytes, 1)
            piece.begin(settled)
    except FemtobarnError:
        # raised when the piece is requested
        return


def give(
    how: How, pieces: deque[Piece], entries: tuple[int, int], advance: Callable[[int], None]
) -> Iterator[tuple[Any, Report]]:
    """Yield the steps of the pieces of one ntuple.

    Parameters
    ----------
    how : How
        How to read them.
    pieces : deque of Piece
        The pieces; each is removed when it is read.
    entries : tuple of int
        The first of all entries, and the one after the last.
    advance : callable
        Starts other pieces; called before each step is yielded, with the number of pending bytes.

    Yields
    ------
    tuple
        The result of a step, and its report.
    """
    nt = how.nt
    settled = False
    # between steps the terminal belongs to the caller: show a bar only on request
    with Progress(f"iterating over {nt.name}", bool(nt._progress), unit="entries") as progress:
        try:
            while pieces:
                piece = pieces.popleft()
                for batch in nt._watched(piece.begin(settled)):
                    settled = True
                    done = batch.entry_stop
                    if how.prefetch:
                        advance(piece.n_bytes(done))
                    local = batch.entry_start - piece.first, done - piece.first
                    offset = piece.first + how.global_offset
                    where = Report(how.source, *piece.place, *local, offset, how.dataset, how.metadata)
                    handed_over = [how.output.labelled(how.output.group(batch, how.global_offset), batch, where)]
                    del batch  # release the memory of this step before the next one is read
                    yield handed_over.pop(), where
                    progress.tick(done - entries[0], entries[1] - entries[0])
        finally:
            # also if a traceback keeps this frame alive: cancel what nobody will request
            pieces.clear()
            piece = None  # type: ignore[assignment]
