"""Joining: fields of ntuples side by side, by entry number or by keys."""

import awkward as ak
import numpy as np
import pytest
import uproot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_merge import mounted  # noqa: F401 (a fixture)
from test_merge_attributes import SPEC, make, rows, said
from test_verify_against import command

import femtobarn as fb

N = 3000
KEYS = ["run", "event"]


def left_columns():
    random = np.random.default_rng(1)
    counts = random.integers(0, 4, N)
    return ak.Array(
        {
            "run": np.repeat(np.arange(3, dtype="u4"), N // 3),
            "event": np.tile(np.arange(N // 3, dtype="u8") + (1 << 63), 3),
            "x": random.normal(size=N),
            "v": ak.unflatten(random.normal(size=int(counts.sum())), counts),
        }
    )


def right_columns():
    random = np.random.default_rng(2)
    counts = random.integers(0, 3, N)
    items = int(counts.sum())
    jets = ak.zip({"pt": random.normal(size=items), "id": random.integers(0, 9, items)})
    return ak.Array(
        {
            "y": random.normal(size=N).astype("f4"),
            "s": [f"t{i}" * (i % 3) for i in range(N)],
            "jets": ak.unflatten(jets, counts),
            "matrix": random.normal(size=(N, 2, 3)),
        }
    )


LEFT, RIGHT = left_columns(), right_columns()


def beside(left, right):
    """Return the columns of both."""
    columns = {name: left[name] for name in left.fields} | {name: right[name] for name in right.fields}
    return ak.zip(columns, depth_limit=1)


BOTH, KEYED = beside(LEFT, RIGHT), beside(LEFT[KEYS], RIGHT)


def write(path, array, name, **sizes):
    fb.write(path, array, name=name, **sizes)
    return path


def assert_is(path, expected):
    nt = fb.open(path)
    assert nt.verify().ok
    found = nt.arrays()
    assert sorted(found.fields) == sorted(expected.fields)
    for name in expected.fields:
        assert ak.array_equal(found[name], expected[name]), name


def test_ntuples_with_the_same_clusters_keep_their_pages(tmp_path, mounted):  # noqa: F811
    folder, can_share = mounted
    random = np.random.default_rng(3)
    left = {f"a{i}": random.normal(size=200_000) for i in range(2)}
    right = {f"b{i}": random.normal(size=200_000) for i in range(2)}
    write(folder / "a.root", left, "Events", compression="zstd:1")
    write(folder / "b.root", right, "Friends", compression="lz4")
    report = fb.join_columns([f"{folder}/a.root:Events", f"{folder}/b.root:Friends"], folder / "out.root")
    assert report.entries == {"Events": 200_000}
    assert sum(report.levels[level] for level in ("L2", "L3", "L4")) == 0
    if can_share:
        assert report.levels["L0"] > 0.9 * report.levels["L1"]
    nt = fb.open(folder / "out.root")
    assert nt.verify().ok
    for name, values in {**left, **right}.items():
        assert np.array_equal(nt[name].array(library="np"), values)


@pytest.mark.parametrize("threads", [1, 3])
def test_ntuples_with_other_clusters_are_joined_entry_by_entry(tmp_path, threads):
    a = write(tmp_path / "a.root", LEFT, "Events", cluster_size=20_000, page_size=1000)
    b = write(tmp_path / "b.root", RIGHT, "Friends", cluster_size=7000, page_size=300)
    report = fb.join_columns([a, b], tmp_path / "out.root", threads=threads)
    assert report.levels["L4"] > 0
    assert ["L4", "the ntuples have different clusters"] in report.inputs[0]["ntuples"]["Events"]["why"]
    assert_is(tmp_path / "out.root", BOTH)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.3, 1.0]), shuffled=st.booleans())
def test_entries_with_equal_keys_belong_together(tmp_path, seed, share, shuffled):
    random = np.random.default_rng(seed)
    kept = np.flatnonzero(random.random(N) < share)
    order = random.permutation(kept) if shuffled else kept
    a = write(tmp_path / "a.root", LEFT, "Events", cluster_size=60_000)
    b = write(tmp_path / "b.root", KEYED[order], "Friends", cluster_size=60_000)
    output = tmp_path / "out.root"
    report = fb.join_columns([a, b], output, on=KEYS, unmatched="drop", overwrite=True, verify=True)
    assert_is(output, BOTH[kept])
    assert report.proof["equal"]
    # the first one determines the order
    fb.join_columns([b, a], output, on=KEYS, overwrite=True, name="joined")
    assert_is(output, BOTH[order])
    assert fb.open(output).verify(against=[b, a], beside=True, on=KEYS).ok
    assert fb.open(output).name == "joined"


