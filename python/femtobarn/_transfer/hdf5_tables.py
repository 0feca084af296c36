"""Finding the tables of an HDF5 file, by its metadata alone."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from femtobarn._core import nearest
from femtobarn._shared.optional import optional
from femtobarn._shared.patterns import fits, several
from femtobarn._shared.repr import shortened
from femtobarn._store.product_types import type_name_of
from femtobarn._transfer.hdf5 import (
    CLASSES,
    EVENTS,
    KEYWORDS,
    SEQUENCE,
    Choice,
    Column,
    Table,
    Tables,
    cpp_names,
    open_hdf5,
)
from femtobarn.errors import FemtobarnError, FormatError, KeyNotFoundError, UsageError

__all__ = ["check_patterns", "find_tables"]

_MOST_GROUPS = 1 << 17


_DEEPEST = 64


_UNWRITTEN = 256 << 20  # bytes of a dataset that were never written


_CHUNK = 1 << 30  # bytes of a chunk, which is in memory as a whole


def find_tables(file: Any, path: str, choice: Choice) -> Tables:
    """Find the tables of a file, by its metadata alone.

    Parameters
    ----------
    file : h5py.File
        The file.
    path : str
        Its path, for messages.
    choice : Choice
        Selected parts.

    Returns
    -------
    Tables
        The tables, and the parts that are left out.

    Raises
    ------
    FormatError
        If the datasets of a group have different lengths, or the numbers of events are none.
    UsageError
        If a dataset has values that no product can have.
    """
    found = Tables()
    groups = dict(_groups(file, path, found, choice))
    classes = cpp_names(groups, KEYWORDS | CLASSES)
    prefix = f"{choice.namespace}::" if choice.namespace else ""
    for name, datasets in groups.items():
        wanted = choice.wants_group(name)
        if not wanted and name != EVENTS:
            continue
        if wanted and "#" in name:
            raise UsageError(
                f"{path}: group {name!r} cannot be a product, as labels must not contain '#': leave it out with "
                f"drop={name!r}, or rename it in the file (file.move({name!r}, {name.replace('#', '_')!r}) in h5py)"
            )
        with _told(path, f"group {name!r}"):
            if wanted:
                table = _table(path, name, prefix + classes[name], datasets, choice, found)
            else:  # only which events there are
                table = _table(path, name, "", datasets, replace(choice, drop=("*/*",)), Tables())
        if table is None:
            continue
        if name == EVENTS and table.has_index:
            found.events = table
        if wanted and (table.columns or set(datasets) <= set(choice.index)):
            found.tables.append(table)
    if not found.tables and found.events is None:
        _check_numbers(path, groups, choice, found)
    sequence = [table.group for table in found.tables if not table.has_index]
    if sequence and (found.events is None or SEQUENCE not in groups[EVENTS]):
        for name in sequence:
            _refuse(found, name, f"it has {SEQUENCE}, but there is no {EVENTS}, which identifies these events")
        found.tables = [table for table in found.tables if table.has_index]
    return found


def _check_numbers(path: str, groups: dict[str, dict[str, Any]], choice: Choice, found: Tables) -> None:
    """Raise if groups have rows, but none has event numbers."""
    without = {name: groups[name] for name in found.unexpected if name in groups}
    if not without:
        return
    name, datasets = max(without.items(), key=lambda group: sum(number in group[1] for number in choice.index))
    missing = [number for number in choice.index if number not in datasets]
    integers = [own for own, item in datasets.items() if item is not None and item.dtype.kind in "iu"]
    near = [close for number in missing for close in nearest(number, integers, limit=2)[:2]]
    shown = list(dict.fromkeys([*near, *integers]))
    raise KeyNotFoundError(
        f"{path}: no group has the event numbers {', '.join(choice.index)} of its rows: group {name!r} has no "
        f"{', '.join(missing)}; its integers are {shortened([*map(repr, shown)], 8) or 'none'}; name them "
        "with run=, subrun= and event="
    )


def _refuse(found: Tables, name: str, reason: str) -> None:
    found.left_out[name] = found.unexpected[name] = reason


@contextlib.contextmanager
def _told(path: str, what: str) -> Iterator[None]:
    """Convert any error of h5py for damaged files to one with the file and the location in it."""
    try:
        yield
    except FemtobarnError:
        raise
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError) as error:
        reason = error.args[0] if error.args else type(error).__name__
        raise FormatError(f"{path}: cannot read {what}, which may be damaged: {reason}") from error


def _groups(
    file: Any, path: str, found: Tables, choice: Choice, names_only: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the groups that have datasets, with these, in the order of the file.

    Of groups that are not wanted only the first dataset is opened, since opening all takes a second or so, unless
    groups in groups may be. With `names_only`, objects that cannot be opened are included by name.
    """
    h5py = optional("h5py", "hdf5")
    todo: list[tuple[str, Any, tuple[Any, ...]]] = [("", file, ())]
    n = 0
    while todo:
        own, group, above = todo.pop()
        what = f"group {own!r}" if own else "the file's root"
        n += 1
        if n > _MOST_GROUPS or len(above) > _DEEPEST:
            raise FormatError(
                f"{path}: {what} is one of more than {_MOST_GROUPS} groups, or more than {_DEEPEST} deep: the file may "
                "have circular links"
            )
        with _told(path, what):
            above = (*above, _address(h5py, group))
            names = list(group)
        if above[-1] in above[:-1]:
            raise FormatError(f"{path}: {what} contains itself: its links are circular")
        is_wanted = not own or own == EVENTS or choice.wants_group(own) or any("/" in one for one in choice.groups)
        datasets: dict[str, Any] = {}
        inner: list[tuple[str, Any, tuple[Any, ...]]] = []
        for name in names:
            if datasets and not is_wanted:
                break
            full = f"{own}/{name}".strip("/")
            try:
                with _told(path, f"{full!r}"):
                    item = _item(h5py, group, name)
            except FormatError:
                if not names_only and (name in (*choice.index, SEQUENCE) or not fits(full, choice.drop)):
                    raise
                datasets[name] = None
                continue
            if item is None:
                _refuse(found, full, "its link has no target")
            elif isinstance(item, h5py.Dataset):
                datasets[name] = item
            elif isinstance(item, h5py.Group):
                inner.append((full, item, above))
        if not own:
            for name in datasets:
                _refuse(found, name, "it is a dataset outside of a group, so it belongs to no event")
        elif datasets or not inner:
            yield own, datasets
        todo += reversed(inner)


