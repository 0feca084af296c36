/// Opening a store, also in several processes of one program.
#ifndef HEPNOS_DETAIL_CONNECT_HPP
#define HEPNOS_DETAIL_CONNECT_HPP

#include <hepnos/detail/access.hpp>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#if __has_include(<mpi.h>)
#include <mpi.h>
#define HEPNOS_HAS_MPI 1
#endif

namespace hepnos {
namespace detail {

/// Whether this process is a rank of an MPI program other than the first.
inline bool is_later_rank() {
#ifdef HEPNOS_HAS_MPI
    int is_up = 0, is_down = 0, rank = 0;
    MPI_Initialized(&is_up);
    MPI_Finalized(&is_down);
    if (is_up && !is_down) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    return rank > 0;
#else
    return false;
#endif
}

/// Only one process can write to a store in a directory. In an MPI program that is the first rank, and the
/// others wait for it to create the store; otherwise, it is the first process that opens it.
inline fb::Store open(const std::string &url) {
    if (url.compare(0, 4, "dir:") == 0 && is_later_rank()) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (std::chrono::steady_clock::now() < until) {
            try {
                return fb::Store::connect(url, fb::Mode::read);
            } catch (const fb::Error &) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the first rank is creating it
            }
        }
    }
    return fb::Store::connect(url, fb::Mode::append_or_read);
}

inline StorePtr connect(const std::string &file) {
    const char *wanted = std::getenv("FEMTOBARN_STORE");
    auto made = std::make_shared<Store>();
    made->store = open(wanted && *wanted ? wanted : file);
    made->only_read = "only one process can write to a store in a directory, and another process has it open";
    return made;
}

} // namespace detail
} // namespace hepnos

#endif
