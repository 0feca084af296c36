"""Files appear completely or not at all: killed processes, full disks, failing writes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import femtobarn as fb

# Arguments: the file, "recreate" or "update". Writes endlessly; prints a line when it begins.
ENDLESS = """
import sys
import numpy as np
import femtobarn as fb

path, way = sys.argv[1:]
rng = np.random.default_rng(1)
while True:
    with getattr(fb, way)(path) as file:
        for name in ("one", "folder/two"):
            ntuple = file.mkrntuple(name, {"x": "var * float64", "n": "int32"}, cluster_size="20 kB", compression=None)
            for _ in range(4):
                n = 1000
                ntuple.extend({"x": rng.random((n, 5)), "n": np.arange(n)})
            print(name, flush=True)
    print("closed", flush=True)
"""


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def old(path):
    fb.write(path, {"n": np.arange(100), "x": [[0.5] * (i % 3) for i in range(100)]}, "folder/Events")
    return path


def assert_old_is_readable(path):
    nt = fb.open({path: "folder/Events"})
    assert nt.verify().ok
    assert nt["n"].array().to_list() == list(range(100))


def killed(path, way, seconds):
    """Run the endless writer, and kill it some seconds after its first ntuple."""
    command = [sys.executable, "-c", ENDLESS, path, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("attempt", range(4))
def test_a_killed_recreate_leaves_the_old_file_or_a_new_one(tmp_path, attempt):
    path = old(tmp_path / "file.root")
    killed(path, "recreate", random.Random(attempt).uniform(0, 0.1))
    if _has(path, "one"):
        assert fb.open({path: "one"}).verify().ok
        assert fb.open({path: "folder/two"}).num_entries == 4000
    else:
        assert_old_is_readable(path)
    # the temporary file is left, as nobody was there to remove it
    assert all(name == "file.root" or name.startswith(".file.root.partial-") for name in files(tmp_path))
    # the next writer of the file removes it
    fb.write(path, {"n": [1]})
    assert files(tmp_path) == ["file.root"]


# Arguments: input, output. Stops in the middle of a conversion, until it is killed
CONVERTING = """
import sys, time
import femtobarn as fb
from femtobarn import _core

given = {"fields": [], "drop": [], "name": None, "group": False, "verify": True}
write = {"compression": 505, "cluster_size": 1 << 20, "page_size": 1 << 20, "memory_limit": None, "threads": 1}

def tick(*where):
    if where[-1] or len(sys.argv) == 3:
        print("here", flush=True)
        time.sleep(100)

_core.convert([(sys.argv[1], None)], sys.argv[2], given, write, tick)
"""


@pytest.mark.parametrize("ending", ["root", "parquet"])
@pytest.mark.parametrize("when", [[], ["verifying"]])
def test_what_a_killed_conversion_left_is_removed_by_the_next(dimuon, tmp_path, ending, when):
    output = tmp_path / f"out.{ending}"

    def is_left():
        return [name for name in files(tmp_path) if name.startswith(f".out.{ending}.partial-")]

    command = [sys.executable, "-c", CONVERTING, dimuon, output, *when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        assert len(is_left()) == 1
        # the process is alive, so its file stays
        fb.convert(dimuon, output)
        assert len(is_left()) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(is_left()) == 1
    fb.convert(dimuon, output)
    assert files(tmp_path) == [f"out.{ending}"]


def _has(path, name):
    try:
        fb.open({path: name})
    except fb.KeyNotFoundError:
        return False
    return True


@pytest.mark.parametrize("attempt", range(6))
def test_a_killed_update_leaves_everything_readable(tmp_path, attempt):
    path = old(tmp_path / "file.root")
    killed(path, "update", random.Random(100 + attempt).uniform(0, 0.2))
    assert_old_is_readable(path)
    for name in ("one", "folder/two"):
        if _has(path, name):
            nt = fb.open({path: name})
            assert nt.verify().ok
            assert nt.num_entries == 4000
    # and the next one adds to it
    with fb.update(path) as file:
        file["after"] = {"n": [1, 2]}
    assert_old_is_readable(path)
    assert fb.open({path: "after"}).num_entries == 2


# Arguments: the file, "recreate" or "update", the maximum size of a file
LIMITED = """
import resource, signal, sys
import numpy as np
import femtobarn as fb

path, way, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with getattr(fb, way)(path) as file:
        ntuple = file.mkrntuple("big", {"x": "float64"}, cluster_size="20 kB", compression=None)
        for _ in range(20):
            ntuple.extend({"x": np.random.default_rng(1).random(2000)})
except fb.FileError as error:
    print(error.kind, "|", error)
