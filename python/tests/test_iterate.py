import gc
import shutil
import warnings
import weakref

import awkward as ak
import pytest

import femtobarn as fb
from femtobarn._shared.steps import num_bytes, step_entries


@pytest.fixture(scope="module")
def nt(dimuon):
    return fb.open(dimuon)


@pytest.fixture
def three(dimuon, tmp_path):
    for number in range(3):
        shutil.copy(dimuon, tmp_path / f"part_{number}.root")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("100 MB", 100_000_000),
        ("1.5kB", 1500),
        (" 2 GiB ", 2 * 1024**3),
        (".5 MB", 500_000),
        ("1e3 B", 1000),
        ("3 tb", 3 * 10**12),
        (7, 7),
    ],
)
def test_memory_sizes_have_units(text, n_bytes):
    assert num_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["MB", "ten MB", "-3 MB", "100 MBit", ""])
def test_a_memory_size_needs_a_number_and_a_unit(text):
    with pytest.raises(fb.UsageError, match="100 MB"):
        num_bytes(text)


def test_a_step_has_at_least_one_entry():
    assert step_entries("1 B", 10**9, 10) == 1
    assert step_entries("1 GB", 0, 10) == 10


def test_a_memory_size_beyond_all_bounds_is_refused(nt):
    with pytest.raises(fb.UsageError, match="1e300 GB"):
        nt.iterate("nMuon", step_size="1e300 GB")


@pytest.mark.parametrize("step_size", [10**30, "9 EB"])
def test_a_step_may_be_larger_than_the_file(nt, step_size):
    assert [len(batch) for batch in nt.iterate("nMuon", step_size=step_size)] == [12_000]


@pytest.mark.parametrize("step_size", [0, -1, 1.5, None, "1"])
def test_a_bad_step_size_is_an_error_of_the_call(nt, dimuon, step_size):
    with pytest.raises(fb.UsageError):
        nt.iterate("nMuon", step_size=step_size)
    with pytest.raises(fb.UsageError):
        fb.iterate(dimuon, "nMuon", step_size=step_size)


def test_a_step_size_without_unit_is_told_the_integer(nt):
    with pytest.raises(fb.UsageError, match="integer 1000 for 1000 entries"):
        nt.iterate("nMuon", step_size="1000")


@pytest.mark.parametrize("step_size", [1000, 5000.0, 12_000, 5e4])
@pytest.mark.parametrize("prefetch", [True, False])
def test_steps_put_together_are_the_whole(nt, step_size, prefetch):
    batches = list(nt.iterate(["nMuon", "Muon_pt"], step_size=step_size, prefetch=prefetch))
    assert [len(batch) for batch in batches[:-1]] == [step_size] * (len(batches) - 1)
    whole = nt.arrays(["nMuon", "Muon_pt"])
    assert ak.concatenate(batches).tolist() == whole.tolist()


def test_steps_of_a_range_begin_at_its_start(nt):
    found = nt.iterate("run", entry_start=-1000, entry_stop=-100, step_size=400, report=True)
    assert [(report.start, report.stop) for _, report in found] == [
        (11_000, 11_400),
        (11_400, 11_800),
        (11_800, 11_900),
    ]


def test_a_step_of_memory_has_about_that_size(nt):
    names = ["Muon_pt", "Muon_eta", "run"]
    sizes = [batch.nbytes for batch in nt.iterate(names, step_size="50 kB")]
    assert len(sizes) > 2
    assert all(25_000 < size < 100_000 for size in sizes[:-1])
    assert nt.num_entries_for("50 kB", names) == len(next(nt.iterate(names, step_size="50 kB")))


def test_an_empty_range_has_no_steps(nt):
    assert list(nt.iterate("run", entry_start=5, entry_stop=5)) == []


