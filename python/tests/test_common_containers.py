"""Collections that several files have as different containers: the common type promises what all keep."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb


@pytest.mark.parametrize("first", ["set", "vector"])
def test_a_set_and_a_vector_become_a_vector(tmp_path: Path, first: str) -> None:
    values = {"set": [[1, 2], [3]], "vector": [[2, 1, 1], []]}
    for kind, lists in values.items():
        with fb.recreate(str(tmp_path / f"{kind}.root")) as file:
            ntuple = file.mkrntuple("t", {"a": f"std::{kind}<std::int32_t>"})
            ntuple.extend({"a": ak.values_astype(ak.Array(lists), np.int32)})
    order = [first, *(kind for kind in values if kind != first)]
    inputs = [str(tmp_path / f"{kind}.root") for kind in order]
    output = str(tmp_path / "out.root")
    fb.convert(inputs, output)
    result = fb.open(output)
    assert result["a"].typename == "std::vector<std::int32_t>"
    wanted = [one for kind in order for one in values[kind]]
    assert result["a"].array().tolist() == wanted
    several = fb.open(inputs)["a"].array()
    assert several.tolist() == wanted
    assert ak.parameters(several).get("__list__") != "set"


@pytest.mark.parametrize("first", ["map", "vector"])
def test_a_map_and_a_vector_of_pairs_become_a_vector_of_pairs(tmp_path: Path, first: str) -> None:
    types = {"map": "std::map<std::int32_t,float>", "vector": "std::vector<std::pair<std::int32_t,float>>"}
    values = {"map": [[(1, 2.0)], []], "vector": [[(1, 2.0), (1, 3.0)]]}
    for kind, lists in values.items():
        with fb.recreate(str(tmp_path / f"{kind}.root")) as file:
            file.mkrntuple("t", {"a": types[kind], "n": "std::vector<" + types[kind] + ">"}).extend(
                {"a": lists, "n": [[one, one] for one in lists]}
            )
    order = [first, *(kind for kind in values if kind != first)]
    inputs = [str(tmp_path / f"{kind}.root") for kind in order]
    output = str(tmp_path / "out.root")
    assert fb.convert(inputs, output).equal is True
    result = fb.open(output)
    assert result["a"].typename == types["vector"]
    assert result["n"].typename == "std::vector<" + types["vector"] + ">"
    wanted = [one for kind in order for one in values[kind]]
    assert result["a"].array().tolist() == wanted
    assert result["n"].array().tolist() == [[one, one] for one in wanted]
    with pytest.raises(fb.FemtobarnError, match="type"):
        fb.merge(inputs, str(tmp_path / "merged.root"))


def write(path: Path, typename: str, values: list) -> str:
    """Write an ntuple with one field."""
    with fb.recreate(path) as file:
        file.mkrntuple("t", {"a": typename}).extend({"a": values})
    return str(path)


INT, PAIR = "std::int32_t", "std::int32_t,float"
LISTS = {
    f"std::{kind}<{INT}>": [[1, 2], [3], []]
    for kind in ("set", "multiset", "unordered_set", "unordered_multiset", "vector")
}
LISTS |= {f"ROOT::RVec<{INT}>": [[1, 2], [3], []]}
MAPS = {
    f"std::{kind}<{PAIR}>": [[(1, 2.0), (2, 2.5)], [], [(7, 1.0)]]
    for kind in ("map", "multimap", "unordered_map", "unordered_multimap")
}
MAPS |= {f"std::vector<std::pair<{PAIR}>>": [[(2, 1.0), (1, 1.0), (1, 3.0)], []]}
# files of these types, and the type of both; of vectors alike the first file's
LOOSE = [(one, f"std::vector<{INT}>", f"std::vector<{INT}>") for one in LISTS if "RVec" not in one]
LOOSE += [(f"std::set<{INT}>", f"std::multiset<{INT}>", f"std::vector<{INT}>")]
LOOSE += [(f"std::set<{INT}>", f"std::unordered_set<{INT}>", f"std::vector<{INT}>")]
LOOSE += [(f"std::set<{INT}>", f"ROOT::RVec<{INT}>", None), (f"std::vector<{INT}>", f"ROOT::RVec<{INT}>", None)]
LOOSE += [(one, f"std::vector<std::pair<{PAIR}>>", f"std::vector<std::pair<{PAIR}>>") for one in MAPS]
LOOSE += [(f"std::map<{PAIR}>", f"std::multimap<{PAIR}>", f"std::vector<std::pair<{PAIR}>>")]
LOOSE += [(f"std::map<{PAIR}>", f"std::unordered_map<{PAIR}>", f"std::vector<std::pair<{PAIR}>>")]


@pytest.mark.parametrize("wrapped", ["{}", "std::vector<{}>", "std::array<{},2>", "std::optional<{}>"])
@pytest.mark.parametrize(("one", "other", "both"), LOOSE)
def test_containers_of_two_files_have_a_type_that_holds_both(
    tmp_path: Path, one: str, other: str, both: str | None, wrapped: str
) -> None:
    """A set was shown as the type of what had the values of a vector."""
    values = LISTS | MAPS
    repeated = {"std::vector<std::int32_t>": [[2, 1, 1]], "ROOT::RVec<std::int32_t>": [[2, 1, 1]]}

    def wrap(item: object) -> object:
        return item if wrapped == "{}" or "optional" in wrapped else [item, item]

    for number, order in enumerate([(one, other), (other, one)]):
        written = [[wrap(item) for item in values[kind] + repeated.get(kind, [])] for kind in order]
        named = zip(order, written, strict=True)
        files = [write(tmp_path / f"{number}{i}.root", wrapped.format(kind), v) for i, (kind, v) in enumerate(named)]
        several = fb.open(files)
        assert several["a"].array().tolist() == written[0] + written[1]
        output = tmp_path / f"{number}.root"
        assert fb.convert(files, output).equal is True
        made = fb.open(output)
        assert made["a"].array().tolist() == written[0] + written[1]
        assert made["a"].typename == several["a"].typename
        assert "set<" not in made["a"].typename or one == other
        if both is not None:
            assert several["a"].typename == wrapped.format(both if one != other else one)
        assert fb.open(files[0])["a"].typename == wrapped.format(order[0]).replace("ROOT::RVec", "ROOT::VecOps::RVec")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("std::array<std::int32_t,3>", "std::array<std::int32_t,2>"),
        ("std::array<std::int32_t,3>", "std::vector<std::int32_t>"),
        ("std::optional<std::int32_t>", "std::vector<std::int32_t>"),
        ("std::optional<std::int32_t>", "std::int32_t"),
        ("std::optional<std::int32_t>", "std::unique_ptr<std::int32_t>"),
        ("std::int64_t", "std::uint64_t"),
        ("std::vector<std::int64_t>", "std::set<std::uint64_t>"),
    ],
)
def test_what_no_type_holds_is_refused(tmp_path: Path, one: str, other: str) -> None:
    for number, order in enumerate([(one, other), (other, one)]):
        files = [write(tmp_path / f"{number}{i}.root", kind, []) for i, kind in enumerate(order)]
        for act in (lambda: fb.open(files).arrays(), lambda: fb.convert(files, tmp_path / "out.root")):  # noqa: B023
            with pytest.raises(fb.UsageError):
                act()


@pytest.mark.parametrize("wrapped", ["{}", "std::vector<{}>", "std::set<{}>", "std::optional<{}>", "std::array<{},1>"])
def test_numbers_of_two_files_have_a_type_that_holds_both(tmp_path: Path, wrapped: str) -> None:
    values = {"std::int32_t": [-1, 2], "std::uint32_t": [2**32 - 1]}
    is_list = wrapped not in ("{}", "std::optional<{}>")
    for number, order in enumerate([list(values), list(values)[::-1]]):
        written = [[[v] if is_list else v for v in values[kind]] for kind in order]
        files = [
            write(tmp_path / f"{number}{i}.root", wrapped.format(kind), v)
            for i, (kind, v) in enumerate(zip(order, written, strict=True))
        ]
        several = fb.open(files)
        assert several["a"].typename == wrapped.format("std::int64_t")
        assert several["a"].array().tolist() == written[0] + written[1]


@pytest.mark.parametrize("first", [0, 1])
def test_unique_pointers_and_vectors_are_lists(tmp_path: Path, first: int) -> None:
    kinds = ["std::unique_ptr<std::int32_t>", "std::vector<std::int32_t>"]
    values = [[1, None], [[2, 1, 1], []]]
    wanted = [[[1], []], [[2, 1, 1], []]]
    order = [first, 1 - first]
    files = [write(tmp_path / f"{i}.root", kinds[i], values[i]) for i in order]
    several = fb.open(files)
    assert several["a"].array().tolist() == wanted[order[0]] + wanted[order[1]]
    assert several["a"].typename == kinds[1]
    assert fb.convert(files, tmp_path / "out.root").equal is True
    made = fb.open(tmp_path / "out.root")
    assert (made["a"].typename, made["a"].array().tolist()) == (kinds[1], several["a"].array().tolist())


def test_fields_that_are_joined_keep_their_types(tmp_path: Path) -> None:
    kinds = {"a": "std::set<std::int32_t>", "b": "std::vector<std::int32_t>", "c": "std::map<std::int32_t,float>"}
    values = {"a": [[1, 2], []], "b": [[2, 1, 1], [3]], "c": [[(1, 2.0)], []]}
    files = []
    for name, kind in kinds.items():
        files.append(str(tmp_path / f"{name}.root"))
        with fb.recreate(files[-1]) as file:
            file.mkrntuple(name, {name: kind}).extend({name: values[name]})
    fb.join_columns(files, tmp_path / "joined.root")
    joined = fb.open(tmp_path / "joined.root")
    assert {name: joined[name].typename for name in kinds} == kinds
    assert {name: joined[name].array().tolist() for name in kinds} == values
