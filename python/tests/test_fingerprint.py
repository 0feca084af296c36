"""What a checkpoint knows of functions: another cut is another text, and the same is the same in each process."""

from __future__ import annotations

import abc
import argparse
import asyncio
import collections
import copy
import dataclasses
import enum
import functools
import importlib
import io
import os
import pickle
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import awkward as ak
import numpy as np
import pytest

from femtobarn._fingerprint import fingerprint

T = TypeVar("T")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def of(function: Any, unseen: dict[str, str] | None = None) -> dict[str, str]:
    return fingerprint("function", function, unseen)


def reading(value: Any) -> Callable[[Any], Any]:
    return lambda event: value


class Own:
    """An object that holds others."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.lock = threading.Lock()


class Wrapping:
    """A callable object that looks like a function, and has attributes of its own."""

    def __init__(self, cut: Any) -> None:
        self.cut = cut
        functools.update_wrapper(self, of)

    def __call__(self, event: Any) -> Any:
        return self.cut


class Kind(enum.Enum):
    """Classes of its own members, which have each other in them."""

    A = 1
    B = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    """A class of Python's making."""

    cut: Any


class Named(NamedTuple):
    """Another one."""

    cut: Any


class Abstract(abc.ABC, Generic[T]):
    """Another one."""

    @functools.cached_property
    def cut(self) -> Any:
        return 20

    @staticmethod
    def none() -> None: ...

    @functools.singledispatchmethod
    def of(self, cut: Any) -> Any:
        return cut


class OwnSet(set[str]):
    """A set of a class of its own."""


def dispatching(cut: Any) -> Any:
    @functools.singledispatch
    def function(value: Any) -> Any:
        return 0

    function.register(int, lambda value: cut)
    return function


def with_attribute(cut: Any) -> Any:
    def function(event: Any) -> Any:
        return function.cut  # type: ignore[attr-defined]

    function.cut = cut  # type: ignore[attr-defined]
    return function


def nested(cut: Any, depth: int = 5000) -> Any:
    return functools.reduce(lambda inner, _: [inner], range(depth), cut)


def in_a_circle(cut: Any) -> Any:
    circle: list[Any] = [cut]
    circle.append({"whole": circle})
    return circle


HOLDING = {
    "namespace": lambda cut: argparse.Namespace(cut=cut, names={"e", "mu"}),
    "frame": lambda cut: pd.DataFrame({"cut": [cut], "name": ["e"]}),
    "series": lambda cut: pd.Series([cut]),
    "index": lambda cut: pd.Index([cut]),
    "polars": lambda cut: pl.DataFrame({"cut": [cut]}),
    "series of polars": lambda cut: pl.Series([cut]),
    "user dict": lambda cut: collections.UserDict(cut=cut),
    "chain": lambda cut: collections.ChainMap({"cut": cut}, {"other": 1}),
    "counter": lambda cut: collections.Counter({"e": cut}),
    "polynomial": lambda cut: np.polynomial.Polynomial([1, cut]),
    "poly1d": lambda cut: np.poly1d([1, cut]),
    "masked": lambda cut: np.ma.masked_array([1, cut], [0, 0], fill_value=0),
    "records": lambda cut: np.rec.array([(1, cut)], dtype=[("a", "i1"), ("b", "f8")]),
    "datetime": lambda cut: np.array([cut], "M8[s]"),
    "long double": lambda cut: np.array([cut], np.longdouble) / 3,
    "objects": lambda cut: np.array([{"e", cut}, None], object),
    "awkward": lambda cut: ak.Array([[cut], []]),
    "simple": lambda cut: types.SimpleNamespace(cut=cut),
    "frame in an object": lambda cut: Own(pd.DataFrame({"cut": [cut]})),
    "frame in a list": lambda cut: {"a": [pl.DataFrame({"cut": [cut]})]},
    "slots": Slotted,
    "named tuple": Named,
    "deep": nested,
    "circle": in_a_circle,
    "long text": lambda cut: "a" * 5000 + str(cut),
    "bytes": lambda cut: bytearray(str(cut).encode()),
    "text in memory": lambda cut: io.StringIO(str(cut)),
}
CALLED = {
    "vectorize": lambda cut: np.vectorize(lambda x: x > cut),
    "singledispatch": dispatching,
    "attribute": with_attribute,
    "wrapping": Wrapping,
    "cached": lambda cut: functools.cache(lambda event: cut),
    "method of a dict": lambda cut: {"cut": cut}.get,
    "partial": lambda cut: functools.partial(max, Own(pd.Series([cut]))),
    "method": lambda cut: types.MethodType(lambda self, event: cut, "self"),
}


@pytest.mark.parametrize("name", [*HOLDING, *CALLED])
def test_another_cut_is_another_text(name: str) -> None:
    # A checkpoint went on with it, and results of both were mixed.
    make = {**HOLDING, **CALLED}[name]
    unseen: dict[str, str] = {}
    assert of(reading(make(20)), unseen) == of(reading(make(20))) != of(reading(make(25)))
    assert not unseen
    if name in CALLED:
        assert of(make(20)) == of(make(20)) != of(make(25))
    elif name in {"frame in an object", "deep", "text in memory"}:
        return  # which Python itself does not copy
    else:
        value = make(20)
        for again in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert of(reading(again)) == of(reading(value))


def test_attributes_count_by_themselves() -> None:
    assert of(reading(argparse.Namespace(cut=20, n=1)))["cut of value of function"] == "20"
    found = of(reading(Own(Own(20))))
    assert found["held of held of value of function"] == "20"
    assert found["lock of value of function"].startswith("lock")
    circle = Own(None)
    circle.held = circle
    assert of(reading(circle)) == of(reading(circle))


