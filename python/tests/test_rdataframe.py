"""RDataFrame over femtobarn, compared with ROOT's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle

COMPARE = Path(__file__).parent / "oracle" / "rdataframe_against_root.py"

SMALL = {
    "lists": "lists.root",
    "Events": "imported.root",
    "clusters": "clusters.root",
    "late": "extension_late.root",
    "extension_nested": "extension_nested.root",
    "projected": "extension_projected.root",
    "double32": "double32.root",
    "representations": "representations.root",
    "untyped": "untyped.root",
    "groups": "groups.root",
}
REAL = {
    "Events": "rntuple/nano_dy_rntuple.root",
    "PreSelection": "rntuple/treemaker_rntuple.root",
    "Staff": "rntuple/ntpl001_staff_rntuple_v1-0-1-0.root",
    "ntuple": "rntuple/test_extension_columns_rntuple_v1-0-0-0.root",
}
# With the columns that are not compared, since ROOT cannot read them: TRef and TRefArray
TREES = {
    "events=ttree/hzz_zlib.root": (),
    "events=ttree/edm4hep.root": (),
    "events=ttree/fcc_spring2021.root": (),
    "PreSelection=coffea/treemaker.root": (),
    "Delphes=ttree/delphes_10.root": (
        *("EFlowNeutralHadron.Particles", "EFlowPhoton.Particles", "EFlowTrack.Particle", "Track.Particle", "Particle"),
        *(f"{name}.{refs}" for name in ("GenJet", "Jet", "Particle") for refs in ("Constituents", "Particles")),
    ),
}


@pytest.fixture
def compare(run_root):
    """A function that compares all columns of files; returns a result for each."""
    run_root("")  # insists on ROOT

    def run(*arguments):
        command = [sys.executable, str(COMPARE), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        return [json.loads(line) for line in lines]

    return run


def inputs(folder, names):
    return [f"{name}={folder / file}" for name, file in names.items()]


def check(found):
    """All columns are there, and equal."""
    assert found["compared"] > 0
    assert found["differ"] == {}
    assert found["errors"] == {}
    assert found["only_root"] == {}
    assert found["only_femtobarn"] == []


def check_tree(found):
    """Columns have the types and values of ROOT. In addition, members of objects in one branch are columns.

    ROOT notes in the bits of a TObject how its memory was made; they are compared in whole objects only.
    """
    assert found["compared"] > 0
    assert {name for name in found["differ"] if name.split(".")[-1] != "fBits"} == set()
    assert found["types"] == {}
    assert found["errors"] == {}
    for name in found["only_femtobarn"]:
        assert "." in name or "#" in name, name  # "#2" is the second branch of a name


def test_all_columns_are_those_of_root(compare, testdata):
    results = compare(*inputs(testdata / "rntuple", SMALL))
    assert len(results) == len(SMALL)
    for found in results:
        check(found)
        assert found["types"] == {}


@pytest.mark.parametrize("threads", [0, 3])
def test_several_files_give_the_same_in_blocks_and_on_several_threads(compare, testdata, threads):
    files = ",".join([str(testdata / "dimuon.root")] * 3)
    (found,) = compare(f"Events={files}", "--threads", threads, "--block", 100_000)
    check(found)
    assert found["types"] == {}
    assert found["entries"] == 36_000


def test_real_rntuples_are_those_of_root(compare, shared):
    for found in compare(*inputs(shared, REAL), "--most", 40):
        check(found)
        assert found["types"] == {}


@pytest.mark.parametrize("tree", TREES)
def test_trees_have_the_columns_that_root_reads(compare, shared, samples, tree):
    """Columns that ROOT lists, but cannot read itself, are not compared: those of classes without a dictionary."""
    name, file = tree.split("=")
    folder = samples if file.startswith("coffea/") else shared
    (found,) = compare(f"{name}={folder / file.removeprefix('coffea/')}", "--without", *TREES[tree])
    # vectors in a vector are those that RDataFrame has for RNTuples
    others = [native for native, _ in found["types"].values()]
    assert all(native.startswith("ROOT::VecOps::RVec<vector<") for native in others)
    check_tree(found | {"types": {}})
    assert set(found["only_root"].values()) <= {"TClonesArray"}  # of classes without a dictionary: their number


def test_maps_and_sets_are_those_of_root(compare, testdata):
    """Collections without a dictionary, which ROOT would read into memory of another layout, are errors."""
    (found,) = compare(f"associative={testdata / 'rntuple/associative.root'}")
    assert found["differ"] == {}
    assert found["compared"] > 20
    assert all("ROOT has no dictionary of this collection" in error for error in found["errors"].values())


PROGRAM = """
import sys, warnings
warnings.filterwarnings("ignore")
import ROOT
import femtobarn as fb