def _address(h5py: Any, group: Any) -> tuple[int, int]:
    about = h5py.h5o.get_info(group.id)
    return about.fileno, about.addr


def _item(h5py: Any, group: Any, name: str) -> Any:
    """Return what a link leads to; None if that is nowhere."""
    try:
        return group[name]
    except (OSError, RuntimeError, LookupError):
        if _is_nowhere(h5py, group, name):
            return None
        raise


def _is_nowhere(h5py: Any, group: Any, path: str, n_links: int = 16) -> bool:
    """Return whether a path ends at a soft or external link without a target. Something is damaged."""
    at = group.file if path.startswith("/") else group
    for part in (part for part in path.split("/") if part not in ("", ".")):
        link = at.get(part, getlink=True) if isinstance(at, h5py.Group) else None
        if link is None:
            return True
        if isinstance(link, h5py.SoftLink | h5py.ExternalLink) and not n_links:
            return False  # a circle
        if isinstance(link, h5py.SoftLink) and _is_nowhere(h5py, at, link.path, n_links - 1):
            return True
        if isinstance(link, h5py.ExternalLink):
            other = os.path.join(os.path.dirname(at.file.filename), link.filename)  # noqa: PTH118, PTH120
            if not any(os.path.exists(one) for one in (other, link.filename)):  # noqa: PTH110
                return True
            with h5py.File(other if os.path.exists(other) else link.filename, "r") as file:  # noqa: PTH110
                if _is_nowhere(h5py, file, f"/{link.path}", n_links - 1):
                    return True
        try:
            at = at[part]
        except (OSError, RuntimeError, LookupError):
            return False
    return False


