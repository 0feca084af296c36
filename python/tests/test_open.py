import os
import shutil
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb
from femtobarn._core import find_files
from femtobarn._files.open import resolve


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("a.root", "a.root", None),
        ("a.root:Events", "a.root", "Events"),
        ("a.root:Events;2", "a.root", "Events;2"),
        ("a.root:/folder//Events/", "a.root", "folder/Events"),
        ("a.root:", "a.root", None),
        (" a.root:Events ", "a.root", "Events"),
        ("a.root.1:Events", "a.root.1", "Events"),
        ("A.ROOT:Events", "A.ROOT", "Events"),
        ("folder.root:x/a.root:Events", "folder.root:x/a.root", "Events"),
        ("scope:a.root", "scope:a.root", None),
        ("scope:a.root:Events", "scope:a.root", "Events"),
        ("data.ntuple:Events", "data.ntuple", "Events"),
        ("data.ntuple", "data.ntuple", None),
        ("https://host/a.root", "https://host/a.root", None),
        ("https://host:8443/a.root:Events", "https://host:8443/a.root", "Events"),
        ("https://host:8443/a.root?token=b:c", "https://host:8443/a.root?token=b:c", None),
        ("https://host/a.root:Events?token=b", "https://host/a.root?token=b", "Events"),
        ("root://host:1094//store/scope:a.root", "root://host:1094//store/scope:a.root", None),
        ("root://host:1094//store/a.root:d/E", "root://host:1094//store/a.root", "d/E"),
        ("root://host.root:1094//a", "root://host.root:1094//a", None),
        ("https://host:8443", "https://host:8443", None),
        ("s3://bucket/data:Events", "s3://bucket/data", "Events"),
        ("file:///tmp/a%20b.root:Events", "/tmp/a b.root", "Events"),
        ("nofile.root:b:c", "nofile.root", "b:c"),
    ],
)
def test_a_colon_separates_the_file_from_the_name_in_it(text, path, name):
    assert find_files(text) == [(path, name)]


def test_an_existing_file_with_a_colon_in_its_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run:Events").touch()
    assert find_files("run:Events") == [("run:Events", None)]


def test_a_path_object_is_never_split():
    assert resolve(Path("a.root:Events")) == [("a.root:Events", None)]


def test_a_path_object_made_of_a_url_gets_its_slashes_back():
    assert resolve(Path("file:/tmp/a.root")) == [("/tmp/a.root", None)]
    assert resolve(Path("https://host/a.root")) == [("https://host/a.root", None)]
    assert resolve(Path("s3://bucket/a.root")) == [("s3://bucket/a.root", None)]


@pytest.mark.parametrize("url", ["gopher://host//a.root", "NEWS://h/a.root"])
@pytest.mark.parametrize("function", [fb.open, fb.iterate, fb.concatenate])
def test_what_nobody_reads_is_refused(function, url):
    scheme = url.partition("://")[0]
    for files in (f"{url}:Events", {url: "Events"}, [url], f"{url}?token=secret"):
        with pytest.raises(fb.UsageError, match=f"{scheme}:// is not supported by this version") as caught:
            list(function(files))
        assert "secret" not in str(caught.value)


def test_names_in_dicts_may_be_missing_or_nested():
    files = {"a.root": "Events", Path("b.root"): None, "c.root": {"object_path": "/d/E"}, "d.root:x": "E"}
    assert resolve(files) == [("a.root", "Events"), ("b.root", None), ("c.root", "d/E"), ("d.root:x", "E")]


def test_files_of_a_list_keep_their_order():
    files = ["b.root:E", "a.root", {"c.root": "F"}, Path("d.root")]
    assert resolve(files) == [("b.root", "E"), ("a.root", None), ("c.root", "F"), ("d.root", None)]


