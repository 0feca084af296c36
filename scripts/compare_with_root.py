"""Compare the values that femtobarn and ROOT read, field by field.

    compare_with_root.py [--macros CHECKOUT]... [--json FILE] [FILE_OR_DIRECTORY]...

Every RNTuple is compared, including older cycles and subdirectories of a file; in a directory, all *.root below it.
A difference names femtobarn's value first, then ROOT's. Values become Python objects: not suitable for terabytes.

--macros CHECKOUT makes the files first: every macro write*.C or gen*.C below the directory is run in a copy of it, with
the path of the output file as its argument. Dictionaries are built as these two repositories expect: by the Makefile
beside the macro, with DICT_DIR set (github.com/root-project/rntuple-validation), or by ACLiC from the classes.h beside
it (github.com/ariostas/root-io-spec). Macros are programs: run only macros that you trust.

FEMTOBARN_ROOT_PYTHON is the interpreter that has ROOT, if it is not the current one.

The exit code is 0 only if every macro wrote a file, ROOT read every field, and femtobarn read the same.
"""

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import femtobarn as fb

TESTS = Path(__file__).resolve().parents[1] / "python" / "tests"
sys.path.insert(0, str(TESTS))  # the comparison is shared with the tests
assert_fields_are_golden = importlib.import_module("golden").assert_fields_are_golden

TIME_LIMIT_SECONDS = 600  # for one macro, and for reading one file with ROOT
PYTHON = os.environ.get("FEMTOBARN_ROOT_PYTHON", sys.executable)
ROOT = [PYTHON, "-W", "ignore", "-c"]
# ROOT's Python cannot use the modules of another Python
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or sys.executable == PYTHON}

# Arguments: the macro, the output file, the directory for dictionaries
WRITE = """
import array, os, pathlib, subprocess, sys
import ROOT
macro, target, build = map(pathlib.Path, sys.argv[1:])
ROOT.gROOT.SetBatch(True)
if (macro.parent / "Makefile").exists():
    environment = {**os.environ, "DICT_DIR": f"{build}/", "PATH": f"{ROOT.TROOT.GetBinDir()}:{os.environ['PATH']}"}
    # root-config in ROOT's wheel names folders that do not exist
    environment |= {"CPLUS_INCLUDE_PATH": ROOT.TROOT.GetIncludeDir(), "LIBRARY_PATH": ROOT.TROOT.GetLibDir()}
    make = ["make", "--silent", "--no-print-directory", "-C", macro.parent]
    if subprocess.run(make, env={key: str(value) for key, value in environment.items()}).returncode:
        sys.exit("the Makefile beside the macro failed")
ROOT.gSystem.AddDynamicPath(str(build))
if (macro.parent / "classes.h").exists():
    ROOT.gSystem.SetBuildDir(str(build), True)
    if not ROOT.gSystem.CompileMacro(str(macro.parent / "classes.h"), "kf"):
        sys.exit("classes.h beside the macro does not compile")
error = array.array("i", [0])
ROOT.gROOT.Macro(f'{macro}("{target}")', error)
sys.stdout.flush()
os._exit(error[0] != 0)
"""

# Arguments: the directory of the oracle, the directory for the dumps, seconds per file, then the files. It reports when
# it starts, and for each file its ntuples: name, number and error. The dump of number n is the file n.json.
DUMP = """
import json, os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
from dump_with_root import dump, load_root
ROOT = load_root()
signal.signal(signal.SIGALRM, signal.SIG_DFL)
def tell(what):
    print("\\n\\x1e" + json.dumps(what), flush=True)
def message(error):  # without the signature of the C++ function that threw, and without the stack
    return str(error).rpartition("=>\\n")[2].partition("\\nAt:")[0]
def ntuples(folder, above=""):
    for key in folder.GetListOfKeys():
        name, kind = above + str(key.GetName()), str(key.GetClassName())
        if kind.endswith("RNTuple"):
            yield f"{name};{key.GetCycle()}"
        elif kind.startswith("TDirectory"):
            yield from ntuples(key.ReadObj(), name + "/")
count = 0
tell("ready")
for path in sys.argv[4:]:
    signal.alarm(int(sys.argv[3]))
    found = []
    try:
        file = ROOT.TFile.Open(path)
        for name in ntuples(file):
            try:
                pathlib.Path(sys.argv[2], f"{count}.json").write_text(dump(path, name), encoding="utf-8")
                found.append([name, count, None])
            except Exception as error:
                found.append([name, None, message(error)])
            count += 1
        file.Close()
    except Exception as error:
        found.append(["", None, message(error)])
    tell(found)
os._exit(0)
"""


