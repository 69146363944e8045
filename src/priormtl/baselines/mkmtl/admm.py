"""MKMTL's problems: least squares plus half a squared norm, by ADMM.

    min_F  c/2 Σ_i ‖t_i − R_i f_i‖² + 1/2 Ω(F)²

F (m, k, r) holds the function of each task i in the feature space of each kernel j. The
two variants of the method are two norms::

    shared:    Ω(F) = Σ_j (Σ_i ‖f_ij‖^p)^{1/p}      all tasks use the same few kernels
    low-rank:  Ω(F) = (Σ_j ‖F_j‖_*^q)^{1/q}         functions of all tasks span little

The quadratic part is minimised exactly in each iteration, so that a large c costs no
more iterations than a small one; its residuals give a dual point and with it a gap. The
proximal operator of step/2 Ω² reduces to a scalar equation for the norm of its result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index

RELAXATION = 1.7
CHECK_EVERY = 10
LEAST_CHANGE = 1.4  # factor of rho below which it is left as it is
LAST_BALANCED = 1000  # iteration; a rho that always changes may prevent convergence

MOST_STEPS = 200
LONGEST_STEP = 3.0  # in logarithms, before the root is bracketed
CLOSE = 1e-13
TINY = np.finfo(float).tiny


# The norms. Each has a value, a dual norm, kernel weights, and the proximal operator
# of step/2 · norm², which takes a guess of the norm of its result.


def decreasing_root(
    function: Callable[[float], float], top: float, guess: float
) -> float:
    """Root in (0, top] of a function that falls at least as fast as −log x.

    Its value is then at least the distance to the root, in logarithms. The first steps
    use that bound; once the root is bracketed, regula falsi (Illinois) takes over.
    """
    z = log(min(guess, top)) if guess > 0.0 else log(top)
    value, far, far_value = function(exp(z)), z, 0.0
    for _ in range(MOST_STEPS):
        if abs(value) <= CLOSE or (far_value and abs(far - z) <= CLOSE):
            break
        if far_value == 0.0:
            proposal = z + min(max(1.01 * value, -LONGEST_STEP), LONGEST_STEP)
        else:
            proposal = z + (far - z) * (value / (value - far_value))
        there = function(exp(proposal))
        if there * value < 0:
            far, far_value = z, value
        else:
            far_value *= 0.5
        z, value = proposal, there
    return min(exp(z), top)


@dataclass(frozen=True)
class SharedNorm:
    """Σ_j (Σ_i ‖f_ij‖^p)^{1/p}, p ≥ 2: a larger p makes tasks less alike."""

    p: float

    def value(self, F: Array) -> float:
        return float(_power_norms(_lengths(F), self.p).sum())

    def dual_norm(self, Z: Array) -> float:
        """max_j (Σ_i ‖z_ij‖^p')^{1/p'} with 1/p + 1/p' = 1."""
        return float(
            _power_norms(_lengths(Z), self.p / (self.p - 1.0)).max(initial=0.0)
        )

    def kernel_weights(self, F: Array) -> Array:
        """Share of each kernel (k,) in the norm: γ of the published dual."""
        parts = _power_norms(_lengths(F), self.p)
        total = parts.sum()
        return parts / total if total > 0 else np.full(len(parts), 1.0 / len(parts))

    def prox(self, F: Array, step: float, guess: float) -> tuple[Array, float]:
        """Proximal point of step/2 · norm², and its norm.

        With S the norm of the result, each kernel's lengths are the proximal point of
        step · S times their p-norm.
        """
        lengths = _lengths(F)
        top = float(_power_norms(lengths, self.p).sum())
        if top == 0.0:
            return F, 0.0
        scaled = lengths / top
        level = decreasing_root(partial(self._excess, scaled, step), 1.0, guess / top)
        kept = self._shrink(scaled, step * level)
        ratio = np.divide(kept, scaled, out=np.zeros_like(kept), where=scaled > 0)
        return F * ratio[:, :, np.newaxis], top * level

    def _excess(self, lengths: Array, step: float, S: float) -> float:
        """log of the resulting norm over S."""
        reached = float(self._kernel_norms(lengths, step * S).sum())
        return log(max(reached, TINY) / S)

    def _kernel_norms(self, lengths: Array, shrinkage: float) -> Array:
        """p-norms (k,) of the proximal points of shrinkage · p-norm."""
        norms = _power_norms(lengths, self.p)
        if self.p == 2.0:
            return np.maximum(norms - shrinkage, 0.0)
        alive = _power_norms(lengths, self.p / (self.p - 1.0)) > shrinkage
        from priormtl.baselines.mkmtl.shrinkage import power_norms  # noqa: PLC0415

        rows, high = np.ascontiguousarray(lengths.T), np.where(alive, norms, 0.0)
        return np.asarray(power_norms(rows, high, shrinkage, self.p))

    def _shrink(self, lengths: Array, shrinkage: float) -> Array:
        """Proximal points (m, k) of shrinkage · p-norm of each kernel's lengths."""
        norms = self._kernel_norms(lengths, shrinkage)
        if self.p == 2.0:
            return np.asarray(lengths * (norms / (norms + shrinkage)))
        from priormtl.baselines.mkmtl.shrinkage import power_shares  # noqa: PLC0415

        rows = np.ascontiguousarray(lengths.T)
        shares = power_shares(rows, norms, shrinkage, self.p)
        return np.asarray((shares * norms[:, np.newaxis]).T)


