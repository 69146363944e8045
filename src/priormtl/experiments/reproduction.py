"""Reproduce the paper: plan, compute what is missing, collect and render.

A plan lists the units that a table, a figure or the curves need. ``reproduce`` runs
those that are not stored yet and writes rows, tables, figures and the page of results.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from priormtl.experiments import rendering, runner
from priormtl.experiments.methods import (
    COMPARED,
    LABELS,
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
    Protocol,
    find_protocol,
    load_rows,
)
from priormtl.experiments.units import (
    KINDS,
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
    school_in_sample,
)

# Plans.

REPEATS = 10
QUICK_REPEATS = 2
REGRESSION = ("school", "sarcos")
CLASSIFICATION = ("yale", "mnist", "letter", "letter_uci", "orl")
ROC_SETS = ("yale", "mnist", "orl")
SURFACE_SETS = ("school", "yale", "orl")
# Sets of many pixels, where a search takes long, have no variants of ours.
COSTLY = ("yale", "mnist", "orl")
IN_TABLES = tuple(name for name in METHODS if name != "contradictory")
VARIANTS = tuple(name for name in OURS if name not in PRIORS)
QUICK_METHODS = (
    *PRIORS,
    "none-mean-tied",
    *COMPARED,
    "ridge-single",
    "ridge-pooled",
    "mixed",
)
# Training rows per task, or images per class, at which relations are made wrong.
WRONG_SIZES = {"school": 5, "yale": 2, "mnist": 5, "letter": 5}
WRONG_METHODS = ("expert", "contradictory")  # random relations, and reversed ones
WRONG = (0.5, 1.0)  # share of relations


class Plan(NamedTuple):
    """Data sets that a part of the paper needs, and the units of one of them."""

    datasets: tuple[str, ...]
    units: Callable[[str, bool], Iterable[runner.Unit]]


def plan(
    what: str, *, quick: bool = False, without: Sequence[str] = ()
) -> list[runner.Unit]:
    """All units of a table, a figure, the curves, or everything; each once."""
    units = chain.from_iterable(
        part.units(dataset, quick)
        for part in _find_plans(what)
        for dataset in part.datasets
        if dataset not in without
    )
    # One repeat after the other: early results cover all data sets. Scores and ROC
    # curves of one fit, which are of one family, follow each other.
    return sorted(
        dict.fromkeys(units), key=lambda unit: (getattr(unit, "repeat", 0), unit.family)
    )


def needed_sets(what: str) -> tuple[str, ...]:
    wanted = chain.from_iterable(part.datasets for part in _find_plans(what))
    return tuple(name for name in dict.fromkeys(wanted) if name in PROTOCOLS)


def _find_plans(what: str) -> Iterable[Plan]:
    if what not in EVERYTHING:
        raise unknown_name("part of the paper", what, EVERYTHING)
    return PLANS.values() if what == "all" else (PLANS[what],)


def _plan_table(dataset: str, quick: bool) -> Iterator[runner.Unit]:
    wanted = QUICK_METHODS if quick else IN_TABLES
    if dataset in COSTLY and not quick:
        wanted = tuple(name for name in wanted if name not in VARIANTS)
    data = load_rows(dataset)
    methods = [name for name in wanted if METHODS[name].applies(data)]
    for repeat, method in product(range(_repeats(quick)), methods):
        yield ScoreUnit(dataset, method, repeat, quick=quick)


def _plan_curves(dataset: str, quick: bool) -> Iterator[runner.Unit]:
    """Learning curves of all priors; wrong relations, none wrong, and no prior."""
    repeats = range(_repeats(quick))
    data = load_rows(dataset)
    priors = [name for name in PRIORS if METHODS[name].applies(data)]
    sizes = find_protocol(dataset, quick=quick).sizes
    for repeat, size, prior in product(repeats, sizes, priors):
        yield ScoreUnit(dataset, prior, repeat, size, quick=quick)
    if dataset not in WRONG_SIZES or (quick and dataset in COSTLY):
        return
    size = WRONG_SIZES[dataset]
    for repeat in repeats:
        yield ScoreUnit(dataset, "none", repeat, size, quick=quick)
        yield ScoreUnit(dataset, "expert", repeat, size, quick=quick)
        shares = WRONG[-1:] if quick else WRONG
        for method, wrong in product(WRONG_METHODS, shares):
            yield ScoreUnit(dataset, method, repeat, size, wrong, quick)


def _repeats(quick: bool) -> int:
    return QUICK_REPEATS if quick else REPEATS


PLANS: Mapping[str, Plan] = {
    "table1": Plan(REGRESSION, _plan_table),
    "table2": Plan(CLASSIFICATION, _plan_table),
    "figure1": Plan(
        ("synthetic", "school"), lambda name, quick: [ConvergenceUnit(name, quick)]
    ),
    "figure2": Plan(
        ROC_SETS,
        lambda name, quick: [
            RocUnit(name, repeat=k, quick=quick) for k in range(_repeats(quick))
        ],
    ),
    "figure3": Plan(
        SURFACE_SETS,
        lambda name, quick: [
            SurfaceUnit(name, k, quick) for k in range(_repeats(quick))
        ],
    ),
    "curves": Plan(tuple(PROTOCOLS), _plan_curves),
}
EVERYTHING = (*PLANS, "all")


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
    _check(request)
    left_out = _missing_sets(request)
    units = plan(request.what, quick=request.quick, without=left_out)
    store = runner.Store(request.out / "units")
    outcome = runner.Outcome(0, 0)
    if request.compute:
        # The page shows the time of all runs into the folder, including killed ones.
        clock = runner.Clock(request.out, request.jobs)

        def note(event: runner.Event) -> None:
            clock.note_sometimes()
            callback(event)

        outcome = runner.run(
            units,
            store,
            jobs=request.jobs,
            limit=request.limit,
            force=lambda unit: getattr(unit, "method", None) in request.force,
            callback=note,
        )
        if outcome.computed:
            clock.note()
    # Files are made of all rows in the store, whether computed now or before.
    tables = runner.collect(units, store)
    parts: dict[str, list[pa.Table]] = {kind: [] for kind in KINDS}
    for unit, table in zip(units, tables, strict=True):
        if table is not None:
            parts[str(unit.settings()["kind"])].append(table)
    rows = {
        kind: pa.concat_tables(found) if found else KINDS[kind].empty_table()
        for kind, found in parts.items()
    }
    request.out.mkdir(parents=True, exist_ok=True)
    files = [request.out / f"{kind}.parquet" for kind in KINDS if rows[kind].num_rows]
    for path in files:
        runner.write_table(path, rows[path.stem])
    planned = [
        (unit.dataset, unit.method, unit.size, unit.wrong, unit.repeat)
        for unit in units
        if isinstance(unit, ScoreUnit)
    ]
    measurements = rendering.Measurements.of(
        rows["scores"], test_to_train=split_ratio, labels=LABELS, planned=planned
    )
    others = (rows[kind] for kind in ("convergence", "roc", "surfaces"))
    results = rendering.Results(measurements, *others)
    files += rendering.render(request.what, results, request.out)
    if request.what == "all":
        page = request.page or request.out / "results.md"
        files.append(rendering.render_page(results, _facts(request), request.out, page))
    done = sum(table is not None for table in tables)
    return Report(outcome, done, len(units), left_out, tuple(files))


def _check(request: Request) -> None:
    if request.what not in EVERYTHING:
        raise unknown_name("part of the paper", request.what, EVERYTHING)
    for name in request.force:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if request.jobs < 1:
        raise ValueError(f"jobs must be at least 1: got {request.jobs}.")
    if request.limit is not None and not request.limit > 0:
        raise ValueError(f"limit must be a positive number: got {request.limit}.")


def _missing_sets(request: Request) -> tuple[str, ...]:
    """Data sets that are not at hand, known before anything is computed."""
    findings = [check_source(SOURCES[name]) for name in needed_sets(request.what)]
    absent = [finding for finding in findings if finding.state != "found"]
    names = tuple(finding.source.name for finding in absent)
    if absent and not request.skip_missing:
        raise MissingDataError(
            f"{absent[0].message} To leave out {', '.join(names)}, use --skip-missing."
        )
    return names


@cache
def split_ratio(dataset: str, size: int | None) -> float:
    protocol = PROTOCOLS[dataset]
    train, test = protocol.draw(load_rows(dataset), np.random.default_rng(0), size)
    return len(test) / len(train)


# The page of results.

PACKAGES = ("priormtl", "numpy", "scipy", "scikit-learn", "statsmodels", "pyarrow")


def _facts(request: Request) -> rendering.Facts:
    school = check_source(SOURCES["school"]).state == "found"
    explained = school_in_sample() if school else None
    elapsed = runner.read_elapsed(request.out)
    system = f"{platform.system()} {platform.machine()}"
    python = f"Python {platform.python_version()}"
    return rendering.Facts(
        command=f"priormtl reproduce all{' --quick' if request.quick else ''}",
        seconds=elapsed.seconds,
        machine=f"{os.cpu_count()} cores, {system}, {python}",
        versions={name: version(name) for name in PACKAGES},
        n_repeats=_repeats(request.quick),
        protocol=describe_protocol(quick=request.quick),
        n_jobs=elapsed.jobs,
        note=elapsed.note,
        school_in_sample=explained,
        grids={
            name: {
                strength.removesuffix("s"): values
                for strength, values in asdict(
                    find_protocol(name, quick=request.quick).budget
                ).items()
            }
            for name in PROTOCOLS
        },
    )


def describe_protocol(*, quick: bool) -> str:
    protocols = [find_protocol(name, quick=quick) for name in PROTOCOLS]
    most = {p.most for p in protocols if p.most is not None}
    cut = f" (cut to {max(most)} per class in this quick run)" if most else ""
    budgets = [f"{p.budget.settings} ({p.dataset})" for p in protocols]
    others = [f"{p.n_settings} ({p.dataset})" for p in protocols]
    fewer = [
        f"{p.held_out} ({p.dataset})" for p in protocols if p.held_out < MOST_FOLDS
    ]
    template = Path(__file__).with_name("protocol.md").read_text("utf-8")
    return Template(template.rstrip()).substitute(
        school_rows=SCHOOL_ROWS,
        shared_rows=SHARED_ROWS,
        sarcos_rows=SARCOS_ROWS,
        share=f"{TRAINING_SHARE:.0%}",
        cut=cut,
        folds=MOST_FOLDS,
        budgets=rendering.join_words(budgets),
        others=rendering.join_words(others),
        fewer=rendering.join_words(fewer),
        sarcos_tests=SARCOS_ROWS - max(PROTOCOLS["sarcos"].sizes),
        accuracy=rendering.join_words(_describe_accuracy(protocols)),
        most_settings=MOST_SETTINGS,
    )


def _describe_accuracy(protocols: Sequence[Protocol]) -> list[str]:
    """Gap relative to the objective at P = 0, and for which sets."""
    values = dict.fromkeys(protocol.tol for protocol in protocols)
    gaps = {tol: f"gap at most {tol:g} of the objective at P = 0" for tol in values}
    if len(values) == 1:
        return list(gaps.values())
    return [
        f"{gap} on {rendering.join_words(p.dataset for p in protocols if p.tol == tol)}"
        for tol, gap in gaps.items()
    ]
