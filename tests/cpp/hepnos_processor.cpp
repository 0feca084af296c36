// hepnos.hpp: ParallelEventProcessor, on one rank and on several ranks.
//
//     hepnos_processor URL [LEVEL]      LEVEL is the requested thread level of MPI: multiple (default),
// single
//
// Rank 0 writes; then all ranks process.
#include "check.hpp"

#include <hepnos.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

using namespace hepnos;

struct Swapped {
    float x, y;
};
FB_DESCRIBE(Swapped, x, y)

static DataStore store;
static DataSet dataset;
static int rank = 0, size = 1;
constexpr unsigned n_runs = 3, n_subruns = 4, n_events = 250;

static void fill() {
    if (rank == 0) {
        dataset = store.root().createDataSet("processed");
        WriteBatch batch(store, 1024);
        for (unsigned r = 0; r < n_runs; ++r) {
            Run run = dataset.createRun(batch, r);
            for (unsigned s = 0; s < n_subruns; ++s) {
                SubRun subrun = run.createSubRun(batch, s);
                for (unsigned e = 0; e < n_events; ++e) {
                    Event event = subrun.createEvent(batch, e);
                    event.store(batch, "n", e);
                    if (e % 2) {
                        event.store(batch, "odd", std::vector<unsigned>{r, s, e});
                    }
                }
            }
        }
        batch.flush();
        store.root().createDataSet("empty");
        Event one = store.root().createDataSet("otherwise").createRun(1).createSubRun(2).createEvent(3);
        const auto &own = detail::Access::store_of(store)->store;
        own.note("type/Swapped", R"({"members":[{"name":"y","type":"float"},{"name":"x","type":"float"}]})");
        own.store(detail::Access::container(one.store("n", 1)), "s#Swapped",
                  std::string(sizeof(Swapped), 'x'));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    dataset = store.root()["processed"];
}

/// Checks that each event was processed once, on any rank.
static void check_each_once(const std::vector<unsigned> &seen) {
    std::vector<unsigned> all(seen.size());
    MPI_Allreduce(seen.data(), all.data(), static_cast<int>(seen.size()), MPI_UNSIGNED, MPI_SUM,
                  MPI_COMM_WORLD);
    CHECK(all == std::vector<unsigned>(n_runs * n_subruns * n_events, 1));
}

static unsigned index(const Event &event) {
    const SubRun subrun = event.subrun();
    return static_cast<unsigned>((subrun.run().number() * n_subruns + subrun.number()) * n_events +
                                 event.number());
}

static void process(ParallelEventProcessor &processor, const char *how) {
    std::vector<unsigned> seen(n_runs * n_subruns * n_events);
    std::mutex mutex;
    ParallelEventProcessorStatistics stats;
    processor.process(
        dataset,
        [&](const Event &event, const ProductCache &cache) {
            unsigned n = 0;
            std::vector<unsigned> odd;
            const bool is_there = event.load(cache, "n", n);
            const bool is_odd = event.load(cache, "odd", odd);
            long other = 0;
            const std::lock_guard<std::mutex> lock(mutex);
            CHECK(is_there && n == event.number() && is_odd == (n % 2 == 1) && (!is_odd || odd[2] == n));
            CHECK(!event.load(cache, "other", other) && cache.size() == (is_odd ? 2u : 1u));
            ++seen[index(event)];
        },
        &stats);
    check_each_once(seen);
    unsigned n_seen = 0;
    for (const unsigned n : seen) {
        n_seen += n;
    }
    CHECK(stats.total_events_processed == n_seen && stats.processing_time_stats.num == n_seen);
    CHECK(stats.local_events_processed == (rank == 0 ? n_seen : 0));
    CHECK(stats.total_time >= 0 && stats.acc_product_loading_time >= 0);
    std::printf("rank %d of %d has processed %u events, %s\n", rank, size, n_seen, how);
}

static void preload(ParallelEventProcessor &processor) {
    processor.preload<unsigned>("n");
    processor.preload<std::vector<unsigned>>("odd");
}

static void each_event_is_processed_once_again_and_again() {
    ParallelEventProcessor processor(store, MPI_COMM_WORLD);
    preload(processor);
    for (int i = 0; i < 3; ++i) {
        process(processor, "16 at a time");
    }
}

static void batches_may_have_any_size() {
    for (const unsigned n : {1u, 7u, 5000u}) {
        ParallelEventProcessorOptions options;
        options.inputBatchSize = options.outputBatchSize = n;
        options.cacheSize = n;
        ParallelEventProcessor processor(store, MPI_COMM_WORLD, options);
        preload(processor);
        process(processor, "in other batches");
    }
}

static void engines_give_threads() {
    for (const std::size_t threads : {0, 1, 3}) {
        AsyncEngine async(store, threads);
        ParallelEventProcessor processor(async, MPI_COMM_WORLD);
        preload(processor);
        process(processor, "by an engine");
    }
}

static void an_empty_dataset_is_done_at_once() {
    ParallelEventProcessor processor(store, MPI_COMM_WORLD);
    unsigned n = 0;
    processor.process(store.root()["empty"], [&n](const Event &) { ++n; });
    CHECK(n == 0);
}

static void an_error_of_the_function_is_thrown_and_others_go_on() {
    ParallelEventProcessor processor(store, MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) {
        unsigned n = 0;
        try {
            processor.process(dataset, [&n](const Event &) {
                if (++n == 10 && rank == size - 1) {
                    throw std::runtime_error("of the function");
                }
            });
            CHECK(rank != size - 1 || n < 10);
        } catch (const std::runtime_error &error) {
            CHECK(rank == size - 1 && std::string(error.what()) == "of the function");
        }
    }
    preload(processor);
    process(processor, "after errors");
}

static void structs_that_the_store_knows_otherwise_are_told() {
    ParallelEventProcessor processor(store, MPI_COMM_WORLD);
    processor.preload<Swapped>("s");
    int n = 0, all = 0;
    processor.process(store.root()["otherwise"], [&n](const Event &event, const ProductCache &cache) {
        Swapped loaded{};
        THROWS(Exception, "Swapped is stored with other members", event.load(cache, "s", loaded));
        ++n;
    });
    MPI_Allreduce(&n, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == 1);
}

static void what_others_delete_meanwhile_is_an_error(const char *url, bool only_a_run) {
    if (rank == 0) {
        DataSet gone = store.root().createDataSet("gone");
        WriteBatch batch(store, 1024);
        SubRun subrun = gone.createRun(batch, 1).createSubRun(batch, 1);
        for (unsigned e = 0; e < 5000; ++e) {
            subrun.createEvent(batch, e);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const DataSet gone = store.root()["gone"];
    int n = 0;
    std::string said;
    ParallelEventProcessor processor(store, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    try {
        processor.process(gone, [&n, url, only_a_run](const Event &) {
            if (++n == 1 && rank == 0) {
                const fb::DataSet theirs = fb::Store::connect(url).dataset("gone"); // as another process's
                if (only_a_run) {
                    theirs[1].remove();
                } else {
                    theirs.remove();
                }
            }
        });
    } catch (const Exception &error) {
        said = error.what();
    }
    CHECK(rank > 0 || n == 0 || said.find("it was deleted") != std::string::npos);
}

static void a_rank_that_only_reads_is_told_at_the_first_write(const char *url) {
    if (rank > 0 && std::strncmp(url, "dir:", 4) == 0) {
        WriteBatch batch(store);
        THROWS(Exception, "only one process can write", dataset.createRun(batch, 99));
        AsyncEngine async(store);
        dataset.createRun(async, 99);
        CHECK(async.errors().size() == 1);
    }
}

static void ranks_must_have_the_same_dataset() {
    if (size > 1) {
        ParallelEventProcessor processor(store, MPI_COMM_WORLD);
        const DataSet mine = rank == 0 ? dataset : store.root()["empty"];
        THROWS(Exception, "different datasets", processor.process(mine, [](const Event &) {}));
    }
}

static void ranks_give_each_other_values() {
    if (size == 1) {
        return;
    }
    if (rank == 0) {
        store.createQueue<unsigned>("values");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    unsigned sum = 0;
    Queue queue = store.openQueue<unsigned>("values", rank == 0 ? QueueAccessMode::PRODUCER
                                                                : QueueAccessMode::CONSUMER);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (unsigned i = 1; i <= 100; ++i) {
            queue.push(i);
        }
        queue.close();
    } else {
        for (unsigned i = 0; queue.pop(i);) {
            sum += i;
        }
    }
    unsigned all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == 5050);
}

int main(int argc, char **argv) {
    int level = 0;
    const bool wants_threads = argc < 3 || std::strcmp(argv[2], "single") != 0;
    MPI_Init_thread(&argc, &argv, wants_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    store = DataStore::connect("na+sm", argv[1]);
    fill();
    int code =
        run({{"each event is processed once, again and again", each_event_is_processed_once_again_and_again},
             {"batches may have any size", batches_may_have_any_size},
             {"engines give threads", engines_give_threads},
             {"an empty dataset is done at once", an_empty_dataset_is_done_at_once},
             {"an error of the function is thrown, and others go on",
              an_error_of_the_function_is_thrown_and_others_go_on},
             {"structs that the store knows otherwise are told",
              structs_that_the_store_knows_otherwise_are_told},
             {"what others delete meanwhile is an error",
              [argv] {
                  if (std::strcmp(argv[1], "memory:") != 0) { // which is not shared between connections
                      what_others_delete_meanwhile_is_an_error(argv[1], false);
                      what_others_delete_meanwhile_is_an_error(argv[1], true);
                  }
              }},
             {"a rank that only reads is told at the first write",
              [argv] { a_rank_that_only_reads_is_told_at_the_first_write(argv[1]); }},
             {"ranks must have the same dataset", ranks_must_have_the_same_dataset},
             {"ranks give each other values", ranks_give_each_other_values}});
    dataset = DataSet();
    store = DataStore();
    MPI_Finalize();
    return code;
}