optional = fb.rdataframe(sys.argv[1] + "/rntuple/sums.root")
taken = optional.Take["std::optional<float>"]("optional").GetValue()
values = [x.value() if x.has_value() else None for x in taken]
assert str(values) == str(fb.open(sys.argv[1] + "/rntuple/sums.root")["optional"].array().tolist())  # some are NaN

variants = [f.name for f in fb.open(sys.argv[1] + "/rntuple/sums.root").fields if "variant" in f.typename]
assert variants
for name in variants:  # a reader that failed would end the process
    assert not optional.HasColumn(name)
    try:
        optional.Take["std::variant<int, float>"](name)
    except Exception as error:
        assert "nknown column" in str(error), str(error)
    else:
        raise AssertionError(name)

# files with bits, which ROOT's own reader does not open
mixed = fb.open(sys.argv[1] + "/rntuple/mixed_zstd.root")
frame = fb.rdataframe(mixed)
assert frame.Count().GetValue() == mixed.num_entries

events = fb.rdataframe([sys.argv[1] + "/dimuon.root"] * 2, "Events", block_size=50_000)
wide = events.Take["std::vector<double>"]("Muon_pt").GetValue()
assert [list(x) for x in wide] == fb.concatenate([sys.argv[1] + "/dimuon.root:Events"] * 2, ["Muon_pt"])[
    "Muon_pt"
].to_list()
per_file = events.DefinePerSample("file", 'rdfsampleinfo_.AsString()').Take["std::string"]("file").GetValue()
assert {str(x) for x in per_file} == {sys.argv[1] + "/dimuon.root/Events"}, {str(x) for x in per_file}
assert events.Range(10).Count().GetValue() == 10
assert events.Count().GetValue() == 24_000
sizes = events.Sum("#Muon_pt").GetValue()
assert sizes == events.Sum("nMuon").GetValue() > 0

for column, kind, said in (
    ("Muon_pt", "int", "it has no single numbers"),
    ("nMuon", "float", "it has integers"),
    ("Muon_charge", "ROOT::RVec<std::uint32_t>", "a value does not fit"),
):
    try:
        events.Take[kind](column).GetValue()
    except Exception as error:
        assert said in str(error), (column, str(error))
    else:
        raise AssertionError(column)
try:
    fb.rdataframe(sys.argv[1] + "/none.root")
except fb.NotFoundError:
    pass
else:
    raise AssertionError("none.root")
"""


def test_optional_values_conversions_samples_and_errors(run_root, testdata):
    run_root(PROGRAM, testdata)


SNAPSHOT = """
import sys, warnings
warnings.filterwarnings("ignore")
import numpy as np
import ROOT
import uproot
import femtobarn as fb

folder = sys.argv[2]
columns = ["event", "nMuon", "Muon_pt"]
output = ROOT.RDF.RSnapshotOptions()
for kind in (ROOT.RDF.ESnapshotOutputFormat.kTTree, ROOT.RDF.ESnapshotOutputFormat.kRNTuple):
    output.fOutputFormat = kind
    for threads in (0, 2):
        if threads:
            ROOT.EnableImplicitMT(threads)
        frame = fb.rdataframe(sys.argv[1] + "/dimuon.root", "Events").Filter("nMuon >= 3")
        frame.Snapshot("Events", folder + "/snapshot.root", columns, output)
        found = fb.open(folder + "/snapshot.root:Events").arrays(columns)
        wanted = fb.open(sys.argv[1] + "/dimuon.root").arrays(columns, cut="nMuon >= 3")
        order = np.argsort(found.event)
        assert found[order].to_list() == wanted.to_list(), (kind, threads)
        ROOT.DisableImplicitMT()

