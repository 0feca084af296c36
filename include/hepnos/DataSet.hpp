/// A dataset: it has a name and a parent dataset, and holds datasets and runs.
#ifndef HEPNOS_DATASET_HPP
#define HEPNOS_DATASET_HPP

#include <hepnos/DataStore.hpp>
#include <hepnos/EventSet.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/Run.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/RunSet.hpp>
#include <hepnos/UUID.hpp>
#include <hepnos/detail/children.hpp>

#if __has_include(<mpi.h>)
#include <mpi.h>
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>

namespace hepnos {

class DataSet : public KeyValueContainer {
public:
    typedef DataSet value_type;

    template <bool IsConst>
    class basic_iterator;
    typedef basic_iterator<true> const_iterator;
    typedef basic_iterator<false> iterator;

    DataSet() = default;

    /// The last part of the name, the full name of the parent (which begins with /, or is empty), and the
    /// full name.
    const std::string &name() const { return opened_name(m_name); }
    const std::string &container() const { return opened_name(m_container); }
    std::string fullname() const {
        opened();
        return m_name.empty() ? m_container : m_container + "/" + m_name;
    }

    /// The depth: 0 for the root.
    std::uint8_t level() const {
        const std::string whole = fullname();
        return static_cast<std::uint8_t>(std::count(whole.begin(), whole.end(), '/'));
    }

    const UUID &uuid() const {
        opened();
        return m_descriptor.dataset;
    }

    /// The next dataset in the same container; not valid if this is the last one.
    DataSet next() const { return valid() ? behind(m_store, m_container, m_name) : DataSet(); }

    bool operator==(const DataSet &other) const {
        return is_same(other) && m_name == other.m_name && m_container == other.m_container;
    }
    bool operator!=(const DataSet &other) const { return !(*this == other); }

    /// Creates a dataset in this one if it does not exist. Throws if this dataset was deleted. The name must
    /// have no / and no %.
    DataSet createDataSet(const std::string &name) {
        check(name, true);
        if (name.empty()) {
            throw Exception("the name of a dataset is empty");
        }
        const std::string whole = fullname();
        const fb::DataSet made = detail::guarded_write(m_store, [&] {
            const fb::Descriptor descriptor = detail::c_descriptor(m_descriptor);
            return fb::DataSet(m_store->store, without_slash(whole), descriptor).create_dataset(name);
        });
        return make(m_store, whole + "/" + name, made.descriptor());
    }

    Run createRun(const RunNumber &number) { return children().create(number); }
    Run createRun(AsyncEngine &async, const RunNumber &number) { return children().create(async, number); }
    Run createRun(WriteBatch &batch, const RunNumber &number) { return children().create(batch, number); }

    /// The dataset with this name or path in this one; throws if it does not exist.
    DataSet operator[](const std::string &path) const;

    /// The run with this number; throws if it does not exist. A template, as 0 is also a null string.
    template <typename Number, typename = std::enable_if_t<std::is_integral<Number>::value>>
    Run operator[](const Number &number) const {
        return children().at(static_cast<RunNumber>(number));
    }

    iterator find(const std::string &path);
    const_iterator find(const std::string &path) const;
    iterator begin();
    iterator end();
    const_iterator begin() const;
    const_iterator end() const;
    const_iterator cbegin() const;
    const_iterator cend() const;

    /// The first dataset with this name or a later one.
    iterator lower_bound(const std::string &name);
    const_iterator lower_bound(const std::string &name) const;
    /// The first dataset with a later name.
    iterator upper_bound(const std::string &name);
    const_iterator upper_bound(const std::string &name) const;

    RunSet runs() const { return RunSet(datastore(), children()); }

    /// All events, or the events of one target of the store.
    EventSet events(int target = -1) const {
        if (target >= 0 && static_cast<std::size_t>(target) >= opened().store.n_targets()) {
            throw Exception("the store has no target " + std::to_string(target));
        }
        return EventSet(datastore(), m_descriptor, target);
    }

    /// The dataset with this UUID and name, without a lookup.
    static DataSet fromUUID(const DataStore &datastore, std::string name, std::string parent,
                            const UUID &uuid) {
        check(name, true);
        check(parent, false);
        const auto whole = "/" + (parent.empty() ? "" : without_slash(parent) + "/") + name;
        return make(detail::Access::store_of(datastore), whole, detail::c_descriptor(ItemDescriptor(uuid)));
    }

private:
    friend class DataStore;

    detail::Children<Run> children() const { return {m_store, m_descriptor}; }

    const std::string &opened_name(const std::string &name) const {
        opened();
        return name;
    }

    static void check(const std::string &name, bool is_one) {
        if (name.find('%') != std::string::npos || (is_one && name.find('/') != std::string::npos)) {
            throw Exception("a dataset name must have no / and no %: " + name);
        }
    }

    /// A full name as in the store, without leading and trailing slashes.
    static std::string without_slash(const std::string &name) {
        const std::size_t first = name.find_first_not_of('/');
        return first == std::string::npos ? "" : name.substr(first, name.find_last_not_of('/') - first + 1);
    }

