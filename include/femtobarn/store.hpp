/// The store as a whole, and its products as bytes.
#ifndef FEMTOBARN_STORE_HPP
#define FEMTOBARN_STORE_HPP

#include <femtobarn/describe.hpp>
#include <femtobarn/descriptor.hpp>
#include <femtobarn/value.hpp>

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

namespace fb {

/// How a store is opened: append reads and writes, and creates the store if it does not exist; read only
/// reads; append_or_read only reads if another process writes; update reads and writes a store that must
/// exist.
enum class Mode : std::uint32_t {
    append = FB_APPEND,
    read = FB_READ,
    append_or_read = FB_APPEND_OR_READ,
    update = FB_UPDATE
};

/// What happens to a product that exists already.
enum class IfThere : std::uint32_t { replace = FB_REPLACE, keep = FB_KEEP };

class DataSet;

namespace detail {

inline std::optional<std::string> taken(fb_value *value) {
    const Handle<fb_value, fb_value_free> owned(value);
    if (!owned) {
        return std::nullopt;
    }
    return std::string(view(fb_value_bytes(value)));
}

/// Milliseconds of a monotonic clock. A coarse clock is enough; this is called for each product.
inline std::int64_t milliseconds() {
#ifdef CLOCK_MONOTONIC_COARSE
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
#else
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
#endif
}

/// The types whose notes in one store are known. All are forgotten together, some seconds after the first was
/// looked up, since another process may have the store forget a class and reuse its name.
class KnownTypes {
public:
    KnownTypes() = default;
    KnownTypes(const KnownTypes &) = delete;
    KnownTypes &operator=(const KnownTypes &) = delete;

    /// Calls a function for a type unless that was done before. `last` caches the state of the previous call:
    /// most products have the same type as the one before.
    template <class Type, class Do>
    void once(std::atomic<std::uint64_t> &last, Do &&does) {
        // The order matters: if the time is new, the ID is new too.
        if (milliseconds() < m_until.load(std::memory_order_acquire) &&
            last.load(std::memory_order_relaxed) == m_id.load(std::memory_order_relaxed)) {
            return;
        }
        const std::lock_guard<std::mutex> lock(m_mutex);
        const std::int64_t now = milliseconds();
        if (now >= m_until.load(std::memory_order_relaxed)) {
            forget(now + static_cast<std::int64_t>(fb_classes_known_for()));
        }
        if (!m_types.count(typeid(Type))) {
            does();
            m_types.insert(typeid(Type));
        }
        last.store(m_id.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }

    /// Forgets all types.
    void clear() {
        const std::lock_guard<std::mutex> lock(m_mutex);
        forget(0);
    }

private:
    void forget(std::int64_t until) {
        static std::atomic<std::uint64_t> last{0};
        m_types.clear();
        m_id.store(++last, std::memory_order_relaxed);
        m_until.store(until, std::memory_order_release);
    }

    std::mutex m_mutex;
    std::set<std::type_index> m_types;
    /// Changes when all types are forgotten; unique in this process.
    std::atomic<std::uint64_t> m_id{0};
    std::atomic<std::int64_t> m_until{0};
};

/// Ends the process with exit code 1 if batches were lost and no call has thrown for it. Static objects that
/// are defined after this header are destroyed before.
struct ExitCode {
    ExitCode() = default;
    ExitCode(const ExitCode &) = delete;
    ExitCode &operator=(const ExitCode &) = delete;
    ~ExitCode() {
        if (n_lost > 0) {
            std::cout.flush();
            std::fflush(nullptr);
            std::_Exit(1);
        }
    }

    std::atomic<int> n_lost{0};
};
inline ExitCode exit_code;

/// The state of one store in this process.
struct StoreState {
    explicit StoreState(fb_store *opened) : handle(opened) {}
    StoreState(const StoreState &) = delete;
    StoreState &operator=(const StoreState &) = delete;
    ~StoreState() { fb_store_free(handle); }

