"""Functions of Numba that take one event: their loop over a batch is compiled, too."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._files.flat import flat_view, named_tuple, named_tuple_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from femtobarn._files.entry_batch import EntryBatch

__all__ = ["CompiledCalls", "is_compiled"]

_MOST_FUNCTIONS = 64
_MOST_FIELDS = 64  # with more, only those are passed whose names are in the code of the function
_INDIRECT = ("index", "tags")  # members of optional values and variants, which point into the others


def is_compiled(function: Any) -> bool:
    """Return whether a function was compiled by Numba."""
    return type(function).__module__.startswith("numba.") and hasattr(function, "py_func")


class CompiledCalls:
    """Calls of a compiled function for the entries of a batch.

    An event is a named tuple of numbers and NumPy arrays.

    Parameters
    ----------
    function : callable
        The function.
    batch : EntryBatch
        The entries.
    """

    def __init__(self, function: Any, batch: EntryBatch) -> None:
        self._function = function
        self._n = len(batch)
        names = batch.fields
        if len(names) > _MOST_FIELDS:
            names = [name for name in names if name in function.py_func.__code__.co_names] or names[:1]
        self._columns = named_tuple("Columns", {name: flat_view(batch[name].layout, name) for name in names})
        self._entry = _Expression(self._columns)

    def all(self) -> list[Any] | None:
        """Return the results for all entries; None if the loop failed or could not be compiled.

        Single calls then give the same results, and tell which entry fails.
        """
        try:
            return list(self._entry.loop(self._function)(self._columns, self._n)) if self._n else []
        except Exception:
            return None

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries as they are passed to the function."""
        make = self._entry.function()
        return (make(self._columns, at) for at in range(self._n))


class _Expression:
    """The code that makes entry i of the columns c."""

    def __init__(self, columns: Any) -> None:
        self._classes: list[Any] = []
        members = {name: self._value(getattr(columns, name), f"c.{name}", "i") for name in columns._fields}
        self._source = self._named("Entry", members)

    def function(self) -> Any:
        """Return it as a function."""
        return _compiled(f"def entry(c, i):\n    return {self._source}\n", tuple(self._classes))

    def loop(self, function: Any) -> Any:
        """Return a compiled function that calls another one for all entries."""
        return _loop(function, self._source, tuple(self._classes))

    def _named(self, name: str, members: dict[str, str]) -> str:
        made = named_tuple_class(name, tuple(members))
        if made not in self._classes:
            self._classes.append(made)
        return f"T{self._classes.index(made)}({', '.join(members.values())})"

    def _value(self, view: Any, at: str, index: str) -> str:
        """Return the expression of one value of a view."""
        if isinstance(view, np.ndarray):
            return f"{at}[{index}]"
        name, first, fields = type(view).__name__, view._fields[0], view._fields
        if first == "offsets":
            limits = f"{at}.offsets[{index}]", f"{at}.offsets[{index} + 1]"
            members = {field: self._range(getattr(view, field), f"{at}.{field}", *limits) for field in fields[1:]}
            return members["values"] if list(members) == ["values"] else self._named(name, members)
        if first in _INDIRECT:
            return self._named(
                name, {one: f"{at}.{one}[{index}]" if one in _INDIRECT else f"{at}.{one}" for one in fields}
            )
        return self._named(name, {one: self._value(getattr(view, one), f"{at}.{one}", index) for one in fields})

    def _range(self, view: Any, at: str, start: str, stop: str) -> str:
        """Return the expression of a range of values of a view."""
        if isinstance(view, np.ndarray):
            return f"{at}[{start}:{stop}]"
        name, first, fields = type(view).__name__, view._fields[0], view._fields
        if first == "offsets":
            return self._named(
                name, {"offsets": f"{at}.offsets[{start}:{stop} + 1]"} | {n: f"{at}.{n}" for n in fields[1:]}
            )
        if first in _INDIRECT:
            return self._named(
                name, {one: f"{at}.{one}[{start}:{stop}]" if one in _INDIRECT else f"{at}.{one}" for one in fields}
            )
        return self._named(name, {one: self._range(getattr(view, one), f"{at}.{one}", start, stop) for one in fields})


def _compiled(source: str, classes: tuple[Any, ...], **names: Any) -> Any:
    """Return the function of some code."""
    known = {f"T{n}": one for n, one in enumerate(classes)} | names
    exec(source, known)
    return next(reversed(known.values()))


@functools.lru_cache(maxsize=_MOST_FUNCTIONS)
def _loop(function: Any, source: str, classes: tuple[Any, ...]) -> Any:
    code = (
        f"def loop(c, n):\n    i = 0\n    found = [function({source})]\n"
        f"    for i in range(1, n):\n        found.append(function({source}))\n    return found\n"
    )
    return importlib.import_module("numba").njit(_compiled(code, classes, function=function))
