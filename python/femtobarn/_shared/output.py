"""Where something is written, and how it is compressed."""

from __future__ import annotations

import os
import re
from typing import Any

from femtobarn import _core
from femtobarn.errors import UsageError

__all__ = ["Path", "compression_settings", "plain_path", "root_path"]

Path = str | os.PathLike[str]


def compression_settings(compression: Any) -> int:
    """Turn a compression as users say it into ROOT's number.

    Parameters
    ----------
    compression : str, int, None, tuple or an object of uproot
        "zstd:5", "lz4", "none", 505, ("zstd", 5) or ``uproot.ZSTD(5)``.

    Returns
    -------
    int
        100 times the algorithm plus the level; 0 for none.

    Raises
    ------
    UsageError
        If there is no such algorithm or level.

    Examples
    --------
    >>> from femtobarn._shared.output import compression_settings
    >>> compression_settings("zstd:5"), compression_settings(None)
    (505, 0)
    """
    if compression is None:
        return 0
    if isinstance(compression, tuple) and len(compression) == 2:
        compression = f"{compression[0]}:{compression[1]}"
    code = getattr(compression, "code", None)
    if code is not None:
        compression = code
    return _core.compression_settings(str(compression))


def plain_path(path: Path, place: str = "first") -> str:
    """Return a path to be written: with the home folder for ``~``, and without a name of an object in it.

    Parameters
    ----------
    path : str or path
        What the user gave.
    place : str
        Which of the arguments it is.

    Returns
    -------
    str
        The path.

    Raises
    ------
    UsageError
        If it is no path, or ends with the name of an object, as paths to be read may.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"where to write is a path, as 'new.root', and comes {place}: it is no {type(path).__name__}")
    text = os.path.expanduser(os.fspath(path))  # noqa: PTH111, for URLs pass
    found = re.fullmatch(r"(.+\.root):([^/\\]+(?:/.*)?)", text, re.IGNORECASE | re.DOTALL)
    if found and not os.path.exists(text):  # noqa: PTH110
        raise UsageError(f"{text!r} is where to write: give the path {found[1]!r}, and {found[2]!r} as the name")
    if text == "-":
        raise UsageError("nothing is written to standard output: give the path of a file")
    return text


def root_path(path: Path) -> str:
    """Return a path where a ROOT file is to be written: as `plain_path`, but not the name of a table."""
    text = plain_path(path)
    if _core.public_url(text).lower().endswith((".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")):
        raise UsageError(
            f"{text!r} would be a ROOT file: call it .root; fb.convert('file.root', {text!r}) makes such a table of one"
        )
    return text
