"""Types and values of every available file are those of uproot, except where uproot is known to be wrong."""

import contextlib
import re
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
from compare import same
from golden import FOLDER, Shape, load
from golden import equal as golden_equal
from golden import listed as golden_listed

import femtobarn as fb

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "rntuple"
# a file with an unknown feature flag must be rejected; uproot does not check it
OURS = sorted(path for path in (ROOT / "testdata").glob("**/*.root") if path.name != "unknown_flag.root")
THEIRS = [
    "Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root",
    "cmsopendata2015_ttbar_19980_NANOAOD_RNTupleImporter_rntuple_v1-0-0-1.root",
    "nano_dy_rntuple.root",
    "ntpl001_staff_rntuple_v1-0-1-0.root",
    "test_extension_columns_rntuple_v1-0-0-0.root",
    "test_multiple_representations_rntuple_v1-0-0-0.root",
    "treemaker_rntuple.root",
]


@pytest.fixture(scope="module")
def uproot(need):
    return need("uproot")


def ntuples(uproot, path):
    """Names of the ntuples in a file."""
    with uproot.open(path) as file:
        return [name for name, kind in file.classnames(cycle=False).items() if kind == "ROOT::RNTuple"]


def equal(ours, theirs):
    """Return whether two arrays have the same type and the same bits."""
    if ours.type != theirs.type:
        return False
    try:
        if ak.array_equal(ours, theirs, equal_nan=True):
            return True
    except (TypeError, ValueError, AssertionError):
        pass  # for unions
    return same(ours, theirs)


def uproot_is_wrong(field):
    """Return what uproot 5.7.7 reads wrongly; the tests against ROOT's golden files cover these fields."""
    below = [record for record in field.ntuple._schema.records.values() if _is_in(record, field)]
    columns = [column for record in below for column in record["columns"]]
    if any(column["representation"] > 0 for column in columns):
        return "columns change their representation"
    if any(column["deferred"] for column in columns):
        return "columns begin late"
    if any(r["typename"] == "double" and c["type"] == "Real32Quant" for r in below for c in r["columns"]):
        return "quantized doubles are rounded to floats"
    if any(record["typename"] == "char" for record in below):
        return "char has a sign"
    if any(record["role"] == "variant" for record in below) and len(field.ntuple.clusters) > 1:
        return "positions in variants start again in each cluster"
    return ""


def _is_in(record, field):
    records = field.ntuple._schema.records
    while record["id"] != field.field_id:
        if record["parent"] is None:
            return False
        record = records[record["parent"]]
    return True


def assert_all_fields_agree(uproot, path, start=None, stop=None):
    """Check all fields that uproot can read correctly."""
    try:
        names = ntuples(uproot, path)
    except Exception as error:
        pytest.skip(f"uproot cannot read this file: {type(error).__name__}")
    for name in names:
        theirs_nt, ours_nt = uproot.open(f"{path}:{name}"), fb.open({path: name})
        good = [
            field.name for field in ours_nt.fields if not uproot_is_wrong(field) and can_read(theirs_nt, field.name)
        ]
        if not good:
            continue
        ours = ours_nt.arrays(good, entry_start=start, entry_stop=stop)
        theirs = theirs_nt.arrays(
            filter_field=lambda field, good=good: (field.path or "").split(".")[0] in good,
            entry_start=start,
            entry_stop=stop,
        )
        assert ours.fields == theirs.fields
        for field in good:
            assert equal(ours[field], theirs[field]), f"{name}.{field}: {ours[field].type} and {theirs[field].type}"


def can_read(nt, name):
    """Return whether uproot can read a field: it does not support fields in streamer mode, for example."""
    try:
        nt[name].array(entry_start=0, entry_stop=1)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_our_own_files_agree(uproot, path):
    assert_all_fields_agree(uproot, path)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_parts_of_our_own_files_agree(uproot, path):
    for start, stop in [(3, 17), (-5, None), (0, 1)]:
        assert_all_fields_agree(uproot, path, start, stop)


@pytest.mark.parametrize("name", THEIRS)
def test_real_files_agree(uproot, shared, name):
    assert_all_fields_agree(uproot, shared / "rntuple" / name)


@pytest.mark.parametrize("name", THEIRS)
def test_keys_and_types_of_real_files_agree(uproot, shared, name):
    path = shared / "rntuple" / name
    for ntuple in ntuples(uproot, path):
        theirs, ours = uproot.open(f"{path}:{ntuple}"), fb.open({path: ntuple})
        assert ours.keys() == theirs.keys()
        assert ours.typenames() == theirs.typenames()
        assert ours.num_entries == theirs.num_entries
        assert ours.description == theirs.description


