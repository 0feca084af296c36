"""Several files that do not match: the error names the one that differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import femtobarn as fb

ORDERS = list(itertools.permutations(range(3)))


def write(path: Path, name: str, fields: dict[str, np.ndarray]) -> str:
    """Write an ntuple."""
    with fb.recreate(path) as file:
        file[name] = fields
    return str(path)


def actions(files: list[str], output: Path) -> list[Callable[[], object]]:
    """Return operations on several files as one ntuple."""
    return [lambda: fb.open(files).arrays(), lambda: fb.convert(files, output), lambda: fb.merge(files, output)]


@pytest.mark.parametrize("order", ORDERS)
def test_the_file_without_a_common_field_is_named(tmp_path: Path, order: tuple[int, ...]) -> None:
    """The first and the last file were named, which have the same fields."""
    names = ["x", "zzz", "x"]
    files = [write(tmp_path / f"odd_{i}.root", "t", {names[i]: np.arange(3)}) for i in order]
    for act in actions(files, tmp_path / "out.root"):
        with pytest.raises(fb.UsageError) as caught:
            act()
        assert is_named(str(caught.value), "odd_1"), caught.value


def is_named(message: str, name: str) -> bool:
    """Return whether a message is about a file, or says which one differs from the others."""
    last = message.rpartition("; ")[2]
    return name in message.partition(" ")[0] or (name in last.partition(" ")[0] and "differs from the others" in last)


@pytest.mark.parametrize("order", ORDERS)
def test_the_file_with_another_type_is_named(tmp_path: Path, order: tuple[int, ...]) -> None:
    values = [np.arange(3), np.array(["a", "b", "c"]), np.arange(3)]
    files = [write(tmp_path / f"odd_{i}.root", "t", {"x": values[i]}) for i in order]
    for act in actions(files, tmp_path / "out.root"):
        with pytest.raises(fb.UsageError) as caught:
            act()
        assert is_named(str(caught.value), "odd_1"), caught.value


@pytest.mark.parametrize("order", ORDERS)
def test_the_file_with_another_ntuple_is_named(tmp_path: Path, order: tuple[int, ...]) -> None:
    names = ["t", "other", "t"]
    files = [write(tmp_path / f"odd_{i}.root", names[i], {"x": np.arange(3)}) for i in order]
    for act in (lambda: fb.open(files), lambda: fb.convert(files, tmp_path / "out.root")):
        with pytest.raises(fb.UsageError, match='"other" here, "t" there') as caught:
            act()
        assert is_named(str(caught.value), "odd_1"), caught.value


def test_of_two_files_the_second_is_named(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.root", "t", {name: np.arange(3)}) for name in ("a", "b")]
    with pytest.raises(fb.UsageError) as caught:
        fb.open(files)
    assert is_named(str(caught.value), "b.root")
