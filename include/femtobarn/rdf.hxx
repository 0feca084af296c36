/// RDataFrame over ntuples: RNTuples and TTrees of one or many files, local or on servers.
///
///     #include <femtobarn/rdf.hxx>
///     auto events = fb::dataframe("Events", {"root://host//data/*.root", "s3://bucket/more.root"});
///     auto mean = events.Mean("MET_pt");
///
/// Columns have the names and types that RDataFrame gives them when it reads RNTuples. Needs ROOT 6.36 or later.
#ifndef FEMTOBARN_RDF_HXX
#define FEMTOBARN_RDF_HXX

#include <femtobarn/ntuple.hpp>

#include <ROOT/RDataFrame.hxx>
#include <ROOT/RDataSource.hxx>
#include <ROOT/RDF/RColumnReaderBase.hxx>
#include <ROOT/RDF/RSampleInfo.hxx>
#include <ROOT/RDF/Utils.hxx>
#include <ROOT/RField.hxx>
#include <ROOT/RFieldUtils.hxx>
#include <TClass.h>
#include <TClonesArray.h>
#include <TDataMember.h>
#include <TString.h>
#include <TVirtualCollectionProxy.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fb {

/// How a dataframe reads. Zero stands for the default.
struct DataFrameOptions {
    /// Options of opening as a JSON object, see fb_ntuple_open.
    std::string open;
    /// Memory of a block of entries in bytes; by default 64 MiB, and with implicit multi-threading 32 MiB per thread up
    /// to 512 MiB.
    std::uint64_t block_bytes = 0;
    /// Threads that decode; by default as many as run the event loop.
    std::size_t threads = 0;
    /// Whether the next block is read while the event loop runs over this one.
    bool prefetch = true;
};

namespace rdf {

/// Access to what RFieldBase offers to fields of other types.
struct FieldAccess : ROOT::RFieldBase {
    using Deleter = ROOT::RFieldBase::RDeleter;
    static void construct(const ROOT::RFieldBase &field, void *where) { CallConstructValueOn(field, where); }
    static std::unique_ptr<Deleter> deleter(const ROOT::RFieldBase &field) { return GetDeleterOf(field); }
};

[[noreturn]] inline void cannot_be(const std::string &column, const std::string &type, const std::string &why) {
    throw std::runtime_error("femtobarn: column \"" + column + "\" cannot be read as " + type + ": " + why);
}

class Value;

/// Objects that an entry needs until the next one, such as the inner vectors of a vector of vectors.
class Arena {
public:
    Arena() = default;
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    ~Arena() { clear(); }

    /// Room for `n` values, which are destroyed later; they are counted as they are made.
    char *take(const Value &value, std::size_t n);
    /// Notes that another of the values taken last is made.
    void made(std::size_t taken) { ++m_taken[taken].n_made; }
    std::size_t last() const { return m_taken.size() - 1; }
    void clear();

private:
    struct Taken {
        const Value *value;
        char *first;
        std::size_t n_made;
    };
    std::vector<Taken> m_taken;
    std::vector<std::unique_ptr<char[]>> m_rooms;
    std::vector<std::size_t> m_sizes;
    std::size_t m_room = 0, m_used = 0;
};

/// Makes values of a C++ type from a column. Bound to the columns of one batch after another.
class Value {
public:
    Value(std::size_t size, std::size_t align) : m_size(size), m_align(align) {}
    Value(const Value &) = delete;
    Value &operator=(const Value &) = delete;
    virtual ~Value() = default;

    std::size_t size() const { return m_size; }
    std::size_t align() const { return m_align; }

    /// Uses a column of the next batch.
    void bind(const Column &column) { use(chosen(column)); }
    /// The column that `select` leads to.
    Column chosen(Column column) const {
        for (const auto &name : m_select) {
            column = column.member(name);
        }
        return column;
    }
    void select(std::vector<std::string> names) { m_select = std::move(names); }

    /// The first value as it is in memory, if all are there one after another; else NULL.
    const char *direct() const { return m_direct; }
    /// Makes value `i` in uninitialized memory.
    virtual void make(void *where, std::size_t i, Arena &arena) = 0;
    /// Destroys a value.
    virtual void destroy(void *) const {}
    virtual bool needs_destroy() const { return false; }

protected:
    virtual void use(const Column &column) = 0;
    const char *m_direct = nullptr;

private:
    std::size_t m_size, m_align;
    std::vector<std::string> m_select;
};

inline char *Arena::take(const Value &value, std::size_t n) {
    const std::size_t align = std::max<std::size_t>(value.align(), 1);
    const std::size_t bytes = n * value.size();
    for (;; ++m_room, m_used = 0) {
        if (m_room == m_rooms.size()) {
            m_sizes.push_back(std::max<std::size_t>(bytes + align, 4096));
            m_rooms.push_back(std::make_unique<char[]>(m_sizes.back()));
        }
        char *first = m_rooms[m_room].get() + m_used;
        const std::size_t gap = (align - reinterpret_cast<std::uintptr_t>(first) % align) % align;
        if (m_used + gap + bytes <= m_sizes[m_room]) {
            m_used += gap + bytes;
            m_taken.push_back({&value, first + gap, 0});
            return first + gap;
        }
    }
}

inline void Arena::clear() {
    while (!m_taken.empty()) {
        const Taken taken = m_taken.back();
        m_taken.pop_back();
        if (taken.value->needs_destroy()) {
            for (std::size_t i = 0; i < taken.n_made; ++i) {
                taken.value->destroy(taken.first + i * taken.value->size());
            }
        }
    }
    m_room = m_used = 0;
}

/// The type of a number in memory.
struct Number {
    bool is_real, is_signed;
    std::size_t size;

    bool operator==(const Number &other) const {
        return is_real == other.is_real && is_signed == other.is_signed && size == other.size;
    }
};

/// The number type of a field's type.
inline bool number_of(const std::string &type, Number &number) {
    static const std::unordered_map<std::string, Number> known = {
        {"bool", {false, false, 1}},          {"char", {false, std::numeric_limits<char>::is_signed, 1}},
        {"std::byte", {false, false, 1}},     {"std::int8_t", {false, true, 1}},
        {"std::uint8_t", {false, false, 1}},  {"std::int16_t", {false, true, 2}},
        {"std::uint16_t", {false, false, 2}}, {"std::int32_t", {false, true, 4}},
        {"std::uint32_t", {false, false, 4}}, {"std::int64_t", {false, true, 8}},
        {"std::uint64_t", {false, false, 8}}, {"std::size_t", {false, false, 8}},
        {"float", {true, true, 4}},           {"double", {true, true, 8}}};
    const auto found = known.find(type);
    if (found != known.end()) {
        number = found->second;
    }
    return found != known.end();
}

class NumberValue final : public Value {
public:
    /// `is_count`: lengths of collections, which Arrow has as signed integers.
    NumberValue(const std::string &column, const std::string &type, Number number, const Column &from, bool is_count)
        : Value(number.size, number.size), m_to(number), m_is_bool(type == "bool"), m_column(column), m_type(type) {
        if (from.kind() != Kind::number) {
            cannot_be(column, type, "it has no single numbers");
        }
        const char format = from.format()[0];
        m_from = {format == 'f' || format == 'g', format == 'f' || format == 'g' || (format >= 'a' && !is_count),
                  from.number_size()};
        if (m_from.is_real != m_to.is_real) {
            cannot_be(column, type, m_from.is_real ? "it has floating-point numbers" : "it has integers");
        }
        const bool same_char = m_to.size == 1 && m_from.size == 1;
        m_is_direct = m_from == m_to || (same_char && type != "bool" && type != "std::int8_t" && type != "std::uint8_t");
    }

