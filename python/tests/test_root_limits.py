"""Files that ROOT cannot open, and the workarounds in the page about compatibility."""

import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Arguments: the file of sets
SETS = """
import os, sys
import ROOT
os.chdir(os.path.dirname(sys.argv[1]))  # where the dictionaries' sources are written
kinds = {"chars": "std::set<char>", "vectors": "std::set<std::vector<int>>"}
kinds["sums"] = "std::set<std::variant<int, bool>>"
for kind in kinds.values():
    assert ROOT.gInterpreter.GenerateDictionary(kind, "set;vector;variant")
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
for name, kind in kinds.items():
    view = reader.GetView[kind](name)
    assert [view(i).size() for i in range(2)] == [2, 0], name
sys.stdout.flush()
os._exit(0)
"""


def test_sets_are_read_with_a_dictionary(tmp_path, run_root):
    spec = {
        "chars": "std::set<char>",
        "vectors": "std::set<std::vector<int>>",
        "sums": "std::set<std::variant<int, bool>>",
    }
    with fb.recreate(tmp_path / "sets.root") as file:
        sets = {"chars": [[1, 2], []], "vectors": [[[1], [2]], []], "sums": [[1, True], []]}
        file.mkrntuple("Events", spec).extend(sets)
    run_root(SETS, tmp_path / "sets.root")


# Arguments: the file with missing members, and the one with lists instead
MEMBERS = """
import os, sys
import ROOT
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
pt = reader.GetView["float"]("jets._0.pt")
assert [pt(i) for i in range(2)] == [1.5, 2.5]
entry = reader.CreateEntry()
for i in range(reader.GetNEntries()):
    reader.LoadEntry(i, entry)
frame = ROOT.RDataFrame("Events", sys.argv[2])
assert frame.Sum("jets.pt").GetValue() == 4
os._exit(0)
"""


def test_members_that_may_be_missing_are_lists_for_rdataframe(tmp_path, run_root):
    for name, kind, (none, one) in ("missing", "?int32", (None, 3)), ("lists", "var * int32", ([], [3])):
        with fb.recreate(tmp_path / f"{name}.root") as file:
            jets = [[{"pt": 1.5, "id": none}, {"pt": 2.5, "id": one}], []]
            file.mkrntuple("Events", {"jets": f"var * {{pt: float32, id: {kind}}}"}).extend({"jets": jets})
    run_root(MEMBERS, tmp_path / "missing.root", tmp_path / "lists.root")
