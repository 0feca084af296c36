"""The candidate selection of muon neutrinos in NOvA's near detector, kNumuCutND, as in the HEPnOS paper.

It is written once, for arrays: a table has a list of rows for each event. It does not depend on whether the arrays come
from a file or a store.
"""

from pathlib import Path

import awkward as ak
import h5py
import numpy as np

import femtobarn as fb

# the input columns
TABLES = {
    "rec.energy.numu": ["trkccE"],
    "rec.sel.contain": ["kalbakcellnd", "kalfwdcellnd", "kalyposattrans"],
    "rec.sel.cvn2017": ["numuid"],
    "rec.sel.cvnProd3Train": ["numuid"],
    "rec.sel.remid": ["pid"],
    "rec.slc": ["firstplane", "lastplane", "ncontplanes", "nhit"],
    "rec.trk.cosmic": ["ntracks"],
    "rec.trk.kalman": ["idxremid", "ntracks"],
    "rec.trk.kalman.tracks": ["rec_trk_kalman_tracks_idx", "start_z", "stop_z"],
    "rec.vtx.elastic.fuzzyk.png.shwlid": ["start_x", "start_y", "start_z", "stop_x", "stop_y", "stop_z"],
}


class Rows:
    """The rows of a table for all events, and the slice of each row."""

    def __init__(self, lists: ak.Array, slices: "Rows | None" = None) -> None:
        lists = ak.fill_none(lists, [], axis=0)
        self.event = np.repeat(np.arange(len(lists)), ak.to_numpy(ak.num(lists)))
        self.rows = ak.flatten(lists)
        self.key = self.event << 16 | self["subevt"].astype(np.int64)
        # tables with one row per slice have their rows in the order of the slices
        if slices is not None:
            self.slice = np.searchsorted(slices.key, self.key)
            assert np.array_equal(slices.key[self.slice], self.key), "some rows belong to no slice"

    def __getitem__(self, name: str) -> np.ndarray:
        return ak.to_numpy(self.rows[name]) if len(self.rows) else np.empty(0, np.int64)


def cuts(tables: dict[str, ak.Array]) -> tuple[Rows, dict[str, np.ndarray]]:
    """Return the slices of all events, and which of them pass each cut."""
    slc = Rows(tables["rec.slc"])
    energy, contain, cvn, cvn2017, remid, cosmic, kalman = (
        of_slices(slc, tables[name])
        for name in (
            "rec.energy.numu",
            "rec.sel.contain",
            "rec.sel.cvnProd3Train",
            "rec.sel.cvn2017",
            "rec.sel.remid",
            "rec.trk.cosmic",
            "rec.trk.kalman",
        )
    )
    tracks = Rows(tables["rec.trk.kalman.tracks"], slc)
    showers = Rows(tables["rec.vtx.elastic.fuzzyk.png.shwlid"], slc)
    return slc, {
        # quality
        "trkccE": energy["trkccE"] > 0,
        "remid.pid > 0": remid["pid"] > 0,
        "nhit": slc["nhit"] > 20,
        "ncontplanes": slc["ncontplanes"] > 4,
        "cosmic.ntracks": cosmic["ntracks"] > 0,
        # particle identification
        "remid.pid": remid["pid"] > 0.7,
        "cvnProd3Train.numuid": cvn["numuid"] > 0.7,
        "cvn2017.numuid": cvn2017["numuid"] > 0.1,
        # containment
        "idxremid": kalman["ntracks"] > kalman["idxremid"],
        "firstplane": slc["firstplane"] > 1,
        "lastplane": slc["lastplane"] < 212,
        "kalfwdcellnd": contain["kalfwdcellnd"] > 5,
        "kalbakcellnd": contain["kalbakcellnd"] > 10,
        **of_tracks(slc, tracks, kalman["idxremid"], contain["kalyposattrans"]),
        "showers": none_of(slc, showers, ~inside(showers)),
    }


def of_slices(slc: Rows, table: ak.Array) -> Rows:
    """Return a table that has one row per slice."""
    rows = Rows(table)
    assert np.array_equal(rows.key, slc.key), "a table lacks slices"
    return rows


def of_tracks(slc: Rows, tracks: Rows, idxremid: np.ndarray, kalyposattrans: np.ndarray) -> dict[str, np.ndarray]:
    """Return which slices pass the cuts on tracks."""
    number, start, stop = tracks["rec_trk_kalman_tracks_idx"], tracks["start_z"], tracks["stop_z"]
    is_first = number == 0
    is_other = number != idxremid[tracks.slice]
    starts = np.zeros(len(slc.key), bool)
    starts[tracks.slice[is_first & (start < 1100)]] = True
    stops = np.zeros(len(slc.key), bool)
    stops[tracks.slice[is_first & (stop < 1275)]] = True
    return {
        "first track's start": starts,
        "first track's stop": (kalyposattrans < 55) | stops,
        "other tracks": none_of(slc, tracks, is_other & ((start > 1275) | (stop > 1275))),
    }


def inside(showers: Rows) -> np.ndarray:
    """Return which showers begin and end inside the detector."""
    is_inside = np.ones(len(showers.key), bool)
    for end in ("start", "stop"):
        for axis in "xy":
            is_inside &= np.abs(showers[f"{end}_{axis}"]) <= 180
        z = showers[f"{end}_z"]
        is_inside &= (z >= 20) & (z <= 1525)
    return is_inside


def none_of(slc: Rows, rows: Rows, is_bad: np.ndarray) -> np.ndarray:
    """Return which slices have no bad row."""
    kept = np.ones(len(slc.key), bool)
    kept[rows.slice[is_bad]] = False
    return kept


def accepted(tables: dict[str, ak.Array], numbers: np.ndarray) -> np.ndarray:
    """Return the slices that pass all cuts: run, subrun, event, subevt. `numbers` has the first three of each event."""
    slc, kept = cuts(tables)
    at = np.flatnonzero(np.logical_and.reduce(list(kept.values())))
    return np.column_stack([numbers[slc.event[at]], slc["subevt"][at]]).astype(np.int64)


# from a file


def tables_of_file(path: Path) -> tuple[dict[str, ak.Array], np.ndarray]:
    """Read the tables of a file with one subrun, and the numbers of its events."""
    tables = {}
    with h5py.File(path) as file:
        numbers = np.column_stack([file["spill"][name][:, 0] for name in ("run", "subrun", "evt")])
        for group, columns in TABLES.items():
            own = {name.replace(".", "_"): dataset for name, dataset in file[group].items()}
            rows = ak.zip({name: own[name][:, 0] for name in ["subevt", *columns]})
            bounds = np.searchsorted(own["evt"][:, 0], numbers[:, 2])
            tables[group] = ak.unflatten(rows, np.diff(np.append(bounds, len(rows))))
    return tables, numbers


def select_file(path: Path) -> np.ndarray:
    """Return the accepted slices of a file."""
    return accepted(*tables_of_file(path))


# from a store


def select_batch(batch: fb.EventBatch) -> np.ndarray:
    """Return the accepted slices of some events."""
    array = batch.arrays()
    numbers = np.column_stack([ak.to_numpy(array[name]) for name in ("run", "subrun", "event")])
    return accepted({group: array[group] for group in TABLES}, numbers)