    void make(void *where, std::size_t i, Arena &) override {
        const char *at = m_first + i * m_from.size;
        if (m_is_direct) {
            std::memcpy(where, at, m_to.size);
        } else if (m_to.is_real) {
            const double value = m_from.size == 4 ? static_cast<double>(load<float>(at)) : load<double>(at);
            m_to.size == 4 ? store(where, static_cast<float>(value)) : store(where, value);
        } else {
            integer(where, at);
        }
    }

private:
    template <class T>
    static T load(const char *at) {
        T value;
        std::memcpy(&value, at, sizeof(T));
        return value;
    }
    template <class T>
    static void store(void *where, T value) {
        std::memcpy(where, &value, sizeof(T));
    }

    void use(const Column &column) override {
        m_first = column.bytes();
        m_direct = m_is_direct ? m_first : nullptr;
    }

    void integer(void *where, const char *at) const {
        std::int64_t value = 0;
        switch (m_from.size) {
        case 1:
            value = m_from.is_signed ? load<std::int8_t>(at) : load<std::uint8_t>(at);
            break;
        case 2:
            value = m_from.is_signed ? load<std::int16_t>(at) : load<std::uint16_t>(at);
            break;
        case 4:
            value = m_from.is_signed ? load<std::int32_t>(at) : static_cast<std::int64_t>(load<std::uint32_t>(at));
            break;
        default:
            value = load<std::int64_t>(at);
        }
        if (m_is_bool) {
            store(where, value != 0);
            return;
        }
        const bool is_huge = value < 0 && !m_from.is_signed; // beyond int64
        const int bits = static_cast<int>(8 * m_to.size);
        const bool fits = m_to.is_signed ? !is_huge && (bits == 64 || (value >> (bits - 1)) == (value < 0 ? -1 : 0))
                                         : (bits == 64 ? value >= 0 || is_huge : !is_huge && (value >> bits) == 0);
        if (!fits) {
            cannot_be(m_column, m_type, "a value does not fit");
        }
        std::memcpy(where, &value, m_to.size); // little-endian
    }

    Number m_from{}, m_to;
    bool m_is_bool, m_is_direct = false;
    std::string m_column, m_type;
    const char *m_first = nullptr;
};

class TextValue final : public Value {
public:
    TextValue(const std::string &column, const std::string &type, const Column &from)
        : Value(sizeof(std::string), alignof(std::string)) {
        if (from.kind() != Kind::text) {
            cannot_be(column, type, "it has no strings");
        }
    }

    void make(void *where, std::size_t i, Arena &) override { new (where) std::string(m_from.text(i)); }
    void destroy(void *made) const override { static_cast<std::string *>(made)->~basic_string(); }
    bool needs_destroy() const override { return true; }

private:
    void use(const Column &column) override { m_from = column; }

    Column m_from;
};

/// ROOT's class of strings.
class TStringValue final : public Value {
public:
    TStringValue() : Value(sizeof(TString), alignof(TString)) {}

    void make(void *where, std::size_t i, Arena &) override {
        const std::string_view text = m_from.text(i);
        new (where) TString(text.data(), static_cast<Ssiz_t>(text.size()));
    }
    void destroy(void *made) const override { static_cast<TString *>(made)->~TString(); }
    bool needs_destroy() const override { return true; }

private:
    void use(const Column &column) override { m_from = column; }

    Column m_from;
};

/// The items of lists, fixed-size arrays, or optional values, which have one item or none.
class Items {
public:
    Items() = default;
    explicit Items(const Column &column) : m_column(column) {
        if (column.is_optional()) {
            m_is_optional = true;
        } else if (column.kind() == Kind::list) {
            m_offsets = column.offsets().data();
        } else {
            m_width = column.array_size();
        }
    }

    static bool has(const Column &column) {
        return column.is_optional() || column.kind() == Kind::list || column.kind() == Kind::array;
    }
    static Column of(const Column &column) { return column.is_optional() ? column.present() : column.item(); }

    std::size_t first(std::size_t i) const {
        return m_offsets ? static_cast<std::size_t>(m_offsets[i]) : (m_is_optional ? i : i * m_width);
    }
    std::size_t count(std::size_t i) const {
        if (m_offsets) {
            return static_cast<std::size_t>(m_offsets[i + 1] - m_offsets[i]);
        }
        return m_is_optional ? (m_column.has(i) ? 1 : 0) : m_width;
    }

private:
    Column m_column;
    const std::int64_t *m_offsets = nullptr;
    std::size_t m_width = 0;
    bool m_is_optional = false;
};

/// A value with items of one type.
class WithItems : public Value {
public:
    WithItems(const ROOT::RFieldBase &field, std::unique_ptr<Value> item)
        : Value(field.GetValueSize(), field.GetAlignment()), m_item(std::move(item)) {}
    WithItems(std::size_t size, std::size_t align, std::unique_ptr<Value> item)
        : Value(size, align), m_item(std::move(item)) {}

protected:
    void use(const Column &column) override {
        m_items = Items(column);
        m_item->bind(item(column));
        m_item_direct = m_item->direct();
    }
    virtual Column item(const Column &column) { return Items::of(column); }

    /// Makes items in memory that the arena does not own; if one fails, destroys those before.
    void make_all(char *to, std::size_t first, std::size_t n, Arena &arena) {
        std::size_t done = 0;
        try {
            for (; done < n; ++done) {
                m_item->make(to + done * m_item->size(), first + done, arena);
            }
        } catch (...) {
            destroy_all(to, done);
            throw;
        }
    }
    void destroy_all(char *at, std::size_t n) const {
        if (m_item->needs_destroy()) {
            for (std::size_t i = 0; i < n; ++i) {
                m_item->destroy(at + i * m_item->size());
            }
        }
    }

