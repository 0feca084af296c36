"""The ttbar analysis of the Analysis Grand Challenge, in `examples/agc`: all variants fill the same histograms."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

import femtobarn as fb

pytest.importorskip("coffea")

# coffea, ROOT and cabinetry warn of much
pytestmark = pytest.mark.filterwarnings("ignore")

AGC = Path(__file__).resolve().parents[2] / "examples/agc"
REFERENCE = "reference/agc_histos_1_file_per_process.json"
ON_UPROOT = "coffea on uproot"
IN_PYTHON = ["awkward", "flat", "coffea", ON_UPROOT]
WITH_ROOT = ["rdataframe", "native rdataframe"]
OTHERS = [ON_UPROOT, *WITH_ROOT]

# events and sums of the observable, as awkward and ROOT's RDataFrame found them before this analysis was written
FIGURES = {
    "v5": {
        ("4j1b", "nominal"): (35, 14017.016),
        ("4j2b", "nominal"): (73, 19163.01),
        ("4j1b", "pt_scale_up"): (34, 13980.56),
        ("4j2b", "pt_scale_up"): (75, 20470.32),
    },
    "v12": {
        ("4j1b", "nominal"): (9, 3780.703),
        ("4j2b", "nominal"): (30, 7347.70),
        ("4j1b", "pt_scale_up"): (11, 4475.96),
        ("4j2b", "pt_scale_up"): (31, 7754.95),
    },
}
BTAGS = {"v12": "btagDeepFlavB"}

# RDataFrame's functions are compiled once for all inputs
ROOT_SCRIPT = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
import with_rdataframe, femtobarn as fb
frames = {"rdataframe": fb.rdataframe, "native rdataframe": with_rdataframe.native}
jobs = pickle.load(open(sys.argv[2], "rb"))
found = {
    (variant, name): with_rdataframe.run(fileset, btag=btag, frame=frame)
    for name, (fileset, btag) in jobs.items() for variant, frame in frames.items()
}
pickle.dump(found, open(sys.argv[3], "wb"))
"""


@pytest.fixture(scope="module", autouse=True)
def _modules():
    sys.path.insert(0, str(AGC))
    yield
    sys.path.remove(str(AGC))


