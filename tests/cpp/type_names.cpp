// Type names in keys, and descriptions of structs: the same for every compiler, and for Python.
#include "check.hpp"

#include <femtobarn.hpp>

#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

struct Point {
    double x, y;
};
enum class Kind : std::uint16_t { track, shower };
struct Particle {
    float energy;
    std::int32_t charge;
    Point vertex;
    std::array<float, 3> momentum;
    std::uint8_t flags[4];
    Kind kind;
    bool is_primary;
    char tag;
};
struct Partial {
    float seen;
    double unseen;
};
struct Swapped {
    float one;
    float two;
};
struct Vertex {
    float z;
};
struct Nothing {};
template <>
struct fb::Described<Nothing> : std::true_type { // as written by `fb hdf5-schema`
    template <class Visit>
    static void each(Visit &&) {}
};
FB_DESCRIBE(Point, x, y)
FB_DESCRIBE(Partial, seen)
FB_DESCRIBE(Vertex, z)
FB_DESCRIBE(Swapped, two, one)
FB_DESCRIBE(Particle, energy, charge, vertex, momentum, flags, kind, is_primary, tag)

template <char>
struct Tagged {};

namespace nova {
template <class T>
struct Of {
    struct Inner {};
};
} // namespace nova

static void names_are_those_of_root() {
    CHECK(fb::type_name<std::vector<Particle>>() == "std::vector<Particle>");
    CHECK(fb::type_name<std::string>() == "std::string");
    CHECK(fb::type_name<int>() == "std::int32_t");
    CHECK(fb::type_name<unsigned char>() == "std::uint8_t");
    CHECK(fb::type_name<unsigned long>() == "std::uint64_t");
    CHECK(fb::type_name<char>() == "char");
    CHECK(fb::type_name<std::vector<std::vector<float>>>() == "std::vector<std::vector<float>>");
    CHECK((fb::type_name<std::map<std::string, std::vector<int>>>()) ==
          "std::map<std::string,std::vector<std::int32_t>>");
    CHECK((fb::type_name<std::unordered_map<int, double>>()) == "std::unordered_map<std::int32_t,double>");
    CHECK(fb::type_name<std::set<short>>() == "std::set<std::int16_t>");
    CHECK(fb::type_name<std::list<std::deque<bool>>>() == "std::list<std::deque<bool>>");
    CHECK((fb::type_name<std::array<float, 3>>()) == "std::array<float,3>");
    CHECK((fb::type_name<std::array<int[2], 3>>()) == "std::array<std::array<std::int32_t,2>,3>");
    CHECK(fb::type_name<nova::Of<Point[2][4]>>() == "nova::Of<std::array<std::array<Point,4>,2>>");
    CHECK(fb::type_name<Tagged<'a'>>() == "Tagged<(char)97>");
    CHECK((fb::type_name<std::pair<int, std::unique_ptr<Point>>>()) ==
          "std::pair<std::int32_t,std::unique_ptr<Point>>");
    CHECK(fb::type_name<nova::Of<std::string>::Inner>() == "nova::Of<std::string>::Inner");
    struct Odd {
        bool operator()(int, int) const { return false; }
    };
    CHECK((fb::type_name<std::set<int, std::greater<int>>>()) ==
          "std::set<std::int32_t,std::greater<std::int32_t>>");
}

static void names_of_other_compilers_are_the_same() {
    CHECK(fb::detail::normal_name("std::__1::vector<Particle, std::__1::allocator<Particle>>") ==
          "std::vector<Particle>");
    CHECK(fb::detail::normal_name(
              "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >") ==
          "std::string");
    CHECK(fb::detail::normal_name("std::array<int, 4ul>") == "std::array<std::int32_t,4>");
    CHECK(fb::detail::normal_name("broken<a, b") == "broken<a,b>");
}

static void descriptions_have_members_types_and_places() {
    CHECK(fb::description<Point>() == "{\"type\": \"Point\", \"size\": 16, \"members\": ["
                                      "{\"name\": \"x\", \"type\": \"double\", \"offset\": 0}, "
                                      "{\"name\": \"y\", \"type\": \"double\", \"offset\": 8}]}");
    const std::string particle = fb::description<Particle>();
    for (const char *part :
         {"\"size\": 48", "{\"name\": \"charge\", \"type\": \"std::int32_t\", \"offset\": 4}",
          "{\"name\": \"vertex\", \"type\": \"Point\", \"offset\": 8}",
          "{\"name\": \"momentum\", \"type\": \"std::array<float,3>\", \"offset\": 24}",
          "{\"name\": \"flags\", \"type\": \"std::array<std::uint8_t,4>\", \"offset\": 36}",
          "{\"name\": \"kind\", \"type\": \"std::uint16_t\", \"offset\": 40}",
          "{\"name\": \"is_primary\", \"type\": \"bool\", \"offset\": 42}",
          "{\"name\": \"tag\", \"type\": \"char\", \"offset\": 43}"}) {
        CHECK(particle.find(part) != std::string::npos);
    }
    const auto all = fb::descriptions<Particle>();
    CHECK(all.size() == 2 && all[0].first == "type/Particle" && all[1].first == "type/Point");
}

