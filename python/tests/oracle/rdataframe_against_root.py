"""Compare all columns of a dataframe over femtobarn with those of ROOT's own, bit by bit. Run as a program.

    rdataframe_against_root.py NAME=FILE,FILE… … [--threads N] [--most N] [--load FILE] [--block SIZE]

Prints a line of JSON for each input: the columns that only one of both has, the types and the columns that differ, and
the number of columns compared.
"""

import argparse
import json
import warnings

warnings.filterwarnings("ignore")

import ROOT  # noqa: E402

import femtobarn as fb  # noqa: E402

CODE = r"""
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
#include <algorithm>
#include <ROOT/RDataFrame.hxx>
#include <TBufferJSON.h>
#include <TClonesArray.h>
namespace fbtest {
template <class T> struct Text {
   static void add(std::string &to, const T &value) {
      if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
         char bytes[2 * sizeof(T) + 1] = {};
         unsigned char raw[sizeof(T)];
         std::memcpy(raw, &value, sizeof(T));
         for (std::size_t i = 0; i < sizeof(T); ++i) std::snprintf(bytes + 2 * i, 3, "%02x", raw[i]);
         to += bytes;
      } else { // an object of a class with a dictionary: all members, with all digits
         TBufferJSON json(TBuffer::kWrite);
         json.SetFloatFormat("%.17g"); // as the other: with threads, ROOT confuses them
         json.SetDoubleFormat("%.17g");
         to += json.StoreObject(&value, TClass::GetClass<T>());
      }
   }
};
template <class T> void add(std::string &to, const T &value) { Text<T>::add(to, value); }
template <class T> void list(std::string &to, const T &values) {
   to += '[';
   for (const auto &value : values) { add<std::decay_t<decltype(value)>>(to, value); to += ','; }
   to += ']';
}
template <class T> void unordered(std::string &to, const T &values) {
   std::vector<std::string> each;
   for (const auto &value : values) { each.emplace_back(); add<std::decay_t<decltype(value)>>(each.back(), value); }
   std::sort(each.begin(), each.end());
   for (const auto &one : each) to += one + ';';
}
template <> struct Text<std::string> {
   static void add(std::string &to, const std::string &value) { to += '"' + value + '"'; }
};
template <> struct Text<TClonesArray> {
   static void add(std::string &to, const TClonesArray &values) {
      to += std::string(values.GetClass()->GetName()) + '[' + std::to_string(values.GetEntries()) + ':';
      if (!values.GetClass()->IsLoaded()) return; // objects without functions: nothing can write them
      for (const TObject *value : values) { to += TBufferJSON::ConvertToJSON(value, values.GetClass()); to += ','; }
      to += ']';
   }
};
template <class T> struct Text<ROOT::RVec<T>> {
   static void add(std::string &to, const ROOT::RVec<T> &values) { list(to, values); }
};
template <> struct Text<std::vector<bool>> {
   static void add(std::string &to, const std::vector<bool> &values) { for (bool b : values) to += b ? '1' : '0'; to += ']'; }
};
template <class T> struct Text<std::vector<T>> {
   static void add(std::string &to, const std::vector<T> &values) { list(to, values); }
};
template <class T, std::size_t N> struct Text<std::array<T, N>> {
   static void add(std::string &to, const std::array<T, N> &values) { list(to, values); }
};
template <class T> struct Text<std::optional<T>> {
   static void add(std::string &to, const std::optional<T> &value) {
      to += '?';
      if (value) Text<T>::add(to, *value);
   }
};
template <class A, class B> struct Text<std::pair<A, B>> {
   static void add(std::string &to, const std::pair<A, B> &value) {
      Text<std::remove_const_t<A>>::add(to, value.first);
      to += ':';
      Text<B>::add(to, value.second);
   }
};
template <class... T> struct Text<std::tuple<T...>> {
   static void add(std::string &to, const std::tuple<T...> &value) {
      std::apply([&](const auto &...each) { ((Text<std::decay_t<decltype(each)>>::add(to, each), to += ':'), ...); }, value);
   }
};
template <class T> struct Text<std::set<T>> {
   static void add(std::string &to, const std::set<T> &values) { unordered(to, values); }
};
template <class T> struct Text<std::multiset<T>> {
   static void add(std::string &to, const std::multiset<T> &values) { unordered(to, values); }
};
template <class T> struct Text<std::unordered_set<T>> {
   static void add(std::string &to, const std::unordered_set<T> &values) { unordered(to, values); }
};
template <class T> struct Text<std::unordered_multiset<T>> {
   static void add(std::string &to, const std::unordered_multiset<T> &values) { unordered(to, values); }
};
template <class K, class V> struct Text<std::map<K, V>> {
   static void add(std::string &to, const std::map<K, V> &values) { unordered(to, values); }
};
template <class K, class V> struct Text<std::multimap<K, V>> {
   static void add(std::string &to, const std::multimap<K, V> &values) { unordered(to, values); }
};
template <class K, class V> struct Text<std::unordered_map<K, V>> {
   static void add(std::string &to, const std::unordered_map<K, V> &values) { unordered(to, values); }
};
template <class K, class V> struct Text<std::unordered_multimap<K, V>> {
   static void add(std::string &to, const std::unordered_multimap<K, V> &values) { unordered(to, values); }
};

template <class T>
ROOT::RDF::RResultPtr<std::vector<std::string>> texts(ROOT::RDF::RNode df, const std::string &column) {
   auto text = [](const T &value) { std::string made; add<T>(made, value); return made; };
   return df.Define("fbtest_text", text, {column}).template Take<std::string>("fbtest_text");
}
}
"""


