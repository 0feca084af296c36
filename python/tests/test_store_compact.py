"""Compacting a store in a directory."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import femtobarn as fb

EVENTS = 2000
PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


def fill(url: str, **options: object) -> None:
    with fb.DataStore.connect(url, **options) as store:  # type: ignore[arg-type]
        for name in ("kept", "gone"):
            dataset = store.create_dataset(name)
            with store.write_batch() as batch:
                values = np.arange(EVENTS * 25, dtype="i4").reshape(EVENTS, 25)
                batch.store_arrays(dataset, {"v": values}, run=1, subrun=1, event=np.arange(EVENTS))
        store.root.delete_dataset("gone")


def check(url: str) -> None:
    with fb.DataStore.connect(url, mode="r") as store:
        assert [dataset.name for dataset in store] == ["kept"]
        values = store["kept"].arrays("v")
        assert values.to_numpy().tolist() == np.arange(EVENTS * 25).reshape(EVENTS, 25).tolist()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *args], capture_output=True, text=True)


def test_the_room_of_what_was_deleted_is_given_back(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    fill(url)
    size = (tmp_path / "store/data.mdb").stat().st_size
    before, after = fb.DataStore.compact(url)
    assert before == size
    assert after == (tmp_path / "store/data.mdb").stat().st_size
    assert after < 0.6 * before
    check(url)
    # It is a store like any other, and verify finds all of its data.
    with fb.DataStore.connect(url) as store:
        store["kept"].create_run(2).store("more", 7)
    found = run("store", "verify", url)
    assert (found.returncode, "no damage" in found.stdout) == (0, True), found
    told = run("store", "compact", url)
    assert told.returncode == 0, told
    assert "before" in told.stdout


def test_a_store_that_is_open_is_left_alone(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    fill(url)
    for mode in ("r", "a"):
        with fb.DataStore.connect(url, mode=mode):
            with pytest.raises(fb.FemtobarnError):
                fb.DataStore.compact(url)
            told = run("store", "compact", url)
            assert told.returncode != 0
            assert "process" in told.stderr, told
        check(url)
    with pytest.raises(fb.UsageError):
        fb.DataStore.compact("memory:")
    with pytest.raises(fb.KeyNotFoundError):
        fb.DataStore.compact(f"dir:{tmp_path / 'none'}")
    fb.DataStore.compact(url)


def test_large_products_are_still_its_own(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    fill(url, objects=tmp_path / "large", objects_over=1000)
    with fb.DataStore.connect(url) as store:
        store["kept"].create_run(2).store("large", bytes(5000))
    fb.DataStore.compact(url)
    check(url)
    with fb.DataStore.connect(url) as store:
        assert store["kept"][2].load("large") == bytes(5000)
        store["kept"][2].store("another", bytes(6000))
        assert store.sweep_objects(age=0).used == 2


def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"
    fill(url)
    script = f"import femtobarn as fb\nprint(flush=True)\nwhile True: fb.DataStore.compact({url!r})"
    drawn = random.Random(1)
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(drawn.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        check(url)
    fb.DataStore.compact(url)
    assert not (tmp_path / "store/compacting").exists()
    check(url)


def test_a_full_disk_is_an_error_and_the_store_stays(tmp_path: Path) -> None:
    """LMDB mapped a lock file without blocks on the disk, and the process ended with SIGBUS."""
    script = f"""
mount -t tmpfs -o size=2m none {tmp_path} || exit 77
{sys.executable} -c "
import femtobarn as fb, os, sys
with fb.DataStore.connect('dir:{tmp_path}/st') as store:
    store.create_dataset('a').create_run(1).store('x', 1)
with open('{tmp_path}/fill', 'wb', 0) as fill:
    try:
        while True:
            fill.write(bytes(4096))
    except OSError:
        pass
try:
    fb.DataStore.compact('dir:{tmp_path}/st')
    sys.exit('no error')
except fb.FileError as error:
    assert error.kind == 'store-full', error
assert 'compacting' not in os.listdir('{tmp_path}/st')
with fb.DataStore.connect('dir:{tmp_path}/st', mode='r') as store:
    assert store['a'][1].load('x') == 1
os.remove('{tmp_path}/fill')
fb.DataStore.compact('dir:{tmp_path}/st')
"
"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
