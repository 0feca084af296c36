"""Several files converted to one: types for the values of all, and fields that not all files have."""

import subprocess
import sys
import warnings
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]

# Field: its type in one file and in another, and values of both
TYPES = {
    "number": ("int32", "int64", [-7], [2**40]),
    "signs": ("int16", "uint16", [-7], [60000]),
    "real": ("float", "double", [1.5], [1e300]),
    "mixed": ("int16", "float", [-7], [0.5]),
    "half": ("float16", "float", [1.5], [1e30]),
    "letter": ("char", "int16", [-1], [300]),
    "list": ("std::vector<float>", "std::vector<double>", [[1.5], []], [[1e300, 2.0]]),
    "nested": ("ROOT::RVec<ROOT::RVec<int>>", "ROOT::RVec<ROOT::RVec<long>>", [[[1], []]], [[[2**40]]]),
    "array": ("std::array<float, 2>", "std::array<double, 2>", [[1.5, 2.5]], [[1e300, 0.0]]),
    "option": ("std::optional<std::uint8_t>", "std::optional<std::uint32_t>", [1, None], [2**31]),
    "set": ("std::set<std::int8_t>", "std::set<std::int64_t>", [[-1, 1]], [[-(2**40), 5]]),
    "map": ("std::map<std::string, float>", "std::map<std::string, double>", [[("a", 1.5)]], [[("b", 1e300)]]),
    "pair": ("std::pair<int, float>", "std::pair<long, double>", [(1, 1.5)], [(2**40, 1e300)]),
    "atomic": ("std::atomic<int>", "std::atomic<long>", [1], [2**40]),
    "enum": (fb.Enum("Color", "std::uint8_t"), fb.Enum("Color", "std::int32_t"), [200], [-1]),
    "record": (
        {"a": "int", "b": "bool"},
        {"a": "long", "b": "bool"},
        [{"a": 1, "b": True}],
        [{"a": 2**40, "b": False}],
    ),
    "point": (
        fb.Class("Point", {"x": "float"}),
        fb.Class("Point", {"x": "double"}),
        [{"x": 1.5}],
        [{"x": 1e300}],
    ),
    "same": ("std::vector<std::string>", "std::vector<std::string>", [["a"]], [["b", ""]]),
}

# The types in the output, for any order of the files
WIDE = {
    "number": "std::int64_t",
    "signs": "std::int32_t",
    "real": "double",
    "mixed": "float",
    "half": "float",
    "letter": "std::int16_t",
    "list": "std::vector<double>",
    "nested": "ROOT::VecOps::RVec<ROOT::VecOps::RVec<std::int64_t>>",
    "array": "std::array<double,2>",
    "option": "std::optional<std::uint32_t>",
    "set": "std::set<std::int64_t>",
    "map": "std::map<std::string,double>",
    "pair": "std::pair<std::int64_t,double>",
    "atomic": "std::atomic<std::int64_t>",
    "record": "",
    "same": "std::vector<std::string>",
}


def write(path, spec, data, **options):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", spec, **options)
        ntuple.extend(data)
    return path


@pytest.fixture
def files(tmp_path):
    """Return a file of narrow types and one of wide types."""
    made = []
    for at, name in enumerate(("narrow", "wide")):
        spec = {field: table[at] for field, table in TYPES.items()}
        # the order of the fields differs as well
        fields = list(TYPES) if at == 0 else list(reversed(TYPES))
        data = {field: [TYPES[field][2 + at][i % len(TYPES[field][2 + at])] for i in range(4)] for field in fields}
        made.append(write(tmp_path / f"{name}.root", {field: spec[field] for field in fields}, data))
    return made


