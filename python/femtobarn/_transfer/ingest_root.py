"""ROOT files for an event store: the entries of an RNTuple or a TTree as events, and what `fb.export` has written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from femtobarn import _core
from femtobarn._files.open import open_pairs, resolve, settings_of
from femtobarn._shared.optional import optional
from femtobarn._shared.patterns import fits, patterns, several
from femtobarn._shared.steps import step_entries
from femtobarn._store.product_types import ColumnType
from femtobarn._store.ptr import PTR
from femtobarn._transfer.chunk import Chunk
from femtobarn._transfer.export_names import NUMBERS, noted
from femtobarn.errors import FormatError, KeyNotFoundError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._files.ntuple import NTuple
    from femtobarn._store.dataset import DataSet
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["NOTHING_COLLECTED", "Above", "above", "chunks", "classes_of", "store_above"]

NOTHING_COLLECTED = "collections=True has found no collections: no integer field nX has matching lists X_…"

_NANOAOD = ("run", "luminosityBlock", "event")
_LIST = re.compile(r"(?:std::vector|ROOT::VecOps::RVec)<(.*)>")
_INTEGER = re.compile(r"std::u?int(8|16|32|64)_t")
_ABSENT = np.uint64(2**64 - 1)
_LEVELS = ("dataset", "runs", "subruns")  # as `fb.export` names their ntuples


def chunks(
    path: str | os.PathLike[str],
    *,
    tree: str | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    run: str | int = _NANOAOD[0],
    subrun: str | int = _NANOAOD[1],
    event: str | int = _NANOAOD[2],
    collections: bool = False,
    namespace: str = "",
    step: str | SupportsIndex = "64 MiB",
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    left_out: dict[str, str] | None = None,
    notes: list[str] | None = None,
) -> Iterator[Chunk]:
    """Read an RNTuple or a TTree as events with products: each field at the top is one, with its type in C++.

    Entries may have any order. Event numbers are read first, and must be unique: that takes 8 bytes of memory for each
    entry. Records without a class get the field's name as that of their class, enums are integers, and a
    ``RNTupleCardinality`` is an unsigned integer. Of a file that `fb.export` wrote, the products are what they were in
    the store; see also `above`.

    Parameters
    ----------
    path : str or path
        The file, also on a server, with or without ":name".
    tree : str, optional
        Name of the ntuple or tree, where there are several; by default "Events", if there is one.
    fields, drop : str or list of str, optional
        Names of fields that become products, and of fields that do not; ``*`` and ``?`` stand for any characters. What
        counts the items of `fields`, as ``nMuon`` of ``Muon_pt``, comes along.
    run, subrun, event : str
        The fields that say which event an entry is: integers that are not negative. A run or subrun that the file does
        not say is given as a number, which all entries have. A number for `event` is that of the first entry, from
        which on they are counted.
    collections : bool
        Whether ``nMuon``, ``Muon_pt``, ``Muon_eta``, … become one product ``Muon``, a ``std::vector`` of a class of
        this name with the members ``pt``, ``eta``, ….
    namespace : str
        The namespace for the file's classes, and for classes of collections.
    step : str or int
        Memory that a chunk may take, about, or a number of entries.
    threads : int, optional
        Number of threads for reading.
    storage_options : dict, optional
        Settings for the server, as in `open`.
    left_out : dict, optional
        Gets the fields that were wanted and cannot be read, and why.
    notes : list of str, optional
        Gets `NOTHING_COLLECTED` if `collections` is true, and there are lists, but none of them is collected.

    Returns
    -------
    iterator of Chunk
        The entries, in their order.

    Raises
    ------
    KeyNotFoundError
        If a field does not exist.
    UsageError
        If the numbers are none of events, or a field is of a type that no product has.

    Examples
    --------
    >>> import femtobarn as fb
    >>> from femtobarn._transfer.ingest_root import chunks
    >>> _ = fb.write(tmp / "a.root", {"run": [1, 1], "luminosityBlock": [2, 2], "event": [4, 3], "x": [0.5, 1.5]})
    >>> [chunk] = chunks(tmp / "a.root")
    >>> chunk.event.tolist(), chunk.products["x"].to_list(), chunk.types["x"].name
    ([4, 3], [0.5, 1.5], 'double')
    """
    plan = _plan(path, tree, fields, drop, (run, subrun, event), collections, namespace, threads, storage_options)
    plan.ntuple._warn_of_unreadable()
    plan.ntuple._warn_of_left_out()
    if left_out is not None and fields is None:  # one that is named is an error
        dropped = patterns("drop", drop)
        left_out |= {name: why for name, why in plan.ntuple.skipped if not fits(name, dropped)}
    lists = (column for column in plan.columns if _LIST.fullmatch(column.type.name))
    if notes is not None and collections and not plan.gathered and any(lists):
        notes.append(NOTHING_COLLECTED)
    if _fields(plan.numbers[2:]):  # others are counted
        _check_events(plan.ntuple, plan.numbers)
    return _read(plan, step)


def classes_of(
    path: str | os.PathLike[str],
    *,
    tree: str | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    run: str | int = _NANOAOD[0],
    subrun: str | int = _NANOAOD[1],
    event: str | int = _NANOAOD[2],
    collections: bool = False,
    namespace: str = "",
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the classes of the products that a file has, with names and types of their members.

    Parameters
    ----------
    path, tree, fields, drop, run, subrun, event, collections, namespace, storage_options
        As of `chunks`.

    Returns
    -------
    dict
        The members by the names of the classes.
    """
    plan = _plan(path, tree, fields, drop, (run, subrun, event), collections, namespace, None, storage_options)
    with plan.ntuple:
        return dict(known for kind in _types(plan.columns, plan.gathered) for known in kind.classes)