    Items m_items;
    std::unique_ptr<Value> m_item;
    const char *m_item_direct = nullptr;
};

/// RVecs adopt memory: that of the batch, or of the arena. If the items of the column are fixed-size arrays, and those of
/// the RVec are not, it has the elements of all arrays.
class RVecValue final : public WithItems {
public:
    using WithItems::WithItems;

    /// The elements are below so many arrays.
    void flatten(std::size_t n_arrays) { m_n_arrays = n_arrays; }

    void make(void *where, std::size_t i, Arena &arena) override {
        const std::size_t first = m_width * m_items.first(i), n = m_width * m_items.count(i);
        char *items;
        if (m_item_direct) {
            items = const_cast<char *>(m_item_direct) + first * m_item->size();
        } else {
            items = arena.take(*m_item, n);
            const std::size_t taken = arena.last();
            for (std::size_t k = 0; k < n; ++k, arena.made(taken)) {
                m_item->make(items + k * m_item->size(), first + k, arena);
            }
        }
        const std::int32_t numbers[2] = {static_cast<std::int32_t>(n), -1}; // size, and the capacity of adopted memory
        std::memcpy(where, &items, sizeof(items));
        std::memcpy(static_cast<char *>(where) + sizeof(items), numbers, sizeof(numbers));
    }

private:
    Column item(const Column &column) override {
        Column found = Items::of(column);
        m_width = 1;
        for (std::size_t level = 0; level < m_n_arrays; ++level) {
            m_width *= found.array_size();
            found = found.item();
        }
        return found;
    }

    std::size_t m_n_arrays = 0, m_width = 1;
};

class VectorValue final : public WithItems {
public:
    using WithItems::WithItems;

    // A vector of any type has the layout of a vector of bytes.
    void make(void *where, std::size_t i, Arena &arena) override {
        const std::size_t first = m_items.first(i), n = m_items.count(i);
        auto *made = new (where) std::vector<char>(n * m_item->size());
        if (m_item_direct) {
            if (n) {
                std::memcpy(made->data(), m_item_direct + first * m_item->size(), made->size());
            }
            return;
        }
        try {
            make_all(made->data(), first, n, arena);
        } catch (...) {
            made->~vector();
            throw;
        }
    }
    void destroy(void *made) const override {
        auto *vector = static_cast<std::vector<char> *>(made);
        destroy_all(vector->data(), vector->size() / m_item->size());
        vector->~vector();
    }
    bool needs_destroy() const override { return true; }
};

class BoolVectorValue final : public WithItems {
public:
    explicit BoolVectorValue(std::unique_ptr<Value> item)
        : WithItems(sizeof(std::vector<bool>), alignof(std::vector<bool>), std::move(item)) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        const std::size_t first = m_items.first(i), n = m_items.count(i);
        auto *made = new (where) std::vector<bool>(n);
        for (std::size_t k = 0; k < n; ++k) {
            bool value = false;
            m_item->make(&value, first + k, arena);
            (*made)[k] = value;
        }
    }
    void destroy(void *made) const override { static_cast<std::vector<bool> *>(made)->~vector(); }
    bool needs_destroy() const override { return true; }
};

/// std::array
class ArrayValue final : public WithItems {
public:
    ArrayValue(const ROOT::RFieldBase &field, std::unique_ptr<Value> item, std::size_t n)
        : WithItems(field, std::move(item)), m_n(n) {}
    ArrayValue(std::size_t size, std::size_t align, std::unique_ptr<Value> item, std::size_t n)
        : WithItems(size, align, std::move(item)), m_n(n) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        make_all(static_cast<char *>(where), m_items.first(i), m_n, arena);
    }
    void destroy(void *made) const override { destroy_all(static_cast<char *>(made), m_n); }
    bool needs_destroy() const override { return m_item->needs_destroy(); }

private:
    void use(const Column &column) override {
        WithItems::use(column);
        m_direct = m_item_direct;
    }

    std::size_t m_n;
};

/// std::optional: the value, and after it whether it is there.
class OptionalValue final : public WithItems {
public:
    OptionalValue(const ROOT::RFieldBase &field, std::unique_ptr<Value> item) : WithItems(field, std::move(item)) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        const bool is_there = m_items.count(i) != 0;
        if (is_there) {
            m_item->make(where, m_items.first(i), arena);
        }
        *flag(where) = is_there;
    }
    void destroy(void *made) const override {
        if (*flag(made)) {
            m_item->destroy(made);
        }
    }
    bool needs_destroy() const override { return m_item->needs_destroy(); }

private:
    bool *flag(void *made) const { return reinterpret_cast<bool *>(static_cast<char *>(made) + m_item->size()); }
};

/// Sets, maps, and classes that are collections: values are inserted.
class CollectionValue final : public WithItems {
public:
    CollectionValue(const ROOT::RFieldBase &field, std::unique_ptr<Value> item, TVirtualCollectionProxy &proxy)
        : WithItems(field, std::move(item)), m_proxy(proxy.Generate()), m_field(field.Clone("")),
          m_deleter(FieldAccess::deleter(field)) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        const std::size_t first = m_items.first(i), n = m_items.count(i);
        FieldAccess::construct(*m_field, where);
        std::unique_ptr<char, void (*)(void *)> room(static_cast<char *>(::operator new(n * m_item->size() + 1)),
                                                     ::operator delete);
        try {
            make_all(room.get(), first, n, arena);
        } catch (...) {
            destroy(where);
            throw;
        }
        {
            TVirtualCollectionProxy::TPushPop filled(m_proxy.get(), where);
            m_proxy->Insert(room.get(), where, n);
        }
        destroy_all(room.get(), n);
    }
    void destroy(void *made) const override { (*m_deleter)(made, true); }
    bool needs_destroy() const override { return true; }

private:
    std::unique_ptr<TVirtualCollectionProxy> m_proxy;
    std::unique_ptr<ROOT::RFieldBase> m_field;
    std::unique_ptr<FieldAccess::Deleter> m_deleter;
};

/// Objects of classes, pairs and tuples. Members that the file lacks have their default values.
class ObjectValue : public Value {
public:
    using Value::Value;

    void add(std::size_t offset, std::unique_ptr<Value> member) { m_members.emplace_back(offset, std::move(member)); }

    void make(void *where, std::size_t i, Arena &arena) override {
        construct(where);
        fill(where, i, arena);
    }
    /// Gives an object its members. If one cannot be made, the object must not be destroyed: the member is not there any
    /// more.
    void fill(void *where, std::size_t i, Arena &arena) {
        for (const auto &[offset, member] : m_members) {
            char *at = static_cast<char *>(where) + offset;
            member->destroy(at);
            member->make(at, i, arena);
        }
    }
    bool needs_destroy() const override { return true; }

private:
    virtual void construct(void *where) const = 0;
    void use(const Column &column) override {
        for (const auto &member : m_members) {
            member.second->bind(column);
        }
    }

