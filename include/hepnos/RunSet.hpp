/// The runs of a dataset.
#ifndef HEPNOS_RUNSET_HPP
#define HEPNOS_RUNSET_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/Run.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/detail/children.hpp>

namespace hepnos {

class RunSet : public detail::Numbered<RunSet, Run> {
public:
    DataStore datastore() const { return m_datastore; }

private:
    friend class DataSet;
    friend class detail::Iterable<RunSet, Run>;
    friend class detail::Numbered<RunSet, Run>;

    RunSet(const DataStore &datastore, const detail::Children<Run> &runs)
        : m_datastore(datastore), m_runs(runs) {}

    const detail::Children<Run> &children() const { return m_runs; }
    iterator first(const Prefetcher *prefetcher) const { return m_runs.from(0, prefetcher); }

    DataStore m_datastore;
    detail::Children<Run> m_runs;
};

} // namespace hepnos

#endif
