// femtobarn.hpp: datasets, items, batches, loaders, queues, errors.
#include "check.hpp"

#include <femtobarn.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

struct Jet {
    float pt, phi, eta, btag;
};
FB_DESCRIBE(Jet, pt, phi, eta, btag)

struct Tower {
    float energy;
    std::int32_t n_cells;
};
FB_DESCRIBE(Tower, energy, n_cells)

struct Cluster {
    Tower seed;
    float energy;
};
FB_DESCRIBE(Cluster, seed, energy)

struct Muon {
    float pt, charge;
};
FB_DESCRIBE(Muon, pt, charge)

/// Only described by other programs.
struct Strip {
    std::int32_t n;
    float charge;
};

static_assert(fb::is_plain<Jet> && fb::is_plain<std::array<float, 3>>, "they are stored as their bytes");
static_assert(!fb::is_plain<int *> && !fb::is_plain<int *[2]> && !fb::is_plain<std::array<const char *, 2>> &&
                  fb::detail::holds_pointers<std::vector<std::pair<int, std::tuple<Jet *>>>>,
              "pointers are invalid in another process");

static std::string url;

static fb::Store connect() { return fb::Store::connect(url); }

static void fill(const fb::Store &store, const fb::DataSet &dataset) {
    fb::WriteBatch batch(store);
    for (std::uint64_t run = 1; run <= 2; ++run) {
        for (std::uint64_t subrun = 1; subrun <= 3; ++subrun) {
            const fb::Container holder = batch.create(batch.create(dataset, run), subrun);
            for (std::uint64_t event = 0; event < 100; ++event) {
                const fb::Container item = batch.create(holder, 2 * event);
                batch.store(item, "number", 2 * event);
            }
        }
    }
    CHECK(batch.size() > 0);
    batch.flush();
    CHECK(batch.size() == 0);
}

static void datasets_are_nested() {
    const fb::Store store = connect();
    const fb::DataSet a = store.create_dataset("nested/a");
    a.create_dataset("b");
    a.create_dataset("c");
    CHECK(store.dataset("nested/a") == a);
    const auto inner = a.datasets();
    CHECK(inner.size() == 2 && inner[0].path() == "nested/a/b" && inner[1].path() == "nested/a/c");
    CHECK(store.root().datasets().size() >= 1);
    THROWS(fb::Error, "has b, c", store.dataset("nested/a/d"));
    THROWS(fb::Error, "", store.root().create(1));
    inner[0].remove();
    CHECK(a.datasets().size() == 1);
}

/// Regression: an object of a deleted dataset created its name again, and deleted the next dataset of that
/// name.
static void a_dataset_that_was_deleted_is_none() {
    const fb::Store store = connect();
    const fb::DataSet gone = store.create_dataset("deleted/a");
    const fb::Container run = gone.create(1);
    CHECK(gone.exists());
    store.dataset("deleted/a").remove();
    const char *what = "there is no dataset \"deleted/a\" any more";
    CHECK(!gone.exists());
    THROWS(fb::Error, what, gone.create_dataset("b"));
    THROWS(fb::Error, what, gone.remove());
    THROWS(fb::Error, what, gone.create(2));
    THROWS(fb::Error, what, run.store("n", 1));
    THROWS(fb::Error, "no dataset", store.dataset("deleted/a"));
    const fb::DataSet next = store.create_dataset("deleted/a");
    CHECK(!gone.exists() && next.exists() && next != gone);
    THROWS(fb::Error, what, gone.create_dataset("b"));
    THROWS(fb::Error, what, gone.remove());
    CHECK(next.exists() && next.datasets().empty());
    CHECK(store.root().exists() && next.create_dataset("b/c").path() == "deleted/a/b/c");
    CHECK(store.dataset("deleted/a/b/c").exists());
}

