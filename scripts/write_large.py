"""Write a file larger than 4 GB, add to it, and read it with ROOT: `write_large.py DIRECTORY`.

It needs 5 GB of disk and a few minutes. FEMTOBARN_ROOT_PYTHON is the interpreter that has ROOT, if it is not the
current one. Beyond 2 GB, five kinds of positions in a ROOT file have 64 bits; adding to such a file must convert the
ones with 32 bits.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import femtobarn as fb

N_BATCHES, N = 72, 8_000_000  # 4.6 GB

# Arguments: the file
CHECK = """
import os, sys
import ROOT
path = sys.argv[1]
file = ROOT.TFile.Open(path)
assert file.GetEND() > 4_600_000_000 and not file.TestBit(ROOT.TFile.kRecovered)
assert sorted(str(key.GetName()) for key in file.GetListOfKeys()) == ["early", "folder", "large", "late"]
for name, n in [("early", 3), ("large", 72 * 8_000_000), ("late", 2), ("folder/inner", 3), ("folder/late", 2)]:
    reader = ROOT.RNTupleReader.Open(name, path)
    assert reader.GetNEntries() == n, name
    view = reader.GetView["double"]("x")
    assert view(0) == 0 and view(n - 1) == (n - 1) % 8_000_000, name
    del view  # a view must not outlive its reader
sys.stdout.flush()
os._exit(0)
"""


def main() -> None:
    """Write, add, and read with femtobarn and ROOT."""
    path = Path(sys.argv[1]) / "large.root"
    with fb.recreate(path, compression=None) as file:
        file["early"] = {"x": np.arange(3.0)}
        file["folder/inner"] = {"x": np.arange(3.0)}
    with fb.update(path) as file:
        large = file.mkrntuple("large", {"x": "double"}, same_page_merging=False)
        batch = {"x": np.arange(float(N))}
        for _ in range(N_BATCHES):
            large.extend(batch)
    with fb.update(path) as file:
        file["late"] = {"x": np.arange(2.0)}
        file["folder/late"] = {"x": np.arange(2.0)}
    for name in ("early", "folder/inner", "late", "folder/late"):
        assert fb.open({path: name}).verify().ok, name
    last = fb.open({path: "large"})["x"].array(entry_start=N_BATCHES * N - 5)
    assert last.to_list() == [float(i) for i in range(N - 5, N)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    python = os.environ.get("FEMTOBARN_ROOT_PYTHON", sys.executable)
    subprocess.run([python, "-W", "ignore", "-c", CHECK, path], env=environment, check=True)
    print(f"{path}: {path.stat().st_size} bytes, read by femtobarn and ROOT")
    path.unlink()


if __name__ == "__main__":
    main()
