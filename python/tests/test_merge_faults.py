"""Merges that are killed, and file systems that stop sharing blocks."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from compare import same
from test_merge import mounted  # noqa: F401 (a fixture)

import femtobarn as fb

MERGING = """
import sys
import json
import femtobarn as fb
inputs, output, level = sys.argv[1].split(","), sys.argv[2], sys.argv[3]
print("begins", flush=True)
threads = int(sys.argv[4])
report = fb.merge(inputs, output, level=level, threads=threads)
print(json.dumps({"levels": report.levels, "inputs": report.inputs}))
"""


def columns(n):
    return {f"x{i}": np.random.default_rng(i).normal(size=n) for i in range(4)}


@pytest.mark.parametrize("mounted", ["xfs", "ext4"], indirect=True)
@pytest.mark.parametrize("level", ["auto", "L1", "L4"])
def test_a_killed_merge_leaves_no_output_and_its_inputs_as_they_were(mounted, level):  # noqa: F811
    folder, _ = mounted
    values = columns(300_000)
    path, output = folder / "a.root", folder / "out.root"
    fb.write(path, values, name="Events", compression="zstd:1")
    before = hashlib.sha256(path.read_bytes()).digest()
    chance = random.Random(3)
    n_whole = 0
    for _ in range(6):
        command = [sys.executable, "-c", MERGING, f"{path},{path}", output, level, "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            process.wait()
        if output.exists():
            n_whole += 1
            merged = fb.open(output)
            assert merged.verify().ok
            assert merged.num_entries == 600_000
            output.unlink()
        assert hashlib.sha256(path.read_bytes()).digest() == before
    # the next one succeeds, and removes leftovers of the killed ones
    fb.merge([path, path], output)
    assert same(fb.open(output)["x1"].array(), np.concatenate([values["x1"]] * 2))
    names = {entry.name for entry in folder.iterdir()} - {"lost+found"}
    assert names == {"a.root", "out.root"}, n_whole


@pytest.mark.parametrize("mounted", ["xfs", "btrfs"], indirect=True)
@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_file_system_that_stops_sharing_is_told_of_and_the_rest_is_copied(mounted, need_program, first):  # noqa: F811
    folder, can_share = mounted
    assert can_share
    need_program("strace")
    values = columns(100_000)
    inputs = []
    for number in range(3):
        inputs.append(folder / f"{number}.root")
        fb.write(inputs[-1], values, name="Events", compression="zstd:1")
    output = folder / "out.root"
    # FICLONERANGE is an ioctl: those of each thread fail from this one on
    fault = f"inject=ioctl:error=EOPNOTSUPP:when={first}+"
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ioctl", "-e", fault]
    command += [sys.executable, "-c", MERGING, ",".join(map(str, inputs)), output, "auto", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr.lower() and done.returncode:
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    levels = report["levels"]
    assert levels["refused"] > 0
    assert levels["L1"] >= levels["refused"]
    merged = fb.open(output)
    assert merged.verify().ok
    assert same(merged["x2"].array(), np.concatenate([values["x2"]] * 3))
    whys = [why for given in report["inputs"] for why in given["ntuples"]["Events"]["why"]]
    assert ["L1", "the file system does not share its blocks with the output"] in whys


def damaged(folder, n=1000):
    """Return a file of three columns with a changed byte in a page of the first."""
    path = folder / "damaged.root"
    columns = {name: np.arange(n, dtype=np.int32) + at * n for at, name in enumerate("xyz")}
    fb.write(path, columns, name="Events", compression="none", page_size=n, cluster_size=4 * n)
    data = bytearray(path.read_bytes())
    place = data.index(np.array([n // 2], np.int32).tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    return path


EVERY_LEVEL = [{}, {"level": "L1"}, {"compression": "lz4"}, {"level": "L3"}, {"level": "L4"}]


@pytest.mark.parametrize("options", EVERY_LEVEL, ids=str)
@pytest.mark.parametrize("n", [1000, 300_000], ids=["small regions", "large regions"])
def test_pages_that_are_damaged_are_not_brought(tmp_path, options, n):
    """Copied pages were not verified: the output had the damage, and the merge succeeded."""
    path, output = damaged(tmp_path, n), tmp_path / "out.root"
    with pytest.raises(fb.ChecksumError, match=r"damaged\.root at offset \d+ \(column 0 of field \"x\", cluster \d\)"):
        fb.merge(path, output, **options)
    assert not output.exists()


def test_damage_of_what_is_not_taken_does_not_matter(tmp_path):
    path, output = damaged(tmp_path), tmp_path / "out.root"
    assert fb.clone(path, output, fields=["y", "z"], verify=True).entries == {"Events": 1000}
    assert fb.clone(path, output, entries=range(100), overwrite=True, verify=True).entries == {"Events": 100}
    with pytest.raises(fb.ChecksumError):
        fb.skim(path, tmp_path / "skimmed.root", where="y >= 0")
    good = tmp_path / "good.root"
    fb.clone(path, good, entries=range(100))
    before = good.read_bytes()
    with pytest.raises(fb.ChecksumError):
        fb.merge(path, good, append=True)
    assert good.read_bytes() == before


@pytest.mark.parametrize("mounted", ["xfs"], indirect=True)
def test_a_file_that_cannot_be_shared_does_not_stop_the_others(mounted, tmp_path):  # noqa: F811
    """All files behind one of another file system were copied, and the report did not say why."""
    folder, _ = mounted
    for path in (tmp_path / "far.root", folder / "near.root"):
        fb.write(path, {"x": np.arange(100_000)}, name="t", compression="none")
    why = [["L1", "the file system does not share its blocks with the output"]]
    far, near = tmp_path / "far.root", folder / "near.root"
    for inputs in ([far, near, near], [near, far, near], [far, far, near]):
        report = fb.merge(inputs, folder / "out.root", overwrite=True)
        for path, found in zip(inputs, report.inputs, strict=True):
            levels, reasons = found["ntuples"]["t"]["levels"], found["ntuples"]["t"]["why"]
            if path == near:
                assert (levels["L0"] > 0, levels["refused"], reasons) == (True, 0, [])
            else:
                assert (levels["L0"], levels["refused"] > 0, reasons) == (0, True, why)
