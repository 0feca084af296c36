"""Mistakes of new users when writing: what works after all, and what errors advise."""

import datetime
import decimal

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

MUONS = {"Muon": ak.Array([[{"pt": 1.0, "q": 1}, {"pt": 2.0, "q": -1}], []])}

LOOK = """
import sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1])
assert frame.Sum("Muon_pt").GetValue() == 3
assert frame.Define("n", "jets_c.size()").Sum("n").GetValue() == 1
"""


QUANTIZED = """
import sys
import ROOT
import numpy
columns = ROOT.RDataFrame("Events", sys.argv[1]).AsNumpy()
for name, column in columns.items():
    bound = numpy.float32(name.split("_")[1] + "." + name.split("_")[2])
    assert column.tolist() == [bound, -bound], (name, column)
assert len(columns) == 9
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new.root"


def test_a_second_ntuple_of_a_name_is_a_cycle_and_a_complete_one_is_not_extended(path):
    with fb.recreate(path) as file:
        file["A"] = {"x": [1]}
        with pytest.raises(fb.UsageError, match=r"f\.mkrntuple\('A', \.\.\.\).*fb\.open\(\[\.\.\.\]\)"):
            file["A"].extend({"x": [2]})
        writer = file.mkrntuple("dir/B", {"x": "int32"})
        assert file["dir/B"] is writer
        file["dir/B"].extend({"x": [3]})
    with fb.update(path) as file:
        file.mkrntuple("A", {"x": "int64"}, new_cycle=True).extend({"x": [2]})
    assert fb.open(f"{path}:A").arrays().x.tolist() == [2]
    assert fb.open(f"{path}:A;1").arrays().x.tolist() == [1]
    assert fb.open(f"{path}:dir/B").arrays().x.tolist() == [3]


def test_an_ntuple_is_not_hidden_unasked_and_the_ways_to_add_to_it_work(tmp_path, path):
    # the second one hid all fields of the first
    with fb.recreate(path) as file:
        file["dir/A"] = {"x": [1, 2], "z": [3.0, 4.0]}
        with pytest.raises(fb.UsageError):
            file["dir/A"] = {"y": [5, 6]}
    before = path.read_bytes()
    with (
        pytest.raises(fb.UsageError, match=r"fb\.join_columns.*fb\.merge\(append=True\).*new_cycle=True.*A;1") as told,
        fb.update(path) as file,
    ):
        file["dir/A"] = {"y": [5, 6]}
    assert told.value.kind == "name-taken"
    assert path.read_bytes() == before
    more = tmp_path / "more.root"
    fb.write(more, {"y": [5, 6]}, name="more")
    fb.join_columns([f"{path}:dir/A", f"{more}:more"], tmp_path / "wide.root")
    wide = fb.open(tmp_path / "wide.root")
    assert wide.object_path == "dir/A"
    assert wide.arrays(library="ak").tolist() == [{"x": 1, "z": 3.0, "y": 5}, {"x": 2, "z": 4.0, "y": 6}]
    fb.write(more, {"x": [7], "z": [8.0]}, name="dir/A")
    fb.merge([more], path, append=True)
    assert fb.open(path)["x"].array().tolist() == [1, 2, 7]


def test_a_file_tells_its_names_as_a_dict_does(path):
    # the missing methods raised an error that ended the with block, and with it the file
    with fb.recreate(path) as file:
        file["A"] = {"x": [1]}
        file["dir/B"] = {"x": [2]}
        assert list(file) == file.keys() == ["A", "dir"]
        assert len(file) == 2
        for name in ("A", "dir", "dir/B", "/dir/B"):
            assert name in file
        for name in ("B", "dir/A", "A/B", "nowhere/B", ""):
            assert name not in file
    assert fb.open(f"{path}:dir/B").num_entries == 1


@pytest.mark.parametrize("call", ["mkrntuple", "mkdir", "keys", "__getitem__", "__contains__"])
def test_names_that_are_no_strings_are_told(path, call):
    with fb.recreate(path) as file, pytest.raises(fb.UsageError, match=r"names must be strings.*'Events'.*not a dict"):
        getattr(file, call)({"x": "int32"}, *(["Events"] if call == "mkrntuple" else []))


@pytest.mark.parametrize("wrong", [{"a": [1]}, b"x.root", 5])
def test_a_path_that_is_none_is_told(path, wrong):
    with pytest.raises(fb.UsageError):
        fb.write(wrong, str(path))
    with pytest.raises(fb.UsageError):
        fb.recreate(wrong)
    assert not path.exists()


def test_directories_are_written_into(path):
    # mkdir returned the file, so all of this was written outside of the directory
    with fb.recreate(path) as file:
        folder = file.mkdir("a/b")
        assert isinstance(folder, fb.WritableDirectory)
        folder["One"] = {"x": [1]}
        writer = folder.mkrntuple("Two", {"x": "int32"}, "it is two", precision=None)
        assert folder["Two"] is writer is file["a/b/Two"]
        folder.mkdir("c")["Three"] = {"x": [3]}
        again = file["a"]["b"]
        assert again.path == "a/b"
        assert list(again) == again.keys() == ["One", "c"]
        assert len(again) == 2
        assert "One" in again
        assert "c/Three" in again
        assert "Three" not in again
        writer.extend({"x": [2]})
        for name in ("", "/"):
            with pytest.raises(fb.UsageError, match="'a/b' needs a name"):
                again[name] = {"x": [1]}
        assert file.keys() == ["a"]
    values = [fb.open(f"{path}:a/b/{name}").arrays().x.tolist() for name in ("One", "Two", "c/Three")]
    assert values == [[1], [2], [3]]
    assert fb.open(f"{path}:a/b/Two").description == "it is two"
    with fb.update(path) as file:
        file["a/b"]["Four"] = {"x": [4]}
    assert fb.open(f"{path}:a/b/Four").arrays().x.tolist() == [4]


@pytest.mark.parametrize("when", ["open", "closed", "earlier"])
def test_what_should_be_in_an_ntuple_is_told_so(path, when):
    with fb.recreate(path) as file:
        file.mkrntuple("d/A", {"x": "int32"}).extend({"x": [1]})
        if when == "closed":
            file["d/A"].close()
        if when == "earlier":
            file.close()
            file = fb.update(path)
        for slip in (
            lambda: file["d/A/B"],
            lambda: file["d"]["A/B/C"],
            lambda: file.mkdir("d/A"),
            lambda: file.mkrntuple("d/A/B", {"x": "int32"}),
            lambda: file["d"].__setitem__("A/B", {"x": [1]}),
        ):
            with pytest.raises(fb.UsageError, match="'d/A' is an ntuple, not a directory"):
                slip()
        file.close()
    assert fb.open(f"{path}:d/A").num_entries == 1


def test_numpys_names_of_numbers_work_in_templates_and_enums(path):
    spec = {"c": "std::vector<int32>", "s": "str", "e": fb.Enum("Color", "int16"), "m": "std::map<str,float32>"}
    with fb.recreate(path) as file:
        file.mkrntuple("Events", spec).extend({"c": [[1]], "s": ["a"], "e": [2], "m": [[("x", 0.5)]]})
    nt = fb.open(path)
    assert nt["c"].typename == "std::vector<std::int32_t>"
    assert nt["m"].typename == "std::map<std::string,float>"
    assert nt.arrays().tolist() == [{"c": [1], "s": "a", "e": 2, "m": [("x", 0.5)]}]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (fb.Enum("Color", "float"), "field 'x': 'float' is not an integer type for the enum Color"),
        (fb.Enum("Color", "foo"), "field 'x': 'foo' is not an integer type"),
        ("std::vector<foo>", r'"x" cannot be written: .* contains "foo", which is not a known type(?!.*did you)'),
        ("std::vector<flaot>", "did you mean float"),
        ("datetime64[s]", r"field 'x': NumPy's datetime64\[s\] has no counterpart .*integers"),
    ],
)
def test_types_that_are_none_are_told_with_the_users_field(path, kind, message):
    with fb.recreate(path) as file, pytest.raises(fb.UsageError, match=message):
        file.mkrntuple("Events", {"x": kind})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": np.array(["2020-01-01"], "datetime64[s]")}, r'datetime64\[s\] has .*\.astype\("int64"\)'),
        ({"x": [datetime.date(2020, 1, 1)]}, r'datetime64\[D\] has .*\.astype\("int64"\)'),
        ({"x": np.array(5)}, "is a single value, not a column"),
        ({"x": [2**64]}, "more than 64 bits"),
        ({"x": [-(2**64)]}, "more than 64 bits"),
        ({"x": [{"a": [2**64]}]}, "more than 64 bits"),
        ({"x": [[2**63, -1]]}, r"negative integers, and others from 2\*\*63 on"),
        ({"x": [[2**63, 1.5]]}, r"from 2\*\*63 on among other numbers"),
        # the message was about integers
        ({"x": ["\ud800"]}, r"'\\ud800' cannot be encoded as UTF-8"),
        ({"x": [[datetime.date(2020, 1, 1)]]}, r"^field 'x' cannot be written: NumPy's datetime64"),
        ({"x": [decimal.Decimal("1.5")]}, "convert its values to numbers, strings"),
        ({"x": [1], "pt": [[]]}, r'types=\{"pt": "var \* float32"\}'),
        ({"x": [None]}, r'types=\{"x": "\?float32"\}'),
        ([{"x": 1}, {"x": 2}], r"ak\.Array\(list\)"),
        (ak.zip({"a": [[1, 2], [3]], "b": [1, 2]}), "depth_limit=1"),
    ],
)
def test_data_that_cannot_be_written_are_told_with_what_to_do(path, data, message):
    with pytest.raises(fb.UsageError, match=message) as raised:
        fb.write(path, data)
    assert "\n" not in str(raised.value)
    assert not path.exists()


def test_tables_that_need_a_change_are_told_which(path, need):
    pa = need("pyarrow")
    for column, message in [
        ([datetime.date(2020, 1, 1)], "cast it to numbers or strings"),
        ([decimal.Decimal("1.5")], "cast it to numbers or strings"),
        ([None], "give its type, for example with types"),
    ]:
        with pytest.raises(fb.UsageError, match=message):
            fb.write(path, pa.table({"x": column}))
    with pytest.raises(fb.UsageError, match='rename it, for example to "price__EUR_"'):
        fb.write(path, pa.table({"price (EUR)": [1.5]}))
    assert fb.write(path, pa.table({"x": [None]}), types={"x": "?int32"}) == 1
    assert fb.open(path)["x"].array().to_list() == [None]


def test_types_say_what_data_do_not(path):
    data = {"n": [1, 2], "pt": [[], []], "m": [{"a": 1.5}, {}]}
    types = {"n": "int32", "pt": "var * float32", "m": "std::map<std::string,double>"}
    assert fb.write(path, data, types=types) == 2
    nt = fb.open(path)
    assert [nt[name].typename for name in types] == ["std::int32_t", "std::vector<float>", types["m"]]
    assert nt["m"].array().to_list() == [[("a", 1.5)], []]
    with pytest.raises(fb.UsageError, match='types has "pn", which is not a column'):
        fb.write(path, data, types={"pn": "int32"})
    with pytest.raises(fb.UsageError), fb.recreate(path) as file:
        file.mkrntuple("Events", {"n": "int32"}, types={"n": "int32"})


@pytest.mark.parametrize("source", ["Muon.pt", "Muon._0.pt"])
def test_views_of_members_are_given_by_type_and_path_alone(path, source):
    views = {"Muon_pt": fb.Projected("ROOT::RVec<double>", source), "nMuon": fb.Cardinality("Muon")}
    fb.write(path, MUONS, projected=views, precision={source: (20, 0, 100)} if "_0" in source else None)
    nt = fb.open(path)
    assert nt["Muon_pt"].typename == "ROOT::VecOps::RVec<double>"
    assert ak.almost_equal(nt["Muon_pt"].array(), [[1.0, 2.0], []], rtol=1e-3, dtype_exact=False)
    with pytest.raises(fb.UsageError, match=r'its source "Muon\.ptt" does not exist'):
        fb.write(path, MUONS, projected={"v": fb.Projected("RVec<float>", "Muon.ptt")})


def test_root_reads_views_that_follow_from_type_and_path(path, run_root):
    data = MUONS | {"jets": ak.Array([[{"c": [1.0, 2.0]}], []])}
    views = {
        "Muon_pt": fb.Projected("ROOT::RVec<double>", "Muon.pt"),
        "jets_c": fb.Projected("std::vector<std::vector<double>>", "jets.c"),
    }
    fb.write(path, data, projected=views)
    assert fb.open(path)["jets_c"].array().to_list() == [[[1.0, 2.0]], []]
    run_root(LOOK, path)


@pytest.mark.parametrize("name", ["x.parquet", "x.PQ", "x.arrow", "x.feather", "x.ipc"])
def test_tables_are_made_by_convert(tmp_path, name):
    with pytest.raises(fb.UsageError, match=r"fb\.convert"):
        fb.write(tmp_path / name, {"x": [1]})
    with pytest.raises(fb.UsageError, match=r"fb\.convert"):
        fb.recreate(tmp_path / name)


def test_tables_get_names_that_cpp_takes(tmp_path, need):
    # "price (EUR)" became "price_(EUR)", which no RDataFrame expression can name
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    table = pa.table({"price (EUR)": [1.5], "2mu": [1], "a.b/c": [2], "s": [{"x-y": 1, "1": 2}], "1": [3], "µ": [3]})
    parquet.write_table(table, tmp_path / "t.parquet")
    report = fb.convert(tmp_path / "t.parquet", tmp_path / "t.root")
    assert report.equal
    assert fb.open(tmp_path / "t.root").keys() == ["price__EUR_", "_2mu", "a_b_c", "s", "s.x_y", "s.1", "_1", "µ"]
    assert report.notes["price (EUR)"] == 'renamed to "price__EUR_"'


def test_trees_that_cannot_be_written_as_they_are_point_to_convert(path, testdata):
    with pytest.raises(fb.UsageError, match=r"fb\.convert\('.*:.*', \.\.\.\)"):
        fb.write(path, fb.open(testdata / "ttree" / "objects_split99.root"))


def test_open_says_who_reads_tables_and_who_writes(tmp_path, dimuon, need):
    need("pyarrow")
    fb.convert(dimuon, tmp_path / "odd.parquet", fields="run")
    with pytest.raises(fb.FormatError, match=r"fb\.convert\(.*odd\.parquet"):
        fb.open(tmp_path / "odd.parquet")
    for call in (lambda: fb.open(dimuon, "w"), lambda: fb.open(dimuon, mode="w")):
        with pytest.raises(fb.UsageError, match=r"fb\.recreate"):
            call()
    with pytest.raises(fb.UsageError):
        fb.open(str(dimuon), "Events")
    with pytest.raises(fb.UsageError, match="names of fields, not 5"):
        fb.open(dimuon).arrays(5)
    with pytest.raises(fb.UsageError):
        fb.convert(dimuon, "-")


def test_a_file_that_is_read_is_not_replaced(path, monkeypatch):
    fb.write(path, {"x": [1]})
    monkeypatch.chdir(path.parent)
    with pytest.raises(fb.UsageError):
        fb.write("new.root", fb.open(f"{path}:Events"))
    with fb.update(path) as file:
        file["Copy"] = fb.open(f"{path}:Events")
    assert fb.open(f"{path}:Copy").arrays().x.tolist() == [1]


def test_an_index_of_pandas_is_a_column_if_it_has_a_name(path, need):
    pd = need("pandas")
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[7, 8, 9])
    with pytest.warns(UserWarning, match=r"unnamed index .* is not written; name it with rename_axis") as caught:
        fb.write(path, frame)
    assert (len(caught), fb.open(path).keys()) == (1, ["x"])
    # a default index is not written
    fb.write(path, frame.reset_index(drop=True))
    fb.write(path, frame.rename_axis("event"))
    assert fb.open(path).arrays().tolist()[0] == {"event": 7, "x": 1}
    with pytest.raises(fb.UsageError, match="rename_axis"):
        fb.write(path, frame.rename_axis("x"))


def test_nan_of_pandas_is_a_value_and_na_is_none(path, need):
    # a frame with a NaN became std::optional<double>, and another one did not match a field of doubles
    pd = need("pandas")
    need("pyarrow")
    frame = pd.DataFrame(
        {
            "d": [1.0, np.nan],
            "f": np.array([np.nan, 2], "float32"),
            "n": pd.array([1.5, None], "Float64"),
            "a": pd.array([None, 2], "int32[pyarrow]"),
            "o": pd.Series([None, 1.5], dtype=object),
            "s": ["x", None],
            "c": pd.Categorical(["u", "v"]),
        }
    )
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", frame)
        writer.extend(frame)
        writer.extend(frame.iloc[::-1])
        with pytest.raises(fb.UsageError, match="1 of 2 values are missing"):
            writer.extend(frame.assign(d=pd.array([1.5, None], "Float64")))
    nt = fb.open(path)
    assert nt.typenames() == {
        "d": "double",
        "f": "float",
        "n": "std::optional<double>",
        "a": "std::optional<std::int32_t>",
        "o": "std::optional<double>",
        "s": "std::optional<std::string>",
        "c": "std::string",
    }
    arrays = nt.arrays()
    assert np.array_equal(arrays.d.to_numpy(), [1, np.nan, np.nan, 1], equal_nan=True)
    assert np.array_equal(arrays.f.to_numpy(), [np.nan, 2, 2, np.nan], equal_nan=True)
    assert arrays[["n", "a", "o", "s"]].to_list()[:2] == [
        {"n": 1.5, "a": None, "o": None, "s": "x"},
        {"n": None, "a": 2, "o": 1.5, "s": None},
    ]
    assert arrays.c.to_list() == ["u", "v", "v", "u"]


def test_columns_of_pandas_that_cannot_be_written_are_named(path, need):
    pd = need("pandas")
    need("pyarrow")
    with pytest.raises(fb.UsageError, match="field 'mixed' cannot be written: its values have different types"):
        fb.write(path, pd.DataFrame({"x": [1, 2], "mixed": [1, "a"]}))
    twice = pd.DataFrame([[1, 2.5]], columns=["x", "x"])
    with pytest.raises(fb.UsageError, match="several columns with the same name: x"):
        fb.write(path, twice)
    assert not path.exists()


def in_objects(items):
    column = np.empty(len(items), object)
    column[:] = items
    return column


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64", "bool", ">i2", "float16"])
@pytest.mark.parametrize("made", [list, in_objects], ids=["list", "array"])
def test_items_of_numpys_types_keep_them(path, dtype, made):
    # all became double and int64
    flat = np.array([1, 0, 1], dtype)
    columns = {
        "arrays": made([flat[:2], np.array([]), flat[2:], flat[:0]]),
        "scalars": made([flat[0], flat[1], flat[2], flat[0]]),
        "lists": made([[flat[0], flat[1]], [], [flat[2]], []]),
        "strided": made([flat[::2], flat[::-1], flat[:0], flat]),
    }
    fb.write(path, columns)
    arrays = fb.open(path).arrays()
    kind = np.dtype(dtype).name
    assert str(arrays.type) == (
        f"4 * {{arrays: var * {kind}, scalars: {kind}, lists: var * {kind}, strided: var * {kind}}}"
    )
    assert arrays.arrays.to_list() == [[1, 0], [], [1], []]
    assert arrays.scalars.to_list() == [1, 0, 1, 1]
    assert arrays.lists.to_list() == [[1, 0], [], [1], []]
    assert arrays.strided.to_list() == [[1, 1], [1, 0, 1], [], [1, 0, 1]]


def test_items_of_several_types_become_what_awkward_makes_of_them(path):
    columns = {
        "arrays": [np.array([1], "int32"), np.array([2.5], "float32")],
        "scalars": [np.float32(1), np.float64(2.5)],
        "missing": [np.array([1.5], "float32"), None],
        "mixed": [np.float32(1), 2.5],
        "matrices": [np.ones((1, 2), "int64"), np.zeros((2, 1), "int64")],
        "texts": [np.array(["a", "b"]), np.array(["c"])],
        "tuples": [(np.int8(1), np.int8(2)), (np.int8(3), np.int8(4))],
    }
    fb.write(path, columns)
    nt = fb.open(path)
    assert [nt[name].typename for name in columns] == [
        "std::vector<double>",
        "double",
        "std::optional<std::vector<double>>",
        "double",
        "std::vector<std::vector<std::int64_t>>",
        "std::vector<std::string>",
        "std::pair<std::int64_t,std::int64_t>",
    ]
    assert nt.arrays().to_list()[1] == {
        "arrays": [2.5],
        "scalars": 2.5,
        "missing": None,
        "mixed": 2.5,
        "matrices": [[0], [0]],
        "texts": ["c"],
        "tuples": (3, 4),
    }


def test_empty_arrays_fit_lists_of_any_type(path):
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"n": "var * int32"})
        writer.extend({"n": [np.array([]), np.array([])]})
        writer.extend({"n": [np.array([7]), np.array([])]})
    assert fb.open(path)["n"].array().to_list() == [[], [], [7], []]
    with pytest.raises(fb.UsageError):
        fb.write(path, {"n": [np.array([])]})
    fb.write(path, {"n": [np.array([], "int16")]})
    assert str(fb.open(path)["n"].array().type) == "1 * var * int16"


def test_attributes_of_entries_that_are_not_there_are_refused_at_once(path):
    # only the end of the file reported it, and lost all entries
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"x": "int32"})
        about = writer.mkattributes("runs", {"run": "int32"})
        about.append(0, 0, {"run": 0})
        writer.extend({"x": [1, 2]})
        with pytest.raises(fb.UsageError, match=r"'runs': entries 1 to 3 .* 'Events' has 2 so far; append .* after"):
            about.append(1, 3, {"run": 1})
        about.append(0, 2, {"run": 2})
    nt = fb.open(path)
    assert nt.attributes["runs"]["_userData.run"].array().to_list() == [0, 2]
    assert nt.num_entries == 2


@pytest.mark.parametrize("source", ["Muon.pt", "Muon._0.pt"])
def test_views_that_come_later_show_what_is_there(path, source, run_root):
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"Muon": "var * {pt: float64, q: int64}"})
        writer.extend({"Muon": MUONS["Muon"]})
        writer.add_fields({"x": "float32"})
        writer.add_fields(
            {
                "jets": "var * {c: var * float64}",
                "Muon_pt": fb.Projected("ROOT::RVec<double>", source),
                "nMuon": fb.Cardinality("Muon"),
                "jets_c": fb.Projected("std::vector<std::vector<double>>", "jets.c"),
            }
        )
        with pytest.raises(fb.UsageError, match=r'its source "Muon\.ptt" does not exist'):
            writer.add_fields({"v": fb.Projected("ROOT::RVec<double>", "Muon.ptt")})
        with pytest.raises(fb.UsageError, match=r"'Muon\.eta' cannot be added: records get no members .*'Muon_eta'"):
            writer.add_fields({"Muon.eta": "float32"})
        writer.extend({"Muon": [[{"pt": 4.0, "q": 1}]], "x": [0.5], "jets": [[{"c": [5.0]}]]})
    nt = fb.open(path)
    assert nt["Muon_pt"].array().to_list() == [[1, 2], [], [4]]
    assert nt["nMuon"].array().to_list() == [2, 0, 1]
    assert nt["jets_c"].array().to_list() == [[], [], [[5]]]
    run_root(LOOK.replace("== 3", "== 7"), path)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("int32", ["a"], "expected int32, but was given strings or bytes$"),
        ("int32", [[1, 2]], "expected int32, but was given lists of int64$"),
        ("int32", np.array([[1, 2]]), "expected int32, but was given lists of 2 int64$"),
        ("int32", [{"a": 1.5, "b": True}], r"was given records \{a: float64, b: bool\}$"),
        ("var * int32", [1], "expected lists, but was given int64$"),
    ],
)
def test_what_was_given_is_told_in_words(path, kind, values, message):
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"x": kind})
        with pytest.raises(fb.UsageError, match=message):
            writer.extend({"x": values})


def test_histograms_are_told_to_be_none_of_this(path):
    # like those of hist, which need not be installed
    histogram = type("Hist", (), {"__module__": "hist.hist", "__arrow_c_stream__": None})()
    for write in (lambda: fb.write(path, histogram), lambda: fb.write(path, {"h": histogram})):
        with pytest.raises(fb.UsageError):
            write()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("var * float", "std::vector<float>"),
        ("var * var * double", "std::vector<std::vector<double>>"),
        ("3 * int", "std::array<std::int32_t,3>"),
        ("?bool", "std::optional<bool>"),
        ("union[int, var * double]", "std::variant<std::int32_t,std::vector<double>>"),
        # at the top level these were taken for C++ names
        ("(uint64, bool)", "std::pair<std::uint64_t,bool>"),
        ("(float, (int8, int8, int8))", "std::pair<float,std::tuple<std::int8_t,std::int8_t,std::int8_t>>"),
        ("tuple[[int8, double]]", "std::pair<std::int8_t,double>"),
        ("bytes", "std::vector<std::byte>"),
    ],
)
def test_types_of_awkward_take_numbers_by_cpps_names(path, kind, expected):
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": kind})
    assert fb.open(path)["x"].typename == expected


def test_names_of_cpps_numbers_may_be_those_of_members(path):
    kind = 'var * {int: float, float : int, "double": double, pt: var * bool}'
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": kind})
    assert str(fb.open(path)["x"].array().type) == (
        "0 * var * {int: float32, float: int32, double: float64, pt: var * bool}"
    )


def test_maps_are_dicts_or_pairs(path):
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"m": "std::unordered_map<std::int32_t,double>"})
        writer.extend({"m": [{2: 0.5, 1: 1.5}, {}]})
        writer.extend({"m": [[(3, 2.5)]]})
        with pytest.raises(fb.UsageError):
            writer.extend({})
    found = fb.open(path)["m"].array().to_list()
    assert [dict(entry) for entry in found] == [{1: 1.5, 2: 0.5}, {}, {3: 2.5}]


def test_an_empty_column_of_a_union_is_a_column(tmp_path):
    array = ak.Array([{"f": [1, "a"]}])[:0]
    with fb.recreate(tmp_path / "empty.root") as file:
        file.mkrntuple("Events", array).extend({"f": array["f"]})
    assert fb.open(tmp_path / "empty.root").num_entries == 0


def test_masks_of_arrays_in_lists_are_kept(tmp_path):
    """Masked values were written as if they were not masked."""
    masked = np.ma.array([1, 2], mask=[False, True], dtype="f4")
    objects = np.empty(1, dtype=object)
    objects[0] = masked
    for i, column in enumerate([[masked], objects]):
        fb.write(tmp_path / f"{i}.root", {"x": column})
        assert fb.open(tmp_path / f"{i}.root").arrays()["x"].to_list() == [[1.0, None]]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("float", "Jet.pt"),
        ("float", "o"),
        ("std::vector<float>", "o"),
        ("std::array<float,3>", "a"),
        ("float", "a"),
    ],
)
def test_views_show_what_has_as_many_values(tmp_path, kind, source):
    """A projected number had the items of lists as if each belonged to an entry."""
    spec = {"Jet": "var * {pt: float32, in: var * int32}", "o": "?float32", "a": "3 * float32"}
    with fb.recreate(tmp_path / "x.root") as file:
        with pytest.raises(fb.UsageError, match="its source"):
            file.mkrntuple("e", spec | {"view": fb.Projected(kind, source)})
        with pytest.raises(fb.UsageError, match="its source"):
            file.mkrntuple("e", spec | {"n": fb.Cardinality("Jet.in")})
        writer = file.mkrntuple("e", spec)
        with pytest.raises(fb.UsageError, match="its source"):
            writer.add_fields({"view": fb.Projected(kind, source)})


def written(path, kind, *batches):
    """Return what is read of batches of one column."""
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"c": kind})
        for batch in batches:
            writer.extend({"c": batch})
    return fb.open(path)["c"].array().to_list()


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("std::optional<std::variant<int,std::vector<int>>>", [1, [2], None], [[2], [3]]),
        ("std::optional<std::variant<int,std::vector<int>>>", [1, [2], None], [[2, 3], []]),
        ("option[union[string, var * string]]", ["x", ["a"], None], [["a"], ["b"]]),
        ("var * option[union[int64, var * int64]]", [[1, [2], None]], [[[2], [3]], []]),
        ("std::optional<std::array<double,2>>", [[1.0, 2.0], None], [[3.0, 4.0]]),
        ("std::optional<std::array<double,1>>", [[1.0], None], [[3.0]]),
        ("std::optional<std::bitset<3>>", [[True, False, True], None], [[False, False, True]]),
        ("std::optional<std::array<std::array<int,2>,1>>", [[[1, 2]], None], [[[3, 4]]]),
        ("std::vector<std::optional<std::array<int,2>>>", [[[1, 2], None], []], [[[3, 4]]]),
        ("std::optional<std::map<std::string,int>>", [[("a", 1)], None], [[("b", 2), ("c", 3)]]),
        ("?var * int64", [[1], None, []], [[2], []]),
        ("?{x: int64, y: ?2 * int64}", [{"x": 1, "y": None}, None], [{"x": 2, "y": [3, 4]}]),
    ],
)
def test_what_may_be_missing_is_given_as_it_is_in_every_batch(path, kind, first, second):
    """A batch of lists of at most one item was taken for optional values: [2] was read as 2."""
    assert written(path, kind, first, second) == first + second
    assert written(path, kind, second, first) == second + first


def test_maps_that_may_be_missing_are_dicts_too(path):
    found = written(path, "std::optional<std::map<std::string,int>>", [{"a": 1}, None], [{"b": 2, "c": 3}])
    assert found == [[("a", 1)], None, [("b", 2), ("c", 3)]]


def test_a_list_is_no_number_that_may_be_missing(path):
    """Lists of zero or one item became numbers and missing values."""
    for kind, values in [
        ("?float32", [[1.5], []]),
        ("?string", [["a"], []]),
        ("std::optional<int>", [[1]]),
        ("?{x: int32}", [[{"x": 1}], []]),
        ("std::unique_ptr<float>", [[1.5, 2.5], []]),
        ("std::unique_ptr<float>", [[1.5], None]),
        ("std::unique_ptr<std::optional<float>>", [[1.5], []]),
    ]:
        with pytest.raises(fb.UsageError, match=r"expected|zero or one"):
            written(path, kind, values)


def test_pointers_are_values_or_lists_of_none_or_one_by_their_types(path):
    """Arrays behind pointers were taken for lists of zero or one item, and refused."""
    assert written(path, "std::unique_ptr<std::array<double,2>>", [[1, 2], None], [[3, 4]]) == [[[1, 2]], [], [[3, 4]]]
    assert written(path, "std::unique_ptr<std::vector<int>>", [[1], None], [[2], []]) == [[[1]], [], [[2]], [[]]]
    assert written(path, "std::unique_ptr<float>", [1.5, None], [[2.5], []], [3.5]) == [[1.5], [], [2.5], [], [3.5]]
    assert written(path, "std::unique_ptr<std::string>", ["a", None], [["b"], []], [[], []]) == [
        *(["a"], [], ["b"], [], [], []),
    ]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("float64", {"precision": {"x": 20}}), ("Double32_t", {}), ("float", {})],
)
def test_doubles_that_single_precision_makes_infinite_are_refused(path, kind, options):
    """In Double32_t and columns with reduced bits, they silently became infinite."""
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"x": kind}, **options)
        with pytest.raises(fb.UsageError, match=r"2e300 becomes infinite in single|float32 cannot represent"):
            writer.extend({"x": np.array([1.0, 2e300])})
        with pytest.raises(fb.UsageError, match=r"-1e40 becomes infinite in single|float32 cannot represent"):
            writer.extend({"x": np.array([-1e40])})
        writer.extend({"x": np.array([np.inf, -np.inf, np.nan, 3.40282355e38, 0.5])})
    found = fb.open(path)["x"].array().to_numpy()
    assert np.isinf(found[:2]).all()
    assert np.isnan(found[2])
    assert np.isfinite(found[3:]).all()


def test_ranges_of_singles_are_of_singles(path):
    with pytest.raises(fb.UsageError, match="not a valid range in single precision"):
        fb.write(path, {"x": np.array([1.0], "f4")}, precision={"x": (20, -1e300, 1e300)})
    fb.write(path, {"x": np.array([0.0, 1e300])}, precision={"x": (20, 0, 1e300)})
    assert fb.open(path)["x"].array().to_list() == [0.0, 1e300]


SEEN = {
    "n": "int32",
    "u": "uint32",
    "l": "int64",
    "x": "double",
    "f": "float",
    "q": "double",
    "phi": "float",
    "flag": "bool",
    "color": fb.Enum("Color", "std::uint8_t"),
    "bits": "std::bitset<5>",
    "s": "std::string",
    "o": "?float32",
    "p": "std::unique_ptr<float>",
    "m": "std::map<std::string,float>",
    "t": "std::tuple<int,float>",
    "at": "std::atomic<int>",
    "a": "3 * float32",
    "v": "std::variant<int,std::string>",
    "ints": "std::vector<int>",
    "names": "std::vector<std::string>",
    "maybe": "std::vector<std::optional<float>>",
    "pairs": "std::vector<std::pair<int,std::vector<float>>>",
    "Jet": "var * {pt: float32, s: string, a: 2 * float32, r: ?{x: int32}}",
}

SEEN_DATA = {
    "n": [-1, 2],
    "u": [1, 4000000000],
    "l": [2**40, 2],
    "x": [0.5, 1e300],
    "f": [0.5, 1.5],
    "q": [0.0, 10.0],
    "phi": [0.5, -1.5],
    "flag": [True, False],
    "color": [1, 2],
    "bits": [[True, False, True, False, False]] * 2,
    "s": ["a", ""],
    "o": [1.5, None],
    "p": [1.5, None],
    "m": [{"a": 1.0, "b": 2.0}, {}],
    "t": [(7, 0.5), (8, 1.5)],
    "at": [1, 2],
    "a": [[1.0, 2.0, 3.0]] * 2,
    "v": [1, "z"],
    "ints": [[1, 2], []],
    "names": [["a", "bc"], []],
    "maybe": [[1.5, None], []],
    "pairs": [[(1, [0.5]), (2, [])], []],
    "Jet": ak.Array(
        [
            [
                {"pt": 1.5, "s": "x", "a": [1.0, 2.0], "r": None},
                {"pt": 2.5, "s": "yy", "a": [3.0, 4.0], "r": {"x": 5}},
            ],
            [{"pt": 3.5, "s": "", "a": [5.0, 6.0], "r": {"x": 6}}],
        ]
    ),
}

SEEN_PRECISION = {"q": (20, 0, 10), "phi": (12, -3, 3)}


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *[(kind, "n") for kind in ("double", "float", "bool", "std::uint32_t", "std::int8_t", "std::string", "char")],
        *[("std::int8_t", "l"), ("float", "x"), ("std::byte", "f"), ("std::int32_t", "u"), ("float", "q")],
        # ROOT computes fractions in the precision of the projected field
        ("double", "phi"),
        *[(kind, "bits") for kind in ("bool", "std::uint64_t", "std::bitset<6>", "std::array<bool,5>")],
        *[(kind, "s") for kind in ("std::vector<char>", "std::vector<std::int8_t>", "std::vector<float>")],
        *[("std::vector<double>", "names"), ("std::set<int>", "ints"), ("std::vector<std::vector<int>>", "ints")],
        *[("std::vector<std::vector<char>>", "Jet.s"), ("std::vector<int>", "Jet.pt"), ("std::vector<int>", "Jet")],
        *[
            ("std::vector<float>", "o"),
            ("float", "o"),
            ("std::optional<float>", "maybe"),
            ("std::multimap<str,int>", "m"),
        ],
        *[("std::pair<int,int>", "t"), ("std::tuple<int,float,int>", "t"), ("std::atomic<short>", "at")],
    ],
)
def test_views_are_of_types_that_the_columns_have(path, kind, source):
    """ROOT could not build the model of the whole ntuple; narrower types had wrong values, or none."""
    with fb.recreate(path) as file:
        with pytest.raises(fb.UsageError, match=r'its source ".*, an? .*, cannot be read as "[^"]+" without loss'):
            file.mkrntuple("e", SEEN | {"view": fb.Projected(kind, source)}, precision=SEEN_PRECISION)
        writer = file.mkrntuple("e", SEEN, precision=SEEN_PRECISION)
        with pytest.raises(fb.UsageError, match="without loss"):
            writer.add_fields({"view": fb.Projected(kind, source)})
        if kind == "float":
            below = {"_0": fb.Projected("double", "ints._0")}
            with pytest.raises(fb.UsageError, match="without loss"):
                writer.add_fields({"view": fb.Projected("std::vector<float>", "ints", below)})


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *[("std::array<float,3>", "a"), ("std::vector<float>", "a"), ("float", "a._0")],
        *[("std::vector<std::array<float,2>>", "Jet.a"), ("std::variant<int,std::string>", "v"), ("int", "v._0")],
    ],
)
def test_that_there_are_no_views_of_arrays_and_variants_is_told(path, kind, source):
    with (
        fb.recreate(path) as file,
        pytest.raises(fb.UsageError, match=r"cannot be projected, also not by ROOT"),
    ):
        file.mkrntuple("e", SEEN | {"view": fb.Projected(kind, source)})


VIEWS = {
    "l_n": ("std::int64_t", "n", "-1 2"),
    "l_u": ("std::int64_t", "u", "1 4000000000"),
    "n_flag": ("std::int32_t", "flag", "1 0"),
    "d_f": ("double", "f", "0.5 1.5"),
    "d_q": ("double", "q", "0 10"),
    "color_color": ("Color", "color", "1 2"),
    "n_color": ("std::uint8_t", "color", "1 2"),
    "b_bits": ("std::bitset<5>", "bits", '"00101" "00101"'),
    "s_s": ("std::string", "s", '"a" ""'),
    "o_o": ("std::optional<float>", "o", "1.5 null"),
    "od_o": ("?float64", "o", "1.5 null"),
    "o_p": ("std::optional<float>", "p", "1.5 null"),
    "m_m": ("std::map<std::string,float>", "m", '[{"_0": "a", "_1": 1}, {"_0": "b", "_1": 2}] []'),
    "v_m": ("std::vector<std::pair<std::string,double>>", "m", '[{"_0": "a", "_1": 1}, {"_0": "b", "_1": 2}] []'),
    "k_m": ("std::vector<std::string>", "m._0._0", '["a", "b"] []'),
    "t_t": ("std::tuple<int,float>", "t", '{ "_0": 7, "_1": 0.5 } { "_0": 8, "_1": 1.5 }'),
    "at_at": ("std::atomic<int>", "at", "1 2"),
    "n_at": ("std::int32_t", "at", "1 2"),
    "l_ints": ("ROOT::RVec<std::int64_t>", "ints", "[1, 2] []"),
    "n_names": ("std::vector<std::string>", "names", '["a", "bc"] []'),
    "v_maybe": ("std::vector<std::optional<float>>", "maybe", "[1.5, null] []"),
    "f_pairs": ("std::vector<std::vector<float>>", "pairs._1", "[[0.5], []] []"),
    "p_pairs": (
        *("std::vector<std::pair<int,std::vector<double>>>", "pairs"),
        '[{"_0": 1, "_1": [0.5]}, {"_0": 2, "_1": []}] []',
    ),
    "pt": ("var * float32", "Jet.pt", "[1.5, 2.5] [3.5]"),
    "r_x": ("std::vector<std::optional<int>>", "Jet.r.x", "[null, 5] [6]"),
}

SHOW_VIEWS = r"""
import re, sys
import ROOT
ROOT.gInterpreter.Declare('''
#include <ROOT/RNTupleReader.hxx>
#include <sstream>
enum Color : unsigned char { red, green };
std::string show(const char *path) {
   std::ostringstream out;
   auto reader = ROOT::RNTupleReader::Open("e", path);
   for (auto entry : *reader) reader->Show(entry, out);
   return out.str();
}
''')
shown = str(ROOT.show(sys.argv[1]))
for view in sys.argv[2:]:
    name, expected = view.split("=", 1)
    found = re.findall(rf'^  "{name}": (.*?),?$(?=\n  "|\n}})', shown, re.M | re.S)
    found = " ".join(" ".join(value.split()) for value in found)
    assert found == expected, (name, found, expected)
