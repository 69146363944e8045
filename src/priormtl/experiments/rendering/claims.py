"""The paper's claims one by one: held, failed or not measured, with the figures.

Each claim is judged by a function of the results. It returns None where its rows are
missing, so that a page can be written at any stage of a run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from priormtl.experiments.rendering.figures import Surface
from priormtl.experiments.rendering.measurements import (
    COMPARED,
    DATASETS,
    DOUBTFUL,
    MAIN_METRICS,
    METRICS,
    NONE,
    PAPER,
    PAPER_LABELS,
    PAPERS_LINEAR,
    SMALL_CHANGE,
    Agreement,
    Estimate,
    Measurements,
    Results,
    Setting,
    Verdict,
    compare_with_paper,
    paper_estimate,
    tally,
)
from priormtl.experiments.rendering.tables import REFERENCE, measured_table
from priormtl.rendering import NOTHING, Table, TextCell, join_words

HELD, MIXED, FAILED = "held", "held in part", "failed"


class Finding(NamedTuple):
    """What became of a claim, and the figures that say so."""

    verdict: str
    evidence: str


def _judge_all(kept: Sequence[bool]) -> str:
    return HELD if all(kept) else MIXED if any(kept) else FAILED


def _judge_share(count: int, total: int) -> str:
    return HELD if count > total / 2 else MIXED if count > total / 5 else FAILED


def _find(
    kept: Sequence[bool],
    parts: Sequence[str],
    text: str,
    judge: Callable[[Sequence[bool]], str] = lambda kept: HELD if all(kept) else FAILED,
) -> Finding | None:
    """A finding with its parts in the text; None where nothing was measured."""
    return Finding(judge(kept), text.format("; ".join(parts))) if parts else None


def _list(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _names(methods: Iterable[str]) -> str:
    return join_words(PAPER_LABELS[name] for name in methods)


# Convergence (Figure 1).

SLACK = 1e-9  # for rounding, relative to the objective at the start
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
        parts.append(f"{problem}: {papers:.2g} and {exact:.2g}")
    text = (
        "σ/L by the paper's constants and by the eigenvalues of the Hessian: {}. Where "
        "the first is larger, σ or L is no bound: the paper's σ contains epsilon, and "
        "its L need not be a bound from three tasks on."
    )
    return _find(kept, parts, text)


def _judge_rate(results: Results, algorithm: str, bound: str) -> Finding | None:
    """Whether a run stays below the bound of the theorem at every iteration kept.

    One problem where it does not refutes a theorem.
    """
    parts, kept = [], []
    for problem, (run, limit) in _runs(results, algorithm, bound):
        inside = run["iteration"] <= limit["iteration"][-1]
        logs = np.interp(
            run["iteration"][inside], limit["iteration"], np.log(limit["excess"])
        )
        slack = SLACK * run["start"][0]
        above = run["excess"][inside] > np.exp(logs) + slack
        # A bound that has ended is below what is drawn; so must be the run.
        late = run["excess"][~inside] > np.exp(logs[-1]) + slack
        kept.append(not above.any() and not late[1:].any())
        where = "never above it"
        if above.any():
            where = f"above it from iteration {run['iteration'][inside][above][0]:.0f}"
        if run["excess"][-1] > run["start"][0]:
            where += f", diverged at {run['iteration'][-1]:.0f}"
        parts.append(f"{problem}: {where}")
    return _find(kept, parts, "Excess against the bound: {}.")


def _judge_descent(results: Results) -> Finding | None:
    parts, kept = [], []
    for problem, runs in _runs(results, "gd", "ista-reverse"):
        for name, run in zip(("gd", "ista-reverse"), runs, strict=True):
            rise = np.diff(run["excess"]).max(initial=0.0)
            kept.append(rise <= SLACK * run["start"][0])
            parts.append(f"{name} on {problem}")
    text = "Objective at the iterations kept of {} (Figure 1)."
    return _find(kept, [", ".join(parts)] if parts else [], text)


NEAR = 1e-6  # excess at which a race ends, relative to the start


def _judge_race(results: Results, first: str, second: str) -> Finding | None:
    """Whether ``first`` arrives before ``second``, in iterations and in CPU time."""
    parts: list[str] = []
    won: dict[str, list[bool]] = {"iterations": [], "CPU time": []}
    for problem, runs in _runs(results, first, second):
        words, ranks = [], []
        for name, run in zip((first, second), runs, strict=True):
            reached = np.flatnonzero(run["excess"] <= NEAR * run["start"])
            steps, seconds, text = np.inf, np.inf, f"not in {run['iteration'][-1]:.0f}"
            if len(reached):
                steps, seconds = (run[k][reached[0]] for k in ("iteration", "seconds"))
                text = f"{steps:.0f} in {1e3 * seconds:.0f} ms"
            # Where neither arrives, the nearer one at the end is ahead.
            ranks.append([(x, run["excess"][-1]) for x in (steps, seconds)])
            words.append(f"{name} {text}")
        for kept, mine, other in zip(won.values(), *ranks, strict=True):
            kept.append(mine < other)
        # What it takes to find L, and σ, is in the time of the first iteration.
        words[0] += f" ({1e3 * runs[0]['seconds'][0]:.0f} ms to find L and step once)"
        parts.append(f"{problem}: {', '.join(words)}")
    if not parts:
        return None
    verdicts = {measure: _judge_all(kept) for measure, kept in won.items()}
    both = ", ".join(f"{verdict} in {measure}" for measure, verdict in verdicts.items())
    if len({*verdicts.values()}) == 1:
        both = f"{verdicts['CPU time']} in iterations and in CPU time"
    text = f"Iterations to {NEAR:g} of the first excess: {'; '.join(parts)} (Figure 1)."
    return Finding(both, text)


def _judge_stopping(results: Results) -> Finding | None:
    """Whether the paper's rule, a change below 1e-3, stops near the optimum."""
    words: dict[str, list[str]] = {}
    near = []
    for name in ("gd", "ista", "ista-reverse", "fista", "linear", PAPERS_LINEAR):
        for problem, (run,) in _runs(results, name):
            stopped = np.flatnonzero(run["change"] < SMALL_CHANGE)
            near.append(False)
            text = "never"
            if len(stopped):
                first = stopped[0]
                share = run["excess"][first] / run["start"][first]
                near[-1] = share <= NEAR
                text = f"{run['iteration'][first]:.0f} ({share:.0e})"
            words.setdefault(problem, []).append(f"{name} {text}")
    parts = [f"{problem}: {', '.join(each)}" for problem, each in words.items()]
    text = (
        f"First iteration that changes the objective by less than {SMALL_CHANGE:g}, "
        f"and its excess relative to the start: {{}}. Near the optimum: at most "
        f"{NEAR:g}."
    )
    return _find(near, parts, text, _judge_all)


