"""Appending to a merged file: existing data stay, new data follow, whatever happens in between."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import awkward as ak
import numpy as np
import pytest
import uproot
from compare import objects_of, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_merge import FILES, TESTDATA, events, expected, mounted  # noqa: F401 (a fixture)

import femtobarn as fb


def values(path, name="Events"):
    nt = fb.open({path: name})
    assert nt.verify().ok
    arrays = nt.arrays()
    return {field: arrays[field].to_list() for field in arrays.fields}


def twice(path, name, one):
    """Return whether an ntuple has the entries of another one twice."""
    two, half = fb.open({path: name}), one.num_entries
    assert two.verify().ok
    assert two.num_entries == 2 * half
    first = one.arrays()
    for part in (two.arrays(entry_stop=half), two.arrays(entry_start=half)):
        assert ak.array_equal(part, first, equal_nan=True) or same(part, first)


def keys(path):
    return [f"{line['path']};{line['cycle']}" for line in objects_of(path)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return files of different encodings; the second has more fields."""
    folder = tmp_path_factory.mktemp("append")
    parts = [events(1000, 1), events(700, 2, more=True), events(300, 3)]
    for number, (part, compression) in enumerate(zip(parts, ["zstd:5", "none", "lz4:4"], strict=True)):
        fb.write(folder / f"{number}.root", part, name="Events", compression=compression)
    return folder, parts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_any_file_is_appended_to_itself(path, tmp_path):
    """Files of ROOT's writer and merger, and of femtobarn's, with every feature of the format."""
    output = tmp_path / "out.root"
    shutil.copy(path, output)
    if path.stem in REFUSED:
        before = output.read_bytes()
        with pytest.raises(fb.FemtobarnError, match=REFUSED[path.stem]):
            fb.merge(path, output, append=True, others="drop")
        assert output.read_bytes() == before
        return
    report = fb.merge(path, output, append=True, others="drop")
    assert keys(output) == keys(path)
    for name, entries in report.entries.items():
        one = fb.open({path: name})
        twice(output, name, one)
        assert (report.entries_before[name], entries) == (one.num_entries, 2 * one.num_entries)


# trees become ntuples of the same names
REFUSED = {"crowd": 'has a TTree named "tree"'}


@pytest.mark.parametrize("n", [1, 2, 20])
def test_many_appends_are_one_merge(written, tmp_path, need, n):
    folder, parts = written
    inputs = [folder / f"{(2 * i) % 3}.root" for i in range(n + 1)]
    output = tmp_path / "out.root"
    for number, path in enumerate(inputs):
        report = fb.merge(path, output, append=True)
        assert report.entries_before["Events"] == sum(len(parts[(2 * i) % 3]) for i in range(number))
    wanted = expected([parts[(2 * i) % 3] for i in range(n + 1)], parts[0].fields)
    assert values(output) == wanted
    assert keys(output) == ["Events;1"]
    found = need("uproot").open(output)
    assert found.keys() == ["Events;1"]
    arrays = found["Events"].arrays()
    assert {name: arrays[name].to_list() for name in arrays.fields} == wanted


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]], ids=str)
@pytest.mark.parametrize("compatible", [True, False])
def test_union_adds_fields_and_goes_on_with_those_that_were_added(written, tmp_path, need, order, compatible):
    folder, parts = written
    output = tmp_path / "out.root"
    for number in order * 2:
        fb.merge(folder / f"{number}.root", output, append=True, mode="union", compatible=compatible)
    wanted = expected([parts[number] for number in order * 2], parts[1].fields)
    found = values(output)
    assert found == {name: wanted[name] for name in found}
    assert set(found) == set(wanted)
    if compatible:
        arrays = need("uproot").open(output)["Events"].arrays()
        assert {name: arrays[name].to_list() for name in arrays.fields} == found


