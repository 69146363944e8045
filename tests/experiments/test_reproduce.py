"""Reproducing: plans of each unit once, and files of what is there."""

import importlib.util
import json
import sys
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from priormtl import experiments
from priormtl.datasets.loaders import LOADERS
from priormtl.exceptions import MissingDataError
from priormtl.experiments import (
    PLANS,
    Request,
    Store,
    plan,
    reproduce,
    reproduction,
    runner,
)
from priormtl.experiments.methods import METHODS, PRIORS
from priormtl.experiments.protocol import PROTOCOLS, find_protocol, load_rows
from priormtl.experiments.rendering.claims import claims_table
from priormtl.experiments.rendering.measurements import (
    CONTROLS,
    Measurements,
    Results,
)
from priormtl.experiments.rendering.tables import prior_table
from priormtl.experiments.reproduction import (
    WRONG,
    WRONG_SIZES,
    describe_protocol,
    needed_sets,
    split_ratio,
)
from priormtl.experiments.units import (
    INSTANCES,
    KINDS,
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
)
from priormtl.rendering import to_markdown

# Plans.

SIX = ("school", "sarcos", "yale", "mnist", "letter", "orl")
UNITS = {
    "table1": ScoreUnit,
    "table2": ScoreUnit,
    "figure1": ConvergenceUnit,
    "figure2": RocUnit,
    "figure3": SurfaceUnit,
    "curves": ScoreUnit,
}
on_small_sets = pytest.mark.usefixtures("small_sets")
at_any_pace = pytest.mark.parametrize("quick", [False, True])


def set_of(unit):
    if isinstance(unit, ConvergenceUnit):
        return INSTANCES[unit.problem].dataset or "synthetic"
    return unit.dataset


def scores(what, **options):
    return [unit for unit in plan(what, **options) if isinstance(unit, ScoreUnit)]


@on_small_sets
@at_any_pace
def test_all_is_the_parts_and_each_unit_is_planned_once(tmp_path, quick):
    units = plan("all", quick=quick)
    assert set(units) == set().union(*(plan(what, quick=quick) for what in PLANS))
    assert len({Store(tmp_path).path(unit.settings()) for unit in units}) == len(units)
    assert units == plan("all", quick=quick)
    # Early units are of all sets.
    repeats = [getattr(unit, "repeat", 0) for unit in units]
    assert repeats == sorted(repeats)


@on_small_sets
@pytest.mark.parametrize("what", PLANS)
@at_any_pace
def test_a_part_has_units_of_its_kind_over_its_sets(what, quick):
    units = plan(what, quick=quick)
    assert {type(unit) for unit in units} == {UNITS[what]}
    assert {set_of(unit) for unit in units} == set(PLANS[what].datasets)
    assert all(unit.quick == quick for unit in units)
    rest = plan(what, quick=quick, without=("school", "yale"))
    assert rest == [u for u in units if set_of(u) not in ("school", "yale")]


@on_small_sets
@at_any_pace
def test_every_planned_method_applies(quick):
    for unit in scores("all", quick=quick):
        assert METHODS[unit.method].applies(load_rows(unit.dataset)), unit.label


@on_small_sets
def test_the_papers_cells_are_planned_ten_times():
    planned = {
        (unit.dataset, unit.method, unit.repeat)
        for unit in [*scores("table1"), *scores("table2")]
        if unit.size is None and unit.wrong is None
    }
    assert planned >= {*product(SIX, ("natural", "artificial"), range(10))}


@on_small_sets
def test_every_method_is_in_a_table():
    shown = set(METHODS) - set(CONTROLS)
    assert {unit.method for unit in scores("table1")} == shown


@on_small_sets
def test_sets_of_many_pixels_have_no_variants_of_ours():
    shown = {}
    for unit in scores("table2"):
        shown.setdefault(unit.dataset, set()).add(unit.method)
    variants = {"none-chain-tied", "none-mean", "none-mean-tied"}
    for dataset, methods in shown.items():
        assert methods & variants == (variants if "letter" in dataset else set())


