"""Merging: the output has the entries of the inputs one after another, at every level."""

import itertools
import os
import subprocess
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from compare import same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import femtobarn as fb

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
# files that no reader may read
FILES = sorted(path for path in (TESTDATA / "rntuple").glob("*.root") if path.stem != "unknown_flag")


def events(n, seed, more=False):
    """Return columns of many kinds."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, n)
    items = int(counts.sum())

    def lists(values):
        return ak.unflatten(values, counts)

    columns = {
        "i": random.integers(-100, 100, n),
        "x": random.normal(size=n).astype("f4"),
        "v": lists(random.normal(size=items).astype("f4")),
        "s": ak.Array([f"text {seed}" * (k % 3) for k in range(n)]),
        "r": ak.zip({"a": random.integers(0, 9, n), "b": random.normal(size=n)}),
        "jets": lists(ak.zip({"pt": random.normal(size=items), "id": random.integers(0, 9, items)})),
        "flag": random.integers(0, 2, n).astype(bool),
        "matrix": random.normal(size=(n, 2, 3)),
    }
    if more:
        columns |= {"late": lists(np.arange(items)), "number": np.arange(n) * 1.5, "text": ak.Array(["é"] * n)}
        columns["array"] = np.arange(3 * n).reshape(n, 3)
    return ak.Array(columns)


ZEROS = {"late": [], "number": 0.0, "text": "", "array": [0, 0, 0]}


def expected(parts, names):
    """Return the entries of all, with zeros for what an input lacks."""
    return {
        name: [
            value
            for part in parts
            for value in (part[name].to_list() if name in part.fields else [ZEROS[name]] * len(part))
        ]
        for name in names
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return files of different encodings; the second has more fields."""
    folder = tmp_path_factory.mktemp("merge")
    parts = [events(1000, 1), events(700, 2, more=True), events(300, 3)]
    for number, (part, compression) in enumerate(zip(parts, ["zstd:5", "none", "lz4:4"], strict=True)):
        fb.write(folder / f"{number}.root", part, name="Events", compression=compression)
    return folder, parts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_twice_has_its_entries_twice(path, tmp_path):
    report = fb.merge([path, path], tmp_path / "twice.root", others="drop")
    for name, entries in report.entries.items():
        one, two = fb.open({path: name}), fb.open({tmp_path / "twice.root": name})
        assert two.verify().ok
        assert entries == two.num_entries == 2 * one.num_entries
        half = one.num_entries
        first = one.arrays()
        for part in (two.arrays(entry_stop=half), two.arrays(entry_start=half)):
            assert ak.array_equal(part, first, equal_nan=True) or same(part, first)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0]], ids=str)
@pytest.mark.parametrize("compression", [None, "zstd:3"])
@pytest.mark.parametrize("compatible", [True, False])
def test_union_has_zeros_where_a_file_has_no_field(written, tmp_path, need, order, compression, compatible):
    folder, parts = written
    inputs = [folder / f"{number}.root" for number in order]
    output = tmp_path / "union.root"
    report = fb.merge(inputs, output, mode="union", compression=compression, compatible=compatible)
    nt = fb.open(output)
    assert nt.verify().ok
    assert nt.num_entries == report.entries["Events"] == 2000
    arrays = nt.arrays()
    assert set(arrays.fields) == set(parts[1].fields)
    wanted = expected([parts[number] for number in order], arrays.fields)
    assert {name: arrays[name].to_list() for name in arrays.fields} == wanted
    # only fields with another encoding are re-encoded, and only for older readers
    assert (report.levels["L3"] > 0) == compatible
    assert (report.levels["L2"] > 0) == (compression is not None)
    if compatible:
        found = need("uproot").open(output)["Events"].arrays()
        assert {name: found[name].to_list() for name in found.fields} == wanted


def test_filter_leaves_out_what_the_first_file_has_not_and_says_so(written, tmp_path):
    folder, parts = written
    report = fb.merge([folder / "0.root", folder / "1.root"], tmp_path / "out.root")
    arrays = fb.open(tmp_path / "out.root").arrays()
    assert expected(parts[:2], parts[0].fields) == {name: arrays[name].to_list() for name in arrays.fields}
    assert sorted(left.field for left in report.left_behind) == sorted(ZEROS)
    with pytest.raises(
        fb.UsageError, match=r'0\.root: field "late" of "Events" does not match .*1\.root: it does not exist'
    ):
        fb.merge([folder / "1.root", folder / "0.root"], tmp_path / "other.root")
    with pytest.raises(fb.FemtobarnError, match=r"the first file does not have it"):
        fb.merge([folder / "0.root", folder / "1.root"], tmp_path / "other.root", mode="strict")
    assert [path.name for path in tmp_path.iterdir()] == ["out.root"]


