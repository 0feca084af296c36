// Writes an ntuple from structs, by two threads that fill clusters of their own, and reads it back.
//
//   04_write [FILE]
#include <femtobarn.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

struct Muon {
    float pt, eta;
    std::int32_t charge;
};
FB_DESCRIBE(Muon, pt, eta, charge)

struct Header {
    std::uint32_t run = 0;
    std::uint64_t event = 0;
};

struct Event : Header {
    std::vector<Muon> muons;
    float met = 0;
};

static void fill(fb::FillContext &context, std::uint32_t run, std::uint64_t n) {
    Event event;
    event.run = run;
    for (event.event = 0; event.event < n; ++event.event) {
        event.muons.assign(event.event % 3, Muon{20.f + static_cast<float>(event.event), 0.5f, 1});
        event.met = static_cast<float>(event.event) / 2;
        context.fill(&event);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "events.root";
    try {
        // `Event` is named for each member: `&Event::run` alone belongs to Header
        fb::NTupleWriter writer(path, "Events",
                                {fb::member<Event>("run", &Event::run), fb::member<Event>("event", &Event::event),
                                 fb::member<Event>("Muon", &Event::muons), fb::member<Event>("MET", &Event::met)},
                                R"({"compression": "zstd:5"})");
        std::vector<std::optional<fb::Staged>> staged(2);
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < staged.size(); ++i) {
            threads.emplace_back([&writer, &staged, i] {
                fb::FillContext context = writer.context();
                fill(context, static_cast<std::uint32_t>(i) + 1, 1000);
                staged[i] = context.stage();
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        for (auto &one : staged) { // the order of the clusters does not depend on the threads
            writer.commit(std::move(*one));
        }
        writer.finish();

        double sum = 0;
        const fb::NTuple events = fb::NTuple::open(path, "Events");
        for (const fb::Batch &batch : events.batches({"run", "Muon"})) {
            const auto run = batch.values<std::uint32_t>("run");
            const fb::Column muons = batch.column("Muon");
            const auto offsets = muons.offsets();
            const auto pt = muons.item().member("pt").values<const float>();
            for (std::size_t i = 0; i < batch.size(); ++i) {
                for (std::int64_t k = offsets[i]; run[i] == 2 && k < offsets[i + 1]; ++k) {
                    sum += static_cast<double>(pt[static_cast<std::size_t>(k)]);
                }
            }
        }
        std::printf("%llu events, sum of pt in run 2: %.1f\n", static_cast<unsigned long long>(events.num_entries()), sum);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
