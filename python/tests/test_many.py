"""Many files as one ntuple: work per file, and what a task needs of the others."""

from __future__ import annotations

import concurrent.futures
import os
import pickle

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb
from femtobarn._files.queries import conditions
from femtobarn._processing.entries import NTupleWork


@pytest.fixture
def several(tmp_path, dimuon):
    """Return some files of the same kind, with 12,000 entries each."""

    def make(n: int) -> list[str]:
        paths = [tmp_path / f"{number}.root" for number in range(n)]
        for path in paths:
            path.unlink(missing_ok=True)
            os.link(dimuon, path)
        return [f"{path}:Events" for path in paths]

    return make


def test_a_task_opens_the_files_of_its_entries_alone(several):
    sizes = []
    for n in (3, 30):
        nt = fb.open(several(n))
        work = NTupleWork(nt, (("run", "event"), None), conditions(None, None))
        packed = pickle.dumps(work)
        elsewhere = pickle.loads(packed)
        pieces = [pickle.dumps(piece) for piece in work.pieces((5000, 5000), 0, 17_000, loads=False)]
        sizes.append(max(map(len, [packed, *pieces])))
        found = []
        for piece in map(pickle.loads, pieces):
            opened, start = elsewhere._found(piece)
            assert len(opened.files) == 1
            assert start == piece.start % 12_000
            found.append(elsewhere.load(piece))
        assert ak.array_equal(ak.concatenate(found), nt.arrays(["run", "event"], entry_start=17_000))
    assert sizes[1] <= sizes[0] + 20  # longer numbers in names


def _described(batch):
    return [(str(batch.type.content), len(batch), float(np.sum(batch["x"])))]


@pytest.mark.parametrize("n_kinds", [2, 10])
def test_a_task_gives_the_types_that_all_files_together_have(tmp_path, n_kinds):
    paths = []
    for number in range(12):
        values = np.arange(10 + number, dtype="int32" if number % n_kinds else "float64")
        others = {f"y{number % n_kinds}": values} if number % n_kinds else {}
        path = tmp_path / f"{number}.root"
        with fb.recreate(path) as file:
            file["t"] = {"x": values, **others}
        paths.append(f"{path}:t")
    nt = fb.open(paths)
    elsewhere = fb.open(paths)
    with pytest.warns(fb.UnreadableWarning, match="not all files"):
        expected = fb.process(nt, _described, by="batch", reduce=list.__add__, input_batch_size=15)
    assert {kind for kind, _, _ in expected.value} == {"{x: float64}"}
    assert sorted(set(nt._core.kinds())) == list(range(n_kinds))
    options = {"by": "batch", "reduce": list.__add__, "input_batch_size": 15}
    with concurrent.futures.ProcessPoolExecutor(2) as executor, pytest.warns(fb.UnreadableWarning) as told:
        found = fb.process(elsewhere, _described, executor=executor, **options)
    assert len(told) == 1  # here, and not in the other processes, where it would be an error
    assert found.value == expected.value
    assert sum(n for _, n, _ in found.value) == nt.num_entries


def _fails(event):
    if event["event"] % 12_000 == 11_999:
        raise ValueError("this one")


def test_an_event_of_another_process_is_named_as_it_is_here(several):
    nt = fb.open(several(3))
    found = []
    for executor in ("threads", "processes"):
        options = {"executor": executor, "workers": 1, "on_error": "skip"}
        result = fb.process(nt, _fails, preload=["event", "run"], **options)
        found.append([one.where for one in result.failures])
    assert found[0] == found[1]
    assert [where.split()[1] for where in found[0]] == ["10999", "22999", "34999"]
    assert all("event 11999" in where for where in found[0])