    std::vector<std::pair<std::size_t, std::unique_ptr<Value>>> m_members;
};

/// Objects of types that RNTuple stores.
class FieldObject final : public ObjectValue {
public:
    explicit FieldObject(const ROOT::RFieldBase &field)
        : ObjectValue(field.GetValueSize(), field.GetAlignment()), m_field(field.Clone("")),
          m_deleter(FieldAccess::deleter(field)) {}

    void destroy(void *made) const override { (*m_deleter)(made, true); }

private:
    void construct(void *where) const override { FieldAccess::construct(*m_field, where); }

    std::unique_ptr<ROOT::RFieldBase> m_field;
    std::unique_ptr<FieldAccess::Deleter> m_deleter;
};

/// Objects of other classes, such as TLorentzVector, which only a TTree stores.
class ClassObject final : public ObjectValue {
public:
    explicit ClassObject(TClass &of_object)
        : ObjectValue(static_cast<std::size_t>(of_object.Size()), of_object.GetClassAlignment()), m_class(of_object) {}

    void destroy(void *made) const override { m_class.Destructor(made, true); }

private:
    void construct(void *where) const override { m_class.New(where); }

    TClass &m_class;
};

/// The bits of a TObject. Whether it is on the heap depends on where it is made.
class BitsValue final : public Value {
public:
    explicit BitsValue(std::unique_ptr<Value> bits) : Value(sizeof(UInt_t), alignof(UInt_t)), m_bits(std::move(bits)) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        constexpr UInt_t own = TObject::kIsOnHeap | TObject::kNotDeleted;
        auto *bits = static_cast<UInt_t *>(where);
        const UInt_t before = *bits;
        m_bits->make(bits, i, arena);
        *bits = (*bits & ~own) | (before & own);
    }

private:
    void use(const Column &column) override { m_bits->bind(column); }

    std::unique_ptr<Value> m_bits;
};

/// Objects in a TClonesArray.
class ClonesValue final : public WithItems {
public:
    ClonesValue(TClass &of_objects, std::unique_ptr<Value> object)
        : WithItems(sizeof(TClonesArray), alignof(TClonesArray), std::move(object)), m_class(of_objects) {}

    void make(void *where, std::size_t i, Arena &arena) override {
        const std::size_t first = m_items.first(i), n = m_items.count(i);
        auto *made = new (where) TClonesArray(&m_class, static_cast<Int_t>(n));
        for (std::size_t k = 0; k < n; ++k) {
            static_cast<ObjectValue &>(*m_item).fill(made->ConstructedAt(static_cast<Int_t>(k)), first + k, arena);
        }
    }
    void destroy(void *made) const override { static_cast<TClonesArray *>(made)->~TClonesArray(); }
    bool needs_destroy() const override { return true; }

private:
    TClass &m_class;
};

/// The number of items of a collection.
class CountValue final : public Value {
public:
    CountValue() : Value(sizeof(std::size_t), alignof(std::size_t)) {}

    void make(void *where, std::size_t i, Arena &) override { *static_cast<std::size_t *>(where) = m_items.count(i); }

private:
    void use(const Column &column) override { m_items = Items(column); }

    Items m_items;
};

/// Makes the value of a type from a column.
class ValueMaker {
public:
    /// `item_class`: the class of the objects in a TClonesArray.
    ValueMaker(std::string column, std::string item_class, bool is_count, bool is_cardinality)
        : m_column(std::move(column)), m_item_class(std::move(item_class)), m_is_count(is_count),
          m_is_cardinality(is_cardinality) {}

    /// `names` are the members that lead to the values.
    std::unique_ptr<Value> make(const std::string &type, Column from, std::vector<std::string> names) const {
        if (type == "TClonesArray") {
            return led(from, names, [&] { return clones(from, names); });
        }
        auto found = ROOT::RFieldBase::Create("", type);
        if (found) {
            return make(*found.Unwrap(), from, std::move(names));
        }
        return led(from, names, [&] { return of_class(type, from, names); });
    }

private:
    std::unique_ptr<Value> make(const ROOT::RFieldBase &field, Column from, std::vector<std::string> names) const {
        return led(from, names, [&] { return of(field, from, names); });
    }

    /// What `make` makes of the values that are reached through members of records.
    template <class Make>
    std::unique_ptr<Value> led(Column &from, std::vector<std::string> &names, const Make &make) const {
        std::vector<std::string> select;
        while (!names.empty() && from.kind() == Kind::record && !from.is_optional()) {
            select.push_back(names.front());
            from = from.member(names.front());
            names.erase(names.begin());
        }
        auto value = make();
        value->select(std::move(select));
        return value;
    }

    /// A class that RNTuple does not store, or a vector or array of it.
    std::unique_ptr<Value> of_class(const std::string &type, const Column &from,
                                    const std::vector<std::string> &names) const {
        for (const std::string_view vector : {"ROOT::VecOps::RVec<", "std::vector<"}) {
            if (!starts(type, vector)) {
                continue;
            }
            const std::string own = type.substr(vector.size(), type.size() - vector.size() - 1);
            if (!Items::has(from) || starts(own, "ROOT::VecOps::RVec<")) {
                cannot_be(m_column, type, "it has other values");
            }
            auto item = make(own, Items::of(from), names);
            if (vector == "std::vector<") {
                return std::make_unique<VectorValue>(sizeof(std::vector<char>), alignof(std::vector<char>), std::move(item));
            }
            // one that adopts memory uses nothing of what its type adds to these
            return std::make_unique<RVecValue>(sizeof(ROOT::RVec<char>), alignof(ROOT::RVec<char>), std::move(item));
        }
        if (starts(type, "std::array<")) {
            const std::size_t comma = type.rfind(',');
            return of_class(type.substr(11, comma - 11) + '[' + type.substr(comma + 1, type.size() - comma - 2) + ']', from,
                            names);
        }
        if (type.back() == ']') {
            const std::size_t open = type.find('['), close = type.find(']');
            const std::size_t n = std::stoul(type.substr(open + 1, close - open - 1));
            if (from.is_optional() || from.kind() != Kind::array || from.array_size() != n) {
                cannot_be(m_column, type, "it has no arrays of this size");
            }
            auto item = make(type.substr(0, open) + type.substr(close + 1), from.item(), names);
            const std::size_t size = n * item->size(), align = item->align();
            return std::make_unique<ArrayValue>(size, align, std::move(item), n);
        }
        if (type == "TString" && from.kind() == Kind::text && !from.is_optional()) {
            return std::make_unique<TStringValue>();
        }
        TClass *of_object = TClass::GetClass(type.c_str(), true, true);
        if (!of_object || !of_object->HasInterpreterInfo() || !of_object->HasDefaultConstructor()) {
            cannot_be(m_column, type, "ROOT has no fields of this type");
        }
        if (from.kind() != Kind::record || from.is_optional()) {
            cannot_be(m_column, type, "it has no records");
        }
        auto value = std::make_unique<ClassObject>(*of_object);
        for (std::size_t i = 0; i < from.num_members(); ++i) {
            const std::string name(from.member(i).name());
            TClass *owner = of_object->GetBaseDataMember(name.c_str());
            if (!owner) {
                cannot_be(m_column, type, "the class has no member " + name);
            }
            const TDataMember &member = *owner->GetDataMember(name.c_str());
            std::string own = member.GetTrueTypeName();
            if (own == "Float16_t" || std::string_view(member.GetTypeName()) == "Float16_t") {
                own = "float"; // which it is in memory
            }
            for (int level = 0; level < member.GetArrayDim(); ++level) {
                own += '[' + std::to_string(member.GetMaxIndex(level)) + ']';
            }
            const auto at = static_cast<std::size_t>(of_object->GetDataMemberOffset(name.c_str()));
            value->add(at, member_of(*owner, name, make(own, from, {name})));
        }
        return value;
    }

