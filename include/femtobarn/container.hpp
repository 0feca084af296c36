/// Datasets, runs, subruns and events.
#ifndef FEMTOBARN_ITEM_HPP
#define FEMTOBARN_ITEM_HPP

#include <femtobarn/store.hpp>

#include <algorithm>
#include <iterator>
#include <map>

namespace fb {

class Container;

namespace detail {

/// The numbers of the children of a container, read page by page.
class Numbers {
public:
    Numbers(Store store, const Descriptor &container, std::uint64_t from)
        : m_store(std::move(store)), m_container(container), m_from(from) {}

    /// Advances to the next number; returns whether there is one.
    bool next(std::uint64_t &number) {
        if (m_at == m_page.size() && !fetch()) {
            return false;
        }
        number = m_page[m_at++];
        return true;
    }

private:
    bool fetch() {
        if (m_is_last) {
            return false;
        }
        std::size_t n = 0;
        m_page.resize(m_limit);
        call(fb_container_numbers, m_store.handle(), &m_container, m_from, m_limit, m_page.data(), &n);
        m_is_last = n < m_limit;
        m_page.resize(n);
        m_at = 0;
        m_limit = std::min<std::size_t>(4 * m_limit, 4096); // pages start small and grow
        m_from = n ? m_page.back() + 1 : m_from;
        return n > 0;
    }

    Store m_store;
    Descriptor m_container;
    std::uint64_t m_from;
    std::size_t m_limit = 64;
    std::vector<std::uint64_t> m_page;
    std::size_t m_at = 0;
    bool m_is_last = false;
};

} // namespace detail

/// Events of one subrun.
struct EventChunk {
    Descriptor subrun;
    std::vector<std::uint64_t> events;

    Descriptor operator[](std::size_t i) const { return subrun.child(events[i]); }
    std::size_t size() const { return events.size(); }
};

/// Iterates over the events of a container in the order of run, subrun and event. At the end, next() returns
/// nothing.
class EventChunks {
public:
    EventChunks(const Store &store, const Descriptor &container, std::int64_t target = -1,
                const Descriptor *after = nullptr) {
        m_events.reset(detail::call(fb_events_start, store.handle(), &container, target, after));
    }

    std::optional<EventChunk> next() {
        EventChunk chunk;
        const std::uint64_t *numbers = nullptr;
        std::size_t n = 0;
        detail::call(fb_events_next, m_events.get(), &chunk.subrun, &numbers, &n);
        if (n == 0) {
            return std::nullopt;
        }
        chunk.events.assign(numbers, numbers + n);
        return chunk;
    }

    /// Throws if the container was deleted, or a run or subrun in it that was listed so far. Call this after
    /// processing the events if that took longer than listing them.
    void check_left() const { detail::call(fb_events_check_left, m_events.get()); }

private:
    detail::Handle<fb_events, fb_events_free> m_events;
};

/// The children of a container, in the order of their numbers: a range of items.
class Children {
public:
    class iterator;

    Children(Store store, const Descriptor &container, std::uint64_t from, std::uint64_t end)
        : m_store(std::move(store)), m_container(container), m_from(from), m_end(end) {}

    iterator begin() const;
    iterator end() const;

private:
    Store m_store;
    Descriptor m_container;
    std::uint64_t m_from;
    std::uint64_t m_end;
};

/// A run, subrun or event of a store. A DataSet is a Container as well.
class Container {
public:
    Container() = default;
    /// The container with this descriptor. It need not exist.
    Container(Store store, const Descriptor &descriptor) : m_store(std::move(store)), m_descriptor(descriptor) {}

    const Store &store() const { return m_store; }
    const Descriptor &descriptor() const { return m_descriptor; }
    ItemType type() const { return m_descriptor.type(); }
    std::uint64_t number() const { return m_descriptor.number(); }

    bool exists() const {
        bool is_there = false;
        detail::call(fb_container_exists, m_store.handle(), &m_descriptor, &is_there);
        return is_there;
    }

    /// Throws if the container was deleted. Call this after iterating over its children.
    void check_left() const { detail::call(fb_container_check_left, m_store.handle(), &m_descriptor); }

    /// Creates the child with this number if it does not exist.
    Container create(std::uint64_t number) const {
        const Descriptor child = m_descriptor.child(number);
        detail::call(fb_container_create, m_store.handle(), &child);
        return {m_store, child};
    }

    /// The child with this number; throws if it does not exist.
    Container operator[](std::uint64_t number) const {
        const Descriptor child = m_descriptor.child(number);
        detail::call(fb_container_require, m_store.handle(), &child);
        return {m_store, child};
    }

