"""Model: what is fitted, as a value; Solver: how it is solved.

A model is described and checked once, before any data::

    ½ Σ w (x p_i + b_i − y)² + lam Σ_j w_j ‖p^j‖ + theta/2 ‖D P − C‖²
        + epsilon/2 tr(P L Pᵀ)

(or logistic loss, or the nuclear norm), where features may have a sign, or the same
coefficient in all tasks. ``pose`` turns it into a problem about data:
features are standardised, names in priors resolved, and ties between tasks estimated
where they are to be. Estimators, searches, paths, traces and audits all pose models and
hand the problems to a solver.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.checks import (
    check_choice,
    check_fit_intercept,
    check_positive,
    check_row_weights,
    check_strength,
    check_ties,
    is_word,
)
from priormtl.crossed import CrossedTerm, solve_by_turns
from priormtl.data import (
    Moments,
    SharedRows,
    StackedRows,
    TaskData,
    TaskStatistics,
    centre_samples,
    condense,
    find_device,
    pooled_means,
    pooled_scale,
    pooled_variance,
    to_device,
)
from priormtl.design import Design
from priormtl.losses import (
    FAMILIES,
    DataFit,
    Family,
    FamilyEvaluation,
    FamilyFit,
    FreeIntercepts,
    Intercepts,
    NoIntercepts,
    SquaredFit,
    TiedIntercepts,
    by_class,
    find_family,
    row_slopes,
)
from priormtl.penalties import L21, Nuclear, RowConstraints
from priormtl.priors import (
    Common,
    FeaturePrior,
    Ridge,
    TaskPrior,
    as_feature_prior,
    as_task_prior,
    curves_of,
    laplacian,
)
from priormtl.priors.graphs import Laplacian
from priormtl.problem import (
    Certificate,
    Point,
    Problem,
    QuadraticPrior,
    no_relations,
)
from priormtl.reml import (
    COMMON,
    Drift,
    DriftingRows,
    Families,
    Precision,
    Ties,
    estimate_family_ties,
    estimate_from_rows,
    estimate_ties,
    find_drift,
    join_classes,
    suits_rows,
)
from priormtl.solvers import (
    Newton,
    Solution,
    Solver,
    StopReason,
    approach,
    max_iter,
    settle,
    solve,
)

__all__ = ["Deviations", "Model", "Posed", "Solver", "score_rows"]

LOSSES = ("squared", *FAMILIES)
PENALTIES = ("l21", "nuclear")

Source = Moments | TaskData  # what a loss is evaluated on


class Scalable(Protocol):
    """Data or statistics whose features can be divided, and then shifted."""

    def rescale(self, scale: Array) -> Self:
        """Features divided by ``scale`` (d,)."""

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,)."""


S = TypeVar("S", bound=Scalable)


