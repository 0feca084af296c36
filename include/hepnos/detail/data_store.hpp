/// A store. Instead of HEPnOS's servers, it uses memory, a directory or Redis.
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
    /// dir:PATH, redis://…) or the path of a JSON configuration. The other arguments are for HEPnOS's
    /// servers, and are ignored.
    static DataStore connect(const std::string &protocol, const std::string &file,
                             const std::string &margo = "") {
        (void)protocol;
        (void)margo;
        DataStore made;
        made.m_store = detail::guarded([&file] { return detail::connect(file); });
        return made;
    }

    /// As above, without the arguments for HEPnOS's servers.
    static DataStore connect(const std::string &file) { return connect("", file); }

    bool valid() const override { return m_store != nullptr; }

    /// The root dataset, which holds all others.
    DataSet root() const;

    /// The dataset with this path, as `root()[path]`. Throws an Exception if it does not exist.
    DataSet operator[](const std::string &path) const;

    /// A reference to a product, or to the element `index` of a product that is a container C.
    template <typename T>
    Ptr<T> makePtr(const ProductID &productID) const;
    template <typename T, typename C = std::vector<T>>
    Ptr<T, C> makePtr(const ProductID &productID, std::size_t index) const;

    /// Loads a product; returns whether it exists.
    template <typename T>
    bool loadProduct(const ProductID &productID, T &value) const;

    /// Makes written data durable. There is no server to shut down.
    void shutdown() {
        detail::guarded([this] { opened().store.flush(); });
    }

    /// The number of shards of the store.
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
            throw Exception("the DataStore is not connected");
        }
        return *m_store;
    }

    detail::StorePtr m_store;
};

} // namespace hepnos

#endif
