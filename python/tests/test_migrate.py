"""Ntuples moved between files, directories of objects and a real MinIO, also by processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import object_servers
import pytest
from compare import same
from page_stores import Daos

import femtobarn as fb

N_ENTRIES = 12_000
FB = Path(sys.executable).with_name("fb")


@pytest.fixture(scope="module")
def minio(need_store):
    need_store("minio")
    server = object_servers.Minio()
    with pytest.MonkeyPatch.context() as variables:
        about = server.about()
        for name in ("access_key_id", "secret_access_key", "endpoint", "region"):
            variables.setenv(f"FEMTOBARN_{name.upper()}", str(about.get(name, "us-east-1")))
        variables.setenv("FEMTOBARN_ALLOW_HTTP", "true")
        yield server
    server.close()


@pytest.fixture(scope="module")
def source(testdata, tmp_path_factory):
    """Return the path of a file with several clusters, and of a second ntuple."""
    path = tmp_path_factory.mktemp("source") / "source.root"
    events = fb.open(testdata / "dimuon.root")
    with fb.recreate(path) as file:
        for name, data in {"Events": events.arrays(), "Runs": {"run": [1, 2, 3]}}.items():
            file.mkrntuple(name, data, cluster_size="20 kB", page_size="4 kB").extend(data)
    assert len(fb.open(f"{path}:Events").clusters) > 8
    return path


@pytest.fixture
def daos(tmp_path, monkeypatch):
    return Daos(tmp_path, {}, monkeypatch)


@pytest.fixture(params=["file", "objects", "minio", "s3", "daos"])
def place(request, tmp_path):
    """Return a function that returns an output's URL."""
    if request.param in ("minio", "s3"):
        request.getfixturevalue("minio")
    if request.param == "daos":
        return request.getfixturevalue("daos").url
    return {
        "file": lambda name: f"{tmp_path}/{name}.root",
        "objects": lambda name: f"ntpl+file://{tmp_path}/{name}",
        "minio": lambda name: f"ntpl+s3://private/{tmp_path.name}/{name}",
        "s3": lambda name: f"s3://private/{tmp_path.name}/{name}.root",
    }[request.param]


def events_of(url):
    return fb.open({str(url): "Events"}).arrays()


def test_pages_go_as_they_are_and_come_back(place, source, tmp_path):
    for size in ("page", "20 kB", "cluster"):
        url = place(size.replace(" ", ""))
        (there,) = fb.migrate(f"{source}:Events", url, object_size=size, verify=True)
        assert there.entries == {"Events": N_ENTRIES}
        assert [item.name for item in there.left_behind] == ["Runs"]
        (back,) = fb.migrate(url, tmp_path / f"{size}-back.root", verify=True)
        for report in (there, back):
            assert report.proof["equal"]
            assert {level for level, n in report.levels.items() if n} <= {"L0", "L1", "refused"}
        assert same(events_of(tmp_path / f"{size}-back.root"), events_of(source))


def test_the_shape_changes_on_the_way(place, source):
    (report,) = fb.migrate(
        f"{source}:Events",
        place("reshaped"),
        fields=["nMuon", "Muon_p*"],
        entries=(100, -100),
        compression="lz4",
        cluster_size="50 kB",
        page_size="8 kB",
        step_size="60 kB",
        verify=True,
    )
    assert report.levels["L4"] > 0
    found = fb.open({place("reshaped"): "Events"})
    assert found.keys() == ["nMuon", "Muon_pt", "Muon_phi"]
    assert same(found.arrays(), events_of(source)[["nMuon", "Muon_pt", "Muon_phi"]][100:-100])
    assert 1 < len(found.clusters) < len(fb.open(f"{source}:Events").clusters)