@pytest.mark.oracle
@pytest.mark.parametrize("compatible", [True, False])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_union_adds_views_of_what_is_there(dimuon, tmp_path, run_root, order, compression, compatible):
    """The columns of the collection were in the schema twice."""
    fb.clone(dimuon, tmp_path / "collection.root", fields=["_collection0"])
    fb.reshape(tmp_path / "collection.root", tmp_path / "plain.root", encoding="plain", compression="none")
    files = [dimuon, tmp_path / "plain.root"]
    inputs, output = [files[number] for number in order], tmp_path / "out.root"
    options = {"compression": compression, "compatible": compatible, "verify": True}
    report = fb.merge(inputs, output, mode="union", **options)
    missing = report.inputs[order.index(1)]["ntuples"]["Events"]["missing"]
    # it is not known yet what the first file lacks
    assert sorted(missing) == ["event", "run"]
    one, two = fb.open(dimuon).arrays(), fb.open(output)
    assert two.verify(against=inputs, values=True).ok
    two = two.arrays()
    own, other = (two[:12000], two[12000:]) if order == (0, 1) else (two[12000:], two[:12000])
    for name in ("nMuon", "Muon_pt", "Muon_charge"):
        assert ak.array_equal(own[name], one[name])
        assert ak.array_equal(other[name], one[name])
    assert ak.array_equal(own["event"], one["event"])
    assert not ak.any(other["event"])
    if compatible:
        seen = "import sys, ROOT; print(ROOT.RDataFrame('Events', sys.argv[1]).Sum('Muon_charge').GetValue())"
        assert float(run_root(seen, output)) == 2 * ak.sum(one["Muon_charge"])


def test_fields_are_chosen_also_of_those_that_come_later(written, tmp_path):
    """A union had all fields of the second file, whatever was selected."""
    folder, parts = written
    inputs = [folder / "0.root", folder / "1.root"]
    fb.merge(inputs, tmp_path / "out.root", mode="union", fields=["i", "la*"])
    arrays = fb.open(tmp_path / "out.root").arrays()
    assert {name: arrays[name].to_list() for name in arrays.fields} == expected(parts[:2], ["i", "late"])
    report = fb.merge(inputs, tmp_path / "first.root", fields=["i", "la*"])
    assert [left.field for left in report.left_behind] == ["late"]
    with pytest.raises(fb.KeyNotFoundError, match=r'0\.root:Events has no field "none", and no other file has it'):
        fb.merge(inputs, tmp_path / "none.root", mode="union", fields=["i", "none"])


@given(st.lists(st.integers(0, 400), max_size=5), st.sampled_from([None, "lz4:1"]), st.integers(1, 3))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_split_of_a_data_set_merges_to_it(tmp_path, cuts, compression, threads):
    whole = events(400, 7, more=True)
    bounds = [0, *sorted(cuts), 400]
    inputs = []
    for start, stop in itertools.pairwise(bounds):
        inputs.append(tmp_path / f"{start}-{stop}.root")
        with fb.recreate(inputs[-1]) as file:
            nt = file.mkrntuple("Events", whole[start:stop], cluster_size="2 kB", page_size=512)
            nt.extend(whole[start:stop])
    output = tmp_path / "whole.root"
    fb.merge(inputs, output, compression=compression, threads=threads, overwrite=True)
    nt = fb.open(output)
    assert nt.verify().ok
    assert same(nt.arrays(), whole)


