"""Files as a list of sources, and filesets, as coffea has them: datasets with their files and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex
from uuid import UUID

from femtobarn._core import nearest
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import resolve
from femtobarn._shared.steps import as_integer
from femtobarn.errors import FileError, UsageError

__all__ = ["Source", "check_same", "is_fileset", "metadata_of", "ranges_of", "sources_of"]

# What the description of a dataset may have. Those of the second group concern other programs.
_OF_DATASET = ("files", "metadata", "treename")
_OF_OTHERS = ("form", "compressed_form", "format", "did")
_OF_FILE = ("object_path", "steps", "num_entries", "uuid")
_OF_FILE_OF_OTHERS = ("format", "lfn", "pfn", "num_selected_entries")


_NO_UUID = str(UUID(int=0))  # of many files of RNTuples


@dataclass(frozen=True)
class Source:
    """One file, or an open ntuple, and what a fileset says about it.

    Parameters
    ----------
    of : NTuple or tuple
        The open ntuple; or the path of a file, and the name of the ntuple in it or None.
    dataset : str or None
        The dataset that the file belongs to.
    metadata : dict
        The metadata of the dataset.
    steps : tuple of tuple of int, optional
        The ranges of entries to read; by default all entries.
    num_entries : int, optional
        Number of entries of the ntuple, if the fileset has it.
    uuid : str, optional
        The UUID of the file, if the fileset has it.
    first : int
        The entries before this one are not read.
    """

    of: NTuple | tuple[str, str | None]
    dataset: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    steps: tuple[tuple[int, int], ...] | None = None
    num_entries: int | None = None
    uuid: str | None = None
    first: int = 0

    @property
    def path(self) -> str:
        """The path of the file, or of the first file of the ntuple."""
        return self.of.file_path if isinstance(self.of, NTuple) else self.of[0]


def is_fileset(files: object) -> bool:
    """Return whether files are given as a fileset: a dict from names of datasets to lists or descriptions of files.

    Examples
    --------
    >>> from femtobarn._files.filesets import is_fileset
    >>> is_fileset({"tt": ["a.root", "b.root"]}), is_fileset({"tt": {"files": {"a.root": "Events"}}})
    (True, True)
    >>> is_fileset({"a.root": "Events"}), is_fileset({"a.root": {"object_path": "Events"}})
    (False, False)
    """
    files = _plain(files)
    return isinstance(files, Mapping) and any(
        isinstance(value, (list, tuple)) or (isinstance(value, Mapping) and "files" in value)
        for value in map(_plain, files.values())
    )


def sources_of(files: object, storage_options: Mapping[str, Any] | None) -> list[Source]:
    """Return the sources of files in order.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        A fileset, or files as for `open`; a list may contain open ntuples, and a dict may have them as values.
    storage_options : dict, optional
        Settings for the search for patterns on servers.

    Returns
    -------
    list of Source
        At least one.

    Raises
    ------
    NotFoundError
        If a pattern matches nothing.
    UsageError
        If the files or a fileset are described in another way.
    """
    files = _plain(files)
    if isinstance(files, Mapping) and is_fileset(files):
        found = [one for name, given in files.items() for one in _dataset(name, _plain(given), storage_options)]
    elif isinstance(files, Mapping):
        found = list(_described(files, "", None, storage_options))
    else:
        found = [Source(one) for one in _files(files, storage_options)]
    if not found:
        raise UsageError("no files given")
    return found


def metadata_of(files: object) -> dict[str, dict[str, Any]]:
    """Return the metadata of each dataset, in the order of the fileset; an empty dict for other files."""
    files = _plain(files)
    if not (isinstance(files, Mapping) and is_fileset(files)):
        return {}
    return {name: _metadata(name, _plain(given)) for name, given in files.items()}


def _metadata(name: object, given: object) -> dict[str, Any]:
    """Return the metadata of one dataset."""
    metadata = given.get("metadata") if isinstance(given, Mapping) else None
    if not (metadata is None or isinstance(metadata, Mapping)):
        raise UsageError(f"dataset {name!r}: metadata must be a dict, not {metadata!r}")
    return dict(metadata or {})


def _plain(given: object) -> object:
    """Return descriptions of coffea's classes as dicts."""
    return given.model_dump() if hasattr(given, "model_dump") else given


def _dataset(name: object, given: object, storage_options: Mapping[str, Any] | None) -> Iterator[Source]:
    if not isinstance(name, str):
        raise UsageError(f"the name of a dataset must be a string, not {name!r}")
    described = given if isinstance(given, Mapping) else {"files": given}
    _check_keys(f"dataset {name!r}", described, _OF_DATASET, _OF_OTHERS)
    own = _metadata(name, described)
    treename = described.get("treename")
    if not (treename is None or isinstance(treename, str)):
        raise UsageError(f"dataset {name!r}: treename must be the name of the ntuple, not {treename!r}")
    files = described.get("files")
    if files is None or (isinstance(files, (Mapping, list, tuple)) and not files):
        raise UsageError(f"dataset {name!r} has no files: give a list of paths, or a dict {{path: name of the ntuple}}")
    if isinstance(files, Mapping):
        for source in _described(files, f" of dataset {name!r}", treename, storage_options):
            yield replace(source, dataset=name, metadata=own)
        return
    for one in _files(files, storage_options):
        yield Source(one if isinstance(one, NTuple) else (one[0], one[1] or treename), name, own)


