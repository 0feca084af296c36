/// Identifiers of datasets.
#ifndef HEPNOS_UUID_HPP
#define HEPNOS_UUID_HPP

#include <boost/serialization/split_member.hpp>
#include <boost/serialization/string.hpp>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <type_traits>

namespace hepnos {

struct UUID {
    unsigned char data[16];

    /// The nil UUID.
    UUID() { std::memset(data, 0, sizeof data); }

    /// A random UUID (version 4 of RFC 9562).
    static UUID generate() {
        UUID made;
        made.randomize();
        return made;
    }

    /// A UUID that depends only on the string.
    static UUID fromStringHash(const std::string &text) {
        std::uint64_t sums[2] = {0xcbf29ce484222325, 0x84222325cbf29ce4};
        for (const unsigned char c : text) {
            for (auto &sum : sums) {
                sum = (sum ^ c) * 0x100000001b3; // FNV-1a, from two start values
            }
        }
        UUID made;
        for (int i = 0; i < 16; ++i) {
            made.data[i] = static_cast<unsigned char>(sums[i / 8] >> (56 - 8 * (i % 8)));
        }
        return made;
    }

    void randomize() {
        std::random_device random;
        for (int i = 0; i < 16; i += 4) {
            const std::uint32_t some = random();
            std::memcpy(data + i, &some, sizeof some);
        }
        data[6] = static_cast<unsigned char>((data[6] & 0x0f) | 0x40);
        data[8] = static_cast<unsigned char>((data[8] & 0x3f) | 0x80);
    }

    std::string to_string() const {
        constexpr const char *digits = "0123456789abcdef";
        std::string text;
        for (int i = 0; i < 16; ++i) {
            if (i == 4 || i == 6 || i == 8 || i == 10) {
                text += '-';
            }
            text += digits[data[i] >> 4];
            text += digits[data[i] & 15];
        }
        return text;
    }

    std::uint64_t hash() const {
        std::uint64_t halves[2];
        std::memcpy(halves, data, sizeof halves);
        return halves[0] ^ halves[1];
    }

    bool operator==(const UUID &other) const { return std::memcmp(data, other.data, sizeof data) == 0; }
    bool operator!=(const UUID &other) const { return !(*this == other); }
    bool operator<(const UUID &other) const { return std::memcmp(data, other.data, sizeof data) < 0; }

    template <typename Archive>
    void save(Archive &archive, const unsigned int) const {
        const std::string bytes(reinterpret_cast<const char *>(data), sizeof data);
        archive &bytes;
    }

    template <typename Archive>
    void load(Archive &archive, const unsigned int) {
        std::string bytes;
        archive &bytes;
        bytes.resize(sizeof data);
        std::memcpy(data, bytes.data(), sizeof data);
    }

    BOOST_SERIALIZATION_SPLIT_MEMBER()
};

namespace detail {

/// Whether a type is an archive, which takes values instead of formatted strings.
template <typename T, typename = void>
struct IsArchive : std::false_type {};
template <typename T>
struct IsArchive<T, std::void_t<typename T::is_saving>> : std::true_type {};

} // namespace detail

template <typename Stream, typename = std::enable_if_t<!detail::IsArchive<Stream>::value>>
Stream &operator<<(Stream &stream, const UUID &uuid) {
    stream << uuid.to_string();
    return stream;
}

} // namespace hepnos

#endif
