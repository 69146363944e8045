"""Ties estimated from the data: how much each coefficient varies between tasks."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from priormtl._arrays import Array, Index
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
from priormtl.problem.elimination import Elimination, TieGraph
from priormtl.selection.evidence import Evidence, GraphModel, ModeModel, RowModel

__all__ = ["Ties", "estimate_logistic_ties", "estimate_ties"]

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
            'tie_weights="adaptive" must factorise blocks of features × features for '
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
        f'tie_weights="adaptive" needs more rows than the {n_free} coefficients that '
        f"all tasks have in common: got {observations:g}; all ties have weight 1.",
        UserWarning,
        stacklevel=2,
    )
