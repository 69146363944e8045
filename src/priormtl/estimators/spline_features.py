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

FEWEST_VALUES = 16  # a column with fewer distinct values stays linear by default
<<<<<<< HEAD:src/priormtl/estimators/spline_features.py
=======
LEAST_VALUES = 4  # fewer distinct values leave no curve beside the straight line
SINGULAR = 1e-8  # share of the largest eigenvalue below which a basis has no direction
CELLS = 400  # of the grid on which roughness is integrated
WIGGLE = re.compile(rf"({SOURCE})~([1-9]\d*)", re.DOTALL)


def wiggles_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Positions of what look like wiggles of each column, in order.

    Only statements about smooth effects say which are: see ``priors.curves_of``.
    """
    found: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        match = WIGGLE.fullmatch(name)
        if match is not None:
            found.setdefault(match[1], []).append(position)
    # A column that has wiggles itself is none.
    groups = {
        c: [j for j in group if names[j] not in found] for c, group in found.items()
    }
    return {column: group for column, group in groups.items() if group}


def check_period(argument: str, name: Hashable, period: Any) -> None:
    """Fail if a period is no number above zero."""
    number = isinstance(period, int | float | np.number)
    if not (number and np.isfinite(period) and period > 0):
        raise ValueError(
            f"{argument} must give a period above 0: got {period!r} for {name!r}."
        )


def check_values(argument: str, name: Hashable, count: int) -> None:
    """Fail if a column has too few distinct values for a curve."""
    if count < LEAST_VALUES:
        raise ValueError(
            f"{argument} must have at least {LEAST_VALUES} distinct values for a "
            f"curve: {name!r} has {count}. Leave it out of {argument}."
        )


class Curves(NamedTuple):
    """Wiggles of one column."""

    low: float
    width: float
    knots: Array | None  # None: periodic
    rotation: Array  # (basis, wiggles)

    @classmethod
    def fit(cls, x: Array, n_knots: int, period: float | None) -> Self:
        if period is not None:
            return cls._periodic(x, period)
        low, high = float(x.min()), float(x.max())
        z = (x - low) / (high - low)
        inner = np.unique(np.quantile(z, np.linspace(0.0, 1.0, n_knots)))
        inner[0], inner[-1] = 0.0, 1.0
        knots = np.concatenate([np.zeros(DEGREE), inner, np.ones(DEGREE)])
        centres = (np.arange(CELLS) + 0.5) / CELLS
        bends = _splines(knots).derivative(2)(centres)
        lines = np.column_stack([np.ones_like(z), z])
        rotation = _rotate(_splines(knots)(z), bends.T @ bends / CELLS, lines)
        return cls(low, high - low, knots, rotation)

    @classmethod
    def _periodic(cls, x: Array, period: float) -> Self:
        basis = _harmonics(x / period)
        order = np.append(0, np.repeat(np.arange(1, N_HARMONICS + 1), 2))
        rotation = _rotate(basis, np.diag(order**4.0), np.ones((len(x), 1)))
        return cls(0.0, period, None, rotation)

    def check(self) -> None:
        """Fail unless knots and rotation belong together, as they do after ``fit``."""
        size, knots = 2 * N_HARMONICS + 1, self.knots
        ends = np.array([self.low, self.width])
        sound = bool(np.isfinite(ends).all()) and self.width > 0
        if knots is not None:
            size = len(knots) - DEGREE - 1
            sound &= knots.ndim == 1 and size > 0 and bool(np.all(np.diff(knots) >= 0))
            sound &= bool(np.isfinite(knots).all())
        sound &= self.rotation.ndim == 2 and len(self.rotation) == size
        if not sound or not np.isfinite(self.rotation).all():
            raise ValueError("wrong shape of curves")

    def __call__(self, x: Array) -> Array:
        """Values (n, wiggles); beyond the training range curves go straight on."""
        z = (x - self.low) / self.width
        if self.knots is None:
            return _harmonics(z) @ self.rotation
        inside = np.clip(z, 0.0, 1.0)
        splines = _splines(self.knots)
        values = splines(inside)
        beyond = np.flatnonzero(z != inside)
        if len(beyond):
            slopes = splines.derivative()(inside[beyond])
            values[beyond] += slopes * (z - inside)[beyond, np.newaxis]
        return np.asarray(values @ self.rotation)


def _splines(knots: Array) -> BSpline:
    return BSpline(knots, np.eye(len(knots) - DEGREE - 1), DEGREE)


def _harmonics(turns: Array) -> Array:
    """One, so that the mean can be taken away, and cosines and sines."""
    angles = 2.0 * np.pi * turns[:, np.newaxis] * np.arange(1, N_HARMONICS + 1)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    ones = np.ones((len(turns), 1))
    return np.hstack([ones, waves.reshape(len(turns), 2 * N_HARMONICS)])


def _rotate(basis: Array, roughness: Array, lines: Array) -> Array:
    """Directions that are orthogonal to lines, white, and sorted from smooth to rough.

    Each is divided by the root of its roughness, in units of the smoothest.
    """
    _, seen, turns = np.linalg.svd(lines.T @ basis / len(basis))
    away = turns[np.count_nonzero(seen > SINGULAR) :].T
    squares = away.T @ (basis.T @ basis) @ away / len(basis)
    sizes, turns = np.linalg.eigh(squares)
    known = sizes > SINGULAR * sizes[-1]
    white = away @ (turns[:, known] / np.sqrt(sizes[known]))
    bends, turns = np.linalg.eigh(white.T @ roughness @ white)
    bends, turns = bends[:MOST_WIGGLES], turns[:, :MOST_WIGGLES]
    floor = np.finfo(float).eps * bends[-1]
    shares = np.sqrt(np.maximum(bends[0], floor) / np.maximum(bends, floor))
    return np.asarray(white @ turns * shares)


class Expansion(NamedTuple):
    """How values of one column become features, for plots of its effect."""

    expand: Callable[[Any], dict[str, Array]]
    ticks: Any  # quantiles of the training values (k,), or a tuple of all categories
    ends: tuple[float, float] = (0.0, 1.0)  # range of numbers
    is_date: bool = False  # numbers are days since 1970
>>>>>>> default:src/priormtl/splines.py


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
        for name, values in table.items():
            is_series = isinstance(values, nw.Series)
            is_numeric = not is_series or values.dtype.is_numeric()
            if name not in wanted and (self.columns is not None or not is_numeric):
                continue
            x = column_floats(values) if is_series else values
            _refuse_gaps(name, x)
            n_values = len(np.unique(x))
            if name not in wanted and n_values < FEWEST_VALUES:
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

    def transform(self, X: Any) -> Any:
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
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return list(names)

    def _read(self, X: Any, *, reset: bool) -> dict[str, Any]:
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
