// Apart from types.cxx: one dictionary cannot hold both std::vector<double> and std::vector<Double32_t>.
#include "double32_types.hxx"

#ifdef __CLING__
#pragma link off all globals;
#pragma link off all functions;
#pragma link C++ class fb::Low+;
#endif
