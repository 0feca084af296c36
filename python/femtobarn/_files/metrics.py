"""Metrics of what was read: counters, each request with its time, a summary, a plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from femtobarn._files.explain import Value, overhead_of
from femtobarn._shared.repr import format_bytes, format_seconds, plural
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Metrics", "Request", "Source", "SourceMetrics"]

_COLORS = {"open": "tab:red", "lists": "tab:orange", "data": "tab:blue"}


@dataclass(frozen=True)
class Request(Value):
    """One vector read.

    Parameters
    ----------
    stage : str
        The purpose: "open" (both ends of the file, header, footer), "lists" (page lists) or "data".
    start : float
        The start time, in seconds since 1970.
    seconds : float
        The duration, in seconds.
    ranges : tuple of (int, int)
        The requested byte ranges: first byte, and the one after the last.
    answered : bool
        Whether the read succeeded.
    """

    stage: str
    start: float
    seconds: float
    ranges: tuple[tuple[int, int], ...] = ()
    answered: bool = True

    @property
    def num_bytes(self) -> int:
        """Number of requested bytes."""
        return sum(stop - start for start, stop in self.ranges)


@dataclass(frozen=True)
class SourceMetrics(Value):
    """What was read from one file.

    Parameters
    ----------
    url : str
        The URL of the file, without secrets.
    size : int
        The size of the file, in bytes.
    requests, retries : int
        Number of data requests as the server counts them, including retries; and number of retries.
    vectors, ranges : int
        Number of vector reads, and of byte ranges in them. A vector read is one request if the server supports it.
    bytes_read, bytes_used : int
        Bytes that were requested, and bytes that were needed. The others came with the ends of the file, or were gaps
        between ranges.
    failed : int
        Number of vector reads that failed after all retries.
    cache_hits, cache_misses : int
        With a cache of remote files: number of ranges that were in it completely, and of the others. The numbers above
        are only of what was not in the cache.
    cache_bytes, fetched_bytes : int
        Bytes that came from the cache, and bytes that were read from the server to be kept in it.
    bad_entries : int
        Number of damaged entries of the cache, which were replaced.
    waiting_seconds : float
        Time in vector reads, in seconds, summed over threads.
    spans : tuple of Request
        The vector reads in the order in which they ended; of very many, only the first ones.
    """

    url: str
    size: int = 0
    requests: int = 0
    retries: int = 0
    vectors: int = 0
    ranges: int = 0
    bytes_read: int = 0
    bytes_used: int = 0
    failed: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bytes: int = 0
    fetched_bytes: int = 0
    bad_entries: int = 0
    waiting_seconds: float = 0.0
    spans: tuple[Request, ...] = ()

    @classmethod
    def _from_core(cls, values: Mapping[str, Any]) -> Self:
        spans = tuple(Request._from_core(span) for span in values["spans"])
        return super()._from_core({**values, "spans": spans})


@dataclass(frozen=True)
class Source(Value):
    """A server, or another place, that a file is read from.

    Parameters
    ----------
    file : int
        The number of the file in the ntuple.
    url : str
        The URL, without secrets.
    server : str or None
        The server that a redirector has chosen: its name and port.
    state : str
        "active" (it is read), "inactive" (it is open, and others are read), "disabled" (it failed, or has another
        version of the file), "opening" or "unopened" (it was not needed so far).
    quality : float or None
        Time of a request of 256 KiB, in seconds; None if it was not measured.
    rate : float or None
        Bytes per second while data were awaited; None if too little was read.
    num_bytes, requests : int
        Bytes that it delivered, and number of vector reads that it got.
    errors : tuple of str
        What went wrong, the last first.
    """

    file: int
    url: str
    server: str | None = None
    state: str = "active"
    quality: float | None = None
    rate: float | None = None
    num_bytes: int = 0
    requests: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Metrics(Value):
    """What was read since an ntuple was opened.

    Parameters
    ----------
    requests, ranges : int
        Number of data requests as the server counts them, and of requested byte ranges; a range has one page or several
        adjacent ones.
    bytes_read, bytes_needed : int
        Bytes that were fetched, including both ends of the files, and bytes that were needed.
    pages, cached_pages : int
        Number of decoded pages, and of pages that an iteration still had in memory.
    bytes_decompressed, bytes_decoded : int
        Bytes after decompression, and bytes of the resulting arrays.
    io_seconds, decompress_seconds, decode_seconds : float
        Time of each stage, in seconds, summed over threads.
    vectors, retries, failed : int
        Number of vector reads, of retried requests, and of vector reads that failed.
    real_seconds, cpu_seconds : float
        Wall time since the ntuple was opened, and CPU time of the whole process in that time.
    sources : tuple of SourceMetrics
        The same for each file, with each vector read.
    selections : int
        How often fields were looked up in all files: once per set of fields, whatever the number of files or steps.
    schemas : int
        Number of different schemas in memory; files with the same header share one.
    page_list_bytes : int
        Memory used by page lists, in bytes.
    """

    requests: int = 0
    ranges: int = 0
    bytes_read: int = 0
    bytes_needed: int = 0
    pages: int = 0
    cached_pages: int = 0
    bytes_decompressed: int = 0
    bytes_decoded: int = 0
    io_seconds: float = 0.0
    decompress_seconds: float = 0.0
    decode_seconds: float = 0.0
    vectors: int = 0
    retries: int = 0
    failed: int = 0
    real_seconds: float = 0.0
    cpu_seconds: float = 0.0
    sources: tuple[SourceMetrics, ...] = ()
    selections: int = 0
    schemas: int = 0
    page_list_bytes: int = 0
    _summary: ClassVar[str] = ""

    @classmethod
    def _from_core(cls, values: Mapping[str, Any]) -> Self:
        """Return an object with the numbers of the core; nanoseconds are converted to seconds."""
        seconds = {
            name.removesuffix("_ns") + "_seconds": value / 1e9 for name, value in values.items() if name.endswith("_ns")
        }
        sources = tuple(SourceMetrics._from_core(source) for source in values["sources"])
        names = ("requests", "ranges", "bytes_read", "vectors", "retries", "failed")
        sums = {name: sum(getattr(source, name) for source in sources) for name in names}
        out = super()._from_core({**values, **seconds, **sums, "sources": sources})
        object.__setattr__(out, "_summary", values["summary"])  # not a number
        return out

    @property
    def overhead(self) -> float:
        """Bytes that were read in addition, as a fraction of the bytes needed."""
        return overhead_of(self.bytes_read, self.bytes_needed)

    def summary(self) -> str:
        """Return a summary: size, share, requests, times, rates, and a histogram of the requests over time.

        Returns
        -------
        str
            Several lines of text.

        Examples
        --------
        >>> import femtobarn as fb
        >>> nt = fb.open(dimuon)
        >>> _ = nt.arrays(["nMuon"])
        >>> print(nt.metrics.summary())  # doctest: +ELLIPSIS
        1 file of ...
        """
        pages = self.pages + self.cached_pages
        if not self.cached_pages:
            return self._summary
        return f"{self._summary}\n{self.cached_pages / pages:.1%} of {plural(pages, 'page')} were still in memory"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the requests: offset in the files against time, coloured by purpose.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to draw on; by default a new figure.

        Returns
        -------
        matplotlib axes
            Time in seconds since the first request, and offset in bytes; the files are above each other.

        Raises
        ------
        UsageError
            If matplotlib is not installed.
        """
        try:
            from matplotlib import pyplot
            from matplotlib.collections import PatchCollection
            from matplotlib.patches import Patch, Rectangle
        except ImportError as error:
            raise UsageError("metrics.plot() needs matplotlib: pip install matplotlib") from error
        if ax is None:
            _, ax = pyplot.subplots(figsize=(9, 5), layout="constrained")
        begin = min((span.start for source in self.sources for span in source.spans), default=0.0)
        below = 0
        names = []
        for source in self.sources:
            for stage, color in _COLORS.items():
                boxes = [
                    Rectangle((span.start - begin, below + low), span.seconds, high - low)
                    for span in source.spans
                    if span.stage == stage
                    for low, high in span.ranges
                ]
                # thin ones are visible by their edge
                ax.add_collection(PatchCollection(boxes, facecolor=color, edgecolor=color, linewidth=0.8))
            names.append((below + source.size / 2, source.url.rpartition("/")[2] or source.url))
            below += source.size
            ax.axhline(below, color="0.8", linewidth=0.5)
        ax.autoscale()
        ax.set_ylim(0, max(below, 1))
        ax.set_xlabel("time / s")
        ax.set_ylabel("offset in the files")
        shown = names if len(names) <= 20 else []
        ax.set_yticks([place for place, _ in shown], [name for _, name in shown])
        ax.legend(handles=[Patch(color=color, label=stage) for stage, color in _COLORS.items()], loc="upper left")
        return ax

    def export_spans(self, tracer: Any = None) -> int:
        """Export the metrics to OpenTelemetry: one span per file, and in it one span per vector read.

        Parameters
        ----------
        tracer : opentelemetry.trace.Tracer, optional
            The tracer; by default the tracer "femtobarn" of the global provider.

        Returns
        -------
        int
            Number of spans.

        Raises
        ------
        UsageError
            If opentelemetry-api is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise UsageError("export_spans needs OpenTelemetry: pip install opentelemetry-api") from error
        tracer = tracer or trace.get_tracer("femtobarn")
        count = 0
        for source in self.sources:
            if not source.spans:
                continue
            begin = min(span.start for span in source.spans)
            end = max(span.start + span.seconds for span in source.spans)
            attributes = {"url.full": source.url, "file.size": source.size, "femtobarn.requests": source.requests}
            outer = tracer.start_span("femtobarn.file", start_time=_nanoseconds(begin), attributes=attributes)
            context = trace.set_span_in_context(outer)
            for span in source.spans:
                inner = tracer.start_span(
                    f"femtobarn.read.{span.stage}",
                    context=context,
                    start_time=_nanoseconds(span.start),
                    attributes={
                        "url.full": source.url,
                        "femtobarn.ranges": len(span.ranges),
                        "femtobarn.bytes": span.num_bytes,
                    },
                )
                if not span.answered:
                    inner.set_status(trace.StatusCode.ERROR)
                inner.end(end_time=_nanoseconds(span.start + span.seconds))
            outer.end(end_time=_nanoseconds(end))
            count += 1 + len(source.spans)
        return count

    def __repr__(self) -> str:
        again = f", {plural(self.retries, 'request')} made again" if self.retries else ""
        return "\n".join(
            [
                f"Metrics: {plural(self.requests, 'request')}, {plural(self.ranges, 'range')} read: "
                f"{format_bytes(self.bytes_read)}, with both ends of each file; "
                f"{format_bytes(self.bytes_needed)} needed{again}",
                f"{plural(self.pages, 'page')}: {format_bytes(self.bytes_decompressed)} decompressed, "
                f"{format_bytes(self.bytes_decoded)} decoded",
                f"time, summed over threads: {format_seconds(self.io_seconds)} I/O, "
                f"{format_seconds(self.decompress_seconds)} decompression, "
                f"{format_seconds(self.decode_seconds)} decoding",
            ]
        )

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
