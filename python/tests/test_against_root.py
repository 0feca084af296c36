"""Schema, clusters and every value are what ROOT read; testdata/PROVENANCE.md describes the golden files."""

import pytest
from golden import GOLDENS, assert_fields_are_golden, equal, listed, load

pytestmark = pytest.mark.oracle

# Fields of unsupported types, by golden file; no current file has any
SKIPPED = {}


def assert_values_are_golden(name, start, stop):
    golden, nt = load(name)
    assert nt.skipped == SKIPPED.get(name, ())
    assert_fields_are_golden(golden, nt, start, stop)


@pytest.mark.parametrize("name", GOLDENS)
def test_the_ntuple_is_the_one_that_root_saw(name):
    golden, nt = load(name)
    assert (nt.name, nt.description, nt.num_entries) == (golden["name"], golden["description"], golden["entries"])


@pytest.mark.parametrize("name", GOLDENS)
def test_fields_have_the_types_and_columns_that_root_saw(name):
    golden, nt = load(name)
    records = nt._schema.records
    expected = golden["schema"]
    by_id = {field["id"]: field for field in expected}
    assert sorted(records) == sorted(by_id)
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
    assert_values_are_golden(name, None, None)


@pytest.mark.parametrize("name", GOLDENS)
@pytest.mark.parametrize(("start", "stop"), [(1, 5), (-7, None), (13, 29)])
def test_parts_have_the_values_that_root_read(name, start, stop):
    assert_values_are_golden(name, start, stop)


@pytest.mark.parametrize("name", GOLDENS)
def test_attribute_sets_are_those_that_root_saw(name):
    golden, nt = load(name)
    expected = golden.get("attributes", {})
    assert sorted(nt.attributes) == sorted(expected)
    for title, ranges in expected.items():
        found = nt.attributes[title].arrays()
        assert found["_rangeStart"].tolist() == [one["start"] for one in ranges]
        assert found["_rangeLen"].tolist() == [one["length"] for one in ranges]
        members = found["_userData"].fields
        assert all(list(one["values"]) == members for one in ranges)
        values = listed(found["_userData"].layout)
        assert equal(values, [list(one["values"].values()) for one in ranges]), f"{title}: {values}"


def test_there_are_golden_files():
    assert len(GOLDENS) > 60


def test_formulas_are_compared_too():
    """A wrong byte is noticed: golden files with formulas have no other values."""
    golden, nt = load("blocks_zstd.root.blocks.json")
    golden = {**golden, "formula": {"data": [*golden["formula"]["data"][:1], {"length": 4, "byte i": "7"}]}}
    with pytest.raises(AssertionError, match="data, entry 1"):
        assert_fields_are_golden(golden, nt)
