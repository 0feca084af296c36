"""Histograms are added when files are merged: the output equals that of ROOT's hadd."""

import json
import subprocess

import numpy as np
import pytest
from compare import left_behind

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Writes three files full of histograms, and prints where hadd is. Arguments: a directory
MAKE = """
import array, os, pathlib, sys
import ROOT
folder = pathlib.Path(sys.argv[1])
ROOT.TH1.AddDirectory(False)
random = ROOT.TRandom3(7)
edges = array.array("d", [0, 0.5, 1, 3, 4.25, 10])
LETTERS = "CSILFD"


def attach(h, thing):
    ROOT.SetOwnership(thing, False)
    h.GetListOfFunctions().Add(thing)


def fill_1d(h, n, number, weighted=False):
    for _ in range(n):
        x = random.Uniform(-1, 11)
        h.Fill(x, random.Uniform(-0.5, 2) if weighted else 1)


def write(number):
    file = ROOT.TFile(str(folder / f"{number}.root"), "RECREATE", "", [505, 101, 0][number])
    n = [300, 200, 100][number]
    keep = []

    def make(name, h):
        keep.append(h)
        h.SetName(name)
        return h

    for letter in LETTERS:
        h = make("one_" + letter, getattr(ROOT, "TH1" + letter)("", "title %s;x [GeV];events" % letter, 10, 0, 10))
        fill_1d(h, n, number)
        h = make("two_" + letter, getattr(ROOT, "TH2" + letter)("", "two;x;y", 5, 0, 10, 4, -1, 1))
        for _ in range(n):
            h.Fill(random.Uniform(-1, 11), random.Gaus())
        h = make("three_" + letter, getattr(ROOT, "TH3" + letter)("", "three", 3, 0, 10, 4, -1, 1, 2, 0, 1))
        for _ in range(n):
            h.Fill(random.Uniform(-1, 11), random.Gaus(), random.Uniform(0, 1.2))
    for name, letter in (("weighted", "F"), ("weighted_without_squares", "D")):
        h = make(name, getattr(ROOT, "TH1" + letter)("", name, 10, 0, 10))
        if name == "weighted":
            h.Sumw2()
        fill_1d(h, n, number, weighted=True)
        if name != "weighted":
            h.Sumw2(False)
    h = make("squares_of_one", ROOT.TH1F("", "only one file has squares", 10, 0, 10))
    if number == 1:
        h.Sumw2()
    fill_1d(h, n, number)
    h = make("squares_of_first", ROOT.TH2D("", "only the first file has squares", 10, 0, 10, 2, 0, 10))
    if number == 0:
        h.Sumw2()
    for _ in range(n):
        h.Fill(random.Uniform(-1, 11), random.Uniform(0, 10))
    h = make("variable", ROOT.TH1F("", "variable", 5, edges))
    fill_1d(h, n, number)
    h = make("empty", ROOT.TH1F("", "empty", 5, 0, 1))
    h = make("full_C", ROOT.TH1C("", "full", 4, 0, 4))
    h = make("full_S", ROOT.TH1S("", "full", 4, 0, 4))
    h = make("full_I", ROOT.TH1I("", "full", 4, 0, 4))
    for h, most in zip(keep[-3:], (127, 32767, 2**31 - 1)):
        for k, part in enumerate((0.7, -0.7, 0.3, -0.3)):
            h.SetBinContent(k + 1, int(most * part))
    h = make("average", ROOT.TH1F("", "average", 10, 0, 10))
    h.SetBit(ROOT.TH1.kIsAverage)
    fill_1d(h, n, number)
    h = make("ranged", ROOT.TH1F("", "ranged", 10, 0, 10))
    fill_1d(h, n, number)
    h.GetXaxis().SetRange(3, 7)
    h = make("ranged_two", ROOT.TH2F("", "ranged", 10, 0, 10, 4, 0, 4))
    for _ in range(n):
        h.Fill(random.Uniform(-1, 11), random.Uniform(0, 4))
    if number != 1:
        h.GetYaxis().SetRangeUser(1, 3)
    h = make("ranged_three", ROOT.TH3F("", "ranged", 3, 0, 3, 4, 0, 4, 2, 0, 1))
    for _ in range(n):
        h.Fill(random.Uniform(0, 3), random.Uniform(0, 4), random.Uniform(0, 1))
    h.GetZaxis().SetRange(1, 1)
    h = make("by_hand", ROOT.TH1F("", "contents by hand", 4, 0, 4))
    for k in range(6):
        h.SetBinContent(k, (number + 1) * k)
    h = make("overflows", ROOT.TH1F("", "overflows count", 4, 0, 4))
    h.SetStatOverflows(ROOT.TH1.kConsider)
    for k in range(6):
        h.SetBinContent(k, (number + 1) * k)
    h = make("limits", ROOT.TH1F("", "maximum and minimum", 4, 0, 4))
    h.SetMaximum(100 + number)
    h.SetMinimum(-number)
    h.Fill(1)
    for error in ("", "s", "i", "g"):
        h = make("profile" + error, ROOT.TProfile("", "profile;x;y", 10, 0, 10, error))
        for _ in range(n):
            h.Fill(random.Uniform(-1, 11), random.Gaus(3, 1))
    h = make("profile_weighted", ROOT.TProfile("", "weighted", 10, 0, 10, -1, 7))
    h.Sumw2()
    for _ in range(n):
        h.Fill(random.Uniform(-1, 11), random.Gaus(3, 1), random.Uniform(0, 2))
    h = make("profile_variable", ROOT.TProfile("", "variable", 5, edges))
    h = make("profile_ranged", ROOT.TProfile("", "ranged", 10, 0, 10))
    h.GetXaxis().SetRange(2, 6)
    for h in keep[-2:]:
        for _ in range(n):
            h.Fill(random.Uniform(0, 10), random.Gaus(3, 1))
    h = make("profile2", ROOT.TProfile2D("", "profile2;x;y;z", 5, 0, 10, 4, -1, 1, "s"))
    ranged = make("profile2_ranged", ROOT.TProfile2D("", "profile2;x;y;z", 5, 0, 10, 4, -1, 1))
    ranged.GetYaxis().SetRange(2, 3)
    for _ in range(n):
        for h in keep[-2:]:
            h.Fill(random.Uniform(-1, 11), random.Gaus(), random.Gaus(3, 1), random.Uniform(0, 2))
    h = make("profile3", ROOT.TProfile3D("", "profile3", 5, 0, 10, 4, -1, 1, 2, 0, 1))
    ranged = make("profile3_ranged", ROOT.TProfile3D("", "profile3", 5, 0, 10, 4, -1, 1, 2, 0, 1))
    ranged.GetXaxis().SetRange(2, 3)
    for _ in range(n):
        for h in keep[-2:]:
            h.Fill(random.Uniform(-1, 11), random.Gaus(), random.Uniform(0, 1), random.Gaus(3, 1))
    h = make("fitted", ROOT.TH1F("", "with functions", 10, 0, 10))
    fill_1d(h, n, number)
    h.Fit("pol1", "Q0")
    attach(h, ROOT.TNamed("note", "file %d" % number))
    h = make("fitted_squares", ROOT.TH1F("", "with functions, and bytes that move", 10, 0, 10))
    if number == 1:
        h.Sumw2()
    fill_1d(h, n, number)
    h.Fit("gaus", "Q0")
    # labels: set, the same; set by Fill, in other orders; on two axes; of some bins
    h = make("labels_same", ROOT.TH1D("", "cut flow", 4, 0, 4))
    for k, label in enumerate(("all", "trigger", "two muons", "mass")):
        h.GetXaxis().SetBinLabel(k + 1, label)
        h.SetBinContent(k + 1, 1000 / (k + 1) + number)
    h = make("labels_fixed", ROOT.TH1D("", "some labels", 4, 0, 4))
    h.GetXaxis().SetBinLabel(2, "second")
    h.Fill(1.5)
    for name, words in (
        ("labels_order", ("a b c d", "d c b a", "b")),
        ("labels_more", ("a b c", "d a e f g", "h a h")),
        ("labels_first_empty", ("", "x y", "y z")),
    ):
        h = make(name, ROOT.TH1F("", name, 2, 0, 2))
        for k, word in enumerate(words[number].split()):
            h.Fill(word, k + 1)
    h = make("labels_two", ROOT.TH2F("", "labels", 2, 0, 2, 2, 0, 2))
    for pair in (("a p", "b q", "c p"), ("c q", "d r", "a p"), ("e s", "a q"))[number]:
        x, y = pair.split()
        h.Fill(x, y, 1 + number)
    h = make("labels_profile", ROOT.TProfile("", "labels", 2, 0, 2))
    for k, word in enumerate(("a b c d", "d c e a", "f b")[number].split()):
        h.Fill(word, k + 1 + number)
    h = make("labels_fitted", ROOT.TH1F("", "labels and functions", 2, 0, 2))
    for k, word in enumerate(("a b c", "c d e", "f b")[number].split()):
        h.Fill(word, k + 1 + number)
    attach(h, ROOT.TF1("f", "[0]*x", 0, 2))
    attach(h, ROOT.TF1("g", "sin(x)", 0, 2))
    # limits: others on the same grid, and other widths
    h = make("grid", ROOT.TH1F("", "grid", (10, 5, 12)[number], (0, 5, -2)[number], 10))
    for k in range(2, h.GetNbinsX()):
        h.Fill(h.GetBinCenter(k), k)
    h = make("grid_two", ROOT.TH2F("", "grid", (4, 2, 6)[number], 0, (4, 4, 12)[number], 3, 0, 3))
    for k in range(30):
        h.Fill(random.Uniform(0, 3.9), random.Uniform(0, 3))
    h = make("grid_squares", ROOT.TProfile("", "grid", (4, 8, 4)[number], 0, (4, 8, 4)[number]))
    for k in range(30):
        h.Fill(random.Uniform(0, 3.9), random.Uniform(0, 3))
    bins = ((50, 0, 20), (10, 0, 16), (10, -2.4, 5.6))[number]
    h = make("grid_corner", ROOT.TH1D("", "limits off the grid", *bins))
    for k in range(30):
        h.Fill(random.Uniform(0, 5))
    # extended axes: from 0 to 1 to other limits in each file
    for direction, ends in (
        ("right", ((0, 3.9), (0, 15.9), (0, 7.9))),
        ("left", ((0.9, -2.9), (0.9, -14.9), (0.9, 0.1))),
        ("both", ((-2.9, 3.1), (0.1, 0.9), (-2.9, 12.1))),
        ("apart", ((0.1, 1.9), (0.9, -0.9), (0.1, 0.9))),
    ):
        for kind, n_axes, bins in (
            ("TH1D", 1, 10),
            ("TH1S", 1, 5),
            ("TH2F", 2, 10),
            ("TH3D", 3, 4),
            ("TProfile", 1, 7),
            ("TProfile2D", 2, 10),
            ("TProfile3D", 3, 4),
        ):
            if direction == "apart" and bins % 2:
                continue  # bins would have to be split
            h = make(f"grown_{kind}_{direction}", getattr(ROOT, kind)("", "grown", *[bins, 0, 1] * n_axes))
            if kind == "TH2F":
                h.SetCanExtend(ROOT.TH1.kXaxis)
            else:
                h.SetCanExtend(ROOT.TH1.kAllAxes)
            if kind == "TH1D":
                h.Sumw2()
            start, end = ends[number]
            for k in range(60):
                x = start + (end - start) * k / 60
                y = 0.5 if kind == "TH2F" else 0.9 * x
                h.Fill(*[x, y, x][:n_axes], *([random.Gaus()] if "Profile" in kind else []))
    # automatic limits: the entries are still in the buffer
    h = make("buffered", ROOT.TH1F("", "buffer", 10, 0, 0))
    for _ in range(50):
        h.Fill(random.Uniform(2, 8), 2)
    h = make("buffered_two", ROOT.TH2F("", "buffer", 10, 0, 0, 10, 0, 0))
    for _ in range(50):
        h.Fill(random.Uniform(2, 8), random.Uniform(-2, 8))
    h = make("buffered_profile", ROOT.TProfile("", "buffer", 10, 0, 0))
    for _ in range(50):
        h.Fill(random.Uniform(2, 8), random.Uniform(-2, 8))
    h = make("flushed", ROOT.TH1F("", "buffer was filled in", 10, 0, 1))
    h.SetBuffer(100)
    for _ in range(50):
        h.Fill(random.Uniform(-0.1, 1.1))
    h.BufferEmpty(1)
    if number == 2:
        make("late", ROOT.TH1F("", "only in the last", 2, 0, 2)).Fill(1)
    for h in keep:
        h.Write()
    h = ROOT.TH1F("same", "deep", 10, 0, 10)
    fill_1d(h, n, number)
    file.mkdir("a/b")
    file.cd("a/b")
    h.Write("same")
    h.Fill(3)
    h.Write("same")
    file.mkdir("c").cd()
    h.Write("same")
    file.Close()


for number in range(3):
    write(number)
(folder / "hadd").write_text(str(ROOT.TROOT.GetBinDir()) + "/hadd")
os._exit(0)
"""

