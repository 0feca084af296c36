"""Outputs on servers: of every operation, on every kind of server, complete or not there at all."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import object_servers
import pytest
import servers
import uproot
from compare import same

import femtobarn as fb
from femtobarn import _core

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


class Place:
    """A server, the directory of its files (if they are files), and its settings."""

    def __init__(self, server, url, options, has_files=True):
        self.server, self.url, self.options, self.has_files = server, url, options, has_files

    def names(self, folder):
        """Return the names that exist, including incomplete files."""
        if not self.has_files:
            return sorted(path.name for path in (self.server.data / "private" / folder).glob("*"))
        return sorted(path.name for path in (self.server.data / folder).glob("[!.]*")) + sorted(
            path.name for path in (self.server.data / folder).glob(".*")
        )


KINDS = ["root", "nginx", "plain", "xrdhttp", "s3"]


@pytest.fixture(scope="module", params=KINDS)
def place(request, need_program, need_store):
    kind = request.param
    if kind == "s3":
        need_store("minio")
        server = object_servers.Minio()
        about = server.about()
        options = {name: str(about[name]) for name in ("endpoint", "access_key_id", "secret_access_key")}
        found = Place(server, "s3://private", options, has_files=False)
    elif kind in ("nginx", "plain"):
        need_program("nginx")
        server = servers.Nginx()
        found = Place(server, f"{server.url}/{'dav' if kind == 'nginx' else 'plain'}", {})
    else:
        need_program("xrootd")
        server = servers.KINDS["xrootd" if kind == "root" else "xrdhttp"]()
        found = Place(server, server.url if kind == "root" else server.url.replace("http", "dav"), {})
    yield found
    server.close()


@pytest.fixture
def options(place, tmp_path):
    """Return the settings of the server, with a directory for temporary files."""
    spool = tmp_path / "spool"
    spool.mkdir()
    yield {**place.options, "spool_folder": str(spool)}
    assert not list(spool.iterdir())


@pytest.fixture
def friends(tmp_path):
    """Return a file with entries that match those of another one."""
    path = tmp_path / "friends.root"
    fb.write(path, {"weight": np.arange(12_000.0)}, name="Friends")
    return path


def read(url, options):
    return fb.open(url, storage_options=options)


def test_every_verb_writes_there(place, options, dimuon, friends, tmp_path):
    url, asked = f"{place.url}/verbs", {"storage_options": options}
    verbs = {
        "merge": (fb.merge, ([dimuon, dimuon],), {"verify": True}),
        "clone": (fb.clone, (dimuon,), {"fields": "Muon_*", "verify": True}),
        "reshape": (fb.reshape, (dimuon,), {"compression": "zstd:7"}),
        "skim": (fb.skim, (dimuon,), {"where": "nMuon >= 3"}),
        "join_columns": (fb.join_columns, ([dimuon, f"{friends}:Friends"],), {"verify": True}),
        "convert": (fb.convert, (dimuon,), {}),
    }
    for name, (verb, arguments, more) in verbs.items():
        where = [more.pop("where")] if "where" in more else []
        local = tmp_path / f"{name}.root"
        verb(*arguments, local, *where, **more)
        report = verb(*arguments, f"{url}/{name}.root", *where, **more, **asked)
        assert report.output == f"{url}/{name}.root"
        assert report.delivery["bytes"] == report.bytes_out == local.stat().st_size
        assert report.delivery["compared"] in ("adler32", "bytes", "size")
        expected = fb.open(local)
        found = read(report.output, options)
        assert found.verify().ok
        assert same(found.arrays(), expected.arrays())
        # no name occurs twice, unless requested
        with pytest.raises((fb.UsageError, fb.FileError), match="already exists"):
            verb(*arguments, report.output, *where, **(more | ({"overwrite": False})), **_strict(name), **asked)
        assert verb(*arguments, report.output, *where, **more, overwrite=True, **asked).bytes_out == report.bytes_out
    assert [name for name in place.names("verbs") if name.startswith(".")] == []
    assert len(place.names("verbs")) == len(verbs)


def _strict(name):
    # an earlier conversion may be replaced by one of the same name
    return {"name": "another"} if name == "convert" else {}


def test_servers_that_have_checksums_are_asked_for_them(place, options, dimuon):
    report = fb.merge(dimuon, f"{place.url}/checks/a.root", storage_options=options)
    expected = "adler32" if place.url.startswith("root:") else "size"
    assert report.delivery["compared"] == expected
    verified = fb.merge(dimuon, f"{place.url}/checks/b.root", storage_options=options, verify=True)
    assert verified.delivery["compared"] == {"adler32": "adler32", "size": "bytes"}[expected]


def test_files_are_made_and_copied_there(place, options, dimuon, tmp_path):
    columns = {"n": np.arange(300_000), "x": np.random.default_rng(1).random(300_000)}
    url = f"{place.url}/made/new.root"
    with fb.recreate(url, storage_options=options) as file:
        file.mkdir("runs")["Runs"] = {"run": [1, 2]}
        file["Events"] = columns
        assert "new.root" not in place.names("made")
    found = read(f"{url}:Events", options).arrays(library="np")
    assert all(np.array_equal(found[name], columns[name]) for name in columns)
    with pytest.raises(fb.FileError, match="already"):
        fb.create(url, storage_options=options)
    with contextlib.suppress(ZeroDivisionError), fb.recreate(url, storage_options=options) as file:
        file["Events"] = {"n": [1]}
        _ = 1 / 0
    assert read(f"{url}:Events", options).num_entries == 300_000
    assert fb.write(f"{place.url}/made/other.root", {"n": [1, 2, 3]}, storage_options=options) == 3
    with pytest.raises(fb.FileError):
        fb.update(url)
    with pytest.raises(fb.FileError):
        fb.merge(dimuon, url, append=True, storage_options=options)
    given = os.environ | {f"FEMTOBARN_{name.upper()}": str(value) for name, value in options.items()}
    back = tmp_path / "back.root"
    for command in (["-f", "--verify", dimuon, url], ["--verify", url, back]):
        done = subprocess.run([*PROGRAM, "cp", *command], capture_output=True, text=True, check=False, env=given)
        assert (done.returncode, "the same in the copy" in done.stdout) == (0, True), done.stderr
    assert back.read_bytes() == Path(dimuon).read_bytes()
    assert sorted(place.names("made")) == ["new.root", "other.root"]


def test_other_readers_read_them(place, options, dimuon, tmp_path, run_root):
    report = fb.skim(dimuon, f"{place.url}/read/skim.root", "nMuon >= 3", storage_options=options)
    expected = read(report.output, options)
    copy = tmp_path / "copy.root"
    given = os.environ | {f"FEMTOBARN_{name.upper()}": str(value) for name, value in options.items()}
    if place.url.startswith("root:"):
        subprocess.run(["xrdcp", "-s", report.output, copy], check=True, timeout=60)
    elif place.url.startswith("s3:"):
        subprocess.run([*PROGRAM, "cp", report.output, copy], check=True, capture_output=True, env=given)
    else:
        urllib.request.urlretrieve(report.output.replace("dav:", "http:"), copy)
    with uproot.open(copy) as file:
        assert np.array_equal(file["Events"].arrays(["nMuon"])["nMuon"], expected["nMuon"].array())
    count = run_root("import sys, ROOT\nprint(ROOT.RDataFrame('Events', sys.argv[1]).Count().GetValue())", copy)
    assert int(count) == expected.num_entries


def test_many_files_are_converted_into_a_folder_and_resumed(place, options, dimuon, tmp_path):
    paths = [tmp_path / f"{name}.root" for name in ("a", "b")]
    for path in paths:
        fb.clone(dimuon, path, entries=range(100))
    sources = [f"{place.url}/many/in/{path.name}" for path in paths]
    for path, source in zip(paths, sources, strict=True):
        fb.merge(path, source, storage_options=options)
    folder = f"{place.url}/many/out/"
    reports = fb.convert(sources, folder, storage_options=options)
    assert [report.output for report in reports] == [f"{folder}a.root", f"{folder}b.root"]
    assert [report.status for report in reports] == ["converted"] * 2
    again = fb.convert(sources, folder, resume=True, storage_options=options)
    # XRootD's HTTP does not report the age of files
    expected = "converted" if place.url.startswith("dav:") else "kept"
    assert [report.status for report in again] == [expected] * 2
    table = fb.convert(sources[0], f"{place.url}/many/a.parquet", storage_options=options)
    assert (table.entries, table.equal) == (100, True)
    for kind in ("parquet", "arrow"):
        name = f"{place.url}/many/b.{kind}"
        fb.convert(sources[0], name, storage_options=options)
        back = fb.convert(name, tmp_path / f"{kind}.root", storage_options=options)
        assert (back.entries, back.equal) == (100, True)


def test_inputs_count_with_their_sizes(place, options, dimuon):
    source = f"{place.url}/sizes/a.root"
    size = fb.merge(dimuon, source, storage_options=options).bytes_out
    seen = []
    given = {"settings": options, "verify": True}
    _core.merge([(source, None)], f"{place.url}/sizes/b.root", given, {}, lambda *how_far: seen.append(how_far))
    assert {total for *_, total in seen if total} == {size}
    assert seen[-1][2] == size


def test_what_is_ended_leaves_nothing(place, options, tmp_path):
    """Ctrl-C during sending leaves neither the local file nor the server's part of it."""
    if place.url.endswith("/plain"):
        pytest.skip("a file has its name there with its last byte")
    path = tmp_path / "large.root"
    fb.write(path, {"x": np.random.default_rng(1).random(3_000_000)}, compression=None)
    whole = []

    def tick(files, all_files, done, _total):
        # when all files are done it is copied, from then on it is sent
        whole.extend([done] if files == all_files else [])
        if len(whole) > 1 and done:
            raise KeyboardInterrupt

    given = {"settings": options, "level": "L1"}
    with pytest.raises(KeyboardInterrupt):
        _core.merge([(str(path), None)], f"{place.url}/ended/out.root", given, {}, tick)
    assert len(whole) > 1
    if place.has_files:
        assert place.names("ended") == []
    with pytest.raises(fb.NotFoundError):
        read(f"{place.url}/ended/out.root", options)


