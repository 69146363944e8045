"""reproduce: from a name to files: compute what is missing, collect, show."""

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from priormtl.datasets import SOURCES, look_for
from priormtl.exceptions import MissingDataError, unknown_name
from priormtl.experiments.ceiling import school_ceiling
from priormtl.experiments.clock import Clock, read_taken
from priormtl.experiments.description import describe_protocol
from priormtl.experiments.methods import LABELS, METHODS
from priormtl.experiments.plans import (
    PLANS,
    QUICK_REPEATS,
    REPEATS,
    needed_sets,
    plan,
)
from priormtl.experiments.protocol import PROTOCOLS, load_rows
from priormtl.experiments.rows import KINDS
from priormtl.experiments.runner import Event, Outcome, Unit, collect, run
from priormtl.experiments.showing import (
    Facts,
    Measurements,
    Results,
    overlap_ratio,
    show,
    show_page,
)
from priormtl.experiments.store import Store, write_table
from priormtl.experiments.units import ScoreUnit

__all__ = ["EVERYTHING", "Report", "Request", "reproduce"]

EVERYTHING = (*PLANS, "all")
PACKAGES = ("priormtl", "numpy", "scipy", "scikit-learn", "statsmodels", "pyarrow")


@dataclass(frozen=True)
class Request:
    """What is wanted, and how it may be computed."""

    what: str
    out: Path
    quick: bool = False
    jobs: int = 1
    limit: float | None = None  # seconds per unit
    force: tuple[str, ...] = ()  # methods to compute anew
    compute: bool = True  # False: show what is there
    skip_missing: bool = False  # leave out data sets that are not at hand
    page: Path | None = None  # where the page of results goes; None: into out


@dataclass(frozen=True)
class Report:
    """What was done, and the files that show it."""

    outcome: Outcome
    done: int  # units whose rows are there
    planned: int
    left_out: tuple[str, ...]  # data sets that are not at hand
    files: tuple[Path, ...]


def reproduce(
    request: Request, tell: Callable[[Event], None] = lambda event: None
) -> Report:
    """Compute what is missing, then write rows, tables, figures and the page."""
    _check(request)
    left_out = _missing_sets(request)
    units = plan(request.what, quick=request.quick, without=left_out)
    store = Store(request.out / "units")
    outcome = _compute(request, units, store, tell)
    tables = collect(units, store)
    results = _read(request, units, tables)
    files = [
        *_write_rows(request.out, units, tables),
        *show(request.what, results, request.out),
    ]
    if request.what == "all":
        page = request.page or request.out / "results.md"
        files.append(show_page(results, _facts(request, page), request.out, page))
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
    """Data sets that are not at hand: known before anything is computed."""
    findings = [look_for(SOURCES[name]) for name in needed_sets(request.what)]
    absent = [finding for finding in findings if finding.state != "found"]
    names = tuple(finding.source.name for finding in absent)
    if absent and not request.skip_missing:
        raise MissingDataError(
            f"{absent[0].message} To go on without {', '.join(names)}, say "
            "--skip-missing."
        )
    return names


def _compute(
    request: Request,
    units: Sequence[Unit],
    store: Store,
    tell: Callable[[Event], None],
) -> Outcome:
    if not request.compute:
        return Outcome(0, 0)
    clock = Clock(request.out, request.jobs)

    def force(unit: Unit) -> bool:
        return getattr(unit, "method", None) in request.force

    def hear(event: Event) -> None:
        clock.note_sometimes()
        tell(event)

    outcome = run(
        units,
        store,
        jobs=request.jobs,
        limit=request.limit,
        force=force,
        tell=hear,
    )
    if outcome.computed:
        clock.note()
    return outcome


def _write_rows(
    out: Path, units: Sequence[Unit], tables: Sequence[pa.Table | None]
) -> list[Path]:
    """One Parquet file per kind of rows, in the order of the plan."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, table in _by_kind(units, tables).items():
        if table.num_rows:
            path = out / f"{kind}.parquet"
            write_table(path, table)
            paths.append(path)
    return paths


def _by_kind(
    units: Iterable[Unit], tables: Iterable[pa.Table | None]
) -> dict[str, pa.Table]:
    parts: dict[str, list[pa.Table]] = {kind: [] for kind in KINDS}
    for unit, table in zip(units, tables, strict=True):
        if table is not None:
            parts[str(unit.settings()["kind"])].append(table)
    return {
        kind: pa.concat_tables(found) if found else KINDS[kind].empty_table()
        for kind, found in parts.items()
    }


def _read(
    request: Request, units: Sequence[Unit], tables: Sequence[pa.Table | None]
) -> Results:
    kinds = _by_kind(units, tables)
    planned = [
        (unit.dataset, unit.method, unit.size, unit.wrong, unit.repeat)
        for unit in units
        if isinstance(unit, ScoreUnit)
    ]
    measurements = Measurements.of(
        kinds["scores"], test_to_train=overlap, labels=LABELS, planned=planned
    )
    return Results(measurements, kinds["convergence"], kinds["roc"], kinds["surfaces"])


@cache
def overlap(dataset: str, size: int | None) -> float:
    """How much splits of a data set have in common, for intervals over them."""
    protocol = PROTOCOLS[dataset]
    train, test = protocol.draw(load_rows(dataset), np.random.default_rng(0), size)
    return overlap_ratio(len(train), len(test))


def _facts(request: Request, page: Path) -> Facts:
    school = look_for(SOURCES["school"]).state == "found"
    ceiling = school_ceiling() if school else None
    quick = " --quick" if request.quick else ""
    taken = read_taken(request.out)
    facts = Facts(
        command=f"priormtl reproduce all{quick}",
        seconds=taken.seconds,
        machine=_machine(),
        versions={name: version(name) for name in PACKAGES},
        n_repeats=QUICK_REPEATS if request.quick else REPEATS,
        protocol=describe_protocol(quick=request.quick),
        n_jobs=taken.jobs,
    )
    if ceiling is None:
        return facts
    return replace(
        facts, in_sample_pooled=ceiling.pooled, in_sample_effects=ceiling.with_effects
    )


def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"
