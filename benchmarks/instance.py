"""Instance: a problem as arrays, which every solver of every package can read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, eye_array, kron, vstack


@dataclass(frozen=True, eq=False)
class Instance:
    """½ Σ (x p_i − y)² + lam Σ ‖p^j‖ + theta/2 ‖D P‖² + epsilon/2 Σ ‖p_i − p_{i+1}‖².

    No intercepts, sums over rows. Tasks share the rows of X (``codes`` empty,
    y (n, m)) or have their own (y (n,), ``codes`` (n,) ascending). D has a row for
    each pair.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    lam: float
    theta: float = 0.0
    epsilon: float = 0.0
    pairs: np.ndarray | None = None  # (s, 2) features that act alike
    # "squared", "poisson", or "logistic" of three classes or more: y are their numbers
    # from 0 on, and P has the columns of class after class.
    family: str = "squared"

    @property
    def classes(self) -> int:
        """Scores of a row."""
        return int(self.y.max()) + 1 if self.family == "logistic" else 1

    @property
    def is_shared(self) -> bool:
        """Whether all tasks have the same rows."""
        return len(self.codes) == 0

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""
        m = self.y.shape[1] if self.is_shared else int(self.codes[-1]) + 1
        return self.X.shape[1], self.classes * m

    @property
    def has_priors(self) -> bool:
        """Whether a prior is part of it."""
        return self.theta > 0 or self.epsilon > 0

    @property
    def lam_max(self) -> float:
        """Smallest lam at which P = 0 is optimal."""
        return float(np.linalg.norm(self.gradient_at_zero(), axis=1).max())

    def gradient_at_zero(self) -> np.ndarray:
        """Slope of the loss of each task at P = 0, but for its sign (d, m)."""
        if self.family != "squared":
            residual = row_residuals(self, np.zeros((len(self.y), self.classes)))
            ends = np.flatnonzero(np.diff(self.codes)) + 1
            parts = zip(np.split(self.X, ends), np.split(residual, ends), strict=True)
            slopes = np.stack([X.T @ v for X, v in parts])  # (m, d, K)
            return slopes.transpose(1, 2, 0).reshape(self.X.shape[1], -1)
        if self.is_shared:
            return self.X.T @ self.y
        return np.column_stack([X.T @ y for X, y in self.tasks()])

    def tasks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """X and y of each task that has its own rows."""
        ends = np.flatnonzero(np.diff(self.codes)) + 1
        return list(zip(np.split(self.X, ends), np.split(self.y, ends), strict=True))

    def at_share(self, share: float) -> Self:
        """Same data, lam as a share of lam_max."""
        return replace(self, lam=share * self.lam_max)

    def save(self, path: Path) -> None:
        """Write all arrays to one file."""
        pairs = np.zeros((0, 2), int) if self.pairs is None else self.pairs
        strengths = np.array([self.lam, self.theta, self.epsilon])
        arrays = {"X": self.X, "y": self.y, "codes": self.codes, "pairs": pairs}
        names = {"name": np.array(self.name), "family": np.array(self.family)}
        np.savez(path, strengths=strengths, **names, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote."""
        with np.load(path, allow_pickle=False) as file:
            parts = [file[key] for key in ("X", "y", "codes")]
            strengths = map(float, file["strengths"])
            name, family = str(file["name"]), str(file["family"])
            return cls(name, *parts, *strengths, file["pairs"], family)


def row_residuals(instance: Instance, scores: np.ndarray) -> np.ndarray:
    """Slopes of the losses of counts, or of classes, at scores (n, K)."""
    if instance.family == "poisson":
        return np.exp(scores) - instance.y[:, np.newaxis]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares - np.equal.outer(instance.y, np.arange(instance.classes))


def difference_rows(instance: Instance) -> csr_array:
    """D, one row p_a − p_b for each pair."""
    pairs = np.zeros((0, 2), int) if instance.pairs is None else instance.pairs
    s = len(pairs)
    rows = np.repeat(np.arange(s), 2)
    values = np.tile([1.0, -1.0], s)
    shape = (s, instance.shape[0])
    return csr_array(coo_array((values, (rows, pairs.ravel())), shape=shape))


def block_design(instance: Instance) -> tuple[csc_array, np.ndarray]:
    """One sparse group lasso for all tasks: group j holds row j of P, prior as rows."""
    d, m = instance.X.shape[1], int(instance.codes[-1]) + 1
    n = len(instance.y)
    rows = np.repeat(np.arange(n), d)
    columns = (np.arange(d) * m + instance.codes[:, np.newaxis]).ravel()
    entries = (instance.X.ravel(), (rows, columns))
    blocks = [csc_array(coo_array(entries, shape=(n, d * m)))]
    if instance.theta > 0:
        relations = np.sqrt(instance.theta) * difference_rows(instance)
        blocks.append(csc_array(kron(relations, eye_array(m))))
    if instance.epsilon > 0:
        steps = eye_array(m - 1, m, k=1) - eye_array(m - 1, m)
        ties = np.sqrt(instance.epsilon) * steps
        blocks.append(csc_array(kron(eye_array(d), ties)))
    design = csc_array(vstack(blocks))
    return design, np.concatenate([instance.y, np.zeros(design.shape[0] - n)])