@dataclass
class Comparison:
    """One ntuple. By field name: the differences from ROOT, and the fields that ROOT cannot read."""

    file: str
    ntuple: str
    n_fields: int = 0
    n_equal: int = 0
    different: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        verdict = "DIFFERENT" if self.different else "NOT READ" if self.unread else "equal"
        lines = [f"{verdict:9} {self.n_equal:4} / {self.n_fields:<4} {self.file}" + (self.ntuple and f":{self.ntuple}")]
        lines += [f"          {name}: {reason}" for name, reason in self.different.items()]
        lines += [f"          {name}: ROOT cannot read it: {reason}" for name, reason in self.unread.items()]
        return "\n".join(lines)


def in_short(error: object) -> str:
    """Return an exception or a message as one line of at most 400 characters."""
    text = " ".join(str(error).split())
    if isinstance(error, Exception) and not isinstance(error, AssertionError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= 400 else f"{text[:400]}…"


def difference(golden: dict[str, Any], nt: fb.NTuple, names: list[str]) -> str | None:
    """Read these fields together, and return the difference from ROOT, or None."""
    try:
        part = {**golden, "fields": {name: golden["fields"][name] for name in names}}
        assert_fields_are_golden(part, nt, only=names)
    except Exception as error:  # any error is a difference
        return in_short(error)
    return None


def compare(file: Path, label: str, ntuple: str, golden: dict[str, Any]) -> Comparison:
    """Compare one ntuple with ROOT's dump of it."""
    fields = golden["fields"]
    result = Comparison(label, ntuple, len(fields))
    result.unread = {name: in_short(golden["read_as"][name]) for name, values in fields.items() if values is None}
    names = [name for name in fields if name not in result.unread]
    try:
        nt = fb.open({file: ntuple})
    except Exception as error:
        result.different["(all)"] = in_short(error)
        return result
    if nt.num_entries != golden["entries"]:
        result.different["(entries)"] = f"{nt.num_entries} and {golden['entries']}"
    if odd := {one.name for one in nt.fields} ^ set(fields):
        result.different["(fields)"] = in_short(f"only in one of the readings: {', '.join(sorted(odd))}")
    together = difference(golden, nt, names) if names or not fields else None
    one_by_one = {} if together is None else {name: difference(golden, nt, [name]) for name in names}
    found = {name: reason for name, reason in one_by_one.items() if reason is not None}
    result.n_equal = len(names) - len(found)
    if together is not None:
        result.different |= found or {"(all together)": together}
    return result


def dumps(files: list[Path], target: Path) -> Iterator[list[tuple[str, dict[str, Any] | None, str]]]:
    """Yield for each file its ntuples as read by ROOT: name, and dump or error.

    One process reads all files. If a file kills it or takes too long, the next process continues after that file.
    """
    while files:
        command = [*ROOT, DUMP, *map(str, [TESTS / "oracle", target, TIME_LIMIT_SECONDS, *files])]
        with (target / "stderr").open("w+", errors="replace") as log:
            process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
            assert process.stdout is not None
            told = (json.loads(line[1:]) for line in process.stdout if line.startswith("\x1e"))
            ready = next(told, None)
            for ntuples in told:
                files, found = files[1:], []
                for name, number, reason in ntuples:
                    dump = target / f"{number}.json"
                    found.append((name, json.loads(dump.read_text("utf-8")) if number is not None else None, reason))
                    dump.unlink(missing_ok=True)
                yield found
            code = process.wait()
            log.seek(0)
            if not ready:
                raise SystemExit(f"ROOT does not start in {PYTHON} (see FEMTOBARN_ROOT_PYTHON):\n{log.read()}")
            if files:
                files = files[1:]
                late = f"it took more than {TIME_LIMIT_SECONDS} s" if code == -signal.SIGALRM else ""
                yield [("", None, late or f"its process ended with {code}: {log.read()}")]


def written(checkout: Path, copy: Path) -> tuple[list[Path], dict[str, str]]:
    """Run the macros in a copy of the checkout; return all files, and the macros that failed, with reasons."""
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "*.root"))
    (copy / "dictionaries").mkdir(exist_ok=True)
    failed = {}
    for macro in sorted([*copy.rglob("write*.C"), *copy.rglob("gen*.C")]):
        target, name = macro.with_suffix(".root"), str(macro.relative_to(copy))
        command = [*ROOT, WRITE, *map(str, [macro, target, copy / "dictionaries"])]
        with (copy / "log").open("w+", errors="replace") as log:
            try:
                where: dict[str, Any] = {"cwd": macro.parent, "env": ENVIRONMENT, "stdout": log, "stderr": log}
                code = subprocess.run(command, **where, timeout=TIME_LIMIT_SECONDS, check=False).returncode
                log.seek(0)
                if code or not target.exists():
                    failed[name] = in_short(f"exit code {code}: {log.read()}")
            except subprocess.TimeoutExpired:
                failed[name] = f"took more than {TIME_LIMIT_SECONDS} s"
    return sorted(copy.rglob("*.root")), failed