def test_a_container_of_daos_gets_all_ntuples(source, daos, tmp_path):
    url = daos.url("moved")
    (there,) = fb.migrate(source, url, object_size="page", verify=True, step_size="30 kB")
    assert there.entries == {"Events": N_ENTRIES, "Runs": 3}
    assert {level for level, n in there.levels.items() if n} == {"L1"}
    (back,) = fb.migrate(url, tmp_path / "back.root", verify=True)
    assert back.entries == there.entries
    assert same(events_of(tmp_path / "back.root"), events_of(source))
    fb.migrate(f"{url}:Events", f"ntpl+file://{tmp_path}/objects", fields="nMuon", entries=(5, 50))
    assert same(events_of(f"ntpl+file://{tmp_path}/objects"), events_of(source)[["nMuon"]][5:50])
    # with names that are there, only to replace them
    with pytest.raises(fb.FemtobarnError, match="exists"):
        fb.migrate(f"{source}:Runs", url, resume=True)
    fb.migrate(f"{source}:Runs", url, overwrite=True)
    assert sorted(ntuple.path for ntuple in fb.ls(url)) == ["Events", "Runs"]


def test_a_directory_gets_an_output_for_each(source, tmp_path):
    other = tmp_path / "other.root"
    fb.clone(f"{source}:Events", other, others="drop")
    reports = fb.migrate(source, f"ntpl+file://{tmp_path}/set/")
    assert [Path(report.output).name for report in reports] == ["Events", "Runs"]
    reports = fb.migrate([source, other], f"ntpl+file://{tmp_path}/sets/")
    names = [report.output.split("/sets/")[1] for report in reports]
    assert names == ["source/Events", "source/Runs", "other/Events"]
    reports = fb.migrate([source, other], f"{tmp_path}/files/")
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["other.root", "source.root"]
    assert reports[0].entries == {"Events": N_ENTRIES, "Runs": 3}
    # and back into one file
    (report,) = fb.migrate(f"ntpl+file://{tmp_path}/set/*", tmp_path / "one.root", verify=True)
    assert report.entries == {"Events": N_ENTRIES, "Runs": 3}
    assert same(events_of(tmp_path / "one.root"), events_of(source))


@pytest.fixture(scope="module")
def odd(source, tmp_path_factory):
    """Return the path of a file with ntuples in directories, and with names that URLs do not have as they are."""
    path = tmp_path_factory.mktemp("odd") / "odd.root"
    events = events_of(source)[:2000]
    with fb.recreate(path) as file:
        for number, name in enumerate(ODD):
            file.mkrntuple(name, events, cluster_size="20 kB").extend(events[number:])
    return path


ODD = ["d/Events", "e/Events", "a:b", "x#y", "p?q", "50%3A", "[0-9]", "{f,g}@h"]


@pytest.mark.parametrize("place", ["objects", "minio"], indirect=True)
def test_a_directory_of_objects_gets_every_path(place, odd, tmp_path):
    folder = place("all")
    reports = fb.migrate(odd, f"{folder}/", verify=True)
    names = ["d/Events", "e/Events", "a%3Ab", "x%23y", "p%3Fq", "50%253A", "%5B0-9%5D", "%7Bf,g%7D%40h"]
    assert [report.output for report in reports] == [f"{folder}/{name}" for name in names]
    for number, (name, report) in enumerate(zip(ODD, reports, strict=True)):
        leaf = name.split("/")[-1]
        assert report.entries == {leaf: 2000 - number}
        assert report.proof["equal"]
        # the URL is one that everything takes
        assert fb.open(report.output).num_entries == 2000 - number
        assert [ntuple.path for ntuple in fb.ls(report.output)] == [leaf]
    # patterns find them
    found = fb.migrate(f"{folder}/*", f"{tmp_path}/back/")
    assert len(found) == len(ODD) - 2
    assert {name for report in found for name in report.entries} == set(ODD[2:])


