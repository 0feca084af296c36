"""Joining: fields of several ntuples side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.entries import joining
from femtobarn._files.ntuple import NTuple
from femtobarn._operations.merge import Common, MergeReport, call
from femtobarn._shared.compat import known_options
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import os

    from femtobarn._files.open import Files

__all__ = ["join_columns"]


@known_options()
def join_columns(
    files: Files,
    output: str | os.PathLike[str],
    *,
    on: str | Iterable[str] | None = None,
    fields: Sequence[str | Iterable[str] | None] | None = None,
    unmatched: str = "error",
    name: str | None = None,
    others: str = "same",
    compression: Any = None,
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Join the fields of several ntuples side by side into one ntuple (horizontal merge, like friend trees).

    Without `on`, entries with the same number belong together. If all ntuples have the same clusters, their pages are
    shared or copied. Otherwise, and if entries are matched by `on`, clusters are rebuilt.

    Parameters
    ----------
    files : str, path, dict or list
        Two or more ntuples, as for `open`: ``["a.root:Events", "b.root:Friends"]``.
    output : str or path
        The output file.
    on : str or list of str, optional
        Integer fields that all ntuples have, such as ``["run", "luminosityBlock", "event"]``. Entries with equal values
        belong together. The output has the entries of the first ntuple, in its order. A key that occurs twice in one of
        the other ntuples is an error.
    fields : list, optional
        For each ntuple, the top-level fields to take, as a name or a list of names (``*`` and ``?`` are wildcards);
        None for all. If two ntuples have a field of the same name, leave it out of one. Fields of `on` are an
        exception: each is taken once, from the first ntuple whose selection has it.
    unmatched : str
        How to treat entries of the first ntuple without a match in another one: "error"; "drop" leaves them out and
        counts them in the report.
    name : str, optional
        The name of the output ntuple, with directories (``"nano/Events"``); by default the name of the first.
    others : str
        How to treat attribute sets of the same name in several ntuples, unless they are equal, and other objects in
        files without an ntuple name (``"a.root"`` but not ``"a.root:Events"``): "same" keeps those that are the
        same in all files, and raises an error if some differ; "first" takes the first of each name; "error"; "drop"
        leaves them out, and all attribute sets. Attribute sets follow the entries that they describe. Histograms are
        not added. The report lists everything that is left out.
    compression : str or int, optional
        The compression of all pages (see `recreate`); by default it is unchanged.
    overwrite : bool
        Whether to replace an existing output file; an input is never replaced.
    verify : bool
        Whether to read the output again and compare it with the inputs before it appears, as
        ``open(output).verify(against=files, beside=True, ...)`` does; the result is the `proof` of the report.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        The report. The `dropped` of its `inputs` also counts entries of the other ntuples that match no entry of the
        first.

    Raises
    ------
    FemtobarnError
        If entries or names do not match, or a file cannot be read or written: no output is left then.

    Examples
    --------
    >>> import femtobarn as fb
    >>> one, two = {"event": [1, 2], "pt": [20.5, 30.5]}, {"event": [2, 1], "weight": [0.5, 2.0]}
    >>> fb.write(tmp / "events.root", one, name="Events"), fb.write(tmp / "friends.root", two, name="Friends")
    (2, 2)
    >>> report = fb.join_columns([tmp / "events.root", tmp / "friends.root"], tmp / "joined.root", on="event")
    >>> fb.open(tmp / "joined.root").arrays(library="np")["weight"]
    array([2. , 0.5])
    """
    for each in files if isinstance(files, (list, tuple)) else [files]:
        if isinstance(each, NTuple) and len(each.files) > 1:
            raise UsageError(f"{each.name!r} is in {len(each.files)} files: merge them first, then join the result")
    given = joining(on, fields, unmatched) | {"others": others, "verify": verify}
    if name is not None:
        given["name"] = name
    common = Common(None, compression, others, overwrite, threads, progress, storage_options)
    return call(_core.join_columns, "joining", files, output, given, {}, common)
