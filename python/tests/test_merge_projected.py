"""Merging of files that store the same columns in other ways: projected from a collection, or each by itself."""

import awkward as ak
import pytest

import femtobarn as fb

COLUMNS = ["nMuon", "Muon_pt", "Muon_eta", "event"]
SHOWN = r'it is projected from "_collection0[.\w]*" here, and has its own data there: .*Parquet and back'
OWN = r'it has its own data here, and is projected from "_collection0[.\w]*" there: .*Parquet and back'


@pytest.fixture
def files(shared, tmp_path):
    """Return a file that was converted from a tree, and one with the same columns as arrays."""
    converted, own = tmp_path / "converted.root", tmp_path / "own.root"
    fb.convert(f"{shared}/ttree/nano_dy.root:Events", converted, fields=COLUMNS)
    fb.write(own, fb.open(converted).arrays(COLUMNS), name="Events")
    return converted, own


@pytest.mark.parametrize("mode", ["filter", "union", "strict"])
def test_how_each_file_stores_a_field_is_told(files, tmp_path, mode):
    for inputs, message in ((files, OWN), (files[::-1], SHOWN)):
        if (mode, message) == ("strict", SHOWN):
            continue  # its collection is not in the first file
        with pytest.raises(fb.FemtobarnError, match=message):
            fb.merge(inputs, tmp_path / "out.root", mode=mode)


def test_the_advised_conversion_makes_them_fit(files, tmp_path):
    converted, own = files
    fb.convert(converted, tmp_path / "columns.parquet")
    fb.convert(tmp_path / "columns.parquet", tmp_path / "columns.root")
    report = fb.merge([own, tmp_path / "columns.root"], tmp_path / "out.root", verify=True)
    values, given = fb.open(tmp_path / "out.root").arrays(COLUMNS), fb.open(own).arrays(COLUMNS)
    assert report.entries == {"Events": 2 * len(given)}
    assert ak.array_equal(values, ak.concatenate([given, given]))


def test_projected_fields_can_be_written_as_a_conversion_writes_them(files, tmp_path):
    converted, _ = files
    events = fb.open(converted).arrays(COLUMNS)
    types = {"_collection0": "var * {Muon_pt: float32, Muon_eta: float32}", "nMuon": fb.Cardinality("_collection0")}
    types |= {name: fb.Projected("ROOT::VecOps::RVec<float>", f"_collection0.{name}") for name in COLUMNS[1:3]}
    muons = ak.zip({name: events[name] for name in COLUMNS[1:3]})
    with fb.recreate(tmp_path / "written.root") as file:
        nt = file.mkrntuple("Events", types | {"event": "uint64"})
        nt.extend({"_collection0": muons, "event": events.event})
    fb.merge([converted, tmp_path / "written.root"], tmp_path / "out.root")
    values = fb.open(tmp_path / "out.root").arrays(COLUMNS)
    assert ak.array_equal(values, ak.concatenate([events, events]))