with uproot.recreate(folder + "/arrays.root") as file:
    file.mktree("T", {"cov": np.dtype(("f4", (3, 3))), "flag": "?", "thin": np.dtype(("f4", (3, 1)))})
    numbers = np.arange(90, dtype="f4")
    columns = {"cov": numbers.reshape(10, 3, 3), "flag": np.arange(10) % 3 == 0, "thin": numbers[:30].reshape(10, 3, 1)}
    file["T"].extend(columns)
path = folder + "/arrays.root"
own, native = fb.rdataframe(path, "T"), ROOT.RDataFrame("T", path)
assert own.GetColumnType("cov") == "ROOT::VecOps::RVec<float>"
for value in ("double(cov[5])", "double(cov.size())", "double(flag)", "Sum(cov) * 1.", "thin[2] * 1."):
    assert own.Define("x", value).Sum("x").GetValue() == native.Define("x", value).Sum("x").GetValue(), value
own.Snapshot("T", folder + "/copy.root", ["cov", "flag"])
copy = fb.open(folder + "/copy.root:T").arrays()
assert copy.cov.to_list() == np.arange(90).reshape(10, 9).tolist()
assert copy.flag.to_list() == [i % 3 == 0 for i in range(10)]
"""


def test_snapshots_have_the_values_of_all_entries(run_root, testdata, tmp_path):
    """TTree::Branch takes the address of the first value; and arrays of a TTree are flat, as RDataFrame has them."""
    run_root(SNAPSHOT, testdata, tmp_path)


RUN_GRAPHS = """
import sys, ROOT
import femtobarn as fb
ROOT.EnableImplicitMT(2)
counts = [fb.rdataframe(sys.argv[1], "Events").Filter("nMuon == 2").Count() for _ in range(32)]
ROOT.RDF.RunGraphs(counts)
print(*{count.GetValue() for count in counts})
"""


def test_graphs_that_run_at_the_same_time_do_not_wait_for_each_other(run_root, dimuon):
    """RunGraphs holds the GIL while threads of ROOT read."""
    run_root("")  # insists on ROOT
    command = [sys.executable, "-c", RUN_GRAPHS, dimuon]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["9741"], done.stderr


CLASSES = """
import sys, warnings
warnings.filterwarnings("ignore")
import ROOT
import femtobarn as fb

path = sys.argv[1] + "/classes.root"
file, tree = ROOT.TFile(path, "RECREATE"), ROOT.TTree("t", "")
split, whole = ROOT.TLorentzVector(), ROOT.TLorentzVector()
many, particle = ROOT.std.vector("TLorentzVector")(), ROOT.TParticle()
tree.Branch("split", split, 32000, 99)
tree.Branch("whole", whole, 32000, 0)
tree.Branch("many", many)
tree.Branch("particle", particle)
for i in range(1000):
    split.SetPtEtaPhiM(i + 1, 0.001 * i, 0.002 * i, 1)
    whole.SetPtEtaPhiM(2 * i + 1, 0.002 * i, 0.001 * i, 2)
    many.clear()
    for k in range(i % 5):
        many.push_back(split + whole * k)
    particle.SetMomentum(split)
    particle.SetLastMother(i)
    tree.Fill()
tree.Write()
file.Close()
for threads in (0, 3):
    if threads:
        ROOT.EnableImplicitMT(threads)
    own, native = fb.rdataframe(path, "t", block_size=20_000), ROOT.RDataFrame("t", path)
    for column in map(str, native.GetColumnNames()):
        if "." not in column and not column.startswith("f"):
            assert own.GetColumnType(column) == native.GetColumnType(column), column
    for value in (
        "split.Pt()",
        "whole.Eta() + split.DeltaPhi(whole)",
        "double(many.size())",
        "many.size() > 2 ? many[2].M() : 0.",
        "(many.empty() ? split : many.back()).E()",
        "particle.Phi() + particle.GetMother(1)",
    ):
        # threads take entries in any order
        found = [sorted(frame.Define("x", value).Take["double"]("x").GetValue()) for frame in (own, native)]
        assert found[0] == found[1] and len(set(found[0])) > 4, value
