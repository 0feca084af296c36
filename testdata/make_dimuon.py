"""Writes dimuon.root: a small RNTuple "Events" of simulated muons, for the demonstration.

    make_dimuon.py [OUTPUT]

It needs ROOT's Python module. The schema is the one that ROOT's importer makes from a NanoAOD-like TTree: one untyped
collection of records holds the data, and the collection columns and their size are projections of it. The muon pairs
come from J/psi, psi(2S), the Upsilons and the Z over a falling continuum; the numbers are toys, not physics.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

WRITER = r"""
#include "common.hxx"
#include <TLorentzVector.h>

namespace fb {

struct Peak { double mass, width, share; };

inline double DimuonMass(Rng &rng)
{
   static const std::vector<Peak> peaks{{3.0969, 0.035, 0.085}, {3.6861, 0.040, 0.008}, {9.4603, 0.090, 0.040},
                                        {10.0233, 0.095, 0.013}, {10.3552, 0.100, 0.010}, {91.1876, 2.6, 0.075},
                                        {0.7800, 0.02, 0.010}, {1.0195, 0.015, 0.012}};
   double u = rng.Unit();
   for (const auto &peak : peaks) {
      if (u < peak.share) {
         double gauss = peak.mass + peak.width * rng.Gauss();
         return gauss > 0.25 ? gauss : peak.mass;
      }
      u -= peak.share;
   }
   return 0.25 * std::pow(180. / 0.25, std::pow(rng.Unit(), 1.7)); // falling
}

inline TLorentzVector Boosted(double mass, Rng &rng)
{
   const double pt = -(4. + 0.35 * mass) * std::log(1. - rng.Unit()) + 1.;
   const double rapidity = 1.1 * rng.Gauss();
   const double phi = rng.Range(-M_PI, M_PI);
   const double mt = std::sqrt(mass * mass + pt * pt);
   return TLorentzVector(pt * std::cos(phi), pt * std::sin(phi), mt * std::sinh(rapidity), mt * std::cosh(rapidity));
}

struct Muon { float pt, eta, phi, mass; std::int32_t charge; };

inline Muon MakeMuon(const TLorentzVector &p, int charge)
{
   return {static_cast<float>(p.Pt()), static_cast<float>(p.Eta()), static_cast<float>(p.Phi()), 0.105658375f, charge};
}

inline std::vector<Muon> Pair(Rng &rng)
{
   const double muon = 0.105658375;
   const double mass = DimuonMass(rng);
   const auto parent = Boosted(mass, rng);
   const double momentum = std::sqrt(std::max(0., mass * mass / 4 - muon * muon));
   const double cosTheta = rng.Range(-1, 1), phi = rng.Range(-M_PI, M_PI);
   const double sinTheta = std::sqrt(1 - cosTheta * cosTheta);
   TLorentzVector one(momentum * sinTheta * std::cos(phi), momentum * sinTheta * std::sin(phi), momentum * cosTheta,
                      mass / 2);
   TLorentzVector two(-one.Px(), -one.Py(), -one.Pz(), mass / 2);
   one.Boost(parent.BoostVector());
   two.Boost(parent.BoostVector());
   const int charge = rng.Below(2) ? 1 : -1;
   return {MakeMuon(one, charge), MakeMuon(two, -charge)};
}

inline std::vector<Muon> Event(Rng &rng)
{
   std::vector<Muon> muons;
   const double kind = rng.Unit();
   if (kind < 0.82)
      muons = Pair(rng);
   if (kind > 0.72) { // further muons that belong to nothing
      for (std::uint64_t n = rng.Below(3); n > 0; --n) {
         TLorentzVector p;
         p.SetPtEtaPhiM(2. - 5. * std::log(1. - rng.Unit()), 1.2 * rng.Gauss(), rng.Range(-M_PI, M_PI), 0.105658375);
         muons.push_back(MakeMuon(p, rng.Below(2) ? 1 : -1));
      }
   }
   std::sort(muons.begin(), muons.end(), [](const Muon &a, const Muon &b) { return a.pt > b.pt; });
   return muons;
}

template <typename T>
void ProjectMember(RNTupleModel &model, const std::string &name)
{
   auto field = std::make_unique<ROOT::RField<ROOT::RVec<T>>>(name);
   field->SetDescription("the muons' " + name.substr(5));
   model.AddProjectedField(std::move(field), [name](const std::string &path) {
      return path == name ? std::string("_collection0") : "_collection0._0." + name;
   }).ThrowOnError();
}

inline std::unique_ptr<RNTupleModel> DimuonModel()
{
   std::vector<std::unique_ptr<RFieldBase>> members;
   for (const char *name : {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass"})
      members.emplace_back(std::make_unique<ROOT::RField<float>>(name));
   members.emplace_back(std::make_unique<ROOT::RField<std::int32_t>>("Muon_charge"));
   auto record = std::make_unique<ROOT::RRecordField>("_0", std::move(members));
   auto model = RNTupleModel::Create();
   model->SetDescription("toy muons with resonances over a falling background");
   model->MakeField<std::uint32_t>("run");
   model->MakeField<std::uint64_t>("event");
   model->AddField(ROOT::RVectorField::CreateUntyped("_collection0", std::move(record)));
   model->AddProjectedField(std::make_unique<ROOT::RField<ROOT::RNTupleCardinality<std::uint32_t>>>("nMuon"),
                            [](const std::string &) { return std::string("_collection0"); }).ThrowOnError();
   for (const char *name : {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass"})
      ProjectMember<float>(*model, name);
   ProjectMember<std::int32_t>(*model, "Muon_charge");
   return model;
}

inline void WriteDimuon(const std::string &path, int events)
{
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(DimuonModel(), "Events", *file, Options(505));
   auto entry = writer->CreateEntry();
   Rng rng(20240607);
   auto memory = entry->GetPtr<void>("_collection0");
   for (int i = 0; i < events; ++i) {
      *entry->GetPtr<std::uint32_t>("run") = 1 + i / 4000;
      *entry->GetPtr<std::uint64_t>("event") = 1000 + i;
      *static_cast<std::vector<Muon> *>(memory.get()) = Event(rng);
      writer->Fill(*entry);
      if (i % 4000 == 3999)
         writer->CommitCluster();
   }
}

} // namespace fb
"""


def main() -> int:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("dimuon.root")
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    ROOT.gInterpreter.AddIncludePath(str(Path(__file__).with_name("cxx")))
    if not ROOT.gInterpreter.Declare(WRITER):
        raise RuntimeError("the writer does not compile with this ROOT")
    ROOT.fb.WriteDimuon(str(output), 12000)
    print(f"{output}: {output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
