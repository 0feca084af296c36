// femtobarn.hpp: references to products. With a second argument, half of a test with tests/cpp/references.py:
// "follow" reads what Python has stored, "store" stores what Python is to read.
#include "check.hpp"

#include <femtobarn.hpp>

struct Track {
    double pt;
    std::int64_t n;
};
FB_DESCRIBE(Track, pt, n)

static std::string url;

static fb::Container event_of(const fb::Store &store, const char *dataset) {
    return store.create_dataset(dataset).create(43).create(56).create(fb::ABSENT - 1);
}

static void references_are_stored_and_followed() {
    const fb::Store store = fb::Store::connect(url);
    const fb::Container event = event_of(store, "references");
    event.store("tracks", std::vector<Track>{{1.5, 2}, {2.5, 3}});
    event.store("n", 42);
    const auto whole = fb::Ptr::to<std::vector<Track>>(event, "tracks");
    const auto one = fb::Ptr::to<std::vector<Track>>(event, "tracks", 1);
    const auto n = fb::Ptr::to<int>(event, "n");
    const fb::Ptr nothing;
    event.store("one", one);
    event.store("many", std::vector<fb::Ptr>{whole, one, nothing, n});
    event.store("none", std::vector<fb::Ptr>());
    CHECK(event.load<fb::Ptr>("one") == one);
    const auto many = event.load<std::vector<fb::Ptr>>("many").value();
    CHECK((many == std::vector<fb::Ptr>{whole, one, nothing, n}));
    CHECK(event.load<std::vector<fb::Ptr>>("none").value().empty());
    CHECK(many[0].load<std::vector<Track>>(store).size() == 2);
    CHECK(many[1].load<Track>(store).pt == 2.5);
    CHECK(many[3].load<int>(store) == 42);
    CHECK(one && !nothing && one != whole && nothing == fb::Ptr());
    CHECK(event.products().size() == 5);
    CHECK(store.noted("type/fb::Ptr").value().find("\"std::array<std::uint8_t,16>\"") != std::string::npos);
}

static void references_that_dangle_are_told() {
    const fb::Store store = fb::Store::connect(url);
    const fb::Container event = event_of(store, "dangling");
    event.store("v", std::vector<double>{1});
    double value = 0;
    CHECK(!fb::Ptr::to<std::vector<double>>(event, "v", 1).load(store, value));
    CHECK(!fb::Ptr::to<double>(event, "w").load(store, value));
    CHECK(!fb::Ptr().load(store, value));
    THROWS(fb::Error, "run 43, subrun 56",
           fb::Ptr::to<std::vector<double>>(event, "v", 1).load<double>(store));
    THROWS(fb::Error, "refers to nothing", fb::Ptr().load<double>(store));
    THROWS(fb::Error, "not a reference to a float", fb::Ptr::to<double>(event, "w").load<float>(store));
    const std::string name = fb::product_name<fb::Ptr>("bad");
    store.store(event.descriptor(), name, std::string(60, '\xff'));
    THROWS(fb::Error, "product is not a valid fb::Ptr", event.load<fb::Ptr>("bad"));
    store.store(event.descriptor(), name, fb::Codec<fb::Ptr>::encode(fb::Ptr()) + "x");
    THROWS(fb::Error, "product is not a valid fb::Ptr", event.load<fb::Ptr>("bad"));
    const std::string names = fb::product_name<std::vector<fb::Ptr>>("bad");
    store.store(event.descriptor(), names, std::string(30, '\xff'));
    THROWS(fb::Error, "product is not a valid fb::Ptr", event.load<std::vector<fb::Ptr>>("bad"));
}

static void what_python_stored_is_followed() {
    const fb::Store store = fb::Store::connect(url);
    const fb::Container event = store.dataset("python")[43][56][fb::ABSENT - 1];
    const auto one = event.load<fb::Ptr>("one").value();
    CHECK(one == fb::Ptr::to<std::vector<Track>>(event, "tracks", 1));
    CHECK(one.load<Track>(store).n == 3);
    const auto many = event.load<std::vector<fb::Ptr>>("many").value();
    CHECK(many.size() == 4 && many[0].load<std::vector<Track>>(store)[0].pt == 1.5 && !many[2]);
    CHECK(many[3].load<std::string>(store) == "of the dataset");
    event.store("again", many); // the store's note of references is the same for both
}

static void what_python_is_to_follow_is_stored() {
    const fb::Store store = fb::Store::connect(url);
    const fb::DataSet dataset = store.create_dataset("c++");
    const fb::Container event = event_of(store, "c++");
    event.store("tracks", std::vector<Track>{{1.5, 2}, {2.5, 3}});
    dataset.store("text", std::string("of the dataset"));
    const auto one = fb::Ptr::to<std::vector<Track>>(event, "tracks", 1);
    event.store("one", one);
    event.store("many", std::vector<fb::Ptr>{fb::Ptr::to<std::vector<Track>>(event, "tracks"), one, fb::Ptr(),
                                             fb::Ptr::to<std::string>(dataset, "text")});
}

int main(int argc, char **argv) {
    url = argv[1];
    const std::string part = argc > 2 ? argv[2] : "";
    if (part == "follow") {
        return run({{"what Python stored is followed", what_python_stored_is_followed}});
    }
    if (part == "store") {
        return run({{"what Python is to follow is stored", what_python_is_to_follow_is_stored}});
    }
    return run({{"references are stored and followed", references_are_stored_and_followed},
                {"references that dangle are told", references_that_dangle_are_told}});
}
