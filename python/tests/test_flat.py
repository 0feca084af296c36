"""Flat views: named tuples of NumPy arrays, which compiled functions of Numba take."""

from __future__ import annotations

import operator
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numba
import numpy as np
import pytest
import uproot

import femtobarn as fb

COLUMNS = ["nMuon", "Muon_pt", "Muon_charge"]


@numba.njit
def opposite_pairs(batch):
    """Return the number of pairs of muons of opposite charge, and the sum of their transverse momenta."""
    n, total = 0, 0.0
    muons = batch.Muon
    for event in range(len(batch.nMuon)):
        for i in range(muons.offsets[event], muons.offsets[event + 1]):
            for j in range(i + 1, muons.offsets[event + 1]):
                if muons.charge[i] != muons.charge[j]:
                    n += 1
                    total += muons.pt[i] + muons.pt[j]
    return n, total


def expected(dimuon: str) -> tuple[int, float]:
    with uproot.open(dimuon) as file:
        events = file["Events"].arrays(["Muon_pt", "Muon_charge"])
    pt, charge = (ak.combinations(events[name], 2) for name in ("Muon_pt", "Muon_charge"))
    chosen = charge["0"] != charge["1"]
    return int(ak.sum(chosen)), float(ak.sum((pt["0"] + pt["1"])[chosen]))


def add(a: Any, b: Any) -> Any:
    return tuple(map(operator.add, a, b))


def of_batch(batch: fb.EntryBatch) -> Any:
    return opposite_pairs(batch.flat())


def test_compiled_functions_take_whole_batches(dimuon: str) -> None:
    n, total = expected(dimuon)
    options: dict[str, Any] = {"by": "batch", "preload": COLUMNS, "reduce": add, "progress": False, "workers": 2}
    found = [
        opposite_pairs(fb.open(dimuon).arrays(COLUMNS, library="flat")),
        opposite_pairs(fb.concatenate(dimuon, COLUMNS, library="flat")),
        fb.process(dimuon, opposite_pairs, library="flat", **options).value,
        fb.process(fb.open(dimuon), opposite_pairs, library="flat", **options).value,
        fb.process(dimuon, of_batch, **options).value,
        fb.process(dimuon, of_batch, executor="processes", **options).value,
    ]
    for batches in (
        fb.iterate(dimuon, COLUMNS, library="flat", step_size=5000),
        fb.open(dimuon).iterate(COLUMNS, library="flat"),
    ):
        sums = [opposite_pairs(batch) for batch in batches]
        found.append(tuple(map(sum, zip(*sums, strict=True))))
    for one in found:
        assert one[0] == n
        assert one[1] == pytest.approx(total)
    assert len(opposite_pairs.signatures) == 1  # it is compiled once


def test_members_do_not_depend_on_what_else_is_read(dimuon: str) -> None:
    nt = fb.open(dimuon)
    assert nt.arrays(library="flat")._fields == ("run", "event", "nMuon", "Muon")
    assert nt.arrays(library="flat").Muon._fields == ("offsets", "pt", "eta", "phi", "mass", "charge")
    for columns in (["Muon_pt"], ["Muon_pt", "run"]):
        flat = nt.arrays(columns, library="flat")
        assert flat.Muon._fields == ("offsets", "pt")
        assert type(flat.Muon) is type(nt.arrays(columns, library="flat", entry_stop=10).Muon)
    batch = next(iter(fb.iterate(dimuon)))
    assert batch.flat(["Muon_pt"]).Muon._fields == ("offsets", "pt")
    with pytest.raises(fb.KeyNotFoundError, match=r"no field 'Muon_pz' in the batch: its fields are run, event"):
        batch.flat(["Muon_pz"])


def test_views_of_slices_have_the_entries_of_the_slice(dimuon: str) -> None:
    batch = next(iter(fb.iterate(dimuon, COLUMNS)))
    for part in (batch[batch.nMuon >= 3], batch[5000:5100], batch[::-7], pickle.loads(pickle.dumps(batch))):
        flat = part.flat()
        lists = [flat.Muon.pt[a:b].tolist() for a, b in zip(flat.Muon.offsets, flat.Muon.offsets[1:], strict=False)]
        assert lists == part.Muon_pt.to_list()
        assert flat.nMuon.tolist() == part.nMuon.to_list()


def test_virtual_arrays_are_read_as_far_as_they_are_named(dimuon: str) -> None:
    batch = next(iter(fb.iterate(dimuon, virtual=True)))
    flat = batch.flat(["nMuon", "Muon_pt"])
    assert flat.Muon.offsets[-1] == len(flat.Muon.pt) == flat.nMuon.sum()


def rebuilt(view: Any, at: int) -> Any:
    """Return the value of a view at a position as objects of Python."""
    if isinstance(view, np.ndarray):
        return view[at].tolist()
    fields = view._fields
    if fields[0] == "offsets":
        inside = range(view.offsets[at], view.offsets[at + 1])
        if fields == ("offsets", "values"):
            return [rebuilt(view.values, i) for i in inside]
        return [{name: rebuilt(getattr(view, name), i) for name in fields[1:]} for i in inside]
    if fields == ("index", "values"):
        return None if view.index[at] < 0 else rebuilt(view.values, view.index[at])
    if fields[0] == "tags":
        return rebuilt(view[2 + view.tags[at]], view.index[at])
    return {name: rebuilt(getattr(view, name), at) for name in fields}


