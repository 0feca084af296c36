"""Writing from Python: accepted data, errors, and the resulting files."""

import itertools
import os
import subprocess
import sys

import awkward as ak
import numpy as np
import pytest
from compare import same

import femtobarn as fb


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new.root"


def read(path, name=None):
    return fb.open(path if name is None else {path: name}).arrays()


# -- accepted data


def test_a_dict_of_numpy_arrays_is_written(path):
    data = {
        "n": np.arange(5),
        "big_endian": np.arange(5, dtype=">i4"),
        "strided": np.arange(10, dtype="f4")[::2],
        "matrix": np.arange(30, dtype="u2").reshape(5, 3, 2),
        "fortran": np.asfortranarray(np.arange(10.0).reshape(5, 2)),
        "flags": np.array([True, False, True, True, False]),
        "text": np.array(["a", "bb", "", "ü", "e"]),
        "objects": np.array([[1], [], [2, 3], [], []], dtype=object),
        "half": np.arange(5, dtype="f2"),
    }
    assert fb.write(path, data) == 5
    found = read(path)
    for name, values in data.items():
        assert ak.to_list(found[name]) == values.tolist(), name
    types = {name: field.typename for name, field in fb.open(path).items()}
    assert types["matrix"] == "std::array<std::array<std::uint16_t,2>,3>"
    assert types["big_endian"] == "std::int32_t"


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f2", "f4", "f8", "?"])
def test_arrays_without_values_are_written(path, dtype):
    # their memory has no valid address, which was taken for misaligned
    assert fb.write(path, {"x": np.array([], dtype)}) == 0
    assert read(path)["x"].type.content.primitive == np.dtype(dtype).name


def test_structured_arrays_are_written(path):
    array = np.array([(1, 0.5, (1, 2)), (2, 1.5, (3, 4))], [("n", "i4"), ("x", "f8"), ("pair", "i2", (2,))])
    fb.write(path, array)
    assert ak.to_list(read(path)) == [{"n": 1, "x": 0.5, "pair": [1, 2]}, {"n": 2, "x": 1.5, "pair": [3, 4]}]


def test_awkward_arrays_are_written(path):
    array = ak.Array([{"x": [1.5], "y": {"z": None}, "t": (1, "a")}, {"x": [], "y": {"z": 2}, "t": (2, "b")}])
    fb.write(path, array[[1, 0, 1]])
    assert same(read(path), array[[1, 0, 1]])
    with pytest.raises(fb.UsageError, match=r"pass \{'name': array\}"):
        fb.write(path, ak.zip({"m": array.x, "n": array.x}))


@pytest.fixture
def table(need):
    pa = need("pyarrow")
    return pa.table(
        {
            "n": pa.array([1, 2, 3], pa.int16()),
            "text": pa.array(["a", None, "c"]).dictionary_encode(),
            "view": pa.array(["x", "", "y" * 50], pa.string_view()),
            "lists": pa.array([[1, 2], [], [3]], pa.list_(pa.int64())),
            "list_view": pa.array([[1, 2], [], [3]], pa.list_view(pa.int64())),
            "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
            "blob": pa.array([b"ab", b"", b"c"], pa.binary()),
            "map": pa.array([[("k", 1)], [], [("l", 2)]], pa.map_(pa.string(), pa.int32())),
            "record": pa.array([{"a": 1}, {"a": 2}, {"a": 3}], pa.struct({"a": pa.uint8()})),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7.5, 8.5])),
        }
    )


TABLE = {
    "n": [1, 2, 3],
    "text": ["a", None, "c"],
    "view": ["x", "", "y" * 50],
    "lists": [[1, 2], [], [3]],
    "list_view": [[1, 2], [], [3]],
    "fixed": [[1, 2], [3, 4], [5, 6]],
    "blob": [[97, 98], [], [99]],
    "map": [[("k", 1)], [], [("l", 2)]],
    "record": [{"a": 1}, {"a": 2}, {"a": 3}],
    "runs": [7.5, 7.5, 8.5],
}


def assert_is_table(path):
    found = read(path)
    assert {name: ak.to_list(found[name]) for name in TABLE} == TABLE


def test_arrow_tables_are_written_with_dictionaries_views_runs_and_maps(path, table):
    fb.write(path, table)
    assert_is_table(path)
    # nullable columns without nulls need no std::optional
    assert str(fb.open(path)["n"].typename) == "std::int16_t"
    fb.write(path, {name: table[name] for name in table.column_names})
    assert_is_table(path)


