"""The number of requests to a server per operation."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Self

import pytest

import femtobarn as fb
import femtobarn.aio as aio


def n_commands(port: int) -> int:
    """Return how many commands a Redis has run."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"INFO stats\r\nQUIT\r\n")
        said = b"".join(iter(lambda: connection.recv(65536), b""))
    return int(said.partition(b"total_commands_processed:")[2].split()[0])


class Counted:
    """Counts the commands that a server has run in a block, without those for counting."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __enter__(self) -> Self:
        self._before = n_commands(self.port)
        return self

    def __exit__(self, *error: object) -> None:
        self.n = n_commands(self.port) - self._before - 2  # INFO and QUIT of the first count


def test_a_product_of_an_event_is_loaded_with_one_request(redis: Any) -> None:
    port = redis()
    url = f"redis://127.0.0.1:{port}?prefix=requests:"
    with fb.DataStore.connect(url) as store:
        dataset = store.root.create_dataset("a")
        dataset.create_run(1).create_subrun(2).create_event(3).store("pt", 1.5)
        # The first uses of a connection may take more requests.
        assert dataset[1][2][3].load("pt", typename=float) == 1.5
        with Counted(port) as long:
            assert dataset[1][2][3].load("pt", typename=float) == 1.5
        with Counted(port) as short:
            assert dataset.load("pt", event=(1, 2, 3), typename=float) == 1.5
        with Counted(port) as untyped:
            assert dataset.load("pt", event=(1, 2, 3)) == 1.5
        assert (long.n, short.n, untyped.n) == (4, 1, 3)

    async def loads() -> float:
        async with await aio.DataStore.connect(url) as store:
            value: float = await (await store.root["a"]).load("pt", event=(1, 2, 3), typename=float)
            return value

    assert asyncio.run(loads()) == 1.5


def test_what_is_missing_on_the_way_to_a_product_is_named() -> None:
    with fb.DataStore.connect("memory:") as store:
        dataset = store.root.create_dataset("a")
        event = dataset.create_run(1).create_subrun(2).create_event(3)
        event.store("pt", 1.5)
        dataset.store("own", 2)
        assert dataset.load("own") == 2
        assert dataset.load("eta", event=(1, 2, 3), default=None) is None
        with pytest.raises(fb.KeyNotFoundError, match=r"event 3 has no product 'eta'; it has 'pt' \(double\)"):
            dataset.load("eta", event=(1, 2, 3))
        with pytest.raises(fb.KeyNotFoundError, match=r"no product 'eta' of type double; it has 'pt' \(double\)"):
            dataset.load("eta", event=(1, 2, 3), typename=float)
        for numbers, missing in (((4, 2, 3), "run 4"), ((1, 4, 3), "subrun 4"), ((1, 2, 4), "event 4")):
            for options in ({}, {"typename": float}, {"default": 0.0}):
                with pytest.raises(fb.KeyNotFoundError, match=missing):
                    dataset.load("pt", event=numbers, **options)  # type: ignore[arg-type]
        for wrong in (3, (1, 2), (1, 2, 3, 4)):
            with pytest.raises(fb.UsageError, match=r"expected a tuple \(run, subrun, event\)"):
                dataset.load("pt", event=wrong)  # type: ignore[arg-type]
