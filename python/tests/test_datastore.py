"""Event stores in Python: stored products are loaded in every form, from every kind of store."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Optional

import awkward as ak
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import femtobarn as fb
from femtobarn._store import product_decoding
from femtobarn._writing.to_nodes import to_batches, to_list


@dataclasses.dataclass
class Track:
    """A track."""

    pt: float
    n: int
    good: bool = True


@dataclasses.dataclass
class Vertex:
    """Something with tracks."""

    z: float
    tracks: list[Track]
    name: str = ""


def event_of(store: fb.DataStore) -> fb.Event:
    return store.root.create_dataset("fermilab/nova").create_run(43).create_subrun(56).create_event(25)


def test_containers_are_found_by_name_and_number(store: fb.DataStore) -> None:
    event = event_of(store)
    dataset = store["fermilab/nova"]
    assert dataset == store.root["fermilab"]["nova"]
    assert dataset[43][56][25] == event
    assert (event.number, event.subrun.number, event.run.number) == (25, 56, 43)
    assert event.run == dataset[43]
    assert list(dataset[43]) == [event.subrun]
    assert list(event.subrun) == list(dataset.events()) == [event]
    assert [run.number for run in dataset.runs()] == dataset.numbers() == [43]
    assert [inner.path for inner in store.root] == ["fermilab"]
    assert [inner.name for inner in store["fermilab"].datasets()] == ["nova"]
    assert 43 in dataset
    assert 44 not in dataset
    assert "nova" in store["fermilab"]
    assert "novo" not in store["fermilab"]
    assert event.exists()
    assert len({event, dataset[43][56][25]}) == 1
    for number in range(10):
        dataset.create_run(number)
    assert [run.number for run in dataset[3:6]] == [3, 4, 5]
    assert dataset.numbers(8) == [8, 9, 43]
    assert dataset.numbers(8, 43) == [8, 9]
    assert store.root.create_dataset("fermilab/nova").uuid == dataset.uuid


@pytest.mark.parametrize(
    ("value", "typename"),
    [
        (5, "std::int64_t"),
        (-1.5, "double"),
        (True, "bool"),
        ("ä\0b", "std::string"),
        ("", "std::string"),
        (b"\x00\xff", "bytes"),
        (b"", "bytes"),
        (np.float32(2.5), "float"),
        (np.uint8(200), "std::uint8_t"),
        (np.arange(5, dtype="u2"), "std::vector<std::uint16_t>"),
        (np.array([1.5, np.inf], ">f8"), "std::vector<double>"),
        (np.array([], "f4"), "std::vector<float>"),
        (np.array([True, False]), "std::vector<bool>"),
        ([1, 2, 3], "std::vector<std::int64_t>"),
        ([[1.5], [], [2.5, 3.5]], "std::vector<std::vector<double>>"),
        (["a", "", "ä"], "std::vector<std::string>"),
        (np.arange(6).reshape(2, 3), "std::vector<std::array<std::int64_t,3>>"),
        ({"a": [1, {"b": None}]}, "msgpack"),
        (None, "msgpack"),
    ],
)
def test_values_come_back_with_their_types(store: fb.DataStore, value: Any, typename: str) -> None:
    event = event_of(store)
    event.store("x", value)
    assert event.products() == [fb.Product("x", typename)]
    found = event.load("x")
    plain = [array.tolist() if hasattr(array, "tolist") else array for array in (found, value)]
    assert plain[0] == plain[1]
    if not isinstance(found, ak.Array):
        assert type(found) is type(plain[1])


def test_records_come_back_in_every_form(store: fb.DataStore) -> None:
    event = event_of(store)
    tracks = [Track(1.5, 2), Track(2, 3, good=False)]
    event.store("tracks", tracks)
    assert event.products() == [fb.Product("tracks", "std::vector<Track>")]
    assert event.load("tracks").tolist() == [dataclasses.asdict(track) for track in tracks]
    assert event.load("tracks", list[Track]) == tracks
    assert event.load("tracks", fb.NumPy)["pt"].tolist() == [1.5, 2.0]
    arrow = event.load("tracks", fb.Arrow)
    assert isinstance(arrow, pa.Array)
    assert arrow.to_pylist() == event.load("tracks", fb.Awkward).tolist()
    # As in the memory of C++: struct Track { double pt; std::int64_t n; bool good; }
    stored = event.load("tracks", bytes)
    dtype = np.dtype([("pt", "<f8"), ("n", "<i8"), ("good", "?")], align=True)
    assert int.from_bytes(stored[:8], "little") == 2
    assert np.frombuffer(stored[8:], dtype)["n"].tolist() == [2, 3]
    vertex = Vertex(0.5, tracks, "primary")
    event.store("vertex", vertex)
    assert event.load("vertex", Vertex) == vertex
    assert event.load("vertex").tracks.pt.tolist() == [1.5, 2.0]
    event.store("array", ak.Array([{"a": 1, "b": [1.5]}, {"a": 2, "b": []}]))
    assert event.load("array").b.tolist() == [[1.5], []]
    event.store("structured", np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]))
    assert event.load("structured", fb.NumPy).dtype.names == ("a", "b")
    event.store("arrow", pa.array([[1, 2], [3]]))
    assert event.load("arrow").tolist() == [[1, 2], [3]]


def test_containers_know_their_dataset(store: fb.DataStore) -> None:
    dataset = store.create_dataset("fermilab/nova")
    assert dataset == store["fermilab/nova"] == store.create_dataset("fermilab/nova")
    event = event_of(store)
    for one in (dataset, event, event.subrun, event.run, next(dataset.events())):
        assert one.dataset == dataset
        assert one.dataset.path == "fermilab/nova"
    event.store("n", 5)
    [prefetched] = store.prefetcher(["n"])(dataset)
    assert prefetched.dataset.path == "fermilab/nova"
    paths = fb.process(dataset, lambda event: event.dataset.path, preload=["n"]).value
    assert paths == ["fermilab/nova"]
    event.store("ref", event.ref("n"))  # a reference does not name its dataset
    container = event.load("ref").container
    assert container.dataset.path == "fermilab/nova"
    dataset.delete()
    with pytest.raises(fb.KeyNotFoundError):
        container.dataset  # noqa: B018


def test_runs_are_chosen_by_slices_and_ranges(store: fb.DataStore) -> None:
    dataset = store.create_dataset("a")
    for run in (1, 3, 4, 9):
        dataset.create_run(run).create_subrun(1).create_event(1).store("n", run)
    for runs, expected in [
        (slice(2, 9), [3, 4]),
        (slice(3, None), [3, 4, 9]),
        (range(3, 10), [3, 4, 9]),
        (range(9, 0, -4), [1, 9]),
        ((9, 1), [1, 9]),
    ]:
        assert dataset.arrays("n", runs=runs).tolist() == expected
    for nothing in (slice(5, 7), range(5, 7), range(0)):
        assert dataset.arrays(("n", int), runs=nothing).tolist() == []
        assert dataset.arrays("n", runs=nothing).tolist() == []
    with pytest.raises(KeyError, match="there is no run 5"):
        dataset.arrays("n", runs=[4, 5])
    with pytest.raises(fb.UsageError):
        dataset.arrays("n", runs=slice(1, 9, 2))


def test_every_kind_of_container_has_products(store: fb.DataStore) -> None:
    event = event_of(store)
    dataset = store["fermilab/nova"]
    containers = [dataset, dataset[43], event.subrun, event]
    for n, container in enumerate(containers):
        container.store("n", n)
        container.store("label with / and # no".replace("#", "\0"), "x")
    assert [container.load("n") for container in containers] == [0, 1, 2, 3]
    dataset[43].delete_product("n")
    assert dataset[43].load("n", default=None) is None
    assert len(event.products("n")) == 1
    with pytest.raises(fb.UsageError):
        store.root.store("n", 1)
    with pytest.raises(fb.UsageError, match="'#' separates label and type"):
        event.store("a#b", 1)


def test_a_product_is_deleted_of_all_events(store: fb.DataStore) -> None:
    """A stage that ran again with another cut left old products of events that did not pass any more."""
    dataset = store.root.create_dataset("a")
    inner = dataset.create_dataset("inner").create_run(1).create_subrun(1).create_event(1)
    for run in (1, 2, 3):
        for number in range(4):
            event = dataset.create_run(run).create_subrun(number % 2).create_event(number)
            event.store("mass", 1.5)
            event.store("mass", number)
            event.store("pt", 2.5)
    for container in (dataset, dataset[1], dataset[1][0], inner):
        container.store("mass", 0.5)
    assert dataset.delete_products("mass", typename=float, runs=2) == 4
    assert dataset.delete_products("mass", runs=range(2, 10)) == 4 + 8
    assert dataset[1][1].delete_products("mass") == 4
    assert dataset.arrays(("mass", int), runs=1).tolist() == [0, 2, None, None]
    assert dataset[1].delete_products("mass") == 4
    for container in (dataset, dataset[1], dataset[1][0], inner):
        assert container.load("mass") == 0.5
    assert dataset.arrays("pt").tolist() == [2.5] * 12
    with pytest.raises(KeyError, match=r"no event of dataset 'a' has a product 'mass'; they have 'pt' \(double\)"):
        dataset.delete_products("mass")
    with pytest.raises(KeyError, match="did you mean 'pt'"):
        dataset[1].delete_products("ptt")
    with pytest.raises(KeyError, match="'pt' as double"):
        dataset.delete_products("pt", typename=int)
    with pytest.raises(KeyError, match="there is no run 7"):
        dataset.delete_products("pt", runs=[1, 7])
    assert dataset.delete_products("pt") == 12


def test_a_store_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'stroe'}"
    for place in (url, "memory:", "memory:r+"):
        with pytest.raises(fb.KeyNotFoundError):
            fb.DataStore.connect(place, mode="r+")
    assert not (tmp_path / "stroe").exists()
    fb.DataStore.connect(url).close()
    with fb.DataStore.connect(url, mode="r+") as store:
        store.root.create_dataset("a")
        assert "a" in pickle.loads(pickle.dumps(store)).root
    with pytest.raises(fb.UsageError, match=r"'r\+' \(read and write an existing store\)"):
        fb.DataStore.connect(url, mode="w")


def test_errors_say_what_there_is(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("tracks", [Track(1, 2)])
    with pytest.raises(KeyError, match=r"has no product 'trakcs'; did you mean 'tracks'\? it has 'tracks'"):
        event.load("trakcs")
    with pytest.raises(KeyError, match="there is no run 44; the first is 43"):
        store["fermilab/nova"][44]
    with pytest.raises(KeyError, match='there is no dataset "fermilab/minos"; "fermilab" has nova'):
        store["fermilab/minos"]
    with pytest.raises(fb.ExistsError):
        event.store("tracks", [Track(3, 4)], overwrite=False)
    assert event.load("tracks", list[Track]) == [Track(1, 2)]
    event.store("tracks", 5)
    with pytest.raises(fb.UsageError, match=r"has several products 'tracks', of types .*: select one with typename="):
        event.load("tracks")
    assert event.load("tracks", typename=int) == 5
    assert event.load("tracks", typename=list[Track]).n.tolist() == [2]
    with pytest.raises(fb.UsageError, match="has type std::int64_t and cannot be loaded as Track"):
        event.load("tracks", Track, typename=int)
    other = dataclasses.make_dataclass("Track", [("phi", float)])
    with pytest.raises(fb.UsageError, match="only there: pt, n, good; only here: phi; rename the class"):
        event.store("others", other(1.5))
    with pytest.raises(fb.UsageError, match="cannot be stored: object is not an array"):
        event.store("x", object())
    for number in (-1, 2**64 - 1, "1", 1.5):
        with pytest.raises(fb.UsageError, match="number"):
            event.subrun.create_event(number)  # type: ignore[arg-type]
    with pytest.raises(fb.UsageError):
        store.root.create_dataset("/")
    with pytest.raises(fb.UsageError):
        fb.DataStore.connect("memory:", mode="w")


def test_unpickling_must_be_asked_for(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("x", {1, 2}, typename="pickle")
    with pytest.raises(fb.UsageError, match="unpickle=True"):
        event.load("x")
    assert event.load("x", unpickle=True) == {1, 2}
    assert event.load("x", bytes).startswith(b"\x80")


def test_batches_write_by_event_and_by_column(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    hits = ak.Array([[1], [], [2, 3], [4]])
    for run, batch in [(1, store.write_batch()), (2, store.async_write_batch(threads=2, max_items=3))]:
        with batch:
            subrun = dataset.create_run(run, batch=batch).create_subrun(0, batch=batch)
            for n, values in enumerate(hits):
                subrun.create_event(n, batch=batch).store("hits", values.to_numpy(), batch=batch)
        assert dataset.arrays("hits", runs=run).tolist() == hits.tolist()
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"hits": hits, "pt": np.arange(4.0)}, run=3, subrun=[0, 0, 1, 1], event=range(4))
    found = dataset.arrays(["hits", "pt"], runs=3, numbers=True)
    assert found.fields == ["run", "subrun", "event", "hits", "pt"]
    assert found.tolist() == [
        {"run": 3, "subrun": n // 2, "event": n, "hits": hits[n].tolist(), "pt": float(n)} for n in range(4)
    ]
    assert dataset.arrays("hits").tolist() == hits.tolist() * 3
    some = dataset.arrays("hits", runs=(n for n in (3, 1)), numbers=True)
    assert some.run.tolist() == [1] * 4 + [3] * 4
    assert some.hits.tolist() == hits.tolist() * 2
    assert dataset.arrays("pt", runs=[1, 3]).tolist() == [None] * 4 + [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(fb.UsageError):
        dataset.create_run(True)
    with pytest.raises(KeyError, match="there is no run 5"):
        dataset.arrays("hits", runs=[1, 5])
    assert [dataset.n_events(), dataset[3].n_events(), dataset[3][1].n_events()] == [12, 4, 2]
    assert store.root.create_dataset("empty").n_events() == 0
    # Events without the product are included.
    assert dataset.arrays("pt").tolist() == [None] * 8 + [0.0, 1.0, 2.0, 3.0]
    with store.write_batch(overwrite=False) as batch:
        batch.store_arrays(dataset, {"pt": [9.0, 9.0]}, run=3, subrun=1, event=[3, 4])
    assert [(kept[0], kept[1].label) for kept in batch.kept] == [(dataset[3][1][3], "pt")]
    assert dataset.arrays("pt", runs=3, library="np").tolist() == [0, 1, 2, 3, 9]
    with pytest.raises(fb.UsageError):
        store.write_batch().store_arrays(dataset, {"pt": [1.0, 2.0]}, run=1, subrun=[1, 2, 3], event=[1, 2])
    with pytest.raises(fb.UsageError, match="2 values for 3 events"):
        store.write_batch().store_arrays(dataset, {"pt": [1.0, 2.0]}, run=1, subrun=1, event=[1, 2, 3])
    with pytest.raises(fb.UsageError, match="holds -1"):
        store.write_batch().store_arrays(dataset, {"pt": [1.0]}, run=-1, subrun=1, event=1)
    with pytest.raises(fb.UsageError):
        batch.flush()


def test_arrays_in_every_library(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"x": [1.5, 2.5], "y": [[1], [2, 3]]}, run=1, subrun=1, event=[1, 2])
    assert dataset.arrays("x", library="np").tolist() == [1.5, 2.5]
    assert dataset.arrays(["x", "y"], library="arrow").to_pylist() == [{"x": 1.5, "y": [1]}, {"x": 2.5, "y": [2, 3]}]
    assert list(dataset.arrays(["x"], numbers=True, library="pd").columns) == ["run", "subrun", "event", "x"]
    assert dataset.arrays(["x"], library="pl")["x"].to_list() == [1.5, 2.5]
    assert dataset.arrays(("x", float)).tolist() == [1.5, 2.5]
    with pytest.raises(KeyError, match=r"no event of dataset 'a' has a product 'z'; they have 'x' .*, 'y' "):
        dataset.arrays("z")


def test_products_of_one_label_and_several_types_are_not_mixed(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    subrun = dataset.create_run(1).create_subrun(1)
    for number, value in enumerate([1, 2.5, 3]):
        subrun.create_event(number).store("e", value)
    event = dataset.create_run(2).create_subrun(1).create_event(1)
    event.store("v", np.ones(2, "f4"), typename="ROOT::VecOps::RVec<float>")
    subrun[2].store("v", np.ones(2, "f4"))
    dataset.create_run(3).store("e", "of a run")
    several = r"'double' \(1 event\), 'std::int64_t' \(2 events\); select one: \('e', 'double'\)"
    for holder in (dataset, dataset[1], subrun):
        with pytest.raises(fb.UsageError, match=several):
            holder.arrays("e")
        with pytest.raises(fb.UsageError, match=several):
            next(iter(store.prefetcher(["e"])(holder)))
        with pytest.raises(fb.UsageError, match=several):
            fb.process(holder, len, preload=["e"], by="batch")
    with pytest.raises(fb.UsageError, match=r"RVec<float>' .*'std::vector<float>'"):
        dataset.arrays("v")
    assert dataset[2].arrays("v").tolist() == [[1, 1]]
    assert subrun.arrays(("e", int)).tolist() == [1, None, 3]
    both = [("e", int), ("e", float)]
    with pytest.raises(fb.UsageError, match="one field 'e'"):
        subrun.arrays(both)
    for batch in store.prefetcher(both).batches(subrun):
        assert [event.load("e") for event in batch] == [1, 2.5, 3]
        with pytest.raises(fb.UsageError, match="one field 'e'"):
            batch.arrays()
    subrun[0].store("run", 5)
    with pytest.raises(fb.UsageError, match="one field 'run'"):
        subrun.arrays(["run"], numbers=True)
    assert subrun.arrays(["run"]).run.tolist() == [5, None, None]


def test_products_that_no_event_has_are_told(store: fb.DataStore) -> None:
    """A wrong type for an existing label gave arrays in which all values were missing."""
    dataset = store.root.create_dataset("a")
    for run in range(3):
        event = dataset.create_run(run).create_subrun(1).create_event(1)
        event.store("tracks", [Track(1.5, 2)])
    event.store("rare", 5)
    dataset.create_run(7).create_subrun(1).create_event(1)

    def uses(products: list[Any], holder: Any) -> list[Any]:
        return [
            lambda: holder.arrays(products),
            lambda: holder.arrays(products[0]),
            lambda: list(store.prefetcher(products, batch_size=1)(holder)),
            lambda: fb.process(holder, len, preload=products, by="batch"),
        ]

    as_list = r"they have 'tracks' as std::vector<Track>: ask for \('tracks', 'std::vector<Track>'\)"
    for product, holder, message in [
        (("tracks", Track), dataset, as_list),
        (("tracks", "Trakc"), dataset[1], as_list),
        (("rare", float), dataset, "they have 'rare' as std::int64_t"),
        (("rare", int), dataset[1], "no event of run 1 has .*; they have 'tracks'"),
        (("trakcs", list[Track]), dataset, r"did you mean 'tracks'\? they have 'rare' "),
        (("rare", int), dataset[7][1], "no event of run 7, subrun 1 has .*; they have none"),
    ]:
        for n, use in enumerate(uses([product], holder)):
            with pytest.raises(KeyError, match=message):
                pytest.fail(f"{n} gave {use()!r}")
    with pytest.raises(KeyError, match="no event of these runs of dataset 'a' has a product 'rare'"):
        dataset.arrays(("rare", int), runs=[0, 1])
    # it is enough if one event has it, even the last one
    assert dataset.arrays(("rare", int), runs=[0, 2]).tolist() == [None, 5]
    some = [
        batch.arrays(numbers=False).rare.tolist()
        for batch in store.prefetcher([("rare", int)], batch_size=1).batches(dataset)
    ]
    assert some == [[None], [None], [5], [None]]
    assert fb.process(dataset, lambda event: event.load("rare", default=0), preload=[("rare", int)]).value == [
        0,
        0,
        5,
        0,
    ]
    # without events, nothing is missing
    assert dataset.create_run(8).arrays(("rare", int)).tolist() == []
    assert list(store.prefetcher([("rare", int)])(dataset[8])) == []


def test_prefetched_events_bring_their_products(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        for run in range(3):
            batch.store_arrays(dataset, {"n": np.arange(50), "m": np.ones(50)}, run=run, subrun=1, event=np.arange(50))
    prefetcher = store.prefetcher(["n"], batch_size=7)
    seen = [(event.run.number, event.load("n"), event.load("m")) for event in prefetcher(dataset)]
    assert seen == [(run, n, 1.0) for run in range(3) for n in range(50)]
    batches = list(prefetcher.batches(dataset[1]))
    assert [len(batch) for batch in batches] == [7] * 7 + [1]
    assert ak.concatenate([batch.arrays() for batch in batches]).n.tolist() == list(range(50))
    assert batches[0][-1].load("n") == 6
    for event in prefetcher(dataset):
        event.load("n")
        break


class Counted:
    """The core of an event, which records calls."""

    def __init__(self, core: Any, asked: list[str]) -> None:
        self.core, self.asked = core, asked

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.core, name)

    def __str__(self) -> str:
        return str(self.core)


def test_prefetched_events_know_what_they_lack(store: fb.DataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product that an event did not have was requested again, one request per event."""
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for n in range(6):
        subrun.create_event(n).store("m", n)
    subrun[5].store("n", 5)
    subrun[3].store("v", 1.5)
    for batch_size in (2, 16):  # decoded one by one, and together
        for wanted in (["n", "m"], [("n", int), "m"]):
            events = list(store.prefetcher(wanted, batch_size=batch_size)(subrun))
            asked: list[str] = []
            with monkeypatch.context() as patch:
                for event in events:
                    patch.setattr(event, "_core", Counted(event._core, asked))
                for form in (None, bytes, int, fb.NumPy):
                    found = [event.load("n", form, default=None) is not None for event in events]
                    assert found == [False] * 5 + [True]
                assert events[0].load("n", typename=np.int64, default=7) == 7
                assert {"load", "names"}.isdisjoint(asked)
                with pytest.raises(KeyError, match="event 0 has no product 'n'; it has 'm'"):
                    events[0].load("n")
                assert "names" in asked
    # A product of another type is not known to be absent if it is requested by its type.
    events = list(store.prefetcher([("n", int)])(subrun))
    subrun[0].store("n", "text")
    assert events[0].load("n", default=None) is None
    assert events[0].load("n", typename=str, default=None) == "text"
    assert events[0].load("n", str, default=None) == "text"


