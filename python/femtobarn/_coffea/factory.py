"""coffea's events, read by femtobarn."""

from __future__ import annotations

import copy
import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, cast

import awkward as ak
from coffea.nanoevents import NanoEventsFactory as CoffeaFactory
from coffea.nanoevents.factory import _key_formatter, _reads_podio_metadata
from coffea.nanoevents.schemas import BaseSchema, NanoAODSchema
from coffea.nanoevents.trace import _form_keys_to_columns
from coffea.nanoevents.util import tuple_to_key

from femtobarn._coffea.columns import Description, description_of, podio_collection_types
from femtobarn._coffea.lazy_events import Buffers, Forms
from femtobarn._coffea.mapping import Entries, SourceMapping, entries_at_once, entries_when_touched
from femtobarn._files.filters import compile_filter, name_matches
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import Files, is_of_uproot, open_pairs, resolve
from femtobarn._shared.caller import calling_function
from femtobarn._shared.compat import known_options
from femtobarn._shared.steps import clip_entries
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import LazyReader
    from femtobarn._shared.output import Path as PathLike

__all__ = ["NanoEventsFactory", "from_root"]

_MODES = ("virtual", "eager")
_MOST = 64  # schemas that are remembered
_SETTINGS = (bool, int, float, str, bytes, tuple, list, set, frozenset, dict, type(None))


class NanoEventsFactory(CoffeaFactory):  # type: ignore[misc]
    """Makes coffea's events of files that femtobarn reads.

    It is coffea's class of this name with another `from_root`. Other methods are those of coffea.

    Examples
    --------
    >>> from coffea.nanoevents import BaseSchema
    >>> from femtobarn.coffea import NanoEventsFactory
    >>> factory = NanoEventsFactory.from_root(f"{dimuon}:Events", schemaclass=BaseSchema)
    >>> len(factory.events())
    12000
    """

    # of those that `from_root` makes
    _forms: Forms | None = None
    _arguments: dict[str, Any] | None = None

    @classmethod
    @known_options()
    def from_root(
        cls,
        file: Files,
        *,
        mode: Literal["virtual", "eager"] = "virtual",
        treepath: str | None = None,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        preload: Callable[[Any], bool] | Iterable[str] | None = None,
        buffer_cache: MutableMapping[str, Any] | None = None,
        schemaclass: Callable[..., Any] = NanoAODSchema,
        metadata: dict[str, Any] | None = None,
        access_log: list[Any] | None = None,
        record: PathLike | Literal[False] | None = None,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        function: str | None = None,
        iteritems_options: Mapping[str, Any] | None = None,
        uproot_options: Mapping[str, Any] | None = None,
        use_ak_forth: bool = True,
        decompression_executor: Any = None,
        interpretation_executor: Any = None,
    ) -> NanoEventsFactory:
        """Return what makes events of an RNTuple or a TTree.

        Parameters
        ----------
        file : str, path, dict, list or NTuple
            The location, as for `femtobarn.open`: ``"file.root:Events"``, ``{"file.root": "Events"}``, a URL, or an
            open ntuple. Several files are read as one.
        mode : str
            "virtual": columns are read when they are touched, together with those that earlier calls of the same
            function touched. "eager": all columns are read at once.
        treepath : str, optional
            The name in the file, if `file` does not have it.
        entry_start, entry_stop : int, optional
            First entry, and the one after the last. By default all.
        preload : callable or list of str, optional
            Columns to read at once: their names, or a function of a `Field` that returns whether to read it.
        buffer_cache : mapping, optional
            Keeps buffers by keys that are unique to file and entries.
        schemaclass : type
            A schema of coffea.
        metadata : dict, optional
            The metadata of the events.
        access_log : list, optional
            The columns that are read are added to it, as coffea's `Accessed`.
        record : str, path or False, optional
            A directory that keeps what was learned for the next run; or False to learn nothing.
        threads : int, optional
            Number of threads for reading.
        storage_options : dict, optional
            Settings for servers, as for `femtobarn.open`.
        function : str, optional
            The name under which it is learned what is touched; by default that of the calling function.
        iteritems_options : dict, optional
            `filter_name` and `filter_typename` select columns.
        uproot_options, use_ak_forth, decompression_executor, interpretation_executor : optional
            Tune uproot; they have no effect.

        Returns
        -------
        NanoEventsFactory
            Its method `events` returns the events.

        Raises
        ------
        UsageError
            If an argument is invalid.
        FemtobarnError
            As `femtobarn.open`.
        """
        return cls._of(
            _opened(file, treepath, storage_options),
            mode=mode,
            entries=(entry_start, entry_stop),
            preload=preload,
            buffer_cache=buffer_cache,
            schemaclass=schemaclass,
            metadata=metadata,
            access_log=access_log,
            learning=(record, function or calling_function()),
            threads=threads,
            filters=iteritems_options or {},
        )

    @classmethod
    def _of(cls, ntuple: NTuple, **arguments: Any) -> NanoEventsFactory:
        """Return what makes the events of an open ntuple; `learning` is a directory and the name of a function."""
        mode, schemaclass, threads = arguments["mode"], arguments["schemaclass"], arguments["threads"]
        if mode not in _MODES:
            raise UsageError(f"invalid mode {mode!r}: use 'virtual' or 'eager'")
        description = description_of(ntuple)
        start, stop = clip_entries(ntuple.num_entries, *arguments["entries"])
        made = _made(ntuple, description, schemaclass, arguments["metadata"], arguments["filters"])
        preload = arguments["preload"]
        if mode == "eager":
            entries: Entries = entries_at_once(ntuple, made.columns, start, stop, threads)
        else:
            chosen = None if preload is None else _chosen(ntuple, description, preload)
            loaded = None if chosen is None else entries_at_once(ntuple, chosen, start, stop, threads)
            reader = cast("LazyReader", ntuple._lazy_reader(None, threads, True, *arguments["learning"]))
            entries = entries_when_touched(description, reader, start, stop, loaded)
        mapping = SourceMapping(
            entries,
            start,
            stop,
            access_log=arguments["access_log"],
            file_handle=ntuple,
            virtual=mode == "virtual",
            buffer_cache=arguments["buffer_cache"],
        )
        partition = tuple_to_key((str(ntuple.uuid), ntuple.object_path, f"{start}-{stop}"))
        factory: NanoEventsFactory = cls(made.schema_with(arguments["metadata"]), mapping, partition, mode=mode)
        factory._forms = made.forms
        factory._arguments = arguments
        return factory

    def __reduce__(self) -> tuple[Any, ...]:
        if self._arguments is None:
            return object.__new__, (type(self),), self.__getstate__()
        return _again, (type(self), self.file_handle, self._arguments)

    def events(self) -> Any:
        """Return the events.

        Returns
        -------
        ak.Array
            An array of events with the behavior of the schema. In mode "virtual", columns are read when they are
            touched.
        """
        if self._mode != "virtual" or self._forms is None:
            return super().events()
        events = self._events()  # type: ignore[has-type]
        if events is None:
            form = self._schema.form
            key = functools.partial(_key_formatter, self._partition_key)
            # buffers that a cache keeps need not be kept twice
            caching = self.buffer_cache is None or (lambda form_key, attribute: attribute != "data")
            layout = self._forms.array(len(self), Buffers(self._mapping, key, caching), form["parameters"])
            attrs = {"@events_factory": self, "@form": form, "@buffer_key": key}
            events = ak.Array(layout, behavior=self._schema.behavior(), attrs=attrs)
            self._events = weakref.ref(events)
        return events


