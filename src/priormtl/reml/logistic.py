"""Ties under logistic loss: penalised quasi-likelihood."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
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
from priormtl.graphs import Laplacian
from priormtl.losses import FamilyEvaluation, FamilyFit, TiedIntercepts
from priormtl.reml.rows import estimate_from_rows, suits_rows
from priormtl.reml.ties import (
    SETTLED,
    CrossedEffects,
    Families,
    Search,
    Ties,
    search_ties,
)

WORSE = 2.0  # times the loss before, beyond which a round goes part of the way


def estimate_logistic_ties(
    fit: FamilyFit,
    laplacian: Laplacian,
    *,
    families: Families | None = None,
    slopes: bool = True,
    start: Ties | None = None,
    unit: float = 1.0,
) -> Ties:
    """Ties under logistic loss: those of its quadratic models, a few times over.

    This is penalised quasi-likelihood (Breslow, Clayton 1993): samples have the weights
    and targets of iterative reweighting, and noise of variance 1, or of ``unit``, the
    mean weight of rows. Each round starts where the last one ended, the first one at
    ``start``.
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
    point, found = _evaluate(_with_effects(fit, levels, start), rows), start
    rounds = 10 if fit.family.lipschitz is not None else 20  # of quadratic models
    first_tolerance = 0.1  # of the first round, a tenth of that in the next, and so on
    settled_round = 0.01  # gain in twice the log-likelihood of a last round
    same_scores = 0.05  # change of scores of a last round
    for number in range(rounds):
        if levels is None:
            moments = condense(fit.reweighted(point))
        else:
            effects = None if found is None or found.crossed is None else found.crossed
            model = point.fit.reweighted(point)
            if issparse(model.X):
                model = model.with_matrix(model.X.toarray())
            moments = _with_levels(centre_samples(model), levels, effects)
        tolerance = max(SETTLED, first_tolerance * 0.1**number)
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
            )
        else:
            search = Search(families, noise, slopes, found, tolerance, unit)
            found, gain = search_ties(moments, laplacian, fit.intercepts, search)
        if found.noise_variance is None:
            break
        # Exponentials are far from their quadratic models: go part of the way, as a
        # damped Newton step does (see `losses.family`).
        bounded = fit.family.lipschitz is not None
        whole, last, share = found, point, 1.0
        point = _evaluate(_with_effects(fit, levels, found), found.rows)
        if not bounded:
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
        size = float(np.linalg.norm(unit_of * point.eta)) + np.sqrt(point.eta.size)
        if number > 0 and gain <= settled_round and change <= same_scores * size:
            break
    assert found is not None  # there is a first round
    return found


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
        crossed = crossed._replace(effects=effects)
    return replace(found, rows=rows, crossed=crossed)


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
