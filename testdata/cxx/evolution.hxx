// What changes while an ntuple is written: fields added late, column representations that differ between clusters.
#ifndef FEMTOBARN_TESTDATA_EVOLUTION
#define FEMTOBARN_TESTDATA_EVOLUTION

#include "classes.hxx"

#include <ROOT/RNTupleWriter.hxx>

namespace fb {

// ---- late model extension

/// A writer that grows: fields are added at any time, entries filled by what is there
struct Growing {
   std::unique_ptr<TFile> file;
   Recipe recipe;
   std::unique_ptr<RNTupleWriter> writer;
   Rng rng;

   Growing(const std::string &path, const std::string &ntuple, Recipe start, const RNTupleWriteOptions &options,
           std::uint64_t seed)
      : file(MakeFile(path)), recipe(std::move(start)), rng(seed)
   {
      writer = RNTupleWriter::Append(std::move(recipe.model), ntuple, *file, options);
   }
   void Fill(int entries)
   {
      auto entry = writer->CreateEntry();
      for (int i = 0; i < entries; ++i) {
         recipe.Fill(*entry, rng);
         writer->Fill(*entry);
      }
   }
   template <typename F>
   void Extend(F &&add)
   {
      auto updater = writer->CreateModelUpdater();
      updater->BeginUpdate();
      add(*updater);
      updater->CommitUpdate();
   }
   template <typename T>
   void Add(RNTupleModel::RUpdater &updater, const std::string &name)
   {
      updater.MakeField<T>(name, "added late");
      recipe.Filled<T>(name);
   }
};

inline void AddEverything(Growing &g, RNTupleModel::RUpdater &u, const std::string &suffix)
{
   g.Add<float>(u, "f32" + suffix);
   g.Add<bool>(u, "bool" + suffix);
   g.Add<std::int64_t>(u, "i64" + suffix);
   g.Add<std::string>(u, "string" + suffix);
   g.Add<std::vector<std::int32_t>>(u, "vector" + suffix);
   g.Add<std::vector<std::vector<float>>>(u, "vector2" + suffix);
   g.Add<std::vector<bool>>(u, "bools" + suffix);
   g.Add<std::array<float, 3>>(u, "array" + suffix);
   g.Add<std::array<std::array<std::int16_t, 2>, 3>>(u, "array2" + suffix);
   g.Add<std::array<std::string, 2>>(u, "array_string" + suffix);
   g.Add<std::array<std::vector<std::uint8_t>, 2>>(u, "array_vector" + suffix);
   g.Add<std::bitset<11>>(u, "bitset" + suffix);
   g.Add<std::optional<double>>(u, "optional" + suffix);
   g.Add<std::pair<std::int32_t, std::vector<float>>>(u, "pair" + suffix);
   g.Add<std::tuple<std::uint8_t, std::array<double, 2>, std::string>>(u, "tuple" + suffix);
   g.Add<std::variant<std::int32_t, std::string>>(u, "variant" + suffix);
   g.Add<std::vector<std::variant<std::int8_t, float>>>(u, "variants" + suffix);
   g.Add<std::map<std::string, float>>(u, "map" + suffix);
   g.Add<fb::Derived>(u, "derived" + suffix);
   g.Add<fb::CArrays>(u, "c_arrays" + suffix);
   g.Add<std::vector<fb::Point>>(u, "points" + suffix);
   g.Add<fb::Level>(u, "enum" + suffix);
   g.Add<std::atomic<std::int32_t>>(u, "atomic" + suffix);
}

/// Two extensions, one in the middle of a cluster and one right after a commit
inline void WriteExtension(const std::string &path, const RNTupleWriteOptions &options)
{
   Recipe start;
   start.Add<std::int32_t>("number");
   start.Add<std::vector<float>>("floats");
   Growing g(path, "extension", std::move(start), options, 90);
   g.Fill(5);
   g.writer->CommitCluster();
   g.Fill(4);
   g.Extend([&](auto &u) { AddEverything(g, u, "_middle"); });
   g.Fill(3);
   g.writer->CommitCluster();
   g.Extend([&](auto &u) { AddEverything(g, u, "_border"); });
   g.Fill(4);
   g.writer->CommitCluster();
   g.Fill(3);
}

/// Fields added before the first entry, after the last entry, and in an ntuple that stays empty
inline void WriteExtensionEdges(const std::string &path)
{
   auto start = [] {
      Recipe r;
      r.Add<std::int32_t>("number");
      return r;
   };
   {
      Growing g(path, "edges", start(), Options(), 91);
      g.Extend([&](auto &u) { AddEverything(g, u, "_first"); });
      g.Fill(3);
      g.writer->CommitCluster();
      g.Fill(3);
      g.Extend([&](auto &u) { g.template Add<float>(u, "never_filled"); });
      g.Extend([&](auto &u) { g.template Add<std::vector<float>>(u, "never_filled_either"); });
   }
}

inline void WriteExtensionEmpty(const std::string &path)
{
   Growing g(path, "nothing", Recipe(), Options(), 92);
   g.Extend([&](auto &u) { g.template Add<float>(u, "f32"); });
   g.Extend([&](auto &u) { g.template Add<std::vector<std::string>>(u, "strings"); });
}

/// Late projected fields, of early and of late fields
inline void WriteExtensionProjected(const std::string &path)
{
   Recipe start;
   start.Add<float>("early");
   start.Add<std::vector<float>>("early_vector");
   Growing g(path, "projected", std::move(start), Options(), 93);
   g.Fill(4);
   g.Extend([&](auto &u) {
      g.template Add<std::vector<std::int32_t>>(u, "late_vector");
      g.template Add<double>(u, "late");
   });
   g.Extend([&](auto &u) {
      auto project = [&u](std::unique_ptr<RFieldBase> field, std::map<std::string, std::string> mapping) {
         u.AddProjectedField(std::move(field), [mapping](const std::string &name) { return mapping.at(name); })
            .ThrowOnError();
      };
      project(Field<float>("alias_early"), {{"alias_early", "early"}});
      project(Field<double>("alias_late"), {{"alias_late", "late"}});
      project(Field<std::vector<std::int32_t>>("alias_late_vector"),
              {{"alias_late_vector", "late_vector"}, {"alias_late_vector._0", "late_vector._0"}});
      project(Field<ROOT::RNTupleCardinality<std::uint32_t>>("n_early"), {{"n_early", "early_vector"}});
      project(Field<ROOT::RNTupleCardinality<std::uint64_t>>("n_late"), {{"n_late", "late_vector"}});
   });
   g.Fill(3);
   g.writer->CommitCluster();
   g.Fill(2);
}

/// Members added to untyped records that exist: columns below an old field that begin late. ROOT wants a bare model.
struct NestedRecord {
   float a = 0;
   std::int32_t late = 0;
   std::array<std::int16_t, 2> late_array{};
   std::string late_text;
};

struct NestedOuter {
   std::int32_t x = 0;
   struct {
      double y = 0;
      std::vector<float> late_vector;
      std::optional<std::int32_t> late_optional;
   } inner;
};

inline void FillNested(RNTupleWriter &writer, int entries, int stage, Rng &rng)
{
   NestedRecord record; // memory for all stages: ROOT's own entries do not grow with records inside of records
   NestedOuter outer;
   auto entry = writer.GetModel().CreateBareEntry();
   entry->BindRawPtr("record", static_cast<void *>(&record));
   entry->BindRawPtr("outer", static_cast<void *>(&outer));
   for (int i = 0; i < entries; ++i) {
      Randomize(record.a, rng);
      Randomize(outer.x, rng);
      Randomize(outer.inner.y, rng);
      if (stage > 0) {
         Randomize(record.late, rng);
         Randomize(record.late_array, rng);
         Randomize(record.late_text, rng);
      }
      if (stage > 1) {
         Randomize(outer.inner.late_vector, rng);
         Randomize(outer.inner.late_optional, rng);
      }
      writer.Fill(*entry);
   }
}

inline void WriteExtensionNested(const std::string &path, RNTupleWriteOptions options)
{
   options.SetUseBufferedWrite(false); // with buffers ROOT 6.40.00 writes the new fields at the top level
   auto model = RNTupleModel::CreateBare();
   model->AddField(Record("record", Field<float>("a")));
   model->AddField(Record("outer", Field<std::int32_t>("x"), Record("inner", Field<double>("y"))));
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(std::move(model), "extension_nested", *file, options);
   auto updater = writer->CreateModelUpdater();
   Rng rng(95);
   FillNested(*writer, 4, 0, rng);
   writer->CommitCluster();
   FillNested(*writer, 2, 0, rng);
   updater->BeginUpdate();
   updater->AddField(Field<std::int32_t>("late"), "record");
   updater->AddField(Field<std::array<std::int16_t, 2>>("late_array"), "record");
   updater->AddField(Field<std::string>("late_text"), "record");
   updater->CommitUpdate();
   FillNested(*writer, 3, 1, rng);
   updater->BeginUpdate();
   updater->AddField(Field<std::vector<float>>("late_vector"), "outer.inner");
   updater->AddField(Field<std::optional<std::int32_t>>("late_optional"), "outer.inner");
   updater->CommitUpdate();
   FillNested(*writer, 3, 2, rng);
   writer->CommitCluster();
   FillNested(*writer, 3, 2, rng);
}

// ---- column representations

inline void SetRepresentation(RNTupleWriter &writer, const std::string &path, std::uint16_t index)
{
   auto &field = const_cast<RFieldBase &>(writer.GetModel().GetConstField(path));
   ROOT::Internal::RFieldRepresentationModifier::SetPrimaryColumnRepresentation(field, index);
}

struct Switching {
   std::string path;
   int count;
};

inline std::unique_ptr<RFieldBase>
WithRepresentations(std::unique_ptr<RFieldBase> field, const RFieldBase::RColumnRepresentations::Selection_t &selection)
{
   field->SetColumnRepresentatives(selection);
   return field;
}

inline void WriteRepresentations(const std::string &path, const RNTupleWriteOptions &options)
{
   using T = ENTupleColumnType;
   Recipe r;
   r.AddField<float>(WithRepresentations(Field<float>("f32"), {{T::kReal32}, {T::kReal16}, {T::kSplitReal32}}));
   r.AddField<double>(WithRepresentations(Field<double>("f64"), {{T::kSplitReal64}, {T::kReal32}, {T::kReal16}}));
   r.AddField<std::int32_t>(WithRepresentations(Field<std::int32_t>("i32"), {{T::kInt32}, {T::kSplitInt32}}));
   r.AddField<std::int64_t>(WithRepresentations(Field<std::int64_t>("i64"), {{T::kSplitInt64}, {T::kInt64}}));
   r.AddField<std::string>(WithRepresentations(
      Field<std::string>("string"), {{T::kIndex32, T::kChar}, {T::kSplitIndex64, T::kChar}, {T::kIndex64, T::kChar}}));
   r.AddField<std::vector<float>>(WithRepresentations(
      Field<std::vector<float>>("vector"), {{T::kIndex32}, {T::kSplitIndex64}, {T::kIndex64}, {T::kSplitIndex32}}));
   auto items = Field<std::vector<std::vector<float>>>("items");
   items->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kSplitIndex64}, {T::kIndex32}});
   items->GetMutableSubfields()[0]->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal16}, {T::kReal32}});
   r.AddField<std::vector<std::vector<float>>>(std::move(items));
   r.AddField<std::optional<std::int32_t>>(
      WithRepresentations(Field<std::optional<std::int32_t>>("optional"), {{T::kSplitIndex64}, {T::kIndex32}}));
   auto array = Field<std::array<double, 3>>("array");
   array->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal64}, {T::kReal16}});
   r.AddField<std::array<double, 3>>(std::move(array));
   auto pair = Field<std::pair<float, std::string>>("pair");
   pair->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal32}, {T::kReal16}});
   pair->GetMutableSubfields()[1]->SetColumnRepresentatives({{T::kIndex64, T::kChar}, {T::kIndex32, T::kChar}});
   r.AddField<std::pair<float, std::string>>(std::move(pair));
   Project<float>(*r.model, "alias_f32", {{"alias_f32", "f32"}});
   Project<std::string>(*r.model, "alias_string", {{"alias_string", "string"}});
   Project<ROOT::RNTupleCardinality<std::uint32_t>>(*r.model, "n_vector", {{"n_vector", "vector"}});
   const std::vector<Switching> fields{{"f32", 3}, {"f64", 3}, {"i32", 2}, {"i64", 2}, {"string", 3}, {"vector", 4},
                                       {"items._0", 2}, {"items._0._0", 2}, {"optional", 2}, {"array._0", 2},
                                       {"pair._0", 2}, {"pair._1", 2}};
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(std::move(r.model), "representations", *file, options);
   auto entry = writer->CreateEntry();
   Rng rng(96);
   for (int cluster = 0; cluster < 8; ++cluster) {
      for (std::size_t i = 0; i < fields.size(); ++i)
         SetRepresentation(*writer, fields[i].path, (cluster * (i % 3 + 1) + i) % fields[i].count);
      for (int k = 0; k < 3 + cluster % 3; ++k) {
         if (cluster != 3) // a cluster that repeats one entry
            r.Fill(*entry, rng);
         writer->Fill(*entry);
      }
      writer->CommitCluster();
   }
}

