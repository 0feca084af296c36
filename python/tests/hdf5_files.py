"""HDF5 files of events for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

INDEX = ("run", "subrun", "evt")


def write(path: Path, groups: Mapping[str, Mapping[str, Any]], *, flat: bool = False, **options: Any) -> Path:
    """Write groups of datasets as in NOvA's files: (N, 1), chunked, compressed."""
    with h5py.File(path, "w", **options) as file:
        for group, datasets in groups.items():
            made = file.create_group(group)
            for name, values in datasets.items():
                if isinstance(values, h5py.Datatype):
                    continue
                array = np.asarray(values)
                if array.dtype == object or array.dtype.kind == "U":
                    array = array.astype(object)
                    made.create_dataset(name, data=array.reshape(-1, 1), dtype=h5py.string_dtype())
                    continue
                shaped = array if flat or array.ndim != 1 else array.reshape(-1, 1)
                chunks = (128, *shaped.shape[1:]) if shaped.size else None
                made.create_dataset(
                    name, data=shaped, maxshape=(None, *shaped.shape[1:]), chunks=chunks or True, compression="gzip"
                )
    return path


def index(rows: list[tuple[int, int, int]], dtype: str = "u4") -> dict[str, Any]:
    """Return the three columns that assign rows to events."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return {name: np.array(column, dtype) for name, column in zip(INDEX, columns, strict=True)}


def by_event(path: Path, group: str) -> dict[tuple[int, int, int], list[dict[str, Any]]]:
    """Return the rows of a group by event, as h5py reads them."""
    rows: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    with h5py.File(path) as file:
        columns = {name: dataset[()] for name, dataset in file[group].items()}
        n = len(columns["evt"])
        for row in range(n):
            key = tuple(int(columns[name].reshape(n)[row]) for name in INDEX)
            rows.setdefault(key, []).append(
                {
                    name: values[row] if values.ndim > 1 and values.shape[1] != 1 else values.reshape(n)[row]
                    for name, values in columns.items()
                    if name not in INDEX
                }
            )
    return rows


def many_groups(path: Path, *, seed: int = 1, n_events: int = 200, n_groups: int = 30, run: int = 11981) -> Path:
    """Write a file with many groups, most of them empty, uneven numbers of rows, and events without rows."""
    rng = np.random.default_rng(seed)
    events = np.sort(rng.choice(10 * n_events, n_events, replace=False))
    numbers = [(run, 6, int(event)) for event in events]
    groups: dict[str, dict[str, Any]] = {"spill": {**index(numbers), "spillpot": rng.random(n_events).astype("f4")}}
    for at in range(n_groups):
        own = [] if at % 3 else [key for key in numbers for _ in range(rng.poisson(2) if rng.random() < 0.7 else 0)]
        n = len(own)
        groups[f"rec.g{at}.x y"] = {
            **index(own),
            "cycle": np.zeros(n, "i4"),
            "subevt": rng.integers(1, 9, n).astype("u2"),
            "start.x": rng.normal(size=n).astype("f4"),
            "E": rng.normal(size=n),
            "map": rng.integers(0, 255, (n, 12)).astype("u1"),
            "good": rng.random(n) < 0.5,
            "n": rng.integers(-(2**62), 2**62, n),
        }
    return write(path, groups)
