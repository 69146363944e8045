"""mutar: coordinate descent on one X per task, all of the same length."""

import warnings
from collections.abc import Callable

import numpy as np
from mutar import GroupLasso

from benchmarks.instance import Instance
from benchmarks.peers.protocol import serve


def prepare(instance: Instance) -> dict[str, Callable[[float], np.ndarray]]:
    """Stack the tasks to (m, n, d); its loss is divided by n."""
    warnings.simplefilter("ignore")
    if instance.has_priors:
        raise ValueError("no priors: rows of its tasks cannot be tied")
    tasks = instance.tasks()
    if len({len(y) for _, y in tasks}) > 1:
        raise ValueError("all tasks must have as many rows")
    X, Y = np.stack([X for X, _ in tasks]), np.stack([y for _, y in tasks])

    def solve(tolerance: float) -> np.ndarray:
        model = GroupLasso(
            alpha=instance.lam / X.shape[1],
            fit_intercept=False,
            tol=tolerance,
            max_iter=100_000,
        )
        return np.asarray(model.fit(X, Y).coef_)

    return {"": solve}


if __name__ == "__main__":
    serve(prepare)
