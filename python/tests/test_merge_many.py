"""Merging many files: headers that are the same or not, and what is looked at before anything is brought."""

from pathlib import Path

import numpy as np
import pytest
import uproot

import femtobarn as fb


def make(path, compression="zstd:5", **columns):
    fb.write(path, columns, "t", compression=compression)
    return str(path)


def values(path):
    found = fb.open(f"{path}:t").arrays()
    return {name: found[name].tolist() for name in found.fields}


@pytest.fixture
def inputs(tmp_path):
    """Two files with the same header, two with another one."""
    a = [make(tmp_path / f"a{i}.root", x=[i, i + 1], y=[[i], []]) for i in range(2)]
    b = [make(tmp_path / f"b{i}.root", y=[[], [10 + i]], x=[10 + i, 20 + i], z=[0.5, 1.5]) for i in range(2)]
    return a, b


@pytest.mark.parametrize("order", ["aabba", "abab", "bbaab", "ab"])
def test_files_whose_headers_come_in_any_order_keep_their_values(inputs, tmp_path, order):
    kinds = {"a": inputs[0], "b": inputs[1]}
    files = [kinds[kind][at % 2] for at, kind in enumerate(order)]
    out = tmp_path / "out.root"
    report = fb.merge(files, out, mode="union")
    expected = {"x": [], "y": [], "z": []}
    for file in files:
        found = values(file)
        for name, all_of in expected.items():
            all_of += found.get(name, [0.0] * len(found["x"]))
    assert values(out) == expected
    missing = [done["ntuples"]["t"]["missing"] for done in report.inputs]
    # nobody misses what is not there yet
    is_known = ["b" in order[:at] for at in range(len(order))]
    assert missing == [["z"] if kind == "a" and known else [] for kind, known in zip(order, is_known, strict=True)]
    with uproot.open(out) as file:
        assert file["t"].arrays()["x"].tolist() == expected["x"]


@pytest.mark.parametrize("compatible", [True, False])
def test_files_of_two_encodings_in_turn_keep_their_values(tmp_path, compatible):
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 1000, 500) for _ in range(6)]
    files = [
        make(tmp_path / f"{at}.root", compression=None if at % 3 == 2 else "zstd:5", x=column)
        for at, column in enumerate(data)
    ]
    out = tmp_path / "out.root"
    fb.merge(files, out, compatible=compatible)
    assert values(out)["x"] == np.concatenate(data).tolist()


def test_fields_that_are_left_out_are_named_for_every_file(inputs, tmp_path):
    a, b = inputs
    report = fb.merge([a[0], *b, *b], tmp_path / "out.root")
    assert [done["ntuples"]["t"]["left_out"] for done in report.inputs] == [[], ["z"], ["z"], ["z"], ["z"]]


def test_that_the_last_file_does_not_fit_is_told_before_anything_is_brought(inputs, tmp_path):
    a, b = inputs
    page_list = uproot.open(a[0])["t"].footer.cluster_group_records[0].page_list_link.locator
    with Path(a[0]).open("r+b") as file:
        file.seek(page_list.offset)
        file.write(b"damage")
    out = tmp_path / "out.root"
    # the first file can be opened, and not be brought
    with pytest.raises(fb.errors.FemtobarnError) as damaged:
        fb.merge(a, out)
    assert "page list" in str(damaged.value)
    other = make(tmp_path / "other.root", x=["text"], y=[[1]])
    with pytest.raises(fb.errors.FemtobarnError) as unfit:
        fb.merge([*a, *b, other], out)
    assert "other.root" in str(unfit.value)
    assert "its type is" in str(unfit.value)
    with pytest.raises(FileNotFoundError):
        fb.merge([*a, tmp_path / "none.root"], out)
    assert not out.exists()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("object_first", [True, False])
def test_an_object_and_an_ntuple_of_one_name_are_an_error(tmp_path, object_first):
    ntuple = make(tmp_path / "ntuple.root", x=[1])
    with uproot.recreate(tmp_path / "object.root") as file:
        file["t"] = "a string"
    files = [str(tmp_path / "object.root"), ntuple]
    with pytest.raises(fb.errors.FemtobarnError, match="called"):
        fb.merge(files if object_first else files[::-1], tmp_path / "out.root", others="first")
