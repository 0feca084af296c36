"""Dataclasses as products: whatever their constructors take, loading gives back what was stored."""

from __future__ import annotations

import dataclasses
from dataclasses import InitVar, field
from typing import Any, ClassVar

import pytest

import femtobarn as fb


@dataclasses.dataclass
class Plain:
    """One as most are."""

    x: float
    count: ClassVar[int] = 3


@dataclasses.dataclass
class Inherited(Plain):
    """It has the members of another one."""

    y: float = 1.0
    hits: list[float] = field(default_factory=list)


@dataclasses.dataclass
class Computed:
    """A member of it is no argument."""

    x: float
    y: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the member."""
        self.y = 2 * self.x


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """Its members cannot be set."""

    x: float
    name: str
    tags: list[str] = field(init=False, default_factory=list)


@dataclasses.dataclass(kw_only=True, slots=True)
class ByName:
    """It takes no arguments by their places."""

    x: float
    n: int = 2


@dataclasses.dataclass
class Scaled:
    """Its constructor changes what it is given."""

    x: float
    scale: InitVar[float] = 3.0

    def __post_init__(self, scale: float) -> None:
        """Scale it."""
        self.x *= scale


@dataclasses.dataclass
class Wanting:
    """Its constructor wants what is no member."""

    x: float
    scale: InitVar[float]
    y: float = 0.0

    def __post_init__(self, scale: float) -> None:
        """Compute a member."""
        self.y = self.x * scale


@dataclasses.dataclass(init=False)
class Own:
    """It has a constructor of its own."""

    x: float

    def __init__(self, a: float, b: float) -> None:
        self.x = a + b


@dataclasses.dataclass
class Nested:
    """It holds others."""

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
    """What is no argument of the constructor was an error, and what that changes was changed a second time."""
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
    """A class has got one since it was stored."""
    event = store.root.create_dataset("a").create_run(1)
    event.store("x", Plain(1.5), typename="Track")
    assert event.load("x", Computed) == Computed(1.5)


def test_a_member_that_has_no_value_is_told(store: fb.DataStore) -> None:
    @dataclasses.dataclass
    class Unset:
        x: float
        y: float = field(init=False)

    event = store.root.create_dataset("a").create_run(1)
    with pytest.raises(fb.UsageError, match="member 'y' of this Unset was never given a value"):
        event.store("x", Unset(1.0))
