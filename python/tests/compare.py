"""Comparing values of any type, with NaN equal to NaN and -0.0 different from 0.0."""

import json
import subprocess
import sys
from pathlib import Path

import awkward as ak


def listed(values):
    """Convert anything that reading returns to Python objects."""
    for method in ("tolist", "to_pylist", "to_list"):
        if hasattr(values, method):
            return listed(getattr(values, method)())
    if isinstance(values, dict):
        return {key: listed(value) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(listed, values))
    return list(map(listed, values)) if isinstance(values, list) else values


def same(left, right):
    """Return whether two results have the same values."""
    return same_bytes(left, right) or repr(listed(left)) == repr(listed(right))


def same_bytes(left, right):
    """Return whether two arrays consist of the same bytes, which is fast to check; different bytes may still be equal
    values.
    """
    if not (isinstance(left, ak.Array) and isinstance(right, ak.Array)):
        return False
    (one, n, parts), (other, m, others) = (ak.to_buffers(ak.to_packed(array)) for array in (left, right))
    if (one, n, parts.keys()) != (other, m, others.keys()):
        return False
    return all(part.tobytes() == others[key].tobytes() for key, part in parts.items())


def objects_of(path):
    """Return the objects of a file, as `fb ls` lists them."""
    command = [Path(sys.executable).with_name("fb"), "ls", "--json", str(path)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["objects"]


def left_behind(report):
    """Return names and classes of the objects that an operation left behind."""
    return sorted((left.name, left.class_name) for left in report.left_behind if left.field is None)