@dataclass(frozen=True, eq=False)
class Model:
    """Loss, penalty, priors, intercepts and strengths, before any data."""

    lam: float = 1.0
    theta: float = 1.0
    epsilon: float = 1.0
    loss: str = "squared"
    dispersion: float | None = None  # of the negative binomial; None: estimated
    may_scatter: bool = False  # whether REML estimates a variance above that of counts
    n_classes: int = 2  # with logistic loss; more: multinomial
    penalty: str = "l21"
    feature_prior: FeaturePrior | None = None
    task_prior: TaskPrior | None = None
    fit_intercept: bool | str = True
    intercept_strength: float | str = 1.0  # "adaptive": estimated if they are tied
    feature_weights: Array | None = None  # (d,) multiply lam; None: all one
    ties: Array | str = "uniform"  # or "adaptive", or (d,) factors of epsilon
    standardize: bool = False
    left_out: tuple[int, ...] = ()  # positions of features that the model does not use
    common: tuple[int, ...] = ()  # positions of features that do not vary between tasks
    crossed: tuple[str, ...] | None = None  # factors in use; None: all of the data
    drift: str | None = None  # "ou": levels that drift in time, where rows have times
    device: object = None  # where PyTorch computes; None: on the processor, without it
    # Mean weight of rows. Where REML estimates strengths, weights are relative.
    weight_unit: float = 1.0

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {}
        strengths = ["lam", "theta", "epsilon"]
        if self.intercept_strength != "adaptive":
            strengths.append("intercept_strength")
        for name in strengths:
            checked[name] = check_strength(name, getattr(self, name))
        check_choice("loss", self.loss, LOSSES)
        if self.dispersion is not None:
            if self.family is None or not self.family.has_dispersion:
                raise ValueError(
                    f"dispersion must be None with loss={self.loss!r}: got "
                    f"{self.dispersion!r}. It is that of the negative binomial."
                )
            checked["dispersion"] = check_positive("dispersion", self.dispersion)
        check_choice("penalty", self.penalty, PENALTIES)
        if self.drift is not None:
            check_choice("drift", self.drift, ("ou",))
        checked["fit_intercept"] = check_fit_intercept(self.fit_intercept)
        if self.fit_intercept == "tied" and self.task_prior is None:
            raise ValueError(
                'task_prior must not be None with fit_intercept="tied": it says which '
                'tasks are tied. Use "mean" for unordered tasks, or fit_intercept=True '
                "for free intercepts."
            )
        if self.penalty == "nuclear" and self.feature_weights is not None:
            raise ValueError(
                'feature_weights must be None with penalty="nuclear", which does not '
                'see single features. Use penalty="l21".'
            )
        if self.device is not None:
            find_device(self.device)
            if self.penalty == "nuclear":
                raise ValueError(
                    'device must be None with penalty="nuclear": '
                    f'got {self.device!r}. Use penalty="l21".'
                )
        if self.n_classes > 2:
            unless = f"with {self.n_classes} classes. Use one_vs_rest for binary tasks."
            if self.penalty == "nuclear":
                raise ValueError(f'penalty must be "l21" {unless}')
            if self.device is not None:
                raise ValueError(f"device must be None {unless}")
        checked["feature_prior"] = as_feature_prior(self.feature_prior)
        checked["task_prior"] = as_task_prior(self.task_prior)
        self.__dict__.update(checked)

    @property
    def family(self) -> Family | None:
        """Family of the loss; None for squared loss."""
        found = find_family(self.loss, self.dispersion, self.n_classes)
        return found.scattered() if found is not None and self.may_scatter else found

    def pose(
        self,
        data: TaskData | TaskStatistics,
        start: Ties | None = None,
        known_drift: Drift | None = None,
    ) -> "Posed":
        """Problem about these data in scaled units, with the way back to the user's.

        Estimates of ties and drift begin at those from similar data.
        """
        # Priors and scales need moments; the loss needs these, or the rows.
        moments, source = self._sources(data)
        d, weights = moments.shape[0], self.feature_weights
        if weights is not None:
            weights = check_row_weights("feature_weights", weights, d, zero=False)
        scale, centre = np.ones(d), None
        if self.standardize or self.left_out:
            scale, centre = self._units(moments)
            source = _standardise(source, scale, centre)
        # Names and rules become positions of these features.
        prior, crossed = self.feature_prior, None
        resolved = None if prior is None else prior.resolve(moments)
        if isinstance(data, StackedRows) and data.crossed is not None:
            data = replace(data, crossed=data.crossed.only(self.crossed))
        drift = None
        if self.drift is not None and isinstance(data, StackedRows):
            known = start, known_drift
            drift = self._find_drift(data, (scale, centre), resolved, known)
        if drift is not None:
            # Rows whitened by the covariance of their drift are independent again.
            data = drift.white
            _, source = self._sources(data)
            if self.standardize or self.left_out:
                source = _standardise(source, scale, centre)
        if isinstance(data, StackedRows) and data.crossed is not None:
            if self.n_classes > 2:
                raise ValueError(
                    f"crossed must be None with {self.n_classes} classes. Leave out "
                    f"{', '.join(data.crossed.names)}, or use one_vs_rest."
                )
            # Effects of crossed factors are a known part of scores: `fit` takes turns.
            coupling, crossed = self._couple_crossed(
                data, (scale, centre), resolved, start
            )
            _, source = self._sources(with_effects(data, crossed))
            if self.standardize or self.left_out:
                source = _standardise(source, scale, centre)
        else:
            model = self
            if drift is not None:
                unit = float(drift.white.weight.mean())
                model = replace(self, weight_unit=unit)
            coupling = model._couple(source, data.tasks, resolved, start)
        graph, ties, prior, strength, estimate = coupling
        if self.n_classes > 2:
            graph = by_class(graph, self.n_classes)
        # Ties of effects without variance, over the curvature of the data.
        no_difference = 1e6
        if self.penalty == "nuclear" and isinstance(self.ties, str):
            # Common effects by ties that leave no difference to be seen, since the
            # nuclear norm knows no others.
            bend = pooled_variance(moments) / scale**2 * np.mean(moments.weight)
            strong = no_difference * np.where(bend > 0, bend, 1.0)
            strong = strong / (self.epsilon or 1.0)
            ties = np.where(np.isinf(ties), strong, ties)
        # Both priors are one quadratic term; signs and common effects constrain rows.
        quadratic, constraints = self._priors(prior, graph, ties, scale, data.tasks)
        if constraints is not None:
            ties = np.where(constraints.common, np.inf, ties)
        # The loss minimises over the intercepts, so that the problem is one in P alone.
        fit = self._bind(source, graph, strength, centre)
        l21 = L21(weights, constraints)
        penalty = Nuclear() if self.penalty == "nuclear" else l21
        problem = Problem(fit, quadratic, penalty, self.lam)
        if self.n_classes > 2 and estimate is not None:
            estimate = _with_optimum(estimate, problem)
        return Posed(
            self,
            problem,
            moments,
            scale,
            centre,
            prior,
            ties,
            strength,
            estimate,
            crossed,
            drift,
        )

    def _units(self, moments: Moments) -> tuple[Array, Array | None]:
        """Scale of the features (d,), and what is subtracted then (d,), if anything."""
        scale, centre = np.ones(moments.shape[0]), None
        if self.standardize:
            scale = pooled_scale(moments)
            # Wiggles of a column keep their sizes, which say how smooth they are.
            curved = curves_of(self.feature_prior, moments.features)
            for wiggles in curved.values():
                scale[wiggles] = scale[wiggles[0]]
            # Ties of intercepts must not depend on where features have their zero.
            if self.fit_intercept == "tied":
                centre = pooled_means(moments)
        if self.left_out:
            scale[list(self.left_out)] = np.inf  # they become zero
        return scale, None if centre is None else centre / scale

    def _couple(
        self,
        source: Source,
        tasks: Sequence[Hashable],
        resolved: FeaturePrior | None,
        start: Ties | None,
    ) -> "Coupling":
        """How tasks are tied: as the model says, or by REML."""
        graph, d = laplacian(self.task_prior, tasks), source.shape[0]
        uniform = isinstance(self.ties, str) and self.ties == "uniform"
        given = None if uniform else check_ties(self.ties, d)
        ties = np.ones(d) if given is None or isinstance(given, str) else given
        adapts = self.intercept_strength == "adaptive"
        strength = 1.0 if adapts else float(self.intercept_strength)
        if isinstance(given, str):
            found = self._estimate(source, graph, resolved, start)
            graph = graph.with_between(found.between)
            resolved, ties = _with_shrinkage(resolved, found, graph)
        elif adapts and self.fit_intercept == "tied":
            wanted = self, source, graph, resolved, start
            if len({*self.common, *self.left_out}) == d:
                # All effects are common, perhaps since the table is too wide for REML.
                # With one of them, it takes little more than mean targets.
                bare, first = replace(self, common=(0,)), np.zeros(1, np.intp)
                wanted = bare, source.restrict(first), graph, None, None
            found = Model._estimate(*wanted, slopes=False)
            graph = graph.with_between(found.between)
        else:
            return Coupling(graph, ties, resolved, strength, None)
        if found.intercept is not None:
            strength *= found.intercept
        return Coupling(graph, ties, resolved, strength, found)

    def _couple_crossed(
        self,
        data: StackedRows,
        units: tuple[Array, Array | None],
        resolved: FeaturePrior | None,
        start: Ties | None,
    ) -> "tuple[Coupling, CrossedTerm]":
        """How tasks are tied, and effects of crossed factors: by one REML, or by two.

        Where REML estimates ties to the mean of all tasks, effects of factors come with
        them. Else these are estimated first, with tasks that vary about their mean.
        """
        levels = data.crossed
        assert levels is not None
        rows: Source = centre_samples(data) if self.family is None else data
        rows = _standardise(rows, *units)
        mixed, tasks = self._as_mixed(data.tasks), data.tasks
        together = mixed is self
        coupling = mixed._couple(rows, tasks, resolved, start if together else None)
        assert coupling.estimate is not None
        term = CrossedTerm.of(levels, data.weight, coupling.estimate.crossed)
        if not together:
            _, source = self._sources(with_effects(data, term))
            source = _standardise(source, *units)
            coupling = self._couple(source, tasks, resolved, start)
        return coupling, term

    def _find_drift(
        self,
        data: StackedRows,
        units: tuple[Array, Array | None],
        resolved: FeaturePrior | None,
        start: tuple[Ties | None, Drift | None],
    ) -> DriftingRows | None:
        """Levels of tasks that drift, by REML with tasks that vary about their mean."""
        if data.time is None or self.loss != "squared" or data.crossed is not None:
            raise ValueError(
                "drift must be None without time, with crossed factors and with a "
                f'loss other than "squared": got {self.drift!r}.'
            )
        rows = _standardise(centre_samples(data), *units)
        common = () if resolved is None else resolved.common_features
        families = find_families(rows, resolved, (*self.common, *common))
        graph = laplacian(TaskPrior.mean(), data.tasks)
        found = find_drift(rows, graph, families, *start)
        return None if found is None else DriftingRows.of(*found, data)

    def _as_mixed(self, tasks: Sequence[Hashable]) -> "Model":
        """The model, if REML estimates ties to the mean; else one with such ties."""
        adapts = is_word(self.ties, "adaptive") or self.intercept_strength == "adaptive"
        if adapts and self.fit_intercept == "tied":
            graph = laplacian(self.task_prior, tasks)
            if graph.one_group > 0 or graph.m == 1:
                return self
        return replace(
            self,
            task_prior=TaskPrior.mean(),
            ties="adaptive",
            fit_intercept="tied",
            intercept_strength="adaptive",
        )

    def _priors(
        self,
        prior: FeaturePrior | None,
        graph: Laplacian,
        ties: Array,
        scale: Array,
        tasks: Sequence[Hashable],
    ) -> tuple[QuadraticPrior, RowConstraints | None]:
        """Relations of features and ties of tasks in units of the fit; constraints.

        The latter are signs and common effects, those of the structure included.
        """
        d, K = len(scale), self.n_classes if self.n_classes > 2 else 1
        D, target, ridge, signs = no_relations(d), None, None, None
        common = np.isinf(ties)
        common[list(self.common)] = True
        if prior is not None:
            signs, ridge = prior.signs(d), prior.ridge(d)
            common[list(prior.common_features)] = True
            D, targets = prior.rows_in_units(scale, tasks)
            target = None if targets is None else targets.values
            if target is not None and K > 1:  # known values hold for every class
                target = np.tile(np.broadcast_to(target, (len(target), len(tasks))), K)
        constraints = None
        if signs is not None or common.any():
            signs = np.zeros(d) if signs is None else signs * 1.0
            constraints = RowConstraints(signs, common, K)
        if self.penalty == "nuclear" and constraints is not None:
            raise ValueError(
                'penalty must be "l21" where feature_prior states signs or common '
                "effects: the nuclear norm does not see single features."
            )
        weighted = None
        if not np.all((ties == 1.0) & ~common):
            weighted = np.where(common, 0.0, ties)
        strengths = self.theta, self.epsilon
        quadratic = QuadraticPrior(D, graph, *strengths, weighted, target, ridge)
        return quadratic, constraints

    def _sources(self, data: TaskData | TaskStatistics) -> tuple[Moments, Source]:
        """Moments, for priors and scales, and what the loss is evaluated on."""
        if self.device is not None:
            data = to_device(data, self.device, rows=self.family is not None)
        if self.family is not None and isinstance(data, TaskData):
            return centre_samples(data), data
        moments = condense(data)
        return moments, moments

    def _bind(
        self, source: Any, graph: Laplacian, strength: float, centre: Array | None
    ) -> FamilyFit | SquaredFit:
        """Loss of data with intercepts that are free, absent or tied."""
        kind: Intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        if self.fit_intercept == "tied":
            kind = TiedIntercepts(graph, strength)
        if self.family is None:
            return SquaredFit(source, kind, centre)
        fit = self.family.bind(source, kind, centre)
        if self.family.has_dispersion and self.dispersion is None:
            # A start, from the model without features.
            return fit.refit(fit.evaluate(np.zeros(fit.shape)))
        return fit

    def _estimate(
        self,
        source: Any,
        graph: Laplacian,
        prior: FeaturePrior | None,
        start: Ties | None,
        *,
        slopes: bool = True,
        same_scores: float = 2e-4,
    ) -> Ties:
        """How much intercepts and coefficients vary between tasks, by REML."""
        if self.n_classes > 2:
            return self._estimate_classes(source, graph, prior, start, slopes=slopes)
        fit = self._bind(source, graph, 1.0, None)
        common = self.common if prior is None else prior.common_features + self.common
        families = find_families(source, prior, common)
        centred = graph.one_group or (graph.between and graph.is_tree)
        if start is None and np.any(families.fixed >= 0) and not centred:
            # REML estimates how shared effects shrink only for ties to a common mean.
            mean = laplacian(TaskPrior.mean(), source.tasks)
            if mean.one_group:  # there are two tasks or more
                start = self._estimate(source, mean, prior, None, slopes=slopes)
        options: dict[str, Any] = {
            "families": families,
            "slopes": slopes,
            "start": start,
            "unit": self.weight_unit,
        }
        if not isinstance(fit, SquaredFit):
            options["same_scores"] = same_scores
            return estimate_family_ties(fit, graph, **options)
        if suits_rows(source, graph, fit.intercepts):
            del options["unit"]  # rows are counted
            return estimate_from_rows(source, graph, **options)
        return estimate_ties(source, graph, fit.intercepts, **options)

    def _estimate_classes(
        self,
        source: StackedRows,
        graph: Laplacian,
        prior: FeaturePrior | None,
        start: Ties | None,
        *,
        slopes: bool,
    ) -> Ties:
        """The same of more than two classes, from each of them against the others.

        It takes long: parts of the data and variants of a structure use ``start``, and
        variances, which are averaged over classes, are found roughly.
        """
        if start is not None:
            return start
        options: dict[str, Any] = {"slopes": slopes, "same_scores": 0.02}
        binary, found = replace(self, n_classes=2), list[Ties]()
        for k in range(self.n_classes):
            rows = replace(source, y=np.where(source.y == k, 1.0, -1.0))
            found.append(binary._estimate(rows, graph, prior, None, **options))
        return join_classes(found)


