"""What `cost` predicts is compared with real writes and reads: all numbers are equal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import awkward as ak
import numpy as np
import object_servers
import pytest
from faulty_store import FaultyStore
from page_stores import Daos

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]

#: Names of layouts, and the `object_size` that makes each.
SIZES = {"page": "page", "256 KiB": 256 << 10, "1 MiB": 1 << 20, "cluster": "cluster"}
COLUMNS = ["b", "lists", "noise"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file of a few MB with clusters of different columns, whose pages are all different."""
    random = np.random.default_rng(1)
    n = 60_000
    counts = random.integers(0, 6, n)
    path = tmp_path_factory.mktemp("cost") / "source.root"
    values = {
        "a": random.random(n),
        "b": random.random(n).astype("f4"),
        "c": random.integers(0, 1 << 40, n),
        "noise": random.integers(0, 1 << 60, n),
    }
    values["lists"] = ak.unflatten(random.random(counts.sum()).astype("f4"), counts)
    fb.write(path, values, "Events", page_size="40 kB", cluster_size="900 kB", compression="zstd:1")
    return path


@pytest.fixture(scope="module")
def store(need_store):
    need_store("minio")
    server = object_servers.Minio()
    yield server
    server.close()


@pytest.fixture
def way(store, monkeypatch):
    """A way to MinIO that notes all requests."""
    about = store.about()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(about["access_key_id"]))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(about["secret_access_key"]))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    way = FaultyStore(store.port)
    yield way
    way.close()


def sizes(folder):
    """Return the sizes of the objects in a directory by name, without the anchor."""
    found = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    found.pop("anchor")
    return found


def without_prices(layout):
    return {name: value for name, value in layout.to_dict().items() if not name.endswith(("price", "tb", "layout"))}


@pytest.mark.parametrize("layout", SIZES)
def test_a_layout_has_the_objects_that_were_predicted(source, tmp_path, layout):
    predicted = fb.cost(source, columns=COLUMNS)[layout]
    url = f"ntpl+file://{tmp_path}/objects"
    report = fb.clone(source, url, object_size=SIZES[layout])
    found = sizes(tmp_path / "objects")
    assert (predicted.objects, predicted.bytes) == (len(found), sum(found.values()))
    assert (predicted.objects, predicted.bytes) == (report.delivery["objects"], report.delivery["bytes"])
    # what is there is counted as it was predicted
    present = fb.cost(url, columns=COLUMNS)["present"]
    assert without_prices(present) == without_prices(predicted)
    assert present.puts == predicted.objects + 1


@pytest.mark.parametrize("layout", SIZES)
def test_requests_to_write_and_to_read_are_those_that_a_server_gets(source, way, layout):
    predicted = fb.cost(source, columns=COLUMNS)[layout]
    url = f"ntpl+s3+{way.endpoint}/private/costs/{layout.replace(' ', '')}"
    report = fb.clone(source, url, object_size=SIZES[layout])
    assert way.count("PUT") == predicted.puts
    assert way.count("GET") + way.count("HEAD") == predicted.gets_before_and_after
    assert report.delivery["requests"] == predicted.puts + predicted.gets_before_and_after
    way.requests.clear()
    ntuple = fb.open(url)
    ntuple.arrays(COLUMNS)
    metrics = ntuple.metrics
    gets = [path for method, path in way.requests if method == "GET"]
    assert len(gets) == len(way.requests) == predicted.requests == metrics.requests
    assert metrics.bytes_read == predicted.bytes_read + size_of_anchor(ntuple)


def size_of_anchor(ntuple):
    """Return the size of an anchor: the first range that was requested."""
    first = ntuple.metrics.sources[0].spans[0]
    (start, stop) = first.ranges[0]
    return stop - start


