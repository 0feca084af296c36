// Files from ROOT's other ways of writing: its importer, its merger, its own minimal file writer, very large pages.
#ifndef FEMTOBARN_TESTDATA_TOOLS
#define FEMTOBARN_TESTDATA_TOOLS

#include "random.hxx"

#include <ROOT/RNTupleImporter.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <TFileMerger.h>
#include <TTree.h>

namespace fb {

inline Recipe ToolRecipe(bool wide)
{
   Recipe r;
   r.Add<std::int32_t>("number");
   r.Add<std::vector<float>>("floats");
   r.Add<std::string>("text");
   if (wide) {
      r.Add<double>("extra");
      r.Add<std::vector<std::string>>("extra_texts");
      r.Add<std::array<std::int16_t, 2>>("extra_array");
   }
   return r;
}

/// Not inside of a TFile object: ROOT writes the file's frame by itself
inline void WriteRecreate(const std::string &path)
{
   auto r = ToolRecipe(true);
   auto writer = RNTupleWriter::Recreate(std::move(r.model), "recreate", path, Options());
   auto entry = writer->CreateEntry();
   Rng rng(110);
   for (int i = 0; i < 20; ++i) {
      r.Fill(*entry, rng);
      writer->Fill(*entry);
      if (i == 11)
         writer->CommitCluster();
   }
}

/// A TTree as in NanoAOD, through ROOT's importer
inline void WriteImported(const std::string &path, const std::string &scratch)
{
   {
      std::unique_ptr<TFile> file(TFile::Open(scratch.c_str(), "RECREATE"));
      auto *tree = new TTree("Events", "a tree to import");
      UInt_t run = 0, nMuon = 0, nJet = 0;
      Bool_t trigger = false;
      Float_t pt[8] = {}, eta[8] = {}, mass[8] = {};
      Int_t charge[8] = {};
      Double_t triple[3] = {};
      Char_t label[16] = "";
      std::vector<float> weights;
      tree->Branch("run", &run, "run/i");
      tree->Branch("trigger", &trigger, "trigger/O");
      tree->Branch("nMuon", &nMuon, "nMuon/i");
      tree->Branch("Muon_pt", pt, "Muon_pt[nMuon]/F");
      tree->Branch("Muon_eta", eta, "Muon_eta[nMuon]/F");
      tree->Branch("Muon_charge", charge, "Muon_charge[nMuon]/I");
      tree->Branch("nJet", &nJet, "nJet/i");
      tree->Branch("Jet_mass", mass, "Jet_mass[nJet]/F");
      tree->Branch("triple", triple, "triple[3]/D");
      tree->Branch("label", label, "label/C");
      tree->Branch("weights", &weights);
      Rng rng(111);
      for (int i = 0; i < 25; ++i) {
         run = 1 + i / 10;
         trigger = rng.Below(2);
         nMuon = rng.Below(4);
         nJet = rng.Below(3);
         for (int k = 0; k < 8; ++k) {
            pt[k] = rng.Range(3, 100);
            eta[k] = rng.Gauss();
            mass[k] = rng.Range(5, 20);
            charge[k] = rng.Below(2) ? 1 : -1;
         }
         for (auto &t : triple)
            t = rng.Unit();
         std::strcpy(label, rng.Below(2) ? "" : "a label");
         weights.assign(rng.Below(3), 0.5f);
         tree->Fill();
      }
      file->Write();
   }
   std::remove(path.c_str());
   auto importer = ROOT::Experimental::RNTupleImporter::Create(scratch, "Events", path);
   importer->SetIsQuiet(true);
   importer->SetConvertDotsInBranchNames(true);
   importer->Import();
   std::remove(scratch.c_str());
}

inline void WritePart(const std::string &path, bool wide, int compression, int entries, std::uint64_t seed)
{
   auto r = ToolRecipe(wide);
   WriteRecipe(std::move(r), "part", path, entries, 6, Options(compression), seed);
}

/// The merger copies pages: clusters of different compression, and with "Union" columns that begin late
inline bool WriteMerged(const std::string &path, const std::string &scratch, bool wideSecond, const std::string &options)
{
   const std::vector<std::string> parts{scratch + "1.root", scratch + "2.root", scratch + "3.root"};
   WritePart(parts[0], false, 505, 8, 120);
   WritePart(parts[1], wideSecond, 505, 9, 121);
   WritePart(parts[2], wideSecond, 505, 5, 122);
   TFileMerger merger(false);
   merger.SetPrintLevel(0);
   merger.SetMergeOptions(std::string_view(options));
   merger.OutputFile(path.c_str(), "RECREATE", 505);
   for (const auto &part : parts)
      merger.AddFile(part.c_str(), false);
   const bool ok = merger.Merge();
   for (const auto &part : parts)
      std::remove(part.c_str());
   return ok;
}

/// One page of more than 2^24 bytes that compresses to little: several compression records in one page
inline std::uint8_t BlockByte(std::uint64_t i) { return static_cast<std::uint8_t>((i >> 16) ^ (i % 1000 == 999 ? i : 0)); }

inline void WriteBlocks(const std::string &path, int compression, std::uint64_t bytes)
{
   auto options = Options(compression);
   options.SetMaxUnzippedPageSize(1ull << 26);
   options.SetPageBufferBudget(1ull << 28);
   auto file = MakeFile(path);
   auto model = RNTupleModel::Create();
   auto data = model->MakeField<std::vector<std::uint8_t>>("data");
   auto writer = RNTupleWriter::Append(std::move(model), "blocks", *file, options);
   data->resize(bytes);
   for (std::uint64_t i = 0; i < bytes; ++i)
      (*data)[i] = BlockByte(i);
   writer->Fill();
   data->assign(3, 7);
   writer->Fill();
}

/// Reads it back and compares with the formula
inline bool CheckBlocks(const std::string &path, std::uint64_t bytes)
{
   auto reader = ROOT::RNTupleReader::Open("blocks", path);
   auto view = reader->GetView<std::vector<std::uint8_t>>("data");
   const auto &data = view(0);
   if (data.size() != bytes)
      return false;
   for (std::uint64_t i = 0; i < bytes; ++i) {
      if (data[i] != BlockByte(i))
         return false;
   }
   return view(1) == std::vector<std::uint8_t>{7, 7, 7};
}

/// Over 2 GB, where offsets and keys get wide; only made on demand
inline void WriteBigFile(const std::string &path, std::uint64_t bytes)
{
   auto options = Options(0);
   options.SetEnableSamePageMerging(false);
   options.SetMaxUnzippedPageSize(1ull << 26);
   options.SetApproxZippedClusterSize(300ull << 20);
   std::unique_ptr<TFile> file(TFile::Open(path.c_str(), "RECREATE"));
   auto model = RNTupleModel::Create();
   auto data = model->MakeField<std::vector<std::uint64_t>>("data");
   auto number = model->MakeField<std::uint64_t>("number");
   auto writer = RNTupleWriter::Append(std::move(model), "big", *file, options);
   data->resize(1 << 20);
   for (std::uint64_t written = 0; written < bytes; written += data->size() * 8) {
      *number = written;
      for (std::uint64_t i = 0; i < data->size(); ++i)
         (*data)[i] = written + i;
      writer->Fill();
   }
}

} // namespace fb

#endif
