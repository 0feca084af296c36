"""Merging files. Pages of the inputs are reused where possible."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core
from femtobarn._files.bad_files import BadFiles, SkipBadFiles
from femtobarn._files.open import good_files, resolve, settings_of
from femtobarn._operations.left_behind import LeftBehind, left_behind_of, left_behind_text
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import compression_settings, plain_path
from femtobarn._shared.patterns import patterns
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["Common", "MergeReport", "call", "found_by", "merge", "run", "sizes"]


@dataclass(frozen=True, repr=False)
class MergeReport:
    """The result of a merge.

    Parameters
    ----------
    output : str
        The output file.
    entries : dict of str to int
        Number of entries of each ntuple that was written or extended.
    bytes_out : int
        Size of the output, in bytes.
    levels : dict of str to int
        Bytes of pages by the level at which they were handled: "L0" in blocks shared with the inputs, "L1" copied, "L2"
        recompressed, "L3" encoded anew, "L4" decoded for rebuilt clusters (bytes of the input), "zeros" for fields that
        an input does not have, and "refused": copied because the file system refused to share them.
    shared_bytes : int or None
        Bytes of the output that share blocks with other files, according to the file system (FIEMAP); None if unknown.
    inputs : list of dict
        The details for each input.
    left_behind : tuple of LeftBehind
        Objects and fields of the inputs that are not in the output.
    whole : tuple of str
        After a skim: ntuples with all their entries, since they lack columns of the condition.
    seconds : float
        Elapsed time, in seconds.
    bytes_before : int or None
        Size of the output before an append; None for a new file.
    entries_before : dict of str to int
        Number of entries of each of these ntuples before an append.
    histograms : int
        Number of histograms in the output, which are sums of the histograms in the inputs.
    proof : dict or None
        The result of the comparison with the inputs, if it was requested.
    delivery : dict or None
        For an output on a server: the "bytes" that were sent, the elapsed "seconds", and how the file on the server was
        "compared" with the output: "size", "bytes" (read back), or the type of the server's checksum, as "adler32". Of
        an ntuple in objects also the number of "objects", of "requests", and of "server_copies" (objects that the
        server copied); "answers": the server confirmed each of them.
    """

    output: str
    entries: dict[str, int]
    bytes_out: int
    levels: dict[str, int]
    shared_bytes: int | None
    seconds: float
    inputs: list[dict[str, Any]] = field(default_factory=list)
    bytes_before: int | None = None
    entries_before: dict[str, int] = field(default_factory=dict)
    histograms: int = 0
    proof: dict[str, Any] | None = None
    delivery: dict[str, Any] | None = None
    left_behind: tuple[LeftBehind, ...] = ()
    whole: tuple[str, ...] = ()

    def __repr__(self) -> str:
        levels = ", ".join(f"{level}: {n}" for level, n in self.levels.items() if n and level != "refused")
        levels = f"; bytes by level {levels}" if levels else ""
        refused = self.levels.get("refused", 0)
        levels += f"; {refused} of them could not share their blocks" if refused else ""
        before = self.entries_before if self.bytes_before is not None else {}
        added = {name: f" ({n} before)" for name, n in before.items()}
        added |= dict.fromkeys(self.whole, " (as a whole)")
        entries = ", ".join(f"{name}: {n}{added.get(name, '')}" for name, n in self.entries.items())
        left = f"; {left_behind_text(self.left_behind)}" if self.left_behind else ""
        inputs = plural(len(self.inputs), "file")
        return f"<MergeReport {self.output!r} from {inputs}: {entries}{levels}{left}>"


@known_options()
def merge(
    files: Files,
    output: str | os.PathLike[str],
    *,
    level: str = "auto",
    mode: str = "filter",
    fields: str | Iterable[str] | None = None,
    compression: Any = None,
    cluster_size: str | SupportsIndex | None = None,
    page_size: str | SupportsIndex | None = None,
    object_size: str | SupportsIndex | None = None,
    others: str = "same",
    compatible: bool = True,
    overwrite: bool = False,
    append: bool = False,
    verify: bool = False,
    skip_bad_files: SkipBadFiles = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Merge files into one: ntuples of the same name one after another, and histograms as sums.

    Pages of the inputs are reused where possible. On file systems with reflinks (XFS, btrfs), blocks are shared with
    the inputs, so that the time does not depend on the amount of data. The output appears under its name only when it
    is complete.

    Parameters
    ----------
    files : str, path, dict or list
        The files to merge, as for `open`: all ntuples of each file, or only the named one.
    output : str or path
        The output file; with `append`, the file to extend. An output on a server (``root://``, ``https://``,
        ``davs://``, ``s3://``, ``gs://``, ``az://``) is written to the directory for temporary files (the setting
        `spool_folder`), and sent when it is complete.
    level : str
        How pages are handled, with the levels of ROOT's merging: "L0" shares blocks, and fails if that is not possible;
        "L1" copies; "L2" recompresses pages with another `compression`; "L3" encodes pages anew if their encoding does
        not suit the compression; "L4" rebuilds pages and clusters, so that small clusters are combined; "auto" takes
        the cheapest level with a correct result.
    mode : str
        Which fields the files must have: "filter", all fields of the first file, others are left out; "union", any
        fields, with zero, empty or missing values where a file has none; "strict", the same fields.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` are wildcards.
    compression : str or int, optional
        The compression of all pages (see `recreate`); by default it is unchanged.
    cluster_size, page_size : str or int, optional
        Compressed size of a cluster and uncompressed size of a page, in bytes, if they are rebuilt; by default as for
        `recreate`.
    object_size : str or int, optional
        Size of objects, if the output is written as objects; see `FileWriter.mkrntuple`.
    others : str
        How to treat objects that are neither ntuples nor histograms: "same" keeps those that are the same in all files,
        and raises an error if some differ; "first" takes the first of each name; "error"; "drop" leaves them out.
        Histograms and profiles are added, as in ROOT's hadd.
    compatible : bool
        Whether to write only files that ROOT 6.40 and uproot 5.7 can read: pages with another encoding than in the
        first file are encoded anew. Otherwise they become further column representations, as in ROOT 6.42.
    overwrite : bool
        Whether to replace an existing output file; an input is never replaced.
    append : bool
        Whether to add the files to an existing output without reading its data: its ntuples are continued, and new
        ones are added. `mode` compares the files with the ntuples of the output. Until the end, readers see the
        previous content, also after a failure. An output that does not exist is created.
    verify : bool
        Whether to read a new output again and compare it with the inputs before it appears, as
        ``open(output).verify(against=files)`` does; the result is the `proof` of the report.
    skip_bad_files : bool or list
        Whether to leave out files that cannot be opened, with a warning for each. A list gets a `BadFile` for each.
        Damage that is found later, while pages are copied, is always an error.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal and in a notebook. True prints log lines elsewhere.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        The report.

    Raises
    ------
    FemtobarnError
        If the files do not match, or a file cannot be read or written: no new output is left then, and an existing one
        is unchanged.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.merge([dimuon, dimuon], tmp / "both.root", others="drop")
    >>> report.entries
    {'Events': 24000}
    """
    given = {"level": level, "mode": mode, "compatible": compatible, "append": append, "verify": verify}
    write = sizes(cluster_size, page_size, object_size)
    bad_files = BadFiles(skip_bad_files)
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options, bad_files)
    return run("merging", files, output, given, write, common)