# Tables.


def _judge_best(results: Results) -> Finding | None:
    """Whether a prior of the paper has the best mean on most of its data sets."""
    measurements = results.measurements
    best, beaten = {}, []
    for dataset, means in _paper_means(measurements):
        ours = [means[name] for name in ("natural", "artificial") if name in means]
        others = [means[name] for name in COMPARED if name in means]
        if not ours or not others:
            continue
        best[DATASETS[dataset]] = max(ours) >= max(others)
        for name in COMPARED:
            verdict = measurements.judge(Setting(dataset, name), REFERENCE)
            if verdict is Verdict.BETTER:
                beaten.append(f"{PAPER_LABELS[name]} on {DATASETS[dataset]}")
    if not best:
        return None
    won = [name for name, is_best in best.items() if is_best]
    text = (
        f"Best mean on {len(won)} of {len(best)} data sets "
        f"({', '.join(won) or 'none'}). Significantly better than ours: "
        f"{', '.join(beaten) or 'none'}."
    )
    return Finding(_judge_share(len(won), len(best)), text)


def _paper_means(measurements: Measurements) -> Iterator[tuple[str, dict[str, float]]]:
    """Means of the paper's ten methods on each of its data sets, by the main metric."""
    for dataset in dict.fromkeys(dataset for dataset, _ in PAPER):
        estimates = {
            method: measurements.estimate(
                Setting(dataset, method), MAIN_METRICS[dataset]
            )
            for method in PAPER_LABELS
        }
        yield dataset, {k: one.mean for k, one in estimates.items() if one is not None}


def _judge_fedem(results: Results) -> Finding | None:
    """Whether FedEM has the best mean on MNIST, the paper's one exception."""
    measurements = results.measurements
    means = dict(_paper_means(measurements)).get("mnist", {})
    if "fedem" not in means or len(means) < 2:
        return None
    ranked = sorted(means, key=lambda name: -means[name])
    shown = [f"{PAPER_LABELS[k]} {means[k]:.2f}" for k in ranked]
    verdict = HELD if ranked[0] == "fedem" else FAILED
    return Finding(verdict, f"AUC: {', '.join(shown)}.")


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


