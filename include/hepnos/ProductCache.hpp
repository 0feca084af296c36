/// Products that were loaded with events, passed to a function by ParallelEventProcessor. Other products are
/// not in the cache, and are not loaded from the store.
#ifndef HEPNOS_PRODUCTCACHE_HPP
#define HEPNOS_PRODUCTCACHE_HPP

#include <hepnos/DataStore.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hepnos {

class ParallelEventProcessor;

class ProductCache : public RawStorage {
public:
    /// An empty cache.
    ProductCache(const DataStore &datastore) : m_datastore(datastore) {}

    void clear() { m_loaded.reset(); }

    /// The number of products.
    std::size_t size() const {
        std::size_t n = 0;
        for (std::size_t product = 0; m_loaded && product < m_products->size(); ++product) {
            n += m_loaded->values(product)[m_at].data != nullptr;
        }
        return n;
    }

    bool valid() const override { return m_datastore.valid(); }

protected:
    ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) override {
        return detail::Access::store(m_datastore, key, value, size);
    }

    bool loadRawData(const ProductID &key, const detail::Reader &reader) const override {
        if (!m_loaded || std::memcmp(m_loaded->containers()[m_at].bytes, detail::Access::key(key).data(),
                                     sizeof(fb_descriptor)) != 0) {
            return false;
        }
        const auto name = std::find(m_products->begin(), m_products->end(), detail::Access::name(key));
        if (name == m_products->end()) {
            return false;
        }
        const fb_bytes bytes = m_loaded->values(static_cast<std::size_t>(name - m_products->begin()))[m_at];
        if (bytes.data) {
            reader(fb::detail::view(bytes));
        }
        return bytes.data != nullptr;
    }

    const DataStore &loadedFrom() const override { return m_datastore; }

private:
    friend class ParallelEventProcessor;

    /// Sets the products to those of one loaded container.
    void set(std::shared_ptr<const fb::Loaded> loaded,
             std::shared_ptr<const std::vector<std::string>> products) {
        m_loaded = std::move(loaded);
        m_products = std::move(products);
        m_at = 0;
    }
    void set(std::size_t at) { m_at = at; }

    DataStore m_datastore;
    std::shared_ptr<const fb::Loaded> m_loaded;
    std::shared_ptr<const std::vector<std::string>> m_products;
    std::size_t m_at = 0;
};

} // namespace hepnos

#endif
