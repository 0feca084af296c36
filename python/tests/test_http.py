"""Files of HTTP and WebDAV servers, with the same results as local files; with real servers."""

from __future__ import annotations

import json
import os
import pickle
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import servers
from compare import same

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]
TREES = ["hzz_zlib", "nanoaod_v5_1000", "tree_with_doubly_jagged"]


@pytest.fixture(scope="module")
def server(testdata, need_program):
    """An nginx with the project's own files."""
    need_program("nginx")
    server = servers.Nginx()
    for path in [testdata / "dimuon.root", *sorted((testdata / "rntuple").glob("*.root"))]:
        shutil.copy(path, server.data / path.name)
    yield server
    server.close()


@pytest.fixture(scope="module")
def xrdhttp(testdata, need_program):
    """Return an XRootD server with HTTP."""
    need_program("xrootd")
    server = servers.KINDS["xrdhttp"]()
    shutil.copy(testdata / "dimuon.root", server.data / "dimuon.root")
    servers.own(server.data)
    yield server
    server.close()


def asked(server):
    """Return the ranges of the requests in the server's log, which has requests that have ended."""
    lines = (server.folder / "access.log").read_text().splitlines()
    return [re.search(r'"(?:bytes=)?([^"]*)"', line)[1] for line in lines]


def n_noted(server):
    """Return the number of logged requests, once all earlier ones are among them."""
    marker = f"7-{secrets.randbelow(10**9) + 7}"
    request = urllib.request.Request(f"{server.url}/dimuon.root", headers={"Range": f"bytes={marker}"})
    with urllib.request.urlopen(request) as reply:
        reply.read()
    for _ in range(500):
        lines = asked(server)
        if marker in lines:
            break
        time.sleep(0.01)
    assert lines[-1] == marker
    return len(lines)


def test_all_functions_that_return_arrays_take_a_cache(server, dimuon, tmp_path):
    """`iterate` and `concatenate` refused the option of `open`."""
    url, expected = f"{server.url}/dimuon.root:Events", fb.open(dimuon).arrays(["Muon_pt"])
    for name, read in {
        "open": lambda **options: fb.open(url, **options).arrays(["Muon_pt"]),
        "iterate": lambda **options: next(fb.iterate(url, ["Muon_pt"], **options)),
        "concatenate": lambda **options: fb.concatenate(url, ["Muon_pt"], **options),
    }.items():
        cache = tmp_path / name
        assert same(read(cache="off", storage_options={"cache": str(cache)}), expected)
        assert not cache.exists(), name
        assert same(read(cache=cache), expected)
        nt = fb.open(url, cache=cache)
        assert same(nt.arrays(["Muon_pt"]), expected)
        (source,) = nt.metrics.sources
        assert source.cache_bytes > source.fetched_bytes == 0, name


def test_verify_reads_from_the_server_not_from_a_cache(server, dimuon, tmp_path):
    server.put("damaged.root", Path(dimuon).read_bytes())
    path = server.data / "damaged.root"
    old = time.time() - 1000
    os.utime(path, (old, old))
    nt = fb.open(f"{server.url}/damaged.root:Events", cache=tmp_path / "cache")
    expected = nt.arrays()
    assert nt.verify().ok
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half : half + 2000] = bytes(2000)
    path.write_bytes(content)
    os.utime(path, (old, old))
    again = fb.open(f"{server.url}/damaged.root:Events", cache=tmp_path / "cache")
    assert same(again.arrays(), expected)
    assert not again.verify().ok
    path.unlink()


def test_all_files_are_as_on_disk(server):
    n_ntuples = 0
    for path in sorted(server.data.glob("*.root")):
        try:
            expected = fb.open(path)
        except fb.FemtobarnError as error:
            with pytest.raises(type(error)):
                fb.open(f"{server.url}/{path.name}")
            continue
        found = fb.open(f"{server.url}/{path.name}")
        assert same(found.arrays(), expected.arrays())
        assert found.verify().ok == expected.verify().ok
        n_ntuples += 1
    assert n_ntuples > 40


@pytest.mark.parametrize("name", TREES)
def test_trees_are_as_on_disk(server, shared, name):
    path = shared / "ttree" / f"{name}.root"
    shutil.copy(path, server.data / path.name)
    expected = fb.open(path)
    fields = expected.keys(recursive=False)[:100]
    assert same(fb.open(f"{server.url}/{path.name}").arrays(fields), expected.arrays(fields))


