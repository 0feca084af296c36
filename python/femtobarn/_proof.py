"""Comparing an ntuple with what it was made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._entries import entry_slice
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._ntuple import NTuple
    from femtobarn._open import Files
    from femtobarn._progress import Progress

__all__ = ["proven"]


def proven(
    ntuple: NTuple,
    against: Files,
    values: bool,
    entries: slice | range | tuple[int | None, int | None] | None,
    where: str | None,
    threads: int,
    progress: Progress,
) -> dict[str, Any]:
    """Compare an ntuple with its inputs; give what `VerifyReport` has of it."""
    from femtobarn._open import resolve

    if entries is not None and where is not None:
        raise UsageError("entries are those of a range (entries=) or of a condition (where=), not both")
    if len(ntuple.files) != 1:
        raise UsageError(f"one file is compared with its inputs, not {len(ntuple.files)} together")
    [output] = ntuple.files
    found = _core.prove(
        output,
        resolve(against),
        values=bool(values),
        entries=None if entries is None else entry_slice(entries),
        condition=where,
        threads=threads,
        tick=progress.tick,
    )
    [proof] = json.loads(found)["ntuples"]
    return {"against": proof, "differences": proof.pop("differences")}