def test_views_of_all_types_have_the_values_of_awkward(tmp_path: Path) -> None:
    columns = ak.Array(
        {
            "number": [1.5, 2.5, 3.5],
            "bool": [True, False, True],
            "text": ["a", "", "éo"],
            "jets": [[{"pt": 1, "hits": [1, 2]}], [], [{"pt": 2, "hits": []}, {"pt": 3, "hits": [4]}]],
            "nested": [[[1], []], [], [[2, 3]]],
            "maybe": [1, None, 3],
            "record": [{"x": 1, "y": [1.0]}, {"x": 2, "y": []}, {"x": 3, "y": [2.0, 3.0]}],
            "class": [1, 2, 3],
        }
    )
    array = ak.with_field(columns, ak.to_regular(ak.Array([[1, 2], [3, 4], [5, 6]])), "fixed")
    fb.write(tmp_path / "a.root", {name: array[name] for name in array.fields})
    nt = fb.open(tmp_path / "a.root")
    flat, whole = nt.arrays(library="flat"), nt.arrays()
    assert flat._fields == (*array.fields[:-2], "class_", "fixed")  # a keyword of Python is changed
    for name in whole.fields:
        got = [rebuilt(getattr(flat, "class_" if name == "class" else name), at) for at in range(3)]
        if name == "text":
            got = [bytes(one).decode() for one in got]
        assert got == whole[name].to_list(), name
    assert nt["jets"].array(library="flat")._fields == ("offsets", "pt", "hits")
    assert nt["number"].array(library="flat").tolist() == [1.5, 2.5, 3.5]


def test_pickles_of_views_are_of_the_same_class(dimuon: str) -> None:
    flat = fb.open(dimuon).arrays(COLUMNS, library="flat", entry_stop=10)
    again = pickle.loads(pickle.dumps(flat))
    assert type(again) is type(flat)
    assert type(again.Muon) is type(flat.Muon)
    assert all(map(np.array_equal, again.Muon, flat.Muon))


CACHED = """
import sys
import numba
import femtobarn as fb

@numba.njit(cache=True)
def count(batch):
    return len(batch.Muon.pt)

count(fb.open(sys.argv[1]).arrays(["nMuon", "Muon_pt"], library="flat"))
print(sum(count.stats.cache_hits.values()))
"""


def test_a_function_that_numba_has_cached_is_not_compiled_again_in_another_process(dimuon: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CACHED)
    run = [subprocess.run([sys.executable, script, dimuon], capture_output=True, text=True) for _ in range(2)]
    assert [one.stdout for one in run] == ["0\n", "1\n"], run[-1].stderr


def test_memory_of_a_step_is_used_again_when_nobody_holds_it(tmp_path: Path) -> None:
    with fb.recreate(tmp_path / "a.root") as file:
        writer = file.mkrntuple("Events", {"x": "double"})
        for _ in range(40):
            writer.extend({"x": np.random.default_rng(1).normal(size=200_000)})
    places = []
    for batch in fb.iterate(tmp_path / "a.root", library="flat", step_size=200_000):
        places.append(batch.x.__array_interface__["data"][0])
        assert not batch.x.flags.writeable
        del batch
    assert len(places) == 40
    assert len(set(places)) <= 8


def test_a_tree_and_an_ntuple_of_the_same_events_have_the_same_views(shared: Path) -> None:
    columns = ["nMuon", "Muon_pt", "Muon_charge", "nJet", "Jet_pt", "MET_pt"]
    tree, ntuple = (
        next(iter(fb.iterate({"dy": [f"{shared / path}:Events"]}, columns, library="flat")))
        for path in ("ttree/nano_dy.root", "rntuple/nano_dy_rntuple.root")
    )
    assert sorted(tree._fields) == sorted(ntuple._fields) == ["Jet", "MET_pt", "Muon", "nJet", "nMuon"]
    assert ntuple.Muon._fields == tree.Muon._fields == ("offsets", "pt", "charge")
    for name in ("offsets", "pt", "charge"):
        assert np.array_equal(getattr(tree.Muon, name), getattr(ntuple.Muon, name))
    assert opposite_pairs(tree)[0] == opposite_pairs(ntuple)[0] > 0


def test_lists_of_different_lengths_are_not_one_collection(tmp_path):
    lists = {"nA": np.array([1, 2]), "A_x": ak.Array([[1.0], [2.0, 3.0]]), "A_y": ak.Array([[1.0, 5.0], [2.0]])}
    fb.write(tmp_path / "lists.root", lists, name="Events")
    batch = next(fb.iterate(tmp_path / "lists.root"))
    with pytest.raises(fb.UsageError, match="A_x and A_y have different lengths"):
        batch.flat()
    assert batch.flat(["A_y"]).A.y.tolist() == [1, 5, 2]
