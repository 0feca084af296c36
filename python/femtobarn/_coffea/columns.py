"""The columns of an ntuple by the names that coffea gives them: those of uproot.

The fields of an RNTuple have the same names here. The branches of a TTree are called by the path of branches in uproot,
``Jet/Jet.PT``. A branch that has others below it and no values of its own is a record of these.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import awkward as ak
from coffea.nanoevents.mapping.uproot import CannotBeNanoEvents, _lazify_form

from femtobarn import _core
from femtobarn._files.libraries import TREES
from femtobarn._files.ntuple import NTuple
from femtobarn._files.virtual_arrays import form_of
from femtobarn.errors import KeyNotFoundError

if TYPE_CHECKING:
    from femtobarn._core_types import FieldRecord

__all__ = ["Description", "description_of", "podio_collection_types"]

_MOST = 64  # schemas of files that are remembered
_INTEGER = re.compile(r"std::(u?int\d+_t)")

_described: WeakKeyDictionary[NTuple, Description] = WeakKeyDictionary()
_known: dict[Any, Description] = {}


@dataclass(frozen=True, eq=False)
class Description:
    """What coffea's schemas are made of. Files with the same fields have the same one.

    Attributes
    ----------
    columns : dict
        For each name that coffea uses: the name of the column, or the names of what is in a record.
    of_tree : bool
        Whether it is a TTree.
    form : str
        coffea's base form, as JSON.
    typenames : dict
        The C++ types by name.
    """

    columns: Mapping[str, str | tuple[str, ...]]
    of_tree: bool
    form: str
    typenames: Mapping[str, str]

    def base_form(self, accept: Callable[[str], bool] | None = None) -> dict[str, Any]:
        """Return coffea's base form of the names that a function accepts."""
        form: dict[str, Any] = json.loads(self.form)
        if accept is not None:
            kept = [(name, one) for name, one in zip(form["fields"], form["contents"], strict=True) if accept(name)]
            form["fields"], form["contents"] = [name for name, _ in kept], [one for _, one in kept]
        form["typenames"] = dict(self.typenames)
        return form

    def plain(self, names: Iterator[str]) -> list[str]:
        """Return the columns that have the values of some names, each once."""
        found: dict[str, None] = {}
        for name in names:
            at = self.columns[name]
            found.update({at: None} if isinstance(at, str) else dict.fromkeys(self.plain(iter(at))))
        return list(found)


def description_of(ntuple: NTuple) -> Description:
    """Return the description of an ntuple. Nothing is read, and files with the same fields share it."""
    known = _described.get(ntuple)
    if known is None:
        known = _described[ntuple] = _description_of(ntuple)
    return known


def _description_of(ntuple: NTuple) -> Description:
    core = ntuple._core
    batch = core.lazy(None, core.accesses("", learns=False)).read(0, 0)
    of_tree = core.version in TREES
    records = core.fields()
    aliases = core.aliases()
    documented = tuple((r["name"], r["typename"], r["description"]) for r in records if r["parent"] is None)
    key = batch.form_id, core.description, documented, frozenset(aliases.items())
    known = _known.get(key)
    if known is not None:
        return known
    form = form_of(batch, of_tree)
    forms = dict(zip(form.fields, form.contents, strict=True))
    columns = _branches(records, aliases, forms) if of_tree else _fields(batch.names())
    made = _described_as(columns, forms, _by_name(records, aliases), core.description, of_tree)
    if len(_known) >= _MOST:
        _known.clear()
    _known[key] = made
    return made


def _fields(names: list[str]) -> dict[str, str | tuple[str, ...]]:
    """Return the fields of an RNTuple: coffea has no use for the collections that ROOT's importer makes."""
    return {name: name for name in names if not name.startswith("_collection")}


