"""Objects other than ntuples and histograms in merges: ROOT reads them in the output."""

import json

import numpy as np
import pytest
import uproot
from compare import left_behind, objects_of

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

# Prints the objects of each file
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

# Writes a tree of the given class and a note. Arguments: the file and the class
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
    names = [("graph", "TGraphErrors"), ("note", "TNamed"), ("sub/deep/together", "TList")]
    assert left_behind(report) == names
    one, two = json.loads(run_root(SEEN, objects, output))
    assert one == two
    assert one["the same"]
    # the output keeps the first one
    again = fb.merge([dimuon, objects], output, append=True, others="first")
    assert left_behind(again) == names
    assert json.loads(run_root(SEEN, output)) == [one]


@pytest.mark.parametrize("make", [fb.merge, fb.clone, fb.skim], ids=lambda make: make.__name__)
def test_what_is_the_same_in_all_files_is_kept_by_default(make, objects, run_root, tmp_path, dimuon):
    """A merge stopped at the first such object, and a clone copied it."""
    whole, output = tmp_path / "whole.root", tmp_path / "out.root"
    fb.merge([dimuon, objects], whole)
    more = {"where": "nMuon > 1"} if make is fb.skim else {}
    report = make(whole if make is fb.clone else [whole, objects, whole], output, **more)
    assert not report.left_behind
    one, two = json.loads(run_root(SEEN, objects, output))
    assert one == two
    if make is fb.merge:
        again = fb.merge([whole, objects], output, append=True)
        assert not again.left_behind
        assert json.loads(run_root(SEEN, output)) == [one]


def test_different_objects_of_one_name_are_an_error_unless_the_first_is_wanted(objects, run_root, tmp_path):
    other, output = tmp_path / "other.root", tmp_path / "out.root"
    run_root(OBJECTS.replace("some text", "another text"), other)
    message = r'the TNamed "note" of .*other\.root differs from the TNamed "note" of .*objects\.root: --others first'
    with pytest.raises(fb.UsageError, match=message):
        fb.merge([objects, other], output)
    assert not output.exists()
    fb.merge(objects, output)
    before = output.read_bytes()
    with pytest.raises(fb.UsageError, match=message.replace("objects", "out")):
        fb.merge(other, output, append=True)
    assert output.read_bytes() == before
    report = fb.merge([objects, other], output, others="first", overwrite=True)
    assert ("note", "TNamed") in left_behind(report)
    with pytest.raises(fb.UsageError, match=r'a TNamed called "note".*others="error"'):
        fb.merge(objects, output, others="error", overwrite=True)


def test_references_are_right_where_keys_are_longer(objects, run_root, tmp_path):
    """Positions in an object count from its key, which is longer beyond 2 GB: they were those of the input."""
    output = tmp_path / "large.root"
    fb.write(output, {"x": np.arange(3)}, name="t")
    # a hole, so that new data are beyond 2 GB
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
    # objects with longer keys are the same
    again = fb.merge([objects], output, append=True)
    assert not again.left_behind
    # and back
    small = tmp_path / "small.root"
    fb.merge([f"{output}:{name}" for name in ("note", "sub/deep/together", "graph")], small, others="first")
    assert json.loads(run_root(SEEN, small)) == [one]