    std::unique_ptr<Value> clones(const Column &from, const std::vector<std::string> &names) const {
        TClass *of_objects = TClass::GetClass(m_item_class.c_str(), true, true);
        if (!of_objects || !of_objects->HasInterpreterInfo() || !of_objects->InheritsFrom(TObject::Class())) {
            cannot_be(m_column, "TClonesArray", "ROOT has no dictionary of class " + m_item_class);
        }
        if (!Items::has(from)) {
            cannot_be(m_column, "TClonesArray", "it has other values");
        }
        return std::make_unique<ClonesValue>(*of_objects, make(m_item_class, Items::of(from), names));
    }

    std::unique_ptr<Value> of(const ROOT::RFieldBase &field, const Column &from,
                              const std::vector<std::string> &names) const {
        const std::string &type = field.GetTypeName();
        const auto subfields = field.GetConstSubfields();
        Number number{};
        if (m_is_count && type == "std::uint64_t" && Items::has(from)) {
            return std::make_unique<CountValue>();
        }
        if (number_of(type, number) && !from.is_optional()) {
            return std::make_unique<NumberValue>(m_column, type, number, from, m_is_cardinality);
        }
        if (type == "std::string" && !from.is_optional()) {
            return std::make_unique<TextValue>(m_column, type, from);
        }
        const bool is_vector = starts(type, "std::vector<");
        if (starts(type, "ROOT::VecOps::RVec<") || is_vector || starts(type, "std::optional<") ||
            dynamic_cast<const ROOT::RProxiedCollectionField *>(&field)) {
            if (!Items::has(from) || (starts(type, "std::optional<") && !from.is_optional())) {
                cannot_be(m_column, type, "it has other values");
            }
            const bool is_rvec = starts(type, "ROOT::VecOps::RVec<");
            Column inner = Items::of(from);
            std::size_t n_arrays = 0;
            if (is_rvec && number_of(subfields.at(0)->GetTypeName(), number)) {
                for (; inner.kind() == Kind::array; ++n_arrays) {
                    inner = inner.item();
                }
            }
            auto item = make(*subfields.at(0), inner, names);
            if (type == "std::vector<bool>") {
                return std::make_unique<BoolVectorValue>(std::move(item));
            }
            if (is_vector) {
                return std::make_unique<VectorValue>(field, std::move(item));
            }
            if (starts(type, "std::optional<")) {
                return std::make_unique<OptionalValue>(field, std::move(item));
            }
            if (is_rvec) {
                auto value = std::make_unique<RVecValue>(field, std::move(item));
                value->flatten(n_arrays);
                return value;
            }
            auto *proxy = TClass::GetClass(type.c_str())->GetCollectionProxy();
            if (!proxy || (proxy->GetProperties() & TVirtualCollectionProxy::kIsEmulated)) {
                cannot_be(m_column, type, "ROOT has no dictionary of this collection; gInterpreter->GenerateDictionary(\"" +
                                              type + "\") makes one");
            }
            return std::make_unique<CollectionValue>(field, std::move(item), *proxy);
        }
        if (starts(type, "std::array<")) {
            if (from.is_optional() || from.kind() != Kind::array || from.array_size() != field.GetNRepetitions()) {
                cannot_be(m_column, type, "it has no arrays of this size");
            }
            return std::make_unique<ArrayValue>(field, make(*subfields.at(0), from.item(), names),
                                                field.GetNRepetitions());
        }
        if (from.kind() == Kind::record && !from.is_optional()) {
            return object(field, from);
        }
        // enums and std::atomic have the layout of their only member
        if (subfields.size() == 1 && subfields[0]->GetValueSize() == field.GetValueSize()) {
            return make(*subfields[0], from, names);
        }
        cannot_be(m_column, type, "femtobarn does not support this type in RDataFrame");
    }

    std::unique_ptr<Value> object(const ROOT::RFieldBase &field, const Column &from) const {
        const std::string &type = field.GetTypeName();
        auto value = std::make_unique<FieldObject>(field);
        TClass *of_object = TClass::GetClass(type.c_str());
        if (!of_object) {
            cannot_be(m_column, type, "there is no dictionary of its class");
        }
        add_members(*value, field, *of_object, from, 0);
        return value;
    }

    void add_members(ObjectValue &value, const ROOT::RFieldBase &field, TClass &of_object, const Column &from,
                     std::size_t offset) const {
        const bool is_pair = starts(field.GetTypeName(), "std::pair<");
        for (const auto *member : field.GetConstSubfields()) {
            const std::string &name = member->GetFieldName();
            if (starts(name, ":_")) {
                TClass *base = TClass::GetClass(member->GetTypeName().c_str());
                add_members(value, *member, *base, from,
                            offset + static_cast<std::size_t>(of_object.GetBaseClassOffset(base)));
                continue;
            }
            const std::string own = is_pair ? (name == "_0" ? "first" : "second") : name;
            std::string stored;
            for (std::size_t i = 0; i < from.num_members(); ++i) {
                const std::string there(from.member(i).name());
                if (there == name || "_" + there == name) {
                    stored = name;
                } else if (there == own) {
                    stored = own; // a pair that a TTree has split
                }
            }
            if (stored.empty()) {
                continue;
            }
            const auto at = of_object.GetDataMemberOffset(own.c_str());
            value.add(offset + static_cast<std::size_t>(at), member_of(of_object, name, make(*member, from, {stored})));
        }
    }

    static std::unique_ptr<Value> member_of(const TClass &owner, const std::string &name, std::unique_ptr<Value> value) {
        if (name == "fBits" && &owner == TObject::Class()) {
            return std::make_unique<BitsValue>(std::move(value));
        }
        return value;
    }

