"""Exported files have the content of the store, can be read by others, and make the same store again."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import servers
from cpp_programs import run_cpp
from golden import assert_fields_are_golden
from stored import everything
from test_write_roundtrip import KINDS, values_of

import femtobarn as fb

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies


@dataclasses.dataclass
class Hit:
    """A hit."""

    x: float
    channel: int


@dataclasses.dataclass
class Track:
    """A track."""

    pt: float
    hits: list[Hit]
    name: str = ""


@dataclasses.dataclass
class Pair:
    """A pair of values."""

    both: list[fb.Ptr]


@pytest.fixture
def dataset() -> fb.DataSet:
    """An empty dataset in memory."""
    return fb.DataStore.connect("memory:").root.create_dataset("a")


def again(path: Path | str, *, url: str = "memory:") -> fb.DataSet:
    """Make a store from an exported file."""
    dataset = fb.DataStore.connect(url).root.create_dataset("again")
    fb.ingest(path, dataset)
    return dataset


def store_raw(container: Any, label: str, kind: str, value: bytes) -> None:
    """Store bytes, as C++ programs do."""
    container._core.store((label, kind), value, True)


def fill(dataset: fb.DataSet) -> None:
    """Store products of all kinds, most of which not all events have."""
    for run in (3, 1):
        for subrun in (2, 1):
            for number in (7, 5, 6):
                event = dataset.create_run(run).create_subrun(subrun).create_event(number)
                event.store("n", 10 * run + number)
                if number != 6:
                    event.store("pt", np.array([0.5] * (number - 5), "f4"))
                    event.store("tracks", [Track(1.5, [Hit(0.5, number)], "a"), Track(2.5, [])])
                if run == 1:
                    event.store("rec.slc", np.array([number], "i2"))
                    event.store("a/b", "text")
                    event.store("raw", b"\x00\xff" * number)
                if number == 5:
                    event.store("raw", 1.5)
                    event.store("raw", np.array([1, 2], "i8"))
                    event.store("choice", ak.Array([[1.5, "x", None]]), typename=None)
                    event.store("pickled", {"a": (1, 2)}, typename="pickle")
                    event.store("packed", {"a": [1, 2]})
                    store_raw(event, "unknown", "boost::Thing", b"\x16serialization\xff")
                    store_raw(event, "text", "std::string", (3).to_bytes(8, "little") + b"\xff\xfe\x00")
    dataset[1].store("calibration", np.array([1.5, 2.5]))
    dataset[1][2].store("luminosity", 12.5)
    dataset[3][1].store("luminosity", 13.5)
    dataset[3][1].store("note", b"")
    dataset.store("made by", "a test")
    dataset.create_run(9)
    dataset.create_run(2).create_subrun(4)


def test_everything_comes_back(store: fb.DataStore, tmp_path: Path) -> None:
    dataset = store.root.create_dataset("fermilab/nova")
    fill(dataset)
    report = fb.export(dataset, tmp_path / "a.root")
    assert report.events == 12
    assert report.ntuples == {"Events": 12, "Events_dataset": 1, "Events_runs": 2, "Events_subruns": 3}
    assert report.bytes_out == (tmp_path / "a.root").stat().st_size
    copy = again(tmp_path / "a.root", url=f"dir:{tmp_path / 'again'}")
    assert everything(copy) == everything(dataset)
    # and once more, from the new store
    fb.export(copy, tmp_path / "b.root")
    assert everything(again(tmp_path / "b.root")) == everything(dataset)
    assert fb.open({tmp_path / "b.root": "Events"}).verify().ok
    track = copy[1][1][5].load("tracks", list[Track])[0]
    assert track == Track(1.5, [Hit(0.5, 5)], "a")


def test_columns_are_what_the_report_says(dataset: fb.DataSet, tmp_path: Path) -> None:
    fill(dataset)
    report = fb.export(dataset, tmp_path / "a.root")
    nt = fb.open({tmp_path / "a.root": "Events"})
    types = {field.name: field.typename for field in nt.fields}
    columns = {
        one.column: (one.label, one.type, one.form, one.number) for one in report.products if one.ntuple == "Events"
    }
    assert list(types)[:3] == ["run", "subrun", "event"]
    assert list(types)[3:] == list(columns)
    assert types["n"] == "std::int64_t"
    assert columns["n"] == ("n", "std::int64_t", "value", 12)
    assert types["tracks"] == "std::optional<std::vector<Track>>"
    assert columns["tracks"] == ("tracks", "std::vector<Track>", "optional", 8)
    assert columns["rec_slc"][0] == "rec.slc"
    assert types["rec_slc"] == "std::optional<std::vector<std::int16_t>>"
    assert columns["a_b"][0] == "a/b"
    assert types["raw_double"] == "std::optional<double>"
    assert types["raw_vector_int64_t"] == "std::optional<std::vector<std::int64_t>>"
    assert types["raw_bytes"] == "std::optional<std::vector<std::byte>>"
    assert columns["raw_bytes"][2] == "optional bytes"
    assert json.loads(nt["rec_slc"].description)["femtobarn"]["product"]["label"] == "rec.slc"
    of_boost, of_types = report.warnings
    assert "boost::Thing" in of_boost
    assert "raw_double (4 events)" in of_types
    assert "12 events" in repr(report)
    # a missing product differs from an empty one
    assert nt["pt"].array().to_list()[:3] == [[], None, [0.5, 0.5]]


def test_a_file_without_more_has_one_ntuple(dataset: fb.DataSet, tmp_path: Path) -> None:
    dataset.create_run(1).create_subrun(1).create_event(1).store("x", 1.5)
    assert fb.export(dataset, tmp_path / "a.root").ntuples == {"Events": 1}
    assert fb.open(tmp_path / "a.root").arrays().to_list() == [{"run": 1, "subrun": 1, "event": 1, "x": 1.5}]


def test_parts_are_exported(dataset: fb.DataSet, tmp_path: Path) -> None:
    fill(dataset)
    assert fb.export(dataset[1], tmp_path / "a.root").events == 6
    assert fb.open({tmp_path / "a.root": "Events_runs"}).arrays().to_list() == [{"run": 1, "calibration": [1.5, 2.5]}]
    report = fb.export(dataset[3][1], tmp_path / "a.root", overwrite=True, name="Part")
    assert report.ntuples == {"Part": 3, "Part_subruns": 1}
    report = fb.export(dataset, tmp_path / "a.root", overwrite=True, runs=[3, 2], products=["n", "p*"])
    assert report.ntuples == {"Events": 6, "Events_subruns": 1}
    assert {one.label for one in report.products} == {"n", "pt", "packed", "pickled"}
    report = fb.export(dataset, tmp_path / "a.root", overwrite=True, products=("raw", float), runs=1)
    assert [(one.label, one.type) for one in report.products] == [("raw", "double")]
    for wanted, there in [
        ("pt_", r"did you mean 'pt'\? it has 'a/b' \("),
        (("raw", "float"), r"it has 'raw' as .*double.*: ask for \('raw', "),
        (["n", "zz"], r"it has 'a/b' \("),
    ]:
        with pytest.raises(fb.KeyNotFoundError, match=f"has no product .*; {there}"):
            fb.export(dataset, tmp_path / "b.root", products=wanted)
    with pytest.raises(fb.KeyNotFoundError, match="there is no run 77"):
        fb.export(dataset, tmp_path / "b.root", runs=[1, 77])
    with pytest.raises(fb.UsageError):
        fb.export(dataset[1], tmp_path / "b.root", runs=[1])
    with pytest.raises(fb.UsageError):
        fb.export(dataset.datastore, tmp_path / "b.root")  # type: ignore[arg-type]
    assert not (tmp_path / "b.root").exists()


def test_products_that_are_none_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    dataset.create_run(1).create_subrun(1).create_event(1).store("best", 0.5)
    for products, words in [
        ([], "selects none"),
        ([("best", float, 1)], "or \\(label, type\\)"),
        ([5], "must be a string, not 5"),
    ]:
        with pytest.raises(fb.UsageError, match=words):
            fb.export(dataset, tmp_path / "a.root", products=products)  # type: ignore[arg-type]
    assert not (tmp_path / "a.root").exists()
    report = fb.export(dataset, tmp_path / "a.root", products=[("best", "double")])
    assert [product.label for product in report.products] == ["best"]


def test_labels_with_several_types_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    """An `int` among floats has another type, and half of the values silently were in another column."""
    subrun = dataset.create_run(1).create_subrun(1)
    for n, best in enumerate([0.5, 1, 2.5]):
        subrun.create_event(n).store("best", best)
    report = fb.export(dataset, tmp_path / "a.root")
    [warning] = report.warnings
    assert warning.startswith(
        "products 'best' have several types, each with a column of its own: double in best_double (2 events), "
        "std::int64_t in best_int64_t (1 event); "
    )
    assert f"note: {warning}" in str(report)
    assert fb.export(dataset, tmp_path / "b.root", products=[("best", float)]).warnings == ()


def test_datasets_in_it_are_told(dataset: fb.DataSet, tmp_path: Path) -> None:
    dataset.create_dataset("b")
    assert fb.export(dataset, tmp_path / "a.root").warnings == ("dataset 'a/b' is not included: export it by itself",)


def test_notes_that_files_are_in_a_dataset_stay_there(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = tmp_path / "in.root"
    with fb.recreate(path) as file:
        file["Events"] = {"run": [1, 1], "luminosityBlock": [2, 2], "event": [3, 4], "pt": [1.5, 2.5]}
    fb.ingest(path, dataset)
    [note] = dataset.products()
    assert fb.export(dataset, tmp_path / "a.root").ntuples == {"Events": 2}
    assert fb.export(dataset, tmp_path / "b.root", products=["pt", "ingested/*"]).ntuples == {
        "Events": 2,
        "Events_dataset": 1,
    }
    dataset.store("ingested/by", "me")
    report = fb.export(dataset, tmp_path / "c.root")
    assert [one.label for one in report.products if one.ntuple == "Events_dataset"] == ["ingested/by"]
    assert note in dataset.products()


def test_an_empty_label_comes_back_with_several_types(dataset: fb.DataSet, tmp_path: Path) -> None:
    event = dataset.create_run(1).create_subrun(2).create_event(3)
    event.store("", 5)
    event.store("", {"a": 1})
    fb.export(dataset, tmp_path / "a.root")
    other = fb.DataStore.connect("memory:").root.create_dataset("b")
    fb.ingest(tmp_path / "a.root", other)
    assert everything(other)[1, 2, 3] == everything(dataset)[1, 2, 3]


def test_the_root_has_no_events(dataset: fb.DataSet, tmp_path: Path) -> None:
    with pytest.raises(fb.UsageError, match="the root of a store has no events: export a dataset in it, as 'a'"):
        fb.export(dataset.datastore.root, tmp_path / "a.root")


def test_files_of_servers_are_exported_and_read(dataset: fb.DataSet, tmp_path: Path, need_program: Any) -> None:
    need_program("nginx")
    fill(dataset)
    server = servers.Nginx()
    try:
        report = fb.export(dataset, f"{server.url}/dav/a.root", storage_options={"spool_folder": str(tmp_path)})
        assert report.bytes_out is None
        assert everything(again(f"{server.url}/dav/a.root")) == everything(dataset)
        # a file with several ntuples, which can only be read with a token
        own = fb.DataStore.connect("memory:").root.create_dataset("own")
        fb.ingest(f"{server.url}/token/a.root", own, storage_options={"bearer_token": "good"})
        assert everything(own) == everything(dataset)
        store_raw(dataset[1][1][5], "n", "std::int64_t", b"short")
        with pytest.raises(fb.FormatError, match="run 1, subrun 1, event 5"):
            fb.export(dataset, f"{server.url}/dav/b.root", storage_options={"spool_folder": str(tmp_path)})
        assert not [path for path in server.data.rglob("*b.root*") if path.is_file()]
    finally:
        server.close()
    assert list(tmp_path.iterdir()) == []


def test_the_program_makes_no_store_of_a_redis_by_reading(redis: Callable[[], int], tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{redis()}/?prefix={tmp_path.name}:"
    command = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]
    command += ["export", url, str(tmp_path / "a.root"), "--dataset", "a"]

    def export() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    for _ in range(2):
        assert "there is no event store" in export().stderr
    fb.DataStore.connect(url).root.create_dataset("a").create_run(1).create_subrun(1).create_event(1).store("x", 1.5)
    assert export().stdout.startswith(f"{tmp_path / 'a.root'}: 1 event, 1 column")


def test_an_empty_dataset_is_an_ntuple_without_entries(dataset: fb.DataSet, tmp_path: Path) -> None:
    assert fb.export(dataset, tmp_path / "a.root").events == 0
    with pytest.warns(fb.UnreadableWarning, match="no events found in the file"):
        assert everything(again(tmp_path / "a.root")) == everything(dataset)


def test_names_of_columns_are_those_of_the_numbers_last(dataset: fb.DataSet, tmp_path: Path) -> None:
    event = dataset.create_run(1).create_subrun(2).create_event(3)
    for label in ("run", "event", "luminosityBlock", "a.b", "a/b", "a_b", "", "_0", "über", "rün lumi"):
        event.store(label, len(label))
    fb.export(dataset, tmp_path / "a.root")
    nt = fb.open(tmp_path / "a.root")
    assert nt["a_b"].array().to_list() == [3]
    names = {"run_2", "event_2", "a_b_2", "a_b_3", "product", "product_0", "über", "rün_lumi"}
    assert names <= {field.name for field in nt.fields}
    assert everything(again(tmp_path / "a.root")) == everything(dataset)
    fb.export(dataset, tmp_path / "b.root", numbers=("run", "luminosityBlock", "event"))
    assert fb.open(tmp_path / "b.root")["luminosityBlock"].array().to_list() == [2]
    assert everything(again(tmp_path / "b.root")) == everything(dataset)
    with pytest.raises(fb.UsageError):
        fb.export(dataset, tmp_path / "b.root", numbers=("run", "run", "event"))


def test_only_root_files_are_made(dataset: fb.DataSet, tmp_path: Path) -> None:
    dataset.create_run(1).create_subrun(1).create_event(1).store("x", 1.5)
    with pytest.raises(fb.UsageError, match=r"would be a ROOT file: use the ending \.root instead of \.txt"):
        fb.export(dataset, tmp_path / "m.txt")
    with pytest.raises(fb.UsageError, match=r"is a directory: give the file to write, e\.g\. '.*/events.root'"):
        fb.export(dataset, tmp_path, overwrite=True)
    fb.export(dataset, tmp_path / "m.v2")
    with pytest.raises(fb.FileError, match="overwrite=True, or -f in the shell"):
        fb.export(dataset, tmp_path / "m.v2")


def test_a_file_that_is_there_stays(dataset: fb.DataSet, tmp_path: Path) -> None:
    dataset.create_run(1).create_subrun(1).create_event(1).store("x", 1.5)
    fb.export(dataset, tmp_path / "a.root")
    before = (tmp_path / "a.root").read_bytes()
    with pytest.raises(fb.FileError):
        fb.export(dataset, tmp_path / "a.root")
    # an error does not replace it either
    store_raw(dataset[1][1][1], "x", "std::vector<float>", b"short")
    with pytest.raises(fb.FormatError, match="run 1, subrun 1, event 1"):
        fb.export(dataset, tmp_path / "a.root", overwrite=True)
    assert (tmp_path / "a.root").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "a.root"]


def test_an_interrupted_export_leaves_nothing(
    dataset: fb.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from femtobarn._transfer import export as _export

    dataset.create_run(1).create_subrun(1).create_event(1).store("x", 1.5)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_export, "check_wanted", interrupt)
    with pytest.raises(KeyboardInterrupt) as told:
        fb.export(dataset, tmp_path / "a.root")
    assert told.value.__notes__ == [f"{tmp_path / 'a.root'} was not written"]
    assert list(tmp_path.iterdir()) == []


def test_references_are_said_to_be_followed_by_nobody(dataset: fb.DataSet, tmp_path: Path) -> None:
    event = dataset.create_run(1).create_subrun(1).create_event(1)
    event.store("pt", [1.5, 2.5])
    event.store("best", event.ref("pt", index=1))
    event.store("pair", Pair([event.ref("pt", index=n) for n in (0, 1)]))
    dataset.store("first", event.ref("pt"))
    store_raw(event, "old", "hepnos::Ptr<float,std::vector<float>>", b"22 serialization")
    told = [warning for warning in fb.export(dataset, tmp_path / "a.root").warnings if "references" in warning]
    assert len(told) == 1
    assert told[0].startswith("'best', 'first', 'old', 'pair': references are exported")
    report = fb.export(dataset, tmp_path / "b.root", products="pt")
    assert report.warnings == ()


def test_products_without_an_event_hide_none_that_is_missing(dataset: fb.DataSet, tmp_path: Path) -> None:
    """A killed writer has stored a product, but not its event yet: only events count."""
    subrun = dataset.create_run(1).create_subrun(1)
    for n in (1, 2, 3):
        subrun.create_event(n).store("n", n)
    subrun[1].store("x", 0.5)
    subrun[2].store("x", 1.5)
    subrun._core.child(99).store(("x", "double"), bytes(8), True)
    report = fb.export(dataset, tmp_path / "a.root")
    assert [(one.label, one.form, one.number) for one in report.products] == [("n", "value", 3), ("x", "optional", 2)]
    assert fb.open(tmp_path / "a.root")["x"].array().to_list() == [0.5, 1.5, None]


# -- any value ---------------------------------------------------------------------------------------------------


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.data())
def test_any_values_come_back(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    draw = data.draw
    n = draw(st.integers(1, 12))
    dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
    numbers = draw(st.lists(st.integers(0, 2**64 - 2), min_size=n, max_size=n, unique=True))
    runs = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), "u8")
    event = np.array(numbers, "u8")
    with dataset.datastore.write_batch() as batch:
        batch.store_arrays(dataset, {}, run=runs, subrun=1, event=event)
        for i, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=3))):
            there = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
            array = ak.Array(values_of(kind, draw, int(there.sum())))
            try:
                where = {"run": runs[there], "subrun": 1, "event": event[there]}
                batch.store_arrays(dataset, {draw(st.sampled_from([f"f{i}", f"f.{i}"])): array}, **where)
            except fb.UsageError as error:
                # without values the type is unknown, and lists of nothing are not products
                if not any(known in str(error) for known in ("unknown", "size zero", "no type")):
                    raise
    path = tmp_path_factory.mktemp("any") / "a.root"
    report = fb.export(dataset, path)
    copy = again(path)
    assert everything(copy) == everything(dataset)
    assert fb.open({path: "Events"}).verify().ok
    for one in report.products:
        if one.form in ("value", "optional") and "_" not in one.column:
            read = fb.open({path: "Events"})[one.column].array()
            assert str(read.to_list()) == str(dataset.arrays((one.label, one.type)).to_list())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("std::optional<double>", [b"\x00", b"\x01" + bytes(8), None]),
        ("std::variant<double,std::string>", [b"\x00", b"\x01" + bytes(8), b"\x02" + bytes(8), None]),
        ("std::optional<std::optional<double>>", [b"\x00", b"\x01\x00", b"\x01\x01" + bytes(8), None]),
        ("std::vector<std::optional<std::variant<double>>>", [bytes(8), b"\x02" + bytes(7) + b"\x00\x01\x00", None]),
        ("std::variant<std::optional<double>,bool>", [b"\x00", b"\x01\x00", b"\x01\x01" + bytes(8), b"\x02\x01"]),
        ("std::unique_ptr<double>", [b"\x00", b"\x01" + bytes(8), None]),
        ("std::unique_ptr<std::vector<float>>", [b"\x00", b"\x01" + bytes(8), None]),
        ("std::atomic<std::int32_t>", [b"\x01\x02\x03\x04", None]),
        ("std::bitset<3>", [b"\x00\x01\x01", None]),
        ("std::tuple<>", [b"\x00", None]),
        ("std::map<std::int32_t,std::string>", [bytes(8), None]),
        ("std::set<double>", [bytes(8), b"\x01" + bytes(7) + bytes(8)]),
        ("std::vector<std::byte>", [bytes(8), b"\x01" + bytes(7) + b"\xff", None]),
        ("vector<float>", [bytes(8), None]),
        ("std::array<std::array<char,2>,2>", [b"abcd", None]),
        ("Box<float>", [bytes(4), None]),
        ("std::vector<Box<std::pair<float,double>>>", [bytes(8)]),
        ("Empty", [bytes(1), None]),
        ("Dotted", [bytes(4), None]),
        ("Derived", [bytes(8), None]),
    ],
)
def test_what_may_be_missing_in_several_ways_is_kept_apart(
    dataset: fb.DataSet, tmp_path: Path, kind: str, values: list[bytes | None]
) -> None:
    codec = dataset.datastore._codec
    codec.note_class("Box<float>", [("x", "float")])
    codec.note_class("Box<std::pair<float,double>>", [("x", "std::pair<float,double>")])
    codec.note_class("Empty", [])
    codec.note_class("Dotted", [("a.b", "float")])
    codec.note_class("Base", [("a", "float")])
    codec.note_class("Derived", [(":_0", "Base"), ("b", "float")])
    subrun = dataset.create_run(1).create_subrun(1)
    for n, value in enumerate(values):
        event = subrun.create_event(n)
        if value is not None:
            store_raw(event, "x", kind, value)
    fb.export(dataset, tmp_path / "a.root")
    copy = again(tmp_path / "a.root")
    assert everything(copy) == everything(dataset)
    for name in ("Box<float>", "Dotted"):
        if name in kind:
            assert copy.datastore._core.classes(kind) == dataset.datastore._core.classes(kind)


# -- real files, and other readers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ttree/nano_dy.root", "rntuple/nano_dy_rntuple.root", "ttree/nanoaod_2015_ttbar_200.root"]
)
@pytest.mark.parametrize("collections", [False, True])
def test_nanoaod_comes_back_in_order(
    store: fb.DataStore, shared: Path, tmp_path: Path, name: str, collections: bool
) -> None:
    dataset = store.root.create_dataset("nano")
    fb.ingest(shared / name, dataset, collections=collections)
    numbers = ("run", "luminosityBlock", "event")
    fb.export(dataset, tmp_path / "a.root", numbers=numbers)
    nt, original = fb.open(tmp_path / "a.root"), fb.open({shared / name: "Events"})
    order = np.lexsort([np.asarray(original[number].array()) for number in reversed(numbers)])
    read, wanted = nt.arrays(how=dict), original.arrays(how=dict)
    assert list(read)[:3] == list(numbers)
    fields = [field for field in wanted if field in read]
    assert len(fields) > 500
    for field in fields:
        assert str(read[field].to_list()) == str(wanted[field][order].to_list()), field
    if collections:
        for member in read["Muon"].fields:
            assert str(read["Muon"][member].to_list()) == str(wanted[f"Muon_{member}"][order].to_list()), member
    else:
        assert len(fields) == len(wanted) - sum(field.startswith("_collection") for field in wanted)
    assert everything(again(tmp_path / "a.root")) == everything(dataset)


ORACLE = Path(__file__).with_name("oracle")
DUMP = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from dump_with_root import dump
for ntuple in sys.argv[4:]:
    pathlib.Path(sys.argv[3], ntuple + ".json").write_text(dump(sys.argv[2], ntuple), encoding="utf-8")
os._exit(0)
"""


