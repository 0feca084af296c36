"""Write events batch by batch, with a field that is added later and a note about their origin; read them again."""

import tempfile
from pathlib import Path

import awkward as ak
import numpy as np

import femtobarn as fb

rng = np.random.default_rng(1)


def batch(n):
    counts = rng.poisson(2, n)
    muon = ak.zip({"pt": rng.exponential(30, counts.sum()).astype("f4"), "q": rng.choice([-1, 1], counts.sum())})
    return {"event": np.arange(n), "Muon": ak.unflatten(muon, counts)}


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "events.root"
    with fb.recreate(path, compression="zstd:5") as file:
        events = file.mkrntuple("Events", batch(1), "toy muons", precision={"Muon.pt": 16})
        about = events.mkattributes("provenance", {"generator": "std::string", "seed": "int32"})
        for _ in range(10):
            events.extend(batch(1000))
        events.add_fields({"weight": "float32"})
        events.extend({**batch(1000), "weight": np.ones(1000, "f4")})
        about.append(0, events.num_entries, {"generator": "toys", "seed": 1})
    ntuple = fb.open(path)
    ntuple.show()
    print(ntuple.num_entries, "entries, mean pt", round(float(ak.mean(ntuple["Muon.pt"].array())), 2))
    print(ntuple.attributes["provenance"].arrays().to_list())
    assert ntuple.verify().ok
