"""Ntuples as objects, in a directory and in a real MinIO, with the same results as files."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import awkward as ak
import numpy as np
import object_servers
import pytest
from compare import same
from faulty_store import FaultyStore

import femtobarn as fb


class Place:
    """Bases of objects, and the objects that exist."""

    def __init__(self, base, client=None):
        self.base, self.client = base, client

    def url(self, name):
        return f"{self.base}/{name}"

    def sizes(self, name):
        """Return names and sizes of the objects below a base, without its anchor."""
        found = {}
        if self.client is None:
            folder = self.base.removeprefix("ntpl+file://") + f"/{name}"
            for path, _, files in os.walk(folder):
                for file in files:
                    full = os.path.join(path, file)  # noqa: PTH118
                    found[os.path.relpath(full, folder)] = os.path.getsize(full)  # noqa: PTH202
            found.pop("anchor", None)
            return found
        # of an object, MinIO has a directory with a file
        folder = self.client.data / "private" / "objects" / name
        for path in folder.rglob("xl.meta"):
            relative = str(path.parent.relative_to(folder))
            if relative != ".":
                found[relative] = path.stat().st_size
        return found


@pytest.fixture(scope="module")
def store(need_store):
    need_store("minio")
    server = object_servers.Minio()
    yield server
    server.close()


@pytest.fixture(params=["file", "s3"])
def place(request, tmp_path, monkeypatch):
    if request.param == "file":
        return Place(f"ntpl+file://{tmp_path}/objects")
    store = request.getfixturevalue("store")
    about = store.about()
    # the variables of ROOT
    monkeypatch.setenv("S3_ACCESS_KEY", str(about["access_key_id"]))
    monkeypatch.setenv("S3_SECRET_KEY", str(about["secret_access_key"]))
    monkeypatch.setenv("S3_REGION", "us-east-1")
    return Place(f"ntpl+s3+{about['endpoint']}/private/objects", store)


@pytest.fixture(scope="module")
def dimuon(testdata):
    return fb.open(testdata / "dimuon.root")


@pytest.mark.parametrize("size", ["page", "20 kB", "cluster"])
def test_what_is_written_is_read_by_all_ways(place, dimuon, size):
    url = place.url(f"all-{size.replace(' ', '')}")
    assert fb.write(url, dimuon, object_size=size, page_size="4 kB", cluster_size="100 kB") == 12_000
    found = fb.open(url)
    assert same(found.arrays(), dimuon.arrays())
    assert found.verify().ok
    assert same(fb.open(f"{url}:Events")["nMuon"].array(entry_start=5000), dimuon["nMuon"].array(entry_start=5000))
    steps = [step["Muon_pt"] for step in fb.iterate(url, ["Muon_pt"], step_size=5000)]
    assert same(ak.concatenate(steps), dimuon["Muon_pt"].array())
    assert [obj.path for obj in fb.ls(url)] == ["Events"]
    assert pickle.loads(pickle.dumps(found)).num_entries == 12_000
    assert found.uuid == fb.open(url).uuid
    sizes = place.sizes(url.rsplit("/", 1)[-1])
    assert sorted(map(int, sizes)) == list(range(len(sizes)))
    with pytest.raises(fb.KeyNotFoundError, match="Events"):
        fb.open(f"{url}:Other")


def test_few_requests_open_and_read(place, dimuon):
    url = place.url("few")
    fb.write(url, dimuon, object_size="cluster")
    found = fb.open(url)
    # the anchor, then header and footer
    assert found.metrics.requests == 3
    before = found.metrics.requests
    plan = found.explain(["nMuon", "Muon_pt"])
    found.arrays(["nMuon", "Muon_pt"])
    n_lists = 1
    assert found.metrics.requests - before == plan.requests + n_lists


def test_nothing_appears_with_an_error_and_nothing_remains(place):
    url = place.url("failed")

    def fail():
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "float64"})
            events.extend({"x": np.arange(1000.0)})
            events.commit_cluster()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(fb.NotFoundError):
        fb.open(url)
    assert place.sizes("failed") == {}


def test_an_ntuple_is_replaced_or_refused(place):
    url = place.url("again")
    fb.write(url, {"x": np.arange(1000.0)}, object_size="page")
    with pytest.raises(fb.FileError, match="exists"), fb.create(url) as file:
        file["Events"] = {"x": [1.0]}
    old = fb.open(url)
    fb.write(url, {"x": np.arange(5.0)}, object_size="page")
    assert fb.open(url)["x"].array().to_list() == [0, 1, 2, 3, 4]
    # the objects of the old one are gone
    assert all(int(name) >= 1 << 20 for name in place.sizes("again"))
    with pytest.raises(fb.FemtobarnError, match=r"again/\d"):
        old["x"].array()


def test_objects_hold_one_ntuple(place, dimuon):
    url = place.url("one")
    with fb.recreate(url) as file:
        file["Events"] = {"x": [1.0]}
        with pytest.raises(fb.UsageError, match="one ntuple"):
            file["Others"] = {"x": [1.0]}
        with pytest.raises(fb.FemtobarnError, match="one ntuple"):
            file.mkdir("folder")
    assert fb.open(url)["x"].array().to_list() == [1]
    with pytest.raises(fb.FemtobarnError, match="one ntuple"), fb.recreate(place.url("two")) as file:
        file["h"] = np.histogram([1.0, 2.0])
    with pytest.raises(fb.UsageError, match="object_size"):
        fb.write(place.url("three"), {"x": [1.0]}, object_size="pages")


def test_merging_objects_of_one_store_moves_no_pages(place, dimuon):
    inputs = [place.url("in/one"), place.url("in/two")]
    for url, size in zip(inputs, ("page", "20 kB"), strict=True):
        fb.write(url, dimuon, object_size=size, page_size="4 kB")
    report = fb.merge(inputs, place.url("all"))
    assert report.levels["L0"] > 100_000
    assert sum(report.levels.values()) == report.levels["L0"]
    merged = fb.open(place.url("all"))
    assert merged.num_entries == 24_000
    assert same(merged.arrays(entry_start=12_000), dimuon.arrays())
    # a header, a page list and a footer
    assert len(place.sizes("all")) == report.delivery["objects"] == 3
    assert report.delivery["requests"] <= 8
    assert sum(place.sizes("all").values()) < 50_000
    # a merged one is an input like others
    fb.merge([place.url("all"), inputs[0]], place.url("more"))
    assert same(fb.open(place.url("more")).arrays(entry_start=12_000, entry_stop=24_000), dimuon.arrays())
    assert len(place.sizes("more")) == 3
    # a clone is independent, and pages can be copied
    fb.clone(place.url("more"), place.url("clone"))
    fb.merge(inputs, place.url("copied"), level="L1")
    for url in inputs:
        fb.write(url, {"x": [1.0]})
    for name in ("clone", "copied"):
        assert same(fb.open(place.url(name)).arrays(entry_start=12_000, entry_stop=24_000), dimuon.arrays())


def test_attribute_sets_are_below_the_base(place):
    url = place.url("sets")
    for start, names in ((0, "_clone/runs/"), (1 << 20, f"_clone/{1 << 20}/runs/")):
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "int32"})
            runs = events.mkattributes("runs", {"run": "int32"})
            events.extend({"x": [1, 2, 3]})
            runs.append(0, 3, {"run": start})
        found = fb.open(url).attributes["runs"].arrays()
        assert found["_userData"]["run"].to_list() == [start]
        # those of a replaced ntuple are gone
        below = [name for name in place.sizes("sets") if name.startswith("_clone")]
        assert below
        assert all(name.startswith(names.rstrip("/")) for name in below)


def test_a_missing_object_is_named(dimuon, tmp_path):
    url = f"ntpl+file://{tmp_path}/gone"
    fb.write(url, dimuon, object_size="page")
    (tmp_path / "gone" / "3").unlink()
    with pytest.raises(fb.NotFoundError, match="gone/3"):
        fb.open(url).arrays()
    (tmp_path / "gone" / "anchor").write_text("{}")
    with pytest.raises(fb.FormatError, match="anchorVersion"):
        fb.open(url)


WRITER = """
import sys, time
import numpy as np
import femtobarn as fb
file = fb.recreate(sys.argv[1])
events = file.mkrntuple("Events", {"x": "float64"}, object_size="page")
for _ in range(5):
    events.extend({"x": np.random.rand(10_000)})
    events.commit_cluster()
