/// Names of types in the keys of products: ROOT's short form, std::vector<Particle>, instead of the
/// compiler's form, so that programs of all compilers and of Python use the same names.
#ifndef HEPNOS_DEMANGLE_HPP
#define HEPNOS_DEMANGLE_HPP

#include <femtobarn/type_name.hpp>

#include <string>

namespace hepnos {

template <typename T>
const std::string &demangle() {
    return fb::type_name<T>();
}

template <typename T>
const std::string &demangle(T &&) {
    return demangle<T>();
}

} // namespace hepnos

#endif