def normal(kind: str) -> str:
    """Return the name of a type without the aliases by which trees know it, such as Float_t."""
    return str(ROOT.Internal.GetRenormalizedTypeName(kind))


def read_alone(files: list[str], name: str, column: str) -> list[str] | None:
    """Return what ROOT reads of a column in a loop of its own; None if it cannot read it.

    It lists columns of classes without a dictionary, too, and cannot read an object and its members in the same loop.
    """
    frame = ROOT.RDataFrame(name, files)
    try:
        read = ROOT.fbtest.texts[str(frame.GetColumnType(column))](ROOT.RDF.AsRNode(frame), column)
        return [str(text) for text in read.GetValue()]
    except Exception:
        return None


def compare(files: list[str], name: str, given: argparse.Namespace) -> dict[str, object]:
    """Compare the columns of both dataframes."""
    native = ROOT.RDataFrame(name, files)
    own = fb.rdataframe(files, name, block_size=given.block)
    theirs = [str(name) for name in native.GetColumnNames()]
    ours = [str(name) for name in own.GetColumnNames()]
    both = given.columns or [name for name in theirs if name in set(ours) and name not in given.without]
    types = {name: (str(native.GetColumnType(name)), str(own.GetColumnType(name))) for name in both}
    chosen = both[:: len(both) // given.most + 1] if given.most and len(both) > given.most else both
    file = ROOT.TFile.Open(files[0])
    is_tree = str(file.GetKey(name).GetClassName()) == "TTree"
    booked, errors, not_in_root = [], {}, []
    for column in chosen:
        kind = types[column][1]
        try:
            text = ROOT.fbtest.texts[kind]
            here = text(ROOT.RDF.AsRNode(own), column)
        except Exception as error:
            errors[column] = f"{kind}: {error}"[:500]
            continue
        try:
            there = read_alone(files, name, column) if is_tree else text(ROOT.RDF.AsRNode(native), column)
        except Exception:  # std::optional, whose name ROOT does not recognize
            there = None
        if there is None:
            not_in_root.append(column)
        else:
            booked.append((column, there, here))
    differ = {}
    for column, there, here in booked:
        a = there if is_tree else [str(x) for x in there.GetValue()]
        b = [str(x) for x in here.GetValue()]
        if given.threads:  # the order of tasks is undefined
            a, b = sorted(a), sorted(b)
        if a != b:
            at = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
            differ[column] = [at, len(a), len(b), *[x[at][:80] if at < len(x) else None for x in (a, b)]]
    only_root = {
        column: read_alone(files, name, column) is not None for column in sorted({*theirs} - {*ours, *given.without})
    }
    return {
        "only_root": {name: str(native.GetColumnType(name)) for name, readable in only_root.items() if readable},
        "unreadable_in_root": [name for name, readable in only_root.items() if not readable],
        "only_femtobarn": sorted(set(ours) - set(theirs)),
        "types": {name: pair for name, pair in types.items() if len(set(map(normal, pair))) > 1},
        "compared": len(booked),
        "differ": differ,
        "errors": errors,
        "not_in_root": not_in_root,
        "entries": own.Count().GetValue(),
    }


def main() -> None:
    """Compare, and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", nargs="+", help="NAME=FILE,FILE,…")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--load", nargs="*", default=[], help="libraries with dictionaries, and headers")
    parser.add_argument("--block", default=None)
    parser.add_argument("--columns", nargs="*", default=[], help="only these columns")
    parser.add_argument("--without", nargs="*", default=[], help="not these columns")
    parser.add_argument("--dictionaries", nargs="*", default=[], help="collections that need a dictionary")
    given = parser.parse_args()
    for name in given.load:
        if name.endswith(".so"):
            assert ROOT.gSystem.Load(name) == 0, name
        else:
            assert ROOT.gInterpreter.Declare(f'#include "{name}"'), name
    assert ROOT.gInterpreter.Declare(CODE)
    for kind in given.dictionaries:
        ROOT.gInterpreter.GenerateDictionary(kind, "map;set;string;unordered_map;unordered_set;vector;utility")
    if given.threads:
        ROOT.EnableImplicitMT(given.threads)
    for text in given.inputs:
        name, files = text.split("=", 1)
        result = compare(files.split(","), name, given)
        print("RESULT " + json.dumps({"input": text, **result}), flush=True)


if __name__ == "__main__":
    main()
