"""Make the histograms of testdata/histograms.root with ROOT: one of each sort of layout.

    make_histograms.py [FILE]

It needs a Python that has ROOT. Nothing is random.
"""

import os
import sys
from pathlib import Path

import ROOT

HERE = Path(__file__).resolve().parent


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else HERE / "histograms.root"
    file = ROOT.TFile(f"{path}?reproducible", "RECREATE", "", 505)
    fitted = ROOT.TH1F("fitted", "with functions", 8, 0, 4)
    for k in range(40):
        fitted.Fill(0.1 * k)
    fitted.Fit("pol1", "Q0")
    fitted.GetListOfFunctions().Add(ROOT.TF1("second", "[0]*x", 0, 4))
    squares = ROOT.TH1F("squares", "with functions", 8, 0, 4)
    squares.Sumw2()
    squares.Fill(1, 3)
    short = ROOT.TH1S("short", "two bytes", 4, 0, 4)
    short.SetBinContent(1, 30000)
    labels = ROOT.TH1D("labels", "labels", 2, 0, 2)
    for k, word in enumerate("abc"):
        labels.Fill(word, k + 1)
    labels.GetListOfFunctions().Add(ROOT.TF1("f", "[0]*x", 0, 4))
    others = ROOT.TH1D("other_labels", "labels", 2, 0, 2)
    for k, word in enumerate("cdefb"):
        others.Fill(word, k + 1)
    profile = ROOT.TProfile2D("profile", "profile", 2, 0, 2, 3, 0, 3)
    profile.Fill(0.5, 1.5, 7)
    three = ROOT.TH3I("three", "three", 2, 0, 2, 3, 0, 3, 1, 0, 1)
    three.Fill(1.5, 2.5, 0.5)
    buffered = ROOT.TH1F("buffered", "buffered", 4, 0, 0)
    buffered.SetBuffer(20)
    buffered.Fill(3, 2)
    for histogram in (fitted, squares, short, labels, others, profile, three, buffered):
        histogram.Write()
    file.Close()
    os._exit(0)


main()