/// Regression: a dataset that another program had deleted had no runs and no events.
static void a_dataset_that_others_deleted_is_not_empty_but_gone() {
    const fb::Store store = fb::Store::connect("memory:gone"), other = fb::Store::connect("memory:gone");
    const fb::DataSet dataset = store.create_dataset("a");
    dataset.create(1).create(2).create(3);
    CHECK(dataset.events().next() && dataset.begin() != dataset.end());
    other.dataset("a").remove();
    const char *what = "there is no dataset \"a\" any more";
    THROWS(fb::Error, what, dataset.events());
    THROWS(fb::Error, what, dataset.children(1));
    THROWS(fb::Error, what, for (const fb::Container &run : dataset) { run.exists(); });
    THROWS(fb::Error, what, dataset.datasets());
    CHECK(store.root().datasets().empty());
}

/// Regression: a loader, which does not know the name, found no events in a dataset that another program had
/// deleted; nor did its runs.
static void a_deleted_dataset_has_not_just_no_events() {
    const fb::Store store = fb::Store::connect("memory:loader"), other = fb::Store::connect("memory:loader");
    const fb::DataSet empty = store.create_dataset("a/empty"), dataset = store.create_dataset("a/b");
    const fb::Container run = dataset.create(1);
    run.create(2).create(3).store("n", 1);
    const std::vector<std::string> names{fb::product_name<int>("n")};
    fb::Loader begun(store, dataset.descriptor(), names);
    CHECK(begun.next() && !begun.next());
    CHECK(!fb::Loader(store, empty.descriptor(), names).next() && !empty.events().next());
    CHECK(run.n_events() == 1 && empty.n_events() == 0 && empty.event_products().empty());
    other.dataset("a/b").remove();
    for (const std::size_t ahead : {0, 2}) {
        fb::LoadOptions options;
        options.ahead = ahead;
        fb::Loader loader(store, dataset.descriptor(), names, options);
        THROWS(fb::Error, "it was deleted after this object was made", loader.next());
    }
    THROWS(fb::Error, "it was deleted", run.events().next());
    THROWS(fb::Error, "it was deleted", run.n_events());
    THROWS(fb::Error, "it was deleted", run.event_products());
    THROWS(fb::Error, "it was deleted", dataset.n_events());
    THROWS(fb::Error, "it was deleted", dataset.event_products());
    CHECK(!fb::Loader(store, empty.descriptor(), names).next());
}

/// Regression: a dataset that was removed as an Item was empty, but its name was left.
static void a_dataset_is_removed_with_its_name() {
    const fb::Store store = connect();
    const fb::DataSet dataset = store.create_dataset("as-item");
    dataset.create(1);
    const fb::Container &item = dataset;
    THROWS(fb::Error, "a dataset has a name", item.remove());
    CHECK(dataset.exists() && dataset.find(1));
    dataset.remove();
    CHECK(!dataset.exists());
}

static void products_of_events_are_counted() {
    const fb::DataSet dataset = connect().create_dataset("counted");
    for (const std::uint64_t run : {1, 2}) {
        const fb::Container subrun = dataset.create(run).create(1);
        for (std::uint64_t number = 0; number < 3; ++number) {
            subrun.create(number).store("n", 1);
        }
        subrun[0].store("w", 0.5);
        subrun.store("n", 1);
    }
    dataset[2][1].create(7);
    CHECK(dataset.n_events() == 7 && dataset[1].n_events() == 3 && dataset[2][1].n_events() == 4);
    using Counts = std::map<std::string, std::uint64_t>;
    CHECK((dataset.event_products() == Counts{{"n#std::int32_t", 6}, {"w#double", 2}}));
    CHECK((dataset[1][1].event_products() == Counts{{"n#std::int32_t", 3}, {"w#double", 1}}));
    THROWS(fb::Error, "an event has no events", dataset[1][1][0].event_products());
}

