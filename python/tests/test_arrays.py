import awkward as ak
import hypothesis.strategies as st
import numpy as np
import pytest
from compare import same
from hypothesis import HealthCheck, given, settings

import femtobarn as fb


@pytest.fixture(scope="module")
def nt(mixed):
    return fb.open(mixed)


@pytest.fixture(scope="module")
def whole(nt):
    return nt.arrays()


TYPES = {
    "flag": "bool",
    "i8": "int8",
    "u64": "uint64",
    "f32": "float32",
    "f64": "float64",
    "letter": "int8",
    "raw": "uint8",
    "text": "string",
    "floats": "var * float32",
    "nested": "var * var * int32",
    "texts": "var * string",
    "bools": "var * bool",
    "triple": "3 * float32",
    "maybe": "?float64",
    "pair": "(int32, float32)",
    "tuple": "(string, int8, var * float64)",
    "either": "union[?unknown, ?int32, ?string, option[var * float32]]",
    "bits": "70 * bool",
    "level": "uint8",
    "derived": '{id: int32, values: var * int16, "fb::BaseB::id": int32, tag: string, "fb::BaseA::id": int32, '
    "weight: float32}",
    "points": "var * {x: float32, y: float32}",
    "table": "var * (string, float32)",
    "nfloats": "int64",
}


@pytest.mark.parametrize(("name", "expected"), TYPES.items())
def test_every_type_is_what_uproot_makes_of_it(nt, name, expected):
    assert str(nt[name].array().type) == f"40 * {expected}"


def test_arrays_has_a_record_for_each_entry(nt, whole):
    assert len(whole) == nt.num_entries == 40
    assert whole.fields == [field.name for field in nt.fields]
    for name in whole.fields:  # awkward 2 considers unions with "no value" invalid, as they could be merged
        assert name == "either" or ak.is_valid(whole[name]), name


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("points", "{points: var * {x: float32, y: float32}}"),
        ("points.x", "{points: var * {x: float32}}"),
        (["points.y", "f32"], "{points: var * {y: float32}, f32: float32}"),
        (["points", "points.x"], "{points: var * {x: float32, y: float32}}"),
        ("pair.1", '{pair: {"1": float32}}'),
        ("derived.fb::BaseB::id", '{derived: {"fb::BaseB::id": int32}}'),
        ("derived.weight", "{derived: {weight: float32}}"),
        ("table.0", '{table: var * {"0": string}}'),
        ("weight", "{derived: {weight: float32}}"),
        ("points/x", "{points: var * {x: float32}}"),
        ("f*s", "{floats: var * float32}"),
        ([], "{}"),
    ],
)
def test_a_selection_keeps_the_path_to_what_is_selected(nt, wanted, expected):
    assert str(nt.arrays(wanted).type) == f"40 * {expected}"


def test_a_selected_part_has_the_values_of_the_whole(nt, whole):
    assert nt.arrays("points.x").points.x.tolist() == whole.points.x.tolist()
    assert nt.arrays("pair.1").pair["1"].tolist() == whole.pair["1"].tolist()
    part = nt.arrays(["derived.fb::BaseA::id", "derived.tag"]).derived
    assert part["fb::BaseA::id"].tolist() == whole.derived["fb::BaseA::id"].tolist()
    assert part.tag.tolist() == whole.derived.tag.tolist()


def test_members_of_a_tuple_that_is_read_in_part_keep_their_places(nt):
    """The only one that was read was number 0 of another tuple."""
    whole = nt.arrays("tuple")["tuple"]
    for paths, form, arrow in [
        (["tuple.1"], '{"1": int8}', ["1"]),
        (["tuple.2", "tuple.0"], '{"0": string, "2": var * float64}', ["0", "2"]),
        (["tuple.0", "tuple.1", "tuple.2"], "(string, int8, var * float64)", ["_0", "_1", "_2"]),
    ]:
        part = nt.arrays(paths)["tuple"]
        assert str(part.type.content) == form
        for path in paths:
            place = path.split(".")[1]
            assert part[place].to_list() == whole[place].to_list()
        kind = nt.arrays(paths, library="arrow").schema.field("tuple").type
        assert [field.name for field in kind] == arrow


