// hepnos.hpp: stores, datasets, runs, subruns, events, and iterating over them.
#include "check.hpp"

#include <hepnos.hpp>

#include <iterator>
#include <set>
#include <sstream>

using namespace hepnos;

static DataStore store;

static void fill(DataSet &dataset, unsigned n_runs, unsigned n_subruns, unsigned n_events) {
    WriteBatch batch(store, 64);
    for (unsigned r = 0; r < n_runs; ++r) {
        Run run = dataset.createRun(batch, r);
        for (unsigned s = 0; s < n_subruns; ++s) {
            SubRun subrun = run.createSubRun(batch, s);
            for (unsigned e = 0; e < n_events; ++e) {
                Event event = subrun.createEvent(batch, e);
                event.store(batch, "n", e);
            }
        }
    }
}

template <typename Range>
static std::size_t length(Range &&range) {
    std::size_t n = 0;
    for (auto &item : range) {
        n += item.valid();
    }
    return n;
}

static void datasets_have_names_and_places() {
    DataSet root = store.root();
    CHECK(root.level() == 0 && root.fullname().empty());
    DataSet a = root.createDataSet("datasets");
    DataSet b = a.createDataSet("b");
    CHECK(b.name() == "b" && b.container() == "/datasets" && b.fullname() == "/datasets/b" && b.level() == 2);
    CHECK(a.createDataSet("b") == b && root["datasets/b"] == b && a["b"].uuid() == b.uuid());
    CHECK(DataSet::fromUUID(store, "b", "datasets", b.uuid()) == b);
    a.createDataSet("d");
    DataSet c = a.createDataSet("c");
    CHECK(b.next() == c && !c.next().next().valid());
    CHECK(length(a) == 3 && std::distance(a.cbegin(), a.cend()) == 3);
    CHECK(a.lower_bound("bb")->name() == "c" && a.lower_bound("c")->name() == "c" &&
          a.upper_bound("c")->name() == "d");
    const DataSet &constant = a;
    CHECK(constant.find("e") == constant.end() && a.find("b") == constant.find("b") &&
          a.upper_bound("d") == a.end());
    THROWS(Exception, "no / and no %", a.createDataSet("x/y"));
    THROWS(Exception, "no / and no %", a.createDataSet("x%y"));
    THROWS(Exception, "has b, c, d", a["e"]);
    THROWS(Exception, "not valid", DataSet().name());
    CHECK(DataSet() != a && DataSet() == DataSet());
}

/// HEPnOS cannot delete datasets; other programs can.
static void nothing_is_created_in_a_dataset_that_was_deleted() {
    DataSet gone = store.root().createDataSet("deleted");
    const auto &own = detail::Access::store_of(store)->store;
    own.dataset("deleted").remove();
    THROWS(Exception, "no dataset \"deleted\" any more", gone.createDataSet("b"));
    CHECK(store.root().find("deleted") == store.root().end());
}

static void containers_are_found_by_numbers() {
    DataSet dataset = store.root().createDataSet("numbers");
    for (RunNumber number : {5, 1, 9}) {
        dataset.createRun(number);
    }
    RunSet runs = dataset.runs();
    CHECK(runs[5] == dataset[5] && runs.datastore().valid());
    CHECK(runs.find(6) == runs.end() && !runs.find(6)->valid() && runs.find(5)->number() == 5);
    CHECK(runs.lower_bound(2)->number() == 5 && runs.upper_bound(5)->number() == 9 &&
          runs.upper_bound(9) == runs.end());
    CHECK(dataset[5].next().number() == 9 && !dataset[9].next().valid());
    CHECK(runs.upper_bound(InvalidRunNumber) == runs.end() && runs.find(InvalidRunNumber) == runs.end());
    THROWS(Exception, "no run 6", dataset[6]);
    THROWS(Exception, "is reserved", dataset.createRun(InvalidRunNumber));
    THROWS(Exception, "not valid", Run().number());

    SubRun subrun = dataset[5].createSubRun(7);
    Event event = subrun.createEvent(8);
    CHECK(event.subrun() == subrun && subrun.run() == dataset[5] && event.subrun().run().number() == 5);
    CHECK(event.number() == 8 && !event.next().valid() && subrun.find(8)->number() == 8);
    CHECK(dataset[5][7][8] == event && dataset[1] != dataset[5] && Event() != event);
    THROWS(Exception, "no run 5, subrun 7, event 9", subrun[9]);
}

