/// Named queues between programs.
#ifndef FEMTOBARN_QUEUE_HPP
#define FEMTOBARN_QUEUE_HPP

#include <femtobarn/store.hpp>

namespace fb {

/// What one does with a queue.
enum class QueueMode : std::uint32_t { consumer = FB_CONSUMER, producer = FB_PRODUCER };

/// A queue that is open. Values come out in the order in which they went in, each once.
class Queue {
public:
    /// Creates a queue; says whether there was none.
    static bool create(const Store &store, std::string_view name) {
        bool is_new = false;
        detail::Outcome outcome;
        outcome.check(fb_queue_create(store.handle(), detail::c_text(name), &is_new, outcome));
        return is_new;
    }

    /// Removes a queue, with what is in it; says whether there was one.
    static bool destroy(const Store &store, std::string_view name) {
        bool was_there = false;
        detail::Outcome outcome;
        outcome.check(fb_queue_destroy(store.handle(), detail::c_text(name), &was_there, outcome));
        return was_there;
    }

    Queue(const Store &store, std::string_view name, QueueMode mode) {
        detail::Outcome outcome;
        m_queue.reset(outcome.check(
            fb_queue_open(store.handle(), detail::c_text(name), static_cast<std::uint32_t>(mode), outcome)));
    }

    void push(std::string_view value) {
        detail::Outcome outcome;
        outcome.check(fb_queue_push(m_queue.get(), detail::c_bytes(value), outcome));
    }

    /// Takes a value; waits for one as long as somebody may push. None if nobody will any more.
    std::optional<std::string> pop() {
        fb_value *value = nullptr;
        detail::Outcome outcome;
        outcome.check(fb_queue_pop(m_queue.get(), nullptr, nullptr, &value, outcome));
        return detail::taken(value);
    }

    std::uint64_t size() const {
        std::uint64_t n = 0;
        detail::Outcome outcome;
        outcome.check(fb_queue_len(m_queue.get(), &n, outcome));
        return n;
    }

    /// Says that nothing more will be pushed from here.
    void close() {
        detail::Outcome outcome;
        outcome.check(fb_queue_close(m_queue.get(), outcome));
    }

private:
    detail::Handle<fb_queue, fb_queue_free> m_queue;
};

} // namespace fb

#endif
