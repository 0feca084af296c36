"""Histograms are added when files are merged: the output equals that of ROOT's hadd."""

import json
import subprocess

import numpy as np
import pytest
from compare import left_behind
from root_histograms import MAKE, READ, differences

import femtobarn as fb

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def folder(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("histograms")
    run_root(MAKE, folder)
    return folder


@pytest.fixture(scope="module")
def hadd(folder):
    program = (folder / "hadd").read_text()

    def run(output, *inputs):
        done = subprocess.run([program, "-v", "0", "-f", output, *inputs], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture(scope="module")
def seen(run_root, tmp_path_factory):
    """Return what ROOT reads in files."""
    place = tmp_path_factory.mktemp("seen") / "seen.json"

    def read(*paths):
        run_root(READ, place, *paths)
        found = json.loads(place.read_text())
        return [found[str(path)] for path in paths]

    return read


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 1, 2], [2, 1, 0]], ids=str)
def test_sums_are_those_of_hadd(folder, hadd, seen, tmp_path, order):
    inputs = [folder / f"{number}.root" for number in order]
    report = fb.merge(inputs, tmp_path / "own.root")
    hadd(tmp_path / "hadd.root", *inputs)
    own, root, *files = seen(tmp_path / "own.root", tmp_path / "hadd.root", *inputs)
    # hadd 6.40 reads the buffer of a profile like that of a histogram: its entries are wrong
    root["buffered_profile"] = own["buffered_profile"]
    buffers = [file["buffered_profile"]["buffer"] for file in files]
    entries = [number for buffer in buffers for number in buffer[1:]]
    assert sorted(own["buffered_profile"]["buffer"][1:]) == sorted(entries)
    if not root["labels_fitted"]["functions"]:
        # it loses functions if an axis was extended with its labels
        root["labels_fitted"]["functions"] = own["labels_fitted"]["functions"]
    assert differences(own, root) == {}
    assert report.histograms == len(own) > 60
    assert all(one["histograms"] >= len(own) - 1 for one in report.inputs)
    assert all(item.reason == "an older cycle of it" for item in report.left_behind)


def test_directories_and_names_are_keys(folder, tmp_path):
    """The newest cycle of each path counts, and an input may have objects that others lack."""
    report = fb.merge([folder / "0.root", folder / "2.root"], tmp_path / "own.root", others="drop")
    found = [one["histograms"] for one in report.inputs]
    assert found[1] == found[0] + 1 == report.histograms
    with pytest.raises(fb.UsageError):
        fb.merge([folder / "0.root"], tmp_path / "own.root")


def test_one_file_keeps_what_it_has(folder, seen, tmp_path):
    fb.merge([folder / "0.root"], tmp_path / "own.root")
    own, root = seen(tmp_path / "own.root", folder / "0.root")
    assert differences(own, root) == {}


# A histogram made by a statement, in a file. Arguments: triples of a file, a statement, and a name
ONE = """
import array, os, sys
import ROOT
arguments = sys.argv[1:]
for path, statement, name in zip(arguments[::3], arguments[1::3], arguments[2::3]):
    file = ROOT.TFile(path, "RECREATE")
    h = eval(statement)
    h.SetName(name)
    h.Write()
    file.Close()
os._exit(0)
"""