@dataclass(frozen=True)
class _Plan:
    """Mapping of an ntuple's fields to products."""

    ntuple: NTuple
    numbers: list[str]
    columns: list[_Column]
    gathered: list[_Collection]


def _plan(
    path: str | os.PathLike[str],
    tree: str | None,
    fields: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
    number_fields: tuple[str | int, str | int, str | int],
    collections: bool,
    namespace: str,
    threads: int | None,
    storage_options: Mapping[str, Any] | None,
) -> _Plan:
    ntuple = open_events(path, tree, threads, storage_options)
    ntuple._core.arrow_schema()  # of trees, only objects say whether they can be read
    described = _described(ntuple)
    numbers = _numbers(ntuple, described, number_fields)
    others = [column for column in described if column.field not in numbers]
    columns = _chosen(ntuple, others, numbers, fields, drop)
    if fields is not None:
        columns = _with_counters(ntuple, columns, _chosen(ntuple, others, numbers, None, drop), collections)
    for column in columns:
        if column.why is not None:
            raise UsageError(
                f"{_where(ntuple)}: field {column.field!r} of type {column.type.name} cannot be a product: "
                f"{column.why}; leave it out with drop={column.field!r}"
            )
    gathered = _gathered(columns) if collections else []
    within = {member.field for one in gathered for member in (one.counter, *one.members)}
    columns = [column for column in columns if column.field not in within]
    renamed = _in_namespace(_types(columns, gathered), namespace)
    return _Plan(
        ntuple,
        numbers,
        [replace(column, type=renamed(column.type)) for column in columns],
        [replace(one, type=renamed(one.type)) for one in gathered],
    )


def _types(columns: list[_Column], gathered: list[_Collection]) -> list[ColumnType]:
    return [column.type for column in columns] + [one.type for one in gathered]