@pytest.mark.parametrize("kind", ["TTree", "TNtuple"])
def test_trees_become_ntuples(kind, run_root, tmp_path):
    """The copy was a tree without baskets; later, trees were refused."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    run_root(TREE, path, kind)
    tree = fb.open(f"{path}:tree")
    name = tree.keys()[0]
    values = tree[name].array().to_list()
    for times, merged in (
        (1, lambda: fb.clone(path, output, verify=True)),
        (1, lambda: fb.reshape(path, output, compression="lz4", overwrite=True)),
        (1, lambda: fb.merge([path], output, others="drop", overwrite=True, verify=True)),
        (2, lambda: fb.merge([path, path], output, overwrite=True, verify=True)),
        (3, lambda: fb.merge(path, output, append=True)),
    ):
        report = merged()
        assert report.inputs[0]["converted"] == [["tree", kind]]
        assert not report.left_behind
        assert fb.open(f"{output}:tree")[name].array().to_list() == values * times
        assert fb.open(f"{output}:t").num_entries == 3 * times
    if kind == "TNtuple":
        fb.skim(f"{path}:tree", output, where=f"{name} == {values[-1]}", overwrite=True)
        assert fb.open(output)[name].array().to_list() == [value for value in values if value == values[-1]]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in.root", "out.root"]


def test_chains_have_their_data_elsewhere(run_root, tmp_path):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    run_root(TREE, path, "TChain")
    assert not fb.clone(path, output).left_behind
    read = "import sys, ROOT; print(ROOT.TFile(sys.argv[1]).Get('tree').GetListOfFiles().At(0).GetTitle())"
    assert run_root(read, output).strip() == "elsewhere.root"


def test_what_is_named_must_be_something_to_bring(run_root, tmp_path):
    """The message was that it is left out with others="drop", and then that there is nothing to merge."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["folder/t"] = {"x": [1]}
    run_root(TREE, path, "TTree")
    with pytest.raises(fb.UsageError, match=r"in\.root:folder is a directory: name an object in it"):
        fb.clone(f"{path}:folder", output)
    with fb.recreate(tmp_path / "empty.root") as file:
        file.mkdir("folder")
    with pytest.raises(
        fb.UsageError, match=r"nothing to merge in .*empty\.root: it has no RNTuple, TTree or histogram"
    ):
        fb.clone(tmp_path / "empty.root", output)


# Writes a C++ function, whose class has pointers to classes not derived from TObject, and a histogram with a fit.
# Arguments: the file
FUNCTIONS = """
import os, sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
line = ROOT.TF1("line", lambda x, p: p[0] + p[1] * x[0], 0.0, 1.0, 2)
line.SetParameters(3, 5)
file.WriteObject(line, "line")
fitted = ROOT.TH1D("fitted", "", 10, 0, 1)
for i in range(100):
    fitted.Fill(i / 100)
fitted.Fit("pol1", "Q")
fitted.Write()
file.Close()
os._exit(0)
"""

# Prints the streamer infos of each file, and the functions
DESCRIBED = """
import json, os, sys, ROOT
out = []
for path in sys.argv[1:]:
    file = ROOT.TFile(path)
    infos = {}
    for info in file.GetStreamerInfoList():
        if info.ClassName() == "TStreamerInfo":
            elements = [[e.ClassName(), e.GetName(), e.GetTypeName(), e.GetType()] for e in info.GetElements()]
            infos[info.GetName()] = [info.GetClassVersion(), info.GetCheckSum(), elements]
    line, fitted = file.Get("line"), file.Get("fitted").GetFunction("pol1")
    out.append([infos, [line.GetNpar(), line.Eval(0.5)], [fitted.GetParameter(0), fitted.GetParameter(1)]])
print(json.dumps(out))
sys.stdout.flush()
os._exit(0)
"""


def test_classes_are_described_as_root_does(run_root, tmp_path, dimuon):
    """ROOT does not know version 2 of TStreamerObjectAnyPointer: it warned, and read functions wrongly, or crashed."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    run_root(FUNCTIONS, path)
    fb.merge([path, dimuon], output, others="first")
    # run_root fails if ROOT reports an unknown streamer info
    one, two = json.loads(run_root(DESCRIBED, path, output))
    assert any(element[0] == "TStreamerObjectAnyPointer" for info in one[0].values() for element in info[2])
    assert {name: two[0][name] for name in one[0]} == one[0]
    assert one[1:] == two[1:]
    assert one[1] == [2, pytest.approx(5.5)]


# Writes a tree within another object. Arguments: the file and the kind of the outer object
NESTED = """
import array, os, sys, ROOT
file = ROOT.TFile(sys.argv[1], "UPDATE")
tree = ROOT.TTree("tree", "") if sys.argv[2] != "TNtuple" else ROOT.TNtuple("tree", "", "x")
if sys.argv[2] != "TNtuple":
    x = array.array("d", [0])
    tree.Branch("x", x, "x/D")
    for i in range(10000):
        x[0] = i * 1.37
        tree.Fill()
