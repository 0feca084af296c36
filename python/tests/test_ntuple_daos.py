"""Ntuples in containers of DAOS, with the same results as files.

The library of DAOS is a stand-in that is built here from C. With ``FEMTOBARN_TEST_DAOS=POOL``, a pool of a real DAOS is
used, and tests of faults are skipped.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import uuid

import awkward as ak
import daos_standin
import numpy as np
import pytest
from compare import same
from page_stores import fb_program

import femtobarn as fb

REAL = daos_standin.POOL


class Daos:
    """A pool, whose containers no other test uses, and the faults of the stand-in."""

    def __init__(self, folder=None, library=None):
        self.pool = REAL or "pool"
        self.folder = folder
        self.library = library and ctypes.CDLL(str(library))

    def url(self, name="data"):
        return f"daos://{self.pool}/{name}-{uuid.uuid4()}"

    def set(self, fault, value):
        self.library.daos_standin_set(fault.encode(), ctypes.c_long(value))

    def sizes(self, url):
        """Return the sizes of all values, by object and akey."""
        found = (self.folder / url.removeprefix("daos://")).glob("*/*/*")
        # what a killed process was writing is no value yet
        found = (path for path in found if path.suffix != ".new")
        return {(path.parts[-3], path.parts[-1]): path.stat().st_size for path in found}

    def pages(self, url):
        """Return the sizes of values with pages, by their numbers, in the order of writing."""
        sizes = self.sizes(url).items()
        return {int(oid[17:], 16): n for (oid, akey), n in sorted(sizes) if akey == "4243544b53444229"}


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    return daos_standin.build(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def daos(request, tmp_path, monkeypatch):
    if REAL:
        yield Daos()
        return
    library = request.getfixturevalue("standin")
    monkeypatch.setenv("FEMTOBARN_LIBDAOS", str(library))
    # processes share what it has
    monkeypatch.setenv("DAOS_STANDIN_DIR", str(tmp_path / "daos"))
    (tmp_path / "daos").mkdir()
    yield Daos(tmp_path / "daos", library)


@pytest.fixture
def faulty(daos):
    if REAL:
        pytest.skip("faults need the stand-in, without FEMTOBARN_TEST_DAOS")
    yield daos
    for fault in (
        "event_error",
        "event_error_skip",
        "event_error_count",
        "start_error",
        "gone",
        "lost_bytes",
        "pool_bytes",
    ):
        daos.set(fault, 0)


@pytest.fixture(scope="module")
def dimuon(testdata):
    return fb.open(testdata / "dimuon.root")


@pytest.mark.parametrize("size", ["page", "20 kB", None, "cluster"])
def test_what_is_written_is_read_by_all_ways(daos, dimuon, size):
    url = daos.url()
    options = {} if size is None else {"object_size": size}
    assert fb.write(url, dimuon, page_size="4 kB", cluster_size="100 kB", **options) == 12_000
    found = fb.open(url)
    assert same(found.arrays(), dimuon.arrays())
    assert found.verify().ok
    assert same(fb.open(f"{url}:Events")["nMuon"].array(entry_start=5000), dimuon["nMuon"].array(entry_start=5000))
    steps = [step["Muon_pt"] for step in fb.iterate(url, ["Muon_pt"], step_size=5000)]
    assert same(ak.concatenate(steps), dimuon["Muon_pt"].array())
    assert [(obj.path, obj.num_entries) for obj in fb.ls(url)] == [("Events", 12_000)]
    assert pickle.loads(pickle.dumps(found)).num_entries == 12_000
    with pytest.raises(fb.KeyNotFoundError, match="Events"):
        fb.open(f"{url}:Other")


def test_all_types_come_back(daos, testdata):
    n = 0
    for path in sorted((testdata / "rntuple").glob("*.root")):
        for obj in fb.ls(path):
            try:
                arrays = fb.open(f"{path}:{obj.path}").arrays()
            except (fb.FemtobarnError, fb.UnreadableWarning):
                continue  # made to be unreadable
            if "/" in obj.path:
                continue  # in a directory
            url = daos.url()
            fb.clone(f"{path}:{obj.path}", url)
            assert same(fb.open(url).arrays(), arrays)
            assert fb.open(url).verify().ok
            n += 1
    assert n > 20


def test_a_container_has_several_ntuples(daos):
    url = daos.url()
    with fb.recreate(url) as file:
        file["first"] = {"x": np.arange(1000.0)}
        file["second"] = {"y": np.arange(10)}
        with pytest.raises(fb.UsageError, match="already"):
            file["second"] = {"y": np.arange(10)}
    fb.write(url, {"z": ["a", "b"]}, name="third")
    assert [obj.path for obj in fb.ls(url)] == ["first", "second", "third"]
    with pytest.raises(fb.FemtobarnError, match="first, second, third"):
        fb.open(url)
    assert fb.open(f"{url}:second")["y"].array().to_list() == list(range(10))
    assert fb.open({url: "third"})["z"].array().to_list() == ["a", "b"]
    fb.write(f"{url}:fourth", {"x": [1.0]})
    assert fb.open(f"{url}:fourth")["x"].array().to_list() == [1.0]


def test_several_ntuples_are_written_at_the_same_time(daos, tmp_path):
    def write(path):
        with fb.recreate(path) as file:
            both = [file.mkrntuple(name, {"x": "int64"}) for name in ("first", "second")]
            sets = [ntuple.mkattributes("runs", {"run": "int32"}) for ntuple in both]
            for start in range(3):
                for at, ntuple in enumerate(both):
                    ntuple.extend({"x": np.arange(1000) * (at + 1) + start})
                    sets[at].append(start * 1000, start * 1000 + 1000, {"run": 10 * at + start})
                    ntuple.commit_cluster()

    url, other = daos.url(), daos.url()
    write(url)
    write(tmp_path / "file.root")
    # with all ntuples of a file
    fb.merge([tmp_path / "file.root"], other)
    for name in ("first", "second"):
        expected = fb.open(f"{tmp_path / 'file.root'}:{name}")
        for place in (url, other):
            found = fb.open(f"{place}:{name}")
            assert same(found.arrays(), expected.arrays())
            assert same(found.attributes["runs"].arrays(), expected.attributes["runs"].arrays())
            assert found.verify().ok
    with fb.recreate(url) as file:
        file["third"] = {"x": [1.0]}
        with pytest.raises(fb.FemtobarnError, match="directories"):
            file.mkdir("folder")


def test_pages_of_a_column_are_joined_up_to_a_mebibyte(faulty):
    values = {"x": np.random.default_rng(1).random(500_000)}
    options = {"page_size": "64 KiB", "compression": "none", "cluster_size": "100 MB"}
    url, single = faulty.url(), faulty.url()
    fb.write(url, values, **options)
    fb.write(single, values, object_size="page", **options)
    joined, alone = faulty.pages(url), faulty.pages(single)
    # 16 pages of 64 KiB with 8 bytes of checksum are more than a MiB
    assert list(joined.values())[:3] == [15 * (65536 + 8)] * 3
    assert max(alone.values()) == 65536 + 8
    assert len(alone) == -(-4_000_000 // 65536)
    assert sum(joined.values()) == sum(alone.values())
    assert same(fb.open(url).arrays(), fb.open(single).arrays())
    # each value is read once
    found = fb.open(url)
    before = found.metrics.requests
    plan = found.explain()
    found.arrays()
    n_lists = 1
    assert found.metrics.requests - before == len(joined) + n_lists
    assert plan.requests == len(joined)


def test_an_ntuple_is_replaced_or_refused(daos):
    url = daos.url()
    fb.write(url, {"x": np.arange(1000.0)}, object_size="page")
    with pytest.raises(fb.FileError, match="exists"), fb.create(url) as file:
        file["Events"] = {"x": [1.0]}
    old = fb.open(url)
    fb.write(url, {"x": np.arange(5.0)})
    assert fb.open(url)["x"].array().to_list() == [0, 1, 2, 3, 4]
    with pytest.raises(fb.FemtobarnError, match="no value"):
        old["x"].array()
    if not REAL:
        assert min(daos.pages(url)) == 1 << 20
        # anchor, header, footer; a page; a page list and a claim; the name
        assert len(daos.sizes(url)) == 7


def test_nothing_appears_with_an_error_and_nothing_remains(daos):
    url = daos.url()

    def fail():
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "float64"})
            runs = events.mkattributes("runs", {"run": "int32"})
            events.extend({"x": np.arange(1000.0)})
            runs.append(0, 1000, {"run": 7})
            events.commit_cluster()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(fb.ls(url)) == []
    with pytest.raises(fb.KeyNotFoundError):
        fb.open(f"{url}:Events")
    if not REAL:
        assert daos.sizes(url) == {}


def test_attribute_sets_belong_to_their_ntuple(daos, tmp_path):
    url = daos.url()

    def write(path, run):
        with fb.recreate(path) as file:
            events = file.mkrntuple("Events", {"x": "int32"})
            runs = events.mkattributes("runs", {"run": "int32"})
            events.extend({"x": [1, 2, 3]})
            runs.append(0, 3, {"run": run})

    def runs(path):
        return fb.open(path).attributes["runs"]["run"].array().to_list()

    write(url, 7)
    write(tmp_path / "file.root", 7)
    assert runs(url) == runs(tmp_path / "file.root") == [7]
    write(url, 8)
    assert runs(url) == [8]
    fb.clone(url, tmp_path / "back.root")
    fb.clone(tmp_path / "back.root", other := daos.url())
    assert runs(other) == [8]
    assert [obj.path for obj in fb.ls(url)] == ["Events"]


def test_all_operations_write_to_containers(daos, dimuon, testdata, tmp_path):
    source = testdata / "dimuon.root"
    everything = dimuon.arrays()
    names = ("converted", "cloned", "reshaped", "skimmed", "merged")
    converted, cloned, reshaped, skimmed, merged = (daos.url(name) for name in names)
    fb.convert(source, converted)
    assert same(fb.open(converted).arrays(), everything)
    fb.clone(converted, cloned)
    assert same(fb.open(cloned).arrays(), everything)
    fb.reshape(cloned, reshaped, compression="lz4")
    assert same(fb.open(reshaped).arrays(), everything)
    fb.skim(reshaped, skimmed, "nMuon >= 3")
    assert same(fb.open(skimmed).arrays(), everything[everything["nMuon"] >= 3])
    report = fb.merge([cloned, reshaped], merged)
    assert report.entries == {"Events": 24_000}
    assert same(fb.open(merged).arrays(entry_stop=12_000), everything)
    fb.merge([merged, source], tmp_path / "back.root")
    assert fb.open(tmp_path / "back.root").num_entries == 36_000
    with pytest.raises(fb.FemtobarnError, match="already exists"):
        fb.merge([source], merged)
    fb.merge([source], merged, overwrite=True)
    assert fb.open(merged).num_entries == 12_000


def test_the_object_class_can_be_given(daos):
    url = daos.url()
    options = {"object_class": "S1"}
    with fb.recreate(url, storage_options=options) as file:
        file["Events"] = {"x": np.arange(100.0)}
    assert fb.open(url)["x"].array().to_list() == list(range(100))
    with pytest.raises(fb.FemtobarnError, match="object class"), fb.recreate(url, storage_options=options) as file:
        file["Events"] = {"x": [1.0]}
    with pytest.raises(fb.FemtobarnError, match="S99"):
        fb.recreate(daos.url(), storage_options={"object_class": "S99"})
    assert fb.open(url).num_entries == 100


def test_what_does_not_exist_is_an_error_with_advice(daos):
    with pytest.raises(fb.NotFoundError, match="daos cont list"):
        fb.open(daos.url())
    with pytest.raises(fb.UsageError, match="daos://POOL/CONTAINER"):
        fb.open("daos://pool")
    if not REAL:
        with pytest.raises(fb.NotFoundError, match=r"no-pool.*dmg pool list"):
            fb.open("daos://no-pool/container")


def test_without_the_library_the_error_says_what_to_install():
    program = "import femtobarn as fb; fb.open('daos://pool/container')"
    env = os.environ | {"FEMTOBARN_LIBDAOS": "/nowhere/libdaos.so"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert all(part in done.stderr for part in ("/nowhere/libdaos.so", "daos-client", "FEMTOBARN_LIBDAOS"))


def test_a_missing_or_short_value_is_named(faulty, dimuon):
    url = faulty.url()
    fb.write(url, dimuon, object_size="page", page_size="4 kB")
    pages = sorted((faulty.folder / url.removeprefix("daos://")).glob("*/*/4243544b53444229"))
    whole = pages[3].read_bytes()
    for damage, said in ((whole[:-5], "bytes"), (None, "no value"), (whole[:-1] + b"x", "hecksum")):
        pages[3].unlink()
        if damage is not None:
            pages[3].write_bytes(damage)
        with pytest.raises(fb.FemtobarnError, match=said):
            fb.open(url).arrays()
        assert not fb.open(url).verify().ok
        if damage is None:
            pages[3].write_bytes(whole)
    # a server that gives fewer bytes and no error
    pages[3].write_bytes(whole)
    assert fb.open(url).verify().ok
    found = fb.open(url)
    faulty.set("lost_bytes", 7)
    with pytest.raises(fb.FemtobarnError, match="bytes"):
        found.arrays()


def test_a_wrong_anchor_or_header_is_an_error_that_names_the_ntuple(faulty, dimuon):
    url, other = faulty.url(), faulty.url()
    fb.write(url, dimuon)
    fb.write(other, {"x": np.arange(1000.0)})

    def value(url, akey):
        (path,) = (faulty.folder / url.removeprefix("daos://")).glob(f"*/*/{akey}")
        return path

    anchor, header, footer = (value(url, f"4243544b5344422{end}") for end in "abc")
    good = anchor.read_bytes()
    cases = [
        (anchor, good[:16] + b"\xff" + good[17:], "checksum"),
        (anchor, b"\x02" + good[1:], "newer"),
        (anchor, good[:20], "size"),
        # those of another ntuple: as if it were half replaced
        (header, value(other, "4243544b5344422b").read_bytes(), "bytes"),
        (footer, value(other, "4243544b5344422c").read_bytes(), "bytes"),
        (header, None, "no value"),
        (footer, None, "no value"),
    ]
    for path, damaged, said in cases:
        whole = path.read_bytes()
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(fb.FemtobarnError, match=rf"(?s){url}.*{said}"):
            fb.open(f"{url}:Events")
        path.write_bytes(whole)
    assert same(fb.open(url).arrays(), dimuon.arrays())


def test_a_damaged_ntuple_does_not_hide_the_others(faulty):
    url = faulty.url()
    for name in ("one", "two"):
        fb.write(url, {"x": np.arange(1000.0)}, name)
    anchor, _ = (faulty.folder / url.removeprefix("daos://")).glob("*/*/4243544b5344422a")
    anchor.write_bytes(anchor.read_bytes()[:20])
    bad, good = sorted(fb.ls(url), key=lambda obj: obj.error is None)
    assert {bad.path, good.path} == {"one", "two"}
    assert "size" in bad.error
    assert (good.num_entries, fb.open(f"{url}:{good.path}").num_entries) == (1000, 1000)
    with pytest.raises(fb.FemtobarnError, match="size"):
        fb.open(f"{url}:{bad.path}")


def test_swapped_values_are_an_error(faulty, dimuon):
    url = faulty.url()
    fb.write(url, dimuon, object_size="page", page_size="4 kB")
    one, *others = (faulty.folder / url.removeprefix("daos://")).glob("*/*/4243544b53444229")
    other = next(path for path in others if path.stat().st_size != one.stat().st_size)
    values = one.read_bytes(), other.read_bytes()
    one.write_bytes(values[1])
    other.write_bytes(values[0])
    with pytest.raises(fb.FemtobarnError):
        fb.open(url).arrays()
    assert not fb.open(url).verify().ok


@pytest.mark.parametrize("code", [-1007, -1011, -1026])
def test_an_error_of_an_event_is_an_error_of_the_writer(faulty, code):
    url = faulty.url()
    values = np.random.default_rng(1).random(3_000_000)
    faulty.set("event_error", code)
    faulty.set("event_error_skip", 9)
    faulty.set("event_error_count", 1)

    def write():
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "float64"}, cluster_size="8 MB", compression="none")
            for part in np.split(values, 10):
                events.extend({"x": part})

    with pytest.raises(fb.FemtobarnError, match=str(code)):
        write()
    faulty.set("event_error_count", 0)
    assert list(fb.ls(url)) == []
    assert faulty.pages(url) == {}
    fb.write(url, {"x": values[:10]})
    assert fb.open(url)["x"].array().to_list() == values[:10].tolist()


def test_an_error_of_an_event_is_an_error_of_the_reader(faulty, dimuon):
    url = faulty.url()
    fb.write(url, dimuon)
    found = fb.open(url)
    faulty.set("event_error", -1026)
    faulty.set("event_error_count", 1)
    with pytest.raises(fb.FemtobarnError, match="-1026"):
        found.arrays()
    assert same(found.arrays(), dimuon.arrays())


def test_a_full_pool_keeps_what_it_has(faulty, monkeypatch):
    monkeypatch.delenv("DAOS_STANDIN_DIR")
    url = faulty.url()
    fb.write(url, {"x": np.arange(1000.0)})
    faulty.library.daos_standin_get.restype = ctypes.c_long
    used = faulty.library.daos_standin_get(b"bytes")
    faulty.set("pool_bytes", used + 1_000_000)
    with pytest.raises(fb.FemtobarnError, match="pool is full"):
        fb.write(url, {"x": np.random.default_rng(1).random(1_000_000)})
    assert fb.open(url)["x"].array().to_list() == list(range(1000))
    assert faulty.library.daos_standin_get(b"bytes") == used


def test_a_container_that_is_gone_is_an_error_and_comes_back(faulty, dimuon):
    url = faulty.url()
    fb.write(url, dimuon)
    found = fb.open(url)
    faulty.set("gone", 1)
    with pytest.raises(fb.FemtobarnError, match=r"-1002|-1005"):
        found.arrays()
    faulty.set("gone", 0)
    assert same(found.arrays(), dimuon.arrays())


def test_a_container_that_is_gone_while_writing_is_an_error_and_leaves_nothing_visible(faulty):
    url = faulty.url()
    fb.write(url, {"x": [1.0]}, "others")

    def write():
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "float64"}, cluster_size="8 MB", compression="none")
            for at, part in enumerate(np.split(np.random.default_rng(1).random(15_000_000), 15)):
                events.extend({"x": part})
                # at most 48 MB wait to be written, so that some values are written now
                faulty.set("gone", at >= 10)

    with pytest.raises(fb.FemtobarnError, match=r"-1002|-1005"):
        write()
    faulty.set("gone", 0)
    assert [obj.path for obj in fb.ls(url)] == ["others"]
    # without a connection, the writer could remove nothing
    assert faulty.pages(url)
    assert json.loads(fb_program("sweep", f"{url}:Events", "--age", "0", "--json"))["objects"]
    fb.write(url, {"x": [1.0, 2.0]})
    assert fb.open(f"{url}:Events")["x"].array().to_list() == [1, 2]
    assert fb.open(f"{url}:others").verify().ok


WRITER = """
import sys, time
import numpy as np
import femtobarn as fb
file = fb.recreate(sys.argv[1])
events = file.mkrntuple("Events", {"x": "float64"})
for _ in range(20):
    events.extend({"x": np.random.rand(200_000)})
    events.commit_cluster()