@pytest.mark.oracle
def test_root_reads_what_is_exported(dataset: fb.DataSet, tmp_path: Path, run_root: Any) -> None:
    fill(dataset)
    path = tmp_path / "a.root"
    report = fb.export(dataset, path)
    run_root(DUMP, ORACLE, path, tmp_path, *report.ntuples)
    for name, entries in report.ntuples.items():
        golden = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert golden["entries"] == entries
        nt = fb.open({path: name})
        assert [field["name"] for field in golden["schema"] if "parent" not in field] == [f.name for f in nt.fields]
        assert_fields_are_golden(golden, nt, None, None)


FRAME = """
import json, os, pathlib, sys
import ROOT
frame = ROOT.RDataFrame("Events", sys.argv[1])
some = frame.Filter("x.size() == 1 && v.size() == 1 && pair.mass.size() == 1")
some = some.Define("y", "x[0] + v[0][0] + pair.mass[0]")
found = {"entries": frame.Count().GetValue(), "some": some.Count().GetValue(), "sum": some.Sum("y").GetValue()}
pathlib.Path(sys.argv[2]).write_text(json.dumps(found))
os._exit(0)
"""


@pytest.mark.oracle
def test_what_may_be_missing_is_read_by_rdataframe_as_lists(dataset: fb.DataSet, tmp_path: Path, run_root: Any) -> None:
    pair = dataclasses.make_dataclass("Pair", [("mass", float)])
    for number in range(5):
        event = dataset.create_run(1).create_subrun(2).create_event(number)
        event.store("n", number)
        if number > 2:
            event.store("x", 1.5)
            event.store("v", [2.5, 3.5])
            event.store("pair", pair(float(number)))
    path = tmp_path / "a.root"
    report = fb.export(dataset, path, missing="list")
    assert {one.column: one.form for one in report.products} == {"n": "value", "x": "list", "v": "list", "pair": "list"}
    run_root(FRAME, path, tmp_path / "found")
    assert json.loads((tmp_path / "found").read_text()) == {"entries": 5, "some": 2, "sum": 15.0}
    assert everything(again(path)) == everything(dataset)
    with pytest.raises(fb.UsageError, match="missing must be 'optional' or 'list', not 'vector'"):
        fb.export(dataset, path, missing="vector", overwrite=True)


