"""Newton steps on the rows that are not zero, whatever the engine."""

from math import sqrt

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.engines.base import ActiveRows, Engine
from priormtl.solvers.kernels import newton

__all__ = ["newton_step"]

MOST_DAMPING, LEAST_DAMPING = 0.1, 1e-8
LOOSEST, TIGHTEST = 0.1, 1e-6  # relative errors of Newton directions
TIE_RIDGE = 16.0 * float(np.finfo(np.float64).eps)
RIDGE = 50.0 * float(np.finfo(np.float64).eps)  # relative, times 10 + rows


def newton_step(engine: Engine, Q: Array, gradient: Array) -> None:
    """Move the rows of Q that are not zero towards the minimum of their model."""
    lam = engine.system.lam
    place, bend, unit = newton.find_rows(lam, Q)
    if not len(place):
        return
    downhill, force = newton.look_downhill(lam, place, unit, gradient)
    rows = ActiveRows(place, bend, unit, engine.system.tie[place])
    tol = min(LOOSEST, max(TIGHTEST, 0.3 * sqrt(force)))
    ridge = RIDGE * (10 + len(place)) * engine.curvature[place]
    ridge = ridge + TIE_RIDGE * rows.tie * engine.graph.degree.mean()
    step = engine.direction(_damp(rows, force, ridge), downhill, tol)
    newton.move_rows(lam, place, Q, gradient, step, engine.multiply(rows, step))


def _damp(rows: ActiveRows, force: float, ridge: Array) -> ActiveRows:
    """Rows that resist also along themselves, less and less towards the optimum.

    The penalty has no curvature there; with more rows than the data can tell apart
    (one task above all) the model would have no minimum. Where lam is tiny, collinear
    rows have no curvature but a few rounding errors: a ridge of that size, bend
    (I − keep² u uᵀ) + ridge I = bend' (I − u' u'ᵀ), keeps them from running away.
    """
    keep = 1.0 - min(MOST_DAMPING, max(LEAST_DAMPING, force))
    bend = rows.bend + ridge
    share = np.sqrt(keep * rows.bend / np.where(bend > 0, bend, 1.0))
    return rows._replace(bend=bend, unit=share[:, np.newaxis] * rows.unit)
