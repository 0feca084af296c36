/// Named queues between programs. A queue has a name and a type: the same name with another type is another
/// queue.
#ifndef HEPNOS_QUEUE_HPP
#define HEPNOS_QUEUE_HPP

#include <hepnos/detail/serialize.hpp>

#include <memory>
#include <typeindex>

namespace hepnos {

class Queue {
public:
    Queue() = default;

    bool valid() const { return m_impl != nullptr; }

    /// Adds a value at the end of the queue.
    template <typename T>
    void push(const T &value) {
        check<T>();
        detail::Scratch scratch;
        detail::serializing("serialize", [&] {
            OutputStringWrapper buffer(scratch.text);
            OutputArchive archive(buffer);
            archive << value;
        });
        detail::guarded([&] { m_impl->queue.push(scratch.text); });
    }

    /// Takes a value from the front of the queue; waits as long as a producer has the queue open. False if
    /// all producers are done.
    template <typename T>
    bool pop(T &value) {
        check<T>();
        const auto bytes = detail::guarded([this] { return m_impl->queue.pop(); });
        if (!bytes) {
            return false;
        }
        detail::serializing("deserialize", [&] {
            InputStringWrapper buffer(bytes->data(), bytes->size());
            InputArchive archive(m_impl->datastore, buffer);
            archive >> value;
        });
        return true;
    }

    bool empty() const {
        opened();
        return detail::guarded([this] { return m_impl->queue.size() == 0; });
    }

    DataStore datastore() const {
        opened();
        return m_impl->datastore;
    }

    /// Closes the queue: this handle pushes no more values.
    void close() {
        opened();
        detail::guarded([this] { m_impl->queue.close(); });
    }

private:
    friend class DataStore;

    struct Impl {
        DataStore datastore;
        fb::Queue queue;
        std::type_index type;
    };

    explicit Queue(std::shared_ptr<Impl> impl) : m_impl(std::move(impl)) {}

    void opened() const {
        if (!m_impl) {
            throw Exception("the Queue is not open");
        }
    }

    template <typename T>
    void check() const {
        opened();
        if (m_impl->type != typeid(T)) {
            throw Exception("the queue has other values than " + demangle<T>());
        }
    }

    std::shared_ptr<Impl> m_impl;
};

namespace detail {

/// The name of a queue in the store, as used by Python.
template <typename T>
std::string queue_name(const std::string &name) {
    return name + "#" + demangle<T>();
}

} // namespace detail

template <typename T>
void DataStore::createQueue(const std::string &name) {
    const auto &store = opened().store;
    const std::string whole = detail::queue_name<T>(name);
    if (!detail::guarded([&] { return fb::Queue::create(store, whole); })) {
        throw Exception("the queue " + whole + " exists already");
    }
}

template <typename T>
Queue DataStore::openQueue(const std::string &name, QueueAccessMode mode) {
    const auto &store = opened().store;
    return detail::guarded([&] {
        const bool pushes = mode == QueueAccessMode::PRODUCER;
        fb::Queue queue(store, detail::queue_name<T>(name),
                        pushes ? fb::QueueMode::producer : fb::QueueMode::consumer);
        return Queue(std::make_shared<Queue::Impl>(Queue::Impl{*this, std::move(queue), typeid(T)}));
    });
}

template <typename T>
void DataStore::destroyQueue(const std::string &name) {
    const auto &store = opened().store;
    const std::string whole = detail::queue_name<T>(name);
    if (!detail::guarded([&] { return fb::Queue::destroy(store, whole); })) {
        throw Exception("no queue " + whole);
    }
}

} // namespace hepnos

#endif
