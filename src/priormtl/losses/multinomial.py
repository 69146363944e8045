"""Multinomial loss of K classes: f(η) = log Σ_k e^{η_k} − η_y, for scores η (K,).

Every class has coefficients of its own in every task (the symmetric parametrisation;
penalties make it unique). They are columns of P, class after class, so that P is
(d, K m), a row of the ℓ2,1 norm is a feature over all tasks and classes, and relations
and ties act on each class. With probabilities p and the class as e_y (one-hot),
f′ = p − e_y and f″ = diag(p) − p pᵀ; the conjugate is Σ q_k log q_k, with q = v + e_y
on the simplex.

Quadratic models must be sums over columns. Theirs has curvatures c p (1 − p), with the
least c of each row for which they are nowhere below f″: 1 ≤ c ≤ 2, and they are exact
where the classes are equally likely. Intercepts and Hessians take f″ itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from scipy.special import xlogy

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl._numerics import TINY, conjugate_gradients
from priormtl.data import (
    StackedRows,
    TaskData,
    TaskStatistics,
    condense,
    shift_samples,
)
from priormtl.losses.base import FreeIntercepts, Intercepts, TiedIntercepts
from priormtl.losses.family import (
    Family,
    FamilyEvaluation,
    FamilyFit,
    densify_small,
)
from priormtl.losses.squared import SquaredFit
from priormtl.priors.graphs import Laplacian

MOST_DENSE = 400  # tied intercepts whose system is inverted as one matrix


def softmax(eta: Array) -> Array:
    """Probabilities of classes, given scores (…, K)."""
    shares = np.exp(eta - eta.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ClassRows(TaskData):
    """Rows of task after task whose K classes are columns: y and weight are (n, K).

    There is a "task" for each class and task, class after class.
    """

    starts: Index  # (m + 1,) where each task begins

    @classmethod
    def of(cls, data: StackedRows, classes: int) -> Self:
        """Rows whose targets are numbers of classes, from 0 on."""
        y = np.equal(data.y[:, np.newaxis], np.arange(classes)).astype(np.float64)
        weight = np.repeat(data.weight[:, np.newaxis], classes, axis=1)
        tasks = tuple((k, task) for k in range(classes) for task in data.tasks)
        offset = None if data.offset is None else data.offset[:, np.newaxis]
        parts = data.X, y, weight, tasks, data.features, data.starts
        return cls(*parts, offset=offset)

    @property
    def classes(self) -> int:
        return int(self.y.shape[1])

    def forward(self, P: Array) -> Array:
        scores, m = np.empty(self.y.shape), len(self.starts) - 1
        for i, rows in enumerate(self._slices):
            scores[rows] = self.X[rows] @ P[:, i::m]
        return scores

    def adjoint(self, R: Array) -> Array:
        m = len(self.starts) - 1
        sums = np.empty((self.X.shape[1], self.classes * m))
        for i, rows in enumerate(self._slices):
            sums[:, i::m] = self.X[rows].T @ R[rows]
        return sums

    def task_sums(self, R: Array) -> Array:
        R = np.broadcast_to(R, self.y.shape)
        return np.ascontiguousarray(np.add.reduceat(R, self.starts[:-1]).T).ravel()

    def spread(self, b: Array) -> Array:
        return np.repeat(b.reshape(self.classes, -1).T, np.diff(self.starts), axis=0)

    def rows_of(self, i: int) -> tuple[Matrix, Array, Array]:
        k, own = divmod(i, len(self.starts) - 1)
        rows = self._slices[own]
        return self.X[rows], self.y[rows, k], self.weight[rows, k]

    @cached_property
    def _slices(self) -> list[slice]:
        ends = self.starts.tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def of_class(self, k: int) -> StackedRows:
        """Rows with the column of one class."""
        m = len(self.starts) - 1
        y, weight = np.array(self.y[:, k]), np.array(self.weight[:, k])
        tasks = self.tasks[k * m : (k + 1) * m]
        return StackedRows(self.X, y, weight, tasks, self.features, self.starts)

    def stacked(self) -> StackedRows:
        """The same as rows of one column each, task after task of class after class."""
        K, n = self.classes, self.starts[-1]
        X = vstack([self.X] * K, "csr") if hasattr(self.X, "nnz") else None
        starts = np.concatenate(
            [self.starts[:-1] + k * n for k in range(K)] + [[K * n]]
        )
        return StackedRows(
            np.tile(self.X, (K, 1)) if X is None else X,
            self.y.T.ravel(),
            self.weight.T.ravel(),
            self.tasks,
            self.features,
            starts.astype(np.intp),
        )


@dataclass(frozen=True)
class Multinomial(Family):
    """Negative log-likelihood of one of K classes; arrays are (n, K), y one-hot."""

    classes: int

    name: ClassVar[str] = "multinomial"
    boosting: ClassVar[str] = "log_loss"

    @property
    def scores_per_row(self) -> int:  # type: ignore[override]
        return self.classes

    @property
    def scoring(self) -> tuple[str, float]:  # type: ignore[override]
        """Log-loss of a row, of which the loss of each class is a part."""
        return "neg_log_loss", float(self.classes)

    def check(self, y: Array, *, weighted: bool) -> None:
        if not np.all((y == 0) | (y == 1)):
            raise ValueError("y must be one-hot with multinomial loss.")

    def loss(self, eta: Array, y: Array) -> Array:
        apart = eta - eta.max(axis=1, keepdims=True)
        return y * (np.log(np.exp(apart).sum(axis=1, keepdims=True)) - apart)

    def constant(self, y: Array) -> Array:
        return np.zeros_like(y)

    def slope(self, eta: Array, y: Array) -> Array:
        return softmax(eta) - y

    def boosting_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """Slopes, and the diagonal p (1 − p) of the second derivatives."""
        p = softmax(eta)
        return p - y, p * (1.0 - p)

    def bend(self, eta: Array, y: Array) -> Array:
        """Curvatures c p (1 − p) of each class, together nowhere below f″."""
        p = softmax(eta)
        rest = np.maximum(1.0 - p, TINY)
        # c is the largest eigenvalue of diag(a) − u uᵀ, a = 1 / (1 − p), u² = p a. It
        # lies between the two largest a, where Σ u² / (a − c) rises to 1, and below 2.
        a = 1.0 / rest
        order = np.sort(a, axis=1)
        low, high = (np.minimum(order[:, [-k]], 2.0) for k in (2, 1))
        for _ in range(12):
            c = 0.5 * (low + high)
            with np.errstate(divide="ignore", invalid="ignore"):
                sums = np.sum(p * a / (a - c), axis=1, keepdims=True)
            low, high = np.where(sums < 1.0, c, low), np.where(sums < 1.0, high, c)
        return np.asarray(high * p * rest)

    def far_bend(self, eta: Array, y: Array) -> Array:
        """Those at η, which are bounds: no one score has a given slope."""
        return self.bend(eta, y)

    def curvature_root(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """(I − q q') diag(q) with q = √p, whose square is diag(p) − p p'."""
        q = np.sqrt(softmax(eta))
        apart = np.eye(self.classes) - q[:, :, np.newaxis] * q[:, np.newaxis, :]
        return apart * q[:, np.newaxis, :], q

    def conjugate(self, v: Array, y: Array) -> Array:
        q = np.maximum(v + y, 0.0)
        return np.asarray(xlogy(q, q))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return -y, 1.0 - y

    def score(self, v: Array, y: Array) -> Array:
        return np.log(np.maximum(v + y, TINY))

    def mean(self, eta: Array) -> Array:
        return softmax(eta)

    def link(self, mean: Array) -> Array:
        return np.log(np.maximum(mean, 1e-10))

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        """Every class is there."""
        return np.asarray(mean > 0)

    def bind(
        self,
        data: TaskData | TaskStatistics,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> "MultinomialFit":
        """Fit of rows with one task each, whose targets are numbers of classes."""
        if not isinstance(data, StackedRows):
            raise TypeError(
                f"multinomial loss needs rows with one task label each: got "
                f"{type(data).__name__}."
            )
        small = densify_small(data)
        assert isinstance(small, StackedRows)
        data = small
        zero = np.zeros(data.shape[::-1])
        points = zero if shift is None else zero + shift
        if isinstance(intercepts, FreeIntercepts):
            shifted, points = shift_samples(data)
            assert isinstance(shifted, StackedRows)
            data = shifted
        rows = ClassRows.of(data, self.classes)
        points = np.tile(points, (self.classes, 1))
        return MultinomialFit(self, rows, intercepts, points)


class MultinomialFit(FamilyFit):
    """Multinomial loss on rows, intercepts minimised out."""

    data: ClassRows
    has_exact_models: ClassVar[bool] = False

    def balance(self, P: Array) -> Array:
        """P less the mean over classes."""
        by_class = P.reshape(len(P), self.data.classes, -1)
        apart = by_class - by_class.mean(axis=1, keepdims=True)
        return np.asarray(apart.reshape(P.shape))

    def hessian(self, at: FamilyEvaluation, V: Array) -> Array:
        _, change = self._follow(at, V)
        return self.data.adjoint(self.data.weight * self.turn(at, change))

    def turn(self, at: FamilyEvaluation, change: Array) -> Array:
        """(diag(p) − p pᵀ) times a change of scores, row by row."""
        p = at.slopes + self.data.y
        return np.asarray(p * (change - np.sum(p * change, axis=1, keepdims=True)))

    def _follow(self, at: FamilyEvaluation, V: Array) -> tuple[Array, Array]:
        scores, data = self.data.forward(V), self.data
        if self.intercepts.are_fixed:
            return np.zeros(self.shape[1]), scores
        b = self._solve(at, -data.task_sums(data.weight * self.turn(at, scores)))
        return b, scores + data.spread(b)

    def _intercept_step(
        self, point: FamilyEvaluation, bends: Array | None = None
    ) -> FamilyEvaluation:
        """Newton step in b, with the classes of a task coupled."""
        return replace(point, b=point.b + self._solve(point, -point.intercept_slope))

    def _solve(self, at: FamilyEvaluation, rhs: Array) -> Array:
        """Solve the Newton system of the intercepts, which is singular along shifts."""
        data, K = self.data, self.data.classes
        solve = at.__dict__.get("solve")
        if solve is not None:
            return np.asarray(solve(rhs))
        p, w = at.slopes + data.y, data.weight[:, :1]
        cross = -(w * p)[:, :, np.newaxis] * p[:, np.newaxis, :]
        blocks = np.add.reduceat(cross, data.starts[:-1])  # (m, K, K)
        diagonal = np.add.reduceat(w * p, data.starts[:-1])
        blocks[:, np.arange(K), np.arange(K)] += diagonal
        graph, size = self.intercepts.graph, len(rhs)

        def multiply(blocks: Array, b: Array) -> Array:
            own = np.matmul(blocks, b.reshape(K, -1).T[:, :, np.newaxis])[:, :, 0]
            return own.T.ravel()

        group = 0.0 if graph is None or graph.part is None else graph.part.one_group
        if graph is None:
            inverse = np.linalg.pinv(blocks, rcond=1e-13, hermitian=True)
            solve = partial(multiply, inverse)
        elif group:
            solve = _group_solver(blocks, self.intercepts.tie_strength * group)
        elif size <= MOST_DENSE:
            whole = self.intercepts.tie_strength * graph.dense()
            place = np.arange(size).reshape(K, -1)
            for i, block in enumerate(blocks):
                whole[np.ix_(place[:, i], place[:, i])] += block
            dense = np.linalg.pinv(whole, rcond=1e-13, hermitian=True)
            solve = partial(np.matmul, dense)
        else:
            floored = np.maximum(diagonal.T.ravel(), 1e-14 * self._units)
            by_diagonal = self.intercepts.solver(floored)
            solve = partial(
                conjugate_gradients,
                lambda r: by_diagonal(r / floored),
                lambda b, _: multiply(blocks, b) + self.intercepts.slope(b),
                tol=1e-12,
                most=20 * size,
            )
        at.__dict__["solve"] = solve
        return np.asarray(solve(rhs))

    def reweighted(self, at: FamilyEvaluation, bends: Array | None = None) -> TaskData:
        model = super().reweighted(at, bends)
        assert isinstance(model, ClassRows)
        return model.stacked()

    def class_models(self, at: FamilyEvaluation) -> list[SquaredFit]:
        """Quadratic model of each class, which are a sum."""
        rows, graph = super().reweighted(at), self.intercepts.graph
        assert isinstance(rows, ClassRows)
        own = self.intercepts
        if graph is not None:
            assert graph.part is not None
            own = TiedIntercepts(graph.part, self.intercepts.tie_strength)
        parts = map(rows.of_class, range(rows.classes))
        return [SquaredFit(condense(part), own) for part in parts]

    def square_sums(self, weight: Array) -> Array:
        """Sums of squares of features, with weights (n, K) of classes (d, K m)."""
        X = self.data.X
        squares = csr_array(X.multiply(X)) if issparse(X) else X**2
        return self.data.with_matrix(squares).adjoint(weight)

    def hessian_blocks(
        self, at: FamilyEvaluation, own: Index, shared: Index
    ) -> tuple[Array, Array, Array]:
        """Hessian over what tasks have of their own, and over what they share.

        Blocks (m, K p, K p) of intercepts, if any, and of features ``own``, class after
        class; (m, K p, K q) of these with features ``shared``; (K q, K q) of those.
        """
        data, m, K = self.data, len(self.data.starts) - 1, self.data.classes
        X = data.X.toarray() if issparse(data.X) else data.X
        extra = np.ones((len(X), 0 if self.intercepts.are_fixed else 1))
        Z, S = np.hstack([extra, X[:, own]]), X[:, shared]
        p, q = Z.shape[1], S.shape[1]
        few = p <= 3  # then many small products cost more than passes over the rows
        inner, border = np.zeros((m, K, p, K, p)), np.zeros((m, K, p, K, q))
        corner = np.zeros((K, q, K, q))
        chance, weight = at.slopes + data.y, data.weight[:, 0]
        for k in range(K):
            for other in range(k, K):
                share = float(k == other) - chance[:, other]
                bends = (weight * chance[:, k] * share)[:, np.newaxis]
                corner[k, :, other] = S.T @ (bends * S)
                corner[other, :, k] = corner[k, :, other].T
                scaled = bends * Z
                for j in range(p if few else 0):  # sums over all tasks at once
                    column, starts = scaled[:, j : j + 1], data.starts[:-1]
                    inner[:, k, j, other] = np.add.reduceat(column * Z, starts)
                    border[:, k, j, other] = np.add.reduceat(column * S, starts)
                for i, rows in enumerate(() if few else data._slices):
                    inner[i, k, :, other] = scaled[rows].T @ Z[rows]
                    border[i, k, :, other] = scaled[rows].T @ S[rows]
                inner[:, other, :, k] = inner[:, k, :, other]
                border[:, other, :, k] = border[:, k, :, other]
        return (
            inner.reshape(m, K * p, K * p),
            border.reshape(m, K * p, K * q),
            corner.reshape(K * q, K * q),
        )

    def newton_dual(self, at: FamilyEvaluation, V: Array, product: Array) -> float:
        change, scores = self._follow(at, V)
        v = at.slopes + self.turn(at, scores)
        return self._dual_at(at, v, change)


def _group_solver(blocks: Array, strength: float) -> Callable[[Array], Array]:
    """Solver of (blocks + strength (I − mean over tasks)) b = rhs, class after class.

    Given the mean c (K,) over tasks, b_i = (blocks_i + strength I)⁻¹ (rhs_i + strength
    c), and the mean is such that Σ_i blocks_i b_i = Σ_i rhs_i.
    """
    m, K, _ = blocks.shape
    inverse = np.linalg.inv(blocks + strength * np.eye(K))
    share = inverse @ blocks  # of b_i that its task decides; hence no difference
    # A constant of all classes changes nothing. Weak ties magnify its rounding errors.
    apart = np.eye(K) - 1.0 / K
    total = apart @ share.sum(axis=0) @ apart
    whole = np.linalg.pinv(0.5 * (total + total.T), rcond=1e-13, hermitian=True)
    whole /= strength

    def solve(rhs: Array) -> Array:
        rest = rhs.reshape(K, m).T
        left = rest - np.matmul(share, rest[:, :, np.newaxis])[:, :, 0]
        known = rest + strength * (whole @ left.sum(axis=0))
        b = np.matmul(inverse, known[:, :, np.newaxis])[:, :, 0]
        return np.ascontiguousarray(b.T).ravel()

    return solve


def by_class(graph: Laplacian, classes: int) -> Laplacian:
    """The same ties for each of K classes: K copies of a graph, class after class."""
    m, k = graph.m, len(graph.names)
    firsts, seconds, names = list[Index](), list[Index](), list[str]()
    for c in range(classes):
        for ends, out in ((graph.first, firsts), (graph.second, seconds)):
            latent = ends >= m
            out.append(np.where(latent, ends + (classes - 1) * m + c * k, ends + c * m))
        names += graph.names
    return replace(
        graph,
        m=classes * m,
        first=np.concatenate(firsts),
        second=np.concatenate(seconds),
        weight=np.tile(graph.weight, classes),
        names=tuple(names),
        level=np.tile(graph.level, classes),
        part=graph,
    )
