/// Names of types, as they stand in the keys of products: ROOT's short form, std::vector<Particle>, and not
/// what the compiler writes, so that programs of all compilers and of Python mean the same product.
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