def test_a_file_is_uploaded_and_read_by_the_predicted_requests(source, way, monkeypatch):
    predicted = fb.cost(source, columns=COLUMNS)["present"]
    monkeypatch.setenv("FEMTOBARN_ENDPOINT", way.endpoint)
    url = "s3://private/costs/source.root"
    subprocess.run([*PROGRAM, "cp", str(source), url], check=True, env=os.environ, timeout=300)
    assert way.count("PUT") + way.count("POST") == predicted.puts
    assert way.count("GET") + way.count("HEAD") == predicted.gets_before_and_after
    assert predicted.bytes == source.stat().st_size
    way.requests.clear()
    ntuple = fb.open(url)
    ntuple.arrays(COLUMNS)
    assert way.count("GET") == predicted.requests == ntuple.metrics.requests
    assert ntuple.metrics.bytes_read == predicted.bytes_read
    # and in objects, the file is one of the alternatives
    objects = f"ntpl+s3+{way.endpoint}/private/costs/back"
    fb.clone(source, objects, object_size="page")
    costs = fb.cost(objects, columns=COLUMNS)
    assert costs.layouts[-1].layout == ".root"
    assert costs[".root"].objects == 1
    assert abs(costs[".root"].bytes - predicted.bytes) < 20_000
    assert costs[".root"].bytes_needed == predicted.bytes_needed


@pytest.mark.parametrize("size", ["page", "1 MiB"])
def test_an_ntuple_in_daos_costs_the_requests_of_its_values(source, tmp_path, monkeypatch, size):
    url = Daos(tmp_path, {}, monkeypatch).url("costs")
    report = fb.clone(source, url, object_size=size)
    costs = fb.cost(url, columns=COLUMNS)
    assert any("in DAOS" in note for note in costs.notes)
    assert (costs.ntuple, costs.num_entries) == ("Events", 60_000)
    present = costs["present"]
    assert (present.objects, present.bytes) == (report.delivery["objects"], report.delivery["bytes"])
    assert present.bytes_needed == costs["page"].bytes_needed
    # the requests are those that were counted
    assert report.delivery["requests"] == present.puts + present.gets_before_and_after
    ntuple = fb.open(f"{url}:Events")
    ntuple.arrays(COLUMNS)
    assert present.requests == ntuple.metrics.requests
    # the others are those of the same ntuple in a file
    expected = fb.cost(source, columns=COLUMNS)
    for layout in SIZES:
        assert without_prices(costs[layout]) == without_prices(expected[layout])
    assert costs[".root"].bytes_needed == expected["present"].bytes_needed
    trace = tmp_path / "trace.csv"
    with fb.record(trace), fb.open(f"{url}:Events") as ntuple:
        ntuple.arrays(COLUMNS)
    traced = fb.cost(f"{url}:Events", trace=trace)
    assert without_prices(traced["page"]) == without_prices(costs["page"])
    found = json.loads(subprocess.check_output([*PROGRAM, "cost", url, "--json", "--columns", ",".join(COLUMNS)]))
    assert [layout["requests"] for layout in found["layouts"]] == [layout.requests for layout in costs.layouts]


def test_what_is_in_daos_is_advised_like_a_file(source, tmp_path, monkeypatch):
    url = Daos(tmp_path, {}, monkeypatch).url("advice")
    fb.clone(source, url)
    given = {"columns": COLUMNS, "round_trip": 0.05, "bandwidth": "100 MB"}
    expected = fb.advise(source, "ntpl+s3://bucket/x", **given)
    found = fb.advise(url, "ntpl+s3://bucket/x", **given)
    assert found.expected["bytes_read"] == pytest.approx(expected.expected["bytes_read"], rel=0.05)
    assert set(found.options) == set(expected.options)
    command = [*PROGRAM, "migrate", url, f"ntpl+file://{tmp_path}/moved", "--advise"]
    assert "fb migrate " in subprocess.check_output(command, text=True)


def test_large_objects_are_sent_in_the_predicted_parts(way, tmp_path):
    path = tmp_path / "large.root"
    noise = np.random.default_rng(2).integers(0, 1 << 62, 9_500_000)
    fb.write(path, {"noise": noise}, "Events", compression="none", cluster_size="100 MB")
    predicted = fb.cost(path)["cluster"]
    fb.clone(path, f"ntpl+s3+{way.endpoint}/private/costs/large", object_size="cluster")
    assert predicted.puts > predicted.objects + 1
    assert way.count("PUT") + way.count("POST") == predicted.puts
    assert way.count("GET") + way.count("HEAD") == predicted.gets_before_and_after


