/// Iteration over the children of containers, page by page: each page can fetch the next one. Copies of an
/// iterator are independent, as they share pages but not a position.
#ifndef HEPNOS_DETAIL_PAGES_HPP
#define HEPNOS_DETAIL_PAGES_HPP

#include <hepnos/detail/access.hpp>

#include <cstring>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hepnos {
namespace detail {

struct Page;

/// Returns pages, one after the other; null at the end.
class Source {
public:
    virtual ~Source() = default;
    virtual std::shared_ptr<Page> next() = 0;
};

/// Consecutive containers, and the products that were fetched with them.
struct Page {
    std::vector<fb_descriptor> own;
    fb::Loaded loaded;
    /// The containers, which are in one of the above.
    const fb_descriptor *first = nullptr;
    std::size_t n = 0;

    Page() = default;
    explicit Page(std::vector<fb_descriptor> containers)
        : own(std::move(containers)), first(own.data()), n(own.size()) {}
    explicit Page(fb::Loaded pieces)
        : loaded(std::move(pieces)), first(loaded.containers()), n(loaded.size()) {}
    Page(const Page &) = delete;
    Page &operator=(const Page &) = delete;

    /// Not by recursion, as a kept page may have a million successors.
    ~Page() {
        for (auto page = std::move(m_next); page && page.use_count() == 1;) {
            page = std::move(page->m_next);
        }
    }

    void set_source(std::shared_ptr<Source> source) { m_source = std::move(source); }

    std::shared_ptr<Page> next() {
        const std::lock_guard<std::mutex> lock(m_mutex);
        if (m_source) {
            m_next = m_source->next();
            if (m_next) {
                m_next->m_source = m_source;
            }
            m_source.reset();
        }
        return m_next;
    }

private:
    std::mutex m_mutex;
    /// The source of the next page, until it is fetched.
    std::shared_ptr<Source> m_source;
    std::shared_ptr<Page> m_next;
};

/// The first page of a source, or null.
inline std::shared_ptr<Page> first_page(std::shared_ptr<Source> source) {
    auto page = source->next();
    if (page) {
        page->set_source(std::move(source));
    }
    return page;
}

/// Options of pages: the number of containers, and the products.
struct PageOptions {
    /// If 0, pages start small and grow.
    std::size_t n = 0;
    std::vector<std::string> products;
    /// Whether a thread fetches the next page.
    std::size_t ahead = 0;
};

/// The children of a dataset, run or subrun.
class ChildSource : public Source {
public:
    ChildSource(StorePtr store, const ItemDescriptor &parent, std::uint64_t from, PageOptions options)
        : m_store(std::move(store)), m_parent(c_descriptor(parent)), m_from(from),
          m_options(std::move(options)), m_limit(m_options.n ? m_options.n : 16) {}

    ~ChildSource() override {
        if (m_coming.valid()) {
            m_coming.wait();
        }
    }

    std::shared_ptr<Page> next() override {
        if (!m_options.ahead) {
            return fetch();
        }
        auto page = m_coming.valid() ? m_coming.get() : fetch();
        if (page) {
            m_coming = std::async(std::launch::async, [this] { return fetch(); });
        }
        return page;
    }

private:
    std::shared_ptr<Page> fetch() {
        return guarded([this]() -> std::shared_ptr<Page> {
            std::vector<fb_descriptor> containers = numbers();
            if (containers.empty()) {
                return nullptr;
            }
            auto page = std::make_shared<Page>(std::move(containers));
            if (!m_options.products.empty()) {
                page->loaded = fb::Loaded::of(m_store->store, page->first, page->n, m_options.products);
            }
            return page;
        });
    }

    std::vector<fb_descriptor> numbers() {
        std::vector<std::uint64_t> numbers(m_is_last ? 0 : m_limit);
        std::size_t n = 0;
        if (!m_is_last) {
            fb::detail::call(fb_container_numbers, m_store->store.handle(), &m_parent, m_from, m_limit,
                             numbers.data(), &n);
            m_is_last = n < m_limit;
        }
        std::vector<fb_descriptor> found;
        found.reserve(n);
        for (std::size_t i = 0; i < n; ++i) {
            found.push_back(fb::Descriptor(m_parent).child(numbers[i]));
            m_from = numbers[i] + 1;
        }
        constexpr std::size_t most = 1024;
        m_limit = m_options.n ? m_options.n : std::min(4 * m_limit, most);
        return found;
    }

