"""Make the TTrees of testdata/ttree with ROOT: every leaf type, baskets of every kind, and versions of a class.

    make_ttrees.py [FOLDER]

It needs a Python that has ROOT. The values are functions of the entry's number; nothing is random.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ROOT

HERE = Path(__file__).resolve().parent

FILL = r"""
#include <bitset>
#include <map>
#include <set>
#include <string>
#include <vector>
#include <TClonesArray.h>
#include <TFile.h>
#include <TLorentzVector.h>
#include <TTree.h>
#include <TVector3.h>

struct Pair { int first; float second[3]; };

void write_leaves(const char *path, int compression, int n_entries, int basket_size, int auto_flush) {
    TFile file(path, "RECREATE", "", compression);
    TTree tree("leaves", "every kind of leaf");
    tree.SetAutoFlush(auto_flush);
    bool o; char b; unsigned char ub; short s; unsigned short us; int i; unsigned int ui; Long64_t l; ULong64_t ul;
    long g; unsigned long ug; float f; double d; Float16_t f16, f16r; Double32_t d32, d32r, d32b; char text[40];
    int grid[2][3]; bool flags[4]; int n; signed char m; float jag[20]; double jag3[20][3]; bool jagged_flags[20];
    Double32_t d32jag[20]; Pair pair;
    std::vector<float> vf; std::vector<bool> vb; std::vector<std::vector<int>> vvi; std::vector<std::string> vs;
    std::string str; std::vector<double> vd;
    tree.Branch("bool", &o, "bool/O"); tree.Branch("int8", &b, "int8/B"); tree.Branch("uint8", &ub, "uint8/b");
    tree.Branch("int16", &s, "int16/S"); tree.Branch("uint16", &us, "uint16/s"); tree.Branch("int32", &i, "int32/I");
    tree.Branch("uint32", &ui, "uint32/i"); tree.Branch("int64", &l, "int64/L"); tree.Branch("uint64", &ul, "uint64/l");
    tree.Branch("long", &g, "long/G"); tree.Branch("ulong", &ug, "ulong/g");
    tree.Branch("float32", &f, "float32/F"); tree.Branch("float64", &d, "float64/D");
    tree.Branch("float16", &f16, "float16/f"); tree.Branch("float16_range", &f16r, "float16_range/f[-3,3,10]");
    tree.Branch("double32", &d32, "double32/d"); tree.Branch("double32_range", &d32r, "double32_range/d[0,100,16]");
    tree.Branch("double32_bits", &d32b, "double32_bits/d[0,0,14]");
    tree.Branch("text", text, "text/C"); tree.Branch("grid", grid, "grid[2][3]/I"); tree.Branch("flags", flags, "flags[4]/O");
    tree.Branch("n", &n, "n/I"); tree.Branch("m", &m, "m/B"); tree.Branch("jag", jag, "jag[n]/F");
    tree.Branch("jag3", jag3, "jag3[n][3]/D"); tree.Branch("jagged_flags", jagged_flags, "jagged_flags[m]/O");
    tree.Branch("d32jag", d32jag, "d32jag[n]/d"); tree.Branch("pair", &pair, "first/I:second[3]/F");
    tree.Branch("vector_float", &vf); tree.Branch("vector_bool", &vb); tree.Branch("vector_vector", &vvi);
    tree.Branch("vector_string", &vs); tree.Branch("string", &str); tree.Branch("vector_double", &vd);
    // the branches have their compression by now: what else is in the file may be small
    file.SetCompressionSettings(101);
    if (basket_size > 0) tree.SetBasketSize("*", basket_size);
    for (int e = 0; e < n_entries; ++e) {
        o = e % 3 == 0; b = char(e - 50); ub = (unsigned char)(3 * e); s = short(-7 * e); us = (unsigned short)(1000 * e);
        i = -e * 100000; ui = 4000000000u + e; l = -e * 10000000000LL; ul = 18000000000000000000ULL + e; g = -e; ug = e;
        f = e * 0.5f; d = e / 7.; f16 = 1.f / (e + 1); f16r = -3 + e * 0.01f; d32 = e / 3.; d32r = e * 0.9; d32b = -e * 1.1;
        snprintf(text, sizeof text, "%.*s", e % 30, "a text of which an entry has a part");
        for (int x = 0; x < 2; ++x) for (int y = 0; y < 3; ++y) grid[x][y] = 100 * e + 10 * x + y;
        for (int x = 0; x < 4; ++x) flags[x] = (e >> x) & 1;
        n = (e * 7) % 11; m = e % 5;
        for (int k = 0; k < n; ++k) {
            jag[k] = e + k / 16.f; d32jag[k] = (e % 10) * 0.9 + k / 20.;
            for (int x = 0; x < 3; ++x) jag3[k][x] = e * 100 + k * 10 + x;
        }
        for (int k = 0; k < m; ++k) jagged_flags[k] = (e + k) % 2;
        pair.first = e; for (int x = 0; x < 3; ++x) pair.second[x] = e + x / 4.f;
        vf.assign(e % 4, e * 0.25f); vb.clear(); for (int k = 0; k < e % 6; ++k) vb.push_back(k % 2);
        vvi.clear(); for (int k = 0; k < e % 3; ++k) vvi.push_back(std::vector<int>(k + 1, e));
        vs.clear(); for (int k = 0; k < e % 4; ++k) vs.push_back(std::string(k * (e % 50), 'x'));
        str = std::string(e % 2 ? e * 3 : 0, 'y'); vd.assign(e % 5, e);
        tree.Fill();
    }
    tree.Write();
}