@pytest.mark.parametrize("batch_size", [2, 16])
def test_prefetched_events_give_what_was_stored_through_them(store: fb.DataStore, batch_size: int) -> None:
    """They returned the old value as long as they existed."""
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for n in range(6):
        subrun.create_event(n).store("n", n)
    batch = next(store.prefetcher(["n"], batch_size=batch_size).batches(subrun))
    first, second = batch[0], batch[1]
    assert first.load("n") == 0
    first.store("n", 10)
    assert (first.load("n"), second.load("n"), batch[0].load("n")) == (10, 1, 10)
    first.store("n", 10.5)
    assert first.load("n", float) == 10.5
    with store.write_batch() as written:
        second.store("n", 11, batch=written)
    assert second.load("n") == 11
    second.delete_product("n")
    assert second.load("n", default=None) is None
    third = next(event for event in store.prefetcher([("n", int)])(subrun) if event.number == 2)
    third.delete()
    assert third.load("n", default=None) is None
    assert batch.arrays().n.tolist()[:2] == [0, 1]


def test_deleting_takes_everything_along(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("x", 1)
    event.subrun.create_event(26).store("x", 2)
    event.delete()
    assert not event.exists()
    assert event.products() == []
    dataset = store["fermilab/nova"]
    assert [left.number for left in dataset.events()] == [26]
    store["fermilab"].delete()
    assert list(store.root) == []
    assert list(store.root.create_dataset("fermilab/nova").events()) == []
    store["fermilab"].delete_dataset("nova")
    assert list(store["fermilab"]) == []
    for wrong in ("", "/", 5):
        with pytest.raises(fb.UsageError):
            store.root.delete_dataset(wrong)  # type: ignore[arg-type]


def test_queues_bring_values_to_other_threads(store: fb.DataStore) -> None:
    store.create_queue("work", list[Track])
    with pytest.raises(FileExistsError):
        store.create_queue("work", list[Track])
    with pytest.raises(fb.KeyNotFoundError):
        store.open_queue("work", int, mode="consumer")
    event_of(store).store("t", [Track(0, 0)])
    taken: list[Any] = []
    producer = store.open_queue("work", list[Track], mode="producer")
    consumer = store.open_queue("work", list[Track], mode="consumer")
    thread = threading.Thread(target=lambda: taken.extend(consumer))
    thread.start()
    with producer:
        for n in range(20):
            producer.push([Track(n, n)])
    thread.join(30)
    assert taken == [[Track(n, n)] for n in range(20)]
    with pytest.raises(EOFError):
        consumer.pop()
    store.destroy_queue("work", list[Track])
    with pytest.raises(KeyError):
        store.destroy_queue("work", list[Track])


def test_one_process_writes_and_others_read(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    store = fb.DataStore.connect(url)
    event = event_of(store)
    event.store("n", 7)
    program = f"""
import femtobarn as fb
try:
    fb.DataStore.connect({url!r})
except fb.FileError as error:
    print(error.kind)
store = fb.DataStore.connect({url!r}, mode="r")
print(store["fermilab/nova"].arrays("n").tolist())
try:
    store.root.create_dataset("x")
except fb.UsageError as error:
    print(error.kind)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == ["store-locked", "[7]", "read-only"]
    again = pickle.loads(pickle.dumps(store))
    assert again["fermilab/nova"][43][56][25].load("n") == 7
    with pytest.raises(fb.UsageError):
        pickle.dumps(fb.DataStore.connect("memory:"))


def test_a_store_is_pickled_as_the_folder_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    store = fb.DataStore.connect("dir:s")
    (tmp_path / "c.json").write_text('{"url": "dir:s"}')
    by_config = fb.DataStore.connect("c.json")
    store.root.create_dataset("a")
    monkeypatch.chdir("elsewhere")
    for each in (store, by_config):
        assert "a" in pickle.loads(pickle.dumps(each)).root
    assert not list((tmp_path / "elsewhere").iterdir())
    # a deleted one is not created again
    pickled = pickle.dumps(store)
    del each, by_config
    store.close()
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(fb.KeyNotFoundError):
        pickle.loads(pickled)
    assert not (tmp_path / "s").exists()


def test_a_folder_that_was_removed_is_another_store_when_it_is_made_anew(tmp_path: Path) -> None:
    old = fb.DataStore.connect(f"dir:{tmp_path}/s")
    old.root.create_dataset("old")
    shutil.rmtree(tmp_path / "s")
    new = fb.DataStore.connect(f"dir:{tmp_path}/s")
    assert list(new.root) == []
    new.root.create_dataset("new").create_run(1)
    for use in (old.flush, lambda: old.root["old"], lambda: old.root.create_dataset("b")):
        with pytest.raises(fb.FemtobarnError, match="its directory was removed while it was open"):
            use()
    program = f"import femtobarn as fb; print(fb.DataStore.connect('dir:{tmp_path}/s', mode='r')['new'].n_events())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "0\n"


def test_products_are_taken_as_they_are_listed(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1).create_subrun(1).create_event(1)
    event.store("x", 1.5)
    [product] = event.products()
    assert event.load(product) == 1.5
    dataset = store.root["a"]
    assert dataset.arrays(product).tolist() == [1.5]
    assert dataset.arrays(list(dataset.event_products())).x.tolist() == [1.5]
    [batch] = store.prefetcher([product]).batches(dataset)
    assert len(batch) == 1
    assert fb.process(dataset, lambda event: event.load("x"), preload=[product], reduce=max).value == 1.5
    with pytest.raises(fb.UsageError):
        dataset.arrays({"x": "double"})
    with pytest.raises(fb.UsageError, match=r"table\.columns"), store.write_batch() as wb:
        wb.store_arrays(dataset, pd.DataFrame({"x": [1]}), run=1, subrun=1, event=[1])  # type: ignore[arg-type]
    event.delete_product(product)
    assert event.products() == []


def _load_after_fork(store: fb.DataStore, answers: Any) -> None:
    try:
        store["fermilab/nova"]
    except fb.UsageError as error:
        answers.put(str(error))


def test_a_store_is_opened_anew_behind_a_fork(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")
    event_of(store)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_load_after_fork, args=(store, answers))
    child.start()
    assert "open it again in each process" in answers.get(timeout=60)
    child.join()


_WRITER = """
import sys
import numpy as np
import pandas as pd
import femtobarn as fb
store = fb.DataStore.connect(sys.argv[1])
dataset = store.root.create_dataset("a")
run = int(sys.argv[2])
for subrun in range(10**6):
    with store.write_batch() as batch:
        values = np.arange(subrun * 100, subrun * 100 + 100)
        batch.store_arrays(dataset, {"n": values, "m": values * 2.5}, run=run, subrun=subrun, event=np.arange(100))
    print(subrun, flush=True)  # flushed: it must exist from now on
"""


def test_what_was_flushed_survives_kill_and_nothing_is_half(tmp_path: Path) -> None:
    """A writer is killed at random moments.

    Every batch that it reported as flushed exists; every other one exists completely or not at all.
    """
    url = f"dir:{tmp_path / 'store'}"
    random = np.random.default_rng(5)
    said = []
    for run in range(5):
        command = [sys.executable, "-c", _WRITER, url, str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "0\n"
            time.sleep(random.uniform(0, 0.3))
            os.kill(writer.pid, signal.SIGKILL)
            lines = writer.stdout.read().splitlines()
        said.append(int(lines[-1]) if lines else 0)
    dataset = fb.DataStore.connect(url)["a"]
    for run, last in enumerate(said):
        subruns = dataset[run].numbers()
        assert subruns[: last + 1] == list(range(last + 1))
        found = dataset.arrays(["n", "m"], runs=run, numbers=True)
        assert len(found) == len(subruns) * 100
        assert np.array_equal(found.n, np.arange(len(found)))
        assert np.array_equal(found.m, found.n * 2.5)


_DELETER = """
import sys
import femtobarn as fb
store = fb.DataStore.connect(sys.argv[1])
print("begins", flush=True)
store["a"].delete()
"""


def test_a_deletion_that_was_killed_leaves_nothing_that_looks_whole_and_can_be_ended(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    with fb.DataStore.connect(url) as store:
        for n in range(300):
            store.root.create_dataset(f"a/{n}/b").create_run(1).create_subrun(2).create_event(3).store("x", n)
    with fb.DataStore.connect(url, mode="r") as reader:
        with subprocess.Popen([sys.executable, "-c", _DELETER, url], stdout=subprocess.PIPE, text=True) as deleter:
            assert deleter.stdout is not None
            assert deleter.stdout.readline() == "begins\n"
            while "a" in reader.root and deleter.poll() is None:
                pass
            os.kill(deleter.pid, signal.SIGKILL)
        assert list(reader.root) == []
        assert "a/299" not in reader.root
        with pytest.raises(fb.KeyNotFoundError):
            reader["a/299/b"]
    with fb.DataStore.connect(url) as store:
        for name in ("a", "a/299/b", "a/new"):
            with pytest.raises(fb.ExistsError):
                store.root.create_dataset(name)
        store.root.delete_dataset("a")
        with pytest.raises(fb.KeyNotFoundError):
            store.root.delete_dataset("a")
        assert list(store.root.create_dataset("a")) == []


def test_a_product_of_a_batch_comes_in_every_form_as_one_loaded_alone(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    values = {"n": 5, "pt": np.arange(3, dtype="f4"), "name": "é", "lists": [[1.5], []], "hit": Track(1.5, 2)}
    values["hits"] = [Track(2.5, 3), Track(3.5, 4)]
    for number in range(3):
        event = dataset.create_run(1).create_subrun(1).create_event(number)
        for label, value in values.items():
            event.store(label, value)
    forms = [None, fb.Awkward, fb.NumPy, fb.Arrow, bytes]
    for event in store.prefetcher(list(values))(dataset):
        alone = dataset[1][1][event.number]
        for label in values:
            for form in [*forms, *({"n": [int], "hit": [Track], "hits": [list[Track]]}.get(label, []))]:
                one, other = event.load(label, form), alone.load(label, form)
                assert type(one) is type(other)
                plain = [value.tolist() if hasattr(value, "tolist") else value for value in (one, other)]
                assert str(plain[0]) == str(plain[1])


@pytest.mark.parametrize("value", [[], [[]], [None], [{"a": []}]])
def test_what_says_nothing_of_its_type_is_not_stored_and_not_noted(store: fb.DataStore, value: Any) -> None:
    run = store.root.create_dataset("a").create_run(1)
    with pytest.raises(fb.UsageError, match="give it as typename="):
        run.store("x", value)
    run.store("x", [{"a": [1.5]}])
    assert run.load("x").tolist() == [{"a": [1.5]}]
    run.store("y", [], typename=list[float])
    assert run.load("y").tolist() == []


def test_a_damaged_product_spoils_no_other_of_its_batch(store: fb.DataStore) -> None:
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    for number in range(3):
        subrun.create_event(number).store("n", number)
    subrun[1]._core.store(("n", "std::int64_t"), b"short", True)
    first, second, third = store.prefetcher([("n", int)])(subrun)
    assert (first.load("n"), third.load("n")) == (0, 2)
    with pytest.raises(fb.FormatError):
        second.load("n")


def test_damaged_products_are_told(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("tracks", [Track(1, 2)])
    event._core.store(("tracks", "std::vector<Track>"), b"\x05", True)
    with pytest.raises(fb.FormatError, match="expected 8 more bytes at byte 0, found 1 of 1 bytes left"):
        event.load("tracks")
    with pytest.raises(fb.FormatError, match=r"run 43, subrun 56, event 25 is damaged"):
        store["fermilab/nova"].arrays("tracks")


def test_stores_say_whether_they_are_durable(tmp_path: Path, redis: Any, redis_without_log: str) -> None:
    with_log = f"redis://127.0.0.1:{redis()}?prefix=durable:"
    stores = {"memory:": False, f"dir:{tmp_path / 'store'}": True, with_log: True, redis_without_log: False}
    for url, is_durable in stores.items():
        with fb.DataStore.connect(url) as store:
            assert (store.is_durable, store.aio.is_durable) == (is_durable, is_durable)


def test_folders_that_are_no_stores_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(fb.FormatError):
        fb.DataStore.connect(f"dir:{tmp_path}")
    with pytest.raises(fb.KeyNotFoundError):
        fb.DataStore.connect(f"dir:{tmp_path / 'nothing'}", mode="r")


def _objects(folder: Path) -> list[Path]:
    """Return the objects in a directory, without the owner's marker."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "femtobarn-store.json")


def test_large_products_lie_beside_the_store(tmp_path: Path, redis: Any) -> None:
    image = np.arange(40_000, dtype="f4")
    for n_store, url in enumerate((f"dir:{tmp_path}/store", f"redis://127.0.0.1:{redis()}?prefix=objects:")):
        large = tmp_path / f"large{n_store}"
        with pytest.raises(fb.UsageError):
            fb.DataStore.connect(url, objects_over="64kB")
        store = fb.DataStore.connect(url, objects=large, objects_over="64kB")
        assert (store.objects, store.objects_over) == (str(large), 64_000)
        dataset = store.root.create_dataset("a")
        with store.write_batch() as batch:
            subrun = dataset.create_run(1, batch=batch).create_subrun(1, batch=batch)
            for n in range(5):
                event = subrun.create_event(n, batch=batch)
                event.store("image", image + n, batch=batch)
                event.store("n", n, batch=batch)
        with store.write_batch() as batch:
            batch.store_arrays(dataset, {"image": [image, image[:3]]}, run=2, subrun=1, event=[1, 2])
        assert len(_objects(large)) == 6
        # without repeating the location, also in another process
        again = pickle.loads(pickle.dumps(store))
        assert again.objects == str(large)
        events = again["a"].arrays(["image", "n"], runs=1)
        assert np.array_equal(events.image[3], image + 3)
        assert events.n.tolist() == [0, 1, 2, 3, 4]
        assert ak.num(again["a"].arrays("image", runs=2)).tolist() == [40_000, 3]
        sums = [ak.sum(event.load("image")) for event in again.prefetcher(["image"])(again["a"][1])]
        assert sums == pytest.approx([float(np.sum(image + n)) for n in range(5)], rel=1e-4)
        with pytest.raises(fb.UsageError, match="fb store moved"):
            fb.DataStore.connect(url, objects=tmp_path / "elsewhere")
        first = dataset[1][1][0]
        first.store("image", image[:2])
        assert len(_objects(large)) == 5
        with pytest.raises(fb.ExistsError):
            dataset[1][1][1].store("image", image, overwrite=False)
        assert len(_objects(large)) == 5
        assert store.sweep_objects(age=0) == fb.Swept(used=5, deleted=0, deleted_bytes=0, young=0, strange=0)
        damaged = next(path for path in _objects(large) if path.match("*/1/1/3/*"))
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        with pytest.raises(fb.FormatError, match=r"run 1, subrun 1, event 3 .*checksum") as raised:
            dataset[1][1][3].load("image")
        assert raised.value.kind == "product-damaged"
        assert str(damaged) in str(raised.value)
        with pytest.raises(fb.ChecksumError, match=r"run 1, subrun 1, event 3 .*checksum") as raised:
            dataset.arrays("image", runs=1)
        assert "Boost" not in str(raised.value)
        damaged.unlink()
        with pytest.raises(fb.FormatError, match=r"cannot load .* from its object") as raised:
            dataset.arrays("image", runs=1)
        assert str(damaged) in str(raised.value)
        assert "Boost" not in str(raised.value)
        dataset[1].delete()
        assert len(_objects(large)) == 1
        dataset.delete()
        assert _objects(large) == []
        del store, again, dataset, subrun, event, events, first, batch


def test_a_bucket_may_have_the_large_products(tmp_path: Path, need_store: Any) -> None:
    need_store("minio")
    import object_servers

    server = object_servers.Minio()
    try:
        about = server.about()
        options = {name: str(about[name]) for name in ("endpoint", "access_key_id", "secret_access_key")}
        url = f"dir:{tmp_path}/store"
        store = fb.DataStore.connect(url, objects="s3://private/large", objects_over=1000, storage_options=options)
        dataset = store.root.create_dataset("a")
        with store.write_batch() as batch:
            values = {"x": [np.arange(n * 100.0) for n in range(20)]}
            batch.store_arrays(dataset, values, run=1, subrun=1, event=range(20))
        store.flush()

        # workers connect by themselves, and get the settings for the bucket
        reader = fb.DataStore.connect(url, mode="r", storage_options=options)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            sizes = pool.apply(_sizes, (pickle.dumps(reader),))
        assert sizes == [n * 100 for n in range(20)]
        assert store.sweep_objects(age=0).used == 18
        dataset.delete()
        assert store.sweep_objects(age=0).used == 0
    finally:
        server.close()


def _sizes(pickled: bytes) -> list[int]:
    store = pickle.loads(pickled)
    sizes: list[int] = ak.num(store["a"].arrays("x")).tolist()
    return sizes


_FB = "import sys; from femtobarn import _core; sys.exit(_core.cli_main(sys.argv[1:]))"


def test_objects_that_were_moved_and_orphans_are_for_fb(tmp_path: Path) -> None:
    def run(*words: object) -> str:
        command = [sys.executable, "-c", _FB, "store", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    url = f"dir:{tmp_path}/store"
    script = f"""
import femtobarn as fb
store = fb.DataStore.connect({url!r}, objects={str(tmp_path / "large")!r}, objects_over=1000)
store.root.create_dataset("a").create_run(1).store("x", bytes(5000))
store.flush()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    (tmp_path / "large").rename(tmp_path / "moved")
    assert "are now read from" in run("moved", url, tmp_path / "moved")
    used = _objects(tmp_path / "moved")
    orphan = used[0].with_name("0" * 32)
    orphan.write_bytes(b"x" * 10)
    assert "0 objects" in run("sweep", url)
    assert "1 object (10 B) deleted" in run("sweep", url, "--age", 0)
    assert _objects(tmp_path / "moved") == used
    store = fb.DataStore.connect(url, mode="r")
    assert store["a"][1].load("x") == bytes(5000)
    store.close()
    copy = f"dir:{tmp_path}/copy"
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with pytest.raises(fb.UsageError, match=r"another store, .*fb store moved"):
        fb.DataStore.connect(copy)
    assert "another store" in run("sweep", copy, "--age", 0)
    shutil.copytree(tmp_path / "moved", tmp_path / "own")
    run("moved", copy, tmp_path / "own")
    with fb.DataStore.connect(copy) as store:
        store.root.delete_dataset("a")
    assert (_objects(tmp_path / "own"), _objects(tmp_path / "moved")) == ([], used)


@dataclasses.dataclass
class Wide:
    """Numbers of several sizes, with padding."""

    good: bool
    pt: np.float32
    n: np.int16
    e: float
    key: np.uint64
    small: np.int8


WIDE = [("good", "?"), ("pt", "f4"), ("n", "i2"), ("e", "f8"), ("key", "u8"), ("small", "i1")]


@dataclasses.dataclass
class Loose:
    """Optional values, and values in lists."""

    a: float | None
    b: Optional[int]  # noqa: UP045 (both spellings are taken)
    track: Track | None = None
    pair: tuple[float, ...] = ()
    hits: list[np.float32] = dataclasses.field(default_factory=list)
    name: str = ""


def test_plain_values_are_stored_as_the_slow_way_stores_them(store: fb.DataStore) -> None:
    """Numbers are packed without Awkward: the bytes equal those of the core's encoding."""
    random = np.random.default_rng(7)
    event = event_of(store)
    for n in (0, 1, 2, 50):
        rows = []
        for _ in range(n):
            key, small = int(random.integers(2**64, dtype=np.uint64)), int(random.integers(-128, 128))
            pt = random.choice([np.nan, np.inf, -0.0, 1e-45, float(np.float32(random.normal())), random.normal()])
            rows.append(Wide(bool(small & 1), float(pt), int(random.integers(-(2**15), 2**15)), small / 7, key, small))
        typename = list[Wide]
        event.store("rows", rows, typename=typename)
        quick = event.load("rows", bytes)
        columns = np.array([dataclasses.astuple(row) for row in rows], WIDE)
        slow = store._core.encode(to_list("rows", columns), "std::vector<Wide>")
        assert quick == slow
        found, other = event.load("rows", list[Wide]), event.load("rows").tolist()
        assert str([dataclasses.asdict(row) for row in found]) == str(other)
        if rows:
            event.store("row", rows[0])
            assert event.load("row", bytes) == slow[8 : 8 + (len(slow) - 8) // n]
            assert str(dataclasses.asdict(event.load("row", Wide))) == str(other[0])
    for values in ([1, -2, 2**63 - 1], [1.5, np.inf], [True, False], (3, 4)):
        event.store("list", values)
        name = event.products("list")[-1].type
        batches = to_list("list", list(values))
        assert event.load("list", bytes, typename=name) == store._core.encode(batches, name)
        kind = type(values[0])
        if kind is not bool:
            assert event.load("list", list[kind], typename=name) == list(values)  # type: ignore[valid-type]
        event.delete_product("list")
    for wrong in (Wide(True, 1.0, 40_000, 1.0, 1, 1), Wide(True, 1.0, 1, 2**53 + 1, 1, 1), Wide(True, "1", 1, 1, 1, 1)):  # type: ignore[arg-type]
        with pytest.raises(fb.UsageError, match="'wrong'"):
            event.store("wrong", [wrong])


@pytest.mark.parametrize(
    ("value", "typename"),
    [
        (np.arange(3, dtype="f4"), "std::array<float,3>"),
        (np.arange(3, dtype=">i2"), "std::array<std::int16_t,3>"),
        ([1.5, 2.5], "std::array<double,2>"),
        (np.arange(6, dtype="u8").reshape(2, 3), "std::array<std::array<std::uint64_t,3>,2>"),
        (np.arange(24, dtype="f4").reshape(4, 3, 2), None),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), None),
        (np.ones((0, 3)), None),
        (np.ones((2, 3), bool), None),
    ],
)
def test_arrays_of_arrays_are_stored_and_loaded_as_the_slow_way_does(
    store: fb.DataStore, value: Any, typename: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took twenty times as long as vectors of numbers."""
    event = event_of(store)
    event.store("x", value, typename=typename)
    [product] = event.products()
    stored = event.load("x", bytes)
    native = np.asarray(value).astype(np.asarray(value).dtype.newbyteorder("="))
    as_one = {"x": ak.Array(native[None])}  # an entry of a column
    batches = to_list("x", native) if typename is None else to_batches(as_one)
    assert stored == store._core.encode(batches, product.type)
    forms = [None, fb.Awkward, fb.NumPy]
    if np.ndim(value) == 1:
        forms.append(list[float] if product.type.startswith(("std::array<f", "std::array<d")) else list[int])
    assert store._codec.view(stored, product.type) is not None
    quick = [event.load("x", form) for form in forms]
    monkeypatch.setattr(product_decoding, "_array", lambda *_: None)
    slow = [event.load("x", form) for form in forms]
    for one, other in zip(quick, slow, strict=True):
        assert type(one) is type(other)
        assert getattr(one, "type", None) == getattr(other, "type", None)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        assert np.asarray(one).tolist() == np.asarray(other).tolist() == np.asarray(value).tolist()
    monkeypatch.undo()
    for damaged in (stored[:-1], stored + b"\0", b""):
        event._core.store(("x", product.type), damaged, True)
        with pytest.raises(fb.FormatError):
            event.load("x")


def test_arrays_of_a_size_take_no_others(store: fb.DataStore) -> None:
    event = event_of(store)
    for value in ([1.5, 2.5], np.ones(4), np.ones((3, 1)), [1.5, 2.5, None]):
        with pytest.raises(fb.UsageError, match="'x'"):
            event.store("x", value, typename="std::array<double,3>")
    event.store("x", [1, 2, 3], typename="std::array<double,3>")
    assert event.load("x", list[float]) == [1.0, 2.0, 3.0]
    event.store("y", np.arange(3), typename="std::array<double,3>")
    assert event.load("y", fb.NumPy).tolist() == [0, 1, 2]


def test_empty_lists_have_the_class_that_is_said(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("v", [], typename=list[Vertex])
    assert event.load("v", list[Vertex]) == []
    event.store("v", [Vertex(1.5, [Track(1, 2)])])
    assert event.load("v").tracks.pt.tolist() == [[1.0]]
    event.store("t", [], typename="std::vector<Track>")
    assert event.load("t").tolist() == []
    event.store("one", {"pt": 1.5, "n": 2, "good": True}, typename=Track)
    assert event.load("one", Track) == Track(1.5, 2)


def test_optional_members_come_back(store: fb.DataStore) -> None:
    event = event_of(store)
    rows = [Loose(1.5, None, Track(1, 2), (1.0, 2.5), [0.5], "é"), Loose(None, 7), Loose(None, None)]
    event.store("loose", rows)
    assert event.load("loose", list[Loose]) == rows
    assert dict(store._core.classes("Loose"))["Loose"][0] == ("a", "std::optional<double>")
    event.store("loose", rows[0])
    assert event.load("loose", Loose) == rows[0]  # of the several, that which the form is
    assert event.subrun.arrays(("loose", list[Loose])).a.tolist() == [[1.5, None, None]]
    for kind, advice in {
        np.ndarray: "use list",
        dict: "use a dataclass",
        tuple[int, float]: "use a dataclass",
        list: "the type of the items is missing",
    }.items():
        refused = dataclasses.make_dataclass("Refused", [("member", kind)])
        with pytest.raises(fb.UsageError, match=f"member 'member' of Refused: .*{advice}"):
            event.store("refused", refused(None))
    with pytest.raises(fb.UsageError):
        event.store("t", Track(None, 1))  # type: ignore[arg-type]


def test_integers_have_64_bits(store: fb.DataStore) -> None:
    event = event_of(store)
    for label, value in {"a": 2**63, "b": [2**63, 1], "c": [[2**64 - 1], []]}.items():
        event.store(label, value)
        found = event.load(label)
        assert (found if label == "a" else found.tolist()) == value
        assert "std::uint64_t" in event.products(label)[0].type
    event.store("d", [2**63], typename=list[np.uint64])
    assert event.load("d").tolist() == [2**63]
    for value in (2**64, [2**64], [-1, 2**63], Track(1, 2**63)):
        with pytest.raises(fb.UsageError, match="'wrong'"):
            event.store("wrong", value)


def test_dicts_come_back_or_are_refused(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("d", {1: {2.5: "x"}, "a": b"y"})
    assert event.load("d") == {1: {2.5: "x"}, "a": b"y"}
    for value in ({"a": np.arange(3)}, {(1, 2): 3}, {"a": 2**70}, {"a": {1}}):
        with pytest.raises(fb.UsageError, match=r"product 'e' cannot be stored as msgpack .*typename='pickle'"):
            event.store("e", value)
    assert event.products("e") == []


def test_stores_of_all_kinds_are_opened_to_be_read(store: fb.DataStore, tmp_path: Path) -> None:
    event_of(store).store("x", 1.5)
    if store.url == "memory:":
        with pytest.raises(fb.UsageError):
            fb.DataStore.connect("memory:", mode="r")
        return
    url = store.url
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"url": url}))
    for place in (url, config):
        with fb.DataStore.connect(place, mode="r") as reader:
            event = reader["fermilab/nova"][43][56][25]
            assert event.load("x") == 1.5
            with pytest.raises(fb.UsageError):
                event.store("x", 2.5)
    config.write_text(json.dumps({"url": url.replace("prefix=", "prefix=other") if "?" in url else f"{url}-other"}))
    with pytest.raises(fb.KeyNotFoundError):
        fb.DataStore.connect(config, mode="r")


def test_a_class_that_no_product_has_is_forgotten(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a").create_dataset("b")
    event = dataset.create_run(1).create_subrun(2).create_event(3)
    inner = dataclasses.make_dataclass("Inner", [("x", float)])
    outer = dataclasses.make_dataclass("Outer", [("of", list[inner])])  # type: ignore[valid-type]
    event.store("many", [outer([inner(0.5)])])
    other = dataclasses.make_dataclass("Inner", [("x", int), ("y", float)])
    said = r"class Inner is stored with other members: x is double there and std::int64_t here; only here: y; rename"
    with pytest.raises(fb.UsageError, match=said):
        event.store("other", other(1, 2.5))
    with pytest.raises(fb.UsageError, match='in dataset "a/b", run 1, subrun 2, there are products "many" of the type'):
        store.forget_class("Inner")
    with pytest.raises(fb.KeyNotFoundError, match='class "inner"'):
        store.forget_class("inner")
    event.delete_product("many")
    store.forget_class("Inner")
    event.store("other", other(1, 2.5))
    assert event.load("other", other) == other(1, 2.5)
    with pytest.raises(fb.UsageError, match='"other" of the type Inner'):
        store.forget_class("Inner")


def test_others_do_not_take_a_class_for_what_it_was() -> None:
    """Another connection read values of a class that was defined anew as if they had the members of the old one."""
    old = dataclasses.make_dataclass("T", [("a", float), ("b", int)])
    new = dataclasses.make_dataclass("T", [("a", np.int32), ("b", np.int32)])
    one, two = (fb.DataStore.connect("memory:forgotten") for _ in range(2))
    event = event_of(one)
    there = two["fermilab/nova"][43][56][25]
    there.store("t", [old(1.5, 2)])
    assert event.load("t").tolist() == there.load("t").tolist() == [{"a": 1.5, "b": 2}]
    assert event.load("t", list[old]) == there.load("t", list[old]) == [old(1.5, 2)]
    event.delete_product("t")
    forgetting = threading.Thread(target=one.forget_class, args=["T"])
    forgetting.start()
    time.sleep(1)
    with pytest.raises(fb.UsageError, match="class T is being forgotten, which takes some seconds: try again"):
        event.store("t", [new(7, 8)])
    forgetting.join()
    event.store("t", [new(7, 8)])
    for whose in (event, there):
        assert whose.load("t").tolist() == [{"a": 7, "b": 8}]
        assert whose.load("t", list[new]) == [new(7, 8)]
        assert whose.subrun.dataset.arrays("t").tolist() == [[{"a": 7, "b": 8}]]
    with pytest.raises(fb.UsageError, match="class T is stored with other members"):
        there.store("t", [old(1.5, 2)])


def test_numbers_of_events_are_what_64_bits_hold(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"x": [1.5, 2.5]}, run=1, subrun=2, event=[2**63, 1])
        batch.store_arrays(dataset, {"x": np.zeros(0)}, run=1, subrun=2, event=[])
    assert dataset[1][2].numbers() == [1, 2**63]
    assert dataset[1][2][2**63].load("x") == 1.5
    for wrong, said in (([True], "not True"), ([1.5], "not 1.5"), ([2**64, 1], "from 0 to"), ([-1, 2**63], "holds -1")):
        with pytest.raises(fb.UsageError, match=said), store.write_batch() as batch:
            batch.store_arrays(dataset, {"x": np.zeros(len(wrong))}, run=1, subrun=2, event=wrong)


def test_plain_classes_are_arrays_without_a_detour(store: fb.DataStore) -> None:
    """Single values went through Arrow, and took ten times as long."""
    members = [("pt", np.float32), ("ok", bool), ("n", np.int8), ("eta", float), ("m", np.uint64)]
    track = dataclasses.make_dataclass("Track", members)
    dataset = store.root.create_dataset("a")
    for number in range(3):
        event = dataset.create_run(1).create_subrun(2).create_event(number)
        event.store(
            "tracks", [track(n / 4, n % 2 == 0, -n, n / 8, 2**63 + n) for n in range(number)], typename=list[track]
        )
    arrays = dataset.arrays("tracks")
    for event, whole in zip(dataset.events(), arrays, strict=True):
        single = event.load("tracks")
        assert single.type == ak.Array(whole).type
        assert single.tolist() == whole.tolist()
        as_numpy = event.load("tracks", fb.NumPy)
        assert as_numpy.dtype == [(name, dtype) for name, dtype in members]
        assert as_numpy.tolist() == [tuple(one.values()) for one in whole.tolist()]
        as_numpy["pt"] = 1  # it is the user's own
    # a bool that C++ stored as another byte is true, and damage is an error
    stored = bytearray(event.load("tracks", bytes))
    stored[8 + 4] = 77
    event._core.store(("tracks", "std::vector<Track>"), bytes(stored), True)
    assert event.load("tracks").ok.tolist() == [True, False]
    assert event.load("tracks", fb.NumPy)["ok"].tolist() == [True, False]
    event._core.store(("tracks", "std::vector<Track>"), bytes(stored[:-1]), True)
    for form in (fb.Awkward, fb.NumPy, list[track]):
        with pytest.raises(fb.FormatError):
            event.load("tracks", form)


def test_records_keep_the_name_of_their_class(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("v", [Vertex(1.5, [Track(1, 2)], "a")])
    event.store("copy", event.load("v"))
    event.store("tracks", event.load("v").tracks[0])
    event.store("row", event.load("v")[0])
    types = {product.label: product.type for product in event.products()}
    vertices, tracks = "std::vector<Vertex>", "std::vector<Track>"
    assert types == {"copy": vertices, "row": "Vertex", "tracks": tracks, "v": vertices}
    assert event.load("copy", bytes) == event.load("v", bytes)
    assert event.load("row", Vertex) == Vertex(1.5, [Track(1, 2)], "a")
    other = fb.DataStore.connect("memory:")
    there = event_of(other)
    there.store("v", event.load("v"))
    assert there.load("v", list[Vertex]) == [Vertex(1.5, [Track(1, 2)], "a")]
    assert event.subrun.arrays("v").layout.content.parameter("__record__") == "Vertex"
    event.store("x", ak.Array([{"x": 1.5}], with_name="Momentum"))
    assert event.products("x")[0].type == "std::vector<Momentum>"
    event.store("y", ak.Array([{"x": 1.5}], with_name="std::no class"))
    assert event.products("y")[0].type == "std::vector<y>"
    event.store("record", ak.Array([{"x": 1.5}])[0])
    assert event.load("record").x == 1.5


def test_tables_are_lists_of_their_rows(store: fb.DataStore, need: Any) -> None:
    event = event_of(store)
    columns = {"a": [1, 2], "b": [1.5, 2.5], "c": ["x", "é"]}
    rows = [{"a": 1, "b": 1.5, "c": "x"}, {"a": 2, "b": 2.5, "c": "é"}]
    for table in (need("pandas").DataFrame(columns), need("polars").DataFrame(columns), pa.table(columns)):
        event.store("table", table)
        assert event.load("table").tolist() == rows
        event.delete_product("table")
    with pytest.raises(fb.UsageError):
        event.store("table", need("pandas").DataFrame())


def test_what_has_no_bytes_is_no_name(store: fb.DataStore) -> None:
    event = event_of(store)
    for call in (
        lambda: event.store("\ud800", 1),
        lambda: event.load("\ud800", typename=int),
        lambda: event.store("x", "\ud800"),
        lambda: event.store("x", ["\ud800"]),
        lambda: event.store("x", 1, typename="\ud800"),
        lambda: event.subrun.arrays(("\ud800", int)),
        lambda: store.root.create_dataset("\ud800"),
    ):
        with pytest.raises(fb.UsageError, match="ud800"):
            call()


def test_the_form_says_which_of_several_is_loaded(store: fb.DataStore) -> None:
    event = event_of(store)
    event.store("v", 1)
    event.store("v", 1.5)
    assert (event.load("v", int), event.load("v", float)) == (1, 1.5)
    with pytest.raises(fb.UsageError, match="several"):
        event.load("v", str)


def test_containers_and_references_are_pickled(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")
    event = store.create_dataset("a/b").create_run(1).create_subrun(2).create_event(3)
    event.store("x", [1.5])
    ref = event.ref("x", index=0)
    event.store("ref", ref)
    unnamed = event.load("ref").container  # its dataset is known by its UUID alone
    for one in (event.dataset, event.run, event.subrun, event, unnamed, ref, fb.Ptr()):
        again = pickle.loads(pickle.dumps(one))
        assert (again, hash(again), repr(again)) == (one, hash(one), repr(one))
