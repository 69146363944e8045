from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from instances import golden_rows
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.data import from_columns, from_labels

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

HALVES = [[0, 1], [2, 3, 4]]


def make_rows(m=3, d=4, n=6, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    w = rng.standard_normal(d) + 0.3 * rng.standard_normal((m, d))
    y = np.sum(X * w[task], axis=1) + 0.3 * rng.standard_normal(m * n)
    return X, y, task


def reference(X, y, task, model):
    """Optimal value by cvxpy, from raw rows."""
    blocks = model.blocks or [list(range(X.shape[1]))]
    tasks = np.unique(task).tolist()
    sets = [g for k in range(len(tasks)) for g in combinations(tasks, k + 1)]
    coef = [[0] * len(blocks) for _ in np.unique(task)]
    Q, constraints = cp.Variable(len(sets)), []
    for k, group in enumerate(sets):
        lengths = []
        for j, block in enumerate(blocks):
            U = cp.Variable((len(block), len(group)))
            mean = np.full((len(group), len(group)), 1 / len(group))
            root = np.sqrt(model.mean_share) * mean + np.eye(len(group)) - mean
            lengths.append(cp.norm(U @ root, "fro"))
            for column, i in enumerate(group):
                coef[i][j] = coef[i][j] + U[:, column]
        constraints.append(Q[k] >= cp.pnorm(cp.hstack(lengths), model.p, approx=False))
    above = [[k for k, g in enumerate(sets) if set(v) <= set(g)] for v in sets]
    norm = sum(
        model.growth ** (len(v) - 1) * cp.pnorm(Q[places], model.q, approx=False)
        for v, places in zip(sets, above, strict=True)
    )
    loss = sum(
        cp.sum_squares(
            sum(X[task == i][:, block] @ w for block, w in zip(blocks, ws, strict=True))
            - y[task == i]
        )
        for i, ws in enumerate(coef)
    )
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.square(norm) + model.C / 2 * loss), constraints
    )
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(
    ("blocks", "optimum"), [(None, 2.2987640), (HALVES, 2.5750109)]
)
def test_golden_value(blocks, optimum):
    X, y, task = golden_rows(3, 5)
    model = MTFL(growth=1.2, blocks=blocks, fit_intercept=False, tol=1e-9)
    model.fit(X, y, task=task)
    assert model.objective_ == pytest.approx(optimum, abs=1.5e-7)
    assert model.dual_gap_ <= 1e-9 * model.objective_


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("powers", [(1.5, 1.5), (1.2, 1.8)])
@pytest.mark.parametrize("blocks", [None, [[0, 2], [1, 3]]])
def test_agrees_with_cvxpy(blocks, powers, seed):
    X, y, task = make_rows(seed=seed)
    p, q = powers
    model = MTFL(
        0.7, growth=0.8, p=p, q=q, blocks=blocks, fit_intercept=False, tol=1e-8
    ).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(reference(X, y, task, model), rel=1e-5)


@pytest.mark.parametrize("growth", [1.0, 1.5])
@pytest.mark.parametrize("mean_share", [0.1, 1.0])
def test_one_group_of_all_tasks_is_a_ridge_regression(mean_share, growth):
    X, y, task = make_rows()
    C = 2.0
    model = MTFL(
        C,
        mean_share=mean_share,
        growth=growth,
        groups=[[0, 1, 2]],
        fit_intercept=False,
        tol=1e-12,
    ).fit(X, y, task=task)
    mean = np.full((3, 3), 1 / 3)
    M = mean_share * mean + np.eye(3) - mean
    matrix = growth**4 * np.kron(M, np.eye(4))
    linear = []
    for i in range(3):
        part = X[task == i]
        matrix[4 * i : 4 * i + 4, 4 * i : 4 * i + 4] += C * part.T @ part
        linear.append(C * part.T @ y[task == i])
    expected = np.linalg.solve(matrix, np.concatenate(linear)).reshape(3, 4)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-7)
    assert model.n_iter_ <= 3


def test_the_only_group_is_used_however_expensive():
    X, y, task = make_rows()
    model = MTFL(1e3, growth=30.0, groups=[[0, 1, 2]], tol=1e-9).fit(X, y, task=task)
    assert model.group_weights_[0] > 0


def test_one_group_with_full_share_of_means_leaves_tasks_alone():
    X, y, task = make_rows()
    setting = {"groups": [[0, 1, 2]], "mean_share": 1.0, "growth": 1.0, "tol": 1e-12}
    coef = MTFL(2.0, **setting).fit(X, y, task=task).coef_
    y[task == 2] += X[task == 2, 0]
    np.testing.assert_allclose(
        MTFL(2.0, **setting).fit(X, y, task=task).coef_[:2], coef[:2], atol=1e-9
    )


