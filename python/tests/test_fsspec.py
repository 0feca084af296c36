"""Files through fsspec, with the same results as local files."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import fsspec
import numpy as np
import pytest
import servers
from compare import same

import femtobarn as fb
from femtobarn._core import find_files

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


@pytest.fixture
def memory(dimuon):
    """Return the in-memory file system with the project's file; a fork has it, too."""
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/d/dimuon.root", Path(dimuon).read_bytes())
    yield fs
    fs.rm("/", recursive=True)


@pytest.fixture
def archive(dimuon, tmp_path):
    """Return an archive with the project's file."""
    path = tmp_path / "files.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(dimuon, "runs/dimuon.root")
    return path


@pytest.fixture(scope="module")
def nginx(testdata, need, need_program):
    """Return an nginx with the project's file."""
    need("aiohttp")
    need_program("nginx")
    server = servers.Nginx()
    shutil.copy(testdata / "dimuon.root", server.data / "dimuon.root")
    yield server
    server.close()


def test_every_kind_of_url_is_read_as_the_file(memory, archive, dimuon, nginx):
    expected = fb.open(f"{dimuon}:Events").arrays()
    for url in (
        "memory://d/dimuon.root:Events",
        f"simplecache::file://{dimuon}:Events",
        f"zip://runs/dimuon.root::{archive}",
        f"zip://runs/dimuon.root:Events::file://{archive}",
        f"simplecache::{nginx.url}/dimuon.root:Events",
        f"filecache::{nginx.url}/dimuon.root:Events",
    ):
        nt = fb.open(url)
        assert same(nt.arrays(), expected), url
        assert nt.verify().ok
        assert nt.file_path == find_files(url)[0][0]
    found = fb.open(f"{nginx.url}/dimuon.root", storage_options={"handler": "fsspec"})
    assert same(found.arrays(), expected)


@pytest.mark.parametrize("size", [None, "4 kB"])
def test_vector_reads_are_calls_of_cat_ranges_and_explain_says_them(memory, monkeypatch, size):
    calls = []
    cat_ranges = type(memory).cat_ranges

    def counted(self, paths, starts, ends, **options):
        calls.append(sum(ends) - sum(starts))
        return cat_ranges(self, paths, starts, ends, **options)

    monkeypatch.setattr(type(memory), "cat_ranges", counted)
    options = {"largest_gap": 0, "largest_vector": size} if size else None
    nt = fb.open("memory://d/dimuon.root", storage_options=options)
    assert len(calls) == nt.metrics.vectors == 1
    plan = nt.explain(["Muon_pt", "Muon_phi"])
    before = nt.metrics
    nt.arrays(["Muon_pt", "Muon_phi"])
    after = nt.metrics
    assert len(calls) - 1 == plan.vectors == after.vectors - before.vectors
    assert sum(calls[1:]) == plan.bytes_read == after.bytes_read - before.bytes_read
    assert plan.requests == after.requests - before.requests
    assert (plan.vectors > 5) == (size is not None)


def test_many_threads_and_files_read_at_once(memory, archive, dimuon):
    expected = fb.open([dimuon] * 6).arrays()
    for url in ("memory://d/dimuon.root", f"zip://runs/dimuon.root::{archive}"):
        nt = fb.open([url] * 6, storage_options={"largest_vector": "20 kB"})
        found = [None] * 4

        def read(i, nt=nt, found=found):
            found[i] = nt.arrays(threads=3)

        readers = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout=60)
        assert all(same(array, expected) for array in found)
        assert sum(map(len, fb.iterate([url] * 6, ["nMuon"], step_size=1000))) == 72_000


def test_streams_are_read_by_whoever_holds_the_gil(memory, need):
    """Consumers of a stream wait for threads of ours, which need the GIL."""
    polars, arrow = need("polars"), need("pyarrow")
    nt = fb.open("memory://d/dimuon.root", storage_options={"largest_vector": "20 kB"})
    batches = nt.arrays(["nMuon"], library="batch")
    assert arrow.table(batches).num_rows == 12_000
    assert polars.DataFrame(nt).height == 12_000
    assert arrow.RecordBatchReader.from_stream(nt).read_all().num_rows == 12_000
    # abandoned while it reads
    steps = nt.iterate(step_size=100)
    next(steps)
    del steps
    gc.collect()


def test_what_is_open_can_be_pickled(memory, dimuon):
    options = {"handler": "fsspec", "largest_gap": 0, "skip_instance_cache": True}
    nt = pickle.loads(pickle.dumps(fb.open("memory://d/dimuon.root:Events", storage_options=options)))
    assert same(nt.arrays(["nMuon"]), fb.open(dimuon).arrays(["nMuon"]))
    assert "gaps are not read" in nt.explain().fetched_by[0]


def _sum(nt, queue):
    queue.put(int(np.sum(nt.arrays(["nMuon"], library="np")["nMuon"])))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_is_open_can_be_read_after_a_fork(memory, archive, nginx):
    """Threads, connections and open files of the parent cannot be used by its children."""
    urls = ["memory://d/dimuon.root", f"zip://runs/dimuon.root::{archive}", f"{nginx.url}/dimuon.root"]
    for url in urls:
        nt = fb.open(url, storage_options={"handler": "fsspec"})
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


