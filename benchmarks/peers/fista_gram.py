"""FISTA with restart on Gram matrices, in plain NumPy: what everybody can write."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.instance import Instance, difference_rows
from benchmarks.peers.protocol import serve

LOOK_EVERY = 10
MOST_STEPS = 100_000


class Moments(NamedTuple):
    """What the objective looks like from Gram matrices."""

    gram: np.ndarray  # (m, d, d), the feature prior included
    linear: np.ndarray  # (d, m)
    constant: float  # half the sum of y²
    epsilon: float

    def gradient(self, P: np.ndarray) -> np.ndarray:
        """Of everything but the penalty."""
        product = np.matmul(self.gram, P.T[:, :, np.newaxis])[:, :, 0].T
        if self.epsilon > 0:
            steps = self.epsilon * np.diff(P, axis=1)
            product[:, :-1] -= steps
            product[:, 1:] += steps
        return product - self.linear

    def relative_gap(self, P: np.ndarray, gradient: np.ndarray, lam: float) -> float:
        """By the scaled residual as dual point."""
        linear, slope = np.vdot(P, self.linear), np.vdot(P, gradient)
        rr, yr = 2 * self.constant - linear + slope, 2 * self.constant - linear
        limit = lam / np.linalg.norm(gradient, axis=1).max()
        scale = np.clip(yr / rr, -limit, limit)
        primal = 0.5 * rr + lam * np.linalg.norm(P, axis=1).sum()
        return (primal - scale * yr + 0.5 * scale**2 * rr) / self.constant


def prepare(instance: Instance) -> dict[str, Callable[[float], np.ndarray]]:
    """Gram matrices are part of the solve."""
    return {
        "": lambda tolerance: minimise(summarise(instance), instance.lam, tolerance)
    }


def summarise(instance: Instance) -> Moments:
    """Gram matrices and sums, from samples."""
    tasks = instance.tasks()
    gram = np.stack([X.T @ X for X, _ in tasks])
    if instance.theta > 0:
        D = difference_rows(instance)
        gram += instance.theta * (D.T @ D).toarray()
    linear = np.column_stack([X.T @ y for X, y in tasks])
    constant = 0.5 * float(np.vdot(instance.y, instance.y))
    return Moments(gram, linear, constant, instance.epsilon)


def minimise(moments: Moments, lam: float, tolerance: float) -> np.ndarray:
    """Accelerated proximal gradient, restarted where it goes uphill."""
    step = 1.0 / (largest_eigenvalue(moments.gram) + 4.0 * moments.epsilon)
    P = ahead = np.zeros_like(moments.linear)
    momentum = 1.0
    for n_iter in range(MOST_STEPS):
        trial = ahead - step * moments.gradient(ahead)
        norms = np.linalg.norm(trial, axis=1, keepdims=True)
        new = trial * np.maximum(0.0, 1.0 - lam * step / np.maximum(norms, 1e-300))
        if np.vdot(ahead - new, new - P) > 0:
            momentum = 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / following * (new - P)
        P, momentum = new, following
        if n_iter % LOOK_EVERY == 0:
            gap = moments.relative_gap(P, moments.gradient(P), lam)
            if gap <= tolerance:
                break
    return P


def largest_eigenvalue(gram: np.ndarray) -> float:
    """Of all tasks, by power iterations and a margin."""
    v = np.ones((*gram.shape[:2], 1))
    for _ in range(20):
        v = gram @ v
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    return 1.05 * float(np.linalg.norm(gram @ v, axis=1).max())


if __name__ == "__main__":
    serve(prepare)