@pytest.mark.parametrize("seed", range(4))
def test_pair_of_like_tasks_is_found(seed):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((15, 6)), np.repeat(["a", "b", "z"], 5)
    y = np.where(task == "z", -1.0, 1.0) * (X @ rng.standard_normal(6))
    model = MTFL(mean_share=0.05, growth=0.7, fit_intercept=False)
    model.fit(X, y, task=task)
    weight = dict(zip(model.groups_, model.group_weights_, strict=True))
    right = weight["a", "b"]
    assert right > 0.005
    assert max(weight["a", "z"], weight["b", "z"]) < 0.1 * right


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_used_groups_have_used_subsets(C):
    X, y, task = make_rows(m=4)
    model = MTFL(C, growth=0.9).fit(X, y, task=task)
    sets = [set(group) for group in model.groups_]
    used = [g for g, w in zip(sets, model.group_weights_, strict=True) if w > 0]
    above = {
        tuple(v): sum(
            w for g, w in zip(sets, model.group_weights_, strict=True) if v <= g
        )
        for v in sets
    }
    assert used
    assert all(above[tuple(v)] > 0 for g in used for v in sets if v <= g)


def test_costly_groups_leave_single_tasks():
    X, y, task = make_rows(m=4)
    model = MTFL(growth=10.0, tol=1e-8).fit(X, y, task=task)
    assert np.all(model.group_weights_[4:] == 0)
    alone = MTFL(groups=[[0], [1], [2], [3]], tol=1e-8).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)


def test_choice_of_groups_is_recorded():
    X, y, task = make_rows(m=12, n=4)
    model = MTFL().fit(X, y, task=task)
    assert model.group_choice_ == "tree"
    assert len(model.groups_) <= 23
    few = task < 3
    assert MTFL().fit(X[few], y[few], task=task[few]).group_choice_ == "all"
    given = MTFL(groups=[[0, 1], [2]]).fit(X[few], y[few], task=task[few])
    assert given.group_choice_ == "given"
    assert given.groups_ == [(2,), (0, 1)]


def test_intercepts_are_those_of_centred_tasks():
    X, y, task = make_rows()
    shifted = X + np.array([5.0, -3.0, 1.0])[task][:, np.newaxis]
    tight = {"tol": 1e-10}
    model = MTFL(**tight).fit(shifted, y + 7.0 * task, task=task)
    centred = X - np.array([X[task == i].mean(axis=0) for i in range(3)])[task]
    target = y - np.array([y[task == i].mean() for i in range(3)])[task]
    plain = MTFL(fit_intercept=False, **tight).fit(centred, target, task=task)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-7)
    residual = y + 7.0 * task - model.predict(shifted, task=task)
    np.testing.assert_allclose(
        [residual[task == i].mean() for i in range(3)], 0, atol=1e-9
    )


def test_weights_count_as_repetitions():
    X, y, task = make_rows()
    times = np.random.default_rng(1).integers(0, 4, len(y))
    times[::6] = 1
    weighted = MTFL(tol=1e-10).fit(X, y, task=task, sample_weight=times)
    repeated = MTFL(tol=1e-10).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times), task=np.repeat(task, times)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)


@pytest.mark.parametrize("blocks", [None, [[1, 0], [3, 2]]])
def test_layouts_agree(blocks):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((7, 4)), rng.standard_normal((7, 3))
    setting = {"blocks": blocks, "tol": 1e-10}
    shared = MTFL(**setting).fit(X, Y).coef_
    stacked = np.tile(X, (3, 1)), Y.T.ravel()
    task = np.repeat([0, 1, 2], 7)
    for matrix in (stacked[0], csr_array(stacked[0])):
        model = MTFL(**setting).fit(matrix, stacked[1], task=task)
        np.testing.assert_allclose(model.coef_, shared, atol=1e-7)


def test_path_agrees_with_single_fits():
    X, y, task = make_rows(m=5)
    model, strengths = MTFL(tol=1e-7), [0.01, 0.1, 1.0, 10.0]
    bound = model._bind(from_labels(X, y, task))
    for C, outcome in zip(strengths, model._follow(bound, strengths), strict=True):
        alone = MTFL(C, tol=1e-7).fit(X, y, task=task)
        assert outcome.objective == pytest.approx(alone.objective_, rel=2e-7)
        assert outcome.shortfall is None


