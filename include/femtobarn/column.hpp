/// Columns of a batch as typed views, without copies.
#ifndef FEMTOBARN_COLUMN_HPP
#define FEMTOBARN_COLUMN_HPP

#include <femtobarn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace fb {

/// A view of consecutive values, as std::span of C++20.
template <class T>
class Span {
public:
    Span() = default;
    Span(T *data, std::size_t size) : m_data(data), m_size(size) {}

    T *data() const { return m_data; }
    std::size_t size() const { return m_size; }
    bool empty() const { return m_size == 0; }
    T *begin() const { return m_data; }
    T *end() const { return m_data + m_size; }
    T &operator[](std::size_t i) const { return m_data[i]; }

private:
    T *m_data = nullptr;
    std::size_t m_size = 0;
};

/// Lists of variable length: offsets, one more than lists, and the values of all lists.
template <class T>
class Jagged {
public:
    Jagged(Span<const std::int64_t> offsets, Span<T> values) : m_offsets(offsets), m_values(values) {}

    std::size_t size() const { return m_offsets.size() - 1; }
    Span<T> operator[](std::size_t i) const {
        const auto first = static_cast<std::size_t>(m_offsets[i]);
        return {m_values.data() + first, static_cast<std::size_t>(m_offsets[i + 1]) - first};
    }
    Span<const std::int64_t> offsets() const { return m_offsets; }
    Span<T> values() const { return m_values; }

private:
    Span<const std::int64_t> m_offsets;
    Span<T> m_values;
};

namespace detail {

/// The format of numbers of a C++ type in Arrow.
template <class T>
constexpr char number_format() {
    static_assert(std::is_arithmetic_v<T>, "values are numbers");
    static_assert(sizeof(T) <= 8, "no column has numbers of more than 8 bytes, such as long double: use double");
    if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 4 ? 'f' : 'g';
    } else if constexpr (std::is_same_v<T, bool>) {
        return 'C';
    } else {
        constexpr char formats[2][9] = {"-CS-I---", "-cs-i---"};
        return sizeof(T) == 8 ? (std::is_signed_v<T> ? 'l' : 'L') : formats[std::is_signed_v<T>][sizeof(T)];
    }
}

} // namespace detail

/// The structure of a column.
enum class Kind { number, text, list, array, record, other };

/// A column of a batch, or a part of it. It is valid as long as the batch, and may have only a schema.
///
///     const fb::Column muons = batch.column("Muon");             // a list of records
///     const fb::Span<const float> pt = muons.item().member("pt").values<float>();
class Column {
public:
    Column() = default;
    Column(const ArrowSchema *schema, const ArrowArray *array)
        : Column(schema, array, array ? array->offset : 0, array ? array->length : 0) {}

    Kind kind() const {
        const std::string_view format = this->format();
        if (format == "+L") {
            return Kind::list;
        }
        if (format.substr(0, 3) == "+w:") {
            return Kind::array;
        }
        if (format == "+s") {
            return Kind::record;
        }
        if (format == "U" || format == "Z") {
            return Kind::text;
        }
        return format.size() == 1 && std::strchr("cCsSiIlLfg", format[0]) ? Kind::number : Kind::other;
    }

    /// The type in Arrow's notation.
    std::string_view format() const { return m_schema->format; }
    std::string_view name() const { return m_schema->name ? m_schema->name : ""; }
    std::size_t size() const { return static_cast<std::size_t>(m_length); }

    /// Whether values may be missing: optional values, whose missing ones are undefined.
    bool is_optional() const {
        return !m_is_present && (m_schema->flags & ARROW_FLAG_NULLABLE) && format().substr(0, 2) != "+u";
    }

    /// Whether value `i` is there.
    bool has(std::size_t i) const {
        const auto *bits = static_cast<const std::uint8_t *>(m_array->buffers[0]);
        const std::size_t bit = static_cast<std::size_t>(m_offset) + i;
        return !bits || m_array->null_count == 0 || (bits[bit / 8] >> (bit % 8)) & 1;
    }

    /// The same column without the question whether values are missing.
    Column present() const {
        Column made = *this;
        made.m_is_present = true;
        return made;
    }

