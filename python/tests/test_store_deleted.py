"""Iterations over data that another process deletes meanwhile end with an error, not silently with a part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import femtobarn as fb

_DELETES = """
import sys, femtobarn as fb
root = fb.DataStore.connect(sys.argv[1]).root
match sys.argv[2]:
    case "dataset":
        root.delete_dataset("gone")
    case "run":
        root["gone"][9].delete()
    case "subrun":
        root["gone"][1][0].delete()
"""


def make(url: str) -> None:
    """Store 20,008 events; one request fetches the keys of a part of them."""
    with fb.DataStore.connect(url) as store:
        dataset = store.root.create_dataset("gone")
        with store.write_batch() as batch:
            for run in range(1, 10):
                n = 20_000 if run == 1 else 1
                batch.store_arrays(dataset, {"n": range(n)}, run=run, subrun=0, event=range(n))


def deletes(url: str, what: str = "dataset") -> None:
    """Delete the dataset, its last run or its first subrun, as another process."""
    subprocess.run([sys.executable, "-c", _DELETES, url, what], check=True, timeout=120)


def place(kind: str, folder: Path, redis: Any) -> str:
    return f"dir:{folder / 's'}" if kind == "dir" else f"redis://127.0.0.1:{redis()}?prefix=gone-{folder.name}:"


def deletes_at_5(event: Any) -> int:
    if event.dataset.path == "gone" and (event.run.number, event.number) == (1, 5):
        deletes(os.environ["GONE"], os.environ.get("GONE_WHAT", "dataset"))
    return 1


@pytest.mark.parametrize("what", ["dataset", "run", "subrun"])
@pytest.mark.parametrize("kind", ["dir", "redis"])
def test_a_pass_over_what_another_process_deletes_is_an_error(kind: str, what: str, tmp_path: Path, redis: Any) -> None:
    url = place(kind, tmp_path, redis)

    def by_process(dataset: Any, **options: Any) -> None:
        def once(event: Any) -> int:
            if event.number == 5:
                deletes(url, what)
            return 1

        fb.process(dataset, once, progress=False, **options)

    def by_each(dataset: Any, given: Any) -> None:
        for n, _ in enumerate(given(dataset)):
            if n == 5:
                deletes(url, what)

    passes: list[Any] = [
        lambda dataset: by_process(dataset, executor="threads", workers=1),
        lambda dataset: by_process(dataset, preload=["n"], on_error="skip", workers=2),
        lambda dataset: by_each(dataset, lambda dataset: dataset.events()),
        lambda dataset: by_each(dataset, lambda dataset: dataset.datastore.prefetcher(["n"], batch_size=100)(dataset)),
        lambda dataset: by_each(
            dataset, lambda dataset: (event for run in dataset.runs() for subrun in run for event in subrun)
        ),
    ]
    if what != "run":
        passes.append(lambda dataset: by_each(dataset, lambda dataset: dataset[1][0]))
    for one in passes:
        make(url)
        with fb.DataStore.connect(url, mode="r") as store, pytest.raises(fb.KeyNotFoundError):
            one(store.root["gone"])


@pytest.mark.parametrize("what", ["dataset", "run"])
@pytest.mark.parametrize("kind", ["dir", "redis"])
def test_processes_that_work_on_what_is_deleted_are_an_error(
    kind: str, what: str, tmp_path: Path, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GONE_WHAT", what)
    for n, options in enumerate([{}, {"preload": ["n"], "on_error": "skip"}, {"preload": ["n"], "on_error": "retry"}]):
        # who deletes may live longer than the process that it was started by
        folder = tmp_path / f"{tmp_path.name}-{n}"
        folder.mkdir()
        url = place(kind, folder, redis)
        monkeypatch.setenv("GONE", url)
        make(url)
        with fb.DataStore.connect(url, mode="r") as store, pytest.raises((KeyError, fb.ProcessError)) as raised:
            fb.process(store.root["gone"], deletes_at_5, executor="processes", workers=2, progress=False, **options)
        assert "it was deleted" in str(raised.value)


_MPI = """
import json, sys
import femtobarn as fb
import test_store_deleted
from mpi4py import MPI
options = json.loads(sys.argv[2])
with fb.DataStore.connect(sys.argv[1], mode="r") as store:
    dataset = store["gone"]
    MPI.COMM_WORLD.barrier()
    try:
        result = fb.process(dataset, test_store_deleted.deletes_at_5, executor="mpi", progress=False, **options)
        sys.stdout.write(f"ended with {result.n_events}\\n")
    except Exception as error:
        sys.stdout.write(f"rank {MPI.COMM_WORLD.rank}: {type(error).__name__}: {error}\\n")
        raise
"""


@pytest.mark.parametrize(
    ("kind", "ranks", "runner"), [("dir", 1, []), ("dir", 3, []), ("redis", 3, []), ("redis", 3, ["-m", "mpi4py"])]
)
def test_ranks_of_mpi_end_with_an_error(
    kind: str, ranks: int, runner: list[str], tmp_path: Path, redis: Any, need_program: Any
) -> None:
    need_program("mpirun")
    url = place(kind, tmp_path, redis)
    script = tmp_path / "script.py"
    script.write_text(_MPI)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    for options in ("{}", '{"preload": ["n"], "on_error": "skip"}'):
        make(url)
        command = [*mpirun, sys.executable, *runner, str(script), url, options]
        said = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "GONE": url},
            timeout=120,
            check=False,
        )
        assert said.returncode != 0, said.stdout
        assert "ended with" not in said.stdout
        told = said.stdout.count("it was deleted")
        assert told >= 1 if runner else told == ranks, said.stdout + said.stderr  # mpi4py ends the others