def find_families(
    source: Source, prior: FeaturePrior | None, common: Sequence[int]
) -> Families:
    """Features that share variances: wiggles and categories of one column.

    Fixed effects are shrunken where the prior has a ridge.
    """
    d, design = source.shape[0], source.features or Design(())
    first = np.arange(d)  # of the features that share a variance
    groups = design.categories() | curves_of(prior, source.features)
    for positions in groups.values():
        first[positions] = positions[0]
    fixed: list[object] = [-1] * d
    for part in () if prior is None else prior.parts:
        if isinstance(part, Ridge):
            for j, family in zip(part.positions, part.families, strict=True):
                fixed[j] = part.smooth, family
    number: dict[object, int] = {-1: -1}
    for label in fixed:
        number.setdefault(label, len(number) - 1)
    deviations = np.unique(first, return_inverse=True)[1]
    deviations[list(common)] = COMMON
    return Families(deviations, np.array([number[label] for label in fixed]))


def _with_shrinkage(
    prior: FeaturePrior | None, found: Ties, graph: Laplacian
) -> tuple[FeaturePrior | None, Array]:
    """Prior with the estimated strengths of its ridges, and ties that go with it.

    REML has a ridge s on the fixed effect q and ties t to it. With q at its best,
    min_q s q² + t Σ (p_i − q)² is r Σ p_i² + (t − r) Σ (p_i − p̄)², r = s t / (s + m t).
    For nested tasks, r is exact for coefficients that all tasks share: they count as
    fewer tasks, n, and r = (n / m) s t / (s + n t).
    """
    ties, m = found.weights, graph.m
    if prior is None or not found.shrinkage.any():
        return prior, ties
    n = float(graph.forest.pivot[-1]) if graph.between and graph.is_tree else m
    # Infinite ties leave s on what all tasks have.
    with np.errstate(invalid="ignore"):
        ridge = n / m * found.shrinkage * ties / (found.shrinkage + n * ties)
    ridge = np.where(np.isinf(ties), found.shrinkage / m, ridge)
    parts = [
        replace(part, strengths=tuple(ridge[list(part.positions)].tolist()))
        if isinstance(part, Ridge)
        else part
        for part in prior.parts
    ]
    return FeaturePrior(tuple(parts)), ties - ridge


