#include "types.hxx"

ClassImp(fb::WithTObject)

#ifdef __CLING__
#pragma link off all globals;
#pragma link off all functions;
#pragma link C++ enum fb::Color;
#pragma link C++ enum fb::Level;
#pragma link C++ enum fb::Small;
#pragma link C++ enum fb::Word;
#pragma link C++ enum fb::Wide;
#pragma link C++ enum fb::Huge;
#pragma link C++ class fb::Empty+;
#pragma link C++ class fb::Point+;
#pragma link C++ class fb::Point3+;
#pragma link C++ class fb::BaseA+;
#pragma link C++ class fb::BaseB+;
#pragma link C++ class fb::Derived+;
#pragma link C++ class fb::Deeper+;
#pragma link C++ class fb::FromEmpty+;
#pragma link C++ class fb::Transient+;
#pragma link C++ class fb::Outer+;
#pragma link C++ class fb::Outer::Inner+;
#pragma link C++ class fb::CArrays+;
#pragma link C++ class fb::Members+;
#pragma link C++ class fb::WithTObject+;
#pragma link C++ class fb::Node+;
#pragma link C++ class fb::Leaf+;
#pragma link C++ options=rntupleStreamerMode(true) class fb::Blob+;
#pragma link C++ options=rntupleStreamerMode(true) class fb::ForcedBlob+;
#pragma link C++ class fb::HoldsBlob+;
#pragma link C++ class FbHitRecord+;
#pragma link C++ options=rntupleSoARecord(FbHitRecord) class FbHitSoA+;
#pragma link C++ class fb::Bag<float>+;
#pragma link C++ class fb::Bag<fb::Point>+;
#pragma link C++ class std::vector<fb::Point>+;
#pragma link C++ class std::vector<fb::Node*>+;
#pragma link C++ class std::set<std::int32_t>+;
#pragma link C++ class std::set<std::string>+;
#pragma link C++ class std::set<std::pair<std::int32_t,std::int32_t>>+;
#pragma link C++ class std::set<std::vector<std::int32_t>>+;
#pragma link C++ class std::multiset<float>+;
#pragma link C++ class std::unordered_set<std::int64_t>+;
#pragma link C++ class std::unordered_multiset<std::string>+;
#pragma link C++ class std::map<std::string,float>+;
#pragma link C++ class std::map<std::string,std::vector<std::int32_t>>+;
#pragma link C++ class std::map<std::int32_t,std::map<std::string,std::vector<double>>>+;
#pragma link C++ class std::map<std::string,std::vector<double>>+;
#pragma link C++ class std::multimap<std::int32_t,std::string>+;
#pragma link C++ class std::unordered_map<std::uint32_t,fb::Point>+;
#pragma link C++ class std::unordered_multimap<std::string,bool>+;
#pragma link C++ class std::vector<std::map<std::int32_t,float>>+;
#pragma link C++ class std::map<std::int32_t,float>+;
#endif
