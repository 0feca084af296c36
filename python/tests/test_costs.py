"""Numbers of requests and bytes are exact, so they are asserted."""

import pytest

import femtobarn as fb


@pytest.fixture(params=[True, False], ids=["mapped", "read"])
def options(request):
    return {"memory_map": request.param}


def spent(nt, work):
    before = nt.metrics
    work()
    after = nt.metrics
    names = ("requests", "bytes_read", "bytes_needed", "pages", "bytes_decoded")
    return {name: getattr(after, name) - getattr(before, name) for name in names}


def test_opening_costs_few_reads_and_no_page(dimuon, options):
    nt = fb.open(dimuon, **options)
    nt.keys()
    assert nt.metrics.requests <= 2
    assert nt.metrics.pages == 0


@pytest.mark.parametrize("names", [["Muon_pt"], ["Muon_pt", "Muon_eta"], ["run", "nMuon"], None])
def test_a_read_costs_what_was_planned(dimuon, options, names):
    nt = fb.open(dimuon, **options)
    plan = nt.explain(names)
    assert plan.exact
    cost = spent(nt, lambda: nt.arrays(names))
    assert cost == {name: getattr(plan, name) for name in cost}
    assert plan.bytes_needed <= plan.bytes_read


def test_a_part_costs_no_more_than_was_planned(dimuon, options):
    nt = fb.open(dimuon, **options)
    plan = nt.explain(["Muon_pt"], 4100, 4200)
    assert plan.num_entries == 100
    assert plan.clusters == 1
    cost = spent(nt, lambda: nt.arrays("Muon_pt", entry_start=4100, entry_stop=4200))
    assert cost["bytes_read"] <= plan.bytes_read < nt.explain(["Muon_pt"]).bytes_read


def test_planning_again_costs_nothing(dimuon, options):
    nt = fb.open(dimuon, **options)
    nt.explain()
    cost = spent(nt, lambda: (nt.explain(), repr(nt), nt.clusters, nt.num_entries_for("1 MB")))
    assert cost["requests"] == 0


def test_columns_of_one_collection_are_read_once(dimuon, options):
    nt = fb.open(dimuon, **options)
    one, two = nt.explain(["Muon_pt"]), nt.explain(["Muon_pt", "_collection0.Muon_pt", "nMuon"])
    assert (one.pages, one.bytes_needed) == (two.pages, two.bytes_needed)


def test_an_iteration_needs_each_byte_once(dimuon, options):
    nt = fb.open(dimuon, **options)
    plan = nt.explain(["Muon_pt", "run"])
    cost = spent(nt, lambda: list(nt.iterate(["Muon_pt", "run"], step_size=500)))
    assert cost["bytes_needed"] == plan.bytes_needed
