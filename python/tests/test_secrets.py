"""Secrets in URLs, such as signatures and passwords: no subcommand of `fb` and no exception shows them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import servers

import femtobarn as fb

PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]
SECRET = "sesame"
QUERY = f"?sig={SECRET}"


@pytest.fixture(scope="module")
def server(testdata, need_program, tmp_path_factory):
    """Return an nginx with an ntuple, a damaged one, a table and an empty file."""
    need_program("nginx")
    folder = tmp_path_factory.mktemp("secrets")
    with fb.recreate(folder / "two.root") as file:
        file["one"] = {"x": np.arange(3)}
        file["two"] = {"x": np.arange(3)}
    fb.convert(f"{folder}/two.root:one", folder / "t.parquet")
    server = servers.Nginx()
    shutil.copy(testdata / "dimuon.root", server.data / "a.root")
    whole = (testdata / "dimuon.root").read_bytes()
    (server.data / "cut.root").write_bytes(whole[: len(whole) // 2])
    (server.data / "bad.root").write_bytes(whole[:2000] + b"\x55" * 500 + whole[2500:])
    (server.data / "text.root").write_bytes(b"text" * 100)
    shutil.copy(folder / "two.root", server.data / "two.root")
    shutil.copy(folder / "t.parquet", server.data / "t.parquet")
    yield server
    server.close()


def url(server, name):
    """Return the URL of a file, with a secret in its query and one before the server's name."""
    return server.url.replace("://", f"://me:{SECRET}@") + f"/{name}{QUERY}"


COMMANDS = [
    "ls A",
    "ls A B MISSING",
    "ls TWO:one",
    "ls FOLDER",
    "info A",
    "info A TWO MISSING",
    "info TWO",
    "info A:Nope",
    "info TEXT",
    "head -n 2 A",
    "head A --fields nope*",
    "head A --fields nope",
    "head BAD",
    "verify A",
    "verify A BAD CUT MISSING TEXT",
    "verify BAD",
    "verify CUT",
    "verify A --against A",
    "verify A --against B",
    "verify TWO --against A",
    "verify T --against A",
    "explain A",
    "explain A --fields nope",
    "doctor A",
    "doctor MISSING",
    "convert A out.parquet",
    "convert A out2.parquet --fields nope",
    "convert T out3.root",
    "convert T out4.root --fields nope",
    "convert T:x out5.root",
    "convert A T out6.root",
    "convert T T2 out7.root",
    "convert TEXT CUT MISSING many/ --skip-bad-files bad.json",
    "convert A PUT",
    "convert A PUT",
    "merge out8.root A A",
    "merge out9.root A TWO --fields nope",
    "merge out10.root A MISSING",
    "merge out11.root TEXT",
    "merge out12.root A BAD --verify --level L4",
    "merge MERGED A",
    "merge MERGED A",
    "join A TWO:one out13.root",
    "join out13.root A TWO:one",
    "clone A out14.root",
    "reshape A out15.root",
    "skim A out16.root --where nMuon>=2",
    "skim A out17.root --where nope>=2",
    "skim TWO out18.root --where z>=2",
    "cp A out19.root",
    "cp A out19.root",
    "cp A COPIED",
    "cp A COPIED",
    "cp MISSING out20.root",
    "cp A B C",
    "ls --threads=A A",
    "nope A",
]


def command(server, words):
    """Return the words of a command, with file names for those in capitals."""
    files = {
        "A": "a.root",
        "B": "bad.root",
        "BAD": "bad.root",
        "C": "c.root",
        "CUT": "cut.root",
        "TEXT": "text.root",
        "TWO": "two.root",
        "T": "t.parquet",
        "T2": "t.parquet",
        "MISSING": "missing.root",
        "FOLDER": "",
        "PUT": "dav/put.root",
        "MERGED": "dav/merged.root",
        "COPIED": "dav/copied.root",
    }
    out = []
    for word in words.split():
        option, is_option, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
        name, colon, path = value.partition(":")
        found = url(server, files[name]) if name in files else name
        # the name of an ntuple precedes the query
        found = found.replace("?", f"{colon}{path}?") if name in files else value
        out.append(f"{option}{is_option}{found}")
    return out


def test_no_verb_shows_them(server, tmp_path):
    """Neither results nor errors show them, as text and as JSON; `verify`, `skim` and advice did."""
    codes, shown = set(), []
    for is_json in (False, True):
        folder = tmp_path / str(is_json)
        folder.mkdir()
        for path in ("put", "merged", "copied"):
            (server.data / f"{path}.root").unlink(missing_ok=True)
        for words in COMMANDS:
            whole = [*PROGRAM, *command(server, words), *["--json"][: 1 if is_json else 0]]
            done = subprocess.run(whole, capture_output=True, text=True, cwd=folder, check=False, timeout=60)
            assert done.stdout + done.stderr, words
            assert "panicked" not in done.stderr, done.stderr
            codes.add((words.split()[0], done.returncode == 0))
            if SECRET in done.stdout + done.stderr:
                shown.append((words, is_json, done.stdout + done.stderr))
        if (folder / "bad.json").exists():
            assert SECRET not in (folder / "bad.json").read_text()
    assert not shown, shown
    verbs = ["ls", "info", "head", "verify", "explain", "doctor", "convert", "merge", "skim", "cp"]
    assert {(verb, good) for verb in verbs for good in (True, False)} <= codes, codes


def test_no_exception_shows_them(server, tmp_path):
    a, two = url(server, "a.root"), url(server, "two.root")
    for work in [
        lambda: fb.skim(a, tmp_path / "out.root", "nope >= 2"),
        lambda: fb.merge([a, two], tmp_path / "out.root", fields=["nope"]),
        lambda: fb.convert(url(server, "t.parquet"), tmp_path / "out.root", fields=["nope"]),
        lambda: fb.open(two),
        lambda: fb.open(url(server, "text.root")),
        lambda: fb.open(a).arrays(["nope"]),
    ]:
        with pytest.raises(fb.FemtobarnError) as raised:
            work()
        assert SECRET not in str(raised.value), raised.value
    report = fb.merge(a, tmp_path / "merged.root", verify=True)
    assert SECRET not in repr(report) + repr(report.inputs)


def test_a_name_stands_in_front_of_the_question_mark(server):
    """`fb info` and `fb verify` requested `a.root?sig=…:Nope` from the server, and showed another ntuple."""
    for verb in ("info", "verify"):
        for name, code in [("Events", 0), ("Nope", 3)]:
            target = server.url + f"/a.root:{name}?sig=x"
            done = subprocess.run([*PROGRAM, verb, target], capture_output=True, text=True, check=False)
            assert done.returncode == code, (verb, name, done.stdout, done.stderr)
    asked = (server.folder / "access.log").read_text()
    assert "sig=x" in asked
    assert "sig=x:" not in asked
    done = subprocess.run([*PROGRAM, "info", url(server, "two.root")], capture_output=True, text=True, check=False)
    assert "before the question mark: `http://me@127.0.0.1" in done.stderr
    assert "/two.root:NAME?…`" in done.stderr
