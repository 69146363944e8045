import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from instances import golden_rows
from priormtl import MultiTaskRegressor
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

PAIRS = [(2, 2), (1, 1), (1, 2), (2, 1)]
NOT_CONVEX = PAIRS[1:]
EVERY_PAIR = pytest.mark.parametrize(("p", "k"), PAIRS)
BOTH_LOSSES = pytest.mark.parametrize("loss", ["squared", "logistic"])


@pytest.fixture
def golden():
    return golden_rows(4, 5)


@pytest.fixture
def related():
    return make_related_tasks(4, 6, 20, noise=0.3, random_state=0)


def unrelated(lam):
    return MultiTaskRegressor(lam, task_prior=None, fit_intercept=True, tol=1e-10)


def classes(y):
    return np.where(y >= 0, 1, -1)


# Known values.


@pytest.mark.parametrize(
    ("p", "k", "lam", "objective", "zero"),
    [
        (2, 2, 0.4, 6.6272881197, [3, 4]),
        (1, 1, 0.1, 1.535671849, [3, 4]),
        (1, 2, 0.1, 1.892313630, [3]),
        (2, 1, 0.1, 1.252132313, [3]),
    ],
)
def test_golden_values(golden, p, k, lam, objective, zero):
    X, y, task = golden
    model = MMTFL(lam, p=p, k=k, fit_intercept=False, tol=1e-12).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(objective, rel=1e-8)
    assert np.flatnonzero(model.shared_ == 0).tolist() == zero
    assert np.flatnonzero(~model.coef_.any(axis=0)).tolist() == zero
    assert model.residual_ < 1e-6


def test_golden_value_of_the_logistic_loss(golden):
    X, y, task = golden
    model = MMTFLClassifier(0.4, p=2, k=2, fit_intercept=False, tol=1e-10)
    model.fit(X, classes(y), task=task)
    assert model.objective_ == pytest.approx(9.9559461400, rel=1e-8)


def test_pairs_must_not_be_swapped(golden):
    X, y, task = golden
    one, two = (
        MMTFL(0.1, p=p, k=k, fit_intercept=False, tol=1e-10).fit(X, y, task=task)
        for p, k in ((1, 2), (2, 1))
    )
    assert one.objective_ > two.objective_ + 0.5


# Agreement with others.


def test_convex_pair_is_the_row_penalty_of_twice_the_strength(related):
    X, y, task = related
    model = MMTFL(1.5, p=2, k=2, tol=1e-10).fit(X, y, task=task)
    ours = unrelated(3.0).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(ours.objective_, rel=1e-9)
    np.testing.assert_allclose(model.coef_, ours.coef_, atol=1e-6)
    assert model.dual_gap_ <= 1e-8 * ours.objective_ * 10


@pytest.mark.parametrize("seed", range(3))
@BOTH_LOSSES
def test_convex_pair_agrees_with_cvxpy(seed, loss):
    X, y, task = make_related_tasks(3, 4, 9, noise=0.5, random_state=seed)
    lam = 0.4
    P, b = cp.Variable((4, 3)), cp.Variable(3)
    scores = cp.sum(cp.multiply(X, P[:, task].T), axis=1) + b[task]
    if loss == "squared":
        misfit = 0.5 * cp.sum_squares(scores - y)
        model = MMTFL(lam, p=2, k=2, tol=1e-10).fit(X, y, task=task)
    else:
        misfit = cp.sum(cp.logistic(-cp.multiply(classes(y), scores)))
        model = MMTFLClassifier(lam, p=2, k=2, tol=1e-10)
        model.fit(X, classes(y), task=task)
    objective = misfit + 2 * lam * cp.sum(cp.norm(P, 2, axis=1))
    expected = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)


def test_strengths_of_both_parts_act_as_one(golden):
    """γ1 · 3 and γ2 / 3 leave the convex pair as it is: only the product counts."""
    X, y, task = golden
    W = MMTFL(0.4, p=2, k=2, fit_intercept=False).fit(X, y, task=task).coef_
    sums = np.sum(W**2, axis=0)
    for first, second in ((0.4, 0.4), (1.2, 0.4 / 3)):
        v = (first * sums / second) ** 0.25
        kept = v > 0
        cost = first * np.sum(sums[kept] / v[kept] ** 2) + second * np.sum(v**2)
        assert cost == pytest.approx(0.8 * np.sqrt(sums).sum())


@EVERY_PAIR
def test_published_objective_is_that_of_the_published_model(related, p, k):
    X, y, task = related
    model = MMTFL(0.8, p=p, k=k).fit(X, y, task=task)
    residual = y - model.predict(X, task=task)
    v = model.shared_[model.shared_ > 0]
    own = model.coef_[:, model.shared_ > 0] / v
    penalty = 0.8 * (np.sum(np.abs(own) ** p) + np.sum(v**k))
    assert model.objective_ == pytest.approx(0.5 * residual @ residual + penalty)


@EVERY_PAIR
def test_without_strength_it_is_least_squares(related, p, k):
    X, y, task = related
    model = MMTFL(0.0, p=p, k=k).fit(X, y, task=task)
    expected = unrelated(0.0).fit(X, y, task=task).coef_
    np.testing.assert_allclose(model.coef_, expected, atol=1e-8)


# What must hold.