def _table(
    path: str, name: str, class_name: str, datasets: dict[str, Any], choice: Choice, found: Tables
) -> Table | None:
    has_index = all(index in datasets for index in choice.index)
    opened = [dataset for dataset in datasets.values() if dataset is not None]
    if not opened or all(dataset.shape is not None and 0 in dataset.shape[:1] for dataset in opened):
        found.left_out[name] = "it is empty"
        return None
    if not has_index and SEQUENCE not in datasets:
        missing = ", ".join(index for index in choice.index if index not in datasets)
        _refuse(found, name, f"the event numbers of its rows are missing: it has no {missing}")
        return None
    keys = choice.index if has_index else (SEQUENCE,)
    for key in keys:
        _check_index(path, name, key, datasets[key])
        _check_written(path, name, key, datasets[key])
    n_rows = int(datasets[keys[0]].shape[0])
    own = [dataset for dataset in datasets if not (has_index and dataset in choice.index)]
    members = cpp_names(own)
    columns = []
    for dataset in own:
        item = datasets[dataset]
        if not choice.wants_field(name, dataset):
            continue
        reason = _reason_to_leave(item, n_rows)
        if reason is not None:
            found.left_out[f"{name}/{dataset}"] = reason
            continue
        if item.shape[0] != n_rows:
            raise FormatError(
                f"{path}: the datasets of group {name!r} have different lengths: {keys[0]} has {n_rows} rows, "
                f"{dataset} has {item.shape[0]}"
            )
        with _told(path, f"dataset {dataset!r} of group {name!r}"):
            _check_written(path, name, dataset, item)
            columns.append(_column(path, name, dataset, item, members[dataset]))
    lengths = {key: int(datasets[key].shape[0]) for key in keys}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} has {n} rows" for key, n in lengths.items())
        raise FormatError(f"{path}: the datasets of group {name!r} have different lengths: {shown}")
    columns.sort(key=lambda column: (-_size(column), column.dataset))
    return Table(name, class_name, tuple(columns), n_rows, has_index, choice.index)


def _reason_to_leave(dataset: Any, n_rows: int) -> str | None:
    if dataset.shape is None or dataset.shape == ():
        return "it is one value instead of one per row"
    if dataset.shape[0] == 0 and n_rows:
        return "it is empty"
    return "its rows have no values" if 0 in dataset.shape[1:] else None


def _check_index(path: str, group: str, name: str, dataset: Any) -> None:
    shape = dataset.shape or ()
    if dataset.dtype.kind not in "iu" or not shape or any(n != 1 for n in shape[1:]):
        raise FormatError(
            f"{path}: {name} of group {group!r} must have one integer per row as event number; it has "
            f"{dataset.dtype} of shape {dataset.shape}"
        )


def _check_written(path: str, group: str, name: str, dataset: Any) -> None:
    """Raise if a dataset has far more values than were ever written, or such chunks that no memory holds them."""
    size = dataset.dtype.itemsize
    n = math.prod(dataset.shape)
    if dataset.is_virtual:
        n_written = sum(source.vspace.get_select_npoints() for source in dataset.virtual_sources())
        lost = _lost_source(dataset)
        if lost is not None:
            raise FormatError(
                f"{path}: dataset {name!r} of group {group!r} is stored in other files, and {lost}, so that HDF5 would "
                f"read zeros: restore the file, or leave the dataset out with drop={f'{group}/{name}'!r}"
            )
    elif dataset.chunks is not None:
        n_written = dataset.id.get_num_chunks() * math.prod(dataset.chunks)
        if math.prod(dataset.chunks) * size > _CHUNK:
            raise FormatError(
                f"{path}: dataset {name!r} of group {group!r} has chunks of {dataset.chunks} values, more than 1 GiB: "
                f"leave it out with drop={f'{group}/{name}'!r}"
            )
    else:
        n_written = n if dataset.id.get_storage_size() else 0
    # the keys of rows take 24 bytes each
    if (n - n_written) * max(size, 24) > _UNWRITTEN:
        raise FormatError(
            f"{path}: dataset {name!r} of group {group!r} has {n} values, but {max(n - n_written, 0)} were never "
            f"written: leave it out with drop={f'{group}/{name}'!r}"
        )


