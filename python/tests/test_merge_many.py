"""Merging many files: equal and different headers, and checks before anything is copied."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

import femtobarn as fb


def make(path, compression="zstd:5", **columns):
    fb.write(path, columns, "t", compression=compression)
    return str(path)


def values(path):
    found = fb.open(f"{path}:t").arrays()
    return {name: found[name].tolist() for name in found.fields}


@pytest.fixture
def inputs(tmp_path):
    """Return two files with the same header, and two with another one."""
    a = [make(tmp_path / f"a{i}.root", x=[i, i + 1], y=[[i], []]) for i in range(2)]
    b = [make(tmp_path / f"b{i}.root", y=[[], [10 + i]], x=[10 + i, 20 + i], z=[0.5, 1.5]) for i in range(2)]
    return a, b


@pytest.mark.parametrize("order", ["aabba", "abab", "bbaab", "ab"])
def test_files_whose_headers_come_in_any_order_keep_their_values(inputs, tmp_path, order):
    kinds = {"a": inputs[0], "b": inputs[1]}
    files = [kinds[kind][at % 2] for at, kind in enumerate(order)]
    out = tmp_path / "out.root"
    report = fb.merge(files, out, mode="union")
    expected = {"x": [], "y": [], "z": []}
    for file in files:
        found = values(file)
        for name, all_of in expected.items():
            all_of += found.get(name, [0.0] * len(found["x"]))
    assert values(out) == expected
    missing = [done["ntuples"]["t"]["missing"] for done in report.inputs]
    assert missing == [["z"] if kind == "a" and "b" in order else [] for kind in order]
    with uproot.open(out) as file:
        assert file["t"].arrays()["x"].tolist() == expected["x"]


@pytest.mark.parametrize("compatible", [True, False])
def test_files_of_two_encodings_in_turn_keep_their_values(tmp_path, compatible):
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 1000, 500) for _ in range(6)]
    files = [
        make(tmp_path / f"{at}.root", compression=None if at % 3 == 2 else "zstd:5", x=column)
        for at, column in enumerate(data)
    ]
    out = tmp_path / "out.root"
    fb.merge(files, out, compatible=compatible)
    assert values(out)["x"] == np.concatenate(data).tolist()


def test_fields_that_are_left_out_are_named_for_every_file(inputs, tmp_path):
    a, b = inputs
    report = fb.merge([a[0], *b, *b], tmp_path / "out.root")
    assert [(left.name, left.field, left.files) for left in report.left_behind] == [
        ("t", "z", tuple(map(str, [*b, *b])))
    ]


def test_that_the_last_file_does_not_fit_is_told_before_anything_is_brought(inputs, tmp_path):
    a, b = inputs
    page_list = uproot.open(a[0])["t"].footer.cluster_group_records[0].page_list_link.locator
    with Path(a[0]).open("r+b") as file:
        file.seek(page_list.offset)
        file.write(b"damage")
    out = tmp_path / "out.root"
    # the first file can be opened, but not copied
    with pytest.raises(fb.errors.FemtobarnError) as damaged:
        fb.merge(a, out)
    assert "page list" in str(damaged.value)
    other = make(tmp_path / "other.root", x=["text"], y=[[1]])
    with pytest.raises(fb.errors.FemtobarnError) as unfit:
        fb.merge([*a, *b, other], out)
    assert "other.root" in str(unfit.value)
    assert "its type is" in str(unfit.value)
    with pytest.raises(FileNotFoundError):
        fb.merge([*a, tmp_path / "none.root"], out)
    assert not out.exists()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("object_first", [True, False])
def test_an_object_and_an_ntuple_of_one_name_are_an_error(tmp_path, object_first):
    ntuple = make(tmp_path / "ntuple.root", x=[1])
    with uproot.recreate(tmp_path / "object.root") as file:
        file["t"] = "a string"
    files = [str(tmp_path / "object.root"), ntuple]
    with pytest.raises(fb.errors.FemtobarnError, match="called"):
        fb.merge(files if object_first else files[::-1], tmp_path / "out.root", others="first")


# Arguments: options, directory. Merges 400 and then all of its files with few handles; prints the additional memory for
# all. Both have the memory for one cluster.
LIMITED = """
import ast, resource, sys
from pathlib import Path
import femtobarn as fb

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
options, folder = ast.literal_eval(sys.argv[1]), Path(sys.argv[2])
inputs = sorted((folder / "in").iterdir())

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

fb.merge(inputs[:400], folder / "first.root", **options)
before = peak()
fb.merge(inputs, folder / "out.root", **options)
print(peak() - before)
"""
MANY = 1600
MEMORY_OF_A_FILE = 8_000  # of the report, and of the output's page lists
LARGER = {"level": "L4", "cluster_size": "1 MB"}


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"compression": "lz4"}, LARGER], ids=str)
def test_many_files_take_few_handles_and_little_memory(tmp_path, options):
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc here, which tells the peak of memory")
    (tmp_path / "in").mkdir()
    random = np.random.default_rng(3)
    columns = {f"x{number}": random.normal(size=500) for number in range(20)}
    one = Path(make(tmp_path / "one.root", **columns)).read_bytes()
    for number in range(MANY):
        (tmp_path / "in" / f"{number:04}.root").write_bytes(one)
    assert MANY * len(one) > 100_000_000
    command = [sys.executable, "-c", LIMITED, repr(options), tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4_000_000 + (MANY - 400) * MEMORY_OF_A_FILE
    merged = fb.open(tmp_path / "out.root")
    assert merged.num_entries == 500 * MANY
    assert np.array_equal(merged["x19"].array()[-500:], columns["x19"])


@pytest.mark.parametrize("kind", ["text", "histogram", "ntuple"])
@pytest.mark.parametrize("way", ["first", "last", "append"])
def test_a_directory_and_an_object_of_one_name_are_an_error(tmp_path, kind, way):
    """The newer one hid the other one with all of its content."""
    below, other = tmp_path / "below.root", tmp_path / "other.root"
    fb.write(below, {"x": [1]}, "a/h/T")
    if kind == "ntuple":
        fb.write(other, {"x": [1]}, "a/h")
    else:
        with uproot.recreate(other) as file:
            file["a/h"] = "text" if kind == "text" else np.histogram([1.0, 2.0])
    inputs = [below, other] if way == "last" else [other, below]
    output = tmp_path / "out.root"
    if way == "append":
        fb.merge(inputs.pop(0), output, others="first")
    before = output.read_bytes() if way == "append" else None
    with pytest.raises(fb.UsageError, match=r'called "a/h.* cannot have both: name the ntuples'):
        fb.merge(inputs, output, others="first", append=way == "append")
    assert (output.read_bytes() if output.exists() else None) == before
    if kind == "text":
        fb.merge([below, other], tmp_path / "dropped.root", others="drop")
        assert fb.open(f"{tmp_path / 'dropped.root'}:a/h/T").num_entries == 1
