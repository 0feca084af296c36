"""The proof that a file has the entries of its inputs: equal files are proven, differences are found."""

import json
import shutil
import struct

import awkward as ak
import numpy as np
import pytest
from test_merge import FILES, TESTDATA, events, mounted  # noqa: F401 (a fixture)

import femtobarn as fb


def proven(path, against, **options):
    """Return the proof of a file that equals its inputs."""
    report = fb.open(path).verify(against=against, **options)
    assert report.ok, report
    assert report.differences == ()
    return report.against


def refuted(path, against, **options):
    """Return the differences of a file from its inputs, although all of its checksums are correct."""
    report = fb.open(path).verify(against=against, **options)
    assert not report
    assert report.damages == ()
    return report.differences


def command(capfd, *args):
    """Return the exit code of `fb`, and its JSON output."""
    code = fb._core.cli_main([*map(str, args), "--json"])
    return code, json.loads(capfd.readouterr().out)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return three files of different encodings; the second has more fields."""
    folder = tmp_path_factory.mktemp("proof")
    parts = [events(1000, 1), events(700, 2, more=True), events(300, 3)]
    for number, (part, compression) in enumerate(zip(parts, ["zstd:5", "none", "lz4:4"], strict=True)):
        fb.write(folder / f"{number}.root", part, name="Events", compression=compression, cluster_size="20 kB")
    return [folder / f"{number}.root" for number in range(3)]


LEVELS = [
    {"level": "auto"},
    {"level": "L1"},
    {"level": "L2", "compression": "lzma:1"},
    {"level": "L3", "compression": "none"},
    {"level": "L4"},
    {"level": "L4", "page_size": 1000},
    {"compatible": False},
    {"fields": ["i", "jets"]},
]


@pytest.mark.parametrize("options", LEVELS, ids=str)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_level_is_proven(inputs, tmp_path, options, values, threads):
    output = tmp_path / "out.root"
    files = [inputs[0], inputs[2], inputs[0]]
    fb.merge(files, output, **options)
    found = proven(output, files, values=values, threads=threads)
    assert (found["entries"], found["entries_expected"]) == (2300, 2300)
    assert [one["entries"] for one in found["inputs"]] == [1000, 300, 1000]
    kept = options.get("level") in ("auto", "L1") or not options.keys() - {"fields", "compatible"}
    assert found["pages_equal"] > 0 if kept and not values else found["by_value"]
    if values or options.get("level") == "L4":
        assert found["pages_equal"] == 0
        assert {one["entries"] for one in found["by_value"]} == {2300}


def test_pages_that_stay_cost_no_reading_of_the_inputs(tmp_path):
    """The input's values are not read if pages are equal, so damage of its pages does not show."""
    path, first = two_pages(tmp_path)
    output = tmp_path / "out.root"
    fb.merge(path, output)
    pages = fb.open(output).verify().pages
    found = proven(output, path)
    assert (found["pages_equal"], found["by_value"]) == (pages, [])
    flip(path, first)
    assert proven(output, path)["pages_equal"] == pages
    differences = refuted(output, path, values=True)
    assert any("checksum" in one["found"] for one in differences)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("level", ["auto", "L4"])
def test_any_file_is_proven(path, level, tmp_path):
    """Files of ROOT's writer and merger, and of femtobarn's, with every feature of the format."""
    output = tmp_path / "out.root"
    report = fb.merge([path, path], output, others="drop", level=level)
    converted = {tree for tree, _ in report.inputs[0]["converted"]}  # the merge itself has proven these
    for name in report.entries.keys() - converted:
        for values in (False, True):
            found = fb.open({output: name}).verify(against={path: name}, values=values)
            one = fb.open({path: name}).num_entries
            if one:
                assert [item["field"] for item in found.differences] == [""]
                assert (found.differences[0]["found"], found.differences[0]["expected"]) == (str(2 * one), str(one))
            found = fb.open({output: name}).verify(against=[f"{path}:{name}"] * 2, values=values)
            assert found.ok, found


def test_fields_that_an_input_does_not_have_are_zero(inputs, tmp_path):
    output = tmp_path / "out.root"
    for files in (inputs, [inputs[1], inputs[0]]):
        fb.merge(files, output, mode="union", overwrite=True)
        found = proven(output, files)
        more = set(fb.open(inputs[1]).keys()) - set(fb.open(inputs[0]).keys())
        assert {one["field"] for one in found["missing"]} >= {name for name in more if "." not in name}
        assert found["left_out"] == []
    fb.merge(inputs, output, mode="filter", overwrite=True)
    found = proven(output, inputs)
    assert found["missing"] == []
    assert {one["input"] for one in found["left_out"]} == {f"{inputs[1]}:Events"}


