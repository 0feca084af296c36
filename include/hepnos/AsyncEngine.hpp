/// Creating and storing in the background: the threads of an engine collect and write the items that it gets,
/// and wait() returns when all are written. Without threads, wait() writes.
#ifndef HEPNOS_ASYNCENGINE_HPP
#define HEPNOS_ASYNCENGINE_HPP

#include <hepnos/DataStore.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hepnos {

class AsyncEngine;

namespace detail {

template <typename Item>
class Children;

struct AsyncState {
    AsyncState(const DataStore &store, std::size_t threads)
        : datastore_(store), n_threads(threads), batch(Access::store_of(store)->store, options(threads)) {}

    AsyncState(const AsyncState &) = delete;
    AsyncState &operator=(const AsyncState &) = delete;

    ~AsyncState() {
        if (errors.size() > n_told) { // not read by errors() yet
            Access::store_of(datastore_)->store.note_lost(errors[n_told].c_str());
        }
    }

    static fb::BatchOptions options(std::size_t threads) {
        fb::BatchOptions options;
        options.max_items = 1024; // so that items become visible without wait()
        options.threads = threads;
        return options;
    }

    /// Calls a function with the batch; its exception becomes one of errors().
    template <typename F>
    void with_batch(F &&f) {
        const std::lock_guard<std::mutex> lock(mutex);
        try {
            f(batch);
        } catch (const fb::Error &error) {
            errors.push_back(error.what());
        }
    }

    static const DataStore &datastore(const AsyncEngine &engine);
    static std::size_t threads(const AsyncEngine &engine);

    DataStore datastore_;
    std::size_t n_threads;
    std::mutex mutex;
    std::vector<std::string> errors;
    /// How many of these were returned by errors().
    std::size_t n_told = 0;
    fb::WriteBatch batch;
};

} // namespace detail

class AsyncEngine : public RawStorage {
public:
    AsyncEngine() = default;
    explicit AsyncEngine(const DataStore &datastore, std::size_t num_threads = 0) {
        if (!datastore.valid()) {
            throw Exception("cannot make an AsyncEngine: the DataStore is not connected");
        }
        m_impl =
            detail::guarded([&] { return std::make_shared<detail::AsyncState>(datastore, num_threads); });
    }

    /// Returns when all items are written; errors() returns the errors.
    void wait() {
        if (m_impl) {
            m_impl->with_batch([](fb::WriteBatch &batch) { batch.flush(); });
        }
    }

    /// The errors so far. A copy, as other threads may add errors.
    const std::vector<std::string> errors() const {
        if (!m_impl) {
            return {};
        }
        const std::lock_guard<std::mutex> lock(m_impl->mutex);
        m_impl->n_told = m_impl->errors.size();
        return m_impl->errors;
    }

    /// The numbers of its threads.
    std::vector<int> getXstreamRanks() const {
        std::vector<int> ranks;
        for (std::size_t i = 0; m_impl && i < m_impl->n_threads; ++i) {
            ranks.push_back(static_cast<int>(i) + 1);
        }
        return ranks;
    }

    bool valid() const override { return m_impl != nullptr; }

protected:
    ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) override {
        m_impl->with_batch([&](fb::WriteBatch &batch) {
            batch.store_bytes(detail::Access::container(key), detail::Access::name(key), {value, size});
        });
        return key;
    }

    bool loadRawData(const ProductID &key, const detail::Reader &reader) const override {
        return detail::Access::load(m_impl->datastore_, key, reader);
    }

    const DataStore &loadedFrom() const override { return m_impl->datastore_; }

private:
    friend struct detail::AsyncState;
    template <typename Item>
    friend class detail::Children;

    void create(const ItemDescriptor &item) {
        m_impl->with_batch([&](fb::WriteBatch &batch) { batch.create(detail::c_descriptor(item)); });
    }

    std::shared_ptr<detail::AsyncState> m_impl;
};

inline const DataStore &detail::AsyncState::datastore(const AsyncEngine &engine) {
    if (!engine.valid()) {
        throw Exception("the AsyncEngine is not valid");
    }
    return engine.m_impl->datastore_;
}

inline std::size_t detail::AsyncState::threads(const AsyncEngine &engine) {
    return engine.valid() ? engine.m_impl->n_threads : 0;
}

} // namespace hepnos

#endif
