/// The common base of datasets, runs, subruns and events: containers with products.
#ifndef HEPNOS_KEYVALUECONTAINER_HPP
#define HEPNOS_KEYVALUECONTAINER_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/Demangle.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/InputArchive.hpp>
#include <hepnos/OutputArchive.hpp>
#include <hepnos/ProductID.hpp>
#include <hepnos/Statistics.hpp>
#include <hepnos/detail/serialize.hpp>

#include <boost/serialization/string.hpp>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hepnos {

/// Times of storing, in seconds.
struct StoreStatistics {
    Statistics<double> raw_storage_time;
    Statistics<double> serialization_time;
};

/// Times of loading, in seconds.
struct LoadStatistics {
    Statistics<double> raw_loading_time;
    Statistics<double> deserialization_time;
};

class KeyValueContainer {
public:
    template <typename T, typename = void>
    struct IsVector : std::false_type {};
    template <typename T>
    struct IsVector<T, std::enable_if_t<std::is_same<
                           T, std::vector<typename T::value_type, typename T::allocator_type>>::value>>
        : std::true_type {};

    virtual ~KeyValueContainer() = default;

    bool valid() const { return m_store != nullptr; }

    DataStore datastore() const {
        opened();
        return detail::Access::with_store<DataStore>(m_store);
    }

    /// The products with this label, or all.
    std::vector<ProductID> listProducts(const std::string &label = "") const {
        const fb_descriptor container = detail::c_descriptor(m_descriptor);
        std::vector<ProductID> found;
        for (const auto &name : detail::guarded([&] { return opened().store.products(container); })) {
            if (label.empty() || name.compare(0, name.find('#'), label) == 0) {
                found.push_back(detail::Access::product_id(container, name));
            }
        }
        return found;
    }

    /// Stores a value under a label and its type. An existing product is replaced.
    template <typename L, typename V>
    ProductID store(const L &label, const V &value, StoreStatistics *stats = nullptr) {
        DataStore own = datastore();
        return store_value(own, label, value, stats);
    }

    /// Stores a value through a batch or an engine, or in another store.
    template <typename L, typename V>
    ProductID store(RawStorage &target, const L &label, const V &value, StoreStatistics *stats = nullptr) {
        return store_value(target, label, value, stats);
    }

    /// Stores the elements of a vector from `start` up to, but not including, `end`; -1 is the end of the
    /// vector.
    template <typename L, typename V>
    ProductID store(const L &label, const std::vector<V> &value, int start = 0, int end = -1,
                    StoreStatistics *stats = nullptr) {
        DataStore own = datastore();
        return store_range(own, label, value, start, end, stats);
    }

    template <typename L, typename V>
    ProductID store(RawStorage &target, const L &label, const std::vector<V> &value, int start = 0,
                    int end = -1, StoreStatistics *stats = nullptr) {
        return store_range(target, label, value, start, end, stats);
    }

    /// Loads the value with a label and its type; false if there is none.
    template <typename L, typename V>
    bool load(const L &label, V &value, LoadStatistics *stats = nullptr) const {
        return load_from(nullptr, label, value, stats);
    }

    /// Loads a value from a prefetcher, a cache, or another store.
    template <typename L, typename V>
    bool load(const RawStorage &source, const L &label, V &value, LoadStatistics *stats = nullptr) const {
        return load_from(&source, label, value, stats);
    }

protected:
    friend struct detail::Access;

    KeyValueContainer() = default;
    KeyValueContainer(const KeyValueContainer &) = default;
    KeyValueContainer(KeyValueContainer &&) = default;
    KeyValueContainer &operator=(const KeyValueContainer &) = default;
    KeyValueContainer &operator=(KeyValueContainer &&) = default;

    detail::Store &opened() const {
        if (!m_store) {
            throw Exception("the container is not valid");
        }
        return *m_store;
    }

    bool is_same(const KeyValueContainer &other) const {
        return valid() == other.valid() && (!valid() || m_descriptor == other.m_descriptor);
    }

    detail::StorePtr m_store;
    ItemDescriptor m_descriptor;

private:
    template <typename L, typename V>
    ProductID store_value(RawStorage &target, const L &label, const V &value, StoreStatistics *stats) {
        if constexpr (is_std_vector<V>::value) {
            return store_range(target, label, value, 0, -1, stats);
        } else {
            return store_encoded<V>(target, label, stats,
                                    [&value](auto &&use) { detail::encode(value, use); });
        }
    }

    template <typename L, typename V>
    ProductID store_range(RawStorage &target, const L &label, const std::vector<V> &value, int start, int end,
                          StoreStatistics *stats) {
        return store_encoded<std::vector<V>>(target, label, stats,
                                             [&](auto &&use) { detail::encode(value, start, end, use); });
    }

    template <typename V, typename L, typename Encode>
    ProductID store_encoded(RawStorage &target, const L &label, StoreStatistics *stats, Encode &&encode) {
        using Value = std::remove_cv_t<V>;
        const double begun = stats ? wtime() : 0;
        if constexpr (fb::Described<typename fb::detail::Plain<Value>::type>::value) {
            detail::guarded_write(m_store, [this] { opened().store.template describe<Value>(); });
        } else if constexpr (fb::detail::is_undescribed<Value>) {
            detail::guarded_write(m_store, [this] { detail::check_undescribed<Value>(opened()); });
        }
        const ProductID key = make_key<Value>(label);
        encode([&](const char *bytes, std::size_t n_bytes) {
            const double encoded = stats ? wtime() : 0;
            if (target.valid()) {
                detail::Access::store(target, key, bytes, n_bytes);
            } else {
                DataStore own = datastore();
                detail::Access::store(own, key, bytes, n_bytes);
            }
            if (stats) {
                stats->serialization_time.updateWith(encoded - begun);
                stats->raw_storage_time.updateWith(wtime() - encoded);
            }
        });
        return key;
    }

    template <typename L, typename V>
    bool load_from(const RawStorage *source, const L &label, V &value, LoadStatistics *stats) const {
        const ProductID key = make_key<V>(label);
        const DataStore own = datastore();
        const double begun = stats ? wtime() : 0;
        const auto read = [&](std::string_view bytes) {
            const double loaded = stats ? wtime() : 0;
            detail::decode(own, bytes, value);
            if (stats) {
                stats->raw_loading_time.updateWith(loaded - begun);
                stats->deserialization_time.updateWith(wtime() - loaded);
            }
        };
        const RawStorage &from = source && source->valid() ? *source : static_cast<const RawStorage &>(own);
        const auto &store = detail::Access::store_of(detail::Access::loaded_from(from));
        return detail::load_checked<V>(store, [&] { return detail::Access::load(from, key, read); });
    }

    template <typename T>
    struct is_std_vector : std::false_type {};
    template <typename T>
    struct is_std_vector<std::vector<T>> : std::true_type {};

    template <typename V, typename L>
    ProductID make_key(const L &label) const {
        if constexpr (std::is_convertible<const L &, std::string_view>::value) {
            return make_key_of(label, demangle<V>());
        } else {
            return make_key_of(std::string{label}, demangle<V>());
        }
    }

    ProductID make_key_of(std::string_view label, const std::string &type) const {
        opened();
        if (label.find('#') != std::string_view::npos) {
            throw Exception("a label must not have a #: " + std::string(label));
        }
        return detail::Access::product_id(m_descriptor, label, type);
    }
};

} // namespace hepnos

#endif
