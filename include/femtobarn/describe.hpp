/// Describes structs, so that Python can load as columns what C++ stores as bytes.
///
///     struct Hit { float x, y, z; std::int32_t plane; };
///     FB_DESCRIBE(Hit, x, y, z, plane)          // outside of all namespaces
///
/// The first time that a Hit or a vector of Hit is stored in a store, its description is noted there under
/// "type/Hit".
#ifndef FEMTOBARN_DESCRIBE_HPP
#define FEMTOBARN_DESCRIBE_HPP

#include <femtobarn/describe_each.hpp>
#include <femtobarn/type_name.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fb {

/// Derives from std::true_type for described types, and then iterates over their members.
template <class T>
struct Described : std::false_type {};

namespace detail {

template <class T>
struct Tag {
    using type = T;
};

/// The type of a member: its name, whether it can be a column, and the element type that must be described
/// too.
template <class T, class = void>
struct Column {
    static constexpr bool is_one = std::is_arithmetic_v<T> || Described<T>::value;
    using Element = T;
    static std::string name() { return type_name<T>(); }
};

template <class T>
struct Column<T, std::enable_if_t<std::is_enum_v<T>>> : Column<std::underlying_type_t<T>> {};

template <class T, std::size_t N>
struct Column<std::array<T, N>, void> {
    static constexpr bool is_one = Column<T>::is_one;
    using Element = typename Column<T>::Element;
    static std::string name() { return "std::array<" + Column<T>::name() + "," + std::to_string(N) + ">"; }
};

template <class T, std::size_t N>
struct Column<T[N], void> : Column<std::array<T, N>> {};

inline std::string quoted(const std::string &text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            made += '\\';
        }
        made += c;
    }
    return made + '"';
}

/// The end of the JSON string that begins at `at`.
inline std::size_t end_of_string(std::string_view json, std::size_t at) {
    for (++at; at < json.size() && json[at] != '"'; ++at) {
        at += json[at] == '\\';
    }
    return at < json.size() ? at + 1 : json.size();
}

/// The names and types of the members in a description written by any language. C++ also notes sizes and
/// offsets, which follow from the types.
inline std::vector<std::pair<std::string, std::string>> members(std::string_view json) {
    std::vector<std::pair<std::string, std::string>> found;
    std::string key;
    int depth = 0;
    for (std::size_t at = 0; at < json.size();) {
        const char c = json[at];
        if (c != '"') {
            depth += (c == '{') - (c == '}');
            if (c == '{' && depth == 2) {
                found.emplace_back();
            }
            if (c == ',' || c == '{') {
                key.clear();
            }
            ++at;
            continue;
        }
        const std::size_t end = end_of_string(json, at);
        const std::string_view text = json.substr(at, end - at);
        if (depth == 2 && key == "\"name\"") {
            found.back().first = text;
        } else if (depth == 2 && key == "\"type\"") {
            found.back().second = text;
        }
        key = text;
        at = end;
    }
    return found;
}

inline std::string unquoted(const std::string &quoted) {
    return quoted.size() < 2 ? quoted : quoted.substr(1, quoted.size() - 2);
}

/// Members as in a declaration, for messages: float pt, float eta.
inline std::string declared(const std::vector<std::pair<std::string, std::string>> &members) {
    std::string text;
    for (const auto &[name, type] : members) {
        text += (text.empty() ? "" : ", ") + unquoted(type) + " " + unquoted(name);
    }
    return text.empty() ? "no members" : text;
}

/// Only the names of the members: pt, eta.
inline std::string names_of(const std::vector<std::pair<std::string, std::string>> &members) {
    std::string text;
    for (const auto &[name, type] : members) {
        text += (text.empty() ? "" : ", ") + unquoted(name);
    }
    return text;
}

} // namespace detail

/// The description of a type as JSON: {"type": …, "size": …, "members": [{"name": …, "type": …, "offset":
/// …}]}.
template <class T>
std::string description() {
    static_assert(Described<T>::value, "describe the type with FB_DESCRIBE");
    std::string members;
    Described<T>::each([&members](auto tag, const char *name, std::size_t offset) {
        members += members.empty() ? "" : ", ";
        members += "{\"name\": " + detail::quoted(name) +
                   ", \"type\": " + detail::quoted(detail::Column<typename decltype(tag)::type>::name()) +
                   ", \"offset\": " + std::to_string(offset) + "}";
    });
    return "{\"type\": " + detail::quoted(type_name<T>()) + ", \"size\": " + std::to_string(sizeof(T)) +
           ", \"members\": [" + members + "]}";
}

/// The descriptions of a type and of the types of its members, each with the key under which it is noted.
template <class T>
std::vector<std::pair<std::string, std::string>> descriptions() {
    std::vector<std::pair<std::string, std::string>> all;
    all.emplace_back("type/" + type_name<T>(), description<T>());
    Described<T>::each([&all](auto tag, const char *, std::size_t) {
        using Element = typename detail::Column<typename decltype(tag)::type>::Element;
        if constexpr (Described<Element>::value) {
            for (auto &one : descriptions<Element>()) {
                all.push_back(std::move(one));
            }
        }
    });
    return all;
}

namespace detail {

/// Whether all members of a struct are described, in their order. Other languages compute the offsets from
/// the types.
template <class T>
bool is_whole() {
    std::size_t end = 0;
    bool is_so = true;
    Described<T>::each([&end, &is_so](auto tag, const char *, std::size_t offset) {
        using Member = typename decltype(tag)::type;
        is_so = is_so && offset == (end + alignof(Member) - 1) / alignof(Member) * alignof(Member);
        end = offset + sizeof(Member);
        if constexpr (Described<typename Column<Member>::Element>::value) {
            is_so = is_so && is_whole<typename Column<Member>::Element>();
        }
    });
    // A struct without members still has one byte.
    return is_so && (std::is_empty_v<T> || sizeof(T) == (end + alignof(T) - 1) / alignof(T) * alignof(T));
}

} // namespace detail

} // namespace fb

#define FB_DETAIL_MEMBER(type, member)                                                                       \
    static_assert(::fb::detail::Column<decltype(type::member)>::is_one,                                      \
                  #member " must be a number, a described struct or an array of these");                     \
    visit(::fb::detail::Tag<decltype(type::member)>(), #member, offsetof(type, member));

/// Describes a struct by all its members, in their order; at most 64. Members can be numbers, enumerations,
/// described structs, and arrays of these. Storing a struct with members left out is an error.
#define FB_DESCRIBE(type, ...)                                                                               \
    template <>                                                                                              \
    struct fb::Described<type> : std::true_type {                                                            \
        static_assert(std::is_trivially_copyable_v<type> && std::is_standard_layout_v<type>,                 \
                      "the struct must be trivially copyable, with standard layout");                        \
        template <class Visit>                                                                               \
        static void each(Visit &&visit) {                                                                    \
            FB_DETAIL_EACH(FB_DETAIL_MEMBER, type, __VA_ARGS__)                                              \
        }                                                                                                    \
    };

#endif
