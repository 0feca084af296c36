"""Misuse of event stores is reported, and loses nothing: closed stores, other stores, read-only stores."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import pytest

import femtobarn as fb
from femtobarn import aio


@dataclasses.dataclass
class Track:
    """A track."""

    pt: float
    n: int


def event_of(store: fb.DataStore) -> fb.Event:
    return store.root.create_dataset("a").create_run(1).create_subrun(2).create_event(3)


_WRITE = """
import sys, femtobarn as fb
with fb.DataStore.connect(sys.argv[1]) as store:
    store["a"][1].store("other", 1)
"""


def write_from_another_process(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WRITE, url], capture_output=True, text=True, timeout=60, check=False)


def test_a_closed_store_is_given_up_at_once(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    store = fb.DataStore.connect(url)
    event = event_of(store)
    event.store("n", 1)
    store.create_queue("q", int)
    queue = store.open_queue("q", int, mode="producer")
    prefetched = next(iter(store.prefetcher(["n"])(store["a"])))
    batch = store.write_batch()
    event.store("late", 2, batch=batch)
    loop = iter(store["a"].events())
    assert "close it there" in write_from_another_process(url).stderr
    store.close()
    store.close()
    assert store.closed
    assert repr(store) == f"<DataStore {url!r}, closed>"
    other = write_from_another_process(url)
    assert other.returncode == 0, other.stderr
    uses: list[Any] = [
        lambda: event.load("n"),
        lambda: event.store("n", 2),
        lambda: event.exists(),
        lambda: event.delete(),
        lambda: event.products(),
        lambda: event.run.create_subrun(1),
        lambda: store["a"],
        lambda: store.root.create_dataset("b"),
        lambda: store.write_batch(),
        lambda: store.async_write_batch(),
        lambda: store.flush(),
        lambda: store.create_queue("r"),
        lambda: store.open_queue("q", int, mode="consumer"),
        lambda: event.store("n", 1, batch=batch),
        lambda: batch.flush(),
        lambda: prefetched.load("other"),
        lambda: list(loop),
        lambda: list(store.root),
        lambda: "a" in store,
        lambda: store["a"].arrays("n"),
    ]
    for n, use in enumerate(uses):
        with pytest.raises(fb.UsageError, match="close"):
            pytest.fail(f"{n} gave {use()!r}")
    with pytest.raises(fb.UsageError):
        queue.push(1)
    queue.close()
    batch.close()
    with fb.DataStore.connect(url) as again:
        event = again["a"][1][2][3]
        assert (event.load("n"), event.load("late"), event.run.load("other")) == (1, 2, 1)
        with again.open_queue("q", int, mode="consumer") as consumer:
            assert list(consumer) == []  # nothing is waited for


def test_what_closing_cannot_write_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"dir:{tmp_path / 'store'}"
    monkeypatch.setenv("FEMTOBARN_STORE_MAP_SIZE", str(1 << 20))
    store = fb.DataStore.connect(url)
    event = event_of(store)
    batch = store.write_batch()
    event.store("x", os.urandom(4 << 20), batch=batch)
    with pytest.raises(fb.FemtobarnError, match="FEMTOBARN_STORE_MAP_SIZE"), store:
        pass
    assert store.closed
    with fb.DataStore.connect(url) as again:
        assert again["a"][1][2][3].products() == []


def test_connections_to_one_folder_are_closed_one_by_one(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    first, second = fb.DataStore.connect(url), fb.DataStore.connect(url)
    event = event_of(first)
    first.close()
    assert second["a"][1][2][3] == event
    second["a"].store("n", 1)
    reader = fb.DataStore.connect(url, mode="r")
    second.close()  # the reader shares its file, but not its lock
    assert write_from_another_process(url).returncode == 0
    with fb.DataStore.connect(url) as third:
        third["a"].store("n", 2)
    assert reader["a"].load("n") == 2
    assert reader["a"][1].load("other") == 1
    reader.close()
    reader = fb.DataStore.connect(url, mode="r")
    with pytest.raises(fb.UsageError):
        fb.DataStore.connect(url)
    reader.close()
    with fb.DataStore.connect(url):
        pass


def test_a_reader_beside_its_own_writer_writes_nothing(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    writer = fb.DataStore.connect(url, objects=tmp_path / "large", objects_over=10)
    event_of(writer).store("x", bytes(100))
    for reader in (fb.DataStore.connect(url, mode="r"), fb.DataStore.connect(f"{url}?mode=r")):
        dataset = reader["a"]
        event = dataset[1][2][3]
        assert event.load("x") == bytes(100)
        uses: list[Any] = [
            lambda event=event: event.store("x", bytes(200)),
            lambda event=event: event.store("y", 1),
            lambda event=event: event.delete_product("x"),
            lambda event=event: event.delete(),
            lambda dataset=dataset: dataset.delete(),
            lambda dataset=dataset: dataset.create_run(9),
            lambda dataset=dataset: dataset.create_dataset("b"),
            lambda reader=reader: reader.write_batch(),
            lambda reader=reader: reader.sweep_objects(age=0),
        ]
        for n, use in enumerate(uses):
            with pytest.raises(fb.FemtobarnError, match="was opened for reading"):
                pytest.fail(f"{n} gave {use()!r}")
    event_of(writer).store("z", 1)
    assert event.load("z") == 1  # it is the same environment
    assert len(list((tmp_path / "large").rglob("*.*"))) <= 1
    assert writer.sweep_objects(age=0).deleted == 0


def test_a_batch_takes_nothing_of_another_store(store: fb.DataStore) -> None:
    event, other = event_of(store), event_of(fb.DataStore.connect("memory:"))
    with other.datastore.write_batch() as batch:
        uses: list[Any] = [
            lambda: event.store("x", 1, batch=batch),
            lambda: event.subrun.create_event(4, batch=batch),
            lambda: store["a"].create_run(2, batch=batch),
            lambda: batch.store_arrays(store["a"], {"x": [1]}, run=1, subrun=1, event=1),
        ]
        for n, use in enumerate(uses):
            with pytest.raises(fb.UsageError):
                pytest.fail(f"{n} gave {use()!r}")
        other.store("x", 5, batch=batch)
        assert len(batch) == 1
    assert other.load("x") == 5


def test_nothing_is_stored_in_or_read_of_a_dataset_that_was_deleted(store: fb.DataStore, tmp_path: Path) -> None:
    dataset = event_of(store).datastore["a"]
    assert dataset.exists()
    run = dataset[1]
    batch, early = store.write_batch(), store.write_batch()
    run.store("x", 1, batch=early)  # it was there when the batch looked
    dataset.delete()
    for again in range(2):
        assert not dataset.exists()
        uses: list[Any] = [
            lambda: dataset.create_run(7),
            lambda: dataset.store("x", 1),
            lambda: dataset.create_run(7, batch=batch),
            lambda: run.create_subrun(3, batch=batch),
            lambda: run.store("x", 1, batch=batch),
            lambda: batch.store_arrays(dataset, {"x": [1]}, run=1, subrun=1, event=1),
            lambda: dataset.delete(),
            lambda: dataset.create_dataset("b"),
            lambda: dataset.n_events(),
            lambda: list(dataset.events()),
            lambda: list(dataset.runs()),
            lambda: list(dataset[1:]),
            lambda: dataset.numbers(),
            lambda: dataset.arrays("x"),
            lambda: dataset.arrays(("x", "std::int64_t")),
            lambda: list(store.prefetcher(["x"]).batches(dataset)),
            lambda: fb.export(dataset, tmp_path / "a.root"),
            lambda: run.store("x", 1),
            lambda: run.create_subrun(3),
        ]
        for n, use in enumerate(uses):
            with pytest.raises(fb.KeyNotFoundError):
                pytest.fail(f"{n} gave {use()!r}")
        if not again:
            assert store.root.create_dataset("a") != dataset  # another of the same name
    assert list(store) == [store["a"]]
    assert store["a"].numbers() == list(store["a"].datasets()) == []
    assert store.root.exists()
    with pytest.raises(fb.KeyNotFoundError):
        early.close()


def test_pickled_values_stay_in_a_queue_until_they_may_be_had(store: fb.DataStore) -> None:
    store.create_queue("q", "pickle")
    with store.open_queue("q", "pickle", mode="producer") as producer:
        producer.push({1, 2})
    consumer = store.open_queue("q", "pickle", mode="consumer")
    with pytest.raises(fb.UsageError, match="unpickle=True"):
        consumer.pop()
    assert len(consumer) == 1
    assert list(store.open_queue("q", "pickle", mode="consumer", unpickle=True)) == [{1, 2}]


def test_a_value_that_cannot_be_had_stays_in_the_queue(store: fb.DataStore) -> None:
    store.create_queue("q", "msgpack")
    with store.open_queue("q", "msgpack", mode="producer") as producer:
        producer._core.push(b"\xc1")
        producer.push({"a": 1})
    consumer = store.open_queue("q", "msgpack", mode="consumer")
    for _ in range(2):
        with pytest.raises(ValueError):
            consumer.pop()
        assert len(consumer) == 2


def test_a_queue_of_a_dataclass_gives_it(store: fb.DataStore) -> None:
    for kind, value in [(Track, Track(1.5, 2)), (list[Track], [Track(1.5, 2), Track(2.5, 3)])]:
        store.create_queue("q", kind)
        with store.open_queue("q", kind, mode="producer") as producer:
            producer.push(value)
        assert store.open_queue("q", kind, mode="consumer").pop() == value


def test_columns_are_checked_before_anything_is_created(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    records = ak.Array([{"x": 1}, {"x": 2}])
    for products, kwargs, message in [
        ({"x": [1, 2], "y": [1]}, {"event": [1, 2]}, "'y' has 1 values for 2 events"),
        ({"x": [1, 2, 3]}, {"event": [5, 7, 5]}, "run 1, subrun 1, event 5 is given several times"),
        (records, {"event": [1, 2]}, "products must be a dict .* not a Array"),
        ([1, 2], {"event": [1, 2]}, "products must be a dict .* not a list"),
        ({"x": [1]}, {"event": [0.5]}, "must hold integers"),
    ]:
        with pytest.raises(fb.UsageError, match=message), store.write_batch() as batch:
            batch.store_arrays(dataset, products, run=1, subrun=1, **kwargs)  # type: ignore[arg-type]
        assert list(dataset.events()) == []
    with store.write_batch() as batch:
        for wrong in ("a", dataset.create_run(1)):
            with pytest.raises(fb.UsageError, match="dataset must be a DataSet"):
                batch.store_arrays(wrong, {"x": [1]}, run=1, subrun=1, event=1)  # type: ignore[arg-type]
        batch.store_arrays(dataset, {"x": [1, 2], "r": records}, run=1, subrun=[2, 1], event=[5, 5])
    assert dataset.arrays("x").tolist() == [2, 1]


def test_arguments_that_make_no_sense_are_usage_errors(store: fb.DataStore) -> None:
    event = event_of(store)
    uses: list[Any] = [
        lambda: store.prefetcher(["x"], ahead=-1),
        lambda: store.prefetcher(["x"], batch_size=0),
        lambda: store.write_batch(max_bytes=-1),
        lambda: store.write_batch(max_items=0),
        lambda: store.write_batch(max_items="5"),  # type: ignore[arg-type]
        lambda: store.write_batch(threads=-1),
        lambda: store.async_write_batch(threads=0),
        lambda: list(event.run.events(batch_size=0)),
        lambda: store.root.create_dataset(5),  # type: ignore[arg-type]
        lambda: event.store(5, 1),  # type: ignore[arg-type]
        lambda: fb.DataStore.connect(""),
        lambda: fb.DataStore.connect(" "),
    ]
    for n, use in enumerate(uses):
        with pytest.raises(fb.UsageError):
            pytest.fail(f"{n} gave {use()!r}")


def test_slips_say_what_to_write(store: fb.DataStore, tmp_path: Path) -> None:
    event = event_of(store)
    event.store("pt", 1.5)
    dataset = store["a"]
    from_asyncio = aio.DataSet(dataset)
    prefetcher: Any = store.prefetcher("pt")
    ingest: Any = fb.ingest
    arrays: Any = dataset.arrays
    process: Any = functools.partial(fb.process, dataset, str)
    instead = "use the prefetcher of its store for asyncio, or give its .sync"
    with store.write_batch() as batch:
        uses: list[tuple[Any, str]] = [
            (lambda: prefetcher(store), "takes one dataset, run or subrun .*, not <DataStore"),
            (lambda: prefetcher(dataset[1:3]), "takes one dataset, run or subrun at a time"),
            (lambda: prefetcher.batches("a"), "takes one dataset, run or subrun .*, not 'a'"),
            (lambda: prefetcher(from_asyncio), instead),
            (lambda: event.store("q", 1, batch=True), r"invalid batch True"),  # type: ignore[arg-type]
            (lambda: event.run.create_subrun(1, batch="b"), "invalid batch 'b'"),  # type: ignore[arg-type]
            (lambda: dataset.create_run(1, batch=aio.WriteBatch(batch)), "give its .sync"),  # type: ignore[arg-type]
            (lambda: batch.store_arrays(from_asyncio, {}, run=1, subrun=1, event=1), "give its .sync"),  # type: ignore[arg-type]
            (lambda: process(executor=ThreadPoolExecutor), r"the class ThreadPoolExecutor: give an instance, e.g. Thr"),
            (lambda: fb.process(from_asyncio, str), r"await aio.process\(…\), or give its .sync"),  # type: ignore[arg-type]
            (lambda: fb.export(from_asyncio, tmp_path / "a.root"), r"await aio.export"),  # type: ignore[arg-type]
            (lambda: ingest("a.root", from_asyncio), r"await aio.ingest"),
            (
                lambda: ingest(pd.DataFrame({"run": [1]}), dataset),
                "not DataFrame; store arrays, .* with batch.store_arrays",
            ),
            (lambda: ingest({"pt": np.ones(3)}, dataset), "not dict; store arrays, .* with batch.store_arrays"),
            (lambda: ingest({"pt": [1.5]}, dataset), "with batch.store_arrays"),
            (lambda: ingest(ak.Array([{"pt": 1.5}]), dataset), "with batch.store_arrays"),
            (lambda: fb.DataStore("dir:store", mode="r"), r"DataStore.connect\('dir:store'\)"),  # type: ignore[arg-type]
            (
                lambda: fb.DataStore.connect("memory:", objects=tmp_path, objects_over=-1),
                "objects_over must be 0 or more",
            ),
            (lambda: arrays("pt", fb.NumPy), r"arrays\('pt', library='np'\)"),
            (lambda: dataset[1].arrays("pt", "x"), "several as a list"),  # type: ignore[call-arg, arg-type]
            (lambda: arrays("pt", runs="301"), r"not the string '301'"),
        ]
        for n, (use, message) in enumerate(uses):
            with pytest.raises(fb.UsageError, match=message):
                pytest.fail(f"{n} gave {use()!r}")


def test_containers_and_names_are_looked_for_in_others(store: fb.DataStore) -> None:
    event = event_of(store)
    dataset, other = store["a"], event_of(fb.DataStore.connect("memory:"))
    assert event.run in dataset
    assert event.subrun in event.run
    assert event in event.subrun
    assert event not in event.run
    assert dataset not in dataset
    assert dataset in store.root
    assert dataset.create_dataset("b") not in store.root
    assert other.run not in dataset
    assert other.run != event.run
    assert other.datastore.root != store.root
    assert fb.Ptr(other, "x", "int") != fb.Ptr(event, "x", "int")
    event.delete()
    assert event not in event.subrun
    assert "a" in store
    assert "a/b" in store
    assert "c" not in store
    assert list(store) == [dataset]
    assert bool(dataset)
    with pytest.raises(TypeError):
        len(dataset)  # type: ignore[arg-type]


def test_objects_say_what_they_are(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("n", 1)
    assert repr(event.run) == "<Run run 1 of dataset 'a'>"
    assert repr(next(store["a"].events())) == "<Event run 1, subrun 2, event 3 of dataset 'a'>"
    assert repr(store["a"]) == "<DataSet dataset 'a'>"
    store.create_queue("q", int)
    for one, kind in [
        (store.write_batch(), "<WriteBatch of "),
        (store.open_queue("q", int, mode="consumer"), "<Queue 'q' of std::int64_t in "),
        (store.prefetcher(["n"]), "<Prefetcher of "),
        (next(store.prefetcher(["n"]).batches(store["a"])), "<EventBatch of 1 events with 'n'>"),
    ]:
        assert repr(one).startswith(kind)


def test_what_boost_has_stored_is_told_so(store: fb.DataStore) -> None:
    event = event_of(store)
    for kind, is_told in [
        ("std::map<std::string,std::int32_t>", True),
        ("std::vector<std::string>", True),
        ("std::pair<float,std::string>", True),
        ("std::vector<float>", False),
        ("double", False),
    ]:
        event.store("x", b"\x16\0\0\0\0\0\0\0serialization", typename="bytes")
        event._core.store(("x", kind), event.load("x", bytes, typename=bytes), True)
        with pytest.raises(fb.FormatError) as raised:
            event.load("x", typename=kind)
        assert ("it uses Boost, which only C++ can read" in str(raised.value)) == is_told
        with pytest.raises(fb.FormatError) as raised:
            store["a"].arrays([("x", kind)])
        assert ("it uses Boost, which only C++ can read" in str(raised.value)) == is_told
        [batch] = store.prefetcher([("x", kind)]).batches(store["a"])
        with pytest.raises(fb.FormatError) as raised:
            batch.arrays()
        assert ("it uses Boost, which only C++ can read" in str(raised.value)) == is_told
        assert event.load("x", bytes, typename=kind).endswith(b"serialization")


def test_what_is_no_form_is_told_with_those_that_are(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("n", np.int32(5))
    event.store("v", [1.5, 2.5])
    event.store("config", {"a": 1})
    prefetched = next(iter(store.prefetcher(["n", "v"])(store["a"])))
    for form, meant in [
        (np, "cannot be loaded as the module numpy: did you mean fb.NumPy"),
        ("np", "did you mean fb.NumPy"),
        (np.ndarray, "did you mean fb.NumPy"),
        (ak, "did you mean fb.Awkward"),
        (ak.Array, "did you mean fb.Awkward"),
        ("arrow", "did you mean fb.Arrow"),
        (np.dtype("f4"), "did you mean float"),
        (list[np.float32], r"did you mean list\[float\]"),
        (5, r"products cannot be loaded as 5: Use fb\.Awkward, fb\.NumPy, fb\.Arrow, bytes, int"),
    ]:
        for load in (event.load, prefetched.load):
            for label in ("n", "v"):
                with pytest.raises(fb.UsageError, match=f"product '{label}': .*{meant}"):
                    load(label, form)
        with pytest.raises(fb.UsageError, match="product 'config' "):
            event.load("config", form if isinstance(form, type) else list[int])
    assert event.load("config", dict) == {"a": 1}
    with pytest.raises(fb.UsageError, match="'config' is stored as msgpack, and is a dict: load it without a form"):
        event.load("config", Track)
    with pytest.raises(fb.UsageError, match="'config': products cannot be loaded as 'np'"):
        event.load("config", "np")


def test_numbers_of_numpy_are_numbers_in_dicts_and_dataclasses(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("config", {"a": np.float32(1.5), "b": [np.int64(3), np.bool_(True)], np.uint8(4): np.str_("x")})
    assert event.load("config") == {"a": 1.5, "b": [3, True], 4: "x"}
    event.store("track", Track(np.float32(1.5), np.int16(3)))  # type: ignore[arg-type]
    assert event.load("track", Track) == Track(1.5, 3)
    for wrong in (np.arange(3), np.complex64(1), np.datetime64("2026-01-01")):
        with pytest.raises(fb.UsageError):
            event.store("wrong", {"a": wrong})


def test_the_index_of_a_frame_is_not_lost(store: fb.DataStore) -> None:
    pd = pytest.importorskip("pandas")
    event = event_of(store)
    for index in (["a", "b"], [10, 20], [1.5, 2.5], pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["a", None])):
        frame = pd.DataFrame({"x": [1, 2]}, index=index)
        with pytest.raises(fb.UsageError, match=r"'frame': .* would be lost: .*rename_axis\('name'\), .*reset_index"):
            event.store("frame", frame)
        event.store("frame", frame.reset_index(drop=True))
        assert event.load("frame").tolist() == [{"x": 1}, {"x": 2}]
    event.store("named", pd.DataFrame({"x": [1, 2]}, index=[10, 20]).rename_axis("n"))
    assert event.load("named").tolist() == [{"n": 10, "x": 1}, {"n": 20, "x": 2}]
    event.store("part", pd.DataFrame({"x": [1, 2, 3]})[1:])
    assert event.load("part").tolist() == [{"x": 2}, {"x": 3}]


def test_queues_say_what_they_take_and_of_which_type_they_are(store: fb.DataStore) -> None:
    store.create_queue("q", list[float])
    for use in (lambda: store.open_queue("q", int, mode="producer"), lambda: store.destroy_queue("q", int)):
        with pytest.raises(KeyError, match=r"no queue 'q' of std::int64_t; it exists for std::vector<double>: give"):
            use()
    with pytest.raises(KeyError, match=r"no queue 'r' of bytes; create it first"):
        store.open_queue("r", mode="consumer")
    store.create_queue("q", Track)
    with pytest.raises(KeyError, match=r"it exists for .*, Track: give"):
        store.open_queue("q", list[Track], mode="consumer")
    with store.open_queue("q", list[float], mode="producer") as queue:
        with pytest.raises(fb.UsageError, match=r"queue 'q' of std::vector<double> cannot take a str: "):
            queue.push("text")
        queue.push([1.5])


def test_sums_are_no_reduce(store: fb.DataStore) -> None:
    """`sum` of arrays silently gave another sum."""
    subrun = event_of(store).subrun
    subrun.create_event(4)
    for wrong in (sum, np.sum, ak.sum, math.fsum):
        with pytest.raises(fb.UsageError, match=r"sums over a: use operator\.add"):
            fb.process(subrun, lambda event: np.ones(2), reduce=wrong)
    assert fb.process(subrun, lambda event: np.ones(2), reduce=operator.add).value.tolist() == [2, 2]


def test_a_range_of_numbers_may_end_behind_the_last_that_there_can_be(store: fb.DataStore) -> None:
    dataset = event_of(store).datastore["a"]
    last = dataset.create_run(2**64 - 2)
    assert list(dataset[3 : 2**64 - 1]) == [last]
    assert dataset.numbers(3, 2**64 - 1) == [2**64 - 2]
    with pytest.raises(fb.UsageError):
        dataset.numbers(3, 2**64)


def test_a_deleted_dataset_of_another_connection_is_told(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path}")
    dataset = event_of(store).datastore["a"]
    other = fb.DataStore.connect(f"dir:{tmp_path}")
    other.root.delete_dataset("a")
    other.create_dataset("a")
    uses: list[Any] = [
        dataset.n_events,
        lambda: list(dataset.events()),
        dataset.numbers,
        lambda: dataset.arrays("x"),
        lambda: dataset.create_dataset("b"),
    ]
    for n, use in enumerate(uses):
        with pytest.raises(fb.KeyNotFoundError):
            pytest.fail(f"{n} gave {use()!r}")


def test_what_was_written_while_it_was_deleted_is_swept(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    store = fb.DataStore.connect(url, objects=tmp_path / "large", objects_over=10)
    other = fb.DataStore.connect(url)
    event = event_of(other)
    run = event.run
    kept = store.create_dataset("kept").create_run(1)
    kept.store("x", bytes(100))
    store.root.delete_dataset("a")
    for label, value in [("x", 1), ("large", bytes(100))]:
        event.store(label, value)  # as another process, it cannot know
    run.create_subrun(9)
    assert other.sweep_nameless() == 1
    assert other.sweep_nameless() == 0
    assert not event.products()
    with pytest.raises(fb.KeyNotFoundError):
        run.numbers()
    assert kept.load("x") == bytes(100)
    assert store.sweep_objects(age=0) == fb.Swept(used=1, deleted=0, deleted_bytes=0, young=0, strange=0)
    event.store("x", 1)
    store.close()
    other.close()
    program = "import sys; from femtobarn import _core; sys.exit(_core.cli_main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "store", "sweep", "--nameless", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "removed the remaining data of 1 dataset without a name" in done.stdout


def test_a_large_product_whose_object_is_damaged_is_not_told_to_be_of_boost(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}", objects=tmp_path / "large", objects_over=100)
    event = event_of(store)
    event.store("x", ak.Array([{"y": list(range(99))}]))
    [found] = (path for path in (tmp_path / "large").rglob("*") if path.is_file() and path.suffix != ".json")
    for damage in (lambda: os.truncate(found, 10), found.unlink):
        damage()
        told = []
        for read in (lambda: event.load("x"), lambda: store["a"].arrays("x")):
            with pytest.raises(fb.FormatError) as raised:
                read()
            told.append(str(raised.value))
        assert told[0] == told[1]
        assert str(found) in told[0]
        assert "Boost" not in told[0]


def test_arrays_that_look_like_numbers_are_told(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    for number in (np.array(3), np.int64(3), np.uint64(3), np.int8(3)):
        assert dataset.create_run(number).number == 3
    assert dataset.create_run(np.uint64(2**63)).number == 2**63
    for wrong in (np.array([3]), np.array([1, 2]), np.array(True), np.float64(3), 3.0, "3", None):
        with pytest.raises(fb.UsageError):
            dataset.create_run(wrong)
    with pytest.raises(fb.UsageError, match="batch_size must be "):
        store.prefetcher(batch_size=np.array([3]))  # type: ignore[arg-type]


def test_values_that_cannot_be_stored_are_told_as_products(store: fb.DataStore) -> None:
    """The message was about fields that RNTuple does not have."""
    event = event_of(store)
    columns = pytest.importorskip("pyarrow")
    for value, words in [
        (np.array([1j]), r"product 'c': NumPy's complex128 has no counterpart in the store; convert it"),
        (np.zeros(2, [("x", "c16")]), r"product 'c', member 'x': NumPy's complex128 has no counterpart in the store"),
        (ak.Array([{"a": {"b": [1j]}}]), r"product 'c', member 'a.b': NumPy's complex128"),
        (
            columns.array([1], columns.timestamp("s")),
            r"product 'c': Arrow's timestamp\[s\] has no counterpart in the st",
        ),
        ([object()], r"product 'c': cannot convert <object"),
    ]:
        with pytest.raises(fb.UsageError, match=f"^{words}") as raised:
            event.store("c", value)
        assert "RNTuple" not in str(raised.value)
        with store.write_batch() as batch, pytest.raises(fb.UsageError, match=f"^{words}"):
            batch.store_arrays(store["a"], {"c": value}, run=1, subrun=1, event=np.arange(len(value)))


def test_misspelt_options_are_told_with_those_that_are_meant(store: fb.DataStore) -> None:
    event = event_of(store)
    dataset = store["a"]
    for call, name, meant in [
        (lambda **options: fb.DataStore.connect("memory:", **options), "object", "objects"),
        (store.write_batch, "max_item", "max_items"),
        (store.async_write_batch, "thread", "threads"),
        (store.prefetcher, "product", "products"),
        (lambda **options: dataset.arrays("x", **options), "run", "runs"),
        (lambda **options: event.store("x", 1, **options), "overwrit", "overwrite"),
        (lambda **options: event.load("x", **options), "typname", "typename"),
        (lambda **options: store.aio.write_batch(**options), "max_item", "max_items"),
    ]:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; did you mean '{meant}'"):
            call(**{name: 1})
    for call in (store.write_batch, store.async_write_batch, lambda **options: event.store("x", 1, **options)):
        with pytest.raises(fb.UsageError, match="overwrite must be True or False, not 'no'"):
            call(overwrite="no")


def test_values_that_are_none_are_told(store: fb.DataStore) -> None:
    """These were Python errors, or messages about columns."""
    event = event_of(store)
    store.create_queue("q")
    with pytest.raises(fb.UsageError, match=r"product 'f' cannot be pickled: .*lambda"):
        event.store("f", lambda: 1, typename="pickle")
    with pytest.raises(fb.UsageError, match="product 's' must be a std::string, not bytes: give a string"):
        event.store("s", b"abc", typename="std::string")
    event.store("b", b"abc", typename="std::vector<std::uint8_t>")
    assert event.load("b").to_list() == [97, 98, 99]
    with store.write_batch() as batch:
        for value in (3.0, np.float64(3), "abc", None):
            with pytest.raises(fb.UsageError, match=r"product 'y': .* is one value instead of one per event"):
                batch.store_arrays(store["a"], {"y": value}, run=1, subrun=1, event=[1])
    with store.open_queue("q", mode="consumer") as queue, pytest.raises(EOFError) as raised:
        queue.pop()
    assert isinstance(raised.value, fb.QueueEndedError)
    assert raised.value.kind == "queue-ended"


def test_types_that_nobody_describes_are_told(store: fb.DataStore) -> None:
    """The message was that of a value that cannot be written."""
    event = event_of(store)
    for kind, told in [
        ("std::vector<Slice>", 'no description of class "Slice" .*FB_DESCRIBE.* load it as bytes'),
        (
            "std::deque<float>",
            r'"std::deque<float>" is not a known type.* stored it with Boost.* load it as bytes',
        ),
    ]:
        event._core.store(("slices", kind), b"abc", True)
        for load in (lambda: event.load("slices"), lambda: event.load("slices", list)):
            with pytest.raises(fb.UsageError, match=told) as raised:
                load()
            assert "cannot be written" not in str(raised.value)
        assert event.load("slices", bytes) == b"abc"
        event.delete_product("slices")
    with pytest.raises(fb.UsageError, match=r'"flot" is not a known type.*did you mean float'):
        event.store("x", 1.5, typename="flot")


def test_arrays_with_fields_are_stored_alike_the_second_time(store: fb.DataStore) -> None:
    """The second one is stored without columns."""
    event = event_of(store)
    rows = np.zeros(3, [("ok", "?"), ("pt", ">f4"), ("n", "i8")])
    rows["ok"], rows["pt"], rows["n"] = [1, 0, 1], [0.5, 1.5, np.inf], [1, -(2**63), 3]
    stored = []
    for value in (rows, rows, rows[::2], np.asfortranarray(rows)[:0]):
        event.store("a_b", value)
        stored.append(event.load("a_b", bytes))
        assert event.load("a_b").to_list() == [dict(zip(rows.dtype.names, row)) for row in value.tolist()]  # noqa: B905
    assert stored[0] == stored[1]
    with pytest.raises(fb.UsageError):
        event.store("a_b", rows.astype([("ok", "?"), ("pt", "f8"), ("n", "i8")]))
