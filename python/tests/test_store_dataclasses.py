"""Dataclasses as products: loading returns what was stored, whatever the constructor takes."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import InitVar, field
from typing import Any, ClassVar

import numpy as np
import pytest

import femtobarn as fb


@dataclasses.dataclass
class Plain:
    """A typical one."""

    x: float
    count: ClassVar[int] = 3


@dataclasses.dataclass
class Inherited(Plain):
    """Inherits the members of another one."""

    y: float = 1.0
    hits: list[float] = field(default_factory=list)


@dataclasses.dataclass
class Computed:
    """A member is not an argument."""

    x: float
    y: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the member."""
        self.y = 2 * self.x


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """Frozen: its members cannot be set."""

    x: float
    name: str
    tags: list[str] = field(init=False, default_factory=list)


@dataclasses.dataclass(kw_only=True, slots=True)
class ByName:
    """Accepts keyword arguments only."""

    x: float
    n: int = 2


@dataclasses.dataclass
class Scaled:
    """Its constructor changes its arguments."""

    x: float
    scale: InitVar[float] = 3.0

    def __post_init__(self, scale: float) -> None:
        """Scale it."""
        self.x *= scale


@dataclasses.dataclass
class Wanting:
    """Its constructor requires an argument that is not a member."""

    x: float
    scale: InitVar[float]
    y: float = 0.0

    def __post_init__(self, scale: float) -> None:
        """Compute a member."""
        self.y = self.x * scale


@dataclasses.dataclass(init=False)
class Own:
    """Has its own constructor."""

    x: float

    def __init__(self, a: float, b: float) -> None:
        self.x = a + b


@dataclasses.dataclass
class Nested:
    """Contains others."""

    one: Computed
    many: list[Scaled]


def changed() -> Computed:
    value = Computed(1.0)
    value.y = 7.0
    return value


def tagged() -> Fixed:
    value = Fixed(1.0, "a")
    value.tags.append("b")
    return value


