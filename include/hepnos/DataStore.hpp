/// A store: its class, and the classes that belong to it.
#ifndef HEPNOS_DATASTORE_HPP
#define HEPNOS_DATASTORE_HPP

#include <hepnos/detail/data_store.hpp>
#include <hepnos/detail/serialize.hpp>

namespace hepnos {

template <typename T>
bool DataStore::loadProduct(const ProductID &productID, T &value) const {
    const auto read = [&](std::string_view bytes) { detail::decode(*this, bytes, value); };
    opened();
    return detail::load_checked<T>(m_store, [&] { return loadRawData(productID, read); });
}

} // namespace hepnos

#include <hepnos/Ptr.hpp>
#include <hepnos/Queue.hpp>

#endif
