// RDataFrame over columns of a NanoAOD: 15 sums, and the event loop of the Analysis Grand Challenge. Everything is
// compiled: lambdas know the types of their columns, whatever the source of the frame is.

#include "agc_sums.hxx"

#include <algorithm>
#include <cmath>

namespace bench {

constexpr int kBins = 25;

/// Histograms of one selection: HT with one b-tag, and the mass of three jets with two, for several weights.
struct Filled {
   std::array<std::array<double, kBins>, 22> bins{};
   void Fill(std::size_t histogram, double value, double weight)
   {
      const double at = (value - 50) / 20;
      if (at >= 0 && at < kBins)
         bins[histogram][static_cast<std::size_t>(at)] += weight;
   }
};

/// The mass of the three jets with the largest sum of pt vectors, one of them with a b-tag.
inline double TopMass(const std::vector<std::array<double, 4>> &jets, const std::vector<float> &tags)
{
   double best = -1, mass = 0;
   for (std::size_t a = 0; a < jets.size(); ++a)
      for (std::size_t b = a + 1; b < jets.size(); ++b)
         for (std::size_t c = b + 1; c < jets.size(); ++c) {
            if (std::max({tags[a], tags[b], tags[c]}) <= 0.5f)
               continue;
            std::array<double, 4> sum{};
            for (std::size_t k = 0; k < 4; ++k)
               sum[k] = jets[a][k] + jets[b][k] + jets[c][k];
            const double pt2 = sum[0] * sum[0] + sum[1] * sum[1];
            if (pt2 > best) {
               best = pt2;
               mass = std::sqrt(std::max(0., sum[3] * sum[3] - pt2 - sum[2] * sum[2]));
            }
         }
   return mass;
}

/// The event loop of the Analysis Grand Challenge with scaled jets, and variations of b-tags and of the scale as weights.
inline std::vector<double> Agc(ROOT::RDF::RNode frame)
{
   std::array<Filled, 2> all{};
   std::vector<std::array<double, 4>> jets;
   std::vector<float> tags, pts;
   frame.Foreach(
      [&](Floats ePt, Floats eEta, Ints eCut, Floats eSip, Floats mPt, Floats mEta, Bools mId, Floats mSip, Floats mIso,
          Floats jPt, Floats jEta, Floats jPhi, Floats jMass, Floats jTag, Ints jId) {
         int n = 0;
         for (std::size_t i = 0; i < ePt.size(); ++i)
            n += ePt[i] > 30 && std::abs(eEta[i]) < 2.1f && eCut[i] == 4 && eSip[i] < 4;
         for (std::size_t i = 0; i < mPt.size(); ++i)
            n += mPt[i] > 30 && std::abs(mEta[i]) < 2.1f && mId[i] && mSip[i] < 4 && mIso[i] < 0.15f;
         if (n != 1)
            return;
         for (std::size_t variation = 0; variation < all.size(); ++variation) {
            const float scale = variation == 0 ? 1.f : 1.03f;
            jets.clear(), tags.clear(), pts.clear();
            double ht = 0;
            int nTags = 0;
            for (std::size_t i = 0; i < jPt.size(); ++i) {
               const float pt = jPt[i] * scale;
               if (!(pt > 30 && std::abs(jEta[i]) < 2.4f && jId[i] == 6))
                  continue;
               const double px = pt * std::cos(jPhi[i]), py = pt * std::sin(jPhi[i]), pz = pt * std::sinh(jEta[i]);
               jets.push_back({px, py, pz, std::sqrt(px * px + py * py + pz * pz + double(jMass[i]) * jMass[i])});
               tags.push_back(jTag[i]);
               pts.push_back(pt);
               ht += pt;
               nTags += jTag[i] > 0.5f;
            }
            if (jets.size() < 4 || nTags == 0)
               continue;
            const double value = nTags == 1 ? ht : TopMass(jets, tags);
            const std::size_t first = nTags == 1 ? 0 : 11;
            Filled &filled = all[variation];
            filled.Fill(first, value, 1);
            for (std::size_t k = 0; k < 4; ++k) {
               const double change = 0.075 * pts[k] / 50;
               filled.Fill(first + 1 + 2 * k, value, 1 + change);
               filled.Fill(first + 2 + 2 * k, value, 1 - change);
            }
            filled.Fill(first + 9, value, 1.025);
            filled.Fill(first + 10, value, 0.975);
         }
      },
      kColumns);
   std::vector<double> result;
   for (const Filled &filled : all)
      for (const auto &bins : filled.bins)
         result.insert(result.end(), bins.begin(), bins.end());
   return result;
}

} // namespace bench
