"""Problems that many tests share."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse, vstack

from priormtl.data import condense, from_codes, from_columns, from_labels
from priormtl.losses import (
    FreeIntercepts,
    Logistic,
    NoIntercepts,
    Squared,
    TiedIntercepts,
)
from priormtl.penalties import (
    L21,
    Columns,
    Dirty,
    Nuclear,
    Robust,
    Schatten,
    SquaredNuclear,
    TaskKernel,
)
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.problem import NormalForm, Problem, QuadraticPrior
from priormtl.solvers import Fista, Newton, gap_below, max_iter, solve
from priormtl.solvers.blocks import BlockQuadratic

PAIRS = FeaturePrior.similar([(0, 1), (2, 3)])


def turns(rounds=1, **axes):
    """Parameters that take turns: every value is met, not every combination.

    In each round, every value of the longest axis meets other values of the others.
    """
    longest = max(map(len, axes.values()))
    rows = [
        tuple(
            list(values)[(i + k * (i // longest)) % len(values)]
            for k, values in enumerate(axes.values())
        )
        for i in range(rounds * longest)
    ]
    return pytest.mark.parametrize(tuple(axes), list(dict.fromkeys(rows)))


def from_lists(X, y, weight=None, tasks=None):
    """Stacked rows of one X and y for each task, in the order given."""
    codes = np.repeat(np.arange(len(X)), [len(target) for target in y])
    sparse = any(issparse(rows) for rows in X)
    stacked = csr_array(vstack(X)) if sparse else np.concatenate(X)
    weights = None if weight is None else np.concatenate(weight)
    names = tuple(range(len(X)) if tasks is None else tasks)
    targets = np.concatenate(y).astype(np.float64)
    return from_codes(stacked.astype(np.float64), targets, codes, names, weights)


def golden_tasks(m, d):
    """G(m, d): X_i and y_i without random numbers, on which published optima are known.

    Task i has 4 + i rows.
    """
    tables, targets = [], []
    b = np.arange(1.0, d + 1)
    shared = np.zeros(d)
    shared[:3] = np.array([1.5, -1.0, 0.5])[:d]
    for i in range(m):
        a = np.arange(1.0, 5.0 + i)
        X = np.sin(1.3 * (i + 1) + 0.7 * np.outer(a, b) + 0.4 * b)
        w = (1 + 0.2 * i) * shared + 0.1 * np.sin(b * (i + 1)) * (b <= 5)
        tables.append(X)
        targets.append(X @ w + 0.3 * np.cos(2.1 * a + (i + 1)))
    return tables, targets


def golden_rows(m, d):
    """The same as stacked rows: X, y and the task of each row."""
    tables, targets = golden_tasks(m, d)
    task = np.repeat(np.arange(m), [len(y) for y in targets])
    return np.vstack(tables), np.concatenate(targets), task


def sine_tasks(m, d):
    """G(m, d) as data."""
    return from_lists(*golden_tasks(m, d))


def with_signs(data):
    """Same samples with targets −1 and +1."""
    return replace(data, y=np.where(data.y >= 0, 1.0, -1.0))


def quadratic_prior(data, theta, epsilon, pairs=PAIRS, ties=None, tie_weights=None):
    D = difference_matrix(pairs, condense(data))
    graph = laplacian(ties or TaskPrior.chain(), data.tasks)
    return QuadraticPrior(D, graph, theta, epsilon, tie_weights)


def sine_problem(m=4, d=5, lam=0.6, theta=0.5, epsilon=0.8, **parts):
    """The paper's objective on G(m, d), without intercepts unless asked."""
    data = sine_tasks(m, d)
    return build_problem(data, lam=lam, theta=theta, epsilon=epsilon, **parts)


def build_problem(
    data, *, lam, theta=0.0, epsilon=0.0, loss=None, penalty=None, intercepts=None, **kw
):
    fit = (loss or Squared()).bind(data, intercepts or NoIntercepts())
    prior = quadratic_prior(data, theta, epsilon, **kw)
    return Problem(fit, prior, penalty or L21(), lam)


def intercept_kinds(m):
    """One of each kind, for m tasks."""
    everyone = Laplacian.from_groups(m, [np.arange(m)], 1.0)
    return [FreeIntercepts(), NoIntercepts(), TiedIntercepts(everyone, 2.0)]


LOSSES = {"squared": Squared(), "logistic": Logistic()}
PENALTIES = {  # for five features
    "l21": L21(),
    "weighted": L21(np.array([0.5, 1.0, 2.0, 1.0, 0.3])),
    "nuclear": Nuclear(),
    "columns": Columns(),
    "dirty": Dirty(1.7),
    "dirty-shared": Dirty(0.8),
    "dirty-own": Dirty(9.0),
    "robust": Robust(1.3),
}
POWERS = {  # for three tasks
    "squared-nuclear": SquaredNuclear(),
    "schatten-4/3": Schatten(4.0 / 3.0),
    "schatten-1.1": Schatten(1.1),
    "schatten-1.9": Schatten(1.9),
    "kernel": TaskKernel.of_matrix(np.eye(3) + 0.5),
}
INTERCEPTS = ("free", "absent", "tied")
LAYOUTS = ("stacked", "weighted", "wide", "sparse", "shared", "shared-wide", "gaps")


