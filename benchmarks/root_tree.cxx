// ROOT's own reading of all columns of a TTree: RDataFrame that touches each value, and the bare loop over entries.
//
// Everything is compiled: each column is an action of its own that knows the column's type, so nothing is left to
// ROOT's just-in-time compiler. Each function returns seconds. Nothing is multi-threaded.

#include <ROOT/RDF/RActionImpl.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TFile.h>
#include <TTree.h>
#include <TTreeReader.h>

#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

inline double Now()
{
   return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// An action that looks at the first value that each entry has: RDataFrame has read the others then.
template <typename T>
class Touch : public ROOT::Detail::RDF::RActionImpl<Touch<T>> {
public:
   using Result_t = double;

   std::shared_ptr<double> GetResultPtr() const { return fSum; }
   void Initialize() {}
   void InitTask(TTreeReader *, unsigned int) {}
   void Finalize() {}
   std::string GetActionName() const { return "Touch"; }
   void Exec(unsigned int, const T &value) { *fSum += First(value); }

private:
   std::shared_ptr<double> fSum = std::make_shared<double>(0);

   template <typename U>
   static double First(const U &value)
   {
      return static_cast<double>(value);
   }
   template <typename U>
   static double First(const ROOT::RVec<U> &values)
   {
      return values.empty() ? 0 : static_cast<double>(values.front());
   }
};

template <typename T>
ROOT::RDF::RResultPtr<double> Book(ROOT::RDataFrame &frame, const std::string &column)
{
   return frame.Book<T>(Touch<T>(), {column});
}

/// {make the frame and its actions, run it}
inline std::vector<double> TouchAll(const std::string &path, const std::string &name)
{
   using Maker = ROOT::RDF::RResultPtr<double> (*)(ROOT::RDataFrame &, const std::string &);
   static const std::map<std::string, Maker> makers{
      {"Bool_t", Book<bool>},
      {"UChar_t", Book<unsigned char>},
      {"Int_t", Book<int>},
      {"UInt_t", Book<unsigned int>},
      {"ULong64_t", Book<ULong64_t>},
      {"Float_t", Book<float>},
      {"ROOT::VecOps::RVec<Bool_t>", Book<ROOT::RVec<bool>>},
      {"ROOT::VecOps::RVec<UChar_t>", Book<ROOT::RVec<unsigned char>>},
      {"ROOT::VecOps::RVec<Int_t>", Book<ROOT::RVec<int>>},
      {"ROOT::VecOps::RVec<Float_t>", Book<ROOT::RVec<float>>},
   };
   const double start = Now();
   ROOT::RDataFrame frame(name, path);
   std::vector<ROOT::RDF::RResultPtr<double>> results;
   for (const auto &column : frame.GetColumnNames()) {
      const auto type = frame.GetColumnType(column);
      const auto maker = makers.find(type);
      if (maker == makers.end())
         throw std::runtime_error("no action is made for " + column + ", which is " + type);
      results.push_back(maker->second(frame, column));
   }
   const double made = Now();
   double sum = 0;
   for (auto &result : results)
      sum += *result;
   return {made - start, Now() - made};
}

/// {open, load all entries}
inline std::vector<double> TreeLoop(const std::string &path, const std::string &name)
{
   const double start = Now();
   std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
   auto *tree = file->Get<TTree>(name.c_str());
   const double opened = Now();
   const auto nEntries = tree->GetEntries();
   for (Long64_t i = 0; i < nEntries; ++i)
      tree->GetEntry(i);
   return {opened - start, Now() - opened};
}

} // namespace bench