@pytest.mark.parametrize("n", [1, 2, 6, 20, 36, 100])
def test_suggestions_are_few_valid_and_follow_units(n):
    X, Y = np.random.default_rng(0).standard_normal((2, 9, 4))
    model = MTFL()
    settings = model._suggest(model._bind(from_columns(X, Y)), n)
    assert 0.9 * n <= len(settings) <= n
    for setting in settings:
        MTFL(**setting, tol=1e-3).fit(X, Y)
    scaled = model._suggest(model._bind(from_columns(10.0 * X, 3.0 * Y)), n)
    for a, b in zip(settings, scaled, strict=True):
        assert b["C"] == pytest.approx(a["C"] / 100.0)
        assert (a["mean_share"], a["growth"]) == (b["mean_share"], b["growth"])


def test_suggestions_without_variation_are_finite():
    model = MTFL()
    bound = model._bind(from_columns(np.ones((4, 2)), np.ones((4, 2))))
    assert all(np.isfinite(setting["C"]) for setting in model._suggest(bound, 6))


def test_classes_are_targets_of_a_regression():
    X, y, task = make_rows()
    labels = np.where(y > 0, "yes", "no")
    classifier = MTFLClassifier(tol=1e-9).fit(X, labels, task=task)
    regressor = MTFL(tol=1e-9).fit(X, np.where(y > 0, 1.0, -1.0), task=task)
    np.testing.assert_allclose(classifier.coef_, regressor.coef_)
    assert classifier.score(X, labels, task=task) > 0.8
    assert not hasattr(classifier, "predict_proba")


DEGENERATE = {
    "one task": make_rows(m=1),
    "one row per task": make_rows(m=4, n=1),
    "wide": make_rows(d=40, n=3),
    "constant columns": (np.ones((9, 3)), np.arange(9.0), np.repeat([0, 1, 2], 3)),
    "constant targets": (make_rows()[0], np.ones(18), make_rows()[2]),
    "duplicates": (np.tile(make_rows()[0], 3), *make_rows()[1:]),
    "equal tasks": (
        np.tile(make_rows(m=1)[0], (12, 1)),
        np.tile(make_rows(m=1)[1], 12),
        np.repeat(np.arange(12), 6),
    ),
    "huge": (1e8 * make_rows()[0], 1e50 * make_rows()[1], make_rows()[2]),
    "tiny": (1e-8 * make_rows()[0], 1e-50 * make_rows()[1], make_rows()[2]),
    "one-hot": (
        np.eye(4)[np.arange(40) % 4],
        np.sin(np.arange(40)),
        np.arange(40) % 11,
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_finite_models(name, C):
    X, y, task = DEGENERATE[name]
    model = MTFL(C, max_iter=100).fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite([model.objective_, model.dual_gap_]).all()


@pytest.mark.parametrize("powers", [(1.05, 1.05), (2.0, 2.0), (1.05, 2.0)])
def test_extreme_powers_converge(powers):
    X, y, task = make_rows()
    model = MTFL(p=powers[0], q=powers[1], blocks=[[0], [1, 2, 3]])
    model.fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"C": -1.0}, "C must be a finite number above 0: got -1"),
        ({"C": 0.0}, "C must be a finite number above 0"),
        ({"mean_share": 0.0}, "mean_share must be a finite number above 0"),
        ({"mean_share": 1.5}, "mean_share must be at most 1"),
        ({"growth": -1.0}, "growth must be"),
        ({"p": 1.0}, r"p must be between 1.05 and 2.*got 1.0"),
        ({"q": 2.5}, r"q must be between 1.05 and 2"),
        ({"groups": "some"}, "groups must be one of"),
        ({"groups": 3}, "or a list of non-empty lists"),
        ({"groups": [[0]]}, r"hold every task.* missing tasks \[1"),
        ({"groups": [[0, 1, 2, 7]]}, r"Unknown names are \[7\]"),
        ({"groups": [[0, 1, 2], []]}, "non-empty"),
        ({"groups": ["ab"]}, "non-empty"),
        ({"blocks": [[0, 1]]}, "blocks must hold each of the 4 features"),
        ({"blocks": [[0, 1, 2, 3], []]}, "none may be empty"),
        ({"blocks": [["x"], [0, 1, 2, 3]]}, "exactly once"),
    ],
)
def test_settings_are_checked(setting, message):
    X, y, task = make_rows()
    with pytest.raises(ValueError, match=message):
        MTFL(**setting).fit(X, y, task=task)


def test_shortfall_is_told():
    X, y, task = make_rows()
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        MTFL(max_iter=2, tol=1e-9).fit(X, y, task=task)