def test_what_is_counted_is_what_the_server_was_asked(server):
    """Opening takes two requests at once; reading takes the requests and bytes that `explain` reports."""
    before = n_noted(server)
    nt = fb.open(f"{server.url}/dimuon.root")
    assert nt.metrics.requests == 2 == n_noted(server) - before - 1
    shutil.copy(server.data / "dimuon.root", server.data / "long.root")
    with fb.recreate(server.data / "long.root", compression=None) as file:
        for step in range(20):
            values = np.random.default_rng(step).random(100_000)
            columns = {"x": values, "y": values + 1, "z": -values}
            if step == 0:
                events = file.mkrntuple("Events", columns)
            events.extend(columns)
            events.commit_cluster()
    nt = fb.open(f"{server.url}/long.root")
    plan = nt.explain(["x", "z"])
    before, metrics = n_noted(server), nt.metrics
    array = nt.arrays(["x", "z"], library="np")
    after = n_noted(server) - 1
    lines = asked(server)[before:after]
    ranges = [tuple(map(int, part.split("-"))) for line in lines for part in line.split(",")]
    assert len(array["x"]) == 2_000_000
    assert len(lines) == plan.requests == nt.metrics.requests - metrics.requests
    assert (
        sum(stop - start + 1 for start, stop in ranges) == plan.bytes_read == nt.metrics.bytes_read - metrics.bytes_read
    )
    assert plan.bytes_read <= 1.05 * plan.bytes_needed


def test_the_inputs_of_a_conversion_are_opened_once(server, tmp_path):
    """They were opened to find the ntuples, and again to be read."""
    names = [f"mixed_{codec}.root" for codec in ("zstd", "none", "lzma", "lz4", "zlib")]
    urls = [f"{server.url}/{name}" for name in names]
    before = n_noted(server)
    opened = fb.open(urls)
    n_opening = opened.metrics.requests
    opened.arrays()
    n_lines = opened.metrics.requests
    between = n_noted(server)
    assert between - before - 1 == n_lines
    fb.convert(urls, tmp_path / "one.root", verify=False)
    assert len(fb.open(tmp_path / "one.root").arrays()) == opened.num_entries
    n_converting = n_noted(server) - between - 1
    assert n_opening >= len(urls)
    assert n_converting < n_lines + n_opening


def test_of_trees_is_counted_what_the_server_was_asked(server, shared):
    """As for ntuples: the requests and bytes that `explain` reports, first for counters, then for their arrays."""
    path = shared / "ttree" / "nanoaod_v5_1000.root"
    shutil.copy(path, server.data / path.name)
    nt = fb.open(f"{server.url}/{path.name}")
    fields = ["Muon_pt", "Jet_pt", "nJet", "Electron_eta", "run", "event"]
    plan = nt.explain(fields)
    before, metrics = n_noted(server), nt.metrics
    nt.arrays(fields)
    after = n_noted(server) - 1
    lines = asked(server)[before:after]
    ranges = [tuple(map(int, part.split("-"))) for line in lines for part in line.split(",")]
    assert plan.rounds == 2
    assert len(lines) == plan.requests == nt.metrics.requests - metrics.requests
    assert sum(stop - start + 1 for start, stop in ranges) == plan.bytes_read
    assert plan.bytes_read == nt.metrics.bytes_read - metrics.bytes_read


def test_xrootds_http_is_read_as_well(xrdhttp, dimuon):
    for url in (xrdhttp.url, xrdhttp.url.replace("http", "dav")):
        found = fb.open(f"{url}/dimuon.root:Events")
        assert same(found.arrays(), fb.open(dimuon).arrays())


def test_patterns_and_many_files(server, dimuon):
    folder = server.data / "many"
    folder.mkdir(exist_ok=True)
    for name in ("a 1.root", "a%20.root", "b#?.root"):
        shutil.copy(dimuon, folder / name)
    found = fb.open(f"{server.url}/dav/many/*.root:Events")
    assert found.num_entries == 36_000
    assert [path for path, _ in fb.open(f"{server.url}/dav/many/b*.root").files] == [
        f"{server.url}/dav/many/b%23%3F.root"
    ]
    steps = list(fb.iterate(f"{server.url}/dav/many/*.root", ["nMuon"], step_size=5000))
    assert sum(map(len, steps)) == 36_000
    assert fb.open(f"{server.url}/dav/many/a*.root").num_entries == 24_000


def test_what_is_for_the_server_arrives_and_is_shown_to_nobody(server):
    url = f"{server.url}/signed/dimuon.root?sig=a%2Fb%3D"
    nt = fb.open({url: "Events"})
    assert len(nt.arrays(["nMuon"])) == 12_000
    assert "sig=" not in f"{nt!r} {nt.metrics.to_dict()}"
    # opening it again needs it as well
    assert pickle.loads(pickle.dumps(nt)).num_entries == 12_000
    assert len(fb.concatenate([nt, nt], ["nMuon"])) == 24_000
    with pytest.raises(fb.FileError) as raised:
        fb.open(f"{server.url}/signed/dimuon.root?sig=wrong")
    assert "wrong" not in str(raised.value)
    assert isinstance(raised.value, PermissionError) or raised.value.kind == "permission-denied"


def test_tokens_and_redirects(server):
    with pytest.raises(fb.FileError):
        fb.open(f"{server.url}/token/dimuon.root")
    nt = fb.open(f"{server.url}/token/dimuon.root", storage_options={"bearer_token": "good"})
    assert nt.num_entries == 12_000
    assert fb.open(f"{server.url}/moved/dimuon.root").num_entries == 12_000
    with pytest.raises(fb.NotFoundError):
        fb.open(f"{server.url}/none.root")