static void items_are_made_found_and_removed() {
    const fb::DataSet dataset = connect().create_dataset("items");
    const fb::Container event = dataset.create(43).create(56).create(25);
    CHECK(event.type() == fb::ItemType::event && event.number() == 25);
    CHECK(event.descriptor().run() == 43 && event.descriptor().subrun() == 56);
    CHECK(dataset[43][56][25] == event);
    CHECK(event.exists() && !dataset.find(44) && dataset.find(43));
    THROWS(fb::Error, "no run 44", dataset[44]);
    THROWS(fb::Error, "event holds no", event.create(1));
    for (std::uint64_t run : {7, 5, 100}) {
        dataset.create(run);
    }
    std::vector<std::uint64_t> numbers;
    for (const fb::Container &run : dataset) {
        numbers.push_back(run.number());
    }
    CHECK((numbers == std::vector<std::uint64_t>{5, 7, 43, 100}));
    const auto some = dataset.children(6, 100);
    CHECK(std::distance(some.begin(), some.end()) == 2);
    dataset[43].remove();
    CHECK(!event.exists() && !dataset.find(43));
}

static void products_come_back() {
    const fb::Container event = connect().create_dataset("products").create(1).create(2).create(3);
    event.store("n", 42);
    event.store("v", std::vector<double>{1, 2, 3});
    event.store("text", std::string("nova\0detector", 13));
    event.store("none", std::vector<int>());
    CHECK(event.load<int>("n") == 42);
    CHECK((event.load<std::vector<double>>("v") == std::vector<double>{1, 2, 3}));
    CHECK(event.load<std::string>("text") == std::string("nova\0detector", 13));
    CHECK(event.load<std::vector<int>>("none") == std::vector<int>());
    CHECK(!event.load<float>("n") && !event.load<int>("other"));
    CHECK(event.products().size() == 4);
    THROWS(fb::Error, "already", event.store("n", 43, fb::IfThere::keep));
    CHECK(event.load<int>("n") == 42);
    event.remove_product<int>("n");
    CHECK(!event.load<int>("n"));
}

static void a_product_of_an_event_is_loaded_by_its_numbers() {
    const fb::DataSet dataset = connect().create_dataset("numbers");
    dataset.create(1).create(2).create(3).store("n", 42);
    dataset.store("own", 7);
    int n = 0;
    CHECK(dataset.load(1, 2, 3, "n", n) && n == 42);
    CHECK(!dataset.load(1, 2, 3, "other", n) && n == 42);
    CHECK(dataset.load("own", n) && n == 7);
    THROWS(fb::Error, "no run 4", dataset.load(4, 2, 3, "n", n));
    THROWS(fb::Error, "no run 1, subrun 4", dataset.load(1, 4, 3, "n", n));
    THROWS(fb::Error, "no run 1, subrun 2, event 4", dataset.load(1, 2, 4, "n", n));
}

static void a_product_of_all_events_is_removed() {
    const fb::DataSet dataset = connect().create_dataset("cut");
    const auto refill = [&dataset] {
        for (const std::uint64_t run : {1, 2}) {
            const fb::Container subrun = dataset.create(run).create(1);
            for (std::uint64_t number = 0; number < 3; ++number) {
                const fb::Container event = subrun.create(number);
                event.store("cut", number);
                event.store("cut", 1.0f);
                event.store("n", 1);
            }
        }
    };
    refill();
    dataset[1].store("cut", 1);
    CHECK(dataset[1].remove_event_products<float>("cut") == 3);
    const fb::Container event = dataset[1][1][0];
    CHECK(!event.load<float>("cut") && event.load<std::uint64_t>("cut") && event.load<int>("n"));
    refill();
    CHECK(dataset.remove_event_products("cut") == 12 && event.products().size() == 1);
    CHECK(dataset[1].load<int>("cut") == 1);
    THROWS(fb::Error, "no product \"cut\" of an event of the dataset; they have n",
           dataset.remove_event_products("cut"));
    THROWS(fb::Error, "no product \"n#float\" of an event of run 1; they have n#std::int32_t",
           dataset[1].remove_event_products<float>("n"));
    THROWS(fb::Error, "an event has no events", event.remove_event_products("n"));
}