print("written", flush=True)
time.sleep(60)
"""


def test_what_a_killed_writer_leaves_is_invisible_and_swept(daos):
    url = daos.url()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert list(fb.ls(url)) == []
    with pytest.raises(fb.KeyNotFoundError):
        fb.open(f"{url}:Events")
    # another writer takes other numbers
    fb.write(url, {"x": np.arange(1000.0)})
    assert fb.open(url)["x"].array().to_list() == list(range(1000))
    if REAL:
        return
    left = [number for number in daos.pages(url) if number < 1 << 20]
    assert left
    found = json.loads(fb_program("sweep", url, "--json"))
    assert found["objects"] == []
    assert found["young"] > len(left)
    time.sleep(1.1)
    found = json.loads(fb_program("sweep", url, "--age", "1", "--json"))
    assert len(found["objects"]) > len(left)
    assert min(daos.pages(url)) == 1 << 20
    assert len(daos.sizes(url)) == 7
    assert fb.open(url).verify().ok


WRITER_OF_SETS = """
import json, sys, time
import numpy as np
import femtobarn as fb
file = fb.recreate(sys.argv[1], storage_options=json.loads(sys.argv[2]))
events = file.mkrntuple("Events", {"x": "float64"})
runs = events.mkattributes("runs", {"run": "int32"})
for n in range(20):
    events.extend({"x": np.random.rand(200_000)})
    runs.append(200_000 * n, 200_000 * (n + 1), {"run": n})
    events.commit_cluster()
