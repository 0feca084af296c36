/// Writing ntuples from structs, or from any memory with members at known offsets.
///
///     struct Event { std::uint32_t run; std::vector<float> pt; };
///     fb::NTupleWriter writer("events.root", "Events",
///                             {fb::member<Event>("run", &Event::run), fb::member<Event>("pt", &Event::pt)});
///     const std::uint64_t row = writer.fill(&event);
///     writer.finish();
#ifndef FEMTOBARN_WRITER_HPP
#define FEMTOBARN_WRITER_HPP

#include <femtobarn/describe.hpp>
#include <femtobarn/error.hpp>
#include <femtobarn/ntuple.hpp>
#include <femtobarn/type_name.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace fb {
namespace detail {

/// Collects values of one type, and makes an Arrow array of them.
class Builder {
public:
    Builder() = default;
    Builder(const Builder &) = delete;
    Builder &operator=(const Builder &) = delete;
    virtual ~Builder() = default;

    virtual void add(const void *value) = 0;
    /// The size of a value in memory.
    virtual std::size_t size() const = 0;
    std::size_t num_bytes() const {
        std::size_t n = m_bytes.size() + 8 * m_offsets.size();
        for (const auto &child : m_children) {
            n += child.second->num_bytes();
        }
        return n;
    }

    void schema(ArrowSchema &to, const std::string &name) const {
        auto held = std::make_unique<Schema>();
        held->format = m_format;
        held->name = name;
        held->children.resize(m_children.size());
        for (std::size_t i = 0; i < m_children.size(); ++i) {
            m_children[i].second->schema(held->children[i], m_children[i].first);
            held->pointers.push_back(&held->children[i]);
        }
        to = ArrowSchema{};
        to.format = held->format.c_str();
        to.name = held->name.c_str();
        to.n_children = static_cast<std::int64_t>(held->children.size());
        to.children = held->pointers.data();
        to.release = &release<Schema, ArrowSchema>;
        to.private_data = held.release();
    }

    /// Moves the values into an array.
    void take(ArrowArray &to) {
        auto held = std::make_unique<Array>();
        held->bytes.swap(m_bytes);
        held->offsets.swap(m_offsets);
        held->children.resize(m_children.size());
        for (std::size_t i = 0; i < m_children.size(); ++i) {
            m_children[i].second->take(held->children[i]);
            held->pointers.push_back(&held->children[i]);
        }
        static const std::int64_t nothing = 0;
        const auto add_buffer = [&held](const void *buffer) { held->buffers.push_back(buffer); };
        add_buffer(nullptr);
        if (m_has_offsets) {
            add_buffer(held->offsets.empty() ? &nothing : held->offsets.data());
        }
        if (m_has_bytes) {
            add_buffer(held->bytes.empty() ? static_cast<const void *>(&nothing) : held->bytes.data());
        }
        to = ArrowArray{};
        to.length = static_cast<std::int64_t>(std::exchange(m_n, 0));
        to.n_buffers = static_cast<std::int64_t>(held->buffers.size());
        to.buffers = held->buffers.data();
        to.n_children = static_cast<std::int64_t>(held->children.size());
        to.children = held->pointers.data();
        to.release = &release<Array, ArrowArray>;
        to.private_data = held.release();
    }

protected:
    std::string m_format;
    std::vector<std::pair<std::string, std::unique_ptr<Builder>>> m_children;
    std::vector<char> m_bytes;
    std::vector<std::int64_t> m_offsets;
    std::size_t m_n = 0;
    bool m_has_offsets = false, m_has_bytes = false;

private:
    struct Schema {
        std::string format, name;
        std::vector<ArrowSchema> children;
        std::vector<ArrowSchema *> pointers;
    };
    struct Array {
        std::vector<char> bytes;
        std::vector<std::int64_t> offsets;
        std::vector<const void *> buffers;
        std::vector<ArrowArray> children;
        std::vector<ArrowArray *> pointers;
    };