void write_counted(const char *path, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("counted", "a list of leaves with a counter");
    struct { int n; float x[8][2]; } list;
    tree.Branch("list", &list, "n/I:x[n][2]/F");
    for (int e = 0; e < n_entries; ++e) {
        list.n = e % 5;
        for (int k = 0; k < list.n; ++k) for (int i = 0; i < 2; ++i) list.x[k][i] = e + k / 4.f + 100 * i;
        tree.Fill();
    }
    tree.Write();
}

void write_clamped(const char *path, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("clamped", "arrays with a counter of bytes, of which ROOT writes no more items than the counter's maximum");
    unsigned char n; double d[256]; short s[256][2];
    tree.Branch("nb", &n, "nb/b"); tree.Branch("d", d, "d[nb]/D"); tree.Branch("s", s, "s[nb][2]/S");
    tree.SetAutoFlush(10);
    for (int e = 0; e < n_entries; ++e) {
        n = e == 0 ? 120 : e * 5;
        for (int k = 0; k < 256; ++k) { d[k] = e + k / 4.; s[k][0] = e; s[k][1] = k; }
        tree.Fill();
    }
    tree.Write();
}

void write_bits(const char *path, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("bits", "bitsets");
    std::bitset<12> bits; std::vector<std::bitset<5>> several;
    tree.Branch("bits", &bits); tree.Branch("several", &several);
    for (int e = 0; e < n_entries; ++e) {
        bits = 37 * e; several.clear();
        for (int k = 0; k < e % 3; ++k) several.push_back(std::bitset<5>(e + k));
        tree.Fill();
    }
    tree.Write();
}

