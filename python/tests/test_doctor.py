"""`fb doctor`: each step of opening a file, on real servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import fsspec
import pytest
import servers
from page_stores import Daos

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]
# the second form, if an authority of the machine has the same name
UNTRUSTED = re.compile(
    "invalid peer certificate: (UnknownIssuer|BadSignature).*; certificate of CN=localhost, by CN=localhost"
)
READING = ["latency", "throughput", "settings"]


def doctor(*arguments, **variables):
    """Return the exit code, and the checks by name."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FEMTOBARN_", "BEARER_"))}
    command = [*PROGRAM, "doctor", "--json", *map(str, arguments)]
    done = subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] == (done.returncode == 0)
    assert "SECRET" not in done.stdout + done.stderr
    return done.returncode, {check["name"]: check for check in document["checks"]}


def fine(*arguments, **variables):
    code, checks = doctor(*arguments, **variables)
    assert code == 0, checks
    assert {check["result"] for check in checks.values()} == {"ok"}
    return checks


def failed(name, *arguments, **variables):
    """Return the failed step, after checking that earlier steps are fine and later ones were not reached."""
    code, checks = doctor(*arguments, **variables)
    results = [check["result"] for check in checks.values()]
    at = list(checks).index(name)
    assert code == 1
    assert results == ["ok"] * at + ["FAILED"] + ["not reached"] * (len(results) - at - 1), checks
    assert all(name in checks for name in READING)
    assert checks[name]["advice"]
    assert not any(check["advice"] for other, check in checks.items() if other != name)
    return checks[name]


@pytest.fixture
def xrootd(need_program, testdata):
    """Return a function that starts a server with the project's file and additional configuration."""
    need_program("xrootd")
    started = []

    def start(more=None):
        server = servers.Xrootd(more)
        started.append(server)
        server.put("runs/dimuon.root", (testdata / "dimuon.root").read_bytes())
        return server, f"{server.url}/runs/dimuon.root"

    yield start
    for server in started:
        server.close()


def nginx(testdata, need_program, has_tls=False):
    need_program("nginx")
    server = servers.Nginx(has_tls)
    shutil.copy(testdata / "dimuon.root", server.data / "dimuon.root")
    return server


def test_xrootd(xrootd):
    server, url = xrootd()
    checks = fine(f"{url}?authz=SECRET")
    assert "127.0.0.1" in checks["addresses"]["note"]
    assert f"127.0.0.1:{server.port} in " in checks["connection"]["note"]
    assert "a file server, v" in checks["protocol"]["note"]
    assert checks["TLS"]["note"].startswith("not used")
    assert checks["authentication"]["note"] == "not required"
    assert checks["redirects"]["note"].startswith("none")
    assert "255567 bytes, changed on " in checks["file"]["note"]
    assert "adler32 " in checks["file"]["note"]
    assert "1024 ranges (readv_iov_max)" in checks["vector reads"]["note"]
    assert checks["latency"]["seconds"] > 0
    assert "256 kB in 1 vector read" in checks["throughput"]["note"]
    assert "concurrency 8, " in checks["settings"]["note"]
    checks = fine(url, FEMTOBARN_CONCURRENCY="3")
    assert "concurrency 3 (FEMTOBARN_CONCURRENCY), " in checks["settings"]["note"]
    assert "100 kB in " in fine("--bytes", "100kB", url)["throughput"]["note"]
    assert "no such file" in failed("redirects", url.replace("dimuon", "none"))["note"]


def test_tls_and_logins_of_xrootd(xrootd):
    server, url = xrootd(servers.tls)
    url = url.replace("root://", "roots://")
    trusted = {"FEMTOBARN_AUTHORITIES": str(server.folder / "cert.pem")}
    checks = fine(url, **trusted)
    assert checks["TLS"]["note"].startswith("TLSv1_")
    assert "certificate of CN=localhost, by CN=localhost, until 20" in checks["TLS"]["note"]
    assert checks["authentication"]["note"] == "accepted: unix; used: unix"
    check = failed("TLS", url)
    assert UNTRUSTED.match(check["note"])
    assert "FEMTOBARN_AUTHORITIES" in check["advice"]
    server, url = xrootd(servers.sss)
    check = failed("authentication", url, XrdSecSSSKT=str(server.folder / "none"))
    assert "accepted: sss; " in check["note"]
    checks = fine(url, XrdSecSSSKT=str(server.folder / "keytab"))
    assert checks["authentication"]["note"] == "accepted: sss; used: sss"
    check = failed("TLS", url.replace("root://", "roots://"))
    assert "the server does not support it" in check["note"]


