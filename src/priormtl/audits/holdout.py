"""The same model with its prior and without it, judged on rows held out."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.audits.benefit import judge_benefit, judge_tasks
from priormtl.audits.results import PriorBenefit
from priormtl.data import Table, TaskData
from priormtl.estimators import make_splits
from priormtl.selection import (
    Split,
    deal_rows,
    split_by_fold,
    strata_of,
    take_test,
    take_training,
    task_places,
)

__all__ = ["Holdout", "deal_splits", "hold_out"]

ROWS_METHOD = (
    "Both were fitted on the same {splits} splits at {lam}; differences are paired by "
    "split, with the corrected resampled t interval of Nadeau and Bengio.{chosen}"
)
CHOSEN = (
    " Theta and epsilon had been chosen on all rows, which favours the prior slightly."
)


@dataclass(frozen=True, eq=False)
class Holdout:
    """Errors of both models on all splits and for all values of lam."""

    metric: str
    lams: Array  # (l,)
    with_prior: Array  # (k, l, m) sums of errors
    without_prior: Array
    weight: Array  # (k, m) of the held-out rows
    rounds: Array  # (k,) which round of folds a split belongs to
    test_to_train: float
    tasks: tuple[Any, ...]
    chosen: bool  # whether strengths were tuned

    def at(self, lam: float) -> PriorBenefit:
        """Both with the same lam."""
        place = np.full(len(self.weight), int(np.argmin(np.abs(self.lams - lam))))
        return self._judge(place, place, f"the model's lam ({lam:.3g})")

    def at_own(self) -> PriorBenefit:
        """Each with the lam that is best for it on the other folds of its round."""
        places = self._best(self.with_prior), self._best(self.without_prior)
        words = "the lam that was best for each on the other folds"
        return self._judge(*places, words)

    def _best(self, errors: Array) -> Array:
        totals, weight = errors.sum(axis=2), self.weight.sum(axis=1)
        means = totals / weight[:, np.newaxis]
        same = self.rounds[:, np.newaxis] == self.rounds
        others = same & ~np.eye(len(means), dtype=bool)
        # A round of one split has no others: all splits decide.
        others[~others.any(axis=1)] = True
        return np.argmin(others.astype(np.float64) @ means, axis=1)

    def _judge(self, first: Array, second: Array, lam: str) -> PriorBenefit:
        splits = np.arange(len(self.weight))
        a, b = self.with_prior[splits, first], self.without_prior[splits, second]
        total = self.weight.sum(axis=1)
        measured = np.where(self.weight > 0, self.weight, np.nan)
        ratio = self.test_to_train
        return judge_benefit(
            self.metric,
            a.sum(axis=1) / total,
            b.sum(axis=1) / total,
            lams=(self.lams[first], self.lams[second]),
            test_to_train=ratio,
            method=ROWS_METHOD.format(
                splits=len(splits), lam=lam, chosen=CHOSEN if self.chosen else ""
            ),
            by_task=judge_tasks(self.tasks, a / measured, b / measured, ratio),
        )


def deal_splits(
    cv: Any,
    table: Table,
    X: Any,
    y: Any,
    *,
    by_class: bool,
    n_repeats: int,
    random_state: Any,
) -> tuple[list[Split], Array]:
    """Splits, and the round of folds that each belongs to; numbers are dealt anew."""
    if isinstance(cv, bool) or not isinstance(cv, Integral) or cv < 2:
        splits = make_splits(cv, table, X, y, by_class=by_class)
        return splits, np.zeros(len(splits))
    rng = np.random.default_rng(random_state)
    strata = strata_of(table, by_class=by_class)
    splits = []
    for _ in range(n_repeats):
        order = rng.permutation(len(table))
        folds = np.empty(len(table), dtype=np.intp)
        folds[order] = deal_rows(strata[order], int(cv))
        splits += split_by_fold(folds)
    return splits, np.repeat(np.arange(float(n_repeats)), int(cv))


def hold_out(
    plain: Any,
    table: Table,
    splits: list[Split],
    rounds: Array,
    lams: Array,
    *,
    chosen: bool,
    advance: Callable[[], None] = lambda: None,
) -> Holdout:
    """Fit with prior and without on every split, for all values of lam."""
    both, weight, ratios = [], np.zeros((len(splits), len(table.tasks))), []
    for k, split in enumerate(splits):
        train, test = take_training(table, split, k), take_test(table, split, k)
        held_out = _HeldOut.from_table(plain, test, table.tasks)
        setup = plain._set_up(train)
        arms = []
        for theta in (plain.theta, 0.0):
            problem = setup.problem.with_strengths(lam=1.0, theta=theta)
            arm = setup._replace(problem=problem)
            arms.append(held_out.errors(plain, arm, lams))
            advance()
        both.append(arms)
        weight[k, held_out.places] = held_out.data.task_weight
        ratios.append(weight[k].sum() / train.task_weight.sum())
    with_prior, without_prior = np.stack(both, axis=1)
    return Holdout(
        "log loss" if plain._uses_logistic else "mean squared error",
        lams,
        with_prior,
        without_prior,
        weight,
        rounds,
        float(np.mean(ratios)),
        table.tasks,
        chosen,
    )


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Rows that judge models."""

    data: TaskData
    places: Index  # of its tasks among all
    m: int
    logistic: bool

    @classmethod
    def from_table(cls, plain: Any, test: Table, tasks: tuple[Any, ...]) -> Self:
        places = task_places(test.tasks, tasks)
        return cls(test.to_tasks(), places, len(tasks), plain._uses_logistic)

    def errors(self, plain: Any, setup: Any, lams: Array) -> Array:
        """Sums of errors (l, m) of solutions for all values of lam."""
        order = np.argsort(-lams, kind="stable")
        solutions = plain._solve_path(setup, lams[order])
        found = np.zeros((len(lams), self.m))
        for k, solution in zip(order, solutions, strict=True):
            total = solution.point.total / setup.scale[:, np.newaxis]
            coef = total[:, self.places]
            found[k, self.places] = self._sums(coef, solution.intercept[self.places])
        return found

    def _sums(self, coef: Array, intercept: Array) -> Array:
        data = self.data
        scores = data.forward(coef) + data.spread(intercept)
        if self.logistic:
            losses = np.logaddexp(0.0, -data.y * scores)
        else:
            losses = (scores - data.y) ** 2
        return data.task_sums(data.weight * losses)
