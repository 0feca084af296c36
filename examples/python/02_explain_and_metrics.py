"""What a read costs: the plan before it, the account after it, and whether the file is sound."""

from pathlib import Path

import femtobarn as fb

FILE = Path(__file__).resolve().parents[2] / "testdata" / "dimuon.root"

events = fb.open({FILE: "Events"})
print(events)

# Two of the muons' columns: their offsets are one column on disk, and are read once.
print(events.explain(["Muon_pt", "Muon_eta"]))

# Ten entries cost whole pages, since a page is the least that can be decompressed.
print(events.explain(["Muon_pt", "Muon_eta"], entry_start=5000, entry_stop=5010))

events.arrays(["Muon_pt", "Muon_eta"])
print(events.metrics)

# All checksums of the whole file, not only of what was read above.
print(events.verify())
