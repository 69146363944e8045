"""Transformers: smooth curves of numeric columns, and copies of features.

Copies make the artificial prior of the paper.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl._arrays import Array
from priormtl.checks import check_count
from priormtl.design.columns import quote_name, show_name
from priormtl.design.frames import as_frame, column_floats
from priormtl.design.splines import Curves, Expansion, check_period, check_values
from priormtl.design.terms import WIGGLE
from priormtl.exceptions import unknown_name
from priormtl.priors import FeaturePrior

__all__ = ["CopyFeatures", "SplineFeatures"]


class SplineFeatures(TransformerMixin, BaseEstimator):
    """Append smooth curves to numeric columns, for effects that are not straight.

    A column ``age`` is followed by its wiggles ``age~1``, ``age~2`` and so on, at most
    eight, from smooth to rough. A linear model of all of them is a smooth effect of
    age. Use it with ``FeaturePrior.smooth(["age"])``, which keeps the effect as
    straight as the data allow.

    Parameters
    ----------
    columns : list of str, optional
        Columns to expand. By default all numeric columns with more than 15 distinct
        values.
    n_knots : int, default=10
        Number of knots, at quantiles of the column.
    periodic : dict, optional
        Columns that repeat, with their period, for example ``{"hour": 24}``. Their
        effect is a smooth periodic curve. The column itself, which jumps at the end
        of a period, is left out.

    Attributes
    ----------
    columns_ : list of str
        Columns that are expanded.
    n_features_in_, feature_names_in_
        Number and names of the columns seen in ``fit``.

    Notes
    -----
    If a column of the table is already called ``age~1``, the wiggles of ``age`` are
    called ```age`~1`` and so on; ``FeaturePrior.smooth(["age"])`` finds them.
    Beyond the training range effects continue as straight lines. Predictions of a
    model do not change when a column is shifted or rescaled. Other columns, text
    included, are passed on unchanged. A data frame gives a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from priormtl import SplineFeatures
    >>> table = pd.DataFrame({"age": range(20, 50), "sex": ["f", "m"] * 15})
    >>> list(SplineFeatures(n_knots=4).fit_transform(table).columns)
    ['age', 'age~1', 'age~2', 'age~3', 'age~4', 'sex']
    """

    def __init__(
        self, columns: Any = None, *, n_knots: int = 10, periodic: Any = None
    ) -> None:
        self.columns = columns
        self.n_knots = n_knots
        self.periodic = periodic

    def fit(self, X: Any, y: Any = None) -> Self:
        """Place knots and compute the curves of each column.

        Parameters
        ----------
        X : (n, d) data frame or array
            Table; columns of an array are called x0, x1, and so on.
        y : ignored

        Returns
        -------
        self
        """
        check_count("n_knots", self.n_knots, least=3)
        periods: Mapping[Hashable, float] = self.periodic or {}
        table = self._read(X, reset=True)
        names = list(table)
        wanted = [*(self.columns or ()), *periods]
        for name in wanted:
            if name not in names:
                raise unknown_name("column", name, names)
        for name, period in periods.items():
            check_period("periodic", name, period)
        self._curves: dict[str, Curves] = {}
        # a column with fewer distinct values stays linear by default
        fewest_values = 16
        for name, values in table.items():
            is_series = isinstance(values, nw.Series)
            is_numeric = not is_series or values.dtype.is_numeric()
            if name not in wanted and (self.columns is not None or not is_numeric):
                continue
            x = column_floats(values) if is_series else values
            _refuse_gaps(name, x)
            n_values = len(np.unique(x))
            if name not in wanted and n_values < fewest_values:
                continue
            check_values("columns", name, n_values)
            self._curves[name] = Curves.fit(x, self.n_knots, periods.get(name))
        self.columns_ = list(self._curves)
        self._bases = {}
        for name, curves in self._curves.items():
            base = name if WIGGLE.fullmatch(f"{name}~1") else show_name(name)
            taken = any(one in names for one in _wiggle_names(base, curves))
            self._bases[name] = quote_name(name) if taken else base
        return self

    def transform(self, X: object) -> Any:
        """Append the wiggles.

        Parameters
        ----------
        X : (n, d) data frame or array
            Table with the columns seen in ``fit``.

        Returns
        -------
        data frame or array
            A data frame of the same library, or an array.
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        frame = as_frame(X)
        out: list[Any] = []
        for name, values in table.items():
            curves = self._curves.get(name)
            if curves is None or curves.knots is not None:
                out.append(values)
            if curves is None:
                continue
            x = column_floats(values) if frame is not None else values
            _refuse_gaps(name, x)
            named = _wiggle_names(self._bases[name], curves)
            for one, wiggle in zip(named, curves(x).T, strict=True):
                out.append(
                    wiggle
                    if frame is None
                    else nw.new_series(one, wiggle, backend=frame.implementation)
                )
        if frame is None:
            return np.column_stack(out)
        return frame.select(*out).to_native()

    def expansion_of(self, column: Any) -> Expansion | None:
        """How values of a column become features; None if it is not expanded."""
        check_is_fitted(self)
        curves = self._curves.get(column)
        if curves is None:
            return None

        def expand(x: Array) -> dict[str, Array]:
            found = {} if curves.knots is None else {column: x}
            named = _wiggle_names(self._bases[column], curves)
            return found | dict(zip(named, curves(x).T, strict=True))

        turns = np.zeros(0) if curves.knots is None else np.unique(curves.knots)
        ends = curves.low, curves.low + curves.width
        return Expansion(expand, curves.low + curves.width * turns, ends)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of the result."""
        check_is_fitted(self)
        names = self._names() if input_features is None else list(input_features)
        found: list[str] = []
        for known, name in zip(self._names(), names, strict=True):
            curves = self._curves.get(known)
            if curves is None or curves.knots is not None:
                found.append(name)
            if curves is not None:
                base = self._bases[known] if name == known else name
                found += _wiggle_names(base, curves)
        return np.array(found, dtype=object)

    def _names(self) -> list[str]:
        names = self.__dict__.get("feature_names_in_")
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return list(names)

    def _read(self, X: object, *, reset: bool) -> dict[str, Any]:
        """Columns by name: series of a frame, or arrays."""
        frame = as_frame(X)
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return dict(zip(frame.columns, frame.iter_columns(), strict=True))
        matrix = validate_data(self, X, reset=reset, dtype=np.float64)
        return dict(zip(self._names(), matrix.T, strict=True))


def _wiggle_names(base: str, curves: Curves) -> list[str]:
    return [f"{base}~{number}" for number in range(1, curves.rotation.shape[1] + 1)]


def _refuse_gaps(name: str, x: Array) -> None:
    if np.isnan(x).any():
        raise ValueError(
            f"X must have no missing values: column {name!r} has "
            f"{int(np.isnan(x).sum())}. Fill them first, or use tabular_model."
        )


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
