/// Describing structs once, so that what C++ stores as bytes, Python loads as columns.
///
///     struct Hit { float x, y, z; std::int32_t plane; };
///     FB_DESCRIBE(Hit, x, y, z, plane)          // outside of all namespaces
///
/// The first time that a Hit or a vector of them is stored in a store, its description is noted there under
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

/// Is std::true_type for types that were described, and goes through their members then.
template <class T>
struct Described : std::false_type {};

namespace detail {

template <class T>
struct Tag {
    using type = T;
};

/// What is known of the type of a member: its name, whether it can be a column, what must be described with
/// it.
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

} // namespace detail

/// The description of a type, as JSON: {"type": …, "size": …, "members": [{"name": …, "type": …, "offset":
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

/// The descriptions of a type and of those that it has as members, each with the key under which it is noted.
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

/// The names and types of the members that a note tells of, a line each.
inline std::string members_of(std::string_view note) {
    std::string members, key, name, type;
    bool is_inside = false;
    for (std::size_t i = 0; i < note.size(); ++i) {
        if (note[i] == '"') {
            std::string text;
            for (++i; i < note.size() && note[i] != '"'; ++i) {
                i += note[i] == '\\';
                text += i < note.size() ? note.substr(i, 1) : "";
            }
            const std::size_t next = note.find_first_not_of(" \t\r\n", i + 1);
            if (next < note.size() && note[next] == ':') {
                key = text;
                is_inside |= key == "members";
            } else if (key == "name") {
                name = text;
            } else if (key == "type") {
                type = text;
            }
        } else if (note[i] == '}' && is_inside) {
            members += type + " " + name + "\n";
        } else if (note[i] == ']') {
            is_inside = false;
        }
    }
    return members;
}

/// Whether the members of a type lie one behind the other, as other languages have them, which note no
/// places.
template <class T>
bool lies_plainly() {
    std::size_t end = 0;
    bool is_so = true;
    Described<T>::each([&end, &is_so](auto tag, const char *, std::size_t offset) {
        using Member = typename decltype(tag)::type;
        using Element = typename Column<Member>::Element;
        is_so &= offset == (end + alignof(Member) - 1) / alignof(Member) * alignof(Member);
        end = offset + sizeof(Member);
        if constexpr (Described<Element>::value) {
            is_so &= lies_plainly<Element>();
        }
    });
    return is_so && sizeof(T) == (end + alignof(T) - 1) / alignof(T) * alignof(T);
}

/// Whether what is noted of a type, by whatever language, is what is to be noted.
template <class T>
bool is_same_note(std::string_view there, std::string_view own) {
    if (there == own) {
        return true;
    }
    const bool has_places = there.find("\"size\"") != std::string_view::npos;
    return !has_places && members_of(there) == members_of(own) && lies_plainly<T>();
}

} // namespace detail
} // namespace fb

#define FB_DETAIL_MEMBER(type, member)                                                                       \
    static_assert(::fb::detail::Column<decltype(type::member)>::is_one,                                      \
                  #member " is no number, no array of them and no described struct");                        \
    visit(::fb::detail::Tag<decltype(type::member)>(), #member, offsetof(type, member));

/// Describes a struct by its members, of which there may be 64: numbers, enumerations, described structs, and
/// arrays of these. A member that is left out is not seen by others.
#define FB_DESCRIBE(type, ...)                                                                               \
    template <>                                                                                              \
    struct fb::Described<type> : std::true_type {                                                            \
        static_assert(std::is_trivially_copyable_v<type> && std::is_standard_layout_v<type>,                 \
                      "only a struct whose bytes are its value can be described");                           \
        template <class Visit>                                                                               \
        static void each(Visit &&visit) {                                                                    \
            FB_DETAIL_EACH(FB_DETAIL_MEMBER, type, __VA_ARGS__)                                              \
        }                                                                                                    \
    };

#endif
