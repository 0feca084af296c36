import concurrent.futures
import multiprocessing
import os
import pickle
import threading
from pathlib import Path

import pytest
from compare import same

import femtobarn as fb
from femtobarn._shared.steps import num_threads


def _sum_of_run(nt):
    return int(sum(nt["run"].array(library="np")))


@pytest.fixture(scope="module")
def nt(dimuon):
    return fb.open(dimuon)


def test_a_pickle_holds_the_url_not_the_data(nt):
    data = pickle.dumps(nt)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert again.num_entries == nt.num_entries
    assert same(again.arrays("event"), nt.arrays("event"))


def test_a_pickle_keeps_the_options(dimuon):
    nt = fb.open(dimuon, threads=3, progress=False, verify_checksums=False)
    again = pickle.loads(pickle.dumps(nt))
    assert (again._default_threads, again._progress) == (3, False)
    assert again._reopen == {"verify_checksums": False, "memory_map": True}


def test_a_pickle_works_in_another_folder(dimuon, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(dimuon).parent)
    data = pickle.dumps(fb.open("dimuon.root:Events"))
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(data).num_entries == 12_000


def test_an_attribute_set_is_pickled_with_its_ntuple(testdata):
    attributes = fb.open(testdata / "rntuple" / "attributes.root").attributes["lumi"]
    again = pickle.loads(pickle.dumps(attributes))
    assert same(again.arrays(), attributes.arrays())


def test_a_field_is_pickled_with_its_path(nt):
    field = pickle.loads(pickle.dumps(nt["_collection0.Muon_pt"]))
    assert field.path == "_collection0.Muon_pt"
    assert field.typename == "float"


def test_fields_are_equal_if_they_are_the_same_of_one_ntuple(nt, dimuon):
    assert nt["run"] == nt["run"]
    assert len({nt["run"], nt["run"], nt["event"]}) == 2
    assert nt["run"] != fb.open(dimuon)["run"]


def test_another_process_reads_the_same(nt):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(_sum_of_run, [nt, nt])) == [_sum_of_run(nt)] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_reads_the_same(nt):
    expected = _sum_of_run(nt)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _sum_of_run(nt) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_many_threads_read_one_ntuple_at_once(dimuon):
    nt = fb.open(dimuon)
    names = ["Muon_pt", "Muon_eta", "nMuon", "run", "_collection0"] * 4
    expected = {name: nt[name].array() for name in set(names)}
    fresh = fb.open(dimuon)
    gate = threading.Barrier(len(names))

    def read(name):
        gate.wait()  # all at once, including the first access to the schema
        return name, fresh[name].array(threads=2), fresh.keys()

    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        results = list(pool.map(read, names))
    assert all(same(array, expected[name]) for name, array, _ in results)
    assert all(keys == nt.keys() for _, _, keys in results)


def test_iterations_of_one_ntuple_do_not_disturb_each_other(nt):
    first, second = nt.iterate("run", step_size=1000), nt.iterate("event", step_size=1000)
    for a, b in zip(first, second, strict=True):
        assert len(a) == len(b) == 1000


def test_the_number_of_threads_comes_from_the_call_the_variable_or_the_cores(monkeypatch):
    monkeypatch.delenv("FEMTOBARN_THREADS", raising=False)
    assert num_threads(None) >= 1
    monkeypatch.setenv("FEMTOBARN_THREADS", "3")
    assert num_threads(None) == 3
    assert num_threads(5) == 5
    for wrong in ("many", "0"):
        monkeypatch.setenv("FEMTOBARN_THREADS", wrong)
        with pytest.raises(fb.UsageError, match="FEMTOBARN_THREADS"):
            num_threads(None)