@pytest.mark.parametrize(("p", "k"), NOT_CONVEX)
def test_every_strength_begins_anew(related, p, k):
    X, y, task = related
    method = MMTFL(p=p, k=k)
    bound = method._bind(from_labels(X, y, task))
    there = list(method._follow(bound, [1e6, 0.5, 0.0]))
    (alone,) = method._follow(bound, [0.5])
    assert not there[0].model.coef.any()
    np.testing.assert_array_equal(there[1].model.coef, alone.model.coef)


@pytest.mark.parametrize(("p", "k"), NOT_CONVEX)
@BOTH_LOSSES
def test_strong_penalties_leave_nothing(related, p, k, loss):
    X, y, task = related
    model = MMTFLClassifier(1e4, p=p, k=k, loss=loss).fit(X, y > 0, task=task)
    assert not model.coef_.any()
    assert model.residual_ == 0.0


@EVERY_PAIR
@BOTH_LOSSES
def test_shared_rows_gaps_and_sparse_tables(p, k, loss):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((25, 6)) < 0.5, rng.standard_normal((25, 6)), 0.0)
    Y = classes(X @ rng.standard_normal((6, 3)) + 0.3 * rng.standard_normal((25, 3)))
    settings = {"lam": 0.3, "p": p, "k": k, "loss": loss, "tol": 1e-7}
    together = MMTFLClassifier(**settings).fit(X, Y)
    sparse = MMTFLClassifier(**settings).fit(csr_array(X), Y)
    task = np.repeat(np.arange(3), 25)
    apart = MMTFLClassifier(**settings).fit(np.tile(X, (3, 1)), Y.T.ravel(), task=task)
    np.testing.assert_allclose(sparse.coef_, together.coef_, atol=1e-3)
    np.testing.assert_allclose(apart.coef_, together.coef_, atol=1e-3)


@EVERY_PAIR
def test_gaps_in_targets_are_left_out(p, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))
    Y = X @ rng.standard_normal((4, 2)) + 0.1 * rng.standard_normal((20, 2))
    Y[[0, 3], [1, 0]] = np.nan
    known = ~np.isnan(Y)
    row, task = np.nonzero(known)
    settings = {"lam": 0.3, "p": p, "k": k, "tol": 1e-10}
    together = MMTFL(**settings).fit(X, Y)
    apart = MMTFL(**settings).fit(X[row], Y[known], task=task)
    np.testing.assert_allclose(apart.coef_, together.coef_, atol=1e-5)


# Degenerate data.


@EVERY_PAIR
@pytest.mark.parametrize("shape", [(3, 1), (6, 40)])
def test_few_rows_are_enough_for_something_finite(p, k, shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    model = MMTFL(0.1, p=p, k=k).fit(X, X[:, 0], task=np.arange(len(X)) % 3)
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize(("p", "k"), NOT_CONVEX)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_any_scale_is_finite(related, p, k, scale, size):
    X, y, task = related
    model = MMTFL(p=p, k=k).fit(scale * X, size * y, task=task)
    assert np.all(np.isfinite(model.coef_))
    assert np.isfinite(model.objective_)


@EVERY_PAIR
def test_constant_duplicate_and_one_hot_columns_do_no_harm(related, p, k):
    X, y, task = related
    hot = np.eye(4)[np.arange(len(X)) % 4]
    wide = np.column_stack([X, X[:, 0], np.full(len(X), 3.0), hot, task == 1])
    model = MMTFL(0.2, p=p, k=k).fit(wide, y, task=task)
    assert np.all(np.isfinite(model.coef_))
    assert not model.coef_[:, [7, 12]].any()


@EVERY_PAIR
def test_separable_classes_stay_finite(p, k):
    X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    task = np.arange(20) % 2
    model = MMTFLClassifier(0.01, p=p, k=k).fit(X, X[:, 0] > 0, task=task)
    assert np.all(np.isfinite(model.coef_))
    assert model.score(X, X[:, 0] > 0, task=task) == 1.0


# Settings.


@EVERY_PAIR
@pytest.mark.parametrize("n", [1, 2, 6])
def test_suggestions_fall_from_nothing_to_almost_free(related, p, k, n):
    X, y, task = related
    method = MMTFL(p=p, k=k)
    bound = method._bind(from_labels(X, y, task))
    lams = [part["lam"] for part in method._suggest(bound, n)]
    assert len(lams) == n
    assert lams == sorted(lams, reverse=True)
    outcomes = list(method._follow(bound, lams))
    assert outcomes[-1].model.coef.any()
    assert n == 1 or not outcomes[0].model.coef.any()


@pytest.mark.parametrize("name", ["p", "k"])
@pytest.mark.parametrize("value", [3, "2", 1.5, True, None])
def test_exponents_are_one_or_two(related, name, value):
    X, y, task = related
    with pytest.raises(ValueError, match=f"{name} must be 1 or 2: got"):
        MMTFL(**{name: value}).fit(X, y, task=task)


def test_too_few_turns_are_told(related):
    X, y, task = related
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model = MMTFL(max_iter=2, tol=1e-14).fit(X, y, task=task)
    assert model.n_iter_ == 2


def test_gaps_are_published_for_the_convex_pair_only(related):
    X, y, task = related
    model = MMTFL(p=2, k=2).fit(X, y, task=task)
    assert np.isfinite(model.dual_gap_)
    assert np.isnan(model.set_params(k=1).fit(X, y, task=task).dual_gap_)
