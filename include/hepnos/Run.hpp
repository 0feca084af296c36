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

class Run : public KeyValueContainer, public detail::Numbered<Run, SubRun> {
public:
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

    SubRun createSubRun(const SubRunNumber &number) { return children().create(number); }
    SubRun createSubRun(WriteBatch &batch, const SubRunNumber &number) {
        return children().create(batch, number);
    }
    SubRun createSubRun(AsyncEngine &async, const SubRunNumber &number) {
        return children().create(async, number);
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
    friend class detail::Iterable<Run, SubRun>;
    friend class detail::Numbered<Run, SubRun>;

    detail::Children<SubRun> children() const { return {m_store, m_descriptor}; }
    iterator first(const Prefetcher *prefetcher) const { return children().from(0, prefetcher); }
};

inline Run SubRun::run() const {
    opened();
    ItemDescriptor run = m_descriptor;
    run.subrun = InvalidSubRunNumber;
    return detail::Access::item<Run>(m_store, run);
}

} // namespace hepnos

#endif
