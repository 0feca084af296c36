/// Reading ntuples: RNTuples and TTrees of one or many files.
///
///     const fb::NTuple events = fb::NTuple::open({"root://host//data/*.root:Events"});
///     for (const fb::Batch &batch : events.batches({"MET_pt", "Muon_pt"})) {
///         const auto met = batch.values<float>("MET_pt");
///         const auto muons = batch.lists<float>("Muon_pt");
///         for (std::size_t i = 0; i < batch.size(); ++i) {
///             for (float pt : muons[i]) { }
///         }
///     }
#ifndef FEMTOBARN_NTUPLE_HPP
#define FEMTOBARN_NTUPLE_HPP

#include <femtobarn/column.hpp>
#include <femtobarn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fb {

using Range = fb_range;

/// A field of an ntuple; its texts are valid as long as the ntuple.
struct Field {
    std::string_view name, path, type_name, description;
    /// The number of the parent; FB_NO_FIELD for top-level fields.
    std::uint32_t parent;
    /// FB_PLAIN, FB_COLLECTION, FB_RECORD, FB_VARIANT or FB_STREAMER.
    std::uint32_t role;
    /// The size of a fixed-size array, or 0.
    std::uint64_t array_size;
    /// Whether the field is not part of paths: an item of a collection or array, or a base class.
    bool is_anonymous;
    /// The full name of the branch that a field of a TTree has, as TBranch::GetFullName: `p4.fCoordinates.fPt`; else empty.
    std::string_view branch;
    /// Whether the strings of a field of a TTree are objects of ROOT's class TString.
    bool is_tstring;
};

/// Which entries are read, and how. Zero stands for the default.
struct StreamOptions {
    std::uint64_t entry_start = 0;
    /// Exclusive; 0 for all entries.
    std::uint64_t entry_stop = 0;
    /// Entries per batch; by default as many as take `step_bytes`.
    std::uint64_t step = 0;
    /// Memory of a batch; by default 64 MiB.
    std::uint64_t step_bytes = 0;
    /// Threads that decode.
    std::size_t threads = 1;
    /// Whether the next batch is read while this one is used.
    bool prefetch = true;
};

namespace detail {

template <class T>
struct Released {
    void operator()(T *made) const {
        if (made->release) {
            made->release(made);
        }
        delete made;
    }
};

/// A structure of the Arrow C interface that is released.
template <class T>
using Arrow = std::unique_ptr<T, Released<T>>;

template <class T>
Arrow<T> arrow() {
    return Arrow<T>(new T{});
}

inline std::vector<fb_text> c_texts(const std::vector<std::string> &texts) {
    std::vector<fb_text> made;
    made.reserve(texts.size());
    for (const auto &text : texts) {
        made.push_back(c_text(text));
    }
    return made;
}

} // namespace detail

/// Consecutive entries of some fields.
class Batch {
public:
    Batch(std::shared_ptr<const ArrowSchema> schema, std::shared_ptr<const ArrowArray> array,
          std::uint64_t first_entry)
        : m_schema(std::move(schema)), m_array(std::move(array)), m_first_entry(first_entry) {}

    /// Number of entries.
    std::size_t size() const { return static_cast<std::size_t>(m_array->length); }
    /// The number of the first entry in the ntuple.
    std::uint64_t first_entry() const { return m_first_entry; }

    /// All top-level columns as one record.
    Column columns() const { return Column(m_schema.get(), m_array.get()); }
    /// A top-level column.
    Column column(std::string_view name) const { return columns().member(name); }

    /// A column of numbers; T must be their type, and bool for booleans.
    template <class T>
    Span<const T> values(std::string_view name) const {
        return column(name).values<const T>();
    }
    /// A column of lists of numbers.
    template <class T>
    Jagged<const T> lists(std::string_view name) const {
        return column(name).lists<const T>();
    }

    const ArrowSchema &schema() const { return *m_schema; }
    const ArrowArray &array() const { return *m_array; }

private:
    std::shared_ptr<const ArrowSchema> m_schema;
    std::shared_ptr<const ArrowArray> m_array;
    std::uint64_t m_first_entry;
};

