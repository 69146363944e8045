"""Fits of any number of tasks that are tied to their mean, from sums over tasks.

With ties to the mean q of all tasks, and the penalty lam Σ w_j ‖p^j‖ written as the
least value over η_j ≥ 0 of ½ Σ lam w_j (‖p^j‖² / η_j + η_j), tasks are independent
given (q, η):

    G(q, η) = ½ Σ lam w_j η_j
        + Σ_i min_u [ f_i(u) + ½ Σ s_j (u_j − q_j)² + ½ Σ ρ_j u_j² ]

with ρ_j = lam w_j / η_j, s the strengths of the ties (infinite for common effects) and
u the coefficients of a task, after its intercept where that is tied. G is convex. Its
value, gradient and Hessian are sums over tasks of at most k × k numbers: blocks of
tasks compute them where their rows are (`task_steps`), and Newton's method in the 2 k
numbers (q, η) runs in one place, one pass over the tasks a step. With A_i⁻¹ =
Θ − Θ G_i Θ, and c, κ, Θ and G_i of `task_steps`,

    ∂²G/∂q² = Σ_i C G_i C + κ,    ∂²G/∂q∂η_k = − lam w_k / η_k² Σ_i s A_i⁻¹ e_k u_ik,
    ∂²G/∂η² = diag(μ_j ‖p^j‖² / η_j) − Σ_i (μ u_i)(μ u_i)ᵀ ∘ A_i⁻¹,  μ = lam w / η².
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._numerics import CONSTANT, TINY
from priormtl.checks import check_row_weights, check_ties, is_word
from priormtl.data import Tasks
from priormtl.losses import Family
from priormtl.model import Deviations, Model
from priormtl.priors.tasks import Groups
from priormtl.reml import (
    SAMPLED_TASKS,
    TIGHTEST,
    Estimate,
    SumModel,
    Survey,
    estimate_on_sums,
    sample,
    survey,
)
from priormtl.task_steps import (
    MOST_STEPS,
    DualPoint,
    Precision,
    Readout,
    Shared,
    Totals,
    add_bends,
    add_constants,
    add_gap,
    add_products_of_rows,
    add_totals,
    centre_tasks,
    working_block,
)


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns in use and their units: intercept where tied, then features."""

    used: Index  # (k,) columns of [1, x]
    centre: Array  # (d,) that is subtracted from features
    scale: Array  # (k,) then divided by
    level: Array  # (d + 1,) intercept and slopes that are taken off the targets
    height: float = 1.0  # of the targets

    @classmethod
    def of(cls, model: Model, found: Survey, mean: Array) -> Self:
        """Features that data see, standardised if the model says so."""
        d, tied = len(mean) - 1, model.fit_intercept == "tied"
        deviation = np.sqrt(found.products.diagonal()[1 : d + 1] / found.weight)
        moves = deviation > CONSTANT * np.abs(mean[:d])
        scale = np.where(moves & model.standardize, deviation, 1.0)
        centre = np.where(model.standardize and tied, mean[:d], 0.0)
        seen = np.ones(d, dtype=bool)
        if model.fit_intercept is not False:
            seen = moves if tied else moves & ~found.is_still(mean)
        seen[list(model.left_out)] = False
        used = np.flatnonzero(np.concatenate([[tied], seen]))
        scales = np.concatenate([[1.0], scale])[used]
        return cls(used, centre, scales, np.zeros(d + 1))

    def turn(self) -> Array:
        """Matrix (d + 2, k + 1) that changes rows [1, x, y]."""
        d, k = len(self.centre), len(self.used)
        turn = np.zeros((d + 2, k + 1))
        turn[self.used, np.arange(k)] = 1.0 / self.scale
        slopes = self.used > 0
        turn[0, :k][slopes] = -self.centre[self.used[slopes] - 1] / self.scale[slopes]
        turn[:-1, k] = -self.level / self.height
        turn[-1, k] = 1.0 / self.height
        return turn

    def back(self) -> Array:
        """Matrix (k, d + 1) from coefficients in use to intercept and slopes."""
        d, k = len(self.centre), len(self.used)
        back = np.zeros((k, d + 1))
        back[np.arange(k), self.used] = self.height / self.scale
        slopes = np.flatnonzero(self.used > 0)
        shift = self.centre[self.used[slopes] - 1] / self.scale[slopes]
        back[slopes, 0] = -self.height * shift
        return back

    def scales(self) -> Array:
        """What features were divided by (d,); 1 for those that are not in use."""
        scale = np.ones(1 + len(self.centre))
        scale[self.used] = self.scale
        return scale[1:]


