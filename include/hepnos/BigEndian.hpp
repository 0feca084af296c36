/// Big-endian numbers.
#ifndef HEPNOS_BIGENDIAN_HPP
#define HEPNOS_BIGENDIAN_HPP

#include <cstddef>
#include <cstdint>

namespace hepnos {

template <typename T>
class BE {
public:
    BE() = default;
    BE(T number) : m_value(swapped(number)) {}

    operator T() const { return swapped(m_value); }

private:
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "numbers of 16, 32 or 64 bits");

    static T swapped(T number) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        return number;
#else
        if constexpr (sizeof(T) == 2) {
            return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(number)));
        } else if constexpr (sizeof(T) == 4) {
            return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(number)));
        } else {
            return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(number)));
        }
#endif
    }

    T m_value = 0;
};

} // namespace hepnos

#endif