def test_globs_are_sorted_and_braces_expanded(tmp_path):
    for name in ("run_10.root", "run_2.root", "deep/er/run_3.root", "other.root"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert resolve(f"{tmp_path}/run_*.root:E") == [(f"{tmp_path}/run_10.root", "E"), (f"{tmp_path}/run_2.root", "E")]
    assert [p for p, _ in resolve(f"{tmp_path}/**/run_?.root")] == [
        f"{tmp_path}/deep/er/run_3.root",
        f"{tmp_path}/run_2.root",
    ]
    assert [p for p, _ in resolve(f"{tmp_path}/{{other,run_2}}.root:E")] == [
        f"{tmp_path}/other.root",
        f"{tmp_path}/run_2.root",
    ]
    assert len(resolve(tmp_path / "run_*.root")) == 2


def test_a_file_whose_name_looks_like_a_glob_is_found(tmp_path):
    (tmp_path / "a[1].root").touch()
    assert resolve(f"{tmp_path}/a[1].root:E") == [(f"{tmp_path}/a[1].root", "E")]


def test_file_urls_become_paths():
    assert resolve("file:///tmp/with%20space.root:E") == [("/tmp/with space.root", "E")]


def test_the_home_folder_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/of/nobody")
    assert resolve("~/a.root:E") == [("/home/of/nobody/a.root", "E")]


def test_a_glob_without_matches_is_not_found(tmp_path):
    with pytest.raises(fb.NotFoundError, match=r"no file matches .*none_\*"):
        fb.open(f"{tmp_path}/none_*.root")
    with pytest.raises(fb.NotFoundError):
        fb.open(f"{tmp_path}/nowhere/*.root")


@pytest.mark.parametrize("files", [3, b"a.root", None, {"a.root": 3}, {3: "Events"}, [3]])
def test_what_is_no_file_is_refused(files):
    with pytest.raises(fb.UsageError):
        resolve(files)


def test_no_files_at_all_is_refused():
    with pytest.raises(fb.UsageError):
        fb.open([])


@pytest.mark.parametrize("how", ["colon", "alone", "path", "dict", "list", "cycle"])
def test_one_file_opens_in_every_way(dimuon, how):
    files = {
        "colon": f"{dimuon}:Events",
        "alone": dimuon,
        "path": Path(dimuon),
        "dict": {dimuon: "Events"},
        "list": [f"{dimuon}:Events"],
        "cycle": f"{dimuon}:Events;1",
    }
    nt = fb.open(files[how])
    assert nt.name == "Events"
    assert nt.num_entries == 12_000
    assert nt.ntuple is nt


def test_several_files_are_one_ntuple(dimuon, tmp_path):
    for number in range(3):
        shutil.copy(dimuon, tmp_path / f"part_{number}.root")
    nt = fb.open(f"{tmp_path}/part_*.root:Events")
    assert nt.num_entries == 36_000
    assert [Path(path).name for path, _ in nt.files] == ["part_0.root", "part_1.root", "part_2.root"]
    first, second = nt["event"].array(entry_stop=12_000), nt["event"].array(entry_start=12_000, entry_stop=24_000)
    assert first.tolist() == second.tolist()


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(fb.NotFoundError, match=r"missing\.root") as caught:
        fb.open(tmp_path / "missing.root")
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, OSError)


def test_a_missing_ntuple_lists_those_that_there_are(dimuon):
    with pytest.raises(KeyError, match="Events") as caught:
        fb.open(f"{dimuon}:Event")
    assert isinstance(caught.value, fb.KeyNotFoundError)


def test_files_without_the_ntuple_can_be_left_out(dimuon, mixed):
    with pytest.raises(fb.KeyNotFoundError):
        fb.open([f"{dimuon}:Events", f"{mixed}:Events"])
    assert fb.open([f"{dimuon}:Events", f"{mixed}:Events"], allow_missing=True).num_entries == 12_000


def test_uproots_options_have_no_effect_and_others_are_refused(dimuon):
    assert fb.open(dimuon, num_workers=4, handler=None, timeout=3).num_entries == 12_000
    with pytest.raises(TypeError, match="did you mean 'threads'"):
        fb.open(dimuon, thread=4)


def test_settings_as_arguments_are_told_where_to_go(dimuon, tmp_path):
    nt = fb.open(dimuon)
    for call, setting in [
        (lambda **options: fb.open(dimuon, **options), "immutable"),
        (lambda **options: fb.iterate(dimuon, **options), "cache_key"),
        (lambda **options: fb.concatenate(dimuon, **options), "lazy_download"),
        (lambda **options: fb.convert(dimuon, tmp_path / "a.root", **options), "cache"),
        (lambda **options: fb.merge([dimuon], tmp_path / "a.root", **options), "cache"),
        (nt.arrays, "cache"),
        (lambda **options: fb.process(nt, len, **options), "immutable"),
    ]:
        told = f"'{setting}': it is a setting; give storage_options.*, or set the variable FEMTOBARN_{setting.upper()}$"
        with pytest.raises(TypeError, match=told):
            call(**{setting: "x"})


