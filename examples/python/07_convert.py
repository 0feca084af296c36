"""Convert a TTree to an RNTuple, and the RNTuple to Parquet, each with a proof that no data was lost."""

import tempfile
from pathlib import Path

import femtobarn as fb

TREE = Path(__file__).resolve().parents[2] / "testdata" / "ttree" / "leaves_zlib.root"

with tempfile.TemporaryDirectory() as folder:
    ntuple, table = Path(folder) / "leaves.root", Path(folder) / "leaves.parquet"
    for source, target in ((f"{TREE}:leaves", ntuple), (ntuple, table)):
        report = fb.convert(source, target)
        print(f"{target.name}: {report.entries} entries, {report.bytes_out} bytes, equal: {report.equal}")
        assert report.equal
    digests = {column["xxh3_128_output"] for column in report.certificate["columns"]}
    print(len(report.certificate["columns"]), "columns,", len(digests), "different ones")
