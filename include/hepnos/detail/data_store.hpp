/// A store. What HEPnOS keeps on servers, femtobarn keeps in memory, in a folder or in Redis.
#ifndef HEPNOS_DETAIL_DATA_STORE_HPP
#define HEPNOS_DETAIL_DATA_STORE_HPP

#include <hepnos/ItemType.hpp>
#include <hepnos/QueueAccessMode.hpp>
#include <hepnos/RawStorage.hpp>
#include <hepnos/detail/access.hpp>
#include <hepnos/detail/connect.hpp>

#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace hepnos {

class DataSet;
class Queue;
template <typename T, typename C = std::vector<T>>
class Ptr;

class DataStore : public RawStorage {
public:
    DataStore() = default;

    /// Opens a store. The environment variable FEMTOBARN_STORE, or else `file`, is its URL (memory:,
    /// dir:PATH, redis://…) or the path of a JSON configuration; the other arguments belong to HEPnOS's own
    /// servers, and are ignored.
    static DataStore connect(const std::string &protocol, const std::string &file,
                             const std::string &margo = "") {
        (void)protocol;
        (void)margo;
        DataStore made;
        made.m_store = detail::guarded([&file] { return detail::connect(file); });
        return made;
    }

    /// As above, with the arguments of HEPnOS's own servers left out.
    static DataStore connect(const std::string &file) { return connect("", file); }

    bool valid() const override { return m_store != nullptr; }

    /// The dataset that all others are in.
    DataSet root() const;

    /// The dataset of a path, as `root()[path]`. Throws an Exception if it is not there.
    DataSet operator[](const std::string &path) const;

    /// A reference to a product, or to the element `index` of a product that is a container C.
    template <typename T>
    Ptr<T> makePtr(const ProductID &productID) const;
    template <typename T, typename C = std::vector<T>>
    Ptr<T, C> makePtr(const ProductID &productID, std::size_t index) const;

    /// Loads a product; says whether it is there.
    template <typename T>
    bool loadProduct(const ProductID &productID, T &value) const;

    /// Makes what was written durable. No server is ended: there is none that is ours.
    void shutdown() {
        detail::guarded([this] { opened().store.flush(); });
    }

    /// Over how many shards the store is spread.
    std::size_t numTargets(const ItemType &) const { return opened().store.n_targets(); }

    template <typename T>
    void createQueue(const std::string &name);
    template <typename T>
    Queue openQueue(const std::string &name, QueueAccessMode mode);
    template <typename T>
    void destroyQueue(const std::string &name);

protected:
    ProductID storeRawData(const ProductID &key, const char *value, std::size_t size) override {
        opened();
        detail::guarded_write(m_store, [&] {
            m_store->store.store(detail::Access::container(key), detail::Access::name(key), {value, size});
        });
        return key;
    }

    bool loadRawData(const ProductID &key, const detail::Reader &reader) const override {
        opened();
        return detail::guarded([&] {
            return m_store->store.read(detail::Access::container(key), detail::Access::name(key), reader);
        });
    }

    const DataStore &loadedFrom() const override { return *this; }

private:
    friend struct detail::Access;

    detail::Store &opened() const {
        if (!m_store) {
            throw Exception("a DataStore is used that is not connected");
        }
        return *m_store;
    }

    detail::StorePtr m_store;
};

} // namespace hepnos

#endif