def _lengths(F: Array) -> Array:
    """Length of each function (m, k)."""
    return np.asarray(np.sqrt(np.einsum("ijr,ijr->ij", F, F)))


def _power_norms(lengths: Array, power: float) -> Array:
    """Power norm of each kernel's lengths (k,)."""
    largest = lengths.max(axis=0, initial=0.0)
    scaled = lengths / np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sum(scaled**power, axis=0) ** (1.0 / power))


class Spectra(NamedTuple):
    """Singular values of k matrices (k, m, r), and vectors on their smaller side."""

    blocks: Array  # (k, m, r)
    values: Array  # (k, s)
    vectors: Array  # (k, s, s)

    @classmethod
    def of(cls, F: Array) -> Self:
        """Decompose the blocks of F (m, k, r) through the smaller Gram matrices."""
        blocks = np.ascontiguousarray(F.transpose(1, 0, 2))
        squares, vectors = np.linalg.eigh(_small_grams(blocks))
        return cls(blocks, np.sqrt(np.maximum(squares, 0.0)), vectors)

    def with_values(self, values: Array) -> Array:
        """Same singular vectors with other values, as (m, k, r)."""
        old = self.values
        ratio = np.divide(values, old, out=np.zeros_like(old), where=old > 0)
        change = (self.vectors * ratio[:, np.newaxis, :]) @ self.vectors.swapaxes(1, 2)
        tasks_first = self.blocks.shape[1] <= self.blocks.shape[2]
        changed = change @ self.blocks if tasks_first else self.blocks @ change
        return np.ascontiguousarray(changed.transpose(1, 0, 2))


@dataclass(frozen=True)
class LowRankNorm:
    """(Σ_j ‖F_j‖_*^q)^{1/q}, 1 < q < 2: a smaller q selects fewer kernels."""

    q: float

    def value(self, F: Array) -> float:
        return _power_norm(_sums(F), self.q)

    def dual_norm(self, Z: Array) -> float:
        """(Σ_j ‖Z_j‖₂^q')^{1/q'} with 1/q + 1/q' = 1."""
        blocks = Z.transpose(1, 0, 2)
        largest = np.linalg.eigvalsh(_small_grams(blocks))[:, -1]
        return _power_norm(np.sqrt(np.maximum(largest, 0.0)), self.q / (self.q - 1.0))

    def kernel_weights(self, F: Array) -> Array:
        """Share of each kernel (k,), as t_j^{2−q} for t_j = ‖F_j‖_*."""
        sums = _sums(F)
        if not sums.any():
            return np.full(len(sums), 1.0 / len(sums))
        weights = (sums / sums.max()) ** (2.0 - self.q)
        return np.asarray(weights / weights.sum())

    def prox(self, F: Array, step: float, guess: float) -> tuple[Array, float]:
        """Proximal point of step/2 · norm², and its norm.

        With T the norm of the result, singular values of block j shrink by step · T
        v_j, where T v_j^{1/(q−1)} is their sum and Σ_j v_j^q' = 1: two nested monotone
        equations.
        """
        spectra = Spectra.of(F)
        values = spectra.values
        top = _power_norm(values.sum(axis=1), self.q)
        if top == 0.0:
            return F, 0.0
        scaled = values / top
        level = decreasing_root(partial(self._excess, scaled, step), 1.0, guess / top)
        slopes = self._slopes(scaled, step, level)
        shrunk = step * level * slopes
        kept = top * np.maximum(scaled - shrunk[:, np.newaxis], 0.0)
        return spectra.with_values(kept), top * level

    def _excess(self, values: Array, step: float, T: float) -> float:
        """log Σ_j v_j^q': positive where the resulting norm is above T."""
        dual = self.q / (self.q - 1.0)
        return dual * log(_power_norm(self._slopes(values, step, T), dual) or TINY)

    def _slopes(self, values: Array, step: float, T: float) -> Array:
        from priormtl.baselines.mkmtl.shrinkage import block_slopes  # noqa: PLC0415

        return np.asarray(block_slopes(values, step, T, 1.0 / (self.q - 1.0)))


