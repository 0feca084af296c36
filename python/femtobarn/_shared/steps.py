"""Conversion of entry ranges, step sizes and thread counts to plain numbers."""

from __future__ import annotations

import numbers
import operator
import os
from typing import SupportsIndex

from femtobarn._core import parse_bytes
from femtobarn.errors import UsageError

__all__ = ["as_integer", "check_step_size", "clip_entries", "num_bytes", "num_threads", "step_entries"]

_MOST_THREADS = 1024


def as_integer(value: object) -> int:
    """Return an integer; a float with an integral value is accepted: 1e3 is 1000.

    Parameters
    ----------
    value : int or float
        The number.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    TypeError
        If the value is not integral.

    Examples
    --------
    >>> from femtobarn._shared.steps import as_integer
    >>> as_integer(1e3)
    1000
    """
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        number = float(value)
        if number.is_integer():
            return int(number)
    return operator.index(value)  # type: ignore[arg-type]


def clip_entries(num_entries: int, start: SupportsIndex | None, stop: SupportsIndex | None) -> tuple[int, int]:
    """Turn a range with None and negative numbers into one inside ``[0, num_entries]``.

    Parameters
    ----------
    num_entries : int
        Total number of entries.
    start, stop : int or None
        First entry, and the one after the last; negative numbers count from the end, as in a slice.

    Returns
    -------
    tuple of int
        Start and stop, with ``0 <= start <= stop <= num_entries``.

    Examples
    --------
    >>> from femtobarn._shared.steps import clip_entries
    >>> clip_entries(100, -10, None)
    (90, 100)
    """
    try:
        limits = [None if limit is None else as_integer(limit) for limit in (start, stop)]
        first, last, _ = slice(*limits).indices(num_entries)
    except TypeError:
        raise UsageError(f"entry_start and entry_stop must be integers or None, not {start!r} and {stop!r}") from None
    return first, max(first, last)


def num_bytes(size: str | SupportsIndex) -> int:
    """Turn "100 MB" into a number of bytes.

    Parameters
    ----------
    size : str or int
        A number and a unit, as "100 MB" (powers of 1000) or "1 GiB" (of 1024); an int is a number of bytes.

    Returns
    -------
    int
        Number of bytes.

    Raises
    ------
    UsageError
        If the string is not a number and a unit, or if the size is too large.

    Examples
    --------
    >>> from femtobarn._shared.steps import num_bytes
    >>> num_bytes("1.5 kB"), num_bytes("1 MiB")
    (1500, 1048576)
    """
    if not isinstance(size, str):
        try:
            return as_integer(size)
        except TypeError:
            raise UsageError(f"a memory size must be a number of bytes or a string as '100 MB', not {size!r}") from None
    n_bytes = parse_bytes(size)
    if n_bytes is None:
        raise UsageError(f"invalid size {size!r}: give a number and a unit, such as '100 MB'")
    return n_bytes


def check_step_size(step_size: str | SupportsIndex) -> None:
    """Raise for an invalid step size, so that the error comes from the call and not from the first step."""
    step_entries(step_size, 1, 1)


def step_entries(step_size: str | SupportsIndex, decoded_bytes: int, num_entries: int) -> int:
    """Turn a step size into a number of entries.

    Parameters
    ----------
    step_size : str or int
        An int is a number of entries, a string the memory that one step may take.
    decoded_bytes : int
        Memory that all the entries take, in bytes.
    num_entries : int
        Number of entries.

    Returns
    -------
    int
        Entries in a step, at least 1.
    """
    if not isinstance(step_size, str):
        try:
            step = as_integer(step_size)
        except TypeError:
            raise UsageError(
                f"step_size must be a number of entries or a memory size such as '100 MB', not {step_size!r}"
            ) from None
        if step < 1:
            raise UsageError(f"step_size must be at least 1 entry, not {step}")
        return step
    if step_size.strip().isdecimal():
        number = step_size.strip()
        raise UsageError(
            f"step_size={step_size!r} has no unit: pass the integer {number} for {number} entries, or a memory size "
            "such as '100 MB'"
        )
    target = num_bytes(step_size)
    if decoded_bytes <= 0:
        return max(1, num_entries)
    return max(1, round(target * num_entries / decoded_bytes))


def num_threads(threads: int | None) -> int:
    """Return how many threads to use.

    Parameters
    ----------
    threads : int or None
        Requested number. None: the variable FEMTOBARN_THREADS, or else the number of cores of this process.

    Returns
    -------
    int
        Number of threads, at least 1.
    """
    source = "threads"
    if threads is None:
        text = os.environ.get("FEMTOBARN_THREADS", "").strip()
        if not text:
            return _num_cores()
        source = "the variable FEMTOBARN_THREADS"
        try:
            threads = int(text)
        except ValueError:
            raise UsageError(f"{source} must be a number of threads, not {text!r}") from None
    try:
        threads = as_integer(threads)
    except TypeError:
        raise UsageError(f"{source} must be a number of threads or None, for all cores, not {threads!r}") from None
    if not 1 <= threads <= _MOST_THREADS:
        raise UsageError(f"{source} must be from 1 to {_MOST_THREADS}, not {threads}")
    return threads


def _num_cores() -> int:
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):  # not available on macOS
        return os.cpu_count() or 1
