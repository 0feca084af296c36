"""Filesets: datasets with their files and metadata, in `iterate` and `process`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import itertools
import operator
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from executors import executor_of

import femtobarn as fb
from femtobarn._files.bad_files import BadFiles
from femtobarn._files.queries import conditions
from femtobarn._processing.entries import FilesetWork

N = 12_000
STEPS = [[0, 3000], [5000, 7000]]


@pytest.fixture
def fileset(dimuon: str) -> dict[str, Any]:
    described = {"object_path": "Events", "steps": STEPS, "num_entries": N, "uuid": str(fb.open(dimuon).uuid)}
    return {
        "zmumu": {"files": {dimuon: described}, "metadata": {"xsec": 2.5}},
        "ttbar": [f"{dimuon}:Events"],
    }


@pytest.fixture(params=["threads", "processes", "pool", "futures", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return an executor of each kind."""
    with executor_of(request.param) as executor:
        yield executor


def process(source: Any, function: Any, **options: Any) -> fb.ProcessResult:
    workers = {} if isinstance(options.get("executor"), fb.Pool) else {"workers": 2}
    return fb.process(
        source, function, **{"by": "batch", "preload": ["nMuon"], "progress": False, **workers, **options}
    )


def origin(batch: fb.EntryBatch) -> list[Any]:
    return [(batch.dataset, dict(batch.metadata), batch.file, batch.entry_start, batch.entry_stop, len(batch))]


def muons(batch: fb.EntryBatch) -> int:
    return int(ak.sum(batch.nMuon))


def pid(batch: fb.EntryBatch) -> set[int]:
    return {os.getpid()}


@pytest.mark.filterwarnings("ignore")
def test_batches_know_their_dataset_metadata_file_and_entries(
    fileset: dict[str, Any], dimuon: str, executor: Any
) -> None:
    result = process(fileset, origin, executor=executor, reduce=operator.add, by_dataset=True, output_batch_size=2500)
    file = dimuon
    assert result.value == {
        "zmumu": [("zmumu", {"xsec": 2.5}, file, a, b, b - a) for a, b in ((0, 2500), (2500, 3000), (5000, 7000))],
        "ttbar": [("ttbar", {}, file, a, min(a + 2500, N), min(2500, N - a)) for a in range(0, N, 2500)],
    }
    assert result.n_events == N + 5000
    for batch, (dataset, _, _, start, stop, _) in zip(
        fb.iterate(fileset, ["nMuon"], step_size=2500), [*result.value["zmumu"], *result.value["ttbar"]], strict=True
    ):
        assert (batch.dataset, batch.entry_start, batch.entry_stop) == (dataset, start, stop)


@pytest.mark.filterwarnings("ignore")
def test_each_dataset_has_the_sum_that_uproot_has(fileset: dict[str, Any], dimuon: str, executor: Any) -> None:
    with uproot.open(dimuon) as file:
        expected = file["Events"].arrays(["nMuon"], library="ak").nMuon
    in_steps = sum(int(ak.sum(expected[start:stop])) for start, stop in STEPS)
    result = process(fileset, muons, executor=executor, reduce=operator.add, by_dataset=True)
    assert result.value == {"zmumu": in_steps, "ttbar": int(ak.sum(expected))}
    assert process(fileset, muons, executor=executor, reduce=operator.add).value == in_steps + int(ak.sum(expected))


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("by", ["event", "batch"])
def test_events_and_virtual_arrays_of_filesets_are_processed_alike(
    fileset: dict[str, Any], by: str, virtual: bool
) -> None:
    function = muons if by == "batch" else operator.itemgetter("nMuon")
    preload = () if virtual else ["nMuon"]
    result = process(fileset, function, by=by, virtual=virtual, preload=preload, reduce=operator.add, by_dataset=True)
    assert {name: int(value) for name, value in result.value.items()} == {"zmumu": 9557, "ttbar": 23007}