static void vectors_of_texts_and_of_vectors_come_back() {
    using Texts = std::vector<std::string>;
    using Numbers = std::vector<std::vector<float>>;
    const fb::Store store = connect();
    const fb::Container event = store.create_dataset("nested-values").create(1).create(2).create(3);
    const Texts texts{"a", "", std::string("b\0c", 3)};
    const Numbers numbers{{1.5f, 2.5f}, {}, {3.5f}};
    const std::vector<Texts> deep{{"x"}, {}, texts};
    event.store("texts", texts);
    event.store("numbers", numbers);
    event.store("deep", deep);
    event.store("none", Texts());
    CHECK(event.load<Texts>("texts") == texts && event.load<Texts>("none") == Texts());
    CHECK(event.load<Numbers>("numbers") == numbers);
    CHECK(event.load<std::vector<Texts>>("deep") == deep);
    using namespace std::string_literals;
    CHECK(fb::Codec<Texts>::encode({"ab"}) == "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0ab"s);
    const std::string name = fb::product_name<Texts>("texts");
    CHECK(name == "texts#std::vector<std::string>");
    for (const std::string &damaged : {""s, "\1\0\0\0\0\0\0\0"s, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0a"s,
                                       "\xff\xff\xff\xff\xff\xff\xff\xff"s, "\0\0\0\0\0\0\0\0x"s}) {
        store.store(event.descriptor(), name, damaged);
        THROWS(fb::Error, "bytes, found", event.load<Texts>("texts"));
    }
}

static void batches_take_nothing_of_another_store() {
    const fb::Store store = connect();
    const fb::Container run = fb::Store::connect("memory:").create_dataset("other").create(1);
    fb::WriteBatch batch(store);
    THROWS(fb::Error, "this batch writes to", batch.create(run, 2));
    THROWS(fb::Error, "this batch writes to", batch.store(run, "n", 1));
    CHECK(batch.size() == 0);
}

static void bytes_that_are_no_value_are_an_error() {
    const fb::Store store = connect();
    const fb::Container event = store.create_dataset("damaged").create(1).create(2).create(3);
    store.store(event.descriptor(), "v#std::vector<double>", "abc");
    THROWS(fb::Error, "expected 8 bytes, found 3", event.load<std::vector<double>>("v"));
    store.store(event.descriptor(), "v#std::vector<double>", "\xff\xff\xff\xff\xff\xff\xff\xff 8 bytes");
    THROWS(fb::Error, "is not a valid std::vector<double>", event.load<std::vector<double>>("v"));
    store.store(event.descriptor(), "n#std::int32_t", "");
    THROWS(fb::Error, "expected 4 bytes, found 0", event.load<int>("n"));
    THROWS(fb::Error, "label#type", store.store(event.descriptor(), "n", ""));
}