    /// The child with this number, if it exists.
    std::optional<Container> find(std::uint64_t number) const {
        Container child{m_store, m_descriptor.child(number)};
        return child.exists() ? std::optional<Container>(child) : std::nullopt;
    }

    /// The children with numbers from `from` up to, but not including, `end`.
    Children children(std::uint64_t from = 0, std::uint64_t end = ABSENT) const {
        return {m_store, m_descriptor, from, end};
    }
    Children::iterator begin() const;
    Children::iterator end() const;

    /// All events in the container. At the end, their next() throws if the container was deleted meanwhile,
    /// or a run or subrun in it.
    EventChunks events() const { return {m_store, m_descriptor}; }

    /// The number of events in the container.
    std::uint64_t n_events() const {
        std::uint64_t n = 0;
        for (auto some = events(); const auto chunk = some.next();) {
            n += chunk->size();
        }
        return n;
    }

    /// The products of the events in a dataset, run or subrun: their names, label#type, and how many events
    /// have a product of each name.
    std::map<std::string, std::uint64_t> event_products() const {
        const detail::Handle<fb_event_products, fb_event_products_free> list(
            detail::call(fb_event_products_list, m_store.handle(), &m_descriptor));
        std::map<std::string, std::uint64_t> counts;
        for (std::size_t i = 0; i < fb_event_products_len(list.get()); ++i) {
            const fb_text name = fb_event_products_name(list.get(), i);
            counts.emplace(std::string(name.data, name.size), fb_event_products_n_events(list.get(), i));
        }
        return counts;
    }

    /// Removes the container with all its products and children. Throws for a dataset held as a Container, which
    /// does not know its name.
    void remove() const { detail::call(fb_container_remove, m_store.handle(), &m_descriptor); }

    /// Stores a product.
    template <class T>
    void store(std::string_view label, const T &value, IfThere if_there = IfThere::replace) const {
        m_store.describe<T>();
        m_store.store(m_descriptor, product_name<T>(label), Codec<T>::encode(value), if_there);
    }

    /// Loads a product into a value; returns whether it exists. Throws if the store has noted other members
    /// for a struct, or if the struct is not described here.
    template <class T>
    bool load(std::string_view label, T &value) const {
        return m_store.load_checked<T>([&] {
            return m_store.read(m_descriptor, product_name<T>(label),
                                [&value](std::string_view bytes) { Codec<T>::decode(bytes, value); });
        });
    }

    /// Loads a product, if it exists.
    template <class T>
    std::optional<T> load(std::string_view label) const {
        T value{};
        return load(label, value) ? std::optional<T>(std::move(value)) : std::nullopt;
    }

    /// The names of the products: label#type.
    std::vector<std::string> products() const { return m_store.products(m_descriptor); }

    /// Removes a product.
    template <class T>
    void remove_product(std::string_view label) const {
        const std::string name = product_name<T>(label);
        detail::call(fb_products_remove, m_store.handle(), &m_descriptor, detail::c_text(name));
    }

    /// Removes the products with this label, of any type, from all events in the container; returns how many
    /// there were. Products of the container itself, and of runs and subruns, stay. Throws if no event has
    /// such a product.
    std::uint64_t remove_event_products(std::string_view label) const {
        return remove_event_products(label, std::string_view());
    }

    /// The same, for one type only.
    template <class T>
    std::uint64_t remove_event_products(std::string_view label) const {
        return remove_event_products(label, std::string_view(type_name<T>()));
    }

    friend bool operator==(const Container &a, const Container &b) {
        return a.m_descriptor == b.m_descriptor && a.m_store == b.m_store;
    }
    friend bool operator!=(const Container &a, const Container &b) { return !(a == b); }

protected:
    Store m_store;
    Descriptor m_descriptor;

private:
    std::uint64_t remove_event_products(std::string_view label, std::string_view type) const {
        std::uint64_t n = 0;
        detail::call(fb_products_remove_of_events, m_store.handle(), &m_descriptor, detail::c_text(label),
                     detail::c_text(type), &n);
        return n;
    }
};

/// Iterates over the children of a container. An input iterator: its copies share their position.
class Children::iterator {
public:
    using value_type = Container;
    using reference = Container;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;

    iterator() = default;
    explicit iterator(const Children &range)
        : m_numbers(std::make_shared<detail::Numbers>(range.m_store, range.m_container, range.m_from)),
          m_store(range.m_store), m_container(range.m_container), m_end(range.m_end) {
        ++*this;
    }

    Container operator*() const { return {m_store, m_container.child(m_number)}; }

    iterator &operator++() {
        if (!m_numbers->next(m_number) || m_number >= m_end) {
            m_numbers.reset();
        }
        return *this;
    }

