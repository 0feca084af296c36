"""Any Awkward Array of a supported type is read as it was written, in any batches and with any options."""

import itertools

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

DTYPES = ["bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)), "float16", "float32", "float64"]
CODECS = ["zstd:1", "lz4:1", "zlib:1", "lzma:1", "none"]


def leaves():
    return st.sampled_from(DTYPES).map(lambda dtype: ("number", dtype))


def containers(inner):
    names = st.lists(st.sampled_from(["a", "b", "c", "über", "_x"]), min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.tuples(st.just("list"), inner),
        st.tuples(st.just("regular"), st.integers(1, 3), inner.filter(has_type_name)),
        st.tuples(st.just("option"), inner.filter(has_type_name)),
        st.tuples(st.just("record"), names.flatmap(lambda n: st.fixed_dictionaries(dict.fromkeys(n, inner)))),
        st.tuples(st.just("tuple"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("union"), unions(inner)),
    )


def unions(inner):
    """Return alternatives of kinds that Awkward keeps apart."""
    kinds = st.lists(inner.filter(has_type_name), min_size=2, max_size=3, unique_by=lambda kind: kind[0])
    return kinds.filter(lambda kinds: not {"union", "option"} & {kind[0] for kind in kinds})


def has_type_name(kind):
    """Return whether a type has a C++ name: records without a class have none, nor have types that contain them."""
    if kind[0] == "record":
        return False
    below = kind[-1] if isinstance(kind[-1], list) else [kind[-1]]
    return all(has_type_name(part) for part in below if isinstance(part, tuple))


KINDS = st.recursive(leaves() | st.just(("string",)) | st.just(("bytes",)), containers, max_leaves=5)


def values_of(kind, draw, n):
    """Return a layout of n values."""
    from awkward import contents, index

    if kind[0] == "number":
        dtype = np.dtype(kind[1])
        if dtype.kind == "b":
            values = draw(st.lists(st.booleans(), min_size=n, max_size=n))
        elif dtype.kind == "f":
            width = 8 * dtype.itemsize
            values = draw(st.lists(st.floats(width=width, allow_nan=True), min_size=n, max_size=n))
        else:
            limits = np.iinfo(dtype)
            values = draw(st.lists(st.integers(limits.min, limits.max), min_size=n, max_size=n))
        return contents.NumpyArray(np.array(values, dtype))
    if kind[0] in ("string", "bytes"):
        texts = st.text(max_size=5).map(str.encode) if kind[0] == "string" else st.binary(max_size=5)
        items = draw(st.lists(texts, min_size=n, max_size=n))
        data = np.frombuffer(b"".join(items), np.uint8)
        array, item = ("string", "char") if kind[0] == "string" else ("bytestring", "byte")
        return contents.ListOffsetArray(
            index.Index64(np.cumsum([0, *map(len, items)])),
            contents.NumpyArray(data, parameters={"__array__": item}),
            parameters={"__array__": array},
        )
    if kind[0] == "list":
        lengths = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        skipped = draw(st.integers(0, 2))  # offsets need not begin with zero
        offsets = np.cumsum([skipped, *lengths])
        return contents.ListOffsetArray(index.Index64(offsets), values_of(kind[1], draw, int(offsets[-1])))
    if kind[0] == "regular":
        return contents.RegularArray(values_of(kind[2], draw, n * kind[1]), kind[1], zeros_length=n)
    if kind[0] == "option":
        there = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
        places = np.where(there, np.cumsum(there) - 1, -1)
        content = values_of(kind[1], draw, int(there.sum()))
        return contents.IndexedOptionArray.simplified(index.Index64(places), content)
    if kind[0] == "record":
        columns = {name: values_of(inner, draw, n) for name, inner in kind[1].items()}
        return contents.RecordArray(list(columns.values()), list(columns), length=n)
    if kind[0] == "tuple":
        return contents.RecordArray([values_of(inner, draw, n) for inner in kind[1]], None, length=n)
    tags = np.array(draw(st.lists(st.integers(0, len(kind[1]) - 1), min_size=n, max_size=n)), np.int8)
    places = np.zeros(n, np.int64)
    for tag in range(len(kind[1])):
        places[tags == tag] = np.arange((tags == tag).sum())
    parts = [values_of(inner, draw, int((tags == tag).sum())) for tag, inner in enumerate(kind[1])]
    return contents.UnionArray(index.Index8(tags), index.Index64(places), parts)


@st.composite
def cases(draw):
    n = draw(st.integers(0, 20))
    kinds = draw(st.lists(KINDS, min_size=1, max_size=3))
    columns = [values_of(kind, draw, n) for kind in kinds]
    return ak.Array(ak.contents.RecordArray(columns, [f"f{i}" for i in range(len(kinds))], length=n))


OPTIONS = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([1, 50, 1 << 20]),
        "cluster_size": st.sampled_from([1, 300, 128 << 20]),
        "clusters_per_group": st.sampled_from([1, 2, 4096]),
        "max_key_size": st.sampled_from([1000, 1 << 30]),
        "page_checksums": st.booleans(),
        "same_page_merging": st.booleans(),
        "threads": st.sampled_from([1, 3]),
        "compression": st.sampled_from(CODECS),
    }
)