def test_everything_in_subdirectories_is_merged_and_merged_again(tmp_path, dimuon):
    with fb.recreate(tmp_path / "a.root") as file:
        file["top"] = {"x": np.arange(5)}
        file["sub/deep/below"] = {"y": np.arange(3)}
    with fb.recreate(tmp_path / "b.root") as file:
        file["top"] = {"x": np.arange(7)}
        file["other"] = {"z": np.arange(2)}
    inputs = [tmp_path / "a.root", tmp_path / "b.root"]
    report = fb.merge(inputs, tmp_path / "ab.root")
    assert report.entries == {"other": 2, "sub/deep/below": 3, "top": 12}
    report = fb.merge([tmp_path / "ab.root", *inputs], tmp_path / "all.root")
    assert report.entries == {"other": 4, "sub/deep/below": 6, "top": 24}
    assert fb.open({tmp_path / "all.root": "top"}).arrays()["x"].to_list() == 2 * ([*range(5), *range(7)])
    # only what is named
    report = fb.merge(f"{tmp_path / 'ab.root'}:top", tmp_path / "top.root")
    assert report.entries == {"top": 12}


def test_views_bring_what_they_show_and_no_more(tmp_path):
    imported = TESTDATA / "rntuple" / "imported.root"
    one = fb.open({imported: "Events"})
    views = [name for name in one.arrays().fields if not name.startswith("_collection")]
    report = fb.merge([imported, imported], tmp_path / "all.root")
    wanted = next(name for name in views if one[name].typename.startswith("ROOT::VecOps::RVec"))
    cut = fb.merge([imported, imported], tmp_path / "cut.root", fields=wanted)
    two = fb.open(tmp_path / "cut.root")
    assert same(two[wanted].array(), ak.concatenate([one[wanted].array()] * 2))
    assert sum(cut.levels.values()) < sum(report.levels.values()) / 2


def test_what_does_not_fit_is_named_with_both_types_and_both_files(tmp_path):
    fb.write(tmp_path / "a.root", {"x": np.arange(3), "s": ["a"] * 3}, name="e")
    fb.write(tmp_path / "b.root", {"x": np.arange(3) * 0.5, "s": ["a"] * 3}, name="e")
    with pytest.raises(fb.FemtobarnError) as error:
        fb.merge([tmp_path / "a.root", tmp_path / "b.root"], tmp_path / "o.root")
    message = str(error.value)
    assert all(part in message for part in ['"x"', "a.root", "b.root", "double", "std::int64_t"]), message
    # a loss of precision is never silent
    values = {"l": [[0.1, 0.2], [], [0.3]]}
    fb.write(tmp_path / "c.root", values, name="e", precision={"l": 12})
    fb.write(tmp_path / "d.root", values, name="e")
    with pytest.raises(fb.FemtobarnError, match=r"Real32Trunc of 12 bits"):
        fb.merge([tmp_path / "c.root", tmp_path / "d.root"], tmp_path / "o.root")
    assert not (tmp_path / "o.root").exists()


def test_a_part_of_a_field_is_not_taken_alone(tmp_path):
    """The message asked for the name that was given."""
    path = TESTDATA / "rntuple" / "imported.root"
    with pytest.raises(
        fb.KeyNotFoundError, match=r'no field "_collection0\.Jet_mass"; .* whole fields .*: use _collection0'
    ):
        fb.merge(path, tmp_path / "out.root", fields="_collection0.Jet_mass")


def test_a_report_names_levels_that_were_used(tmp_path, dimuon):
    text = repr(fb.merge(dimuon, tmp_path / "out.root", level="L1"))
    assert "; bytes by level L1: " in text
    assert "refused" not in text
    assert "bytes by level" not in repr(fb.skim(dimuon, tmp_path / "none.root", "nMuon < 0"))


