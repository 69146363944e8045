"""Evidence: restricted likelihood of ties, with its slope and average information.

Rows of P, and tied intercepts before them, are Gaussian with precision L / τ_j² and
nothing known of what L does not see; the noise has variance σ². With t_j = σ² / τ_j²,
A = blockdiag(gram) + Σ t_j (row j) ⊗ L and the least penalised sum of squares r,
twice the negative log-likelihood is f log σ² + r / σ² + log |A| − rank(L) Σ log t_j,
where f counts the observations beyond the coefficients that L does not see.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import Moments, pooled_variance
from priormtl.graphs import Laplacian
from priormtl.losses import (
    FreeIntercepts,
    Intercepts,
    LogisticEvaluation,
    LogisticFit,
    NormalForm,
    SquaredFit,
    TiedIntercepts,
)
from priormtl.problem.elimination import Elimination, Factor, TieGraph

__all__ = [
    "Evidence",
    "GraphModel",
    "ModeModel",
    "RowModel",
    "Ties",
    "estimate_logistic_ties",
    "estimate_ties",
]


SINGULAR = 1e-8  # eigenvalues below this, of a Gram matrix with diagonal 1, are zero
LEAST_MISFIT = 1e-13  # of the sum of squared targets: rounding


class TiedFit(Protocol):
    """Rows at the least penalised sum of squares, for given ties."""

    @property
    def log_determinant(self) -> float:
        """Of A."""

    @property
    def rows(self) -> Array:
        """Fitted rows Q (k, m), in any orthonormal basis of the tasks."""

    @property
    def pulls(self) -> Array:
        """Q L (k, m), in that basis."""

    @property
    def coef(self) -> Array:
        """Q in tasks (k, m)."""

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""


class RowModel(Protocol):
    """Squares of a problem, open for ties."""

    @property
    def rank(self) -> int:
        """Rank of L, as the determinant of A sees it."""

    @property
    def n_free(self) -> int:
        """Coefficients that no tie holds."""

    def fit(self, tie: Array) -> TiedFit:
        """Best rows under these ties; LinAlgError where A is singular."""


@dataclass(frozen=True, eq=False)
class GraphModel:
    """Tasks with Gram matrices of their own."""

    laplacian: Laplacian
    order: Elimination
    gram: Array  # (nodes, k, k): zero for means of groups, with a gauge at the roots
    linear: Array  # (k, m)
    n_free: int

    @classmethod
    def of(cls, form: NormalForm, laplacian: Laplacian, order: Elimination) -> Self:
        """Rows as in the normal form."""
        k, m = form.linear.shape
        parts = order.graph.parts
        gram = np.zeros((order.graph.n_nodes, k, k))
        gram[:m] = form.gram
        pooled = np.zeros((len(order.roots), k, k))
        np.add.at(pooled, parts[:m], gram[:m])
        gauges = [_gauge(block) for block in pooled]
        gram[order.roots] += gauges
        held = round(sum(float(np.trace(gauge)) for gauge in gauges))
        return cls(laplacian, order, gram, form.linear, k * len(gauges) - held)

    @property
    def rank(self) -> int:
        """Rank over all nodes: means of groups are unknowns of A too."""
        return self.order.graph.rank

    def fit(self, tie: Array) -> "GraphFit":
        """Best rows, by elimination of tasks."""
        return GraphFit(self, self.order.factorise(self.gram, tie))


@dataclass(frozen=True, eq=False)
class GraphFit:
    """Best rows of tasks with Gram matrices of their own."""

    model: GraphModel
    factor: Factor

    @property
    def log_determinant(self) -> float:
        """Of A."""
        return self.factor.log_determinant

    @cached_property
    def rows(self) -> Array:
        """Fitted rows (k, m)."""
        return self._solve(self.model.linear.T[:, :, np.newaxis])[:, :, 0].T

    @cached_property
    def pulls(self) -> Array:
        """Q L (k, m)."""
        return self.model.laplacian.times(self.rows)

    @property
    def coef(self) -> Array:
        """The rows themselves."""
        return self.rows

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""
        return float(np.vdot(self.model.linear, self.rows))

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""
        return self.factor.spreads()

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""
        apart = pulls.T[:, :, np.newaxis] * np.eye(len(pulls))
        return np.einsum("ji,ijl->jl", pulls, self._solve(apart))

    def _solve(self, rhs: Array) -> Array:
        """A⁻¹ times one (k, r) block per task."""
        m, k, r = rhs.shape
        padded = np.zeros((len(self.model.gram), k, r))
        padded[:m] = rhs
        return self.factor.solve(padded)[:m]


@dataclass(frozen=True, eq=False)
class ModeModel:
    """Tasks with one Gram matrix, seen in the eigenvectors of L: each is alone."""

    gram: Array  # (k, k)
    linear: Array  # (k, m), per eigenvector
    values: Array  # (m,) eigenvalues of L
    vectors: Array  # (m, m)
    gauge: Array  # (k, k)

    @classmethod
    def of(cls, form: NormalForm, values: Array, vectors: Array) -> Self:
        """Rows as in the normal form, tasks turned into modes."""
        gram = form.gram[0]
        floor = 1e-10 * float(values.max())
        values = np.where(values > floor, values, 0.0)
        return cls(gram, form.linear @ vectors, values, vectors, _gauge(gram))

    @property
    def rank(self) -> int:
        """Rank of L."""
        return int(np.count_nonzero(self.values))

    @property
    def n_free(self) -> int:
        """Those of the modes that L does not see."""
        held = round(float(np.trace(self.gauge)))
        return (len(self.values) - self.rank) * (len(self.gram) - held)

    def fit(self, tie: Array) -> "ModeFit":
        """Best rows, mode by mode; equal eigenvalues share an inverse."""
        levels, level = np.unique(self.values, return_inverse=True)
        blocks = self.gram + levels[:, np.newaxis, np.newaxis] * np.diag(tie)
        blocks[levels == 0] += self.gauge
        diagonals = np.diagonal(np.linalg.cholesky(blocks), axis1=1, axis2=2)
        logs = 2.0 * np.log(diagonals).sum(axis=1)
        inverses = np.asarray(np.linalg.inv(blocks), dtype=np.float64)
        return ModeFit(self, inverses, level, float(logs[level].sum()))


@dataclass(frozen=True, eq=False)
class ModeFit:
    """Best rows of tasks with one Gram matrix."""

    model: ModeModel
    inverses: Array  # (u, k, k), one per distinct eigenvalue
    level: Index  # (m,) which of them a mode has
    log_determinant: float

    @cached_property
    def rows(self) -> Array:
        """Fitted rows (k, m), per eigenvector."""
        rows = np.empty_like(self.model.linear)
        for number, inverse in enumerate(self.inverses):
            here = self.level == number
            rows[:, here] = inverse @ self.model.linear[:, here]
        return rows

    @cached_property
    def pulls(self) -> Array:
        """Q L (k, m), per eigenvector."""
        return self.rows * self.model.values

    @property
    def coef(self) -> Array:
        """Rows turned back into tasks."""
        return self.rows @ self.model.vectors.T

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""
        return float(np.vdot(self.model.linear, self.rows))

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""
        diagonals = np.diagonal(self.inverses, axis1=1, axis2=2)
        return self.model.values @ diagonals[self.level]

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""
        total = np.zeros_like(self.model.gram)
        for number, inverse in enumerate(self.inverses):
            here = pulls[:, self.level == number]
            total += inverse * (here @ here.T)
        return total


@dataclass(frozen=True, eq=False)
class Evidence:
    """Restricted likelihood at one set of ties; the noise is known or at its best."""

    model: RowModel
    squares: float  # of the targets
    freedom: float  # observations beyond free coefficients
    known_noise: float | None
    tie: Array  # (k,)

    def at(self, tie: Array) -> Self:
        """Same data, other ties."""
        return replace(self, tie=tie)

    @cached_property
    def fit(self) -> TiedFit:
        """Best rows."""
        return self.model.fit(self.tie)

    @cached_property
    def misfit(self) -> float:
        """Least penalised sum of squares."""
        return max(self.squares - self.fit.fitted, LEAST_MISFIT * self.squares)

    @property
    def noise_variance(self) -> float:
        """σ²."""
        return (
            self.misfit / self.freedom if self.known_noise is None else self.known_noise
        )

    @cached_property
    def value(self) -> float:
        """Twice the negative log-likelihood, but for a constant."""
        known = self.known_noise is not None
        data = self.misfit / self.noise_variance
        if not known:
            data = self.freedom * np.log(self.misfit)
        ties = self.model.rank * float(np.log(self.tie).sum())
        return float(data + self.fit.log_determinant - ties)

    @cached_property
    def strain(self) -> Array:
        """t_j q^j L q^jᵀ / σ² (k,)."""
        squares = np.sum(self.fit.rows * self.fit.pulls, axis=1)
        return self.tie * squares / self.noise_variance

    @cached_property
    def used(self) -> Array:
        """Degrees of freedom that each row takes, beyond what is free (k,)."""
        return self.model.rank - self.tie * self.fit.spreads()

    @property
    def slope(self) -> Array:
        """Derivative of the value in log t (k,); zero where strain equals use."""
        return self.strain - self.used

    @cached_property
    def information(self) -> Array:
        """Average information about log t, σ² at its best (k, k)."""
        pulls = self.tie[:, np.newaxis] * self.fit.pulls
        responses = self.fit.responses(pulls) / self.noise_variance
        information = np.diag(self.strain) - responses
        if self.known_noise is None:
            information -= np.outer(self.strain, self.strain) / self.freedom
        return information


def _gauge(gram: Array) -> Array:
    """Projector on what a Gram matrix does not see."""
    values, vectors = np.linalg.eigh(gram)
    blind = vectors[:, values <= SINGULAR * float(np.diag(gram).max())]
    return np.asarray(blind @ blind.T)


# Ties estimated from the data: how much each coefficient varies between tasks.

LOOSEST, TIGHTEST = 1e-8, 1e5  # ties in units of a task's curvature
LONGEST_STEP = 4.0  # in log t
SETTLED = 1e-8  # promised gain in twice the log-likelihood
NOISE = 1e-6  # gain that rounding may hide
TINY = 1e-12
MOST_STEPS = 60
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-6
MOST_NUMBERS = 2**26  # in one stack of blocks: 512 MB
MOST_BLOCK_STEPS = 10**6
NO_MISFIT = 1e-12  # of the squared targets: rounding
CONSTANT = 1e-12  # spread of a constant column, in units of its mean
ROUNDS = 10  # of quadratic models of a loss
LARGEST_SCORE = 30.0  # at which a loss is modelled, about the mean
SAME_TIES = 0.01  # largest change of log t between rounds that count as settled

Plan = Elimination | tuple[Array, Array]  # how tasks come apart: in an order, as modes


@dataclass(frozen=True, eq=False)
class Ties:
    """Weights t_j = σ² / τ_j² of ties, with the noise variance σ².

    τ_j² is the variance of coefficient j between tasks, in the metric of L.
    """

    weights: Array  # (d,)
    intercept: float | None  # None unless intercepts are tied
    noise_variance: float | None  # None where nothing could be estimated
    rows: Array  # fitted coefficients (d, m), after intercepts (1, m) where tied


def estimate_ties(
    moments: Moments,
    laplacian: Laplacian,
    intercepts: Intercepts,
    *,
    noise_variance: float | None = None,
) -> Ties:
    """Maximise the restricted likelihood (REML) of the ties, on statistics alone.

    A weight of 100,000 times the mean curvature of a task, over the mean degree of L,
    stands for "does not vary between tasks". Features that are constant or zero
    throughout get 1, and so does everything where the data cannot tell: no two tasks
    tied, targets all zero or fitted exactly by one model for all tasks, or (with a
    warning) no more rows than coefficients to be known without ties. Weights of rows
    count as repetitions.

    Parameters
    ----------
    moments : Moments
        Data, however they are kept.
    laplacian : Laplacian
        L over the tasks.
    intercepts : Intercepts
        Their kind; if tied, their tie is estimated too, whatever strength is given.
    noise_variance : float, optional
        σ² where it is known; else it is estimated.

    Returns
    -------
    Ties
        Deterministic: same data, same bits.
    """
    tied = isinstance(intercepts, TiedIntercepts)
    kind = TiedIntercepts(laplacian, 1.0) if tied else intercepts
    question = _pose(SquaredFit(moments, kind), laplacian, noise_variance)
    if question is None:
        return _unknown(moments.shape, tied)
    best = _maximise(question.evidence, *question.bounds)
    return _answer(question, best, moments.shape)


def estimate_logistic_ties(fit: LogisticFit, laplacian: Laplacian) -> Ties:
    """Ties under logistic loss: those of its quadratic models, a few times over.

    This is penalised quasi-likelihood: samples have the weights and targets of
    iterative reweighting, and noise of variance 1.
    """
    ties = _unknown(fit.shape, isinstance(fit.intercepts, TiedIntercepts))
    for _ in range(ROUNDS):
        last, ties = ties, _quadratic_ties(fit, ties, laplacian)
        if _largest_change(last, ties) <= SAME_TIES:
            break
    return ties


def _quadratic_ties(fit: LogisticFit, ties: Ties, laplacian: Laplacian) -> Ties:
    """Ties of the quadratic model where other ties have led."""
    if ties.intercept is not None:
        fit = replace(fit, intercepts=TiedIntercepts(laplacian, ties.intercept))
    moments = fit.quadratic_model(_evaluate(fit, ties.rows)).moments
    return estimate_ties(moments, laplacian, fit.intercepts, noise_variance=1.0)


def _evaluate(fit: LogisticFit, rows: Array) -> LogisticEvaluation:
    """Look at fitted rows, made smaller where a sample is decided beyond doubt.

    Where classes can be separated, coefficients without penalty have no end.
    """
    extra = len(rows) - fit.shape[0]
    scores = fit.data.forward(rows[extra:])
    centre = 0.0 if fit.intercepts.are_fixed else scores.mean()
    largest = float(np.abs(scores - centre).max())
    share = min(1.0, LARGEST_SCORE / largest) if largest > 0 else 1.0
    near = fit.evaluate(np.zeros(fit.shape))
    if extra:
        near = replace(near, b=share * rows[0])
    return fit.evaluate(share * rows[extra:], near)


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be maximised, in units in which curvatures and targets are 1."""

    evidence: Evidence  # at the start
    rows: Index  # rows of the normal form whose ties can be estimated
    scale: Array  # of these rows
    height: float  # of the targets
    unit: float  # tie that is as strong as a task's data
    tied: bool  # whether the first row is that of the intercepts

    @property
    def bounds(self) -> tuple[float, float]:
        """Of log t."""
        unit = float(np.log(self.unit))
        return unit + float(np.log(LOOSEST)), unit + float(np.log(TIGHTEST))