def sizes(
    cluster_size: str | SupportsIndex | None,
    page_size: str | SupportsIndex | None,
    object_size: str | SupportsIndex | None = None,
) -> dict[str, Any]:
    """Return sizes of clusters and pages as options of the core.

    Parameters
    ----------
    cluster_size, page_size, object_size : str or int, optional
        The arguments from the user.

    Returns
    -------
    dict
        The sizes that are given.

    Raises
    ------
    UsageError
        If a size is not a positive number of bytes.

    Examples
    --------
    >>> from femtobarn._operations.merge import sizes
    >>> sizes("1 MB", None)
    {'cluster_size': 1000000}
    """
    out: dict[str, Any] = {} if object_size is None else {"object_size": object_size}
    for name, size in (("cluster_size", cluster_size), ("page_size", page_size)):
        if size is not None:
            out[name] = min(num_bytes(size), 2**60)
            if out[name] < 1:
                raise UsageError(f"{name} must be at least one byte, not {size!r}")
    return out


@dataclass(frozen=True)
class Common:
    """Options that all operations share, as given by users."""

    fields: str | Iterable[str] | None
    compression: Any
    others: str
    overwrite: bool
    threads: int | None
    progress: bool | None
    storage_options: Mapping[str, Any] | None = None
    bad_files: BadFiles | None = None


def run(
    verb: str,
    files: Files,
    output: str | os.PathLike[str],
    given: dict[str, Any],
    write: dict[str, Any],
    common: Common,
) -> MergeReport:
    """Copy files to a new one.

    Parameters
    ----------
    verb : str
        The action, for the progress bar.
    files : str, path, dict or list
        The files to copy.
    output : str or path
        The output file.
    given, write : dict
        Options of the core, for merging and for writing.
    common : Common
        Further options.

    Returns
    -------
    MergeReport
        The report.
    """
    given |= {"fields": patterns("fields", common.fields), "others": common.others}
    return call(_core.merge, verb, files, output, given, write, common)


def call(
    work: Callable[..., str],
    verb: str,
    files: Files,
    output: str | os.PathLike[str],
    given: dict[str, Any],
    write: dict[str, Any],
    common: Common,
) -> MergeReport:
    """Call a function of the core with the arguments of `run`; return its report."""
    found = found_by(work, verb, files, output, given, write, common)
    return MergeReport(
        output=found["output"],
        entries={name: ntuple["entries"] for name, ntuple in found["ntuples"].items()},
        bytes_out=found["bytes_out"],
        levels=found["levels"],
        shared_bytes=found["shared_bytes"],
        seconds=found["seconds"],
        inputs=found["inputs"],
        bytes_before=found["bytes_before"],
        entries_before={name: ntuple["entries_before"] for name, ntuple in found["ntuples"].items()},
        histograms=found["histograms"],
        proof=found["proof"],
        delivery=found["delivery"],
        left_behind=left_behind_of(found["left_behind"]),
        whole=tuple(name for name, ntuple in found["ntuples"].items() if ntuple["whole"]),
    )


def found_by(
    work: Callable[..., str],
    verb: str,
    files: Files,
    output: str | os.PathLike[str],
    given: dict[str, Any],
    write: dict[str, Any],
    common: Common,
) -> Any:
    """Call a function of the core with the arguments of `run`; return its report as it is."""
    settings = {} if common.storage_options is None else settings_of(common.storage_options)
    pairs = resolve(files, settings)
    if not pairs:
        raise UsageError("no files to merge")
    if common.bad_files is not None:
        pairs = good_files(pairs, common.storage_options, common.bad_files)
    given |= {"overwrite": common.overwrite, "settings": settings}
    write["threads"] = num_threads(common.threads)
    if common.compression is not None:
        given["compression"] = write["compression"] = compression_settings(common.compression)
    path = plain_path(output, "second")
    with Progress(f"{verb} into {Path(_core.public_url(path)).name}", common.progress) as bar:

        def tick(num_files: int, all_files: int, done: int, total: int) -> None:
            bar.tick(done, total)

        return json.loads(work(pairs, path, given, write, tick))
