"""The rooms of the package: each imports only from itself and from the rooms above it (ARCHITECTURE.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import femtobarn as fb

PACKAGE = Path(fb.__file__).parent
ROOMS = [
    ["_core", "_core_types", "errors"],
    ["_shared"],
    ["_files"],
    ["_writing"],
    ["_operations"],
    ["_store"],
    ["_transfer"],
    ["_processing"],
    ["_aio"],
    ["aio"],
    ["_coffea", "_graphed"],
    ["coffea", "graphed"],
    ["_cli_verbs"],
    ["_cli"],
]
FLOORS = {name: floor for floor, names in enumerate(ROOMS) for name in names}


def imported(path: Path) -> set[str]:
    """Return the rooms that a module imports from, also within functions and for types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "femtobarn":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("femtobarn."):
            found.add((node.module or "").split(".")[1])
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return found


def test_no_room_imports_from_one_below_it() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules} <= FLOORS.keys()
    for path in modules:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        lower = {name for name in imported(path) if FLOORS[name] > FLOORS[room]}
        assert not lower, f"{path} imports from {lower}"
