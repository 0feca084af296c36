"""Events of coffea on femtobarn: the same as with coffea's own reader."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
from contextlib import closing

import awkward as ak
import numpy as np
import pytest
import servers

import femtobarn as fb

pytest.importorskip("coffea")

from coffea.nanoevents import NanoEventsFactory as CoffeaFactory
from coffea.nanoevents import schemas

from femtobarn._coffea import factory as factory_module
from femtobarn.coffea import NanoEventsFactory, from_root

# coffea and its schemas warn of much
pytestmark = pytest.mark.filterwarnings("ignore")

CASES = [
    ("ttree/nano_dy.root", "Events", schemas.NanoAODSchema),
    ("rntuple/nano_dy_rntuple.root", "Events", schemas.NanoAODSchema),
    ("rntuple/nano_dy_rntuple.root", "Events", schemas.BaseSchema),
    ("ttree/nano_tt_v12.root", "Events", schemas.NanoAODSchema),
    ("ttree/nano_tt_v12.root", "Events", schemas.PFNanoAODSchema),
    ("ttree/nano_tt_v12.root", "Events", schemas.ScoutingNanoAODSchema),
    ("rntuple/treemaker_rntuple.root", "PreSelection", schemas.TreeMakerSchema),
    ("ttree/edm4hep.root", "events", schemas.EDM4HEPSchema.version("00.99.01")),
    ("ttree/edm4hep.root", "events", schemas.BaseSchema),
    ("ttree/fcc_spring2021.root", "events", schemas.FCCSchema),
    ("ttree/hzz_zlib.root", "events", schemas.BaseSchema),
    ("coffea/nano_dimuon.root", "Events", schemas.NanoAODSchema),
    ("coffea/nano_dimuon_rntuple.root", "Events", schemas.NanoAODSchema),
    ("coffea/nano_tree.root", "Events", schemas.BaseSchema),
    ("coffea/nano_tree_rntuple.root", "Events", schemas.BaseSchema),
    ("coffea/nano_dy_empty_rntuple.root", "Events", schemas.NanoAODSchema),
    ("coffea/nano_tt_v15.root", "Events", schemas.NanoAODSchema),
    ("coffea/pfnano.root", "Events", schemas.PFNanoAODSchema),
    ("coffea/pfnano_rntuple.root", "Events", schemas.PFNanoAODSchema),
    ("coffea/scouting_nano.root", "Events", schemas.ScoutingNanoAODSchema),
    ("coffea/treemaker.root", "PreSelection", schemas.TreeMakerSchema),
    ("coffea/PHYSLITE_example.root", "CollectionTree", schemas.PHYSLITESchema),
    ("coffea/p8_ee_WW_ecm240_edm4hep.root", "events", schemas.FCCSchema_edm4hep1),
    ("coffea/pduneana.root", "pduneana/beamana", schemas.PDUNESchema),
    ("coffea/delphes.root", "Delphes", schemas.DelphesSchema),
    ("coffea/edm4hep_example_v00-99-04_podio_v01-06.root", "events", schemas.EDM4HEPSchema.version("00.99.04")),
    ("coffea/nano_dy_SpecialTree_rntuple.root", "NotEvents", schemas.NanoAODSchema),
]
# uproot reads one of the base classes of the former as their members, and the numbers of processes between the latter
# as bits; the values here are those of ROOT
KNOWN_WRONG = re.compile(r"METAssoc.*jetLink|/fBits$")


@pytest.fixture
def sample(shared, samples):
    """A function that returns a file."""

    def find(name):
        folder, file = name.split("/")
        return samples / file if folder == "coffea" else shared / name

    return find


def of_coffea(path, name, **options):
    return CoffeaFactory.from_root({str(path): name}, **options).events()


def parameters(form):
    """Return the parameters, without the types, and descriptions that only repeat a name."""
    found = {name: value for name, value in form.parameters.items() if name not in ("typename", "metadata")}
    if not re.search(r"[ \[/]", found.get("__doc__") or ""):
        found.pop("__doc__", None)
    return found


def differences(ours, theirs, path=""):
    """Yield where layouts differ in fields, parameters, types or bits."""
    if parameters(ours.form) != parameters(theirs.form):
        yield f"{path}: parameters {parameters(ours.form)}, coffea has {parameters(theirs.form)}"
    if theirs.is_record:
        if not set(theirs.fields) <= set(ours.fields):  # uproot leaves out some members
            yield f"{path}: fields {set(theirs.fields) - set(ours.fields)}"
        for name in set(ours.fields) & set(theirs.fields):
            yield from differences(ours[name], theirs[name], f"{path}/{name}")
        return
    ours, theirs = (ak.materialize(layout, highlevel=False) for layout in (ours, theirs))
    if KNOWN_WRONG.search(path):
        return
    if ours.form.type != theirs.form.type and type(ours) is not type(theirs):
        yield f"{path}: {ours.form.type}, coffea has {theirs.form.type}"
    elif theirs.is_list:
        offsets = [np.asarray(layout.to_ListOffsetArray64(True).offsets) for layout in (ours, theirs)]
        if not np.array_equal(*offsets):
            yield f"{path}: offsets"
        yield from differences(ours.content, theirs.content, path)
    elif theirs.is_numpy:
        if ours.dtype != theirs.dtype or ours.data.tobytes() != theirs.data.tobytes():
            yield f"{path}: {ours.data[:3]}, coffea has {theirs.data[:3]}"
    elif not ak.array_equal(ak.Array(ours), ak.Array(theirs), equal_nan=True, check_parameters=False):
        yield f"{path}: values"


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("file", "name", "schema", "mode"),
    [(*case, "virtual") for case in CASES] + [(*CASES[at], "eager") for at in (0, 6, 8)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_events_are_those_of_coffea(sample, file, name, schema, mode):
    path = sample(file)
    expected = of_coffea(path, name, schemaclass=schema, mode=mode)
    found = from_root(f"{path}:{name}", schemaclass=schema, mode=mode)
    assert type(found) is type(expected)
    assert dict(found.metadata) == dict(expected.metadata)
    assert set(expected.fields) <= set(found.fields)
    assert list(differences(found[expected.fields].layout, expected[expected.fields].layout)) == []


@pytest.mark.oracle
@pytest.mark.parametrize("file", ["ttree/nano_dy.root", "rntuple/nano_dy_rntuple.root"])
def test_methods_of_events_give_what_they_give_with_coffea(shared, file):
    found, expected = from_root(f"{shared / file}:Events"), of_coffea(shared / file, "Events")
    for events in (found, expected):
        assert ak.all(events.Muon.matched_jet.pt > 0)
    for compute in (
        lambda events: events.Jet.matched_muons.pt,
        lambda events: events.Electron.matched_photon.pt,
        lambda events: events.GenPart.distinctParent.pdgId,
        lambda events: events.GenPart.distinctChildren.pt,
        lambda events: events.Muon.nearest(events.Jet).pt,
        lambda events: (events.Jet[:, :1] + events.Jet[:, :1]).mass,
        lambda events: events[ak.num(events.Jet) > 4].Jet[:, :1].delta_r(events[ak.num(events.Jet) > 4].Jet[:, 1:2]),
        lambda events: ak.zip({"pt": events.Jet.pt, "gen": events.Jet.matched_gen.pt}).gen,
        lambda events: ak.with_field(events, events.Jet.pt * 2, "twice").twice,
    ):
        assert compute(found).to_list() == compute(expected).to_list()


def test_a_range_of_entries_is_that_range(shared):
    path = shared / "rntuple/nano_dy_rntuple.root"
    every = from_root({str(path): "Events"}, mode="eager")
    part = from_root(fb.open(f"{path}:Events"), entry_start=3, entry_stop=11, metadata={"dataset": "dy"})
    assert part.Jet.pt.to_list() == every.Jet.pt[3:11].to_list()
    assert part.GenPart.children.pdgId.to_list() == every.GenPart.children.pdgId[3:11].to_list()
    assert part.metadata == {"dataset": "dy", "version": "latest"}


def test_only_touched_columns_are_read(shared):
    nt = fb.open(f"{shared / 'rntuple/nano_dy_rntuple.root'}:Events")
    before, log = nt.metrics.bytes_read, []
    events = from_root(nt, access_log=log, record=False)
    assert events.fields
    assert nt.metrics.bytes_read == before
    assert log == []
    assert ak.sum(events.Jet.pt) > 0
    assert {one.branch for one in log} == {"nJet", "Jet_pt"}
    stored = sum(size["bytes_on_disk"] for size in nt._column_sizes().values())
    assert nt.metrics.bytes_read - before < stored / 50


def test_coffea_traces_the_columns(shared):
    from coffea.nanoevents.trace import trace

    path = shared / "ttree/nano_dy.root"
    ours, theirs = from_root(f"{path}:Events", entry_stop=0), of_coffea(path, "Events", entry_stop=0)
    touched = trace(lambda events: events.Jet.pt + events.Jet.eta, ours)
    assert touched >= {"nJet", "Jet_pt", "Jet_eta"}
    assert touched == trace(lambda events: events.Jet.pt + events.Jet.eta, theirs)


def test_preloaded_columns_are_read_at_once(shared):
    nt = fb.open(f"{shared / 'rntuple/nano_dy_rntuple.root'}:Events")
    events = from_root(nt, preload=["nJet", "Jet_pt", "no_such_column"], record=False)
    before = nt.metrics.bytes_read
    assert ak.sum(events.Jet.pt) > 0
    assert nt.metrics.bytes_read == before
    chosen = from_root(nt, preload=lambda field: field.name in ("nJet", "Jet_pt"), record=False)
    before = nt.metrics.bytes_read
    assert ak.array_equal(chosen.Jet.pt, events.Jet.pt, check_parameters=False)
    assert nt.metrics.bytes_read == before


def test_a_buffer_cache_saves_reads(shared):
    path, cache = f"{shared / 'rntuple/nano_dy_rntuple.root'}:Events", {}
    first = from_root(path, buffer_cache=cache)
    assert ak.sum(first.Jet.pt) > 0
    assert cache
    log = []
    second = from_root(path, buffer_cache=cache, access_log=log)
    assert ak.sum(second.Jet.pt) == ak.sum(first.Jet.pt)
    assert log == []


def test_several_files_are_one_array(dimuon, tmp_path):
    shutil.copy(dimuon, tmp_path / "second.root")
    events = from_root([f"{dimuon}:Events", f"{tmp_path / 'second.root'}:Events"], schemaclass=schemas.BaseSchema)
    assert len(events) == 24000
    assert ak.array_equal(events.Muon_pt[:12000], events.Muon_pt[12000:])


def test_a_factory_is_pickled_as_its_file(dimuon):
    made = NanoEventsFactory.from_root(f"{dimuon}:Events", schemaclass=schemas.BaseSchema, entry_stop=5)
    packed = pickle.dumps(made)
    assert len(packed) < 3000
    assert pickle.loads(packed).events().nMuon.to_list() == made.events().nMuon.to_list()


def test_other_sources_of_coffea_still_work(dimuon, tmp_path, need):
    need("pyarrow")
    fb.convert(f"{dimuon}:Events", tmp_path / "events.parquet")
    made = NanoEventsFactory.from_parquet(str(tmp_path / "events.parquet"), schemaclass=schemas.BaseSchema)
    assert ak.sum(made.events().nMuon) == ak.sum(fb.open(dimuon)["nMuon"].array())


def test_events_are_pickled_with_their_values(dimuon):
    events = from_root(f"{dimuon}:Events", schemaclass=schemas.BaseSchema, entry_stop=5)
    assert pickle.loads(pickle.dumps(events)).Muon_pt.to_list() == events.Muon_pt.to_list()


def test_a_schema_is_made_once_for_files_with_the_same_fields(shared, tmp_path):
    made = []

    class Counting(schemas.NanoAODSchema):
        def __init__(self, base_form, *args, **kwargs):
            made.append(1)
            super().__init__(base_form, *args, **kwargs)

    path = shared / "rntuple/nano_dy_rntuple.root"
    fb.clone(f"{path}:Events", tmp_path / "copy.root")
    for at, file in enumerate([path, path, tmp_path / "copy.root"]):
        events = from_root({str(file): "Events"}, schemaclass=Counting, metadata={"dataset": at})
        assert events.metadata == {"dataset": at, "version": "latest"}
    assert len(made) == 1


def test_settings_of_a_schema_class_that_change_take_effect(shared):
    class Mine(schemas.NanoAODSchema):
        mixins = {**schemas.NanoAODSchema.mixins}  # noqa: RUF012

    path = f"{shared / 'rntuple/nano_dy_rntuple.root'}:Events"
    for record in ("Jet", "Muon"):
        Mine.mixins["SoftActivityJet"] = record
        form = NanoEventsFactory.from_root(path, schemaclass=Mine)._schema.form
        collection = form["contents"][form["fields"].index("SoftActivityJet")]
        assert collection["content"]["parameters"]["__record__"] == record


def test_a_schema_that_reads_metadata_gets_those_of_each_file(dimuon):
    class Mine(schemas.BaseSchema):
        def __init__(self, base_form, *args, **kwargs):
            kept = base_form["parameters"]["metadata"]["keep"]
            chosen = [at for at, name in enumerate(base_form["fields"]) if name in kept]
            for key in ("fields", "contents"):
                base_form[key] = [base_form[key][at] for at in chosen]
            super().__init__(base_form)

    for name in ("nMuon", "run"):
        assert from_root(f"{dimuon}:Events", schemaclass=Mine, metadata={"keep": [name]}).fields == [name]


def test_columns_are_filtered_by_name_and_type(dimuon):
    options = {"schemaclass": schemas.BaseSchema}
    named = from_root(f"{dimuon}:Events", iteritems_options={"filter_name": "Muon_p*"}, **options)
    assert named.fields == ["Muon_pt", "Muon_phi"]
    typed = from_root(f"{dimuon}:Events", iteritems_options={"filter_typename": "std::uint*"}, **options)
    assert typed.fields == ["run", "event"]
    with pytest.raises(fb.UsageError, match="filter_branch"):
        from_root(f"{dimuon}:Events", iteritems_options={"filter_branch": len}, **options)


def test_wrong_arguments_are_named(dimuon):
    with pytest.raises(fb.UsageError, match="invalid mode 'dask': use 'virtual' or 'eager'"):
        from_root(dimuon, mode="dask")
    with pytest.raises(TypeError, match="did you mean 'schemaclass'"):
        from_root(dimuon, schemaclas=schemas.BaseSchema)
    with pytest.raises(fb.UsageError, match="schemaclass must make a schema of coffea, not dict"):
        from_root(dimuon, schemaclass=dict)


def test_a_chunk_is_few_round_trips_once_it_is_known_what_is_touched(dimuon, tmp_path):
    """Requests are counted on a real server; the first chunk learns, later ones fetch all at once."""

    def touch(events):
        return [float(ak.sum(events[name])) for name in ("Muon_pt", "Muon_eta", "Muon_phi", "nMuon", "event")]

    with closing(servers.Xrootd()) as server:
        (server.data / "events.root").write_bytes(open(dimuon, "rb").read())  # noqa: PTH123, SIM115
        servers.own(server.data)
        nt = fb.open(f"root://127.0.0.1:{server.port}//events.root:Events")
        needed, sums = [], []
        for start in (0, 4000, 8000):
            before = nt.metrics.requests
            events = from_root(nt, schemaclass=schemas.BaseSchema, entry_start=start, entry_stop=start + 4000)
            sums.append(touch(events))
            del events
            needed.append(nt.metrics.requests - before)
    assert max(needed[1:]) <= 2
    nt = fb.open(dimuon)
    for start, found in zip((0, 4000, 8000), sums, strict=True):
        assert touch(nt.arrays(entry_start=start, entry_stop=start + 4000)) == found


def test_without_coffea_the_error_says_how_to_install_it():
    script = "import sys; sys.modules['coffea'] = None; import femtobarn.coffea"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'femtobarn[coffea]'" in done.stderr


def test_form_is_that_of_a_read(testdata, shared):
    files = [*(testdata / "rntuple").glob("*.root"), *(testdata / "ttree").glob("*.root")]
    files += [shared / "rntuple/treemaker_rntuple.root", shared / "ttree/delphes_10.root"]
    n = 0
    for path in files:
        try:
            nt = fb.open(path)
            read = nt.arrays(entry_stop=1).layout.form
        except (fb.FemtobarnError, fb.UnreadableWarning):
            continue
        form = nt.form()
        for name in read.fields:
            assert form.content(name) == read.content(name), (path, name)
            n += 1
    assert n > 300


def test_form_reads_no_page(shared):
    nt = fb.open(f"{shared / 'rntuple/nano_dy_rntuple.root'}:Events")
    before = nt.metrics.bytes_read
    assert len(nt.form().fields) > 1499
    assert nt.form(["Jet_*", "run"]).fields[-1] == "run"
    assert nt.metrics.bytes_read == before
    assert nt.access_log == ()
    with pytest.raises(fb.KeyNotFoundError, match="no_such"):
        nt.form("no_such")


@pytest.mark.oracle
def test_uuid_is_that_of_the_file(shared, testdata, dimuon):
    import uproot

    for path in (shared / "ttree/nano_dy.root", shared / "rntuple/nano_dy_rntuple.root"):
        with uproot.open(path) as file:
            expected = file.file.uuid
            (name, *_) = [name for name, kind in file.classnames().items() if kind in ("TTree", "ROOT::RNTuple")]
        assert fb.open(f"{path}:{name.partition(';')[0]}").uuid == expected
    one, two = dimuon, str(testdata / "dimuon.root")
    several = fb.open([f"{one}:Events", f"{two}:Events"]).uuid
    assert several == fb.open([f"{one}:Events", f"{two}:Events"]).uuid
    assert several != fb.open(one).uuid


def test_files_without_a_uuid_have_one_of_their_place_and_state(tmp_path):
    """As those have that ROOT's RNTupleWriter makes: its zeros would make all of them the same."""
    one, two = tmp_path / "one.root", tmp_path / "two.root"
    fb.write(one, {"i": np.arange(10)}, name="N")
    fb.write(two, {"i": np.arange(1000, 1010)}, name="N")
    for path in (one, two):
        path.write_bytes(path.read_bytes().replace(fb.open(path).uuid.bytes, bytes(16), 1))
        assert not any(fb.open(path)._core.uuids()[0])
    assert fb.open(one).uuid == fb.open(one).uuid != fb.open(two).uuid
    cache = {}
    for path, first in ((one, 0), (two, 1000)):
        events = from_root({str(path): "N"}, schemaclass=schemas.BaseSchema, buffer_cache=cache)
        assert events.i.to_list() == list(range(first, first + 10))
    before = fb.open(one).uuid
    shutil.copy(two, one)
    assert fb.open(one).uuid != before


def test_state_of_a_schema_class_is_its_settings():
    assert factory_module._state_of(len) == ""
    assert "mixins" in factory_module._state_of(schemas.NanoAODSchema)
    assert factory_module._state_of(schemas.NanoAODSchema.v6) == factory_module._state_of(schemas.NanoAODSchema)
