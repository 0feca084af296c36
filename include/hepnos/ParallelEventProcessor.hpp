/// Calls a function for each event of a dataset, distributed over the ranks of an MPI program. Some ranks,
/// one for each target of the store, list the events. All ranks take events from these ranks in batches, and
/// load the requested products in the background.
///
/// If an AsyncEngine has threads, they call the function concurrently. If MPI was not initialized with
/// MPI_THREAD_MULTIPLE, nothing runs in the background, and a listing rank serves other ranks between its own
/// events.
#ifndef HEPNOS_PARALLELEVENTPROCESSOR_HPP
#define HEPNOS_PARALLELEVENTPROCESSOR_HPP

#include <hepnos/AsyncEngine.hpp>
#include <hepnos/DataSet.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/Demangle.hpp>
#include <hepnos/Event.hpp>
#include <hepnos/ProductCache.hpp>
#include <hepnos/Statistics.hpp>
#include <hepnos/detail/batches.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>

namespace hepnos {

struct ParallelEventProcessorOptions {
    unsigned cacheSize =
        std::numeric_limits<unsigned>::max(); ///< Maximum number of events waiting on a listing rank.
    unsigned inputBatchSize = 16;             ///< Minimum number of events read at a time.
    unsigned outputBatchSize = 16;            ///< Number of events that a rank takes at a time.
    std::uint16_t providerID = 0;             ///< For HEPnOS's transport; no effect.
    bool use_rdma = true;                     ///< For HEPnOS's transport; no effect.
};

/// Statistics of one rank. Times are in seconds.
struct ParallelEventProcessorStatistics {
    std::size_t total_events_processed = 0;
    std::size_t local_events_processed = 0;           ///< Events that this rank listed itself.
    double total_time = 0.0;                          ///< In process().
    double acc_event_processing_time = 0.0;           ///< In the function.
    double acc_product_loading_time = 0.0;            ///< Loading products, also in the background.
    Statistics<double, double> processing_time_stats; ///< Of one event.
    Statistics<double, double> waiting_time_stats;    ///< For one batch.
};

class ParallelEventProcessor {
public:
    typedef std::function<void(const Event &)> EventProcessingFn;
    typedef std::function<void(const Event &, const ProductCache &cache)> EventProcessingWithCacheFn;

    /// Must be called by all ranks of the communicator.
    ParallelEventProcessor(const DataStore &datastore, MPI_Comm comm,
                           const ParallelEventProcessorOptions &options = ParallelEventProcessorOptions())
        : m_datastore(datastore), m_options(options), m_ranks(std::make_shared<detail::Ranks>(comm)) {}

    ParallelEventProcessor(const AsyncEngine &async, MPI_Comm comm,
                           const ParallelEventProcessorOptions &options = ParallelEventProcessorOptions())
        : ParallelEventProcessor(detail::AsyncState::datastore(async), comm, options) {
        m_n_threads = detail::AsyncState::threads(async);
    }

    /// Loads this product with each event, into the cache that the function gets.
    template <typename T>
    void preload(const std::string &label) {
        const std::string name = fb::product_name<T>(label);
        if (std::find(m_products.begin(), m_products.end(), name) == m_products.end()) {
            m_products.push_back(name);
        }
    }

    /// Calls a function for each event of a dataset. All ranks must call this, with the same dataset.
    void process(const DataSet &dataset, const EventProcessingWithCacheFn &function,
                 ParallelEventProcessorStatistics *stats = nullptr) {
        if (!m_ranks->agree(dataset.uuid().data, sizeof dataset.uuid().data)) {
            throw Exception(
                "the ranks process different datasets (each process has its own store in memory)");
        }
        Call(*this, dataset, function, stats).run();
    }

