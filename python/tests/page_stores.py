"""The page stores that `test_page_stores.py` tests: each has URLs for ntuples. Another store is another class here."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import daos_standin
import object_servers
from faulty_store import Asked, FaultyStore

if TYPE_CHECKING:
    import pytest


class Files:
    """ROOT files in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Arguments for writing an ntuple there.
        self.options: dict[str, str] = {}

    def url(self, name: str) -> str:
        """Return the URL of an ntuple with this name."""
        return str(self.folder / f"{name}.root")

    def left(self, name: str) -> list[str]:
        """Return names of files or objects that belong to an ntuple, or were left by its writer."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob(f"*{name}*"))

    def close(self) -> None:
        """Stop servers."""


class LocalObjects(Files):
    """Objects in a directory."""

    def __init__(self, folder: Path, size: str) -> None:
        super().__init__(folder)
        self.options = {"object_size": size}

    def url(self, name: str) -> str:
        return f"ntpl+file://{self.folder}/{name}"

    def left(self, name: str) -> list[str]:
        folder = self.folder / name
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class Minio(LocalObjects):
    """Objects in a bucket of MinIO. Credentials are in the variables of ROOT."""

    def __init__(self, size: str, variables: pytest.MonkeyPatch) -> None:
        self.server = object_servers.Minio()
        about = self.server.about()
        self.endpoint = about["endpoint"]
        variables.setenv("S3_ACCESS_KEY", str(about["access_key_id"]))
        variables.setenv("S3_SECRET_KEY", str(about["secret_access_key"]))
        variables.setenv("S3_REGION", "us-east-1")
        # an object is a directory there
        super().__init__(self.server.data / "private", size)

    def url(self, name: str) -> str:
        return f"ntpl+s3+{self.endpoint}/private/{name}"

    def close(self) -> None:
        self.server.close()


class Bucket(LocalObjects):
    """Objects in a bucket or container of a server that lists them."""

    scheme = ""
    server: object_servers.Azurite | object_servers.FakeGcs

    def url(self, name: str) -> str:
        return f"{self.scheme}://private/{name}"

    def left(self, name: str) -> list[str]:
        keys = self.server.names("private", name)
        return [key for key in keys if key == name or key.startswith(f"{name}/")]

    def close(self) -> None:
        self.server.close()


class Azurite(Bucket):
    """Objects in a container of Azurite."""

    scheme = "ntpl+az"

    def __init__(self, folder: Path, size: str, variables: pytest.MonkeyPatch) -> None:
        self.server = object_servers.Azurite()
        about = self.server.about()
        variables.setenv("AZURE_STORAGE_ENDPOINT", str(about["endpoint"]))
        variables.setenv("AZURE_STORAGE_ACCOUNT_NAME", str(about["access_key_id"]))
        variables.setenv("AZURE_STORAGE_ACCOUNT_KEY", str(about["secret_access_key"]))
        super().__init__(folder, size)


class GoogleInXml(FaultyStore):
    """A way to fake-gcs-server, which takes uploads in JSON's protocol of Google only, while clients use XML's."""

    def ask(self, asked: Asked) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the store, by its own name."""
        given = {name.lower(): value for name, value in asked.headers} | {"host": f"127.0.0.1:{self.port}"}
        if asked.method != "PUT":
            return super().ask(Asked(asked.method, asked.path, list(given.items()), asked.body))
        bucket, key = asked.path[1:].split("/", 1)
        query = {"uploadType": "multipart", "name": urllib.parse.unquote(key)}
        if (generation := given.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = generation
        prefix = "x-goog-meta-"
        metadata = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
        mark = uuid.uuid4().hex
        parts = [("application/json", json.dumps({"metadata": metadata}).encode()), ("text/plain", asked.body)]
        lines = [line for kind, part in parts for line in (f"--{mark}", f"content-type: {kind}", "", part)]
        body = b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in [*lines, f"--{mark}--", ""])
        headers = [("host", given["host"]), ("content-length", str(len(body)))]
        headers.append(("content-type", f"multipart/related; boundary={mark}"))
        place = f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
        status, headers, answer = super().ask(Asked("POST", place, headers, body))
        if status == 200:
            made = json.loads(answer)
            headers += [("etag", made["etag"]), ("x-goog-generation", made["generation"])]
        return status, headers, b""


class Google(Bucket):
    """Objects in a bucket of fake-gcs-server. Each request takes too long for the tests of all stores."""

    scheme = "ntpl+gs"

    def __init__(self, folder: Path, size: str, variables: pytest.MonkeyPatch) -> None:
        self.server = object_servers.FakeGcs()
        self.way = GoogleInXml(self.server.port)
        variables.setenv("GOOGLE_BASE_URL", self.way.endpoint)
        key = {"gcs_base_url": self.way.endpoint, "disable_oauth": True}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        variables.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
        super().__init__(folder, size)

    def close(self) -> None:
        self.way.close()
        super().close()


class Daos(Files):
    """Containers of the stand-in for DAOS, or of the pool ``FEMTOBARN_TEST_DAOS``."""

    def __init__(self, folder: Path, options: dict[str, str], variables: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.options = options
        #: Containers of a real pool remain after the tests.
        self.run = f"-{uuid.uuid4()}" if daos_standin.POOL else ""
        if not daos_standin.POOL:
            for name, value in daos_standin.variables(folder).items():
                variables.setenv(name, value)

    def url(self, name: str) -> str:
        return f"daos://{daos_standin.POOL or 'pool'}/{name}{self.run}"

    def left(self, name: str) -> list[str]:
        if daos_standin.POOL:
            found = json.loads(fb_program("sweep", f"{self.url(name)}:Events", "--dry-run", "--json"))
            return [*found["objects"], *(f"value {at}" for at in range(found["young"] + found["used"]))]
        folder = self.folder / "daos" / "pool" / name
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def fb_program(*args: str) -> str:
    """Run ``fb`` in a process; return what it prints."""
    program = "import sys; from femtobarn._cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: What opens each store, from a directory, a function that skips if a server is missing, and a pytest.MonkeyPatch.
STORES = {
    "files": lambda folder, need, variables: Files(folder),
    "objects-page": lambda folder, need, variables: LocalObjects(folder, "page"),
    "objects-20kB": lambda folder, need, variables: LocalObjects(folder, "20 kB"),
    "daos-page": lambda folder, need, variables: Daos(folder, {"object_size": "page"}, variables),
    "daos-1MiB": lambda folder, need, variables: Daos(folder, {}, variables),
    "azure-20kB": lambda folder, need, variables: (need("azurite-blob"), Azurite(folder, "20 kB", variables))[1],
    "minio-16MB": lambda folder, need, variables: (need("minio"), Minio("16 MB", variables))[1],
    "minio-cluster": lambda folder, need, variables: (need("minio"), Minio("cluster", variables))[1],
}