    template <class Held, class T>
    static void release(T *made) {
        const std::unique_ptr<Held> held(static_cast<Held *>(made->private_data));
        for (auto &child : held->children) {
            if (child.release) {
                child.release(&child);
            }
        }
        made->release = nullptr;
    }
};

class NumberBuilder final : public Builder {
public:
    NumberBuilder(char format, std::size_t size) : m_size(size) {
        m_format = format;
        m_has_bytes = true;
    }
    void add(const void *value) override {
        const auto *bytes = static_cast<const char *>(value);
        m_bytes.insert(m_bytes.end(), bytes, bytes + m_size);
        ++m_n;
    }
    std::size_t size() const override { return m_size; }

private:
    std::size_t m_size;
};

class BoolBuilder final : public Builder {
public:
    BoolBuilder() {
        m_format = "b";
        m_has_bytes = true;
    }
    void add(const void *value) override {
        if (m_n % 8 == 0) {
            m_bytes.push_back(0);
        }
        const int bit = *static_cast<const bool *>(value) ? 1 << (m_n % 8) : 0;
        m_bytes.back() = static_cast<char>(m_bytes.back() | bit);
        ++m_n;
    }
    std::size_t size() const override { return sizeof(bool); }
};

class TextBuilder final : public Builder {
public:
    TextBuilder() {
        m_format = "U";
        m_has_offsets = m_has_bytes = true;
    }
    void add(const void *value) override {
        const auto &text = *static_cast<const std::string *>(value);
        m_bytes.insert(m_bytes.end(), text.begin(), text.end());
        if (m_offsets.empty()) {
            m_offsets.push_back(0);
        }
        m_offsets.push_back(static_cast<std::int64_t>(m_bytes.size()));
        ++m_n;
    }
    std::size_t size() const override { return sizeof(std::string); }
};

/// std::vector: of any type but bool, it has the layout of a vector of bytes.
class VectorBuilder final : public Builder {
public:
    VectorBuilder(std::unique_ptr<Builder> item, bool is_bool) : m_is_bool(is_bool) {
        m_format = "+L";
        m_has_offsets = true;
        m_children.emplace_back("item", std::move(item));
    }
    void add(const void *value) override {
        if (m_offsets.empty()) {
            m_offsets.push_back(0);
        }
        m_offsets.push_back(m_offsets.back() + static_cast<std::int64_t>(m_is_bool ? add_bools(value) : add_items(value)));
        ++m_n;
    }
    std::size_t size() const override { return sizeof(std::vector<char>); }

private:
    std::size_t add_items(const void *value) {
        const auto &bytes = *static_cast<const std::vector<char> *>(value);
        Builder &item = *m_children[0].second;
        for (std::size_t at = 0; at < bytes.size(); at += item.size()) {
            item.add(bytes.data() + at);
        }
        return bytes.size() / item.size();
    }
    std::size_t add_bools(const void *value) {
        const auto &items = *static_cast<const std::vector<bool> *>(value);
        for (const bool item : items) {
            m_children[0].second->add(&item);
        }
        return items.size();
    }