"""


def test_root_reads_views_of_all_that_it_makes_views_of(path, run_root):
    """Only projected numbers, strings and lists of these could be written, although ROOT supports more."""
    views = {name: fb.Projected(kind, source) for name, (kind, source, _) in VIEWS.items()}
    late = {name: views.pop(name) for name in ("o_o", "m_m", "p_pairs")}
    with fb.recreate(path) as file:
        writer = file.mkrntuple("e", SEEN | views, precision=SEEN_PRECISION)
        writer.add_fields(late)
        writer.extend(SEEN_DATA)
    run_root(SHOW_VIEWS, path, *[f"{name}={expected}" for name, (_, _, expected) in VIEWS.items()])
    nt = fb.open(path)
    for name in ("o_o", "m_m", "t_t", "at_at", "v_maybe", "b_bits"):
        source = VIEWS[name][1]
        assert nt[name].array().to_list() == nt[source].array().to_list()
        assert nt[name].typename == nt[source].typename
    assert nt["r_x"].array().to_list() == [[None, 5], [6]]
    uproot = pytest.importorskip("uproot")
    other = uproot.open(path)["e"]
    for name in ("o_o", "m_m", "t_t", "v_maybe", "pt", "k_m", "p_pairs"):
        assert other[name].array().to_list() == nt[name].array().to_list(), name
    # and so do copies
    copy = path.with_name("copy.root")
    fb.convert(path, copy)
    assert fb.open(copy)["p_pairs"].array().to_list() == nt["p_pairs"].array().to_list()
    assert {field.name for field in fb.open(copy).fields if field.projected} == set(VIEWS)


def test_what_is_wrong_with_a_view_is_told(path):
    """An unsupported type was reported as a missing field; others were a TypeError, or ignored."""
    with fb.recreate(path) as file:
        for kind, message in [
            ("vektor<float>", 'its type "vektor<float>" is not a known type'),
            ("var * var", "'var \\* var' is not a C"),
            ("var * {x: float32}", "has no name in C"),
            ({"a": "int32"}, "the type of a projected field must have a name"),
            (3, "the type of a projected field must have a name"),
            (fb.Class("Jets", {}), 'its type "Jets" is not a known type'),
        ]:
            with pytest.raises(fb.UsageError, match=message):
                file.mkrntuple("e", SEEN | {"view": fb.Projected(kind, "Jet.pt")})
        views = SEEN | {"view": fb.Projected("std::vector<float>", "Jet.pt")}
        with pytest.raises(fb.UsageError, match=r'its precision is set, but it is a projected field.*"Jet\.pt"'):
            file.mkrntuple("e", views, precision={"view": 12})
        with pytest.raises(fb.UsageError, match=r'its compression is set, but it is a projected field.*"Jet'):
            file.mkrntuple("e", views, field_compression={"view": "lz4"})
        writer = file.mkrntuple("e", {"n": "int32", "view": fb.Projected("int64", "n")})
        with pytest.raises(fb.UsageError, match="it is a projected field"):
            writer.extend({"n": [1], "view": [1]})


def test_views_of_classes_are_of_their_types(path):
    point = fb.Class("Point", {"x": "float", "y": "std::vector<int>"}, version=3, checksum=17)
    with fb.recreate(path) as file:
        spec = {"p": point, "points": fb.Type("std::vector<Point>", [point])}
        views = {
            "q": fb.Projected("Point", "p"),
            "more": fb.Projected("ROOT::RVec<Point>", "points"),
            "xs": fb.Projected("std::vector<double>", "points.x"),
        }
        writer = file.mkrntuple("e", spec, projected=views)
        writer.extend({"p": [{"x": 0.5, "y": [1]}], "points": [[{"x": 1.5, "y": []}]]})
    nt = fb.open(path)
    assert nt["q"].array().to_list() == [{"x": 0.5, "y": [1]}]
    assert nt["more"].array().to_list() == [[{"x": 1.5, "y": []}]]
    assert nt["xs"].array().to_list() == [[1.5]]
    fb.convert(path, path.with_name("copy.root"))
    assert fb.open(path.with_name("copy.root"))["more"].typename == "ROOT::VecOps::RVec<Point>"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("var * (int8, (int8, int8, int8))", [[(4, (1, 2, 3))], []]),
        ("(int8, (int8, int8, int8))", [(4, (1, 2, 3)), (5, (6, 7, 8))]),
        ("(int8, ?(int8, string, bool))", [(4, None), (5, (6, "a", True))]),
        ("(int8, var * (int8, int8, int8))", [(4, []), (5, [(6, 7, 8)])]),
        ("{a: (int8, {b: (int8, int8, int8)})}", [{"a": (1, {"b": (2, 3, 4)})}]),
    ],
)
def test_tuples_may_be_longer_than_those_they_are_in(path, kind, values):
    """Awkward's builder counted the members of the outer one: "'index' 2 is out of bounds for a tuple"."""
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": kind}).extend({"x": values})
    assert fb.open(path)["x"].array().to_list() == values
    fb.write(path, {"x": values})
    assert fb.open(path)["x"].array().to_list() == values


