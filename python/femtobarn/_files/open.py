"""Opening files: from paths, globs, lists and dicts to an `NTuple`."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from femtobarn import _core
from femtobarn._files.bad_files import BadFiles, SkipBadFiles, none_left
from femtobarn._files.fsspec import pack
from femtobarn._files.ntuple import NTuple
from femtobarn._shared.caller import note_line
from femtobarn._shared.compat import check_open_options, no_mode, with_cache
from femtobarn.errors import FemtobarnError, FormatError, KeyNotFoundError, UsageError

__all__ = ["Files", "Opening", "good_files", "open", "open_pairs", "reopening", "resolve", "settings_of"]

Files: TypeAlias = "str | os.PathLike[str] | NTuple | Mapping[Any, Any] | Iterable[Any]"
"""A path with or without ":name", a glob, a dict from paths to names, an open ntuple, or a list of these."""

_TOGETHER = 16  # files that are tried at the same time

_TABLES = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")

_MANGLED_URL = re.compile(r"^(file|https?|root|roots|xroot|s3):/(?!/)", re.IGNORECASE)


@no_mode
def open(
    files: Files,
    *,
    threads: int | None = None,
    progress: bool | None = None,
    verify_checksums: bool = True,
    memory_map: bool = True,
    allow_missing: bool = False,
    skip_bad_files: SkipBadFiles = False,
    cache: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> NTuple:
    """Open an RNTuple, in one file or in many.

    Only metadata is read.

    Parameters
    ----------
    files : str, path, dict or list
        The location of the ntuple:

        - ``"file.root:Events"``, also ``"file.root:folder/Events"`` and ``"file.root:Events;2"`` for an older cycle;
        - ``"file.root"`` or a `pathlib.Path`, if the file has only one ntuple;
        - a URL instead of the path: ``file:///…``, ``root://server//…`` for XRootD servers, ``https://…`` or
          ``davs://…`` for HTTP and WebDAV servers, ``s3://bucket/…``, ``gs://…`` and ``az://…`` for object stores, and
          any other URL that fsspec supports, as ``simplecache::https://…`` or ``zip://a.root::b.zip``;
        - a glob such as ``"data/*.root:Events"``, with ``**`` and ``{a,b}``; its files are sorted alphabetically;
        - a dict ``{path: name}``;
        - an open ntuple, which stands for its files;
        - a list of these. Several files are read as one ntuple, in the order given. A list in the list has the URLs of
          one file at several sites, ``[[url1, url2], …]``, as the string ``"url1|url2:Events"`` and a Metalink file do.
    threads : int, optional
        Number of threads for reading; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether long reads show a progress bar; by default only on a terminal and in a notebook.
    verify_checksums : bool
        Whether the checksum of every page is checked.
    memory_map : bool
        Whether local files may be mapped into memory.
    allow_missing : bool
        Whether files without the ntuple are skipped.
    skip_bad_files : bool or list
        Whether files that cannot be opened are left out, with a warning for each. A list gets a `BadFile` for each.
    cache : str or path, optional
        A directory that keeps what is read from servers, with its maximum size if it is a string:
        ``"/scratch/fb-cache:50GB"``; ``"off"`` for none. The same as ``storage_options={"cache": …}``.
    storage_options : dict, optional
        Settings for access to servers, as ``{"request_timeout": 20, "largest_gap": "4 KiB"}``: names and values as
        in the guide on remote files. They take precedence over environment variables and the settings file.
    **options
        uproot's tuning options, such as ``num_workers``, are accepted and have no effect.

    Returns
    -------
    NTuple
        The ntuple; several threads can use it at the same time.

    Raises
    ------
    NotFoundError
        If a file does not exist (a `FileNotFoundError`).
    UsageError
        If the scheme of a URL is unknown, or a storage option is invalid.
    KeyNotFoundError
        If a file has no such ntuple (a `KeyError`); the message lists the ntuples of the file.
    FormatError
        If a file is corrupt or is not a ROOT file (a `ValueError`).

    See Also
    --------
    iterate : Read many files in steps.
    concatenate : Read many files into one array.

    Examples
    --------
    >>> import femtobarn as fb
    >>> nt = fb.open(f"{dimuon}:Events")
    >>> nt.name
    'Events'
    """
    check_open_options(options)
    storage_options = with_cache(storage_options, cache)
    return open_pairs(
        resolve(files, storage_options),
        threads=threads,
        progress=progress,
        verify_checksums=verify_checksums,
        memory_map=memory_map,
        allow_missing=allow_missing,
        storage_options=storage_options,
        bad_files=BadFiles(skip_bad_files),
    )


def open_pairs(
    pairs: list[tuple[str, str | None]],
    *,
    threads: int | None = None,
    progress: bool | None = None,
    verify_checksums: bool = True,
    memory_map: bool = True,
    allow_missing: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    bad_files: BadFiles | None = None,
) -> NTuple:
    """Open the result of `resolve`; the options are the same as for `open`."""
    note_line()
    since = (time.monotonic(), time.process_time())
    reopen = _reopen(verify_checksums, memory_map, storage_options)
    try:
        with _hinted(pairs, len(pairs) > 1):
            opened = _core.NTuple.open(pairs, allow_missing=allow_missing, **reopen)
    except FemtobarnError:
        if bad_files is None or not bad_files.are_skipped or len(pairs) < 2:
            raise
        good = list(_good(pairs, {**reopen, "allow_missing": allow_missing}, bad_files))
        if len(good) in (0, len(pairs)):  # the error is that of the files together
            raise
        opened = _core.NTuple.open(good, allow_missing=allow_missing, **reopen)
    return NTuple(opened, threads=threads, progress=progress, reopen=reopen, since=since)


def good_files(
    pairs: list[tuple[str, str | None]], storage_options: Mapping[str, Any] | None, bad_files: BadFiles
) -> list[tuple[str, str | None]]:
    """Return the files that are not bad, also those without an ntuple.

    Parameters
    ----------
    pairs : list of tuple
        The result of `resolve`.
    storage_options : dict, optional
        Settings, as for `open`.
    bad_files : BadFiles
        Gets the others.

    Returns
    -------
    list of tuple
        At least one file.

    Raises
    ------
    FileError
        If all files are bad. The kind is that of the first one.
    """
    if not bad_files.are_skipped:
        return pairs
    good = list(
        _good(pairs, reopening({"storage_options": storage_options}), bad_files, ("no-ntuple", "key-not-found"))
    )
    if not good:
        raise none_left(bad_files)
    return good


def _good(
    pairs: list[tuple[str, str | None]], options: dict[str, Any], bad_files: BadFiles, kept: tuple[str, ...] = ()
) -> Iterator[tuple[str, str | None]]:
    """Yield the files that can be opened, and those with an error of a kept kind; several are tried together."""
    coming = iter(pairs)
    tried: deque[tuple[tuple[str, str | None], _core.Opening]] = deque()
    try:
        while True:
            for pair in itertools.islice(coming, _TOGETHER - len(tried)):
                tried.append((pair, _core.Opening([pair], **options)))
            if not tried:
                return
            pair, opening = tried.popleft()
            try:
                with _hinted([pair], False):
                    opening.result()
            except FemtobarnError as error:
                if not (kept and (error.kind in kept or isinstance(error, UsageError))):
                    if not bad_files.skips(pair[0], error):
                        raise
                    continue
            yield pair
    finally:
        for _, opening in tried:
            opening.stop()


class Opening:
    """One of several files that is opened in the background.

    Parameters
    ----------
    pairs, threads, progress, verify_checksums, memory_map, allow_missing, storage_options
        As for `open_pairs`.
    """

    def __init__(
        self,
        pairs: list[tuple[str, str | None]],
        *,
        threads: int | None = None,
        progress: bool | None = None,
        verify_checksums: bool = True,
        memory_map: bool = True,
        allow_missing: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        note_line()
        reopen = _reopen(verify_checksums, memory_map, storage_options)
        since = (time.monotonic(), time.process_time())
        self._pairs = pairs
        self._options: dict[str, Any] = {"threads": threads, "progress": progress, "reopen": reopen, "since": since}
        self._core = _core.Opening(pairs, allow_missing=allow_missing, **reopen)

    def is_done(self) -> bool:
        """Return whether the result is available without waiting."""
        return self._core.is_done()

    def result(self) -> NTuple:
        """Return the ntuple when it is open; may be called once.

        Returns
        -------
        NTuple
            The ntuple.

        Raises
        ------
        FemtobarnError
            As `open`.
        """
        with _hinted(self._pairs, True):
            opened = self._core.result()
        return NTuple(opened, **self._options)

    def stop(self) -> None:
        """Cancel opening, also while it waits for a server."""
        self._core.stop()


def _reopen(verify_checksums: bool, memory_map: bool, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options that are used when the files are opened again."""
    reopen: dict[str, Any] = {"verify_checksums": verify_checksums, "memory_map": memory_map}
    if storage_options is not None:
        reopen["settings"] = settings_of(storage_options)
    return reopen