    static bool starts(const std::string &text, std::string_view with) { return text.compare(0, with.size(), with) == 0; }

    std::string m_column, m_item_class;
    bool m_is_count, m_is_cardinality;
};

/// What the readers of a source share.
struct SourceState {
    std::shared_ptr<const ArrowSchema> schema;
    std::optional<Batch> batch;
    /// Changes with the batch. Nobody reads it while it changes: blocks are loaded between the tasks of the event loop.
    std::uint64_t generation = 0;
    /// Fields that readers want, and the number of these.
    std::map<std::string, int> wanted;
    /// Fields that could not be read in an event loop. Its readers remain, although nothing may use them any more: later
    /// event loops fail only if they use them.
    std::map<std::string, std::exception_ptr> failed;
    std::mutex mutex;

    void want(const std::string &path) {
        const std::lock_guard<std::mutex> lock(mutex);
        ++wanted[path];
    }
    void unwant(const std::string &path) {
        const std::lock_guard<std::mutex> lock(mutex);
        const auto found = wanted.find(path);
        if (--found->second == 0) {
            wanted.erase(found);
        }
    }
};

/// A column of the dataframe.
struct SourceColumn {
    std::string name, type;
    /// The path of the field to be read, its top-level field, and the members that lead to the values.
    std::string path, top;
    std::vector<std::string> members;
    /// The class of the objects in a TClonesArray.
    std::string item_class;
    bool is_count = false, is_cardinality = false;
};

class SourceReader final : public ROOT::Detail::RDF::RColumnReaderBase {
public:
    SourceReader(std::shared_ptr<SourceState> state, const SourceColumn &column, std::unique_ptr<Value> value)
        : m_state(std::move(state)), m_column(column), m_value(std::move(value)),
          m_room(static_cast<char *>(::operator new(m_value->size(), std::align_val_t(alignment())))) {
        m_state->want(m_column.path);
    }
    ~SourceReader() override {
        forget();
        ::operator delete(m_room, std::align_val_t(alignment()));
        m_state->unwant(m_column.path);
    }

private:
    void *GetImpl(Long64_t entry) override {
        if (m_generation != m_state->generation) {
            bind();
        }
        if (entry != m_entry) {
            forget();
            m_value->make(m_room, static_cast<std::size_t>(entry - m_first), m_arena);
            m_is_made = true;
            m_entry = entry;
        }
        return m_room; // the same for all entries: Snapshot gives it to TTree::Branch
    }

    void bind() {
        forget();
        const auto failed = m_state->failed.find(m_column.path);
        if (failed != m_state->failed.end()) {
            std::rethrow_exception(failed->second);
        }
        const Batch &batch = *m_state->batch;
        m_value->bind(batch.column(m_column.top));
        m_first = static_cast<Long64_t>(batch.first_entry());
        m_generation = m_state->generation;
    }

    void forget() {
        if (m_is_made && m_value->needs_destroy()) {
            m_value->destroy(m_room);
        }
        m_is_made = false;
        m_arena.clear();
        m_entry = -1;
    }

    std::size_t alignment() const { return std::max<std::size_t>(m_value->align(), alignof(std::max_align_t)); }

    std::shared_ptr<SourceState> m_state;
    SourceColumn m_column;
    std::unique_ptr<Value> m_value;
    Arena m_arena;
    char *m_room;
    Long64_t m_entry = -1, m_first = 0;
    std::uint64_t m_generation = 0;
    bool m_is_made = false;
};

} // namespace rdf

/// An ntuple as the source of a dataframe.
class NTupleDS final : public ROOT::RDF::RDataSource {
    using Ranges = std::vector<std::pair<ULong64_t, ULong64_t>>;

public:
    explicit NTupleDS(NTuple ntuple, DataFrameOptions options = {})
        : m_ntuple(std::move(ntuple)), m_options(std::move(options)), m_files(m_ntuple.files()),
          m_state(std::make_shared<rdf::SourceState>()) {
        const std::vector<Field> fields = m_ntuple.fields(true);
        std::vector<std::vector<std::size_t>> below(fields.size());
        for (std::size_t i = 0; i < fields.size(); ++i) {
            if (fields[i].parent != FB_NO_FIELD) {
                below[fields[i].parent].push_back(i);
            }
        }
        m_first_object = fb_ntuple_num_fields(m_ntuple.handle());
        std::set<std::string_view> objects;
        for (std::size_t i = m_first_object; i < fields.size(); ++i) {
            if (fields[i].parent == FB_NO_FIELD) {
                objects.insert(fields[i].branch);
                if (fields[i].role == FB_COLLECTION) {
                    m_collections.emplace(fields[i].branch);
                }
            }
        }
        for (std::size_t i = 0; i < fields.size(); ++i) {
            const Field &field = fields[i];
            if (field.parent != FB_NO_FIELD) {
                continue;
            }
            std::string_view name = field.name;
            if (i >= m_first_object) {
                name.remove_suffix(1);
            } else if (objects.count(field.branch)) {
                continue; // the number of the objects
            }
            // as RDataFrame names branches: by their full names, and by their own if ROOT finds them by these
            if (!field.branch.empty()) {
                add(fields, below, i, std::string(field.branch), {}, true);
            }
            if (field.branch.empty() || (name != field.branch && name.find('/') == std::string_view::npos)) {
                add(fields, below, i, std::string(name), {}, true);
            }
        }
    }

    void SetNSlots(unsigned int n) override {
        RDataSource::SetNSlots(n);
        m_range_of_slot.resize(n);
    }
    std::size_t GetNFiles() const override { return m_files.size(); }
    const std::vector<std::string> &GetColumnNames() const override { return m_names; }
    bool HasColumn(std::string_view name) const override { return m_by_name.count(std::string(name)) != 0; }
    std::string GetTypeName(std::string_view name) const override { return column(name).type; }
    std::string GetLabel() override { return "femtobarn"; }

    std::unique_ptr<ROOT::Detail::RDF::RColumnReaderBase> GetColumnReaders(unsigned int, std::string_view name,
                                                                           const std::type_info &type) override {
        const rdf::SourceColumn &found = column(name);
        return std::make_unique<rdf::SourceReader>(m_state, found, value(found, type_name(type)));
    }

    void Initialize() override {
        m_stream.reset();
        m_pending.clear();
        m_next = first();
    }

    Ranges GetEntryRanges() override {
        if (m_pending.empty() && m_next < last()) {
            next_block();
        }
        Ranges ranges;
        if (fNSlots > 1) {
            std::swap(ranges, m_pending);
        } else if (!m_pending.empty()) { // one range, thus one file, at a time
            m_range_of_slot.assign(1, m_pending.front());
            ranges.push_back(m_pending.front());
            m_pending.erase(m_pending.begin());
        }
        m_ranges = ranges;
        return ranges;
    }

