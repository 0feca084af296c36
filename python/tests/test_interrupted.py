"""Background work that waits for servers ends when it is no longer needed, and nothing joins it."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import femtobarn as fb

# Iterates over a local file and files of a silent server, or reads all, and stops early.
PROGRAM = """
import os, signal, sys, threading, time
import femtobarn as fb
doing, *files = sys.argv[1:]
start = time.monotonic()
if doing in ("waiting", "concatenate"):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    if doing == "concatenate":
        fb.concatenate(files, ["x"])
    for batch in fb.iterate(files, ["x"]):
        assert len(batch) == 1000
        if doing == "break":
            break
        if doing == "error":
            raise ValueError
        if doing == "left":
            sys.exit()
except (KeyboardInterrupt, ValueError) as error:
    print(type(error).__name__)
print(time.monotonic() - start < 5)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "a.root"
    fb.write(path, {"x": np.arange(1000.0)}, name="Events")
    return path


@pytest.fixture
def silent():
    """Return the port of a server that accepts connections and stays silent."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    "url", ["root://127.0.0.1:{}//b.root", "http://127.0.0.1:{}/b.root", "simplecache::http://127.0.0.1:{}/b.root"]
)
@pytest.mark.parametrize(
    ("doing", "said"),
    [
        ("waiting", "KeyboardInterrupt\nTrue"),
        ("concatenate", "KeyboardInterrupt\nTrue"),
        ("break", "True"),
        ("error", "ValueError\nTrue"),
        ("left", ""),
    ],
)
def test_nothing_waits_for_a_file_that_is_opened_ahead(small, silent, need, url, doing, said):
    """Its opening was joined: the process waited until the server's timeout."""
    if url.startswith("simplecache"):
        need("aiohttp")
    files = [f"{small}:Events", *[f"{url.format(silent)}:Events"] * 3]
    command = [sys.executable, "-c", PROGRAM, doing, *files]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert (done.stdout.strip(), done.stderr, done.returncode) == (said, "", 0)
    assert time.monotonic() - start < 20


# Compressing its pages takes more than half a minute.
WRITES = """
import os, signal, sys, threading, time
import numpy as np
import femtobarn as fb
x = np.random.default_rng(1).integers(0, 1000, (40, 1_000_000)).astype("i4")
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    fb.write(sys.argv[1], {f"x{i}": x[i] for i in range(40)}, compression="lzma:9")
except KeyboardInterrupt:
    print("KeyboardInterrupt", time.monotonic() - start < 10)
"""


def test_writing_that_is_interrupted_ends_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", WRITES, tmp_path / "a.root"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (done.stdout, done.stderr, list(tmp_path.iterdir())) == ("KeyboardInterrupt True\n", "", [])


def test_a_file_that_is_missing_is_told_at_once(small, silent):
    """This holds while others wait for a silent server."""
    files = [f"http://127.0.0.1:{silent}/b.root", f"{small}x"]
    start = time.monotonic()
    with pytest.raises(fb.NotFoundError):
        fb.open(files)
    assert time.monotonic() - start < 5


def test_a_pickled_ntuple_insists_on_its_files(small, tmp_path):
    """It returned entries of another file that had got the name."""
    path = tmp_path / "a.root"
    path.write_bytes(small.read_bytes())
    pickled = pickle.dumps(fb.open(path))
    assert pickle.loads(pickled).num_entries == 1000
    fb.write(path, {"x": np.arange(1000.0) + 1})
    with pytest.raises(fb.FileError) as raised:
        pickle.loads(pickled)
    assert raised.value.kind == "file-changed"
    # another file of the same size, whose name contains "root" like XRootD's scheme
    pickled = pickle.dumps(fb.open(path))
    os.utime(path, (1, 1))
    with pytest.raises(fb.FileError):
        pickle.loads(pickled)


def test_a_list_with_a_file_that_lacks_the_ntuple_is_told_how_to_skip_it(small, tmp_path):
    other = tmp_path / "b.root"
    fb.write(other, {"x": [1.0]}, name="Other")
    files = [f"{small}:Events", f"{other}:Events"]
    for read in (fb.open, fb.concatenate, lambda files: list(fb.iterate(files))):
        with pytest.raises(fb.KeyNotFoundError, match="allow_missing=True"):
            read(files)
    with pytest.raises(fb.KeyNotFoundError) as raised:
        fb.open(files[1])
    assert "allow_missing" not in str(raised.value)
