"""coffea on femtobarn: the events, schemas and executors of coffea, with files that femtobarn reads.

It needs coffea 2026.9 or newer: ``pip install 'femtobarn[coffea]'``.
"""

from __future__ import annotations

from femtobarn._shared.optional import optional

optional("coffea.processor", "coffea")

from femtobarn._coffea.factory import NanoEventsFactory, from_root  # noqa: E402
from femtobarn._coffea.file_cache import FileCache  # noqa: E402
from femtobarn._coffea.preprocess import Preprocessed, preprocess  # noqa: E402
from femtobarn._coffea.runner import Runner  # noqa: E402

__all__ = ["FileCache", "NanoEventsFactory", "Preprocessed", "Runner", "from_root", "preprocess"]
