"""What lies beyond the ends of the grids of ``priormtl reproduce``.

Searches on a split outside the reported repeats, over wider grids than those of the
protocol. The table has, for each value of a strength, the mean score of the held-out
folds at the best values of the other strengths: an end of a grid matters if the score
still rises beyond it. ``python -m benchmarks.edges`` writes docs/results/edges.md.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from priormtl.experiments.methods import METHODS, Training
from priormtl.experiments.protocol import Budget
from priormtl.experiments.units import ScoreUnit

PAGE = Path(__file__).parents[1] / "docs" / "results" / "edges.md"
REPEAT = 10  # the reported ones are 0 to 9
FOLDS = 2  # on which MNIST is searched
LAMS = (0.03, 0.01, 0.003, 0.001)
OURS = {
    ("yale", "none"): Budget(LAMS, (0.0,), (0.01, 0.1, 1.0, 10.0, 100.0)),
    ("yale", "expert"): Budget(LAMS, (0.0, 1.0, 10.0, 100.0), (0.001, 0.01, 1.0, 10.0)),
    ("mnist", "none"): Budget((*LAMS, 0.0003), (0.0,), (0.1,)),
    ("mnist", "natural"): Budget((*LAMS, 0.0003), (0.0, 1.0, 10.0), (0.1,)),
}
# The exponent that the repeats chose most often, and C.
KERNELS = {"sarcos": 1.99, "yale": 1.5, "mnist": 1.5, "letter": 1.99, "orl": 1.99}
COSTS = tuple(10.0**k for k in range(1, 7))

Scores = dict[str, dict[float, float]]  # strength, value: the best score with it


def profile(model: Any, units: Mapping[str, float]) -> Scores:
    """Best mean score of each value of each strength, in the units of the grids."""
    found: Scores = {name: {} for name in units}
    table = model.cv_results_
    for setting, score in zip(table["params"], table["mean_test_score"], strict=True):
        for name, unit in units.items():
            value = float(f"{setting[name] / unit:.3g}")
            best = found[name].get(value, -float("inf"))
            found[name][value] = max(best, float(score))
    return found


def search_ours(training: Training, method: str, budget: Budget) -> Scores:
    """Scores of our model over a grid."""
    model = METHODS[method].build(replace(training, budget=budget))
    model.fit(training.rows.X, training.rows.y, task=training.rows.task)
    n = training.rows_per_task
    return profile(model, {"lam": training.lam_max, "theta": n, "epsilon": n})


def search_kernels(training: Training, q: float) -> Scores:
    """Scores of MKMTL over C."""
    settings = [{"q": q, "C": cost} for cost in COSTS]
    model = METHODS["mkmtl"].build(training).set_params(settings=settings)
    model.fit(training.rows.X, training.rows.y, task=training.rows.task)
    return profile(model, {"C": 1.0})


def lines(dataset: str, label: str, scores: Scores) -> Iterable[str]:
    """Rows of the table, one per strength with several values."""
    for name, found in scores.items():
        if len(found) < 2:
            continue
        best = max(found.values())
        words = [f"{value:g}: {score:.5f}" for value, score in sorted(found.items())]
        words = [
            f"**{word}**" if word.endswith(f"{best:.5f}") else word for word in words
        ]
        yield f"| {dataset} | {label} | {name} | {', '.join(words)} |"


def main() -> None:
    """Run all searches and write the page."""
    rows = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # of approximated kernels
        for (dataset, method), budget in OURS.items():
            _, _, training = ScoreUnit(dataset, method, REPEAT).prepare()
            if dataset == "mnist":
                training = replace(training, held_out=FOLDS)
            scores = search_ours(training, method, budget)
            rows += lines(dataset, METHODS[method].label, scores)
        for dataset, q in KERNELS.items():
            _, _, training = ScoreUnit(dataset, "mkmtl", REPEAT).prepare()
            rows += lines(dataset, f"MKMTL, q = {q:g}", search_kernels(training, q))
    head = "| Data set | Method | Strength | Value: score |\n| --- | --- | --- | --- |"
    text = [
        "# Beyond the ends of the grids",
        "Written by `python -m benchmarks.edges`; do not edit.",
        f"Cross-validation on split {REPEAT}, which is none of the reported repeats, "
        "over grids wider than those of [the results](../results.md). For each value "
        "of a strength: the mean score of the held-out folds at the best values of the "
        "other strengths (AUC; on Sarcos minus the squared error). The best is bold. "
        f"MNIST is searched by our model on {FOLDS} of 5 folds.",
        "\n".join([head, *rows]),
    ]
    PAGE.write_text("\n\n".join(text) + "\n", "utf-8")


if __name__ == "__main__":
    main()
