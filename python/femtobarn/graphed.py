"""graphed on femtobarn: RNTuples and TTrees as sources of deferred arrays.

It needs graphed 0.0.9 or newer: ``pip install 'femtobarn[graphed]'``.
"""

from __future__ import annotations

from femtobarn._graphed import Source, source

__all__ = ["Source", "source"]
