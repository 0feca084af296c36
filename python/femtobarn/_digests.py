"""Digests of values that are alike in each process for equal values.

Objects count as they are pickled, but whatever order sets and dicts have, and classes and functions of the user with
their code. Of what is gone with its process (locks, files, threads), and of what cannot be pickled, only the class
counts.
"""

from __future__ import annotations

import _thread
import asyncio
import collections
import copyreg
import enum
import functools
import hashlib
import io
import logging
import pickle
import random
import socket
import threading
import types
import weakref
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from femtobarn._code_reads import is_own

__all__ = ["Digests", "digest", "name_of", "reduced"]

_SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(...))
_LONG = 1000  # texts and bytes that are longer have a digest of their own
_LOCKS = (_thread.LockType, type(threading.RLock()), threading.Condition, threading.Event, threading.Semaphore)
_AWAITED = (asyncio.Event, asyncio.Lock, asyncio.Condition, asyncio.Semaphore, asyncio.Future)
# An object of an installed package that has one of these does something itself, as a client or a pool.
_ALIVE: tuple[type, ...] = (*_LOCKS, *_AWAITED, threading.Thread, asyncio.AbstractEventLoop, socket.socket)
_CHANCE = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_OF_PYTHON = (weakref.ReferenceType, types.CellType, types.GetSetDescriptorType)
# Of these only the class counts, which nobody needs to be told.
_BY_CLASS: tuple[type, ...] = (*_ALIVE, *_CHANCE, *_OF_PYTHON, threading.local, io.IOBase, logging.Handler)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))

_Values = list[tuple[str, Any]]
_Steps = Generator[Any, str, str]  # yields values, gets their digests, and returns a text


def digest(text: str | bytes | memoryview) -> str:
    """Return a short digest."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text).hexdigest()[:16]


def name_of(named: Any) -> str:
    """Return the full name of a class or function."""
    name = getattr(named, "__qualname__", None) or getattr(named, "__name__", "")
    return f"{getattr(named, '__module__', None)}.{name}"


def reduced(value: Any) -> _Values:
    """Return what an object is pickled as, or the attributes of one of the user's classes if it cannot be."""
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        made = value.__reduce_ex__(5) if reduce is None else reduce(value)
    except Exception:
        if not is_own(type(value).__module__):
            raise
        return sorted(_slots(value).items())
    if isinstance(made, str):
        return [("name", made), *(sorted(vars(value).items()) if hasattr(value, "__dict__") else ())]
    function, arguments, state, items, pairs = (*made, None, None, None)[:5]
    values: _Values = [("what makes it", function), ("arguments", arguments)]
    for part in state if isinstance(state, tuple) else (state,):
        is_attributes = isinstance(part, dict) and all(isinstance(name, str) for name in part)
        values += sorted(part.items()) if is_attributes else [("state", part)]
    if items is not None:
        values.append(("items", list(items)))
    if pairs is not None:
        is_ordered = isinstance(value, collections.OrderedDict)
        values.append(("pairs", list(pairs) if is_ordered else dict(pairs)))
    return values


def _slots(value: Any) -> dict[str, Any]:
    """Return all attributes of an object."""
    names = [name for kind in type(value).__mro__ for name in copyreg._slotnames(kind)]  # type: ignore[attr-defined]
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}


