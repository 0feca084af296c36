"""TTrees read as ntuples: types and values are those of uproot, and those that were filled."""

import contextlib
import json
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb
from femtobarn.errors import FemtobarnError, FormatError, KeyNotFoundError

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "ttree"
LEAVES = ["leaves_zlib", "leaves_many_baskets", "leaves_none", "leaves_lz4", "leaves_lzma", "leaves_empty"]
OBJECTS = ["objects_split0", "objects_split1", "objects_split99"]
REAL = [
    "nano_dy.root:Events",
    "hzz_zlib.root:events",
    "hzz_uncompressed.root:events",
    "nanoaod_2015_ttbar_200.root:Events",
    "tree_basictypes.root",
    "tree_with_doubly_jagged.root",
    "tree_with_vector_string.root",
    "TLeafC_pr342.root",
    "edm4hep.root:events",
]
TEXT = "a text of which an entry has a part"


def path_of(name):
    return str(FOLDER / f"{name}.root")


@pytest.fixture
def many():
    """Sixty entries in baskets of about 500 bytes."""
    return fb.open(path_of("leaves_many_baskets"))


def assert_equal(ours, theirs):
    assert ak.almost_equal(ours, theirs, rtol=1e-6, atol=0, check_parameters=False) or ak.array_equal(
        ours, theirs, equal_nan=True, check_parameters=False
    )


@pytest.mark.parametrize("name", LEAVES)
def test_values_are_those_that_were_filled(name):
    nt = fb.open(path_of(name))
    a = nt.arrays()
    e = np.arange(nt.num_entries)
    n = (e * 7) % 11
    assert a["int32"].to_list() == (-e * 100000).tolist()
    assert a["uint64"].to_list() == [18000000000000000000 + int(i) for i in e]
    assert a["bool"].to_list() == (e % 3 == 0).tolist()
    assert a["text"].to_list() == [TEXT[: i % 30] for i in e]
    assert a["n"].to_list() == n.tolist()
    assert a["jag"].to_list() == [[i + k / 16 for k in range(c)] for i, c in zip(e, n, strict=True)]
    assert a["jag3"].to_list() == [
        [[i * 100 + k * 10 + x for x in range(3)] for k in range(c)] for i, c in zip(e, n, strict=True)
    ]
    assert a["grid"].to_list() == [[[100 * i + 10 * x + y for y in range(3)] for x in range(2)] for i in e]
    assert a["vector_vector"].to_list() == [[[i] * (k + 1) for k in range(i % 3)] for i in e]
    assert a["vector_string"].to_list() == [["x" * (k * (i % 50)) for k in range(i % 4)] for i in e]
    assert a["string"].to_list() == ["y" * (i * 3 if i % 2 else 0) for i in e]
    assert a["pair"].to_list() == [{"first": i, "second": [i + x / 4 for x in range(3)]} for i in e]
    np.testing.assert_allclose(a["double32_range"], e * 0.9, atol=100 / 2**16)
    np.testing.assert_allclose(a["float16"], 1 / (e + 1), rtol=2**-11)
    np.testing.assert_allclose(a["double32_bits"], -e * 1.1, rtol=2**-13)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*LEAVES, *OBJECTS, "bits"])
def test_types_and_values_are_those_of_uproot(need, name):
    uproot = need("uproot")
    path = path_of(name)
    nt, tree = fb.open(path), uproot.open(path)[fb.open(path).object_path]
    skipped = dict(nt.skipped)
    for field in nt.fields:
        if field.name == "text":
            continue  # uproot loses strings of one byte
        ours, theirs = field.array(), tree[field.name].array()
        assert_equal(ours, theirs)
        assert str(ours.type) == str(theirs.type)  # including class names, and the parameters of sets and maps
    leaves = [b.name for b in tree.itervalues() if type(b.interpretation).__name__ != "AsGrouped"]
    assert [field.name for field in nt.fields] == [name for name in leaves if name not in skipped]


@pytest.mark.parametrize("step", [7, 20, 13])
def test_steps_decode_each_basket_once(step):
    whole, steps = fb.open(path_of("leaves_many_baskets")), fb.open(path_of("leaves_many_baskets"))
    whole.arrays(["grid", "vector_vector"])
    for _ in steps.iterate(["grid", "vector_vector"], step_size=step):
        pass
    assert steps.metrics.pages == whole.metrics.pages


