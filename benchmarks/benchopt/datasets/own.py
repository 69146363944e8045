"""Tasks that have rows of their own, stacked; ``task`` says whose a row is."""

import numpy as np
from benchmark_utils import draw_coef, draw_columns
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Normal features, neighbours correlated; up to thirty rows of P matter."""

    name = "own"
    requirements = ["numpy", "scipy"]
    parameters = {
        "rows, d, m": [(50, 100, 50), (110, 28, 139)],  # rows of each task
        "correlation": [0.0, 0.9],
    }
    test_parameters = {"rows, d, m": [(10, 8, 4)], "correlation": [0.0]}

    def get_data(self):
        """Draw rows; noise is 0.3 of the signal."""
        rng = np.random.default_rng(self.get_seed(use_repetition=True))
        task = np.repeat(np.arange(self.m), self.rows)
        X = draw_columns(rng, len(task), self.d, self.correlation)
        P = draw_coef(rng, self.d, self.m)
        signal = np.einsum("nd,dn->n", X, P[:, task])
        noise = 0.3 * signal.std() * rng.standard_normal(len(task))
        return {"X": X, "y": signal + noise, "task": task}
