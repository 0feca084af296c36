"""Cloning and reshaping: values stay, and only what is necessary is rewritten."""

import itertools
import re

import awkward as ak
import numpy as np
import pytest
from compare import left_behind, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_merge import FILES, events

import femtobarn as fb

# all clusters are rebuilt, as the number of elements that are not stored depends on preceding clusters
LATE_ITEMS = ("extension_nested", "extension_nested_pages", "nested_deferred")
N = 3000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a file of some clusters, and its content."""
    path = tmp_path_factory.mktemp("reshape") / "events.root"
    array = events(N, 11, more=True)
    with fb.recreate(path, compression="zstd:5") as file:
        nt = file.mkrntuple("Events", array[:0], cluster_size="20 kB", page_size=2000)
        for start in range(0, N, 500):
            nt.extend(array[start : start + 500])
    nt = fb.open(path)
    assert len(nt.clusters) > 4
    return path, nt.arrays()


def clusters(nt):
    return [(cluster.first_entry, cluster.num_entries) for cluster in nt.clusters]


def borders(nt):
    """Return entries at and next to the borders of the first clusters and the last."""
    ends = [0, *(start + size for start, size in clusters(nt))]
    near = {end + step for end in ends[:3] + ends[-2:] for step in (-1, 0, 1)}
    return sorted(entry for entry in near if 0 <= entry <= nt.num_entries)


def ranges(nt):
    """Return some ranges from and to every border, and empty ones."""
    n = nt.num_entries
    ends = borders(nt)
    return sorted({(0, end) for end in ends} | {(end, n) for end in ends} | {*itertools.pairwise(ends), (n, n)})


def cut_out(array, start, stop):
    """Return a slice, which awkward does not support if it ends before it begins."""
    start, stop, _ = slice(start, stop).indices(len(array))
    return array[start : max(start, stop)]


def cut(nt, start, stop):
    """Return the clusters of which only some entries are in a range."""
    for cluster in nt.clusters:
        first, last = cluster.first_entry, cluster.first_entry + cluster.num_entries
        if max(first, start) < min(last, stop) and not start <= first < last <= stop:
            yield cluster


def cut_only(nt, start, stop):
    """Return whether some clusters are kept."""
    return any(start <= first and first + size <= stop for first, size in clusters(nt))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ranges_of_all_files_are_slices_and_rebuild_only_what_they_cut(path, tmp_path):
    output = tmp_path / "out.root"
    for name in fb.clone(path, output, others="drop").entries:
        one = fb.open({path: name})
        whole = one.arrays()
        all_bytes = fb.clone({path: name}, output, level="L4", others="drop", overwrite=True).levels["L4"]
        for start, stop in ranges(one):
            where = (path.stem, name, start, stop)
            report = fb.clone({path: name}, output, entries=(start, stop), others="drop", overwrite=True)
            two = fb.open({output: name})
            assert report.entries[name] == two.num_entries == stop - start, where
            assert two.verify().ok, where
            # of an empty range there is nothing to compare, and an array may exist or not
            if stop > start and whole.fields:
                assert same(two.arrays(), whole[start:stop]), where
            if path.stem not in LATE_ITEMS and not any(cut(one, start, stop)):
                assert report.levels["L4"] == 0, where
            elif path.stem not in LATE_ITEMS and cut_only(one, start, stop):
                assert 0 < report.levels["L4"] < all_bytes or all_bytes == 0, where
            assert report.levels["L3"] == report.levels["L2"] == 0, where


@pytest.mark.parametrize(
    "entries",
    [
        slice(None),
        slice(0),
        slice(1),
        slice(-1, None),
        slice(-700, -200),
        slice(100, 10**30),
        slice(5, 3),
        slice(-(10**30), 7),
        range(700),
        range(13, 2000),
        range(0),
        (None, 20),
        (-5, None),
        (np.int64(3), 1e3),
    ],
    ids=str,
)
def test_entries_are_what_a_slice_takes(written, tmp_path, entries):
    path, array = written
    fb.clone(path, tmp_path / "out.root", entries=entries)
    start, stop = (entries.start, entries.stop) if isinstance(entries, slice | range) else entries
    wanted = cut_out(array, *(None if number is None else int(number) for number in (start, stop)))
    found = fb.open(tmp_path / "out.root").arrays()
    assert len(found) == len(wanted)
    assert same(found, wanted) or len(found) == 0


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (slice(0, 10, 2), "step 1"),
        (range(10, 0, -1), "step 1"),
        (range(-5, 5), "step 1 and no negative"),
        ((1, 2, 3), "a pair of numbers"),
        (5, "a pair of numbers"),
        ("1:2", "a pair of numbers"),
        (slice(0.5, None), "must be integers"),
        (("a", "b"), "must be integers"),
    ],
    ids=str,
)
def test_entries_that_make_no_sense_are_told(written, tmp_path, entries, message):
    with pytest.raises(fb.UsageError, match=message):
        fb.clone(written[0], tmp_path / "out.root", entries=entries)
    with pytest.raises(fb.UsageError, match="counted in one file, but there are 2"):
        fb.clone([written[0]] * 2, tmp_path / "out.root", entries=slice(5))
    assert not (tmp_path / "out.root").exists()


def test_fields_come_without_decompressing_a_page(written, tmp_path, dimuon):
    path, array = written
    for fields in ["i", ["v", "s"], "*a*", ["jets", "r"]]:
        report = fb.clone(path, tmp_path / "out.root", fields=fields, overwrite=True)
        assert not any(report.levels[level] for level in ("L2", "L3", "L4", "zeros"))
        nt = fb.open(tmp_path / "out.root")
        assert nt.verify().ok
        assert set(nt.keys(recursive=False)) < set(array.fields)
        assert same(nt.arrays(), array[nt.arrays().fields])
    # a projected field brings its source column and the offsets
    report = fb.clone(dimuon, tmp_path / "out.root", fields="Muon_pt", overwrite=True)
    nt, before = fb.open(tmp_path / "out.root"), fb.open(dimuon)
    assert report.levels["L0"] + report.levels["L1"] < sum(c.bytes_on_disk for c in before.clusters) / 2
    assert same(nt["Muon_pt"].array(), before["Muon_pt"].array())
    assert nt.keys(recursive=False) == ["_collection0", "nMuon", "Muon_pt"]
    assert nt.keys("_collection0.*") == ["_collection0.Muon_pt"]
    # also with entries
    fb.clone(dimuon, tmp_path / "out.root", fields="Muon_pt", entries=slice(3999, 8001), overwrite=True)
    assert same(fb.open(tmp_path / "out.root")["Muon_pt"].array(), before["Muon_pt"].array()[3999:8001])


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_range_in_any_clusters_is_a_slice(written, tmp_path, data):
    path, array = written
    draw = data.draw
    size, page = draw(st.sampled_from([3000, 30_000, 10**8])), draw(st.sampled_from([64, 1000, 10**6]))
    threads = draw(st.integers(1, 3))
    shaped, output = tmp_path / "shaped.root", tmp_path / "out.root"
    fb.reshape(path, shaped, cluster_size=size, page_size=page, threads=threads, overwrite=True)
    start, stop = draw(st.integers(-N - 5, N + 5)), draw(st.integers(-N - 5, N + 5))
    fb.clone(shaped, output, entries=slice(start, stop), threads=threads, overwrite=True)
    nt = fb.open(output)
    assert nt.verify().ok
    wanted = cut_out(array, start, stop)
    assert nt.num_entries == len(wanted)
    assert len(wanted) == 0 or same(nt.arrays(), wanted)


INSPECT = """
import sys, os
import ROOT
inspector = ROOT.Experimental.RNTupleInspector.Create("Events", sys.argv[1])
for column in range(inspector.GetDescriptor().GetNPhysicalColumns()):
    info = inspector.GetColumnInspector(column)
    bits = inspector.GetDescriptor().GetColumnDescriptor(column).GetBitsOnStorage()
    print(column, ROOT.ROOT.Internal.RColumnElementBase.GetColumnTypeName(info.GetType()), bits, info.GetNPages(),
          info.GetNElements(), flush=True)
