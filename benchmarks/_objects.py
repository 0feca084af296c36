"""Competitors that write and read ntuples as objects, and a plain HTTP client that sends the same requests."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import time
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _remotes import FemtobarnRemote, Remote
from _worker import Parts, digests

CLOSED = "the server has closed the connection"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class ReadObjects(FemtobarnRemote):
    """Reads columns into arrays, whose checksums are compared after each run."""

    array: Any = None

    def run(self) -> Parts:
        start = time.perf_counter()
        self.array = self.read(self.urls, self.options)
        return {"read": time.perf_counter() - start}

    def told(self) -> dict[str, Any]:
        digest = 0
        for name, one in digests(self.array).items():
            digest = zlib.crc32(f"{name} {one}".encode(), digest)
        self.array = None
        return {"digest": digest}


class WriteObjects(FemtobarnRemote):
    """Clones a file to objects: its pages are copied as they are."""

    delivery: dict[str, Any]

    def prepare(self) -> None:
        import femtobarn as fb

        small = self.spec["warm_up"]
        fb.clone(small["path"], small["url"], overwrite=True, **self.options)
        for folder in self.spec["remove"]:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self) -> Parts:
        import femtobarn as fb

        more = {"object_size": self.spec["object_size"], "overwrite": self.spec["overwrite"], **self.options}
        start = time.perf_counter()
        report = fb.clone(self.spec["path"], self.urls[0], **more)
        seconds = time.perf_counter() - start
        self.delivery = report.delivery or {}
        return {"write": seconds}

    def told(self) -> dict[str, Any]:
        return {"bytes": self.delivery["bytes"], "objects": self.delivery.get("objects", 0)}


class Plain(Remote):
    """Sends given requests by plain HTTP on some connections. Steps follow each other; in a step, all are concurrent.

    A request is a method, a target, a range ("" for none), and the path of a file with its body ("" for none). With
    `digests`, bodies are sent with their SHA-256.
    """

    answers: list[bytes]

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.bodies: dict[str, bytes] = {}
        self.free: deque[socket.socket] = deque()

    def versions(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        for folder in self.spec.get("remove", []):
            shutil.rmtree(folder, ignore_errors=True)
        self.bodies = {body: Path(body).read_bytes() for step in self.spec["steps"] for *_, body in step if body}

    def run(self) -> Parts:
        self.answers = []
        start = time.perf_counter()
        with ThreadPoolExecutor(self.spec["at_once"]) as pool:
            for step in self.spec["steps"]:
                self.answers += pool.map(self.one, step)
        seconds = time.perf_counter() - start
        for connection in self.free:
            connection.close()
        return {"read": seconds}

    def one(self, request: list[str]) -> bytes:
        method, target, span, path = request
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.spec['host']}"]
        if span:
            lines.append(f"Range: bytes={span}")
        body = self.bodies.get(path, b"")
        if body:
            lines.append(f"Content-Length: {len(body)}")
            if self.spec.get("digests"):
                lines.append(f"x-amz-content-sha256: {hashlib.sha256(body).hexdigest()}")
        with self.connection() as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            connection.sendall(body)
            return answer_of(connection)

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        try:
            own = self.free.pop()
        except IndexError:
            own = socket.create_connection(("127.0.0.1", self.spec["port"]))
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield own
        self.free.append(own)

    def told(self) -> dict[str, Any]:
        return {"digests": [zlib.crc32(answer) for answer in self.answers], "bytes": sum(map(len, self.answers))}


def answer_of(connection: socket.socket) -> bytes:
    """Return the body of an answer."""
    found = bytearray()
    while b"\r\n\r\n" not in found:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError(CLOSED)
        found += piece
    head, _, begun = bytes(found).partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    if int(head[9:12]) >= 300 or length is None:
        raise ConnectionError((head + begun)[:500].decode("latin-1"))
    body = bytearray(int(length[1]))
    body[: len(begun)] = begun
    rest = memoryview(body)[len(begun) :]
    while rest:
        n_bytes = connection.recv_into(rest)
        if not n_bytes:
            raise ConnectionError(CLOSED)
        rest = rest[n_bytes:]
    return bytes(body)
