/// The interface for storing and loading products: a store, a batch, an engine, a prefetcher, a cache.
#ifndef HEPNOS_RAWSTORAGE_HPP
#define HEPNOS_RAWSTORAGE_HPP

#include <hepnos/Exception.hpp>
#include <hepnos/ProductID.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace hepnos {

class DataStore;

namespace detail {

/// A reference to a function that takes the bytes of a product.
class Reader {
public:
    template <typename F, typename = std::enable_if_t<!std::is_same<std::decay_t<F>, Reader>::value>>
    Reader(F &&function)
        : m_function(const_cast<void *>(static_cast<const void *>(&function))),
          m_call([](void *given, std::string_view bytes) {
              (*static_cast<std::remove_reference_t<F> *>(given))(bytes);
          }) {}

    void operator()(std::string_view bytes) const { m_call(m_function, bytes); }

private:
    void *m_function;
    void (*m_call)(void *, std::string_view);
};

} // namespace detail

class RawStorage {
public:
    virtual ~RawStorage() = default;

    virtual bool valid() const = 0;

protected:
    friend struct detail::Access;

    RawStorage() = default;
    RawStorage(const RawStorage &) = default;
    RawStorage(RawStorage &&) = default;
    RawStorage &operator=(const RawStorage &) = default;
    RawStorage &operator=(RawStorage &&) = default;

    virtual ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) = 0;

    /// Passes the bytes of a product to `reader`; returns whether it exists.
    virtual bool loadRawData(const ProductID &key, const detail::Reader &reader) const = 0;

    /// The store that products are loaded from.
    virtual const DataStore &loadedFrom() const = 0;
};

} // namespace hepnos

#endif
