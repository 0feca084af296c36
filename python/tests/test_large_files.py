"""Files beyond 2 GB and 4 GB: ROOT writes an ntuple after a hole of that size, which takes no disk space."""

import awkward as ak
import numpy as np
import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Arguments: pairs of the end of the hole and the file
SCRIPT = """
import os, sys
import ROOT
ROOT.gInterpreter.Declare(r'''
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TFile.h>
#include <TFree.h>

void write_behind(Long64_t end, const char *path) {
  auto file = std::unique_ptr<TFile>(TFile::Open(path, "RECREATE"));
  auto space = static_cast<TFree *>(file->GetListOfFree()->Last());
  space->SetFirst(end);
  space->SetLast(end + 1000000000LL);
  file->SetEND(end);
  auto model = ROOT::RNTupleModel::Create();
  auto number = model->MakeField<int>("number");
  auto halves = model->MakeField<std::vector<double>>("halves");
  auto writer = ROOT::RNTupleWriter::Append(std::move(model), "far", *file);
  for (int i = 0; i < 1000; ++i) {
    *number = i;
    halves->assign(i % 5, i * 0.5);
    writer->Fill();
    if (i % 300 == 299)
      writer->CommitCluster();
  }
  writer.reset();
  file->Write();
}
''')
for end, path in zip(sys.argv[1::2], sys.argv[2::2]):
    ROOT.write_behind(int(end), path)
os._exit(0)
"""
ENDS = [2**31 - 2000, 2**31 + 10, 2**32 - 2000, 2**32 + 10, 7 * 10**9]


@pytest.fixture(scope="module")
def files(run_root, tmp_path_factory):
    """Return the files, by the end of their hole."""
    folder = tmp_path_factory.mktemp("large")
    paths = {end: folder / f"{end}.root" for end in ENDS}
    run_root(SCRIPT, *(argument for pair in paths.items() for argument in pair))
    yield paths
    for path in paths.values():
        path.unlink()


@pytest.mark.parametrize("end", ENDS)
def test_an_ntuple_behind_gigabytes_is_read(files, end):
    path = files[end]
    assert path.stat().st_size > end
    nt = fb.open(path)
    arrays = nt.arrays()
    expected = np.arange(1000)
    assert arrays.number.to_list() == expected.tolist()
    assert ak.num(arrays.halves).to_list() == (expected % 5).tolist()
    assert ak.flatten(arrays.halves).to_list() == np.repeat(expected * 0.5, expected % 5).tolist()
    assert nt.verify().ok
    # including both ends of the file, which are read at opening
    assert nt.metrics.bytes_read < 500_000