@dataclass(frozen=True, eq=False)
class PartitionedFit:
    """What tasks share, how they deviate from it, and how near the optimum that is."""

    model: Model
    readout: Readout
    shared_coef: Array  # (d,) mean of all tasks, in the units of X
    shared_intercept: float
    ties: "TieStrengths"
    columns: Columns
    objective: float
    gap: float
    unit: float  # what tolerances are relative to
    n_iter: int  # Newton steps
    survey: Survey
    mean: Array  # (d + 1,) of x and y

    @property
    def scale(self) -> Array:
        """What features were divided by (d,)."""
        return self.columns.scales()


def refusal(model: Model) -> str | None:
    """Why a model cannot be fitted from sums over tasks; None if it can."""
    family, tie = model.family, _tie_to_mean(model)
    if model.task_prior is not None and model.task_prior.ties and tie is None:
        return 'task_prior must be "mean" or None: other ties need all tasks at once'
    if model.feature_prior is not None and model.feature_prior.parts:
        return "feature_prior must be None"
    if model.penalty != "l21":
        return f'penalty must be "l21": got {model.penalty!r}'
    if model.n_classes > 2:
        return f"there must be two classes: got {model.n_classes}"
    if family is not None and model.fit_intercept is True:
        return f'fit_intercept must be "tied" or False with loss={model.loss!r}'
    if family is not None and family.has_dispersion and model.dispersion is None:
        return "dispersion must be a number"
    if model.device is not None or model.crossed:
        return "device and crossed must be None"
    if model.lam == 0 and (tie is None or model.epsilon == 0):
        return "lam must be above zero without ties between tasks"
    return None


def _tie_to_mean(model: Model) -> Groups | None:
    """The tie of all tasks to their mean; None if there are others, or none."""
    ties = () if model.task_prior is None else model.task_prior.ties
    tie = ties[0] if len(ties) == 1 else None
    return tie if isinstance(tie, Groups) and tie.members is None else None


def fit_tasks(model: Model, tasks: Tasks, tol: float = 1e-6) -> PartitionedFit:
    """Fit a model to tasks where they are."""
    reason = refusal(model)
    if reason is not None:
        raise ValueError(f"{reason}, to fit tasks where they are.")
    found, mean = survey(tasks)
    if model.family is not None:
        model.family.check_mean(float(mean[-1]))
    free = model.fit_intercept is True
    if free:
        tasks = tasks.mapped(centre_tasks)
    columns = Columns.of(model, found, mean)
    ties = TieStrengths.of(model, tasks, found, mean, columns)
    d, used, m = len(mean) - 1, columns.used, found.n_tasks
    weights: Array | None = model.feature_weights
    if weights is not None:
        weights = check_row_weights("feature_weights", weights, d, zero=False)
    each = np.ones(d) if weights is None else weights
    penalty = model.lam * np.concatenate([[0.0], each])[used]
    newton = Newton(model, tasks, columns.turn(), ties.on(columns, model), penalty, m)
    null = 0.5 * float(found.within[d] if free else found.products[-1, -1])
    best, steps = newton.run(tol, null)
    objective = newton.objective(best)
    if model.family is not None:
        objective += float(tasks.add(partial(add_constants, model.family))[0])
    back, shared, totals = columns.back(), newton.shared(best.state), best.totals
    precision = None
    if model.family is None and model.lam == 0 and ties.deviations is not None:
        half = inverse_root(newton.hessian(best)[0])
        precision = Precision(half, totals.curvature / m, mean[:d])
    middle = totals.coef / m @ back
    if free:
        middle[0] = mean[d] - mean[:d] @ middle[1:]
    return PartitionedFit(
        model,
        Readout(shared, back, precision, free),
        middle[1:],
        float(middle[0]),
        ties,
        columns,
        objective,
        best.gap,
        null,
        steps,
        found,
        mean,
    )


# Strengths of ties, as the model says or by REML.