def test_values_of_a_field_that_the_input_does_not_have_are_found(tmp_path):
    less, more = tmp_path / "less.root", tmp_path / "more.root"
    fb.write(less, {"x": [1, 2, 3]}, name="t")
    added = {"n": [0, 0, 7], "v": [[], [], [1.0]], "s": ["", "", "a"], "b": [False, False, True]}
    fb.write(more, {"x": [1, 2, 3], **added}, name="t")
    found = refuted(more, less)
    assert {one["field"] for one in found} == set(added)
    assert {one["entry"] for one in found} == {2}
    assert {one["input_entry"] for one in found} == {None}


def test_an_append_is_proven_against_old_and_new(inputs, tmp_path):
    output = tmp_path / "out.root"
    shutil.copy(inputs[0], output)
    fb.merge([inputs[2], inputs[1]], output, append=True)
    found = proven(output, [inputs[0], inputs[2], inputs[1]])
    assert found["pages_equal"] > 0
    with pytest.raises(fb.FemtobarnError, match="afterwards"):
        fb.merge(inputs[0], output, append=True, verify=True)


@pytest.mark.parametrize("entries", [slice(100, 900), range(1000), (0, 0), slice(-10, None), slice(3, 4)], ids=str)
def test_a_clone_is_proven(inputs, tmp_path, entries, capfd):
    output = tmp_path / "out.root"
    fb.clone(inputs[0], output, entries=entries)
    wanted = range(1000)[slice(*entries) if isinstance(entries, tuple) else slice(*slice_of(entries))]
    found = proven(output, inputs[0], entries=entries)
    assert found["entries"] == len(wanted)
    span = f"{wanted.start}:{wanted.stop}"
    code, text = command(capfd, "verify", output, "--against", inputs[0], "--entries", span)
    assert (code, text["ok"]) == (0, True)
    if 0 < len(wanted) < 999:
        other = range(wanted.start + 1, wanted.stop + 1) if wanted.stop < 1000 else range(len(wanted))
        assert refuted(output, inputs[0], entries=other)
        assert command(capfd, "verify", output, "--against", inputs[0])[0] == 1


def slice_of(entries):
    return (entries.start, entries.stop, None)


def test_a_skim_is_proven_by_its_condition(tmp_path, capfd):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 5, 5000)
    data = {"i": np.arange(5000), "v": ak.unflatten(rng.normal(size=counts.sum()), counts)}
    fb.write(path, data, name="t", cluster_size="10 kB")
    for text in ("i % 3 == 0", "i > 4000", "i >= 0", "i < 0", "any(v > 2)"):
        fb.skim([path, path], output, where=text, overwrite=True)
        proven(output, [path, path], where=text)
    assert refuted(output, [path, path], where="any(v > 2.1)")
    code, found = command(capfd, "verify", output, "--against", path, path, "--where", "any(v > 2)")
    assert (code, found["against"]["equal"]) == (0, True)


def test_parts_of_a_join_are_proven_against_their_inputs(tmp_path):
    one, two, output = (tmp_path / f"{name}.root" for name in ("one", "two", "out"))
    fb.write(one, {"x": np.arange(100)}, name="t")
    fb.write(two, {"y": np.arange(100) * 2.0}, name="t")
    fb.join_columns([one, two], output)
    for part, other in ((one, "y"), (two, "x")):
        found = fb.open(output).verify(against=part)
        assert {item["field"] for item in found.differences} == {other}
        assert found.against["pages_equal"] > 0
    fields = tmp_path / "x.root"
    fb.clone(output, fields, fields="x")
    proven(fields, one)


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))


def two_pages(folder):
    """Return a file with two pages of four integers each, and the offset of the first."""
    path = folder / "in.root"
    fb.write(path, {"x": np.arange(8, dtype=np.int32)}, name="t", compression="none", page_size=16)
    return path, path.read_bytes().index(struct.pack("<4i", 0, 1, 2, 3))


