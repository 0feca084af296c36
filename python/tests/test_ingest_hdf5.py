"""HDF5 files in event stores: the products of an event equal what h5py reads of it, whatever the file looks like."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import h5py
import hdf5_files
import numpy as np
import pytest
from cpp_programs import run_cpp
from hdf5_files import by_event, index, many_groups, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import femtobarn as fb
from femtobarn._transfer.hdf5 import Choice, cpp_names
from femtobarn._transfer.hdf5_reader import Hdf5Reader


def numbers_of(event: fb.Event) -> tuple[int, int, int]:
    return event.run.number, event.subrun.number, event.number


@pytest.fixture
def dataset(store: fb.DataStore) -> fb.DataSet:
    """An empty dataset."""
    return store.root.create_dataset("fermilab/nova")


def in_memory() -> fb.DataSet:
    return fb.DataStore.connect("memory:").root.create_dataset("nova")


def plain(value: Any) -> Any:
    """Return a value in a form that can be compared."""
    if isinstance(value, bytes):
        return value.decode()
    return value.tolist() if hasattr(value, "tolist") else value


def stored(dataset: fb.DataSet, label: str) -> dict[tuple[int, int, int], Any]:
    """Return the values of a product by event."""
    found = {}
    for event in dataset.events():
        value = event.load(label, default=None)
        if value is not None:
            found[numbers_of(event)] = value.tolist()
    return found


def expected(path: Path, group: str) -> dict[tuple[int, int, int], Any]:
    """Return what h5py reads by event, with the names of members."""
    rows = by_event(path, group)
    names = cpp_names(name for own in rows.values() for row in own for name in row)
    return {
        key: [{names[name]: plain(value) for name, value in row.items()} for row in own] for key, own in rows.items()
    }


def sorted_members(values: dict[Any, list[dict[str, Any]]]) -> dict[Any, list[dict[str, Any]]]:
    return {key: [dict(sorted(row.items())) if row else {} for row in rows] for key, rows in values.items()}


def check(dataset: fb.DataSet, path: Path, group: str) -> None:
    assert sorted_members(stored(dataset, group)) == sorted_members(expected(path, group))


def test_real_files_come_back_as_h5py_reads_them(dataset: fb.DataSet, shared: Path) -> None:
    paths = sorted((shared / "nova").glob("*.h5"))
    report = fb.ingest(str(shared / "nova" / "*.h5"), dataset)
    assert (report.files, report.events) == (2, 1706 + 2702)
    assert report.left_out == {"neutrino": ("it is empty", 2)}
    for group in ("rec.me.trkkalman", "rec.training.cvnmaps"):
        wanted = {key: rows for path in paths for key, rows in expected(path, group).items()}
        array = dataset.arrays(group, numbers=True)
        kept = array[~ak.is_none(array[group])]
        keys = list(zip(kept.run.tolist(), kept.subrun.tolist(), kept.event.tolist(), strict=True))
        assert keys == sorted(wanted)
        found = dict(zip(keys, kept[group].tolist(), strict=True))
        assert sorted_members(found) == sorted_members(wanted)
    spills = [key for path in paths for key in by_event(path, "spill")]
    assert [numbers_of(event) for event in dataset.events()] == sorted(spills)
    assert report.products == len(spills) + sum(
        len(by_event(path, group)) for path in paths for group in ("rec.me.trkkalman", "rec.training.cvnmaps")
    )


def test_many_groups_come_back(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5")
    report = fb.ingest(path, dataset)
    assert report.events == 200
    assert len(report.left_out) == 20
    assert report.products == 200 + sum(len(by_event(path, f"rec.g{at}.x y")) for at in range(0, 30, 3))
    for at in range(0, 30, 3):
        check(dataset, path, f"rec.g{at}.x y")
    check(dataset, path, "spill")
    event = next(event for event in dataset.events() if event.load("rec.g0.x y", default=None) is not None)
    kinds = {product.label: product.type for product in event.products()}
    assert kinds["rec.g0.x y"] == "std::vector<rec_g0_x_y>"
    # the largest first, as in HDF2HEPnOS, so that its programs find them at the same offsets
    assert event.load("rec.g0.x y").fields == ["E", "n", "cycle", "start_x", "subevt", "good", "map"]


@pytest.mark.parametrize("n_bytes", [1, 3_000, 100_000, 1 << 30])
def test_pieces_end_between_events_and_have_everything(tmp_path: Path, n_bytes: int) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=60)
    with Hdf5Reader(str(path), Choice(), n_bytes) as reader:
        chunks = [chunk for chunk, _ in reader.chunks()]
    assert (len(chunks) == 1) == (n_bytes == 1 << 30)
    events = np.concatenate([chunk.event for chunk in chunks])
    assert len(events) == 60
    assert np.all(np.diff(events.astype(int)) > 0)
    for group in ("rec.g0.x y", "rec.g9.x y"):
        rows = [
            row for chunk in chunks for own in chunk.products.get(group, []) if own is not None for row in own.tolist()
        ]
        wanted = [row for own in expected(path, group).values() for row in own]
        assert sorted_members({0: rows}) == sorted_members({0: wanted})


def test_rows_in_any_order_belong_to_their_events(tmp_path: Path) -> None:
    numbers = [(2, 1, 5), (1, 9, 7), (2, 1, 5), (1, 9, 7), (1, 9, 3), (2, 0, 5), (1, 9, 7)]
    path = write(tmp_path / "a.h5", {"rec.slc": {**index(numbers), "n": np.arange(7, dtype="u4")}})
    dataset = in_memory()
    fb.ingest(path, dataset)
    # of one event, in the order of the file
    assert dataset[2][1][5].load("rec.slc").n.tolist() == [0, 2]
    assert dataset[1][9][7].load("rec.slc").n.tolist() == [1, 3, 6]
    assert [numbers_of(event) for event in dataset.events()] == [(1, 9, 3), (1, 9, 7), (2, 0, 5), (2, 1, 5)]


def test_shuffled_rows_are_read_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    numbers = [(1, 1, int(event)) for event in rng.integers(0, 500, 5000)]
    path = write(tmp_path / "a.h5", {"g": {**index(numbers), "n": np.arange(5000, dtype="u4")}})
    with Hdf5Reader(str(path), Choice(), 20_000) as reader:
        chunks = [chunk for chunk, _ in reader.chunks()]
    assert len(chunks) > 3
    found = {int(e): rows.n.tolist() for c in chunks for e, rows in zip(c.event, c.products["g"], strict=True)}
    wanted: dict[int, list[int]] = {}
    for row, (_, _, event) in enumerate(numbers):
        wanted.setdefault(event, []).append(row)
    assert found == wanted


def test_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    numbers = [(1, 0, 255), (1, 0, 256), (1, 256, 0), (256, 0, 0), (2**32 - 1, 0, 2**32 - 1)]
    path = write(tmp_path / "a.h5", {"g": {**index(numbers), "n": np.arange(5, dtype="u4")}})
    dataset = in_memory()
    fb.ingest(path, dataset)
    assert [numbers_of(event) for event in dataset.events()] == numbers
    assert [event.load("g").n.tolist() for event in dataset.events()] == [[at] for at in range(5)]


def test_events_that_spill_lacks_are_there_and_told(tmp_path: Path) -> None:
    groups = {"spill": index([(1, 1, 2), (1, 1, 4)]), "rec.slc": {**index([(1, 1, 3)]), "n": [7]}}
    path = write(tmp_path / "a.h5", groups)
    dataset = in_memory()
    report = fb.ingest(path, dataset)
    assert [event.number for event in dataset.events()] == [2, 3, 4]
    assert "1 of the events in spill" in report.left_out
    # those of spill exist whatever is selected
    other = in_memory()
    assert fb.ingest(path, other, groups="rec.*").products == 1
    assert [event.number for event in other.events()] == [2, 3, 4]


def test_types_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    n = 4
    with h5py.File(path, "w") as file:
        group = file.create_group("g")
        for name, values in index([(1, 1, at // 2) for at in range(n)]).items():
            group[name] = values
        for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">i4", ">f8", "f2", "?"):
            group[f"x{kind}"] = np.array([1, 0, 1, 1]).astype(kind)
        group["array"] = np.arange(n * 6, dtype="i2").reshape(n, 2, 3)
        group["one"] = np.arange(n, dtype="i2").reshape(n, 1, 1)
        group["fixed"] = np.array([b"a", b"", b"abc", b"x"], "S5").reshape(n, 1)
        group.create_dataset("text", data=["ä", "", "b\tc", "long " * 99], dtype=h5py.string_dtype())
        group.create_dataset("texts", data=[["a", "b"]] * n, dtype=h5py.string_dtype())
        lists = group.create_dataset("lists", (n, 1), dtype=h5py.vlen_dtype("f4"))
        for at in range(n):
            lists[at, 0] = np.arange(at, dtype="f4")
        colors = h5py.enum_dtype({"RED": 3, "BLUE": 5}, "i2")
        group.create_dataset("color", data=np.array([3, 5, 5, 3]), dtype=colors)
    dataset = in_memory()
    fb.ingest(path, dataset)
    rows = dataset[1][1][1].load("g")
    schema = fb.hdf5_schema(path)["g"]
    assert rows.fields == [member["name"] for member in schema["members"]]
    types = {member["name"]: member["type"] for member in schema["members"]}
    assert types["xf2"] == types["xf4"] == "float"
    assert (types["xi8"], types["x_i4"], types["x_"]) == ("std::int64_t", "std::int32_t", "bool")
    assert types["array"] == "std::array<std::array<std::int16_t,3>,2>"
    assert (types["one"], types["color"], types["fixed"]) == ("std::int16_t", "std::int16_t", "std::string")
    assert (types["texts"], types["lists"]) == ("std::array<std::string,2>", "std::vector<float>")
    assert rows.array.tolist() == np.arange(12, 24).reshape(2, 2, 3).tolist()
    assert rows.fixed.tolist() == ["abc", "x"]
    assert rows.text.tolist() == ["b\tc", "long " * 99]
    assert rows.lists.tolist() == [[0.0, 1.0], [0.0, 1.0, 2.0]]
    assert rows.texts.tolist() == [["a", "b"]] * 2
    assert (rows.color.tolist(), rows.one.tolist(), rows.x_.tolist()) == ([5, 3], [2, 3], [True, True])


NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@st.composite
def tables(draw: Any) -> dict[str, dict[str, Any]]:
    """Files with a few groups: any numbers of events, any order, any types."""
    groups = {}
    for at in range(draw(st.integers(1, 3))):
        numbers = draw(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=12))
        if draw(st.booleans()):
            numbers.sort()
        columns: dict[str, Any] = index(numbers, draw(st.sampled_from(["u4", "i8", "u8"])))
        for name, kind in draw(
            st.dictionaries(st.sampled_from(["a", "a.b", "a_b", "int", "9"]), st.sampled_from(NUMBERS))
        ).items():
            width = draw(st.integers(1, 3))
            values = np.frombuffer(
                draw(st.binary(min_size=8 * width * len(numbers), max_size=8 * width * len(numbers))), "u1"
            )
            array = values[: len(numbers) * width * np.dtype(kind).itemsize].view(kind)
            array = np.where(np.isnan(array), 0, array).astype(kind) if kind[0] == "f" else array
            columns[name] = array.reshape(len(numbers), width) if width > 1 else array
        groups[f"rec.g{at}"] = columns
    return groups


@pytest.mark.filterwarnings("ignore:.*no events found")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=tables(), flat=st.booleans(), n_bytes=st.sampled_from([1, 200, 1 << 20]))
def test_any_file_comes_back(tmp_path: Path, groups: Any, flat: bool, n_bytes: int) -> None:
    path = write(tmp_path / "any.h5", groups, flat=flat)
    dataset = in_memory()
    fb.ingest(path, dataset)
    for group, columns in groups.items():
        if len(columns["evt"]):
            check(dataset, path, group)
    with Hdf5Reader(str(path), Choice(), n_bytes) as reader:
        n = sum(len(chunk) for chunk, _ in reader.chunks())
    assert n == len(list(dataset.events()))


def test_what_is_empty_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write(path, {"spill": index([(1, 1, 1)]), "neutrino": {**index([]), "x": np.empty(0, "f4")}, "nothing": {}})
    with h5py.File(path, "a") as file:
        file["spill"].create_dataset("batch", (0, 1), "i4")
        file["spill"].create_dataset("pixels", (1, 0), "i4")
    report = fb.ingest(path, in_memory())
    assert {name: reason for name, (reason, _) in report.left_out.items()} == {
        "neutrino": "it is empty",
        "nothing": "it is empty",
        "spill/batch": "it is empty",
        "spill/pixels": "its rows have no values",
    }
    assert "left out: neutrino" in str(report)


def test_what_is_of_no_event_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"spill": index([(1, 1, 1)]), "meta": {"run": [1], "pot": [2.5]}})
    with h5py.File(path, "a") as file:
        file["version"] = 3
        file["gone"] = h5py.SoftLink("/nowhere")
    with pytest.warns(fb.UnreadableWarning, match="'gone', 'version', 'meta' of 1 file cannot be ingested"):
        report = fb.ingest(path, in_memory())
    assert report.left_out["meta"] == ("the event numbers of its rows are missing: it has no subrun, evt", 1)
    assert report.left_out["gone"][0] == "its link has no target"
    assert "outside of a group" in report.left_out["version"][0]


def test_groups_in_groups_are_tables(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"rec/slc": {**index([(1, 1, 1)]), "n": [5]}})
    dataset = in_memory()
    fb.ingest(path, dataset)
    assert dataset[1][1][1].products() == [fb.Product("rec/slc", "std::vector<rec_slc>")]


@pytest.mark.filterwarnings("ignore:.*no events found")
def test_events_numbered_by_a_concatenation(tmp_path: Path) -> None:
    spill = {**index([(2, 1, 5), (1, 1, 9), (1, 1, 7)]), "evt.seq": np.arange(3)}
    by_itself = {**index([(2, 1, 5), (1, 1, 7), (1, 1, 7)]), "evt.seq": [0, 2, 2], "n": [1, 2, 3]}
    path = write(tmp_path / "a.h5", {"spill": spill, "rec.slc": by_itself, "rec.vtx": {"evt.seq": [1, 2], "n": [4, 5]}})
    dataset = in_memory()
    fb.ingest(path, dataset)
    assert dataset[1][1][7].load("rec.slc").tolist() == [{"evt_seq": 2, "n": 2}, {"evt_seq": 2, "n": 3}]
    assert dataset[1][1][9].load("rec.vtx").tolist() == [{"evt_seq": 1, "n": 4}]
    assert dataset[1][1][7].load("rec.vtx").n.tolist() == [5]
    beyond = write(tmp_path / "b.h5", {"spill": spill, "rec.vtx": {"evt.seq": [1, 3], "n": [4, 5]}})
    with pytest.raises(fb.FormatError, match=r"evt.seq of group 'rec.vtx' has 3, but spill has 3 events"):
        fb.ingest(beyond, in_memory())
    alone = write(tmp_path / "c.h5", {"rec.vtx": {"evt.seq": [1, 2], "n": [4, 5]}})
    with pytest.warns(fb.UnreadableWarning, match="no spill, which identifies these events"):
        assert fb.ingest(alone, in_memory()).events == 0


def bad(tmp_path: Path, **columns: Any) -> Path:
    return write(tmp_path / "bad.h5", {"rec.slc": {**index([(1, 1, 1), (1, 1, 2)]), "n": [1, 2], **columns}})


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"n": [1, 2, 3]}, fb.FormatError, r"group 'rec.slc' have different lengths: run has 2 rows, n has 3"),
        ({"evt": [1]}, fb.FormatError, r"different lengths: run has 2 rows, subrun has 2 rows, evt has 1 rows"),
        ({"evt": [1, -2]}, fb.FormatError, r"evt of group 'rec.slc' is -2 in row 1"),
        ({"evt": [1.0, 2.0]}, fb.FormatError, r"evt of group 'rec.slc' must have one integer per row"),
        ({"evt": [[1, 2], [3, 4]]}, fb.FormatError, r"as event number; it has int64 of shape \(2, 2\)"),
        ({"evt": np.array([1, 2**64 - 1], "u8")}, fb.FormatError, r"which is reserved"),
        ({"z": np.array([1j, 2])}, fb.UsageError, r"type complex128, which products cannot have.*drop='rec.slc/z'"),
        ({"z": np.zeros(2, [("a", "i4")])}, fb.UsageError, r"the type of a, which products cannot have"),
        (
            {"z": np.array([b"\xff", b"a"], "S2")},
            fb.FormatError,
            r"dataset 'z' of group 'rec.slc' has a string that is not valid UTF-8 .*, in row 0 ",
        ),
    ],
)
def test_what_cannot_be_is_an_error_that_says_where(tmp_path: Path, columns: Any, error: Any, message: str) -> None:
    path = bad(tmp_path, **columns)
    with pytest.raises(error, match=message) as caught:
        fb.ingest(path, in_memory())
    assert str(path) in str(caught.value)


def test_a_text_that_is_none_is_told_by_its_row(tmp_path: Path) -> None:
    """The row was counted from the start of the rows that are read together."""
    rows = [(1, 1, event) for event in (5, 3, 4, 1, 2)]
    texts = np.array([b"a", b"b", b"c", b"d", b"\xff"], "S2")
    path = write(tmp_path / "a.h5", {"rec.slc": {**index(rows), "z": texts}})
    with pytest.raises(fb.FormatError, match=r"not valid UTF-8 .*: b'\\xff', in row 4 \(from 0\)"):
        fb.ingest(path, in_memory())


def test_a_group_whose_name_is_no_label_tells_what_to_do(tmp_path: Path) -> None:
    rows = [(1, 1, 1), (1, 1, 2)]
    groups = {name: {**index(rows), "x": np.arange(2.0)} for name in ("g#h", "other")}
    path = write(tmp_path / "a.h5", groups)
    dataset = in_memory()
    with pytest.raises(fb.UsageError, match=r"group 'g#h' .* drop='g#h', or rename it .*'g_h'"):
        fb.ingest(path, dataset)
    assert dataset.numbers() == []
    assert fb.ingest(path, dataset, drop="g#h").products == 2
    assert fb.ingest(path, in_memory(), groups="other").products == 2


def damage(path: Path, name: str) -> Path:
    """Overwrite the header of an object."""
    with h5py.File(path) as file:
        at = h5py.h5o.get_info(file[name].id).addr
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * 16)
    return path


@pytest.mark.parametrize("name", ["spill", "rec.slc", "rec.slc/evt", "rec.slc/n"])
def test_what_is_damaged_is_an_error_and_not_noted(tmp_path: Path, name: str) -> None:
    groups = {"spill": index([(1, 1, 1)]), "rec.slc": {**index([(1, 1, 1)]), "n": [5]}}
    path = damage(write(tmp_path / "a.h5", groups), name)
    dataset = in_memory()
    for _ in range(2):  # it was not recorded
        with pytest.raises(fb.FormatError, match="may be damaged") as caught:
            fb.ingest(path, dataset)
        assert str(path) in str(caught.value)
        assert name in str(caught.value)
    if name == "rec.slc/n":
        assert fb.ingest(path, dataset, drop="rec.slc/n").events == 1


def test_links_to_what_is_damaged_do_not_lead_nowhere(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"rec.slc": {**index([(1, 1, 1)]), "n": [5]}, "x": index([(1, 1, 1)])})
    other = write(tmp_path / "b.h5", {"y": index([(1, 1, 1)])})
    with h5py.File(path, "a") as file:
        file["rec.slc/soft"] = h5py.SoftLink("/x/gone")
        file["rec.slc/far"] = h5py.ExternalLink("none.h5", "/y")
        file["rec.slc/further"] = h5py.ExternalLink("b.h5", "/z")
    with pytest.warns(fb.UnreadableWarning, match="nowhere|left out"):
        report = fb.ingest(path, in_memory())
    assert {f"rec.slc/{name}" for name in ("soft", "far", "further")} == set(report.left_out)
    with h5py.File(path, "a") as file:
        file["rec.slc/z"] = h5py.ExternalLink("b.h5", "/y/evt")
    damage(other, "y/evt")
    with pytest.raises(fb.FormatError, match=r"cannot read 'rec\.slc/z'"):
        fb.ingest(path, in_memory())


def test_links_in_circles_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"rec/slc": index([(1, 1, 1)])})
    with h5py.File(path, "a") as file:
        file["rec/again"] = file["/rec"]
    with pytest.raises(fb.FormatError, match=r"a\.h5: group 'rec/again' contains itself"):
        fb.ingest(path, in_memory())
    with h5py.File(path, "a") as file:
        del file["rec/again"]
        file["p"] = h5py.SoftLink("/q")
        file["q"] = h5py.SoftLink("/p")
    with pytest.raises(fb.FormatError, match=r"a\.h5: cannot read 'p'"):
        fb.ingest(path, in_memory())


def test_groups_without_end_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        at = file
        for _ in range(3000):
            at = at.create_group("g")
    with pytest.raises(fb.FormatError, match=r"a\.h5: group 'g/.*more than 64 deep"):
        fb.ingest(path, in_memory())
    with h5py.File(path, "w") as file:
        at = file.create_group("g")
        for _ in range(40):
            at["b"] = at.create_group("a")
            at = at["a"]
    with pytest.raises(fb.FormatError, match="more than 131072 groups"):
        fb.ingest(path, in_memory())


@pytest.mark.parametrize("chunks", [None, (1024,)])
def test_rows_that_were_never_written_are_bounded(tmp_path: Path, chunks: Any) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in hdf5_files.INDEX:
            file.create_dataset(f"rec.slc/{name}", (10**11,), "u4", chunks=chunks)
    with pytest.raises(fb.FormatError, match=r"a\.h5: dataset 'run' of group 'rec.slc' has 100000000000 values"):
        fb.ingest(path, in_memory())


def test_virtual_datasets_without_their_sources_are_told(tmp_path: Path) -> None:
    """HDF5 reads zeros if a source is missing."""
    (tmp_path / "parts").mkdir()
    source = write(tmp_path / "parts" / "source.h5", {"rec.slc": {**index([(7, 1, 3), (7, 1, 4)]), "n": [5, 6]}})
    path = write(tmp_path / "a.h5", {"rec.slc": index([(7, 1, 3), (7, 1, 4)])})
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout((2, 1), "i8")
        layout[:] = h5py.VirtualSource("parts/source.h5", "rec.slc/n", (2, 1))
        file.create_virtual_dataset("rec.slc/n", layout)
        again = h5py.VirtualLayout((2, 1), "i8")
        again[:] = h5py.VirtualSource(".", "rec.slc/n", (2, 1))
        file.create_virtual_dataset("rec.slc/n2", again)
    dataset = in_memory()
    fb.ingest(path, dataset)
    assert [dataset.arrays("rec.slc")[name].tolist() for name in ("n", "n2")] == [[[5], [6]]] * 2
    with h5py.File(source, "a") as file:
        del file["rec.slc/n"]
    with pytest.raises(fb.FormatError, match=r"a\.h5: dataset 'n' .*source\.h5 has no dataset 'rec\.slc/n'.*drop="):
        fb.ingest(path, in_memory())
    source.unlink()
    with pytest.raises(fb.FormatError, match=r"a\.h5: dataset 'n' .*source\.h5 does not exist"):
        fb.ingest(path, in_memory())
    with pytest.raises(fb.FormatError, match=r"a\.h5: dataset 'n2' .*source\.h5 does not exist"):
        fb.ingest(path, in_memory(), drop="rec.slc/n")


def test_a_file_without_events_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"spill": index([])})
    with pytest.warns(fb.UnreadableWarning, match=r"a\.h5: no events found in the file"):
        report = fb.ingest(path, in_memory())
    assert f"left out: {path}: no events found in the file" in str(report)


def test_other_columns_may_have_the_numbers(tmp_path: Path) -> None:
    groups = {
        "spill": {"run_number": [7, 7], "sub": [1, 1], "event": [3, 4], "run": [0, 0], "pot": [1.5, 2.5]},
        "rec.slc": {"run_number": [7, 7], "sub": [1, 1], "event": [3, 3], "n": [5, 6]},
    }
    path = write(tmp_path / "a.h5", groups)
    numbers = {"run": "run_number", "subrun": "sub", "event": "event"}
    dataset = in_memory()
    fb.ingest(path, dataset, **numbers)
    assert [numbers_of(event) for event in dataset.events()] == [(7, 1, 3), (7, 1, 4)]
    assert dataset[7][1][3].load("rec.slc").tolist() == [{"n": 5}, {"n": 6}]
    assert dataset[7][1][4].load("spill").tolist() == [{"pot": 2.5, "run": 0}]
    members = fb.hdf5_schema(path, **numbers)["rec.slc"]["members"]
    assert [member["name"] for member in members] == ["n"]


def test_numbers_that_no_group_has_are_told_with_those_that_there_are(tmp_path: Path) -> None:
    """All groups were left out, and the result was a success with 0 events."""
    groups = {
        "meta": {"n": [1], "run": [1]},
        "rec.slc": {"run": [7], "subrun": [1], "event": [3], "cycle": [0], "e": [0.5]},
        "none": index([]),
    }
    path = write(tmp_path / "a.h5", groups)
    told = r"group 'rec.slc' has no evt; its integers are 'event', 'cycle', .*with run=, subrun= and event="
    with pytest.raises(fb.KeyNotFoundError, match=told):
        fb.ingest(path, in_memory())
    with pytest.raises(fb.KeyNotFoundError, match=told):
        fb.hdf5_schema(path)
    with pytest.raises(fb.KeyNotFoundError, match=r"group 'rec\.slc' has no run_nr, evnt"):
        fb.ingest(path, in_memory(), run="run_nr", event="evnt")
    assert told_by_program(path, tmp_path).endswith("name them with --run, --subrun and --event\n")
    with pytest.warns(fb.UnreadableWarning, match="'meta' of 1 file cannot be ingested"):
        assert fb.ingest(path, in_memory(), event="event").events == 1


def told_by_program(path: Path, folder: Path) -> str:
    """Return the message of `fb ingest` for a file without events."""
    told = fb_program("ingest", path, "--into", f"dir:{folder / 'store'}", "--dataset", "a")
    assert (told.returncode, told.stdout) == (3, "")
    return told.stderr


INTERRUPTED = """
import os, signal, sys
from femtobarn import _cli
from femtobarn._transfer import hdf5_reader as _hdf5_reader
from femtobarn._transfer import ingest as _ingest

