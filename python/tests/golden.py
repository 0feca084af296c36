"""Golden files with what ROOT read; testdata/PROVENANCE.md describes their format."""

import functools
import itertools
import json
from pathlib import Path

import numpy as np

import femtobarn as fb

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "rntuple"
GOLDENS = sorted(path.name for path in FOLDER.glob("*.json"))


@functools.cache
def load(name):
    golden = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return golden, fb.open({FOLDER / (name[: name.index(".root.")] + ".root"): golden["ntuple"]})


def listed(layout):
    """Return the values of a layout, one per entry: records are lists of their members, floats keep their width."""
    if layout.is_union:
        tags, index = layout.tags.data.tolist(), layout.index.data.tolist()
        contents = [listed(content) for content in layout.contents]
        return [{"tag": t, "value": contents[t][i] if t else None} for t, i in zip(tags, index, strict=True)]
    if layout.is_option:
        layout = layout.to_IndexedOptionArray64()
        values = listed(layout.content)
        return [None if i < 0 else values[i] for i in layout.index.data.tolist()]
    if layout.is_unknown:
        return []
    if layout.is_numpy:
        array = np.asarray(layout.data)
        return list(array) if array.dtype.kind == "f" else array.tolist()
    if layout.is_record:
        columns = [listed(content)[: layout.length] for content in layout.contents]
        return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * layout.length
    if layout.is_regular:
        values = listed(layout.content)
        return [values[i * layout.size : (i + 1) * layout.size] for i in range(layout.length)]
    bounds = list(itertools.pairwise(layout.offsets.data.tolist()))
    if layout.parameter("__array__") == "string":
        data = np.asarray(layout.content.data).tobytes()
        return [text(data[a:b]) for a, b in bounds]
    values = listed(layout.content)
    return [values[a:b] for a, b in bounds]


def text(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": list(data)}


# A golden null where ours is a list: it does not say at which level of nested pointers nothing is.
NOTHING = object()


class Shape:
    """Convert golden values to the shape of `listed`."""

    def __init__(self, golden):
        self.fields = {field["id"]: field for field in golden["schema"]}
        self.children = {}
        for field in golden["schema"]:
            self.children.setdefault(field.get("parent"), []).append(field)

    def top(self, name):
        return next(field for field in self.children[None] if field["name"] == name)

    def of(self, value, field):
        children = self.children.get(field["id"], [])
        if field["role"] == "record":
            return self.record(value, field)
        if field["role"] == "variant":
            alternative = children[value["tag"] - 1] if value["tag"] else None
            return {"tag": value["tag"], "value": self.of(value["value"], alternative) if alternative else None}
        if field["role"] == "collection" and field["type"].startswith("std::optional"):
            if value is None:
                return {"tag": 0, "value": None} if children[0]["role"] == "variant" else None
            return self.of(value, children[0])
        if field["role"] == "collection" and field["type"].startswith("std::unique_ptr"):
            return NOTHING if value is None else [self.of(value, children[0])]  # as in uproot: zero or one item
        if field["role"] == "collection" or (field.get("repetitions") and children):
            return [self.of(item, children[0]) for item in value]
        return self.of(value, children[0]) if children else value

    def record(self, value, field):
        """Return the record's own members, then those of its bases from last to first, in uproot's order."""
        members, bases = [], [(field, value)]
        while bases:
            owner, values = bases.pop()
            for i, child in enumerate(self.children.get(owner["id"], [])):
                member = values[i] if isinstance(values, list) else values[child["name"]]
                if child["name"].startswith(":_"):
                    bases.append((child, member))
                else:
                    members.append(self.of(member, child))
        return members


def equal(ours, golden):
    """Return whether values agree: floats bit by bit, or rounded if we return the narrower type of the column."""
    if golden is NOTHING:
        return ours in ([], [[]])
    if isinstance(ours, np.floating):
        width = 4 if len(golden) == 10 else 8
        expected = np.array(int(golden, 16), f"u{width}").view(f"f{width}")
        if ours.itemsize == width:
            return ours.tobytes() == expected.tobytes()
        with np.errstate(over="ignore"):
            return np.array_equal(expected.astype(ours.dtype), ours, equal_nan=True)
    if isinstance(golden, list):
        return isinstance(ours, list) and len(ours) == len(golden) and all(map(equal, ours, golden))
    if isinstance(golden, dict) and "tag" in golden:
        return ours["tag"] == golden["tag"] and equal(ours["value"], golden["value"])
    return ours == golden


# The bytes of pages that are too large for a golden file, by the formula that it has instead
FORMULAS = {
    "((i >> 16) ^ (i if i % 1000 == 999 else 0)) & 255": lambda i: ((i >> 16) ^ np.where(i % 1000 == 999, i, 0)) & 255,
    "7": lambda i: np.full_like(i, 7),
}


def computed(golden):
    """Return arrays of bytes by field, one per entry, for a golden file with formulas."""
    return {
        field: [FORMULAS[entry["byte i"]](np.arange(entry["length"])).astype("u1") for entry in entries]
        for field, entries in golden.get("formula", {}).items()
    }


def assert_fields_are_golden(golden, nt, start=None, stop=None, only=None):
    """Check that every field is in the golden file and has its values; `only`: the names of the fields to check."""
    wanted = [field["name"] for field in golden["schema"] if "parent" not in field]
    if only is not None:
        wanted = [name for name in wanted if name in only]
    shape = Shape(golden)
    formulas = computed(golden)
    assert sorted([*golden["fields"], *formulas]) == sorted(wanted), "the golden lacks fields"
    arrays = nt.arrays(wanted, entry_start=start, entry_stop=stop) if wanted else nt.arrays()
    assert sorted(arrays.fields) == sorted(wanted), "fields are missing"
    compared = 0
    for field, values in golden["fields"].items():
        assert isinstance(values, list), f"ROOT could not read {field}: {values}"
        expected = [shape.of(value, shape.top(field)) for value in values[slice(start, stop)]]
        ours = listed(arrays[field].layout)
        assert len(ours) == len(expected), field
        for i, (left, right) in enumerate(zip(ours, expected, strict=True)):
            assert equal(left, right), f"{field}, entry {i}: {left} and {right}"
        compared += 1
    for field, values in formulas.items():
        expected = values[slice(start, stop)]
        assert len(arrays[field]) == len(expected), field
        for i, right in enumerate(expected):
            assert np.array_equal(np.asarray(arrays[field][i]), right), f"{field}, entry {i}"
        compared += 1
    assert compared == len(wanted)
