"""Several files whose classes differ: ROOT writes them, each in a process with its own version of the classes."""

import pytest

import femtobarn as fb

pytestmark = pytest.mark.oracle

# Arguments: the file. CLASSES and LATE are replaced.
SCRIPT = """
import os, sys
import ROOT
ROOT.gInterpreter.Declare(r'''
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <variant>
#include <vector>

CLASSES
struct Flat { float x, y; };
struct Turned { float y, x; };

void write(const char *path) {
  auto model = ROOT::RNTupleModel::Create();
  auto n = model->MakeField<std::int32_t>("n");
  auto hit = model->MakeField<Hit>("hit");
  auto hits = model->MakeField<std::vector<Hit>>("hits");
  auto alone = model->MakeField<Alone>("alone");
  auto either = model->MakeField<std::variant<Flat, Hit>>("either");
  auto same = model->MakeField<std::variant<Flat, Turned>>("same");
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "Events", path);
  auto fill = [&](int i) {
    *n = i;
    *hit = MakeHit(i);
    hits->assign(i % 3, MakeHit(10 * i));
    if (i % 2) *same = Turned{1.f * i, 2.f * i}; else *same = Flat{3.f * i, 4.f * i};
    writer->Fill();
  };
  for (int i = 0; i < 5; ++i) fill(i);
  auto updater = writer->CreateModelUpdater();
  updater->BeginUpdate();
  updater->AddField(std::make_unique<ROOT::RField<int>>("LATE"));
  updater->CommitUpdate();
  for (int i = 5; i < 10; ++i) fill(i);
}
''')
ROOT.write(sys.argv[1])
os._exit(0)
"""
VERSIONS = {
    "first.root": (
        """struct Hit { int a; float p; double extra; };
        struct Alone { int u; };
        Hit MakeHit(int i) { return {i, i + 0.5f, 7}; }""",
        "first_late",
    ),
    "second.root": (
        """struct Hit { double p; std::int16_t other; std::int16_t a; };
        struct Alone { int w; };
        Hit MakeHit(int i) { return {i + 0.5, 9, static_cast<std::int16_t>(i)}; }""",
        "other_late",
    ),
}


@pytest.fixture(scope="module")
def paths(run_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    for name, (classes, late) in VERSIONS.items():
        run_root(SCRIPT.replace("CLASSES", classes).replace("LATE", late), folder / name)
    return [folder / name for name in VERSIONS]


@pytest.mark.parametrize("turned", [False, True])
def test_members_that_all_files_have_are_read_whatever_their_order_and_width(paths, turned):
    files = paths[::-1] if turned else paths
    nt = fb.open(files)
    skipped = dict(nt.skipped)
    assert {"alone", "either", "first_late", "other_late", "hit.extra", "hit.other"} <= set(skipped)
    assert "alternatives" in skipped["either"]
    with pytest.warns(fb.UnreadableWarning, match="left out: "):
        arrays = nt.arrays()
    assert sorted(arrays.fields) == ["hit", "hits", "n", "same"]
    for start, file in zip((0, 10), files, strict=True):
        alone = fb.open(file).arrays()
        part = arrays[start : start + 10]
        assert part.n.to_list() == alone.n.to_list()
        assert part.same.to_list() == alone.same.to_list()
        for name in ("hit", "hits"):
            assert sorted(part[name].fields) == ["a", "p"]
            for member in "ap":
                assert part[name, member].to_list() == alone[name, member].to_list()
    for name in ("alone", "either", "hit.extra"):
        with pytest.raises(fb.KeyNotFoundError, match="skipped"):
            nt[name]
