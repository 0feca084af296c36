"""Float16_t and Double32_t have the values that ROOT reads, to the last bit: all ranges, in leaves and members."""

import itertools

import numpy as np
import pytest

import femtobarn as fb

LIMITS = ["0,0", "0,10", "10,0", "-1.5,3.7", "-pi,pi", "0,twopi", "-pi/2,pi/2", "0,2pi", "0,pi/4", "-2*pi,0", "3,3"]
RANGES = ["", *(f"[{limits}]" for limits in LIMITS)]
RANGES += [f"[{limits},{bits}]" for limits, bits in itertools.product(LIMITS, range(33))]

# writes a tree and then, for each member, what ROOT reads: its bytes in all entries
WRITE_AND_READ = r"""
import os, sys
import ROOT

folder, ranges = sys.argv[1], sys.argv[2].split(";")
os.chdir(folder)
members, fill, leaves, dump = [], [], [], []
for i, text in enumerate(ranges):
    for kind, leaf in (("Double32_t", "d"), ("Float16_t", "f")):
        members += [f"{kind} {leaf}{i}; //{text}", f"{kind} a{leaf}{i}[2]; //{text}"]
        fill += [f"o.{leaf}{i} = v[e]; o.a{leaf}{i}[0] = v[e] / 3; o.a{leaf}{i}[1] = -v[e];"]
        leaves += [f'tree.Branch("{leaf}{i}", &o.{leaf}{i}, "{leaf}{i}/{leaf}{text}");']
        leaves += [f'tree.Branch("a{leaf}{i}", &o.a{leaf}{i}, "a{leaf}{i}[2]/{leaf}{text}");']
        leaves += [f'tree.Branch("j{leaf}{i}", &o.a{leaf}{i}, "j{leaf}{i}[n]/{leaf}{text}");']
        dump += [f"put(o.{leaf}{i}); put(o.a{leaf}{i});"]
with open("ranges.h", "w") as header:
    includes = "#pragma once\n#include <vector>\n#include <Rtypes.h>\n"
    header.write(includes + "struct Ranges {\n" + "\n".join(members) + "\n};\n")
ROOT.gErrorIgnoreLevel = ROOT.kFatal
code = r'''
#include "ranges.h"
#include <fstream>
#include <TFile.h>
#include <TTree.h>

const double v[] = {0, 0.1, 1.85, -2.5, 3.141, 9.99, 1e-3, 123.4, -77, 5, 6.28, 3, 0.5, -0.5, 1 / 3., 2};

void fill(Ranges &o, int e) { FILL }

struct Put {
    std::ofstream out;
    template <typename T> void operator()(const T &value) { out.write((const char *)&value, sizeof value); }
};

void dump(Put &put, const Ranges &o) { DUMP }

size_t offset_of(const std::string &name) { OFFSETS return 0; }

void leaves(bool is_written) {
    TFile file("leaves.root", is_written ? "RECREATE" : "READ");
    Ranges o{}; int n = 2;
    if (is_written) {
        TTree tree("t", "");
        tree.Branch("n", &n, "n/I");
        LEAVES
        for (int e = 0; e < 16; ++e) { fill(o, e); tree.Fill(); }
        tree.Write();
        return;
    }
    Put put{std::ofstream("leaves.bin")};
    auto *tree = file.Get<TTree>("t");
    tree->SetBranchStatus("j*", false);
    for (auto *branch : *tree->GetListOfBranches()) {
        std::string name = branch->GetName();
        if (name == "n" || name[0] == 'j') continue;
        tree->SetBranchAddress(name.c_str(), (void *)((char *)&o + offset_of(name)));
    }
    for (int e = 0; e < 16; ++e) { tree->GetEntry(e); dump(put, o); }
}

void members(int split) {
    auto path = "members" + std::to_string(split);
    {
        TFile file((path + ".root").c_str(), "RECREATE");
        TTree tree("t", "");
        auto *o = new Ranges; auto *items = new std::vector<Ranges>;
        tree.Branch("o.", &o, 32000, split); tree.Branch("items", &items, 32000, split);
        for (int e = 0; e < 16; ++e) { fill(*o, e); items->assign(2, *o); tree.Fill(); }
        tree.Write();
    }
    TFile file((path + ".root").c_str());
    Put put{std::ofstream(path + ".bin")}, put_items{std::ofstream(path + "_items.bin")};
    auto *tree = file.Get<TTree>("t");
    auto *o = new Ranges; auto *items = new std::vector<Ranges>;
    tree->SetBranchAddress("o.", &o); tree->SetBranchAddress("items", &items);
    for (int e = 0; e < 16; ++e) {
        tree->GetEntry(e);
        dump(put, *o);
        for (auto &item : *items) dump(put_items, item);
    }
}
'''
names = [f"{prefix}{i}" for i in range(len(ranges)) for prefix in ("d", "ad", "f", "af")]
offsets = [f'if (name == "{name}") return offsetof(Ranges, {name});' for name in names]
for name, lines in (("FILL", fill), ("DUMP", dump), ("LEAVES", leaves), ("OFFSETS", offsets)):
    code = code.replace(name, "\n".join(lines))
ROOT.gInterpreter.GenerateDictionary("Ranges;vector<Ranges>", "ranges.h;vector")
assert ROOT.gInterpreter.Declare(code)
ROOT.leaves(True)
ROOT.leaves(False)
for split in (0, 99):
    ROOT.members(split)
os._exit(0)
"""


