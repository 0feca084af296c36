"""Print requirements of pyproject.toml, one per line, without building the package.

Older versions of pip, as in Debian 12, can install neither dependency groups nor only the extras of a package.

    requirements.py build           the requirements of [build-system]
    requirements.py run all dev     the runtime dependencies (run), and extras and groups by name
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def requirements(pyproject: dict[str, Any], names: list[str]) -> list[str]:
    """Return the requirements of all names, with included groups expanded."""
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