void write_objects(const char *path, int split, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("objects", "classes of ROOT");
    auto *vector = new TLorentzVector; auto *position = new TVector3;
    auto *clones = new TClonesArray("TVector3");
    std::vector<TVector3> vectors; std::map<int, float> map; std::map<std::string, std::vector<int>> lists;
    std::set<int> set;
    tree.Branch("p4", &vector, 32000, split); tree.Branch("clones", &clones, 32000, split);
    tree.Branch("vectors", &vectors, 32000, split); tree.Branch("map", &map); tree.Branch("lists", &lists);
    tree.Branch("set", &set);
    for (int e = 0; e < n_entries; ++e) {
        vector->SetPxPyPzE(e, e * 2, e * 3, e * 10);
        clones->Clear();
        for (int k = 0; k < e % 4; ++k) new ((*clones)[k]) TVector3(e, k, e + k);
        vectors.assign(e % 3, TVector3(e, 1, 2));
        map.clear(); lists.clear(); set.clear();
        for (int k = 0; k < e % 3; ++k) {
            map[e + k] = k / 2.f; lists["key " + std::to_string(k)] = std::vector<int>(k, e); set.insert(e - k);
        }
        tree.Fill();
    }
    tree.Write();
}
"""

DERIVED = "#pragma once\nstruct Base { int a; float b; };\nstruct Derived : Base { double c; };\n"

# vectors that are not split are stored member by member, those of bases among them
WRITE_DERIVED = r"""
void write_derived(const char *path, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("derived", "classes with a base");
    std::vector<Derived> items;
    tree.Branch("items", &items, 32000, 0);
    for (int e = 0; e < n_entries; ++e) {
        items.clear();
        for (int k = 0; k < e % 4; ++k) { Derived item; item.a = e; item.b = k / 2.f; item.c = e + k; items.push_back(item); }
        tree.Fill();
    }
    tree.Write();
}
"""

# arrays of a fixed size, of what has no fixed size; what writes itself, also in vectors that are stored member by member
ARRAYS = """#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>
#include <TArrayF.h>
#include <TArrayI.h>
#include <TMatrixT.h>
#include <TMatrixTSym.h>
#include <TString.h>
#include <TVectorT.h>

struct Inner { int a; std::vector<float> v; };
enum Color { red, green = 5, blue = -3 };
struct Arrays {
    std::vector<Color> colors; std::map<int, Color> by[2]; std::array<std::vector<int>, 2> av;
    int n; std::string s[4]; TString ts[3]; std::vector<int> v[2]; Inner in[2]; std::map<int, float> m[2];
    std::string grid[2][2]; std::array<std::string, 2> as; std::vector<Inner> vi[2]; TArrayF af; TArrayI ai[2];
};
struct Counter { int m = 0; };
struct Counted : Counter {
    float *p = nullptr; //[m]
    int k = 0;
    double *q = nullptr; //[k]
};
struct Matrices { TMatrixT<double> d; TMatrixT<float> f; TMatrixTSym<double> s; TVectorT<float> v; TMatrixTSym<float> a[2]; };
"""
WRITE_ARRAYS = r"""
void fill(Arrays &o, int e) {
    auto text = [&](int k) { return "s" + std::to_string(e) + std::string(k, 'x'); };
    o.n = e; o.colors.assign(e % 3, e % 2 ? green : blue);
    for (int k = 0; k < 4; ++k) { o.s[k] = text(k); o.grid[k / 2][k % 2] = text(k + 4); }
    for (int k = 0; k < 3; ++k) o.ts[k] = text(k + 8).c_str();
    for (int k = 0; k < 2; ++k) {
        o.v[k].assign(e % 3 + k, 10 * e + k); o.av[k].assign(e % 2 + k, 10 * e + k);
        o.by[k].clear(); o.by[k][e] = k ? blue : green;
        o.in[k].a = 10 * e + k; o.in[k].v.assign(k + 1, e / 2.f);
        o.m[k].clear(); o.m[k][e] = k;
        o.as[k] = text(k + 11);
        o.vi[k].assign(e % 2 + k, o.in[k]);
        o.ai[k].Set(k + 1); o.ai[k].Reset(e);
    }
    o.af.Set(e % 3); o.af.Reset(e + 0.5f);
}

