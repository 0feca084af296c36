"""Specifications of the fields of an ntuple."""

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

# characters of Awkward types that names of C++ types do not have
_SIGNS = ("*", "?", "{", "union[", "option[", "tuple[", "struct[", "parameters=")


@dataclass(frozen=True)
class Class:
    """A C++ class as the type of a field, with its members.

    Parameters
    ----------
    name : str
        The name of the class in C++.
    members : dict
        Names of the members and their types, as in the specification of an ntuple. Base classes are members called
        ":_0", ":_1" and so on, which are classes themselves.
    version : int
        The version of the class (from ClassDef).
    checksum : int, optional
        The checksum of the class, as computed by ROOT's TClass.

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
    """A C++ enum as the type of a field.

    Parameters
    ----------
    name : str
        The name of the enum in C++.
    integer : str
        The integer type that stores it.

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
    """A C++ type that contains classes and enums.

    Parameters
    ----------
    name : str
        The name of the type in C++, as "std::vector<Point>".
    classes : sequence of Class and Enum
        The classes and enums in the name.

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
    """The number of items of a collection as a separate field, which needs no storage.

    Parameters
    ----------
    source : str
        The path of the collection.
    wide : bool
        Whether the type in C++ is a 64-bit integer instead of a 32-bit integer.

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
    """A projected field, which has the data of another field and needs no storage.

    Parameters
    ----------
    typename : str
        The type in C++, as "ROOT::VecOps::RVec<float>"; NumPy and Awkward types ("var * float32") are converted. It is
        the type of the source, or a type that can represent all of its values and as which ROOT can read them:
        ``double`` for ``float``, wider integers, another kind of vector. Arrays and variants cannot be projected.
    source : str
        The path of the source: names with dots between them. Items of collections and of optional values are named
        "_0", which may be left out.
    subfields : dict, optional
        The subfields, if they do not follow from its type and source: for a collection its item, as in
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
        A dict has names of fields and their types: a C++ type ("std::vector<float>"), a NumPy dtype, an Awkward type
        ("var * float32"), a `Class`, an `Enum`, a `Type`, a `Cardinality`, a `Projected`, or a dict for a record
        without a class.

    Returns
    -------
    Fields
        The fields in the form of the core.

    Raises
    ------
    UsageError
        If RNTuple does not support a type.
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
        f"{type(spec).__name__} is not a specification of fields: use a dict of names and types, an Arrow schema, or "
        "an Awkward type of records"
    )


def is_spec(value: Any) -> bool:
    """Return whether a value has types and no data.

    Parameters
    ----------
    value : object
        The value from the user.

    Returns
    -------
    bool
        Whether the value is a specification.
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
    """Return the C++ type of a projected field."""
    seen: Any = kind.typename
    if isinstance(seen, Class | Enum | Type):
        return seen.name
    if isinstance(seen, Mapping | Cardinality | Projected) or not _is_type(seen):
        message = f'the type of a projected field must have a name, such as "std::vector<float>", not {seen!r}'
        raise UsageError(f"field {path!r}: {message}")
    if not isinstance(kind.source, str):
        raise UsageError(f"field {path!r}: the source must be the path of a field, not {kind.source!r}")
    field = _field(path, seen, path)
    if field[0] == "type":
        return str(field[2])
    typename = _core.Fields.of_specs([field]).types()[0][1]
    if not typename:
        raise UsageError(f"field {path!r}: {seen!r} has no name in C++; the type of a projected field needs one")
    return typename


def _integer(kind: Enum, path: str) -> FieldSpec:
    """Return the field of the integer of an enum."""
    try:
        field = _field(path, kind.integer, path)
        found = _core.Fields.of_specs([field]).types()[0][1]
    except UsageError:
        found = ""
    if not re.fullmatch(r"std::u?int\d+_t", found):
        raise UsageError(
            f"field {path!r}: {kind.integer!r} is not an integer type for the enum {kind.name}: use "
            '"std::int32_t" or "int32", for example'
        )
    return field


def _members(members: Mapping[str, Any], path: str) -> list[FieldSpec]:
    return [_field(str(name), kind, f"{path}.{name}") for name, kind in members.items()]


def _text(name: str, kind: str, path: str) -> FieldSpec:
    """Return the field of a type from its name: a NumPy, Awkward or C++ type."""
    numbers = {"float16", "float32", "float64", "bool"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    if kind in numbers:
        return ("number", name, kind)
    # short names of NumPy dtypes, and dtypes that RNTuple does not support
    if re.fullmatch(r"[<>=|]?[?bBifu][1248]?|[<>=|]?U\d+|(datetime|timedelta)64(\[\w+\])?", kind):
        return _dtype(name, kind, path)
    if kind in ("string", "str"):
        return ("type", name, "std::string")
    if kind == "bytes":
        return ("type", name, "std::vector<std::byte>")
    # at the top level, parentheses mean a tuple; C++ names never begin with one
    if kind.lstrip().startswith("(") or any(sign in kind for sign in _SIGNS):
        try:
            import awkward as ak
        except ImportError:
            raise UsageError(f"field {path!r}: {kind!r} is an Awkward type, but awkward is not installed") from None
        try:
            return _awkward(name, ak.types.from_datashape(_with_numpys_names(kind), highlevel=False), path)
        except Exception as error:
            # the message of the parser is a long list of what it expected
            raise UsageError(f"field {path!r}: {kind!r} is not a C++, NumPy or Awkward type") from error
    return ("type", name, kind)


def _with_numpys_names(kind: str) -> str:
    """Return an Awkward type in which C++ names of numbers are replaced by names that Awkward knows."""
    known = {"float": "float32", "double": "float64", "int": "int32"}
    # neither inside quotes nor as names of members
    found = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:float|double|int)\b(?!\s*:)')
    return found.sub(lambda match: known.get(match[0], match[0]), kind)


def _dtype(name: str, kind: Any, path: str) -> FieldSpec:
    try:
        dtype = np.dtype(kind)
    except TypeError as error:
        raise UsageError(f"field {path!r}: {kind!r} is not a type: {error}") from None
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
            f"field {path!r}: NumPy's {dtype} has no counterpart in RNTuple: store integers, floats or strings"
        )
    return ("number", name, dtype.newbyteorder("=").name)


def _awkward(name: str, kind: Any, path: str) -> FieldSpec:
    """Return the field of an Awkward type or form."""
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
    """Return the alternatives of a union without "no value", and without the options that stand for it."""
    inner = [(kind, getattr(kind, "content", None)) for kind in contents]
    is_option = [type(kind).__name__ == "OptionType" for kind in contents]
    return [
        content if option else kind
        for (kind, content), option in zip(inner, is_option, strict=True)
        if type(content if option else kind).__name__ != "UnknownType"
    ]
