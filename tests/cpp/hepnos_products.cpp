// hepnos.hpp: products, their storage, batches, engines, references, queues.
#include "check.hpp"

#include <hepnos.hpp>

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

using namespace hepnos;

static DataStore store;
static bool in_folder = false; // with larger batches

struct Point { // plain-old-data
    float x, y;
};
FB_DESCRIBE(Point, x, y)

struct Swapped {
    float x, y;
};
FB_DESCRIBE(Swapped, x, y)

struct Strip { // only described by other programs
    std::int32_t n;
    float charge;
};

struct Narrow {
    float charge;
};

struct Track { // stored by Boost
    std::string name;
    std::vector<double> hits;
    Track() {}
    Track(std::string a_name, std::vector<double> some_hits) : name(std::move(a_name)), hits(std::move(some_hits)) {}
    bool operator==(const Track &other) const { return name == other.name && hits == other.hits; }
    template <typename Archive>
    void serialize(Archive &archive, const unsigned int) {
        archive &name &hits;
    }
};

struct Remark {
    std::string text;
    template <typename Archive>
    void serialize(Archive &archive, const unsigned int) {
        archive &text;
    }
};

struct Versioned {
    int n = 0;
    unsigned seen = 0; // the version that was passed to serialize
    bool operator==(const Versioned &other) const { return n == other.n; }
    template <typename Archive>
    void serialize(Archive &archive, const unsigned int version) {
        seen = version;
        archive &n;
    }
    Versioned() {}
    explicit Versioned(int number) : n(number) {}
};
BOOST_CLASS_VERSION(Versioned, 7)

struct Tracked : Versioned {
    using Versioned::Versioned;
};
BOOST_CLASS_TRACKING(Tracked, boost::serialization::track_always)

static Event event(const char *dataset) {
    return store.root().createDataSet(dataset).createRun(1).createSubRun(2).createEvent(3);
}

/// The bytes of a product, as read by any other program.
static std::string bytes(const ProductID &id, const std::string &name) {
    UUID dataset;
    RunNumber run;
    SubRunNumber subrun;
    EventNumber number;
    id.unpackInformation(&dataset, &run, &subrun, &number, nullptr, nullptr);
    const ItemDescriptor item(dataset, run, subrun, number);
    return detail::Access::store_of(store)->store.load(detail::c_descriptor(item), name).value_or("(none)");
}

static void plain_data_are_stored_as_bytes() {
    Event e = event("plain");
    const Point point{1, 2};
    const ProductID one = e.store("p", point);
    CHECK(bytes(one, "p#Point") == std::string(reinterpret_cast<const char *>(&point), sizeof point));
    const std::vector<Point> points{{1, 2}, {3, 4}, {5, 6}};
    const ProductID many = e.store("p", points);
    const std::string stored = bytes(many, "p#std::vector<Point>");
    const std::uint64_t n = 3;
    CHECK(stored.size() == 8 + 3 * sizeof(Point) && std::memcmp(stored.data(), &n, 8) == 0);
    CHECK(std::memcmp(stored.data() + 8, points.data(), 3 * sizeof(Point)) == 0);
    Point loaded{};
    std::vector<Point> all;
    CHECK(e.load("p", loaded) && loaded.y == 2 && e.load("p", all) && all.size() == 3 && all[2].x == 5);
    CHECK(detail::Access::store_of(store)->store.noted("type/Point") == fb::description<Point>());
    e.store("p", points, 1, 2);
    CHECK(e.load("p", all) && all.size() == 1 && all[0].x == 3);
    e.store("p", std::vector<Point>());
    CHECK(e.load("p", all) && all.empty());
    THROWS(Exception, "invalid range", e.store("p", points, 2, 1));
    THROWS(Exception, "invalid range", e.store("p", points, 0, 4));
}

static void all_else_goes_through_boost() {
    Event e = event("boost");
    const Track track("muon", {1, 2, 3});
    e.store("t", track);
    e.store("t", std::vector<Track>{track, Track("pion", {}), track});
    const std::string label = "t";
    std::map<std::string, int> numbers{{"a", 1}};
    e.store(label, numbers);
    Track one;
    std::vector<Track> many;
    std::map<std::string, int> loaded;
    CHECK(e.load("t", one) && one == track && e.load("t", many) && many.size() == 3 && many[2] == track);
    CHECK(e.load(label, loaded) && loaded == numbers);
    // vectors are stored as the number of elements, then the elements
    const std::string stored =
        bytes(e.store("t", std::vector<std::string>{"ab", "c"}), "t#std::vector<std::string>");
    CHECK(stored.size() == 8 + (8 + 2) + (8 + 1));
    e.store("t", std::vector<Track>{track, Track("pion", {1})}, 1, 2);
    CHECK(e.load("t", many) && many.size() == 1 && many[0].name == "pion");
}

