"""The data of test_write_matrix.py: a field of every type, and its values in Python."""

import itertools
import math

import numpy as np

import femtobarn as fb

# ROOT's interpreter declares them, so that ROOT can read fields of these types
CLASSES = """
#include <atomic>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
#include <ROOT/RVec.hxx>
enum class MatrixColor : std::uint8_t { kRed, kGreen, kBlue = 200 };
struct MatrixBase { std::int32_t id; float weight; };
struct MatrixPoint { float x, y; };
struct MatrixDerived : MatrixBase { std::vector<MatrixPoint> points; std::string label; MatrixColor color; };
"""

POINT = fb.Class("MatrixPoint", {"x": "float", "y": "float"})
COLOR = fb.Enum("MatrixColor", "std::uint8_t")
DERIVED = fb.Class(
    "MatrixDerived",
    {
        ":_0": fb.Class("MatrixBase", {"id": "int", "weight": "float"}),
        "points": fb.Type("std::vector<MatrixPoint>", [POINT]),
        "label": "std::string",
        "color": COLOR,
    },
)

WORDS = ["", "a", "grün", "日本語", "x" * 100, "tab\tand\nline", "\U0001f600"]


def integers(dtype):
    limits = np.iinfo(dtype)
    return [0, 1, limits.min, limits.max, 100, limits.max // 3]


def reals(dtype):
    limits = np.finfo(dtype)
    return [
        0.0,
        -0.0,
        1.5,
        -2.25,
        math.inf,
        -math.inf,
        float(limits.max),
        float(limits.tiny),
        float(limits.smallest_subnormal),
    ]


def lists(values, lengths=(2, 0, 1, 3)):
    """Return lists of values, of these lengths in turn."""
    values = itertools.cycle(values)
    return [[next(values) for _ in range(length)] for length in lengths]


def points(n):
    return [{"x": i + 0.5, "y": -float(i)} for i in range(n)]


# Field: its type, and values that are used in turn
TABLE = {
    "bool": ("bool", [True, False, False]),
    **{name: (f"std::{name}_t", integers(name)) for name in ("int8", "int16", "int32", "int64")},
    **{name: (f"std::{name}_t", integers(name)) for name in ("uint8", "uint16", "uint32", "uint64")},
    "char": ("char", [0, 65, -1]),
    "byte": ("std::byte", [0, 7, 255]),
    "half": ("float16", reals("float16")),
    "float": ("float", reals("float32")),
    "double": ("double", reals("float64")),
    "double32": ("Double32_t", reals("float32")),
    "truncated": ("float", [0.0, 1.5, -3.25, 1024.0]),
    "truncated_double": ("double", [0.0, 0.5, -0.25]),
    "truncated_list": ("std::vector<float>", lists([0.0, 1.5, -3.25])),
    "quantized": ("float", [-32768.0, 32767.0, 0.0, 5.0]),  # steps of 1
    "quantized_list": ("std::vector<double>", lists([0.0, 255.0, 17.0])),
    "string": ("std::string", WORDS),
    "floats": ("std::vector<float>", lists(reals("float32"))),
    "bools": ("std::vector<bool>", lists([True, False, True])),
    "bytes": ("std::vector<std::byte>", lists([0, 1, 255])),
    "strings": ("std::vector<std::string>", lists(WORDS)),
    "nested": ("std::vector<std::vector<std::vector<std::int16_t>>>", [[[[1, 2], []], []], [], [[[-3]]]]),
    "rvec": ("ROOT::RVec<double>", lists(reals("float64"))),
    "rvec_bool": ("ROOT::RVec<bool>", lists([True, False])),
    "rvec_nested": ("ROOT::VecOps::RVec<ROOT::VecOps::RVec<int>>", [[[1], [2, 3]], [], [[]]]),
    "set": ("std::set<int>", [[1, 2, 3], [], [7]]),
    "multiset": ("std::multiset<std::string>", [["a", "b"], [], ["c"]]),
    "unordered_set": ("std::unordered_set<std::uint16_t>", [[1], [], [9]]),
    "unordered_multiset": ("std::unordered_multiset<double>", [[1.0], []]),
    "map": ("std::map<std::string, std::vector<int>>", [[("a", [1, 2]), ("b", [])], [], [("c", [3])]]),
    "multimap": ("std::multimap<int, float>", [[(1, 0.5), (1, 0.5)], []]),
    "unordered_map": ("std::unordered_map<std::int64_t, bool>", [[(1, True)], []]),
    "unordered_multimap": ("std::unordered_multimap<int, std::string>", [[], [(1, "x")]]),
    "array": ("std::array<float, 3>", [[1.0, 2.0, 3.0], [0.5, math.inf, -0.0]]),
    "c_array": ("int[2][3]", [[[1, 2, 3], [4, 5, 6]], [[-1, -2, -3], [0, 0, 0]]]),
    "array_string": ("std::array<std::string, 2>", [["a", ""], ["", "bb"]]),
    "array_vector": ("std::array<std::vector<bool>, 2>", [[[True], []], [[], [False, True]]]),
    "array_bool": ("std::array<bool, 3>", [[True, False, True], [False, False, True]]),
    "bitset": ("std::bitset<12>", [[i % 3 == 0 for i in range(12)], [True] * 12]),
    "bitset_wide": ("std::bitset<100>", [[i % 7 == 0 for i in range(100)], [False] * 100]),
    "bitsets": ("std::vector<std::bitset<3>>", [[[True, False, True]], [], [[False] * 3] * 2]),
    "optional": ("std::optional<float>", [1.5, None, None, -2.0]),
    "optional_string": ("std::optional<std::string>", [None, "a", ""]),
    "optional_list": ("std::optional<std::vector<int>>", [None, [], [1, 2]]),
    "optionals": ("std::vector<std::optional<std::int8_t>>", [[None, 1], [], [2, None, None]]),
    "pointer": ("std::unique_ptr<double>", [[1.5], [], [2.5]]),
    "pair": ("std::pair<int, std::string>", [(1, "a"), (2, "")]),
    "tuple": ("std::tuple<std::int8_t, float, std::vector<bool>>", [(1, 0.5, [True]), (-2, 1.5, [])]),
    "tuple_one": ("std::tuple<std::vector<int>>", [([1],), ([],)]),
    "variant": ("std::variant<int, std::string, std::vector<float>>", [1, "a", [0.5], -5, "b", []]),
    "variants": ("std::vector<std::variant<bool, std::string>>", [[True, "x"], [], ["y", False]]),
    "atomic": ("std::atomic<int>", [1, -2, 3]),
    "color": (COLOR, [0, 1, 200]),
    "colors": (fb.Type("std::vector<MatrixColor>", [COLOR]), lists([200, 0, 1])),
    "point": (POINT, points(3)),
    "points": (fb.Type("std::vector<MatrixPoint>", [POINT]), [points(2), [], points(1)]),
    "points_by_name": (fb.Type("std::map<std::string, MatrixPoint>", [POINT]), [[("a", points(1)[0])], []]),
    "two_points": (fb.Type("MatrixPoint[2]", [POINT]), [points(2), points(2)]),
    "derived": (
        DERIVED,
        [
            {":_0": {"id": 1, "weight": 0.5}, "points": points(2), "label": "a", "color": 200},
            {":_0": {"id": 2, "weight": 1.5}, "points": [], "label": "", "color": 0},
        ],
    ),
    "record": (
        {"a": "int32", "b": {"c": "std::vector<bool>"}},
        [{"a": 1, "b": {"c": [True]}}, {"a": 2, "b": {"c": []}}],
    ),
    "records": ("var * {e: int32, f: string}", [[{"e": 1, "f": "x"}], [], [{"e": 2, "f": ""}, {"e": 3, "f": "y"}]]),
    "awkward": ("var * 2 * ?int16", [[[1, None]], [], [[None, None], [3, 4]]]),
}
CASES = {name: kind for name, (kind, _) in TABLE.items()}
PRECISION = {
    "truncated": 12,
    "truncated_double": 20,
    "truncated_list": 31,
    "quantized": (16, -32768.0, 32767.0),
    "quantized_list": (8, 0.0, 255.0),
}
PROJECTED = {
    "n_floats": fb.Cardinality("floats"),
    "n_records": fb.Cardinality("records", wide=True),
    "floats_again": fb.Projected("std::vector<float>", "floats", {"_0": fb.Projected("float", "floats._0")}),
    "xs": fb.Projected("std::vector<float>", "points", {"_0": fb.Projected("float", "points._0.x")}),
}


def entries(n):
    """Return so many values of each field."""
    return {name: list(itertools.islice(itertools.cycle(values), n)) for name, (_, values) in TABLE.items()}


def given(name, values):
    """Return the values as they are read."""
    if name == "derived":
        return [{**{k: v for k, v in value.items() if k != ":_0"}, **value[":_0"]} for value in values]
    return values


# Fields that RDataFrame reads as separate columns, with a type that the script below can print
FRAMED = [
    "bool", "int8", "uint16", "int32", "uint64", "float", "double", "string", "bools", "strings",
    "nested", "rvec", "array", "c_array", "pair", "tuple", "variant", "colors",
]  # fmt: skip

# Arguments: the file, and one for what RDataFrame reads
FRAME = """
import json, os, pathlib, sys
import ROOT
ROOT.gInterpreter.Declare(r'''
CLASSES
#include <sstream>
#include <iomanip>
#include <limits>
#include <type_traits>
namespace printed {
template <typename T> std::string text(const T &v);
template <typename T> std::string number(const T &v) {
  if constexpr (std::is_floating_point_v<T>) {
    if (v == std::numeric_limits<T>::infinity()) return "Infinity";
    if (v == -std::numeric_limits<T>::infinity()) return "-Infinity";
    std::ostringstream s; s << std::setprecision(17) << static_cast<double>(v);
    auto t = s.str();
    return t.find_first_of(".en") == std::string::npos ? t + ".0" : t;
  } else if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
  else return std::to_string(+v);
}
inline std::string quoted(const std::string &v) {
  std::ostringstream s; s << '"';
  for (char c : v) { if (c == '\\t') s << "\\\\t"; else if (c == '\\n') s << "\\\\n"; else s << c; }
  s << '"'; return s.str();
}
template <typename T> std::string one(const T &v, ...) {
  std::string out = "["; bool first = true;
  for (auto &&item : v) {
    out += first ? "" : ","; first = false;
    using Item = std::decay_t<decltype(item)>;
    if constexpr (std::is_same_v<Item, std::_Bit_reference>) out += text(static_cast<bool>(item));
    else out += text(item);
  }
  return out + "]";
}
template <typename T> std::string one(const std::optional<T> &v, int) { return v ? text(*v) : "null"; }
template <typename A, typename B> std::string one(const std::pair<A, B> &v, int) {
  return "[" + text(v.first) + "," + text(v.second) + "]";
}
template <typename... T> std::string one(const std::tuple<T...> &v, int) {
  std::string out;
  std::apply([&](auto &...item) { ((out += (out.empty() ? "" : ",") + text(item)), ...); }, v);
  return "[" + out + "]";
}
template <typename... T> std::string one(const std::variant<T...> &v, int) {
  return std::visit([](auto &item) { return text(item); }, v);
}
inline std::string one(const std::string &v, int) { return quoted(v); }
template <typename T> std::string text(const T &v) {
  if constexpr (std::is_enum_v<T>) return std::to_string(+static_cast<std::underlying_type_t<T>>(v));
  else if constexpr (std::is_arithmetic_v<T>) return number(v);
  else if constexpr (std::is_convertible_v<T, unsigned long>) return std::to_string(static_cast<unsigned long>(v));
  else return one(v, 0);
}
}
''')
frame = ROOT.RDataFrame("Events", sys.argv[1])
names = NAMES
for name in names:
    frame = frame.Define("text_" + name, f"printed::text({name})")
results = {name: frame.Take["std::string"]("text_" + name) for name in names}
read = {name: [json.loads(str(text)) for text in result.GetValue()] for name, result in results.items()}
pathlib.Path(sys.argv[2]).write_text(json.dumps(read))
os._exit(0)
"""


def of_rdataframe():
    """Return a script that reads with RDataFrame, and the names of what it reads."""
    return FRAME.replace("CLASSES", CLASSES).replace("NAMES", repr(FRAMED)), FRAMED
