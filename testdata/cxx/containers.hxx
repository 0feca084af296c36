// Every C++ type that RNTuple knows, except user classes.
#ifndef FEMTOBARN_TESTDATA_CONTAINERS
#define FEMTOBARN_TESTDATA_CONTAINERS

#include "random.hxx"

namespace fb {

inline void AddFundamentals(Recipe &r)
{
   r.Add<bool>("bool", "one bit");
   r.Add<char>("char");
   r.Add<std::byte>("byte");
   r.Add<std::int8_t>("i8");
   r.Add<std::uint8_t>("u8");
   r.Add<std::int16_t>("i16");
   r.Add<std::uint16_t>("u16");
   r.Add<std::int32_t>("i32");
   r.Add<std::uint32_t>("u32");
   r.Add<std::int64_t>("i64");
   r.Add<std::uint64_t>("u64");
   r.Add<long long>("long_long");
   r.Add<float>("f32");
   r.Add<double>("f64");
   r.Add<std::string>("string");
}

inline void AddEnums(Recipe &r)
{
   r.Add<fb::Color>("enum_int");
   r.Add<fb::Level>("enum_u8");
   r.Add<fb::Small>("enum_i8");
   r.Add<fb::Word>("enum_u16");
   r.Add<fb::Wide>("enum_i64");
   r.Add<fb::Huge>("enum_u64");
   r.Add<std::vector<fb::Color>>("enums");
   r.Add<std::atomic<bool>>("atomic_bool");
   r.Add<std::atomic<std::int64_t>>("atomic_i64");
   r.Add<std::atomic<float>>("atomic_f32");
}

inline void AddVectors(Recipe &r)
{
   r.Add<std::vector<float>>("vector_f32");
   r.Add<std::vector<std::uint8_t>>("vector_u8");
   r.Add<std::vector<std::byte>>("vector_byte");
   r.Add<std::vector<char>>("vector_char");
   r.Add<std::vector<bool>>("vector_bool");
   r.Add<std::vector<std::string>>("vector_string");
   r.Add<std::vector<std::vector<std::int32_t>>>("vector2");
   r.Add<std::vector<std::vector<std::vector<std::int16_t>>>>("vector3");
   r.Add<std::vector<std::vector<std::vector<std::vector<std::uint8_t>>>>>("vector4");
   r.Add<std::vector<std::vector<std::vector<std::vector<std::vector<std::string>>>>>>("vector5_string");
   r.Add<std::vector<std::vector<bool>>>("vector_vector_bool");
   r.Add<ROOT::RVec<float>>("rvec_f32");
   r.Add<ROOT::RVec<bool>>("rvec_bool");
   r.Add<ROOT::RVec<ROOT::RVec<double>>>("rvec2");
   r.Add<std::vector<ROOT::RVec<std::int64_t>>>("vector_rvec");
}

inline void AddArrays(Recipe &r)
{
   r.Add<std::array<float, 3>>("array3");
   r.Add<std::array<std::int32_t, 1>>("array1");
   r.Add<std::array<bool, 5>>("array_bool");
   r.Add<std::array<std::string, 2>>("array_string");
   r.Add<std::array<std::array<std::int16_t, 3>, 2>>("array23");
   r.Add<std::array<std::array<std::array<std::uint8_t, 2>, 3>, 2>>("array232");
   r.Add<std::array<std::vector<float>, 2>>("array_vector");
   r.Add<std::vector<std::array<float, 3>>>("vector_array");
   r.Add<std::vector<std::array<std::vector<std::int32_t>, 2>>>("vector_array_vector");
   r.Add<std::array<std::optional<std::int32_t>, 2>>("array_optional");
}

inline void AddProducts(Recipe &r)
{
   r.Add<std::pair<std::int32_t, float>>("pair");
   r.Add<std::pair<std::string, std::pair<bool, std::vector<std::int8_t>>>>("pair_nested");
   r.Add<std::tuple<std::int64_t, std::string, float>>("tuple");
   r.Add<std::tuple<std::vector<std::tuple<std::uint8_t, double>>, bool, std::array<float, 2>>>("tuple_nested");
   r.Add<std::tuple<std::int8_t>>("tuple_one");
   r.Add<std::vector<std::pair<std::string, std::int32_t>>>("vector_pair");
   r.Add<std::vector<std::tuple<float, std::vector<std::uint16_t>>>>("vector_tuple");
}

inline void AddNullables(Recipe &r)
{
   r.Add<std::optional<float>>("optional");
   r.Add<std::optional<std::string>>("optional_string");
   r.Add<std::optional<std::vector<std::int32_t>>>("optional_vector");
   r.Add<std::optional<std::optional<std::int32_t>>>("optional_optional");
   r.Add<std::vector<std::optional<std::vector<std::optional<std::string>>>>>("vector_optional_vector_optional");
   r.Add<std::unique_ptr<double>>("unique_ptr");
   r.Add<std::vector<std::unique_ptr<std::string>>>("vector_unique_ptr");
   r.Add<std::unique_ptr<std::unique_ptr<std::int32_t>>>("unique_ptr2");
}

inline void AddBitsets(Recipe &r)
{
   r.Add<std::bitset<1>>("bitset1");
   r.Add<std::bitset<7>>("bitset7");
   r.Add<std::bitset<8>>("bitset8");
   r.Add<std::bitset<9>>("bitset9");
   r.Add<std::bitset<64>>("bitset64");
   r.Add<std::bitset<65>>("bitset65");
   r.Add<std::bitset<130>>("bitset130");
   r.Add<std::vector<std::bitset<11>>>("vector_bitset");
   r.Add<std::array<std::bitset<3>, 2>>("array_bitset");
}

inline void AddAssociative(Recipe &r)
{
   r.Add<std::set<std::int32_t>>("set");
   r.Add<std::set<std::string>>("set_string");
   r.Add<std::set<std::pair<std::int32_t, std::int32_t>>>("set_pair");
   r.Add<std::set<std::vector<std::int32_t>>>("set_vector");
   r.Add<std::multiset<float>>("multiset");
   r.Add<std::unordered_set<std::int64_t>>("unordered_set");
   r.Add<std::unordered_multiset<std::string>>("unordered_multiset");
   r.Add<std::map<std::string, float>>("map");
   r.Add<std::map<std::int32_t, std::map<std::string, std::vector<double>>>>("map_map_vector");
   r.Add<std::multimap<std::int32_t, std::string>>("multimap");
   r.Add<std::unordered_map<std::uint32_t, fb::Point>>("unordered_map");
   r.Add<std::unordered_multimap<std::string, bool>>("unordered_multimap");
   r.Add<std::vector<std::map<std::int32_t, float>>>("vector_map");
}

inline void AddVariants(Recipe &r)
{
   r.Add<std::variant<std::int32_t, float>>("variant");
   r.Add<std::variant<std::string>>("variant_one");
   r.Add<std::variant<std::string, std::vector<std::int32_t>, std::optional<double>, bool>>("variant4");
   r.Add<std::vector<std::variant<std::int8_t, std::string>>>("vector_variant");
   r.Add<std::variant<std::vector<std::variant<float, std::string>>, std::int64_t>>("variant_vector_variant");
   r.Add<std::array<std::variant<std::uint8_t, double>, 2>>("array_variant");
   r.Add<std::optional<std::variant<std::int32_t, std::string>>>("optional_variant");
   r.Add<std::variant<std::int32_t, std::int32_t>>("variant_same");
   r.Add<std::variant<std::array<float, 2>, std::pair<std::int32_t, std::string>>>("variant_array_pair");
}

inline void WriteTypes(const std::string &path, const std::string &which, const RNTupleWriteOptions &options)
{
   Recipe r;
   if (which == "scalars") {
      AddFundamentals(r);
      AddEnums(r);
      AddBitsets(r);
   } else if (which == "lists") {
      AddVectors(r);
      AddArrays(r);
   } else if (which == "sums") {
      AddProducts(r);
      AddNullables(r);
      AddVariants(r);
   } else {
      AddAssociative(r);
   }
   WriteRecipe(std::move(r), which, path, 30, 13, options, which.size() + 100);
}

/// A variant can only be valueless after an exception in an assignment
struct Throws {
   operator std::string() const { throw std::runtime_error("on purpose"); }
};

inline void WriteValueless(const std::string &path)
{
   using P = std::pair<std::int32_t, std::string>;
   using V = std::variant<std::int32_t, P>;
   auto file = MakeFile(path);
   auto model = RNTupleModel::Create();
   auto one = model->MakeField<V>("one");
   auto many = model->MakeField<std::vector<V>>("many");
   auto writer = RNTupleWriter::Append(std::move(model), "valueless", *file, Options());
   auto spoil = [](V &v) {
      try {
         v.emplace<P>(1, Throws());
      } catch (const std::runtime_error &) {
      }
   };
   for (int i = 0; i < 9; ++i) {
      *one = i;
      many->assign(i % 4, V{P{i, "x"}});
      if (i % 3 == 1)
         spoil(*one);
      for (std::size_t k = 0; k < many->size(); ++k) {
         if ((i + k) % 2)
            spoil((*many)[k]);
      }
      writer->Fill();
      if (i == 4)
         writer->CommitCluster();
   }
}

} // namespace fb

#endif