@pytest.mark.parametrize("place", ["objects", "minio", "daos"], indirect=True)
def test_an_ntuple_gets_the_name_that_follows_the_url(place, odd, tmp_path):
    url = place("one")
    for name in ("New", "n:a?b#c") if url.startswith("daos") else ("New",):
        (report,) = fb.migrate(f"{odd}:d/Events", f"{url}:{name}", step_size="20 kB", verify=True)
        assert (report.entries, report.proof["equal"]) == ({name: 2000}, True)
        (again,) = fb.migrate(f"{odd}:d/Events", f"{url}:{name}", step_size="20 kB", resume=True)
        assert (again.entries, again.was_complete) == ({name: 2000}, True)
        assert same(fb.open(f"{url}:{name}").arrays(), fb.open(f"{odd}:d/Events").arrays())
        (back,) = fb.migrate(f"{url}:{name}", f"{tmp_path}/{len(name)}.root", verify=True)
        assert back.entries == {name: 2000}
    with pytest.raises(fb.UsageError, match=r"8 .*name one"):
        fb.migrate(odd, f"{url}:Other")


@pytest.mark.parametrize("place", ["objects", "minio"], indirect=True)
def test_the_url_names_an_ntuple_of_a_directory(place, odd):
    for name in ("d/Events", "a:b"):
        url = place(name[0])
        (report,) = fb.migrate(f"{odd}:{name}", url, step_size="20 kB", verify=True)
        assert report.entries == {name.split("/")[-1]: fb.open(f"{odd}:{name}").num_entries}
        assert same(fb.open(url).arrays(), fb.open(f"{odd}:{name}").arrays())


def test_a_container_of_daos_has_the_names_without_directories(odd, daos, tmp_path):
    url = daos.url("paths")
    with pytest.raises(fb.UsageError, match=r'two ntuples "Events".*CONTAINER:NAME'):
        fb.migrate(odd, url)
    sources = [f"{odd}:{name}" for name in ODD if name != "e/Events"]
    (report,) = fb.migrate(sources, url, verify=True, step_size="20 kB")
    fb.migrate(f"{odd}:e/Events", f"{url}:e", verify=True)
    names = ["Events", "e", *ODD[2:]]
    expected = {name: 2000 - number for number, name in enumerate(names)}
    assert (report.entries | {"e": 1999}, report.proof["equal"]) == (expected, True)
    (again,) = fb.migrate(sources, url, step_size="20 kB", resume=True)
    assert again.was_complete
    assert sorted(ntuple.path for ntuple in fb.ls(url)) == sorted(names)
    for name in names:
        assert fb.open(f"{url}:{name}").num_entries == expected[name]
    (back,) = fb.migrate(url, tmp_path / "back.root", verify=True)
    assert back.entries == expected
    reports = fb.migrate(url, f"ntpl+file://{tmp_path}/objects/")
    assert {Path(report.output).name for report in reports} >= {"Events", "e", "a%3Ab", "x%23y"}
    assert {name: n for report in reports for name, n in report.entries.items()} == expected


@pytest.mark.parametrize("place", ["objects", "daos"], indirect=True)
def test_a_killed_migration_to_another_name_is_resumed(place, source):
    url = f"{place('renamed')}:New"
    killed = migrate_in_process(source, url, source.stat().st_size / 2)
    _, error = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, error
    report = resumed(source, url, verify=True)
    assert 0 < report.entries_before < N_ENTRIES
    assert (report.entries, report.proof["equal"]) == ({"New": N_ENTRIES}, True)
    assert same(fb.open(url).arrays(), events_of(source))


def test_the_bytes_of_attribute_sets_count(place, tmp_path):
    path = tmp_path / "source.root"
    values = {"x": [float(n) for n in range(1000)]}
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"x": "float64"})
        runs = ntuple.mkattributes("runs", {"run": "int64"})
        for run in range(300):
            ntuple.extend(values)
            runs.append(1000 * run, 1000 * run + 1000, {"run": run * 7919**2 % 1_000_003})
    url = place("sets")
    (report,) = fb.migrate(path, url, verify=True)
    assert fb.open({url: "Events"}).attributes["runs"].num_entries == 300
    if report.delivery is not None:
        assert report.bytes_out == report.delivery["bytes"]
    if url.startswith("ntpl+file"):
        folder = Path(url.removeprefix("ntpl+file://"))
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "anchor"]
        assert any(path.parent != folder for path in files)
        assert report.bytes_out == sum(path.stat().st_size for path in files)


