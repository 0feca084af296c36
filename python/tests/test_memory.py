"""Iterating takes the memory stated in docs/guides/memory.md, for any number of files."""

import subprocess
import sys

import pytest

# Arguments: file, way, number of times, prefetch, whether to keep the arrays. Prints entries, growth of the peak in
# bytes, and decoded bytes of one file. Linux's ru_maxrss goes on from the parent's, so that it is no use there.
SCRIPT = """
import resource, sys
from pathlib import Path
import femtobarn as fb

path, way, times, prefetch, keep = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True", sys.argv[5]
names, kept = ["Muon_pt", "Muon_eta", "Muon_phi", "event"], []

def peak():
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.open() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

def run(times):
    iterate = fb.iterate if way == "files" else lambda files, *a, **k: fb.open(files).iterate(*a, **k)
    n = 0
    for batch in iterate([path] * times, names, step_size="100 kB", prefetch=prefetch):
        n += len(batch)
        if keep == "True":
            kept.append(batch)
    return n

run(2)
before = peak()
print(run(times), peak() - before, fb.open(path).arrays(names).nbytes)
"""

MB = 1_000_000
TWO_STEPS = 200_000
# What an allocator may keep, and the compressed bytes and pages in use; the file has 250 kB
SLACK = 12 * MB
# Metadata grow with the number of files if these are opened together
METADATA_OF_A_FILE = 100_000


def grown(path, way, times, prefetch=True, keep=False):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", SCRIPT, path, way, str(times), str(prefetch), str(keep)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    entries, growth, decoded = map(int, done.stdout.split())
    assert entries == 12_000 * times
    assert decoded > 0.5 * MB
    return growth, decoded * times


@pytest.mark.parametrize("prefetch", [True, False])
def test_iterating_over_many_files_takes_the_memory_of_two_steps(dimuon, prefetch):
    for times in (40, 400):
        growth, decoded = grown(dimuon, "files", times, prefetch)
        assert growth < TWO_STEPS + SLACK, times
    assert decoded > 200 * MB


def test_iterating_over_one_long_ntuple_adds_only_the_metadata(dimuon):
    growth, decoded = grown(dimuon, "one", 400)
    assert growth < TWO_STEPS + SLACK + 400 * METADATA_OF_A_FILE < decoded / 3


def test_the_measure_notices_arrays_that_are_kept(dimuon):
    growth, decoded = grown(dimuon, "files", 100, keep=True)
    assert growth > decoded / 2 > TWO_STEPS + SLACK
