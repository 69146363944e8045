"""Ties under logistic loss: penalised quasi-likelihood."""

from collections.abc import Mapping, Sequence

import numpy as np

from priormtl._arrays import Array
from priormtl.graphs import Laplacian
from priormtl.losses import LogisticEvaluation, LogisticFit, TiedIntercepts
from priormtl.reml.rows import estimate_from_rows, suits_rows
from priormtl.reml.ties import SETTLED, Families, Search, Ties, search_ties


def estimate_logistic_ties(
    fit: LogisticFit,
    laplacian: Laplacian,
    *,
    families: Families | None = None,
    factors: Mapping[str, Sequence[int]] | None = None,
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
    tied = isinstance(fit.intercepts, TiedIntercepts)
    rows = np.zeros((d + tied, m))
    if start is not None and start.rows.shape == rows.shape:
        rows = start.rows
    point, found = _evaluate(fit, rows), start
    rounds = 10  # of quadratic models of a loss
    first_tolerance = 0.1  # of the first round, a tenth of that in the next, and so on
    settled_round = 0.01  # gain in twice the log-likelihood of a last round
    same_scores = 0.05  # change of scores of a last round
    for number in range(rounds):
        moments = fit.quadratic_model(point).moments
        tolerance = max(SETTLED, first_tolerance * 0.1**number)
        if suits_rows(moments, laplacian, fit.intercepts):
            gain = 0.0  # scores alone tell when to stop
            found = estimate_from_rows(
                moments,
                laplacian,
                families=families,
                factors=factors,
                noise_variance=unit,
                slopes=slopes,
                start=found,
            )
        else:
            search = Search(families, unit, slopes, found, tolerance, unit)
            found, gain = search_ties(moments, laplacian, fit.intercepts, search)
        if found.noise_variance is None:
            break
        last, point = point, _evaluate(fit, found.rows)
        change = float(np.linalg.norm(point.margins - last.margins))
        size = float(np.linalg.norm(point.margins)) + np.sqrt(point.margins.size)
        if number > 0 and gain <= settled_round and change <= same_scores * size:
            break
    assert found is not None  # there is a first round
    return found


def _evaluate(fit: LogisticFit, rows: Array) -> LogisticEvaluation:
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
        return LogisticEvaluation(fit, share * rows[1:], share * scores, b)
    return fit.evaluate(share * rows)