    /// Remembers the error of a batch whose destructor could not write it.
    void note_lost(const char *what) noexcept {
        std::fprintf(stderr, "femtobarn: a batch of an event store was not written: %s\n", what);
        const std::lock_guard<std::mutex> lock(m_mutex);
        exit_code.n_lost += m_lost.empty();
        if (m_lost.empty()) {
            m_lost = what;
        }
        m_has_lost = true;
    }

    /// Throws once if a batch was lost since the last call.
    void check_lost() {
        if (!m_has_lost) {
            return;
        }
        const std::lock_guard<std::mutex> lock(m_mutex);
        if (m_has_lost.exchange(false)) {
            --exit_code.n_lost;
            throw Error("batch-lost", "an earlier batch was not written and is lost: " +
                                          std::exchange(m_lost, std::string()) +
                                          "; call flush() before a batch is destroyed to keep its data");
        }
    }

    fb_store *handle;
    /// The types whose descriptions are noted.
    KnownTypes described;
    /// The types that were checked on loading: their notes agree with this program, or they have no notes and
    /// are not described here.
    KnownTypes checked;

private:
    std::mutex m_mutex;
    std::string m_lost;
    std::atomic<bool> m_has_lost{false};
};

/// The type whose description determines the layout of T: T itself, or the element type of a vector or array,
/// of a vector of vectors, and so on.
template <class T>
struct Plain {
    using type = T;
};
template <class T, class A>
struct Plain<std::vector<T, A>> : Plain<T> {};
template <class T, std::size_t N>
struct Plain<std::array<T, N>> : Plain<T> {};
template <class T, std::size_t N>
struct Plain<T[N]> : Plain<T> {};

/// Whether T consists of a class that this program does not describe.
template <class T>
inline constexpr bool is_undescribed =
    std::is_class_v<typename Plain<T>::type> && !Described<typename Plain<T>::type>::value;

/// The message about a class that the store knows and this program does not describe.
template <class T>
std::string undescribed(const std::string &noted) {
    const std::string type = type_name<typename Plain<T>::type>();
    const auto known = members(noted);
    return "class " + type + " is not described, but the store has it as " + declared(known) +
           ": describe it outside of all namespaces, with its members in the order of the store, "
           "FB_DESCRIBE(" +
           type + ", " + names_of(known) + "), or give the class another name";
}

} // namespace detail

/// An event store. Copies refer to the same store.
class Store {
public:
    Store() = default;

    /// Opens a store by its URL (memory:, dir:PATH, redis://…) or by a JSON configuration.
    static Store connect(std::string_view url, Mode mode = Mode::append) {
        Store store;
        fb_store *opened =
            detail::call(fb_store_connect, detail::c_text(url), static_cast<std::uint32_t>(mode));
        store.m_state = std::make_shared<detail::StoreState>(opened);
        return store;
    }

    bool valid() const { return m_state != nullptr; }
    explicit operator bool() const { return valid(); }

    /// The handle for the C functions. Throws once if a batch was lost.
    fb_store *handle() const {
        check_lost();
        return m_state ? m_state->handle : nullptr;
    }
    void check_lost() const {
        if (m_state) {
            m_state->check_lost();
        }
    }
    void note_lost(const char *what) const noexcept {
        if (m_state) {
            m_state->note_lost(what);
        }
    }

    std::string url() const { return fb_store_url(handle()); }

    /// Whether flushed data survives the end of the processes that hold it. It does in a directory, and in
    /// Redis if every server keeps an append-only file, but not in memory.
    bool is_durable() const { return fb_store_is_durable(handle()); }

    /// The number of shards over which the containers and products are spread.
    std::size_t n_targets() const { return fb_store_n_targets(handle()); }

    /// The shard that has the products and children of a container.
    std::size_t target(const Descriptor &container) const {
        std::size_t target = 0;
        detail::call(fb_store_target, handle(), &container, &target);
        return target;
    }

