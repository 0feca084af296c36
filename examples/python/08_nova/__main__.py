"""NOvA's candidate selection, run twice: file by file, and by events from an event store. The results are the same.

    python examples/python/08_nova [--files N] [--spills N] [--workers N] [--store URL]

File by file, the worker with the largest file is still busy when the others are done. From the store, workers get some
events at a time, from any file.
"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
from generate import generate
from selection import TABLES, cuts, select_batch, select_file, tables_of_file

import femtobarn as fb


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--spills", type=int, default=400, help="in a file, on average (NOvA has 2500)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", help="where events are stored; by default in a folder that is removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = generate(Path(folder, "files"), options.files, options.spills)
        sizes = [n_spills(path) for path in paths]
        print(f"{len(paths)} files of {min(sizes)} to {max(sizes)} spills")
        check_cuts(paths)
        by_file = file_by_file(paths, options.workers)
        store = fb.DataStore.connect(options.store or f"dir:{folder}/store")
        by_event = from_store(store, paths, options.workers)
    assert len(by_file) > 0
    assert np.array_equal(by_file, by_event)
    print(f"the same {len(by_file)} slices; the first: run, subrun, event, subevt = {by_file[0].tolist()}")


def n_spills(path: Path) -> int:
    with h5py.File(path) as file:
        return len(file["spill/evt"])


def file_by_file(paths: list[Path], workers: int) -> np.ndarray:
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        parts = pool.map(select_file, paths, chunksize=1)
    print(f"file by file: {time.perf_counter() - start:.2f} s with {workers} processes")
    return in_order(parts)


def from_store(store: fb.DataStore, paths: list[Path], workers: int) -> np.ndarray:
    dataset = store.root.create_dataset("fermilab/nova")
    print(fb.ingest(paths, dataset, groups=["spill", *TABLES]))
    start = time.perf_counter()
    result = fb.process(
        dataset,
        select_batch,
        preload=list(TABLES),
        by="batch",
        output_batch_size=1024,
        executor="processes",
        workers=workers,
    )
    print(f"from the store: {time.perf_counter() - start:.2f} s with {workers} processes, {result.n_events} events")
    return in_order(result.value)


def in_order(parts: list[np.ndarray]) -> np.ndarray:
    slices = np.concatenate(parts)
    return slices[np.lexsort(slices.T[::-1])]


def check_cuts(paths: list[Path]) -> None:
    """Check that each cut has an effect in these files: that it alone rejects some slices."""
    alone: dict[str, int] = {}
    for path in paths:
        _, kept = cuts(tables_of_file(path)[0])
        for name, own in kept.items():
            others = [other for key, other in kept.items() if key != name]
            alone[name] = alone.get(name, 0) + int((np.logical_and.reduce(others) & ~own).sum())
    assert alone.pop("remid.pid > 0") == 0, "whoever has more than 0.7 has more than 0"
    assert all(alone.values()), alone


if __name__ == "__main__":
    main()
