"""Cuts, aliases and computed columns while reading: the values of masked arrays, and nothing read needlessly."""

from __future__ import annotations

import json
import operator
import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import servers
from compare import listed, same

import femtobarn as fb

ROOT = Path(__file__).resolve().parents[2]
# without an ntuple that is readable as a whole
OTHERS = ["histograms", "unknown_flag", "versions_none", "versions_zstd"]
FILES = [path for path in sorted((ROOT / "testdata").glob("**/*.root")) if path.stem not in OTHERS]
FILES = [path for path in FILES if path.parent.name != "container" or path.stem == "objects_zstd"]
LIBRARIES = ["ak", "np", "arrow", "pd", "pl"]


def contents(path):
    """Return the ntuples and trees of a file, which may be none."""
    found = []
    for name, kind in kinds(path):
        if kind in ("ROOT::RNTuple", "TTree", "TNtuple", "TNtupleD"):
            found.append(name)
    return found


def kinds(path):
    command = [Path(sys.executable).with_name("fb"), "ls", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, check=False)
    return [(item["name"], item["class"]) for item in json.loads(done.stdout)["objects"]] if done.stdout else []


def first_scalar(nt):
    """Return the name of a field with one number per entry; None if there is none."""
    for name in nt.keys(recursive=False):
        array = nt.arrays([name], entry_stop=1)[name]
        if array.ndim == 1 and isinstance(array.type.content, ak.types.NumpyType):
            return name
    return None


