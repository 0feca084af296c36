"""Metrics: counters, each request, the summary, the plot, spans for OpenTelemetry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import femtobarn as fb


def read(path):
    nt = fb.open(f"{path}:Events")
    nt.arrays(["Muon_pt"])
    return nt.metrics


def test_counters_are_those_of_the_requests(dimuon):
    before = time.time()
    metrics = read(dimuon)
    (source,) = metrics.sources
    assert source.url == str(dimuon)
    assert source.size == Path(dimuon).stat().st_size
    assert source.vectors == len(source.spans) == metrics.vectors
    assert source.bytes_read == sum(span.num_bytes for span in source.spans) == metrics.bytes_read
    assert source.ranges == sum(len(span.ranges) for span in source.spans)
    assert source.spans[0].stage == "open"
    assert source.spans[-1].stage == "data"
    assert all(before - 1 < span.start < time.time() and span.seconds >= 0 for span in source.spans)
    assert 0 < source.bytes_used <= source.bytes_read
    assert metrics.real_seconds > 0
    assert (metrics.retries, metrics.failed) == (0, 0)


def test_explain_is_what_is_read(dimuon):
    nt = fb.open(f"{dimuon}:Events")
    plan = nt.explain(["Muon_pt", "Muon_eta"])
    before = nt.metrics
    nt.arrays(["Muon_pt", "Muon_eta"], threads=2)
    after = nt.metrics
    for name in ("requests", "vectors", "bytes_read"):
        assert getattr(after, name) - getattr(before, name) == getattr(plan, name), name


def test_they_go_to_json_and_stay_when_the_ntuple_is_closed(dimuon):
    with fb.open(f"{dimuon}:Events") as nt:
        nt.arrays(["nMuon"])
    document = json.loads(json.dumps(nt.metrics.to_dict()))
    assert document["sources"][0]["spans"][0]["stage"] == "open"
    assert document["requests"] == nt.metrics.requests
    assert nt.metrics.summary().startswith("1 file of ")


def test_settings_say_how_requests_are_cut(dimuon, monkeypatch, tmp_path):
    def plan(**options):
        return fb.open(f"{dimuon}:Events", storage_options=options or None).explain(["Muon_pt", "Muon_phi"])

    assert "gaps of up to 4.10 kB are read" in plan().fetched_by[0]
    whole = plan(largest_gap="1 MiB")
    assert whole.requests == 1 < plan(largest_gap=0).requests
    assert whole.bytes_read > whole.bytes_needed
    monkeypatch.setenv("FEMTOBARN_LARGEST_GAP", "1MiB")
    assert plan() == whole
    assert plan(largest_gap=0) != whole
    for options, said in [({"largest_gpa": 1}, "largest_gap"), ({"largest_gap": "much"}, "number of bytes")]:
        with pytest.raises(fb.UsageError, match=said):
            plan(**options)


def test_a_file_of_settings_counts_after_the_environment(dimuon, tmp_path):
    settings = tmp_path / "settings.toml"
    code = (
        "import sys, femtobarn as fb; print(fb.open(sys.argv[1] + ':Events').explain(['Muon_pt', 'Muon_phi']).requests)"
    )

    def requests(**variables):
        done = subprocess.run(
            [sys.executable, "-c", code, dimuon],
            capture_output=True,
            text=True,
            env={**os.environ, "FEMTOBARN_CONFIG": str(settings), **variables},
            check=False,
        )
        return done.stdout.strip() or done.stderr

    settings.write_text("largest_gap = '1 MiB'\n")
    assert requests() == "1"
    assert requests(FEMTOBARN_LARGEST_GAP="0") != "1"
    settings.write_text("['/nowhere']\nlargest_gap = '1 MiB'\n")
    assert requests() != "1"
    settings.write_text("largest_gpa = 1\n")
    assert "unknown setting" in requests()
    assert "settings.toml" in requests()


def test_the_picture_has_a_box_for_each_range(dimuon):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    metrics = read(dimuon)
    axes = metrics.plot()
    boxes = sum(len(collection.get_paths()) for collection in axes.collections)
    assert boxes == metrics.ranges
    assert axes.get_ylim() == (0, metrics.sources[0].size)
    matplotlib.pyplot.close(axes.figure)


def test_spans_go_to_opentelemetry(dimuon):
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    metrics = read(dimuon)
    count = metrics.export_spans(provider.get_tracer("test"))
    spans = memory.get_finished_spans()
    assert len(spans) == count == 1 + metrics.vectors
    outer = next(span for span in spans if span.name == "femtobarn.file")
    inner = [span for span in spans if span is not outer]
    assert all(span.parent.span_id == outer.context.span_id for span in inner)
    assert sum(span.attributes["femtobarn.bytes"] for span in inner) == metrics.bytes_read


def test_a_file_that_cannot_be_opened_ahead_is_told_when_its_turn_has_come(dimuon):
    files = [f"{dimuon}:Events", "/nowhere/b.root:Events"]
    steps = fb.iterate(files, ["nMuon"])
    assert len(next(steps)) == 12000
    with pytest.raises(fb.NotFoundError):
        next(steps)


def test_what_merges_read_counts_as_used(tmp_path):
    """The summary of a program that reads its files several times, and copies pages unchanged."""
    inputs = [tmp_path / name for name in ("a.root", "b.root")]
    for path in inputs:
        fb.write(path, {"x": np.arange(300_000.0)}, compression=None)
    program = "import sys, femtobarn; sys.exit(femtobarn._core.cli_main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "--stats", "merge", "--verify", tmp_path / "m.root", *inputs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = done.stderr.splitlines()
    assert summary[-5].startswith("3 files of "), done.stderr
    more = float(summary[-5].rpartition("(")[2].partition(" %")[0])
    assert more < 50, summary[-5]  # both ends of the files, at each opening
