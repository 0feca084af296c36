"""The tree of fields that users see: names, keys, and the lookup of fields by key.

Fields that only give structure (items of collections, base classes) have no key. Their children appear under
the nearest ancestor that has one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from femtobarn import _core
from femtobarn._files.filters import compile_filter, is_pattern, name_matches
from femtobarn.errors import FemtobarnError, KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from femtobarn._core_types import FieldRecord
    from femtobarn._files.filters import Filter

__all__ = ["Schema"]

_OPERATOR = re.compile(r"[\s()+%&|<>=!~^-]")  # characters of expressions that do not occur in names
_TEMPLATE = re.compile(r"<.*>")  # in the name of a base class
_WORD = re.compile(r"[^\W\d]\w*")
_WILD = re.compile(r"[*?\[\]/]")


class Schema:
    """The fields of an ntuple, by ID and by key.

    Parameters
    ----------
    records : list of FieldRecord
        The fields from the core, parents before children.
    where : str
        The ntuple and its file, for messages.
    skipped : sequence of tuple of str
        Skipped fields with the reasons.
    files : sequence of tuple of str
        Paths of the files, and the ntuple's names in them.
    aliases : mapping of str to int, optional
        Other names of fields. A group, which shows the columns of several fields together, has only such names.
    """

    def __init__(
        self,
        records: list[FieldRecord],
        where: str,
        skipped: Sequence[tuple[str, str]] = (),
        files: Sequence[tuple[str, str]] = (),
        aliases: Mapping[str, int] | None = None,
    ) -> None:
        self.where = where
        self.skipped = dict(skipped)
        self.files = list(files)
        self.records: dict[int, FieldRecord] = {record["id"]: record for record in records}
        self.children: dict[int | None, list[int]] = {}
        for record in records:
            if not record.get("group"):
                self.children.setdefault(record["parent"], []).append(record["id"])
        self._visible: dict[int | None, list[int]] = {}
        self.names: dict[int, str] = {}
        self._paths: dict[int, str] = {}
        self._by_path: dict[str, int] = {}
        for i in self.records:
            self._name(i)
        for i in self.descend(None):
            self._by_path.setdefault(self._paths[i], i)
        groups = [record["id"] for record in records if record.get("group")]
        for i in (field for group in groups for field in self.descend(group)):
            self._by_path.setdefault(self._paths[i], i)
        self._aliases = {name: i for name, i in (aliases or {}).items() if i in self.records}
        self.sources = self._find_sources()

    def elsewhere(self, where: str, files: Sequence[tuple[str, str]]) -> Schema:
        """Return the same fields for other files."""
        other = copy.copy(self)
        other.where, other.files = where, list(files)
        return other

    def _name(self, i: int) -> None:
        """Set the path of a field and the last part of the path, its own name."""
        record = self.records[i]
        above = self.visible_parent(i)
        prefix = "" if above is None else f"{self._paths[above]}."
        self.names[i] = record["name"] if record["path"] is None else record["path"].removeprefix(prefix)
        self._paths[i] = prefix + self.names[i]

    def _find_sources(self) -> dict[int, list[int]]:
        """Return the untyped collections whose members are all fields themselves, with these fields."""
        projected = {self.names[i]: i for i in self.visible_children(None) if self.records[i]["projected"]}
        sources: dict[int, list[int]] = {}
        for i in self.visible_children(None):
            if self.records[i]["role"] == "collection" and not self.records[i]["typename"] and projected:
                members = [self.names[child] for child in self.visible_children(i)]
                if members and all(name in projected for name in members):
                    sources[i] = [projected[name] for name in members]
        return sources

    def visible_parent(self, i: int) -> int | None:
        """Return the nearest ancestor that has a key; None at the top."""
        parent = self.records[i]["parent"]
        while parent is not None and self.records[parent]["anonymous"]:
            parent = self.records[parent]["parent"]
        return parent

    def visible_children(self, i: int | None) -> list[int]:
        """Return the children that have a key; structural fields are replaced by their children.

        Fields inside a variant have no keys, as a variant can only be read as a whole.
        """
        known = self._visible.get(i)
        if known is None:
            known = []
            if i is None or self.records[i]["role"] != "variant":
                for child in self.children.get(i, ()):
                    known += self.visible_children(child) if self.records[child]["anonymous"] else [child]
            self._visible[i] = known
        return known

    def descend(self, i: int | None, *, recursive: bool = True) -> Iterator[int]:
        """Yield the fields below a field, parents first, in the order of `keys`."""
        for child in self.visible_children(i):
            yield child
            if recursive:
                yield from self.descend(child)

    def path(self, i: int) -> str:
        """Return the key of a field."""
        return self._paths[i]

    def parts(self, i: int) -> tuple[str, ...]:
        """Return the names of a field and its ancestors that have a key, from the top down."""
        above = self.visible_parent(i)
        return (*(() if above is None else self.parts(above)), self.names[i])

    def relative(self, i: int, base: int | None) -> str:
        """Return the key of a field relative to one of its ancestors."""
        path = self._paths[i]
        return path if base is None else path[len(self._paths[base]) + 1 :]

    def find(self, key: str, base: int | None = None) -> int:
        """Return the field with a key.

        Parameters
        ----------
        key : str
            A key, with "." or "/" between its parts. A name without separators is also searched in subfields, unless
            it begins with a ".".
        base : int or None
            The field to start from.

        Returns
        -------
        int
            The ID of the field; if several fields have the name, the first in the order of keys.

        Raises
        ------
        KeyNotFoundError
            If no field has this key; the message lists the nearest names.
        """
        found = self.find_all(key, base)
        if not found:
            raise self.missing(key, base)
        return found[0]

    def find_all(self, key: str, base: int | None = None) -> list[int]:
        """Return the field with this key, or else all fields with this name."""
        if base is None and key.startswith("/") and self._aliases:
            return self._absolute(key)
        if base is None and key not in self._by_path and key in self._aliases:
            return [self._aliases[key]]
        for spelling in (key, key.replace("/", ".").replace("\\", ".")):
            exact = spelling.removeprefix(".")
            full = exact if base is None else f"{self._paths[base]}.{exact}"
            i = self._by_path.get(full)
            if i is not None:
                return [i]
        if key.startswith(".") or (base is None and self._skipped_as(key)):
            return []
        return [i for i in self.descend(base) if self.names[i] == key]

    def _absolute(self, key: str) -> list[int]:
        """Return the field with this full path of branches and members in a tree."""
        branch, members = key, ""
        while branch not in self._aliases:
            at = max(branch.rfind("/"), branch.rfind("."))
            if at <= 0:
                return []
            branch, members = branch[:at], key[at:].replace("/", ".")
        i = self._aliases[branch]
        found = self._by_path.get(self._paths[i] + members) if members else i
        return [] if found is None else [found]

    def _skipped_as(self, key: str) -> str | None:
        """Return the skipped field with this key. It takes precedence over a nested field of the same name."""
        exact = key.removeprefix(".").replace("/", ".")
        return next((name for name in self.skipped if exact == name or exact.startswith(name + ".")), None)

    def variants(self, paths: list[str] | None) -> Iterator[tuple[str, str]]:
        """Yield the keys and C++ types of variants, or of the fields around them, among the fields to read.

        Parameters
        ----------
        paths : list of str or None
            The fields that the core reads; None for all.

        Yields
        ------
        tuple of str
            The key of the variant, or of the nearest ancestor that has one, and the C++ type of the variant.
        """
        for i, record in self.records.items():
            if record["role"] == "variant":
                line = [i]
                while (above := self.records[line[-1]]["parent"]) is not None:
                    line.append(above)
                keyed = [j for j in line if not self.records[j]["anonymous"]]
                if keyed and (paths is None or any(self.path(j) in paths for j in keyed)):
                    yield self.path(keyed[0]), record["typename"]

    def missing(self, key: str, base: int | None = None, *, pattern: bool = False) -> KeyNotFoundError:
        """Return the error for an unknown key."""
        if base is None and (known := self._known_reason(key)):
            return KeyNotFoundError(known, kind="no-such-field")
        below = list(self.descend(base))
        keys = [self.relative(i, base) for i in below]
        where = self.where if base is None else f"field {self.path(base)!r} of {self.where}"
        own_names = {self.names[i] for i in below}
        inside = [word for word in _WORD.findall(key) if word in own_names]
        near: list[str] = []
        if (_OPERATOR.search(key) and not ("::" in key and _TEMPLATE.search(key))) or ("*" in key and inside):
            message = f"no field named {key!r} in {where}"
            reason, unknown = self._not_computed(key)
            message += f", and it is not an expression: {reason}"
            near = list(dict.fromkeys(n for name in unknown for n in _nearest(name, keys)))[:3]
            message += "; did you mean " + _either(near) + "?" if near else ""
            near = near or inside
        else:
            message = f"no field {'matches' if pattern else 'named'} {key!r} in {where}"
            near = _nearest(_WILD.sub("", key) if pattern else key, keys)
            if near:
                message += ": did you mean " + _either(near) + "?"
            elif not pattern and is_pattern(key):
                message += "; patterns can be used in `arrays` and `keys`"
        if not near and 0 < len(keys) <= 12:
            message += "; the fields are " + ", ".join(repr(k) for k in keys)
        return KeyNotFoundError(message, kind="no-such-field")

    def _not_computed(self, text: str) -> tuple[str, list[str]]:
        """Return why a string cannot be computed, and the names in it that are not fields."""
        try:
            columns = _core.Expression(text, _core.Aliases({})).columns
        except FemtobarnError as error:
            return str(error), []
        unknown = [name for name in columns if not self.find_all(name)]
        return f"there is no field {_either(unknown)}" if unknown else "an expression needs the ntuple", unknown

    def _known_reason(self, key: str) -> str | None:
        """Return a specific reason why a field does not exist, or None."""
        if (name := self._skipped_as(key)) is not None:
            return f"field {name!r} of {self.where} is skipped: {self.skipped[name]}"
        bare = _core.without_cycle(key.strip("/"))
        for path, name in self.files:
            inside = _core.without_cycle(name)
            if bare in (inside, inside.rpartition("/")[2]):
                return (
                    f"no field named {key!r} in {self.where}: fb.open already gave the ntuple; write "
                    f'fb.open("{path}:{name}") and omit ["{key}"]'
                )
        return None

    def select(
        self,
        base: int | None,
        expressions: str | Iterable[str] | None,
        filter_name: Filter,
        filter_typename: Filter,
        accept: Callable[[int], bool] | None,
        *,
        zipped: bool = False,
    ) -> list[int]:
        """Return the fields to read; each includes its subfields.

        Parameters
        ----------
        base : int or None
            The field whose children are selected; None for the ntuple.
        expressions : str, iterable of str or None
            Keys or patterns, each of which must match a field.
        filter_name, filter_typename : Filter
            Filters on names and C++ types.
        accept : callable or None
            A function of the field ID.
        zipped : bool
            Whether to leave out collections whose members are read as separate fields.

        Returns
        -------
        list of int
            Fields of which none is an ancestor of another, in the order of the expressions. The matches of one
            expression, or of the filters, are in the order of the keys.
        """
        if expressions is not None and filter_name is not None:
            raise UsageError("give either expressions or filter_name, not both: each selects fields by name")
        if expressions is None:
            named: set[int] = set()
            wanted = set(self.matching(base, filter_name, filter_typename, accept))
            rank: dict[int, int] = {}
        else:
            named, rank = self._named(base, expressions)
            wanted = set(rank)
            if filter_typename is not None or accept is not None:
                wanted &= set(self.matching(base, None, filter_typename, accept))
        if zipped and base is None:
            for source, projections in self.sources.items():
                if not wanted.isdisjoint(projections):
                    wanted -= {source, *self.descend(source)} - named
        groups = [i for i in wanted if self.records[i].get("group")]
        cover = self._cover(base, wanted) + sorted(groups)
        if len(set(rank.values())) < 2:
            return cover
        # a subfield of a requested field is read with that field
        return sorted(cover, key=lambda i: min(rank[j] for j in (i, *self.descend(i)) if j in rank))

    def below(self, paths: list[str] | None) -> frozenset[str]:
        """Return the paths of some fields and all their subfields; None means all fields."""
        tops = (
            self.descend(None, recursive=False) if paths is None else [i for path in paths for i in self.find_all(path)]
        )
        return frozenset(self.path(i) for top in tops for i in (top, *self.descend(top)))

    def matching(
        self,
        base: int | None,
        filter_name: Filter,
        filter_typename: Filter,
        accept: Callable[[int], bool] | None,
        *,
        recursive: bool = True,
    ) -> Iterator[int]:
        """Yield the fields that pass all filters, in the order of keys."""
        by_name, by_type = compile_filter(filter_name), compile_filter(filter_typename)
        for i in self.descend(base, recursive=recursive):
            if (
                (by_name is None or name_matches(by_name, self.names[i], self.relative(i, base)))
                and (by_type is None or by_type(self.records[i]["typename"]))
                and (accept is None or accept(i))
            ):
                yield i

    def _named(self, base: int | None, expressions: str | Iterable[str]) -> tuple[set[int], dict[int, int]]:
        """Return the named fields, and for all matching fields the index of the first expression that matches."""
        named: set[int] = set()
        rank: dict[int, int] = {}
        one = isinstance(expressions, (str, re.Pattern)) or callable(expressions)
        if not one and not isinstance(expressions, Iterable):
            raise UsageError(f"expressions must be names of fields, not {expressions!r}")
        keys: Iterable[object] = [expressions] if one else expressions
        for number, key in enumerate(keys):
            if isinstance(key, re.Pattern) or callable(key):
                for i in self.matching(base, key, None, None):
                    rank.setdefault(i, number)
                continue
            if not isinstance(key, str):
                raise UsageError(f"expressions must be names of fields, not {key!r}")
            found = self.find_all(key, base)
            named.update(found)
            if not found and is_pattern(key):
                found = list(self.matching(base, key, None, None))
            if not found:
                raise self.missing(key, base, pattern=is_pattern(key))
            for i in found:
                rank.setdefault(i, number)
        return named, rank

    def _cover(self, i: int | None, wanted: set[int]) -> list[int]:
        cover: list[int] = []
        for child in self.visible_children(i):
            if child in wanted:
                cover.append(child)
            elif self.visible_children(child):
                cover.extend(self._cover(child, wanted))
        return cover


def _nearest(key: str, keys: list[str]) -> list[str]:
    lowered: dict[str, str] = {}
    for name in keys:
        lowered.setdefault(name.lower(), name)
    for name in keys:
        lowered.setdefault(name.rpartition(".")[2].lower(), name)
    close = _core.nearest(key.lower(), list(lowered), limit=max(2, len(key) // 2 + 1))[:3]
    return list(dict.fromkeys(lowered[name] for name in close))


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
