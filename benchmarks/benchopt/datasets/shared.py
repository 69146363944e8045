"""Tasks that share the rows of X: y has one column for each."""

import numpy as np
from benchmark_utils import draw_coef, draw_columns
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Normal features, neighbours correlated; thirty rows of P matter."""

    name = "shared"
    requirements = ["numpy", "scipy"]
    parameters = {
        "n, d, m": [(500, 2000, 20), (1000, 300, 50)],
        "correlation": [0.0, 0.9],
    }
    test_parameters = {"n, d, m": [(40, 20, 3)], "correlation": [0.0]}

    def get_data(self):
        """Draw rows; noise is 0.3 of the signal."""
        rng = np.random.default_rng(self.get_seed(use_repetition=True))
        X = draw_columns(rng, self.n, self.d, self.correlation)
        signal = X @ draw_coef(rng, self.d, self.m)
        noise = 0.3 * signal.std() * rng.standard_normal(signal.shape)
        return {"X": X, "y": signal + noise}
