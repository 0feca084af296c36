"""Schema, clusters and every value are what ROOT read: see testdata/PROVENANCE.md for the form of the golden files."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "rntuple"
GOLDENS = sorted(path.name for path in FOLDER.glob("*.json"))


@functools.cache
def load(name):
    golden = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return golden, fb.open({FOLDER / (name[: name.index(".root.")] + ".root"): golden["ntuple"]})


def bits(array, dtype, width):
    return [f"0x{value:0{width}x}" for value in array.view(dtype).tolist()]


def golden_form(layout):
    """The values of a layout, one an entry, in the form of the golden files; records are lists of their members."""
    if layout.is_union:
        tags, index = np.asarray(layout.tags.data), np.asarray(layout.index.data)
        contents = [golden_form(content) for content in layout.contents]
        values = [contents[tag][i] if tag else None for tag, i in zip(tags.tolist(), index.tolist(), strict=True)]
        return [{"tag": tag, "value": value} for tag, value in zip(tags.tolist(), values, strict=True)]
    if layout.is_option:
        content = layout.to_IndexedOptionArray64()
        values = golden_form(content.content)
        return [None if i < 0 else values[i] for i in content.index.data.tolist()]
    if layout.is_unknown:
        return []
    if layout.is_numpy:
        array = np.asarray(layout.data)
        if array.dtype == np.float32:
            return bits(array, np.uint32, 8)
        return bits(array, np.uint64, 16) if array.dtype == np.float64 else array.tolist()
    if layout.is_record:
        columns = [golden_form(content)[: layout.length] for content in layout.contents]
        return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * layout.length
    if layout.is_regular:
        values = golden_form(layout.content)
        return [values[i * layout.size : (i + 1) * layout.size] for i in range(layout.length)]
    offsets = layout.offsets.data.tolist()
    if layout.parameter("__array__") == "string":
        data = np.asarray(layout.content.data).tobytes()
        return [text(data[a:b]) for a, b in zip(offsets, offsets[1:], strict=False)]
    values = golden_form(layout.content)
    return [values[a:b] for a, b in zip(offsets, offsets[1:], strict=False)]


def text(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": list(data)}


def flat(value):
    """A golden value with classes as lists of their members: their own, then those of the last base to the first."""
    if isinstance(value, list):
        return [flat(item) for item in value]
    if not isinstance(value, dict) or set(value) == {"bytes"}:
        return value
    if set(value) == {"tag", "value"}:
        return {"tag": value["tag"], "value": flat(value["value"])}
    members, bases = [], [value]
    while bases:
        current = bases.pop()
        for name, member in current.items():
            if name.startswith(":_"):
                bases.append(member)
            else:
                members.append(flat(member))
    return members


@pytest.mark.parametrize("name", GOLDENS)
def test_the_ntuple_is_the_one_that_root_saw(name):
    golden, nt = load(name)
    assert (nt.name, nt.description, nt.num_entries) == (golden["name"], golden["description"], golden["entries"])


@pytest.mark.parametrize("name", GOLDENS)
def test_fields_have_the_types_and_columns_that_root_saw(name):
    golden, nt = load(name)
    skipped = {field for field, _ in nt.skipped}
    records = nt._schema.records
    expected = [field for field in golden["schema"] if "parent" in field or field["name"] not in skipped]
    by_id = {field["id"]: field for field in expected}
    for i, record in records.items():
        field = by_id[i]
        assert (record["name"], record["typename"], record["role"]) == (field["name"], field["type"], field["role"])
        assert record["repetitions"] == field.get("repetitions", 0)
        assert record["parent"] == field.get("parent")
        found = [(column["type"], column["bits"], column["representation"]) for column in record["columns"]]
        assert found == [(column["type"], column["bits"], column["representation"]) for column in field["columns"]]
    top = [field["name"] for field in expected if "parent" not in field]
    assert [field.name for field in nt.fields] == top


@pytest.mark.parametrize("name", GOLDENS)
def test_clusters_are_those_that_root_saw(name):
    golden, nt = load(name)
    expected = sorted((cluster["first_entry"], cluster["entries"]) for cluster in golden["clusters"])
    assert [(cluster.first_entry, cluster.num_entries) for cluster in nt.clusters] == expected


@pytest.mark.parametrize("name", GOLDENS)
def test_every_value_is_the_one_that_root_read(name):
    golden, nt = load(name)
    skipped = {field for field, _ in nt.skipped}
    arrays = nt.arrays()
    for field, values in golden["fields"].items():
        if field in skipped or (isinstance(values, str) and values.startswith("error: ")):
            continue
        assert golden_form(arrays[field].layout) == flat(values), field


@pytest.mark.parametrize("name", GOLDENS)
@pytest.mark.parametrize("part", [(1, 5), (-7, None), (13, 29)])
def test_parts_have_the_values_that_root_read(name, part):
    golden, nt = load(name)
    skipped = {field for field, _ in nt.skipped}
    arrays = nt.arrays(entry_start=part[0], entry_stop=part[1])
    for field, values in golden["fields"].items():
        if field in skipped or (isinstance(values, str) and values.startswith("error: ")):
            continue
        assert golden_form(arrays[field].layout) == flat(values[slice(*part)]), field


@pytest.mark.parametrize("name", GOLDENS)
def test_attribute_sets_are_those_that_root_saw(name):
    golden, nt = load(name)
    assert len(nt.attributes) == len(golden.get("attributes", {}))


def test_there_are_golden_files():
    assert GOLDENS