_hdf5_reader.Hdf5Reader.__init__.__defaults__ = (4000,)
at, sys.argv[1:] = int(sys.argv[1]), sys.argv[2:]
n = 0

def interrupted(*given):
    global n
    n += 1
    if n == at:
        os.kill(os.getpid(), signal.SIGINT)
    return call(*given)

call, _ingest._write = _ingest._write, interrupted
sys.exit(_cli.main())
"""


def test_what_ctrl_c_ends_is_told_and_goes_on(tmp_path: Path) -> None:
    """The program ended without a message."""
    paths = [many_groups(tmp_path / f"{at}.h5", n_events=40, n_groups=6, seed=at, run=at) for at in range(3)]
    into = ["--into", f"dir:{tmp_path / 'store'}", "--dataset", "nova"]

    def interrupted(at: int, *words: Any) -> str:
        command = [sys.executable, "-c", INTERRUPTED, str(at), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout) == (130, "")
        return done.stderr

    # reading the first file gives the same number of pieces as the second
    n_pieces = sum(1 for _ in Hdf5Reader(paths[0], Choice(), 4000).chunks())
    told = interrupted(n_pieces + 2, "ingest", *paths, *into, "--workers", "1")
    found = re.fullmatch(
        r"fb: interrupted; 1 of 3 files is completely in dataset 'nova', at least (\d+) events of this call are there: "
        r"repeat the call to continue\n",
        told,
    )
    assert found is not None, told
    assert int(found[1]) <= fb.DataStore.connect(into[1], mode="r")["nova"].n_events()
    again = fb_program("ingest", *paths, *into)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("2 files read, 1 skipped")


def test_a_redis_without_a_log_takes_files(tmp_path: Path, redis_without_log: str) -> None:
    # It was taken for a store in memory, which ends with the program.
    path = many_groups(tmp_path / "a.h5", n_events=3, n_groups=1)
    store = f"{redis_without_log}?prefix={tmp_path.name}:"
    done = fb_program("ingest", path, "--into", store, "--dataset", "a")
    assert done.returncode == 0, done.stderr
    assert fb.DataStore.connect(store, mode="r")["a"].n_events() == 3


def test_a_second_ctrl_c_ends_what_waits_for_a_server(tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=3, n_groups=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        store = f"redis://127.0.0.1:{silent.getsockname()[1]}/?connect_timeout=600"
        command = [sys.executable, "-c", FB, "ingest", path, "--into", store, "--dataset", "a"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
            assert program.stderr is not None
            connection, _ = silent.accept()
            with connection:
                program.send_signal(signal.SIGINT)
                assert program.stderr.readline() == "fb: finishing the current step; Ctrl-C again stops at once\n"
                program.send_signal(signal.SIGINT)
                assert program.wait(timeout=60) == 130
            assert program.stderr.read() == ""


@pytest.mark.parametrize(("given", "message"), [({"tree": "x"}, "tree="), ({"collections": True}, "collections=")])
def test_what_is_of_root_files_is_told(tmp_path: Path, given: Any, message: str) -> None:
    path = write(tmp_path / "a.h5", {"spill": index([(1, 1, 1)])})
    with pytest.raises(fb.UsageError, match=f"{message} is for ROOT files"):
        fb.ingest(path, in_memory(), **given)
    with pytest.raises(fb.UsageError, match="run= must be the name of a dataset"):
        fb.ingest(path, in_memory(), run=3)


def test_what_is_no_file_of_events_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n" * 20)
    with pytest.raises(fb.FormatError, match="neither HDF5 nor a ROOT file: it begins with"):
        fb.ingest(tmp_path / "passwd", in_memory())
    with pytest.raises(fb.UsageError, match=r"this is a directory: give its files, e\.g\. '.*/\*\.h5'"):
        fb.ingest(tmp_path, in_memory())
    (tmp_path / "a.root").touch()
    with pytest.raises(fb.UsageError, match=r"this is a directory: give its files, e\.g\. '.*/\*\.root'"):
        fb.ingest(tmp_path, in_memory())
    with pytest.raises(fb.UsageError, match="HDF5 files can only be read from local disks"):
        fb.ingest("http://127.0.0.1:9/a.h5?token=1", in_memory())


def test_the_program_tells_of_its_own_options_and_leaves_nothing(tmp_path: Path) -> None:
    store = f"dir:{tmp_path / 'store'}"
    fb.write(tmp_path / "a.root", {"x": [1]})
    told = fb_program("ingest", tmp_path / "a.root", "--into", store, "--dataset", "a/b")
    assert told.returncode == 3
    assert "there is no field 'run'" in told.stderr
    assert "with --run, or give" in told.stderr
    none = fb_program("ingest", tmp_path / "none*.root", "--into", store, "--dataset", "a/b")
    assert (none.returncode, none.stderr) == (3, f"fb: no file matches {tmp_path}/none*.root\n")
    assert not (tmp_path / "store").exists()
    assert fb_program("ingest", tmp_path / "a.root", "--into", "mystore", "--dataset", "a").stderr == (
        'fb: mystore is not an event store: did you mean "dir:mystore"?\n'
    )
    numbers = ["--run", "1", "--subrun", "2", "--event", "0"]
    into_file = fb_program("ingest", tmp_path / "a.root", "--into", tmp_path / "a.root", "--dataset", "a", *numbers)
    assert "a.root is not an event store: this is a file" in into_file.stderr
    done = fb_program("ingest", tmp_path / "a.root", "--into", store, "--dataset", "a/b", *numbers)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out.root"
    exported = fb_program("export", store, out, "--dataset", "a/b")
    first, second = exported.stdout.splitlines()
    assert first == f"{out}: 1 event, 1 column"
    assert re.fullmatch(r"[\d.]+ kB in [\d.]+ m?s", second)
    again = fb_program("export", store, out, "--dataset", "a/b")
    assert again.stderr == f"fb: {out} already exists: replace it with -f\n"


def test_what_is_dropped_is_in_no_way(tmp_path: Path) -> None:
    path = bad(tmp_path, z=np.array([1j, 2]))
    dataset = in_memory()
    fb.ingest(path, dataset, drop="*/z")
    assert dataset[1][1][1].load("rec.slc").fields == ["n"]


def test_another_namespace_does_not_double_products_unasked(tmp_path: Path) -> None:
    """The classes differ then, and so do the products: each was silently stored twice."""
    path = many_groups(tmp_path / "a.h5", n_events=3, n_groups=1)
    dataset = in_memory()
    fb.ingest(path, dataset, namespace="hep")
    with pytest.raises(fb.UsageError, match="with classes of namespace='hep': with namespace=''"):
        fb.ingest(path, dataset)
    assert fb.ingest(path, dataset, namespace="hep::").skipped == 1
    assert len({product.type for product in next(iter(dataset.events())).products("spill")}) == 1
    fb.ingest(path, dataset, again=True)
    assert len({product.type for product in next(iter(dataset.events())).products("spill")}) == 2


def test_names_in_cpp_are_valid_and_no_two_the_same() -> None:
    names = ["a.b", "a_b", "a b", "class", "9", "ä", "start.x"]
    made = cpp_names(names)
    assert made["a_b"] == "a_b"
    assert {made["a.b"], made["a b"]} == {"a_b_2", "a_b_3"}
    assert (made["class"], made["9"], made["ä"], made["start.x"]) == ("class_", "_9", "_", "start_x")
    assert len(set(made.values())) == len(names)


def test_patterns_choose_groups_and_datasets(tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=20)
    dataset = in_memory()
    fb.ingest(path, dataset, groups=["rec.g0*", "spill"], fields=["*/E", "spill/*"])
    labels = {product.label for event in dataset.events() for product in event.products()}
    assert labels == {"spill", "rec.g0.x y"}
    assert dataset.arrays("rec.g0.x y").fields == ["E"]
    with pytest.raises(fb.KeyNotFoundError, match=r"groups: nothing in the files matches 'rec.g0x'; similar: 'rec.g0"):
        fb.ingest(path, in_memory(), groups="rec.g0x")
    with pytest.raises(fb.KeyNotFoundError, match=r"'E' \(give a field as group/dataset\)"):
        fb.ingest(path, in_memory(), fields="E")


def test_groups_in_groups_can_be_chosen(tmp_path: Path) -> None:
    groups = {"rec": {**index([(1, 1, 1)]), "m": [4]}, "rec/slc": {**index([(1, 1, 1)]), "n": [5]}}
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for group, datasets in groups.items():
            for name, values in datasets.items():
                file[f"{group}/{name}"] = values
    for chosen, labels in (("rec/slc", ["rec/slc"]), ("rec", ["rec"]), ("rec*", ["rec", "rec/slc"])):
        dataset = in_memory()
        fb.ingest(path, dataset, groups=chosen)
        assert [product.label for product in dataset[1][1][1].products()] == labels


def test_a_file_that_is_there_is_not_read_again(dataset: fb.DataSet, tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=20)
    first = fb.ingest(path, dataset)
    again = fb.ingest([path, path], dataset)
    assert (again.files, again.skipped, again.events) == (0, 1, 0)
    forced = fb.ingest(path, dataset, again=True)
    assert (forced.files, forced.products, forced.kept) == (1, 0, first.products)
    # the selection is part of the record
    assert fb.ingest(path, dataset, groups="spill").kept == 20
    assert fb.ingest(path, dataset, groups="spill").skipped == 1
    # a changed file is another file
    many_groups(path, n_events=21, seed=2, run=5)
    assert fb.ingest(path, dataset).events == 21
    note = json.loads(dataset.load(dataset.products()[0].label))
    assert (note["file"], note["size"]) == (str(path), path.stat().st_size)
    # the record of one dataset does not apply to another
    other = dataset.datastore.root.create_dataset("other")
    for product in dataset.products():
        other.store(product.label, dataset.load(product.label))
    assert fb.ingest(path, other).events == 21


def test_another_value_is_a_conflict(dataset: fb.DataSet, tmp_path: Path) -> None:
    numbers = [(1, 1, 1), (1, 1, 2), (1, 1, 2), (1, 1, 3)]
    a = write(tmp_path / "a.h5", {"rec.slc": {**index(numbers), "n": np.array([1, 2, 3, 4], "u4")}})
    b = write(tmp_path / "b.h5", {"rec.slc": {**index([*numbers, (1, 1, 4)]), "n": np.array([1, 2, 9, 4, 5], "u4")}})
    fb.ingest(a, dataset)
    with pytest.raises(fb.ExistsError, match=r"b\.h5: run 1, subrun 1, event 2 has a product 'rec\.slc'") as caught:
        fb.ingest(b, dataset)
    assert caught.value.kind == "conflict"
    assert "nothing of this file" not in str(caught.value)
    assert "1 product of this file, also of other events, is already stored" in str(caught.value)
    assert dataset[1][1][2].load("rec.slc").n.tolist() == [2, 3]
    assert dataset[1][1][4].load("rec.slc").n.tolist() == [5]
    with pytest.raises(fb.ExistsError, match="nothing of this file was stored"):
        fb.ingest(b, dataset)
    kept = fb.ingest(b, dataset, on_conflict="keep")
    assert (kept.conflicts, kept.kept, kept.products) == (1, 3, 0)
    assert dataset[1][1][2].load("rec.slc").n.tolist() == [2, 3]
    assert dataset[1][1][4].load("rec.slc").n.tolist() == [5]
    assert fb.ingest(b, dataset, on_conflict="keep").skipped == 1
    # the outcome is recorded for files with conflicts; files that lost values are not recorded as complete
    for path, values in [(b, [2, 9]), (a, [2, 3]), (b, [2, 9])]:
        replaced = fb.ingest(path, dataset, on_conflict="replace")
        assert (replaced.conflicts, replaced.products) == (1, 1)
        assert dataset[1][1][2].load("rec.slc").n.tolist() == values
        assert fb.ingest(path, dataset, on_conflict="replace").skipped == 1


def test_what_was_deleted_is_brought_in_again(dataset: fb.DataSet, tmp_path: Path) -> None:
    numbers = [(1, 1, 1), (1, 1, 2), (2, 1, 1)]
    path = write(tmp_path / "a.h5", {"rec.slc": {**index(numbers), "n": np.array([1, 2, 3], "u4")}})
    fb.ingest(path, dataset)
    deletions: list[Any] = [
        lambda: dataset[1].delete(),
        lambda: dataset[1][1].delete(),
        lambda: dataset[1][1][2].delete(),
        lambda: dataset[1][1][2].delete_product("rec.slc"),
    ]
    for delete in deletions:
        assert fb.ingest(path, dataset).skipped == 1
        delete()
        assert fb.ingest(path, dataset).files == 1
        assert dataset.arrays("rec.slc").n.tolist() == [[1], [2], [3]]


def test_a_group_with_other_datasets_is_told_with_its_file(tmp_path: Path) -> None:
    a = write(tmp_path / "a.h5", {"rec.slc": {**index([(1, 1, 1)]), "n": [1], "batch": [2]}})
    b = write(tmp_path / "b.h5", {"rec.slc": {**index([(1, 1, 2)]), "n": [1]}})
    with pytest.raises(fb.UsageError, match=r"b\.h5: product 'rec\.slc': .*only there: batch;.*drop='rec\.slc'"):
        fb.ingest([a, b], in_memory())
    with pytest.raises(fb.UsageError, match=r"b\.h5: group 'rec\.slc' has other datasets than in .*a\.h5: batch"):
        fb.hdf5_schema([a, b])
    assert fb.ingest([a, b], in_memory(), drop="*/batch").products == 2


def test_processes_read_what_one_reads(tmp_path: Path) -> None:
    paths = [many_groups(tmp_path / f"{at}.h5", n_events=30, n_groups=6, seed=at, run=at) for at in range(5)]
    one, several = in_memory(), in_memory()
    reports = [fb.ingest(paths, one, workers=1), fb.ingest(paths, several, workers=2)]
    assert reports[0].products == reports[1].products
    assert reports[0].left_out == reports[1].left_out
    for label in ("rec.g0.x y", "rec.g3.x y", "spill"):
        assert stored(one, label) == stored(several, label)
    for mode in ("keep", "replace"):
        assert fb.ingest(paths, several, workers=3, again=True, on_conflict=mode).kept == reports[0].products


def test_an_error_in_another_process_is_the_same(tmp_path: Path) -> None:
    paths = [many_groups(tmp_path / f"{at}.h5", n_events=5, n_groups=1, run=at) for at in range(2)]
    paths.append(bad(tmp_path, evt=[1, -2]))
    dataset = in_memory()
    with pytest.raises(fb.FormatError, match=r"bad\.h5: evt of group 'rec.slc' is -2 in row 1"):
        fb.ingest(paths, dataset, workers=2)
    assert fb.ingest(paths[:2], dataset, workers=2).conflicts == 0


KILLED = """
import os, signal, sys
import femtobarn as fb
from femtobarn._transfer import ingest as _ingest
from femtobarn._transfer import hdf5_reader as _hdf5_reader

