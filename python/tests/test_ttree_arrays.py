"""Fixed-size arrays of variable-size types, counted pointers, TArrays, matrices: in objects, vectors and maps.

The expected values are those that `testdata/make_ttrees.py` fills in.
"""

import pytest

import femtobarn as fb

SPLITS = [0, 1, 99]


def arrays(e):
    def text(k):
        return f"s{e}" + "x" * k

    inner = [{"a": 10 * e + k, "v": [e / 2] * (k + 1)} for k in range(2)]
    return {
        "colors": [5 if e % 2 else -3] * (e % 3),
        "by": [[(e, [5, -3][k])] for k in range(2)],
        "av": [[10 * e + k] * (e % 2 + k) for k in range(2)],
        "n": e,
        "s": [text(k) for k in range(4)],
        "ts": [text(k + 8) for k in range(3)],
        "v": [[10 * e + k] * (e % 3 + k) for k in range(2)],
        "in": inner,
        "m": [[(e, k)] for k in range(2)],
        "grid": [[text(4), text(5)], [text(6), text(7)]],
        "as": [text(k + 11) for k in range(2)],
        "vi": [[inner[k]] * (e % 2 + k) for k in range(2)],
        "af": [e + 0.5] * (e % 3),
        "ai": [[e] * (k + 1) for k in range(2)],
    }


def counted(e):
    return {"m": e % 3, "p": [10 * e + k for k in range(e % 3)], "k": e % 2, "q": [e / 4] * (e % 2)}


def matrices(e):
    n = e % 3 + 1
    column = [e + i / 2 for i in range(n)]
    full = [100 * e + 10 * min(i, j) + max(i, j) for i in range(3) for j in range(3)]
    return {
        "d": (2, 3, [100 * e + 10 * i + j for i in range(2) for j in range(3)]),
        "f": (n, 1, column),
        "s": (3, 3, full),
        "v": (n, None, column),
        "a": [(1, 1, [e]), (2, 2, [e, e + 1, e + 1, e + 11])],
    }


def matrix(record):
    if isinstance(record, list):
        return [matrix(item) for item in record]
    if "fElements" in record:
        return record["fNrows"], record.get("fNcols"), record["fElements"]
    return {name: matrix(item) for name, item in record.items()}


def of_branch(tree, branch, split):
    """Return the records of a branch; if it is split, put together from the branches of its members."""
    if split == 0:
        return tree[branch].array().to_list()
    keys = [key for key in tree.keys(recursive=False) if key.startswith(f"{branch.rstrip('.')}.")]
    members = {key.split("[")[0].rsplit(".", 1)[1]: tree[key].array().to_list() for key in keys}
    if "Counter" in members:  # a base is a branch of its own where its members are not
        members = {"m": [item["m"] for item in members.pop("Counter")], **members}
    entries = zip(*members.values(), strict=True)
    if branch.endswith("."):
        return [dict(zip(members, entry, strict=True)) for entry in entries]
    return [[dict(zip(members, item, strict=True)) for item in zip(*entry, strict=True)] for entry in entries]


@pytest.fixture(params=SPLITS)
def split(request):
    return request.param


@pytest.fixture
def tree(testdata, split):
    return fb.open(f"{testdata}/ttree/arrays_split{split}.root:arrays")


def test_nothing_is_left_out(tree):
    assert tree.num_entries == 6
    assert not tree.skipped


def test_arrays_of_texts_and_containers(tree, split):
    assert of_branch(tree, "own.", split) == [arrays(e) for e in range(6)]
    assert of_branch(tree, "items", split) == [[arrays(e + k) for k in range(e % 3)] for e in range(6)]
    assert tree["map"].array().to_list() == [[(e + k, arrays(e + k)) for k in range(e % 3)] for e in range(6)]


def test_pointers_with_a_counter_also_in_a_base(tree, split):
    assert of_branch(tree, "counted.", split) == [counted(e) for e in range(6)]
    expected = [[counted(e + k) for k in range(e % 4)] for e in range(6)]
    assert of_branch(tree, "counts", split) == expected
    # a piece begins anywhere; if the collection is split, the lengths are in another branch
    key, part = ("counts", "p") if split == 0 else ("counts.p", None)
    pieces = [piece[key].to_list() for piece in tree.iterate([key], step_size=2, entry_start=1)]
    found = [entry for piece in pieces for entry in piece]
    assert [[item[part] if part else item for item in entry] for entry in found] == [
        [item["p"] for item in entry] for entry in expected[1:]
    ]


def test_matrices_have_all_elements(tree, split):
    assert matrix(of_branch(tree, "matrices.", split)) == [matrices(e) for e in range(6)]
    assert matrix(of_branch(tree, "more", split)) == [[matrices(e + k) for k in range(e % 3)] for e in range(6)]


def test_all_of_it_is_converted(testdata, split, tmp_path):
    report = fb.convert(f"{testdata}/ttree/arrays_split{split}.root", tmp_path / "converted.root")
    assert report.entries == 6
    converted = fb.open(tmp_path / "converted.root")
    assert matrix(converted["matrices"].array().to_list()) == [matrices(e) for e in range(6)]
    found = converted["own"].array().to_list()
    assert [entry["s"] for entry in found] == [arrays(e)["s"] for e in range(6)]
    assert [entry["vi"] for entry in found] == [arrays(e)["vi"] for e in range(6)]