def plain_type(array):
    """Return the type as a string: unions are read with missing values first, and optional alternatives."""
    text = str(array.type.content).replace("?bytes", "option[var * uint8]").replace("bytes", "var * uint8")
    return text.replace("?unknown, ", "") if "union" not in text else None


def values_as_read(values):
    """Return Python objects; bytes are lists of numbers."""
    if isinstance(values, bytes):
        return list(values)
    if isinstance(values, dict):
        return {key: values_as_read(value) for key, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(map(values_as_read, values))
    return values


def assert_equal(read, array):
    assert repr(ak.to_list(read)) == repr(values_as_read(ak.to_list(array)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("roundtrip")


@hypothesis.settings(max_examples=100, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(array=cases(), options=OPTIONS, cuts=st.lists(st.integers(0, 20), max_size=4))
def test_what_is_written_is_read(folder, array, options, cuts):
    path = folder / "array.root"
    bounds = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", array, **options)
        for start, stop in itertools.pairwise(bounds):
            ntuple.extend(array[start:stop])
        assert ntuple.num_entries == len(array)
    nt = fb.open(path)
    assert nt.verify().ok
    for threads in (1, 3):
        read = nt.arrays(threads=threads)
        assert_equal(read, array)
    if plain_type(array) is not None:
        assert plain_type(read) == plain_type(array)


@hypothesis.settings(max_examples=20, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(array=cases())
def test_arrow_of_what_was_read_is_written_and_read_again(folder, array):
    first, second = folder / "first.root", folder / "second.root"
    fb.write(first, array)
    table = fb.open(first).arrays(library="arrow")
    fb.write(second, table)
    assert_equal(fb.open(second).arrays(), fb.open(first).arrays())


@hypothesis.settings(max_examples=20, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(array=cases(), at=st.integers(0, 20))
def test_fields_that_come_later_are_read_from_where_they_begin(folder, array, at):
    path, at = folder / "late.root", min(at, len(array))
    with fb.recreate(path) as file:
        ntuple = file.mkrntuple("Events", {"n": "int32"}, page_size=20, cluster_size=50)
        ntuple.extend({"n": np.arange(at, dtype=np.int32)})
        ntuple.add_fields(array)
        late = array[at:]
        ntuple.extend({"n": np.arange(len(late), dtype=np.int32), **{name: late[name] for name in late.fields}})
    nt = fb.open(path)
    assert nt.verify().ok
    read = nt.arrays()
    assert len(read) == len(array)
    assert_equal(read[array.fields][at:], late)