    /// Returns when all written data is as durable as the store makes it.
    void flush() const { detail::call(fb_store_flush, handle()); }

    /// The root dataset, which holds all others.
    DataSet root() const;
    /// The dataset with this path from the root: fermilab/nova.
    DataSet dataset(std::string_view name) const;
    /// Creates a dataset and its parent datasets if they do not exist.
    DataSet create_dataset(std::string_view name) const;

    /// Stores a note about the store as a whole, unless a note with this key exists. Returns the note that
    /// the store has now.
    std::string note(std::string_view key, std::string_view value) const {
        fb_value *noted = nullptr;
        detail::call(fb_store_note, handle(), detail::c_text(key), detail::c_bytes(value), &noted);
        return detail::taken(noted).value_or("");
    }

    /// Returns a note about the store.
    std::optional<std::string> noted(std::string_view key) const {
        fb_value *noted = nullptr;
        detail::call(fb_store_noted, handle(), detail::c_text(key), &noted);
        return detail::taken(noted);
    }

    /// Notes the description of T, or of the elements of a vector T. Throws if T is not described here and
    /// the store has a description. store() calls this when needed.
    template <class T>
    void describe() const {
        using Type = typename detail::Plain<T>::type;
        if constexpr (Described<Type>::value) {
            static std::atomic<std::uint64_t> last{0};
            m_state->described.template once<Type>(last, [this] {
                check_whole<Type>();
                for (const auto &[key, value] : descriptions<Type>()) {
                    check_same(key, note(key, value), value);
                }
            });
        } else if constexpr (detail::is_as_it_lies<T>()) {
            check_unknown<T>();
        }
    }

    /// Throws if the store has another description of T or of one of its members, or if T is not described
    /// here: loaded values would be wrong. load() calls this when needed, once it has found a product of the
    /// type.
    template <class T>
    void check_description() const {
        using Type = typename detail::Plain<T>::type;
        if constexpr (Described<Type>::value) {
            static std::atomic<std::uint64_t> last{0};
            m_state->checked.template once<Type>(last, [this] {
                for (const auto &[key, value] : descriptions<Type>()) {
                    if (const auto there = noted(key)) {
                        check_same(key, *there, value);
                        check_whole<Type>();
                    }
                }
            });
        } else if constexpr (detail::is_as_it_lies<T>()) {
            check_unknown<T>();
        }
    }

    /// If T consists of a class that this program does not describe, calls `does` with the store's note of
    /// the class, if there is one. Repeats this only after `does` has thrown, or some seconds later.
    template <class T, class Do>
    void if_undescribed(Do &&does) const {
        using Type = typename detail::Plain<T>::type;
        if constexpr (detail::is_undescribed<T>) {
            static std::atomic<std::uint64_t> last{0};
            m_state->checked.template once<Type>(last, [&] {
                const auto there = noted("type/" + type_name<Type>());
                if (there && there->rfind("forgetting ", 0) != 0) { // no product has the class then
                    does(*there);
                }
            });
        }
    }

    /// Calls `load`, which returns whether it has found a value of T and throws if the bytes do not fit, and
    /// checks the description of T. If the description differs, that error is thrown rather than the one of
    /// the bytes.
    template <class T, class Load>
    bool load_checked(Load &&load) const {
        return load_checked(load, [this] { check_description<T>(); });
    }

    /// The same, with another check.
    template <class Load, class Check>
    static bool load_checked(Load &&load, Check &&check) {
        bool is_there = false;
        try {
            is_there = load();
        } catch (...) {
            try {
                check();
            } catch (const Error &error) {
                if (error.kind() == "class-differs") {
                    throw;
                }
            }
            throw;
        }
        if (is_there) {
            check();
        }
        return is_there;
    }

    /// How many bytes a value of a class has, from the members noted in the store; 0 if the size varies.
    std::size_t class_size(std::string_view name) const {
        std::size_t size = 0;
        detail::call(fb_store_class_size, handle(), detail::c_text(name), &size);
        return size;
    }

