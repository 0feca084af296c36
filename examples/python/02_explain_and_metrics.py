"""The cost of a read: the plan before it, the metrics after it, and a check of the file."""

from pathlib import Path

import femtobarn as fb

FILE = Path(__file__).resolve().parents[2] / "testdata" / "dimuon.root"

events = fb.open({FILE: "Events"})
print(events)

# Two columns of the muons. Their offsets are one column on disk, which is read once.
print(events.explain(["Muon_pt", "Muon_eta"]))

# Ten entries cost whole pages, as a page can only be decompressed as a whole.
print(events.explain(["Muon_pt", "Muon_eta"], entry_start=5000, entry_stop=5010))

events.arrays(["Muon_pt", "Muon_eta"])
print(events.metrics)

# All checksums of the whole file, not only of the pages that were read above.
print(events.verify())