@given(st.lists(st.integers(0, 400), max_size=5), st.booleans(), st.integers(1, 3))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_split_of_a_data_set_appended_is_it(tmp_path, cuts, together, threads):
    whole = events(400, 7, more=True)
    bounds = [0, *sorted(cuts), 400]
    output = tmp_path / "whole.root"
    output.unlink(missing_ok=True)
    for start, stop in itertools.pairwise(bounds):
        part = tmp_path / f"{start}-{stop}.root"
        with fb.recreate(part) as file:
            nt = file.mkrntuple("Events", whole[start:stop], cluster_size="2 kB", page_size=512)
            nt.extend(whole[start:stop])
        if together:
            fb.merge(part, output, append=True, threads=threads)
        else:  # by the writer, in addition to existing ones
            fb.merge([part], output, append=True, compression="lz4:1")
    assert same(fb.open(output).arrays(), whole)


def test_an_ntuple_of_several_groups_with_late_fields_in_a_folder_is_continued(tmp_path):
    output, more = tmp_path / "out.root", tmp_path / "more.root"

    def write(path, seed, late):
        part = events(500, seed, more=True)
        first = [name for name in part.fields if name not in late]
        with fb.recreate(path) as file:
            nt = file.mkrntuple("some/where/Events", part[first], cluster_size="4 kB", page_size=512)
            nt.extend(part[first][:200])
            if late:
                nt.add_fields({name: part[late][name].type.content for name in late})
            nt.extend(part[200:])
            file["other"] = {"z": np.arange(3)}
        return part

    late = ["late", "number", "text", "array"]
    one, two = write(output, 1, late), write(more, 2, [])
    zero = {"late": [], "number": 0.0, "text": "", "array": [0, 0, 0]}
    for _ in range(2):
        fb.merge(f"{more}:some/where/Events", output, append=True)
    found = values(output, "some/where/Events")
    for name in two.fields:
        head = [zero[name]] * 200 if name in zero else one[name][:200].to_list()
        assert found[name] == head + one[name][200:].to_list() + 2 * two[name].to_list(), name
    assert values(output, "other") == {"z": [0, 1, 2]}
    # and vice versa: a field that is late there exists from the beginning here
    fb.merge(f"{output}:some/where/Events", more, append=True)
    found_there = values(more, "some/where/Events")
    assert all(found_there[name] == two[name].to_list() + found[name] for name in two.fields)


def test_other_ntuples_and_objects_are_begun_and_those_there_stay(tmp_path, testdata, dimuon):
    output, more = tmp_path / "out.root", tmp_path / "more.root"
    with fb.recreate(output) as file:
        file["top"] = {"x": np.arange(5)}
        file["sub/below"] = {"y": np.arange(3)}
    with fb.recreate(more) as file:
        file["top"] = {"x": np.arange(2)}
        file["sub/new"] = {"z": np.arange(2)}
        file["another/deep/one"] = {"z": np.arange(2)}
    report = fb.merge([more, more], output, append=True)
    assert report.entries == {"another/deep/one": 4, "sub/new": 4, "top": 9}
    assert report.entries_before == {"another/deep/one": 0, "sub/new": 0, "top": 5}
    assert values(output, "top") == {"x": [0, 1, 2, 3, 4, 0, 1, 0, 1]}
    assert values(output, "sub/below") == {"y": [0, 1, 2]}
    assert values(output, "another/deep/one") == {"z": [0, 1, 0, 1]}


def test_attribute_sets_and_older_cycles_stay(tmp_path):
    path = TESTDATA / "rntuple" / "attributes.root"
    output = tmp_path / "out.root"
    shutil.copy(path, output)
    before = fb.open(path)
    fb.merge(path, output, append=True, others="drop")
    after = fb.open(output)
    assert list(after.attributes) == list(before.attributes)
    for name in before.attributes:
        assert same(after.attributes[name].arrays(), before.attributes[name].arrays())
    with fb.recreate(tmp_path / "cycles.root") as file:
        file["e"] = {"x": [1, 2]}
        file.mkrntuple("e", {"x": "int64"}, new_cycle=True).extend({"x": [3]})
    fb.write(tmp_path / "more.root", {"x": [4]}, name="e")
    fb.merge(tmp_path / "more.root", tmp_path / "cycles.root", append=True)
    assert [(o["name"], o["cycle"]) for o in objects_of(tmp_path / "cycles.root")] == [("e", 2), ("e", 1)]
    assert values(tmp_path / "cycles.root", "e") == {"x": [3, 4]}
    assert values(tmp_path / "cycles.root", "e;1") == {"x": [1, 2]}


