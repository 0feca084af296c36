/// Batches of events with the requested products, which a thread fetches while earlier ones are processed.
#ifndef HEPNOS_DETAIL_BATCHES_HPP
#define HEPNOS_DETAIL_BATCHES_HPP

#include <hepnos/Statistics.hpp>
#include <hepnos/detail/ranks.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hepnos {
namespace detail {

/// Events and their products.
struct EventBatch {
    std::shared_ptr<const fb::Loaded> loaded;
    std::size_t n = 0;
    bool is_local = false;
    double loading_time = 0;
};

/// Fetches batches.
class Batches {
public:
    Batches(StorePtr store, Puller &puller, std::vector<std::string> products)
        : m_store(std::move(store)), m_puller(puller), m_products(std::move(products)) {}

    Batches(const Batches &) = delete;
    Batches &operator=(const Batches &) = delete;

    ~Batches() { stop(); }

    /// Stops fetching.
    void stop() {
        {
            const std::lock_guard<std::mutex> lock(m_mutex);
            m_has_ended = true;
            m_changed.notify_all();
        }
        if (m_thread.joinable()) {
            m_thread.join();
        }
    }

    /// Starts a thread that fetches batches.
    void start() {
        m_has_thread = true;
        m_thread = std::thread([this] { run(); });
    }

    /// The next batch; without events at the end.
    template <typename F>
    EventBatch next(F &&meanwhile) {
        if (!m_has_thread) {
            return get(meanwhile);
        }
        std::unique_lock<std::mutex> lock(m_mutex);
        const double now = wtime();
        m_most = how_many(now - m_last_time);
        m_changed.wait(lock, [this] { return !m_ready.empty() || m_is_last; });
        m_last_time = wtime();
        if (m_ready.empty()) {
            if (m_error) {
                std::rethrow_exception(m_error);
            }
            return EventBatch();
        }
        EventBatch batch = std::move(m_ready.front());
        m_ready.pop_front();
        if (m_ready.size() <= m_most / 2) { // not for each, as waking a thread takes longer than some batches
            m_changed.notify_all();
        }
        return batch;
    }

private:
    void run() {
        try {
            while (true) {
                EventBatch batch = get([] { return false; });
                std::unique_lock<std::mutex> lock(m_mutex);
                m_changed.wait(lock, [this] { return m_ready.size() < m_most || m_has_ended; });
                if (batch.n == 0 || m_has_ended) {
                    break;
                }
                m_ready.push_back(std::move(batch));
                if (m_ready.size() == 1) {
                    m_changed.notify_all();
                }
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(m_mutex);
            m_error = std::current_exception();
        }
        const std::lock_guard<std::mutex> lock(m_mutex);
        m_is_last = true;
        m_changed.notify_all();
    }

    /// How many batches may wait here, from the time of the last one: one if batches take long, so that they
    /// stay available for other ranks, and more if they are short.
    static std::size_t how_many(double seconds) {
        constexpr double ahead = 1e-3;
        constexpr std::size_t most = 16;
        return seconds * most < ahead ? most
                                      : std::max<std::size_t>(1, static_cast<std::size_t>(ahead / seconds));
    }

    template <typename F>
    EventBatch get(F &&meanwhile) {
        EventBatch batch;
        const std::vector<fb_descriptor> events = m_puller.next(batch.is_local, meanwhile);
        batch.n = events.size();
        if (batch.n) {
            const double begun = wtime();
            batch.loaded = guarded([&] {
                return std::make_shared<const fb::Loaded>(
                    fb::Loaded::of(m_store->store, events.data(), events.size(), m_products));
            });
            batch.loading_time = wtime() - begun;
        }
        return batch;
    }

    StorePtr m_store;
    Puller &m_puller;
    std::vector<std::string> m_products;
    bool m_has_thread = false;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<EventBatch> m_ready;
    std::size_t m_most = 1;
    double m_last_time = 0;
    bool m_is_last = false;
    bool m_has_ended = false;
    std::exception_ptr m_error;
    std::thread m_thread;
};

} // namespace detail
} // namespace hepnos

#endif
