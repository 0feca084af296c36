"""Skimming: the output has the entries that awkward's masks select."""

import math

import awkward as ak
import numpy as np
import pytest
import uproot
from compare import same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_merge import events

import femtobarn as fb

N = 2000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a file of some clusters, and its content."""
    path = tmp_path_factory.mktemp("skim") / "events.root"
    array = events(N, 5, more=True)
    with fb.recreate(path, compression="zstd:5") as file:
        nt = file.mkrntuple("Events", array[:0], cluster_size="20 kB", page_size=2000)
        for start in range(0, N, 400):
            nt.extend(array[start : start + 400])
    return path, fb.open(path).arrays()


MASKS = {
    "i > 50": lambda a: a.i > 50,
    "-20 <= i < 30 and flag": lambda a: (a.i >= -20) & (a.i < 30) & a.flag,
    "len(v) == 3": lambda a: ak.num(a.v) == 3,
    "any(v > 1.5)": lambda a: ak.any(a.v > 1.5, axis=1),
    "all(jets.pt > 0) && jets.size() > 0": lambda a: ak.all(a.jets.pt > 0, axis=1) & (ak.num(a.jets) > 0),
    "count(jets.id == 3) >= 2": lambda a: ak.sum(a.jets.id == 3, axis=1) >= 2,
    "Sum(v[v > 0]) > 1": lambda a: ak.sum(a.v[a.v > 0], axis=1) > 1,
    "v[0] < v[1]": lambda a: ak.fill_none(ak.pad_none(a.v, 2)[:, 0] < ak.pad_none(a.v, 2)[:, 1], False),
    "s == 'text 5'": lambda a: a.s == "text 5",
    "s in ['', 'text 5text 5']": lambda a: (a.s == "") | (a.s == "text 5text 5"),
    "r.a >= 8 or r.b > 2": lambda a: (a.r.a >= 8) | (a.r.b > 2),
    "any(any(matrix > 2.5))": lambda a: ak.any(ak.any(a.matrix > 2.5, axis=2), axis=1),
    "i > 1000": lambda a: a.i > 1000,
    "i < 1000": lambda a: a.i < 1000,
    "number == 0": lambda a: a.number == 0,
    "number >= 2998.5": lambda a: a.number >= 2998.5,
}


@pytest.mark.parametrize("where", MASKS)
@pytest.mark.parametrize(
    "options", [{}, {"cluster_size": 20_000, "page_size": 1000}, {"compression": "lz4:1"}], ids=str
)
def test_a_skim_is_what_a_mask_takes(written, tmp_path, where, options):
    path, array = written
    mask = MASKS[where](array)
    report = fb.skim(path, tmp_path / "out.root", where, **options)
    nt = fb.open(tmp_path / "out.root")
    assert nt.verify().ok
    assert report.entries["Events"] == nt.num_entries == ak.sum(mask)
    assert same(nt.arrays(), array[mask]) or nt.num_entries == 0
    assert nt.typenames() == fb.open(path).typenames()
    if ak.all(mask) and not options:
        assert report.levels["L4"] == report.levels["L2"] == 0


def test_fields_need_not_be_those_of_the_condition(written, tmp_path):
    path, array = written
    mask = MASKS["any(v > 1.5)"](array)
    fb.skim(path, tmp_path / "out.root", "any(v > 1.5)", fields=["i", "s"])
    nt = fb.open(tmp_path / "out.root")
    assert nt.keys() == ["i", "s"]
    assert same(nt.arrays(), array[mask][["i", "s"]])


def test_columns_that_are_not_asked_for_are_not_read(written, tmp_path):
    path, _ = written
    report = fb.skim(path, tmp_path / "out.root", "i > 50", fields=["i"])
    both = fb.skim(path, tmp_path / "both.root", "i > 50", fields=["i", "matrix"])
    assert 0 < report.levels["L4"] < both.levels["L4"] / 4
    # clusters without a selected entry are not read
    one = fb.skim(path, tmp_path / "one.root", "number == 0")
    assert one.levels["L4"] < sum(cluster.bytes_on_disk for cluster in fb.open(path).clusters) / 3


def test_several_files_become_one(written, tmp_path):
    path, array = written
    fb.write(tmp_path / "b.root", array[:777], name="Events", compression="none")
    mask = MASKS["i > 50"]
    inputs = [tmp_path / "b.root", path, tmp_path / "b.root"]
    report = fb.skim(inputs, tmp_path / "out.root", "i > 50")
    wanted = ak.concatenate([part[mask(part)] for part in (array[:777], array, array[:777])])
    nt = fb.open(tmp_path / "out.root")
    assert nt.verify().ok
    assert same(nt.arrays(), wanted)
    # the remaining entries of small clusters are gathered
    assert len(nt.clusters) == 1
    assert [entry["ntuples"]["Events"]["entries"] for entry in report.inputs] == [
        ak.sum(mask(part)) for part in (array[:777], array, array[:777])
    ]


def test_a_file_without_the_column_is_told(written, tmp_path):
    path, array = written
    fb.write(tmp_path / "b.root", array[["v", "s"]], name="Events")
    for inputs in ([path, tmp_path / "b.root"], [tmp_path / "b.root", path]):
        with pytest.raises(fb.KeyNotFoundError, match=r'b\.root:Events has no field "i"'):
            fb.skim(inputs, tmp_path / "out.root", "i > 50 and any(v > 0)", fields=["v", "s"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.root"]


@pytest.fixture
def both(tmp_path):
    """Return a file with two ntuples."""
    fb.write(tmp_path / "a.root", {"x": [1, 2, 3], "run": [1, 1, 2]}, name="Events")
    fb.write(tmp_path / "b.root", {"run": [1, 2], "weight": [0.5, 1.5]}, name="Runs")
    fb.merge([tmp_path / "a.root", tmp_path / "b.root"], tmp_path / "both.root")
    return tmp_path / "both.root"


@pytest.mark.parametrize("others", [[], [1]], ids=["one file", "two files"])
def test_ntuples_without_columns_of_the_condition_are_copied_as_a_whole(both, tmp_path, others):
    inputs, out = [both, *(both for _ in others)], tmp_path / "out.root"
    n = len(inputs)
    report = fb.skim(inputs, out, "x > 1", verify=True)
    assert (report.entries, report.whole) == ({"Events": 2 * n, "Runs": 2 * n}, ("Runs",))
    assert f"Runs: {2 * n} (as a whole)" in repr(report)
    assert fb.open(f"{out}:Runs").arrays()["weight"].tolist() == [0.5, 1.5] * n
    assert fb.open(f"{out}:Events").arrays()["x"].tolist() == [2, 3] * n
    named = fb.skim(f"{both}:Events", out, "x > 1", overwrite=True)
    assert (named.entries, named.whole) == ({"Events": 2}, ())


def test_fields_select_from_ntuples_that_are_not_copied_as_a_whole(both, tmp_path):
    """The sums of weights of a NanoAOD file are kept, whichever branches of the events are named."""
    out = tmp_path / "out.root"
    for fields in (["x"], ["run"]):  # Runs has a field "run", too
        report = fb.skim([both, both], out, "x > 1", fields=fields, verify=True, overwrite=True)
        assert (report.entries, report.whole, report.left_behind) == ({"Events": 4, "Runs": 4}, ("Runs",), ())
        assert (fb.open(f"{out}:Events").keys(), fb.open(f"{out}:Runs").keys()) == (fields, ["run", "weight"])
    report = fb.skim(both, out, "run == 2", fields="x", verify=True, overwrite=True)
    assert (report.entries, report.whole) == ({"Events": 1, "Runs": 1}, ())
    assert fb.open(f"{out}:Runs").arrays()["weight"].tolist() == [1.5]
    with pytest.raises(fb.KeyNotFoundError, match='no field "y"'):
        fb.skim(both, out, "x > 1", fields=["x", "y"], overwrite=True)


def test_ntuples_with_all_columns_of_the_condition_are_all_cut(both, tmp_path):
    report = fb.skim(both, tmp_path / "out.root", "run == 2", verify=True)
    assert (report.entries, report.whole) == ({"Events": 1, "Runs": 1}, ())


def test_the_nearest_ntuple_is_named_if_none_has_the_columns(both, tmp_path):
    names = r'both\.root:Events has no field "y".*no other ntuple has all columns'
    with pytest.raises(fb.KeyNotFoundError, match=names):
        fb.skim(both, tmp_path / "out.root", "x > 1 and y > 1")
    with pytest.raises(fb.KeyNotFoundError, match=r'Runs has no field "weigth"; did you mean weight'):
        fb.skim(both, tmp_path / "out.root", "weigth > 1")
    with pytest.raises(fb.KeyNotFoundError, match=r'b\.root:Runs has no field "x"$'):
        fb.skim(tmp_path / "b.root", tmp_path / "out.root", "x > 1")


def test_whether_an_ntuple_is_cut_cannot_differ_between_files(both, tmp_path):
    """Entries that the condition was meant for would be kept."""
    fb.write(tmp_path / "c.root", {"run": [1, 2], "weight": [0.5, 1.5], "x": [0, 1]}, name="Runs")
    with pytest.raises(fb.KeyNotFoundError, match=r'both\.root:Runs has no field "x"; .*c\.root has all columns'):
        fb.skim([both, tmp_path / "c.root"], tmp_path / "out.root", "x > 0")
    with pytest.raises(fb.KeyNotFoundError, match=r'both\.root:Runs has no field "x"; .*in other files'):
        fb.skim([tmp_path / "c.root", both], tmp_path / "out.root", "x > 0")
    assert not (tmp_path / "out.root").exists()


def test_runs_of_a_nanoaod_file_are_kept(shared, tmp_path):
    path, out = shared / "ttree/nano_dy.root", tmp_path / "out.root"
    report = fb.skim(path, out, "nMuon >= 2", verify=True)
    assert "Runs" in report.whole
    assert report.entries["Events"] == int(ak.sum(fb.open(f"{path}:Events").arrays(["nMuon"]).nMuon >= 2))
    with uproot.open(path) as given, uproot.open(out) as found:
        for name in report.whole:
            tree = given[name]
            assert found[name].num_entries == tree.num_entries
            weights = [it.name for it in tree.branches if type(it.interpretation).__name__ == "AsDtype"]
            assert weights
            for key in weights:
                assert same(found[name][key].array(), tree[key].array())
    fb.convert(path, tmp_path / "whole.root")
    proof = fb.open(f"{out}:Events").verify(against=tmp_path / "whole.root", where="nMuon >= 2")
    assert proof.ok


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("i >", "i >"),
        ("", "expected a value"),
        ("v > 1", r"any\("),
        ("i + 1", "!= 0"),
        ("s > 3", "s"),
        ("nothing > 3", '"nothing"'),
        ("jets > 3", "jets"),
        ("foo(i)", "foo"),
    ],
)
def test_conditions_that_make_no_sense_are_told_before_anything_is_written(written, tmp_path, where, message):
    with pytest.raises(fb.FemtobarnError, match=message):
        fb.skim(written[0], tmp_path / "out.root", where)
    assert list(tmp_path.iterdir()) == []


def test_lists_of_different_lengths_name_the_entry_and_leave_nothing(tmp_path):
    fb.write(tmp_path / "in.root", {"a": [[1], [1, 2], []], "b": [[1], [1], []]}, name="e")
    with pytest.raises(fb.FemtobarnError, match=r"entry 1"):
        fb.skim(tmp_path / "in.root", tmp_path / "out.root", "any(a > b)")
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.root"]


def test_missing_values_are_not_taken(tmp_path):
    values = ak.Array({"x": [1.5, None, -1.0, math.nan, 3.0], "n": [1, 2, 3, 4, 5]})
    fb.write(tmp_path / "in.root", values, name="e")
    for where, wanted in [("x > 0", [1, 5]), ("not (x > 0)", [2, 3, 4]), ("is_missing(x)", [2]), ("isnan(x)", [4])]:
        fb.skim(tmp_path / "in.root", tmp_path / "out.root", where, overwrite=True)
        assert fb.open(tmp_path / "out.root")["n"].array().to_list() == wanted, where


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mask_in_any_clusters(written, tmp_path, data):
    _, array = written
    draw = data.draw
    kind = draw(st.sampled_from(["random", "runs", "few"]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == "random":
        mask = random.random(N) < draw(st.sampled_from([0.01, 0.5, 0.99]))
    elif kind == "runs":
        mask = np.repeat(random.random(N // 40) < 0.5, 40)
    else:
        mask = np.isin(np.arange(N), draw(st.lists(st.integers(0, N - 1), max_size=4)))
    inputs, output = tmp_path / "in.root", tmp_path / "out.root"
    whole = ak.with_field(array, mask, "mask")
    with fb.recreate(inputs, compression=draw(st.sampled_from(["none", "zstd:1"]))) as file:
        size = draw(st.sampled_from([2000, 50_000, 10**8]))
        nt = file.mkrntuple("Events", whole[:0], cluster_size=size, page_size=draw(st.sampled_from([64, 10**4])))
        nt.extend(whole)
    options = {"cluster_size": draw(st.sampled_from([1000, 40_000, 10**8])), "threads": draw(st.integers(1, 3))}
    fb.skim(inputs, output, "mask", overwrite=True, **options)
    nt = fb.open(output)
    assert nt.verify().ok
    assert nt.num_entries == mask.sum()
    assert mask.sum() == 0 or same(nt.arrays(), whole[mask])


COUNT = """
import os, sys
import ROOT
n = ROOT.RNTupleReader.Open("Events", sys.argv[1]).GetNEntries()
if n == 0:
    # RDataFrame of ROOT 6.40 crashes for such an ntuple, also for its own
    print(0, 0, 0, 0, flush=True)
    os._exit(0)
frame = ROOT.RDataFrame("Events", sys.argv[1])
print(frame.Count().GetValue(), frame.Sum("i").GetValue(), frame.Define("t", "Sum(v)").Sum("t").GetValue(),
      frame.Define("l", "(int)s.size()").Sum("l").GetValue(), flush=True)
os._exit(0)
"""


@pytest.mark.oracle
def test_root_and_uproot_read_what_was_skimmed(written, tmp_path, run_root, need):
    path, array = written
    for where in ("any(v > 1.5)", "i > 1000"):
        output = tmp_path / "out.root"
        fb.skim(path, output, where, cluster_size=20_000, overwrite=True)
        wanted = array[MASKS[where](array)]
        found = [float(text) for text in run_root(COUNT, output).split()]
        lengths = sum(map(len, wanted["s"].to_list()))
        total = [len(wanted), ak.sum(wanted["i"]), ak.sum(ak.values_astype(wanted["v"], "f8")), lengths]
        np.testing.assert_allclose(found, total, rtol=1e-5, atol=1e-3)
        read = need("uproot").open(output)["Events"].arrays()
        assert {name: read[name].to_list() for name in read.fields} == {
            name: wanted[name].to_list() for name in read.fields
        }
