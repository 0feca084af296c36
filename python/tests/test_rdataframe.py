"""RDataFrame over femtobarn, compared with ROOT's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle

COMPARE = Path(__file__).parent / "oracle" / "rdataframe_against_root.py"

# classes have no dictionary here
FILES = {
    "scalars.root": "scalars",
    "lists.root": "lists",
    "mixed_zstd.root": "mixed",
    "imported.root": "Events",
    "clusters.root": "clusters",
    "extension_late.root": "late",
    "extension_nested.root": "extension_nested",
    "extension_projected.root": "projected",
    "double32.root": "double32",
    "untyped.root": "untyped",
    "sums.root": "sums",
    "representations.root": "representations",
    "associative.root": "associative",
    "proxied.root": "proxied",
    "groups.root": "groups",
}


@pytest.fixture
def compare(run_root):
    """A function that compares all columns of files."""
    run_root("")  # insists on ROOT

    def run(*arguments):
        command = [sys.executable, str(COMPARE), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
        return json.loads(line.removeprefix("RESULT "))

    return run


def check(found, compared):
    """All columns are there, and equal."""
    assert found["differ"] == {}
    assert found["errors"] == {}
    assert found["types"] == {}
    assert found["only_root"] == []
    assert found["compared"] >= compared


@pytest.mark.parametrize("name", FILES)
def test_all_columns_of_a_file_are_those_of_root(compare, testdata, name):
    check(compare(testdata / "rntuple" / name, FILES[name]), 1)


@pytest.mark.parametrize("threads", [0, 3])
def test_several_files_give_the_same_in_blocks_and_on_several_threads(compare, testdata, threads):
    files = ",".join([str(testdata / "dimuon.root")] * 3)
    found = compare(files, "Events", threads, "--block", 100_000)
    check(found, 5)
    assert found["entries"] == 36_000


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("nano_dy_rntuple.root", "Events"),
        ("treemaker_rntuple.root", "PreSelection"),
        ("ntpl001_staff_rntuple_v1-0-1-0.root", "Staff"),
        ("Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root", "Events"),
        ("test_extension_columns_rntuple_v1-0-0-0.root", "EXT"),
        ("test_multiple_representations_rntuple_v1-0-0-0.root", "rntuple"),
    ],
)
def test_real_rntuples_are_those_of_root(compare, shared, file, name):
    check(compare(shared / "rntuple" / file, name, "--most", 60), 1)
