"""Type names in Python: in any notation, the product is found under the name that C++ computes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import femtobarn as fb
from femtobarn import _core

_CPP = Path(__file__).parents[2] / "tests/cpp/type_names.cpp"


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("int", "std::int32_t"),
        ("const int", "std::int32_t"),
        ("int const", "std::int32_t"),
        ("unsigned", "std::uint32_t"),
        ("long", "std::int64_t"),
        ("long unsigned int", "std::uint64_t"),
        ("long long", "std::int64_t"),
        ("signed char", "std::int8_t"),
        ("char", "char"),
        ("double long", "long double"),
        ("uint32_t", "std::uint32_t"),
        ("float32", "float"),
        ("Int_t", "std::int32_t"),
        ("UShort_t", "std::uint16_t"),
        ("ULong64_t", "std::uint64_t"),
        ("std::size_t", "std::uint64_t"),
        ("string", "std::string"),
        ("byte", "std::byte"),
        ("vector<int>", "std::vector<std::int32_t>"),
        ("std::vector< float >", "std::vector<float>"),
        ("vector<vector<Int_t> >", "std::vector<std::vector<std::int32_t>>"),
        ("map<string, Double32_t>", "std::map<std::string,double>"),
        ("std::pair<int const, float>", "std::pair<const std::int32_t,float>"),
        ("RVec<float>", "ROOT::VecOps::RVec<float>"),
        ("int[2][3]", "std::array<std::array<std::int32_t,3>,2>"),
        ("::nova::Track", "nova::Track"),
        ("Pair<',', '<'>", "Pair<(char)44,(char)60>"),
        ("main::'lambda'()", "main::'lambda'()"),
        ("struct Track", "Track"),
        (
            "std::map<int, float, std::less<int>, std::allocator<std::pair<int const, float> > >",
            "std::map<std::int32_t,float>",
        ),
        # types that only C++ knows keep their C++ names
        ("hit", "hit"),
        ("float4", "float4"),
        ("(anonymous namespace)::Track", "(anonymous namespace)::Track"),
        ("std::function<unsigned int (long)>", "std::function<unsigned int (long)>"),
        ("std::vector<Foo*>", "std::vector<Foo*>"),
        ("nova::Of<int>::Inner", "nova::Of<std::int32_t>::Inner"),
        ("msgpack", "msgpack"),
    ],
)
def test_names_are_those_that_cpp_computes(written: str, normal: str) -> None:
    assert _core.type_name(written) == normal
    assert _core.type_name(normal) == normal


def test_the_tests_of_cpp_say_the_same() -> None:
    text = _CPP.read_text()
    typed = re.findall(r'fb::type_name<(.+)>\(\)\)? ==\s*"(.+)"', text)
    named = re.findall(r'fb::detail::normal_name\(\s*"(std::.+)"\) ==\s*"(.+)"', text)
    assert len(typed) > 10
    assert len(named) > 2
    for written, normal in typed + named:
        assert _core.type_name(written) == normal


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("int*", "that the pointer or reference refers to"),
        ("const Track &", "that the pointer or reference refers to"),
        ("vector<int", "brackets do not match"),
        ("int>", "brackets do not match"),
        (" ", "it is empty"),
        ("unsigned float", "no such number"),
        ("std::vector<long char>", 'invalid product type "long char": .*no such number'),
        ("std::vector<int23_t>", "did you mean int32_t"),
        ("Int32_t", "did you mean int32_t"),
    ],
)
def test_what_is_no_type_is_refused(store: fb.DataStore, written: str, why: str) -> None:
    event = store.root.create_dataset("a").create_run(1).create_subrun(1).create_event(1)
    uses: list[Any] = [
        lambda: event.store("x", 1, typename=written),
        lambda: event.load("x", typename=written),
        lambda: event.subrun.arrays(("x", written)),
        lambda: store.create_queue("q", written),
    ]
    for n, use in enumerate(uses):
        with pytest.raises(fb.UsageError, match=why):
            pytest.fail(f"{n} gave {use()!r}")
    assert event.products() == []


def test_products_have_one_name_however_it_is_written(store: fb.DataStore) -> None:
    """`typename="int"` was part of the key as written, where no C++ program looks for it."""
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        types = {"n": "Int_t", "v": "vector< float >"}
        batch.store_arrays(dataset, {"n": [3], "v": [[1.5]]}, run=1, subrun=1, event=1, types=types)
    event = dataset[1][1][1]
    event.store("n", 5, typename="const int")
    event.store("v", np.array([2.5], "f4"), typename="std::vector<Float_t>")
    event.store("p", [event.ref("n", typename="int"), fb.Ptr(event, "v", "vector<float>")])
    names = {"n": "std::int32_t", "v": "std::vector<float>", "p": "std::vector<fb::Ptr>"}
    assert {product.label: product.type for product in event.products()} == names
    assert event.load("n", typename="int32_t") == 5
    assert dataset.arrays(("v", "vector<float>")).tolist() == [[2.5]]
    number, vector = event.load("p", list[fb.Ptr])
    assert (number.load(), vector.load().tolist()) == (5, [2.5])
    assert store.load_refs(event.load("p")[:1]).tolist() == [5]
    [prefetched] = store.prefetcher([("n", "int")])(dataset)
    assert prefetched._fetched("n", None, "Int_t") is not None
    store.create_queue("q", "unsigned long")
    with store.open_queue("q", "ULong64_t", mode="producer") as queue:
        queue.push(7)
    assert store.open_queue("q", np.uint64, mode="consumer").pop() == 7
    event.delete_product("n", typename="int")
    assert event.products("n") == []
    event._core.store(("old", "vector<int>"), bytes(8), True)
    assert event.load("old", typename="vector<int>").tolist() == []