_hdf5_reader._BYTES = 4000
write, n = _ingest._write, 0
init = _hdf5_reader.Hdf5Reader.__init__
_hdf5_reader.Hdf5Reader.__init__ = lambda self, path, choice: init(self, path, choice, 4000)

def killed(*given):
    global n
    write(*given)
    n += 1
    if n == 6:
        os.kill(os.getpid(), signal.SIGKILL)

_ingest._write = killed
dataset = fb.DataStore.connect("dir:" + sys.argv[1]).root.create_dataset("nova")
fb.ingest(sys.argv[2:], dataset)
"""


def test_what_was_killed_goes_on_with_the_same_result(tmp_path: Path) -> None:
    paths = [many_groups(tmp_path / f"{at}.h5", n_events=40, n_groups=6, seed=at, run=at) for at in range(3)]
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "store", *paths], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")["nova"]
    before = sum(len(event.products()) for event in dataset.events())
    report = fb.ingest(paths, dataset)
    whole = in_memory()
    total = fb.ingest(paths, whole).products
    assert 0 < before < total
    assert report.files + report.skipped == 3
    assert report.kept > 0
    assert sum(len(event.products()) for event in dataset.events()) == total
    for label in ("rec.g0.x y", "rec.g3.x y", "spill"):
        assert stored(dataset, label) == stored(whole, label)


def test_a_reader_that_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from femtobarn._transfer import ingest_worker as _ingest_worker

    paths = [many_groups(tmp_path / f"{at}.h5", n_events=5, n_groups=1, run=at) for at in range(2)]
    give = _ingest_worker._Readers._give

    def giving(self: Any, connection: Any, source: Any) -> None:
        self._processes[connection].kill()
        self._processes[connection].wait()
        give(self, connection, source)

    monkeypatch.setattr(_ingest_worker._Readers, "_give", giving)
    with pytest.raises(fb.WorkerDiedError, match=r"0\.h5: the process that read it ended with signal SIGKILL"):
        fb.ingest(paths, in_memory(), workers=2)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from femtobarn._transfer import ingest as _ingest

    path = many_groups(tmp_path / "a.h5", n_events=5, n_groups=1)
    write_chunk = _ingest._write

    def changing(*given: Any) -> None:
        write_chunk(*given)
        os.utime(path, (1, 1))

    monkeypatch.setattr(_ingest, "_write", changing)
    dataset = in_memory()
    with pytest.raises(fb.FileError, match=r"a\.h5: the file changed while it was read"):
        fb.ingest(path, dataset)
    assert dataset.products() == []


def test_what_a_file_is_is_seen_from_its_content(tmp_path: Path, dimuon: str) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=5, n_groups=1)
    nameless = shutil.copy(path, tmp_path / "nameless")
    assert fb.ingest(nameless, in_memory()).events == 5
    behind = hdf5_files.write(tmp_path / "b.h5", {"spill": index([(1, 1, 1)])}, userblock_size=2048)
    assert fb.ingest(behind, in_memory()).events == 1
    other = tmp_path / "text.h5"
    other.write_text("no HDF5 at all")
    with pytest.raises(fb.FormatError, match=r"text\.h5: neither HDF5 nor a ROOT file: it begins with b'no HDF5 '"):
        fb.ingest(other, in_memory())
    with pytest.raises(fb.NotFoundError):
        fb.ingest(tmp_path / "none.h5", in_memory())
    cut = tmp_path / "cut.h5"
    cut.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(fb.FormatError, match=r"cut\.h5: cannot read it as HDF5; it may be truncated"):
        fb.ingest(cut, in_memory())
    with pytest.raises(fb.UsageError, match="groups is for HDF5 files"):
        fb.ingest(dimuon, in_memory(), groups="a")
    with pytest.raises(fb.UsageError, match="this is a ROOT file, not HDF5"):
        fb.hdf5_schema(dimuon)


def test_slips_are_told(tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=5, n_groups=1)
    with pytest.raises(fb.UsageError, match="on_conflict must be 'raise', 'keep' or 'replace'"):
        fb.ingest(path, in_memory(), on_conflict="ignore")
    with pytest.raises(fb.UsageError):
        fb.ingest(path, fb.DataStore.connect("memory:"))  # type: ignore[arg-type]
    with pytest.raises(fb.UsageError):
        fb.ingest(path, in_memory(), namespace="a b")
    with pytest.raises(TypeError, match="did you mean 'workers'"):
        fb.ingest(path, in_memory(), worker=1)  # type: ignore[call-arg]


def test_a_class_of_other_files_goes_into_another_namespace(tmp_path: Path) -> None:
    paths = [many_groups(tmp_path / f"{name}.h5", n_events=20, n_groups=1) for name in "abc"]
    with h5py.File(paths[2], "a") as file:
        file["spill/more"] = np.zeros(len(file["spill/run"]))
    into = ["--into", f"dir:{tmp_path / 'store'}", "--dataset", "nova"]
    failed = fb_program("ingest", paths[2], *into, "--groups", "spill")
    failed = fb_program("ingest", *paths[:2], *into, "--groups", "spill", "--workers", "2")
    assert failed.returncode == 2
    assert "class spill is stored with other members: only there: more" in failed.stderr
    assert f"Of 2 checked files, 2 files have these members, {paths[0]}, {paths[1]}" in failed.stderr
    assert "(--drop 'spill'), or the members that some files lack (--drop 'spill/…')" in failed.stderr
    forget = ["store", "forget-class", f"dir:{tmp_path / 'store'}"]
    used = fb_program(*forget, "spill")
    assert used.returncode == 2
    assert 'in dataset "nova", run' in used.stderr
    with fb.DataStore.connect(f"dir:{tmp_path / 'store'}") as store:
        store["nova"].delete()
    assert fb_program(*forget, "spill").stdout == "spill forgotten; it can now be stored with other members\n"
    assert fb_program(*forget, "spill", "--json").returncode == 3
    assert fb_program("ingest", *paths, *into, "--groups", "spill", "--drop", "spill/more").returncode == 0


FB = "import sys; from femtobarn._cli import main; sys.exit(main())"


def fb_program(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FB, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_program_does_it_too(tmp_path: Path) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=20, n_groups=4)
    into = ["--into", f"dir:{tmp_path / 'store'}", "--dataset", "fermilab/nova"]
    done = fb_program("ingest", path, *into, "--namespace", "hep", "--groups", "rec.*,spill")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 file read\n20 events, ")
    dataset = fb.DataStore.connect(f"dir:{tmp_path / 'store'}", mode="r")["fermilab/nova"]
    assert sorted_members(stored(dataset, "rec.g0.x y")) == sorted_members(expected(path, "rec.g0.x y"))
    document = json.loads(fb_program("ingest", path, *into, "--json", "--groups", "spill", "--namespace", "hep").stdout)
    assert (document["files"], document["events"], document["kept"]) == (1, 20, 20)
    failed = fb_program("ingest", tmp_path / "none.h5", *into)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert failed.stderr == f"fb: {tmp_path / 'none.h5'}: no such file\n"
    twice = fb_program("ingest", path, *into)
    assert twice.stderr.endswith("it would have each product twice, with two types; force this with --again\n")
    told = fb_program("ingest", path, *into, "--namespace", "hep", "--groups", "no.such", "--json")
    assert told.returncode == 3
    assert json.loads(told.stderr)["error"]["kind"] == "key-not-found"
    other = many_groups(tmp_path / "b.h5", n_events=20, n_groups=4)
    with h5py.File(other, "a") as file:
        file["spill/spillpot"][3] = -1
    conflict = fb_program("ingest", other, *into, "--namespace", "hep")
    assert conflict.returncode == 2
    assert "fb: --on-conflict keep keeps existing values" in conflict.stderr
    nowhere = fb_program("ingest", path, "--into", "memory:", "--dataset", "a")
    assert (nowhere.returncode, nowhere.stderr) == (
        2,
        "fb: memory:: a store in memory ends with this program; use a persistent one, as dir:PATH\n",
    )
    schema = json.loads(fb_program("hdf5-schema", path, "--json").stdout)
    assert schema["spill"]["members"] == [{"name": "spillpot", "type": "float", "dataset": "spillpot"}]
    listed = fb_program("hdf5-schema", path, "--cpp", tmp_path / "nova.hpp")
    assert listed.returncode == 0
    assert "std::vector<rec_g0_x_y>" in listed.stdout
    assert "struct rec_g0_x_y" in (tmp_path / "nova.hpp").read_text()
    assert fb_program("ingest", path).returncode == 2
    help_text = fb_program("--help").stdout
    assert "hdf5-schema" in help_text
    assert "export" in help_text


PROGRAM = """
#include "nova.hpp"
#include <iostream>
#include <iomanip>

