"""Histograms are read as ROOT and uproot read them, and both read what is written."""

import json
import pickle

import awkward as ak
import numpy as np
import pytest
import servers
from root_histograms import MAKE, READ, differences

import femtobarn as fb
from femtobarn._files.histogram import AxisTraits

AXES = ("axes of statistics", "axes of statistics of all")


@pytest.fixture(scope="module")
def folder(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("histograms")
    run_root(MAKE, folder)
    return folder


@pytest.fixture(scope="module")
def seen(run_root, tmp_path_factory):
    """Return what ROOT reads in files."""
    place = tmp_path_factory.mktemp("seen") / "seen.json"

    def read(*paths):
        run_root(READ, place, *paths)
        found = json.loads(place.read_text())
        return [found[str(path)] for path in paths]

    return read


def flat(array):
    """Return numbers in ROOT's order of bins."""
    return np.asarray(array, float).ravel(order="F").tolist()


def padded(statistics):
    return [*statistics.values(), *[0.0] * (13 - len(statistics))]


def described(h):
    """Describe a histogram as READ does."""
    moments = h._core.moments()
    one = {
        "class": h.classname,
        "title": h.title,
        "name": h.name,
        "contents": flat(h.values(flow=True)),
        "errors": flat(h.errors(flow=True)),
        "entries": h.entries,
        "statistics": padded(h.statistics),
    }
    if moments is not None:
        one["entries of bins"] = np.frombuffer(moments[0], ">f8").tolist()
    return one


def axis_of(axis):
    edges = axis.edges.tolist()
    return [len(axis), edges[0], edges[-1], axis.title, edges, [label or "" for label in axis.labels]]


@pytest.mark.oracle
def test_every_number_is_that_of_root(folder, seen):
    for number, root in enumerate(seen(*(folder / f"{number}.root" for number in range(3)))):
        own = fb.histograms(folder / f"{number}.root")
        assert own.keys() == root.keys()
        for name, h in own.items():
            if root[name].get("buffer", [0])[0] > 0:
                with pytest.raises(
                    fb.UsageError, match=r"entries of '?\"?buffered.* are in its buffer and in no bin yet"
                ):
                    h.values()
                continue
            expected = root[name]
            if expected["contents"] != described(h)["contents"]:
                # GetBinContent of an average is not what is stored
                assert name == "average", name
                continue
            found = described(h)
            assert differences({name: found}, {name: {key: expected[key] for key in found}}) == {}
            axes = [[it[0], it[1], it[2], it[5], it[7], it[8]] for it in expected["axes of statistics of all"]]
            for axis, wanted in zip(h.axes, axes, strict=False):
                assert axis_of(axis) == pytest.approx(wanted) if not isinstance(wanted, list) else True
                assert np.allclose(axis.edges, wanted[4], rtol=1e-14, atol=1e-14), name
                assert axis_of(axis)[3:4] + axis_of(axis)[5:] == [wanted[3], wanted[5]], name


@pytest.mark.oracle
def test_values_and_errors_are_those_of_uproot(folder, need):
    uproot = need("uproot")
    compared = 0
    with uproot.open(folder / "0.root") as file:
        for name, h in fb.histograms(folder / "0.root").items():
            if name.startswith("buffered") or name == "labels_fitted":  # it cannot read a formula without parameters
                continue
            other = file[name]
            compared += 1
            assert np.array_equal(h.values(flow=True), other.values(flow=True)), name
            assert h.values().dtype == other.values().dtype, name
            if h.kind == "COUNT" and (h.values(flow=True) >= 0).all():
                assert np.allclose(h.variances(flow=True), other.variances(flow=True)), name
            assert h.kind == other.kind
            assert (h.name, h.title, h.weighted) == (other.name, other.title, other.weighted) or h.kind == "MEAN"
            for axis, its in zip(h.axes, other.axes, strict=True):
                assert np.allclose(axis.edges, its.edges(), rtol=1e-14, atol=1e-14)
                assert axis.title == its.member("fTitle")
    assert compared > 60


@pytest.mark.oracle
def test_copies_keep_everything(folder, seen, tmp_path):
    """A histogram that was read is written as it was stored, with functions, limits and buffers."""
    with fb.recreate(tmp_path / "copy.root") as file:
        for name, h in fb.histograms(folder / "1.root").items():
            file[name] = h
    copied, root = seen(tmp_path / "copy.root", folder / "1.root")
    assert differences(copied, root) == {}


@pytest.mark.oracle
def test_names_are_those_of_the_keys(folder, seen, tmp_path, need):
    h = fb.histogram(f"{folder}/0.root:labels_fitted")
    with fb.recreate(tmp_path / "renamed.root") as file:
        for name in ("x", "a much longer name than it had", "deep/labels"):
            file[name] = h
    (root,) = seen(tmp_path / "renamed.root")
    (expected,) = seen(folder / "0.root")
    assert [one["name"] for one in root.values()] == [name.split("/")[-1] for name in root]
    for name in root:
        assert differences({"h": {**root[name], "name": ""}}, {"h": {**expected["labels_fitted"], "name": ""}}) == {}
    # uproot cannot read formulas without parameters
    labels = fb.histogram(f"{folder}/0.root:labels_more")
    fb.write(tmp_path / "labels.root", labels, "a much longer name than it had")
    with need("uproot").open(tmp_path / "labels.root") as file:
        found = file["a much longer name than it had"]
        assert list(map(str, found.axis().member("fLabels"))) == [label for label in labels.axes[0].labels if label]


# -- histograms of other libraries ------------------------------------------------------------------


def made(need):
    """Histograms of hist with all sorts of axes and storages."""
    hist, bh = need("hist"), need("boost_histogram")
    random = np.random.default_rng(5)
    x, y, z, w = random.normal(1, 2, (4, 500))
    regular = hist.axis.Regular(10, -3, 4, name="pt", label="p [GeV]")
    variable = hist.axis.Variable([-3, -1, 0, 0.5, 4], name="eta")
    third = hist.axis.Regular(3, 0, 1, name="phi", underflow=False)
    return {
        "plain": hist.Hist(regular).fill(x),
        "weighted": hist.Hist(regular, storage=hist.storage.Weight(), label="a title").fill(x, weight=w),
        "integers": hist.Hist(hist.axis.Integer(-2, 5, name="n"), storage=hist.storage.Int64()).fill(
            (10 * x).astype(int) % 9 - 3
        ),
        "two": hist.Hist(regular, variable).fill(x, y),
        "three": hist.Hist(regular, variable, third, storage=hist.storage.Weight()).fill(x, y, z, weight=w),
        "categories": hist.Hist(hist.axis.StrCategory(["mu", "e", "tau"], name="lepton")).fill(
            ["e", "e", "mu", "other"]
        ),
        "growing": hist.Hist(hist.axis.StrCategory([], growth=True, name="x"), regular).fill(
            ["b", "a", "b"], [0, 1, 2]
        ),
        "numbers": hist.Hist(hist.axis.IntCategory([7, 3, 5])).fill([3, 3, 7, 1]),
        "truths": hist.Hist(hist.axis.Boolean()).fill([True, False, True]),
        "circle": hist.Hist(hist.axis.Regular(4, 0, 2 * np.pi, circular=True)).fill(x),
        "empty": hist.Hist(regular),
        "boost": bh.Histogram(bh.axis.Regular(5, 0, 5, metadata="title of the axis")).fill(x),
        "means": hist.Hist(regular, storage=hist.storage.Mean()).fill(x, sample=y),
        "weighted_means": hist.Hist(regular, storage=hist.storage.WeightedMean()).fill(x, sample=y, weight=np.abs(w)),
        "means_two": hist.Hist(regular, variable, storage=hist.storage.Mean()).fill(x, y, sample=z),
    }


def with_flow(h, numbers):
    """Return the numbers with all under- and overflow bins."""
    missing = [(0 if axis.traits.underflow else 1, 0 if axis.traits.overflow else 1) for axis in h.axes]
    return np.pad(np.asarray(numbers), missing)


@pytest.mark.oracle
def test_root_reads_histograms_of_hist(need, seen, tmp_path):
    hists = made(need)
    with fb.recreate(tmp_path / "hist.root") as file:
        for name, h in hists.items():
            file[name] = h
    (root,) = seen(tmp_path / "hist.root")
    assert root.keys() == hists.keys()
    for name, h in hists.items():
        one = root[name]
        n = len(h.axes)
        is_profile = "means" in name
        assert one["class"] == (("TProfile" if n == 1 else f"TProfile{n}D") if is_profile else f"TH{n}D"), name
        assert one["name"] == name
        assert np.allclose(one["contents"], flat(with_flow(h, h.values(flow=True)))), name
        axes = one["axes of statistics of all"][:n]
        for axis, (n_bins, low, high, _, _, title, _, edges, labels) in zip(h.axes, axes, strict=True):
            assert (n_bins, low, high) == (len(axis), axis.edges[0], axis.edges[-1]), name
            assert np.allclose(edges, axis.edges, rtol=1e-14), name
            is_labelled = axis.traits.discrete and not axis.traits.ordered
            assert labels == ([str(axis.value(i)) for i in range(len(axis))] if is_labelled else [""] * len(axis)), name
            assert title in ("", axis.metadata, getattr(axis, "label", ""), getattr(axis, "name", ""))
        if is_profile:
            counts = with_flow(h, h.counts(flow=True))
            assert np.isclose(one["entries"], counts.sum() if name != "weighted_means" else one["entries"])
            continue
        weighted = h.storage_type.__name__ == "Weight"
        assert (one["squares"] > 0) == weighted, name
        assert np.allclose(np.square(one["errors"]), flat(with_flow(h, h.variances(flow=True)))), name
        if not weighted:
            assert one["entries"] == with_flow(h, h.values(flow=True)).sum(), name
    assert root["plain"]["axes of statistics"][0][5] == "p [GeV]"
    assert root["two"]["axes of statistics"][1][5] == "eta"
    assert root["weighted"]["title"] == "a title"
    assert root["boost"]["axes of statistics"][0][5] == "title of the axis"


PROFILES = """
import array, json, os, sys
import ROOT
numbers = json.loads(sys.argv[1])
p = ROOT.TProfile("p", "", 10, -3, 4)
if len(numbers) == 3:
    p.Sumw2()
for one in zip(*numbers):
    p.Fill(*one)
cells = range(p.GetNcells())
print(json.dumps([[p.GetBinContent(i) for i in cells], [p.GetBinError(i) for i in cells],
                  [p.GetBinEntries(i) for i in cells], [p.GetBinEffectiveEntries(i) for i in cells]]))
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("is_weighted", [False, True])
def test_profiles_of_hist_are_those_that_root_fills(run_root, seen, need, tmp_path, is_weighted):
    hist = need("hist")
    random = np.random.default_rng(9)
    numbers = [
        random.normal(1, 2, 300),
        random.normal(3, 1, 300),
        *([random.uniform(0, 2, 300)] if is_weighted else []),
    ]
    storage = hist.storage.WeightedMean() if is_weighted else hist.storage.Mean()
    h = hist.Hist(hist.axis.Regular(10, -3, 4), storage=storage)
    h.fill(numbers[0], sample=numbers[1], **({"weight": numbers[2]} if is_weighted else {}))
    fb.write(tmp_path / "p.root", h, "p")
    printed = run_root(PROFILES, json.dumps([it.tolist() for it in numbers])).splitlines()[-1]
    contents, errors, weights, effective = json.loads(printed)
    (root,) = seen(tmp_path / "p.root")
    assert np.allclose(root["p"]["contents"], contents)
    assert np.allclose(root["p"]["errors"], errors)
    assert np.allclose(root["p"]["entries of bins"], weights)
    own = fb.histogram(tmp_path / "p.root")
    assert np.allclose(own.errors(flow=True), errors)
    assert np.allclose(own.counts(flow=True), effective)
    again = own.to_hist()
    assert np.allclose(again.view(flow=True)["value"], h.view(flow=True)["value"])
    assert np.allclose(again.variances(), hist_variances(h), equal_nan=True) or not is_weighted


def hist_variances(h):
    return h.variances()


def test_hist_comes_back_equal(need, tmp_path):
    hists = made(need)
    with fb.recreate(tmp_path / "hist.root") as file:
        for name, h in hists.items():
            file[name] = h
    for name, own in fb.histograms(tmp_path / "hist.root").items():
        h = hists[name]
        assert np.allclose(own.values(), h.values()), name
        if own.kind == "COUNT":
            assert np.allclose(own.variances(), h.variances()), name
            back = own.to_hist()
            assert np.array_equal(back.values(), h.values()), name
            assert np.allclose(back.variances(), h.variances()), name
        assert own.to_boost().kind == h.kind


NOT_WRITTEN_BY_UPROOT = [
    *("circle", "growing", "truths", "numbers", "categories", "integers"),
    *("means", "weighted_means", "means_two"),
]


def test_uproot_reads_what_is_written_and_the_other_way_round(need, tmp_path):
    uproot, hists = need("uproot"), made(need)
    with fb.recreate(tmp_path / "own.root") as file, uproot.recreate(tmp_path / "uproot.root") as other:
        for name, h in hists.items():
            file[name] = h
            if name not in NOT_WRITTEN_BY_UPROOT:
                other[name] = h
    with uproot.open(tmp_path / "own.root") as read:
        for name, h in hists.items():
            found = read[name]
            assert np.allclose(found.values(), h.values()), name
            assert found.kind == h.kind.value
            if h.kind.value == "COUNT":
                assert np.allclose(found.variances(), np.abs(h.variances())), name
    for name, found in fb.histograms(tmp_path / "uproot.root").items():
        assert np.allclose(found.values(), hists[name].values()), name
        assert np.allclose(found.variances(), hists[name].variances()), name
    # what uproot has read is a histogram, too
    with uproot.open(tmp_path / "own.root") as read, fb.recreate(tmp_path / "again.root") as file:
        for name in ("plain", "weighted", "two", "three", "categories"):
            file[name] = read[name]
    for name, found in fb.histograms(tmp_path / "again.root").items():
        assert np.allclose(found.values(), hists[name].values()), name
        assert found.axes[0].title == fb.histogram(tmp_path / "own.root", name).axes[0].title


def test_results_of_numpy_are_written(tmp_path):
    random = np.random.default_rng(1)
    x, y, z = random.normal(0, 1, (3, 100))
    results = {
        "one": np.histogram(x, bins=12),
        "edges": np.histogram(x, bins=[-1, 0, 0.5, 2]),
        "two": np.histogram2d(x, y, bins=[3, 4]),
        "three": np.histogramdd(np.array([x, y, z]).T, bins=(2, 3, 4)),
        "single": (np.array([1, 2], np.float32), np.array([0.0, 1, 2])),
    }
    with fb.recreate(tmp_path / "numpy.root") as file:
        for name, result in results.items():
            file[name] = result
    found = fb.histograms(tmp_path / "numpy.root")
    for name, (counts, *edges) in results.items():
        edges = edges[0] if isinstance(edges[0], (list, tuple)) else edges
        values, *own = found[name].to_numpy()
        assert np.array_equal(values, counts)
        assert all(np.allclose(a, b, rtol=1e-14, atol=1e-15) for a, b in zip(own, edges, strict=True))
    assert [h.classname for h in found.values()] == ["TH1D", "TH1D", "TH2D", "TH3D", "TH1F"]
    assert [h.axes[0].is_regular for h in found.values()] == [True, False, True, True, True]
    assert found["one"].entries == 100


def test_results_of_numpy_in_single_precision_and_of_awkward_arrays_are_written(tmp_path):
    x = np.linspace(0, 0.9, 50, dtype=np.float32)
    with fb.recreate(tmp_path / "h.root") as file:
        file["single"] = np.histogram(x, 20, range=(0, 1))
        file["odd"] = np.histogram(x, np.array([0, 0.1, 0.5], np.float32))
        file["awkward"] = np.histogram(ak.Array(x), 20, range=(0, 1))
        file["planes"] = np.histogram2d(ak.Array(x), ak.Array(x), 4)
    found = fb.histograms(tmp_path / "h.root")
    assert [h.axes[0].is_regular for h in found.values()] == [True, False, True, True]
    assert np.array_equal(found["single"].axes[0].edges, np.linspace(0, 1, 21))
    assert found["single"].values().tolist() == found["awkward"].values().tolist()
    assert [h.entries for h in found.values()] == [50, 28, 50, 50]


def test_labels_of_an_axis_that_root_has_doubled_become_categories(run_root, tmp_path):
    path = tmp_path / "labels.root"
    run_root(
        """
import sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
h, p = ROOT.TH1D("h", "", 3, 0, 3), ROOT.TH2D("p", "", 2, 0, 2, 3, 0, 3)
for i, label in enumerate("abcd"):
    h.Fill(label, i + 1)
    p.Fill(0.5, label, i + 1)
late = ROOT.TH1D("late", "", 3, 0, 3)
late.GetXaxis().SetBinLabel(1, "a")
late.Fill(2.5)
file.Write()
""",
        path,
    )
    h, p, late = (fb.histogram(path, name).to_hist() for name in ("h", "p", "late"))
    assert list(h.axes[0]) == list(p.axes[1]) == ["a", "b", "c", "d"]
    assert h.values().tolist() == p.values()[0].tolist() == [1, 2, 3, 4]
    assert h.values(flow=True).tolist() == [1, 2, 3, 4, 0]
    assert late.values(flow=True).tolist() == [0, 0, 0, 1, 0]


def test_any_object_with_the_protocol_is_written(tmp_path):
    class Axis:
        traits = AxisTraits()

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return [(0.0, 1.0), (1.0, 3.0)][i]

    class Plottable:
        kind = "COUNT"
        axes = (Axis(),)

        def values(self):
            return np.array([3, 4], np.int16)

        def variances(self):
            return np.array([1.0, 2.0])

        def counts(self):
            return self.values()

    class Profile(Plottable):
        kind = "MEAN"

        def counts(self):
            return np.array([4.0, 9.0])

    with fb.recreate(tmp_path / "any.root") as file:
        file["counts"], file["means"] = Plottable(), Profile()
    counts, means = fb.histograms(tmp_path / "any.root").values()
    assert (counts.classname, means.classname) == ("TH1S", "TProfile")
    for own in (counts, means):
        assert own.values().tolist() == [3, 4]
        assert np.allclose(own.variances(), [1, 2])
        assert own.axes[0].edges.tolist() == [0, 1, 3]
        assert own.axes[0][1] == (1.0, 3.0)
    assert means.counts().tolist() == [4, 9]


def test_all_element_types_come_back(folder, need, tmp_path):
    hist = need("hist")
    for letter, dtype in zip("CSILFD", ["int8", "int16", "int32", "int64", "float32", "float64"], strict=True):
        for name in ("one", "two", "three"):
            h = fb.histogram(folder / "0.root", f"{name}_{letter}")
            assert h.values().dtype == dtype
            assert isinstance(h.to_hist(), hist.Hist)
            assert h.to_hist().values(flow=True).tolist() == h.values(flow=True).tolist()
    plottable = need("uhi.typing.plottable").PlottableHistogram
    assert isinstance(h, plottable)
    assert need("hist").Hist(h).values().tolist() == h.values().tolist()


# -- the rest ---------------------------------------------------------------------------------------


def test_pickled_histograms_are_complete(folder, tmp_path):
    for name, h in fb.histograms(
        folder / "0.root", filter_name=["fitted", "labels_fitted", "one_L", "profile2"]
    ).items():
        again = pickle.loads(pickle.dumps(h))
        assert (again.name, again.classname, again.title) == (name, h.classname, h.title)
        assert np.array_equal(again.values(flow=True), h.values(flow=True))
        fb.write(tmp_path / "a.root", h, "h")
        fb.write(tmp_path / "b.root", again, "h")
        a, b = (fb.histogram(tmp_path / f"{it}.root") for it in "ab")
        assert a._core.to_bytes()[300:] == b._core.to_bytes()[300:]


def test_several_files_are_added_as_merge_adds_them(folder, tmp_path):
    paths = [folder / f"{number}.root" for number in range(3)]
    fb.merge(paths, tmp_path / "merged.root")
    merged = fb.histograms(tmp_path / "merged.root", filter_name=["labels_more", "grown_TH1D_both", "profile_weighted"])
    for name, h in merged.items():
        both = [fb.histogram(paths, name), fb.histogram(f"{folder}/[0-2].root:{name}")]
        for own in both:
            assert np.array_equal(own.values(flow=True), h.values(flow=True))
            assert own.statistics == h.statistics
    assert np.array_equal(fb.histograms(paths)["one_D"].values(), fb.histogram(paths, "one_D").values())


def test_files_that_exist_are_added_to(dimuon, need, tmp_path):
    path = tmp_path / "both.root"
    fb.clone(dimuon, path)
    with fb.update(path) as file:
        file["plots/h"] = np.histogram([1.0, 2.0])
        with pytest.raises(fb.UsageError, match="already: use another name"):
            file["plots/h"] = np.histogram([1.0, 2.0])
    assert fb.histogram(f"{path}:plots/h").entries == 2
    assert fb.open(path).verify().ok
    assert need("uproot").open(path)["plots/h"].values().sum() == 2


@pytest.mark.parametrize("kind", ["xrootd", "nginx"])
def test_remote_files_need_few_requests(kind, folder, need_program, tmp_path):
    need_program(kind)
    server = servers.KINDS[kind]()
    try:
        url = server.url if kind == "xrootd" else f"{server.url}/dav"
        with fb.recreate(f"{url}/h.root") as file:
            for name, h in fb.histograms(folder / "0.root").items():
                file[name] = h
        found = fb.histograms(f"{url}/h.root")
        local = fb.histograms(folder / "0.root")
        assert found.keys() == local.keys()
        assert np.array_equal(found["profile3"].errors(flow=True), local["profile3"].errors(flow=True))
        assert fb.histogram(f"{url}/h.root:one_D").entries == local["one_D"].entries
    finally:
        server.close()


def test_errors_say_what_to_do(folder, dimuon, need, tmp_path):
    hist = need("hist")
    path = folder / "0.root"
    with pytest.raises(fb.UsageError, match=r"has \d+ histograms; name one of them: one_C, two_C"):
        fb.histogram(path)
    with pytest.raises(fb.KeyNotFoundError, match="one_D"):
        fb.histogram(path, "one_d")
    with pytest.raises(fb.UsageError, match="is a ROOT::RNTuple, not a histogram"):
        fb.histogram(f"{dimuon}:Events")
    with pytest.raises(fb.UsageError, match="1 to 3 axes, not 4"):
        fb.write(tmp_path / "h.root", hist.Hist(*[hist.axis.Regular(2, 0, 1, name=n) for n in "abcd"]), "h")
    with pytest.raises(fb.UsageError, match="not finite and increasing"):
        fb.write(tmp_path / "h.root", (np.array([1, 2]), np.array([0, 1, np.inf])), "h")
    with pytest.raises(fb.UsageError, match="integers above"):
        fb.write(tmp_path / "h.root", (np.array([2**60 + 1]), np.array([0.0, 1.0])), "h")
    with pytest.raises(fb.UsageError, match="a histogram needs a name"):
        fb.write(tmp_path / "h.root", np.histogram([1.0]))
    assert not (tmp_path / "h.root").exists()


def test_drawings_show_the_bins(need, capsys, tmp_path):
    hist = need("hist")
    fb.write(tmp_path / "h.root", hist.Hist(hist.axis.Regular(4, 0, 4, label="<x>")).fill([0.5, 1.5, 1.5, 9]), "h")
    h = fb.histogram(tmp_path / "h.root")
    h.show()
    text = capsys.readouterr().out
    assert "4 entries" in text
    assert "overflow 1" in text
    assert "█" in text
    assert "&lt;x&gt;" in h._repr_html_()
    assert "<x>" not in h._repr_html_()
    assert repr(h) == "<TH1D 'h', 4 entries; xaxis '<x>': 4 bins from 0 to 4>"


def test_histograms_are_added_to_those_of_hist_and_by_sum(tmp_path):
    hist = pytest.importorskip("hist")
    filled = hist.Hist.new.Reg(4, 0, 4, name="x").Weight().fill([0.5, 1.5, 1.6], weight=[1, 2, 3])
    fb.write(tmp_path / "h.root", filled, name="h")
    h = fb.histogram(tmp_path / "h.root")
    expected = 2 * filled.values(flow=True), 2 * filled.variances(flow=True)
    for total in (h + h, h + filled, sum([h, h])):
        assert np.array_equal(total.values(flow=True), expected[0])
        assert np.array_equal(total.variances(flow=True), expected[1])
    with pytest.raises(TypeError):
        h + 1