# Arguments: the file
READ = """
import os, sys
import ROOT
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
entry = reader.CreateEntry()
for i in range(reader.GetNEntries()):
    reader.LoadEntry(i, entry)
assert reader.GetNEntries() == 8
assert {entry["number"] for i in (0, 4) if not reader.LoadEntry(i, entry)} == {-7, 2**40}
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("first", ["narrow", "wide"])
def test_types_are_those_that_reading_gives(files, tmp_path, run_root, first):
    """They were those of the first file, and values of others that did not match ended the conversion."""
    files = files if first == "narrow" else files[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = fb.convert(files, tmp_path / "one.root")
    assert (report.equal, report.skipped, report.entries) == (True, (), 8)
    made, read = fb.open(tmp_path / "one.root"), fb.open(files).arrays()
    types = made.typenames()
    assert {name: types[name] for name in WIDE} == WIDE
    assert made["record.a"].typename == "std::int64_t"
    # a class and an enum that contain others are no longer such
    assert (types["enum"], types["point"], types["point.x"]) == (
        ("std::int32_t", "", "double") if first == "narrow" else ("Color", "Point", "double")
    )
    for name in TYPES:
        assert ak.array_equal(made[name].array(), read[name], dtype_exact=True), name
    if first == "narrow":
        run_root(READ, tmp_path / "one.root")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_tables_have_these_types_too(files, tmp_path, ending):
    wanted = [name for name in TYPES if name not in ("map", "set")]
    assert fb.convert(files, tmp_path / f"one.{ending}", fields=wanted).equal
    assert fb.convert(tmp_path / f"one.{ending}", tmp_path / "back.root").equal
    read, back = fb.open(files).arrays(wanted), fb.open(tmp_path / "back.root").arrays()
    for name in wanted:
        assert back[name].to_list() == read[name].to_list(), name


def test_precision_of_the_first_file_is_not_that_of_all(tmp_path):
    """The bits that the first file keeps were applied to all, and the proof failed."""
    values = [1 / 3, 2 / 3]
    for name, bits in ("few", 12), ("many", 24):
        write(tmp_path / f"{name}.root", {"x": "float"}, {"x": values}, precision={"x": bits})
    files = [tmp_path / "few.root", tmp_path / "many.root"]
    assert fb.convert(files, tmp_path / "one.root").equal
    assert fb.open(tmp_path / "one.root")["x"].array().to_list() == fb.open(files)["x"].array().to_list()
    # a single file stays as it is
    fb.convert(files[0], tmp_path / "same.root")
    ((column,),) = [field["columns"] for field in fb.open(tmp_path / "same.root")._core.fields()]
    assert column["type"] == "Real32Trunc"


def test_views_are_of_the_types_of_what_they_show(tmp_path):
    item = {"pt": fb.Projected("float", "jets._0.pt")}
    views = {
        "pts": fb.Projected("std::vector<float>", "jets", {"_0": item["pt"]}),
        "n": fb.Cardinality("jets"),
    }
    wide = {
        "pts": fb.Projected("std::vector<double>", "jets", {"_0": fb.Projected("double", "jets._0.pt")}),
        "n": fb.Cardinality("jets"),
    }
    write(tmp_path / "a.root", {"jets": "var * {pt: float32}"}, {"jets": [[{"pt": 1.5}]]}, projected=views)
    write(tmp_path / "b.root", {"jets": "var * {pt: float64}"}, {"jets": [[{"pt": 1e300}] * 2]}, projected=wide)
    fb.convert([tmp_path / "a.root", tmp_path / "b.root"], tmp_path / "one.root")
    made = fb.open(tmp_path / "one.root")
    assert made.typenames() == {
        "jets": "",
        "jets.pt": "double",
        "pts": "std::vector<double>",
        "n": "ROOT::RNTupleCardinality<std::uint32_t>",
    }
    assert made["pts"].array().to_list() == [[1.5], [1e300, 1e300]]
    assert {field["name"] for field in made._core.fields() if field["projected"]} >= {"pts", "n"}


def test_a_view_that_shows_another_collection_in_another_file_has_data_of_its_own(tmp_path):
    """The collections of ROOT's importer are numbered, and those of one number need not be the same."""
    collection = "var * {pt: float32}"
    for name, shown in ("a", "_collection0"), ("b", "_collection1"):
        views = {"pts": fb.Projected("std::vector<float>", shown, {"_0": fb.Projected("float", f"{shown}._0.pt")})}
        data = {"_collection0": [[{"pt": 1.0}]], "_collection1": [[{"pt": 2.0}, {"pt": 3.0}]]}
        spec = dict.fromkeys(data, collection)
        write(tmp_path / f"{name}.root", spec, data, projected=views)
    files = [tmp_path / "a.root", tmp_path / "b.root"]
    assert fb.convert(files, tmp_path / "one.root").equal
    assert fb.open(tmp_path / "one.root")["pts"].array().to_list() == [[1.0], [2.0, 3.0]]


