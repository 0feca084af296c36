"""Marks of methods, which say what their twins for asyncio do; `scripts/write_aio.py` writes the twins.

The twin of a method is awaited. If it is cancelled, it ends when its outcome is known: done completely or not at all.
`reads`, `at_once` and `paged` mark methods whose twins differ from this.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["at_once", "instead", "paged", "reads"]

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def reads(method: F) -> F:
    """Mark a method that changes nothing: its twin ends at once if it is cancelled."""
    method.twin = "reads"  # type: ignore[attr-defined]
    return method


def at_once(method: F) -> F:
    """Mark a method that makes no request to the store: its twin is not awaited."""
    method.twin = "at once"  # type: ignore[attr-defined]
    return method


def paged(method: Callable[Concatenate[S, P], Iterator[Iterable[R]]]) -> Callable[Concatenate[S, P], Iterator[R]]:
    """Make a generator of pages, one per request, a generator of their items; its twin fetches one page ahead."""

    @functools.wraps(method)
    def items(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return itertools.chain.from_iterable(method(self, *args, **kwargs))

    signature = inspect.signature(method)
    item = re.sub(r"\[Iterable\[(.*)\]\]$", r"[\1]", signature.return_annotation)
    vars(items).update(twin="paged", pages=method, __signature__=signature.replace(return_annotation=item))
    return items


def instead(given: object, way: str) -> str:
    """Return a hint for an asyncio object that was given where it is not supported.

    Parameters
    ----------
    given : object
        The given object; other objects get no hint.
    way : str
        How to do the same with asyncio.

    Returns
    -------
    str
        The end of a message.
    """
    is_twin = type(given).__module__.startswith("femtobarn._aio.")
    return f"; it is for asyncio: {way}, or give its .sync" if is_twin else ""
