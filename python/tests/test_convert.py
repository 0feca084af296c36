"""Converting: to the layout of ROOT's importer, to tables and back, many files, and errors."""

import contextlib
import decimal
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

CHECKOUT = Path(__file__).resolve().parents[2]

# Arguments: pairs of a tree, as file|name, and the file for the importer's output
IMPORT = """
import os, sys
import ROOT
importers = ROOT if hasattr(ROOT, "RNTupleImporter") else ROOT.Experimental
for tree, target in zip(sys.argv[1::2], sys.argv[2::2]):
    importer = importers.RNTupleImporter.Create(*tree.split("|"), target)
    importer.SetIsQuiet(True)
    importer.SetConvertDotsInBranchNames(True)
    importer.Import()
sys.stdout.flush()
os._exit(0)
"""

# What the importer can import of the real files; it stops at split classes, and crashes at vectors of vectors.
IMPORTED = {
    "hzz_zlib.root": "events",
    "hzz_lzma.root": "events",
    "nanoaod_v5_1000.root": "Events",
    "nanoaod_2015_ttbar_200.root": "Events",
    "nano_dy.root": "Events",
    "nano_tt_v12.root": "Events",
    "TLeafC_pr342.root": "G4Sim",
    "tree_with_vector_string.root": "t1",
    "tree_basictypes.root": "t",
}


PROGRAM = [sys.executable, "-c", "import sys; from femtobarn._cli import main; sys.exit(main())"]


def names(folder):
    """Return the names in a directory."""
    return sorted(path.name for path in folder.iterdir())


def columns(ntuple):
    """Return the paths of the fields, and their column types."""
    fields = ntuple._core.fields()
    return {field["path"]: [column["type"] for column in field["columns"]] for field in fields if field["path"]}


@pytest.fixture(scope="module")
def imported(run_root, shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    arguments = []
    for file, tree in IMPORTED.items():
        arguments += [f"{shared}/ttree/{file}|{tree}", folder / file]
    run_root(IMPORT, *arguments)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("file", IMPORTED)
def test_a_tree_becomes_what_roots_importer_makes_of_it(imported, shared, tmp_path, file):
    report = fb.convert(f"{shared}/ttree/{file}:{IMPORTED[file]}", tmp_path / "own.root")
    assert report.equal is True
    own, roots = fb.open(tmp_path / "own.root"), fb.open(imported / file)
    assert (own.name, own.num_entries) == (roots.name, roots.num_entries)
    assert own.typenames() == roots.typenames()
    assert own.keys() == roots.keys()
    assert columns(own) == columns(roots)
    ours, theirs = own.arrays(), roots.arrays()
    assert all(ak.array_equal(ours[name], theirs[name], equal_nan=True) for name in theirs.fields)


# Arguments: ntuples as file|name, and the file for the names of those that ROOT reads
READ = """
import os, pathlib, sys
import ROOT
done = []
for ntuple in sys.argv[2:]:
    file, name = ntuple.split("|")
    reader = ROOT.RNTupleReader.Open(name, file)
    entry = reader.CreateEntry()  # with all fields, by their types on disk
    for i in {0, reader.GetNEntries() - 1}:
        reader.LoadEntry(i, entry)
    ROOT.RDataFrame(name, file).Count().GetValue()
    done.append(file)
pathlib.Path(sys.argv[1]).write_text("\\n".join(done))
os._exit(0)
"""


@pytest.mark.oracle
def test_root_reads_what_a_tree_becomes(run_root, shared, testdata, tmp_path):
    """ROOT can read the output.

    Vectors had the class version of their branch as type version, and class names that ROOT does not know were kept:
    femtobarn and uproot read the files, and ROOT refused them.
    """
    trees = {f"{shared}/ttree/{file}": name for file, name in IMPORTED.items()}
    trees |= {f"{shared}/ttree/delphes_10.root": "Delphes", f"{shared}/ttree/edm4hep.root": "events"}
    trees |= {f"{testdata}/ttree/leaves_zlib.root": "leaves", f"{testdata}/ttree/objects_split1.root": "objects"}
    targets = []
    for i, (file, name) in enumerate(trees.items()):
        # ROOT aborts at maps and sets without a dictionary, whoever wrote them
        fb.convert(
            f"{file}:{name}", tmp_path / f"{i}.root", drop=["map", "set", "lists"] if "objects" in file else None
        )
        targets.append(f"{tmp_path}/{i}.root|{name}")
    run_root(READ, tmp_path / "read", *targets)
    assert len((tmp_path / "read").read_text().splitlines()) == len(trees)


def test_an_output_does_not_replace_its_input(dimuon, tmp_path):
    copy = tmp_path / "in.root"
    copy.write_bytes(Path(dimuon).read_bytes())
    for target in (copy, tmp_path / "." / "in.root"):
        with pytest.raises(fb.UsageError):
            fb.convert(copy, target)
    assert fb.open(copy).num_entries == 12000


def test_a_table_that_fails_leaves_what_was_there(need, testdata, tmp_path):
    """Without verification, tables overwrote existing files."""
    (tmp_path / "x.parquet").write_bytes(b"before")
    with pytest.raises(fb.UsageError, match="variants"):
        fb.convert(testdata / "rntuple" / "sums.root", tmp_path / "x.parquet", verify=False, overwrite=True)
    assert (tmp_path / "x.parquet").read_bytes() == b"before"


def test_only_an_earlier_conversion_is_replaced_unless_told_otherwise(dimuon, testdata, tmp_path):
    """The output of a second tree replaced that of the first, and a forgotten output replaced an input."""
    out = tmp_path / "out.root"
    for _ in range(2):
        fb.convert(dimuon, out)
    before = out.read_bytes()
    with pytest.raises(fb.UsageError, match=r"ROOT::RNTuple .*overwrite=True.*fb\.update"):
        fb.convert(dimuon, out, name="Other")
    assert out.read_bytes() == before
    for content, message in (
        ((testdata / "ttree" / "versions.root").read_bytes(), "would be lost .*fb.update"),
        # nothing can be added to these
        (before[:5000], r"and cannot be opened: give another name, or replace it \(overwrite=True\)$"),
        (b"text", r"and is not a ROOT file: give another name, or replace it \(overwrite=True\)$"),
    ):
        out.write_bytes(content)
        with pytest.raises(fb.UsageError, match=message):
            fb.convert(dimuon, out)
        assert out.read_bytes() == content
    fb.convert(dimuon, out, overwrite=True)
    assert fb.open(out).num_entries == fb.open(dimuon).num_entries
    table = tmp_path / "out.parquet"
    for _ in range(2):
        fb.convert(dimuon, table)
    table.write_bytes(b"text")
    with pytest.raises(fb.UsageError):
        fb.convert(dimuon, table)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_program_leaves_nothing_half_made(tmp_path, number):
    generator = np.random.default_rng(1)
    fb.write(tmp_path / "in.root", {"x": generator.normal(size=3_000_000)}, compression=None)
    program = "import sys; from femtobarn._cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "convert", "in.root", "out.root", "--compression", "lzma:9"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.root.partial-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(number)
    _, message = running.communicate(timeout=120)
    assert (running.returncode, message) == (130, "fb: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.root"]


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path):
    """Under nohup, the program ended with its terminal."""
    generator = np.random.default_rng(1)
    fb.write(tmp_path / "in.root", {"x": generator.normal(size=1_000_000)}, compression=None)
    program = "import sys; from femtobarn._cli import main; sys.exit(main())"
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {program}"
    command = [sys.executable, "-c", ignoring, "convert", "in.root", "out.root", "--compression", "lzma:6"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.root.partial-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGHUP)
    _, message = running.communicate(timeout=120)
    assert (running.returncode, message) == (0, "")
    assert fb.open(tmp_path / "out.root").num_entries == 1_000_000