/// The bytes that Boost writes for the elements of a vector, after their number.
template <typename T>
static std::string as_boost_does(const std::vector<T> &values) {
    std::string text;
    OutputStringWrapper buffer(text);
    OutputArchive archive(buffer);
    const std::size_t n = values.size();
    archive << n;
    for (const T &value : values) {
        archive << value;
    }
    return text;
}

template <typename T>
static void check_same(const std::vector<T> &values) {
    std::string bytes;
    detail::encode(values, 0, -1, [&](const char *data, std::size_t size) { bytes.assign(data, size); });
    CHECK(bytes == as_boost_does(values));
    std::vector<T> loaded;
    detail::decode(store, bytes, loaded);
    CHECK(loaded == values);
    if constexpr (std::is_base_of<Versioned, T>::value) {
        CHECK(loaded.empty() || loaded.back().seen == (std::is_same<T, Versioned>::value ? 7 : 0));
    }
}

static void the_short_way_writes_what_boost_does() {
    check_same(std::vector<Track>{Track("a", {1}), Track("b", {}), Track("a", {1, 2})});
    check_same(std::vector<Versioned>{Versioned(1), Versioned(2), Versioned(3)});
    check_same(std::vector<Tracked>{Tracked(1), Tracked(2), Tracked(3)});
    check_same(std::vector<std::string>{"a", "", "bc"});
    check_same(std::vector<std::vector<Track>>{{Track("a", {1})}, {}, {Track("b", {}), Track("c", {})}});
    check_same(std::vector<Versioned>{});
}

static void overwriting_replaces_and_absence_is_no_error() {
    Event e = event("over");
    e.store("n", 1);
    e.store("n", 2);
    int n = 0;
    CHECK(e.load("n", n) && n == 2);
    CHECK(!e.load("m", n) && n == 2);
    long other = 0;
    CHECK(!e.load("n", other));
    THROWS(Exception, "must not have a #", e.store("a#b", 1));
    THROWS(Exception, "not valid", Event().store("n", 1));
}

static void damaged_products_are_errors() {
    Event e = event("damaged");
    const auto put = [&](const std::string &name, const std::string &value) {
        EventDescriptor descriptor;
        e.toDescriptor(descriptor);
        detail::Access::store_of(store)->store.store(detail::c_descriptor(ItemDescriptor(descriptor)), name,
                                                     value);
    };
    put("v#std::vector<Point>", std::string(8, '\xff'));
    put("p#Point", "abc");
    put("t#Track", "abc");
    put("t#std::vector<Track>", std::string(8, '\x7f') + "abc");
    put("s#std::string", std::string(8, '\x7f'));
    std::vector<Point> points;
    std::vector<Track> tracks;
    Point point;
    Track track;
    std::string text;
    THROWS(Exception, "expected", e.load("v", points));
    THROWS(Exception, "expected 8 bytes, found 3", e.load("p", point));
    THROWS(Exception, "cannot deserialize", e.load("t", track));
    THROWS(Exception, "is not a valid std::vector<Track>", e.load("t", tracks));
    THROWS(Exception, "cannot deserialize", e.load("s", text));
}

static void structs_that_the_store_knows_otherwise_are_told() {
    Event e = event("otherwise");
    const auto &own = detail::Access::store_of(store)->store;
    own.note("type/Swapped", R"({"members":[{"name":"y","type":"float"},{"name":"x","type":"float"}]})");
    const fb_descriptor place = detail::Access::container(e.store("p", Point{1, 2}));
    const ProductID id = detail::Access::product_id(place, "s#Swapped");
    own.store(place, "s#Swapped", std::string(sizeof(Swapped), 'x'));
    Swapped loaded{};
    Prefetcher prefetcher(store);
    prefetcher.fetchProduct<Swapped>("s");
    const char *what = "class Swapped is stored with other members: noted with float y, float x, "
                       "described here with float x";
    THROWS(Exception, what, e.load("s", loaded));
    THROWS(Exception, what, e.load(prefetcher, "s", loaded));
    THROWS(Exception, what, store.loadProduct(id, loaded));
    THROWS(Exception, what, *store.makePtr<Swapped>(id));
    for (const Event &each : prefetcher(e.subrun())) {
        THROWS(Exception, what, each.load(prefetcher, "s", loaded));
    }
    // the note of a type in another store is not used for this one
    DataStore other = DataStore::connect("na+sm", "memory:");
    Event there = other.root().createDataSet("d").createRun(1).createSubRun(2).createEvent(3);
    there.store("s", Swapped{1, 2});
    CHECK(there.load("s", loaded) && loaded.y == 2);
}

