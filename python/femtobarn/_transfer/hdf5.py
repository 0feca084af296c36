"""HDF5 files of events as tables: their groups and datasets, and the matching C++ classes.

The layout is that of NOvA's files: each group is a table, each of its datasets a column of as many rows, and three of
them (`run`, `subrun`, `evt`) say which event a row is of. The names of classes and members are those that HDF2HEPnOS
gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from femtobarn._core import CPP_KEYWORDS, plain_namespace
from femtobarn._shared.optional import optional
from femtobarn._shared.patterns import fits, patterns
from femtobarn.errors import FileError, FormatError, NotFoundError

__all__ = [
    "CLASSES",
    "EVENTS",
    "INDEX",
    "KEYWORDS",
    "SEQUENCE",
    "Choice",
    "Column",
    "Table",
    "Tables",
    "choice_of",
    "cpp_names",
    "open_hdf5",
    "read_keys",
    "read_rows",
]

KEYWORDS = frozenset(CPP_KEYWORDS)
# what else a class cannot be called: functions in its own header, and names outside of all namespaces
CLASSES = frozenset({"fb", "hepnos", "load", "main", "serialize", "store", "tm"})

INDEX = ("run", "subrun", "evt")
SEQUENCE = "evt.seq"
EVENTS = "spill"  # the table that has a row for each event, whatever else is known of it


@dataclass(frozen=True)
class Choice:
    """The selected parts of a file.

    Attributes
    ----------
    groups, fields, drop : tuple of str
        Patterns of groups; patterns of ``group/dataset``; and those of either that are left out.
    namespace : str
        The namespace of the classes in C++.
    index : tuple of str
        The datasets that say which run, subrun and event a row is of.
    """

    groups: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    namespace: str = ""
    index: tuple[str, ...] = INDEX

    def wants_group(self, group: str) -> bool:
        """Return whether a group as a whole is selected."""
        return (not self.groups or fits(group, self.groups)) and not fits(group, self.drop)

    def wants_field(self, group: str, dataset: str) -> bool:
        """Return whether a dataset of a group is wanted, if the group is."""
        path = f"{group}/{dataset}"
        return (not self.fields or fits(path, self.fields)) and not fits(path, self.drop)


def choice_of(
    groups: object, fields: object, drop: object, namespace: str, numbers: Iterable[str | int | None] = INDEX
) -> Choice:
    """Return what users say that they want.

    Parameters
    ----------
    groups, fields, drop : str, list of str or None
        Patterns.
    namespace : str
        Of the classes.
    numbers : iterable of str, int or None
        The datasets with the numbers of run, subrun and event; None for the groups of NOvA's files.

    Returns
    -------
    Choice
        The same, checked.
    """
    index = tuple(usual if name is None else str(name) for usual, name in zip(INDEX, numbers, strict=True))
    given = {"groups": groups, "fields": fields, "drop": drop}
    return Choice(
        **{name: tuple(one.strip("/") for one in patterns(name, some)) for name, some in given.items()},
        namespace=plain_namespace(namespace),
        index=index,
    )


@dataclass(frozen=True)
class Column:
    """A dataset, and the member that it becomes.

    Attributes
    ----------
    dataset : str
        Its name in the file.
    member : str
        The name of the member.
    type : str
        The type of the member, in C++.
    kind : str
        "number", "text", or "list" for rows with varying numbers of values.
    shape : tuple of int
        Of one row.
    """

    dataset: str
    member: str
    type: str
    kind: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """A group, and the class that its rows become.

    Attributes
    ----------
    group : str
        Its name in the file, which is the label of the product.
    class_name : str
        The name of the class.
    columns : tuple of Column
        Its members, in their order: sorted by descending size of numbers as in HDF2HEPnOS, to avoid padding between
        them in memory.
    n_rows : int
        Rows.
    has_index : bool
        Whether it has event numbers for its rows itself; else by the number in ``evt.seq``.
    index : tuple of str
        The datasets that say so.
    """

    group: str
    class_name: str
    columns: tuple[Column, ...]
    n_rows: int
    has_index: bool = True
    index: tuple[str, ...] = INDEX

    @property
    def type(self) -> str:
        """The type of the product."""
        return f"std::vector<{self.class_name}>"

    @property
    def class_note(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The name of the class, and names and types of its members."""
        return self.class_name, tuple((one.member, one.type) for one in self.columns)


@dataclass
class Tables:
    """The tables of a file.

    Attributes
    ----------
    tables : list of Table
        Those that are wanted and have rows, in the order of the file.
    left_out : dict
        What else there is, and why it is left out.
    unexpected : dict
        Groups with data that belong to no event.
    events : Table or None
        The table with a row for each event.
    """

    tables: list[Table] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    unexpected: dict[str, str] = field(default_factory=dict)
    events: Table | None = None