def test_what_does_not_fit_leaves_the_output_as_it_was(written, tmp_path):
    folder, _ = written
    output = tmp_path / "out.root"
    fb.merge(folder / "0.root", output)
    before = output.read_bytes()
    fb.write(tmp_path / "other.root", {"i": [0.5]}, name="Events")
    fb.write(tmp_path / "copy.root", {"x": [0.5]}, name="Events")
    os.link(output, tmp_path / "link.root")
    for files, options, message in [
        ([folder / "2.root", tmp_path / "other.root"], {}, r'other\.root: field "i" .*out\.root'),
        ([folder / "2.root", folder / "1.root"], {"mode": "strict"}, "mode strict requires the same fields"),
        ([folder / "2.root"], {"fields": ["i"]}, r"has a field .*appended entries need"),
        ([folder / "2.root"], {"fields": ["*", "no"]}, 'has no field "no"'),
        ([folder / "2.root", tmp_path / "gone.root"], {}, "gone.root"),
        ([folder / "2.root"], {"overwrite": True}, "append or overwrite"),
        ([folder / "2.root", output], {}, "also an input"),
        ([tmp_path / "link.root"], {}, "also an input"),
    ]:
        with pytest.raises((fb.FemtobarnError, OSError), match=message):
            fb.merge(files, output, append=True, **options)
        assert output.read_bytes() == before, (files, options)


def test_outputs_that_cannot_be_added_to_are_told(written, tmp_path):
    folder, _ = written
    (tmp_path / "text.root").write_text("something of mine")
    (tmp_path / "sub.root").mkdir()
    for name, error, message in [
        ("text.root", fb.FemtobarnError, "text.root"),
        ("sub.root", OSError, "directory"),
        ("no/out.root", OSError, "no"),
    ]:
        with pytest.raises(error, match=message):
            fb.merge(folder / "0.root", tmp_path / name, append=True)
    assert (tmp_path / "text.root").read_text() == "something of mine"
    tree = tmp_path / "tree.root"
    shutil.copy(TESTDATA / "ttree" / "leaves_zlib.root", tree)
    fb.write(tmp_path / "leaves.root", {"x": [1]}, name="leaves")
    before = tree.read_bytes()
    with pytest.raises(fb.FemtobarnError, match="TTree"):
        fb.merge(tmp_path / "leaves.root", tree, append=True)
    assert tree.read_bytes() == before


def test_a_file_that_may_not_be_written_to_is_an_error(written, tmp_path):
    folder, _ = written
    output = tmp_path / "out.root"
    fb.merge(folder / "0.root", output)
    output.chmod(0o444)
    script = "import sys, femtobarn as fb; fb.merge(sys.argv[1], sys.argv[2], append=True)"
    command = [sys.executable, "-c", script, folder / "2.root", output]
    if os.geteuid() == 0:  # root has all permissions
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        for above in [tmp_path, *tmp_path.parents[:3], folder]:
            above.chmod(0o755)
        if subprocess.run([*command[:3], sys.executable, "-c", "import femtobarn"], capture_output=True).returncode:
            pytest.skip("another user cannot be taken, or cannot import femtobarn")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "permission denied" in done.stderr, done.stderr
    assert "cannot write to" in done.stderr
    assert fb.open(output).num_entries == 1000


def test_two_appends_at_the_same_time_are_refused(written, tmp_path):
    folder, _ = written
    output = tmp_path / "out.root"
    fb.merge(folder / "0.root", output)
    with fb.update(output) as file:
        with pytest.raises(OSError, match="being written to by another writer"):
            fb.merge(folder / "2.root", output, append=True)
        file["more"] = {"x": [1]}
    results, errors = [], []

    def append():
        for _ in range(30):
            try:
                fb.merge(folder / "2.root", output, append=True, threads=1)
                results.append(1)
            except OSError as error:
                errors.append(error.kind)

    threads = [threading.Thread(target=append) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors) <= {"file-busy"}
    # none of those that were not refused was lost
    assert fb.open({output: "Events"}).num_entries == 1000 + 300 * len(results)
    assert fb.open({output: "Events"}).verify().ok


