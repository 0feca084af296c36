"""Names that occur several times in a file, and names that look like a name with a cycle."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from compare import left_behind

import femtobarn as fb

DATA = Path(__file__).parents[2] / "testdata" / "names"
FB = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]

# Arguments: a file, the name of an ntuple in it, and its first value
OPENED = """
import sys
import ROOT
reader = ROOT.RNTupleReader.Open(sys.argv[2], sys.argv[1])
view = reader.GetView["std::int32_t"]("x")
assert [view(i) for i in range(reader.GetNEntries())] == [int(sys.argv[3]) + i for i in range(3)]
del view, reader
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program fb."""
    return subprocess.run([*FB, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["hidden_ntuple", "hidden_tree"])
def test_a_later_object_of_the_same_name_hides_nothing(name: str, tmp_path: Path) -> None:
    """`fb verify` rejected the whole file, and only Events;1 could be opened."""
    path = str(DATA / f"{name}.root")
    for asked in path, f"{path}:Events", f"{path}:Events;1", f"{path}:/Events":
        assert fb.open(asked)["x"].array().tolist() == [0, 1, 2]
        done = run("verify", asked)
        assert (done.returncode, "Events" in done.stdout) == (0, True), done
        assert run("info", asked).returncode == run("head", asked).returncode == 0
        output = str(tmp_path / "out.root")
        assert fb.convert(asked, output, overwrite=True).equal is True
        assert fb.open(output)["x"].array().tolist() == [0, 1, 2]
    with pytest.raises(fb.UsageError, match='"Events;2" is a T'):
        fb.open(f"{path}:Events;2")
    with pytest.raises(fb.KeyNotFoundError):
        fb.open(f"{path}:Events;3")


def test_merging_takes_an_ntuple_behind_a_later_object_and_names_the_object(tmp_path: Path) -> None:
    path, output = str(DATA / "hidden_ntuple.root"), str(tmp_path / "out.root")
    for asked in [f"{path}:Events"] * 2, [path, f"{path}:Events;1"]:
        report = fb.merge(asked, output, others="drop", overwrite=True, verify=True)
        assert report.entries == {"Events": 6}
        assert left_behind(report) == ([("Events", "TNamed")] if asked[0] == path else [])
        assert fb.open(output)["x"].array().tolist() == [0, 1, 2] * 2
    assert run("verify", output, "--against", path, path).returncode == 0
    # it is not left out without the user's consent
    with pytest.raises(fb.UsageError, match='called "Events", and it or another file has a diff'):
        fb.merge(path, output, overwrite=True)


def test_merging_names_a_tree_behind_a_later_histogram(tmp_path: Path) -> None:
    """Only the histogram was merged, without a message about the tree."""
    path, output = str(DATA / "hidden_tree.root"), str(tmp_path / "out.root")
    with pytest.raises(fb.UsageError, match='TTree called "Events"'):
        fb.merge(path, output)
    report = fb.merge(f"{path}:Events;1", output)
    assert report.inputs[0]["converted"] == [["Events", "TTree"]]


def test_a_semicolon_without_a_number_is_part_of_a_name(tmp_path: Path) -> None:
    path = str(DATA / "semicolons.root")
    for name, first in ("a;b", 0), ("a;b;1", 0), ("sub/c;d", 10), ("sub/c;d;1", 10):
        ntuple = fb.open(f"{path}:{name}")
        assert ntuple["x"].array().tolist() == [first, first + 1, first + 2]
        assert repr(ntuple).startswith(name.removesuffix(";1").rpartition("/")[2] + ":")
        assert pickle.loads(pickle.dumps(ntuple))["x"].array().tolist() == ntuple["x"].array().tolist()
        assert run("info", f"{path}:{name}").returncode == 0
        plain = name.removesuffix(";1")
        with pytest.raises(fb.KeyNotFoundError, match=r"fb\.open already gave the ntuple"):
            ntuple[plain]
        # the part before the semicolon is another name
        with pytest.raises(fb.KeyNotFoundError):
            ntuple[plain.rpartition("/")[2][0]]
    with pytest.raises(fb.KeyNotFoundError):
        fb.open(f"{path}:a")
    with pytest.raises(fb.UsageError, match="is a TNamed"):
        fb.open(f"{path}:a;b;2")
    done = run("verify", path)
    assert done.returncode == 0, done
    assert all(name in done.stdout for name in ("a;b", "sub/c;d"))


@pytest.mark.oracle
def test_root_opens_what_is_made_of_names_with_a_semicolon(run_root, tmp_path: Path) -> None:
    path = str(DATA / "semicolons.root")
    run_root(OPENED, path, "a;b", "0")
    converted, merged, cloned = (str(tmp_path / f"{name}.root") for name in ("converted", "merged", "cloned"))
    assert fb.convert(f"{path}:a;b", converted).equal is True
    fb.merge([f"{path}:a;b"], merged, verify=True)
    fb.clone(f"{path}:sub/c;d", cloned)
    run_root(OPENED, converted, "a;b", "0")
    run_root(OPENED, merged, "a;b", "0")
    run_root(OPENED, cloned, "sub/c;d", "10")
