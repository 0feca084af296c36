"""Arrays whose columns are read when they are touched: the same values, few round trips."""

from __future__ import annotations

import json
import operator
import pickle
import shutil
import subprocess
import sys
import threading
from contextlib import closing

import awkward as ak
import numpy as np
import pytest
import servers
from compare import same

import femtobarn as fb
from femtobarn._processing.work import Lazy
from femtobarn._shared.caller import calling_function, name_of


def log_of(nt):
    """Return the only log."""
    (log,) = nt.access_log
    return log


def mean_pt(events):
    """Touch two columns."""
    return float(ak.sum(events.Muon_pt)), int(ak.sum(events.nMuon))


def n_virtual(array):
    """Return how many buffers of an array have not been read."""
    _, _, container = ak.to_buffers(array)
    return sum(not getattr(buffer, "is_materialized", True) for buffer in container.values())


@pytest.fixture
def all_files(testdata):
    return [*sorted((testdata / "rntuple").glob("*.root")), *sorted((testdata / "ttree").glob("*.root"))]


def test_all_types_are_those_of_a_read(all_files):
    n = 0
    for path in all_files:
        try:
            nt = fb.open(path)
            expected = nt.arrays()
        except (fb.FemtobarnError, fb.UnreadableWarning):
            continue
        for part in (slice(None), slice(nt.num_entries // 3, nt.num_entries // 2 + 1)):
            found = nt.arrays(virtual=True, entry_start=part.start, entry_stop=part.stop)
            assert found.type == expected[part].type, path
            for name in expected.fields:
                assert same(found[name], expected[name][part]), (path, name)
                n += 1
    assert n > 500


def test_columns_are_made_when_they_are_accessed(testdata):
    """Of a wide ntuple most columns are never touched."""
    events = fb.open(testdata / "dimuon.root").arrays(virtual=True)
    contents = events.layout._contents

    def n_made():
        return sum(list.__getitem__(contents, at) is not None for at in range(len(contents)))

    assert n_made() == 0
    _ = events.nMuon, events[events.nMuon > 1].Muon_pt
    assert n_made() == 2
    assert [str(content.form.type) for content in contents] == [
        str(events[name].type.content) for name in events.fields
    ]
    assert contents[-1] is contents[len(contents) - 1]
    assert contents[1:3] == [contents[1], contents[2]]
    assert n_made() == len(contents)


def test_nothing_is_read_until_it_is_touched(testdata):
    nt = fb.open(testdata / "dimuon.root")
    before = nt.metrics.bytes_needed
    events = nt.arrays(virtual=True)
    assert len(events) == 12000
    assert "Muon_pt" in events.fields
    assert nt.metrics.bytes_needed == before
    expected = fb.open(testdata / "dimuon.root").arrays(["Muon_pt", "nMuon"])
    assert same(events.Muon_pt, expected.Muon_pt)
    after = nt.metrics.bytes_needed
    assert after > before
    assert same(events.nMuon, expected.nMuon)
    assert nt.metrics.bytes_needed == after, "a small step is fetched at once"


def test_slices_masks_and_zips_are_as_of_other_arrays(testdata):
    nt = fb.open(testdata / "dimuon.root")
    events, expected = nt.arrays(virtual=True), nt.arrays()
    assert same(events[10:100:3].Muon_eta, expected[10:100:3].Muon_eta)
    assert same(events[events.nMuon >= 2].Muon_pt, expected[expected.nMuon >= 2].Muon_pt)
    muons, known = (ak.zip({"pt": e.Muon_pt, "phi": e.Muon_phi}) for e in (events, expected))
    assert same(muons[muons.pt > 30], known[known.pt > 30])
    assert same(events[7], expected[7])
    first = next(iter(events))
    assert first.nMuon == expected.nMuon[0]


def test_iterating_over_entries_reads_only_what_they_touch(testdata):
    nt = fb.open(testdata / "dimuon.root")
    events = nt.arrays(virtual=True, entry_stop=200)
    total = sum(event.nMuon for event in events)
    assert total == ak.sum(nt.arrays(["nMuon"], entry_stop=200).nMuon)
    assert n_virtual(events) > 0


def test_a_pickle_has_the_values(testdata):
    nt = fb.open(testdata / "dimuon.root")
    events = nt.arrays(["nMuon", "Muon_pt"], virtual=True, entry_stop=50)
    packed = pickle.dumps(events)
    assert same(pickle.loads(packed), nt.arrays(["nMuon", "Muon_pt"], entry_stop=50))


def test_several_files_are_one_array(testdata):
    path = f"{testdata / 'dimuon.root'}:Events"
    nt = fb.open([path, path])
    events = nt.arrays(["Muon_pt"], virtual=True, entry_start=11_000, entry_stop=14_000)
    assert same(events, nt.arrays(["Muon_pt"], entry_start=11_000, entry_stop=14_000))
    both = fb.concatenate([path, path], ["nMuon"], virtual=True)
    assert same(both, fb.concatenate([path, path], ["nMuon"]))


@pytest.mark.parametrize("step_size", [4000, 1700, "1 kB", "100 MB"])
def test_steps_are_those_of_other_arrays(testdata, step_size):
    nt = fb.open(testdata / "dimuon.root")
    expected = nt.arrays()
    stop = 0
    for events, report in nt.iterate(virtual=True, step_size=step_size, report=True):
        assert report.start == stop
        stop = report.stop
        assert same(events.Muon_pt, expected.Muon_pt[report.start : stop])
        assert same(events.event, expected.event[report.start : stop])
    assert stop == 12_000
    log = log_of(nt)
    assert log.main == ("_collection0.Muon_pt", "_collection0[]", "event")
    assert log.triggered == ()


def test_memory_of_steps_is_that_of_the_touched_columns(testdata):
    """A step has whole clusters, so that one fetch is enough."""
    nt = fb.open(testdata / "dimuon.root")
    sizes = []
    for _ in range(2):
        for events in nt.iterate(virtual=True, step_size="60 kB"):
            _ = events.event + 1
            sizes.append(len(events))
    assert sizes == [4000, 4000, 4000, 4000, 4000, 4000]
    sizes.clear()
    for events in nt.iterate(virtual=True, step_size="64 kB"):
        _ = events.event + 1
        sizes.append(len(events))
    assert sizes == [8000, 4000]


def test_functions_learn_by_themselves(testdata):
    def of(name):
        nt = fb.open(testdata / "dimuon.root")
        for events in nt.iterate(virtual=True, step_size=4000):
            _ = events[name] + 1
        return log_of(nt)

    def of_run():
        nt = fb.open(testdata / "dimuon.root")
        for events in nt.iterate(virtual=True, step_size=4000):
            _ = events.run + 1
        return log_of(nt)

    first, second = of("event"), of_run()
    assert first.main == ("event",)
    assert second.main == ("run",)
    assert first.function != second.function
    assert first.function.endswith("of")
    assert "test_virtual" in first.function
    assert first.to_dict()["main"] == ["event"]


def test_iterating_over_files_uses_one_record(testdata):
    path = f"{testdata / 'dimuon.root'}:Events"
    nts = [fb.open(path) for _ in range(3)]
    total = 0
    for events in fb.iterate(nts, virtual=True):
        total += int(ak.sum(events.nMuon))
    assert total == 3 * int(ak.sum(nts[0].arrays(["nMuon"]).nMuon))
    logs = [log_of(nt) for nt in nts]
    assert logs[0] == logs[2]
    assert (logs[0].steps, logs[0].fetches) == (3, 3)


@pytest.fixture
def served(tmp_path, need_program):
    """The URL of a file on a server, which is not read whole when it is opened."""
    need_program("xrootd")
    path = tmp_path / "wide.root"
    random = np.random.default_rng(1)
    numbers = {"event": random.integers(1 << 40, size=12_000), "run": random.integers(1 << 20, size=12_000)}
    with fb.recreate(path) as file:
        file["Events"] = numbers | {f"c{i}": random.random(12_000, dtype="f4") for i in range(20)}
    with closing(servers.Xrootd()) as server:
        server.put("wide.root", path.read_bytes())
        yield f"{server.url}/wide.root"


def test_what_is_fetched_and_not_used_is_counted(served):
    nt = fb.open(served)
    for events in nt.iterate(virtual=True, step_size=4000):
        _ = events.event + 1
    log = log_of(nt)
    # the first step is small and fetched at once; later ones fetch what it touched
    assert 0 < log.bytes_unused < log.bytes_fetched
    assert log.fetches == 3
    assert "1 column at once" in repr(log)


def test_of_local_files_only_what_is_touched_is_read(testdata):
    nt = fb.open(testdata / "dimuon.root")
    for events in nt.iterate(virtual=True, step_size=4000):
        _ = events.event + 1
    assert log_of(nt).bytes_unused == 0


def test_without_a_record_each_touch_reads_one_column(served):
    nt = fb.open(served)
    for events in nt.iterate(virtual=True, record=False, step_size=4000):
        _ = events.event + events.run
    log = log_of(nt)
    assert (log.fetches, log.bytes_unused, log.main) == (6, 0, ())
    with pytest.raises(fb.UsageError, match="record=True: give a directory"):
        nt.arrays(virtual=True, record=True)


def test_a_directory_keeps_the_record_for_the_next_run(served, tmp_path):
    program = (
        "import sys, femtobarn as fb\n"
        "def run(nt):\n"
        "    for events in nt.iterate(virtual=True, step_size=4000, record=sys.argv[2]):\n"
        "        events.event + events.run\n"
        "nt = fb.open(sys.argv[1])\n"
        "run(nt)\n"
        "log, = nt.access_log\n"
        "print(log.learned_steps, log.steps, log.bytes_unused, *log.main)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)
    ask = [sys.executable, str(script), served, str(tmp_path / "records")]
    run = [subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert run[0][1] == run[1][1] == "3"
    assert run[0][3:] == run[1][3:] == ["event", "run"]
    assert int(run[0][2]) > 0
    assert int(run[1][2]) == 0, "the second run begins with what the first one has learned"
    (file,) = (tmp_path / "records").iterdir()
    known = json.loads(file.read_text())
    assert known["function"].endswith("script.py:run")
    assert set(known["columns"]) == {"event", "run"}


def test_threads_share_an_array(testdata):
    nt = fb.open(testdata / "dimuon.root")
    expected = nt.arrays()
    events = nt.arrays(virtual=True)
    failed = []

    def touch(number):
        names = np.random.default_rng(number).permutation(expected.fields)
        failed.extend(name for name in names if not same(events[name], expected[name]))

    threads = [threading.Thread(target=touch, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_other_results_cannot_be_virtual(testdata):
    nt = fb.open(testdata / "dimuon.root")
    for options in ({"library": "np"}, {"library": "pd"}, {"how": "zip"}):
        with pytest.raises(fb.UsageError, match=r"virtual|ak\.zip"):
            nt.arrays(virtual=True, **options)
        with pytest.raises(fb.UsageError, match=r"virtual|ak\.zip"):
            list(nt.iterate(virtual=True, **options))
    with pytest.raises(fb.UsageError, match="virtual=True"):
        nt.arrays(record="x")
    with pytest.raises(fb.UsageError, match="iterate"):
        nt["nMuon"].array(virtual=True)
    with pytest.raises(fb.UsageError, match="cut"):
        nt.arrays(cut="nMuon > 1", virtual=True)
    assert sorted(nt.arrays(["run", "event"], virtual=True, how=dict)) == ["event", "run"]


def test_damage_concerns_only_who_touches_it(testdata, tmp_path):
    path = tmp_path / "damaged.root"
    data = bytearray((testdata / "dimuon.root").read_bytes())
    nt = fb.open(testdata / "dimuon.root")
    before = len(nt.metrics.sources[0].spans)
    nt.arrays(["event"])
    start, stop = nt.metrics.sources[0].spans[before].ranges[0]
    data[(start + stop) // 2] ^= 0xFF
    path.write_bytes(data)
    damaged = fb.open(path).arrays(virtual=True)
    assert same(damaged.Muon_pt, nt.arrays(["Muon_pt"]).Muon_pt)
    with pytest.raises(fb.ChecksumError):
        _ = damaged.event + 1


def flagged(events):
    """Touch a column, by batch and by event."""
    return int(ak.count(events.x, axis=None)) if isinstance(events, ak.Array) else int(events.x >= 0)


@pytest.mark.parametrize("by", ["batch", "event"])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_of_a_step_with_a_damaged_page_only_its_events_are_lost(by, executor, tmp_path):
    """All events of the step were."""
    path = tmp_path / "damaged.root"
    with fb.recreate(path) as file:
        writer = file.mkrntuple("Events", {"x": "float32"})
        for _ in range(12):
            writer.extend({"x": np.random.default_rng(1).random(200, dtype="f4")})
            writer.commit_cluster()
    nt = fb.open(path, memory_map=False)
    before = len(nt.metrics.sources[0].spans)
    nt.arrays(["x"], entry_start=1000, entry_stop=1001)
    start, stop = nt.metrics.sources[0].spans[before].ranges[0]
    data = bytearray(path.read_bytes())
    data[(start + stop) // 2] ^= 0xFF
    path.write_bytes(data)
    options = {"by": by, "executor": executor, "workers": 2, "reduce": operator.add, "output_batch_size": 100}
    result = fb.process(fb.open(path), flagged, virtual=True, on_error="skip", **options)
    assert result.value == result.n_events == 2200
    assert sum(failure.n_events for failure in result.failures) == 200


def test_what_a_cache_has_is_touched_without_the_server(testdata, tmp_path, need_program):
    """Columns were fetched that might be touched with it."""
    need_program("nginx")
    with closing(servers.Nginx()) as server:
        path = tmp_path / "wide.root"
        with fb.recreate(path) as file:
            file["Events"] = {f"c{i}": np.random.default_rng(i).random(100_000, dtype="f4") for i in range(20)}
        server.put("wide.root", path.read_bytes())
        url = f"{server.url}/wide.root:Events"

        def read(**options):
            nt = fb.open(url, cache=tmp_path / "cache")
            _ = [nt.arrays(**options)[name] + 1 for name in ("c3", "c7")]
            return nt.metrics.bytes_read

        assert read(expressions=["c3", "c7"]) > 500_000
        assert read(virtual=True) == 0


@pytest.mark.parametrize("by", ["batch", "event"])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_process_reads_what_the_function_touches(testdata, by, executor, tmp_path):
    nt = fb.open(testdata / "dimuon.root")
    options = {"by": by, "executor": executor, "workers": 2, "reduce": operator.add, "output_batch_size": 1000}
    function = summed if by == "batch" else n_muons
    result = fb.process(nt, function, virtual=True, record=tmp_path / "records", **options)
    assert result.value == int(ak.sum(nt.arrays(["nMuon"]).nMuon))
    assert result.n_events == 12_000
    (file,) = (tmp_path / "records").iterdir()
    known = json.loads(file.read_text())
    assert list(known["columns"]) == ["_collection0[]"]
    assert known["function"].endswith(function.__name__)
    # the log is of this process
    assert [log.main for log in nt.access_log] == ([("_collection0[]",)] if executor == "threads" else [])


def test_threads_that_share_a_step_fetch_its_columns_once(testdata):
    """Each batch fetched the pages that it shares with others."""

    def bytes_of(read):
        nt = fb.open(testdata / "dimuon.root", memory_map=False)
        before = nt.metrics.bytes_read
        value = read(nt)
        return nt.metrics.bytes_read - before, value

    options = {"by": "batch", "reduce": operator.add, "output_batch_size": 500, "workers": 4}
    wanted, events = bytes_of(lambda nt: nt.arrays(["Muon_pt"]))
    found, result = bytes_of(
        lambda nt: fb.process(nt, lambda events: int(ak.count(events.Muon_pt)), virtual=True, record=False, **options)
    )
    assert result.value == ak.count(events.Muon_pt)
    assert found <= 1.1 * wanted


def total(events):
    return float(ak.sum(events.x)) + float(ak.sum(events.y))


@pytest.mark.parametrize("kind", [{"virtual": True}, {"preload": ["x", "y"]}])
@pytest.mark.parametrize(("executor", "workers"), [("threads", 4), ("processes", 1)])
def test_pieces_fetch_pages_once_that_are_longer_than_a_piece(kind, executor, workers, tmp_path, monkeypatch):
    """Each piece fetched all of its pages."""
    path, trace = tmp_path / "long.root", tmp_path / "trace.csv"
    values = np.random.default_rng(1).random(400_000, dtype="f4")
    with fb.recreate(path) as file:
        file["Events"] = {"x": values[:100_000], "y": ak.unflatten(values[100_000:], 3)}
    size = path.stat().st_size
    monkeypatch.setenv("FEMTOBARN_RECORD", str(trace))
    options = {"by": "batch", "reduce": operator.add, "input_batch_size": 5000, "output_batch_size": 5000}
    result = fb.process(fb.open(path), total, executor=executor, workers=workers, **options, **kind)
    assert result.value == pytest.approx(values.sum(dtype="f8"))
    # each process reads the ends of the file when it opens it; pieces that begin at the same time may both fetch a page
    assert fb.replay(trace, play=False).read["bytes"] < 2 * size


def summed(events):
    return int(ak.sum(events.nMuon))


def n_muons(event):
    return int(event.nMuon)


def test_process_of_a_store_is_not_virtual():
    with fb.DataStore.connect("memory:") as store:
        dataset = store.create_dataset("x")
        with pytest.raises(fb.UsageError, match="ntuple"):
            fb.process(dataset, len, virtual=True)


def test_functions_of_scripts_are_named_without_directories_and_processes():
    for module, path, name in (
        ("__main__", "/jobs/1/ana.py", "ana.py:loop"),
        ("__mp_main__", "/jobs/2/ana.py", "ana.py:loop"),
        ("__main__", "/run/ipykernel_100/3141.py", "3141.py:loop"),
        ("ana", "/jobs/1/ana.py", "ana:loop"),
    ):
        names: dict = {"__name__": module}
        exec(compile("def loop(): pass", path, "exec"), names)
        assert name_of(module, names["loop"].__code__) == name
        assert Lazy.of(names["loop"], None).function == name


def test_the_calling_function_is_that_outside_of_the_package():
    assert calling_function().endswith("test_the_calling_function_is_that_outside_of_the_package")


AGC = [
    *("Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d"),
    *("Muon_pt", "Muon_eta", "Muon_tightId", "Muon_sip3d", "Muon_pfRelIso04_all"),
    *("Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2", "Jet_jetId"),
]


@pytest.fixture(scope="module")
def nanoaod(shared, tmp_path_factory):
    """The same 1479 columns as a tree and as an ntuple."""
    tree = shared / "ttree/nanoaod_v5_1000.root"
    ntuple = tmp_path_factory.mktemp("nanoaod") / "ntuple.root"
    fb.convert(f"{tree}:Events", ntuple)
    return {"TTree": tree, "RNTuple": ntuple}


def n_rounds(spans):
    """Return how many vector reads follow each other; those that overlap in time are one round trip."""
    rounds, end = 0, 0.0
    for span in sorted(spans, key=lambda span: span.start):
        rounds += span.start >= end
        end = max(end, span.start + span.seconds)
    return rounds


@pytest.mark.parametrize("kind", ["xrootd", "nginx"])
@pytest.mark.parametrize("form", ["TTree", "RNTuple"])
def test_a_later_step_takes_one_round_trip_to_a_server(kind, form, nanoaod, need_program, tmp_path):
    need_program(kind)
    server = servers.Xrootd() if kind == "xrootd" else servers.Nginx()
    try:
        shutil.copy(nanoaod[form], server.data / "nano.root")
        servers.own(server.data)
        expected = fb.open(f"{nanoaod[form]}:Events").arrays(AGC)

        def run():
            nt = fb.open(f"{server.url}/nano.root:Events")
            _ = nt.clusters  # page lists
            before = len(nt.metrics.sources[0].spans)
            events = nt.arrays(virtual=True, record=tmp_path)
            for one in AGC:
                assert same(events[one], expected[one])
            return nt.metrics.sources[0].spans[before:]

        first, second = run(), run()
        # the counters of a tree are a vector read of their own
        assert n_rounds(second) <= (1 if form == "RNTuple" else 2)
        assert n_rounds(first) <= 3
        assert sum(span.num_bytes for span in second) < sum(span.num_bytes for span in first) / 5
    finally:
        server.close()
