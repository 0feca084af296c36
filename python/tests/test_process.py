"""One function for all events: called exactly once per event, by every kind of workers."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import gc
import json
import multiprocessing
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb
from femtobarn._processing import checkpoint as _checkpoint
from femtobarn._processing.checkpoint import Checkpoint
from femtobarn._processing.work import StoreWork, Task
from femtobarn._processing.workers import serve_process

N = 5000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with events in 50 subruns of very different sizes."""
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
    """End the process the first time that some events come."""
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


@pytest.fixture(params=["threads", "processes", "pool", "dask", "client"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return an executor."""
    if request.param == "pool":
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            yield pool
    elif request.param in ("dask", "client"):
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client:
            yield client if request.param == "client" else "dask"
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


def test_sums_over_batches_of_a_given_size_do_not_depend_on_workers(tmp_path: Path) -> None:
    fb.write(tmp_path / "a.root", {"x": np.random.default_rng(1).random(10_000)}, name="Events")
    nt = fb.open(tmp_path / "a.root")
    found = {
        process(nt, _sum_of_x, by="batch", preload=["x"], reduce=together, output_batch_size=300, **options).value
        for options in ({"workers": 1}, {"workers": 7}, {"workers": 2, "executor": "processes"})
    }
    assert len(found) == 1


def _sum_of_x(events: Any) -> float:
    return float(ak.sum(events.x))


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


class FailsTwice:
    """Fails twice for some events or batches, and records its calls."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        self.calls: list[Any] = []

    def __call__(self, item: Any) -> Any:
        found = self.numbers(item)
        self.calls.append(found)
        if "1000" in str(found) and self.calls.count(found) < 3:
            raise OSError
        return found


@pytest.mark.parametrize(("by", "numbers", "n"), [("event", number, N), ("batch", many, 8)])
def test_what_fails_is_tried_again_by_itself(dataset: fb.DataSet, by: str, numbers: Any, n: int) -> None:
    """All events of the same request were processed again."""
    function = FailsTwice(numbers)
    result = process(dataset, function, by=by, on_error="retry", workers=1)
    values = result.value if by == "event" else [one for batch in result.value for one in batch]
    assert values == list(range(N))
    assert len(function.calls) == n + 2
    assert result.statistics.total_events_processed == N
    seen: list[int] = []

    def fails(event: Any) -> None:
        seen.append(number(event))
        fails_at_1000(event)

    with pytest.raises(fb.ProcessError, match=r"event 3000, tried 3 times: ValueError"):
        process(dataset, fails, on_error="retry", workers=1)
    assert (seen.count(999), seen.count(1000)) == (1, 3)
    with pytest.raises(fb.ProcessError, match=r"event 3000, tried 3 times: ValueError"):
        process(dataset, fails_at_1000, on_error="retry", executor="processes")


def test_what_cannot_be_loaded_is_loaded_again(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}", objects=tmp_path / "large", objects_over=100)
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for n in range(20):
        subrun.create_event(n).store("n", bytes([n]) * 200)
    store.flush()
    (tmp_path / "large").rename(tmp_path / "away")
    moved: list[bool] = []

    class Work(StoreWork):
        """The third attempt finds the objects again."""

        def load(self, piece: Any) -> Any:
            moved.append(True)
            if len(moved) == 3:
                (tmp_path / "away").rename(tmp_path / "large")
            return super().load(piece)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("femtobarn._processing.process.StoreWork", Work)
        result = process(subrun, length, on_error="retry", workers=1)
    assert result.value == [200] * 20


def test_events_of_processes_that_die_are_done_again(
    dataset: fb.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKS", str(tmp_path))
    result = process(dataset, dies_once, executor="processes")
    assert len(list(tmp_path.iterdir())) == 3
    assert result.value == list(range(N))
    with pytest.raises(fb.WorkerDiedError, match=r"3 processes died while they processed run \d+, subrun \d+, event"):
        process(dataset, always_dies, executor="processes")


SEEN: list[int] = []


def noted(event: Any) -> int:
    """Record an event, and signal when half have come."""
    n = number(event)
    SEEN.append(n)
    if n == 2500 and os.environ.get("SAYS_HALF"):
        sys.stdout.write("half\n")
        sys.stdout.flush()
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


def test_a_checkpoint_notes_no_event_whose_products_wait_in_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_checkpoint, "_EVERY", 0.0)
    monkeypatch.setattr(_checkpoint, "_MOST", 1e9)
    store = fb.DataStore.connect("memory:")
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"n": range(1000)}, run=1, subrun=1, event=range(1000))
    seen: list[int] = []
    given: dict[str, Any] = {"batch": store.write_batch()}
    mended = tmp_path / "mended"

    def stage(event: fb.Event) -> None:
        n = event.number
        if n == 900 and not mended.exists():
            raise OSError
        seen.append(n)
        event.store("y", n, batch=given["batch"])

    def run() -> None:
        fb.process(dataset, stage, workers=1, checkpoint=tmp_path / "checkpoint", progress=False)

    with pytest.raises(fb.ProcessError):
        run()
    there = {event.number for event in dataset.events() if event.load("y", default=None) is not None}
    first = given["batch"]  # what it has still is as good as lost
    given["batch"] = store.write_batch()
    mended.touch()
    seen.clear()
    run()
    assert 0 < len(seen) < 1000
    assert set(range(1000)) - set(seen) <= there
    for batch in (first, given["batch"]):
        batch.close()