/// Batches of an ntuple, one after another: for a range-based for loop, or by next().
class Batches {
public:
    Batches(detail::Arrow<ArrowArrayStream> stream, std::uint64_t first_entry)
        : m_stream(std::move(stream)), m_next(first_entry) {
        auto schema = detail::arrow<ArrowSchema>();
        check(m_stream->get_schema(m_stream.get(), schema.get()));
        m_schema = std::move(schema);
    }

    const std::shared_ptr<const ArrowSchema> &schema() const { return m_schema; }

    /// The next batch; nothing at the end.
    std::optional<Batch> next() {
        auto array = detail::arrow<ArrowArray>();
        check(m_stream->get_next(m_stream.get(), array.get()));
        if (!array->release) {
            return std::nullopt;
        }
        const std::uint64_t first = m_next;
        m_next += static_cast<std::uint64_t>(array->length);
        return Batch(m_schema, std::move(array), first);
    }

    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Batch;
        using difference_type = std::ptrdiff_t;
        using pointer = const Batch *;
        using reference = const Batch &;

        Iterator() = default;
        explicit Iterator(Batches &batches) : m_batches(&batches) { ++*this; }

        reference operator*() const { return *m_batch; }
        pointer operator->() const { return &*m_batch; }
        Iterator &operator++() {
            m_batch.reset();
            m_batch = m_batches->next();
            return *this;
        }
        bool operator!=(const Iterator &other) const { return m_batch.has_value() != other.m_batch.has_value(); }
        bool operator==(const Iterator &other) const { return !(*this != other); }

    private:
        Batches *m_batches = nullptr;
        std::optional<Batch> m_batch;
    };

    Iterator begin() { return Iterator(*this); }
    Iterator end() { return Iterator(); }

private:
    void check(int code) {
        if (code != 0) {
            const char *message = m_stream->get_last_error(m_stream.get());
            throw Error("read-failed", message ? message : "reading entries failed");
        }
    }

    detail::Arrow<ArrowArrayStream> m_stream;
    std::shared_ptr<const ArrowSchema> m_schema;
    std::uint64_t m_next;
};

/// Finds entries by the values of integer fields.
class EntryIndex {
public:
    EntryIndex(detail::Handle<fb_index, fb_index_free> index, std::size_t n_fields)
        : m_index(std::move(index)), m_n_fields(n_fields) {}

    /// The first entry with these values; nothing if there is none.
    std::optional<std::uint64_t> find(const std::vector<std::int64_t> &values) const {
        const std::uint64_t entry = find_all(values).at(0);
        return entry == FB_NO_ENTRY ? std::nullopt : std::optional<std::uint64_t>(entry);
    }

    /// The same for many entries: values of all fields for the first entry, then for the second one, and so on. Missing
    /// entries are FB_NO_ENTRY.
    std::vector<std::uint64_t> find_all(const std::vector<std::int64_t> &values) const {
        if (values.empty() || values.size() % m_n_fields != 0) {
            throw Error("usage", "expected values of " + std::to_string(m_n_fields) + " fields for each entry, got " +
                                     std::to_string(values.size()) + " values");
        }
        std::vector<std::uint64_t> entries(values.size() / m_n_fields);
        detail::call(fb_index_find, m_index.get(), values.data(), entries.size(), entries.data());
        return entries;
    }

private:
    detail::Handle<fb_index, fb_index_free> m_index;
    std::size_t m_n_fields;
};

/// One or more files as one ntuple. Copies share it, and several threads may use it at the same time.
class NTuple {
public:
    NTuple() = default;
    /// Takes ownership of a handle.
    explicit NTuple(fb_ntuple *handle) : m_ntuple(handle, fb_ntuple_free) {}

    /// Opens files: paths, URLs and patterns, with or without ":NAME" at their ends. `name` is the name in files without
    /// one. `options` is a JSON object, see fb_ntuple_open.
    static NTuple open(const std::vector<std::string> &files, std::string_view name = {},
                       std::string_view options = {}) {
        const std::vector<fb_text> texts = detail::c_texts(files);
        return NTuple(detail::call(fb_ntuple_open, texts.data(), texts.size(), detail::c_text(name),
                                   detail::c_text(options)));
    }
    static NTuple open(const std::string &file, std::string_view name = {}, std::string_view options = {}) {
        return open(std::vector<std::string>{file}, name, options);
    }

