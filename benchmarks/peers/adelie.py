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
    path = np.geomspace(instance.lam_max, instance.lam, 11)[1:] / rows

    def follow(lams: np.ndarray) -> Solve:
        def solve(tolerance: float) -> np.ndarray:
            state = ad.grpnet(lmda_path=lams, tol=tolerance, **arguments, **SETTINGS)
            return state.betas[-1].toarray().reshape(instance.shape)

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
    d, m = instance.shape
    design, target = block_design(instance)
    X = csc_matrix(design)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return {
        "X": ad.matrix.sparse(X),
        "glm": ad.glm.gaussian(target),
        "groups": np.arange(d) * m,
        "penalty": np.ones(d),
    }


if __name__ == "__main__":
    serve(prepare, coarsest=1e-6)