SELECTIONS = [
    {"filter_name": "points"},
    {"filter_name": "points.x"},
    {"filter_name": ["points.*", "f32"]},
    {"filter_name": "id"},
    {"filter_name": "/F32|.*64/i"},
    {"filter_name": "pair.1"},
    {"filter_name": lambda name: "a" in name},
    {"filter_typename": "std::vector*"},
    {"filter_typename": "float"},
    {"filter_name": "*s", "filter_typename": "/.*int.*/"},
    {"filter_name": "nothing"},
    {"filter_field": lambda field: len(field.name) == 3},
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_selections_agree(uproot, mixed, selection):
    theirs, ours = uproot.open(f"{mixed}:mixed"), fb.open(mixed)
    assert ours.keys(**selection) == theirs.keys(**selection)
    mine, others = ours.arrays(**selection), theirs.arrays(**selection)
    for name in mine.fields:
        # of a tuple that is read in part, uproot makes another tuple, whose members have other places
        if not re.search(r'\{"\d', str(mine[name].type)):
            assert mine[name].type == others[name].type
    assert mine.fields == others.fields


def test_nested_fields_agree(uproot, mixed):
    theirs, ours = uproot.open(f"{mixed}:mixed"), fb.open(mixed)
    for key in ours.keys():  # noqa: SIM118
        if uproot_is_wrong(ours[key]):
            continue
        assert equal(ours[key].array(), theirs[key].array()), key


def test_numpy_arrays_agree_where_types_are_fixed(uproot, mixed):
    theirs, ours = uproot.open(f"{mixed}:mixed"), fb.open(mixed)
    for key in ("flag", "i8", "u64", "f32", "text", "triple", "bits"):
        left, right = ours[key].array(library="np"), theirs[key].array(library="np")
        assert left.dtype == right.dtype
        assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def test_iterations_agree(uproot, dimuon):
    arguments = {"filter_name": ".Muon_*", "step_size": 5000, "report": True}
    ours = list(fb.iterate(f"{dimuon}:Events", **arguments))
    theirs = list(uproot.open(f"{dimuon}:Events").iterate(**arguments))
    for (our_batch, our_report), (their_batch, their_report) in zip(ours, theirs, strict=True):
        assert equal(our_batch, their_batch)
        for name in ("start", "stop", "tree_entry_start", "tree_entry_stop", "global_offset", "file_path"):
            assert getattr(our_report, name) == getattr(their_report, name)


def test_a_changing_representation_is_read_rightly(shared):
    nt = fb.open(shared / "rntuple" / "test_multiple_representations_rntuple_v1-0-0-0.root")
    assert nt.keys() == ["real"]
    assert nt["real"].array().tolist() == [1.0, 2.0, 3.0]
    assert [nt["real"].array(i, i + 1).tolist() for i in range(3)] == [[1.0], [2.0], [3.0]]


def assert_only_uproot_is_wrong(uproot, name, fields, start=None):
    """We read what ROOT reads, and uproot does not. When it does one day, remove the case from `uproot_is_wrong`."""
    golden, nt = load(name)
    shape = Shape(golden)
    theirs = uproot.open(f"{FOLDER / golden['file']}:{golden['ntuple']}")
    for field in fields:
        expected = [shape.of(value, shape.top(field)) for value in golden["fields"][field][start:]]
        ours = nt[field].array(entry_start=start)
        assert golden_equal(golden_listed(ours.layout), expected), field
        assert uproot_is_wrong(nt[field])
        with contextlib.suppress(ValueError, IndexError, TypeError):  # failing to read is wrong as well
            assert not same(theirs[field].array(entry_start=start), ours), f"uproot reads {field} now"


def test_uproot_is_wrong_on_strings_of_several_representations(uproot):
    assert_only_uproot_is_wrong(uproot, "representations.root.representations.json", ["string", "vector"])


def test_uproot_is_wrong_on_floats_that_become_half_floats(uproot):
    assert_only_uproot_is_wrong(uproot, "representations.root.representations.json", ["f32", "f64", "array"])


@pytest.mark.parametrize("start", [8, 10, 13])
def test_uproot_is_wrong_on_parts_of_arrays_that_begin_late(uproot, start):
    fields = ["array_middle"] if start < 13 else ["array_middle", "array_border"]
    assert_only_uproot_is_wrong(uproot, "extension.root.extension.json", fields, start)
