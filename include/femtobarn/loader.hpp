/// Loads events with some of their products, many at a time, and prefetches them.
#ifndef FEMTOBARN_LOADER_HPP
#define FEMTOBARN_LOADER_HPP

#include <femtobarn/container.hpp>

namespace fb {

/// Sizes and prefetching of a Loader.
struct LoadOptions {
    /// Events per chunk.
    std::size_t n_events = 16384;
    /// How many chunks a thread prefetches; with 0, each chunk is loaded on request.
    std::size_t ahead = 2;
    /// The target of the store whose events are loaded; all if negative.
    std::int64_t target = -1;
};

/// Containers and some of their products.
class Loaded {
public:
    Loaded() = default;
    /// Wraps loaded products of a store. Product names have the form label#type.
    Loaded(Store store, std::shared_ptr<const std::vector<std::string>> products, fb_loaded *loaded)
        : m_store(std::move(store)), m_products(std::move(products)), m_loaded(loaded) {}

    /// Loads products of containers. Product names have the form label#type.
    static Loaded of(const Store &store, const fb_descriptor *containers, std::size_t n,
                     const std::vector<std::string> &products) {
        const std::vector<fb_text> names = texts(products);
        fb_loaded *loaded =
            detail::call(fb_loaded_of, store.handle(), containers, n, names.data(), names.size());
        return Loaded(store, std::make_shared<const std::vector<std::string>>(products), loaded);
    }

    static std::vector<fb_text> texts(const std::vector<std::string> &products) {
        std::vector<fb_text> names;
        for (const auto &product : products) {
            names.push_back(detail::c_text(product));
        }
        return names;
    }

    std::size_t size() const { return fb_loaded_len(m_loaded.get()); }

    const fb_descriptor *containers() const { return fb_loaded_containers(m_loaded.get()); }
    Descriptor operator[](std::size_t i) const { return containers()[i]; }

    /// The bytes of the products of one name, one for each container; data is NULL for a missing product.
    const fb_bytes *values(std::size_t product) const { return fb_loaded_values(m_loaded.get(), product); }

    /// Decodes the product of one name and of container `i`; returns false if it does not exist.
    template <class T>
    bool load(std::size_t product, std::size_t i, T &value) const {
        const std::string &name = check_place(product, i);
        if (!ends_with(name, type_name<T>())) {
            throw Error("class-differs", "product " + std::to_string(product) + " has type " + name +
                                             ", not " + type_name<T>());
        }
        const fb_bytes bytes = values(product)[i];
        if (!bytes.data) {
            return false;
        }
        return m_store.load_checked<T>([&] {
            Codec<T>::decode(detail::view(bytes), value);
            return true;
        });
    }

private:
    /// The name of a product; throws if `product` or `i` is out of range.
    const std::string &check_place(std::size_t product, std::size_t i) const {
        const std::size_t n_products = m_products ? m_products->size() : 0;
        if (product >= n_products || i >= size()) {
            throw Error("usage", "load(product, container, value): no product " + std::to_string(product) +
                                     " or no container " + std::to_string(i) + "; there are " +
                                     std::to_string(n_products) + " products and " + std::to_string(size()) +
                                     " containers, counted from 0");
        }
        return (*m_products)[product];
    }

    static bool ends_with(std::string_view name, std::string_view type) {
        return name.size() > type.size() && name[name.size() - type.size() - 1] == '#' &&
               name.substr(name.size() - type.size()) == type;
    }

    Store m_store;
    std::shared_ptr<const std::vector<std::string>> m_products;
    detail::Handle<fb_loaded, fb_loaded_free> m_loaded;
};

/// Iterates over the events of a container with some of their products. At the end, next() returns nothing;
/// it throws if the container was deleted meanwhile, or a run or subrun in it.
class Loader {
public:
    Loader(const Store &store, const Descriptor &container, const std::vector<std::string> &products,
           const LoadOptions &options = {}, const Descriptor *after = nullptr)
        : m_store(store), m_products(std::make_shared<const std::vector<std::string>>(products)) {
        const std::vector<fb_text> names = Loaded::texts(products);
        m_loader.reset(detail::call(fb_loader_start, store.handle(), &container, options.target, after,
                                    names.data(), names.size(), options.n_events, options.ahead));
    }

    std::optional<Loaded> next() {
        fb_loaded *loaded = nullptr;
        detail::call(fb_loader_next, m_loader.get(), &loaded);
        return loaded ? std::optional<Loaded>(Loaded(m_store, m_products, loaded)) : std::nullopt;
    }

private:
    Store m_store;
    std::shared_ptr<const std::vector<std::string>> m_products;
    detail::Handle<fb_loader, fb_loader_free> m_loader;
};

} // namespace fb

#endif
