"""MKMTL against its golden values, cvxpy, kernel ridge and special cases."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from instances import golden_rows, golden_tasks
from priormtl.baselines import mkmtl
from priormtl.baselines.mkmtl import (
    MKMTL,
    Gaussian,
    Linear,
    MKMTLClassifier,
    Polynomial,
)
from priormtl.baselines.mtrl import MTRL
from priormtl.data import from_columns, from_labels
from priormtl.exceptions import ApproximationWarning

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

cp = pytest.importorskip("cvxpy")

VARIANTS = ("shared", "low-rank")
PUBLISHED = (Linear(), Polynomial(2), *(Gaussian(s * 5**0.5) for s in (0.5, 1, 2)))
RAW = {"kernels": PUBLISHED, "normalize": False, "fit_intercept": False, "tol": 1e-9}


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X, task = rng.normal(size=(24, 3)), np.repeat([0, 1, 2], 8)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * task + 0.1 * rng.normal(size=24), task


def gram(kernel, X, Z):
    """Naive twin of the kernels."""
    if isinstance(kernel, Gaussian):
        squares = ((X[:, None] - Z[None]) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * kernel.width**2))
    products = X @ Z.T / X.shape[1]
    if isinstance(kernel, Linear):
        return products
    return (products + 1) ** kernel.degree


def root(K):
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


def solve(objective):
    problem = cp.Problem(cp.Minimize(objective))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("p", "optimum"), [(2, 23.782990359), (4, 13.382201718)])
def test_golden_value_of_shared_weights(p, optimum):
    X, y, task = golden_rows(4, 5)
    model = MKMTL(C=5, variant="shared", p=p, **RAW).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(optimum, rel=1e-8)


def test_golden_value_of_low_rank_kernels():
    X = golden_tasks(4, 5)[0][3]
    Y = np.c_[X @ [1.5, -1, 0.5, 0, 0], 2 * np.sin(X[:, 0]), X[:, 1] ** 2]
    model = MKMTL(C=2, variant="low-rank", q=1.5, **RAW).fit(X, Y)
    assert model.objective_ == pytest.approx(6.8077437, rel=1e-7)


@pytest.mark.parametrize("p", [2.0, 3.0])
def test_shared_weights_agree_with_cvxpy(rows, p):
    X, y, task = rows
    model = MKMTL(C=3, variant="shared", p=p, **RAW).fit(X, y, task=task)
    parts = [[] for _ in PUBLISHED]
    loss = 0.0
    for i in range(3):
        own = X[task == i]
        fitted = 0.0
        for j, kernel in enumerate(PUBLISHED):
            f = cp.Variable(len(own))
            parts[j].append(cp.norm(f))
            fitted = fitted + root(gram(kernel, own, own)) @ f
        loss = loss + cp.sum_squares(y[task == i] - fitted)
    norm = sum(cp.pnorm(cp.hstack(part), p, approx=False) for part in parts)
    optimum = solve(0.5 * cp.square(norm) + 1.5 * loss)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.dual_gap_ <= 1e-9 * model.objective_


@pytest.mark.parametrize("q", [1.01, 1.5, 1.99])
def test_low_rank_kernels_agree_with_cvxpy(rows, q):
    X, y, task = rows
    model = MKMTL(C=3, variant="low-rank", q=q, **RAW).fit(X, y, task=task)
    norms, fitted = [], 0.0
    own = (task[:, None] == np.arange(3)).astype(float)
    for kernel in PUBLISHED:
        F = cp.Variable((len(X), 3))
        norms.append(cp.normNuc(F))
        fitted = fitted + root(gram(kernel, X, X)) @ F
    misfit = y - cp.sum(cp.multiply(own, fitted), axis=1)
    norm = cp.pnorm(cp.hstack(norms), q, approx=False)
    optimum = solve(0.5 * cp.square(norm) + 3 * cp.sum_squares(misfit))
    assert model.objective_ == pytest.approx(optimum, rel=1e-5)
    assert model.dual_gap_ <= 1e-9 * model.objective_


def test_linear_kernel_is_mtrl(rows):
    """Without ridge, with task weights 2 C; our linear kernel is divided by d."""
    X, y, task = rows
    settings = {**RAW, "kernels": (Linear(),), "tol": 1e-11}
    model = MKMTL(C=2.0, variant="low-rank", **settings).fit(X, y, task=task)
    lam = X.shape[1] / 4.0
    twin = MTRL(lam, ridge=0.0, fit_intercept=False, tol=1e-11).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(4.0 * twin.objective_, rel=1e-8)
    np.testing.assert_allclose(
        model.predict(X, task=task), twin.predict(X, task=task), atol=1e-4
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_kernel_and_one_task_is_kernel_ridge(rows, variant):
    X, y, _ = rows
    kernel, new = Gaussian(1.5), X[:5] + 0.1
    settings = {**RAW, "kernels": (kernel,), "tol": 1e-12}
    model = MKMTL(C=2.0, variant=variant, **settings).fit(X, y)
    C = 2.0 if variant == "shared" else 4.0
    alpha = np.linalg.solve(gram(kernel, X, X) + np.eye(len(X)) / C, y)
    expected = gram(kernel, new, X) @ alpha
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-5, atol=1e-6)


def test_copies_of_a_kernel_share_its_weight(rows):
    X, y, task = rows
    base = (Gaussian(1.5), Linear())
    settings = {"C": 3.0, "variant": "shared", "tol": 1e-11}
    once = MKMTL(kernels=base, **settings).fit(X, y, task=task)
    twice = MKMTL(kernels=(*base, Gaussian(1.5)), **settings).fit(X, y, task=task)
    np.testing.assert_allclose(
        once.predict(X, task=task), twice.predict(X, task=task), atol=1e-4
    )
    weights = twice.kernel_weights_
    assert weights[0] + weights[2] == pytest.approx(once.kernel_weights_[0], abs=1e-4)
    assert weights[0] == pytest.approx(weights[2])


def test_p_of_two_is_one_ridge_with_shared_weights(rows):
    """With p = 2 the published dual has all its λ equal to one."""
    X, y, task = rows
    settings = {**RAW, "tol": 1e-12}
    model = MKMTL(C=3.0, variant="shared", **settings).fit(X, y, task=task)
    weighed = list(zip(model.kernel_weights_, PUBLISHED, strict=True))
    for i in range(3):
        own = X[task == i]
        K = sum(weight * gram(kernel, own, own) for weight, kernel in weighed)
        alpha = np.linalg.solve(K + np.eye(len(own)) / 3.0, y[task == i])
        found = model.predict(own, task=task[task == i])
        np.testing.assert_allclose(found, K @ alpha, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_kernels_are_normalised_on_training_rows_only(rows, variant):
    X, y, task = rows
    model = MKMTL(variant=variant).fit(X, y, task=task)
    alone = model.predict(X[:2], task=task[:2])
    among = model.predict(np.r_[X[:2], 50 + X[2:4]], task=np.r_[task[:2], task[2:4]])
    np.testing.assert_allclose(among[:2], alone, rtol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_count_as_repeated_rows(rows, variant):
    X, y, task = rows
    weight = np.arange(len(y)) % 4
    model = MKMTL(C=3.0, variant=variant).fit(X, y, task=task, sample_weight=weight)
    again = np.repeat(np.arange(len(y)), weight)[::-1]
    twin = clone(model).fit(X[again], y[again], task=task[again])
    np.testing.assert_allclose(
        model.predict(X, task=task), twin.predict(X, task=task), rtol=1e-9
    )
    assert model.objective_ == pytest.approx(twin.objective_)


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_rows_with_other_targets_count_in_the_objective(rows, variant):
    X, y, _ = rows
    X, y = np.r_[X, X], np.r_[y, y + 1.0]
    model = MKMTL(C=3.0, variant=variant, tol=1e-9).fit(X, y)
    penalty = MKMTL(C=3.0, variant=variant, tol=1e-9).fit(X[:24], y[:24] + 0.5)
    assert model.objective_ > penalty.objective_
    factor = 1.5 if variant == "shared" else 3.0
    misfit = np.sum((y - model.predict(X)) ** 2)
    assert factor * 12 < factor * misfit < model.objective_


@pytest.mark.parametrize("variant", VARIANTS)
def test_shared_rows_are_stacked_rows(rows, variant):
    X, y, _ = rows
    Y = np.c_[y, y**2, -y]
    Y[3, 1] = np.nan
    model = MKMTL(C=3.0, variant=variant, tol=1e-9).fit(X, Y)
    i, j = np.nonzero(~np.isnan(Y.T))
    twin = clone(model).fit(X[j], Y.T[i, j], task=i)
    assert model.objective_ == pytest.approx(twin.objective_, rel=1e-8)
    stacked = twin.predict(np.tile(X, (3, 1)), task=np.repeat([0, 1, 2], 24))
    np.testing.assert_allclose(model.predict(X).T.ravel(), stacked, atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_rows_are_dense_rows(rows, variant):
    X, y, task = rows
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    model = MKMTL(variant=variant).fit(X, y, task=task)
    twin = clone(model).fit(csr_array(X), y, task=task)
    np.testing.assert_allclose(
        model.predict(X, task=task), twin.predict(csr_array(X), task=task), atol=1e-8
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_scaling_targets_scales_predictions(rows, variant):
    X, y, task = rows
    model = MKMTL(variant=variant).fit(X, y, task=task)
    for scale in (1e-120, 1e90):
        twin = clone(model).fit(X, scale * y, task=task)
        np.testing.assert_allclose(
            twin.predict(X, task=task) / scale, model.predict(X, task=task), rtol=1e-9
        )


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_landmarks_are_all_rows(rows, variant):
    X, y, task = rows
    model = MKMTL(C=3.0, variant=variant, tol=1e-9).fit(X, y, task=task)
    twin = clone(model).set_params(n_landmarks=24).fit(X, y, task=task)
    assert twin.objective_ == pytest.approx(model.objective_, rel=1e-7)


def test_few_landmarks_restrict_the_functions(rows):
    X, y, task = rows
    objectives = [
        MKMTL(C=3.0, n_landmarks=n).fit(X, y, task=task).objective_ for n in (2, 6, 24)
    ]
    assert objectives[0] > objectives[1] > objectives[2]


def test_too_many_rows_are_announced(rows):
    X, y, _ = rows
    X, y = np.tile(X, (4, 1)) + np.arange(96)[:, None], np.tile(y, 4)
    with pytest.warns(ApproximationWarning, match="64 landmarks among 96 distinct"):
        MKMTL(max_rows=90).fit(X, y)


def test_a_path_ends_where_single_fits_do(rows):
    X, y, task = rows
    for variant in VARIANTS:
        model = MKMTL(variant=variant, tol=1e-9)
        bound = model._bind(from_labels(X, y, task))
        for C, outcome in zip(
            [0.1, 10.0, 1.0], model._follow(bound, [0.1, 10.0, 1.0]), strict=True
        ):
            alone = clone(model).set_params(C=C).fit(X, y, task=task)
            assert outcome.objective == pytest.approx(alone.objective_, rel=1e-8)


@pytest.mark.parametrize("n", [1, 2, 6, 20])
@pytest.mark.parametrize("variant", VARIANTS)
def test_suggestions_fit(rows, n, variant):
    X, y, task = rows
    model = MKMTL(variant=variant, tol=1e-3)
    settings = model._suggest(model._bind(from_labels(X, y, task)), n)
    assert 1 <= len(settings) <= n
    assert len({tuple(setting.items()) for setting in settings}) == len(settings)
    strengths = [setting["C"] for setting in settings]
    assert strengths[0] == min(strengths)
    clone(model).set_params(**settings[-1]).fit(X, y, task=task)


def test_suggestions_follow_the_weight_of_rows(rows):
    X, y, _ = rows
    model = MKMTL()
    one = model._suggest(model._bind(from_columns(X, y[:, None])), 2)
    heavy = np.full(24, 5.0)
    five = model._suggest(model._bind(from_columns(X, y[:, None], heavy)), 2)
    assert one[0]["C"] == pytest.approx(5 * five[0]["C"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_degenerate_tables(variant):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 9))
    X[:, 3], X[:, 5] = 2.0, X[:, 4]
    task = [0, 1, 1, 2, 3, 3]
    for table in (X, np.zeros((6, 9)), 1e-160 * X, 1e40 * X, 1e8 + X):
        for y in (rng.normal(size=6), np.zeros(6), np.full(6, 0.1)):
            model = MKMTL(C=100.0, variant=variant).fit(table, y, task=task)
            assert np.all(np.isfinite(model.predict(table, task=task)))
            assert np.isfinite(model.objective_)


def test_default_kernels_follow_the_root_mean_square_distance(rows):
    X, y, task = rows
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    expected = np.sqrt(squares.mean()) * np.array([0.25, 0.5, 1, 2, 4])
    for table in (X, csr_array(X)):
        kernels = MKMTL().fit(table, y, task=task).kernels_
        assert kernels[5:] == (Polynomial(2), Polynomial(3), Linear())
        widths = [kernel.width for kernel in kernels[:5]]
        np.testing.assert_allclose(widths, expected)


def test_distances_far_from_the_origin_are_exact(rows):
    X, y, task = rows
    model = MKMTL(kernels=(Gaussian(0.7),), tol=1e-9).fit(X, y, task=task)
    far = clone(model).fit(X + 1e7, y, task=task)
    np.testing.assert_allclose(
        far.predict(X + 1e7, task=task), model.predict(X, task=task), atol=1e-5
    )


def test_large_tables_get_landmarks(rows, monkeypatch):
    X, y, _ = rows
    X, y = np.tile(X, (4, 1)) + np.arange(96)[:, None], np.tile(y, 4)
    monkeypatch.setattr(mkmtl, "LARGEST_TABLE", 8 * 96 * 96 - 1)
    with pytest.warns(ApproximationWarning, match="64 landmarks among 96 distinct"):
        approximate = MKMTL().fit(X, y)
    exact = MKMTL(n_landmarks=None).fit(X, y)
    assert approximate.objective_ > exact.objective_


def test_labels_are_separated(rows):
    X, y, task = rows
    for variant in VARIANTS:
        model = MKMTLClassifier(C=1e3, variant=variant).fit(X, y > 0, task=task)
        assert np.array_equal(model.predict(X, task=task), y > 0)
        assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": -1.0}, "C must be a finite number above 0: got -1"),
        ({"C": 0.0}, "C must be a finite number above 0"),
        ({"p": 1.5, "variant": "shared"}, "p must be at least 2"),
        ({"q": 2.0}, "q must be between 1 and 2"),
        ({"variant": "both"}, "variant must be one of"),
        ({"kernels": ("linear",)}, "kernels must be None or a tuple of kernels"),
        ({"n_landmarks": 0}, "n_landmarks must be"),
    ],
)
def test_wrong_settings_are_named(rows, settings, message):
    X, y, task = rows
    with pytest.raises(ValueError, match=message):
        MKMTL(**settings).fit(X, y, task=task)


def test_too_large_features_are_refused(rows):
    X, y, task = rows
    with pytest.raises(ValueError, match="X is too large"):
        MKMTL().fit(1e60 * X, y, task=task)
