import io
import json
import re
import sys
import types

import pytest

import femtobarn as fb
from femtobarn._shared import progress as _progress
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import format_bytes, format_seconds, format_table, html_table, plural


@pytest.fixture(scope="module")
def nt(dimuon):
    return fb.open(dimuon)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_999, "1.00 MB"), (5e12, "5.00 TB")],
)
def test_bytes_have_three_digits(n_bytes, text):
    assert format_bytes(n_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 µs"), (3e-6, "3 µs"), (0.0123, "12.3 ms"), (1.5, "1.5 s")])
def test_times_have_a_unit(seconds, text):
    assert format_seconds(seconds) == text


def test_nouns_have_numbers():
    assert [plural(n, "entry") for n in (0, 1, 1234)] == ["0 entries", "1 entry", "1,234 entries"]


def test_a_table_is_aligned_and_cut():
    table = format_table(("name", "n"), [("a", "1"), ("long", "100")], right=(1,))
    assert table == "name    n\n────  ───\na       1\nlong  100"
    assert all(len(line) <= 5 for line in format_table(("name", "n"), [("long", "1")], max_width=5).split("\n"))


def test_long_cells_lose_their_middle():
    assert format_table(("type",), [("std::vector<float>",)], max_cell=10).split("\n")[2] == "std::v…at>"


def test_html_is_escaped():
    assert "std::vector&lt;float&gt;" in html_table(("type",), [("std::vector<float>",)])


def test_the_text_of_an_ntuple_is_a_table_of_its_fields(nt):
    lines = repr(nt).split("\n")
    assert lines[0].startswith("Events: 12,000 entries, 9 fields, ")
    assert lines[0].endswith("dimuon.root")
    assert lines[1].split() == ["field", "C++", "type", "columns", "on", "disk", "compression"]
    row = next(line for line in lines if line.startswith("event "))
    assert "std::uint64_t" in row
    assert "B " in row
    assert any(line.startswith("Muon_pt ") and "projected" in line for line in lines)
    assert str(nt) == repr(nt)


def test_the_html_of_an_ntuple_is_a_table_of_its_fields(nt):
    text = nt._repr_html_()
    assert text.count("<tr>") == 1 + len(nt)
    assert "ROOT::VecOps::RVec&lt;float&gt;" in text


def test_a_wide_ntuple_shows_its_first_fields_as_text_and_all_in_notebooks(nt, monkeypatch):
    monkeypatch.setattr("femtobarn._files.ntuple._SHOWN", 3)
    assert repr(nt).endswith("… and 6 fields more: show() lists all")
    assert len(repr(nt).split("\n")) == 1 + 2 + 3 + 1
    assert nt._repr_html_().count("<tr>") == 1 + len(nt)


def test_show_prints_all_fields_that_pass(mixed, capsys):
    nt = fb.open(mixed)
    nt.show(filter_name="points*")
    lines = capsys.readouterr().out.split("\n")
    assert [line.split(" ")[0] or line.split()[0] for line in lines[2:5]] == ["points", "x", "y"]
    assert lines[3].startswith("  x ")
    stream = io.StringIO()
    nt["points"].show(stream=stream, max_width=30)
    assert "\nx " in stream.getvalue()
    assert max(map(len, stream.getvalue().split("\n"))) <= 30


def test_a_table_without_sizes_is_better_than_none(dimuon):
    nt = fb.open(dimuon)

    class Broken:
        def __getattr__(self, name):
            return getattr(real, name)

        def column_sizes(self):
            raise fb.FormatError("the page list is damaged")

    real, nt._opened = nt._opened, Broken()
    assert repr(nt).startswith("Events: 12,000 entries")


def test_fields_have_short_texts(mixed):
    nt = fb.open(mixed)
    assert repr(nt["f32"]) == "<Field 'f32': float in 'mixed'>"
    assert repr(nt["points"]) == "<Field 'points': std::vector<fb::Point>, 2 subfields in 'mixed'>"


def test_attribute_sets_have_a_line_each(testdata):
    nt = fb.open(testdata / "rntuple" / "attributes.root")
    assert repr(nt.attributes).startswith("{'lumi': <NTuple lumi: 5 entries, 3 fields, ")
    assert nt.attributes["lumi"].num_entries == 5


def test_plans_metrics_and_reports_are_readable_and_go_to_json(dimuon):
    nt = fb.open(dimuon)
    plan = nt.explain(["Muon_pt", "Muon_eta"])
    nt.arrays(["Muon_pt", "Muon_eta"])
    for value in (plan, nt.metrics, nt.verify(), nt.clusters[0]):
        assert json.loads(json.dumps(value.to_dict())) == value.to_dict()
        assert type(value).__name__ in repr(value)
        assert value == value.__class__(**{k: getattr(value, k) for k in value.to_dict()})
    for value in (plan, nt.metrics, nt.verify()):
        assert value._repr_html_().startswith("<")
    with pytest.raises(AttributeError):
        plan.pages = 3


def test_texts_say_which_ranges_are_counted(nt):
    assert "9 page ranges in 3 requests" in repr(nt.explain(["Muon_pt", "Muon_eta"]))
    assert "range read: " in repr(nt.metrics)


def test_a_plan_without_entries_has_no_columns_without_names(nt):
    plan = nt.explain(["Muon_pt"], 0, 0)
    assert all(column["field"] for column in plan.per_column)
    assert "0 entries" in repr(plan)


def test_the_problem_of_a_damage_is_shown_whole():
    problem = "the checksum does not fit: expected 0x0123456789abcdef, found 0xfedcba9876543210, and more to be long"
    report = fb.VerifyReport(damages=({"field": "run", "problem": problem},))
    assert problem in repr(report)


class Bar:
    made = None

    def __init__(self, description, unit):
        self.description, self.updates, self.closed = description, [], False
        Bar.made.append(self)

    def update(self, done, total):
        self.updates.append((done, total))

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    Bar.made = []
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(_progress, "_RichBar", Bar)
    monkeypatch.setattr(_progress, "_TqdmBar", Bar)
    monkeypatch.delenv("FEMTOBARN_PROGRESS", raising=False)
    return Bar.made


def test_there_is_no_bar_where_nobody_looks(bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("reading", None) as progress:
        progress.tick(1, 10)
    assert bars == []


def test_a_terminal_gets_a_bar_that_goes_away(bars, monkeypatch):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    with Progress("reading", None) as progress:
        progress.tick(1, 10)
        progress.tick(5, 10)
    assert [(bar.description, bar.updates, bar.closed) for bar in bars] == [("reading", [(1, 10), (5, 10)], True)]


def test_a_log_gets_lines_if_they_are_asked_for(bars, monkeypatch):
    """It got one empty line."""
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with Progress("processing a", True, "events") as progress:
        for n in (1000, 2000, 3000):
            progress.tick(n, None)
    with Progress("reading b", True) as progress:
        progress.tick(1_000_000, 10_000_000)
    assert bars == []
    first, last, other = log.getvalue().splitlines()
    assert (first, other) == ("processing a: 1,000 events", "reading b: 1.00 MB of 10.0 MB")
    assert re.fullmatch(r"processing a: 3,000 events, [\d,]+ events/s", last)


def test_a_short_read_gets_no_bar(bars, monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE", 60.0)
    with Progress("reading", True) as progress:
        progress.tick(1, 10)
    assert bars == []


def test_bars_can_be_turned_off(bars, monkeypatch):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    monkeypatch.setenv("FEMTOBARN_PROGRESS", "0")
    for enabled in (None, False):
        with Progress("reading", enabled) as progress:
            progress.tick(1, 10)
    assert bars == []


def test_a_notebook_gets_a_bar(bars, monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    with Progress("reading", None) as progress:
        progress.tick(1, 10)
    assert len(bars) == 1


def test_a_bar_that_fails_does_not_stop_the_read(bars, monkeypatch):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)

    def fail(self, done, total):
        raise RuntimeError("the terminal is gone")

    monkeypatch.setattr(Bar, "update", fail)
    with Progress("reading", True) as progress:
        progress.tick(1, 10)
        progress.tick(2, 10)
    assert len(bars) == 1


def test_iterating_shows_a_bar_only_if_it_was_asked_for(bars, dimuon, monkeypatch):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    for progress, shown in [(None, []), (True, [(4000, 12_000), (8000, 12_000)])]:
        assert len(list(fb.open(dimuon, progress=progress).iterate("nMuon", step_size=4000))) == 3
        assert [update for bar in bars for update in bar.updates if bar.description.startswith("iter")][:2] == shown
    assert all(bar.closed for bar in bars)


@pytest.mark.parametrize("unit", ["B", "entries"])
@pytest.mark.parametrize("kind", ["_RichBar", "_TqdmBar"])
def test_real_bars_work(kind, unit, need, capsys):
    need("rich" if kind == "_RichBar" else "tqdm")
    bar = getattr(_progress, kind)("reading", unit)
    bar.update(1000, 5000)
    bar.update(5000, 5000)
    bar.close()
    assert capsys.readouterr().out == ""


def test_processing_shows_how_many_events_are_done(bars, monkeypatch):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    store = fb.DataStore.connect("memory:")
    dataset = store.root.create_dataset("a")
    with store.write_batch() as batch:
        for number in range(40):
            dataset.create_run(1, batch=batch).create_subrun(2, batch=batch).create_event(number, batch=batch)
    fb.process(dataset, lambda event: None, executor="threads", workers=2, output_batch_size=8, progress=True)
    [bar] = bars
    assert bar.description.startswith("processing")
    assert bar.updates[-1] == (40, 40)
    assert bar.closed
