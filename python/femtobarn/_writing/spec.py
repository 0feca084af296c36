"""What an ntuple to be written is made of, as users say it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core_types import FieldSpec

__all__ = ["Cardinality", "Class", "Enum", "Projected", "Type", "is_spec", "to_fields"]

# of types of Awkward, which names of C++ have not
_SIGNS = ("*", "?", "{", "union[", "option[", "tuple[", "struct[", "parameters=")


@dataclass(frozen=True)
class Class:
    """A class of C++ as the type of a field, with its members.

    Parameters
    ----------
    name : str
        The class's name in C++.
    members : dict
        Names of the members and their types, as in the specification of an ntuple. Base classes are members called
        ":_0", ":_1" and so on, which are classes themselves.
    version : int
        The class's version (that of ClassDef).
    checksum : int, optional
        The class's checksum, as ROOT's TClass computes it.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.Class("Point", {"x": "float", "y": "float"}).name
    'Point'
    """

    name: str
    members: Mapping[str, Any]
    version: int = 0
    checksum: int | None = None


@dataclass(frozen=True)
class Enum:
    """An enum of C++ as the type of a field.

    Parameters
    ----------
    name : str
        The enum's name in C++.
    integer : str
        The integer that it is stored as.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.Enum("Color", "std::uint8_t").integer
    'std::uint8_t'
    """

    name: str
    integer: str = "std::int32_t"


@dataclass(frozen=True)
class Type:
    """A type of C++ with classes and enums in it.

    Parameters
    ----------
    name : str
        The type's name in C++, as "std::vector<Point>".
    classes : sequence of Class and Enum
        What these names stand for.

    Examples
    --------
    >>> import femtobarn as fb
    >>> point = fb.Class("Point", {"x": "float", "y": "float"})
    >>> fb.Type("std::vector<Point>", [point]).name
    'std::vector<Point>'
    """

    name: str
    classes: Sequence[Class | Enum] = ()


@dataclass(frozen=True)
class Cardinality:
    """The number of items of a collection as a field of its own, which takes no place.

    Parameters
    ----------
    source : str
        Path of the collection.
    wide : bool
        Whether C++ sees a number of 64 bits, not of 32.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.Cardinality("Muon").source
    'Muon'
    """

    source: str
    wide: bool = False


@dataclass(frozen=True)
class Projected:
    """A view of another field, which takes no place.

    Parameters
    ----------
    typename : str
        What C++ sees, as "ROOT::VecOps::RVec<float>"; types of NumPy and Awkward ("var * float32") stand for those of
        C++. It is the type of what is seen, or one that holds all of its values and as which ROOT reads them:
        ``double`` of ``float``, wider integers, another kind of vector. There are no views of arrays and variants.
    source : str
        Path of the field that is seen: names with dots between; items of collections and of optional values are "_0",
        which may be left out.
    subfields : dict, optional
        The views below it, if they are not those that follow from its type and source: of a collection, its item, as in
        ``fb.Projected("std::vector<float>", "Muon", {"_0": fb.Projected("float", "Muon._0.pt")})``.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.Projected("std::vector<float>", "Muon.pt").source
    'Muon.pt'
    """

    typename: str
    source: str
    subfields: Mapping[str, Any] | None = None


def to_fields(spec: Any) -> _core.Fields:
    """Turn a specification into fields.

    Parameters
    ----------
    spec : dict, Arrow schema, or Awkward type or form
        A dict has names of fields and their types: a name of C++ ("std::vector<float>"), a NumPy dtype, an Awkward type
        ("var * float32"), a `Class`, an `Enum`, a `Type`, a `Cardinality`, a `Projected`, or a dict for a record
        without a class.

    Returns
    -------
    Fields
        The fields as the core takes them.

    Raises
    ------
    UsageError
        If a type is none that RNTuple has.
    """
    if isinstance(spec, _core.Fields):
        return spec
    if isinstance(spec, Mapping):
        return _core.Fields.of_specs([_field(str(name), kind, str(name)) for name, kind in spec.items()])
    if hasattr(spec, "__arrow_c_schema__"):
        return _core.Fields.of_schema(spec.__arrow_c_schema__())
    if type(spec).__module__.split(".")[0] == "awkward":
        field = _awkward("", spec, "")
        if field[0] == "record":
            return _core.Fields.of_specs(field[3])
    raise UsageError(
        f"{type(spec).__name__} is no specification of fields: give a dict of names and types, an Arrow schema, or an "
        "Awkward type of records"
    )


def is_spec(value: Any) -> bool:
    """Tell whether a value has types and no data.

    Parameters
    ----------
    value : object
        What a user has given.

    Returns
    -------
    bool
        Whether it is a specification.
    """
    if isinstance(value, _core.Fields):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(_is_type(kind) for kind in value.values())
    module = type(value).__module__
    if module.split(".")[0] == "awkward":
        return module.startswith(("awkward.types", "awkward.forms"))
    return hasattr(value, "__arrow_c_schema__") and not hasattr(value, "__arrow_c_stream__")


def _is_type(kind: Any) -> bool:
    if isinstance(kind, str | type | np.dtype | Class | Enum | Type | Cardinality | Projected):
        return True
    if isinstance(kind, Mapping):
        return is_spec(kind)
    return type(kind).__module__.startswith(("awkward.types", "awkward.forms"))


def _field(name: str, kind: Any, path: str) -> FieldSpec:
    if isinstance(kind, Class):
        return ("record", name, kind.name, _members(kind.members, path), kind.version, kind.checksum)
    if isinstance(kind, Enum):
        return ("enum", name, kind.name, _integer(kind, path))
    if isinstance(kind, Type):
        return ("type", name, kind.name, [_field(known.name, known, f"{path}: {known.name}") for known in kind.classes])
    if isinstance(kind, Cardinality):
        return ("cardinality", name, kind.source, kind.wide)
    if isinstance(kind, Projected):
        return ("projected", name, _seen_as(kind, path), kind.source, _members(kind.subfields or {}, path))
    if isinstance(kind, Mapping):
        return ("record", name, "", _members(kind, path), 0, None)
    if isinstance(kind, str):
        return _text(name, kind, path)
    if type(kind).__module__.startswith("awkward"):
        return _awkward(name, kind, path)
    return _dtype(name, kind, path)


def _seen_as(kind: Projected, path: str) -> str:
    """Return the type of a view in C++."""
    seen: Any = kind.typename
    if isinstance(seen, Class | Enum | Type):
        return seen.name
    if isinstance(seen, Mapping | Cardinality | Projected) or not _is_type(seen):
        raise UsageError(
            f'field {path!r}: a view is seen as a type that has a name, as "std::vector<float>", not as {seen!r}'
        )
    if not isinstance(kind.source, str):
        raise UsageError(f"field {path!r}: a view shows a field, which is given by its path, not {kind.source!r}")
    field = _field(path, seen, path)
    if field[0] == "type":
        return str(field[2])
    typename = _core.Fields.of_specs([field]).types()[0][1]
    if not typename:
        raise UsageError(f"field {path!r}: {seen!r} has no name in C++, which the type of a view needs")
    return typename


def _integer(kind: Enum, path: str) -> FieldSpec:
    """Return the field of an enum's integer."""
    try:
        field = _field(path, kind.integer, path)
        found = _core.Fields.of_specs([field]).types()[0][1]
    except UsageError:
        found = ""
    if not re.fullmatch(r"std::u?int\d+_t", found):
        raise UsageError(
            f"field {path!r}: {kind.integer!r} is no integer, as which the enum {kind.name} could be stored: give "
            '"std::int32_t" or "int32", for example'
        )
    return field


