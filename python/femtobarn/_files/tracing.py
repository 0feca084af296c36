"""What this process reads: recording operations, replaying them, and the report."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from femtobarn import _core
from femtobarn._files.explain import Value
from femtobarn._files.open import settings_of
from femtobarn.errors import UsageError

__all__ = ["Recording", "Replay", "record", "replay", "report"]


class Recording:
    """Operations that are being recorded, until `stop` or the end of a `with` statement; see `record`.

    Parameters
    ----------
    path : str or path
        The trace.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        _core.record(self.path)

    def stop(self) -> None:
        """End the recording of files that are opened later; open files are recorded until they are closed.

        A recording that began before and has not ended goes on.
        """
        _core.end_record(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Recording({self.path!r})"


def record(path: str | os.PathLike[str]) -> Recording:
    """Record each operation on the files that are opened from now on.

    Rows are written at once, with the format of XRootD's recorder (`XrdClRecorder`), so `xrdreplay` reads them too.
    URLs are written without tokens and passwords. Local files are read without memory mapping meanwhile.

    Parameters
    ----------
    path : str or path
        The trace, a new file or one that is replaced. The variable ``FEMTOBARN_RECORD`` names one for a whole process
        and the processes that it starts; rows are appended to that.

    Returns
    -------
    Recording
        Ends the recording by `stop`, or as a context manager.

    Examples
    --------
    >>> import femtobarn as fb
    >>> with fb.record(tmp / "trace.csv"):
    ...     with fb.open(dimuon) as nt:
    ...         _ = nt.arrays(["nMuon"])
    >>> fb.replay(tmp / "trace.csv", speed=None).failed
    0
    """
    return Recording(path)


def report(format: Literal["text", "json", "prometheus"] = "text") -> str:  # noqa: A002
    """Return what this process has read so far: from which servers, how fast, and with which memory and CPU time.

    Parameters
    ----------
    format : {"text", "json", "prometheus"}
        Lines for people, a JSON document, or Prometheus's text format.

    Returns
    -------
    str
        The report. The variable ``FEMTOBARN_REPORT`` prints it at the end of a process.

    Raises
    ------
    UsageError
        If the format is unknown.

    Examples
    --------
    >>> import femtobarn as fb
    >>> print(fb.report())  # doctest: +ELLIPSIS
    report of ...
    """
    text = _core.report(format)
    if text is None:
        raise UsageError(f"invalid format {format!r}: use 'text', 'json' or 'prometheus'")
    return text


@dataclass(frozen=True, repr=False)
class Replay(Value):
    """What a trace contains, and how its replay compares.

    Parameters
    ----------
    recorded_seconds : float
        Time from the first to the last recorded operation, in seconds.
    seconds : float, optional
        Time of the replay, in seconds; None if it was not replayed, as for the next ones.
    bytes : int, optional
        Bytes that were read by the replay.
    bandwidth : int, optional
        These per second.
    performance_mark, gain_mark : float, optional
        Recorded time divided by that of the replay, in percent: from the first to the last operation, and of the sum of
        all reads.
    failed, skipped : int
        Operations of the replay that failed, and operations that were not replayed: writes, and those that had failed.
    errors : tuple of str
        The first errors.
    read, written : dict
        Recorded operations, bytes, files and the size of the data.
    read_synchronicity, write_synchronicity : float, optional
        Percentage of operations on a file that began after the one before had ended, as the mean of files that were
        only read, and of files that were written.
    files : tuple of dict
        The same for each file.
    """

    recorded_seconds: float
    seconds: float | None = None
    bytes: int | None = None
    bandwidth: int | None = None
    performance_mark: float | None = None
    gain_mark: float | None = None
    failed: int = 0
    skipped: int = 0
    errors: tuple[str, ...] = ()
    read: Mapping[str, int] | None = None
    written: Mapping[str, int] | None = None
    read_synchronicity: float | None = None
    write_synchronicity: float | None = None
    files: tuple[Mapping[str, Any], ...] = ()
    _summary: ClassVar[str] = ""

    def summary(self) -> str:
        """Return a summary for people.

        Returns
        -------
        str
            Several lines of text.
        """
        return self._summary

    def __repr__(self) -> str:
        return self._summary.rstrip("\n")


def replay(
    path: str | os.PathLike[str],
    *,
    replace: Mapping[str, str] | None = None,
    speed: float | None = 1.0,
    play: bool = True,
    figure: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Replay:
    """Repeat the reads of a trace of `record` or of XRootD's recorder, with their timing, and compare.

    A read begins at its recorded time, but after the answers that its program had. Reads that overlapped do so again.
    Writes are not repeated.

    Parameters
    ----------
    path : str or path
        The trace.
    replace : dict, optional
        Parts of URLs, and what takes their place.
    speed : float, optional
        How many times as fast as recorded; None waits for nothing but answers.
    play : bool
        False only looks at the trace.
    figure : str or path, optional
        An SVG file to draw: positions in the files and rates against time.
    storage_options : dict, optional
        Settings for servers.

    Returns
    -------
    Replay
        What was recorded, and how the replay compares.

    Raises
    ------
    UsageError
        If the file is not a trace, or the speed is not above 0.
    """
    if speed is not None and not speed > 0:
        raise UsageError(f"invalid speed {speed!r}: it must be above 0, or None")
    text, summary, drawn = _core.replay(
        os.fspath(path),
        list((replace or {}).items()),
        play_it=play,
        speed=speed,
        draw=figure is not None,
        settings=settings_of(storage_options or {}),
    )
    if figure is not None and drawn is not None:
        Path(figure).write_text(drawn, encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    # of a trace that was not replayed, nothing has failed in the replay
    out = Replay._from_core({**found, "failed": 0, **(found["replay"] or {})})
    object.__setattr__(out, "_summary", summary)  # not a number
    return out
