"""Ties under losses that are not squared: Laplace's approximation, and quadrature.

Given variances θ, the effects u that fit best have scores η, and the loss has the
curvatures W = f″(η) there. With Λ the precisions of effects, Laplace's approximation is

    −2 log L(θ) = 2 Σ f(η) + uᵀ Λ u − log |Λ| + log |M|,    M = Zᵀ W Z + Λ,

where free common effects are among u (restricted likelihood), or maximised over. Rows
with the weights and targets of iterative reweighting have the same derivative in θ at
the optimum (Breslow and Clayton 1993: penalised quasi-likelihood), but for that of W:

    ∂ log |M| = Σ_r h_r ∂(log f″) ∂η_r,    h_r the leverage of row r.

It is linear in scores, a ``pull`` on them, and the likelihood of a quadratic model with
that pull (`restricted`) has the derivative of Laplace's approximation. So rounds of
quadratic models end where it is largest. That holds for tasks that are tied to their
mean and for crossed factors; for other graphs ties are those of quadratic models alone.

Where tasks say little about their intercepts, and nothing else varies, the integrals
over intercepts are computed by adaptive Gauss–Hermite quadrature (Pinheiro and Bates,
"Approximations to the log-likelihood function in the nonlinear mixed-effects model",
JCGS 1995).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.data import (
    CentredSamples,
    Moments,
    StackedRows,
    centre_samples,
    condense,
)
from priormtl.design import Crossed
from priormtl.losses import FamilyEvaluation, FamilyFit, TiedIntercepts
from priormtl.priors.graphs import Laplacian
from priormtl.reml.mixed import ROUGH
from priormtl.reml.restricted import LARGEST, Laplace
from priormtl.reml.rows import estimate_from_rows, suits_rows
from priormtl.reml.ties import (
    SETTLED,
    CrossedEffects,
    Families,
    Search,
    Ties,
    search_ties,
)

# Mean curvature of the loss of a task below which intercepts are integrated over.
FEW = 5.0
SMALLEST = 0.01  # deviation of intercepts by quadrature
NODES = 50  # of the quadrature: on the table `toenail`, 25 are off by 0.002
WORSE = 2.0  # times the loss before, beyond which a round goes part of the way


def estimate_family_ties(
    fit: FamilyFit,
    laplacian: Laplacian,
    *,
    families: Families | None = None,
    slopes: bool = True,
    start: Ties | None = None,
    unit: float = 1.0,
    is_restricted: bool = True,
    same_scores: float = 2e-4,
) -> Ties:
    """Ties of a family: those of its quadratic models, a few times over.

    Rows have noise of variance 1, or of ``unit``, the mean weight of rows. Each round
    starts where the last one ended, the first one at ``start``. The last one changes
    scores by a share of ``same_scores`` at most.
    """
    d, m = fit.shape
    noise = unit if fit.family.noise_is_known else None
    tied = isinstance(fit.intercepts, TiedIntercepts)
    rows = np.zeros((d + tied, m))
    is_known = start is not None and start.rows.shape == rows.shape
    if start is not None and is_known:
        rows = start.rows
    elif tied:  # far from the mean of counts, quadratic models lead nowhere
        rows[0] = fit.evaluate(rows[1:]).b
    levels = fit.data.crossed if isinstance(fit.data, StackedRows) else None
    to_mean = tied and isinstance(fit.data, StackedRows)
    if levels is None:
        to_mean &= laplacian.one_group > 0 and not issparse(fit.data.X)
    if levels is not None and start is not None:
        start = _about_levels(start, levels)
    leverages = np.zeros(len(fit.data.y))
    point, found = _evaluate(_with_effects(fit, levels, start), rows), start
    rounds, least = 20, SETTLED  # of quadratic models, and tolerance of the last ones
    first_tolerance = 0.1  # of the first round, a tenth of that in the next, and so on
    settled_round = 0.01  # gain in twice the log-likelihood of a last round
    if start is not None or not to_mean:  # parts of the data are there to be scored
        same_scores = 0.05
    if start is not None and to_mean:
        # Where effects nearly separate classes, rounds hardly end by themselves.
        rounds, least = 8, ROUGH
    for number in range(rounds):
        laplace, bends = None, fit.family.working_bend(point.eta, fit.data.y)
        if not to_mean:
            moments = condense(fit.reweighted(point, bends))
        else:
            pull = leverages * fit.family.skew(point.eta, fit.data.y)
            laplace = Laplace(pull, is_restricted)
            effects = None if found is None or found.crossed is None else found.crossed
            model = point.fit.reweighted(point, bends)
            if issparse(model.X):
                model = model.with_matrix(model.X.toarray())
            moments = centre_samples(model)
            if levels is not None:
                moments = _with_levels(moments, levels, effects)
        tolerance = max(least, first_tolerance * 0.1**number)
        if number == 0 and start is not None and to_mean:
            tolerance = np.inf  # all that it is there for are leverages
        before = found
        if suits_rows(moments, laplacian, fit.intercepts):
            gain = 0.0  # scores alone tell when to stop
            found = estimate_from_rows(
                moments,
                laplacian,
                families=families,
                noise_variance=noise,
                slopes=slopes,
                start=found,
                tolerance=tolerance,
                laplace=laplace,
            )
            if found.leverages is not None:
                leverages = found.leverages
            if np.isinf(tolerance) and found.noise_variance is not None:
                found = start
                continue
        else:
            search = Search(families, noise, slopes, found, tolerance, unit)
            found, gain = search_ties(moments, laplacian, fit.intercepts, search)
        if found.noise_variance is None:
            break
        # Exponentials may be far from their quadratic models: unless the loss falls, go
        # part of the way, as a damped Newton step does (see `losses.family`).
        bounded = fit.family.lipschitz is not None
        whole, last, share = found, point, 1.0
        point = _evaluate(_with_effects(fit, levels, found), found.rows)
        if not bounded and point.value > last.value:
            apart = float(np.abs(point.eta - last.eta).max())
            share = float(np.log1p(apart) / apart) if apart > 0.1 else 1.0
        while share < 1.0:
            found = _between(before, whole, share, rows)
            point = _evaluate(_with_effects(fit, levels, found), found.rows)
            if point.value <= WORSE * last.value or share < 1e-3:
                break
            share *= 0.3
        # Scores of counts of zero may fall for ever, and change nothing.
        unit_of = np.sqrt(point.bends) if fit.family.lipschitz is None else 1.0
        change = float(np.linalg.norm(unit_of * (point.eta - last.eta)))
        size = np.sqrt(point.eta.size)
        if bounded:
            size += float(np.linalg.norm(point.eta))
        # What a start knows of rows that a fold leaves out is lost with a whole step.
        is_near = share == 1.0 and change <= same_scores * size
        if number > 0 and gain <= settled_round and is_near:
            break
    assert found is not None  # there is a first round
    found = replace(found, leverages=None)
    if to_mean and levels is None and noise is not None and found.noise_variance:
        information = fit.data.task_sums(fit.data.weight * point.bends) / noise
        known = found.precision is not None and len(found.precision.varying) == 1
        if known and np.all(np.isinf(found.weights)) and information.mean() < FEW:
            return integrate(fit, laplacian, found)
    return found


def integrate(fit: FamilyFit, laplacian: Laplacian, found: Ties) -> Ties:
    """Variance of intercepts by adaptive quadrature, with common effects at their best.

    The estimate is that of Laplace's approximation, where nothing but intercepts
    varies. Nodes lie about the best intercept of each task, as wide as it is known.
    """
    data, noise, group = fit.data, found.noise_variance, laplacian.one_group
    assert noise is not None
    assert found.intercept is not None
    assert found.precision is not None
    nodes, shares = np.polynomial.hermite.hermgauss(NODES)
    logs, weight = np.log(shares) + nodes**2, data.weight / noise
    offset = 0.0 if data.offset is None else data.offset
    first = np.append(found.rows.mean(axis=1), -0.5 * np.log(group * found.intercept))
    first[-1] += 0.5 * np.log(noise)
    u = found.rows[0] - first[0]

    def intercepts(eta: Array, variance: float, u: Array) -> tuple[Array, Array]:
        """Best deviations of tasks and their curvatures, by Newton's method."""
        for _ in range(100):
            scores = eta + data.spread(u)
            bends = fit.family.bend(scores, data.y)
            slopes = fit.family.slope(scores, data.y)
            curvature = data.task_sums(weight * bends) + 1.0 / variance
            step = (data.task_sums(weight * slopes) + u / variance) / curvature
            size = np.maximum(np.abs(step), 1e-12)
            u = u - step * np.log1p(size) / size
            if size.max() <= 1e-9:
                break
        return u, curvature

    def value(x: Array) -> tuple[float, Array]:
        """−log L, and its derivatives in common effects and log τ."""
        nonlocal u
        variance = float(np.exp(2.0 * x[-1]))
        P = np.repeat(x[1:-1, np.newaxis], fit.shape[1], axis=1)
        eta = data.forward(P) + x[0] + offset
        u, curvature = intercepts(eta, variance, u)
        width = np.sqrt(2.0 / curvature)
        places = u + width * nodes[:, np.newaxis]  # (nodes, m)
        heights = logs[:, np.newaxis] - 0.5 * places**2 / variance
        for q, place in enumerate(places):
            losses = fit.family.loss(eta + data.spread(place), data.y)
            heights[q] -= data.task_sums(weight * losses)
        top = heights.max(axis=0)
        chances = np.exp(heights - top)
        sums = chances.sum(axis=0)
        chances /= sums
        total = np.log(sums * width) + top - x[-1] - 0.5 * np.log(2.0 * np.pi)
        slope, square = np.zeros(len(eta)), chances * places**2 / variance
        for chance, place in zip(chances, places, strict=True):
            slopes = fit.family.slope(eta + data.spread(place), data.y)
            slope += data.spread(chance) * weight * slopes
        ridge = found.shrinkage / noise * x[1:-1]
        effects = data.adjoint(slope).sum(axis=1) + ridge
        last = len(u) - float(square.sum())
        gradient = np.concatenate([[slope.sum()], effects, [last]])
        return float(0.5 * ridge @ x[1:-1] - total.sum()), gradient

    # In units of standard errors. Tasks that are all of one class have no variance
    # that is most likely: it is bounded.
    values, vectors = np.linalg.eigh(noise * found.precision.common)
    turn = np.eye(len(first)) / np.sqrt(len(u))
    turn[:-1, :-1] = vectors * np.sqrt(np.maximum(values, 0.0))

    def turned(z: Array) -> tuple[float, Array]:
        found, gradient = value(first + turn @ z)
        return found, turn.T @ gradient

    bounds = [(None, None)] * (len(first) - 1)
    ends = (np.log([SMALLEST, LARGEST]) - first[-1]) / turn[-1, -1]
    solution = minimize(
        turned,
        np.zeros(len(first)),
        jac=True,
        method="L-BFGS-B",
        bounds=[*bounds, tuple(ends)],
        options={"maxiter": 100, "ftol": 1e-13, "gtol": 1e-4},
    )
    best = first + turn @ solution.x
    value(best)
    rows = np.repeat(best[:-1, np.newaxis], len(u), axis=1)
    rows[0] += u
    tie = float(noise / (group * np.exp(2.0 * best[-1])))
    return replace(found, intercept=tie, rows=rows)


