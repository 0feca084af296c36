/// Subrun numbers.
#ifndef HEPNOS_SUBRUNNUMBER_HPP
#define HEPNOS_SUBRUNNUMBER_HPP

#include <cstdint>
#include <limits>

namespace hepnos {

typedef std::uint64_t SubRunNumber;

/// A number that no subrun has.
const SubRunNumber InvalidSubRunNumber = std::numeric_limits<SubRunNumber>::max();

} // namespace hepnos

#endif
