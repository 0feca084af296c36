"""The subcommands of `fb` that read HDF5 files. Their arguments are declared in `crates/cli`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._shared.repr import format_table
from femtobarn._store.datastore import DataStore
from femtobarn._transfer.hdf5_cpp import hdf5_schema
from femtobarn._transfer.ingest import ingest, look
from femtobarn.errors import FemtobarnError, UsageError

if TYPE_CHECKING:
    from femtobarn._store.dataset import DataSet

__all__ = ["run"]


def run(verb: str, arguments: str) -> str:
    """Run a subcommand.

    Parameters
    ----------
    verb : str
        The name of the subcommand.
    arguments : str
        The arguments, in JSON.

    Returns
    -------
    str
        The result, in JSON: a ``text`` for people and a ``document`` for programs, or an ``error``.
    """
    given = json.loads(arguments)
    with warnings.catch_warnings(), _interruptible():
        warnings.showwarning = _tell
        try:
            text, document = _VERBS[verb](given)
        except KeyboardInterrupt as interrupt:
            message = "; ".join(["interrupted", *getattr(interrupt, "__notes__", ())])
            return _failure("interrupted", message, None)
        except FemtobarnError as error:
            return _failure(error.kind, _as_options(str(error)), _NEXT.get(error.kind))
    return json.dumps({"text": text, "document": document, "code": 0}, default=str)


def _failure(kind: str, message: str, advice: str | None) -> str:
    return json.dumps({"error": {"kind": kind, "message": message, "next": advice, "code": _core.exit_code(kind)}})


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C, for an orderly end; end the program at once at the second."""
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.set_wakeup_fd(tell)

    def end_at_the_second() -> None:
        # the main thread may wait for a server that does not answer, and would not see the signal
        with open(heard, "rb", buffering=0) as signals:  # noqa: PTH123
            if not signals.read(1):
                return
            if not select.select([signals], [], [], 1)[0]:
                print("fb: finishing the current step; Ctrl-C again stops at once", file=sys.stderr)  # noqa: T201
            if signals.read(1):
                os._exit(_core.exit_code("interrupted"))

    threading.Thread(target=end_at_the_second, daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.set_wakeup_fd(before[1])
        os.close(tell)


def _tell(message: Warning | str, *_: object, **__: object) -> None:
    print(f"fb: {_as_options(str(message))}", file=sys.stderr)  # noqa: T201


_ARGUMENTS = re.compile(
    r"(?<![\w/.=-])(run|subrun|event|tree|collections|groups|fields|drop|namespace|on_conflict)"
    r"""=(?=(['"\w(\[]?))"""
)


_LIST = re.compile(r"""(--[\w-]+) \[(['"])(.*?\2)\]""")


def _as_options(message: str) -> str:
    """Return a message with options of the command line instead of arguments of Python."""
    message = message.replace("again=True", "--again")
    message = _ARGUMENTS.sub(lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}", message)
    return _LIST.sub(lambda found: f"{found[1]} {found[2]}{found[3].replace(f'{found[2]}, {found[2]}', ',')}", message)


_NEXT = {"conflict": "--on-conflict keep keeps existing values, --on-conflict replace replaces them"}


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without empty lists."""
    return {name: value for name, value in given.items() if value != []}


def _ingest(given: dict[str, Any]) -> tuple[str, Any]:
    url = given.pop("into")
    look(**_chosen({name: value for name, value in given.items() if name != "dataset"}))
    store = DataStore.connect(url)
    if not store._core.is_kept:
        raise UsageError(f"{store.url}: a store in memory ends with this program; use a persistent one, as dir:PATH")
    files, path = given.pop("files"), given.pop("dataset")
    parts = path.strip("/").split("/")
    made = [whole for n in range(len(parts), 0, -1) if (whole := "/".join(parts[:n])) not in store.root]
    dataset = store.root.create_dataset(path)
    try:
        report = ingest(files, dataset, **_chosen(given))
    except BaseException:
        for whole in made:
            _remove_if_empty(store[whole])
        raise
    return str(report), report.to_dict()


def _remove_if_empty(dataset: DataSet) -> None:
    """Remove a dataset if it is empty, as after files that could not be read."""
    if not (any(True for _ in dataset.runs()) or any(True for _ in dataset.datasets()) or dataset.products()):
        dataset.delete()


def _hdf5_schema(given: dict[str, Any]) -> tuple[str, Any]:
    files = given.pop("files")
    schema = hdf5_schema(files, **_chosen(given))
    rows = [(group, one["type"], str(len(one["members"]))) for group, one in schema.items()]
    lines = [format_table(("product", "type", "members"), rows)] if rows else ["found no groups with rows"]
    if given["cpp"] is not None:
        lines.append(f"wrote their classes to {given['cpp']}")
    return "\n".join(lines), schema


_VERBS: dict[str, Callable[[dict[str, Any]], tuple[str, Any]]] = {
    "ingest": _ingest,
    "hdf5-schema": _hdf5_schema,
}
