import builtins
import importlib

import numpy as np
import pytest
from compare import same

import femtobarn as fb
from femtobarn._files.libraries import regularize
from femtobarn._files.schema import Schema


@pytest.fixture(scope="module")
def nt(mixed):
    return fb.open(mixed)


@pytest.fixture(scope="module")
def expected(nt):
    return nt.arrays()


@pytest.mark.parametrize(
    ("library", "short"),
    [("ak", "ak"), ("Awkward", "ak"), (np, "np"), ("pandas", "pd"), ("pyarrow", "arrow"), ("polars", "pl")],
)
def test_libraries_have_several_names(library, short):
    assert regularize(library) == short


@pytest.mark.parametrize("library", ["root", 3, None])
def test_an_unknown_library_is_refused(nt, library):
    with pytest.raises(fb.UsageError, match="Awkward"):
        nt.arrays(library=library)


def test_numpy_gives_a_dict_of_arrays(nt, expected):
    arrays = nt.arrays(library="np")
    assert list(arrays) == expected.fields
    assert all(len(array) == 40 for array in arrays.values())
    assert arrays["f32"].dtype == np.float32
    assert arrays["flag"].dtype == np.bool_
    assert arrays["triple"].shape == (40, 3)
    assert arrays["bits"].shape == (40, 70)
    assert arrays["text"].dtype.kind == "U"
    assert arrays["pair"].dtype.names == ("0", "1")


@pytest.mark.parametrize("name", ["floats", "nested", "texts", "bools", "points", "table", "rvec"])
def test_lists_become_object_arrays_of_arrays(nt, expected, name):
    array = nt[name].array(library="np")
    assert array.dtype == object
    assert array.shape == (40,)
    assert all(isinstance(item, np.ndarray) for item in array)
    assert [len(item) for item in array] == [len(item) for item in expected[name]]


def test_the_dtype_does_not_depend_on_the_values(dimuon):
    """uproot makes a table of lists that happen to have equal lengths."""
    nt = fb.open(dimuon)
    n_muons = nt["nMuon"].array(library="np")
    first = int(np.flatnonzero(n_muons[1:] == n_muons[:-1])[0])
    pair = nt["Muon_pt"].array(first, first + 2, library="np")
    assert pair.dtype == object
    assert pair.shape == (2,)


def test_nested_lists_and_structs_have_the_same_values(nt, expected):
    nested = nt["nested"].array(library="np")
    assert [[inner.tolist() for inner in outer] for outer in nested] == expected.nested.tolist()
    points = nt["points"].array(library="np")
    assert [[{"x": p["x"], "y": p["y"]} for p in item] for item in points] == expected.points.tolist()
    assert [item.tolist() for item in nt["points.x"].array(library="np")] == expected.points.x.tolist()
    assert nt["text"].array(library="np").tolist() == expected.text.tolist()


def test_optional_numbers_become_masked_arrays(nt, expected):
    maybe = nt["maybe"].array(library="np")
    assert isinstance(maybe, np.ma.MaskedArray)
    assert maybe.tolist() == expected.maybe.tolist()


def test_variants_become_objects(nt, expected):
    assert nt["either"].array(library="np").tolist() == expected.either.tolist()


@pytest.mark.parametrize(("library", "package"), [("pl", "polars"), ("pd", "pandas")])
def test_a_variant_is_refused_where_there_are_no_unions(nt, mixed, need, library, package):
    need(package)
    reads = [
        lambda: nt.arrays(library=library),
        lambda: nt.arrays(["f32", "either"], library=library),
        lambda: nt["either"].array(library=library),
        lambda: nt.iterate("either", library=library),
        lambda: next(fb.iterate(mixed, "either", library=library)),
    ]
    for read in reads:
        with pytest.raises(fb.UsageError, match=r"field 'either' is a variant .*leave it out, or .* library='ak'"):
            read()
    assert len(nt.arrays(["f32", "text"], library=library)) == 40


