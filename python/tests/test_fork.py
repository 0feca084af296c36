"""Event stores that were opened before a fork: the child process neither hangs nor writes anything twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = """
import gc, os, signal, sys
import numpy as np
import femtobarn as fb

store = fb.DataStore.connect(sys.argv[1])
dataset = store.root.create_dataset("a")
first = dataset.create_run(100).create_subrun(1)
for n in range(9):
    first.create_event(n)
run = dataset.create_run(100)
batches = [store.write_batch(), store.async_write_batch()]
for n, batch in enumerate(batches):
    batch.store_arrays(dataset, {"x": np.arange(50)}, run=n, subrun=1, event=np.arange(50))
store.create_queue("q", int)
queue = store.open_queue("q", int, mode="producer")
ahead = iter(store.prefetcher(batch_size=2, ahead=1)(dataset))
next(ahead)

def told(call):
    try:
        call()
    except fb.UsageError as error:
        assert "before" in str(error) and "forked" in str(error), error
    else:
        raise AssertionError("no error")

def use():
    for batch in batches:
        told(batch.flush)
        told(lambda: run.store("y", 1, batch=batch))
        told(lambda: len(batch))
        batch.close()
    told(lambda: queue.push(1))
    told(lambda: list(ahead))
    queue.close()
    if not sys.argv[1].startswith("redis"):  # whose connections are made anew
        told(dataset.numbers)
        told(lambda: dataset.create_run(7))
    store.close()

def connect():
    with fb.DataStore.connect(sys.argv[1], mode="r" if sys.argv[1].startswith("dir") else "a") as again:
        again.root.datasets()

CHILDREN = {
    "use": use,
    "connect": connect,
    "close": store.close,
    "exit": lambda: None,
}

pid = os.fork()
if pid == 0:
    signal.alarm(60)  # kills the process if it hangs
    CHILDREN[sys.argv[2]]()
    if sys.argv[2] == "exit":
        del store, dataset, first, run, batches, batch, queue, ahead, CHILDREN, use, connect
        gc.collect()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert dataset.numbers() == [100]  # nobody has written what is in the batches
queue.push(5)
for batch in batches:
    batch.close()
assert dataset.numbers() == [0, 1, 100]
assert len(list(ahead)) > 0
with store.open_queue("q", int, mode="consumer") as values:
    assert values.pop() == 5
store.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("does", ["use", "connect", "close", "exit"])
@pytest.mark.parametrize("kind", ["memory", "dir", "redis"])
def test_a_forked_process_lets_go_what_its_parent_has_opened(kind: str, does: str, tmp_path: Path, redis: Any) -> None:
    """Forked processes hung at their end, waiting for threads of a batch or a loader.

    They also wrote what the parent's batches had collected.
    """
    url = {"memory": "memory:", "dir": f"dir:{tmp_path / 'store'}"}.get(kind) or (
        f"redis://127.0.0.1:{redis()}/?prefix={tmp_path.name}:"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _SCRIPT, url, does]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