def test_objects_of_other_ntuples_are_counted_apart(source, tmp_path):
    inputs = [f"ntpl+file://{tmp_path}/{name}" for name in "ab"]
    for url in inputs:
        fb.clone(source, url, object_size="page")
    merged = f"ntpl+file://{tmp_path}/merged"
    report = fb.merge(inputs, merged)
    costs = fb.cost(merged)
    present, own = costs["present"], sizes(tmp_path / "merged")
    assert (present.objects, present.bytes) == (len(own), sum(own.values()))
    assert (present.objects, present.puts) == (report.delivery["objects"], len(own) + 1)
    pages = fb.cost(inputs[0])["present"]
    # all but header, page list and footer
    assert present.foreign_objects == 2 * (pages.objects - 3)
    assert present.foreign_bytes == present.bytes_needed == 2 * pages.bytes_needed
    assert present.foreign_bytes > 100 * present.bytes
    # another layout is one of its own
    assert costs["page"].objects == present.objects + present.foreign_objects
    assert costs["page"].foreign_objects == pages.foreign_objects == 0
    shown = subprocess.run([*PROGRAM, "cost", merged], check=True, capture_output=True, text=True).stdout
    assert f"also refers to {present.foreign_objects} objects" in shown
    assert "also refers" not in subprocess.run([*PROGRAM, "cost", inputs[0]], capture_output=True, text=True).stdout
    both = present.bytes + present.foreign_bytes
    assert present.write_price_per_tb == pytest.approx(present.write_price * 1e12 / both)
    # objects that it refers to twice are stored once
    fb.merge([merged, *inputs], f"ntpl+file://{tmp_path}/again")
    again = fb.cost(f"ntpl+file://{tmp_path}/again")["present"]
    assert (again.foreign_objects, again.foreign_bytes) == (present.foreign_objects, present.foreign_bytes)
    assert again.requests > present.requests
    run = ("info", f"ntpl+file://{tmp_path}/again", "--json")
    document = json.loads(subprocess.run([*PROGRAM, *run], check=True, capture_output=True, text=True).stdout)
    assert document["refers_to"] == inputs


def test_a_pass_of_a_trace_is_that_of_the_columns_that_were_read(source, tmp_path):
    trace = tmp_path / "trace.csv"
    with fb.record(trace), fb.open(source) as ntuple:
        ntuple.arrays(["a", "noise"])
    once = fb.cost(source, trace=trace)
    assert once.recorded == 1
    named = fb.cost(source, columns=["a", "noise"])
    for recorded, expected in zip(once.layouts, named.layouts, strict=True):
        assert recorded == expected
    with fb.record(tmp_path / "twice.csv"):
        for _ in range(2):
            with fb.open(source) as ntuple:
                ntuple.arrays(["a", "noise"])
    twice = fb.cost(source, trace=tmp_path / "twice.csv")
    assert twice.recorded == 2
    assert [layout.requests for layout in twice.layouts] == [2 * layout.requests for layout in once.layouts]
    with pytest.raises(fb.UsageError, match=r"no reads of pages .*: it has only .*source\.root"):
        fb.cost(copied(source, tmp_path / "other.root"), trace=trace)


def copied(source, path):
    path.write_bytes(source.read_bytes())
    return path


def test_prices_are_those_of_the_file(source, tmp_path):
    prices = tmp_path / "prices.toml"
    usual = fb.cost(source).prices
    assert (usual["put_per_1000"], usual["get_per_10000"]) == (0.0053, 0.0042)
    assert (usual["storage_per_gb_month"], usual["transfer_out_per_gb"]) == (0.024, 0.09)
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in {**usual, "put_per_1000": 1000}.items())
    prices.write_text(text)
    page = fb.cost(source, prices=prices)["page"]
    # requests before and after cost, too
    assert page.write_price == pytest.approx(page.puts + page.gets_before_and_after * 0.0042 / 1e4)
    assert page.pass_price == pytest.approx(page.requests * 0.0042 / 1e4)
    assert page.month_price == pytest.approx(page.bytes * 0.024 / 1e9)
    assert page.transfer_out_price == pytest.approx(page.bytes_read * 0.09 / 1e9)
    assert page.write_price_per_tb == pytest.approx(page.write_price * 1e12 / page.bytes)
    assert page.pass_price_per_tb == pytest.approx(page.pass_price * 1e12 / page.bytes_read)
    prices.write_text(text.replace("currency", "valuta"))
    with pytest.raises(fb.UsageError, match=r"prices\.toml: unknown key \"valuta\""):
        fb.cost(source, prices=prices)
    with pytest.raises(fb.NotFoundError):
        fb.cost(source, prices=tmp_path / "none.toml")


