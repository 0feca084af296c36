/// Errors as exceptions, and handles that free themselves.
#ifndef FEMTOBARN_ERROR_HPP
#define FEMTOBARN_ERROR_HPP

#include <femtobarn.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace fb {

/// An error of an ntuple or a store. kind() is stable across versions: "file-not-found", "not-in-store", …
class Error : public std::runtime_error {
public:
    Error(std::string kind, const std::string &message)
        : std::runtime_error(message), m_kind(std::move(kind)) {}

    const std::string &kind() const noexcept { return m_kind; }

private:
    std::string m_kind;
};

namespace detail {

/// Holds the error of one call of the C ABI.
class Outcome {
public:
    Outcome() = default;
    Outcome(const Outcome &) = delete;
    Outcome &operator=(const Outcome &) = delete;

    ~Outcome() { fb_error_free(m_error); }

    operator fb_error **() { return &m_error; }

    /// Throws if the call failed.
    void check(bool is_done) {
        if (!is_done) {
            fail();
        }
    }

    /// The message of a failed call.
    const char *message() const noexcept { return fb_error_message(m_error); }

    /// Returns the handle, or throws if the call failed.
    template <class T>
    T *check(T *handle) {
        if (!handle) {
            fail();
        }
        return handle;
    }

private:
    [[noreturn]] void fail() { throw Error(fb_error_kind(m_error), fb_error_message(m_error)); }

    fb_error *m_error = nullptr;
};

template <class T, void (*Free)(T *)>
struct Freed {
    void operator()(T *handle) const { Free(handle); }
};

/// A handle of the C interface that is freed.
template <class T, void (*Free)(T *)>
using Handle = std::unique_ptr<T, Freed<T, Free>>;

inline fb_text c_text(std::string_view text) { return {text.data(), text.size()}; }

inline std::string_view view(const fb_text &text) { return {text.data, text.size}; }

/// Calls a function of the C interface, and throws if it fails. Returns a handle, if the function returns one.
template <class F, class... A>
auto call(F function, A &&...arguments) {
    Outcome outcome;
    return outcome.check(function(std::forward<A>(arguments)..., outcome));
}

} // namespace detail
} // namespace fb

#endif
