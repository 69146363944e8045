"""Standard errors of coefficients, from the statistics or the rows of a fit.

The objective of squared loss is, about its optimum, a quadratic form with the Hessian

    H = blockdiag(G_i) + theta DᵀD + epsilon L + diag(lam w_j / ‖p^j‖),

in the features that were selected; the last term is the curvature of the penalty
within their rows (its majoriser). H is factorised by elimination over the task graph,
and two things follow from it.

- **lam = 0**: coefficients given the data are normal with the covariance σ² H⁻¹, if
  ties are those of a mixed model (empirical Bayes). At ties that REML has estimated
  these are the conditional variances of lme4, those of fixed effects included.
- **lam > 0**: a parametric bootstrap on the statistics. Each replicate adds noise
  ξ_i ~ N(0, σ² G_i) to the products Xᵀy of each task, and takes one Newton step at the
  same selected features: δ = H⁻¹ ξ. It says how much estimates vary from sample to
  sample, not how far shrinkage has moved them.

Losses of other families have the quadratic model at the optimum, and known noise.
More than two classes have blocks of all classes of a task. A number that is added to
all classes changes nothing: both priors see it apart from the data, so that H has the
means over classes, which are zero, and what is apart from them as separate blocks.
Covariances are those of the latter.

The noise variance is σ² = RSS / (n − tr(H⁻¹ G)), which is REML's where REML has
estimated all ties.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl.data import Moments
from priormtl.losses import FamilyEvaluation, FamilyFit, MultinomialFit, SquaredFit
from priormtl.model import Posed
from priormtl.problem import QuadraticPrior
from priormtl.problem.elimination import Factor, plan_elimination
from priormtl.reml import Precision
from priormtl.solvers import Solution

__all__ = [
    "Covariances",
    "StandardErrors",
    "covariances",
    "errors_of",
    "family_covariances",
    "prediction_variances",
]

REPLICATES = 200
RIDGE = 1e-10  # of the mean curvature of each row, so that H can be factorised
MOST_NUMBERS = 2**26  # in the blocks of the elimination
MOST_STEPS = 10**8  # multiplications that a fit pays for


class Covariances(NamedTuple):
    """Covariances of coefficients, in the units of the problem.

    The first of k rows is the prediction at the pooled means of the features (absent
    without intercepts); then come the selected features.
    """

    kind: str  # "conditional" or "bootstrap"
    selected: Index  # features
    own: Array  # (m, k, k) of each task
    cross: Array  # (m, k, k) of each task and the mean of all
    mean: Array  # (k, k) of the mean of all tasks
    between: Array  # (selected,) of slopes; NaN where ties are not to a mean
    noise_variance: float
    degrees: Array  # (m,) effective degrees of freedom of tasks; NaN: not needed
    # More than two: rows and columns of matrices (k, k) are repeated, class after class
    classes: int = 1

    def shared(self) -> Array:
        """Covariance (selected, selected) of the effects that tasks share.

        Given the coefficients of m tasks, what they share is their mean ± τ / √m.
        """
        d, m = len(self.selected), len(self.own)
        found = self.mean[-d:, -d:].copy()
        if self.kind == "conditional":
            found[range(d), range(d)] += np.nan_to_num(self.between, posinf=0.0) / m
        return found


class StandardErrors(NamedTuple):
    """What summaries need of the covariances, small enough for files of models."""

    kind: str
    selected: Index  # features
    coef: Array  # (m, selected), with K > 2 classes (m K, selected), task after task
    # (selected,) of the effects that tasks share; (K selected,), class after class
    shared: Array
    between: Array  # (selected,) deviations between tasks; NaN: ties to no mean
    effect: Array  # (m,) of tasks at average features; empty without intercepts
    noise: Array  # (1,) standard deviation

    def fits(self, m: int, d: int, classes: int) -> bool:
        """Whether it is one of m tasks and d features, as files must be."""
        s, K = len(self.selected), classes
        shapes = [part.shape for part in self[2:]]
        fits = shapes[:3] == [(m * K, s), (K * s,), (s,)] and shapes[4] == (1,)
        fits &= len(self.effect) in (0, m) and self.selected.dtype.kind == "i"
        fits &= self.kind in ("conditional", "bootstrap")
        return fits and bool(np.all((self.selected >= 0) & (self.selected < d)))

    @classmethod
    def of(cls, found: Covariances) -> Self:
        """Square roots of variances, and of those of differences to the mean."""
        d, K, m = len(found.selected), found.classes, len(found.own)
        own, cross, mean = found.own, found.cross, found.mean
        effect = np.zeros(0)
        if K == 1 and len(mean) > d:  # the first row is the level of tasks
            effect = own[:, 0, 0] - 2.0 * cross[:, 0, 0] + mean[0, 0]
        if K == 1:
            shared = np.diag(found.shared())
        else:
            shared = np.diag(mean).reshape(K, -1)[:, -d:]
            if found.kind == "conditional":  # deviations, less their mean over classes
                between = np.nan_to_num(found.between, posinf=0.0)
                shared = shared + (1.0 - 1.0 / K) * between / m
        squares = (
            np.diagonal(own, axis1=1, axis2=2).reshape(m * K, -1)[:, -d:],
            shared.ravel(),
            found.between,
            effect,
            np.array([found.noise_variance]),
        )
        roots = (np.sqrt(np.maximum(part, 0.0)) for part in squares)
        return cls(found.kind, found.selected, *roots)


class Rows(NamedTuple):
    """Number of rows, and the variance of their noise where it is known."""

    number: float
    noise: float | None


class Inverse(NamedTuple):
    """The Hessian H of a fit, factorised."""

    fit: SquaredFit | MultinomialFit  # in the selected features
    prior: QuadraticPrior
    selected: Index
    factor: Factor
    n_nodes: int
    gram: Array  # (m, k, k)
    ties: Array  # (selected,)
    common: Any  # (selected,) which effects are common

    @classmethod
    def of(
        cls, posed: Posed, coef: Array, most: int, at: FamilyEvaluation | None = None
    ) -> Self:
        """Factorise at coefficients (d, m), if blocks hold at most so many numbers.

        More than two classes are evaluated ``at`` the optimum.
        """
        problem = posed.problem
        fit, prior = problem.fit, problem.prior
        assert isinstance(fit, SquaredFit | MultinomialFit)
        selected = np.flatnonzero(coef.any(axis=1))
        if len(selected) == 0:
            raise ValueError("level needs selected features: this model has none.")
        norms = np.linalg.norm(coef[selected], axis=1)
        weights = getattr(problem.penalty, "weights", None)
        rows = np.ones(len(selected)) if weights is None else weights[selected]
        bend = problem.lam * rows / norms
        graph = prior.laplacian.part or prior.laplacian  # of one class
        m, d, K = graph.m, len(selected), prior.laplacian.m // graph.m
        order = plan_elimination(graph)
        if order is None or order.n_blocks * (K * (d + 1)) ** 2 > most:
            raise ValueError(
                f"level needs a factorisation that is too large for {m} tasks and {d} "
                "selected features; raise lam, or use level=None."
            )
        fit, prior = fit.restrict(selected), prior.restrict(selected)
        if isinstance(fit, SquaredFit):
            gram, centre, extra = _blocks(fit)
        else:
            assert at is not None
            gram, centre, extra = _class_blocks(fit, at)
        k = K * (d + extra)
        pivots = np.zeros((order.graph.n_nodes, k, k))
        pivots[:m] = gram
        inner = np.zeros((d + extra, d + extra))
        inner[extra:, extra:] = prior.relation.toarray() + np.diag(bend)
        pivots[:m] += np.kron(np.eye(K), inner)
        scale = np.maximum(np.einsum("ijj->j", pivots[:m]) / m, 1e-300)
        pivots[:, range(k), range(k)] += RIDGE * scale
        scale = scale.reshape(K, -1).sum(axis=0) / K
        if K > 1:  # means over classes, of which the data know nothing, are held
            pivots[:m] += np.kron(np.full((K, K), 1.0 / K), np.diag(scale))
        ties = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        tie = prior.epsilon * ties
        common = np.zeros(d, dtype=bool)
        if problem.constraints is not None:
            common = problem.constraints.common[selected]
        # Common effects are tied so tightly, in units of the mean curvature, that they
        # differ by nothing that shows.
        tie = np.where(common, 1e6 * scale[extra:], tie)
        if extra:
            t = np.concatenate([[1.0], -centre])
            tie = np.diag(np.concatenate([[0.0], tie]))
            if fit.intercept_graph is not None:
                tie += fit.intercepts.tie_strength * np.outer(t, t)
        if K > 1:
            tie = np.array(np.kron(np.eye(K), tie if extra else np.diag(tie)), float)
        factor = order.factorise(pivots, tie, overwrite=True)
        n_nodes = order.graph.n_nodes
        return cls(fit, prior, selected, factor, n_nodes, gram, ties, common)

    def blocks(self) -> Array:
        """Blocks (m, k, k) of tasks of H⁻¹."""
        return self.factor.selected_inverse()[0][: len(self.gram)]


def covariances(
    posed: Posed,
    coef: Array,
    errors: Array,
    *,
    most: int = MOST_NUMBERS,
    rows: Rows | None = None,
    at: FamilyEvaluation | None = None,
) -> Covariances:
    """Covariances at coefficients (d, m), with sums of squared errors (m,) of tasks.

    ``most`` bounds the numbers in blocks of the factorisation. ``rows`` are given where
    weights of the problem are those of a quadratic model. More than two classes are
    evaluated ``at`` the optimum.
    """
    found = Inverse.of(posed, coef, most, at)
    prior, gram, factor = found.prior, found.gram, found.factor
    m, k, d = len(gram), gram.shape[1], len(found.selected)
    is_penalised, degrees, blocks = posed.problem.lam > 0, np.full(m, np.nan), gram
    known = None if rows is None else rows.noise
    if known is None or not is_penalised:
        blocks = found.blocks()
        degrees = np.einsum("ijk,ikj->i", gram, blocks)
    if known is None:
        assert isinstance(found.fit, SquaredFit)
        n_rows = float(found.fit.moments.weight.sum()) / posed.model.weight_unit
        if rows is not None:
            n_rows = rows.number
        known = float(errors.sum()) / max(n_rows - float(degrees.sum()), 1.0)
    noise = known
    if is_penalised:
        kind = "bootstrap"
        # Zᵀ times noise of variance σ² is N(0, σ² G): always the same draws of it.
        values, vectors = np.linalg.eigh(gram)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, np.newaxis, :]
        draws = np.random.default_rng(0).standard_normal((m, k, REPLICATES))
        rhs = np.zeros((found.n_nodes, k, REPLICATES))
        rhs[:m] = roots @ draws * np.sqrt(noise)
        moved = factor.solve(rhs)[:m]
        middle = moved.mean(axis=0)
        own = moved @ moved.swapaxes(1, 2) / REPLICATES
        cross = moved @ middle.T / REPLICATES
        mean = middle @ middle.T / REPLICATES
    else:
        kind, own = "conditional", noise * blocks
        rhs = np.zeros((found.n_nodes, k, k))
        rhs[:m] = np.eye(k) / m
        cross = noise * factor.solve(rhs)[:m]
        mean = cross.mean(axis=0)
    graph = prior.laplacian.part or prior.laplacian
    K = prior.laplacian.m // graph.m
    if K > 1:
        apart = np.kron(np.eye(K) - 1.0 / K, np.eye(k // K))
        own, cross, mean = (apart @ part @ apart for part in (own, cross, mean))
    between = np.full(d, np.nan)
    if graph.one_group and prior.epsilon > 0:
        # σ² / t_j also where intercepts are tied at zero features: the matrix ``tie``
        # is about the means of the features, and has more on its diagonal.
        with np.errstate(divide="ignore"):
            between = noise / (graph.one_group * prior.epsilon * found.ties)
        between[found.common] = 0.0
    parts = found.selected, own, cross, mean, between, noise, degrees
    return Covariances(kind, *parts, classes=K)


def prediction_variances(posed: Posed, coef: Array) -> Array:
    """Variance of the prediction of each task (m,) over that of the noise of a row.

    It is that of coefficients (d, m) given the data, averaged over rows like those of
    the task. Zeros where it would take too long to compute.
    """
    m, fit = coef.shape[1], posed.problem.fit
    precision = posed.precision
    if precision is not None and isinstance(fit, SquaredFit):
        if posed.drift is None:
            return _mean_variances(precision, fit.moments)
        # Precisions are in units of a mean row of the problem.
        unit = posed.model.weight_unit / posed.mean_weight
        return unit * _mean_variances(precision, posed.scaled_moments())
    k = int(coef.any(axis=1).sum()) + 1
    if not isinstance(fit, SquaredFit) or k == 1 or m * k**3 > MOST_STEPS:
        return np.zeros(m)
    if posed.model.penalty != "l21" and posed.problem.lam > 0:
        return np.zeros(m)
    try:
        found = Inverse.of(posed, coef, MOST_NUMBERS)
    except (ValueError, np.linalg.LinAlgError, MemoryError):  # on disk, or too large
        return np.zeros(m)
    assert isinstance(found.fit, SquaredFit)
    moments, unit = found.fit.moments, posed.model.weight_unit
    weight = moments.weight
    share = weight / weight.sum()
    means = moments.x_mean
    if not found.fit.intercepts.are_fixed:  # then blocks are about the pooled means
        apart = np.where(weight[:, np.newaxis] > 0, means - share @ means, 0.0)
        means = np.column_stack([np.ones(m), apart])
    # New rows scatter about the mean of their task, which is known from its rows, as
    # rows of all tasks do.
    within = found.gram.sum(axis=0) / weight.sum() - (share * means.T) @ means
    blocks = found.blocks()
    about = np.einsum("ij,ijk,ik->i", means, blocks, means)
    scatter = np.einsum("ijk,kj->i", blocks, within)
    n_rows = np.maximum(weight / unit, 1.0)
    variances = unit * (about + (1.0 + 1.0 / n_rows) * scatter)
    return np.where(np.isfinite(variances), np.maximum(variances, 0.0), 0.0)


def _mean_variances(known: Precision, moments: Moments) -> Array:
    """The same from the covariances of common effects and of deviations of tasks."""
    (d, m), weight, v = moments.shape, moments.weight, known.varying
    total = weight.sum()
    centre = weight @ np.where(weight[:, np.newaxis] > 0, moments.x_mean, 0.0) / total
    means = np.ones((m, 1 + d))
    means[:, 1:] = np.where(weight[:, np.newaxis] > 0, moments.x_mean, centre)
    within = np.zeros((1 + d, 1 + d))
    within[1:, 1:] = moments.within_task_products(np.arange(d)) / total
    about = np.einsum("ij,ij->i", means @ known.common, means)
    about += 2.0 * np.einsum("ikp,ip,ik->i", known.cross, means, means[:, v])
    about += np.einsum("ik,ikl,il->i", means[:, v], known.own, means[:, v])
    scatter = np.full(m, np.vdot(known.common, within))
    scatter += 2.0 * np.einsum("ikp,pk->i", known.cross, within[:, v])
    scatter += np.einsum("ikl,kl->i", known.own, within[np.ix_(v, v)])
    n_rows = np.maximum(weight * m / total, 1.0)
    return np.maximum(about + (1.0 + 1.0 / n_rows) * scatter, 0.0)


def errors_of(posed: Posed, coef: Array) -> StandardErrors | None:
    """Standard errors that come with an estimate from rows; None: there are none."""
    known, found = posed.precision, posed.estimate
    if known is None or found is None or found.noise_variance is None:
        return None
    noise = found.noise_variance / posed.mean_weight
    selected = np.flatnonzero(coef.any(axis=1))
    variances = np.tile(known.common.diagonal(), (coef.shape[1], 1))
    k = np.arange(len(known.varying))
    variances[:, known.varying] += 2.0 * known.cross[:, k, known.varying]
    variances[:, known.varying] += known.own[:, k, k]
    effect = np.zeros(coef.shape[1])
    if 0 in known.varying:
        effect = known.own[:, 0, 0] - 2.0 * known.middle + known.middle.mean()
    weight = posed.problem.prior.laplacian.one_group or 1.0  # of one task
    with np.errstate(divide="ignore"):
        between = found.noise_variance / (weight * found.weights[selected])
    squares = (
        noise * variances[:, 1 + selected],
        noise * known.common.diagonal()[1 + selected],
        between,
        noise * effect,
        np.array([found.noise_variance]),
    )
    roots = (np.sqrt(np.maximum(part, 0.0)) for part in squares)
    return StandardErrors("conditional", selected, *roots)


def family_covariances(posed: Posed, solution: Solution) -> Covariances:
    """Covariances of another family: those of its quadratic model at the optimum.

    The curvature of the loss is the inverse of the noise of a row, so that its factor
    is 1, or, where the family leaves it open, the mean of squared residuals.
    """
    at, selected = solution.point.fit, np.flatnonzero(solution.coef.any(axis=1))
    # Gram matrices of all features could take longer than the fit.
    problem = posed.problem.restrict(selected)
    fit = problem.fit
    assert isinstance(fit, FamilyFit)
    assert isinstance(at, FamilyEvaluation)
    model, unit, weight = problem, posed.model.weight_unit, fit.data.weight
    if not isinstance(fit, MultinomialFit):
        model = replace(problem, fit=fit.quadratic_model(at), memo={})
    squares = fit.data.task_sums(weight * at.slopes**2) / unit
    noise = 1.0 if fit.family.noise_is_known else None
    if fit.family.may_scatter and posed.estimate is not None:
        noise = (posed.estimate.noise_variance or unit) / unit
    rows = Rows(float(np.count_nonzero(weight)), noise)
    used = posed._replace(problem=model)
    found = covariances(used, solution.coef[selected], squares, rows=rows, at=at)
    variances = "own", "cross", "mean", "between"
    # Weights of rows are relative.
    parts = {name: unit * found._asdict()[name] for name in variances}
    return found._replace(selected=selected, **parts)


def _class_blocks(
    fit: MultinomialFit, at: FamilyEvaluation
) -> tuple[Array, Array, int]:
    """The same for classes, with Hessians (m, K k, K k) of the loss."""
    data, m = fit.data, len(fit.data.starts) - 1
    X = data.X.toarray() if issparse(data.X) else data.X
    centre = np.zeros(X.shape[1])
    if fit.intercepts.are_free:  # whose rows are about a point in each task
        X = X + np.repeat(fit.shift[:m], np.diff(data.starts), axis=0)
    if not fit.intercepts.are_fixed:
        centre = data.weight[:, 0] @ X / data.weight[:, 0].sum()
    shifted = replace(fit, data=data.with_matrix(X - centre))
    every, none = np.arange(len(centre)), np.arange(0)
    gram, _, _ = shifted.hessian_blocks(at, every, none)
    return gram, centre, int(not fit.intercepts.are_fixed)


def _blocks(fit: SquaredFit) -> tuple[Array, Array, int]:
    """Gram matrices (m, k, k), centre (d,), and whether intercepts are a first row.

    Free intercepts are unknowns here, too: those of a row that is not tied.
    """
    d, m = fit.shape
    if fit.intercepts.are_fixed:
        raw = fit.moments.raw_gram()
        return np.broadcast_to(raw, (m, d, d)), np.zeros(d), 0
    return fit.blocks_with_intercepts(), fit.centre, 1
