"""The columns to write: 20 numbers and 40 lists per entry, from the NanoAOD, in memory and in a file for ROOT."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

# Half of the flat columns are trigger decisions; in a NanoAOD, two thirds are.
FLAT = (
    *("run", "luminosityBlock", "event", "MET_pt", "MET_phi", "MET_sumEt", "PV_x", "PV_y", "PV_z", "PV_npvs"),
    *("HLT_IsoMu24", "HLT_IsoMu27", "HLT_Mu50", "HLT_Ele27_WPTight_Gsf", "HLT_Ele32_WPTight_Gsf"),
    *("HLT_PFHT1050", "HLT_PFJet500", "HLT_PFMET120_PFMHT120_IDTight", "HLT_Photon200", "HLT_DoubleEle25_CaloIdL_MW"),
)
LISTS = {
    "Muon": (
        *("pt", "eta", "phi", "mass", "dxy", "dz", "sip3d", "pfRelIso04_all", "charge", "pdgId", "nStations"),
        *("tightId", "mediumId", "pfIsoId"),
    ),
    "Electron": (
        *("pt", "eta", "phi", "mass", "dxy", "dz", "sip3d", "pfRelIso03_all", "charge", "cutBased", "jetIdx"),
        *("convVeto", "lostHits"),
    ),
    "Jet": (
        *("pt", "eta", "phi", "mass", "area", "btagDeepFlavB", "chHEF", "neHEF", "rawFactor", "jetId", "puId"),
        *("nConstituents", "cleanmask"),
    ),
}
N_COLUMNS = len(FLAT) + sum(map(len, LISTS.values()))

Column = tuple[Any, Any]  # offsets, or None, and values


def chosen(names: list[str]) -> list[str]:
    """Return the names of all columns; missing triggers are replaced by others."""
    more = (name for name in names if name.startswith("HLT_") and name not in FLAT)
    flat = [name if name in names else next(more) for name in FLAT]
    return flat + [f"{group}_{member}" for group, members in LISTS.items() for member in members]


def load(tree: Path, name: str = "Events") -> dict[str, Column]:
    """Read the columns from the tree with uproot; later from a cache file beside it."""
    kept = tree.with_name("columns.npz")
    if not kept.exists() or kept.stat().st_mtime < tree.stat().st_mtime:
        import awkward as ak
        import uproot

        opened = uproot.open(f"{tree}:{name}")
        events = opened.arrays(chosen(opened.keys()))
        arrays: dict[str, Any] = {}
        for field in events.fields:
            layout = ak.to_packed(events[field]).layout
            if layout.is_list:
                arrays[f"{field} offsets"] = np.asarray(layout.offsets, dtype=np.int64)
                layout = layout.content
            arrays[f"{field} values"] = layout.data
        np.savez(kept, **arrays)
    with np.load(kept) as arrays:
        fields = [key.removesuffix(" values") for key in arrays if key.endswith(" values")]
        return {field: (arrays.get(f"{field} offsets"), arrays[f"{field} values"]) for field in fields}


def to_awkward(columns: dict[str, Column]) -> Any:
    import awkward as ak

    def content(offsets: Any, values: Any) -> Any:
        flat = ak.contents.NumpyArray(values)
        return flat if offsets is None else ak.contents.ListOffsetArray(ak.index.Index64(offsets), flat)

    return ak.Array(ak.contents.RecordArray([content(*column) for column in columns.values()], list(columns)))


def to_arrow(columns: dict[str, Column]) -> Any:
    import pyarrow as pa

    def array(offsets: Any, values: Any) -> Any:
        flat = pa.array(values)
        if offsets is None:
            return flat
        item = pa.field("item", flat.type, nullable=False)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat, type=pa.list_(item))

    arrays = [array(*column) for column in columns.values()]
    fields = [pa.field(name, array.type, nullable=False) for name, array in zip(columns, arrays, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def to_file(columns: dict[str, Column], path: Path) -> None:
    """Write the file that root_write.cxx loads."""
    offsets, values = columns["event"]
    parts = [struct.pack("<QQ", len(values), len(columns))]
    for name, (offsets, values) in columns.items():
        parts += [struct.pack("<Q", len(name)), name.encode()]
        parts.append(struct.pack("<QQ", ord(values.dtype.char), offsets is not None))
        if offsets is not None:
            parts.append(offsets.astype("<u8").tobytes())
        parts += [struct.pack("<Q", values.nbytes), values.tobytes()]
    path.write_bytes(b"".join(parts))