def test_of_two_that_make_a_file_by_appending_one_does(written, tmp_path):
    folder, _ = written
    barrier, results, errors = threading.Barrier(4), [], []

    def append():
        barrier.wait()
        try:
            fb.merge(folder / "2.root", tmp_path / "new.root", append=True, threads=1)
            results.append(1)
        except OSError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("already exists" in error or "by another writer" in error for error in errors)
    assert results
    assert fb.open(tmp_path / "new.root").num_entries == 300 * len(results)


# Arguments: the output, an input, how often. Says "begin" and "end" of each append.
APPENDING = """
import sys
import femtobarn as fb
output, more, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
for _ in range(n):
    print("begin", flush=True)
    fb.merge([more] * 5, output, append=True, level=sys.argv[4] if len(sys.argv) > 4 else "auto")
    print("end", flush=True)
"""


def large(folder):
    """Return an output and an input that are appended in a few milliseconds."""
    rng = np.random.default_rng(1)
    columns = {"n": np.arange(50_000), "x": ak.unflatten(rng.normal(size=100_000), np.tile([1, 3], 25_000))}
    fb.write(folder / "more.root", columns, name="sub/Events", compression="none")
    fb.merge(folder / "more.root", folder / "out.root")
    return folder / "out.root", folder / "more.root"


def assert_whole(path, least=1):
    """Check that the output has the input's entries a whole number of times."""
    nt = fb.open({path: "sub/Events"})
    assert nt.verify().ok
    count, rest = divmod(nt.num_entries, 50_000)
    assert rest == 0
    assert (count - 1) % 5 == 0
    assert count >= least
    assert np.array_equal(nt["n"].array(library="np"), np.tile(np.arange(50_000), count))
    return count