def _branches(
    records: list[FieldRecord], aliases: Mapping[str, int], forms: Mapping[str, Any]
) -> dict[str, str | tuple[str, ...]]:
    """Return the branches of a TTree in the order of uproot: a branch before those below it."""
    names = {i: name for name, i in aliases.items() if not name.startswith("/")}
    groups = {names[record["id"]] for record in records if record["group"] and record["id"] in names}
    columns: dict[str, str | tuple[str, ...]] = {}
    for record in records:
        name, path = names.get(record["id"]), record["path"]
        if name is None or path is None or path not in forms or _is_repeated(name, aliases):
            continue
        above = [name[: at.start()] for at in re.finditer("/", name)]
        if above and forms[path].is_record and not forms[path].fields:
            # uproot leaves out a base class without members, and the branch above it
            groups -= {above[-1]}
            continue
        columns.update({group: () for group in above if group in groups and group not in columns})
        columns[name] = path
    below: dict[str, list[str]] = {}
    for name in columns:
        below.setdefault(name.rpartition("/")[0], []).append(name)
    return {
        name: at if isinstance(at, str) else tuple(below[name])
        for name, at in columns.items()
        if isinstance(at, str) or name in groups
    }


def _is_repeated(name: str, aliases: Mapping[str, int]) -> bool:
    """Return whether another branch has this name, too: the second one is called "name#2"."""
    first, mark, number = name.rpartition("#")
    return bool(mark) and number.isdigit() and first in aliases and f"{first}#1" not in aliases


def _by_name(records: list[FieldRecord], aliases: Mapping[str, int]) -> dict[str, FieldRecord]:
    by_id = {record["id"]: record for record in records}
    named = {record["name"]: record for record in records if record["parent"] is None}
    return named | {name: by_id[i] for name, i in aliases.items() if i in by_id}


def _described_as(
    columns: dict[str, str | tuple[str, ...]],
    forms: Mapping[str, Any],
    records: Mapping[str, FieldRecord],
    description: str,
    of_tree: bool,
) -> Description:
    """Return the description, without what coffea's events cannot have."""
    texts: dict[int, str] = {}  # by the identity of forms, which are shared and live as long as `forms`

    def plain(name: str) -> dict[str, Any]:
        at = columns[name]
        if isinstance(at, str):
            form = forms[at]
            if id(form) not in texts:
                texts[id(form)] = form.to_json()
            found: dict[str, Any] = json.loads(texts[id(form)])
            return found
        inside = [below.rpartition("/")[2] for below in at]
        contents = [plain(below) for below in at]
        return {"class": "RecordArray", "fields": inside, "contents": contents, "parameters": {}, "form_key": None}

    fields, contents, typenames = [], [], {}
    for name in columns:
        record = records[name]
        typename = _INTEGER.sub(r"\1", record["typename"]) if of_tree else record["typename"]
        typenames[name] = typename
        if "," in name or "!" in name:
            warnings.warn(f"coffea's events cannot have {name!r}: its name contains ',' or '!'", stacklevel=2)
            continue
        try:
            form = _lazify_form(plain(name), f"{name},!load", docstr=record["description"], typestr=typename)
        except (CannotBeNanoEvents, ValueError) as error:
            warnings.warn(f"coffea's events cannot have {name!r} ({typename}): {error}", stacklevel=2)
            continue
        fields.append(name)
        contents.append(form)
    parameters = {"__doc__": description}
    form = {"class": "RecordArray", "contents": contents, "fields": fields, "parameters": parameters, "form_key": None}
    return Description(columns, of_tree, json.dumps(form), typenames)


def podio_collection_types(ntuple: NTuple) -> dict[str, str] | None:
    """Return the types of the collections of a podio file, which EDM4hep's schema needs; None if it does not say them.

    Parameters
    ----------
    ntuple : NTuple
        The events.

    Returns
    -------
    dict of str to str, optional
        The types by the names of collections.
    """
    try:
        path, _ = ntuple._core.origins()[0]
        metadata = NTuple(_core.NTuple.open([(path, "podio_metadata")], **ntuple._reopen))
    except KeyNotFoundError:
        return None
    branch = f"{ntuple.name}___CollectionTypeInfo"
    found = [metadata.get(f"{branch}.{member}") for member in ("name", "dataType")]
    if None in found or not metadata.num_entries:
        return None
    names, types = (ak.flatten(field.array(entry_stop=1)).to_list() for field in found if field is not None)
    return dict(zip(names, types, strict=True))
