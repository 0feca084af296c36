#ifndef FEMTOBARN_TESTDATA_DOUBLE32
#define FEMTOBARN_TESTDATA_DOUBLE32

#include <RtypesCore.h>

#include <array>
#include <vector>

namespace fb {

struct Low {
   Double32_t d = 0;
   std::vector<Double32_t> v;
   std::array<Double32_t, 2> a{};
};

} // namespace fb

#endif