/// Stores a product and the note of its class, like another program.
static fb::Container stored_by_another(const fb::Store &store, const char *dataset, const char *name,
                                  const std::string &bytes, const char *type, const char *members) {
    store.note(std::string("type/") + type,
               std::string(R"({"type":")") + type + R"(","members":[)" + members + "]}");
    const fb::Container event = store.create_dataset(dataset).create(1).create(2).create(3);
    store.store(event.descriptor(), name, bytes);
    return event;
}

/// Regression: `fb ingest` had stored Jet{pt, eta, phi, btag}; a struct with phi before eta got the values of
/// one for the other, without an error.
static void structs_that_the_store_knows_otherwise_are_told() {
    const fb::Store store = connect();
    const std::string bytes = fb::Codec<std::vector<Jet>>::encode({{1, 2, 3, 4}});
    const fb::Container event =
        stored_by_another(store, "jets", "Jet#std::vector<Jet>", bytes, "Jet",
                          R"({"name":"pt","type":"float"},{"name":"eta","type":"float"},)"
                          R"({"name":"phi","type":"float"},{"name":"btag","type":"float"})");
    const char *what =
        "class Jet is stored with other members: noted with float pt, float eta, float phi, float btag, "
        "described here with float pt, float phi, float eta, float btag; use the members of the store";
    std::vector<Jet> jets;
    CHECK(!event.load("none", jets));
    for (int i = 0; i < 2; ++i) {
        THROWS(fb::Error, what, event.load("Jet", jets));
    }
    THROWS(fb::Error, what, fb::Ptr::to<std::vector<Jet>>(event, "Jet").load<std::vector<Jet>>(store));
    THROWS(fb::Error, what, fb::Ptr::to<std::vector<Jet>>(event, "Jet", 0).load<Jet>(store));
    fb::Loader loader(store, store.dataset("jets").descriptor(), {"Jet#std::vector<Jet>"});
    const auto piece = loader.next();
    THROWS(fb::Error, what, piece->load(0, 0, jets));
    THROWS(fb::Error, what, event.store("more", jets));
}

static void structs_within_others_and_of_other_sizes_are_told() {
    const fb::Store store = connect();
    const fb::Container event =
        stored_by_another(store, "clusters", "c#Cluster", std::string(sizeof(Cluster), '\0'), "Tower",
                          R"({"name":"n_cells","type":"std::int32_t"},{"name":"energy","type":"float"})");
    THROWS(fb::Error, "class Tower is stored with other members", event.load<Cluster>("c"));
    const fb::Container other =
        stored_by_another(store, "muons", "m#Muon", "four", "Muon", R"({"name":"pt","type":"float"})");
    THROWS(fb::Error, "class Muon is stored with other members: noted with float pt, d",
           other.load<Muon>("m"));
}

/// Regression: Python had noted Strip{charge, n}; n was loaded as charge, as the program did not describe it.
static void structs_that_only_the_store_knows_must_be_described() {
    const fb::Store store = fb::Store::connect("memory:strips");
    const fb::Container event = store.create_dataset("strips").create(1).create(2).create(3);
    const std::vector<Strip> strips{{1, 2}};
    event.store("mine", strips); // not noted yet
    CHECK(event.load<std::vector<Strip>>("mine")->size() == 1);
    const fb::Store other = fb::Store::connect("memory:strips");
    stored_by_another(other, "strips", "s#Strip", std::string(8, '\0'), "Strip",
                      R"({"name":"charge","type":"float"},{"name":"n","type":"std::int32_t"})");
    const char *what =
        "class Strip is not described, but the store has it as float charge, std::int32_t n: describe it "
        "outside of all namespaces, with its members in the order of the store, "
        "FB_DESCRIBE(Strip, charge, n)";
    const fb::Container again = other.dataset("strips")[1][2][3];
    for (int i = 0; i < 2; ++i) {
        THROWS(fb::Error, what, again.load<Strip>("s"));
    }
    THROWS(fb::Error, what, again.load<std::vector<Strip>>("mine"));
    THROWS(fb::Error, what, again.store("more", strips));
    THROWS(fb::Error, what, again.store("pair", std::array<Strip, 2>{}));
    fb::WriteBatch batch(other);
    THROWS(fb::Error, what, batch.store(again, "more", std::vector<std::vector<Strip>>{strips}));
    fb::Loader loader(other, other.dataset("strips").descriptor(), {"s#Strip"});
    const auto piece = loader.next();
    Strip strip{};
    THROWS(fb::Error, what, piece->load(0, 0, strip));
    other.store(again.descriptor(), "s#Strip", "four"); // another size
    THROWS(fb::Error, what, again.load<Strip>("s"));
    CHECK(!again.load<Strip>("none") && again.products().size() == 2);
}

/// Other programs may not have described the structs that they store.
static void structs_that_nobody_noted_are_loaded() {
    const fb::Store store = fb::Store::connect("memory:");
    const fb::Container event = store.create_dataset("d").create(1).create(2).create(3);
    store.store(event.descriptor(), "m#Muon", fb::Codec<Muon>::encode({1, -1}));
    CHECK(event.load<Muon>("m").value().charge == -1);
    store.store(event.descriptor(), "m#Muon", "four");
    THROWS(fb::Error, "expected 8 bytes, found 4", event.load<Muon>("m"));
}

static void events_come_in_order_and_with_products() {
    const fb::Store store = connect();
    const fb::DataSet dataset = store.create_dataset("events");
    fill(store, dataset);
    std::size_t n = 0;
    auto chunks = dataset.events();
    fb::Descriptor last = dataset.descriptor().child(0);
    while (const auto chunk = chunks.next()) {
        for (std::size_t i = 0; i < chunk->size(); ++i, ++n) {
            CHECK(last < (*chunk)[i]);
            last = (*chunk)[i];
        }
    }
    CHECK(n == 600);
    for (const std::size_t ahead : {0, 2}) {
        fb::LoadOptions options;
        options.n_events = 7;
        options.ahead = ahead;
        const fb::Descriptor after = dataset[1][1][100].descriptor();
        fb::Loader loader(store, dataset.descriptor(),
                          {fb::product_name<std::uint64_t>("number"), "absent#T"}, options, &after);
        n = 0;
        while (const auto piece = loader.next()) {
            for (std::size_t i = 0; i < piece->size(); ++i, ++n) {
                std::uint64_t number = 0;
                CHECK(piece->load(0, i, number) && number == (*piece)[i].event());
                CHECK(!piece->values(1)[i].data);
                float other = 0;
                THROWS(fb::Error, ", not float", piece->load(0, i, other));
            }
            std::uint64_t number = 0;
            THROWS(fb::Error, "no product 6 or no container 0; there are 2 products and ",
                   piece->load(6, 0, number));
            THROWS(fb::Error, "there are 2 products", piece->load(0, piece->size(), number));
        }
        CHECK(n == 600 - 51);
    }
}

static void batches_keep_what_is_there_and_say_so() {
    const fb::Store store = connect();
    const fb::Container run = store.create_dataset("kept").create(1);
    run.store("a", 1);
    fb::BatchOptions options;
    options.if_there = fb::IfThere::keep;
    options.threads = 2;
    fb::WriteBatch batch(store, options);
    batch.store(run, "a", 2);
    batch.store(run, "b", 2);
    batch.flush();
    const auto kept = batch.take_kept();
    CHECK(kept.size() == 1 && kept[0].second == "a#std::int32_t" && kept[0].first == run.descriptor());
    CHECK(run.load<int>("a") == 1 && run.load<int>("b") == 2);
}

static void queues_give_each_value_once_and_end() {
    const fb::Store store = connect();
    CHECK(fb::Queue::create(store, "q") && !fb::Queue::create(store, "q"));
    {
        fb::Queue to(store, "q", fb::QueueMode::producer);
        to.push("a");
        to.push("");
        CHECK(to.size() == 2);
    }
    fb::Queue from(store, "q", fb::QueueMode::consumer);
    CHECK(from.pop() == "a" && from.pop() == "" && !from.pop());
    THROWS(fb::Error, "not open for pushing", from.push("c"));
    CHECK(fb::Queue::destroy(store, "q") && !fb::Queue::destroy(store, "q"));
    THROWS(fb::Error, "no queue", fb::Queue(store, "q", fb::QueueMode::consumer));
}

/// Without the file that has the store ID.
static std::size_t n_files(const std::filesystem::path &folder) {
    std::size_t n = 0;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
        n += entry.is_regular_file() && entry.path().filename() != "femtobarn-store.json";
    }
    return n;
}