def kind_of_intercepts(name, m):
    return dict(zip(INTERCEPTS, intercept_kinds(m), strict=True))[name]


def random_tasks(layout, seed=0, m=3, d=4, n=8):
    """Gaussian tasks with offsets, kept in one of the ways that data are kept."""
    rng = np.random.default_rng(seed)
    n = 3 if layout.endswith("wide") else n
    if layout in {"shared", "shared-wide", "gaps"}:
        X = rng.normal(size=(n, d)) + 0.5
        Y = X @ rng.normal(size=(d, m)) + rng.normal(size=(n, m))
        return from_columns(X, *_with_gaps(rng, Y) if layout == "gaps" else (Y,))
    task = np.arange(m * n) % m
    X = rng.normal(size=(m * n, d)) + 0.5
    y = np.sum(X * rng.normal(size=(d, m)).T[task], axis=1) + rng.normal(size=m * n)
    weight = rng.uniform(0.5, 2.0, m * n) if layout == "weighted" else None
    if layout == "sparse":
        X = csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    return from_labels(X, y, task, weight)


def _with_gaps(rng, Y):
    """A quarter of the cells not measured, and a weight for each cell."""
    gaps = rng.random(Y.shape) < 0.25
    gaps[:2] = False
    return np.where(gaps, np.nan, Y), rng.uniform(0.5, 2.0, Y.shape)


def bind(loss, data, intercepts="absent"):
    """Loss by name on data, whose targets become signs where it needs them."""
    data = with_signs(data) if loss == "logistic" else data
    return LOSSES[loss].bind(data, kind_of_intercepts(intercepts, data.shape[1]))


def plain_rows(data):
    """Dense X, targets and weights of each task."""
    parts = [data.rows_of(i) for i in range(len(data.tasks))]
    return [(X.toarray() if issparse(X) else X, y, w) for X, y, w in parts]


def random_coef(shape, seed=1, scale=0.5):
    return scale * np.random.default_rng(seed).normal(size=shape)


def write_out(multiply, shape):
    """Matrix of a linear map on arrays of this shape."""
    eye = np.eye(shape[0] * shape[1])
    return np.array([multiply(column.reshape(shape)).ravel() for column in eye]).T


def best_objective(problem):
    """Optimal value, as well as rounding lets it be known."""
    method = Newton() if problem.lam == 0 else Fista(restart=True)
    rules = [gap_below(1e-13, every=1), max_iter(5000)]
    return solve(problem, method, stop=rules).certificate.primal


class CountedMoments:
    """Moments that count their products with XᵀX."""

    def __init__(self, moments):
        self.moments = moments
        self.count = 0

    def __getattr__(self, name):
        return getattr(self.moments, name)

    def gram_product(self, P):
        self.count += 1
        return self.moments.gram_product(P)


def with_counted_products(problem):
    """Same problem, squared loss, and the counter of its products."""
    counter = CountedMoments(problem.fit.moments)
    return replace(problem, fit=replace(problem.fit, moments=counter)), counter


def random_blocks(m, k, *, tie, seed=0):
    """A block quadratic of m tasks and k rows, and rows Q of which one is zero."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((m, k + 2, k))
    gram = np.einsum("inj,ink->ijk", factors, factors)
    graph = laplacian(TaskPrior.chain(), range(m))
    linear = rng.standard_normal((k, m))
    lam = 0.1 + rng.random(k)
    form = NormalForm(gram, linear, np.zeros(0))
    nothing = csr_array((k, k))
    free = np.zeros(k), np.zeros(k, dtype=bool)
    blocks = BlockQuadratic(form, nothing, np.full(k, tie), lam, graph, 0, *free)
    Q = rng.standard_normal((k, m))
    Q[1] = 0.0
    return blocks, Q


def nonzero_rows(blocks, Q):
    """Rows of Q that are not zero, with the penalty's curvature."""
    from priormtl.solvers.layouts import ActiveRows  # noqa: PLC0415

    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    return ActiveRows(place, blocks.lam[place] / norms[place], unit, blocks.tie[place])


def dense_hessian(blocks, rows):
    """Hessian on active rows, written out over (row, task) pairs."""
    a, m = rows.unit.shape
    full = np.zeros((a, m, a, m))
    L = blocks.laplacian.dense()
    for i in range(m):
        full[:, i, :, i] += blocks.form.gram[i][np.ix_(rows.place, rows.place)]
    for r in range(a):
        full[r, :, r, :] += rows.tie[r] * L
        bent = np.eye(m) - np.outer(rows.unit[r], rows.unit[r])
        full[r, :, r, :] += rows.bend[r] * bent
    return full.reshape(a * m, a * m)
