"""Files and directories are listed as `fb ls` and `fb info` do."""

import json
import shutil
import subprocess
import sys

import pytest

import femtobarn as fb


def cli(*arguments):
    command = [
        sys.executable,
        "-c",
        "from femtobarn._cli import main; import sys; sys.exit(main())",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_objects_are_those_of_fb_ls(testdata):
    path = testdata / "histograms.root"
    found = fb.ls(path)
    document = json.loads(cli("ls", "--json", path))
    assert [(item.path, item.cycle, item.classname, item.bytes_on_disk) for item in found] == [
        (item["path"], item["cycle"], item["class"], item["bytes_on_disk"]) for item in document["objects"]
    ]
    shown = [line.split()[0] for line in cli("ls", path).splitlines()[2:]]
    assert found.keys() == shown
    assert found.classnames()["fitted;1"] == "TH1F"


def test_older_cycles_and_directories_are_listed(testdata):
    found = fb.ls(testdata / "rntuple" / "again.root")
    cycles = [item.cycle for item in found]
    assert sorted(cycles) == [1, 2]
    name = found[0].path
    assert found[name].cycle == 2
    assert found[f"{name};1"].cycle == 1
    assert f"{name};1" in found
    assert "nothing" not in found
    with pytest.raises(fb.KeyNotFoundError, match=r"keys\(\) lists all names"):
        found["nothing"]
    crowd = fb.ls(testdata / "rntuple" / "crowd.root")
    assert any("/" in item.path for item in crowd)
    assert all(item.num_entries is not None for item in crowd if item.classname == "ROOT::RNTuple")


def test_several_files_are_one_table(testdata, dimuon):
    found = fb.ls([dimuon, testdata / "histograms.root"])
    assert {item.file for item in found} == {dimuon, str(testdata / "histograms.root")}
    assert repr(found).splitlines()[0].startswith("file ")
    assert fb.ls(str(testdata / "his*.root")).keys() == fb.ls(testdata / "histograms.root").keys()
    assert found.to_dicts()[0]["num_entries"] == 12_000


def test_directories_have_files_that_can_be_listed(tmp_path, dimuon):
    (tmp_path / "below").mkdir()
    shutil.copy(dimuon, tmp_path / "x.root")
    found = fb.ls(tmp_path)
    assert [(item.file, item.is_directory) for item in found] == [
        (f"{tmp_path}/below/", True),
        (f"{tmp_path}/x.root", False),
    ]
    assert fb.ls(found[1].file)[0].classname == "ROOT::RNTuple"
    assert len(fb.ls(tmp_path / "below")) == 0


def test_names_and_titles_are_escaped(tmp_path):
    with fb.recreate(tmp_path / "evil.root") as file:
        file.mkrntuple("<script>alert(1)</script>", {"<b>": "int32"}, "<img src=x onerror=alert(2)>").close()
    for text in (
        fb.ls(tmp_path / "evil.root")._repr_html_(),
        fb.open(tmp_path / "evil.root")._repr_html_(),
        fb.info(tmp_path / "evil.root")._repr_html_(),
    ):
        assert "<script" not in text
        assert "<img" not in text
        assert "<b>" not in text


def test_unreadable_files_say_why(tmp_path, dimuon):
    with pytest.raises(fb.NotFoundError):
        fb.ls(tmp_path / "no.root")
    (tmp_path / "text.root").write_text("not a ROOT file")
    with pytest.raises(fb.FormatError):
        fb.ls(tmp_path / "text.root")
    with pytest.raises(fb.UsageError, match="without the name of an object"):
        fb.ls(f"{dimuon}:Events")


def test_info_is_what_fb_info_prints(dimuon):
    about = fb.info(f"{dimuon}:Events")
    assert repr(about) + "\n" == cli("info", dimuon)
    assert about.to_dict() == json.loads(cli("info", "--json", dimuon))
    assert about.num_entries == about["num_entries"] == 12_000
    assert "clusters" in dir(about)
    assert "Muon_pt" in about._repr_html_()
    with pytest.raises(AttributeError):
        _ = about.nothing
    with pytest.raises(fb.UsageError, match="info takes one file, not 2"):
        fb.info([dimuon, dimuon])


def test_notebooks_search_all_fields(tmp_path):
    import numpy as np

    fb.write(tmp_path / "wide.root", {f"field_{i}": np.zeros(1, np.int32) for i in range(500)})
    text = fb.open(tmp_path / "wide.root")._repr_html_()
    assert text.count("<tr>") == 501
    assert 'type="search"' in text
    assert "http" not in text
    assert len(text) < 100_000
