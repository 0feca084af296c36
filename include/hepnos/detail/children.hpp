/// What runs of a dataset, subruns of a run and events of a subrun are looked for by: one code for the three.
#ifndef HEPNOS_DETAIL_CHILDREN_HPP
#define HEPNOS_DETAIL_CHILDREN_HPP

#include <hepnos/Prefetcher.hpp>
#include <hepnos/WriteBatch.hpp>
#include <hepnos/detail/pages.hpp>

#include <cstdint>

namespace hepnos {
namespace detail {

/// What a container holds.
template <typename Item>
class Children {
public:
    Children(const StorePtr &store, const ItemDescriptor &parent) : m_store(store), m_parent(parent) {
        if (!store) {
            throw Exception("a container is used that is not valid");
        }
    }

    ItemDescriptor descriptor(std::uint64_t number) const {
        return guarded([&] { return item_descriptor(fb::Descriptor(c_descriptor(m_parent)).child(number)); });
    }

    /// From a number on.
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

    /// Behind a number.
    Iterator<Item> behind(std::uint64_t number, const Prefetcher *prefetcher = nullptr) const {
        return number == fb::ABSENT ? Iterator<Item>() : from(number + 1, prefetcher);
    }

    /// At a number, if that is there.
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
        return guarded([&] { return fb::Item(store->store, c_descriptor(item)).exists(); });
    }

    /// The one of a number, which must be there.
    Item at(std::uint64_t number) const {
        return guarded([&] {
            const fb::Item parent(m_store->store, c_descriptor(m_parent));
            return Access::item<Item>(m_store, item_descriptor(parent[number].descriptor()));
        });
    }

    /// Creates the one of a number.
    Item create(std::uint64_t number) const {
        return guarded_write(m_store, [&] {
            const fb::Item parent(m_store->store, c_descriptor(m_parent));
            return Access::item<Item>(m_store, item_descriptor(parent.create(number).descriptor()));
        });
    }

    /// Creates it through a batch or an engine, or directly if that is not valid.
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

/// The one that follows in the same container; not valid if there is none.
template <typename Item>
Item next(const StorePtr &store, const ItemDescriptor &parent, std::uint64_t number) {
    return store ? *Children<Item>(store, parent).behind(number) : Item();
}

/// The container of a descriptor; if it is to be validated, not valid if it is not there.
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
