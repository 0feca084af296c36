"""Objects that are neither ntuples nor histograms, when files are merged: as ROOT reads them in the output."""

import json

import numpy as np
import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Writes a file of objects that refer to one another. Arguments: the file
OBJECTS = """
import sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
ROOT.TNamed("note", "some text").Write()
shared = ROOT.TNamed("shared", "one object, twice in the list")
items = [ROOT.TNamed("a", "1"), ROOT.TObjString("b"), shared, ROOT.TNamed("c", "2"), ROOT.TObjString("d"), shared]
together = ROOT.TList()
for item in items:
    together.Add(item)
file.mkdir("sub/deep").cd()
together.Write("together", ROOT.TObject.kSingleKey)
graph = ROOT.TGraphErrors(3)
for i in range(3):
    graph.SetPoint(i, i, i * i)
graph.GetListOfFunctions().Add(ROOT.TF1("line", "[0] + [1] * x", 0, 3))
file.cd()
graph.Write("graph")
file.Close()
"""

# Prints what the objects of each file are
SEEN = """
import json, sys, ROOT
ROOT.gErrorIgnoreLevel = ROOT.kError
out = []
for path in sys.argv[1:]:
    file = ROOT.TFile(path)
    graph, together = file.Get("graph"), file.Get("sub/deep/together")
    out.append({
        "note": file.Get("note").GetTitle(),
        "together": [[item.ClassName(), item.GetName(), item.GetTitle()] for item in together],
        "the same": bool(together.At(2) == together.At(5)),
        "graph": [[graph.GetPointX(i), graph.GetPointY(i)] for i in range(graph.GetN())],
        "functions": [f.GetExpFormula().Data() for f in graph.GetListOfFunctions()],
    })
print(json.dumps(out))
"""

# Writes a tree of the given class beside a note. Arguments: the file and the class
TREE = """
import os, sys, ROOT
file = ROOT.TFile(sys.argv[1], "UPDATE")
if sys.argv[2] == "TTree":
    tree = ROOT.TTree("tree", "")
    value = ROOT.std.vector("int")()
    tree.Branch("value", value)
    tree.Fill()
elif sys.argv[2] == "TChain":
    tree = ROOT.TChain("tree", "")
    tree.Add("elsewhere.root")
else:
    tree = getattr(ROOT, sys.argv[2])("tree", "", "value")
    tree.Fill(1)
tree.Write("tree")
file.Close()
os._exit(0)  # the file and Python both own the tree
"""


@pytest.fixture
def objects(run_root, tmp_path):
    run_root(OBJECTS, tmp_path / "objects.root")
    return tmp_path / "objects.root"


def test_the_first_of_each_name_is_taken(objects, run_root, tmp_path, dimuon):
    output = tmp_path / "out.root"
    report = fb.merge([dimuon, objects, objects], output, others="first")
    names = [["note", "TNamed"], ["sub/deep/together", "TList"], ["graph", "TGraphErrors"]]
    assert [sorted(item["dropped"]) for item in report.inputs] == [[], [], sorted(names)]
    one, two = json.loads(run_root(SEEN, objects, output))
    assert one == two
    assert one["the same"]
    # what the output has is the first
    again = fb.merge([dimuon, objects], output, append=True, others="first")
    assert sorted(again.inputs[1]["dropped"]) == sorted(names)
    assert json.loads(run_root(SEEN, output)) == [one]


def test_references_are_right_where_keys_are_longer(objects, run_root, tmp_path):
    """Positions in an object count from its key, which is longer beyond 2 GB: they were those of the input."""
    output = tmp_path / "large.root"
    fb.write(output, {"x": np.arange(3)}, name="t")
    # a hole, so that what is added is beyond
    end = 2_000_000_000 - 1000
    with output.open("r+b") as file:
        file.seek(12)
        file.write(end.to_bytes(4, "big"))
        file.truncate(end)
    fb.write(tmp_path / "more.root", {"x": np.arange(100_000)}, name="t", compression="none")
    fb.merge([tmp_path / "more.root", objects], output, append=True, others="first")
    one, two = json.loads(run_root(SEEN, objects, output))
    assert one == two
    assert fb.open({output: "t"}).num_entries == 100_003
    # and back
    small = tmp_path / "small.root"
    fb.merge([f"{output}:{name}" for name in ("note", "sub/deep/together", "graph")], small, others="first")
    assert json.loads(run_root(SEEN, small)) == [one]


@pytest.mark.parametrize("kind", ["TTree", "TNtuple"])
def test_trees_are_not_taken_without_their_data(kind, run_root, tmp_path):
    """What came was a tree without baskets."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    run_root(TREE, path, kind)
    for merged in (
        lambda: fb.clone(path, output),
        lambda: fb.reshape(path, output, compression="lz4"),
        lambda: fb.skim(path, output, where="x > 1"),
        lambda: fb.merge([path], output),
        lambda: fb.merge([path, path], output, others="first"),
    ):
        with pytest.raises(fb.UsageError, match=f'a {kind} called "tree".*fb convert.*--others drop'):
            merged()
        assert not output.exists()
    report = fb.clone(path, output, others="drop")
    assert report.inputs[0]["dropped"] == [["tree", kind]]
    assert fb.open(output).num_entries == 3


def test_chains_have_their_data_elsewhere(run_root, tmp_path):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    run_root(TREE, path, "TChain")
    assert fb.clone(path, output).inputs[0]["dropped"] == []
    read = "import sys, ROOT; print(ROOT.TFile(sys.argv[1]).Get('tree').GetListOfFiles().At(0).GetTitle())"
    assert run_root(read, output).strip() == "elsewhere.root"


def test_what_is_named_must_be_something_to_bring(run_root, tmp_path):
    """It was said to be left out with others="drop", and then that there was nothing to merge."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["folder/t"] = {"x": [1]}
    run_root(TREE, path, "TTree")
    for others in ("first", "drop"):
        with pytest.raises(fb.UsageError, match=r"in\.root:tree is a TTree, .*fb convert .*in\.root:tree NEW\.root"):
            fb.clone(f"{path}:tree", output, others=others)
    with pytest.raises(fb.UsageError, match=r"in\.root:folder is a directory: name what is in it"):
        fb.clone(f"{path}:folder", output)
    with fb.recreate(tmp_path / "empty.root") as file:
        file.mkdir("folder")
    with pytest.raises(fb.UsageError, match=r"nothing to bring in .*empty\.root: no RNTuple, and no histogram"):
        fb.clone(tmp_path / "empty.root", output)
