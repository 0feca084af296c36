"""Merging collections that are numbered, as in NanoAOD: two files number them in different ways."""

import awkward as ak
import numpy as np
import pytest
import uproot

import femtobarn as fb

pytestmark = pytest.mark.filterwarnings("ignore")


def make(tmp_path, name, collections, seed):
    """An ntuple as `fb.convert` makes it of a tree: collections are numbered by the names of their counters."""
    rng = np.random.default_rng(seed)
    arrays = {"event": np.arange(50, dtype="i8") + 1000 * seed}
    for collection, members in collections.items():
        counts = rng.integers(0, 4, 50)
        total = int(counts.sum())
        lists = {m: ak.unflatten(rng.normal(size=total).astype("f4"), counts) for m in members}
        arrays[collection] = ak.zip(lists)
    tree = tmp_path / f"{name}_tree.root"
    with uproot.recreate(tree) as file:
        file.mktree(
            "Events",
            {key: value.type.content if isinstance(value, ak.Array) else value.dtype for key, value in arrays.items()},
        )
        file["Events"].extend(arrays)
    path = tmp_path / f"{name}.root"
    fb.convert(tree, path)
    return path


@pytest.fixture(name="campaigns")
def made(tmp_path):
    old = make(tmp_path, "old", {"Electron": ["pt"], "Muon": ["pt", "eta", "mva"]}, 1)
    new = make(tmp_path, "new", {"Muon": ["eta", "iso", "pt"], "Tau": ["pt"]}, 2)
    # what this is about: Muon is the second collection in one file, and the first in the other
    sources = [
        next(f for f in fb.open(path).keys(recursive=False) if f.startswith("_collection")) for path in (old, new)
    ]
    assert sources == ["_collection0"] * 2
    return old, new


def values(path, names):
    return {name: fb.open(path)[name].array().to_list() for name in names}


def both(old, new, names):
    one, two = values(old, names), values(new, names)
    return {name: one[name] + two[name] for name in names}


@pytest.mark.parametrize("turned", [False, True])
def test_selected_fields_of_collections_with_other_numbers(campaigns, tmp_path, turned):
    old, new = reversed(campaigns) if turned else campaigns
    out = tmp_path / "out.root"
    names = ["event", "nMuon", "Muon_pt", "Muon_eta"]
    report = fb.merge([old, new], out, fields=names, verify=True)
    assert report.entries == {"Events": 100}
    assert values(out, names) == both(old, new, names)
    assert fb.open(out).verify(against=[old, new], values=True).ok
    read = uproot.open(out)["Events"].arrays(names)
    assert {name: read[name].to_list() for name in names} == both(old, new, names)


def test_the_first_file_decides_and_what_it_lacks_is_left_out(campaigns, tmp_path):
    old, new = campaigns
    first = tmp_path / "first.root"
    fb.clone(old, first, fields=["event", "Muon_pt"])
    report = fb.merge([first, new], tmp_path / "out.root", verify=True)
    left = {item.field for item in report.left_behind}
    assert {"Muon_iso", "Tau_pt"} <= left
    assert values(tmp_path / "out.root", ["Muon_pt"]) == both(old, new, ["Muon_pt"])


@pytest.mark.parametrize(("fields", "name"), [(["Muon_*"], "Muon_mva"), (["Electron_pt"], "Electron_pt")])
def test_a_field_that_a_file_lacks_is_named(campaigns, tmp_path, fields, name):
    with pytest.raises(fb.UsageError, match="mode union") as told:
        fb.merge(campaigns, tmp_path / "out.root", fields=fields)
    assert f'"{name}"' in str(told.value) or '"nElectron"' in str(told.value)
    assert "_collection" not in str(told.value)
    with pytest.raises(fb.UsageError, match="skim each file by itself"):
        fb.skim(campaigns, tmp_path / "out.root", "event > 0", fields=[*fields, "event"])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("level", ["auto", "L4"])
def test_a_union_has_zeros_for_members_and_empty_lists_for_collections(campaigns, tmp_path, turned, level):
    old, new = reversed(campaigns) if turned else campaigns
    out = tmp_path / "out.root"
    fb.merge([old, new], out, mode="union", level=level, verify=True)
    common = ["event", "nMuon", "Muon_pt", "Muon_eta"]
    assert values(out, common) == both(old, new, common)
    for path, part in ((old, slice(0, 50)), (new, slice(50, 100))):
        own = set(fb.open(path).keys(recursive=False))
        for name in ("Muon_mva", "Muon_iso", "Electron_pt", "Tau_pt", "nTau", "nElectron"):
            found = fb.open(out)[name].array()[part].to_list()
            if name in own:
                assert found == fb.open(path)[name].array().to_list(), name
            elif name.startswith("Muon"):
                assert found == [[0.0] * n for n in fb.open(path)["nMuon"].array().to_list()], name
            elif name.startswith("n"):
                assert found == [0] * 50, name
            else:
                assert found == [[]] * 50, name
    proof = fb.open(out).verify(against=[old, new], values=True)
    assert proof.ok, proof.differences
    # the wrong order of the inputs is found
    assert not fb.open(out).verify(against=[new, old]).ok
    # uproot reads the collection itself
    muons = next(name for name in fb.open(out).keys(recursive=True) if name.endswith(".Muon_pt")).split(".")[0]
    read = uproot.open(out)["Events"][muons].array()
    for name in ("Muon_mva", "Muon_iso", "Muon_pt"):
        assert read[name].to_list() == fb.open(out)[name].array().to_list()


def test_trees_of_several_campaigns_make_a_union(campaigns, tmp_path):
    trees = [tmp_path / "old_tree.root", tmp_path / "new_tree.root"]
    out, same = tmp_path / "out.root", tmp_path / "same.root"
    fb.merge(trees, out, mode="union", verify=True)
    fb.merge(campaigns, same, mode="union")
    names = ["event", "nMuon", "Muon_pt", "Muon_mva", "Muon_iso", "Electron_pt", "Tau_pt"]
    assert values(out, names) == values(same, names)


def test_an_append_cannot_give_a_written_collection_more_members(campaigns, tmp_path):
    old, new = campaigns
    out = tmp_path / "out.root"
    fb.merge([old], out)
    before = out.read_bytes()
    with pytest.raises(fb.UsageError, match="merge all files into a new one") as told:
        fb.merge([new], out, mode="union", append=True)
    assert '"Muon_iso"' in str(told.value)
    assert out.read_bytes() == before
    # members that it has are found by their projected fields
    fb.merge([old], out, mode="union", append=True)
    assert values(out, ["Muon_mva"])["Muon_mva"] == 2 * values(old, ["Muon_mva"])["Muon_mva"]