class TieStrengths(NamedTuple):
    """How strongly tasks are tied to their mean."""

    group: float  # weight of the tie of a task in the prior; zero: no ties
    weights: Array  # (d,) that multiply epsilon; infinite for common effects
    intercept: float  # of intercepts, if they are tied
    deviations: Deviations | None  # that REML estimates, in the units of X

    @classmethod
    def of(
        cls, model: Model, tasks: Tasks, found: Survey, mean: Array, columns: Columns
    ) -> Self:
        """As the model says, or estimated."""
        d, tie, given = len(mean) - 1, _tie_to_mean(model), model.intercept_strength
        group = 0.0 if tie is None else tie.weight
        tied, adapts = model.fit_intercept == "tied", given == "adaptive"
        adaptive = is_word(model.ties, "adaptive")
        weights = np.ones(d)
        if not isinstance(model.ties, str):
            weights = np.array(check_ties(model.ties, d), dtype=np.float64)
        weights[list(model.common)] = np.inf
        ties = cls(group, weights, 1.0 if adapts else float(given), None)
        if tie is None or not (adaptive or (adapts and tied)):
            return ties
        varies = np.ones(d + 1, dtype=bool)
        varies[1:] = adaptive & ~found.is_still(mean)
        varies[1 + np.array(model.common, dtype=np.intp)] = False
        if not tied:  # what no task has is no variance of intercepts
            found = found._replace(n_rows=found.n_rows - found.n_tasks)
        allowed = np.flatnonzero(varies[columns.used])
        units, estimate = _estimate(model, tasks, found, mean, columns, allowed)
        if estimate is None:
            return ties
        noise, variance = estimate.noise_variance * units.height**2, np.zeros(d + 1)
        variance[columns.used] = estimate.theta * noise / units.scale**2
        scale = np.concatenate([[1.0], columns.scales()])
        with np.errstate(divide="ignore"):
            precision = noise / (group * variance * scale**2)
        if tied:
            # Even if intercepts do not vary, their tie is a number in model files.
            most = TIGHTEST * found.weight / found.n_tasks
            intercept = ties.intercept * min(float(precision[0]), most)
            ties = ties._replace(intercept=intercept)
        if not adaptive:
            return ties
        size = np.sqrt(variance)
        is_squared = model.family is None
        deviations = Deviations(
            size[1:],
            float(size[0]) if tied else None,
            float(np.sqrt(noise)) if is_squared else None,
        )
        return ties._replace(weights=precision[1:], deviations=deviations)

    def on(self, columns: Columns, model: Model) -> Array:
        """s (k,) of the columns in use."""
        every = np.concatenate([[self.intercept], model.epsilon * self.weights])
        return (
            np.asarray(self.group * every[columns.used])
            if self.group
            else (np.zeros(len(columns.used)))
        )


def _estimate(
    model: Model,
    tasks: Tasks,
    found: Survey,
    mean: Array,
    columns: Columns,
    allowed: Index,
) -> tuple[Columns, Estimate | None]:
    """REML, and the units in which the curvature of a mean task, and targets, are 1."""
    about = np.eye(len(mean) + 1)
    about[0, 1:] = mean
    raw = about.T @ found.products @ about  # products of rows about zero
    if model.fit_intercept is True:
        (raw,) = tasks.add(add_products_of_rows)
    turn = columns.turn()
    gram = turn.T @ raw @ turn
    unit = np.sqrt(np.maximum(gram.diagonal()[:-1] / found.n_tasks, TINY))
    columns = replace(columns, scale=columns.scale * unit)
    if model.family is not None:
        found_by = _estimate_family(model, tasks, found, columns.turn(), allowed)
        return columns, found_by
    # Targets less the fit of one model to all rows, so that their squares are small.
    values, vectors = np.linalg.eigh(gram[:-1, :-1] / np.outer(unit, unit))
    kept = vectors[:, values > 1e-8 * found.n_tasks]
    scores = kept.T @ (gram[:-1, -1] / unit)
    pooled = kept @ (scores / values[values > 1e-8 * found.n_tasks])
    columns = replace(columns, level=pooled @ columns.back())
    turn = columns.turn()
    left = float((turn.T @ raw @ turn)[-1, -1])
    if not left > 1e-14 * gram[-1, -1]:
        return columns, None  # one model fits all rows exactly
    columns = replace(columns, height=float(np.sqrt(left)))
    turn = columns.turn()
    sums = SumModel.of(tasks, turn, turn.T @ raw @ turn)
    return columns, estimate_on_sums(sums, found, allowed)


