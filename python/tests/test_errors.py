import importlib.metadata
import inspect
import pickle
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import femtobarn as fb
from femtobarn import errors
from femtobarn._files.fields import HasFields
from femtobarn._files.reading import Readable

BUILTIN = {
    "FemtobarnError": Exception,
    "FileError": OSError,
    "NotFoundError": FileNotFoundError,
    "KeyNotFoundError": KeyError,
    "ExistsError": FileExistsError,
    "FormatError": ValueError,
    "ChecksumError": fb.FormatError,
    "UsageError": ValueError,
    "QueueEndedError": EOFError,
    "ResourceError": MemoryError,
    "MissingDependencyError": ImportError,
    "WorkerDiedError": RuntimeError,
}


def test_every_error_is_listed():
    assert set(errors.__all__) == {*BUILTIN, "ServerWarning", "UnreadableWarning"}


@pytest.mark.parametrize(("name", "builtin"), BUILTIN.items())
def test_an_error_is_also_the_builtin_one(name, builtin):
    kind = getattr(fb, name)
    error = kind("what 'it' is", kind="some-kind")
    assert isinstance(error, (fb.FemtobarnError, builtin))
    assert issubclass(kind, builtin)
    assert str(error) == "what 'it' is"
    assert error.kind == "some-kind"
    assert kind("x").kind == kind.kind
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.kind) == (kind, str(error), "some-kind")
    assert type(kind.__new__(kind)) is kind  # as distributed pickles errors


def test_a_missing_field_lists_the_nearest_names(dimuon):
    nt = fb.open(dimuon)
    with pytest.raises(KeyError, match=r"'Muon_ptt' in 'Events' \(.*dimuon.root\): did you mean 'Muon_pt'"):
        nt["Muon_ptt"]
    with pytest.raises(fb.KeyNotFoundError, match="did you mean 'nMuon'"):
        nt.arrays(["run", "nmuon"])
    with pytest.raises(fb.KeyNotFoundError, match="no field matches 'Jet_\\*'"):
        nt.arrays("Jet_*")
    with pytest.raises(fb.KeyNotFoundError, match=r"no field matches 'Mun_\*'.*did you mean .*'Muon_pt'"):
        nt.arrays("Mun_*")
    with pytest.raises(fb.KeyNotFoundError, match="field '_collection0' of 'Events'"):
        nt["_collection0"]["Jet_pt"]
    with pytest.raises(fb.KeyNotFoundError):
        nt[".Muon_pt.nothing"]


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("sqrt(abcdefgh + 2)", "it is not an expression: there is no field 'abcdefgh'"),
        ("Muon_pt[:, 0] > Muon_eta", "it is not an expression: expression .* character 9"),
        ("Muon_ptt > 2", "there is no field 'Muon_ptt'; did you mean 'Muon_pt'"),
    ],
)
def test_what_is_neither_a_name_nor_an_expression_is_told_with_the_reason(dimuon, expression, advice):
    with pytest.raises(fb.KeyNotFoundError, match=advice):
        fb.open(dimuon).arrays(expression)


@pytest.mark.parametrize("key", ["Events", "Events;1", "/Events"])
def test_the_ntuples_own_name_is_no_field(dimuon, key):
    with pytest.raises(fb.KeyNotFoundError) as caught:
        fb.open(dimuon)[key]
    assert f'fb.open("{dimuon}:Events") and omit ["{key}"]' in str(caught.value)


@pytest.mark.parametrize("threads", ["all", 1.5, [2]])
def test_threads_that_are_no_number_are_refused(dimuon, threads):
    with pytest.raises(fb.UsageError):
        fb.open(dimuon, threads=threads)
    with pytest.raises(fb.UsageError):
        fb.open(dimuon).arrays("run", threads=threads)


class LeavesOut:
    """A core that skips two fields, as for files that differ."""

    def __init__(self, core):
        self.core = core

    def __getattr__(self, name):
        return getattr(self.core, name)

    def skipped(self):
        return [("Jet_pt", "not in b.root (and 2 more)"), ("odd", "of an unknown type")]


def test_a_skipped_field_says_why_it_is_not_there(dimuon, capsys):
    nt = fb.open(dimuon)
    nt._opened = LeavesOut(nt._opened)
    for ask in (nt.__getitem__, nt.arrays, lambda key: nt.arrays(["run", key])):
        with pytest.raises(fb.KeyNotFoundError, match=r"field 'Jet_pt' of 'Events' .* not in b.root \(and 2 more\)"):
            ask("Jet_pt")
    with pytest.raises(fb.KeyNotFoundError):
        nt["odd.member"]
    assert repr(nt).endswith("\nskipped: Jet_pt (not in b.root (and 2 more))\nskipped: odd (of an unknown type)")
    assert "skipped: Jet_pt" in nt._repr_html_()
    nt.show()
    assert "skipped: odd (of an unknown type)" in capsys.readouterr().out
    nt.show(filter_name="J*", max_width=20)
    assert capsys.readouterr().out.endswith("\nskipped: Jet_pt (no…\n")