@pytest.fixture(scope="module")
def folder(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    run_root(WRITE_AND_READ, folder, ";".join(RANGES))
    return folder


def values_of_root(path):
    """Return the columns that ROOT read, in the order of the class."""
    columns = []
    for i in range(len(RANGES)):
        for leaf, dtype in (("d", "f8"), ("f", "f4")):
            columns += [(f"{leaf}{i}", dtype), (f"a{leaf}{i}", dtype, (2,))]
    return np.fromfile(path, np.dtype(columns))


def assert_bits(found, expected, name, text):
    found = np.asarray(found)
    assert found.dtype == expected.dtype, name
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), f"{name} {text}: {found} is {expected} in ROOT"


@pytest.mark.oracle
def test_leaves_have_the_bits_of_root(folder):
    expected = values_of_root(folder / "leaves.bin")
    read = fb.open(folder / "leaves.root").arrays(library="np")
    for name in expected.dtype.names:
        assert_bits(read[name], expected[name], name, RANGES[int(name.lstrip("adf"))])


@pytest.mark.oracle
def test_leaves_with_a_counter_are_read_as_those_without(folder):
    expected = values_of_root(folder / "leaves.bin")
    read = fb.open(folder / "leaves.root").arrays()
    for name in expected.dtype.names:
        if name.startswith("a"):
            found = np.asarray(read["j" + name[1:]])
            assert_bits(found, expected[name], "j" + name[1:], RANGES[int(name.lstrip("adf"))])


@pytest.mark.oracle
@pytest.mark.parametrize("split", [0, 99])
def test_members_have_the_bits_of_root(folder, split):
    read = fb.open(folder / f"members{split}.root").arrays()
    expected = values_of_root(folder / f"members{split}.bin")
    items = values_of_root(folder / f"members{split}_items.bin")
    for name in expected.dtype.names:
        text = RANGES[int(name.lstrip("adf"))]
        # array branches have the dimension in their name
        member = f"{name}[2]" if name.startswith("a") else name
        own = read["o."][name] if split == 0 else read[f"o.{member}"]
        assert_bits(own, expected[name], name, text)
        found = np.asarray(read["items"][name] if split == 0 else read[f"items.{member}"])
        assert_bits(found.reshape(-1, *found.shape[2:]), items[name], f"items.{name}", text)