def test_pages_of_shuffled_entries_are_read_once(tmp_path):
    """Whenever the cluster changed between entries, its pages were read again: 200 000 entries took 20 s."""
    random = np.random.default_rng(5)
    order = random.permutation(N)
    columns = KEYED[["run", "event", "y", "s", "jets"]]
    a = write(tmp_path / "a.root", LEFT, "Events", cluster_size=9000)
    b = write(tmp_path / "b.root", columns[order], "Friends", cluster_size=9000)
    report = fb.join_columns([a, b], tmp_path / "out.root", on=KEYS)
    assert report.levels["L4"] <= a.stat().st_size + b.stat().st_size
    n_clusters = [
        item["ntuples"][name]["clusters"] for item, name in zip(report.inputs, ["Events", "Friends"], strict=True)
    ]
    assert n_clusters == [len(fb.open(path).clusters) for path in (a, b)]
    assert_is(tmp_path / "out.root", beside(LEFT, columns))


def test_shuffled_entries_of_any_type_are_joined(tmp_path):
    def value(i):
        return [i, f"text {i}" * (i % 4), [0.5 * j for j in range(i % 5)]][i % 3]

    n = 700
    columns = ak.Array(
        {
            "event": np.arange(n),
            "variant": [value(i) for i in range(n)],
            "variants": [[value(i + j) for j in range(i % 4)] for i in range(n)],
            "nested": [[[f"{i}"] * k for k in range(i % 3)] for i in range(n)],
            "missing": [None if i % 3 == 1 else {"a": i, "b": [None, 1.5][: i % 3]} for i in range(n)],
            "flag": [i % 2 == 0 for i in range(n)],
        }
    )
    columns = ak.with_field(columns, np.arange(n * 6, dtype="i2").reshape(n, 2, 3), "array")
    order = np.random.default_rng(6).permutation(n)
    # keys of the first may occur several times, so entries of the others may be used repeatedly, or never
    events = np.random.default_rng(7).integers(0, n, 2 * n)
    a = write(tmp_path / "a.root", {"event": events, "x": np.arange(2 * n)}, "Events")
    b = write(tmp_path / "b.root", columns[order], "Friends", cluster_size=2000, page_size=200)
    report = fb.join_columns([a, b], tmp_path / "out.root", on="event", threads=2, verify=True)
    assert report.proof["ntuples"][0]["by_value"]
    assert report.inputs[0]["ntuples"]["Events"]["entries"] == 2 * n
    joined = fb.open(tmp_path / "out.root")
    assert joined.verify().ok
    assert ak.array_equal(joined["x"].array(), np.arange(2 * n))
    for name in columns.fields:
        assert joined[name].array().to_list() == columns[events][name].to_list(), name


def test_three_ntuples_are_joined_and_fields_chosen(tmp_path):
    a = write(tmp_path / "a.root", LEFT, "Events")
    b = write(tmp_path / "b.root", RIGHT[["y", "s"]], "Friends")
    c = write(tmp_path / "c.root", RIGHT[["jets", "matrix", "y"]], "More", cluster_size=9000)
    output = tmp_path / "out.root"
    fb.join_columns([a, b, c], output, fields=["x", None, ["jets", "m*"]], compression="zlib:1")
    assert_is(output, BOTH[["x", "y", "s", "jets", "matrix"]])


@pytest.mark.oracle
def test_collections_behind_views_that_have_one_name_get_others(tmp_path, dimuon, run_root):
    """Parts of a NanoAOD could not be joined: ROOT's importer names the hidden source of each `_collection0`."""
    muons, numbers, output = (tmp_path / f"{name}.root" for name in ("muons", "numbers", "out"))
    fb.clone(dimuon, muons, fields=["Muon_*"])
    fb.clone(dimuon, numbers, fields="nMuon")
    report = fb.join_columns([numbers, muons], output, fields=["*", "Muon_*"], verify=True)
    assert report.levels["L4"] == 0
    assert report.proof["equal"]
    assert report.proof["ntuples"][0]["by_value"] == []
    joined, one = fb.open(output), fb.open(dimuon)
    assert joined.verify().ok
    for name in ("nMuon", "Muon_pt", "Muon_charge"):
        assert ak.array_equal(joined[name].array(), one[name].array())
    script = """
import os, sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1]).Define("n", "(int)nMuon - (int)Muon_pt.size()")
open(sys.argv[2], "w").write(f"{frame.Min('n').GetValue()} {frame.Max('n').GetValue()}")
os._exit(0)
"""
    run_root(script, output, tmp_path / "differences")
    assert (tmp_path / "differences").read_text().split() == ["0.0", "0.0"]