void fill(Counted &o, int e) {
    delete[] o.p; delete[] o.q;
    o.m = e % 3; o.k = e % 2; o.p = new float[3]; o.q = new double[2];
    for (int k = 0; k < 3; ++k) o.p[k] = 10 * e + k;
    for (int k = 0; k < 2; ++k) o.q[k] = e / 4.;
}

void fill(Matrices &o, int e) {
    o.d.ResizeTo(2, 3); o.f.ResizeTo(e % 3 + 1, 1); o.s.ResizeTo(3, 3); o.v.ResizeTo(e % 3 + 1);
    for (int i = 0; i < 2; ++i) for (int j = 0; j < 3; ++j) o.d(i, j) = 100 * e + 10 * i + j;
    for (int i = 0; i < e % 3 + 1; ++i) o.v(i) = o.f(i, 0) = e + i / 2.f;
    for (int i = 0; i < 3; ++i) for (int j = i; j < 3; ++j) o.s(i, j) = o.s(j, i) = 100 * e + 10 * i + j;
    for (int k = 0; k < 2; ++k) {
        o.a[k].ResizeTo(k + 1, k + 1);
        for (int i = 0; i <= k; ++i) for (int j = i; j <= k; ++j) o.a[k](i, j) = o.a[k](j, i) = e + 10 * i + j;
    }
}

void write_arrays(const char *path, int split, int n_entries) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("arrays", "arrays of a fixed size, and what writes itself");
    Arrays own; Counted counted; Matrices matrices; auto *one = &own; auto *two = &counted; auto *three = &matrices;
    std::vector<Arrays> items; std::map<int, Arrays> map; std::vector<Counted> counts; std::vector<Matrices> more;
    tree.Branch("own.", &one, 32000, split); tree.Branch("items", &items, 32000, split);
    tree.Branch("map", &map, 32000, 0); tree.Branch("counted.", &two, 32000, split);
    tree.Branch("counts", &counts, 32000, split); tree.Branch("matrices.", &three, 32000, split);
    tree.Branch("more", &more, 32000, split);
    for (int e = 0; e < n_entries; ++e) {
        fill(own, e); fill(counted, e); fill(matrices, e);
        items.resize(e % 3); more.resize(e % 3); map.clear(); counts.resize(e % 4);
        for (int k = 0; k < e % 3; ++k) { fill(items[k], e + k); fill(more[k], e + k); fill(map[e + k], e + k); }
        for (int k = 0; k < e % 4; ++k) fill(counts[k], e + k);
        tree.Fill();
    }
    tree.Write();
}
"""

# one process can have one version of a class
VERSION = r"""
#include <TFile.h>
#include <TTree.h>

struct Thing {{
    int first = 0;
    {members}
    ClassDefInlineNV(Thing, {version});
}};

struct Holder {{
    Thing thing;
    ClassDefInlineNV(Holder, 1);
}};