def test_reports_say_where_a_batch_is_from(three):
    nt = fb.open(f"{three}/part_*.root:Events")
    found = list(nt.iterate("nMuon", step_size=7000, report=True))
    assert [(r.tree_entry_start, r.tree_entry_stop) for _, r in found] == [(0, 7000), (7000, 12_000)] * 3
    assert [(r.start, r.stop) for _, r in found][2:4] == [(12_000, 19_000), (19_000, 24_000)]
    assert all(len(batch) == r.global_entry_stop - r.global_entry_start for batch, r in found)
    assert [r.file_path[-11:] for _, r in found[::2]] == ["part_0.root", "part_1.root", "part_2.root"]
    assert found[0][1].tree is nt
    assert found[0][1].to_global(5).start == 5
    assert "start=0 stop=7000" in repr(found[0][1])


def test_many_files_are_iterated_one_after_the_other(three, nt):
    reports = []
    total = []
    for batch, report in fb.iterate(f"{three}/part_*.root:Events", "event", step_size=7000, report=True):
        reports.append((report.start, report.stop, report.tree_entry_start))
        total.append(batch)
    assert reports[:3] == [(0, 7000, 0), (7000, 12_000, 7000), (12_000, 19_000, 0)]
    assert ak.concatenate(total).event.tolist() == nt["event"].array().tolist() * 3


def test_iteration_takes_files_in_every_form(three, nt):
    path = str(three / "part_0.root")
    for files in (nt, [nt, path], {path: "Events"}, [f"{path}:Events", {path: None}], three / "part_0.root"):
        n_files = 2 if isinstance(files, list) else 1
        assert sum(map(len, fb.iterate(files, "run"))) == n_files * 12_000


def test_pandas_index_goes_on_across_files(three):
    frames = list(fb.iterate(f"{three}/part_*.root:Events", "nMuon", step_size=8000, library="pd"))
    assert [(frame.index[0], frame.index[-1]) for frame in frames][:3] == [(0, 7999), (8000, 11_999), (12_000, 19_999)]


@pytest.mark.parametrize("read", [fb.iterate, lambda *args, **options: [fb.concatenate(*args, **options)]])
def test_files_without_the_ntuple_can_be_left_out_but_no_fields(dimuon, mixed, read):
    files = [f"{dimuon}:Events", f"{mixed}:Events"]
    with pytest.raises(fb.KeyNotFoundError):
        list(read(files, "run"))
    assert sum(map(len, read(files, "run", allow_missing=True))) == 12_000
    with pytest.raises((fb.KeyNotFoundError, fb.UsageError)):
        list(read([*files, f"{mixed}:mixed"], "run", allow_missing=True))


def test_iterating_over_files_of_other_ntuples_is_refused(dimuon, mixed):
    with pytest.raises(fb.UsageError, match="'mixed', but earlier files have 'Events'"):
        list(fb.iterate([dimuon, mixed]))
    with pytest.raises(fb.UsageError, match="entry_start and entry_stop"):
        fb.iterate(dimuon, entry_stop=3)


def test_bad_arguments_are_errors_of_the_call(dimuon):
    with pytest.raises(fb.UsageError):
        fb.iterate(dimuon, "run", library="nonsense")
    with pytest.raises(fb.UsageError):
        fb.iterate(dimuon, cut="run >")
    with pytest.raises(TypeError):
        fb.iterate(dimuon, nonsense=1)


def test_concatenate_is_all_files_at_once(three, nt):
    one = nt.arrays(["nMuon", "Muon_pt"])
    files = f"{three}/part_*.root:Events"
    assert fb.concatenate(files, ["nMuon", "Muon_pt"]).tolist() == ak.concatenate([one] * 3).tolist()
    part = fb.concatenate(files, "event", entry_start=11_990, entry_stop=12_010)
    assert part.event.tolist() == [*nt["event"].array()[-10:], *nt["event"].array()[:10]]
    assert len(fb.concatenate([nt, f"{three}/part_0.root"], "run", library="np")["run"]) == 24_000
    assert len(fb.concatenate(nt, "run")) == 12_000


def test_batches_do_not_outlive_their_use(nt):
    alive = []
    for batch in nt.iterate(["Muon_pt"], step_size=1000, prefetch=False):
        alive.append(weakref.ref(batch))
        del batch
        gc.collect()
        assert sum(reference() is not None for reference in alive) == 0


