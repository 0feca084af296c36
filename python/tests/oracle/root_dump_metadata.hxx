// Schema, clusters and attribute sets as JSON.
#ifndef FEMTOBARN_ROOT_DUMP_METADATA
#define FEMTOBARN_ROOT_DUMP_METADATA

#include "root_dump_values.hxx"

namespace oracle {

// ---------------------------------------------------------------- metadata

inline const char *RoleName(ENTupleStructure s)
{
   switch (s) {
   case ENTupleStructure::kPlain: return "plain";
   case ENTupleStructure::kCollection: return "collection";
   case ENTupleStructure::kRecord: return "record";
   case ENTupleStructure::kVariant: return "variant";
   case ENTupleStructure::kStreamer: return "streamer";
   default: return "unknown";
   }
}

inline void Key(std::string &out, const char *name)
{
   if (out.back() != '{' && out.back() != '[')
      out += ',';
   out += '"';
   out += name;
   out += "\":";
}

inline void Num(std::string &out, const char *name, std::uint64_t v)
{
   Key(out, name);
   out += std::to_string(v);
}

inline void Str(std::string &out, const char *name, const std::string &v)
{
   Key(out, name);
   PutString(out, v);
}

inline void DumpColumn(std::string &out, const ROOT::RColumnDescriptor &column)
{
   out += '{';
   Num(out, "id", column.GetLogicalId());
   Num(out, "physical", column.GetPhysicalId());
   Str(out, "type", ROOT::Internal::RColumnElementBase::GetColumnTypeName(column.GetType()));
   Num(out, "bits", column.GetBitsOnStorage());
   Num(out, "index", column.GetIndex());
   Num(out, "representation", column.GetRepresentationIndex());
   if (column.GetFirstElementIndex() > 0)
      Num(out, "first_element", column.GetFirstElementIndex());
   if (column.IsSuppressedDeferredColumn()) {
      Key(out, "suppressed_deferred");
      out += "true";
   }
   if (auto range = column.GetValueRange()) {
      Key(out, "range");
      out += '[';
      PutDouble(out, range->fMin);
      out += ',';
      PutDouble(out, range->fMax);
      out += ']';
   }
   out += '}';
}

inline void DumpSchema(std::string &out, const RNTupleDescriptor &desc, const RFieldDescriptor &field, bool &first)
{
   out += first ? "\n  {" : ",\n  {";
   first = false;
   Num(out, "id", field.GetId());
   if (field.GetParentId() != desc.GetFieldZeroId())
      Num(out, "parent", field.GetParentId());
   Str(out, "name", field.GetFieldName());
   Str(out, "type", field.GetTypeName());
   if (!field.GetTypeAlias().empty())
      Str(out, "alias", field.GetTypeAlias());
   if (!field.GetFieldDescription().empty())
      Str(out, "description", field.GetFieldDescription());
   Str(out, "role", RoleName(field.GetStructure()));
   if (field.GetNRepetitions() > 0)
      Num(out, "repetitions", field.GetNRepetitions());
   if (field.GetFieldVersion() > 0)
      Num(out, "field_version", field.GetFieldVersion());
   if (field.GetTypeVersion() > 0)
      Num(out, "type_version", field.GetTypeVersion());
   if (field.GetTypeChecksum())
      Num(out, "checksum", *field.GetTypeChecksum());
   if (field.IsProjectedField())
      Num(out, "projection_source", field.GetProjectionSourceId());
   if (field.IsSoACollection()) {
      Key(out, "soa");
      out += "true";
   }
   Key(out, "columns");
   out += '[';
   bool firstColumn = true;
   for (auto id : field.GetLogicalColumnIds()) {
      if (!firstColumn)
         out += ',';
      firstColumn = false;
      DumpColumn(out, desc.GetColumnDescriptor(id));
   }
   out += "]}";
   for (auto id : field.GetLinkIds())
      DumpSchema(out, desc, desc.GetFieldDescriptor(id), first);
}

inline void DumpRange(std::string &out, const ROOT::RClusterDescriptor &cluster, DescriptorId_t id)
{
   const auto &range = cluster.GetColumnRange(id);
   out += '{';
   Num(out, "column", id);
   Num(out, "first", range.GetFirstElementIndex());
   Num(out, "elements", range.GetNElements());
   if (range.IsSuppressed()) {
      out += ",\"suppressed\":true}";
      return;
   }
   if (range.GetCompressionSettings())
      Num(out, "compression", *range.GetCompressionSettings());
   Key(out, "pages"); // [elements, offset, bytes, has checksum]
   out += '[';
   bool first = true;
   for (const auto &page : cluster.GetPageRange(id).GetPageInfos()) {
      if (!first)
         out += ',';
      first = false;
      const auto &locator = page.GetLocator();
      out += '[' + std::to_string(page.GetNElements()) + ',';
      if (locator.GetType() == ROOT::RNTupleLocator::kTypePageZero)
         out += "\"zero\"";
      else
         out += std::to_string(locator.GetPosition<std::uint64_t>());
      out += ',' + std::to_string(locator.GetNBytesOnStorage()) + ',' + (page.HasChecksum() ? "true]" : "false]");
   }
   out += "]}";
}

inline void DumpClusters(std::string &out, const RNTupleDescriptor &desc)
{
   bool first = true;
   for (const auto &group : desc.GetClusterGroupIterable()) {
      for (auto id : group.GetClusterIds()) {
         const auto &cluster = desc.GetClusterDescriptor(id);
         out += first ? "\n  {" : ",\n  {";
         first = false;
         Num(out, "id", id);
         Num(out, "group", group.GetId());
         Num(out, "first_entry", cluster.GetFirstEntryIndex());
         Num(out, "entries", cluster.GetNEntries());
         Key(out, "columns");
         out += '[';
         std::set<DescriptorId_t> ids;
         for (const auto &range : cluster.GetColumnRangeIterable())
            ids.insert(range.GetPhysicalColumnId());
         bool firstColumn = true;
         for (auto column : ids) {
            if (!firstColumn)
               out += ',';
            firstColumn = false;
            DumpRange(out, cluster, column);
         }
         out += "]}";
      }
   }
}

inline std::vector<std::string> FieldNames(const RNTupleDescriptor &desc)
{
   std::vector<std::string> names;
   for (const auto &field : desc.GetTopLevelFields())
      names.push_back(field.GetFieldName());
   return names;
}

// ---------------------------------------------------------------- attribute sets

inline std::string DumpAttributes(ROOT::RNTupleReader &reader)
{
   std::string out = "{";
   bool firstSet = true;
   for (const auto &info : reader.GetDescriptor().GetAttrSetIterable()) {
      auto set = reader.OpenAttributeSet(info.GetName());
      out += firstSet ? "\n  " : ",\n  ";
      firstSet = false;
      PutString(out, info.GetName());
      out += ":[";
      auto entry = set->CreateEntry();
      for (std::size_t i = 0; i < set->GetNEntries(); ++i) {
         auto range = set->LoadEntry(i, *entry);
         out += i ? ",{" : "{";
         Num(out, "start", range.GetStart());
         Num(out, "length", range.GetLength());
         Key(out, "values");
         out += '{';
         bool first = true;
         for (const auto &value : *entry) {
            if (!first)
               out += ',';
            first = false;
            PutString(out, value.GetField().GetFieldName());
            out += ':';
            Dump(out, value.GetField(), value.GetPtr<void>().get());
         }
         out += "}}";
      }
      out += ']';
   }
   return out + '}';
}

} // namespace oracle

#endif
