"""What code of Python reads beside its arguments: defaults, what it encloses, globals, and what it has of modules."""

from __future__ import annotations

import dis
import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["is_found_by_name", "is_own", "named_reads"]

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LOCALS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME")  # some have endings, as LOAD_FAST_CHECK
_MEMBERS = ("LOAD_ATTR", "LOAD_METHOD")
_STANDARD = Path(os.__file__).parent


@functools.cache
def is_own(module: str | None) -> bool:
    """Return whether a module is the user's, and neither Python's nor installed."""
    if module is None:
        return False
    top = module.partition(".")[0]
    if top == "femtobarn" or top.startswith("_cython_"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if top in sys.stdlib_module_names and top != "__main__" and (file is None or _STANDARD in Path(file).parents):
        return False  # one of the user may have such a name, too
    return file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts)


def is_found_by_name(value: Any) -> bool:
    """Return whether a function is what its module has under its name, as what is pickled by name must be."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def named_reads(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Iterate over what a function reads beside its arguments, by names."""
    code, namespace = function.__code__, function.__globals__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    cells = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    is_followed = is_own(namespace.get("__name__"))
    modules = {name: value for name, value in cells.items() if is_followed and _is_own_module(value)}
    yield from ((name, value) for name, value in cells.items() if name not in modules)
    enclosed = [*map(id, cells.values())]
    yield from ((name, value) for name, value in vars(function).items() if id(value) not in enclosed)
    if is_followed:
        yield from _Reads(code, namespace, modules).found.items()


def _is_own_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and is_own(value.__name__)


class _Reads:
    """What code reads by names, also in functions that it makes.

    Of the user's modules, those members count whose names code has as attributes; all of them where a module is handed
    on, so that others may read it.
    """

    def __init__(self, code: types.CodeType, namespace: dict[str, Any], modules: Mapping[str, Any]) -> None:
        self.found: dict[str, Any] = {}
        self._namespace = namespace
        self._attributes = sorted(_attributes(code))
        self._scan(code, modules)

    def _scan(self, code: types.CodeType, enclosed: Mapping[str, Any]) -> None:
        modules = dict(enclosed)  # by the names that locals and cells have
        instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
        imported = bound = None
        has_list = False  # of `from module import names`
        for at, instruction in enumerate(instructions):
            name, operation = instruction.argval, instruction.opname
            after = instructions[at + 1].opname if at + 1 < len(instructions) else ""
            if operation == "IMPORT_NAME":
                level, listed = (one.argval for one in instructions[at - 2 : at])
                has_list = bool(listed)
                imported = bound = self._imported(name, level or 0, listed or ())
            elif operation == "IMPORT_FROM":
                bound = self._member(imported, name)
                imported = imported if has_list else bound
            elif operation.startswith("STORE_"):
                if _is_own_module(bound) and isinstance(name, str):
                    modules[name] = bound
                bound = None
            elif operation in _GLOBALS and name not in modules and name in self._namespace:
                bound = self._namespace[name]
                self._note(name, bound, after)
            elif operation.startswith(_LOCALS):
                for one in name if isinstance(name, tuple) else (name,):
                    if one in modules:
                        bound = modules[one]
                        self._note(one, bound, after)
            elif operation not in ("SWAP", "ROT_TWO", "POP_TOP"):
                bound = None
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self._scan(inner, modules)

    def _note(self, name: str, value: Any, after: str) -> None:
        """Note what is read by a name, and what comes after that."""
        if not _is_own_module(value):
            self.found.setdefault(name, value)
        elif after in _MEMBERS or after.startswith("STORE_"):
            self._note_members(name, value, [])
        else:
            self.found[name] = value

    def _note_members(self, name: str, module: Any, around: list[Any]) -> None:
        for attribute in self._attributes:
            try:
                value = getattr(module, attribute)
            except Exception:  # most are attributes of something else
                continue
            if not _is_own_module(value):
                self.found.setdefault(f"{name}.{attribute}", value)
            elif value is not module and value not in around:
                self._note_members(f"{name}.{attribute}", value, [*around, module])

    def _imported(self, name: str, level: int, listed: tuple[str, ...]) -> Any:
        """Import what a function would import itself when it is called, if it is the user's; note what is read."""
        package = self._namespace.get("__package__") or ""
        try:
            full = importlib.util.resolve_name("." * level + name, package) if level else name
            top = full.partition(".")[0]
            if top not in sys.modules and not _is_own_to_be(top):
                return None
            if not is_own(top):
                return None
            module = importlib.import_module(full)
        except (Exception, SystemExit):  # as it will be when the function is called
            self.found[f"import {name}"] = "cannot be imported"
            return None
        for one in listed:
            self._note(f"{full}.{one}", self._member(module, one), "STORE_FAST")
        if not listed:
            module = sys.modules[top]
            self._note(top, module, "STORE_FAST")
        return module

    def _member(self, module: Any, name: str) -> Any:
        """Return what ``from module import name`` gives."""
        try:
            return getattr(module, name)
        except AttributeError:
            pass
        try:
            return importlib.import_module(f"{module.__name__}.{name}")
        except (Exception, SystemExit):
            return None


def _is_own_to_be(top: str) -> bool:
    """Return whether a module that is not imported yet is the user's."""
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin in ("built-in", "frozen"):
        return False
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    parts = {part for place in places if place is not None for part in Path(place).parts}
    is_standard = any(_STANDARD in Path(place).parents for place in places if place is not None)
    return not is_standard and not {"site-packages", "dist-packages"} & parts


def _attributes(code: types.CodeType) -> set[str]:
    """Return the names of all attributes that code reads of whatever it is."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname in _MEMBERS}
    inner = (_attributes(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return found.union(*inner)