@on_small_sets
def test_all_methods_of_a_cell_see_the_same_repeats():
    repeats = {}
    for unit in scores("all"):
        cell = (unit.dataset, unit.size, unit.wrong, unit.method)
        repeats.setdefault(cell, set()).add(unit.repeat)
    assert {frozenset(found) for found in repeats.values()} == {
        frozenset(range(10)),
    }


@on_small_sets
def test_curves_compare_all_priors_at_every_size():
    planned = {}
    for unit in scores("curves"):
        key = (unit.method, unit.size, unit.wrong)
        planned.setdefault(unit.dataset, set()).add(key)
    assert set(planned) == set(PROTOCOLS)
    for name, cells in planned.items():
        curves = dict.fromkeys(PRIORS) | CONTROLS
        expected = {
            (method, size, wrong)
            for method, wrong in curves.items()
            if METHODS[method].applies(load_rows(name))
            for size in find_protocol(name).sizes
        }
        if name == "mnist":
            compared = {"none": None, "expert": None, **CONTROLS}
            expected |= {(method, None, wrong) for method, wrong in compared.items()}
        varied = {cell for cell in cells if cell[0] == "expert" and cell[2] is not None}
        assert cells - varied - {("contradictory", WRONG_SIZES.get(name), 0.5)} == (
            expected
        )


@on_small_sets
@at_any_pace
def test_wrong_relations_are_compared_with_none_at_the_same_size(quick):
    units = scores("curves", quick=quick)
    wrong = [unit for unit in units if unit.wrong is not None]
    assert {unit.method for unit in wrong} == {"expert", "contradictory"}
    costly = {"yale", "mnist", "orl"} if quick else set()
    random = [unit for unit in wrong if unit.method == "expert"]
    assert {unit.dataset for unit in random} == set(WRONG_SIZES) - costly
    if not quick:
        cells = {(unit.dataset, unit.size, unit.wrong) for unit in random}
        assert cells == {(*cell, w) for cell in WRONG_SIZES.items() for w in WRONG}
    places = {(unit.dataset, unit.repeat, unit.size) for unit in wrong}
    assert places
    for method in ("none", "expert"):  # no relations, and none wrong
        right = [u for u in units if u.method == method and u.wrong is None]
        assert places <= {(unit.dataset, unit.repeat, unit.size) for unit in right}


@on_small_sets
def test_sets_left_out_are_not_loaded(monkeypatch):
    def fail():
        raise AssertionError

    monkeypatch.setitem(LOADERS, "mnist", fail)
    assert plan("all", without=("mnist",))


@on_small_sets
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


@on_small_sets
@pytest.mark.parametrize("what", ["table1", "table2", "curves", "all"])
def test_quick_is_a_small_part(what):
    assert len(plan(what, quick=True)) < 0.4 * len(plan(what))


@on_small_sets
def test_an_unknown_part_is_refused():
    for ask in (plan, needed_sets):
        with pytest.raises(ValueError, match="table9"):
            ask("table9")


# Reproducing.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"what": "table3"}, "unknown part of the paper 'table3'.*'table2'"),
        ({"force": ("ridge-singl",)}, "unknown method.*Did you mean 'ridge-single'"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"limit": -1.0}, "limit must be a positive number"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_read(tmp_path, changes, message):
    settings = {"what": "figure1", "out": tmp_path / "out"} | changes
    with pytest.raises(ValueError, match=message):
        reproduce(Request(**settings))
    assert not (tmp_path / "out").exists()