def test_a_file_that_was_replaced_is_told(memory, nginx, dimuon):
    url = "memory://d/dimuon.root"
    opened = [fb.open(url), fb.open(f"{nginx.url}/dimuon.root", storage_options={"handler": "fsspec"})]
    content = bytearray(Path(dimuon).read_bytes())
    content[-1] ^= 1
    memory.pipe_file("/d/dimuon.root", bytes(content))
    path = nginx.data / "dimuon.root"
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    for nt in opened:
        with pytest.raises(fb.FileError) as raised:
            nt.arrays()
        assert raised.value.kind == "file-changed"
    shutil.copy(dimuon, path)
    memory.pipe_file("/d/dimuon.root", b"root")
    with pytest.raises(fb.FileError):
        opened[0].arrays(["nMuon"])


def test_patterns_and_folders(memory, archive, dimuon, nginx, capfd):
    memory.pipe_file("/d/other.root", Path(dimuon).read_bytes())
    found = fb.open("memory://d/*.root:Events")
    assert [path for path, _ in found.files] == ["memory://d/dimuon.root", "memory://d/other.root"]
    assert fb.open("memory://d/{dimuon,other}.root").num_entries == 24_000
    assert fb.open(f"zip://*/*.root::{archive}").files[0][0] == f"zip://runs/dimuon.root::{archive}"
    found = fb.open(f"simplecache::{nginx.url}/d*.root:Events")
    assert found.files[0][0] == f"simplecache::{nginx.url}/dimuon.root"
    found = fb.open(f"{nginx.url}/d*.root:Events", storage_options={"handler": "fsspec"})
    assert found.files[0][0] == f"{nginx.url}/dimuon.root"
    with pytest.raises(FileNotFoundError, match="no file matches memory://d/none"):
        fb.open("memory://d/none*.root")
    memory.mkdir("/d/deep")
    assert fb._core.cli_main(["ls", "--json", "memory://d/"]) == 0
    entries = json.loads(capfd.readouterr().out)["entries"]
    assert [(entry["name"], entry["is_folder"]) for entry in entries] == [
        ("deep", True),
        ("dimuon.root", False),
        ("other.root", False),
    ]
    assert entries[1]["bytes"] == Path(dimuon).stat().st_size


def test_the_program_reads_them(archive, dimuon, tmp_path):
    def run(*arguments):
        done = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    url = f"zip://runs/dimuon.root::{archive}"
    assert run("ls", url)[0] == 0
    code, out, error = run("--stats", "info", f"zip://runs/dimuon.root:Events::{archive}")
    assert (code, "12,000" in out) == (0, True)
    assert "1 request in 1 vector read of 1 range" in error
    assert run("verify", url)[0] == 0
    (tmp_path / "to").mkdir()
    assert run("cp", url, tmp_path / "to")[0] == 0
    assert (tmp_path / "to" / "dimuon.root").read_bytes() == Path(dimuon).read_bytes()
    code, _, error = run("info", f"zip://runs/none.root::{archive}")
    assert (code, "no such file: zip://runs/none.root" in error) == (3, True)
    code, _, error = run("info", "gopher://h/a.root")
    assert (code, "gopher:// is not supported" in error) == (3, True)


def test_they_are_inputs_of_merges(memory, tmp_path, dimuon):
    fb.merge(["memory://d/dimuon.root", dimuon], tmp_path / "merged.root", verify=True)
    assert fb.open(tmp_path / "merged.root").num_entries == 24_000
    with pytest.raises(fb.UsageError, match="unsupported scheme"):
        fb.recreate("memory://d/new.root")


def test_errors_say_who_said_what_without_secrets(memory, nginx):
    with pytest.raises(fb.NotFoundError, match=r"no such file: memory://d/none\.root"):
        fb.open("memory://d/none.root")
    with pytest.raises(fb.FileError):
        fb.open("memory://d")
    options = {"handler": "fsspec", "client_kwargs": {"headers": {"Authorization": "Bearer SECRET"}}}
    with pytest.raises(fb.FileError, match=r"HTTPFileSystem raised ClientResponseError: 403") as raised:
        fb.open(f"{nginx.url}/signed/dimuon.root?sig=SECRET", storage_options=options)
    assert "SECRET" not in str(raised.value)
    with pytest.raises(fb.FileError) as raised:
        fb.open(f"simplecache::http://me:SECRET@127.0.0.1:{servers.free_port()}/a.root?SECRET2")
    assert "SECRET" not in str(raised.value)
    # a signature is sent unchanged if fsspec is told not to encode it
    options = {"http": {"encoded": True}}
    nt = fb.open(f"simplecache::{nginx.url}/signed/dimuon.root?sig=a%2Fb%3D", storage_options=options)
    assert len(nt.arrays(["nMuon"])) == 12_000
    assert "sig=" not in f"{nt!r} {nt.metrics.to_dict()}"


