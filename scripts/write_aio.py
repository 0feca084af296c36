"""Write the methods of `femtobarn.aio`'s classes that follow from those of `femtobarn`'s classes.

    write_aio.py [--check]

A class in `python/femtobarn/_aio` with a line `# twins of MODULE.CLASS` gets, below the line, a twin for each public
method and property of that class; those above the line are written by hand. What a twin does follows from the method
(`femtobarn._store.twins`), its arguments and its result. With --check, nothing is written, and the exit code is 1 if a
file would change.
"""

import argparse
import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "python/femtobarn/_aio"
MARK = re.compile(r"    # twins of _(\w+)\.(\w+)")
LEFT_OUT = {"DataStore": {"aio"}, "Ptr": {"from_record"}}  # these make the objects of twins
NOT_RETURNED = {"Ptr"}  # methods return references without a twin: they are values, which can be stored


@dataclass
class Twin:
    """A class for asyncio, and where its methods are written."""

    of: type
    source: str  # as `_containers.Run`
    by_hand: set[str]
    first: int
    end: int


def twins(lines: list[str]) -> list[Twin]:
    """Return the classes of a module that have a mark."""
    found = []
    for at, line in enumerate(lines):
        mark = MARK.fullmatch(line)
        if mark is None:
            continue
        begins = max(n for n in range(at) if lines[n].startswith("class "))
        ends = next((n for n in range(at, len(lines)) if re.match(r"\S", lines[n])), len(lines))
        by_hand = {name for one in lines[begins:at] for name in re.findall(r"^    (?:async )?def (\w+)", one)}
        of = getattr(importlib.import_module(f"femtobarn._store.{mark[1]}"), mark[2])
        found.append(Twin(of, f"_{mark[1]}.{mark[2]}", by_hand, at + 1, ends))
    return found


class Writer:
    """Writes the methods of twins."""

    def __init__(self, of_all: set[type]) -> None:
        self._of_all = of_all
        self._names = {of.__name__ for of in of_all}

    def methods(self, twin: Twin, here: set[str]) -> list[str]:
        """Return the source of the twins of a class's members; `here` are the classes of the same module."""
        above = [base for base in twin.of.__mro__[1:] if base in self._of_all]
        members: dict[str, Any] = {}
        for kind in reversed(twin.of.__mro__):
            if not any(issubclass(base, kind) for base in above):
                members |= vars(kind)
        left_out = twin.by_hand | LEFT_OUT.get(twin.of.__name__, set())
        public = {name: one for name, one in members.items() if not name.startswith("_") and name not in left_out}
        written = []
        for name, member in public.items():
            inherited = next((getattr(base, name) for base in above if hasattr(base, name)), None)
            if inherited is None or parameters(inherited) != parameters(member):
                written.append(self._method(f"{twin.source}.{name}", name, member, here))
        return written

    def _method(self, source: str, name: str, member: Any, here: set[str]) -> str:
        function = member.fget if isinstance(member, property) else member
        if not inspect.isfunction(function):
            sys.exit(f"{source}: write the twin of a {type(member).__name__} by hand")
        signature = inspect.signature(function)
        result = str(signature.return_annotation)
        named = self._named(result) - NOT_RETURNED
        if named and (len(named) > 1 or not named <= here or not re.fullmatch(r"(Iterator\[)?\w+\]?", result)):
            sys.exit(f"{source}: its result {result} has no twin in this module: write its twin by hand")
        kind = next(iter(named), None)
        way = getattr(function, "twin", "writes")
        if isinstance(member, property):
            own = f"{kind}(self.sync.{name})" if kind else f"self.sync.{name}"
            told = (inspect.getdoc(member) or "").partition("\n")[0]
            return f'\n@property\ndef {name}(self) -> {result}:\n    """{told}"""\n    return {own}\n'
        given = list(signature.parameters.values())[1:]
        if way in ("at once", "paged"):
            return f"{name} = {'begins' if way == 'at once' else 'pages'}({source}, lambda one: {kind}(one))"
        if not kind and not any(self._named(one.annotation) for one in given):
            return f"{name} = {way}({source})"
        call = ", ".join([f"self.sync.{name}", *(self._passed(one) for one in given)])
        call = f"await self._threads.{way.removesuffix('s')}({call})"
        body = f"return {kind}({call})" if kind else call if result == "None" else f"return {call}"
        arguments = ", ".join(["self", *declared(given)])
        return f"\n@like({source})\nasync def {name}({arguments}) -> {result}:\n    {body}\n"

    def _named(self, annotation: str) -> set[str]:
        """Return the classes in an annotation that have twins."""
        return self._names & set(re.findall(r"\w+", annotation))

    def _passed(self, parameter: inspect.Parameter) -> str:
        value = f"own({parameter.name})" if self._named(parameter.annotation) else parameter.name
        return f"{parameter.name}={value}" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else value


def parameters(member: Any) -> list[str]:
    """Return the names of a method's parameters; none of a property."""
    return [] if isinstance(member, property) else list(inspect.signature(member).parameters)


def declared(given: list[inspect.Parameter]) -> list[str]:
    """Return parameters as they are declared."""
    text: list[str] = []
    for one in given:
        if one.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in text:
            text.append("*")
        default = "" if one.default is inspect.Parameter.empty else f" = {one.default!r}"
        text.append(f"{one.name}: {one.annotation}{default}")
    return text


def main() -> None:
    """Write the files, or compare them with what would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    is_check = parser.parse_args().check
    texts = {path: path.read_text() for path in sorted(FOLDER.glob("*.py"))}
    found = {path: twins(text.splitlines()) for path, text in texts.items()}
    writer = Writer({twin.of for some in found.values() for twin in some})
    changed = []
    for path, text in texts.items():
        lines = text.splitlines()
        here = set(re.findall(r"^class (\w+)", text, re.MULTILINE))
        here.update(re.findall(r"\w+", text.partition("if TYPE_CHECKING:")[0]))  # imports
        for twin in reversed(found[path]):
            written = "\n".join(writer.methods(twin, here)).splitlines()
            lines[twin.first : twin.end] = ["", *(f"    {line}" if line else "" for line in written), "", ""]
        command = ["ruff", "format", "--stdin-filename", str(path), "-"]
        new = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
        if new != text:
            changed.append(path.name)
            if not is_check:
                path.write_text(new)
    if changed:
        sys.stdout.write(f"{', '.join(changed)}: {'call scripts/write_aio.py' if is_check else 'written'}\n")
    sys.exit(bool(changed) and is_check)


if __name__ == "__main__":
    main()
