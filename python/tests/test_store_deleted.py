"""Passes over what another process deletes meanwhile end with an error, not with a part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import femtobarn as fb

_DELETES = """
import sys, femtobarn as fb
fb.DataStore.connect(sys.argv[1]).root.delete_dataset("gone")
"""


@pytest.mark.parametrize("kind", ["dir", "redis"])
def test_a_pass_over_a_dataset_that_another_process_deletes_is_an_error(kind: str, tmp_path: Path, redis: Any) -> None:
    url = f"dir:{tmp_path / 's'}" if kind == "dir" else f"redis://127.0.0.1:{redis()}?prefix=gone-{tmp_path.name}:"

    def deletes() -> None:
        subprocess.run([sys.executable, "-c", _DELETES, url], check=True, timeout=120)

    def by_process(dataset: Any, **options: Any) -> None:
        def once(event: Any) -> int:
            if event.number == 5:
                deletes()
            return 1

        fb.process(dataset, once, progress=False, **options)

    def by_each(dataset: Any, given: Any) -> None:
        for n, _ in enumerate(given(dataset)):
            if n == 5:
                deletes()

    passes: list[Any] = [
        lambda dataset: by_process(dataset, executor="threads", workers=1),
        lambda dataset: by_process(dataset, preload=["n"], on_error="skip", workers=2),
        lambda dataset: by_each(dataset, lambda dataset: dataset.events()),
        lambda dataset: by_each(dataset, lambda dataset: dataset.datastore.prefetcher(["n"], batch_size=100)(dataset)),
        lambda dataset: by_each(dataset, lambda dataset: dataset[1][0]),
        lambda dataset: by_each(
            dataset, lambda dataset: (event for run in dataset.runs() for subrun in run for event in subrun)
        ),
    ]
    for one in passes:
        with fb.DataStore.connect(url) as store:
            dataset = store.root.create_dataset("gone")
            with store.write_batch() as batch:
                for run in range(1, 10):
                    n = 20_000 if run == 1 else 1
                    batch.store_arrays(dataset, {"n": range(n)}, run=run, subrun=0, event=range(n))
        with fb.DataStore.connect(url, mode="r") as store, pytest.raises(KeyError, match="it was deleted"):
            one(store.root["gone"])
