"""Sources of graphed, read by femtobarn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from femtobarn._files import filesets
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import Files, open_pairs
from femtobarn._shared.optional import optional
from femtobarn.errors import UsageError

__all__ = ["Source", "source"]


@dataclass(frozen=True)
class Source:
    """Files as a partitioned source of graphed. `source` makes it, and its `array` is what analyses begin with.

    It implements `graphed.write.PartitionedSource`, and can be pickled: workers open the files of their partitions.

    Attributes
    ----------
    files : tuple of (str, str)
        The URL of each file, and the name of the ntuple.
    fields : tuple of str
        The fields of the events.
    form : ak.forms.RecordForm
        The form of the events.
    """

    files: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    form: Any = field(repr=False)
    steps: tuple[tuple[tuple[int, int], ...], ...] | None = None
    known: Mapping[tuple[str, str], filesets.Source] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def array(self, session: Any = None, *, name: str = "events", behavior: Mapping[Any, Any] | None = None) -> Any:
        """Return the deferred array of the events; nothing is read.

        Parameters
        ----------
        session : graphed.Session, optional
            The session that records what is done with the array; by default a new one.
        name : str
            The name of the source in the session.
        behavior : dict, optional
            Behaviors of Awkward for a new session.

        Returns
        -------
        graphed.Array
            The array.

        Examples
        --------
        >>> from femtobarn.graphed import source
        >>> events = source(f"{dimuon}:Events", ["nMuon", "Muon_pt"]).array()
        >>> pairs = events[events.nMuon == 2]
        """
        import awkward as ak

        graphed = optional("graphed", "graphed")
        backends = optional("graphed.awkward", "graphed")
        tracer = ak.typetracer.typetracer_from_form(self.form, highlevel=True, behavior=behavior)
        if session is None:
            session = graphed.Session(backends.AwkwardBackend(behavior=behavior))
        return session.source(name, form=backends.AwkwardForm(tracer), data=self)

    def partitions(self, steps_per_file: int = 1) -> tuple[Any, ...]:
        """Return the partitions. No file is opened: how many entries a partition has is found when it is read.

        Parameters
        ----------
        steps_per_file : int
            Number of partitions of a file. If the files were given with steps, these are the partitions.

        Returns
        -------
        tuple of graphed.core.Partition
            The partitions in the order of the files.
        """
        partition = optional("graphed.core", "graphed").Partition
        if self.steps is None:
            numbers = range(steps_per_file)
            return tuple(partition.blind(*file, at, steps_per_file) for file in self.files for at in numbers)
        if steps_per_file != 1:
            raise UsageError("the files were given with steps, which are the partitions: leave out steps_per_file")
        steps = zip(self.files, self.steps, strict=True)
        return tuple(partition(*file, start, stop) for file, each in steps for start, stop in each)

    def read_partition(self, partition: Any, columns: Sequence[str] | None, resources: Any) -> Any:
        """Return the events of a partition.

        Parameters
        ----------
        partition : graphed.core.Partition
            The partition.
        columns : sequence of str, optional
            The fields to read; by default all.
        resources : object
            Keeps files open: an object with graphed's `open_once`.

        Returns
        -------
        ak.Array
            The events.
        """

        def opened(url: str) -> NTuple:
            return open_pairs([(url, partition.tree or None)], progress=False, storage_options=self.storage_options)

        ntuple = resources.open_once(partition.uri, opened)
        self._check((partition.uri, partition.tree), ntuple)
        where = partition.resolve(ntuple.num_entries)
        wanted = self.fields if columns is None else self._top(columns)
        return ntuple.arrays(wanted, entry_start=where.entry_start, entry_stop=where.entry_stop)

    def _check(self, file: tuple[str, str], ntuple: NTuple) -> None:
        """Raise if a file is not the one that the fileset describes."""
        source = self.known.get(file)
        if source is not None:
            filesets.check_same(source.path, ntuple, source.num_entries, source.uuid)
            filesets.ranges_of(source, ntuple.num_entries)

    def _top(self, columns: Sequence[str]) -> list[str]:
        """Return the fields of the events that have some columns: a member of a record is read with its record."""
        known = frozenset(self.fields)
        found = {column if column in known else column.partition(".")[0]: None for column in columns}
        return list(found)

    def __call__(self) -> Any:
        """Return all events, which graphed asks for where it does not read by partitions."""
        if not self.known and self.steps is None:
            ntuple = open_pairs(list(self.files), storage_options=self.storage_options)
            return ntuple.arrays(self.fields)
        import awkward as ak

        parts = []
        for at, file in enumerate(self.files):
            ntuple = open_pairs([file], progress=False, storage_options=self.storage_options)
            self._check(file, ntuple)
            ranges = ((0, ntuple.num_entries),) if self.steps is None else self.steps[at]
            parts += [ntuple.arrays(self.fields, entry_start=start, entry_stop=stop) for start, stop in ranges]
        return ak.concatenate(parts) if parts else self.form.length_zero_array()


def source(
    files: Files,
    fields: str | Iterable[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Return RNTuples or TTrees as a source of graphed.

    Only the first file is opened, for its form; no page is read.

    Parameters
    ----------
    files : str, path, dict or list
        The location, as for `femtobarn.open`. A dict can have what a preprocessed fileset knows of a file, as
        ``{url: {"object_path": "Events", "steps": [[0, 1000], [1000, 2000]], "num_entries": 2000, "uuid": "…"}}``.
        Only the entries of the steps are read.
    fields : str or iterable of str, optional
        Names or patterns of the fields; by default all, except for untyped collections whose members are fields
        themselves.
    storage_options : dict, optional
        Settings for servers, as for `femtobarn.open`.

    Returns
    -------
    Source
        The source. Its `array` is a deferred array; graphed reads only the fields that an analysis uses.

    Raises
    ------
    UsageError
        If only some files have steps, or a description of a file is invalid.
    FileError
        If a file is not the one that a preprocessed fileset describes: here for the first file, and when a partition
        is read for others.
    FemtobarnError
        As `femtobarn.open`.

    Examples
    --------
    >>> from femtobarn.graphed import source
    >>> source(f"{dimuon}:Events", "nMuon").fields
    ('nMuon',)
    """
    sources = filesets.sources_of(files, storage_options)
    if any(source.dataset is not None for source in sources):
        raise UsageError("a source has the files of one dataset: give fileset['name of the dataset']['files']")
    has_steps = [source.steps is not None for source in sources]
    if any(has_steps) and not all(has_steps):
        raise UsageError("some files have steps and others do not: give steps for all files, or for none")
    pairs = [_pair(source) for source in sources]
    first = open_pairs(pairs[:1], storage_options=storage_options)
    paths = first._paths(fields, None, None, None, None, "zip")
    form = first.form(paths)
    named = tuple((url, name or first.object_path) for url, name in pairs)
    steps = tuple(source.steps or () for source in sources) if all(has_steps) else None
    described = zip(named, sources, strict=True)
    known = {file: source for file, source in described if (source.steps, source.num_entries, source.uuid) != _UNKNOWN}
    made = Source(named, tuple(form.fields), form, steps, known, storage_options)
    if named[0] in known:
        made._check(named[0], first)
    return made


_UNKNOWN = (None, None, None)


def _pair(source: filesets.Source) -> tuple[str, str | None]:
    """Return the location of a file and the name of its ntuple."""
    if isinstance(source.of, NTuple):
        raise UsageError("workers open the files of a source: give paths or URLs, not open ntuples")
    return source.of
