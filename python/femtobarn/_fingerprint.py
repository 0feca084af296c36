"""What a function is, and what it reads, in short texts that are alike in each process.

By them a checkpoint is known to be of the same work. What counts is code and values of the user; of installed packages,
names. Values count by their content, objects as they are pickled; what cannot be pickled counts by its class.
"""

from __future__ import annotations

import argparse
import enum
import functools
import types
from typing import Any

import numpy as np

from femtobarn._code_reads import is_found_by_name, is_own, named_reads
from femtobarn._digests import Digests, digest, name_of, reduced

__all__ = ["fingerprint"]

_SHOWN = (int, float, complex, bool, type(None))  # not texts, which may be secrets
_NAMED = 4  # so deep, values have names of their own

_Values = list[tuple[str, Any]]


def fingerprint(name: str, function: Any, unseen: dict[str, str] | None = None) -> dict[str, str]:
    """Return what a function is, and by their names what it reads: defaults, what it encloses, globals.

    Parameters
    ----------
    name : str
        What to call it.
    function : callable
        The function.
    unseen : dict, optional
        Takes by their names the classes of values of which nothing but the class counts, as they cannot be pickled.

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
    digests = Digests(_called)
    seen: dict[int, Any] = {}  # with the values, so that their numbers stay theirs

    def note(name: str, value: Any, depth: int) -> None:
        values = None
        if depth < _NAMED and id(value) not in seen:
            values = _attributes(value, is_first=depth == 0) if (called := _called(value)) is None else called
        digests.unseen.clear()
        if values is None:
            found[name] = _shown(digests, value)
        else:
            seen[id(value)] = value
            found[name] = _named(digests, value)
        if unseen is not None and digests.unseen:
            unseen[name] = ", ".join(sorted(digests.unseen))
        for inner, one in values or ():
            note(f"{inner} of {name}", one, depth + 1)

    if getattr(function, "__globals__", {}).get("__name__", "").startswith("femtobarn."):  # as that of aio.process
        function = getattr(function, "__wrapped__", function)
    note(name, function, 0)
    return found


def _attributes(value: Any, *, is_first: bool) -> _Values | None:
    """Return the attributes of an object that has nothing else, so that each counts by itself; None if there is more.

    Of the function itself, there may be more.
    """
    if isinstance(value, argparse.Namespace | types.SimpleNamespace):
        return sorted(vars(value).items())
    if isinstance(value, type | types.FunctionType | enum.Enum) or not is_own(type(value).__module__):
        return None
    values = reduced(value)
    is_plain = values[1:2] == [("arguments", (type(value),))] and values[-1][0] not in ("items", "pairs")
    return values[2:] if is_plain else values if is_first else None


def _called(value: Any) -> _Values | None:
    """Return what a callable reads, by names; None if it is none, or one of an installed package."""
    if isinstance(value, types.FunctionType):
        implementations = getattr(value, "registry", None)  # of functools.singledispatch
        if isinstance(implementations, types.MappingProxyType) and hasattr(value, "dispatch"):
            return [(f"for {name_of(kind)}", one) for kind, one in implementations.items()]
        is_read = is_own(value.__module__) or not is_found_by_name(value)
        return list(named_reads(value)) if is_read else None
    if isinstance(value, types.MethodType):
        return [*(_called(value.__func__) or []), ("self", value.__self__)]
    if isinstance(value, functools.partial):
        arguments = [(f"argument {n}", one) for n, one in enumerate(value.args)]
        return [("what is called", value.func), *arguments, *value.keywords.items(), *vars(value).items()]
    # what numba compiles has a number of chance in what it is pickled as
    if isinstance(value, functools._lru_cache_wrapper) or type(value).__module__.startswith("numba."):
        wrapped = getattr(value, "__wrapped__", None)
        return None if wrapped is None else [("what is called", wrapped)]
    return None


def _shown(digests: Digests, value: Any) -> str:
    """Return what messages show of a value: a number itself."""
    if type(value) in _SHOWN or isinstance(value, np.number | np.bool_):
        return repr(value)
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return _named(digests, value)
    return f"{type(value).__qualname__} ({digests.of(value)})"


def _named(digests: Digests, value: Any) -> str:
    """Return the name of a callable, with the digest of its own code."""
    if isinstance(value, types.MethodType):
        return _named(digests, value.__func__)
    if isinstance(value, functools.partial):
        return f"partial of {_named(digests, value.func)}"
    if isinstance(value, types.FunctionType):
        is_coded = is_own(value.__module__)
        return f"{name_of(value)} (code {digest(digests.of(value.__code__))})" if is_coded else name_of(value)
    if isinstance(value, type):
        return f"{name_of(value)} (code {digests.of(value)})" if is_own(value.__module__) else name_of(value)
    if isinstance(value, types.BuiltinFunctionType):
        is_bound = not isinstance(value.__self__, type | types.ModuleType | None)
        return f"{name_of(value)} of {digests.of(value.__self__)}" if is_bound else name_of(value)
    return (
        name_of(value)
        if hasattr(value, "__qualname__") or hasattr(value, "__wrapped__")
        else _named(digests, type(value))
    )