static void iterators_go_on_independently() {
    DataSet dataset = store.root().createDataSet("iterators");
    fill(dataset, 1, 1, 1000);
    SubRun subrun = dataset[0][0];
    auto it = subrun.begin();
    auto other = it++;
    CHECK(other->number() == 0 && it->number() == 1 && it != other);
    std::advance(it, 500);
    CHECK(other->number() == 0 && it->number() == 501);
    ++other;
    CHECK(other->number() == 1);
    CHECK(std::distance(subrun.cbegin(), subrun.cend()) == 1000);
    const auto begun = subrun.begin();
    CHECK(length(subrun) == 1000 && begun->number() == 0);
    THROWS(Exception, "beyond the end", ++subrun.end());
}

static void descriptors_are_what_they_are_in_memory() {
    DataSet dataset = store.root().createDataSet("descriptors");
    Run run = dataset.createRun(1);
    SubRun subrun = run.createSubRun(2);
    Event event = subrun.createEvent(3);
    RunDescriptor r;
    SubRunDescriptor s;
    EventDescriptor e;
    run.toDescriptor(r);
    subrun.toDescriptor(s);
    event.toDescriptor(e);
    CHECK(Run::fromDescriptor(store, r) == run && SubRun::fromDescriptor(store, s) == subrun);
    CHECK(Event::fromDescriptor(store, e) == event);
    e.data[39] = 4;
    CHECK(!Event::fromDescriptor(store, e).valid() && Event::fromDescriptor(store, e, false).valid());
    std::memset(e.data, 0xff, sizeof e.data);
    CHECK(!Event::fromDescriptor(store, e).valid());

    const ItemDescriptor item(s);
    CHECK(item.dataset == dataset.uuid() && item.run == 1u && item.subrun == 2u &&
          item.event == InvalidEventNumber);
    CHECK(ItemDescriptor(r) < item && item < ItemDescriptor(dataset.uuid(), 1, 3) &&
          item != ItemDescriptor(r));
    std::ostringstream text;
    text << item;
    CHECK(text.str() == "[" + dataset.uuid().to_string() + ", 1, 2]");
    const BE<std::uint32_t> big = 1;
    CHECK(reinterpret_cast<const char *>(&big)[3] == 1 && big == 1u);
}

static void uuids_are_made_and_written() {
    CHECK(UUID::generate() != UUID::generate() && UUID::generate().to_string().size() == 36);
    CHECK(UUID::fromStringHash("a") == UUID::fromStringHash("a") &&
          UUID::fromStringHash("a") != UUID::fromStringHash("b"));
    CHECK(UUID().to_string() == "00000000-0000-0000-0000-000000000000" && UUID().hash() == 0);
}

static void event_sets_have_all_events_whatever_fetches_them() {
    DataSet dataset = store.root().createDataSet("all");
    fill(dataset, 4, 4, 200);
    CHECK(length(dataset.events()) == 3200);
    std::size_t n = 0;
    for (std::size_t target = 0; target < store.numTargets(ItemType::EVENT); ++target) {
        n += length(dataset.events(static_cast<int>(target)));
    }
    CHECK(n == 3200);
    THROWS(Exception, "no target", dataset.events(static_cast<int>(store.numTargets(ItemType::EVENT))));
    AsyncEngine async(store, 1);
    for (const unsigned size : {1u, 16u, 1000u}) {
        Prefetcher here(store, size, size), ahead(async, 4 * size, size);
        for (Prefetcher *prefetcher : {&here, &ahead}) {
            prefetcher->fetchProduct<unsigned>("n");
            prefetcher->activateStatistics();
            n = 0;
            for (auto &event : (*prefetcher)(dataset.events())) {
                unsigned number = 0;
                n += event.load(*prefetcher, "n", number) && number == event.number();
            }
            CHECK(n == 3200);
            PrefetcherStatistics stats;
            prefetcher->collectStatistics(stats);
            CHECK(stats.product_cache_hit == 3200 && stats.product_cache_miss == 0);
            CHECK(stats.product_sizes.num == 3200 && stats.product_sizes.avg == 4);
        }
    }
}