FILLED = "[(h := {}), h.Fill({}), h][2]"
GROWN = "[(h := ROOT.TH1F('', '', 10, 0, 1)), h.SetCanExtend(ROOT.TH1.kAllAxes), h.Fill({}), h][-1]"
REFUSED = {
    "other numbers of bins": (
        "ROOT.TH1F('', '', 10, 0, 1)",
        "ROOT.TH1F('', '', 15, 0, 1)",
        r"x axis has 10 bins from 0 to 1 in the first and 15 bins",
    ),
    "widths that are no multiples": (
        "ROOT.TH1F('', '', 10, 0, 1)",
        "ROOT.TH1F('', '', 15, 0, 1)",
        r"bins are 0.1 and 0.0666667 wide, and neither is a multiple .*TH1::Rebin",
    ),
    "axes that grew in other directions": (
        GROWN.format("3.9"),
        GROWN.format("-2.9"),
        r"10 bins from 0 to 4 in the first and 10 bins from -3 to 1 in this one: .* edges are 0.2 apart.*create both",
    ),
    "entries outside of an axis that grew less": (
        GROWN.format("3.9), h.AddBinContent(11"),
        GROWN.format("15.9"),
        r"entries outside of the narrower limits \(10 bins from 0 to 4\)",
    ),
    "other edges": (
        "ROOT.TH1F('', '', 2, array.array('d', [0, 1, 3]))",
        "ROOT.TH1F('', '', 2, array.array('d', [0, 2, 3]))",
        "with variable width",
    ),
    "entries outside": (
        FILLED.format("ROOT.TH1F('', '', 2, 0, 2)", "2.5"),
        FILLED.format("ROOT.TH1F('', '', 3, 0, 3)", "2.5"),
        "entries outside of the narrower limits",
    ),
    "a profile": (
        "ROOT.TProfile('', '', 2, 0, 2)",
        "ROOT.TH1F('', '', 2, 0, 2)",
        "the first is a TProfile and this one a TH1F",
    ),
    "another type": ("ROOT.TH1F('', '', 2, 0, 2)", "ROOT.TH1D('', '', 2, 0, 2)", "a TH1F and this one a TH1D"),
    "other labels": (
        "[(h := ROOT.TH1F('', '', 2, 0, 2)), h.Fill(1), h.GetXaxis().SetBinLabel(1, 'a'), h][3]",
        "[(h := ROOT.TH1F('', '', 2, 0, 2)), h.Fill(1), h.GetXaxis().SetBinLabel(1, 'b'), h][3]",
        'bin 1 of the x axis is "a" in the first and "b" in this one',
    ),
    "a full buffer": (
        "[(h := ROOT.TH1F('', '', 2, 0, 0)), [h.Fill(k) for k in range(600)], h][2]",
        "[(h := ROOT.TH1F('', '', 2, 0, 0)), [h.Fill(k) for k in range(600)], h][2]",
        "600 and 600 buffered entries, and the buffer holds at most 1000",
    ),
    "limits in one": (
        FILLED.format("ROOT.TH1F('', '', 2, 0, 2)", "1"),
        FILLED.format("ROOT.TH1F('', '', 2, 0, 0)", "1"),
        r"BufferEmpty\(1\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_belong_together_is_refused(run_root, tmp_path, case):
    one, two, message = REFUSED[case]
    first, second = tmp_path / "first.root", tmp_path / "second.root"
    run_root(ONE, first, one, "mass", second, two, "mass")
    with pytest.raises(fb.UsageError, match=message) as error:
        fb.merge([first, second], tmp_path / "out.root")
    for part in ('"mass"', "first.root", "second.root", "file.root:Events"):
        assert part in str(error.value)
    assert not (tmp_path / "out.root").exists()


def test_better_than_hadd(run_root, seen, tmp_path):
    """For a weighted and an unweighted profile, hadd 6.40 takes contents for sums of weights, or loses the squares."""
    plain = FILLED.format("ROOT.TProfile('', '', 2, 0, 2)", "0.5, 7")
    weighted = "[(h := ROOT.TProfile('', '', 2, 0, 2)), h.Sumw2(), h.Fill(0.5, 3, 2), h][3]"
    first, second = tmp_path / "first.root", tmp_path / "second.root"
    run_root(ONE, first, plain, "h", second, weighted, "h")
    for number, inputs in enumerate([[first, second], [second, first]]):
        fb.merge(inputs, tmp_path / f"{number}.root")
    for found in seen(tmp_path / "0.root", tmp_path / "1.root"):
        assert found["h"]["bin squares"] == [0, 1 + 4, 0, 0]
        assert found["h"]["entries of bins"] == [0, 3, 0, 0]


def test_others_of_the_same_name(run_root, tmp_path):
    first, second = tmp_path / "first.root", tmp_path / "second.root"
    run_root(ONE, first, "ROOT.TH1F('', '', 2, 0, 2)", "x", second, "ROOT.TNamed('', 'text')", "x")
    with pytest.raises(fb.UsageError, match=r'a TNamed called "x".* different object with this name'):
        fb.merge([first, second], tmp_path / "out.root")
    report = fb.merge([first, second], tmp_path / "out.root", others="first")
    assert left_behind(report) == [("x", "TNamed")]
    with pytest.raises(fb.UsageError):
        fb.merge([second, first], tmp_path / "other.root", others="first")
    fb.write(tmp_path / "ntuple.root", {"a": [1]}, name="x")
    with pytest.raises(fb.UsageError):
        fb.merge([tmp_path / "ntuple.root", first], tmp_path / "other.root")


def test_histograms_beside_ntuples(folder, run_root, seen, tmp_path):
    first, second = tmp_path / "first.root", tmp_path / "second.root"
    run_root(ONE, first, FILLED.format("ROOT.TH1F('', 'h', 2, 0, 2)", "1"), "h")
    run_root(ONE, second, FILLED.format("ROOT.TH1F('', 'h', 2, 0, 2)", "1"), "h")
    for path in (first, second):
        with fb.update(path) as file:
            file["Events"] = {"x": [1, 2]}
    report = fb.merge([first, second], tmp_path / "out.root")
    assert (report.entries, report.histograms) == ({"Events": 4}, 1)
    assert fb.open(tmp_path / "out.root").verify().ok
    named = fb.merge([f"{first}:Events", f"{second}:Events"], tmp_path / "named.root")
    assert (named.entries, named.histograms) == ({"Events": 4}, 0)


def test_histograms_of_uproot(need, hadd, seen, tmp_path):
    """uproot writes histograms with its own streamer infos, and reads the sums."""
    uproot = need("uproot")
    edges = np.linspace(0, 1, 6)
    paths = [tmp_path / "first.root", tmp_path / "second.root"]
    for number, path in enumerate(paths):
        counts = np.arange(5, dtype=[np.float64, np.float32][number]) + number
        with uproot.recreate(path) as file:
            file["one"] = (counts, edges)
            file["deep/two"] = (np.outer(counts, counts), edges, edges)
    fb.merge(paths, tmp_path / "own.root")
    hadd(tmp_path / "hadd.root", *paths)
    own, root = seen(tmp_path / "own.root", tmp_path / "hadd.root")
    assert differences(own, root) == {}
    with uproot.open(tmp_path / "own.root") as file:
        assert file["one"].values().tolist() == [1, 3, 5, 7, 9]
        assert file["deep/two"].member("fNcells") == 49


def test_uproot_reads_sums_by_the_streamer_infos_of_the_output(folder, need, tmp_path):
    uproot = need("uproot")
    inputs = [folder / "0.root", folder / "1.root"]
    fb.merge(inputs, tmp_path / "own.root")
    with uproot.open(tmp_path / "own.root") as own, uproot.open(inputs[0]) as one, uproot.open(inputs[1]) as two:
        infos = own.file.streamers
        assert infos.keys() >= one.file.streamers.keys()
        for name in ("one_F", "two_D", "three_I", "fitted", "labels_same", "a/b/same"):
            sums = one[name].values(flow=True) + two[name].values(flow=True)
            assert np.array_equal(own[name].values(flow=True), sums)
        for name, versions in one.file.streamers.items():
            for version, info in versions.items():
                elements = [
                    [(type(e).__name__, e.name, e.typename) for e in x.elements] for x in (info, infos[name][version])
                ]
                assert elements[0] == elements[1], name


# A histogram with functions and labels, after a hole that takes no disk space. Arguments: the file
FAR = """
import os, sys
import ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
end = 3_000_000_000
space = file.GetListOfFree().Last()
space.SetFirst(end)
space.SetLast(end + 1_000_000_000)
file.SetEND(end)
h = ROOT.TH1F("h", "far", 2, 0, 2)
for word in "abcb":
    h.Fill(word, 1)
for name in "fg":
    function = ROOT.TF1(name, "[0]*x", 0, 2)
    ROOT.SetOwnership(function, False)
    h.GetListOfFunctions().Add(function)
h.Write()
file.Close()
os._exit(0)
"""


def test_references_count_from_the_key_which_is_longer_beyond_2_gb(run_root, seen, tmp_path):
    far = tmp_path / "far.root"
    run_root(FAR, far)
    assert far.stat().st_size > 3_000_000_000
    fb.merge([far], tmp_path / "one.root")
    fb.merge([far, far], tmp_path / "two.root")
    one, two, before = seen(tmp_path / "one.root", tmp_path / "two.root", far)
    assert differences(one, before) == {}
    assert two["h"]["functions"] == before["h"]["functions"]
    assert two["h"]["contents"] == [2 * content for content in before["h"]["contents"]]


def test_damage_is_told(folder, tmp_path):
    whole = (folder / "2.root").read_bytes()
    at = whole.index(b"TAxis")  # in the streamer infos, or an object: somewhere in what is not compressed
    for place in range(at, at + 4000, 97):
        path = tmp_path / "damaged.root"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            fb.merge([folder / "0.root", path], tmp_path / "out.root", overwrite=True)
        except fb.FemtobarnError:
            continue
