/// Helpers of these tests: checks that report their line when they fail, and a list of tests that all run.
#ifndef FEMTOBARN_TESTS_CHECK_HPP
#define FEMTOBARN_TESTS_CHECK_HPP

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

inline int &n_failed() {
    static int n = 0;
    return n;
}

inline void failed(const char *file, int line, const std::string &what) {
    ++n_failed();
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

#define CHECK(condition) ((condition) ? void() : failed(__FILE__, __LINE__, #condition " is false"))

/// Checks that an expression throws, and that the message contains a part.
#define THROWS(Class, part, ...)                                                                             \
    try {                                                                                                    \
        __VA_ARGS__;                                                                                         \
        failed(__FILE__, __LINE__, #__VA_ARGS__ " does not throw");                                          \
    } catch (const Class &error) {                                                                           \
        if (std::string(error.what()).find(part) == std::string::npos) {                                     \
            failed(__FILE__, __LINE__, std::string("message: ") + error.what());                             \
        }                                                                                                    \
    }

using Tests = std::vector<std::pair<const char *, std::function<void()>>>;

/// Runs the tests; returns the exit code.
inline int run(const Tests &tests) {
    for (const auto &[name, test] : tests) {
        const int before = n_failed();
        try {
            test();
        } catch (const std::exception &error) {
            failed(name, 0, std::string("threw ") + error.what());
        }
        std::printf("%s %s\n", n_failed() == before ? "ok    " : "FAILED", name);
    }
    return n_failed() != 0;
}

#endif
