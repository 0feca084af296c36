"""Files of XRootD servers, with the same results as local files; with real servers."""

import contextlib
import json
import multiprocessing
import pickle
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import servers
import uproot
from compare import same

import femtobarn as fb

TREES = ["hzz_zlib", "nanoaod_v5_1000", "edm4hep", "tree_with_doubly_jagged"]


@pytest.fixture(scope="module")
def server(testdata, need_program):
    """Return a server with the project's files."""
    need_program("xrootd")
    server = servers.Xrootd()
    for path in [testdata / "dimuon.root", *sorted((testdata / "rntuple").glob("*.root"))]:
        shutil.copy(path, server.data / path.name)
    servers.own(server.data)
    yield server
    server.close()


def ntuples(path):
    with uproot.open(path) as file:
        names = file.classnames(cycle=False).items()
        return [name for name, kind in names if kind == "ROOT::RNTuple"]


def test_all_files_are_as_on_disk(server):
    n_ntuples = 0
    for path in sorted(server.data.glob("*.root")):
        for name in ntuples(path):
            try:
                expected = fb.open({path: name})
            except fb.FemtobarnError as error:
                with pytest.raises(type(error)):
                    fb.open({f"{server.url}/{path.name}": name})
                continue
            found = fb.open({f"{server.url}/{path.name}": name})
            assert found.typenames() == expected.typenames()
            assert same(found.arrays(), expected.arrays())
            assert found.verify().ok == expected.verify().ok
            n_ntuples += 1
    assert n_ntuples > 50


@pytest.mark.parametrize("name", TREES)
def test_trees_are_as_on_disk(server, shared, name):
    path = shared / "ttree" / f"{name}.root"
    server.put(path.name, path.read_bytes())
    with uproot.open(path) as file:
        trees = [tree for tree, kind in file.classnames(cycle=False).items() if kind == "TTree"]
    for tree in trees:
        found, expected = (fb.open({file: tree}) for file in (f"{server.url}/{path.name}", path))
        fields = expected.keys(recursive=False)[:100]
        assert same(found.arrays(fields), expected.arrays(fields))


def large(path):
    """Write a file that is larger than what is read at opening."""
    values = np.random.default_rng(1).random(100_000)
    fb.write(path, dict.fromkeys("xyz", values), compression=None)
    return path.read_bytes()


def test_few_requests_are_made(server, tmp_path):
    """Reading is one vector read, with the ranges and bytes that `explain` reports."""
    server.put("large.root", large(tmp_path / "large.root"))
    nt = fb.open(f"{server.url}/large.root")
    plan = nt.explain(["x", "z"])
    before = nt.metrics
    nt.arrays(["x", "z"])
    after = nt.metrics
    assert after.requests - before.requests == 1
    assert (plan.requests, plan.vectors) == (1, after.vectors - before.vectors)
    assert after.bytes_read - before.bytes_read == plan.bytes_read
    assert plan.bytes_read <= 1.05 * plan.bytes_needed


def test_a_small_file_is_read_by_opening_it(server):
    nt = fb.open(f"{server.url}/dimuon.root")
    plan, before = nt.explain(["Muon_pt"]), nt.metrics
    assert len(nt.arrays(["Muon_pt"])) == 12_000
    after = nt.metrics
    assert (plan.requests, plan.vectors, plan.bytes_read, plan.overhead) == (0, 0, 0, 0.0)
    assert (after.requests, after.vectors, after.bytes_read) == (before.requests, before.vectors, before.bytes_read)


def test_many_files_and_steps(server, dimuon):
    url = f"{server.url}/dimuon.root"
    expected = fb.open([dimuon] * 3).arrays(["Muon_pt"])
    assert same(fb.open([url] * 3).arrays(["Muon_pt"]), expected)
    n = sum(len(batch) for batch in fb.iterate([url] * 3, ["Muon_pt"], step_size=5000))
    assert n == len(expected)
    assert same(fb.concatenate([url, dimuon], ["nMuon"]), fb.concatenate([dimuon] * 2, ["nMuon"]))


def test_what_is_open_can_be_pickled(server, dimuon):
    nt = pickle.loads(pickle.dumps(fb.open(f"{server.url}/dimuon.root:Events")))
    assert same(nt.arrays(["nMuon"]), fb.open(dimuon).arrays(["nMuon"]))


def _sum(nt, queue):
    queue.put(int(np.sum(nt.arrays(["nMuon"], library="np")["nMuon"])))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_is_open_can_be_read_after_a_fork(server):
    """Connections belong to the process that made them."""
    nt = fb.open(f"{server.url}/dimuon.root")
    expected = int(np.sum(nt.arrays(["nMuon"], library="np")["nMuon"]))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_sum, args=(nt, queue)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == [expected] * 2
    for child in children:
        child.join(timeout=60)
    assert int(np.sum(nt.arrays(["nMuon"], library="np")["nMuon"])) == expected