def test_an_iteration_can_be_left_early(nt):
    for _ in nt.iterate("Muon_pt", step_size=10):
        break
    assert len(nt["run"].array()) == 12_000


def test_a_name_means_the_same_field_in_all_files(tmp_path):
    # the second file has a member of that name, but no top-level field
    fb.write(tmp_path / "a.root", {"pt": [1.5, 2.5], "jet": ak.Array([{"pt": 10}, {"pt": 11}])})
    fb.write(tmp_path / "b.root", {"jet": ak.Array([{"pt": 12}, {"pt": 13}])})
    both = [tmp_path / "a.root", tmp_path / "b.root"]
    steps = fb.iterate(both, ["pt"])
    assert ak.to_list(next(steps)["pt"]) == [1.5, 2.5]
    with pytest.raises(fb.errors.KeyNotFoundError, match=r"no field 'pt' in .*b\.root; 'pt' would be 'jet\.pt' there"):
        next(steps)
    nt = fb.open(both)
    for read in (lambda: nt["pt"], lambda: nt.arrays(["pt"]), lambda: fb.concatenate(both, ["pt"])):
        with pytest.raises(fb.errors.KeyNotFoundError, match=r"field 'pt' of .* is skipped: "):
            read()
    assert nt["jet.pt"].array().to_list() == [10, 11, 12, 13]


@pytest.fixture
def differing(tmp_path):
    """Return three files: the second lacks a field and a member, and has a field that the others do not have."""
    for name, data in [
        ("a", {"a_pt": [1, 2], "a_eta": [3, 4], "b": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}),
        ("b", {"a_pt": [5, 6], "a_new": [1, 1], "b": [{"x": 5}, {"x": 7}]}),
        ("c", {"a_pt": [7, 8], "a_eta": [9, 10], "b": [{"x": 8, "y": 9}, {"x": 9, "y": 0}]}),
    ]:
        fb.write(tmp_path / f"{name}.root", data)
    return [tmp_path / f"{name}.root" for name in "abc"]


def told(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(one.category is fb.UnreadableWarning and one.filename == __file__ for one in found)
    return [str(one.message) for one in found]


def test_fields_do_not_change_from_file_to_file_without_a_word(differing):
    for options in ({"filter_name": "a_*"}, {"expressions": ["a_*"]}, {}):
        lacks, has = told(lambda options=options: list(fb.iterate(differing, **options)))
        assert "b.root has no 'a_eta'" in lacks
        assert ("'b.y'" in lacks) == (not options)
        assert "a.root has no 'a_new'" in has
    assert told(lambda: list(fb.iterate(differing, "a_pt"))) == []
    assert told(lambda: list(fb.iterate(differing, filter_name=["a_pt", "nothing"]))) == []
    (only,) = told(lambda: list(fb.iterate(differing, "b")))
    assert "b.root has no 'b.y'" in only


@pytest.mark.parametrize("read", ["arrays", "iterate", "concatenate"])
def test_what_not_all_files_have_is_not_left_out_without_a_word(differing, read):
    def call(**options):
        if read == "concatenate":
            return told(lambda: fb.concatenate(differing, **options))
        nt = fb.open(differing)
        both = told(lambda: [list(getattr(nt, read)(**options)) for _ in range(2)])
        assert len(both) < 2  # once, not for each read
        return both

    for options in ({"filter_name": "a_*"}, {"expressions": ["a_*"]}):
        (message,) = call(**options)
        assert "not all files of 'Events' have the same fields; left out: 'a_eta' (not in " in message
        assert "b.root), 'a_new' (not in " in message
        assert message.endswith("a.root)")
    (message,) = call(filter_name=lambda name: name == "a_eta" or name == "a_pt")
    assert "'a_eta' (not in " in message
    assert message.endswith("b.root)")
    (message,) = call()
    assert all(f"{name!r} (not in " in message for name in ("a_eta", "a_new", "b.y"))
    (message,) = call(expressions="b")
    assert "'b.y'" in message
    assert call(expressions=["a_pt"]) == []
    assert call(filter_name="b.x") == []
