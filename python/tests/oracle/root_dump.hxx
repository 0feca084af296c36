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

#include <ROOT/RColumn.hxx>
#include <ROOT/RField.hxx>
#include <ROOT/RFieldBase.hxx>
#include <ROOT/RNTupleAttrReading.hxx>
#include <ROOT/RNTupleDescriptor.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleView.hxx>
#include <TClass.h>
#include <TFile.h>
#include <TROOT.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace oracle {

using ROOT::DescriptorId_t;
using ROOT::ENTupleStructure;
using ROOT::RFieldBase;
using ROOT::RFieldDescriptor;
using ROOT::RNTupleDescriptor;

// ---------------------------------------------------------------- JSON

inline bool ValidUtf8(const std::string &s)
{
   std::size_t i = 0;
   while (i < s.size()) {
      unsigned char c = s[i];
      int n = c < 0x80 ? 0 : (c >> 5) == 6 ? 1 : (c >> 4) == 14 ? 2 : (c >> 3) == 30 ? 3 : -1;
      if (n < 0 || i + n >= s.size())
         return false;
      std::uint32_t code = n == 0 ? c : n == 1 ? c & 0x1f : n == 2 ? c & 0x0f : c & 0x07;
      for (int k = 1; k <= n; ++k) {
         unsigned char d = s[i + k];
         if ((d & 0xc0) != 0x80)
            return false;
         code = (code << 6) | (d & 0x3f);
      }
      if ((n == 1 && code < 0x80) || (n == 2 && code < 0x800) || (n == 3 && (code < 0x10000 || code > 0x10ffff)) ||
          (code >= 0xd800 && code < 0xe000))
         return false;
      i += n + 1;
   }
   return true;
}

inline void PutBytes(std::string &out, const unsigned char *data, std::size_t n)
{
   out += '[';
   for (std::size_t i = 0; i < n; ++i) {
      if (i)
         out += ',';
      out += std::to_string(static_cast<unsigned>(data[i]));
   }
   out += ']';
}

inline void PutString(std::string &out, const std::string &s)
{
   if (!ValidUtf8(s)) {
      out += "{\"bytes\":";
      PutBytes(out, reinterpret_cast<const unsigned char *>(s.data()), s.size());
      out += '}';
      return;
   }
   out += '"';
   for (unsigned char c : s) {
      if (c == '"' || c == '\\') {
         out += '\\';
         out += c;
      } else if (c < 0x20 || c == 0x7f) {
         char buf[8];
         std::snprintf(buf, sizeof(buf), "\\u%04x", c);
         out += buf;
      } else {
         out += c;
      }
   }
   out += '"';
}

inline void PutFloat(std::string &out, float v)
{
   std::uint32_t bits;
   std::memcpy(&bits, &v, 4);
   char buf[16];
   std::snprintf(buf, sizeof(buf), "\"0x%08x\"", bits);
   out += buf;
}

inline void PutDouble(std::string &out, double v)
{
   std::uint64_t bits;
   std::memcpy(&bits, &v, 8);
   char buf[24];
   std::snprintf(buf, sizeof(buf), "\"0x%016llx\"", static_cast<unsigned long long>(bits));
   out += buf;
}

// ---------------------------------------------------------------- a field for the raw bytes of streamer fields

