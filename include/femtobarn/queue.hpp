/// Named queues between programs.
#ifndef FEMTOBARN_QUEUE_HPP
#define FEMTOBARN_QUEUE_HPP

#include <femtobarn/store.hpp>

namespace fb {

/// How a queue is used.
enum class QueueMode : std::uint32_t { consumer = FB_CONSUMER, producer = FB_PRODUCER };

/// An open queue. Values come out in the order in which they were pushed, each once.
class Queue {
public:
    /// Creates a queue if it does not exist; returns whether it was created.
    static bool create(const Store &store, std::string_view name) {
        bool is_new = false;
        detail::call(fb_queue_create, store.handle(), detail::c_text(name), &is_new);
        return is_new;
    }

    /// Removes a queue with its values; returns whether it existed.
    static bool destroy(const Store &store, std::string_view name) {
        bool was_there = false;
        detail::call(fb_queue_destroy, store.handle(), detail::c_text(name), &was_there);
        return was_there;
    }

    Queue(const Store &store, std::string_view name, QueueMode mode) {
        m_queue.reset(detail::call(fb_queue_open, store.handle(), detail::c_text(name),
                                   static_cast<std::uint32_t>(mode)));
    }

    void push(std::string_view value) { detail::call(fb_queue_push, m_queue.get(), detail::c_bytes(value)); }

    /// Pops a value; waits for one as long as a producer has the queue open. Returns nothing if all producers
    /// are done.
    std::optional<std::string> pop() {
        fb_value *value = nullptr;
        detail::call(fb_queue_pop, m_queue.get(), nullptr, nullptr, &value);
        return detail::taken(value);
    }

    std::uint64_t size() const {
        std::uint64_t n = 0;
        detail::call(fb_queue_len, m_queue.get(), &n);
        return n;
    }

    /// Closes the queue: this handle pushes no more values.
    void close() { detail::call(fb_queue_close, m_queue.get()); }

private:
    detail::Handle<fb_queue, fb_queue_free> m_queue;
};

} // namespace fb

#endif