def test_tuples_of_several_lengths_within_shorter_ones_are_variants(path):
    values = [(1, (1, 2, 3)), (2, (1, 2)), (3, None), (4, [2.5]), (5, "a")]
    fb.write(path, {"x": values})
    assert fb.open(path)["x"].array().to_list() == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("var * uint64", [[2**63, 1], [], [2**64 - 1]]),
        ("{a: uint64}", [{"a": 1}, {"a": 2**63}]),
        ("var * ?uint64", [[2**63, None]]),
        ("var * {a: uint64, b: string}", [[{"a": 2**63, "b": "x"}], []]),
        ("(uint64, bool)", [(2**63, True)]),
        ("union[uint64, string, bool]", [2**63, "a", None, True]),
    ],
)
def test_integers_of_64_bits_may_be_in_lists_and_records(path, kind, values):
    """They were accepted at the top level, but in nested data only as an array."""
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"x": kind}).extend({"x": values})
    assert fb.open(path)["x"].array().to_list() == values
    fb.write(path, {"x": values})
    assert fb.open(path)["x"].array().to_list() == values


def test_masked_arrays_in_lists_keep_their_type(path):
    """They became int64 and double."""
    integers = np.ma.array([1, 2], mask=[False, True], dtype=">i2")
    columns = {
        "i": [integers, np.array([3], ">i2"), np.array([])],
        "f": in_objects([np.ma.array([1.5, 2.5], mask=[True, False], dtype="f4"), np.ma.array([], dtype="f4"), []]),
        "whole": [np.ma.array([1], dtype="u1")] * 3,
    }
    fb.write(path, columns)
    arrays = fb.open(path).arrays()
    assert str(arrays.type) == "3 * {i: var * ?int16, f: var * ?float32, whole: var * uint8}"
    assert arrays.to_list()[:2] == [
        {"i": [1, None], "f": [None, 2.5], "whole": [1]},
        {"i": [3], "f": [], "whole": [1]},
    ]


