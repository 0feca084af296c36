// Fills a value of any type with odd and random content, so that a field needs one line only.
#ifndef FEMTOBARN_TESTDATA_RANDOM
#define FEMTOBARN_TESTDATA_RANDOM

#include "common.hxx"

#include <functional>
#include <type_traits>

namespace fb {

template <typename T>
void Randomize(T &value, Rng &rng);

/// The length of a collection: empty often, long now and then
inline std::size_t Length(Rng &rng)
{
   const auto u = rng.Below(10);
   return u < 3 ? 0 : u < 9 ? 1 + rng.Below(3) : 7;
}

template <typename T>
void RandomNumber(T &v, Rng &rng)
{
   if constexpr (std::is_same_v<T, bool>) {
      v = rng.Below(2);
   } else if constexpr (std::is_same_v<T, float>) {
      v = rng.Below(3) ? static_cast<float>(rng.Gauss()) : OddFloats()[rng.Below(OddFloats().size())];
   } else if constexpr (std::is_same_v<T, double>) {
      v = rng.Below(3) ? rng.Gauss() : OddDoubles()[rng.Below(OddDoubles().size())];
   } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> n;
      RandomNumber(n, rng);
      v = static_cast<T>(n);
   } else {
      const auto u = rng.Below(8);
      v = u == 0   ? std::numeric_limits<T>::min()
          : u == 1 ? std::numeric_limits<T>::max()
          : u == 2 ? static_cast<T>(rng.Next())
                   : static_cast<T>(rng.Below(100));
   }
}

/// Keys of sets and maps: no NaN
template <typename T>
T RandomKey(Rng &rng)
{
   T key{};
   if constexpr (std::is_floating_point_v<T>)
      key = static_cast<T>(rng.Below(20)) / 4 - 2;
   else
      Randomize(key, rng);
   return key;
}

template <typename T, typename = void>
struct IsSet : std::false_type {};
template <typename T>
struct IsSet<T, std::void_t<typename T::key_type>>
   : std::bool_constant<std::is_same_v<typename T::key_type, typename T::value_type>> {};
template <typename T, typename = void>
struct IsMap : std::false_type {};
template <typename T>
struct IsMap<T, std::void_t<typename T::mapped_type>> : std::true_type {};
template <typename T, typename = void>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<T, std::void_t<decltype(std::declval<T>().push_back(std::declval<typename T::value_type>()))>>
   : std::true_type {};

/// Classes say themselves how they are filled
template <typename T>
struct Members_ {
   static constexpr bool known = false;
};

template <typename T>
struct Special {
   static constexpr bool known = false;
};
template <>
struct Special<std::string> {
   static constexpr bool known = true;
   static void Fill(std::string &v, Rng &rng) { v = Word_(rng); }
};
template <>
struct Special<std::byte> {
   static constexpr bool known = true;
   static void Fill(std::byte &v, Rng &rng) { v = static_cast<std::byte>(rng.Next()); }
};
template <std::size_t N>
struct Special<std::bitset<N>> {
   static constexpr bool known = true;
   static void Fill(std::bitset<N> &v, Rng &rng)
   {
      for (std::size_t i = 0; i < N; ++i)
         v[i] = rng.Below(2);
   }
};
template <typename T, std::size_t N>
struct Special<std::array<T, N>> {
   static constexpr bool known = true;
   static void Fill(std::array<T, N> &v, Rng &rng)
   {
      for (auto &item : v)
         Randomize(item, rng);
   }
};
template <typename T, std::size_t N>
struct Special<T[N]> {
   static constexpr bool known = true;
   static void Fill(T (&v)[N], Rng &rng)
   {
      for (auto &item : v)
         Randomize(item, rng);
   }
};
template <typename A, typename B>
struct Special<std::pair<A, B>> {
   static constexpr bool known = true;
   static void Fill(std::pair<A, B> &v, Rng &rng)
   {
      Randomize(v.first, rng);
      Randomize(v.second, rng);
   }
};
template <typename... Ts>
struct Special<std::tuple<Ts...>> {
   static constexpr bool known = true;
   static void Fill(std::tuple<Ts...> &v, Rng &rng)
   {
      std::apply([&](auto &...items) { (Randomize(items, rng), ...); }, v);
   }
};
template <typename T>
struct Special<std::optional<T>> {
   static constexpr bool known = true;
   static void Fill(std::optional<T> &v, Rng &rng)
   {
      v.reset();
      if (rng.Below(3))
         Randomize(v.emplace(), rng);
   }
};
template <typename T>
struct Special<std::unique_ptr<T>> {
   static constexpr bool known = true;
   static void Fill(std::unique_ptr<T> &v, Rng &rng)
   {
      v.reset();
      if (rng.Below(3)) {
         v = std::make_unique<T>();
         Randomize(*v, rng);
      }
   }
};
template <typename T>
struct Special<std::atomic<T>> {
   static constexpr bool known = true;
   static void Fill(std::atomic<T> &v, Rng &rng)
   {
      T plain;
      Randomize(plain, rng);
      v = plain;
   }
};
template <typename... Ts>
struct Special<std::variant<Ts...>> {
   static constexpr bool known = true;
   template <std::size_t I>
   static void Try(std::variant<Ts...> &v, std::size_t index, Rng &rng)
   {
      if (index == I)
         Randomize(v.template emplace<I>(), rng);
      else if constexpr (I + 1 < sizeof...(Ts))
         Try<I + 1>(v, index, rng);
   }
   static void Fill(std::variant<Ts...> &v, Rng &rng) { Try<0>(v, rng.Below(sizeof...(Ts)), rng); }
};

