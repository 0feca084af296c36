"""A histogram over many files in bounded memory."""

import shutil
import tempfile
from pathlib import Path

import awkward as ak
import numpy as np

import femtobarn as fb

FILE = Path(__file__).resolve().parents[2] / "testdata" / "dimuon.root"

with tempfile.TemporaryDirectory() as folder:
    for number in range(5):
        shutil.copy(FILE, f"{folder}/run_{number}.root")

    edges = np.linspace(0, 100, 11)
    counts = np.zeros(10, dtype=int)
    # A step never crosses the end of a file, so that each report is about one file.
    for batch, report in fb.iterate(f"{folder}/run_*.root:Events", ["Muon_pt"], step_size="200 kB", report=True):
        counts += np.histogram(ak.to_numpy(ak.flatten(batch.Muon_pt)), edges)[0]
        print(report)

    # With enough memory, read everything into one array; the values are the same.
    everything = fb.concatenate(f"{folder}/run_*.root:Events", ["Muon_pt"])
    assert np.array_equal(counts, np.histogram(ak.to_numpy(ak.flatten(everything.Muon_pt)), edges)[0])

for low, high, count in zip(edges, edges[1:], counts, strict=False):
    print(f"{low:5.0f} - {high:3.0f} GeV  {count:6} muons  {'#' * int(40 * count / counts.max())}")
