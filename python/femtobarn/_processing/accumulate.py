"""States that workers fill over many pieces, so that each event counts exactly once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from femtobarn._processing.work import Outcome, Piece, Task

__all__ = ["Accumulator", "Given", "GivenStates", "HeldPieces", "Unfinished"]

Given: TypeAlias = "tuple[tuple[int, ...], Any]"
"""The numbers of pieces, and the state that has their results."""


@dataclass(frozen=True)
class GivenStates:
    """States that workers have given without an outcome."""

    given: list[Given]


@dataclass(frozen=True)
class Unfinished:
    """A piece whose result was in the state of a worker that died; another piece is to blame."""

    piece: Piece


class Accumulator:
    """The state of one worker, which its function fills.

    Outcomes of pieces whose results are in the state are held back, until an outcome has the state and the numbers of
    these pieces. A piece that fails spoils the state, so that all of them must be repeated.

    Parameters
    ----------
    task : Task
        Finished work.
    keeps : bool
        Whether the state is kept for other pieces; else each piece has a state of its own.
    """

    def __init__(self, task: Task, *, keeps: bool = True) -> None:
        self._make = task.state
        self._function = task.function
        self._keeps = keeps and task.keeps_state
        self._state: Any = None
        self._numbers: list[int] = []
        self._dataset: str | None = None
        self.task = task if task.state is None else replace(task, function=self._call, tries=1)

    def _call(self, item: Any) -> None:
        assert self._make is not None, "functions are called with a state only if there is one"
        if self._state is None:
            self._state = self._make()
        returned: Any = self._function(item, self._state)  # type: ignore[call-arg]
        if returned is not None:
            self._state = returned

    def begin(self, piece: Piece, outcome: Outcome) -> None:
        """Begin a piece; the state of another dataset is given away with its outcome."""
        if self._numbers and piece.dataset != self._dataset:
            outcome.given += self.give()
        self._dataset = piece.dataset

    def end(self, outcome: Outcome, *, is_last: bool) -> None:
        """Note the outcome of a piece, which gets the state if it is the last one for now."""
        if self._make is None:
            return
        if outcome.failures or outcome.raised is not None:
            if outcome.is_called:
                outcome.lost, self._numbers, self._state = tuple(self._numbers), [], None
        else:
            self._numbers.append(outcome.piece)
            outcome.is_held = True
        if self._numbers and (is_last or not self._keeps):
            outcome.given += self.give()

    def give(self) -> list[Given]:
        """Return the state, if it has something, and forget it."""
        given = [(tuple(self._numbers), self._state)] if self._numbers else []
        self._numbers, self._state = [], None
        return given


class HeldPieces:
    """The outcomes whose results are in states of workers."""

    def __init__(self) -> None:
        self._held: dict[int, Outcome] = {}

    def hold(self, outcome: Outcome) -> None:
        """Hold an outcome until its state is given."""
        self._held[outcome.piece] = outcome

    def given(self, given: list[Given]) -> list[Outcome]:
        """Return the outcomes whose state has come; the last one of them has it as its value."""
        done = []
        for numbers, state in given:
            some = [self._held.pop(number) for number in numbers]
            some[-1].values = [] if state is None else [state]
            done += some
        return done

    def lost(self, numbers: tuple[int, ...]) -> None:
        """Forget outcomes whose state is lost."""
        for number in numbers:
            self._held.pop(number, None)