template <typename T>
void RandomCollection(T &value, Rng &rng)
{
   const auto n = Length(rng);
   value.clear();
   for (std::size_t i = 0; i < n; ++i) {
      if constexpr (IsMap<T>::value) {
         typename T::mapped_type mapped{};
         Randomize(mapped, rng);
         value.emplace(RandomKey<typename T::key_type>(rng), std::move(mapped));
      } else if constexpr (IsSet<T>::value) {
         value.insert(RandomKey<typename T::key_type>(rng));
      } else {
         typename T::value_type item{};
         Randomize(item, rng);
         value.push_back(std::move(item));
      }
   }
}

template <typename T>
void Randomize(T &value, Rng &rng)
{
   if constexpr (Special<T>::known)
      Special<T>::Fill(value, rng);
   else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      RandomNumber(value, rng);
   else if constexpr (IsMap<T>::value || IsSet<T>::value || IsVector<T>::value)
      RandomCollection(value, rng);
   else
      Members_<T>::Fill(value, rng);
}

template <>
struct Members_<Point> {
   static void Fill(Point &v, Rng &rng)
   {
      Randomize(v.x, rng);
      Randomize(v.y, rng);
   }
};

/// A model together with what fills its fields
struct Recipe {
   using Fill_t = std::function<void(ROOT::REntry &, Rng &)>;
   std::unique_ptr<RNTupleModel> model = RNTupleModel::Create();
   std::vector<Fill_t> fills;
   std::vector<std::function<void(ROOT::REntry &)>> zeros; ///< ROOT leaves arrays as the memory was

   template <typename T>
   void Add(const std::string &name, const std::string &description = "")
   {
      auto field = std::make_unique<ROOT::RField<T>>(name);
      field->SetDescription(description);
      AddField<T>(std::move(field));
   }
   /// By the type's name: where ROOT picks the field class at run time
   template <typename T>
   void AddNamed(const std::string &name, const std::string &type)
   {
      AddField<T>(RFieldBase::Create(name, type).Unwrap());
   }
   template <typename T>
   void AddField(std::unique_ptr<RFieldBase> field)
   {
      const std::string name = field->GetFieldName();
      model->AddField(std::move(field));
      Filled<T>(name);
   }
   template <typename T>
   void Filled(const std::string &name)
   {
      fills.emplace_back([name](ROOT::REntry &entry, Rng &rng) {
         Randomize(*static_cast<T *>(entry.GetPtr<void>(name).get()), rng);
      });
      if constexpr (std::is_copy_assignable_v<T>) {
         zeros.emplace_back([name](ROOT::REntry &entry) { *static_cast<T *>(entry.GetPtr<void>(name).get()) = T(); });
      }
   }
   void Fill(ROOT::REntry &entry, Rng &rng) const
   {
      for (const auto &fill : fills)
         fill(entry, rng);
   }
};

/// Writes `entries` entries, the first one of zeros and empties, in clusters of `perCluster`
inline void WriteRecipe(Recipe recipe, const std::string &ntuple, const std::string &path, int entries, int perCluster,
                        const RNTupleWriteOptions &options, std::uint64_t seed)
{
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(std::move(recipe.model), ntuple, *file, options);
   auto entry = writer->CreateEntry();
   for (const auto &zero : recipe.zeros)
      zero(*entry);
   Rng rng(seed);
   for (int i = 0; i < entries; ++i) {
      if (i > 0)
         recipe.Fill(*entry, rng);
      writer->Fill(*entry);
      if (i % perCluster == perCluster - 1)
         writer->CommitCluster();
   }
}

} // namespace fb

#endif
