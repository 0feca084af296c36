"""A leading `~` in an output path is the home directory, whatever writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import femtobarn as fb

if TYPE_CHECKING:
    import pytest


def test_outputs_are_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is called `~` was written to, and the proof looked for the file in the home directory."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    (here / "~").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    fb.write("~/a.root", {"x": [1, 2, 3]}, name="E")
    fb.merge(["~/a.root", "~/a.root"], "~/merged.root", verify=True)
    fb.clone("~/a.root", "~/cloned.root")
    fb.skim("~/a.root", "~/skimmed.root", where="x > 1")
    fb.convert("~/a.root", "~/a.parquet")
    with fb.recreate("~/recreated.root") as file:
        file["E"] = {"x": [1]}
    dataset = fb.DataStore.connect("dir:~/store").root.create_dataset("d")
    fb.ingest("~/a.root", dataset, run=1, subrun=1, event=0)
    fb.export(dataset, "~/exported.root")
    program = "from femtobarn._cli import main; raise SystemExit(main())"
    subprocess.run([sys.executable, "-c", program, "clone", "~/a.root", "-o", "~/shell.root"], check=True, timeout=120)
    made = {"a.parquet", "a.root", "cloned.root", "exported.root", "merged.root", "recreated.root", "shell.root"}
    assert {path.name for path in home.iterdir()} == made | {"skimmed.root", "store"}
    assert list((here / "~").iterdir()) == []
    assert fb.open("~/merged.root").num_entries == 6