int main(int, char **argv) {
    std::cout << std::setprecision(17);
    const fb::Store store = fb::Store::connect(argv[1], fb::Mode::append);
    const fb::DataSet nova = store.dataset("nova");
    auto chunks = nova.events();
    while (const auto chunk = chunks.next()) {
        for (std::size_t i = 0; i < chunk->size(); ++i) {
            const fb::Container event(store, (*chunk)[i]);
            std::vector<hep::rec_g0_x_y> rows;
            if (load(event, rows)) {
                for (const auto &row : rows) {
                    std::cout << event.number() << ' ' << row.E << ' ' << row.n << ' ' << row.cycle << ' '
                              << row.start_x << ' ' << row.subevt << ' ' << row.good;
                    for (unsigned pixel : row.map) std::cout << ' ' << pixel;
                    std::cout << '\\n';
                }
            }
            std::vector<hep::texts> texts;
            if (load(event, texts)) {
                for (const auto &row : texts) {
                    std::cout << "text " << event.number() << ' ' << row.name << ' ' << row.list.size() << ' '
                              << row.n << '\\n';
                }
            }
        }
    }
    // What C++ stores, Python loads: the class is the one that was ingested.
    const fb::Container made = nova.create(1).create(1).create(1);
    hep::store(made, std::vector<hep::spill>{{2.5f}});
    return 0;
}
"""


def test_programs_of_cpp_load_what_was_ingested(tmp_path: Path, need_program: Any) -> None:
    path = many_groups(tmp_path / "a.h5", n_events=40, n_groups=4)
    with h5py.File(path, "a") as file:
        group = file.create_group("texts")
        events = file["spill/evt"][:3, 0]
        for name, values in index([(11981, 6, int(event)) for event in events]).items():
            group[name] = values
        group.create_dataset("name", data=["a", "", "ccc"], dtype=h5py.string_dtype())
        group["n"] = np.array([1, 2, 3], "u2")
        lists = group.create_dataset("list", (3,), dtype=h5py.vlen_dtype("f4"))
        for at in range(3):
            lists[at] = np.arange(at, dtype="f4")
    url = f"dir:{tmp_path / 'store'}"
    dataset = fb.DataStore.connect(url).root.create_dataset("nova")
    fb.ingest(path, dataset, namespace="hep")
    fb.hdf5_schema(path, cpp=tmp_path / "nova.hpp", namespace="hep")
    del dataset
    lines = run_cpp(PROGRAM, tmp_path, need_program, url)
    found = [line.split() for line in lines if not line.startswith("text")]
    wanted = [
        [key[2], row["E"], row["n"], row["cycle"], row["start.x"], row["subevt"], row["good"], *row["map"]]
        for key, rows in sorted(by_event(path, "rec.g0.x y").items())
        for row in rows
    ]
    assert [[float(word) for word in words] for words in found] == [[float(value) for value in row] for row in wanted]
    texts = [line.split(" ")[2:] for line in lines if line.startswith("text")]
    assert texts == [["a", "0", "1"], ["", "1", "2"], ["ccc", "2", "3"]]
    again = fb.DataStore.connect(url)["nova"]
    assert again[1][1][1].load("spill").spillpot.tolist() == [2.5]
    assert len(again.arrays("spill")) == 41


HEPNOS_PROGRAM = """
#include <hepnos.hpp>
#include "nova.hpp"
#include <iostream>

