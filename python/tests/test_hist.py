"""`fb hist` counts as NumPy does, and writes pictures and histograms."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import femtobarn as fb

FB = [sys.executable, "-c", "from femtobarn._cli import main; import sys; sys.exit(main())", "hist"]


def hist(*arguments, fine=True):
    done = subprocess.run([*FB, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == fine, done.stderr
    return done.stdout if fine else done.stderr


@pytest.fixture(scope="module")
def events(dimuon):
    return fb.open(f"{dimuon}:Events").arrays(["nMuon", "Muon_pt", "Muon_eta"])


def flat(lists):
    return np.concatenate([np.asarray(it, float) for it in lists])


def test_counts_and_statistics_are_those_of_numpy(dimuon, events):
    found = json.loads(hist(dimuon, "Muon_eta", "--bins", 13, "--range=-2:2.5", "--where", "nMuon >= 2", "--json"))
    eta = flat(events.Muon_eta[events.nMuon >= 2])
    inside = eta[(eta >= -2) & (eta < 2.5)]
    counts, edges = np.histogram(inside, bins=13, range=(-2, 2.5))
    assert found["values"] == [(eta < -2).sum(), *counts, (eta >= 2.5).sum()]
    assert np.allclose(found["axes"][0]["edges"], edges)
    assert found["entries"] == len(eta)
    sums = found["statistics"]
    assert sums["fTsumw"] == len(inside)
    assert np.allclose([sums["fTsumwx"], sums["fTsumwx2"]], [inside.sum(), (inside**2).sum()])


def test_without_a_range_all_values_are_inside(dimuon, events):
    found = json.loads(hist(dimuon, "Muon_pt * 2", "--bins", 9, "--json"))
    counts, edges = np.histogram(2 * flat(events.Muon_pt), bins=9)
    assert found["values"] == [0, *counts, 0]
    assert np.allclose(found["axes"][0]["edges"], edges)
    found = json.loads(hist(dimuon, "nMuon", "--json"))
    assert found["axes"][0]["edges"] == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert found["values"][1:-1] == np.bincount(events.nMuon).tolist()


def test_several_files_are_one_histogram_and_nan_is_counted(tmp_path):
    fb.write(tmp_path / "a.root", {"x": [1.0, np.nan, np.inf]})
    fb.write(tmp_path / "b.root", {"x": [2.0, -np.inf, 2.0]})
    found = json.loads(hist(f"{tmp_path}/*.root", "x", "--json"))
    assert found["nan"] == 1
    assert found["entries"] == 5
    assert found["values"] == [1, 1, 2, 1]
    assert "1 values are NaN" in hist(f"{tmp_path}/*.root", "x", "--width", 40)


def test_pictures_have_the_bins(dimuon, need, tmp_path):
    for name in ("h.svg", "h.png", "h.root"):
        assert hist(dimuon, "Muon_pt", "--range", "0:50", "--bins", 10, "-o", tmp_path / name) == ""
    svg = ElementTree.parse(tmp_path / "h.svg").getroot()
    bars = [it for it in svg.iter() if it.tag.endswith("rect") and it.get("fill") != "white"]
    values = json.loads(hist(dimuon, "Muon_pt", "--range", "0:50", "--bins", 10, "--json"))["values"][1:-1]
    heights = [float(bar.get("height")) for bar in bars]
    assert np.allclose(np.array(heights) / max(heights), np.array(values) / max(values), atol=1e-3)
    pixels = need("matplotlib.image").imread(tmp_path / "h.png")
    assert pixels.shape[:2] == (480, 800)
    blue = np.isclose(pixels[..., :3], np.array([0x7F, 0xB2, 0xDC]) / 255, atol=0.01).all(axis=-1)
    columns = blue[:, 95:775].sum(axis=0)
    assert np.isclose(columns.max() / 360, 1, atol=0.02)
    assert np.isclose(columns[100] / columns.max(), values[1] / values[0], atol=0.02)
    assert fb.histogram(tmp_path / "h.root").values().tolist() == values
    # a histogram of a file is drawn, too
    assert "Muon_pt" in hist(tmp_path / "h.root", "--width", 60)


def test_errors_say_what_to_do(dimuon, testdata, tmp_path):
    assert 'no field "nope"' in hist(dimuon, "nope", fine=False)
    assert "use LOW:HIGH" in hist(dimuon, "Muon_pt", "--range", "5", fine=False)
    assert "invalid range 5:5" in hist(dimuon, "Muon_pt", "--range", "5:5", fine=False)
    assert "must end with .svg, .png or .root" in hist(dimuon, "Muon_pt", "-o", tmp_path / "h.jpg", fine=False)
    assert "give a column" in hist(dimuon, fine=False)
    assert "are for a column" in hist(testdata / "histograms.root:fitted", "--bins", 3, fine=False)
    assert "only histograms with one axis" in hist(testdata / "histograms.root:three", fine=False)


def test_a_stored_histogram_can_be_named_like_a_column(testdata, dimuon, tmp_path):
    stored = testdata / "histograms.root"
    assert hist(stored, "squares") == hist(f"{stored}:squares")
    assert "--bins, --range and --where are for a column" in hist(stored, "squares", "--bins", 3, fine=False)
    both = tmp_path / "both.root"
    fb.merge([dimuon, stored], both)
    assert hist(both, "squares") == hist(f"{stored}:squares")
    assert hist(both, "nMuon") == hist(dimuon, "nMuon")
    assert 'no field "nothing"' in hist(both, "nothing", fine=False)
    assert "has 0 RNTuples or TTrees" in hist(stored, "nothing", fine=False)


def test_mistakes_are_told_in_short(dimuon, shared):
    assert "did you mean MET_pt" in hist(f"{shared}/ttree/nano_dy.root:Events", "MET", fine=False)
    assert "invalid range -1e308:1e308: " in hist(dimuon, "nMuon", "--range=-1e308:1e308", fine=False)
    assert "invalid range 5:1: " in hist(dimuon, "nMuon", "--range=5:1", fine=False)
