"""Whether a prior helped: errors on held-out rows, with the prior and without it.

Both models are fitted on the same splits, and differences of their errors are paired by
split. Splits of one table share rows, so the interval of the mean difference is the
corrected resampled t interval of Nadeau and Bengio (2003); see ``priormtl.metrics``.
Where no rows are given, the scores of the model's own search are compared instead.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator

from priormtl import selection
from priormtl._arrays import Array, Index
from priormtl.audits.results import PriorBenefit, TaskBenefit
from priormtl.data import Table
from priormtl.estimators import make_splits
from priormtl.losses import Family
from priormtl.metrics import LEVEL, Interval, corrected_interval

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
    with_prior: Array  # (k, l, m) sums of errors
    without_prior: Array
    weight: Array  # (k, m) of the held-out rows
    rounds: Array  # (k,) round of folds of each split
    test_to_train: float
    tasks: tuple[Hashable, ...]
    chosen: bool  # whether strengths were tuned

    def at(self, lam: float) -> PriorBenefit:
        """Compare both at the same lam."""
        place = np.full(len(self.weight), int(np.argmin(np.abs(self.lams - lam))))
        return self._compare(place, place, f"the model's lam ({lam:.3g})")

    def at_own(self) -> PriorBenefit:
        """Compare each at the lam that is best for it on other folds of the round."""
        total = self.weight.sum(axis=1)[:, np.newaxis]
        same = self.rounds[:, np.newaxis] == self.rounds
        others = same & ~np.eye(len(same), dtype=bool)
        # Where a round has one split alone, all splits decide.
        others[~others.any(axis=1)] = True
        first, second = (
            np.argmin(others.astype(np.float64) @ (errors.sum(axis=2) / total), axis=1)
            for errors in (self.with_prior, self.without_prior)
        )
        words = "the lam that was best for each on the other folds"
        return self._compare(first, second, words)

    def _compare(self, first: Index, second: Index, lam: str) -> PriorBenefit:
        """Compare with the lams at these places (k,) for each model."""
        splits = np.arange(len(self.weight))
        a, b = self.with_prior[splits, first], self.without_prior[splits, second]
        total = self.weight.sum(axis=1)
        measured = np.where(self.weight > 0, self.weight, np.nan)
        ratio = self.test_to_train
        method = f"Both were fitted on the same {len(splits)} splits at {lam}; {PAIRED}"
        if self.chosen:
            method += (
                " Theta and epsilon had been chosen on all rows, which favours the "
                "prior slightly."
            )
        return judge_benefit(
            self.metric,
            a.sum(axis=1) / total,
            b.sum(axis=1) / total,
            lams=(self.lams[first], self.lams[second]),
            test_to_train=ratio,
            method=method,
            by_task=judge_tasks(self.tasks, a / measured, b / measured, ratio),
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
    weight = np.zeros((len(splits), len(table.tasks)))
    with_prior, without_prior = errors = np.zeros(
        (2, len(splits), len(lams), len(table.tasks))
    )
    ratios = []
    for k, split in enumerate(splits):
        train, test = (
            selection.take_training(table, split, k),
            selection.take_test(table, split, k),
        )
        rows, places = test.to_tasks(), selection.task_places(test.tasks, table.tasks)
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
                sums = rows.task_sums(rows.weight * losses)
                errors[which, k, place, places] = sums
            advance()
        weight[k, places] = rows.task_weight
        ratios.append(weight[k].sum() / train.task_weight.sum())
    return Holdout(
        metric_of(family),
        lams,
        with_prior,
        without_prior,
        weight,
        rounds,
        float(np.mean(ratios)),
        table.tasks,
        chosen,
    )


def metric_of(family: Family | None) -> str:
    """Words for what default scores measure."""
    if family is None:
        return "mean squared error"
    return family.scoring[0].removeprefix("neg_").replace("_", " ")


def benefit_of_search(model: BaseEstimator) -> PriorBenefit | None:
    """Compare scores of the model's search; None if it has not tried theta = 0."""
    candidates = model.cv_results_["params"]
    without = candidates[model.best_index_] | {"theta": 0.0}
    if without not in candidates:
        return None
    places = [model.best_index_, candidates.index(without)]
    scores = model.fitted_.search.result.scores[places]
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    splits = scores.shape[1]
    if splits < 2:
        return None
    if isinstance(model.scoring, str) and model.scoring == "task_auc":
        metric, errors = "distance of the AUC from 1", 1.0 - scores
    elif not model._scores_by_default:
        metric, errors = f"negative score ({model.scoring})", -scores
    else:
        metric, errors = metric_of(model._family), -scores
    lams = np.full(splits, model.lam_)
    return judge_benefit(
        metric,
        *errors,
        lams=(lams, lams),
        test_to_train=1.0 / (model.n_splits_ - 1),
        method=(
            f"Scores of the model's own search on {splits} splits, theta = 0 against "
            f"theta = {model.theta_:g} at the same lam and epsilon; {PAIRED} The "
            "strengths were chosen by these very scores, which favours the prior "
            "slightly."
        ),
    )


