// Values as JSON, and the columns of values of one top-level field.
#ifndef FEMTOBARN_ROOT_DUMP_VALUES
#define FEMTOBARN_ROOT_DUMP_VALUES

#include "root_dump_fields.hxx"
#include "root_dump_json.hxx"

namespace oracle {

// ---------------------------------------------------------------- values

inline void Dump(std::string &out, const RFieldBase &field, const void *ptr);

inline void DumpChildren(std::string &out, const std::vector<RFieldBase::RValue> &items)
{
   out += '[';
   bool first = true;
   for (const auto &item : items) {
      if (!first)
         out += ',';
      first = false;
      Dump(out, item.GetField(), item.GetPtr<void>().get());
   }
   out += ']';
}

inline std::vector<RFieldBase::RValue> Split(const RFieldBase &field, const void *ptr)
{
   auto alias = std::shared_ptr<void>(const_cast<void *>(ptr), [](void *) {});
   return field.SplitValue(const_cast<RFieldBase &>(field).BindValue(alias));
}

inline bool IsPairOrTuple(const std::vector<const RFieldBase *> &subs, const std::string &type)
{
   if (StartsWith(type, "std::pair<") || StartsWith(type, "std::tuple<"))
      return true;
   if (!type.empty() || subs.empty())
      return false;
   for (std::size_t i = 0; i < subs.size(); ++i) {
      if (subs[i]->GetFieldName() != "_" + std::to_string(i))
         return false;
   }
   return true;
}

inline void DumpMembers(std::string &out, const std::vector<const RFieldBase *> &subs, const std::string &type,
                        const std::vector<RFieldBase::RValue> &items)
{
   const bool asList = IsPairOrTuple(subs, type);
   out += asList ? '[' : '{';
   for (std::size_t i = 0; i < items.size(); ++i) {
      if (i)
         out += ',';
      if (!asList) {
         PutString(out, items[i].GetField().GetFieldName());
         out += ':';
      }
      Dump(out, items[i].GetField(), items[i].GetPtr<void>().get());
   }
   out += asList ? ']' : '}';
}

inline void DumpVariant(std::string &out, const RFieldBase &field, const void *ptr)
{
   // libstdc++: the union first, then the index (one byte up to 255 alternatives, all bits set when valueless)
   std::size_t maxSize = 0, maxAlign = 1;
   const auto subs = field.GetConstSubfields();
   for (const auto *sub : subs) {
      maxSize = std::max(maxSize, sub->GetValueSize());
      maxAlign = std::max(maxAlign, sub->GetAlignment());
   }
   const auto tagOffset = std::max(maxSize, maxAlign);
   const auto index = static_cast<const unsigned char *>(ptr)[tagOffset];
   if (index >= subs.size()) {
      out += "{\"tag\":0,\"value\":null}";
      return;
   }
   out += "{\"tag\":" + std::to_string(index + 1) + ",\"value\":";
   Dump(out, *subs[index], ptr);
   out += '}';
}

template <typename T>
void PutInt(std::string &out, const void *ptr)
{
   out += std::to_string(*static_cast<const T *>(ptr));
}

inline bool DumpLeaf(std::string &out, const RFieldBase &field, const void *ptr)
{
   const auto &type = field.GetTypeName();
   if (type == "float")
      PutFloat(out, *static_cast<const float *>(ptr));
   else if (type == "double")
      PutDouble(out, *static_cast<const double *>(ptr));
   else if (type == "bool")
      out += *static_cast<const unsigned char *>(ptr) ? "true" : "false";
   else if (type == "std::byte" || type == "std::uint8_t")
      PutInt<std::uint8_t>(out, ptr);
   else if (type == "char" || type == "std::int8_t")
      PutInt<std::int8_t>(out, ptr);
   else if (type == "std::int16_t")
      PutInt<std::int16_t>(out, ptr);
   else if (type == "std::uint16_t")
      PutInt<std::uint16_t>(out, ptr);
   else if (type == "std::int32_t")
      PutInt<std::int32_t>(out, ptr);
   else if (type == "std::uint32_t")
      PutInt<std::uint32_t>(out, ptr);
   else if (type == "std::int64_t")
      PutInt<std::int64_t>(out, ptr);
   else if (type == "std::uint64_t")
      PutInt<std::uint64_t>(out, ptr);
   else if (type == "std::string")
      PutString(out, *static_cast<const std::string *>(ptr));
   else if (type == "ROOT::RNTupleCardinality<std::uint32_t>")
      PutInt<std::uint32_t>(out, ptr);
   else if (type == "ROOT::RNTupleCardinality<std::uint64_t>")
      PutInt<std::uint64_t>(out, ptr);
   else
      return false;
   return true;
}

inline void DumpBitset(std::string &out, const ROOT::RBitsetField &field, const void *ptr)
{
   const auto *words = static_cast<const unsigned long *>(ptr);
   const std::size_t bits = sizeof(unsigned long) * 8;
   out += '[';
   for (std::size_t i = 0; i < field.GetN(); ++i) {
      if (i)
         out += ',';
      out += (words[i / bits] >> (i % bits)) & 1 ? "true" : "false";
   }
   out += ']';
}

inline void Dump(std::string &out, const RFieldBase &field, const void *ptr)
{
   if (DumpLeaf(out, field, ptr))
      return;
   const auto &type = field.GetTypeName();
   if (const auto *record = dynamic_cast<const ROOT::RRecordField *>(&field)) {
      DumpMembers(out, record->GetConstSubfields(), type, Split(field, ptr));
   } else if (const auto *any = dynamic_cast<const RAnyVariantField *>(&field)) {
      const auto tag = *static_cast<const std::uint32_t *>(ptr);
      out += "{\"tag\":" + std::to_string(tag) + ",\"value\":";
      if (tag == 0)
         out += "null";
      else
         Dump(out, *field.GetConstSubfields().at(tag - 1), static_cast<const unsigned char *>(ptr) + any->GetOffset());
      out += '}';
   } else if (dynamic_cast<const ROOT::RVariantField *>(&field)) {
      DumpVariant(out, field, ptr);
   } else if (const auto *bitset = dynamic_cast<const ROOT::RBitsetField *>(&field)) {
      DumpBitset(out, *bitset, ptr);
   } else if (const auto *bytes = dynamic_cast<const RRawBytesField *>(&field)) {
      const auto &s = *static_cast<const std::string *>(ptr);
      PutBytes(out, reinterpret_cast<const unsigned char *>(s.data()), s.size());
   } else if (dynamic_cast<const ROOT::RNullableField *>(&field)) {
      const auto items = Split(field, ptr);
      if (items.empty())
         out += "null";
      else
         Dump(out, items[0].GetField(), items[0].GetPtr<void>().get());
   } else if (dynamic_cast<const ROOT::RAtomicField *>(&field) || dynamic_cast<const ROOT::REnumField *>(&field)) {
      Dump(out, *field.GetConstSubfields().at(0), ptr);
   } else if (const auto *vec = dynamic_cast<const ROOT::RVectorField *>(&field)) {
      const auto &item = *vec->GetConstSubfields().at(0);
      const auto &memory = *static_cast<const std::vector<char> *>(ptr);
      const auto size = item.GetValueSize();
      out += '[';
      for (std::size_t at = 0; at < memory.size(); at += size) {
         if (at)
            out += ',';
         Dump(out, item, memory.data() + at);
      }
      out += ']';
   } else if (field.GetStructure() == ENTupleStructure::kStreamer) {
      throw std::runtime_error("streamer field: only structurally");
   } else if (field.GetStructure() == ENTupleStructure::kRecord) {
      DumpMembers(out, field.GetConstSubfields(), type, Split(field, ptr));
   } else {
      DumpChildren(out, Split(field, ptr));
   }
}

// ---------------------------------------------------------------- one top-level field

inline std::unique_ptr<ROOT::RNTupleReader> OpenWith(std::unique_ptr<RFieldBase> field, const ROOT::RNTuple &anchor)
{
   auto model = ROOT::RNTupleModel::Create();
   model->AddField(std::move(field));
   return ROOT::RNTupleReader::Open(std::move(model), anchor);
}

inline std::string
DumpField(const ROOT::RNTuple &anchor, const RNTupleDescriptor &desc, const std::string &name, bool structural)
{
   const auto &fieldDesc = desc.GetFieldDescriptor(desc.FindFieldId(name));
   auto field = structural ? Structural(desc, fieldDesc, name) : fieldDesc.CreateField(desc);
   auto reader = OpenWith(std::move(field), anchor);
   auto &entry = reader->GetModel().GetDefaultEntry();
   const auto &connected = reader->GetModel().GetConstField(name);
   std::string out = "[";
   for (std::uint64_t i = 0; i < reader->GetNEntries(); ++i) {
      reader->LoadEntry(i);
      if (i)
         out += ',';
      Dump(out, connected, entry.GetPtr<void>(name).get());
   }
   return out + "]";
}

} // namespace oracle

#endif
