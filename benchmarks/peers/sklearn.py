"""scikit-learn's MultiTaskLasso: block coordinate descent; loss divided by n."""

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import MultiTaskLasso

from benchmarks.instance import Instance
from benchmarks.peers.protocol import serve


def prepare(instance: Instance) -> dict[str, Callable[[float], np.ndarray]]:
    """Arrays in the order that it wants, nothing to copy."""
    warnings.simplefilter("ignore")
    X, Y = np.asfortranarray(instance.X), np.asfortranarray(instance.y)

    def solve(tolerance: float) -> np.ndarray:
        alpha = instance.lam / len(X)
        model = MultiTaskLasso(
            alpha, fit_intercept=False, tol=tolerance, max_iter=100_000
        )
        return np.ascontiguousarray(model.fit(X, Y).coef_.T)

    return {"": solve}


if __name__ == "__main__":
    serve(prepare)