def test_killed_appends_leave_the_old_entries_and_no_bytes_for_ever(tmp_path):
    output, more = large(tmp_path)
    count, chance = 1, random.Random(1)
    for _ in range(12):
        command = [sys.executable, "-c", APPENDING, output, more, "100"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(2 * chance.randrange(2) + 1):
                process.stdout.readline()
            time.sleep(chance.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            process.wait()
        count = assert_whole(output, count)
    # the next one continues, and removes leftovers
    fb.merge([more] * 5, output, append=True)
    last = assert_whole(output, count + 5)
    per_append = fb.merge([more] * 5, tmp_path / "one.root").bytes_out
    assert output.stat().st_size < per_append * (last + 5) / 5


def test_a_full_disk_is_an_error_that_leaves_what_was_there(tmp_path):
    output, more = large(tmp_path)
    before = output.read_bytes()
    script = """
import resource, signal, sys
import femtobarn as fb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    fb.merge(sys.argv[2], sys.argv[1], append=True)
except fb.FileError as error:
    print(error.kind, "|", error)
"""
    size, more_size = len(before), more.stat().st_size
    for limit in [size, size + 1, size + 100, size + 30_000, size + more_size // 2, size + more_size - 2000]:
        command = [sys.executable, "-c", script, output, more, str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("write-failed |"), (limit, done.stdout, done.stderr)
        assert output.read_bytes() == before
    fb.merge([more] * 5, output, append=True)
    assert_whole(output, 6)


def test_an_append_that_is_stopped_leaves_what_was_there(tmp_path):
    output, more = large(tmp_path)
    before = output.read_bytes()
    given = {"append": True}
    for stop in range(1, 4):
        calls = []

        def tick(*_, stop=stop, calls=calls):
            calls.append(1)
            if len(calls) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fb._core.merge([(str(more), None)] * 5, str(output), given, {"threads": 1}, tick)
        assert output.read_bytes() == before


READING = """
import os, sys, time
import femtobarn as fb
path, stop = sys.argv[1], sys.argv[2]
first = fb.open({path: "sub/Events"})
n_first = first.num_entries
n_opened, last = 0, n_first
print("reading", flush=True)
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
while not os.path.exists(stop):
    nt = fb.open({path: "sub/Events"})
    count = nt.num_entries
    assert count >= last and count % 50_000 == 0, count
    assert fb._core.cli_main(["ls", path]) == 0
    last = count
    n_opened += 1
    if n_opened % 10 == 0:
        assert nt["n"].array(entry_start=count - 10, library="np").tolist() == list(range(49_990, 50_000))
        assert first["n"].array(library="np").shape == (n_first,)
assert first.verify().ok
print(n_opened, last, file=out)
"""


def test_readers_see_the_old_or_the_new_entries_at_any_instant(tmp_path):
    output, more = large(tmp_path)
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", READING, str(output), str(stop)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout.readline()
        for _ in range(60):
            fb.merge([more] * 5, output, append=True)
    finally:
        stop.touch()
        found = [reader.communicate() for reader in readers]
    for reader, (text, errors) in zip(readers, found, strict=True):
        assert reader.returncode == 0, errors
        assert int(text.split()[0]) > 50
        assert int(text.split()[1]) > 50_000
    assert_whole(output, 301)


def test_blocks_are_shared_while_appending(mounted):  # noqa: F811
    folder, can_share = mounted
    columns = {f"x{i}": np.random.default_rng(i).normal(size=100_000) for i in range(4)}
    inputs = [folder / f"{name}.root" for name in "abc"]
    for path in inputs:
        fb.write(path, columns, name="Events", compression="zstd:1")
    output = folder / "out.root"
    fb.merge(inputs[0], output)
    for path in inputs[1:]:
        # not at the end of a block
        assert output.stat().st_size % 512
        report = fb.merge(path, output, append=True)
        if can_share:
            # except the first and last block
            most = 2 * os.statvfs(folder).f_bsize + 50_000
            assert 0 < report.levels["L1"] < most < report.levels["L0"]
            assert report.shared_bytes >= report.levels["L0"]
    assert fb.open(output).verify().ok
    assert same(fb.open(output)["x3"].array(), np.concatenate([columns["x3"]] * 3))
    # killed while blocks are shared
    command = [sys.executable, "-c", APPENDING, output, inputs[0], "2"]
    for delay in (0.0, 0.004):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
    nt = fb.open(output)
    assert nt.verify().ok
    assert (nt.num_entries - 300_000) % 500_000 == 0
    if can_share:
        fb.merge(inputs[0], output, append=True, level="L0")


ROOT_LOOKS = """
import os, sys
import ROOT
output, hadded, result = sys.argv[1:4]
file = ROOT.TFile.Open(output)
assert [key.GetName() + ";" + str(key.GetCycle()) for key in file.GetListOfKeys()] == ["Events;1"]
file.Map()
file.Close()
merger = ROOT.TFileMerger(False)
merger.OutputFile(hadded, "RECREATE")
merger.AddFile(output)
merger.AddFile(output)
assert merger.Merge()
text = []
for path in (output, hadded):
    reader = ROOT.RNTupleReader.Open("Events", path)
    frame = ROOT.RDataFrame("Events", path)
    frame = frame.Define("v_sum", "Sum(v)").Define("s_len", "(int)s.size()")
    frame = frame.Define("m_sum", "matrix[1][2] + matrix[0][0]")
    names = ["i", "x", "flag", "v_sum", "s_len", "m_sum"]
    text.append(" ".join(str(frame.Sum(name).GetValue()) for name in names) + f" {reader.GetNEntries()}")
open(result, "w").write("\\n".join(text))
os._exit(0)
"""

ROOT_WRITES = """
import os, sys
import ROOT
way, output, *inputs = sys.argv[1:]
if way == "writer":
    frame = ROOT.RDataFrame("Events", inputs[0])
    options = ROOT.RDF.RSnapshotOptions()
    options.fOutputFormat = ROOT.RDF.ESnapshotOutputFormat.kRNTuple
    frame.Snapshot("Events", output, ["i", "x", "v", "s", "flag", "matrix"], options)
else:
    merger = ROOT.TFileMerger(False)
    merger.OutputFile(output, "RECREATE")
    for path in inputs:
        merger.AddFile(path)
    assert merger.Merge()
os._exit(0)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("n", [1, 2, 20])
@pytest.mark.parametrize("maker", ["merge", "writer", "hadd"])
def test_root_reads_and_merges_what_was_appended(written, tmp_path, run_root, maker, n):
    folder, parts = written
    output = tmp_path / "out.root"
    start = [parts[0]]
    if maker == "merge":
        fb.merge(folder / "0.root", output)
    elif maker == "writer":
        # whose lists are RVecs
        run_root(ROOT_WRITES, "writer", output, folder / "0.root")
        run_root(ROOT_WRITES, "writer", tmp_path / "more.root", folder / "2.root")
    else:
        run_root(ROOT_WRITES, "hadd", output, folder / "0.root", folder / "0.root")
        start *= 2
    more = tmp_path / "more.root" if maker == "writer" else folder / "2.root"
    for _ in range(n):
        fb.merge(more, output, append=True)
    parts = start + [parts[2]] * n
    found = fb.open(output)
    assert found.verify().ok
    for name in found.keys(recursive=False) if maker != "writer" else ["i", "x", "v", "s", "flag", "matrix"]:
        assert found[name].array().to_list() == [value for part in parts for value in part[name].to_list()], name
    run_root(ROOT_LOOKS, output, tmp_path / "hadded.root", tmp_path / "sums")
    sums = [
        ak.sum(ak.values_astype(ak.concatenate([part[name] for part in parts]), "f8"))
        for name in ("i", "x", "flag", "v")
    ]
    sums.append(sum(len(text) for part in parts for text in part["s"].to_list()))
    sums.append(sum(ak.sum(part["matrix"][:, 1, 2]) + ak.sum(part["matrix"][:, 0, 0]) for part in parts))
    sums.append(sum(len(part) for part in parts))
    one, two = [list(map(float, line.split())) for line in (tmp_path / "sums").read_text().split("\n")]
    np.testing.assert_allclose(one, sums, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(two, 2 * np.array(sums), rtol=1e-6, atol=2e-3)


ROOT_MAPS = """
import os, sys
import ROOT
file = ROOT.TFile.Open(sys.argv[1])
file.Map()
reader = ROOT.RNTupleReader.Open("sub/Events", sys.argv[1])
print("entries", reader.GetNEntries(), flush=True)
os._exit(0)
"""


@pytest.mark.oracle
def test_root_reads_a_file_whose_append_was_killed_and_one_that_went_on(tmp_path, run_root, need):
    output, more = large(tmp_path)
    command = [sys.executable, "-c", APPENDING, output, more, "100"]
    size = output.stat().st_size
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        while output.stat().st_size == size:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    count = assert_whole(output)
    for _ in range(2):
        assert f"entries {count * 50_000}" in run_root(ROOT_MAPS, output)
        assert need("uproot").open(output)["sub/Events"].num_entries == count * 50_000
        # unused bytes, as a crash of the machine leaves
        with output.open("ab") as file:
            file.write(b"\x00" * 1000)
        fb.merge([more] * 5, output, append=True)
        count += 5
        assert assert_whole(output) == count
    text = run_root(ROOT_MAPS, output)
    assert "E R R O R" not in text
    assert "G A P" in text


@pytest.mark.parametrize("name", ["hzz_zlib", "hzz_lz4", "delphes_10", "tree_basictypes", "fcc_spring2021", "edm4hep"])
def test_histograms_are_added_to_files_of_older_versions_of_root(shared, tmp_path, name):
    """Their classes were not described, as lists of descriptions begin with other bits, and the next append failed."""
    output = tmp_path / "out.root"
    output.write_bytes((shared / "ttree" / f"{name}.root").read_bytes())
    with uproot.recreate(tmp_path / "more.root") as file:
        file["plots/pt"] = np.histogram([1.0, 2.0, 2.0])
    for n in (1, 2):
        fb.merge(tmp_path / "more.root", output, append=True, others="drop")
        after = uproot.open(output)
        assert after["plots/pt"].values().sum() == 3 * n
        assert after.file.streamers["TH1D"].keys() == {3}
    assert fb.merge(f"{output}:plots/pt", tmp_path / "again.root").histograms == 1