    static DataSet make(const detail::StorePtr &store, const std::string &whole,
                        const fb_descriptor &descriptor) {
        DataSet made = detail::Access::item<DataSet>(store, detail::item_descriptor(descriptor));
        const std::size_t slash = whole.rfind('/');
        made.m_container = whole.substr(0, slash);
        made.m_name = whole.substr(slash + 1);
        return made;
    }

    /// The dataset after a name in a container; not valid if there is none.
    static DataSet behind(const detail::StorePtr &store, const std::string &container,
                          const std::string &name) {
        return detail::guarded([&] {
            const std::string path = without_slash(container);
            const fb::detail::Handle<fb_datasets, fb_datasets_free> list(
                fb::detail::call(fb_datasets_list, store->store.handle(), fb::detail::c_text(path),
                                 fb::detail::c_text(name), 1));
            if (fb_datasets_len(list.get()) == 0) {
                return DataSet();
            }
            const fb_text found = fb_datasets_name(list.get(), 0);
            return make(store, container + "/" + std::string(found.data, found.size),
                        fb_datasets_descriptor(list.get(), 0));
        });
    }

    /// The dataset with this path; not valid if there is none.
    DataSet found(const std::string &path) const {
        check(path, false);
        const std::string whole = fullname() + "/" + without_slash(path);
        const std::string name = without_slash(whole);
        fb_descriptor descriptor;
        bool is_there = false;
        detail::guarded([&] {
            fb::detail::call(fb_dataset_find, m_store->store.handle(), fb::detail::c_text(name), &descriptor,
                             &is_there);
        });
        return is_there && !name.empty() ? make(m_store, whole, descriptor) : DataSet();
    }

    DataSet bound(const std::string &name) const {
        const DataSet there = name.empty() ? DataSet() : found(name);
        return there.valid() ? there : behind(m_store, fullname(), name);
    }

    std::string m_name;
    std::string m_container;
};

/// Iterates over the datasets in a dataset.
template <bool IsConst>
class DataSet::basic_iterator {
public:
    typedef basic_iterator self_type;
    typedef DataSet value_type;
    typedef DataSet &reference;
    typedef DataSet *pointer;
    typedef int difference_type;
    typedef std::forward_iterator_tag iterator_category;

    basic_iterator() = default;
    basic_iterator(const DataSet &current) : m_current(current) {}
    /// Converts an iterator to a const_iterator.
    template <bool Other, typename = std::enable_if_t<IsConst && !Other>>
    basic_iterator(const basic_iterator<Other> &other) : m_current(*other) {}

    basic_iterator &operator++() {
        if (!m_current.valid()) {
            throw Exception("cannot move an iterator beyond the end");
        }
        m_current = m_current.next();
        return *this;
    }
    basic_iterator operator++(int) {
        basic_iterator before = *this;
        ++*this;
        return before;
    }

    reference operator*() const { return m_current; }
    pointer operator->() const { return &m_current; }

    template <bool Other>
    bool operator==(const basic_iterator<Other> &other) const {
        return m_current == *other;
    }
    template <bool Other>
    bool operator!=(const basic_iterator<Other> &other) const {
        return !(m_current == *other);
    }

private:
    mutable DataSet m_current;
};

inline DataSet DataSet::operator[](const std::string &path) const {
    DataSet there = found(path);
    if (!there.valid()) {
        const std::string whole = without_slash(fullname() + "/" + path);
        detail::guarded([&] { m_store->store.dataset(whole); }); // throws with the existing names
    }
    return there;
}

inline DataSet::iterator DataSet::find(const std::string &path) { return found(path); }
inline DataSet::const_iterator DataSet::find(const std::string &path) const { return found(path); }
inline DataSet::iterator DataSet::begin() { return behind((opened(), m_store), fullname(), ""); }
inline DataSet::iterator DataSet::end() { return {}; }
inline DataSet::const_iterator DataSet::begin() const { return cbegin(); }
inline DataSet::const_iterator DataSet::end() const { return {}; }
inline DataSet::const_iterator DataSet::cbegin() const { return behind((opened(), m_store), fullname(), ""); }
inline DataSet::const_iterator DataSet::cend() const { return {}; }
inline DataSet::iterator DataSet::lower_bound(const std::string &name) { return bound(name); }
inline DataSet::const_iterator DataSet::lower_bound(const std::string &name) const { return bound(name); }
inline DataSet::iterator DataSet::upper_bound(const std::string &name) {
    return behind((opened(), m_store), fullname(), name);
}
inline DataSet::const_iterator DataSet::upper_bound(const std::string &name) const {
    return behind((opened(), m_store), fullname(), name);
}

inline DataSet DataStore::root() const {
    opened();
    return detail::Access::item<DataSet>(m_store, ItemDescriptor(UUID()));
}

inline DataSet DataStore::operator[](const std::string &path) const { return root()[path]; }

} // namespace hepnos

#endif
