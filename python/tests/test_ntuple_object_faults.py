"""Ntuples as objects in a real MinIO: requests that are refused, lost or cut, objects that are missing or wrong."""

from __future__ import annotations

import json
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


def test_a_list_that_lags_deletes_nothing_that_is_used(way, store):
    url = base(way, "lagging")
    write(url)
    old = {}

    def change(method, path, body):
        # a list as it was at first, again and again
        if method == "GET" and b"<ListBucketResult" in body:
            return old.setdefault("list", body)
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
            assert "was replaced" in str(error) or "already exists" in str(error)
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