class RRawBytesField final : public RFieldBase {
   class RBytesDeleter : public RDeleter {
   public:
      void operator()(void *objPtr, bool dtorOnly) final
      {
         std::destroy_at(static_cast<std::string *>(objPtr));
         RDeleter::operator()(objPtr, dtorOnly);
      }
   };

protected:
   std::unique_ptr<RFieldBase> CloneImpl(std::string_view newName) const final
   {
      return std::make_unique<RRawBytesField>(newName);
   }
   const RColumnRepresentations &GetColumnRepresentations() const final
   {
      using T = ROOT::ENTupleColumnType;
      static RColumnRepresentations representations({{T::kSplitIndex64, T::kByte},
                                                     {T::kIndex64, T::kByte},
                                                     {T::kSplitIndex32, T::kByte},
                                                     {T::kIndex32, T::kByte}},
                                                    {});
      return representations;
   }
   void GenerateColumns() final { throw std::logic_error("reading only"); }
   void GenerateColumns(const RNTupleDescriptor &desc) final
   {
      GenerateColumnsImpl<ROOT::Internal::RColumnIndex, std::byte>(desc);
   }
   void ConstructValue(void *where) const final { new (where) std::string(); }
   std::unique_ptr<RDeleter> GetDeleter() const final { return std::make_unique<RBytesDeleter>(); }
   void ReconcileOnDiskField(const RNTupleDescriptor &) final {}
   void ReadGlobalImpl(ROOT::NTupleSize_t globalIndex, void *to) final
   {
      auto &bytes = *static_cast<std::string *>(to);
      ROOT::RNTupleLocalIndex start;
      ROOT::NTupleSize_t size = 0;
      fPrincipalColumn->GetCollectionInfo(globalIndex, &start, &size);
      bytes.resize(size);
      if (size > 0)
         fAuxiliaryColumn->ReadV(start, size, bytes.data());
   }

public:
   explicit RRawBytesField(std::string_view name) : RFieldBase(name, "", ENTupleStructure::kStreamer, false) {}
   std::size_t GetValueSize() const final { return sizeof(std::string); }
   std::size_t GetAlignment() const final { return alignof(std::string); }
};

// ---------------------------------------------------------------- a field for variants of any alternatives

/// ROOT's own variant field needs a C++ type with a dictionary. The value: the tag, then at fOffset the alternative.
class RAnyVariantField final : public RFieldBase {
   std::size_t fOffset = sizeof(std::uint32_t);
   std::size_t fSize = 0;
   std::size_t fAlign = alignof(std::uint32_t);

   class RVariantDeleter : public RDeleter {
      std::size_t fOffset;
      std::vector<std::unique_ptr<RDeleter>> fItems;

   public:
      RVariantDeleter(std::size_t offset, std::vector<std::unique_ptr<RDeleter>> items)
         : fOffset(offset), fItems(std::move(items))
      {
      }
      void operator()(void *objPtr, bool dtorOnly) final
      {
         const auto tag = *static_cast<std::uint32_t *>(objPtr);
         if (tag > 0)
            fItems.at(tag - 1)->operator()(static_cast<unsigned char *>(objPtr) + fOffset, true);
         *static_cast<std::uint32_t *>(objPtr) = 0;
         RDeleter::operator()(objPtr, dtorOnly);
      }
   };

protected:
   std::unique_ptr<RFieldBase> CloneImpl(std::string_view newName) const final
   {
      std::vector<std::unique_ptr<RFieldBase>> items;
      for (const auto &sub : fSubfields)
         items.emplace_back(sub->Clone(sub->GetFieldName()));
      return std::make_unique<RAnyVariantField>(newName, std::move(items));
   }
   const RColumnRepresentations &GetColumnRepresentations() const final
   {
      static RColumnRepresentations representations({{ROOT::ENTupleColumnType::kSwitch}}, {});
      return representations;
   }
   void GenerateColumns() final { throw std::logic_error("reading only"); }
   void GenerateColumns(const RNTupleDescriptor &desc) final { GenerateColumnsImpl<ROOT::Internal::RColumnSwitch>(desc); }
   void ConstructValue(void *where) const final { *static_cast<std::uint32_t *>(where) = 0; }
   std::unique_ptr<RDeleter> GetDeleter() const final
   {
      std::vector<std::unique_ptr<RDeleter>> items;
      for (const auto &sub : fSubfields)
         items.emplace_back(GetDeleterOf(*sub));
      return std::make_unique<RVariantDeleter>(fOffset, std::move(items));
   }
   void ReconcileOnDiskField(const RNTupleDescriptor &) final {}
   void ReadGlobalImpl(ROOT::NTupleSize_t globalIndex, void *to) final
   {
      GetDeleter()->operator()(to, true);
      ROOT::RNTupleLocalIndex index;
      std::uint32_t tag = 0;
      fPrincipalColumn->GetSwitchInfo(globalIndex, &index, &tag);
      if (tag == 0)
         return;
      auto *item = static_cast<unsigned char *>(to) + fOffset;
      CallConstructValueOn(*fSubfields.at(tag - 1), item);
      *static_cast<std::uint32_t *>(to) = tag;
      CallReadOn(*fSubfields.at(tag - 1), index, item);
   }

public:
   RAnyVariantField(std::string_view name, std::vector<std::unique_ptr<RFieldBase>> items)
      : RFieldBase(name, "", ENTupleStructure::kVariant, false)
   {
      for (auto &item : items) {
         fAlign = std::max(fAlign, item->GetAlignment());
         fSize = std::max(fSize, item->GetValueSize());
         Attach(std::move(item));
      }
      fOffset = std::max(fOffset, fAlign);
   }
   std::size_t GetValueSize() const final { return (fOffset + fSize + fAlign - 1) / fAlign * fAlign; }
   std::size_t GetAlignment() const final { return fAlign; }
   std::size_t GetOffset() const { return fOffset; }
};