@pytest.mark.parametrize(
    "value",
    [
        Plain(1.0),
        Inherited(1.0, 2.0, [3.0]),
        Computed(1.5),
        changed(),
        tagged(),
        ByName(x=1.0, n=3),
        Scaled(2.0),
        Wanting(2.0, 5.0),
        Own(1.0, 2.0),
        Nested(changed(), [Scaled(1.0), Scaled(2.0)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_dataclass_is_loaded_as_it_was_stored(store: fb.DataStore, value: Any) -> None:
    """Members that are not arguments were an error, and changes by the constructor were applied twice."""
    event = store.root.create_dataset("a").create_run(1)
    kind = type(value)
    event.store("one", value)
    event.store("many", [value, value])
    assert event.load("one", kind) == value
    assert event.load("many", list[kind]) == [value, value]  # type: ignore[valid-type]


def test_what_a_constructor_converts_stays_converted(store: fb.DataStore) -> None:
    @dataclasses.dataclass
    class Converting:
        values: list[float]

        def __post_init__(self) -> None:
            self.values = tuple(self.values)  # type: ignore[assignment]

    event = store.root.create_dataset("a").create_run(1)
    event.store("x", Converting([1.0, 2.0]))
    assert event.load("x", Converting).values == (1.0, 2.0)


def test_members_that_are_computed_may_be_new(store: fb.DataStore) -> None:
    """Such a member may be new since the class was stored."""
    event = store.root.create_dataset("a").create_run(1)
    event.store("x", Plain(1.5), typename="Track")
    assert event.load("x", Computed) == Computed(1.5)


def test_a_member_that_has_no_value_is_told(store: fb.DataStore) -> None:
    @dataclasses.dataclass
    class Unset:
        x: float
        y: float = field(init=False)

    event = store.root.create_dataset("a").create_run(1)
    with pytest.raises(fb.UsageError, match="member 'y' of this Unset has no value"):
        event.store("x", Unset(1.0))


@dataclasses.dataclass
class Hit:
    """Its members have padding in between."""

    charge: np.float32
    time: float
    plane: np.uint8
    is_good: bool


@dataclasses.dataclass
class Cell:
    """Has a fixed size, and contains another one with a fixed size."""

    n: np.int16
    hit: Hit
    m: np.int8


@dataclasses.dataclass
class Shower:
    """Has no fixed size."""

    energy: float
    hits: list[Hit]
    name: str
    n: int
    best: Hit | None
    mass: float | None
    parents: list[fb.Ptr]
    seen: fb.Ptr
    names: list[str]
    planes: tuple[np.uint8, ...]
    tables: list[list[float]]
    raw: bytes
    good: list[bool]
    cells: list[Cell]


HIT = Hit(np.float32(0.1), 1, np.uint8(3), np.bool_(True))


def showers(event: fb.Event) -> list[Any]:
    """Return values of all kinds."""
    ptr = event.ref("hits", typename="std::vector<Hit>", index=2)
    cells = [Cell(3, HIT, -1)]
    full = Shower(
        1.5, [HIT, HIT], "é", 2**62, HIT, np.float32(2), [ptr, fb.Ptr()], ptr, ["", "a"], (1, 2), [[1.0], []],
        b"\0a", [True, False], cells,
    )  # fmt: skip
    empty = Shower(float("inf"), [], "", -1, None, None, [], fb.Ptr(), [], (), [], b"", [], [])
    return [HIT, cells[0], full, empty, ptr, Converting(np.arange(3.0)), Plain(3), Plain(np.float64(2.5))]


@dataclasses.dataclass
class Converting:
    """One of its members may be an array."""

    values: list[float]


def test_a_value_is_stored_and_loaded_as_a_column_of_it(store: fb.DataStore) -> None:
    """Values are stored without making columns, which took 100 times as long for each."""
    subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
    event, other = subrun.create_event(1), subrun.create_event(2)
    for value in showers(event):
        kind = type(value)
        for label, one, form in (("one", value, kind), ("many", [value] * 3, list[kind])):  # type: ignore[valid-type]
            event.store(label, one)
            with store.write_batch() as batch:
                batch.store_arrays(subrun.run.dataset, {label: [one]}, run=1, subrun=1, event=[2])
            assert event.load(label, bytes) == other.load(label, bytes), (label, value)
            loaded = event.load(label, form)
            prefetched = {found.number: found for found in store.prefetcher([label])(subrun)}
            assert repr(prefetched[2].load(label, form)) == repr(loaded), (label, value)
            if kind is not Converting:
                assert loaded == one
            event.delete_product(label)
            other.delete_product(label)


def test_bytes_are_members(store: fb.DataStore) -> None:
    """They were refused with a message about arrays."""

    @dataclasses.dataclass
    class Raw:
        data: bytes
        parts: list[bytes]

    event = store.root.create_dataset("a").create_run(1)
    event.store("x", Raw(b"ab", [b"", b"c"]))
    assert event.load("x", Raw) == Raw(b"ab", [b"", b"c"])
    assert event.load("x").data.to_list() == [97, 98]
    with pytest.raises(fb.UsageError, match="product 'x', member 'data' of Raw: 'ab' is not of type bytes"):
        event.store("x", Raw("ab", []))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hint", "is_fine"),
    [
        (float, True),
        (float | None, True),
        (np.float64, True),
        (int, False),
        (str, False),
        (bool, False),
        (np.float32, False),
        (np.uint8, False),
        (list[int], False),
        (int | None, False),
        (bytes, False),
        (fb.Ptr, False),
        (Plain, False),
    ],
)
def test_members_are_of_the_type_that_is_stored(store: fb.DataStore, hint: Any, is_fine: bool) -> None:
    """If the annotations differed, a class silently got what was stored."""
    event = store.root.create_dataset("a").create_run(1)
    event.store("one", Plain(1.75))
    event.store("many", [Plain(1.75)])
    event.store("none", np.empty(0, [("x", "f8")]))
    other = dataclasses.make_dataclass("Other", [("x", hint)])
    for label, form in (("one", other), ("many", list[other]), ("none", list[other])):  # type: ignore[valid-type]
        if is_fine:
            event.load(label, form)
            continue
        with pytest.raises(
            fb.UsageError, match=f"product {label!r} .*: member 'x' of Other is stored as double and cannot"
        ):
            event.load(label, form)


def test_integers_are_reals_where_none_is_changed(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1)
    real = dataclasses.make_dataclass("Real", [("n", float), ("flag", int)])
    whole = dataclasses.make_dataclass("Whole", [("n", int), ("flag", bool)])
    event.store("x", [whole(3, True), whole(2**53, False)])
    event.store("far", whole(2**53 + 1, False))
    loaded = event.load("x", list[real])  # type: ignore[valid-type]
    assert repr(loaded) == "[Real(n=3.0, flag=1), Real(n=9007199254740992.0, flag=0)]"
    with pytest.raises(fb.UsageError, match="member 'n' of Real: 9007199254740993 cannot be represented exactly"):
        event.load("far", real)


def test_a_missing_member_is_told_where_none_may_be(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1)
    maybe = dataclasses.make_dataclass("Maybe", [("x", float | None)])
    event.store("x", [maybe(1.5), maybe(None)])
    event.store("y", [maybe(1.5)])
    assert event.load("y", list[Plain]) == [Plain(1.5)]
    with pytest.raises(fb.UsageError, match=r"member 'x' of Plain: a value is missing; annotate it as float \| None"):
        event.load("x", list[Plain])


@dataclasses.dataclass
class Node:
    """Contains itself."""

    n: int
    kids: list[Node] = field(default_factory=list)


def test_a_class_that_contains_itself_is_told(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1)
    for value in (Node(1), [Node(1, [Node(2)])]):
        with pytest.raises(fb.UsageError, match="member 'kids' of Node: a class cannot contain itself"):
            event.store("x", value)
    assert event.products() == []


def test_types_of_numpy_are_forms_where_they_are_stored(store: fb.DataStore) -> None:
    """They were refused, although members of dataclasses may have them."""
    event = store.root.create_dataset("a").create_run(1)
    event.store("x", np.float32(0.1))
    event.store("n", 5)
    event.store("flags", [True, False])
    for form, number in ((np.float32, np.float32(0.1)), (np.float64, np.float64(np.float32(0.1)))):
        loaded = event.load("x", form)
        assert (type(loaded), loaded) == (form, number)
    assert repr(event.load("flags", list[int])) == "[1, 0]"
    for label, wrong in (("x", np.int32), ("n", np.int32), ("n", np.float32), ("flags", np.bool_)):
        with pytest.raises(
            fb.UsageError, match=f"product {label!r} has type .* and cannot be loaded as {wrong.__name__}"
        ):
            event.load(label, wrong)


def test_a_class_with_the_members_of_a_tuple_is_loaded(store: fb.DataStore) -> None:
    """Its columns are read as tuples, and it could not be loaded."""
    event = store.root.create_dataset("a").create_run(1)
    pair = dataclasses.make_dataclass("Pair", [("_0", int), ("_1", float)])
    event.store("x", [pair(1, 2.5)])
    assert event.load("x").tolist() == [(1, 2.5)]
    assert event.load("x", list[pair]) == [pair(1, 2.5)]  # type: ignore[valid-type]


@dataclasses.dataclass
class Doubling:
    """Its constructor changes its arguments, in each form."""

    number: float
    items: list[float]
    appended: list[float]
    inner: Plain
    other: Plain

    def __post_init__(self) -> None:
        self.number = np.float32(self.number * 2)  # type: ignore[assignment]
        self.items = [2 * item for item in self.items]
        self.appended.append(99.0)
        self.inner = Plain(self.inner.x * 2)
        self.other.x *= 2


@dataclasses.dataclass
class Constructed:
    """Its constructor is not that of `dataclass`."""

    x: float

    def __init__(self, x: float) -> None:
        self.x = 2 * x


@dataclasses.dataclass
class Setting:
    """Changes what is set."""

    x: float

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, 2 * value)


def test_what_constructors_change_is_not_changed_again(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1).create_subrun(1).create_event(1)
    values = [Doubling(1.0, [1.0], [1.0], Plain(1.0), Plain(1.0)), Constructed(1.0), Setting(1.0)]
    for n, value in enumerate(values):
        event.store(f"one{n}", value)
        event.store(f"many{n}", [value])
        for _ in range(2):
            assert event.load(f"one{n}", type(value)) == value
            assert event.load(f"many{n}", list[type(value)]) == [value]  # type: ignore[misc]


def test_what_masks_hide_is_missing(store: fb.DataStore) -> None:
    event = store.root.create_dataset("a").create_run(1).create_subrun(1).create_event(1)
    masked = np.ma.array([1.0, 2.0], mask=[False, True])  # type: ignore[no-untyped-call]
    with pytest.raises(fb.UsageError):
        event.store("x", Inherited(1.0, hits=masked))
    event.store("x", Inherited(1.0, hits=np.array([1, 2], object)))  # type: ignore[arg-type]
    assert event.load("x", Inherited).hits == [1.0, 2.0]


@dataclasses.dataclass
class Ring:
    """A list of it accepts each form of members."""

    name: str
    hits: list[Hit]
    best: Hit | None
    tables: list[list[np.float32]]
    raw: bytes
    seen: fb.Ptr


@pytest.mark.parametrize(
    ("typename", "form"),
    [
        ("std::vector<Ring>", list[Ring]),
        ("std::vector<Ring>", list[dict]),
        ("Hit", Hit),
        ("std::vector<Hit>", fb.NumPy),
        ("std::optional<std::string>", str),
        ("std::variant<std::string,std::vector<bool>,Hit>", object),
        ("std::map<std::string,std::int32_t>", list),
        ("std::array<std::vector<std::uint16_t>,3>", list[list[int]]),
        ("std::array<std::array<double,0>,1000000000000>", list),
        ("fb::Ptr", None),
    ],
)
def test_no_bytes_break_a_load(store: fb.DataStore, typename: str, form: Any) -> None:
    """They are a value, or an error says that they are invalid."""
    event = store.root.create_dataset("a").create_run(1)
    hits, ptr = [HIT, HIT], event.ref("hits", typename="std::vector<Hit>", index=1)
    ring = Ring("é", hits, HIT, [[1.5], []], b"ab", ptr)
    event.store("rings", [ring, dataclasses.replace(ring, best=None, seen=fb.Ptr())])
    good, random = event.load("rings", bytes), np.random.default_rng(1)
    stored = [good[:n] for n in range(0, len(good), 7)] + [good + b"\0"]
    for _ in range(200):
        damaged = bytearray(good[: random.integers(len(good))] if random.random() < 0.7 else bytes(random.integers(60)))
        for at in random.integers(len(damaged) or 1, size=3):
            damaged[at : at + 1] = bytes([random.choice([0, 1, 2, 3, 255])])
        stored.append(bytes(damaged))
    for value in stored:
        event._core.store(("x", typename), value, True)
        with contextlib.suppress(fb.FormatError, fb.UsageError):
            event.load("x", form, typename=typename)


@pytest.mark.parametrize(
    "value", [[[1.5], []], [[1], [2, 3]], [[True]], ["a", ""], [["é"], []], [[[1.5]], []], [[], [[]], [[2]]]]
)
def test_lists_are_stored_as_columns_of_them_are(store: fb.DataStore, value: Any) -> None:
    """They took 100 times as long, as Awkward Arrays were made of them."""
    run = store.root.create_dataset("a").create_run(1)
    run.store("one", value)
    [product] = run.products()
    subrun = run.create_subrun(1)
    with store.write_batch() as batch:
        batch.store_arrays(run.dataset, {"one": [value]}, run=1, subrun=1, event=[1])
    assert subrun[1].products() == [product]
    assert run.load("one", bytes) == subrun[1].load("one", bytes)
    assert run.load("one", list) == run.load("one").to_list() == value
