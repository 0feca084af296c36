"""Progress bars for long reads: rich on a terminal, tqdm in a notebook, and log lines elsewhere on request.

A bar appears only after a read has taken a while, disappears at its end, and never makes a read fail.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, Self

from femtobarn._shared.repr import format_bytes

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Progress"]

_PATIENCE = 0.7  # seconds before a bar appears
_EVERY = 10.0  # seconds between lines
_OFF = frozenset({"0", "off", "no", "false"})


class _Bar(Protocol):
    def __init__(self, description: str, unit: str) -> None: ...
    def update(self, done: int, total: int | None) -> None: ...
    def close(self) -> None: ...


class Progress:
    """A context manager that shows progress; `tick` reports the work done and the total.

    Parameters
    ----------
    description : str
        The action, as "reading Events".
    enabled : bool or None
        None: on a terminal and in a notebook, unless the variable FEMTOBARN_PROGRESS is 0. True: also elsewhere, as
        lines.
    unit : str
        The unit: "B" for bytes, or a noun.
    """

    def __init__(self, description: str, enabled: bool | None, unit: str = "B") -> None:
        self._description = description
        self._unit = unit
        self._kind = _kind(enabled)
        self._since = time.monotonic()
        self._bar: _Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            with contextlib.suppress(Exception):
                self._bar.close()

    @property
    def is_wanted(self) -> bool:
        """Whether progress will be shown."""
        return self._kind is not None

    def tick(self, done: int, total: int | None) -> None:
        """Report progress.

        Parameters
        ----------
        done : int
            Work done so far, in bytes or the other unit.
        total : int or None
            Total work, if it is known.
        """
        if self._kind is None:
            return
        try:
            if self._bar is None:
                if time.monotonic() - self._since < _PATIENCE or (total is not None and done >= total):
                    return
                bars: dict[str, type[_Bar]] = {"rich": _RichBar, "tqdm": _TqdmBar, "lines": _Lines}
                self._bar = bars[self._kind](self._description, self._unit)
            self._bar.update(done, total)
        except Exception:  # reading continues if the bar cannot be drawn
            self._kind = None


class _RichBar:
    def __init__(self, description: str, unit: str) -> None:
        from rich import progress
        from rich.console import Console

        if unit == "B":
            amount: list[progress.ProgressColumn] = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
        else:
            amount = [progress.MofNCompleteColumn(), progress.TextColumn(unit)]
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            *amount,
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(description)
        self._bar.start()

    def update(self, done: int, total: int | None) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def close(self) -> None:
        self._bar.stop()


class _TqdmBar:
    def __init__(self, description: str, unit: str) -> None:
        from tqdm.auto import tqdm

        unit = unit if unit == "B" else f" {unit}"
        self._bar: Any = tqdm(desc=description, unit=unit, unit_scale=True, leave=False)

    def update(self, done: int, total: int | None) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Lines:
    """Lines for a log: one at the start, one every few seconds, and one at the end."""

    def __init__(self, description: str, unit: str) -> None:
        self._description, self._unit = description, unit
        self._due = time.monotonic()
        self._last: tuple[int, int | None] | None = None  # not printed yet
        self._first: tuple[float, int] | None = None  # time and progress at the first line

    def update(self, done: int, total: int | None) -> None:
        self._last = done, total
        self._first = self._first or (time.monotonic(), done)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY
            self.close()

    def close(self) -> None:
        if self._last is not None:
            done, total = (None if n is None else self._amount(n) for n in self._last)
            sys.stderr.write(f"{self._description}: {done}{'' if total is None else f' of {total}'}{self._rate()}\n")
            sys.stderr.flush()
        self._last = None

    def _rate(self) -> str:
        """Return the speed since the first line."""
        if self._first is None or self._last is None:
            return ""
        seconds, n = time.monotonic() - self._first[0], self._last[0] - self._first[1]
        return f", {self._amount(round(n / seconds))}/s" if n > 0 and seconds > 0 else ""

    def _amount(self, n: int) -> str:
        return format_bytes(n) if self._unit == "B" else f"{n:,} {self._unit}"


def _kind(enabled: bool | None) -> str | None:
    if enabled is None:
        enabled = os.environ.get("FEMTOBARN_PROGRESS", "").strip().lower() not in _OFF
        if not enabled or threading.current_thread() is not threading.main_thread():
            return None
        if _in_notebook():
            return _first_installed("tqdm")
        return _first_installed("rich", "tqdm") if _on_terminal() else None
    if not enabled:
        return None
    if _in_notebook():
        return _first_installed("tqdm") or "lines"
    return (_first_installed("rich", "tqdm") if _on_terminal() else None) or "lines"


def _first_installed(*modules: str) -> str | None:
    import importlib.util

    return next((module for module in modules if importlib.util.find_spec(module) is not None), None)


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
