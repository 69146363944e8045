"""The paper's claims one by one: held, failed or not testable, with the figures.

Each claim is judged by a function of the results. It returns None where its rows are
missing, so that a page can be written at any stage of a run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from priormtl.experiments.rendering.figures import Surface
from priormtl.experiments.rendering.measurements import Measurements, Setting, Verdict
from priormtl.experiments.rendering.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    PAPER_LABELS,
    PRIORS,
    TABLE_1,
    TABLE_2,
    paper_estimate,
)
from priormtl.experiments.rendering.tables import (
    NO_RUNS,
    Table,
    compare_with_none,
    measured_table,
)
from priormtl.tables import TableRow, TextCell

HELD, FAILED, OPEN = "held", "failed", "cannot be tested"
MIXED = "held in part"
COMPARED = [name for name in PAPER_LABELS if name not in PRIORS]


class Finding(NamedTuple):
    """What became of a claim, and the figures that say so."""

    verdict: str
    evidence: str


class Evidence(NamedTuple):
    """Everything that claims are judged by."""

    measurements: Measurements
    convergence: Any  # rows
    surfaces: Any


# Convergence (Figure 1).

NEAR = 1e-6  # relative to the start, at which iterations are counted
ROUNDING = 1e-9  # relative to the start


def _problems(evidence: Evidence) -> list[str]:
    rows = evidence.convergence
    return [] if rows is None else list(dict.fromkeys(rows["problem"].to_pylist()))


def _run(evidence: Evidence, problem: str, algorithm: str) -> dict[str, np.ndarray]:
    rows = evidence.convergence
    wanted = pc.field("problem") == problem
    rows = rows.filter(wanted & (pc.field("algorithm") == algorithm))
    return {name: rows[name].to_numpy(False) for name in rows.column_names}


def _steps(run: Mapping[str, np.ndarray]) -> float:
    """Iterations to NEAR; infinite if it was not reached."""
    reached = run["iteration"][run["excess"] <= NEAR * run["start"]]
    return float(reached[0]) if len(reached) else np.inf


def _judge_race(evidence: Evidence, first: str, second: str) -> Finding | None:
    """Whether ``first`` needs fewer iterations than ``second`` on every problem."""
    parts, won = [], []
    for problem in _problems(evidence):
        runs = [_run(evidence, problem, name) for name in (first, second)]
        if not all(len(run["excess"]) for run in runs):
            continue
        steps = [_steps(run) for run in runs]
        # Where neither arrives, the nearer one at the end is ahead.
        last = [run["excess"][-1] for run in runs]
        won.append(steps[0] < steps[1] or (steps[0] == steps[1] and last[0] < last[1]))
        words = [
            f"{name} {s:.0f}" if np.isfinite(s) else f"{name} not in {n:.0f}"
            for name, s, n in zip(
                (first, second),
                steps,
                [run["iteration"][-1] for run in runs],
                strict=True,
            )
        ]
        parts.append(f"{problem}: {', '.join(words)}")
    if not parts:
        return None
    verdict = HELD if all(won) else MIXED if any(won) else FAILED
    text = f"Iterations to {NEAR:g} of the first excess: {'; '.join(parts)} (Figure 1)."
    return Finding(verdict, text)


def _judge_rate(evidence: Evidence, algorithm: str, bound: str) -> Finding | None:
    """Whether a run stays below the bound of the theorem at every iteration kept."""
    parts, kept = [], []
    for problem in _problems(evidence):
        run, limit = (_run(evidence, problem, name) for name in (algorithm, bound))
        if not len(run["excess"]) or not len(limit["excess"]):
            continue
        inside = run["iteration"] <= limit["iteration"][-1]
        logs = np.interp(
            run["iteration"][inside], limit["iteration"], np.log(limit["excess"])
        )
        allowed = np.exp(logs) + ROUNDING * run["start"][inside]
        above = run["excess"][inside] > allowed
        # A bound that has ended is below what is drawn; so must be the run.
        late = run["excess"][~inside] > np.exp(logs[-1]) + ROUNDING * run["start"][0]
        kept.append(not above.any() and not late[1:].any())
        at = run["iteration"][inside][above] if above.any() else []
        where = f"above it from iteration {at[0]:.0f}" if len(at) else "never above it"
        parts.append(f"{problem}: {where}")
    if not parts:
        return None
    verdict = HELD if all(kept) else MIXED if any(kept) else FAILED
    return Finding(verdict, f"Excess against the bound: {'; '.join(parts)} (Figure 1).")


def _judge_papers_rate(evidence: Evidence) -> Finding | None:
    found = _judge_rate(
        evidence, "linear, paper's constants", "theorem, paper's constants"
    )
    if found is None:
        return None
    # One counterexample is enough: T7 and the last tests of tests/test_errata.py.
    text = (
        f"{found.evidence} But the tests of the errata have four tasks with epsilon = "
        "50 whose excess is above 1 after 50 steps where the bound is below 1e-10; and "
        "with these constants the method diverges on Yale (images of norm one, epsilon "
        "= 100) and on School (epsilon = 5000)."
    )
    return Finding(FAILED, text)


def _judge_constants(evidence: Evidence) -> Finding | None:
    parts = []
    for problem in _problems(evidence):
        run = _run(evidence, problem, "linear")
        if len(run["excess"]) and "sigma" in run:
            parts.append(f"{problem} {run['sigma'][0]:.3g}")
    if not parts:
        return None
    return Finding(
        FAILED,
        "The paper's σ contains epsilon = 10; the smallest eigenvalue is "
        f"{', '.join(parts)} at epsilon = 10. Its L is no bound from three tasks on. "
        "The tests of the errata have counterexamples, also on Yale and School.",
    )


def _judge_descent(evidence: Evidence) -> Finding | None:
    parts, falling = [], []
    for problem in _problems(evidence):
        for name in ("gd", "ista-reverse"):
            run = _run(evidence, problem, name)
            if len(run["excess"]):
                rise = np.diff(run["excess"]).max(initial=0.0)
                falling.append(rise <= ROUNDING * run["start"][0])
                parts.append(f"{name} on {problem}")
    if not parts:
        return None
    text = f"Objective at the iterations kept of {', '.join(parts)} (Figure 1)."
    return Finding(HELD if all(falling) else FAILED, text)


# Tables.


def _judge_best(evidence: Evidence) -> Finding | None:
    measurements = evidence.measurements
    best, beaten, rows = [], [], 0
    for dataset in dict.fromkeys(name for name, _ in (*TABLE_1, *TABLE_2)):
        metric = MAIN_METRICS[dataset]
        found = {
            method: measurements.estimate(Setting(dataset, method), metric)
            for method in PAPER_LABELS
        }
        means = {method: one.mean for method, one in found.items() if one is not None}
        ours = [means[name] for name in ("natural", "artificial") if name in means]
        others = [means[name] for name in COMPARED if name in means]
        if not ours or not others:
            continue
        rows += 1
        if max(ours) >= max(others):
            best.append(DATASETS[dataset])
        worse = [
            PAPER_LABELS[name]
            for name in COMPARED
            if measurements.judge(
                Setting(dataset, name), Setting(dataset, "natural"), metric
            )
            is Verdict.BETTER
        ]
        beaten += [f"{name} on {DATASETS[dataset]}" for name in worse]
    if not rows:
        return None
    verdict = HELD if len(best) == rows else MIXED if best else FAILED
    text = (
        f"Best mean on {len(best)} of {rows} data sets ({', '.join(best) or 'none'}). "
        f"Significantly better than ours: {', '.join(beaten) or 'none'}."
    )
    return Finding(verdict, text)


def _judge_prior(evidence: Evidence, prior: str) -> Finding | None:
    measurements = evidence.measurements
    at_paper, at_sizes = {}, {}
    for name in measurements.datasets():
        at_paper[DATASETS[name]] = compare_with_none(measurements, name, None, prior)
        for size in measurements.sizes(name, PRIORS):
            cell = compare_with_none(measurements, name, size, prior)
            at_sizes[f"{DATASETS[name]} at {size}"] = cell
    groups = [
        {
            key: cell.verdict
            for key, cell in cells.items()
            if cell.verdict is not Verdict.UNKNOWN
        }
        for cells in (at_paper, at_sizes)
    ]
    if not groups[0]:
        return None
    words, better = [], 0
    places = ("data sets", "points of learning curves")
    for verdicts, place in zip(groups, places, strict=True):
        won = [key for key, v in verdicts.items() if v is Verdict.BETTER]
        lost = [key for key, v in verdicts.items() if v is Verdict.WORSE]
        better += len(won)
        if verdicts:
            words.append(
                f"significantly better on {len(won)} of {len(verdicts)} {place}"
                f"{_list(won)}, worse on {len(lost)}{_list(lost)}"
            )
    total = sum(map(len, groups))
    verdict = HELD if better > total / 2 else MIXED if better > total / 5 else FAILED
    return Finding(verdict, f"Against the same model without it: {'; '.join(words)}.")


def _list(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _judge_artificial(evidence: Evidence) -> Finding | None:
    found = _judge_prior(evidence, "artificial")
    if found is None:
        return None
    why = (
        "It cannot help in this model: two equal features share their coefficient "
        "equally at the optimum for every theta, so that theta changes no prediction "
        "(docs/mathematics.md)."
    )
    return Finding(found.verdict, f"{why} {found.evidence}")


def _judge_art_beats_natural(evidence: Evidence) -> Finding | None:
    measurements = evidence.measurements
    verdicts = {
        name: measurements.judge(
            Setting(name, "artificial"), Setting(name, "natural"), MAIN_METRICS[name]
        )
        for name in measurements.datasets()
    }
    known = {n: v for n, v in verdicts.items() if v is not Verdict.UNKNOWN}
    if not known:
        return None
    won = [DATASETS[n] for n, v in known.items() if v is Verdict.BETTER]
    lost = [DATASETS[n] for n, v in known.items() if v is Verdict.WORSE]
    text = (
        f"Artificial against natural: significantly better on {len(won)} of "
        f"{len(known)} data sets{_list(won)}, worse on {len(lost)}{_list(lost)}."
    )
    return Finding(HELD if len(won) > len(known) / 2 else FAILED, text)


def _judge_school(evidence: Evidence) -> Finding | None:
    claimed = paper_estimate("school", "ve_pooled", "natural")
    ours = evidence.measurements.estimate(Setting("school", "natural"), "ve_pooled")
    if ours is None or claimed is None:
        return None
    text = (
        f"We measure {ours.mean:.1f} ± {ours.sd:.1f} pooled. The paper does not define "
        "its VE, and its figure is above what least squares with school effects "
        "explains in sample (see below)."
    )
    return Finding(OPEN, text)


# Figure 3.


def _judge_sensitivity(
    evidence: Evidence, surfaces: Iterable[tuple[str, str]], *, lam_most: bool
) -> Finding | None:
    parts, kept = [], []
    for dataset, metric in surfaces:
        surface = (
            None
            if evidence.surfaces is None
            else Surface.of(evidence.surfaces, dataset, metric)
        )
        if surface is None:
            continue
        ranges = surface.ranges()
        spelled = ", ".join(f"{size:.1f} along {k}" for k, size in ranges.items())
        parts.append(f"{DATASETS[dataset]}, {METRICS[metric].title}: {spelled}")
        lam_leads = max(ranges, key=ranges.__getitem__) == "lam"
        kept.append(lam_leads if lam_most else max(ranges.values()) < INSENSITIVE)
    if not parts:
        return None
    verdict = HELD if all(kept) else MIXED if any(kept) else FAILED
    text = f"Range in points from 1 to 100: {'; '.join(parts)} (Figure 3)."
    return Finding(verdict, text)


INSENSITIVE = 5.0  # points over the whole range


# All claims.

FACES = (("yale", "auc"), ("orl", "auc"))
CLAIMS: Mapping[str, Callable[[Evidence], Finding | None]] = {
    "Constants L and σ of the smooth part": _judge_constants,
    "Theorem: Algorithm 3 converges at the linear rate, with the paper's constants": (
        _judge_papers_rate
    ),
    "The same theorem with the true constants": (
        lambda e: _judge_rate(e, "linear", "theorem")
    ),
    "Theorem: Algorithm 2 converges like 1/k": (
        lambda e: _judge_rate(e, "ista-reverse", "theorem, Algorithm 2")
    ),
    "Algorithms 1 and 2 decrease the objective in every step": _judge_descent,
    "Algorithm 2 (ista-reverse) converges faster than ISTA": (
        lambda e: _judge_race(e, "ista-reverse", "ista")
    ),
    "Algorithm 3 (linear) generally converges faster than FISTA": (
        lambda e: _judge_race(e, "linear", "fista")
    ),
    "Best of ten methods on all data sets (Tables 1 and 2)": _judge_best,
    "A natural prior improves predictions": lambda e: _judge_prior(e, "natural"),
    "An artificial prior improves predictions": _judge_artificial,
    "The artificial prior is at least as good as the natural one, and better on "
    "MNIST, Letter and ORL": _judge_art_beats_natural,
    "Prior knowledge of an expert improves predictions (not tested in the paper)": (
        lambda e: _judge_prior(e, "expert")
    ),
    "39.8 % of School's variance explained": _judge_school,
    "Classification is insensitive to the strengths (Figure 3)": (
        lambda e: _judge_sensitivity(e, FACES, lam_most=False)
    ),
    "Regression is sensitive above all to lam (Figure 3)": (
        lambda e: _judge_sensitivity(e, [("school", "ve_pooled")], lam_most=True)
    ),
    "The figures of the eight compared methods": lambda e: Finding(
        OPEN,
        "The paper gives no code, grids, intercepts or splits; our implementations "
        "with our tuning stand beside its figures (Tables 1 and 2).",
    ),
}


def claims_table(evidence: Evidence) -> Table:
    rows = []
    for claim, judge in CLAIMS.items():
        found = judge(evidence)
        cells = ("not measured", "") if found is None else found
        rows.append(TableRow(claim, tuple(map(TextCell, cells))))
    notes = (
        "Verdicts are computed from the rows of results. That a prior helps is held if "
        "it is significantly better at more than half of the data sets and points of "
        "learning curves, held in part if at more than a fifth. Insensitive: less than "
        f"{INSENSITIVE:g} points.",
    )
    heads = ("The paper's claim", "Verdict", "Figures")
    table = measured_table("Claims and verdicts", heads, rows, notes, NO_RUNS)
    return replace(table, alignment="lll")
