"""Real files have the values that ROOT reads.

ROOT starts once, in a separate process, for all files.
"""

import json
from pathlib import Path

import awkward as ak
import pytest
from golden import assert_fields_are_golden

import femtobarn as fb

pytestmark = pytest.mark.oracle

ORACLE = Path(__file__).with_name("oracle")
FILES = {
    "Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root": (1000, 7),
    "cmsopendata2015_ttbar_19980_NANOAOD_RNTupleImporter_rntuple_v1-0-0-1.root": (10, 969),
    "nano_dy_rntuple.root": (40, 1524),
    "ntpl001_staff_rntuple_v1-0-1-0.root": (3354, 11),
    "test_extension_columns_rntuple_v1-0-0-0.root": (600, 3),
    "test_multiple_representations_rntuple_v1-0-0-0.root": (3, 1),
    "treemaker_rntuple.root": (10, 338),
}
# Arguments: the oracle's directory, the directory for the dumps, then pairs of file and ntuple
SCRIPT = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from dump_with_root import dump
for file, ntuple in zip(sys.argv[3::2], sys.argv[4::2]):
    target = pathlib.Path(sys.argv[2], pathlib.Path(file).name + ".json")
    target.write_text(dump(file, ntuple), encoding="utf-8")
os._exit(0)
"""


@pytest.fixture(scope="module")
def dumps(shared, run_root, tmp_path_factory):
    """Return the directory with ROOT's dumps of every real file."""
    target = tmp_path_factory.mktemp("dumps")
    arguments = []
    for name in FILES:
        path = shared / "rntuple" / name
        arguments += [path, fb.open(path).name]
    run_root(SCRIPT, ORACLE, target, *arguments)
    return target


def test_all_real_files_are_here(shared):
    assert sorted(path.name for path in (shared / "rntuple").glob("*.root")) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_value_of_a_real_file_is_the_one_that_root_reads(dumps, shared, name):
    golden = json.loads((dumps / f"{name}.json").read_text(encoding="utf-8"))
    nt = fb.open(shared / "rntuple" / name)
    assert nt.skipped == ()
    assert (nt.num_entries, len(nt.fields)) == (golden["entries"], len(golden["fields"])) == FILES[name]
    assert_fields_are_golden(golden, nt)
    assert_fields_are_golden(golden, nt, nt.num_entries // 3, nt.num_entries // 3 * 2)


def test_real_files_of_two_years_are_one_ntuple_of_what_they_have_in_common(shared):
    names = ["nano_dy_rntuple.root", "cmsopendata2015_ttbar_19980_NANOAOD_RNTupleImporter_rntuple_v1-0-0-1.root"]
    paths = [shared / "rntuple" / name for name in names]
    both, parts = fb.open(paths), [fb.open(path) for path in paths]
    assert len(both) > 500
    assert dict(both.skipped)["_collection10.Jet_btagCMVA"].endswith(names[1])
    with pytest.warns(fb.UnreadableWarning, match="not all files of 'Events' have the same fields"):
        whole = both.arrays()
    start = 0
    for part in parts:
        stop = start + part.num_entries
        alone = part.arrays(both.keys(recursive=False))
        for name in whole.fields:
            common = whole[name].fields or [None]  # of collections, the members that both have
            for member in common:
                ours, theirs = (array[name] if member is None else array[name, member] for array in (whole, alone))
                equal = ak.array_equal(ours[start:stop], theirs, equal_nan=True, dtype_exact=False)
                assert equal, (name, member)
        start = stop