vectors = own.Take["std::vector<TLorentzVector>"]("many").GetValue()
assert sum(len(one) for one in vectors) == 2000
print("done")
"""


def test_classes_that_only_trees_store_are_whole(run_root, tmp_path):
    """RNTuple cannot store TLorentzVector and other classes, so ROOT has no fields of them."""
    assert run_root(CLASSES, tmp_path).split() == ["done"]


MEMBERS = """
import sys, warnings
warnings.filterwarnings("ignore")
import ROOT
import femtobarn as fb

ROOT.gInterpreter.Declare('''
struct FbMixed { TString text; Float16_t half = 0; TLorentzVector pair[2]; int n = 0; };
double all_of(const FbMixed &m) {
    return m.text.Length() + m.half + m.pair[0].Px() + 2 * m.pair[1].Py() + m.n;
}
double number_of(const ROOT::RVec<std::vector<TLorentzVector>> &n) {
    return n.size() > 1 ? n[1].size() + n[1][1].Px() : n.size();
}
''')
path = sys.argv[1] + "/members.root"
file, tree = ROOT.TFile(path, "RECREATE"), ROOT.TTree("t", "")
mixed, nested = ROOT.FbMixed(), ROOT.std.vector("std::vector<TLorentzVector>")()
tree.Branch("mixed", mixed, 32000, 0)
tree.Branch("nested", nested)
wanted = []
for i in range(100):
    mixed.text, mixed.half, mixed.n = "x" * (i % 40), i / 4, i
    for k in range(2):
        mixed.pair[k].SetPxPyPzE(i, k, 1, 1000)
    nested.clear()
    for k in range(i % 3):
        nested.push_back(ROOT.std.vector("TLorentzVector")(k + 1, mixed.pair[1]))
    wanted.append(i % 3 if i % 3 < 2 else 2 + i)
    tree.Fill()
tree.Write()
file.Close()
own, native = fb.rdataframe(path, "t"), ROOT.RDataFrame("t", path)
assert own.GetColumnType("mixed") == native.GetColumnType("mixed") == "FbMixed"
found = [list(frame.Define("x", "all_of(mixed)").Take["double"]("x").GetValue()) for frame in (own, native)]
assert found[0] == found[1] and len(set(found[0])) == 100
found = list(own.Define("x", "number_of(nested)").Take["double"]("x").GetValue())
assert found == wanted
print("done")
"""


def test_classes_with_strings_short_floats_and_arrays_of_objects_are_whole(run_root, tmp_path):
    """ROOT's own dataframe needs a dictionary for vectors of vectors, so these are compared with what was written."""
    assert run_root(MEMBERS, tmp_path).split() == ["done"]