    friend bool operator==(const iterator &a, const iterator &b) {
        return !a.m_numbers == !b.m_numbers && (!a.m_numbers || a.m_number == b.m_number);
    }
    friend bool operator!=(const iterator &a, const iterator &b) { return !(a == b); }

private:
    std::shared_ptr<detail::Numbers> m_numbers;
    Store m_store;
    Descriptor m_container;
    std::uint64_t m_number = 0;
    std::uint64_t m_end = ABSENT;
};

inline Children::iterator Children::begin() const { return iterator(*this); }
inline Children::iterator Children::end() const { return {}; }
inline Children::iterator Container::begin() const { return children().begin(); }
inline Children::iterator Container::end() const { return {}; }

/// A dataset of a store.
class DataSet : public Container {
public:
    DataSet() = default;
    DataSet(Store store, std::string path, const Descriptor &descriptor)
        : Container(std::move(store), descriptor), m_path(std::move(path)) {}

    /// The full path from the root: fermilab/nova.
    const std::string &path() const { return m_path; }

    /// Loads a product of an event in this dataset with one request, where dataset[run][subrun][event] takes
    /// four. Returns false if the event has no such product; throws if the run, subrun or event does not
    /// exist.
    template <class T>
    bool load(std::uint64_t run, std::uint64_t subrun, std::uint64_t event, std::string_view label,
              T &value) const {
        const Container item{m_store, m_descriptor.child(run).child(subrun).child(event)};
        return item.load(label, value) || ((*this)[run][subrun][event], false);
    }
    using Container::load;

    /// Whether the dataset exists, and no new dataset has its name.
    bool exists() const {
        Descriptor found;
        bool is_there = false;
        detail::call(fb_dataset_find, m_store.handle(), detail::c_text(m_path), &found, &is_there);
        return is_there && found == m_descriptor;
    }

    /// Creates a dataset in this one, and the datasets between them, if they do not exist. Throws if this
    /// dataset was deleted.
    DataSet create_dataset(std::string_view name) const {
        Descriptor made;
        detail::call(fb_dataset_create_in, m_store.handle(), detail::c_text(m_path), &m_descriptor,
                     detail::c_text(name), &made);
        return {m_store, below(name), made};
    }
    DataSet dataset(std::string_view name) const { return m_store.dataset(below(name)); }

    /// The runs in the dataset, as for a Container. Throws if the dataset was deleted, which looks up its name.
    Children children(std::uint64_t from = 0, std::uint64_t end = ABSENT) const {
        check_there();
        return Container::children(from, end);
    }
    Children::iterator begin() const { return children().begin(); }

    /// All events in the dataset. Throws if the dataset was deleted.
    EventChunks events() const {
        check_there();
        return Container::events();
    }

    /// The datasets in this one, sorted by name. Throws if this dataset was deleted.
    std::vector<DataSet> datasets() const {
        check_there();
        constexpr std::size_t limit = 1024;
        std::vector<DataSet> all;
        std::string after;
        for (std::size_t n = limit; n == limit;) {
            const detail::Handle<fb_datasets, fb_datasets_free> list(detail::call(
                fb_datasets_list, m_store.handle(), detail::c_text(m_path), detail::c_text(after), limit));
            n = fb_datasets_len(list.get());
            for (std::size_t i = 0; i < n; ++i) {
                const fb_text name = fb_datasets_name(list.get(), i);
                after.assign(name.data, name.size);
                all.emplace_back(m_store, below(after), fb_datasets_descriptor(list.get(), i));
            }
        }
        return all;
    }

    /// Removes the dataset with everything in it. Throws if it was removed, also if a new dataset has its
    /// name.
    void remove() const {
        detail::call(fb_dataset_remove, m_store.handle(), detail::c_text(m_path), &m_descriptor);
    }

private:
    void check_there() const {
        detail::call(fb_dataset_require, m_store.handle(), detail::c_text(m_path), &m_descriptor);
    }

    std::string below(std::string_view name) const {
        return m_path.empty() ? std::string(name) : m_path + "/" + std::string(name);
    }

    std::string m_path;
};

inline DataSet Store::dataset(std::string_view name) const {
    Descriptor found;
    detail::call(fb_dataset_open, handle(), detail::c_text(name), &found);
    return {*this, std::string(name), found};
}

inline DataSet Store::create_dataset(std::string_view name) const {
    Descriptor made;
    detail::call(fb_dataset_create, handle(), detail::c_text(name), &made);
    return {*this, std::string(name), made};
}

inline DataSet Store::root() const { return dataset(""); }

} // namespace fb

#endif
