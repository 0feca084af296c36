"""How products are named, selected among several with one label, and loaded as classes that have changed since."""

from __future__ import annotations

import asyncio
from dataclasses import field, make_dataclass
from typing import Any, NamedTuple

import awkward as ak
import numpy as np
import pandas as pd
import pytest

import femtobarn as fb
from femtobarn import aio


class Pair(NamedTuple):
    """Two numbers."""

    x: int
    y: float


@pytest.fixture
def store() -> fb.DataStore:
    """An empty store."""
    return fb.DataStore.connect("memory:")


@pytest.fixture
def event(store: fb.DataStore) -> fb.Event:
    """Return an event with products of one label and several types."""
    event = store.create_dataset("a").create_run(1).create_subrun(2).create_event(3)
    event.store("x", np.float32(1.5))
    event.store("x", 7, typename="int")
    event.store("x", "text")
    event.store("pt", np.array([1.5, 2.5], "f4"))
    return event


def test_a_product_is_named_by_label_and_type_wherever_by_its_label(store: fb.DataStore, event: fb.Event) -> None:
    assert event.load(("x", "float")) == 1.5
    assert event.load(("x", np.int32)) == 7
    assert event.load(("x", "double"), default=None) is None
    assert event.ref(("x", "Float_t")).load() == 1.5
    assert event.products(("x", "int")) == [fb.Product("x", "std::int32_t")]
    dataset = store["a"]
    assert dataset.arrays("x", typename="float").tolist() == [1.5]
    assert dataset.arrays("x", runs=1, typename="float").tolist() == [1.5]
    assert dataset[1].arrays(("x", "int")).tolist() == [7]
    prefetched = next(iter(store.prefetcher(["pt", ("x", str)])(dataset)))
    assert (prefetched.load(("x", str)), prefetched.load(("x", "int"))) == ("text", 7)

    async def from_asyncio() -> list[Any]:
        twins = aio.Prefetcher(store.prefetcher([("x", str)]))(aio.DataSet(dataset))
        return [await one.load(("x", form)) async for one in twins for form in (str, "int")]

    assert asyncio.run(from_asyncio()) == ["text", 7]
    prefetched.delete_product(("x", str))
    assert event.load("x", str, typename=str, default=None) is None
    event.delete_product(("x", "float"))
    assert [product.type for product in event.products("x")] == ["std::int32_t"]


def test_what_names_no_product_is_told(store: fb.DataStore, event: fb.Event) -> None:
    dataset = store["a"]
    uses: list[tuple[Any, str]] = [
        (lambda: event.load("x"), r"select one with typename=, or as \('x', 'float'\)"),
        (lambda: event.load(("x", "float"), typename="int"), r"given twice: \('x', 'float'\) and typename='int'"),
        (lambda: event.load(("x",)), r"\(label, type\), not \('x',\)"),  # type: ignore[arg-type]
        (lambda: event.load(5), "must be a string, not 5"),  # type: ignore[arg-type]
        (lambda: event.store(("x", "float"), 1), "give its type with typename="),  # type: ignore[arg-type]
        (lambda: dataset.arrays(["x"], typename="float"), r"several products as \(label, type\)"),
        (lambda: dataset.arrays(["x", 5]), "must be a string, not 5"),  # type: ignore[list-item]
        (lambda: dataset.arrays(5), r"labels, or \(label, type\), not 5"),  # type: ignore[arg-type]
        (lambda: store.prefetcher(5), r"labels, or \(label, type\), not 5"),  # type: ignore[arg-type]
        (lambda: list(store.prefetcher(("x", "y", "z"))(dataset)), "give several as a list"),  # type: ignore[arg-type]
    ]
    for n, (use, message) in enumerate(uses):
        with pytest.raises(fb.UsageError, match=message):
            pytest.fail(f"{n} gave {use()!r}")


def test_one_product_is_given_as_it_is(store: fb.DataStore, event: fb.Event) -> None:
    """A label was split into its letters."""
    dataset = store["a"]
    for one in ("pt", ["pt"], ("pt", "std::vector<float>"), ("pt", list[np.float32])):
        (prefetched,) = store.prefetcher(one)(dataset)
        assert prefetched._batch._names == [("pt", "std::vector<float>")]
        assert fb.process(dataset, lambda event: event.load("pt").tolist(), preload=one).value == [[1.5, 2.5]]
    (alone,) = store.prefetcher()(dataset)
    assert alone == event


def test_a_type_of_python_says_which_of_several_is_loaded(store: fb.DataStore, event: fb.Event) -> None:
    prefetched = next(iter(store.prefetcher([("x", "float"), ("x", "int"), ("x", str)])(store["a"])))
    for one in (event, prefetched):
        assert (one.load("x", float), one.load("x", int), one.load("x", str)) == (1.5, 7, "text")
        with pytest.raises(fb.UsageError, match="several products 'x'"):
            one.load("x")
        with pytest.raises(fb.UsageError, match="several products 'x'"):
            one.load("x", fb.NumPy)
    event.store("pt", "text")
    event.store("pt", np.array([3], "u2"))
    assert event.load("pt", list[float]) == [1.5, 2.5]
    assert event.load("pt", list[int]) == [3]
    event.store("pt", [4.5])
    assert event.load("pt", list[float]) == [4.5]
    event.store("x", np.uint8(9))
    with pytest.raises(fb.UsageError, match="several products 'x'"):
        event.load("x", int)


