"""Compared methods: ours against the loops over tasks that are usually written."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.data import MissingDataError, Rows, load_school, take_rows
from benchmarks.duel import GAP, Duel, duel_section
from benchmarks.report import Bar, Report, milliseconds, times
from benchmarks.timing import geometric_mean, side_by_side
from naive_twins import Run, naive_dirty, naive_robust, naive_trace
from priormtl.data import TaskData, from_labels, summarize_tasks
from priormtl.losses import NoIntercepts, Squared, SumFit
from priormtl.penalties import Dirty, Nuclear, Penalty, Robust
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import default_method, gap_below, max_iter, solve_path

TITLE = "Compared methods"
SHARES = (0.3, 0.1, 0.03)
MOST_STEPS = 5000  # of a twin, which then counts as finished
ROWS_PER_TASK = 20
LEAST = 20.0

Reached = Callable[[list[np.ndarray]], bool]
Twin = Callable[[Reached], Run]


class Case(NamedTuple):
    """One problem, posed for both."""

    name: str
    pose: Callable[[], Problem]  # from rows: what we do with them counts
    certificate: Problem  # in blocks side by side, as the twin has them
    twin: Twin


def measure(quick: bool) -> Report:
    """Three methods over strengths, on School or on tasks of its shape."""
    source, rows = _rows()
    duels = [_fight(case, 3 if quick else 9) for case in cases(rows, quick)]
    methods = ("DMTL", "RMTL", "trace norm")
    bars = [bar for name in methods for bar in _bars(name, duels)]
    note = (
        f"{source}, {ROWS_PER_TASK} rows of each of 139 tasks, features scaled, "
        "squared loss. Times include the statistics of the rows."
    )
    section = duel_section(duels, "loops", f"{MOST_STEPS} steps")
    return Report(TITLE, note, bars, [section], {duel.name: duel for duel in duels})


def _bars(method: str, duels: list[Duel]) -> list[Bar]:
    ratios = [duel.ratio for duel in duels if duel.name.startswith(method)]
    mean, least = geometric_mean(ratios), min(ratios)
    words = f"mean {times(mean)}×, least {times(least)}×"
    goal = f"{method} ≥ {LEAST:.0f}× faster than loops"
    return [
        Bar(f"{goal}, geometric mean over strengths", words, mean >= LEAST),
        Bar(f"{goal} at every strength", words, least >= LEAST),
    ]


def cases(rows: Rows, quick: bool) -> Iterator[Case]:
    """Each method at a few shares of its lam_max."""
    tables, targets = _centred(rows)
    m = len(tables)
    task = np.repeat(np.arange(m), [len(y) for y in targets])
    data = from_labels(np.vstack(tables), np.concatenate(targets), task)
    for share in SHARES[:1] if quick else SHARES:
        yield _dirty_case(data, (tables, targets), share, m**0.5)
        yield _robust_case(data, (tables, targets), share, m**0.25)
        yield _trace_case(data, (tables, targets), share)


def _dirty_case(data: TaskData, tasks: tuple, share: float, ratio: float) -> Case:
    pose, problem = _posed(data, Dirty(ratio), share)
    lam = problem.lam

    def twin(reached: Reached) -> Run:
        return naive_dirty(tasks, lam, ratio * lam, reached, MOST_STEPS)

    return Case(f"DMTL, {share:g} λ_max", pose, problem, twin)


def _trace_case(data: TaskData, tasks: tuple, share: float) -> Case:
    pose, problem = _posed(data, Nuclear(), share)

    def twin(reached: Reached) -> Run:
        return naive_trace(tasks, problem.lam, reached, MOST_STEPS)

    return Case(f"trace norm, {share:g} λ_max", pose, problem, twin)


def _robust_case(data: TaskData, tasks: tuple, share: float, ratio: float) -> Case:
    pose, problem = _posed(data, Robust(ratio), share)
    lam = problem.lam

    def twin(reached: Reached) -> Run:
        return naive_robust(tasks, ratio * lam, lam, reached, MOST_STEPS)

    return Case(f"RMTL, {share:g} λ_max", pose, problem, twin)


def _posed(
    data: TaskData, penalty: Penalty, share: float
) -> tuple[Callable[[], Problem], Problem]:
    lam = share * _pose(data, penalty, 1.0).lam_max
    return lambda: _pose(data, penalty, lam), _pose(data, penalty, lam)


def _pose(data: TaskData, penalty: Penalty, lam: float) -> Problem:
    plain = Squared().bind(summarize_tasks(data), NoIntercepts())  # as the methods do
    fit = SumFit(plain) if isinstance(penalty, Robust) else plain
    return Problem(fit, QuadraticPrior.none(*fit.shape), penalty, lam)


def _fight(case: Case, repeats: int) -> Duel:
    _solve(case.pose())  # compiled code is loaded, not timed
    ends: list[Run] = []
    found = side_by_side(
        {
            "ours": lambda: _solve(case.pose()),
            "loops": lambda: ends.append(case.twin(_reached(case))),
        },
        repeats,
    )
    gap = _gap(case.certificate, ends[0].blocks)
    words = ", ".join(f"{name} {milliseconds(each)} ms" for name, each in found.items())
    print(f"  {case.name}: {words} (gap {gap:.0e})", flush=True)
    return Duel(case.name, found["ours"], found["loops"], gap)


def _solve(problem: Problem) -> None:
    (solution,) = solve_path(
        problem,
        [problem.lam],
        choose=default_method,
        rules=lambda method: [gap_below(GAP, method.check_every), max_iter(10_000)],
    )
    if solution.certificate.gap > GAP * problem.null_objective:
        raise RuntimeError(f"not solved: {solution.reason.value}.")


def _reached(case: Case) -> Reached:
    return lambda blocks: _gap(case.certificate, blocks) <= GAP


def _gap(problem: Problem, blocks: list[np.ndarray]) -> float:
    """Relative gap of blocks: side by side for the robust norm, else of their sum."""
    side_by_side = isinstance(problem.penalty, Robust)
    P = np.hstack(blocks) if side_by_side else np.sum(blocks, axis=0)
    return problem.certify(problem.at(P)).gap / problem.null_objective


def _rows() -> tuple[str, Rows]:
    try:
        return "School", take_rows(load_school(), ROWS_PER_TASK)
    except MissingDataError as reason:
        print(f"  {reason}", flush=True)
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(139), ROWS_PER_TASK)
    X = rng.standard_normal((len(task), 27))
    P = rng.standard_normal((27, 3)) @ rng.standard_normal((3, 139))
    y = np.sum(X * P.T[task], axis=1) + rng.standard_normal(len(task))
    return "Random tasks", Rows(X, y, task)


def _centred(rows: Rows) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Tables and targets of each task about their means: intercepts are gone."""
    deviation = rows.X.std(axis=0)
    X = rows.X / np.where(deviation > 0, deviation, 1.0)
    parts = [rows.task == i for i in np.unique(rows.task)]
    tables = [X[part] - X[part].mean(axis=0) for part in parts]
    return tables, [rows.y[part] - rows.y[part].mean() for part in parts]
