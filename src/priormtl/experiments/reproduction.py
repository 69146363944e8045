"""Reproduce the paper: plan, compute what is missing, collect and render.

A plan lists the units that a table, a figure or the curves need. ``reproduce`` runs
those that are not stored yet and writes rows, tables, figures and the page of results.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import chain, product
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from priormtl.datasets import SOURCES, check_source
from priormtl.exceptions import MissingDataError, unknown_name
from priormtl.experiments import runner
from priormtl.experiments.methods import (
    COMPARED,
    METHODS,
    MOST_SETTINGS,
    OURS,
    PRIORS,
)
from priormtl.experiments.protocol import (
    MOST_FOLDS,
    PROTOCOLS,
    SARCOS_ROWS,
    SCHOOL_ROWS,
    SHARED_ROWS,
    TRAINING_SHARE,
    find_protocol,
    load_rows,
)
from priormtl.experiments.rendering.measurements import (
    CONTROLS,
    Measurements,
    Results,
    Setting,
)
from priormtl.experiments.rendering.page import Facts, render, render_page
from priormtl.experiments.units import (
    INSTANCES,
    KINDS,
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
    school_in_sample,
)
from priormtl.rendering import join_words

# Plans.

Unit = ScoreUnit | RocUnit | SurfaceUnit | ConvergenceUnit
COSTLY = ("yale", "mnist", "orl")  # sets of many pixels, where a search takes long
# Training rows per task, or images per class, at which relations are made wrong.
WRONG_SIZES = {"school": 5, "yale": 2, "mnist": 5, "letter": 5}
WRONG = (0.5, 1.0)  # share of relations


class Plan(NamedTuple):
    """Data sets that a part of the paper needs, and the units of one of them."""

    datasets: tuple[str, ...]
    units: Callable[[str, bool], Iterable[Unit]]


def plan(what: str, *, quick: bool = False, without: Sequence[str] = ()) -> list[Unit]:
    """All units of a table, a figure, the curves, or everything; each once."""
    units = chain.from_iterable(
        part.units(dataset, quick)
        for part in _find_plans(what)
        for dataset in part.datasets
        if dataset not in without
    )

    # One repeat after the other: early results cover all data sets. Scores and ROC
    # curves of one fit, which are of one family, follow each other.
    def place(unit: Unit) -> tuple[int, tuple[str, ...]]:
        repeat = 0 if isinstance(unit, ConvergenceUnit) else unit.repeat
        return repeat, unit.family

    return sorted(dict.fromkeys(units), key=place)


def needed_sets(what: str) -> tuple[str, ...]:
    wanted = chain.from_iterable(part.datasets for part in _find_plans(what))
    return tuple(name for name in dict.fromkeys(wanted) if name in PROTOCOLS)


def _find_plans(what: str) -> Iterable[Plan]:
    if what == "all":
        return PLANS.values()
    if what not in PLANS:
        raise unknown_name("part of the paper", what, (*PLANS, "all"))
    return (PLANS[what],)


def _repeats(quick: bool) -> range:
    return range(2 if quick else 10)


def _plan_table(dataset: str, quick: bool) -> Iterator[Unit]:
    wanted = {*METHODS} - {*CONTROLS}
    if quick:
        simple = {"none-mean-tied", "ridge-single", "ridge-pooled", "mixed"}
        wanted = {*PRIORS, *COMPARED} | simple
    elif dataset in COSTLY:
        wanted -= {*OURS} - {*PRIORS, "separate"}
        if dataset == "mnist":  # whose grid has one epsilon, and whose fits are long
            wanted -= {"separate"}
    elif dataset == "school":  # 139 tasks: one nuclear norm takes minutes
        wanted -= {"nuclear"}
    data = load_rows(dataset)
    for repeat, (name, method) in product(_repeats(quick), METHODS.items()):
        if name in wanted and method.applies(data):
            yield ScoreUnit(dataset, name, repeat, quick=quick)


def _plan_curves(dataset: str, quick: bool) -> Iterator[Unit]:
    """Learning curves of all priors with their controls; wrong relations."""
    data = load_rows(dataset)
    sizes = find_protocol(dataset, quick=quick).sizes
    costly = quick and dataset in COSTLY
    curves = dict.fromkeys(PRIORS) | ({} if costly else CONTROLS)
    for repeat, size, (name, wrong) in product(_repeats(quick), sizes, curves.items()):
        if METHODS[name].applies(data):
            yield ScoreUnit(dataset, name, repeat, size, wrong, quick)
    # Here the expert prior gains at the paper's split, and needs its controls there.
    if dataset == "mnist" and not quick:
        compared = {"none": None, "expert": None, **CONTROLS}
        for repeat, (name, wrong) in product(_repeats(quick), compared.items()):
            yield ScoreUnit(dataset, name, repeat, wrong=wrong)
    if dataset not in WRONG_SIZES or costly:
        return
    size = WRONG_SIZES[dataset]
    # Random relations, and reversed ones.
    wrong = product(("expert", "contradictory"), WRONG[-1:] if quick else WRONG)
    cells = [("none", None), ("expert", None), *wrong]
    for repeat, (method, share) in product(_repeats(quick), cells):
        yield ScoreUnit(dataset, method, repeat, size, share, quick)


PLANS: Mapping[str, Plan] = {
    "table1": Plan(("school", "sarcos"), _plan_table),
    "table2": Plan(("yale", "mnist", "letter", "letter_uci", "orl"), _plan_table),
    "figure1": Plan(
        ("synthetic", "school"),
        lambda name, quick: [
            ConvergenceUnit(problem, quick)
            for problem, instance in INSTANCES.items()
            if (instance.dataset or "synthetic") == name
        ],
    ),
    "figure2": Plan(
        ("yale", "mnist", "orl"),
        lambda name, quick: [
            RocUnit(name, repeat=k, quick=quick) for k in _repeats(quick)
        ],
    ),
    "figure3": Plan(
        ("school", "yale", "orl"),
        lambda name, quick: [SurfaceUnit(name, k, quick) for k in _repeats(quick)],
    ),
    "curves": Plan(tuple(PROTOCOLS), _plan_curves),
}


# Reproducing.


@dataclass(frozen=True)
class Request:
    """What to reproduce, and how."""

    what: str
    out: Path
    quick: bool = False
    jobs: int = 1
    limit: float | None = None  # seconds per unit
    force: tuple[str, ...] = ()  # methods to compute again
    compute: bool = True  # False: render what is there
    skip_missing: bool = False  # leave out data sets that are not at hand
    page: Path | None = None  # where the page of results goes; None: into out


@dataclass(frozen=True)
class Report:
    """What was done, and the files that were written."""

    outcome: runner.Outcome
    done: int  # units whose rows are there
    planned: int
    left_out: tuple[str, ...]  # data sets that are not at hand
    files: tuple[Path, ...]


def reproduce(
    request: Request, callback: Callable[[runner.Event], None] = lambda event: None
) -> Report:
    """Compute what is missing, then write rows, tables, figures and the page."""
    left_out = _check(request)
    units = plan(request.what, quick=request.quick, without=left_out)
    store = runner.Store(request.out / "units")
    outcome = runner.Outcome(0, 0)
    if request.compute:
        forced = {
            unit
            for unit in units
            if isinstance(unit, ScoreUnit | RocUnit) and unit.method in request.force
        }
        # The page shows the time of all runs into the folder, including killed ones.
        clock = runner.Clock(request.out, request.jobs)

        def note(event: runner.Event) -> None:
            clock.note(every=10.0)  # what a kill may leave out of the count
            callback(event)

        outcome = runner.run(
            units,
            store,
            jobs=request.jobs,
            limit=request.limit,
            force=forced.__contains__,
            callback=note,
        )
        if outcome.computed:
            clock.note()
    # Files are made of all rows in the store, whether computed now or before.
    tables = runner.collect(units, store)
    rows = {}
    for kind, (unit_type, schema) in KINDS.items():
        parts = [
            table
            for unit, table in zip(units, tables, strict=True)
            if isinstance(unit, unit_type) and table is not None
        ]
        rows[kind] = pa.concat_tables(parts) if parts else schema.empty_table()
    request.out.mkdir(parents=True, exist_ok=True)
    files = [request.out / f"{kind}.parquet" for kind in rows if rows[kind].num_rows]
    for path in files:
        runner.write_table(path, rows[path.stem])
    measurements = Measurements.of(
        rows.pop("scores"),
        test_to_train=split_ratio,
        labels={name: method.label for name, method in METHODS.items()},
        planned=[
            Setting(unit.dataset, unit.method, unit.size, unit.wrong)
            for unit in units
            if isinstance(unit, ScoreUnit)
        ],
    )
    results = Results(measurements, **rows)
    files += render(request.what, results, request.out)
    if request.what == "all":
        page = request.page or request.out / "results.md"
        files.append(render_page(results, _facts(request), request.out, page))
    done = sum(table is not None for table in tables)
    return Report(outcome, done, len(units), left_out, tuple(files))


def _check(request: Request) -> tuple[str, ...]:
    """Data sets that are not at hand; mistakes are told before anything is computed."""
    names = needed_sets(request.what)
    for name in request.force:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if request.jobs < 1:
        raise ValueError(f"jobs must be at least 1: got {request.jobs}.")
    if request.limit is not None and not request.limit > 0:
        raise ValueError(f"limit must be a positive number: got {request.limit}.")
    findings = [check_source(SOURCES[name]) for name in names]
    absent = [finding for finding in findings if finding.state != "found"]
    missing = tuple(finding.source.name for finding in absent)
    if absent and not request.skip_missing:
        raise MissingDataError(
            f"{absent[0].message} To leave out {', '.join(missing)}, use "
            "--skip-missing."
        )
    return missing


@cache
def split_ratio(dataset: str, size: int | None) -> float:
    """Test rows over training rows."""
    draw = PROTOCOLS[dataset].draw
    train, test = draw(load_rows(dataset), np.random.default_rng(0), size)
    return len(test) / len(train)


# The page of results.


def _facts(request: Request) -> Facts:
    school = check_source(SOURCES["school"]).state == "found"
    elapsed = runner.read_elapsed(request.out)
    system = f"{platform.system()} {platform.machine()}"
    packages = ("priormtl", "numpy", "scipy", "scikit-learn", "statsmodels", "pyarrow")
    budgets = {
        name: find_protocol(name, quick=request.quick).budget for name in PROTOCOLS
    }
    return Facts(
        command=f"priormtl reproduce all{' --quick' if request.quick else ''}",
        seconds=elapsed.seconds,
        machine=f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}",
        versions={name: version(name) for name in packages},
        n_repeats=len(_repeats(request.quick)),
        protocol=describe_protocol(quick=request.quick),
        n_jobs=elapsed.jobs,
        note=elapsed.note,
        school_in_sample=school_in_sample() if school else None,
        grids={
            name: {"lam": grid.lams, "theta": grid.thetas, "epsilon": grid.epsilons}
            for name, grid in budgets.items()
        },
        n_features={
            name: len(load_rows(name).feature_names)
            for name in PROTOCOLS
            if check_source(SOURCES[name]).state == "found"
        },
    )


def describe_protocol(*, quick: bool) -> str:
    protocols = [find_protocol(name, quick=quick) for name in PROTOCOLS]
    most = {p.most for p in protocols if p.most is not None}
    accuracy = []  # gap relative to the objective at P = 0, and for which sets
    for tol in dict.fromkeys(p.tol for p in protocols):
        names = join_words(p.dataset for p in protocols if p.tol == tol)
        where = "" if len({p.tol for p in protocols}) == 1 else f" on {names}"
        accuracy.append(f"gap at most {tol:g} of the objective at P = 0{where}")
    template = Path(__file__).with_name("protocol.md").read_text("utf-8")
    return Template(template.rstrip()).substitute(
        school_rows=SCHOOL_ROWS,
        shared_rows=SHARED_ROWS,
        sarcos_rows=SARCOS_ROWS,
        sarcos_tests=SARCOS_ROWS - max(PROTOCOLS["sarcos"].sizes),
        share=f"{TRAINING_SHARE:.0%}",
        cut=f" (cut to {max(most)} per class in this quick run)" if most else "",
        folds=MOST_FOLDS,
        budgets=join_words(f"{p.budget.settings} ({p.dataset})" for p in protocols),
        others=join_words(f"{p.n_settings} ({p.dataset})" for p in protocols),
        fewer=join_words(
            f"{p.held_out} ({p.dataset})" for p in protocols if p.held_out < MOST_FOLDS
        ),
        accuracy=join_words(accuracy),
        most_settings=MOST_SETTINGS,
    )
