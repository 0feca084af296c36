"""Store files without `ingest`, and compare stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn._transfer.ingest_root import above, chunks, open_events, store_above

if TYPE_CHECKING:
    import femtobarn as fb


def bring(path: Path | str, dataset: fb.DataSet, **options: Any) -> None:
    """Store everything in a file."""
    with dataset.datastore.write_batch() as batch:
        for chunk in chunks(path, **options):
            numbers = {"run": chunk.run, "subrun": chunk.subrun, "event": chunk.event}
            batch.store_arrays(dataset, chunk.products, types=chunk.types, **numbers)
        for some in above(open_events(path, options.get("tree"), None, None)):
            store_above(batch, dataset, some)


def everything(dataset: fb.DataSet) -> dict[tuple[int, ...], dict[tuple[str, str], bytes]]:
    """Return the stored bytes of all products in a dataset, by container; containers without products are left out."""

    def of(container: Any) -> dict[tuple[str, str], bytes]:
        products = container.products()
        return {(p.label, p.type): container.load(p.label, bytes, typename=p.type) for p in products}

    found: dict[tuple[int, ...], dict[tuple[str, str], bytes]] = {(): of(dataset)}
    for run in dataset.runs():
        found[(run.number,)] = of(run)
        for subrun in run:
            found[run.number, subrun.number] = of(subrun)
            for event in subrun:
                found[run.number, subrun.number, event.number] = of(event)
    return found
