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


def test_a_run_that_was_broken_off_is_continued(url: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, "-c", _BROKEN_OFF, url, str(checkpoint)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == "half"
        os.kill(program.pid, signal.SIGKILL)
    assert checkpoint.exists()
    dataset = fb.DataStore.connect(url, mode="r")["a"]
    seen: list[int] = []
    result = process(dataset, lambda event: (seen.append(number(event)), number(event))[1], checkpoint=checkpoint)
    assert result.value == list(range(N))
    assert result.n_events == N
    assert 0 < len(seen) < N
    assert not checkpoint.exists()
    with pytest.raises(fb.ProcessError, match="ZeroDivisionError"):
        process(dataset, number, checkpoint=checkpoint, reduce=lambda a, b: 1 // 0)
    with pytest.raises(fb.UsageError, match="remove it to begin anew"):
        process(dataset, number, checkpoint=checkpoint, output_batch_size=3)


_BROKEN_OFF = """
import sys
import femtobarn as fb
import femtobarn._process
femtobarn._process._CHECKPOINT_EVERY = 0.0
import test_process
def function(event):
    n = test_process.number(event)
    if n == 2500:
        print("half", flush=True)
    return n
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
fb.process(dataset, function, preload=["n"], workers=1, checkpoint=sys.argv[2])
import time
time.sleep(60)
"""


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