int main(int, char **argv) {
    hepnos::DataStore datastore = hepnos::DataStore::connect("na+sm", argv[1]);
    const hepnos::DataSet dataset = datastore.root()["nova"];
    for (auto &run : dataset.runs()) {
        for (auto &subrun : run) {
            for (auto &event : subrun) {
                std::vector<hep::rec_me_trkkalman> tracks;
                load(event, tracks);
                for (const auto &track : tracks) {
                    std::cout << subrun.number() << ' ' << event.number() << ' ' << track.subevt << ' '
                              << track.meanpos_x << '\\n';
                }
                std::vector<hep::rec_training_cvnmaps> maps;
                event.load("rec.training.cvnmaps", maps);
                for (const auto &map : maps) {
                    std::cout << event.number() << ' ' << map.ncells << ' ' << int(map.cvnmap[3]) << '\\n';
                }
                std::vector<hep::spill> spills;
                std::cout << event.number() << ' ' << (load(event, spills) && spills.size() == 1) << '\\n';
            }
        }
    }
}
"""


@pytest.mark.usefixtures("boost")
def test_programs_of_hepnos_load_real_files(tmp_path: Path, need_program: Any, shared: Path) -> None:
    paths = sorted((shared / "nova").glob("*.h5"))
    url = f"dir:{tmp_path / 'store'}"
    dataset = fb.DataStore.connect(url).root.create_dataset("nova")
    fb.ingest([str(path) for path in paths], dataset, namespace="hep")
    fb.hdf5_schema([str(path) for path in paths], cpp=tmp_path / "nova.hpp", namespace="hep")
    del dataset
    found = run_cpp(HEPNOS_PROGRAM, tmp_path, need_program, url, libraries=("-lboost_serialization",))
    wanted = []
    for path in paths:
        tracks, maps = by_event(path, "rec.me.trkkalman"), by_event(path, "rec.training.cvnmaps")
        for run, subrun, event in sorted(by_event(path, "spill")):
            rows = tracks.get((run, subrun, event), [])
            wanted += [f"{subrun} {event} {row['subevt']} {row['meanpos.x']:.6g}" for row in rows]
            rows = maps.get((run, subrun, event), [])
            wanted += [f"{event} {row['ncells']} {row['cvnmap'][3]}" for row in rows]
            wanted.append(f"{event} 1")
    assert found == wanted


NAMES_PROGRAM = """
#include <cmath>
#include <ctime>
#include "nova.hpp"
#include <iostream>
int main(int, char **argv) {
    const fb::Store store = fb::Store::connect(argv[1]);
    const fb::Container event(store.dataset("nova")[1][1][1]);
    std::vector<NAMESPACE::NULL_> null;
    std::vector<NAMESPACE::load_> loads;
    std::vector<NAMESPACE::fb_> fbs;
    std::vector<NAMESPACE::nhit> hits;
    std::cout << (load(event, null) && null[0].class_ == 1 && null[0].errno_ == 2 && null[0].NAN_ == 3) << '\\n'
              << load(event, loads) << load(event, fbs) << (load(event, hits) && hits[0].nhit == 4) << '\\n';
}
"""


@pytest.mark.parametrize("namespace", ["", "hep"])
def test_names_that_cpp_has_for_itself_get_an_underscore(tmp_path: Path, need_program: Any, namespace: str) -> None:
    values = {name: index([(1, 1, 1)]) for name in ("fb", "load", "store", "time", "index", "tm", "int", "Item", "row")}
    values |= {
        name: index([(1, 1, 1)]) for name in ("Archive", "rows", "item", "std", "linux", "M_PI", "hepnos", "sin")
    }
    values |= {
        "NULL": {**index([(1, 1, 1)]), "class": [1], "errno": [2], "NAN": [3]},
        "nhit": {**index([(1, 1, 1)]), "nhit": [4], "load": [5], "fb": [6], "visit": [7], "Archive": [8]},
        "time": {**index([(1, 1, 1)]), "NULL": ["a"], "bytes": [5], "put": [6], "row": [7]},
    }
    path = write(tmp_path / "a.h5", values)
    url = f"dir:{tmp_path / 'store'}"
    dataset = fb.DataStore.connect(url).root.create_dataset("nova")
    fb.ingest(path, dataset, namespace=namespace)
    schema = fb.hdf5_schema(path, cpp=tmp_path / "nova.hpp", namespace=namespace)
    assert {(product.label, product.type) for product in dataset[1][1][1].products()} == {
        (label, one["type"]) for label, one in schema.items()
    }
    del dataset
    program = NAMES_PROGRAM.replace("NAMESPACE", namespace)
    assert run_cpp(program, tmp_path, need_program, url) == ["1", "111"]


HINT_PROGRAM = """
#include <hepnos.hpp>
#include "nova.hpp"
#include <iostream>

