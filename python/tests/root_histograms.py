"""Files full of histograms that ROOT writes, and what it reports about histograms."""

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
