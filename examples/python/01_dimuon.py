"""The dimuon mass spectrum: from columns in a ROOT file to a plot.

01_dimuon.py [FILE] [--output PICTURE]
"""

import argparse
import time
from pathlib import Path

import awkward as ak
import matplotlib.pyplot as plt
import numpy as np

import femtobarn as fb

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
MUON = ["Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"]
# Masses in GeV of resonances that decay to two muons.
RESONANCES = {"ω/ρ": 0.78, "φ": 1.02, "J/ψ": 3.10, "ψ′": 3.69, "Υ": 9.46, "Z": 91.19}  # noqa: RUF001


def pair_masses(events: ak.Array) -> np.ndarray:
    """Return the invariant masses in GeV of all pairs of muons with opposite charge, as a flat array."""
    muons = ak.zip({name.removeprefix("Muon_"): events[name] for name in MUON})
    first, second = ak.unzip(ak.combinations(muons, 2))
    opposite = first.charge != second.charge
    # in float64: at small angles the mass is the small difference of two large numbers
    first, second = (
        {f: ak.to_numpy(ak.flatten(muon[opposite][f])).astype(float) for f in muon.fields} for muon in (first, second)
    )
    e, px, py, pz = np.add(four_momentum(first), four_momentum(second))
    return np.sqrt(np.maximum(e**2 - px**2 - py**2 - pz**2, 0))


def four_momentum(muon: dict[str, np.ndarray]) -> np.ndarray:
    """Return energy and momentum in GeV; the first axis is the component."""
    px, py = muon["pt"] * np.cos(muon["phi"]), muon["pt"] * np.sin(muon["phi"])
    pz = muon["pt"] * np.sinh(muon["eta"])
    return np.array([np.sqrt(px**2 + py**2 + pz**2 + muon["mass"] ** 2), px, py, pz])


def plot(masses: np.ndarray, title: str, picture: Path) -> None:
    """Plot the spectrum with logarithmic axes, which show all resonances."""
    # choose the number of bins from the number of pairs: otherwise noise hides the peaks
    edges = np.geomspace(0.25, 200, int(np.clip(2 * np.sqrt(len(masses)), 30, 300)) + 1)
    counts, _ = np.histogram(masses, edges)
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    axes.stairs(counts, edges, color="#1f4e79", fill=True, alpha=0.25)
    axes.stairs(counts, edges, color="#1f4e79", linewidth=1.2)
    axes.set(xscale="log", yscale="log", xlim=(edges[0], edges[-1]), ylim=(0.5, max(10, 4 * counts.max())))
    axes.set(xlabel="dimuon mass [GeV]", ylabel="pairs in a bin", title=title)
    ticks = [0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    axes.set_xticks(ticks, labels=map(str, ticks))
    for name, mass in RESONANCES.items():
        axes.axvline(mass, color="#b3541e", linewidth=0.8, linestyle=":")
        # in this transform, y goes from 0 at the bottom to 1 at the top
        place = axes.get_xaxis_transform()
        axes.text(mass, 0.95, name, transform=place, color="#b3541e", ha="center", backgroundcolor="white")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


def main() -> None:
    """Read, compute, print, plot."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path, default=TESTDATA / "dimuon.root")
    parser.add_argument("--output", type=Path, default=Path("demo-output/dimuon.png"))
    options = parser.parse_args()

    nt = fb.open({options.file: "Events"})
    start = time.perf_counter()
    events = nt.arrays(MUON)  # reads only these columns
    milliseconds = 1000 * (time.perf_counter() - start)
    masses = pair_masses(events)

    print(f"{nt.num_entries} events, {len(nt.keys())} columns, of which {len(MUON)} were read in {milliseconds:.1f} ms")
    print(f"{ak.sum(ak.num(events.Muon_pt))} muons, {len(masses)} pairs of opposite charge")
    for name, mass in RESONANCES.items():
        n_near = np.count_nonzero(np.abs(masses / mass - 1) < 0.05)
        print(f"  {name:4} {mass:6.2f} GeV   {n_near:6} pairs within 5 %")
    plot(masses, f"{options.file.name}: {nt.num_entries} events", options.output)
    print(f"saved {options.output}")


if __name__ == "__main__":
    main()