def test_secrets_are_in_no_report(place, options, dimuon):
    if place.url.startswith("s3:"):
        pytest.skip("of an object, a question mark is a part")
    report = fb.merge(dimuon, f"{place.url}/secret/a.root?authz=hidden", storage_options=options)
    assert "hidden" not in f"{report!r} {report}"
    with pytest.raises((fb.UsageError, fb.FileError)) as raised:
        fb.merge(dimuon, f"{place.url}/secret/a.root?authz=hidden", storage_options=options)
    assert "hidden" not in str(raised.value)


def test_settings_that_there_are_not_are_errors(dimuon, tmp_path):
    for call in (
        lambda o: fb.merge(dimuon, tmp_path / "a.root", storage_options=o),
        lambda o: fb.convert(dimuon, tmp_path / "a.root", storage_options=o),
        lambda o: fb.recreate("root://localhost:1//a.root", storage_options=o),
        lambda o: fb.join_columns([dimuon, dimuon], tmp_path / "a.root", storage_options=o),
    ):
        with pytest.raises(fb.UsageError, match='unknown setting "request_timeot"'):
            call({"request_timeot": 1})
    done = subprocess.run(
        [*PROGRAM, "ls", "--set", "request_timeot=1", dimuon, "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, json.loads(done.stderr)["error"]["kind"]) == (2, "usage")


def test_google_is_asked_before_and_told_why_it_takes_nothing(need_store, dimuon, tmp_path):
    """Objects of Google are checked before the work, and a refusal leaves nothing.

    fake-gcs-server does not support Google's XML uploads, which are used for all outputs, so this is what it can show.
    """
    need_store("fake-gcs-server")
    server = object_servers.FakeGcs()
    try:
        server.put("private/there.root", Path(dimuon).read_bytes())
        endpoint = str(server.about()["endpoint"])
        key = {
            "gcs_base_url": endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        options = {"endpoint": endpoint, "secret_access_key": json.dumps(key), "spool_folder": str(tmp_path)}
        with pytest.raises((fb.UsageError, fb.FileError)):
            fb.merge(dimuon, "gs://private/there.root", storage_options=options)
        for write in (fb.merge, fb.convert):
            with pytest.raises(fb.FileError, match="uploadType"):
                write(dimuon, "gs://private/new.root", storage_options=options)
        with pytest.raises(fb.NotFoundError):
            fb.open("gs://private/new.root", storage_options=options)
        assert not list(tmp_path.iterdir())
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["xrootd", "nginx"])
def test_a_server_that_goes_away_or_takes_nothing_ends_it(kind, need_program, tmp_path, dimuon):
    need_program(kind)
    server = servers.KINDS[kind]()
    spool = tmp_path / "spool"
    spool.mkdir()
    options = {"spool_folder": spool, "most_retries": 0, "connect_timeout": 2, "longest_wait": 2}
    options = {name: str(value) for name, value in options.items()}
    base = f"{server.url}/dav" if kind == "nginx" else server.url
    try:
        (server.data / "closed").mkdir(mode=0o555)
        with pytest.raises(fb.FileError) as raised:
            fb.merge(dimuon, f"{base}/closed/a.root", storage_options=options)
        # nginx only reports an internal error (500)
        assert raised.value.kind == ("permission-denied" if kind == "xrootd" else "write-failed")
        assert list((server.data / "closed").iterdir()) == list(spool.iterdir()) == []

        def kill(*_):
            server.kill()

        with pytest.raises(fb.FileError) as raised:
            _core.merge([(dimuon, None)], f"{base}/new/a.root", {"settings": options}, {}, kill)
        assert raised.value.kind in ("write-failed", "remote-failed")
        assert not list(spool.iterdir())
        assert not (server.data / "new" / "a.root").exists()
    finally:
        server.close()


def test_a_folder_without_room_is_told(tmp_path, need_program, dimuon):
    """An output that does not fit the temporary directory reports the space it needs, and the setting."""
    need_program("xrootd")
    need_program("mount")
    spool = tmp_path / "small"
    spool.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", spool], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    server = servers.Xrootd()
    try:
        with pytest.raises(fb.FileError, match="spool_folder") as raised:
            fb.merge(dimuon, f"{server.url}/a.root", storage_options={"spool_folder": str(spool)})
        assert "bytes are free" in str(raised.value)
        assert not list(spool.iterdir())
        assert not list(server.data.iterdir())
    finally:
        server.close()
        subprocess.run(["umount", spool], check=True)
