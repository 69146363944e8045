"""Features: distinct rows in coordinates in which linear components are found fast."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from priormtl._arrays import Array, Matrix
from priormtl.baselines.mixtures.cells import Cells

__all__ = ["Features", "plain_features", "rotated_features"]

SVD_WORK = 3e8  # products up to which singular values are had directly


@dataclass(frozen=True, eq=False)
class Features:
    """Rows as the components see them; the last column is the constant, if any."""

    matrix: Matrix  # (r, p)
    basis: Array | None  # (d, q) orthonormal; None: the coordinates are the features
    shift: Array  # (d,) what was taken off the features
    penalised: Array  # (p,) 1, and 0 for the constant
    spectrum: Array  # (p,) weighted sums of squares

    @property
    def has_constant(self) -> bool:
        """Whether components have an intercept."""
        return bool(self.penalised[-1] == 0)

    def leave(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients (M, d) of the features as they came, and intercepts (M,)."""
        slope, constant = coef, np.zeros(len(coef))
        if self.has_constant:
            slope, constant = coef[:, :-1], coef[:, -1]
        if self.basis is not None:
            slope = slope @ self.basis.T
        return np.ascontiguousarray(slope), constant - slope @ self.shift

    def enter(self, coef: Array, intercept: Array) -> Array:
        """What ``leave`` undoes; the part that no row sees is lost."""
        slope = coef if self.basis is None else coef @ self.basis
        if not self.has_constant:
            return slope
        return np.column_stack([slope, intercept + coef @ self.shift])


def plain_features(cells: Cells, *, fit_intercept: bool) -> Features:
    """The features as they are."""
    shift = np.zeros(cells.X.shape[1])
    return _with_constant(cells, cells.X, None, shift, fit_intercept)


def rotated_features(cells: Cells, *, fit_intercept: bool) -> Features:
    """Centred and turned until the features are uncorrelated over all tasks.

    No more coordinates than rows are left, lengths of coefficients stay as they are,
    and Hessians are close to diagonal. Sparse features stay as they are.
    """
    if issparse(cells.X):
        return plain_features(cells, fit_intercept=fit_intercept)
    weight = cells.row_weight
    shift = np.zeros(cells.X.shape[1])
    if fit_intercept:
        shift = weight @ cells.X / cells.total
    X = cells.X - shift
    basis = _principal_axes(X * np.sqrt(weight / cells.total)[:, np.newaxis])
    return _with_constant(cells, X @ basis, basis, shift, fit_intercept)


def _principal_axes(X: Array) -> Array:
    """Orthonormal directions (d, q) in which rows of X differ from zero."""
    r, d = X.shape
    epsilon = float(np.finfo(float).eps)
    if r < d or r * d * d <= SVD_WORK:
        _, values, vectors = np.linalg.svd(X, full_matrices=False)
        return vectors[values > max(r, d) * epsilon * values[0]].T
    squares, axes = np.linalg.eigh(X.T @ X)
    return axes[:, squares > d * epsilon * squares[-1]]


def _with_constant(
    cells: Cells, X: Matrix, basis: Array | None, shift: Array, fit_intercept: bool
) -> Features:
    penalised = np.ones(X.shape[1])
    if fit_intercept:
        ones = np.ones((X.shape[0], 1))
        X = csr_array(hstack([X, ones])) if issparse(X) else np.hstack([X, ones])
        penalised = np.append(penalised, 0.0)
    squares = X.multiply(X) if issparse(X) else X**2
    spectrum = np.asarray(cells.row_weight @ squares)
    return Features(X, basis, shift, penalised, spectrum)