    bool m_is_bool;
};

class ArrayBuilder final : public Builder {
public:
    ArrayBuilder(std::unique_ptr<Builder> item, std::size_t n) : m_width(n) {
        m_format = "+w:" + std::to_string(n);
        m_children.emplace_back("item", std::move(item));
    }
    void add(const void *value) override {
        Builder &item = *m_children[0].second;
        for (std::size_t i = 0; i < m_width; ++i) {
            item.add(static_cast<const char *>(value) + i * item.size());
        }
        ++m_n;
    }
    std::size_t size() const override { return m_width * m_children[0].second->size(); }

private:
    std::size_t m_width;
};

/// Members at offsets.
class RecordBuilder final : public Builder {
public:
    explicit RecordBuilder(std::size_t size) : m_size(size) { m_format = "+s"; }
    void member(const std::string &name, std::size_t offset, std::unique_ptr<Builder> builder) {
        m_children.emplace_back(name, std::move(builder));
        m_member_offsets.push_back(offset);
    }
    void add(const void *value) override {
        for (std::size_t i = 0; i < m_children.size(); ++i) {
            m_children[i].second->add(static_cast<const char *>(value) + m_member_offsets[i]);
        }
        ++m_n;
    }
    std::size_t size() const override { return m_size; }
    std::size_t num_rows() const { return m_n; }

private:
    std::size_t m_size;
    std::vector<std::size_t> m_member_offsets;
};

template <class T>
struct BuilderOf {
    static std::unique_ptr<Builder> make() {
        if constexpr (std::is_same_v<T, bool>) {
            return std::make_unique<BoolBuilder>();
        } else if constexpr (std::is_enum_v<T>) {
            return BuilderOf<std::underlying_type_t<T>>::make();
        } else if constexpr (std::is_arithmetic_v<T>) {
            return std::make_unique<NumberBuilder>(number_format<T>(), sizeof(T));
        } else {
            static_assert(Described<T>::value,
                          "members are numbers, strings, vectors, arrays, and structs described with FB_DESCRIBE");
            auto made = std::make_unique<RecordBuilder>(sizeof(T));
            Described<T>::each([&made](auto tag, const char *name, std::size_t offset) {
                made->member(name, offset, BuilderOf<typename decltype(tag)::type>::make());
            });
            return made;
        }
    }
};

template <>
struct BuilderOf<std::string> {
    static std::unique_ptr<Builder> make() { return std::make_unique<TextBuilder>(); }
};

template <class T>
struct BuilderOf<std::vector<T>> {
    static std::unique_ptr<Builder> make() {
        return std::make_unique<VectorBuilder>(BuilderOf<T>::make(), std::is_same_v<T, bool>);
    }
};

template <class T, std::size_t N>
struct BuilderOf<std::array<T, N>> {
    static_assert(N > 0, "an array needs at least one item");
    static std::unique_ptr<Builder> make() { return std::make_unique<ArrayBuilder>(BuilderOf<T>::make(), N); }
};

template <class T, std::size_t N>
struct BuilderOf<T[N]> : BuilderOf<std::array<T, N>> {};

/// The builder for the name of a type: numbers, std::string, std::vector and std::array.
inline std::unique_ptr<Builder> builder_of(std::string_view given) {
    static const std::pair<std::string_view, std::unique_ptr<Builder> (*)()> known[] = {
        {"bool", &BuilderOf<bool>::make},
        {"char", &BuilderOf<char>::make},
        {"float", &BuilderOf<float>::make},
        {"double", &BuilderOf<double>::make},
        {"int8_t", &BuilderOf<std::int8_t>::make},
        {"uint8_t", &BuilderOf<std::uint8_t>::make},
        {"int16_t", &BuilderOf<std::int16_t>::make},
        {"uint16_t", &BuilderOf<std::uint16_t>::make},
        {"int32_t", &BuilderOf<std::int32_t>::make},
        {"uint32_t", &BuilderOf<std::uint32_t>::make},
        {"int64_t", &BuilderOf<std::int64_t>::make},
        {"uint64_t", &BuilderOf<std::uint64_t>::make},
        {"string", &BuilderOf<std::string>::make},
        {"unsigned", &BuilderOf<unsigned>::make},
        {"short int", &BuilderOf<short>::make},
        {"unsigned short int", &BuilderOf<unsigned short>::make},
        {"long int", &BuilderOf<long>::make},
        {"unsigned long int", &BuilderOf<unsigned long>::make}};
    const std::string normal = normal_name(given);
    std::string_view type = normal;
    if (type.substr(0, 5) == "std::") {
        type.remove_prefix(5);
    }
    for (const auto &[name, make] : known) {
        if (name == type) {
            return make();
        }
    }
    const auto within = [&type](std::string_view before) {
        const bool is_so = type.substr(0, before.size()) == before && type.back() == '>';
        return is_so ? type.substr(before.size(), type.size() - before.size() - 1) : std::string_view();
    };
    if (const std::string_view item = within("vector<"); !item.empty()) {
        return std::make_unique<VectorBuilder>(builder_of(item), item == "bool");
    }
    const std::string_view array = within("array<");
    if (const std::size_t comma = array.rfind(','); !array.empty() && comma != std::string_view::npos) {
        std::size_t n = 0;
        const char *end = array.data() + array.size();
        const auto read = std::from_chars(array.data() + comma + 1, end, n);
        if (read.ec == std::errc() && read.ptr == end && n > 0) {
            return std::make_unique<ArrayBuilder>(builder_of(array.substr(0, comma)), n);
        }
    }
    throw Error("unwritable-field", "type \"" + std::string(given) +
                                        "\" cannot be written from memory; use numbers, std::string, std::vector "
                                        "and std::array");
}

} // namespace detail

/// A member of the memory from which entries are filled: its name, its type, and its offset.
struct Member {
    std::string name;
    std::size_t offset;
    std::function<std::unique_ptr<detail::Builder>()> builder;

