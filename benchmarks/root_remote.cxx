// The columns of the Analysis Grand Challenge in several files, summed by RDataFrame, of RNTuples and TTrees alike.
// Everything is compiled: the one lambda knows the types of its columns.

#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TROOT.h>

#include <array>
#include <string>
#include <vector>

namespace bench {

/// The 15 sums in the order below. With more than one thread, ROOT's implicit multi-threading is on.
inline std::vector<double>
AgcSumsOfFiles(const std::vector<std::string> &files, const std::string &name, unsigned int threads)
{
   using Floats = const ROOT::RVec<float> &;
   using Ints = const ROOT::RVec<std::int32_t> &;
   using Bools = const ROOT::RVec<bool> &;
   if (threads > 1 && !ROOT::IsImplicitMTEnabled())
      ROOT::EnableImplicitMT(threads);
   ROOT::RDataFrame frame(name, files);
   std::vector<std::array<double, 15>> sums(frame.GetNSlots());
   frame.ForeachSlot(
      [&sums](unsigned int slot, Floats ePt, Floats eEta, Ints eCut, Floats eSip, Floats mPt, Floats mEta, Bools mId,
              Floats mSip, Floats mIso, Floats jPt, Floats jEta, Floats jPhi, Floats jMass, Floats jTag, Ints jId) {
         auto &own = sums[slot];
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
      {"Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d", "Muon_pt", "Muon_eta", "Muon_tightId",
       "Muon_sip3d", "Muon_pfRelIso04_all", "Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2",
       "Jet_jetId"});
   std::vector<double> all(15);
   for (const auto &one : sums) {
      for (std::size_t i = 0; i < all.size(); ++i)
         all[i] += one[i];
   }
   return all;
}

} // namespace bench