# Everything that ROOT reports about the histograms of some files. Arguments: the output, and the files
READ = """
import array, json, os, pathlib, sys
import ROOT


def look(directory, path, out):
    for key in directory.GetListOfKeys():
        name = path + key.GetName()
        if key.GetClassName().startswith("TDirectory"):
            look(key.ReadObj(), name + "/", out)
        elif name not in out:
            h = key.ReadObj()
            out[name] = describe(h)
            out[name]["key"] = [key.GetClassName(), key.GetTitle()]


def describe(h):
    one = {"class": h.ClassName(), "title": h.GetTitle(), "name": h.GetName()}
    if h.GetBuffer():
        buffer = h.GetBuffer()
        values = 1 + h.GetDimension() + ("Profile" in h.ClassName())
        one["buffer"] = [buffer[i] for i in range(1 + int(max(buffer[0], 0)) * values)]
        h.BufferEmpty(1)
    cells = range(h.GetNcells())
    one["contents"] = [h.GetBinContent(i) for i in cells]
    one["errors"] = [h.GetBinError(i) for i in cells]
    one["squares"] = h.GetSumw2N()
    if h.InheritsFrom("TProfile") or "Profile" in h.ClassName():
        one["entries of bins"] = [h.GetBinEntries(i) for i in cells]
        one["bin squares"] = [h.GetBinSumw2()[i] for i in range(h.GetBinSumw2().fN)]
        one["option"] = str(h.GetErrorOption())
    one["entries"] = h.GetEntries()
    one["bits"] = h.TestBits(0x00FFC000)
    one["limits"] = [h.GetMaximumStored(), h.GetMinimumStored()]
    axes = [h.GetXaxis(), h.GetYaxis(), h.GetZaxis()]
    for what in ("statistics", "statistics of all"):
        sums = array.array("d", [0] * 13)
        h.GetStats(sums)
        one[what] = list(sums)
        one["axes of " + what] = [
            [a.GetNbins(), a.GetXmin(), a.GetXmax(), a.GetFirst(), a.GetLast(), a.GetTitle(), a.CanExtend(),
             [a.GetBinLowEdge(i) for i in range(1, a.GetNbins() + 2)],
             [str(a.GetBinLabel(i)) for i in range(1, a.GetNbins() + 1)]]
            for a in axes
        ]
        for axis in axes:
            axis.SetRange(0, 0)
    one["functions"] = [
        [f.ClassName(), f.GetName(), f.GetTitle()]
        + ([f.Eval(1.5), [f.GetParameter(i) for i in range(f.GetNpar())]] if f.InheritsFrom("TF1") else [])
        for f in h.GetListOfFunctions()
    ]
    return one


out = {}
for path in sys.argv[2:]:
    file = ROOT.TFile(path)
    out[path] = {}
    look(file, "", out[path])
pathlib.Path(sys.argv[1]).write_text(json.dumps(out))
os._exit(0)
"""


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


def differences(found, expected):
    """Return the names of histograms that differ, and how."""
    out = {}
    for name in sorted(found.keys() | expected.keys()):
        one, two = found.get(name, {}), expected.get(name, {})
        for what in one.keys() | two.keys():
            if not equal(one.get(what), two.get(what)):
                out[f"{name}: {what}"] = (one.get(what), two.get(what))
    return out


def equal(one, two):
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return one == two or abs(one - two) <= 1e-12 * max(abs(one), abs(two)) or (one != one and two != two)
    return one == two


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
    with pytest.raises(fb.UsageError, match="is not an RNTuple"):
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