    bool SetEntry(unsigned int, ULong64_t) override { return true; }
    void InitSlot(unsigned int slot, ULong64_t entry) override {
        if (fNSlots > 1) {
            const auto after = std::upper_bound(m_ranges.begin(), m_ranges.end(), entry,
                                                [](ULong64_t at, const auto &range) { return at < range.first; });
            m_range_of_slot.at(slot) = *std::prev(after);
        }
    }
    void Finalize() override { m_stream.reset(); }

private:
    using Levels = std::vector<std::size_t>;

    Record_t GetColumnReadersImpl(std::string_view, const std::type_info &) override { return {}; }
    std::string AsString() override { return "femtobarn"; }

    /// The file that a slot reads, as RNTupleDS names it, and the entries in it.
    ROOT::RDF::RSampleInfo
    CreateSampleInfo(unsigned int slot,
                     const std::unordered_map<std::string, ROOT::RDF::Experimental::RSample *> &) const override {
        const auto &range = m_range_of_slot.at(slot);
        for (const auto &[url, entries] : m_files) {
            const ULong64_t first = entries.first_entry;
            if (range.first >= first && range.first < first + entries.num_entries) {
                return ROOT::RDF::RSampleInfo(url + '/' + m_ntuple.name(), {range.first - first, range.second - first});
            }
        }
        return {};
    }

    /// What makes values of a type from a column.
    std::unique_ptr<rdf::Value> value(const rdf::SourceColumn &column, const std::string &type) {
        auto &schema = m_schemas[column.path];
        if (!schema) {
            schema = m_ntuple.schema({column.path});
        }
        const rdf::ValueMaker maker(column.name, column.item_class, column.is_count, column.is_cardinality);
        return maker.make(type, Column(schema.get(), nullptr).member(column.top), column.members);
    }

    /// Whether a column can have its type.
    bool can_be_made(const rdf::SourceColumn &column) {
        try {
            value(column, column.type);
            return true;
        } catch (const std::runtime_error &) {
            return false;
        }
    }

    const rdf::SourceColumn &column(std::string_view name) const {
        const auto found = m_by_name.find(std::string(name));
        if (found == m_by_name.end()) {
            throw std::runtime_error("femtobarn: there is no column \"" + std::string(name) + "\"");
        }
        return m_columns[found->second];
    }