def test_swapped_pages_of_one_size_with_right_checksums_are_found(tmp_path, capfd):
    """Checksums stored with pages cannot detect this: every page is intact, but at the wrong position."""
    path, _ = two_pages(tmp_path)
    output = tmp_path / "out.root"
    fb.merge(path, output)
    proven(output, path)
    data = bytearray(output.read_bytes())
    one = data.index(struct.pack("<4i", 0, 1, 2, 3))
    two = data.index(struct.pack("<4i", 4, 5, 6, 7))
    data[one : one + 24], data[two : two + 24] = data[two : two + 24], data[one : one + 24]
    output.write_bytes(data)
    assert fb.open(output).verify().ok
    [found] = refuted(output, path)
    assert (found["field"], found["entry"], found["found"], found["expected"]) == ("x", 0, "4", "0")
    code, text = command(capfd, "verify", output, "--against", path)
    assert (code, text["ok"], text["ntuples"][0]["ok"]) == (1, False, True)


def test_a_flipped_byte_is_found_by_the_output_s_own_checksum(tmp_path, capfd):
    path, _ = two_pages(tmp_path)
    output = tmp_path / "out.root"
    fb.merge(path, output)
    flip(output, output.read_bytes().index(struct.pack("<4i", 4, 5, 6, 7)))
    report = fb.open(output).verify(against=path)
    assert not report.ok
    assert len(report.damages) == 1
    # the checksum stored with the page equalled that of the input
    [item] = report.against["not_compared"]
    assert (item["reason"], report.against["equal"]) == ("its pages are damaged", False)
    code, found = command(capfd, "verify", output, "--against", path)
    assert (code, found["against"]["equal"]) == (1, False)


def test_one_changed_value_is_found_in_its_place(tmp_path):
    data = {
        "i": np.arange(20000),
        "v": ak.unflatten(np.arange(40000.0), np.full(20000, 2)),
        "r": ak.zip({"a": np.arange(20000), "s": [f"text {i}" for i in range(20000)]}),
        "l": ak.Array([[{"pt": float(i), "q": [i, i + 1]}] for i in range(20000)]),
        "o": ak.Array([None if i % 3 else i for i in range(20000)]),
        "u": ak.Array([i if i % 2 else f"{i}" for i in range(20000)]),
    }
    one, output = tmp_path / "one.root", tmp_path / "two.root"
    fb.write(one, data, name="t", cluster_size="100 kB")
    changed = {name: ak.to_list(column) for name, column in data.items()}
    changed["i"][12345] += 1
    changed["v"][777][1] = 0.5
    changed["r"][19999]["s"] = "other"
    changed["l"][3] = [{"pt": 3.0, "q": [3, 5]}]
    changed["o"][0] = None
    changed["u"][11] = "11"
    fb.write(output, {name: ak.Array(column) for name, column in changed.items()}, name="t", cluster_size="100 kB")
    found = {one["field"]: one for one in refuted(output, one)}
    assert {name: (it["entry"], it["input_entry"]) for name, it in found.items()} == {
        "i": (12345, 12345),
        "v[1]": (777, 777),
        "r.s": (19999, 19999),
        "l[0].q[1]": (3, 3),
        "o": (0, 0),
        "u": (11, 11),
    }
    told = {name: (it["found"], it["expected"]) for name, it in found.items()}
    assert told["i"] == ("12346", "12345")
    assert told["v[1]"] == ("0.5", "1555.0")
    assert told["r.s"] == ('"other"', '"text 19999"')
    assert told["l[0].q[1]"] == ("5", "4")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_compared(tmp_path, dtype):
    """Zeros of different signs and NaNs with different payloads differ; identical NaNs are equal."""
    bits = {"float32": np.uint32, "float64": np.uint64}[dtype]
    values = np.array([1.0, 0.0, np.nan, 2.0], dtype)
    one, two = tmp_path / "one.root", tmp_path / "two.root"
    fb.write(one, {"x": values, "y": values, "z": values}, name="t", compression="none")
    payload = values.copy()
    payload.view(bits)[2] |= 5
    fb.write(two, {"x": values, "y": np.array([1.0, -0.0, np.nan, 2.0], dtype), "z": payload}, name="t")
    found = {item["field"]: item for item in refuted(two, one)}
    assert found.keys() == {"y", "z"}
    assert (found["y"]["found"], found["y"]["expected"]) == ("-0.0", "0.0")
    assert found["z"]["entry"] == 2
    assert found["z"]["found"] != found["z"]["expected"]


def test_lost_precision_is_told_with_field_entry_and_values(tmp_path):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    values = np.array([1.0, 0.5, 1.0 + 2.0**-20, 3.0], np.float32)
    fb.write(path, {"x": values, "y": values}, name="t")
    fb.reshape(path, output, precision={"x": 16})
    [found] = refuted(output, path)
    assert (found["field"], found["entry"], found["found"]) == ("x", 2, "1.0")
    assert float(found["expected"]) == values[2]


