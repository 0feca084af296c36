// ROOT's own reading of an RNTuple: a compiled loop that loads every entry whole, and opening alone.
//
// Each function returns seconds. Nothing is multi-threaded; the reader's default thread that fetches the next
// cluster stays, and shows in the processor time.

#include <ROOT/RNTupleReader.hxx>

#include <chrono>
#include <string>
#include <vector>

namespace bench {

inline double Now()
{
   return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// {open, load all entries}
inline std::vector<double> Loop(const std::string &path, const std::string &name)
{
   const double start = Now();
   auto reader = ROOT::RNTupleReader::Open(name, path);
   auto entry = reader->GetModel().CreateEntry();
   const double opened = Now();
   const auto nEntries = reader->GetNEntries();
   for (ROOT::NTupleSize_t i = 0; i < nEntries; ++i)
      reader->LoadEntry(i, *entry);
   return {opened - start, Now() - opened};
}

/// {open, list the names of all fields}
inline std::vector<double> Open(const std::string &path, const std::string &name)
{
   const double start = Now();
   auto reader = ROOT::RNTupleReader::Open(name, path);
   const double opened = Now();
   const auto &descriptor = reader->GetDescriptor();
   std::vector<std::string> names;
   for (const auto &top : descriptor.GetTopLevelFields()) {
      names.emplace_back(top.GetFieldName());
      for (const auto &field : descriptor.GetFieldIterable(top))
         names.emplace_back(field.GetFieldName());
   }
   const double listed = Now();
   if (names.empty())
      throw std::runtime_error("no fields");
   return {opened - start, listed - opened};
}

} // namespace bench
