// Dumps an RNTuple, as ROOT itself reads it, to JSON: metadata and every value, bit for bit.
//
// Two ways of reading are offered for every top-level field:
//  * "structural": the reading field is built from the on-disk schema alone (records for classes, vectors for sets and
//    maps, the integer below an enum, bytes for streamer fields). It needs no dictionaries and keeps the on-disk order.
//  * "native": the C++ type named in the file, which needs its dictionary. The order in unordered containers is then the
//    container's.
// The conventions of the JSON are described in testdata/PROVENANCE.md.
#ifndef FEMTOBARN_ROOT_DUMP
#define FEMTOBARN_ROOT_DUMP

#include "root_dump_metadata.hxx"

namespace oracle {

inline void DumpFields(std::string &out, std::string &how, const ROOT::RNTuple &anchor, const RNTupleDescriptor &desc,
                       const std::vector<std::string> &names, const std::string &mode)
{
   bool first = true;
   for (const auto &name : names) {
      std::string values, used, error;
      for (const char *way : {"structural", "native"}) {
         if (mode != "auto" && mode != way)
            continue;
         try {
            values = DumpField(anchor, desc, name, std::string(way) == "structural");
            used = way;
            break;
         } catch (const std::exception &e) {
            error += std::string(error.empty() ? "" : " | ") + way + ": " + e.what();
         }
      }
      how += first ? "\n  " : ",\n  ";
      PutString(how, name);
      how += ':';
      PutString(how, used.empty() ? "error: " + error : used);
      if (used.empty())
         values = "null";
      out += first ? "\n  " : ",\n  ";
      PutString(out, name);
      out += ':' + values;
      first = false;
   }
}

/// mode: "auto" (structural where ROOT can, else native), "structural", "native", "metadata" (no values).
/// No field names: all of them.
inline std::string
DumpNTuple(const std::string &path, const std::string &ntuple, std::vector<std::string> names, const std::string &mode)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot open " + path);
   std::unique_ptr<ROOT::RNTuple> anchor(file->Get<ROOT::RNTuple>(ntuple.c_str()));
   if (!anchor)
      throw std::runtime_error("no RNTuple " + ntuple + " in " + path);
   auto reader = ROOT::RNTupleReader::Open(*anchor);
   const auto &desc = reader->GetDescriptor();
   if (names.empty())
      names = FieldNames(desc);
   std::string out = "{\n \"conventions\":1,\n \"file\":";
   PutString(out, path.substr(path.rfind('/') + 1));
   out += ",\n \"ntuple\":";
   PutString(out, ntuple);
   out += ",\n \"source\":\"ROOT reading\"";
   out += ",\n \"root_version\":";
   PutString(out, gROOT->GetVersion());
   out += ",\n \"name\":";
   PutString(out, desc.GetName());
   out += ",\n \"description\":";
   PutString(out, desc.GetDescription());
   out += ",\n \"entries\":" + std::to_string(desc.GetNEntries());
   out += ",\n \"schema\":[";
   bool first = true;
   for (const auto &field : desc.GetTopLevelFields())
      DumpSchema(out, desc, field, first);
   out += "],\n \"clusters\":[";
   DumpClusters(out, desc);
   out += "],\n \"attributes\":" + DumpAttributes(*reader);
   std::string how;
   std::string fields;
   if (mode != "metadata")
      DumpFields(fields, how, *anchor, desc, names, mode);
   out += ",\n \"read_as\":{" + how + "},\n \"fields\":{" + fields + "}\n}\n";
   return out;
}

} // namespace oracle

#endif