def test_keys_are_taken_once_from_the_first_that_is_asked_for_them(tmp_path):
    """With `fields` they came from the first ntuple or not at all, even if another was asked for them by name."""
    a, b = write(tmp_path / "a.root", LEFT, "Events"), write(tmp_path / "b.root", KEYED, "Friends")
    output = tmp_path / "out.root"
    for fields, expected in [
        (None, BOTH),
        (["*", "*"], BOTH),
        (["x", None], BOTH[["x", *KEYED.fields]]),
        ([["x", "run"], ["y", "run", "event"]], BOTH[["run", "x", "event", "y"]]),
        (["x", "y"], BOTH[["x", "y"]]),
    ]:
        fb.join_columns([a, b], output, on=KEYS, fields=fields, overwrite=True)
        assert_is(output, expected)
        assert fb.open(output).keys(recursive=False) == expected.fields


def joined_sets(tmp_path, sets, **options):
    """Join ntuples with attribute sets; return the sets of the output, and what is left out of each input."""
    inputs = [make(tmp_path / f"{at}.root", 10, own) for at, own in enumerate(sets)]
    for at, path in enumerate(inputs[1:], 1):
        # the keys and other fields than the first
        with fb.recreate(tmp_path / "keyed.root") as file:
            ntuple = file.mkrntuple("Events", {"n": "int32", f"x{at}": "int64"})
            about = {name: ntuple.mkattributes(name, spec) for name, (spec, _) in sets[at].items()}
            order = options.get("orders", {}).get(at, range(10))
            ntuple.extend({"n": list(order), f"x{at}": list(order)})
            for name, (_, said_of) in sets[at].items():
                for start, stop, values in said_of:
                    about[name].append(start, stop, values)
        (tmp_path / "keyed.root").rename(path)
    given = {name: value for name, value in options.items() if name != "orders"}
    output = tmp_path / "out.root"
    report = fb.join_columns(inputs, output, overwrite=True, **{"on": "n", **given})
    assert fb.open(output).verify().ok
    assert fb._core.cli_main(["verify", str(output)]) == 0
    return {name: rows(output, name) for name in fb.open(output).attributes}, report.left_behind


def test_attribute_sets_go_along_with_their_entries(tmp_path):
    """They were silently left out."""
    made = {"made": (SPEC, [(0, 4, said("a", "x")), (4, 10, said("b"))])}
    lumi = {"lumi": ({"l": "float"}, [(0, 10, {"l": 2.5}), (1, 3, {"l": 0.5}), (8, 9, {"l": 1.0})])}
    both = {name: said_of for name, (_, said_of) in {**made, **lumi}.items()}
    assert joined_sets(tmp_path, [made, lumi]) == (both, ())
    # equal ones are merged into one
    assert joined_sets(tmp_path, [made, {**made, **lumi}]) == (both, ())
    found, dropped = joined_sets(tmp_path, [made, lumi], others="drop")
    assert (found, [left.name for left in dropped]) == ({}, ["Events made", "Events lumi"])
    # entry numbers in the output
    order = [9, 8, 7, 3, 0, 1, 2, 4, 5, 6]
    some = {"lumi": (lumi["lumi"][0], [(0, 10, {"l": 2.5}), (1, 3, {"l": 0.5}), (6, 7, {"l": 1.0})])}
    assert joined_sets(tmp_path, [made, some], orders={1: order})[0] == {
        "made": both["made"],
        "lumi": [(0, 10, {"l": 2.5}), (7, 9, {"l": 0.5}), (2, 3, {"l": 1.0})],
    }
    # what is left out
    found, dropped = joined_sets(tmp_path, [made, lumi], orders={1: [*range(1, 8), 20, 21, 22]}, unmatched="drop")
    assert found == {
        "made": [(0, 3, said("a", "x")), (3, 7, said("b"))],
        "lumi": [(0, 7, {"l": 2.5}), (1, 3, {"l": 0.5})],
    }
    reasons = [(left.name, left.reason, len(left.files)) for left in dropped]
    assert reasons == [
        ("Events", "3 entries without a match", 2),
        ("Events lumi", "1 of its ranges have no entries in the output", 1),
    ]


