// One rich ntuple, for every compression algorithm.
#ifndef FEMTOBARN_TESTDATA_MIXED
#define FEMTOBARN_TESTDATA_MIXED

#include "common.hxx"

namespace fb {

inline std::unique_ptr<RNTupleModel> MixedModel()
{
   auto model = RNTupleModel::Create();
   model->SetDescription("many types in one ntuple");
   model->MakeField<bool>("flag");
   model->MakeField<std::int8_t>("i8");
   model->MakeField<std::uint8_t>("u8");
   model->MakeField<std::int16_t>("i16");
   model->MakeField<std::uint16_t>("u16");
   model->MakeField<std::int32_t>("i32");
   model->MakeField<std::uint32_t>("u32");
   model->MakeField<std::int64_t>("i64");
   model->MakeField<std::uint64_t>("u64");
   model->MakeField<float>("f32");
   model->MakeField<double>("f64");
   model->MakeField<char>("letter");
   model->MakeField<std::byte>("raw");
   model->MakeField<std::string>("text");
   model->MakeField<std::vector<float>>("floats");
   model->MakeField<std::vector<std::vector<std::int32_t>>>("nested");
   model->MakeField<std::vector<std::string>>("texts");
   model->MakeField<std::vector<bool>>("bools");
   model->MakeField<std::array<float, 3>>("triple");
   model->MakeField<std::optional<double>>("maybe");
   model->MakeField<std::pair<std::int32_t, float>>("pair");
   model->MakeField<std::tuple<std::string, std::int8_t, std::vector<double>>>("tuple");
   model->MakeField<std::variant<std::int32_t, std::string, std::vector<float>>>("either");
   model->MakeField<std::bitset<70>>("bits");
   model->MakeField<fb::Level>("level");
   model->MakeField<fb::Derived>("derived");
   model->MakeField<std::vector<fb::Point>>("points");
   model->MakeField<std::map<std::string, float>>("table");
   model->MakeField<ROOT::RVec<double>>("rvec");
   auto project = [](const std::string &) { return std::string("floats"); };
   model->AddProjectedField(std::make_unique<ROOT::RField<ROOT::RNTupleCardinality<std::uint32_t>>>("nfloats"), project)
      .ThrowOnError();
   return model;
}

inline void FillMixedScalars(ROOT::REntry &entry, int i, Rng &rng)
{
   *entry.GetPtr<bool>("flag") = rng.Below(3) == 0;
   *entry.GetPtr<std::int8_t>("i8") = static_cast<std::int8_t>(i == 0 ? -128 : i == 1 ? 127 : rng.Next());
   *entry.GetPtr<std::uint8_t>("u8") = static_cast<std::uint8_t>(i == 0 ? 255 : rng.Next());
   *entry.GetPtr<std::int16_t>("i16") = static_cast<std::int16_t>(i == 0 ? INT16_MIN : i == 1 ? INT16_MAX : i - 30);
   *entry.GetPtr<std::uint16_t>("u16") = static_cast<std::uint16_t>(i == 0 ? UINT16_MAX : i * 3);
   *entry.GetPtr<std::int32_t>("i32") = static_cast<std::int32_t>(i == 0 ? INT32_MIN : i == 1 ? INT32_MAX : 1000 - i);
   *entry.GetPtr<std::uint32_t>("u32") = i == 0 ? UINT32_MAX : static_cast<std::uint32_t>(i * 1000);
   *entry.GetPtr<std::int64_t>("i64") = i == 0 ? INT64_MIN : i == 1 ? INT64_MAX : -1000000007ll * i;
   *entry.GetPtr<std::uint64_t>("u64") = i == 0 ? UINT64_MAX : 1ull << (i % 64);
   *entry.GetPtr<float>("f32") = OddFloats()[i % OddFloats().size()];
   *entry.GetPtr<double>("f64") = OddDoubles()[i % OddDoubles().size()];
   *entry.GetPtr<char>("letter") = static_cast<char>('A' + i % 26);
   *entry.GetPtr<std::byte>("raw") = static_cast<std::byte>(rng.Next());
   *entry.GetPtr<std::string>("text") = Word_(rng);
   *entry.GetPtr<fb::Level>("level") = rng.Below(2) ? Level::kHigh : Level::kLow;
}

inline void FillMixedLists(ROOT::REntry &entry, int i, Rng &rng)
{
   auto &floats = *entry.GetPtr<std::vector<float>>("floats");
   floats.assign(rng.Below(4) == 0 ? 0 : rng.Below(6), 0.f);
   for (auto &f : floats)
      f = static_cast<float>(rng.Gauss());
   auto &nested = *entry.GetPtr<std::vector<std::vector<std::int32_t>>>("nested");
   nested.assign(rng.Below(4), {});
   for (auto &inner : nested)
      for (std::uint64_t k = rng.Below(4); k > 0; --k)
         inner.push_back(static_cast<std::int32_t>(rng.Below(200)) - 100);
   auto &texts = *entry.GetPtr<std::vector<std::string>>("texts");
   texts.assign(rng.Below(3), "");
   for (auto &t : texts)
      t = Word_(rng);
   auto &bools = *entry.GetPtr<std::vector<bool>>("bools");
   bools.clear();
   for (std::uint64_t k = rng.Below(11); k > 0; --k)
      bools.push_back(rng.Below(2));
   auto &rvec = *entry.GetPtr<ROOT::RVec<double>>("rvec");
   rvec.resize(i % 3);
   for (auto &d : rvec)
      d = rng.Unit();
   auto &points = *entry.GetPtr<std::vector<fb::Point>>("points");
   points.assign(rng.Below(4), {});
   for (auto &p : points)
      p = {static_cast<float>(rng.Below(10)), static_cast<float>(i)};
   auto &table = *entry.GetPtr<std::map<std::string, float>>("table");
   table.clear();
   for (std::uint64_t k = rng.Below(4); k > 0; --k)
      table[Word_(rng)] = static_cast<float>(k);
}

inline void FillMixedRest(ROOT::REntry &entry, int i, Rng &rng)
{
   *entry.GetPtr<std::array<float, 3>>("triple") = {static_cast<float>(i), 0.5f, static_cast<float>(-i)};
   *entry.GetPtr<std::optional<double>>("maybe") = rng.Below(2) ? std::optional<double>(i * 0.25) : std::nullopt;
   *entry.GetPtr<std::pair<std::int32_t, float>>("pair") = {i, i * 0.5f};
   *entry.GetPtr<std::tuple<std::string, std::int8_t, std::vector<double>>>("tuple") = {
      Word_(rng), static_cast<std::int8_t>(-i), std::vector<double>(rng.Below(3), i)};
   auto &either = *entry.GetPtr<std::variant<std::int32_t, std::string, std::vector<float>>>("either");
   switch (rng.Below(3)) {
   case 0: either = i; break;
   case 1: either = Word_(rng); break;
   default: either = std::vector<float>(rng.Below(3), i + 0.5f);
   }
   auto &bits = *entry.GetPtr<std::bitset<70>>("bits");
   bits.reset();
   bits.set(i % 70).set(rng.Below(70)).set(69, i % 2);
   auto &derived = *entry.GetPtr<fb::Derived>("derived");
   derived.id = i;
   derived.BaseA::id = 100 + i;
   derived.BaseA::weight = i / 3.f;
   derived.BaseB::id = 200 + i;
   derived.BaseB::tag = Word_(rng);
   derived.values.assign(i % 4, static_cast<std::int16_t>(-i));
}

inline void WriteMixed(const std::string &path, int compression, int entries, int perCluster)
{
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(MixedModel(), "mixed", *file, Options(compression));
   auto entry = writer->CreateEntry();
   Rng rng(11);
   for (int i = 0; i < entries; ++i) {
      FillMixedScalars(*entry, i, rng);
      FillMixedLists(*entry, i, rng);
      FillMixedRest(*entry, i, rng);
      writer->Fill(*entry);
      if (i % perCluster == perCluster - 1)
         writer->CommitCluster();
   }
}

} // namespace fb

#endif