def test_members_that_not_all_files_have_are_left_out(tmp_path):
    """The whole record was left out if the first file had them."""
    full = {"r": fb.Class("R", {"p": "float", "q": "int"}), "v": "var * {p: float32, q: int32}"}
    less = {"r": {"p": "float"}, "v": "var * {p: float64}"}
    write(tmp_path / "full.root", full, {"r": [{"p": 1.5, "q": 1}], "v": [[{"p": 1.5, "q": 1}]]})
    write(tmp_path / "less.root", less, {"r": [{"p": 2.5}], "v": [[{"p": 1e300}] * 2]})
    for order in ("full", "less"), ("less", "full"):
        files = [tmp_path / f"{name}.root" for name in order]
        with pytest.warns(fb.UnreadableWarning, match=r"'r\.q', 'v\.q' of"):
            report = fb.convert(files, tmp_path / "one.root")
        missing = f"not in {tmp_path}/less.root"
        assert report.skipped == (("r.q", missing), ("v.q", missing))
        made = fb.open(tmp_path / "one.root")
        assert made.typenames() == {"r": "", "r.p": "float", "v": "", "v.p": "double"}
        with pytest.warns(fb.UnreadableWarning, match="left out: 'r.q'"):
            read = fb.open(files).arrays()
        assert made.arrays().to_list() == read.to_list()


def test_types_that_have_nothing_in_common_are_told_with_both_files(tmp_path):
    kinds = {"number": "int", "list": "std::vector<int>", "text": "std::string", "large": "std::uint64_t"}
    for name, kind in kinds.items():
        with fb.recreate(tmp_path / f"{name}.root") as file:
            file.mkrntuple("Events", {"x": kind, "y": "int"})
    for a, b in ("number", "list"), ("list", "number"), ("text", "number"), ("large", "number"):
        files = [tmp_path / f"{a}.root", tmp_path / f"{b}.root"]
        with pytest.raises(fb.UsageError, match=rf'{b}\.root: field "x" .* {tmp_path}/{a}\.root: .* here, .* there'):
            fb.convert(files, tmp_path / "one.root")
        assert not (tmp_path / "one.root").exists()
        # fields that are not converted need not match
        fb.convert(files, tmp_path / "y.root", drop="x")


# Arguments: a directory
TREES = """
import os, sys
from array import array
import ROOT
def tree(name, branches):
    file = ROOT.TFile(sys.argv[1] + "/" + name, "RECREATE")
    tree = ROOT.TTree("Events", "")
    buffers = []
    for leaf, code, value in branches:
        buffers.append(array(code, [value] * 4))
        tree.Branch(leaf.split("/")[0].split("[")[0], buffers[-1], leaf)
    for _ in range(3):
        tree.Fill()
    tree.Write()
    file.Close()
tree("a.root", [("n/I", "i", 2), ("i/I", "i", 7), ("f/F", "f", 1.5), ("x[n]/F", "f", 2.5), ("grid[2]/S", "h", 1),
                ("letter/B", "b", 65), ("only_a/I", "i", 1), ("z/I", "i", 3)])
tree("b.root", [("z/I", "i", 3), ("f/D", "d", 1e300), ("letter/S", "h", 300), ("i/L", "q", 2**40), ("n/b", "B", 1),
                ("x[n]/D", "d", 1e300), ("grid[2]/I", "i", 1 << 20), ("only_b/I", "i", 1)])
tree("c.root", [("n/I", "i", 2), ("i[n]/I", "i", 7), ("f/F", "f", 1.5)])
os._exit(0)
"""