    /// The handle for the C functions.
    fb_ntuple *handle() const { return m_ntuple.get(); }

    std::string name() const { return std::string(detail::view(fb_ntuple_name(handle()))); }
    std::uint64_t num_entries() const { return fb_ntuple_num_entries(handle()); }
    bool is_tree() const { return fb_ntuple_is_tree(handle()); }

    /// The URLs of the files, and their entries.
    std::vector<std::pair<std::string, Range>> files() const {
        std::vector<std::pair<std::string, Range>> made;
        fb_text url{};
        Range entries{};
        for (std::size_t i = 0; fb_ntuple_file(handle(), i, &url, &entries); ++i) {
            made.emplace_back(detail::view(url), entries);
        }
        return made;
    }

    /// All fields, each after its parent. `with_objects`: after these, the fields with whole objects of classes that are
    /// split into branches of a TTree: `Jets/` for the branch `Jets`.
    std::vector<Field> fields(bool with_objects = false) const {
        const std::size_t n =
            fb_ntuple_num_fields(handle()) + (with_objects ? fb_ntuple_num_object_fields(handle()) : 0);
        std::vector<Field> made;
        made.reserve(n);
        fb_field field{};
        while (made.size() < n && fb_ntuple_field(handle(), made.size(), &field)) {
            made.push_back({detail::view(field.name), detail::view(field.path), detail::view(field.type_name),
                            detail::view(field.description), field.parent, field.role, field.array_size,
                            field.is_anonymous, detail::view(field.branch), field.is_tstring});
        }
        return made;
    }

    std::vector<Range> clusters() const {
        std::size_t n = 0;
        const Range *first = detail::call(fb_ntuple_clusters, handle(), &n);
        return std::vector<Range>(first, first + n);
    }

    /// The Arrow schema of fields, given by their paths.
    std::shared_ptr<const ArrowSchema> schema(const std::vector<std::string> &fields) const {
        const std::vector<fb_text> texts = detail::c_texts(fields);
        auto schema = detail::arrow<ArrowSchema>();
        detail::call(fb_ntuple_schema, handle(), texts.data(), texts.size(), flags(true), schema.get());
        return schema;
    }

    /// Batches of fields, given by their paths: `Muon_pt`, or `Muon.pt` for a member of records.
    Batches batches(const std::vector<std::string> &fields, const StreamOptions &options = {}) const {
        const std::vector<fb_text> texts = detail::c_texts(fields);
        return stream(texts.data(), texts.size(), options);
    }
    /// Batches of all fields.
    Batches batches(const StreamOptions &options = {}) const { return stream(nullptr, 0, options); }

    /// Finds entries by the values of integer fields, such as run, luminosityBlock and event. Reads these fields.
    EntryIndex index(const std::vector<std::string> &fields, std::size_t threads = 1) const {
        const std::vector<fb_text> texts = detail::c_texts(fields);
        auto *index = detail::call(fb_ntuple_index, handle(), texts.data(), texts.size(), threads);
        return EntryIndex(detail::Handle<fb_index, fb_index_free>(index), fields.size());
    }

private:
    static std::uint32_t flags(bool prefetch) {
        return FB_BYTE_BOOLEANS | FB_RAW_STRINGS | (prefetch ? 0 : FB_NO_PREFETCH);
    }

    Batches stream(const fb_text *fields, std::size_t n_fields, const StreamOptions &options) const {
        const fb_stream_options given{options.entry_start, options.entry_stop, options.step,
                                      options.step_bytes,  options.threads,    flags(options.prefetch)};
        auto stream = detail::arrow<ArrowArrayStream>();
        detail::call(fb_ntuple_stream, handle(), fields, n_fields, &given, stream.get());
        return Batches(std::move(stream), options.entry_start);
    }

    std::shared_ptr<fb_ntuple> m_ntuple;
};

} // namespace fb

#endif
