"""Sources of graphed on femtobarn."""

from __future__ import annotations

import pickle
import shutil

import awkward as ak
import pytest

import femtobarn as fb
from femtobarn.graphed import source

pytest.importorskip("graphed")

import graphed
from graphed.awkward import gak, to_parquet
from graphed.core import SequentialRunner
from graphed.write import PartitionedSource

pytestmark = pytest.mark.filterwarnings("ignore")


def run(*outputs, reduce, steps_per_file=1):
    """Return the sum of what `reduce` makes of each partition."""
    plan = graphed.aggregate_plan(
        *outputs, reduce=reduce, combine=lambda a, b: a + b, empty=list, steps_per_file=steps_per_file
    )
    return SequentialRunner().run(plan).value


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_a_plan_gives_what_awkward_gives(dimuon, steps):
    events = source(f"{dimuon}:Events").array()
    leading = gak.max(events[events.nMuon == 2].Muon_pt, axis=1)
    found = run(leading, reduce=lambda out: ak.to_list(out[0]), steps_per_file=steps)
    read = fb.open(dimuon).arrays()
    assert found == ak.to_list(ak.max(read[read.nMuon == 2].Muon_pt, axis=1))


@pytest.mark.oracle
def test_a_tree_gives_what_uproot_gives(shared):
    import uproot

    path = str(shared / "ttree/hzz_zlib.root")
    ours, theirs = source({path: "events"}).array(), uproot.graphed({path: "events"})
    sums = [
        run(gak.sum(events.Muon_Px, axis=1), events.NJet, reduce=lambda out: [ak.to_list(part) for part in out])
        for events in (ours, theirs)
    ]
    assert sums[0] == sums[1]


def test_members_of_nested_fields_are_read(shared):
    """uproot's source of graphed fails for these."""
    path = f"{shared / 'rntuple/treemaker_rntuple.root'}:PreSelection"
    pt = source(path).array().Jets.fCoordinates.fPt
    found = run(gak.max(pt, axis=1), reduce=lambda out: ak.to_list(out[0]))
    assert found == ak.to_list(ak.max(fb.open(path).arrays("Jets").Jets.fCoordinates.fPt, axis=1))


def test_only_needed_fields_are_read(dimuon):
    made = source(f"{dimuon}:Events")
    read = []

    class Watching:
        def open_once(self, url, opener):
            read.append(opener(url))
            return read[-1]

    chunk = made.read_partition(made.partitions(2)[1], ["nMuon"], Watching())
    assert chunk.fields == ["nMuon"]
    assert len(chunk) == 6000
    (nt,) = read
    assert nt.metrics.bytes_needed < sum(size["bytes_on_disk"] for size in nt._column_sizes().values()) / 5


def test_steps_of_a_preprocessed_fileset_are_the_partitions(dimuon):
    files = {dimuon: {"object_path": "Events", "steps": [[0, 5000], [5000, 12000]]}}
    made = source(files, ["nMuon"])
    assert [(part.entry_start, part.entry_stop) for part in made.partitions()] == [(0, 5000), (5000, 12000)]
    lengths = run(made.array().nMuon, reduce=lambda out: [len(out[0])])
    assert lengths == [5000, 7000]
    with pytest.raises(fb.UsageError, match="leave out steps_per_file"):
        made.partitions(2)
    with pytest.raises(fb.UsageError, match="some files have steps and others do not"):
        source({**files, "other.root": "Events"})


def read_all(made):
    return run(made.array().nMuon, reduce=lambda out: [len(out[0])])


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"uuid": "00000000-0000-0000-0000-000000000001"}, "but the fileset has 00000000-0000-0000-0000-000000000001"),
        ({"num_entries": 11_999}, "has 12,000 entries, but the fileset has 11,999 entries"),
        ({"steps": [[0, 5000], [5000, 99_999]]}, "has 12,000 entries, but the fileset has steps up to entry 99,999"),
    ],
)
def test_files_that_are_not_those_of_the_fileset_are_refused(dimuon, tmp_path, known, message):
    described = {"object_path": "Events", "steps": [[0, 5000]], **known}
    with pytest.raises(fb.FileError, match=message):
        source({dimuon: described})
    with pytest.raises((fb.FileError, fb.ProcessError), match=message):
        fb.process({"a": {"files": {dimuon: described}}}, len, preload=["nMuon"], by="batch", progress=False)
    # of other files than the first, only the partitions are read
    copied = shutil.copy(dimuon, tmp_path / "first.root")
    made = source({str(copied): {"object_path": "Events", "steps": [[0, 5000]]}, dimuon: described})
    with pytest.raises(fb.FileError, match=message):
        read_all(made)
    with pytest.raises(fb.FileError, match=message):
        made()


def test_only_entries_of_the_steps_are_read(dimuon):
    assert read_all(source({dimuon: {"object_path": "Events", "steps": []}})) == []
    assert len(source({dimuon: {"object_path": "Events", "steps": []}}, ["nMuon"])()) == 0
    assert len(source({dimuon: {"object_path": "Events", "steps": [[0, 7], [9, 12]]}}, ["nMuon"])()) == 10
    with pytest.raises(fb.UsageError, match="without the 'steps'"):
        fb.open({dimuon: {"object_path": "Events", "steps": []}})


def test_a_preprocessed_fileset_is_read_as_it_is(dimuon):
    fileset, _ = pytest.importorskip("femtobarn.coffea").preprocess(
        {"a": {"files": {dimuon: "Events"}}}, step_size=5000
    )
    assert sum(read_all(source(fileset["a"]["files"]))) == 12_000
    with pytest.raises(fb.UsageError, match="the files of one dataset"):
        source(fileset)


def test_a_source_is_small_and_follows_the_protocol(dimuon):
    made = source(f"{dimuon}:Events")
    assert isinstance(made, PartitionedSource)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert ak.array_equal(again(), fb.open(dimuon).arrays(made.fields))


def test_a_selection_is_written_to_parquet(dimuon, tmp_path, need):
    need("pyarrow")
    events = source(f"{dimuon}:Events", ["nMuon", "Muon_pt"]).array()
    plan = to_parquet(events[events.nMuon > 2], str(tmp_path / "out"), steps_per_file=2)
    if plan is not None and not isinstance(plan, list):
        SequentialRunner().run(plan)
    written = ak.from_parquet(str(tmp_path / "out"))
    read = fb.open(dimuon).arrays(["nMuon", "Muon_pt"])
    expected = read[read.nMuon > 2]
    assert written.Muon_pt.to_list() == expected.Muon_pt.to_list()


def test_fields_that_do_not_exist_are_named(dimuon):
    with pytest.raises(fb.KeyNotFoundError, match="no_such"):
        source(dimuon, ["no_such"])
