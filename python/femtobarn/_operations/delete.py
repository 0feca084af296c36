"""Deleting ntuples, and what killed writers have left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from femtobarn import _core
from femtobarn._files.open import settings_of
from femtobarn._shared.compat import known_options
from femtobarn.errors import UsageError

__all__ = ["delete", "sweep"]


@known_options()
def delete(url: str, *, storage_options: Mapping[str, Any] | None = None) -> int:
    """Delete an ntuple that is stored as objects or in DAOS, with its attribute sets.

    Objects of other ntuples that a merged one refers to stay. Deleting an ntuple that a merged one refers to makes that
    one unreadable: `info` shows what an ntuple refers to.

    Parameters
    ----------
    url : str
        The URL of objects, such as ``ntpl+s3://bucket/prefix``, or of an ntuple in DAOS, ``daos://pool/container:name``.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    int
        Number of deleted objects, with the anchor, or of values of DAOS.

    Raises
    ------
    FileNotFoundError
        If the ntuple does not exist.
    UsageError
        If the URL is that of a file.

    See Also
    --------
    sweep : Deletes what killed writers have left.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.write(f"ntpl+file://{tmp}/old", {"x": [1.0, 2.0]})
    2
    >>> fb.delete(f"ntpl+file://{tmp}/old")
    5
    """
    return _core.delete(os.fspath(url), settings_of(storage_options or {}))


@known_options()
def sweep(
    target: str | os.PathLike[str],
    *,
    age: float = 86_400.0,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Delete what killed writers have left: temporary files in a directory, objects, or values in DAOS.

    Parameters
    ----------
    target : str or path
        A directory, the URL of objects, such as ``ntpl+s3://bucket/prefix``, or a container of DAOS,
        ``daos://pool/container``.
    age : float, default 86400
        Minimum age of objects and values in seconds: the writer of younger ones may still be working. Temporary files
        that are being written have a lock, and stay.
    dry_run : bool, default False
        Whether nothing is deleted.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    list of str
        Names of what was deleted, or would be.

    Raises
    ------
    UsageError
        If `age` is negative.
    FileNotFoundError
        If the directory or the container does not exist.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.sweep(tmp)
    []
    """
    if not age >= 0:
        raise UsageError(f"age must be a number of seconds, not {age!r}")
    return _core.sweep(os.fspath(target), age=age, deletes=not dry_run, settings=settings_of(storage_options or {}))
