"""Compare the values of TTrees that femtobarn and uproot read, branch by branch.

    compare_with_uproot.py [--json FILE] [--verbose] FILE_OR_DIRECTORY...

Every branch with data of every TTree is compared: its Awkward type and all of its values; in a directory, all *.root
in it. Each file is read in its own process, so that a crash or a timeout affects only one file.

The exit code is 0 only if femtobarn and uproot agree on every branch that uproot reads.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

TIME_LIMIT_SECONDS = 1200  # uproot reads some vectors of maps with one Python object per item
TREES = ("TTree", "TNtuple", "TNtupleD")
EQUAL, NAMED, DIFFERENT = "equal", "equal but for names", "different"
UNREAD, NEITHER, MORE = "not read", "read by neither", "read by femtobarn only"
MEANINGS = {
    EQUAL: "types and values are equal",
    NAMED: "types differ in names of classes or in parameters, values are equal",
    DIFFERENT: "types or values differ",
    UNREAD: "uproot reads it, femtobarn does not",
    NEITHER: "uproot does not read it, femtobarn neither",
    MORE: "femtobarn reads it, uproot does not",
}


def comparable(type_: object) -> str:
    """Return an Awkward type as a string, without class names and parameters."""
    text = re.sub(r"\b[A-Za-z_]\w*\[(?=[\w\"@.]+: )", "struct[{", str(type_))
    text = re.sub(r", parameters=\{[^{}]*\}", "", text)
    return re.sub(r"struct\[|[{}()\[\]]|tuple", "", text)


def short(error: BaseException) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def compare_branch(branch: Any, n_entries: int, nt: Any, path: str, skipped: dict[str, str]) -> tuple[str, str]:
    """Read one branch with both, and return the outcome."""
    import awkward as ak

    theirs: Any = None
    problem: str | None = None
    try:
        theirs = branch.array()
    except BaseException as error:  # any error of uproot
        problem = short(error)
    if theirs is not None and len(theirs) != n_entries:
        theirs, problem = None, f"{len(theirs)} entries of {n_entries}"
    reason = skipped.get(branch.name) or skipped.get(path)
    ours = None
    if reason is None:
        try:
            ours = nt[f"/{path}"].array()
        except Exception as error:
            reason = short(error)
    if theirs is None:
        return (NEITHER, f"{reason} | {problem}") if ours is None else (MORE, problem or "")
    if ours is None:
        return UNREAD, str(reason)
    if comparable(ours.type) != comparable(theirs.type):
        return DIFFERENT, f"{ours.type} here, {theirs.type} there"
    same = ak.array_equal(ours, theirs, equal_nan=True, check_parameters=False)
    # uproot computes a Float16_t with a range in single precision, ROOT in double precision
    if not same and "Float16_t" in branch.typename:
        same = ak.almost_equal(ours, theirs, rtol=1e-6, atol=1e-6, check_parameters=False)
    if not same:
        return DIFFERENT, "other values"
    return (EQUAL, "") if str(ours.type) == str(theirs.type) else (NAMED, f"{ours.type} here, {theirs.type} there")


def compare_file(path: str) -> list[tuple[str, str, str, str]]:
    """Return tree, branch, outcome and details for every branch with data."""
    import femtobarn as fb

    uproot = importlib.import_module("uproot")  # it has no type annotations

    warnings.simplefilter("ignore")
    rows: list[tuple[str, str, str, str]] = []
    with uproot.open(path) as file:
        names = [name for name, kind in file.classnames(cycle=True).items() if kind in TREES]
        for name in names:
            try:
                tree = file[name]
            except Exception as error:
                rows.append((name, "", NEITHER, short(error)))
                continue
            leaves = []
            for key, branch in tree.iteritems(recursive=True, full_paths=True):
                if type(branch.interpretation).__name__ != "AsGrouped":
                    leaves.append((key, branch))
            try:
                nt = fb.open({path: name})
            except Exception as error:
                rows += [(name, key, UNREAD, short(error)) for key, _ in leaves]
                continue
            skipped = dict(nt.skipped)
            seen: Counter[str] = Counter()
            for key, branch in leaves:
                seen[key] += 1
                own = key if seen[key] == 1 else f"{key}#{seen[key]}"
                rows.append((name, own, *compare_branch(branch, tree.num_entries, nt, own, skipped)))
            # if several branches have a name, the first gets it
            expected = [branch.name for _, branch in leaves if branch.name not in skipped]
            found = [field.name for field in nt.fields]
            if len(set(expected)) == len(expected) and found != expected:
                rows.append((name, "(names)", DIFFERENT, f"{found[:5]}... here, {expected[:5]}... there"))
    return rows


def in_process(path: Path) -> tuple[list[list[str]], str]:
    """Compare a file in a separate process."""
    command = [sys.executable, __file__, "--one", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [], f"took more than {TIME_LIMIT_SECONDS} seconds"
    if done.returncode:
        return [], (done.stderr.strip().splitlines() or ["ended"])[-1][:300]
    return json.loads(done.stdout.splitlines()[-1]), ""


def files_of(arguments: list[Path]) -> list[Path]:
    """Return the given files, and the files in the given directories."""
    return [file for path in arguments for file in (sorted(path.glob("*.root")) if path.is_dir() else [path])]


def main() -> int:
    """Compare the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="files, or directories with files")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file, too")
    parser.add_argument("--verbose", action="store_true", help="name the branches that neither reads, too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(compare_file(str(arguments.files[0]))))
        return 0
    outcomes: Counter[str] = Counter()
    everything: dict[str, Any] = {}
    for path in files_of(arguments.files):
        rows, problem = in_process(path)
        everything[str(path)] = problem or rows
        own = Counter(row[2] for row in rows)
        outcomes.update(own)
        if not rows and not problem:
            continue
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(own.items()))
        print(f"{path.name}: {problem or counts}", flush=True)
        for tree, branch, outcome, details in rows:
            if outcome in (NAMED, DIFFERENT, UNREAD) or (arguments.verbose and outcome == NEITHER):
                print(f"    {tree} {branch}: {outcome}: {details}", flush=True)
    for outcome, number in outcomes.most_common():
        print(f"{number:7} {outcome}: {MEANINGS[outcome]}")
    read = sum(outcomes[outcome] for outcome in (EQUAL, NAMED, DIFFERENT, UNREAD))
    print(f"of {read} branches that uproot reads, {100 * outcomes[EQUAL] / max(read, 1):.2f} % are read equal")
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))
    return 0 if read == outcomes[EQUAL] else 1


if __name__ == "__main__":
    sys.exit(main())