def test_streams_that_can_be_read_once_are_written(path, table, need):
    pa = need("pyarrow")
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    fb.write(path, reader)
    assert_is_table(path)
    # nulls in a stream are not known beforehand; records without a class have no std::optional
    assert fb.open(path)["n"].typename == "std::optional<std::int16_t>"
    assert fb.open(path)["record"].typename == ""
    reader = pa.RecordBatchReader.from_batches(
        pa.schema([("r", pa.struct({"a": pa.int8()}))]), iter([pa.record_batch({"r": [{"a": 1}, None]})])
    )
    with pytest.raises(fb.UsageError):
        fb.write(path, reader)


def test_slices_of_tables_are_written(path, table):
    fb.write(path, table.slice(1, 2))
    found = read(path)
    assert {name: ak.to_list(found[name]) for name in TABLE} == {name: values[1:] for name, values in TABLE.items()}


def test_frames_of_pandas_polars_and_duckdb_are_written(path, need):
    columns = {"n": [1, 2, 3], "x": [0.5, 1.5, 2.5], "text": ["a", "b", ""]}
    expected = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for frame in (need("pandas").DataFrame(columns), need("polars").DataFrame(columns)):
        fb.write(path, frame)
        assert ak.to_list(read(path)) == expected
        fb.write(path, {name: frame[name] for name in columns})
        assert ak.to_list(read(path)) == expected
    frame = need("pandas").DataFrame(columns)
    relation = need("duckdb").sql("select * from frame order by n")
    if hasattr(relation, "__arrow_c_stream__"):
        fb.write(path, relation)
        assert ak.to_list(read(path)) == expected


def test_ntuples_and_iterators_are_written(path, tmp_path, dimuon):
    nt = fb.open(dimuon)
    fb.write(path, nt)
    assert same(read(path), nt.arrays())
    other = tmp_path / "other.root"
    n = fb.write(other, (nt.arrays(["Muon_pt"], entry_start=i, entry_stop=i + 1000) for i in range(0, 5000, 1000)))
    assert n == 5000
    assert same(read(other), nt.arrays(["Muon_pt"], entry_stop=5000))
    assert fb.write(other, nt.iterate(["Muon_pt"], step_size=1000, library="arrow")) == nt.num_entries
    with pytest.raises(fb.UsageError):
        fb.write(other, iter([]))


def test_numbers_are_converted_where_all_values_fit(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"small": "int8", "real": "float32", "c": "char", "b": "uint8"})
        ntuple.extend({"small": [1, -2], "real": [1, 2.5], "c": np.array([-1, 65], "i1"), "b": [True, False]})
        for bad, what in [
            ({"small": [200]}, "int8 cannot represent"),
            ({"real": [1e300]}, "float32 cannot represent"),
            ({"real": [2**60 + 1]}, "cannot represent"),
            ({"small": [1.0]}, "given float64, which is never converted to integers"),
            ({"small": ["a"]}, "given"),
            ({"small": [None]}, "declare it as std::optional"),
            ({"small": [[1]]}, "given"),
        ]:
            with pytest.raises(fb.UsageError, match=what) as raised:
                ntuple.extend({"small": [1], "real": [1.0], "c": [1], "b": [1]} | bad)
            assert repr(next(iter(bad)))[1:-1] in str(raised.value)
    assert ak.to_list(read(path)) == [
        {"small": 1, "real": 1.0, "c": -1, "b": 1},
        {"small": -2, "real": 2.5, "c": 65, "b": 0},
    ]


def test_variants_take_one_type_at_a_time_and_any_order(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"v": "std::variant<double, int, std::string>"})
        ntuple.extend({"v": ["a", 1]})
        ntuple.extend({"v": [2, 3]})
        ntuple.extend({"v": ["b", None, 0.5]})
        with pytest.raises(fb.UsageError, match="v"):
            ntuple.extend({"v": [[1]]})
    values = read(path)["v"]
    assert ak.to_list(values) == ["a", 1, 2, 3, "b", None, 0.5]
    assert np.asarray(values.layout.tags).tolist() == [3, 2, 2, 2, 3, 0, 1]