def test_misuse_is_an_error_that_says_what_to_do(tmp_path, dimuon, testdata):
    output = tmp_path / "o.root"
    output.write_text("something of mine")
    with pytest.raises(fb.UsageError, match=r"already exists.*overwrite=True.*append=True"):
        fb.merge(dimuon, output)
    # only what the function has is recommended, by its name in Python
    for copy in (
        fb.clone,
        lambda *files: fb.reshape(*files, compression="lz4"),
        lambda *files: fb.skim(*files, "nMuon > 2"),
    ):
        with pytest.raises(fb.UsageError, match=r"already exists.*\(overwrite=True\)$"):
            copy(dimuon, output)
    # the name of an output is checked as in the shell
    for name in ("b", "b.txt", "*.root"):
        with pytest.raises(fb.UsageError, match="invalid output"):
            fb.merge(dimuon, tmp_path / name)
        with pytest.raises(fb.UsageError, match="invalid output"):
            fb.skim(dimuon, tmp_path / name, "nMuon > 2")
    fb.merge(dimuon, output, overwrite=True)
    with pytest.raises(fb.UsageError):
        fb.merge([dimuon, output], output, overwrite=True)
    for options, message in [
        ({"level": "L1", "compression": "zstd"}, r"leave out compression"),
        ({"level": "L2"}, r"give a compression"),
        ({"level": "L7"}, "level must be 'auto', 'L0', .* or 'L4', not 'L7'"),
        ({"mode": "all"}, "mode must be 'filter', 'union' or 'strict', not 'all'"),
    ]:
        with pytest.raises(fb.UsageError, match=message):
            fb.merge(dimuon, tmp_path / "p.root", **options)
    with pytest.raises(fb.KeyNotFoundError, match=r'dimuon\.root:Events has no field "muon_pt"; did you mean Muon_pt'):
        fb.merge(dimuon, tmp_path / "p.root", fields="muon_pt")
    tree = testdata / "ttree" / "leaves_zlib.root"
    report = fb.merge([dimuon, tree], tmp_path / "p.root")
    assert report.inputs[1]["converted"] == [["leaves", "TTree"]]
    assert report.entries == {"Events": 12000, "leaves": 40}


def mount(tmp_path, kind, options):
    """Mount a file system of this kind from a file; return None if that is not permitted."""
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run([f"mkfs.{kind}", "-q", *options, image], check=True, capture_output=True)
    done = subprocess.run(["mount", "-o", "loop", image, folder], check=False, capture_output=True)
    return None if done.returncode else folder


KINDS = {
    "xfs": ["-m", "reflink=1"],
    "xfs-1k": ["-m", "reflink=1", "-b", "size=1024"],
    "xfs-16k": ["-m", "reflink=1", "-b", "size=16384"],
    "xfs-64k": ["-m", "reflink=1", "-b", "size=65536"],
    "btrfs": [],
    "ext4": [],
}


@pytest.fixture(params=KINDS)
def mounted(request, tmp_path, need_program):
    """Return a directory on a separate file system, and whether files can share blocks there."""
    kind = request.param.split("-")[0]
    need_program(f"mkfs.{kind}")
    folder = mount(tmp_path, kind, KINDS[request.param])
    if folder is None:
        pytest.skip("mounting is not allowed here, or the kernel knows no such blocks")
    yield folder, kind != "ext4"
    for _ in range(50):
        if subprocess.run(["umount", folder], check=False).returncode == 0:
            return
        time.sleep(0.1)
    pytest.fail(f"{folder} is still in use")


def test_blocks_are_shared_where_the_file_system_can(mounted):
    folder, can_share = mounted
    values = {f"x{i}": np.random.default_rng(i).normal(size=300_000) for i in range(4)}
    inputs = [folder / "a.root", folder / "b.root"]
    for path in inputs:
        fb.write(path, values, name="Events", compression="zstd:1")
    report = fb.merge(inputs, folder / "merged.root")
    n_bytes = sum(report.levels[level] for level in ("L0", "L1"))
    merged = fb.open(folder / "merged.root")
    assert merged.verify().ok
    assert same(merged["x3"].array(), np.concatenate([values["x3"]] * 2))
    if can_share:
        # except the first and last block of each file
        block = os.statvfs(folder).f_bsize
        assert report.levels["L0"] > n_bytes - 4 * block - 4000
        assert report.shared_bytes >= report.levels["L0"]
        fb.merge(inputs, folder / "again.root", level="L0")
    else:
        assert report.levels["L0"] == 0
        assert report.shared_bytes == 0
        with pytest.raises(fb.UsageError):
            fb.merge(inputs, folder / "again.root", level="L0")
        assert not (folder / "again.root").exists()
    copied = fb.merge(inputs, folder / "copied.root", level="L1")
    assert copied.levels["L0"] == 0
    assert same(fb.open(folder / "copied.root").arrays(), merged.arrays())


def test_a_full_disk_leaves_nothing(mounted):
    folder, _ = mounted
    values = {f"x{i}": np.random.default_rng(i).normal(size=1_000_000) for i in range(8)}
    fb.write(folder / "a.root", values, name="Events", compression="none")
    with pytest.raises(fb.FemtobarnError, match="merged"):
        # not shared, but copied eight times
        fb.merge([folder / "a.root"] * 8, folder / "merged.root", compression="zstd:1")
    assert sorted(path.name for path in folder.iterdir() if path.name != "lost+found") == ["a.root"]


