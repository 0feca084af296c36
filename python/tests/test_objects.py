"""Objects in object stores, with the same results as local files; with a real MinIO."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import object_servers
import pytest
import servers
from compare import same

import femtobarn as fb


@pytest.fixture(scope="module")
def store(need_store):
    need_store("minio")
    server = object_servers.Minio()
    yield server
    server.close()


@pytest.fixture
def settings(store, monkeypatch):
    """Return settings of the store, which are in the environment as well."""
    about = store.about()
    found = {name: str(about[name]) for name in ("endpoint", "access_key_id", "secret_access_key")}
    monkeypatch.setenv("FEMTOBARN_ENDPOINT", found["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", found["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", found["secret_access_key"])
    return found


def test_objects_are_as_files(store, settings, testdata, shared):
    paths = [testdata / "dimuon.root", shared / "ttree" / "hzz_zlib.root"]
    for path in paths:
        store.put(f"private/{path.name}", path.read_bytes())
        found = fb.open(f"s3://private/{path.name}")
        assert same(found.arrays(), fb.open(path).arrays())
    nt = fb.open("s3://private/dimuon.root")
    assert nt.metrics.requests == 2


def test_settings_may_be_arguments(store, settings, testdata, monkeypatch):
    store.put("private/one.root", (testdata / "dimuon.root").read_bytes())
    for name in ("FEMTOBARN_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    nt = fb.open("s3://private/one.root:Events", storage_options=settings)
    assert nt.num_entries == 12_000
    wrong = {**settings, "secret_access_key": "not the secret"}
    with pytest.raises(fb.FileError) as raised:
        fb.open("s3://private/one.root:Events", storage_options=wrong)
    assert raised.value.kind == "permission-denied"
    assert "not the secret" not in str(raised.value)


def test_objects_are_written_complete_or_not_at_all(store, settings, tmp_path, monkeypatch):
    monkeypatch.setenv("FEMTOBARN_PART_SIZE", "5 MiB")
    url = "s3://private/new/large.root"
    columns = {"x": np.random.default_rng(1).random(2_000_000), "n": np.arange(2_000_000)}
    with fb.recreate(url, compression=None) as file:
        file.mkdir("runs")["Runs"] = {"run": [1, 2]}
        file["Events"] = columns
        with pytest.raises(fb.NotFoundError):
            fb.open(url)
    nt = fb.open(f"{url}:Events")
    found = nt.arrays(library="np")
    assert all(np.array_equal(found[name], columns[name]) for name in columns)
    assert fb.open(f"{url}:runs/Runs").num_entries == 2
    assert nt.verify().ok
    assert nt.metrics.sources[0].size > 30_000_000
    with contextlib.suppress(ZeroDivisionError), fb.recreate(url) as file:
        file["Events"] = {"n": [1]}
        _ = 1 / 0
    assert fb.open(f"{url}:Events").num_entries == 2_000_000
    with pytest.raises(fb.FileError):
        fb.create(url)


def test_patterns_merges_and_plans(store, settings, testdata, tmp_path):
    for name in ("a", "b"):
        store.put(f"private/many/{name}.root", (testdata / "dimuon.root").read_bytes())
    nt = fb.open("s3://private/many/*.root:Events")
    assert nt.num_entries == 24_000
    assert [path for path, _ in nt.files] == [f"s3://private/many/{name}.root" for name in "ab"]
    fb.merge(["s3://private/many/*.root"], tmp_path / "merged.root", verify=True)
    assert fb.open(tmp_path / "merged.root").num_entries == 24_000
    with fb.recreate("s3://private/plan.root", compression=None) as file:
        file["Events"] = {name: np.random.default_rng(1).random(500_000) for name in "xyz"}
    nt = fb.open("s3://private/plan.root")
    plan, before = nt.explain(["x", "z"]), nt.metrics
    nt.arrays(["x", "z"])
    assert nt.metrics.requests - before.requests == plan.requests
    assert nt.metrics.bytes_read - before.bytes_read == plan.bytes_read <= 1.05 * plan.bytes_needed


def test_files_are_copied_between_stores(store, settings, testdata, tmp_path, need_program):
    """From this machine to a store, on to an XRootD server, and back: the same bytes."""
    need_program("xrootd")
    program = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())", "cp"]

    def copy(*arguments):
        done = subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    content = np.random.default_rng(1).bytes(40_000_000)
    (tmp_path / "a.bin").write_bytes(content)
    server = servers.Xrootd()
    try:
        steps = [tmp_path / "a.bin", "s3://private/copies/", f"{server.url}/b/c.bin", tmp_path / "back.bin"]
        sources = [steps[0], "s3://private/copies/a.bin", steps[2]]
        for source, destination in zip(sources, steps[1:], strict=True):
            code, said = copy("--verify", source, destination)
            assert (code, "the same in the copy" in said) == (0, True), said
        assert (tmp_path / "back.bin").read_bytes() == content
        assert copy(steps[0], steps[2])[0] == 2
        assert copy("-f", steps[0], steps[2])[0] == 0
        code, said = copy("s3://private/none", tmp_path / "none")
        assert (code, "no such file" in said) == (3, True)
        assert not (tmp_path / "none").exists()
        code, said = copy("s3://private/copies/*", f"{server.url}/b/c.bin", tmp_path / "missing.bin")
        assert code == 2
    finally:
        server.close()
