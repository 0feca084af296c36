// The 15 columns of the Analysis Grand Challenge in a NanoAOD, summed by RDataFrame. The lambda knows the types of the
// columns, whatever the source of the frame is, so that nothing is left to ROOT's just-in-time compiler.
#ifndef BENCH_AGC_SUMS_HXX
#define BENCH_AGC_SUMS_HXX

#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

using Floats = const ROOT::RVec<float> &;
using Ints = const ROOT::RVec<std::int32_t> &;
using Bools = const ROOT::RVec<bool> &;

const std::vector<std::string> kColumns = {
   "Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d", "Muon_pt",
   "Muon_eta", "Muon_tightId", "Muon_sip3d", "Muon_pfRelIso04_all", "Jet_pt",
   "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2", "Jet_jetId"};

/// The sums of all values of each column.
inline std::vector<double> Sums(ROOT::RDF::RNode frame)
{
   std::vector<std::array<double, 15>> slots(frame.GetNSlots());
   frame.ForeachSlot(
      [&slots](unsigned int slot, Floats ePt, Floats eEta, Ints eCut, Floats eSip, Floats mPt, Floats mEta, Bools mId,
               Floats mSip, Floats mIso, Floats jPt, Floats jEta, Floats jPhi, Floats jMass, Floats jTag, Ints jId) {
         auto &own = slots[slot];
         const auto add = [&own](std::size_t i, const auto &values) {
            double sum = 0;
            for (const auto value : values)
               sum += value;
            own[i] += sum;
         };
         add(0, ePt), add(1, eEta), add(2, eCut), add(3, eSip);
         add(4, mPt), add(5, mEta), add(6, mId), add(7, mSip), add(8, mIso);
         add(9, jPt), add(10, jEta), add(11, jPhi), add(12, jMass), add(13, jTag), add(14, jId);
      },
      kColumns);
   std::vector<double> all(15);
   for (const auto &one : slots) {
      for (std::size_t i = 0; i < all.size(); ++i)
         all[i] += one[i];
   }
   return all;
}

} // namespace bench

#endif
