"""What an expert would say beforehand about each data set, and how to spoil it."""

import numpy as np
from scipy.sparse import csr_array

from priormtl.data import Moments
from priormtl.datasets import TaskSet
from priormtl.priors import FeaturePrior, difference_matrix

__all__ = ["expert_prior", "spoil_prior"]

SCHOOL_GROUPS: dict[str, str | tuple[str, ...]] = {
    "years": "year_",
    "ethnic groups": "ethnic_",
    "kinds of school": ("school_mixed", "school_boys", "school_girls"),
    "denominations": (
        "school_maintained",
        "school_church_of_england",
        "school_roman_catholic",
    ),
}
POOR_AND_RICH = ("school_pct_free_meals", "school_pct_vr_band1")


def expert_prior(data: TaskSet) -> FeaturePrior | None:
    """Pixels are like their neighbours; School's columns of one kind act alike."""
    if data.image_shape is not None:
        return FeaturePrior.grid(*data.image_shape)
    return _school_prior(data.feature_names) if data.name == "school" else None


def _school_prior(names: tuple[str, ...]) -> FeaturePrior:
    """Years, ethnic groups and kinds of school; poverty against ability of the year."""
    groups = {
        title: [name for name in names if name.startswith(start)]
        for title, start in SCHOOL_GROUPS.items()
    }
    by_position = {
        title: [names.index(name) for name in members]
        for title, members in groups.items()
    }
    poor, rich = (names.index(name) for name in POOR_AND_RICH)
    return FeaturePrior.from_groups(by_position) + FeaturePrior.opposite([(poor, rich)])


def spoil_prior(
    prior: FeaturePrior, moments: Moments, share: float, rng: np.random.Generator
) -> FeaturePrior:
    """Replace a share of the relations by ones between features drawn at random."""
    D = difference_matrix(prior, moments).tolil()
    s, d = D.shape
    for row in rng.permutation(s)[: round(share * s)]:
        values = D.data[row]
        D.rows[row] = sorted(rng.choice(d, size=len(values), replace=False).tolist())
        D.data[row] = values
    return FeaturePrior.from_matrix(csr_array(D.tocsr()))