def cuts(nt, everything, scalar):
    """Yield cuts, and the masks that they stand for."""
    n = nt.num_entries
    yield from [("false", np.zeros(n, bool)), ("true", np.ones(n, bool))]
    if scalar is None or n == 0:
        return
    values = everything[scalar]
    middle = sorted(listed(values), key=repr)[len(values) // 2]
    if isinstance(middle, float) and not np.isfinite(middle):
        return
    bound = str(middle).lower() if isinstance(middle, bool) else repr(middle)
    yield from [(f"`{scalar}` == {bound}", values == middle), (f"`{scalar}` != {bound}", values != middle)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.filterwarnings("ignore::femtobarn.UnreadableWarning")
def test_a_cut_leaves_what_a_mask_leaves_in_all_columns(path):
    try:
        names = contents(path)
    except (KeyError, ValueError):
        names = []
    n_compared = 0
    for name in names:
        try:
            nt = fb.open({str(path): name})
            everything = nt.arrays()
            scalar = first_scalar(nt)
        except fb.FemtobarnError:
            continue
        n_compared += 1
        for cut, mask in cuts(nt, everything, scalar):
            if ak.any(ak.is_none(mask)):
                mask = ak.fill_none(mask, False)
            found, wanted = nt.arrays(cut=cut), everything[mask]
            assert found.fields == wanted.fields
            for field in wanted.fields:
                assert found[field].type == wanted[field].type, (name, field)
                assert same(found[field], wanted[field]), (name, field, cut)
            if everything.nbytes > 1e7:  # as lists they would be read for minutes
                continue
            steps = list(nt.iterate(cut=cut, step_size=max(nt.num_entries // 100, 3), library="ak"))
            assert repr([entry for step in steps for entry in listed(step)]) == repr(listed(wanted)), (name, cut)
    assert n_compared


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_has_the_remaining_entries(dimuon, library):
    nt = fb.open(dimuon)
    cut = "nMuon >= 2 & any(Muon_pt > 30)"
    fields = ["event", "Muon_eta", "Muon_charge"]
    everything = nt.arrays()
    mask = (everything.nMuon >= 2) & ak.any(everything.Muon_pt > 30, axis=1)
    found = nt.arrays(fields, cut, library=library)
    if library == "ak":
        assert same(found, everything[fields][mask])
        return
    columns = {name: listed(found[name]) for name in fields}
    assert columns == {name: everything[name][mask].to_list() for name in fields}
    if library == "pd":
        assert found.index.tolist() == np.flatnonzero(mask).tolist()


def test_the_columns_of_the_cut_need_not_be_asked_for(dimuon):
    found = fb.open(dimuon).arrays("Muon_eta", cut="nMuon == 2 and Muon_charge[0] != Muon_charge[1]")
    assert found.fields == ["Muon_eta"]
    everything = fb.open(dimuon).arrays()
    mask = (everything.nMuon == 2) & (ak.sum(everything.Muon_charge, axis=1) == 0)
    assert same(found.Muon_eta, everything.Muon_eta[mask])


def test_a_member_of_a_record_is_no_column_because_the_cut_uses_another(mixed):
    nt = fb.open(mixed)
    records = [field.path for field in nt.fields if any(child.path for child in field.fields)]
    tried = 0
    for record in records:
        names = [child.name for child in nt[record].fields]
        array = nt[record].array()
        if len(names) < 2 or not isinstance(array.type.content, ak.types.RecordType) or array.ndim != 1:
            continue
        for one, other in [(names[0], names[1]), (names[1], names[0])]:
            if isinstance(array[one].type.content, ak.types.NumpyType):
                tried += 1
                bound = sorted(array[one].to_list())[len(array) // 2]
                cut = f"{record}.{one} >= {str(bound).lower()}"
                found = nt.arrays([f"{record}.{other}"], cut=cut)
                assert found[record].fields == [other]
                assert same(found[record][other], array[other][array[one] >= bound])
    assert tried


def test_reports_tell_the_entries_before_the_cut(dimuon):
    steps = list(fb.open(dimuon).iterate(["event"], "nMuon >= 3", step_size=5000, report=True))
    assert [(report.start, report.stop) for _, report in steps] == [(0, 5000), (5000, 10000), (10000, 12000)]
    everything = fb.open(dimuon).arrays(["event", "nMuon"])
    wanted = everything[everything.nMuon >= 3].event
    assert same(ak.concatenate([array for array, _ in steps]).event, wanted)


def test_batches_know_the_numbers_of_the_entries_that_are_left(dimuon):
    files = {"d": [f"{dimuon}:Events"]}
    for batch in fb.iterate(files, ["event"], cut="nMuon >= 4", step_size=5000):
        assert batch.entry_numbers.tolist() == (batch.event - 1000).to_list()
    for batch in fb.iterate(files, ["event"], step_size=5000):
        assert batch.entry_numbers.tolist() == list(range(batch.entry_start, batch.entry_stop))


def test_many_files_have_one_cut_and_pandas_their_entry_numbers(dimuon, tmp_path):
    fb.clone(dimuon, tmp_path / "a.root", entries=range(7000))
    fb.clone(dimuon, tmp_path / "b.root", entries=range(7000, 12000))
    files = [tmp_path / "a.root", tmp_path / "b.root"]
    cut = "nMuon >= 3"
    wanted = fb.open(dimuon).arrays(["event", "Muon_pt"], cut, library="pd")
    at_once = fb.concatenate(files, ["event", "Muon_pt"], cut, library="pd")
    frames = list(fb.iterate(files, ["event", "Muon_pt"], cut, library="pd", step_size=3000))
    assert at_once.index.tolist() == wanted.index.tolist()
    assert [number for frame in frames for number in frame.index] == wanted.index.tolist()
    assert [number for frame in frames for number in frame.event] == wanted.event.tolist()


def test_entry_ranges_are_those_before_the_cut(dimuon):
    nt = fb.open(dimuon)
    found = nt.arrays(["event"], "nMuon >= 2", entry_start=100, entry_stop=2000)
    everything = nt.arrays(["event", "nMuon"], entry_start=100, entry_stop=2000)
    assert same(found.event, everything[everything.nMuon >= 2].event)
    assert len(nt.arrays(["event"], "nMuon >= 2", entry_start=5, entry_stop=5)) == 0


def test_aliases_are_columns_and_parts_of_other_aliases_and_of_cuts(dimuon):
    aliases = {"leading": "max(Muon_pt)", "is_hard": "leading > 30 and nMuon >= 2", "eta": "Muon_eta"}
    found = fb.open(dimuon).arrays(["eta", "event", "leading", "nMuon"], "is_hard", aliases=aliases)
    assert found.fields == ["eta", "event", "leading", "nMuon"]
    everything = fb.open(dimuon).arrays()
    leading = ak.max(everything.Muon_pt, axis=1)
    mask = ak.fill_none((leading > 30) & (everything.nMuon >= 2), False)
    assert same(found.eta, everything.Muon_eta[mask])
    assert found.eta.type == everything.Muon_eta[mask].type
    assert found.leading.to_list() == leading[mask].to_list()


def test_aliases_in_a_cycle_are_an_error_that_names_them(dimuon):
    with pytest.raises(fb.UsageError, match='"a" → "b" → "a"'):
        fb.open(dimuon).arrays(["a"], aliases={"a": "b + 1", "b": "2 * a"})
    with pytest.raises(fb.UsageError, match='"Muon_pt" → "Muon_pt"'):
        fb.open(dimuon).arrays(["Muon_pt"], aliases={"Muon_pt": "Muon_pt / 2"})


def test_expressions_are_computed_in_the_order_that_was_asked_for(dimuon):
    expressions = ["Muon_pt * 2", "event", "nMuon >= 2", "Muon_pt[0]", "Muon_*"]
    found = fb.open(dimuon).arrays(expressions)
    everything = fb.open(dimuon).arrays()
    muons = fb.open(dimuon).arrays("Muon_*").fields
    assert found.fields == [*expressions[:4], *muons]
    doubled = ak.values_astype(everything.Muon_pt, "f8") * 2
    assert same(found["Muon_pt * 2"], doubled)
    assert same(found["nMuon >= 2"], everything.nMuon >= 2)
    first = ak.values_astype(ak.firsts(everything.Muon_pt), "f8")
    assert found["Muon_pt[0]"].to_list() == first.to_list()


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_takes_computed_columns(dimuon, library):
    names = ["2 * nMuon", "Muon_pt[0]", "Muon_pt / 2", "nMuon > 1"]
    found = fb.open(dimuon).arrays(names, "nMuon != 1", entry_stop=2000, library=library)
    wanted = fb.open(dimuon).arrays(names, entry_stop=2000)
    wanted = wanted[fb.open(dimuon).arrays("nMuon", entry_stop=2000).nMuon != 1]
    for name in names:
        values = found[name].astype(object).where(found[name].notna(), None) if library == "pd" else found[name]
        assert listed(values) == wanted[name].to_list()


def test_types_do_not_depend_on_the_values_of_a_step(dimuon):
    steps = list(fb.open(dimuon).iterate(["Muon_pt[0]", "nMuon // 2"], step_size=1))
    assert {str(step.type.content) for step in steps[:200]} == {'{"Muon_pt[0]": ?float64, "nMuon // 2": ?int64}'}


def test_cuts_agree_with_those_of_uproot(need, dimuon, tmp_path):
    uproot = need("uproot")
    fields = ["event", "nMuon", "Muon_pt", "Muon_eta"]
    numbers = fb.open(dimuon).arrays(fields, entry_stop=3000)
    with uproot.recreate(tmp_path / "tree.root") as file:
        file.mktree("tree", {"event": "u8", "n": "i4", "Muon": "var * {pt: float32, eta: float32}"})
        muons = ak.zip({"pt": numbers.Muon_pt, "eta": numbers.Muon_eta})
        file["tree"].extend({"event": numbers.event, "n": numbers.nMuon, "Muon": muons})
    # uproot reads all entries of an ntuple, whatever the cut is
    fb.convert(tmp_path / "tree.root", tmp_path / "ntuple.root")
    names = ["event", "Muon_pt", "Muon_eta"]
    for cut in ["n >= 2", "(n == 2) & (event > 100)", "(n == 0) | (n == 3)", "n > 1000"]:
        with uproot.open(tmp_path / "tree.root") as file:
            wanted = file["tree"].arrays(names, cut)
        for path in (tmp_path / "tree.root", tmp_path / "ntuple.root"):
            found = fb.open(path).arrays(names, cut)
            assert found.fields == wanted.fields
            assert all(same(found[field], wanted[field]) for field in names), (path, cut)
    aliases = {"twice": "event * 2", "is_large": "n > 2"}
    with uproot.open(tmp_path / "tree.root") as file:
        wanted = file["tree"].arrays(["twice", "event + n"], "is_large", aliases=aliases)
    for path in (tmp_path / "tree.root", tmp_path / "ntuple.root"):
        found = fb.open(path).arrays(["twice", "event + n"], "is_large", aliases=aliases)
        assert found.to_list() == wanted.to_list()


def sorted_file(folder, n=400_000):
    """Return a file whose first column grows, with small clusters: cuts on it leave consecutive entries."""
    rng = np.random.default_rng(1)
    data = {"number": np.arange(n, dtype="i4"), "a": rng.random(n, "f4"), "b": rng.random(n, "f8")}
    data["lists"] = ak.unflatten(rng.random(2 * n, "f4"), np.full(n, 2))
    path = folder / "sorted.root"
    fb.write(path, data, cluster_size=1_000_000, page_size=65_536)
    return path


def test_pages_without_entries_that_are_left_are_not_read(tmp_path):
    path = sorted_file(tmp_path)
    cut = "number in [5, 100000, 399999]"
    nt = fb.open(path)
    found = nt.arrays(cut=cut)
    read = nt.metrics
    everything = fb.open(path)
    wanted = everything.arrays()[[5, 100000, 399999]]
    assert same(found, wanted)
    plan, bound = fb.open(path).explain(), fb.open(path).explain(cut=cut)
    assert read.pages < plan.pages / 4
    assert bound.pages == plan.pages
    assert not bound.exact
    assert any("upper bounds" in note for note in bound.notes)


@pytest.mark.parametrize("kind", ["xrootd", "nginx"])
def test_a_rare_cut_on_a_server_reads_little_in_few_requests(need_program, tmp_path, kind):
    need_program(kind)
    path = sorted_file(tmp_path)
    with closing(servers.Xrootd() if kind == "xrootd" else servers.Nginx()) as server:
        server.put("sorted.root", path.read_bytes())
        nt = fb.open(f"{server.url}/sorted.root")
        opened = nt.metrics
        found = nt.arrays(cut="number % 40000 == 7")
        after = nt.metrics
        assert found.number.to_list() == list(range(7, 400_000, 40_000))
        assert same(found, fb.open(path).arrays()[7::40_000])
        n_bytes = after.bytes_read - opened.bytes_read
        assert n_bytes < path.stat().st_size / 2
        assert after.requests - opened.requests < 40


def test_trees_are_read_by_baskets_where_entries_are_left(need, tmp_path):
    uproot = need("uproot")
    n = 200_000
    with uproot.recreate(tmp_path / "tree.root") as file:
        file.mktree("tree", {"number": "i4", "x": "f8", "y": "var * float32"})
        for first in range(0, n, 10_000):
            own = np.arange(first, first + 10_000, dtype="i4")
            lists = ak.unflatten(np.repeat(own, 2).astype("f4"), np.full(10_000, 2))
            file["tree"].extend({"number": own, "x": own / 2, "y": lists})
    nt = fb.open(tmp_path / "tree.root")
    found = nt.arrays(cut="number in [3, 4, 9999, 150000]")
    assert found.number.to_list() == [3, 4, 9999, 150_000]
    assert found.y.to_list() == [[k, k] for k in [3, 4, 9999, 150_000]]
    assert found.x.to_list() == [1.5, 2.0, 4999.5, 75000.0]
    whole = fb.open(tmp_path / "tree.root")
    whole.arrays()
    assert nt.metrics.bytes_read < whole.metrics.bytes_read * 2 / 3


def test_memory_of_a_read_is_that_of_a_step_and_the_result(tmp_path):
    """Read 500 MB of columns, of which 1 in 1000 entries is left, with less than half of that."""
    n = 16_000_000
    data = {"number": np.arange(n, dtype="i4")} | {f"c{k}": np.arange(n, dtype="f8") for k in range(4)}
    fb.write(tmp_path / "large.root", data, compression="zstd:1")
    script = """if True:
        import resource, sys
        import numpy as np
        import femtobarn as fb
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = fb.open(sys.argv[1], memory_map=False).arrays(cut="number % 1000 == 0", library="np", threads=1)
        assert all(np.array_equal(found[f"c{k}"], np.arange(0, 16_000_000, 1000)) for k in range(4))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "large.root"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 250_000, "kB"


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ("nMuon >", "expected a value"),
        ("nMuonn > 2", "nMuon"),
        ("Muon_pt > 30", "any("),
        ("nMuon >= nMuon & event > 2", "put parentheses"),
        (3, "must be an expression"),
    ],
)
def test_a_cut_that_is_none_is_an_error_that_says_what_is_wrong(dimuon, cut, message):
    for read in [fb.open(dimuon).arrays, fb.open(dimuon).iterate, fb.open(dimuon).explain]:
        with pytest.raises(fb.FemtobarnError) as caught:
            read(["event"], cut=cut)
        assert message in str(caught.value)


@pytest.mark.parametrize("aliases", [["x"], {"x": 3}, {3: "x"}, {"x": "1 +"}])
def test_aliases_that_are_none_are_refused(dimuon, aliases):
    with pytest.raises(fb.UsageError, match="alias"):
        fb.open(dimuon).arrays(["event"], aliases=aliases)


def test_virtual_arrays_take_no_cut(dimuon):
    with pytest.raises(fb.UsageError, match="virtual=True cannot be combined with a cut"):
        fb.open(dimuon).arrays(cut="nMuon > 2", virtual=True)


def test_an_expression_with_unknown_names_tells_the_nearest(dimuon):
    with pytest.raises(fb.KeyNotFoundError, match=r"there is no field 'Muon_ptt'.*did you mean 'Muon_pt'"):
        fb.open(dimuon).arrays("Muon_ptt * 2")
    with pytest.raises(fb.KeyNotFoundError, match="it is not an expression"):
        fb.open(dimuon).arrays("Muon_pt[:, 0] > 2")


def test_lists_of_different_lengths_are_told_with_the_number_of_the_entry(tmp_path):
    data = {"n": np.arange(4), "x": ak.Array([[1], [1, 2], [3], []]), "y": ak.Array([[1], [1, 2], [3, 4], []])}
    fb.write(tmp_path / "x.root", data)
    with pytest.raises(fb.UsageError, match="in entry 2: 1 and 2"):
        fb.open(tmp_path / "x.root").arrays(["x + y"], "n > 0")


def test_the_program_shows_the_first_entries_that_fulfil_a_condition(dimuon):
    program = Path(sys.executable).with_name("fb")
    command = [program, "head", dimuon, "event", "nMuon", "-n", "4", "--where", "nMuon >= 3"]
    wanted = fb.open(dimuon).arrays(["event", "nMuon"], "nMuon >= 3", library="pd").iloc[:4]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split() for line in lines[2:]] == [[str(n), *map(str, row)] for n, *row in wanted.itertuples()]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == wanted.to_dict("records")
    none = subprocess.run([*command[:-1], "nMuon > 1000"], capture_output=True, text=True, check=True)
    assert len(none.stdout.splitlines()) == 2


# -- process ------------------------------------------------------------------------------------------------


CUT = "nMuon >= 2 and leading > 30"
ALIASES = {"leading": "max(Muon_pt)"}


def passing(path):
    muons = fb.open(path).arrays(["event", "Muon_pt"])
    chosen = muons[(ak.num(muons.Muon_pt) >= 2) & ak.any(muons.Muon_pt > 30, axis=1)]
    return chosen.event.to_list()


def number(event):
    assert event.entry_number == event.event - 1000
    assert pickle.loads(pickle.dumps(event)).entry_number == event.entry_number
    return [int(event.event)]


def numbers(batch):
    assert batch.fields == ["event", "leading"]
    assert batch.entry_numbers.tolist() == (batch.event - 1000).to_list()
    return batch.event.to_list()


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("by", ["event", "batch"])
@pytest.mark.parametrize("size", [None, 700])
def test_process_passes_what_a_cut_leaves(dimuon, executor, by, size):
    options = {"preload": ["event", "leading"], "cut": CUT, "aliases": ALIASES, "executor": executor, "by": by}
    options |= {"output_batch_size": size, "workers": 2, "reduce": operator.add, "progress": False}
    function = number if by == "event" else numbers
    for source in (fb.open(dimuon), {"a": [f"{dimuon}:Events"]}):
        result = fb.process(source, function, **options)
        assert result.value == passing(dimuon)
        assert result.n_events == 12_000


def refuses(entry):
    if entry.event == 1044:
        raise ValueError("not this one")
    return 1


def test_an_entry_that_fails_behind_a_cut_is_named_by_its_number(dimuon):
    options = {"preload": ["event"], "cut": "nMuon >= 4", "progress": False, "reduce": operator.add}
    with pytest.raises(fb.ProcessError, match=r"entry 44 \(.*event 1044"):
        fb.process(fb.open(dimuon), refuses, **options)
    result = fb.process([dimuon], refuses, on_error="skip", **options)
    (failed,) = result.failures
    assert (failed.where.split()[:2], failed.n_events) == (["entry", "44"], 1)
    assert result.value == len(fb.open(dimuon).arrays(["event"], "nMuon >= 4")) - 1


def test_a_compiled_function_gets_what_a_cut_leaves(dimuon, need):
    compiled = need("numba").njit(lambda event: event.event)
    result = fb.process(dimuon, compiled, preload=["event"], cut="nMuon >= 4", progress=False)
    assert result.value == fb.open(dimuon).arrays(["event"], "nMuon >= 4").event.to_list()


def test_a_checkpoint_is_of_one_cut(dimuon, tmp_path):
    options = {"preload": ["event"], "progress": False, "checkpoint": tmp_path / "checkpoint", "reduce": operator.add}
    options |= {"output_batch_size": 64}
    with pytest.raises(fb.ProcessError, match="event 1044"):
        fb.process(dimuon, refuses, cut="nMuon >= 4", **options)
    with pytest.raises(fb.UsageError, match="cut"):
        fb.process(dimuon, refuses, cut="nMuon >= 3", **options)


def test_process_refuses_cuts_that_it_cannot_use(dimuon):
    store = fb.DataStore.connect("memory:")
    with pytest.raises(fb.UsageError, match="cut and aliases are for ntuples and files"):
        fb.process(store.root.create_dataset("a"), len, cut="x > 1")
    with pytest.raises(fb.UsageError, match="virtual=True cannot be combined with a cut"):
        fb.process(dimuon, len, by="batch", virtual=True, cut="nMuon > 1", progress=False)
    with pytest.raises(fb.KeyNotFoundError, match='no field "nMuons"'):
        fb.process(dimuon, len, by="batch", cut="nMuons > 1", progress=False)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_datasets_of_a_fileset_have_cuts_of_their_own(dimuon, executor):
    """As data have a golden JSON, and simulation has none."""
    files = {"data": [f"{dimuon}:Events"], "simulation": {"files": {dimuon: "Events"}}}
    cut = {"data": "nMuon >= 4"}
    found = {}
    for batch in fb.iterate(files, ["event"], cut=cut, step_size=5000):
        found.setdefault(batch.dataset, []).extend(batch.event.to_list())
    every = fb.open(dimuon).arrays(["event", "nMuon"])
    assert found == {"data": every.event[every.nMuon >= 4].to_list(), "simulation": every.event.to_list()}
    for by, function in (("batch", events_of), ("event", event_of)):
        options = {"by": by, "preload": ["event"], "cut": cut, "by_dataset": True, "reduce": operator.add}
        result = fb.process(files, function, executor=executor, workers=2, progress=False, **options)
        assert result.value == found
    for wrong, message in (
        ({"dat": "nMuon > 1"}, "the dataset 'dat', which the fileset does not have; did you mean 'data'"),
        ({"data": None}, "the cut of dataset 'data' is None"),
        ({"data": 1}, "cut must be an expression"),
    ):
        with pytest.raises(fb.UsageError, match=message):
            fb.process(files, len, cut=wrong)
        with pytest.raises(fb.UsageError, match=message):
            fb.iterate(files, cut=wrong)
    with pytest.raises(fb.UsageError, match="a dict of cuts is for the datasets of a fileset"):
        fb.process(dimuon, len, cut=cut)
    with pytest.raises(fb.UsageError, match="a dict of cuts is for the datasets of a fileset"):
        fb.open(dimuon).arrays(cut=cut)


def events_of(batch):
    return batch.event.to_list()


def event_of(event):
    return [int(event.event)]
