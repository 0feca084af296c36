// How fast HEPnOS's interface is over femtobarn's stores: thousands of events a second, in the phases and
// with the products of the figures that were measured of HEPnOS itself.
//
//     scripts/install_cpp.sh PREFIX
//     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
//     mpicxx -std=c++17 -O2 benchmarks/hepnos_speed.cpp $(pkg-config --cflags --libs hepnos) -o hepnos_speed
//     mpirun -n 2 ./hepnos_speed dir:STORE          # or ./hepnos_speed memory:
//
// 100,000 events in 10 runs of 10 subruns, one product each: "small" has 100 bytes, "parts" are 50 structs of
// four floats that go through Boost, "pod" are the same as plain-old-data. Each figure is the median of
// three.
#include <hepnos.hpp>

#include <boost/serialization/vector.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace hepnos;

constexpr unsigned n_runs = 10, n_subruns = 10, n_events = 1000, n_rounds = 3;
constexpr double n_all = 1.0 * n_runs * n_subruns * n_events;

struct Small {
    char bytes[100];
};
struct Part {
    float x, y, z, t;
    Part() : x(0), y(0), z(0), t(0) {} // so that it is not plain-old-data
    template <typename Archive>
    void serialize(Archive &archive, const unsigned int) {
        archive &x &y &z &t;
    }
};
struct Pod {
    float x, y, z, t;
};

static int rank = 0, size = 1;
static DataStore store;

/// Waits for all ranks, without taking a core from those that work.
static void wait_for_all() {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int is_there = 0; !is_there;) {
        MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
        if (!is_there) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
}

/// The median of the times that something takes on rank 0, as thousands of events a second.
static double rate(const std::function<void(unsigned)> &phase, double n_events = n_all) {
    std::vector<double> seconds;
    for (unsigned round = 0; round < n_rounds; ++round) {
        wait_for_all();
        const double begun = wtime();
        phase(round);
        seconds.push_back(wtime() - begun);
    }
    std::sort(seconds.begin(), seconds.end());
    return n_events / seconds[n_rounds / 2] / 1000;
}

/// Writes the events of some runs into a dataset, each through a target (a batch, an engine), or directly.
template <typename Product, typename... Target>
static void write(const std::string &name, unsigned n, const Product &product, Target &...target) {
    DataSet dataset = store.root().createDataSet(name);
    for (unsigned r = 0; r < n; ++r) {
        Run run = dataset.createRun(target..., r);
        for (unsigned s = 0; s < n_subruns; ++s) {
            SubRun subrun = run.createSubRun(target..., s);
            for (unsigned e = 0; e < n_events; ++e) {
                Event event = subrun.createEvent(target..., e);
                event.store(target..., "product", product);
            }
        }
    }
}

static void check(std::size_t n, const char *phase) {
    if (n != static_cast<std::size_t>(n_all)) {
        std::fprintf(stderr, "%s has seen %zu events\n", phase, n);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

template <typename Product>
static void prefetch(const DataSet &dataset, Prefetcher prefetcher) {
    prefetcher.fetchProduct<Product>("product");
    Product product;
    std::size_t n = 0;
    for (auto &event : prefetcher(dataset.events())) {
        n += event.load(prefetcher, "product", product);
    }
    check(n, "a prefetcher");
}

template <typename Product>
static void process(const DataSet &dataset, unsigned in, unsigned out, bool loads) {
    ParallelEventProcessorOptions options;
    options.inputBatchSize = in;
    options.outputBatchSize = out;
    ParallelEventProcessor processor(store, MPI_COMM_WORLD, options);
    std::size_t n = 0, all = 0;
    if (loads) {
        processor.preload<Product>("product");
    }
    Product product;
    processor.process(dataset, [&](const Event &event, const ProductCache &cache) {
        n += !loads || event.load(cache, "product", product);
    });
    MPI_Reduce(&n, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        check(all, "a processor");
    }
}

/// The rates of all phases for one kind of product.
template <typename Product>
static std::vector<double> measure(const std::string &kind, const Product &product) {
    std::vector<double> rates;
    const auto alone = [&](const std::string &phase, const std::function<void(const std::string &)> &f,
                           double n_events = n_all) {
        const auto name = [&](unsigned round) { return kind + phase + std::to_string(round); };
        rates.push_back(rate([&](unsigned round) { rank == 0 ? f(name(round)) : void(); }, n_events));
    };
    // A tenth of the events, as each takes two transactions.
    alone(
        "one", [&](const std::string &name) { write(name, 1, product); }, n_all / n_runs);
    for (const unsigned n : {128u, 1024u}) {
        alone("batch" + std::to_string(n), [&](const std::string &name) {
            WriteBatch batch(store, n);
            write(name, n_runs, product, batch);
        });
    }
    alone("async", [&](const std::string &name) {
        AsyncEngine async(store, 1);
        WriteBatch batch(async, 1024);
        write(name, n_runs, product, batch);
    });
    wait_for_all();
    DataSet dataset = store.root()[kind + "batch10240"];
    alone("", [&](const std::string &) {
        Product loaded;
        std::size_t n = 0;
        for (auto &event : dataset.events()) {
            n += event.load("product", loaded);
        }
        check(n, "iterating");
    });
    alone("", [&](const std::string &) { prefetch<Product>(dataset, Prefetcher(store, 16, 16)); });
    alone("", [&](const std::string &) {
        AsyncEngine async(store, 1);
        prefetch<Product>(dataset, Prefetcher(async, 128, 128));
    });
    rates.push_back(rate([&](unsigned) { process<Product>(dataset, 16, 16, true); }));
    rates.push_back(rate([&](unsigned) { process<Product>(dataset, 1024, 256, true); }));
    rates.push_back(rate([&](unsigned) { process<Product>(dataset, 16, 16, false); }));
    rates.push_back(rate([&](unsigned) { process<Product>(dataset, 1024, 256, false); }));
    return rates;
}

int main(int argc, char **argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    store = DataStore::connect("", argc > 1 ? argv[1] : "memory:");
    const std::vector<std::vector<double>> columns = {
        measure("small", Small{}),
        measure("parts", std::vector<Part>(50)),
        measure("pod", std::vector<Pod>(50)),
    };
    const char *phases[] = {"write, one operation at a time",
                            "WriteBatch 128",
                            "WriteBatch 1024",
                            "asynchronous batch 1024",
                            "iterate + load",
                            "Prefetcher 16/16",
                            "async Prefetcher 128/128",
                            "ParallelEventProcessor, preload, 16/16",
                            "the same, in=1024 out=256",
                            "an empty function, 16/16",
                            "an empty function, 1024/256"};
    if (rank == 0) {
        std::printf("thousands of events a second, %d rank(s)\n%-42s %8s %8s %8s\n", size, "", "small",
                    "parts", "pod");
        for (std::size_t i = 0; i < columns[0].size(); ++i) {
            std::printf("%-42s %8.0f %8.0f %8.0f\n", phases[i], columns[0][i], columns[1][i], columns[2][i]);
        }
    }
    store = DataStore();
    MPI_Finalize();
}