def test_groups_are_records_without_a_class():
    array = fb.open(path_of("objects_split99"))["map"].array()
    assert array.layout.parameter("__record__") is None


@pytest.mark.oracle
@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read_as_by_uproot(need, shared, name):
    uproot = need("uproot")
    nt = fb.open(f"{shared}/ttree/{name}")
    assert not nt.skipped
    tree = uproot.open(nt.file_path)[nt.object_path]
    ours = nt.arrays()
    for key in nt.keys(recursive=False):
        try:
            theirs = tree[key].array()
        except ValueError:
            continue  # bits of objects with references
        assert_equal(ours[key], theirs)


@pytest.mark.parametrize("entries", [(0, 0), (0, 1), (59, 60), (3, 17), (19, 41), (1, 60)])
@pytest.mark.parametrize("threads", [1, 3])
def test_entry_ranges_are_slices(many, entries, threads):
    start, stop = entries
    whole = many.arrays()
    part = many.arrays(entry_start=start, entry_stop=stop, threads=threads)
    assert part.to_list() == whole[start:stop].to_list()
    for name in ("jag", "vector_string", "grid"):
        assert many[name].array(start, stop).to_list() == whole[name][start:stop].to_list()


@pytest.mark.parametrize("step", [1, 7, 20, 100])
def test_steps_together_are_everything(many, step):
    steps = list(many.iterate(step_size=step))
    assert ak.concatenate(steps).to_list() == many.arrays().to_list()


def test_clusters_are_those_of_the_tree(many):
    assert [cluster.num_entries for cluster in many.clusters] == [20, 20, 20]
    assert many.version == "TTree"
    assert many.writer.startswith("ROOT v6")


def test_lists_with_a_counter_share_their_offsets(many):
    a = many.arrays(["jag", "jag3", "d32jag", "jagged_flags"])
    offsets = [a[name].layout.offsets.data for name in ("jag", "jag3", "d32jag")]
    assert all(np.shares_memory(offsets[0], other) for other in offsets[1:])
    assert not np.shares_memory(offsets[0], a["jagged_flags"].layout.offsets.data)


def test_some_columns_cost_less(many):
    few, all_ = many.explain(["int32"]), many.explain()
    assert few.bytes_needed < all_.bytes_needed
    before = many.metrics.bytes_read
    many["int32"].array()
    assert many.metrics.bytes_read - before < all_.bytes_needed


def test_filters_and_libraries(many):
    assert many.keys(filter_name="vector_*", recursive=False) == [
        "vector_float",
        "vector_bool",
        "vector_vector",
        "vector_string",
        "vector_double",
    ]
    assert many.arrays(filter_name="/^int.*/").fields == ["int8", "int16", "int32", "int64"]
    assert many["float64"].array(library="np").dtype == np.float64


def test_several_files_are_one():
    names = ["leaves_zlib", "leaves_many_baskets", "leaves_none"]
    parts = [fb.open(path_of(name)).arrays() for name in names]
    whole = fb.open([path_of(name) for name in names])
    assert whole.arrays().to_list() == ak.concatenate(parts).to_list()
    assert whole.arrays(entry_start=30, entry_stop=70).to_list() == ak.concatenate(parts)[30:70].to_list()


def test_names_of_branches(shared):
    nt = fb.open(f"{shared}/ttree/delphes_10.root:Delphes")
    by_name, by_path = nt["Jet.PT"], nt["Jet/Jet.PT"]
    assert by_name == by_path == nt["/Jet/Jet.PT"]
    assert "Jet.PT" in nt
    assert nt["Jet"].array().to_list() == ak.num(by_name.array()).to_list()
    with pytest.raises(KeyNotFoundError, match="did you mean"):
        nt["Jet.PTT"]


@pytest.mark.oracle
def test_a_group_gives_its_branches(need, shared):
    uproot = need("uproot")
    path = f"{shared}/ttree/fcc_spring2021.root:events"
    nt, tree = fb.open(path), uproot.open(path)
    groups = [key for key, branch in tree.items(recursive=False) if type(branch.interpretation).__name__ == "AsGrouped"]
    n_compared = 0
    for key in groups[:10]:
        try:
            theirs = tree[key].array()
        except Exception:
            continue
        ours = nt[key].array()
        assert ours.fields == theirs.fields
        assert ours.to_list() == theirs.to_list()
        assert nt.arrays([key]).fields == [key]
        n_compared += 1
    assert n_compared > 3


