"""What a function is, and what it reads, in short texts that are alike in each process.

By them a checkpoint is known to be of the same work. What counts is code and values of the user; of installed packages,
names. What cannot be told alike in each process counts by its type.
"""

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import hashlib
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["fingerprint"]

_SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(...))
_SHOWN = (int, float, complex, bool, type(None))  # not texts, which may be secrets
_NUMBERS_OF_CHANCE = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_DEEPEST = 30
_NAMED = 4  # so deep, values have names of their own

_Values = list[tuple[str, Any]]


def fingerprint(name: str, function: Any) -> dict[str, str]:
    """Return what a function is, and by their names what it reads: defaults, what it encloses, globals.

    Parameters
    ----------
    name : str
        What to call it.
    function : callable
        The function.

    Returns
    -------
    dict
        Texts by names: ``{"function": "module.name (code 1234)", "cut of function": "20"}``.

    Examples
    --------
    >>> from functools import partial
    >>> from femtobarn._fingerprint import fingerprint
    >>> fingerprint("function", partial(max, default=20))["default of function"]
    '20'
    """
    found: dict[str, str] = {}
    digests = _Digests()
    seen = set()

    def note(name: str, value: Any, depth: int) -> None:
        values = None
        if depth < _NAMED and id(value) not in seen:
            values = _values(value, is_first=depth == 0)
        if values is None:
            found[name] = digests.shown(value)
            return
        seen.add(id(value))  # what is called is alive all the while
        found[name] = digests.named(value)
        for inner, one in values:
            note(f"{inner} of {name}", one, depth + 1)

    if getattr(function, "__globals__", {}).get("__name__", "").startswith("femtobarn."):  # as that of aio.process
        function = getattr(function, "__wrapped__", function)
    note(name, function, 0)
    return found


def _values(value: Any, *, is_first: bool = True) -> _Values | None:
    """Return what a callable of the user reads, by names; None if it is none."""
    if isinstance(value, types.FunctionType) and _is_own(value.__module__):
        return list(_read(value))
    if isinstance(value, types.MethodType):
        return [*(_values(value.__func__) or []), ("self", value.__self__)]
    if isinstance(value, functools.partial):
        arguments = [(f"argument {n}", one) for n, one in enumerate(value.args)]
        return [("what is called", value.func), *arguments, *value.keywords.items()]
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):  # as functools.cache makes them
        return [("what is called", value.__wrapped__)]
    is_object = is_first and not isinstance(value, type) and callable(value)
    return _attributes(value) if is_object and _is_own(type(value).__module__) else None


