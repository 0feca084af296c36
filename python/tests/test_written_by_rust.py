"""Files written by the Rust interface are read by ROOT, RDataFrame, uproot and femtobarn."""

import json
import subprocess
from pathlib import Path

import awkward as ak
import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

CHECKOUT = Path(__file__).resolve().parents[2]
# Arguments: the ROOT file, and one for what ROOT has read
SCRIPT = """
import json, os, pathlib, sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1])
file = ROOT.TFile.Open(sys.argv[1])
read = {
    "entries": frame.Count().GetValue(),
    "numbers": frame.Sum("number").GetValue(),
    "lists": frame.Define("sum", "Sum(lists)").Sum("sum").GetValue(),
    "last": str(frame.Take["std::string"]("text").GetValue()[999]),
    "keys": [str(key.GetClassName()) for key in file.GetListOfKeys()],
}
pathlib.Path(sys.argv[2]).write_text(json.dumps(read))
os._exit(0)
"""


@pytest.fixture(scope="module")
def written(cargo, tmp_path_factory):
    """Return the file that the example writes."""
    path = tmp_path_factory.mktemp("written") / "written.root"
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "femtobarn", "--example", "write", "--", path]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    return path


def test_every_reader_reads_the_same(written, run_root, need, tmp_path):
    nt = fb.open(written)
    assert nt.verify().ok
    ours = nt.arrays()
    assert ours.number.to_list() == list(range(1000))
    assert ak.array_equal(ours, need("uproot").open(f"{written}:Events").arrays())
    run_root(SCRIPT, written, tmp_path / "read.json")
    read = json.loads((tmp_path / "read.json").read_text())
    assert read == {
        "entries": 1000,
        "numbers": sum(range(1000)),
        "lists": float(ak.sum(ak.values_astype(ours.lists, "float64"))),
        "last": ours.text[-1],
        "keys": ["ROOT::RNTuple"],
    }
