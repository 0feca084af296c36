"""Record traces of reading `dimuon.root` from an XRootD server by others' clients, with XRootD's recorder.

    .venv/bin/python testdata/make_traces.py

The recorder is the plug-in that PyPI's `xrootd` and Debian's `xrootd-client-plugins` bring. ROOT is that of PyPI. The
port of the server becomes 1094.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))

import servers  # noqa: E402

UPROOT = """
import uproot
uproot.open("{url}/dimuon.root:Events").arrays(["nMuon"])
"""

ROOT = """
import ROOT
ROOT.gEnv.SetValue("Path.ForceRemote", 1)
ROOT.RDataFrame("Events", "{url}/dimuon.root").Sum("Muon_pt").GetValue()
"""

CLIENT = """
from XRootD.client import File
from XRootD.client.flags import OpenFlags
read = File()
read.open("{url}/dimuon.root?authz=secret")
read.stat()
read.read(0, 100)
read.vector_read([(0, 10), (100, 20)])
read.close()
written = File()
written.open("{url}/new", OpenFlags.NEW | OpenFlags.UPDATE)
written.write(b"hello", 0)
written.sync()
written.truncate(3)
written.close()
File().open("{url}/missing")
"""


def of_pypi() -> Path:
    """Return the recorder of PyPI's package."""
    spec = importlib.util.find_spec("pyxrootd")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install xrootd")
    return next(Path(spec.origin).parent.glob("libXrdClRecorder-*.so"))


def of_debian() -> Path:
    """Return the recorder of Debian's package."""
    return next(Path("/usr/lib").glob("*/libXrdClRecorder-*.so"))


def main() -> None:
    """Record each program."""
    server = servers.Xrootd()
    server.put("dimuon.root", (HERE / "dimuon.root").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        copy = ["xrdcp", "{url}/dimuon.root", f"{folder}/copy.root"]
        programs = {
            "uproot": ([sys.executable, "-c", UPROOT], of_pypi()),
            "client": ([sys.executable, "-c", CLIENT], of_pypi()),
            "root": ([sys.executable, "-c", ROOT], of_debian()),
            "xrdcp": (copy, of_debian()),
        }
        for name, (command, recorder) in programs.items():
            trace = HERE / "traces" / f"{name}.csv"
            trace.parent.mkdir(exist_ok=True)
            environment = {**os.environ, "XRD_PLUGIN": str(recorder), "XRD_RECORDERPATH": str(trace)}
            # the recorder of XRootD 5.5 crashes in ROOT's client of 5.9 once all is recorded
            command = [word.format(url=server.url) for word in command]
            subprocess.run(command, env=environment, check=name != "root", stderr=subprocess.DEVNULL)
            text = trace.read_text().replace(f":{server.port}", ":1094").replace(folder, "/tmp")
            trace.write_text(text)
    server.close()


if __name__ == "__main__":
    main()
