"""Tests of what was stated about single features: signs, common and smooth effects.

A sign is tested in two ways. The mean effect of all tasks is estimated by least squares
over all tasks, with a variance that allows rows of one task to hang together and tasks
to differ (Liang and Zeger 1986); it may lie on the wrong side by chance. And each
task's own effect may: Σ z² over the effects on the wrong side has a mixture of χ²
distributions if all true effects are zero, which is the worst case (Robertson, Wright
and Dykstra 1988). The smaller p value counts, twice.

Whether an effect is the same in all tasks, and whether a curve is a straight line, are
questions about variances: the restricted likelihoods with and without them are
compared. A variance of zero lies on the boundary, so that the statistic is zero in half
of all cases (Self and Liang 1987).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.stats import binom, chi2, norm
from scipy.stats import t as student

from priormtl._arrays import Array
from priormtl.audits.refits import FittedProblem
from priormtl.data import Moments, TaskStatistics, name_features
from priormtl.losses import FreeIntercepts, Intercepts, SquaredFit
from priormtl.model import find_families
from priormtl.priors import FeaturePrior, TaskPrior, curves_of, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.reml import COMMON, Families, Ties, estimate_ties
from priormtl.selection.outlier_test import usual_variance

VANISHING = 1e-12  # relative size of eigenvalues and curvatures that count as zero


class Judgement(NamedTuple):
    """A statement about one feature, and what the data say about it."""

    relation: str  # in words
    feature: str
    sign: str  # "nonnegative", "nonpositive", "common" or "smooth"
    before: float  # share of tasks that the statement moves, of a fit without it
    statistic: float
    p_value: float


def judge_statements(fitted: FittedProblem, without: Array) -> list[Judgement]:
    """Test signs, common effects and curves; ``without`` (d, m) is P without them.

    Signs in all of several classes cannot be judged: a number that is added to the
    effects of all classes changes no probability. Other tests are those of pairs.
    """
    prior = fitted.setup.feature_prior
    if prior is None:
        return []
    problem = fitted.setup.problem
    if fitted.has_several_classes:
        names = name_features(fitted.setup.moments.features, len(without))
        return list(_list_signs(prior, names, without))
    point = problem.at(np.ascontiguousarray(without))
    model = problem.fit.quadratic_model(point.fit)
    if not isinstance(model, SquaredFit):
        return []
    names = name_features(fitted.setup.moments.features, len(without))
    known_noise = None if problem.fit.is_quadratic else 1.0
    # Differences between tasks are judged whatever ties the model has.
    graph = laplacian(TaskPrior.mean(), model.moments.tasks)
    families = find_families(model.moments, prior, prior.common_features)
    variances = Variances(model.moments, graph, model.intercepts, known_noise, families)
    if known_noise is None:
        variances = variances.with_equal_noise()
    return [
        *_judge_signs(model, prior, names, without),
        *_judge_common(variances, prior, names),
        *_judge_curves(variances, prior),
    ]


# Signs.


def _judge_signs(
    model: SquaredFit, prior: FeaturePrior, names: Sequence[str], without: Array
) -> list[Judgement]:
    found, untested = [], list(_list_signs(prior, names, without))
    if not untested:
        return []
    gram, cross = _products(model)
    mean, covariance, degrees = _mean_effects(gram, cross, model)
    for one in untested:
        j = names.index(one.feature)
        sign = 1.0 if one.sign == "nonnegative" else -1.0
        error = float(np.sqrt(covariance[j, j]))
        z = sign * float(mean[j]) / error if error > 0 else np.nan
        together = float(student.cdf(z, degrees))
        # Σ z² over negative scores of tasks, if all true effects are zero.
        scores = sign * _task_scores(model, mean, j)
        scores = scores[np.isfinite(scores)]
        statistic = float(np.sum(np.minimum(scores, 0.0) ** 2))
        alone = _mixture(statistic, len(scores)) if len(scores) else np.nan
        p = float(np.nanmin([together, alone])) if error > 0 else np.nan
        statistic = max(0.0, -z) ** 2 if error > 0 else np.nan
        found.append(one._replace(statistic=statistic, p_value=min(1.0, 2.0 * p)))
    return found


def _list_signs(
    prior: FeaturePrior, names: Sequence[str], without: Array
) -> Iterator[Judgement]:
    """Signs without a test, and how often coefficients (d, m) are against them."""
    signs = prior.signs(len(names))
    if signs is None:
        return
    for j in np.flatnonzero(signs).tolist():
        words = f"{names[j]} {'≥' if signs[j] > 0 else '≤'} 0"
        kind = "nonnegative" if signs[j] > 0 else "nonpositive"
        outside = float(np.mean(signs[j] * without[j] < 0))
        yield Judgement(words, names[j], kind, outside, np.nan, np.nan)


def _products(model: SquaredFit) -> tuple[Array, Array]:
    """XᵀX (m, d, d) and Xᵀy (m, d) of tasks, as intercepts let the data speak.

    About the means of tasks if intercepts are free, and about zero if there are none.
    If intercepts are tied, means of tasks count about the common mean, as much less as
    intercepts vary (generalised least squares).
    """
    moments = model.moments
    gram = np.broadcast_to(
        moments.gram(), (model.shape[1], model.shape[0], model.shape[0])
    )
    if model.intercepts.are_free:
        return gram, moments.xy
    x, y, weight = moments.x_mean, moments.y_mean, moments.weight
    if not model.intercepts.are_fixed:
        tie = model.intercepts.tie_strength
        weight = weight * tie / (weight + tie)
        x, y = x - weight @ x / weight.sum(), y - weight @ y / weight.sum()
    weighted = weight[:, np.newaxis] * x
    return (
        gram + weighted[:, :, np.newaxis] * x[:, np.newaxis, :],
        moments.xy + weighted * y[:, np.newaxis],
    )


def _mean_effects(
    gram: Array, cross: Array, model: SquaredFit
) -> tuple[Array, Array, float]:
    """Effects common to all tasks, their covariance and degrees of freedom."""
    m, d = cross.shape
    inverse = np.linalg.pinv(gram.sum(axis=0), rcond=VANISHING, hermitian=True)
    mean = inverse @ cross.sum(axis=0)
    scores = cross - gram @ mean
    fewest_clusters = 4  # tasks, from which on their scores tell the variance
    if m >= fewest_clusters:
        middle = scores.T @ scores * (m / (m - 1.0))
        return mean, inverse @ middle @ inverse, m - 1.0
    left = max(1.0, float(model.moments.weight.sum()) - d - m)
    misfit = 2.0 * model.evaluate(np.repeat(mean[:, np.newaxis], m, axis=1)).value
    return mean, misfit / left * inverse, left


def _task_scores(model: SquaredFit, mean: Array, j: int) -> Array:
    """Each task's own effect of a feature over its error, as a normal variable.

    Tasks have intercepts of their own. Other effects are the task's own, too, where it
    has rows enough for all; else they are those of all tasks. NaN where a task knows
    nothing.
    """
    if not model.intercepts.are_fixed:
        model = replace(model, intercepts=FreeIntercepts())
    (gram, cross), moments = _products(model), model.moments
    m, d = cross.shape
    effects, errors = np.full(m, np.nan), np.full(m, np.nan)
    misfits, left = np.zeros(m), np.zeros(m)
    squares = moments.yy
    if model.intercepts.are_fixed:
        squares = squares + moments.weight * moments.y_mean**2
    for i in range(m):
        own = np.arange(d) if moments.weight[i] >= d + 3 else np.array([j])
        place = int(np.flatnonzero(own == j)[0])
        block = gram[i][np.ix_(own, own)]
        inverse = np.linalg.pinv(block, rcond=VANISHING, hermitian=True)
        left[i] = moments.weight[i] - len(own) - 1
        if not inverse[place, place] > 0 or left[i] <= 0:
            left[i] = 0.0
            continue
        values = np.array(mean)
        values[own] += inverse @ (cross[i, own] - gram[i][own] @ mean)
        misfit = squares[i] - 2.0 * cross[i] @ values + values @ gram[i] @ values
        misfits[i] = max(0.0, float(misfit))
        effects[i], errors[i] = values[j], np.sqrt(inverse[place, place])
    total, scores = float(left.sum()), np.full(m, np.nan)
    pooled = float(misfits.sum()) / total if total > 0 else 0.0
    fewest_left = 10  # degrees of freedom from which on a task tells its own noise
    for i in np.flatnonzero(np.isfinite(effects)).tolist():
        alone = left[i] >= fewest_left
        noise = misfits[i] / left[i] if alone else pooled
        if noise > 0:
            ratio = effects[i] / (errors[i] * np.sqrt(noise))
            scores[i] = norm.isf(student.sf(ratio, left[i] if alone else total))
    return scores


# Variances.


@dataclass(frozen=True, eq=False)
class Variances:
    """A model of how effects vary, whose restricted likelihood can be maximised."""

    moments: Moments
    graph: Laplacian
    intercepts: Intercepts
    noise: float | None  # None: estimated
    families: Families

    def deviance(self) -> float:
        """Minus twice the largest log-likelihood, but for a constant."""
        return self._fit().deviance

    def _fit(self) -> Ties:
        return estimate_ties(
            self.moments,
            self.graph,
            self.intercepts,
            families=self.families,
            noise_variance=self.noise,
        )

    def with_equal_noise(self) -> Self:
        """Same with tasks weighted by their noise: noisy tasks would seem to differ.

        Variances of noise are shrunken towards what is usual (Smyth 2004).
        """
        found, moments = self._fit(), self.moments
        if found.noise_variance is None:
            return self
        extra = len(found.rows) - moments.shape[0]
        rows, gram = found.rows[extra:].T, moments.gram()
        misfits = moments.yy - 2.0 * np.sum(moments.xy * rows, axis=1)
        misfits = misfits + np.einsum("ij,ijk,ik->i", rows, gram, rows)
        total = float(moments.weight.sum())
        share = max(0.1, float(misfits.sum()) / (found.noise_variance * total))
        left = np.maximum(1.0, min(1.0, share) * moments.weight)
        misfits = np.maximum(misfits, 0.0)
        usual, degrees = usual_variance(misfits, left, 0.5)
        noise = (degrees * usual + misfits) / (degrees + left)
        # Weights count as rows: their sum stays.
        factor = total / noise / float(moments.weight @ (1.0 / noise))
        column = factor[:, np.newaxis]
        statistics = TaskStatistics(
            moments.weight * factor,
            moments.x_mean,
            moments.y_mean,
            gram * column[:, :, np.newaxis],
            moments.xy * column,
            moments.yy * factor,
            moments.tasks,
            moments.features,
            check=False,
        )
        return replace(self, moments=statistics)

    def with_own(self, feature: int) -> Self:
        """Same, where the effect of a feature varies on its own."""
        deviations = np.array(self.families.deviations)
        deviations[feature] = deviations.max() + 1
        return replace(self, families=self.families._replace(deviations=deviations))

    def without(self, features: Sequence[int]) -> Self:
        """Same without these features."""
        kept = np.setdiff1d(np.arange(self.moments.shape[0]), features)
        deviations, fixed = (part[kept] for part in self.families)
        moments = self.moments.restrict(kept)
        return replace(self, moments=moments, families=Families(deviations, fixed))


def _mixture(statistic: float, n: int) -> float:
    """P value by the mixture of χ² whose degrees are binomial; zero counts as none."""
    if statistic == 0.0:
        return 1.0
    counts = np.arange(1, n + 1)
    return float(binom.pmf(counts, n, 0.5) @ chi2.sf(statistic, counts))


def _compare(small: Variances, large: Variances, n_more: int) -> tuple[float, float]:
    """Gain in twice the log-likelihood by so many more variances, and its p value."""
    gain = small.deviance() - large.deviance()
    if not np.isfinite(gain):
        return np.nan, np.nan
    if gain <= 0:
        return 0.0, 1.0
    return gain, _mixture(gain, n_more)


def _judge_common(
    variances: Variances, prior: FeaturePrior, names: Sequence[str]
) -> list[Judgement]:
    found = []
    curved = {j for group in curves_of(prior).values() for j in group}
    for j in prior.common_features:
        if j not in curved:  # wiggles belong to the straight line of their column
            tested = _compare(variances, variances.with_own(j), 1)
            words = f"{names[j]}: the same in all tasks"
            found.append(Judgement(words, names[j], "common", 0.0, *tested))
    return found


def _judge_curves(variances: Variances, prior: FeaturePrior) -> list[Judgement]:
    """Whether straight lines would do, for columns that are stated to be smooth."""
    found, families = [], variances.families
    for column, wiggles in curves_of(prior).items():
        if np.all(families.fixed[wiggles] >= 0):
            varies = bool(np.any(families.deviations[wiggles] != COMMON))
            straight = variances.without(wiggles)
            gain, p = _compare(straight, variances, 1 + varies)
            text = f"{column}: smooth"
            found.append(Judgement(text, column, "smooth", 0.0, gain, p))
    return found
