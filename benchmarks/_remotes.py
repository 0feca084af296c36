"""Competitors that read files from servers. In every run, the process connects to its server for the first time.

Before, each reads the same file through another port, so that all code is loaded.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _worker import AGC, COLUMNS, Parts, flat_sum


class Remote:
    """Reads the columns of several files on a server into arrays."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.urls, self.options = spec["urls"], spec.get("options", {})
        self.columns = COLUMNS[spec.get("columns", "agc")]

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        raise NotImplementedError

    def prepare(self) -> None:
        self.read(**self.spec["warm_up"])

    def run(self) -> Parts:
        start = time.perf_counter()
        self.read(self.urls, self.options)
        return {"read": time.perf_counter() - start}

    def sums(self, read: Any) -> list[float]:
        return [flat_sum(read[name]) for name in AGC]

    def check(self) -> dict[str, Any]:
        return {"sums": self.sums(self.read(self.urls, self.options))}


class FemtobarnRemote(Remote):
    def versions(self) -> dict[str, str]:
        import femtobarn

        return {"femtobarn": femtobarn.__version__}

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        import femtobarn as fb

        files = [f"{url}:{self.spec['ntuple']}" for url in urls]
        return fb.concatenate(files, self.columns, **options)

    def check(self) -> dict[str, Any]:
        import femtobarn as fb

        files = [f"{url}:{self.spec['ntuple']}" for url in self.urls]
        nt = fb.open(files, **self.options)
        array = nt.arrays(self.columns)
        plan = nt.explain(self.columns)
        reads = [
            [file, start, stop]
            for file, source in enumerate(nt.metrics.sources)
            for span in source.spans
            for start, stop in span.ranges
        ]
        return {"sums": self.sums(array), "needed": plan.bytes_needed, "plan": plan.requests, "reads": reads}


class UprootRemote(Remote):
    def versions(self) -> dict[str, str]:
        import uproot

        return {"uproot": uproot.__version__}

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        import uproot

        files = [f"{url}:{self.spec['ntuple']}" for url in urls]
        return uproot.concatenate(files, self.columns, **options)


class RdfRemote(Remote):
    """RDataFrame; its functions are compiled by ACLiC with -O3."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import _worker

        super().__init__(spec)
        self.root = _worker.Root({**spec, "path": "", "task": "AgcSumsOfFiles"})
        import ROOT

        ROOT.gEnv.SetValue("Path.ForceRemote", 1)  # otherwise it opens files on local servers from disk

    def versions(self) -> dict[str, str]:
        return self.root.versions()

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        import ROOT

        files = ROOT.std.vector["std::string"](urls)
        return list(self.root.function(files, self.spec["ntuple"], self.spec["threads"]))

    def sums(self, read: Any) -> list[float]:
        return [float(value) for value in read]


class Curl(Remote):
    """curl, which downloads given ranges and discards them: concurrent requests, each for one range."""

    def versions(self) -> dict[str, str]:
        said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
        return {"curl": said.split()[1]}

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        lines = []
        for file, first, length in self.spec["reads"]:
            lines += [f'url = "{urls[file]}"', f"range = {first}-{first + length - 1}", 'output = "/dev/null"', "next"]
        with tempfile.NamedTemporaryFile("w", suffix=".curl") as config:
            config.write("\n".join(lines[:-1]) + "\n")
            config.flush()
            command = ["curl", "--silent", "--fail", "--no-progress-meter", "--parallel", "--parallel-immediate"]
            command += ["--parallel-max", str(self.spec["at_once"]), "--config", config.name]
            subprocess.run(command, check=True)

    def prepare(self) -> None:
        pass  # each run is a separate process

    def check(self) -> dict[str, Any]:
        self.read(self.urls, self.options)
        return {}


class Copier(Remote):
    """A program that copies whole files to a directory, all in one process."""

    n_bytes = 0

    def versions(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        pass  # each run is a separate process

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        with tempfile.TemporaryDirectory(dir=self.spec["folder"]) as folder:
            command = [*self.spec["command"], *urls, f"{folder}/"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.n_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())

    def told(self) -> dict[str, Any]:
        return {"bytes": self.n_bytes}


class Cached(FemtobarnRemote):
    """Reads through a cache directory, which is brought into a state before: see `cache.py`."""

    def prepare(self) -> None:
        self.read(**self.spec["warm_up"])  # without the cache
        state, folder = self.spec["state"], Path(self.spec["cache"])
        if state == "cold":
            shutil.rmtree(folder, ignore_errors=True)
        elif state == "half":
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.spec["half"], folder)
        if state != "none":
            given = self.options.get("storage_options", {})
            self.options = {**self.options, "storage_options": {**given, "cache": f"{folder}:4GiB"}}
        if state == "same":
            self.read(self.urls, self.options)

    def fill(self, n_columns: int) -> None:
        """Fill the cache with some of the columns."""
        self.columns = self.columns[:n_columns]
        self.prepare()
        self.read(self.urls, self.options)


class CachedByEight(Remote):
    """Eight processes that do the same at once; the time is that of the slowest."""

    def prepare(self) -> None:
        if self.spec["state"] == "cold":
            shutil.rmtree(self.spec["cache"], ignore_errors=True)

    def versions(self) -> dict[str, str]:
        return {}

    def run(self) -> Parts:
        one = json.dumps({**self.spec, "competitor": self.spec["each"], "state": "other"})
        command = [sys.executable, str(Path(__file__).with_name("_worker.py")), one]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        children = [subprocess.Popen(command, **pipes) for _ in range(8)]  # type: ignore[call-overload]
        for child in children:
            child.stdout.readline()  # it is up
        for child in children:
            child.stdin.write("run\n")
            child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for child in children]
        for child in children:
            child.communicate()
        return {"read": max(sum(answer["parts"].values()) for answer in answers)}


class UprootCached(UprootRemote):
    """uproot with one of fsspec's caches."""

    def prepare(self) -> None:
        if self.spec["state"] == "cold":
            shutil.rmtree(self.spec["cache"], ignore_errors=True)

    def read(self, urls: list[str], options: dict[str, Any]) -> Any:
        kind, scheme = self.spec["kind"], urls[0].split("://", 1)[0]
        inner = {scheme: options} if options else {}
        place = {kind: {"cache_storage": self.spec["cache"]}}
        import awkward as ak
        import uproot

        arrays = []
        # uproot.concatenate passes the options of the cache on to aiohttp
        for url in urls:
            with uproot.open({f"{kind}::{url}": self.spec["ntuple"]}, **place, **inner) as ntuple:
                arrays.append(ntuple.arrays(self.columns))
        return ak.concatenate(arrays)