ROOTLS = """
import os, sys
import ROOT
open(sys.argv[1], "w").write(str(ROOT.TROOT.GetBinDir()) + "/rootls")
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("level", ["L1", "L4"])
def test_rootls_lists_what_was_merged(tmp_path, run_root, level):
    fb.write(tmp_path / "a.root", {"x": [1, 2]}, name="Events")
    fb.write(tmp_path / "b.root", {"y": [3]}, name="nano/Runs")
    with uproot.recreate(tmp_path / "c.root") as file:
        file["plots/pt"] = np.histogram([1.0, 2.0, 2.0])
    files = [tmp_path / f"{name}.root" for name in "abc"]
    fb.merge([*files, *files], tmp_path / "out.root", level=level)
    run_root(ROOTLS, tmp_path / "rootls")
    for folder, expected in [
        ("", {"Events": "ROOT::RNTuple", "nano": "TDirectoryFile", "plots": "TDirectoryFile"}),
        (":nano", {"Runs": "ROOT::RNTuple"}),
        (":plots", {"pt": "TH1D"}),
    ]:
        command = [(tmp_path / "rootls").read_text(), "-l", f"{tmp_path / 'out.root'}{folder}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lines = [line.split() for line in done.stdout.splitlines()]
        found = {words[-2].partition(";")[0]: words[0] for words in lines}
        assert found == expected, done.stdout


SUMS = """
import os, sys
import ROOT
file = ROOT.TFile.Open(sys.argv[1])
file.Map()
paths = [sys.argv[1]]
if sys.argv[4] == "again":
    merger = ROOT.TFileMerger(False)
    merger.OutputFile(sys.argv[2], "RECREATE")
    merger.AddFile(sys.argv[1])
    merger.AddFile(sys.argv[1])
    assert merger.Merge()
    paths.append(sys.argv[2])
text = []
for path in paths:
    frame = ROOT.RDataFrame("Events", path)
    frame = frame.Define("v_sum", "Sum(v)").Define("s_len", "(int)s.size()")
    frame = frame.Define("m_sum", "matrix[1][2] + matrix[0][0]")
    frame = frame.Define("late_sum", "Sum(late)").Define("array_sum", "Sum(array)")
    names = ["i", "x", "flag", "v_sum", "s_len", "m_sum", "late_sum", "array_sum", "number"]
    text.append(" ".join(str(frame.Sum(name).GetValue()) for name in names) + f" {frame.Count().GetValue()}")
open(sys.argv[3], "w").write("\\n".join(text))
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0]], ids=str)
def test_root_reads_and_merges_what_was_merged(written, tmp_path, run_root, order):
    folder, parts = written
    output = tmp_path / "union.root"
    fb.merge([folder / f"{number}.root" for number in order], output, mode="union")
    # ROOT 6.40 cannot open its own merge of two files with a late fixed-size array, whoever wrote them
    again = order[0] == 1
    run_root(SUMS, output, tmp_path / "twice.root", tmp_path / "sums", "again" if again else "")
    found = [list(map(float, line.split())) for line in (tmp_path / "sums").read_text().split("\n")]
    sums = [
        ak.sum(ak.values_astype(ak.concatenate([part[name] for part in parts]), "f8"))
        for name in ("i", "x", "flag", "v")
    ]
    sums.append(sum(len(text) for part in parts for text in part["s"].to_list()))
    sums.append(sum(ak.sum(part["matrix"][:, 1, 2]) + ak.sum(part["matrix"][:, 0, 0]) for part in parts))
    more = parts[1]
    sums += [ak.sum(more["late"]), ak.sum(more["array"]), ak.sum(more["number"]), 2000]
    np.testing.assert_allclose(found[0], sums, rtol=1e-6, atol=1e-3)
    if again:
        np.testing.assert_allclose(found[1], 2 * np.array(sums), rtol=1e-6, atol=2e-3)


# Merges like hadd. Arguments: the output, the inputs
HADD = """
import os, sys, ROOT
merger = ROOT.TFileMerger(False)
assert merger.OutputFile(sys.argv[1], "RECREATE")
assert all(merger.AddFile(path) for path in sys.argv[2:])
assert merger.Merge()
os._exit(0)
"""

