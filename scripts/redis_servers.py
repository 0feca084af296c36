"""Real Redis servers for tests and benchmarks: a single server, with or without TLS, and clusters with replicas.

The program is ``redis-server`` of Debian, or FEMTOBARN_REDIS_SERVER (Valkey, another version).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from servers import ServerError, answers, certify, free_port, wait_until

_HIGHEST = 50_000  # the bus port of a node is its own port + 10,000
_TRIES = 5
_PORT = 7000  # of servers in their own networks


def program() -> str:
    """Return the program of the server."""
    return os.environ.get("FEMTOBARN_REDIS_SERVER", "redis-server")


def _free_port() -> int:
    while True:
        port = free_port()
        if port < _HIGHEST:
            return port


class _Node:
    """One process with its own directory and port."""

    def __init__(self, folder: Path, lines: list[str], *, has_tls: bool = False, host: _Host | None = None) -> None:
        self.folder, self.host = folder, host
        self.port = _free_port() if host is None else _PORT
        self.address = "127.0.0.1" if host is None else host.address
        self._lines, self._has_tls = lines, has_tls
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        self.start()

    def start(self) -> None:
        port = f"port 0\ntls-port {self.port}" if self._has_tls else f"port {self.port}"
        config = self.folder / "redis.conf"
        more = "\n".join(self._lines)
        files = f"dir {self.folder}\nlogfile {self.folder}/log\nsave ''\nappendonly yes"
        config.write_text(f"bind {self.address}\n{port}\n{files}\n{more}\n")
        nothing = subprocess.DEVNULL
        command = [*(self.host.within if self.host else ()), program(), str(config)]
        self._process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)

        def is_up() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise ServerError(self.log()[-4000:])
            is_there = self.host is not None or answers(self.port)
            return is_there and "Ready to accept connections" in self.log()

        try:
            wait_until(is_up, self.log)
        except ServerError:
            self._process.kill()
            self._process.wait()
            raise

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            if number == signal.SIGKILL:
                self._process.wait()
                self._process = None
                (self.folder / "log").unlink(missing_ok=True)


class Redis:
    """A single server.

    Parameters
    ----------
    has_tls : bool
        Whether to use only TLS, with the self-signed certificate ``cert.pem``.
    has_log : bool
        Whether to keep an append-only file; otherwise all data is lost at its end.
    """

    def __init__(self, has_tls: bool = False, has_log: bool = True) -> None:
        self.folder = _folder()
        self.nodes: list[_Node] = []
        lines = [] if has_log else ["appendonly no"]  # the later of two lines is used
        try:
            if has_tls:
                certificate, key = certify(self.folder)
                lines += [f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {certificate}"]
                lines += ["tls-auth-clients no"]
            self.nodes = [_started(self.folder / "0", lines, has_tls=has_tls)]
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """Kill all servers, like a crash."""
        for number in range(len(self.nodes)):
            self.kill_server(number)

    def kill_server(self, number: int) -> None:
        """Kill one server, like a crash."""
        self.nodes[number].signal(signal.SIGKILL)

    def stop_server(self, number: int) -> None:
        """Stop one server (SIGSTOP), with all its connections open."""
        self.nodes[number].signal(signal.SIGSTOP)

    def continue_server(self, number: int) -> None:
        """Continue one stopped server."""
        self.nodes[number].signal(signal.SIGCONT)

    def start_server(self, number: int) -> None:
        """Start one server again with its data."""
        self.nodes[number].start()

    def close(self) -> None:
        """Stop it and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def about(self) -> dict[str, object]:
        """Return the address."""
        # servers in their own networks share a port number
        ports = [node.port if node.host is None else number for number, node in enumerate(self.nodes)]
        data = [str(node.folder) for node in self.nodes]
        return {
            "port": ports[0],
            "data": data,
            "folder": str(self.folder),
            "servers": ports,
            "endpoint": ",".join(f"{node.address}:{node.port}" for node in self.nodes),
        }