def reopening(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return which of the options of `open` are used when files are opened in another process.

    Parameters
    ----------
    options : dict
        Options of `open_pairs`.

    Returns
    -------
    dict
        Options of the core.
    """
    defaults = {"verify_checksums": True, "memory_map": True, "storage_options": None}
    return _reopen(*(options.get(name, default) for name, default in defaults.items()))


@contextlib.contextmanager
def _hinted(pairs: list[tuple[str, str | None]], is_one_of_several: bool) -> Iterator[None]:
    """Add hints to errors: how to convert a table to a ROOT file, and how to skip files without the ntuple."""
    try:
        yield
    except (KeyNotFoundError, UsageError) as error:
        if not is_one_of_several or error.kind not in ("key-not-found", "no-ntuple"):
            raise
        raise type(error)(f"{error}; allow_missing=True skips files without it", kind=error.kind) from None
    except FormatError as error:
        table = next((path for path, _ in pairs if path.lower().endswith(_TABLES)), None)
        if error.kind != "not-a-root-file" or table is None:
            raise
        hint = f"fb.convert({table!r}, 'name.root') converts a table to a ROOT file"
        raise FormatError(f"{error}; {hint}", kind=error.kind) from None


def settings_of(storage_options: Mapping[str, Any]) -> dict[str, str]:
    """Return settings in the form that the core takes.

    Parameters
    ----------
    storage_options : dict
        Names and values of settings: strings, numbers or booleans.

    Returns
    -------
    dict
        The same as strings, and one more entry with the options for fsspec.

    Raises
    ------
    UsageError
        If it is not a dict, if a setting has a value of another type, or if an option for fsspec cannot be pickled.
    """
    if not isinstance(storage_options, Mapping):
        raise UsageError(f"storage_options must be a dict of settings, not {type(storage_options).__name__}")
    out = {}
    for name, value in storage_options.items():
        if isinstance(value, (str, int, float)):
            out[str(name)] = str(value).lower() if isinstance(value, bool) else str(value)
        elif name in _core.SETTINGS:
            raise UsageError(f"invalid storage option {name!r}: it must be a string, a number, True or False")
        else:
            # an option for a file system of fsspec, which receives it unchanged
            out[str(name)] = type(value).__name__
    if not out.keys() <= set(_core.SETTINGS_FOR_ALL):
        out["storage_options"] = pack(storage_options)
    return out


def resolve(files: Files, storage_options: Mapping[str, Any] | None = None) -> list[tuple[str, str | None]]:
    """Return the files and the object names inside them.

    Parameters
    ----------
    files : str, path, dict, NTuple or list of these
        See `open`; an open ntuple stands for its files.
    storage_options : dict, optional
        Settings for the search for patterns on servers.

    Returns
    -------
    list of tuple
        A path, and a name or None, for each file.

    Raises
    ------
    NotFoundError
        If a glob matches nothing.
    UsageError
        If the argument contains no path, or anything else than paths and names, or if a pattern in a URL is not
        supported.
    """
    pairs = list(_pairs(files, None if storage_options is None else settings_of(storage_options)))
    if not pairs:
        raise UsageError("no files given")
    return pairs


def is_of_uproot(files: object) -> bool:
    """Return whether an object is a file or tree opened by uproot.

    Parameters
    ----------
    files : object
        Any object.

    Returns
    -------
    bool
        Whether it is one.
    """
    return type(files).__module__.partition(".")[0] == "uproot"


def _pairs(files: object, settings: dict[str, str] | None) -> Iterator[tuple[str, str | None]]:
    if is_of_uproot(files):
        path = getattr(files, "file_path", None) or getattr(getattr(files, "file", None), "file_path", None)
        raise UsageError(
            f"give the path of a file{'' if path is None else f', {path!r}'}, not an object of uproot ({files!r})"
        )
    if isinstance(files, NTuple):
        if files._attribute_of is not None:
            raise UsageError(f"{files.name!r} is an attribute set: open its ntuple and use `attributes`")
        yield from files._core.origins()
    elif isinstance(files, str):
        yield from _core.find_files(files, settings)
    elif isinstance(files, os.PathLike):
        yield from ((match, None) for match in _core.expand_files(_text(files), settings))
    elif isinstance(files, Mapping):
        for key, value in files.items():
            if isinstance(value, Mapping) and value.get("steps") is not None:
                raise UsageError(
                    f"fb.open reads whole files, without the 'steps' of {key!r}: use fb.iterate or fb.process"
                )
            name = value.get("object_path") if isinstance(value, Mapping) else value
            if not isinstance(key, (str, os.PathLike)) or not (name is None or isinstance(name, str)):
                raise UsageError(f"a dict of files must be {{path: name of the ntuple}}, not {{{key!r}: {value!r}}}")
            cleaned = None if name is None else _core.plain_name(name)
            yield from ((match, cleaned) for match in _core.expand_files(_text(key), settings))
    elif hasattr(files, "read"):
        raise UsageError(f"give the path of a file, not an open file object ({files!r})")
    elif isinstance(files, Iterable) and not isinstance(files, (bytes, bytearray)):
        for item in files:
            # a list in a list has the sources of one file
            if isinstance(item, (list, tuple)):
                yield from _sources(item, settings)
            else:
                yield from _pairs(item, settings)
    else:
        raise UsageError(
            "files must be a path (with or without ':name of the ntuple'), a glob, a dict {path: name}, "
            f"or a list of these, not {files!r}"
        )


def _sources(urls: Sequence[object], settings: dict[str, str] | None) -> Iterator[tuple[str, str | None]]:
    """Yield the file that several URLs or paths name, each with or without ":name"."""
    texts = [_text(url) for url in urls if isinstance(url, (str, os.PathLike))]
    if not texts or len(texts) < len(urls):
        raise UsageError(f"a list in a list has the URLs of one file: strings or paths, at least one, not {urls!r}")
    yield from _core.find_files(texts[0] if len(texts) == 1 else _core.join_sources(texts), settings)


def _text(path: str | os.PathLike[str]) -> str:
    if isinstance(path, str):
        return path.strip()
    text = os.fspath(path)
    mangled = _MANGLED_URL.match(text)
    if mangled is None:
        return text
    slashes = ":///" if mangled.group(1).lower() == "file" else "://"
    return mangled.group(1) + slashes + text[mangled.end() :]
