"""Writes the files of testdata/container with ROOT, and what ROOT and uproot find in them.

Needs PyROOT (6.30 or newer) and uproot. Run as `python make_container.py`; the result is the same
every time, because the files are written in ROOT's reproducible mode.

`expected.tsv` has one line for each

    key      file, path, cycle, class, title, size of the object, CRC-32 of the object
    info     file, class, version, checksum, number of elements
    element  file, class, kind, name, title, type, array length

with the keys, infos and elements read by ROOT, and the bytes of the objects by uproot.
"""

import pathlib
import tempfile
import zlib

import ROOT
import uproot

HERE = pathlib.Path(__file__).parent / "container"
COMPRESSIONS = {"none": 0, "zlib": 101, "old": 301, "lzma": 207, "lz4": 404, "zstd": 505}


# A class with a member of each kind that streamer elements tell apart, and a rule of schema evolution.
KINDS = """
#include <map>
#include <string>
#include <vector>
#include "TNamed.h"
#include "TObjString.h"

struct FbPart {
   int a = 1;
   virtual ~FbPart() {}
   ClassDef(FbPart, 2);
};

class FbKinds : public TNamed, public FbPart {
public:
   int n = 0;
   float numbers[2][3] = {};
   double *counted = nullptr; //[n]
   FbPart *looped = nullptr; //[n]
   TString text = "text";
   std::string word = "word";
   std::vector<int> vec{1, 2};
   std::map<int, float> map{{1, 2.f}};
   TObjString object;
   TObjString *pointer = nullptr;
   FbPart any;
   FbPart *anyPointer = nullptr;
   FbPart parts[2];
   Double32_t half = 0.5; //[0,1,16]
   ClassDefOverride(FbKinds, 7);
};

#ifdef __ROOTCLING__
#pragma link C++ class FbPart+;
#pragma link C++ class FbKinds+;
#pragma read sourceClass="FbPart" targetClass="FbPart" version="[1]" source="int a" target="a" \\
   code="{ a = onfile.a; }"
#endif
"""


def create(name, compression=101):
    """A new file whose dates and identifier do not depend on the day."""
    path = HERE / name
    path.unlink(missing_ok=True)
    file = ROOT.TFile.Open(f"{path}?reproducible={name}", "RECREATE", f"title of {name}")
    file.SetCompressionSettings(compression)
    return file


def make_objects(name, compression):
    """Objects of the usual classes."""
    with create(name, compression) as file:
        ROOT.gRandom.SetSeed(1)
        named = ROOT.TNamed("named", "a title " + "that repeats itself " * 40)
        named.Write()
        h1 = ROOT.TH1D("h1", "one dimension;x;entries", 50, -3, 3)
        h1.FillRandom("gaus", 500)
        h1.Write()
        h2 = ROOT.TH2F("h2", "two dimensions", 8, 0, 1, 8, 0, 1)
        h2.Fill(0.5, 0.5, 3)
        h2.Write()
        if name == "objects_zstd.root":
            make_tree(file)
        for histogram in (h1, h2):
            histogram.SetDirectory(ROOT.nullptr)


def make_tree(file):
    """A tree with a base, arrays, strings and containers in its streamer infos."""
    tree = ROOT.TTree("tree", "a small tree")
    vector = ROOT.std.vector("float")([1.5, 2.5])
    words = ROOT.std.vector("std::string")(["a", "b"])
    lorentz = ROOT.TLorentzVector(1, 2, 3, 4)
    tree.Branch("vector", vector)
    tree.Branch("words", words)
    tree.Branch("lorentz", lorentz)
    for _ in range(10):
        tree.Fill()
    file.WriteObject(vector, "loose")
    tree.Write()


def make_elements():
    """An object of a class of our own."""
    with tempfile.TemporaryDirectory() as build:
        source = pathlib.Path(build, "fb_kinds.cxx")
        source.write_text(KINDS, encoding="utf-8")
        if not ROOT.gSystem.CompileMacro(str(source), "kO"):
            raise SystemExit("the classes of elements.root could not be compiled")
    with create("elements.root", 0) as file:
        kinds = ROOT.FbKinds()
        file.WriteTObject(kinds, "kinds")


