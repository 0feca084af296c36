"""Real servers for tests and benchmarks, on free ports of this machine, in their own directories.

    python scripts/servers.py KIND

As a module, it provides classes. As a program, it starts one server, prints its address as a line of JSON, and executes
commands from standard input, one per line, with a line as answer. At the end of the input it stops the server and
removes its files. The commands are `kill`, `restart` and `put NAME FILE`; for `toxiproxy` `before SERVER PORT`,
`poison PORT KIND STREAM [NAME=NUMBER …]`, `heal PORT`, `close_way PORT` and `open_way PORT`; for Redis `kill_server
NUMBER`, `stop_server NUMBER`, `continue_server NUMBER` and `start_server NUMBER`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_PATIENCE = 60.0  # seconds until a server must be running
_TRIES = 5  # another program may take a free port


def free_port() -> int:
    """Return a port that is free at the moment.

    The system does not give it to connections, or to whoever asks for any port, so that a server can be started again.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


class ServerError(RuntimeError):
    """A server did not start; the message is the end of its log."""


class _Program:
    """An XRootD program that runs as the user of the Debian package."""

    def __init__(self, name: str, instance: str, config: Path) -> None:
        self._log = config.with_suffix(".log")
        own(config.parent)
        command = [name, *(["-R", "xrootd"] if os.geteuid() == 0 else [])]
        # without a PID file, cmsd looks for one in /tmp
        command += ["-n", instance, "-c", str(config), "-l", str(self._log), "-s", str(config.with_suffix(".pid"))]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(command, cwd=config.parent, stdin=nothing, stdout=nothing, stderr=nothing)

    def log(self) -> str:
        """Return the content of the log."""
        # its logs are in a directory with the name of the instance
        found = sorted(self._log.parent.rglob(self._log.name))
        return "".join(path.read_text(errors="replace") for path in found)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def own(folder: Path, user_name: str = "xrootd") -> None:
    """Change the owner of a directory and its content to the user that servers run as."""
    folder.chmod(0o755)
    if os.geteuid() != 0:
        return
    user = pwd.getpwnam(user_name)
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            with contextlib.suppress(FileNotFoundError):  # a program that runs there has removed it
                os.chown(Path(place, name), user.pw_uid, user.pw_gid, follow_symlinks=False)


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="servers-"))
    folder.chmod(0o755)
    return folder


