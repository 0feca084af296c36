"""Ntuples as pickles of few files, for other processes."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple

__all__ = ["absolute", "pickled_files", "unpickled"]

_MOST_KINDS = 8  # sets of fields among the files; with more, all files are opened together


def absolute(path: str) -> str:
    """Return the path of a file for processes in another directory; URLs stay as they are."""
    return path if "://" in path else os.path.abspath(path)


class _Reduced:
    """An object that is pickled as another object."""

    def __init__(self, reduced: tuple[Any, ...]) -> None:
        self._reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def pickled_files(ntuple: NTuple) -> Iterator[tuple[bytes, int]]:
    """Iterate over the files: yield a pickled ntuple of few files, and the number of its first entry.

    Each comes with one file of every other set of fields, in file order, so that fields and types match all files.
    """
    core = ntuple._core
    entries, kinds = core.file_entries(), core.kinds()
    firsts = {kind: file for file, kind in reversed(list(enumerate(kinds)))}
    if ntuple._attribute_of is not None or len(firsts) > _MOST_KINDS:
        whole = pickle.dumps(ntuple)
        for first in itertools.accumulate(entries[:-1], initial=0):
            yield whole, first
        return
    files, states = [(absolute(path), name) for path, name in core.origins()], core.states()
    for file, own in enumerate(kinds):
        some = [file if kind == own else firsts[kind] for kind in sorted(firsts)]
        start = sum(entries[one] for one in some[:own])
        reduced = ntuple._reopened([files[one] for one in some], [states[one] for one in some])
        yield pickle.dumps(_Reduced(reduced)), start


@functools.lru_cache(maxsize=4)
def unpickled(packed: bytes, process: int) -> NTuple:
    """Return the ntuple of a pickle; the same object if it was requested recently in the same process."""
    opened: NTuple = pickle.loads(packed)
    opened._known_lacking = []  # the process that pickled it has warned
    return opened