def test_a_server_of_x509_proxies(xrootd, need_program):
    need_program("xrdgsiproxy")
    _, url = xrootd(servers.gsi)
    assert "FEMTOBARN_HANDLER=fsspec" in failed("authentication", url)["note"]


def test_a_redirector(need_program, testdata):
    need_program("cmsd")
    cluster = servers.Cluster()
    try:
        cluster.put(0, "dimuon.root", (testdata / "dimuon.root").read_bytes())
        checks = fine(f"root://127.0.0.1:{cluster.port}//dimuon.root")
        assert "a redirector" in checks["protocol"]["note"]
        assert checks["redirects"]["note"].startswith("to ")
        assert checks["redirects"]["note"].endswith(f":{cluster.servers[0]}")
    finally:
        cluster.close()


def test_http(testdata, need_program):
    server = nginx(testdata, need_program)
    try:
        checks = fine(f"{server.url}/dimuon.root:Events")
        assert checks["protocol"]["note"].startswith("HTTP/1.1, nginx")
        assert checks["authentication"]["note"] == "not required"
        assert checks["vector reads"]["note"] == "ranges, several per request"
        assert "tag " in checks["file"]["note"]
        assert "opening has read the whole file" in checks["latency"]["note"]
        assert "redirects" not in checks
        checks = fine(f"{server.url}/moved/dimuon.root")
        assert checks["redirects"]["note"] == f"to {server.url}/dimuon.root"
        assert "no ranges" in fine(f"{server.url}/whole/dimuon.root")["vector reads"]["note"]
        check = failed("authentication", f"{server.url}/token/dimuon.root", BEARER_TOKEN="SECRET")
        assert "401" in check["note"]
        assert "bearer_token" in check["advice"]
        checks = fine(f"{server.url}/token/dimuon.root", BEARER_TOKEN="good")
        assert checks["authentication"]["note"] == "a bearer token was sent"
        private = server.url.replace("://", "://me:secret@") + "/private/dimuon.root"
        assert "user and password" in fine(private)["authentication"]["note"]
        failed("authentication", private.replace("secret", "SECRET"))
        failed("authentication", f"{server.url}/signed/dimuon.root?sig=SECRET")
        assert "no such file" in failed("file", f"{server.url}/none.root")["note"]
    finally:
        server.close()


def test_https(testdata, need_program):
    server = nginx(testdata, need_program, has_tls=True)
    try:
        checks = fine(f"{server.url}/dimuon.root", FEMTOBARN_AUTHORITIES=str(server.folder / "cert.pem"))
        assert checks["protocol"]["note"].startswith("HTTP/2.0")
        assert "certificate of CN=localhost" in checks["TLS"]["note"]
        check = failed("TLS", f"{server.url}/dimuon.root")
        assert UNTRUSTED.match(check["note"])
        assert "FEMTOBARN_AUTHORITIES" in check["advice"]
        check = failed("TLS", f"{server.url}/dimuon.root", FEMTOBARN_AUTHORITIES="/nowhere")
        assert "/nowhere has no certificates" in check["note"]
    finally:
        server.close()


@pytest.mark.parametrize("scheme", ["root://", "https://", "http://"])
def test_what_cannot_be_reached(scheme):
    slash = "//" if scheme == "root://" else "/"
    check = failed("addresses", f"{scheme}no-such-host.invalid{slash}a.root")
    assert "no-such-host.invalid" in check["note"]
    port = servers.free_port()
    check = failed("connection", f"{scheme}127.0.0.1:{port}{slash}a.root")
    assert "refused" in check["note"]
    assert str(port) in check["advice"]