def _read(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Iterate over what a function of Python reads beside its arguments."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from _globals(code, function.__globals__)


def _globals(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the globals that code reads, also in functions that it makes; of a module, what it reads there."""
    found: dict[str, Any] = {}
    instructions = list(dis.get_instructions(code))
    for at, instruction in enumerate(instructions):
        if instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or instruction.argval not in namespace:
            continue
        name, value = instruction.argval, namespace[instruction.argval]
        for after in instructions[at + 1 :]:
            is_member = isinstance(value, types.ModuleType) and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
            if not is_member or not _is_own(value.__name__) or not hasattr(value, after.argval):
                break
            name, value = f"{name}.{after.argval}", getattr(value, after.argval)
        found[name] = value
    yield from found.items()
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from ((name, value) for name, value in _globals(inner, namespace) if name not in found)


def _attributes(value: Any) -> _Values:
    """Return what an object would be pickled as, or its attributes if it cannot be."""
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception:
        own = _is_own(type(value).__module__)
        return list(getattr(value, "__dict__", {}).items()) if own else []
    if isinstance(reduced, str):
        return [("name", reduced)]
    made, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    values: _Values = [("what makes it", made), ("arguments", arguments)]
    for part in state if isinstance(state, tuple) else (state,):
        values += part.items() if isinstance(part, dict) else [("state", part)]
    return [
        *values,
        *((name, list(found)) for name, found in (("items", items), ("pairs", pairs)) if found is not None),
    ]


@functools.cache
def _is_own(module: str | None) -> bool:
    """Return whether a module is the user's, and neither Python's nor installed."""
    if module is None:
        return False
    top = module.partition(".")[0]
    if top == "femtobarn" or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts)


class _Digests:
    """Digests of values, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, str]] = {}  # with the values, so that their numbers stay theirs

    def shown(self, value: Any) -> str:
        """Return what messages show of a value: a number itself."""
        if type(value) in _SHOWN or isinstance(value, np.number | np.bool_):
            return repr(value)
        if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            return self.named(value)
        return f"{type(value).__qualname__} ({_digest(self.of(value, 0))})"

    def named(self, value: Any) -> str:
        """Return the name of a callable, with the digest of its own code."""
        if isinstance(value, types.MethodType):
            return self.named(value.__func__)
        if isinstance(value, functools.partial):
            return f"partial of {self.named(value.func)}"
        if isinstance(value, types.FunctionType):
            code = self._code(value.__code__) if _is_own(value.__module__) else ""
            return f"{_name(value)} (code {_digest(code)})" if code else _name(value)
        if isinstance(value, type):
            return f"{_name(value)} (code {_digest(self.of(value, 0))})" if _is_own(value.__module__) else _name(value)
        if isinstance(value, types.BuiltinFunctionType) or hasattr(value, "__wrapped__"):
            return _name(value)
        return self.named(type(value))

    def of(self, value: Any, depth: int) -> str:
        """Return a text that is alike for equal values."""
        kind = type(value)
        if kind in _SIMPLE:
            return f"{kind.__name__} {value!r}"
        if depth > _DEEPEST:
            return _name(kind)
        if id(value) in self._made:
            return self._made[id(value)][1]
        self._made[id(value)] = value, _name(kind)  # of what has itself in it
        try:
            made = _digest(self._text(value, depth + 1))
        except Exception:  # what cannot be looked at counts by its type
            made = _name(kind)
        self._made[id(value)] = value, made
        return made

    def _text(self, value: Any, depth: int) -> str:
        kind = _name(type(value))
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.ModuleType):
            return f"{kind} {value.__name__}"
        if isinstance(value, type):
            return f"{kind} {_name(value)} {self._members(value, depth) if _is_own(value.__module__) else ''}"
        if isinstance(value, enum.Enum):
            return f"{kind} {value.name} {self.of(value.value, depth)}"
        if isinstance(value, np.generic) or type(value) is np.ndarray:
            content = self._all(value.tolist(), depth) if value.dtype.hasobject else _digest(value.tobytes())
            return f"{kind} {value.dtype!r} {value.shape} {content}"
        if type(value) in (tuple, list):
            return f"{kind} {self._all(value, depth)}"
        if type(value) in (set, frozenset):  # whose order is another in each process
            return f"{kind} {sorted(self.of(one, depth) for one in tuple(value))}"
        if type(value) is dict:
            pairs = tuple(value.items())
            return f"{kind} {sorted((self.of(name, depth), self.of(one, depth)) for name, one in pairs)}"
        if (values := _values(value)) is not None:
            return f"{kind} {self.named(value)} {self._pairs(values, depth)}"
        return f"{kind} {self._object(value, depth)}"

    def _object(self, value: Any, depth: int) -> str:
        """Return what tells an object from others of its class, if that is the user's or says how it is pickled."""
        kind = type(value)
        if isinstance(value, types.BuiltinFunctionType | np.ufunc | types.FunctionType):
            return _name(value)
        if isinstance(value, _NUMBERS_OF_CHANCE):
            return ""
        if _is_own(kind.__module__):
            return f"{self.of(kind, depth)} {self._pairs(_attributes(value), depth)}"
        known = [getattr(kind, name) is not getattr(object, name) for name in ("__reduce__", "__reduce_ex__")]
        is_told = kind in copyreg.dispatch_table or any(known)
        return self._pairs(_attributes(value), depth) if is_told else ""

    def _code(self, code: types.CodeType) -> str:
        constants = tuple(one for one in code.co_consts if not isinstance(one, types.CodeType))
        inner = [self._code(one) for one in code.co_consts if isinstance(one, types.CodeType)]
        exceptions = getattr(code, "co_exceptiontable", b"").hex()
        return f"{code.co_code.hex()} {exceptions} {code.co_names} {self._all(constants, 0)} {inner}"

    def _members(self, kind: type, depth: int) -> str:
        """Return the functions and values of a class of the user, and of those of his that it is made of."""
        values: _Values = [("bases", tuple(_name(base) for base in kind.__mro__))]
        for base in kind.__mro__:
            for name, value in sorted(vars(base).items()) if _is_own(base.__module__) else ():
                inner = [getattr(value, part, None) for part in ("__func__", "fget", "fset", "func")]
                functions = [one for one in (value, *inner) if isinstance(one, types.FunctionType)]
                if functions or not name.startswith("__"):
                    values.append((f"{_name(base)} {name}", functions or value))
        return self._pairs(values, depth)

    def _pairs(self, values: _Values, depth: int) -> str:
        return str([(name, self.of(value, depth)) for name, value in values])

    def _all(self, values: Any, depth: int) -> str:
        return str([self.of(value, depth) for value in tuple(values)])


def _name(named: Any) -> str:
    name = getattr(named, "__qualname__", None) or getattr(named, "__name__", "")
    return f"{getattr(named, '__module__', None)}.{name}"


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]