void write_version(const char *path, int start) {{
    TFile file(path, "RECREATE", "", {compression});
    TTree tree("versions", "objects of one class");
    auto *thing = new Thing; auto *holder = new Holder; int number;
    tree.Branch("number", &number, "number/I"); tree.Branch("thing", &thing, 32000, 0);
    tree.Branch("holder", &holder, 32000, 0); tree.Branch("same", &number, "same/I");
    for (number = start; number < start + 200; ++number) {{
        thing->first = holder->thing.first = number;
        tree.Fill();
    }}
    tree.Write();
}}
"""
MEMBERS = {1: "", 2: "double second = 0.5;"}

DICTIONARIES = {
    "vector<vector<int> >": "vector",
    "map<int,float>": "map",
    "map<string,vector<int> >": "map;string;vector",
    "set<int>": "set",
    "vector<TVector3>": "vector;TVector3.h",
    "bitset<12>": "bitset",
    "vector<bitset<5> >": "bitset;vector",
}

LEAVES = {
    "leaves_zlib": (101, 40, 0, -300000),
    "leaves_many_baskets": (505, 60, 500, 20),
    "leaves_none": (0, 5, 400, 0),
    "leaves_lz4": (404, 12, 0, 0),
    "leaves_lzma": (207, 12, 0, 0),
    "leaves_empty": (101, 0, 0, 0),
}

VERSIONS = {"versions": 101, "versions_none": 0, "versions_zstd": 505}


def write_version(path: str, version: int, compression: int) -> None:
    """Write 200 entries with objects of one version of the class."""
    code = VERSION.format(version=version, members=MEMBERS[version], compression=compression)
    if not ROOT.gInterpreter.Declare(code):
        sys.exit("ROOT does not take the code")
    ROOT.write_version(path, 200 * version - 200)


def write_derived(folder: Path) -> None:
    """Write vectors of a class with a base, which is declared in a file of the working directory."""
    Path("derived.h").write_text(DERIVED)
    ROOT.gInterpreter.GenerateDictionary("Base;Derived;vector<Derived>", "derived.h;vector")
    if not ROOT.gInterpreter.Declare('#include "derived.h"' + WRITE_DERIVED):
        sys.exit("ROOT does not take the code")
    ROOT.write_derived(f"{folder}/derived.root?reproducible=derived", 20)


def write_arrays(folder: Path) -> None:
    """Write arrays of a fixed size in objects and vectors, split and not."""
    Path("arrays.h").write_text(ARRAYS)
    names = ["Inner", "Arrays", "Counter", "Counted", "Matrices"]
    classes = [*names, *(f"vector<{name}>" for name in names), "map<int,Arrays>", "map<int,float>"]
    classes += ["vector<Color>", "map<int,Color>"]
    ROOT.gInterpreter.GenerateDictionary(";".join(classes), "arrays.h;vector;map")
    if not ROOT.gInterpreter.Declare('#include "arrays.h"' + WRITE_ARRAYS):
        sys.exit("ROOT does not take the code")
    for split in (0, 1, 99):
        ROOT.write_arrays(f"{folder}/arrays_split{split}.root?reproducible=arrays", split, 6)


def write_versions(folder: Path, name: str, compression: int) -> None:
    """Write a tree whose first 200 entries have objects of version 1, and the next 200 of version 2."""
    for version in MEMBERS:
        options = [str(version), f"{version}.root", str(compression)]
        subprocess.run([sys.executable, Path(__file__).resolve(), "--version", *options], check=True)
    merger = ROOT.TFileMerger(False)
    merger.OutputFile(f"{folder}/{name}.root?reproducible={name}", "RECREATE", compression)
    for version in MEMBERS:
        merger.AddFile(f"{version}.root", False)
    if not merger.Merge():
        sys.exit("ROOT does not merge the versions")


def main() -> None:
    if sys.argv[1:2] == ["--version"]:
        write_version(sys.argv[3], int(sys.argv[2]), int(sys.argv[4]))
        return
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "ttree"
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    os.chdir(tempfile.mkdtemp())  # dictionaries are built in the working directory
    for kind, header in DICTIONARIES.items():
        ROOT.gInterpreter.GenerateDictionary(kind, header)
    if not ROOT.gInterpreter.Declare(FILL):
        sys.exit("ROOT does not take the code")
    for name, options in LEAVES.items():
        ROOT.write_leaves(f"{folder}/{name}.root?reproducible={name}", *options)
    for split in (0, 1, 99):
        ROOT.write_objects(f"{folder}/objects_split{split}.root?reproducible=objects", split, 30)
    ROOT.write_counted(f"{folder}/counted.root?reproducible=counted", 30)
    ROOT.write_clamped(f"{folder}/clamped.root?reproducible=clamped", 40)
    ROOT.write_bits(f"{folder}/bits.root?reproducible=bits", 10)
    write_derived(folder)
    write_arrays(folder)
    for name, compression in VERSIONS.items():
        write_versions(folder, name, compression)


if __name__ == "__main__":
    main()
