"""A Redis store is restored from a copy of its files, and from exported files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers
from stored import everything

import femtobarn as fb


@pytest.fixture
def redis(need_program: Any) -> Iterator[Any]:
    """A real Redis."""
    need_program("redis-server")
    started: Any = servers.KINDS["redis"]()
    yield started
    started.close()


def fill(store: fb.DataStore) -> fb.DataSet:
    """Store products of several kinds, of events and of their parents."""
    dataset = store.root.create_dataset("fermilab/nova")
    dataset.store("made by", "a test")
    with store.write_batch() as batch:
        for run in (1, 2):
            for subrun in (1, 2):
                some = {"pt": [[0.5 * run], [], [1.5, 2.5]], "n": np.arange(3, dtype="i4"), "name": ["a", "b", ""]}
                batch.store_arrays(dataset, some, run=run, subrun=subrun, event=[7, 8, 9])
    dataset[1][2].store("luminosity", 12.5)
    dataset[2][1][8].store("object", {"a": [1, 2]})
    return dataset


def url(server: Any, prefix: str = "nova:") -> str:
    return f"redis://127.0.0.1:{server.about()['port']}/?prefix={prefix}"


def fb_command(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("fb")), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_of_an_ended_server_are_a_copy(redis: Any) -> None:
    store = fb.DataStore.connect(url(redis))
    expected = everything(fill(store))
    store.flush()
    redis.kill()
    folder = Path(redis.about()["data"][0])
    backup = folder.with_name("backup")
    shutil.copytree(folder, backup)
    redis.start_server(0)
    store = fb.DataStore.connect(url(redis))
    store["fermilab/nova"].store("made by", "another, after the copy")
    assert everything(store["fermilab/nova"]) != expected
    store["fermilab"].delete()
    store.close()
    # restored
    redis.kill()
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    redis.start_server(0)
    assert everything(fb.DataStore.connect(url(redis), mode="r")["fermilab/nova"]) == expected


def test_export_and_ingest_make_the_same_store_elsewhere(redis: Any, tmp_path: Path) -> None:
    expected = everything(fill(fb.DataStore.connect(url(redis))))
    fb_command("export", url(redis), "--dataset", "fermilab/nova", tmp_path / "nova.root")
    again = f"dir:{tmp_path / 'store'}"
    for place in (url(redis, "again:"), again):
        fb_command("ingest", tmp_path / "nova.root", "--into", place, "--dataset", "fermilab/nova")
        found = fb.DataStore.connect(place, mode="r")["fermilab/nova"]
        assert len([product for product in found.products() if product.label.startswith("ingested/")]) == 1
        assert everything(found) == expected
