// femtobarn.hpp: ntuples: metadata, batches, typed columns, lookup of entries, errors.
#include "check.hpp"

#include <femtobarn.hpp>

#include <cmath>
#include <thread>

static std::string folder;

static std::string dimuon() { return folder + "/dimuon.root"; }

static void metadata_is_that_of_the_file() {
    const fb::NTuple events = fb::NTuple::open(dimuon(), "Events");
    CHECK(events.name() == "Events");
    CHECK(events.num_entries() == 12000);
    const auto files = events.files();
    CHECK(files.size() == 1 && files[0].second.first_entry == 0 && files[0].second.num_entries == 12000);
    std::uint64_t next = 0;
    for (const fb::Range &cluster : events.clusters()) {
        CHECK(cluster.first_entry == next);
        next += cluster.num_entries;
    }
    CHECK(next == 12000);
    std::size_t n_found = 0;
    const auto fields = events.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        CHECK(fields[i].parent == FB_NO_FIELD || fields[i].parent < i);
        if (fields[i].path == "Muon_pt" && fields[i].parent == FB_NO_FIELD) {
            CHECK(fields[i].type_name.find("<float>") != std::string_view::npos && fields[i].role == FB_COLLECTION);
            ++n_found;
        }
    }
    CHECK(n_found == 1);
}

static void batches_have_all_entries_as_typed_columns() {
    const fb::NTuple events = fb::NTuple::open(std::vector<std::string>{dimuon(), dimuon()}, "Events");
    fb::StreamOptions options;
    options.step = 5000;
    options.threads = 2;
    std::uint64_t next = 0;
    std::size_t n_muons = 0, n_counted = 0;
    for (const fb::Batch &batch : events.batches({"nMuon", "Muon_pt"}, options)) {
        CHECK(batch.first_entry() == next);
        next += batch.size();
        const fb::Jagged<const float> pt = batch.lists<float>("Muon_pt");
        CHECK(pt.size() == batch.size());
        for (std::size_t i = 0; i < pt.size(); ++i) {
            for (float value : pt[i]) {
                n_muons += std::isfinite(value);
            }
        }
        const fb::Column counts = batch.column("nMuon");
        CHECK(counts.kind() == fb::Kind::number);
        if (counts.format() == "l") {
            for (std::int64_t n : counts.values<const std::int64_t>()) {
                n_counted += static_cast<std::size_t>(n);
            }
        } else {
            for (std::int32_t n : counts.values<const std::int32_t>()) {
                n_counted += static_cast<std::size_t>(n);
            }
        }
        THROWS(fb::Error, "other values", batch.values<double>("Muon_pt"));
        THROWS(fb::Error, "no member Muon_p", batch.column("Muon_p"));
    }
    CHECK(next == 24000);
    CHECK(n_muons > 0 && n_muons == n_counted);
}

static void all_types_have_views() {
    const fb::NTuple mixed = fb::NTuple::open(folder + "/rntuple/mixed_zstd.root");
    std::size_t n_entries = 0;
    for (const fb::Batch &batch : mixed.batches()) {
        n_entries += batch.size();
        const fb::Column columns = batch.columns();
        for (std::size_t k = 0; k < columns.num_members(); ++k) {
            const fb::Column column = columns.member(k);
            CHECK(column.size() == batch.size());
            if (column.kind() == fb::Kind::list && !column.is_optional()) {
                CHECK(column.offsets().size() == batch.size() + 1);
                CHECK(static_cast<std::size_t>(column.offsets()[batch.size()]) == column.item().size());
            }
            if (column.kind() == fb::Kind::array) {
                CHECK(column.item().size() == batch.size() * column.array_size());
            }
            if (column.kind() == fb::Kind::text && !column.is_optional()) {
                std::size_t n = 0;
                for (std::size_t i = 0; i < column.size(); ++i) {
                    n += column.text(i).size();
                }
                CHECK(n == static_cast<std::size_t>(column.offsets()[batch.size()] - column.offsets()[0]));
            }
        }
    }
    CHECK(n_entries == 40);
}

static void ranges_of_entries_are_read() {
    const fb::NTuple events = fb::NTuple::open(dimuon() + ":Events");
    fb::StreamOptions options;
    options.entry_start = 11990;
    options.entry_stop = 11995;
    options.prefetch = false;
    fb::Batches batches = events.batches({"Muon_pt"}, options);
    const auto batch = batches.next();
    CHECK(batch && batch->size() == 5 && batch->first_entry() == 11990);
    CHECK(!batches.next());
    options.entry_stop = 12001;
    THROWS(fb::Error, "12000 entries", events.batches({"Muon_pt"}, options));
}

static void entries_are_found_by_their_numbers() {
    const fb::NTuple events = fb::NTuple::open(folder + "/rntuple/clusters.root");
    std::vector<std::int64_t> numbers;
    for (const fb::Batch &batch : events.batches({"number"})) {
        for (std::int32_t number : batch.values<std::int32_t>("number")) {
            numbers.push_back(number);
        }
    }
    const fb::EntryIndex index = events.index({"number"});
    const auto found = index.find_all(numbers);
    CHECK(found.size() == numbers.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i] <= i && numbers[found[i]] == numbers[i]);
    }
    CHECK(!index.find({-12345678}));
    THROWS(fb::Error, "1 fields", index.find_all({}));
    THROWS(fb::Error, "cannot be a key", events.index({"floats"}));
}

static void errors_say_what_is_wrong() {
    THROWS(fb::Error, "not_there.root", fb::NTuple::open(folder + "/not_there.root"));
    try {
        fb::NTuple::open(folder + "/not_there.root");
    } catch (const fb::Error &error) {
        CHECK(error.kind() == "file-not-found");
    }
    THROWS(fb::Error, "did you mean memory_map", fb::NTuple::open(dimuon(), "Events", R"({"memory_mop": true})"));
    THROWS(fb::Error, "expected true or false", fb::NTuple::open(dimuon(), "Events", R"({"memory_map": 1})"));
    THROWS(fb::Error, "not valid JSON", fb::NTuple::open(dimuon(), "Events", "{"));
    THROWS(fb::Error, "Muon_pt", fb::NTuple::open(dimuon(), "Events").batches({"Muon_pr"}));
    CHECK(fb_ntuple_num_entries(nullptr) == 0);
    fb_ntuple_free(nullptr);
}

static void threads_share_an_ntuple() {
    const fb::NTuple events = fb::NTuple::open(dimuon(), "Events");
    std::vector<std::thread> threads;
    std::vector<double> sums(3);
    for (double &sum : sums) {
        threads.emplace_back([&sum, events] {
            for (const fb::Batch &batch : events.batches({"Muon_pt"})) {
                for (float pt : batch.lists<float>("Muon_pt").values()) {
                    sum += static_cast<double>(pt);
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(sums[0] > 0 && sums[0] == sums[1] && sums[1] == sums[2]);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "testdata";
#define TEST(name) {#name, name}
    return run({TEST(metadata_is_that_of_the_file), TEST(batches_have_all_entries_as_typed_columns),
                TEST(all_types_have_views), TEST(ranges_of_entries_are_read), TEST(entries_are_found_by_their_numbers),
                TEST(errors_say_what_is_wrong), TEST(threads_share_an_ntuple)});
}