/// The output to standard error of a function.
template <typename F>
static std::string said(F &&f) {
    std::ostringstream text;
    std::streambuf *before = std::cerr.rdbuf(text.rdbuf());
    f();
    std::cerr.rdbuf(before);
    return text.str();
}

static std::size_t n_lines(const std::string &text) { return std::count(text.begin(), text.end(), '\n'); }

/// Programs that were written for HEPnOS describe nothing, but must continue to work.
static void structs_that_only_the_store_knows_are_told_once() {
    Event e = event("undescribed");
    const fb_descriptor place = detail::Access::container(e.store("p", Point{1, 2}));
    const ProductID strip = detail::Access::product_id(place, "s#Strip");
    const auto &first = detail::Access::store_of(store)->store;
    first.note(
        "type/Strip",
        R"({"type":"Strip","members":[{"name":"q","type":"float"},{"name":"n","type":"std::int32_t"}]})");
    first.note("type/Narrow", R"({"type":"Narrow","members":[{"name":"charge","type":"double"}]})");
    first.note("type/Remark", R"({"type":"Remark","members":[{"name":"text","type":"std::string"}]})");
    first.store(place, "s#Strip", fb::Codec<Strip>::encode({1, 2}));
    first.store(place, "n#Narrow", fb::Codec<Narrow>::encode({1}));
    const std::string once = said([&] {
        for (int i = 0; i < 3; ++i) {
            Strip loaded{};
            CHECK(e.load("s", loaded) && loaded.charge == 2);
            CHECK(store.loadProduct(strip, loaded) && e.store("s", loaded));
            CHECK(e.store("v", std::vector<Strip>{loaded}));
        }
    });
    CHECK(n_lines(once) == 1 &&
          once.find("Strip is not described, but the store has it as float q, std::int32_t n") != once.npos);
    CHECK(once.find("FB_DESCRIBE(Strip, q, n)") != once.npos);
    const std::string boost = said([&] { e.store("t", Remark{"good"}); });
    CHECK(n_lines(boost) == 1 && boost.find("stores it by Boost") != boost.npos);
    Narrow narrow{};
    const char *what = "class Narrow is not described, but the store has it as double charge";
    THROWS(Exception, what, e.load("n", narrow));
    THROWS(Exception, what, e.store("n", narrow));
    THROWS(Exception, what, e.store("n", std::vector<Narrow>{narrow}));
    CHECK(said([&] { e.store("s", Strip{}); }).empty());
}

static void every_container_has_products_of_its_own() {
    DataSet dataset = store.root().createDataSet("levels");
    Run run = dataset.createRun(1);
    SubRun subrun = run.createSubRun(1);
    Event e = subrun.createEvent(1);
    dataset.store("x", 1);
    run.store("x", 2);
    subrun.store("x", 3);
    e.store("x", 4);
    int d = 0, r = 0, s = 0, x = 0;
    CHECK(dataset.load("x", d) && run.load("x", r) && subrun.load("x", s) && e.load("x", x));
    CHECK(d == 1 && r == 2 && s == 3 && x == 4);
    e.store("xy", 5);
    const ProductID id = e.store("y", Point{});
    CHECK(e.listProducts().size() == 3 && e.listProducts("x").size() == 1 && e.listProducts("z").empty());
    CHECK(e.listProducts("y")[0] == id && dataset.listProducts().size() == 1);
    UUID uuid;
    EventNumber number = 0;
    std::string label, type;
    CHECK(id.unpackInformation(&uuid, nullptr, nullptr, &number, &label, &type));
    CHECK(uuid == dataset.uuid() && number == 1 && label == "y" && type == "Point");
    CHECK(ProductID::from<Point>("y", uuid, 1, 1, 1) == id && id && !ProductID() && ProductID() != id);
    CHECK(id.toJSON() ==
          "{\"dataset_id\": \"" + uuid.to_string() +
              "\", \"run\":1, \"subrun\":1, \"event\":1, \"label\": \"y\", \"type\": \"Point\"}");
    CHECK(ProductID().toJSON() == "null");
    LoadStatistics loading;
    StoreStatistics storing;
    CHECK(e.store("x", 7, &storing) && e.load("x", x, &loading));
    CHECK(storing.raw_storage_time.num == 1 && loading.deserialization_time.num == 1);
}