SPLIT_CLASSES = """
#pragma once
#include <Math/Point3D.h>
#include <Math/Vector4D.h>
#include <TClonesArray.h>
#include <TFile.h>
#include <TLorentzVector.h>
#include <TNamed.h>
#include <TObjString.h>
#include <TTree.h>
#include <map>
#include <string>
#include <vector>

struct FbInner { int a = 0; float b = 0; };
struct FbPlain { int plain_a = 0; FbInner plain_inner; };
class FbBase : public TNamed { public: double weight = 0; ClassDef(FbBase, 1) };
class FbEvent : public FbBase {
public:
    FbInner inner; std::vector<FbInner> list; std::vector<float> values; TLorentzVector p4; TString text;
    std::string name; float three[3] = {}; std::map<std::string, int> counts;
    ClassDef(FbEvent, 1)
};
class FbHit : public TNamed {
public:
    int channel = 0; FbInner inner; std::vector<float> samples; float ends[2] = {}; TString text;
    ClassDef(FbHit, 1)
};
#ifdef __CLING__
#pragma link C++ class FbInner+;
#pragma link C++ class FbPlain+;
#pragma link C++ class FbBase+;
#pragma link C++ class FbEvent+;
#pragma link C++ class FbHit+;
#pragma link C++ class std::vector<FbInner>+;
#pragma link C++ class std::vector<ROOT::Math::PtEtaPhiMVector>+;
#pragma link C++ class std::vector<FbHit>+;
#pragma link C++ class std::map<int, FbInner>+;
#pragma link C++ function WriteSplit;
#endif

inline void FillHit(FbHit &hit, int i, int k) {
    hit.SetName(TString::Format("h%d", k));
    hit.channel = 10 * i + k;
    hit.inner = {k, i / 2.f};
    hit.text = std::string(k, 'z').c_str();
    hit.samples.assign(k, i + 0.5f);
    hit.ends[0] = i;
    hit.ends[1] = k;
}

inline void WriteSplit(const char *path) {
    TFile file(path, "RECREATE");
    TTree tree("t", "");
    tree.SetAutoFlush(7);
    ROOT::Math::PtEtaPhiMVector vector;
    ROOT::Math::XYZPoint point;
    std::vector<ROOT::Math::PtEtaPhiMVector> vectors;
    std::vector<FbHit> hits;
    TNamed named, whole;
    TObjString text;
    TClonesArray clones("TVector3"), hit_clones("FbHit");
    std::map<std::string, double> words;
    std::map<int, FbInner> inners;
    std::pair<int, float> pair;
    FbEvent event;
    FbPlain plain;
    tree.Branch("p4", &vector);
    tree.Branch("dot.", &vector);
    tree.Branch("point", &point);
    tree.Branch("vectors", &vectors);
    tree.Branch("hits", &hits);
    tree.Branch("named", &named);
    tree.Branch("text", &text);
    tree.Branch("clones", &clones);
    tree.Branch("hit_clones", &hit_clones);
    tree.Branch("words", &words);
    tree.Branch("inners", &inners);
    tree.Branch("event.", &event);
    tree.Branch("plain", &plain);
    tree.Branch("pair", &pair);
    tree.Branch("whole", &whole, 32000, 0);
    tree.Branch("level1", &vector, 32000, 1);
    for (int i = 0; i < 50; ++i) {
        vector.SetCoordinates(i + 0.5, 0.01 * i, 0.02 * i, 3);
        point.SetXYZ(1, i, 0.1 * i);
        named.SetNameTitle(TString::Format("n%d", i), std::string(i % 3 * 200, 't').c_str());
        named.SetUniqueID(i);
        named.SetBit(1 << 15, i % 2 == 0);
        whole.SetNameTitle(std::string(i * 20, 'w').c_str(), TString::Format("t%d", i));
        text.SetString(std::string(i, 's').c_str());
        plain = {i, {2 * i, i / 2.f}};
        pair = {i, i / 4.f};
        event.SetName(TString::Format("e%d", i));
        event.weight = i / 8.;
        event.inner = {i, 1};
        event.text = std::string(i % 4, 'x').c_str();
        event.name = std::string(i % 5, 'y');
        event.p4.SetPxPyPzE(i, 1, 2, 100);
        for (int k = 0; k < 3; ++k) event.three[k] = i + k;
        vectors.clear(); hits.clear(); words.clear(); inners.clear();
        event.list.clear(); event.values.clear(); event.counts.clear();
        clones.Clear();
        hit_clones.Clear("C");
        for (int k = 0; k < i % 4; ++k) {
            vectors.push_back(vector * (k + 1));
            static_cast<TVector3 *>(clones.ConstructedAt(k))->SetXYZ(i, k, 1);
            FillHit(*static_cast<FbHit *>(hit_clones.ConstructedAt(k)), i, k);
            hits.emplace_back();
            FillHit(hits.back(), i, k);
            words["w" + std::to_string(k)] = i / 3.;
            inners[k] = {i, 1.f * k};
            event.list.push_back({i, 1.f * k});
            event.values.push_back(i + k);
            event.counts["c" + std::to_string(k)] = i;
        }
        tree.Fill();
    }
    tree.Write();
}
"""

