// The structure of files and ntuples: clusters, groups, pages, keys, directories, names, attribute sets.
#ifndef FEMTOBARN_TESTDATA_STRUCTURE
#define FEMTOBARN_TESTDATA_STRUCTURE

#include "random.hxx"

#include <ROOT/RNTupleAttrWriting.hxx>
#include <ROOT/RNTupleFillContext.hxx>
#include <ROOT/RNTupleParallelWriter.hxx>
#include <TDirectory.h>
#include <TH1F.h>
#include <TTree.h>

namespace fb {

inline Recipe SmallRecipe()
{
   Recipe r;
   r.Add<std::int32_t>("number");
   r.Add<std::vector<float>>("floats");
   r.Add<std::string>("text");
   return r;
}

inline void WriteEntries(const Recipe &r, RNTupleWriter &writer, int entries, int perCluster, std::uint64_t seed)
{
   auto entry = writer.CreateEntry();
   Rng rng(seed);
   for (int i = 0; i < entries; ++i) {
      r.Fill(*entry, rng);
      writer.Fill(*entry);
      if (perCluster > 0 && i % perCluster == perCluster - 1)
         writer.CommitCluster();
   }
}

inline void WriteEmpty(const std::string &path)
{
   auto r = SmallRecipe();
   r.Add<std::variant<std::int32_t, std::string>>("either");
   r.Add<std::map<std::string, float>>("table");
   r.Add<std::bitset<9>>("bits");
   WriteRecipe(std::move(r), "empty", path, 0, 1, Options(), 1);
}

inline void WriteNoFields(const std::string &path)
{
   auto file = MakeFile(path);
   {
      auto writer = RNTupleWriter::Append(RNTupleModel::Create(), "nothing", *file, Options());
   }
   auto writer = RNTupleWriter::Append(RNTupleModel::Create(), "entries", *file, Options());
   for (int i = 0; i < 5; ++i) {
      writer->Fill();
      if (i == 2)
         writer->CommitCluster();
   }
}

inline void AppendSmall(TDirectory &directory, const std::string &name, int entries, std::uint64_t seed)
{
   auto r = SmallRecipe();
   auto writer = RNTupleWriter::Append(std::move(r.model), name, directory, Options());
   WriteEntries(r, *writer, entries, 4, seed);
}

/// Several ntuples, in directories and in cycles, beside other objects
inline void WriteCrowd(const std::string &path)
{
   auto file = MakeFile(path);
   AppendSmall(*file, "first", 5, 1);
   auto *outer = file->mkdir("outer", "a directory");
   auto *inner = outer->mkdir("inner");
   auto *odd = file->mkdir("répertoire δ");
   file->mkdir("void");
   AppendSmall(*outer, "second", 6, 2);
   AppendSmall(*inner, "third", 7, 3);
   AppendSmall(*inner, "first", 3, 4);
   AppendSmall(*odd, "événements", 4, 5);
   file->cd();
   auto *tree = new TTree("tree", "not an RNTuple");
   int x = 0;
   tree->Branch("x", &x);
   for (x = 0; x < 3; ++x)
      tree->Fill();
   tree->Write();
   TH1F histogram("histogram", "not an RNTuple either", 4, 0, 1);
   histogram.SetDirectory(nullptr);
   file->WriteTObject(&histogram, "histogram");
   histogram.Fill(0.3);
   file->WriteTObject(&histogram, "histogram"); // a second cycle
   inner->WriteTObject(&histogram, "histogram");
   AppendSmall(*file, "last", 2, 6);
   file->Write();
}

/// The same name twice: cycles 1 and 2
inline void WriteCycles(const std::string &path)
{
   {
      auto file = MakeFile(path);
      AppendSmall(*file, "again", 5, 7);
   }
   std::unique_ptr<TFile> file(TFile::Open(path.c_str(), "UPDATE"));
   AppendSmall(*file, "again", 3, 8);
   file->Write();
}

/// How the clusters are grouped: after which of them a group is closed
inline void WriteGroups(const std::string &path)
{
   auto file = MakeFile(path);
   auto r = SmallRecipe();
   auto writer = RNTupleWriter::Append(std::move(r.model), "groups", *file, Options());
   auto entry = writer->CreateEntry();
   Rng rng(9);
   for (int cluster = 0; cluster < 9; ++cluster) {
      for (int i = 0; i <= cluster % 4; ++i) {
         r.Fill(*entry, rng);
         writer->Fill(*entry);
      }
      writer->CommitCluster(cluster == 0 || cluster == 3 || cluster == 5);
   }
}

inline void WriteManyClusters(const std::string &path)
{
   auto r = SmallRecipe();
   WriteRecipe(std::move(r), "clusters", path, 200, 2, Options(0), 10);
}

/// Payloads over the largest key size are split over several keys
inline void WriteSmallKeys(const std::string &path, int compression)
{
   auto options = Options(compression);
   options.SetInitialUnzippedPageSize(64);
   options.SetMaxUnzippedPageSize(128);
   ROOT::Internal::RNTupleWriteOptionsManip::SetMaxKeySize(options, 256);
   Recipe r;
   for (int i = 0; i < 25; ++i)
      r.Add<std::int32_t>("a_field_with_a_long_name_so_that_the_header_gets_long_" + std::to_string(i));
   r.Add<std::vector<std::int64_t>>("numbers");
   r.Add<std::string>("text");
   WriteRecipe(std::move(r), "keys", path, 60, 25, options, 11);
}

/// Pages alone larger than the largest key
inline void WriteSplitPages(const std::string &path)
{
   auto options = Options(0);
   ROOT::Internal::RNTupleWriteOptionsManip::SetMaxKeySize(options, 1000);
   Recipe r;
   r.Add<std::vector<double>>("numbers");
   r.Add<std::array<std::uint16_t, 40>>("block");
   WriteRecipe(std::move(r), "split", path, 60, 50, options, 12);
}

/// Pages around the largest key's size, which their checksums count towards
inline void WriteKeyBoundary(const std::string &path, bool checksums)
{
   auto options = Options(0);
   options.SetEnablePageChecksums(checksums);
   ROOT::Internal::RNTupleWriteOptionsManip::SetMaxKeySize(options, 128);
   auto file = MakeFile(path);
   auto model = RNTupleModel::Create();
   auto data = model->MakeField<std::vector<std::uint8_t>>("data");
   auto writer = RNTupleWriter::Append(std::move(model), "boundary", *file, options);
   Rng rng(18);
   for (int length : {0, 1, 119, 120, 121, 127, 128, 129, 130, 239, 240, 241, 249, 256, 257, 600}) {
      data->resize(length);
      for (auto &byte : *data)
         byte = static_cast<std::uint8_t>(rng.Next());
      writer->Fill();
      writer->CommitCluster();
   }
}

inline void WritePlainPages(const std::string &path, bool checksums, bool buffered)
{
   auto options = SmallPages();
   options.SetEnablePageChecksums(checksums);
   options.SetUseBufferedWrite(buffered);
   WriteRecipe(SmallRecipe(), "pages", path, 40, 15, options, 13);
}

/// Columns of equal content: with merging, the same locators
inline void WriteSamePages(const std::string &path, int compression, bool merging)
{
   auto options = Options(compression);
   options.SetEnableSamePageMerging(merging);
   auto file = MakeFile(path);
   auto model = RNTupleModel::Create();
   auto a = model->MakeField<std::int32_t>("a");
   auto b = model->MakeField<std::int32_t>("b");
   auto c = model->MakeField<std::vector<float>>("c");
   auto d = model->MakeField<std::vector<float>>("d");
   auto zero = model->MakeField<double>("zero");
   auto nil = model->MakeField<std::uint64_t>("nil");
   auto writer = RNTupleWriter::Append(std::move(model), "same", *file, options);
   for (int i = 0; i < 40; ++i) {
      *a = *b = i % 20 * 7; // both clusters alike
      c->assign(i % 20 % 4, 0.5f * (i % 20));
      *d = *c;
      *zero = 0;
      *nil = 0;
      writer->Fill();
      if (i == 19)
         writer->CommitCluster();
   }
}

/// Pages of bits with equal bytes and different numbers of elements, which merging gives one locator: a small budget
/// makes the pages end anywhere
inline void WriteMergedBits(const std::string &path, int initialPage, int maxPage, int budget, int seed)
{
   auto options = Options(0);
   options.SetInitialUnzippedPageSize(initialPage);
   options.SetMaxUnzippedPageSize(maxPage);
   options.SetPageBufferBudget(budget);
   auto file = MakeFile(path);
   auto model = RNTupleModel::Create();
   auto x = model->MakeField<double>("x");
   auto bit = model->MakeField<bool>("bit");
   auto bits = model->MakeField<std::vector<bool>>("bits");
   auto y = model->MakeField<std::vector<float>>("y");
   auto writer = RNTupleWriter::Append(std::move(model), "merged", *file, options);
   Rng rng(seed);
   for (int i = 0; i < 600; ++i) {
      *x = -i - 0.1;
      *bit = i % 200 < 40;
      bits->assign(rng.Below(7), i % 200 < 40);
      y->assign(rng.Below(5), -1.1f * i);
      writer->Fill();
      if (i % 200 == 199)
         writer->CommitCluster();
   }
}

inline void WriteNames(const std::string &path)
{
   Recipe r;
   r.model->SetDescription("Ünïcode: 日本語, 🐍, \"quotes\", back\\slash,\ttab and\nnew line");
   r.Add<float>("größe", "the size in µm");
   r.Add<std::vector<std::int32_t>>("числа");
   r.Add<std::string>("名前", "名前の説明");
   r.Add<std::int32_t>("🐍");
   r.Add<std::int32_t>("a,b=c|(d){e}<f>&g%h@i?j!k~l$m^n#o");
   r.Add<std::int32_t>("with-dash+plus*star");
   r.Add<std::int32_t>("1starts_with_digit");
   r.Add<std::int32_t>("_0");
   r.Add<std::int32_t>("class");
   r.Add<std::int32_t>("[brackets]");
   r.Add<std::int32_t>("quote\"d");
   r.Add<std::int32_t>("semi;colon:");
   r.Add<std::int32_t>(std::string(300, 'n'), std::string(1000, 'd'));
   WriteRecipe(std::move(r), "ñames-(δ)", path, 6, 4, Options(), 14);
}

inline void WriteWide(const std::string &path, int fields)
{
   Recipe r;
   for (int i = 0; i < fields; ++i) {
      if (i % 3 == 0)
         r.Add<float>("f" + std::to_string(i));
      else if (i % 3 == 1)
         r.Add<std::vector<std::int16_t>>("v" + std::to_string(i));
      else
         r.Add<bool>("b" + std::to_string(i));
   }
   WriteRecipe(std::move(r), "wide", path, 4, 3, Options(), 15);
}

/// Two contexts whose clusters interleave
inline void WriteParallel(const std::string &path)
{
   using Writer = ROOT::RNTupleParallelWriter;
   auto r = SmallRecipe();
   auto writer = Writer::Recreate(std::move(r.model), "parallel", path, Options());
   auto one = writer->CreateFillContext();
   auto two = writer->CreateFillContext();
   two->EnableStagedClusterCommitting();
   Rng rng(16);
   auto fill = [&](ROOT::RNTupleFillContext &context, int entries) {
      auto entry = context.CreateEntry();
      for (int i = 0; i < entries; ++i) {
         r.Fill(*entry, rng);
         context.Fill(*entry);
      }
      context.FlushCluster();
   };
   fill(*one, 4);
   fill(*two, 3); // on disk before the next, but committed after it
   fill(*one, 6);
   fill(*two, 5);
   fill(*one, 2);
   two->CommitStagedClusters();
   fill(*one, 1);
}

inline void WriteAttributes(const std::string &path)
{
   auto file = MakeFile(path);
   auto r = SmallRecipe();
   auto writer = RNTupleWriter::Append(std::move(r.model), "main", *file, Options());
   auto lumiModel = RNTupleModel::Create();
   auto lumi = lumiModel->MakeField<double>("luminosity");
   auto note = lumiModel->MakeField<std::string>("note");
   auto lumiSet = writer->CreateAttributeSet(std::move(lumiModel), "lumi");
   auto runModel = RNTupleModel::Create();
   auto run = runModel->MakeField<std::vector<std::int32_t>>("runs");
   auto runSet = writer->CreateAttributeSet(std::move(runModel), "runs");
   auto unused = writer->CreateAttributeSet(RNTupleModel::Create(), "unused");
   auto entry = writer->CreateEntry();
   Rng rng(17);
   auto all = runSet->BeginRange();
   for (int block = 0; block < 5; ++block) {
      auto range = lumiSet->BeginRange();
      for (int i = 0; i < block; ++i) { // the first range is empty
         r.Fill(*entry, rng);
         writer->Fill(*entry);
      }
      *lumi = block * 1.5;
      *note = Word_(rng);
      lumiSet->CommitRange(std::move(range));
      if (block == 2)
         writer->CommitCluster();
   }
   run->assign({1, 2, 3});
   runSet->CommitRange(std::move(all));
}

} // namespace fb

#endif
