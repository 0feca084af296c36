"""Generates HDF5 files like NOvA's near detector: a group for each branch, a row for each slice, track or shower.

    python generate.py FOLDER [--files N] [--spills N] [--seed N]

The number of spills varies between files by several times, as in NOvA. A spill has any number of slices, or none. Most
groups of real files are empty; some are here. The same seed gives the same files.
"""

import argparse
from pathlib import Path

import h5py
import numpy as np

RUN = 11981
EMPTY = ("neutrino", "rec.mc", "rec.mc.nu", "rec.mc.cosmic", "rec.vtx.hough")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--spills", type=int, default=2500, help="in a file, on average")
    parser.add_argument("--seed", type=int, default=4)
    generate(**vars(parser.parse_args()))


def generate(folder: Path, files: int = 6, spills: int = 2500, seed: int = 4) -> list[Path]:
    """Write the files; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    # at most 24 subruns per run, as in the names of NOvA's files
    sizes = np.maximum(rng.lognormal(-0.5, 1, files) * spills, 1).astype(int)
    paths = []
    for at, n in enumerate(sizes):
        run, subrun = RUN + at // 24, at % 24
        path = folder / f"neardet_r{run:08}_s{subrun:02}.h5"
        write(path, rng, run, subrun, int(n))
        paths.append(path)
    return paths


def write(path: Path, rng: np.random.Generator, run: int, subrun: int, n_spills: int) -> None:
    """Write one file."""
    spills = np.sort(rng.choice(20 * n_spills, n_spills, replace=False)).astype("u4")
    n_slices = rng.poisson(5.6, n_spills) * (rng.random(n_spills) < 0.9)
    evt = np.repeat(spills, n_slices)
    subevt = np.concatenate([np.arange(1, n + 1) for n in n_slices]).astype("u2")
    slices, kept = columns_of_slices(rng, len(evt))
    tracks = columns_of_tracks(rng, slices, kept)
    showers = columns_of_showers(rng, kept)
    with h5py.File(path, "w") as file:
        add(file, "spill", (run, subrun, spills), {"spillpot": rng.random(n_spills).astype("f4")})
        for group, columns in slices.items():
            add(file, group, (run, subrun, evt), {"cycle": np.zeros(len(evt), "i4"), "subevt": subevt, **columns})
        for group, (of, columns) in {
            "rec.trk.kalman.tracks": tracks,
            "rec.vtx.elastic.fuzzyk.png.shwlid": showers,
        }.items():
            add(file, group, (run, subrun, evt[of]), {"subevt": subevt[of], **columns})
        for group in EMPTY:
            add(file, group, (run, subrun, evt[:0]), {"x": np.empty(0, "f4"), "y": np.empty(0, "f4")})


def add(file: h5py.File, group: str, numbers: tuple, columns: dict) -> None:
    """Write a group: all columns have shape (N, 1), and are chunked and compressed."""
    run, subrun, evt = numbers
    index = {"run": np.full(len(evt), run, "u4"), "subrun": np.full(len(evt), subrun, "u4"), "evt": evt.astype("u4")}
    for name, values in {**index, **columns}.items():
        file.create_dataset(
            f"{group}/{name}",
            data=values.reshape(-1, 1),
            maxshape=(None, 1),
            chunks=(4096, 1),
            compression="gzip",
            compression_opts=6,
        )


def columns_of_slices(rng: np.random.Generator, n: int) -> tuple[dict, dict]:
    """Return groups with one row per slice, and which slices pass each cut on tracks and showers."""

    def cut(good: tuple, bad: tuple, dtype: str = "f4") -> np.ndarray:
        """Return values; most are typical of a slice with a muon neutrino."""
        is_good = rng.random(n) < 0.88
        return np.where(is_good, rng.uniform(*good, n), rng.uniform(*bad, n)).astype(dtype)

    pid = cut((0.71, 1), (0, 0.7))
    has_remid = rng.random(n) < 0.95
    n_tracks = rng.integers(1, 5, n)
    slices = {
        "rec.energy.numu": {"trkccE": cut((0.5, 5), (-5, 0))},
        "rec.slc": {
            "firstplane": cut((2, 50), (0, 2), "u4"),
            "lastplane": cut((60, 212), (212, 215), "u4"),
            "ncontplanes": cut((5, 80), (0, 5), "u4"),
            "nhit": cut((21, 300), (0, 21), "u4"),
        },
        "rec.sel.remid": {"pid": np.where(has_remid, pid, -5).astype("f4")},
        "rec.sel.cvnProd3Train": {"numuid": cut((0.71, 1), (0, 0.7))},
        "rec.sel.cvn2017": {"numuid": cut((0.11, 1), (0, 0.1))},
        "rec.sel.contain": {
            "kalbakcellnd": cut((11, 90), (0, 11), "i4"),
            "kalfwdcellnd": cut((6, 90), (0, 6), "i4"),
            "kalyposattrans": cut((-100, 55), (55, 150)),
        },
        "rec.trk.cosmic": {"ntracks": cut((1, 4), (0, 1), "u8")},
        "rec.trk.kalman": {
            "idxremid": np.where(rng.random(n) < 0.9, rng.integers(0, n_tracks), 999).astype("u4"),
            "ntracks": n_tracks.astype("u8"),
        },
    }
    return slices, {name: rng.random(n) < 0.88 for name in ("start", "stop", "others", "showers")}


def columns_of_tracks(rng: np.random.Generator, slices: dict, kept: dict) -> tuple[np.ndarray, dict]:
    """Return the slice of each track, and the columns of tracks."""
    n_tracks = slices["rec.trk.kalman"]["ntracks"].astype(int)
    of = np.repeat(np.arange(len(n_tracks)), n_tracks)
    number = np.arange(len(of)) - np.repeat(np.cumsum(n_tracks) - n_tracks, n_tracks)
    start, stop = rng.uniform(10, 1090, len(of)), rng.uniform(10, 1270, len(of))
    is_first = number == 0
    start[is_first & ~kept["start"][of]] = 1150
    stop[is_first & ~kept["stop"][of]] = 1400
    stop[(number > 0) & ~kept["others"][of]] = 1400
    return of, {
        "rec.trk.kalman.tracks_idx": number.astype("u4"),
        "start.z": start.astype("f4"),
        "stop.z": stop.astype("f4"),
    }


def columns_of_showers(rng: np.random.Generator, kept: dict) -> tuple[np.ndarray, dict]:
    """Return the slice of each shower, and the columns of showers. A quarter of the slices has no shower."""
    n_slices = len(kept["showers"])
    n = rng.integers(1, 4, n_slices) * (rng.random(n_slices) < 0.75)
    of = np.repeat(np.arange(n_slices), n)
    columns = {}
    for end in ("start", "stop"):
        for axis in "xy":
            columns[f"{end}.{axis}"] = rng.uniform(-180, 180, len(of)).astype("f4")
        columns[f"{end}.z"] = rng.uniform(20, 1525, len(of)).astype("f4")
    columns["stop.x"][~kept["showers"][of]] = 185
    return of, columns


if __name__ == "__main__":
    main()
