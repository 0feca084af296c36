"""Bad connections, and what servers see: real servers, with Toxiproxy in between if necessary."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import servers
from compare import same

import femtobarn as fb

# Reads until it is interrupted after a second, and then once more; waits for a line before each.
INTERRUPTED = """
import os, signal, sys, threading, time
import femtobarn as fb
url, doing, folder = sys.argv[1:]
nt = fb.open(url, storage_options={"handler": "fsspec"} if doing == "fsspec" else None)
print(nt.num_entries, flush=True)
sys.stdin.readline()
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
start = time.monotonic()
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    if doing in ("read", "fsspec"):
        nt.arrays(["x"])
    elif doing == "iterate":
        for _ in nt.iterate(["x"], step_size=200_000, prefetch=False):
            pass
    else:
        fb.merge([url, nt], f"{folder}/out.root", threads=2)
except KeyboardInterrupt:
    print(time.monotonic() - start < 4, flush=True)
sys.stdin.readline()
print(len(nt.arrays(["x"])), flush=True)
"""


@pytest.fixture(scope="module")
def ways(need_store):
    """Return proxies that can disturb connections."""
    need_store("toxiproxy-server")
    import toxiproxy

    with toxiproxy.Toxiproxy() as ways:
        yield ways


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Return an ntuple of many clusters, whose pages are adjacent only in some of its columns."""
    path = tmp_path_factory.mktemp("long") / "long.root"
    with fb.recreate(path, compression=None) as file:
        for step in range(10):
            values = np.random.default_rng(step).random(20_000)
            columns = {"x": values, "y": values + 1, "z": -values}
            if step == 0:
                events = file.mkrntuple("Events", columns)
            events.extend(columns)
            events.commit_cluster()
    return path


@pytest.fixture(scope="module", params=["xrootd", "nginx"])
def server(request, long, need_program):
    """Return a server with a file that is larger than what is read at opening."""
    need_program(request.param)
    server = servers.KINDS[request.param]()
    server.put("long.root", long.read_bytes())
    yield server
    server.close()


def url_by(server, way):
    """Return the URL of the file through a proxy."""
    return f"{server.url}/long.root:Events".replace(f":{server.port}", f":{way}")


