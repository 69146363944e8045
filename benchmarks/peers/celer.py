"""celer: working sets with dual extrapolation; loss divided by n."""

from collections.abc import Callable

import numpy as np
from celer.homotopy import mtl_path

from benchmarks.instance import Instance
from benchmarks.peers.protocol import serve

Solve = Callable[[float], np.ndarray]


def prepare(instance: Instance) -> dict[str, Solve]:
    """At one lam, and along a path of ten that ends there."""
    X, Y = np.asfortranarray(instance.X), np.asfortranarray(instance.y)
    n = len(X)
    path = np.geomspace(instance.lam_max, instance.lam, 11)[1:] / n

    def follow(alphas: np.ndarray) -> Solve:
        def solve(tolerance: float) -> np.ndarray:
            coefs = mtl_path(X, Y, alphas=alphas, tol=tolerance, max_iter=1000)[1]
            return np.ascontiguousarray(coefs[:, :, -1].T)

        return solve

    return {"one lam": follow(path[-1:]), "path of 10": follow(path)}


if __name__ == "__main__":
    serve(prepare)