def _small_grams(blocks: Array) -> Array:
    """Products (k, s, s) on the smaller side of blocks (k, m, r)."""
    if blocks.shape[1] <= blocks.shape[2]:
        return np.asarray(blocks @ blocks.swapaxes(1, 2))
    return np.asarray(blocks.swapaxes(1, 2) @ blocks)


def _sums(F: Array) -> Array:
    """Nuclear norm of each block (k,); exact for small singular values too."""
    values = np.linalg.svd(F.transpose(1, 0, 2), compute_uv=False)
    return np.asarray(values.sum(axis=1))


def _power_norm(values: Array, power: float) -> float:
    """(Σ t^power)^{1/power} of non-negative numbers, for high powers too."""
    return float(_power_norms(values[:, np.newaxis], power)[0])


Norm = SharedNorm | LowRankNorm


# ADMM


@dataclass(frozen=True, eq=False)
class RotatedTasks:
    """Tasks of equal size, in axes in which their Gram matrices are diagonal."""

    tasks: Index  # (b,)
    features: Array  # (b, n, k r), or (1, n, k r) where tasks have the same rows
    squares: Array  # (b, n) or (1, n): squared lengths of these rows
    target: Array  # (b, n)
    shape: tuple[int, int]  # (k, r)

    def forward(self, F: Array) -> Array:
        """Fitted values (b, n) of F (m, k, r)."""
        own = F[self.tasks, :, : self.shape[1]].reshape(len(self.tasks), -1)
        if len(self.features) == 1:
            return np.asarray(own @ self.features[0].T)
        return np.asarray((self.features @ own[:, :, np.newaxis])[:, :, 0])

    def add_adjoint(self, F: Array, residual: Array) -> None:
        """Add Rᵀ residual to these tasks of F."""
        if len(self.features) == 1:
            sums = residual @ self.features[0]
        else:
            sums = (residual[:, np.newaxis, :] @ self.features)[:, 0]
        F[self.tasks, :, : self.shape[1]] += sums.reshape(-1, *self.shape)


@dataclass(frozen=True, eq=False)
class ADMMState:
    """An iterate of ADMM."""

    coef: Array  # (m, k, r) proximal point
    dual: Array  # (m, k, r) scaled dual variable
    rho: float  # penalty parameter
    norm: float  # of coef

    @classmethod
    def zero(cls, shape: tuple[int, int, int]) -> Self:
        return cls(np.zeros(shape), np.zeros(shape), 1.0, 0.0)

    def with_rho(self, rho: float) -> Self:
        return replace(self, dual=self.dual * (self.rho / rho), rho=rho)


class QuadraticStep(NamedTuple):
    """Minimiser of the quadratic part."""

    coef: Array
    residuals: list[Array]  # of each group, at coef


class ADMMResult(NamedTuple):
    """Best objective and best lower bound."""

    state: ADMMState
    primal: float
    dual: float
    n_iter: int

    @property
    def gap(self) -> float:
        return max(self.primal - self.dual, 0.0)

    def join(self, other: Self) -> Self:
        """The lower objective with the higher bound."""
        lower = other if other.primal <= self.primal else self
        return lower._replace(dual=max(self.dual, other.dual))