def run(given: list[Path], checkouts: list[Path], folder: Path) -> tuple[list[Comparison], dict[str, str]]:
    """Write files with the macros, compare everything, print and return it with the macros that failed."""
    labels = {f: str(f) for path in given for f in (sorted(path.rglob("*.root")) if path.is_dir() else [path])}
    failed: dict[str, str] = {}
    for i, checkout in enumerate(checkouts):
        copy = folder / str(i) / checkout.resolve().name
        made, not_made = written(checkout, copy)
        labels |= {file: str(file.relative_to(copy.parent)) for file in made}
        failed |= {f"{copy.name}/{name}": reason for name, reason in not_made.items()}
    for name, reason in failed.items():
        print(f"FAILED    {name}: {reason}")
    results = []
    for (file, label), ntuples in zip(labels.items(), dumps(list(labels), folder), strict=True):
        if not ntuples:
            print(f"no RNTuple            {label}")
        for name, golden, reason in ntuples:
            if golden is None:
                results.append(Comparison(label, name, unread={"(all)": in_short(reason)}))
            else:
                results.append(compare(file, label, name, golden))
            print(results[-1], flush=True)
    return results, failed


def main() -> int:
    """Compare, print the totals, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--macros", action="append", default=[], type=Path, metavar="CHECKOUT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    arguments = parser.parse_args()
    if not __debug__:
        parser.error("with -O or PYTHONOPTIMIZE nothing is compared")
    with tempfile.TemporaryDirectory() as folder:
        results, failed = run(arguments.paths, arguments.macros, Path(folder))
    n_equal, n_fields = sum(one.n_equal for one in results), sum(one.n_fields for one in results)
    n_different, n_unread = sum(bool(one.different) for one in results), sum(bool(one.unread) for one in results)
    print(
        f"{len({one.file for one in results})} files, {len(results)} ntuples, {n_equal} of {n_fields} fields equal; "
        f"{n_different} ntuples different, {n_unread} not read by ROOT, {len(failed)} macros failed"
    )
    if arguments.json:
        content = {"ntuples": [asdict(one) for one in results], "failed_macros": failed}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return int(not results or bool(n_different or n_unread or failed))


if __name__ == "__main__":
    sys.exit(main())
