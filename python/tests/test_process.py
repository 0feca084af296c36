"""One function over all events: exactly once, on every kind of workers."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import femtobarn as fb
from femtobarn._checkpoint import Checkpoint

N = 5000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with events in 50 subruns of very different sizes."""
    url = f"dir:{tmp_path_factory.mktemp('process') / 'store'}"
    store = fb.DataStore.connect(url)
    dataset = store.root.create_dataset("a")
    dataset.create_run(99)
    sizes = np.random.default_rng(1).multinomial(N, np.arange(50) / np.arange(50).sum())
    subruns = np.repeat(np.arange(50), sizes)
    with store.write_batch() as batch:
        products = {"n": np.arange(N), "hits": [[n] * (n % 3) for n in range(N)]}
        batch.store_arrays(dataset, products, run=subruns // 7, subrun=subruns, event=np.arange(N) * 3)
    return url


@pytest.fixture
def dataset(url: str) -> fb.DataSet:
    return fb.DataStore.connect(url, mode="r")["a"]


def number(event: Any) -> int:
    return int(event.load("n"))


def many(batch: fb.EventBatch) -> list[int]:
    return [int(n) for n in batch.arrays().n]


def together(a: Any, b: Any) -> Any:
    return a + b


def fails_at_1000(event: Any) -> int:
    if number(event) == 1000:
        raise ValueError("1000 is too much")
    return number(event)


def dies_once(event: Any) -> int:
    """End the process, the first time that some events come."""
    n = number(event)
    if n % 1500 == 700:
        mark = Path(os.environ["MARKS"]) / str(n)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return n


def always_dies(event: Any) -> None:
    if number(event) == 3000:
        os.kill(os.getpid(), signal.SIGKILL)


def slowly(event: Any) -> int:
    time.sleep(0.0005)
    return number(event)


def process(dataset: Any, function: Any, **options: Any) -> fb.ProcessResult:
    return fb.process(dataset, function, **{"preload": ["n"], "workers": 3, "progress": False, **options})


@pytest.fixture(params=["threads", "processes", "pool", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What processes events."""
    if request.param == "pool":
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            yield pool
    elif request.param == "dask":
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster):
            yield "dask"
    else:
        yield request.param


@pytest.mark.filterwarnings("ignore")
def test_every_event_is_there_exactly_once_and_in_order(dataset: fb.DataSet, executor: Any) -> None:
    result = process(dataset, number, executor=executor, output_batch_size=100)
    assert result.value == list(range(N))
    assert result.n_events == N
    assert result.failures == []
    assert result.statistics.total_events_processed == N
    batches = process(dataset, many, executor=executor, by="batch", output_batch_size=333, reduce=together)
    assert batches.value == list(range(N))


@pytest.mark.filterwarnings("ignore")
def test_sums_do_not_depend_on_workers(dataset: fb.DataSet) -> None:
    found = {
        process(dataset, _root_of_n, workers=workers, executor=executor, reduce=together).value
        for workers, executor in [(1, "threads"), (7, "threads"), (2, "processes")]
    }
    assert len(found) == 1


def _root_of_n(event: Any) -> float:
    return float(np.sqrt(number(event)))


def test_parts_of_a_dataset_and_other_sizes(dataset: fb.DataSet) -> None:
    run = dataset[3]
    expected = [int(event.load("n")) for event in run.events()]
    for sizes in [(1, 1), (7, 3), (1000, 10_000)]:
        options = {"input_batch_size": sizes[0], "output_batch_size": sizes[1]}
        assert process(run, number, **options).value == expected
    subrun = next(iter(run))
    assert process(subrun, number).value == [int(event.load("n")) for event in subrun]
    empty = dataset[99]
    assert process(empty, lambda event: 1, preload=[]).value == []
    assert process(empty, lambda event: 1, preload=[], reduce=together).value is None
    assert process(dataset, lambda event: None).value == []


def test_errors_name_the_event(dataset: fb.DataSet) -> None:
    for executor in ("threads", "processes"):
        with pytest.raises(fb.ProcessError, match=r"failed for run 3, subrun \d+, event 3000: ValueError"):
            process(dataset, fails_at_1000, executor=executor)
        skipped = process(dataset, fails_at_1000, executor=executor, on_error="skip")
        assert skipped.value == [n for n in range(N) if n != 1000]
        (failure,) = skipped.failures
        assert failure.where.endswith("event 3000")
        assert "1000 is too much" in failure.error
        assert "fails_at_1000" in failure.details
    with pytest.raises(fb.ProcessError, match="tried 3 times"):
        process(dataset, fails_at_1000, on_error="retry")
    seen: set[int] = set()

    def fails_first(event: Any) -> int:
        n = number(event)
        if n == 1000 and n not in seen:
            seen.add(n)
            raise OSError
        return n

    assert process(dataset, fails_first, on_error="retry").value == list(range(N))


def test_events_of_processes_that_die_are_done_again(
    dataset: fb.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKS", str(tmp_path))
    result = process(dataset, dies_once, executor="processes")
    assert len(list(tmp_path.iterdir())) == 3
    assert result.value == list(range(N))
    with pytest.raises(fb.WorkerDiedError, match=r"3 processes died over run \d+, subrun \d+, event"):
        process(dataset, always_dies, executor="processes")


SEEN: list[int] = []


def noted(event: Any) -> int:
    """Note that an event came, and say when half have."""
    n = number(event)
    SEEN.append(n)
    if n == 2500 and os.environ.get("SAYS_HALF"):
        print("half", flush=True)
    return n


def test_a_run_that_was_broken_off_is_continued(url: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, "-c", _BROKEN_OFF, url, str(checkpoint), noted.__module__]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "SAYS_HALF": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == "half"
        os.kill(program.pid, signal.SIGKILL)
    assert checkpoint.exists()
    dataset = fb.DataStore.connect(url, mode="r")["a"]
    SEEN.clear()
    result = process(dataset, noted, checkpoint=checkpoint)
    assert result.value == list(range(N))
    assert result.n_events == N
    assert 0 < len(SEEN) < N
    assert not checkpoint.exists()


_BROKEN_OFF = """
import sys
import time
import femtobarn as fb
from femtobarn import _checkpoint
_checkpoint._EVERY, _checkpoint._MOST = 0.0, 1e9
import test_process
if sys.argv[3:]:
    test_process.noted.__module__ = sys.argv[3]  # as pytest calls it
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
fb.process(dataset, test_process.noted, preload=["n"], workers=1, checkpoint=sys.argv[2])
time.sleep(60)
"""


def test_what_reduce_has_left_by_halves_is_not_noted(dataset: fb.DataSet, tmp_path: Path) -> None:
    # A piece was counted before its value was put to the others: 477004 came of a run that was continued.
    checkpoint = tmp_path / "checkpoint"
    broken = {"again": False}

    def sums(a: list[int], b: list[int]) -> list[int]:
        if a[1] + b[1] > 2500 and not broken["again"]:
            broken["again"] = True
            a[0] += 10**9  # it changes what it was given, before it fails
            raise KeyboardInterrupt
        a[0] += b[0]
        a[1] += b[1]
        return a

    def first(batch: Any) -> list[int]:
        return [int(np.sum(batch.arrays().n)), len(batch)]

    for every in (0.0, 5.0):
        broken["again"] = False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("femtobarn._checkpoint._EVERY", every)
            with pytest.raises(KeyboardInterrupt):
                process(dataset, first, by="batch", reduce=sums, checkpoint=checkpoint)
            assert process(dataset, first, by="batch", reduce=sums, checkpoint=checkpoint).value == [
                N * (N - 1) // 2,
                N,
            ]


def fails_late(event: Any) -> int:
    if number(event) == 4000:
        raise ValueError("too late")
    return number(event)


def test_a_checkpoint_is_of_one_work_only(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    memory = fb.DataStore.connect("memory:")

    def filled() -> fb.DataSet:
        made = memory.root.create_dataset("a")
        with memory.write_batch() as batch:
            batch.store_arrays(made, {"n": np.arange(N), "m": np.arange(N)}, run=1, subrun=1, event=np.arange(N))
        return made

    made = filled()
    function: Any = fails_late

    def broken_off() -> None:
        path.unlink(missing_ok=True)
        with pytest.raises(fb.ProcessError):
            process(made, fails_late, checkpoint=path)

    broken_off()
    with pytest.raises(fb.UsageError, match=r"of other work \(events: .*dataset 'a'.* there, .*run 1.* here"):
        process(made[1], function, checkpoint=path)
    for options, what in [
        ({"preload": ["n", "m"]}, "preload"),
        ({"reduce": together}, "reduce: none there"),
        ({"on_error": "skip"}, "on_error: raise there, skip here"),
        ({"by": "batch"}, "by: event there"),
        ({"output_batch_size": 63}, "output_batch_size: 64 there, 63 here"),
    ]:
        with pytest.raises(fb.UsageError, match=what):
            process(made, fails_late, checkpoint=path, **options)
    with pytest.raises(fb.UsageError, match=r"function: .*fails_late \(code .*remove the file to begin anew"):
        process(made, number, checkpoint=path)
    code = fails_late.__code__
    try:
        fails_late.__code__ = code.replace(co_consts=tuple(7000 if c == 4000 else c for c in code.co_consts))
        with pytest.raises(fb.UsageError, match=r"work \(function: "):
            process(made, fails_late, checkpoint=path)
    finally:
        fails_late.__code__ = code
    made.delete()
    made = filled()
    with pytest.raises(fb.UsageError, match="of other work"):
        process(made, fails_late, checkpoint=path)
    ntuples = []
    for n in range(2):
        file = tmp_path / f"{n}" / "a.root"
        file.parent.mkdir()
        fb.write(file, {"n": np.arange(100)}, name="Events")
        ntuples.append(fb.open(f"{file}:Events"))
    path.unlink()
    with pytest.raises(fb.ProcessError):
        process(ntuples[0], zero_division, checkpoint=path)
    with pytest.raises(fb.UsageError, match="events: Events"):
        process(ntuples[1], zero_division, checkpoint=path)
    (tmp_path / "0" / "a.root").unlink()
    fb.write(tmp_path / "0" / "a.root", {"n": np.arange(100) + 1}, name="Events")
    with pytest.raises(fb.UsageError, match="sizes and times of files"):
        process(fb.open(f"{tmp_path / '0' / 'a.root'}:Events"), zero_division, checkpoint=path)


def zero_division(event: Any) -> float:
    return 1 / 0


def test_pieces_are_cut_alike_whatever_is_fetched_together(dataset: fb.DataSet) -> None:
    found = [
        process(dataset, len, by="batch", output_batch_size=300, input_batch_size=size).value for size in (1000, 4999)
    ]
    assert found == [[300] * 16 + [200]] * 2


def test_checkpoints_that_cannot_be_used_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for content in (b"", b"nonsense", b"\x80\x04N.", b"\x80\x04K\x01K\x02\x86."):
        path.write_bytes(content)
        with pytest.raises(fb.FormatError, match=r"checkpoint: this is no checkpoint .*remove it"):
            process(dataset, number, checkpoint=path)
    path.unlink()
    called: list[int] = []
    with pytest.raises(fb.UsageError, match="there is no folder"):
        process(dataset, called.append, checkpoint=tmp_path / "missing" / "checkpoint")
    with pytest.raises(fb.UsageError, match="this is a folder"):
        process(dataset, called.append, checkpoint=tmp_path)
    assert called == []
    with pytest.raises(fb.UsageError, match="the results cannot be pickled"):
        process(dataset, lambda event: lambda: event, checkpoint=path)
    assert list(tmp_path.iterdir()) == []


class Slow:
    """What takes a while to be pickled."""

    saved = 0

    def __reduce__(self) -> Any:
        self.saved += 1
        time.sleep(0.02)
        return (Slow, ())


def test_what_a_checkpoint_costs_is_a_small_part(tmp_path: Path) -> None:
    slow = Slow()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("femtobarn._checkpoint._EVERY", 0.0)
        checkpoint = Checkpoint(tmp_path / "checkpoint", {})
        checkpoint.state.values.append(slow)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            checkpoint.save(now=False)
            time.sleep(0.001)
    assert 1 <= slow.saved <= 3


def test_work_is_balanced_however_long_events_take(dataset: fb.DataSet) -> None:
    workers = 16
    result = process(dataset, slowly, workers=workers, output_batch_size=16)
    counts = [worker.events for worker in result.statistics.workers.values()]
    assert len(counts) == workers
    assert max(counts) < 2 * N / workers


def test_statistics_say_who_did_what(dataset: fb.DataSet) -> None:
    statistics = process(dataset, slowly).statistics
    told = json.loads(statistics.to_json())
    assert told["total_events_processed"] == N == sum(worker["events"] for worker in told["workers"].values())
    assert set(told["workers"]["thread 0"]) == {"events", "batches", "processing", "loading", "waiting"}
    assert 0 < told["efficiency"] <= 1
    assert f"{N:,} events" in str(statistics)
    pytest.importorskip("matplotlib").use("Agg")
    assert "seconds" in statistics.plot().get_xlabel()


def test_entries_of_ntuples_are_processed_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    fb.write(path, {"x": np.arange(1000), "y": [[n] for n in range(1000)]}, name="Events")
    ntuple = fb.open(f"{path}:Events")
    for executor in ("threads", "processes"):
        result = fb.process(
            ntuple, _x, preload=["x"], executor=executor, workers=2, by="batch", output_batch_size=300, progress=False
        )
        assert np.concatenate(result.value).tolist() == list(range(1000))
    assert fb.process(ntuple, lambda event: int(event.x), progress=False).value == list(range(1000))
    with pytest.raises(fb.ProcessError, match="failed for entry 7"):
        fb.process(ntuple, lambda event: 1 / (event.x - 7) and None, progress=False)


def _x(batch: Any) -> list[int]:
    values: list[int] = batch.x.tolist()
    return values


def test_wrong_usage_is_told(dataset: fb.DataSet) -> None:
    for options, message in [
        ({"by": "run"}, "by is"),
        ({"on_error": "ignore"}, "on_error is"),
        ({"output_batch_size": 0}, "must be 1 or more"),
        ({"executor": "gpu"}, "executor is"),
        ({"workers": -1}, "workers must be"),
    ]:
        with pytest.raises(fb.UsageError, match=message):
            process(dataset, number, **options)
    with pytest.raises(fb.UsageError, match="cannot be sent to other processes"):
        process(dataset, lambda event: 1, executor="processes")
    memory = fb.DataStore.connect("memory:").root.create_dataset("a")
    memory.create_run(1)
    with pytest.raises(fb.UsageError, match="store in memory cannot be pickled"):
        process(memory, number, executor="processes", preload=[])
    with pytest.raises(fb.UsageError, match="events are those of"):
        process([1, 2], number)
    with pytest.raises(KeyError, match="no event of dataset 'a' has a product 'm'"):
        process(dataset, number, preload=["m"])


def test_other_processes_read_what_this_one_may_write(tmp_path: Path) -> None:
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}").root.create_dataset("a")
    subrun = dataset.create_run(1).create_subrun(1)
    for n in range(10):
        subrun.create_event(n).store("n", n)
    assert process(dataset, number, executor="processes").value == list(range(10))


def test_threads_end_with_what_they_work_for(dataset: fb.DataSet) -> None:
    before = threading.active_count()
    process(dataset, number)
    with pytest.raises(fb.ProcessError):
        process(dataset, fails_at_1000)
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


_MPI = """
import sys
import femtobarn as fb
import test_process
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
result = fb.process(dataset, test_process.number, preload=["n"], executor="mpi", reduce=test_process.together)
sys.stdout.write(f"{result.value} {result.n_events}\\n")  # in one piece, as ranks share the output
try:
    fb.process(dataset, test_process.fails_at_1000, preload=["n"], executor="mpi")
except fb.ProcessError as error:
    sys.stdout.write("failed\\n" if "event 3000" in str(error) else str(error))
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_of_mpi(url: str, ranks: int, need_program: Any) -> None:
    need_program("mpirun")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command = [*mpirun, sys.executable, "-c", _MPI, url]
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines().count(f"{N * (N - 1) // 2} {N}") == ranks
    assert said.stdout.splitlines().count("failed") == ranks
