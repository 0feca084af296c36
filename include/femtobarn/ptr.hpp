/// References to products. A reference can itself be stored: alone, in a std::vector, and in other values.
/// Python's femtobarn.Ptr is stored as the same bytes.
///
///     event.store("best", fb::Ptr::to<std::vector<Track>>(event, "tracks", 3));
///     const Track best = event.load<fb::Ptr>("best")->load<Track>(store);
#ifndef FEMTOBARN_PTR_HPP
#define FEMTOBARN_PTR_HPP

#include <femtobarn/container.hpp>

#include <array>

namespace fb {

/// A reference to a product, or to an element of a product that is a vector. The stored bytes do not name the
/// store: a reference refers into the store that it was loaded from.
struct Ptr {
    /// The container of the product; the root, which has no products, if the reference is null.
    Descriptor container = nothing();
    /// The index of the element; ABSENT for the whole product.
    std::uint64_t index = ABSENT;
    /// The label of the product.
    std::string label;
    /// The type of the product, as in keys.
    std::string type;

    /// Makes a reference to the product with this label and of type T, or to an element of it.
    template <class T>
    static Ptr to(const Container &item, std::string_view label, std::uint64_t index = ABSENT) {
        Ptr ptr;
        ptr.container = item.descriptor();
        ptr.index = index;
        ptr.label = label;
        ptr.type = type_name<T>();
        return ptr;
    }

    /// Whether the reference is not null. The product need not exist.
    bool valid() const { return !(container == nothing()); }
    explicit operator bool() const { return valid(); }

    /// Loads the product, or the element of a std::vector<T>. Returns whether it exists; throws if the
    /// product has another type.
    template <class T>
    bool load(const Store &store, T &value) const {
        if (!valid()) {
            return false;
        }
        if (index == ABSENT) {
            return read(store, value);
        }
        if constexpr (detail::has_codec<std::vector<T>>::value) {
            std::vector<T> all;
            if (!read(store, all) || index >= all.size()) {
                return false;
            }
            value = std::move(all[index]);
            return true;
        } else {
            other_type(store, type_name<std::vector<T>>());
        }
    }

    /// Loads the product or element; throws if it does not exist.
    template <class T>
    T load(const Store &store) const {
        T value{};
        if (!load(store, value)) {
            throw Error("not-in-store",
                        store.url() + ": the target of a reference does not exist: " + text());
        }
        return value;
    }

    /// Describes the reference, for messages.
    std::string text() const {
        if (!valid()) {
            return "it refers to nothing";
        }
        std::string what = label;
        what += index == ABSENT ? "" : "[" + std::to_string(index) + "]";
        what += " (" + type + ") of ";
        constexpr const char *digits = "0123456789abcdef";
        what += "dataset ";
        for (std::size_t i = 0; i < 16; ++i) {
            (what += digits[container.bytes[i] >> 4]) += digits[container.bytes[i] & 15];
        }
        const auto add = [&what](const char *name, std::uint64_t number) {
            what += number == ABSENT ? "" : ", " + std::string(name) + " " + std::to_string(number);
        };
        add("run", container.run());
        add("subrun", container.subrun());
        add("event", container.event());
        return what;
    }

    friend bool operator==(const Ptr &a, const Ptr &b) {
        return a.container == b.container && a.index == b.index && a.label == b.label && a.type == b.type;
    }
    friend bool operator!=(const Ptr &a, const Ptr &b) { return !(a == b); }

private:
    static Descriptor nothing() {
        Descriptor root;
        std::memset(root.bytes, 0, 16);
        return root;
    }

    [[noreturn]] void other_type(const Store &store, const std::string &wanted) const {
        throw Error("class-differs", store.url() + ": not a reference to a " + wanted + ": " + text());
    }

    template <class T>
    bool read(const Store &store, T &value) const {
        if (type != type_name<T>()) {
            other_type(store, type_name<T>());
        }
        return store.load_checked<T>([&] {
            return store.read(container, label + "#" + type,
                              [&value](std::string_view bytes) { Codec<T>::decode(bytes, value); });
        });
    }
};

namespace detail {

/// Reads consecutive values.
class Bytes {
public:
    explicit Bytes(std::string_view bytes) : m_left(bytes) {}