    void process(const DataSet &dataset, const EventProcessingFn &function,
                 ParallelEventProcessorStatistics *stats = nullptr) {
        process(
            dataset, [&function](const Event &event, const ProductCache &) { function(event); }, stats);
    }

private:
    /// One call of process().
    class Call {
    public:
        Call(ParallelEventProcessor &owner, const DataSet &dataset,
             const EventProcessingWithCacheFn &function, ParallelEventProcessorStatistics *stats)
            : m_owner(owner), m_ranks(*owner.m_ranks), m_function(function), m_given(stats),
              m_products(std::make_shared<const std::vector<std::string>>(owner.m_products)),
              m_store(detail::Access::store_of(owner.m_datastore)),
              m_tag(owner.next_tag()),
              m_feed(m_store, ItemDescriptor(dataset.uuid()), owner.targets(), owner.capacity()),
              m_server(m_ranks, m_tag, m_feed), m_puller(m_ranks, m_tag, owner.loaders(), m_feed,
                                                         std::max(owner.m_options.outputBatchSize, 1u)),
              m_batches(m_store, m_puller, owner.m_products) {}

        void run() {
            const double begun = wtime();
            const bool serves = m_ranks.size > 1 && !m_owner.targets().empty();
            m_polls = serves && !m_ranks.has_threads;
            std::thread server;
            if (serves && m_ranks.has_threads) {
                server = std::thread([this] { m_server.run(); });
            }
            if (m_ranks.size == 1 || m_ranks.has_threads) {
                m_batches.start();
            }
            work();
            finish(serves, server);
            if (!m_error) { // something may have been deleted since it was listed
                detail::guarded([this] { m_feed.check_left(); });
            }
            if (m_given) {
                m_stats.total_time = wtime() - begun;
                *m_given = m_stats;
            }
            if (m_error) {
                std::rethrow_exception(m_error);
            }
        }

    private:
        void work() {
            std::vector<std::thread> threads;
            for (std::size_t i = 1; i < n_threads(); ++i) {
                threads.emplace_back([this] { work_here(); });
            }
            work_here();
            for (auto &thread : threads) {
                thread.join();
            }
        }

        /// Only one thread if threads must not call MPI, as any thread may get batches.
        std::size_t n_threads() const {
            const bool may_be_many = m_ranks.size == 1 || m_ranks.has_threads;
            return may_be_many ? m_owner.m_n_threads : 0;
        }

        /// Serves other ranks, and tells them that this rank is done, also after an error.
        void finish(bool serves, std::thread &server) {
            if (m_error) {
                m_batches.stop();
                m_puller.give_up();
            }
            if (server.joinable()) {
                server.join();
            } else if (serves) {
                m_server.run();
            }
        }

        void work_here() {
            Worker worker(*this);
            try {
                while (worker.next()) {
                    worker.call();
                    poll();
                }
            } catch (...) {
                const std::lock_guard<std::mutex> lock(m_mutex);
                m_error = m_error ? m_error : std::current_exception();
                m_has_failed = true;
            }
            const std::lock_guard<std::mutex> lock(m_mutex);
            m_stats.acc_event_processing_time += worker.time;
            m_stats.processing_time_stats.updateWith(worker.times);
        }

        bool poll() { return m_polls && m_server.poll(); }

        /// The state of one thread.
        struct Worker {
            explicit Worker(Call &call)
                : owner(call), cache(call.m_owner.m_datastore),
                  event(detail::Access::item<Event>(call.m_store, ItemDescriptor())) {}

            /// Advances to the next event; returns whether there is one.
            bool next() {
                std::unique_lock<std::mutex> lock(owner.m_taking, std::defer_lock);
                if (owner.n_threads() > 1) {
                    lock.lock();
                }
                if (owner.m_has_failed || !owner.take()) {
                    return false;
                }
                if (loaded != owner.m_batch.loaded) {
                    loaded = owner.m_batch.loaded;
                    cache.set(loaded, owner.m_products);
                }
                at = owner.m_at++;
                return true;
            }

            void call() {
                cache.set(at);
                std::memcpy(static_cast<void *>(&detail::Access::descriptor(event)),
                            loaded->containers()[at].bytes, sizeof(ItemDescriptor));
                if (!owner.m_given) {
                    owner.m_function(event, cache);
                    return;
                }
                const double begun = wtime();
                owner.m_function(event, cache);
                const double took = wtime() - begun;
                time += took;
                times.updateWith(took);
            }

            Call &owner;
            ProductCache cache;
            Event event;
            std::shared_ptr<const fb::Loaded> loaded;
            std::size_t at = 0;
            double time = 0;
            Statistics<double, double> times;
        };

