"""Ntuples as objects, in a directory and in a real MinIO, with the same results as files."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import awkward as ak
import numpy as np
import object_servers
import pytest
from compare import same
from faulty_store import FaultyStore
from page_stores import Google

import femtobarn as fb

FB = Path(sys.executable).with_name("fb")


class Place:
    """Bases of objects, and the objects that exist."""

    def __init__(self, base, client=None):
        self.base, self.client = base, client

    def url(self, name):
        return f"{self.base}/{name}"

    def anchor(self, name):
        """Return the anchor of an ntuple."""
        if self.client is None:
            return json.loads(Path(f"{self.base.removeprefix('ntpl+file://')}/{name}/anchor").read_text())
        return json.loads(self.client.get(f"private/objects/{name}"))

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
    # the anchor, with header, footer and page lists
    assert found.metrics.requests == 1
    plan = found.explain(["nMuon", "Muon_pt"])
    found.arrays(["nMuon", "Muon_pt"])
    assert found.metrics.requests == 1 + plan.requests


def test_envelopes_of_objects_of_one_page_are_requested(place, dimuon):
    # their anchor is one for ROOT
    url = place.url("few-pages")
    fb.write(url, dimuon, object_size="page")
    assert "femtobarnEnvelopes" not in place.anchor("few-pages")
    found = fb.open(url)
    assert found.metrics.requests == 3
    plan = found.explain(["nMuon"])
    found.arrays(["nMuon"])
    n_lists = 1
    assert found.metrics.requests == 3 + plan.requests + n_lists


def test_anchors_have_the_envelopes_of_packed_objects(dimuon, tmp_path):
    url = f"ntpl+file://{tmp_path}/wrong"
    fb.write(url, dimuon)
    path = tmp_path / "wrong" / "anchor"
    envelopes = json.loads(path.read_text())["femtobarnEnvelopes"]
    assert len(envelopes) == 3
    for name, text in envelopes.items():
        assert base64.b64decode(text) == (tmp_path / "wrong" / name).read_bytes()
    text = envelopes["0"]
    path.write_text(path.read_text().replace(text[:50], text[1:50] + text[:1]))
    with pytest.raises(fb.FemtobarnError, match="checksum"):
        fb.open(url)


def test_metadata_are_used_once_when_an_ntuple_is_opened(place, dimuon):
    # the name of an ntuple is in its header: once, the header was parsed for the name, and then again
    url = place.url("once")
    fb.write(url, dimuon)
    anchor = place.anchor("once")
    found = fb.open(url)
    assert found.metrics.sources[0].bytes_used == anchor["nBytesHeader"] + anchor["nBytesFooter"]


class Opened:
    """Counts by name how often files of a directory are opened (inotify)."""

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.watch = self.libc.inotify_init1(os.O_NONBLOCK)
        opens = 0x20
        assert self.libc.inotify_add_watch(self.watch, os.fsencode(folder), opens) > 0

    def counts(self):
        """Return the numbers since the last call, and stop."""
        data, found = os.read(self.watch, 1 << 20), Counter()
        os.close(self.watch)
        at = 0
        while at < len(data):
            (size,) = struct.unpack_from("=12xI", data, at)
            found[data[at + 16 : at + 16 + size].rstrip(b"\0").decode()] += 1
            at += 16 + size
        return found


def test_a_file_of_a_directory_is_opened_once_for_all_of_its_ranges(dimuon, tmp_path):
    url = f"ntpl+file://{tmp_path}/few"
    fb.write(url, dimuon, page_size="1 kB", cluster_size="100 kB", object_size="cluster")
    found = fb.open(url)
    names = ["nMuon", "Muon_pt", "Muon_charge"]
    found.arrays(names, entry_stop=1)
    n_requests = found.explain(names).requests
    opened = Opened(tmp_path / "few")
    assert same(found.arrays(names), dimuon.arrays(names))
    counts = opened.counts()
    n_clusters = len(found.clusters)
    # an object for each cluster, and several ranges in it
    assert n_requests >= 2 * n_clusters
    assert len(counts) >= n_clusters
    assert set(counts.values()) == {1}


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


COLUMNS = dict(zip("xyz", np.random.default_rng(5).random((3, 12_000)), strict=True))


def test_a_copy_within_a_bucket_is_made_by_the_server(place):
    source = place.url("origin")
    with fb.recreate(source) as file:
        events = file.mkrntuple("Events", dict.fromkeys(COLUMNS, "float64"), page_size="4 kB", object_size="20 kB")
        runs = events.mkattributes("runs", {"run": "int32"})
        events.extend(COLUMNS)
        runs.append(0, 12_000, {"run": 7})
    report = fb.clone(source, place.url("copy"), verify=True)
    assert report.proof["equal"]
    copies = report.delivery["server_copies"]
    if place.client is None:
        assert copies == 0
        return
    sizes, copied = place.sizes("origin"), place.sizes("copy")
    # all but header, page list and footer, and the attribute set with an anchor and four objects
    assert copies == len(sizes) - 8 > 10
    assert sorted(copied) == sorted(sizes)
    assert report.levels["L1"] == sum(report.levels.values()) > 200_000
    # it is independent, and its own copies too; the objects of several are merged
    fb.clone(place.url("copy"), place.url("copy-of-copy"))
    merged = fb.merge([place.url("copy"), source], place.url("all-copied"), level="L1")
    assert merged.delivery["server_copies"] == 2 * copies
    (moved,) = fb.migrate(source, place.url("moved"))
    assert moved.delivery["server_copies"] == copies
    fb.write(source, {"x": [1.0]})
    fb.write(place.url("copy"), {"x": [1.0]})
    for name in ("copy-of-copy", "all-copied", "moved"):
        found = fb.open(place.url(name))
        assert found.verify().ok
        assert same(found.arrays(entry_stop=12_000), ak.Array(COLUMNS))
        assert found.attributes["runs"].arrays()["_userData"]["run"][0] == 7
    # objects whose pages are left out, made anew, or get other objects are not copied by the server
    part = fb.clone(place.url("moved"), place.url("part"), fields="x")
    assert 0 < part.delivery["server_copies"] < copies / 2
    assert same(fb.open(place.url("part"))["x"].array(), ak.Array(COLUMNS["x"]))
    for options in ({"object_size": "page"}, {"compression": "lz4"}):
        (other,) = fb.migrate(place.url("moved"), place.url("other"), overwrite=True, **options)
        assert other.delivery["server_copies"] == 0
        assert same(fb.open(place.url("other")).arrays(), ak.Array(COLUMNS))


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


CLONER = """
import sys
import femtobarn as fb

