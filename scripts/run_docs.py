"""Run what the documentation shows, and compare what comes out with what the page says.

Two kinds of fenced blocks run: `pycon` (a Python session; one namespace a page) and `console` (commands
after `$ `, run by a shell). `...` in the expected output stands for anything. All run in the project's
folder, so that `testdata/dimuon.root` is there. Commands that must not run stand in `sh` blocks.

    run_docs.py [--update] PAGE.md ...      --update writes what really comes out into the pages
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

ROOT = Path(__file__).resolve().parent.parent
# What differs from run to run: times. They are shown as "...".
MEASURED = re.compile(r"\d+(\.\d+)? (ns|µs|ms|s)\b")
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>pycon|console)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)


class Step(NamedTuple):
    """One thing typed, and what the page says comes out."""

    typed: str  # as it stands on the page, prompts included
    code: str
    expected: str


def python_steps(body: str) -> list[Step]:
    """The examples of a Python session."""
    steps = []
    for example in doctest.DocTestParser().get_examples(body):
        lines = example.source.rstrip("\n").split("\n")
        typed = "\n".join((">>> " if i == 0 else "... ") + line for i, line in enumerate(lines))
        expected = example.want if example.exc_msg is None else trace(example.exc_msg)
        steps.append(Step(re.sub(r" +$", "", typed, flags=re.M), example.source, expected))
    return steps


def console_steps(body: str) -> list[Step]:
    """The commands of a shell session."""
    steps = []
    for part in re.split(r"^(?=\$ )", body, flags=re.M):
        if part.strip():
            typed, _, expected = part.partition("\n")
            steps.append(Step(typed, typed[2:], expected.strip("\n") + "\n" if expected.strip() else ""))
    return steps


def trace(message: str) -> str:
    """An exception as a page shows it: without the frames, which nobody reads."""
    return f"Traceback (most recent call last):\n  ...\n{message.strip()}\n"


def run_python(code: str, names: dict[str, Any]) -> str:
    """What an interactive session prints for the code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            for node in ast.parse(code).body:
                exec(compile(ast.Interactive([node]), "<docs>", "single"), names)
        except Exception as error:
            out.write(trace("".join(traceback.format_exception_only(error))))
    return out.getvalue()


def run_console(code: str) -> str:
    """What a shell prints for the command, errors included, and its exit code where it is not 0."""
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
    """The text as it is compared: a page can hold neither blank lines in a session nor trailing blanks."""
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n") if line.strip())


def fits(expected: str, found: str) -> bool:
    """Whether the output is what the page says."""
    return doctest.OutputChecker().check_output(tidy(expected), tidy(found), doctest.ELLIPSIS)


class Page:
    """One page of the documentation, with its namespace and its results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.n_passed = 0
        self.trouble: list[str] = []

    def block(self, match: re.Match[str]) -> str:
        """Run one fenced block; return it as it should stand on the page."""
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
    """Run the pages named, print the totals, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    n_passed = n_failed = 0
    for path in options.pages:
        page = Page(path)
        text = FENCE.sub(page.block, path.read_text())
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