def test_what_cannot_be_is_said(source, tmp_path, testdata):
    objects = f"ntpl+file://{tmp_path}/objects"
    with pytest.raises(fb.UsageError, match=r"2 \(Events, Runs\).*slash"):
        fb.migrate(source, objects)
    with pytest.raises(fb.UsageError, match=r'two ntuples "Events"'):
        fb.migrate([f"{source}:Events", f"{testdata}/dimuon.root"], tmp_path / "two.root")
    with pytest.raises(fb.UsageError, match="convert it first"):
        fb.migrate(f"{testdata}/ttree/leaves_zlib.root", tmp_path / "tree.root")
    with pytest.raises(fb.UsageError, match="there are 2"):
        fb.migrate(source, tmp_path / "some.root", entries=(0, 10))
    with pytest.raises(fb.UsageError, match=r"colon.*%3A"):
        fb.migrate(source, f"{objects}:x/")
    fb.migrate(f"{source}:Runs", objects)
    with pytest.raises(fb.FemtobarnError, match="exists"):
        fb.migrate(f"{source}:Events", objects)
    assert fb.open(objects).num_entries == 3
    fb.migrate(f"{source}:Events", objects, overwrite=True)
    assert same(events_of(objects), events_of(source))


def test_an_output_that_was_complete_is_verified(place, source, tmp_path):
    url = place("complete")
    options = {"object_size": "page", "fields": ["nMuon", "Muon_pt"], "entries": (10, -10)}
    fb.migrate(f"{source}:Events", url, **options)
    (again,) = fb.migrate(f"{source}:Events", url, **options, resume=True)
    assert (again.was_complete, again.proof) == (True, None)
    (again,) = fb.migrate(f"{source}:Events", url, **options, resume=True, verify=True)
    assert (again.was_complete, again.proof["equal"]) == (True, True)
    assert [ntuple["ntuple"] for ntuple in again.proof["ntuples"]] == ["Events"]
    if not url.startswith("ntpl+file"):
        return
    # a page that was damaged since
    folder = Path(url.removeprefix("ntpl+file://"))
    page = max((path for path in folder.iterdir() if path.name != "anchor"), key=lambda path: path.stat().st_size)
    content = bytearray(page.read_bytes())
    content[len(content) // 2] ^= 1
    page.write_bytes(content)
    with pytest.raises(fb.FemtobarnError):
        fb.migrate(f"{source}:Events", url, **options, resume=True, verify=True)
    assert page.exists()


def test_ntuples_that_are_moved_are_not_left_behind(source, tmp_path):
    path = tmp_path / "more.root"
    with fb.recreate(path) as file:
        for name in ("Events", "Runs", "Others"):
            file.mkrntuple(name, {"x": "int32"}).extend({"x": [1]})
        file["h"] = np.histogram([1.0, 2.0])
    reports = fb.migrate(path, f"ntpl+file://{tmp_path}/all/")
    assert [[item.name for item in report.left_behind] for report in reports] == [["h"]] * 3
    reports = fb.migrate([f"{path}:Events", f"{path}:Runs"], f"ntpl+file://{tmp_path}/two/")
    assert [{item.name for item in report.left_behind} for report in reports] == [{"Others", "h"}] * 2


@pytest.mark.parametrize("entries", [(12_000, 13_000), (20_000, None), (50, 50), (-5, 10)])
def test_entries_that_are_none_are_an_error(source, tmp_path, entries):
    with pytest.raises(fb.UsageError, match="none of the 12000"):
        fb.migrate(f"{source}:Events", tmp_path / "none.root", entries=entries)
    # further ones are ignored, as for clone
    (report,) = fb.migrate(f"{source}:Events", tmp_path / "some.root", entries=(11_990, 13_000))
    assert report.entries == {"Events": 10}


KILLED = """
import os, signal, sys
import femtobarn as fb
from femtobarn import _core

source, url, most, sent = sys.argv[1], sys.argv[2], int(sys.argv[3]), getattr(signal, sys.argv[4])
given = {"overwrite": "replace" in sys.argv}
write = {"object_size": 8_000}

def tick(files, all_files, done, total):
    if done > most:
        print("half", flush=True)
        os.kill(os.getpid(), sent)
        globals()["most"] = 1 << 60

name = None if "all" in sys.argv else "Events"
found = _core.migrate([(source, name)], url, given, write, tick, resume=True, step_size=30_000)
print(found, flush=True)
"""


def migrate_in_process(source, url, most, sent="SIGKILL", *more, **variables):
    command = [sys.executable, "-c", KILLED, str(source), url, str(int(most)), sent, *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | variables, **pipes)


def stopped(source, url, most):
    """Return a process that stops when it has written so much."""
    process = migrate_in_process(source, url, most, "SIGSTOP")
    assert process.stdout.readline() == "half\n"
    deadline = time.monotonic() + 30
    while Path(f"/proc/{process.pid}/stat").read_text().split()[2] != "T" and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


def resumed(source, url, **options):
    (report,) = fb.migrate(f"{source}:Events", url, step_size=30_000, object_size=8_000, resume=True, **options)
    return report


def objects_of(url, minio=None, daos=None):
    """Return the names of the objects below a base, or of the values in a container."""
    if "s3:" in url:
        folder = minio.data / url.removeprefix("ntpl+s3://")
        return {str(path.parent.relative_to(folder)) for path in folder.rglob("xl.meta")} - {"."}
    if url.startswith("daos:"):
        return {value for value in daos.left(Path(url).name) if not value.endswith(".new")}
    folder = Path(url.removeprefix("ntpl+file://"))
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {"anchor"}


@pytest.mark.parametrize("replaces", [False, True])
def test_a_killed_migration_is_resumed(request, place, source, tmp_path, replaces):
    url = place("killed")
    if replaces:
        fb.write(url, {"run": [1, 2, 3]}, "Events")
    size = source.stat().st_size
    for _ in range(3):
        killed = migrate_in_process(source, url, size / 5, "SIGKILL", *["replace"] * replaces)
        _, error = killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL, error
        if replaces:
            assert fb.open({url: "Events"}).num_entries == 3
        else:
            with pytest.raises((fb.NotFoundError, fb.KeyNotFoundError)):
                fb.open({url: "Events"})
    report = resumed(source, url, overwrite=replaces, verify=True)
    # all, if the third one was killed while it sent the file
    assert 0 < report.entries_before <= N_ENTRIES
    assert report.entries == {"Events": N_ENTRIES}
    assert report.proof["equal"]
    assert same(events_of(url), events_of(source))
    # nothing is repeated, and nothing remains
    assert sum(report.levels.values()) < size * 0.7
    assert resumed(source, url).was_complete
    if url.startswith(("ntpl", "daos")):
        stores = {"minio": "s3:", "daos": "daos:"}
        used = {name: request.getfixturevalue(name) for name, scheme in stores.items() if scheme in url}
        # but what a writer has begun that was killed before its first step had ended
        subprocess.run([FB, "sweep", url, "--age", "0"], capture_output=True, check=True)
        fb.migrate(f"{source}:Events", place("whole"), object_size=8_000)
        n_more = len(objects_of(url, **used)) - len(objects_of(place("whole"), **used))
        assert 0 < n_more < 30  # a page list of each step, and the first object of each writer
        assert url.startswith("daos") or all(name.isdigit() for name in objects_of(url, **used))
        assert same(events_of(url), events_of(source))
    elif not url.startswith("s3"):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.root"]


@pytest.mark.parametrize("place", ["file", "daos"], indirect=True)
def test_several_ntuples_of_an_output_are_resumed(place, source, tmp_path):
    both = tmp_path / "both.root"
    events = events_of(source)
    with fb.recreate(both) as file:
        for name in ("first", "second"):
            file.mkrntuple(name, events, cluster_size="20 kB", page_size="4 kB").extend(events)
    url = place("several")
    killed = migrate_in_process(both, url, both.stat().st_size * 0.75, "SIGKILL", "all")
    _, error = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, error
    options = {"step_size": 30_000, "object_size": 8_000, "resume": True}
    (report,) = fb.migrate(both, url, **options, verify=True)
    # the first one was complete
    assert N_ENTRIES < report.entries_before < 2 * N_ENTRIES
    assert report.entries == {"first": N_ENTRIES, "second": N_ENTRIES}
    assert report.proof["equal"]
    for name in ("first", "second"):
        assert same(fb.open({url: name}).arrays(), events)
    (again,) = fb.migrate(both, url, **options)
    assert again.was_complete
    if not url.startswith("daos"):
        return
    # killed in the second one, and again after the first one is visible
    url = place("again")
    migrate_in_process(both, url, both.stat().st_size * 0.75, "SIGKILL", "all").communicate(timeout=60)
    faults = {"DAOS_STANDIN_FAULTS": "delay_us=20000"}
    with migrate_in_process(both, url, 1 << 60, "SIGKILL", "all", **faults) as second:
        while second.poll() is None and not fb.ls(url):
            time.sleep(0.001)
        second.kill()
    (report,) = fb.migrate(both, url, **options)
    assert report.entries == {"first": N_ENTRIES, "second": N_ENTRIES}
    for name in ("first", "second"):
        assert fb.open({url: name}).verify().ok
        assert same(fb.open({url: name}).arrays(), events)


@pytest.mark.parametrize("place", ["file", "objects", "daos"], indirect=True)
def test_of_two_migrations_at_once_one_wins(place, source):
    for turn in range(3):
        url = place(f"both{turn}")
        first, second = (migrate_in_process(source, url, 1 << 60) for _ in range(2))
        ended = [first.communicate(timeout=60), second.communicate(timeout=60)]
        assert 0 in (first.returncode, second.returncode), ended
        assert same(events_of(url), events_of(source))


@pytest.mark.parametrize("place", ["objects", "minio", "daos"], indirect=True)
def test_of_a_writer_and_one_that_goes_on_with_its_work_one_fails(place, source):
    for first_goes_on in ("before the second one has ended", "later"):
        url = place(first_goes_on.split()[0])
        size = source.stat().st_size
        first, second = stopped(source, url, size * 0.3), stopped(source, url, size * 0.2)
        ended = {}
        order = [("first", first), ("second", second)]
        for name, process in order if first_goes_on != "later" else reversed(order):
            os.kill(process.pid, signal.SIGCONT)
            ended[name] = (*process.communicate(timeout=60), process.returncode)
        codes = {name: code for name, (*_, code) in ended.items()}
        assert sorted(codes.values()) == [0, 1], ended
        assert fb.open({url: "Events"}).verify().ok, ended
        assert same(events_of(url), events_of(source))


def test_a_sweep_spares_what_is_resumed(daos, source):
    url = daos.url("spared")
    migrate_in_process(source, url, source.stat().st_size / 2).communicate(timeout=60)
    claims = [path for path in (daos.folder / "daos").rglob("*") if path.is_file() and path.stat().st_size == 32]
    assert claims
    for path in claims:
        path.write_bytes(int(time.time() - 7200).to_bytes(8, "little") + path.read_bytes()[8:])
    second = stopped(source, url, source.stat().st_size / 5)
    sweep = [FB, "sweep", url, "--json", "--age", "3600"]
    swept = json.loads(subprocess.run(sweep, capture_output=True, text=True, check=True).stdout)
    assert swept["objects"] == []
    assert swept["young"] > 10
    os.kill(second.pid, signal.SIGCONT)
    _, error = second.communicate(timeout=60)
    assert second.returncode == 0, error
    assert fb.open(url).verify().ok
    assert same(events_of(url), events_of(source))


@pytest.mark.parametrize("place", ["objects", "daos"], indirect=True)
def test_readers_of_a_replaced_ntuple_never_read_another_one(place):
    url = place("generations")
    columns = dict.fromkeys("xy", "float64")

    def write(number):
        with fb.recreate(url) as file:
            file.mkrntuple("Events", columns, compression="none").extend(
                {name: [float(number)] * 1000 for name in "xy"}
            )

    write(1)
    reader = fb.open(url)
    assert set(reader["x"].array()) == {1.0}
    for number in (2, 3, 4):
        write(number)
        with pytest.raises(fb.FemtobarnError):
            reader["y"].array()
    assert set(fb.open(url)["y"].array()) == {4.0}


@pytest.mark.parametrize("place", ["objects", "daos"], indirect=True)
def test_objects_are_not_copied_as_files(place, source, tmp_path):
    url = place("objects")
    fb.migrate(f"{source}:Events", url)
    for names in ([url, str(tmp_path / "copy.root")], [str(source), url]):
        copied = subprocess.run([FB, "cp", *names], capture_output=True, text=True, check=False)
        assert copied.returncode == 2
        assert "fb migrate" in copied.stderr
    assert not (tmp_path / "copy.root").exists()


def test_another_source_or_shape_begins_anew(place, source, testdata):
    url = place("changed")
    killed = migrate_in_process(source, url, source.stat().st_size / 2)
    killed.communicate(timeout=60)
    (report,) = fb.migrate(f"{source}:Events", url, step_size=30_000, object_size=8_000, fields="nMuon", resume=True)
    assert report.entries_before == 0
    assert fb.open({url: "Events"}).keys() == ["nMuon"]
    # what is there is of other fields
    with pytest.raises(fb.FemtobarnError, match="exists"):
        resumed(source, url)


@pytest.mark.parametrize("place", ["objects", "minio", "daos"], indirect=True)
def test_a_writer_that_was_taken_for_dead_spoils_nothing(place, source):
    """It is stopped, another one completes its work, and it goes on."""
    url = place("stopped")
    first = stopped(source, url, source.stat().st_size / 2)
    report = resumed(source, url)
    assert report.entries_before > 0
    os.kill(first.pid, signal.SIGCONT)
    _, error = first.communicate(timeout=60)
    assert first.returncode == 1
    assert ("exists" if url.startswith("daos") else "another writer has written") in error
    assert fb.open(url).verify().ok
    assert same(events_of(url), events_of(source))


def test_what_nobody_resumes_is_swept(source, tmp_path):
    url = f"ntpl+file://{tmp_path}/left"
    killed = migrate_in_process(source, url, source.stat().st_size / 2)
    killed.communicate(timeout=60)
    sweep = [FB, "sweep", url, "--json", "--age"]
    young = json.loads(subprocess.run([*sweep, "3600"], capture_output=True, text=True, check=True).stdout)
    assert young["young"] > 10
    swept = json.loads(subprocess.run([*sweep, "0"], capture_output=True, text=True, check=True).stdout)
    assert len(swept["objects"]) == young["young"]
    assert objects_of(url) == set()


def test_the_command_does_the_same(source, tmp_path):
    fb_migrate = [FB, "migrate", f"{source}:Events"]
    url = f"ntpl+file://{tmp_path}/made"
    options = ["--object-size", "8kB", "--step-size", "30kB", "--compression", "zstd:1", "--verify", "-j", "2"]
    made = subprocess.run([*fb_migrate, url, *options], capture_output=True, text=True, check=True).stdout
    assert "Events: 12000 entries" in made
    assert "left behind: Runs (ROOT::RNTuple): not named" in made
    again = subprocess.run([*fb_migrate, url, *options], capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "exists" in again.stderr
    done = subprocess.run([*fb_migrate, url, *options, "--resume"], capture_output=True, text=True, check=True)
    assert "complete before" in done.stdout
    both = [*fb_migrate[:-1], str(source), "-o", f"{tmp_path}/there/", "--json"]
    found = subprocess.run(both, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["entries"] == {"Events": N_ENTRIES, "Runs": 3}