if sys.argv[3:]:
    file.close()
print("written", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("options", [{}, {"object_class": "S1"}])
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_sweep_finds_attribute_sets_and_other_classes(faulty, options, when):
    url = faulty.url()
    command = [sys.executable, "-c", WRITER_OF_SETS, url, json.dumps(options), *(["close"] if when == "late" else [])]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "written\n"
    # the writer is alive, or what it has written is complete
    before = faulty.sizes(url)
    found = json.loads(fb_program("sweep", url, "--json", "--age", "0" if when == "late" else "3600"))
    assert (found["objects"], faulty.sizes(url)) == ([], before)
    writer.kill()
    writer.communicate()
    if when == "late":
        assert fb.open(url).attributes["runs"]["run"].array().to_list() == list(range(20))
        # as if it had been killed after its attribute set was complete, and before its own anchor
        for path in (faulty.folder / url.removeprefix("daos://")).glob("*87d4b929.ffffffffffffffff/*/*"):
            path.unlink()
    assert list(fb.ls(url)) == []
    plan = json.loads(fb_program("sweep", f"{url}:Events", "--json", "--age", "0", "--dry-run"))
    assert any("_clone/runs" in name for name in plan["objects"])
    assert faulty.sizes(url)
    found = json.loads(fb_program("sweep", f"{url}:Events", "--json", "--age", "0"))
    assert (found["objects"], found["bytes"]) == (plan["objects"], plan["bytes"])
    assert faulty.sizes(url) == {}


def test_a_replaced_ntuple_leaves_nothing_of_its_attribute_sets(faulty):
    url = faulty.url()

    def write(*sets):
        with fb.recreate(url) as file:
            events = file.mkrntuple("Events", {"x": "int32"})
            sets = [events.mkattributes(name, {"run": "int32"}) for name in sets]
            events.extend({"x": [1, 2, 3]})
            for one in sets:
                one.append(0, 3, {"run": 1})

    write()
    n_values = len(faulty.sizes(url))
    write("runs", "lumi")
    assert len(faulty.sizes(url)) > n_values + 10
    write()
    assert len(faulty.sizes(url)) == n_values


def test_a_writer_that_is_killed_while_it_replaces_leaves_the_old_ntuple(daos):
    url = daos.url()
    fb.write(url, {"x": np.arange(1000.0)})
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert fb.open(url)["x"].array().to_list() == list(range(1000))
    assert fb.open(url).verify().ok
    time.sleep(1.1)
    assert json.loads(fb_program("sweep", url, "--age", "1", "--json"))["objects"]
    assert fb.open(url)["x"].array().to_list() == list(range(1000))
    fb.write(url, {"x": [5.0]})
    assert fb.open(url)["x"].array().to_list() == [5]


def test_of_two_writers_one_wins_and_the_other_says_so(daos):
    url = daos.url()
    first, second = fb.create(url), fb.create(url)
    for at, file in enumerate((first, second)):
        file.mkrntuple("Events", {"x": "int64"}).extend({"x": np.full(1000, at)})
    second.close()
    with pytest.raises(fb.FileError, match="exists"):
        first.close()
    assert set(fb.open(url)["x"].array().to_list()) == {1}
    first, second = fb.recreate(url), fb.recreate(url)
    for at, file in enumerate((first, second)):
        file.mkrntuple("Events", {"x": "int64"}).extend({"x": np.full(1000, at)})
    first.close()
    with pytest.raises(fb.FemtobarnError, match="changed"):
        second.close()
    assert set(fb.open(url)["x"].array().to_list()) == {0}
    assert fb.open(url).verify().ok


def test_the_program_shows_and_verifies_ntuples(daos, dimuon):
    url = daos.url()
    fb.write(url, dimuon)
    fb.write(url, {"x": [1, 2, 3]}, name="others")
    listed = json.loads(fb_program("ls", url, "--json"))
    assert [obj["path"] for obj in listed["objects"]] == ["Events", "others"]
    assert "12,000" in fb_program("info", f"{url}:Events") or "12000" in fb_program("info", f"{url}:Events")
    assert "3" in fb_program("head", f"{url}:others")
    fb_program("verify", f"{url}:Events")
