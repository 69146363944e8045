"""CopyFeatures: the paper's artificial prior as a transformer."""

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl.priors import FeaturePrior

__all__ = ["CopyFeatures"]


class CopyFeatures(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Append copies of some features; copy and original are known to act alike.

    Parameters
    ----------
    fraction : float
        Share of the features to copy, at least one feature.
    random_state : int, RandomState or None
        Which ones.

    Attributes
    ----------
    copied_ : (k,) array
        Positions of the copied features.
    prior_ : FeaturePrior
        Each copy is similar to its original.
    n_features_in_, feature_names_in_ : int, array
        Features before copying, and their names where X has any.

    Examples
    --------
    >>> copies = CopyFeatures(fraction=0.5, random_state=0).fit([[1.0, 2.0]])
    >>> copies.transform([[1.0, 2.0]]).shape, copies.prior_
    ((1, 3), FeaturePrior(1 relation))
    """

    def __init__(self, fraction: float = 0.05, random_state: Any = 0) -> None:
        self.fraction = fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the features to copy."""
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

    def transform(self, X: Any) -> Any:
        """Features followed by the copies."""
        check_is_fitted(self)
        checked = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=np.float64
        )
        copies = checked[:, self.copied_]
        if issparse(checked):
            return csr_array(hstack([checked, copies]))
        return np.hstack([checked, copies])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, then "<name>_copy" for the copies."""
        names = super().get_feature_names_out(input_features)
        copies = [f"{names[j]}_copy" for j in self.copied_]
        return np.concatenate([names, np.array(copies, dtype=object)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