def _judge_expert(results: Results) -> Finding | None:
    """Whether an expert's relations add to no prior and to both of their controls."""
    measurements = results.measurements
    places = [
        Setting(name, "expert", size)
        for name in measurements.datasets()
        for size in (*measurements.sizes(name), None)
    ]
    verdicts = {place: measurements.judge_beyond(place) for place in places}
    known, won, lost = tally(verdicts)
    if not known:
        return None
    over_none = [place for place in known if _is_better(measurements, place, NONE)]
    gains = []
    for place in over_none:
        means = [
            100.0 * measurements.compare(place, reference).mean
            for reference in measurements.references(place)
        ]
        words = " / ".join(
            f"{mean:+.1f}" if isfinite(mean) else NOTHING for mean in means
        )
        gains.append(f"{_name(place)} {words}")
    text = (
        f"Significantly better than no prior at {len(over_none)} of {len(known)} data "
        "sets and points of learning curves; than no prior, a ridge and reversed "
        f"relations at {len(won)}{_list([_name(place) for place in won])}; worse than "
        f"one of the three at {len(lost)}{_list([_name(place) for place in lost])}. "
        "Points gained over no prior / ridge / reversed, where it is better than no "
        f"prior: {', '.join(gains) or 'none'}.".replace("-", "−")
    )
    unknown = [
        _name(place)
        for place in places
        if place not in known and _is_better(measurements, place, NONE)
    ]
    if unknown:
        text += (
            f" Not judged, since controls were not run: {', '.join(unknown)}, where it "
            "is better than no prior."
        )
    return Finding(_judge_share(len(won), len(known)), text)


def _is_better(measurements: Measurements, place: Setting, reference: str) -> bool:
    return measurements.judge(place, reference) is Verdict.BETTER


def _name(place: Setting) -> str:
    size = "the paper's split" if place.size is None else place.size
    return f"{DATASETS[place.dataset]} at {size}"


def _judge_against(
    results: Results, method: str, reference: str, *, worse: bool = False
) -> Finding | None:
    """Whether a method is better than another on the data sets, at the paper's splits.

    With ``worse``, whether it is not worse.
    """
    measurements = results.measurements
    known, won, lost = tally(
        {
            DATASETS[name]: measurements.judge(Setting(name, method), reference)
            for name in measurements.datasets()
        }
    )
    if not known:
        return None
    means = ", ".join(
        f"{name} {100.0 * measurements.compare(setting, reference).mean:+.2f}"
        for key, name in DATASETS.items()
        if name in known
        for setting in [Setting(key, method)]
    ).replace("-", "−")
    text = (
        f"“{measurements.label(method)}” against “{measurements.label(reference)}”: "
        f"significantly better on {len(won)} of {len(known)} data sets{_list(won)}, "
        f"worse on {len(lost)}{_list(lost)}. Points: {means}."
    )
    kept = len(known) - len(lost) if worse else len(won)
    return Finding(_judge_share(kept, len(known)), text)


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
        "not define its VE. What a linear model can reach is below."
    )
    agrees = any(pair.agrees for pair in pairs.values())
    return Finding(HELD if agrees else FAILED, text)


def _judge_compared(results: Results) -> Finding | None:
    pairs = compare_with_paper(results.measurements)
    agree = [pair.agrees for pair in pairs if pair.method in COMPARED]
    if not agree:
        return None
    sound = [
        pair.agrees
        for pair in pairs
        if pair.method in COMPARED and pair.method not in DOUBTFUL
    ]
    text = (
        f"{sum(agree)} of {len(agree)} agree (see below), {sum(sound)} of "
        f"{len(sound)} without {_names(DOUBTFUL)}. The paper gives no code, "
        "grids, intercepts or splits; our implementations with our tuning stand beside "
        "its figures (Tables 1 and 2)."
    )
    return Finding(_judge_share(sum(agree), len(agree)), text)


# Figures 2 and 3.


def _judge_areas(results: Results) -> Finding | None:
    """Whether the curves of Figure 2 have the areas of the paper's Table 2."""
    parts, kept = [], []
    for dataset in dict.fromkeys(results.roc["dataset"].to_pylist()):
        rows = results.roc.filter(
            (pc.field("dataset") == dataset) & (pc.field("method") == "natural")
        )
        paper = paper_estimate(dataset, "auc", "natural")
        by_repeat, by_task = (
            100.0
            * rows.group_by(key).aggregate([("auc", "mean")])["auc_mean"].to_numpy()
            for key in ("repeat", "task")
        )
        if paper is None or len(by_repeat) < 2:
            continue
        ours = Estimate(float(by_repeat.mean()), float(by_repeat.std(ddof=1)))
        kept.append(Agreement(dataset, "auc", "natural", ours, paper).agrees)
        parts.append(
            f"{DATASETS[dataset]} {ours.mean:.1f} ± {ours.sd:.1f}, ± "
            f"{by_task.std(ddof=1):.1f} over tasks (paper {paper.mean} ± {paper.sd})"
        )
    text = "Area under the curves of the natural prior: {}."
    return _find(kept, parts, text, _judge_all)


INSENSITIVE = 5.0  # points
FAR = 10.0  # threshold over the smallest lam, to be one