static void prefetchers_serve_runs_subruns_and_events() {
    DataSet dataset = store.root().createDataSet("prefetched");
    fill(dataset, 40, 3, 2);
    AsyncEngine async(store, 1);
    Prefetcher here(store), ahead(async);
    for (Prefetcher *prefetcher : {&here, &ahead}) {
        prefetcher->fetchProduct<unsigned>("n");
        CHECK(length((*prefetcher)(dataset.runs())) == 40);
        CHECK(length((*prefetcher)(dataset[3])) == 3);
        CHECK(length((*prefetcher)(dataset[3][1])) == 2);
        RunSet runs = dataset.runs();
        unsigned expected = 30;
        for (auto it = runs.lower_bound(30, *prefetcher); it != runs.end(); ++it) {
            CHECK(it->number() == expected++);
        }
        CHECK(expected == 40 && runs.find(7, *prefetcher)->number() == 7 &&
              runs.find(70, *prefetcher) == runs.end());
        // products that the cache does not have come from the store
        unsigned number = 0;
        CHECK(dataset[39][2][1].load(*prefetcher, "n", number) && number == 1);
        prefetcher->fetchProduct<unsigned>("n", false);
    }
    here.setBatchSize(3);
    here.setCacheSize(9);
    CHECK(here.getBatchSize() == 3 && here.getCacheSize() == 9 && here.valid());
}

static void stores_are_connected_or_say_so() {
    CHECK(store.valid() && !DataStore().valid());
    THROWS(Exception, "not connected", DataStore().root());
    THROWS(Exception, "not connected", DataStore().numTargets(ItemType::EVENT));
    THROWS(Exception, "not an event store", DataStore::connect("na+sm", "no://where"));
    store.shutdown();
    setenv("FEMTOBARN_STORE", "memory:", 1);
    CHECK(DataStore::connect("na+sm", "no://where").valid());
    unsetenv("FEMTOBARN_STORE");
}

static void stores_are_connected_and_indexed_by_one_argument() {
    DataStore datastore = DataStore::connect("memory:");
    DataSet made = datastore.root().createDataSet("path").createDataSet("dataset");
    made.createRun(43).createSubRun(56).createEvent(25).store("numbers", std::vector<int>{1, 2, 3});

    DataSet dataset = datastore["path/dataset"];
    Event event = dataset[43][56][25];
    std::vector<int> numbers;
    CHECK(dataset == made && event.load("numbers", numbers) && numbers == std::vector<int>({1, 2, 3}));
    THROWS(Exception, "has path", datastore["other"]);
    THROWS(Exception, "not connected", DataStore()["path"]);
}

int main(int, char **argv) {
    store = DataStore::connect("na+sm", argv[1]);
    return run({{"datasets have names and places", datasets_have_names_and_places},
                {"nothing is created in a dataset that was deleted",
                 nothing_is_created_in_a_dataset_that_was_deleted},
                {"containers are found by numbers", containers_are_found_by_numbers},
                {"iterators go on independently", iterators_go_on_independently},
                {"descriptors are what they are in memory", descriptors_are_what_they_are_in_memory},
                {"UUIDs are made and written", uuids_are_made_and_written},
                {"event sets have all events, whatever fetches them",
                 event_sets_have_all_events_whatever_fetches_them},
                {"prefetchers serve runs, subruns and events", prefetchers_serve_runs_subruns_and_events},
                {"stores are connected and indexed by one argument",
                 stores_are_connected_and_indexed_by_one_argument},
                {"stores are connected or say so", stores_are_connected_or_say_so}});
}