def _pose(
    fit: SquaredFit, laplacian: Laplacian, noise_variance: float | None
) -> Question | None:
    """Question that the data can answer, if any."""
    graph = TieGraph.of(laplacian)
    squares = 2.0 * fit.magnitude
    if len(graph.weight) == 0 or not squares > 0:
        return None
    plan = _plan(fit, laplacian, graph)
    form = fit.normal_form()
    rows = _estimable_rows(form, fit.moments)
    if len(rows) == 0:
        return None
    height = float(np.sqrt(squares))
    scale = np.sqrt(_mean_curvature(form)[rows])
    model = _model(_rescale(form, rows, scale, height), laplacian, plan)
    freedom = _observations(fit) - model.n_free
    if noise_variance is None and freedom <= 0:
        _warn_of_few_rows(_observations(fit), model.n_free)
        return None
    noise = None if noise_variance is None else noise_variance / squares
    unit = 1.0 / _mean_degree(laplacian)
    start = Evidence(model, 1.0, freedom, noise, np.full(len(rows), unit))
    if start.misfit <= NO_MISFIT:
        return None
    return Question(start, rows, scale, height, unit, len(form.intercept_ties) > 0)


def _plan(fit: SquaredFit, laplacian: Laplacian, graph: TieGraph) -> Plan:
    """Modes of L where tasks share a Gram matrix, else an order of elimination."""
    d, m = fit.shape
    modes = laplacian.modes if fit.normal_size < m * d**2 else None
    plan = modes or Elimination.plan(graph, MOST_BLOCK_STEPS)
    if plan is None or _n_blocks(plan) * (d + 1) ** 2 > MOST_NUMBERS:
        raise ValueError(
            'ties="adaptive" must factorise blocks of features × features for '
            f"each task and tie, which is too much for {d} features and "
            f"{len(graph.weight)} ties between {m} tasks; give the weights, choose "
            "features first, or tie tasks to their mean or in a chain."
        )
    return plan