def test_the_order_of_dicts_and_sets_is_nothing() -> None:
    one = {"a": 1, "b": Own({"x", "y"}), "c": collections.defaultdict(int, {"p": 1, "q": 2})}
    other = {"c": collections.defaultdict(int, {"q": 2, "p": 1}), "b": Own({"y", "x"}), "a": 1}
    assert of(reading(one)) == of(reading(other))
    kinds = [{Kind.A: 1, Kind.B: 2, "a": Kind.A}, {"a": Kind.A, Kind.B: 2, Kind.A: 1}]
    assert of(reading(kinds[0])) == of(reading(kinds[1]))
    assert of(reading(collections.OrderedDict(one))) != of(reading(collections.OrderedDict(other)))


CUTS = """
PT = 20
class Selection:
    pt = PT
def passes(pt):
    return pt > PT
"""
READS = """
import cuts
from cutting import inner
def at_once(event): return cuts.PT
def inside(event):
    import cuts
    return cuts.PT
def renamed(event):
    import cuts as c
    return c.PT
def from_it(event):
    from cuts import PT
    return PT
def another_name(event):
    m = cuts
    return m.PT
def handed_on(event):
    return reads(cuts)
def reads(module):
    return module.PT
def by_text(event):
    return getattr(cuts, "PT")
def of_a_class(event): return cuts.Selection.pt
def by_a_function(event): return cuts.passes(3)
def comprehended(event): return [m.PT for m in (cuts,)]
def of_a_package(event): return inner.PT
def of_a_package_inside(event):
    import cutting.inner
    return cutting.inner.PT
def of_a_package_renamed(event):
    import cutting.inner as c
    return c.PT
def of_a_package_listed(event):
    from cutting import inner as c
    return c.PT
def enclosing():
    module = cuts
    return lambda event: module.PT
enclosed = enclosing()
"""


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of the user, which reads cuts in others."""
    (tmp_path / "cuts.py").write_text(CUTS)
    (tmp_path / "cutting").mkdir()
    (tmp_path / "cutting" / "__init__.py").touch()
    (tmp_path / "cutting" / "inner.py").write_text(CUTS)
    names = "\n".join(f"    a{n} = b{n}" for n in range(400))
    (tmp_path / "reads.py").write_text(READS + f"def long(event):\n{names}\n    return cuts.PT\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("reads")
    for name in ("reads", "cuts", "cutting", "cutting.inner"):
        sys.modules.pop(name, None)


def test_what_is_read_of_modules_counts(reads: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {
        name: value
        for name, value in vars(reads).items()
        if isinstance(value, types.FunctionType) and name not in ("reads", "enclosing")
    }
    assert len(functions) == 16
    before = {name: of(function) for name, function in functions.items()}
    assert {name: of(function) for name, function in functions.items()} == before
    monkeypatch.setattr("cuts.passes", lambda pt: True)  # which only one calls, and one may find by its name
    others = [name for name, function in functions.items() if of(function) != before[name]]
    assert others == ["handed_on", "by_text", "by_a_function", "comprehended"]
    monkeypatch.undo()
    for module in ("cuts", "cutting.inner"):
        monkeypatch.setattr(f"{module}.PT", 25)
        monkeypatch.setattr(f"{module}.Selection.pt", 25)
    assert [name for name, function in functions.items() if of(function) == before[name]] == []


def test_modules_that_functions_import_first_count(reads: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("PT = 20")
    (tmp_path / "broken.py").write_text("raise SystemExit(1)")
    space: dict[str, Any] = {"__name__": "reads"}
    exec(
        "def function(event):\n    import late, broken, not_there\n    from json import loads\n    return late.PT",
        space,
    )
    found = of(space["function"])
    assert found["late.PT of function"] == "20"
    assert found["import broken of function"].startswith("str")
    del sys.modules["late"]
    assert of(space["function"]) == found
    del sys.modules["late"]


def test_what_cannot_be_seen_is_told() -> None:
    unseen: dict[str, str] = {}
    found = of(reading(value for value in [1]), unseen)
    assert unseen == {"value of function": "builtins.generator"}
    assert found["value of function"].startswith("generator")
    unseen.clear()
    of(reading({"a": np.frompyfunc(lambda x: x, 1, 1), "b": np.sqrt}), unseen)
    assert unseen == {"value of function": "numpy.ufunc"}
    unseen.clear()
    things = [threading.Lock(), np.random.default_rng(1), np.sqrt, open, Own, np.sum, sys.stdout, pd.Timestamp(0)]
    of(
        reading(
            [
                *things,
                asyncio.Semaphore(3),
                Abstract(),
                Slotted,
                Named,
                Kind.A,
                pd.DataFrame,
                types.MappingProxyType({}),
                {}.keys(),
            ]
        ),
        unseen,
    )
    assert not unseen


_ALIKE = """
import sys, test_fingerprint
from test_fingerprint import *
things = [make(20) for make in HOLDING.values()] + [make(20) for make in CALLED.values()]
things += [np.random.default_rng(7), np.random.default_rng(), lambda a: a + len(things), {Own, OwnSet, of, "a", 3}]
things += [{Kind.A, Kind.B}, {Abstract, Slotted, Named, Kind, len}, Abstract()]
things += [OwnSet("abcdef"), frozenset("xyz"), object(), test_fingerprint, np.random.normal, open, sys.stdout]
made = lambda event: (things, test_fingerprint.CALLED, test_fingerprint)
sys.stdout.write(repr(sorted(of(made).items())))
"""


def test_it_is_alike_in_each_process() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _ALIKE]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=True)
        said.add(done.stdout)
    assert len(said) == 1
