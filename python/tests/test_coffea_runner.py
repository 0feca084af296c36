"""coffea's Runner and filesets on femtobarn."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from pathlib import Path
from uuid import UUID

import awkward as ak
import pytest

import femtobarn as fb

pytest.importorskip("coffea")

from coffea import processor
from coffea.dataset_tools import DataGroupSpec
from coffea.nanoevents import schemas
from coffea.processor import FuturesExecutor, IterativeExecutor
from coffea.processor.checkpointer import SimpleCheckpointer

from femtobarn._coffea.preprocess import steps_of
from femtobarn.coffea import FileCache, Runner, preprocess

# coffea and its schemas warn of much
pytestmark = pytest.mark.filterwarnings("ignore")

ITERATIVE = IterativeExecutor(status=False)


class Muons(processor.ProcessorABC):
    """Sums of muons, by dataset."""

    def process(self, events):
        about = events.metadata
        found = {"events": len(events), "pt": float(ak.sum(events.Muon_pt)), "n": int(ak.sum(events.nMuon))}
        return {about["dataset"]: found | {"chunks": [(about["entrystart"], about["entrystop"])]}}

    def postprocess(self, accumulator):
        return accumulator


@pytest.fixture
def expected(dimuon):
    events = fb.open(dimuon).arrays()
    return {"events": 12000, "n": int(ak.sum(events.nMuon)), "pt": float(ak.sum(events.Muon_pt))}


def check(found, expected, n_files=1):
    assert found["events"] == n_files * expected["events"]
    assert found["n"] == n_files * expected["n"]
    assert found["pt"] == pytest.approx(n_files * expected["pt"], rel=1e-4)


def runner(executor=ITERATIVE, **options):
    return Runner(executor, schema=schemas.BaseSchema, **{"metadata_cache": {}, **options})


@pytest.fixture
def copies(dimuon, tmp_path):
    """Three files. The second one is not a ROOT file."""
    paths = [tmp_path / f"{name}.root" for name in "abc"]
    for path in paths:
        shutil.copy(dimuon, path)
    paths[1].write_bytes(b"this is no ROOT file" * 100)
    return [str(path) for path in paths]


@pytest.mark.parametrize(
    "executor", [ITERATIVE, FuturesExecutor(workers=2, status=False)], ids=["iterative", "futures"]
)
def test_executors_of_coffea_process_every_event_once(dimuon, expected, executor):
    out = runner(executor, chunksize=5000)({"mu": {"files": {dimuon: "Events"}}}, Muons())
    check(out["mu"], expected)
    assert sorted(out["mu"]["chunks"]) == [(0, 6000), (6000, 12000)]


def test_dask_processes_every_event_once(dimuon, expected, need):
    distributed = need("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = processor.DaskExecutor(client=client, status=False)
        out = runner(executor, chunksize=3000)({"mu": {"files": {dimuon: "Events"}}}, Muons())
    check(out["mu"], expected)
    assert len(out["mu"]["chunks"]) == 4


@pytest.mark.oracle
def test_results_and_metrics_are_those_of_coffeas_runner(shared):
    fileset = {"dy": {"files": {str(shared / "ttree/nano_dy.root"): "Events"}, "metadata": {"year": 2018}}}

    def analysis(events):
        jets = events.Jet[events.Jet.pt > 20]
        assert events.metadata["year"] == 2018
        return {"n": int(ak.sum(ak.num(jets))), "mass": float(ak.sum(jets.mass)), "about": [dict(events.metadata)]}

    options = {"savemetrics": True, "chunksize": 15, "metadata_cache": {}}
    ours, metrics = Runner(ITERATIVE, **options)(fileset, analysis)
    theirs, expected = processor.Runner(ITERATIVE, **options)(fileset, analysis)
    assert ours == theirs
    assert set(metrics) == set(expected)
    for same in ("entries", "chunks"):
        assert metrics[same] == expected[same]
    assert set(metrics["columns"]) == set(expected["columns"])
    assert 0 < metrics["bytesread"] < 2e5


@pytest.mark.oracle
@pytest.mark.parametrize("align", [False, True])
def test_chunks_are_those_of_coffeas_runner(dimuon, shared, align):
    fileset = {"mu": {"files": {dimuon: "Events"}}, "hzz": {"files": {str(shared / "ttree/hzz_lz4.root"): "events"}}}
    options = {"chunksize": 4500, "align_clusters": align, "metadata_cache": {}}
    for more in ({}, {"maxchunks": 1}):
        ours = list(Runner(ITERATIVE, **options, **more).preprocess(fileset))
        theirs = list(processor.Runner(ITERATIVE, **options, **more).preprocess(fileset))
        assert ours == theirs


def test_all_spellings_of_filesets_are_taken(dimuon, expected, tmp_path):
    spellings = [
        {"mu": [dimuon]},
        {"mu": {"files": [dimuon], "treename": "Events"}},
        {"mu": {"files": {dimuon: "Events"}}},
        {"mu": {"files": {dimuon: {"object_path": "Events"}}, "metadata": {"year": 2012}}},
        {"mu": {"files": {dimuon: {"steps": None, "num_entries": None}}, "treename": "Events"}},
    ]
    for fileset in spellings:
        check(runner()(fileset, Muons(), treename="Events")["mu"], expected)
    (tmp_path / "fileset.json").write_text(json.dumps(spellings[2]))
    check(runner()(str(tmp_path / "fileset.json"), Muons())["mu"], expected)
    with pytest.raises(fb.UsageError, match="has no name of its ntuple"):
        runner()({"mu": {"files": {dimuon: {"steps": None}}}}, Muons())


def test_steps_of_a_preprocessed_fileset_are_the_chunks(dimuon, expected):
    available, _ = preprocess({"mu": {"files": {dimuon: "Events"}}}, step_size=4000)
    out = runner(chunksize=10)(available, Muons())
    check(out["mu"], expected)
    assert sorted(out["mu"]["chunks"]) == [(0, 4000), (4000, 8000), (8000, 12000)]
    available["mu"]["files"][dimuon]["steps"] = [[10, 20]]
    assert runner()(available, Muons())["mu"]["chunks"] == [(10, 20)]
    assert runner(maxchunks=1)(available, Muons())["mu"]["events"] == 10
    available["mu"]["files"][dimuon]["steps"] = [[10, 20], [11_000, 12_001]]
    with pytest.raises(Exception, match="has 12,000 entries, but a step of the fileset ends at 12,001"):
        runner()(available, Muons())


def test_a_group_of_preprocessed_datasets_is_processed(dimuon, expected):
    group = DataGroupSpec.model_validate({"mu": {"files": {dimuon: "Events"}, "metadata": {"year": 2012}}})
    found = preprocess(group, step_size=6000).available
    out = runner()(found, Muons())
    check(out["mu"], expected)
    assert len(out["mu"]["chunks"]) == 2


def test_parquet_is_left_to_coffea(dimuon, expected, tmp_path, need):
    need("pyarrow")
    fb.convert(f"{dimuon}:Events", tmp_path / "events.parquet")
    fileset = {"mu": {"files": {str(tmp_path / "events.parquet"): "Events"}}}
    check(runner(format="parquet")(fileset, Muons())["mu"], expected)


def test_bad_files_are_skipped_with_a_warning(copies, expected):
    fileset = {"mu": {"files": dict.fromkeys(copies, "Events")}}
    with pytest.warns(UserWarning, match="1 bad files are skipped"):
        check(runner(skipbadfiles=True)(fileset, Muons())["mu"], expected, 2)
    with pytest.raises(fb.FormatError, match=r"b\.root"):
        runner()(fileset, Muons())
    Path(copies[1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.root"):
        runner()(fileset, Muons())
    check(runner(skipbadfiles=(OSError,))(fileset, Muons())["mu"], expected, 2)
    with pytest.raises(FileNotFoundError):
        runner(skipbadfiles=(ValueError,))(fileset, Muons())


def test_files_that_become_bad_are_skipped_after_retries(copies, expected):
    """A file that is damaged after it was preprocessed is tried again, and then skipped."""
    shutil.copy(copies[0], copies[1])
    available, _ = preprocess({"mu": {"files": dict.fromkeys(copies, "Events")}})
    Path(copies[1]).write_bytes(b"gone" * 1000)
    run = runner(FuturesExecutor(workers=1, status=False, retries=1), skipbadfiles=True)
    check(run(available, Muons())["mu"], expected, 2)
    with pytest.raises(Exception, match="Failed to open file"):
        runner()(available, Muons())


def test_a_file_that_was_replaced_is_an_error(copies, testdata, tmp_path):
    available, _ = preprocess({"mu": {"files": {copies[0]: "Events"}}})
    fb.clone(f"{copies[0]}:Events", tmp_path / "new.root")
    shutil.move(tmp_path / "new.root", copies[0])
    with pytest.raises(Exception, match="has changed since the fileset was preprocessed"):
        runner()(available, Muons())


def test_a_missing_ntuple_is_coffeas_error(dimuon):
    from coffea.processor.executor import UprootMissTreeError

    with pytest.raises(UprootMissTreeError, match="Event"):
        runner()({"mu": {"files": {dimuon: "Evnts"}}}, Muons())


def test_errors_of_processors_name_the_chunk(dimuon):
    def broken(events):
        raise ZeroDivisionError("too bad")

    with pytest.raises(Exception, match=r"Failed processing file: WorkItem\(dataset='mu'.*too bad"):
        runner()({"mu": {"files": {dimuon: "Events"}}}, broken)
    with pytest.raises(ValueError, match="returned None"):
        runner()({"mu": {"files": {dimuon: "Events"}}}, lambda events: None)


def test_results_can_be_of_type_result(copies, expected):
    fileset = {"mu": {"files": {copies[0]: "Events"}}}
    options = {"use_result_type": True, "skipbadfiles": True}
    check(runner(**options)(fileset, Muons()).unwrap()["mu"], expected)
    assert not runner(**options)({"mu": {"files": {copies[1]: "Events"}}}, Muons()).is_ok()


def test_checkpoints_of_coffea_are_used(dimuon, expected, tmp_path):
    calls = []

    class Counting(Muons):
        def process(self, events):
            calls.append(len(events))
            return super().process(events)

    for _ in range(2):
        checkpointer = SimpleCheckpointer(str(tmp_path), verbose=False)
        run = runner(chunksize=6000, checkpointer=checkpointer, processor_compression=None)
        out = run({"mu": {"files": {dimuon: "Events"}}}, Counting())
        check(out["mu"], expected)
    assert calls == [6000, 6000]


def test_traced_columns_are_read_at_once(dimuon, expected):
    from coffea.nanoevents.trace import trace

    def muons(events):
        return {"events": len(events), "n": ak.sum(events.nMuon), "pt": ak.sum(events.Muon_pt)}

    fileset = {"mu": {"files": {dimuon: "Events"}}}
    (chunk,) = runner().preprocess(fileset, trace=trace, processor_instance=muons)
    assert chunk.preload == {"Muon_pt", "nMuon"}
    check(runner()(fileset, muons, trace=trace), expected)


def test_a_later_run_knows_the_files(dimuon, expected, tmp_path, monkeypatch):
    fileset, cache = {"mu": {"files": {dimuon: "Events"}}}, tmp_path / "files.sqlite"
    check(runner(cache=cache)(fileset, Muons())["mu"], expected)
    monkeypatch.setattr("femtobarn._coffea.preprocess.examine", lambda *_: pytest.fail("the file is opened again"))
    check(runner(cache=cache)(fileset, Muons())["mu"], expected)
    available, _ = preprocess(fileset, cache=cache)
    assert available["mu"]["files"][dimuon]["num_entries"] == 12000
    meta = next(iter(Runner._normalize_fileset(fileset, None)))
    kept = FileCache(cache)
    assert meta in kept
    assert kept[meta]["numentries"] == 12000
    del kept[meta]
    assert len(FileCache(cache)) == 0


def test_what_was_touched_is_kept_for_later_runs(dimuon, tmp_path):
    runner(record=tmp_path, chunksize=4000)({"mu": {"files": {dimuon: "Events"}}}, Muons())
    (file,) = tmp_path.glob("*.json")
    assert "Muon_pt" in file.read_text()


# -- preprocess --------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("options", [{}, {"step_size": 5000}, {"step_size": 4500, "align_clusters": True}], ids=str)
def test_filesets_are_those_that_coffea_makes(shared, options):
    from coffea.dataset_tools.preprocess import get_steps

    path = str(shared / "ttree/hzz_zlib.root")
    available, updated = preprocess({"hzz": {"files": {path: "events"}, "metadata": {"year": 1}}}, **options)
    assert available == updated
    given = {"file": path, "object_path": "events", "steps": None, "num_entries": None, "uuid": None}
    (theirs,) = get_steps(ak.Array([given]), **options).to_list()
    expected = {key: theirs[key] for key in ("object_path", "steps", "num_entries", "uuid")}
    assert available == {"hzz": {"files": {path: expected}, "metadata": {"year": 1}}}


@pytest.mark.oracle
@pytest.mark.parametrize("step_size", [None, 1, 7, 300, 1000, 1499, 1501, 9999])
def test_steps_are_divided_as_coffea_does(step_size):
    from femtobarn._coffea.file_cache import Known

    class Tree:
        num_entries = 3000

    for n_entries in (1, 10, 2999, 3000):
        steps = steps_of(Known(b"", n_entries), step_size, False)
        target = n_entries if step_size is None else step_size
        n_steps = max(round(n_entries / target), 1)
        size = -(-n_entries // n_steps)
        assert steps == [[at * size, min((at + 1) * size, n_entries)] for at in range(n_steps)]
    limits = (0, 1000, 1500, 1600, 2900, 3000)
    aligned = steps_of(Known(b"", 3000, limits), step_size, True)
    assert [start for start, _ in aligned][1:] == [stop for _, stop in aligned][:-1]
    assert (aligned[0][0], aligned[-1][1]) == (0, 3000)
    assert {limit for step in aligned for limit in step} <= set(limits)


def test_a_group_of_datasets_is_returned_as_one(dimuon):
    group = DataGroupSpec.model_validate({"mu": {"files": {dimuon: "Events"}}})
    found = preprocess(group, step_size=6000)
    assert isinstance(found.available, DataGroupSpec)
    assert found.available["mu"].files[dimuon].num_entries == 12000


def test_files_that_cannot_be_opened_are_reported(copies):
    fileset = {"mu": {"files": dict.fromkeys(copies, "Events")}}
    with pytest.warns(UserWarning, match="1 of 3 files are left out"):
        found = preprocess(fileset, skip_bad_files=True)
    assert list(found.errors) == [copies[1]]
    assert "not a ROOT file" in found.errors[copies[1]]
    assert list(found.available["mu"]["files"]) == [copies[0], copies[2]]
    left = {"object_path": "Events", "steps": None, "num_entries": None, "uuid": None}
    assert found.updated["mu"]["files"][copies[1]] == left
    with pytest.raises(fb.FormatError, match=r"b\.root"):
        preprocess(fileset)
    with pytest.raises(fb.FormatError):
        preprocess(fileset, skip_bad_files=True, file_exceptions=OSError)


def test_steps_are_kept_while_the_file_is_the_same(dimuon):
    first, _ = preprocess({"mu": {"files": {dimuon: "Events"}}}, step_size=6000)
    again, _ = preprocess(first, step_size=4000)
    assert again == first
    other, _ = preprocess(first, step_size=4000, recalculate_steps=True)
    assert len(other["mu"]["files"][dimuon]["steps"]) == 3
    first["mu"]["files"][dimuon]["uuid"] = str(UUID(int=1))
    changed, _ = preprocess(first, step_size=4000)
    assert changed == other


def test_invalid_filesets_are_explained(dimuon):
    with pytest.raises(fb.UsageError, match=r"dataset 'mu': .* has no name of its ntuple"):
        preprocess({"mu": [dimuon]})
    with pytest.raises(fb.UsageError, match="dataset 'mu': 'files' must be a dict of URLs or a list"):
        preprocess({"mu": {"files": dimuon}})
    with pytest.raises(fb.UsageError, match="step_size must be at least 1"):
        preprocess({"mu": {"files": {dimuon: "Events"}}}, step_size=0)


def test_a_cache_knows_a_hundred_thousand_files(tmp_path, monkeypatch, dimuon):
    from femtobarn._coffea.file_cache import Known

    urls = [f"root://server//store/file{at}.root" for at in range(100_000)]
    cache = FileCache(tmp_path / "files.sqlite")
    cache.add([(url, "Events", Known(at.to_bytes(16, "big"), at)) for at, url in enumerate(urls)])
    available, _ = preprocess({"all": {"files": dict.fromkeys(urls, "Events")}}, cache=tmp_path / "files.sqlite")
    files = available["all"]["files"]
    assert len(files) == 100_000
    assert files[urls[7]] == {"object_path": "Events", "steps": [[0, 7]], "num_entries": 7, "uuid": str(UUID(int=7))}


def test_a_cache_opens_files_again_that_have_changed(copies, dimuon, tmp_path):
    path, cache = copies[0], tmp_path / "files.sqlite"
    fileset = {"mu": {"files": {path: "Events"}}}
    first, _ = preprocess(fileset, cache=cache)
    fb.clone(f"{path}:Events", tmp_path / "part.root", entries=(0, 100))
    shutil.move(tmp_path / "part.root", path)
    second, _ = preprocess(fileset, cache=cache)
    assert second["mu"]["files"][path]["num_entries"] == 100
    assert first["mu"]["files"][path]["uuid"] != second["mu"]["files"][path]["uuid"]


def test_a_cache_learns_clusters_when_they_are_needed(dimuon, tmp_path):
    cache = tmp_path / "files.sqlite"
    fileset = {"mu": {"files": {dimuon: "Events"}}}
    preprocess(fileset, cache=cache)
    aligned, _ = preprocess(fileset, step_size=4500, align_clusters=True, cache=cache)
    assert aligned["mu"]["files"][dimuon]["steps"] == [[0, 8000], [8000, 12000]]
    preprocess(fileset, cache=cache)
    assert FileCache(cache).find(dimuon, "Events", clusters=True).clusters == (0, 4000, 8000, 12000)


def test_a_cache_that_is_something_else_is_an_error(tmp_path):
    (tmp_path / "files.sqlite").write_text("this is a text, and not a database of SQLite" * 10)
    with pytest.raises(fb.FileError, match=r"cannot use .*files.sqlite as a cache of files: .*; use another path"):
        FileCache(tmp_path / "files.sqlite")
    with pytest.raises(fb.FileError, match="check its directory"):
        FileCache(tmp_path / "missing" / "files.sqlite")


def test_a_cache_survives_several_writers(tmp_path):
    from femtobarn._coffea.file_cache import Known

    caches = [FileCache(tmp_path / "files.sqlite") for _ in range(4)]

    def write(at):
        for n in range(20):
            caches[at].add([(f"root://server//{at}-{n}.root", "Events", Known(bytes(16), n))])

    threads = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(FileCache(tmp_path / "files.sqlite")) == 80
    with sqlite3.connect(tmp_path / "files.sqlite") as database:
        assert database.execute("SELECT COUNT(*) FROM files").fetchone() == (80,)
