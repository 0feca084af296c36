// ROOT's own writing of an RNTuple: a compiled loop that fills entry by entry from columns in memory.
//
// The columns come from a file that _columns.py writes: numbers of entries and columns, and for each column the size of
// its name, the name, its type (as NumPy's character), whether it has lists, if so the offsets of these, the number
// of its values, and the values; all numbers have 64 bits.

#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

struct Column {
   std::string fName;
   char fType = 0;
   std::vector<std::uint64_t> fOffsets;
   std::vector<char> fValues;
};

struct Columns {
   std::uint64_t fNEntries = 0;
   std::vector<Column> fColumns;
};

inline Columns &Loaded()
{
   static Columns columns;
   return columns;
}

inline std::uint64_t ReadNumber(std::ifstream &file)
{
   std::uint64_t number = 0;
   file.read(reinterpret_cast<char *>(&number), sizeof(number));
   return number;
}

/// Loads the columns, which Write() then writes; returns the number of entries.
inline std::uint64_t Load(const std::string &path)
{
   std::ifstream file(path, std::ios::binary);
   file.exceptions(std::ios::failbit | std::ios::badbit);
   auto &columns = Loaded();
   columns.fNEntries = ReadNumber(file);
   columns.fColumns.resize(ReadNumber(file));
   for (auto &column : columns.fColumns) {
      column.fName.resize(ReadNumber(file));
      file.read(column.fName.data(), column.fName.size());
      column.fType = static_cast<char>(ReadNumber(file));
      if (ReadNumber(file)) {
         column.fOffsets.resize(columns.fNEntries + 1);
         file.read(reinterpret_cast<char *>(column.fOffsets.data()), 8 * column.fOffsets.size());
      }
      column.fValues.resize(ReadNumber(file));
      file.read(column.fValues.data(), column.fValues.size());
   }
   return columns.fNEntries;
}

/// Puts a column's next value where the entry has it.
struct Filler {
   virtual ~Filler() = default;
   virtual void Set(std::uint64_t entry) = 0;
};

template <typename T>
struct FlatFiller final : Filler {
   std::shared_ptr<T> fValue;
   const T *fSource;
   FlatFiller(ROOT::RNTupleModel &model, const Column &column)
      : fValue(model.MakeField<T>(column.fName)), fSource(reinterpret_cast<const T *>(column.fValues.data()))
   {
   }
   void Set(std::uint64_t entry) final { *fValue = fSource[entry]; }
};

template <typename T>
struct ListFiller final : Filler {
   std::shared_ptr<std::vector<T>> fValue;
   const T *fSource;
   const std::uint64_t *fOffsets;
   ListFiller(ROOT::RNTupleModel &model, const Column &column)
      : fValue(model.MakeField<std::vector<T>>(column.fName)),
        fSource(reinterpret_cast<const T *>(column.fValues.data())),
        fOffsets(column.fOffsets.data())
   {
   }
   void Set(std::uint64_t entry) final { fValue->assign(fSource + fOffsets[entry], fSource + fOffsets[entry + 1]); }
};

template <typename T>
std::unique_ptr<Filler> MakeFiller(ROOT::RNTupleModel &model, const Column &column)
{
   if (column.fOffsets.empty())
      return std::make_unique<FlatFiller<T>>(model, column);
   return std::make_unique<ListFiller<T>>(model, column);
}

inline std::unique_ptr<Filler> FillerOf(ROOT::RNTupleModel &model, const Column &column)
{
   switch (column.fType) {
   case '?': return MakeFiller<bool>(model, column);
   case 'B': return MakeFiller<std::uint8_t>(model, column);
   case 'i': return MakeFiller<std::int32_t>(model, column);
   case 'I': return MakeFiller<std::uint32_t>(model, column);
   case 'L':
   case 'Q': return MakeFiller<std::uint64_t>(model, column);
   case 'f': return MakeFiller<float>(model, column);
   default: throw std::runtime_error("no field is made for " + column.fName);
   }
}

/// {make the file, write all entries and complete it}
inline std::vector<double> Write(const std::string &path, const std::string &name, int compression)
{
   const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
   };
   const auto &columns = Loaded();

   const double start = now();
   auto model = ROOT::RNTupleModel::Create();
   std::vector<std::unique_ptr<Filler>> fillers;
   for (const auto &column : columns.fColumns)
      fillers.push_back(FillerOf(*model, column));
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(compression);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), name, path, options);
   const double made = now();
   for (std::uint64_t i = 0; i < columns.fNEntries; ++i) {
      for (auto &filler : fillers)
         filler->Set(i);
      writer->Fill();
   }
   writer.reset();
   return {made - start, now() - made};
}

} // namespace bench
