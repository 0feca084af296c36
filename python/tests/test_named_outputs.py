"""Outputs that are objects or containers of DAOS: the names that ntuples get there, and what is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from page_stores import Daos

import femtobarn as fb

FB = Path(sys.executable).with_name("fb")


@pytest.fixture(params=["objects", "daos"])
def place(request, tmp_path, monkeypatch):
    """Return a function that returns the URL of an output."""
    if request.param == "daos":
        return Daos(tmp_path, {}, monkeypatch).url
    return lambda name: f"ntpl+file://{tmp_path}/{name}"


@pytest.fixture
def source(tmp_path):
    """Return the path of a file with an ntuple in a directory, and a histogram."""
    path = tmp_path / "source.root"
    with fb.recreate(path) as file:
        file.mkrntuple("d/Events", {"x": "int32"}).extend({"x": [1, 2, 3]})
        file["d/h"] = np.histogram([1.0, 2.0])
        file["h"] = np.histogram([1.0, 2.0])
    return path


@pytest.fixture
def several(tmp_path):
    """Return the path of a file with three ntuples."""
    path = tmp_path / "several.root"
    with fb.recreate(path) as file:
        for n, name in enumerate(("Runs", "LuminosityBlocks", "Events")):
            file.mkrntuple(name, {"x": "int32"}).extend({"x": list(range(n + 1))})
    return path


def run_fb(*args):
    return subprocess.run([FB, *map(str, args)], capture_output=True, text=True, check=False)


def fb_json(*args):
    done = run_fb(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OPERATIONS = {
    "convert": lambda source, url: fb.convert(source, url),
    "clone": lambda source, url: fb.clone(source, url, verify=True),
    "merge": lambda source, url: fb.merge([source], url, verify=True),
    "reshape": lambda source, url: fb.reshape(source, url, compression="lz4", verify=True),
    "skim": lambda source, url: fb.skim(source, url, "x > 0", verify=True),
    "migrate": lambda source, url: fb.migrate(source, url, verify=True),
    "fb convert": lambda source, url: fb_json("convert", source, url),
    "fb clone": lambda source, url: fb_json("clone", source, url),
    "fb merge": lambda source, url: fb_json("merge", url, source),
    "fb reshape": lambda source, url: fb_json("reshape", source, url, "--compression", "lz4"),
    "fb skim": lambda source, url: fb_json("skim", source, url, "--where", "x > 0"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_name_at_the_end_of_a_url_is_that_of_the_ntuple(place, source, operation):
    url = place("one")
    OPERATIONS[operation](f"{source}:d/Events", f"{url}:New")
    assert fb.open(f"{url}:New").arrays().to_list() == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert [ntuple.path for ntuple in fb.ls(url)] == ["New"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_url_names_an_ntuple_of_a_directory_and_other_things_are_left_behind(place, source, operation):
    url = place("all")
    report = OPERATIONS[operation](source, url)
    assert [ntuple.path for ntuple in fb.ls(url)] == ["Events"]
    assert fb.open({url: "Events"}).num_entries == 3
    if operation == "migrate":
        (report,) = report
    if isinstance(report, dict):
        left = {item["name"] for item in report["left_behind"]}
    else:
        left = {item.name for item in report.left_behind}
    assert left == {"d/h", "h"}


@pytest.mark.parametrize("how", ["write", "recreate", "create"])
def test_what_is_written_gets_the_name_at_the_end_of_the_url(place, how):
    url = place("written")
    data = {"x": [1, 2]}
    if how == "write":
        fb.write(f"{url}:New", data)
    else:
        with getattr(fb, how)(f"{url}:New") as file:
            file.mkrntuple("New", data).extend(data)
    assert fb.open(f"{url}:New").num_entries == 2
    assert [ntuple.path for ntuple in fb.ls(url)] == ["New"]
    with pytest.raises(fb.UsageError, match=r"New.*another one is given.*Other"):
        fb.write(f"{url}:New", data, "Other")
    with pytest.raises(fb.UsageError, match="would replace the input"):
        fb.write(f"{url}:New", fb.open(f"{url}:New"))


def test_join_columns_gives_the_name(place, source, tmp_path):
    fb.write(tmp_path / "more.root", {"y": [1, 2, 3]})
    url = place("joined")
    fb.join_columns([f"{source}:d/Events", f"{tmp_path}/more.root:Events"], f"{url}:New", verify=True)
    assert fb.open(f"{url}:New").keys() == ["x", "y"]


def test_two_names_are_an_error(place, source):
    with pytest.raises(fb.UsageError, match=r'"New".*"Other"'):
        fb.convert(f"{source}:d/Events", f"{place('two')}:New", name="Other")


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if not name.startswith("fb ")])
def test_objects_that_would_get_several_ntuples_are_refused_before_anything_is_written(several, tmp_path, operation):
    with pytest.raises(fb.UsageError, match=r"3 \(Runs, LuminosityBlocks, Events\): name one"):
        OPERATIONS[operation](several, f"ntpl+file://{tmp_path}/one")
    assert not (tmp_path / "one").exists()
    with pytest.raises(fb.UsageError, match=r"New"):
        OPERATIONS[operation](several, f"ntpl+file://{tmp_path}/one:New")
    assert not (tmp_path / "one").exists()


def test_different_ntuples_of_several_files_are_no_objects(source, several, tmp_path):
    with pytest.raises(fb.UsageError, match=r"2 \(Events, Runs\)"):
        fb.merge([f"{source}:d/Events", f"{several}:Runs"], f"ntpl+file://{tmp_path}/one")
    # the same name for both, and the same columns: one ntuple
    fb.merge([f"{source}:d/Events", f"{several}:Runs"], f"ntpl+file://{tmp_path}/one:All", verify=True)
    assert fb.open(f"ntpl+file://{tmp_path}/one:All").num_entries == 4


def test_a_container_gets_all_ntuples_with_different_names(tmp_path, monkeypatch, several):
    url = Daos(tmp_path, {}, monkeypatch).url("all")
    fb.clone(several, url, verify=True)
    assert sorted(ntuple.path for ntuple in fb.ls(url)) == ["Events", "LuminosityBlocks", "Runs"]
    path = tmp_path / "twice.root"
    with fb.recreate(path) as file:
        for name in ("d/Events", "e/Events"):
            file.mkrntuple(name, {"x": "int32"}).extend({"x": [1]})
    for operation in ("clone", "convert"):
        with pytest.raises(fb.UsageError, match=r'two ntuples .*"Events".*CONTAINER:NAME'):
            OPERATIONS[operation](path, url)


def written(several, source, tmp_path):
    more = tmp_path / "more.root"
    fb.write(more, {"x": [4, 5]})
    return [several, source, more]


def test_convert_to_a_directory_of_objects_makes_one_for_each_ntuple(several, source, tmp_path):
    files = written(several, source, tmp_path)
    url = f"ntpl+file://{tmp_path}/out"
    reports = fb.convert(files, f"{url}/", jobs=2)
    paths = [f"several/{name}" for name in ("Runs", "LuminosityBlocks", "Events")]
    paths += ["source/d/Events", "more/Events"]
    assert [report.output for report in reports] == [f"{url}/{path}" for path in paths]
    assert [fb.open(report.output).num_entries for report in reports] == [1, 2, 3, 3, 2]
    again = fb.convert(files, f"{url}/", resume=True)
    assert [report.status for report in again] == ["kept"] * 5
    (one,) = fb.convert(source, f"{url}-one/")
    assert one.output == f"{url}-one/d/Events"
    done = run_fb("convert", *files, f"{url}-fb/")
    assert done.returncode == 0, done.stderr
    assert fb.open(f"{url}-fb/more/Events").arrays().to_list() == [{"x": 4}, {"x": 5}]
    table = tmp_path / "table.parquet"
    fb.convert(files[2], table)
    (report,) = fb.convert(table, f"{url}-table/")
    assert report.output == f"{url}-table/table"
    assert fb.open(report.output).num_entries == 2
    with pytest.raises(fb.UsageError, match="not tables"):
        fb.convert(files, f"{url}/", kind="parquet")


def test_what_other_outputs_of_a_call_have_is_not_left_behind(source, tmp_path):
    with fb.update(source) as file:
        file["Runs"] = {"run": [7]}
    reports = fb.convert(source, f"ntpl+file://{tmp_path}/out/")
    assert [report.output for report in reports] == [
        f"ntpl+file://{tmp_path}/out/{name}" for name in ("d/Events", "Runs")
    ]
    for report in reports:
        assert sorted(item.name for item in report.left_behind) == ["d/h", "h"]
    shown = run_fb("convert", source, f"ntpl+file://{tmp_path}/shown/").stdout
    assert "Runs (" not in shown
    assert "2 ntuples converted" in shown


def test_ntuples_with_one_name_in_several_directories_stay_apart(tmp_path, source):
    """Outputs for directories often have the same last part."""
    files = []
    for n in range(2):
        files.append(tmp_path / f"job_{n}.root")
        fb.write(files[-1], {"x": [n]})
    url = f"ntpl+file://{tmp_path}/all"
    fb.migrate(files, f"{url}/")
    pattern = f"{url}/*/Events"
    names = [f"job_{n}/Events" for n in range(2)]
    for make in (fb.migrate, fb.convert):
        folder = tmp_path / make.__name__
        made = make(pattern, f"{folder}/")
        assert [report.output for report in made] == [f"{folder}/{name}.root" for name in names]
        made = make(pattern, f"ntpl+file://{folder}/")
        assert [report.output for report in made] == [f"ntpl+file://{folder}/{name}" for name in names]
        assert [fb.open(report.output)["x"].array().to_list() for report in made] == [[0], [1]]
    (one,) = fb.migrate(f"{url}/job_1/Events", f"{tmp_path}/one/")
    assert one.output == f"{tmp_path}/one/Events.root"


def test_convert_to_a_container_with_a_slash_makes_one_for_each_ntuple(several, source, tmp_path, monkeypatch):
    files = written(several, source, tmp_path)
    url = Daos(tmp_path, {}, monkeypatch).url("out")
    reports = fb.convert(files, f"{url}/")
    names = ["several_Runs", "several_LuminosityBlocks", "several_Events", "source_Events", "more_Events"]
    assert [report.output for report in reports] == [f"{url}:{name}" for name in names]
    assert [fb.open(report.output).num_entries for report in reports] == [1, 2, 3, 3, 2]
    assert sorted(ntuple.path for ntuple in fb.ls(url)) == sorted(names)


@pytest.mark.parametrize("operation", ["clone", "merge", "reshape", "skim"])
def test_others_do_not_write_to_directories_of_objects(source, tmp_path, operation):
    with pytest.raises(fb.UsageError, match="is a directory: give the URL of an ntuple"):
        OPERATIONS[operation](source, f"ntpl+file://{tmp_path}/out/")
    assert not (tmp_path / "out").exists()


def test_bad_files_of_a_directory_of_objects_are_reported(several, tmp_path):
    bad = tmp_path / "bad.root"
    bad.write_bytes(several.read_bytes()[:300])
    reports = fb.convert([bad, several], f"ntpl+file://{tmp_path}/out/", skip_bad_files=True)
    assert [report.status for report in reports] == ["failed", *["converted"] * 3]


@pytest.mark.parametrize("url", ["ntpl://b/p", "s3+ntpl://b/p", "ntpl+http://h/b/p", "gopher://h/p.root"])
def test_unknown_schemes_are_no_names_of_files(source, tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    known = r"unsupported scheme: .*https.*ntpl\+s3.*daos"
    for operation in OPERATIONS:
        if operation.startswith("fb "):
            continue
        with pytest.raises(fb.FemtobarnError, match=known):
            OPERATIONS[operation](f"{source}:d/Events", url)
    with pytest.raises(fb.FemtobarnError, match=known):
        fb.write(url, {"x": [1]})
    for args in (["convert", source, url], ["clone", source, url], ["merge", url, source], ["migrate", source, url]):
        done = run_fb(*args)
        assert "unsupported scheme" in done.stderr, args
        assert "ntpl+s3" in done.stderr
    for args in (["ls", url], ["info", url], ["cp", url, tmp_path / "copy.root"]):
        done = run_fb(*args)
        assert "ntpl+s3" in done.stderr, (args, done.stderr)
    with pytest.raises(fb.FemtobarnError, match=r"ntpl\+s3"):
        fb.open(url)
    assert "supported are" in run_fb("cp", source, url).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.root"]