    Member(std::string name_, std::size_t offset_, std::function<std::unique_ptr<detail::Builder>()> builder_)
        : name(std::move(name_)), offset(offset_), builder(std::move(builder_)) {}
    /// A member whose type is given by its name, such as "std::vector<float>".
    Member(std::string name_, const std::string &type, std::size_t offset_)
        : Member(std::move(name_), offset_, [type] { return detail::builder_of(type); }) {
        builder();
    }
};

/// A member of a struct: a number, string, vector, array, or a struct described with FB_DESCRIBE. `Class` is the struct
/// that is filled, also if the member is that of a base:
///
///     struct Jet : Particle { float btag; };
///     fb::member<Jet>("pt", &Jet::pt)         // &Jet::pt has the type float Particle::*
template <class Class = void, class Owner, class T>
Member member(std::string name, T Owner::*pointer) {
    if constexpr (std::is_void_v<Class>) {
        static_assert(!std::is_void_v<Class>,
                      "name the struct that is filled, as in fb::member<Event>(\"pt\", &Event::pt)");
    } else {
        T Class::*own = pointer;
        alignas(Class) static const char room[sizeof(Class)] = {};
        const auto *at = reinterpret_cast<const char *>(&(reinterpret_cast<const Class *>(room)->*own));
        return Member(std::move(name), static_cast<std::size_t>(at - room), &detail::BuilderOf<T>::make);
    }
}

namespace detail {

/// Entries that are not in the ntuple yet.
class Rows {
public:
    /// Takes entries with these members from now on, if it has fewer; there must be no entries.
    void extend_to(const std::vector<Member> &members) {
        if (m_record && m_num_members == members.size()) {
            return;
        }
        m_num_members = members.size();
        m_record = std::make_unique<RecordBuilder>(0);
        for (const auto &member : members) {
            m_record->member(member.name, member.offset, member.builder());
        }
        m_schema = arrow<ArrowSchema>();
        m_record->schema(*m_schema, "");
    }

    /// Whether there are many now.
    bool add(const void *from) {
        m_record->add(from);
        constexpr std::size_t many = 8 << 20;
        return m_record->num_rows() % 64 == 0 && m_record->num_bytes() >= many;
    }
    std::size_t size() const { return m_record ? m_record->num_rows() : 0; }
    const ArrowSchema *schema() const { return m_schema.get(); }
    /// The entries, which are gone here.
    ArrowArray take() {
        ArrowArray array{};
        m_record->take(array);
        return array;
    }

private:
    std::size_t m_num_members = 0;
    std::unique_ptr<RecordBuilder> m_record;
    Arrow<ArrowSchema> m_schema;
};

/// What a writer and its contexts share.
struct Filling {
    std::mutex mutex;
    std::vector<Member> members;
    /// Number of contexts with entries that the library does not know of yet, or that it did not take.
    std::size_t num_waiting = 0;
    /// Whether entries of the writer itself were not taken.
    bool has_lost = false, is_finished = false;

    void check_is_open() const {
        if (is_finished) {
            throw Error("usage", "the ntuple is finished");
        }
    }
    /// Throws if entries would be lost.
    void check_is_complete() const {
        if (num_waiting > 0) {
            throw Error("usage", "entries of " + std::to_string(num_waiting) + (num_waiting > 1 ? " contexts" : " context") +
                                     " were not committed: stage and commit all contexts before");
        }
        if (has_lost) {
            throw Error("usage", "entries were lost, as adding them failed before: the ntuple cannot be finished");
        }
    }
};

} // namespace detail

/// Complete clusters that are not part of the ntuple yet. Clusters that are not committed are lost.
class Staged {
public:
    Staged(fb_staged *staged, std::uint64_t n) : m_staged(staged), m_num_entries(n) {}

    std::uint64_t num_entries() const { return m_num_entries; }
    fb_staged *release() { return m_staged.release(); }

private:
    detail::Handle<fb_staged, fb_staged_free> m_staged;
    std::uint64_t m_num_entries;
};

/// Fills and compresses clusters on one thread, apart from the writer, which adds them in the order of its calls of
/// commit(). The ntuple cannot be finished if entries of a context are not committed.
class FillContext {
public:
    FillContext(fb_fill *fill, std::shared_ptr<detail::Filling> filling) : m_fill(fill), m_filling(std::move(filling)) {}

    /// Adds an entry from memory with the members.
    void fill(const void *from) {
        if (m_rows.size() == 0) {
            begin();
        }
        if (m_rows.add(from)) {
            flush();
        }
    }

