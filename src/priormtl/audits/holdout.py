"""Whether a prior helped: errors on held-out rows, with the prior and without it.

Both models are fitted on the same splits, and differences of their errors are paired by
split. Splits of one table share rows, so the interval of the mean difference is the
corrected resampled t interval of Nadeau and Bengio (2003); see ``priormtl.metrics``.
Where no rows are given, the scores of the model's own search are compared instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator

from priormtl import selection
from priormtl._arrays import Array, Index
from priormtl.audits.results import PriorBenefit
from priormtl.data import StackedRows, Table, TaskData
from priormtl.estimators import SearchSummary, make_splits
from priormtl.losses import ClassRows, Family
from priormtl.metrics import LEVEL, Interval, corrected_interval

PRIORS = {"theta": "feature prior", "epsilon": "task prior"}  # by their strengths
PAIRED = (
    "differences are paired by split, with the corrected resampled t interval of "
    "Nadeau and Bengio."
)


def deal_splits(
    cv: object,
    table: Table,
    X: object,
    y: object,
    *,
    by_class: bool,
    n_repeats: int,
    random_state: int | np.random.Generator | None,
) -> tuple[list[selection.Split], Array]:
    """Splits, and the round of folds of each; a number of folds is dealt repeatedly."""
    if isinstance(cv, bool) or not isinstance(cv, Integral) or cv < 2:
        splits = make_splits(cv, table, X, y, by_class=by_class)
        return splits, np.zeros(len(splits))
    rng = np.random.default_rng(random_state)
    strata = selection.strata_of(table, by_class=by_class)
    splits = []
    for _ in range(n_repeats):
        order = rng.permutation(len(table))
        folds = np.empty(len(table), dtype=np.intp)
        folds[order] = selection.deal_rows(strata[order], int(cv))
        splits += selection.split_by_fold(folds)
    return splits, np.repeat(np.arange(float(n_repeats)), int(cv))


@dataclass(frozen=True, eq=False)
class Holdout:
    """Errors of both models on all splits and for all values of lam."""

    metric: str
    lams: Array  # (l,)
    with_prior: Array  # (k, l) mean errors
    without_prior: Array
    rounds: Array  # (k,) round of folds of each split
    test_to_train: float
    chosen: bool  # whether strengths were tuned

    def at(self, lam: float) -> PriorBenefit:
        """Compare both at the same lam."""
        place = np.full(len(self.rounds), int(np.argmin(np.abs(self.lams - lam))))
        return self._compare(place, place, f"the model's lam ({lam:.3g})")

    def at_own(self) -> PriorBenefit:
        """Compare each at the lam that is best for it on other folds of the round."""
        same = self.rounds[:, np.newaxis] == self.rounds
        others = same & ~np.eye(len(same), dtype=bool)
        # Where a round has one split alone, all splits decide.
        others[~others.any(axis=1)] = True
        first, second = (
            np.argmin(others.astype(np.float64) @ errors, axis=1)
            for errors in (self.with_prior, self.without_prior)
        )
        words = "the lam that was best for each on the other folds"
        return self._compare(first, second, words)

    def _compare(self, first: Index, second: Index, lam: str) -> PriorBenefit:
        """Compare with the lams at these places (k,) for each model."""
        splits = np.arange(len(self.rounds))
        method = f"Both were fitted on the same {len(splits)} splits at {lam}; {PAIRED}"
        if self.chosen:
            method += (
                " Theta and epsilon had been chosen on all rows, which favours the "
                "prior slightly."
            )
        return judge_benefit(
            self.metric,
            self.with_prior[splits, first],
            self.without_prior[splits, second],
            lams=(self.lams[first], self.lams[second]),
            test_to_train=self.test_to_train,
            method=method,
        )


def hold_out(
    plain: BaseEstimator,
    table: Table,
    splits: list[selection.Split],
    rounds: Array,
    lams: Array,
    *,
    chosen: bool,
    advance: Callable[[], None] = lambda: None,
) -> Holdout:
    """Fit with the prior and without it on every split, for all values of lam."""
    family = plain._family
    order = np.argsort(-lams, kind="stable")  # paths follow decreasing lam
    with_prior, without_prior = errors = np.zeros((2, len(splits), len(lams)))
    ratios = []
    for k, split in enumerate(splits):
        train, test = (
            selection.take_training(table, split, k),
            selection.take_test(table, split, k),
        )
        rows: TaskData = test.to_tasks()
        places = selection.task_places(test.tasks, table.tasks)
        ratios.append(rows.task_weight.sum() / train.task_weight.sum())
        if family is not None and (K := family.scores_per_row) > 1:
            assert isinstance(rows, StackedRows)
            firsts = len(table.tasks) * np.arange(K)[:, np.newaxis]
            rows, places = ClassRows.of(rows, K), (firsts + places).ravel()
        setup = plain._model().pose(train)
        for which, theta in enumerate((plain.theta, 0.0)):
            problem = setup.problem.with_strengths(lam=1.0, theta=theta)
            path = plain._solve_path(setup._replace(problem=problem), lams[order])
            for place, solution in zip(order, path, strict=True):
                total = solution.point.total / setup.scale[:, np.newaxis]
                intercept = rows.spread(solution.intercept[places])
                scores = rows.forward(total[:, places]) + intercept
                if rows.offset is not None:
                    scores = scores + rows.offset
                if family is None:
                    losses = (scores - rows.y) ** 2
                else:
                    losses = family.scoring[1] * family.loss(scores, rows.y)
                errors[which, k, place] = np.average(losses, weights=rows.weight)
            advance()
    return Holdout(
        metric_of(family),
        lams,
        with_prior,
        without_prior,
        rounds,
        float(np.mean(ratios)),
        chosen,
    )


def metric_of(family: Family | None) -> str:
    """Words for what default scores measure."""
    if family is None:
        return "mean squared error"
    return family.scoring[0].removeprefix("neg_").replace("_", " ")


def benefit_of_search(
    search: SearchSummary, strength: str = "theta"
) -> PriorBenefit | None:
    """Compare the chosen candidate of a search with the best one without a prior.

    None if no candidate was without: its strength was never zero.
    """
    values, prior = search.strengths.get(strength), PRIORS[strength]
    if values is None or not np.any(values == 0):
        return None
    means = search.means if search.is_error else -search.means
    means = np.where(np.isnan(means) | (values != 0), np.inf, means)
    places = np.array([search.best, np.argmin(means)])
    scores = search.scores[places]
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    splits = scores.shape[1]
    if splits < 2:
        return None
    metric, errors = search.metric, scores
    if metric == "AUC":
        metric, errors = "distance of the AUC from 1", 1.0 - scores
    elif not search.is_error:
        metric, errors = f"negative score ({metric})", -scores
    lams = np.tile(search.strengths["lam"][places, np.newaxis], splits)
    found = judge_benefit(
        metric,
        *errors,
        lams=(lams[0], lams[1]),
        test_to_train=1.0 / (search.scores.shape[1] - 1),
        method=(
            f"Scores of the model's own search on {splits} splits, the best candidate "
            f"with {strength} = 0 against {strength} = {values[search.best]:g}; "
            f"{PAIRED} The strengths were chosen by the same scores, which favours "
            "the prior."
        ),
        prior=prior,
    )
    if places[0] == places[1]:
        sentence = f"The best candidate has {strength} = 0, without the {prior}."
        return replace(found, sentence=sentence)
    return found


def judge_benefit(
    metric: str,
    with_prior: Array,
    without_prior: Array,
    *,
    lams: tuple[Array, Array],
    test_to_train: float,
    method: str,
    prior: str = "prior",
) -> PriorBenefit:
    """Compare errors (k,) of the same splits; ``lams`` are those with and without."""
    change, interval = _relative_change(with_prior, without_prior, test_to_train)
    verdict = "no difference"
    negligible = 1e-4  # relative change within the tolerances of solvers
    if interval.high < 0 and change < -negligible:
        verdict = "helped"
    elif interval.low > 0 and change > negligible:
        verdict = "harmed"
    return PriorBenefit(
        metric,
        with_prior,
        without_prior,
        *lams,
        change,
        interval.low,
        interval.high,
        LEVEL,
        interval.p_value,
        verdict,
        _sentence(prior, metric, verdict, change, interval),
        method,
    )


def _relative_change(
    with_prior: Array, without_prior: Array, test_to_train: float
) -> tuple[float, Interval]:
    """Mean difference and its interval, relative to the mean error without prior."""
    differences = with_prior - without_prior
    unit = abs(float(without_prior.mean()))
    if unit == 0:
        unit = 1.0 if not differences.any() else float(np.abs(differences).max())
    change = float(differences.mean()) / unit
    if len(differences) < 2:
        return change, Interval(np.nan, np.nan, np.nan)
    low, high, p_value = corrected_interval(differences, test_to_train)
    return change, Interval(low / unit, high / unit, p_value)


def _sentence(
    prior: str, metric: str, verdict: str, change: float, interval: Interval
) -> str:
    if np.isnan(interval.low):
        return f"One split alone cannot show whether the {prior} changes the {metric}."
    change, low, high = 100 * change, 100 * interval.low, 100 * interval.high
    if verdict == "helped":
        opening = f"The {prior} lowered the {metric}"
        change, low, high = -change, -high, -low
    elif verdict == "harmed":
        opening = f"The {prior} did harm: it raised the {metric}"
    else:
        opening = f"No significant difference: the {prior} changed the {metric}"
    return (
        f"{opening} by {_percent(change)} % ({100 * LEVEL:.0f} % interval "
        f"{_percent(low)} to {_percent(high)} %)."
    )


def _percent(value: float) -> str:
    """Two digits, and a true minus sign."""
    if abs(value) < 0.01:
        return "0"
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    return f"{value:.{digits}f}".replace("-", "−")
