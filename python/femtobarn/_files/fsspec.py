"""Files through fsspec: called by the core for URLs that it cannot read itself.

The core calls `open_file`, `list_folder` and `find_files` with a URL and the options that `pack` made a string of, from
any thread, and `File.read` from several threads at the same time.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import pickle
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from femtobarn import _core
from femtobarn._shared.optional import optional
from femtobarn.errors import FemtobarnError, UsageError

__all__ = ["File", "FsspecError", "find_files", "list_folder", "open_file", "pack"]

_T = TypeVar("_T")

# Seconds between checks whether to continue waiting.
_PULSE = 0.05

# Threads of the core that run Python code at interpreter shutdown would be killed, and the process with them.
atexit.register(_core.end_background)

# Keys under which file systems report the version of a file.
_STATES = ("ETag", "etag", "VersionId", "sha", "md5", "md5Hash", "checksum", "CRC")
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated")
# Used only if there is nothing else: for local files, a new hard link changes it as well.
_BIRTHS = ("created", "time_created")

# File systems that are not asynchronous, but can be read by several threads at the same time.
_FREE = ("LocalFileSystem", "MemoryFileSystem", "ArrowFSWrapper")
# Caching file systems, which pretend to be the file system below.
_CACHES = ("CachingFileSystem", "WholeFileCacheFileSystem", "SimpleCacheFileSystem")

_SECRETS = re.compile("secret|password|passwd|token|key|credential|auth", re.IGNORECASE)
_QUERY = re.compile(r"(://[^\s'\"?]*)\?[^\s'\"]*")
_PASSWORD = re.compile(r"(://[^\s'\"/@:]*:)[^\s'\"/@]*(?=@)")


class FsspecError(Exception):
    """An error of fsspec or of one of its file systems.

    Parameters
    ----------
    kind : str
        The kind of the error for the core.
    message : str
        The message, without secrets.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def pack(options: Mapping[str, Any]) -> str:
    """Serialize options of a file system for the core.

    Parameters
    ----------
    options : dict
        Names and values, as for `fsspec.url_to_fs`; settings of the core itself are left out.

    Returns
    -------
    str
        A string from which `open_file` restores the options.

    Raises
    ------
    UsageError
        If a value cannot be pickled, and so cannot be sent to other processes.
    """
    own = {name: value for name, value in options.items() if name not in _core.SETTINGS_FOR_ALL}
    for name, value in own.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise UsageError(f"the storage option {name!r} cannot be pickled: {error}") from None
    return base64.b64encode(pickle.dumps(own)).decode()