def _has_signs(problem: Problem) -> bool:
    return problem.constraints is not None and bool(problem.constraints.signs.any())


def _has_ridges_of_reml(prior: FeaturePrior | None, graph: Laplacian) -> bool:
    """Whether REML has minimised the very objective: one ridge of each feature."""
    parts = () if prior is None else prior.parts
    rows = [part for part in parts if not isinstance(part, Common)]
    if not all(isinstance(part, Ridge) and part.weight == 1.0 for part in rows):
        return False
    places = [j for part in rows if isinstance(part, Ridge) for j in part.positions]
    return len(set(places)) == len(places) and (not rows or bool(graph.one_group))


def _with_optimum(found: Ties, problem: Problem) -> Ties:
    """An estimate with the coefficients of all classes that are best at its ties."""
    d = problem.shape[0]
    if found.noise_variance is None or _has_signs(problem) or len(found.rows) < d:
        return found
    extra = found.intercept is not None
    smooth = problem.with_strengths(lam=0.0, epsilon=1.0)
    at = approach(smooth, found.rows[len(found.rows) - d :]).fit
    assert isinstance(at, FamilyEvaluation)
    return replace(found, rows=np.vstack([*([at.b] if extra else []), at.coef]))


class Coupling(NamedTuple):
    """Ties between tasks, given or estimated."""

    graph: Laplacian
    weights: Array  # (d,) multiply epsilon; infinite for common effects
    feature_prior: FeaturePrior | None  # with estimated strengths of its ridges
    intercept_strength: float
    estimate: Ties | None  # by REML