@pytest.mark.parametrize("doing", ["read", "merge", "iterate", "fsspec"])
def test_ctrl_c_ends_what_hangs(server, ways, tmp_path, need, doing):
    """Ctrl-C ends a read immediately if nothing arrives any more, and the next read makes a new connection.

    Steps that are not read ahead were read to their end, and Ctrl-C was lost if the server gave up before; threads in
    an fsspec file system were waited for.
    """
    if doing == "fsspec":
        if not isinstance(server, servers.Nginx):
            pytest.skip("XRootD's own client keeps to a connection that is dead, and what is read next waits for it")
        need("aiohttp")
    way = ways.before(server.port)
    url = url_by(server, way)
    command = [sys.executable, "-c", INTERRUPTED, url, doing, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            assert child.stdout.readline().strip() == "200000"
            ways.poison(way, "timeout", timeout=0)
            print(file=child.stdin, flush=True)
            assert child.stdout.readline().strip() == "True"
            ways.heal(way)
            out, err = child.communicate("\n", timeout=60)
            assert (out.strip(), child.returncode) == ("200000", 0), err
            assert not list(tmp_path.iterdir())
        finally:
            child.kill()


def test_arrays_are_right_over_bad_ways(server, ways, long):
    """Connections break after a while, in small delayed pieces; `metrics` says how often."""
    way = ways.before(server.port)
    url = url_by(server, way)
    ways.poison(way, "latency", latency=5, jitter=5)
    ways.poison(way, "slicer", average_size=1000, size_variation=500, delay=0)
    ways.poison(way, "limit_data", bytes=600_000)
    nt = fb.open(url)
    assert same(nt.arrays(), fb.open(long).arrays())
    assert nt.metrics.retries > 0


def test_a_read_goes_on_when_its_server_is_back(server, ways, long):
    """As after a restart: no connections are accepted for a second."""
    way = ways.before(server.port)
    nt = fb.open(url_by(server, way))
    ways.close_way(way)
    later = threading.Timer(1, ways.open_way, [way])
    later.start()
    assert same(nt.arrays(), fb.open(long).arrays())
    later.join()
    assert nt.metrics.retries > 0


def test_errors_say_what_was_tried(server, ways):
    way = ways.before(server.port)
    url = url_by(server, way)
    nt = fb.open(url, storage_options={"most_retries": "2"})
    ways.poison(way, "reset_peer", timeout=0)
    with pytest.raises(fb.FileError) as raised:
        nt.arrays(["x"])
    text = str(raised.value)
    assert raised.value.kind == "remote-failed"
    assert f"127.0.0.1:{way}" in text, text
    assert "long.root" in text
    # repeated errors are reported once, with their number
    repeated = [int(times) - 1 for times in re.findall(r"\((\d+) times\)", text)]
    assert text.count("; then ") + sum(repeated) >= 2, text
    ways.heal(way)
    assert len(nt.arrays(["x"])) == 200_000


@pytest.fixture(scope="module")
def tracing(need_program):
    """Return an XRootD server that logs each request."""
    need_program("xrootd")
    server = servers.Xrootd(lambda _: "xrootd.trace all\n")
    yield server
    server.close()


def seen(server, since):
    """Return the number of read requests that an XRootD server has logged, and the bytes of all their ranges."""
    log = server.log()[since:]
    ranges = re.findall(r" fh=\d+ (?:read|readV) (\d+)@\d+", log)
    return len(re.findall(r" req=(?:read|readv) ", log)), sum(map(int, ranges))


@pytest.mark.parametrize("name", ["dimuon", "long", "nanoaod_v5_1000", "hzz_zlib"])
def test_explain_says_what_xrootd_saw(tracing, name, request):
    """For ntuples and trees, the numbers of requests and bytes equal those in the server's log."""
    path = tracing.data / f"{name}.root"
    if name in ("dimuon", "long"):
        shutil.copy(request.getfixturevalue(name), path)
    else:
        shutil.copy(request.getfixturevalue("shared") / "ttree" / path.name, path)
    servers.own(tracing.data)
    nt = fb.open(f"{tracing.url}/{path.name}")
    jagged = ["Muon_pt", "Jet_pt", "nJet", "Electron_eta", "run", "event"]
    known = {"dimuon": ["Muon_pt", "nMuon"], "long": ["x", "z"], "nanoaod_v5_1000": jagged}
    fields = known.get(name, nt.keys(recursive=False)[:20])
    plan = nt.explain(fields)
    before, metrics = len(tracing.log()), nt.metrics
    expected = fb.open(path).arrays(fields)
    assert same(nt.arrays(fields), expected)
    after = nt.metrics
    requests, n_bytes = seen(tracing, before)
    assert requests == plan.requests == after.requests - metrics.requests
    assert n_bytes == plan.bytes_read == after.bytes_read - metrics.bytes_read
    assert plan.bytes_read <= 1.05 * plan.bytes_needed


def test_opening_is_what_xrootd_saw(tracing, dimuon):
    """Opening is one vector read of both ends."""
    tracing.put("dimuon.root", Path(dimuon).read_bytes())
    before = len(tracing.log())
    nt = fb.open(f"{tracing.url}/dimuon.root")
    assert seen(tracing, before)[0] == nt.metrics.requests == 1


# Commands whose server becomes silent, reading and writing; FROM is the file on the server, TO a name there.
SILENT = ["cp FROM out.root", "merge out.root FROM FROM", "skim FROM out.root --where x>2", "cp IN TO", "merge TO IN"]
PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


@pytest.fixture(scope="module", params=["xrootd", "nginx", "minio"])
def place(request, long, need_program, need_store):
    """Return a server with a file, a writable directory on it, and its settings."""
    kind = request.param
    if kind == "minio":
        need_store("minio")
        import object_servers

        server = object_servers.Minio()
        server.put("private/long.root", long.read_bytes())
        about = server.about()
        yield server, "s3://private", {name: str(about[name]) for name in ("access_key_id", "secret_access_key")}
    else:
        need_program(kind)
        server = servers.KINDS[kind]()
        server.put("long.root", long.read_bytes())
        yield server, f"{server.url}/dav" if kind == "nginx" else server.url, {}
    server.close()


def wait_for_connection(port):
    """Wait until there is a connection to a port of this machine."""
    until = time.monotonic() + 60
    while not any(
        (words := line.split())[2].endswith(f":{port:04X}") and words[3] == "01"
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
    ):
        assert time.monotonic() < until, "no connection"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", SILENT)
def test_signals_end_the_program_while_a_server_is_silent(place, ways, long, tmp_path, words, number):
    """They only set a flag, which a thread that waited for a server did not check."""
    server, url, options = place
    way = ways.before(server.port)
    if url.startswith("s3:"):
        options = options | {"endpoint": f"http://127.0.0.1:{way}"}
    url = url.replace(f":{server.port}", f":{way}")
    names = {"FROM": f"{url}/long.root", "TO": f"{url}/silent.root", "IN": str(long)}
    options = options | {"spool_folder": str(tmp_path)}
    settings = {f"FEMTOBARN_{name.upper()}": str(value) for name, value in options.items()}
    command = [*PROGRAM, *[names.get(word, word) for word in words.split()]]
    pipe = subprocess.PIPE
    # traffic is slow first, so that something is in flight when the server becomes silent
    for stream in ("upstream", "downstream"):
        ways.poison(way, "bandwidth", stream, rate=500)
    given = {"env": os.environ | settings, "cwd": tmp_path}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **given) as child:
        try:
            wait_for_connection(way)
            time.sleep(0.5)
            for stream in ("upstream", "downstream"):
                ways.poison(way, "timeout", stream, timeout=0)
            time.sleep(0.7)
            assert child.poll() is None, child.communicate()
            start = time.monotonic()
            child.send_signal(number)
            _, message = child.communicate(timeout=30)
            # three seconds are for removing what was sent
            assert time.monotonic() - start < 5
        finally:
            child.kill()
    assert child.returncode == 130, message
    assert "interrupted" in message
    assert not list(tmp_path.iterdir())
    assert not (server.data / "silent.root").exists()
    assert not (server.data / "private" / "silent.root").exists()


