import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from drawn_tasks import logistic_loss, low_rank_tasks, optimum, squared_loss
from instances import golden_rows
from priormtl import MultiTaskRegressor, solvers
from priormtl.baselines import CLMT, CLMTClassifier
from priormtl.baselines.clmt import EigenvaluePenalty, check_output_kernel
from priormtl.data import from_labels

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

EXACT = {"fit_intercept": False, "tol": 1e-12}
PENALTIES = ["frobenius", "trace", "schatten"]


@pytest.fixture(scope="module")
def rows():
    return golden_rows(4, 5)


def fitted(model, rows):
    X, y, task = rows
    return model.fit(X, y >= 0 if isinstance(model, CLMTClassifier) else y, task=task)


def joint_reference(rows, lam, gamma, penalty):
    """The published problem, in coefficients and output kernel."""
    m = len(np.unique(rows[2]))
    W, A = cp.Variable((rows[0].shape[1], m)), cp.Variable((m, m), PSD=True)
    size = cp.trace(A) if penalty == "trace" else cp.sum_squares(A)
    coupling = lam * cp.matrix_frac(W.T, A)
    return optimum(squared_loss(W, rows) + coupling + gamma * size)


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"lam": 0.4, "gamma": 0.4, "penalty": "trace"}, 4.1293081511),
        ({"lam": 0.4, "penalty": "schatten", "power": 1.0}, 4.1293081511),
        ({"lam": 0.3, "gamma": 0.2, "penalty": "frobenius"}, 4.2678438777),
        ({"lam": 0.3, "gamma": 0.2, "penalty": "schatten"}, 4.2678438777),
    ],
)
def test_golden_values(rows, settings, value):
    model = fitted(CLMT(**settings, **EXACT), rows)
    assert model.objective_ == pytest.approx(value, abs=1e-9)
    assert model.dual_gap_ <= 1e-10


def test_golden_value_of_logistic_loss(rows):
    model = fitted(CLMTClassifier(lam=0.4, penalty="trace", **EXACT), rows)
    assert model.objective_ == pytest.approx(8.8753237767, abs=1e-9)


@pytest.mark.parametrize(("m", "d"), [(4, 6), (6, 3)])
@pytest.mark.parametrize("penalty", ["frobenius", "trace"])
def test_a_convex_solver_agrees(m, d, penalty):
    data = low_rank_tasks(m, d, seed=m)
    model = fitted(CLMT(0.5, 0.3, penalty=penalty, **EXACT), data)
    expected = joint_reference(data, 0.5, 0.3, penalty)
    assert model.objective_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("m", "d"), [(4, 6), (6, 3)])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_convex_solver_agrees_on_the_nuclear_norm(m, d, loss):
    data, W = low_rank_tasks(m, d, seed=m), cp.Variable((d, m))
    misfit = squared_loss if loss == "squared" else logistic_loss
    expected = optimum(misfit(W, data) + 2.0 * np.sqrt(0.5 * 0.3) * cp.normNuc(W))
    kind = CLMT if loss == "squared" else CLMTClassifier
    model = fitted(kind(0.5, 0.3, penalty="trace", **EXACT), data)
    assert model.objective_ == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("m", "d"), [(4, 6), (6, 3)])
def test_a_convex_solver_agrees_on_logistic_loss(m, d):
    data, W = low_rank_tasks(m, d, seed=m), cp.Variable((d, m))
    A = cp.Variable((m, m), PSD=True)
    coupling = 0.5 * cp.matrix_frac(W.T, A) + 0.3 * cp.sum_squares(A)
    expected = optimum(logistic_loss(W, data) + coupling)
    model = fitted(CLMTClassifier(0.5, 0.3, **EXACT), data)
    assert model.objective_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("power", [1.0, 1.3, 2.0, 3.0])
def test_the_kernel_attains_the_objective(rows, power):
    X, y, task = rows
    model = CLMT(0.5, 0.3, penalty="schatten", power=power, **EXACT).fit(
        X, y, task=task
    )
    A, W = model.output_kernel_, model.coef_.T
    values, vectors = np.linalg.eigh(A)
    kept = values > 1e-8
    coupling = np.sum((W @ vectors[:, kept]) ** 2 / values[kept])
    misfit = 0.5 * np.sum((np.sum(X * W.T[task], axis=1) - y) ** 2)
    size = 0.3 * np.sum(values[kept] ** power)
    assert misfit + 0.5 * coupling + size == pytest.approx(model.objective_, rel=1e-7)


def test_trace_is_the_nuclear_norm(rows):
    X, y, task = rows
    plain = {"penalty": "nuclear", "theta": 0.0, "epsilon": 0.0}
    twin = MultiTaskRegressor(lam=0.8, **plain, **EXACT).fit(X, y, task=task)
    model = fitted(CLMT(0.2, 0.8, penalty="trace", **EXACT), rows)
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_strengths_act_through_one_number(rows, penalty):
    p = {"trace": 1.0, "frobenius": 2.0, "schatten": 3.0}[penalty]
    settings = {"penalty": penalty, "power": 3.0, **EXACT}
    one = fitted(CLMT(0.4, 0.3, **settings), rows)
    other = fitted(CLMT(0.4 * 2.0, 0.3 / 2.0**p, **settings), rows)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


