"""What files and directories contain: `ls` and `info`, as the subcommands of `fb` print it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from femtobarn import _core
from femtobarn._files.explain import Value
from femtobarn._files.open import Files, open_pairs, resolve, settings_of
from femtobarn._shared.repr import format_bytes, format_table, html_list
from femtobarn.errors import KeyNotFoundError, UsageError

__all__ = ["FoundFile", "FoundObject", "Info", "Listing", "info", "ls"]

_OBJECT_HEADER = ("path", "class", "title", "entries", "on disk", "factor")
_FILE_HEADER = ("name", "size")
_LONGEST_TITLE = 80


@dataclass(frozen=True)
class FoundObject(Value):
    """An object of a file.

    Parameters
    ----------
    file : str
        The file.
    path : str
        The path in the file, without the cycle.
    cycle : int
        The cycle: `open` and `histogram` take ``f"{file}:{path};{cycle}"``.
    classname : str
        The class, as "TH1D" or "ROOT::RNTuple".
    title : str
        The title of the key; of an ntuple without one, its description.
    datetime : str
        When it was written, as "2026-01-31 12:00:00".
    num_entries : int or None
        Number of entries of an ntuple or a tree that can be opened.
    bytes_on_disk, bytes_uncompressed : int
        Sizes in bytes, of ntuples and trees with their data.
    error : str or None
        Why an ntuple cannot be opened.
    """

    file: str
    path: str
    cycle: int
    classname: str
    title: str
    datetime: str
    num_entries: int | None
    bytes_on_disk: int
    bytes_uncompressed: int
    error: str | None = None


@dataclass(frozen=True)
class FoundFile(Value):
    """A file or a directory in a directory.

    Parameters
    ----------
    file : str
        Path or URL; that of a directory ends with a slash.
    is_directory : bool
        Whether it is a directory.
    bytes : int or None
        The size of a file in bytes, if it is known.
    modified : int or None
        When it was changed, in seconds since 1970, if that is known.
    """

    file: str
    is_directory: bool
    bytes: int | None
    modified: int | None


class Listing(Sequence["FoundObject | FoundFile"]):
    """The objects of files, or the files of directories, as returned by `ls`.

    A sequence of `FoundObject` and `FoundFile`. Strings are keys, too: paths of objects, with or without a cycle, and
    files. Notebooks show a table with a search box.
    """

    def __init__(self, found: Sequence[FoundObject | FoundFile]) -> None:
        self._found = tuple(found)

    def keys(self) -> list[str]:
        """Return paths of objects with their cycles, as "folder/h;1", and paths of files.

        Returns
        -------
        list of str
            The keys.
        """
        return [_key(item) for item in self._found]

    def classnames(self) -> dict[str, str]:
        """Return the classes of the objects.

        Returns
        -------
        dict
            Paths with cycles, and names of classes.
        """
        return {_key(item): item.classname for item in self._found if isinstance(item, FoundObject)}

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return plain values, which JSON can represent and pandas takes.

        Returns
        -------
        list of dict
            One dict for each item.
        """
        return [item.to_dict() for item in self._found]

    @overload
    def __getitem__(self, where: int | str) -> FoundObject | FoundFile: ...
    @overload
    def __getitem__(self, where: slice) -> Listing: ...
    def __getitem__(self, where: int | str | slice) -> FoundObject | FoundFile | Listing:
        if isinstance(where, slice):
            return Listing(self._found[where])
        if not isinstance(where, str):
            return self._found[where]
        matching = [item for item in self._found if where in (_key(item), getattr(item, "path", None))]
        if not matching:
            raise KeyNotFoundError(f"nothing is named {where!r} here; keys() lists all names")
        return max(matching, key=lambda item: getattr(item, "cycle", 0))

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return any(item in (_key(known), getattr(known, "path", None)) for known in self._found)
        return item in self._found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[FoundObject | FoundFile]:
        return iter(self._found)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def _tables(self) -> list[tuple[tuple[str, ...], list[list[str]], tuple[int, ...]]]:
        objects = [item for item in self._found if isinstance(item, FoundObject)]
        files = [item for item in self._found if isinstance(item, FoundFile)]
        several = len({item.file for item in objects}) > 1
        tables: list[tuple[tuple[str, ...], list[list[str]], tuple[int, ...]]] = []
        if objects:
            header = ("file", *_OBJECT_HEADER) if several else _OBJECT_HEADER
            rows = [[*([item.file] if several else []), *_object_cells(item)] for item in objects]
            tables.append((header, rows, tuple(range(len(header) - 3, len(header)))))
        if files:
            cells = [[item.file, "" if item.bytes is None else format_bytes(item.bytes)] for item in files]
            tables.append((_FILE_HEADER, cells, (1,)))
        return tables

    def __repr__(self) -> str:
        tables = [format_table(header, rows, right=right) for header, rows, right in self._tables()]
        return "\n\n".join(tables) or "nothing"

    def _repr_html_(self) -> str:
        return (
            "".join(html_list(header, rows, right=right) for header, rows, right in self._tables()) or "<p>nothing</p>"
        )


