/// Running statistics of numbers.
#ifndef HEPNOS_STATISTICS_HPP
#define HEPNOS_STATISTICS_HPP

#include <chrono>
#include <cstddef>
#include <ostream>

#if __has_include(<spdlog/fmt/fmt.h>)
#include <spdlog/fmt/fmt.h>
#define HEPNOS_HAS_FMT 1
#endif

namespace hepnos {

template <typename Number, typename Double = double>
struct Statistics {
    std::size_t num = 0;
    Number max = 0;
    Number min = 0;
    Double avg = 0;
    Double var = 0;

    void updateWith(Number value) {
        Statistics one;
        one.num = 1;
        one.max = one.min = value;
        one.avg = static_cast<Double>(value);
        updateWith(one);
    }

    /// Adds other statistics.
    void updateWith(const Statistics &other) {
        if (other.num == 0) {
            return;
        }
        if (num == 0) {
            *this = other;
            return;
        }
        const Double n = static_cast<Double>(num), m = static_cast<Double>(other.num), all = n + m;
        const Double apart = other.avg - avg;
        var = (n * var + m * other.var) / all + apart * apart * n * m / (all * all);
        avg += apart * m / all;
        max = max < other.max ? other.max : max;
        min = other.min < min ? other.min : min;
        num += other.num;
    }
};

/// Seconds since an arbitrary time.
inline double wtime() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

template <typename Number, typename Double>
std::ostream &operator<<(std::ostream &stream, const Statistics<Number, Double> &stats) {
    return stream << "{ \"num\" : " << stats.num << ", \"max\" : " << stats.max << ", \"min\" : " << stats.min
                  << ", \"avg\" : " << stats.avg << ", \"var\" : " << stats.var << " }";
}

} // namespace hepnos

#ifdef HEPNOS_HAS_FMT
namespace fmt {

template <typename Number, typename Double>
struct formatter<hepnos::Statistics<Number, Double>> {
    constexpr auto parse(format_parse_context &context) { return context.begin(); }

    template <typename Context>
    auto format(const hepnos::Statistics<Number, Double> &stats, Context &context) const {
        return format_to(context.out(),
                         "{{ \"num\" : {}, \"max\" : {}, \"min\" : {}, \"avg\" : {}, \"var\" : {} }}",
                         stats.num, stats.max, stats.min, stats.avg, stats.var);
    }
};

} // namespace fmt
#endif

#endif
