// The event store in C++: describe a struct, write events in a batch, and read them back in chunks.
//
//     c++ -std=c++17 01_events_and_products.cpp $(pkg-config --cflags --libs femtobarn) -o events && ./events
//     [URL]
#include <femtobarn.hpp>

#include <iostream>

struct Hit {
    float x, y, z;
    std::int32_t plane;
};
FB_DESCRIBE(Hit, x, y, z, plane)

static void write(const fb::Store &store, const fb::DataSet &nova) {
    fb::WriteBatch batch(store);
    const fb::Container subrun = nova.create(43).create(56);
    for (std::uint64_t number = 0; number < 1000; ++number) {
        const fb::Container event = batch.create(subrun, number);
        batch.store(event, "hits", std::vector<Hit>(number % 5, Hit{1, 2, 3, 4}));
    }
    batch.flush();
}

int main(int argc, char **argv) {
    const fb::Store store = fb::Store::connect(argc > 1 ? argv[1] : "memory:");
    const fb::DataSet nova = store.create_dataset("fermilab/nova");
    write(store, nova);

    // one event
    const fb::Container event = nova[43][56][14];
    const auto hits = event.load<std::vector<Hit>>("hits");
    std::cout << "event " << event.number() << " has " << hits.value().size() << " hits, stored as "
              << event.products().at(0) << '\n';

    // all events with their hits, prefetched
    std::size_t n_hits = 0;
    fb::Loader loader(store, nova.descriptor(), {fb::product_name<std::vector<Hit>>("hits")});
    while (const auto piece = loader.next()) {
        std::vector<Hit> some;
        for (std::size_t i = 0; i < piece->size(); ++i) {
            n_hits += piece->load(0, i, some) ? some.size() : 0;
        }
    }
    std::cout << n_hits << " hits in all events\n"
              << "description in type/Hit: " << store.noted("type/Hit").value() << '\n';

    // errors say what the store has instead
    try {
        nova[44];
    } catch (const fb::Error &error) {
        std::cout << error.kind() << ": " << error.what() << '\n';
    }
}