def test_attribute_sets_that_cannot_go_along_are_errors(tmp_path):
    made = {"made": (SPEC, [(0, 4, said("a"))])}
    other = {"made": (SPEC, [(0, 4, said("b"))])}
    with pytest.raises(
        fb.UsageError, match=r'"made" of .*1\.root:Events.*0\.root has another one with this name.*"first"'
    ):
        joined_sets(tmp_path, [made, other])
    found, dropped = joined_sets(tmp_path, [made, other], others="first")
    assert found == {"made": made["made"][1]}
    assert [(left.name, left.files) for left in dropped] == [("Events made", (str(tmp_path / "1.root"),))]
    apart = {"apart": (SPEC, [(2, 4, said("a"))])}
    with pytest.raises(fb.UsageError, match=r'"apart" of .*the entries from 2 to 4.*not adjacent.*others="drop"'):
        joined_sets(tmp_path, [made, apart], orders={1: [1, 2, 3, 0, *range(4, 10)]})


def test_what_is_beside_ntuples_is_not_left_out_in_silence(tmp_path, testdata):
    """Histograms and other objects were silently left out."""
    histograms = testdata / "histograms.root"
    a, b = tmp_path / "a.root", tmp_path / "b.root"
    fb.merge([write(tmp_path / "1.root", LEFT, "Events"), histograms], a)
    fb.merge([write(tmp_path / "2.root", RIGHT, "Friends"), histograms], b)
    output = tmp_path / "out.root"
    with pytest.raises(
        fb.UsageError, match=r'a\.root has a TH1F called "fitted" besides its ntuple.*a\.root:Events.*others="same"'
    ):
        fb.join_columns([a, b], output, others="error")
    assert not output.exists()
    assert not fb.join_columns([a, b], output).left_behind, "they are the same in both"
    output.unlink()
    other = tmp_path / "other.root"
    fb.merge([b, histograms], other)
    with pytest.raises(fb.UsageError, match=r'the TH1F "fitted" of .*other\.root differs from the TH1F .*a\.root'):
        fb.join_columns([a, other], output)
    assert not output.exists()
    report = fb.join_columns([f"{a}:Events", f"{b}:Friends"], output)
    dropped = {left.name: left.files for left in report.left_behind}
    assert dropped["labels"] == (str(a), str(b))
    assert_is(output, BOTH)
    report = fb.join_columns([a, b], output, others="drop", overwrite=True)
    assert {left.name: left.files for left in report.left_behind} == dropped
    report = fb.join_columns([a, f"{b}:Friends"], output, others="first", overwrite=True)
    assert {left.files for left in report.left_behind} == {(str(b),)}
    assert_is(output, BOTH)
    uproot = pytest.importorskip("uproot")
    with uproot.open(output) as file, uproot.open(histograms) as given:
        assert np.array_equal(file["labels"].values(), given["labels"].values())
        assert file["fitted"].title == given["fitted"].title
    report = fb.join_columns([a, b], output, others="first", overwrite=True)
    assert {left.name: left.files for left in report.left_behind} == dict.fromkeys(dropped, (str(b),))
    with pytest.raises(fb.UsageError, match=r'a TH1F called "fitted", so .* cannot have the name "fitted"'):
        fb.join_columns([a, b], tmp_path / "new.root", others="first", name="fitted")


def test_what_is_said_of_the_first_ntuple_is_kept(tmp_path):
    a, b = tmp_path / "a.root", write(tmp_path / "b.root", RIGHT, "Friends")
    with fb.recreate(a) as file:
        file.mkrntuple("Events", LEFT, description="muons").extend(LEFT)
    fb.join_columns([a, b], tmp_path / "out.root")
    assert fb.open(tmp_path / "out.root").description == fb.open(a).description == "muons"


