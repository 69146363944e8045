"""The paper's claims one by one: held, failed or not measured, with the figures.

Each claim is judged by a function of the results. It returns None where its rows are
missing, so that a page can be written at any stage of a run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from priormtl.experiments.rendering.figures import Surface
from priormtl.experiments.rendering.measurements import (
    COMPARED,
    DATASETS,
    MAIN_METRICS,
    METRICS,
    NONE,
    PAPER,
    PAPER_LABELS,
    Results,
    Setting,
    Verdict,
    compare_with_paper,
    paper_estimate,
    tally,
)
from priormtl.experiments.rendering.tables import REFERENCE, measured_table
from priormtl.rendering import Table, TextCell

HELD, MIXED, FAILED = "held", "held in part", "failed"
BY_ERRATA = f"{FAILED} *"  # by counterexamples, not by rows


class Finding(NamedTuple):
    """What became of a claim, and the figures that say so."""

    verdict: str
    evidence: str


def _judge_all(kept: Sequence[bool]) -> str:
    return HELD if all(kept) else MIXED if any(kept) else FAILED


def _judge_share(count: int, total: int) -> str:
    return HELD if count > total / 2 else MIXED if count > total / 5 else FAILED


def _list(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


# Convergence (Figure 1).

ROUNDING = 1e-9  # relative to the objective at the start
Run = Mapping[str, np.ndarray]  # columns of the rows of convergence


def _runs(results: Results, *algorithms: str) -> Iterator[tuple[str, list[Run]]]:
    """Runs of these algorithms on each problem that has them all."""
    rows = results.convergence
    for problem in dict.fromkeys(rows["problem"].to_pylist()):
        runs: list[Run] = []
        for name in algorithms:
            wanted = (pc.field("problem") == problem) & (pc.field("algorithm") == name)
            run = rows.filter(wanted)
            runs.append({key: run[key].to_numpy(False) for key in run.column_names})
        if all(len(run["excess"]) for run in runs):
            yield problem, runs


def _judge_constants(results: Results) -> Finding | None:
    """Whether the paper's σ ≤ smallest and L ≥ largest eigenvalue of the Hessian.

    If they were, the paper's σ/L would be at most that of the eigenvalues. It is read
    from its bound, which falls by 1 − √(σ/L) per iteration.
    """
    parts, kept = [], []
    for problem, (run, bound) in _runs(results, "linear", "theorem, paper's constants"):
        exact = run["sigma"][0] / run["smoothness"][0]
        steps = bound["iteration"][-1] - bound["iteration"][0]
        rate = (bound["excess"][-1] / bound["excess"][0]) ** (1.0 / max(steps, 1))
        papers = (1.0 - rate) ** 2
        kept.append(papers <= exact * (1.0 + 1e-6))
        parts.append(f"{problem} {papers:.2g} and {exact:.2g}")
    if not parts:
        return None
    text = (
        "σ/L at epsilon = 10, by the paper's constants and by the eigenvalues of the "
        f"Hessian: {', '.join(parts)}. Where the first is larger, σ or L is no bound: "
        "the paper's σ contains epsilon, and its L need not be a bound from three "
        "tasks on. The tests of the errata have counterexamples, also on Yale and "
        "School."
    )
    return Finding(HELD if all(kept) else FAILED, text)


def _judge_rate(results: Results, algorithm: str, bound: str) -> Finding | None:
    """Whether a run stays below the bound of the theorem at every iteration kept."""
    parts, kept = [], []
    for problem, (run, limit) in _runs(results, algorithm, bound):
        inside = run["iteration"] <= limit["iteration"][-1]
        logs = np.interp(
            run["iteration"][inside], limit["iteration"], np.log(limit["excess"])
        )
        slack = ROUNDING * run["start"][0]
        above = run["excess"][inside] > np.exp(logs) + slack
        # A bound that has ended is below what is drawn; so must be the run.
        late = run["excess"][~inside] > np.exp(logs[-1]) + slack
        kept.append(not above.any() and not late[1:].any())
        where = "never above it"
        if above.any():
            where = f"above it from iteration {run['iteration'][inside][above][0]:.0f}"
        parts.append(f"{problem}: {where}")
    if not parts:
        return None
    text = f"Excess against the bound: {'; '.join(parts)} (Figure 1)."
    return Finding(_judge_all(kept), text)


def _judge_papers_rate(results: Results) -> Finding | None:
    constants = "paper's constants"
    found = _judge_rate(results, f"linear, {constants}", f"theorem, {constants}")
    if found is None:
        return None
    # One counterexample is enough: T7 and the last tests of tests/test_errata.py.
    text = (
        f"{found.evidence} But the tests of the errata have four tasks with epsilon = "
        "50 whose excess is above 1 after 50 steps where the bound is below 1e-10; and "
        "with these constants the method diverges on Yale (images of norm one, epsilon "
        "= 100) and on School (epsilon = 5000)."
    )
    return Finding(BY_ERRATA, text)


def _judge_descent(results: Results) -> Finding | None:
    parts, kept = [], []
    for problem, runs in _runs(results, "gd", "ista-reverse"):
        for name, run in zip(("gd", "ista-reverse"), runs, strict=True):
            rise = np.diff(run["excess"]).max(initial=0.0)
            kept.append(rise <= ROUNDING * run["start"][0])
            parts.append(f"{name} on {problem}")
    if not parts:
        return None
    text = f"Objective at the iterations kept of {', '.join(parts)} (Figure 1)."
    return Finding(HELD if all(kept) else FAILED, text)


def _judge_race(results: Results, first: str, second: str) -> Finding | None:
    """Whether ``first`` needs fewer iterations than ``second`` on every problem."""
    near = 1e-6  # relative to the start
    parts, won = [], []
    for problem, runs in _runs(results, first, second):
        # Where neither arrives, the nearer one at the end is ahead.
        ranks, words = [], []
        for name, run in zip((first, second), runs, strict=True):
            reached = run["iteration"][run["excess"] <= near * run["start"]]
            steps = float(reached[0]) if len(reached) else np.inf
            missed = f"not in {run['iteration'][-1]:.0f}"
            words.append(f"{name} {f'{steps:.0f}' if len(reached) else missed}")
            ranks.append((steps, run["excess"][-1]))
        won.append(ranks[0] < ranks[1])
        parts.append(f"{problem}: {', '.join(words)}")
    if not parts:
        return None
    text = f"Iterations to {near:g} of the first excess: {'; '.join(parts)} (Figure 1)."
    return Finding(_judge_all(won), text)


# Tables.


def _judge_best(results: Results) -> Finding | None:
    measurements = results.measurements
    best, beaten = [], []
    for dataset, figure in PAPER:
        if figure == "nMSE":
            continue
        metric = MAIN_METRICS[dataset]
        estimates = {
            method: measurements.estimate(Setting(dataset, method), metric)
            for method in PAPER_LABELS
        }
        means = {k: one.mean for k, one in estimates.items() if one is not None}
        ours = [means[name] for name in ("natural", "artificial") if name in means]
        others = [means[name] for name in COMPARED if name in means]
        if not ours or not others:
            continue
        best.append((DATASETS[dataset], max(ours) >= max(others)))
        for name in COMPARED:
            verdict = measurements.judge(Setting(dataset, name), REFERENCE)
            if verdict is Verdict.BETTER:
                beaten.append(f"{PAPER_LABELS[name]} on {DATASETS[dataset]}")
    if not best:
        return None
    won = [name for name, is_best in best if is_best]
    text = (
        f"Best mean on {len(won)} of {len(best)} data sets "
        f"({', '.join(won) or 'none'}). Significantly better than ours: "
        f"{', '.join(beaten) or 'none'}."
    )
    return Finding(_judge_all([is_best for _, is_best in best]), text)


def _judge_prior(results: Results, prior: str, *why: str) -> Finding | None:
    measurements = results.measurements
    at_paper, at_sizes = {}, {}
    for name in measurements.datasets():
        at_paper[DATASETS[name]] = measurements.judge(Setting(name, prior), NONE)
        for size in measurements.sizes(name):
            verdict = measurements.judge(Setting(name, prior, size), NONE)
            at_sizes[f"{DATASETS[name]} at {size}"] = verdict
    places = {"data sets": at_paper, "points of learning curves": at_sizes}
    tallies = {place: tally(verdicts) for place, verdicts in places.items()}
    if not tallies["data sets"][0]:
        return None
    words = "; ".join(
        f"significantly better on {len(won)} of {len(known)} {place}{_list(won)}, "
        f"worse on {len(lost)}{_list(lost)}"
        for place, (known, won, lost) in tallies.items()
        if known
    )
    total, better, _ = (sum(map(len, k)) for k in zip(*tallies.values(), strict=True))
    text = " ".join([*why, f"Against the same model without it: {words}."])
    return Finding(_judge_share(better, total), text)


def _judge_artificial_better(results: Results) -> Finding | None:
    measurements = results.measurements
    known, won, lost = tally(
        {
            DATASETS[name]: measurements.judge(Setting(name, "artificial"), "natural")
            for name in measurements.datasets()
        }
    )
    if not known:
        return None
    text = (
        f"Artificial against natural: significantly better on {len(won)} of "
        f"{len(known)} data sets{_list(won)}, worse on {len(lost)}{_list(lost)}."
    )
    return Finding(HELD if len(won) > len(known) / 2 else FAILED, text)


def _judge_school(results: Results) -> Finding | None:
    paper = paper_estimate("school", "ve_pooled", "natural")
    pairs = {
        pair.metric: pair
        for pair in compare_with_paper(results.measurements)
        if (pair.dataset, pair.method) == ("school", "natural")
        and METRICS[pair.metric].figure == "VE"
    }
    if not pairs or paper is None:
        return None
    ours = " and ".join(
        f"{pair.ours.mean:.1f} ± {pair.ours.sd:.1f} ({METRICS[metric].title})"
        for metric, pair in pairs.items()
    ).replace("-", "−")
    text = (
        f"We measure {ours}; the paper has {paper.mean:.1f} ± {paper.sd:.1f}. It does "
        "not define its VE, and its figure is above what least squares with school "
        "effects explains in sample (see below)."
    )
    agrees = any(pair.agrees for pair in pairs.values())
    return Finding(HELD if agrees else FAILED, text)


def _judge_compared(results: Results) -> Finding | None:
    pairs = compare_with_paper(results.measurements)
    agree = [pair.agrees for pair in pairs if pair.method in COMPARED]
    if not agree:
        return None
    text = (
        f"{sum(agree)} of {len(agree)} agree (see below). The paper gives no code, "
        "grids, intercepts or splits; our implementations with our tuning stand beside "
        "its figures (Tables 1 and 2)."
    )
    return Finding(_judge_share(sum(agree), len(agree)), text)


# Figure 3.

INSENSITIVE = 5.0  # points over the whole range


def _judge_sensitivity(results: Results, metric: str, *datasets: str) -> Finding | None:
    """Whether AUC hardly moves along any strength, and VE most along lam."""
    parts, kept = [], []
    for dataset in datasets:
        surface = Surface.of(results.surfaces, dataset, metric)
        if surface is None:
            continue
        ranges = surface.ranges()
        sizes = ", ".join(f"{size:.1f} along {name}" for name, size in ranges.items())
        parts.append(f"{surface.title}: {sizes}")
        lam_leads = max(ranges, key=ranges.__getitem__) == "lam"
        calm = max(ranges.values()) < INSENSITIVE
        kept.append(calm if metric == "auc" else lam_leads)
    if not parts:
        return None
    text = f"Range in points from 1 to 100: {'; '.join(parts)} (Figure 3)."
    return Finding(_judge_all(kept), text)


# All claims.

CLAIMS: Mapping[str, Callable[[Results], Finding | None]] = {
    "Constants L and σ of the smooth part": _judge_constants,
    "Theorem: Algorithm 3 converges at the linear rate, with the paper's constants": (
        _judge_papers_rate
    ),
    "The same theorem with the true constants": partial(
        _judge_rate, algorithm="linear", bound="theorem"
    ),
    "Theorem: Algorithm 2 converges like 1/k": partial(
        _judge_rate, algorithm="ista-reverse", bound="theorem, Algorithm 2"
    ),
    "Algorithms 1 and 2 decrease the objective in every step": _judge_descent,
    "Algorithm 2 (ista-reverse) converges faster than ISTA": partial(
        _judge_race, first="ista-reverse", second="ista"
    ),
    "Algorithm 3 (linear) generally converges faster than FISTA": partial(
        _judge_race, first="linear", second="fista"
    ),
    "Best of ten methods on all data sets (Tables 1 and 2)": _judge_best,
    "A natural prior improves predictions": partial(_judge_prior, prior="natural"),
    "An artificial prior improves predictions": lambda results: _judge_prior(
        results,
        "artificial",
        "It cannot help in this model: two equal features share their coefficient "
        "equally at the optimum for every theta, so that theta changes no prediction "
        "(docs/mathematics.md).",
    ),
    "The artificial prior is at least as good as the natural one, and better on "
    "MNIST, Letter and ORL": _judge_artificial_better,
    "Prior knowledge of an expert improves predictions (not tested in the paper)": (
        partial(_judge_prior, prior="expert")
    ),
    "39.8 % of School's variance explained": _judge_school,
    "Classification is insensitive to the strengths (Figure 3)": (
        lambda results: _judge_sensitivity(results, "auc", "yale", "orl")
    ),
    "Regression is sensitive above all to lam (Figure 3)": (
        lambda results: _judge_sensitivity(results, "ve_pooled", "school")
    ),
    "The figures of the eight compared methods": _judge_compared,
}


def claims_table(results: Results) -> Table:
    rows = []
    for claim, judge in CLAIMS.items():
        cells = judge(results) or ("not measured", "")
        rows.append((claim, [TextCell(text) for text in cells]))
    note = (
        "Verdicts are computed from the rows of results. That a prior helps is held if "
        "it is significantly better at more than half of the data sets and points of "
        "learning curves, held in part if at more than a fifth; that the paper's "
        "figures are ours, likewise, if our means agree with them (see below). "
        f"Insensitive: less than {INSENSITIVE:g} points. *: not computed from rows; "
        "the verdict rests on the counterexamples named beside it."
    )
    heads = ("The paper's claim", "Verdict", "Figures")
    table = measured_table("Claims and verdicts", heads, rows, [note])
    return replace(table, alignment="lll")
