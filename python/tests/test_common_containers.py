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
