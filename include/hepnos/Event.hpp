/// An event.
#ifndef HEPNOS_EVENT_HPP
#define HEPNOS_EVENT_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/EventNumber.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/detail/children.hpp>

#include <cstring>

namespace hepnos {

class SubRun;

class Event : public KeyValueContainer {
public:
    typedef Event value_type;

    Event() = default;

    EventNumber number() const {
        opened();
        return m_descriptor.event;
    }

    SubRun subrun() const;

    /// The next event in the subrun; not valid if this is the last one.
    Event next() const;

    bool operator==(const Event &other) const { return is_same(other); }
    bool operator!=(const Event &other) const { return !is_same(other); }

    void toDescriptor(EventDescriptor &descriptor) const {
        std::memcpy(descriptor.data, static_cast<const void *>(&m_descriptor), sizeof descriptor.data);
    }

    /// The event with this descriptor; if validation is requested and it does not exist, not valid.
    static Event fromDescriptor(const DataStore &datastore, const EventDescriptor &descriptor,
                                bool validate = true) {
        return detail::from_descriptor<Event>(detail::Access::store_of(datastore), descriptor, validate);
    }
};

inline Event Event::next() const {
    ItemDescriptor parent = m_descriptor;
    parent.event = InvalidEventNumber;
    return detail::next<Event>(m_store, parent, m_descriptor.event);
}

} // namespace hepnos

#include <hepnos/SubRun.hpp>

#endif
