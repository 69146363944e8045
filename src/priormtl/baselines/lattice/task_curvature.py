"""TaskCurvature: squared loss of many tasks where its mean curvature is diagonal.

A penalty that sees only lengths of coefficient vectors does not mind if features are
rotated, within each block of features. The eigenvectors of the mean over tasks of XᵀX
are such a rotation: directions without curvature go, and a preconditioner becomes a
division.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.losses import SquaredFit

__all__ = ["TaskCurvature", "rotate_fit"]

LARGEST_GRAM = 3 * 10**7  # numbers in all XᵀX, up to which they are written out
VANISHING = 1e-14  # relative to the largest, below which curvature counts as none

Product = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class TaskCurvature:
    """½ Σ w_iᵀG_i w_i − linear_i w_i + constant/2 over rows w_i of W (m, r)."""

    product: Product  # (m, r) → row i times G_i
    linear: Array  # (m, r)
    constant: float  # twice the value at W = 0
    mean: Array  # (r,) diagonal of the mean of G_i over tasks
    blocks: tuple[slice, ...]  # columns of each block of features
    to_features: Callable[[Array], Array]  # (m, r) → (m, d)


def rotate_fit(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    """The fit in the smallest of its forms, rotated where that is affordable."""
    if fit.rows_per_task is not None:
        return _from_samples(fit, blocks)
    if fit.normal_size <= LARGEST_GRAM:
        return _from_grams(fit, blocks)
    return _as_it_is(fit, blocks)


def _from_samples(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    rows, target, starts, _ = fit.sample_form()
    m = fit.shape[1]
    parts = [_span(rows[block]) for block in blocks]
    basis = _block_basis(parts, blocks, fit.shape[0])
    turned = basis.T @ rows
    if len(starts):
        linear = np.stack([turned[:, a:b] @ target[a:b] for a, b in pairwise(starts)])
        product, mean = _own_rows(turned, starts)
    else:
        linear = target @ turned.T
        product, mean = _own_grams((turned @ turned.T)[np.newaxis], m)
    return TaskCurvature(
        product,
        linear,
        2.0 * fit.magnitude,
        mean,
        _slices([part.shape[1] for part in parts]),
        lambda W: W @ basis.T,
    )


def _from_grams(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    gram, linear, _ = fit.normal_form()
    centre = gram.mean(axis=0)
    parts = [_principal(centre[np.ix_(block, block)]) for block in blocks]
    basis = _block_basis(parts, blocks, fit.shape[0])
    turned = np.stack([basis.T @ (matrix @ basis) for matrix in gram])
    product, mean = _own_grams(turned, fit.shape[1])
    return TaskCurvature(
        product,
        linear.T @ basis,
        2.0 * fit.magnitude,
        mean,
        _slices([part.shape[1] for part in parts]),
        lambda W: W @ basis.T,
    )


def _as_it_is(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    """Features in the order of their blocks, not rotated."""
    order = np.concatenate(blocks)
    back = np.argsort(order)
    moments = fit.moments
    raw = moments.squared_deviations().mean(axis=0)
    if fit.intercepts.are_fixed:
        raw = raw + (moments.weight @ moments.x_mean**2) / len(moments.weight)
    start = fit.evaluate(np.zeros(fit.shape))

    def product(W: Array) -> Array:
        return fit.majorant(np.ascontiguousarray(W[:, back].T)).T[:, order]

    return TaskCurvature(
        product,
        -start.gradient.T[:, order],
        2.0 * start.value,
        raw[order],
        _slices([len(block) for block in blocks]),
        lambda W: W[:, back],
    )


def _own_rows(turned: Array, starts: Index) -> tuple[Product, Array]:
    """Products by rows padded to one length, or by XᵀX where these are shorter."""
    r, m = len(turned), len(starts) - 1
    counts = np.diff(starts)
    padded = np.zeros((m, counts.max(), r))
    for i, (a, b) in enumerate(pairwise(starts)):
        padded[i, : b - a] = turned[:, a:b].T
    if 2 * counts.max() > r:
        return _own_grams(padded.transpose(0, 2, 1) @ padded, m)
    mean = np.einsum("inr,inr->r", padded, padded) / m

    def product(W: Array) -> Array:
        scores = padded @ W[:, :, np.newaxis]
        return (scores.transpose(0, 2, 1) @ padded)[:, 0]

    return product, mean


def _own_grams(gram: Array, m: int) -> tuple[Product, Array]:
    """Products by XᵀX of each task, or of all: then often a diagonal."""
    mean = np.diagonal(gram.mean(axis=0)).copy()
    if len(gram) == m > 1:
        return (lambda W: (W[:, np.newaxis] @ gram)[:, 0]), mean
    matrix = gram[0]
    rest = matrix - np.diag(mean)
    if np.abs(rest).max(initial=0.0) <= VANISHING * len(mean) * mean.max(initial=0.0):
        return (lambda W: W * mean), mean
    return (lambda W: W @ matrix), mean


def _span(rows: Array) -> Array:
    """Orthonormal directions (k, r) in which rows (k, n) vary."""
    if rows.shape[0] <= rows.shape[1]:
        return _principal(rows @ rows.T)
    return np.linalg.qr(rows @ _principal(rows.T @ rows))[0]


def _principal(gram: Array) -> Array:
    """Eigenvectors of positive curvature, at least one."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = values > VANISHING * len(values) * max(values[-1], 0.0)
    kept[-1] = True
    return np.asarray(vectors[:, kept])


def _block_basis(parts: Sequence[Array], blocks: Sequence[Index], d: int) -> Array:
    """The blocks' own directions as columns of one matrix (d, r)."""
    slices = _slices([part.shape[1] for part in parts])
    basis = np.zeros((d, slices[-1].stop))
    for part, block, columns in zip(parts, blocks, slices, strict=True):
        basis[block, columns] = part
    return basis


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(slice(a, b) for a, b in pairwise(ends))
