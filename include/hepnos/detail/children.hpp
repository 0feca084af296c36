/// Lookup of runs in a dataset, subruns in a run and events in a subrun.
#ifndef HEPNOS_DETAIL_CHILDREN_HPP
#define HEPNOS_DETAIL_CHILDREN_HPP

#include <hepnos/Prefetcher.hpp>
#include <hepnos/WriteBatch.hpp>
#include <hepnos/detail/pages.hpp>

#include <cstdint>

namespace hepnos {
namespace detail {

/// The children of a container.
template <typename Item>
class Children {
public:
    Children(const StorePtr &of_store, const ItemDescriptor &parent) : m_store(of_store), m_parent(parent) {
        if (!m_store) {
            throw Exception("the container is not valid");
        }
    }

    ItemDescriptor descriptor(std::uint64_t number) const {
        return guarded([&] { return item_descriptor(fb::Descriptor(c_descriptor(m_parent)).child(number)); });
    }

    /// An iterator from this number on.
    Iterator<Item> from(std::uint64_t number, const Prefetcher *prefetcher = nullptr) const {
        PageOptions options;
        std::shared_ptr<Watcher> watcher;
        if (prefetcher) {
            options = prefetcher->options();
            watcher = prefetcher->watcher();
        }
        auto source = std::make_shared<ChildSource>(m_store, m_parent, number, std::move(options));
        return Iterator<Item>(m_store, first_page(std::move(source)), std::move(watcher));
    }

    /// An iterator after this number.
    Iterator<Item> behind(std::uint64_t number, const Prefetcher *prefetcher = nullptr) const {
        return number == fb::ABSENT ? Iterator<Item>() : from(number + 1, prefetcher);
    }

    /// An iterator at this number, if it exists.
    Iterator<Item> find(std::uint64_t number, const Prefetcher *prefetcher = nullptr) const {
        if (!exists(number)) {
            return {};
        }
        if (prefetcher) {
            return from(number, prefetcher);
        }
        auto page = std::make_shared<Page>(std::vector<fb_descriptor>{c_descriptor(descriptor(number))});
        page->set_source(std::make_shared<ChildSource>(m_store, m_parent, number + 1, PageOptions()));
        return Iterator<Item>(m_store, std::move(page));
    }

    bool exists(std::uint64_t number) const {
        return number != fb::ABSENT && exists(m_store, descriptor(number));
    }

    static bool exists(const StorePtr &store, const ItemDescriptor &item) {
        return guarded([&] { return fb::Container(store->store, c_descriptor(item)).exists(); });
    }

    /// The child with this number; throws if it does not exist.
    Item at(std::uint64_t number) const {
        return guarded([&] {
            const fb::Container parent(m_store->store, c_descriptor(m_parent));
            return Access::item<Item>(m_store, item_descriptor(parent[number].descriptor()));
        });
    }

    /// Creates the child with this number.
    Item create(std::uint64_t number) const {
        return guarded_write(m_store, [&] {
            const fb::Container parent(m_store->store, c_descriptor(m_parent));
            return Access::item<Item>(m_store, item_descriptor(parent.create(number).descriptor()));
        });
    }

    /// Creates a child through a batch or an engine, or directly if that is not valid.
    template <typename Target>
    Item create(Target &target, std::uint64_t number) const {
        if (!target.valid()) {
            return create(number);
        }
        const ItemDescriptor made = descriptor(number);
        target.create(made);
        return Access::item<Item>(m_store, made);
    }

private:
    StorePtr m_store;
    ItemDescriptor m_parent;
};

/// Iteration over items, which begins with `first(prefetcher)` of the derived class.
template <typename Self, typename Item>
class Iterable {
public:
    typedef Item value_type;
    typedef ConstIterator<Item> const_iterator;
    typedef Iterator<Item> iterator;

    iterator begin() { return self().first(nullptr); }
    iterator begin(const Prefetcher &prefetcher) { return self().first(&prefetcher); }
    iterator end() { return {}; }
    const_iterator begin() const { return cbegin(); }
    const_iterator begin(const Prefetcher &prefetcher) const { return cbegin(prefetcher); }
    const_iterator end() const { return {}; }
    const_iterator cbegin() const { return self().first(nullptr); }
    const_iterator cbegin(const Prefetcher &prefetcher) const { return self().first(&prefetcher); }
    const_iterator cend() const { return {}; }

protected:
    const Self &self() const { return static_cast<const Self &>(*this); }
};

/// The children of a container by number: `children()` of the derived class.
template <typename Self, typename Item>
class Numbered : public Iterable<Self, Item> {
public:
    using typename Iterable<Self, Item>::iterator;
    using typename Iterable<Self, Item>::const_iterator;

    /// The child with this number; throws if it does not exist.
    Item operator[](const std::uint64_t &number) const { return children().at(number); }

    iterator find(const std::uint64_t &number) { return children().find(number); }
    iterator find(const std::uint64_t &number, const Prefetcher &prefetcher) {
        return children().find(number, &prefetcher);
    }
    const_iterator find(const std::uint64_t &number) const { return children().find(number); }
    const_iterator find(const std::uint64_t &number, const Prefetcher &prefetcher) const {
        return children().find(number, &prefetcher);
    }

    /// The first child with this number or a higher one.
    iterator lower_bound(const std::uint64_t &number) { return children().from(number); }
    iterator lower_bound(const std::uint64_t &number, const Prefetcher &prefetcher) {
        return children().from(number, &prefetcher);
    }
    const_iterator lower_bound(const std::uint64_t &number) const { return children().from(number); }
    const_iterator lower_bound(const std::uint64_t &number, const Prefetcher &prefetcher) const {
        return children().from(number, &prefetcher);
    }

    /// The first child with a higher number.
    iterator upper_bound(const std::uint64_t &number) { return children().behind(number); }
    iterator upper_bound(const std::uint64_t &number, const Prefetcher &prefetcher) {
        return children().behind(number, &prefetcher);
    }
    const_iterator upper_bound(const std::uint64_t &number) const { return children().behind(number); }
    const_iterator upper_bound(const std::uint64_t &number, const Prefetcher &prefetcher) const {
        return children().behind(number, &prefetcher);
    }

private:
    friend class Iterable<Self, Item>;

    Children<Item> children() const { return this->self().children(); }
};

/// The next child in the same container; not valid if there is none.
template <typename Item>
Item next(const StorePtr &store, const ItemDescriptor &parent, std::uint64_t number) {
    return store ? *Children<Item>(store, parent).behind(number) : Item();
}

/// The container with this descriptor; if validation is requested and it does not exist, not valid.
template <typename Item, typename Descriptor>
Item from_descriptor(const StorePtr &store, const Descriptor &descriptor, bool validate) {
    const ItemDescriptor item(descriptor);
    if (validate) {
        const fb_descriptor found = c_descriptor(item);
        const fb_item_type expected = sizeof(Descriptor) == RunDescriptorLength      ? FB_RUN
                                      : sizeof(Descriptor) == SubRunDescriptorLength ? FB_SUBRUN
                                                                                     : FB_EVENT;
        if (!store || fb_descriptor_type(&found) != expected || !Children<Item>::exists(store, item)) {
            return Item();
        }
    }
    return Access::item<Item>(store, item);
}

} // namespace detail
} // namespace hepnos

#endif