tree.FlushBaskets()
inner = ROOT.TList()
note = ROOT.TNamed("a", "b")
inner.Add(note)
inner.Add(tree)
key = ROOT.TObjString("key")
outer = ROOT.TMap() if sys.argv[2] == "TMap" else ROOT.TList()
outer.Add(key, inner) if sys.argv[2] == "TMap" else outer.Add(inner)
outer.Write("outer", ROOT.TObject.kSingleKey)
file.Close()
os._exit(0)
"""


@pytest.mark.parametrize(("kind", "outer"), [("TTree", "TList"), ("TNtuple", "TList"), ("TMap", "TMap")])
def test_trees_in_other_objects_are_found(kind, outer, run_root, tmp_path):
    """Only the class of the key was checked, and a list was copied with a tree without data."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    run_root(NESTED, path, kind)
    within = "TNtuple" if kind == "TNtuple" else "TTree"
    for merged in (
        lambda: fb.clone(path, output),
        lambda: fb.reshape(path, output, compression="lz4"),
        lambda: fb.skim(path, output, where="x > 1"),
        lambda: fb.merge([path, path], output, others="first"),
    ):
        with pytest.raises(fb.UsageError, match=f'a {outer} called "outer" with a {within} in it.*--others drop'):
            merged()
        assert not output.exists()
    assert left_behind(fb.clone(path, output, others="drop")) == [("outer", outer)]


def test_anchors_of_old_versions_are_not_taken_without_their_data(tmp_path, run_root):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    fb.write(path, {"x": np.arange(3)}, name="t")
    # a name as long as that of the old class, for a key that is changed in place
    class_name = "ROOT::Experimental::RNTuple"
    write = f"""
import sys, ROOT
ROOT.gInterpreter.Declare("class {"X" * len(class_name)} {{ public: int a = 1; }};")
ROOT.gInterpreter.ProcessLine('TFile f("' + sys.argv[1] + '", "UPDATE"); {"X" * len(class_name)} o;'
    'f.WriteObjectAny(&o, "{"X" * len(class_name)}", "old"); f.Close();')
"""
    run_root(write, path)
    path.write_bytes(path.read_bytes().replace(b"X" * len(class_name), class_name.encode()))
    for given in (path, f"{path}:old"):
        with pytest.raises(fb.UsageError, match=r"ROOT::Experimental::RNTuple.*before version 1\.0"):
            fb.clone(given, output)
        assert not output.exists()
    assert left_behind(fb.clone(path, output, others="drop")) == [("old", class_name)]


# Writes objects of classes whose members are not walked. Arguments: the file
CONTAINERS = """
import os, sys, ROOT
ROOT.gROOT.SetBatch(True)
file = ROOT.TFile(sys.argv[1], "RECREATE")
for name, kind, items in [
    ("numbers", "vector<double>", "v->push_back(1.5); v->push_back(-1);"),
    ("texts", "vector<string>", 'v->push_back("one"); v->push_back("two");'),
    ("counts", "map<string,int>", '(*v)["one"] = -1; (*v)["two"] = 2;'),
]:
    ROOT.gInterpreter.ProcessLine("{auto v = new std::%s; %s gFile->WriteObject(v, \\"%s\\");}" % (kind, items, name))
pairs = ROOT.TMap()
value = ROOT.TNamed("value", "1")
keep = [ROOT.TObjString("one"), ROOT.TObjString("two"), value]
pairs.Add(keep[0], value)
pairs.Add(keep[1], value)
pairs.Write("pairs", ROOT.TObject.kSingleKey)
if len(sys.argv) > 2:
    canvas = ROOT.TCanvas("canvas")
    h = ROOT.TH1D("h", "", 2, 0, 1)
    h.Draw()
    canvas.Write()
file.Close()
os._exit(0)
"""

CONTAINED = """
import json, os, sys, ROOT
ROOT.gROOT.SetBatch(True)
file = ROOT.TFile(sys.argv[1])
pairs, canvas = file.Get("pairs"), file.Get("canvas")
print(json.dumps([
    list(file.Get("numbers")), [str(x) for x in file.Get("texts")], {str(k): v for k, v in file.Get("counts")},
    {key.GetName(): pairs.GetValue(key.GetName()).GetName() for key in pairs},
    [item.ClassName() for item in canvas.GetListOfPrimitives()] if canvas else None,
]))
sys.stdout.flush()
os._exit(0)
"""