def test_wrong_arguments_are_errors(source, testdata):
    with pytest.raises(fb.KeyNotFoundError, match="x\\*"):
        fb.cost(source, columns="x*")
    with pytest.raises(fb.KeyNotFoundError, match="nothing"):
        fb.cost(source, columns=["nothing"])
    with pytest.raises(fb.UsageError, match="not both"):
        fb.cost(source, columns=["a"], trace="t")
    with pytest.raises(fb.UsageError, match="one file"):
        fb.cost([source, source])
    with pytest.raises(fb.UsageError, match="TTree"):
        fb.cost(next((testdata / "ttree").glob("*.root")))
    with pytest.raises(fb.UsageError, match="'present'"):
        fb.cost(source)["2 MB"]


def test_the_program_prints_the_same(source):
    run = subprocess.run(
        [*PROGRAM, "cost", str(source), "--columns", "a,l*", "--json"], capture_output=True, check=True, timeout=300
    )
    costs = fb.cost(source, columns=["a", "l*"])
    document = json.loads(run.stdout)
    assert document["layouts"] == costs.to_dict()["layouts"]
    run = subprocess.run([*PROGRAM, "cost", str(source)], capture_output=True, check=True, timeout=300, text=True)
    assert "a pass reads all fields" in run.stdout
    assert "Amazon S3 Standard, eu-west-3 (Paris)" in run.stdout
    assert "256 KiB" in repr(costs)


def advice_of(source, *args):
    run = subprocess.run(
        [*PROGRAM, "migrate", str(source), *args, "--advise"], capture_output=True, check=True, timeout=300, text=True
    )
    return run.stdout


def test_advice_can_be_followed_and_its_numbers_are_those_of_the_result(source, tmp_path):
    url = f"ntpl+file://{tmp_path}/shaped"
    advice = fb.advise(source, url, columns=COLUMNS)
    assert advice.destination == "objects"
    assert set(advice.options) == {"compression", "cluster_size", "page_size", "object_size"}
    (report,) = fb.migrate(source, url, **advice.options, verify=True)
    assert report.proof["equal"]
    found = sizes(tmp_path / "shaped")
    # a model: clusters are all alike in it, and page lists, header and footer have no size
    assert sum(found.values()) == pytest.approx(advice.expected["bytes"], rel=0.1)
    assert abs(len(found) - advice.expected["objects"]) <= 2
    ntuple = fb.open(url)
    ntuple.arrays(COLUMNS)
    assert ntuple.metrics.bytes_read == pytest.approx(advice.expected["bytes_read"], rel=0.1)
    assert abs(ntuple.metrics.requests - advice.expected["requests"]) <= 3


