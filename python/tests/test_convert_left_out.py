"""Converting: fields that cannot be read, or are not in all files."""

import json
import subprocess
import sys
import warnings

import awkward as ak
import pytest

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


def names(folder):
    """Return the names in a directory."""
    return sorted(path.name for path in folder.iterdir())


VERSIONS = "ttree/versions.root"
REASON = "basket 1 has values that do not match the file's description"


@pytest.mark.parametrize("ending", ["root", "parquet", "arrow"])
def test_a_branch_that_only_reading_shows_to_be_unreadable_is_left_out(testdata, tmp_path, ending):
    """The conversion failed, as the second basket has objects of a version that the file does not describe."""
    with pytest.warns(
        fb.UnreadableWarning, match=f"'thing' of .*versions.root cannot be converted .*: {REASON}"
    ) as all:
        report = fb.convert(testdata / VERSIONS, tmp_path / f"out.{ending}")
    assert len(all) == 1
    assert (report.entries, report.equal, report.notes) == (400, True, {})
    ((name, reason),) = report.skipped
    assert (name, reason.startswith(REASON)) == ("thing", True)
    assert repr(report).endswith("converted, 400 entries, 4 columns equal, left behind: versions.thing>")
    fields = {column["field"].split(".")[0] for column in report.certificate["columns"]}
    assert fields == {"number", "holder", "same"}
    assert names(tmp_path) == [f"out.{ending}"]


