"""DMTL and RMTL: optima, regimes of the ratio, and both parts of coefficients."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import Lasso

from drawn_tasks import AWKWARD_TASKS, golden_classes, split_tasks
from instances import golden_rows
from naive_twins import naive_dirty, naive_robust, naive_trace
from priormtl.baselines import CLMT, DMTL, RMTL, DMTLClassifier, RMTLClassifier
from priormtl.baselines.two_parts import cross_ratios
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

EXACT = {"fit_intercept": False, "tol": 1e-12}
PAIRS = {"dmtl": (DMTL, DMTLClassifier), "rmtl": (RMTL, RMTLClassifier)}
BOTH = pytest.mark.parametrize(
    ("regressor", "classifier"), PAIRS.values(), ids=PAIRS.keys()
)


def dirty_cost(S, B, ratio):
    return cp.sum(cp.abs(S)) + ratio * cp.sum(cp.max(cp.abs(B), axis=1))


def robust_cost(S, L, ratio):
    return cp.sum(cp.norm(S, 2, axis=0)) + ratio * cp.normNuc(L)


COSTS = {DMTL: dirty_cost, RMTL: robust_cost}


# Optima.


@pytest.mark.parametrize(
    ("kind", "lam", "strength", "squared", "logistic"),
    [
        (DMTL, 0.3, 0.6, 2.8813421674, 6.0784552475),
        (DMTL, 0.3, 0.51, 2.4919083499, 5.5483535514),
        (RMTL, 0.7, 1.0, 5.0869135960, 9.6648303462),
    ],
)
def test_published_optima(kind, lam, strength, squared, logistic):
    X, y, task = golden_rows(4, 5)
    settings = {"lam": lam, "ratio": strength / lam, **EXACT}
    assert kind(**settings).fit(X, y, task=task).objective_ == pytest.approx(
        squared, abs=1e-9
    )
    X, y, task = golden_classes()
    classifier = DMTLClassifier if kind is DMTL else RMTLClassifier
    model = classifier(**settings).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(logistic, abs=1e-9)


@BOTH
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("seed", "ratio"), [(0, 1.3), (3, 1.8)])
def test_a_general_solver_agrees(seed, ratio, loss, regressor, classifier):
    X, y, task = make_related_tasks(4, 6, 9, noise=0.5, random_state=seed)
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    y[[0, 9, 18, 27]], y[[1, 10, 19, 28]] = 1.0, -1.0
    kind, lam = classifier if loss == "logistic" else regressor, 0.8
    model = kind(lam, ratio=ratio, tol=1e-10).fit(X, y, task=task)
    S, B, b = cp.Variable((6, 4)), cp.Variable((6, 4)), cp.Variable(4)
    fit = 0
    for i in range(4):
        scores = X[task == i] @ (S[:, i] + B[:, i]) + b[i]
        target = y[task == i]
        if loss == "logistic":
            fit += cp.sum(cp.logistic(-cp.multiply(target, scores)))
        else:
            fit += 0.5 * cp.sum_squares(scores - target)
    cost = lam * COSTS[regressor](S, B, ratio)
    best = cp.Problem(cp.Minimize(fit + cost)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("ratio", [1.7, 4.0])
def test_naive_dirty_models_reach_the_same(ratio):
    X, y, task = golden_rows(4, 5)
    model = DMTL(0.3, ratio=ratio, **EXACT).fit(X, y, task=task)
    run = naive_dirty(split_tasks(X, y, task), 0.3, 0.3 * ratio, lambda _: False, 4000)
    S, B = run.blocks
    misfit = np.sum(X * run.total.T[task], axis=1) - y
    cost = np.abs(S).sum() + ratio * np.abs(B).max(axis=1).sum()
    value = 0.5 * misfit @ misfit + 0.3 * cost
    assert value == pytest.approx(model.objective_, rel=1e-8)


def test_naive_robust_models_reach_the_same():
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7, ratio=1.4, **EXACT).fit(X, y, task=task)
    run = naive_robust(split_tasks(X, y, task), 0.98, 0.7, lambda _: False, 2000)
    np.testing.assert_allclose(run.total.T, model.coef_, atol=1e-5)


@BOTH
def test_without_a_penalty_tasks_are_least_squares(regressor, classifier):
    X, y, task = make_related_tasks(3, 4, 12, noise=0.5, random_state=0)
    model = regressor(0.0).fit(X, y, task=task)
    for i in range(3):
        rows = np.column_stack([np.ones(12), X[task == i]])
        exact = np.linalg.lstsq(rows, y[task == i], rcond=None)[0]
        np.testing.assert_allclose(model.coef_[i], exact[1:], atol=1e-6)


# Regimes of the ratio.


@pytest.mark.parametrize("ratio", [4.0, 11.0])
def test_dirty_models_of_large_ratio_are_a_lasso_for_each_task(ratio):
    X, y, task = make_related_tasks(4, 6, 15, noise=0.5, random_state=0)
    model = DMTL(3.0, ratio=ratio, tol=1e-12).fit(X, y, task=task)
    for i in range(4):
        rows = task == i
        lasso = Lasso(3.0 / rows.sum(), tol=1e-12, max_iter=100_000)
        lasso.fit(X[rows], y[rows])
        np.testing.assert_allclose(model.coef_[i], lasso.coef_, atol=1e-6)
        assert model.intercept_[i] == pytest.approx(lasso.intercept_, abs=1e-6)
    assert not model.shared_.any()


def test_dirty_models_of_ratio_one_share_everything():
    X, y, task = golden_rows(4, 5)
    model = DMTL(0.5, ratio=1.0, **EXACT).fit(X, y, task=task)
    assert not model.own_.any()
    W = cp.Variable((5, 4))
    fit = sum(
        0.5 * cp.sum_squares(X[task == i] @ W[:, i] - y[task == i]) for i in range(4)
    )
    cost = 0.5 * cp.sum(cp.max(cp.abs(W), axis=1))
    best = cp.Problem(cp.Minimize(fit + cost)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_robust_models_of_small_ratio_are_the_trace_norm(ratio):
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7 / ratio, ratio=ratio, **EXACT).fit(X, y, task=task)
    # CLMT leaves 2 √(lam · gamma) times the trace norm, gamma being lam.
    trace = CLMT(0.35, penalty="trace", **EXACT).fit(X, y, task=task)
    run = naive_trace(split_tasks(X, y, task), 0.7, lambda _: False, 2000)
    assert model.objective_ == pytest.approx(trace.objective_, rel=1e-10)
    np.testing.assert_allclose(model.coef_, trace.coef_, atol=1e-5)
    np.testing.assert_allclose(model.coef_, run.total.T, atol=1e-4)
    assert not model.outliers_.any()


@pytest.mark.parametrize("ratio", [2.0, 7.0])
def test_robust_models_of_large_ratio_have_outliers_only(ratio):
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7, ratio=ratio, **EXACT).fit(X, y, task=task)
    assert not model.low_rank_.any()
    total = 0.0
    for i in range(4):
        w = cp.Variable(5)
        fit = 0.5 * cp.sum_squares(X[task == i] @ w - y[task == i])
        problem = cp.Problem(cp.Minimize(fit + 0.7 * cp.norm(w)))
        total += problem.solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("ratio", [0.999999, 1.000001, 1.999999, 2.000001])
def test_regimes_of_robust_models_join(ratio):
    X, y, task = golden_rows(4, 5)
    edge = RMTL(0.7, ratio=round(ratio), **EXACT).fit(X, y, task=task)
    near = RMTL(0.7, ratio=ratio, **EXACT).fit(X, y, task=task)
    assert near.objective_ == pytest.approx(edge.objective_, rel=1e-5)


@pytest.mark.parametrize(("kind", "power"), [(DMTL, 0.5), (RMTL, 0.25)])
def test_default_ratios_are_powers_of_the_number_of_tasks(kind, power):
    X, y, task = golden_rows(4, 5)
    plain = kind(0.3, **EXACT).fit(X, y, task=task)
    named = kind(0.3, ratio=4.0**power, **EXACT).fit(X, y, task=task)
    np.testing.assert_array_equal(plain.coef_, named.coef_)


# Settings worth trying.


@pytest.mark.parametrize("kind", [DMTL, RMTL])
@pytest.mark.parametrize("ratio", [0.8, 1.6, 9.0])
def test_coefficients_vanish_exactly_from_the_largest_strength_on(kind, ratio):
    X, y, task = golden_rows(4, 5)
    tables, targets = split_tasks(X, y, task)
    Z = np.column_stack([A.T @ b for A, b in zip(tables, targets, strict=True)])

    def largest(ratio):
        if kind is DMTL:
            return max(np.abs(Z).max(), np.abs(Z).sum(axis=1).max() / ratio)
        return max(np.linalg.norm(Z, axis=0).max(), np.linalg.norm(Z, 2) / ratio)

    above = kind(1.0001 * largest(ratio), ratio=ratio, **EXACT).fit(X, y, task=task)
    below = kind(0.999 * largest(ratio), ratio=ratio, **EXACT).fit(X, y, task=task)
    assert not above.coef_.any()
    assert below.coef_.any()
    model = kind(fit_intercept=False)
    bound = model._bind(from_labels(X, y, task))
    suggested = {s["ratio"]: s["lam"] for s in reversed(model._suggest(bound, 30))}
    assert len(suggested) == 5
    for each, lam in suggested.items():
        assert lam == pytest.approx(largest(each))


@pytest.mark.parametrize("n", [1, 2, 6, 7, 12, 20, 31])
def test_there_are_as_many_settings_as_asked_for(n):
    settings = cross_ratios([3.0, 1.0, 9.0], lambda ratio: 10.0 * ratio, n)
    assert len(settings) == n
    assert len({tuple(setting.items()) for setting in settings}) == n
    ratios = [setting["ratio"] for setting in settings]
    assert ratios[0] == 3.0
    assert len(set(ratios)) == min(3, max(1, n // 6))
    counts = [ratios.count(ratio) for ratio in dict.fromkeys(ratios)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1


def test_every_path_falls_from_its_own_end_by_three_decades():
    settings = cross_ratios([3.0, 1.0], lambda ratio: 10.0 * ratio, 12)
    lams = np.array([setting["lam"] for setting in settings]).reshape(2, 6)
    assert np.all(np.diff(lams, axis=1) < 0)
    np.testing.assert_allclose(lams[:, 0], [30.0, 10.0])
    np.testing.assert_allclose(lams[:, -1], [0.03, 0.01])
    (alone,) = cross_ratios([2.0], lambda ratio: 10.0 * ratio, 1)
    assert 0.02 < alone["lam"] < 20.0


def test_equal_ratios_count_once_and_zero_ends_begin_at_one():
    settings = cross_ratios([1.0, 1.0], lambda _: 0.0, 12)
    assert {setting["ratio"] for setting in settings} == {1.0}
    assert settings[0]["lam"] == 1.0


def test_ratios_are_positive_numbers():
    for kind in (DMTL, RMTL):
        for value in (0, -1.0, np.inf, np.nan, "2", True):
            with pytest.raises(ValueError, match="ratio must be a finite number above"):
                kind(ratio=value).fit(*golden_rows(4, 5)[:2])


# Parts.


@pytest.mark.parametrize(
    ("kind", "names"),
    [(DMTL, ("shared_", "own_")), (RMTL, ("low_rank_", "outliers_"))],
)
def test_parts_add_up_in_the_units_of_the_features(kind, names):
    X, y, task = make_related_tasks(4, 6, 15, noise=0.5, random_state=0)
    units = np.arange(1.0, 7.0)
    model = kind(2.0, standardize=True).fit(X * units, y, task=task)
    plain = kind(2.0, standardize=True).fit(X, y, task=task)
    total = sum(getattr(model, name) for name in names)
    np.testing.assert_allclose(total, model.coef_, atol=1e-12)
    for name in names:
        part = getattr(model, name)
        assert part.any()
        np.testing.assert_allclose(part * units, getattr(plain, name), atol=1e-4)


def test_shared_rows_and_single_entries_are_told_apart():
    rng = np.random.default_rng(0)
    W = np.zeros((6, 8))
    W[0], W[1, 2] = rng.choice([-2.0, 2.0], 8), 3.0
    task = np.repeat(np.arange(8), 30)
    X = rng.standard_normal((240, 6))
    y = np.sum(X * W.T[task], axis=1) + 0.1 * rng.standard_normal(240)
    model = DMTL(3.0, ratio=3.0).fit(X, y, task=task)
    assert np.all(np.abs(model.shared_[:, 0]) > 1.0)
    assert np.abs(model.own_[2, 1]) > 2.0
    assert np.abs(np.delete(model.own_, 1, axis=1)).max() < 0.5
    assert np.abs(model.shared_[:, 1:]).max() < 0.2


def test_a_planted_outlier_is_found():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((10, 2)) @ rng.standard_normal((2, 8))
    W[:, 5] = 4.0 * rng.standard_normal(10)
    task = np.repeat(np.arange(8), 25)
    X = rng.standard_normal((200, 10))
    y = np.sum(X * W.T[task], axis=1) + 0.1 * rng.standard_normal(200)
    model = RMTL(3.0, ratio=1.3).fit(X, y, task=task)
    lengths = np.linalg.norm(model.outliers_, axis=1)
    assert lengths[5] > 5.0
    assert np.delete(lengths, 5).max() < 0.5
    assert np.linalg.matrix_rank(model.low_rank_, tol=1e-3) == 2


# Degenerate data.


@BOTH
@pytest.mark.parametrize("name", AWKWARD_TASKS)
def test_awkward_tasks_are_fitted(name, regressor, classifier):
    X, y, task = AWKWARD_TASKS[name]()
    models = [regressor(1e-2, tol=1e-4).fit(X, y, task=task)]
    if name != "one row each":
        labels = (np.arange(len(y)) // 2) % 2
        lam = 0.5 * (np.abs(X).max() if name in {"huge", "tiny"} else 1.0)
        models.append(classifier(lam, tol=1e-4).fit(X, labels, task=task))
    for model in models:
        assert np.all(np.isfinite(model.coef_))
        assert np.all(np.isfinite(model.predict(X, task=task)))
