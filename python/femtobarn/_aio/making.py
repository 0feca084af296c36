"""Objects for asyncio, and how their methods are made: one line per method if its arguments have no twins.

class Event(Twin[_containers.Event]):
    load = reads(_containers.Event.load)
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from femtobarn._store.threads import Threads, threads_of

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = [
    "Closing",
    "Entered",
    "Opening",
    "Twin",
    "begins",
    "like",
    "made_of",
    "own",
    "pages",
    "reads",
    "twin_of",
    "writes",
]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
E = TypeVar("E", bound="Entered[Any]")
F = TypeVar("F", bound=Callable[..., Any])


def _doc(method: Callable[..., Any]) -> str:
    """Return a method's documentation, without the examples, which do not await."""
    return (method.__doc__ or "").partition("Examples\n")[0].rstrip() + "\n"


def like(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give a hand-written twin the documentation of its method."""

    def documented(twin: F) -> F:
        twin.__doc__ = _doc(method)
        return twin

    return documented


def made_of(method: Callable[..., Any], twin: F) -> F:
    """Give a twin the name, the arguments and the documentation of its method."""
    functools.update_wrapper(twin, method)
    twin.__doc__ = _doc(method)
    return twin


def reads(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the twin of a method that changes nothing."""

    async def twin(self: Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = await self._threads.read(getattr(self.sync, method.__name__), *args, **kwargs)
        return found

    return made_of(method, twin)


def writes(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the twin of a method that changes something."""

    async def twin(self: Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = await self._threads.write(getattr(self.sync, method.__name__), *args, **kwargs)
        return done

    return made_of(method, twin)


def begins(method: Callable[Concatenate[S, P], R], kind: Callable[[R], T]) -> Callable[Concatenate[Any, P], T]:
    """Return the twin of a method without requests to a store, which is not awaited."""

    def twin(self: Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return kind(getattr(self.sync, method.__name__)(*args, **kwargs))

    return made_of(method, twin)


def pages(
    method: Callable[Concatenate[S, P], Iterator[R]], kind: Callable[[R], T]
) -> Callable[Concatenate[Any, P], AsyncGenerator[T, None]]:
    """Return the twin of a `paged` method: an async generator."""

    async def twin(self: Twin[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        source = getattr(type(self.sync), method.__name__).pages
        async with aclosing(self._threads.each(lambda: source(self.sync, *args, **kwargs))) as found:
            async for page in found:
                for item in page:
                    yield kind(item)

    return made_of(method, twin)


_CLASSES: dict[type, type[Twin[Any]]] = {}


class Twin(Generic[S]):
    """An object for asyncio. A class ``A(Twin[B], of=B)`` is the twin of objects of class B.

    Attributes
    ----------
    sync : object
        The same object for threads.
    """

    __slots__ = ("sync",)

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            _CLASSES[of] = cls

    def __init__(self, sync: S) -> None:
        self.sync = sync

    @property
    def _threads(self) -> Threads:
        store: DataStore = self.sync._store  # type: ignore[attr-defined]
        return threads_of(store)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Twin) and bool(self.sync == other.sync)

    def __hash__(self) -> int:
        return hash(self.sync)

    def __repr__(self) -> str:
        return f"<aio {str(self.sync.__repr__()).removeprefix('<')}"

    # Without these, Python would use __getitem__ for membership and iteration, and never end.
    def __iter__(self) -> Any:
        if hasattr(self, "__aiter__"):
            raise TypeError(f"iterate over {self!r} with async for")
        raise TypeError(f"{type(self).__name__!r} object is not iterable")

    def __contains__(self, key: object) -> bool:
        if hasattr(self, "contains"):
            raise TypeError(f"check membership in {self!r} with await ….contains({key!r})")
        raise TypeError(f"argument of type {type(self).__name__!r} is not iterable")


def twin_of(sync: object) -> Any:
    """Return the asyncio object for an object for threads."""
    kinds = type(sync).__mro__
    return next(_CLASSES[kind] for kind in kinds if kind in _CLASSES)(sync)


def own(given: object) -> Any:
    """Return the object for threads of one for asyncio; anything else, for which the method has an error, as it is."""
    return given.sync if isinstance(given, Twin) else given


class Entered(Twin[S]):
    """An object that is closed at the end of an ``async with`` block."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if TYPE_CHECKING:

        async def close(self) -> None: ...


class Closing(Entered[S]):
    """An object that is closed at the end of an ``async with`` block, or in a thread when it is unreferenced."""

    __slots__ = ("_is_closed",)

    def __init__(self, sync: S) -> None:
        super().__init__(sync)
        self._is_closed = False

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            # Errors are printed. When the interpreter ends there are no threads, and the core closes it.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._close, name="femtobarn-aio-close").start()

    async def close(self) -> None:
        """Close it, even if this is cancelled."""
        await self._threads.surely(self._close)

    def _close(self) -> None:
        self.sync.close()  # type: ignore[attr-defined]
        self._is_closed = True


class Opening(Generic[E]):
    """An object that is opened by ``await`` or ``async with``."""

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._opens = opens
        self._opened: E | None = None

    def __await__(self) -> Generator[Any, None, E]:
        return self._opens().__await__()

    async def __aenter__(self) -> E:
        self._opened = await self._opens()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
