"""Files with several trees and other objects that not every operation copies."""

import json
import subprocess
import sys

import numpy as np
import pytest
import uproot

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "from femtobarn._cli import main; main()"]

MAKE = """
import sys
import ROOT
from array import array

file = ROOT.TFile(sys.argv[1], "recreate")
for path, entries in (("Events", 50), ("Runs", 2), ("LuminosityBlocks", 3), ("deep/my tree", 4)):
    folder, _, name = path.rpartition("/")
    if folder:
        file.mkdir(folder)
    file.cd(folder)
    tree = ROOT.TTree(name, "")
    n, jets, number = array("i", [0]), array("f", [0.0] * 8), array("i", [0])
    tree.Branch("number", number, "number/I")
    if name == "Events":
        tree.Branch("nJet", n, "nJet/I")
        tree.Branch("Jet_pt", jets, "Jet_pt[nJet]/F")
        tree.Branch("Jet_eta", jets, "Jet_eta[nJet]/F")
    for entry in range(entries):
        number[0], n[0] = entry, entry % 4
        for i in range(n[0]):
            jets[i] = entry + i
        tree.Fill()
    tree.Write()
file.cd()
counts = ROOT.TH1D("counts", "", 4, 0, 4)
counts.Fill(1, 50)
counts.Write()
ROOT.TNamed("note", "made by a test").Write()
file.Close()
"""
TREES = {"Events": 50, "Runs": 2, "LuminosityBlocks": 3, "deep/my tree": 4}
NTUPLES = {"Events": 50, "Runs": 2, "LuminosityBlocks": 3, "deep/my_tree": 4}


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    path = tmp_path_factory.mktemp("nano") / "nano.root"
    subprocess.run([sys.executable, "-W", "ignore", "-c", MAKE, str(path)], check=True)
    return path


def left(report):
    return {(it.name, it.class_name) for it in report.left_behind}


def run(*arguments):
    done = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.oracle
def test_a_file_is_converted_with_all_its_trees(nano, tmp_path):
    report = fb.convert(nano, tmp_path / "out.root")
    assert report.ntuples == NTUPLES
    assert (report.entries, report.equal) == (59, True)
    proven = {(column["ntuple"], column["field"]) for column in report.certificate["columns"]}
    assert {name for name, _ in proven} == set(NTUPLES)
    assert left(report) == {("counts", "TH1D"), ("note", "TNamed")}
    for path, name in zip(TREES, NTUPLES, strict=True):
        given, made = fb.open(f"{nano}:{path}"), fb.open(f"{tmp_path}/out.root:{name}")
        for field in given.keys():  # noqa: SIM118
            assert made[field].array().to_list() == given[field].array().to_list()
        assert made.verify().ok


@pytest.mark.oracle
def test_one_that_is_named_leaves_the_others_behind(nano, tmp_path):
    report = fb.convert(f"{nano}:Events", tmp_path / "out.root")
    others = {("Runs", "TTree"), ("LuminosityBlocks", "TTree"), ("deep", "TDirectory")}
    assert left(report) == others | {("counts", "TH1D"), ("note", "TNamed")}
    assert {it.reason for it in report.left_behind} == {"not named"}
    deep = fb.convert(f"{nano}:deep/my tree", tmp_path / "deep.root")
    assert deep.ntuples == {"deep/my_tree": 4}
    assert left(deep) == (left(report) | {("Events", "TTree")}) - {("deep", "TDirectory")}
    text = run("convert", f"{nano}:Events", tmp_path / "text.root")
    assert "  left behind: Runs, LuminosityBlocks (TTree): not named" in text
    found = json.loads(run("convert", "--json", f"{nano}:Events", tmp_path / "json.root"))
    assert {(it["name"], it["class"]) for it in found["left_behind"]} == left(report)
    assert fb.convert(tmp_path / "out.root", tmp_path / "again.root").left_behind == ()


@pytest.mark.oracle
def test_trees_of_one_path_of_several_files_become_one(nano, tmp_path):
    with uproot.recreate(tmp_path / "one.root") as file:
        file.mktree("Events", {"number": np.int32}).extend({"number": np.arange(50, dtype=np.int32)})
    report = fb.convert([nano, tmp_path / "one.root", nano], tmp_path / "out.root", fields="number")
    assert report.ntuples == {"Events": 150, "Runs": 4, "LuminosityBlocks": 6, "deep/my_tree": 8}
    numbers = [*range(50)]
    assert fb.open(f"{tmp_path}/out.root:Events")["number"].array().to_list() == numbers * 3
    assert all(it.files == (str(nano),) for it in report.left_behind)