def test_what_is_not_there_is_told(server):
    with pytest.raises(FileNotFoundError, match=r"root://127\.0\.0\.1:\d+//none\.root"):
        fb.open(f"{server.url}/none.root")
    port = servers.free_port()
    start = time.monotonic()
    with pytest.raises(fb.FemtobarnError, match=rf"root://127\.0\.0\.1:{port}//a\.root.*refused"):
        fb.open(f"root://127.0.0.1:{port}//a.root:Events")
    assert time.monotonic() - start < 10
    with pytest.raises(fb.FemtobarnError, match="no-such-host"):
        fb.open("root://no-such-host.invalid//a.root")


def test_a_server_that_is_away_is_no_damage(capfd):
    """The program reported that the file was corrupt."""
    url = f"root://127.0.0.1:{servers.free_port()}//a.root"
    for verb in ("ls", "info", "verify"):
        assert fb._core.cli_main([verb, "--json", f"{url}:Events" if verb != "ls" else url]) == 3
        assert json.loads(capfd.readouterr().err)["error"]["kind"] == "remote-failed"


def test_secrets_are_in_no_message(server):
    with pytest.raises(fb.NotFoundError) as missing:
        fb.open(f"{server.url}/none.root?authz=SECRET")
    nt = fb.open(f"{server.url}/dimuon.root?authz=SECRET")
    with pytest.raises(fb.FemtobarnError) as raised:
        nt.arrays(["nothing"])
    assert "SECRET" not in f"{missing.value} {raised.value} {nt!r} {nt.metrics!r}"


def test_the_program_reads_them(server, capfd):
    assert fb._core.cli_main(["ls", f"{server.url}/dimuon.root"]) == 0
    assert "Events" in capfd.readouterr().out
    assert fb._core.cli_main(["verify", f"{server.url}/dimuon.root:Events"]) == 0
    assert fb._core.cli_main(["head", f"{server.url}/dimuon.root"]) == 0
    capfd.readouterr()
    assert fb._core.cli_main(["ls", f"{server.url}/none.root"]) == 3
    assert "no such file" in capfd.readouterr().err


def test_patterns_and_folders_are_listed(server, capfd):
    for name in ("runs/a/1.root", "runs/a/2.root", "runs/b/deep/1.root", "runs/b/note.txt"):
        server.put(name, (server.data / "dimuon.root").read_bytes())
    files = {
        "runs/a/*.root": ["runs/a/1.root", "runs/a/2.root"],
        "runs/*/1.root": ["runs/a/1.root"],
        "runs/**/1.root": ["runs/a/1.root", "runs/b/deep/1.root"],
        "runs/[ab]/*": ["runs/a/1.root", "runs/a/2.root", "runs/b/note.txt"],
        "runs/{a,b/deep}/1.root": ["runs/a/1.root", "runs/b/deep/1.root"],
    }
    for pattern, expected in files.items():
        opened = fb.open(f"{server.url}/{pattern}:Events")
        assert [path for path, _ in opened.files] == [f"{server.url}/{path}" for path in expected]
    for pattern in ("runs/c*/1.root", "none/*.root"):
        with pytest.raises(fb.NotFoundError):
            fb.open(f"{server.url}/{pattern}")
    assert fb._core.cli_main(["ls", "--json", f"{server.url}/runs/b"]) == 0
    without_slash = capfd.readouterr().out
    assert fb._core.cli_main(["ls", "--json", f"{server.url}/runs/b/"]) == 0
    entries = json.loads(capfd.readouterr().out)["entries"]
    assert [(entry["name"], entry["is_folder"]) for entry in entries] == [("deep", True), ("note.txt", False)]
    assert json.loads(without_slash)["entries"] == entries
    assert fb._core.cli_main(["ls", f"{server.url}/none/"]) == 3
    assert fb._core.cli_main(["info", f"{server.url}/runs/a/*.root"]) == 0


def test_they_are_inputs_of_merges_and_conversions(server, dimuon, tmp_path):
    url = f"{server.url}/dimuon.root"
    report = fb.merge([url, dimuon], tmp_path / "merged.root", verify=True)
    assert report.entries == {"Events": 24_000}
    assert fb.open(tmp_path / "merged.root").verify(against=[dimuon, url]).ok
    fb.skim(url, tmp_path / "skimmed.root", where="nMuon >= 2", verify=True)
    fb.convert(url, tmp_path / "table.parquet")
    assert (tmp_path / "table.parquet").stat().st_size > 0


