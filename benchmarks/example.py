"""What prior knowledge is worth in the example of the README and the tutorial.

``python -m benchmarks.example`` draws the patients of `priormtl data example` 50 times,
fits the default model with and without what is known, and prints how the errors on the
new patients of each draw differ. It takes three minutes of one core.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np

from priormtl import FeaturePrior, tabular_model
from priormtl.cli.data import ROWS, STATEMENTS, TARGET, TASK, draw_patients

DRAWS = 50


def main() -> None:
    """Print both errors, and their paired difference with its standard error."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "known.toml"
        file.write_text(STATEMENTS, encoding="utf-8")
        known = FeaturePrior.from_file(file)
    errors = np.array(
        [[error(seed, prior) for prior in (None, known)] for seed in range(DRAWS)]
    )
    change = 100.0 * (errors[:, 1] / errors[:, 0] - 1.0)
    spread = change.std(ddof=1) / np.sqrt(DRAWS)
    without, stated = errors.mean(axis=0)
    print(f"error without {without:.2f}, with {stated:.2f}: ", end="")
    print(f"{change.mean():+.1f} ± {spread:.1f} % over {DRAWS} draws, ", end="")
    print(f"smaller in {np.sum(change < 0)}")


def error(seed: int, prior: FeaturePrior | None) -> float:
    """Root mean squared error on the new patients of a draw."""
    train, new = (table.to_pandas() for table in draw_patients(ROWS, seed))
    model = tabular_model("regressor", task=TASK, feature_prior=prior)
    model.fit(train.drop(columns=TARGET), train[TARGET])
    missed = model.predict(new.drop(columns=TARGET)) - new[TARGET]
    return float(np.sqrt(np.mean(missed**2)))


if __name__ == "__main__":
    main()