@pytest.fixture
def versions():
    """400 entries: the first 200 objects have version 1 of their class, the others version 2."""
    return fb.open(path_of("versions"))


def test_a_branch_that_is_not_understood_is_left_out_with_a_warning(versions):
    with pytest.warns(fb.UnreadableWarning) as caught:
        a = versions.arrays()
    assert a.fields == versions.keys(recursive=False) == ["number", "holder", "same"]
    assert a["same"].to_list() == list(range(400))
    (warning,) = caught
    assert str(warning.message).startswith("field 'thing' of 'versions' is skipped: basket 1 has values")
    assert warning.filename == __file__
    ((name, reason),) = versions.skipped
    assert name == "thing"
    assert str(warning.message).endswith(reason)
    assert versions.arrays().fields == a.fields  # without another warning
    assert ".thing" not in versions
    with pytest.raises(KeyNotFoundError, match=r"'thing' of .* is skipped: basket 1"):
        versions[".thing"]


def test_a_branch_that_is_not_understood_is_an_error_by_name(versions):
    with pytest.raises(FormatError, match=r"thing.* leave it out by selecting fields"):
        versions.arrays(["thing", "number"])
    with pytest.raises(FormatError, match=r"thing.* leave it out by selecting fields"):
        versions["thing"].array(entry_start=300)
    assert versions.skipped == ()
    # its first basket is readable
    assert versions.arrays(entry_stop=200)["thing"].to_list() == [{"first": i} for i in range(200)]


def test_objects_of_several_versions_have_the_members_of_the_newest(versions):
    expected = [{"thing": {"first": i, "second": 0.0 if i < 200 else 0.5}} for i in range(400)]
    assert versions["holder"].array().to_list() == expected
    assert versions["holder"].array(entry_start=150, entry_stop=250).to_list() == expected[150:250]


def test_filters_leave_out_what_is_not_understood(versions):
    with pytest.warns(fb.UnreadableWarning, match="thing"):
        a = versions.arrays(filter_field=lambda field: field.top_level and field.name != "holder")
    assert a.fields == ["number", "same"]


@pytest.mark.parametrize("prefetch", [True, False])
def test_fields_do_not_vanish_while_iterating(versions, prefetch):
    steps = []
    with pytest.warns(fb.UnreadableWarning), pytest.raises(FormatError):
        steps.extend(step.fields for step in versions.iterate(step_size=150, prefetch=prefetch))
    assert steps == [["number", "thing", "holder", "same"]]
    steps = [step.fields for step in versions.iterate(step_size=150, prefetch=prefetch)]
    assert steps == [["number", "holder", "same"]] * 3


def test_the_first_step_of_all_files_says_which_fields_there_are():
    together = fb.open([path_of("versions")] * 2)
    with pytest.warns(fb.UnreadableWarning):
        steps = [step.fields for step in together.iterate(step_size=100, entry_start=250)]
    assert steps == [["number", "holder", "same"]] * 6


def test_a_stream_finds_what_its_first_entries_show(versions):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(Exception, match="the next read leaves it out"):
        pa.table(versions)
    with pytest.warns(fb.UnreadableWarning, match="thing"):
        assert pa.table(versions).column_names == ["number", "holder", "same"]
    assert [name for name, _ in versions.skipped] == ["thing"]


def test_leaves_in_one_branch_may_count_for_each_other():
    a = fb.open(path_of("counted"))["list"].array()
    assert a.to_list() == [{"n": e % 5, "x": [[e + k / 4, e + k / 4 + 100] for k in range(e % 5)]} for e in range(30)]


def test_members_of_bases_are_stored_member_by_member():
    """ATLAS links were taken for objects with headers: ROOT writes none if it stores items member-wise."""
    items = fb.open(path_of("derived"))["items"].array()
    expected = [[{"a": e, "b": k / 2, "c": e + k} for k in range(e % 4)] for e in range(20)]
    assert items.to_list() == expected


def test_bitsets_are_marked_as_such(tmp_path):
    a = fb.open(path_of("bits")).arrays()
    marked = '[var * bool, parameters={"__array__": "bitset"}]'
    assert str(a["bits"].type) == f"10 * {marked}"
    assert str(a["several"].type) == f"10 * var * {marked}"
    assert a["bits"].to_list() == [[bool(37 * e >> bit & 1) for bit in range(12)] for e in range(10)]
    fb.convert(path_of("bits"), tmp_path / "bits.root")
    again = fb.open(tmp_path / "bits.root").arrays()
    assert again["several"].to_list() == a["several"].to_list()


