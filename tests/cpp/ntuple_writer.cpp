// femtobarn.hpp: ntuples are written from structs and from memory, by one thread and by several, and read back.
#include "check.hpp"

#include <femtobarn.hpp>

#include <cstddef>
#include <thread>

static std::string folder;

struct Hit {
    float x, y;
    std::int32_t plane;
};
FB_DESCRIBE(Hit, x, y, plane)

enum class Quality : std::uint8_t { bad, good };

struct Event {
    std::uint64_t number = 0;
    bool is_good = false;
    Quality quality = Quality::bad;
    float mass = 0;
    std::string label;
    std::vector<float> pt;
    std::vector<bool> flags;
    std::vector<std::vector<std::int16_t>> nested;
    std::array<double, 3> vertex{};
    std::vector<Hit> hits;
    std::vector<std::string> names;
};

static std::vector<fb::Member> members() {
    return {fb::member<Event>("number", &Event::number), fb::member<Event>("is_good", &Event::is_good),
            fb::member<Event>("quality", &Event::quality), fb::member<Event>("mass", &Event::mass),
            fb::member<Event>("label", &Event::label),   fb::member<Event>("pt", &Event::pt),
            fb::member<Event>("flags", &Event::flags),   fb::member<Event>("nested", &Event::nested),
            fb::member<Event>("vertex", &Event::vertex), fb::member<Event>("hits", &Event::hits),
            fb::member<Event>("names", &Event::names)};
}

static Event event(std::uint64_t i) {
    Event made;
    made.number = i;
    made.is_good = i % 3 == 0;
    made.quality = i % 2 ? Quality::good : Quality::bad;
    made.mass = static_cast<float>(i) / 7;
    made.label = std::string(i % 5, 'x');
    for (std::uint64_t k = 0; k < i % 4; ++k) {
        made.pt.push_back(static_cast<float>(i + k));
        made.flags.push_back((i + k) % 2 == 0);
        made.nested.emplace_back(k, static_cast<std::int16_t>(k));
        made.hits.push_back({static_cast<float>(k), -static_cast<float>(i), static_cast<std::int32_t>(k)});
        made.names.push_back("n" + std::to_string(k));
    }
    made.vertex = {1, 2, static_cast<double>(i)};
    return made;
}

/// Checks that the entries of a file are the events with these numbers.
static void check_events(const std::string &path, const std::vector<std::uint64_t> &numbers) {
    const fb::NTuple written = fb::NTuple::open(path, "Events");
    CHECK(written.num_entries() == numbers.size());
    for (const fb::Batch &batch : written.batches()) {
        const auto number = batch.values<std::uint64_t>("number");
        const auto is_good = batch.values<bool>("is_good");
        const auto quality = batch.values<std::uint8_t>("quality");
        const auto mass = batch.values<float>("mass");
        const auto pt = batch.lists<float>("pt");
        const auto flags = batch.lists<bool>("flags");
        const auto nested = batch.column("nested").item().lists<const std::int16_t>();
        const auto outer = batch.column("nested").offsets();
        const auto vertex = batch.column("vertex").item().values<const double>();
        const fb::Column hits = batch.column("hits");
        const auto y = hits.item().member("y").values<const float>();
        const fb::Column names = batch.column("names"), label = batch.column("label");
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Event wanted = event(numbers.at(batch.first_entry() + i));
            bool is_same = number[i] == wanted.number && is_good[i] == wanted.is_good &&
                           quality[i] == static_cast<std::uint8_t>(wanted.quality) && !(mass[i] < wanted.mass) &&
                           !(mass[i] > wanted.mass) && label.text(i) == wanted.label &&
                           pt[i].size() == wanted.pt.size() && flags[i].size() == wanted.pt.size();
            is_same = is_same && !(vertex[3 * i + 2] < wanted.vertex[2]) && !(vertex[3 * i + 2] > wanted.vertex[2]);
            for (std::size_t k = 0; is_same && k < wanted.pt.size(); ++k) {
                const auto hit = static_cast<std::size_t>(hits.offsets()[i]) + k;
                const auto name = static_cast<std::size_t>(names.offsets()[i]) + k;
                const auto list = nested[static_cast<std::size_t>(outer[i]) + k];
                is_same = !(pt[i][k] < wanted.pt[k]) && !(pt[i][k] > wanted.pt[k]) &&
                          flags[i][k] == wanted.flags[k] && list.size() == wanted.nested[k].size() &&
                          !(y[hit] < wanted.hits[k].y) && !(y[hit] > wanted.hits[k].y) &&
                          names.item().text(name) == wanted.names[k];
            }
            CHECK(is_same);
        }
    }
}

static void structs_are_read_back() {
    const std::string path = folder + "/structs.root";
    fb::NTupleWriter writer(path, "Events", members(), R"({"compression": "zstd:5"})");
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < 5000; ++i) {
        const Event one = event(i);
        CHECK(writer.fill(&one) == i);
        numbers.push_back(i);
    }
    CHECK(writer.num_entries() == 5000);
    CHECK(writer.finish() == 5000);
    check_events(path, numbers);
}

