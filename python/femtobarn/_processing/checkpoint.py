"""Checkpoints of `process`: a file that records completed work, so that a later call continues from it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import itertools
import json
import os
import pickle
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from femtobarn._core import open_own
from femtobarn._store.write_batch import flush_open
from femtobarn.errors import FemtobarnError, FileError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._processing.work import Failure, Outcome
    from femtobarn._shared.output import Path as PathLike

__all__ = ["Checkpoint", "State", "function_identity", "noted_identity"]

_EVERY = 5.0  # seconds
_MOST = 0.05  # of the time that may go into writing it
_TRIES = 3
_MAGIC = b"femtobarn checkpoint 4\n"


@dataclass
class State:
    """Finished work, up to a piece. `groups` has the values of each dataset, if they are kept apart."""

    n_pieces: int = 0
    n_events: int = 0
    after: Any = None
    values: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    groups: dict[str, list[Any]] | None = None
    is_whole: bool = True  # not while something is added, nor if that was broken off: `reduce` may change its arguments

    def add(
        self, outcome: Outcome, reduce: Callable[[Any, Any], Any] | None, after: Any, dataset: str | None = None
    ) -> None:
        """Add what came of the next piece."""
        self.is_whole = False
        values = self.values if self.groups is None else self.groups.setdefault(dataset or "", [])
        if reduce is None or not values:
            values += outcome.values
        else:
            for value in outcome.values:
                values[0] = reduce(values[0], value)
        self.failures += outcome.failures
        self.n_pieces += 1
        self.n_events += outcome.n
        self.after = after
        self.is_whole = True


class Checkpoint:
    """The file that records finished work.

    Parameters
    ----------
    path : str or path, optional
        The file; with None, nothing is recorded.
    identity : dict
        What must be equal for a later call to continue from the file: strings, by the names of their contents.
    """

    def __init__(self, path: PathLike | None, identity: dict[str, str]) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._identity = identity
        self._due = time.monotonic()  # at once: an unwritable file fails early
        self.state = State()
        if self._path is not None:
            self._load(self._path)

    def _load(self, path: Path) -> None:
        if path.is_dir():
            raise UsageError(f"{path}: expected the path of a checkpoint file, found a directory")
        if not path.parent.is_dir():
            raise UsageError(
                f"{path}: directory {str(path.parent)!r} for the checkpoint does not exist: create it first"
            )
        beside = self._beside(path)
        try:
            os.close(_create_own(beside))
            beside.unlink()
        except OSError as error:
            raise FileError(f"cannot write the checkpoint {path}: {error}") from error
        if not path.exists():
            return
        try:
            # it may contain anything that functions return, which needs pickle, and unpickling runs code: the file must
            # be the user's own, and of this work
            with os.fdopen(open_own(path), "rb") as file:
                noted = _noted(file)
                if noted is None:
                    raise FormatError(
                        f"{path}: not a checkpoint of this version of femtobarn, and process would overwrite it: use "
                        "another path, or remove the file to start again"
                    )
                self._check(path, noted)
                state = pickle.load(file)
                if not isinstance(state, State):
                    raise TypeError(f"it has {type(state).__name__}")
        except (FemtobarnError, UserWarning):
            raise
        except Exception as error:
            raise FormatError(
                f"{path}: this checkpoint is damaged ({type(error).__name__}: {error}): remove it to start again"
            ) from error
        self.state = state

    def _check(self, path: Path, identity: dict[str, str]) -> None:
        names = [name for name in {**identity, **self._identity} if identity.get(name) != self._identity.get(name)]
        if names:
            told = "; ".join(f"{name}: {identity.get(name)} there, {self._identity.get(name)} here" for name in names)
            raise UsageError(
                f"{path}: this checkpoint belongs to other work ({told}); repeat the call as it was, use another path, "
                "or remove the file to start again (key= identifies work whose function or arguments may change)"
            )

    @staticmethod
    def _beside(path: Path) -> Path:
        return path.with_name(f".{path.name}.partial-{os.getpid()}-0")

    def save(self, *, now: bool) -> None:
        """Write it, if it is time to; not if something was added by halves: recorded work stays valid."""
        began = time.monotonic()
        if self._path is None or not self.state.is_whole or (not now and began < self._due):
            return
        # data that functions have put into batches are written before their events are recorded as done
        flush_open()
        beside = self._beside(self._path)
        try:
            with os.fdopen(_create_own(beside), "wb") as file:
                file.write(_MAGIC + json.dumps(self._identity).encode() + b"\n")
                pickle.dump(self.state, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise FileError(f"cannot write the checkpoint {self._path}: {error}") from error
        except Exception as error:
            raise UsageError(
                f"{self._path}: a checkpoint needs results that can be pickled: {error}; return other results, or "
                "leave out checkpoint="
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
    """Create a file that belongs to this user, even if others can write to the directory; return its descriptor."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # not all file systems have locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # while it is open, it is not taken for a left-over file
    return descriptor