def test_large_powers_come_close_to_a_ridge(rows):
    many = CLMT(lam=0.4, penalty="schatten", power=1e5, **EXACT)
    strength = 2.0 * many._strength(0.4)
    plain = {"penalty": "fixed", "output_kernel": np.eye(4)}
    ridge = CLMT(lam=strength / 2.0, **plain, **EXACT)
    expected = fitted(ridge, rows).coef_
    np.testing.assert_allclose(fitted(many, rows).coef_, expected, atol=1e-3)


KERNEL_PENALTIES = [
    EigenvaluePenalty(p, g) for p in (1.0, 2.0, 5.0) for g in (None, 0.2)
]


@pytest.mark.parametrize("penalty", KERNEL_PENALTIES, ids=str)
@pytest.mark.parametrize("lam", [0.3, 7.0])
def test_what_is_left_is_the_least_over_eigenvalues(penalty, lam):
    sigma, gamma = 1.7, penalty.gamma or lam

    def joint(a):
        return lam * sigma**2 / a + gamma * a**penalty.power

    best = float(penalty.eigenvalues(np.array([sigma**2]), lam)[0])
    found = minimize_scalar(joint, bounds=(0.01, 100.0), method="bounded")
    assert best == pytest.approx(found.x, rel=1e-3)
    left = penalty.strength(lam) * sigma**penalty.exponent
    assert joint(best) == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize("penalty", KERNEL_PENALTIES, ids=str)
def test_strengths_know_their_lam(penalty):
    assert penalty.lam_of(penalty.strength(0.37)) == pytest.approx(0.37, rel=1e-12)


def test_a_singular_kernel_is_taken():
    A = np.ones((3, 3))
    np.testing.assert_array_equal(check_output_kernel(A.tolist(), 3), A)


def ridge_coefficients(X, y, strength, **settings):
    return Ridge(alpha=strength, tol=1e-12, **settings).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_identity_as_kernel_is_a_ridge_per_task(rows, fit_intercept):
    X, y, task = rows
    model = CLMT(
        0.4, penalty="fixed", output_kernel=np.eye(4), fit_intercept=fit_intercept
    )
    model.fit(X, y, task=task)
    for i in range(4):
        own = task == i
        ridge = ridge_coefficients(X[own], y[own], 0.8, fit_intercept=fit_intercept)
        np.testing.assert_allclose(model.coef_[i], ridge.coef_, atol=1e-12)
        assert model.intercept_[i] == pytest.approx(ridge.intercept_, abs=1e-12)


def test_ones_as_kernel_are_one_ridge_for_all(rows):
    X, y, _ = rows
    model = fitted(
        CLMT(0.4, penalty="fixed", output_kernel=np.ones((4, 4)), **EXACT), rows
    )
    pooled = ridge_coefficients(X, y, 0.8, fit_intercept=False)
    np.testing.assert_allclose(model.coef_, np.tile(pooled.coef_, (4, 1)), atol=1e-12)
    assert model.dual_gap_ <= 1e-11
    np.testing.assert_array_equal(model.output_kernel_, np.ones((4, 4)))


@pytest.mark.parametrize("A", [np.eye(4) + 0.5, np.ones((4, 4))], ids=["full", "one"])
def test_a_fixed_kernel_by_fista_and_by_one_system(rows, A, monkeypatch):
    direct = fitted(CLMT(0.4, penalty="fixed", output_kernel=A, **EXACT), rows)
    fista = solvers.Fista(restart=True)
    monkeypatch.setattr(CLMT, "_choose_method", lambda self, problem: fista)
    other = fitted(CLMT(0.4, penalty="fixed", output_kernel=A, **EXACT), rows)
    assert other.n_iter_ > direct.n_iter_
    np.testing.assert_allclose(other.coef_, direct.coef_, atol=1e-5)


def test_a_fixed_kernel_with_logistic_loss(rows):
    A = np.eye(4) + 0.5
    model = fitted(CLMTClassifier(0.4, penalty="fixed", output_kernel=A, **EXACT), rows)
    W = cp.Variable((5, 4))
    coupling = 0.4 * cp.sum_squares(W @ np.linalg.cholesky(np.linalg.inv(A)))
    expected = optimum(logistic_loss(W, rows) + coupling)
    assert model.objective_ == pytest.approx(expected, rel=1e-7)


def alternated(rows, steps, **settings):
    model = CLMT(solver="alternating", max_iter=steps, **settings, **EXACT)
    with pytest.warns(ConvergenceWarning):
        return fitted(model, rows)


