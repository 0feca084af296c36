// Batches whose server is gone when they are destroyed: the next call throws; without one, the exit code is
// 1.
//
//     lost_batches URL COMMAND KIND      COMMAND ends the server; KIND is batch, async, own or told
#include "check.hpp"

#include <hepnos.hpp>

#include <cstdlib>
#include <string>

using namespace hepnos;

int main(int, char **argv) {
    const std::string kind = argv[3];
    DataStore store = DataStore::connect(argv[1]);
    DataSet dataset = store.root().createDataSet("lost");
    if (kind == "own") {
        const fb::Store own = fb::Store::connect(argv[1]);
        fb::WriteBatch batch(own);
        batch.create(own.dataset("lost"), 1);
        CHECK(std::system(argv[2]) == 0);
    } else if (kind == "async") {
        AsyncEngine async(store, 1);
        dataset.createRun(async, 1);
        CHECK(std::system(argv[2]) == 0);
    } else {
        WriteBatch batch(store);
        dataset.createRun(batch, 1);
        CHECK(std::system(argv[2]) == 0);
    }
    if (kind == "told") {
        THROWS(std::exception, "was not written", store.root().createDataSet("next"));
    }
    return n_failed() ? 3 : 0;
}