def grown(path):
    """Add a hole at the end of a file, so that new data are beyond 2 GB."""
    end = 2_000_000_000 + 1000
    with path.open("r+b") as file:
        file.seek(12)
        file.write(end.to_bytes(4, "big"))
        file.truncate(end)


def test_objects_that_name_no_class_go_beyond_2_gb_and_back(run_root, tmp_path):
    """They were refused at the end of the merge, although they contain no positions."""
    path, output = tmp_path / "in.root", tmp_path / "large.root"
    run_root(CONTAINERS, path)
    fb.write(output, {"x": np.arange(3)}, name="t")
    grown(output)
    fb.merge([path], output, append=True, others="first")
    small = tmp_path / "small.root"
    fb.merge([f"{output}:{name}" for name in ("numbers", "texts", "counts", "pairs")], small, others="first")
    expected = [[1.5, -1], ["one", "two"], {"one": -1, "two": 2}, {"one": "value", "two": "value"}, None]
    for file in (path, output, small):
        assert json.loads(run_root(CONTAINED, file)) == expected


def test_what_cannot_be_moved_is_refused(run_root, tmp_path):
    path, output = tmp_path / "in.root", tmp_path / "large.root"
    run_root(CONTAINERS, path, "canvas")
    fb.write(output, {"x": np.arange(3)}, name="t")
    grown(output)
    fb.write(tmp_path / "more.root", {"x": np.arange(10)}, name="t")
    with pytest.raises(fb.UsageError, match=r'cannot copy the TCanvas "canvas" .*key of another length'):
        fb.merge([tmp_path / "more.root", path], output, append=True, others="first")


TITLED = """
import sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
file.mkdir("plots", "of all events").mkdir("deep", "and deeper").cd()
ROOT.TNamed("note", "some text").Write()
file.Close()
"""
TITLES = """
import sys, ROOT
file = ROOT.TFile(sys.argv[1])
print(file.Get("plots").GetTitle() + ", " + file.Get("plots/deep").GetTitle())
"""


def test_directories_keep_their_titles(run_root, tmp_path):
    """The titles were lost."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    run_root(TITLED, path)
    fb.merge([path, path], output, others="first")
    assert run_root(TITLES, output).strip() == "of all events, and deeper"


BOTH = """
import sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
file.mkdir("a").cd()
ROOT.TNamed("b", "in it").Write()
file.cd()
ROOT.TNamed("other", "beside it").Write("a")
file.Close()
"""


def test_what_an_output_has_already_is_as_it_is(run_root, tmp_path):
    """A directory and an object of the same name, which ROOT allows, made every append an error."""
    output = tmp_path / "out.root"
    run_root(BOTH, output)
    fb.write(tmp_path / "nt.root", {"x": [1, 2, 3]}, name="Events")
    fb.write(tmp_path / "below.root", {"x": [1]}, name="a/T")
    fb.merge(tmp_path / "nt.root", output, append=True)
    fb.merge(tmp_path / "below.root", output, append=True)
    assert [item["path"] for item in objects_of(output)] == ["a", "a", "a/b", "a/T", "Events"]
    fb.write(tmp_path / "inside.root", {"x": [1]}, name="Events/T")
    with pytest.raises(fb.UsageError):
        fb.merge(tmp_path / "inside.root", output, append=True)


def test_an_append_of_what_is_there_changes_nothing(tmp_path):
    """It was an error: there was nothing to copy."""
    with uproot.recreate(tmp_path / "s.root") as file:
        file["note"] = "some text"
    output = tmp_path / "out.root"
    fb.write(output, {"x": [1]}, name="Events")
    for _ in range(2):
        report = fb.merge(tmp_path / "s.root", output, append=True, others="first")
    assert report.left_behind
    assert sorted(item["path"] for item in objects_of(output)) == ["Events", "note"]
