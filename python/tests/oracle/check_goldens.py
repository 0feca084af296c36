"""Checks the golden files against other readings of the same data: `check_goldens.py [--native] [--uproot] [GOLDEN...]`.

--native: ROOT again, through the C++ types (with their dictionaries) instead of the on-disk schema.
--uproot: uproot, as far as it can read. What differs is listed; it is not necessarily the golden that is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTDATA = HERE.parents[2] / "testdata"
INTEGERS = {f"std::{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"char", "std::byte"}


class Schema:
    """The fields of one golden file, by ID, with their children in order."""

    def __init__(self, golden: dict) -> None:
        self.top = {}
        self.children: dict[int, list[dict]] = {}
        for field in golden["schema"]:
            if "parent" in field:
                self.children.setdefault(field["parent"], []).append(field)
            else:
                self.top[field["name"]] = field

    def below(self, field: dict) -> list[dict]:
        return self.children.get(field["id"], [])


def as_float(bits: str) -> float:
    raw = bytes.fromhex(bits[2:])
    return struct.unpack(">f" if len(raw) == 4 else ">d", raw)[0]


def stored(type_name: str, got: int) -> int:
    """Convert an integer of uproot to that of a golden file: uproot treats char as unsigned, and byte as signed."""
    if type_name == "char":
        return got - 256 if got > 127 else got
    return got & 0xFF if type_name == "std::byte" else got


def same_float(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def member(value, position: int, name: str, bases: tuple[str, ...]):
    """Return a member of an uproot record: a dict, or a tuple if the names are numbers.

    uproot puts the members of base classes beside the class's own, prefixed by the base's name if they collide.
    """
    if not isinstance(value, dict):
        return value[position]
    qualified = "::".join((*bases, name))
    return value[qualified if qualified in value else name]


class Comparison:
    """Walk a golden value and uproot's along the schema; raise at the first difference."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def check(self, field: dict, want, got, where: str) -> None:
        role = field["role"]
        if role == "record":
            self.record(field, want, got, where, ())
        elif role == "variant":
            self.variant(field, want, got, where)
        elif role == "streamer":
            raise NotImplementedError("uproot reads streamer fields as objects")
        elif role == "collection":
            self.collection(field, want, got, where)
        else:
            self.plain(field, want, got, where)

    def record(self, field, want, got, where, bases) -> None:
        for position, child in enumerate(self.schema.below(field)):
            name = child["name"]
            one = want[position] if isinstance(want, list) else want[name]
            if name.startswith(":_"):
                self.record(child, one, got, where, (*bases, child["type"]))
            else:
                self.check(child, one, member(got, position, name, bases), f"{where}.{name}")

    def variant(self, field, want, got, where) -> None:
        if want["tag"] == 0:
            if got is not None:
                raise ValueError(f"{where}: valueless, but uproot has {got!r}")
            return
        self.check(self.schema.below(field)[want["tag"] - 1], want["value"], got, where)

    def collection(self, field, want, got, where) -> None:
        item = self.schema.below(field)[0]
        if field["type"].startswith(("std::optional<", "std::unique_ptr<")):
            if field["type"].startswith("std::unique_ptr<"):  # for uproot a list of at most one
                got = got[0] if got else None
            if (want is None) != (got is None):
                raise ValueError(f"{where}: {want!r} or {got!r}")
            if want is not None:
                self.check(item, want, got, where)
            return
        self.list(item, want, got, where)

    def list(self, item, want, got, where) -> None:
        if isinstance(got, bytes):
            got = list(got)
        if len(want) != len(got):
            raise ValueError(f"{where}: length {len(want)} or {len(got)}")
        for i, (one, other) in enumerate(zip(want, got)):
            self.check(item, one, other, f"{where}[{i}]")

    def plain(self, field, want, got, where) -> None:
        below = self.schema.below(field)
        if field.get("repetitions") and below:
            self.list(below[0], want, got, where)
        elif below:  # atomic, enum
            self.check(below[0], want, got, where)
        elif field["type"].startswith("std::bitset<"):
            if [bool(b) for b in got] != want:
                raise ValueError(f"{where}: bits {want} or {got}")
        elif field["type"] in ("float", "double"):
            if not same_float(as_float(want), float(got)):
                raise ValueError(f"{where}: {want} = {as_float(want)!r} or {got!r}")
        elif want != stored(field["type"], got):
            raise ValueError(f"{where}: {want!r} or {got!r}")


def with_uproot(golden_path: Path, golden: dict, problems: list[str]) -> None:
    import uproot

    where = f"{golden_path.parent / golden['file']}"
    ntuple = uproot.open(where)[golden["ntuple"]]
    schema = Schema(golden)
    for name, values in golden["fields"].items():
        try:
            got = ntuple.arrays([name])[name].to_list()
            if len(got) != len(values):
                raise ValueError(f"{len(values)} entries or {len(got)}")
            comparison = Comparison(schema)
            for i, (one, other) in enumerate(zip(values, got)):
                comparison.check(schema.top[name], one, other, f"{name}[{i}]")
        except Exception as error:  # every kind of failure is a finding
            first = str(error).partition("\n")[0]
            problems.append(f"{golden_path.name}: {name} ({schema.top[name]['type']}): {type(error).__name__}: {first}")


def sorted_unordered(schema: Schema, field: dict, value):
    """Sort unordered containers, whose order has no meaning."""
    below = schema.below(field)
    if value is None or not below:
        return value
    if field["role"] == "record":
        if isinstance(value, list):
            return [sorted_unordered(schema, f, v) for f, v in zip(below, value)]
        return {f["name"]: sorted_unordered(schema, f, value[f["name"]]) for f in below}
    if field["role"] == "variant":
        if value["tag"] == 0:
            return value
        return {"tag": value["tag"], "value": sorted_unordered(schema, below[value["tag"] - 1], value["value"])}
    if isinstance(value, list):
        items = [sorted_unordered(schema, below[0], v) for v in value]
        return sorted(items, key=json.dumps) if field["type"].startswith("std::unordered_") else items
    return value


def with_native(golden_path: Path, golden: dict, problems: list[str]) -> None:
    from dump_with_root import dump

    native = json.loads(dump(golden_path.parent / golden["file"], golden["ntuple"], mode="native"))
    schema = Schema(golden)
    for name, values in golden["fields"].items():
        how = native["read_as"][name]
        if how != "native":
            problems.append(f"{golden_path.name}: {name}: {how}")
            continue
        field = schema.top[name]
        mine = [sorted_unordered(schema, field, v) for v in values]
        other = [sorted_unordered(schema, field, v) for v in native["fields"][name]]
        if mine != other:
            first = next(i for i, (a, b) in enumerate(zip(mine, other)) if a != b)
            problems.append(f"{golden_path.name}: {name}[{first}]: {mine[first]} or natively {other[first]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--uproot", action="store_true")
    parser.add_argument("goldens", nargs="*", type=Path)
    args = parser.parse_args()
    goldens = args.goldens or sorted((TESTDATA / "rntuple").glob("*.json"))
    if args.native:
        sys.path.insert(0, str(TESTDATA))
        from make_rntuples import Maker

        Maker(TESTDATA / "rntuple").build_types()
    problems: list[str] = []
    checked = 0
    for path in goldens:
        golden = json.loads(path.read_text())
        if not golden["fields"]:
            continue
        checked += 1
        if args.native and golden["source"] == "ROOT reading":
            with_native(path, golden, problems)
        if args.uproot:
            with_uproot(path, golden, problems)
    for problem in problems:
        print(problem[:500])
    print(f"{checked} goldens, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
