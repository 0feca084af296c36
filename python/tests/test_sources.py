"""One file on several servers: names, sharing, failures, damage, versions."""

from __future__ import annotations

import asyncio
import linecache
import pickle
import re
import shutil
import time
import warnings
from contextlib import closing
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import servers
from compare import same

import femtobarn as fb
from femtobarn import aio

TREE = Path(__file__).resolve().parents[2] / "testdata" / "ttree" / "leaves_lz4.root"
N = 1_000_000


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Return an ntuple of 16 MB, which is enough that two servers are read."""
    path = tmp_path_factory.mktemp("long") / "long.root"
    values = np.random.default_rng(1).random(N)
    with fb.recreate(path, compression=None) as file:
        for start in range(0, N, N // 10):
            columns = {"x": values[start : start + N // 10], "y": -values[start : start + N // 10]}
            if start == 0:
                events = file.mkrntuple("Events", columns)
            events.extend(columns)
            events.commit_cluster()
    return path


@pytest.fixture(scope="module")
def both(long, need_program):
    """Return an XRootD server and an HTTP server with the same file."""
    need_program("xrootd")
    need_program("nginx")
    both = [servers.KINDS[kind]() for kind in ("xrootd", "nginx")]
    for server in both:
        server.put("long.root", long.read_bytes())
    yield both
    for server in both:
        server.close()


def urls_of(both, name="long.root"):
    return [f"{server.url}/{name}" for server in both]


def x_of(long):
    return fb.open(long).arrays(["x"], library="np")["x"]


def test_all_ways_to_name_sources_give_one_file(both, long, tmp_path):
    first, second = urls_of(both)
    shutil.copy(long, tmp_path / "a 100%|b.root")
    metalink = tmp_path / "long.meta4"
    metalink.write_text(
        f'<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="long.root"><size>{long.stat().st_size}</size>'
        f'<url priority="2">{second}</url><url priority="1">{first}</url></file></metalink>'
    )
    expected = x_of(long)
    for files in (
        [[first, second]],
        [(f"{first}:Events", f"{second}:Events")],
        f"{first}|{second}:Events",
        f"{metalink}:Events",
        metalink,
        [[tmp_path / "a 100%|b.root", second]],
        [[second, str(tmp_path / "a 100%|b.root")]],
    ):
        nt = fb.open(files)
        assert len(nt.sources) == 2, files
        assert same(nt.arrays(["x"], library="np")["x"], expected)
        assert {source.file for source in nt.sources} == {0}
        assert all(source.errors == () for source in nt.sources)
    assert len(fb.open([[first, second], [second]]).sources) == 3
    for wrong in ([[]], [[first, 1]], [[f"{first}:A", f"{second}:B"]]):
        with pytest.raises(fb.UsageError):
            fb.open(wrong)


def test_every_reader_takes_several_sources(both, long, tmp_path):
    files = [urls_of(both)]
    expected = x_of(long)
    nt = fb.open(files)
    steps = [step["x"].to_numpy() for step in nt.iterate(["x"], step_size=N // 7)]
    assert same(np.concatenate(steps), expected)
    again = pickle.loads(pickle.dumps(nt))
    assert len(again.sources) == 2
    assert again.num_entries == N
    assert same(fb.concatenate(files, ["x"], library="np")["x"], expected)
    assert sum(len(step) for step in fb.iterate([*files, long], ["x"], step_size=N // 2)) == 2 * N
    fb.convert(files, tmp_path / "converted.root")
    assert same(x_of(tmp_path / "converted.root"), expected)
    fb.merge([*files, long], tmp_path / "merged.root")
    assert fb.open(tmp_path / "merged.root").num_entries == 2 * N


def test_a_server_that_ends_is_replaced_and_both_are_named_in_the_end(long, need_program):
    need_program("xrootd")
    both = [servers.KINDS["xrootd"]() for _ in range(2)]
    try:
        for server in both:
            server.put("long.root", long.read_bytes())
        options = {"most_retries": 0, "connect_timeout": 1}
        nt = fb.open([urls_of(both)], storage_options=options)
        both[0].kill()
        with pytest.warns(fb.ServerWarning, match="reading goes on from"):
            found = nt.arrays(["x"], library="np")["x"]
        assert same(found, x_of(long))
        assert [source.state for source in nt.sources] == ["disabled", "active"]
        both[1].kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(fb.FemtobarnError) as raised:
                nt.arrays(["y"])
        assert raised.value.kind == "remote-failed"
        assert all(str(server.port) in str(raised.value) for server in both)
        nt.close()
        assert [source.state for source in nt.sources] == ["disabled", "disabled"]
    finally:
        for server in both:
            server.close()


def by_arrays(nt, fail):
    fail()
    nt.arrays(["x"])


def by_steps(nt, fail):
    for number, _ in enumerate(nt.iterate(["x"], step_size=N // 10)):
        if number == 1:
            fail()
        time.sleep(0.2)  # meanwhile, the next step is read


def by_touch(nt, fail):
    events = nt.arrays(["x"], virtual=True)
    fail()
    float(ak.sum(events.x))


def by_process(nt, fail):
    fail()
    fb.process(nt, lambda events: float(ak.sum(events.x)), by="batch", virtual=True, record=False, workers=2)


def by_await(nt, fail):
    async def read():
        await aio.process(nt, lambda events: float(ak.sum(events.x)), by="batch", virtual=True, record=False, workers=2)

    fail()
    asyncio.run(read())


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (by_arrays, "nt.arrays"),
        (by_steps, "nt.iterate"),
        (by_touch, "ak.sum"),
        (by_process, "fb.process"),
        (by_await, "aio.process"),
    ],
)
def test_warnings_point_to_the_line_that_reads(long, need_program, read, line):
    """Those from threads pointed into the package, or to where threads begin."""
    need_program("xrootd")
    with closing(servers.Xrootd()) as first, closing(servers.Xrootd()) as second:
        for server in (first, second):
            server.put("long.root", long.read_bytes())
        nt = fb.open([urls_of((first, second))], storage_options={"most_retries": 0, "connect_timeout": 1})
        with pytest.warns(fb.ServerWarning, match="reading goes on from") as told:
            read(nt, first.kill)
    assert {one.filename for one in told} == {__file__}
    assert all(line in linecache.getline(__file__, one.lineno) for one in told)


@pytest.mark.parametrize("options", [{"sources": 1}, {"lazy_download": "3 MB"}])
@pytest.mark.parametrize("part", ["page", "header"])
def test_damaged_bytes_are_read_from_the_other_server(both, long, part, options):
    content = bytearray(long.read_bytes())
    at = {"page": len(content) // 2, "header": 400}[part]
    content[at : at + 300] = bytes(300)
    both[0].put(f"damaged_{part}.root", bytes(content))
    damaged, good = f"{both[0].url}/damaged_{part}.root", urls_of(both)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nt = fb.open([[damaged, good]], storage_options=options)
        for name, sign in (("x", 1), ("y", -1)):
            assert same(nt.arrays([name], library="np")[name] * sign, x_of(long))
    bad, other = nt.sources
    assert (bad.state, other.state) == ("disabled", "active")
    assert "damaged bytes" in bad.errors[0]


def test_another_version_is_named_and_not_read(both, long, tmp_path):
    values = np.random.default_rng(2).random(N)
    with fb.recreate(tmp_path / "other.root", compression=None) as file:
        for start in range(0, N, N // 10):
            columns = {"x": values[start : start + N // 10], "y": values[start : start + N // 10]}
            if start == 0:
                events = file.mkrntuple("Events", columns)
            events.extend(columns)
            events.commit_cluster()
    content = (tmp_path / "other.root").read_bytes()
    for name, other in (("same_size.root", content), ("longer.root", content + b"x")):
        both[1].put(name, other)
        nt = fb.open([[urls_of(both)[0], f"{both[1].url}/{name}"]])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # it is opened while the first is read
            while nt.sources[1].state != "disabled":
                assert same(nt.arrays(["x"], library="np")["x"], x_of(long))
            nt.arrays(["y"])
        assert any(name in str(one.message) for one in caught)
        second = nt.sources[1]
        assert (second.state, second.num_bytes) == ("disabled", 0)
        assert "another version" in second.errors[0]


def test_trees_have_several_sources_too(both):
    for server in both:
        server.put("tree.root", TREE.read_bytes())
    first, second = urls_of(both, "tree.root")
    with pytest.warns(fb.ServerWarning, match=r"127\.0\.0\.1:1.*; reading goes on from " + re.escape(first)):
        nt = fb.open([["root://127.0.0.1:1//tree.root", first, second]], storage_options={"connect_timeout": 1})
    local = fb.open(TREE)
    assert nt.arrays(library="ak").tolist() == local.arrays(library="ak").tolist()
    assert [source.state for source in nt.sources] == ["disabled", "active", "unopened"]
    assert "127.0.0.1:1" in nt.sources[0].errors[0]


def test_a_file_that_the_first_server_does_not_have_is_read_from_the_second(both, long):
    good, missing = urls_of(both)[0], f"{both[1].url}/missing.root"
    with pytest.warns(fb.ServerWarning, match="missing.root; reading goes on from root://"):
        nt = fb.open([[missing, good]])
    assert same(nt.arrays(["x"], library="np")["x"], x_of(long))
    assert "no such file" in nt.sources[0].errors[0]


def test_a_server_that_is_killed_during_a_read_is_listed_with_its_error(both, long, need_program):
    need_program("nginx")
    server = servers.KINDS["nginx"]()
    try:
        server.put("long.root", long.read_bytes())
        nt = fb.open([[f"{server.url}/long.root", urls_of(both)[0]]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            steps = nt.iterate(["x", "y"], step_size=N // 10)
            first = next(steps)
            server.kill()
            found = np.concatenate([step["x"].to_numpy() for step in (first, *steps)])
            # what was in flight may have been all
            assert same(nt.arrays(["x"], library="np")["x"], found)
        assert same(found, x_of(long))
        killed, other = nt.sources
        assert (killed.state != "active", other.state) == (True, "active")
        assert killed.errors
    finally:
        server.close()