fb.clone(sys.argv[1], sys.argv[2], overwrite=True, verify=True)
"""


def test_attribute_sets_and_previews_of_killed_writers_are_swept(store, tmp_path, monkeypatch):
    about = store.about()
    monkeypatch.setenv("S3_ACCESS_KEY", str(about["access_key_id"]))
    monkeypatch.setenv("S3_SECRET_KEY", str(about["secret_access_key"]))
    way = FaultyStore(store.port)
    place = Place(f"ntpl+s3+{way.endpoint}/private/objects", store)
    url = place.url("live")
    # an attribute set may have a number as its name
    write_with_sets(url, ["runs", "2024"], 5)
    live = place.sizes("live")
    source = f"ntpl+file://{tmp_path}/source"
    write_with_sets(source, ["runs"], 7)
    # killed while it reads what it has written, before that replaces the other one
    reads, is_over = threading.Event(), threading.Event()

    def rule(method, path, before):
        if method == "GET" and "/_preview/" in path and path in puts:
            reads.set()
            is_over.wait(60)
        if method == "PUT":
            puts.add(path)

    puts = set()
    way.rule = rule
    writer = subprocess.Popen([sys.executable, "-c", CLONER, source, url])
    assert reads.wait(60)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    is_over.set()
    way.heal()
    left = sorted(set(place.sizes("live")) - set(live))
    first = 1 << 20
    expected = {str(first), f"_preview/{first}", f"_clone/{first}/runs", f"_clone/{first}/runs/0"}
    assert expected <= set(left)
    found = json.loads(fb_program("sweep", url, "--dry-run", "--json"))
    assert found["objects"] == []
    assert (found["young"], found["used"]) == (len(left), len(live))
    time.sleep(1)
    found = json.loads(fb_program("sweep", url, "--age", "0.5", "--json"))
    assert sorted(found["objects"]) == left
    assert place.sizes("live") == live
    whole = fb.open(url)
    assert whole.verify().ok
    for name in ("runs", "2024"):
        assert whole.attributes[name].arrays()["_userData"]["run"].to_list() == [5]
    way.close()


def write_with_sets(url, names, run):
    with fb.recreate(url) as file:
        events = file.mkrntuple("Events", {"x": "int32"}, object_size="page")
        sets = [events.mkattributes(name, {"run": "int32"}) for name in names]
        events.extend({"x": [1, 2, 3]})
        for own in sets:
            own.append(0, 3, {"run": run})


def test_a_sweep_above_ntuples_that_have_numbers_as_names_deletes_nothing(place):
    for name in ("0", "7", str(1 << 20)):
        fb.write(place.url(f"many/{name}"), {"x": np.arange(1000.0)}, object_size="page")
    before = place.sizes("many")
    time.sleep(0.5)
    found = json.loads(fb_program("sweep", place.url("many"), "--age", "0", "--json"))
    assert found["objects"] == []
    assert place.sizes("many") == before
    for name in ("0", "7", str(1 << 20)):
        assert fb.open(place.url(f"many/{name}")).verify().ok


def test_a_sweep_of_several_places_prints_one_document(place, tmp_path):
    urls = [place.url("one"), place.url("two")]
    for url in urls:
        fb.write(url, {"x": np.arange(10.0)})
    found = json.loads(fb_program("sweep", *urls, str(tmp_path), "--dry-run", "--json"))
    assert [document.get("url") for document in found] == [*urls, None]
    assert found[0]["used"] == found[1]["used"] == 4
    assert found[2] == {"deleted": False, "removed": []}
    assert json.loads(fb_program("sweep", urls[0], "--dry-run", "--json")) == found[0]
    assert json.loads(fb_program("sweep", str(tmp_path), "--json")) == {"deleted": True, "removed": []}


def test_deleting_leaves_other_ntuples(place, dimuon):
    """Also those whose names are numbers, or that are below it, or that refer to each other."""
    for name in ("input", "parent", "parent/5000", "parent/below"):
        fb.clone(dimuon, place.url(name), object_size="20 kB")
    fb.merge([place.url("input"), place.url("parent")], place.url("merged"))
    fb.delete(place.url("merged"))
    for name in ("input", "parent"):
        assert fb.open(place.url(name)).verify().ok
    fb.delete(place.url("parent"))
    assert fb.sweep(place.url("parent"), age=0, dry_run=True) == []
    for name in ("parent/5000", "parent/below"):
        assert fb.open(place.url(name)).verify().ok
        fb.delete(place.url(name))
    assert place.sizes("parent") == {}
    assert place.sizes("merged") == {}


def test_an_object_that_is_no_anchor_is_not_replaced(place):
    """Regression: writing below an ntuple replaced its object with this name."""
    fb.write(place.url("above"), {"x": np.arange(1000.0)}, object_size="page")
    before = place.sizes("above")
    with pytest.raises(fb.FileError, match="above/1"):
        fb.write(place.url("above/1"), {"x": [5.0]})
    with pytest.raises(fb.FemtobarnError):
        fb.clone(place.url("above"), place.url("above/1"), overwrite=True)
    assert place.sizes("above") == before
    assert fb.open(place.url("above")).verify().ok


def test_several_ntuples_are_deleted_by_pattern_and_name(place):
    names = ("several/a", "several/b", "several/c")
    for name in names:
        fb.write(place.url(name), {"x": [1.0]})
    missing = place.url("several/none")
    done = subprocess.run([FB, "rm", missing, place.url("several/a")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, f"deleted {place.url('several/a')}: 5 objects\n")
    assert missing in done.stderr
    with pytest.raises(fb.NotFoundError, match="is a directory of ntuples"):
        fb.delete(place.url("several"))
    with pytest.raises(fb.NotFoundError, match="is a directory of ntuples"):
        fb.open(place.url("several"))
    with pytest.raises(fb.KeyNotFoundError, match="Events"):
        fb.delete(place.url("several/b:Event"))
    assert json.loads(fb_program("sweep", place.url("several/b:Events"), "--json"))["used"] == 4
    assert fb.delete(place.url("several/b:Events")) == 5
    assert "several/c" in fb_program("rm", place.url("several/*"))
    assert place.sizes("several") == {}


def test_deleting_by_name_takes_the_settings(store):
    """Regression: the ntuple's name was read with those of the environment."""
    about = store.about()
    names = ("endpoint", "access_key_id", "secret_access_key")
    options = {name: str(about[name]) for name in names}
    with fb.recreate("ntpl+s3://private/settings", storage_options=options) as file:
        file["Events"] = {"x": [1.0]}
    assert fb.delete("ntpl+s3://private/settings:Events", storage_options=options) == 5


