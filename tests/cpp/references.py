"""The Python half of the test of references between Python and C++: `references.py URL store|follow`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import femtobarn as fb

NUMBER = 2**64 - 2


@dataclass
class Track:
    """A track, as references.cpp has it."""

    pt: float
    n: int


def store(url: str) -> None:
    """Store references that C++ follows."""
    dataset = fb.DataStore.connect(url).root.create_dataset("python")
    event = dataset.create_run(43).create_subrun(56).create_event(NUMBER)
    event.store("tracks", [Track(1.5, 2), Track(2.5, 3)])
    dataset.store("text", "of the dataset")
    one = event.ref("tracks", index=1)
    event.store("one", one)
    event.store("many", [event.ref("tracks"), one, fb.Ptr(), dataset.ref("text")])


def follow(url: str) -> None:
    """Follow references that C++ has stored, its own and those from Python."""
    data = fb.DataStore.connect(url)
    event = data["c++"][43][56][NUMBER]
    assert event.load("one") == event.ref("tracks", index=1)
    assert event.load("one").load(Track) == Track(2.5, 3)
    many = event.load("many", list[fb.Ptr])
    assert many == [event.ref("tracks"), event.load("one"), fb.Ptr(), data["c++"].ref("text")]
    assert data.load_refs(data["c++"].arrays("many"), default=None).tolist() == [
        [[{"pt": 1.5, "n": 2}, {"pt": 2.5, "n": 3}], {"pt": 2.5, "n": 3}, None, "of the dataset"]
    ]
    own = data["python"][43][56][NUMBER]
    assert own.load("again", bytes) == own.load("many", bytes)


if __name__ == "__main__":
    {"store": store, "follow": follow}[sys.argv[2]](sys.argv[1])
    print("ok    Python:", sys.argv[2])