def _estimate_family(
    model: Model, tasks: Tasks, found: Survey, turn: Array, allowed: Index
) -> Estimate | None:
    """Penalised quasi-likelihood: REML of quadratic models, on a sample, then on all.

    Working rows stay where the rows are.
    """
    k, family, estimate = turn.shape[1] - 1, model.family, None
    assert family is not None
    # Weights are relative: rows of mean weight have the variance of the family.
    noise = found.weight / found.n_rows if family.noise_is_known else None
    theta, q = np.zeros(k), np.zeros(k)
    theta[allowed] = 1.0
    stages: list[tuple[Tasks, Survey]] = [(tasks, found)]
    if found.n_tasks > 2 * SAMPLED_TASKS:
        some = sample(tasks, found.n_tasks)
        stages.insert(0, (some, survey(some)[0]))
    settled = 1e-3  # relative change of variances in a last round
    for number, (here, part) in enumerate(stages):
        # Where a sample gives the start, one round over all tasks is left.
        for _ in range(1 if number else 20):
            before = theta
            q = _fit_mean(family, here, turn, theta, q)
            shared = Shared(turn, theta, q, family)
            working = here.mapped(partial(working_block, shared))
            (products,) = working.add(add_products_of_rows)
            sums = SumModel.of(working, np.eye(k + 1), products)
            estimate = estimate_on_sums(
                sums, part, allowed, noise_variance=noise, start=theta
            )
            if estimate is None:
                return None
            theta, q = estimate.theta, estimate.fit.fixed
            if np.all(np.abs(theta - before) <= settled * (theta + before) + TINY):
                break
    return estimate


def _fit_mean(
    family: Family, tasks: Tasks, turn: Array, theta: Array, q: Array
) -> Array:
    """Mean of all tasks for given variances, near enough for a quadratic model."""
    value, step, share = np.inf, np.zeros_like(q), 1.0
    for _ in range(MOST_STEPS):
        trial = q + share * step
        shared = Shared(turn, theta, trial, family)
        totals = Totals(*tasks.add(partial(add_totals, shared)))
        if not totals.value <= value and share > 1e-6:
            share *= 0.3
            continue
        q, value, share = trial, float(totals.value), 1.0
        solution = np.linalg.lstsq(totals.curvature, totals.pulls, rcond=1e-12)
        step = np.asarray(solution[0], dtype=np.float64)
        if 0.5 * float(totals.pulls @ step) <= 1e-6 * value:
            break
    return q


# Newton's method in what tasks share.


def inverse_root(H: Array) -> Array:
    """R with Rᵀ R = H⁻¹, without the directions that no data see.

    Of what such directions leave open, the smallest coefficients are taken.
    """
    size = np.sqrt(np.maximum(H.diagonal(), TINY))
    values, vectors = np.linalg.eigh(H / np.outer(size, size))
    blind = 1e-12  # eigenvalues that rounding leaves, of the largest
    kept = values > blind * float(values.max(initial=0.0))
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T / size)


class State(NamedTuple):
    """Where Newton's method is."""

    q: Array  # (k,)
    eta: Array  # (k,) sizes of rows of coefficients; zero: the row is zero


class Reached(NamedTuple):
    """Sums over tasks at a state, and what they say."""

    state: State
    totals: Totals
    value: float  # G
    gap: float = np.inf