def _n_blocks(plan: Plan) -> int:
    """Blocks of features × features that a factorisation holds."""
    if isinstance(plan, Elimination):
        return plan.n_blocks
    return len(np.unique(plan[0]))


def _estimable_rows(form: NormalForm, moments: Moments) -> Index:
    """Rows with curvature, without constant columns beside intercepts."""
    alive = _mean_curvature(form) > 0
    extra = len(form.intercept_ties)
    if extra:
        level = CONSTANT * np.abs(moments.x_mean).max(axis=0)
        alive[extra:] &= pooled_variance(moments) > level**2
    return np.flatnonzero(alive)


def _mean_curvature(form: NormalForm) -> Array:
    return np.diagonal(form.gram, axis1=1, axis2=2).mean(axis=0)


def _rescale(form: NormalForm, rows: Index, scale: Array, height: float) -> NormalForm:
    """Only these rows, divided by their scale, and targets by theirs."""
    gram = form.gram[:, rows[:, np.newaxis], rows] / scale / scale[:, np.newaxis]
    linear = form.linear[rows] / (height * scale[:, np.newaxis])
    return NormalForm(gram, linear, form.intercept_ties)


def _model(form: NormalForm, laplacian: Laplacian, plan: Plan) -> RowModel:
    if isinstance(plan, Elimination):
        return GraphModel.of(form, laplacian, plan)
    return ModeModel.of(form, *plan)