def test_damage_names_the_basket_and_the_rest_is_read(tmp_path):
    data = bytearray(Path(path_of("leaves_many_baskets")).read_bytes())
    whole = fb.open(path_of("leaves_many_baskets"))
    # the first compression record of the first basket of this branch
    at = data.index(b"ZS", data.index(b"TBasket\x04grid"))
    data[at : at + 2] = b"??"
    bad = tmp_path / "bad.root"
    bad.write_bytes(data)
    nt = fb.open(bad)
    with pytest.raises(FormatError, match=r'basket 0 of branch "grid".*at offset \d+'):
        nt["grid"].array()
    assert nt["int64"].array().to_list() == whole["int64"].array().to_list()
    report = nt.verify()
    assert not report.ok
    assert {damage["field"] for damage in report.damages} == {"grid"}
    assert whole.verify().ok


def test_arrays_have_the_lengths_that_were_written(tmp_path):
    """ROOT writes no more items than the signed maximum of the counter's leaf: reading was an error."""
    nt = fb.open(path_of("clamped"))
    counter = [120] + [5 * e for e in range(1, 40)]
    a = nt.arrays()
    assert a["nb"].to_list() == counter
    written = [min(n, 125 if e >= 25 else 120) for e, n in enumerate(counter)]
    assert ak.num(a["d"]).to_list() == ak.num(a["s"]).to_list() == written
    assert a["d"].to_list() == [[e + k / 4 for k in range(n)] for e, n in enumerate(written)]
    assert a["s"].to_list() == [[[e, k] for k in range(n)] for e, n in enumerate(written)]
    for name in ("d", "s"):
        assert nt[name].array(entry_start=27, entry_stop=34).to_list() == a[name][27:34].to_list()
    assert nt.verify().ok
    assert not nt.verify().not_checked
    done = fb.convert(path_of("clamped"), tmp_path / "clamped.root")
    assert list(done.notes) == ["d", "s"]
    again = fb.open(tmp_path / "clamped.root")
    assert again.arrays(["nb", "d", "s"]).to_list() == a[["nb", "d", "s"]].to_list()


def test_verify_says_what_it_could_not_check(versions):
    report = versions.verify()
    assert report.ok
    assert report.damages == ()
    (branch,) = report.not_checked
    assert (branch["file"], branch["field"]) == (path_of("versions").split(":")[0], "thing")
    assert branch["reason"].startswith("basket 1 has values that do not match the file's description")
    assert repr(report).startswith("VerifyReport: good, except for a field that cannot be read; ")
    (branch,) = fb.open(path_of("objects_split0")).verify().not_checked
    assert branch["field"] == "clones"
    # zstd has no checksum, so a mismatch counts as damage
    report = fb.open(path_of("versions_zstd").split(":")[0]).verify()
    assert [damage["field"] for damage in report.damages] == ["thing"]
    assert report.not_checked == ()


def test_damaged_trees_are_errors(tmp_path):
    data = Path(path_of("leaves_none")).read_bytes()
    rng = np.random.default_rng(7)
    bad = tmp_path / "bad.root"
    for _ in range(200):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            changed[at] = rng.integers(0, 256)
        bad.write_bytes(changed)
        with contextlib.suppress(FemtobarnError):
            fb.open(bad, memory_map=False).arrays(library="batch")


ROOT_READS = """
import json, os, pathlib, sys
import ROOT
frame = ROOT.RDataFrame("leaves", sys.argv[1])
read = {name: [repr(float(x)) for x in frame.AsNumpy([name])[name]] for name in sys.argv[3:]}
pathlib.Path(sys.argv[2]).write_text(json.dumps(read))
os._exit(0)
"""


@pytest.mark.oracle
def test_numbers_are_those_of_root(run_root, tmp_path):
    names = ["float16", "float16_range", "double32", "double32_range", "double32_bits", "uint32"]
    path = path_of("leaves_many_baskets")
    run_root(ROOT_READS, path, tmp_path / "read.json", *names)
    read = json.loads((tmp_path / "read.json").read_text())
    assert list(read) == names
    nt = fb.open(path)
    for name, values in read.items():
        np.testing.assert_allclose(nt[name].array(library="np"), np.array(values, float), rtol=1e-15, err_msg=name)


