"""Branches with the same name at several levels."""

from __future__ import annotations

from pathlib import Path

import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Arguments: the file, whether the object precedes the plain branch, whether it contains an object
SHADOW = """
import sys
import ROOT
ROOT.gInterpreter.Declare('''
struct FbLow { int run = 0; int lumi = 0; };
struct FbMid { FbLow low; int run = 0; };
void shadow(const char *path, bool object_first, bool deep) {
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   FbLow low;
   FbMid mid;
   int run = 0;
   auto object = [&] { deep ? tree.Branch("ev", &mid, 32000, 99) : tree.Branch("ev", &low, 32000, 99); };
   if (object_first) object();
   tree.Branch("run", &run);
   if (!object_first) object();
   for (int i = 0; i < 3; ++i) {
      low.run = mid.low.run = i;
      low.lumi = mid.low.lumi = 10 + i;
      mid.run = 100 + i;
      run = 3000 + i;
      tree.Fill();
   }
   file.Write();
}
''')
for name in "FbLow", "FbMid":
    ROOT.TClass.GetClass(name)
ROOT.shadow(sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1")
file = ROOT.TFile.Open(sys.argv[1])
tree = file.Get("t")
leaf = tree.GetBranch("run").GetLeaf("run")
for i in range(3):
    leaf.GetBranch().GetEntry(i)
    assert leaf.GetValue() == 3000 + i
"""

# Arguments: an ntuple with the branches of the tree
FIELD = """
import sys
import ROOT
reader = ROOT.RNTupleReader.Open("t", sys.argv[1])
view = reader.GetView["std::int32_t"]("run")
assert [view(i) for i in range(3)] == [3000, 3001, 3002]
del view, reader
"""


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("object_first", [False, True])
def test_a_branch_at_the_top_wins(run_root, tmp_path: Path, object_first: bool, deep: bool) -> None:
    """The member of an object that came first was returned, and a conversion with it was proven equal."""
    path = str(tmp_path / "shadow.root")
    run_root(SHADOW, path, str(int(object_first)), str(int(deep)))
    top = [3000, 3001, 3002]
    tree = fb.open(f"{path}:t")
    keys = tree.keys()
    assert len(set(keys)) == len(keys)
    assert tree["run"].array().tolist() == top
    assert tree["/run"].array().tolist() == top
    assert tree.arrays(["run"])["run"].tolist() == top
    member = [100, 101, 102] if deep else [0, 1, 2]
    assert tree["ev/run"].array().tolist() == member
    assert tree["/ev/run"].array().tolist() == member
    if deep:
        assert tree["/ev/low/run"].array().tolist() == [0, 1, 2]
    else:
        assert tree["lumi"].array().tolist() == [10, 11, 12]
    with pytest.raises(fb.KeyNotFoundError):
        tree["/lumi"]
    output = str(tmp_path / "out.root")
    assert fb.convert(f"{path}:t", output).equal is True
    run_root(FIELD, output)