def _again(cls: type[NanoEventsFactory], ntuple: NTuple, arguments: dict[str, Any]) -> NanoEventsFactory:
    return cls._of(ntuple, **arguments)


def from_root(file: Files, **options: Any) -> Any:
    """Return coffea's events of an RNTuple or a TTree.

    It is short for ``NanoEventsFactory.from_root(file, …).events()``.

    Parameters
    ----------
    file : str, path, dict, list or NTuple
        The location, as for `femtobarn.open`.
    **options
        As for `NanoEventsFactory.from_root`: `mode`, `entry_start`, `entry_stop`, `schemaclass`, `metadata`, `preload`,
        `access_log`, `buffer_cache`, `record`, `threads`, `storage_options`.

    Returns
    -------
    ak.Array
        The events, with the behavior of the schema: the same as with coffea's own reader.

    Raises
    ------
    UsageError
        If an argument is invalid.
    FemtobarnError
        As `femtobarn.open`.

    Examples
    --------
    >>> from coffea.nanoevents import BaseSchema
    >>> from femtobarn.coffea import from_root
    >>> events = from_root(f"{dimuon}:Events", schemaclass=BaseSchema, metadata={"dataset": "dimuon"})
    >>> events.metadata["dataset"], events.Muon_pt[0].tolist()
    ('dimuon', [...])
    """
    options.setdefault("function", calling_function())
    return NanoEventsFactory.from_root(file, **options).events()


def _opened(file: Any, treepath: str | None, storage_options: Mapping[str, Any] | None) -> NTuple:
    if isinstance(file, NTuple) and treepath is None:
        return file
    if is_of_uproot(file):  # as coffea takes it
        directory = getattr(file, "file", file)
        file = directory.file_path
    pairs = resolve(file, storage_options)
    if treepath is not None:
        pairs = [(path, treepath) for path, _ in pairs]
    return open_pairs(pairs, storage_options=storage_options)


