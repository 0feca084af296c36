/// The runs of a dataset.
#ifndef HEPNOS_RUNSET_HPP
#define HEPNOS_RUNSET_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/Run.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/detail/children.hpp>

namespace hepnos {

class RunSet {
public:
    typedef Run value_type;
    typedef detail::ConstIterator<Run> const_iterator;
    typedef detail::Iterator<Run> iterator;

    DataStore datastore() const { return m_datastore; }

    /// The run with this number; throws if it does not exist.
    Run operator[](const RunNumber &number) const { return m_runs.at(number); }

    iterator find(const RunNumber &number) { return m_runs.find(number); }
    iterator find(const RunNumber &number, const Prefetcher &prefetcher) {
        return m_runs.find(number, &prefetcher);
    }
    const_iterator find(const RunNumber &number) const { return m_runs.find(number); }
    const_iterator find(const RunNumber &number, const Prefetcher &prefetcher) const {
        return m_runs.find(number, &prefetcher);
    }

    iterator begin() { return m_runs.from(0); }
    iterator begin(const Prefetcher &prefetcher) { return m_runs.from(0, &prefetcher); }
    iterator end() { return {}; }
    const_iterator begin() const { return cbegin(); }
    const_iterator begin(const Prefetcher &prefetcher) const { return cbegin(prefetcher); }
    const_iterator end() const { return {}; }
    const_iterator cbegin() const { return m_runs.from(0); }
    const_iterator cbegin(const Prefetcher &prefetcher) const { return m_runs.from(0, &prefetcher); }
    const_iterator cend() const { return {}; }

    /// The first run with this number or a higher one.
    iterator lower_bound(const RunNumber &number) { return m_runs.from(number); }
    iterator lower_bound(const RunNumber &number, const Prefetcher &prefetcher) {
        return m_runs.from(number, &prefetcher);
    }
    const_iterator lower_bound(const RunNumber &number) const { return m_runs.from(number); }
    const_iterator lower_bound(const RunNumber &number, const Prefetcher &prefetcher) const {
        return m_runs.from(number, &prefetcher);
    }

    /// The first run with a higher number.
    iterator upper_bound(const RunNumber &number) { return m_runs.behind(number); }
    iterator upper_bound(const RunNumber &number, const Prefetcher &prefetcher) {
        return m_runs.behind(number, &prefetcher);
    }
    const_iterator upper_bound(const RunNumber &number) const { return m_runs.behind(number); }
    const_iterator upper_bound(const RunNumber &number, const Prefetcher &prefetcher) const {
        return m_runs.behind(number, &prefetcher);
    }

private:
    friend class DataSet;

    RunSet(const DataStore &datastore, const detail::Children<Run> &runs)
        : m_datastore(datastore), m_runs(runs) {}

    DataStore m_datastore;
    detail::Children<Run> m_runs;
};

} // namespace hepnos

#endif