def test_a_refused_batch_leaves_nothing_behind(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32", "x": "var * float32"})
        ntuple.extend({"n": [1], "x": [[0.5]]})
        for bad in (
            {"n": [2]},
            {"n": [2], "x": [[1.0]], "y": [3]},
            {"n": [2], "x": ["text"]},
            {"n": [2], "x": [[], []]},
        ):
            with pytest.raises(fb.UsageError):
                ntuple.extend(bad)
        ntuple.extend({"n": [3], "x": [[]]})
        assert ntuple.num_entries == 2
    assert ak.to_list(read(path)) == [{"n": 1, "x": [0.5]}, {"n": 3, "x": []}]


@pytest.mark.parametrize(
    "data",
    [
        {"when": np.array(["2026-01-01"], "M8[D]")},
        {"z": np.array([1j])},
        {"x": [object()]},
        {"x": np.zeros((2, 0))},
        {"x": []},
        {"x": [[], []]},
        {"a b": [1]},
        {"a.b": [1]},
        {"x": [1], "y": [1, 2]},
        np.zeros((2, 2), [("a", "i4")]),
        [1, 2],
        5,
        ak.Array([1, 2]),
        {"u": [1, {"x": 2}]},
    ],
)
def test_what_cannot_be_written_is_a_usage_error_and_leaves_no_file(path, data):
    with pytest.raises(fb.UsageError):
        fb.write(path, data)
    assert list(path.parent.iterdir()) == []


# -- specifications


@pytest.mark.parametrize(
    ("spec", "typename"),
    [
        ("int", "std::int32_t"),
        ("float32", "float"),
        (np.float64, "double"),
        (np.dtype(("i2", (2, 3))), "std::array<std::array<std::int16_t,3>,2>"),
        ("var * ?int64", "std::vector<std::optional<std::int64_t>>"),
        ("union[int32, string]", "std::variant<std::int32_t,std::string>"),
        ("3 * string", "std::array<std::string,3>"),
        (ak.types.from_datashape("var * (int8, bool)", highlevel=False), "std::vector<std::pair<std::int8_t,bool>>"),
        ({"a": "int", "b": {"c": "bool"}}, ""),
        (fb.Class("Point", {"x": "float"}, version=3, checksum=0x1234), "Point"),
        (fb.Type("std::vector<Point>", [fb.Class("Point", {"x": "float"})]), "std::vector<Point>"),
        (fb.Enum("Color"), "Color"),
        (np.dtype([("a", "i4"), ("b", "f4")]), ""),
    ],
)
def test_types_are_named_in_many_ways(path, spec, typename):
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"field": spec})
    field = fb.open(path)["field"]
    assert field.typename == typename
    assert field.array().type.length == 0


@pytest.mark.parametrize(
    "spec",
    ["Muon", "std::vector<", "std::vector<Muon>", "complex128", np.complex64, "std::array<int, 0>", "var * datetime64"],
)
def test_what_is_no_type_is_refused_by_name(path, spec):
    with pytest.raises(fb.UsageError, match="field"), fb.recreate(path) as file:
        file.mkrntuple("Events", {"field": spec})


def test_arrow_schemas_and_awkward_types_are_specifications(path, need):
    pa = need("pyarrow")
    with fb.recreate(path) as file:
        file.mkrntuple("a", pa.schema([pa.field("x", pa.int8(), nullable=False), ("y", pa.list_(pa.float32()))]))
        file.mkrntuple("b", ak.types.from_datashape("{x: int8, y: var * float32}", highlevel=False))
    assert fb.open({path: "a"})["y"].typename == "std::optional<std::vector<std::optional<float>>>"
    assert fb.open({path: "b"})["y"].typename == "std::vector<float>"


def test_views_show_other_fields(path):
    spec = {"hits": "var * {x: float32, y: float32}", "n": fb.Cardinality("hits")}
    with fb.recreate(path) as file:
        view = fb.Projected("std::vector<float>", "hits", {"_0": fb.Projected("float", "hits._0.x")})
        ntuple = file.mkrntuple("Events", spec, projected={"xs": view})
        ntuple.extend({"hits": [[{"x": 1, "y": 2}], []]})
    found = read(path)
    assert ak.to_list(found.n) == [1, 0]
    assert ak.to_list(found.xs) == [[1.0], []]


# -- options


def test_options_are_what_stands_in_the_file(path):
    with fb.recreate(path, compression="lz4:3") as file:
        ntuple = file.mkrntuple(
            "Events",
            {"x": "float32", "y": "var * float64", "z": "int64"},
            "what it is",
            field_compression={"z": "zlib:9", "y": None},
            precision={"x": 12, "y": (16, 0, 1)},
            descriptions={"x": "momentum"},
            page_size=400,
            cluster_size=1000,
            page_checksums=False,
            clusters_per_group=2,
        )
        for _ in range(20):
            ntuple.extend({"x": np.ones(50), "y": [[0.5]] * 50, "z": np.arange(50)})
    nt = fb.open(path)
    assert nt.description == "what it is"
    assert nt["x"].description == "momentum"
    assert len(nt.clusters) > 2
    layout = str(nt._schema.records)
    assert "Real32Trunc" in layout
    assert "Real32Quant" in layout
    assert ak.to_list(read(path)["z"]) == list(range(50)) * 20
    assert nt.verify().ok


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("precision", {"x": 9}, "10 to 31"),
        ("precision", {"x": (16, 1, 1)}, "range"),
        ("precision", {"x": "many"}, "precision"),
        ("precision", {"n": 12}, "no floats"),
        ("cluster_size", 0, "at least 1"),
        ("page_size", "0 B", "at least 1"),
        ("max_key_size", 1, "max_key_size"),
        ("clusters_per_group", 0, "at least 1"),
        ("compression", "gzip", "compression"),
        ("compression", "zstd:10", "compression"),
        ("memory_limit", "50 MiB", "memory_limit is 50 MiB, but writing needs at least 102 MiB"),
    ],
)
def test_options_that_make_no_sense_are_refused(path, option, value, message):
    with pytest.raises(fb.UsageError, match=message), fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": "float32", "n": "int32"}, **{option: value})
    with pytest.raises(fb.KeyNotFoundError, match="did you mean"), fb.recreate(path) as file:
        file.mkrntuple("Events", {"Muon_pt": "float32"}, precision={"Muon_p": 12})
    assert not path.exists()


