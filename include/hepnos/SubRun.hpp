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

class SubRun : public KeyValueContainer, public detail::Numbered<SubRun, Event> {
public:
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

    Event createEvent(const EventNumber &number) { return children().create(number); }
    Event createEvent(WriteBatch &batch, const EventNumber &number) {
        return children().create(batch, number);
    }
    Event createEvent(AsyncEngine &async, const EventNumber &number) {
        return children().create(async, number);
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
    friend class detail::Iterable<SubRun, Event>;
    friend class detail::Numbered<SubRun, Event>;

    detail::Children<Event> children() const { return {m_store, m_descriptor}; }
    iterator first(const Prefetcher *prefetcher) const { return children().from(0, prefetcher); }
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