static void clusters_of_threads_have_the_order_of_their_commits() {
    const std::string path = folder + "/threads.root";
    fb::NTupleWriter writer(path, "Events", members());
    const Event first = event(77);
    CHECK(writer.fill(&first) == 0);
    constexpr std::uint64_t n = 1000;
    std::vector<std::optional<fb::Staged>> staged(3);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < staged.size(); ++t) {
        threads.emplace_back([&writer, &staged, t] {
            fb::FillContext context = writer.context();
            for (std::uint64_t i = 0; i < n; ++i) {
                const Event one = event(t * n + i);
                context.fill(&one);
            }
            staged[t] = context.stage();
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    THROWS(fb::Error, "3000 entries", writer.finish());
    std::vector<std::uint64_t> numbers{77};
    for (const std::uint64_t t : {2, 0, 1}) {
        CHECK(staged[t]->num_entries() == n);
        CHECK(writer.commit(std::move(*staged[t])) == numbers.size());
        for (std::uint64_t i = 0; i < n; ++i) {
            numbers.push_back(t * n + i);
        }
    }
    CHECK(writer.fill(&first) == numbers.size());
    numbers.push_back(77);
    CHECK(writer.finish() == numbers.size());
    check_events(path, numbers);
    CHECK(fb::NTuple::open(path).clusters().size() == 5);
}

static void memory_with_offsets_and_late_fields() {
    struct Row {
        std::vector<float> pt;
        double late;
        std::uint32_t run;
    };
    const std::string path = folder + "/memory.root";
    fb::NTupleWriter writer(path, "folder/Events",
                            {fb::Member("run", "std::uint32_t", offsetof(Row, run)),
                             fb::Member("pt", "std::vector<float>", offsetof(Row, pt))});
    Row row{{1, 2}, 0.5, 3};
    writer.fill(static_cast<const void *>(&row));
    writer.add_fields({fb::Member("late", "double", offsetof(Row, late))});
    row.run = 4;
    writer.fill(&row);
    THROWS(fb::Error, "late", writer.add_fields({fb::Member("late", "double", offsetof(Row, late))}));
    CHECK(writer.finish() == 2);
    const fb::NTuple written = fb::NTuple::open(path + ":folder/Events");
    fb::Batches batches = written.batches();
    const auto batch = batches.next();
    const auto run = batch->values<std::uint32_t>("run");
    const auto late = batch->values<double>("late");
    CHECK(run[0] == 3 && run[1] == 4);
    CHECK(!(late[0] > 0) && !(late[0] < 0) && late[1] > 0.49 && late[1] < 0.51);
    THROWS(fb::Error, "finished", writer.finish());
}

struct Kept {
    virtual ~Kept() = default;
    double kept = 8;
};
struct First {
    std::int32_t a = 1;
};
struct Second {
    std::int32_t b = 2;
};
struct Derived : First, Second, Kept {
    std::int32_t c = 3;
};

static void members_of_bases_are_read_where_they_are() {
    const std::string path = folder + "/derived.root";
    fb::NTupleWriter writer(path, "E",
                            {fb::member<Derived>("a", &Derived::a), fb::member<Derived>("b", &Derived::b),
                             fb::member<Derived>("kept", &Derived::kept), fb::member<Derived>("c", &Derived::c)});
    const Derived one;
    writer.fill(&one);
    CHECK(writer.finish() == 1);
    const fb::NTuple written = fb::NTuple::open(path);
    const auto batch = written.batches().next();
    CHECK(batch->values<std::int32_t>("a")[0] == 1);
    CHECK(batch->values<std::int32_t>("b")[0] == 2);
    CHECK(batch->values<std::int32_t>("c")[0] == 3);
    CHECK(static_cast<int>(batch->values<double>("kept")[0]) == 8);
}

static void entries_that_are_not_committed_are_not_forgotten() {
    struct Row {
        std::int32_t x, late;
    };
    const std::vector<fb::Member> members{fb::member<Row>("x", &Row::x)};
    const std::string path = folder + "/uncommitted.root";
    Row row{5, 6};
    {
        fb::NTupleWriter writer(path, "E", members);
        {
            fb::FillContext gone = writer.context();
            gone.fill(&row);
        }
        THROWS(fb::Error, "entries of 1 context were not committed", writer.finish());
    }
    {
        fb::NTupleWriter writer(path, "E", members);
        {
            fb::FillContext context = writer.context();
            context.fill(&row);
            context.stage();
        }
        THROWS(fb::Error, "1 entries of fills were not committed", writer.finish());
        THROWS(fb::Error, "1 entries of fills were not committed", writer.add_fields({fb::member<Row>("late", &Row::late)}));
    }
    fb::NTupleWriter writer(path, "E", members);
    fb::FillContext context = writer.context(), later = writer.context();
    context.fill(&row);
    THROWS(fb::Error, "entries of 1 context were not committed", writer.add_fields({fb::member<Row>("late", &Row::late)}));
    CHECK(writer.commit(context.stage()) == 0);
    writer.add_fields({fb::member<Row>("late", &Row::late)});
    context.fill(&row);
    later.fill(&row);
    CHECK(writer.commit(later.stage()) == 1);
    CHECK(writer.commit(context.stage()) == 2);
    CHECK(writer.finish() == 3);
    THROWS(fb::Error, "finished", context.fill(&row));
    const auto batch = fb::NTuple::open(path).batches().next();
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(batch->values<std::int32_t>("x")[i] == 5);
        CHECK(batch->values<std::int32_t>("late")[i] == (i == 0 ? 0 : 6));
    }
}

static void entries_that_the_library_refuses_are_not_forgotten() {
    const std::string text = "\xff", path = folder + "/refused.root";
    fb::NTupleWriter writer(path, "E", {fb::Member("text", "std::string", 0)});
    fb::FillContext context = writer.context();
    context.fill(&text);
    THROWS(fb::Error, "UTF", context.stage());
    THROWS(fb::Error, "entries of 1 context", writer.finish());
    fb::NTupleWriter other(path, "E", {fb::Member("text", "std::string", 0)});
    other.fill(&text);
    THROWS(fb::Error, "UTF", other.finish());
    THROWS(fb::Error, "entries were lost", other.finish());
}

static void nothing_is_filled_into_a_finished_ntuple() {
    const std::int32_t x = 1;
    fb::NTupleWriter writer(folder + "/finished.root", "E", {fb::Member("x", "int", 0)});
    writer.fill(&x);
    CHECK(writer.finish() == 1);
    THROWS(fb::Error, "the ntuple is finished", writer.fill(&x));
    THROWS(fb::Error, "the ntuple is finished", writer.context());
    THROWS(fb::Error, "the ntuple is finished", writer.add_fields({fb::Member("y", "int", 0)}));
    CHECK(writer.num_entries() == 1);
}

static void types_have_all_their_names() {
    const std::pair<const char *, const char *> names[] = {
        {"short", "std::int16_t"},       {"long", "std::int64_t"},
        {"unsigned long", "std::uint64_t"}, {"unsigned char", "std::uint8_t"},
        {"long long", "std::int64_t"},   {"unsigned", "std::uint32_t"},
        {"signed char", "std::int8_t"},  {"uint16_t", "std::uint16_t"},
        {"vector<float>", "std::vector<float>"}, {"std::vector< vector<unsigned short> >", "std::vector<std::vector<std::uint16_t>>"},
        {"double[3]", "std::array<double,3>"}};
    const std::string path = folder + "/names.root";
    std::vector<fb::Member> members;
    for (const auto &[given, wanted] : names) {
        members.emplace_back("f" + std::to_string(members.size()), given, 0);
    }
    fb::NTupleWriter(path, "E", members).finish();
    const fb::NTuple written = fb::NTuple::open(path);
    std::size_t i = 0;
    for (const fb::Field &field : written.fields()) {
        if (field.parent == FB_NO_FIELD) {
            CHECK(field.type_name == names[i++].second);
        }
    }
    CHECK(i == members.size());
    for (const char *wrong : {"std::array<float,0>", "std::array<float,x>", "std::array<float,>", "std::array<float,2x>",
                              "std::array<float,-1>", "std::array<float>", "std::vector<>", "vector<", "long double", ""}) {
        THROWS(fb::Error, "cannot be written from memory", fb::Member("x", wrong, 0));
    }
}

static void wrong_fields_are_errors_and_leave_no_file() {
    const std::string path = folder + "/none.root";
    THROWS(fb::Error, "std::list<int>", fb::Member("x", "std::list<int>", 0));
    THROWS(fb::Error, "twice", fb::NTupleWriter(path, "E", {fb::Member("twice", "int", 0), fb::Member("twice", "int", 0)}));
    THROWS(fb::Error, "zstd:5", fb::NTupleWriter(path, "E", {fb::Member("x", "int", 0)}, R"({"compression": "zstt"})"));
    {
        fb::NTupleWriter writer(path, "E", {fb::Member("x", "int", 0)});
        const int x = 5;
        writer.fill(&x);
    }
    THROWS(fb::Error, "none.root", fb::NTuple::open(path));
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : ".";
#define TEST(name) {#name, name}
    return run({TEST(structs_are_read_back), TEST(clusters_of_threads_have_the_order_of_their_commits),
                TEST(memory_with_offsets_and_late_fields), TEST(members_of_bases_are_read_where_they_are),
                TEST(entries_that_are_not_committed_are_not_forgotten),
                TEST(entries_that_the_library_refuses_are_not_forgotten),
                TEST(nothing_is_filled_into_a_finished_ntuple), TEST(types_have_all_their_names), TEST(wrong_fields_are_errors_and_leave_no_file)});
}
