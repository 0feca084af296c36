"""Single entries of ntuples, which `process` passes to functions of one event, also to compiled ones."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import awkward as ak
import numba
import numpy as np
import pytest
import uproot

import femtobarn as fb


def process(source: Any, function: Any, **options: Any) -> fb.ProcessResult:
    return fb.process(source, function, **{"progress": False, "workers": 2, **options})


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Return a file with fields of many types."""
    array = ak.Array(
        {
            "number": [1.5, 2.5, 3.5],
            "bool": [True, False, True],
            "text": ["a", "", "éo"],
            "values": [[1, 2], [], [3]],
            "jets": [[{"pt": 1, "hits": [1, 2]}], [], [{"pt": 2, "hits": []}, {"pt": 3, "hits": [4]}]],
            "nested": [[[1], []], [], [[2, 3]]],
            "maybe": [1, None, 3],
            "record": [{"x": 1, "y": [1.0]}, {"x": 2, "y": []}, {"x": 3, "y": [2.0, 3.0]}],
        }
    )
    array = ak.with_field(array, ak.to_regular(ak.Array([[1, 2], [3, 4], [5, 6]])), "fixed")
    fb.write(tmp_path / "mixed.root", {name: array[name] for name in array.fields})
    return tmp_path / "mixed.root"


def as_python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def by_both(event: fb.Entry) -> Any:
    assert all(name in event for name in event.fields)
    return [(as_python(getattr(event, name)), as_python(event[name])) for name in event.fields]


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_attributes_and_items_of_all_types_have_the_values_of_awkward(
    mixed: Path, executor: str, virtual: bool
) -> None:
    records = fb.open(mixed).arrays()
    found = process(mixed, by_both, executor=executor, virtual=virtual).value
    assert found == [[(as_python(record[name]),) * 2 for name in records.fields] for record in records]


def itself(event: fb.Entry) -> fb.Entry:
    return event


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_entries_can_be_results(mixed: Path, executor: str) -> None:
    entries = process(mixed, itself, executor=executor).value
    assert [entry.to_list() for entry in entries] == fb.open(mixed).arrays().to_list()
    assert [entry.tolist() for entry in entries] == [entry.to_record().to_list() for entry in entries]
    assert [ak.sum(entry.jets.pt) for entry in entries] == [1, 0, 5]


def test_entries_know_their_batch_and_number(dimuon: str) -> None:
    given = {
        "d": {"files": {dimuon: {"object_path": "Events", "steps": [[500, 700], [900, 901]]}}, "metadata": {"w": 2}}
    }
    found = process(
        given, lambda e: (e.batch.dataset, e.batch.metadata["w"], e.entry_number), output_batch_size=64
    ).value
    assert found == [("d", 2, entry) for entry in (*range(500, 700), 900)]
    entry = process(dimuon, itself, preload=["nMuon"], workers=1).value[1]
    assert repr(entry) == "<Entry 1: nMuon>"
    assert "nMuon" in dir(entry)
    assert entry["nMuon"] == entry.to_record().nMuon == entry[["nMuon"]].nMuon


def test_missing_fields_of_an_entry_are_told(dimuon: str) -> None:
    with pytest.raises(fb.ProcessError, match=r"no field named 'nMoun': the fields are nMuon, run"):
        process(dimuon, lambda event: event.nMoun, preload=["nMuon", "run"])
    with pytest.raises(fb.ProcessError, match=r"KeyError\('nMoun'\)"):
        process(dimuon, lambda event: event["nMoun"], preload=["nMuon", "run"])


# -- compiled functions -------------------------------------------------------------------------------------


@numba.njit
def momentum(event):
    """Return the sum of the momenta of the first two muons, or -1."""
    if event.nMuon < 2:
        return -1.0
    pt, eta = event.Muon_pt, event.Muon_eta
    return pt[0] * np.cosh(eta[0]) + pt[1] * np.cosh(eta[1])


@numba.njit
def fails_at_1000(event):
    """Raise for one event."""
    if event.event == 2000:
        raise ValueError("2000 is too much")
    return event.nMuon


@numba.njit
def of_many_types(event):
    """Return a number from fields of many types."""
    total = event.number * 1000 + event.values.sum() + event.fixed[1] + len(event.text)
    for i in range(len(event.jets.pt)):
        total += event.jets.pt[i]
    for i in range(len(event.jets.hits.offsets) - 1):
        for j in range(event.jets.hits.offsets[i], event.jets.hits.offsets[i + 1]):
            total += event.jets.hits.values[j]
    for i in range(len(event.nested.offsets) - 1):
        total += event.nested.offsets[i + 1] - event.nested.offsets[i]
    if event.maybe.index >= 0:
        total += event.maybe.values[event.maybe.index]
    return total + event.record.x + event.record.y.sum()


@numba.njit
def only_good(event):
    """Return None, as functions without results do."""
    event.nMuon + 1


COLUMNS = ["nMuon", "Muon_pt", "Muon_eta"]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_compiled_functions_take_events(dimuon: str, executor: str) -> None:
    with uproot.open(dimuon) as file:
        events = file["Events"].arrays(COLUMNS)
    p = (events.Muon_pt * np.cosh(events.Muon_eta))[events.nMuon >= 2]
    expected = np.full(len(events), -1.0)
    expected[np.asarray(events.nMuon >= 2)] = p[:, 0] + p[:, 1]
    result = process(dimuon, momentum, preload=COLUMNS, executor=executor, workers=1)
    assert np.allclose(result.value, expected, rtol=1e-4)
    assert sum(one.processing_time.num for one in result.statistics.workers.values()) == len(events)
    total = process(dimuon, momentum, preload=COLUMNS, reduce=operator.add)
    assert total.value == pytest.approx(expected.sum(), rel=1e-4)


def test_compiled_functions_take_fields_of_many_types(mixed: Path) -> None:
    records = fb.open(mixed).arrays()
    expected = [
        record.number * 1000
        + sum(record["values"])
        + record.fixed[1]
        + len(record.text.encode())
        + ak.sum(record.jets.pt)
        + ak.sum(record.jets.hits)
        + ak.sum(ak.num(record.nested))
        + (record.maybe or 0)
        + record.record.x
        + ak.sum(record.record.y)
        for record in records
    ]
    assert process(mixed, of_many_types, workers=1).value == expected


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_events_for_which_a_compiled_function_fails_are_named_or_skipped(dimuon: str, executor: str) -> None:
    options: dict[str, Any] = {"preload": ["event", "nMuon"], "executor": executor, "workers": 1}
    with pytest.raises(fb.ProcessError, match=r"the function failed for entry 1000 .*2000 is too much"):
        process(dimuon, fails_at_1000, **options)
    skipped = process(dimuon, fails_at_1000, on_error="skip", **options)
    assert skipped.n_failed == 1
    assert skipped.value == np.delete(fb.open(dimuon)["nMuon"].array(library="np"), 1000).tolist()


def test_compiled_functions_without_results_or_with_virtual_arrays_work(dimuon: str) -> None:
    assert process(dimuon, only_good, preload=["nMuon"]).value == []
    assert process(dimuon, momentum, virtual=True).value == process(dimuon, momentum, preload=COLUMNS).value