static void references_are_stored_and_followed() {
    Event e = event("ptr");
    const ProductID one = e.store("t", Track("muon", {1}));
    const ProductID many = e.store("t", std::vector<Track>{Track("a", {}), Track("b", {})});
    const ProductID map = e.store("t", std::map<std::string, Track>{{"c", Track("d", {})}});
    const auto to_one = store.makePtr<Track>(one);
    e.store("to", to_one);
    e.store("to", std::vector<Ptr<Track>>{store.makePtr<Track>(many, 1), store.makePtr<Track>(many, 2)});
    Ptr<Track> loaded;
    std::vector<Ptr<Track>> both;
    CHECK(e.load("to", loaded) && loaded.valid() && loaded == to_one && loaded->name == "muon");
    CHECK(e.load("to", both) && both[0]->name == "b" && (*both[0]).name == "b");
    THROWS(Exception, "element 2 of 2", *both[1]);
    const auto copy = both[0];
    both[0].reset();
    CHECK(!both[0].valid() && copy.valid() && copy != both[1]);
    std::map<std::string, Track> all;
    CHECK(store.loadProduct(map, all) && all["c"].name == "d");
    THROWS(Exception, "does not exist", *store.makePtr<int>(ProductID::from<int>("t", UUID(), 1, 2, 3)));
    THROWS(Exception, "expected 4 bytes", *store.makePtr<int>(one));
    THROWS(Exception, "does not exist", *Ptr<int>());
}

static void batches_are_seen_when_they_are_flushed() {
    DataSet dataset = store.root().createDataSet("batches");
    for (const std::size_t threads : {0, 2}) {
        AsyncEngine async(store, threads);
        for (int kind = 0; kind < 2; ++kind) {
            WriteBatch batch = kind ? WriteBatch(async, 16) : WriteBatch(store, 16);
            batch.activateStatistics();
            const RunNumber number = 2 * threads + kind;
            SubRun subrun = dataset.createRun(batch, number).createSubRun(batch, 0);
            for (unsigned i = 0; i < 50; ++i) {
                Event e = subrun.createEvent(batch, i);
                CHECK(e.store(batch, "n", i));
                e.store(batch, "v", std::vector<Track>{Track("x", {1.0 * i})});
            }
            batch.flush();
            WriteBatchStatistics stats;
            batch.collectStatistics(stats);
            CHECK(stats.key_sizes.num == 152 && stats.value_sizes.num == 100);
            CHECK(in_folder ? stats.batch_sizes.num == 1 : stats.batch_sizes.num >= 9);
            std::ostringstream text;
            text << stats;
            CHECK(text.str().find("\"num\" : 152") != std::string::npos);
            unsigned n = 0;
            for (auto &e : dataset[number][0]) {
                unsigned i = 0;
                std::vector<Track> tracks;
                CHECK(e.load("n", i) && i == n++ && e.load("v", tracks) && tracks[0].hits[0] == i);
            }
            CHECK(n == 50);
        }
    }
    WriteBatch none;
    CHECK(!none.valid());
    CHECK(dataset.createRun(none, 99).store(none, "n", 1) && dataset[99].valid()); // without a batch
    none.flush();
    THROWS(Exception, "not valid", none.activateStatistics());
}

// A label that is too long is an error, which an engine reports by errors().
static void errors_are_read_while_others_add_to_them(DataSet dataset) {
    AsyncEngine async(store, 1);
    const auto &before = async.errors();
    Run run = dataset.createRun(7);
    const std::string label(2000, 'l');
    std::thread other([&] {
        for (unsigned i = 0; i < 3000; ++i) {
            run.store(async, label, i);
        }
    });
    std::size_t n = 0;
    while (n < 3000) {
        std::size_t found = 0;
        for (auto &error : async.errors()) {
            found += error.find("more than") != std::string::npos;
        }
        CHECK(found >= n);
        n = found;
    }
    other.join();
    CHECK(before.empty());
}

