/// Fetches containers in batches with the requested products; with an AsyncEngine, a thread prefetches the
/// next batch. A product that was not fetched is loaded from the store.
#ifndef HEPNOS_PREFETCHER_HPP
#define HEPNOS_PREFETCHER_HPP

#include <hepnos/AsyncEngine.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/Demangle.hpp>
#include <hepnos/Prefetchable.hpp>
#include <hepnos/Statistics.hpp>
#include <hepnos/detail/pages.hpp>

#include <algorithm>

namespace hepnos {

struct PrefetcherStatistics {
    Statistics<std::size_t, double> batch_sizes;
    Statistics<std::size_t, double> product_sizes;
    std::size_t product_cache_hit = 0;
    std::size_t product_cache_miss = 0;
};

namespace detail {
template <typename Item>
class Children;

/// The page of a prefetcher's iterator.
class Fetched : public Watcher {
public:
    void at(const std::shared_ptr<Page> &page, std::size_t i) override {
        if (page != m_page) {
            m_page = page;
            count();
        }
        m_at = i;
    }

    /// The bytes of a product; null if they were not fetched. `is_known` returns whether the product was
    /// requested, and therefore does not exist.
    const fb_bytes *find(const ProductID &key, bool &is_known) const {
        const std::string_view bytes = Access::key(key);
        const auto name = std::find(products.begin(), products.end(), Access::name(key));
        is_known = false;
        if (!m_page || name == products.end()) {
            return nullptr;
        }
        const fb_bytes *values = m_page->loaded.values(static_cast<std::size_t>(name - products.begin()));
        const auto is_at = [&](std::size_t i) {
            return std::memcmp(m_page->first[i].bytes, bytes.data(), sizeof(fb_descriptor)) == 0;
        };
        for (std::size_t i = is_at(m_at) ? m_at : 0; values && i < m_page->n; ++i) {
            if (is_at(i)) {
                is_known = true;
                return values[i].data ? &values[i] : nullptr;
            }
        }
        return nullptr;
    }

    std::vector<std::string> products;
    bool counts = false;
    PrefetcherStatistics stats;

private:
    void count() {
        if (!counts) {
            return;
        }
        stats.batch_sizes.updateWith(m_page->n);
        for (std::size_t product = 0; product < products.size(); ++product) {
            const fb_bytes *values = m_page->loaded.values(product);
            for (std::size_t i = 0; values && i < m_page->n; ++i) {
                if (values[i].data) {
                    stats.product_sizes.updateWith(values[i].size);
                }
            }
        }
    }

    std::shared_ptr<Page> m_page;
    std::size_t m_at = 0;
};

} // namespace detail

class EventSet;

class Prefetcher : public RawStorage {
public:
    /// Prefetches up to `cache_size` containers, `batch_size` per request.
    Prefetcher(const DataStore &datastore, unsigned int cache_size = 16, unsigned int batch_size = 16)
        : m_datastore(datastore), m_cache_size(cache_size), m_batch_size(batch_size) {}
    Prefetcher(const AsyncEngine &async, unsigned int cache_size = 16, unsigned int batch_size = 16)
        : Prefetcher(detail::AsyncState::datastore(async), cache_size, batch_size) {
        m_is_async = true;
    }

    Prefetcher(const Prefetcher &) = default;
    Prefetcher(Prefetcher &&) = default;
    Prefetcher &operator=(const Prefetcher &) = delete;
    Prefetcher &operator=(Prefetcher &&) = delete;

    unsigned int getCacheSize() const { return m_cache_size; }
    void setCacheSize(unsigned int size) { m_cache_size = size; }
    unsigned int getBatchSize() const { return m_batch_size; }
    void setBatchSize(unsigned int size) { m_batch_size = size; }

    /// The children of a container, for iteration with this prefetcher.
    template <typename Container>
    Prefetchable<Container> operator()(const Container &container) const {
        return Prefetchable<Container>(container, *this);
    }

    /// Fetches a product with the containers, or no longer.
    template <typename V>
    void fetchProduct(const std::string &label, bool fetch = true) const {
        const std::string name = fb::product_name<V>(label);
        auto &products = m_fetched->products;
        const auto there = std::find(products.begin(), products.end(), name);
        if (fetch && there == products.end()) {
            products.push_back(name);
        } else if (!fetch && there != products.end()) {
            products.erase(there);
        }
    }

    void activateStatistics(bool activate = true) {
        if (activate && !m_fetched->counts) {
            m_fetched->stats = PrefetcherStatistics();
        }
        m_fetched->counts = activate;
    }

    void collectStatistics(PrefetcherStatistics &stats) const {
        if (m_fetched->counts) {
            stats = m_fetched->stats;
        }
    }

    bool valid() const override { return m_datastore.valid(); }

protected:
    ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) override {
        return detail::Access::store(m_datastore, key, value, size);
    }

    bool loadRawData(const ProductID &key, const detail::Reader &reader) const override {
        bool is_known = false;
        const fb_bytes *bytes = m_fetched->find(key, is_known);
        if (m_fetched->counts) {
            ++(bytes ? m_fetched->stats.product_cache_hit : m_fetched->stats.product_cache_miss);
        }
        if (bytes) {
            reader(fb::detail::view(*bytes));
            return true;
        }
        return !is_known && detail::Access::load(m_datastore, key, reader);
    }

    const DataStore &loadedFrom() const override { return m_datastore; }

private:
    template <typename Item>
    friend class detail::Children;
    friend class EventSet;

    detail::PageOptions options() const {
        detail::PageOptions options;
        options.n = std::max(m_batch_size, 1u);
        options.products = m_fetched->products;
        options.ahead =
            m_is_async ? std::min(std::max(m_cache_size / static_cast<unsigned>(options.n), 1u), 64u) : 0;
        return options;
    }

    std::shared_ptr<detail::Watcher> watcher() const { return m_fetched; }

    DataStore m_datastore;
    unsigned int m_cache_size;
    unsigned int m_batch_size;
    bool m_is_async = false;
    std::shared_ptr<detail::Fetched> m_fetched = std::make_shared<detail::Fetched>();
};

} // namespace hepnos

#ifdef HEPNOS_HAS_FMT
namespace fmt {

template <>
struct formatter<hepnos::PrefetcherStatistics> {
    constexpr auto parse(format_parse_context &context) { return context.begin(); }

    template <typename Context>
    auto format(const hepnos::PrefetcherStatistics &stats, Context &context) const {
        return format_to(context.out(),
                         "{{ \"batch_sizes\" : {}, \"product_sizes\" : {}, \"product_cache_hit\" : {}, "
                         "\"product_cache_miss\" : {} }}",
                         stats.batch_sizes, stats.product_sizes, stats.product_cache_hit,
                         stats.product_cache_miss);
    }
};

} // namespace fmt
#endif

#endif
