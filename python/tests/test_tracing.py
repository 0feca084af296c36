"""Recording operations, replaying them, the report, and monitoring: in processes of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from page_stores import Daos

import femtobarn as fb

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import servers

PROGRAM = [sys.executable, "-c", "import sys, femtobarn; sys.exit(femtobarn._core.cli_main(sys.argv[1:]))"]

READ = "import sys, femtobarn as fb; fb.open(sys.argv[1] + ':Events').arrays(['Muon_pt'])"


def run(command, *arguments, check=True, **environment):
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def server(need_program, dimuon):
    need_program("xrootd")
    server = servers.Xrootd()
    server.put("dimuon.root", Path(dimuon).read_bytes())
    yield server
    server.close()


def rows(trace):
    return [line[1:-1].split('","') for line in Path(trace).read_text().splitlines()]


def test_a_recording_is_replayed_and_has_no_secrets(server, dimuon, tmp_path):
    trace = tmp_path / "trace.csv"
    with fb.record(trace) as recording, fb.open(f"{server.url}/dimuon.root?authz=secret") as nt:
        nt.arrays(["Muon_pt"])
        read = nt.metrics.bytes_read
    assert repr(recording) == f"Recording({str(trace)!r})"
    with fb.open(dimuon):
        pass
    assert "secret" not in trace.read_text()
    assert {row[1] for row in rows(trace)} >= {"Open", "Stat", "Close"}
    found = fb.replay(trace, speed=None, figure=tmp_path / "figure.svg")
    assert (found.failed, found.skipped, found.errors) == (0, 0, ())
    assert found.bytes == found.read["bytes"] == read
    assert (len(found.files), found.files[0]["url"]) == (1, f"{server.url}/dimuon.root")
    assert "performance mark" in found.summary() == repr(found) + "\n"
    assert (tmp_path / "figure.svg").read_text().startswith("<svg ")
    local = fb.replay(trace, speed=None, replace={server.url: str(Path(dimuon).parent)})
    assert (local.failed, local.bytes) == (0, read)
    only = fb.replay(trace, play=False)
    assert (only.seconds, only.bytes, only.read["bytes"]) == (None, None, read)
    for speed in (0, -1, float("nan")):
        with pytest.raises(fb.UsageError, match="speed"):
            fb.replay(trace, speed=speed)
    with pytest.raises(fb.UsageError, match="line 1"):
        fb.replay(__file__)
    with pytest.raises(fb.UsageError, match="no URL of the trace contains it"):
        fb.replay(trace, replace={"root://elsewhere": "/data"})


@pytest.mark.parametrize("kind", ["objects", "daos"])
def test_ntuples_in_objects_are_replayed(kind, dimuon, tmp_path, monkeypatch):
    url = Daos(tmp_path, {}, monkeypatch).url("data") if kind == "daos" else f"ntpl+file://{tmp_path}/data"
    source = fb.open(dimuon)
    fb.write(url, source, "Events", object_size="page")
    if kind == "daos":
        fb.write(url, {"x": [1.0]}, "others")
        url = f"{url}:Events"
    trace = tmp_path / "trace.csv"
    with fb.record(trace), fb.open(url) as nt:
        nt.arrays(["Muon_pt"])
        read = nt.metrics.bytes_read
    found = fb.replay(trace, speed=None)
    assert (found.failed, found.skipped, found.errors) == (0, 0, ())
    assert found.bytes == found.read["bytes"] == read
    assert [file["url"] for file in found.files] == [url]
    done = run(PROGRAM, "replay", "--verify", trace)
    assert (done.stdout.split()[0], done.stdout.split()[-1]) == ("ok", url)
    (old, new) = ("/data", "/gone")
    missing = fb.replay(trace, speed=None, replace={old: new})
    assert missing.failed > 0
    done = run(PROGRAM, "replay", "--create", "--replace", f"{old}:={new}", trace, check=False)
    assert done.returncode == 1
    assert "fb migrate" in done.stdout


def test_a_trace_without_operations_is_told(dimuon, tmp_path):
    nt = fb.open(dimuon)
    told = pytest.warns(UserWarning, match="nothing was recorded in .*: operations are recorded of files")
    with told, fb.record(tmp_path / "t.csv"):
        nt.arrays()


def test_the_variable_records_all_processes(dimuon, tmp_path):
    trace = tmp_path / "trace.csv"
    program = f"""
