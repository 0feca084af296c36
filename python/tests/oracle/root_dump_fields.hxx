// Reading fields made from the on-disk schema alone: no dictionaries, on-disk order.
#ifndef FEMTOBARN_ROOT_DUMP_FIELDS
#define FEMTOBARN_ROOT_DUMP_FIELDS

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

} // namespace oracle

#endif