@pytest.fixture(scope="module")
def samples():
    return importlib.import_module("samples")


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Files of nine samples."""
    return importlib.import_module("generate").generate(tmp_path_factory.mktemp("agc"))


@pytest.fixture(scope="module")
def filesets(samples, shared, generated, tmp_path_factory):
    """Inputs with all samples: two real trees, one of them also as RNTuple, and generated RNTuples."""
    v5, v12 = shared / "ttree/nanoaod_v5_1000.root", shared / "ttree/nano_tt_v12.root"
    converted = tmp_path_factory.mktemp("converted") / "v5.root"
    fb.convert(f"{v5}:Events", converted)
    inputs = {"v5": [v5] * 9, "v12": [v12] * 9, "v5 as RNTuple": [converted] * 9, "generated": generated}
    return {name: samples.fileset_of(files) for name, files in inputs.items()}


@pytest.fixture(scope="module")
def of_root(filesets, run_root, tmp_path_factory):
    """What RDataFrame fills, by variant and input."""
    run_root("")  # insists on ROOT
    folder = tmp_path_factory.mktemp("root")
    jobs = {name: (fileset, BTAGS.get(name, "btagCSVV2")) for name, fileset in filesets.items()}
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-c", ROOT_SCRIPT, AGC, folder / "jobs", folder / "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return pickle.loads((folder / "found").read_bytes())


@pytest.fixture(scope="module")
def run(filesets, request):
    """A function that runs a variant on an input, once."""
    known = {}

    def get(variant, name):
        if variant in WITH_ROOT:
            return request.getfixturevalue("of_root")[variant, name]
        if (variant, name) not in known:
            module, _, peer = variant.partition(" on ")
            options = {"btag": BTAGS.get(name, "btagCSVV2")}
            if peer:
                options["runner"] = importlib.import_module("coffea.processor").Runner
            known[variant, name] = importlib.import_module(f"with_{module}").run(filesets[name], **options)
        return known[variant, name]

    return get


def program(*arguments):
    """Run the program as a user does."""
    command = [sys.executable, AGC / "ttbar.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# -- names and pseudodata ------------------------------------------------------------------------------------


def test_the_names_are_those_of_the_reference(samples, shared, run):
    reference = json.loads((shared / REFERENCE).read_text())
    histograms = samples.named(run("flat", "generated"))
    assert len(histograms) == 124
    assert sorted(histograms) == sorted(reference)
    for name, histogram in histograms.items():
        assert histogram.axes[0].edges == pytest.approx(reference[name]["edges"], rel=1e-15)


def test_pseudodata_of_the_reference_are_made_by_the_same_rule(samples, shared):
    reference = {name: np.array(one["contents"]) for name, one in json.loads((shared / REFERENCE).read_text()).items()}
    for region in samples.REGIONS:
        parts = (reference[f"{region}_{name}"] for name in ("ttbar_ME_var", "ttbar_PS_var", "wjets"))
        assert np.array_equal(samples.pseudodata(*parts), reference[f"{region}_pseudodata"])


def test_scale_variations_of_the_reference_are_those_of_the_analysis(shared):
    """And those of b tags are symmetric around the nominal histogram."""
    reference = {name: np.array(one["contents"]) for name, one in json.loads((shared / REFERENCE).read_text()).items()}
    for region in ("4j1b", "4j2b"):
        nominal = reference[f"{region}_wjets"]
        for way, factor in (("up", 1.025), ("down", 0.975)):
            assert reference[f"{region}_wjets_scale_var_{way}"] == pytest.approx(nominal * factor, rel=1e-12)
        for jet in range(4):
            up, down = (reference[f"{region}_wjets_btag_var_{jet}_{way}"] for way in ("up", "down"))
            assert (up + down) / 2 == pytest.approx(nominal, rel=1e-12)


def test_histograms_are_scaled_to_the_luminosity(samples, run):
    filled = run("flat", "generated")
    histograms = samples.named(filled)
    for name, cross_section in (("ttbar", 729.84), ("wjets", 61457 * 0.252)):
        one = filled[f"{name}__nominal"]
        assert one.n_events == 2000
        for region in samples.REGIONS:
            expected = one.histogram[region, "nominal", :].values() * cross_section * 3378 / 2000
            assert histograms[f"{region}_{name}"].values() == pytest.approx(expected, rel=1e-15)
    pseudodata = histograms["4j2b_pseudodata"]
    ttbar_me, ttbar_ps, wjets = (histograms[f"4j2b_{name}"] for name in ("ttbar_ME_var", "ttbar_PS_var", "wjets"))
    assert np.array_equal(pseudodata.values(), (ttbar_me.values() + ttbar_ps.values()) / 2 + wjets.values())
    variances = (ttbar_me.variances() + ttbar_ps.variances()) / 4 + wjets.variances()
    assert pseudodata.variances() == pytest.approx(variances, rel=1e-15)


def test_without_all_samples_there_are_no_pseudodata(samples, run):
    filled = run("flat", "generated")
    assert len(samples.named({name: filled[name] for name in list(filled)[:3]})) == 26


# -- what is filled ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "variant", [*IN_PYTHON[:-1], *(pytest.param(one, marks=pytest.mark.oracle) for one in WITH_ROOT)]
)
def test_events_and_sums_are_those_of_the_reference(samples, run, variant, name):
    filled = run(variant, name)["ttbar__nominal"]
    for (region, variation), (n, total) in FIGURES[name].items():
        assert filled.histogram[region, variation, :].sum(flow=True).value == n
        at = samples.REGIONS.index(region), samples.VARIATIONS.index(variation)
        assert filled.sums[at] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        pytest.param(variant, name, marks=[pytest.mark.oracle] if variant in OTHERS else [])
        for variant in (*IN_PYTHON[1:], *WITH_ROOT)
        for name in ("v5", "v12", "v5 as RNTuple", "generated")
        if variant != ON_UPROOT or name in ("v5", "generated")  # uproot takes minutes for wide RNTuples
    ],
)
def test_all_variants_fill_the_same_histograms(samples, run, variant, name):
    """Numbers of events are equal in each bin, and so are weights, up to rounding."""
    expected, got = run("awkward", name), run(variant, name)
    assert list(got) == [sample.name for sample in samples.SAMPLES]
    for sample in samples.SAMPLES:
        one, other = expected[sample.name], got[sample.name]
        assert one.n_events == other.n_events > 0
        assert other.sums == pytest.approx(one.sums, rel=1e-12)
        for variation in samples.VARIATIONS:
            for region in samples.REGIONS:
                a, b = (each.histogram[region, variation, :] for each in (one, other))
                if variation == "nominal" or variation.startswith("pt_"):
                    assert np.array_equal(a.values(flow=True), b.values(flow=True))
                assert b.values(flow=True) == pytest.approx(a.values(flow=True), rel=1e-12)
                assert b.variances(flow=True) == pytest.approx(a.variances(flow=True), rel=1e-12)
                assert (a.sum(flow=True).value > 0) == (variation in sample.variations)


@pytest.mark.parametrize("variant", ["awkward", "flat"])
def test_a_tree_and_an_ntuple_fill_the_same(run, variant):
    tree, ntuple = run(variant, "v5"), run(variant, "v5 as RNTuple")
    for name, filled in tree.items():
        assert filled.histogram == ntuple[name].histogram


@pytest.mark.parametrize("size", [64, 700])
def test_batches_do_not_change_what_is_filled(filesets, run, size):
    expected = run("flat", "generated")
    for variant in ("awkward", "flat"):
        module = importlib.import_module(f"with_{variant}")
        got = module.run({"wjets__nominal": filesets["generated"]["wjets__nominal"]}, output_batch_size=size)
        expected_values = expected["wjets__nominal"].histogram.values(flow=True)
        assert got["wjets__nominal"].histogram.values(flow=True) == pytest.approx(expected_values, rel=1e-12)
        assert got["wjets__nominal"].n_events == 2000


@pytest.mark.parametrize("variant", ["awkward", "flat", "coffea"])
def test_events_without_jets_fill_nothing(samples, generated, tmp_path, variant):
    events = fb.open(generated[0]).arrays()
    without = events[events.nJet == 0]
    fb.write(tmp_path / "a.root", without, name="Events")
    fileset = samples.fileset_of([tmp_path / "a.root"])
    filled = importlib.import_module(f"with_{variant}").run(fileset)["ttbar__nominal"]
    assert filled.n_events == len(without) > 0
    assert filled.histogram.sum(flow=True).value == 0


# -- the program ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["threads", "processes", "dask"])
@pytest.mark.parametrize("variant", ["awkward", "flat", "coffea"])
def test_all_executors_write_the_same_file(samples, run, generated, tmp_path, variant, executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    output = tmp_path / "histograms.root"
    said = program("--with", variant, "--executor", executor, "--output", output, *generated)
    assert "124 histograms" in said
    expected, got = samples.named(run("awkward", "generated")), fb.histograms(output)
    assert list(got) == list(expected)
    for name, histogram in expected.items():
        assert got[name].values(flow=True) == pytest.approx(histogram.values(flow=True), rel=1e-12)
        assert got[name].variances(flow=True) == pytest.approx(histogram.variances(flow=True), rel=1e-12)


@pytest.mark.oracle
def test_rdataframe_is_a_variant_of_the_program(samples, run, run_root, generated, tmp_path):
    run_root("")  # insists on ROOT
    program("--with", "rdataframe", "--output", tmp_path / "histograms.root", *generated)
    got = fb.histograms(tmp_path / "histograms.root")
    for name, histogram in samples.named(run("awkward", "generated")).items():
        assert got[name].values(flow=True) == pytest.approx(histogram.values(flow=True), rel=1e-12)


def test_other_programs_read_the_file(samples, run, tmp_path):
    expected = samples.named(run("flat", "generated"))
    samples.write(tmp_path / "histograms.root", expected)
    with uproot.open(tmp_path / "histograms.root") as file:
        assert file.keys(cycle=False) == list(expected)
        for name, histogram in expected.items():
            assert np.array_equal(file[name].values(flow=True), histogram.values(flow=True))
            assert np.array_equal(file[name].variances(flow=True), histogram.variances(flow=True))


def systematic(name, up, down=None, of=None):
    down = {"Symmetrize": True} if down is None else {"VariationPath": f"_{down}"}
    found = {"Name": name, "Type": "NormPlusShape", "Up": {"VariationPath": f"_{up}"}, "Down": down}
    return found if of is None else found | {"Samples": of}


def test_cabinetry_makes_a_model_of_the_file(samples, run, need, tmp_path):
    """With the regions, samples and systematic uncertainties of the Analysis Grand Challenge."""
    cabinetry = need("cabinetry")
    expected = samples.named(run("flat", "generated"))
    samples.write(tmp_path / "histograms.root", expected)
    simulated = ["ttbar", "wjets", "single_top_s_chan", "single_top_t_chan", "single_top_tW"]
    config = {
        "General": {
            "Measurement": "CMS_ttbar",
            "POI": "ttbar_norm",
            "HistogramFolder": str(tmp_path / "templates"),
            "InputPath": f"{tmp_path}/histograms.root:{{RegionPath}}_{{SamplePath}}{{VariationPath}}",
            "VariationPath": "",
        },
        "Regions": [{"Name": region, "RegionPath": region} for region in samples.REGIONS],
        "Samples": [
            {"Name": "Pseudodata", "SamplePath": "pseudodata", "Data": True},
            *({"Name": name, "SamplePath": name} for name in simulated),
        ],
        "Systematics": [
            systematic("ME variation", "ME_var", of="ttbar"),
            systematic("PS variation", "PS_var", of="ttbar"),
            systematic("scale of ttbar", "scaleup", "scaledown", of="ttbar"),
            systematic("jet energy scale", "pt_scale_up"),
            systematic("jet energy resolution", "pt_res_up"),
            *(systematic(f"b tag {n}", f"btag_var_{n}_up", f"btag_var_{n}_down") for n in range(4)),
            systematic("scale of W + jets", "scale_var_up", "scale_var_down", of="wjets"),
        ],
        "NormFactors": [{"Name": "ttbar_norm", "Samples": "ttbar", "Nominal": 1, "Bounds": [0, 10]}],
    }
    cabinetry.templates.collect(config)
    workspace = cabinetry.workspace.build(config)
    for observed in workspace["observations"]:
        assert observed["data"] == pytest.approx(expected[f"{observed['name']}_pseudodata"].values())
    for channel in workspace["channels"]:
        for sample in channel["samples"]:
            assert sample["data"] == pytest.approx(expected[f"{channel['name']}_{sample['name']}"].values())


def test_a_wrong_executor_is_an_error():
    command = [sys.executable, AGC / "ttbar.py", "--with", "rdataframe", "--executor", "dask"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "runs only with --executor threads" in done.stderr