def test_what_does_not_fit_is_an_error_that_says_what_to_do(tmp_path):
    a = write(tmp_path / "a.root", LEFT, "Events")
    b = write(tmp_path / "b.root", KEYED, "Friends")
    short = write(tmp_path / "short.root", KEYED[:10], "Friends")
    twice = write(tmp_path / "twice.root", KEYED[[1, 0, 1]], "Friends")
    output = tmp_path / "out.root"
    for inputs, options, message in [
        ([a], {}, "two ntuples or more"),
        ([a, b], {}, r'"run".*both have it.*--fields .*fields=.*--on, on='),
        ([a, short], {"fields": [None, "y"]}, r"has 10 entries, but .*a\.root:Events has 3000.*on="),
        ([a, short], {"on": KEYS}, r"entry 10 of .*\(run 0, event 9223372036854775818\) has no match in .*short\.root"),
        ([a, twice], {"on": KEYS}, r"a duplicate key in the entries 0 and 2 \(run 0, event 9223372036854775809\)"),
        ([a, b], {"on": "x"}, r'"x" of .*a\.root:Events cannot be a key: it does not hold one integer'),
        ([a, b], {"on": "nothing"}, r"nothing"),
        ([a, b], {"on": KEYS, "fields": [None, "nothing*"]}, r'b\.root:Friends has no field "nothing\*"'),
        ([a, b], {"on": "run,event"}, r'has no field "run,event"; .*give several names as a list'),
        ([a, b], {"on": KEYS, "unmatched": "keep"}, "unmatched must be 'error' or 'drop', not 'keep'"),
        ([a, b], {"on": KEYS, "fields": "y"}, r"a list with an item for each ntuple"),
        ([a, b], {"on": KEYS, "fields": ["x"]}, r"fields are given for 1 ntuples, but there are 2: .* per ntuple"),
        ([a, b], {"on": KEYS, "fields": [None, "y", "y"]}, r"given for 3 ntuples, but there are 2"),
        ([a, b], {"on": KEYS, "others": "keep"}, r"others.*keep"),
    ]:
        with pytest.raises(fb.FemtobarnError, match=message):
            fb.join_columns(inputs, output, **options)
        assert not output.exists()
    with pytest.raises(fb.UsageError):
        fb.join_columns([a, b], b, on=KEYS, overwrite=True)


