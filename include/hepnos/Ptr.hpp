/// A reference to a product, or to an element of a product, which can itself be stored. The target is loaded
/// on first access, and shared by later copies.
#ifndef HEPNOS_PTR_HPP
#define HEPNOS_PTR_HPP

#include <hepnos/detail/serialize.hpp>

#include <boost/serialization/access.hpp>
#include <boost/serialization/split_member.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

#include <memory>
#include <stdexcept>

namespace hepnos {

template <typename T, typename C>
class Ptr {
public:
    Ptr() = default;

    /// Resets to a null reference.
    void reset() { *this = Ptr(); }

    bool valid() const { return m_datastore.valid() && m_product_id.valid(); }

    bool operator==(const Ptr &other) const {
        return m_product_id == other.m_product_id && m_is_in_container == other.m_is_in_container &&
               m_index == other.m_index;
    }
    bool operator!=(const Ptr &other) const { return !(*this == other); }

    const T &operator*() { return *loaded(); }
    const T *operator->() { return loaded(); }

private:
    friend class boost::serialization::access;
    friend class DataStore;

    Ptr(const DataStore &datastore, const ProductID &product_id)
        : m_datastore(datastore), m_product_id(product_id) {}
    Ptr(const DataStore &datastore, const ProductID &product_id, std::size_t index)
        : m_datastore(datastore), m_product_id(product_id), m_index(index), m_is_in_container(true) {}

    const T *loaded() {
        if (!m_data) {
            m_data = m_is_in_container ? load_element() : load_whole<T>();
        }
        return m_data.get();
    }

    template <typename Product>
    std::shared_ptr<Product> load_whole() {
        auto product = std::make_shared<Product>();
        if (!valid() || !m_datastore.loadProduct(m_product_id, *product)) {
            throw Exception("the product of a Ptr does not exist: " + m_product_id.toJSON());
        }
        return product;
    }

    std::shared_ptr<const T> load_element() {
        auto container = load_whole<C>();
        try {
            return std::shared_ptr<const T>(container, &container->at(m_index));
        } catch (const std::out_of_range &) {
            throw Exception("a Ptr refers to missing element " + std::to_string(m_index) + " of " +
                            std::to_string(container->size()) + ": " + m_product_id.toJSON());
        }
    }

    template <typename Archive>
    void save(Archive &archive, const unsigned int) const {
        archive &m_product_id;
        archive &m_is_in_container;
        if (m_is_in_container) {
            archive &m_index;
        }
    }

    template <typename Archive>
    void load(Archive &archive, const unsigned int) {
        m_data.reset();
        m_datastore = archive.datastore();
        archive &m_product_id;
        archive &m_is_in_container;
        if (m_is_in_container) {
            archive &m_index;
        }
    }

    BOOST_SERIALIZATION_SPLIT_MEMBER()

    DataStore m_datastore;
    ProductID m_product_id;
    std::size_t m_index = 0;
    bool m_is_in_container = false;
    std::shared_ptr<const T> m_data;
};

template <typename T>
Ptr<T> DataStore::makePtr(const ProductID &productID) const {
    return Ptr<T>(*this, productID);
}

template <typename T, typename C>
Ptr<T, C> DataStore::makePtr(const ProductID &productID, std::size_t index) const {
    return Ptr<T, C>(*this, productID, index);
}

} // namespace hepnos

#endif
