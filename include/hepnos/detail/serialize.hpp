/// Conversion between products and bytes: plain data as it lies in memory, vectors of plain data as their
/// number and the elements, all other types in Boost binary archives.
#ifndef HEPNOS_DETAIL_SERIALIZE_HPP
#define HEPNOS_DETAIL_SERIALIZE_HPP

#include <hepnos/InputArchive.hpp>
#include <hepnos/OutputArchive.hpp>
#include <hepnos/detail/data_store.hpp>

#include <boost/archive/detail/oserializer.hpp>
#include <boost/serialization/level.hpp>
#include <boost/serialization/serialization.hpp>
#include <boost/serialization/singleton.hpp>
#include <boost/serialization/version.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hepnos {
namespace detail {

/// Memory for the bytes of a product, reused by the next one; nested calls have their own.
class Scratch {
public:
    Scratch() : text(std::move(spare())) { text.clear(); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() {
        constexpr std::size_t most_kept = 1 << 20;
        if (text.capacity() <= most_kept) {
            spare() = std::move(text);
        }
    }

    std::string text;

private:
    static std::string &spare() {
        thread_local std::string kept;
        return kept;
    }
};

/// Calls `f`, and converts exceptions of Boost and the standard library to ours.
template <typename F>
auto serializing(const char *doing, F &&f) -> decltype(f()) {
    try {
        return f();
    } catch (const Exception &) {
        throw;
    } catch (const std::exception &error) {
        throw Exception(std::string("cannot ") + doing + " a product: " + error.what());
    }
}

[[noreturn]] inline void bad_size(const std::string &type, std::size_t expected, std::size_t found) {
    throw Exception("the product is not a valid " + type + ": expected " + std::to_string(expected) +
                    " bytes, found " + std::to_string(found));
}

/// Whether an archive has class information before the first object only, unless objects are tracked. Further
/// objects can then be written and read without a class lookup in Boost, which costs more than small objects
/// themselves; the bytes are the same.
template <typename T>
constexpr bool has_class_info =
    boost::serialization::implementation_level<T>::value == boost::serialization::object_class_info;

/// Saves objects like `archive << object`.
template <typename T>
void save_objects(OutputArchive &archive, const T *objects, std::size_t n) {
    std::size_t i = 0;
    if constexpr (has_class_info<T>) {
        using Serializer = boost::archive::detail::oserializer<OutputArchive, T>;
        const auto &serializer = boost::serialization::singleton<Serializer>::get_const_instance();
        if (n && !serializer.tracking(archive.get_flags())) {
            archive << objects[0];
            const unsigned version = boost::serialization::version<T>::value;
            for (i = 1; i < n; ++i) {
                boost::serialization::serialize_adl(archive, const_cast<T &>(objects[i]), version);
            }
        }
    }
    for (; i < n; ++i) {
        archive << objects[i];
    }
}

/// Loads objects like `archive >> object`.
template <typename T>
void load_objects(InputArchive &archive, T *objects, std::size_t n) {
    std::size_t i = 0;
    if constexpr (has_class_info<T>) {
        if (n) {
            const auto info = archive.load_first(objects[0]);
            const unsigned version = info.version;
            for (i = 1; i < n && info.is_known && !info.is_tracked; ++i) {
                boost::serialization::serialize_adl(archive, objects[i], version);
            }
        }
    }
    for (; i < n; ++i) {
        archive >> objects[i];
    }
}

/// Calls `use` with the bytes of a value.
template <typename T, typename Use>
void encode(const T &value, Use &&use) {
    if constexpr (is_plain<T>) {
        use(reinterpret_cast<const char *>(&value), sizeof value);
    } else {
        Scratch scratch;
        serializing("serialize", [&] {
            OutputStringWrapper buffer(scratch.text);
            OutputArchive archive(buffer);
            archive << value;
        });
        use(scratch.text.data(), scratch.text.size());
    }
}

/// Calls `use` with the bytes of the elements of a vector from `start` up to, but not including, `end` (-1 is
/// the end of the vector).
template <typename T, typename Use>
void encode(const std::vector<T> &values, int start, int end, Use &&use) {
    const std::size_t first = static_cast<std::size_t>(start);
    const std::size_t last = end == -1 ? values.size() : static_cast<std::size_t>(end);
    if (start < 0 || end < -1 || first > last || last > values.size()) {
        throw Exception("invalid range [" + std::to_string(start) + ", " + std::to_string(end) +
                        ") of a vector of size " + std::to_string(values.size()));
    }
    const std::size_t n = last - first;
    Scratch scratch;
    if constexpr (is_plain<T>) {
        scratch.text.resize(sizeof n + n * sizeof(T));
        std::memcpy(&scratch.text[0], &n, sizeof n);
        if (n) {
            std::memcpy(&scratch.text[sizeof n], values.data() + first, n * sizeof(T));
        }
    } else {
        serializing("serialize", [&] {
            OutputStringWrapper buffer(scratch.text);
            OutputArchive archive(buffer);
            archive << n;
            save_objects(archive, values.data() + first, n);
        });
    }
    use(scratch.text.data(), scratch.text.size());
}

/// Decodes a value.
template <typename T>
void decode(const DataStore &datastore, std::string_view bytes, T &value) {
    if constexpr (is_plain<T>) {
        if (bytes.size() != sizeof value) {
            bad_size(demangle<T>(), sizeof value, bytes.size());
        }
        std::memcpy(&value, bytes.data(), sizeof value);
    } else {
        serializing("deserialize", [&] {
            InputStringWrapper buffer(bytes.data(), bytes.size());
            InputArchive archive(datastore, buffer);
            archive >> value;
        });
    }
}

/// Decodes a vector.
template <typename T>
void decode(const DataStore &datastore, std::string_view bytes, std::vector<T> &values) {
    std::size_t n = 0;
    if (bytes.size() < sizeof n) {
        bad_size(demangle<std::vector<T>>(), sizeof n, bytes.size());
    }
    std::memcpy(&n, bytes.data(), sizeof n);
    bytes.remove_prefix(sizeof n);
    if constexpr (is_plain<T>) {
        // divides instead of multiplying, as a damaged, large number would overflow
        if (bytes.size() / sizeof(T) != n || bytes.size() % sizeof(T) != 0) {
            bad_size(demangle<std::vector<T>>() + " of " + std::to_string(n), n * sizeof(T), bytes.size());
        }
        values.resize(n);
        if (n) {
            std::memcpy(values.data(), bytes.data(), bytes.size());
        }
    } else {
        // each element takes at least one byte, unless it has no members: do not allocate memory for a
        // damaged number
        if (!std::is_empty<T>::value && n > bytes.size()) {
            bad_size(demangle<std::vector<T>>() + " of " + std::to_string(n), n, bytes.size());
        }
        serializing("deserialize", [&] {
            InputStringWrapper buffer(bytes.data(), bytes.size());
            InputArchive archive(datastore, buffer);
            values.resize(n);
            load_objects(archive, values.data(), n);
        });
    }
}

} // namespace detail
} // namespace hepnos

#endif