@dataclass(frozen=True, eq=False)
class Newton:
    """Newton's method in (q, η), with rows of η that enter and leave."""

    model: Model
    tasks: Tasks
    turn: Array
    strength: Array  # (k,) s
    penalty: Array  # (k,) lam w; zero for intercepts
    m: float

    def run(self, tol: float, null: float) -> tuple[Reached, int]:
        """Where the objective is least as far as is known, and the number of steps."""
        start = np.zeros(len(self.strength))
        here = self._at(State(start, np.where(self.penalty > 0, 0.0, 1.0)))
        # Far below tol: a step more costs a pass, and results that come from other
        # divisions of the tasks shall be the same.
        tight = min(tol, 1e-10 if self.model.family is None else 1e-14) * null
        best, stalled, steps = here, 0, 0
        while steps < MOST_STEPS:
            gap = self._near(here)
            stalled = 0 if gap < 0.5 * best.gap else stalled + 1
            if gap <= best.gap:
                best = here._replace(gap=gap)
            if best.gap <= tight or stalled >= (3 if best.gap <= tol * null else 20):
                break
            direction, entered = self._direction(here)
            steps += 1
            for share in 0.3 ** np.arange(20):
                trial = self._at(self._moved(here.state, share * direction, entered))
                if trial.value <= here.value * (1.0 + 1e-12):
                    break
            else:
                break
            here = trial
        return best._replace(gap=self._gap(best)), steps

    def ridge(self, eta: Array) -> Array:
        """ρ (k,); infinite for rows that are zero."""
        with np.errstate(divide="ignore"):
            return np.where(self.penalty > 0, self.penalty / eta, 0.0)

    def _shares(self, eta: Array) -> tuple[Array, Array, Array]:
        """Θ, c and κ (k,); zero for rows that are zero."""
        s, rho = self.strength, self.ridge(eta)
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = np.where(s + rho > 0, 1.0 / (s + rho), np.inf)
            c = np.where(np.isinf(s), 1.0, s * theta)
            kappa = np.where(np.isinf(s), rho, s * rho * theta)
        out = np.isinf(rho)
        return tuple(np.where(out, 0.0, x) for x in (theta, c, kappa))  # type: ignore[return-value]

    def shared(self, state: State) -> Shared:
        """What blocks need to know."""
        theta, c, _ = self._shares(state.eta)
        family, second = self.model.family, bool(self.penalty.any())
        return Shared(self.turn, theta, c * state.q, family, second)

    def _at(self, state: State) -> Reached:
        totals = Totals(*self.tasks.add(partial(add_totals, self.shared(state))))
        kappa = self._shares(state.eta)[2]
        value = float(totals.value) + 0.5 * self.m * float(kappa @ state.q**2)
        return Reached(state, totals, value + 0.5 * float(state.eta @ self.penalty))

    def _smooth(self, here: Reached) -> float:
        """Loss and ties, without what η adds."""
        rho = np.where(self._is_out(here.state), 0.0, self.ridge(here.state.eta))
        added = float(here.state.eta @ self.penalty) + float(rho @ here.totals.norms)
        return here.value - 0.5 * added

    def _is_out(self, state: State) -> np.ndarray:
        return (self.penalty > 0) & (state.eta == 0)

    def objective(self, here: Reached) -> float:
        """Loss, ties and penalty."""
        return self._smooth(here) + float(np.sqrt(here.totals.norms) @ self.penalty)

    def hessian(self, here: Reached) -> tuple[Array, Array, Array]:
        """∂²G/∂q², ∂²G/∂q∂η and ∂²G/∂η² (k, k)."""
        (_, eta), totals = here.state, here.totals
        theta, c, kappa = self._shares(eta)
        rows = (self.penalty > 0) & (eta > 0)
        mu = np.divide(self.penalty, eta**2, where=rows, out=np.zeros(len(eta)))
        H_q = c[:, np.newaxis] * totals.curvature * c + self.m * np.diag(kappa)
        moved = np.diag(totals.coef) - (theta[:, np.newaxis] * totals.crossed).T
        own = np.diag(theta * totals.norms) - np.outer(theta, theta) * totals.bent
        bend = np.divide(mu * totals.norms, eta, where=rows, out=np.zeros(len(eta)))
        return (
            H_q,
            -c[:, np.newaxis] * moved * mu,
            np.diag(bend) - np.outer(mu, mu) * own,
        )

    def gradient(self, here: Reached) -> tuple[Array, Array]:
        """∂G/∂q and ∂G/∂η (k,); the former where tasks are at their best."""
        (_, eta), totals = here.state, here.totals
        out = self._is_out(here.state)
        rho = np.where(out, 0.0, self.ridge(eta))
        g_q = np.where(out, 0.0, rho * totals.coef - totals.pulls)
        rows = (self.penalty > 0) & ~out
        size = np.divide(totals.norms, eta**2, where=rows, out=np.ones(len(eta)))
        return g_q, 0.5 * self.penalty * (1.0 - size)

    def _lengths(self, totals: Totals) -> Array:
        """Lengths of rows of pulls (k,); of common effects, what all tasks share."""
        shared = np.abs(totals.pulls) / np.sqrt(self.m)
        return np.where(np.isinf(self.strength), shared, np.sqrt(totals.squares))

    def _direction(self, here: Reached) -> tuple[Array, Array]:
        """Newton direction (2 k,) in (q, η), and sizes (k,) of rows that enter.

        Those of common effects have a sign.
        """
        k, out = len(self.strength), self._is_out(here.state)
        length = self._lengths(here.totals)
        enters = out & (length > self.penalty * (1.0 + 1e-9))
        # A proximal step from zero has this size.
        bend = np.maximum(here.totals.curvature.diagonal() / self.m, TINY)
        sign = np.where(np.isinf(self.strength), np.sign(here.totals.pulls), 1.0)
        entered = np.where(enters, sign * (length - self.penalty) / bend, 0.0)
        H_q, H_cross, H_eta = self.hessian(here)
        H = np.block([[H_q, H_cross], [H_cross.T, H_eta]])
        gradient, direction = np.concatenate(self.gradient(here)), np.zeros(2 * k)
        free = np.concatenate([~out & (self.strength > 0), ~out & (self.penalty > 0)])
        q, eta = here.state
        # Common effects that would change their sign become zero instead; for others,
        # tasks follow.
        common = ~out & (self.penalty > 0) & np.isinf(self.strength)
        while True:
            inside = np.flatnonzero(free)
            half = inverse_root(H[np.ix_(inside, inside)])
            slope = gradient[inside] + H[inside][:, ~free] @ direction[~free]
            direction[inside] = -half.T @ (half @ slope)
            turns = common & free[k:] & (q * (q + direction[:k]) < 0)
            if not turns.any():
                return direction, entered
            direction[:k][turns], direction[k:][turns] = -q[turns], -eta[turns]
            free &= ~np.tile(turns, 2)

    def _moved(self, state: State, step: Array, entered: Array) -> State:
        """State after a step; sizes fall to a tenth at most, and then to zero."""
        k, rows = len(state.q), (self.penalty > 0) & (state.eta > 0)
        eta = np.maximum(state.eta + step[k:], 0.1 * state.eta)
        eta = np.where(rows, eta, np.where(entered != 0, np.abs(entered), state.eta))
        top = float(eta[self.penalty > 0].max(initial=0.0))
        eta = np.where(rows & (eta < 1e-9 * top) & (step[k:] < 0), 0.0, eta)
        q = np.where((self.penalty > 0) & (eta == 0), 0.0, state.q + step[:k])
        # Tasks have common effects q: their best size is known.
        common = (self.penalty > 0) & np.isinf(self.strength)
        q = np.where(common & (entered != 0), entered / np.sqrt(self.m), q)
        return State(q, np.where(common, np.sqrt(self.m) * np.abs(q), eta))

    def _near(self, here: Reached) -> float:
        """About how far the objective is above its least value, without a pass."""
        g_q, direction = self.gradient(here)[0], self._direction(here)[0]
        inside = (self.penalty > 0) & ~self._is_out(here.state)
        eta = here.state.eta[inside]
        off = np.sqrt(here.totals.norms[inside]) - eta
        near = float(self.penalty[inside] / eta @ off**2 - g_q @ direction[: len(g_q)])
        return 0.5 * near + (1.0 - self._scale(here)) * self.objective(here)

    def _scale(self, here: Reached) -> float:
        """Scale at which the dual point is feasible, about; at most 1."""
        # The gradient of task i is −ρ u_i, or minus its pulls in rows that are zero.
        out, totals = self._is_out(here.state), here.totals
        rho = np.where(out, 0.0, self.ridge(here.state.eta))
        length = np.where(out, self._lengths(totals), rho * np.sqrt(totals.norms))
        rows = (self.penalty > 0) & (length > 0)
        return float(np.min(self.penalty[rows] / length[rows], initial=1.0))

    def _gap(self, here: Reached) -> float:
        """Duality gap; see the head of this page."""
        state, totals, is_free = here.state, here.totals, self.penalty == 0
        if self.model.family is None and is_free.all():
            return self._near(here)  # of a quadratic, the gain of a Newton step
        step, shift = self.shared(state), np.zeros(len(is_free))
        if is_free.any():
            (bends,) = self.tasks.add(partial(add_bends, step))
            inside = np.ix_(is_free, is_free)
            half = inverse_root(bends[inside])
            shift[is_free] = half.T @ (half @ -totals.pulls[is_free])
        s = np.where(np.isinf(self.strength), 0.0, self.strength)
        t, mean = self._scale(here), totals.coef / self.m
        dual = DualPoint(shift, t, mean, state.q, s, is_free)
        total, squares, along, left = self.tasks.add(partial(add_gap, step, dual))
        # Common effects take from their ties what is left after the mean of z.
        common = np.isinf(self.strength) & ~is_free
        squares = np.where(common, left**2 / self.m, squares)
        along = np.where(common, -left * state.q, along)
        primal = self.objective(here)
        gap = float(total + np.sqrt(totals.norms) @ self.penalty - t * along.sum())
        gap += t * float(np.abs(left * state.q)[is_free].sum())
        # Dual values are concave: scaled further, they fall at most in proportion.
        length, rows = t * np.sqrt(squares), (self.penalty > 0) & (squares > 0)
        t = float(np.min(self.penalty[rows] / length[rows], initial=1.0))
        return max((1.0 - t) * primal + t * gap, 0.0)
