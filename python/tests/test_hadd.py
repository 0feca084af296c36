"""ROOT's hadd merges files of femtobarn and of ROOT, and all readers read the output."""

import json
import math
import subprocess

import awkward as ak
import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Writes two files whose fields y, v, s and r are added late, and prints where hadd is. Arguments: a directory
SETUP = """
import os, pathlib, sys
import ROOT
ROOT.gInterpreter.Declare('''
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
void late(const char *path, int n) {
  auto model = ROOT::RNTupleModel::Create();
  auto x = model->MakeField<int>("x");
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "Events", path);
  for (int i = 0; i < n; ++i) { *x = i; writer->Fill(); }
  writer->CommitCluster();
  auto updater = writer->CreateModelUpdater();
  updater->BeginUpdate();
  auto y = updater->MakeField<float>("y");
  auto v = updater->MakeField<std::vector<float>>("v");
  auto s = updater->MakeField<std::string>("s");
  updater->CommitUpdate();
  for (int i = n; i < 2 * n; ++i) {
    *x = i; *y = i + 0.5; *v = std::vector<float>(i % 4, i + 0.25f); *s = "root " + std::to_string(i);
    writer->Fill();
    if (i % 100 == 0) writer->CommitCluster();
  }
}
''')
folder = pathlib.Path(sys.argv[1])
ROOT.late(str(folder / "root.root"), 300)
ROOT.late(str(folder / "root2.root"), 3)
(folder / "hadd").write_text(str(ROOT.TROOT.GetBinDir()) + "/hadd")
os._exit(0)
"""

LATE = {"y": "float", "v": "std::vector<float>", "s": "std::string"}


def write(path, late, n=500):
    """Write entries before, between and after the late fields, which come in this order, in many clusters."""
    with fb.recreate(path, compression="zstd:5") as file:
        events = file.mkrntuple("Events", {"x": "int"}, cluster_size="1 kB", page_size=256, clusters_per_group=3)
        events.extend({"x": list(range(n))})
        values = {
            "y": [i / 4 for i in range(n)],
            "v": [[i + 0.5] * (i % 3) for i in range(n)],
            "s": [f"{path.stem} {i}" for i in range(n)],
        }
        for i, name in enumerate(late):
            events.add_fields({name: LATE[name]})
            events.extend({"x": [-i] * n} | {known: values[known] for known in late[: i + 1]})
    return path


@pytest.fixture(scope="module")
def folder(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hadd")
    run_root(SETUP, folder)
    write(folder / "own.root", ["y", "v", "s"])
    write(folder / "own2.root", ["s", "v", "y"], n=7)
    return folder


# Prints what ROOT reads. Arguments: the file, and one for the values
READ = """
import json, os, pathlib, sys
import ROOT
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
views = {
    name: reader.GetView[kind](name)
    for name, kind in {"x": "int", "y": "float", "v": "std::vector<float>", "s": "std::string"}.items()
}
read = {name: lambda view, i: view(i) for name in views}
read["v"] = lambda view, i: list(view(i))
read["s"] = lambda view, i: str(view(i))
n = range(reader.GetNEntries())
values = {name: [read[name](view, i) for i in n] for name, view in views.items()}
frame = ROOT.RDataFrame("Events", sys.argv[1])
values["sum"] = frame.Sum("y").GetValue()
pathlib.Path(sys.argv[2]).write_text(json.dumps(values))
os._exit(0)
"""


@pytest.mark.parametrize(
    "names",
    [
        ["own", "own2"],
        ["root", "own", "own2"],
        ["own", "root", "own2"],
        ["own2", "own", "root", "root2"],
        ["root", "root2"],
    ],
    ids="+".join,
)
def test_files_with_late_fields_are_put_together(folder, tmp_path, run_root, need, names):
    inputs = [folder / f"{name}.root" for name in names]
    merged = tmp_path / "merged.root"
    subprocess.run([(folder / "hadd").read_text(), merged, *inputs], check=True, capture_output=True)
    nt = fb.open(merged)
    assert nt.verify().ok
    expected = ak.concatenate([fb.open(path).arrays(["x", *LATE]) for path in inputs])
    assert ak.array_equal(nt.arrays(["x", *LATE]), expected)
    run_root(READ, merged, tmp_path / "values")
    values = json.loads((tmp_path / "values").read_text())
    assert math.isclose(values.pop("sum"), float(ak.sum(expected["y"])), rel_tol=1e-5)
    for name, found in values.items():
        assert found == expected[name].to_list(), name
    # uproot assumes that late fields begin once in a file, also if ROOT wrote all of it
    uproot = need("uproot")
    assert uproot.open(merged)["Events"]["x"].array().to_list() == expected["x"].to_list()
    for path in inputs:
        assert ak.array_equal(uproot.open(path)["Events"].arrays()[["x", *LATE]], fb.open(path).arrays(["x", *LATE]))


def test_what_was_put_together_is_converted(folder, tmp_path):
    inputs = [folder / f"{name}.root" for name in ("own", "root", "own2")]
    subprocess.run([(folder / "hadd").read_text(), tmp_path / "merged.root", *inputs], check=True, capture_output=True)
    assert fb.convert(tmp_path / "merged.root", tmp_path / "again.root").equal
    assert ak.array_equal(fb.open(tmp_path / "again.root").arrays(), fb.open(tmp_path / "merged.root").arrays())
    # as when they are read together
    assert fb.convert(inputs, tmp_path / "converted.root").equal
    assert ak.array_equal(fb.open(tmp_path / "converted.root").arrays(), fb.open(tmp_path / "merged.root").arrays())
