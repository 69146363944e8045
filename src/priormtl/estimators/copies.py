"""Duplicate some features: the artificial prior of the paper."""

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl.priors import FeaturePrior


class CopyFeatures(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Append copies of randomly selected features.

    Each copy should have the same effect as its original, which gives an artificial
    feature prior.

    Parameters
    ----------
    fraction : float, default=0.05
        Fraction of the features to copy. At least one feature is copied.
    random_state : int, RandomState or None, default=0
        Seed for the selection of features.

    Attributes
    ----------
    copied_ : (k,) array
        Indices of the copied features.
    prior_ : FeaturePrior
        Prior that states that each copy is similar to its original.
    n_features_in_ : int
        Number of features before copying.
    feature_names_in_ : (d,) array
        Names of the features before copying. Only if X has column names.

    Examples
    --------
    >>> copies = CopyFeatures(fraction=0.5, random_state=0).fit([[1.0, 2.0]])
    >>> copies.transform([[1.0, 2.0]]).shape, copies.prior_
    ((1, 3), FeaturePrior(1 relation))
    """

    def __init__(self, fraction: float = 0.05, random_state: object = 0) -> None:
        self.fraction = fraction
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Select the features to copy."""
        if not 0 < self.fraction <= 1:
            raise ValueError(
                f"fraction must be above 0 and at most 1: got {self.fraction!r}."
            )
        checked = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        d = checked.shape[1]
        count = max(1, round(self.fraction * d))
        rng = check_random_state(self.random_state)
        self.copied_ = np.sort(rng.choice(d, size=count, replace=False))
        pairs = [(int(j), d + k) for k, j in enumerate(self.copied_)]
        self.prior_ = FeaturePrior.similar(pairs)
        return self

    def transform(self, X: object) -> Any:
        """Return X with the copies appended as last columns."""
        check_is_fitted(self)
        checked = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=np.float64
        )
        copies = checked[:, self.copied_]
        if issparse(checked):
            return csr_array(hstack([checked, copies]))
        return np.hstack([checked, copies])

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the feature names; those of copies end in "_copy"."""
        names = super().get_feature_names_out(input_features)
        copies = [f"{names[j]}_copy" for j in self.copied_]
        return np.concatenate([names, np.array(copies, dtype=object)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