def test_masked_arrays_of_any_order_records_and_objects_are_columns(path):
    """They were errors of Awkward and NumPy, and structured arrays were refused as columns."""
    dtype = [("a", ">i4"), ("b", "f4", (2,)), ("c", [("d", "U2")])]
    whole = np.array([(1, (2.5, 3.5), ("x",)), (4, (5.5, 6.5), ("y",))], dtype)
    masked = np.ma.array(whole, mask=[(True, (False, False), (False,)), (False, (True, False), (True,))])
    fb.write(path, masked)
    expected = [{"a": None, "b": [2.5, 3.5], "c": {"d": "x"}}, {"a": 4, "b": [None, 6.5], "c": {"d": None}}]
    assert fb.open(path).arrays().to_list() == expected
    columns = {
        "swapped": masked["a"],
        "structured": whole,
        "masked": masked,
        "objects": np.ma.array(in_objects(["a", [1]]), mask=[False, True]),
    }
    fb.write(path, columns)
    nt = fb.open(path)
    assert nt["swapped"].typename == "std::optional<std::int32_t>"
    arrays = nt.arrays()
    assert arrays.swapped.to_list() == [None, 4]
    assert arrays.structured.to_list() == [
        {"a": 1, "b": [2.5, 3.5], "c": {"d": "x"}},
        {"a": 4, "b": [5.5, 6.5], "c": {"d": "y"}},
    ]
    assert arrays.masked.to_list() == expected
    assert arrays.objects.to_list() == ["a", None]
    nothing = np.ma.array(np.array([b"ab", b"c"], "V2"), mask=[False, True])
    with pytest.raises(fb.UsageError, match="V2 has no counterpart"):
        fb.write(path, {"x": nothing})