def test_variants_are_found_wherever_they_are():
    def field(i, parent, name, path, role="plain"):
        keyed = {"id": i, "parent": parent, "name": name, "path": path, "role": role, "typename": role}
        return {**keyed, "anonymous": path is None, "projected": False}

    schema = Schema(
        [
            field(0, None, "run", "run"),
            field(1, None, "jets", "jets", "collection"),
            field(2, 1, "_0", None, "record"),
            field(3, 2, "pt", "jets.pt"),
            field(4, 2, "tags", "jets.tags", "collection"),
            field(5, 4, "_0", None, "variant"),
            field(6, 5, "_0", None),
        ],
        "here",
    )
    found = [("jets.tags", "variant")]
    assert [list(schema.variants(p)) for p in (None, ["jets"], ["run", "jets.tags"])] == [found] * 3
    assert list(schema.variants(["run", "jets.pt"])) == []


def test_numpy_columns_come_in_containers(nt):
    first, second = nt.arrays(["f32", "floats"], library="np", how=tuple)
    assert first.dtype == np.float32
    assert second.dtype == object
    with pytest.raises(fb.UsageError):
        nt.arrays("f32", library="np", how="zip")


def test_pandas_gives_a_frame_with_the_entry_as_index(nt, expected, need):
    pandas = need("pandas")
    need("pyarrow")
    frame = nt.arrays(["f32", "flag", "text", "floats", "points"], entry_start=10, entry_stop=20, library="pd")
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == list(range(10, 20))
    assert frame["f32"].dtype == np.float32
    assert frame["flag"].dtype == np.bool_
    assert isinstance(frame["floats"].dtype, pandas.ArrowDtype)
    assert [list(item) for item in frame["floats"]] == expected.floats[10:20].tolist()
    assert frame["text"].tolist() == expected.text[10:20].tolist()
    assert frame["points"].iloc[3] is not None


def test_pandas_gives_a_series_for_one_field(nt, expected, need):
    need("pandas")
    series = nt["f64"].array(5, 15, library="pd")
    assert series.name == "f64"
    assert series.index.tolist() == list(range(5, 15))
    assert same(series, expected.f64[5:15])
    nested = nt["points.x"].array(library="pd")
    assert [list(item) for item in nested] == expected.points.x.tolist()
    assert list(nt.arrays("f32", library="pd", how=dict)) == ["f32"]


def test_arrow_gives_a_table(nt, expected, need):
    pyarrow = need("pyarrow")
    names = ["f32", "text", "floats", "nested", "points", "maybe", "triple"]
    table = nt.arrays(names, library="arrow")
    assert isinstance(table, pyarrow.Table)
    assert sorted(table.column_names) == sorted(names)
    for name in names:
        assert same(table[name], expected[name])
    column = nt["floats"].array(library="arrow")
    assert isinstance(column, pyarrow.ChunkedArray)
    assert same(column, expected.floats)
    assert same(nt["points.y"].array(library="arrow"), expected.points.y)
    assert same(nt["points"].arrays("y", library="arrow")["points"], nt.arrays("points.y").points)


def test_polars_gives_a_frame(nt, expected, need):
    polars = need("polars")
    frame = nt.arrays(["f32", "text", "floats"], library="pl")
    assert isinstance(frame, polars.DataFrame)
    assert same(frame["floats"], expected.floats)
    series = nt["text"].array(library="pl")
    assert isinstance(series, polars.Series)
    assert series.name == "text"
    assert same(series, expected.text)
    assert same(nt["points.x"].array(library="pl"), expected.points.x)


def test_a_batch_needs_no_other_package(nt):
    batch = nt.arrays(["f32"], library="batch")
    assert batch.num_entries == 40
    assert hasattr(batch, "__arrow_c_stream__")


@pytest.mark.parametrize(("library", "package"), [("pd", "pandas"), ("arrow", "pyarrow"), ("pl", "polars")])
def test_a_missing_package_says_how_to_install_it(nt, monkeypatch, library, package):
    real = importlib.import_module

    def without(name, *args):
        if name == package:
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(fb.MissingDependencyError, match=r"pip install 'femtobarn\[") as caught:
        nt.arrays("f32", library=library)
    assert isinstance(caught.value, builtins.ImportError)
    assert package in str(caught.value)