def _members(members: Mapping[str, Any], path: str) -> list[FieldSpec]:
    return [_field(str(name), kind, f"{path}.{name}") for name, kind in members.items()]


def _text(name: str, kind: str, path: str) -> FieldSpec:
    """Return the field of a type by its name: of NumPy, Awkward or C++."""
    numbers = {"float16", "float32", "float64", "bool"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    if kind in numbers:
        return ("number", name, kind)
    # NumPy's short names, and types that have no counterpart
    if re.fullmatch(r"[<>=|]?[?bBifu][1248]?|[<>=|]?U\d+|(datetime|timedelta)64(\[\w+\])?", kind):
        return _dtype(name, kind, path)
    if kind in ("string", "str"):
        return ("type", name, "std::string")
    if kind == "bytes":
        return ("type", name, "std::vector<std::byte>")
    # a tuple has parentheses around it at the top level, where C++ has none
    if kind.lstrip().startswith("(") or any(sign in kind for sign in _SIGNS):
        try:
            import awkward as ak
        except ImportError:
            raise UsageError(f"field {path!r}: {kind!r} is a type of Awkward Array, which is not installed") from None
        try:
            return _awkward(name, ak.types.from_datashape(_with_numpys_names(kind), highlevel=False), path)
        except Exception as error:
            # a parser's message says what it had expected, at length
            raise UsageError(f"field {path!r}: {kind!r} is no type of C++, NumPy or Awkward Array") from error
    return ("type", name, kind)


def _with_numpys_names(kind: str) -> str:
    """Return a type of Awkward in which numbers with names of C++ have those that Awkward knows."""
    known = {"float": "float32", "double": "float64", "int": "int32"}
    # neither in quotes nor where they are names of members
    found = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:float|double|int)\b(?!\s*:)')
    return found.sub(lambda match: known.get(match[0], match[0]), kind)