    /// The size of a fixed-size array.
    std::size_t array_size() const {
        return kind() == Kind::array ? std::strtoull(m_schema->format + 3, nullptr, 10) : 0;
    }

    /// The items of all lists or arrays.
    Column item() const {
        const bool is_array = kind() == Kind::array;
        if (!is_array && kind() != Kind::list) {
            fail("has no items");
        }
        const ArrowArray *child = m_array ? m_array->children[0] : nullptr;
        if (!child || !is_array) {
            return Column(m_schema->children[0], child);
        }
        const auto width = static_cast<std::int64_t>(array_size());
        return Column(m_schema->children[0], child, child->offset + m_offset * width, m_length * width);
    }

    std::size_t num_members() const {
        return kind() == Kind::record ? static_cast<std::size_t>(m_schema->n_children) : 0;
    }

    /// Member `i` of a record.
    Column member(std::size_t i) const {
        if (i >= num_members()) {
            fail("has no member " + std::to_string(i));
        }
        const ArrowArray *child = m_array ? m_array->children[i] : nullptr;
        return Column(m_schema->children[i], child, child ? child->offset + m_offset : 0, m_length);
    }

    /// A member of a record by its name; those of pairs and tuples are `_0`, `_1`, …
    Column member(std::string_view name) const {
        for (std::size_t i = 0; i < num_members(); ++i) {
            const std::string_view own = m_schema->children[i]->name;
            const bool is_number = !name.empty() && name[0] == '_' && name.substr(1) == own;
            if (own == name || is_number) {
                return member(i);
            }
        }
        fail("has no member " + std::string(name));
    }

    /// Numbers; T must be their type. Booleans are bool.
    template <class T>
    Span<T> values() const {
        using Value = std::remove_const_t<T>;
        static_assert(std::is_const_v<T>, "values cannot be changed");
        if (format().size() != 1 || format()[0] != detail::number_format<Value>()) {
            fail("has other values than requested");
        }
        if (m_length == 0) {
            return {};
        }
        return {static_cast<T *>(m_array->buffers[1]) + m_offset, size()};
    }

    /// The first byte of the numbers.
    const char *bytes() const {
        static const char nothing = 0;
        const auto *first = m_length ? static_cast<const char *>(m_array->buffers[1]) : &nothing;
        return first + m_offset * static_cast<std::int64_t>(number_size());
    }

    /// The size of a number in bytes.
    std::size_t number_size() const {
        switch (format()[0]) {
        case 'c':
        case 'C':
            return 1;
        case 's':
        case 'S':
            return 2;
        case 'i':
        case 'I':
        case 'f':
            return 4;
        default:
            return 8;
        }
    }

    /// The offsets of lists or strings, one more than these.
    Span<const std::int64_t> offsets() const {
        static const std::int64_t nothing = 0;
        if (kind() != Kind::list && kind() != Kind::text) {
            fail("has no offsets");
        }
        if (m_length == 0) {
            return {&nothing, 1};
        }
        return {static_cast<const std::int64_t *>(m_array->buffers[1]) + m_offset, size() + 1};
    }

    /// Lists of numbers.
    template <class T>
    Jagged<T> lists() const {
        return Jagged<T>(offsets(), item().template values<T>());
    }

    /// String `i`.
    std::string_view text(std::size_t i) const {
        if (kind() != Kind::text) {
            fail("has no strings");
        }
        const auto *ends = static_cast<const std::int64_t *>(m_array->buffers[1]) + m_offset + i;
        const auto *first = static_cast<const char *>(m_array->buffers[2]);
        return {first ? first + ends[0] : "", static_cast<std::size_t>(ends[1] - ends[0])};
    }

private:
    Column(const ArrowSchema *schema, const ArrowArray *array, std::int64_t offset, std::int64_t length)
        : m_schema(schema), m_array(array), m_offset(offset), m_length(length) {}

    [[noreturn]] void fail(const std::string &what) const {
        throw Error("usage", "column \"" + std::string(name()) + "\" of Arrow type " + m_schema->format + " " + what);
    }

    const ArrowSchema *m_schema = nullptr;
    const ArrowArray *m_array = nullptr;
    std::int64_t m_offset = 0;
    std::int64_t m_length = 0;
    bool m_is_present = false;
};

} // namespace fb

#endif