    std::string_view take(std::uint64_t n) {
        if (m_left.size() < n) {
            bad_size("fb::Ptr", static_cast<std::size_t>(n), m_left.size());
        }
        const std::string_view taken = m_left.substr(0, static_cast<std::size_t>(n));
        m_left.remove_prefix(taken.size());
        return taken;
    }
    std::uint64_t number() {
        std::uint64_t number = 0;
        std::memcpy(&number, take(sizeof number).data(), sizeof number);
        return number;
    }
    void check_end() const {
        if (!m_left.empty()) {
            bad_size("fb::Ptr", 0, m_left.size());
        }
    }

private:
    std::string_view m_left;
};

inline void add_number(std::string &bytes, std::uint64_t number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
}

inline void add_ptr(std::string &bytes, const Ptr &ptr) {
    bytes.append(reinterpret_cast<const char *>(ptr.container.bytes), 16);
    for (const std::uint64_t number :
         {ptr.container.run(), ptr.container.subrun(), ptr.container.event(), ptr.index}) {
        add_number(bytes, number);
    }
    for (const std::string &text : {ptr.label, ptr.type}) {
        add_number(bytes, text.size());
        bytes += text;
    }
}

inline void take_ptr(Bytes &bytes, Ptr &ptr) {
    std::memcpy(ptr.container.bytes, bytes.take(16).data(), 16);
    for (std::size_t at = 16; at < 40; at += 8) {
        const std::uint64_t number = bytes.number();
        for (std::size_t i = 0; i < 8; ++i) {
            ptr.container.bytes[at + i] =
                static_cast<std::uint8_t>(number >> (56 - 8 * i)); // big-endian in keys
        }
    }
    ptr.index = bytes.number();
    ptr.label = bytes.take(bytes.number());
    ptr.type = bytes.take(bytes.number());
}

} // namespace detail

template <>
struct Codec<Ptr> {
    static std::string encode(const Ptr &ptr) {
        std::string bytes;
        detail::add_ptr(bytes, ptr);
        return bytes;
    }
    static void decode(std::string_view stored, Ptr &ptr) {
        detail::Bytes bytes(stored);
        detail::take_ptr(bytes, ptr);
        bytes.check_end();
    }
};

template <>
struct Codec<std::vector<Ptr>> {
    static std::string encode(const std::vector<Ptr> &ptrs) {
        std::string bytes;
        detail::add_number(bytes, ptrs.size());
        for (const Ptr &ptr : ptrs) {
            detail::add_ptr(bytes, ptr);
        }
        return bytes;
    }
    static void decode(std::string_view stored, std::vector<Ptr> &ptrs) {
        detail::Bytes bytes(stored);
        ptrs.clear();
        for (std::uint64_t n = bytes.number(); n > 0;
             --n) { // grows with the available bytes, as the number may be damaged
            detail::take_ptr(bytes, ptrs.emplace_back());
        }
        bytes.check_end();
    }
};

template <>
struct Described<Ptr> : std::true_type {};

namespace detail {
template <>
inline bool is_whole<Ptr>() {
    return true; // its Codec writes the members one after the other
}
} // namespace detail

/// The note of fb::Ptr, as other languages write it.
template <>
inline std::vector<std::pair<std::string, std::string>> descriptions<Ptr>() {
    std::string members;
    for (const auto &[name, type] :
         {std::pair<const char *, const char *>{"dataset", "std::array<std::uint8_t,16>"},
          {"run", "std::uint64_t"},
          {"subrun", "std::uint64_t"},
          {"event", "std::uint64_t"},
          {"index", "std::uint64_t"},
          {"label", "std::string"},
          {"type", "std::string"}}) {
        members += members.empty() ? "" : ",";
        members += "{\"name\":" + detail::quoted(name) + ",\"type\":" + detail::quoted(type) + "}";
    }
    return {{"type/fb::Ptr", "{\"type\":\"fb::Ptr\",\"members\":[" + members + "]}"}};
}

} // namespace fb

#endif
