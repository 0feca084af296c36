"""Files of ntuples, as other processes find and open them."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from femtobarn import _core

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple

__all__ = ["Place", "Places", "absolute", "local_state", "opened_files"]

_MOST_KINDS = 8  # sets of fields among the files; with more, all files are opened together
_MOST_OPEN = 16  # ntuples that a process keeps open for its next pieces

_State: TypeAlias = "tuple[int, int | None, str | None]"


def absolute(path: str) -> str:
    """Return the path of a file for processes in another directory; URLs stay as they are."""
    return path if "://" in path else os.path.abspath(path)


def local_state(path: str) -> tuple[int, int] | None:
    """Return size and time of a local file, which change if it is replaced.

    None stands for a missing file and for a URL: to ask a server takes a request.
    """
    if _core.is_remote(path):
        return None
    try:
        found = Path(_core.local_path(path)).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


class Place(NamedTuple):
    """A file, and the first of some entries in it, for any process.

    Attributes
    ----------
    path : str
        The absolute path of the file, or its URL.
    name : str or None
        The name of the ntuple, as the user has given it.
    state : tuple or None
        Size and time of the file, which must not change; None if nobody has opened it.
    start : int
        The first entry.
    kind : int
        Which set of fields the file has, if there are several.
    given : str or None
        The path as the user has given it, if it is another one.
    n_entries : int or None
        How many entries the file must have, if nobody has opened it.
    uuid : str or None
        The UUID that it must have, if nobody has opened it.
    """

    path: str
    name: str | None
    state: _State | None
    start: int = 0
    kind: int = 0
    given: str | None = None
    n_entries: int | None = None
    uuid: str | None = None

    @classmethod
    def of(cls, path: str, name: str | None, state: _State | None, **others: Any) -> Place:
        """Return the place of a path that the user has given."""
        found = absolute(path)
        return cls(found, name, state, given=None if found == path else path, **others)

    @property
    def file(self) -> str:
        """The path as the user has given it."""
        return self.given or self.path


class Places:
    """The files of an ntuple. Other processes can open each of them by its place.

    A file is opened with one file of every other set of fields, in file order, so that fields and types match all
    files. The object is sent to other processes with these files only.
    """

    def __init__(self, ntuple: NTuple) -> None:
        core = ntuple._core
        entries, kinds = core.file_entries(), core.kinds()
        files = zip(core.origins(), core.states(), kinds, strict=True)
        self._places = [Place.of(path, name, state, kind=kind) for (path, name), state, kind in files]
        self._entries = entries
        self._options = ntuple._options()
        self._firsts = {kinds[i]: (self._places[i], entries[i]) for i in reversed(range(len(kinds)))}
        self._whole: bytes | None = None
        self._starts: list[int] = []
        if ntuple._attribute_of is not None or len(self._firsts) > _MOST_KINDS:
            self._whole = pickle.dumps(ntuple)
            self._places = [place._replace(kind=i) for i, place in enumerate(self._places)]
            self._starts = list(itertools.accumulate(entries[:-1], initial=0))

    def __iter__(self) -> Iterator[tuple[int, Place]]:
        """Iterate over the number of entries and the place of each file."""
        return zip(self._entries, self._places, strict=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_places": [], "_entries": []}

    def opened(self, place: Place) -> tuple[NTuple, int]:
        """Return an ntuple that has the entries of a place, and the first of them there."""
        if self._whole is not None:
            return _unpickled(self._whole, os.getpid()), self._starts[place.kind] + place.start
        own = place._replace(start=0)
        some = [own if kind == place.kind else self._firsts[kind][0] for kind in sorted(self._firsts)]
        before = sum(n for kind, (_, n) in self._firsts.items() if kind < place.kind)
        return opened_files(some, self._options), before + place.start


def opened_files(places: list[Place], options: bytes) -> NTuple:
    """Return the ntuple of some files; the same object if it was requested recently in the same process.

    Parameters
    ----------
    places : list of Place
        The files.
    options : bytes
        How to open them, as `NTuple._options` returns it.

    Returns
    -------
    NTuple
        The ntuple.
    """
    files = tuple((place.path, place.name) for place in places)
    return _opened(files, tuple(place.state for place in places), options, os.getpid())


_last: NTuple | None = None  # whose schema others of the same kind take


@functools.lru_cache(maxsize=_MOST_OPEN)
def _opened(
    files: tuple[tuple[str, str | None], ...], states: tuple[_State | None, ...], options: bytes, process: int
) -> NTuple:
    global _last
    from femtobarn._files.ntuple import _reopen

    threads, progress, reopen = pickle.loads(options)
    known: Mapping[str, Any] = {} if None in states else {"states": list(states)}
    opened = _reopen(list(files), threads, progress, reopen, **known)
    opened._known_lacking = []  # the process that has found the files has warned
    if _last is not None and _last._opened is not None:
        opened._take_schema(_last)
    _last = opened
    return opened


@functools.lru_cache(maxsize=4)
def _unpickled(packed: bytes, process: int) -> NTuple:
    opened: NTuple = pickle.loads(packed)
    opened._known_lacking = []
    return opened