def _mean_degree(laplacian: Laplacian) -> float:
    """Mean of the diagonal of L."""
    groups = laplacian.groups
    trace = laplacian.edges.diagonal().sum() - (groups.data**2).sum()
    return float(trace) / laplacian.m


def _observations(fit: SquaredFit) -> float:
    """Weight of all rows, less one for each free intercept."""
    free = isinstance(fit.intercepts, FreeIntercepts)
    return float(fit.moments.weight.sum()) - (fit.shape[1] if free else 0)


def _maximise(evidence: Evidence, low: float, high: float) -> Evidence:
    """Newton's method on log t with the average information, damped, in a box."""
    damping = FIRST_DAMPING
    for _ in range(MOST_STEPS):
        step = _step(evidence, damping, low, high)
        promise = -float(evidence.slope @ step)
        trial = evidence.at(np.exp(np.log(evidence.tie) + step))
        better = promise > SETTLED and _value(trial) < evidence.value
        if not better and promise <= NOISE:
            break
        evidence = trial if better else evidence
        damping = max(damping * (0.1 if better else 10.0), LEAST_DAMPING)
    return evidence


def _step(evidence: Evidence, damping: float, low: float, high: float) -> Array:
    """Damped step that stays in the box; rows pressed against it do not move."""
    place, slope = np.log(evidence.tie), evidence.slope
    pressed = np.where(slope > 0, place <= low, place >= high)
    free = np.flatnonzero(~pressed)
    weight = np.maximum(evidence.used, 0.0) + np.abs(slope) + TINY
    matrix = evidence.information + damping * np.diag(weight)
    step = np.zeros_like(slope)
    step[free] = np.linalg.lstsq(matrix[np.ix_(free, free)], -slope[free], None)[0]
    step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    return np.clip(place + step, low, high) - place


