"""Instances with fixed seeds, and real tables from the folder named PRIORMTL_DATA."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from benchmarks.instance import Instance

NEARBY = Path(__file__).parents[2] / "shared" / "data"
NO_CODES = np.zeros(0, int)
NOISE = 0.3  # share of the signal; A then has 30 active rows, A' about 1670


class Rows(NamedTuple):
    """Stacked rows of many tasks."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray


class MissingDataError(RuntimeError):
    """A real table is not there."""


def shared_instances(quick: bool) -> Iterator[Instance]:
    """Multi-task lasso, tasks with the same rows."""
    A = _draw_shared("A", (500, 2000, 20))
    AR = _draw_shared("A2", (500, 2000, 20), correlation=0.9)
    yield A.at_share(0.1)
    if not quick:
        yield replace(A, name="A'").at_share(0.01)
    yield AR.at_share(0.1)
    yield _draw_shared("S", (5000, 100, 20)).at_share(0.1)
    if not quick:
        yield _draw_shared("C", (200, 20_000, 10)).at_share(0.1)
        yield replace(AR, name="K1").at_share(0.01)
    yield _draw_shared("K2", (1000, 300, 50), correlation=0.9).at_share(0.01)


def own_instances(quick: bool) -> Iterator[Instance]:
    """Every task with its own rows, without and with priors."""
    equal = [50] * 50
    shapes = [
        (_draw_own("B", equal, 100), 20.0),
        (_draw_own("B2", equal, 100, correlation=0.9), 20.0),
        (_draw_own("SCH", _school_sizes(), 28), 50.0),
        (_draw_own("HD", [50] * 20, 5000), 20.0),
    ]
    for instance, strength in shapes[:3] if quick else shapes:
        plain = instance.at_share(0.1)
        yield plain
        yield replace(
            plain,
            name=f"{plain.name} + priors",
            theta=strength,
            epsilon=strength,
            pairs=_neighbours(plain.shape[0]),
        )


def describe(instance: Instance) -> str:
    """Sizes in a few words."""
    d, m = instance.shape
    n = len(instance.y)
    rows = f"n={n}" if instance.is_shared else f"n={n} in all"
    return f"{rows}, d={d}, m={m}, λ = {instance.lam / instance.lam_max:.2g} λ_max"


def _draw_shared(
    name: str, sizes: tuple[int, int, int], correlation: float = 0.0
) -> Instance:
    n, d, m = sizes
    rng = np.random.default_rng(sum(sizes))
    X = _draw_columns(rng, n, d, correlation)
    signal = X @ _draw_coef(rng, d, m)
    Y = signal + NOISE * signal.std() * rng.standard_normal((n, m))
    return Instance(name, X, Y, NO_CODES, 0.0)


def _draw_own(
    name: str, counts: list[int], d: int, correlation: float = 0.0
) -> Instance:
    rng = np.random.default_rng(len(counts) + d)
    codes = np.repeat(np.arange(len(counts)), counts)
    X = _draw_columns(rng, len(codes), d, correlation)
    P = _draw_coef(rng, d, len(counts))
    signal = np.einsum("nd,dn->n", X, P[:, codes])
    y = signal + NOISE * signal.std() * rng.standard_normal(len(codes))
    return Instance(name, X, y, codes, 0.0)


def _draw_columns(
    rng: np.random.Generator, n: int, d: int, correlation: float
) -> np.ndarray:
    """Standard normal columns, neighbours correlated."""
    noise = rng.standard_normal((n, d))
    if correlation == 0.0:
        return noise
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.ascontiguousarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


def _draw_coef(rng: np.random.Generator, d: int, m: int) -> np.ndarray:
    """Thirty rows (or a quarter) that matter, others zero."""
    P = np.zeros((d, m))
    count = min(30, d // 4)
    P[rng.choice(d, count, replace=False)] = rng.standard_normal((count, m))
    return P


def _school_sizes() -> list[int]:
    """139 tasks of unequal size, 15 431 rows in all, as the School table has."""
    weights = np.random.default_rng(0).lognormal(0.0, 0.5, 139)
    sizes = np.maximum(22, np.floor(15_431 * weights / weights.sum())).astype(int)
    sizes[np.argmax(sizes)] += 15_431 - sizes.sum()
    return [int(size) for size in sizes]


def _neighbours(d: int) -> np.ndarray:
    """Pairs that cover a quarter of the features."""
    first = np.arange(0, d // 4 - 1, 2)
    return np.column_stack([first, first + 1])


def load(name: str) -> dict[str, np.ndarray]:
    """Arrays of a real table."""
    path = Path(os.environ.get("PRIORMTL_DATA", NEARBY)) / f"{name}.npz"
    if not path.is_file():
        raise MissingDataError(f"{name}.npz is not in the folder named PRIORMTL_DATA")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def load_school() -> Rows:
    """Exam scores of 139 schools; the constant column is left out."""
    arrays = load("school")
    X, y = arrays["X"][:, :27].astype(float), arrays["y"].astype(float)
    return Rows(X, y, arrays["task"])


def take_rows(rows: Rows, per_task: int, seed: int = 0) -> Rows:
    """A few rows of each task."""
    rng = np.random.default_rng(seed)
    kept = np.concatenate(
        [
            rng.permutation(np.flatnonzero(rows.task == i))[:per_task]
            for i in np.unique(rows.task)
        ]
    )
    return Rows(*(part[kept] for part in rows))