@pytest.mark.parametrize("library", ["np", "arrow", "pd", "pl"])
def test_reports_know_the_origin_of_batches_of_other_libraries(fileset: dict[str, Any], library: str) -> None:
    steps = list(fb.iterate(fileset, ["nMuon"], step_size=6000, library=library, report=True))
    found = [(one.dataset, dict(one.metadata), one.tree_entry_start, one.tree_entry_stop) for _, one in steps]
    first, second = ("zmumu", {"xsec": 2.5}), ("ttbar", {})
    assert found == [(*first, 0, 3000), (*first, 5000, 7000), (*second, 0, 6000), (*second, 6000, N)]


def test_processed_batches_of_other_libraries_are_of_their_type(fileset: dict[str, Any]) -> None:
    kind = process(fileset, lambda batch: [type(batch).__name__], library="pd", reduce=operator.add)
    assert set(kind.value) == {"DataFrame"}
    with pytest.raises(fb.UsageError, match=r"library='np' is for batches of entries of files: add by='batch'"):
        process(fileset, len, by="event", library="np")


def test_slices_and_pickles_of_batches_keep_their_origin(fileset: dict[str, Any]) -> None:
    batch = next(iter(fb.iterate(fileset, ["nMuon", "Muon_pt"])))
    whole = origin(batch)[0][:-1]
    for part in (batch[batch.nMuon >= 2], batch[:10], batch[np.arange(5)], pickle.loads(pickle.dumps(batch))):
        assert isinstance(part, fb.EntryBatch)
        assert origin(part)[0][:-1] == whole
    assert batch.Muon_pt.attrs["dataset"] == (batch.Muon_pt * 2).attrs["dataset"] == "zmumu"
    batch["twice"] = batch.nMuon * 2
    assert isinstance(batch, fb.EntryBatch)
    assert batch.fields == ["nMuon", "Muon_pt", "twice"]


def test_descriptions_of_coffea_are_filesets(fileset: dict[str, Any], dimuon: str) -> None:
    filespec = pytest.importorskip("coffea.dataset_tools.filespec")
    files = {dimuon: {"object_path": "Events", "steps": STEPS, "num_entries": N, "uuid": str(fb.open(dimuon).uuid)}}
    spec = filespec.DataGroupSpec({"zmumu": {"files": files, "metadata": {"xsec": 2.5}, "format": "root"}})
    expected = process({"zmumu": fileset["zmumu"]}, origin, reduce=operator.add).value
    assert process(spec, origin, reduce=operator.add).value == expected
    assert process(spec.model_dump(), origin, reduce=operator.add).value == expected