def test_wrong_inputs_are_found(inputs, tmp_path, capfd):
    output = tmp_path / "out.root"
    files = [inputs[0], inputs[2], inputs[1]]
    fb.merge(files, output)
    # another order
    found = refuted(output, [inputs[2], inputs[0], inputs[1]])
    assert {item["entry"] for item in found} <= set(range(10))
    # one is missing
    [found] = refuted(output, files[:2])
    assert (found["field"], found["found"], found["expected"]) == ("", "2000", "1300")
    # one too many
    assert refuted(output, [*files, inputs[0]])[-1]["expected"] == "3000"
    # another file
    other = tmp_path / "other.root"
    fb.write(other, {"x": [1.0]}, name="Events")
    assert refuted(output, other)
    # another type
    typed = tmp_path / "typed.root"
    fb.write(typed, {"x": np.array([1], np.int64)}, name="Events")
    [found] = refuted(other, typed)
    assert (found["field"], found["entry"], found["found"], found["expected"]) == (
        "x",
        None,
        "it is double",
        "it is std::int64_t",
    )
    code, text = command(capfd, "verify", output, "--against", *files)
    assert (code, text["against"]["equal"]) == (0, True)
    code = fb._core.cli_main(["verify", str(output), "--against", str(tmp_path / "missing.root")])
    assert code == 3
    with pytest.raises(FileNotFoundError):
        fb.open(output).verify(against=tmp_path / "missing.root")


def test_every_ntuple_of_a_file_is_proven(tmp_path, capfd):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["a"] = {"x": [1, 2]}
        file["dir/b"] = {"y": [3.0]}
    fb.merge([path, path], output)
    code, found = command(capfd, "verify", output, "--against", path, path)
    assert code == 0
    assert {item["ntuple"]: item["entries"] for item in found["against"]["ntuples"]} == {"a": 4, "dir/b": 2}
    code, found = command(capfd, "verify", f"{output}:dir/b", "--against", f"{path}:dir/b", path)
    assert (code, len(found["against"]["ntuples"])) == (0, 1)
    code = fb._core.cli_main(["verify", str(output), "--against", str(path)])
    assert code == 1
    assert "a: NOT AS IN THE INPUTS" in capfd.readouterr().out


def test_an_ntuple_that_is_not_there_is_told(tmp_path, capfd):
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["a"] = {"x": [1, 2]}
        file["dir/b"] = {"y": [3.0]}
    fb.merge([f"{path}:a"], output)
    code, found = command(capfd, "verify", output, "--against", path)
    assert code == 1
    [lacking] = [item for item in found["against"]["ntuples"] if not item["equal"]]
    assert lacking["ntuple"] == "dir/b"
    assert fb._core.cli_main(["verify", str(output), "--against", str(path)]) == 1
    assert f"no such ntuple, but {path} has one" in capfd.readouterr().out
    # only one is selected
    assert command(capfd, "verify", output, "--against", f"{path}:a")[0] == 0
    assert command(capfd, "verify", f"{output}:a", "--against", path)[0] == 0


@pytest.mark.parametrize("mounted", ["xfs"], indirect=True)
def test_damage_of_an_input_is_not_that_of_the_output(mounted):  # noqa: F811
    """Blocks that are shared are not read when they are merged."""
    mounted, _ = mounted
    path = mounted / "in.root"
    fb.write(path, {"x": np.arange(100_000)}, name="t", compression="none")
    shutil.copy(path, mounted / "whole.root")
    at = path.read_bytes().index(struct.pack("<4q", *range(50_000, 50_004)))
    flip(path, at)
    inputs = [mounted / "whole.root", path]
    assert fb.merge(inputs, mounted / "shared.root", level="L0").levels["L0"] > 0
    message = r'in\.root: the page of field "x" in cluster 0 at offset \d+ .* leave it out'
    with pytest.raises(fb.FormatError, match=message):
        fb.merge(inputs, mounted / "out.root", verify=True)
    assert not (mounted / "out.root").exists()


