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

// ntuples with a semicolon in the name, one of them behind an object of the same name
void write_semicolons(const char *path) {
    TFile file(path, "RECREATE");
    write_ntuple(file, "a;b", 0);
    write_ntuple(*file.mkdir("sub"), "c;d", 10);
    TNamed other("a;b", "a later object of the same name");
    other.Write();
}
"""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "names"
    folder.mkdir(parents=True, exist_ok=True)
    if not ROOT.gInterpreter.Declare(CODE):
        sys.exit("ROOT does not take the code")
    for name in "shadow", "hidden_ntuple", "hidden_tree", "semicolons":
        write = getattr(ROOT, f"write_{name}")
        write(f"{folder.resolve()}/{name}.root?reproducible={name}")


if __name__ == "__main__":
    main()
