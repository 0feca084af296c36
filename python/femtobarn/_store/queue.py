"""Queues between programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from femtobarn._store.product_decoding import loaded
from femtobarn._store.product_encoding import encoded
from femtobarn._store.product_forms import form_of
from femtobarn._store.product_types import BYTES, DTYPES, MSGPACK, PICKLE, type_name_of
from femtobarn.errors import KeyNotFoundError, QueueEndedError, UsageError

if TYPE_CHECKING:
    from femtobarn import _core
    from femtobarn._store.datastore import DataStore

__all__ = ["Queue", "no_queue", "queue_name"]

# Usual types of queues, for messages
_USUAL = (BYTES, MSGPACK, PICKLE, "std::string", *DTYPES, *(f"std::vector<{name}>" for name in DTYPES))


def queue_name(name: str, kind: Any) -> str:
    """Return the name of a queue in the store: queues with the same name and different types are different queues."""
    return f"{name}#{type_name_of(kind)}"


def no_queue(store: DataStore, name: str, kind: Any) -> KeyNotFoundError:
    """Return the error for a missing queue, with the existing types of this name."""
    wanted = type_name_of(kind)
    others = [*_USUAL, f"std::vector<{wanted}>", wanted.removeprefix("std::vector<").removesuffix(">")]
    there = []
    for other in others:
        with contextlib.suppress(KeyNotFoundError):
            store._core.open_queue(queue_name(name, other), False)
            there.append(other)
    hint = f"it exists for {', '.join(there)}: give its type" if there else "create it first"
    return KeyNotFoundError(f"{store.url}: there is no queue {name!r} of {wanted}; {hint}")


class Queue:
    """A queue between programs: each value is popped once, in the order of pushes.

    A ``with`` block closes it at its end. Iterating over it pops values until no producer has it open.
    """

    def __init__(self, store: DataStore, core: _core.Queue, name: str, kind: Any, unpickle: bool) -> None:
        self._store = store
        self._core = core
        self.name = name
        self.type = type_name_of(kind)
        self._form = form_of(kind)
        self._unpickle = unpickle
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self.type} in {self._store.url!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._core)

    def push(self, value: Any) -> None:
        """Append a value to the end.

        Parameters
        ----------
        value : object
            A value of the queue's type.
        """
        try:
            _, stored = encoded(self._store, self.name, value, self.type)
        except UsageError as error:
            why = str(error).removeprefix(f"product {self.name!r}: ")
            raise UsageError(
                f"queue {self.name!r} of {self.type} cannot take a {type(value).__name__}: {why}"
            ) from error
        self._core.push(stored)

    def pop(self) -> Any:
        """Pop the first value; wait for one while a producer has the queue open.

        Returns
        -------
        object
            The value; for a queue of a dataclass or of ``list[dataclass]``, as these.

        Raises
        ------
        QueueEndedError
            If the queue is empty and no producer has it open.
        UsageError
            If its values are pickled, and it was opened without ``unpickle=True``; then nothing is popped.
        FormatError
            If the value is damaged. It stays in the queue, as after other errors.
        """
        self._check()
        stored = self._core.pop()
        if stored is None:
            raise self._ended()
        return self._value(stored)

    def _ended(self) -> QueueEndedError:
        return QueueEndedError(f"queue {self.name!r} is empty, and no producer has it open")

    def _check(self) -> None:
        """Raise if values cannot be unpickled."""
        if self.type == PICKLE and not self._unpickle:
            raise UsageError(
                f"values of queue {self.name!r} are pickled, and unpickling can run any code: if you trust the program "
                "that pushes them, open the queue with unpickle=True"
            )

    def _value(self, stored: bytes) -> Any:
        """Decode a popped value; on errors, return it to the queue."""
        try:
            return loaded(self._store, self.name, self.type, stored, self._form, unpickle=self._unpickle)
        except BaseException:
            self._core.put_back(stored)
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self.pop()
        except EOFError:
            raise StopIteration from None

    def close(self) -> None:
        """End pushing from here; in a forked child, do nothing."""
        if self._process == os.getpid():  # another thread may have held the lock, and does not exist in the child
            self._core.close()
