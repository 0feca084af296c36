/// Run numbers.
#ifndef HEPNOS_RUNNUMBER_HPP
#define HEPNOS_RUNNUMBER_HPP

#include <cstdint>
#include <limits>

namespace hepnos {

typedef std::uint64_t RunNumber;

/// A number that no run has.
const RunNumber InvalidRunNumber = std::numeric_limits<RunNumber>::max();

} // namespace hepnos

#endif
