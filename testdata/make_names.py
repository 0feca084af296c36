"""Writes the files of testdata/names with ROOT: names that are there twice, and names that look like others.

Needs PyROOT (6.36 or newer). Run as `python make_names.py [FOLDER]`. Files are written as reproducible.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ROOT

HERE = Path(__file__).resolve().parent

CODE = r"""
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TFile.h>
#include <TH1F.h>
#include <TNamed.h>
#include <TTree.h>

#include <string>
#include <utility>
#include <vector>

struct Named { int run = 0; int lumi = 0; };

// an object with members run and lumi, and branches of these names
void write_shadow(const char *path) {
    TFile file(path, "RECREATE");
    TTree tree("t", "an object, and branches with the names of its members");
    Named named; int run = 0, lumi = 0;
    tree.Branch("ev", &named, 32000, 99);
    tree.Branch("run", &run);
    tree.Branch("lumi", &lumi);
    for (int i = 0; i < 3; ++i) {
        named.run = i; named.lumi = 10 + i; run = 3000 + i; lumi = 4000 + i;
        tree.Fill();
    }
    file.Write();
}

// an ntuple with a field x of 3 entries from `start` on
void write_ntuple(TDirectory &folder, const char *name, int start) {
    auto model = ROOT::RNTupleModel::Create();
    auto x = model->MakeField<int>("x");
    auto writer = ROOT::RNTupleWriter::Append(std::move(model), name, folder);
    for (*x = start; *x < start + 3; ++*x) writer->Fill();
}

void write_hidden_ntuple(const char *path) {
    TFile file(path, "RECREATE");
    write_ntuple(file, "Events", 0);
    TNamed other("Events", "a later object of the same name");
    other.Write();
}

void write_hidden_tree(const char *path) {
    TFile file(path, "RECREATE");
    TTree tree("Events", "a tree");
    int x = 0; tree.Branch("x", &x);
    for (; x < 3; ++x) tree.Fill();
    tree.Write();
    TH1F other("Events", "a later histogram of the same name", 2, 0, 2);
    other.Write();
}

// branches whose names are the same as names of fields, in a tree of this name
void write_branches(const char *path, const char *tree_name, const std::vector<std::pair<const char *, int>> &branches) {
    TFile file(path, "UPDATE");
    TTree tree(tree_name, "branches");
    std::vector<int> values(branches.size());
    for (std::size_t i = 0; i < branches.size(); ++i) {
        tree.Branch(branches[i].first, &values[i], "leaf/I");
        values[i] = branches[i].second;
    }
    tree.Fill();
    tree.Write();
}

// counters with an array each, and one without
void write_counted(const char *path, const std::vector<const char *> &names, int first) {
    TFile file(path, "RECREATE");
    TTree tree("E", "counters");
    std::vector<int> values(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string counter = std::string("n") + names[i], array = names[i];
        tree.Branch(counter.c_str(), &values[i], (counter + "/I").c_str());
        values[i] = array == "Jet" ? 2 : array == "Ak" ? 1 : 3;
    }
    std::vector<std::vector<float>> arrays(names.size(), std::vector<float>(4, 0.5f + first));
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string array = names[i];
        tree.Branch(array.c_str(), arrays[i].data(), (array + "[n" + array + "]/F").c_str());
    }
    tree.Fill();
    tree.Write();
}

void write_dotted(const char *path) { write_branches(path, "E", {{"a.b", 1}, {"a_b", 2}}); }
void write_turned(const char *path) { write_branches(path, "E", {{"a_b", 20}, {"a.b", 10}}); }
void write_plain(const char *path) { write_branches(path, "E", {{"a_b", 200}}); }
void write_only_dotted(const char *path) { write_branches(path, "E", {{"a.b", 100}}); }
void write_spaced(const char *path) {
    write_branches(path, "my tree", {{"x", 1}});
    write_branches(path, "my_tree", {{"x", 2}});
}
void write_unspaced(const char *path) { write_branches(path, "my_tree", {{"x", 3}}); }
void write_counted_one(const char *path) { write_counted(path, {"Jet"}, 0); }
void write_counted_two(const char *path) { write_counted(path, {"Ak", "Jet"}, 1); }

// two cycles of a tree, an ntuple and a histogram, with other content each
void write_cycles(const char *path) {
    write_branches(path, "t", {{"x", 1}});
    write_branches(path, "t", {{"x", 2}});
    TFile file(path, "UPDATE");
    TH1F h("h", "a histogram", 2, 0, 2);
    h.Write();
    h.Fill(0.5);
    h.Write();
}

// ntuples with a semicolon in the name, one of them behind an object of the same name
void write_semicolons(const char *path) {
    TFile file(path, "RECREATE");
    write_ntuple(file, "a;b", 0);
    write_ntuple(*file.mkdir("sub"), "c;d", 10);
    TNamed other("a;b", "a later object of the same name");
    other.Write();
}
"""

NAMES = [
    "shadow",
    "hidden_ntuple",
    "hidden_tree",
    "semicolons",
    "dotted",
    "turned",
    "plain",
    "only_dotted",
    "spaced",
    "unspaced",
    "counted_one",
    "counted_two",
    "cycles",
]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "names"
    folder.mkdir(parents=True, exist_ok=True)
    if not ROOT.gInterpreter.Declare(CODE):
        sys.exit("ROOT does not take the code")
    for name in NAMES:
        write = getattr(ROOT, f"write_{name}")
        path = folder.resolve() / f"{name}.root"
        path.unlink(missing_ok=True)
        write(f"{path}?reproducible={name}")


if __name__ == "__main__":
    main()
