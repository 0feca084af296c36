"""The file that notes what is done, so that processing can go on where it was broken off."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn._datastore import flush_open
from femtobarn.errors import FileError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._output import Path as PathLike
    from femtobarn._work import Failure, Outcome

__all__ = ["Checkpoint", "State", "described"]

_EVERY = 5.0  # seconds
_MOST = 0.05  # of the time that may go into writing it
_MAGIC = "femtobarn checkpoint 1"
_SIMPLE = (int, float, complex, str, bytes, bool, type(None))


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
    """

    def __init__(self, path: PathLike | None, identity: dict[str, str]) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._identity = identity
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
                magic, identity = pickle.load(file)
                if magic != _MAGIC:
                    raise ValueError(f"it begins with {magic!r}")
                self._check(path, identity)
                state = pickle.load(file)
                if not isinstance(state, State):
                    raise TypeError(f"it has {type(state).__name__}")
        except UsageError:
            raise
        except Exception as error:
            raise FormatError(
                f"{path}: this is no checkpoint of process, or it is damaged ({type(error).__name__}: {error}): "
                "remove it to begin anew"
            ) from error
        self.state = state

    def _check(self, path: Path, identity: dict[str, str]) -> None:
        names = [name for name in {**identity, **self._identity} if identity.get(name) != self._identity.get(name)]
        if names:
            told = "; ".join(f"{name}: {identity.get(name)} there, {self._identity.get(name)} here" for name in names)
            raise UsageError(
                f"{path}: this checkpoint is of other work ({told}): call process as it was called then, give another "
                "path, or remove the file to begin anew"
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
        beside = self._beside(self._path)
        try:
            with beside.open("wb") as file:
                pickle.dump((_MAGIC, self._identity), file)
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


def described(function: Any) -> str:
    """Return which function it is, with a digest of its code, so that a mended one is another.

    The digest is of its own code, its defaults, and the numbers, texts and functions that it encloses; not of what it
    calls, nor of lists and dicts, which may change.

    Examples
    --------
    >>> from femtobarn._checkpoint import described
    >>> described(lambda a: a + 1) == described(lambda a: a + 2)
    False
    """
    inner = getattr(function, "func", function)  # of a partial
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    digest = hashlib.sha256(_text(function, 0).encode()).hexdigest()[:16]
    return f"{named.__module__}.{named.__qualname__} (code {digest})"


def _text(value: Any, depth: int) -> str:
    """Return what a function, or something in it, is, alike in each process.

    Of what may change while it is called, as lists and dicts, only that it is one.
    """
    if isinstance(value, _SIMPLE):
        return repr(value)
    inner = depth + 1
    if depth > 10:
        return type(value).__qualname__
    if isinstance(value, tuple):
        return f"({','.join(_text(item, inner) for item in value)})"
    if isinstance(value, frozenset):  # the order of texts in it is another in each process
        return f"{{{','.join(sorted(_text(item, inner) for item in value))}}}"
    if isinstance(value, types.CodeType):
        return f"{value.co_code.hex()} {value.co_names} {_text(value.co_consts, inner)}"
    if isinstance(value, types.FunctionType):
        cells = tuple(_contents(cell) for cell in value.__closure__ or ())
        parts = (value.__code__, value.__defaults__, _items(value.__kwdefaults__), cells)
        return f"{value.__module__}.{value.__qualname__} {_text(parts, inner)}"
    if isinstance(value, types.MethodType):
        return _text((value.__func__, value.__self__), inner)
    if hasattr(value, "func") and hasattr(value, "args"):
        return _text((value.func, value.args, _items(value.keywords)), inner)
    if isinstance(call := type(value).__dict__.get("__call__"), types.FunctionType):
        return _text((type(value).__qualname__, call, _items(getattr(value, "__dict__", None))), inner)
    return f"{type(value).__module__}.{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


def _items(names: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    return tuple((names or {}).items())


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