static void large_products_lie_beside_the_store() {
    char name[] = "/tmp/large-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    const std::filesystem::path folder(name);
    std::ofstream(folder / "config.json")
        << R"({"url": "dir:store", "objects": "large", "objects_over": "64kB"})";
    const std::vector<float> image(100000, 1.5f);
    {
        const fb::Store store = fb::Store::connect((folder / "config.json").string());
        const fb::DataSet dataset = store.create_dataset("large");
        fb::WriteBatch batch(store);
        const fb::Container subrun = batch.create(batch.create(dataset, 1), 1);
        for (std::uint64_t event = 0; event < 3; ++event) {
            const fb::Container item = batch.create(subrun, event);
            batch.store(item, "image", image);
            batch.store(item, "number", event);
        }
        batch.flush();
        CHECK(n_files(folder / "large") == 3);
    }
    // the store knows where its large products are
    const fb::Store store = fb::Store::connect("dir:" + (folder / "store").string());
    const fb::Container subrun = store.dataset("large")[1][1];
    for (std::uint64_t event = 0; event < 3; ++event) {
        CHECK(subrun[event].load<std::vector<float>>("image") == image);
        CHECK(subrun[event].load<std::uint64_t>("number") == event);
    }
    subrun[1].remove();
    CHECK(n_files(folder / "large") == 2);
    store.dataset("large").remove();
    CHECK(n_files(folder / "large") == 0);
    std::filesystem::remove_all(folder);
}

