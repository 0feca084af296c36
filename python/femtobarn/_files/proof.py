"""Comparison of an ntuple with its inputs."""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.entries import entry_slice, joining
from femtobarn._shared.patterns import patterns
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.open import Files
    from femtobarn._shared.progress import Progress

__all__ = ["proven", "verified"]


def verified(files: list[tuple[str, int, str]]) -> dict[str, Any]:
    """Combine what was found in each file, with its first entry, to the values for a `VerifyReport`."""
    each = [(file, first, json.loads(found)) for file, first, found in files]
    sums = ("clusters", "pages", "pages_without_checksum", "bytes")
    return {
        **{name: sum(found[name] for _, _, found in each) for name in sums},
        "damages": [
            {"file": file, **damage, **{name: first + damage[name] for name in ("entry_start", "entry_stop")}}
            for file, first, found in each
            for damage in found["damages"]
        ],
        "not_checked": [{"file": file, **field} for file, _, found in each for field in found["not_checked"]],
        "nothing_checked": [file for file, _, found in each if found["nothing_checked"]],
    }


def proven(
    ntuple: NTuple,
    against: Files,
    given: dict[str, Any],
    threads: int,
    progress: Progress,
) -> dict[str, Any]:
    """Compare an ntuple with its inputs, with the arguments of `verify`; return the values for a `VerifyReport`."""
    from femtobarn._files.open import resolve

    entries, since = given["entries"], given["since"]
    if entries is not None and given["where"] is not None:
        raise UsageError("give either a range (entries=) or a condition (where=), not both")
    if len(ntuple.files) != 1:
        raise UsageError(f"only a single file can be compared with its inputs, not {len(ntuple.files)} together")
    first = 0 if since is None else operator.index(since)
    if not 0 <= first <= ntuple.num_entries:
        raise UsageError(f"since must be from 0 to {ntuple.num_entries}, not {first}")
    [output] = ntuple.files
    settings = ntuple._reopen.get("settings", {})
    join = None
    if given["beside"]:
        join = joining(given["on"], given["fields"], given["unmatched"] or "error")
    elif given["on"] is not None or given["unmatched"] is not None:
        raise UsageError("on and unmatched need inputs that are side by side (beside=True)")
    found = _core.prove(
        output,
        resolve(against, settings),
        values=bool(given["values"]),
        entries=None if entries is None else entry_slice(entries),
        condition=given["where"],
        since=first,
        fields=[] if join else patterns("fields", given["fields"]),
        join=join,
        damaged=given["damaged"],
        settings=settings,
        threads=threads,
        tick=progress.tick,
    )
    [proof] = json.loads(found)["ntuples"]
    return {"against": proof, "differences": proof.pop("differences")}