def test_files_with_few_columns_in_common_are_put_together_quickly(tmp_path):
    """The nearest names were searched for every column that the other file does not have."""
    names = [f"a_rather_long_name_{i}" for i in range(3000)]
    for file in "ab":
        fb.write(tmp_path / f"{file}.root", {f"{name}_{file}": [1] for name in names} | {"x": [1]})
    with pytest.warns(fb.UnreadableWarning):
        report = fb.convert([tmp_path / "a.root", tmp_path / "b.root"], tmp_path / "out.root")
    assert (report.entries, len(report.skipped)) == (2, 6000)


def test_an_output_that_cannot_be_opened_is_made_again(dimuon, tmp_path):
    fb.convert([dimuon], tmp_path / "out")
    made = tmp_path / "out" / "dimuon.root"
    made.write_bytes(made.read_bytes()[:5000])
    (report,) = fb.convert([dimuon], tmp_path / "out", resume=True)
    assert report.status == "converted"


@pytest.mark.parametrize("ending", ["root", "parquet", "arrow"])
@pytest.mark.parametrize("content", [b"what nobody has a copy of", b"root: my notes are here", b"PAR"])
def test_resumed_conversions_replace_nothing_of_others(dimuon, testdata, tmp_path, ending, content):
    """Files that could not be opened were replaced, even the user's text files."""
    other = tmp_path / "out" / f"dimuon.{ending}"
    other.parent.mkdir()
    other.write_bytes(content)
    lists = str(testdata / "rntuple" / "lists.root")
    reports = fb.convert([dimuon, lists], other.parent, resume=True, skip_bad_files=True, kind=ending)
    assert [report.status for report in reports] == ["failed", "converted"]
    assert reports[0].entries == 0
    what = "ROOT file" if ending == "root" else "table"
    advice = r"move it, or convert into another directory \(overwrite=True, or --force without --resume"
    with pytest.raises(fb.UsageError, match=f"{other}.*is not a {what}: {advice}"):
        fb.convert([dimuon], other.parent, resume=True, kind=ending)
    assert other.read_bytes() == content
    (report,) = fb.convert([dimuon], other.parent, resume=True, overwrite=True, kind=ending)
    assert report.status == "converted"


@pytest.mark.parametrize("ending", ["root", "parquet", "arrow"])
@pytest.mark.parametrize("n_bytes", [0, 1000])
def test_resumed_conversions_replace_what_others_have_left(dimuon, tmp_path, ending, n_bytes):
    (made,) = fb.convert([dimuon], tmp_path / "out", kind=ending)
    content = Path(made.output).read_bytes()
    Path(made.output).write_bytes(content[:n_bytes])
    (report,) = fb.convert([dimuon], tmp_path / "out", resume=True, kind=ending)
    assert report.status == "converted"
    assert Path(made.output).stat().st_size == len(content)


