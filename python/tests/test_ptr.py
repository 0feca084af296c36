"""References to products: stored in products, loaded again, followed one by one and many at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

LAST = 2**64 - 2  # the highest number of a container


@dataclasses.dataclass
class Track:
    """A track."""

    pt: float
    n: int


@dataclasses.dataclass
class Vertex:
    """Something that refers to tracks."""

    z: float
    best: fb.Ptr
    tracks: list[fb.Ptr]
    own: list[Track]
    name: str = ""


@pytest.fixture
def event(store: fb.DataStore) -> fb.Event:
    event = store.root.create_dataset("fermilab/nova").create_run(43).create_subrun(56).create_event(LAST)
    event.store("tracks", [Track(1.5, 2), Track(2.5, 3)])
    return event


def test_references_are_followed(event: fb.Event) -> None:
    whole, one = event.ref("tracks"), event.ref("tracks", index=1)
    assert whole.load(list[Track]) == [Track(1.5, 2), Track(2.5, 3)]
    assert whole.load().pt.tolist() == [1.5, 2.5]
    assert one.load(Track) == Track(2.5, 3)
    assert one.load().tolist() == {"pt": 2.5, "n": 3}
    assert one.load(fb.NumPy).tolist() == (2.5, 3)
    assert whole.load(bytes) == event.load("tracks", bytes)
    assert (one.container, one.label, one.type, one.index) == (event, "tracks", "std::vector<Track>", 1)
    assert whole.index is None
    event.store("n", 5)
    assert event.ref("n").load() == 5
    event.store("names", ["a", "bc"])
    assert event.ref("names", index=1).load() == "bc"
    event.store("nested", [[1], [2, 3]])
    assert event.ref("nested", index=1).load().tolist() == [2, 3]
    event.store("object", {"a": 1})
    assert event.ref("object").load() == {"a": 1}
    # Every kind of container has products.
    for container in (event.subrun, event.run, event.datastore["fermilab/nova"]):
        container.store("own", f"{container}")
        assert container.ref("own").load() == f"{container}"
        assert container.ref("own").container == container


def test_references_are_values(event: fb.Event) -> None:
    refs = [event.ref("tracks"), event.ref("tracks", index=0), event.ref("tracks", index=1), fb.Ptr()]
    assert len(set(refs)) == 4
    assert refs[1] == event.ref("tracks", typename=list[Track], index=0)
    assert refs[1] != refs[2]
    assert [bool(ref) for ref in refs] == [True, True, True, False]
    assert copy.deepcopy(refs) == refs
    assert repr(refs[2]) == f"<Ptr to 'tracks'[1] (std::vector<Track>) of run 43, subrun 56, event {LAST}>"
    assert repr(refs[3]) == "<Ptr to nothing>"
    if event.datastore.url != "memory:":
        again = pickle.loads(pickle.dumps(refs))
        assert again == refs
        assert again[2].load(Track) == Track(2.5, 3)
    with pytest.raises(AttributeError):
        refs[0].label = "other"  # type: ignore[misc]
    for index in (-1, 2**64 - 1):
        with pytest.raises(fb.UsageError, match="index of an element must be 0 or more"):
            event.ref("tracks", index=index)


def test_references_are_stored_in_products(event: fb.Event) -> None:
    best, nothing = event.ref("tracks", index=1), fb.Ptr()
    vertex = Vertex(0.5, best, [best, nothing, event.ref("tracks")], [Track(1, 1)], "primary")
    empty = Vertex(1.5, nothing, [], [])
    for label, value, form, typename in [
        ("one", best, fb.Ptr, "fb::Ptr"),
        ("nothing", nothing, fb.Ptr, "fb::Ptr"),
        ("many", [best, nothing], list[fb.Ptr], "std::vector<fb::Ptr>"),
        ("vertex", vertex, Vertex, "Vertex"),
        ("empty", empty, Vertex, "Vertex"),
        ("vertices", [vertex, empty], list[Vertex], "std::vector<Vertex>"),
    ]:
        event.store(label, value)
        assert event.products(label) == [fb.Product(label, typename)]
        assert event.load(label, form) == value
    assert event.load("one") == best
    event.store("none", [], typename=list[fb.Ptr])
    assert event.load("none", list[fb.Ptr]) == []
    assert event.load("vertices").best.index.tolist() == [1, 2**64 - 1]
    with pytest.raises(fb.UsageError, match="has type fb::Ptr and cannot be loaded as int"):
        event.load("one", int)
    # Queues transport them as well.
    store = event.datastore
    store.create_queue("q", fb.Ptr)
    with store.open_queue("q", fb.Ptr, mode="producer") as queue:
        queue.push(best)
    assert list(store.open_queue("q", fb.Ptr, mode="consumer")) == [best]


def test_their_bytes_are_those_of_the_specification(event: fb.Event) -> None:
    event.store("best", event.ref("tracks", index=7))
    stored = event.load("best", bytes)
    numbers = np.frombuffer(stored[16:48], "<u8").tolist()
    assert stored[:16].hex() == event.datastore["fermilab/nova"].uuid
    assert numbers == [43, 56, LAST, 7]
    assert stored[48:] == b"\x06" + b"\0" * 7 + b"tracks" + b"\x12" + b"\0" * 7 + b"std::vector<Track>"


def test_columns_of_references_are_columns(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    subrun = dataset.create_run(1).create_subrun(1)
    for n in range(4):
        event = subrun.create_event(n)
        event.store("pt", np.arange(n, dtype="f8") + n / 4)
        if n != 1:
            event.store("best", fb.Ptr(event, "pt", "std::vector<double>", max(n - 1, 0)))
            event.store("all", [event.ref("pt", index=i) for i in range(n)], typename=list[fb.Ptr])
    best = dataset.arrays("best")
    assert best.event.tolist() == [0, None, 2, 3]
    assert store.load_refs(best[2:]).tolist() == [1.5, 2.75]
    assert store.load_refs(best, default=None).tolist() == [None, None, 1.5, 2.75]
    assert store.load_refs(best, default=-1.0).tolist() == [-1.0, None, 1.5, 2.75]
    assert store.load_refs(dataset.arrays("all")).tolist() == [[], None, [0.5, 1.5], [0.75, 1.75, 2.75]]
    assert store.load_refs(best[2]["dataset"][:0]).tolist() == []
    assert fb.Ptr.from_record(store, best[3]).load() == 2.75
    with pytest.raises(KeyError, match=r"'pt'\[0\] .* of run 1, subrun 1, event 0 dangles: it has 0 elements"):
        store.load_refs(best)
    # A column can be stored from a column, or from lists of references.
    with store.write_batch() as batch:
        refs = [fb.Ptr.from_record(store, best[2]), fb.Ptr()]
        columns = {"one": refs, "lists": [refs, []], "again": best[2:]}
        batch.store_arrays(dataset, columns, run=2, subrun=1, event=[0, 1], types={"again": fb.Ptr})
    assert {product.type for product in dataset[2][1][0].products()} == {"fb::Ptr", "std::vector<fb::Ptr>"}
    assert dataset[2][1][1].load("again") == fb.Ptr.from_record(store, best[3])
    assert store.load_refs(dataset.arrays("one", runs=2), default=None).tolist() == [1.5, None]
    assert dataset[2][1][0].load("lists", list[fb.Ptr]) == refs


def test_many_references_are_loaded_at_once(event: fb.Event) -> None:
    store = event.datastore
    event.store("n", 5)
    event.run.store("n", 6)
    store["fermilab/nova"].store("n", 7)
    event.store("tags", ["a", "b"])
    n = [container.ref("n") for container in (event, event.run, store["fermilab/nova"], event)]
    assert store.load_refs(n).tolist() == [5, 6, 7, 5]
    mixed = [n[1], event.ref("tags", index=1), event.ref("tracks", index=1), event.ref("tracks"), fb.Ptr()]
    expected = [6, "b", {"pt": 2.5, "n": 3}, [{"pt": 1.5, "n": 2}, {"pt": 2.5, "n": 3}], None]
    assert store.load_refs(mixed, default=None).tolist() == expected
    assert store.load_refs(mixed[::-1], default=None).tolist() == expected[::-1]
    assert store.load_refs([]).tolist() == []
    many = [event.ref("tracks", index=i % 2) for i in range(10_000)]
    assert store.load_refs(many).n.tolist() == [2, 3] * 5000
    with pytest.raises(KeyError, match=r"null reference \(2 of 3 references dangle\)"):
        store.load_refs([fb.Ptr(), n[0], fb.Ptr()])
    with pytest.raises(fb.UsageError, match="not references: records of x"):
        store.load_refs(ak.Array([{"x": 1}]))
    with pytest.raises(fb.UsageError, match="expected references, found 2"):
        store.load_refs(np.array([1, 2]))
    with pytest.raises(fb.UsageError):
        store.load_refs([event.ref("n", index=0)])


def test_what_dangles_is_told(event: fb.Event) -> None:
    store = event.datastore
    dataset = store["fermilab/nova"]
    with pytest.raises(KeyError, match=r"has no product 'trakcs'; did you mean 'tracks'\? it has 'tracks'"):
        event.ref("trakcs")
    other = fb.DataStore.connect("memory:").root.create_dataset("x")
    gone = dataset.create_run(1)
    gone.store("n", 1)
    away = gone.ref("n")
    gone.delete()
    for ref, why in [
        (fb.Ptr(), "this is a null reference"),
        (event.ref("tracks", index=2), r"'tracks'\[2\] \(std::vector<Track>\) of run 43.*dangles: it has 2 elements"),
        (event.ref("later", typename=float), "it has no such product; it is in dataset 'fermilab/nova'"),
        (away, "dataset 'fermilab/nova' has no such run"),
        (
            fb.Ptr.from_record(store, {**_record(event.ref("tracks")), "dataset": bytes.fromhex(other.uuid)}),
            f"no dataset with the UUID {other.uuid} was found: it was deleted, or the reference belongs to another",
        ),
    ]:
        with pytest.raises(fb.KeyNotFoundError, match=why):
            ref.load()
        assert ref.load(default=5) == 5
    with pytest.raises(fb.UsageError):
        event.store("x", fb.Ptr(other, "n", "int"))
    event.store("object", {})
    with pytest.raises(fb.UsageError):
        event.ref("object", index=0).load()
    with pytest.raises(fb.UsageError):
        event.ref("tracks", index=0).load(bytes)
    with pytest.raises(fb.UsageError, match="invalid fb::Ptr: KeyError"):
        fb.Ptr.from_record(store, {"run": 1})
    with pytest.raises(fb.UsageError, match="its dataset has 3 bytes"):
        fb.Ptr.from_record(store, {**_record(event.ref("tracks")), "dataset": b"abc"})


def _record(ref: fb.Ptr) -> dict[str, Any]:
    key = ref.container._core.key
    numbers = [int.from_bytes(key[at : at + 8], "big") for at in (16, 24, 32)]
    names = dict(zip(("run", "subrun", "event"), numbers, strict=True))
    index = 2**64 - 1 if ref.index is None else ref.index
    return {"dataset": key[:16], **names, "index": index, "label": ref.label, "type": ref.type}


def test_references_of_hepnos_are_told_to_be_of_boost(event: fb.Event) -> None:
    event._core.store(("best", "hepnos::Ptr<Track,std::vector<Track>>"), b"22 serialization", True)
    with pytest.raises(fb.UsageError, match=r"which HEPnOS's classes store with Boost: only C\+\+ can read it"):
        event.load("best")
    assert event.load("best", bytes) == b"22 serialization"


def test_values_of_several_types_come_in_their_order(event: fb.Event) -> None:
    event.store("n", 5)
    event.store("f", 1.5)
    event.store("text", "a")
    event.store("flag", True)
    refs = [
        event.ref("tracks"),
        event.ref("tracks", index=0),
        fb.Ptr(),
        *(event.ref(name) for name in ("n", "text", "f", "flag")),
        event.ref("gone", typename=float),
    ]
    one = {"pt": 1.5, "n": 2}
    expected = [[one, {"pt": 2.5, "n": 3}], one, None, 5, "a", 1.5, True, None]
    for shift in range(len(refs)):
        some = refs[shift:] + refs[:shift]
        assert event.datastore.load_refs(some, default=None).tolist() == expected[shift:] + expected[:shift]