"""


@pytest.mark.parametrize("way", ["recreate", "update"])
@pytest.mark.parametrize("limit", [5_000, 30_000, 200_000, 320_500])
def test_a_full_disk_is_an_error_that_leaves_what_was_there(tmp_path, way, limit):
    path = old(tmp_path / "file.root")
    before = path.read_bytes()
    command = [sys.executable, "-c", LIMITED, path, way, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("write-failed |"), done.stdout
    assert str(path) in done.stdout
    assert files(tmp_path) == ["file.root"]
    assert path.read_bytes() == before


def test_a_device_without_room_is_no_file(tmp_path):
    with pytest.raises(fb.FileError) as raised:
        fb.write("/dev/full", {"x": [1]})
    assert raised.value.kind == "not-a-file"


def test_a_folder_that_may_not_be_written_to_is_an_error(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    script = "import sys, femtobarn as fb; fb.write(sys.argv[1], {'x': [1]})"
    command = [sys.executable, "-c", script, folder / "new.root"]
    if os.geteuid() == 0:  # root has all permissions
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        for above in [tmp_path, *tmp_path.parents[:2]]:
            above.chmod(0o755)
        if subprocess.run([*command[:3], sys.executable, "-c", "import femtobarn"], capture_output=True).returncode:
            pytest.skip("another user cannot be taken, or cannot import femtobarn")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "FileError" in done.stderr
    assert "permission denied: cannot create" in done.stderr
    assert f"directory {folder}" in done.stderr
    assert files(folder) == []


def test_an_error_in_the_block_leaves_nothing_of_a_new_file_and_an_old_one_as_it_was(tmp_path):
    path = old(tmp_path / "file.root")
    before = path.read_bytes()

    def write(way):
        with way(path) as file:
            ntuple = file.mkrntuple("more", {"x": "float64"}, cluster_size=100)
            ntuple.extend({"x": np.zeros(1000)})
            raise ZeroDivisionError

    for way in (fb.recreate, fb.update):
        with pytest.raises(ZeroDivisionError):
            write(way)
        assert files(tmp_path) == ["file.root"]
        assert path.read_bytes() == before


def test_a_writer_that_is_forgotten_leaves_nothing(tmp_path):
    file = fb.recreate(tmp_path / "new.root")
    file.mkrntuple("more", {"x": "float64"}).extend({"x": [1.0]})
    with pytest.warns(UserWarning, match=r"new\.root was never closed"):
        del file
    assert files(tmp_path) == []


def test_two_updates_at_the_same_time_are_refused(tmp_path):
    path = old(tmp_path / "file.root")
    with fb.update(path) as file:
        with pytest.raises(fb.FileError) as raised:
            fb.update(path)
        assert raised.value.kind == "file-busy"
        file["more"] = {"x": [1.0]}
    with fb.update(path) as file:
        assert sorted(file.keys()) == ["folder", "more"]


def test_a_file_system_that_is_full_is_an_error(tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere.root"
    fb.write(elsewhere, {"x": np.random.default_rng(1).random(100_000)})
    script = f"""
mount -t tmpfs -o size=256k none {tmp_path} || exit 77
{sys.executable} -c "
import numpy as np, femtobarn as fb, os, sys
fb.write('{tmp_path}/small.root', {{'x': [1.0]}})
for way in (fb.recreate, fb.update):
    try:
        with way('{tmp_path}/small.root') as file:
            ntuple = file.mkrntuple('big', {{'x': 'float64'}}, compression=None)
            ntuple.extend({{'x': np.random.default_rng(1).random(100_000)}})
        sys.exit('no error')
    except fb.FileError as error:
        assert error.kind == 'write-failed', error
    assert os.listdir('{tmp_path}') == ['small.root']
    assert fb.open('{tmp_path}/small.root')['x'].array().to_list() == [1.0]
for suffix in ('root', 'parquet', 'arrow'):
    try:
        fb.convert('{elsewhere}', '{tmp_path}/big.' + suffix)
        sys.exit('no error')
    except fb.FileError as error:
        assert error.kind == 'write-failed', error
    assert os.listdir('{tmp_path}') == ['small.root']
"
"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr


def test_permissions_of_a_file_that_is_replaced_are_kept(tmp_path):
    path = old(tmp_path / "file.root")
    path.chmod(0o604)
    fb.write(path, {"x": [1]})
    assert Path(path).stat().st_mode & 0o777 == 0o604
    link = tmp_path / "link.root"
    link.symlink_to(path)
    fb.write(link, {"x": [2]})
    assert link.is_symlink()
    assert fb.open(path)["x"].array().to_list() == [2]


def test_a_forked_child_does_not_remove_what_its_parent_writes(tmp_path):
    path = tmp_path / "forked.root"
    script = """
import os, sys
import femtobarn as fb

def main():
    file = fb.recreate(sys.argv[1], threads=1)
    ntuple = file.mkrntuple("Events", {"x": "int64"})
    ntuple.extend({"x": [1, 2]})
    child = os.fork()
    if child == 0:
        return
    os.waitpid(child, 0)
    ntuple.extend({"x": [3]})
    file.close()

main()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, path], check=True, capture_output=True)
    assert fb.open(path)["x"].array().to_list() == [1, 2, 3]


def test_what_is_added_to_is_not_replaced(tmp_path):
    path = tmp_path / "updated.root"
    fb.write(path, {"x": [1]})
    file = fb.update(path)
    file["more"] = {"y": [1, 2]}
    with pytest.raises(OSError, match="being written to by another writer"):
        fb.write(path, {"z": [5]}, "New")
    file.close()
    assert fb.open(f"{path}:more")["y"].array().to_list() == [1, 2]
    file = fb.update(path)
    file["again"] = {"y": [3]}
    path.rename(tmp_path / "moved.root")
    fb.write(path, {"z": [5]}, "New")
    with pytest.raises(OSError, match="was replaced by another file during an append"):
        file.close()
    assert fb.open(path).keys() == ["z"]