def test_a_merged_ntuple_says_which_input_is_gone(place):
    for name in ("first", "second"):
        fb.write(place.url(name), {"x": np.arange(10.0)})
    shown = fb_program("merge", place.url("whole"), place.url("first"), place.url("second"))
    assert "keep these" in shown
    fb.delete(place.url("second"))
    with pytest.raises(fb.NotFoundError, match=r"second/1: .*whole was merged from"):
        fb.open(place.url("whole")).arrays()


def test_a_sweep_in_python_finds_what_one_by_fb_does(place, tmp_path):
    url = place.url("left")
    fb.write(url, {"x": np.arange(1000.0)}, object_size="page")
    if place.client:
        place.client.delete("private/objects/left")
    else:
        Path(f"{tmp_path}/objects/left/anchor").unlink()
    left = sorted(place.sizes("left"))
    assert fb.sweep(url) == []
    assert fb.sweep(url, age=0, dry_run=True) == left
    assert sorted(place.sizes("left")) == left
    assert fb.sweep(url, age=0) == left
    assert place.sizes("left") == {}
    (tmp_path / ".new.root.partial-1-0").touch()
    for dry_run in (True, True, False):
        assert fb.sweep(tmp_path, dry_run=dry_run) == [f"{tmp_path}/.new.root.partial-1-0"]
    assert fb.sweep(tmp_path) == []
    with pytest.raises(fb.UsageError, match="age"):
        fb.sweep(url, age=-1)


