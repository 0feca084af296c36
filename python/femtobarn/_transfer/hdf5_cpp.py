"""The classes of HDF5 files' groups in C++: a C++ header for programs that load ingested data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn._core import file_kind
from femtobarn._files.open import resolve
from femtobarn._shared.compat import known_options
from femtobarn._shared.repr import plural
from femtobarn._transfer.hdf5 import Choice, Table, choice_of, open_hdf5
from femtobarn._transfer.hdf5_tables import check_patterns, find_tables
from femtobarn.errors import FileError, UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["hdf5_schema"]


@known_options()
def hdf5_schema(
    files: Files,
    *,
    cpp: str | os.PathLike[str] | None = None,
    groups: str | Iterable[str] | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    namespace: str = "",
    run: str | None = None,
    subrun: str | None = None,
    event: str | None = None,
) -> dict[str, Any]:
    """Return what products the groups of HDF5 files become, and write a header of C++ with their classes.

    The header has a struct for each group, with the members that `ingest` notes in the store, and functions ``load``
    and ``store``, which work on events of ``femtobarn.hpp`` and ``hepnos.hpp``. Groups without rows have none.

    Parameters
    ----------
    files : str, path or list
        The files; of several, a group must have the same datasets in all that have rows of it.
    cpp : str or path, optional
        The header to write.
    groups, fields, drop, namespace, run, subrun, event
        As of `ingest`.

    Returns
    -------
    dict
        By the label of each product: its ``type``, the ``class`` in it, and the ``members`` of that, each with its
        ``name``, its ``type`` and the ``dataset`` that it is from.

    Raises
    ------
    UsageError
        If a group has other datasets in another file.

    Examples
    --------
    >>> import h5py, numpy as np, femtobarn as fb
    >>> with h5py.File(tmp / "a.h5", "w") as file:
    ...     for name in ("run", "subrun", "evt", "nhit"):
    ...         _ = file.create_dataset(f"rec.slc/{name}", data=np.ones((3, 1), "u4"))
    >>> schema = fb.hdf5_schema(tmp / "a.h5", cpp=tmp / "nova.hpp", namespace="hep")
    >>> schema["rec.slc"]["type"], [member["name"] for member in schema["rec.slc"]["members"]]
    ('std::vector<hep::rec_slc>', ['nhit'])
    """
    choice = choice_of(groups, fields, drop, namespace, (run, subrun, event))
    paths = [path for path, _ in resolve(files)]
    for path in paths:
        if file_kind(path) != "hdf5":
            raise UsageError(f"{path}: this is a ROOT file, not HDF5; `fb info` shows its contents")
    check_patterns(paths, choice)
    tables = _tables(paths, choice)
    if cpp is not None:
        text = _header(list(tables.values()), Path(cpp).name, paths, choice.namespace)
        try:
            Path(cpp).write_text(text)
        except OSError as error:
            raise FileError(f"cannot write the header {cpp}: {error.strerror or error}") from error
    return {
        group: {
            "type": table.type,
            "class": table.class_name,
            "members": [{"name": one.member, "type": one.type, "dataset": one.dataset} for one in table.columns],
        }
        for group, table in tables.items()
    }


def _tables(paths: list[str], choice: Choice) -> dict[str, Table]:
    """Return the tables of all files by their groups."""
    tables: dict[str, tuple[str, Table]] = {}
    for path in paths:
        with open_hdf5(path) as file:
            for table in find_tables(file, path, choice).tables:
                first, before = tables.setdefault(table.group, (path, table))
                if before.columns != table.columns:
                    differing = {one.dataset for one in set(before.columns) ^ set(table.columns)}
                    raise UsageError(
                        f"{path}: group {table.group!r} has other datasets than in {first}: "
                        f"{', '.join(sorted(differing))}; leave these out of all files with drop"
                    )
    return {group: table for group, (_, table) in tables.items()}


def _header(tables: list[Table], name: str, paths: list[str], namespace: str) -> str:
    guard = re.sub(r"\W", "_", f"FB_{name}").upper()
    of = Path(paths[0]).name if len(paths) == 1 else plural(len(paths), "file")
    classes = "\n".join(_class(table) for table in tables)
    if namespace:
        classes = f"namespace {namespace} {{\n\n{classes}\n}} // namespace {namespace}\n"
    parts = [
        f"/// The groups of {_comment(of)} as classes: what `fb ingest` has stored, and programs load.\n",
        "///\n",
        "///     std::vector<CLASS> rows;\n",
        "///     load(event, rows);      // of fb::Container and hepnos::Event; false if the event has none\n",
        "///\n",
        "/// Types of products have the namespace that `fb ingest` was given: where it was another, all is false.\n",
        "///\n",
        "/// Made by `fb hdf5-schema`.\n",
        f"#ifndef {guard}\n#define {guard}\n\n",
        "#include <femtobarn.hpp>\n#include <femtobarn/hint.hpp>\n\n"
        "#include <array>\n#include <cstddef>\n#include <cstdint>\n#include <string>\n"
        "#include <string_view>\n#include <type_traits>\n#include <vector>\n\n",
        classes,
        "".join(_described(table) if _is_plain(table) else _codec(table) for table in tables),
        "\n#endif\n",
    ]
    return "".join(parts)


def _comment(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]|\\$", "?", text)


def _is_plain(table: Table) -> bool:
    """Return whether the bytes of the class are its value."""
    return all(column.kind == "number" for column in table.columns)


def _short(table: Table) -> str:
    return table.class_name.rpartition("::")[2]


def _class(table: Table) -> str:
    name, label = _short(table), _literal(table.group)
    # a function of C may have the name of the class
    full = f"struct ::{table.class_name}"
    members = "".join(f"    {one.type} {one.member}; // {_comment(one.dataset)}\n" for one in table.columns)
    lines = [f"/// A row of {_comment(table.group)}.\nstruct {name} {{\n{members}}};\n"]
    if _is_plain(table):
        saved = "".join(f"    archive &row.{one.member};\n" for one in table.columns)
        archive, row = ("archive", "row") if table.columns else ("", "")
        lines.append(
            "\n/// Where rows are members of other classes, which Boost stores.\n"
            "template <class Archive>\n"
            f"void serialize(Archive &{archive}, {full} &{row}, const unsigned int) {{\n{saved}}}\n"
        )
    else:
        lines.append(
            "\n// It has texts or lists: femtobarn.hpp loads it, and hepnos.hpp, which takes Boost's form, does not.\n"
        )
    lines.append(
        f"\ntemplate <class Item>\nbool load(const Item &item, std::vector<{full}> &rows) {{\n"
        f"    const bool is_there = item.load({label}, rows);\n"
        f"    if (!is_there) {{\n        ::fb::detail::hint_of_type<std::vector<{full}>>(item, {label});\n    }}\n"
        "    return is_there;\n}\n"
        f"\ntemplate <class Item>\nvoid store(Item &&item, const std::vector<{full}> &rows) {{\n"
        f"    item.store({label}, rows);\n}}\n"
    )
    return "".join(lines)


def _literal(text: str) -> str:
    """Return a C++ string literal: characters other than plain ASCII as octal escapes, of at most three digits."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _described(table: Table) -> str:
    """Return the description of a class, as FB_DESCRIBE makes it of up to 64 members."""
    own = f"::{table.class_name}"
    name = f"struct {own}"
    visits = "".join(
        f"        visit(::fb::detail::Tag<decltype({own}::{one.member})>(), {_literal(one.member)}, "
        f"offsetof({name}, {one.member}));\n"
        for one in table.columns
    )
    visit = " &&visit" if table.columns else " &&"
    return (
        f"\ntemplate <>\nstruct fb::Described<{name}> : std::true_type {{\n"
        f"    static_assert(std::is_trivially_copyable_v<{name}> && std::is_standard_layout_v<{name}>);\n"
        f"    template <class Visit>\n    static void each(Visit{visit}) {{\n{visits}    }}\n}};\n"
    )


