"""The file that notes what is done, so that processing can go on where it was broken off."""

from __future__ import annotations

import os
import pickle
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn._datastore import flush_open
from femtobarn._repr import shortened
from femtobarn._warnings import warn_outside
from femtobarn.errors import FileError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._output import Path as PathLike
    from femtobarn._work import Failure, Outcome

__all__ = ["Checkpoint", "State", "noted_identity"]

_EVERY = 5.0  # seconds
_MOST = 0.05  # of the time that may go into writing it
_MAGIC = "femtobarn checkpoint 2"
_HEAD = 64  # bytes of a file in which that stands
_PROCESS = uuid.uuid4().hex  # of this process


@dataclass
class State:
    """What is done, up to a piece."""

    n_pieces: int = 0
    n_events: int = 0
    after: Any = None
    values: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    is_whole: bool = True  # not while something is added, nor if that was broken off: `reduce` may change its arguments

    def add(self, outcome: Outcome, reduce: Callable[[Any, Any], Any] | None, after: Any) -> None:
        """Add what came of the next piece."""
        self.is_whole = False
        if reduce is None or not self.values:
            self.values += outcome.values
        else:
            for value in outcome.values:
                self.values[0] = reduce(self.values[0], value)
        self.failures += outcome.failures
        self.n_pieces += 1
        self.n_events += outcome.n
        self.after = after
        self.is_whole = True


class Checkpoint:
    """The file that notes what is done.

    Parameters
    ----------
    path : str or path, optional
        The file; None if nothing is noted.
    identity : dict
        What must be the same for that to be taken: texts, by what they describe.
    reads : callable, optional
        Gives such texts of what functions read. What they change themselves, as a list that they add to, may
        be another.
    """

    def __init__(
        self, path: PathLike | None, identity: dict[str, str], reads: Callable[[], dict[str, str]] = dict
    ) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._reads = reads
        self._read = {} if path is None else reads()
        self._identity = {**identity, **self._read}
        self._changing: set[str] = set()
        self._due = time.monotonic()  # at once, so that what cannot be written is told early
        self.state = State()
        if self._path is not None:
            self._load(self._path)

    def _load(self, path: Path) -> None:
        if path.is_dir():
            raise UsageError(f"{path}: a checkpoint is a file, and this is a folder")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {str(path.parent)!r} for the checkpoint: make it first")
        beside = self._beside(path)
        try:
            beside.touch()
            beside.unlink()
        except OSError as error:
            raise FileError(f"{path}: the checkpoint cannot be written: {error}") from error
        if not path.exists():
            return
        try:
            with path.open("rb") as file:
                if not _is_checkpoint(file.read(_HEAD)):
                    raise FormatError(
                        f"{path}: this file is no checkpoint of process, which would write over it: give another path"
                    )
                file.seek(0)
                magic, *noted = pickle.load(file)
                if magic != _MAGIC:
                    raise ValueError(f"it begins with {magic!r}")
                identity, changing, process = noted
                self._check(path, identity, changing, process)
                state = pickle.load(file)
                if not isinstance(state, State):
                    raise TypeError(f"it has {type(state).__name__}")
        except (UsageError, FormatError, UserWarning):
            raise
        except Exception as error:
            raise FormatError(
                f"{path}: this checkpoint is damaged ({type(error).__name__}: {error}): remove it to begin anew"
            ) from error
        self.state, self._identity, self._changing = state, identity, changing

    def _check(self, path: Path, identity: dict[str, str], changing: set[str], process: str) -> None:
        differing = _differing(identity, self._identity)
        names = differing - changing
        if names:
            # of another function, all that it reads is other
            both = [name for name in identity if name in names and name in self._identity]
            told = "; ".join(
                f"{name}: {identity.get(name)} there, {self._identity.get(name)} here" for name in both or sorted(names)
            )
            raise UsageError(
                f"{path}: this checkpoint is of other work ({told}): call process as it was called then, give another "
                "path, or remove the file to begin anew"
            )
        if differing and process != _PROCESS:  # in the same, it is as it was left
            warn_outside(
                f"{path}: {shortened(sorted(differing))} is not as it was when this work began; functions change it "
                "themselves, so that it may be another: if not, remove the file to begin anew",
                UserWarning,
            )

    @staticmethod
    def _beside(path: Path) -> Path:
        return path.with_name(f".{path.name}.partial-{os.getpid()}")

    def save(self, *, now: bool) -> None:
        """Write it, if it is time to; not if something was added by halves: what is there stays true."""
        began = time.monotonic()
        if self._path is None or not self.state.is_whole or (not now and began < self._due):
            return
        # what functions have put into batches is there before their events are noted as done
        flush_open()
        self._changing |= _differing(self._read, self._reads())
        beside = self._beside(self._path)
        try:
            with beside.open("wb") as file:
                pickle.dump((_MAGIC, self._identity, self._changing, _PROCESS), file)
                pickle.dump(self.state, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise FileError(f"{self._path}: the checkpoint cannot be written: {error}") from error
        except Exception as error:
            raise UsageError(
                f"{self._path}: the results cannot be pickled, which a checkpoint needs: {error}; return others, or "
                "leave checkpoint= out"
            ) from error
        finally:
            beside.unlink(missing_ok=True)
        ended = time.monotonic()
        self._due = ended + max(_EVERY, (ended - began) / _MOST)

    def remove(self) -> None:
        """Remove it: all is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _is_checkpoint(head: bytes) -> bool:
    """Return whether a file begins as a checkpoint does: with a pickle that has the words in it."""
    return head.startswith(b"\x80") and _MAGIC.rpartition(" ")[0].encode() in head


def noted_identity(path: PathLike) -> dict[str, str]:
    """Return what a checkpoint says of its work; nothing if there is none, or it is none, which `Checkpoint` tells."""
    try:
        with Path(path).expanduser().open("rb") as file:
            if not _is_checkpoint(file.read(_HEAD)):
                return {}
            file.seek(0)
            magic, identity, *_ = pickle.load(file)
        return dict(identity) if magic == _MAGIC else {}
    except Exception:
        return {}


def _differing(some: dict[str, str], others: dict[str, str]) -> set[str]:
    """Return the names whose texts differ."""
    return {name for name in {**some, **others} if some.get(name) != others.get(name)}