def _value(evidence: Evidence) -> float:
    """Value, or infinity where rounding leaves nothing to factorise."""
    try:
        return evidence.value
    except np.linalg.LinAlgError:
        return np.inf


def _answer(question: Question, best: Evidence, shape: tuple[int, int]) -> Ties:
    """Estimates in the units of the data."""
    extra = int(question.tied)
    d, m = shape
    weights, rows = np.ones(extra + d), np.zeros((extra + d, m))
    weights[question.rows] = best.tie * question.scale**2
    rows[question.rows] = question.height / question.scale[:, None] * best.fit.coef
    intercept = float(weights[0]) if question.tied else None
    noise = best.noise_variance * question.height**2
    return Ties(weights[extra:], intercept, noise, rows)


def _unknown(shape: tuple[int, int], tied: bool) -> Ties:
    d, m = shape
    return Ties(np.ones(d), 1.0 if tied else None, None, np.zeros((d + tied, m)))


def _largest_change(a: Ties, b: Ties) -> float:
    """Largest change of log t, ties of intercepts included."""
    change = np.abs(np.log(a.weights / b.weights)).max(initial=0.0)
    if a.intercept is None or b.intercept is None:
        return float(change)
    return max(float(change), abs(float(np.log(a.intercept / b.intercept))))


def _warn_of_few_rows(observations: float, n_free: int) -> None:
    warnings.warn(
        f'ties="adaptive" needs more rows than the {n_free} coefficients that '
        f"all tasks have in common: got {observations:g}; all ties have weight 1.",
        UserWarning,
        stacklevel=2,
    )
