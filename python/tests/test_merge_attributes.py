"""Attribute sets in merges: ranges refer to the same entries in the output."""

import shutil
from pathlib import Path

import awkward as ak
import pytest
from compare import same

import femtobarn as fb

ROOT_MADE = Path(__file__).resolve().parents[2] / "testdata" / "rntuple" / "attributes.root"

# Arguments: the file, ntuple and attribute set
READ = """
import os, sys, ROOT
reader = ROOT.RNTupleReader.Open(sys.argv[2], sys.argv[1])
set_ = reader.OpenAttributeSet(sys.argv[3])
print(reader.GetNEntries(), set_.GetNEntries())
for i in range(set_.GetNEntries()):
    range_ = set_.LoadEntry(i)
    print(range_.GetStart(), range_.GetLength())
sys.stdout.flush()
os._exit(0)
"""


def make(path, n, sets):
    """Make a file of n entries, with sets of ranges and values."""
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32"})
        about = {name: ntuple.mkattributes(name, spec) for name, (spec, _) in sets.items()}
        ntuple.extend({"n": list(range(n))})
        for name, (_, rows) in sets.items():
            for start, stop, values in rows:
                about[name].append(start, stop, values)
    return path


def rows(path, name):
    """Return ranges and values of an attribute set."""
    found = fb.open(path).attributes[name].arrays()
    starts, lengths = (ak.to_list(found[field]) for field in ("_rangeStart", "_rangeLen"))
    return [(a, a + n, value) for a, n, value in zip(starts, lengths, ak.to_list(found["_userData"]), strict=True)]


SPEC = {"input": "std::string", "options": "var * string"}


def said(text, *options):
    return {"input": text, "options": list(options)}


@pytest.fixture
def files(tmp_path):
    one = make(
        tmp_path / "one.root",
        10,
        {"made": (SPEC, [(0, 4, said("a", "x")), (4, 10, said("b")), (3, 3, said("nothing"))])},
    )
    two = make(tmp_path / "two.root", 5, {"made": (SPEC, [(1, 5, said("c", "y", "z"))]), "lumi": ({"l": "float"}, [])})
    three = make(tmp_path / "three.root", 3, {"lumi": ({"l": "float"}, [(0, 3, {"l": 2.5}), (0, 1, {"l": 0.5})])})
    none = make(tmp_path / "none.root", 7, {})
    return one, two, three, none


ALL = {
    "made": [(0, 4, said("a", "x")), (4, 10, said("b")), (3, 3, said("nothing")), (18, 22, said("c", "y", "z"))],
    "lumi": [(22, 25, {"l": 2.5}), (22, 23, {"l": 0.5})],
}


@pytest.mark.parametrize("options", [{}, {"level": "L4"}, {"mode": "union"}, {"others": "first"}], ids=str)
def test_sets_of_one_name_are_joined(files, tmp_path, options):
    one, two, three, none = files
    output = tmp_path / "out.root"
    report = fb.merge([one, none, two, three], output, **options)
    assert set(fb.open(output).attributes) == set(ALL)
    assert {name: rows(output, name) for name in ALL} == ALL
    assert not report.left_behind
    assert fb.open(output).verify().ok
    assert fb._core.cli_main(["verify", str(output)]) == 0


def test_an_append_goes_on_with_the_sets_of_the_output(files, tmp_path):
    one, two, three, none = files
    output = tmp_path / "out.root"
    shutil.copy(one, output)
    for path in (none, two, three):
        fb.merge(path, output, append=True)
    assert {name: rows(output, name) for name in ALL} == ALL
    with pytest.raises(fb.FemtobarnError, match="its fields differ"):
        fb.merge(make(tmp_path / "odd.root", 1, {"lumi": ({"l": "double"}, [])}), output, append=True)
    assert {name: rows(output, name) for name in ALL} == ALL


def test_clones_cut_ranges(files, tmp_path):
    output = tmp_path / "out.root"
    fb.clone(files[0], output, overwrite=True)
    assert rows(output, "made") == ALL["made"][:3]
    fb.clone(files[0], output, entries=range(2, 6), overwrite=True)
    assert rows(output, "made") == [(0, 2, said("a", "x")), (2, 4, said("b")), (1, 1, said("nothing"))]
    report = fb.clone(files[0], output, entries=range(5, 6), overwrite=True)
    assert (0, 1, said("b")) in rows(output, "made")
    (left,) = report.left_behind
    assert (left.name, left.reason) == ("Events made", "1 of its ranges have no entries in the output")
    fb.reshape(files[0], output, compression="lz4:4", overwrite=True)
    assert rows(output, "made") == ALL["made"][:3]


def test_skims_say_of_ranges_what_is_left_of_them(files, tmp_path):
    output = tmp_path / "out.root"
    fb.skim([files[0], files[3], files[1]], output, where="n % 2 == 1", overwrite=True)
    # of 10, 7 and 5 entries, 5, 3 and 2 are left
    assert [row[:2] for row in rows(output, "made")] == [(0, 2), (2, 5), (1, 1), (8, 10)]
    fb.skim(files[0], output, where="n < 4", overwrite=True)
    assert [row[:2] for row in rows(output, "made")] == [(0, 4), (3, 3)]
    fb.skim(files[0], output, where="n < 0", overwrite=True)
    assert rows(output, "made") == [(0, 0, said("nothing"))]


def test_other_fields_are_an_error_that_names_both_files(files, tmp_path):
    odd = make(tmp_path / "odd.root", 1, {"made": ({"input": "int32"}, [])})
    output = tmp_path / "out.root"
    with pytest.raises(fb.UsageError, match=r"odd\.root.*its fields differ from .*one\.root") as error:
        fb.merge([files[0], odd], output)
    assert "--others drop" in str(error.value)
    assert not output.exists()
    report = fb.merge([files[0], odd], output, others="drop")
    assert fb.open(output).attributes == {}
    assert {(left.name, left.class_name) for left in report.left_behind} == {("Events made", "attribute set")}


def test_sets_that_root_wrote_are_merged(tmp_path):
    output = tmp_path / "out.root"
    before = fb.open({ROOT_MADE: "main"})
    fb.merge([f"{ROOT_MADE}:main"] * 3, output)
    after = fb.open(output)
    assert list(after.attributes) == list(before.attributes)
    n = before.num_entries
    for name, one in before.attributes.items():
        old, new = one.arrays(), after.attributes[name].arrays()
        for k in range(3):
            part = new[k * len(old) : (k + 1) * len(old)]
            assert (part["_rangeStart"] == old["_rangeStart"] + k * n).tolist() == [True] * len(old)
            assert (part["_rangeLen"] == old["_rangeLen"]).tolist() == [True] * len(old)
            assert same(part["_userData"], old["_userData"])


@pytest.mark.oracle
def test_root_reads_merged_sets(files, tmp_path, run_root):
    one, two, three, none = files
    output = tmp_path / "out.root"
    fb.merge([one, none], output)
    fb.merge([two, three], output, append=True)
    for name, wanted in ALL.items():
        found = run_root(READ, output, "Events", name).split()
        assert [int(item) for item in found[:2]] == [25, len(wanted)]
        numbers = [int(item) for item in found[2:]]
        assert numbers == [item for start, stop, _ in wanted for item in (start, stop - start)]