ROOT_LOOKS = """
import os, sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1])
sums = [frame.Sum(name).GetValue() for name in ("x", "y")] + [frame.Count().GetValue()]
open(sys.argv[2], "w").write(" ".join(map(str, sums)))
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("cluster_size", ["128 MiB", "7 kB"])
def test_root_reads_what_was_joined(tmp_path, run_root, cluster_size):
    a = write(tmp_path / "a.root", LEFT, "Events")
    b = write(tmp_path / "b.root", RIGHT[["y", "s"]], "Friends", cluster_size=cluster_size)
    output = tmp_path / "out.root"
    fb.join_columns([a, b], output)
    run_root(ROOT_LOOKS, output, tmp_path / "sums")
    x, y, n = map(float, (tmp_path / "sums").read_text().split())
    assert n == N
    assert np.allclose([x, y], [ak.sum(LEFT.x), ak.sum(ak.values_astype(RIGHT.y, "f8"))])


def test_an_ntuple_of_several_files_is_not_joined_with_itself(tmp_path):
    """Its files were joined side by side."""
    for name in "ab":
        fb.write(tmp_path / f"{name}.root", {"x": [1, 2]}, name="t")
    fb.write(tmp_path / "c.root", {"y": [1, 2, 3, 4]}, name="t")
    both = fb.open([tmp_path / "a.root", tmp_path / "b.root"])
    with pytest.raises(fb.UsageError, match="'t' is in 2 files: merge them first"):
        fb.join_columns([both, tmp_path / "c.root"], tmp_path / "out.root")
    single = fb.open(tmp_path / "a.root")
    fb.write(tmp_path / "d.root", {"z": [5, 6]}, name="t")
    assert fb.join_columns([single, tmp_path / "d.root"], tmp_path / "out.root").entries == {"t": 2}


def test_a_list_of_files_is_joined(tmp_path, capfd):
    for name in "ab":
        fb.write(tmp_path / f"{name}.root", {name: [1, 2]}, name="t")
    names = f"\ufeff{tmp_path}/a.root\n# weights\n\n{tmp_path}/b.root\n"
    (tmp_path / "list.txt").write_text(names, encoding="utf-8")
    assert fb._core.cli_main(["join", f"{tmp_path}/out.root", f"@{tmp_path}/list.txt"]) == 0
    assert fb.open(tmp_path / "out.root").keys() == ["a", "b"]
    assert fb._core.cli_main(["join", f"{tmp_path}/one.root", f"{tmp_path}/a.root"]) == 2
    assert "two ntuples or more" in capfd.readouterr().err


def proof_of(path, *others, **options):
    return fb.open(path).verify(against=list(others), beside=True, **options)


def test_a_join_is_proven_by_its_inputs(tmp_path, capfd):
    """If keys had changed the order of entries, there was no proof."""
    a = write(tmp_path / "a.root", LEFT, "Events", cluster_size=9000)
    order = np.random.default_rng(8).permutation(N)
    b = write(tmp_path / "b.root", KEYED[order], "Friends", cluster_size=9000)
    output = tmp_path / "out.root"
    fields = [None, ["y", "s"]]
    fb.join_columns([a, b], output, on=KEYS, fields=fields)
    found = proof_of(output, a, b, on=KEYS, fields=fields)
    assert (found.ok, found.against["entries"]) == (True, N)
    assert {item["field"] for item in found.against["by_value"]} == {"run", "event", "x", "v", "y", "s"}
    more = ["--on", "run,event", "--fields", "*", "--fields", "y,s"]
    code, found = command(capfd, "verify", output, "--against", a, b, "--beside", *more)
    assert (code, found["against"]["equal"]) == (0, True)
    code, found = command(capfd, "join", tmp_path / "again.root", a, b, "--verify", *more)
    assert (code, found["proof"]["equal"]) == (0, True)


def test_a_join_of_equal_clusters_is_proven_by_its_pages(tmp_path):
    one = write(tmp_path / "one.root", {"x": np.arange(5000)}, "Events")
    two = write(tmp_path / "two.root", {"y": np.arange(5000) * 0.5}, "Friends")
    output = tmp_path / "out.root"
    report = fb.join_columns([one, two], output, verify=True)
    [proof] = report.proof["ntuples"]
    assert (proof["by_value"], proof["inputs"][1]["entries"]) == ([], 5000)
    assert proof["pages_equal"] > 0
    assert proof_of(output, one, two, values=True).against["pages_equal"] == 0


@pytest.mark.parametrize("keys", [None, KEYS])
def test_what_is_wrong_in_a_join_is_found(tmp_path, keys):
    order = np.random.default_rng(9).permutation(N) if keys else np.arange(N)
    right = beside(LEFT[KEYS], RIGHT[["y", "s"]]) if keys else RIGHT[["y", "s"]]
    a = write(tmp_path / "a.root", LEFT, "Events")
    b = write(tmp_path / "b.root", right[order], "Friends")
    expected = beside(LEFT, RIGHT[["y", "s"]])

    def differences(array):
        output = tmp_path / "wrong.root"
        fb.write(output, array, name="Events")
        return proof_of(output, a, b, on=keys)

    assert differences(expected).ok
    y = ak.to_numpy(expected["y"]).copy()
    y[1234] += 1
    [found] = differences(ak.with_field(expected, y, "y")).differences
    assert (found["field"], found["entry"], found["input_entry"]) == ("y", 1234, int(np.flatnonzero(order == 1234)[0]))
    # entries that are swapped, missing or too many
    swapped = np.arange(N)
    swapped[[10, 11]] = 11, 10
    assert {"event", "x", "y"} <= {item["field"] for item in differences(expected[swapped]).differences}
    for some, n in ((expected[:-1], N - 1), (ak.concatenate([expected, expected[-1:]]), N + 1)):
        [found] = differences(some).differences
        assert (found["field"], found["found"], found["expected"]) == ("", str(n), str(N))
    # fields that are missing, too many, or different
    [found] = differences(expected[[name for name in expected.fields if name != "s"]]).differences
    assert (found["field"], found["found"]) == ("s", "no such field")
    report = differences(ak.with_field(expected, np.arange(N), "z"))
    assert not report
    [found] = report.against["not_compared"]
    assert (found["field"], "no input" in found["reason"]) == ("z", True)
    [found] = differences(ak.with_field(expected, np.arange(N, dtype="i2"), "y")).differences
    assert (found["field"], found["found"], found["expected"]) == ("y", "it is std::int16_t", "it is float")


def test_proofs_of_joins_say_what_they_cannot_do(tmp_path):
    a = write(tmp_path / "a.root", {"event": [1, 2], "x": [1, 2]}, "Events")
    b = write(tmp_path / "b.root", {"event": [2, 3], "y": [1, 2]}, "Friends")
    output = tmp_path / "out.root"
    fb.join_columns([a, b], output, on="event", unmatched="drop", verify=True)
    with pytest.raises(fb.FemtobarnError, match=r"entry 0 .*event 1.* has no match"):
        proof_of(output, a, b, on="event")
    assert proof_of(output, a, b, on="event", unmatched="drop").ok
    for options in ({"since": 1}, {"entries": (0, 1)}, {"where": "x > 1"}):
        with pytest.raises(fb.FemtobarnError, match="side by side"):
            proof_of(output, a, b, on="event", unmatched="drop", **options)
    with pytest.raises(fb.FemtobarnError, match="beside=True"):
        fb.open(output).verify(against=a, on="event")
    with pytest.raises(fb.FemtobarnError, match=r"pass them as against="):
        fb.open(output).verify(beside=True)
    two = tmp_path / "two.root"
    fb.write(two, {"x": [1]}, name="one")
    with fb.update(two) as file:
        file["two"] = {"x": [1]}
    assert fb._core.cli_main(["verify", str(two), "--against", str(a), str(b), "--beside"]) == 2


def test_a_join_that_lacks_members_is_not_proven(tmp_path):
    """Members that the output had lost were reported as left out, and the proof succeeded."""
    records = ak.Array({"e": [1, 2, 3], "r": [{"a": i, "b": 10 * i} for i in range(3)]})
    records = ak.with_field(records, [[{"pt": 1.0, "eta": 2.0}], [], [{"pt": 3.0, "eta": 4.0}]], "c")
    a = write(tmp_path / "a.root", records, "T")
    b = write(tmp_path / "b.root", {"e": [3, 2, 1], "w": [3, 2, 1]}, "T")
    bad = ak.Array({"e": [1, 2, 3], "r": [{"a": i} for i in range(3)], "w": [1, 2, 3]})
    bad = ak.with_field(bad, [[{"pt": 1.0}], [], [{"pt": 3.0}]], "c")
    fb.write(tmp_path / "bad.root", bad, name="T")
    report = proof_of(tmp_path / "bad.root", a, b, on="e")
    assert not report
    assert {item["found"] for item in report.differences} == {"no such field"}
    assert sorted(item["field"].rpartition(".")[2] for item in report.differences) == ["b", "eta"]
    code = fb._core.cli_main(["verify", *map(str, (tmp_path / "bad.root", "--against", a, b)), "--beside", "--on", "e"])
    assert code == 1


def test_the_first_difference_in_the_output_is_told(tmp_path):
    """If keys had changed the order of entries, it was the first one in the input."""
    events = np.arange(1000)
    a = write(tmp_path / "a.root", {"e": events, "x": events}, "T")
    b = write(tmp_path / "b.root", {"e": events[::-1], "w": events[::-1]}, "T", cluster_size=900)
    wrong = np.where((events == 10) | (events == 900), -1, events)
    fb.write(tmp_path / "bad.root", {"e": events, "x": events, "w": wrong}, name="T")
    [found] = proof_of(tmp_path / "bad.root", a, b, on="e").differences
    assert (found["field"], found["entry"], found["input_entry"], found["found"]) == ("w", 10, 989, "-1")


def test_proofs_take_the_inputs_that_joins_take(tmp_path):
    a = write(tmp_path / "a.root", {"event": [1, 2], "x": [1, 2]}, "T")
    b = write(tmp_path / "b.root", {"event": [2, 1], "w": [1, 2]}, "T")
    output = tmp_path / "out.root"
    fb.join_columns([a, b], output, on="event")
    assert proof_of(output, a, b, on="event").ok
    for fields in (["x"], [None, None, ["typo"]]):
        with pytest.raises(fb.FemtobarnError, match=r"fields are given for \d ntuples, but there are 2"):
            proof_of(output, a, b, on="event", fields=fields)
    with pytest.raises(fb.FemtobarnError, match='both have a field "w"'):
        proof_of(output, a, b, b, on="event")
    with pytest.raises(fb.FemtobarnError, match="two ntuples or more"):
        proof_of(output, a)
    with pytest.raises(fb.FemtobarnError, match="one of its own inputs"):
        proof_of(output, a, output, on="event")
    with pytest.raises(fb.FemtobarnError, match="one of its own inputs"):
        fb.open(output).verify(against=output)
    with pytest.raises(fb.FemtobarnError, match="unmatched needs keys"):
        fb.join_columns([a, b], tmp_path / "no.root", unmatched="drop", fields=["x", "w"])


def test_names_of_joins_are_paths(tmp_path):
    """An input's directory was lost, and a name with extra slashes was reported as given."""
    a = write(tmp_path / "a.root", {"x": [1, 2]}, "d/T")
    b = write(tmp_path / "b.root", {"y": [3, 4]}, "T")
    for name, path in [(None, "d/T"), ("/T", "T"), ("/new//N/", "new/N")]:
        report = fb.join_columns([f"{a}:d/T", b], tmp_path / "out.root", name=name, overwrite=True, verify=True)
        assert report.entries == {path: 2}
        assert fb.open(f"{tmp_path / 'out.root'}:{path}").arrays().tolist() == [{"x": 1, "y": 3}, {"x": 2, "y": 4}]


