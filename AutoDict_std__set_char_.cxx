#include "set"
#include "vector"
#include "variant"
#ifdef __CLING__ 
#pragma link C++ nestedclasses;
#pragma link C++ nestedtypedefs;
#pragma link C++ class std::set<char>+;
#endif