static void stores_are_opened_as_they_are_wanted() {
    char name[] = "/tmp/modes-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    const std::filesystem::path folder(name);
    const std::string place = "dir:" + (folder / "store").string(),
                      config = (folder / "config.json").string();
    std::ofstream(config) << R"({"url": "dir:store"})";
    for (const std::string &absent : {place, config, std::string("memory:nowhere")}) {
        THROWS(fb::Error, "no event store", fb::Store::connect(absent, fb::Mode::update));
    }
    THROWS(fb::Error, "", fb::Store::connect(place, fb::Mode::read));
    CHECK(!std::filesystem::exists(folder / "store"));
    fb::Store::connect(place).create_dataset("a");
    for (const std::string &there : {place, config}) {
        fb::Store::connect(there, fb::Mode::update).create_dataset("b");
        const fb::Store read = fb::Store::connect(there, fb::Mode::read);
        CHECK(read.dataset("b").exists());
        THROWS(fb::Error, "opened for reading", read.create_dataset("c"));
        THROWS(fb::Error, "opened for reading", read.dataset("b").remove_event_products("n"));
    }
    std::filesystem::remove_all(folder);
}

static void stores_say_what_is_wrong() {
    THROWS(fb::Error, "not an event store", fb::Store::connect("ftp://somewhere"));
    const fb::Store store = connect();
    CHECK(store.n_targets() == 1 && store.target(store.root().descriptor()) == 0);
    CHECK(store == fb::Store(store) && store != fb::Store());
    CHECK(store.is_durable() == (url.rfind("dir:", 0) == 0) && !fb::Store().is_durable());
    store.flush();
    CHECK(!fb::Store());
}

int main(int, char **argv) {
    url = argv[1];
    return run({{"datasets are nested", datasets_are_nested},
                {"a dataset that was deleted is none", a_dataset_that_was_deleted_is_none},
                {"a dataset that others deleted is not empty but gone",
                 a_dataset_that_others_deleted_is_not_empty_but_gone},
                {"a deleted dataset has not just no events", a_deleted_dataset_has_not_just_no_events},
                {"a dataset is removed with its name", a_dataset_is_removed_with_its_name},
                {"products of events are counted", products_of_events_are_counted},
                {"items are made, found and removed", items_are_made_found_and_removed},
                {"products come back", products_come_back},
                {"a product of an event is loaded by its numbers", a_product_of_an_event_is_loaded_by_its_numbers},
                {"a product of all events is removed", a_product_of_all_events_is_removed},
                {"vectors of texts and of vectors come back", vectors_of_texts_and_of_vectors_come_back},
                {"batches take nothing of another store", batches_take_nothing_of_another_store},
                {"bytes that are no value are an error", bytes_that_are_no_value_are_an_error},
                {"events come in order and with products", events_come_in_order_and_with_products},
                {"structs that the store knows otherwise are told",
                 structs_that_the_store_knows_otherwise_are_told},
                {"structs within others, and of other sizes, are told",
                 structs_within_others_and_of_other_sizes_are_told},
                {"structs that only the store knows must be described",
                 structs_that_only_the_store_knows_must_be_described},
                {"structs that nobody noted are loaded", structs_that_nobody_noted_are_loaded},
                {"batches keep what is there and say so", batches_keep_what_is_there_and_say_so},
                {"queues give each value once and end", queues_give_each_value_once_and_end},
                {"large products lie beside the store", large_products_lie_beside_the_store},
                {"stores are opened as they are wanted", stores_are_opened_as_they_are_wanted},
                {"stores say what is wrong", stores_say_what_is_wrong}});
}
