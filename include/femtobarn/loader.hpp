/// Events with products of theirs, many at a time, and fetched ahead.
#ifndef FEMTOBARN_LOADER_HPP
#define FEMTOBARN_LOADER_HPP

#include <femtobarn/item.hpp>

namespace fb {

/// What is loaded with events, and how much at a time.
struct LoadOptions {
    /// Events that come together.
    std::size_t n_events = 16384;
    /// How many of these are fetched ahead by a thread; with none, each is fetched when it is asked for.
    std::size_t ahead = 2;
    /// The target of the store whose events are wanted; all if negative.
    std::int64_t target = -1;
};

/// Containers, and products of theirs.
class Loaded {
public:
    Loaded() = default;
    /// Products, named label#type, of a store.
    Loaded(Store store, std::shared_ptr<const std::vector<std::string>> products, fb_loaded *loaded)
        : m_store(std::move(store)), m_products(std::move(products)), m_loaded(loaded) {}

    /// Loads products, named label#type, of containers.
    static Loaded of(const Store &store, const fb_descriptor *containers, std::size_t n,
                     const std::vector<std::string> &products) {
        const std::vector<fb_text> names = texts(products);
        detail::Outcome outcome;
        fb_loaded *loaded =
            outcome.check(fb_loaded_of(store.handle(), containers, n, names.data(), names.size(), outcome));
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

    /// The bytes of the products of one name, as many as there are containers; data is NULL where one is not
    /// there.
    const fb_bytes *values(std::size_t product) const { return fb_loaded_values(m_loaded.get(), product); }

    /// The product of one of the names, of container `i`; says whether it is there.
    template <class T>
    bool load(std::size_t product, std::size_t i, T &value) const {
        const std::string &name = check_place(product, i);
        if (!ends_with(name, type_name<T>())) {
            throw Error("type-differs", "product " + std::to_string(product) + " is " + name + ", and no " +
                                            type_name<T>());
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
    /// The name of a product; an error if there are not so many, or not so many containers.
    const std::string &check_place(std::size_t product, std::size_t i) const {
        const std::size_t n_products = m_products ? m_products->size() : 0;
        if (product >= n_products || i >= size()) {
            throw Error("usage", "load(product, container, value) was asked for product " +
                                     std::to_string(product) + " of container " + std::to_string(i) +
                                     ": there are " + std::to_string(n_products) + " products of " +
                                     std::to_string(size()) + " containers, both counted from 0");
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

/// The events of a container, with products of theirs; next() gives none at the end, and fails if there are
/// none since the dataset was deleted.
class Loader {
public:
    Loader(const Store &store, const Descriptor &container, const std::vector<std::string> &products,
           const LoadOptions &options = {}, const Descriptor *after = nullptr)
        : m_store(store), m_products(std::make_shared<const std::vector<std::string>>(products)) {
        const std::vector<fb_text> names = Loaded::texts(products);
        detail::Outcome outcome;
        m_loader.reset(
            outcome.check(fb_loader_start(store.handle(), &container, options.target, after, names.data(),
                                          names.size(), options.n_events, options.ahead, outcome)));
    }

    std::optional<Loaded> next() {
        fb_loaded *loaded = nullptr;
        detail::Outcome outcome;
        outcome.check(fb_loader_next(m_loader.get(), &loaded, outcome));
        return loaded ? std::optional<Loaded>(Loaded(m_store, m_products, loaded)) : std::nullopt;
    }

private:
    Store m_store;
    std::shared_ptr<const std::vector<std::string>> m_products;
    detail::Handle<fb_loader, fb_loader_free> m_loader;
};

} // namespace fb

#endif
