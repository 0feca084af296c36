"""The ranks of MPI as workers."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from femtobarn._processing.workers import alone, events_of, outcomes_of, pack_outcome, unpack_outcome
from femtobarn.errors import WorkerDiedError

if TYPE_CHECKING:
    from femtobarn._processing.accumulate import GivenStates, Unfinished
    from femtobarn._processing.work import Outcome, Piece, Task, Work

__all__ = ["MpiPool", "serve_mpi"]

_TO_WORKER, _TO_MASTER = 71, 72


class MpiPool:
    """The other ranks of an MPI communicator, which ask the first for pieces. With one rank, that works itself."""

    def __init__(self, work: Work, task: Task, comm: Any) -> None:
        self._work, self._task, self._comm = work, task, comm
        self.shares_memory = comm.size == 1
        self.n_workers = max(comm.size - 1, 1)
        self._idle: list[int] = [rank for rank in range(1, comm.size) for _ in range(2)]
        self._sends: list[Any] = []
        self._own: list[Piece] = []
        self._idle_since = time.time()

    def has_room(self) -> bool:
        return bool(self._idle) if self._comm.size > 1 else not self._own

    def send(self, piece: Piece) -> None:
        if self._comm.size == 1:
            self._own.append(piece)
            return
        # Not waited for: a rank that has an answer to send takes no piece, and both would wait for each other.
        self._sends = [sent for sent in self._sends if not sent.test()[0]]
        self._sends.append(self._comm.isend(piece.without_loaded(), self._idle.pop(0), _TO_WORKER))

    def wait(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        if self._comm.size == 1:
            piece = self._own.pop()
            outcome = alone(
                self._work, self._task, piece, partial(events_of, self._work, piece), "rank 0", self._idle_since
            )
            self._idle_since = time.time()
            return [outcome]
        rank, packed = self._comm.recv(tag=_TO_MASTER)
        if isinstance(packed, str):
            raise WorkerDiedError(f"rank {rank} has failed: {packed}")
        self._idle.append(rank)
        return [unpack_outcome(packed)]

    def close(self, *, ends_early: bool) -> None:
        self._sends += [self._comm.isend(None, rank, _TO_WORKER) for rank in range(1, self._comm.size)]
        n_working = self._comm.size - 1
        while n_working:  # answers that are under way must be taken, or their ranks would wait for ever
            n_working -= self._comm.recv(tag=_TO_MASTER)[1] is None
        for sent in self._sends:
            sent.wait()


def serve_mpi(work: Work, task: Task, comm: Any) -> None:
    """Process pieces on a rank other than the first, until none are left.

    The first hears of all that happens here, and that it has ended.
    """
    has_ended = False

    def receive(waits: bool) -> Piece | None:
        nonlocal has_ended
        if has_ended or not (waits or comm.iprobe(source=0, tag=_TO_WORKER)):
            return None
        piece: Piece | None = comm.recv(source=0, tag=_TO_WORKER)
        has_ended = piece is None
        return piece

    try:
        for outcome in outcomes_of(work, task, f"rank {comm.rank}", receive):
            comm.send((comm.rank, pack_outcome(outcome)), 0, _TO_MASTER)
    except BaseException as error:
        comm.send((comm.rank, f"{type(error).__name__}: {error}"), 0, _TO_MASTER)
        raise
    finally:
        while not has_ended:
            receive(True)
        comm.send((comm.rank, None), 0, _TO_MASTER)