def test_a_server_that_comes_back_is_read_on(need_program, tmp_path):
    need_program("xrootd")
    server = servers.Xrootd()
    content = large(tmp_path / "large.root")
    try:
        server.put("large.root", content)
        nt = fb.open(f"{server.url}/large.root")
        server.restart()
        assert len(nt.arrays(["x"])) == 100_000
        # another file of the same name cannot be continued
        time.sleep(1.1)
        server.put("large.root", content)
        server.restart()
        with pytest.raises(fb.FemtobarnError, match="has changed"):
            nt.arrays(["y"])
    finally:
        server.close()


INTERRUPTED = """
import os, signal, sys, threading
import femtobarn as fb
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fb.open(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_waiting(tmp_path):
    """A silent server was waited for until the timeout."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"root://127.0.0.1:{silent.getsockname()[1]}//a.root"
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", INTERRUPTED, url], capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.returncode) == ("interrupted", 0), done.stderr
        assert time.monotonic() - start < 5


def test_files_are_written_to_servers(server, tmp_path):
    """Files appear completely or not at all; ROOT's own client reads what was written."""
    url = f"{server.url}/written/new.root"
    columns = {"n": np.arange(300_000), "x": np.random.default_rng(1).random(300_000)}
    with fb.recreate(url) as file:
        file.mkdir("runs")["Runs"] = {"run": [1, 2]}
        events = file.mkrntuple("Events", columns)
        events.extend(columns)
        assert not (server.data / "written" / "new.root").exists()
    assert [path.name for path in (server.data / "written").iterdir()] == ["new.root"]
    found = fb.open(f"{url}:Events").arrays(library="np")
    assert all(np.array_equal(found[name], columns[name]) for name in columns)
    assert fb.open(f"{url}:runs/Runs").num_entries == 2
    copy = tmp_path / "copy.root"
    subprocess.run(["xrdcp", "-s", f"{server.url}//written/new.root", copy], check=True, timeout=60)
    assert fb.open(f"{copy}:Events").verify().ok
    with uproot.open(copy) as file:
        assert np.array_equal(file["Events"].arrays(["x"], library="np")["x"], columns["x"])

    with contextlib.suppress(ZeroDivisionError), fb.recreate(url) as file:
        file["Events"] = {"n": [1]}
        _ = 1 / 0
    assert sorted(path.name for path in (server.data / "written").iterdir()) == ["new.root"]
    assert fb.open(f"{url}:Events").num_entries == 300_000
    with pytest.raises(fb.FileError) as raised:
        fb.create(url)
    assert raised.value.kind == "create-failed"
    with pytest.raises(fb.FileError):
        fb.update(url)
    fb.write(f"{server.url}/written/other.root", {"n": [1, 2, 3]})
    assert fb.open(f"{server.url}/written/other.root").num_entries == 3


def busy_server():
    """Listen on a port; clients that log in are asked to come back in five seconds, and then refused."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        protocol = struct.pack(">IBBBB", 0x511, 0, 0, 0, 1)
        for number in range(2):
            client, _ = listener.accept()
            with client:
                client.recv(44, socket.MSG_WAITALL)
                client.sendall(struct.pack(">HHI", 0, 0, 8) + protocol)
                client.sendall(struct.pack(">HHI", 0, 0, 8) + protocol)
                client.recv(24, socket.MSG_WAITALL)
                status, body = (
                    (4005, struct.pack(">I", 5) + b"staging") if number == 0 else (4003, b"\0\0\x0b\xc3none\0")
                )
                client.sendall(struct.pack(">HHI", 0, status, len(body)) + body)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_a_long_wait_is_told():
    """It was waited for silently, for up to ten minutes."""
    with busy_server() as listener:
        port = listener.getsockname()[1]
        with (
            pytest.warns(
                fb.ServerWarning, match=f"127.0.0.1:{port} asks to wait 5 s for login .staging.*longest_wait"
            ) as told,
            pytest.raises(fb.FemtobarnError),
        ):
            fb.open(f"root://127.0.0.1:{port}//a.root")
        assert told[0].filename == __file__


def test_a_long_wait_is_told_by_the_program():
    """This holds while others hold the lock of standard error, too."""
    with busy_server() as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]
        done = subprocess.run([*command, "info", f"root://127.0.0.1:{port}//a.root"], capture_output=True, text=True)
        lines = done.stderr.splitlines()
        assert lines[0].startswith(f"fb: 127.0.0.1:{port} asks to wait 5 s for login (staging)"), done.stderr
        assert done.returncode == 3
        assert not done.stdout