def test_a_filter_may_match_nothing(dimuon):
    assert fb.open(dimuon).arrays(filter_name="Jet_*").fields == []


def test_a_field_is_chosen_by_name_or_position(dimuon):
    nt = fb.open(dimuon)
    with pytest.raises(fb.UsageError):
        nt[1.5]
    with pytest.raises(IndexError):
        nt[100]


def test_a_damaged_page_is_a_checksum_error_that_says_where(dimuon, tmp_path):
    data = bytearray(Path(dimuon).read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged = tmp_path / "damaged.root"
    damaged.write_bytes(data)
    nt = fb.open(damaged)
    with pytest.raises(fb.ChecksumError, match=r"damaged\.root") as caught:
        nt.arrays()
    assert isinstance(caught.value, ValueError)
    report = nt.verify()
    assert not report
    assert not report.ok
    assert len(report.damages) == 1
    assert "DAMAGED: 1 damaged page" in repr(report)


@pytest.mark.parametrize("length", [0, 10, 100, 1000, 100_000])
def test_a_truncated_file_is_an_error_of_ours(dimuon, tmp_path, length):
    short = tmp_path / "short.root"
    short.write_bytes(Path(dimuon).read_bytes()[:length])
    with pytest.raises(fb.FemtobarnError, match=r"short\.root"):
        fb.open(short).arrays()


def test_importing_is_light():
    """Start-up time: heavy packages are imported when they are first needed."""
    heavy = ["awkward", "pandas", "polars", "pyarrow", "rich", "tqdm", "IPython"]
    code = f"import sys, femtobarn; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_reading_into_numpy_needs_no_awkward(dimuon):
    code = (
        f"import sys, femtobarn; n = femtobarn.open({dimuon!r}).arrays(['run', 'Muon_pt'], library='np');"
        "print(len(n), 'awkward' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "2 False"


def test_the_program_is_installed(dimuon):
    (found,) = entry_points(group="console_scripts", name="fb")
    assert found.load() is not None
    code = "import sys; from femtobarn._cli import main; sys.argv[1:] = ['--help']; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "verify" in result.stdout


def test_the_version_is_the_packages():
    assert fb.__version__.count(".") >= 2
    with pytest.raises(AttributeError):
        fb.nonsense  # noqa: B018


def test_a_package_without_metadata_has_its_cores_version(monkeypatch):
    def fail(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", fail)
    assert fb.__version__ == fb._core.__version__


def test_everything_public_is_documented_and_typed():
    assert (Path(fb.__file__).parent / "py.typed").exists()
    for name in fb.__all__:
        thing = getattr(fb, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for attribute, member in vars(thing).items():
                if not attribute.startswith("_") and (callable(member) or isinstance(member, property)):
                    assert inspect.getdoc(member), f"{name}.{attribute}"


def test_docstrings_have_numpydocs_form(need):
    validate = need("numpydoc.validate").validate
    checks = {"GL08", "SS01", "SS02", "SS04", "SS05", "PR01", "PR02", "RT01", "RT02", "YD01"}
    names = ["femtobarn.open", "femtobarn.iterate", "femtobarn.concatenate"]
    for kind in (HasFields, Readable, fb.NTuple, fb.Field, fb.Report, fb.Plan):
        functions = [name for name, member in vars(kind).items() if inspect.isfunction(member)]
        names += [f"{kind.__module__}.{kind.__name__}.{name}" for name in functions if not name.startswith("_")]
    names += [f"femtobarn.{kind.__name__}" for kind in (fb.Cluster, fb.Plan, fb.Metrics, fb.VerifyReport, fb.Report)]
    found = {
        name: bad for name in names if (bad := [error for error in validate(name)["errors"] if error[0] in checks])
    }
    assert found == {}


def test_names_of_other_places_lead_to_the_functions():
    for name, meant in [("join", "join_columns"), ("hadd", "merge")]:
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{meant}'"):
            getattr(fb, name)


def test_the_guide_lists_every_error() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "errors.md").read_text()
    given = [getattr(fb, name) for name in fb.__all__]
    errors = {one for one in given if isinstance(one, type) and issubclass(one, fb.FemtobarnError)}
    assert len(errors) > 10
    for error in errors - {fb.FemtobarnError}:
        assert f"| `{error.__name__}` |" in guide
