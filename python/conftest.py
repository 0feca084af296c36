"""What all tests and doctests share: where the data is, and what happens when something is missing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
collect_ignore_glob = [] if importlib.util.find_spec("coffea") else ["femtobarn/_coffea/*", "femtobarn/coffea.py"]


def missing(reason):
    """Skip, or fail where nothing may be missing."""
    if os.environ.get("FEMTOBARN_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason} (FEMTOBARN_REQUIRE_ALL=1)")
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what a program said that failed: CalledProcessError does not."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, subprocess.CalledProcessError):
        report.sections.append(("stderr of the program", str(call.excinfo.value.stderr)))
    return report


@pytest.fixture(scope="session")
def testdata():
    """The folder with the project's own files."""
    return ROOT / "testdata"


@pytest.fixture(scope="session")
def dimuon(testdata):
    """An ntuple "Events" with 12,000 entries of nMuon, Muon_pt and others."""
    return str(testdata / "dimuon.root")


@pytest.fixture(scope="session")
def mixed(testdata):
    """An ntuple "mixed" with 40 entries of nearly every type."""
    return str(testdata / "rntuple" / "mixed_zstd.root")


@pytest.fixture(scope="session")
def shared():
    """The folder with real files, which is not in the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        missing(f"there are no real files at {folder}")
    return folder


@pytest.fixture(scope="session")
def samples():
    """The folder with files that coffea is tested with, from its source distribution."""
    folder = Path(sys.prefix) / "samples"
    if not folder.is_dir():
        missing(f"coffea's samples are not at {folder}: run `make .venv/stamps/samples`")
    return folder


@pytest.fixture(scope="session")
def need():
    """A function that imports an optional package, or skips."""

    def import_or_skip(module):
        try:
            return importlib.import_module(module)
        except ImportError:
            return missing(f"{module} is not installed")

    return import_or_skip


@pytest.fixture(scope="session")
def need_program():
    """A function that insists on a program."""
    return lambda name: shutil.which(name) or missing(f"{name} is not installed")


@pytest.fixture(scope="session")
def boost():
    """Boost.Serialization, by which programs of HEPnOS store."""
    if not Path("/usr/include/boost/archive").is_dir():
        missing("Boost.Serialization is not installed")


@pytest.fixture(scope="session")
def need_store():
    """A function that insists on an object store."""
    import installed

    return lambda name: installed.find(name) or missing(f"{name} is not there: scripts/setup_stores.sh makes it")


@pytest.fixture(scope="session")
def redis(need_program):
    """The port of a real Redis, which is started when it is first asked for."""
    started = []

    def port():
        need_program("redis-server")
        if not started:
            import servers

            started.append(servers.KINDS["redis"]())
        return int(started[0].about()["port"])

    yield port
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def redis_without_log(need_program):
    """The URL of a real Redis that keeps no log, as those of a batch job."""
    need_program("redis-server")
    import servers

    server = servers.KINDS["redis-no-log"]()
    yield f"redis://127.0.0.1:{server.about()['port']}/"
    server.close()


@pytest.fixture(params=["memory", "dir", "redis"])
def store(request, tmp_path, redis):
    """An empty event store, of each kind."""
    import femtobarn as fb

    if request.param == "redis":
        return fb.DataStore.connect(f"redis://127.0.0.1:{redis()}/?prefix={tmp_path.name}:")
    return fb.DataStore.connect("memory:" if request.param == "memory" else f"dir:{tmp_path / 'store'}")


@pytest.fixture(scope="session")
def cargo():
    """The path of cargo."""
    return shutil.which("cargo") or missing("cargo is not installed")


@pytest.fixture(scope="session")
def run_root():
    """A function that runs a script, with arguments, in a Python that has ROOT.

    FEMTOBARN_ROOT_PYTHON names the interpreter, where it is another one than that of the tests.
    """
    python = os.environ.get("FEMTOBARN_ROOT_PYTHON", sys.executable)
    has_root = subprocess.run([python, "-c", "import importlib.util as u; exit(u.find_spec('ROOT') is None)"])
    if has_root.returncode:
        missing(f"ROOT is not installed for {Path(python).name} (FEMTOBARN_ROOT_PYTHON can name another)")
    # Another Python's modules are of no use to ROOT's
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or sys.executable == python}

    def run(script, *arguments):
        command = [python, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Could not find the StreamerInfo" not in done.stderr, done.stderr
        return done.stdout

    return run


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace, dimuon, tmp_path):
    doctest_namespace["dimuon"] = dimuon
    doctest_namespace["tmp"] = tmp_path