    /// Forgets the members of a class that no product has any more, so that the class can be noted with other
    /// members. Takes some seconds, until other programs have dropped the old members from their caches.
    void forget_class(std::string_view name) const {
        detail::call(fb_store_forget_class, handle(), detail::c_text(name));
        m_state->described.clear();
        m_state->checked.clear();
    }

    /// Stores a product as bytes. Its name is label#type.
    void store(const Descriptor &container, std::string_view name, std::string_view value,
               IfThere if_there = IfThere::replace) const {
        detail::call(fb_product_store, handle(), &container, detail::c_text(name), detail::c_bytes(value),
                     static_cast<std::uint32_t>(if_there));
    }

    /// Calls `read` with the bytes of a product as a std::string_view; returns whether the product exists.
    template <class Read>
    bool read(const fb_descriptor &container, std::string_view name, Read &&read) const {
        struct Context {
            Read &read;
            bool is_there = false;
            std::exception_ptr thrown = nullptr;
        } context{read};
        const auto visit = [](void *given, std::size_t, std::size_t, fb_bytes value) {
            auto &reading = *static_cast<Context *>(given);
            if (!value.data) {
                return;
            }
            reading.is_there = true;
            try {
                reading.read(detail::view(value));
            } catch (...) {
                reading.thrown = std::current_exception(); // an exception must not pass through the C ABI
            }
        };
        const fb_text text = detail::c_text(name);
        detail::call(fb_products_load, handle(), &container, 1, &text, 1, visit, &context);
        if (context.thrown) {
            std::rethrow_exception(context.thrown);
        }
        return context.is_there;
    }

    /// Loads a product as bytes.
    std::optional<std::string> load(const Descriptor &container, std::string_view name) const {
        std::optional<std::string> found;
        read(container, name, [&found](std::string_view bytes) { found.emplace(bytes); });
        return found;
    }

    /// The names of the products of a container: label#type.
    std::vector<std::string> products(const Descriptor &container) const {
        const detail::Handle<fb_products, fb_products_free> list(
            detail::call(fb_products_list, handle(), &container));
        std::vector<std::string> names;
        for (std::size_t i = 0; i < fb_products_len(list.get()); ++i) {
            const fb_text name = fb_products_name(list.get(), i);
            names.emplace_back(name.data, name.size);
        }
        return names;
    }

    friend bool operator==(const Store &a, const Store &b) {
        return fb_store_is_same(a.handle(), b.handle());
    }
    friend bool operator!=(const Store &a, const Store &b) { return !(a == b); }

private:
    template <class Type>
    static void check_whole() {
        if (!detail::is_whole<Type>()) {
            throw Error("class-differs",
                        type_name<Type>() +
                            ": FB_DESCRIBE leaves out members, or changes their order; name all "
                            "members in the order of the struct");
        }
    }

    template <class T>
    void check_unknown() const {
        if_undescribed<T>([this](const std::string &there) {
            throw Error("class-differs", url() + ": " + detail::undescribed<T>(there));
        });
    }

    /// Throws if the noted description of a type has other members.
    void check_same(const std::string &key, const std::string &there, const std::string &here) const {
        if (there == here) {
            return;
        }
        const std::string type = key.substr(key.find('/') + 1);
        if (there.rfind("forgetting ", 0) == 0) {
            throw Error("usage", url() + ": class " + type +
                                     " is being forgotten, which takes some seconds: try again; if that was "
                                     "interrupted, forget it again (forget_class, `fb store forget-class`)");
        }
        const auto noted = detail::members(there), own = detail::members(here);
        if (noted != own) {
            throw Error("class-differs",
                        url() + ": class " + type + " is stored with other members: noted with " +
                            detail::declared(noted) + ", described here with " + detail::declared(own) +
                            "; use the members of the store, in their order, or another name");
        }
    }

    std::shared_ptr<detail::StoreState> m_state;
};

} // namespace fb

#endif