def test_a_merge_proves_itself(inputs, tmp_path, capfd):
    output = tmp_path / "out.root"
    report = fb.merge(inputs, output, verify=True)
    [proof] = report.proof["ntuples"]
    assert (report.proof["equal"], proof["entries"]) == (True, 2000)
    assert fb.merge(inputs, output, overwrite=True).proof is None
    assert fb._core.cli_main(["merge", str(output), *map(str, inputs), "--force", "--verify"]) == 0
    assert "as in the inputs" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("work", "options", "command"),
    [
        (fb.clone, {"entries": (100, 900), "fields": "i"}, ["clone", "--entries", "100:900", "--fields", "i"]),
        (fb.reshape, {"cluster_size": "10 kB"}, ["reshape", "--cluster-size", "10kB"]),
        (fb.skim, {"where": "i % 3 == 1"}, ["skim", "--where", "i % 3 == 1"]),
    ],
    ids=["clone", "reshape", "skim"],
)
def test_copies_prove_themselves(inputs, tmp_path, capfd, work, options, command):
    report = work(inputs[0], tmp_path / "out.root", verify=True, **options)
    [proof] = report.proof["ntuples"]
    assert (proof["equal"], proof["entries"]) == (True, report.entries["Events"])
    assert work(inputs[0], tmp_path / "other.root", **options).proof is None
    names = [str(inputs[0]), str(tmp_path / "out.root")]
    assert fb._core.cli_main([*command, *names, "--force", "--verify"]) == 0
    assert "as in the inputs" in capfd.readouterr().out


def test_other_precision_is_no_copy_to_prove(inputs, tmp_path):
    with pytest.raises(fb.UsageError):
        fb.reshape(inputs[0], tmp_path / "out.root", precision={"x": 12}, verify=True)


def test_what_was_added_is_proven_alone(inputs, tmp_path, capfd):
    output = tmp_path / "out.root"
    fb.merge(inputs[0], output)
    report = fb.merge(inputs[2], output, append=True)
    since = report.entries_before["Events"]
    assert proven(output, inputs[2], since=since)["entries_expected"] == 300
    [*_, number] = refuted(output, inputs[2], since=since + 1)
    assert (number["found"], number["expected"]) == ("299", "300")
    code, _ = command(capfd, "verify", f"{output}:Events", "--against", inputs[2], "--since", since)
    assert code == 0
    with pytest.raises(fb.UsageError, match="since must be from 0 to 1300, not 1301"):
        fb.open(output).verify(against=inputs, since=1301)
    with pytest.raises(fb.UsageError, match=r"since=report.entries_before.*--since N"):
        fb.merge(inputs[2], output, append=True, verify=True)


