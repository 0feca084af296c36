/// All events of a dataset, or of one target of the store. Events of one subrun are consecutive and in order.
#ifndef HEPNOS_EVENTSET_HPP
#define HEPNOS_EVENTSET_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/Event.hpp>
#include <hepnos/EventNumber.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/Prefetcher.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/SubRunNumber.hpp>
#include <hepnos/detail/children.hpp>
#include <hepnos/detail/pages.hpp>

namespace hepnos {

class EventSet : public detail::Iterable<EventSet, Event> {
public:
    DataStore datastore() const { return m_datastore; }

private:
    friend class DataSet;
    friend class detail::Iterable<EventSet, Event>;

    EventSet(const DataStore &datastore, const ItemDescriptor &dataset, int target)
        : m_datastore(datastore), m_dataset(dataset), m_target(target) {}

    iterator first(const Prefetcher *prefetcher) const {
        const auto options = prefetcher ? prefetcher->options() : detail::PageOptions();
        const auto &store = detail::Access::store_of(m_datastore);
        auto source = std::make_shared<detail::EventSource>(store, m_dataset, m_target, options);
        return iterator(store, detail::first_page(std::move(source)),
                        prefetcher ? prefetcher->watcher() : nullptr);
    }

    DataStore m_datastore;
    ItemDescriptor m_dataset;
    int m_target;
};

} // namespace hepnos

#endif
