"""Conversion between trees, ntuples, Parquet and Arrow IPC, with a proof that no data was lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core, errors
from femtobarn._files.bad_files import BadFiles, SkipBadFiles
from femtobarn._files.open import good_files, resolve, settings_of
from femtobarn._operations.left_behind import LeftBehind, left_behind_of, left_behind_text
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import compression_settings, plain_path
from femtobarn._shared.patterns import patterns
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn._shared.warning import warn_of_left_out
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["ConvertReport", "convert"]


@dataclass(frozen=True, repr=False)
class ConvertReport:
    """The result of the conversion of one file.

    Parameters
    ----------
    output : str
        The output file, also if it was not written.
    status : str
        "converted"; "kept" if the output existed already; "failed"; "interrupted" or "not tried" if the conversion was
        stopped before.
    input : str
        The input file; for several files that form one ntuple, the first.
    entries : int or None
        Number of entries of all ntuples together; for a failed file, the number of lost entries, if known.
    bytes_in, bytes_out : int
        Sizes of input and output on disk, in bytes.
    seconds : float
        Elapsed time, in seconds.
    notes : dict
        Fields with another name or other values in the output, and what was changed; if the output has several ntuples,
        the keys are ``"NTUPLE:FIELD"``.
    certificate : dict or None
        The proof: for each column of the output, its digest and the digest computed from the input.
    error : str or None
        The error message.
    ntuples : dict of str to int
        Number of entries of each ntuple of the output.
    left_behind : tuple of LeftBehind
        Objects and fields of the input that are not in the output.
    delivery : dict or None
        How the output was sent to its server, if it is on one; see `MergeReport`.
    """

    output: str
    status: str
    input: str
    entries: int | None
    bytes_in: int
    bytes_out: int
    seconds: float
    notes: dict[str, str]
    certificate: dict[str, Any] | None
    error: str | None = None
    ntuples: dict[str, int] = field(default_factory=dict)
    left_behind: tuple[LeftBehind, ...] = ()
    delivery: dict[str, Any] | None = None

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """The fields of `left_behind` that could not be converted: names and reasons, as `NTuple.skipped`.

        Returns
        -------
        tuple of (str, str)
            Names and reasons.
        """
        return tuple((it.field, it.reason) for it in self.left_behind if it.field is not None)

    @property
    def equal(self) -> bool | None:
        """Whether every column of the output is equal to the input; None if it was not verified.

        Returns
        -------
        bool or None
            The result.
        """
        return None if self.certificate is None else bool(self.certificate["equal"])

    def __repr__(self) -> str:
        words = [self.status]
        if self.status == "converted":
            words.append(plural(self.entries or 0, "entry"))
        elif self.status == "failed" and self.entries != 0:
            words.append("entries lost: " + ("unknown" if self.entries is None else str(self.entries)))
        if self.certificate is not None:
            num_columns = plural(len(self.certificate["columns"]), "column")
            words.append(f"{num_columns} {'equal' if self.equal else 'not all equal'}")
        elif self.status == "converted":
            words.append("not verified")
        if self.left_behind:
            words.append(left_behind_text(self.left_behind))
        if self.error is not None:
            words.append(self.error)
        return f"<ConvertReport {self.output!r}: {', '.join(words)}>"


def _report(found: dict[str, Any], first: str) -> ConvertReport:
    return ConvertReport(
        output=found["output"],
        status=found.get("status", "converted"),
        input=found.get("input", first),
        entries=found.get("entries", found.get("entries_lost")),
        bytes_in=found.get("bytes_in", 0),
        bytes_out=found.get("bytes_out", 0),
        seconds=found.get("seconds", 0.0),
        notes=dict(found.get("notes", ())),
        certificate=found.get("certificate"),
        error=found.get("error"),
        ntuples={name: ntuple["entries"] for name, ntuple in found.get("ntuples", {}).items()},
        left_behind=left_behind_of(found.get("left_behind", ())),
        delivery=found.get("delivery"),
    )


def _warn_of_skipped(reports: list[ConvertReport]) -> None:
    """Warn once about everything that conversions have left out."""
    skipped = [pair for report in reports for pair in report.skipped]
    where = reports[0].input if len(reports) == 1 else plural(sum(bool(r.skipped) for r in reports), "file")
    warn_of_left_out(skipped, where, "converted", "report")


def _check_switches(**switches: object) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            hint = "; the returned reports list the result of each file" if name == "skip_bad_files" else ""
            raise UsageError(f"{name} must be True or False, not {value!r}{hint}")


@known_options()
def convert(
    files: Files,
    output: str | os.PathLike[str],
    *,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    compression: Any = "zstd:5",
    cluster_size: str | SupportsIndex = "128 MiB",
    page_size: str | SupportsIndex = "1 MiB",
    object_size: str | SupportsIndex | None = None,
    memory_limit: str | SupportsIndex | None = None,
    name: str | None = None,
    group: bool = False,
    threads: int | None = None,
    verify: bool = True,
    overwrite: bool = False,
    jobs: int = 1,
    resume: bool = False,
    skip_bad_files: SkipBadFiles = False,
    kind: str = "root",
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Convert TTrees, RNTuples, a Parquet or an Arrow IPC file to another of these formats, except to a TTree.

    All trees and ntuples of a ROOT file are converted, or only the named one (``"nano.root:Events"``). The report lists
    everything else in the file as `left_behind`.

    A TTree becomes the same ntuple as with ROOT's RNTupleImporter: arrays with a counter become one collection; their
    branches become projected fields, and the counter the cardinality of the collection.

    The output appears under its name only when it is complete and, with `verify`, proven equal to the input. It
    replaces an existing file that looks like an earlier conversion: a file that has only ntuples of that name, or a
    table. Any other existing file is kept and is an error, unless `overwrite` is set. An input is never replaced.

    Parameters
    ----------
    files : str, path, dict or list
        The files to convert, as for `open`. If the output is a file, trees of the same path in several files become one
        ntuple. Its number types can represent the values of all files; fields that not all files have, or that cannot
        be read, are left out. A table is made from one tree or ntuple.
    output : str or path
        The output file; its extension selects the format (".root", ".parquet", ".arrow"). A name without extension or
        with a trailing slash, and an existing directory, is a directory: each file becomes one file in it. For objects
        and containers (``ntpl+…/``, ``daos://POOL/CONTAINER/``), each ntuple gets a name of its own there. Outputs on
        servers are written to the directory for temporary files (the setting `spool_folder`), and sent when complete.
    fields, drop : str or list of str, optional
        The top-level fields to convert, and those to leave out, by their names in the input or the output; ``*`` and
        ``?`` are wildcards. Unreadable fields are left out with an `UnreadableWarning`; if `fields` names one, it is an
        error.
    compression : str, int or None
        See `recreate`.
    cluster_size, page_size : str or int
        Approximate compressed size of a cluster, and maximum uncompressed size of a page, in bytes.
    object_size : str or int, optional
        Size of objects, if the output is written as objects; see `FileWriter.mkrntuple`.
    memory_limit : str or int, optional
        Limit of the memory for writing, in bytes; see `FileWriter.mkrntuple`. Reading takes 64 MB per step, and at most
        256 MB for pages that two steps need.
    name : str, optional
        Name of the ntuple, if there is only one; by default as in the input.
    group : bool
        Whether arrays with a common counter, such as ``Muon_pt[nMuon]`` and ``Muon_eta[nMuon]``, become one collection
        of records, named after the common prefix, ``Muon``.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    verify : bool
        Whether to read the output again and compare every column with the input.
    overwrite : bool
        Whether to replace any existing output file.
    jobs : int
        Number of files to convert at the same time; they share the threads. Only for a directory.
    resume : bool
        Whether to skip files whose output exists and is not older. Other outputs are replaced as without `resume`, and
        so are empty files and ROOT files that cannot be opened, which an interrupted conversion may have left. Only for
        a directory.
    skip_bad_files : bool or list
        Whether to convert the other files if some cannot be read. For a directory, the reports have their errors. If
        several files become one, ROOT files that cannot be opened are left out, with a warning for each, and a list
        gets a `BadFile` for each; damage that is found later is always an error.
    kind : str
        The format of the files in a directory: "root", "parquet" or "arrow".
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal and in a notebook. True prints log lines elsewhere.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    ConvertReport or list of ConvertReport
        The result; for a directory, one for each file.

    Raises
    ------
    FemtobarnError
        If a file cannot be read or written, or the output is not equal to the input: no output is left then. With
        `skip_bad_files`, the errors are in the reports.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.convert(dimuon, tmp / "muons.parquet", fields="*Muon*")
    >>> report.entries, report.equal
    (12000, True)
    """
    if type(files).__module__.split(".")[0] in ("uproot", "femtobarn"):
        raise UsageError("fb.convert takes paths of files: use fb.write for an open ntuple")
    settings = {} if storage_options is None else settings_of(storage_options)
    pairs = resolve(files, settings)
    if not pairs:
        raise UsageError("no files to convert")
    path = plain_path(output)
    named = _core.public_url(path)
    is_folder = named.endswith(("/", os.sep)) or Path(named).is_dir() or not Path(named).suffix
    if _core.is_object_set(named):
        is_folder = named.endswith("/")
    if kind not in ("root", "parquet", "arrow"):
        raise UsageError(f"kind must be 'root', 'parquet' or 'arrow', not {kind!r}")
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    if not is_folder and (resume or jobs != 1):
        raise UsageError("jobs and resume need an output directory: end its name with a slash")
    _check_switches(group=group, verify=verify, overwrite=overwrite, resume=resume)
    if is_folder:
        _check_switches(skip_bad_files=skip_bad_files)
    elif len(pairs) > 1 and (bad_files := BadFiles(skip_bad_files)).are_skipped:
        of_root = [pair for pair in pairs if not _core.is_table(pair[0])]
        bad = set(of_root).difference(good_files(of_root, storage_options, bad_files) if of_root else [])
        pairs = [pair for pair in pairs if pair not in bad]
    given = {
        "fields": patterns("fields", fields),
        "drop": patterns("drop", drop),
        "name": name,
        "group": group,
        "verify": verify,
        "overwrite": overwrite,
        "settings": settings,
    }
    write = {
        "compression": compression_settings(compression),
        "cluster_size": num_bytes(cluster_size),
        "page_size": num_bytes(page_size),
        "object_size": object_size,
        "memory_limit": None if memory_limit is None else num_bytes(memory_limit),
        "threads": num_threads(threads),
    }
    with Progress(f"converting {Path(_core.public_url(pairs[0][0])).name}", progress) as bar:
        seen: dict[int, tuple[int, int]] = {}

        def tick(file: int, entries: int, n_entries: int, done: int, total: int, verifying: bool) -> None:
            seen[file] = (total if verifying else done, total)
            known = sum(pair[1] for pair in seen.values())
            n_files = max(len(pairs), len(seen)) if is_folder else 1
            bar.tick(sum(pair[0] for pair in seen.values()), known * n_files // len(seen))

        if not is_folder:
            single = _report(json.loads(_core.convert(pairs, path, given, write, tick)), pairs[0][0])
        else:
            batch = (jobs, resume, skip_bad_files is True, kind)
            texts = _core.convert_many(pairs, path, given, write, batch, tick)
    if not is_folder:
        _warn_of_skipped([single])
        return single
    documents = [json.loads(text) for text in texts]
    reports = [_report(document, document["input"]) for document in documents]
    _warn_of_skipped(reports)
    failed = next((document for document in documents if document["status"] == "failed"), None)
    if failed is not None and not skip_bad_files:
        done = sum(report.status in ("converted", "kept") for report in reports)
        advice = f"; {failed['next']}" if failed["next"] else ""
        others = "; skip_bad_files=True continues after bad files" if len(reports) > 1 else ""
        message = f"{failed['error']}{advice} ({done} of {len(reports)} files converted{others})"
        raise getattr(errors, failed["class"])(message, kind=failed["kind"])
    return reports
