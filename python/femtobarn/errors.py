"""The errors that femtobarn raises, and the warning that it gives.

Each error is a `FemtobarnError` and also the built-in error that a user would catch: a missing file is a
`FileNotFoundError`, a missing field a `KeyError`. The attribute `kind` is a stable name in kebab case,
the same in Rust, C and Python.
"""

from __future__ import annotations

from typing import Any, Self

__all__ = [
    "ChecksumError",
    "ExistsError",
    "FemtobarnError",
    "FileError",
    "FormatError",
    "KeyNotFoundError",
    "MissingDependencyError",
    "NotFoundError",
    "QueueEndedError",
    "ResourceError",
    "ServerWarning",
    "UnreadableWarning",
    "UsageError",
    "WorkerDiedError",
]


class FemtobarnError(Exception):
    """The base of all errors of femtobarn.

    Parameters
    ----------
    message : str
        What went wrong, where, and what to do next.
    kind : str, optional
        The stable name of the error, in kebab case; by default the one of the class.

    Attributes
    ----------
    kind : str
        The stable name of the error, in kebab case.

    Examples
    --------
    >>> import femtobarn as fb
    >>> try:
    ...     fb.open("missing.root:Events")
    ... except fb.FemtobarnError as error:
    ...     print(isinstance(error, FileNotFoundError))
    True
    """

    kind: str = "error"
    _told: tuple[str, str] | None = None  # the field that it is of, and why, for who says it in other words
    _object: str | None = None  # the object that a large product is, which is damaged or not there

    def __init__(self, message: str = "", *, kind: str | None = None) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FileError(FemtobarnError, OSError):
    """A file could not be read; the message names it and the offset."""

    kind = "io"


class NotFoundError(FileError, FileNotFoundError):
    """A file does not exist, or a pattern matches none."""

    kind = "file-not-found"


class KeyNotFoundError(FemtobarnError, KeyError):
    """A name is in no file, ntuple or field; the message lists the nearest names."""

    kind = "key-not-found"


class ExistsError(FemtobarnError, FileExistsError):
    """Something is there already, and was not to be written over."""

    kind = "exists"


class FormatError(FemtobarnError, ValueError):
    """A file is corrupt, or uses what this version cannot read."""

    kind = "format"


class ChecksumError(FormatError):
    """Bytes do not have the checksum that the file declares for them."""

    kind = "checksum"


class UsageError(FemtobarnError, ValueError):
    """An argument makes no sense here; the message says what would."""

    kind = "usage"


class QueueEndedError(FemtobarnError, EOFError):
    """A queue of an event store is empty, and nobody will push any more."""

    kind = "queue-ended"


class ResourceError(FemtobarnError, MemoryError):
    """There is not enough memory, or a limit forbids to take it."""

    kind = "resource"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make one as Exception does: MemoryError refuses where it is called by name, as by tblib, for these bases."""
        return Exception.__new__(cls, *args)


class UnreadableWarning(UserWarning):
    """Something is left out: a branch of a tree whose objects are not what its file says, or what not all files have.

    The message names the fields and says why, or names the file that lacks them; `NTuple.skipped` lists them.
    Conversions and copies warn of whatever they leave out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ServerWarning(UserWarning):
    """A server asks to wait for long, or a list lacks what a server has that cannot be reached.

    Nothing has failed: it is waited, and what other servers have is listed. The message names the server.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class MissingDependencyError(FemtobarnError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""

    kind = "missing-dependency"


class WorkerDiedError(FemtobarnError, RuntimeError):
    """A process that worked on events ended before it had answered, again and again."""

    __module__ = "femtobarn"
    kind = "worker-died"