/// Added late, with several representations, some of them suppressed where they begin
inline void WriteLateRepresentations(const std::string &path)
{
   using T = ENTupleColumnType;
   Recipe start;
   start.Add<std::int32_t>("number");
   Growing g(path, "late", std::move(start), Options(), 97);
   g.Fill(3);
   g.writer->CommitCluster();
   g.Fill(2);
   g.Extend([&](auto &u) {
      u.AddField(WithRepresentations(Field<float>("f32"), {{T::kReal32}, {T::kReal16}}));
      u.AddField(WithRepresentations(Field<std::vector<float>>("vector"), {{T::kIndex32}, {T::kSplitIndex64}}));
      u.AddField(WithRepresentations(Field<std::string>("string"), {{T::kIndex32, T::kChar}, {T::kIndex64, T::kChar}}));
      auto array = Field<std::array<float, 2>>("array");
      array->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal16}, {T::kReal32}});
      u.AddField(std::move(array));
   });
   g.recipe.Filled<float>("f32");
   g.recipe.Filled<std::vector<float>>("vector");
   g.recipe.Filled<std::string>("string");
   g.recipe.Filled<std::array<float, 2>>("array");
   for (int cluster = 0; cluster < 4; ++cluster) {
      for (const char *name : {"f32", "vector", "string", "array._0"})
         SetRepresentation(*g.writer, name, cluster % 2 ? 0 : 1);
      g.Fill(3);
      g.writer->CommitCluster();
   }
}

} // namespace fb

#endif