def test_files_of_a_dataset_are_lists_dicts_patterns_or_open_ntuples(dimuon: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.root").symlink_to(dimuon)
    a, b = str(tmp_path / "a.root"), str(tmp_path / "b.root")
    for files in (
        [a, b],
        [f"{a}:Events", Path(b)],
        f"{tmp_path}/*.root",
        {f"{tmp_path}/*.root": "Events"},
        {a: "Events", b: None},
        {a: {"object_path": "Events"}, b: {}},
        [fb.open(a), b],
        [fb.open([a, b])],
    ):
        value = process({"d": {"files": files, "treename": "Events"}}, origin, reduce=operator.add).value
        assert [(one[0], Path(one[2]).name) for one in value if one[3] == 0] == [("d", "a.root"), ("d", "b.root")]
    steps = {a: {"object_path": "Events", "steps": [[5, 7]]}, b: "Events"}
    assert [one[:5] for one in process(steps, origin, reduce=operator.add).value][:1] == [(None, {}, a, 5, 7)]
    for given in (a, [a], f"{tmp_path}/a*.root:Events", {a: "Events"}, {a: fb.open(a)}, Path(a)):
        value = process(given, origin, reduce=operator.add).value
        assert {(one[0], one[2]) for one in value} == {(None, a)}
    known: Any
    for known in ({"num_entries": 0}, {"steps": []}, {"uuid": "a"}):
        with pytest.raises(fb.UsageError, match=r"belong to one file, but it matches 2 files"):
            process({"d": {"files": {f"{tmp_path}/*.root": {"object_path": "Events", **known}}}}, len)


def test_wrong_filesets_are_told(dimuon: str) -> None:
    file = dimuon
    for given, told in (
        ({"d": {"files": [file], "metdata": {}}}, r"dataset 'd': unknown key 'metdata'; did you mean 'metadata'\?"),
        ({"d": {"files": {file: {"object_pat": "a"}}}}, r"unknown key 'object_pat'; did you mean 'object_path'\?"),
        ({"d": {"files": []}}, r"dataset 'd' has no files"),
        ({"d": {"files": [file], "metadata": 3}}, r"metadata must be a dict, not 3"),
        ({1: [file]}, r"the name of a dataset must be a string, not 1"),
        ({"d": {"files": {file: {"steps": [[5, 3]]}}}}, r"steps must be in order and not overlap"),
        ({"d": {"files": {file: {"steps": [[0, 3], [2, 5]]}}}}, r"steps must be in order and not overlap"),
        ({"d": {"files": {file: {"steps": [3]}}}}, r"a step must be a pair .*, not 3"),
        ({"d": {"files": {file: {"num_entries": -1}}}}, r"must be counted by integers from 0, not -1"),
        ({"d": {"files": {file: {"format": "parquet"}}}}, r"has the format 'parquet': only ROOT files"),
        ([], r"no files given"),
    ):
        with pytest.raises(fb.UsageError, match=told):
            process(given, len)
    with pytest.raises(fb.UsageError, match=r"by_dataset needs a fileset"):
        process([file], len, by_dataset=True)
    with pytest.raises(fb.UsageError, match=r"skip_bad_files is for files that process opens, not for an open ntuple"):
        process(fb.open(file), len, skip_bad_files=True)
    with pytest.raises(fb.UsageError, match=r"fb\.concatenate reads whole files"):
        fb.concatenate({"d": {"files": {file: {"steps": STEPS}}}})


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_files_that_changed_since_the_fileset_was_made_are_told(dimuon: str, executor: str) -> None:
    given = {"d": {"files": {dimuon: {"object_path": "Events", "num_entries": 100}}}}
    with pytest.raises(fb.FemtobarnError, match=r"has 12,000 entries, but the fileset has 100 entries: make the"):
        process(given, len, executor=executor)
    for known in ({}, {"num_entries": N}):
        given = {"d": {"files": {dimuon: {"object_path": "Events", "uuid": "0" * 32, **known}}}}
        with pytest.raises(fb.FemtobarnError, match=r"has the UUID .*, but the fileset has 0000"):
            process(given, len, executor=executor)
    for known in ({}, {"num_entries": N}):
        given = {"d": {"files": {dimuon: {"object_path": "Events", "steps": [[0, 20_000]], **known}}}}
        with pytest.raises(fb.FileError, match=r"has 12,000 entries, but the fileset has steps up to entry 20,000"):
            list(fb.iterate(given, ["nMuon"]))
        with pytest.raises(fb.FemtobarnError, match=r"but the fileset has steps up to entry 20,000"):
            process(given, len, executor=executor)


# -- bad files ----------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(dimuon: str, tmp_path: Path) -> list[str]:
    """Return good and bad files."""
    content = Path(dimuon).read_bytes()
    (tmp_path / "cut.root").write_bytes(content[:100_000])
    (tmp_path / "text.root").write_text("no")
    return [dimuon, *(str(tmp_path / f"{name}.root") for name in ("cut", "text", "missing")), dimuon]


KINDS = ["truncated-file", "not-a-root-file", "file-not-found"]


def read_all(how: str, files: list[str], bad: list[fb.BadFile]) -> int:
    if how == "open":
        return fb.open(files, skip_bad_files=bad).num_entries
    if how == "concatenate":
        return len(fb.concatenate(files, ["nMuon"], skip_bad_files=bad))
    if how == "iterate":
        return sum(map(len, fb.iterate(files, ["nMuon"], skip_bad_files=bad)))
    result = process(files, len, reduce=operator.add, executor=how, skip_bad_files=bad)
    assert result.bad_files is bad
    assert "3 files left out" in repr(result)
    return int(result.value)


@pytest.mark.parametrize("how", ["open", "concatenate", "iterate", "threads", "processes"])
def test_bad_files_are_left_out_with_a_warning_and_a_report(mixed: list[str], how: str) -> None:
    bad: list[fb.BadFile] = []
    with pytest.warns(fb.UnreadableWarning) as warned:
        assert read_all(how, mixed, bad) == 2 * N
    assert [(one.file, one.kind) for one in bad] == list(zip(mixed[1:4], KINDS, strict=True))
    assert [str(one.message).split(" is left out: ")[0] for one in warned] == mixed[1:4]
    assert all(one.filename == __file__ for one in warned)
    with pytest.raises(fb.FemtobarnError, match=r"cut\.root is truncated"):
        read_all(how, mixed, False)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["open", "concatenate", "iterate", "threads", "processes"])