def join_classes(found: Sequence[Ties]) -> Ties:
    """Ties of K classes that all have coefficients, from each against the others.

    About the mean over classes, log-odds of a class against the others are K / (K − 1)
    times its score, where classes are equally likely. Coefficients of variance τ² in
    all classes make that K / (K − 1) τ², which is averaged over classes.
    """
    K, known = len(found), [one for one in found if one.noise_variance is not None]
    rows = (K - 1) / K * np.hstack([one.rows for one in found])
    if not known:
        return replace(found[0], rows=rows)

    def join(precisions: Sequence[Array]) -> Array:
        with np.errstate(divide="ignore"):
            variances = np.mean(1.0 / np.array(precisions), axis=0)
            return np.asarray(K / (K - 1) / variances)

    first, tied = known[0], known[0].intercept is not None
    levels = [np.array(one.intercept) for one in known if one.intercept is not None]
    between = np.log(np.array([one.between for one in known])).mean(axis=0)
    return Ties(
        join([one.weights for one in known]),
        float(join(levels)) if tied else None,
        first.noise_variance,
        rows,
        join([one.shrinkage for one in known]),
        tuple(np.exp(between).tolist()),
    )


def _between(before: Ties | None, found: Ties, share: float, first: Array) -> Ties:
    """The estimate with coefficients and effects that go part of the way to it.

    The way begins at those before, or at the ``first`` rows.
    """
    start = first
    if before is not None and before.rows.shape == found.rows.shape:
        start = before.rows
    rows = share * found.rows + (1.0 - share) * start
    crossed = found.crossed
    if crossed is not None:
        effects = share * crossed.effects
        if before is not None and before.crossed is not None:
            effects = effects + (1.0 - share) * before.crossed.effects
        crossed = replace(crossed, effects=effects)
    return replace(found, rows=rows, crossed=crossed)