def _noted(file: BinaryIO) -> dict[str, str] | None:
    """Return the identity at the start of a checkpoint, without unpickling; None if the file is not a checkpoint."""
    return dict(json.loads(file.readline())) if file.read(len(_MAGIC)) == _MAGIC else None


def noted_identity(path: PathLike) -> dict[str, str]:
    """Return the identity in a checkpoint; an empty dict if it cannot be read, which `Checkpoint` reports."""
    try:
        with os.fdopen(open_own(Path(path).expanduser()), "rb") as file:
            return _noted(file) or {}
    except Exception:
        return {}


def function_identity(name: str, function: Callable[..., Any] | None, key: str | None) -> dict[str, str]:
    """Return what identifies a function: its name with a hash of its source, and a hash of its arguments.

    Arguments are those of a `functools.partial`, default values, the variables of enclosing functions, and the object
    of a method. They count by their pickle; one that cannot be pickled counts by its class. With `key`, only the key
    counts. Globals, modules and the source of functions that are called do not count.

    Examples
    --------
    >>> from functools import partial
    >>> function_identity("function", partial(max, default=20), "cut 20")
    {'function': "key 'cut 20'"}
    """
    if key is not None:
        return {name: f"key {key!r}"}
    arguments: list[Any] = []
    while isinstance(function, functools.partial):
        arguments += [*function.args, *_flat(function.keywords)]
        function = function.func
    # aio.process calls the user's function through a wrapper of this package
    if (getattr(function, "__module__", None) or "").startswith("femtobarn."):
        function = getattr(function, "__wrapped__", function)
    source = _source(function, arguments)
    identity = {name: "none" if function is None else f"{_name(function)} (source {_digest(source)})"}
    if arguments:
        identity[f"arguments of {name}"] = _digest(b"".join(map(_pickled, arguments)))
    return identity


def _source(function: Any, arguments: list[Any]) -> bytes:
    """Return the source of a function, and add to `arguments` what it has besides its parameters."""
    if isinstance(function, types.MethodType):
        arguments.append(function.__self__)
        function = function.__func__
    elif not isinstance(function, types.FunctionType | type | types.BuiltinFunctionType):
        arguments.append(function)
        function = type(function)
    if isinstance(function, types.FunctionType):
        arguments += [*(function.__defaults__ or ()), *_flat(function.__kwdefaults__ or {})]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # not set yet
                arguments.append(cell.cell_contents)
    for _ in range(_TRIES):
        try:
            return inspect.getsource(function).encode()
        except SystemError:  # two threads that parse at the same time disturb each other: python/cpython#106905
            continue
        except (OSError, TypeError):  # builtins, and code that was not in a file
            break
    return _code(getattr(function, "__code__", None))


def _flat(named: dict[str, Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(sorted(named.items()))


def _code(code: Any) -> bytes:
    if not isinstance(code, types.CodeType):
        return b""
    inner = b"".join(_code(one) if isinstance(one, types.CodeType) else _pickled(one) for one in code.co_consts)
    return code.co_code + repr(code.co_names).encode() + inner


def _pickled(value: Any, within: tuple[Any, ...] = ()) -> bytes:
    if isinstance(value, set | frozenset):  # whose order differs between processes
        value = sorted(value, key=repr)
    try:
        return pickle.dumps(value)
    except Exception:
        if not isinstance(value, types.FunctionType) or value in within:  # a nested function may call itself
            return _name(value).encode()
        inner: list[Any] = []
        source = _source(value, inner)
        return source + b"".join(_pickled(one, (*within, value)) for one in inner)


def _name(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
