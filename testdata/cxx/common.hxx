// What all writers of the test files share.
#ifndef FEMTOBARN_TESTDATA_COMMON
#define FEMTOBARN_TESTDATA_COMMON

#include "types.hxx"

#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TFile.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace fb {

using ROOT::ENTupleColumnType;
using ROOT::RFieldBase;
using ROOT::RNTupleModel;
using ROOT::RNTupleWriteOptions;
using ROOT::RNTupleWriter;

/// splitmix64: the same numbers with every library and on every machine
struct Rng {
   std::uint64_t state;
   explicit Rng(std::uint64_t seed) : state(seed) {}
   std::uint64_t Next()
   {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      return z ^ (z >> 31);
   }
   std::uint64_t Below(std::uint64_t n) { return Next() % n; }
   double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
   double Range(double a, double b) { return a + (b - a) * Unit(); }
   double Gauss()
   {
      double u = 1. - Unit();
      return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * Unit());
   }
};

/// A file whose bytes do not depend on when and where it is written
inline std::unique_ptr<TFile> MakeFile(const std::string &path)
{
   return std::unique_ptr<TFile>(TFile::Open((path + "?reproducible=femtobarn").c_str(), "RECREATE"));
}

inline RNTupleWriteOptions Options(int compression = 505)
{
   RNTupleWriteOptions options;
   options.SetCompression(compression);
   options.SetUseImplicitMT(RNTupleWriteOptions::EImplicitMT::kOff);
   return options;
}

inline RNTupleWriteOptions SmallPages(int compression = 505)
{
   auto options = Options(compression);
   options.SetInitialUnzippedPageSize(16);
   options.SetMaxUnzippedPageSize(64);
   return options;
}

inline std::string Word_(Rng &rng)
{
   static const char *const words[] = {"", "a", "muon", "électron", "ντ", "jet", "\"quoted\"\n", "日本語", "x\\y", "longer than the others, by far"};
   return words[rng.Below(10)];
}

inline float F32(std::uint32_t bits)
{
   float v;
   std::memcpy(&v, &bits, 4);
   return v;
}

inline double F64(std::uint64_t bits)
{
   double v;
   std::memcpy(&v, &bits, 8);
   return v;
}

/// The floats that break readers: zeros, denormals, extremes, infinities, NaNs with payloads
inline const std::vector<float> &OddFloats()
{
   static const std::vector<float> values{0.f, -0.f, 1.f, -1.f, F32(1), F32(0x80000001), F32(0x007fffff), F32(0x00800000),
                                          F32(0x7f7fffff), F32(0xff7fffff), F32(0x7f800000), F32(0xff800000),
                                          F32(0x7fc00000), F32(0xffc00001), F32(0x7f800001), 3.14159274f, 65504.f, 1e-7f};
   return values;
}

inline const std::vector<double> &OddDoubles()
{
   static const std::vector<double> values{0., -0., 1., -1., F64(1), F64(0x8000000000000001), F64(0x000fffffffffffff),
                                           F64(0x0010000000000000), F64(0x7fefffffffffffff), F64(0xffefffffffffffff),
                                           F64(0x7ff0000000000000), F64(0xfff0000000000000), F64(0x7ff8000000000000),
                                           F64(0xfff8000000000001), F64(0x7ff0000000000001), 3.141592653589793, 1e-320, 0.1};
   return values;
}

} // namespace fb

#endif