def _codec(table: Table) -> str:
    """Return code that converts rows with strings or lists to bytes and back: member by member, nothing between."""
    name = f"struct ::{table.class_name}"
    put = "".join(f"            put(bytes, row.{one.member});\n" for one in table.columns)
    take = "".join(f"            take(bytes, row.{one.member});\n" for one in table.columns)
    return f"""
template <>
struct fb::Codec<std::vector<{name}>> {{
    static std::string encode(const std::vector<{name}> &rows) {{
        std::string bytes;
        put(bytes, std::uint64_t(rows.size()));
        for (const auto &row : rows) {{
{put}        }}
        return bytes;
    }}
    static void decode(std::string_view bytes, std::vector<{name}> &rows) {{
        std::uint64_t n = 0;
        take(bytes, n);
        rows.clear();
        for (std::uint64_t i = 0; i < n; ++i) {{
            rows.emplace_back();
            auto &row = rows.back();
{take}        }}
        if (!bytes.empty()) {{
            detail::bad_size(type_name<std::vector<{name}>>(), 0, bytes.size());
        }}
    }}

private:
    template <class T>
    static void put(std::string &bytes, const T &value) {{
        bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    }}
    static void put(std::string &bytes, const std::string &text) {{
        put(bytes, std::uint64_t(text.size()));
        bytes += text;
    }}
    template <class T>
    static void put(std::string &bytes, const std::vector<T> &values) {{
        put(bytes, std::uint64_t(values.size()));
        for (const auto &value : values) {{
            put(bytes, value);
        }}
    }}
    template <std::size_t N>
    static void put(std::string &bytes, const std::array<std::string, N> &texts) {{
        for (const auto &text : texts) {{
            put(bytes, text);
        }}
    }}
    static std::string_view some(std::string_view &bytes, std::uint64_t n) {{
        if (bytes.size() < n) {{
            detail::bad_size(type_name<std::vector<{name}>>(), n, bytes.size());
        }}
        const std::string_view own = bytes.substr(0, n);
        bytes.remove_prefix(n);
        return own;
    }}
    template <class T>
    static void take(std::string_view &bytes, T &value) {{
        std::memcpy(&value, some(bytes, sizeof value).data(), sizeof value);
    }}
    static void take(std::string_view &bytes, std::string &text) {{
        std::uint64_t n = 0;
        take(bytes, n);
        text = some(bytes, n);
    }}
    template <class T>
    static void take(std::string_view &bytes, std::vector<T> &values) {{
        std::uint64_t n = 0;
        take(bytes, n);
        values.clear();
        for (std::uint64_t i = 0; i < n; ++i) {{
            T value{{}};
            take(bytes, value);
            values.push_back(value);
        }}
    }}
    template <std::size_t N>
    static void take(std::string_view &bytes, std::array<std::string, N> &texts) {{
        for (auto &text : texts) {{
            take(bytes, text);
        }}
    }}
}};
"""