@pytest.mark.oracle
def test_uproot_reads_what_is_exported(dataset: fb.DataSet, tmp_path: Path, need: Any) -> None:
    uproot = need("uproot")
    fill(dataset)
    path = tmp_path / "a.root"
    fb.export(dataset, path, products=["n", "pt", "tracks", "rec.slc", "raw"])
    nt = fb.open({path: "Events"})
    with uproot.open(path) as file:
        read = file["Events"].arrays()
    assert read["run"].to_list() == nt["run"].array().to_list()
    for field in nt.fields:
        assert str(read[field.name].to_list()) == str(field.array().to_list()), field.name


# A class with a description, and one without, as programs of HEPnOS have them
CPP = """
#include <femtobarn.hpp>
struct Point { float x; std::int16_t n; double y; };
FB_DESCRIBE(Point, x, n, y)
struct Cell { std::uint32_t plane; bool is_good; };
int main(int, char **argv) {
    const fb::Store store = fb::Store::connect(argv[1]);
    const fb::DataSet data = store.create_dataset("cpp");
    fb::WriteBatch batch(store);
    const fb::Container subrun = data.create(1).create(2);
    for (std::uint64_t number = 0; number < 100; ++number) {
        const fb::Container event = batch.create(subrun, number);
        batch.store(event, "points", std::vector<Point>(number % 3, Point{1.5F, 7, 2.5}));
        if (number % 2) batch.store(event, "cells", std::vector<Cell>(2, Cell{3, true}));
    }
    batch.flush();
}
"""