def _judge_calm(results: Results) -> Finding | None:
    """Whether AUC hardly moves with all strengths, until lam passes a threshold."""
    parts, kept = [], []
    for dataset in ("yale", "orl"):
        surface = Surface.of(results.surfaces, dataset, "auc")
        if surface is None:
            continue
        lams = surface.axes[0]
        ends = [
            (float(np.nanmin(part)), float(np.nanmax(part)))
            for part in (surface.values[: k + 1] for k in range(len(lams)))
        ]
        calm = sum(high - low < INSENSITIVE for low, high in ends)
        kept.append(calm > 0 and lams[calm - 1] >= FAR * lams[0])
        words = f"no more than {INSENSITIVE:g} points nowhere"
        if calm:
            low, high = ends[calm - 1]
            words = f"{low:.1f} to {high:.1f} up to lam = {lams[calm - 1]:g}"
        if calm < len(lams):
            words += f", down to {ends[calm][0]:.1f} at {lams[calm]:g}"
        parts.append(f"{surface.title}: {words}")
    text = "For all theta and epsilon from 1 to 100: {} (Figure 3)."
    return _find(kept, parts, text, _judge_all)


def _judge_lam(results: Results) -> Finding | None:
    """Whether VE moves most along lam."""
    surface = Surface.of(results.surfaces, "school", "ve_pooled")
    if surface is None:
        return None
    ranges = surface.ranges()
    sizes = ", ".join(f"{size:.1f} along {name}" for name, size in ranges.items())
    text = f"Range in points from 1 to 100: {surface.title}: {sizes} (Figure 3)."
    lam_leads = max(ranges, key=ranges.__getitem__) == "lam"
    return Finding(HELD if lam_leads else FAILED, text)


# All claims.

CLAIMS: Mapping[str, Callable[[Results], Finding | None]] = {
    "Constants L and σ of the smooth part": _judge_constants,
    "Theorem: Algorithm 3 converges at the linear rate, with the paper's constants": (
        partial(
            _judge_rate, algorithm=PAPERS_LINEAR, bound="theorem, paper's constants"
        )
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
    "Algorithm 3 (linear) generally converges faster than FISTA, with the paper's "
    "constants": partial(_judge_race, first=PAPERS_LINEAR, second="fista"),
    "The same with the true constants": partial(
        _judge_race, first="linear", second="fista"
    ),
    "A change of the objective below 1e-3 (the paper's stopping rule) ends near the "
    "optimum": _judge_stopping,
    "Best of ten methods in most cases (Tables 1 and 2)": _judge_best,
    "FedEM is the best method on MNIST (Table 2)": _judge_fedem,
    "A natural prior improves predictions": partial(_judge_prior, prior="natural"),
    "An artificial prior improves predictions": lambda results: _judge_prior(
        results,
        "artificial",
        "Two equal features share their coefficient equally at the optimum for every "
        "theta, so that theta changes no prediction (docs/mathematics.md).",
    ),
    "The artificial prior is better than the natural one (the paper: on MNIST, Letter "
    "and ORL)": partial(_judge_against, method="artificial", reference="natural"),
    "Prior knowledge of an expert improves predictions (not tested in the paper)": (
        _judge_expert
    ),
    "A chain of tasks (epsilon) improves predictions": partial(
        _judge_against, method=NONE, reference="separate"
    ),
    "The nuclear norm can take the place of the row penalty (footnote)": partial(
        _judge_against, method="nuclear", reference=NONE, worse=True
    ),
    "39.8 % of School's variance explained": _judge_school,
    "ROC curves with the areas of Table 2 (Figure 2)": _judge_areas,
    "Classification is insensitive to the strengths until a threshold (Figure 3)": (
        _judge_calm
    ),
    "Regression is sensitive above all to lam (Figure 3)": _judge_lam,
    "The figures of the eight compared methods": _judge_compared,
}


def claims_table(results: Results) -> Table:
    rows = []
    for claim, judge in CLAIMS.items():
        cells = judge(results) or ("not measured", "")
        rows.append((claim, [TextCell(text) for text in cells]))
    note = (
        "All verdicts are computed from the rows of results. A theorem fails by one "
        "counterexample. What is said of data sets, of points of learning curves or of "
        "figures is held if it is so for more than half of them, held in part if for "
        "more than a fifth; better and worse: significantly. An expert's prior must be "
        "better than no prior and than both controls: a ridge (D = I, theta from the "
        "same grid) and all relations reversed. Insensitive: all values within "
        f"{INSENSITIVE:g} points up to a lam of at least {FAR:g} times the smallest."
    )
    heads = ("The paper's claim", "Verdict", "Figures")
    table = measured_table("Claims and verdicts", heads, rows, [note])
    return replace(table, alignment="lll")
