"""Writing ROOT files with ntuples: `create`, `recreate`, `update` and `write`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from femtobarn import _core
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import settings_of
from femtobarn._files.to_histogram import is_histogram, to_histogram
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import Path, compression_settings, plain_path, root_path
from femtobarn._shared.steps import num_threads
from femtobarn._writing.file_writer import FileWriter
from femtobarn._writing.ntuple_writer import AttributeSetWriter, NTupleWriter
from femtobarn._writing.spec import to_fields
from femtobarn._writing.to_nodes import maps_of, to_batches
from femtobarn.errors import FileError, UsageError

__all__ = ["AttributeSetWriter", "FileWriter", "NTupleWriter", "create", "recreate", "update", "write"]


@known_options()
def create(
    path: Path,
    *,
    compression: Any = "zstd:5",
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> FileWriter:
    """Create a new ROOT file, which must not exist.

    If a file is created several times at the same time, the first one that is closed appears; closing the others is an
    error.

    Parameters
    ----------
    path : str or path
        The path of the new file.
    compression : str, int or None
        The default compression of ntuples; see `recreate`.
    threads : int, optional
        Number of threads that encode and compress; by default the variable FEMTOBARN_THREADS, or else the number of
        cores.
    storage_options : dict, optional
        Settings for access to the server, as for `open`.

    Returns
    -------
    FileWriter
        The file.

    Raises
    ------
    FileError
        If the file exists already, or cannot be created.
    """
    name = root_path(path)
    if not _core.is_remote(name) and os.path.lexists(_core.local_path(name)):
        raise FileError(f"{name} already exists: fb.recreate replaces it, fb.update adds to it", kind="create-failed")
    return _new(name, False, compression, threads, storage_options)


@known_options()
def recreate(
    path: Path,
    *,
    compression: Any = "zstd:5",
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> FileWriter:
    """Create a new ROOT file; an existing file is replaced.

    The file is written under a temporary name and appears when it is closed, complete and synced to disk. If the
    ``with`` block ends with an error, no file appears, and an existing one is unchanged.

    Parameters
    ----------
    path : str or path
        The path of the new file.
    compression : str, int or None
        The default compression of ntuples: "zstd", "lz4", "zlib" or "lzma", with a level from 1 to 9 as in "zstd:5";
        ROOT's number, as 505; "none" or None.
    threads : int, optional
        Number of threads that encode and compress; by default the variable FEMTOBARN_THREADS, or else the number of
        cores.
    storage_options : dict, optional
        Settings for access to the server, as for `open`.

    Returns
    -------
    FileWriter
        The file.

    Raises
    ------
    FileError
        If the file cannot be created.

    Examples
    --------
    >>> import femtobarn as fb
    >>> with fb.recreate(tmp / "new.root", compression="zstd:5") as f:
    ...     events = f.mkrntuple("Events", {"n": "int32", "pt": "var * float32"})
    ...     events.extend({"n": [1, 2], "pt": [[0.5], [1.5, 2.5]]})
    >>> fb.open(tmp / "new.root")["pt"].array().to_list()
    [[0.5], [1.5, 2.5]]
    """
    return _new(root_path(path), True, compression, threads, storage_options)


def _new(
    url: str, replaces: bool, compression: Any, threads: int | None, storage_options: Mapping[str, Any] | None
) -> FileWriter:
    settings = compression_settings(compression)
    asking = {} if storage_options is None else settings_of(storage_options)
    return FileWriter(_core.FileWriter.create(url, settings, replaces, asking), settings, num_threads(threads))


@known_options()
def update(path: Path, *, compression: Any = None, threads: int | None = None) -> FileWriter:
    """Add to an existing ROOT file; its other objects are kept.

    Until the file is closed, readers see its previous content; it is readable at any time. Fields or entries cannot be
    added to an ntuple in the file: use `join_columns` and `merge` for that. A new ntuple with the name of an existing
    one is an error, unless ``mkrntuple(..., new_cycle=True)`` hides the existing one, which stays as "Events;1".

    Parameters
    ----------
    path : str or path
        The file.
    compression : str, int or None
        The default compression of ntuples; by default the one in the file header. See `recreate`.
    threads : int, optional
        Number of threads that encode and compress; by default the variable FEMTOBARN_THREADS, or else the number of
        cores.

    Returns
    -------
    FileWriter
        The file.

    Raises
    ------
    NotFoundError
        If the file does not exist.
    FormatError
        If it is not a ROOT file.
    """
    n_threads = num_threads(threads)
    core = _core.FileWriter.update(plain_path(path))
    settings = core.compression if compression is None else compression_settings(compression)
    return FileWriter(core, settings, n_threads)


@known_options(like=FileWriter.mkrntuple)
def write(
    path: Path,
    data: Any,
    name: str | None = None,
    *,
    compression: Any = "zstd:5",
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> int:
    """Write data as an ntuple, or a histogram, in a new file.

    Parameters
    ----------
    path : str or path
        The path of the file; an existing file is replaced.
    data : ak.Array, dict, table, reader of record batches, `NTuple`, or an iterator of any of these
        The entries; see `NTupleWriter.extend`. Items of an iterator are written one after another. Or a histogram; see
        `FileWriter`.
    name : str
        Name of the ntuple, by default that at the end of the URL of objects or of a container (``ntpl+s3://…:NAME``),
        or else "Events"; it may begin with directories, as "folder/Events". Histograms need a name.
    compression : str, int or None
        See `recreate`.
    storage_options : dict, optional
        Settings for access to the server, as for `open`.
    **options
        The same as for `FileWriter.mkrntuple`.

    Returns
    -------
    int
        Number of entries; of a histogram, those that were filled into it.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.write(tmp / "small.root", {"x": [1.5, 2.5], "label": ["a", "b"]}, precision={"x": 16})
    2
    >>> fb.open(tmp / "small.root")["label"].array().to_list()
    ['a', 'b']
    """
    threads = options.pop("threads", None)
    url, given = _core.destination(root_path(path))
    if is_histogram(data):
        if name is None or options:
            raise UsageError(
                "a histogram needs a name, fb.write(path, histogram, 'name'), and has no options of ntuples"
            )
        with recreate(path, compression=compression, threads=threads, storage_options=storage_options) as file:
            file[name] = data
        return round(to_histogram(data, name).entries())
    _check_apart(url, data)
    name = name or given or "Events"
    while True:
        skipped = data.skipped if isinstance(data, NTuple) else ()
        try:
            with recreate(path, compression=compression, threads=threads, storage_options=storage_options) as file:
                return _write(file, data, name, options)
        except UsageError:
            # a branch turned out to be unreadable in later entries; no file has appeared yet
            if not isinstance(data, NTuple) or data.skipped == skipped:
                raise


def _write(file: FileWriter, data: Any, name: str, options: dict[str, Any]) -> int:
    """Write data as an ntuple; return the number of entries."""
    types = options.get("types")
    known = maps_of(to_fields(types)) if isinstance(types, Mapping) and types else frozenset()
    is_iterator = isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__")
    first = next(data, None) if is_iterator else data
    if first is None and is_iterator:
        raise UsageError("the iterator is empty: an ntuple without entries needs a specification")
    try:
        batches: Any = to_batches(first, known)
        ntuple = file.mkrntuple(name, batches, **options)
    except UsageError as error:
        if isinstance(data, NTuple):
            hint = f"fb.convert({':'.join(data.files[0])!r}, ...) writes it with names and types that ROOT supports"
            raise UsageError(f"{error}; {hint}", kind=error.kind) from None
        raise
    ntuple.extend(batches)
    for batch in data if is_iterator else ():
        ntuple.extend(batch)
    return ntuple.close()


def _check_apart(path: Path, data: Any) -> None:
    """Raise if the output would replace the input file."""
    if not isinstance(data, NTuple):
        return
    if _core.is_remote(os.fspath(path)):
        place = _core.public_url(os.fspath(path))
        if any(_core.public_url(file) == place for file, _ in data.files):
            raise UsageError(f"the output would replace the input {place}: use another output path")
        return
    place = os.path.realpath(_core.local_path(os.fspath(path)))
    for file, _ in data.files:
        if os.path.realpath(_core.local_path(file)) == place:
            raise UsageError(f"the output would replace the input {file}: use another output path")
