"""ROOT files become events with products: every field, in its type, with the values of a read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import femtobarn as fb
from femtobarn._cli_verbs import _as_options


@pytest.fixture
def dataset(store: fb.DataStore) -> fb.DataSet:
    """An empty dataset."""
    return store.root.create_dataset("nano")


NUMBERS = {"run": np.array([1, 1, 2], "u4"), "luminosityBlock": np.array([7, 7, 1], "u4")}


def write(path: Path, fields: dict[str, Any], **numbers: Any) -> Path:
    numbers = {**NUMBERS, "event": np.array([5, 4, 9], "u8"), **numbers}
    fb.write(path, {**{name: values for name, values in numbers.items() if values is not None}, **fields})
    return path


def same(found: Any, wanted: Any) -> bool:
    return bool(ak.array_equal(found, wanted, equal_nan=True, check_parameters=False, same_content_types=False))


def test_entries_become_events_in_any_order(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"x": [0.5, 1.5, 2.5], "name": ["a", "", "ü"]})
    fb.ingest(path, dataset)
    assert [str(event) for event in dataset.events()] == [
        "run 1, subrun 7, event 4",
        "run 1, subrun 7, event 5",
        "run 2, subrun 1, event 9",
    ]
    assert dataset.arrays("x").tolist() == [1.5, 0.5, 2.5]
    assert dataset[1][7][4].products() == [fb.Product("name", "std::string"), fb.Product("x", "double")]


def is_length(nt: fb.NTuple, field: str) -> bool:
    return "RNTupleCardinality" in (nt[field].typename or "")


NANOAOD = [
    "ttree/nano_dy.root",
    "ttree/nano_tt_v12.root",
    "ttree/nanoaod_2015_ttbar_200.root",
    "rntuple/nano_dy_rntuple.root",
]


@pytest.mark.parametrize("name", NANOAOD)
def test_every_field_of_nanoaod_is_stored_with_its_type(dataset: fb.DataSet, shared: Path, name: str) -> None:
    nt = fb.open({shared / name: "Events"})
    fb.ingest(shared / name, dataset)
    arrays = nt.arrays(how=dict)
    order = np.lexsort([np.asarray(arrays[name]) for name in ("event", "luminosityBlock", "run")])
    fields = [name for name in arrays if name not in ("run", "luminosityBlock", "event") and not name.startswith("_")]
    stored = dataset.arrays(fields, numbers=True)
    assert len(fields) > 600
    assert stored["event"].tolist() == arrays["event"][order].tolist()
    for name in fields:
        # a length is read as a signed number, and stored in its C++ type
        wanted = arrays[name][order]
        assert same(stored[name], ak.values_astype(wanted, "uint32") if is_length(nt, name) else wanted), name
    types = {product.label: product.type for product in next(dataset.events()).products()}
    assert sorted(types) == sorted(fields)
    assert types["Muon_pt"] in ("std::vector<float>", "ROOT::VecOps::RVec<float>")
    assert types["nMuon"] in ("std::uint32_t", "std::int32_t")
    assert types["HLT_IsoMu24"] == "bool" if "HLT_IsoMu24" in types else True


@pytest.mark.parametrize("name", ["ttree/nano_dy.root", "rntuple/nano_dy_rntuple.root"])
def test_collections_are_gathered(dataset: fb.DataSet, shared: Path, name: str) -> None:
    nt = fb.open({shared / name: "Events"})
    fb.ingest(shared / name, dataset, collections=True)
    event = next(dataset.events())
    types = {product.label: product.type for product in event.products()}
    assert types["Muon"] == "std::vector<Muon>"
    assert types["MET_pt"] == "float"
    assert not [label for label in types if label.startswith(("Muon_", "nMuon"))]
    order = np.lexsort([np.asarray(nt[name].array()) for name in ("event", "luminosityBlock", "run")])
    muons = dataset.arrays("Muon")
    assert len(muons.fields) > 30
    for member in muons.fields:
        assert same(muons[member], nt[f"Muon_{member}"].array()[order])
    assert ak.num(muons).tolist() == nt["nMuon"].array()[order].tolist()
    # a counter of no other arrays stays a product
    if "nLHEScaleWeight" in nt:
        assert types["LHEScaleWeight"].endswith("<float>")
        assert types["nLHEScaleWeight"] == "std::uint32_t"


def test_arrays_of_other_lengths_are_no_collection(dataset: fb.DataSet, tmp_path: Path) -> None:
    fields = {"nMuon": np.array([1, 0, 2], "u4"), "Muon_pt": ak.Array([[0.5], [], [1.5, 2.5]])}
    path = write(tmp_path / "a.root", {**fields, "Muon_idx": ak.Array([[0], [1], [1, 2]])})
    with pytest.raises(fb.UsageError, match=r"Muon_idx has 1 items in entry 1, but nMuon is 0"):
        fb.ingest(path, dataset, collections=True)
    fb.ingest(path, dataset, collections=True, drop="Muon_idx")
    assert dataset.arrays("Muon").tolist() == [[], [{"pt": 0.5}], [{"pt": 1.5}, {"pt": 2.5}]]


def test_collections_take_their_counters_along(dataset: fb.DataSet, tmp_path: Path) -> None:
    fields = {"nMuon": np.array([1, 0, 0], "u4"), "Muon_pt": ak.Array([[0.5], [], []])}
    fields["Muon_eta"] = ak.Array([[1.5], [], []])
    fields |= {"nJet": fields["nMuon"], "Jet_pt": fields["Muon_pt"]}
    path = write(tmp_path / "a.root", fields)
    fb.ingest(path, dataset, collections=True, fields="Muon_*")
    assert sorted(dataset.arrays("Muon").tolist(), key=len) == [[], [], [{"pt": 0.5, "eta": 1.5}]]
    assert [product.label for product in next(dataset.events()).products()] == ["Muon"]


def test_that_nothing_is_collected_is_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    """There were 50 products per event instead of some collections, without a message."""
    path = write(tmp_path / "a.root", {"Muon_pt": ak.Array([[0.5], [], []])})
    with pytest.warns(UserWarning, match="has found no collections: no integer field nX"):
        report = fb.ingest(path, dataset, collections=True)
    assert any("has found no collections" in warning for warning in report.warnings)
    assert sorted(dataset.arrays("Muon_pt").tolist()) == [[], [], [0.5]]


def test_entries_without_numbers_are_counted(dataset: fb.DataSet, tmp_path: Path) -> None:
    fb.write(tmp_path / "a.root", {"x": [1.5, 2.5, 3.5]})
    with pytest.raises(fb.KeyNotFoundError, match="event=, or give the number of the first entry"):
        fb.ingest(tmp_path / "a.root", dataset, run=1, subrun=2)
    fb.ingest(tmp_path / "a.root", dataset, run=1, subrun=2, event=0)
    fb.ingest(tmp_path / "a.root", dataset, run=1, subrun=2, event="3")
    assert [(event.run.number, event.subrun.number, event.number) for event in dataset.events()] == [
        (1, 2, n) for n in range(6)
    ]
    assert [dataset[1][2][n].load("x") for n in range(6)] == [1.5, 2.5, 3.5, 1.5, 2.5, 3.5]
    fb.write(tmp_path / "b.root", {"x": [1.5]})
    with pytest.raises(fb.UsageError):
        fb.ingest(str(tmp_path / "*.root"), dataset, run=1, subrun=2, event=0)


def test_patterns_have_sets_of_characters(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"x": [1, 2, 3], "y": [4, 5, 6]})
    with pytest.raises(fb.KeyNotFoundError, match=r"no field matches '\[!xy\]'"):
        fb.ingest(path, dataset, fields="[!xy]")
    fb.ingest(path, dataset, fields="[x-z]")
    with pytest.raises(fb.KeyNotFoundError, match=r"no product '\[a-c\]'"):
        fb.export(dataset, tmp_path / "b.root", products="[a-c]")
    fb.export(dataset, tmp_path / "b.root", products="[x]")
    exported = fb.open(tmp_path / "b.root").keys()
    assert "x" in exported
    assert "y" not in exported


def test_two_versions_of_a_class_go_into_two_namespaces(dataset: fb.DataSet, tmp_path: Path) -> None:
    counts = np.array([1, 0, 1], "u4")
    old = {"nMuon": counts, "Muon_pt": ak.Array([[0.5], [], [2.5]])}
    paths = [write(tmp_path / "a.root", {**old, "event": np.arange(3)})]
    for n, name in enumerate(["b.root", "c.root"], 1):
        new = {**old, "Muon_pt": ak.Array([[1], [], [2]]), "Muon_eta": old["Muon_pt"]}
        paths.append(write(tmp_path / name, {**new, "event": np.arange(3) + 3 * n}))
    with pytest.raises(fb.UsageError, match="class Muon is stored with other members") as caught:
        fb.ingest([str(path) for path in paths], dataset, collections=True)
    said = str(caught.value)
    assert said.startswith(f"{paths[1]}: product 'Muon': ")
    assert "pt is double there and std::int64_t here; only here: eta; rename" in said
    assert f"Of 3 checked files, 2 files have these members, {paths[1]}, {paths[2]}: ingest these sep" in said
    assert "namespace='v2'" in said
    assert "was ingested with" not in said
    assert "drop=['nMuon', 'Muon_*']" in said
    report = fb.ingest([str(path) for path in paths[1:]], dataset, collections=True, namespace="v2")
    assert report.events == 6
    fb.ingest([str(path) for path in paths], dataset, collections=True, drop=["nMuon", "Muon_*"], again=True)
    assert [{"pt": 0.5}] in dataset.arrays(("Muon", "std::vector<Muon>")).to_list()
    new = dataset.arrays(("Muon", "std::vector<v2::Muon>")).to_list()
    assert [{"pt": 2, "eta": 2.5}] in new


def test_a_class_that_differs_as_other_fields_were_chosen_is_told_so(dataset: fb.DataSet, tmp_path: Path) -> None:
    muons = ak.Array([[0.5], [], [2.5]])
    fields = {"nMuon": np.array([1, 0, 1], "u4"), "Muon_pt": muons, "Muon_eta": muons}
    first, second = (write(tmp_path / f"{n}.root", {**fields, "event": np.arange(3) + 3 * n}) for n in range(2))
    fb.ingest(first, dataset, fields="Muon_pt", collections=True)
    with pytest.raises(fb.UsageError, match="only here: eta") as caught:
        fb.ingest(second, dataset, fields=["Muon_*"], collections=True)
    assert f"{first} was ingested with fields=['Muon_pt'], which may be the reason. " in str(caught.value)


def test_classes_of_files_go_into_a_namespace_once(dataset: fb.DataSet, tmp_path: Path) -> None:
    inner = ak.Array([[{"x": 1.5, "of": [{"y": 1}]}], [], []])
    path = write(tmp_path / "a.root", {"tracks": inner, "z": [1, 2, 3]})
    fb.ingest(path, dataset, namespace="hep")
    types = {product.label: product.type for event in dataset.events() for product in event.products()}
    assert types["z"] == "std::int64_t"
    assert types["tracks"].startswith("std::vector<hep::")
    assert types["tracks"].count("hep::") == 1
    assert dataset.arrays("tracks").to_list()[1] == inner.to_list()[0]
    # exported events are in it already
    fb.export(dataset, tmp_path / "b.root")
    again = dataset.datastore.root.create_dataset("again")
    fb.ingest(tmp_path / "b.root", again, namespace="hep")
    assert {product.type for event in again.events() for product in event.products()} == set(types.values())
    assert again.arrays("tracks").to_list() == dataset.arrays("tracks").to_list()


@pytest.mark.parametrize(
    ("numbers", "options", "error", "message"),
    [
        ({"event": None}, {}, fb.KeyNotFoundError, "no field 'event' for the number of the event"),
        (
            {"luminosityBlock": None, "LumiBlockNum": [7, 7, 1]},
            {},
            fb.KeyNotFoundError,
            "with subrun=",
        ),
        ({}, {"subrun": "luminosityBlok"}, fb.KeyNotFoundError, "did you mean 'luminosityBlock'"),
        (
            {"event": [1.0, 2.0, 3.0]},
            {},
            fb.UsageError,
            "field 'event' is double, but",
        ),
        ({"run": [1, -4, 2]}, {}, fb.UsageError, "field 'run' holds -4: numbers of runs must not be negative"),
        ({"event": np.array([1, 2, 2**64 - 1], "u8")}, {}, fb.UsageError, "which is reserved for a missing event"),
        ({"event": np.array([3, 3, 3], "u8")}, {}, fb.UsageError, "entries 0 and 1 are both event 3 of run 1"),
        ({}, {"subrun": "run", "event": "event"}, fb.UsageError, "three fields"),
        ({}, {"event": 2**64 - 2}, fb.UsageError, "is reserved for a missing event"),
        ({}, {"subrun": 2**64 - 1}, fb.UsageError, "is reserved for a missing subrun"),
        ({}, {"fields": "Jet_*"}, fb.KeyNotFoundError, r"no field matches 'Jet_\*'"),
        ({}, {"drop": "xx"}, fb.KeyNotFoundError, "no field matches 'xx'"),
        (
            {},
            {"drop": "x,y"},
            fb.KeyNotFoundError,
            r"no field matches 'x,y'; pass several as a list: drop=\['x', 'y'\]",
        ),
        (
            {"run": None, "luminosityBlock": None, "event": None},
            {},
            fb.KeyNotFoundError,
            r"no field 'run'.*; no field 'luminosityBlock'.*; no field 'event'.* run=,.* subrun=,.* event=,",
        ),
    ],
)
def test_numbers_that_are_none_are_told(
    dataset: fb.DataSet,
    tmp_path: Path,
    numbers: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    path = write(tmp_path / "a.root", {"x": [1, 2, 3]}, **numbers)
    with pytest.raises(error, match=message) as caught:
        fb.ingest(path, dataset, **options)
    assert str(path) in str(caught.value) or "three fields" in message
    assert dataset.n_events() == 0


def test_what_a_file_does_not_say_is_a_number_for_all_events(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"x": [1, 2, 3]}, luminosityBlock=None)
    fb.ingest(path, dataset, run=3, subrun="0")
    found = dataset.arrays("x", numbers=True)
    assert (found.run.tolist(), found.subrun.tolist()) == ([3, 3, 3], [0, 0, 0])
    assert sorted(found.x.tolist()) == [1, 2, 3]
    assert "run" in [product.label for product in next(dataset.events()).products()]


def test_signed_integers_are_numbers_too(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"x": [1, 2, 3]}, run=np.array([1, 1, 2], "i4"), event=np.array([5, 4, 9], "i8"))
    fb.ingest(path, dataset)
    assert dataset.arrays("x").tolist() == [2, 1, 3]


def test_fields_are_chosen_and_dropped(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"a_x": [1, 2, 3], "a_y": [1, 2, 3], "b": [1, 2, 3]})
    fb.ingest(path, dataset, fields=["a_*", "b"], drop="a_y")
    assert [product.label for product in next(dataset.events()).products()] == ["a_x", "b"]


def test_slips_with_numbers_and_files_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", {"x": [1, 2, 3]})
    for given in (-1, "-1", np.int32(-1)):
        with pytest.raises(
            fb.UsageError, match="run=-1: run numbers must not be negative: give another number, or the name of"
        ):
            fb.ingest(path, dataset, run=given)
    with pytest.raises(fb.UsageError, match=r"event must be the name of a field, or a number .*, not 1\.5"):
        fb.ingest(path, dataset, event=1.5)  # type: ignore[arg-type]
    for argument, name, what in [("drop", "luminosityBlock", "subrun"), ("fields", "run", "run")]:
        with pytest.raises(
            fb.UsageError,
            match=f"field '{name}' is the {what} of each event and cannot be a product: .*out of {argument}=",
        ):
            fb.ingest(path, dataset, **{argument: name})  # type: ignore[arg-type]
    with uproot.open(path) as file:
        for opened in (file, file["ntuple" if "ntuple" in file else file.keys()[0]]):
            with pytest.raises(fb.UsageError, match=f"give the path of a file, '{path}', not an object of uproot"):
                fb.ingest(opened, dataset)
    assert dataset.n_events() == 0
    assert fb.ingest(path, dataset, run=np.int32(7)).events == 3
    assert dataset.numbers() == [7]


def test_labels_with_several_types_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    a = write(tmp_path / "a.root", {"x": np.array([1, 2, 3], "f4"), "y": [1, 2, 3]})
    b = write(tmp_path / "b.root", {"x": np.array([1, 2, 3], "f8"), "y": [1, 2, 3]}, run=np.array([5, 6, 7]))
    report = fb.ingest([a, b], dataset)
    [warning] = report.warnings
    assert warning.startswith(f"products 'x' have several types: float ({a}), double ({b}): ")
    assert report.to_dict()["warnings"] == [warning]
    assert f"note: {warning}" in str(report)


def test_the_tree_is_said_where_there_are_several(dataset: fb.DataSet, tmp_path: Path, shared: Path) -> None:
    path = tmp_path / "a.root"
    with fb.recreate(path) as file:
        for n, name in enumerate(("one", "two")):
            numbers = {"run": [n], "luminosityBlock": [n], "event": [n]}
            file[name] = {**numbers, "x": [n]}
    with pytest.raises(fb.UsageError, match=r"name one of them: one, two.*or give tree="):
        fb.ingest(path, dataset)
    fb.ingest(path, dataset, tree="two")
    assert dataset.arrays("x").tolist() == [1]
    fb.ingest(f"{path}:one", dataset)
    assert dataset.numbers() == [0, 1]
    # of NanoAOD files, "Events"
    assert fb.ingest(shared / "ttree" / "nano_dy.root", dataset, fields="Muon_pt").events == 40


def test_other_trees_of_a_file_are_told_where_none_is_named(dataset: fb.DataSet, tmp_path: Path) -> None:
    """The tree Runs of NanoAOD was silently left out."""
    path = write(tmp_path / "a.root", {"x": [0.5, 1.5, 2.5]})
    with fb.update(path) as out:
        out["Runs"] = {"run": [1, 2]}
        out["LuminosityBlocks"] = {"run": [1]}
    named = fb.ingest(f"{path}:Events", dataset)
    assert (named.events, named.left_out) == (3, {})
    report = fb.ingest(path, dataset, again=True)
    reason = "it is a ROOT::RNTuple beside 'Events'; only one ntuple or tree is ingested"
    assert report.left_out == {"Runs": (reason, 1), "LuminosityBlocks": (reason, 1)}
    assert f"left out: LuminosityBlocks, Runs: {reason}" in str(report)
    exported = tmp_path / "exported.root"
    dataset.create_run(8).store("of", "run")
    fb.export(dataset, exported)
    assert fb.ingest(exported, dataset, again=True).left_out == {}


# With these, they are the same as in the ntuple
TYPES = ["associative", "classes", "encodings", "keys_zstd", "lists", "mixed_zstd", "scalars", "untyped", "double32"]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_stored_as_reading_gives_it(
    dataset: fb.DataSet, testdata: Path, tmp_path: Path, name: str
) -> None:
    """Files that ROOT wrote, with numbers joined to them."""
    nt = fb.open(testdata / "rntuple" / f"{name}.root")
    n = nt.num_entries
    other = tmp_path / "numbers.root"
    fb.write(other, {"run": np.ones(n, "u4"), "luminosityBlock": np.ones(n, "u4"), "event": np.arange(n, dtype="u8")})
    path = tmp_path / "joined.root"
    fb.join_columns([other, testdata / "rntuple" / f"{name}.root"], path)
    nt = fb.open(path)
    drop: list[str] = []
    while True:
        try:
            fb.ingest(path, dataset, drop=drop)
            break
        except fb.UsageError as error:
            found = re.search(r"field '(.*)' of type .* cannot be a product: .*; leave it out with drop=", str(error))
            if found is None:
                raise
            drop.append(found[1])
    schema = {record["name"]: record for record in nt._schema.records.values() if record["parent"] is None}
    products = {product.label: product.type for product in next(dataset.events()).products()}
    fields = [field.name for field in nt.fields if field.name not in (*drop, *DEFAULT)]
    assert sorted(products) == sorted(fields)
    fb.export(dataset, tmp_path / "exported.root")
    exported = fb.open(tmp_path / "exported.root")
    for field in fields:
        wanted = str(nt[field].array().to_list())
        assert str(exported[field].array().to_list()) == wanted, field
        found = str(dataset.arrays(field).to_list())
        # bases are separate members here, and a pointer is an optional value, not a list
        assert found == wanted or ":_0" in found or field in ("outer", "members"), field
        own = schema[field]["typename"]
        is_plain = own and "RNTupleCardinality" not in own and "fb::" not in own
        if is_plain:
            assert products[field] == own


DEFAULT = ("run", "luminosityBlock", "event")


def test_objects_of_streamers_are_told_with_what_to_do(dataset: fb.DataSet, testdata: Path, tmp_path: Path) -> None:
    nt = fb.open(testdata / "rntuple" / "streamers.root")
    n = nt.num_entries
    numbers = {"run": np.ones(n, "u4"), "luminosityBlock": np.ones(n, "u4"), "event": np.arange(n, dtype="u8")}
    fb.write(tmp_path / "numbers.root", numbers)
    fb.join_columns([tmp_path / "numbers.root", testdata / "rntuple" / "streamers.root"], tmp_path / "joined.root")
    with pytest.raises(fb.UsageError, match=r"field 'blob' of type fb::Blob cannot be a product.*drop='blob'"):
        fb.ingest(tmp_path / "joined.root", dataset)


def test_branches_that_cannot_be_read_are_told_all_at_once(dataset: fb.DataSet, testdata: Path) -> None:
    """The first one ended it, with advice about a read without names, which `ingest` does not have."""
    path = testdata / "ttree" / "versions.root"
    numbers = {"run": 1, "subrun": 1, "event": 0}
    told = r"versions.root:versions: field 'thing' cannot be read: basket 1 [^;]*; leave out what cannot: drop='thing'$"
    with pytest.raises(fb.UsageError, match=told):
        fb.ingest(path, dataset, fields=["number", "thing"], **numbers)
    assert fb.ingest(path, dataset, drop="thing", **numbers).events == 400
    assert len(dataset.arrays("number")) == 400


def test_several_branches_that_cannot_be_read_are_one_error(dataset: fb.DataSet, shared: Path) -> None:
    path = shared / "ttree" / "fcc_spring2021.root"
    given = {"tree": "events", "run": 1, "subrun": 1, "event": 0}
    with (
        pytest.warns(fb.UnreadableWarning, match="'Photon'"),
        pytest.raises(fb.UsageError, match="fields 'Electron', 'Muon', 'AllMuon' cannot be read: ") as told,
    ):
        fb.ingest(path, dataset, **given)
    assert _as_options(str(told.value)).endswith("--drop 'Electron,Muon,AllMuon'")
    drop = ["Electron", "Muon", "AllMuon"]
    with pytest.warns(fb.UnreadableWarning, match="'Photon'"):
        report = fb.ingest(path, dataset, drop=drop, **given)
    assert report.events == 100
    assert list(report.left_out) == ["Photon"]
    assert "left out: Photon: " in str(report)
    with pytest.warns(fb.UnreadableWarning, match="'Photon'"):
        assert fb.ingest(path, dataset, drop=[*drop, "Photon"], again=True, **given).left_out == {}


def test_second_branches_of_one_name_become_products(dataset: fb.DataSet, tmp_path: Path) -> None:
    """In a tree they are called ``x#2``, which was an invalid label without a workaround."""
    path = write(tmp_path / "a.root", {"x": [1, 2, 3], "x#2": [4, 5, 6], "x_2": [7, 8, 9]})
    fb.ingest(path, dataset)
    assert [product.label for product in dataset[1][7][5].products()] == ["x", "x_2", "x_2_"]
    assert [dataset[1][7][5].load(label) for label in ("x", "x_2", "x_2_")] == [1, 7, 4]
