"""SplineFeatures: a transformer that appends smooth curves to numeric columns."""

from collections.abc import Hashable, Mapping
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl._arrays import Array
from priormtl.checks import check_count
from priormtl.design.columns import quote_name, show_name
from priormtl.design.frames import as_frame, column_floats
from priormtl.design.splines import Curves, Expansion, check_period, check_values
from priormtl.design.terms import WIGGLE
from priormtl.exceptions import unknown_name

__all__ = ["SplineFeatures"]


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