def make_directories():
    """Directories in directories, one of them empty; names that need care."""
    with create("directories.root") as file:
        deep = file.mkdir("a/b/c", "a deep directory")
        deep.cd()
        ROOT.TNamed("deep", "in a/b/c").Write()
        file.cd("a")
        ROOT.TNamed("shallow", "in a").Write()
        file.mkdir("empty", "nothing in here")
        file.cd()
        ROOT.TNamed("top", "in the root directory").Write()
        file.WriteTObject(ROOT.TNamed("n", "a name with a slash"), "with/slash")
        file.WriteTObject(ROOT.TNamed("n", "Latin-1: \u00e9"), "gr\u00fc\u00dfe")
        file.WriteTObject(ROOT.TNamed("n", "long"), "long_" + "x" * 300)


def make_cycles():
    """Several cycles of a name, and gaps where others were."""
    with create("cycles.root", 0) as file:
        for cycle in range(1, 13):
            ROOT.TNamed("often", f"cycle {cycle}").Write()
            ROOT.TNamed("between", "x" * 100).Write()
        file.Delete("between;*")
        for cycle in (2, 3, 11):
            file.Delete(f"often;{cycle}")
        directory = file.mkdir("dir")
        directory.cd()
        ROOT.TNamed("often", "in dir").Write()
        ROOT.TNamed("often", "in dir, again").Write()


def make_empty():
    """A file without keys, and without streamer infos."""
    with create("empty.root"):
        pass


def keys_of(directory, path=""):
    """Path and key of everything, depth first."""
    for key in directory.GetListOfKeys():
        here = path + key.GetName()
        yield here, key
        if key.GetClassName() in ("TDirectory", "TDirectoryFile"):
            yield from keys_of(key.ReadObj(), here + "/")


def object_bytes(keys, path, cycle):
    """The object as uproot decompresses it."""
    chunk, cursor = keys[path, cycle].get_uncompressed_chunk_cursor()
    size = keys[path, cycle].fObjlen
    return bytes(chunk.get(cursor.index, cursor.index + size, cursor, {}))


def uproot_keys(directory, path=""):
    """As keys_of, with uproot; not by uproot's paths, which names with slashes confuse."""
    for key in directory._keys:
        here = path + key.fName
        yield (here, key.fCycle), key
        if key.fClassName in ("TDirectory", "TDirectoryFile"):
            yield from uproot_keys(key.get(), here + "/")


def describe(path):
    """The lines of expected.tsv about a file."""
    # uproot does not read the oldest compression: its objects are those of the file with zlib.
    readable = path.with_name(path.name.replace("_old", "_zlib"))
    with uproot.open(readable) as theirs, ROOT.TFile.Open(str(path)) as file:
        found = dict(uproot_keys(theirs))
        for name, key in keys_of(file):
            data = object_bytes(found, name, key.GetCycle())
            yield (
                "key",
                path.name,
                name,
                key.GetCycle(),
                key.GetClassName(),
                key.GetTitle(),
                key.GetObjlen(),
                zlib.crc32(data),
            )
        infos = file.GetStreamerInfoList() if file.GetSeekInfo() else []
        for info in infos:
            if info.ClassName() != "TStreamerInfo":
                continue
            elements = list(info.GetElements())
            yield ("info", path.name, info.GetName(), info.GetClassVersion(), info.GetCheckSum(), len(elements))
            for element in elements:
                yield (
                    "element",
                    path.name,
                    info.GetName(),
                    element.ClassName(),
                    element.GetName(),
                    element.GetTitle(),
                    element.GetTypeName(),
                    element.GetArrayLength(),
                )


def main():
    HERE.mkdir(exist_ok=True)
    for name, compression in COMPRESSIONS.items():
        make_objects(f"objects_{name}.root", compression)
    make_elements()
    make_directories()
    make_cycles()
    make_empty()
    with open(HERE / "expected.tsv", "w", encoding="utf-8") as out:
        for path in sorted(HERE.glob("*.root")):
            for line in describe(path):
                print(*line, sep="\t", file=out)


if __name__ == "__main__":
    main()
