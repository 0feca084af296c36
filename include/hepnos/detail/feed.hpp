/// The events that a rank lists for all ranks: a thread reads the list, and workers take events from it.
#ifndef HEPNOS_DETAIL_FEED_HPP
#define HEPNOS_DETAIL_FEED_HPP

#include <hepnos/detail/access.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hepnos {
namespace detail {

class Feed {
public:
    /// Lists the events of some targets. At most `capacity` events wait, plus the rest of one request.
    Feed(StorePtr store, const ItemDescriptor &dataset, std::vector<int> targets, std::size_t capacity)
        : m_store(std::move(store)), m_dataset(c_descriptor(dataset)), m_targets(std::move(targets)),
          m_capacity(capacity), m_is_running(!m_targets.empty()) {
        if (m_is_running) {
            m_thread = std::thread([this] { run(); });
        }
    }

    Feed(const Feed &) = delete;
    Feed &operator=(const Feed &) = delete;

    ~Feed() {
        stop();
        if (m_thread.joinable()) {
            m_thread.join();
        }
    }

    /// Takes at most `n` events; waits for events until the end of the list. Empty at the end.
    std::vector<fb_descriptor> take(std::size_t n) {
        std::unique_lock<std::mutex> lock(m_mutex);
        m_changed.wait(lock, [this] { return !m_waiting.empty() || !m_is_running; });
        const auto end = m_waiting.begin() + static_cast<std::ptrdiff_t>(std::min(n, m_waiting.size()));
        std::vector<fb_descriptor> taken(m_waiting.begin(), end);
        m_waiting.erase(m_waiting.begin(), end);
        m_changed.notify_all();
        return taken;
    }

    /// Stops reading, and drops waiting events.
    void stop() {
        const std::lock_guard<std::mutex> lock(m_mutex);
        m_is_running = false;
        m_waiting.clear();
        m_changed.notify_all();
    }

    /// The error, after all events before it were taken.
    std::exception_ptr error() const {
        const std::lock_guard<std::mutex> lock(m_mutex);
        return m_error;
    }

    /// Throws if the dataset was deleted, or a run or subrun that was listed. Call this after the end of the list.
    void check_left() const {
        for (const auto &list : m_lists) {
            list.check_left();
        }
        if (m_lists.empty()) {
            fb::Container(m_store->store, m_dataset).check_left();
        }
    }

private:
    void run() {
        try {
            for (const int target : m_targets) {
                m_lists.emplace_back(m_store->store, m_dataset, target);
                while (const auto chunk = m_lists.back().next()) {
                    if (!give(*chunk)) {
                        return;
                    }
                }
            }
        } catch (const std::exception &error) {
            const std::lock_guard<std::mutex> lock(m_mutex);
            m_error = std::make_exception_ptr(Exception(error.what()));
        }
        const std::lock_guard<std::mutex> lock(m_mutex);
        m_is_running = false;
        m_changed.notify_all();
    }

    bool give(const fb::EventChunk &chunk) {
        ItemDescriptor event = item_descriptor(chunk.subrun);
        std::unique_lock<std::mutex> lock(m_mutex);
        m_changed.wait(lock, [this] { return m_waiting.size() < m_capacity || !m_is_running; });
        for (const std::uint64_t number : chunk.events) {
            event.event = number;
            m_waiting.push_back(c_descriptor(event));
        }
        m_changed.notify_all();
        return m_is_running;
    }

    StorePtr m_store;
    fb::Descriptor m_dataset;
    std::vector<int> m_targets;
    std::vector<fb::EventChunks> m_lists; ///< of the thread, until it has ended
    std::size_t m_capacity;
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<fb_descriptor> m_waiting;
    bool m_is_running;
    std::exception_ptr m_error;
    std::thread m_thread;
};

} // namespace detail
} // namespace hepnos

#endif
