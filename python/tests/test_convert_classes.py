"""Trees of classes and of rare baskets, written by ROOT, and their conversions, which ROOT must read."""

from pathlib import Path

import pytest
from test_convert import READ

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Arguments: the file
TREES = """
import os, sys
import ROOT
ROOT.gInterpreter.Declare('''
#include <TArrayF.h>
class Pairs { public: int a = 0; std::pair<int, float> pair; std::pair<int, std::pair<float, short>> nested; };
class Base { public: int b = 0; };
class Left : public Base { public: int l = 0; };
class Right : public Base { public: int r = 0; };
class Both : public Left, public Right { public: int own = 0; };
class Holder { public: int h = 0; Both both; };

void trees(const char* name) {
  TFile file(name, "RECREATE");
  Pairs pairs;
  Both both;
  Holder holder;
  TArrayF array;
  TTree classes("classes", "classes");
  for (int split : {0, 1, 99}) {
    classes.Branch(Form("pairs%d.", split), &pairs, 32000, split);
    classes.Branch(Form("both%d", split), &both, 32000, split);
    classes.Branch(Form("dot%d.", split), &both, 32000, split);
    classes.Branch(Form("holder%d.", split), &holder, 32000, split);
  }
  classes.Branch("array", &array);
  for (int i = 0; i < 6; ++i) {
    pairs.a = i;
    pairs.pair = {i, i * 0.5f};
    pairs.nested = {i, {i * 0.25f, short(-i)}};
    both.Left::b = i;
    both.Right::b = -i;
    both.l = 10 * i;
    both.r = 20 * i;
    both.own = 30 * i;
    holder.both = both;
    array.Set(i % 3);
    for (int j = 0; j < i % 3; ++j) array[j] = i + j;
    classes.Fill();
  }
  TTree places("places", "baskets without the places of their entries");
  ROOT::TIOFeatures features;
  features.Set("kGenerateOffsetMap");
  places.SetIOFeatures(features);
  places.SetAutoFlush(50);
  char text[30];
  int n = 0;
  float x[8] = {};
  std::vector<float> v;
  places.Branch("text", text, "text/C");
  places.Branch("n", &n, "n/I");
  places.Branch("x", x, "x[n]/F");
  places.Branch("v", &v);
  TTree odd("odd", "a counter below zero");
  auto* counter = odd.Branch("n", &n, "n/I");
  auto* items = odd.Branch("x", x, "x[n]/F");
  auto* others = odd.Branch("y", x, "y[n]/F");
  for (int i = 0; i < 120; ++i) {
    n = i % 8;
    snprintf(text, 30, "%s", std::string(i % 29, 'a' + i % 26).c_str());
    for (int j = 0; j < 8; ++j) x[j] = 10 * i + j;
    v.assign(i % 3, i);
    places.Fill();
  }
  for (int i = 0; i < 6; ++i) {
    const bool isNegative = i == 3 || i == 4;
    n = isNegative ? -3 : i;
    counter->Fill();
    n = isNegative ? 0 : i;
    items->Fill();
    others->Fill();
  }
  odd.SetEntries(6);
  file.Write();
}
''')
ROOT.trees(sys.argv[1])
os._exit(0)
"""


@pytest.fixture(scope="module")
def made(run_root, tmp_path_factory):
    """A tree of classes."""
    path = tmp_path_factory.mktemp("classes") / "trees.root"
    run_root(TREES, path)
    return path


def converted(run_root, tree, output, **options):
    """Return the converted tree, which ROOT can read, and the report."""
    report = fb.convert(tree, output, **options)
    assert report.equal is True
    name = tree.rsplit(":", 1)[1]
    read = Path(f"{output}.read")
    run_root(READ, read, f"{output}|{name}")
    assert read.read_text() == str(output)
    return fb.open(output), report


def test_the_members_of_pairs_have_roots_numbers(run_root, made, tmp_path):
    """They were `first` and `second` in a `std::pair`, at which ROOT crashed."""
    ntuple, report = converted(run_root, f"{made}:classes", tmp_path / "out.root", fields="pairs*")
    assert report.skipped == ()
    want = [{"a": i, "pair": (i, i / 2), "nested": (i, (i / 4, -i))} for i in range(6)]
    assert ntuple["pairs0"].array().to_list() == want
    assert ntuple["pairs0"].typename == ""
    assert ntuple["pairs0.pair"].typename == "std::pair<std::int32_t,float>"
    assert fb.open(f"{made}:classes")["pairs0."].array().to_list()[3]["pair"] == {"first": 3, "second": 1.5}


def test_a_base_that_a_class_has_twice_is_a_record_as_in_split_objects(run_root, made, tmp_path):
    """Such classes were left out, and the message about two members named "field" did not name the branch."""
    options = {"fields": ["both*", "dot*", "holder*"]}
    ntuple, report = converted(run_root, f"{made}:classes", tmp_path / "out.root", **options)
    assert report.skipped == ()
    left = {"Base": {"b": 5}, "l": 50}
    want = {"Left": left, "Right": {"Base": {"b": -5}, "r": 100}, "own": 150}
    for name in "both0", "both99", "dot0", "dot99":
        assert ntuple[name].array().to_list()[5] == want, name
    assert ntuple["holder0"].array().to_list()[5] == {"h": 0, "both": want}
    assert fb.open(f"{made}:classes")["both0"].array().fields == ["b#0", "l", "b#1", "r", "own"]


def test_arrays_of_root_are_branches_of_their_own(run_root, made, tmp_path):
    """They were left out, as their counters are in a base class."""
    want = [[], [1], [2, 3], [], [4], [5, 6]]
    assert fb.open(f"{made}:classes")["array"].array().to_list() == want
    ntuple, _ = converted(run_root, f"{made}:classes", tmp_path / "out.root", fields="array")
    assert ntuple["array"].array().to_list() == want
    assert ntuple["array"].typename == "std::vector<float>"


def test_baskets_may_have_sizes_instead_of_places(run_root, made, tmp_path):
    """With kGenerateOffsetMap, strings were left out: the sizes of their entries were taken for offsets."""
    tree = fb.open(f"{made}:places")
    texts = [chr(ord("a") + i % 26) * (i % 29) for i in range(120)]
    assert tree["text"].array().to_list() == texts
    assert tree["text"].array(entry_start=33, entry_stop=77).to_list() == texts[33:77]
    assert tree["x"].array().to_list() == [[10 * i + j for j in range(i % 8)] for i in range(120)]
    ntuple, report = converted(run_root, f"{made}:places", tmp_path / "out.root")
    assert report.skipped == ()
    assert ntuple.arrays(["text", "v"]).to_list() == tree.arrays(["text", "v"]).to_list()


def test_a_negative_counter_keeps_its_values(run_root, made, tmp_path):
    """As a collection's number of items it silently became zero."""
    ntuple, report = converted(run_root, f"{made}:odd", tmp_path / "out.root")
    note = 'is a separate vector: "n" is negative in 2 entries, where the list is empty'
    assert report.notes == {"x": note, "y": note}
    assert ntuple["n"].array().to_list() == [0, 1, 2, -3, -3, 5]
    assert [len(x) for x in ntuple["x"].array()] == [0, 1, 2, 0, 0, 5]
    alone = fb.convert(f"{made}:odd", tmp_path / "alone.root", drop="n")
    assert alone.notes == {}