def test_a_missing_set_is_named_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=rf"school.npz.*{tmp_path}"):
        reproduce(Request("table1", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_leaves_out_what_is_not_at_hand_and_a_second_one_is_free(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    out = tmp_path / "out"
    request = Request("figure1", out, quick=True, skip_missing=True)
    first = reproduce(request)
    assert first.left_out == ("school",)
    assert (first.done, first.planned) == (3, 3)  # problems without data
    table = pq.read_table(out / "convergence.parquet")
    assert table.schema.equals(KINDS["convergence"][1])
    made = {name for name, one in INSTANCES.items() if one.dataset is None}
    assert set(table["problem"].to_pylist()) == made
    names = {"convergence.parquet", "figure1.svg", "figure1.png"}
    assert {path.name for path in first.files} == names
    contents = {path: path.read_bytes() for path in first.files}
    noted = json.loads((out / "run.json").read_text())
    assert noted["seconds"] > 0
    monkeypatch.setattr(reproduction, "render", lambda *_: [])  # draws the same
    second = reproduce(request)
    assert (second.outcome.computed, second.outcome.found) == (0, 3)
    assert {path.name for path in second.files} == {"convergence.parquet"}
    assert {path: path.read_bytes() for path in contents} == contents
    assert json.loads((out / "run.json").read_text()) == noted


@pytest.mark.usefixtures("small_sets")
def test_forced_methods_are_computed_again_and_others_are_not(tmp_path, monkeypatch):
    asked = []

    def run(units, store, *, force, **options):
        asked.extend(unit for unit in units if force(unit))
        return runner.Outcome(0, 0)

    monkeypatch.setattr(reproduction.runner, "run", run)
    monkeypatch.setattr(reproduction, "_check", lambda request: ())
    reproduce(Request("table1", tmp_path, quick=True, force=("mixed", "dmtl")))
    assert {unit.method for unit in asked} == {"mixed", "dmtl"}


@pytest.mark.usefixtures("real_sets", "unsaved")
def test_everything_can_be_shown_before_anything_is_computed(tmp_path):
    report = reproduce(Request("all", tmp_path, quick=True, compute=False))
    assert report.done == 0
    assert report.planned == len(plan("all", quick=True))
    assert "0 of 2" in (tmp_path / "results.md").read_text()
    for name in ("table1.md", "table2.tex", "figure2.svg", "learning.png"):
        assert tmp_path / name in report.files
    assert all(path.exists() for path in report.files)


@pytest.mark.usefixtures("real_sets")
def test_ratios_are_test_rows_over_training_rows():
    assert split_ratio("yale", None) == pytest.approx(2 / 3, abs=0.1)
    assert split_ratio("school", None) == pytest.approx(4.5, abs=0.1)
    assert split_ratio("sarcos", None) == 1900 / 50


@pytest.mark.parametrize("quick", [False, True])
def test_the_numbers_of_the_description_are_those_of_the_protocols(quick):
    text = describe_protocol(quick=quick)
    for name in PROTOCOLS:
        protocol = find_protocol(name, quick=quick)
        assert f"{protocol.budget.settings} ({name})" in text
        assert f"gap at most {protocol.tol:g} " in text
    assert ("quick run" in text) == quick


@pytest.mark.parametrize("package", ["pebble", "pyarrow"])
def test_the_extra_is_named_where_a_package_is_missing(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    spec = importlib.util.spec_from_file_location("copy", experiments.__file__)
    with pytest.raises(
        ModuleNotFoundError,
        match=rf"^priormtl.experiments needs {package}: .*'priormtl\[reproduce\]'\.$",
    ):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_names_of_the_room_are_found_and_others_are_not():
    for name in experiments.__all__:
        assert getattr(experiments, name) is not None
    assert callable(experiments.reproduce)
    with pytest.raises(AttributeError, match="has no attribute 'reproduces'"):
        _ = experiments.reproduces


@pytest.mark.slow
@pytest.mark.usefixtures("real_sets")
def test_the_page_of_the_repository_says_what_its_rows_say():
    docs = Path(__file__).parents[2] / "docs"
    rows = {kind: pq.read_table(docs / f"results/{kind}.parquet") for kind in KINDS}
    measurements = Measurements.of(
        rows.pop("scores"),
        test_to_train=split_ratio,
        labels={name: method.label for name, method in METHODS.items()},
    )
    page = (docs / "results.md").read_text("utf-8")
    assert to_markdown(claims_table(Results(measurements, **rows))) in page
    assert to_markdown(prior_table(measurements)) in page
