"""Merging at levels L3 and L4: re-encoded and rebuilt data equal those of the inputs."""

import itertools
import re

import awkward as ak
import numpy as np
import pytest
from compare import same
from test_merge import FILES, TESTDATA, ZEROS, events, expected

import femtobarn as fb

LEVELS = [{"level": "L4"}, {"level": "L4", "cluster_size": 3000, "page_size": 128}, {"level": "L3"}]


@pytest.mark.parametrize("options", LEVELS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_twice_has_its_entries_twice(path, tmp_path, options):
    output = tmp_path / "out.root"
    if "page_size" in options and path.stem.startswith("blocks_"):
        options = options | {"page_size": "64 kB"}  # millions of pages would take half a minute
    report = fb.merge([path, path], output, others="drop", **options)
    for name in report.entries:
        one, two = fb.open({path: name}), fb.open({output: name})
        assert two.verify().ok
        n = one.num_entries
        assert two.num_entries == 2 * n
        whole, both = one.arrays(), two.arrays()
        assert not whole.fields or (same(both[:n], whole) and same(both[n:], whole))
    if options["level"] == "L4":
        assert not any(report.levels[level] for level in ("L0", "L1", "L2", "L3"))


# files of one schema with different encodings
FAMILIES = [
    ["associative", "associative_pages"],
    ["boundary", "boundary_plain"],
    ["classes", "classes_pages"],
    ["encodings", "encodings_none", "encodings_pages"],
    ["keys_none", "keys_zstd"],
    ["lists", "lists_pages"],
    ["mixed_none", "mixed_zstd", "mixed_root637"],
    ["packed", "packed_none", "packed_pages"],
    ["pages_plain", "pages_unbuffered"],
    ["representations", "representations_pages"],
    ["same_none", "same_off", "same_zstd"],
    ["scalars", "scalars_pages"],
    ["sums", "sums_pages"],
    ["untyped", "untyped_pages"],
]
ORDERS = [order for family in FAMILIES for order in itertools.permutations(family, 2)]


@pytest.mark.parametrize("level", ["auto", "L3", "L4"])
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_files_of_one_schema_in_any_order(order, level, tmp_path):
    inputs = [TESTDATA / "rntuple" / f"{stem}.root" for stem in order]
    output = tmp_path / "out.root"
    report = fb.merge(inputs, output, others="drop", level=level)
    for name in report.entries:
        first, second = (fb.open({path: name}) for path in inputs)
        nt = fb.open({output: name})
        assert nt.verify().ok
        assert nt.num_entries == first.num_entries + second.num_entries
        found = nt.arrays()
        assert same(found[: first.num_entries], first.arrays())
        assert same(found[first.num_entries :], second.arrays())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return files of different encodings; the second has more fields."""
    folder = tmp_path_factory.mktemp("levels")
    parts = [events(900, 1), events(700, 2, more=True), events(300, 3)]
    for number, (part, compression) in enumerate(zip(parts, ["zstd:5", "none", "lz4:4"], strict=True)):
        with fb.recreate(folder / f"{number}.root", compression=compression) as file:
            nt = file.mkrntuple("Events", part[:0], cluster_size="8 kB", page_size=1000)
            for start in range(0, len(part), 100):
                nt.extend(part[start : start + 100])
    return folder, parts


def listed(path):
    nt = fb.open(path)
    assert nt.verify().ok
    arrays = nt.arrays()
    return {name: arrays[name].to_list() for name in arrays.fields}


@pytest.mark.parametrize("options", LEVELS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_unions_have_zeros_where_a_file_has_no_field(written, tmp_path, need, order, options):
    folder, parts = written
    output = tmp_path / "out.root"
    fb.merge([folder / f"{number}.root" for number in order], output, mode="union", **options)
    wanted = expected([parts[number] for number in order], [*parts[0].fields, *ZEROS])
    assert listed(output) == wanted
    found = need("uproot").open(output)["Events"].arrays()
    assert {name: found[name].to_list() for name in found.fields} == wanted


@pytest.mark.parametrize("mode", ["filter", "union"])
def test_appending_rebuilds_what_is_added(written, tmp_path, mode):
    folder, parts = written
    output = tmp_path / "out.root"
    fb.merge(folder / "0.root", output)
    before = len(fb.open(output).clusters)
    report = fb.merge([folder / "1.root", folder / "2.root"], output, append=True, level="L4", mode=mode)
    assert report.entries_before == {"Events": 900}
    assert listed(output) == expected(parts, [*parts[0].fields, *(ZEROS if mode == "union" else [])])
    # both files in one cluster, or in two if new fields begin
    assert before < len(fb.open(output).clusters) <= before + 2


def test_small_clusters_become_large_ones(written, tmp_path):
    folder, parts = written
    report = fb.merge([folder / "0.root", folder / "2.root"], tmp_path / "out.root", level="L4", cluster_size="1 MB")
    nt = fb.open(tmp_path / "out.root")
    assert len(nt.clusters) == 1
    assert len(fb.open(folder / "0.root").clusters) > 3
    assert listed(tmp_path / "out.root") == expected([parts[0], parts[2]], parts[0].fields)
    assert [why for entry in report.inputs for why in entry["ntuples"]["Events"]["why"]] == 2 * [
        ["L4", "pages or clusters get the requested size"]
    ]
    for name, size in (("cluster_size", 0), ("page_size", "0 B"), ("page_size", -1)):
        with pytest.raises(fb.UsageError, match=re.escape(f"{name} must be at least one byte")):
            fb.merge(folder / "0.root", tmp_path / "no.root", level="L4", **{name: size})


SHOW = """
import os, sys
import ROOT
ROOT.gInterpreter.Declare('''
void show(const std::string &name, const std::string &path) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   for (std::size_t entry = 0; entry < reader->GetNEntries(); ++entry) {
      std::ostringstream out;
      reader->Show(entry, out);
      std::cout << std::hash<std::string>()(out.str()) << std::endl;
   }
   std::cout << "end" << std::endl;
}
''')
for path in sys.argv[2:]:
    ROOT.show(sys.argv[1], path)
os._exit(0)
"""


# whose fields ROOT shows: it does not show collection lengths, in its own files neither
@pytest.mark.oracle
@pytest.mark.parametrize("stem", ["lists", "sums", "extension_late", "double32", "keys_zstd", "packed"])
def test_root_shows_every_entry_as_it_was(tmp_path, run_root, stem):
    path = TESTDATA / "rntuple" / f"{stem}.root"
    outputs = [tmp_path / name for name in ("twice.root", "some.root", "plain.root")]
    name = fb.open(path).name
    fb.merge([path, path], outputs[0], level="L4", others="drop")
    fb.clone(path, outputs[1], entries=slice(3, -2))
    fb.reshape(path, outputs[2], encoding="plain", cluster_size=1000, page_size=64)
    shown = run_root(SHOW, name, path, *outputs).split("end\n")[:-1]
    before, twice, some, plain = (text.splitlines() for text in shown)
    assert len(before) == fb.open(path).num_entries > 5
    assert twice == before + before
    assert some == before[3:-2]
    assert plain == before


SUMS = """
import os, sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1])
frame = frame.Define("v_sum", "Sum(v)").Define("s_len", "(int)s.size()").Define("late_sum", "Sum(late)")
frame = frame.Define("array_sum", "Sum(array)").Define("m_sum", "matrix[1][2] + matrix[0][0]")
names = ["i", "x", "flag", "v_sum", "s_len", "m_sum", "late_sum", "array_sum", "number"]
print(" ".join(str(frame.Sum(name).GetValue()) for name in names), flush=True)
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("options", LEVELS, ids=lambda options: "-".join(map(str, options.values())))
def test_root_sums_what_was_rebuilt(written, tmp_path, run_root, options):
    folder, parts = written
    output = tmp_path / "out.root"
    fb.merge([folder / f"{number}.root" for number in (0, 1, 2)], output, mode="union", **options)
    found = [float(text) for text in run_root(SUMS, output).split()]
    flat = {name: np.concatenate([ak.to_numpy(ak.flatten(part[name], axis=None)) for part in parts]) for name in "ixv"}
    wanted = [flat["i"].sum(), flat["x"].sum(dtype="f8"), sum(ak.sum(part["flag"]) for part in parts)]
    wanted += [flat["v"].sum(dtype="f8"), sum(len(text) for part in parts for text in part["s"].to_list())]
    wanted.append(sum(ak.sum(part["matrix"][:, 1, 2]) + ak.sum(part["matrix"][:, 0, 0]) for part in parts))
    wanted += [ak.sum(parts[1][name]) for name in ("late", "array", "number")]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-3)