WRITE_SPLIT = """
import sys
import ROOT

folder = sys.argv[1]
assert ROOT.gSystem.CompileMacro(folder + "/split.h", "kO")
ROOT.WriteSplit(folder + "/split.root")
"""


# Not compared: branches of base classes, which ROOT lists as objects of the class that has the base; event.list and
# event.counts, which are numbers of items for ROOT, and the collections here; hits.samples and hit_clones.samples,
# vectors in the items of a split collection, at which ROOT 6.40 crashes
SPLIT = [
    *("p4", "dot.", "point", "vectors", "hits", "named", "text", "clones", "hit_clones", "words"),
    *("inners", "event."),
    *("plain", "pair", "whole", "level1", "p4.fCoordinates", "dot.fCoordinates", "event.inner", "event.p4"),
    *(
        "p4.fCoordinates.fPt",
        "dot.fCoordinates.fM",
        "fCoordinates.fPhi",
        "point.fCoordinates.fX",
        "vectors.fCoordinates.fPt",
    ),
    *("hits.channel", "hits.inner.b", "hits.ends[2]", "hit_clones.ends[2]", "clones.fX", "named.fName", "named.fTitle"),
    *("text.fString", "inners.first", "inners.second.b", "words.second", "event.FbBase.weight", "event.FbBase.fName"),
    *("event.list.a", "event.counts.second", "event.values", "event.three[3]", "event.text", "event.name"),
    *("plain.plain_a", "plain_a", "plain.plain_inner.b", "plain_inner", "pair.first", "second", "level1.fCoordinates"),
]


@pytest.mark.parametrize("threads", [0, 3])
def test_split_classes_have_the_columns_that_root_reads(compare, run_root, tmp_path, threads):
    """By ROOT's names, with and without a dot at the end; and whole objects, with their bases and containers."""
    (tmp_path / "split.h").write_text(SPLIT_CLASSES)
    run_root(WRITE_SPLIT, tmp_path)
    load = [tmp_path / "split_h.so", tmp_path / "split.h"]
    options = ["--threads", threads, "--block", 3000, "--columns", *SPLIT]
    (found,) = compare(f"t={tmp_path / 'split.root'}", "--load", *load, *options)
    check_tree(found)
    assert found["only_root"] == {}
    assert found["compared"] == len(SPLIT)


DAMAGED = """
import sys, warnings
warnings.filterwarnings("ignore")
import numpy as np
import ROOT
import uproot
import femtobarn as fb

path = sys.argv[1] + "/damaged.root"
with uproot.recreate(path) as file:
    columns = {name: np.arange(1000) * n for n, name in enumerate(("good", "bad", "other"), 1)}
    file.mktree("t", {name: "i8" for name in columns}).extend(columns)
start = uproot.open(path)["t"]["bad"].member("fBasketSeek")[0]
data = bytearray(open(path, "rb").read())
data[start + 100 : start + 200] = bytes(100)
open(path, "wb").write(data)
for threads in (0, 2):
    if threads:
        ROOT.EnableImplicitMT(threads)
    frame = fb.rdataframe(path, "t")
    for _ in range(2):
        bad, good = frame.Sum("bad"), frame.Sum("good")
        try:
            bad.GetValue()
        except Exception as error:
            assert '"bad"' in str(error), str(error)
        else:
            raise AssertionError("bad was read")
        del bad, good  # ROOT gives no results of an event loop that failed
        assert frame.Sum("good").GetValue() == 499_500
        assert frame.Sum("other").GetValue() == 3 * 499_500
        assert frame.Filter("good > 997").Count().GetValue() == 2
print("done")
"""


def test_a_column_that_cannot_be_read_does_not_spoil_others(run_root, tmp_path):
    """Readers of an event loop that failed remain in the dataframe."""
    assert run_root(DAMAGED, tmp_path).split() == ["done"]