def test_an_object_store(need_store, testdata):
    need_store("minio")
    import object_servers

    server = object_servers.Minio()
    try:
        server.put("private/dimuon.root", (testdata / "dimuon.root").read_bytes())
        keys = server.about()
        endpoint = str(keys["endpoint"])
        variables = {
            "FEMTOBARN_ENDPOINT": endpoint,
            "FEMTOBARN_ACCESS_KEY_ID": str(keys["access_key_id"]),
            "FEMTOBARN_SECRET_ACCESS_KEY": str(keys["secret_access_key"]),
        }
        checks = fine("s3://private/dimuon.root", **variables)
        note = checks["store"]["note"]
        assert note.startswith(f"S3 at {endpoint}, bucket private, region us-east-1, the bucket in the path, signed by")
        assert keys["secret_access_key"] not in str(checks)
        assert "255567 bytes" in checks["file"]["note"]
        failed("file", "s3://private/dimuon.root", **{**variables, "FEMTOBARN_SECRET_ACCESS_KEY": "SECRET"})
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            fb.clone(testdata / "dimuon.root", "ntpl+s3://private/events")
        checks = fine("ntpl+s3://private/events", **variables)
        assert list(checks) == ["store", "addresses", "connection", "file", "vector reads", "ntuple", *READING]
        assert checks["store"]["note"].startswith(f"S3 at {endpoint}, bucket private")
        assert checks["latency"]["seconds"] > 0
        assert "100 kB in " in fine("--bytes", "100kB", "ntpl+s3://private/events", **variables)["throughput"]["note"]
        failed("file", "ntpl+s3://private/events", **{**variables, "FEMTOBARN_SECRET_ACCESS_KEY": "SECRET"})
        failed("file", "ntpl+s3://private/none", **variables)
    finally:
        server.close()


def test_an_ntuple_in_objects_of_a_directory(dimuon, tmp_path):
    url = f"ntpl+file://{tmp_path}/events"
    fb.clone(dimuon, url)
    checks = fine(url)
    assert list(checks) == ["file", "ntuple", *READING]
    assert "MB/s: " in checks["throughput"]["note"]
    largest = max(tmp_path.glob("events/*"), key=lambda path: path.stat().st_size)
    largest.unlink()
    assert largest.name in failed("latency", url)["note"]
    assert "no-events" in failed("file", f"ntpl+file://{tmp_path}/no-events")["note"]


def test_an_ntuple_in_daos(dimuon, tmp_path, monkeypatch):
    daos = Daos(tmp_path, {}, monkeypatch)
    url = daos.url("data")
    fb.clone(dimuon, url)
    fb.write(url, {"x": [1.0]}, "others")
    variables = {name: value for name, value in os.environ.items() if name == "FEMTOBARN_LIBDAOS"}
    checks = fine(f"{url}:Events", **variables)
    assert list(checks) == ["library", "container", "ntuple", *READING]
    assert "libdaos" in checks["library"]["note"]
    assert checks["container"]["note"] == "it lists 2 ntuples"
    assert checks["latency"]["seconds"] > 0
    assert "MB/s: " in checks["throughput"]["note"]
    assert "none" in failed("ntuple", f"{url}:none", **variables)["note"]
    # of a container with several, each
    document = subprocess.check_output([*PROGRAM, "doctor", "--json", url], text=True, timeout=100)
    steps = json.loads(document)["checks"]
    assert [check["name"] for check in steps] == ["library", "container", *["ntuple", *READING] * 2]
    assert all(check["result"] == "ok" for check in steps)
    names = [check["note"].split(": ")[0] for check in steps[2:]]
    assert names == [*["Events"] * 4, *["others"] * 4]
    assert "daos cont list" in failed("container", daos.url("gone"), **variables)["note"]
    check = failed("library", url, **{**variables, "FEMTOBARN_LIBDAOS": "/nowhere/libdaos.so"})
    assert "/nowhere/libdaos.so" in check["note"]


def test_files_of_this_machine_and_of_fsspec(dimuon, tmp_path, capfd):
    checks = fine(dimuon)
    assert list(checks) == ["file", *READING]
    assert list(fine(f"simplecache::file://{dimuon}")) == ["file", *READING]
    assert "no such file" in failed("file", tmp_path / "none.root")["note"]
    fsspec.filesystem("memory").pipe_file("/empty.root", b"")
    assert fb._core.cli_main(["doctor", "memory://empty.root", dimuon]) == 0
    out = capfd.readouterr().out
    assert out.count("throughput") == 2
    assert fb._core.cli_main(["doctor", "root://h"]) == 1
    out = capfd.readouterr().out
    assert "FAILED" in out
    assert "not reached" in out
