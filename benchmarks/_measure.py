"""Competitors in separate processes, measured in turn, and the statistics of the results."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORKER = Path(__file__).resolve().parent / "_worker.py"


class CompetitorError(Exception):
    """A competitor could not be run; the message is its last line of output."""


@dataclass
class Entry:
    """One row of a table: a competitor, its task, and the number of runs."""

    label: str
    spec: dict[str, Any]
    python: str = sys.executable
    rounds: int | None = None  # maximum; None: all
    fresh: bool = False  # a new process for each run
    goal: tuple[str, float] | None = None  # ("slower" or "within" or "speedup", factor)
    size_goal: float | None = None  # maximum size of the first entry's output relative to this one's
    first: dict[str, Any] | None = None  # the untimed run
    runs: list[dict[str, Any] | None] = field(default_factory=list)  # one per round; None if it did not take part
    checked: bool = True  # whether its result is compared with the others
    inspect: Callable[[], dict[str, Any]] | None = None  # inspects the output of a writer
    environment: dict[str, str] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    def seconds(self) -> list[float | None]:
        """Return the total time of each round."""
        return [None if run is None else sum(run["parts"].values()) for run in self.runs]

    def seconds_opened(self) -> list[float | None]:
        """Return the time of each round for reading an open file, or for reading only if nothing is kept open."""
        times = [{} if run is None else run for run in self.runs]
        if self.spec.get("again"):
            return [run.get("again") for run in times]
        reads = self.spec["competitor"] in {"root", "floor"}
        return [run.get("parts", {}).get("read") if reads else None for run in times]

    def processor(self) -> list[float | None]:
        return [None if run is None else run["cpu"] for run in self.runs]

    def median(self) -> float:
        return statistics.median(present(self.seconds()))

    def median_of(self, name: str) -> float:
        """Return the median of another number that each run reports."""
        return float(statistics.median(run[name] for run in self.runs if run is not None))

    @property
    def ran(self) -> bool:
        return any(run is not None for run in self.runs)


class Worker:
    """The process of one competitor."""

    def __init__(self, entry: Entry) -> None:
        # settings of a virtual environment must not reach another interpreter
        environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONHOME", "FEMTOBARN_THREADS"}}
        path = f"{Path(entry.python).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # ROOT's programs
        self.words = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [entry.python, str(WORKER), json.dumps(entry.spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            text=True,
            env=environment | {"PATH": path} | entry.environment,
        )
        self.versions: dict[str, str] = self.answer()

    def ask(self, question: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer is missing, too
        answer: dict[str, Any] = self.answer()
        return answer

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.communicate()
        self.words.seek(0)
        lines = [line.strip() for line in self.words if line.strip()]
        raise CompetitorError(lines[-1] if lines else f"its process ended with {self.process.returncode}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.communicate()


def alternate(entries: list[Entry], rounds: int) -> None:
    """Run every entry once per round, in turn, after one untimed run each; failing entries are reported and dropped."""
    workers: dict[int, Worker] = {}
    for i, entry in enumerate(entries):
        say(f"  {entry.label}: start")
        try:
            if not entry.fresh:
                workers[i] = Worker(entry)
                entry.first = workers[i].ask("run")
                entry.versions = workers[i].versions
                entry.check = workers[i].ask("check") if entry.checked else {}
        except CompetitorError as error:
            entry.error = str(error)
    for turn in range(rounds):
        say(f"  round {turn + 1} of {rounds}")
        for i, entry in enumerate(entries):
            takes_part = entry.error is None and turn < (entry.rounds or rounds)
            try:
                entry.runs.append(one_run(entry, workers.get(i)) if takes_part else None)
            except CompetitorError as error:
                entry.error = str(error)
                entry.runs.append(None)
    for worker in workers.values():
        worker.close()


def one_run(entry: Entry, worker: Worker | None) -> dict[str, Any]:
    if worker is not None:
        return worker.ask("run")
    own = Worker(entry)
    try:
        done = own.ask("run")
    finally:
        own.close()
    entry.versions = own.versions
    if entry.inspect is not None and not entry.check:
        entry.check = entry.inspect()
    return done


def present(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def ratios(above: list[float | None], below: list[float | None]) -> list[float]:
    """Return the ratio in every round in which both took part."""
    return [a / b for a, b in zip(above, below, strict=True) if a is not None and b]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
