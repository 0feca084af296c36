"""Run the sessions in the documentation, and compare their output with the pages.

Two kinds of fenced blocks are run: `pycon` (a Python session; one namespace per page) and `console` (commands
after `$ `, run by a shell). `...` in the expected output matches anything. All run in the root directory of the
project, which has `testdata/dimuon.root`. Put commands that must not run in `sh` blocks. Pages about DAOS use the
stand-in of the tests, unless FEMTOBARN_LIBDAOS is set.

    run_docs.py [--update] PAGE.md ...      --update writes the actual output into the pages
"""

import argparse
import ast
import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import daos_standin

ROOT = Path(__file__).resolve().parent.parent
# Times differ between runs. They are shown as "...".
MEASURED = re.compile(r"\d+(\.\d+)? (ns|µs|ms|s)\b")
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>pycon|console)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)


class Step(NamedTuple):
    """One input, and the expected output."""

    typed: str  # as on the page, with prompts
    code: str
    expected: str


def python_steps(body: str) -> list[Step]:
    """Return the examples of a Python session."""
    steps = []
    for example in doctest.DocTestParser().get_examples(body):
        lines = example.source.rstrip("\n").split("\n")
        typed = "\n".join((">>> " if i == 0 else "... ") + line for i, line in enumerate(lines))
        expected = example.want if example.exc_msg is None else trace(example.exc_msg)
        steps.append(Step(re.sub(r" +$", "", typed, flags=re.M), example.source, expected))
    return steps


def console_steps(body: str) -> list[Step]:
    """Return the commands of a shell session."""
    steps = []
    for part in re.split(r"^(?=\$ )", body, flags=re.M):
        if part.strip():
            typed, _, expected = part.partition("\n")
            steps.append(Step(typed, typed[2:], expected.strip("\n") + "\n" if expected.strip() else ""))
    return steps


def trace(message: str) -> str:
    """Return an exception as shown on a page: without frames."""
    return f"Traceback (most recent call last):\n  ...\n{message.strip()}\n"


def run_python(code: str, names: dict[str, Any]) -> str:
    """Return the output of an interactive session for the code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            for node in ast.parse(code).body:
                exec(compile(ast.Interactive([node]), "<docs>", "single"), names)
        except Exception as error:
            out.write(trace("".join(traceback.format_exception_only(error))))
    return out.getvalue()


def run_console(code: str) -> str:
    """Return the output of a shell for the command, with errors, and the exit code if it is not 0."""
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-c", code],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def tidy(text: str) -> str:
    """Normalize a string for the comparison: pages have no blank lines in a session and no trailing spaces."""
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n") if line.strip())


def fits(expected: str, found: str) -> bool:
    """Return whether the output matches the page."""
    return doctest.OutputChecker().check_output(tidy(expected), tidy(found), doctest.ELLIPSIS)


class Page:
    """One page of the documentation, with its namespace and its results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.n_passed = 0
        self.trouble: list[str] = []

    def block(self, match: re.Match[str]) -> str:
        """Run one fenced block; return it with the actual output."""
        indent, kind = match["indent"], match["kind"]
        body = re.sub(f"^{indent}", "", match["body"], flags=re.M)
        lines = []
        for step in python_steps(body) if kind == "pycon" else console_steps(body):
            found = run_python(step.code, self.names) if kind == "pycon" else run_console(step.code)
            good = fits(step.expected, found)
            if good:
                self.n_passed += 1
            else:
                self.trouble.append(f"{self.path}: {step.typed}\nexpected:\n{step.expected}found:\n{found}")
            lines.append(step.typed)
            found = MEASURED.sub("...", found if kind == "console" else tidy(found))
            shown = step.expected if good else found
            lines += shown.rstrip("\n").split("\n") if shown.strip() else []
        text = "\n".join(f"{indent}{line}".rstrip() for line in lines)
        return f"{indent}```{kind}\n{text}\n{indent}```"


def main() -> int:
    """Run the given pages, print the totals, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    n_passed = n_failed = 0
    for path in options.pages:
        page = Page(path)
        text = path.read_text()
        if "daos://" in text and "FEMTOBARN_LIBDAOS" not in os.environ:
            daos_standin.use()
        text = FENCE.sub(page.block, text)
        if options.update and page.trouble:
            path.write_text(text)
            print(f"{path}: {len(page.trouble)} outputs written")
        else:
            print("\n".join(page.trouble), end="\n" if page.trouble else "")
        n_passed += page.n_passed
        n_failed += len(page.trouble)
    print(f"{n_passed} passed, {n_failed} failed")
    return int(n_failed > 0 and not options.update)


if __name__ == "__main__":
    sys.exit(main())