def test_a_size_of_objects_alone_is_another_shape(place, dimuon, tmp_path):
    url = place.url("shape")
    fb.write(url, dimuon, page_size="4 kB", cluster_size="100 kB")
    fb.write(place.url("pages"), dimuon, page_size="4 kB", cluster_size="100 kB", object_size="page")
    report = fb.reshape(url, place.url("shape-page"), object_size="page")
    assert sum(report.levels.values()) == report.levels["L1"] > 0
    assert len(place.sizes("shape-page")) == len(place.sizes("pages")) > 200
    assert same(fb.open(place.url("shape-page")).arrays(), dimuon.arrays())
    fb_program("reshape", place.url("shape-page"), place.url("shape-cluster"), "--object-size", "cluster")
    found = fb.open(place.url("shape-cluster"))
    assert same(found.arrays(), dimuon.arrays())
    assert len(place.sizes("shape-cluster")) == len(found.clusters) + 3
    with pytest.raises(fb.UsageError, match="no change requested"):
        fb.reshape(url, tmp_path / "file.root", object_size="page")


def test_objects_of_google_are_written_replaced_and_deleted(need_store, tmp_path, monkeypatch):
    need_store("fake-gcs-server")
    store = Google(tmp_path, "20 kB", monkeypatch)
    url = store.url("some/objects")

    def write(columns):
        with fb.recreate(url) as file:
            types = dict.fromkeys(columns, "float64")
            events = file.mkrntuple("Events", types, page_size="4 kB", object_size="20 kB")
            runs = events.mkattributes("runs", {"run": "int32"})
            events.extend(columns)
            runs.append(0, 12_000, {"run": 7})

    try:
        write(COLUMNS)
        found = fb.open(url)
        assert found.metrics.requests == 1
        assert same(found.arrays(), ak.Array(COLUMNS))
        assert found.verify().ok
        assert found.attributes["runs"].arrays()["_userData"]["run"].to_list() == [7]
        fb.clone(url, tmp_path / "back.root")
        assert same(fb.open(tmp_path / "back.root").arrays(), ak.Array(COLUMNS))
        with pytest.raises(fb.NotFoundError, match="some/missing"):
            fb.open(store.url("some/missing"))
        # replaced
        n = len(store.left("some/objects"))
        write({name: values[::-1] for name, values in COLUMNS.items()})
        assert len(store.left("some/objects")) == n
        again = fb.open(url)
        assert again.attributes["runs"].num_entries == 1
        assert same(again.arrays(), ak.Array(COLUMNS)[::-1])
        with pytest.raises(fb.UsageError, match="exists"):
            fb.clone(tmp_path / "back.root", url)
        merged = store.url("some/merged")
        assert fb.merge([url, url], merged, verify=True).levels["L1"] == 0
        assert fb.migrate(merged, store.url("some/moved"), verify=True)[0].entries == {"Events": 24_000}
        # of two that replace it, one wins
        first = fb.recreate(store.url("some/moved"))
        first["Events"] = {"x": [1.0]}
        with fb.recreate(store.url("some/moved")) as second:
            second["Events"] = {"x": [2.0]}
        with pytest.raises(fb.FileError):
            first.close()
        assert fb.open(store.url("some/moved"))["x"].array().to_list() == [2.0]
        for name in ("objects", "merged", "moved"):
            fb.delete(store.url(f"some/{name}"))
        assert fb.sweep(url, age=0) == []
        assert store.left("some") == []
    finally:
        store.close()


