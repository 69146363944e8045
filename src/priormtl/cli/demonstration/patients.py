"""Patients by age: neighbouring ages are alike, and so are some measurements."""

import numpy as np

from priormtl.cli.demonstration.trials import SHARED, Part, Rows, split
from priormtl.cli.example import FEATURES, read_patients
from priormtl.estimators import MultiTaskRegressorCV
from priormtl.priors import FeaturePrior

__all__ = ["BOTH", "PLAIN", "SIZES", "pose_patients"]

SIZES = (8, 12, 20, 35)  # patients of each age group to learn from
NOTHING, STRENGTHS = [0.0], [0.0, 1.0, 10.0, 100.0, 1000.0]
PLAIN, BOTH = "no prior", "both"
GRIDS = {
    PLAIN: (NOTHING, NOTHING),
    "related measurements": (STRENGTHS, NOTHING),
    "neighbouring ages": (NOTHING, STRENGTHS),
    BOTH: (STRENGTHS, STRENGTHS),
}
SETTINGS = SHARED | {"fit_intercept": "tied", "standardize": True}


def pose_patients() -> Part:
    """Progression of diabetes in five age groups, with several kinds of priors."""
    known = FeaturePrior.similar([_place("cholesterol", "ldl")])
    known += FeaturePrior.opposite([_place("hdl", "ratio")])
    models = {
        name: MultiTaskRegressorCV(12, *grid, feature_prior=known, **SETTINGS)
        for name, grid in GRIDS.items()
    }
    return Part(
        f"Patients: 5 age groups, {len(FEATURES)} measurements, {SIZES[1]} patients "
        "per group",
        "R²",
        models,
        _draw,
        lambda model, test: float(model.score(test.X, test.y)),
        SIZES[1],
    )


def _place(first: str, second: str) -> tuple[int, int]:
    return FEATURES.index(first), FEATURES.index(second)


def _draw(size: int, seed: int) -> tuple[Rows, Rows]:
    table = read_patients()
    group = np.unique(table["age"].to_numpy(), return_inverse=True)[1]
    values = np.column_stack([table[name].to_numpy() for name in FEATURES])
    y = table["progression"].to_numpy()
    return split(np.column_stack([group, values]), y, group, size, seed)