@pytest.mark.parametrize("name", ["h", "h/T"])
def test_a_name_that_an_object_has_is_told(tmp_path, name):
    """Below an object, it was reported as damage of the output."""
    a = write(tmp_path / "a.root", {"x": [1, 2]}, "T")
    with uproot.recreate(tmp_path / "b.root") as file:
        file["h"] = "a string"
    fb.merge([write(tmp_path / "c.root", {"y": [3, 4]}, "T"), tmp_path / "b.root"], tmp_path / "d.root", others="first")
    with pytest.raises(fb.UsageError, match=rf'd\.root has a TObjString called "h", .* "{name}".*another name'):
        fb.join_columns([a, tmp_path / "d.root"], tmp_path / "out.root", others="first", name=name)
    assert not (tmp_path / "out.root").exists()


def test_a_directory_and_an_object_of_one_name_are_told(tmp_path):
    """With two files, the object hid the directory."""
    for name, inside in [("a", "h/note"), ("b", "h")]:
        with uproot.recreate(tmp_path / f"{name}-other.root") as file:
            file[inside] = "some text"
        part = write(tmp_path / f"{name}-part.root", {name: [1, 2]}, "T")
        fb.merge([part, tmp_path / f"{name}-other.root"], tmp_path / f"{name}.root", others="first")
    with pytest.raises(fb.UsageError, match='called "h", but a directory has this name'):
        fb.join_columns([tmp_path / "a.root", tmp_path / "b.root"], tmp_path / "out.root", others="first")
    assert not (tmp_path / "out.root").exists()