// ---------------------------------------------------------------- reading fields built from the on-disk schema

inline bool StartsWith(const std::string &s, const char *prefix)
{
   return s.compare(0, std::strlen(prefix), prefix) == 0;
}

inline std::unique_ptr<RFieldBase>
Structural(const RNTupleDescriptor &desc, const RFieldDescriptor &field, const std::string &name)
{
   auto child = [&](std::size_t i) {
      const auto &sub = desc.GetFieldDescriptor(field.GetLinkIds().at(i));
      return Structural(desc, sub, sub.GetFieldName());
   };
   auto children = [&]() {
      std::vector<std::unique_ptr<RFieldBase>> items;
      for (std::size_t i = 0; i < field.GetLinkIds().size(); ++i)
         items.emplace_back(child(i));
      return items;
   };
   const std::string &type = field.GetTypeName();
   switch (field.GetStructure()) {
   case ENTupleStructure::kRecord: return std::make_unique<ROOT::RRecordField>(name, children());
   case ENTupleStructure::kCollection:
      if (StartsWith(type, "std::optional<"))
         return std::make_unique<ROOT::ROptionalField>(name, child(0));
      if (StartsWith(type, "std::unique_ptr<"))
         return std::make_unique<ROOT::ROptionalField>(name, child(0));
      return ROOT::RVectorField::CreateUntyped(name, child(0));
   case ENTupleStructure::kVariant: return std::make_unique<RAnyVariantField>(name, children());
   case ENTupleStructure::kStreamer: return std::make_unique<RRawBytesField>(name);
   case ENTupleStructure::kPlain: break;
   default: throw std::runtime_error("unknown structure");
   }
   if (field.GetLinkIds().empty())
      return RFieldBase::Create(name, type).Unwrap();
   if (field.GetNRepetitions() > 0)
      return std::make_unique<ROOT::RArrayField>(name, child(0), field.GetNRepetitions());
   if (StartsWith(type, "std::atomic<"))
      return std::make_unique<ROOT::RAtomicField>(name, child(0));
   // An enum: its underlying integer
   return RFieldBase::Create(name, desc.GetFieldDescriptor(field.GetLinkIds().at(0)).GetTypeName()).Unwrap();
}

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
   else if (type == "char" || type == "std::byte" || type == "std::uint8_t")
      PutInt<std::uint8_t>(out, ptr);
   else if (type == "std::int8_t")
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

// ---------------------------------------------------------------- the whole ntuple

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
