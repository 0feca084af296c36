"""The code outside of this package that called it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

__all__ = ["Line", "calling_function", "calling_line", "name_of", "note_line"]

_HERE = str(Path(__file__).parents[1] / "_")[:-1]  # with the separator
_START = ("threading", "concurrent.futures.thread", "asyncio.events")  # the modules in which threads and tasks begin


class Line(NamedTuple):
    """A line of code.

    Attributes
    ----------
    filename : str
        The path of the file.
    number : int
        The number of the line.
    module : dict
        The global variables of its module.
    """

    filename: str
    number: int
    module: dict[str, Any]


_noted: Line | None = None


def note_line() -> None:
    """Note the calling line: what is begun there may warn when nobody waits for it any more."""
    global _noted
    frame = _outside(sys._getframe(1))
    if _is_users(frame):
        _noted = _line(frame)


def calling_line() -> Line:
    """Return the line outside of this package that has called it.

    Returns
    -------
    Line
        In a thread that was started by this package, the line that waits for it, or else the line that was noted last.
    """
    own = _outside(sys._getframe(1))
    if _is_users(own):
        return _line(own)
    waiting = next(_waiting(), None)
    if waiting is not None:
        return _line(waiting)
    return _noted or _line(own)


def calling_function() -> str:
    """Return the name of the function outside of this package that has called it.

    Returns
    -------
    str
        Its module and name; in a script or a notebook, the name of the script or of the cell, and its own.
    """
    frame = _outside(sys._getframe(1))
    module = str(frame.f_globals.get("__name__", "__main__"))
    return name_of(module, frame.f_code)


def name_of(module: str, code: CodeType) -> str:
    """Return the name of a function by its module and code.

    Those of scripts, also in processes that a script starts, are named by its file, without the directory: jobs have
    directories of their own. Those of a notebook are named by the cell, whose name is a hash of its text.
    """
    where = Path(code.co_filename).name if module in ("__main__", "__mp_main__") else module
    return f"{where}:{code.co_qualname}"


def _line(frame: FrameType) -> Line:
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def _is_here(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_HERE)


def _is_users(frame: FrameType) -> bool:
    return not _is_here(frame) and frame.f_globals.get("__name__") not in _START


def _outside(frame: FrameType) -> FrameType:
    """Return the nearest frame outside of this package; in a thread of Rust, its first frame."""
    # Awkward calls this package to read virtual arrays
    while frame.f_back is not None and (_is_here(frame) or _package(frame) == "awkward"):
        frame = frame.f_back
    return frame


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _waiting() -> Iterator[FrameType]:
    """Iterate over the frames that have called this package in other threads, the main thread first."""
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    main = frames.pop(threading.main_thread().ident or 0, None)
    for innermost in (main, *frames.values()):
        frame = innermost
        while frame is not None and not _is_here(frame):
            frame = frame.f_back
        if frame is not None and _is_users(found := _outside(frame)):
            yield found