class Digests:
    """Digests of values, each made once.

    Parameters
    ----------
    called : callable
        Returns what a callable reads, by names; None of anything else.

    Attributes
    ----------
    unseen : set of str
        The classes of what was met and counts by its class only.
    """

    def __init__(self, called: Callable[[Any], _Values | None]) -> None:
        self.unseen: set[str] = set()
        self._called = called
        self._made: dict[int, tuple[Any, str]] = {}  # with the values, so that their numbers stay theirs

    def of(self, value: Any) -> str:
        """Return a text that is alike for equal values, however deep these are nested."""
        steps: list[tuple[Any, _Steps]] = []
        told = self._told(value)
        while told is None or steps:
            if told is None:
                self._made[id(value)] = value, name_of(type(value))  # of what has itself in it
                steps.append((value, self._text(value)))
            whole, text = steps[-1]
            try:
                value = next(text) if told is None else text.send(told)
                told = self._told(value)
                continue
            except StopIteration as done:
                told = digest(done.value)
            except Exception:
                kind = type(whole)
                told = name_of(kind)
                if not is_own(kind.__module__) and not kind.__module__.startswith("femtobarn"):
                    self.unseen.add(told)
            steps.pop()
            self._made[id(whole)] = whole, told
        return told

    def _told(self, value: Any) -> str | None:
        """Return the text of what is simple, or was met before."""
        kind = type(value)
        if kind not in _SIMPLE:
            return self._made[id(value)][1] if id(value) in self._made else None
        if kind in (str, bytes) and len(value) > _LONG:
            return f"{kind.__name__} {digest(value)}"
        return f"int {value:x}" if kind is int else f"{kind.__name__} {value!r}"

    def _text(self, value: Any) -> _Steps:
        kind = name_of(type(value))
        if isinstance(value, types.CodeType):
            return (yield from self._code(value))
        if isinstance(value, types.ModuleType):
            return f"{kind} {value.__name__} {(yield _members(value)) if is_own(value.__name__) else ''}"
        if isinstance(value, type):
            members = (yield from self._class(value)) if is_own(value.__module__) else ""
            return f"{kind} {name_of(value)} {members}"
        if isinstance(value, enum.Enum):
            return f"{kind} {value.name} {yield value.value} {yield type(value)}"
        if isinstance(value, np.generic) or type(value) is np.ndarray:
            return f"{kind} {value.dtype!r} {value.shape} {yield from self._array(np.asarray(value))}"
        if type(value) in (tuple, list):
            return f"{kind} {yield from self._all(value)}"
        if isinstance(value, set | frozenset):
            return f"{kind} {yield from self._set(value)}"
        if type(value) is dict:
            return f"{kind} {yield from self._dict(value)}"
        if isinstance(value, memoryview | pickle.PickleBuffer | bytearray):
            return f"{kind} {digest(_bytes(value))}"
        if isinstance(value, types.MappingProxyType):
            return f"{kind} {yield from self._dict(dict(value))}"
        if isinstance(value, _VIEWS):
            content: Any = value
            return f"{kind} {yield from self._all(content)}"
        if (values := self._called(value)) is not None:
            code = yield getattr(value, "__code__", None)
            return f"{kind} {name_of(value)} {code} {yield from self._pairs(values)}"
        return f"{kind} {yield from self._object(value)}"

    def _object(self, value: Any) -> _Steps:
        kind = type(value)
        if isinstance(value, types.FunctionType):
            return name_of(value)
        if isinstance(value, _BY_CLASS) and not isinstance(value, io.BytesIO | io.StringIO):
            return ""
        if kind.__module__.startswith("femtobarn") and not _is_pickled(kind):
            return ""  # as what writes
        if not is_own(kind.__module__) and any(isinstance(one, _ALIVE) for one in _attributes(value)):
            raise TypeError(f"{kind} is gone with its process")
        values = reduced(value)
        if values[0][0] == "name" and not is_own(kind.__module__):
            pickle.dumps(value)  # fails if it is not what is found under that name
        return f"{(yield kind) if is_own(kind.__module__) else ''} {yield from self._pairs(values)}"

    def _array(self, value: Any) -> _Steps:
        kind = value.dtype
        if kind.names is not None:  # whatever is between the fields
            return (yield from self._pairs([(name, value[name]) for name in kind.names]))
        if kind.hasobject or kind.kind == "T":
            return (yield from self._all(value.ravel().tolist()))
        if kind.char in "gG":  # some of whose bytes are nothing
            return digest(str([repr(one) for one in value.ravel()]))
        whole = np.ascontiguousarray(value)
        return digest(whole.reshape(-1).view(np.uint8).data if whole.nbytes else b"")

    def _code(self, code: types.CodeType) -> _Steps:
        constants = yield from self._all(code.co_consts)
        exceptions = getattr(code, "co_exceptiontable", b"").hex()
        return f"{code.co_code.hex()} {exceptions} {code.co_names} {constants}"

    def _class(self, kind: type) -> _Steps:
        """Digest the functions and values of a class of the user, and of those of his that it is made of."""
        values: _Values = [("bases", tuple(name_of(base) for base in kind.__mro__))]
        for base in kind.__mro__:
            for name, value in sorted(vars(base).items()) if is_own(base.__module__) else ():
                parts = _parts(value)
                is_function = any(
                    isinstance(part, types.FunctionType) or hasattr(part, "__wrapped__") for part in parts
                )
                if is_function or not (name.startswith("__") or name == "_abc_impl"):
                    values.append((f"{name_of(base)} {name}", parts))
        return (yield from self._pairs(values))

    def _set(self, value: Any) -> _Steps:
        """Digest what has another order in each process."""
        yield from self._each(_classes(value))
        found = yield from self._each(sorted(value, key=_rank))
        return f"{sorted(found)} {yield getattr(value, '__dict__', None)}"

    def _dict(self, value: dict[Any, Any]) -> _Steps:
        pairs = sorted(value.items(), key=lambda pair: _rank(pair[0]))
        yield from self._each(_classes(name for name, _ in pairs))
        names = yield from self._each(name for name, _ in pairs)
        named = [(name, one) for name, (_, one) in zip(names, pairs, strict=True)]
        return (yield from self._pairs(sorted(named, key=lambda pair: pair[0])))

    def _pairs(self, values: Iterable[tuple[str, Any]]) -> _Steps:
        pairs = tuple(values)
        told = yield from self._each(value for _, value in pairs)
        return str([(name, one) for (name, _), one in zip(pairs, told, strict=True)])

    def _all(self, values: Iterable[Any]) -> _Steps:
        return str((yield from self._each(values)))

    def _each(self, values: Iterable[Any]) -> Generator[Any, str, list[str]]:
        found: list[str] = []
        for value in tuple(values):
            told = self._told(value)
            found.append((yield value) if told is None else told)
        return found


def _members(module: types.ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def _parts(value: Any) -> tuple[Any, ...]:
    """Return what an attribute of a class is made of, as the function of a property."""
    if isinstance(value, staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    return (value.func,) if isinstance(value, functools.cached_property) else (value,)


def _attributes(value: Any) -> Iterable[Any]:
    return tuple(vars(value).values()) if hasattr(value, "__dict__") else ()


def _is_pickled(kind: type) -> bool:
    """Return whether a class says how its objects are pickled, or has nothing but values."""
    names = ("__reduce__", "__reduce_ex__", "__getstate__")
    is_told = any(getattr(kind, name) is not getattr(object, name, None) for name in names)
    return is_told or hasattr(kind, "__dataclass_fields__")


def _bytes(value: Any) -> bytes | memoryview:
    view = value.raw() if isinstance(value, pickle.PickleBuffer) else memoryview(value)
    return view if view.c_contiguous else view.tobytes()


def _classes(values: Iterable[Any]) -> list[type]:
    """Return the classes of values in any order, which are met before these, as they may have them."""
    return sorted({type(one) for one in values}, key=name_of)


def _rank(value: Any) -> tuple[str, str]:
    """Return what brings values of a set into some order, so that what they have of each other is met alike."""
    is_named = isinstance(value, type | types.FunctionType)
    return name_of(type(value)), name_of(value) if is_named else repr(value) if type(value) in _SIMPLE else ""
