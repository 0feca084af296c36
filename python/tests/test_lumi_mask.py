"""Golden JSON: masks of certified luminosity blocks, as coffea's LumiMask finds them."""

from __future__ import annotations

import json
import pickle

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

GOLDEN = {"1": [[0, 3], [10, 11]], "2": [[12, 13]], "3": [[1, 90]], "297056": [[5, 5], [7, 120]]}


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(GOLDEN))
    return path


@pytest.fixture
def nano(tmp_path):
    """An ntuple with runs and luminosity blocks, and a tree with the same."""
    rng = np.random.default_rng(3)
    runs = np.sort(rng.choice([1, 2, 3, 4, 297056], 20_000)).astype("u4")
    data = {"run": runs, "luminosityBlock": rng.integers(0, 125, 20_000).astype("u4"), "event": np.arange(20_000)}
    fb.write(tmp_path / "nano.root", data)
    return tmp_path / "nano.root", data


def certified(run, block):
    return any(first <= block <= last for first, last in GOLDEN.get(str(run), []))


def test_a_mask_has_the_values_of_coffea(need, golden, nano):
    lumi_tools = need("coffea.lumi_tools")
    _, data = nano
    # coffea's ranges cannot begin with block 0
    golden.write_text(json.dumps(GOLDEN | {"1": [[1, 3], [10, 11]]}))
    wanted = lumi_tools.LumiMask(str(golden))(data["run"], data["luminosityBlock"])
    found = fb.lumi_mask(golden)(data["run"], data["luminosityBlock"])
    assert found.dtype == bool
    assert np.array_equal(found, wanted)
    assert 0 < found.sum() < len(found)


def test_a_mask_is_made_of_a_path_a_dict_and_json(golden):
    masks = [fb.lumi_mask(given) for given in (golden, str(golden), GOLDEN, json.dumps(GOLDEN))]
    assert all(mask == masks[0] for mask in masks)
    integers = {int(run): [tuple(pair) for pair in ranges] for run, ranges in GOLDEN.items()}
    assert fb.lumi_mask(integers) == masks[0]
    assert hash(fb.lumi_mask(integers)) == hash(masks[0])
    assert masks[0].runs == {int(run): ranges for run, ranges in GOLDEN.items()}
    assert masks[0].num_blocks == 4 + 2 + 2 + 90 + 1 + 114
    assert fb.lumi_mask({"1": []}) != masks[0]


def test_a_mask_takes_arrays_of_all_kinds_and_numbers(golden):
    mask = fb.lumi_mask(golden)
    runs, blocks = [1, 1, 2, 9], [3, 4, 12, 1]
    for kind in (list, np.array, ak.Array, lambda given: np.array(given, "u4")):
        assert mask(kind(runs), kind(blocks)).tolist() == [True, False, True, False]
    assert mask(1, blocks).tolist() == [True, False, False, True]
    assert mask(3, 90).tolist() is True
    assert mask(np.array([[1], [3]]), np.array([3, 5])).tolist() == [[True, False], [True, True]]
    assert mask([], []).tolist() == []


def test_a_mask_is_a_condition_of_cuts_and_of_skims(golden, nano, tmp_path):
    path, data = nano
    wanted = [n for n in range(20_000) if certified(data["run"][n], data["luminosityBlock"][n])]
    mask = fb.lumi_mask(golden)
    nt = fb.open(path)
    assert nt.arrays("event", mask).event.to_list() == wanted
    assert nt.arrays("event", f'lumi_mask("{golden}")').event.to_list() == wanted
    assert nt.arrays("event", f"{mask} and event >= 100").event.to_list() == [n for n in wanted if n >= 100]
    assert nt.arrays("event", "good", aliases={"good": mask}).event.to_list() == wanted
    assert nt.arrays("event", "not good", aliases={"good": mask}).event.to_list() == sorted(
        {*range(20_000)} - {*wanted}
    )
    named = f"lumi_mask('{golden}', run, luminosityBlock) && event < 9000"
    assert nt.arrays("event", named).event.to_list() == [n for n in wanted if n < 9000]
    report = fb.skim(path, tmp_path / "certified.root", mask, verify=True)
    assert report.proof.ok if hasattr(report.proof, "ok") else report.proof
    assert fb.open(tmp_path / "certified.root").arrays().event.to_list() == wanted


def test_a_mask_in_another_process_is_the_same(golden):
    mask = fb.lumi_mask(golden)
    again = pickle.loads(pickle.dumps(mask))
    assert again == mask
    assert repr(again) == repr(mask)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": []}, "not a golden JSON"),
        ({"1": [[5, 3]]}, r"run 1: range \[5,3\]"),
        ("{", "not a golden JSON"),
        ({"1": [[1, 2, 3]]}, "expected ranges"),
    ],
)
def test_other_contents_are_refused(given, message):
    with pytest.raises(fb.UsageError, match=message):
        fb.lumi_mask(given)


def test_a_file_that_is_missing_or_no_golden_json_is_told(tmp_path, dimuon):
    with pytest.raises(fb.NotFoundError, match=r"none\.json"):
        fb.lumi_mask(tmp_path / "none.json")
    with pytest.raises(fb.FemtobarnError, match=r"none\.json"):
        fb.open(dimuon).arrays(cut=f'lumi_mask("{tmp_path}/none.json")')
    with pytest.raises(fb.UsageError, match=r"dimuon\.root"):
        fb.lumi_mask(dimuon)
    with pytest.raises(fb.UsageError, match="integers"):
        fb.lumi_mask({"1": [[1, 2]]})([1.5], [1])
    with pytest.raises(fb.UsageError, match="different shapes"):
        fb.lumi_mask({"1": [[1, 2]]})([1, 2], [1, 2, 3])