def test_defaults_stand_for_members_that_a_class_has_got_since(event: fb.Event) -> None:
    old = make_dataclass("Hit", [("x", float), ("n", int)])
    event.store("hit", old(1.5, 2))
    event.store("hits", [old(1.5, 2), old(2.5, 3)])
    event.store("named", make_dataclass("Named", [("name", str), ("hits", list[old])])("a", [old(1.5, 2)]))
    new = make_dataclass("Hit", [("t", float, -1.0), ("n", int, 0), ("near", list[int], field(default_factory=list))])
    assert event.load("hit", new) == new(-1.0, 2, [])
    assert event.load("hits", list[new]) == [new(-1.0, 2, []), new(-1.0, 3, [])]
    two = event.load("hits", list[new])
    assert two[0].near is not two[1].near
    later = make_dataclass("Named", [("hits", list[new]), ("more", str, "b")])
    assert event.load("named", later) == later([new(-1.0, 2, [])], "b")
    required = make_dataclass("Hit", [("n", int), ("t", float)])
    for label, form in (("hit", required), ("hits", list[required])):
        with pytest.raises(fb.UsageError, match="it has no t; to load it anyway, give t in Hit a default"):
            event.load(label, form)
    other = make_dataclass("Other", [("q", float, 0.0)])  # nothing of it is there: another product was meant
    for label, form in (("hit", other), ("hits", list[other]), ("named", other)):
        with pytest.raises(fb.UsageError, match=r"cannot be loaded as (list\[)?Other\]?: it has no q$"):
            event.load(label, form)


def test_a_class_with_other_members_gets_another_name_as_the_error_says(store: fb.DataStore, event: fb.Event) -> None:
    event.store("hits", [make_dataclass("Hit", [("x", float)])(1.5)])
    event.store("records", ak.Array([{"a": 1}]))
    event.store("table", pd.DataFrame({"a": [1]}))
    values = {
        "hits": [make_dataclass("Hit", [("y", float)])(1.5)],
        "records": ak.Array([{"b": 1}]),
        "table": pd.DataFrame({"b": [1]}),
    }
    for label, value in values.items():
        with pytest.raises(fb.UsageError, match=r"to give another name, use typename='NEW', or of a list") as caught:
            event.store(label, value)
        assert caught.value.kind == "class-differs"
        event.store(label, value, typename="std::vector<New>" if label == "hits" else f"std::vector<New{label}>")
        assert len(event.products(label)) == 2
    columns = {"records": ak.Array([[{"b": 1}], []])}
    with store.write_batch() as batch:
        with pytest.raises(fb.UsageError, match=r"to give another name, use types=\{label: 'NEW'\}"):
            batch.store_arrays(store["a"], columns, run=1, subrun=5, event=[1, 2])
        types = {"records": "std::vector<Newer>"}
        batch.store_arrays(store["a"], columns, run=1, subrun=5, event=[1, 2], types=types)
    assert store["a"][1][5].arrays("records").b.tolist() == [[1], []]


def test_what_would_lose_something_is_not_stored(store: fb.DataStore, event: fb.Event) -> None:
    for value in (Pair(1, 2.5), [Pair(1, 2.5)]):
        with pytest.raises(fb.UsageError, match="names of a namedtuple would be lost: make Pair a dataclass"):
            event.store("pair", value)
    with store.write_batch() as batch, pytest.raises(fb.UsageError, match="namedtuple"):
        batch.store_arrays(store["a"], {"pair": [Pair(1, 2.5)]}, run=1, subrun=2, event=[3])
    for name in ("complex64", "longdouble"):
        with pytest.raises(fb.UsageError, match=f"NumPy's {np.dtype(name)} "):
            event.store("z", np.dtype(name).type(1))
    event.store("half", np.float16(0.5))
    assert event.load("half") == 0.5


def test_what_events_hold_is_counted(store: fb.DataStore, event: fb.Event) -> None:
    dataset, n = store["a"], 5000
    dataset.store("pt", 1.5)  # of the dataset itself, and of a run: no event has these
    dataset[1].store("pt", 1.5)
    with store.write_batch() as batch:
        for subrun in (7, 8):
            batch.store_arrays(dataset, {"n": range(n)}, run=2, subrun=subrun, event=range(n))
    of_first = {("pt", "std::vector<float>"): 1, ("x", "float"): 1, ("x", "std::int32_t"): 1, ("x", "std::string"): 1}

    def counted(holder: Any) -> dict[tuple[str, str], int]:
        return {(product.label, product.type): count for product, count in holder.event_products().items()}

    assert counted(dataset) == {("n", "std::int64_t"): 2 * n, **of_first}
    assert list(counted(dataset)) == sorted(counted(dataset))
    assert counted(dataset[1]) == counted(dataset[1][2]) == of_first
    assert counted(dataset[2][7]) == {("n", "std::int64_t"): n}
    assert asyncio.run(aio.Run(dataset[2]).event_products()) == {fb.Product("n", "std::int64_t"): 2 * n}
    assert counted(store.create_dataset("empty")) == {}


def test_records_without_a_name_are_stored_under_any_label(store: fb.DataStore) -> None:
    dataset = store.root.create_dataset("a")
    labels = ["f.0", "g/0", "h 1", "0x", "é", "a::b"]
    rows = ak.Array([[{"a": 1.5, "b c": {"d": "x"}}], []])
    for label in labels:
        with store.write_batch() as batch:
            batch.store_arrays(dataset, {label: rows}, run=1, subrun=1, event=[1, 2])
            batch.store_arrays(dataset, {f"{label}-one": ak.Array([{"a": 1}])}, run=1, subrun=1, event=[1])
        assert dataset.arrays(label).tolist() == rows.tolist()
        assert dataset[1][1][1].load(f"{label}-one").tolist() == {"a": 1}
        dataset[1][1][1].store(f"{label} own", rows[0])
        assert dataset[1][1][1].load(f"{label} own").tolist() == rows[0].tolist()