def _about_levels(start: Ties, levels: Crossed) -> Ties:
    """Start without effects of crossed factors, if these are another structure's."""
    known = start.crossed
    if known is None or tuple(known.sd) == levels.names:
        return start
    return replace(start, crossed=replace(known, effects=np.zeros(levels.size)))


def _with_effects(
    fit: FamilyFit, levels: Crossed | None, known: Ties | None
) -> FamilyFit:
    """Fit with the effects of crossed factors as a known part of each score."""
    if levels is None or known is None or known.crossed is None:
        return fit
    offset = levels.forward(known.crossed.effects)
    given = 0.0 if fit.data.offset is None else fit.data.offset
    return replace(fit, data=replace(fit.data, offset=given + offset))


def _with_levels(
    moments: Moments, levels: Crossed, known: CrossedEffects | None
) -> CentredSamples:
    """Samples whose targets include the effects of crossed factors."""
    assert isinstance(moments, CentredSamples)
    assert isinstance(moments.data, StackedRows)
    data = replace(moments.data, crossed=levels)
    if known is None:
        return replace(moments, data=data)
    added = levels.forward(known.effects)
    mean = data.task_sums(data.weight * added) / data.task_weight
    y = data.y + added - data.spread(mean)
    return replace(moments, data=replace(data, y=y), y_mean=moments.y_mean + mean)


def _evaluate(fit: FamilyFit, rows: Array) -> FamilyEvaluation:
    """Evaluate fitted rows, made smaller where a sample is decided beyond doubt.

    Where classes can be separated, coefficients without penalty have no end.
    """
    extra = len(rows) - fit.shape[0]
    scores = fit.data.forward(rows[extra:])
    centre = 0.0 if fit.intercepts.are_fixed else scores.mean()
    largest = float(np.abs(scores - centre).max())
    largest_score = 30.0  # at which a loss is modelled, about the mean
    share = min(1.0, largest_score / largest) if largest > 0 else 1.0
    if extra:
        b = share * rows[0]
        return FamilyEvaluation(fit, share * rows[1:], share * scores, b)
    return fit.evaluate(share * rows)