class RedisCluster(Redis):
    """Three masters with one replica each.

    Parameters
    ----------
    has_tls : bool
        Whether to use TLS, also between servers, with the self-signed certificate ``cert.pem``.
    """

    def __init__(self, has_tls: bool = False, replicas: int = 1) -> None:
        self.folder, self.nodes = _folder(), []
        # a short failover timeout keeps tests short
        lines = ["cluster-enabled yes", "cluster-node-timeout 2000", "repl-diskless-sync-delay 0"]
        self._tls: list[str] = []
        try:
            if has_tls:
                certificate, key = certify(self.folder)
                lines += [f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {certificate}"]
                lines += ["tls-auth-clients no", "tls-cluster yes", "tls-replication yes"]
                self._tls = ["--tls", "--cacert", str(certificate)]
            for number in range(3 * (1 + replicas)):
                self.nodes.append(self._start(number, lines, has_tls))
            self._form(replicas)
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, lines: list[str], has_tls: bool) -> _Node:
        return _started(self.folder / str(number), lines, has_tls=has_tls)

    def _form(self, replicas: int) -> None:
        addresses = [f"{node.address}:{node.port}" for node in self.nodes]
        command = ["redis-cli", *self._tls, "--cluster", "create", *addresses]
        command += ["--cluster-replicas", str(replicas), "--cluster-yes"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise ServerError(done.stdout[-2000:] + done.stderr[-2000:])

        def is_up() -> bool:
            return all(self._is_whole(node, replicas) for node in self.nodes)

        wait_until(is_up, lambda: "\n".join(node.log()[-1000:] for node in self.nodes))

    def _is_whole(self, node: _Node, replicas: int) -> bool:
        def ask(*words: str) -> str:
            command = ["redis-cli", *self._tls, "-h", node.address, "-p", str(node.port), *words]
            return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout

        has_slots = "cluster_state:ok" in ask("cluster", "info")
        role = ask("info", "replication")
        expected = "master_link_status:up" if "role:slave" in role else f"connected_slaves:{replicas}"
        return has_slots and expected in role


class _Host:
    """A network namespace, like a separate machine."""

    def __init__(self, bridge: str, network: str, number: int) -> None:
        self.name = f"{bridge}-{number}"
        self.address = f"{network}.{number + 1}"
        self.within = ["ip", "netns", "exec", self.name]
        own, ours = "eth0", f"{bridge}{number}"
        _ip("netns", "add", self.name)
        _ip("link", "add", ours, "type", "veth", "peer", "name", own, "netns", self.name)
        _ip("link", "set", ours, "master", bridge, "up")
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", own)
        for device in ("lo", own):
            _ip("-n", self.name, "link", "set", device, "up")

    def route(self, verb: str, address: str) -> None:
        """Drop packets to an address ("replace"), or stop dropping them ("del")."""
        _ip("-n", self.name, "route", verb, "blackhole", f"{address}/32")


class RedisClusterNet(RedisCluster):
    """A cluster whose servers have separate networks, which can be cut from each other.

    Needs root on Linux.
    """

    def __init__(self) -> None:
        pid = os.getpid()
        self._bridge = f"fb{pid % 100_000}"
        self._network = f"10.{200 + pid % 50}.{pid // 50 % 250}"
        self._hosts: list[_Host] = []
        _ip("link", "add", self._bridge, "type", "bridge")
        try:
            _ip("addr", "add", f"{self._network}.254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            super().__init__()
        except BaseException:
            self._remove()
            raise

    def _start(self, number: int, lines: list[str], has_tls: bool) -> _Node:
        host = _Host(self._bridge, self._network, number)
        self._hosts.append(host)
        return _Node(self.folder / str(number), [*lines, "protected-mode no"], has_tls=has_tls, host=host)

    def cut_server(self, number: int) -> None:
        """Cut the network between one server and the others; clients still reach it."""
        self._route(number, "replace")

    def heal_server(self, number: int) -> None:
        """Restore the network."""
        self._route(number, "del")

    def _route(self, number: int, verb: str) -> None:
        cut = self._hosts[number]
        for other in self._hosts:
            if other is not cut:
                cut.route(verb, other.address)
                other.route(verb, cut.address)

    def close(self) -> None:
        """Stop it and remove its networks and files."""
        super().close()
        self._remove()

    def _remove(self) -> None:
        for host in self._hosts:
            subprocess.run(["ip", "netns", "del", host.name], check=False)
        self._hosts = []
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerError(f"ip {' '.join(words)}: {done.stderr}")


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    folder.chmod(0o755)
    return folder


def _started(folder: Path, lines: list[str], *, has_tls: bool = False) -> _Node:
    """Start a server; try another port if the first one is taken."""
    for attempt in range(_TRIES):
        try:
            return _Node(folder, lines, has_tls=has_tls)
        except ServerError:
            if attempt == _TRIES - 1:
                raise
            shutil.rmtree(folder)
    raise AssertionError
