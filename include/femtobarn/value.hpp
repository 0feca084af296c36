/// Encodes values as bytes, in the same way as HEPnOS: a plain value as it lies in memory, a vector of plain
/// values as their number in 64 bits and the values. In a vector of strings or vectors, the encoded elements
/// follow each other.
#ifndef FEMTOBARN_VALUE_HPP
#define FEMTOBARN_VALUE_HPP

#include <femtobarn/error.hpp>
#include <femtobarn/type_name.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace fb {

namespace detail {

/// Whether a type contains pointers, which are meaningless in another process: a pointer, and arrays, pairs,
/// tuples and vectors of pointers. Members of structs are not checked here, but in their description.
template <class T>
inline constexpr bool holds_pointers = std::is_pointer_v<T> || std::is_member_pointer_v<T>;
template <class T, std::size_t N>
inline constexpr bool holds_pointers<T[N]> = holds_pointers<T>;
template <class T, std::size_t N>
inline constexpr bool holds_pointers<std::array<T, N>> = holds_pointers<T>;
template <class T, class A>
inline constexpr bool holds_pointers<std::vector<T, A>> = holds_pointers<T>;
template <class... T>
inline constexpr bool holds_pointers<std::tuple<T...>> = (holds_pointers<T> || ...);
template <class A, class B>
inline constexpr bool holds_pointers<std::pair<A, B>> = holds_pointers<A> || holds_pointers<B>;

} // namespace detail

/// Whether a value of a type can be stored as its bytes in memory.
template <class T>
inline constexpr bool is_plain =
    std::is_trivial_v<T> &&std::is_standard_layout_v<T> && !detail::holds_pointers<T>;

namespace detail {

/// Base of codecs that store plain values as they lie in memory.
struct AsItLies {};

inline fb_bytes c_bytes(std::string_view bytes) {
    return {reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()};
}

inline std::string_view view(const fb_bytes &bytes) {
    return {reinterpret_cast<const char *>(bytes.data), bytes.size};
}

[[noreturn]] inline void bad_size(const std::string &type, std::size_t expected, std::size_t found) {
    throw Error("product-damaged", "the product is not a valid " + type + ": expected " +
                                       std::to_string(expected) + " bytes, found " + std::to_string(found));
}

/// Encodes the number of elements in 64 bits, then the elements.
template <class Container>
std::string counted(const Container &values) {
    const std::uint64_t n = values.size();
    const std::size_t n_bytes = values.size() * sizeof(typename Container::value_type);
    std::string bytes(sizeof n + n_bytes, '\0');
    std::memcpy(&bytes[0], &n, sizeof n);
    if (n_bytes) {
        std::memcpy(&bytes[sizeof n], values.data(), n_bytes);
    }
    return bytes;
}

template <class Container>
void uncounted(std::string_view bytes, Container &values) {
    using Value = typename Container::value_type;
    std::uint64_t n = 0;
    if (bytes.size() < sizeof n) {
        bad_size(type_name<Container>(), sizeof n, bytes.size());
    }
    std::memcpy(&n, bytes.data(), sizeof n);
    bytes.remove_prefix(sizeof n);
    // Divides instead of multiplying, so that a damaged, large number does not overflow.
    if (bytes.size() / sizeof(Value) != n || bytes.size() % sizeof(Value) != 0) {
        bad_size(type_name<Container>() + " of " + std::to_string(n),
                 bytes.size() / sizeof(Value) * sizeof(Value), bytes.size());
    }
    values.resize(n);
    if (n) {
        std::memcpy(&values[0], bytes.data(), bytes.size());
    }
}

} // namespace detail

/// Encodes and decodes values of a type. Specialize it for your own types that are not plain.
template <class T, class = void>
struct Codec;

template <class T>
struct Codec<T, std::enable_if_t<detail::holds_pointers<T>>> {
    static_assert(!detail::holds_pointers<T>,
                  "a value with pointers cannot be stored, as they are invalid in another process; store "
                  "what they point to, or an fb::Ptr to a product");
};