def test_inputs_of_merges_and_conversions(server, tmp_path, shared):
    url = f"{server.url}/dimuon.root"
    report = fb.merge([url, f"{url}:Events"], tmp_path / "merged.root", verify=True)
    assert report is not None
    assert fb.open(tmp_path / "merged.root").num_entries == 24_000
    shutil.copy(shared / "ttree" / "hzz_zlib.root", server.data / "hzz.root")
    fb.convert(f"{server.url}/hzz.root", tmp_path / "hzz.root")
    assert fb.open(tmp_path / "hzz.root").num_entries == fb.open(server.data / "hzz.root").num_entries


def test_the_program_reads_them(server, tmp_path):
    def run(*arguments):
        done = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = run("ls", "--json", f"{server.url}/dav/")
    names = [entry["name"] for entry in json.loads(out)["entries"]]
    assert (code, "dimuon.root" in names) == (0, True)
    code, out, error = run("--stats", "info", f"{server.url}/dimuon.root:Events")
    assert (code, "12,000" in out) == (0, True)
    assert "requests in" in error
    assert run("verify", f"{server.url}/dimuon.root")[0] == 0
    for name, code in [("dimuon.root", 0), ("none.root", 3)]:
        found, out, error = run("cp", f"{server.url}/signed/{name}?sig=a%2Fb%3D", tmp_path / "copy.root")
        assert (found, "sig=" in out + error) == (code, False), out + error
    code, _, error = run("info", f"{server.url}/none.root")
    assert (code, "no such file" in error) == (3, True)


def test_a_file_that_was_replaced_is_told(server, dimuon):
    path = server.data / "replaced.root"
    shutil.copy(dimuon, path)
    shutil.copy(server.data / "long.root", path)
    nt = fb.open(f"{server.url}/replaced.root")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    with pytest.raises(fb.FileError, match="changed") as raised:
        nt.arrays()
    assert raised.value.kind == "file-changed"


def test_what_is_for_the_server_is_no_pattern(server):
    """`?sig={a,b}` was expanded to two files."""
    expected = fb.open(server.data / "dimuon.root").num_entries
    for url in (f"{server.url}/dimuon.root?sig={{a,b}}", f"{server.url}/dav/dimuon*.root?sig={{a,b}}"):
        assert len(fb.concatenate(url, ["nMuon"])) == expected
    both = fb.open(f"{server.url}/dav/{{dimuon,dimuon*}}.root?sig={{a,b}}")
    assert both.num_entries == expected


def test_patterns_need_a_server_that_lists_directories(server):
    with pytest.raises(fb.FileError, match=r"does not list directories .*give the URLs of the files"):
        fb.open(f"{server.url}/dimu*.root")


def test_a_file_that_is_called_as_a_pattern_is_that_one(server):
    """It was opened by its path but not by its URL: `no file matches`."""
    shutil.copy(server.data / "dimuon.root", server.data / "[d].root")
    (server.data / "d.root").write_bytes(b"another")
    try:
        assert fb.open(f"{server.url}/dav/[d].root").num_entries == 12_000
        with pytest.raises(fb.FormatError):
            fb.open(f"{server.url}/dav/[cd].root")
    finally:
        for name in ("[d].root", "d.root"):
            (server.data / name).unlink()


def test_a_question_mark_is_told_to_be_no_pattern(server):
    with pytest.raises(fb.NotFoundError, match=r"in patterns of URLs, only \* and \[\]"):
        fb.open(f"{server.url}/dav/dimu?n.root")
    with pytest.raises(fb.NotFoundError) as raised:
        fb.open(f"{server.url}/dimu?n=1")
    assert "pattern" not in str(raised.value)


def test_the_program_says_what_to_do(server, tmp_path):
    """Copies of whole files, which continue after a missing one; directories; globs where one file is expected."""

    def run(*words):
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    url = f"{server.url}/dimuon.root"
    code, _, said = run("cp", f"{url}:Events", "copies/")
    assert (code, 'leave out ":Events"' in said) == (3, True), said
    code, _, said = run("cp", f"{server.url}/missing.root", url, "copies/")
    assert (code, "missing.root" in said) == (3, True), said
    assert (tmp_path / "copies" / "dimuon.root").read_bytes() == (server.data / "dimuon.root").read_bytes()
    code, listed, said = run("ls", "copies")
    assert (code, "dimuon.root" in listed) == (0, True), said
    code, _, said = run("head", f"{server.url}/dimu*.root")
    assert (code, "give the URLs of the files instead of a pattern" in said) == (3, True), said
    code, _, said = run("convert", "copies/dimuon.root", f"{server.url}/dav/folder")
    assert (code, f"{server.url}/dav/folder/" in said) == (2, True), said
    assert not (server.data / "dav" / "folder").exists()
    (server.data / "dav").mkdir(exist_ok=True)
    code, _, said = run("cp", "copies/dimuon.root", f"{server.url}/dav/there.root")
    assert code == 0, said
    code, _, said = run("merge", f"{server.url}/dav/there.root", url, url)
    assert (code, "already exists" in said, "--append" in said) == (2, True, False), said
