"""What block Newton asks of an engine, and what engines share."""

from collections.abc import Callable
from copy import copy
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.problem import BlockQuadratic
from priormtl.solvers.descent import MOST_SWEEPS
from priormtl.solvers.kernels.graph import LOOSE, Graph, lay_out_graph
from priormtl.solvers.kernels.rows import System

__all__ = [
    "MOST_STEPS",
    "ActiveRows",
    "Descent",
    "Engine",
    "GramDescent",
    "at_other_lam",
    "conjugate_gradients",
    "feature_modes",
    "graph_of",
    "lay_out_system",
    "penalty",
    "run_sweeps",
]

MOST_STEPS = 200  # of conjugate gradients
LOOSE_TIE = 1e-9  # of a row that is not tied, against the data's curvature
WEAK_TIES = 0.05  # against the data's curvature: a bound on a row is as good


class ActiveRows(NamedTuple):
    """Rows that are not zero, with the penalty's curvature bend (I − unit unitᵀ)."""

    place: Index  # (a,)
    bend: Array  # (a,) lam/‖row‖
    unit: Array  # (a, m) row/‖row‖
    tie: Array  # (a,)

    def straighten(self, x: Array) -> Array:
        """What ``unit`` takes from bend · x."""
        along = np.einsum("ij,ij->i", self.unit, x) * self.bend
        return along[:, np.newaxis] * self.unit


class Descent(Protocol):
    """Sweeps under way."""

    @property
    def trail(self) -> tuple[Array, ...]:
        """Q, and all that is kept for it and affine in it."""

    def sweep(self) -> float:
        """Minimise over one row after the other; how far rows moved, squared."""

    def run(self, least: int, limit: float) -> float:
        """Sweep at least so often, and on while moves shrink faster than ``limit``.

        Returns by what factor they shrink from one sweep to the next, about; 1 where
        nothing moves any more.
        """

    def value(self) -> float:
        """Objective at Q, but for a constant."""

    def gradient(self) -> Array:
        """Gradient of the quadratic part at Q."""


class Engine(Protocol):
    """A quadratic in rows, kept in one of several ways."""

    blocks: BlockQuadratic
    system: System
    graph: Graph
    curvature: Array  # (k,) mean over tasks of each row's Hessian, ties not counted

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part (k, m)."""

    def descend(self, Q: Array, gradient: Array, mu: Array) -> "Descent":
        """Begin sweeps from Q, which all move in place."""

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part on these rows, times x."""

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Newton direction on these rows."""


class GramDescent:
    """Sweeps that keep the gradient."""

    def __init__(
        self, system: System, sweep: Callable[[], float], Q: Array, gradient: Array
    ) -> None:
        self.trail = (Q, gradient)
        self.sweep = sweep
        self._system = system

    def run(self, least: int, limit: float) -> float:
        """Sweep on while moves shrink."""
        return run_sweeps(self.sweep, least, limit)

    def value(self) -> float:
        """½ ⟨Q, gradient − linear⟩ + penalty."""
        Q, gradient = self.trail
        smooth = 0.5 * float(np.vdot(Q, gradient) - np.vdot(Q, self._system.linear))
        return smooth + penalty(self._system.lam, Q)

    def gradient(self) -> Array:
        """Kept."""
        return self.trail[1]


def run_sweeps(sweep: Callable[[], float], least: int, limit: float) -> float:
    """Sweep at least so often, and on while moves shrink faster than ``limit``."""
    first, rate = 0.0, 1.0
    for count in range(MOST_SWEEPS):
        last = sweep()
        if last == 0.0:
            return 1.0
        if count == 0:
            first = last
        else:
            rate = (last / first) ** (0.5 / count)
        if count + 1 >= least and rate > limit:
            break
    return rate


def penalty(lam: Array, Q: Array) -> float:
    """Σ lam ‖q‖ over rows."""
    return float(lam @ np.sqrt(np.einsum("ij,ij->i", Q, Q)))


E = TypeVar("E", bound="Engine")


def at_other_lam(engine: E, blocks: BlockQuadratic) -> E:
    """Same engine for blocks that differ in lam only."""
    other = copy(engine)
    other.blocks = blocks
    other.system = engine.system._replace(lam=blocks.lam)
    return other


@lru_cache(maxsize=8)
def graph_of(laplacian: Laplacian) -> Graph:
    """A task graph as plain arrays, laid out once."""
    return lay_out_graph(laplacian)


def lay_out_system(
    blocks: BlockQuadratic, data: Array, linear: Array, own: Array
) -> System:
    """Arrays for sweeps; weak ties are only bounded there."""
    graph = graph_of(blocks.laplacian)
    weak = blocks.tie * graph.degree.mean() <= WEAK_TIES * own.mean(axis=1)
    kind = np.where(weak, LOOSE, graph.kind).astype(np.intp)
    steepest = np.max(own + 2.0 * np.outer(blocks.tie, graph.degree), axis=1)
    return System(data, linear, own, blocks.lam, blocks.tie, steepest, kind, graph)


def feature_modes(block: Array, rows: ActiveRows) -> tuple[Array, Array]:
    """Stiffness and modes of a tied block: basisᵀ (block + bend) basis = stiffness.

    The modes are scaled so that ties of any strengths become basisᵀ tie basis = 1:
    every mode is tied alike. Rows that are not tied count as hardly tied.
    """
    bent = block + np.diag(rows.bend)
    diagonal = bent.diagonal()
    least = LOOSE_TIE * np.where(diagonal > 0, diagonal, 1.0)
    scale = 1.0 / np.sqrt(np.maximum(rows.tie, least))
    own, basis = np.linalg.eigh(scale[:, np.newaxis] * bent * scale)
    return np.maximum(own, 1e-12 * own[-1]), scale[:, np.newaxis] * basis


def conjugate_gradients(
    solve: Callable[[Array], Array],
    correct: Callable[[Array], Array],
    rhs: Array,
    tol: float,
) -> Array:
    """Solve (M + correct) x = rhs to a relative error of ``tol``; ``solve`` inverts M.

    M times a direction follows from M times the last one: M is never multiplied.
    """
    x, rest = np.zeros_like(rhs), rhs.copy()
    z = solve(rest)
    p, Mp, old = z, rest.copy(), float(np.vdot(rest, z))
    goal = tol * tol * old
    for _ in range(MOST_STEPS):
        if old <= goal:
            break
        product = Mp + correct(p)
        bowl = float(np.vdot(p, product))
        if bowl <= 0.0:
            break
        x += (old / bowl) * p
        rest -= (old / bowl) * product
        z = solve(rest)
        new = float(np.vdot(rest, z))
        p, Mp, old = z + (new / old) * p, rest + (new / old) * Mp, new
    return x
