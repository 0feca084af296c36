"""Files that cannot be read, and are left out on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from femtobarn._shared.warning import warn_outside
from femtobarn.errors import (
    FemtobarnError,
    FileError,
    MissingDependencyError,
    ResourceError,
    UnreadableWarning,
    UsageError,
)

__all__ = ["BadFile", "BadFiles", "SkipBadFiles", "none_left"]

SkipBadFiles: TypeAlias = "bool | list[BadFile]"
"""Whether files that cannot be read are left out; a list gets their descriptions."""


@dataclass(frozen=True)
class BadFile:
    """A file that was left out, because it cannot be read.

    Parameters
    ----------
    file : str
        Path of the file.
    kind : str
        The kind of the error, as ``"file-not-found"`` or ``"truncated-file"``.
    error : str
        The message of the error.
    dataset : str or None
        The dataset of the fileset that the file belongs to.
    entry_start : int
        The first entry that was left out: not 0 if the error occurred after earlier entries were read.

    Examples
    --------
    >>> import warnings
    >>> import femtobarn as fb
    >>> bad = []
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     events = fb.concatenate([dimuon, "missing.root"], ["nMuon"], skip_bad_files=bad)
    >>> len(events), [(one.file, one.kind) for one in bad]
    (12000, [('missing.root', 'file-not-found')])
    """

    file: str
    kind: str
    error: str
    dataset: str | None = None
    entry_start: int = 0


class BadFiles:
    """The files that a call leaves out.

    Parameters
    ----------
    given : bool or list of BadFile
        The argument of the user.
    """

    def __init__(self, given: SkipBadFiles) -> None:
        if not isinstance(given, (bool, list)):
            raise UsageError(f"skip_bad_files must be True, False or a list that gets the bad files, not {given!r}")
        self.are_skipped = given is not False
        self.found: list[BadFile] = given if isinstance(given, list) else []

    def skips(self, file: str, error: Exception, dataset: str | None = None, entry_start: int = 0) -> bool:
        """Note a file that cannot be read, and warn.

        Parameters
        ----------
        file : str
            Path of the file.
        error : Exception
            Why it cannot be read.
        dataset : str, optional
            Its dataset.
        entry_start : int
            The first entry that is left out.

        Returns
        -------
        bool
            Whether it is left out; if not, the error must be raised.
        """
        if not (self.are_skipped and _is_of_file(error)):
            return False
        if any((one.file, one.dataset) == (file, dataset) for one in self.found):
            return True  # it was found when the work was begun
        self.found.append(BadFile(file, getattr(error, "kind", "error"), str(error), dataset, entry_start))
        since = f" from entry {entry_start:,}" if entry_start else ""
        warn_outside(f"{file} is left out{since}: {error}", UnreadableWarning)
        return True


def _is_of_file(error: Exception) -> bool:
    """Return whether an error concerns one file, not the call or this machine."""
    if isinstance(error, UsageError):
        return error.kind == "no-ntuple"
    return isinstance(error, FemtobarnError) and not isinstance(error, (MissingDependencyError, ResourceError))


def none_left(bad_files: BadFiles) -> FileError:
    """Return the error that all files were left out."""
    first = bad_files.found[0]
    return FileError(f"no file is left, as all were left out; the first: {first.error}", kind=first.kind)