def test_the_program_says_what_can_be_done_about_what_is_not_replaced(dimuon, testdata, tmp_path):
    """The advice was --force, which cannot be combined with --resume."""
    other = tmp_path / "dimuon.root"
    content = (testdata / "ttree" / "versions.root").read_bytes()
    other.write_bytes(content)
    os.utime(other, (1, 1))
    command = [*PROGRAM, "convert", dimuon, f"{tmp_path}/", "--resume"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "which would be lost (TTree" in done.stderr
    assert "move it, or convert into another directory" in done.stderr
    assert other.read_bytes() == content


@pytest.mark.parametrize("switch", ["resume", "skip_bad_files", "overwrite", "verify", "group"])
def test_switches_are_true_or_false(dimuon, tmp_path, switch):
    """The name of a report was passed as in the program: "'str' object is not an instance of 'bool'"."""
    hint = "; the returned reports .*" if switch == "skip_bad_files" else "$"
    with pytest.raises(fb.UsageError, match=f"{switch} must be True or False, not 'r.json'{hint}"):
        fb.convert([dimuon], tmp_path / "out", **{switch: "r.json"})


def test_outputs_have_endings_that_say_what_they_are(dimuon, tmp_path):
    with pytest.raises(fb.UsageError, match=r"\.parquet"):
        fb.convert(dimuon, tmp_path / "x.csv")


@pytest.mark.parametrize("file", ["lists", "scalars", "sums", "classes", "untyped", "packed", "streamers", "imported"])
def test_an_ntuple_stays_what_it_is(testdata, tmp_path, file):
    path = testdata / "rntuple" / f"{file}.root"
    # Arrow has one level of it: an empty inner value became a missing outer one, and the proof found them equal
    lossy = ["optional_optional"] if file == "sums" else []
    with pytest.warns(fb.UnreadableWarning, match="optional value of an") if lossy else contextlib.nullcontext():
        report = fb.convert(path, tmp_path / "again.root", compression="lz4:4", cluster_size="1 kB", page_size=64)
    assert report.equal is True
    before, after = fb.open(path), fb.open(tmp_path / "again.root")
    kept = [field.name for field in before if field.name not in lossy]
    assert [field.name for field in after] == kept
    assert after.typenames(filter_name=kept) == before.typenames(filter_name=kept)
    assert after.verify().ok
    assert after.arrays(kept).layout.form == before.arrays(kept).layout.form
    assert repr(after.arrays(kept).to_list()) == repr(before.arrays(kept).to_list())  # a NaN equals a NaN


def test_bases_that_a_class_has_twice_are_told_apart(tmp_path):
    """Their common base is named after the outermost classes, but was looked up under the innermost."""
    base = fb.Class("Base", {"a": "int"})
    spec = fb.Class(
        "Grandchild",
        {
            ":_0": fb.Class("Child", {":_0": base, "c": "int"}),
            ":_1": fb.Class("Other", {":_0": base, "o": "int"}),
            "g": "int",
        },
    )
    with fb.recreate(tmp_path / "in.root") as file:
        value = {":_0": {":_0": {"a": 1}, "c": 2}, ":_1": {":_0": {"a": 3}, "o": 4}, "g": 5}
        file.mkrntuple("Events", {"x": spec}).extend({"x": [value]})
    read = fb.open(tmp_path / "in.root")["x"].array().to_list()
    assert read == [{"g": 5, "o": 4, "Other::a": 3, "c": 2, "Child::a": 1}]
    assert fb.convert(tmp_path / "in.root", tmp_path / "out.root").equal
    made = fb.open(tmp_path / "out.root")
    assert (made["x"].array().to_list(), made["x"].typename) == (read, "Grandchild")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("file", ["lists", "scalars", "packed", "imported"])
def test_a_table_and_back(testdata, tmp_path, ending, file):
    path = testdata / "rntuple" / f"{file}.root"
    table = tmp_path / f"table.{ending}"
    report = fb.convert(path, table)
    assert (report.equal, report.status, report.input) == (True, "converted", str(path))
    back = fb.convert(table, tmp_path / "back.root", name="folder/again")
    assert back.equal is True
    before, after = fb.open(path).arrays(), fb.open(f"{tmp_path}/back.root:folder/again").arrays()
    # the collections of ROOT's importer are seen through projected fields, which become columns of tables
    shown = [name for name in before.fields if not name.startswith("_collection")]
    assert after.fields == shown
    for name in shown:
        assert ak.array_equal(after[name], before[name], equal_nan=True, dtype_exact=True)


@pytest.mark.parametrize("file", ["delphes_10.root:Delphes", "hzz_zlib.root:events", "nano_dy.root:Events"])
def test_a_tree_becomes_a_table_of_its_branches(shared, tmp_path, need, file):
    report = fb.convert(f"{shared}/ttree/{file}", tmp_path / "x.parquet")
    assert report.equal is True
    table, tree = need("pyarrow.parquet").read_table(tmp_path / "x.parquet"), fb.open(f"{shared}/ttree/{file}")
    assert table.column_names == tree.arrays().fields
    name = table.column_names[-1]
    assert table[name].to_pylist() == tree[name].array().to_list()


def test_tables_of_others(need, tmp_path):
    pa, parquet, feather = need("pyarrow"), need("pyarrow.parquet"), need("pyarrow.feather")
    table = pa.table(
        {
            "when": pa.array([0, 1], pa.timestamp("us", "UTC")),
            "lists": [[1.5], []],
            "gap": pa.array([1, None], pa.int16()),
            "word": pa.array(["a", "ü"]).dictionary_encode(),
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.feather", compression="lz4")
    for file in ("a.parquet", "a.feather"):
        report = fb.convert(tmp_path / file, tmp_path / "a.root")
        assert report.equal is True
        assert "integer" in report.notes["when"]
        nt = fb.open(tmp_path / "a.root")
        assert nt.typenames() == {
            "when": "std::int64_t",
            "lists": "std::vector<double>",
            "gap": "std::optional<std::int16_t>",
            "word": "std::string",
            "map": "std::map<std::string,std::int32_t>",
        } | {key: kind for key, kind in nt.typenames().items() if "." in key}
        assert nt["when"].description.startswith("timestamp[us, tz=UTC] in the table")
        assert nt.arrays().to_list() == [
            {"when": 0, "lists": [1.5], "gap": 1, "word": "a", "map": [("k", 1)]},
            {"when": 1, "lists": [], "gap": None, "word": "ü", "map": []},
        ]


def test_parquet_has_no_variants(testdata, tmp_path):
    with pytest.raises(fb.UsageError):
        fb.convert(testdata / "rntuple" / "sums.root", tmp_path / "x.parquet")
    assert names(tmp_path) == []


def test_fields_are_chosen_by_patterns(dimuon, tmp_path):
    fb.convert(dimuon, tmp_path / "x.root", fields=["Muon_*", "nMuon"], drop="*_phi")
    keys = fb.open(tmp_path / "x.root").keys()
    assert "Muon_pt" in keys
    assert "Muon_phi" not in keys
    with pytest.raises(fb.KeyNotFoundError, match="Mun_"):
        fb.convert(dimuon, tmp_path / "y.root", fields=["Mun_*"])
    with pytest.raises(fb.KeyNotFoundError, match="Muon_fi"):
        fb.convert(dimuon, tmp_path / "y.root", drop="Muon_fi")
    assert not (tmp_path / "y.root").exists()


def test_a_view_without_what_it_shows_gets_data_of_its_own(testdata, tmp_path):
    source = fb.open(testdata / "rntuple" / "imported.root")
    views = [field["name"] for field in source._core.fields() if field["projected"] and field["parent"] is None]
    report = fb.convert(testdata / "rntuple" / "imported.root", tmp_path / "x.root", fields=views)
    assert report.equal is True
    nt = fb.open(tmp_path / "x.root")
    assert nt.keys(recursive=False) == views
    for name in views:
        assert ak.array_equal(nt[name].array(), source[name].array(), equal_nan=True, dtype_exact=False), name


def test_arrays_of_one_counter_become_a_collection_with_their_name(shared, tmp_path):
    fb.convert(f"{shared}/ttree/nano_dy.root:Events", tmp_path / "x.root", group=True)
    grouped, tree = fb.open(tmp_path / "x.root"), fb.open(f"{shared}/ttree/nano_dy.root:Events")
    assert ak.array_equal(grouped["Muon.pt"].array(), tree["Muon_pt"].array())
    assert ak.array_equal(grouped["nMuon"].array(), ak.num(tree["Muon_pt"].array()))
    assert "Muon_pt" not in grouped
    assert {"pt", "eta", "phi", "charge"} <= set(grouped["Muon"].array().fields)


def test_several_files_become_one(dimuon, tmp_path):
    report = fb.convert([dimuon, dimuon], tmp_path / "both.root", threads=2)
    one, both = fb.open(dimuon), fb.open(tmp_path / "both.root")
    assert report.entries == both.num_entries == 2 * one.num_entries
    assert ak.array_equal(both.arrays(), ak.concatenate([one.arrays(), one.arrays()]))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_certificate_has_every_column_and_does_not_depend_on_the_cut(dimuon, tmp_path, threads):
    first = fb.convert(dimuon, tmp_path / "a.root", threads=threads)
    second = fb.convert(dimuon, tmp_path / "b.root", cluster_size="1 kB", page_size="100 B", compression=None)
    n_columns = sum(len(types) for types in columns(fb.open(dimuon)).values())
    assert len(first.certificate["columns"]) >= n_columns - len(fb.open(dimuon).keys())
    assert [c["xxh3_128_input"] for c in first.certificate["columns"]] == [
        c["xxh3_128_output"] for c in second.certificate["columns"]
    ]
    assert {c["what"] for c in first.certificate["columns"]} == {"values", "lengths"}


def test_without_verification_there_is_no_certificate(dimuon, tmp_path):
    report = fb.convert(dimuon, tmp_path / "x.root", verify=False)
    assert (report.certificate, report.equal) == (None, None)


def test_a_folder_of_files(dimuon, testdata, tmp_path):
    good = [dimuon, str(testdata / "rntuple" / "lists.root")]
    reports = fb.convert(good, tmp_path / "out", jobs=2)
    assert [report.status for report in reports] == ["converted", "converted"]
    assert names(tmp_path / "out") == ["dimuon.root", "lists.root"]
    before = (tmp_path / "out/dimuon.root").stat().st_mtime_ns
    reports = fb.convert(good, tmp_path / "out", resume=True)
    assert [report.status for report in reports] == ["kept", "kept"]
    assert (tmp_path / "out/dimuon.root").stat().st_mtime_ns == before


def test_what_is_older_than_its_input_is_made_again(dimuon, tmp_path):
    copy = tmp_path / "in.root"
    copy.write_bytes(Path(dimuon).read_bytes())
    fb.convert([copy], tmp_path / "out")
    later = time.time() + 10
    os.utime(copy, (later, later))
    (report,) = fb.convert([copy], tmp_path / "out", resume=True)
    assert report.status == "converted"


def test_bad_files_are_accounted_for(dimuon, tmp_path):
    damaged = tmp_path / "damaged.root"
    content = bytearray(Path(dimuon).read_bytes())
    content[len(content) // 2] ^= 1  # in a page
    damaged.write_bytes(content)
    broken = tmp_path / "broken.root"
    broken.write_bytes(b"no file of ROOT's")
    files = [str(damaged), dimuon, str(broken)]
    with pytest.raises(fb.FemtobarnError, match=r"damaged\.root"):
        fb.convert(files, tmp_path / "first")
    reports = fb.convert(files, tmp_path / "out", skip_bad_files=True)
    assert [report.status for report in reports] == ["failed", "converted", "failed"]
    assert reports[0].entries == 12000
    assert "checksum" in reports[0].error
    assert reports[2].entries is None
    assert "broken.root" in reports[2].error
    assert names(tmp_path / "out") == ["dimuon.root"]


def test_two_files_of_one_name_are_refused(dimuon, tmp_path):
    (tmp_path / "a").mkdir()
    other = tmp_path / "a" / "dimuon.root"
    other.write_bytes(Path(dimuon).read_bytes())
    with pytest.raises(fb.UsageError):
        fb.convert([dimuon, other], tmp_path / "out")


def test_wrong_arguments(dimuon, tmp_path):
    with pytest.raises(fb.UsageError, match="slash"):
        fb.convert(dimuon, tmp_path / "x.root", resume=True)
    with pytest.raises(fb.UsageError, match="'root', 'parquet' or 'arrow'"):
        fb.convert(dimuon, tmp_path / "out", kind="csv")
    with pytest.raises(fb.UsageError, match="compression"):
        fb.convert(dimuon, tmp_path / "x.root", compression="gzip")
    with pytest.raises(fb.NotFoundError):
        fb.convert(tmp_path / "none.root", tmp_path / "x.root")


def test_an_interrupted_conversion_leaves_nothing(dimuon, tmp_path):
    script = (
        f"import femtobarn as fb; fb.convert([{dimuon!r}] * 200, {str(tmp_path / 'x.root')!r}, compression='lzma:9')"
    )
    running = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    deadline = time.time() + 60
    while not list(tmp_path.iterdir()) and time.time() < deadline:
        time.sleep(0.01)
    running.kill()
    running.wait()
    # a killed conversion leaves its unfinished file, but no file of the output's name
    assert not (tmp_path / "x.root").exists()


def test_progress_is_told_and_its_errors_stop_the_conversion(dimuon, tmp_path):
    from femtobarn import _core

    seen = []
    write = {"threads": 1}
    _core.convert([(dimuon, None)], str(tmp_path / "x.root"), {"verify": True}, write, lambda *now: seen.append(now))
    assert seen[-1][0] == 0
    assert seen[-1][1] == seen[-1][2] == 12000
    assert seen[-1][5] is True

    def stop(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        _core.convert([(dimuon, None)], str(tmp_path / "y.root"), {}, write, stop)
    assert names(tmp_path) == ["x.root"]


def test_split_classes_become_records(shared, tmp_path):
    report = fb.convert(f"{shared}/ttree/delphes_10.root:Delphes", tmp_path / "x.root")
    assert report.equal is True
    nt, tree = fb.open(tmp_path / "x.root"), fb.open(f"{shared}/ttree/delphes_10.root:Delphes")
    assert ak.array_equal(nt["Jet.PT"].array(), tree["Jet.PT"].array())
    assert "PT" in nt["Jet"].array().fields
    np.testing.assert_array_equal(nt["Jet_size"].array(library="np"), ak.num(nt["Jet"].array()))


def test_the_program_converts(dimuon, tmp_path):
    done = subprocess.run(
        [*PROGRAM, "convert", "--json", dimuon, str(tmp_path / "x.root")], capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    assert document["entries"] == 12000
    assert document["certificate"]["equal"] is True
    report = tmp_path / "report.json"
    pattern = str(Path(dimuon).parent / "dim*.root")
    command = [*PROGRAM, "convert", pattern, f"{tmp_path}/out/", "-j2", "--resume", "--skip-bad-files", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "columns are equal" in done.stdout
    assert json.loads(report.read_text())["summary"]["converted"] == 1
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "already exists" in done.stdout


# -- table features that ntuples do not have


@pytest.fixture
def odd(need):
    """Return a table with types or names that ntuples do not have."""
    import datetime
    from decimal import Decimal

    pa = need("pyarrow")
    day = datetime.date(2024, 5, 17)
    return pa.table(
        {
            "a b.c": pa.array([1, 2, 3]),
            "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
            "nothing": pa.nulls(3),
            "record": pa.array([{"x y": 1, "d": day}, None, {"x y": None, "d": day}]),
            "lists": pa.array([[{"t": 1}, None], None, []], pa.list_(pa.struct([("t", pa.timestamp("us", "UTC"))]))),
            "texts": pa.array(["a", None, "a"]).dictionary_encode(),
        }
    )


ODD = [
    {"a_b_c": 1, "price": 150, "record": {"x_y": 1, "d": 19860}, "lists": [{"t": 1}, None], "texts": "a"},
    {"a_b_c": 2, "price": None, "record": None, "lists": None, "texts": None},
    {"a_b_c": 3, "price": -225, "record": {"x_y": None, "d": 19860}, "lists": [], "texts": "a"},
]


def write_table(table, path):
    """Write a table in the format of its name: Parquet, an Arrow IPC file or stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
        with new(path, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_what_tables_have_becomes_what_ntuples_have(odd, tmp_path, ending):
    write_table(odd, tmp_path / f"odd.{ending}")
    with pytest.warns(fb.UnreadableWarning, match="'nothing' of .* cannot be converted and is left out: all of its"):
        report = fb.convert(tmp_path / f"odd.{ending}", tmp_path / "odd.root")
    assert report.equal
    assert fb.open(tmp_path / "odd.root").arrays().tolist() == ODD
    assert report.notes["a b.c"] == 'renamed to "a_b_c"'
    assert report.skipped == (("nothing", "all of its values are missing, so its type is unknown"),)
    assert report.notes["price"] == "decimal128(10, 2) is written as an integer, its value times 10^2"
    assert report.notes["lists"] == "timestamp[us, tz=UTC] is written as an integer"
    assert fb.open(tmp_path / "odd.root")["price"].description.startswith("decimal128(10, 2) in the table")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_table_of_a_table_keeps_the_names(odd, tmp_path, ending):
    write_table(odd, tmp_path / "odd.parquet")
    assert fb.convert(tmp_path / "odd.parquet", tmp_path / f"other.{ending}", drop="nothing").equal
    assert fb.convert(tmp_path / f"other.{ending}", tmp_path / "odd.root", fields="a b*").equal
    assert fb.open(tmp_path / "odd.root").keys() == ["a_b_c"]


def test_columns_that_cannot_be_are_refused_by_name(need, tmp_path):
    from decimal import Decimal

    pa = need("pyarrow")

    def refused(table, message, **options):
        write_table(table, tmp_path / "in.arrow")
        with pytest.raises(fb.UsageError, match=message):
            fb.convert(tmp_path / "in.arrow", tmp_path / "out.root", **options)
        assert names(tmp_path) == ["in.arrow"]

    clash = pa.table({"a b": [1], "a.b": [2]})
    refused(clash, r'"a\.b" cannot be written: "a b" and it would both get the name "a_b": leave one out')
    long = pa.table({"x": pa.array([Decimal(1)], pa.decimal128(38, 2)), "ok": [1]})
    refused(long, r'"x" cannot be written: decimal128\(38, 2\) may have more digits .* leave it out')
    interval = pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    refused(interval, r'"x" cannot be written: Arrow.s month_day_nano_interval has no counterpart')
    write_table(clash, tmp_path / "in.arrow")
    fb.convert(tmp_path / "in.arrow", tmp_path / "out.root", drop="a.b")
    assert fb.open(tmp_path / "out.root").keys() == ["a_b"]


@pytest.mark.parametrize("ending", ["root", "parquet", "arrow"])
def test_tables_and_ntuples_without_entries(need, tmp_path, ending):
    pa = need("pyarrow")
    write_table(
        pa.table({"n": pa.array([], pa.int32()), "l": pa.array([], pa.list_(pa.float32()))}), tmp_path / "in.parquet"
    )
    fb.write(tmp_path / "in.root", {"n": np.array([], "i4")})
    for given in ("in.parquet", "in.root"):
        report = fb.convert(tmp_path / given, tmp_path / f"out.{ending}")
        assert (report.entries, report.equal) == (0, True)
        again = fb.convert(tmp_path / f"out.{ending}", tmp_path / "again.root")
        assert (again.entries, again.equal) == (0, True)
        assert "n" in fb.open(tmp_path / "again.root").keys()  # noqa: SIM118


def test_tables_are_compressed_as_their_kinds_can(dimuon, tmp_path):
    """LZMA silently became Zstandard."""
    with pytest.raises(fb.UsageError, match="invalid compression for Parquet: use zstd, lz4, zlib"):
        fb.convert(dimuon, tmp_path / "out.parquet", compression="lzma")
    with pytest.raises(fb.UsageError, match="invalid compression for Arrow IPC: use zstd, lz4 or none"):
        fb.convert(dimuon, tmp_path / "out.arrow", compression="zlib:3")
    with pytest.raises(fb.UsageError, match="Parquet"):
        fb.convert(dimuon, tmp_path / "folder/", compression="lzma", kind="parquet")
    assert names(tmp_path) == []


def test_files_that_are_no_tables_say_so(need, tmp_path):
    need("pyarrow")
    for name in ("a.parquet", "a.arrow"):
        (tmp_path / name).write_bytes(b"no table at all")
        with pytest.raises(fb.FormatError, match=rf"{name} cannot be read: "):
            fb.convert(tmp_path / name, tmp_path / "out.root")
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(20))
    with pytest.raises(fb.FormatError, match="Feather version 1 is not supported"):
        fb.convert(tmp_path / "a.feather", tmp_path / "out.root")
    with pytest.raises(fb.UsageError, match="streams of Arrow IPC can only be read"):
        fb.convert(tmp_path / "a.arrow", tmp_path / "out.arrows")


def test_all_bad_columns_are_told_at_once(need, tmp_path):
    """One was reported, and the next only after that had been dropped."""
    pa, feather, parquet = need("pyarrow"), need("pyarrow.feather"), need("pyarrow.parquet")
    months = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    long = pa.array([decimal.Decimal(1)], pa.decimal128(30, 2))
    table = pa.table({"fine": [1], "long": long, "a b": [1], "a_b": [2], "months": months, "nothing": pa.nulls(1)})
    feather.write_feather(table, tmp_path / "a.feather")
    message = (
        r'^"long" cannot be written: decimal128\(30, 2\) .*; "a_b" cannot be written: "a b" and it .*; "months" cannot '
        r"be written: Arrow's month_day_nano_interval has no counterpart in RNTuple; cast it to numbers or strings .*$"
    )
    with pytest.raises(fb.UsageError, match=message) as raised:
        fb.convert(tmp_path / "a.feather", tmp_path / "out.root")
    assert raised.value.kind == "unwritable-field"
    with pytest.raises(fb.UsageError, match=r'^"long" cannot .*; "nothing" cannot be written: all of its values are'):
        fb.convert(tmp_path / "a.feather", tmp_path / "out.root", fields=["fine", "long", "nothing"])
    with pytest.raises(fb.UsageError, match=r'^"long" cannot .*; "months" cannot '):
        fb.write(tmp_path / "out.root", table.drop(["nothing"]))
    with pytest.raises(fb.UsageError, match=r'^"x" cannot be written: its type .*; "y" cannot be written: the type of'):
        fb.write(tmp_path / "out.root", {"x": [None], "ok": [1], "y": [[]]})
    for i, more in enumerate(({"a": [1], "c": ["x"]}, {"a": [1.5], "d": ["x"]})):
        parquet.write_table(pa.table({"b": [1.5], **more}), tmp_path / f"{i}.parquet")
    message = (
        r'1\.parquet differ from the first table: "a" is float64 here, but int64 .*; column "c" is missing; '
        r'"d" is not in the first table$'
    )
    with pytest.raises(fb.UsageError, match=message):
        fb.convert([tmp_path / "0.parquet", tmp_path / "1.parquet"], tmp_path / "out.root")
    assert not (tmp_path / "out.root").exists()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_records_that_only_look_like_tuples_keep_the_names_of_their_members(need, tmp_path, ending):
    """A lone `_1` became `_0`, others exchanged names, and a `_2` beside an `x` was an error."""
    pa, parquet, feather = need("pyarrow"), need("pyarrow.parquet"), need("pyarrow.feather")
    columns = {
        "second": [{"_1": 1}, {"_1": 2}],
        "lists": [[{"_1": 1.5}], []],
        "swapped": pa.array([{"_1": 1, "_0": "a"}] * 2, pa.struct([("_1", "int64"), ("_0", "string")])),
        "gap": [{"_0": 1, "_2": 2}] * 2,
        "mixed": [{"_2": 1, "x": 2}] * 2,
        "deep": [{"_1": {"_1": True}}] * 2,
        "missing": [{"_1": 3}, None],
        "tuple": [{"_0": 1, "_1": "a"}] * 2,
        "one": [{"_0": 1}] * 2,
    }
    table = pa.table(
        {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    )
    write, read = (
        (parquet.write_table, parquet.read_table)
        if ending == "parquet"
        else (feather.write_feather, feather.read_table)
    )
    write(table, tmp_path / f"in.{ending}")
    assert fb.convert(tmp_path / f"in.{ending}", tmp_path / "own.root").equal
    nt = fb.open(tmp_path / "own.root")
    assert [nt[name].typename for name in ("tuple", "one", "second")] == [
        "std::pair<std::int64_t,std::string>",
        "std::tuple<std::int64_t>",
        "",
    ]
    assert nt["second._1"].array().to_list() == [1, 2]
    assert nt.arrays()["swapped"].to_list() == [{"_1": 1, "_0": "a"}] * 2
    assert nt.arrays()["tuple"].to_list() == [(1, "a")] * 2
    assert fb.convert(tmp_path / "own.root", tmp_path / f"out.{ending}").equal
    assert read(tmp_path / f"out.{ending}").to_pylist() == table.to_pylist()
    assert fb.convert(tmp_path / f"out.{ending}", tmp_path / "again.root").equal
    assert ak.array_equal(fb.open(tmp_path / "again.root").arrays(), nt.arrays())
    # names take precedence over positions
    with fb.recreate(tmp_path / "named.root") as file:
        written = file.mkrntuple("Events", {"r": {"_1": "int", "_0": "int"}})
        written.extend({"r": ak.Array([{"_0": 1, "_1": 2}])})
    assert fb.open(tmp_path / "named.root")["r"].array().to_list() == [{"_1": 2, "_0": 1}]


# Arguments: the file. Prints the entries that ROOT shows
SHOW = """
import os, sys
import ROOT
reader = ROOT.RNTupleReader.Open("Events", sys.argv[1])
entry = reader.CreateEntry()
for i in range(reader.GetNEntries()):
    reader.LoadEntry(i, entry)
assert list(reader.GetView["std::int64_t"]("r._0.x")(i) for i in range(2)) == [1, 2]
assert ROOT.RDataFrame("Events", sys.argv[1]).Count().GetValue() == 3
os._exit(0)
"""


@pytest.mark.oracle
def test_records_without_a_class_may_be_missing(tmp_path, run_root):
    """They were read as lists of zero or one item."""
    data = ak.Array(
        [
            {"r": {"x": 1}, "v": [{"y": 1.5}, None]},
            {"r": None, "v": []},
            {"r": {"x": 2}, "v": [None]},
        ]
    )
    fb.write(tmp_path / "in.root", data)
    for ending in ("root", "parquet", "arrow"):
        assert fb.convert(tmp_path / "in.root", tmp_path / f"other.{ending}").equal
        assert fb.convert(tmp_path / f"other.{ending}", tmp_path / "again.root").equal
        assert fb.open(tmp_path / "again.root").arrays().tolist() == data.tolist()
    run_root(SHOW, tmp_path / "in.root")


# -- missing names, and counters


def test_a_field_that_is_not_there_is_told_with_those_that_are(dimuon, shared, tmp_path):
    for option in ("fields", "drop"):
        with pytest.raises(
            fb.KeyNotFoundError, match=r"dimuon\.root:Events has no field .nMuons.; did you mean nMuon\?"
        ):
            fb.convert(dimuon, tmp_path / "out.root", **{option: "nMuons"})
    with pytest.raises(fb.KeyNotFoundError, match=r"did you mean NMuon\?"):
        fb.convert(f"{shared}/ttree/hzz_zlib.root:events", tmp_path / "out.root", drop="NMuo")


def test_a_counter_within_a_branch_of_several_leaves_stays_a_member(testdata, tmp_path):
    assert fb.convert(testdata / "ttree" / "counted.root", tmp_path / "counted.root").equal
    made = fb.open(tmp_path / "counted.root")
    assert made.typenames()["list.n"] == "std::int32_t"
    assert ak.to_list(made.arrays()) == ak.to_list(fb.open(testdata / "ttree" / "counted.root").arrays())


def test_a_counter_that_is_dropped_is_not_there(shared, tmp_path):
    """The result for its arrays depended on which of them came first in the tree."""
    tree = f"{shared}/ttree/hzz_zlib.root:events"
    fb.convert(tree, tmp_path / "all.root", fields=["NMuon", "Muon_P*"])
    fb.convert(tree, tmp_path / "dropped.root", fields="*Muon*", drop="NMuon")
    fb.convert(tree, tmp_path / "one.root", fields="Muon_Px")
    everything, dropped, one = (fb.open(tmp_path / f"{name}.root") for name in ("all", "dropped", "one"))
    assert "NMuon" in everything.keys()  # noqa: SIM118
    assert "NMuon" not in dropped.keys()  # noqa: SIM118
    assert ak.array_equal(everything["Muon_Px"].array(), dropped["Muon_Px"].array())
    assert {"NMuon", "Muon_Px"} < set(one.keys())
    assert ak.array_equal(everything["Muon_Px"].array(), one["Muon_Px"].array())


# Arguments: the file
TREES = """
import os, sys
import ROOT
ROOT.gInterpreter.Declare('''
void trees(const char* name) {
  TFile file(name, "RECREATE");
  struct { float grid[2][3]; int n; float list[4]; char letter; unsigned char byte; } record{};
  double x = 0;
  int number = 0;
  TTree lists("lists", "lists of leaves");
  lists.Branch("record", &record.grid, "grid[2][3]/F:n/I");
  lists.Branch("letters", &record.letter, "letter/B:byte/b");
  TTree own("own", "a counter in the same branch");
  own.Branch("record", &record.n, "n/I:list[n]/F");
  TTree names("names", "names that ROOT does not take");
  names.Branch("p4.", &x, "x/D");
  names.Branch("my var", &number, "number/I");
  TTree dots("my tree", "a name that an ntuple does not take, and names that look like parts of another");
  dots.Branch("p4", &x, "x/D");
  dots.Branch("p4.", &number, "number/I");
  for (int i = 0; i < 4; ++i) {
    x = number = record.n = i;
    record.letter = 'a' + i;
    record.byte = 200 + i;
    for (int j = 0; j < 6; ++j) record.grid[j / 3][j % 3] = 10 * i + j;
    for (int j = 0; j < i; ++j) record.list[j] = j + 0.5;
    lists.Fill();
    own.Fill();
    names.Fill();
    dots.Fill();
  }
  file.Write();
}
''')
ROOT.trees(sys.argv[1])
os._exit(0)
"""


@pytest.fixture(scope="module")
def made(run_root, tmp_path_factory):
    """Return trees of leaf lists, and of names that fields cannot have."""
    path = tmp_path_factory.mktemp("trees") / "trees.root"
    run_root(TREES, path)
    return path


@pytest.mark.oracle
def test_lists_of_leaves_become_what_roots_importer_makes_of_them(run_root, made, tmp_path):
    """Letters were integers, and two-dimensional arrays kept both dimensions."""
    run_root(IMPORT, f"{made}|lists", tmp_path / "imported.root")
    assert fb.convert(f"{made}:lists", tmp_path / "own.root").equal is True
    own, roots = fb.open(tmp_path / "own.root"), fb.open(tmp_path / "imported.root")
    assert own.typenames() == roots.typenames()
    assert own.typenames()["record.grid"] == "std::array<float,6>"
    assert own.typenames()["letters.letter"] == "char"
    assert columns(own) == columns(roots)
    assert own.arrays().to_list() == roots.arrays().to_list()


@pytest.mark.oracle
def test_a_list_of_leaves_may_have_its_own_counter(made, tmp_path):
    """It was refused, as its branch is not a counter."""
    assert fb.convert(f"{made}:own", tmp_path / "own.root").equal is True
    assert fb.open(tmp_path / "own.root").arrays().to_list()[2] == {"record": {"n": 2, "list": [0.5, 1.5]}}


@pytest.mark.oracle
@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_names_of_the_input_and_of_the_output_choose_fields(made, tmp_path, ending):
    is_root = ending == "root"
    names = {"p4.": "p4" if is_root else "p4.", "my var": "my_var" if is_root else "my var"}
    for asked, name in {"p4": "p4.", "p4.": "p4.", "my var": "my var", "my_var": "my var", "my_*": "my var"}.items():
        (other,) = set(names) - {name}
        for option, kept in ("fields", name), ("drop", other):
            report = fb.convert(f"{made}:names", tmp_path / f"x.{ending}", **{option: asked})
            assert [column["field"] for column in report.certificate["columns"]] == [names[kept]]
            assert report.notes == ({kept: f'renamed to "{names[kept]}"'} if is_root else {})


# -- many files


def test_errors_of_folders_are_those_of_files(dimuon, testdata, tmp_path):
    """All were a FemtobarnError, and intact files counted as lost entries."""
    with pytest.raises(fb.NotFoundError, match=r"none\.root \(0 of 1 files converted\)") as raised:
        fb.convert([tmp_path / "none.root"], tmp_path / "out/")
    assert raised.value.kind == "file-not-found"
    with pytest.raises(fb.KeyNotFoundError, match="nMuons"):
        fb.convert([dimuon], tmp_path / "out/", fields="nMuons")
    copy = tmp_path / "copy.root"
    copy.write_bytes(Path(dimuon).read_bytes())
    (report,) = fb.convert([copy], f"{tmp_path}/", skip_bad_files=True)
    assert (report.status, report.entries) == ("failed", 0)
    assert "also an input" in repr(report)


def test_folders_and_files_of_several_objects_say_how_to_go_on(dimuon, tmp_path):
    (tmp_path / "in").mkdir()
    for output in ("out/", "out.root"):
        with pytest.raises(fb.UsageError, match=r"in is a directory: give its files, e\.g\. '.*/in/\*\.root'"):
            fb.convert(str(tmp_path / "in"), f"{tmp_path}/{output}")
        done = subprocess.run(
            [*PROGRAM, "convert", f"{tmp_path}/in/", f"{tmp_path}/{output}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "/in/*.root'" in done.stderr) == (2, True)
    with fb.recreate(tmp_path / "two.root") as file:
        file["a"] = {"x": [1]}
        file["b"] = {"x": [1]}
    with pytest.raises(fb.UsageError, match=r"name one of them: a, b \(e\.g\. .*two\.root:a\)"):
        fb.convert(tmp_path / "two.root", tmp_path / "out.parquet")
    with pytest.raises(fb.UsageError, match=r"\(a, b\), .* \"c\": name the one to convert \(.*two\.root:a\)"):
        fb.convert(tmp_path / "two.root", tmp_path / "out.root", name="c")
    for output in ("out.parquet", "out.root"):
        assert fb.convert(f"{tmp_path}/two.root:a", tmp_path / output, name="c").entries == 1


def test_columns_of_tables_are_chosen_by_either_name(need, tmp_path):
    pa = need("pyarrow")
    need("pyarrow.parquet").write_table(pa.table({"price (EUR)": [1.5], "other": [2]}), tmp_path / "a.parquet")
    for name in ("price (EUR)", "price__EUR_"):
        fb.convert(tmp_path / "a.parquet", tmp_path / "a.root", fields=name)
        assert fb.open(tmp_path / "a.root").keys() == ["price__EUR_"]


@pytest.mark.oracle
def test_a_tree_gets_a_name_that_an_ntuple_can_have(made, tmp_path):
    """The message asked to rename it, and did not say how."""
    report = fb.convert(f"{made}:my tree", tmp_path / "out.root")
    assert report.notes["my tree"] == 'the tree has the name "my_tree"'
    assert report.equal is True
    assert fb.open(f"{tmp_path}/out.root:my_tree").num_entries == 4
    assert "my tree" not in fb.convert(f"{made}:my tree", tmp_path / "own.root", name="own").notes


@pytest.mark.oracle
def test_trees_without_a_common_branch_say_so(made, tmp_path):
    """A branch `p4.` was taken for a part of `p4`, and expected in the other tree."""
    with pytest.raises(fb.UsageError, match="no field is in all files"):
        fb.convert([f"{made}:my tree", f"{made}:own"], tmp_path / "out.root")
    with pytest.warns(fb.UnreadableWarning):
        report = fb.convert([f"{made}:names", f"{made}:my tree"], tmp_path / "out.root")
    assert [name for name, _ in report.skipped] == ["my var", "p4"]


def test_fields_below_the_top_level_are_told_what_to_choose(shared, tmp_path):
    """Names of split members are at the top level of keys(), and some were reported as misspelt."""
    tree = f"{shared}/ttree/delphes_10.root:Delphes"
    keys = fb.open(tree).keys()
    below = next(key for key in keys if key.startswith("Jet.PT"))
    for names in ({"fields": below}, {"drop": [below]}, {"fields": "Jet.P*"}):
        with pytest.raises(fb.UsageError, match=r'below the top level.*select "Jet"'):
            fb.convert(tree, tmp_path / "out.root", **names)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_of_nulls_are_left_out_wherever_they_are(need, tmp_path, ending):
    """Those in lists and records raised an error about options that convert does not have."""
    pa = need("pyarrow")
    columns = {
        "lists": [[{"x": 1, "y": None}], []],
        "empty": [[], []],
        "records": [{"a": None, "b": {"c": None, "d": 2.5}}, {"a": None, "b": {"c": None, "d": 1.0}}],
        "nothing": [{"a": None}, {"a": None}],
    }
    write_table(pa.table(columns), tmp_path / f"in.{ending}")
    with pytest.warns(fb.UnreadableWarning):
        report = fb.convert(tmp_path / f"in.{ending}", tmp_path / "out.root")
    assert report.equal is True
    assert [name for name, _ in report.skipped] == ["lists.y", "empty", "records.a", "records.b.c", "nothing"]
    assert fb.open(tmp_path / "out.root").arrays().to_list() == [
        {"lists": [{"x": 1}], "records": {"b": {"d": 2.5}}},
        {"lists": [], "records": {"b": {"d": 1.0}}},
    ]
    with pytest.raises(fb.UsageError, match='select "lists"'):
        fb.convert(tmp_path / f"in.{ending}", tmp_path / "out.root", drop="lists.y")


def test_two_columns_of_one_name_are_told_so(need, tmp_path):
    """The message was: "a" and it would both be called "a"."""
    pa = need("pyarrow")
    write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "in.arrow")
    with pytest.raises(fb.UsageError, match=r'^"a" cannot be written: two columns have this name: rename one'):
        fb.convert(tmp_path / "in.arrow", tmp_path / "out.root")


def test_attribute_sets_go_along(testdata, tmp_path):
    """They were lost in silence."""
    given = f"{testdata}/rntuple/attributes.root:main"
    report = fb.convert(given, tmp_path / "out.root")
    assert report.notes == {}
    expected, found = fb.open(given).attributes, fb.open(tmp_path / "out.root").attributes
    assert len(expected) > 1
    assert list(found) == list(expected)
    for name in expected:
        assert found[name].typenames() == expected[name].typenames()
        assert found[name].arrays().to_list() == expected[name].arrays().to_list()
    assert fb.open(tmp_path / "out.root").verify().ok
    for files, output, why in (
        (given, "out.parquet", "tables have no attribute sets"),
        ([given, given], "both.root", "attribute sets of several files are not combined"),
    ):
        report = fb.convert(files, tmp_path / output)
        assert [(it.name, it.class_name) for it in report.left_behind] == [
            (f"main {name}", "attribute set") for name in expected
        ]
        assert {it.reason for it in report.left_behind} == {why}


def test_quantized_numbers_say_that_they_are_no_longer(testdata, tmp_path):
    """They silently took four times the space."""
    given = fb.open(f"{testdata}/rntuple/packed.root")
    is_quantized = [path for path, types in columns(given).items() if "Real32Quant" in types]
    report = fb.convert(f"{testdata}/rntuple/packed.root", tmp_path / "out.root")
    told = [name for name, note in report.notes.items() if "Real32Quant" in note]
    assert is_quantized
    assert len(told) == len(is_quantized)
    assert "Real32Quant" not in str(columns(fb.open(tmp_path / "out.root")))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_that_is_interrupted_says_what_was_not_tried(tmp_path, jobs):
    """Its exit code was 1, and the interrupted file was listed as bad."""
    generator = np.random.default_rng(1)
    for name, size in (("a", 10), ("b", 3_000_000), ("c", 3_000_000), ("d", 10)):
        fb.write(tmp_path / f"{name}.root", {"x": generator.normal(size=size)}, compression=None)
    files = [f"{name}.root" for name in "abcd"]
    options = ["--compression", "lzma:9", "-j", str(jobs), "--skip-bad-files", "report.json"]
    running = subprocess.Popen([*PROGRAM, "convert", *files, "out/", *options], cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    has_begun = ("out/a.root", "out/.b.root.partial-*")
    while not all(list(tmp_path.glob(it)) for it in has_begun) and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == 130
    report = json.loads((tmp_path / "report.json").read_text())
    statuses = [file["status"] for file in report["files"]]
    assert statuses[:2] == ["converted", "interrupted"]
    assert statuses[2] in ("interrupted", "not tried")
    assert statuses[3] == "not tried"
    assert (report["summary"]["failed"], report["summary"]["not_tried"]) == (0, 3)
    assert names(tmp_path / "out") == ["a.root"]


# A projected field of a type that cannot be read without loss. Argument: the output
ODD_VIEW = """
import sys
import ROOT
ROOT.gInterpreter.Declare('''
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <optional>
void odd(const char *path) {
  auto model = ROOT::RNTupleModel::Create();
  auto v = model->MakeField<std::vector<float>>("v");
  auto view = ROOT::RFieldBase::Create("view", "std::optional<float>").Unwrap();
  model->AddProjectedField(std::move(view), [](const std::string &name) { return "v" + name.substr(4); });
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "e", path);
  *v = {1, 2};
  writer->Fill();
}
''')
ROOT.odd(sys.argv[1])
"""


@pytest.mark.oracle
def test_a_view_that_cannot_be_written_is_left_out_alone(tmp_path, run_root):
    """A projected field with a type other than its source, which ROOT can create, ended the conversion of its file."""
    run_root(ODD_VIEW, tmp_path / "in.root")
    with pytest.warns(fb.UnreadableWarning, match="view"):
        report = fb.convert(tmp_path / "in.root", tmp_path / "out.root")
    assert [name for name, _ in report.skipped] == ["view"]
    assert fb.open(tmp_path / "out.root").arrays().to_list() == [{"v": [1.0, 2.0]}]


def test_strings_that_are_not_utf8_stay_what_they_are(tmp_path):
    """They could be read, and no operation on trees and ntuples took them; a condition was an internal error."""
    path = tmp_path / "in.root"
    with fb.recreate(path) as file:
        file.mkrntuple("Events", {"s": "std::string", "n": "int"}).extend({"s": [b"abc", b"caf\xe9"], "n": [1, 2]})
    assert fb.convert(path, tmp_path / "out.root").equal
    assert fb.open(tmp_path / "out.root").arrays().to_list() == fb.open(path).arrays().to_list()
    with pytest.warns(fb.UnreadableWarning, match="Arrow does not take its values"):
        fb.convert(path, tmp_path / "out.parquet")
    with pytest.raises(fb.FemtobarnError, match=r'field "s" of "Events".*Arrow does not take its values'):
        fb.skim(path, tmp_path / "skim.root", "s == 'abc'")
