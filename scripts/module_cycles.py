"""Find cycles of modules in crates, from their `use` lines and paths; fail if a cycle has too many modules.

    module_cycles.py [--most 6]

It reads only names: output of macros and glob imports are not seen.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CRATES = Path(__file__).resolve().parent.parent / "crates"
TESTS = {"tests", "conformance", "fuzz", "testing"}
USE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
RE_EXPORT = re.compile(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);")
PATH = re.compile(r"\b((?:crate|super)(?:::[a-z_][a-z0-9_]*)*(?:::[A-Za-z_]+))")

Place = tuple[str, str]  # a module, and a name in it


def modules(crate: Path) -> dict[str, str]:
    """Return the source of each module, without tests and comments, by its path in the crate."""
    found = {}
    for file in (crate / "src").rglob("*.rs"):
        parts = file.relative_to(crate / "src").with_suffix("").parts
        if parts[-1] in ("mod", "lib", "main"):
            parts = parts[:-1]
        if not TESTS.intersection(parts):
            text = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
            found["::".join(parts)] = re.sub(r"//[^\n]*", "", text)
    return found


def paths(tree: str, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths in a tree of imports, as `a::{b, c::d}`."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        yield (*before, *(part.strip() for part in head.split(" as ")[0].split("::")))
        return
    own = (*before, *(part.strip() for part in head.split("::") if part.strip()))
    depth, item = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if item.strip():
                yield from paths(item, own)
            item = ""
        else:
            item += letter


def graph(crate: Path) -> dict[str, set[str]]:
    """Return the modules that each module uses; a re-exported item counts for the module that defines it."""
    sources = modules(crate)

    def resolved(module: str, path: tuple[str, ...]) -> Place | None:
        at = module.split("::") if module else []
        rest = list(path)
        if rest[0] == "crate":
            at, rest = [], rest[1:]
        elif rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                at = at[:-1] if rest.pop(0) == "super" else at
        elif "::".join([*at, rest[0]]) not in sources:
            return None
        while rest and "::".join([*at, rest[0]]) in sources:
            at.append(rest.pop(0))
        return "::".join(at), rest[0] if rest else ""

    exported: dict[Place, Place] = {}
    for module, text in sources.items():
        for tree in RE_EXPORT.findall(text):
            for path in paths(tree):
                place = resolved(module, path)
                if place is not None and place[1]:
                    exported[module, place[1]] = place
    used: dict[str, set[str]] = {}
    for module, text in sources.items():
        own = RE_EXPORT.sub("", text)
        named = [path for tree in USE.findall(own) for path in paths(tree)]
        named += [tuple(path.split("::")) for path in PATH.findall(USE.sub("", own))]
        used[module] = set()
        for path in named:
            place, seen = resolved(module, path), set()
            while place in exported and place not in seen:
                seen.add(place)
                place = exported[place]
            if place is not None and place[0] != module:
                used[module].add(place[0])
    return used


def cycles(used: dict[str, set[str]]) -> list[list[str]]:
    """Return the largest sets of modules that use each other, directly or not (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in used[module] & used.keys():
            if other not in number:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            at = stack.index(module)
            found.append(stack[at:])
            del stack[at:]

    for module in used:
        if module not in number:
            visit(module)
    return [sorted(one) for one in found if len(one) > 1]


def main() -> None:
    """Print the cycles of all crates; the exit code is 1 if a cycle is too large."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=6, help="maximum number of modules in a cycle")
    most = parser.parse_args().most
    sys.setrecursionlimit(10_000)
    is_bad = False
    for crate in sorted(CRATES.iterdir()):
        found = cycles(graph(crate))
        sizes = sorted(map(len, found), reverse=True)
        print(f"{crate.name}: {len(modules(crate))} modules, cycles of {sizes or 'none'}")
        for cycle in found:
            if len(cycle) > most:
                is_bad = True
                print(f"  a cycle of {len(cycle)}: {', '.join(cycle)}")
    sys.exit(is_bad)


if __name__ == "__main__":
    main()