@pytest.mark.parametrize("compression", ["zstd", "lz4", "zlib:1", "lzma", 505, 404, 500, 0, None, "none", ("zstd", 3)])
def test_compressions_are_named_in_many_ways(path, compression):
    fb.write(path, {"x": np.zeros(1000)}, compression=compression)
    assert ak.to_list(read(path)["x"]) == [0.0] * 1000
    assert (path.stat().st_size > 8000) == (compression in (500, 0, None, "none"))


def test_pages_of_equal_bytes_are_stored_once(path):
    sizes = []
    for merging in (True, False):
        fb.write(path, {f"x{i}": np.arange(1000.0) for i in range(20)}, compression=None, same_page_merging=merging)
        sizes.append(path.stat().st_size)
    assert sizes[0] * 10 < sizes[1]


@pytest.mark.parametrize("size", [100, 1000, 70_000])
def test_payloads_over_max_key_size_are_cut(path, size):
    values = np.random.default_rng(1).random(20_000)
    fb.write(path, {"x": values}, max_key_size=max(size, 1000), page_size=size * 10, compression=None)
    assert np.array_equal(read(path)["x"], values)
    assert fb.open(path).verify().ok


# -- files


def test_several_ntuples_are_written_in_turn_and_in_directories(path):
    with fb.recreate(path) as file:
        names = ["one", "folder/two", "folder/deep/three"]
        ntuples = [file.mkrntuple(name, {"n": "int32"}, cluster_size=100) for name in names]
        file.mkdir("empty/below")
        for i in range(300):
            ntuples[i % 3].extend({"n": [i]})
        assert ntuples[1].close() == 100
        assert file.keys("folder") == ["deep", "two"]
        with pytest.raises(fb.KeyNotFoundError):
            file.keys("nowhere")
    for k, name in enumerate(names):
        assert ak.to_list(read(path, name)["n"]) == list(range(k, 300, 3))


def test_an_ntuple_needs_a_name_that_is_free_and_possible(path):
    with fb.recreate(path) as file:
        file.mkrntuple("a", {"n": "int32"})
        for name in ("", "a", "b c", "x;1/b"):
            with pytest.raises(fb.UsageError):
                file.mkrntuple(name, {"n": "int32"})
        file["b"] = {"n": [1]}
        with file.mkrntuple("b", {"n": "int64"}, new_cycle=True) as second:
            second.extend({"n": [2]})
    assert ak.to_list(read(path, "b")["n"]) == [2]
    assert ak.to_list(read(path, "b;1")["n"]) == [1]


def test_create_does_not_replace(path):
    with fb.create(path) as file:
        file["a"] = {"n": [1]}
    with pytest.raises(fb.FileError):
        fb.create(path)


def test_of_two_that_create_a_file_one_wins(path):
    """Both succeeded, and the second replaced the first."""
    first, second = fb.create(path), fb.create(path)
    second["b"] = {"n": [2]}
    first["a"] = {"n": [1]}
    second.close()
    with pytest.raises(fb.FileError):
        first.close()
    assert fb.open(path).name == "b"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(fb.FileError, match=r"cannot create .*no/new.root: directory .*no does not exist$"):
        fb.write(tmp_path / "no/new.root", {"n": [1]})