def test_products_of_cpp_are_exported(need_program: Any, tmp_path: Path) -> None:
    run_cpp(CPP, tmp_path, need_program, f"dir:{tmp_path / 'store'}")
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}", mode="r")["cpp"]
    report = fb.export(dataset, tmp_path / "a.root")
    found = [(one.label, one.type, one.form, one.number) for one in report.products]
    assert found == [
        ("cells", "std::vector<Cell>", "optional bytes", 50),
        ("points", "std::vector<Point>", "value", 100),
    ]
    (warning,) = report.warnings
    assert "product 'cells' of type std::vector<Cell> is stored as bytes in Events.cells" in warning
    nt = fb.open(tmp_path / "a.root")
    assert nt["points"].array()[2].to_list() == [{"x": 1.5, "n": 7, "y": 2.5}] * 2
    copy, cells = again(tmp_path / "a.root"), ("cells", "std::vector<Cell>")
    assert copy.arrays("points").to_list() == dataset.arrays("points").to_list()
    ours, theirs = everything(copy), everything(dataset)
    assert ours.keys() == theirs.keys()
    assert all(ours[key].get(cells) == products.get(cells) for key, products in theirs.items())


def test_what_boost_has_stored_is_exported_as_it_is(store: fb.DataStore, tmp_path: Path) -> None:
    """One such product stopped the whole export, and was reported as damaged."""
    dataset = store.root.create_dataset("a")
    run, kind = dataset.create_run(1), "std::map<std::int32_t,std::int32_t>"
    empty, boost = bytes(8), bytes(9) + (1).to_bytes(8, "little")
    for number in range(200):
        event = run.create_subrun(1).create_event(number)
        event.store("n", number)
        store_raw(event, "map", kind, boost if number == 150 else empty)  # the others are values of the type
        if number != 3:
            store_raw(event, "text", "std::string", b"\0\0\0\0abc")
    store_raw(run, "map", kind, boost)
    report = fb.export(dataset, tmp_path / "a.root")
    assert [(one.label, one.form) for one in report.products] == [
        ("map", "bytes"),
        ("n", "value"),
        ("text", "optional bytes"),
        ("map", "bytes"),
    ]
    assert len(report.warnings) == 3
    assert f"product 'map' of type {kind} is stored as bytes in Events.map" in report.warnings[0]
    assert "event 150" in report.warnings[0]
    assert "Boost" in report.warnings[0]
    assert everything(again(tmp_path / "a.root")) == everything(dataset)