int main(int, char **argv) {
    std::cerr.rdbuf(std::cout.rdbuf());
    std::vector<hep::rec_slc> rows;
    {
        const fb::Store store = fb::Store::connect(argv[1]);
        for (int i = 0; i < 3; ++i) {
            std::cout << load(fb::Container(store.dataset("nova")[1][1][1]), rows) << std::endl;
        }
    }
    std::vector<hep::rec_vtx> others;
    hepnos::DataStore store = hepnos::DataStore::connect("na+sm", argv[1]);
    std::cout << load(store.root()["nova"][1][1][1], others) << std::endl;
}
"""


@pytest.mark.usefixtures("boost")
def test_another_namespace_is_told(tmp_path: Path, need_program: Any) -> None:
    groups = {name: {**index([(1, 1, 1)]), "n": [5]} for name in ("rec.slc", "rec.vtx")}
    path = write(tmp_path / "a.h5", groups)
    url = f"dir:{tmp_path / 'store'}"
    dataset = fb.DataStore.connect(url).root.create_dataset("nova")
    fb.ingest(path, dataset)
    fb.hdf5_schema(path, cpp=tmp_path / "nova.hpp", namespace="hep")
    del dataset
    lines = run_cpp(HINT_PROGRAM, tmp_path, need_program, url, libraries=("-lboost_serialization",))
    told = "femtobarn: found no product rec.{0} of type std::vector<hep::rec_{0}>, but one of type std::vector<rec_{0}>"
    assert [line.partition("; use the")[0] for line in lines] == [told.format("slc"), *"000", told.format("vtx"), "0"]