def judge_benefit(
    metric: str,
    with_prior: Array,
    without_prior: Array,
    *,
    lams: tuple[Array, Array],
    test_to_train: float,
    method: str,
    by_task: tuple[TaskBenefit, ...] = (),
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
        _sentence(metric, verdict, change, interval),
        method,
        by_task,
    )


def judge_tasks(
    tasks: Sequence[Hashable],
    with_prior: Array,
    without_prior: Array,
    test_to_train: float,
) -> tuple[TaskBenefit, ...]:
    """Compare errors (k, m) task by task; NaN where a split holds out no rows."""
    found = []
    for task, a, b in zip(tasks, with_prior.T, without_prior.T, strict=True):
        known = ~np.isnan(a)
        change, interval = _relative_change(a[known], b[known], test_to_train)
        first, second = (
            float(errors[known].mean()) if known.any() else float("nan")
            for errors in (a, b)
        )
        low, high, _ = interval
        found.append(TaskBenefit(str(task), first, second, change, low, high))
    return tuple(found)


def _relative_change(
    with_prior: Array, without_prior: Array, test_to_train: float
) -> tuple[float, Interval]:
    """Mean difference and its interval, relative to the mean error without prior."""
    nan = float("nan")
    if not len(with_prior):
        return nan, Interval(nan, nan, nan)
    differences = with_prior - without_prior
    unit = abs(float(without_prior.mean()))
    if unit == 0:
        unit = 1.0 if not differences.any() else float(np.abs(differences).max())
    change = float(differences.mean()) / unit
    if len(differences) < 2:
        return change, Interval(nan, nan, nan)
    low, high, p_value = corrected_interval(differences, test_to_train)
    return change, Interval(low / unit, high / unit, p_value)


def _sentence(metric: str, verdict: str, change: float, interval: Interval) -> str:
    low, high = 100 * interval.low, 100 * interval.high
    level = f"{100 * LEVEL:.0f} % interval"
    if verdict == "helped":
        return (
            f"The prior lowered the {metric} by {_percent(-100 * change)} % ({level} "
            f"{_percent(-high)} to {_percent(-low)} %)."
        )
    if verdict == "harmed":
        return (
            f"The prior did harm: it raised the {metric} by {_percent(100 * change)} % "
            f"({level} {_percent(low)} to {_percent(high)} %)."
        )
    if np.isnan(low):
        return f"One split alone cannot show whether the prior changes the {metric}."
    return (
        f"Not certain on these rows: the prior changed the {metric} by "
        f"{_percent(100 * change)} % ({level} {_percent(low)} to {_percent(high)} %)."
    )


def _percent(value: float) -> str:
    """Two digits, and a true minus sign."""
    if abs(value) < 0.01:
        return "0"
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    return f"{value:.{digits}f}".replace("-", "−")
