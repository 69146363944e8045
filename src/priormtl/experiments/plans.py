"""Which units each table, figure and curve needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import NamedTuple

from priormtl.exceptions import unknown_name
from priormtl.experiments.compared import COMPARED
from priormtl.experiments.experts import expert_prior
from priormtl.experiments.methods import METHODS, PRIORS
from priormtl.experiments.protocol import PROTOCOLS, find_protocol, load_rows
from priormtl.experiments.runner import Unit
from priormtl.experiments.units import (
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
)

__all__ = ["PLANS", "QUICK_REPEATS", "REPEATS", "needed_sets", "plan"]

REPEATS = 10
QUICK_REPEATS = 2
REGRESSION = ("school", "sarcos")
CLASSIFICATION = ("yale", "mnist", "letter", "letter_uci", "orl")
ROC_SETS = ("yale", "mnist", "orl")
SURFACE_SETS = ("school", "yale", "orl")
# Sets of many pixels, where a search takes half a minute, get fewer variants of ours.
COSTLY = ("yale", "mnist", "orl")
FEW_VARIANTS = (
    *PRIORS,
    "none-mean",
    "none-mean-tied",
    *(name for name in METHODS if not name.startswith(PRIORS)),
)
QUICK_METHODS = (
    *PRIORS,
    "none-mean-tied",
    *COMPARED,
    "ridge-single",
    "ridge-pooled",
    "mixed",
)
# Training rows per task, or images per class, at which relations are spoiled.
SPOILED = {"school": 5, "yale": 3, "mnist": 5, "letter": 5, "orl": 2}
WRONG = (0.0, 0.25, 0.5, 0.75, 1.0)
QUICK_WRONG = (0.0, 1.0)


class Plan(NamedTuple):
    """Data sets that are needed, and the units of one of them."""

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
    # Repeats come one after the other: early results are of all data sets.
    return sorted(dict.fromkeys(units), key=lambda unit: getattr(unit, "repeat", 0))


def needed_sets(what: str) -> tuple[str, ...]:
    """Data sets that a part of the paper looks at."""
    wanted = chain.from_iterable(part.datasets for part in _find_plans(what))
    return tuple(name for name in dict.fromkeys(wanted) if name in PROTOCOLS)


def _find_plans(what: str) -> Iterable[Plan]:
    if what == "all":
        return PLANS.values()
    if what not in PLANS:
        raise unknown_name("part of the paper", what, (*PLANS, "all"))
    return (PLANS[what],)


def _table(dataset: str, quick: bool) -> Iterator[Unit]:
    repeats = QUICK_REPEATS if quick else REPEATS
    for repeat, method in product(range(repeats), _methods(dataset, quick)):
        yield ScoreUnit(dataset, method, repeat, quick=quick)


def _methods(dataset: str, quick: bool) -> list[str]:
    """Names of the methods that are run on a data set."""
    wanted = FEW_VARIANTS if dataset in COSTLY else tuple(METHODS)
    wanted = QUICK_METHODS if quick else wanted
    data = load_rows(dataset)
    return [name for name in wanted if METHODS[name].applies(data)]


def _convergence(problem: str, quick: bool) -> Iterator[Unit]:
    yield ConvergenceUnit(problem, quick)


def _roc(dataset: str, quick: bool) -> Iterator[Unit]:
    yield RocUnit(dataset, quick=quick)


def _surface(dataset: str, quick: bool) -> Iterator[Unit]:
    yield SurfaceUnit(dataset, quick=quick)


def _curves(dataset: str, quick: bool) -> Iterator[Unit]:
    repeats = range(QUICK_REPEATS if quick else REPEATS)
    sizes = find_protocol(dataset, quick=quick).sizes
    for repeat, size, prior in product(repeats, sizes, _priors(dataset)):
        yield ScoreUnit(dataset, prior, repeat, size, quick=quick)
    if dataset in SPOILED and not (quick and dataset in COSTLY):
        for repeat in repeats:
            yield from _spoiled(dataset, repeat, quick)


def _spoiled(dataset: str, repeat: int, quick: bool) -> Iterator[Unit]:
    """Wrong relations, and no relations at the same size."""
    size = SPOILED[dataset]
    yield ScoreUnit(dataset, "none", repeat, size, quick=quick)
    for wrong in QUICK_WRONG if quick else WRONG:
        yield ScoreUnit(dataset, "expert", repeat, size, wrong, quick)


def _priors(dataset: str) -> tuple[str, ...]:
    known = expert_prior(load_rows(dataset)) is not None
    return PRIORS if known else PRIORS[:-1]


PLANS: Mapping[str, Plan] = {
    "table1": Plan(REGRESSION, _table),
    "table2": Plan(CLASSIFICATION, _table),
    "figure1": Plan(("synthetic", "school"), _convergence),
    "figure2": Plan(ROC_SETS, _roc),
    "figure3": Plan(SURFACE_SETS, _surface),
    "curves": Plan(tuple(PROTOCOLS), _curves),
}