static void engines_write_in_the_background() {
    DataSet dataset = store.root().createDataSet("engines");
    for (const std::size_t threads : {0, 1, 3}) {
        AsyncEngine async(store, threads);
        CHECK(async.getXstreamRanks().size() == threads && async.valid());
        SubRun subrun = dataset.createRun(async, threads).createSubRun(async, 0);
        for (unsigned i = 0; i < 3000; ++i) {
            subrun.createEvent(async, i).store(async, "n", i);
        }
        async.wait();
        CHECK(async.errors().empty());
        unsigned n = 0, i = 0;
        for (auto &e : dataset[threads][0]) {
            n += e.load(async, "n", i) && i == e.number();
        }
        CHECK(n == 3000);
    }
    errors_are_read_while_others_add_to_them(dataset);
    AsyncEngine none;
    none.wait();
    CHECK(!none.valid() && none.errors().empty() && dataset.createRun(none, 77).valid() &&
          dataset[77].valid());
    THROWS(Exception, "not valid", WriteBatch{none});
}

static void queues_have_a_type() {
    store.createQueue<Track>("tracks");
    THROWS(Exception, "already", store.createQueue<Track>("tracks"));
    THROWS(Exception, "no queue", store.openQueue<Point>("tracks", QueueAccessMode::CONSUMER));
    Queue to = store.openQueue<Track>("tracks", QueueAccessMode::PRODUCER);
    Queue from = store.openQueue<Track>("tracks", QueueAccessMode::CONSUMER);
    CHECK(to.empty() && to.valid() && to.datastore().valid() && !Queue().valid());
    to.push(Track("a", {1}));
    to.push(Track("b", {}));
    THROWS(Exception, "other values", to.push(std::string("c")));
    THROWS(Exception, "not open for pushing", from.push(Track()));
    to.close();
    Track track;
    CHECK(from.pop(track) && track.name == "a" && from.pop(track) && track.name == "b" && !from.pop(track));
    store.destroyQueue<Track>("tracks");
    THROWS(Exception, "no queue", store.destroyQueue<Track>("tracks"));
    THROWS(Exception, "not open", Queue().close());
}

static void statistics_are_those_of_all_numbers() {
    Statistics<double> all, first, second;
    for (const double x : {1.0, 2.0, 4.0, 9.0}) {
        all.updateWith(x);
        (x < 3 ? first : second).updateWith(x);
    }
    first.updateWith(second);
    for (const auto &stats : {all, first}) {
        CHECK(stats.num == 4 && stats.min == 1 && stats.max == 9 && std::abs(stats.avg - 4) < 1e-12);
        CHECK(std::abs(stats.var - 9.5) < 1e-12);
    }
    std::ostringstream text;
    text << first;
    CHECK(text.str() == "{ \"num\" : 4, \"max\" : 9, \"min\" : 1, \"avg\" : 4, \"var\" : 9.5 }");
}

static void archives_know_the_store() {
    std::string text;
    OutputStringWrapper to(text);
    OutputStream out(to);
    OutputArchive oa(out);
    oa << store.makePtr<int>(event("archive").store("n", 5)) << UUID::fromStringHash("a");
    InputStringWrapper from(text.data(), text.size());
    InputStream in(from);
    InputArchive ia(store, in);
    Ptr<int> ptr;
    UUID uuid;
    ia >> ptr >> uuid;
    CHECK(*ptr == 5 && ia.datastore().valid() && uuid == UUID::fromStringHash("a"));
    CHECK(demangle<std::vector<Point>>() == "std::vector<Point>" && demangle(1) == "std::int32_t");
}

int main(int, char **argv) {
    store = DataStore::connect("na+sm", argv[1]);
    in_folder = std::string(argv[1]).compare(0, 4, "dir:") == 0;
    return run(
        {{"plain data are stored as bytes", plain_data_are_stored_as_bytes},
         {"all else goes through Boost", all_else_goes_through_boost},
         {"the short way writes what Boost does", the_short_way_writes_what_boost_does},
         {"overwriting replaces, and absence is no error", overwriting_replaces_and_absence_is_no_error},
         {"damaged products are errors", damaged_products_are_errors},
         {"structs that the store knows otherwise are told", structs_that_the_store_knows_otherwise_are_told},
         {"structs that only the store knows are told once", structs_that_only_the_store_knows_are_told_once},
         {"every container has products of its own", every_container_has_products_of_its_own},
         {"references are stored and followed", references_are_stored_and_followed},
         {"batches are seen when they are flushed", batches_are_seen_when_they_are_flushed},
         {"engines write in the background", engines_write_in_the_background},
         {"queues have a type", queues_have_a_type},
         {"statistics are those of all numbers", statistics_are_those_of_all_numbers},
         {"archives know the store", archives_know_the_store}});
}