def _lost_source(dataset: Any, n_steps: int = 16) -> str | None:
    """Return the missing source file of a virtual dataset; HDF5 itself reads values that are none."""
    h5py = optional("h5py", "hdf5")
    folder = Path(dataset.file.filename).parent
    for name, item in sorted({(source.file_name, source.dset_name) for source in dataset.virtual_sources()}):
        if "%" in name or "%" in item:
            continue  # numbered sources, which may come later
        # HDF5 searches the recorded path, the directory for sources, the directory of the file, and the current one
        prefix = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", str(folder))
        places = [folder / name, folder / prefix / name, folder / Path(name).name, Path(name)]
        place = Path(dataset.file.filename) if name == "." else next((one for one in places if one.is_file()), None)
        if place is None:
            return f"{folder / name} does not exist"
        try:
            with h5py.File(place, "r") as file:
                source = file.get(item)
                if not isinstance(source, h5py.Dataset):
                    return f"{place} has no dataset {item!r}"
                lost = _lost_source(source, n_steps - 1) if source.is_virtual and n_steps else None
        except OSError as error:
            return f"{place} cannot be read: {error}"
        if lost is not None:
            return lost
    return None


def _column(path: str, group: str, name: str, dataset: Any, member: str) -> Column:
    h5py = optional("h5py", "hdf5")
    shape = tuple(int(n) for n in dataset.shape[1:])
    shape = () if all(n == 1 for n in shape) else shape
    dtype = dataset.dtype
    inner = h5py.check_vlen_dtype(dtype)
    if h5py.check_string_dtype(dtype) is not None:
        kind, type_name = "text", "std::string"
    elif inner is not None and not shape and (item := _number(inner)) is not None:
        kind, type_name = "list", f"std::vector<{item}>"
    elif (item := _number(dtype)) is not None:
        kind, type_name = "number", item
    else:
        raise UsageError(
            f"{path}: dataset {name!r} of group {group!r} has values of the type {_described(dtype)}, which products "
            f"cannot have: leave it out with drop={f'{group}/{name}'!r}"
        )
    for n in reversed(shape):
        type_name = f"std::array<{type_name},{n}>"
    return Column(name, member, type_name, kind, shape)


def _described(dtype: Any) -> str:
    return f"of {', '.join(dtype.names)}" if dtype.names else str(dtype)


def _number(dtype: Any) -> str | None:
    """Return the name of a number in C++. 16-bit floats become 32-bit floats, which hold all of their values."""
    if dtype.kind == "f" and dtype.itemsize == 2:
        return "float"
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        return None
    return type_name_of(dtype.newbyteorder("="))


def _size(column: Column) -> int:
    """Return the size of the numbers in a column; 0 for types without a size."""
    if column.kind != "number":
        return 0
    number = column.type.rpartition("<")[2].partition(",")[0]
    bits = re.search(r"int(\d+)_t", number)
    return int(bits[1]) // 8 if bits else {"double": 8, "float": 4}.get(number, 1)


def check_patterns(paths: Iterable[str], choice: Choice) -> None:
    """Raise if a pattern fits nothing in any file.

    Parameters
    ----------
    paths : iterable of str
        Paths of files, which are opened until all patterns have fitted something.
    choice : Choice
        The patterns.

    Raises
    ------
    KeyNotFoundError
        If a pattern fits nothing.
    """
    open_ones = {
        pattern: what
        for what, some in (("groups", choice.groups), ("fields", choice.fields), ("drop", choice.drop))
        for pattern in some
    }
    names: set[str] = set()
    for path in paths:
        if not open_ones:
            return
        with open_hdf5(path) as file:
            for group, datasets in _groups(file, path, Tables(), replace(choice, groups=(), drop=()), True):
                names.add(group)
                names.update(f"{group}/{dataset}" for dataset in datasets)
        open_ones = {p: what for p, what in open_ones.items() if not any(fits(name, [p]) for name in names)}
    for pattern, what in open_ones.items() if names else ():
        kinds = sorted(name for name in names if what == "drop" or ("/" in name) == (what == "fields"))
        near = nearest(pattern, kinds)[:3] or kinds[:5]
        form = " (give a field as group/dataset)" if what == "fields" and "/" not in pattern else ""
        hint = several(what, pattern) or (f"; similar: {', '.join(map(repr, near))}" if near else "")
        raise KeyNotFoundError(f"{what}: nothing in the files matches {pattern!r}{form}{hint}")
