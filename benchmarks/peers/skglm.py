"""skglm: working sets with Anderson acceleration; loss divided by n."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.sparse import csc_matrix
from skglm import GroupLasso
from skglm.datafits import PoissonGroup
from skglm.estimators import MultiTaskLasso
from skglm.penalties import WeightedGroupL2
from skglm.solvers import GroupProxNewton
from skglm.utils.data import grp_converter
from skglm.utils.jit_compilation import compiled_clone

from benchmarks.instance import Instance, block_design
from benchmarks.peers.protocol import serve

Solve = Callable[[float], np.ndarray]


def prepare(instance: Instance) -> dict[str, Solve]:
    """Its multi-task lasso where X is shared, else a group lasso on sparse blocks."""
    warnings.simplefilter("ignore")
    return {"": _shared(instance) if instance.is_shared else _own(instance)}


def _shared(instance: Instance) -> Solve:
    X, Y = np.asfortranarray(instance.X), np.asfortranarray(instance.y)
    alpha = instance.lam / len(X)

    def solve(tolerance: float) -> np.ndarray:
        # Its tolerance is on the distance to the subdifferential, in units of alpha.
        model = MultiTaskLasso(
            alpha, fit_intercept=False, tol=tolerance * alpha, max_iter=1000
        )
        return np.ascontiguousarray(model.fit(X, Y).coef_.T)

    return solve


def _counts(X: csc_matrix, y: np.ndarray, alpha: float, m: int) -> Solve:
    """Poisson loss with groups, by its proximal Newton method on a dense design."""
    dense = np.asfortranarray(X.toarray())
    pointers, indices = grp_converter(m, X.shape[1])
    weights = np.ones(len(pointers) - 1)
    datafit = compiled_clone(PoissonGroup(pointers, indices))
    penalty = compiled_clone(WeightedGroupL2(alpha, weights, pointers, indices))

    def solve(tolerance: float) -> np.ndarray:
        solver = GroupProxNewton(max_iter=200, tol=tolerance * alpha)
        coef = solver.solve(dense, y, datafit, penalty)[0]
        return coef.reshape(-1, m)

    return solve


def _own(instance: Instance) -> Solve:
    design, target = block_design(instance)
    X = csc_matrix(design)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    alpha = instance.lam / len(target)
    d, m = instance.shape
    if instance.family == "poisson":
        return _counts(X, target, alpha, m)

    def solve(tolerance: float) -> np.ndarray:
        model = GroupLasso(
            m, alpha, fit_intercept=False, tol=tolerance * alpha, max_iter=1000
        )
        return model.fit(X, target).coef_.reshape(d, m)

    return solve


if __name__ == "__main__":
    serve(prepare)
