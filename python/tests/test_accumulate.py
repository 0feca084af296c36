"""States that workers fill: each event counts exactly once, whatever happens to the workers."""

from __future__ import annotations

import functools
import operator
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from executors import executor_of

import femtobarn as fb
from femtobarn._processing import workers
from femtobarn._processing.work import Piece, Task

N = 12_000


@pytest.fixture(params=["threads", "processes", "pool", "threadpool", "futures", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return an executor of each kind."""
    with executor_of(request.param) as executor:
        yield executor


def process(source: Any, function: Any, **options: Any) -> fb.ProcessResult:
    workers = {} if isinstance(options.get("executor"), fb.Pool) else {"workers": 2}
    fixed = {"by": "batch", "preload": ["event", "nMuon"], "reduce": operator.add, "progress": False}
    return fb.process(source, function, **{**fixed, **workers, "output_batch_size": 100, **options})


def histogram() -> hist.Hist:
    return hist.Hist.new.Integer(0, 20, name="n").Int64()


def fill(batch: fb.EntryBatch, state: hist.Hist) -> None:
    state.fill(batch.nMuon)


def count(batch: fb.EntryBatch, state: Counter[int]) -> None:
    state.update(batch.event.tolist())


def once(dimuon: str, n: int = 1) -> Counter[int]:
    return Counter(dict.fromkeys(fb.open(dimuon)["event"].array(library="np").tolist(), n))


@pytest.mark.filterwarnings("ignore")
def test_each_event_is_in_the_state_exactly_once(dimuon: str, executor: Any) -> None:
    result = process({"a": [dimuon], "b": [dimuon, dimuon]}, fill, state=histogram, executor=executor)
    expected = np.bincount(fb.open(dimuon)["nMuon"].array(library="np"), minlength=20)
    assert result.value.values().tolist() == (3 * expected).tolist()
    assert result.n_events == 3 * N
    apart = process({"a": [dimuon], "b": [dimuon, dimuon]}, count, state=Counter, executor=executor, by_dataset=True)
    assert apart.value == {"a": once(dimuon), "b": once(dimuon, 2)}


def test_workers_make_few_states(dimuon: str) -> None:
    made: list[int] = []

    def make() -> Counter[int]:
        made.append(threading.get_ident())
        return Counter()

    assert process(dimuon, count, state=make).value == once(dimuon)
    assert len(made) < 60  # of 120 batches; a thread that waits for the next batch gives its state away


def total(event: fb.Entry, state: int) -> int:
    return state + int(event.nMuon)


def test_states_that_are_returned_replace_the_old_ones(dimuon: str) -> None:
    assert process(dimuon, total, state=int, by="event").value == 23007
    assert process(fb.open(dimuon), total, state=int, by="event", executor="processes").value == 23007


def dies(directory: Path, batch: fb.EntryBatch, state: Counter[int]) -> None:
    """End the process after it has filled several batches into its state."""
    count(batch, state)
    mark = directory / str(batch.entry_start)
    if batch.entry_start in (3000, 8000) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kept", [False, True])
def test_events_of_a_worker_that_dies_are_in_the_state_exactly_once(dimuon: str, tmp_path: Path, kept: bool) -> None:
    function = functools.partial(dies, tmp_path)
    if kept:
        with fb.Pool("processes", workers=2) as pool:
            assert process(dimuon, function, state=Counter, executor=pool).value == once(dimuon)
            assert process(dimuon, count, state=Counter, executor=pool).value == once(dimuon)
    else:
        assert process(dimuon, function, state=Counter, executor="processes").value == once(dimuon)
    assert len(list(tmp_path.iterdir())) == 2


def dies_at_the_end(batch: fb.EntryBatch, state: Counter[int]) -> None:
    count(batch, state)
    if batch.entry_stop == N:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_whose_process_died_at_the_end_does_other_work(dimuon: str) -> None:
    with fb.Pool("processes", workers=2) as pool:
        options: dict[str, Any] = {"state": Counter, "executor": pool, "output_batch_size": 1000}
        result = process(dimuon, dies_at_the_end, on_error="skip", **options)
        assert result.n_failed == 1000
        for _ in range(2):  # the process that has replaced the dead one may not have begun
            assert process(dimuon, count, **options).value == once(dimuon)


@pytest.mark.filterwarnings("ignore")
def test_events_of_a_worker_of_dask_that_dies_are_in_the_state_exactly_once(dimuon: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    made = functools.partial(marked_counter, tmp_path / "made")
    (tmp_path / "made").mkdir()
    (tmp_path / "marks").mkdir()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        options: dict[str, Any] = {"state": made, "executor": client, "workers": None}
        assert process(dimuon, functools.partial(dies, tmp_path / "marks"), **options).value == once(dimuon)
        assert len(list((tmp_path / "marks").iterdir())) == 2
        assert len(list((tmp_path / "made").iterdir())) <= 16  # of 120 batches
        assert process({"a": [dimuon], "b": [dimuon]}, count, by_dataset=True, **options).value["b"] == once(dimuon)
        with pytest.raises(fb.ProcessError, match="ZeroDivisionError"):
            process(dimuon, divides, **options)
        kept = client.run(n_kept)
        assert sum(kept.values()) == 0


def divides(batch: fb.EntryBatch, state: Counter[int]) -> None:
    count(batch, state)
    if batch.entry_start > 5000:
        raise ZeroDivisionError


def test_a_piece_that_begins_when_work_was_broken_off_leaves_nothing() -> None:
    task = Task(len, by_event=False, reduce=None, skips=False, state=Counter)
    workers.end_states("ended")
    outcome = workers.with_kept_state("ended", None, task, Piece(0, 3), list, "worker", 0.0)  # type: ignore[arg-type]
    assert outcome.raised is not None
    assert "ended" not in workers._states


def n_kept() -> int:
    """Return the number of states that a process keeps."""
    return len(workers._states)


def marked_counter(directory: Path) -> Counter[int]:
    (directory / uuid.uuid4().hex).touch()
    return Counter()


def fails(times: int, directory: Path, batch: fb.EntryBatch, state: Counter[int]) -> None:
    """Raise some times for a batch, which is half in the state by then."""
    state.update(batch.event.tolist()[:50])
    if batch.entry_start == 5000:
        before = len(list(directory.iterdir()))
        if before < times:
            (directory / str(before)).touch()
            raise ValueError("not this one")
    state.update(batch.event.tolist()[50:])


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_batch_that_fails_leaves_nothing_in_the_state(dimuon: str, tmp_path: Path, executor: str) -> None:
    always, twice = tmp_path / "always", tmp_path / "twice"
    always.mkdir()
    twice.mkdir()
    options: dict[str, Any] = {"state": Counter, "executor": executor}
    skipped = process(dimuon, functools.partial(fails, 9, always), on_error="skip", **options)
    assert skipped.value == once(dimuon) - Counter(fb.open(dimuon)["event"].array(library="np")[5000:5100].tolist())
    assert (skipped.n_failed, skipped.n_events) == (100, N - 100)
    again = process(dimuon, functools.partial(fails, 2, twice), on_error="retry", **options)
    assert again.value == once(dimuon)
    with pytest.raises(fb.ProcessError, match=r"failed for entries 5000 to 5099 .*not this one"):
        process(dimuon, functools.partial(fails, 99, twice), **options)


def test_a_checkpoint_has_the_states_of_what_is_done(dimuon: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"state": Counter, "checkpoint": tmp_path / "checkpoint"}
    marks = tmp_path / "marks"
    marks.mkdir()
    function = functools.partial(fails, 1, marks)
    with pytest.raises(fb.ProcessError, match="not this one"):
        process(dimuon, function, **options)
    assert process(dimuon, function, **options).value == once(dimuon)


def test_wrong_states_are_told(dimuon: str) -> None:
    for told, options in (
        (r"state must be a function that makes a state, as a histogram, not 3", {"state": 3}),
        (r"state needs reduce, which combines", {"state": int, "reduce": None}),
        (r"with a state needs by='batch'", {"state": int, "by": "event", "on_error": "skip"}),
    ):
        with pytest.raises(fb.UsageError, match=told):
            process(dimuon, count, **options)
    with pytest.raises(fb.UsageError, match=r"state <function .*> cannot be sent to other"):
        process(dimuon, count, state=lambda: Counter(), executor="processes")


RANKS = """
import operator, sys
from collections import Counter
import femtobarn as fb
sys.path.insert(0, sys.argv[1])
import test_accumulate

value = test_accumulate.process(sys.argv[2], test_accumulate.count, state=Counter, executor="mpi").value
assert value == test_accumulate.once(sys.argv[2])
print("done")
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_of_mpi_fill_states(dimuon: str, tmp_path: Path, need_program: Any, ranks: int) -> None:
    pytest.importorskip("mpi4py")
    need_program("mpirun")
    (tmp_path / "script.py").write_text(RANKS)
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    command = [*mpirun, sys.executable, "-m", "mpi4py", str(tmp_path / "script.py"), str(Path(__file__).parent), dimuon]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.count("done") == ranks, done.stderr  # lines of ranks can mix