        /// Gets a batch with untaken events; false if there are no more.
        bool take() {
            if (m_at < m_batch.n) {
                return true;
            }
            const double begun = m_given ? wtime() : 0;
            m_batch = m_batches.next([this] { return poll(); });
            m_at = 0;
            if (m_given && m_batch.n) {
                m_stats.waiting_time_stats.updateWith(wtime() - begun);
                m_stats.acc_product_loading_time += m_batch.loading_time;
                m_stats.total_events_processed += m_batch.n;
                m_stats.local_events_processed += m_batch.is_local ? m_batch.n : 0;
            }
            return m_batch.n > 0;
        }

        ParallelEventProcessor &m_owner;
        const detail::Ranks &m_ranks;
        const EventProcessingWithCacheFn &m_function;
        ParallelEventProcessorStatistics *m_given;
        ParallelEventProcessorStatistics m_stats;
        std::shared_ptr<const std::vector<std::string>> m_products;
        detail::StorePtr m_store;
        int m_tag;
        detail::Feed m_feed;
        detail::Server m_server;
        detail::Puller m_puller;
        detail::Batches m_batches;
        bool m_polls = false;
        /// Held while an event is taken.
        std::mutex m_taking;
        detail::EventBatch m_batch;
        std::size_t m_at = 0;
        /// Held while results are reported.
        std::mutex m_mutex;
        std::exception_ptr m_error;
        std::atomic<bool> m_has_failed{false};
    };

    /// Two tags for each call, one after the other.
    int next_tag() {
        m_n_calls = (m_n_calls + 1) % 8192;
        return 2 * m_n_calls;
    }

    std::size_t capacity() const {
        constexpr unsigned most = 1 << 16;
        return std::max({std::min(m_options.cacheSize, most), m_options.inputBatchSize, 1u});
    }

    /// The number of listing ranks: one per target, at most all ranks.
    int n_loaders() const {
        const int n_targets = static_cast<int>(m_datastore.numTargets(ItemType::EVENT));
        return std::max(1, std::min(n_targets, m_ranks->size));
    }
    int loader(int i) const {
        return static_cast<int>(static_cast<std::int64_t>(i) * m_ranks->size / n_loaders());
    }

    /// The listing ranks, in the order in which this rank asks them.
    std::vector<int> loaders() const {
        std::vector<int> all;
        for (int i = 0; i < n_loaders(); ++i) {
            all.push_back(loader(i));
        }
        std::rotate(all.begin(), std::lower_bound(all.begin(), all.end(), m_ranks->rank), all.end());
        return all;
    }

    /// The targets whose events this rank lists.
    std::vector<int> targets() const {
        std::vector<int> mine;
        for (int target = 0; target < static_cast<int>(m_datastore.numTargets(ItemType::EVENT)); ++target) {
            if (loader(target % n_loaders()) == m_ranks->rank) {
                mine.push_back(target);
            }
        }
        return mine;
    }

    DataStore m_datastore;
    ParallelEventProcessorOptions m_options;
    std::shared_ptr<detail::Ranks> m_ranks;
    std::vector<std::string> m_products;
    std::size_t m_n_threads = 0;
    int m_n_calls = 0;
};

} // namespace hepnos

#ifdef HEPNOS_HAS_FMT
namespace fmt {

template <>
struct formatter<hepnos::ParallelEventProcessorStatistics> {
    constexpr auto parse(format_parse_context &context) { return context.begin(); }

    template <typename Context>
    auto format(const hepnos::ParallelEventProcessorStatistics &stats, Context &context) const {
        return format_to(
            context.out(),
            "{{ \"total_events_processed\" : {}, \"local_events_processed\" : {}, \"total_time\" : {}, "
            "\"acc_event_processing_time\" : {}, \"acc_product_loading_time\" : {}, "
            "\"processing_time_stats\" : {}, \"waiting_time_stats\" : {} }}",
            stats.total_events_processed, stats.local_events_processed, stats.total_time,
            stats.acc_event_processing_time, stats.acc_product_loading_time, stats.processing_time_stats,
            stats.waiting_time_stats);
    }
};

} // namespace fmt
#endif

#endif
