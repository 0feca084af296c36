/// A run, which holds subruns.
#ifndef HEPNOS_RUN_HPP
#define HEPNOS_RUN_HPP

#include <hepnos/RunNumber.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/SubRun.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/detail/children.hpp>

#include <cstring>

namespace hepnos {

class AsyncEngine;
class WriteBatch;

class Run : public KeyValueContainer {
public:
    typedef SubRun value_type;
    typedef detail::ConstIterator<SubRun> const_iterator;
    typedef detail::Iterator<SubRun> iterator;

    Run() = default;

    RunNumber number() const {
        opened();
        return m_descriptor.run;
    }

    /// The next run; not valid if this is the last one.
    Run next() const {
        ItemDescriptor parent = m_descriptor;
        parent.run = InvalidRunNumber;
        return detail::next<Run>(m_store, parent, m_descriptor.run);
    }

    bool operator==(const Run &other) const { return is_same(other); }
    bool operator!=(const Run &other) const { return !is_same(other); }

    /// The subrun with this number; throws if it does not exist.
    SubRun operator[](const SubRunNumber &number) const { return children().at(number); }

    SubRun createSubRun(const SubRunNumber &number) { return children().create(number); }
    SubRun createSubRun(WriteBatch &batch, const SubRunNumber &number) {
        return children().create(batch, number);
    }
    SubRun createSubRun(AsyncEngine &async, const SubRunNumber &number) {
        return children().create(async, number);
    }

    iterator find(const SubRunNumber &number) { return children().find(number); }
    iterator find(const SubRunNumber &number, const Prefetcher &prefetcher) {
        return children().find(number, &prefetcher);
    }
    const_iterator find(const SubRunNumber &number) const { return children().find(number); }
    const_iterator find(const SubRunNumber &number, const Prefetcher &prefetcher) const {
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

    /// The first subrun with this number or a higher one.
    iterator lower_bound(const SubRunNumber &number) { return children().from(number); }
    iterator lower_bound(const SubRunNumber &number, const Prefetcher &prefetcher) {
        return children().from(number, &prefetcher);
    }
    const_iterator lower_bound(const SubRunNumber &number) const { return children().from(number); }
    const_iterator lower_bound(const SubRunNumber &number, const Prefetcher &prefetcher) const {
        return children().from(number, &prefetcher);
    }

    /// The first subrun with a higher number.
    iterator upper_bound(const SubRunNumber &number) { return children().behind(number); }
    iterator upper_bound(const SubRunNumber &number, const Prefetcher &prefetcher) {
        return children().behind(number, &prefetcher);
    }
    const_iterator upper_bound(const SubRunNumber &number) const { return children().behind(number); }
    const_iterator upper_bound(const SubRunNumber &number, const Prefetcher &prefetcher) const {
        return children().behind(number, &prefetcher);
    }

    void toDescriptor(RunDescriptor &descriptor) const {
        std::memcpy(descriptor.data, static_cast<const void *>(&m_descriptor), sizeof descriptor.data);
    }

    /// The run with this descriptor; if validation is requested and it does not exist, not valid.
    static Run fromDescriptor(const DataStore &datastore, const RunDescriptor &descriptor,
                              bool validate = true) {
        return detail::from_descriptor<Run>(detail::Access::store_of(datastore), descriptor, validate);
    }

private:
    detail::Children<SubRun> children() const { return {m_store, m_descriptor}; }
};

inline Run SubRun::run() const {
    opened();
    ItemDescriptor run = m_descriptor;
    run.subrun = InvalidSubRunNumber;
    return detail::Access::item<Run>(m_store, run);
}

} // namespace hepnos

#endif
