import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from compare import objects_of
from hypothesis import given

import femtobarn as fb
from femtobarn._files.filters import compile_filter, is_pattern, name_matches

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["run", "nMuon", "Muon_pt", "Muon_eta", "nElectron", "Electron_pt", "HLT_Mu50"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, NAMES),
        ("run", ["run"]),
        ("Muon_*", ["Muon_pt", "Muon_eta"]),
        ("*_p?", ["Muon_pt", "Electron_pt"]),
        ("n[ME]*", ["nMuon", "nElectron"]),
        ("muon_*", []),
        ("/muon_.*/i", ["Muon_pt", "Muon_eta"]),
        ("/Muon/", ["Muon_pt", "Muon_eta"]),
        ("/.*Mu/", ["nMuon", "Muon_pt", "Muon_eta", "HLT_Mu50"]),
        (re.compile("n"), ["nMuon", "nElectron"]),
        (lambda name: name.endswith("pt"), ["Muon_pt", "Electron_pt"]),
        (["run", "HLT_*", "/nE/"], ["run", "nElectron", "HLT_Mu50"]),
        ([["run"], ("nMuon",)], ["run", "nMuon"]),
        ({"run", "nMuon"}, ["run", "nMuon"]),
        ([], []),
        (["run", None], NAMES),
    ],
)
def test_filters_of_every_kind(wanted, expected):
    predicate = compile_filter(wanted)
    assert [name for name in NAMES if predicate is None or predicate(name)] == expected


@pytest.mark.parametrize("wanted", [3, b"run", [3], object()])
def test_what_is_no_filter_is_refused(wanted):
    with pytest.raises(fb.UsageError):
        compile_filter(wanted)


def test_a_malformed_expression_is_reported():
    with pytest.raises(fb.UsageError):
        compile_filter("/(/")


@given(st.text(min_size=1))
def test_a_plain_name_matches_itself_only(name):
    if not is_pattern(name):
        predicate = compile_filter(name)
        assert predicate(name)
        assert not predicate(name + "x")
        assert compile_filter([name])(name)


def test_a_name_or_a_path_or_a_path_with_a_dot_matches():
    assert name_matches(compile_filter("pt"), "pt", "jets.pt")
    assert name_matches(compile_filter("jets.pt"), "pt", "jets.pt")
    assert name_matches(compile_filter(".pt"), "pt", "pt")
    assert not name_matches(compile_filter(".pt"), "pt", "jets.pt")


def test_keys_are_filtered_by_name_type_and_field(dimuon):
    nt = fb.open(dimuon)
    assert nt.keys(filter_name=".Muon_*") == ["Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"]
    assert nt.keys(filter_typename="std::uint*") == ["run", "event"]
    assert nt.keys(filter_field=lambda field: field.projected and "Cardinality" in field.typename) == ["nMuon"]
    assert nt.keys(filter_branch=lambda field: field.name == "run") == ["run"]
    assert nt.keys(filter_name="*_pt", filter_typename="float") == ["_collection0.Muon_pt"]
    assert nt.keys(filter_name="*_pt", recursive=False) == ["Muon_pt"]
    assert nt.keys(filter_name="*_pt", full_paths=False) == ["Muon_pt", "Muon_pt"]
    assert nt.keys(filter_name="nothing") == []


def test_keys_values_items_and_typenames_agree(mixed):
    nt = fb.open(mixed)
    keys = nt.keys()
    assert [field.path for field in nt.values()] == keys
    assert [key for key, _ in nt.items()] == keys
    assert nt.typenames() == {key: nt[key].typename for key in keys}
    assert len(set(keys)) == len(keys)


def test_a_name_with_brackets_is_a_name_first():
    assert compile_filter("a[0]")("a[0]")
    assert compile_filter("a[0]")("a0")
    assert compile_filter(["a[0]"])("a[0]")
    assert not compile_filter("a[0]")("a1")


def test_a_filter_of_names_may_be_positional(dimuon):
    nt = fb.open(dimuon)
    names = ["Muon_pt", "Muon_phi"]
    assert nt.keys("Muon_p*", recursive=False) == names
    assert list(nt.typenames("Muon_p*", recursive=False)) == names
    assert [field.name for field in nt.values("Muon_p*", recursive=False)] == names
    assert [name for name, _ in nt.items("Muon_p*", recursive=False)] == names


def test_duplicates_are_ignored_on_request(dimuon):
    nt = fb.open(dimuon)
    wanted = {"filter_name": "*_pt", "full_paths": False, "ignore_duplicates": True}
    assert nt.keys(**wanted) == ["Muon_pt"]
    assert [(name, field.path) for name, field in nt.items(**wanted)] == [("Muon_pt", "_collection0.Muon_pt")]
    assert nt.typenames(**wanted) == {"Muon_pt": "float"} == dict(nt.itertypenames(**wanted)), "those of the first"
    both = [("Muon_pt", "float"), ("Muon_pt", "ROOT::VecOps::RVec<float>")]
    assert list(nt.itertypenames(**wanted | {"ignore_duplicates": False})) == both


def test_a_function_in_place_of_names_is_a_filter(dimuon):
    nt = fb.open(dimuon)
    assert nt.arrays(lambda name: name.startswith("nM")).fields == ["nMuon"]
    assert nt.arrays(re.compile("nM")).fields == ["nMuon"]
    assert nt.arrays(["run", lambda name: name == "nMuon"]).fields == ["run", "nMuon"]
    assert nt.arrays(lambda name: False).fields == []
    with pytest.raises(fb.UsageError):
        nt.arrays(lambda name: True, filter_name="run")


def test_a_filter_on_fields_must_be_callable(dimuon):
    with pytest.raises(fb.UsageError, match="filter_field"):
        fb.open(dimuon).keys(filter_field="run")


READABLE = sorted(path for path in (ROOT / "testdata" / "rntuple").glob("*.root") if path.name != "unknown_flag.root")


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.name)
def test_all_keys_are_those_that_any_filter_sees(path):
    """Without filters the core returns the keys; with filters they come from the schema in Python."""
    for name in {entry["path"].split(";")[0] for entry in objects_of(path) if "RNTuple" in entry["class"]}:
        nt = fb.open({path: name})
        assert nt.keys() == nt.keys(filter_name=lambda _: True)