def wait_until(is_up: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait until a server is running; on a timeout, raise an error with the end of its log."""
    end = time.monotonic() + _PATIENCE
    while not is_up():
        if time.monotonic() > end:
            raise ServerError(log()[-4000:])
        time.sleep(0.02)


def answers(port: int) -> bool:
    """Return whether a program listens on a port of this machine."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return client.connect_ex(("127.0.0.1", port)) == 0


class Server(ABC):
    """A program that serves the files of its own directory on a free port."""

    port = 0

    def __init__(self) -> None:
        self.folder = _temporary()
        self.data = self.folder / "data"
        self.data.mkdir()

    def _begin(self) -> None:
        """Start it; try another port if the first one is taken."""
        for attempt in range(_TRIES):
            self.port = free_port()
            self._start()
            try:
                self._wait()
            except ServerError:
                if attempt == _TRIES - 1:
                    self.close()
                    raise
                self.kill()
            else:
                return

    @abstractmethod
    def _start(self) -> None:
        """Start the program."""

    @abstractmethod
    def _wait(self) -> None:
        """Wait until it can be used; raise `ServerError` if it failed."""

    @abstractmethod
    def log(self) -> str:
        """Return the content of the log."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Write a file."""

    @abstractmethod
    def kill(self) -> None:
        """Stop it."""

    def restart(self) -> None:
        """Start it again, on the same port."""
        self.kill()
        self._start()
        self._wait()

    def close(self) -> None:
        """Stop it and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def about(self) -> dict[str, object]:
        """Return the address."""
        return {"port": self.port, "data": [str(self.data)], "folder": str(self.folder), "servers": [self.port]}

    def _write(self, name: str, content: bytes) -> None:
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Xrootd(Server):
    """A single server of the files in a directory.

    Parameters
    ----------
    more : callable, optional
        Returns further lines of the configuration, from the server's directory.
    """

    def __init__(self, more: Callable[[Path], str] | None = None) -> None:
        super().__init__()
        self._more = more(self.folder) if more is not None else ""
        self._begin()

    @property
    def url(self) -> str:
        """The URL of the files, without a trailing slash."""
        return f"root://127.0.0.1:{self.port}/"

    def log(self) -> str:
        """Return the content of the log."""
        return self._program.log()

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._write(name, content)
        own(self.data)

    def kill(self) -> None:
        """Kill it, like a crash."""
        self._program.kill()

    def _lines(self) -> str:
        """Return further lines of the configuration."""
        return self._more

    def _start(self) -> None:
        config = self.folder / "server.cfg"
        config.write_text(
            f"""xrd.port {self.port}
xrd.network nodnr
all.role server
oss.localroot {self.data}
all.export /
all.adminpath {self.folder}/admin
all.pidpath {self.folder}/run
all.sitename TEST
xrootd.async on
xrootd.chksum max 2 adler32 crc32c
{self._lines()}
"""
        )
        log = config.with_suffix(".log")
        for old in self.folder.rglob(log.name):
            old.unlink()
        self._program = _Program("xrootd", "one", config)

    def _wait(self) -> None:
        def is_up() -> bool:
            log = self._program.log()
            if "initialization failed" in log:
                raise ServerError(log[-4000:])
            return "initialization completed" in log and answers(self.port)

        wait_until(is_up, self._program.log)


class XrdHttp(Xrootd):
    """An XRootD server that also serves its files by HTTP and WebDAV."""

    _http_port = (0, 0)  # HTTP port for the server with the first port

    @property
    def url(self) -> str:
        """The URL of the files, without a trailing slash."""
        return f"http://127.0.0.1:{self._http_port[1]}"

    def about(self) -> dict[str, object]:
        """Return the address."""
        return {**super().about(), "port": self._http_port[1]}

    def _lines(self) -> str:
        if self._http_port[0] != self.port:
            self._http_port = (self.port, free_port())
        return f"{self._more}xrd.protocol XrdHttp:{self._http_port[1]} libXrdHttp.so\n"

    def _wait(self) -> None:
        super()._wait()
        wait_until(lambda: answers(self._http_port[1]), self.log)


def sss(folder: Path) -> str:
    """Configure a server with authentication by a shared key, and create the key as ``keytab``."""
    keytab = folder / "keytab"
    key = "00112233445566778899aabbccddeeff" * 2
    keytab.write_text(f"0 u:anybody g:anygroup n:test N:6912345 c:1700000000 e:0 f:0 k:{key}\n")
    keytab.chmod(0o600)
    return f"xrootd.seclib libXrdSec.so\nsec.protocol sss -s {keytab}\n"


def tls(folder: Path, demanded: str = "all") -> str:
    """Configure a server with TLS, and create its self-signed certificate ``cert.pem``.

    Parameters
    ----------
    folder : Path
        The directory of the server.
    demanded : str
        What requires TLS: "all" or "none".

    Returns
    -------
    str
        Lines of the configuration.
    """
    certificate, key = certify(folder)
    return (
        f"xrd.tls {certificate} {key}\nxrd.tlsca certfile {certificate}\nxrootd.tls capable {demanded}\n"
        "xrootd.seclib libXrdSec.so\nsec.protocol unix\n"
    )


def gsi(folder: Path) -> str:
    """Configure a server with authentication by X.509 proxies; create a CA in ``grid`` and a proxy ``grid/proxy.pem``.

    The certificate is for localhost. `grid_environment` returns the variables for clients with the proxy.
    """
    grid = folder / "grid"
    grid.mkdir()

    def openssl(*arguments: object) -> str:
        command = ["openssl", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=grid).stdout.strip()

    (grid / "host.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
    (grid / "user.ext").write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/DC=test/CN=ca",
            "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    for name, subject in (("host", "/DC=test/CN=localhost"), ("user", "/DC=test/CN=someone")):
        openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip
    number = openssl("x509", "-in", "ca.pem", "-noout", "-hash")
    shutil.copy(grid / "ca.pem", grid / f"{number}.0")
    policy = "access_id_CA X509 '/DC=test/CN=ca'\npos_rights globus CA:sign\ncond_subjects globus '\"/DC=test/*\"'\n"
    (grid / f"{number}.signing_policy").write_text(policy)
    (grid / "mapfile").write_text('"/DC=test/CN=someone" someone\n')
    for key in grid.glob("*.key"):
        key.chmod(0o400)
    # it resolves paths relative to the variable PWD
    command: list[str | Path] = [
        "xrdgsiproxy",
        "init",
        "-cert",
        grid / "user.pem",
        "-key",
        grid / "user.key",
        "-certdir",
        grid,
    ]
    command += ["-out", grid / "proxy.pem"]
    subprocess.run([*command, "-valid", "24:00"], check=True, capture_output=True, cwd=grid, stdin=subprocess.DEVNULL)
    return (
        "xrootd.seclib libXrdSec.so\n"
        f"sec.protocol gsi -certdir:{grid} -cert:{grid}/host.pem -key:{grid}/host.key -crl:0 -gridmap:{grid}/mapfile\n"
    )


def grid_environment(folder: Path, proxy: Path) -> dict[str, str]:
    """Return the environment variables with which a client uses the proxy of a server with `gsi`.

    Parameters
    ----------
    folder : Path
        The directory of the server.
    proxy : Path
        A copy of ``grid/proxy.pem`` that the user of the client owns.
    """
    return {"X509_CERT_DIR": str(folder / "grid"), "X509_USER_PROXY": str(proxy)}


def certify(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate ``cert.pem`` and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key


def _tls_capable(folder: Path) -> str:
    return tls(folder, "none")


# Directories for temporary files of nginx and its modules.
_NGINX_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_NGINX_PROPFIND = Path("/usr/lib/nginx/modules/ngx_http_dav_ext_module.so")


class Nginx(Server):
    """A single HTTP server of the files in a directory.

    The same files are below ``/`` (with directory listings), ``/dav/`` (WebDAV), ``/whole/`` (no range requests),
    ``/few/`` (at most four ranges per request), ``/moved/`` (redirects to ``/``), ``/signed/`` (only with
    ``?sig=a%2Fb%3D``), ``/token/`` (only with the token ``good``), ``/private/`` (only for ``me`` with ``secret``).
    Files can be put below ``/dav/``, ``/folders/`` (WebDAV that creates no directories), ``/plain/`` (no WebDAV),
    ``/small/`` (up to 1 MiB) and ``/tokendav/`` (WebDAV with the token ``good``).
    ``access.log`` has a line for each request: method, URL, status, range, tag, authorization.

    Parameters
    ----------
    has_tls : bool
        Whether to use TLS and HTTP/2.
    """

    def __init__(self, has_tls: bool = False) -> None:
        super().__init__()
        for name in _NGINX_FOLDERS:
            (self.folder / name).mkdir()
        self._scheme, self._tls = "http", ""
        if has_tls:
            certificate, key = certify(self.folder)
            self._scheme = "https"
            self._tls = f"ssl_certificate {certificate}; ssl_certificate_key {key};"
        (self.folder / "users").write_text("me:{PLAIN}secret\n")
        self._begin()

    @property
    def url(self) -> str:
        """The URL of the files, without a trailing slash."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def log(self) -> str:
        """Return the content of the log."""
        path = self.folder / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._write(name, content)

    def kill(self) -> None:
        """Stop it."""
        # by a signal that the main process forwards to the worker process
        self._process.terminate()
        self._process.wait()

    def _start(self) -> None:
        config = self.folder / "nginx.conf"
        config.write_text(self._config())
        own(self.folder, "www-data")
        nothing = subprocess.DEVNULL
        command = ["nginx", "-p", str(self.folder), "-c", str(config), "-e", str(self.folder / "error.log")]
        self._process = subprocess.Popen(command, cwd=self.folder, stdin=nothing, stdout=nothing, stderr=nothing)

    def _wait(self) -> None:
        def is_up() -> bool:
            if self._process.poll() is not None:
                raise ServerError(self.log()[-4000:])
            return answers(self.port)

        wait_until(is_up, self.log)

    def _config(self) -> str:
        folders = "\n".join(f"{name}_temp_path {self.folder}/{name};" for name in _NGINX_FOLDERS)
        has_propfind = _NGINX_PROPFIND.exists()
        same = f"alias {self.data}/;"
        dav = "autoindex off; dav_methods PUT DELETE MKCOL COPY MOVE;"
        if has_propfind:
            dav += " dav_ext_methods PROPFIND OPTIONS;"
        return f"""
{f"load_module {_NGINX_PROPFIND};" if has_propfind else ""}
{"user www-data;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log {self.folder}/error.log info;
events {{ worker_connections 1024; }}
http {{
    log_format asked '$request_method $request_uri $status "$http_range" "$http_if_match" "$http_authorization"';
    access_log {self.folder}/access.log asked;
    client_max_body_size 0;
    {folders}
    server {{
        listen 127.0.0.1:{self.port} {"ssl http2" if self._tls else ""};
        {self._tls}
        root {self.data};
        autoindex on;
        location /dav/ {{ {same} {dav} create_full_put_path on; }}
        location /folders/ {{ {same} {dav} }}
        location /plain/ {{ {same} dav_methods PUT; create_full_put_path on; }}
        location /small/ {{ {same} dav_methods PUT; client_max_body_size 1m; }}
        location /tokendav/ {{ if ($http_authorization != "Bearer good") {{ return 401; }} {same} {dav} }}
        location /whole/ {{ {same} max_ranges 0; }}
        location /few/ {{ {same} max_ranges 4; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ $scheme://$http_host/$1 redirect; }}
        location /signed/ {{ if ($arg_sig != "a%2Fb%3D") {{ return 403; }} {same} }}
        location /token/ {{ if ($http_authorization != "Bearer good") {{ return 401; }} {same} }}
        location /private/ {{ auth_basic files; auth_basic_user_file {self.folder}/users; {same} }}
    }}
}}
"""


class Cluster:
    """A redirector with two servers."""

    def __init__(self) -> None:
        self.folder = _temporary()
        self.port, manager = free_port(), free_port()
        self.servers = [free_port(), free_port()]
        self.data = [self.folder / name / "data" for name in ("ds0", "ds1")]
        self._programs: list[_Program] = []
        programs = []
        for name, port in zip(("mgr", "ds0", "ds1"), (self.port, *self.servers), strict=True):
            place = self.folder / name
            for part in ("data", "admin", "run"):
                (place / part).mkdir(parents=True)
            for program, own_port in (("cmsd", manager if name == "mgr" else "any"), ("xrootd", port)):
                config = place / f"{program}.cfg"
                config.write_text(
                    f"""all.manager localhost:{manager}
all.role {"manager" if name == "mgr" else "server"}
xrd.port {own_port}
xrd.network nodnr
oss.localroot {place}/data
all.export /
all.adminpath {place}/admin
all.pidpath {place}/run
cms.delay startup 5 servers 1 lookup 2
cms.space min 1m 1m
"""
                )
                programs.append((program, name, config))
        try:
            for each in programs:
                self._programs.append(_Program(*each))
            wait_until(lambda: all(map(answers, (self.port, *self.servers))), self.log)
            # the log of the redirector's manager shows when a server has logged in
            wait_until(lambda: self._programs[0].log().count("Protocol: Primary server.") >= 2, self.log)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL of the files, without a trailing slash."""
        return f"root://127.0.0.1:{self.port}/"

    def log(self) -> str:
        """Return the logs of all programs."""
        return "".join(program.log() for program in self._programs)

    def put(self, server: int, name: str, content: bytes) -> None:
        """Write a file on one of the servers."""
        (self.data[server] / name).write_bytes(content)
        own(self.data[server])

    def kill(self) -> None:
        """Stop all programs."""
        for program in self._programs:
            program.kill()

    def close(self) -> None:
        """Stop it and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def about(self) -> dict[str, object]:
        """Return the address."""
        data = [str(path) for path in self.data]
        return {"port": self.port, "data": data, "folder": str(self.folder), "servers": self.servers}


def cache_of(origin: int) -> Callable[[Path], str]:
    """Configure a caching proxy (XCache) for a server on a port of this machine."""
    return lambda folder: (
        f"ofs.osslib libXrdPss.so\npss.cachelib default\npss.origin 127.0.0.1:{origin}\npfc.ram 1g\n# in {folder}\n"
    )


class Cache:
    """A caching proxy (XCache), and the server with the files."""

    def __init__(self) -> None:
        self.origin = Xrootd()
        try:
            self.proxy = Xrootd(cache_of(self.origin.port))
        except ServerError:
            self.origin.close()
            raise

    @property
    def url(self) -> str:
        """The URL of the files, without a trailing slash."""
        return self.proxy.url

    def put(self, name: str, content: bytes) -> None:
        """Write a file on the server."""
        self.origin.put(name, content)

    def kill(self) -> None:
        """Stop both."""
        self.proxy.kill()
        self.origin.kill()

    def close(self) -> None:
        """Stop both and remove their files."""
        self.proxy.close()
        self.origin.close()

    def about(self) -> dict[str, object]:
        """Return the addresses."""
        return {**self.origin.about(), "port": self.proxy.port}


class Running(Protocol):
    """The interface of all servers."""

    def kill(self) -> None:
        """Kill it, like a crash."""

    def close(self) -> None:
        """Stop it and remove its files."""

    def about(self) -> dict[str, object]:
        """Return the address."""


def _object_store(name: str, *arguments: object) -> Running:
    import object_servers

    server: Running = getattr(object_servers, name)(*arguments)
    return server


def _redis(name: str, *arguments: object) -> Running:
    import redis_servers

    server: Running = getattr(redis_servers, name)(*arguments)
    return server


def _toxiproxy() -> Running:
    import toxiproxy

    return toxiproxy.Toxiproxy()


def _of_ways(server: Running, command: str) -> bool:
    """Execute a command for a proxy, or for one of several servers; return whether it was such a command."""
    verb, *words = command.split()
    of_ways = ("before", "poison", "heal", "close_way", "open_way")
    of_servers = ("kill_server", "stop_server", "continue_server", "start_server", "cut_server", "heal_server")
    verbs = (*of_ways, *of_servers)
    if verb not in verbs or not hasattr(server, verb):
        return False
    numbers = [int(word) for word in words if word.isdecimal()]
    names = [word for word in words if not word.isdecimal() and "=" not in word]
    attributes = {name: int(number) for name, _, number in (word.partition("=") for word in words if "=" in word)}
    getattr(server, verb)(*numbers, *names, **attributes)
    return True


KINDS: dict[str, Callable[[], Running]] = {
    "xrootd": lambda: Xrootd(),
    "sss": lambda: Xrootd(sss),
    "gsi": lambda: Xrootd(gsi),
    "tls": lambda: Xrootd(tls),
    "tls-capable": lambda: Xrootd(_tls_capable),
    "xrdhttp": lambda: XrdHttp(),
    "nginx": lambda: Nginx(),
    "nginx-tls": lambda: Nginx(has_tls=True),
    "cluster": lambda: Cluster(),
    "cache": lambda: Cache(),
    "minio": lambda: _object_store("Minio"),
    "minio-tls": lambda: _object_store("Minio", True),
    "azurite": lambda: _object_store("Azurite"),
    "fake-gcs": lambda: _object_store("FakeGcs"),
    "redis": lambda: _redis("Redis"),
    "redis-no-log": lambda: _redis("Redis", False, False),
    "redis-tls": lambda: _redis("Redis", True),
    "redis-cluster": lambda: _redis("RedisCluster"),
    "redis-cluster-tls": lambda: _redis("RedisCluster", True),
    "redis-cluster-net": lambda: _redis("RedisClusterNet"),
    "toxiproxy": lambda: _toxiproxy(),
}


def main() -> None:
    """Start a server for another program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kind", choices=KINDS)
    server = KINDS[parser.parse_args().kind]()
    try:
        print(json.dumps(server.about()), flush=True)
        for line in sys.stdin:
            match line.strip(), server:
                case "kill", _:
                    server.kill()
                case "restart", running if hasattr(running, "restart"):
                    running.restart()
                case command, store if command.startswith("put ") and hasattr(store, "put"):
                    # the last word is the path of the content
                    name, _, place = command.removeprefix("put ").rpartition(" ")
                    store.put(name, Path(place).read_bytes())
                    Path(place).unlink()
                case command, ways if _of_ways(ways, command):
                    pass
                case command, _:
                    raise SystemExit(f"unknown command {command!r}")
            print("done", flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