def test_advice_holds_for_many_columns_of_different_kinds(tmp_path):
    # more than is sampled: large columns that compress well, and many small ones that do not
    random, n = np.random.default_rng(3), 40_000
    values = {f"large{i}": np.arange(n) // 1000 for i in range(80)}
    values |= {f"small{i}": random.integers(0, 256, n).astype("u1") for i in range(200)}
    for compression in ("zstd", "none"):
        path, url = tmp_path / f"{compression}.root", f"ntpl+file://{tmp_path}/{compression}"
        fb.write(path, values, "Events", compression=compression)
        advice = fb.advise(path, url, columns=["small7", "large3"])
        (report,) = fb.migrate(path, url, **advice.options)
        assert report.delivery["bytes"] == pytest.approx(advice.expected["bytes"], rel=0.2)
        ntuple = fb.open(url)
        ntuple.arrays(["small7", "large3"])
        assert ntuple.metrics.bytes_needed == pytest.approx(advice.expected["bytes_read"], rel=0.3)


def test_advice_depends_on_latency_bandwidth_and_workers(source):
    def chosen(**given):
        return fb.advise(source, "ntpl+s3://bucket/x", threads=4, **given).options

    # a slow line pays for the best codec, a fast one for none or a fast one
    assert chosen(bandwidth="100 kB", round_trip=0)["compression"].startswith(("lzma", "zstd"))
    assert chosen(bandwidth="1 TB", round_trip=0)["compression"] in {"none", "lz4:4"}
    slow = fb.advise(source, "ntpl+s3://bucket/x", columns=COLUMNS, round_trip=0.2)
    fast = fb.advise(source, "ntpl+s3://bucket/x", columns=COLUMNS, round_trip=0.0)
    assert slow.expected["requests"] <= fast.expected["requests"]
    assert slow.expected["seconds"] > fast.expected["seconds"] + 0.4


def test_advice_names_the_kind_of_the_destination(source, tmp_path):
    file = fb.advise(source, tmp_path / "x.root")
    assert (file.destination, file.expected["objects"], file.expected["puts"]) == ("file", 1, 0)
    assert "object_size" not in file.options
    assert fb.advise(source, "root://server//x.root").destination == "remote file"
    daos = fb.advise(source, "daos://pool/container")
    assert daos.destination == "daos"
    assert daos.options["object_size"] not in {"cluster", "64MiB"}


def test_advice_for_a_file_in_a_bucket_has_prices(source, way, monkeypatch, tmp_path):
    # 150 MB that no codec makes smaller: several parts
    path = tmp_path / "large.root"
    noise = np.random.default_rng(3).integers(0, 256, 150_000_000, dtype="u1")
    fb.write(path, {"noise": noise}, "Events", compression="none", cluster_size="50 MB")
    advice = fb.advise(path, "s3://private/advice.root")
    assert (advice.destination, advice.expected["objects"]) == ("object", 1)
    assert "object_size" not in advice.options
    monkeypatch.setenv("FEMTOBARN_ENDPOINT", way.endpoint)
    fb.migrate(path, "s3://private/advice.root", **advice.options)
    assert advice.expected["puts"] == way.count("PUT") + way.count("POST")
    prices = fb.cost(path).prices
    expected = advice.expected["puts"] * prices["put_per_1000"] / 1e3
    expected += advice.expected["requests"] * prices["get_per_10000"] / 1e4
    expected += advice.expected["bytes"] * prices["storage_per_gb_month"] / 1e9
    assert advice.expected["price"] == pytest.approx(expected)
    assert fb.advise(path, "https://server/advice.root").expected["price"] == 0


def test_only_what_is_moved_counts(source, tmp_path):
    advice = fb.advise(source, tmp_path / "x.root", fields="a")
    assert advice.expected["bytes"] <= 60_000 * 8 * 1.01 + 1000
    everything = fb.advise(source, tmp_path / "x.root")
    assert everything.expected["bytes"] > 2 * advice.expected["bytes"]


def test_advice_takes_the_columns_of_a_trace(source, tmp_path):
    trace = tmp_path / "trace.csv"
    with fb.record(trace), fb.open(source) as ntuple:
        ntuple.arrays(["a", "noise"])
    url = "ntpl+s3://bucket/x"
    recorded, named = fb.advise(source, url, trace=trace), fb.advise(source, url, columns=["a", "noise"])
    assert recorded.expected["bytes_read"] == pytest.approx(named.expected["bytes_read"], rel=0.5)
    assert recorded.expected["bytes_read"] < fb.advise(source, url).expected["bytes_read"]


def test_the_program_advises(source, tmp_path):
    out = tmp_path / "out here.root"
    text = advice_of(source, str(out), "--columns", "a,l*", "--round-trip", "0.01", "--bandwidth", "100MB")
    assert text.startswith("file: pages: ")
    assert "\ncodec:\n  uncompressed: " in text
    command = text.splitlines()[-1]
    assert command.startswith(f"fb migrate {source} '{out}' --compression ")
    assert not out.exists()
    subprocess.run([*PROGRAM, *shlex.split(command)[1:]], check=True, timeout=300)
    assert fb.open(out).num_entries == 60_000
    document = json.loads(advice_of(source, str(out), "--json"))
    assert document["destination"] == "file"
    assert set(document["options"]) == {"compression", "cluster_size", "page_size"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--columns", "a"], "--advise"),
        (["--advise", "--verify"], "--verify"),
        (["--advise", "--bandwidth", "fast"], 'invalid size "fast"'),
    ],
)
def test_options_of_advice_need_it(source, tmp_path, wrong, named):
    args = [*PROGRAM, "migrate", str(source), str(tmp_path / "x.root"), *wrong]
    run = subprocess.run(args, capture_output=True, timeout=300, text=True)
    assert run.returncode == 2
    assert named in run.stderr


def test_wrong_arguments_of_advice_are_errors(source, tmp_path):
    for wrong in ({"round_trip": -1}, {"workers": 0}, {"bandwidth": "fast"}, {"columns": "a", "trace": "t"}):
        with pytest.raises((fb.UsageError, ValueError)):
            fb.advise(source, tmp_path / "x.root", **wrong)
    with pytest.raises(fb.KeyNotFoundError, match="nothing"):
        fb.advise(source, tmp_path / "x.root", fields="nothing*")
