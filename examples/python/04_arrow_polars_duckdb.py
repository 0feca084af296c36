"""One ntuple in pyarrow, polars, pandas and DuckDB, through Arrow's C interface."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

import femtobarn as fb

FILE = Path(__file__).resolve().parents[2] / "testdata" / "dimuon.root"
events = fb.open({FILE: "Events"})

# An ntuple is a stream of Arrow batches: libraries that support the protocol accept it directly.
print(pa.schema(events))

# To use only some columns, read them first.
muons = events.arrays(["event", "nMuon", "Muon_pt"], library="arrow")
print(f"pyarrow: {muons.num_rows} rows, {muons.nbytes} bytes")

frame = events.arrays(["nMuon", "Muon_pt"], library="pl")
leading = frame.filter(pl.col("nMuon") > 0).select(pl.col("Muon_pt").list.max().alias("leading pt"))
print(f"polars: mean leading pt {leading['leading pt'].mean():.2f} GeV")

# DuckDB finds the variable `muons` by its name.
print(
    duckdb.sql(
        "SELECT nMuon, count(*) AS events, round(avg(list_max(Muon_pt)), 2) AS leading_pt FROM muons "
        "GROUP BY nMuon ORDER BY nMuon"
    )
)

series = events.arrays(["nMuon"], library="pd")["nMuon"]
print(series.describe())
