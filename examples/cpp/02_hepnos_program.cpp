// A program for HEPnOS, without any code for femtobarn. It uses the store in its second argument, or in the
// environment variable FEMTOBARN_STORE.
//
//     find_package(hepnos REQUIRED) in CMake, target hepnos; or
//     mpicxx -std=c++17 02_hepnos_program.cpp $(pkg-config --cflags --libs hepnos) -o select
//     mpirun -n 2 ./select na+sm dir:./store
#include <hepnos.hpp>

#include <iostream>
#include <string>
#include <vector>

struct Slice {
    unsigned plane;
    float energy;
    bool is_contained;

    template <typename Archive>
    void serialize(Archive &archive, const unsigned int) {
        archive &plane &energy &is_contained;
    }
};

static void generate(hepnos::DataStore &datastore) {
    hepnos::DataSet nova = datastore.root().createDataSet("nova");
    hepnos::AsyncEngine async(datastore, 1);
    hepnos::WriteBatch batch(async, 1024);
    for (unsigned r = 0; r < 2; ++r) {
        hepnos::Run run = nova.createRun(batch, r);
        for (unsigned s = 0; s < 5; ++s) {
            hepnos::SubRun subrun = run.createSubRun(batch, s);
            for (unsigned e = 0; e < 100; ++e) {
                hepnos::Event event = subrun.createEvent(batch, e);
                std::vector<Slice> slices(1 + e % 3);
                for (Slice &slice : slices) {
                    slice = Slice{e, 0.1f * static_cast<float>(e), e % 4 != 0};
                }
                event.store(batch, "slices", slices);
            }
        }
    }
}

static unsigned select(const hepnos::DataStore &datastore) {
    unsigned n_selected = 0;
    hepnos::ParallelEventProcessorOptions options;
    options.outputBatchSize = 64;
    hepnos::ParallelEventProcessor processor(datastore, MPI_COMM_WORLD, options);
    processor.preload<std::vector<Slice>>("slices");
    processor.process(datastore.root()["nova"],
                      [&n_selected](const hepnos::Event &event, const hepnos::ProductCache &cache) {
                          std::vector<Slice> slices;
                          if (!event.load(cache, "slices", slices)) {
                              return;
                          }
                          for (const Slice &slice : slices) {
                              n_selected += slice.is_contained && slice.energy > 2;
                          }
                      });
    return n_selected;
}

int main(int argc, char **argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    {
        hepnos::DataStore datastore = hepnos::DataStore::connect("na+sm", argc > 2 ? argv[2] : "memory:");
        if (rank == 0) {
            generate(datastore);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const unsigned mine = select(datastore);
        unsigned all = 0;
        MPI_Reduce(&mine, &all, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            std::cout << all << " slices are selected" << std::endl;
        }
    }
    MPI_Finalize();
}
