"""The file that notes what is done, so that processing can go on where it was broken off."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from femtobarn._core import open_own
from femtobarn._datastore import flush_open
from femtobarn._repr import shortened
from femtobarn._warnings import warn_outside
from femtobarn.errors import FemtobarnError, FileError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._output import Path as PathLike
    from femtobarn._work import Failure, Outcome

__all__ = ["Checkpoint", "State", "noted_identity"]

_EVERY = 5.0  # seconds
_MOST = 0.05  # of the time that may go into writing it
_MAGIC = b"femtobarn checkpoint 3\n"
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
            os.close(_create_own(beside))
            beside.unlink()
        except OSError as error:
            raise FileError(f"{path}: the checkpoint cannot be written: {error}") from error
        if not path.exists():
            return
        try:
            # what is in it can be anything that functions return, which only a pickle holds, and unpickling runs code:
            # the file must be the user's own, and of this work
            with os.fdopen(open_own(path), "rb") as file:
                noted = _noted(file)
                if noted is None:
                    raise FormatError(
                        f"{path}: not a checkpoint of this version of femtobarn, and process would write over it: use "
                        "another path, or remove the file to begin anew"
                    )
                identity, changing, process = noted
                self._check(path, identity, changing, process)
                state = pickle.load(file)
                if not isinstance(state, State):
                    raise TypeError(f"it has {type(state).__name__}")
        except (FemtobarnError, UserWarning):
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
        return path.with_name(f".{path.name}.partial-{os.getpid()}-0")

    def save(self, *, now: bool) -> None:
        """Write it, if it is time to; not if something was added by halves: what is there stays true."""
        began = time.monotonic()
        if self._path is None or not self.state.is_whole or (not now and began < self._due):
            return
        # what functions have put into batches is there before their events are noted as done
        flush_open()
        self._changing |= _differing(self._read, self._reads())
        noted = [self._identity, sorted(self._changing), _PROCESS]
        beside = self._beside(self._path)
        try:
            with os.fdopen(_create_own(beside), "wb") as file:
                file.write(_MAGIC + json.dumps(noted).encode() + b"\n")
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


def _create_own(path: Path) -> int:
    """Make a file that is nobody else's, also where others can write to the folder; return its descriptor."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # not all file systems have locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as it is open, nobody takes it for left behind
    return descriptor


def _noted(file: BinaryIO) -> tuple[dict[str, str], set[str], str] | None:
    """Return what the beginning of a checkpoint says of its work, without unpickling; None if there is no such."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return None
    identity, changing, process = json.loads(file.readline())
    return dict(identity), set(changing), process


def noted_identity(path: PathLike) -> dict[str, str]:
    """Return what a checkpoint says of its work; nothing if there is none, or it is none, which `Checkpoint` tells."""
    try:
        with os.fdopen(open_own(Path(path).expanduser()), "rb") as file:
            noted = _noted(file)
        return {} if noted is None else noted[0]
    except Exception:
        return {}


def _differing(some: dict[str, str], others: dict[str, str]) -> set[str]:
    """Return the names whose texts differ."""
    return {name for name in {**some, **others} if some.get(name) != others.get(name)}
