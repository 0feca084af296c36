// Every column type ROOT can write, field by field.
#ifndef FEMTOBARN_TESTDATA_ENCODINGS
#define FEMTOBARN_TESTDATA_ENCODINGS

#include "random.hxx"

namespace fb {

using T = ENTupleColumnType;
using Representation = RFieldBase::ColumnRepresentation_t;

template <typename V>
void AddEncoded(Recipe &recipe, const std::string &name, const Representation &representation)
{
   auto field = std::make_unique<ROOT::RField<V>>(name);
   field->SetColumnRepresentatives({representation});
   recipe.AddField<V>(std::move(field));
}

inline void AddIntegers(Recipe &r)
{
   r.Add<bool>("bool_Bit");
   r.Add<std::byte>("byte_Byte");
   r.Add<char>("char_Char");
   r.Add<std::int8_t>("i8_Int8");
   r.Add<std::uint8_t>("u8_UInt8");
   AddEncoded<std::int16_t>(r, "i16_Int16", {T::kInt16});
   AddEncoded<std::int16_t>(r, "i16_SplitInt16", {T::kSplitInt16});
   AddEncoded<std::uint16_t>(r, "u16_UInt16", {T::kUInt16});
   AddEncoded<std::uint16_t>(r, "u16_SplitUInt16", {T::kSplitUInt16});
   AddEncoded<std::int32_t>(r, "i32_Int32", {T::kInt32});
   AddEncoded<std::int32_t>(r, "i32_SplitInt32", {T::kSplitInt32});
   AddEncoded<std::uint32_t>(r, "u32_UInt32", {T::kUInt32});
   AddEncoded<std::uint32_t>(r, "u32_SplitUInt32", {T::kSplitUInt32});
   AddEncoded<std::int64_t>(r, "i64_Int64", {T::kInt64});
   AddEncoded<std::int64_t>(r, "i64_SplitInt64", {T::kSplitInt64});
   AddEncoded<std::uint64_t>(r, "u64_UInt64", {T::kUInt64});
   AddEncoded<std::uint64_t>(r, "u64_SplitUInt64", {T::kSplitUInt64});
}

inline void AddReals(Recipe &r)
{
   AddEncoded<float>(r, "f32_Real16", {T::kReal16});
   AddEncoded<float>(r, "f32_Real32", {T::kReal32});
   AddEncoded<float>(r, "f32_SplitReal32", {T::kSplitReal32});
   AddEncoded<double>(r, "f64_Real16", {T::kReal16});
   AddEncoded<double>(r, "f64_Real32", {T::kReal32});
   AddEncoded<double>(r, "f64_SplitReal32", {T::kSplitReal32});
   AddEncoded<double>(r, "f64_Real64", {T::kReal64});
   AddEncoded<double>(r, "f64_SplitReal64", {T::kSplitReal64});
}

inline void AddIndexes(Recipe &r)
{
   AddEncoded<std::string>(r, "string_Index32", {T::kIndex32, T::kChar});
   AddEncoded<std::string>(r, "string_Index64", {T::kIndex64, T::kChar});
   AddEncoded<std::string>(r, "string_SplitIndex32", {T::kSplitIndex32, T::kChar});
   AddEncoded<std::string>(r, "string_SplitIndex64", {T::kSplitIndex64, T::kChar});
   AddEncoded<std::vector<float>>(r, "vector_Index32", {T::kIndex32});
   AddEncoded<std::vector<float>>(r, "vector_Index64", {T::kIndex64});
   AddEncoded<std::vector<float>>(r, "vector_SplitIndex32", {T::kSplitIndex32});
   AddEncoded<std::vector<float>>(r, "vector_SplitIndex64", {T::kSplitIndex64});
   AddEncoded<std::optional<float>>(r, "optional_Index32", {T::kIndex32});
   AddEncoded<std::optional<float>>(r, "optional_SplitIndex64", {T::kSplitIndex64});
   AddEncoded<std::vector<bool>>(r, "bools_Index32", {T::kIndex32});
   AddEncoded<ROOT::RVec<std::int16_t>>(r, "rvec_Index64", {T::kIndex64});
   r.Add<std::variant<std::int32_t, float>>("variant_Switch");
   r.Add<std::bitset<11>>("bitset_Bit");
}

/// A column of few bits, its values inside [-range, range]
struct Ranged {
   double range;
};

inline void AddPacked(Recipe &r)
{
   for (int bits = 10; bits <= 31; ++bits) {
      auto field = std::make_unique<ROOT::RField<float>>("f32_Trunc" + std::to_string(bits));
      field->SetTruncated(bits);
      r.AddField<float>(std::move(field));
   }
   for (int bits : {10, 17, 31}) {
      auto field = std::make_unique<ROOT::RField<double>>("f64_Trunc" + std::to_string(bits));
      field->SetTruncated(bits);
      r.AddField<double>(std::move(field));
   }
}

template <typename V>
void AddQuantized(Recipe &r, int bits, V min, V max, const std::string &suffix)
{
   const std::string name = std::string(sizeof(V) == 4 ? "f32" : "f64") + "_Quant" + std::to_string(bits) + suffix;
   auto field = std::make_unique<ROOT::RField<V>>(name);
   field->SetQuantized(bits, {min, max});
   r.model->AddField(std::move(field));
   r.fills.emplace_back([name, min, max](ROOT::REntry &entry, Rng &rng) {
      const auto u = rng.Below(8);
      auto value = static_cast<V>(u == 0 ? min : u == 1 ? max : rng.Range(min, max));
      *entry.GetPtr<V>(name) = std::min(std::max(value, min), max);
   });
}

inline void AddQuantizeds(Recipe &r)
{
   for (int bits = 1; bits <= 32; ++bits)
      AddQuantized<float>(r, bits, -1.f, 1.f, "");
   AddQuantized<float>(r, 7, 0.f, 1000.f, "_wide");
   AddQuantized<float>(r, 20, -3.14159274f, 3.14159274f, "_pi");
   AddQuantized<float>(r, 12, -1e30f, 1e30f, "_huge");
   AddQuantized<double>(r, 16, -1., 1., "");
   AddQuantized<double>(r, 32, 0., 1e-3, "_small");
   AddQuantized<double>(r, 5, -100.5, -0.25, "_negative");
}

/// Packed floats below collections, so that pages do not end on byte boundaries
inline void AddPackedItems(Recipe &r)
{
   auto trunc = std::make_unique<ROOT::RField<std::vector<float>>>("vector_Trunc13");
   dynamic_cast<ROOT::RField<float> &>(*trunc->GetMutableSubfields()[0]).SetTruncated(13);
   r.AddField<std::vector<float>>(std::move(trunc));
   auto half = std::make_unique<ROOT::RField<std::vector<double>>>("vector_Real16");
   dynamic_cast<ROOT::RField<double> &>(*half->GetMutableSubfields()[0]).SetHalfPrecision();
   r.AddField<std::vector<double>>(std::move(half));
   auto array = std::make_unique<ROOT::RField<std::array<float, 3>>>("array_Trunc11");
   dynamic_cast<ROOT::RField<float> &>(*array->GetMutableSubfields()[0]).SetTruncated(11);
   r.AddField<std::array<float, 3>>(std::move(array));
}

inline void WriteEncodings(const std::string &path, int compression, bool smallPages)
{
   Recipe recipe;
   AddIntegers(recipe);
   AddReals(recipe);
   AddIndexes(recipe);
   WriteRecipe(std::move(recipe), "encodings", path, 44, 23, smallPages ? SmallPages(compression) : Options(compression), 5);
}

inline void WritePacked(const std::string &path, int compression, bool smallPages)
{
   Recipe recipe;
   AddPacked(recipe);
   AddQuantizeds(recipe);
   AddPackedItems(recipe);
   // The first entry would hold zeros, outside of some ranges
   auto file = MakeFile(path);
   auto options = smallPages ? SmallPages(compression) : Options(compression);
   auto writer = RNTupleWriter::Append(std::move(recipe.model), "packed", *file, options);
   auto entry = writer->CreateEntry();
   Rng rng(6);
   for (int i = 0; i < 37; ++i) {
      recipe.Fill(*entry, rng);
      writer->Fill(*entry);
      if (i == 19)
         writer->CommitCluster();
   }
}

} // namespace fb

#endif