def test_no_directory_is_called_as_paths_call_others(path):
    """``a/../b`` made a directory ``..`` in ``a``."""
    with fb.recreate(path) as file:
        for name in ("a/../b", "./b", "../b"):
            with pytest.raises(fb.UsageError, match=r'invalid directory name "\.\.?" .*another name'):
                file[name] = {"x": [1]}
        for name in ("..", "a/."):
            with pytest.raises(fb.UsageError, match="invalid directory name"):
                file.mkdir(name)
        file["a"]["b"] = {"x": [1]}
    assert fb.open(f"{path}:a/b").num_entries == 1


@pytest.mark.parametrize("kind", ["list_view", "large_list_view"])
def test_views_of_lists_are_optional_only_if_something_is_missing(path, need, kind):
    """Their items were always ``std::optional``, unlike those of lists."""
    pa = need("pyarrow")
    of = getattr(pa, kind)
    columns = {"x": [[1], [2, 3]], "y": [[1], [None]]}
    arrays = {name: pa.array(values, of(pa.int32())) for name, values in columns.items()}
    nested = pa.array([[[1]], []], of(of(pa.int32())))
    fb.write(path, arrays | {"z": nested})
    kinds = "{x: var * int32, y: var * ?int32, z: var * var * int32}"
    assert str(fb.open(path).arrays().type) == f"2 * {kinds}"
    batches = [pa.table({"x": pa.array([items], of(pa.int32()))}) for items in ([1], [None])]
    fb.write(path, pa.concat_tables(batches))
    assert fb.open(path)["x"].typename == "std::vector<std::optional<std::int32_t>>"


def test_bounds_of_ranges_are_in_them_in_single_precision(path, run_root):
    """``float32(pi)`` is larger than pi, and was refused."""
    values, precision = {}, {}
    for bits in (1, 12, 32):
        for bound in (np.pi, 3.15, 0.1):
            name = f"x{bits}_{bound}".replace(".", "_")
            values[name] = np.array([bound, -bound], "f4")
            precision[name] = (bits, -bound, bound)
    fb.write(path, values, precision=precision)
    nt = fb.open(path)
    for name, given in values.items():
        assert nt[name].array().to_list() == given.tolist(), name
    run_root(QUANTIZED, path)
    for name, given in values.items():
        for outside in (np.nextafter(given[:1], np.float32(4)), np.array([np.inf], "f4")):
            with pytest.raises(fb.UsageError, match="is outside of its storage range"):
                fb.write(path, {name: outside}, precision={name: precision[name]})
    with pytest.raises(fb.UsageError, match="is outside of its storage range"):
        fb.write(path, {"phi": np.array([np.inf])}, precision={"phi": (12, 0, 1e300)})


def test_a_folder_is_told_as_one(tmp_path):
    with pytest.raises(fb.FileError):
        fb.write(tmp_path, {"x": [1]})