def blurred_objective(model, rows):
    """What the alternation lowers: with WᵀW + 1e-8 I in place of WᵀW."""
    X, y, task = rows
    squares = np.linalg.eigvalsh(model.coef_ @ model.coef_.T).clip(0.0) + 1e-8
    misfit = 0.5 * np.sum((np.sum(X * model.coef_[task], axis=1) - y) ** 2)
    q = 1.0 if model.penalty == "trace" else 4.0 / 3.0
    return misfit + model._strength(model.lam) * np.sum(squares ** (q / 2.0))


@pytest.mark.parametrize("penalty", ["frobenius", "trace"])
def test_the_alternation_falls_and_ends_above_the_optimum(rows, penalty):
    settings = {"lam": 0.3, "gamma": 0.2, "penalty": penalty}
    models = [alternated(rows, n, **settings) for n in range(1, 6)]
    values = np.array([blurred_objective(model, rows) for model in models])
    best = fitted(CLMT(**settings, **EXACT), rows).objective_
    assert np.all(np.diff(values) <= 1e-13)
    assert all(model.objective_ >= best - 1e-10 for model in models)
    assert models[-1].objective_ <= best * 1.02


def test_a_fixed_kernel_needs_no_alternation(rows):
    settings = {"penalty": "fixed", "output_kernel": np.eye(4) + 0.5, **EXACT}
    turns = fitted(CLMT(0.4, solver="alternating", **settings), rows)
    assert turns.objective_ == fitted(CLMT(0.4, **settings), rows).objective_


def test_no_strength_is_least_squares():
    X, y, task = low_rank_tasks(2, 3, seed=1, n=9)
    model = CLMT(lam=0.0, **EXACT).fit(X, y, task=task)
    expected = np.linalg.lstsq(X[task == 0], y[task == 0], rcond=None)[0]
    np.testing.assert_allclose(model.coef_[0], expected, atol=1e-10)
    assert np.isfinite(model.output_kernel_).all()


@pytest.mark.parametrize("n", [1, 2, 6, 20])
@pytest.mark.parametrize("gamma", [None, 0.7])
@pytest.mark.parametrize("penalty", [*PENALTIES, "fixed"])
def test_suggestions_lie_on_a_grid_of_the_joint_strength(rows, n, gamma, penalty):
    X, y, task = rows
    model = CLMT(gamma=gamma, penalty=penalty, output_kernel=np.eye(4))
    bound = model._bind(from_labels(X, y, task))
    strengths = [model._strength(s["lam"]) for s in model._suggest(bound, n)]
    top = model._problem(bound).lam_max
    assert len(strengths) == n
    assert strengths[0] <= top * (1 + 1e-12)
    assert strengths[-1] >= 10.0**-3.5 * top * (1 - 1e-12)
    assert np.all(np.diff(strengths) < 0)


def test_trace_gives_zero_exactly_at_the_top_of_its_grid(rows):
    X, y, task = rows
    model = CLMT(penalty="trace")
    bound = model._bind(from_labels(X, y, task))
    top = model._suggest(bound, 6)[0]["lam"]
    outcome, below = model._follow(bound, [top, 0.99 * top])
    assert not outcome.model.coef.any()
    assert below.model.coef.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "cluster"}, "penalty must be one of"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"penalty": "schatten", "power": 0.5}, "power must be at least 1"),
        ({"gamma": 0.0}, "gamma must be a finite number above 0"),
        ({"lam": -1.0}, "lam must be a finite number"),
        (
            {"lam": 0.0, "penalty": "fixed", "output_kernel": np.eye(4)},
            "lam must be a finite number above 0",
        ),
        ({"penalty": "fixed"}, "with penalty=.fixed.: got None"),
        ({"penalty": "fixed", "output_kernel": np.eye(3)}, "of 4 x 4 tasks"),
        (
            {"penalty": "fixed", "output_kernel": -1e-9 * np.eye(4)},
            "positive semidefinite: its smallest eigenvalue is -1e-09",
        ),
        ({"penalty": "fixed", "output_kernel": np.triu(np.ones((4, 4)))}, "symmetric"),
        ({"penalty": "fixed", "output_kernel": np.full((4, 4), np.nan)}, "finite"),
    ],
)
def test_errors_tell_the_way_out(rows, settings, message):
    with pytest.raises(ValueError, match=message):
        fitted(CLMT(**settings), rows)


def test_the_alternation_refuses_logistic_loss(rows):
    with pytest.raises(ValueError, match="needs squared loss"):
        fitted(CLMTClassifier(solver="alternating"), rows)


def test_separable_classes(rows):
    X, y, task = rows
    X = np.hstack([X, np.where(y >= 0, 10.0, -10.0)[:, None]])
    for penalty in ("frobenius", "trace"):
        model = fitted(CLMTClassifier(1e-3, penalty=penalty), (X, y, task))
        assert model.score(X, y >= 0, task=task) == 1.0