@dataclass(frozen=True, eq=False)
class SplitProblem:
    """c/2 Σ_i ‖t_i − R_i f_i‖² + 1/2 Ω(F)²."""

    groups: tuple[RotatedTasks, ...]
    norm: Norm
    c: float

    def minimise_quadratic(self, state: ADMMState) -> QuadraticStep:
        """Minimise loss + rho/2 ‖F − (coef − dual)‖²."""
        # (c RᵀR + rho I) F = c Rᵀt + rho (Z − U), by the matrix inversion lemma: RRᵀ is
        # diagonal in the rotated axes, so that only divisions are left.
        F = state.coef - state.dual
        shift = state.rho / self.c
        residuals = []
        for group in self.groups:
            change = (group.target - group.forward(F)) / (group.squares + shift)
            residuals.append(shift * change)
            group.add_adjoint(F, change)
        return QuadraticStep(F, residuals)

    def step(self, state: ADMMState, quadratic: QuadraticStep) -> ADMMState:
        """Proximal step after over-relaxation, then the dual variable."""
        # Boyd et al. (2011), section 3.4.3: α F + (1 − α) Z in place of F.
        mixed = RELAXATION * quadratic.coef + (1.0 - RELAXATION) * state.coef
        aim = mixed + state.dual
        coef, level = self.norm.prox(aim, 1.0 / state.rho, state.norm)
        return ADMMState(coef, aim - coef, state.rho, level)

    def primal(self, F: Array) -> float:
        misfit = sum(_square(g.target - g.forward(F)) for g in self.groups)
        return 0.5 * self.c * misfit + 0.5 * self.norm.value(F) ** 2

    def dual(self, quadratic: QuadraticStep) -> float:
        """Best lower bound from a multiple of the residuals."""
        # Fenchel dual: ⟨t, a⟩ − ‖a‖²/(2c) − ½ Ω°(Rᵀa)², at the best multiple of the
        # residuals a = c (t − R f). It has a closed form, as all terms are quadratic.
        Z = np.zeros(quadratic.coef.shape)
        linear = square = 0.0
        for group, residual in zip(self.groups, quadratic.residuals, strict=True):
            group.add_adjoint(Z, self.c * residual)
            linear += self.c * float(np.vdot(group.target, residual))
            square += self.c * _square(residual)
        if linear <= 0:
            return 0.0
        return 0.5 * linear * (linear / (square + self.norm.dual_norm(Z) ** 2))


def minimise(
    problem: SplitProblem, start: ADMMState, tol: float, most_steps: int
) -> ADMMResult:
    """Iterate until the gap is at most ``tol`` times the objective."""
    state, best = start, ADMMResult(start, np.inf, 0.0, 0)
    for n_iter in range(1, most_steps + 1):
        quadratic = problem.minimise_quadratic(state)
        check = n_iter % CHECK_EVERY == 1 or n_iter == most_steps
        if check:
            primal, dual = problem.primal(state.coef), problem.dual(quadratic)
            best = best.join(ADMMResult(state, primal, dual, n_iter))
            if best.gap <= tol * best.primal:
                break
        moved = problem.step(state, quadratic)
        if check and n_iter <= LAST_BALANCED:
            factor = _balance(state, moved, quadratic.coef)
            moved = moved.with_rho(factor * moved.rho)
        state = moved
    return best._replace(n_iter=n_iter)


def _balance(old: ADMMState, new: ADMMState, quadratic: Array) -> float:
    """Factor for rho that equalises the relative primal and dual residuals."""
    # Residual balancing with relative residuals (Wohlberg 2017).
    size = max(_size(quadratic), _size(new.coef))
    primal = _size(quadratic - new.coef) / size if size > 0 else 0.0
    size = _size(new.dual)
    dual = _size(new.coef - old.coef) / size if size > 0 else 0.0
    if not 0 < min(primal, dual) <= max(primal, dual) < np.inf:
        return 1.0
    factor = float(np.sqrt(primal / dual))
    return factor if max(factor, 1.0 / factor) > LEAST_CHANGE else 1.0


def _square(values: Array) -> float:
    return float(np.vdot(values, values))


def _size(values: Array) -> float:
    return float(np.sqrt(_square(values)))