def test_closed_writers_say_so(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("a", {"n": "int32"})
        ntuple.close()
        assert ntuple.close() == 0
        with pytest.raises(fb.UsageError, match="closed"):
            ntuple.extend({"n": [1]})
    assert file.closed
    file.close()
    with pytest.raises(fb.UsageError, match="closed"):
        file.mkrntuple("b", {"n": "int32"})


def test_data_that_is_given_for_its_types_only_is_noticed(path):
    with pytest.raises(fb.UsageError), fb.recreate(path) as file:
        file.mkrntuple("Events", {"n": np.arange(3)})
    assert not path.exists()


def test_late_fields_are_zero_before(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32"})
        ntuple.extend({"n": [1, 2]})
        ntuple.add_fields({"x": "float32", "l": "var * int8", "o": "?int8", "n_l": fb.Cardinality("l")})
        with pytest.raises(fb.UsageError):
            ntuple.add_fields({"n": "int32"})
        ntuple.extend({"n": [3], "x": [1.5], "l": [[1]], "o": [2]})
    assert ak.to_list(read(path)) == [
        {"n": 1, "x": 0.0, "l": [], "o": None, "n_l": 0},
        {"n": 2, "x": 0.0, "l": [], "o": None, "n_l": 0},
        {"n": 3, "x": 1.5, "l": [1], "o": 2, "n_l": 1},
    ]


def test_attribute_sets_say_things_of_entries(path):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32"})
        about = ntuple.mkattributes("provenance", {"input": "std::string", "options": "var * string"})
        with pytest.raises(fb.UsageError, match="already"):
            ntuple.mkattributes("provenance", {"x": "int"})
        ntuple.extend({"n": [1, 2, 3]})
        about.append(0, 2, {"input": "a.root", "options": ["--fast"]})
        about.append(2, 3, {"input": "b.root", "options": []})
        for start, stop, values in [
            (2, 1, {}),
            (-1, 0, {}),
            (0, 1, {"input": "x"}),
            (0, 1, {"input": 1, "options": []}),
        ]:
            with pytest.raises(fb.UsageError):
                about.append(start, stop, values)
    found = fb.open(path).attributes["provenance"].arrays()
    assert ak.to_list(found["_rangeStart"]) == [0, 2]
    assert ak.to_list(found["_rangeLen"]) == [2, 1]
    assert ak.to_list(found["_userData"]) == [
        {"input": "a.root", "options": ["--fast"]},
        {"input": "b.root", "options": []},
    ]


# Arguments: the file. Writes a histogram, a tree and an ntuple with ROOT, in directories.
MAKE = """
import os, sys, ROOT
ROOT.gInterpreter.Declare('''
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
void write(TDirectory &d) {
  auto model = ROOT::RNTupleModel::Create(); auto n = model->MakeField<int>("n");
  auto w = ROOT::RNTupleWriter::Append(std::move(model), "theirs", d);
  for (*n = 0; *n < 10; ++*n) w->Fill();
}''')
f = ROOT.TFile(sys.argv[1], "RECREATE")
h = ROOT.TH1D("h", "title", 3, 0, 3); h.Fill(1.5, 4.0); h.Write()
ROOT.write(f)
d = f.mkdir("folder", "its title")
d.cd()
t = ROOT.TNtuple("tree", "", "x:y"); [t.Fill(i, 2 * i) for i in range(50)]; t.Write()
f.Close()
os._exit(0)
"""
# Arguments: the file. Reads everything, also after each subset of the last writes of an update.
LOOK = """
import os, sys, ROOT
ROOT.gErrorIgnoreLevel = ROOT.kWarning
for path in sys.argv[1:]:
    f = ROOT.TFile.Open(path)
    assert f and not f.IsZombie() and not f.TestBit(ROOT.TFile.kRecovered), path
    assert f.Get("h").GetBinContent(2) == 4.0 and f.Get("folder/tree").GetEntries() == 50, path
    assert f.Get("folder").GetTitle() == "its title"
    assert ROOT.RNTupleReader.Open("theirs", path).GetNEntries() == 10
    if f.Get("ours"):
        assert ROOT.RNTupleReader.Open("ours", path).GetNEntries() == 3, path
    infos = [str(info.GetName()) for info in f.GetStreamerInfoList()]
    assert "TH1D" in infos and "ROOT::RNTuple" in infos and len(infos) == len(set(infos)), infos
    f.Close()
print("looked")
f = ROOT.TFile.Open(sys.argv[-1], "UPDATE")
ROOT.TNamed("by", "root").Write()
f.Close()
sys.stdout.flush()
os._exit(0)
"""

# Arguments: the file
IN_DIRECTORIES = """
import os, sys, ROOT
for name in ("folder/ours", "new/ours"):
    assert ROOT.RNTupleReader.Open(name, sys.argv[1]).GetNEntries() == 1
    assert ROOT.RDataFrame(name, sys.argv[1]).Count().GetValue() == 1
os._exit(0)
"""


@pytest.mark.oracle
def test_an_update_keeps_what_root_wrote_and_root_can_go_on(path, run_root, tmp_path):
    run_root(MAKE, path)
    before = path.read_bytes()
    with fb.update(path) as file:
        assert sorted(file.keys()) == ["folder", "h", "theirs"]
        file["ours"] = {"x": [1.5, 2.5, 3.5]}
        file["folder/ours"] = {"x": [1.5]}
        file["new/ours"] = {"x": [2.5]}
    after = path.read_bytes()
    # the last writes are in place: until all of them are done, the file is the old or the new one
    places = [i for i in range(len(before)) if before[i] != after[i]]
    pieces = [places[0]] + [b for a, b in itertools.pairwise(places) if b - a > 100]
    assert len(pieces) == 3
    states = []
    for subset in range(2 ** len(pieces)):
        content = bytearray(before) + after[len(before) :]
        for k, first in enumerate(pieces):
            if subset >> k & 1:
                content[first : first + 100] = after[first : first + 100]
        states.append(tmp_path / f"state{subset}.root")
        states[-1].write_bytes(content)
    assert states[-1].read_bytes() == after
    run_root(LOOK, *states, path)
    for name, values in [("ours", [1.5, 2.5, 3.5]), ("folder/ours", [1.5]), ("new/ours", [2.5])]:
        assert ak.to_list(read(path, name)["x"]) == values
    # the class name in a directory's key differs from that in ROOT's memory, and ROOT's minimal file reader, which
    # opens ntuples by path, knows only the former
    run_root(IN_DIRECTORIES, path)
    with fb.update(path) as file:
        assert "by" in file.keys()  # noqa: SIM118
        file["last"] = {"x": [1]}
    assert ak.to_list(read(path, "theirs")["n"]) == list(range(10))


# Arguments: the file
HISTOGRAM = """
import os, sys, ROOT
f = ROOT.TFile(sys.argv[1], "RECREATE")
h = ROOT.TH1D("h", "title", 3, 0, 3); h.Fill(1.5, 4.0); h.Write()
f.mkdir("folder").cd(); ROOT.TNamed("inside", "").Write()
f.Close()
os._exit(0)
"""
# Arguments: the file
BEYOND = """
import os, sys, ROOT
f = ROOT.TFile.Open(sys.argv[1])
assert not f.TestBit(ROOT.TFile.kRecovered) and f.GetEND() == os.path.getsize(sys.argv[1])
assert f.Get("h").GetBinContent(2) == 4.0 and f.Get("folder/inside") and not f.Get("nothing")
infos = [str(info.GetName()) for info in f.GetStreamerInfoList()]
assert "TH1D" in infos and "ROOT::RNTuple" in infos, infos
for name in ("ours", "folder/ours", "new/ours"):
    assert ROOT.RNTupleReader.Open(name, sys.argv[1]).GetNEntries() == 3
f.Close()
f = ROOT.TFile.Open(sys.argv[1], "UPDATE")
ROOT.TNamed("by", "root").Write()
f.Close()
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1_999_999_500, 2_200_000_000, 5_000_000_000])
def test_positions_beyond_2_gb_are_read_by_root(path, run_root, size):
    # leftovers of a killed writer after the file's end are not overwritten: here it is a hole
    run_root(HISTOGRAM, path)
    os.truncate(path, size)
    with fb.update(path) as file:
        for name in ("ours", "folder/ours", "new/ours"):
            file[name] = {"x": [1.5, 2.5, 3.5]}
    assert path.stat().st_size > size
    run_root(BEYOND, path)
    for name in ("ours", "folder/ours", "new/ours"):
        assert ak.to_list(read(path, name)["x"]) == [1.5, 2.5, 3.5]
    with fb.update(path) as file:
        assert "by" in file.keys()  # noqa: SIM118
    path.unlink()


# Arguments: the file
ATTRIBUTES = """
import os, sys, ROOT
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
for attributes in reader.GetDescriptor().GetAttrSetIterable():
    print(attributes.GetName())
set_ = reader.OpenAttributeSet("provenance")
print(set_.GetNEntries())
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.oracle
def test_root_opens_attribute_sets(path, run_root):
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32"})
        about = ntuple.mkattributes("provenance", {"input": "std::string"})
        ntuple.extend({"n": [1, 2, 3]})
        about.append(0, 3, {"input": "a.root"})
    run_root(ATTRIBUTES, path)


# -- memory

# Arguments: the file, the limit, the kind of data. Prints the growth of the peak
MEMORY = """
import sys
import numpy as np
import femtobarn as fb

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

path, limit, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rng = np.random.default_rng(1)
if kind == "many columns":
    batches, times = {f"x{i}": rng.random(1000) for i in range(1000)}, 60
elif kind == "wide":
    batches, times = {"x": rng.random((100, 10_000))}, 60
elif kind == "converted":
    batches, times = {"x": rng.integers(0, 100, 25_000_000)}, 2
else:
    batches, times = {"x": rng.random(1_000_000)}, 60
spec = {name: "int32" if kind == "converted" else "var * float64" if kind == "wide" else "float64" for name in batches}
with fb.recreate(path, compression="none" if kind == "raw" else "zstd:1", threads=2) as file:
    ntuple = file.mkrntuple("Events", spec, memory_limit=limit)
    before = peak()
    for _ in range(times):
        ntuple.extend(batches)
    ntuple.close()
    print(peak() - before, times * sum(values.nbytes for values in batches.values()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["raw", "compressed", "many columns", "wide", "converted"])
def test_memory_stays_below_the_limit(path, kind):
    limit = 150_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, path, str(limit), kind], capture_output=True, text=True, check=True
    )
    growth, written = map(int, done.stdout.split())
    assert growth < limit < written / 2


def test_missing_integers_of_tables_stay_integers(path, need):
    """Series went through NumPy, which converts integers with missing values to floats."""
    pandas, polars = need("pandas"), need("polars")
    for series in (
        pandas.Series([2**53 + 1, None], dtype="Int64"),
        pandas.Series([2**53 + 1, None], dtype="int64[pyarrow]"),
        polars.Series([2**53 + 1, None]),
    ):
        fb.write(path, {"n": series})
        assert read(path, "Events")["n"].to_list() == [2**53 + 1, None]
    with pytest.raises(fb.UsageError):
        fb.write(path, {"n": [2**53 + 1, 1.5]})


@pytest.mark.parametrize("dtype", ["u1", "i4", "f8", "?"])
def test_masked_values_are_missing(path, dtype):
    """Masked values were written as if they were not masked."""
    values = np.ma.array(np.array([1, 0, 1], dtype), mask=[False, True, False])
    fb.write(path, {"a": values})
    assert read(path, "Events")["a"].to_list() == [1, None, 1]


def test_other_objects_keep_their_names(path):
    fb.write(path, {"n": [1]}, name="runs/R")
    with fb.update(path) as file, pytest.raises(fb.UsageError, match="TDirectory"):
        file["runs"] = {"n": [1]}
    assert fb.open(f"{path}:runs/R").num_entries == 1


def test_paths_to_write_name_no_objects(path):
    with pytest.raises(fb.UsageError):
        fb.write(f"{path}:Events", {"n": [1]})


def test_doubles_are_rounded_to_single_precision(path):
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": "float32"}).extend({"x": [0.1, 0.2]})
    assert read(path, "Events")["x"].to_list() == np.array([0.1, 0.2], "f4").tolist()


# -- sets and maps


def test_sets_and_maps_come_out_as_cpp_holds_them(path):
    """Sets were written as given: unsorted, and with duplicates."""
    spec = {
        "set": "std::set<float>",
        "multiset": "std::multiset<std::string>",
        "unordered": "std::unordered_set<int>",
        "map": "std::map<std::string, std::vector<int>>",
        "multimap": "std::multimap<int, bool>",
        "nested": "std::vector<std::set<std::pair<int, std::set<bool>>>>",
        "char": "std::set<char>",
    }
    data = {
        "set": [[2.5, -1, 0], [], [7]],
        "multiset": [["b", "ab", "b", "a"], [], ["ü", "z"]],
        "unordered": [[3, 1, 2], [], []],
        "map": [[("b", [2, 3]), ("a", [1]), ("c", [])], [], []],
        "multimap": [[(2, True), (1, True), (2, False)], [], []],
        "nested": [[[(2, [True, False]), (1, []), (2, [False])], []], [], []],
        "char": ak.values_astype([[1, -1], [], []], "int8"),
    }
    with fb.recreate(path) as f:
        ntuple = f.mkrntuple("Events", spec)
        ntuple.extend(data)
    found = fb.open(path).arrays()
    assert found["set"].tolist() == [[-1, 0, 2.5], [], [7]]
    assert found["multiset"].tolist() == [["a", "ab", "b", "b"], [], ["z", "ü"]]
    assert found["unordered"].tolist() == [[3, 1, 2], [], []]
    assert found["map"].tolist()[0] == [("a", [1]), ("b", [2, 3]), ("c", [])]
    assert ak.values_astype(found["char"], "int8").tolist()[0] == [-1, 1]
    assert found["multimap"].tolist()[0] == [(1, True), (2, True), (2, False)]
    assert found["nested"].tolist()[0] == [[(1, []), (2, [False]), (2, [False, True])], []]


@pytest.mark.parametrize(
    ("typename", "entry", "what"),
    [
        ("std::set<int>", [2, 1, 2], "a value"),
        ("std::set<float>", [0.0, -0.0], "a value"),
        ("std::unordered_set<std::string>", ["a", "b", "a"], "a value"),
        ("std::map<int, float>", [(1, 0.5), (1, 1.5)], "a key"),
        ("std::unordered_map<int, float>", [(1, 0.5), (2, 0.5), (1, 1.5)], "a key"),
        ("std::vector<std::set<int>>", [[1, 2], [3, 3]], "a value"),
        ("std::variant<bool, std::set<int>>", [1, 1], "a value"),
    ],
)
def test_values_that_a_set_has_once_are_not_given_twice(path, typename, entry, what):
    with fb.recreate(path) as f:
        ntuple = f.mkrntuple("Events", {"x": typename})
        with pytest.raises(fb.UsageError, match=f'"x" cannot be written: entry 2 of the batch has {what} twice'):
            ntuple.extend({"x": [[], [], entry, []]} if "variant" not in typename else {"x": [True, True, entry]})
        assert ntuple.num_entries == 0


# Arguments: a file with an ntuple "Events" of sets and maps, and the file for the result
SETS = """
import json, os, pathlib, sys
import ROOT
ROOT.gInterpreter.Declare('''
#include <set>
#include <map>
std::vector<int> keys(const std::map<std::string, int> &map) {
   std::vector<int> out;
   for (auto &[key, value] : map) out.push_back(value);
   return out;
}
''')
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
sets, maps = reader.GetView["std::set<int>"]("set"), reader.GetView["std::map<std::string, int>"]("map")
found = [[list(sets(i)), list(ROOT.keys(maps(i)))] for i in range(reader.GetNEntries())]
pathlib.Path(sys.argv[2]).write_text(json.dumps(found))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.oracle
def test_root_reads_sets_and_maps(path, run_root, tmp_path):
    with fb.recreate(path) as f:
        ntuple = f.mkrntuple("Events", {"set": "std::set<int>", "map": "std::map<std::string, int>"})
        ntuple.extend({"set": [[3, 1, 2], []], "map": [[("b", 2), ("a", 1)], []]})
    run_root(SETS, path, tmp_path / "found.json")
    assert (tmp_path / "found.json").read_text() == "[[[1, 2, 3], [1, 2]], [[], []]]"
    assert [list(entry) for entry in fb.open(path)["set"].array().tolist()] == [[1, 2, 3], []]


# -- messages


@pytest.mark.parametrize("function", [fb.recreate, fb.create, fb.write, fb.convert])
def test_options_that_are_misspelt_are_told(path, function):
    arguments = (path, {"x": [1]}) if function in (fb.write, fb.convert) else (path,)
    with pytest.raises(TypeError, match="unexpected keyword argument 'compresion'; did you mean 'compression'"):
        function(*arguments, compresion="lz4")
    assert not path.exists()


def test_names_of_ntuples_have_no_cycles(path):
    with fb.recreate(path) as file, pytest.raises(fb.UsageError, match=r'"b;2" cannot be written: .* cycle'):
        file.mkrntuple("b;2", {"x": "int32"})


def test_what_pandas_has_is_told_by_name(path, need):
    pd = need("pandas")
    fb.write(path, {"n": pd.Series([1, 2]), "t": pd.Series(["a", None]), "l": pd.Series([[1], [2, 3]])})
    assert read(path).tolist() == [{"n": 1, "t": "a", "l": [1]}, {"n": 2, "t": None, "l": [2, 3]}]
    with pytest.raises(fb.UsageError, match=r"a Series is a single column: pass {'name': column}"):
        fb.write(path, pd.Series([1, 2]))
    with pytest.raises(fb.UsageError, match=r'"when" cannot be written: Arrow.s timestamp\[[un]s\] has no counterpart'):
        fb.write(path, {"when": pd.Series(pd.to_datetime(["2024-05-17"]))})
    with pytest.raises(fb.UsageError, match="'mixed' cannot be written: its values have different types"):
        fb.write(path, {"mixed": pd.Series([1, "a"])})


@pytest.mark.parametrize(
    ("typename", "message"),
    [
        ("flaot", "did you mean float"),
        ("std::vector<int", "unmatched brackets"),
        ("var * foo", r"is not a C\+\+, NumPy or Awkward type$"),
    ],
)
def test_types_that_are_misspelt_are_told(path, typename, message):
    with fb.recreate(path) as file, pytest.raises(fb.UsageError, match=message):
        file.mkrntuple("Events", {"x": typename})


def test_lists_of_several_types_are_variants(path):
    fb.write(path, {"x": [1, "a", None], "y": [1, 2.5, True]})
    assert fb.open(path).typenames()["x"] == "std::variant<std::int64_t,std::string>"
    assert fb.open(path)["x"].array().tolist() == [1, "a", None]
    assert fb.open(path)["y"].array().tolist() == [1, 2.5, True]


def test_clusters_have_their_size_however_the_entries_come(tmp_path):
    x = np.random.default_rng(0).normal(size=100_000)  # hardly compressible
    batches = {
        "one": {"x": x},
        "some": ({"x": x[i : i + 7000]} for i in range(0, len(x), 7000)),
        "tiny": ({"x": x[i : i + 100]} for i in range(0, len(x), 100)),
    }
    for name, data in batches.items():
        fb.write(tmp_path / name, data, cluster_size="64 kB")
        first, *others, _ = [cluster.bytes_on_disk for cluster in fb.open(tmp_path / name).clusters]
        assert first < 2 * 64_000  # the compression ratio is not known yet
        assert len(others) > 8
        assert all(62_000 < size < 65_000 for size in others)
