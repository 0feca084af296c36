/// Access of the classes to each other's members: a single friend of all classes.
#ifndef HEPNOS_DETAIL_ACCESS_HPP
#define HEPNOS_DETAIL_ACCESS_HPP

#include <hepnos/Exception.hpp>
#include <hepnos/RawStorage.hpp>

#include <femtobarn.hpp>

#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>

namespace hepnos {
namespace detail {

/// The store of a DataStore and of all objects made from it.
struct Store {
    fb::Store store;
    /// The reason why it is open only for reading, if that was not requested.
    std::string only_read;
    /// The undescribed classes that were reported. Used when the notes of the store are looked up, which one
    /// thread does at a time.
    std::set<std::type_index> told;
};

using StorePtr = std::shared_ptr<Store>;

/// Calls `f`, and converts errors of the store to HEPnOS's exception.
template <typename F>
auto guarded(F &&f) -> decltype(f()) {
    try {
        return f();
    } catch (const fb::Error &error) {
        throw Exception(error.what());
    }
}

/// The same, for writing.
template <typename F>
auto guarded_write(const StorePtr &store, F &&f) -> decltype(f()) {
    try {
        return f();
    } catch (const fb::Error &error) {
        const bool explains = error.kind() == "read-only" && !store->only_read.empty();
        throw Exception(std::string(error.what()) + (explains ? ": " + store->only_read : ""));
    }
}

/// The same as std::is_pod, which is deprecated in C++20.
template <typename T>
constexpr bool is_plain = std::is_trivial<T>::value &&std::is_standard_layout<T>::value;

/// Checks a class that the store knows and this program does not describe, as programs for HEPnOS never do. A
/// different size is an error; otherwise, a warning is printed once to standard error.
template <typename T>
void check_undescribed(Store &store) {
    using Type = typename fb::detail::Plain<T>::type;
    store.store.template if_undescribed<T>([&store](const std::string &noted) {
        std::string what = store.store.url() + ": " + fb::detail::undescribed<T>(noted);
        if (!is_plain<Type>) {
            what += "; this program stores it by Boost, but only plain data can be described";
        } else if (store.store.class_size(fb::type_name<Type>()) != sizeof(Type)) {
            throw fb::Error("class-differs", what);
        }
        if (store.told.insert(typeid(Type)).second) {
            std::cerr << "femtobarn: " + what + "\n";
        }
    });
}

/// Loads a value of T with `load`, which returns whether it was found, and throws if the store has noted
/// other members for the class.
template <typename T, typename F>
bool load_checked(const StorePtr &store, F &&load) {
    using Value = std::remove_cv_t<T>;
    if constexpr (fb::Described<typename fb::detail::Plain<Value>::type>::value) {
        return guarded([&] { return store->store.template load_checked<Value>(load); });
    } else if constexpr (fb::detail::is_undescribed<Value>) {
        const auto check = [&store] { check_undescribed<Value>(*store); };
        return guarded([&] { return fb::Store::load_checked(load, check); });
    } else {
        return load();
    }
}

inline fb_descriptor c_descriptor(const ItemDescriptor &item) {
    fb_descriptor made;
    std::memcpy(made.bytes, static_cast<const void *>(&item), sizeof made.bytes);
    return made;
}

inline ItemDescriptor item_descriptor(const fb_descriptor &descriptor) {
    EventDescriptor bytes;
    std::memcpy(bytes.data, descriptor.bytes, sizeof bytes.data);
    return ItemDescriptor(bytes);
}

struct Access {
    static ProductID product_id(const ItemDescriptor &container, std::string_view label,
                                std::string_view type) {
        return ProductID::make(container, label, type);
    }
    static ProductID product_id(const fb_descriptor &container, std::string_view name) {
        ProductID made;
        made.m_key.assign(reinterpret_cast<const char *>(container.bytes), sizeof container.bytes);
        made.m_key.append(name);
        return made;
    }

    /// The container of a product, and its name in the store.
    static fb_descriptor container(const ProductID &id) {
        if (id.m_key.size() < sizeof(fb_descriptor)) {
            throw Exception("the ProductID is not valid");
        }
        fb_descriptor made;
        std::memcpy(made.bytes, id.m_key.data(), sizeof made.bytes);
        return made;
    }
    static std::string_view name(const ProductID &id) {
        return std::string_view(id.m_key).substr(sizeof(fb_descriptor));
    }
    static std::string_view key(const ProductID &id) { return id.m_key; }

    static ProductID store(RawStorage &target, const ProductID &key, const char *value, std::size_t size) {
        return target.storeRawData(key, value, size);
    }
    static bool load(const RawStorage &source, const ProductID &key, const Reader &reader) {
        return source.loadRawData(key, reader);
    }
    static const DataStore &loaded_from(const RawStorage &source) { return source.loadedFrom(); }

    /// The store of an object.
    template <typename T>
    static const StorePtr &store_of(const T &holder) {
        return holder.m_store;
    }

    /// The DataStore of a store.
    template <typename T>
    static T with_store(const StorePtr &store) {
        T made;
        made.m_store = store;
        return made;
    }

    /// The container of an object, and a function that changes it.
    template <typename T>
    static T item(const StorePtr &store, const ItemDescriptor &descriptor) {
        T made;
        made.m_store = store;
        made.m_descriptor = descriptor;
        return made;
    }
    template <typename T>
    static ItemDescriptor &descriptor(T &item) {
        return item.m_descriptor;
    }
};

} // namespace detail
} // namespace hepnos

#endif