template <class T>
struct Codec<T, std::enable_if_t<is_plain<T>>> : detail::AsItLies {
    static std::string encode(const T &value) {
        return std::string(reinterpret_cast<const char *>(&value), sizeof value);
    }
    static void decode(std::string_view bytes, T &value) {
        if (bytes.size() != sizeof value) {
            detail::bad_size(type_name<T>(), sizeof value, bytes.size());
        }
        std::memcpy(&value, bytes.data(), sizeof value);
    }
};

template <class T>
struct Codec<std::vector<T>, std::enable_if_t<is_plain<T> && !std::is_same_v<T, bool>>> : detail::AsItLies {
    static std::string encode(const std::vector<T> &values) { return detail::counted(values); }
    static void decode(std::string_view bytes, std::vector<T> &values) { detail::uncounted(bytes, values); }
};

template <>
struct Codec<std::string> {
    static std::string encode(const std::string &text) { return detail::counted(text); }
    static void decode(std::string_view bytes, std::string &text) { detail::uncounted(bytes, text); }
};

namespace detail {

/// Strings and vectors, which begin with the number of elements.
template <class T>
inline constexpr bool is_counted = false;
template <>
inline constexpr bool is_counted<std::string> = true;
template <class T>
inline constexpr bool is_counted<std::vector<T>> = (is_plain<T> && !std::is_same_v<T, bool>) || is_counted<T>;

/// Cuts the bytes of the first value from a sequence of values.
template <class T>
std::string_view first_counted(std::string_view &bytes) {
    using Value = typename T::value_type;
    const std::string_view whole = bytes;
    std::uint64_t n = 0;
    if (bytes.size() < sizeof n) {
        bad_size(type_name<T>(), sizeof n, bytes.size());
    }
    std::memcpy(&n, bytes.data(), sizeof n);
    bytes.remove_prefix(sizeof n);
    if constexpr (is_counted<Value>) {
        for (; n > 0; --n) {
            first_counted<Value>(bytes);
        }
    } else {
        if (bytes.size() / sizeof(Value) < n) {
            bad_size(type_name<T>() + " of " + std::to_string(n), static_cast<std::size_t>(n) * sizeof(Value),
                     bytes.size());
        }
        bytes.remove_prefix(static_cast<std::size_t>(n) * sizeof(Value));
    }
    return whole.substr(0, whole.size() - bytes.size());
}

} // namespace detail

template <class T>
struct Codec<std::vector<T>, std::enable_if_t<detail::is_counted<T>>> : detail::AsItLies {
    static std::string encode(const std::vector<T> &values) {
        const std::uint64_t n = values.size();
        std::string bytes(reinterpret_cast<const char *>(&n), sizeof n);
        for (const T &value : values) {
            bytes += Codec<T>::encode(value);
        }
        return bytes;
    }
    static void decode(std::string_view bytes, std::vector<T> &values) {
        std::uint64_t n = 0;
        if (bytes.size() < sizeof n) {
            detail::bad_size(type_name<std::vector<T>>(), sizeof n, bytes.size());
        }
        std::memcpy(&n, bytes.data(), sizeof n);
        bytes.remove_prefix(sizeof n);
        values.clear();
        for (; n > 0; --n) { // grows with the available bytes, as the number may be damaged
            const std::string_view one = detail::first_counted<T>(bytes);
            Codec<T>::decode(one, values.emplace_back());
        }
        if (!bytes.empty()) {
            detail::bad_size(type_name<std::vector<T>>(), 0, bytes.size());
        }
    }
};

namespace detail {

/// Whether a type has a codec.
template <class T, class = void>
struct has_codec : std::false_type {};
template <class T>
struct has_codec<T, std::void_t<decltype(sizeof(Codec<T>))>> : std::true_type {};

/// Whether values of a type, or elements of vectors of it, are stored as they lie in memory.
template <class T>
constexpr bool is_as_it_lies() {
    if constexpr (has_codec<T>::value) {
        return std::is_base_of_v<AsItLies, Codec<T>>;
    } else {
        return false;
    }
}

} // namespace detail

/// The name of a product in keys: label#type.
template <class T>
std::string product_name(std::string_view label) {
    std::string name(label);
    name += '#';
    return name += type_name<T>();
}

} // namespace fb

#endif
