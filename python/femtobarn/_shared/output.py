"""Output paths and compression."""

from __future__ import annotations

import os
import re
from typing import Any

from femtobarn import _core
from femtobarn.errors import UsageError

__all__ = ["Path", "compression_settings", "plain_path", "root_path"]

Path = str | os.PathLike[str]


def compression_settings(compression: Any) -> int:
    """Turn a compression setting into ROOT's number.

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
        If the algorithm or the level does not exist.

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
    """Return an output path: with its home directory instead of ``~``, and without an object name.

    Parameters
    ----------
    path : str or path
        What the user gave.
    place : str
        The position of the argument, for messages.

    Returns
    -------
    str
        The path.

    Raises
    ------
    UsageError
        If the argument is not a path, or if it ends with the name of an object, as paths for reading may.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"the output path, such as 'new.root', must come {place}, not a {type(path).__name__}")
    text = _core.local_path(os.fspath(path))
    found = re.fullmatch(r"(.+\.root):([^/\\]+(?:/.*)?)", text, re.IGNORECASE | re.DOTALL)
    if found and not _core.is_object_set(text) and not os.path.exists(text):  # noqa: PTH110
        raise UsageError(f"invalid output path {text!r}: give the path {found[1]!r}, and {found[2]!r} as the name")
    if text == "-":
        raise UsageError("cannot write to standard output: give the path of a file")
    return text


def root_path(path: Path) -> str:
    """Return the path of a ROOT file to write: as `plain_path`, but refuse the file extension of a table."""
    text = plain_path(path)
    if _core.public_url(text).lower().endswith((".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")):
        raise UsageError(
            f"{text!r} would be a ROOT file: use the extension .root, or fb.convert('file.root', {text!r}) for a table"
        )
    return text