@pytest.mark.parametrize(
    "path", ["points.x", "pair.0", "pair.1", "tuple.2", "derived.id", "derived.fb::BaseA::id", "table.1"]
)
def test_a_nested_field_is_read_by_itself(nt, whole, path):
    expected = whole
    for name in path.split("."):
        expected = expected[name]
    array = nt[path].array()
    assert array.type == expected.type
    assert same(array, expected)
    top, _, rest = path.partition(".")
    assert same(nt[top][rest].array(), expected)


def test_an_exact_key_wins_over_nested_fields_of_that_name(dimuon):
    nt = fb.open(dimuon)
    assert nt.arrays("Muon_pt").fields == ["Muon_pt"]
    assert nt["Muon_pt"].top_level
    assert nt.arrays(filter_name="Muon_pt").fields == ["_collection0", "Muon_pt"]


def test_filters_of_names_types_and_fields_are_combined(nt):
    assert nt.arrays(filter_typename="double").fields == ["f64"]
    assert nt.arrays(filter_name="f*", filter_typename="/float|double/").fields == ["f32", "f64"]
    assert nt.arrays(["f32", "i8"], filter_typename="float").fields == ["f32"]
    assert nt.arrays(filter_field=lambda field: field.role == "variant").fields == ["either"]


def test_expressions_and_filter_name_exclude_each_other(nt):
    with pytest.raises(fb.UsageError, match="either expressions or filter_name"):
        nt.arrays("f32", filter_name="f*")


def test_arguments_that_cannot_be_honoured_say_what_to_do(nt):
    with pytest.raises(fb.UsageError, match="use arrays"):
        nt["f32"].array(cut="f32 > 0")
    with pytest.raises(fb.UsageError, match="aliases"):
        nt["f32"].array(aliases={"x": "f32"})
    with pytest.raises(fb.UsageError, match="virtual"):
        nt["f32"].array(virtual=True)
    with pytest.raises(fb.UsageError, match="to_backend"):
        nt.arrays(backend="cuda")
    with pytest.raises(TypeError, match="did you mean 'entry_stop'"):
        nt.arrays(entry_stopp=3)
    assert len(nt.arrays("f32", decompression_executor=None, array_cache=None, backend="cpu")) == 40


def slice_of(start, stop):
    """Return a slice whose stop is not before its start, as required by awkward's regular arrays."""
    first, last, _ = slice(start, stop).indices(40)
    return slice(first, max(first, last))


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (None, None),
        (0, 40),
        (7, 23),
        (-5, None),
        (None, -30),
        (-100, 3),
        (30, 10),
        (40, 50),
        (np.int64(3), np.int32(5)),
    ],
)
def test_entry_ranges_are_those_of_slices(nt, whole, start, stop):
    part = nt.arrays(entry_start=start, entry_stop=stop)
    assert part.type.content == whole.type.content
    assert same(part, whole[slice_of(start, stop)])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(-50, 50), stop=st.integers(-50, 50), names=st.sets(st.sampled_from(sorted(TYPES)), max_size=4))
def test_any_part_of_any_fields_is_that_part_of_the_whole(nt, whole, start, stop, names):
    part = nt.arrays(sorted(names), entry_start=start, entry_stop=stop)
    expected = whole[slice_of(start, stop)]
    assert len(part) == len(expected)
    for name in names:
        assert same(part[name], expected[name])


def test_entry_ranges_must_be_integers(nt):
    with pytest.raises(fb.UsageError, match="integers"):
        nt.arrays(entry_start=1.5)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_number_of_threads_changes_nothing(mixed, whole, threads):
    assert same(fb.open(mixed, threads=threads).arrays(), whole)
    assert same(fb.open(mixed).arrays(threads=threads), whole)


