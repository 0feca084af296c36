// The classes of the test files. Built into a dictionary by make_rntuples.py.
#ifndef FEMTOBARN_TESTDATA_TYPES
#define FEMTOBARN_TESTDATA_TYPES

#include <ROOT/RVec.hxx>
#include <TNamed.h>
#include <TObject.h>
#include <RtypesCore.h>

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace fb {

// ---- enums
enum Color { kRed = 0, kGreen = 1, kBlue = -7 };
enum class Level : std::uint8_t { kLow = 1, kHigh = 255 };
enum class Small : std::int8_t { kMin = -128, kZero = 0, kMax = 127 };
enum class Word : std::uint16_t { kOne = 1, kMax = 65535 };
enum class Wide : std::int64_t { kMin = INT64_MIN, kZero = 0, kMax = INT64_MAX };
enum class Huge : std::uint64_t { kZero = 0, kMax = UINT64_MAX };

// ---- plain classes
struct Empty {};

struct Point {
   float x = 0;
   float y = 0;
};

struct Point3 : Point {
   double z = 0;
};

struct BaseA {
   std::int32_t id = 0;
   float weight = 0;
};

struct BaseB {
   std::int32_t id = 0;
   std::string tag;
};

/// Two bases, all three with a member of the same name
struct Derived : BaseA, BaseB {
   std::int32_t id = 0;
   std::vector<std::int16_t> values;
};

struct Deeper : Derived {
   std::int32_t id = 0;
   Point3 corner;
};

struct FromEmpty : Empty {
   std::int32_t x = 0;
};

struct Transient {
   std::int32_t kept = 0;
   std::int32_t dropped = 0; //!
   static std::int32_t shared;
};

struct Outer {
   struct Inner {
      std::int32_t a;
      std::vector<float> b;
      Inner() : a(0) {}
   };
   Inner one;
   std::vector<Inner> many;
   std::unique_ptr<Inner> maybe; // ROOT 6.40 takes no std::optional as a member of a class
   std::array<Inner, 2> two;
};

struct CArrays {
   std::int32_t line[3] = {};
   float grid[2][3] = {};
   std::uint8_t cube[2][2][2] = {};
   Point points[2];
   std::string words[2];
};

struct Members {
   bool flag = false;
   char letter = 0;
   std::byte raw{};
   std::bitset<70> bits;
   std::atomic<std::int32_t> counter{0};
   Level level = Level::kLow;
   Color color = kRed;
   std::unique_ptr<Point> owned;
   std::pair<std::int16_t, std::string> pair;
   std::tuple<float, std::vector<std::uint8_t>, bool> tuple;
   std::variant<std::int32_t, std::string, fb::Point> either;
   std::map<std::string, std::vector<std::int32_t>> index;
   std::set<std::int32_t> unique;
   ROOT::RVec<double> rvec;
   std::vector<bool> switches;
   Empty nothing;
};

class WithTObject : public TObject {
public:
   std::int32_t value = 0;
   ClassDefOverride(WithTObject, 3)
};

// ---- streamer mode
struct Node {
   virtual ~Node() = default;
   std::int32_t n = 0;
};

struct Leaf : public Node {
   std::string label;
};

/// Holds what RNTuple cannot split: polymorphic pointers
struct Blob {
   std::int32_t number = 0;
   std::vector<Node *> nodes;
   ~Blob() { Clear(); }
   Blob() = default;
   Blob(const Blob &) = delete;
   Blob &operator=(const Blob &) = delete;
   void Clear()
   {
      for (auto *node : nodes)
         delete node;
      nodes.clear();
   }
};

struct ForcedBlob {
   std::int32_t number = 0;
   std::string text;
   std::vector<float> values;
};

struct HoldsBlob {
   std::int32_t before = 0;
   ForcedBlob blob;
   std::int32_t after = 0;
};

// ---- a collection known to ROOT by its collection proxy only
template <typename T>
struct Bag {
   using ValueType = T;
   std::vector<T> items;
};

} // namespace fb

// ---- structure of arrays (not in a namespace: the dictionary option that names the record takes no ::)
struct FbHitRecord {
   float energy = 0;
   std::uint16_t channel = 0;
   std::vector<std::int32_t> samples;
   ClassDefNV(FbHitRecord, 2)
};

struct FbHitSoA {
   ROOT::RVec<float> energy;
   ROOT::RVec<std::uint16_t> channel;
   ROOT::RVec<std::vector<std::int32_t>> samples;
   ClassDefNV(FbHitSoA, 2)
};

inline std::int32_t fb::Transient::shared = 7;

#endif