static void storing_notes_the_description_once() {
    const fb::Store store = fb::Store::connect("memory:");
    const fb::Container run = store.create_dataset("d").create(1);
    CHECK(!store.noted("type/Particle"));
    run.store("particles", std::vector<Particle>(2));
    CHECK(store.noted("type/Particle") == fb::description<Particle>());
    CHECK(store.noted("type/Point") == fb::description<Point>());
    const fb::Store other = fb::Store::connect("memory:");
    other.note("type/Point", "{}");
    THROWS(fb::Error, "Point is stored with other members",
           other.create_dataset("d").create(1).store("p", Point{1, 2}));
}

static void a_struct_is_described_as_a_whole() {
    const fb::Container run = fb::Store::connect("memory:").create_dataset("d").create(1);
    THROWS(fb::Error, "Partial: FB_DESCRIBE leaves out members", run.store("p", Partial{}));
    THROWS(fb::Error, "Swapped: FB_DESCRIBE", run.store("s", std::vector<Swapped>(1)));
    run.store("n", std::vector<Nothing>(3));
    CHECK(run.load<std::vector<Nothing>>("n").value().size() == 3);
}

static void a_class_that_python_has_noted_is_the_same() {
    const auto members = fb::detail::members(fb::description<Point>());
    CHECK(members.size() == 2 && members[0].first == "\"x\"" && members[0].second == "\"double\"");
    const std::string own = "{\"members\":[{\"name\":\"x\",\"type\":\"double\"},"
                            "{\"type\":\"double\",\"name\":\"y\"}],\"type\":\"Point\"}";
    CHECK(fb::detail::members(own) == members);
    const fb::Store store = fb::Store::connect("memory:");
    store.note("type/Point", own);
    store.create_dataset("d").create(1).store("p", Point{1, 2});
    CHECK(store.noted("type/Point") == own);
    for (const char *another :
         {"{\"members\":[{\"name\":\"x\",\"type\":\"double\"}],\"type\":\"Point\"}",
          "{\"members\":[{\"name\":\"x\",\"type\":\"double\"},{\"name\":\"y\",\"type\":\"float\"}]}",
          "{\"members\":[{\"name\":\"y\",\"type\":\"double\"},{\"name\":\"x\",\"type\":\"double\"}]}"}) {
        const fb::Store other = fb::Store::connect("memory:");
        other.note("type/Point", another);
        THROWS(fb::Error, "Point is stored with other members",
               other.create_dataset("d").create(1).store("p", Point{1, 2}));
    }
}

/// Regression: a running program kept the first description of a class: it stored values of the old class
/// among values of the new one.
static void a_class_that_others_had_forgotten_is_looked_up_again() {
    const fb::Store store = fb::Store::connect("memory:forgotten");
    const fb::Store other = fb::Store::connect("memory:forgotten");
    const fb::Container run = store.create_dataset("d").create(1);
    run.store("v", Vertex{1});
    CHECK(run.load<Vertex>("v").value().z == 1);
    THROWS(fb::Error, "cannot be forgotten", other.forget_class("Vertex"));
    run.remove_product<Vertex>("v");
    other.forget_class("Vertex"); // takes longer than `store` knows the class
    CHECK(!store.noted("type/Vertex"));
    other.note("type/Vertex", R"({"members":[{"name":"t","type":"float"}],"type":"Vertex"})");
    other.store(run.descriptor(), "v#Vertex", "time");
    THROWS(fb::Error, "Vertex is stored with other members", run.store("v", Vertex{2}));
    THROWS(fb::Error, "Vertex is stored with other members", run.load<Vertex>("v"));
    THROWS(fb::Error, "no class", other.forget_class("Nothing"));
}

static void who_forgets_a_class_knows_it_at_once() {
    const fb::Store store = fb::Store::connect("memory:");
    const fb::Container run = store.create_dataset("d").create(1);
    run.store("v", Vertex{1});
    run.remove_product<Vertex>("v");
    store.forget_class("Vertex");
    run.store("v", Vertex{2});
    CHECK(store.noted("type/Vertex") == fb::description<Vertex>());
}

static void a_class_that_is_being_forgotten_is_not_stored() {
    const fb::Store store = fb::Store::connect("memory:");
    const fb::Container run = store.create_dataset("d").create(1);
    store.note("type/Vertex", "forgetting " + fb::description<Vertex>());
    store.store(run.descriptor(), "v#Vertex", "four");
    const char *what = "memory:: class Vertex is being forgotten, which takes some seconds: try again";
    THROWS(fb::Error, what, run.store("v", Vertex{1}));
    THROWS(fb::Error, what, run.load<Vertex>("v"));
}

int main() {
    return run({{"names are those of ROOT", names_are_those_of_root},
                {"names of other compilers are the same", names_of_other_compilers_are_the_same},
                {"descriptions have members, types and places", descriptions_have_members_types_and_places},
                {"storing notes the description once", storing_notes_the_description_once},
                {"a struct is described as a whole", a_struct_is_described_as_a_whole},
                {"a class that Python has noted is the same", a_class_that_python_has_noted_is_the_same},
                {"a class that others had forgotten is looked up again",
                 a_class_that_others_had_forgotten_is_looked_up_again},
                {"who forgets a class knows it at once", who_forgets_a_class_knows_it_at_once},
                {"a class that is being forgotten is not stored",
                 a_class_that_is_being_forgotten_is_not_stored}});
}
