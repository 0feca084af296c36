"""Checkpoint files made by an attacker: their code is not run."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import femtobarn as fb
from femtobarn._processing import checkpoint as _checkpoint

NOBODY = 65534


class Attack:
    """Unpickling it makes a call that creates a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def fails_late(event: Any) -> int:
    n = int(event.load("n"))
    if n == 900:
        raise ValueError("too late")
    return n


def number(event: Any) -> int:
    return int(event.load("n"))


@pytest.fixture
def dataset() -> fb.DataSet:
    store = fb.DataStore.connect("memory:")
    made = store.root.create_dataset("a")
    with store.write_batch() as batch:
        batch.store_arrays(made, {"n": np.arange(1000)}, run=1, subrun=1, event=np.arange(1000))
    return made


@pytest.fixture
def path(dataset: fb.DataSet, tmp_path: Path) -> Path:
    """Return a checkpoint written by process."""
    path = tmp_path / "checkpoint"
    with pytest.raises(fb.ProcessError, match="too late"):
        fb.process(dataset, fails_late, checkpoint=path)
    return path


def ran(path: Path) -> Path:
    """Return the directory that exists if the code ran."""
    return path.with_name("ran")


def attacked(path: Path) -> None:
    """Write code into a checkpoint after a valid beginning."""
    magic, noted, _ = path.read_bytes().split(b"\n", 2)
    path.write_bytes(magic + b"\n" + noted + b"\n" + pickle.dumps(Attack(ran(path))))


def refused(dataset: fb.DataSet, path: Path, match: str, kind: type[Exception] = fb.FileError) -> None:
    before = path.read_bytes()
    for by in ("event", "batch"):
        with pytest.raises(kind, match=match):
            fb.process(dataset, fails_late, by=by, checkpoint=path)
    assert not ran(path).exists()
    assert path.read_bytes() == before


def test_the_attack_is_one(dataset: fb.DataSet, path: Path) -> None:
    attacked(path)
    with pytest.raises(fb.FormatError, match="damaged"):
        fb.process(dataset, fails_late, checkpoint=path)
    assert ran(path).is_dir()


@pytest.mark.parametrize("mode", [0o666, 0o606, 0o662])
def test_checkpoints_that_others_can_write_are_refused(dataset: fb.DataSet, path: Path, mode: int) -> None:
    attacked(path)
    path.chmod(mode)
    refused(dataset, path, rf"{path}: other users can write to it \(mode {mode:04o}\): .*chmod go-w")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("mode", [0o666, 0o600])
def test_checkpoints_of_others_are_refused(dataset: fb.DataSet, path: Path, mode: int) -> None:
    attacked(path)
    path.chmod(mode)
    os.chown(path, NOBODY, NOBODY)
    refused(dataset, path, f"{path}: the file belongs to user {NOBODY}, not to you")


def test_links_and_pipes_are_refused(dataset: fb.DataSet, path: Path, tmp_path: Path) -> None:
    attacked(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    refused(dataset, link, "it is a symbolic link")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(fb.FileError):
        fb.process(dataset, fails_late, checkpoint=pipe)


def test_what_is_of_other_work_or_version_is_not_unpickled(dataset: fb.DataSet, path: Path) -> None:
    attacked(path)
    with pytest.raises(fb.UsageError):
        fb.process(dataset, number, checkpoint=path)
    for content in (
        pickle.dumps(("femtobarn checkpoint 2", Attack(ran(path)))),
        pickle.dumps(Attack(ran(path))),
        b"",
        b"femtobarn checkpoint 4\n",
        b"femtobarn checkpoint 4\n" + json.dumps(["a", 1]).encode() + b"\n" + pickle.dumps(Attack(ran(path))),
        b"femtobarn checkpoint 4\n[[[[[",
    ):
        path.write_bytes(content)
        refused(dataset, path, "not a checkpoint of this version|damaged", fb.FormatError)


def test_a_checkpoint_is_the_users_own(dataset: fb.DataSet, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    # the name of the temporary file can be guessed: an existing file of that name is not written to
    victim = path.with_name("victim")
    victim.write_text("mine")
    beside = path.with_name(f".{path.name}.partial-{os.getpid()}-0")
    save = _checkpoint.Checkpoint.save

    def attacked_save(self: _checkpoint.Checkpoint, *, now: bool) -> None:
        if not beside.is_symlink():
            beside.symlink_to(victim)
        save(self, now=now)

    monkeypatch.setattr(_checkpoint.Checkpoint, "save", attacked_save)
    with pytest.raises(fb.ProcessError, match="too late"):
        fb.process(dataset, fails_late, checkpoint=path)
    assert victim.read_text() == "mine"
    assert path.is_file()