@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_an_unreadable_branch_that_is_asked_for_by_its_name_is_an_error(testdata, tmp_path, ending):
    file, target = testdata / VERSIONS, tmp_path / f"out.{ending}"
    with pytest.raises(
        fb.FormatError, match=f'"thing" of "versions" cannot be read: {REASON}.*; leave it out with `drop`$'
    ):
        fb.convert(file, target, fields=["number", "thing"])
    with pytest.raises(fb.FormatError, match=f"{REASON}.*no other fields are left to convert$"):
        fb.convert(file, target, fields="th*")
    with pytest.raises(fb.UsageError, match=r"no fields of .*versions\.root are left to convert: all are drop"):
        fb.convert(file, target, drop="*")
    assert names(tmp_path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({"fields": ["number", "thing"], "drop": "thing"}, {"fields": "number"}, {"drop": "th*"}):
            report = fb.convert(file, target, **options)
            assert (report.equal, report.skipped, report.notes) == (True, (), {})


def test_the_program_tells_what_is_left_out(testdata, tmp_path):
    command = [*PROGRAM, "convert", str(testdata / VERSIONS), str(tmp_path / "out.root")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, last = done.stdout.splitlines()
    assert first.endswith("; all 4 columns that were converted are equal")
    assert second.startswith(f"  left out: thing of versions: {REASON}")
    assert last == "1 branch left out"
    done = subprocess.run([*command, "--json", "--force"], capture_output=True, text=True, check=True)
    (item,) = json.loads(done.stdout)["left_behind"]
    assert (item["name"], item["class"], item["field"]) == ("versions", "TTree", "thing")
    assert item["files"] == [str(testdata / VERSIONS)]
    command[-1] = f"{tmp_path}/folder/"
    report = tmp_path / "report.json"
    done = subprocess.run([*command, "--skip-bad-files", str(report)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 file converted, 1 branch left out"
    assert json.loads(report.read_text())["summary"]["branches_left_out"] == 1


def test_what_is_below_the_top_level_is_not_chosen(testdata, tmp_path):
    for ending in ("root", "parquet"):
        with pytest.raises(
            fb.UsageError, match=r'versions: "holder\.thing" is below the top level, .*: select "holder"'
        ):
            fb.convert(testdata / VERSIONS, tmp_path / f"out.{ending}", fields="holder.thing")


def test_a_tree_is_written_without_what_only_its_later_entries_show_to_be_unreadable(testdata, tmp_path):
    """It was a numbered error of Arrow's C interface."""
    with pytest.warns(fb.UnreadableWarning, match="'thing'"):
        assert fb.write(tmp_path / "out.root", fb.open(testdata / VERSIONS)) == 400
    assert "thing" not in fb.open(tmp_path / "out.root").keys()  # noqa: SIM118
    message = r'^the stream of record batches failed: .*versions\.root: field "thing" of "versions" cannot be read'
    with pytest.raises(fb.UsageError, match=message):
        fb.write(tmp_path / "other.root", iter([fb.open(testdata / VERSIONS)]))


@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_what_not_all_files_have_is_left_out(tmp_path, ending):
    """Members that a later file lacks ended the conversion."""
    record = {"p": 1.5, "q": 2}
    fb.write(tmp_path / "more.root", {"x": [1], "y": [1], "r": ak.Array([record])})
    fb.write(tmp_path / "less.root", {"x": [2], "r": ak.Array([{"p": 2.5}])})
    files = [tmp_path / "more.root", tmp_path / "less.root"]
    for order in files, files[::-1]:
        with pytest.warns(fb.UnreadableWarning, match=r"'y', 'r\.q' of|'r\.q', 'y' of") as all:
            report = fb.convert(order, tmp_path / f"out.{ending}")
        assert len(all) == 1
        assert report.equal
        assert [column["field"] for column in report.certificate["columns"]] == ["x", "r.p"]
        assert dict(report.skipped) == dict.fromkeys(["y", "r.q"], f"not in {tmp_path}/less.root")
        with pytest.raises(fb.FormatError, match=r'"y" .*less\.root; leave it out with `drop`'):
            fb.convert(order, tmp_path / f"out.{ending}", fields=["x", "y"])
        # as in reads, a record that is named has the members that all files have
        with pytest.warns(fb.UnreadableWarning, match=r"'r\.q' of .*: not in .*less\.root$"):
            fb.convert(order, tmp_path / f"out.{ending}", fields=["x", "r"])


# Arguments: the file
PARTS = """
import os, sys
from array import array
import ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
tree = ROOT.TTree("Events", "")
x, n, values = array("i", [1]), array("i", [2]), array("f", [1.5] * 2)
tree.Branch("x", x, "x/I")
tree.Branch("n", n, "n/I")
tree.Branch("full", values, "full[n]/F")
for i in range(5):
    x[0] = i
    tree.Fill()
later = [tree.Branch("part", x, "part/I"), tree.Branch("arrays", values, "arrays[n]/F")]
later += [tree.Branch("m", n, "m/I"), tree.Branch("of_m", values, "of_m[m]/F")]
for _ in range(3):
    for branch in later:
        branch.Fill()
tree.Branch("never", x, "never/I")
tree.Write()
file.Close()
os._exit(0)
"""
OF_FIVE = dict.fromkeys(("part", "arrays", "m", "of_m"), 3) | {"never": 0}


@pytest.fixture(scope="module")
def parts(run_root, tmp_path_factory):
    """Return a tree to which branches were added after some entries."""
    path = tmp_path_factory.mktemp("parts") / "parts.root"
    run_root(PARTS, path)
    return path


@pytest.mark.oracle
def test_branches_of_fewer_entries_are_left_out_everywhere(parts, tmp_path):
    """Counters among them became zeros, and copies gave no message."""
    expected = {name: f"it has {n} of the tree's 5 entries" for name, n in OF_FIVE.items()}
    assert dict(fb.open(parts).skipped) == expected
    assert fb.open(parts).arrays().fields == ["x", "n", "full"]
    named = (
        r"'part', 'arrays', 'm', 'of_m', 'never' of .*parts.root.* {} and are left out: .*`skipped` of the {} "
        r"for the reasons$"
    )
    for ending in ("root", "parquet"):
        with pytest.warns(fb.UnreadableWarning, match=named.format("converted", "report")) as all:
            report = fb.convert(parts, tmp_path / f"out.{ending}")
        assert len(all) == 1
        assert (dict(report.skipped), report.equal) == (expected, True)
    assert set(fb.open(tmp_path / "out.root").arrays().fields) == {"x", "n", "full", "_collection0"}
    with pytest.warns(fb.UnreadableWarning, match=named.format("written", "ntuple")) as all:
        fb.write(tmp_path / "copy.root", fb.open(parts))
    assert len(all) == 1
    done = subprocess.run([*PROGRAM, "convert", str(parts), str(tmp_path / "x.root")], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    left_out = [f"  left out: {name} of Events: {why}" for name, why in expected.items()]
    assert lines[1:] == [*left_out, "5 branches left out"]


@pytest.mark.oracle
@pytest.mark.parametrize("name", OF_FIVE)
@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_a_branch_of_fewer_entries_that_is_asked_for_is_an_error(parts, tmp_path, name, ending):
    reason = f"it has {OF_FIVE[name]} of the tree's 5 entries"
    with pytest.raises(fb.FormatError, match=f'"{name}" of "Events" cannot be read: {reason}; leave it out'):
        fb.convert(parts, tmp_path / f"out.{ending}", fields=["x", name])
    with pytest.raises(fb.KeyNotFoundError, match=f"'{name}' .* is skipped: {reason}"):
        fb.open(parts).arrays([name])
    done = subprocess.run(
        [*PROGRAM, "convert", str(parts), str(tmp_path / f"out.{ending}"), "--fields", f"x,{name}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, reason in done.stderr) == (4, True)
    assert names(tmp_path) == []
