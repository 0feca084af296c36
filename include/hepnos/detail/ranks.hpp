/// Exchange of events between ranks: listing ranks answer requests of other ranks. Messages use a separate
/// communicator, and each call of process() has its own tags, so that ranks may be in different calls.
#ifndef HEPNOS_DETAIL_RANKS_HPP
#define HEPNOS_DETAIL_RANKS_HPP

#include <hepnos/detail/feed.hpp>

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace hepnos {
namespace detail {

/// Waits first by yielding, then by sleeping, as there may be more ranks than cores.
class Patience {
public:
    void wait() {
        if (m_n < 200) {
            ++m_n;
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }
    void reset() { m_n = 0; }

private:
    int m_n = 0;
};

/// The ranks of one processor.
class Ranks {
public:
    explicit Ranks(MPI_Comm comm) {
        int is_up = 0, is_down = 0, level = MPI_THREAD_SINGLE;
        MPI_Initialized(&is_up);
        MPI_Finalized(&is_down);
        if (is_up && !is_down) {
            MPI_Comm_dup(comm, &m_comm);
            MPI_Comm_rank(m_comm, &rank);
            MPI_Comm_size(m_comm, &size);
            MPI_Query_thread(&level);
        }
        has_threads = level == MPI_THREAD_MULTIPLE;
    }

    Ranks(const Ranks &) = delete;
    Ranks &operator=(const Ranks &) = delete;

    ~Ranks() {
        int is_down = 1;
        MPI_Finalized(&is_down);
        if (m_comm != MPI_COMM_NULL && !is_down) {
            MPI_Comm_free(&m_comm);
        }
    }

    MPI_Comm comm() const { return m_comm; }

    /// Whether all ranks have the same bytes.
    bool agree(const unsigned char *bytes, int n) const {
        if (size == 1) {
            return true;
        }
        std::vector<unsigned char> ones(bytes, bytes + n), zeros(ones);
        MPI_Allreduce(bytes, ones.data(), n, MPI_BYTE, MPI_BAND, m_comm);
        MPI_Allreduce(bytes, zeros.data(), n, MPI_BYTE, MPI_BOR, m_comm);
        return ones == zeros;
    }

    int rank = 0;
    int size = 1;
    /// Whether threads may send and receive.
    bool has_threads = false;

private:
    MPI_Comm m_comm = MPI_COMM_NULL;
};

/// An answer: the number of events, or an error code, and then the events.
struct Answer {
    static constexpr std::int64_t failed = -1;

    static std::vector<char> make(std::int64_t n, const std::vector<fb_descriptor> &events) {
        std::vector<char> bytes(sizeof n + events.size() * sizeof(fb_descriptor));
        std::memcpy(bytes.data(), &n, sizeof n);
        if (!events.empty()) {
            std::memcpy(bytes.data() + sizeof n, events.data(), bytes.size() - sizeof n);
        }
        return bytes;
    }
};

/// Answers requests for events of this rank's feed, until each other rank knows that there are no more.
class Server {
public:
    Server(const Ranks &ranks, int tag, Feed &feed)
        : m_ranks(ranks), m_tag(tag), m_feed(feed), m_n_asking(ranks.size - 1) {}

    bool is_done() const { return m_n_asking == 0; }

    /// Answers one request, if any.
    bool poll() {
        int is_there = 0;
        MPI_Status status;
        if (!is_done()) {
            MPI_Iprobe(MPI_ANY_SOURCE, m_tag, m_ranks.comm(), &is_there, &status);
        }
        if (!is_there) {
            return false;
        }
        std::uint64_t n = 0;
        MPI_Recv(&n, 1, MPI_UINT64_T, status.MPI_SOURCE, m_tag, m_ranks.comm(), MPI_STATUS_IGNORE);
        if (n == 0) { // the other rank is done
            --m_n_asking;
            return true;
        }
        const auto events = m_feed.take(n);
        const bool has_failed = events.empty() && m_feed.error();
        const auto bytes =
            Answer::make(has_failed ? Answer::failed : static_cast<std::int64_t>(events.size()), events);
        MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, status.MPI_SOURCE, m_tag + 1,
                 m_ranks.comm());
        m_n_asking -= events.empty();
        return true;
    }

    /// Answers until all ranks are done.
    void run() {
        for (Patience patience; !is_done();) {
            poll() ? patience.reset() : patience.wait();
        }
    }

private:
    const Ranks &m_ranks;
    int m_tag;
    Feed &m_feed;
    int m_n_asking;
};

/// Gets events from this rank's feed and from the listing ranks.
class Puller {
public:
    /// `loaders` are the listing ranks, in the order in which this rank asks them.
    Puller(const Ranks &ranks, int tag, std::vector<int> loaders, Feed &feed, std::size_t n)
        : m_ranks(ranks), m_tag(tag), m_loaders(std::move(loaders)), m_feed(feed), m_n(n) {}

    /// The next events; empty at the end. While it waits for other ranks it calls `meanwhile`, which returns
    /// whether it did any work.
    template <typename F>
    std::vector<fb_descriptor> next(bool &is_local, F &&meanwhile) {
        while (!m_loaders.empty()) {
            is_local = m_loaders.front() == m_ranks.rank;
            auto events = is_local ? m_feed.take(m_n) : ask(m_loaders.front(), meanwhile);
            if (!events.empty()) {
                return events;
            }
            m_loaders.erase(m_loaders.begin());
            if (is_local && m_feed.error()) {
                std::rethrow_exception(m_feed.error());
            }
        }
        return {};
    }

    /// Tells all listing ranks that this rank is done.
    void give_up() {
        for (const int loader : m_loaders) {
            if (loader != m_ranks.rank) {
                const std::uint64_t none = 0;
                MPI_Send(&none, 1, MPI_UINT64_T, loader, m_tag, m_ranks.comm());
            }
        }
        m_loaders.clear();
    }

private:
    template <typename F>
    std::vector<fb_descriptor> ask(int loader, F &meanwhile) {
        const std::uint64_t n = m_n;
        std::vector<char> bytes(sizeof(std::int64_t) + m_n * sizeof(fb_descriptor));
        MPI_Request request;
        MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, loader, m_tag + 1, m_ranks.comm(),
                  &request);
        MPI_Send(&n, 1, MPI_UINT64_T, loader, m_tag, m_ranks.comm());
        int is_there = 0;
        for (Patience patience; !is_there;) {
            MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
            if (!is_there) {
                meanwhile() ? patience.reset() : patience.wait();
            }
        }
        std::int64_t n_events = 0;
        std::memcpy(&n_events, bytes.data(), sizeof n_events);
        if (n_events == Answer::failed) {
            m_loaders.erase(m_loaders.begin());
            throw Exception("rank " + std::to_string(loader) + " could not load events; see its error");
        }
        std::vector<fb_descriptor> events(static_cast<std::size_t>(n_events));
        if (n_events) {
            std::memcpy(events.data(), bytes.data() + sizeof n_events, events.size() * sizeof(fb_descriptor));
        }
        return events;
    }

    const Ranks &m_ranks;
    int m_tag;
    std::vector<int> m_loaders;
    Feed &m_feed;
    std::size_t m_n;
};

} // namespace detail
} // namespace hepnos

#endif