    /// Takes all entries as complete clusters.
    Staged stage() {
        flush();
        std::uint64_t n = 0;
        auto *staged = detail::call(fb_fill_stage, m_fill.get(), &n);
        return Staged(staged, n);
    }

private:
    /// Tells the writer that entries follow, which have all fields that were added until now.
    void begin() {
        const std::lock_guard<std::mutex> lock(m_filling->mutex);
        m_filling->check_is_open();
        m_rows.extend_to(m_filling->members);
        ++m_filling->num_waiting;
    }

    void flush() {
        if (m_rows.size() > 0) {
            ArrowArray array = m_rows.take();
            detail::call(fb_fill_extend, m_fill.get(), m_rows.schema(), &array);
            const std::lock_guard<std::mutex> lock(m_filling->mutex);
            --m_filling->num_waiting;
        }
    }

    detail::Handle<fb_fill, fb_fill_free> m_fill;
    std::shared_ptr<detail::Filling> m_filling;
    detail::Rows m_rows;
};

/// Writes an ntuple into a new file, which appears when it is finished. Several threads may use it at the same time.
class NTupleWriter {
public:
    /// `name` may have directories. `options` is a JSON object, see fb_writer_new.
    NTupleWriter(const std::string &file, std::string_view name, const std::vector<Member> &members,
                 std::string_view options = {}) {
        m_filling->members = members;
        m_rows.extend_to(members);
        m_writer.reset(detail::call(fb_writer_of_schema, detail::c_text(file), detail::c_text(name), m_rows.schema(),
                                    detail::c_text(options)));
    }

    /// The handle for the C functions.
    fb_writer *handle() const { return m_writer.get(); }

    /// Adds an entry from memory with the members; returns its number, which is final.
    std::uint64_t fill(const void *from) {
        const Lock lock(m_filling->mutex);
        m_filling->check_is_open();
        const std::uint64_t entry = m_num_entries++;
        if (m_rows.add(from)) {
            flush();
        }
        return entry;
    }

    /// A context for another thread.
    FillContext context() {
        const Lock lock(m_filling->mutex);
        return FillContext(detail::call(fb_fill_new, handle()), m_filling);
    }

    /// Adds clusters after all entries so far; returns the number of their first entry, which is final.
    std::uint64_t commit(Staged staged) {
        const Lock lock(m_filling->mutex);
        flush();
        std::uint64_t first = 0;
        const std::uint64_t n = staged.num_entries();
        detail::call(fb_writer_commit, handle(), staged.release(), &first);
        m_num_entries += n;
        return first;
    }

    /// Adds fields, which are zero or empty in the entries so far. Entries of contexts must have been committed; contexts
    /// have the fields from their next entry on.
    void add_fields(const std::vector<Member> &members) {
        const Lock lock(m_filling->mutex);
        m_filling->check_is_complete();
        flush();
        detail::Rows added;
        added.extend_to(members);
        detail::call(fb_writer_add_fields_of_schema, handle(), added.schema());
        m_filling->members.insert(m_filling->members.end(), members.begin(), members.end());
        m_rows.extend_to(m_filling->members);
    }

    std::uint64_t num_entries() const {
        const Lock lock(m_filling->mutex);
        return m_num_entries;
    }

    /// Completes the file; returns the number of entries. A writer that is destroyed before leaves no file.
    std::uint64_t finish() {
        const Lock lock(m_filling->mutex);
        m_filling->check_is_complete();
        flush();
        std::uint64_t n = 0;
        detail::call(fb_writer_finish, handle(), &n);
        m_filling->is_finished = true;
        return n;
    }

private:
    using Lock = std::lock_guard<std::mutex>;

    void flush() {
        if (m_rows.size() > 0) {
            ArrowArray array = m_rows.take();
            const bool had_lost = std::exchange(m_filling->has_lost, true); // unless the call returns
            detail::call(fb_writer_extend, handle(), m_rows.schema(), &array, nullptr);
            m_filling->has_lost = had_lost;
        }
    }

    std::shared_ptr<detail::Filling> m_filling = std::make_shared<detail::Filling>();
    detail::Handle<fb_writer, fb_writer_free> m_writer;
    detail::Rows m_rows;
    std::uint64_t m_num_entries = 0;
};

} // namespace fb

#endif
