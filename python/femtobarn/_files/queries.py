"""Cuts, aliases and computed columns: what of a read is not only the names of fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.lumi_mask import LumiMask
from femtobarn.errors import FemtobarnError, UsageError

if TYPE_CHECKING:
    from femtobarn._files.reading import Readable

__all__ = ["Conditions", "Wanted", "conditions", "split"]


@dataclass(frozen=True)
class Conditions:
    """A cut and aliases, the same for all files, or a cut for each of some datasets.

    Parameters
    ----------
    cut : Expression or None
        The condition that entries must fulfil.
    aliases : Aliases
        The expressions of names.
    names : frozenset of str
        The names.
    texts : (str, dict or None, dict of str to str)
        What the cut and the aliases were made of.
    of_datasets : dict of str to Conditions
        Those of datasets that have a cut of their own.
    """

    cut: _core.Expression | None
    aliases: _core.Aliases
    names: frozenset[str]
    texts: tuple[str | dict[str, str] | None, dict[str, str]]
    of_datasets: Mapping[str, Conditions] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return conditions, (*self.texts, list(self.of_datasets))

    def of(self, dataset: str | None) -> Conditions:
        """Return the conditions of a dataset."""
        return self if dataset is None else self.of_datasets.get(dataset, self)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a cut nor an alias."""
        return self.cut is None and not self.names


@dataclass(frozen=True)
class Wanted:
    """Fields and computed columns of one ntuple.

    Parameters
    ----------
    fields : str, list or None
        The expressions that are names, patterns or functions of names; None for all fields.
    computed : list of (int, str, Expression)
        The computed columns: number of items of `fields` before it, its name, and its values.
    """

    fields: Any
    computed: list[tuple[int, str, _core.Expression]]


def conditions(cut: object, aliases: object, datasets: Collection[str] = ()) -> Conditions:
    """Parse a cut and aliases.

    Parameters
    ----------
    cut : str, LumiMask, dict or None
        The condition; or conditions by the name of the dataset, for some of them.
    aliases : dict of str to str, or None
        Expressions by their names; a value may be a `LumiMask`.
    datasets : collection of str
        The datasets of the fileset, if there is one.

    Returns
    -------
    Conditions
        The parsed expressions.

    Raises
    ------
    UsageError
        If an expression is invalid, or aliases use each other in a cycle.
    """
    if aliases is not None and not isinstance(aliases, Mapping):
        raise UsageError(f"aliases must be a dict from names to expressions, not {aliases!r}")
    texts: dict[str, str] = {}
    for name, text in (aliases or {}).items():
        if not isinstance(name, str):
            raise UsageError(f"names of aliases must be strings, not {name!r}")
        texts[name] = _text(f"alias {name!r}", text)
    known = _core.Aliases(texts)
    if isinstance(cut, Mapping):
        _check_datasets(cut, datasets)
        own = {name: conditions(one, texts) for name, one in cut.items()}
        cuts = {name: str(one.texts[0]) for name, one in own.items()}
        return Conditions(None, known, frozenset(texts), (cuts, texts), own)
    text = None if cut is None else _text("cut", cut)
    condition = None if text is None else _core.Expression(text, known)
    return Conditions(condition, known, frozenset(texts), (text, texts))


def _check_datasets(cut: Mapping[Any, Any], datasets: Collection[str]) -> None:
    if not datasets:
        raise UsageError(f"a dict of cuts is for the datasets of a fileset in iterate and process, not {cut!r}")
    for name, one in cut.items():
        if name not in datasets:
            near = _core.nearest(str(name), list(datasets))
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(map(repr, datasets))}"
            raise UsageError(f"cut has the dataset {name!r}, which the fileset does not have{hint}")
        if one is None:
            raise UsageError(f"the cut of dataset {name!r} is None: leave it out")


def _text(what: str, given: object) -> str:
    if isinstance(given, (str, LumiMask)):
        return str(given)
    raise UsageError(f'{what} must be an expression as a string, such as "nMuon >= 2", not {given!r}')


def split(source: Readable, expressions: Any, wanted: Conditions) -> Wanted:
    """Separate names of fields from expressions to be computed.

    Parameters
    ----------
    source : Readable
        The ntuple or field to read.
    expressions : str, iterable or None
        The argument of the user.
    wanted : Conditions
        The cut and the aliases.

    Returns
    -------
    Wanted
        The fields and computed columns. What is neither counts as the name of a field, which then is an error.
    """
    if expressions is None or isinstance(expressions, re.Pattern) or callable(expressions):
        return Wanted(expressions, [])
    items = [expressions] if isinstance(expressions, str) or not isinstance(expressions, Iterable) else [*expressions]
    fields: list[Any] = []
    computed: list[tuple[int, str, _core.Expression]] = []
    for item in items:
        values = _values(source, item, wanted) if isinstance(item, str) else None
        if values is None:
            fields.append(item)
        elif source._id is not None:
            raise UsageError(f"{item!r} is an expression: compute it with the ntuple, not with one of its fields")
        else:
            computed.append((len(fields), item, values))
    return Wanted(fields, computed)


def _values(source: Readable, text: str, wanted: Conditions) -> _core.Expression | None:
    """Return the expression that a string is, if it is not the name of a field."""
    schema = source.ntuple._schema
    if text in wanted.names:
        return _core.Expression(f"`{text}`", wanted.aliases)
    if schema.find_all(text, source._id) or any(True for _ in schema.matching(source._id, text, None, None)):
        return None
    try:
        found = _core.Expression(text, wanted.aliases)
    except FemtobarnError:
        return None
    is_name = found.columns == [text]
    return None if is_name or not all(schema.find_all(column) for column in found.columns) else found
