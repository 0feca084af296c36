"""Arguments of uproot that do not apply here: accepted if they change nothing, refused with advice otherwise."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from femtobarn._core import SETTINGS, nearest
from femtobarn.errors import UsageError

__all__ = ["check_open_options", "check_read_options", "known_options", "no_mode", "split_open_options", "with_cache"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# They tune parts of uproot that do not exist here.
_OPEN = frozenset(
    {
        "array_cache",
        "begin_chunk_size",
        "custom_classes",
        "handler",
        "http_max_header_bytes",
        "max_num_elements",
        "minimal_ttree_metadata",
        "num_fallback_workers",
        "num_workers",
        "object_cache",
        "timeout",
        "use_threads",
    }
)
_OPEN_HERE = ("progress", "verify_checksums", "memory_map", "cache", "storage_options")
_READ = frozenset(
    {
        "array_cache",
        "decompression_executor",
        "interpretation",
        "interpretation_executor",
        "language",
    }
)
_REFUSED = {
    "cut": "array reads one field and takes no cut: use arrays",
    "aliases": "array reads one field and takes no aliases: use arrays",
    "access_log": "access_log is not an argument: after reading with virtual=True, see the access_log of the ntuple",
}
_ONLY = {
    "backend": ("cpu", "arrays are in CPU memory: convert them with ak.to_backend"),
    "interpreter": ("cpu", "arrays are in CPU memory"),
    "virtual": (False, "only arrays of several fields can be virtual: use arrays or iterate"),
}


_READ_ONLY = (
    "fb.open only reads and takes no mode: fb.recreate creates or replaces a file, fb.create creates a new file, "
    "fb.update adds to a file"
)


def no_mode(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function that opens files reject a file mode as second argument, with advice.

    Parameters
    ----------
    function : callable
        Its first argument is the files; it has no second positional argument.

    Returns
    -------
    callable
        The function.
    """

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) == 2 and isinstance(args[1], str) and re.fullmatch(r"[rwaxbt+]{1,3}", args[1]):
            raise UsageError(_READ_ONLY)
        if len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], str):
            raise UsageError(f"write the name of the ntuple after the path: {args[0] + ':' + args[1]!r}")
        return function(*args, **kwargs)

    return checked


def check_open_options(options: Mapping[str, Any]) -> None:
    """Raise for options of `open` that neither femtobarn nor uproot has."""
    for name in options:
        if name == "mode":
            raise UsageError(_READ_ONLY)
        if name not in _OPEN:
            raise _unknown(name, ["threads", "allow_missing", *_OPEN_HERE])


def split_open_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the options of `open` from all others, and drop uproot's tuning options."""
    opening = {name: value for name, value in options.items() if name in _OPEN_HERE}
    others = {n: value for n, value in options.items() if n not in opening and n not in _OPEN}
    opening["storage_options"] = with_cache(opening.get("storage_options"), opening.pop("cache", None))
    return opening, others


def with_cache(
    storage_options: Mapping[str, Any] | None, cache: str | os.PathLike[str] | None
) -> Mapping[str, Any] | None:
    """Return storage options with the cache, if one is given."""
    return storage_options if cache is None else {**(storage_options or {}), "cache": os.fspath(cache)}


def check_read_options(options: Mapping[str, Any]) -> None:
    """Raise for options of reading that are not supported, or that neither femtobarn nor uproot has."""
    known = ["filter_name", "filter_typename", "filter_field", "filter_branch", "entry_start", "entry_stop"]
    known += ["cut", "aliases", "library", "how", "ak_add_doc", "virtual", "record", "threads"]
    for name, value in options.items():
        if name in _REFUSED:
            if value is not None:
                raise UsageError(_REFUSED[name])
        elif name in _ONLY:
            if value != _ONLY[name][0]:
                raise UsageError(f"{name}={value!r} is not supported: {_ONLY[name][1]}")
        elif name not in _READ:
            raise _unknown(name, known)


# Names of options in other programs, including `fb`.
_SYNONYMS = {"force": "overwrite", "cut": "where", "condition": "where", "columns": "fields", "num_threads": "threads"}


def _unknown(name: str, known: list[str]) -> TypeError:
    if name in SETTINGS:
        return TypeError(
            f"unexpected keyword argument {name!r}: it is a setting; give storage_options={{{name!r}: …}} to the "
            f"function that opens the files, or set the variable FEMTOBARN_{name.upper()}"
        )
    meant = _SYNONYMS.get(name)
    near = [meant] if meant in known else nearest(name, known)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return TypeError(f"unexpected keyword argument {name!r}{hint}")


def known_options(like: Callable[..., Any] | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function suggest the right name for an option that it does not have.

    Parameters
    ----------
    like : callable, optional
        A function whose options are allowed as well.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        both = [function] if like is None else [function, like]
        parameters = [parameter for one in both for parameter in inspect.signature(one).parameters.values()]
        no_option = ("self", "cls")
        known = [p.name for p in parameters if p.name not in no_option and p.kind is not inspect.Parameter.VAR_KEYWORD]
        names = frozenset(known)

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if not names.issuperset(kwargs):
                raise _unknown(next(name for name in kwargs if name not in names), known)
            return function(*args, **kwargs)

        return checked

    return decorate