@pytest.mark.parametrize("threads", [0, -1, 2**70])
def test_a_number_of_threads_that_cannot_be_is_refused(mixed, threads):
    with pytest.raises(fb.UsageError, match="threads must be from 1 to 1024"):
        fb.open(mixed).arrays(threads=threads)
    with pytest.raises(fb.UsageError):
        fb.open(mixed, threads=threads)


def test_columns_can_be_grouped_in_containers(nt):
    names = ["f32", "floats"]
    assert [str(a.type) for a in nt.arrays(names, how=tuple)] == ["40 * float32", "40 * var * float32"]
    assert isinstance(nt.arrays(names, how=list), list)
    assert list(nt.arrays(names, how=dict)) == names
    with pytest.raises(fb.UsageError, match="how="):
        nt.arrays(names, how="inner")


def test_zip_makes_one_list_of_lists_of_equal_lengths(dimuon):
    nt = fb.open(dimuon)
    events = nt.arrays([".Muon_*", "nMuon", "run"], how="zip")
    assert events.fields == ["nMuon", "run", "Muon"]
    assert events.Muon.fields == ["pt", "eta", "phi", "mass", "charge"]
    assert events.Muon.pt.tolist() == nt["Muon_pt"].array().tolist()


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        ({"filter_name": ["Muon_pt", "Muon_eta"]}, ["pt", "eta"]),
        ({"filter_name": "Muon_*"}, ["pt", "eta", "phi", "mass", "charge"]),
        ({"expressions": "Muon_*"}, ["pt", "eta", "phi", "mass", "charge"]),
        ({"expressions": lambda name: name.endswith("_pt")}, ["Muon_pt"]),
    ],
)
def test_zip_leaves_out_what_lists_are_projected_from(dimuon, wanted, fields):
    nt = fb.open(dimuon)
    assert "_collection0" in nt.arrays(**wanted).fields
    events = nt.arrays(**wanted, how="zip")
    assert len(events.fields) == 1
    if len(fields) > 1:
        assert events.fields == ["Muon"]
        assert events.Muon.fields == fields
        assert next(iter(fb.iterate(dimuon, **wanted, how="zip"))).Muon.fields == fields
        assert fb.concatenate(dimuon, **wanted, how="zip").Muon.fields == fields


def test_zip_of_everything_has_no_sources_of_projections(dimuon):
    nt = fb.open(dimuon)
    assert nt.arrays(how="zip").fields == ["run", "event", "nMuon", "Muon"]
    for asked in (nt.arrays("_collection0", how="zip"), nt.arrays(filter_name="_collection0", how="zip")):
        assert len(asked.fields) == 1
        assert asked[asked.fields[0]].fields == ["collection0"]


def test_zip_leaves_other_collections_alone(nt):
    zipped = nt.arrays(filter_name=["points", "i32"], how="zip")
    assert zipped.i32.tolist() == nt["i32"].array().tolist()
    assert len(zipped.fields) == 2


def test_integral_floats_are_integers(nt):
    assert len(nt.arrays("f32", entry_start=1e0, entry_stop=1e1)) == 9
    assert len(nt["f32"].array(np.float32(3), np.float64(5))) == 2


def test_descriptions_become_documentation_on_request(nt):
    documented = nt.arrays(["f32", "points"], ak_add_doc=True)
    assert documented.layout.parameter("__doc__") == nt.description
    for field in nt.fields[:3]:
        array = nt.arrays([field.name], ak_add_doc={"cpp": "typename"})
        assert array.layout.content(field.name).parameter("cpp") == field.typename
    with pytest.raises(fb.UsageError, match="no attribute 'nonsense'"):
        nt.arrays("f32", ak_add_doc={"x": "nonsense"})


def test_fields_know_what_they_are(nt):
    field = nt["points.x"]
    assert (field.name, field.path, field.typename, field.role) == ("x", "points.x", "float", "plain")
    assert field.parent == nt["points"]
    assert nt["points"].parent is nt
    assert not field.top_level
    assert field.num_entries == 40
    assert nt["triple"].repetitions == 3
    assert nt["bits"].repetitions == 70
    assert [column["type"] for column in nt["f64"].columns] == ["SplitReal64"]
    assert nt["points"].keys() == ["x", "y"]
    assert [f.path for f in nt["points"]] == ["points.x", "points.y"]
    assert len(nt["points"]) == 2
    assert nt[0].name == nt.fields[0].name
    assert nt.get("nothing") is None
    assert nt.get("f32") == nt["f32"]
    assert "points.x" in nt
    assert "points.z" not in nt
    assert 3 not in nt


