import awkward as ak
import numpy as np
import pytest
from compare import listed, same
from golden import GOLDENS, load

import femtobarn as fb


@pytest.fixture(scope="module")
def nt(dimuon):
    return fb.open(dimuon)


@pytest.fixture(scope="module")
def expected(nt):
    return nt.arrays()


def test_pyarrow_takes_an_ntuple(nt, expected, need):
    pyarrow = need("pyarrow")
    table = pyarrow.table(nt)
    assert table.num_rows == 12_000
    assert table.column_names == expected.fields
    assert same(table["Muon_pt"], expected.Muon_pt)
    assert same(table["_collection0"][:50], expected["_collection0"][:50])


def test_the_schema_costs_no_page(dimuon, need):
    pyarrow = need("pyarrow")
    nt = fb.open(dimuon)
    schema = pyarrow.schema(nt)
    assert schema == pyarrow.table(fb.open(dimuon)).schema
    assert nt.metrics.pages == 0


def test_an_ntuple_is_streamed_in_batches(nt, need, monkeypatch):
    pyarrow = need("pyarrow")
    monkeypatch.setattr("femtobarn._files.ntuple._STREAM_STEP", "50 kB")
    reader = pyarrow.RecordBatchReader.from_stream(nt)
    sizes = [batch.num_rows for batch in reader]
    assert len(sizes) > 2
    assert sum(sizes) == 12_000


def test_polars_takes_an_ntuple_and_a_batch(nt, expected, need):
    polars = need("polars")
    frame = polars.DataFrame(nt)
    assert same(frame["Muon_charge"], expected.Muon_charge)
    batch = next(nt.iterate(["nMuon", "Muon_pt"], step_size=100, library="batch"))
    assert same(polars.DataFrame(batch)["Muon_pt"], expected.Muon_pt[:100])


def test_duckdb_takes_an_ntuple(nt, expected, need):
    duckdb = need("duckdb")
    need("pyarrow")
    ours = nt  # DuckDB finds it by its name
    assert duckdb.sql("SELECT count(*), sum(nMuon) FROM ours").fetchall() == [(12_000, sum(expected.nMuon))]
    assert ours is nt


def test_pandas_takes_an_ntuple(nt, need):
    pandas = need("pandas")
    need("pyarrow")
    if not hasattr(pandas.DataFrame, "from_arrow"):
        pytest.skip("this pandas has no DataFrame.from_arrow")
    assert len(pandas.DataFrame.from_arrow(nt)) == 12_000


def without_tuples(value):
    """Replace tuples, which Arrow does not have, by structs with members _0, _1 and so on."""
    if isinstance(value, tuple):
        return {f"_{i}": without_tuples(member) for i, member in enumerate(value)}
    if isinstance(value, dict):
        return {key: without_tuples(member) for key, member in value.items()}
    return [without_tuples(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", GOLDENS)
def test_every_type_goes_through_arrow(name, need):
    pyarrow = need("pyarrow")
    _, nt = load(name)
    arrays = nt.arrays()
    table = pyarrow.table(nt)
    table.validate(full=True)
    assert table.num_rows == nt.num_entries
    assert table.column_names == arrays.fields == [field.name for field in nt.fields]
    for field in arrays.fields:
        if name.startswith("blocks_"):  # too many for Python objects
            chunk = table[field].combine_chunks()
            assert np.array_equal(chunk.value_lengths(), ak.num(arrays[field]))
            assert np.array_equal(chunk.flatten(), ak.flatten(arrays[field]))
        else:
            assert repr(listed(table[field])) == repr(without_tuples(listed(arrays[field]))), field


def test_a_part_goes_through_arrow(mixed, need):
    pyarrow = need("pyarrow")
    nt = fb.open(mixed)
    batch = nt.arrays(["nested", "text"], entry_start=7, entry_stop=19, library="batch")
    table = pyarrow.table(batch)
    table.validate(full=True)
    assert same(table["nested"], nt["nested"].array(7, 19))
