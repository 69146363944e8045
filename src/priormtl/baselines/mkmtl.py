"""MKMTL: multiple-kernel multi-task learning.

X. Liu, P. Cao, J. Yang, D. Zhao: Linearized and Kernelized Sparse Multitask Learning
for Predicting Cognitive Outcomes in Alzheimer's Disease. Computational and Mathematical
Methods in Medicine 2018, 7429782.

A kernel matrix K of some rows gives features Φ = K T with Φ Φᵀ = K: a function of
coordinates f has values k(x, rows) T f and the norm of f. So both variants (see
:class:`MKMTL`) are least squares in features with half a squared norm of the
coordinates, which ADMM (``Splitting``) minimises.

Large tables use some of their rows as landmarks (Williams and Seeger: Using the Nyström
Method to Speed Up Kernel Machines. NIPS 2000).
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import safe_sparse_dot

from priormtl import solvers
from priormtl._arrays import Array, Matrix
from priormtl.baselines import base
from priormtl.checks import check_choice, check_count, check_positive, check_tolerance
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.exceptions import ApproximationWarning
from priormtl.losses import NoIntercepts, Squared, SquaredFit
from priormtl.penalties import LowRankKernels, SharedKernels
from priormtl.problem import Problem, QuadraticPrior

LARGEST_TABLE = 10_000_000  # numbers in the features that "auto" computes: 80 MB


# Base kernels, as functions of xᵀz / d, d the number of features, and of ‖x − z‖²


@dataclass(frozen=True)
class Gaussian:
    """exp(−‖x − z‖² / (2 width²))."""

    width: float

    def values(self, products: Array, distances: Array) -> Array:
        return np.asarray(np.exp(distances / (-2.0 * self.width**2)))


@dataclass(frozen=True)
class Polynomial:
    """(xᵀz / d + 1)^degree, d the number of features."""

    degree: int

    def values(self, products: Array, distances: Array) -> Array:
        return np.asarray((products + 1.0) ** self.degree)


@dataclass(frozen=True)
class Linear:
    """xᵀz / d, d the number of features."""

    def values(self, products: Array, distances: Array) -> Array:
        return products


BaseKernel = Gaussian | Polynomial | Linear


def choose_kernels(kernels: object, X: Matrix, share: Array) -> tuple[BaseKernel, ...]:
    """Kernels as given, or Gaussians of several widths, polynomials and the linear."""
    if kernels is None:
        centre = np.asarray(share @ X)
        with np.errstate(over="ignore"):
            variance = float(share @ _squares(X if issparse(X) else X - centre))
        if issparse(X):
            variance = max(variance - float(centre @ centre), 0.0)
        unit = float(np.sqrt(2.0 * variance)) or 1.0
        gaussians = (Gaussian(unit * width) for width in (0.25, 0.5, 1.0, 2.0, 4.0))
        return (*gaussians, Polynomial(2), Polynomial(3), Linear())
    listed = tuple(kernels) if isinstance(kernels, tuple | list) else ()
    if listed and all(isinstance(kernel, BaseKernel) for kernel in listed):
        return listed
    raise ValueError(
        "kernels must be None or a tuple of kernels such as (Gaussian(1.0), Linear()): "
        f"got {kernels!r}."
    )


def _squares(X: Matrix) -> Array:
    return np.asarray((X.multiply(X) if issparse(X) else X * X).sum(axis=1)).ravel()


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Kernels, each divided by its mean diagonal on the training rows."""

    kernels: tuple[BaseKernel, ...]
    unit: Array  # (k,)

    def values(self, X: Matrix, Z: Matrix) -> Iterator[Array]:
        """Each kernel of every pair of rows (n, u)."""
        products = safe_sparse_dot(X, Z.T, dense_output=True) / X.shape[1]
        if not issparse(X):  # far from the origin, squares would cancel
            X, Z = X - Z.mean(axis=0), Z - Z.mean(axis=0)
        distances = np.add.outer(_squares(X), _squares(Z)) - 2.0 * safe_sparse_dot(
            X, Z.T, dense_output=True
        )
        distances = np.maximum(distances, 0.0)
        pairs = zip(self.kernels, self.unit, strict=True)
        return (kernel.values(products, distances) / unit for kernel, unit in pairs)

    def roots(self, rows: Matrix) -> Array:
        """T (k, u, r) with K T Tᵀ K = K for each kernel matrix K of these rows."""
        values, vectors = np.linalg.eigh(np.stack(list(self.values(rows, rows))))
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]
        # Small eigenvalues are noise; kernels of lower rank get columns of zeros.
        kept = values > 1e-10 * np.maximum(values[:, :1], np.finfo(float).tiny)
        inverse = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        rank = max(1, int(kept.sum(axis=1).max()))
        return np.asarray((vectors * inverse[:, np.newaxis])[:, :, :rank])


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Functions of m tasks, each a sum over kernels."""

    features: KernelFeatures
    rows: Matrix  # (u, d)
    weights: Array  # (m, k, u) of the kernels of these rows
    offset: Array  # (m,)
    scale: Array  # (d,) that X is divided by first

    def in_user_units(self, scale: Array) -> Self:
        return replace(self, scale=scale)

    def scores(self, X: Matrix, i: int) -> Array:
        X = csr_array(X.multiply(1.0 / self.scale)) if issparse(X) else X / self.scale
        values = self.features.values(X, self.rows)
        parts = (K @ a for K, a in zip(values, self.weights[i], strict=True))
        return np.asarray(sum(parts, np.full(X.shape[0], self.offset[i])))


class _Bound(NamedTuple):
    """Least squares in the features of kernels."""

    fit: SquaredFit
    features: KernelFeatures
    rows: Matrix  # (u, d) whose kernels span the functions
    roots: Array  # (k, u, r)
    offset: Array  # (m,) subtracted from the targets
    unit: float  # what they are divided by then
    row_weight: float  # mean weight of a target
    n_landmarks: int | None  # as chosen


@dataclass(eq=False, repr=False)
class _MKMTL(base.Baseline):
    followed = "C"
    loss = "squared"

    C: float = 1.0
    _: KW_ONLY
    variant: str = "low-rank"
    p: float = 2.0
    q: float = 1.5
    kernels: object = None
    normalize: bool = True
    max_rows: int = 3000
    n_landmarks: object = "auto"
    tol: float = 1e-4
    max_iter: int = 10_000
    random_state: int = 0

    def _bind(self, data: TaskData) -> _Bound:
        weight = data.weight if data.weight.ndim == 1 else data.weight.sum(axis=1)
        share = weight / weight.sum()
        kernels = choose_kernels(self.kernels, data.X, share)
        with np.errstate(over="ignore"):
            own, zero = _squares(data.X) / data.shape[0], np.zeros(len(share))
            unit = np.array([share @ kernel.values(own, zero) for kernel in kernels])
        if not np.all(np.isfinite(unit)):
            raise ValueError(
                "X is too large: a kernel overflows. Set standardize=True."
            )
        unit = np.where((unit > 0) & bool(self.normalize), unit, 1.0)
        features = KernelFeatures(kernels, unit)
        distinct = base.find_distinct(data.X)
        every = rows = data.X[distinct.first]
        count = self._choose_landmarks(len(kernels), rows.shape[0], data.X.shape[0])
        if count is not None:
            order = np.random.default_rng(self.random_state).permutation(rows.shape[0])
            rows = rows[np.sort(order[:count])]
        roots = features.roots(rows)
        values = features.values(every, rows)
        table = np.hstack([K @ T for K, T in zip(values, roots, strict=True)])
        # Targets about their means, exact where all are equal, and at most one.
        offset = np.zeros(data.shape[1])
        if self.fit_intercept:
            for i in range(len(offset)):
                _, y, w = data.rows_of(i)
                offset[i] = y[0] + w @ (y - y[0]) / w.sum()
        y = np.where(data.weight > 0, data.y - data.spread(offset), 0.0)
        size = float(np.abs(y).max()) or 1.0
        row_weight = float(data.weight[data.weight > 0].mean())
        data = replace(data, X=table[distinct.kind], y=y / size, features=None)
        fit = Squared().bind(data, NoIntercepts())
        return _Bound(fit, features, rows, roots, offset, size, row_weight, count)

    @property
    def _is_shared(self) -> bool:
        variants = ("low-rank", "shared")
        return check_choice("variant", self.variant, variants) == "shared"

    def _choose_landmarks(self, k: int, u: int, n: int) -> int | None:
        """How many landmarks there are among u distinct ones of n rows; None: all."""
        few = u <= check_count("max_rows", self.max_rows)
        few = few and (self._is_shared or k * u * n <= LARGEST_TABLE)
        if self.n_landmarks != "auto":
            asked = self.n_landmarks
            return None if asked is None else check_count("n_landmarks", asked)
        if few or u <= (count := 64):
            return None
        saved = 8.0 * k * n * (u - count) / 2**30
        warnings.warn(
            f"kernels are approximated with {count} landmarks among {u} distinct "
            f"rows, which saves {saved:.2g} GiB of memory. Set n_landmarks to a "
            "larger number for more accuracy, or to None to use all rows.",
            ApproximationWarning,
            stacklevel=2,
        )
        return count

    def _follow(
        self, bound: _Bound, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        (k, _, r), (d, m) = bound.roots.shape, bound.fit.shape
        is_shared = self._is_shared
        p, q = check_positive("p", self.p), check_positive("q", self.q)
        if is_shared and p < 2.0:
            raise ValueError(f"p must be at least 2: got {p}.")
        if not is_shared and not 1.0 < q < 2.0:
            raise ValueError(f"q must be between 1 and 2, both excluded: got {q}.")
        norm = SharedKernels(k, p) if is_shared else LowRankKernels(k, q)
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        problem = Problem(bound.fit, QuadraticPrior.none(d, m), norm, 1.0)
        start = problem.null_point
        for C in strengths:
            # The published losses are C/2 and C times the squared error.
            c = check_positive("C", C) * (1.0 if is_shared else 2.0)
            posed, close = problem.with_strengths(lam=1.0 / c), base.SplittingGap(tol)
            rules: list[solvers.StopRule] = [close, solvers.stalled()]
            rules.append(solvers.max_iter(most))
            found = solvers.solve(posed, solvers.Splitting(), coef=start, stop=rules)
            start, unit, shortfall = found.point, c * bound.unit**2, None
            primal = unit * found.certificate.primal
            gap = unit * close.gap
            if found.reason is solvers.StopReason.MAX_ITER:
                shortfall = base.explain_gap(gap, tol, primal, found.n_iter)
            learned = {
                "dual_gap_": gap,
                "kernel_weights_": norm.weights(found.coef),
                "kernels_": bound.features.kernels,
            }
            weights = bound.roots @ (bound.unit * found.coef.reshape(k, r, m))
            weights = weights.transpose(2, 0, 1)
            known = bound.features, bound.rows, weights, bound.offset
            model = KernelModel(*known, np.ones(bound.rows.shape[1]))
            yield base.Outcome(model, primal, found.n_iter, learned, shortfall)

    def _suggest(self, bound: _Bound, n: int) -> list[base.Settings]:
        name, values = "q", [1.5, 1.01, 1.99]
        if self._is_shared:
            name, values = "p", [2.0, 4.0]
        # Four values of C before another power is tried.
        landmarks = {"n_landmarks": bound.n_landmarks}
        outer = [{**landmarks, name: value} for value in values[: max(1, n // 4)]]
        count = max(1, n // len(outer))
        # Four decades of C for rows of weight one; one or two values are off the ends.
        middles = np.arange(0.5, count) / count
        share = np.linspace(0.0, 1.0, count) if count > 2 else middles
        grid = 10.0 ** (4.0 * share - 1.0) / bound.row_weight
        return list(base.crossed(outer, "C", grid))


class MKMTL(RegressionTasks, _MKMTL):
    """Multiple-kernel multi-task regression (MKMTL).

    Each task is a sum of functions, one in the space of each kernel. Two variants
    couple the tasks. "shared": all tasks use the same few kernels::

        1/2 (Σ_j (Σ_i ‖f_ij‖^p)^{1/p})² + C/2 Σ_i Σ w (y − Σ_j f_ij(x))²

    "low-rank": in each kernel's space the functions F_j of all tasks have low rank::

        1/2 (Σ_j ‖F_j‖_*^q)^{2/q} + C Σ_i Σ w (y − Σ_j f_ij(x))²

    Both are convex and solved to a duality gap. Targets are centred per task. Scaling
    the targets scales the predictions, so C does not depend on their unit.

    Parameters
    ----------
    C : float, default=1.0
        Strength of the loss, above 0; larger values regularise less.
    variant : {"low-rank", "shared"}, default="low-rank"
        How tasks are coupled.
    p, q : float, default=2.0, 1.5
        Exponents of "shared", at least 2 (larger: tasks are less alike), and of
        "low-rank", between 1 and 2 (smaller: fewer kernels).
    kernels : tuple of kernels, optional
        Base kernels, such as ``(Gaussian(1.0), Polynomial(2), Linear())``. The default
        is Gaussians of 1/4, 1/2, 1, 2 and 4 times the root mean square distance of
        training rows, polynomials of degree 2 and 3, and the linear kernel.
    normalize : bool, default=True
        Whether to divide kernels by their mean diagonal on the training rows.
    max_rows, n_landmarks : int, default=3000; int, None or "auto", default="auto"
        Number of distinct rows whose kernels span the functions (Nyström). None: all
        rows. "auto": 64, with an ApproximationWarning, if there are more than
        ``max_rows``, or if "low-rank" has more than 10 million numbers: k kernels of u
        distinct rows are k u numbers for each row.
    fit_intercept : bool, default=True
        Whether to centre targets per task.
    tol, max_iter : float, default=1e-4; int, default=10000
        Largest duality gap, relative to the objective, and number of iterations.
    random_state : int, default=0
        Seed of the landmarks.
    task_weight, standardize, task
        See :class:`DMTL`.

    Attributes
    ----------
    kernel_weights_, kernels_ : (k,) array, tuple
        Share of each kernel, and the kernels before normalisation.
    objective_, dual_gap_, n_iter_, tasks_
        See :class:`DMTL`.

    Examples
    --------
    >>> from priormtl.baselines import MKMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MKMTL(C=10.0).fit(X, y, task=task)
    >>> model.kernel_weights_.shape
    (8,)
    """


class MKMTLClassifier(ClassificationTasks, _MKMTL):
    """:class:`MKMTL` on labels −1 and +1: squared loss, no probabilities."""
