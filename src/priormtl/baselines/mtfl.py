"""MTFL: learn which groups of tasks share a feature space; our reconstruction.

After P. Jawanpuria, J. S. Nath: A Convex Feature Learning Formulation for Latent Task
Structure Discovery. ICML 2012. The paper's ideas are kept: a convex problem over all
groups of tasks, kernels with zero blocks outside a group, tasks of a group shrunk to
their mean, and a norm on the lattice of groups under which a group without a feature
space leaves none to its supersets. Exponents, weights and loss are reconstructed from
the abstract and related work: results must be called "MTFL, reconstructed".

Each block of features j and group g has coefficients U_jg; a task has their sum W. With

    Θ_jg² = μ |g| ‖mean of U_jg‖² + Σ_i∈g ‖u_i − mean‖²,   Q_g = (Σ_j Θ_jg^p)^(1/p),
    N_v = (Σ_g⊇v Q_g^q)^(1/q),   Ω = Σ_v a^(|v| − 1) N_v

½ Ω² is the minimum of ½ Σ Θ_jg² / κ_jg over weights κ in a convex set. So two steps
alternate: a ridge regression with kernels B_j = Σ_g κ_jg M_g⁻¹ between tasks, M_g⁻¹ =
I + (1/μ − 1) 11ᵀ/|g| on the tasks of g, and the best κ in closed form.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.checks import (
    check_choice,
    check_count,
    check_positive,
    check_strength,
    check_tolerance,
)
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit

MOST_TASKS, MOST_GROUPS = 10, 1023  # of all groups
LEAST_POWER = 1.05  # below, weights lose their closed form
LEAST_SHARE = 1e-14  # of Ω that weights leave to a group, so that it can return
ROUNDING = 1e-13  # of the objective at zero: gaps below are rounding
MOST_PRODUCTS = 1000
# Pairs of mean_share and growth to try, from cheap groups to single tasks.
PAIRS = [(mu, a) for a in (1.0, 1.5, 2.0) for mu in (0.1, 0.01)]
PAIRS += [(1.0, a) for a in (1.0, 1.5, 2.0)]

Group = tuple[int, ...]


# Groups


def check_groups(sets: Iterable[Iterable[int]]) -> list[Group]:
    """Each group once, small ones first."""
    unique = sorted({tuple(sorted(set(g))) for g in sets}, key=lambda g: (len(g), g))
    if len(unique) > MOST_GROUPS:
        raise ValueError(
            f"groups must be at most {MOST_GROUPS}: got {len(unique)}. List fewer."
        )
    return unique


def tree_groups(coef: Array) -> list[Group]:
    """Nodes of the average-linkage tree of tasks (m, r): at most 2m − 1 groups."""
    nodes: list[Group] = [(i,) for i in range(len(coef))]
    if len(coef) > 1:
        # Squares of differences must stay within the range of doubles.
        size = np.abs(coef).max() or 1.0
        for left, right in linkage(coef / size, "average")[:, :2].astype(int):
            nodes.append(nodes[left] + nodes[right])
    return check_groups(nodes)


def named_groups(groups: Any, tasks: Sequence[Hashable]) -> list[Group]:
    """Groups listed by task names; together they must hold every task."""
    position = {task: i for i, task in enumerate(tasks)}
    listed = [
        list(group)
        if isinstance(group, Iterable) and not isinstance(group, str)
        else []
        for group in (groups if isinstance(groups, Iterable) else [()])
    ]
    wrong = [task for group in listed for task in group if task not in position]
    missing = set(tasks) - set(chain(*listed))
    if wrong or missing or not all(listed):
        raise ValueError(
            'groups must be "auto", "all", "tree", "active", or a list of non-empty '
            "lists of task names that hold every task. Unknown names are "
            f"{wrong[:8]}, missing tasks {sorted(missing, key=str)[:8]}: got {groups}."
        )
    return check_groups([position[task] for task in group] for group in listed)


def candidate_groups(groups: Sequence[Group], m: int) -> list[Group]:
    """Groups that are not there, while all their largest proper subsets are."""
    known = set(groups)
    grown = {(*g, i) for g in known for i in range(g[-1] + 1, m)} - known
    return sorted(
        g for g in grown if all(part in known for part in combinations(g, len(g) - 1))
    )


# The norm


class Levels(NamedTuple):
    """The norm level by level."""

    group: Array  # Q (g,) of each group
    above: Array  # N (g,) of the groups that contain a group
    total: float  # Ω


@dataclass(frozen=True, eq=False)
class LatticeNorm:
    """Ω of lengths Θ (k, g), with its weights, kernels and dual norm."""

    groups: Sequence[Group]
    m: int
    mean_share: float  # μ
    growth: float  # a
    p: float
    q: float

    @cached_property
    def member(self) -> Array:
        """(g, m) 1 where a task belongs to a group, else 0."""
        member = np.zeros((len(self.groups), self.m))
        for row, group in zip(member, self.groups, strict=True):
            row[list(group)] = 1.0
        return member

    @cached_property
    def sizes(self) -> Array:
        return self.member.sum(axis=1)

    @cached_property
    def below(self) -> Array:
        """(v, g) 1 where group v is part of group g, or the same; else 0."""
        return (self.member @ self.member.T == self.sizes[:, np.newaxis]).astype(float)

    @cached_property
    def cost(self) -> Array:
        """a^(|v| − 1) of each group (g,), within the range of doubles."""
        return np.exp(np.minimum(np.log(self.growth) * (self.sizes - 1.0), 230.0))

    @cached_property
    def start(self) -> Array:
        """Lengths (g,) at which all groups have about the same norm."""
        return 1.0 / (self.below.T @ self.cost)

    @cached_property
    def _excess(self) -> Array:
        """(1/μ − 1) / |g|, what a group's mean adds to M_g⁻¹ (g,)."""
        return (1.0 / self.mean_share - 1.0) / self.sizes

    def levels(self, lengths: Array) -> Levels:
        """Q, N and Ω of lengths Θ (k, g)."""
        group = _norms(lengths.T, self.p)
        top = float(group.max(initial=0.0)) or 1.0
        above = top * (self.below @ (group / top) ** self.q) ** (1.0 / self.q)
        return Levels(group, above, float(self.cost @ above))

    def lift(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """Lengths of which none falls below a least share of Ω."""
        total = self.levels(lengths).total
        return np.hypot(lengths, (least * total if total > 0 else 1.0) * self.start)

    def weights(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """κ_jg = Θ_jg / (Ω ∂Ω/∂Θ_jg), at which ½ Σ Θ² / κ = ½ Ω² (k, g)."""
        lengths = self.lift(lengths, least)
        group, above, total = self.levels(lengths)
        slope = self.below.T @ (self.cost * above ** (1.0 - self.q))
        share = (lengths / group) ** (2.0 - self.p)
        return share * group ** (2.0 - self.q) / (total * slope)

    def kernels(self, weights: Array) -> Array:
        """B_j = Σ_g κ_jg M_g⁻¹ (k, m, m), kernels between tasks."""
        scaled = self.member.T * (weights * self._excess)[:, np.newaxis]
        return scaled @ self.member + np.stack(
            [np.diag(w) for w in weights @ self.member]
        )

    def dual_lengths(self, H: Array, blocks: Sequence[slice]) -> Array:
        """√(Σ_i∈g ‖h_i‖² + (1/μ − 1)/|g| ‖Σ_i∈g h_i‖²) of rows of H (m, r): (k, g)."""
        squares = [self.member @ np.sum(H[:, s] ** 2, axis=1) for s in blocks]
        sums = [np.sum((self.member @ H[:, s]) ** 2, axis=1) for s in blocks]
        return np.sqrt(np.array(squares) + self._excess * np.array(sums))

    def dual_bound(self, lengths: Array, near: Array) -> float:
        """Upper bound of the dual norm of lengths (k, g), exact at the optimum.

        The dual norm is the least t for which the lengths of groups are sums of parts
        z_v on the groups above v with ‖z_v‖_q* ≤ t d_v. Any parts give a bound; those
        of the norm's gradient at ``near`` are the best ones where it is optimal.
        """
        group = _norms(lengths.T, self.p / (self.p - 1.0))
        force = self.cost * self.levels(self.lift(near)).above ** (1.0 - self.q)
        portion = group / (self.below.T @ force)
        # Conjugate norms over the groups above, or their sums where powers underflow.
        power, top = self.q / (self.q - 1.0), float(portion.max(initial=0.0)) or 1.0
        sums = self.below @ (portion / top) ** power
        safe = self.below @ (portion / top)
        joined = np.where(sums > 1e-280, sums ** (1.0 / power), safe)
        return float(np.max(force * top * joined / self.cost))


def _norms(values: Array, power: float) -> Array:
    """(Σ t^power)^(1/power) of each row (g,)."""
    top = float(values.max(initial=0.0)) or 1.0
    return np.asarray(top * np.sum((values / top) ** power, axis=1) ** (1.0 / power))


# Ridge regressions with kernels between tasks


@dataclass(frozen=True, eq=False)
class Rotated:
    """The fit in coordinates of each block: the norm depends on lengths alone.

    In principal axes of the rows few coordinates are left, and the mean Hessian of the
    tasks, which preconditions, is almost diagonal.
    """

    fit: SquaredFit
    basis: Array | None  # (d, r); None: features in the order of their blocks
    order: Index
    blocks: tuple[slice, ...]  # coordinates of each block
    linear: Array  # (m, r) Xᵀy
    constant: float  # ‖y‖²
    mean: Array  # (r,) diagonal of the mean Hessian

    @classmethod
    def of(
        cls, data: TaskData, blocks: Sequence[Index], *, intercept: bool
    ) -> "Rotated":
        order, basis, X = np.concatenate(blocks), None, data.X
        sizes = [len(block) for block in blocks]
        if issparse(X):
            X = X[:, order]
        else:
            centred = X - intercept * X.mean(axis=0)
            parts = [_principal_axes(centred[:, block]) for block in blocks]
            sizes = [part.shape[1] for part in parts]
            pairs = zip(blocks, parts, strict=True)
            X = np.hstack([X[:, block] @ part for block, part in pairs])
            basis = np.zeros((data.shape[0], sum(sizes)))
        ends = np.cumsum([0, *sizes]).tolist()
        slices = tuple(slice(a, b) for a, b in pairwise(ends))
        if basis is not None:
            for block, part, columns in zip(blocks, parts, slices, strict=True):
                basis[block, columns] = part
        intercepts = FreeIntercepts() if intercept else NoIntercepts()
        fit = Squared().bind(replace(data, X=X, features=None), intercepts)
        start = fit.evaluate(np.zeros(fit.shape))
        mean = fit.curvatures().mean(axis=1)
        return cls(
            fit, basis, order, slices, -start.gradient.T, 2.0 * start.value, mean
        )

    def to_features(self, W: Array) -> Array:
        """Coefficients (m, d) of the features."""
        return (
            W @ self.basis.T if self.basis is not None else W[:, np.argsort(self.order)]
        )


def _principal_axes(X: Array) -> Array:
    """Orthonormal directions (d, r) in which rows (n, d) vary, at least one."""
    wide = X.shape[0] < X.shape[1]
    values, axes = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    kept = values > 1e-14 * len(values) * max(values[-1], 0.0)
    kept[-1] = True
    return np.linalg.qr(X.T @ axes[:, kept])[0] if wide else axes[:, kept]


class Ridge(NamedTuple):
    """A coupled ridge regression, with residuals α = C (y − X w)."""

    inner: Array  # H (m, r)
    coef: Array  # W (m, r), blocks B_j H_j
    correlation: Array  # Xᵀα (m, r), equal to H at the optimum
    loss: float  # C/2 ‖X w − y‖²
    target_product: float  # ⟨y, α⟩


def solve_ridge(
    rotated: Rotated, C: float, kernels: Array, H: Array, accuracy: float
) -> Ridge:
    """Minimise C/2 ‖X w − y‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ), to ``accuracy`` in the dual.

    B may be singular and is not inverted: W_j = B_j H_j. Conjugate gradients for
    C G(B H) + H = C Xᵀy in the inner product of B, in which the system is symmetric,
    and in the eigenvectors of B, where the preconditioner is diagonal.
    """
    values, vectors = np.linalg.eigh(kernels)
    widths = [s.stop - s.start for s in rotated.blocks]
    B = np.repeat(np.maximum(values.T, 0.0), widths, axis=1)

    def turn(X: Array, matrices: Array) -> Array:
        pairs = zip(matrices, rotated.blocks, strict=True)
        return np.hstack([matrix @ X[:, s] for matrix, s in pairs])

    def product(W: Array) -> Array:
        whole = np.ascontiguousarray(turn(W, vectors).T)
        return C * turn(rotated.fit.majorant(whole).T, inverse)

    inverse = vectors.transpose(0, 2, 1)
    H, linear = turn(H, inverse), turn(rotated.linear, inverse)
    residual = C * linear - H - (product(B * H) if H.any() else 0.0)
    preconditioner = 1.0 / (1.0 + C * B * rotated.mean)
    step = preconditioner * residual
    energy = float(np.vdot(residual, B * step))
    for _ in range(MOST_PRODUCTS):
        # Half the squared residual in the norm of B is what the dual value misses.
        if energy <= 0 or 0.5 * float(np.vdot(residual, B * residual)) <= accuracy:
            break
        change = product(B * step) + step
        length = energy / float(np.vdot(B * step, change))
        H, residual = H + length * step, residual - length * change
        direction = preconditioner * residual
        last, energy = energy, float(np.vdot(residual, B * direction))
        step = direction + energy / last * step
    # Residuals α = C (y − X w) give Xᵀα = C Xᵀy − C G W = H + residual.
    W, correlation = B * H, H + residual
    total = C * (rotated.constant - float(np.vdot(linear, W)))
    loss = max(0.5 * (total - float(np.vdot(W, correlation))), 0.0)
    return Ridge(
        turn(H, vectors), turn(W, vectors), turn(correlation, vectors), loss, total
    )


# Reweighting


class LatticePoint(NamedTuple):
    """Coefficients at given weights, and how good they are."""

    weights: Array  # κ (k, g)
    ridge: Ridge
    lengths: Array  # Θ (k, g)
    objective: float
    dual: float  # best lower bound so far

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.dual)


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """Minimise ½ Ω² + C/2 Σ ‖X_i w_i − y_i‖²."""

    rotated: Rotated
    norm: LatticeNorm
    C: float

    @property
    def unit(self) -> float:
        """Objective at zero."""
        return 0.5 * self.C * self.rotated.constant

    def at(self, weights: Array, last: LatticePoint | None) -> LatticePoint:
        """Solve the ridge regression of these weights, as exactly as the gap needs."""
        rotated, norm = self.rotated, self.norm
        inner, share, dual = np.zeros_like(rotated.linear), 1e-2, 0.0
        if last is not None:
            inner, dual = last.ridge.inner, last.dual
            share = min(share, last.gap / last.objective if last.objective > 0 else 0.0)
        accuracy = max(1e-2 * share**2, 1e-26) * self.unit
        ridge = solve_ridge(rotated, self.C, norm.kernels(weights), inner, accuracy)
        # U_jg = κ_jg M_g⁻¹ H_j at the optimum, so that Θ_jg = κ_jg ‖H_j‖_g.
        lengths = weights * norm.dual_lengths(ridge.inner, rotated.blocks)
        objective = ridge.loss + 0.5 * norm.levels(lengths).total ** 2
        # max over s of s ⟨y, α⟩ − s² (‖α‖²/(2C) + ½ Ω°(Xᵀα)²), in closed form.
        slopes = norm.dual_lengths(ridge.correlation, rotated.blocks)
        height = 2.0 * ridge.loss + norm.dual_bound(slopes, lengths) ** 2
        if height > 0:
            dual = max(dual, 0.5 * ridge.target_product**2 / height)
        return LatticePoint(weights, ridge, lengths, objective, dual)

    def is_solved(self, point: LatticePoint, tol: float) -> bool:
        return point.gap <= max(tol * point.objective, ROUNDING * self.unit)

    def solve(
        self, last: LatticePoint | None, tol: float, most: int
    ) -> tuple[LatticePoint, int]:
        """Reweight until the gap is below tol, from another solution if any."""
        norm = self.norm
        weights = norm.weights(np.zeros((len(self.rotated.blocks), len(norm.groups))))
        if last is not None:
            weights = 0.9 * last.weights + 0.1 * weights
        point = self.at(weights, last and last._replace(dual=0.0, objective=self.unit))
        n_iter, stretch = 1, 1.0
        while n_iter < most and not self.is_solved(point, tol):
            n_iter += 1
            # Weights are bounded below so that unused groups can return.
            share = 0.1 * point.gap / point.objective / len(norm.groups)
            plain = norm.weights(point.lengths, float(np.clip(share, 1e-14, 1e-6)))
            # Longer steps in log κ while they lower the objective (Salakhutdinov and
            # Roweis: Adaptive Overrelaxed Bound Optimization Methods. ICML 2003).
            ratio = np.clip(plain / point.weights, 0.1, 10.0) ** (stretch - 1.0)
            tried = self.at(plain * ratio, point)
            worse = tried.objective > (1.0 + ROUNDING) * point.objective
            if worse and stretch > 1.0:
                stretch, point = 1.0, point._replace(dual=tried.dual)
                continue
            point, stretch = tried, 1.2 * stretch
        return point, n_iter

    def grow(self, tol: float, most: int) -> tuple["LatticeProblem", LatticePoint, int]:
        """Active-set rule: solve, then add groups g with ‖(√D_jg)_j‖_p* > Ω d_g.

        Only groups all of whose proper subsets are present are candidates.
        """
        problem, (point, n_iter) = self, self.solve(None, tol, most)
        while True:
            norm = problem.norm
            groups = candidate_groups(norm.groups, norm.m)
            others = replace(norm, groups=groups)
            lengths = others.dual_lengths(point.ridge.correlation, self.rotated.blocks)
            slopes = _norms(lengths.T, norm.p / (norm.p - 1.0)) / others.cost
            excess = slopes - norm.levels(point.lengths).total
            room = MOST_GROUPS - len(norm.groups)
            strongest = np.argsort(-excess, kind="stable")[:room]
            added = [groups[k] for k in strongest if excess[k] > 0.0]
            if not added:
                return problem, point, n_iter
            grown = check_groups([*norm.groups, *added])
            problem = replace(problem, norm=replace(norm, groups=grown))
            # Starting weights for the new groups, the old weights for the others.
            weights = problem.norm.weights(np.zeros((len(point.weights), len(grown))))
            weights[:, [grown.index(group) for group in norm.groups]] = point.weights
            point, n = problem.solve(point._replace(weights=weights), tol, most)
            n_iter += n


class _Bound(NamedTuple):
    rotated: Rotated
    tasks: tuple[Hashable, ...]
    groups: list[Group]
    choice: str


@dataclass(eq=False, repr=False)
class _MTFL(Baseline):
    followed = "C"

    C: float = 1.0
    _: KW_ONLY
    mean_share: float = 0.1
    growth: float = 1.5
    p: float = 1.5
    q: float = 1.5
    blocks: Any = None
    groups: Any = "auto"
    tol: float = 1e-6
    max_iter: int = 1000

    def _bind(self, data: TaskData) -> _Bound:
        d, m = data.shape
        listed = [range(d)] if self.blocks is None else self.blocks
        places: dict[Any, int] = {j: j for j in range(d)}
        places |= {name: j for j, name in enumerate(data.features or ())}
        blocks = [[places.get(entry, -1) for entry in block] for block in listed]
        if sorted(chain(*blocks)) != list(range(d)) or not all(blocks):
            raise ValueError(
                f"blocks must hold each of the {d} features exactly once, by position "
                f"or name, and none may be empty: got {self.blocks!r}."
            )
        indices = [np.array(block, dtype=np.intp) for block in blocks]
        rotated = Rotated.of(data, indices, intercept=bool(self.fit_intercept))
        choice = self.groups
        if not isinstance(choice, str):
            return _Bound(
                rotated, data.tasks, named_groups(choice, data.tasks), "given"
            )
        check_choice("groups", choice, ("auto", "all", "tree", "active"))
        if choice == "auto":
            choice = "all" if m <= MOST_TASKS else "tree"
        groups: list[Group] = [(i,) for i in range(m)]
        if choice == "all":
            if m > MOST_TASKS:
                raise ValueError(
                    f'groups="all" needs at most {MOST_TASKS} tasks: got {m}. Use '
                    '"tree", "active" or a list of groups.'
                )
            groups = check_groups(
                chain(*(combinations(range(m), size) for size in range(1, m + 1)))
            )
        elif choice == "tree":
            # Single-task ridge regressions, at the mean curvature.
            coef, strength = np.zeros_like(rotated.linear), float(rotated.mean.mean())
            if strength > 0.0:
                alone = np.tile(np.eye(m), (len(blocks), 1, 1))
                accuracy = 1e-12 * rotated.constant / strength
                coef = solve_ridge(rotated, 1.0 / strength, alone, coef, accuracy).coef
            groups = tree_groups(coef)
        return _Bound(rotated, data.tasks, groups, choice)

    def _norm(self, bound: _Bound, mean_share: float, growth: float) -> LatticeNorm:
        powers = check_strength("p", self.p), check_strength("q", self.q)
        for name, power in zip("pq", powers, strict=True):
            if not LEAST_POWER <= power <= 2.0:
                raise ValueError(
                    f"{name} must be between {LEAST_POWER} and 2: got {power!r}."
                )
        return LatticeNorm(bound.groups, len(bound.tasks), mean_share, growth, *powers)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        mean_share = check_positive("mean_share", self.mean_share)
        if mean_share > 1.0:
            raise ValueError(f"mean_share must be at most 1: got {self.mean_share!r}.")
        norm = self._norm(bound, mean_share, check_positive("growth", self.growth))
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        point, fit = None, bound.rotated.fit
        for C in strengths:
            problem = LatticeProblem(bound.rotated, norm, check_positive("C", C))
            if bound.choice == "active":
                problem, point, n_iter = problem.grow(tol, most)
            else:
                point, n_iter = problem.solve(point, tol, most)
            group, _, total = problem.norm.levels(point.lengths)
            used = group > 1e-5 * total * problem.norm.start
            learned = {
                "dual_gap_": point.gap,
                "groups_": [
                    tuple(bound.tasks[i] for i in g) for g in problem.norm.groups
                ],
                "group_weights_": np.where(used, group, 0.0),
                "group_choice_": bound.choice,
            }
            shortfall = None
            if not problem.is_solved(point, tol):
                shortfall = (
                    f"the duality gap is {point.gap:.3g}, above tol={tol:g} times the "
                    f"objective {point.objective:.3g}, after {n_iter} iterations; "
                    "raise max_iter or tol."
                )
            W = np.ascontiguousarray(point.ridge.coef.T)
            coef = np.ascontiguousarray(bound.rotated.to_features(W.T))
            model = LinearModel(coef, fit.intercept_at_zero(fit.evaluate(W)))
            yield Outcome(model, point.objective, n_iter, learned, shortfall)

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        n_pairs = int(np.clip(n // 5, 1, len(PAIRS)))
        count, rotated = n // n_pairs, bound.rotated
        # Centres of equal parts of five decades, in logarithms.
        grid = 10.0 ** (-2.0 + 5.0 * (np.arange(count) + 0.5) / count)
        settings: list[Settings] = []
        for mean_share, growth in PAIRS[:n_pairs]:
            norm = self._norm(bound, mean_share, growth)
            # ‖y‖² / Ω°(Xᵀy)²: there the best multiple of y as a dual point is a half.
            lengths = norm.dual_lengths(rotated.linear, rotated.blocks)
            bottom = norm.dual_bound(lengths, np.zeros_like(lengths)) ** 2
            unit = rotated.constant / bottom if bottom > 0 else 1.0
            outer = {"mean_share": mean_share, "growth": growth}
            settings += crossed([outer], "C", unit * grid)
        return settings


class MTFL(RegressionTasks, _MTFL):
    """Regression that learns which groups of tasks share coefficients.

    This is our reconstruction of the method of Jawanpuria and Nath (2012): exponents,
    weights and loss are ours. Every group of tasks g has coefficients U_jg on each
    block j of features; the coefficients of a task are the sum over its groups. The
    method minimises over U and intercepts b::

        1/2 Ω(U)² + C/2 Σ w (x p_i + b_i − y)²

        Θ_jg² = mean_share |g| ‖mean of U_jg‖² + Σ_i∈g ‖u_i − mean‖²
        Q_g = (Σ_j Θ_jg^p)^(1/p),   N_v = (Σ_g⊇v Q_g^q)^(1/q)
        Ω = Σ_v growth^(|v| − 1) N_v

    which is convex. If a group of tasks shares nothing (N_v = 0), no group that
    contains it shares anything. The norm sums over all tasks before it is squared, so
    the best C grows with the number of tasks, and tasks compete for the norm.

    Parameters
    ----------
    C : float, default=1.0
        Strength of the loss, above 0; larger values regularise less.
    mean_share : float, default=0.1
        Weight of the mean of a group in its norm (μ), in (0, 1]. At 1, tasks are not
        shrunk towards the mean of their group.
    growth : float, default=1.5
        Factor by which each further task makes a group more expensive (a), above 0.
        With large values only single tasks are used.
    p, q : float, default=1.5
        Exponents over blocks, and over groups that contain a group, from 1.05 to 2. At
        q = 2 no group vanishes.
    blocks : list of lists of features, optional
        Positions or names; each feature belongs to one block. None: one block.
    groups : {"auto", "all", "tree", "active"} or list of lists of task labels
        Candidate groups. "all": every subset, for up to 10 tasks. "tree": the nodes of
        an average-linkage tree of single-task ridge regressions. "active": single
        tasks, then groups that violate a necessary optimality condition and whose
        proper subsets are all present, up to 1023. "auto": "all" for up to 10 tasks,
        else "tree".
    tol, max_iter : float, default=1e-6; int, default=1000
        Largest duality gap, relative to the objective, and number of iterations.
    fit_intercept, task_weight, standardize, task
        See :class:`DMTL`.

    Attributes
    ----------
    groups_, group_choice_ : list of tuples of task labels, str
        The candidate groups, small ones first, and how they were chosen.
    group_weights_ : (g,) array
        Q_g of each group; 0 below a share of 1e-5 of the norm.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl.baselines import MTFL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((30, 4)), np.repeat(["a", "b", "c"], 10)
    >>> direction = np.where(task == "c", -1.0, 1.0)
    >>> y = direction * (X @ [2.0, -1.0, 1.0, 0.5])
    >>> model = MTFL(mean_share=0.05, growth=0.7).fit(X, y, task=task)
    >>> used = model.group_weights_ > 0.01
    >>> [group for group, keep in zip(model.groups_, used) if keep]
    [('a',), ('b',), ('c',), ('a', 'b')]
    """

    loss = "squared"


class MTFLClassifier(ClassificationTasks, _MTFL):
    """:class:`MTFL` on classes coded −1 and +1: squared loss, no probabilities."""

    loss = "squared"