LATE = {
    "scalar": [1.5, 2.0],
    "list": [[1], [2, 3]],
    "text": ["a", "b"],
    "optional": ak.Array([1, None]),
    "record": ak.Array([{"a": 1, "b": [2]}, {"a": 1, "b": []}]),
}

# Prints the sizes and hashes of a late field as ROOT reads it. Arguments: a file, the type
READ_LATE = """
import sys, ROOT
frame = ROOT.RDataFrame("E", sys.argv[1])
print(frame.Sum("i").GetValue(), frame.GetColumnType("late"))
for text in sorted(frame.Define("n", sys.argv[2]).Take["double"]("n").GetValue()): print(text)
"""

SIZE = {
    "scalar": "late",
    "list": "double(Sum(late))",
    "text": "double(late.size())",
}


@pytest.mark.oracle
@pytest.mark.parametrize("order", ["ABA", "AB", "ABBA"])
@pytest.mark.parametrize("kind", list(LATE))
def test_hadd_merges_what_has_fields_that_came_late(kind, order, tmp_path, run_root):
    """If a later file lacks them, page lists of its clusters lacked columns in collections, and hadd crashed."""
    fb.write(tmp_path / "A.root", {"i": [1, 2]}, name="E")
    fb.write(tmp_path / "B.root", {"i": [1, 2], "late": LATE[kind]}, name="E")
    output, twice = tmp_path / "union.root", tmp_path / "twice.root"
    fb.merge([tmp_path / f"{letter}.root" for letter in order], output, mode="union")
    run_root(HADD, twice, output, output)
    once = run_root(READ_LATE, output, SIZE[kind]).split() if kind in SIZE else None
    both = fb.open(twice)
    assert both.verify(against=[output, output], values=True).ok
    if once:
        again = run_root(READ_LATE, twice, SIZE[kind]).split()
        assert float(again[0]) == 2 * float(once[0])
        assert sorted(again[2:]) == sorted(2 * once[2:])


def test_an_open_ntuple_stands_for_its_files(dimuon, mixed, tmp_path):
    """In a list it was silently ignored."""
    opened, output = fb.open(dimuon), tmp_path / "out.root"
    assert fb.merge(opened, output).entries == {"Events": 12000}
    assert fb.merge([opened, dimuon], output, overwrite=True).entries == {"Events": 24000}
    assert fb.open([opened, f"{dimuon}:Events"]).num_entries == 24000
    assert fb.open(fb.open([dimuon, dimuon])).num_entries == 24000
    assert fb.open(output).verify(against=[opened, opened]).ok
    attributes = fb.open(TESTDATA / "rntuple" / "attributes.root").attributes
    with pytest.raises(fb.UsageError):
        fb.merge([opened, next(iter(attributes.values()))], output, overwrite=True)


MODELS = """
import os, sys
import ROOT
bad = []
for line in open(sys.argv[1]):
    path, name = line.rstrip("\\n").split("\\t")
    reader = ROOT.RNTupleReader.Open(name, path)
    try:
        reader.GetModel()
    except Exception as error:
        if "unknown type: fb::" not in str(error):  # there is no dictionary
            bad.append(f"{path}: {error}")
open(sys.argv[2], "w").write("\\n".join(bad))
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("stem", ["untyped", "untyped_pages", "imported", "extension_projected"])
def test_every_field_alone_is_whole(tmp_path, run_root, stem):
    """Only the projected item of a pair was copied: ROOT cannot build such a model, and the proof did not notice."""
    path = TESTDATA / "rntuple" / f"{stem}.root"
    source = fb.open(path)
    lines = []
    tops = source.keys(recursive=False)
    for number, name in enumerate(tops):
        for level in ("auto", "L4"):
            output = tmp_path / f"{number}-{level}.root"
            report = fb.clone(path, output, fields=name, level=level, verify=True)
            assert same(fb.open(output).arrays([name]), source.arrays([name]))
            lines.append(f"{output}\t{next(iter(report.entries))}\n")
    assert len(lines) > 4
    (tmp_path / "list").write_text("".join(lines))
    run_root(MODELS, tmp_path / "list", tmp_path / "bad")
    assert (tmp_path / "bad").read_text() == ""
