/// The types of items in a store.
#ifndef HEPNOS_ITEMTYPE_HPP
#define HEPNOS_ITEMTYPE_HPP

#include <cstdint>

namespace hepnos {

enum class ItemType : std::uint32_t { DATASET, RUN, SUBRUN, EVENT, PRODUCT };

} // namespace hepnos

#endif
