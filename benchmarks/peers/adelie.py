"""adelie: screening and coordinate descent along a path; loss divided by n (and m)."""

from collections.abc import Callable
from typing import Any

import adelie as ad
import numpy as np
from scipy.sparse import csc_matrix

from benchmarks.instance import Instance, block_design
from benchmarks.peers.protocol import serve

Solve = Callable[[float], np.ndarray]
SETTINGS: dict[str, Any] = {
    "intercept": False,
    "early_exit": False,  # by default it stops at 90 % of the deviance
    "progress_bar": False,
    "max_iters": 1_000_000,
}


def prepare(instance: Instance) -> dict[str, Solve]:
    """At one lam, and along a path of ten that ends there."""
    arguments = _shared(instance) if instance.is_shared else _own(instance)
    rows = instance.y.size if instance.is_shared else len(arguments["glm"].y)
    classes = instance.classes
    if classes > 1:
        rows *= classes
    path = np.geomspace(instance.lam_max, instance.lam, 11)[1:] / rows

    def follow(lams: np.ndarray) -> Solve:
        def solve(tolerance: float) -> np.ndarray:
            state = ad.grpnet(lmda_path=lams, tol=tolerance, **arguments, **SETTINGS)
            coef = state.betas[-1].toarray().reshape(len(instance.X.T), -1, classes)
            return coef.swapaxes(1, 2).reshape(instance.shape)

        return solve

    return {"one lam": follow(path[-1:]), "path of 10": follow(path)}


def _shared(instance: Instance) -> dict[str, Any]:
    d = instance.shape[0]
    return {
        "X": np.asfortranarray(instance.X),
        "glm": ad.glm.multigaussian(np.ascontiguousarray(instance.y)),
        "penalty": np.ones(d),
    }


def _own(instance: Instance) -> dict[str, Any]:
    d, columns = instance.shape
    design, target = block_design(instance)
    K = instance.classes
    if K > 1:  # it has a column for each class and column of X
        target = np.equal.outer(target, np.arange(K)).astype(float)
    X = csc_matrix(design)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    glms = {"squared": ad.glm.gaussian, "poisson": ad.glm.poisson}
    return {
        "X": ad.matrix.sparse(X),
        "glm": glms.get(instance.family, ad.glm.multinomial)(target),
        "groups": np.arange(d) * columns,
        "penalty": np.ones(d),
    }


if __name__ == "__main__":
    serve(prepare, coarsest=1e-6)