    StorePtr m_store;
    fb_descriptor m_parent;
    std::uint64_t m_from;
    PageOptions m_options;
    std::size_t m_limit;
    bool m_is_last = false;
    std::future<std::shared_ptr<Page>> m_coming;
};

/// All events of a dataset or of one target, with some of their products.
class EventSource : public Source {
public:
    EventSource(StorePtr store, const ItemDescriptor &container, int target, const PageOptions &options)
        : m_store(std::move(store)), m_loader(guarded([&] {
              fb::LoadOptions loading;
              loading.n_events = options.n ? options.n : 4096;
              loading.ahead = options.ahead;
              loading.target = target;
              return fb::Loader(m_store->store, c_descriptor(container), options.products, loading);
          })) {}

    std::shared_ptr<Page> next() override {
        return guarded([this]() -> std::shared_ptr<Page> {
            auto loaded = m_loader.next();
            return loaded ? std::make_shared<Page>(std::move(*loaded)) : nullptr;
        });
    }

private:
    StorePtr m_store;
    fb::Loader m_loader;
};

/// Follows the position of an iterator.
class Watcher {
public:
    virtual ~Watcher() = default;
    virtual void at(const std::shared_ptr<Page> &page, std::size_t i) = 0;
};

/// Iterates over the containers of pages. After the last one, its container is not valid.
template <typename Item>
class ConstIterator {
public:
    typedef ConstIterator self_type;
    typedef Item value_type;
    typedef Item &reference;
    typedef Item *pointer;
    typedef int difference_type;
    typedef std::forward_iterator_tag iterator_category;

    ConstIterator() = default;
    virtual ~ConstIterator() = default;
    ConstIterator(const ConstIterator &) = default;
    ConstIterator(ConstIterator &&) = default;
    ConstIterator &operator=(const ConstIterator &) = default;
    ConstIterator &operator=(ConstIterator &&) = default;

    ConstIterator(const StorePtr &of_store, std::shared_ptr<Page> page,
                  std::shared_ptr<Watcher> watcher = nullptr)
        : m_page(std::move(page)), m_watcher(std::move(watcher)) {
        if (m_page) {
            m_current = Access::item<Item>(of_store, item_descriptor(m_page->first[0]));
            tell();
        }
    }

    ConstIterator &operator++() {
        if (!m_page) {
            throw Exception("cannot move an iterator beyond the end");
        }
        if (++m_at == m_page->n) {
            m_at = 0;
            m_page = m_page->next();
        }
        if (m_page) {
            std::memcpy(static_cast<void *>(&Access::descriptor(m_current)), m_page->first[m_at].bytes,
                        sizeof(ItemDescriptor));
            tell();
        } else {
            m_current = Item();
        }
        return *this;
    }

    ConstIterator operator++(int) {
        ConstIterator before = *this;
        ++*this;
        return before;
    }

    reference operator*() const { return m_current; }
    pointer operator->() const { return &m_current; }

    bool operator==(const ConstIterator &other) const { return m_current == other.m_current; }
    bool operator!=(const ConstIterator &other) const { return !(*this == other); }

private:
    void tell() const {
        if (m_watcher) {
            m_watcher->at(m_page, m_at);
        }
    }

    std::shared_ptr<Page> m_page;
    std::size_t m_at = 0;
    std::shared_ptr<Watcher> m_watcher;
    mutable Item m_current;
};

template <typename Item>
class Iterator : public ConstIterator<Item> {
public:
    typedef Iterator self_type;

    using ConstIterator<Item>::ConstIterator;

    Iterator &operator++() {
        ConstIterator<Item>::operator++();
        return *this;
    }

    Iterator operator++(int) {
        Iterator before = *this;
        ++*this;
        return before;
    }
};

} // namespace detail
} // namespace hepnos

#endif