def _unpack(options: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if options is None else pickle.loads(base64.b64decode(options))
    return found


class File:
    """A file of a file system.

    Parameters
    ----------
    url : str
        The URL of the file, which may be a chain.
    options : dict
        Options of the file system.
    found : tuple, optional
        The file system and the path in it, if known.

    Attributes
    ----------
    size : int
        The size of the file, in bytes.
    identity : str or None
        Identifies the version of the file, if the file system supports it.
    modified : float or None
        Time of the last change, in seconds since 1970, if the file system supports it.
    concurrency : int
        Number of vector reads that are useful at the same time.

    Raises
    ------
    FsspecError
        If the file does not exist or cannot be read.
    """

    def __init__(self, url: str, options: dict[str, Any], found: tuple[Any, str] | None = None) -> None:
        self._url = url
        self._options = options
        # after a fork, the child reopens its file system: threads, connections and file positions belong to the parent
        self._process = os.getpid()
        # the same for a lock that a thread of the parent held
        self._locks: dict[int, threading.Lock] = {}
        self._fs, self._path = found or _file_system(url, options)
        with _told(url, options, self._fs):
            # the cache may be out of date
            self._fs.invalidate_cache(self._fs._parent(self._path))
            info = self._fs.info(self._path)
            if info.get("type") == "directory":
                raise FsspecError("not-a-file", "it is a directory")
            self.size = int(self._size() if info.get("size") is None else info["size"])
        self.identity = _identity(info)
        self.modified = _seconds(next((info[name] for name in _TIMES if name in info), None))
        kind = type(self._fs).__name__
        self._is_free = kind in _FREE or (self._fs.async_impl and kind not in _CACHES)
        self.concurrency = 4 if self._is_free else 2

    def read(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read byte ranges with one call of ``cat_ranges``.

        Parameters
        ----------
        ranges : list of tuple of int
            The first byte of each range, and the one after its last.

        Returns
        -------
        list of bytes
            The content of each range.

        Raises
        ------
        FsspecError
            If the file cannot be read, or has changed since it was opened.
        """
        # a file system that is not thread-safe is read by one thread at a time, while others decode
        lock = self._locks.setdefault(os.getpid(), threading.Lock())
        return _interruptibly(lambda: self._read(ranges, lock))

    def _read(self, ranges: list[tuple[int, int]], lock: threading.Lock) -> list[bytes]:
        with contextlib.nullcontext() if self._is_free else lock:
            fs = self._of_this_process()
            starts, ends = map(list, zip(*ranges, strict=True))
            try:
                with _told(self._url, self._options, fs):
                    found = fs.cat_ranges([self._path] * len(ranges), starts, ends, on_error="raise")
                    for answer in found:
                        if isinstance(answer, BaseException):
                            raise answer
            except FsspecError:
                self._check(fs)
                raise
            self._check(fs)
        return [answer if isinstance(answer, bytes) else bytes(answer) for answer in found]

    def _size(self) -> int:
        """Return the size if only the open file has it, as for some caches."""
        with self._fs.open(self._path) as file:
            size: int = file.seek(0, os.SEEK_END)
        return size

    def _of_this_process(self) -> Any:
        if self._process != os.getpid():
            self._fs, _ = _file_system(self._url, self._options)
            self._process = os.getpid()
            self._check(self._fs)
        return self._fs

    def _check(self, fs: Any) -> None:
        """Raise if the file has changed since it was opened."""
        with _told(self._url, self._options, fs):
            info = fs.info(self._path)
        if info.get("size") not in (None, self.size) or _identity(info) != self.identity:
            raise FsspecError("file-changed", "it has changed")


def open_file(url: str, options: str | None) -> File:
    """Open a file for the core.

    Parameters
    ----------
    url : str
        The URL of the file, which may be a chain.
    options : str, optional
        The options as serialized by `pack`.

    Returns
    -------
    File
        The file.
    """
    unpacked = _unpack(options)
    found = None
    if threading.current_thread() is threading.main_thread():
        # fsspec returns the same file system, with its connections, in the same thread; and this thread sees Ctrl-C
        found = _file_system(url, unpacked)
    return _interruptibly(lambda: File(url, unpacked, found))


def list_folder(url: str, options: str | None) -> list[tuple[str, bool, int | None, float | None]]:
    """List a directory, for the core.

    Parameters
    ----------
    url : str
        The URL of the directory, which may be a chain.
    options : str, optional
        The options as serialized by `pack`.

    Returns
    -------
    list of tuple
        The name, whether it is a directory, its size in bytes and the time of the last change, in seconds since 1970.
    """
    unpacked = _unpack(options)
    return _interruptibly(lambda: _list_folder(url, unpacked))


def _list_folder(url: str, options: dict[str, Any]) -> list[tuple[str, bool, int | None, float | None]]:
    fs, path = _file_system(url, options)
    with _told(url, options, fs):
        entries = fs.ls(path, detail=True)
    found = []
    for entry in entries:
        name = entry["name"].rstrip("/").rsplit("/", 1)[-1]
        modified = _seconds(next((entry[key] for key in _TIMES if key in entry), None))
        found.append((name, entry.get("type") == "directory", entry.get("size"), modified))
    return found


def find_files(url: str, options: str | None) -> list[str]:
    """Find the files that match a pattern, for the core.

    Parameters
    ----------
    url : str
        A URL with a pattern, which may be a chain.
    options : str, optional
        The options as serialized by `pack`.

    Returns
    -------
    list of str
        The URLs of the files.
    """
    unpacked = _unpack(options)
    return _interruptibly(lambda: _find_files(url, unpacked))


def _find_files(url: str, options: dict[str, Any]) -> list[str]:
    fs, path = _file_system(url, options)
    with _told(url, options, fs):
        names = [name for name, info in fs.glob(path, detail=True).items() if info.get("type") != "directory"]
    # the path is the end of one link; the rest of that link, and the other links, stay as they are
    tail = path.lstrip("/")
    links = url.split("::")
    at = next((i for i, link in enumerate(links) if link.endswith(tail)), 0)
    beginning = links[at].removesuffix(tail)
    return ["::".join([*links[:at], beginning + name.lstrip("/"), *links[at + 1 :]]) for name in names]


def _interruptibly(work: Callable[[], _T]) -> _T:
    """Run a blocking call on its own thread: file systems cannot be interrupted, but waiting for the thread can."""
    done: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, name="femtobarn-fsspec", daemon=True).start()
    while True:
        try:
            found, error = done.get(timeout=_PULSE)
            break
        except queue.Empty:
            if _core.is_stopped():
                raise FsspecError("interrupted", "interrupted") from None
    if error is not None:
        raise error
    return cast("_T", found)


def _file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    try:
        fsspec = optional("fsspec", "fsspec")
        links = [re.sub(r"^[^:/]*://", lambda scheme: scheme[0].lower(), link) for link in url.split("::")]
        fs, path = fsspec.core.url_to_fs("::".join(links), **options)
    except ImportError as error:
        # fsspec names the package of a file system; if fsspec itself is missing, the message is ours
        message = _scrubbed(str(error), url, options)
        if not isinstance(error, FemtobarnError):
            message = f"fsspec: {message}: install the named package with pip"
        raise FsspecError("missing-dependency", message) from error
    except ValueError as error:
        if "not known" not in str(error):
            raise FsspecError("remote-failed", f"fsspec: {_scrubbed(str(error), url, options)}") from error
        scheme = url.partition("://")[0]
        what = (
            f"{scheme}:// is not supported by this version, nor by fsspec ({error}); ntuples in objects have the "
            "schemes ntpl+s3, ntpl+s3+https, ntpl+gs, ntpl+az and ntpl+file, those in DAOS daos"
        )
        raise FsspecError("unsupported-url", what) from error
    except Exception as error:
        message = f"fsspec: {type(error).__name__}: {error}"
        raise FsspecError("remote-failed", _scrubbed(message, url, options)) from error
    return fs, path


@contextlib.contextmanager
def _told(url: str, options: dict[str, Any], fs: Any) -> Iterator[None]:
    """Convert errors of a file system to errors of the core."""
    try:
        yield
    except FsspecError:
        raise
    except Exception as error:
        kind = "remote-failed"
        status = getattr(error.__cause__, "status", None)
        if isinstance(error, FileNotFoundError) and status not in (None, 404, 410):
            # fsspec raises FileNotFoundError for every HTTP error
            kind = "permission-denied" if status in (401, 403) else kind
        elif isinstance(error, FileNotFoundError):
            kind = "file-not-found"
        elif isinstance(error, PermissionError):
            kind = "permission-denied"
        elif isinstance(error, IsADirectoryError):
            kind = "not-a-file"
        said = error if status is None or error.__cause__ is None else error.__cause__
        message = f"{_name(fs)} raised {type(said).__name__}: {said}"
        raise FsspecError(kind, _scrubbed(message, url, options)) from error


def _name(fs: Any) -> str:
    return f"{type(fs).__module__}.{type(fs).__qualname__}"


def _scrubbed(message: str, url: str, options: Mapping[str, Any]) -> str:
    """Return a message without possible secrets from the URL and the options."""
    # the message may have another spelling of the URL than the user's
    message = _PASSWORD.sub(r"\1***", _QUERY.sub(r"\1", message))
    query = (link.partition("?")[2] for link in url.split("::"))
    for secret in (*query, *_secrets(options)):
        if len(secret) > 3:
            message = message.replace(secret, "***")
    return message


def _secrets(options: Mapping[str, Any], is_secret: bool = False) -> Iterator[str]:
    for name, value in options.items():
        is_one = is_secret or _SECRETS.search(str(name)) is not None
        if isinstance(value, Mapping):
            yield from _secrets(value, is_one)
        elif is_one and isinstance(value, str):
            yield value


def _identity(info: Mapping[str, Any]) -> str | None:
    """Return an identifier of the version of a file."""
    found = [f"{name}={info[name]}" for name in (*_STATES, *_TIMES) if info.get(name) is not None]
    found = found or [f"{name}={info[name]}" for name in _BIRTHS if info.get(name) is not None]
    return "; ".join(found) or None


def _seconds(time: Any) -> float | None:
    if isinstance(time, datetime):
        return time.timestamp()
    return float(time) if isinstance(time, (int, float)) and time >= 0 else None