def _chosen(ntuple: NTuple, description: Description, preload: Callable[[Any], bool] | Iterable[str]) -> list[str]:
    """Return the columns to read at once; names that do not exist are ignored, as in coffea."""
    if callable(preload):
        columns = description.columns.items()
        return [name for name, at in columns if isinstance(at, str) and preload(ntuple[at])]
    names = frozenset(preload)
    return [name for name in description.columns if name in names or name.rpartition("/")[2] in names]


@dataclass(frozen=True)
class _Made:
    """A schema of coffea, made for files with the same fields."""

    schema: Any
    forms: Forms
    columns: list[str]
    added: Mapping[str, Any]  # to the metadata, by the schema

    def schema_with(self, metadata: Mapping[str, Any] | None) -> Any:
        """Return the schema with metadata."""
        schema, form = copy.copy(self.schema), self.schema.form
        parameters = form["parameters"] | {"metadata": {**(metadata or {}), **self.added}}
        schema._form = form | {"parameters": parameters}
        return schema


def _watched(name: str) -> Callable[..., Any]:
    def method(self: _Watched, *arguments: Any) -> Any:
        self.is_read = True
        return getattr(dict, name)(self, *arguments)

    return method


class _Watched(dict[str, Any]):
    """Metadata that notes whether they are read: then a schema depends on them."""

    is_read = False
    __getitem__ = _watched("__getitem__")
    __contains__ = _watched("__contains__")
    __iter__ = _watched("__iter__")
    get = _watched("get")
    keys = _watched("keys")
    values = _watched("values")
    items = _watched("items")


_known: OrderedDict[Any, _Made] = OrderedDict()


def _made(
    ntuple: NTuple,
    description: Description,
    schemaclass: Callable[..., Any],
    metadata: Mapping[str, Any] | None,
    filters: Mapping[str, Any],
) -> _Made:
    """Return a schema for files with the same fields; it is made again only if it depends on anything else."""
    podio = podio_collection_types(ntuple) if _reads_podio_metadata(schemaclass) else None
    key = description, schemaclass, _state_of(schemaclass), repr(podio), repr(sorted(filters.items()))
    known = None if any(map(callable, filters.values())) else _known.get(key)
    if known is not None:
        return known
    watched = _Watched(metadata or {})
    made = _new(description, schemaclass, watched, filters, podio)
    if watched.is_read:
        return made
    _known[key] = made
    if len(_known) > _MOST:
        _known.popitem(last=False)
    return made


def _new(
    description: Description,
    schemaclass: Callable[..., Any],
    metadata: dict[str, Any],
    filters: Mapping[str, Any],
    podio: dict[str, str] | None,
) -> _Made:
    given = dict(dict.items(metadata))
    form = description.base_form(_accepting(description, filters))
    form["parameters"]["metadata"] = metadata
    if podio is not None:
        form["podio_collection_types"] = podio
    if not callable(schemaclass):
        raise UsageError(f"schemaclass must be a schema of coffea, not {schemaclass!r}")
    schema = schemaclass(form)
    if not isinstance(schema, BaseSchema):
        raise UsageError(f"schemaclass must make a schema of coffea, not {type(schema).__name__}")
    added = {name: value for name, value in dict.items(metadata) if name not in given or given[name] is not value}
    names = _form_keys_to_columns(list(_form_keys(schema.form)))
    return _Made(schema, Forms(schema.form), sorted(names & description.columns.keys()), added)


def _accepting(description: Description, filters: Mapping[str, Any]) -> Callable[[str], bool] | None:
    """Return a function of the name of a column that returns whether it passes the filters of uproot."""
    known = {"filter_name", "filter_typename"}
    if not filters.keys() <= known:
        raise UsageError(
            f"iteritems_options can have {' and '.join(sorted(known))}, not {sorted(filters.keys() - known)}"
        )
    by_name, by_type = (compile_filter(filters.get(name)) for name in sorted(known))
    if by_name is None and by_type is None:
        return None

    def accept(name: str) -> bool:
        fits = by_name is None or name_matches(by_name, name.rpartition("/")[2], name)
        return fits and (by_type is None or by_type(description.typenames[name]))

    return accept


def _form_keys(form: Any) -> Iterator[str]:
    """Yield the keys in a form that coffea's schemas have made."""
    if form.get("form_key"):
        yield form["form_key"]
    for below in form.get("contents", [form["content"]] if "content" in form else []):
        yield from _form_keys(below)


def _state_of(schemaclass: Any) -> str:
    """Return the settings of a schema class, which analyses change."""
    owner = getattr(schemaclass, "__self__", schemaclass)
    if not isinstance(owner, type):
        return ""
    values = (item for one in owner.__mro__ for item in vars(one).items() if not item[0].startswith("__"))
    return repr([(name, value) for name, value in values if isinstance(value, _SETTINGS)])
