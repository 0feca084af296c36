/// Creating and storing many items with few requests. A batch is written when it has `max_batch_size` items
/// for one target of the store (in a directory, at least 16,384), at flush(), and in the destructor. If the
/// destructor cannot write, the next call on the store throws; if none follows, the exit code is 1.
#ifndef HEPNOS_WRITEBATCH_HPP
#define HEPNOS_WRITEBATCH_HPP

#include <hepnos/AsyncEngine.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/ProductID.hpp>
#include <hepnos/RawStorage.hpp>
#include <hepnos/Statistics.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <ostream>

namespace hepnos {

struct WriteBatchStatistics {
    Statistics<std::size_t> batch_sizes;
    Statistics<std::size_t> key_sizes;
    Statistics<std::size_t> value_sizes; // only of values that have a size
};

class WriteBatch : public RawStorage {
public:
    WriteBatch() = default;
    WriteBatch(const DataStore &datastore, unsigned max_batch_size = 128)
        : WriteBatch(datastore, max_batch_size, 0) {}
    WriteBatch(const AsyncEngine &async, unsigned max_batch_size = 128)
        : WriteBatch(detail::AsyncState::datastore(async), max_batch_size,
                     detail::AsyncState::threads(async)) {}

    WriteBatch(const WriteBatch &) = delete;
    WriteBatch &operator=(const WriteBatch &) = delete;
    WriteBatch(WriteBatch &&) = default;
    WriteBatch &operator=(WriteBatch &&) = default;
    ~WriteBatch() override = default;

    /// Writes everything collected, and returns when it is as durable as the store makes it.
    void flush() {
        if (m_impl) {
            write([](fb::WriteBatch &batch) { batch.flush(); }, 0, 0, 0);
        }
    }

    void activateStatistics(bool activate = true) {
        if (!m_impl) {
            throw Exception("the WriteBatch is not valid");
        }
        if (activate && !m_impl->counts) {
            m_impl->stats = WriteBatchStatistics();
        }
        m_impl->counts = activate;
    }

    void collectStatistics(WriteBatchStatistics &stats) const {
        if (m_impl && m_impl->counts) {
            stats = m_impl->stats;
        }
    }

    bool valid() const override { return m_impl != nullptr; }

protected:
    ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) override {
        write(
            [&](fb::WriteBatch &batch) {
                batch.store_bytes(detail::Access::container(key), detail::Access::name(key), {value, size});
            },
            1, detail::Access::key(key).size(), size);
        return key;
    }

    bool loadRawData(const ProductID &key, const detail::Reader &reader) const override {
        return detail::Access::load(m_impl->datastore, key, reader);
    }

    const DataStore &loadedFrom() const override { return m_impl->datastore; }

private:
    template <typename Item>
    friend class detail::Children;

    struct Impl {
        Impl(const DataStore &store, const fb::BatchOptions &options)
            : datastore(store), batch(detail::Access::store_of(store)->store, options) {}

        DataStore datastore;
        std::mutex mutex;
        bool counts = false;
        WriteBatchStatistics stats;
        fb::WriteBatch batch;
    };

    WriteBatch(const DataStore &datastore, unsigned max_batch_size, std::size_t threads) {
        if (!datastore.valid()) {
            throw Exception("cannot make a WriteBatch: the DataStore is not connected");
        }
        fb::BatchOptions options;
        options.max_items = items(datastore, max_batch_size);
        options.threads = threads;
        m_impl = detail::guarded([&] { return std::make_unique<Impl>(datastore, options); });
    }

    /// In a directory, each write is a commit that waits for the disk, so that more items are combined.
    static std::size_t items(const DataStore &datastore, unsigned max_batch_size) {
        constexpr std::size_t least_of_a_folder = 16384;
        const bool is_folder = detail::Access::store_of(datastore)->store.url().compare(0, 4, "dir:") == 0;
        return std::max<std::size_t>(max_batch_size, is_folder ? least_of_a_folder : 1);
    }

    void create(const ItemDescriptor &item) {
        write([&](fb::WriteBatch &batch) { batch.create(detail::c_descriptor(item)); }, 1, sizeof item, 0);
    }

    template <typename F>
    void write(F &&f, std::size_t n, std::size_t key_size, std::size_t value_size) {
        const std::lock_guard<std::mutex> lock(m_impl->mutex);
        const std::size_t before = m_impl->batch.size();
        detail::guarded_write(detail::Access::store_of(m_impl->datastore), [&] { f(m_impl->batch); });
        if (!m_impl->counts) {
            return;
        }
        const std::size_t n_written = before + n - m_impl->batch.size();
        if (n_written) {
            m_impl->stats.batch_sizes.updateWith(n_written);
        }
        if (n) {
            m_impl->stats.key_sizes.updateWith(key_size);
        }
        if (value_size) {
            m_impl->stats.value_sizes.updateWith(value_size);
        }
    }

    std::unique_ptr<Impl> m_impl;
};

inline std::ostream &operator<<(std::ostream &stream, const WriteBatchStatistics &stats) {
    return stream << "{ \"batch_sizes\" : " << stats.batch_sizes << ", \"key_sizes\" : " << stats.key_sizes
                  << ", \"value_sizes\" : " << stats.value_sizes << " }";
}

} // namespace hepnos

#ifdef HEPNOS_HAS_FMT
namespace fmt {

template <>
struct formatter<hepnos::WriteBatchStatistics> {
    constexpr auto parse(format_parse_context &context) { return context.begin(); }

    template <typename Context>
    auto format(const hepnos::WriteBatchStatistics &stats, Context &context) const {
        return format_to(context.out(),
                         "{{ \"batch_sizes\" : {}, \"key_sizes\" : {}, \"value_sizes\" : {} }}",
                         stats.batch_sizes, stats.key_sizes, stats.value_sizes);
    }
};

} // namespace fmt
#endif

#endif