def _dtype(name: str, kind: Any, path: str) -> FieldSpec:
    try:
        dtype = np.dtype(kind)
    except TypeError as error:
        raise UsageError(f"field {path!r}: {kind!r} is no type: {error}") from None
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        field = _dtype("_0", inner, path)
        for size in reversed(shape):
            field = ("array", "_0", size, field)
        return (field[0], name, *field[2:])
    if dtype.names is not None:
        return ("record", name, "", _members({key: dtype[key] for key in dtype.names}, path), 0, None)
    if dtype.kind == "U":
        return ("type", name, "std::string")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(
            f"field {path!r}: NumPy's {dtype} has no counterpart in RNTuple: store it as integers, reals or strings"
        )
    return ("number", name, dtype.newbyteorder("=").name)


def _awkward(name: str, kind: Any, path: str) -> FieldSpec:
    """Return the field of a type or form of Awkward Array."""
    kind = getattr(kind, "type", kind)
    kind = getattr(kind, "content", kind) if type(kind).__name__ == "ArrayType" else kind
    what = type(kind).__name__
    array = kind.parameters.get("__array__")
    if array == "string":
        return ("type", name, "std::string")
    if array == "bytestring":
        return ("type", name, "std::vector<std::byte>")
    if what == "NumpyType":
        return _dtype(name, kind.primitive, path)
    if what == "ListType":
        return ("list", name, _awkward("_0", kind.content, path))
    if what == "RegularType":
        return ("array", name, kind.size, _awkward("_0", kind.content, path))
    if what == "OptionType":
        return ("optional", name, _awkward("_0", kind.content, path))
    if what == "RecordType":
        names = [f"_{i}" for i in range(len(kind.contents))] if kind.is_tuple else kind.fields
        members = [_awkward(key, inner, f"{path}.{key}") for key, inner in zip(names, kind.contents, strict=True)]
        if kind.is_tuple:
            return ("tuple", name, members)
        return ("record", name, "", members, 0, None)
    if what == "UnionType":
        return ("variant", name, [_awkward("_0", inner, path) for inner in _alternatives(kind.contents)])
    raise UsageError(f"field {path!r}: Awkward's {kind} has no counterpart in RNTuple")


def _alternatives(contents: Sequence[Any]) -> list[Any]:
    """Return the alternatives of a union without "no value" and without the options that stand for it."""
    inner = [(kind, getattr(kind, "content", None)) for kind in contents]
    is_option = [type(kind).__name__ == "OptionType" for kind in contents]
    return [
        content if option else kind
        for (kind, content), option in zip(inner, is_option, strict=True)
        if type(content if option else kind).__name__ != "UnknownType"
    ]