def test_checkpoints_and_batches_that_functions_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checkpoint, "_EVERY", 0.0)
    monkeypatch.setattr(_checkpoint, "_MOST", 1e9)
    store = fb.DataStore.connect("memory:")
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"n": range(2000)}, run=1, subrun=1, event=range(2000))

    def stage(event: fb.Event) -> None:
        with store.write_batch() as own:
            event.store("y", event.number, batch=own)

    fb.process(dataset, stage, workers=4, output_batch_size=1, checkpoint=tmp_path / "checkpoint", progress=False)
    assert dataset.arrays("y").tolist() == list(range(2000))


_BROKEN_OFF = """
import sys
import time
import femtobarn as fb
from femtobarn._processing import checkpoint as _checkpoint
_checkpoint._EVERY, _checkpoint._MOST = 0.0, 1e9
import test_process
if sys.argv[3:]:
    test_process.noted.__module__ = test_process.number.__module__ = sys.argv[3]  # as pytest names it
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
fb.process(dataset, test_process.noted, preload=["n"], workers=1, checkpoint=sys.argv[2])
time.sleep(60)
"""


def test_what_reduce_has_left_by_halves_is_not_noted(dataset: fb.DataSet, tmp_path: Path) -> None:
    # A piece was counted before its value was added: a continued run returned 477004.
    checkpoint = tmp_path / "checkpoint"
    broken = tmp_path / "broken"

    def sums(a: list[int], b: list[int]) -> list[int]:
        if a[1] + b[1] > 2500 and not broken.exists():
            broken.touch()
            a[0] += 10**9  # it changes its argument before it fails
            raise KeyboardInterrupt
        a[0] += b[0]
        a[1] += b[1]
        return a

    def first(batch: Any) -> list[int]:
        return [int(np.sum(batch.arrays().n)), len(batch)]

    for every in (0.0, 5.0):
        broken.unlink(missing_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("femtobarn._processing.checkpoint._EVERY", every)
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
    with pytest.raises(fb.UsageError, match=r"other work \(events: .*dataset 'a'.* there, .*run 1.* here"):
        process(made[1], function, checkpoint=path)
    for options, what in [
        ({"preload": ["n", "m"]}, "preload"),
        ({"reduce": together}, "reduce: none there"),
        ({"by": "batch"}, "by: event there"),
        ({"output_batch_size": 63}, "output_batch_size: 64 there, 63 here"),
    ]:
        with pytest.raises(fb.UsageError, match=what):
            process(made, fails_late, checkpoint=path, **options)
    with pytest.raises(fb.UsageError, match=r"function: .*fails_late \(source .*remove the file to start again"):
        process(made, number, checkpoint=path)
    # after an error, the work may continue without the failed event
    skipped = process(made, fails_late, checkpoint=path, on_error="skip")
    assert len(skipped.failures) == 1
    assert len(skipped.value) == skipped.n_events == N - 1
    assert skipped.n_failed == 1
    broken_off()
    made.delete()
    made = filled()
    with pytest.raises(fb.UsageError):
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
    with pytest.raises(fb.UsageError):
        process(fb.open(f"{tmp_path / '0' / 'a.root'}:Events"), zero_division, checkpoint=path)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A cut on an event."""

    n: Any


class Kind(enum.Enum):
    A = 3
    B = 900


class Selection:
    """A function with attributes."""

    def __init__(self, cut: Any) -> None:
        self.cut = cut

    def __call__(self, event: Any) -> int:
        return not_yet(event)

    select = __call__


def not_yet(event: Any) -> int:
    raise ValueError("not yet")


def enclosing(cut: Any) -> Any:
    def function(event: Any) -> Any:
        return cut, function, not_yet(event)

    return function


def with_default(cut: Any) -> Any:
    def function(event: Any, least: Any = cut) -> Any:
        return least, not_yet(event)

    return function


def by_another(event: Any, cut: Any) -> int:
    return not_yet(event)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (3, 900),
        (np.float32(3), np.float64(3)),
        (np.arange(5), np.arange(1, 6)),
        ({"pt": [20, "e"]}, {"pt": [20, "mu"]}),
        (Cut(3), Cut(900)),
        (Kind.A, Kind.B),
        (Selection(3), Selection(900)),
        (ak.Array([[1], []]), ak.Array([[], [1]])),
        (number, many),
        (threading.Lock(), open),  # what cannot be pickled counts by its class
    ],
)
def test_a_checkpoint_belongs_to_one_function_and_its_arguments(
    dataset: fb.DataSet, tmp_path: Path, one: Any, other: Any
) -> None:
    path = tmp_path / "checkpoint"
    makes: list[Any] = [enclosing, with_default, Selection, lambda cut: Selection(cut).select]
    for make in [*makes, lambda cut: partial(by_another, cut=cut), lambda cut: partial(by_another, cut=enclosing(cut))]:
        with pytest.raises(fb.ProcessError, match="not yet"):
            process(dataset, make(one), checkpoint=path)
        with pytest.raises(fb.UsageError, match=r"other work \(arguments of function: .* there, .* here"):
            process(dataset, make(other), checkpoint=path)
        with pytest.raises(fb.ProcessError, match="not yet"):
            process(dataset, make(one), checkpoint=path)
        path.unlink()


def test_a_key_identifies_the_work_of_a_checkpoint(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(fb.ProcessError):
        process(dataset, enclosing(3), checkpoint=path, key="cuts 1")
    with pytest.raises(fb.UsageError, match="function: key 'cuts 1' there, key 'cuts 2' here"):
        process(dataset, enclosing(3), checkpoint=path, key="cuts 2")
    with pytest.raises(fb.UsageError, match=r"function: key 'cuts 1' there, .*function .source"):
        process(dataset, enclosing(3), checkpoint=path)
    assert process(dataset, number, checkpoint=path, key="cuts 1").n_events == N  # a mended function


_IDENTITY = """
import sys
from functools import partial
from femtobarn._processing.checkpoint import function_identity
import test_process
function = partial(test_process.by_another, frozenset({"e", "mu", "tau"}), cut={"e", "mu", "tau"})
made = [function, test_process.enclosing({"e", "mu"}), eval("lambda n: [m for m in n if m > 3]"), print]
sys.stdout.write(repr([function_identity("function", one, None) for one in made]))
"""


def test_functions_have_the_same_identity_in_each_process() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _IDENTITY]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
        said.add(done.stdout)
    assert len(said) == 1


def zero_division(event: Any) -> float:
    return 1 / 0


def test_pieces_are_cut_alike_whatever_is_fetched_together(dataset: fb.DataSet) -> None:
    found = [
        process(dataset, len, by="batch", output_batch_size=300, input_batch_size=size).value for size in (1000, 4999)
    ]
    assert found == [[300] * 16 + [200]] * 2


def test_batches_are_large_unless_there_are_few_events(dataset: fb.DataSet) -> None:
    """With 64 events per call, columns were of no use."""

    def sizes(source: fb.DataSet | fb.Run, **options: Any) -> set[int]:
        value = process(source, len, by="batch", **options).value
        assert sum(value) == source.n_events()
        return set(value[:-1])

    assert sizes(dataset, workers=2) == {N // 16}
    assert sizes(dataset, workers=2, input_batch_size=100) == {100}
    assert sizes(dataset, workers=64) == {64}
    assert sizes(dataset[7], workers=1) == {64}
    with fb.DataStore.connect("memory:") as store:
        many = store.root.create_dataset("many")
        with store.write_batch() as batch:
            event = np.arange(10_000)
            batch.store_arrays(many, {"n": event}, run=event // 3000, subrun=0, event=event)
        assert sizes(many, workers=1) == {1024}


@pytest.mark.parametrize(("executor", "each"), [("threads", 4), ("processes", 2)])
@pytest.mark.parametrize("by", ["event", "batch"])
def test_each_worker_gets_a_part_of_a_small_ntuple(dimuon: Path, executor: str, each: int, by: str) -> None:
    """One worker got all entries of a file that had fewer than 16,384."""
    ntuple = fb.open(dimuon)
    result = process(ntuple, str, preload=["nMuon"], by=by, executor=executor, workers=2, reduce=max)
    assert result.n_events == ntuple.num_entries
    sizes = process(ntuple, len, preload=["nMuon"], by="batch", executor=executor, workers=2).value
    assert set(sizes[:-1]) == {ntuple.num_entries // (2 * each)}


def test_a_run_that_is_continued_has_the_batches_that_it_had(dataset: fb.DataSet, tmp_path: Path) -> None:
    # Their size depends on the workers, which may change.
    called: list[int] = []

    def size(batch: fb.EventBatch) -> int:
        called.append(len(batch))
        if len(called) == 4:
            raise OSError("broken off")
        return len(batch)

    options: dict[str, Any] = {"by": "batch", "checkpoint": tmp_path / "checkpoint", "key": "sizes"}
    with pytest.raises(fb.ProcessError, match="broken off"):
        process(dataset, size, workers=1, **options)
    value = process(dataset, size, workers=3, **options).value
    assert value == [N // 8] * 8
    assert len(called) < 2 * len(value)


def test_checkpoints_that_cannot_be_used_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for content in (b"", b"nonsense", b"\x80\x04N.", b"\x80\x04K\x01K\x02\x86."):
        path.write_bytes(content)
        with pytest.raises(fb.FormatError, match=r"checkpoint: not a checkpoint of this version.* another path"):
            process(dataset, number, checkpoint=path)
        assert path.read_bytes() == content  # which may be a script
    path.write_bytes(b"femtobarn checkpoint 4\n[{}, []")
    with pytest.raises(fb.FormatError, match=r"checkpoint: this checkpoint is damaged .*remove it"):
        process(dataset, number, checkpoint=path)
    path.unlink()
    called: list[int] = []
    with pytest.raises(fb.UsageError):
        process(dataset, called.append, checkpoint=tmp_path / "missing" / "checkpoint")
    with pytest.raises(fb.UsageError):
        process(dataset, called.append, checkpoint=tmp_path)
    assert called == []
    with pytest.raises(fb.UsageError):
        process(dataset, lambda event: lambda: event, checkpoint=path)
    assert list(tmp_path.iterdir()) == []


class Slow:
    """An object that takes a while to be pickled."""

    saved = 0

    def __reduce__(self) -> Any:
        self.saved += 1
        time.sleep(0.02)
        return (Slow, ())


def test_what_a_checkpoint_costs_is_a_small_part(tmp_path: Path) -> None:
    slow = Slow()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("femtobarn._processing.checkpoint._EVERY", 0.0)
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
    thread = told["workers"]["thread 0"]
    times = {"processing_time", "waiting_time"}
    numbers = {"events", "local_events", "batches", "processing", "loading", "waiting"}
    assert set(thread) == numbers | times
    assert all(set(thread[name]) == {"num", "min", "max", "avg", "var"} for name in times)
    assert thread["processing_time"]["num"] == thread["events"]
    assert thread["waiting_time"]["num"] == thread["batches"]
    calls = thread["processing_time"]
    assert 0.0005 <= calls["min"] < calls["avg"] < calls["max"]
    assert 0.0005 * calls["num"] <= calls["avg"] * calls["num"] <= thread["processing"]
    assert thread["local_events"] == 0
    assert "(0 loaded locally)" in str(statistics)
    elsewhere = process(dataset, number, executor="processes").statistics
    assert sum(worker.local_events for worker in elsewhere.workers.values()) == N
    assert 0 < told["efficiency"] <= 1
    assert f"{N:,} events" in str(statistics)
    pytest.importorskip("matplotlib").use("Agg")
    assert "seconds" in statistics.plot().get_xlabel()


def test_times_that_are_merged_are_those_of_all_together() -> None:
    times = np.random.default_rng(1).exponential(size=1000)
    parts = [fb.TimeStatistics.of(part.tolist()) for part in np.split(times, [0, 3, 500])]
    merged = fb.TimeStatistics()
    for part in parts:
        merged = merged.merged(part)
    assert (merged.num, merged.min, merged.max) == (1000, times.min(), times.max())
    assert (merged.avg, merged.var) == pytest.approx((times.mean(), times.var()))


def test_results_are_short_when_they_are_shown(dataset: fb.DataSet) -> None:
    result = process(dataset, number)
    assert repr(result).startswith("<ProcessResult [0, 1, 2, 3, 4, 5, ...]: 5,000 events in ")
    assert len(repr(result)) < 100
    one = process(next(dataset.events()).subrun, number, workers=1)
    assert re.fullmatch(r"<ProcessResult .*: \d+ events? in .* s on 1 worker>", repr(one))
    assert " s on 1 worker, " in str(one.statistics)
    assert f"{fb.ProcessError.__module__}.{fb.WorkerDiedError.__module__}" == "femtobarn.femtobarn"
    assert pickle.loads(pickle.dumps(fb.ProcessError("x"))).args == ("x",)


def test_what_cannot_be_flushed_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEMTOBARN_STORE_MAP_SIZE", str(1 << 20))
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")
    subrun = store.create_dataset("a").create_run(1).create_subrun(1)
    subrun.create_event(1)
    batch = store.write_batch()

    def function(event: Any) -> None:
        event.store("x", os.urandom(4 << 20), batch=batch)

    with pytest.raises(fb.FemtobarnError, match="FEMTOBARN_STORE_MAP_SIZE") as raised:
        process(subrun, function, preload=[], checkpoint=tmp_path / "checkpoint")
    assert getattr(raised.value, "__notes__", []) == []
    with pytest.raises(fb.FemtobarnError):
        store.close()


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


def _n(batch: Any) -> int:
    return len(batch.x)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_damaged_page_costs_no_batch_of_another_file(tmp_path: Path, executor: str) -> None:
    # batches extended into the next files: 16,384 events were left out for one page of a file of 3,000
    paths = [tmp_path / f"{n}.root" for n in range(5)]
    for path in paths:
        fb.write(path, {"x": (np.arange(1000) % 251).astype(np.uint8)}, compression=None)
    content = bytearray(paths[2].read_bytes())
    content[content.index(bytes(range(100))) + 10] ^= 1
    paths[2].write_bytes(content)
    options: dict[str, Any] = {"preload": ["x"], "executor": executor, "workers": 2, "progress": False}
    result = fb.process(fb.open(paths), _n, by="batch", on_error="skip", output_batch_size=16_384, **options)
    assert result.value == [1000] * 4
    assert [(one.where, one.n_events) for one in result.failures] == [("entries 2000 to 2999", 1000)]
    assert (result.n_events, result.n_failed) == (4000, 1000)
    small = fb.process(fb.open(paths), _n, by="batch", on_error="skip", output_batch_size=300, **options)
    assert small.value == [300, 300, 300, 100] * 4
    assert small.n_failed == 1000  # all need that page


def _x(batch: Any) -> list[int]:
    values: list[int] = batch.x.tolist()
    return values


async def awaited(event: Any) -> int:
    return number(event)


class Yields:
    def __call__(self, event: Any) -> Iterator[int]:
        yield number(event)


def test_wrong_usage_is_told(dataset: fb.DataSet) -> None:
    for options, message in [
        ({"by": "run"}, "by must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"output_batch_size": 0}, "must be 1 or more"),
        ({"executor": "gpu"}, "executor must be"),
        ({"workers": -1}, "workers must be"),
        ({"workers": 0}, "workers must be"),
        ({"reduce": 5}, "reduce must be a function of two results, not 5"),
        ({"function": 5}, "called for each event"),
        (
            {"function": awaited},
            r"the function <function awaited .* coroutine function: use `await femtobarn.aio.process",
        ),
        ({"function": partial(awaited, 1)}, "takes a function defined with `async def`"),
        ({"function": Yields()}, r"the function <.*Yields object .*> is a generator, .*: return a list"),
        ({"function": Yields().__call__}, "return a list"),
        ({"reduce": awaited}, "reduce is never awaited"),
        ({"executor": "processes", "reduce": lambda a, b: a}, "reduce <function .* cannot be sent to other processes"),
    ]:
        with pytest.raises(fb.UsageError, match=message):
            process(dataset, **{"function": number, **options})
    pytest.importorskip("distributed")
    with pytest.raises(fb.UsageError):
        process(dataset, number, executor="dask")
    with pytest.raises(fb.UsageError):
        process(dataset, lambda event: 1, executor="processes")
    memory = fb.DataStore.connect("memory:").root.create_dataset("a")
    memory.create_run(1)
    with pytest.raises(fb.UsageError):
        process(memory, number, executor="processes", preload=[])
    with pytest.raises(fb.UsageError):
        process([1, 2], number)
    with pytest.raises(KeyError, match="no event of dataset 'a' has a product 'm'"):
        process(dataset, number, preload=["m"])


def test_what_was_deleted_is_no_work_without_events(store: fb.DataStore) -> None:
    # It succeeded with 0 events.
    dataset = store.root.create_dataset("a/b")
    run = dataset.create_run(1)
    subrun = run.create_subrun(1)
    subrun.create_event(1)
    deleted = run.create_subrun(2)
    deleted.delete()
    assert process(dataset, len, preload=[], by="batch").value == [1]
    with pytest.raises(fb.KeyNotFoundError, match=r"run 1, subrun 2.* does not exist: it was deleted"):
        process(deleted, number)
    store["a"].delete()
    for source in (dataset, run, subrun):
        with pytest.raises(KeyError, match="does not exist: it was deleted"):
            process(source, number, preload=[])
    assert process(store.root, number, preload=[]).n_events == 0


def test_other_processes_read_what_this_one_may_write(tmp_path: Path) -> None:
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}").root.create_dataset("a")
    subrun = dataset.create_run(1).create_subrun(1)
    for n in range(10):
        subrun.create_event(n).store("n", n)
    assert process(dataset, number, executor="processes").value == list(range(10))


def test_a_store_that_another_process_cannot_open_is_told(tmp_path: Path) -> None:
    """The advice was about functions."""
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}").root.create_dataset("a")
    dataset.create_run(1).create_subrun(1).create_event(2).store("n", 2)
    (tmp_path / "store").rename(tmp_path / "other")
    with pytest.raises(fb.UsageError, match=r"no event store; each process opens the store by itself") as told:
        process(dataset, number, executor="processes")
    assert "import" not in str(told.value)


@pytest.fixture
def shared(redis_without_log: str, tmp_path: Path) -> fb.DataSet:
    """Return a dataset of 300 events that other processes may write to."""
    store = fb.DataStore.connect(f"{redis_without_log}?prefix={tmp_path.name}:")
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"n": range(300)}, run=1, subrun=1, event=range(300))
    return dataset


@pytest.mark.filterwarnings("ignore")
def test_other_processes_use_a_redis_without_a_log(shared: fb.DataSet, executor: Any) -> None:
    # It was taken for a store in memory, which ends with its process.
    assert process(shared, number, executor=executor).value == list(range(300))
    again = pickle.loads(pickle.dumps(shared))
    assert again.n_events() == 300


def stores_beside(event: Any) -> None:
    event.store("double", 2 * number(event))


def stores_by_itself(event: Any) -> None:
    fb.DataStore.connect(event.datastore.url)


def test_processes_that_would_write_to_a_folder_are_told_how(tmp_path: Path) -> None:
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}").root.create_dataset("a")
    dataset.create_run(1).create_subrun(1).create_event(2).store("n", 2)
    advice = "only one process at a time can write to a store in a directory: return values"
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        for executor in ("processes", pool):
            for function in (stores_beside, stores_by_itself):
                with pytest.raises(fb.ProcessError, match=f"event 2: .*{advice}"):
                    process(dataset, function, executor=executor)
    process(dataset, stores_beside, executor="threads")
    assert dataset.arrays("double").tolist() == [4]


COLLECTED: dict[Any, Any] = {}


def collects(event: Any) -> int:
    """Store something in a batch that nobody closes, and end the process in the middle, the first time."""
    if os.getpid() not in COLLECTED:
        COLLECTED[os.getpid()] = event.datastore.write_batch()
    event.store("double", 2 * number(event), batch=COLLECTED[os.getpid()])
    mark = Path(os.environ["MARK"]) if "MARK" in os.environ else None
    if mark is not None and event.number == 150 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


@pytest.mark.filterwarnings("ignore")
def test_what_functions_put_into_batches_is_there_with_their_results(shared: fb.DataSet, executor: Any) -> None:
    # In other processes, remaining data were not written, as they end without closing anything.
    result = process(shared, collects, executor=executor, reduce=together)
    assert result.value == 300
    assert shared.arrays("double").tolist() == list(range(0, 600, 2))
    for batch in COLLECTED.values():
        batch.close()
    COLLECTED.clear()


def test_batches_of_processes_that_die_lose_nothing(
    shared: fb.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Events were in the results, but their products were lost with the process.
    mark = tmp_path / "mark"
    monkeypatch.setenv("MARK", str(mark))
    result = process(shared, collects, executor="processes", workers=2, reduce=together)
    assert mark.exists()
    assert result.value == 300
    assert shared.arrays("double").tolist() == list(range(0, 600, 2))


def collects_too_much(event: Any) -> int:
    """Collect a product, and make the server refuse writes."""
    collects(event)
    configure(event.datastore.url, "maxmemory 1")
    return 1


def configure(url: str, setting: str) -> None:
    send(url, f"CONFIG SET {setting}")


def send(url: str, command: str, answer: bytes = b"+OK\r\n") -> None:
    port = int(re.search(r":(\d+)/", url)[1])  # type: ignore[index]
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(f"{command}\r\n".encode())
        assert server.recv(100).startswith(answer)


@pytest.mark.parametrize("kind", ["processes", "pool"])
def test_batches_that_cannot_be_written_are_told(shared: fb.DataSet, kind: str) -> None:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:  # one, as others could not even connect to a full server
        check_what_cannot_be_written(shared, pool if kind == "pool" else kind)


def check_what_cannot_be_written(shared: fb.DataSet, executor: Any) -> None:
    options = {"executor": executor, "workers": 1, "output_batch_size": 300}
    url = shared.datastore.url
    try:
        for on_error in ("raise", "skip", "retry"):
            with pytest.raises(fb.ProcessError, match=r"writing batches failed for run 1.* answered .OOM"):
                process(shared, collects_too_much, **options, on_error=on_error)
            configure(url, "maxmemory 0")
    finally:
        configure(url, "maxmemory 0")


CALLS: list[int] = []


def empties(event: Any) -> int:
    """Make the server lose all of its data."""
    CALLS.append(number(event))
    if CALLS[-1] == 100:
        send(event.datastore.url, "FLUSHALL")  # and end its connections, as a restart does
        send(event.datastore.url, "CLIENT KILL TYPE normal SKIPME yes", answer=b":")
    return len(event.products())


@pytest.fixture
def loses(need_program: Any) -> Iterator[str]:
    """Return the URL of a Redis that may be emptied."""
    need_program("redis-server")
    import servers

    server = servers.KINDS["redis-no-log"]()
    yield f"redis://127.0.0.1:{server.about()['port']}/"
    server.close()


@pytest.mark.parametrize("on_error", ["skip", "retry"])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_loss_of_a_store_ends_the_work(loses: str, executor: str, on_error: str, tmp_path: Path) -> None:
    # All later events were skipped, and the result looked like one with a few bad events.
    CALLS.clear()
    path = tmp_path / "checkpoint"
    store = fb.DataStore.connect(loses)
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"n": range(300)}, run=1, subrun=1, event=range(300))
    options = {"executor": executor, "workers": 1, "output_batch_size": 10, "input_batch_size": 10}
    with pytest.raises(fb.FemtobarnError, match="was emptied, or restarted without its data") as raised:
        process(dataset, empties, **options, on_error=on_error, checkpoint=path)
    assert "tried 3 times" not in str(raised.value)
    assert path.exists()
    assert len(set(CALLS)) == len(CALLS) < 120  # none is tried again, and at most one more batch is tried


@pytest.mark.parametrize("on_error", ["skip", "retry"])
def test_a_store_that_is_closed_ends_the_work(tmp_path: Path, on_error: str) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for n in range(20):
        subrun.create_event(n).store("n", n)
    calls = []

    def function(event: Any) -> None:
        calls.append(event.number)
        if len(calls) == 5:
            store.close()
        try:
            event.store("m", 1)
        except fb.FemtobarnError as error:
            raise RuntimeError("not stored") from error

    with pytest.raises(fb.ProcessError, match=r"event 4: RuntimeError\('not stored'\)"):
        process(subrun, function, on_error=on_error, workers=1)
    assert calls == [0, 1, 2, 3, 4]


def test_a_batch_from_before_a_fork_is_told(shared: fb.DataSet) -> None:
    batch = shared.datastore.write_batch()
    shared[1][1][0].store("double", 1, batch=batch)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        COLLECTED["all"] = batch
        with pytest.raises(fb.ProcessError, match="was made before this process was forked"):
            process(shared, stores_by_the_parents, executor=pool)
    assert shared[1][1][0].load("double", default=None) is None  # it is the parent's to write
    del COLLECTED["all"]
    batch.close()
    assert shared[1][1][0].load("double") == 1


def stores_by_the_parents(event: Any) -> None:
    event.store("double", 2, batch=COLLECTED["all"])


def test_pools_that_break_tell_how_to_go_on(dataset: fb.DataSet) -> None:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        with pytest.raises(fb.FemtobarnError, match="with checkpoint='path', another call continues") as raised:
            process(dataset, always_dies, executor=pool)
        assert type(raised.value).__name__ == "WorkerDiedError"


def test_a_process_that_begins_when_all_is_done_is_silent(dataset: fb.DataSet) -> None:
    """It left a traceback of a broken pipe."""
    task = Task(number, True, None, False)
    for packed in (pickle.dumps((StoreWork(dataset, ("n",)), task)), b"what cannot be unpickled"):
        ours, theirs = multiprocessing.Pipe()
        ours.close()
        serve_process(theirs, packed, "process 1")
        theirs.close()


def test_threads_end_with_what_they_work_for(dataset: fb.DataSet) -> None:
    before = threading.active_count()
    process(dataset, number)
    with pytest.raises(fb.ProcessError):
        process(dataset, fails_at_1000)
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_what_is_loaded_is_not_kept_for_a_slow_event(dataset: fb.DataSet) -> None:
    # Pieces that were finished early kept their products: all events were in memory if the first piece took long.
    alive: list[int] = []
    is_late = threading.Event()

    def function(event: Any) -> int:
        n = number(event)
        if n == 0:
            is_late.wait(60)
        if n == N - 1:
            time.sleep(0.2)
            gc.collect()
            alive.append(sum(isinstance(found, fb.EventBatch) for found in gc.get_objects()))
            is_late.set()
        return n

    assert process(dataset, function, input_batch_size=128).value == list(range(N))
    assert alive[0] < 40


def test_results_that_wait_for_their_turn_are_bounded(dataset: fb.DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("femtobarn._processing.process._AHEAD", 10)
    seen = [0]

    def function(event: Any) -> int:
        n = number(event)
        seen.append(n)
        if n == 0:
            deadline = time.monotonic() + 30
            while max(seen) <= 4 * 90 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)  # more would come now
            seen[0] = max(seen)
        return n

    # 3 workers may be 96 pieces ahead
    options = {"output_batch_size": 4, "input_batch_size": 64, "reduce": together}
    assert process(dataset, function, **options).value == N * (N - 1) // 2
    assert 4 * 90 < seen[0] < 4 * 97
    assert process(dataset, number, **options).value == N * (N - 1) // 2


class TwoArgumentsError(Exception):
    """An exception that can be pickled, but not unpickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class Unloadable:
    """An object that can be pickled, but not unpickled."""

    def __reduce__(self) -> Any:
        return (int, ("x",))


def raises_two(event: Any) -> None:
    if number(event) == 1000:
        raise TwoArgumentsError(1, 2)


def gives_unloadable(event: Any) -> Any:
    return Unloadable() if number(event) == 1000 else None


def gives_lambda(event: Any) -> Any:
    return (lambda: 1) if number(event) == 1000 else None


def exits(event: Any) -> None:
    if number(event) == 1000:
        sys.exit("out")


def divides(event: fb.Event) -> int:
    return 1 // 0


def test_errors_that_cannot_be_sent_name_the_event(dataset: fb.DataSet) -> None:
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for executor in ("processes", pool, "threads"):
            with pytest.raises(fb.ProcessError, match=r"run 3, subrun \d+, event 3000: .*1 and 2"):
                process(dataset, raises_two, executor=executor, workers=1)
            with pytest.raises(fb.ProcessError, match=r"event 3000: SystemExit\('out'\)"):
                process(dataset, exits, executor=executor, workers=1, on_error="skip")
        for function, message in [(gives_unloadable, "cannot be received from"), (gives_lambda, "cannot be sent to")]:
            for executor in ("processes", pool):
                with pytest.raises(fb.ProcessError, match=rf"run \d+, subrun \d+, event .*{message} another process"):
                    process(dataset, function, executor=executor, workers=1)
            with pytest.raises(fb.ProcessError, match="ZeroDivisionError") as raised:
                process(dataset, divides, executor=executor, workers=1)
            assert "in divides\n    return 1 // 0" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(fb.ProcessError, match=r"reduce failed for run \d+.*unsupported operand"):
        process(dataset, number, reduce=lambda a, b: a + "x")
    with pytest.raises(fb.ProcessError, match=r"reduce failed at run \d+.*unsupported operand"):
        process(dataset, lambda batch: 1, by="batch", reduce=lambda a, b: a + "x")


def test_errors_of_ntuples_name_file_entry_and_event(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    numbers = np.arange(100)
    fields = {"run": numbers // 50, "luminosityBlock": numbers // 10, "event": numbers * 3, "x": numbers}
    fb.write(path, fields, name="Events")
    ntuple = fb.open(f"{path}:Events")
    with pytest.raises(fb.ProcessError) as raised:
        fb.process(ntuple, lambda event: 1 / int(event.x - 70), progress=False, workers=2)
    where = "entry 70 (run 1, luminosityBlock 7, event 210)"
    assert str(raised.value) == f"Events ({path}): the function failed for {where}: {raised.value.__cause__!r}"


def test_threads_stop_when_the_work_is_broken_off(dataset: fb.DataSet) -> None:
    seen: list[int] = []

    def function(event: Any) -> None:
        n = number(event)
        if n == 10:
            raise ValueError
        seen.append(n)
        time.sleep(0.01)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for executor in ("threads", pool):
            with pytest.raises(fb.ProcessError):
                process(dataset, function, executor=executor)
            time.sleep(0.3)
            n_seen = len(seen)
            time.sleep(0.2)
            assert len(seen) == n_seen


def test_events_that_kill_or_cannot_be_loaded_are_skipped(
    dataset: fb.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = process(dataset, dies_at_3000, executor="processes", workers=2, on_error="skip", output_batch_size=8)
    (failure,) = skipped.failures
    assert "3 processes died while they processed" in failure.error
    first = 3000 // 8 * 8
    assert skipped.value == [n for n in range(N) if not first <= n < first + 8]
    assert (skipped.n_events, skipped.n_failed) == (N - 8, 8)
    assert f": {N - 8:,} events, 8 failed, in " in repr(skipped)
    # A lost large product makes the load of all events with it fail.
    url = f"dir:{tmp_path / 'store'}"
    store = fb.DataStore.connect(url, objects=tmp_path / "large", objects_over=100)
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for n in range(20):
        subrun.create_event(n).store("n", bytes([n]) * 200 if n == 7 else bytes([n]))
    store.flush()
    for file in [file for file in (tmp_path / "large").rglob("*") if file.is_file()]:
        file.unlink()
    for executor in ("threads", "processes"):
        options = {"executor": executor, "workers": 1, "output_batch_size": 5, "input_batch_size": 5}
        with pytest.raises(Exception, match=r"large"):
            process(subrun, length, **options)
        skipped = process(subrun, length, on_error="skip", **options)
        assert skipped.value == [1] * 19
        assert [failure.where for failure in skipped.failures] == ["run 1, subrun 1, event 7"]
        assert (skipped.n_events, skipped.n_failed) == (19, 1)
        batches = process(subrun, len, on_error="skip", by="batch", **options)
        assert batches.value == [5, 5, 5]
        assert (batches.n_events, batches.n_failed) == (15, 5)
        assert [failure.where for failure in batches.failures] == [
            "run 1, subrun 1, event 5 to run 1, subrun 1, event 9"
        ]


def length(event: Any) -> int:
    return len(event.load("n", bytes))


def dies_at_3000(event: Any) -> int:
    always_dies(event)
    return number(event)


def itself(event: Any) -> Any:
    return event if number(event) % 1000 == 0 else None


def test_events_can_be_results(dataset: fb.DataSet) -> None:
    events = process(dataset, itself, executor="processes").value
    assert [event.number for event in events] == [n * 3 for n in range(0, N, 1000)]
    assert [event.load("n") for event in events] == list(range(0, N, 1000))
    assert events == process(dataset, itself).value
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        # the parent has its store open, which is of no use in forked processes
        assert process(dataset, itself, executor=pool).value == events


def test_executors_of_threads_take_everything() -> None:
    dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
    with dataset.datastore.write_batch() as batch:
        batch.store_arrays(dataset, {"nn": np.arange(100)}, run=1, subrun=1, event=np.arange(100))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        result = process(dataset, lambda event: event.load("nn"), executor=pool, preload="nn")
    assert result.value == list(range(100))


_PROMPT = """
import sys
import femtobarn as fb
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
offset = 1
def function(event):
    return event.load("n") + offset
try:
    result = fb.process(
        dataset, function, preload="n", executor=sys.argv[2], workers=2, reduce=lambda a, b: a + b, progress=False
    )
    print(result.value)
except fb.UsageError as error:
    print(error)
"""
_WITHOUT = "import importlib.util; find = importlib.util.find_spec; importlib.util.find_spec = lambda name: None\n"


def test_functions_of_notebooks_are_sent_with_their_code(url: str) -> None:
    pytest.importorskip("cloudpickle")

    def said(program: str, *arguments: str) -> str:
        command = [sys.executable, "-", *arguments]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    assert said(_PROMPT, url, "processes") == f"{N * (N - 1) // 2 + N}\n"
    message = said(_WITHOUT + _PROMPT, url, "processes")
    assert message.startswith("the function <function function at")
    assert "pip install cloudpickle" in message


_UNGUARDED = """
import sys
import femtobarn as fb
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
def function(event):
    return event.load("n")
print(fb.process(dataset, function, preload="n", executor="processes", workers=2).n_events)
"""


def test_scripts_without_a_guard_are_told(url: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    for program, code in [(_UNGUARDED, 1), (_UNGUARDED.replace("print(", "if __name__ == '__main__':\n    print("), 0)]:
        script.write_text(program)
        command = [sys.executable, str(script), url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        if code:
            assert "under `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]
            assert "UsageError: a process ended before it could start" in done.stderr.splitlines()[-1]
        else:
            assert done.stdout == f"{N}\n"


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
shared = fb.DataStore.connect(sys.argv[2])["a"]
fb.process(shared, test_process.collects, preload=["n"], executor="mpi")
sys.stdout.write(f"stored {shared.arrays('double').tolist() == list(range(0, 600, 2))}\\n")
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_of_mpi(url: str, shared: fb.DataSet, ranks: int, need_program: Any) -> None:
    need_program("mpirun")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command = [*mpirun, sys.executable, "-c", _MPI, url, shared.datastore._given]
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines().count(f"{N * (N - 1) // 2} {N}") == ranks
    assert said.stdout.splitlines().count("failed") == ranks
    assert said.stdout.splitlines().count("stored True") == ranks


_MPI_FAILS = """
import os, sys
import numpy as np
import femtobarn as fb
from femtobarn._processing import mpi as _mpi
import test_process
from mpi4py import MPI
dataset = fb.DataStore.connect(sys.argv[1], mode="r")["a"]
rank = MPI.COMM_WORLD.rank

def told(name, function=test_process.number, **options):
    try:
        fb.process(dataset, function, **{"preload": ["n"], "executor": "mpi", "progress": False, **options})
    except Exception as error:
        sys.stdout.write(f"{name}: {type(error).__name__}: {error}\\n")

def large(batch):
    return np.zeros(1_000_000)

def bad(a, b):
    raise ValueError("not these")

def unsendable(a, b):
    return lambda: 1

def one_rank(event):
    test_process.exits(event)

told("corrupt", checkpoint=sys.argv[2])
told("workers", workers=-1)
told("folder", checkpoint="/nowhere/at/all")
told("one rank", preload=["n"] if rank != 1 else ["other"])
told("exit", test_process.exits)
told("two", test_process.raises_two)
told("reduce", len, by="batch", reduce=bad)
told("unsendable", len, by="batch", reduce=unsendable, output_batch_size=2500)
inner = _mpi.pack_outcome
if rank == 1:
    _mpi.pack_outcome = lambda outcome: 1 / 0
told("worker")
_mpi.pack_outcome = inner
result = fb.process(
    dataset, large, by="batch", preload=["n"], executor="mpi", output_batch_size=1000, input_batch_size=1000
)
sys.stdout.write(f"large: {len(result.value)}\\n")
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_failures_of_any_rank_end_the_job_on_all(url: str, ranks: int, tmp_path: Path, need_program: Any) -> None:
    need_program("mpirun")
    corrupt = tmp_path / "corrupt"
    corrupt.write_bytes(b"corrupt")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command = [*mpirun, sys.executable, "-c", _MPI_FAILS, url, str(corrupt)]
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = said.stdout.splitlines()
    assert "ProcessError: ProcessError" not in said.stdout
    for what in (
        "corrupt: .*not a checkpoint",
        "workers: .*workers must be 1 or more",
        "folder: .*does not exist",
        "one rank: .*'other'",
        "exit: .*event 3000: SystemExit",
        "two: .*event 3000: .*1 and 2",
        "reduce: .*reduce failed at run .*not these",
        "unsendable: .*cannot be sent to the other ranks",
        "worker: .*ZeroDivisionError",
        "large: 5$",
    ):
        expected = ranks
        if ranks == 1 and what.startswith(("one rank", "unsendable", "worker:")):
            continue
        assert sum(bool(re.match(what, line)) for line in lines) == expected, (what, said.stdout, said.stderr)


SLOW_THREAD = """
import pathlib, sys, time
import femtobarn as fb

def function(batch):
    if batch.entry_start == 0:
        raise ValueError("not this one")
    for _ in range(100):  # most of it after the script has ended
        fb.open(sys.argv[1]).arrays()
        time.sleep(0.01)
    pathlib.Path(sys.argv[2]).touch()

fb.process(sys.argv[1], function, preload=["nMuon"], by="batch", output_batch_size=1000, workers=2, progress=False)
"""


def test_threads_end_before_python(dimuon, tmp_path):
    """One that came back from the core later would bring down the process."""
    command = [sys.executable, "-c", SLOW_THREAD, dimuon, tmp_path / "done"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "not this one" in done.stderr
    assert (tmp_path / "done").exists()
