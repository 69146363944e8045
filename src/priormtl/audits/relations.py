"""Tests of relations: what is said, held against estimates free of the prior.

A statement is about numbers v_i = dᵀ p_i, one per task: a relation says that all are
zero; known values are targets. Signs, common and smooth effects are judged in
``statements``.

**By each task's own rows**, where these determine v_i. Least squares on the rows of
task i alone estimate v_i without any bias of prior, penalty or ties, with variance
σ_i² dᵀ G_i⁻¹ d. σ_i² is the task's own, shrunken towards the others' with ν degrees of
freedom (Smyth 2004). How far these are alike is not known, so that there are several
s_i and ν, with weights w (``selection.outlier_test``):

    t_i = v̂_i / (s_i √(dᵀ G_i⁻¹ d)) ~ T_ν,    z_i = Φ⁻¹(Σ w T_ν(t_i)) ~ N(0, 1).

A relation can fail in all tasks alike or in each in its own way, so that its test has
two parts that are independent if it holds,

    Z² = (Σ w_i z_i)² / Σ w_i²  ~ χ²_1,    Σ z_i² − Z²  ~ χ²_{m−1},

and its p-value is that of the smaller one of two (Šidák). As all s_i share an estimate
s₀, whose error scales all z_i alike, χ² over its degrees becomes F.

**By all tasks together**, for relations that rows of single tasks do not determine. The
prior would hide the disagreement that is asked about, and the row penalty shrinks equal
coefficients by unequal amounts. So P is estimated again from the rows and the ties
between tasks alone, as in a mixed model: a ridge on each coefficient and a strength of
the ties are chosen by marginal likelihood (MacKay 1992). With H the curvature of rows,
ties and ridge, a relation d with d P = 0 has the Wald statistic

    Σ_k u_k² / (noise · dᵀ H_k⁻¹ d),    u = d P̂ in the eigenbasis of the task graph.

Its null distribution is a weighted sum of χ² variables, which is approximated by one
scaled χ² with the same mean and variance (Satterthwaite 1946). Verdicts over all
relations follow Benjamini and Hochberg (1995).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import fdtrc, gammaincc, ndtri, stdtr

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.audits.statements import Judgement
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Point, Problem
from priormtl.selection.outlier_test import Tasks


class StatementTest(NamedTuple):
    """Mean squared score, 1 if the statement holds; p-value; degrees of freedom."""

    statistic: float
    p_value: float
    degrees: float = float("nan")


UNKNOWN = StatementTest(float("nan"), float("nan"))
T = TypeVar("T", StatementTest, Judgement)


def smallest(tests: Sequence[T]) -> T:
    """Test of several hypotheses together by the smallest p value (Bonferroni)."""
    known = [one for one in tests if not np.isnan(one.p_value)]
    if not known:
        return tests[0]
    best = min(known, key=lambda one: one.p_value)
    return best._replace(p_value=min(1.0, len(known) * best.p_value))


def verdicts(tests: Sequence[StatementTest]) -> list[str]:
    """Words for each test: "agrees", "disagrees" or "cannot be judged"."""
    p = np.array([test.p_value for test in tests])
    ranked = np.sort(p[~np.isnan(p)])
    count = len(ranked)
    false_discoveries = 0.05  # expected share of wrong ones among "disagrees"
    below = ranked <= false_discoveries * np.arange(1, count + 1) / max(1, count)
    limit = ranked[below].max() if below.any() else -1.0
    words = np.where(p <= limit, "disagrees", "agrees").astype(object)
    words[np.isnan(p)] = "cannot be judged"
    return [str(word) for word in words]


# By each task's own rows


class Scores(NamedTuple):
    """Standard normal scores of the tasks that determine v, if it is as stated."""

    z: Array  # (k,)
    weights: Array  # (k,) reciprocal standard errors
    share: float  # of the rows of all tasks
    degrees: float  # of what the standard errors of all tasks have in common


def own_scores(
    tasks: Tasks, weight: Array, row: Array, target: Array | None = None
) -> Scores:
    """Scores of dᵀ p_i = target_i; ``weight`` (m,) counts rows, 0: left out."""
    if target is None:
        target = np.zeros(len(weight))
    # In units of features' deviations, in which the rows of U are orthogonal.
    root, row = tasks.root * np.sqrt(tasks.unit), row * np.sqrt(tasks.unit)
    sizes = np.linalg.norm(root, axis=2)
    unit = np.where(sizes > 0, sizes, 1.0)
    inside = np.einsum("mrd,d->mr", root, row) / unit
    unknown = float(row @ row) - np.sum(inside**2, axis=1)
    outside_rows = 1e-9  # share of a row d that the rows of a task may leave unknown
    known = (unknown <= outside_rows * float(row @ row)) & (weight > 0)
    part = inside[known] / unit[known]
    found = np.sum(part * tasks.target[known], axis=1) - target[known]
    noise, size = tasks.noise, np.sum(part**2, axis=1)
    # By the lower tail, which has digits where the upper one is 1.
    t = np.abs(found) / np.sqrt(size * noise.variances[:, known])
    lower = ndtri(noise.weights @ stdtr(noise.degrees[:, known], -t))
    # Where tails are zero, t stands for z, which it then is but for a factor.
    z = np.sign(found) * np.where(np.isfinite(lower), -lower, t[0])
    share = float(weight[known].sum() / max(weight.sum(), 1.0))
    weights = 1.0 / np.sqrt(size * noise.variance[known])
    return Scores(z, weights, share, noise.shared_degrees)


def relation_test(scores: Scores) -> StatementTest:
    """Whether v is zero in all tasks."""
    z, weights, _, degrees = scores
    k = len(z)
    if k == 0:
        return UNKNOWN
    common = float(weights @ z) ** 2 / float(weights @ weights)
    apart = max(float(z @ z) - common, 0.0)
    p = float(fdtrc(1.0, degrees, common))
    if k > 1:
        least = min(p, float(fdtrc(k - 1.0, degrees, apart / (k - 1.0))))
        p = -float(np.expm1(2.0 * np.log1p(-least))) if least < 1.0 else 1.0
    return StatementTest(float(z @ z) / k, p, float(k))


def relation_tests(
    D: csr_array, targets: Array, tasks: Tasks, weight: Array, least_share: float
) -> list[StatementTest]:
    """Test D P = targets row by row.

    UNKNOWN where too few rows of data are of tasks that determine a row of D.
    """
    found = []
    for row, target in zip(D.toarray(), targets, strict=True):
        scores = own_scores(tasks, weight, row, target)
        enough = scores.share >= least_share
        found.append(relation_test(scores) if enough else UNKNOWN)
    return found


# By all tasks together


@dataclass(frozen=True, eq=False)
class Curvature:
    """H: curvature of rows, ties and ridge, by eigenvectors of the task graph.

    The tasks' Gram matrices are replaced by their mean. Then H is block diagonal in the
    eigenbasis of the graph, with blocks gram + diag(ridge + value · ties).
    """

    gram: Array  # (d, d) mean over tasks
    ties: Array  # (d,) epsilon times tie weights
    values: Array  # (m,) eigenvalues of the task graph, few of them distinct
    vectors: Array  # (m, m)
    ridge: Array  # (d,)

    @cached_property
    def modes(self) -> list[tuple[np.ndarray, Array, tuple[Array, bool]]]:
        """For each distinct eigenvalue: its modes, their ties, the Cholesky factor."""
        found = []
        for value in np.unique(self.values):
            ties = value * self.ties
            factor = cho_factor(self.gram + np.diag(self.ridge + ties))
            found.append((self.values == value, ties, factor))
        return found

    def solve(self, R: Array) -> Array:
        """H⁻¹ R for R (d, m)."""
        turned = R @ self.vectors
        for same, _, factor in self.modes:
            turned[:, same] = cho_solve(factor, turned[:, same])
        return np.asarray(turned @ self.vectors.T)

    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, tr(H⁻¹ G)."""
        return sum(
            same.sum() * float(np.trace(cho_solve(factor, self.gram)))
            for same, _, factor in self.modes
        )

    def half_log_ratio(self) -> float:
        """Half of log det H − log det(ridge + ties): the Occam factor."""
        return sum(
            same.sum()
            * float(
                np.sum(np.log(np.diag(factor[0])) - 0.5 * np.log(self.ridge + ties))
            )
            for same, ties, factor in self.modes
        )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients free of feature prior and row penalty, with their curvature."""

    coef: Array  # (d, m)
    noise: float  # variance of targets about their mean; 1 for logistic loss
    curvature: Curvature  # with the ridge: noise over the variance of coefficients


class _Candidate(NamedTuple):
    """Estimate under one ridge and one strength of ties."""

    log_likelihood: float  # marginal, P integrated out
    tie_factor: float  # times epsilon
    problem: Problem
    estimate: Estimate


def estimate_coefficients(
    problem: Problem, coef: Array, features: Index, scale: Array, degrees: float
) -> Estimate:
    """Estimate P by ridge and ties of the largest marginal likelihood.

    The loss is linearised at ``coef`` (d, m), whose nonzero rows must be among
    ``features``. Ridges are equal in units of ``scale`` (d,); ``degrees`` are rows less
    intercepts.
    """
    part = problem.restrict(features).with_strengths(lam=0.0, theta=0.0)
    prior = part.prior
    start = part.at(np.ascontiguousarray(coef[features]))
    d, m = part.shape
    gram = np.empty((d, d))  # mean Hessian of the tasks' losses, feature by feature
    for j in range(d):
        V = np.zeros((d, m))
        V[j] = 1.0
        gram[j] = part.fit.hessian(start.fit, V).mean(axis=1)
    weights = np.ones(len(gram)) if prior.tie_weights is None else prior.tie_weights
    values, vectors = _task_modes(prior.laplacian)
    flat = Curvature(
        0.5 * (gram + gram.T),
        prior.epsilon * weights,
        _round_values(values),
        vectors,
        np.zeros(len(gram)),
    )

    def fit(ridge: Array, tie_factor: float) -> _Candidate:
        tied = part.with_strengths(lam=0.0, epsilon=tie_factor * prior.epsilon)
        curvature = replace(flat, ties=tie_factor * flat.ties, ridge=ridge)
        P = _ridge_step(tied, tied.at(start.coef), curvature)
        lowest = tied.at(P).value + 0.5 * float(np.sum(ridge[:, np.newaxis] * P**2))
        noise, likelihood = 1.0, -lowest
        if tied.fit.is_quadratic:
            # The noise that is most likely; 1 where all targets are equal.
            noise = 2.0 * lowest / degrees or 1.0
            likelihood = -0.5 * degrees * float(np.log(noise))
        likelihood -= curvature.half_log_ratio()
        return _Candidate(likelihood, tie_factor, tied, Estimate(P, noise, curvature))

    def best_of(*candidates: _Candidate) -> _Candidate:
        return max(candidates, key=lambda candidate: candidate.log_likelihood)

    # Coordinate search: ridge, then ties, then ridge again.
    unit = np.where(scale[features] > 0, scale[features], 1.0)
    size = float(np.mean(np.diag(flat.gram) / unit**2)) or 1.0
    grid = 10.0 ** np.arange(-4.0, 2.5)  # in units of the rows' curvature
    ridges = [share * size * unit**2 for share in grid]
    best = best_of(*(fit(ridge, 1.0) for ridge in ridges))
    if prior.epsilon > 0 and not prior.laplacian.is_zero:
        # Ties that are far too strong or too weak would blame the wrong relations.
        unit_tie = float(np.mean(np.diag(flat.gram))) / prior.epsilon
        ridge = best.estimate.curvature.ridge
        best = best_of(best, *(fit(ridge, share * unit_tie) for share in grid))
        factor = best.tie_factor
        best = best_of(best, *(fit(ridge, factor) for ridge in ridges))
    found = best.estimate
    left = degrees - found.curvature.degrees_of_freedom()
    # share of degrees of freedom that must remain to estimate the noise
    fewest_left = 0.1
    if best.problem.fit.is_quadratic and left > fewest_left * degrees:
        # Of two estimates of the noise the larger: it blames fewer relations.
        misfit = 2.0 * best.problem.at(found.coef).fit.value
        found = replace(found, noise=max(found.noise, misfit / left))
    return found


def _ridge_step(problem: Problem, start: Point, curvature: Curvature) -> Array:
    """One Newton step with ridge; exact for squared loss."""
    shape = problem.shape
    column = curvature.ridge[:, np.newaxis]

    def multiply(v: Array) -> Array:
        V = v.reshape(shape)
        return np.asarray(problem.hessian(start, V) + column * V).ravel()

    def precondition(v: Array) -> Array:
        return curvature.solve(v.reshape(shape)).ravel()

    size = shape[0] * shape[1]
    right = -(start.gradient + column * start.coef).ravel()
    system = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
    guess = LinearOperator((size, size), matvec=precondition, dtype=np.float64)
    step, _ = cg(system, right, rtol=1e-8, maxiter=500, M=guess)
    return start.coef + np.asarray(step).reshape(shape)


def _task_modes(graph: Laplacian) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the task graph; of its mean for huge graphs."""
    if graph.is_zero:
        return np.zeros(graph.m), np.eye(graph.m)
    known = graph.modes
    if known is not None:
        return known
    largest_graph = 2000  # tasks up to which the modes of any graph are computed
    if graph.m <= largest_graph:
        values, vectors = np.linalg.eigh(graph.dense())
        return np.maximum(values, 0.0), vectors
    return np.full(graph.m, graph.degree.mean()), np.eye(graph.m)