import multiprocessing, sys
import femtobarn as fb
def read(field):
    return fb.open({str(dimuon)!r} + ":Events").arrays([field]).layout.length
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(read, ["Muon_pt", "Muon_eta", "Muon_phi"]) == [12_000] * 3
    read("nMuon")
"""
    (tmp_path / "program.py").write_text(program)
    run([sys.executable], tmp_path / "program.py", FEMTOBARN_RECORD=trace)
    opened = [row for row in rows(trace) if row[1] == "Open"]
    assert len(opened) == len({row[0] for row in opened}) == 7
    assert fb.replay(trace, speed=None).failed == 0


def test_xrootds_recorder_and_ours_record_the_same_reads(server, need, tmp_path):
    need("XRootD")
    folder = Path(importlib.util.find_spec("pyxrootd").origin).parent
    (recorder,) = folder.glob("libXrdClRecorder-*.so")
    url = f"{server.url}/dimuon.root"
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.csv"
    program = "import sys; from XRootD.client import File; f = File(); f.open(sys.argv[1]); f.stat(); f.read(10, 500); "
    program += "f.vector_read([(0, 10), (1000, 20)]); f.close()"
    run([sys.executable, "-c", program], url, XRD_PLUGIN=recorder, XRD_RECORDERPATH=theirs)
    # replayed, and recorded again
    run(PROGRAM, "--record", ours, "replay", "--speed", "max", theirs)

    def plain(trace):
        found = []
        for _, name, _, arguments, _, status, answer in rows(trace):
            found.append((name, url if name == "Open" else arguments, status, answer.split(";")[0]))
        return found

    assert plain(ours) == plain(theirs)
    seen = {
        name: json.loads(run(PROGRAM, "--json", "replay", "--print", trace).stdout)["read"]
        for name, trace in [("theirs", theirs), ("ours", ours)]
    }
    assert seen["theirs"] == seen["ours"]
    assert (seen["ours"]["bytes"], seen["ours"]["operations"], seen["ours"]["data_size"]) == (530, 2, 1020)


def test_xrdreplay_sees_the_same_numbers(server, need_program, tmp_path):
    need_program("xrdreplay")
    trace = tmp_path / "trace.csv"
    with fb.record(trace), fb.open(f"{server.url}/dimuon.root") as nt:
        nt.arrays(["Muon_pt"])
    fine = "".join(line for line in trace.read_text().splitlines(keepends=True) if '"VectorRead"' not in line)
    trace.write_text(fine)  # xrdreplay 5.5 crashes at any vector read
    theirs = json.loads(run(["xrdreplay", "-p", "-j"], trace).stdout)["iosummary"]
    ours = fb.replay(trace, play=False)
    assert theirs["volume::totalread"] == ours.read["bytes"]
    assert theirs["iops::read"] == ours.read["single_operations"] > 0
    assert theirs["datasetsize::read"] == ours.read["data_size"]
    assert theirs["files::read"] == ours.read["files"] == 1
    assert theirs["sampled::runtime"] == pytest.approx(ours.recorded_seconds, rel=1e-3, abs=1e-5)
    assert theirs["synchronicity::read"] == pytest.approx(ours.read_synchronicity)


def test_the_program_verifies_and_creates_inputs(tmp_path, testdata):
    trace = testdata / "traces" / "uproot.csv"
    replace = f"root://127.0.0.1:1094//:={tmp_path}/"
    missing = run(PROGRAM, "replay", trace, "--replace", replace, "--verify", check=False)
    assert (missing.returncode, "no such file" in missing.stdout) == (1, True)
    created = run(PROGRAM, "--json", "replay", trace, "--replace", replace, "--create")
    (found,) = json.loads(created.stdout)["inputs"]
    assert found == {"url": str(tmp_path / "dimuon.root"), "needed": 255_125, "state": "created", "note": None}
    assert run(PROGRAM, "replay", trace, "--replace", replace, "--verify").stdout.startswith("ok ")
    figure = tmp_path / "figure.svg"
    done = run(PROGRAM, "replay", trace, "--replace", replace, "--speed", "max", "--figure", figure)
    assert "gain mark" in done.stdout
    assert figure.read_text().endswith("</svg>\n")
    (tmp_path / "dimuon.root").write_bytes(b"short")
    failed = run(PROGRAM, "replay", trace, "--replace", replace, "--speed", "max", check=False)
    assert (failed.returncode, "error" in failed.stdout) == (3, True)
    away = ["--replace", f"root://127.0.0.1:1094//:=root://127.0.0.1:{servers.free_port()}//"]
    for arguments, code in ([], 3), (["--speed", "max"], 3), (["--verify"], 1), (["--create"], 1):
        assert run(PROGRAM, "replay", trace, *away, *arguments, check=False).returncode == code, arguments
    for arguments in (["--replace", "x"], ["--speed", "0"], ["--speed", "slow"], ["--verify", "--create"]):
        assert run(PROGRAM, "replay", trace, *arguments, check=False).returncode == 2, arguments


def test_the_report_comes_at_the_end(server, dimuon, tmp_path):
    url = f"{server.url}/dimuon.root?authz=secret"
    text = run([sys.executable, "-c", READ], url, FEMTOBARN_REPORT=1).stderr
    name = server.url.rstrip("/")
    assert text.count("report of ") == 1
    assert name in text
    assert "secret" not in text
    path = tmp_path / "report.json"
    assert run([sys.executable, "-c", READ], url, FEMTOBARN_REPORT=f"json:{path}").stderr == ""
    report = json.loads(path.read_text())
    found = report["servers"][name]
    assert (found["opened"], found["failed"]) == (1, 0)
    assert report["reads"]["bytes"] == found["bytes"] > 250_000
    assert report["files"]["size"] == Path(dimuon).stat().st_size
    assert report["end_time"] - report["start_time"] == pytest.approx(report["real_seconds"])
    assert 0 < report["memory"]["pss"] <= report["memory"]["rss"] <= report["memory"]["peak_rss"]
    assert sum(report["rates"]["bins"]) * report["rates"]["seconds_per_bin"] == pytest.approx(found["bytes"], rel=0.01)
    assert len(report["rates"]["bins"]) == 40
    # a process without files has nothing to say
    assert run([sys.executable, "-c", "import femtobarn"], FEMTOBARN_REPORT=1).stderr == ""
    wrong = run([sys.executable, "-c", READ], dimuon, check=False, FEMTOBARN_REPORT="xml:x")
    assert "json:PATH" in wrong.stderr


def test_the_program_reports(dimuon, tmp_path):
    path = tmp_path / "report.json"
    assert "local" in run(PROGRAM, "--report", "info", dimuon).stderr
    assert run(PROGRAM, f"--report=json:{path}", "info", dimuon).stderr == ""
    assert json.loads(path.read_text())["servers"]["local"]["opened"] >= 1
    assert run(PROGRAM, "--report=x", "info", dimuon, check=False).returncode == 2


def test_reports_while_running(dimuon):
    before = json.loads(fb.report("json"))
    nt = fb.open(f"{dimuon}:Events")
    nt.arrays(["Muon_pt"])
    after = json.loads(fb.report("json"))
    assert after["reads"]["bytes"] - before["reads"]["bytes"] == nt.metrics.bytes_read
    assert after["files"]["opened"] - before["files"]["opened"] == 1
    lines = fb.report(format="prometheus").splitlines()
    value = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(value['femtobarn_server_read_bytes_total{server="local"}']) >= nt.metrics.bytes_read
    assert {line.split()[1] for line in lines if line.startswith("#")} == {"HELP", "TYPE"}
    with pytest.raises(fb.UsageError, match="prometheus"):
        fb.report("xml")


def test_a_datagram_for_each_file(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(20)
        address = f"udp://127.0.0.1:{collector.getsockname()[1]}"
        url = f"{server.url}/dimuon.root?authz=secret"
        run(
            [sys.executable, "-c", READ], url, FEMTOBARN_MONITOR=address, FEMTOBARN_SITE="T2_XX", CRAB_UNIQUE_JOB_ID="7"
        )
        packet = collector.recv(65536)
        assert b"secret" not in packet
        found = json.loads(packet)
    assert (found["site_name"], found["app_info"], found["file_lfn"]) == ("T2_XX", "7", "/dimuon.root")
    assert found["read_bytes"] == found["read_single_bytes"] + found["read_vector_bytes"] > 0
