/// A subrun, which holds events.
#ifndef HEPNOS_SUBRUN_HPP
#define HEPNOS_SUBRUN_HPP

#include <hepnos/SubRunNumber.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/Event.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/detail/children.hpp>

#include <cstring>

namespace hepnos {

class AsyncEngine;
class WriteBatch;
class Run;

class SubRun : public KeyValueContainer {
public:
    typedef Event value_type;
    typedef detail::ConstIterator<Event> const_iterator;
    typedef detail::Iterator<Event> iterator;

    SubRun() = default;

    SubRunNumber number() const {
        opened();
        return m_descriptor.subrun;
    }

    Run run() const;

    /// The next subrun; not valid if this is the last one.
    SubRun next() const {
        ItemDescriptor parent = m_descriptor;
        parent.subrun = InvalidSubRunNumber;
        return detail::next<SubRun>(m_store, parent, m_descriptor.subrun);
    }

    bool operator==(const SubRun &other) const { return is_same(other); }
    bool operator!=(const SubRun &other) const { return !is_same(other); }

    /// The event with this number; throws if it does not exist.
    Event operator[](const EventNumber &number) const { return children().at(number); }

    Event createEvent(const EventNumber &number) { return children().create(number); }
    Event createEvent(WriteBatch &batch, const EventNumber &number) {
        return children().create(batch, number);
    }
    Event createEvent(AsyncEngine &async, const EventNumber &number) {
        return children().create(async, number);
    }

    iterator find(const EventNumber &number) { return children().find(number); }
    iterator find(const EventNumber &number, const Prefetcher &prefetcher) {
        return children().find(number, &prefetcher);
    }
    const_iterator find(const EventNumber &number) const { return children().find(number); }
    const_iterator find(const EventNumber &number, const Prefetcher &prefetcher) const {
        return children().find(number, &prefetcher);
    }

    iterator begin() { return children().from(0); }
    iterator begin(const Prefetcher &prefetcher) { return children().from(0, &prefetcher); }
    iterator end() { return {}; }
    const_iterator begin() const { return cbegin(); }
    const_iterator begin(const Prefetcher &prefetcher) const { return cbegin(prefetcher); }
    const_iterator end() const { return {}; }
    const_iterator cbegin() const { return children().from(0); }
    const_iterator cbegin(const Prefetcher &prefetcher) const { return children().from(0, &prefetcher); }
    const_iterator cend() const { return {}; }

    /// The first event with this number or a higher one.
    iterator lower_bound(const EventNumber &number) { return children().from(number); }
    iterator lower_bound(const EventNumber &number, const Prefetcher &prefetcher) {
        return children().from(number, &prefetcher);
    }
    const_iterator lower_bound(const EventNumber &number) const { return children().from(number); }
    const_iterator lower_bound(const EventNumber &number, const Prefetcher &prefetcher) const {
        return children().from(number, &prefetcher);
    }

    /// The first event with a higher number.
    iterator upper_bound(const EventNumber &number) { return children().behind(number); }
    iterator upper_bound(const EventNumber &number, const Prefetcher &prefetcher) {
        return children().behind(number, &prefetcher);
    }
    const_iterator upper_bound(const EventNumber &number) const { return children().behind(number); }
    const_iterator upper_bound(const EventNumber &number, const Prefetcher &prefetcher) const {
        return children().behind(number, &prefetcher);
    }

    void toDescriptor(SubRunDescriptor &descriptor) const {
        std::memcpy(descriptor.data, static_cast<const void *>(&m_descriptor), sizeof descriptor.data);
    }

    /// The subrun with this descriptor; if validation is requested and it does not exist, not valid.
    static SubRun fromDescriptor(const DataStore &datastore, const SubRunDescriptor &descriptor,
                                 bool validate = true) {
        return detail::from_descriptor<SubRun>(detail::Access::store_of(datastore), descriptor, validate);
    }

private:
    detail::Children<Event> children() const { return {m_store, m_descriptor}; }
};

inline SubRun Event::subrun() const {
    opened();
    ItemDescriptor subrun = m_descriptor;
    subrun.event = InvalidEventNumber;
    return detail::Access::item<SubRun>(m_store, subrun);
}

} // namespace hepnos

#include <hepnos/Run.hpp>

#endif
