// The columns of the Analysis Grand Challenge, summed by RDataFrame. Everything is compiled: the one lambda knows
// the types of its columns, so nothing is left to ROOT's just-in-time compiler.

#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace bench {

/// {make the frame, run it, and the 15 sums in the order below}
inline std::vector<double> AgcSums(const std::string &path, const std::string &name)
{
   using Floats = const ROOT::RVec<float> &;
   using Ints = const ROOT::RVec<std::int32_t> &;
   using Bools = const ROOT::RVec<bool> &;
   const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
   };
   std::array<double, 15> sums{};
   const auto add = [&sums](std::size_t i, const auto &values) {
      double sum = 0;
      for (const auto value : values)
         sum += value;
      sums[i] += sum;
   };

   const double start = now();
   ROOT::RDataFrame frame(name, path);
   const double made = now();
   frame.Foreach(
      [&add](Floats ePt, Floats eEta, Ints eCut, Floats eSip, Floats mPt, Floats mEta, Bools mId, Floats mSip,
             Floats mIso, Floats jPt, Floats jEta, Floats jPhi, Floats jMass, Floats jTag, Ints jId) {
         add(0, ePt), add(1, eEta), add(2, eCut), add(3, eSip);
         add(4, mPt), add(5, mEta), add(6, mId), add(7, mSip), add(8, mIso);
         add(9, jPt), add(10, jEta), add(11, jPhi), add(12, jMass), add(13, jTag), add(14, jId);
      },
      {"Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d", "Muon_pt", "Muon_eta", "Muon_tightId",
       "Muon_sip3d", "Muon_pfRelIso04_all", "Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2",
       "Jet_jetId"});
   std::vector<double> result{made - start, now() - made};
   result.insert(result.end(), sums.begin(), sums.end());
   return result;
}

} // namespace bench
