// The ttbar analysis as a graph of RDataFrame. Its functions are compiled; they know the types of their columns.

#include <Math/QuantFuncMathCore.h>
#include <ROOT/RDFHelpers.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace agc {

using Floats = ROOT::RVec<float>;
using Doubles = ROOT::RVec<double>;
using Places = ROOT::RVec<std::size_t>;
using Names = std::vector<std::string>;
using ROOT::RDF::RNode;

/// What is booked for a sample: the number of events before the selection; for each region a histogram and the sum of
/// the observable, with their variations.
struct Booked {
   ROOT::RDF::RResultPtr<ULong64_t> events;
   std::vector<ROOT::RDF::Experimental::RResultMap<TH1D>> histograms;
   std::vector<ROOT::RDF::Experimental::RResultMap<double>> sums;
};

/// Whether an event has exactly one good electron or muon.
template <typename CutBased>
bool OneLepton(const Floats &ePt, const Floats &eEta, const CutBased &eCutBased, const Floats &eSip3d,
               const Floats &mPt, const Floats &mEta, const ROOT::RVec<bool> &mTightId, const Floats &mSip3d,
               const Floats &mIsolation)
{
   int n = 0;
   for (std::size_t i = 0; i < ePt.size(); ++i)
      n += ePt[i] > 30 && std::abs(eEta[i]) < 2.1f && eCutBased[i] == 4 && eSip3d[i] < 4;
   for (std::size_t i = 0; i < mPt.size(); ++i)
      n += mPt[i] > 30 && std::abs(mEta[i]) < 2.1f && mTightId[i] && mSip3d[i] < 4 && mIsolation[i] < 0.15f;
   return n == 1;
}

/// A factor for the pt of a jet, normally distributed; digits of the pt choose it from a thousand.
inline double Resolution(double pt)
{
   static const std::vector<double> factors = [] {
      std::vector<double> made;
      for (int i = 0; i < 1000; ++i)
         made.push_back(1 + ROOT::Math::gaussian_quantile(0.001 * i + 0.0005, 0.05));
      return made;
   }();
   return factors[static_cast<std::size_t>(pt * 1000) % 1000];
}

/// The pt of jets, varied.
inline ROOT::RVec<Doubles> VariedPts(const Doubles &pt)
{
   Doubles scaled(pt.size()), smeared(pt.size());
   for (std::size_t i = 0; i < pt.size(); ++i) {
      scaled[i] = pt[i] * 1.03;
      smeared[i] = pt[i] * Resolution(pt[i]);
   }
   return {scaled, smeared};
}

/// The weight, varied by the b tag of each of the first four good jets, and by the scale.
inline Doubles VariedWeights(std::size_t n, const Doubles &pt, const Places &good)
{
   Doubles weights;
   for (std::size_t i = 0; i < 4; ++i) {
      const double change = 0.075 * pt[good[i]] / 50;
      weights.push_back(1 + change);
      weights.push_back(1 - change);
   }
   weights.push_back(1 + 0.025);
   weights.push_back(1 - 0.025);
   weights.resize(n);
   return weights;
}

/// The mass of the three good jets that have the largest pt together. At least one of them must be a b jet.
inline double TrijetMass(const Doubles &pt, const Floats &eta, const Floats &phi, const Floats &mass,
                         const Floats &tag, const Places &good)
{
   struct Jet {
      double x, y, z, e;
      bool isB;
   };
   std::vector<Jet> jets;
   for (const auto i : good) {
      const double x = pt[i] * std::cos(double(phi[i])), y = pt[i] * std::sin(double(phi[i]));
      const double z = pt[i] * std::sinh(double(eta[i]));
      jets.push_back({x, y, z, std::sqrt(x * x + y * y + z * z + double(mass[i]) * mass[i]), tag[i] > 0.5f});
   }
   double largest = -1, mass2 = 0;
   for (std::size_t a = 0; a < jets.size(); ++a)
      for (std::size_t b = a + 1; b < jets.size(); ++b)
         for (std::size_t c = b + 1; c < jets.size(); ++c) {
            if (!jets[a].isB && !jets[b].isB && !jets[c].isB)
               continue;
            const double x = jets[a].x + jets[b].x + jets[c].x, y = jets[a].y + jets[b].y + jets[c].y;
            const double pt2 = x * x + y * y;
            if (pt2 > largest) {
               largest = pt2;
               const double z = jets[a].z + jets[b].z + jets[c].z, e = jets[a].e + jets[b].e + jets[c].e;
               mass2 = e * e - x * x - y * y - z * z;
            }
         }
   return std::sqrt(std::max(mass2, 0.));
}

/// Books the analysis of a sample: `pts` and `weights` are the names of its variations, of pt and of the weight.
template <typename CutBased, typename JetId>
Booked Book(RNode frame, const std::string &tag, const Names &pts, const Names &weights)
{
   RNode passing = frame.Filter(OneLepton<CutBased>, {"Electron_pt", "Electron_eta", "Electron_cutBased",
                                                      "Electron_sip3d", "Muon_pt", "Muon_eta", "Muon_tightId",
                                                      "Muon_sip3d", "Muon_pfRelIso04_all"});
   passing = passing.Define("pt", [](const Floats &pt) { return Doubles(pt.begin(), pt.end()); }, {"Jet_pt"});
   if (!pts.empty())
      passing = passing.Vary("pt", VariedPts, {"pt"}, pts);
   const auto good = [](const Doubles &pt, const Floats &eta, const JetId &id) {
      Places found;
      for (std::size_t i = 0; i < pt.size(); ++i)
         if (pt[i] > 30 && std::abs(eta[i]) < 2.4f && id[i] == 6)
            found.push_back(i);
      return found;
   };
   const auto tagged = [](const Floats &tags, const Places &good) {
      return std::count_if(good.begin(), good.end(), [&tags](std::size_t i) { return tags[i] > 0.5f; });
   };
   RNode jets = passing.Define("good", good, {"pt", "Jet_eta", "Jet_jetId"})
                   .Filter([](const Places &good) { return good.size() >= 4; }, {"good"})
                   .Define("n_b", tagged, {tag, "good"})
                   .Define("weight", [] { return 1.; });
   if (!weights.empty()) {
      const auto varied = [n = weights.size()](const Doubles &pt, const Places &good) {
         return VariedWeights(n, pt, good);
      };
      jets = jets.Vary("weight", varied, {"pt", "good"}, weights);
   }
   const auto sum = [](const Doubles &pt, const Places &good) {
      double total = 0;
      for (const auto i : good)
         total += pt[i];
      return total;
   };
   RNode one = jets.Filter([](long n) { return n == 1; }, {"n_b"}).Define("observable", sum, {"pt", "good"});
   RNode two = jets.Filter([](long n) { return n >= 2; }, {"n_b"})
                  .Define("observable", TrijetMass, {"pt", "Jet_eta", "Jet_phi", "Jet_mass", tag, "good"});
   Booked booked{frame.Count(), {}, {}};
   for (RNode region : {one, two}) {
      const ROOT::RDF::TH1DModel model("", "", 25, 50, 550);
      auto histogram = region.Histo1D<double, double>(model, "observable", "weight");
      booked.histograms.push_back(ROOT::RDF::Experimental::VariationsFor(histogram));
      booked.sums.push_back(ROOT::RDF::Experimental::VariationsFor(region.Sum<double>("observable")));
   }
   return booked;
}

} // namespace agc