@pytest.mark.filterwarnings("ignore::femtobarn.UnreadableWarning")
def test_files_that_are_all_bad_are_an_error(mixed: list[str], how: str) -> None:
    with pytest.raises(fb.FemtobarnError, match=r"cut\.root is truncated"):
        read_all(how, mixed[1:4], [])


def test_bad_files_are_not_merged(mixed: list[str], testdata: Path, tmp_path: Path) -> None:
    bad: list[fb.BadFile] = []
    histograms = str(testdata / "histograms.root")  # without an ntuple
    with pytest.warns(fb.UnreadableWarning, match="is left out"):
        report = fb.merge([*mixed, histograms], tmp_path / "all.root", others="drop", skip_bad_files=bad)
    assert report.entries == {"Events": 2 * N}
    assert [one.kind for one in bad] == KINDS
    with pytest.warns(fb.UnreadableWarning), pytest.raises(fb.FileError, match="no file is left, as all were left out"):
        fb.merge(mixed[1:4], tmp_path / "none.root", skip_bad_files=True)
    with pytest.raises(fb.FemtobarnError, match=r"cut\.root is truncated"):
        fb.merge(mixed, tmp_path / "none.root", others="drop")


@pytest.mark.filterwarnings("ignore::femtobarn.UnreadableWarning")
def test_wrong_names_of_fields_are_no_bad_files(dimuon: str) -> None:
    with pytest.raises(fb.KeyNotFoundError, match="nMoun"):
        list(fb.iterate([dimuon, dimuon], ["nMoun"], skip_bad_files=True))
    with pytest.raises(fb.UsageError, match=r"skip_bad_files must be True, False or a list"):
        list(fb.iterate([dimuon], ["nMuon"], skip_bad_files="yes"))  # type: ignore[arg-type]


def damaged_file(path: Path) -> Path:
    """Write a file of 1000 entries with a damaged page."""
    fb.write(path, {"x": (np.arange(1000) % 251).astype(np.uint8)}, compression=None)
    content = bytearray(path.read_bytes())
    content[content.index(bytes(range(100))) + 10] ^= 1
    path.write_bytes(content)
    return path