def _described(
    files: Mapping[Any, Any], of: str, treename: str | None, storage_options: Mapping[str, Any] | None
) -> Iterator[Source]:
    """Yield the sources of a dict from paths to names of ntuples or descriptions; `of` names the dataset in errors."""
    for path, value in files.items():
        described = _plain(value)
        if not isinstance(described, Mapping):
            for one in _files({path: treename if described is None else described}, storage_options):
                yield Source(one)
            continue
        where = f"file {path!r}{of}"
        _check_keys(where, described, _OF_FILE, _OF_FILE_OF_OTHERS)
        if described.get("format") not in (None, "root"):
            raise UsageError(f"{where} has the format {described['format']!r}: only ROOT files can be read")
        steps, n_entries = _steps(where, described), _number(where, described.get("num_entries"))
        uuid = described.get("uuid")
        pairs = resolve({path: described.get("object_path") or treename}, storage_options)
        if len(pairs) > 1 and any(known is not None for known in (steps, n_entries, uuid)):
            raise UsageError(
                f"{where}: steps, num_entries and uuid belong to one file, but it matches {len(pairs)} files"
            )
        for pair in pairs:
            yield Source(pair, steps=steps, num_entries=n_entries, uuid=None if uuid is None else str(uuid))


def _check_keys(where: str, given: Mapping[Any, Any], known: tuple[str, ...], of_others: tuple[str, ...]) -> None:
    for key in given:
        if key not in known and key not in of_others:
            near = nearest(str(key), list(known))
            hint = f"; did you mean {near[0]!r}?" if near else f": use {', '.join(map(repr, known))}"
            raise UsageError(f"{where}: unknown key {key!r}{hint}")


def _number(where: str, value: SupportsIndex | None) -> int | None:
    if value is None:
        return None
    try:
        number = as_integer(value)
    except TypeError:
        number = -1
    if number < 0:
        raise UsageError(f"{where}: entries must be counted by integers from 0, not {value!r}")
    return number


def _steps(where: str, described: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
    given = described.get("steps")
    if given is None:
        return None
    if not isinstance(given, (list, tuple)):
        raise UsageError(f"{where}: steps must be a list of pairs, as in [[0, 100], [100, 250]], not {given!r}")
    steps: list[tuple[int, int]] = []
    for step in given:
        try:
            start, stop = (_number(where, limit) or 0 for limit in step)
        except (TypeError, ValueError):
            raise UsageError(
                f"{where}: a step must be a pair of its first entry and the one after its last, not {step!r}"
            ) from None
        if stop < start or (steps and start < steps[-1][1]):
            raise UsageError(f"{where}: steps must be in order and not overlap, as in [[0, 100], [100, 250]]")
        steps.append((start, stop))
    return tuple(step for step in steps if step[0] < step[1])


def ranges_of(source: Source, n_entries: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of entries to read from a source.

    Parameters
    ----------
    source : Source
        The file.
    n_entries : int
        Its number of entries.

    Returns
    -------
    tuple of tuple of int
        The steps of a fileset, or all entries.

    Raises
    ------
    FileError
        If there are steps beyond its end. The kind is "file-changed".
    """
    steps = source.steps
    if steps and steps[-1][1] > n_entries:
        raise _changed(source.path, f"{n_entries:,} entries", f"steps up to entry {steps[-1][1]:,}")
    ranges = ((0, n_entries),) if steps is None else steps
    clipped = ((max(start, source.first), min(stop, n_entries)) for start, stop in ranges)
    return tuple((start, stop) for start, stop in clipped if start < stop)


def check_same(path: str, ntuple: NTuple, n_entries: int | None, uuid: str | None) -> None:
    """Raise if a file has not the number of entries, or the UUID, that the fileset has for it."""
    if n_entries is not None and n_entries != ntuple.num_entries:
        raise _changed(path, f"{ntuple.num_entries:,} entries", f"{n_entries:,} entries")
    if uuid not in (None, _NO_UUID) and uuid != str(ntuple.uuid):
        raise _changed(path, f"the UUID {ntuple.uuid}", uuid)


def _changed(path: str, found: str, expected: str) -> FileError:
    return FileError(f"{path} has {found}, but the fileset has {expected}: make the fileset again", kind="file-changed")


def _files(files: object, storage_options: Mapping[str, Any] | None) -> Iterator[NTuple | tuple[str, str | None]]:
    if isinstance(files, NTuple):
        yield files
    elif isinstance(files, Mapping) and any(isinstance(value, NTuple) for value in files.values()):
        for path, value in files.items():
            yield from [value] if isinstance(value, NTuple) else resolve({path: value}, storage_options)
    elif (
        isinstance(files, Iterable)
        and not isinstance(files, (str, bytes, Mapping))
        and not hasattr(files, "__fspath__")
        and not hasattr(files, "read")
    ):
        for item in files:
            # a list in a list has the sources of one file
            if isinstance(item, (list, tuple)):
                yield from resolve([item], storage_options)
            else:
                yield from _files(item, storage_options)
    else:
        yield from resolve(files, storage_options)  # type: ignore[arg-type]
