"""Compare stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import femtobarn as fb

_NOTE = re.compile(r"ingested/[^/]+/[0-9a-f]{32}")


def everything(dataset: fb.DataSet) -> dict[tuple[int, ...], dict[tuple[str, str], bytes]]:
    """Return the stored bytes of all products of all containers in a dataset, without notes of ingested files."""

    def of(container: Any) -> dict[tuple[str, str], bytes]:
        products = [product for product in container.products() if not _NOTE.fullmatch(product.label)]
        return {(p.label, p.type): container.load(p.label, bytes, typename=p.type) for p in products}

    found: dict[tuple[int, ...], dict[tuple[str, str], bytes]] = {(): of(dataset)}
    for run in dataset.runs():
        found[(run.number,)] = of(run)
        for subrun in run:
            found[run.number, subrun.number] = of(subrun)
            for event in subrun:
                found[run.number, subrun.number, event.number] = of(event)
    return found