def _in_namespace(kinds: Iterable[ColumnType], namespace: str) -> Callable[[ColumnType], ColumnType]:
    """Return what puts all classes of types into a namespace."""
    prefix = f"{namespace}::"
    names = {name for kind in kinds for name, _ in kind.classes if not name.startswith(("std::", prefix, PTR))}
    if not namespace or not names:
        return lambda kind: kind
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w:])(?:{longest_first})(?![\w:<])")

    def within(name: str) -> str:
        return pattern.sub(lambda found: prefix + found[0], name)

    def renamed(kind: ColumnType) -> ColumnType:
        classes = tuple(
            (within(name), tuple((member, within(its)) for member, its in members)) for name, members in kind.classes
        )
        return replace(kind, name=within(kind.name), classes=classes)

    return renamed


@dataclass(frozen=True)
class _Column:
    """A field that becomes a product."""

    field: str
    label: str
    type: ColumnType
    why: str | None  # why it cannot
    number: str | None = None  # the kind of event number, as recorded in the file


@dataclass(frozen=True)
class _Collection:
    """Fields that become one product: arrays of one length."""

    label: str
    counter: _Column
    members: list[_Column]
    type: ColumnType


def _where(ntuple: NTuple) -> str:
    return ":".join(ntuple.files[0])


def open_events(
    path: str | os.PathLike[str], tree: str | None, threads: int | None, storage_options: Mapping[str, Any] | None
) -> NTuple:
    """Open the ntuple or tree of a file that has its events.

    Parameters
    ----------
    path, tree, threads, storage_options
        As of `chunks`.

    Returns
    -------
    NTuple
        The ntuple.

    Raises
    ------
    UsageError
        If these are several files, or nothing says which ntuple is meant.
    """
    pairs = resolve(path, storage_options)
    if len(pairs) != 1:
        raise UsageError(f"{path}: only one file can be read at a time, but these are {len(pairs)}")
    url, name = pairs[0]
    try:
        return open_pairs([(url, tree or name)], threads=threads, storage_options=storage_options)
    except UsageError as error:
        if error.kind != "ambiguous-ntuple":
            raise
        names = _ntuples(url, storage_options)
        own = [known for known in names if (_level(url, known, storage_options) or {}).get("level") == "events"]
        found = own if len(own) == 1 else [known for known in names if known == "Events"]
        if not found:
            raise UsageError(f"{error}, or give tree=", kind=error.kind) from None
    return open_pairs([(url, found[0])], threads=threads, storage_options=storage_options)


