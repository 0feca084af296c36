"""Opening golden JSON files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from femtobarn import _core
from femtobarn._files.lumi_mask import LumiMask, of_json
from femtobarn._files.open import settings_of
from femtobarn.errors import UsageError

__all__ = ["lumi_mask"]


def lumi_mask(
    golden: str | os.PathLike[str] | Mapping[Any, Any], *, storage_options: Mapping[str, Any] | None = None
) -> LumiMask:
    """Read the certified luminosity blocks of a golden JSON.

    Parameters
    ----------
    golden : str, path or dict
        Path or URL of the JSON file; or its content: ranges of luminosity blocks, both ends included, by run.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    LumiMask
        A mask for arrays, cuts and skims.

    Raises
    ------
    FileError
        If the file cannot be read.
    UsageError
        If it is not a golden JSON.

    See Also
    --------
    femtobarn.NTuple.arrays : `cut` takes a mask, or ``'lumi_mask("golden.json")'`` as a part of a condition.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.lumi_mask({"297056": [[1, 90], [93, 120]]})
    <LumiMask: 118 luminosity blocks of 1 runs>
    """
    if isinstance(golden, Mapping):
        return of_json(json.dumps({str(run): _plain(ranges) for run, ranges in golden.items()}))
    place = os.fspath(golden)
    if not isinstance(place, str):
        raise UsageError(f"golden must be a path, a URL or a dict, not {golden!r}")
    settings = {} if storage_options is None else settings_of(storage_options)
    return LumiMask(_core.LumiMask(place, settings), None if place.lstrip().startswith("{") else place)


def _plain(ranges: Any) -> Any:
    """Return ranges as lists of integers, also if they are tuples or arrays."""
    if hasattr(ranges, "tolist"):
        return ranges.tolist()
    return [_plain(item) for item in ranges] if isinstance(ranges, (list, tuple)) else ranges