class Deviations(NamedTuple):
    """Standard deviations that REML estimates, in the units of X and y."""

    task: Array  # (d,) of effects between tasks
    intercept: float | None  # of intercepts; None where they are not tied
    noise: float | None  # None for classes


class Posed(NamedTuple):
    """A model about data: the problem, and what is needed to go back from it."""

    model: Model
    problem: Problem
    moments: Moments
    scale: Array  # (d,) what features were divided by
    centre: Array | None  # (d,) what was subtracted then
    feature_prior: FeaturePrior | None  # with names resolved
    tie_weights: Array  # (d,) multiply epsilon; infinite for common effects
    intercept_strength: float
    estimate: Ties | None = None  # by REML
    crossed: CrossedTerm | None = None  # effects of crossed factors, as in the problem
    drift: DriftingRows | None = None  # the problem is about the weighted ones
    outlier_strength: float = np.inf

    def at(self, lam: float, theta: float, epsilon: float) -> Self:
        """Same data and structure at other strengths."""
        problem = self.problem.with_strengths(lam=lam, theta=theta, epsilon=epsilon)
        return self._replace(problem=problem)

    def estimated(self) -> tuple[Array, Array] | None:
        """Coefficients (m, d) and intercepts (m,) that REML fits, in the user's units.

        They are the optimum at lam = 0 and epsilon = 1 (with other losses than squared
        about, as far as scores of held-out rows tell). None where they are not: with
        relations between features, and where ridges meet ties other than to the mean.
        """
        found, prior = self.estimate, self.feature_prior
        if found is None or found.noise_variance is None:
            return None
        if not isinstance(self.model.ties, str) or self.model.ties != "adaptive":
            return None
        if self.model.fit_intercept is True or self.model.intercept_strength not in (
            1.0,
            "adaptive",
        ):
            return None
        if self.model.n_classes > 2:  # the optimum of the problem, whatever its ridges
            if self.problem.prior.D.nnz or _has_signs(self.problem):
                return None
        elif not _has_ridges_of_reml(prior, self.problem.prior.laplacian):
            return None
        extra = int(found.intercept is not None)
        P = found.rows[extra:]
        intercept = found.rows[0] if extra else np.zeros(P.shape[1])
        if self.centre is not None:
            intercept = intercept - self.centre @ P
        return P.T / self.scale, intercept

    @property
    def start(self) -> Array | None:
        """Coefficients (d, m) that REML fits; None where there is a penalty."""
        if self.problem.lam > 0 or self.estimate is None:
            return None
        rows, d = self.estimate.rows, self.problem.shape[0]
        if len(rows) < d:  # REML has seen one feature only
            return None
        coef, constraints = rows[len(rows) - d :], self.problem.constraints
        return coef if constraints is None else constraints.project(coef)

    @property
    def effects(self) -> Array:
        """Effects of the levels of crossed factors; none without these."""
        return np.zeros(0) if self.crossed is None else self.crossed.effects

    @property
    def mean_weight(self) -> float:
        """Mean weight of the rows of the problem."""
        if self.drift is None:
            return self.model.weight_unit
        return float(self.drift.white.weight.mean())

    def scaled_moments(self) -> Moments:
        """Moments of the data in units of the problem, whatever their covariance."""
        scaled: Moments = _standardise(self.moments, self.scale, self.centre)
        return scaled

    @property
    def known_drift(self) -> Drift | None:
        """Drift of levels, for estimates from similar data."""
        return None if self.drift is None else self.drift.drift

    @property
    def precision(self) -> Precision | None:
        """How sure REML's own solution is, where it is the optimum; None elsewhere."""
        at_estimate = self.problem.lam == 0 and self.problem.prior.epsilon == 1.0
        if not at_estimate or self.estimate is None or self.estimated() is None:
            return None
        return self.estimate.precision

    def deviations(self) -> "Deviations | None":
        """Standard deviations that REML estimates, in the user's units.

        They are those of effects between tasks and, with squared loss, of the noise.
        """
        found, given = self.estimate, self.model.ties
        estimated = isinstance(given, str) and given == "adaptive"
        if not estimated or found is None or found.noise_variance is None:
            return None
        extra = int(found.intercept is not None)
        # Effects without variance have the same estimate in all tasks, and a large tie.
        classes = self.model.n_classes if self.model.n_classes > 2 else 1
        by_class = found.rows.reshape(len(found.rows), classes, -1)
        varies = np.any(np.ptp(by_class, axis=2) > 0, axis=1)
        ties = np.concatenate([[found.intercept] if extra else [], found.weights])
        size = np.where(varies, np.sqrt(found.noise_variance / ties), 0.0)
        is_squared = self.model.loss == "squared"
        return Deviations(
            size[extra:] / self.scale,
            float(size[0]) if extra else None,
            float(np.sqrt(found.noise_variance)) if is_squared else None,
        )

    def bind(self, data: TaskData | TaskStatistics) -> DataFit[Any]:
        """Loss of other data of the same tasks, in the same units."""
        model = self.model
        if self.drift is not None:
            assert isinstance(data, StackedRows)
            data = DriftingRows.of(self.drift.drift, self.drift.sd, data).white
        _, source = model._sources(data)
        if model.standardize or model.left_out:
            source = _standardise(source, self.scale, self.centre)
        graph = self.problem.prior.laplacian
        return model._bind(source, graph, self.intercept_strength, self.centre)

    def on_samples(self, data: TaskData | TaskStatistics) -> Self | None:
        """The same on samples instead of Gram matrices; None if that is no change."""
        fit = self.problem.fit
        if not isinstance(data, TaskData) or not isinstance(fit, SquaredFit):
            return None
        if fit.rows_per_task:
            return None
        if issparse(data.X):
            if math.prod(data.X.shape) > 2**22:  # 32 MB
                return None
            data = data.with_matrix(data.X.toarray())
        if isinstance(data, SharedRows) and not data.has_one_gram:
            if data.y.size * data.X.shape[1] > 2**22:
                return None
            data = data.stacked()
        samples = centre_samples(data)
        if self.model.standardize or self.model.left_out:
            samples = _standardise(samples, self.scale, self.centre)
        if fit.level is not None:
            samples = samples.lower(fit.level)
        fit = replace(fit, moments=samples)
        return self._replace(problem=replace(self.problem, fit=fit, memo={}))

    def fit(
        self, solver: Solver, data: TaskData | TaskStatistics, coef: Array | None = None
    ) -> tuple[Self, Solution]:
        """Solve the problem, and where it is to be estimated, find the dispersion.

        Fits alternate with the most likely dispersion at the fit until it settles.
        """
        if self.drift is not None:
            data = self.drift.white
        fit, given = self.problem.fit, self.model.dispersion is not None
        if not isinstance(fit, FamilyFit) or not fit.family.has_dispersion or given:
            return self._fit(solver, data, coef)
        # Roughly at first: what a fit gains is lost where the dispersion moves.
        tol, y = max(solver.tol, 0.3), fit.data.y[fit.data.weight > 0]
        posed, found = self._fit(replace(solver, tol=tol), data, coef)
        for _ in range(25):
            last, fit = fit, fit.refit(found.point.fit)  # type: ignore[arg-type]
            before, alpha = last.family.alpha, fit.family.alpha  # type: ignore[attr-defined]
            # The share by which the variance of a mean count changes.
            change = abs(alpha - before) / (alpha + 1.0 / float(y.mean()))
            settled = change <= 1e-6 or abs(alpha - before) <= 1e-4 * alpha
            if settled and tol == solver.tol:
                break
            # Objectives lack the square of what coefficients lack.
            rough = 0.1 * change**2 if change > 0.05 else 0.0
            tol = max(solver.tol, min(rough, 0.1))
            problem = replace(posed.problem, fit=fit, memo={})
            near = problem.at(found.coef, near=found.point)
            closer = replace(solver, tol=tol)
            posed, found = posed._replace(problem=problem)._fit(closer, data, near)
        return posed, found

    def _fit(
        self,
        solver: Solver,
        data: TaskData | TaskStatistics,
        coef: Array | Point | None,
    ) -> tuple[Self, Solution]:
        """Solve the problem; where moments do not tell how well, on the samples."""
        problem = self.problem
        coef = self.start if coef is None else coef
        if self.crossed is not None and isinstance(data, StackedRows):
            start = coef.coef if isinstance(coef, Point) else coef
            return self._fit_crossed(solver, data, start)
        found = solver.solve(problem, coef)
        certificate, by_gap = found.certificate, found.reason is StopReason.GAP
        accepted = by_gap or solver.accepts(problem, certificate)
        # What Gram matrices hide as rounding, rows may still tell.
        is_seen = certificate.gap <= solver.tol * problem.null_objective
        if found.reason is StopReason.MAX_ITER or (
            accepted and is_seen and not certificate.is_uncertain
        ):
            return self, found
        if not isinstance(problem.fit, SquaredFit):
            return self, found
        closer = self.on_samples(data)
        by_rows = self.model.penalty == "l21" or problem.lam == 0
        if closer is None and (accepted or not by_rows or problem.lam == 0):
            return self, found
        return (closer or self)._solve_closer(solver, found)

    def _fit_crossed(
        self, solver: Solver, data: StackedRows, coef: Array | None
    ) -> tuple[Self, Solution]:
        """Solve for coefficients and effects of crossed factors."""
        assert self.crossed is not None

        def problem_at(term: CrossedTerm) -> Problem:
            if term is self.crossed:
                return self.problem
            bound = self.bind(with_effects(data, term))
            return replace(self.problem, fit=bound, memo={})

        def scores_of(solution: Solution) -> Array:
            coef = solution.coef / self.scale[:, np.newaxis]
            return score_rows(data, coef, solution.intercept)

        term, problem, solution = solve_by_turns(
            self.crossed,
            solver,
            problem_at,
            scores_of,
            partial(row_slopes, self.problem.fit, data),
            coef,
        )
        return self._replace(problem=problem, crossed=term), solution

    def _settle(self, known: Solution) -> Solution:
        """A solution, certified closely by this problem."""
        problem = self.problem
        before = settle(problem, problem.at(known.coef), [max_iter(0)])
        assert before is not None
        closely = problem.certify_closely(before.point, before.certificate)
        return replace(before, certificate=closely)

    def _solve_closer(self, solver: Solver, known: Solution) -> tuple[Self, Solution]:
        """Solve again, and combine what the certificates of both runs say.

        Without a penalty from zero; with one that is tiny from the optimum without.
        Spectral norms have no method for samples: these only certify.
        """
        problem, coef = self.problem, None
        if problem.lam > 0 and self.model.penalty != "l21":
            before = self._settle(known)
            doubtful = known.certificate.is_uncertain
            if not (doubtful or before.certificate.gap < known.certificate.gap):
                return self, known
            reason = _reason(solver, problem, before.certificate, known.reason)
            return self, replace(before, n_iter=known.n_iter, reason=reason)
        if problem.lam > 0:
            smooth, method = problem.with_strengths(lam=0.0), Newton()
            coef = solve(smooth, method, stop=solver.rules(method)).coef
            if problem.constraints is not None:
                coef = problem.constraints.project(coef)
        found = solver.solve(problem, coef)
        closely = problem.certify_closely(found.point, found.certificate)
        found = replace(found, certificate=closely)
        if known.reason is StopReason.DIVERGED:
            return self, found  # all that was known before is the start
        before = self._settle(known)
        best = min(before, found, key=lambda solution: solution.certificate.primal)
        other = (found if best is before else before).certificate
        dual = max(best.certificate.dual, other.dual - other.rounding)
        # Better coefficients that are so large that rounding hides how much are none.
        limit = max(solver.tol * problem.null_objective, problem.fit.noise)
        gap = before.certificate._replace(dual=dual).gap
        if found.certificate.rounding > limit and gap <= found.certificate.gap:
            best = before
        certificate = best.certificate._replace(dual=dual)
        reason = _reason(solver, problem, certificate, found.reason)
        return self, replace(best, certificate=certificate, reason=reason)


def _reason(
    solver: Solver, problem: Problem, certificate: Certificate, said: StopReason
) -> StopReason:
    """Why a solution ends that was certified again, after what was said of its run."""
    if solver.accepts(problem, certificate):
        return StopReason.GAP
    converged = said in (StopReason.GAP, StopReason.ROUNDING)
    return StopReason.STALLED if converged else said


def with_effects(data: StackedRows, term: CrossedTerm) -> StackedRows:
    """Data with the effects of crossed factors as a known part of each score."""
    known = 0.0 if data.offset is None else data.offset
    return replace(data, offset=known + term.scores, crossed=None)


def score_rows(data: StackedRows, coef: Array, intercept: Array) -> Array:
    """Scores (n,) of rows, with coefficients (d, m) in the user's units."""
    known = 0.0 if data.offset is None else data.offset
    return data.forward(coef) + data.spread(intercept) + known


def _standardise(source: S, scale: Array, centre: Array | None) -> S:
    scaled = source.rescale(scale)
    return scaled if centre is None else scaled.shift(centre)