def test_options_are_those_of_the_file_system(memory, nginx, dimuon):
    """Settings that femtobarn's own clients do not have are errors there, and options here."""
    options = {"client_kwargs": {"headers": {"Authorization": "Bearer good"}}}
    url = f"{nginx.url}/token/dimuon.root"
    with pytest.raises(fb.UsageError, match='unknown setting "client_kwargs"'):
        fb.open(url, storage_options=options)
    assert fb.open(url, storage_options={**options, "handler": "fsspec"}).num_entries == 12_000
    found = fb.open(f"simplecache::{url}", storage_options={"http": options, "largest_gap": 0})
    assert same(found.arrays(), fb.open(dimuon).arrays())
    with pytest.raises(fb.UsageError, match="'client' cannot be pickled"):
        fb.open(url, storage_options={"handler": "fsspec", "client": threading.Lock()})
    with pytest.raises(fb.UsageError, match='invalid handler "uproot": expected femtobarn or fsspec'):
        fb.open(url, storage_options={"handler": "uproot"})
    with pytest.raises(fb.UsageError, match="invalid largest_gap"):
        fb.open("memory://d/dimuon.root", storage_options={"largest_gap": "much"})
    with pytest.raises(fb.UsageError, match="invalid storage option 'largest_gap'"):
        fb.open("memory://d/a.root", storage_options={"largest_gap": [1]})


def test_what_is_missing_is_told_with_how_to_install_it(monkeypatch, dimuon):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(fb.MissingDependencyError, match=r"pip install 'femtobarn\[fsspec\]'"):
        fb.open(f"simplecache::file://{dimuon}")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(fb.MissingDependencyError, match="paramiko"):
        fb.open("sftp://me:SECRET@h/a.root")


INTERRUPTED = """
import os, signal, sys, threading
import femtobarn as fb
threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fb.open(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_waiting(need):
    need("aiohttp")
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"simplecache::http://127.0.0.1:{silent.getsockname()[1]}/a.root"
        done = subprocess.run([sys.executable, "-c", INTERRUPTED, url], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("interrupted", 0), done.stderr


GSI = """
import sys, femtobarn as fb
print(len(fb.open(sys.argv[1]).arrays(["nMuon"])))
"""


def test_a_server_of_x509_proxies_is_read_by_xrootds_own_client(testdata, need, need_program, tmp_path):
    need("fsspec_xrootd")
    need_program("xrdgsiproxy")
    server = servers.Xrootd(servers.gsi)
    try:
        server.put("runs/dimuon.root", (testdata / "dimuon.root").read_bytes())
        url = f"root://localhost:{server.port}//runs/dimuon.root"
        with pytest.raises(fb.FileError, match=r"gsi.*FEMTOBARN_HANDLER=fsspec.*handler") as raised:
            fb.open(url)
        assert "pip install 'femtobarn[xrootd]'" in str(raised.value)
        proxy = tmp_path / "proxy.pem"
        shutil.copy(server.folder / "grid" / "proxy.pem", proxy)
        proxy.chmod(0o600)
        environment = {**os.environ, **servers.grid_environment(server.folder, proxy)}

        def run(*command, handler):
            variables = {**environment, "FEMTOBARN_HANDLER": handler}
            return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100, check=False)

        done = run(sys.executable, "-c", GSI, f"{url}:Events", handler="fsspec")
        assert done.stdout.strip() == "12000", done.stderr
        done = run(sys.executable, "-c", GSI, url.replace("dimuon", "d*"), handler="fsspec")
        assert done.stdout.strip() == "12000", done.stderr
        done = run(*PROGRAM, "verify", url, handler="fsspec")
        assert done.returncode == 0, done.stderr
        assert run(sys.executable, "-c", GSI, url, handler="femtobarn").returncode == 1
        # without the proxy certificate, the other client reports an error
        environment["X509_USER_PROXY"] = str(tmp_path / "none.pem")
        done = run(*PROGRAM, "info", url, handler="fsspec")
        assert (done.returncode, "fsspec_xrootd" in done.stderr) == (3, True), done.stderr
    finally:
        server.close()


def test_xrootd_through_fsspec_is_as_on_disk(testdata, need, need_program, dimuon):
    need("fsspec_xrootd")
    need_program("xrootd")
    server = servers.Xrootd()
    try:
        server.put("runs/dimuon.root", (testdata / "dimuon.root").read_bytes())
        options = {"handler": "fsspec", "largest_vector": "20 kB", "largest_request": "20 kB"}
        nt = fb.open(f"{server.url}/runs/*.root:Events", storage_options=options)
        plan, before = nt.explain(), nt.metrics
        assert same(nt.arrays(threads=3), fb.open(dimuon).arrays())
        assert plan.vectors == nt.metrics.vectors - before.vectors > 3
        with pytest.raises(fb.FileError, match=r"none\.root"):
            fb.open(f"{server.url}/runs/none.root", storage_options=options)
    finally:
        server.close()
