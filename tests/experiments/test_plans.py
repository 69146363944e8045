"""Plans: each unit once, all that is wanted and nothing that cannot be."""

from collections import Counter
from itertools import product

import pytest

from priormtl.experiments.methods import METHODS, PRIORS
from priormtl.experiments.plans import PLANS, SPOILED, WRONG, needed_sets, plan
from priormtl.experiments.protocol import PROTOCOLS, find_protocol, load_rows
from priormtl.experiments.store import digest_settings
from priormtl.experiments.units import (
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
)

SIX = ("school", "sarcos", "yale", "mnist", "letter", "orl")
KINDS = {
    "table1": ScoreUnit,
    "table2": ScoreUnit,
    "figure1": ConvergenceUnit,
    "figure2": RocUnit,
    "figure3": SurfaceUnit,
    "curves": ScoreUnit,
}
pytestmark = pytest.mark.usefixtures("small_sets")
every_part = pytest.mark.parametrize("what", [*PLANS, "all"])
at_any_pace = pytest.mark.parametrize("quick", [False, True])


def scores(what, **options):
    return [unit for unit in plan(what, **options) if isinstance(unit, ScoreUnit)]


@every_part
@at_any_pace
def test_each_unit_is_planned_once(what, quick):
    units = plan(what, quick=quick)
    assert units
    names = Counter(digest_settings(unit.settings()) for unit in units)
    assert set(names.values()) == {1}


@at_any_pace
def test_all_is_the_union_of_the_parts(quick):
    parts = set().union(*(plan(what, quick=quick) for what in PLANS))
    assert set(plan("all", quick=quick)) == parts


@pytest.mark.parametrize("what", PLANS)
@at_any_pace
def test_a_part_has_units_of_its_kind_over_its_sets(what, quick):
    units = plan(what, quick=quick)
    assert {type(unit) for unit in units} == {KINDS[what]}
    named = {getattr(unit, "dataset", getattr(unit, "problem", "")) for unit in units}
    assert named == set(PLANS[what].datasets)
    assert all(getattr(unit, "quick", quick) == quick for unit in units)


@at_any_pace
def test_every_planned_method_applies(quick):
    for unit in scores("all", quick=quick):
        assert METHODS[unit.method].applies(load_rows(unit.dataset)), unit.label


@pytest.mark.parametrize("dataset", SIX)
@pytest.mark.parametrize("prior", ["natural", "artificial"])
def test_the_papers_cells_are_planned_ten_times(dataset, prior):
    cells = {
        unit.repeat
        for what in ("table1", "table2")
        for unit in scores(what)
        if (unit.dataset, unit.method, unit.size) == (dataset, prior, None)
    }
    assert cells == set(range(10))


def test_every_method_is_in_a_table():
    assert {unit.method for unit in scores("table1")} == set(METHODS) - {"fedem-mlp"}


def test_all_methods_of_a_cell_see_the_same_repeats():
    repeats = {}
    for unit in scores("all"):
        cell = (unit.dataset, unit.size, unit.wrong, unit.method)
        repeats.setdefault(cell, set()).add(unit.repeat)
    assert {frozenset(found) for found in repeats.values()} == {
        frozenset(range(10)),
    }


@pytest.mark.parametrize("dataset", PROTOCOLS)
def test_curves_compare_all_priors_at_every_size(dataset):
    priors = [name for name in PRIORS if METHODS[name].applies(load_rows(dataset))]
    planned = {
        (unit.method, unit.size)
        for unit in scores("curves")
        if unit.dataset == dataset and unit.wrong is None
    }
    assert planned == set(product(priors, find_protocol(dataset).sizes))


@pytest.mark.parametrize("dataset", SPOILED)
def test_wrong_relations_are_compared_with_none_at_the_same_size(dataset):
    units = [unit for unit in scores("curves") if unit.dataset == dataset]
    wrong = [unit for unit in units if unit.wrong is not None]
    assert {unit.wrong for unit in wrong} == set(WRONG)
    assert {unit.method for unit in wrong} == {"expert"}
    beside = {(unit.repeat, unit.size) for unit in units if unit.method == "none"}
    assert {(unit.repeat, unit.size) for unit in wrong} <= beside


def test_wrong_relations_are_compared_quickly_too():
    units = scores("curves", quick=True)
    wrong = [unit for unit in units if unit.wrong is not None]
    beside = {
        (unit.dataset, unit.repeat, unit.size)
        for unit in units
        if unit.method == "none"
    }
    assert wrong
    assert {(unit.dataset, unit.repeat, unit.size) for unit in wrong} <= beside


@every_part
@at_any_pace
def test_sets_can_be_left_out(what, quick):
    rest = plan(what, quick=quick, without=("school", "yale"))
    assert rest == [
        unit
        for unit in plan(what, quick=quick)
        if getattr(unit, "dataset", getattr(unit, "problem", None))
        not in ("school", "yale")
    ]


def test_sets_left_out_are_not_loaded(monkeypatch):
    def fail():
        raise AssertionError

    monkeypatch.setattr("priormtl.datasets.load_mnist", fail)
    assert plan("all", without=("mnist",))


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("table1", {"school", "sarcos"}),
        ("table2", {"yale", "mnist", "letter", "letter_uci", "orl"}),
        ("figure1", {"school"}),
        ("figure2", {"yale", "mnist", "orl"}),
        ("figure3", {"school", "yale", "orl"}),
        ("curves", set(PROTOCOLS)),
        ("all", set(PROTOCOLS)),
    ],
)
def test_needed_sets_are_those_that_are_read(what, names):
    assert set(needed_sets(what)) == names
    assert len(needed_sets(what)) == len(names)


@pytest.mark.parametrize("what", ["table1", "table2", "curves", "all"])
def test_quick_is_a_small_part(what):
    assert len(plan(what, quick=True)) < 0.4 * len(plan(what))


@at_any_pace
def test_early_units_are_of_all_sets(quick):
    repeats = [getattr(unit, "repeat", 0) for unit in plan("all", quick=quick)]
    assert repeats == sorted(repeats)


@every_part
def test_a_plan_is_always_the_same(what):
    assert plan(what) == plan(what)


def test_an_unknown_part_is_refused():
    for ask in (plan, needed_sets):
        with pytest.raises(ValueError, match="table9"):
            ask("table9")