def test_what_was_added_to_several_ntuples_is_proven_by_name(tmp_path, capfd):
    """The number of entries before was the sum of all ntuples."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["a"] = {"x": [1, 2]}
        file["b"] = {"y": [3.0]}
    fb.merge(path, output)
    fb.merge(path, output, append=True)
    assert fb._core.cli_main(["verify", str(output), "--against", str(path), "--since", "2"]) == 2
    assert "there are 2: name one" in capfd.readouterr().err
    assert command(capfd, "verify", f"{output}:a", "--against", path, "--since", 2)[0] == 0
    assert fb._core.cli_main(["verify", f"{output}:a", "--against", str(path), "--since", "5"]) == 2
    assert "a has 4 entries" in capfd.readouterr().err


def test_merges_of_some_fields_prove_themselves(tmp_path):
    """Ntuples that were left out counted as lost, and a file without ntuples could not be proven."""
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with fb.recreate(path) as file:
        file["Events"] = {"x": [1, 2], "z": [1, 2]}
        file["Runs"] = {"run": [3]}
    report = fb.merge([path, path], output, fields="x", verify=True)
    assert report.proof["equal"]
    assert fb.clone(path, output, fields="x", verify=True, overwrite=True).proof["equal"]
    assert fb.skim(path, output, where="x > 1", fields="x", verify=True, overwrite=True).proof["equal"]
    fb.clone(path, output, fields="x", overwrite=True)
    assert fb._core.cli_main(["verify", str(output), "--against", str(path), "--fields", "x"]) == 0
    assert fb._core.cli_main(["verify", str(output), "--against", str(path)]) == 1
    histograms = TESTDATA / "histograms.root"
    report = fb.merge([histograms, histograms], output, verify=True, overwrite=True, others="drop")
    assert report.histograms > 0
    assert report.proof == {"equal": True, "ntuples": []}


def test_views_are_proven_by_what_they_show(tmp_path):
    """A projected field that the input does not have was proven by a field that was not compared."""
    one, two = tmp_path / "one.root", tmp_path / "two.root"
    with fb.recreate(one) as file:
        file.mkrntuple("t", {"pt": "float", "view": fb.Projected("float", "pt")}).extend({"pt": np.arange(5.0)})
    fb.write(two, {"pt": np.arange(10, 15, dtype=np.float32)}, name="t")
    report = fb.open(one).verify(against=two, fields="view")
    assert not report
    [item] = report.against["not_compared"]
    assert (item["field"], "projected from" in item["reason"]) == ("view", True)
    assert not fb.open(one).verify(against=two)
    fb.write(two, {"pt": np.arange(5, dtype=np.float32)}, name="t")
    assert fb.open(one).verify(against=two).ok
    assert fb.open(one).verify(against=two, fields=["view", "pt"]).ok


def test_fields_are_proven_alone(inputs, tmp_path, capfd):
    friend, output = tmp_path / "friend.root", tmp_path / "out.root"
    fb.write(friend, {"weight": np.arange(1000.0)}, name="Friend")
    fb.join_columns([f"{inputs[0]}:Events", f"{friend}:Friend"], output)
    assert "weight" in {found["field"] for found in refuted(output, inputs[0])}
    own = fb.open(inputs[0]).keys(recursive=False)
    against = proven(output, inputs[0], fields=own)
    assert (against["missing"], against["left_out"]) == ([], [])
    proven(output, f"{friend}:Friend", fields="wei*")
    code, found = command(capfd, "verify", f"{output}:Events", "--against", f"{friend}:Friend", "--fields", "weight")
    assert (code, found["against"]["ntuples"][0]["missing"]) == (0, [])
    rough = tmp_path / "rough.root"
    fb.reshape(inputs[0], rough, precision={"x": 12})
    assert {found["field"] for found in refuted(rough, inputs[0])} == {"x"}
    proven(rough, inputs[0], fields=[name for name in own if name != "x"])
    with pytest.raises(fb.KeyNotFoundError, match='has no field "nothing"'):
        fb.open(output).verify(against=inputs[0], fields="nothing")
    with pytest.raises(fb.UsageError):
        fb.open(output).verify(fields="weight")


def test_wrong_usage_is_told(inputs):
    nt = fb.open(inputs[0])
    with pytest.raises(fb.UsageError, match="against"):
        nt.verify(values=True)
    with pytest.raises(fb.UsageError):
        nt.verify(against=inputs[0], entries=(0, 1), where="x > 1")
    assert fb._core.cli_main(["verify", str(inputs[0]), "--values"]) == 2
    assert fb._core.cli_main(["verify", str(inputs[0]), str(inputs[1]), "--against", str(inputs[0])]) == 2


def test_the_report_says_first_what_is_not_as_in_the_inputs(tmp_path):
    """It began with "all is good", in a notebook even above a table of damaged pages."""
    path, _ = two_pages(tmp_path)
    fb.write(tmp_path / "short.root", {"x": np.arange(5, dtype=np.int32)}, name="t")
    output = tmp_path / "out.root"
    fb.merge(path, output)
    report = fb.open(output).verify(against=tmp_path / "short.root")
    lines = repr(report).splitlines()
    assert lines[0].startswith("VerifyReport: NOT AS IN THE INPUTS, but no page is damaged; ")
    assert "differs: 8 entries, but 5 in the inputs" in lines
    assert "input entry" not in repr(report)
    assert "good" not in report._repr_html_()
    assert repr(fb.open(output).verify(against=path)).startswith("VerifyReport: good; ")
    flip(output, output.read_bytes().index(struct.pack("<4i", 4, 5, 6, 7)))
    damaged = fb.open(output).verify()
    assert "DAMAGED: 1 damaged page" in damaged._repr_html_()
    assert "good" not in damaged._repr_html_()


def test_patterns_of_fields_are_all_compared(tmp_path, capfd):
    """Together with a name, "*" was not a pattern."""
    for name, y in [("a", [3, 4]), ("b", [3, 5])]:
        fb.write(tmp_path / f"{name}.root", {"x": [1, 2], "y": y}, name="t")
    files = (tmp_path / "a.root", "--against", tmp_path / "b.root")
    assert command(capfd, "verify", *files, "--fields", "x")[0] == 0
    for fields in (["*"], ["*", "x"], ["x,*"], ["x", "y"]):
        code, found = command(capfd, "verify", *files, *(word for text in fields for word in ("--fields", text)))
        [differs] = found["against"]["ntuples"][0]["differences"]
        assert (code, differs["field"]) == (1, "y"), fields