print("written", flush=True)
time.sleep(60)
"""


def fb_program(*args):
    program = "import sys; from femtobarn._cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_killed_writer_leaves_is_invisible_and_swept(place):
    url = place.url("killed")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    with pytest.raises(fb.NotFoundError):
        fb.open(url)
    # another writer takes other numbers
    fb.write(url, {"x": np.arange(1000.0)}, object_size="page")
    assert fb.open(url)["x"].array().to_list() == list(range(1000))
    left = [name for name in place.sizes("killed") if name.isdigit() and int(name) < 1 << 20]
    assert left
    found = json.loads(fb_program("sweep", url, "--dry-run", "--json"))
    assert found["objects"] == []
    assert found["young"] == len(left)
    time.sleep(1)
    found = json.loads(fb_program("sweep", url, "--age", "0.5", "--json"))
    assert sorted(found["objects"]) == sorted(left)
    # with files that were not complete
    assert all(int(name) >= 1 << 20 for name in place.sizes("killed"))
    assert fb.open(url).verify().ok


def test_patterns_find_ntuples(place):
    for name in ("runs/a1", "runs/a2", "runs/b1"):
        fb.write(place.url(name), {"x": [1.0, 2.0]})
    assert fb.open(place.url("runs/a*")).num_entries == 4
    assert fb.open(place.url("runs/*")).num_entries == 6


def test_large_objects_are_sent_in_parts(store, monkeypatch):
    about = store.about()
    monkeypatch.setenv("S3_ACCESS_KEY", str(about["access_key_id"]))
    monkeypatch.setenv("S3_SECRET_KEY", str(about["secret_access_key"]))
    way = FaultyStore(store.port)
    url = f"ntpl+s3+{way.endpoint}/private/large"
    values = np.arange(10_000_000.0)
    fb.write(url, {"x": values}, object_size="cluster", compression="none", cluster_size="100 MB")
    # begun, sent in parts of 16 MiB, and ended
    assert way.count("POST", "/large/1") == 2
    assert way.count("PUT", "/large/1") == 5
    assert bool(np.all(fb.open(url)["x"].array() == values))
    way.close()
