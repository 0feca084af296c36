"""Entries of one file, which are read in steps: the first step of some while others are in use."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.report import Report
from femtobarn._shared.progress import Progress
from femtobarn._shared.steps import num_bytes, step_entries
from femtobarn.errors import FemtobarnError

if TYPE_CHECKING:
    from collections.abc import Callable

    from femtobarn._core import BatchIterator
    from femtobarn._files.libraries import Output
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.reading import Readable

__all__ = ["AHEAD", "How", "Piece", "begin_ahead", "give", "pieces_of"]

# Files that are opened, or of which the first step is read, before they are asked for, at most.
AHEAD = 8

# What waits to be asked for may take this much, or a step where that is larger: small files are read as one would be.
_BUDGET = 64 << 20


@dataclass(frozen=True)
class How:
    """How fields are read in steps.

    Parameters
    ----------
    source : Readable
        What is iterated over.
    paths : list of str or None
        The fields.
    output : Output
        What is made of them.
    step_size : int or str
        Entries in a step, or the memory that it may take.
    threads : int
        Number of threads.
    prefetch : bool
        Whether steps are read before they are asked for.
    named : bool
        Whether the fields are asked for by name.
    global_offset : int
        Number of entries of all files before the ntuple's.
    """

    source: Readable
    paths: list[str] | None
    output: Output
    step_size: str | SupportsIndex
    threads: int
    prefetch: bool
    named: bool
    global_offset: int = 0

    @property
    def nt(self) -> NTuple:
        """The ntuple that is read."""
        return self.source.ntuple


@dataclass
class Piece:
    """Entries of one file.

    Parameters
    ----------
    how : How
        How they are read.
    place : tuple of str
        Path of the file, and of the ntuple in it.
    first : int
        The ntuple's first entry in this file.
    start, stop : int
        The entries to read, counted as `first`.
    """

    how: How
    place: tuple[str, str]
    first: int
    start: int
    stop: int
    begun: BatchIterator | None = None

    @cached_property
    def _decoded(self) -> int:
        return self.how.nt._core.decoded_bytes(self.how.paths, self.start, self.stop)

    @cached_property
    def step(self) -> int:
        """Entries in a step."""
        size, number = self.how.step_size, self.stop - self.start
        return min(step_entries(size, self._decoded if isinstance(size, str) else 0, number), number)

    def n_bytes(self, entry: int) -> int:
        """Return the memory that the step takes which begins with this entry.

        Parameters
        ----------
        entry : int
            An entry; behind the last one, there is no step.

        Returns
        -------
        int
            A number of bytes, estimated from the metadata.
        """
        number = min(self.step, self.stop - entry)
        return self._decoded * number // (self.stop - self.start)

    def begin(self, settled: bool) -> BatchIterator:
        """Begin to read.

        Parameters
        ----------
        settled : bool
            Whether steps of the ntuple were given: later ones have the same fields.

        Returns
        -------
        BatchIterator
            The steps.
        """
        if self.begun is None:
            how = self.how
            options: dict[str, Any] = {"threads": how.threads, "prefetch": how.prefetch}
            entries = self.start, self.stop, self.step
            self.begun = how.nt._core.iterate(how.paths, *entries, **options, named=how.named, settled=settled)
        return self.begun


def pieces_of(how: How, entries: tuple[int, int]) -> deque[Piece]:
    """Return what is to be read of each file.

    Parameters
    ----------
    how : How
        How it is read.
    entries : tuple of int
        The first entry of the ntuple, and the one after the last.

    Returns
    -------
    deque of Piece
        The pieces, in the order of the files; of files without any of these entries there is none.
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
    """Begin to read pieces before they are asked for, as many as fit in.

    Parameters
    ----------
    pieces : iterable of tuple of Piece and bool
        The next pieces, in their order, each with whether steps of its ntuple were given.
    pending : int
        Bytes of what waits to be asked for already.
    step_size : int or str
        How large a step is: so much may wait, and one piece in any case where nothing else does.
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
        # told when its turn has come
        return


def give(
    how: How, pieces: deque[Piece], entries: tuple[int, int], advance: Callable[[int], None]
) -> Iterator[tuple[Any, Report]]:
    """Give the steps of pieces of one ntuple.

    Parameters
    ----------
    how : How
        How they are read.
    pieces : deque of Piece
        The pieces, each of which is taken out when its turn has come.
    entries : tuple of int
        The first of all entries, and the one after the last.
    advance : callable
        Begins other pieces; called with the bytes that wait to be asked for before each step is handed over.

    Yields
    ------
    tuple
        What is made of a step, and its report.
    """
    nt = how.nt
    settled = False
    # between steps the terminal is the caller's: a bar only if it was asked for
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
                    where = Report(how.source, *piece.place, *local, piece.first + how.global_offset)
                    handed_over = [how.output.group(batch, how.global_offset)]
                    del batch  # while the next one is read, nothing here may keep this one's memory
                    yield handed_over.pop(), where
                    progress.tick(done - entries[0], entries[1] - entries[0])
        finally:
            # also where a traceback keeps this frame: what nobody asks for ends
            pieces.clear()
            piece = None  # type: ignore[assignment]