def _round_values(values: Array) -> Array:
    """Round eigenvalues to a few on a logarithmic grid; zero stays zero."""
    most = 16  # for each of which systems are solved
    if len(np.unique(values)) <= most:
        return values
    largest = float(values.max())
    positive = values > 1e-12 * largest
    low = float(np.log(values[positive].min()))
    step = (np.log(largest) - low) / (most - 2)
    with np.errstate(divide="ignore"):
        places = np.round((np.log(values) - low) / step)
    return np.where(positive, np.exp(low + step * np.where(positive, places, 0.0)), 0.0)


def feature_tests(
    D: csr_array, estimate: Estimate, targets: Array | float = 0.0
) -> list[StatementTest]:
    """Test D P = targets for each row of D (s, d), over all tasks at once."""
    rows, curvature = D.toarray().T, estimate.curvature
    misfits = (D @ estimate.coef - targets) @ curvature.vectors
    left, varies = (np.empty(misfits.shape) for _ in range(2))
    noise = curvature.gram + np.diag(curvature.ridge)
    for same, _, factor in curvature.modes:
        solved = cho_solve(factor, rows)
        left[:, same] = np.sum(rows * solved, axis=0)[:, np.newaxis]
        varies[:, same] = np.sum(solved * (noise @ solved), axis=0)[:, np.newaxis]
    tests = []
    determined = _are_determined(D, curvature)
    for u, s, v, known in zip(misfits, left, varies, determined, strict=True):
        if not known:
            tests.append(UNKNOWN)
            continue
        weights = v / s
        statistic = float(np.sum(u**2 / s)) / estimate.noise
        mean, half_variance = float(weights.sum()), float(np.sum(weights**2))
        tests.append(_satterthwaite(statistic, mean, half_variance))
    return tests


def _are_determined(D: csr_array, curvature: Curvature) -> np.ndarray:
    """Whether rows say anything on a relation, and on each feature in it (s,)."""
    _, ties, factor = curvature.modes[0]  # the weakest ties
    inverse = cho_solve(factor, np.eye(len(ties)))
    rows = D.toarray()
    before = rows**2 @ (1.0 / curvature.ridge)
    left = np.sum(rows * (rows @ inverse), axis=1)
    # Posterior over prior variance above which rows say nothing.
    uninformed = 0.9
    unknown = np.diag(inverse) * curvature.ridge >= uninformed
    about = (rows != 0).astype(np.float64) @ unknown
    return (before > 0) & (left < uninformed * before) & (about == 0)


def _satterthwaite(
    statistic: float, mean: float, half_variance: float
) -> StatementTest:
    """Compare with the scaled χ² that has this mean and variance."""
    if not mean > 0 or not half_variance > 0:
        return UNKNOWN
    unit, degrees = half_variance / mean, mean**2 / half_variance
    p_value = float(gammaincc(degrees / 2.0, statistic / unit / 2.0))
    return StatementTest(float(statistic / mean), p_value, degrees)