def test_a_file_that_is_no_root_file_is_refused(tmp_path):
    (tmp_path / "text.root").write_text("no root file at all, but long enough to look at " * 10)
    with pytest.raises(fb.FormatError, match=r"text\.root"):
        fb.open(tmp_path / "text.root")


def test_a_closed_ntuple_says_so_and_its_arrays_live_on(dimuon):
    with fb.open(dimuon) as nt:
        array = nt["nMuon"].array()
        field = nt["nMuon"]
    assert len(array) == 12_000
    with pytest.raises(fb.UsageError, match="closed"):
        field.array()
    assert "closed" in repr(nt)
    nt.close()
    assert nt.metrics.pages > 0


def test_open_files_are_refused_not_taken_for_lists_of_names(dimuon):
    with open(dimuon, "rb") as file:  # noqa: PTH123
        for reader in (fb.open, fb.concatenate, lambda files: next(fb.iterate(files))):
            with pytest.raises(fb.UsageError):
                reader(file)


def test_relative_paths_work(dimuon, monkeypatch):
    monkeypatch.chdir(Path(dimuon).parent)
    assert fb.open(os.path.basename(dimuon)).num_entries == 12_000  # noqa: PTH119


def test_files_with_other_headers_give_the_members_of_classes_the_same_places(testdata):
    paths = [testdata / "rntuple" / name for name in ("classes.root", "classes_pages.root")]
    both, parts = fb.open(paths).arrays(), [fb.open(path).arrays() for path in paths]
    assert both.fields == parts[0].fields
    for array, part in ((both[: len(parts[0])], parts[0]), (both[len(parts[0]) :], parts[1])):
        assert all(ak.array_equal(array[name], part[name], equal_nan=True) for name in both.fields)


def test_several_trees_are_called_trees(need, tmp_path):
    """They were called RNTuples."""
    uproot = need("uproot")
    with uproot.recreate(tmp_path / "trees.root") as file:
        for name in ("a", "b"):
            file.mktree(name, {"x": "float32"}).extend({"x": np.zeros(2, "f4")})
    with uproot.recreate(tmp_path / "both.root") as file:
        file.mktree("Events", {"x": "f4"})
        file["Runs"] = {"run": np.array([1, 2])}  # an RNTuple
    with pytest.raises(fb.UsageError, match=r"2 RNTuples and TTrees; name one of them: (Events, Runs|Runs, Events)"):
        fb.open(tmp_path / "both.root")
    with pytest.raises(fb.UsageError, match=r"has 2 TTrees; name one of them: a, b \(e\.g\. .*\.root:a\)"):
        fb.open(tmp_path / "trees.root")
    with uproot.recreate(tmp_path / "histogram.root") as file:
        file["h"] = np.histogram([1, 2])
    how = r'; fb\.histogram\(".*histogram\.root:h"\) reads a histogram, and `fb hist .*histogram\.root:h` draws it'
    with pytest.raises(fb.UsageError, match="has 0 RNTuples or TTrees; it contains TH1D h" + how):
        fb.open(tmp_path / "histogram.root")
    with pytest.raises(fb.UsageError, match="not a ROOT::RNTuple or TTree" + how):
        fb.open(f"{tmp_path}/histogram.root:h")


def test_a_missing_name_lists_other_objects_only_if_they_are_alike(need, tmp_path):
    uproot = need("uproot")
    with uproot.recreate(tmp_path / "both.root") as file:
        file.mktree("Events", {"x": "float32"}).extend({"x": np.zeros(2, "f4")})
        file["counts"] = np.histogram([1, 2])
    with pytest.raises(fb.KeyNotFoundError, match='did you mean "Events" or "counts"'):
        fb.open(f"{tmp_path}/both.root:count")
    with pytest.raises(fb.KeyNotFoundError, match=r'did you mean "Events"\?'):
        fb.open(f"{tmp_path}/both.root:NoSuchTree")


def test_an_event_store_is_told_to_be_none_of_files() -> None:
    for url in ("dir:mystore", "dir:/a/b.root", "memory:", "redis://localhost:6379"):
        with pytest.raises(fb.UsageError, match=f"{url} is an event store, not a file: .*DataStore.connect opens it"):
            fb.open(url)
