"""Names of C++ types in the keys of products; the C++ headers compute the same names in `fb::type_name`.

The names have ROOT's short form, as ``std::vector<std::map<std::string,std::int32_t>>``. Names in this form stay as
they are, also those of types that only C++ knows.
"""

from __future__ import annotations

import functools
import re

from femtobarn._core import nearest
from femtobarn.errors import UsageError

__all__ = ["normal_name"]

_WORDS = frozenset({"signed", "unsigned", "short", "long", "int", "char"})
_INTEGERS = {"short": 16, "int": 32, "long": 64, "long long": 64}
_NUMBERS = {
    **{f"{u}int{n}{t}": f"std::{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64) for t in ("", "_t")},
    **{f"{u}{name}_t": f"std::{u.lower()}int{n}_t" for u in ("", "U") for name, n in (("Short", 16), ("Int", 32))},
    **{f"{u}Long{n}_t": f"std::{u.lower()}int64_t" for u in ("", "U") for n in ("", "64")},
    "Char_t": "char",
    "UChar_t": "std::uint8_t",
    "Bool_t": "bool",
    "Float_t": "float",
    "Float16_t": "float",
    "Double_t": "double",
    "Double32_t": "double",
    "float32": "float",
    "float64": "double",
    "size_t": "std::uint64_t",
    "ptrdiff_t": "std::int64_t",
    "string": "std::string",
    "str": "std::string",
    "byte": "std::byte",
}
_MAPS = ("map", "multimap", "unordered_map", "unordered_multimap")
_SETS = ("set", "multiset", "unordered_set", "unordered_multiset")
_LISTS = ("vector", "list", "deque", "forward_list")
_OTHERS = ("pair", "tuple", "optional", "variant", "array", "bitset", "atomic", "unique_ptr", "shared_ptr")
_TEMPLATES = frozenset((*_MAPS, *_SETS, *_LISTS, *_OTHERS))
_RVEC = ("RVec", "ROOT::RVec")
_INLINE = re.compile(r"\bstd::(__cxx11|__1|__debug)::")
_CHARACTER = re.compile(r"'([ -&(-\[\]-~])'")  # one of ASCII; not 'lambda', as some compilers name one
_SUFFIX = re.compile(r"(-?\d+)[uUlL]+")
_SIZES = re.compile(r"(.*?[^\[\]\s])\s*((?:\[\s*\d+\s*\]\s*)+)")  # of arrays as C has them


@functools.lru_cache(maxsize=4096)
def normal_name(name: str) -> str:
    """Return the name of a C++ type in the keys of products.

    Parameters
    ----------
    name : str
        The name in C++ or ROOT: ``vector<Int_t>``, ``unsigned long``.

    Returns
    -------
    str
        ``std::vector<std::int32_t>``, ``std::uint64_t``.

    Raises
    ------
    UsageError
        If it is not the name of a type, or the name of a pointer or a reference.

    Examples
    --------
    >>> from femtobarn._shared.type_names import normal_name
    >>> normal_name("const map<string, vector<unsigned int> > ")
    'std::map<std::string,std::vector<std::uint32_t>>'
    """
    text = _CHARACTER.sub(lambda found: f"(char){ord(found[1])}", " ".join(name.split()))
    if not text:
        raise UsageError(f"invalid product type {name!r}: it is empty")
    if text[-1] in "*&":
        raise UsageError(f"invalid product type {name!r}: use the type that the pointer or reference refers to")
    _check_brackets(name, text)
    normal = _normal(text)
    return normal.removeprefix("const ")


def _check_brackets(name: str, text: str) -> None:
    depth = 0
    for c in text:
        depth += (c == "<") - (c == ">")
        if depth < 0:
            break
    if depth:
        raise UsageError(f"invalid product type {name!r}: its brackets do not match")


def _normal(text: str) -> str:
    text = text.strip()
    if text.endswith(" const"):
        return f"const {_normal(text.removesuffix(' const'))}".replace("const const ", "const ")
    if text.startswith("const "):
        return f"const {_normal(text.removeprefix('const '))}".replace("const const ", "const ")
    if (sized := _SIZES.fullmatch(text)) is not None:
        normal = _normal(sized[1])
        for size in reversed(re.findall(r"\d+", sized[2])):
            normal = f"std::array<{normal},{size}>"
        return normal
    text = re.sub(r"^(?:(?:class|struct|enum) |::)+", "", text)
    name = ""
    while (at := text.find("<")) >= 0:
        name += _part(text[:at], has_arguments=True)
        inner, text = _bracket(text[at:])
        arguments = [_normal(argument) for argument in _split(inner)]
        if name == "std::basic_string" and arguments[0] == "char":
            name = "std::string"
            continue
        name += f"<{','.join(arguments[: _n_needed(name, arguments)])}>"
    return name + _part(text, has_arguments=False) if name else _number(_part(text, has_arguments=False))


def _part(text: str, *, has_arguments: bool) -> str:
    """Return a part of a name without brackets, with the inline namespaces of standard libraries removed."""
    text = _INLINE.sub("std::", text.strip())
    if has_arguments and text in _TEMPLATES:
        return f"std::{text}"
    return "ROOT::VecOps::RVec" if has_arguments and text in _RVEC else text


def _bracket(text: str) -> tuple[str, str]:
    """Return the content of the bracket at the beginning of a string, and the rest of the string."""
    depth = 0
    for at, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if depth == 0:
            return text[1:at], text[at + 1 :]
    return text[1:], ""


def _split(text: str) -> list[str]:
    """Split a string at the commas that are outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if c == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() or parts else []


def _n_needed(name: str, arguments: list[str]) -> int:
    """Return how many template arguments of a standard library type differ from their defaults and must be written."""
    template = name.removeprefix("std::")
    if name == template or not arguments:
        return len(arguments)
    key, own = arguments[0], 2 if template in _MAPS else 1
    value = f"std::pair<const {key},{arguments[1]}>" if own == 2 and len(arguments) > 1 else key
    usual = arguments[:own]
    if template.startswith("unordered_"):
        usual += [f"std::hash<{key}>", f"std::equal_to<{key}>"]
    elif template in _MAPS or template in _SETS:
        usual.append(f"std::less<{key}>")
    elif template == "unique_ptr":
        usual.append(f"std::default_delete<{key}>")
    elif template not in _LISTS:
        return len(arguments)
    usual.append(f"std::allocator<{value}>")
    n = len(arguments)
    while own < n <= len(usual) and arguments[n - 1] == usual[n - 1]:
        n -= 1
    return n


def _number(text: str) -> str:
    """Return ROOT's name of a number type; other names stay as they are."""
    if (known := _NUMBERS.get(text.removeprefix("std::"))) is not None:
        return known
    if (number := _SUFFIX.fullmatch(text)) is not None:
        return number[1]
    words = text.split(" ")
    if sorted(words) == ["double", "long"]:
        return "long double"
    if text == "char" or not _WORDS.intersection(words) or not all(word.isalpha() for word in words):
        _check_spelling(text)
        return text
    u = "u" if "unsigned" in words else ""
    rest = [word for word in words if word not in ("signed", "unsigned", "int")]
    size = 8 if rest == ["char"] else _INTEGERS.get(" ".join(rest) or "int")
    if size is None or len(words) - len(rest) > 2:
        raise UsageError(f"invalid product type {text!r}: C++ has no such number type")
    return f"std::{u}int{size}_t"


def _check_spelling(text: str) -> None:
    """Raise for a name that looks like a number type or a type of the standard library, but does not exist."""
    # not without "_t": float4 and int2 are classes of CUDA
    looks_known = re.fullmatch(r"u?int\d+_t|U?(Char|Short|Int|Long)\d*_t", text.removeprefix("std::"))
    if looks_known is None:
        return
    near = nearest(text, [*_NUMBERS, *_NUMBERS.values(), "float", "double"], limit=len(text))
    raise UsageError(f"invalid product type {text!r}: C++ has no such number type; did you mean {near[0]}?")