def test_patterns_find_ntuples(place):
    for name in ("runs/a1", "runs/a2", "runs/b1"):
        fb.write(place.url(name), {"x": [1.0, 2.0]})
    assert fb.open(place.url("runs/a*")).num_entries == 4
    assert fb.open(place.url("runs/*")).num_entries == 6


def test_an_anchor_is_told_from_files(place, tmp_path):
    url = place.url("anchors/one")
    fb.write(url, {"x": [1.0, 2.0]}, object_size="page")
    settings = {}
    if place.client is None:
        opened, file = url, f"{url.removeprefix('ntpl+file://')}/anchor"
    else:
        about = place.client.about()
        settings = {name: str(about[name]) for name in ("endpoint", "access_key_id", "secret_access_key")}
        file = f"s3://private/{url.split('/private/')[1]}"
        opened = f"ntpl+{file}"
    variables = os.environ | {f"FEMTOBARN_{name.upper()}": value for name, value in settings.items()}
    with pytest.raises(fb.FormatError, match=re.escape(f"open it as {opened}")):
        fb.open(file, storage_options=settings)
    for args, advice in (("ls", f"open it as {opened}"), ("cp", f"fb migrate {opened}")):
        command = [FB, args, file, *[str(tmp_path / "copy")] * (args == "cp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert advice in done.stderr, done.stderr
    assert not (tmp_path / "copy").exists()
    assert fb.open(opened, storage_options=settings).num_entries == 2


def test_a_list_of_ntuples_has_no_sizes_of_anchors(place):
    for name in ("one", "two"):
        fb.write(place.url(f"listed/{name}"), {"x": [1.0]}, object_size="page")
    done = subprocess.run([FB, "ls", place.url("listed/"), "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["entries"]
    ntuples = [entry for entry in found if not entry["is_folder"]]
    assert [(entry["name"], entry["bytes"]) for entry in ntuples] == [("one", None), ("two", None)]


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