    /// The name of a type for fields. ROOT's names of nested std::optional and std::variant lack the namespace.
    static std::string type_name(const std::type_info &type) {
        std::string name = ROOT::Internal::GetRenormalizedTypeName(ROOT::Internal::RDF::TypeID2TypeName(type));
        for (const std::string_view word : {"optional<", "variant<"}) {
            for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
                if (at == 0 || name[at - 1] == '<' || name[at - 1] == ',') {
                    name.insert(at, "std::");
                    at += 5;
                }
            }
        }
        return name;
    }

    /// Adds the columns of a field as ROOT's RNTupleDS does. `levels` are the collections and arrays around it.
    void add(const std::vector<Field> &fields, const std::vector<std::vector<std::size_t>> &below, std::size_t at,
             const std::string &name, Levels levels, bool as_rvec) {
        const Field &field = fields[at];
        if (field.role == FB_VARIANT || field.role == FB_STREAMER || field.type_name.substr(0, 12) == "std::bitset<") {
            return; // a column whose reader failed would end the process
        }
        if (field.role == FB_COLLECTION || field.array_size > 0) {
            if (below[at].size() != 1) {
                return;
            }
            if (field.type_name == "TClonesArray") {
                auto made = make(fields, at, name, std::string(field.type_name));
                made.item_class = std::string(fields[below[at][0]].type_name);
                add_length(fields, below, at, name, "std::size_t");
                if (can_be_made(made)) {
                    add(std::move(made));
                }
                return;
            }
            levels.push_back(at);
            if (field.role == FB_COLLECTION) {
                const auto &type = field.type_name;
                as_rvec = as_rvec && (type.substr(0, 19) == "ROOT::VecOps::RVec<" ||
                                      type.substr(0, 12) == "std::vector<" || type.empty());
            } else {
                as_rvec = true;
            }
            add(fields, below, below[at][0], name, std::move(levels), as_rvec);
            return;
        }
        if (field.role == FB_RECORD && at < m_first_object) { // members of objects have branches
            for (const std::size_t member : below[at]) {
                add(fields, below, member, name + "." + std::string(fields[member].name), levels, true);
            }
        }
        std::string type = field.is_tstring ? "TString" : known_type(field.type_name);
        const bool is_of_class = field.is_tstring || (type.empty() && field.role == FB_RECORD);
        if (type.empty() && is_of_class) {
            type = field.type_name;
        }
        std::string count = "std::size_t";
        bool is_flat = false;
        for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
            const bool is_array = fields[*level].array_size > 0;
            if (is_array && m_ntuple.is_tree() && std::next(level) != levels.rend()) { // as RDataFrame has arrays of a TTree
                if (is_in_collection(name)) {
                    type = "std::array<" + type + ',' + std::to_string(fields[*level].array_size) + '>';
                } else {
                    is_flat = true;
                }
                continue;
            }
            const bool is_inner = is_of_class && !is_array && std::next(level) != levels.rend();
            type = is_inner && as_rvec     ? "std::vector<" + type + ">" // RVecs of RVecs need a field
                   : is_array || as_rvec ? rvec_of(type)
                                         : std::string(fields[*level].type_name);
            count = level == levels.rbegin() ? count : rvec_of(count);
        }
        // a collection that is not read as RVec is read as a whole
        const std::size_t read = as_rvec || levels.empty() ? at : levels.front();
        auto made = make(fields, read, name, type);
        const bool can_be = !type.empty() && (!is_of_class || can_be_made(made));
        if (!levels.empty() && !is_flat && (can_be || at >= m_first_object)) {
            add_length(fields, below, levels.back(), name, count);
        }
        if (!can_be) {
            return;
        }
        made.is_cardinality = is_cardinality(field.type_name);
        add(std::move(made));
    }

    void add_length(const std::vector<Field> &fields, const std::vector<std::vector<std::size_t>> &below, std::size_t at,
                    const std::string &name, const std::string &type) {
        auto length = make(fields, at, "R_rdf_sizeof_" + name, type);
        length.is_count = true;
        length.path = std::string(fields[lightest(fields, below, at)].path);
        add(std::move(length));
    }

    /// Whether a column is a member of the objects of a split collection, where RDataFrame has arrays as they are.
    bool is_in_collection(const std::string &name) const {
        for (std::size_t at = name.find('.'); at != std::string::npos; at = name.find('.', at + 1)) {
            if (m_collections.count(name.substr(0, at))) {
                return true;
            }
        }
        return false;
    }

    /// The field at or below a collection that is read for the lengths of its lists: a small number, if it has one.
    static std::size_t lightest(const std::vector<Field> &fields, const std::vector<std::vector<std::size_t>> &below,
                                std::size_t at) {
        while (!below[at].empty() && fields[at].role != FB_VARIANT) {
            const auto weight = [&fields, &below](std::size_t field) {
                rdf::Number number{};
                const bool is_number = rdf::number_of(std::string(fields[field].type_name), number);
                return is_number ? number.size : 100 + below[field].size();
            };
            at = *std::min_element(below[at].begin(), below[at].end(),
                                   [&weight](std::size_t a, std::size_t b) { return weight(a) < weight(b); });
        }
        return at;
    }

    void add(rdf::SourceColumn made) {
        if (!m_by_name.emplace(made.name, m_columns.size()).second) {
            return; // branch names need not be unique
        }
        m_names.push_back(made.name);
        m_columns.push_back(std::move(made));
    }

    static rdf::SourceColumn make(const std::vector<Field> &fields, std::size_t at, const std::string &name,
                                     const std::string &type) {
        rdf::SourceColumn made;
        made.name = name;
        made.type = type;
        made.path = std::string(fields[at].path);
        for (; fields[at].parent != FB_NO_FIELD; at = fields[at].parent) {
            if (!fields[at].is_anonymous) {
                made.members.insert(made.members.begin(), std::string(fields[at].name));
            }
        }
        made.top = std::string(fields[at].name);
        return made;
    }

    static std::string rvec_of(const std::string &type) { return "ROOT::VecOps::RVec<" + type + ">"; }

    static bool is_cardinality(std::string_view type) { return type.substr(0, 24) == "ROOT::RNTupleCardinality"; }

    /// The name of a type that ROOT has a field for; empty if it has none.
    std::string known_type(std::string_view type) {
        if (is_cardinality(type)) {
            return std::string(type.substr(25, type.size() - 26));
        }
        const std::string text(type);
        rdf::Number number{};
        if (text.empty() || text == "std::string" || rdf::number_of(text, number)) {
            return text;
        }
        const auto known = m_known_types.find(text);
        if (known != m_known_types.end()) {
            return known->second;
        }
        auto field = ROOT::RFieldBase::Create("", text);
        return m_known_types[text] = field ? field.Unwrap()->GetTypeName() : std::string();
    }

    ULong64_t first() const { return fGlobalEntryRange ? fGlobalEntryRange->first : 0; }
    ULong64_t last() const {
        const ULong64_t all = m_ntuple.num_entries();
        return fGlobalEntryRange ? std::min<ULong64_t>(fGlobalEntryRange->second, all) : all;
    }

    /// Fields that are wanted and could be read so far.
    std::vector<std::string> readable() const {
        std::vector<std::string> fields;
        for (const auto &wanted : m_state->wanted) {
            if (!m_state->failed.count(wanted.first)) {
                fields.push_back(wanted.first);
            }
        }
        return fields;
    }

    /// Batches from the next entry on.
    Batches batches(const std::vector<std::string> &fields, bool prefetch) {
        constexpr std::uint64_t mebi = 1 << 20;
        const bool is_parallel = fNSlots > 1;
        StreamOptions options;
        options.entry_start = m_next;
        options.entry_stop = last();
        options.threads = m_options.threads ? m_options.threads : fNSlots;
        options.prefetch = prefetch;
        options.step_bytes = m_options.block_bytes;
        if (!options.step_bytes) {
            options.step_bytes = is_parallel ? std::min<std::uint64_t>(32 * mebi * fNSlots, 512 * mebi) : 64 * mebi;
        }
        return m_ntuple.batches(fields, options);
    }

    /// Loads the entries of the next ranges.
    void next_block() {
        m_state->batch.reset();
        const auto fields = readable();
        if (!fields.empty()) {
            try {
                if (!m_stream) {
                    m_stream = std::make_unique<Batches>(batches(fields, m_options.prefetch));
                }
                m_state->batch = m_stream->next();
            } catch (...) {
                find_failed(fields);
                throw;
            }
        }
        const ULong64_t start = m_next;
        m_next = m_state->batch ? start + m_state->batch->size() : last();
        if (m_state->batch || fields.empty()) {
            ++m_state->generation;
            cut(start, m_next);
        }
    }

    /// Finds the fields that cannot be read from the next entry on. Later event loops are made without them.
    void find_failed(const std::vector<std::string> &fields) {
        m_stream.reset();
        for (const auto &field : fields) {
            try {
                batches({field}, false).next();
            } catch (...) {
                m_state->failed.emplace(field, std::current_exception());
            }
        }
    }

    /// Cuts entries into ranges for tasks, which do not cross files.
    void cut(ULong64_t start, ULong64_t stop) {
        const ULong64_t n = fNSlots > 1 ? 4 * fNSlots : 1;
        const ULong64_t width = std::max<ULong64_t>((stop - start + n - 1) / n, 1);
        for (const auto &file : m_files) {
            const ULong64_t begin = std::max<ULong64_t>(start, file.second.first_entry);
            const ULong64_t end = std::min<ULong64_t>(stop, file.second.first_entry + file.second.num_entries);
            for (ULong64_t at = begin; at < end; at += width) {
                m_pending.emplace_back(at, std::min(at + width, end));
            }
        }
    }

    NTuple m_ntuple;
    DataFrameOptions m_options;
    std::vector<std::pair<std::string, Range>> m_files;
    std::shared_ptr<rdf::SourceState> m_state;
    std::vector<rdf::SourceColumn> m_columns;
    std::vector<std::string> m_names;
    std::unordered_map<std::string, std::size_t> m_by_name;
    /// The first field with whole objects of a split class, and the branches with collections of these.
    std::size_t m_first_object = 0;
    std::set<std::string> m_collections;
    std::unordered_map<std::string, std::string> m_known_types;
    std::map<std::string, std::shared_ptr<const ArrowSchema>> m_schemas;
    std::unique_ptr<Batches> m_stream;
    Ranges m_pending, m_ranges, m_range_of_slot;
    ULong64_t m_next = 0;
};

/// A dataframe of an ntuple that is open.
inline ROOT::RDataFrame dataframe(const NTuple &ntuple, const DataFrameOptions &options = {}) {
    return ROOT::RDataFrame(std::make_unique<NTupleDS>(ntuple, options));
}

/// A dataframe of files: paths, URLs and patterns. `name` is the name of the RNTuple or TTree; it may be empty if the
/// files have only one.
inline ROOT::RDataFrame dataframe(std::string_view name, const std::vector<std::string> &files,
                                  const DataFrameOptions &options = {}) {
    return dataframe(NTuple::open(files, name, options.open), options);
}

} // namespace fb

#endif