@pytest.mark.parametrize("together", [False, True])
def test_the_next_files_are_read_while_one_is_used(server, ways, tmp_path, together):
    """Only opening ran ahead: many small files cost one round trip each, one after another."""
    n_entries = 50_000  # more than what opening reads
    for number in range(6):
        values = np.random.default_rng(number).random(n_entries)
        fb.write(tmp_path / "a.root", {"x": values, "y": values}, compression=None)
        server.put(f"ahead{number}.root", (tmp_path / "a.root").read_bytes())
    way = ways.before(server.port)
    files = [url_by(server, way).replace("long.root", f"ahead{number}.root") for number in range(6)]
    options = {"most_retries": 0, "request_timeout": 5, "connect_timeout": 5}
    if together:
        steps = fb.open(files, storage_options=options).iterate(["x"])
    else:
        steps = fb.iterate(files, ["x"], storage_options=options)
    assert len(next(steps)) == n_entries
    time.sleep(0.5)  # the others are opened
    assert len(next(steps)) == n_entries
    time.sleep(1)  # and read
    ways.close_way(way)
    assert [len(step) for step in steps] == [n_entries] * 4


def write_long(url):
    """Write the same columns as in the long file."""
    with fb.recreate(url, compression=None) as file:
        for step in range(10):
            values = np.random.default_rng(step).random(50_000)
            columns = {"x": values, "y": values + 1, "z": -values}
            if step == 0:
                events = file.mkrntuple("Events", columns)
            events.extend(columns)
            events.commit_cluster()
            yield step


@pytest.mark.parametrize("doing", ["recreate", "cp", "merge"])
def test_a_file_is_written_over_connections_that_break(need_program, ways, long, tmp_path, doing):
    """A lost connection ended all writing to XRootD servers, and partial files stayed there."""
    need_program("xrootd")
    server = servers.KINDS["xrootd"]()
    try:
        way = ways.before(server.port)
        # each ends after a part of the file, in the middle of a request
        ways.poison(way, "limit_data", "upstream", bytes=2_000_000)
        url = f"root://127.0.0.1:{way}//new.root"
        local = tmp_path / "local.root"
        if doing == "recreate":
            list(write_long(url))
            list(write_long(local))
        elif doing == "cp":
            subprocess.run([*PROGRAM, "cp", str(long), url], check=True, timeout=100)
            shutil.copy(long, local)
        else:
            fb.merge([str(long), str(long)], url)
            fb.merge([str(long), str(long)], local)
        written = server.data / "new.root"
        assert [path.name for path in server.data.iterdir()] == ["new.root"]
        if doing == "cp":
            assert written.read_bytes() == local.read_bytes()
        assert same(fb.open(written).arrays(), fb.open(local).arrays())
        assert fb.open(written).verify().ok
    finally:
        server.close()


def test_a_file_is_written_on_when_its_server_was_away(need_program, tmp_path):
    """As after a crash of the server, which is back a moment later."""
    need_program("xrootd")
    server = servers.KINDS["xrootd"]()
    again = []
    try:
        for step in write_long(f"{server.url}/new.root"):
            if step == 4:
                server.kill()
                again.append(threading.Timer(0.3, server.restart))
                again[0].start()
        list(write_long(tmp_path / "local.root"))
        assert [path.name for path in server.data.iterdir()] == ["new.root"]
        expected = fb.open(tmp_path / "local.root").arrays()
        assert same(fb.open(server.data / "new.root").arrays(), expected)
    finally:
        again[0].join()
        server.close()