def _ntuples(url: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    listed = _core.list_objects(url, settings_of(storage_options or {}))
    return list(dict.fromkeys(str(one["path"]) for one in listed if str(one["class"]) in ("ROOT::RNTuple", "TTree")))


def _level(url: str, name: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the record in an exported ntuple; None of any other."""
    with open_pairs([(url, name)], storage_options=storage_options) as ntuple:
        found = noted("level", ntuple.description)
    return found if isinstance(found, dict) else None


def _described(ntuple: NTuple) -> list[_Column]:
    columns = []
    described = ntuple._core.described()
    labels = _labels([name for (name, _), *_ in described])
    for (name, description), kind, why, classes in described:
        own = ColumnType(kind, _frozen(classes))
        column = _Column(name, labels[name], own, why, noted("number", description))
        product = noted("product", description)
        if isinstance(product, dict):
            stored = ColumnType(product["type"], _frozen(product.get("classes", ())), product["form"])
            column = replace(column, label=product["label"], type=stored, why=None)
        columns.append(column)
    return columns


def _labels(names: list[str]) -> dict[str, str]:
    """Return the labels of fields: their names, with underscores for characters that labels cannot have.

    A second branch ``Particle`` of a tree is the field ``Particle#2``, and a ``#`` ends a label.
    """
    labels = {name: name for name in names if "#" not in name}
    for name in names:
        if name in labels:
            continue
        own = name.replace("#", "_")
        while own in labels.values():
            own += "_"
        labels[name] = own
    return labels


def _frozen(classes: Iterable[Any]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    return tuple((name, tuple((member, kind) for member, kind in members)) for name, members in classes)


# -- which events ------------------------------------------------------------------------------------------------


def _numbers(ntuple: NTuple, columns: list[_Column], wanted: tuple[str | int, str | int, str | int]) -> list[str]:
    """Return the fields of run, subrun and event."""
    said = {column.number: column.field for column in columns if column.number is not None}
    if wanted == _NANOAOD and all(number in said for number in NUMBERS):
        return [said[number] for number in NUMBERS]
    types = {column.field: column.type.name for column in columns}
    wanted = (str(wanted[0]), str(wanted[1]), str(wanted[2]))
    fields = _fields(wanted)
    if len(set(fields)) != len(fields):
        raise UsageError(f"give run, subrun and event as three fields or numbers, not {wanted!r}")
    missing = {
        argument: _nearest(argument, name, types)
        for argument, name in zip(NUMBERS, wanted, strict=True)
        if name in fields and name not in types
    }
    if missing:
        raise _without_numbers(ntuple, missing)
    for argument, name in zip(NUMBERS, wanted, strict=True):
        if name not in fields:
            continue
        if not _INTEGER.fullmatch(types[name]):
            raise UsageError(
                f"{_where(ntuple)}: field {name!r} is {types[name]}, but numbers of {argument}s must be integers; name "
                f"the field with {argument}="
            )
    return list(wanted)


def _nearest(argument: str, name: str, known: Iterable[str]) -> str:
    """Return the name of a missing field for run, subrun or event, with similar names."""
    there = list(known)
    near = _core.nearest(name, there)[:3]
    near += [one for one in there if argument in one.lower() and one not in near][:3]
    return f"{name!r}" + (f" (did you mean {', '.join(map(repr, near))}?)" if near else "")


def _without_numbers(ntuple: NTuple, missing: Mapping[str, str]) -> KeyNotFoundError:
    """Return the error that lists all missing fields of event numbers."""
    fields = "; ".join(f"no field {name} for the number of the {one}" for one, name in missing.items())
    ways = {
        "run": "a number for all entries",
        "subrun": "a number for all entries",
        "event": "the number of the first entry",
    }
    how = "; ".join(f"name the field with {one}=, or give {ways[one]}" for one in missing)
    return KeyNotFoundError(f"{_where(ntuple)}: there is {fields}; {how}")


def _fields(numbers: Iterable[str]) -> list[str]:
    """Return the sources of run, subrun and event that are fields; others are numbers."""
    return [name for name in numbers if not name.isdecimal()]


def _numbers_of(
    ntuple: NTuple, fields: list[str], arrays: Mapping[str, Any], start: int, n: int
) -> list[npt.NDArray[np.uint64]]:
    """Return the numbers of entries, `n` from one on, which are what numbers may be."""
    out = []
    for argument, name in zip(NUMBERS, fields, strict=True):
        if name.isdecimal():
            counted = argument == "event"
            if int(name) + (ntuple.num_entries if counted else 0) >= _ABSENT:
                raise UsageError(f"{_where(ntuple)}: {argument}={name} is reserved for a missing {argument}")
            if counted:
                out.append(np.arange(n, dtype=np.uint64) + np.uint64(int(name) + start))
                continue
            out.append(np.full(n, int(name), np.uint64))
            continue
        values = np.asarray(arrays[name])
        if values.dtype.kind == "i" and len(values) and values.min() < 0:
            raise UsageError(
                f"{_where(ntuple)}: field {name!r} holds {values.min()}: numbers of {argument}s must not be negative"
            )
        values = values.astype(np.uint64, copy=False)
        if len(values) and values.max() == _ABSENT:
            raise UsageError(
                f"{_where(ntuple)}: field {name!r} holds {_ABSENT}, which is reserved for a missing {argument}"
            )
        out.append(values)
    return out


def _check_events(ntuple: NTuple, fields: list[str]) -> None:
    """Raise if two entries are one event."""
    hashes = np.empty(ntuple.num_entries, np.uint64)
    for start, numbers in _all_numbers(ntuple, fields):
        hashes[start : start + len(numbers[0])] = _mixed(numbers)
    hashes.sort()
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    if not len(twice):
        return
    # different events may have one hash
    seen: dict[tuple[int, ...], int] = {}
    for start, numbers in _all_numbers(ntuple, fields):
        for at in np.flatnonzero(np.isin(_mixed(numbers), twice)).tolist():
            which = tuple(int(values[at]) for values in numbers)
            if which in seen:
                raise UsageError(
                    f"{_where(ntuple)}: entries {seen[which]} and {start + at} are both {fields[2]} {which[2]} of "
                    f"{fields[0]} {which[0]}, {fields[1]} {which[1]}: a store can have each event only once"
                )
            seen[which] = start + at


def _all_numbers(ntuple: NTuple, fields: list[str]) -> Iterator[tuple[int, list[npt.NDArray[np.uint64]]]]:
    start = 0
    for arrays in _steps(ntuple, _fields(fields), "32 MiB"):
        n = len(arrays[fields[2]])
        yield start, _numbers_of(ntuple, fields, arrays, start, n)
        start += n


def _mixed(numbers: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return a number of 64 bits for each event, which is rarely that of another."""
    mixed = np.zeros(len(numbers[0]), np.uint64)
    for values in numbers:
        mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed


# -- which products ----------------------------------------------------------------------------------------------


def _chosen(
    ntuple: NTuple,
    columns: list[_Column],
    numbers: list[str],
    fields: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
) -> list[_Column]:
    def taken(argument: str, given: str | Iterable[str] | None) -> set[str]:
        found: set[str] = set()
        for pattern in patterns(argument, given):
            own = {column.field for column in columns if pattern in (column.field, column.label)}
            own = own or {column.field for column in columns if fits(column.field, [pattern])}
            if not own:
                reason = next((reason for name, reason in ntuple.skipped if name == pattern), None)
                if reason is not None and argument == "drop":
                    continue  # it is left out in any case
                if reason is not None:
                    raise UsageError(f"{_where(ntuple)}: field {pattern!r} cannot be read: {reason}")
                if pattern in numbers:
                    number = NUMBERS[numbers.index(pattern)]
                    raise UsageError(
                        f"{_where(ntuple)}: field {pattern!r} is the {number} of each event and cannot be a product: "
                        f"leave it out of {argument}="
                    )
                near = _core.nearest(pattern, [column.field for column in columns])[:3]
                hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
                hint = several(argument, pattern) or hint
                raise KeyNotFoundError(f"{_where(ntuple)}: no field matches {pattern!r}{hint}")
            found |= own
        return found

    if fields is not None:
        wanted = taken("fields", fields)
        columns = [column for column in columns if column.field in wanted]
    left_out = taken("drop", drop)
    return [column for column in columns if column.field not in left_out]


def _with_counters(ntuple: NTuple, columns: list[_Column], known: list[_Column], collections: bool) -> list[_Column]:
    """Return columns, with the counters of collections if some of their members are included."""
    own = {column.field for column in columns}
    counters = set(ntuple._core.counters([column.field for column in columns]))
    if collections:  # these go by their names
        gathered = (one for one in _gathered(known) if any(member.field in own for member in one.members))
        counters |= {one.counter.field for one in gathered}
    return columns + [column for column in known if column.field in counters - own]


def _gathered(columns: list[_Column]) -> list[_Collection]:
    """Return the collections that are spread over fields, as in NanoAOD."""
    by_name = {column.field: column for column in columns}
    collections = []
    for counter in columns:
        label = counter.field[1:]
        is_counter = counter.field.startswith("n") and label and _INTEGER.fullmatch(counter.type.name)
        if not is_counter or label in by_name:
            continue
        prefix = f"{label}_"
        members = [
            column for column in columns if column.field.startswith(prefix) and _LIST.fullmatch(column.type.name)
        ]
        if not members:
            continue
        inner = {member.field[len(prefix) :]: _item(member) for member in members}
        own = (label, tuple(inner.items()))
        classes = dict.fromkeys(known for member in members for known in member.type.classes)
        kind = ColumnType(f"std::vector<{label}>", (*classes, own))
        collections.append(_Collection(label, counter, members, kind))
    return collections


def _item(column: _Column) -> str:
    found = _LIST.fullmatch(column.type.name)
    return found[1] if found else ""


# -- reading -----------------------------------------------------------------------------------------------------


def _steps(ntuple: NTuple, fields: list[str], step: str | SupportsIndex) -> Iterator[dict[str, Any]]:
    """Give the entries of fields, some at a time."""
    optional("awkward", "all")
    from femtobarn._files.awkward_arrays import to_array

    core, n_entries = ntuple._core, ntuple.num_entries
    if not n_entries:
        return
    size = step_entries(step, core.decoded_bytes(fields, 0, n_entries), n_entries)
    batches = core.iterate(fields, 0, n_entries, size, threads=ntuple._threads(None))
    start = 0
    while True:
        try:
            batch = next(batches, None)
        except FormatError as error:
            if error.kind != "unsupported-field":
                raise
            raise _unreadable(ntuple, fields, start, size, error) from None
        if batch is None:
            return
        array = to_array(batch)
        start += len(array)
        yield {name: array[name] for name in fields}


def _unreadable(ntuple: NTuple, fields: list[str], start: int, size: int, error: FormatError) -> UsageError:
    """Return the error that branches hold values which are not read, with all of these."""
    core, found = ntuple._core, []
    for name in fields:
        try:
            for _ in core.iterate([name], start, ntuple.num_entries, size, threads=ntuple._threads(None)):
                pass
        except FormatError as own:
            if own.kind != "unsupported-field":
                raise
            found.append(name)
    reason = error._told[1] if error._told else str(error)  # that of the first of them
    which = f"field {found[0]!r}" if len(found) == 1 else f"fields {', '.join(map(repr, found))}"
    drop = repr(found[0] if len(found) == 1 else found)
    return UsageError(
        f"{_where(ntuple)}: {which} cannot be read: {reason}; leave out what cannot: drop={drop}", kind=error.kind
    )


def _read(plan: _Plan, step: str | SupportsIndex) -> Iterator[Chunk]:
    ntuple, numbers, columns, gathered = plan.ntuple, plan.numbers, plan.columns, plan.gathered
    own = [column.field for column in columns]
    within = [member.field for one in gathered for member in (one.counter, *one.members)]
    wanted = [*_fields(numbers), *own, *within]
    if not wanted:
        raise UsageError(
            f"{_where(ntuple)}: nothing to read: run, subrun and event are numbers, and no field is selected"
        )
    start = 0
    for arrays in _steps(ntuple, wanted, step):
        run, subrun, event = _numbers_of(ntuple, numbers, arrays, start, len(arrays[wanted[0]]))
        products, types = _of_labels(columns, arrays)
        for one in gathered:
            products[one.label] = _zipped(ntuple, one, arrays, start)
            types[one.label] = one.type
        yield Chunk(run, subrun, event, products, types)
        start += len(event)


def _of_labels(columns: list[_Column], arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return columns and their types by the labels of the products; of a label with several types, by further names."""
    products: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for column in columns:
        name, kind = column.label, column.type
        if name in products:
            name, kind = f"{name}#{kind.name}", replace(kind, label=name)  # no label has a #
        products[name] = arrays[column.field]
        types[name] = kind
    return products, types


def _zipped(ntuple: NTuple, one: _Collection, arrays: Mapping[str, Any], start: int) -> Any:
    """Return lists of records of the lists of its members."""
    import awkward as ak

    counts = np.asarray(arrays[one.counter.field]).astype(np.int64)
    names, contents = [], []
    for member in one.members:
        lists = arrays[member.field].layout.to_ListOffsetArray64(True)
        lengths = np.diff(np.asarray(lists.offsets.data))
        other = np.flatnonzero(lengths != counts)
        if len(other):
            at = int(other[0])
            raise UsageError(
                f"{_where(ntuple)}: {member.field} has {lengths[at]} items in entry {start + at}, but "
                f"{one.counter.field} is {counts[at]}: they are not a collection; leave out collections=, or drop one"
            )
        names.append(member.field[len(one.label) + 1 :])
        contents.append(lists.content[: int(lists.offsets.data[-1])])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    record = ak.contents.RecordArray(contents, names, length=int(offsets[-1]))
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), record))


# -- containers above events ----------------------------------------------------------------------------------------


@dataclass
class Above:
    """Datasets, runs or subruns of an exported file, with their products.

    Attributes
    ----------
    numbers : tuple of array of uint64
        None for the dataset; the numbers of runs; or products of runs and subruns.
    products : dict
        For each label, an array with the value of each.
    types : dict
        Their types.
    """

    numbers: tuple[npt.NDArray[np.uint64], ...]
    products: dict[str, Any]
    types: dict[str, Any] = field(default_factory=dict)


def above(
    events: NTuple, *, step: str | SupportsIndex = "64 MiB", storage_options: Mapping[str, Any] | None = None
) -> Iterator[Above]:
    """Read the products of the dataset itself, and of its runs and subruns, from a file that `fb.export` wrote.

    Parameters
    ----------
    events : NTuple
        The events of the file; other files have none of these products.
    step, storage_options
        As of `chunks`.

    Yields
    ------
    Above
        Some of them at a time.
    """
    if noted("level", events.description) is None:
        return
    url, name = events._core.origins()[0]
    there = set(_ntuples(url, storage_options))
    for n, level in enumerate(_LEVELS):
        if f"{name}_{level}" not in there:
            continue
        ntuple = open_pairs([(url, f"{name}_{level}")], storage_options=storage_options)
        if (noted("level", ntuple.description) or {}).get("level") != level:
            continue
        described = _described(ntuple)
        said = {column.number: column.field for column in described}
        numbers = [said[number] for number in NUMBERS[:n]]
        columns = [column for column in described if column.number is None]
        for arrays in _steps(ntuple, [*numbers, *(column.field for column in columns)], step):
            own = tuple(np.asarray(arrays[field]).astype(np.uint64) for field in numbers)
            yield Above(own, *_of_labels(columns, arrays))


def other_objects(events: NTuple, *, storage_options: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the objects of a file that `chunks` and `above` do not read.

    Parameters
    ----------
    events : NTuple
        The events of the file.
    storage_options : dict, optional
        As of `chunks`.

    Returns
    -------
    dict
        The reasons by the paths of the objects.
    """
    url, name = events._core.origins()[0]
    read = {name}
    if noted("level", events.description) is not None:
        read |= {f"{name}_{level}" for level in _LEVELS}
    return {
        found["path"]: f"it is a {found['class']} beside {name!r}; only one ntuple or tree is ingested"
        for found in _core.list_objects(url, settings_of(storage_options or {}))
        if found["path"] not in read
    }


def store_above(batch: WriteBatch, dataset: DataSet, some: Above) -> None:
    """Store the results of `above`.

    Parameters
    ----------
    batch : WriteBatch
        Where it waits to be written.
    dataset : DataSet
        Where it belongs.
    some : Above
        The runs, subruns, or the dataset itself.
    """
    n = len(some.numbers[0]) if some.numbers else 1
    keys = np.full((n, 5), _ABSENT, ">u8")
    keys[:, :2] = np.frombuffer(dataset._core.uuid, ">u8")
    for at, values in enumerate(some.numbers):
        keys[:, 2 + at] = values
    batch._store_columns(keys.tobytes(), some.products, some.types, create=bool(some.numbers))