@pytest.mark.oracle
def test_trees_without_a_field_that_is_asked_for_are_left_behind(nano, tmp_path):
    report = fb.convert(nano, tmp_path / "out.root", fields="Jet_*")
    assert report.ntuples == {"Events": 50}
    reasons = {it.name: it.reason for it in report.left_behind}
    assert reasons["Runs"] == reasons["deep/my tree"] == "no field of it is selected"
    with pytest.raises(fb.KeyNotFoundError, match="nothing_of_that_name"):
        fb.convert(nano, tmp_path / "none.root", fields=["number", "nothing_of_that_name"])


@pytest.mark.oracle
def test_a_folder_of_whole_files_is_resumed(nano, tmp_path):
    for given in ({}, {"fields": "Jet_*"}):
        folder = f"{tmp_path}/{len(given)}/"
        (first,) = fb.convert([nano], folder, resume=True, **given)
        (second,) = fb.convert([nano], folder, resume=True, **given)
        assert (first.status, second.status) == ("converted", "kept")
    fb.convert(f"{nano}:Runs", f"{tmp_path}/1/nano.root", name="Events", overwrite=True)
    (third,) = fb.convert([nano], f"{tmp_path}/1/", resume=True)
    assert (third.status, third.ntuples) == ("converted", NTUPLES)


COUNT = """
import sys
import ROOT
print(*(ROOT.RDataFrame("Events", path).Filter("nJet >= 2").Count().GetValue() for path in sys.argv[1:]))
"""


@pytest.mark.oracle
def test_what_counts_the_items_of_fields_comes_along(nano, tmp_path):
    """RDataFrame did not find `nJet` in the output of `fields="Jet_*"`."""
    whole, output = tmp_path / "whole.root", tmp_path / "out.root"
    fb.convert(f"{nano}:Events", whole)
    fb.write(tmp_path / "other.root", {"other": np.arange(50)}, name="Events")
    made = [tmp_path / f"{n}.root" for n in range(6)]
    fb.convert(f"{nano}:Events", made[0], fields="Jet_*")
    fb.convert(whole, made[1], fields="Jet_*")
    fb.merge([whole], made[2], fields="Jet_*", verify=True)
    fb.clone(f"{nano}:Events", made[3], fields="Jet_*", verify=True)
    fb.skim(whole, made[4], where="number >= 0", fields="Jet_*")
    fb.join_columns([tmp_path / "other.root", whole], made[5], fields=["*", "Jet_*"])
    for path in made:
        names = fb.open(path).keys(recursive=False)
        assert "nJet" in names
        assert "number" not in names
    command = [sys.executable, "-W", "ignore", "-c", COUNT, whole, *made]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["24"] * 7
    fb.convert(f"{nano}:Events", output, fields="Jet_*", drop="nJet", overwrite=True)
    assert "nJet" not in fb.open(output).keys(recursive=False)


@pytest.mark.oracle
def test_what_merges_leave_behind_is_in_report_text_and_json(nano, tmp_path):
    report = fb.clone(f"{nano}:Events", tmp_path / "one.root", verify=True)
    names = {("Runs", "TTree"), ("LuminosityBlocks", "TTree"), ("deep", "TDirectory")}
    assert left(report) == names | {("counts", "TH1D"), ("note", "TNamed")}
    assert "left behind" in repr(report)
    whole = fb.clone(nano, tmp_path / "all.root", others="first", verify=True)
    assert not whole.left_behind
    assert (whole.entries, whole.histograms) == (NTUPLES, 1)
    text = run("clone", f"{nano}:Events", tmp_path / "text.root")
    assert "left behind: Runs, LuminosityBlocks (TTree): not named" in text
    assert "converted: TTree Events" in text
    found = json.loads(run("clone", "--json", f"{nano}:Events", tmp_path / "json.root"))
    assert {(it["name"], it["class"]) for it in found["left_behind"]} == left(report)