def test_a_branch_that_was_left_out_is_not_mistaken_for_a_member_of_its_name(testdata):
    nt = fb.open(f"{testdata}/ttree/versions.root:versions")
    with pytest.warns(fb.UnreadableWarning, match="'thing'"):
        nt.arrays()
    for read in (lambda: nt["thing"], lambda: nt.arrays(["thing"], entry_stop=2)):
        with pytest.raises(fb.errors.KeyNotFoundError, match=r"field 'thing' of .* is skipped: "):
            read()


NAMED = """
import json, sys
import ROOT

ROOT.gErrorIgnoreLevel = ROOT.kError
file, tree = ROOT.TFile(sys.argv[1], "RECREATE"), ROOT.TTree("t", "")
named, text, word, objects = ROOT.TNamed(), ROOT.TObjString(), ROOT.TString(), ROOT.std.vector("TNamed")()
parameter, target = ROOT.TParameter["double"]("p", 0), ROOT.TNamed("target", "")
for name, value in {"named": named, "text": text, "word": word, "objects": objects, "parameter": parameter}.items():
    for level in (0, 1, 99):
        tree.Branch(f"{name}{level}_", value, 32000, level)
for i in range(20):
    named.SetNameTitle("n" * (40 * i), f"t{i}")
    text.SetString("s" * i)
    word.Append("w")
    objects.push_back(ROOT.TNamed(f"o{i}", "x" * i))
    parameter.SetVal(i / 3)
    if i == 10:
        references = [ROOT.TRef(one) for one in (named, text)]  # from now on these are stored with the process
    tree.Fill()
tree.Write()
wanted = {"names": [], "titles": [], "texts": [], "words": [], "objects": [], "values": [], "bits": []}
for entry in tree:
    wanted["names"].append(str(entry.named0_.GetName()))
    wanted["titles"].append(str(entry.named0_.GetTitle()))
    wanted["texts"].append(str(entry.text0_.GetString()))
    wanted["words"].append(str(entry.word0_))
    wanted["objects"].append([[str(one.GetName()), str(one.GetTitle())] for one in entry.objects0_])
    wanted["values"].append(entry.parameter0_.GetVal())
    wanted["bits"].append(bool(entry.named0_.TestBit(1 << 4)))
file.Close()
print(json.dumps(wanted))
"""


@pytest.mark.oracle
def test_classes_with_names_are_read_at_every_split_level(run_root, tmp_path):
    """Objects of ROOT's own classes, also those that something refers to; TNamed has no header where it is unsplit."""
    path = tmp_path / "named.root"
    wanted = json.loads(run_root(NAMED, path))
    assert sum(wanted["bits"]) == 10
    tree = fb.open(path)
    assert tree.skipped == ()
    for level, inside in ((0, "."), (1, "/"), (99, "/")):
        names, titles = (tree[f"named{level}_{inside}{name}"].array().to_list() for name in ("fName", "fTitle"))
        assert (names, titles) == (wanted["names"], wanted["titles"])
        assert tree[f"text{level}_{inside}fString"].array().to_list() == wanted["texts"]
        assert tree[f"word{level}_"].array().to_list() == wanted["words"]
        assert tree[f"parameter{level}_{inside}fVal"].array().to_list() == wanted["values"]
        objects = tree[f"objects{level}_" if level == 0 else f"objects{level}_/"].array().to_list()
        assert [[[one["fName"], one["fTitle"]] for one in entry] for entry in objects] == wanted["objects"]


@pytest.mark.parametrize("name", ["own.", "items", "counted.", "counts", "matrices.", "more"])
def test_whole_objects_of_split_classes_are_those_that_are_stored_unsplit(name):
    split, whole = fb.open(path_of("arrays_split99")), fb.open(path_of("arrays_split0"))
    assert split[f"{name}/"].array().to_list() == whole[name].array().to_list()


def test_whole_objects_of_collections_share_the_columns_of_their_branches():
    split = fb.open(path_of("objects_split99"))
    for name, members in {"clones": ("fX", "fBits"), "map": ("first", "second"), "lists": ("first", "second")}.items():
        objects = split[f"{name}/"].array()
        for at, member in enumerate(members):
            own = objects[str(at) if member in ("first", "second") else member]
            assert own.to_list() == split[f"{name}.{member}"].array().to_list(), (name, member)
    assert "clones/" not in [field.name for field in split.fields]
