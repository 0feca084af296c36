"""Ntuples as objects in a real MinIO: requests that are refused, lost or cut, objects that are missing or wrong."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import object_servers
import pytest
from faulty_store import Fault, FaultyStore

import femtobarn as fb

N = 5000


@pytest.fixture(scope="module")
def store(need_store):
    need_store("minio")
    server = object_servers.Minio()
    yield server
    server.close()


@pytest.fixture
def way(store, monkeypatch):
    about = store.about()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(about["access_key_id"]))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(about["secret_access_key"]))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    way = FaultyStore(store.port)
    yield way
    way.close()


def base(way, name):
    return f"ntpl+s3+{way.endpoint}/private/{name}"


def numbers(store, name):
    """Return the numbers of the objects below a base; of an object, MinIO has a directory with a file."""
    return sorted(int(path.parent.name) for path in (store.data / "private" / name).glob("*/xl.meta"))


def write(url, start=0, **options):
    values = {"x": np.arange(start, start + N, dtype="f8"), "n": np.arange(N, dtype="i4") % 7}
    fb.write(url, values, **({"object_size": "page", "page_size": "4 kB", "compression": "none"} | options))


def is_whole(url, start=0):
    """Return whether an ntuple has exactly what `write` writes."""
    found = fb.open(url)
    arrays = found.arrays()
    assert found.verify().ok
    return (
        found.num_entries == N
        and bool(np.all(arrays["x"] == np.arange(start, start + N)))
        and bool(np.all(arrays["n"] == np.arange(N) % 7))
    )


def test_requests_that_a_busy_store_refuses_are_repeated(way, store):
    url = base(way, "busy")
    way.rule = lambda method, path, before: Fault(503, "SlowDown") if before == 0 and path[-1] in "0369y" else None
    write(url)
    assert is_whole(url)
    assert numbers(store, "busy") == list(range(len(numbers(store, "busy"))))
    assert way.count("PUT", "/busy") == 2
    assert way.count("PUT", "/busy/1") == 1


@pytest.mark.parametrize("status", [500, None])
@pytest.mark.parametrize("size", ["page", "16 MB"])
def test_what_is_done_although_the_answer_is_lost_counts(way, store, status, size):
    name = f"lost-{status}-{size.replace(' ', '')}"
    url = base(way, name)
    way.rule = lambda method, path, before: (
        Fault(status, is_done=True) if method in ("PUT", "DELETE") and before == 0 else None
    )
    write(url, object_size=size)
    assert is_whole(url)
    n_objects = len(numbers(store, name))
    assert numbers(store, name) == list(range(n_objects))
    # the anchor is replaced if it is still the old one; when the request is repeated, it is the new one
    way.requests.clear()
    write(url, start=7, object_size=size)
    assert is_whole(url, start=7)
    assert [number - (1 << 20) for number in numbers(store, name)] == list(range(n_objects))


def test_a_store_that_never_answers_leaves_nothing_visible(way, store, monkeypatch):
    monkeypatch.setenv("FEMTOBARN_MOST_RETRIES", "1")
    url = base(way, "never")
    write(url)
    old = numbers(store, "never")
    # the objects, and then only the anchor
    for fails in (lambda path: "/never/" in path, lambda path: path.endswith("/never")):
        way.rule = lambda method, path, before, fails=fails: (
            Fault(500) if method in ("PUT", "HEAD") and fails(path) else None
        )
        with pytest.raises(fb.FemtobarnError, match="never"):
            write(url, start=1)
        way.heal()
        assert is_whole(url)
        assert numbers(store, "never") == old


def test_credentials_that_expire_while_writing_end_it(way, store):
    url = base(way, "expired")
    expired = threading.Event()

    def rule(method, path, before):
        if path.endswith("/9"):
            expired.set()
        return Fault(403, "ExpiredToken") if expired.is_set() else None

    way.rule = rule
    with pytest.raises(fb.FileError, match="expired"):
        write(url)
    way.heal()
    with pytest.raises(fb.NotFoundError):
        fb.open(url)
    # without credentials, nothing could be deleted
    assert numbers(store, "expired")
    write(url, start=3)
    assert is_whole(url, start=3)
    swept = sweep(url, "--age", "0")
    assert "0" in swept["objects"]
    assert swept["young"] == 0
    assert is_whole(url, start=3)
    assert min(numbers(store, "expired")) == 1 << 20


def test_credentials_that_expire_while_reading_are_told_and_can_come_back(way):
    url = base(way, "expired-reading")
    write(url)
    found = fb.open(url)
    way.rule = lambda method, path, before: Fault(403, "ExpiredToken") if path.endswith("/5") else None
    with pytest.raises(fb.FileError, match="expired-reading/5"):
        found.arrays()
    way.heal()
    assert is_whole(url)
    assert found["n"].array()[N - 1] == (N - 1) % 7


def test_a_missing_truncated_swapped_or_stale_object_is_named(way, store):
    url, key = base(way, "wrong"), "private/wrong"
    write(url)
    good = {number: store.get(f"{key}/{number}") for number in numbers(store, "wrong")}
    changes = {
        "missing": None,
        "truncated": good[3][:-1],
        "empty": b"",
        "of another size": good[0],
        "stale": bytes(len(good[3])),
    }
    for how, content in changes.items():
        if content is None:
            store.delete(f"{key}/3")
        else:
            store.put(f"{key}/3", content)
        found = fb.open(url)
        with pytest.raises(fb.FemtobarnError, match=r"wrong/3|object 3\b"):
            found.arrays()
        report = found.verify()
        assert not report.ok, how
        assert len(report.damages) == 1, how
        store.put(f"{key}/3", good[3])
    assert is_whole(url)
    # the pages have the same size and correct checksums: only the metadata of the objects tell them apart
    assert len(good[3]) == len(good[4])
    store.copy(f"{key}/4", f"{key}/3")
    with pytest.raises(fb.FemtobarnError, match=r"wrong/3.*exchanged"):
        fb.open(url).arrays()


def test_an_object_of_another_ntuple_is_named_also_without_checksums(way, store):
    # valid pages of the same size, but of an older ntuple or of another column
    for checksums in (True, False):
        name = f"mixed-{checksums}"
        url, older = base(way, name), base(way, f"{name}-older")
        write(older, start=100, page_checksums=checksums)
        write(url, page_checksums=checksums)
        good = store.get(f"private/{name}/3")
        store.copy(f"private/{name}/3", f"private/{name}-kept")
        for other in (f"private/{name}-older/3", f"private/{name}/4"):
            assert len(store.get(other)) == len(good)
            store.copy(other, f"private/{name}/3")
            with pytest.raises(fb.FemtobarnError, match=rf"{name}/3.*exchanged"):
                fb.open(url).arrays()
            assert not fb.open(url).verify().ok
        store.copy(f"private/{name}-kept", f"private/{name}/3")
        assert is_whole(url)
        # also in ntuples that refer to it, or have a copy of it made by the server
        fb.merge([url], base(way, f"{name}-merged"))
        fb.clone(url, base(way, f"{name}-clone"))
        assert is_whole(base(way, f"{name}-merged"))
        assert is_whole(base(way, f"{name}-clone"))
        store.copy(f"private/{name}-older/3", f"private/{name}/3")
        store.copy(f"private/{name}-clone/4", f"private/{name}-clone/3")
        for wrong, said in ((f"{name}-merged", f"{name}/3"), (f"{name}-clone", f"{name}-clone/3")):
            with pytest.raises(fb.FemtobarnError, match=rf"{said}.*exchanged"):
                fb.open(base(way, wrong)).arrays()


@pytest.mark.parametrize("which", ["header", "footer", "page list"])
def test_metadata_of_another_ntuple_are_refused(way, store, which):
    name = f"metadata-{which.replace(' ', '-')}"
    url, older = base(way, name), base(way, f"{name}-older")
    write(older, start=100)
    write(url)
    footer = json.loads(store.get(f"private/{name}"))["footerObjId"]
    number = {"header": 0, "footer": footer, "page list": footer - 1}[which]
    store.copy(f"private/{name}-older/{number}", f"private/{name}/{number}")
    with pytest.raises(fb.FemtobarnError, match=f"{name}/{number}.*exchanged"):
        fb.open(url).arrays()
    store.put(f"private/{name}/{number}", store.get(f"private/{name}-older/{number}")[:-1])
    with pytest.raises(fb.FemtobarnError, match=rf"{name}/{number}|{which}"):
        fb.open(url).arrays()
    store.delete(f"private/{name}/{number}")
    with pytest.raises(fb.NotFoundError, match=f"{name}/{number}"):
        fb.open(url).arrays()


def test_damaged_objects_of_a_directory_are_named(tmp_path):
    url, folder = f"ntpl+file://{tmp_path}/wrong", tmp_path / "wrong"
    write(url, compression="zstd")
    objects = {int(path.name): path.read_bytes() for path in folder.iterdir() if path.name != "anchor"}
    # of different sizes
    other = next(number for number in objects if number > 3 and len(objects[number]) != len(objects[3]))
    for content in (None, objects[3][:-1], b"", bytes(len(objects[3])), objects[other]):
        if content is None:
            (folder / "3").unlink()
        else:
            (folder / "3").write_bytes(content)
        with pytest.raises(fb.FemtobarnError, match=r"wrong/3|object 3\b"):
            fb.open(url).arrays()
        assert len(fb.open(url).verify().damages) == 1
        (folder / "3").write_bytes(objects[3])
    assert is_whole(url)


@pytest.mark.parametrize("status", [503, 500, None])
def test_a_copy_by_the_server_is_repeated(way, store, status):
    url, copy = base(way, f"origin-{status}"), base(way, f"copy-{status}")
    write(url)
    # refused, or done without an answer
    is_done = status != 503
    way.rule = lambda method, path, before: (
        Fault(status, "SlowDown", is_done=is_done) if method == "PUT" and before == 0 and path[-1] in "13579" else None
    )
    report = fb.clone(url, copy)
    assert report.delivery["server_copies"] == len(numbers(store, f"origin-{status}")) - 3
    assert way.count("PUT", f"copy-{status}/3") == 2
    assert way.count("GET", f"origin-{status}/3") == 0
    assert is_whole(copy)
    assert numbers(store, f"copy-{status}") == numbers(store, f"origin-{status}")


def test_a_copy_of_a_missing_object_names_it_and_leaves_nothing(way, store):
    url, copy = base(way, "gone"), base(way, "copy-of-gone")
    write(url)
    store.delete("private/gone/5")
    with pytest.raises(fb.NotFoundError, match="/gone/5"):
        fb.clone(url, copy)
    assert numbers(store, "copy-of-gone") == []
    with pytest.raises(fb.NotFoundError):
        fb.open(copy)
    # an object that was exchanged is copied, and noticed by verification: nothing appears
    write(url)
    store.copy(f"private/gone/{(1 << 20) + 4}", f"private/gone/{(1 << 20) + 3}")
    with pytest.raises(fb.FemtobarnError, match="exchanged"):
        fb.clone(url, copy, verify=True)
    assert numbers(store, "copy-of-gone") == []


def test_an_answer_that_is_cut_is_read_again(way):
    url = base(way, "cut")
    write(url)
    cut = set()

    def change(method, path, body):
        if method == "GET" and path not in cut and len(body) > 100:
            cut.add(path)
            return body[: len(body) // 2]
        return body

    way.change = change
    assert is_whole(url)
    assert len(cut) > 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda anchor: anchor.replace('"lenHeader": ', '"lenHeader": 1'), "checksum"),
        (lambda anchor: anchor.replace('"anchorVersion": 0', '"anchorVersion": 1'), "newer"),
        (lambda anchor: anchor[: len(anchor) // 2], "JSON"),
        (lambda anchor: "", "JSON"),
        # the beginning of one anchor, and the end of another
        (lambda anchor: anchor[:300] + anchor.replace("0", "1")[300:], "anchor"),
    ],
)
def test_an_anchor_that_is_damaged_newer_or_half_replaced_is_refused(way, store, change, said):
    url = base(way, "anchors")
    write(url)
    anchor = store.get("private/anchors").decode()
    store.put("private/anchors", change(anchor).encode())
    with pytest.raises(fb.FemtobarnError, match=said):
        fb.open(url)
    # its objects are kept, and it can be replaced
    done = run("sweep", url, "--age", "0")
    assert done.returncode != 0
    assert "anchor" in done.stderr
    assert numbers(store, "anchors")
    store.put("private/anchors", anchor.encode())
    assert is_whole(url)
    store.put("private/anchors", change(anchor).encode())
    write(url, start=2)
    assert is_whole(url, start=2)
    store.delete("private/anchors")


@pytest.mark.parametrize("size", ["page", "16 MB"])
def test_an_ntuple_that_is_replaced_while_it_is_opened_is_opened_again(way, store, tmp_path, size):
    url = base(way, "opened")
    direct = f"ntpl+s3+{store.about()['endpoint']}/private/opened"
    write(url, object_size=size)
    left = [3, 2, 1]

    def change(method, path, body):
        # the reader gets this anchor when there is already another
        if (method, path) == ("GET", "/private/opened") and left:
            write(direct, start=left.pop(), object_size=size)
        return body

    way.change = change
    if size == "page":
        assert fb.open(url)["x"].array()[0] == 3
        assert left == []
        left = [5, 4]
        fb.clone(url, tmp_path / "clone.root")
        assert fb.open(tmp_path / "clone.root")["x"].array()[0] == 5
    else:
        # header and footer are in the anchor: what was opened is a whole ntuple, until its pages are read
        assert fb.open(url).num_entries == N
        assert left == [3, 2]
    # an anchor that stays is believed
    left.clear()
    way.requests.clear()
    header = min(numbers(store, "opened"))
    store.delete(f"private/opened/{header}")
    if size == "page":
        with pytest.raises(fb.NotFoundError, match=f"opened/{header}"):
            fb.open(url)
        assert way.requests.count(("GET", "/private/opened")) == 2
    store.delete("private/opened")


def test_a_list_that_lags_deletes_nothing_that_is_used(way, store):
    url = base(way, "lagging")
    write(url)
    old = {}

    def change(method, path, body):
        # a list as it was at first, again and again
        if method == "GET" and b"<ListBucketResult" in body:
            prefix = re.search(rb"<Prefix>(.*?)</Prefix>", body)
            return old.setdefault(prefix and prefix[1], body)
        return body

    way.change = change
    for start in (1, 2, 3):
        found = sweep(url, "--age", "0")
        assert found["objects"] == []
        assert found["used"] == len(numbers(store, "lagging"))
        write(url, start=start)
        assert is_whole(url, start=start)
        # all of the replaced one are gone, whatever the list says
        assert len({number >> 20 for number in numbers(store, "lagging")}) == 1
    assert old


@pytest.mark.parametrize("copies", [False, True])
def test_ntuples_that_are_named_by_numbers_are_not_harmed(way, store, copies):
    """The objects of an ntuple have numbers as names, and so may have the ntuples below it."""
    name = f"numbered{copies}"
    for number in (1, 2):
        write(base(way, f"{name}/{number}"), start=number)
    write(base(way, f"{name}-source"))
    make = functools.partial(fb.clone, base(way, f"{name}-source")) if copies else write
    with pytest.raises(fb.FemtobarnError, match=rf"{name}/[12]\b.*another ntuple"):
        make(base(way, name))
    for number in (1, 2):
        assert is_whole(base(way, f"{name}/{number}"), start=number)
    assert numbers(store, name) == [1, 2]  # nothing is left
    with pytest.raises(fb.NotFoundError):
        fb.open(base(way, name))


@pytest.mark.parametrize("kind", ["directory", "bucket"])
def test_a_sweep_spares_what_a_writer_that_goes_on_has_written_long_ago(way, tmp_path, kind):
    url = f"ntpl+file://{tmp_path}/slow" if kind == "directory" else base(way, "slow")
    values = {"x": np.arange(N, dtype="f8")}
    with fb.recreate(url, storage_options={"object_size": "page"}) as file:
        ntuple = file.mkrntuple("Events", {"x": "float64"}, compression="none", page_size="4 kB")
        is_swept = threading.Event()

        def go_on():
            n_clusters = 0
            while not is_swept.is_set():
                ntuple.extend(values)
                ntuple.commit_cluster()
                n_clusters += 1
                time.sleep(0.1)
            return n_clusters

        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(go_on)
            time.sleep(3)
            try:
                swept = sweep(url, "--age", "2")
            finally:
                is_swept.set()
            n_clusters = writer.result()
        assert not swept["objects"]
        assert swept["young"] > 20
    found = fb.open(url)
    assert found.verify().ok
    assert found.num_entries == n_clusters * N


def compete(create, url, barrier, start):
    """Write an ntuple while others do; return the first value, or the error."""
    about = {"object_size": "page", "page_size": "4 kB", "compression": "none"}
    try:
        with create(url) as file:
            events = file.mkrntuple("Events", {"x": "f8", "n": "i4"}, **about)
            barrier.wait()
            events.extend({"x": np.arange(start, start + N, dtype="f8"), "n": np.arange(N, dtype="i4") % 7})
            barrier.wait()
    except fb.FemtobarnError as error:
        return error
    return start


@pytest.mark.parametrize("replaces", [False, True])
def test_of_several_writers_at_one_base_one_wins_and_the_others_are_told(way, store, replaces):
    name = f"writers-{replaces}"
    url = base(way, name)
    if replaces:
        write(url)
    create, barrier = (fb.recreate if replaces else fb.create), threading.Barrier(3, timeout=60)
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda start: compete(create, url, barrier, start), (10, 20, 30)))
    [winner] = [start for start in done if isinstance(start, int)]
    for error in done:
        if error != winner:
            assert name in str(error)
            assert "another writer has written" in str(error) or "already exists" in str(error)
    assert is_whole(url, start=winner)
    # the others have removed what they wrote
    assert len({number >> 20 for number in numbers(store, name)}) == 1


def run(*args):
    program = "import sys; from femtobarn._cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)


def sweep(url, *args):
    time.sleep(0.1)
    done = run("sweep", url, *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