@pytest.fixture(scope="module")
def trees(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    run_root(TREES, folder)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_trees_of_other_types_become_one(trees, tmp_path, order):
    files = [f"{trees}/{name}.root:Events" for name in order]
    with pytest.warns(fb.UnreadableWarning, match="'only_[ab]', 'only_[ab]' of .* are left out"):
        report = fb.convert(files, tmp_path / "one.root")
    assert report.equal
    assert dict(report.skipped) == {"only_a": f"not in {trees}/b.root", "only_b": f"not in {trees}/a.root"}
    made = fb.open(tmp_path / "one.root")
    with pytest.warns(fb.UnreadableWarning, match="left out: "):
        read = fb.open(files).arrays()
    types = made.typenames()
    assert {name: types[name] for name in ("i", "f", "x", "grid", "letter", "_collection0.x")} == {
        "i": "std::int64_t",
        "f": "double",
        "x": "ROOT::VecOps::RVec<double>",
        "grid": "std::array<std::int32_t,2>",
        "letter": "std::int16_t",
        "_collection0.x": "double",
    }
    for name in ("n", "i", "f", "x", "grid", "letter", "z"):
        assert ak.array_equal(made[name].array(), read[name], dtype_exact=name != "n"), name


@pytest.mark.oracle
def test_trees_that_do_not_go_together_are_told(trees, tmp_path):
    for a, b in ("a", "c"), ("c", "a"):
        files = [f"{trees}/{a}.root:Events", f"{trees}/{b}.root:Events"]
        with pytest.raises(fb.UsageError, match=rf'{b}\.root: field "i" .* does not match .*{a}\.root: "std::.*" here'):
            fb.convert(files, tmp_path / "one.root")
    for name in ("only_a", "only_b"):
        with pytest.raises(fb.FormatError, match=rf'"{name}" .* not in .*\.root; leave it out'):
            fb.convert([f"{trees}/a.root:Events", f"{trees}/b.root:Events"], tmp_path / "one.root", fields=["i", name])
    fb.convert(f"{trees}/b.root:Events", tmp_path / "ntuple.root")
    files = [f"{trees}/a.root:Events", f"{tmp_path}/ntuple.root:Events"]
    for order, said in (files, "an RNTuple here, a TTree there"), (files[::-1], "a TTree here, an RNTuple there"):
        with pytest.raises(fb.UsageError, match=f"{said}; convert the trees first"):
            fb.convert(order, tmp_path / "one.root", fields="i")


@pytest.mark.oracle
def test_the_program_makes_one_of_several(trees, tmp_path):
    files = [f"{trees}/a.root:Events", f"{trees}/b.root:Events"]
    command = [*PROGRAM, "convert", *files, str(tmp_path / "one.root")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert f"  left out: only_a of Events: not in {trees}/b.root" in lines
    assert f"  left out: only_b of Events: not in {trees}/a.root" in lines
    assert lines[-1] == "2 branches left out"
    assert np.array_equal(fb.open(tmp_path / "one.root")["i"].array(), [7] * 3 + [2**40] * 3)
    command[-2] = f"{trees}/c.root:Events"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert '"std::vector<std::int32_t>" here, "std::int32_t" there' in done.stderr


@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_bad_files_are_left_out_of_one_output(dimuon, tmp_path, ending):
    (tmp_path / "cut.root").write_bytes(Path(dimuon).read_bytes()[:5000])
    files, bad, out = [dimuon, tmp_path / "cut.root", tmp_path / "none.root", dimuon], [], tmp_path / f"all.{ending}"
    with pytest.raises(fb.FemtobarnError):
        fb.convert(files, out)
    with pytest.warns(fb.UnreadableWarning, match="is left out"):
        report = fb.convert(files, out, skip_bad_files=bad)
    assert report.entries == 24000
    assert [(one.file, one.kind) for one in bad] == [
        (str(tmp_path / "cut.root"), "truncated-file"),
        (str(tmp_path / "none.root"), "file-not-found"),
    ]
    with pytest.warns(fb.UnreadableWarning), pytest.raises(fb.FileError, match="no file is left"):
        fb.convert(files[1:3], tmp_path / "no.root", skip_bad_files=True)
    table = tmp_path / "table.parquet"
    fb.convert(dimuon, table)
    report = fb.convert([table, table], tmp_path / "tables.root", skip_bad_files=True)
    assert report.entries == 24000, "tables are not taken for damaged ROOT files"
