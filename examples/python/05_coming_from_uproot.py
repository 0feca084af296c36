"""The same code with uproot and with femtobarn, and a check that the arrays are equal."""

import time
from pathlib import Path

import awkward as ak
import uproot

import femtobarn as fb

FILE = Path(__file__).resolve().parents[2] / "testdata" / "dimuon.root"

for library in (uproot, fb):
    start = time.perf_counter()
    events = library.open(f"{FILE}:Events")
    muons = events.arrays(filter_name="Muon_*", entry_start=1000, entry_stop=9000)
    milliseconds = 1000 * (time.perf_counter() - start)
    print(f"{library.__name__}: {len(muons)} entries, {muons.fields} in {milliseconds:.1f} ms")

theirs = uproot.open(f"{FILE}:Events").arrays(filter_name="Muon_*")
ours = fb.open(f"{FILE}:Events").arrays(filter_name="Muon_*")
assert ours.type == theirs.type
assert ak.array_equal(ours, theirs)
print("types and values are equal")
