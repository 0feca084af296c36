"""The exceptions and warnings of femtobarn.

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
        The stable name of the error, in kebab case; by default the name of the class.

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
    _told: tuple[str, str] | None = None  # the field and the reason, for callers that raise another message
    _object: str | None = None  # the object of a large product that is damaged or missing

    def __init__(self, message: str = "", *, kind: str | None = None) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FileError(FemtobarnError, OSError):
    """A file could not be read. The message names the file and the offset."""

    kind = "io"


class NotFoundError(FileError, FileNotFoundError):
    """A file does not exist, or a pattern matches no file."""

    kind = "file-not-found"


class KeyNotFoundError(FemtobarnError, KeyError):
    """A file, ntuple or field has no such name. The message lists the nearest names."""

    kind = "key-not-found"


class ExistsError(FemtobarnError, FileExistsError):
    """The output exists already, and overwriting was not requested."""

    kind = "exists"


class FormatError(FemtobarnError, ValueError):
    """A file is corrupt, or uses a feature that this version cannot read."""

    kind = "format"


class ChecksumError(FormatError):
    """Data does not match the checksum in the file."""

    kind = "checksum"


class UsageError(FemtobarnError, ValueError):
    """An argument is invalid. The message says which values are valid."""

    kind = "usage"


class QueueEndedError(FemtobarnError, EOFError):
    """A queue of an event store is empty, and no producer has it open."""

    kind = "queue-ended"


class ResourceError(FemtobarnError, MemoryError):
    """Not enough memory, or a configured limit would be exceeded."""

    kind = "resource"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make one as Exception does: MemoryError cannot be made by name (as tblib does) for these base classes."""
        return Exception.__new__(cls, *args)


class UnreadableWarning(UserWarning):
    """A branch or field is left out: its objects do not match their description, or not all files have it.

    The message names the field and the reason, or the file that lacks the field; `NTuple.skipped` lists all of them.
    Conversions and copies warn about everything that they leave out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ServerWarning(UserWarning):
    """A server asks for a long wait, or a listing is incomplete because a server is unreachable.

    The operation continues: it waits, or lists what the other servers have. The message names the server.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class MissingDependencyError(FemtobarnError, ImportError):
    """An optional package is not installed. The message gives the command that installs it."""

    kind = "missing-dependency"


class WorkerDiedError(FemtobarnError, RuntimeError):
    """A worker process died repeatedly before it returned a result."""

    __module__ = "femtobarn"
    kind = "worker-died"
