/// Event numbers.
#ifndef HEPNOS_EVENTNUMBER_HPP
#define HEPNOS_EVENTNUMBER_HPP

#include <cstdint>
#include <limits>

namespace hepnos {

typedef std::uint64_t EventNumber;

/// A number that no event has.
const EventNumber InvalidEventNumber = std::numeric_limits<EventNumber>::max();

} // namespace hepnos

#endif
