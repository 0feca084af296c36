"""One suite for all page stores: what is written to them is read back the same, in all ways in which files are read."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import awkward as ak
import numpy as np
import pytest
from compare import same
from page_stores import STORES, fb_program

import femtobarn as fb


@pytest.fixture(scope="module", params=STORES)
def store(request, tmp_path_factory, need_store):
    with pytest.MonkeyPatch.context() as variables:
        store = STORES[request.param](tmp_path_factory.mktemp("store"), need_store, variables)
        yield store
        store.close()


@pytest.fixture(scope="module")
def written(store, testdata):
    """Return an ntuple of several clusters in the store, and the same in a file."""
    source = fb.open(testdata / "dimuon.root")
    url = store.url("written")
    fb.write(url, source, page_size="4 kB", cluster_size="50 kB", **store.options)
    return fb.open(url), source


def test_ntuples_of_root_are_the_same_there(store, testdata):
    n_ntuples = 0
    for path in sorted((testdata / "rntuple").glob("*.root")):
        try:
            original = fb.open(path)
            expected = original.arrays()
        except fb.FemtobarnError:
            continue
        if "/" in original.object_path or len(fb.ls(path)) != 1:
            continue
        url = store.url(f"root-{path.stem}")
        try:
            fb.clone(path, url)
        except fb.FemtobarnError as error:
            # what cannot be cloned to a file, cannot be cloned there
            with pytest.raises(type(error)):
                fb.clone(path, f"{store.folder}/{path.stem}.cloned.root")
            continue
        found = fb.open(url)
        assert found.typenames() == original.typenames(), path
        assert same(found.arrays(), expected), path
        assert found.verify().ok == original.verify().ok, path
        n_ntuples += 1
    assert n_ntuples > 50


def test_ranges_columns_and_steps_are_the_same(written):
    found, source = written
    everything = source.arrays()
    assert len(found.clusters) > 3
    assert same(found.arrays(), everything)
    ends = [cluster.first_entry for cluster in found.clusters]
    for start, stop in [(0, 1), (ends[1] - 1, ends[1] + 1), (ends[-1], None), (5000, 5000), (ends[1], ends[3])]:
        assert same(found.arrays(entry_start=start, entry_stop=stop), everything[start:stop])
        assert same(found["Muon_pt"].array(entry_start=start, entry_stop=stop), everything["Muon_pt"][start:stop])
    steps = list(found.iterate(["nMuon", "Muon_pt"], step_size=1700))
    assert same(ak.concatenate(steps), everything[["nMuon", "Muon_pt"]])
    assert same(found.arrays(cut="nMuon >= 3"), everything[everything["nMuon"] >= 3])
    assert found.verify().ok


def test_plans_are_what_is_read(written):
    found = written[0]
    for names in (["nMuon"], ["Muon_pt", "nMuon"], None):
        # page lists are in memory after the first time
        found.arrays(names)
        plan = found.explain(names)
        before = found.metrics.requests
        found.arrays(names)
        assert found.metrics.requests - before == plan.requests


def test_ntuples_there_are_opened_again_elsewhere(written):
    found, source = written
    again = pickle.loads(pickle.dumps(found))
    assert same(again["nMuon"].array(), source["nMuon"].array())
    assert again.uuid == found.uuid
    total = fb.process(found, lambda events: int(np.sum(events["nMuon"])), by="batch", reduce=lambda a, b: a + b)
    assert total.value == int(np.sum(source["nMuon"].array()))


def test_every_operation_writes_there_and_is_verified(store, testdata):
    source, everything = testdata / "dimuon.root", fb.open(testdata / "dimuon.root").arrays()
    fb.convert(source, store.url("converted"), verify=True, **store.options)
    fb.clone(store.url("converted"), store.url("cloned"), verify=True)
    fb.reshape(store.url("cloned"), store.url("reshaped"), compression="lz4", cluster_size="60 kB", verify=True)
    for name in ("converted", "cloned", "reshaped"):
        assert same(fb.open(store.url(name)).arrays(), everything)
    fb.skim(store.url("reshaped"), store.url("skimmed"), "nMuon >= 3", verify=True)
    assert same(fb.open(store.url("skimmed")).arrays(), everything[everything["nMuon"] >= 3])
    report = fb.merge([store.url("cloned"), source, store.url("reshaped")], store.url("merged"), verify=True)
    assert report.entries == {"Events": 36_000}
    merged = fb.open(store.url("merged"))
    for start in (0, 12_000, 24_000):
        assert same(merged.arrays(entry_start=start, entry_stop=start + 12_000), everything)
    assert merged.verify().ok
    assert not any("_preview" in name for name in store.left("merged"))
    fb.write(store.url("friend"), {"weight": np.arange(12_000.0)}, "Friend", **store.options)
    fb.join_columns([store.url("cloned"), store.url("friend")], store.url("joined"), verify=True)
    assert same(fb.open(store.url("joined"))["weight"].array(), np.arange(12_000.0))
    # and back to a file
    back = f"{store.folder}/back-to-a-file.root"
    fb.clone(store.url("merged"), back)
    assert same(fb.open(back).arrays(entry_start=12_000, entry_stop=24_000), everything)


def test_attribute_sets_stay_with_their_ntuple(store):
    with fb.recreate(store.url("sets")) as file:
        events = file.mkrntuple("Events", {"x": "int32"}, **store.options)
        runs = events.mkattributes("runs", {"run": "int32"})
        events.extend({"x": [1, 2, 3]})
        runs.append(0, 3, {"run": 7})
    fb.clone(store.url("sets"), store.url("sets-again"), verify=True)
    fb.merge([store.url("sets"), store.url("sets-again")], store.url("sets-merged"))
    for name, n in (("sets", 1), ("sets-again", 1), ("sets-merged", 2)):
        found = fb.open(store.url(name)).attributes["runs"].arrays()
        assert found["_rangeStart"].to_list() == [3 * at for at in range(n)]
        assert found["_rangeLen"].to_list() == [3] * n
        assert found["_userData"]["run"].to_list() == [7] * n


def test_what_fails_leaves_nothing_there(store):
    def fail():
        with fb.recreate(store.url("failed")) as file:
            events = file.mkrntuple("Events", {"x": "float64"}, **store.options)
            events.extend({"x": np.arange(100_000.0)})
            events.commit_cluster()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    # a container of DAOS exists without ntuples
    with pytest.raises((fb.NotFoundError, fb.UsageError)):
        fb.open(store.url("failed"))
    assert store.left("failed") == []


def test_an_existing_ntuple_is_refused_or_replaced_as_a_whole(store, dimuon):
    url = store.url("again")
    fb.write(url, {"x": np.arange(1000.0)}, **store.options)
    for refused in (lambda: fb.clone(dimuon, url), lambda: fb.merge([dimuon], url)):
        with pytest.raises(fb.FemtobarnError, match="exist"):
            refused()
    assert fb.open(url)["x"].array()[-1] == 999
    fb.clone(dimuon, url, overwrite=True)
    assert fb.open(url).num_entries == 12_000
    names = store.left("again")
    fb.clone(dimuon, url, overwrite=True, verify=True)
    assert fb.open(url).verify().ok
    # nothing of the replaced one remains
    assert len(store.left("again")) == len(names)


def test_an_ntuple_is_deleted_with_its_attribute_sets(store):
    url = store.url("deleted")
    with fb.recreate(url) as file:
        events = file.mkrntuple("Events", {"x": "int32"}, **store.options)
        runs = events.mkattributes("runs", {"run": "int32"})
        events.extend({"x": [1, 2, 3]})
        runs.append(0, 3, {"run": 7})
    if url.endswith(".root"):
        with pytest.raises(fb.UsageError, match="only ntuples as objects"):
            fb.delete(url)
        return
    fb.clone(url, store.url("deleted-too"))
    n = len(store.left("deleted"))
    deleted = fb.delete(url)
    # of DAOS, envelopes and names do not count
    assert 0 < deleted < n if "daos" in url else deleted == n
    assert store.left("deleted") == []
    for missing in (fb.delete, fb.open):
        with pytest.raises((fb.NotFoundError, fb.UsageError)):
            missing(url)
    fb_program("rm", store.url("deleted-too"))
    assert store.left("deleted-too") == []
    fb.write(url, {"x": [1]}, **store.options)
    assert fb.open(url).verify().ok


def test_names_are_those_of_the_ntuple(store, written):
    url = store.url("written")
    assert [found.path for found in fb.ls(url)] == ["Events"]
    assert fb.open(f"{url}:Events").num_entries == 12_000
    with pytest.raises(fb.KeyNotFoundError, match="Event"):
        fb.open(f"{url}:Other")
    with pytest.raises(fb.NotFoundError, match="missing"):
        fb.open(store.url("missing"))


def test_an_ntuple_can_be_opened_while_it_is_replaced(store):
    url = store.url("replaced")
    columns = [2, 300, 9, 150, 40]

    def write(n):
        fb.write(url, {f"x{at}": np.full(n, at) for at in range(n)}, "Events", **store.options)

    write(columns[-1])
    done = threading.Event()
    sizes = [(n, n) for n in columns]

    def read():
        n_opened = 0
        while not done.is_set():
            found = fb.open(url)
            assert (len(found.keys()), found.num_entries) in sizes
            n_opened += 1
        return n_opened

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for _ in range(6):
                for n in columns:
                    write(n)
        finally:
            done.set()
        assert min(reader.result() for reader in readers) > 10
    assert fb.open(url).verify().ok