def open_hdf5(path: str) -> Any:
    """Open a file to be read.

    Parameters
    ----------
    path : str
        Its path on this machine.

    Returns
    -------
    h5py.File
        The file.

    Raises
    ------
    NotFoundError
        If it does not exist.
    FormatError
        If it cannot be read as HDF5.
    """
    h5py = optional("h5py", "hdf5")
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no such file") from None
    except PermissionError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except OSError as error:
        raise FormatError(f"{path}: cannot read it as HDF5; it may be truncated or damaged: {error}") from error


def cpp_names(names: Iterable[str], reserved: frozenset[str] = KEYWORDS) -> dict[str, str]:
    """Return names for C++ of names in a file, no two the same.

    ``.``, ``/`` and space become ``_``, as HDF2HEPnOS has it, and so does everything else that no name of C++ has. A
    name that begins with a digit gets a ``_`` before it, one that is reserved, as a keyword, one behind it. Of
    several that come to the same, one that needed no change keeps it, and the others get ``_2``, ``_3``, … in the
    order of their names.

    Parameters
    ----------
    names : iterable of str
        The names in the file.
    reserved : frozenset of str
        Names that C++ has for itself.

    Returns
    -------
    dict
        The name in C++ of each.

    Examples
    --------
    >>> from femtobarn._transfer.hdf5 import cpp_names
    >>> cpp_names(["vtx.x", "vtx_x", "class"])
    {'class': 'class_', 'vtx.x': 'vtx_x_2', 'vtx_x': 'vtx_x'}
    """
    ordered = sorted(set(names))
    taken = {name for name in ordered if _cpp_name(name, reserved) == name}
    made = {}
    for name in ordered:
        own = first = _cpp_name(name, reserved)
        n = 2
        while own != name and own in taken:
            own = f"{first}_{n}"
            n += 1
        taken.add(own)
        made[name] = own
    return made


def _cpp_name(name: str, reserved: frozenset[str] = KEYWORDS) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if plain[0].isdigit():
        plain = f"_{plain}"
    return f"{plain}_" if plain in reserved else plain


def read_keys(file: Any, path: str, table: Table, first: int, end: int, events: Any = None) -> Any:
    """Return which events rows are of, as keys that are in the order of run, subrun and event.

    Parameters
    ----------
    file : h5py.File
        The file.
    path : str
        Its path, for messages.
    table : Table
        The table.
    first, end : int
        The rows.
    events : array, optional
        For tables that have only ``evt.seq``: the keys of the events that it counts.

    Returns
    -------
    array of S24, shape (n,)
        For each row three numbers of 8 bytes, big-endian, so that bytes sort like numbers.
    """
    group = file[table.group]
    if not table.has_index:
        at = _numbers(group, path, table, SEQUENCE, first, end)
        if len(at) and int(at.max()) >= len(events):
            raise FormatError(
                f"{path}: {SEQUENCE} of group {table.group!r} has {int(at.max())}, "
                f"but {EVENTS} has {len(events)} events"
            )
        return events[at]
    keys = np.empty((end - first, 3), ">u8")
    for at, name in enumerate(table.index):
        keys[:, at] = _numbers(group, path, table, name, first, end)
    return keys.view("S24").reshape(-1)


def _numbers(group: Any, path: str, table: Table, name: str, first: int, end: int) -> Any:
    numbers = read_rows(group[name], path, first, end).reshape(-1)
    if numbers.dtype.kind == "i" and len(numbers) and int(numbers.min()) < 0:
        row = first + int(np.argmax(numbers < 0))
        raise FormatError(
            f"{path}: {name} of group {table.group!r} is {int(numbers.min())} in row {row}: it must not be negative"
        )
    numbers = numbers.astype(np.uint64)
    if len(numbers) and int(numbers.max()) == 2**64 - 1:
        raise FormatError(
            f"{path}: {name} of group {table.group!r} is 2**64 - 1, which is reserved for missing numbers"
        )
    return numbers


def read_rows(dataset: Any, path: str, first: int, end: int) -> Any:
    """Return some rows of a dataset.

    Parameters
    ----------
    dataset : h5py.Dataset
        The dataset.
    path : str
        The path of the file, for messages.
    first, end : int
        The rows.

    Returns
    -------
    array
        The rows.

    Raises
    ------
    FileError
        If they cannot be read.
    """
    try:
        return dataset[first:end]
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        kind = FileError if isinstance(error, OSError) else FormatError
        raise kind(f"{path}: cannot read rows {first} to {end} of {dataset.name}: {error}") from error