def _key(item: FoundObject | FoundFile) -> str:
    return f"{item.path};{item.cycle}" if isinstance(item, FoundObject) else item.file


def _object_cells(item: FoundObject) -> list[str]:
    title = item.title if item.error is None else f"! {item.error}"
    factor = item.bytes_uncompressed / item.bytes_on_disk if item.bytes_on_disk else 0.0
    return [
        _key(item),
        item.classname,
        title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…",
        "" if item.num_entries is None else f"{item.num_entries:,}",
        format_bytes(item.bytes_on_disk),
        f"{factor:.2f}",
    ]


def ls(files: Files, *, storage_options: Mapping[str, Any] | None = None) -> Listing:
    """List the objects of files, or the files of directories.

    Only metadata is read.

    Parameters
    ----------
    files : str, path or list
        Files, as for `open`, without names of objects; or directories: a path, or a URL with a slash at its end.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    Listing
        All objects in all directories of each file, with all cycles; or all files of each directory.

    Raises
    ------
    NotFoundError
        If a file does not exist.
    FormatError
        If a file is corrupt or is not a ROOT file.

    See Also
    --------
    info : Show all metadata of an ntuple.

    Examples
    --------
    >>> import femtobarn as fb
    >>> found = fb.ls("testdata/histograms.root")
    >>> found.keys()[:2]
    ['fitted;1', 'squares;1']
    >>> found["profile"].classname
    'TProfile2D'
    """
    settings = {} if storage_options is None else settings_of(storage_options)
    out: list[FoundObject | FoundFile] = []
    for path, inside in resolve(files, storage_options):
        if inside is not None:
            raise UsageError(f"give a file without the name of an object: {path}, not {path}:{inside}")
        document = json.loads(_core.listing(path, settings))
        if "folder" in document:
            base = path if path.endswith("/") else path + "/"
            out += [_found_file(base, entry) for entry in document["entries"]]
        else:
            out += [_found_object(path, item) for item in document["objects"]]
    return Listing(out)


def _found_file(base: str, entry: Mapping[str, Any]) -> FoundFile:
    name = entry["name"] + ("/" if entry["is_folder"] else "")
    return FoundFile(base + name, entry["is_folder"], entry["bytes"], entry["modified"])


def _found_object(file: str, item: Mapping[str, Any]) -> FoundObject:
    error = item.get("error")
    return FoundObject(
        file=file,
        path=item["path"],
        cycle=item["cycle"],
        classname=item["class"],
        title=item["title"] or item.get("description") or "",
        datetime=item["datetime"],
        num_entries=item.get("num_entries"),
        bytes_on_disk=item["bytes_on_disk"],
        bytes_uncompressed=item["bytes_uncompressed"],
        error=None if error is None else error["message"],
    )


class Info(Mapping[str, Any]):
    """All metadata of an ntuple, as returned by `info`.

    A mapping with the names of ``fb info --json``, which are attributes as well: `file`, `ntuple`, `num_entries`,
    `fields`, `clusters`, `compressions` and others. Its text is what ``fb info`` prints.
    """

    def __init__(self, document: dict[str, Any], text: str) -> None:
        self._document = document
        self._text = text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which JSON can represent.

        Returns
        -------
        dict
            The document of ``fb info --json``.
        """
        return dict(self._document)

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._document:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._document[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._document]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        import html

        header = ("field", "C++ type", "columns", "on disk", "compression", "description")
        rows = [_field_cells(field) for field in self._document["fields"] if not field["anonymous"]]
        summary = html.escape(self._text.split("\n\n")[0])
        return f"<pre>{summary}</pre>{html_list(header, rows, right=(3,))}"


def _field_cells(field: Mapping[str, Any]) -> list[str]:
    source = field["projected_from"]
    n_bytes = field["bytes_on_disk"]
    columns = ", ".join(dict.fromkeys(column["type"] for column in field["columns"]))
    return [
        field["path"] or field["name"],
        field["typename"],
        columns if source is None else f"from {source}",
        format_bytes(n_bytes) if source is None and n_bytes is not None else "",
        ", ".join(field["compressions"]),
        field["description"],
    ]


def info(files: Files, *, storage_options: Mapping[str, Any] | None = None) -> Info:
    """Return all metadata of an ntuple or a tree: schema, sizes, compression, clusters and versions.

    Parameters
    ----------
    files : str or path
        The file and the name of the ntuple, as for `open`.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    Info
        The metadata, whose text is what ``fb info`` prints.

    Raises
    ------
    UsageError
        If several files are given, or the file has several ntuples and no name is given.

    See Also
    --------
    ls : List the objects of a file.

    Examples
    --------
    >>> import femtobarn as fb
    >>> about = fb.info(dimuon)
    >>> about.num_entries, about.compressions
    (12000, ['zstd 5'])
    """
    pairs = resolve(files, storage_options)
    if len(pairs) != 1:
        raise UsageError(f"info takes one file, not {len(pairs)}")
    with open_pairs(pairs, storage_options=storage_options) as ntuple:
        text, document = ntuple._core.info()
    return Info(json.loads(document), text)
