"""The ttbar analysis of the Analysis Grand Challenge, written in four ways that fill the same histograms.

    python examples/agc/ttbar.py [--with awkward|flat|coffea|rdataframe] [--executor threads|processes|dask]
                                 [--output histograms.root] [FILE ...]

The files are NanoAOD of CMS open data of 2015, as RNTuple or TTree, one for each sample in the order of `samples.py`.
Without files, small ones are generated. The output has 124 histograms with the names of the challenge, which cabinetry
reads.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from contextlib import ExitStack

from generate import generate
from samples import SAMPLES, fileset_of, named, write

VARIANTS = ["awkward", "flat", "coffea", "rdataframe"]
SHOWN = {"pseudodata", *(sample.process for sample in SAMPLES)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file for each sample")
    parser.add_argument(
        "--with", dest="variant", default="awkward", choices=["awkward", "flat", "coffea", "rdataframe"]
    )
    parser.add_argument("--executor", default="threads", choices=["threads", "processes", "dask"])
    parser.add_argument("--btag", default="btagCSVV2", help="the member of jets that tags b jets")
    parser.add_argument("--output", help="a ROOT file for the histograms")
    options = parser.parse_args()
    variant = importlib.import_module(f"with_{options.variant}")
    if options.executor not in variant.EXECUTORS:
        parser.error(f"--with {options.variant} runs only with --executor {' or '.join(variant.EXECUTORS)}")
    if len(options.files) > len(SAMPLES):
        parser.error(f"there are {len(SAMPLES)} samples, but {len(options.files)} files")
    with ExitStack() as stack:
        if options.executor == "dask":
            from distributed import Client

            stack.enter_context(Client(threads_per_worker=1, dashboard_address=None))
        files = options.files or generate(stack.enter_context(tempfile.TemporaryDirectory()))
        histograms = named(variant.run(fileset_of(files), options.executor, options.btag))
    for name, histogram in histograms.items():
        if name.partition("_")[2] in SHOWN:
            print(f"{name:24}{histogram.sum().value:12.1f} events")
    print(f"{len(histograms)} histograms")
    if options.output:
        write(options.output, histograms)


if __name__ == "__main__":
    main()