def test_the_rest_of_a_file_that_is_damaged_within_is_left_out(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.root", damaged_file(tmp_path / "bad.root")
    fb.write(good, {"x": np.zeros(1000, np.uint8)}, compression=None)
    found: list[fb.BadFile] = []
    with pytest.warns(fb.UnreadableWarning, match=r"bad\.root is left out: "):
        steps = [len(step) for step in fb.iterate([good, bad, good], step_size=300, skip_bad_files=found)]
    assert steps == [300, 300, 300, 100] * 2
    assert [(one.file, one.entry_start) for one in found] == [(str(bad), 0)]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_on_error_skip_loses_the_batch_that_failed_and_nothing_more(tmp_path: Path, executor: str) -> None:
    paths = [tmp_path / f"{n}.root" for n in range(4)]
    for path in paths:
        fb.write(path, {"x": np.zeros(1000, np.uint8)}, compression=None)
    damaged_file(paths[1])
    given = {"d": [str(path) for path in paths]}
    result = process(
        given, len, preload=["x"], executor=executor, on_error="skip", reduce=operator.add, output_batch_size=1000
    )
    assert result.value == 3000
    assert [one.where for one in result.failures] == [f"entries 0 to 999 of {paths[1]} of dataset 'd'"]
    with pytest.raises(fb.ProcessError, match=r"loading failed for entries 0 to 999 of .*1\.root of dataset 'd'"):
        process(given, len, preload=["x"], executor=executor, output_batch_size=1000)


def fields_of(batch: fb.EntryBatch) -> set[tuple[str | None, str]]:
    return {(batch.dataset, name) for name in batch.fields}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_filters_read_fields_where_files_have_them(tmp_path: Path, executor: str) -> None:
    fb.write(tmp_path / "data.root", {"x": np.arange(10.0), "y": np.arange(10)}, name="Events")
    fb.write(tmp_path / "mc.root", {"x": np.arange(10.0), "genWeight": np.ones(10)}, name="Events")
    files = {name: [str(tmp_path / f"{name}.root")] for name in ("data", "mc")}
    result = process(files, fields_of, reduce=operator.or_, filter_name=["x", "gen*"], executor=executor, preload=())
    assert result.value == {("data", "x"), ("mc", "x"), ("mc", "genWeight")}
    with pytest.raises(fb.UsageError, match="filter_name is for ntuples and files"):
        fb.process(fb.DataStore.connect("memory:").root.create_dataset("a"), len, filter_name="x")


# -- tasks and workers --------------------------------------------------------------------------------------


def work_of(files: Any) -> FilesetWork:
    work = FilesetWork(files, (("nMuon",), None), conditions(None, None), None, "ak", {}, BadFiles(False))
    work.batch_size("batch", 2, False)
    return work


def test_tasks_name_a_file_and_a_range_never_the_list() -> None:
    described = {"object_path": "Events", "num_entries": 200_000}
    base = "root://eospublic.cern.ch//eos/cms/store/mc/RunIISummer20UL18NanoAODv9/TTJets/NANOAODSIM"
    work = work_of({"tt": {"files": {f"{base}/{n}.root": described for n in range(10_000)}, "metadata": {"a": 1}}})
    pieces = list(work.pieces((None, 1), 0, None, loads=False))  # of files that nobody opens
    assert sum(piece.n for piece in pieces) == 200_000 * 10_000
    assert max(len(pickle.dumps(piece)) for piece in pieces) < 600
    assert len(pickle.dumps(work)) < 1000


@pytest.mark.parametrize(("by", "most"), [("event", 16_384), ("batch", 100_000)])
def test_pieces_are_equal_parts_that_are_not_too_large(by: str, most: int) -> None:
    described = {"object_path": "Events", "num_entries": 230_000}
    for n_files in (1, 1000):
        work = work_of({"tt": {"files": {f"{n}.root": described for n in range(n_files)}}})
        work.batch_size(by, 2, False)
        sizes = {piece.n for piece in itertools.islice(work.pieces((None, 1), 0, None, loads=False), 100)}
        assert max(sizes) <= (min(most, 57_500) if n_files == 1 else most)
        assert max(sizes) - min(sizes) < 20


def test_batches_of_other_processes_end_with_clusters_that_fit_into_them(dimuon: str) -> None:
    many = [dimuon] * 10  # 12,000 entries each, in clusters of 4000; a share is 30,000
    for source in ({"d": many}, fb.open(dimuon)):
        stops = process(source, stop_of, executor="processes").value
        if isinstance(source, dict):
            assert set(stops) == {12_000}
        else:
            assert stops == [3000, 6000, 9000, 12_000]  # a share is smaller than a cluster
    work = work_of([dimuon] * 3)
    work.batch_size("batch", 2, False)
    assert [piece.n for piece in work.pieces((None, 1), 0, None, loads=False)] == [8000, 4000] * 3


def stop_of(batch: fb.EntryBatch) -> int:
    return batch.entry_stop


def n_mapped(directory: Path) -> int:
    maps = Path("/proc/self/maps").read_text()
    files = [line for line in maps.splitlines() if str(directory) in line]
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it
            files += [name for name in [os.readlink(fd)] if str(directory) in name]  # noqa: PTH115
    return len(files)


def test_files_are_closed_after_they_were_read(dimuon: str, tmp_path: Path) -> None:
    content = Path(dimuon).read_bytes()
    for n in range(200):
        (tmp_path / f"{n}.root").write_bytes(content)
    most: list[int] = []
    count = functools.partial(_count, most, tmp_path)
    process(f"{tmp_path}/*.root:Events", count, reduce=operator.add)
    assert 0 < max(most) < 120
    assert (
        process(
            f"{tmp_path}/*.root:Events",
            functools.partial(_mapped, tmp_path),
            executor="processes",
            workers=1,
            reduce=max,
        ).value
        < 60
    )


def _count(most: list[int], directory: Path, batch: Any) -> int:
    most.append(n_mapped(directory))
    return len(batch)


def _mapped(directory: Path, batch: Any) -> int:
    return n_mapped(directory)


def test_work_goes_once_to_each_process_of_an_executor(
    fileset: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        submit = pool.submit

        def counted(function: Any, *args: Any) -> Any:
            sent.append(len(args[1]))
            return submit(function, *args)

        monkeypatch.setattr(pool, "submit", counted)
        many = {str(n): fileset["ttbar"] for n in range(20)}
        result = process(many, origin, executor=pool, reduce=operator.add, output_batch_size=1000)
        assert result.n_events == 20 * N
        assert 2 <= sum(size > 0 for size in sent) <= 8  # those that begin before the work has come ask for it
        assert len(sent) >= 240


def test_a_pool_keeps_its_processes_for_other_calls(fileset: dict[str, Any], dimuon: str) -> None:
    with fb.Pool("processes", workers=2) as pool:
        assert repr(pool) == "<Pool 'processes', workers=2>"
        pids = [process(fileset, pid, executor=pool, output_batch_size=500, reduce=set.union).value for _ in range(3)]
        assert pids[0] == pids[1] == pids[2]
        assert len(pids[0]) == 2
        with pytest.raises(fb.ProcessError, match="ZeroDivisionError"):
            process(fileset, divides, executor=pool)
        assert process(fileset, muons, executor=pool, reduce=operator.add).value == 9557 + 23007
        assert process(fb.open(dimuon), muons, executor=pool, reduce=operator.add).value == 23007
        with pytest.raises(fb.UsageError, match=r"workers is an argument of the Pool"):
            process(fileset, muons, executor=pool, workers=3)
    with pytest.raises(fb.UsageError, match=r"the pool is closed"):
        process(fileset, muons, executor=pool)


def divides(batch: Any) -> float:
    return 1 / 0


def dies(directory: Path, batch: fb.EntryBatch) -> set[int]:
    mark = directory / f"{batch.dataset}"
    if batch.entry_start == 5000 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {os.getpid()}


def test_a_pool_replaces_processes_that_die(fileset: dict[str, Any], tmp_path: Path) -> None:
    with fb.Pool("processes", workers=2) as pool:
        options: dict[str, Any] = {"executor": pool, "output_batch_size": 500}
        function = functools.partial(dies, tmp_path)
        result = process(fileset, function, **options)
        assert result.n_events == N + 5000
        assert len(result.value) == 34
        assert 3 <= len(set.union(*result.value)) <= 4
        os.kill(min(set.union(*process(fileset, pid, **options).value)), signal.SIGKILL)
        assert process(fileset, muons, reduce=operator.add, **options).value == 9557 + 23007


def fails_at_5000(directory: Path, batch: fb.EntryBatch) -> list[Any]:
    with (directory / "calls").open("a") as calls:
        calls.write(f"{batch.dataset} {batch.entry_start}\n")
    if batch.dataset == "ttbar" and batch.entry_start >= 5000 and not (directory / "now").exists():
        raise ValueError("not yet")
    return origin(batch)


def test_a_checkpoint_of_a_fileset_continues_where_it_ended(fileset: dict[str, Any], tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "check",
        "workers": 1,
        "reduce": operator.add,
        "by_dataset": True,
    }
    work = functools.partial(fails_at_5000, tmp_path)
    with pytest.raises(fb.ProcessError, match="not yet"):
        process(fileset, work, **options)
    before = (tmp_path / "calls").read_text().splitlines()
    failed = next(at for at, call in enumerate(before) if call.startswith("ttbar") and int(call.split()[1]) >= 5000)
    done = set(before[: failed - 1])  # the last batch before may have come with the error
    assert {"zmumu 0", "zmumu 5000"} <= done
    (tmp_path / "calls").unlink()
    (tmp_path / "now").touch()
    value = process(fileset, work, **options).value
    assert [(one[3], one[4]) for one in value["zmumu"]] == [(0, 3000), (5000, 7000)]
    assert sum(one[5] for one in value["ttbar"]) == N
    assert [one[3] for one in value["ttbar"]][1:] == [one[4] for one in value["ttbar"]][:-1]
    assert not done & set((tmp_path / "calls").read_text().splitlines())


RANKS = """
import operator, sys
import femtobarn as fb
sys.path.insert(0, sys.argv[1])
import test_filesets

fileset = {"a": {"files": {sys.argv[2]: "Events"}, "metadata": {"x": 1}}, "b": [sys.argv[2]]}
with fb.Pool("mpi") as pool:
    for _ in range(2):
        result = fb.process(fileset, test_filesets.origin, preload=["nMuon"], by="batch", by_dataset=True,
                            reduce=operator.add, executor=pool, output_batch_size=5000, progress=False)
        assert [one[3:5] for one in result.value["b"]] == [(0, 5000), (5000, 10000), (10000, 12000)]
        assert result.value["a"][0][:2] == ("a", {"x": 1})
print("done")
"""


def test_ranks_of_mpi_process_filesets(dimuon: str, tmp_path: Path, need_program: Any) -> None:
    pytest.importorskip("mpi4py")
    script = tmp_path / "script.py"
    script.write_text(RANKS)
    need_program("mpirun")
    run = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py", str(script)]
    done = subprocess.run(
        [*run, str(Path(__file__).parent), dimuon], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.count("done") == 3, done.stderr  # lines of ranks can mix


def test_batches_are_written_and_stored_like_other_arrays(dimuon: str, tmp_path: Path) -> None:
    """They are of another class than Awkward's."""
    batches = [batch[batch.nMuon >= 2] for batch in fb.iterate(dimuon, ["nMuon", "Muon_pt"], step_size=5000)]
    with fb.recreate(tmp_path / "two.root") as file:
        writer = file.mkrntuple("Events", batches[0])
        for batch in batches:
            writer.extend(batch)
    events = fb.open(dimuon).arrays(["nMuon", "Muon_pt"])
    assert ak.array_equal(fb.open(tmp_path / "two.root").arrays(), events[events.nMuon >= 2])
    run = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(1)
    run.store("muons", batches[0])
    assert ak.array_equal(run.load("muons").Muon_pt, batches[0].Muon_pt)