def ticks(raising=False):
    """Return a callback of the core, and the list of its calls."""
    calls = []

    def tick(*call):
        calls.append(call)
        if raising:
            raise KeyboardInterrupt

    return calls, tick


def test_reading_keys_can_be_interrupted(tmp_path):
    """Ctrl-C was only checked when the first pages were copied."""
    a = write(tmp_path / "a.root", LEFT, "Events")
    b = write(tmp_path / "b.root", KEYED[::-1], "Friends")
    files = [(str(a), None), (str(b), None)]
    calls, tick = ticks(raising=True)
    with pytest.raises(KeyboardInterrupt):
        fb._core.join_columns(files, str(tmp_path / "out.root"), {"on": KEYS, "fields": [[], ["y"]]}, {}, tick)
    [(_, all_files, done, total)] = calls
    assert (all_files, done, total) == (2, 0, a.stat().st_size + b.stat().st_size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.root", "b.root"]


@pytest.mark.parametrize("is_join", [True, False])
def test_progress_goes_on_while_the_output_is_compared(tmp_path, is_join):
    """It fell back to 0 of 0."""
    a = write(tmp_path / "a.root", LEFT, "T")
    b = write(tmp_path / "b.root", RIGHT, "T")
    files, size = [(str(a), None), (str(b), None)], a.stat().st_size + b.stat().st_size
    calls, tick = ticks()
    work = fb._core.join_columns if is_join else fb._core.merge
    files = files if is_join else [files[0], files[0]]
    # recompressed, so that values are compared
    work(files, str(tmp_path / "out.root"), {"verify": True, "compression": 404}, {}, tick)
    expected = size if is_join else 2 * a.stat().st_size
    assert {(call[1], call[3]) for call in calls} == {(2, expected)}
    assert max(call[2] for call in calls) <= expected
