/// Writing many containers and products with few requests, at once or in the background.
#ifndef FEMTOBARN_BATCH_HPP
#define FEMTOBARN_BATCH_HPP

#include <femtobarn/container.hpp>

namespace fb {

/// Limits of a batch, and its number of background threads. Zero stands for the default.
struct BatchOptions {
    std::size_t max_items = 0;
    std::size_t max_bytes = 0;
    /// Threads that write in the background; with 0, the call that fills the batch writes it.
    std::size_t threads = 0;
    IfThere if_there = IfThere::replace;
};

/// Collects containers and products, and writes them when there are many, at flush(), and in the destructor.
/// If the destructor cannot write, the next call on the store throws; if none follows, the process ends with
/// exit code 1.
class WriteBatch {
public:
    WriteBatch(WriteBatch &&) = default;
    WriteBatch &operator=(WriteBatch &&other) {
        if (this != &other) {
            close();
            m_store = std::move(other.m_store);
            m_batch = std::move(other.m_batch);
        }
        return *this;
    }
    ~WriteBatch() { close(); }

    explicit WriteBatch(const Store &store, const BatchOptions &options = {}) : m_store(store) {
        const fb_batch_options given{options.max_items, options.max_bytes, options.threads,
                                     static_cast<std::uint32_t>(options.if_there)};
        m_batch.reset(detail::call(fb_write_batch_new, store.handle(), &given));
    }

    /// Adds a container.
    void create(const fb_descriptor &container) {
        m_store.check_lost();
        detail::call(fb_write_batch_create, m_batch.get(), &container);
    }

    /// Adds the child of a container with this number. The container must be in the same store.
    Container create(const Container &holder, std::uint64_t number) {
        check_same(holder);
        const Descriptor child = holder.descriptor().child(number);
        create(child);
        return {m_store, child};
    }

    /// Adds a product as bytes. Its name is label#type.
    void store_bytes(const fb_descriptor &container, std::string_view name, std::string_view value) {
        m_store.check_lost();
        detail::call(fb_write_batch_store, m_batch.get(), &container, detail::c_text(name),
                     detail::c_bytes(value));
    }

    /// Adds a product of a container, which must be in the same store.
    template <class T>
    void store(const Container &container, std::string_view label, const T &value) {
        check_same(container);
        m_store.describe<T>();
        store_bytes(container.descriptor(), product_name<T>(label), Codec<T>::encode(value));
    }

    /// Writes everything collected, and returns when it is as durable as the store makes it.
    void flush() {
        m_store.check_lost();
        detail::call(fb_write_batch_flush, m_batch.get());
    }

    /// The number of collected containers and products that are not being written yet.
    std::size_t size() const { return fb_write_batch_len(m_batch.get()); }

    /// Returns the products that existed and were kept, by container and name. Each is returned once.
    std::vector<std::pair<Descriptor, std::string>> take_kept() {
        const detail::Handle<fb_products, fb_products_free> list(fb_write_batch_take_kept(m_batch.get()));
        std::vector<std::pair<Descriptor, std::string>> kept;
        for (std::size_t i = 0; i < fb_products_len(list.get()); ++i) {
            const fb_text name = fb_products_name(list.get(), i);
            kept.emplace_back(fb_products_container(list.get(), i), std::string(name.data, name.size));
        }
        return kept;
    }

private:
    void close() noexcept {
        detail::Outcome outcome;
        if (!fb_write_batch_close(m_batch.release(), outcome)) {
            m_store.note_lost(outcome.message());
        }
    }

    /// Throws if a container is in another store.
    void check_same(const Container &container) const {
        const Store &other = container.store();
        if (other != m_store && (other.url() != m_store.url() || other.url() == "memory:")) {
            throw Error("usage", "the container is in the store " + other.url() +
                                     ", but this batch writes to " + m_store.url());
        }
    }

    Store m_store;
    detail::Handle<fb_write_batch, fb_write_batch_free> m_batch;
};

} // namespace fb

#endif