def test_a_field_with_its_subfields_gives_records(nt, whole):
    arrays = nt["points"].arrays()
    assert str(arrays.type) == "40 * {points: var * {x: float32, y: float32}}"
    arrays = nt["points"].arrays("x")
    assert str(arrays.type) == "40 * {points: var * {x: float32}}"
    assert nt["points.x"].arrays().x.tolist() == whole.points.x.tolist()


def test_a_field_is_a_numpy_array_by_itself(nt):
    assert np.asarray(nt["f32"]).dtype == np.float32
    assert np.array(nt["i8"], dtype=np.float64).shape == (40,)


def test_columns_of_one_collection_share_their_offsets(dimuon):
    muons = fb.open(dimuon).arrays(["Muon_pt", "Muon_eta"])
    assert np.shares_memory(muons.Muon_pt.layout.offsets.data, muons.Muon_eta.layout.offsets.data)


def test_what_is_in_a_variant_has_no_key(nt):
    assert nt["either"].keys() == []
    assert nt["either"].array().tolist() == nt.arrays("either").either.tolist()


def test_pages_of_equal_bytes_and_unequal_numbers_of_elements_are_told_apart(testdata):
    nt = fb.open(testdata / "rntuple" / "merged_bits.root")
    names = ["bit", "x"]
    whole = nt.arrays(names, threads=1)
    for length in (38, 66, 87, 104):
        for start in range(0, nt.num_entries - length, 3):
            part = nt.arrays(names, entry_start=start, entry_stop=start + length, threads=1)
            assert ak.array_equal(part, whole[start : start + length]), start
    whole = nt.arrays()
    for step in (3, 7, 20, 64):
        assert ak.array_equal(ak.concatenate(list(nt.iterate(step_size=step))), whole)


def test_fields_come_in_the_order_that_names_ask_for(tmp_path):
    """Fields came in the order of the file, so that ``event, run = arrays([...], how=tuple)`` was swapped."""
    fb.write(tmp_path / "x.root", {"run": [1], "event": [2], "jets": ak.Array([[{"pt": 1.0, "eta": 2.0}]])})
    nt = fb.open(tmp_path / "x.root")
    event, run = nt.arrays(["event", "run"], how=tuple)
    assert (event.to_list(), run.to_list()) == ([2], [1])
    assert list(nt.arrays(["jets.eta", "event", "*", "run"], library="np")) == ["jets", "event", "run"]
    assert nt.arrays(["event", "jets", "jets.pt", "run"]).fields == ["event", "jets", "run"]
    assert nt.arrays(filter_name=["event", "run"]).fields == ["run", "event"]
    assert [step.fields for step in fb.iterate(f"{tmp_path}/x.root", ["event", "run"])] == [["event", "run"]]
    # a filter function was called with ".run", too
    assert nt.keys(filter_name=lambda name: name not in ("run", "jets"), recursive=False) == ["event"]


def test_lists_with_arrays_in_their_items_are_zipped(tmp_path):
    """Awkward cannot broadcast them, and raised a long error."""
    data = {"Jet_pt": ak.Array([[1.5], [2.5, 3.5]]), "Jet_cov": [[np.arange(3)], [np.arange(3), np.arange(3)]]}
    types = {"Jet_cov": "var * 3 * int64"}
    fb.write(tmp_path / "x.root", data, types=types)
    jets = fb.open(tmp_path / "x.root").arrays("Jet_*", how="zip").Jet
    assert str(jets.type) == "2 * var * {pt: float64, cov: 3 * int64}"
    assert jets.to_list()[0] == [{"pt": 1.5, "cov": [0, 1, 2]}]
