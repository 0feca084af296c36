"""What is known of files: numbers of entries, UUIDs and clusters, in a file of SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn._files.pickled import absolute, local_state
from femtobarn.errors import FileError

if TYPE_CHECKING:
    from femtobarn._shared.output import Path as PathLike

__all__ = ["FileCache", "Known"]

_TABLE = """CREATE TABLE IF NOT EXISTS files (
    url TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, uuid BLOB NOT NULL, entries INTEGER NOT NULL,
    clusters TEXT, PRIMARY KEY (url, name)
) WITHOUT ROWID"""
_PATIENCE = 60.0  # seconds, for another process that writes


@dataclass(frozen=True)
class Known:
    """What is known of an ntuple in a file.

    Attributes
    ----------
    uuid : bytes
        The UUID of the file, 16 bytes.
    num_entries : int
        The number of entries.
    clusters : tuple of int, optional
        The first entry of each cluster, and the number of entries; None if it was not needed.
    """

    uuid: bytes
    num_entries: int
    clusters: tuple[int, ...] | None = None


class FileCache(MutableMapping[Any, Any]):
    """Numbers of entries, UUIDs and clusters of files, which later runs need not open again.

    It is a file of SQLite, which several processes can use at the same time. coffea's Runner takes it as
    `metadata_cache`. A local file is opened again if its size or time has changed.

    Parameters
    ----------
    path : str or path
        The file; it is created if it does not exist.

    Raises
    ------
    FileError
        If the file is not such a cache, or cannot be written.

    Examples
    --------
    >>> from femtobarn.coffea import FileCache
    >>> cache = FileCache(tmp / "files.sqlite")
    >>> len(cache)
    0
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], tuple[str, Known]] = {}
        with self._opened() as database:
            for url, name, state, uuid, entries, clusters in database.execute("SELECT * FROM files"):
                known = Known(uuid, entries, None if clusters is None else tuple(json.loads(clusters)))
                self._found[url, name] = state, known

    def _opened(self) -> closing[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            database.execute(_TABLE)
        except sqlite3.Error as error:
            advice = "use another path, or remove the file" if Path(self.path).exists() else "check its directory"
            raise FileError(f"cannot use {self.path} as a cache of files: {error}; {advice}") from None
        return closing(database)

    def find(self, url: str, name: str, *, clusters: bool = False) -> Known | None:
        """Return what is known of an ntuple.

        Parameters
        ----------
        url : str
            The path or URL of the file.
        name : str
            The name of the ntuple.
        clusters : bool
            Whether the clusters are needed.

        Returns
        -------
        Known or None
            What is known; None if it is nothing, the file has changed, or clusters are needed and not known.
        """
        state, known = self._found.get((absolute(url), name), ("", None))
        if known is None or (clusters and known.clusters is None) or _state(url) != state:
            return None
        return known

    def add(self, found: list[tuple[str, str, Known]]) -> None:
        """Add what is known of ntuples: URLs, names, and what is known.

        Parameters
        ----------
        found : list of (str, str, Known)
            The ntuples. All are written at once.
        """
        rows = []
        for url, name, known in found:
            key, state = (absolute(url), name), _state(url)
            _, before = self._found.get(key, (state, None))
            if known.clusters is None and before is not None and before.uuid == known.uuid:
                known = replace(known, clusters=before.clusters)
            clusters = None if known.clusters is None else json.dumps(known.clusters)
            rows.append((*key, state, known.uuid, known.num_entries, clusters))
            self._found[key] = state, known
        with self._lock, self._opened() as database:
            try:
                database.execute("BEGIN")
                database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
                database.execute("COMMIT")
            except sqlite3.Error as error:
                raise FileError(f"cannot write to {self.path}, the cache of files: {error}") from None

    # -- as coffea uses it: by FileMeta, with metadata -------------------------------------------------------

    def __contains__(self, meta: object) -> bool:
        return self._of(meta) is not None

    def __getitem__(self, meta: Any) -> dict[str, Any]:
        known = self._of(meta)
        if known is None:
            raise KeyError(meta)
        return {**(meta.metadata or {}), **metadata_of(known)}

    def __setitem__(self, meta: Any, metadata: dict[str, Any]) -> None:
        clusters = metadata.get("clusters")
        entry = tuple(clusters) if clusters is not None else None
        self.add([(meta.filename, meta.treename, Known(metadata["uuid"], metadata["numentries"], entry))])

    def __delitem__(self, meta: Any) -> None:
        key = absolute(meta.filename), meta.treename
        del self._found[key]
        with self._lock, self._opened() as database:
            database.execute("DELETE FROM files WHERE url = ? AND name = ?", key)

    def _of(self, meta: Any) -> Known | None:
        return self.find(meta.filename, meta.treename)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(list(self._found))

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return FileCache, (self.path,)

    def __repr__(self) -> str:
        return f"<FileCache {self.path}: {len(self)} files>"


def metadata_of(known: Known) -> dict[str, Any]:
    """Return what coffea calls the metadata of a file."""
    found: dict[str, Any] = {"numentries": known.num_entries, "uuid": known.uuid}
    return found if known.clusters is None else found | {"clusters": list(known.clusters)}


def _state(url: str) -> str:
    """Return the state of a local file. Files on servers have none: reading compares their UUIDs."""
    found = local_state(url)
    return "" if found is None else f"{found[0]} {found[1]}"
