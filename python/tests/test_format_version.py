"""The format version in an ntuple's anchor."""

from __future__ import annotations

import shutil
from pathlib import Path

import awkward as ak
import pytest

import femtobarn as fb

VALUES = [[0.5, 0.25], [0.75]]


def version(path: Path) -> tuple[int, ...]:
    """Return the version in the anchor: four numbers after a byte count and the class version."""
    data = path.read_bytes()
    # the members of a version 2 anchor take 64 bytes
    at = data.rindex(bytes([0x40, 0, 0, 66, 0, 2])) + 6
    return tuple(int.from_bytes(data[at + 2 * i : at + 2 * i + 2], "big") for i in range(4))


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Return two files that store the items of a vector in different ways."""
    paths = [tmp_path / "whole.root", tmp_path / "cut.root"]
    for path, options in zip(paths, ({}, {"precision": {"v": 16}}), strict=True):
        with fb.recreate(path) as file:
            ntuple = file.mkrntuple("t", {"v": "std::vector<float>"}, **options)
            ntuple.extend({"v": ak.Array(VALUES)})
    return paths


def test_nested_deferred_columns_are_of_version_1_1(inputs: list[Path], tmp_path: Path) -> None:
    """The feature flag exists since 1.1.0.0, as ROOT's merger writes it."""
    merged, copied, again = tmp_path / "merged.root", tmp_path / "copied.root", tmp_path / "again.root"
    fb.merge(inputs, merged, compatible=False)
    fb.merge([merged, inputs[0]], again, compatible=False)
    shutil.copy(inputs[0], copied)
    fb.merge(inputs[1], copied, append=True, compatible=False)
    assert [version(path) for path in inputs] == [(1, 0, 0, 0)] * 2
    assert version(merged) == version(copied) == (1, 1, 0, 0)
    # in a new file, all columns of the first input begin at its first entry
    assert version(again) == (1, 0, 0, 0)
    assert fb.open(merged)["v"].array().to_list() == 2 * VALUES
    # an ntuple of version 1.1 keeps its version when it is continued
    fb.merge(inputs[0], merged, append=True)
    assert version(merged) == (1, 1, 0, 0)
    assert fb.open(merged)["v"].array().to_list() == 3 * VALUES


def test_without_them_it_stays_1_0(inputs: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "out.root"
    fb.merge([inputs[0]] * 2, output)
    assert version(output) == (1, 0, 0, 0)
