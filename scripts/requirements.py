"""Print requirements of pyproject.toml, one a line, without building the package.

Older pips, Debian 12's among them, install neither dependency groups nor the extras of a package alone.

    requirements.py build           what [build-system] asks for
    requirements.py run all dev     the runtime dependencies (run), and those of extras and groups by name
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def requirements(pyproject: dict[str, Any], names: list[str]) -> list[str]:
    """Requirements of everything named, with what they include expanded."""
    project = pyproject["project"]
    groups: dict[str, list[str | dict[str, str]]] = {
        "build": pyproject["build-system"]["requires"],
        "run": project["dependencies"],
        **project.get("optional-dependencies", {}),
        **pyproject.get("dependency-groups", {}),
    }
    found: dict[str, None] = {}  # a set that keeps the order
    waiting = list(names)
    while waiting:
        for line in groups[waiting.pop(0)]:
            if isinstance(line, dict):
                waiting.append(line["include-group"])
            elif own := re.fullmatch(rf"{re.escape(project['name'])}\[(.+)\]", line.replace(" ", "")):
                waiting += own.group(1).split(",")
            else:
                found[line] = None
    return list(found)


if __name__ == "__main__":
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    print("\n".join(requirements(tomllib.loads(text), sys.argv[1:])))
