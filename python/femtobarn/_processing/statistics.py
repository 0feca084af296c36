"""Number of processed events and times, for each worker."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from femtobarn._shared.optional import optional
from femtobarn._shared.repr import plural

if TYPE_CHECKING:
    from femtobarn._processing.work import Outcome

__all__ = ["ProcessStatistics", "TimeStatistics", "WorkerStatistics"]

_MOST_SPANS = 100_000


@dataclass(frozen=True)
class TimeStatistics:
    """Statistics of the times of a repeated action.

    Attributes
    ----------
    num : int
        Number of times.
    min, max, avg : float
        Minimum, maximum and average in seconds; 0 if there are no times.
    var : float
        Variance: the mean of the squared deviations from the average.

    Examples
    --------
    >>> from femtobarn._processing.statistics import TimeStatistics
    >>> TimeStatistics.of([1.0]).merged(TimeStatistics.of([2.0, 3.0, 6.0]))
    TimeStatistics(num=4, min=1.0, max=6.0, avg=3.0, var=3.5)
    """

    num: int = 0
    min: float = 0.0
    max: float = 0.0
    avg: float = 0.0
    var: float = 0.0

    @classmethod
    def of(cls, times: Sequence[float]) -> TimeStatistics:
        """Return the statistics of given times.

        Parameters
        ----------
        times : sequence of float
            Seconds.

        Returns
        -------
        TimeStatistics
            The statistics.
        """
        num = len(times)
        if num == 0:
            return cls()
        avg = sum(times) / num
        return cls(num, min(times), max(times), avg, sum((time - avg) ** 2 for time in times) / num)

    def merged(self, other: TimeStatistics) -> TimeStatistics:
        """Return the combined statistics.

        Parameters
        ----------
        other : TimeStatistics
            Statistics of other times.

        Returns
        -------
        TimeStatistics
            Statistics of all times.
        """
        if self.num == 0 or other.num == 0:
            return self if other.num == 0 else other
        num = self.num + other.num
        apart = other.avg - self.avg
        avg = self.avg + apart * other.num / num
        var = (self.var * self.num + other.var * other.num + apart**2 * self.num * other.num / num) / num
        return TimeStatistics(num, min(self.min, other.min), max(self.max, other.max), avg, var)

    def __str__(self) -> str:
        return f"{self.min:.3g} to {self.max:.3g} s, {self.avg:.3g} ± {math.sqrt(self.var):.3g} s on average"


@dataclass
class WorkerStatistics:
    """Work and time of one worker.

    Attributes
    ----------
    events : int
        Number of processed events.
    local_events : int
        Number of events that the worker loaded itself; the others came with their products.
    batches : int
        Number of batches.
    processing, loading, waiting : float
        Seconds in the function, in loading products that did not come with the events, and without work.
    processing_time : TimeStatistics
        Times of single calls of the function.
    waiting_time : TimeStatistics
        Waiting times before single batches.
    """

    events: int = 0
    local_events: int = 0
    batches: int = 0
    processing: float = 0.0
    loading: float = 0.0
    waiting: float = 0.0
    processing_time: TimeStatistics = field(default_factory=TimeStatistics)
    waiting_time: TimeStatistics = field(default_factory=TimeStatistics)


@dataclass
class ProcessStatistics:
    """Number of processed events and times, for each worker.

    Attributes
    ----------
    n_workers : int
        Number of workers.
    total_time : float
        Total time in seconds.
    workers : dict
        Statistics of each worker, by name.
    """

    n_workers: int
    total_time: float = 0.0
    workers: dict[str, WorkerStatistics] = field(default_factory=dict)
    _began: float = field(default_factory=time.time, repr=False)
    _spans: list[tuple[str, float, float, int]] = field(default_factory=list, repr=False)

    @property
    def total_events_processed(self) -> int:
        """Number of events that workers have finished, including failed ones, excluding those from a checkpoint."""
        return sum(worker.events for worker in self.workers.values())

    @property
    def efficiency(self) -> float:
        """Fraction of the workers' time that was spent in the function."""
        busy = sum(worker.processing for worker in self.workers.values())
        return busy / (self.total_time * self.n_workers) if self.total_time else 0.0

    def _add(self, outcome: Outcome) -> None:
        """Add the work of a worker."""
        worker = self.workers.setdefault(outcome.worker, WorkerStatistics())
        worker.events += outcome.n
        worker.local_events += outcome.n if outcome.is_local else 0
        worker.batches += 1
        worker.processing += outcome.processing
        worker.loading += outcome.loading
        worker.waiting += outcome.waited
        worker.processing_time = worker.processing_time.merged(outcome.calls)
        worker.waiting_time = worker.waiting_time.merged(TimeStatistics.of([outcome.waited]))
        if len(self._spans) < _MOST_SPANS:
            began = outcome.began + outcome.loading
            self._spans.append((outcome.worker, began, began + outcome.processing, outcome.n))

    def _end(self) -> None:
        """Record the end of the work."""
        self.total_time = time.time() - self._began

    def to_json(self) -> str:
        """Return all statistics as JSON.

        Returns
        -------
        str
            An object with the attributes.
        """
        workers = {name: asdict(worker) for name, worker in sorted(self.workers.items())}
        whole = {
            "total_events_processed": self.total_events_processed,
            "total_time": self.total_time,
            "n_workers": self.n_workers,
            "efficiency": self.efficiency,
            "workers": workers,
        }
        return json.dumps(whole)

    def plot(self, ax: Any = None) -> Any:
        """Plot the activity of each worker over time.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            Axes with a row per worker, and a bar per batch.
        """
        if ax is None:
            ax = optional("matplotlib.pyplot", "plot").subplots()[1]
        names = sorted(self.workers)
        for row, name in enumerate(names):
            bars = [(began - self._began, ended - began) for worker, began, ended, _ in self._spans if worker == name]
            ax.broken_barh(bars, (row - 0.4, 0.8))
        if len(names) <= 40:
            ax.set_yticks(range(len(names)), names)
        ax.set_xlabel("seconds")
        ax.set_title(f"{self.total_events_processed:,} events, efficiency {self.efficiency:.0%}")
        return ax

    def __str__(self) -> str:
        lines = [
            f"{plural(self.total_events_processed, 'event')} in {self.total_time:.3g} s on "
            f"{plural(self.n_workers, 'worker')}, "
            f"{self.efficiency:.0%} of the time in the function"
        ]
        for name, worker in sorted(self.workers.items()):
            batches = f"{worker.batches:,} {'batch' if worker.batches == 1 else 'batches'}"
            lines.append(
                f"{name}: {plural(worker.events, 'event')} ({worker.local_events:,} loaded locally) in {batches}; "
                f"{worker.processing:.3g} s processing (each {worker.processing_time}), "
                f"{worker.loading:.3g} s loading, {worker.waiting:.3g} s waiting (each {worker.waiting_time})"
            )
        return "\n".join(lines)
