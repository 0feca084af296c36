"""How products are named, chosen among several of one label, and loaded as classes that have changed since."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import femtobarn as fb
from femtobarn import aio


@pytest.fixture
def store() -> fb.DataStore:
    """An empty store."""
    return fb.DataStore.connect("memory:")


@pytest.fixture
def event(store: fb.DataStore) -> fb.Event:
    """An event with products of one label and several types."""
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
        (lambda: event.load("x"), r"say which by typename=, or as \('x', 'float'\)"),
        (lambda: event.load(("x", "float"), typename="int"), r"given twice, by \('x', 'float'\) and typename='int'"),
        (lambda: event.load(("x",)), r"\(label, type\), not \('x',\)"),  # type: ignore[arg-type]
        (lambda: event.load(5), "a text, not 5"),  # type: ignore[arg-type]
        (lambda: event.store(("x", "float"), 1), "its type is given by typename="),  # type: ignore[arg-type]
        (lambda: dataset.arrays(["x"], typename="float"), r"several products as \(label, type\)"),
        (lambda: dataset.arrays(["x", 5]), "a text, not 5"),  # type: ignore[list-item]
        (lambda: dataset.arrays(5), r"labels, or \(label, type\), not 5"),  # type: ignore[arg-type]
        (lambda: store.prefetcher(5), r"labels, or \(label, type\), not 5"),  # type: ignore[arg-type]
        (lambda: list(store.prefetcher(("x", "y", "z"))(dataset)), "several are a list"),  # type: ignore[arg-type]
    ]
    for n, (use, message) in enumerate(uses):
        with pytest.raises(fb.UsageError, match=message):
            pytest.fail(f"{n} gave {use()!r}")


def test_one_product_is_given_as_it_is(store: fb.DataStore, event: fb.Event) -> None:
    """A label was taken as its letters."""
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