os._exit(0)
"""


def inspected(run_root, path):
    """Return type, bits, pages and elements of each column, as ROOT sees them."""
    lines = [line.split() for line in run_root(INSPECT, path).splitlines()]
    return [(line[1], *map(int, line[2:])) for line in lines]


@pytest.mark.oracle
@pytest.mark.parametrize("page_size", [512, 4000, "1 MB"])
def test_pages_have_the_size_that_was_asked_for(written, tmp_path, run_root, page_size):
    path, array = written
    output = tmp_path / "out.root"
    fb.reshape(path, output, page_size=page_size)
    nt = fb.open(output)
    assert clusters(nt) == clusters(fb.open(path))
    assert same(nt.arrays(), array)
    most = page_size if isinstance(page_size, int) else 10**6
    for _, bits, pages, elements in inspected(run_root, output):
        each = most * 8 // bits
        # no page is larger, and in each cluster only the last ones are smaller
        assert -(-elements // each) <= pages <= elements // each + 2 * len(nt.clusters)


@pytest.mark.parametrize("cluster_size", [5000, 40_000, "1 MB"])
def test_clusters_have_the_size_that_was_asked_for(written, tmp_path, cluster_size):
    path, array = written
    output = tmp_path / "out.root"
    report = fb.reshape(path, output, cluster_size=cluster_size)
    nt = fb.open(output)
    assert nt.verify().ok
    assert same(nt.arrays(), array)
    assert report.levels["L4"] > 0
    assert report.levels["L0"] == report.levels["L1"] == report.levels["L2"] == report.levels["L3"] == 0
    sizes = [cluster.bytes_on_disk for cluster in nt.clusters]
    if cluster_size == "1 MB":
        assert len(sizes) == 1
    else:
        assert all(cluster_size / 2 < size < 2 * cluster_size for size in sizes[:-1])


def column(nt, name):
    return nt[name].columns[0]


def test_encodings_are_those_that_were_asked_for(written, tmp_path):
    path, array = written
    plain, split = tmp_path / "plain.root", tmp_path / "split.root"
    report = fb.reshape(path, plain, encoding="plain")
    assert report.levels["L3"] > 0
    assert report.levels["L4"] == report.levels["L2"] == 0
    names = ["i", "x", "v", "jets.pt", "jets", "number"]
    types = ["Int64", "Real32", "Index64", "Real64", "Index64", "Real64"]
    assert [column(fb.open(plain), name)["type"] for name in names] == types
    fb.reshape(plain, split, encoding="split")
    assert [column(fb.open(split), name)["type"] for name in names] == [f"Split{name}" for name in types]
    assert clusters(fb.open(plain)) == clusters(fb.open(split)) == clusters(fb.open(path))
    for output in (plain, split):
        assert fb.open(output).verify().ok
        assert same(fb.open(output).arrays(), array)
    # a file that has the requested form stays as it is
    report = fb.reshape(split, plain, encoding="split", overwrite=True)
    assert report.levels["L2"] == report.levels["L3"] == report.levels["L4"] == 0


def test_precision_keeps_values_within_its_bounds(written, tmp_path):
    path, array = written
    output = tmp_path / "out.root"
    asked = {"x": 16, "jets.pt": (20, -10, 10), "r.b": (32, -6.0, 6.0), "v": 31}
    fb.reshape(path, output, precision=asked)
    nt = fb.open(output)
    assert nt.verify().ok
    found = nt.arrays()
    others = [name for name in array.fields if name not in ("x", "jets", "r", "v")]
    assert same(found[others], array[others])
    assert same(found["jets", "id"], array["jets", "id"])
    assert same(found["r", "a"], array["r", "a"])
    # sign, exponent and 7 bits; a step of the range
    assert ak.all(abs(found["x"] - array["x"]) <= abs(array["x"]) * 2**-7)
    assert not same(found["x"], array["x"])
    assert ak.all(abs(found["jets", "pt"] - array["jets", "pt"]) <= 20 / 2**20)
    assert ak.all(abs(found["r", "b"] - array["r", "b"]) <= 1e-6)
    assert ak.all(abs(found["v"] - array["v"]) <= abs(array["v"]) * 2**-22)
    assert [column(nt, name)["type"] for name in ("x", "jets.pt", "r.b")] == [
        "Real32Trunc",
        "Real32Quant",
        "Real32Quant",
    ]
    assert [column(nt, name)["bits"] for name in ("x", "jets.pt", "r.b")] == [16, 20, 32]
    # repeating it loses nothing more
    fb.reshape(output, tmp_path / "again.root", precision=asked, compression="lz4", cluster_size="1 MB")
    assert same(fb.open(tmp_path / "again.root").arrays()["x"], found["x"])


def test_precision_goes_by_every_name_that_a_field_has(tmp_path, dimuon):
    """Of collections only full paths were found, and projected fields not at all."""
    before = fb.open(dimuon).arrays()
    for name in ["Muon_eta", "Muon_et?", "_collection0.Muon_eta", "_collection0._0.Muon_eta", "*eta"]:
        fb.reshape(dimuon, tmp_path / "out.root", precision={name: 12}, overwrite=True)
        nt = fb.open(tmp_path / "out.root")
        types = [column(nt, f"_collection0.Muon_{member}")["type"] for member in ("eta", "pt", "charge")]
        assert types == ["Real32Trunc", "SplitReal32", "SplitInt32"], name
        after = nt.arrays()
        assert same(after["Muon_pt"], before["Muon_pt"])
        assert ak.all(abs(after["Muon_eta"] - before["Muon_eta"]) <= abs(before["Muon_eta"]) / 8)
    # all fields below, and the first match
    fb.reshape(dimuon, tmp_path / "out.root", precision={"Muon_pt": 20, "_collection0": 12}, overwrite=True)
    nt = fb.open(tmp_path / "out.root")
    assert [column(nt, f"_collection0.Muon_{member}")["bits"] for member in ("pt", "eta", "charge")] == [20, 12, 32]


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ({"none": 12}, r'events\.root:Events has no field "none"'),
        ({"jets.none": 12}, 'has no field "jets.none"'),
        ({"jets.p": 12}, r'has no field "jets\.p"; only whole fields can be selected: use jets'),
        ({"i": 12}, '"i".* has no floats'),
        ({"s": 12}, '"s".* has no floats'),
        ({"x": 12, "x*": 11}, r'"x\*".*set already by "x"'),
        ({"x": 9}, "takes 10 to 31 bits, not 9"),
        ({"x": (0, 0, 1)}, "takes 1 to 32 bits, not 0"),
        ({"x": (8, 1, 0)}, "1 to 0 is not a valid range"),
        ({"x": (8, 0, np.inf)}, "not a valid range"),
        (
            {"x": (8, 0, 1e-3)},
            '"x".*outside of its storage range 0 to 0.001 .*\\(in .*events\\.root:Events, entries 0:',
        ),
        ({"number": (8, 0, N)}, f'"number".*outside of its storage range 0 to {N}'),
        ({"x": (1, 2)}, r"number of bits or \(bits, least, largest\)"),
    ],
    ids=str,
)
def test_precision_that_makes_no_sense_is_told(written, tmp_path, precision, message):
    with pytest.raises(fb.FemtobarnError, match=message):
        fb.reshape(written[0], tmp_path / "out.root", precision=precision)
    assert list(tmp_path.iterdir()) == []


OPTIONS = {
    "compression": "lz4:4",
    "encoding": "plain",
    "page_size": 700,
    "cluster_size": "60 kB",
    "fields": ["i", "v", "jets", "s", "late"],
}


@pytest.mark.parametrize("left_out", [*OPTIONS, None])
@pytest.mark.parametrize("threads", [1, 3])
def test_options_go_together(written, tmp_path, need, left_out, threads):
    path, array = written
    output = tmp_path / "out.root"
    options = {key: value for key, value in OPTIONS.items() if key != left_out}
    report = fb.reshape(path, output, threads=threads, **options)
    nt = fb.open(output)
    assert nt.verify().ok
    found = nt.arrays()
    assert same(found, array[found.fields])
    if "fields" in options:
        assert set(found.fields) == set(OPTIONS["fields"])
    if "encoding" in options:
        assert column(nt, "i")["type"] == "Int64"
    if "cluster_size" in options:
        assert len(nt.clusters) < len(fb.open(path).clusters)
    else:
        assert clusters(nt) == clusters(fb.open(path))
    assert (report.levels["L4"] > 0) == ("cluster_size" in options or "page_size" in options)
    read = need("uproot").open(output)["Events"].arrays()
    assert {name: read[name].to_list() for name in read.fields} == {
        name: found[name].to_list() for name in found.fields
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_files_are_reshaped_without_a_change_of_values(path, tmp_path):
    output = tmp_path / "out.root"
    for name in fb.clone(path, output, others="drop").entries:
        before = fb.open({path: name})
        whole = before.arrays()
        small = 16 if whole.nbytes < 1e7 else "64 kB"  # millions of pages would take a minute
        for options in [
            {"compression": "lz4:1"},
            {"encoding": "plain"},
            {"encoding": "split", "compression": "zstd:3"},
            {"page_size": small},
            {"cluster_size": 500, "page_size": 64},
            {"cluster_size": "1 MB", "encoding": "plain", "compression": "none"},
        ]:
            fb.reshape({path: name}, output, others="drop", overwrite=True, **options)
            nt = fb.open({output: name})
            assert nt.verify().ok, options
            assert nt.num_entries == before.num_entries, options
            assert not whole.fields or same(nt.arrays(), whole), options
            if "cluster_size" not in options:
                # clusters without entries are left out
                assert clusters(nt) == [pair for pair in clusters(before) if pair[1]], options


def test_a_precision_of_one_ntuple_of_several(tmp_path):
    """It was an error that the other ntuples do not have the field."""
    with fb.recreate(tmp_path / "in.root") as file:
        file["one"] = {"x": np.arange(50) * 0.1}
        file["two"] = {"y": np.arange(50) * 0.1}
    fb.reshape(tmp_path / "in.root", tmp_path / "out.root", precision={"y": 20})
    assert column(fb.open({tmp_path / "out.root": "one"}), "x")["type"] == "SplitReal64"
    assert column(fb.open({tmp_path / "out.root": "two"}), "y")["type"] == "Real32Trunc"
    fb.clone(tmp_path / "in.root", tmp_path / "cut.root", entries=slice(-5, None))
    assert fb.open({tmp_path / "cut.root": "two"})["y"].array().to_list() == [k * 0.1 for k in range(45, 50)]


def test_misuse_is_told_before_anything_is_written(written, tmp_path):
    path, _ = written
    output = tmp_path / "out.root"
    for call, message in [
        (lambda: fb.reshape(path, output), "no change requested"),
        (lambda: fb.reshape(path, output, encoding="dense"), "'split' or 'plain'"),
        (lambda: fb.reshape(path, output, page_size=0), "page_size must be at least one byte"),
        (lambda: fb.reshape(path, output, cluster_size="0 B"), "cluster_size must be at least one byte"),
        (lambda: fb.reshape(path, output, page_size=-5), "page_size"),
        (lambda: fb.clone(path, output, level="L2"), "give a compression"),
        (lambda: fb.clone(path, path, overwrite=True), "also an input"),
    ]:
        with pytest.raises(fb.UsageError, match=re.escape(message)):
            call()
    with pytest.raises(fb.KeyNotFoundError, match='has no field "none"'):
        fb.clone(path, output, fields="none")
    with pytest.raises(fb.KeyNotFoundError, match=r'has no field "i,x"; give several names as a list'):
        fb.clone(path, output, fields="i,x")
    with pytest.raises(TypeError, match="did you mean 'overwrite'"):
        fb.clone(path, output, force=True)
    with pytest.raises(fb.UsageError):
        fb.skim(path, output, lambda events: events.i > 2)
    assert list(tmp_path.iterdir()) == []


def test_ntuples_without_a_field_that_is_asked_for_are_left_out(tmp_path):
    """They had entries but no fields."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["a"] = {"x": [1, 2], "z": [0, 0]}
        file["folder/b"] = {"y": [3.0]}
    report = fb.clone(path, output, fields="x")
    assert report.entries == {"a": 2}
    assert left_behind(report) == [("folder/b", "ROOT::RNTuple")]
    assert fb.clone(path, output, fields=["x", "y"], overwrite=True).entries == {"a": 2, "folder/b": 1}
    assert fb.merge([path, path], output, fields="y", overwrite=True).entries == {"folder/b": 2}
    # a later file may have it
    with fb.recreate(tmp_path / "more.root") as file:
        file["a"] = {"x": [5], "w": [7]}
    report = fb.merge([path, tmp_path / "more.root"], output, fields="w", mode="union", overwrite=True)
    assert fb.open(output).arrays().to_list() == [{"w": 0}, {"w": 0}, {"w": 7}]
    # the existing output has it already
    fb.clone(path, output, fields="x", overwrite=True)
    assert fb.merge(path, output, fields="x", append=True).entries == {"a": 4}
