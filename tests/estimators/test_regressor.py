"""MultiTaskRegressor: what goes in, what comes out, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, LinearRegression, Ridge

from priormtl import FeaturePrior, MultiTaskRegressor, TaskPrior, summarize
from priormtl.datasets import make_related_tasks
from priormtl.solvers import METHODS

NAMES = list("abcdef")


@pytest.fixture
def data():
    return make_related_tasks(4, 6, 15, random_state=0)


@pytest.fixture
def fitted(data):
    return MultiTaskRegressor(tol=1e-10).fit(data.X, data.y, task=data.task)


def frame_of(data, kind=pd.DataFrame):
    columns = {name: data.X[:, j] for j, name in enumerate(NAMES)}
    labels = [f"t{label}" for label in data.task]
    return kind({**columns, "school": labels})


def objective(model, X, y, task, D=None):
    """Formula of the documentation, term by term."""
    P, b = model.coef_.T, model.intercept_
    misfit = 0.5 * np.sum((np.sum(X * P.T[task], axis=1) + b[task] - y) ** 2)
    rows = model.lam * np.linalg.norm(P, axis=1).sum()
    features = 0.0 if D is None else 0.5 * model.theta * np.sum((D @ P) ** 2)
    ties = 0.5 * model.epsilon * np.sum(np.diff(P, axis=1) ** 2)
    return misfit + rows + features + ties


def test_objective_is_the_documented_formula(data):
    D = np.array([[1.0, -1.0, 0, 0, 0, 0], [0, 0, 1.0, 1.0, 0, 0]])
    model = MultiTaskRegressor(2.0, 3.0, 4.0, feature_prior=D)
    model.fit(data.X, data.y, task=data.task)
    expected = objective(model, data.X, data.y, data.task, D)
    assert model.objective_ == pytest.approx(expected, rel=1e-12)


def test_tied_intercepts_pay_for_their_spread(data):
    model = MultiTaskRegressor(
        fit_intercept="tied", intercept_strength=5.0, task_prior="mean", epsilon=0.0
    ).fit(data.X, data.y, task=data.task)
    spread = np.sum((model.intercept_ - model.intercept_.mean()) ** 2)
    expected = objective(model, data.X, data.y, data.task) + 2.5 * spread
    assert model.objective_ == pytest.approx(expected, rel=1e-10)


def test_tied_intercepts_lie_between_free_and_equal(data):
    spreads = [
        np.ptp(
            MultiTaskRegressor(
                fit_intercept="tied", intercept_strength=strength, task_prior="mean"
            )
            .fit(data.X, data.y + 3.0 * data.task, task=data.task)
            .intercept_
        )
        for strength in (1e-9, 10.0, 1e9)
    ]
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 1e-5


def test_all_solvers_agree(data, fitted):
    for solver in METHODS:
        model = clone(fitted).set_params(solver=solver)
        model.fit(data.X, data.y, task=data.task)
        assert model.coef_ == pytest.approx(fitted.coef_, abs=1e-4)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_equal_arrays(data, fitted, kind):
    frame = frame_of(data, kind)
    model = clone(fitted).set_params(task="school").fit(frame, data.y)
    assert model.coef_ == pytest.approx(fitted.coef_, rel=1e-12)
    assert model.tasks_.tolist() == ["t0", "t1", "t2", "t3"]
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 6
    assert model.predict(frame) == pytest.approx(fitted.predict(data.X, task=data.task))


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_equals_dense(data, fitted, kind):
    sparse = kind(np.where(np.abs(data.X) > 1, data.X, 0.0))
    dense = clone(fitted).fit(sparse.toarray(), data.y, task=data.task)
    model = clone(fitted).fit(sparse, data.y, task=data.task)
    assert model.coef_ == pytest.approx(dense.coef_, abs=1e-7)
    both = dense.predict(sparse.toarray(), task=data.task)
    assert model.predict(sparse, task=data.task) == pytest.approx(both, abs=1e-6)


def test_columns_with_gaps_equal_stacked_rows(data):
    rng = np.random.default_rng(0)
    X = data.X[:20]
    Y = rng.standard_normal((20, 3))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    rows, columns = np.nonzero(~np.isnan(Y))
    model = MultiTaskRegressor(tol=1e-12)
    shared = clone(model).fit(X, Y)
    stacked = clone(model).fit(X[rows], Y[rows, columns], task=columns)
    assert shared.coef_ == pytest.approx(stacked.coef_, abs=1e-7)
    assert shared.predict(X).shape == (20, 3)
    assert shared.predict(X, task=np.zeros(20, int)) == pytest.approx(
        shared.predict(X)[:, 0]
    )
    assert np.isfinite(shared.score(X, Y))


def test_column_names_of_targets_name_the_tasks(data):
    Y = pd.DataFrame(data.y.reshape(15, 4), columns=["q1", "q2", "q3", "q4"])
    model = MultiTaskRegressor().fit(data.X[:15], Y)
    assert model.tasks_.tolist() == ["q1", "q2", "q3", "q4"]


def test_weights_per_cell_of_shared_targets(data):
    X, Y = data.X[:15], data.y.reshape(15, 4)
    weight = np.ones_like(Y)
    weight[3:6, 2] = 0.0
    with_gap = Y.copy()
    with_gap[3:6, 2] = np.nan
    a = MultiTaskRegressor(tol=1e-12).fit(X, Y, sample_weight=weight)
    b = MultiTaskRegressor(tol=1e-12).fit(X, with_gap)
    assert a.coef_ == pytest.approx(b.coef_, abs=1e-8)


def test_category_order_is_the_order_of_tasks(data):
    order = ["t2", "t0", "t3", "t1"]
    labels = pd.Categorical([f"t{i}" for i in data.task], categories=[*order, "unused"])
    model = MultiTaskRegressor().fit(data.X, data.y, task=labels)
    assert model.tasks_.tolist() == order
    plain = MultiTaskRegressor(task_prior=TaskPrior.chain(order))
    plain.fit(data.X, data.y, task=[f"t{i}" for i in data.task])
    by_name = dict(zip(plain.tasks_, plain.coef_, strict=True))
    for task, row in zip(model.tasks_, model.coef_, strict=True):
        assert row == pytest.approx(by_name[task], abs=1e-4)


def test_one_task_is_the_lasso(data):
    X, y = data.X[:15], data.y[:15]
    model = MultiTaskRegressor(lam=2.0, tol=1e-12).fit(X, y)
    lasso = Lasso(alpha=2.0 / 15, tol=1e-12).fit(X, y)
    assert model.coef_[0] == pytest.approx(lasso.coef_, abs=1e-6)
    assert model.intercept_[0] == pytest.approx(lasso.intercept_, abs=1e-6)


def test_no_strength_is_least_squares_per_task(data):
    model = MultiTaskRegressor(0.0, 0.0, 0.0, tol=1e-12)
    model.fit(data.X, data.y, task=data.task)
    for i in range(4):
        rows = data.task == i
        plain = LinearRegression().fit(data.X[rows], data.y[rows])
        assert model.coef_[i] == pytest.approx(plain.coef_, abs=1e-8)


def test_strong_mean_tie_is_pooled(data):
    model = MultiTaskRegressor(0.0, 0.0, 1e8, task_prior="mean", fit_intercept=False)
    model.fit(data.X, data.y, task=data.task)
    pooled = Ridge(alpha=0.0, fit_intercept=False).fit(data.X, data.y)
    assert model.coef_ == pytest.approx(np.tile(pooled.coef_, (4, 1)), abs=1e-4)


def test_standardize_does_not_see_units(data):
    factor = np.array([1e-3, 1.0, 1e3, 5.0, 0.1, 1.0])
    model = MultiTaskRegressor(standardize=True, tol=1e-12)
    a = clone(model).fit(data.X, data.y, task=data.task)
    b = clone(model).fit(data.X * factor, data.y, task=data.task)
    assert b.coef_ * factor == pytest.approx(a.coef_, abs=1e-7)


def test_standardize_is_scaling_by_hand(data):
    scale = data.X.std(axis=0)
    a = MultiTaskRegressor(standardize=True, tol=1e-12)
    a.fit(data.X, data.y, task=data.task)
    b = MultiTaskRegressor(tol=1e-12).fit(data.X / scale, data.y, task=data.task)
    assert a.coef_ == pytest.approx(b.coef_ / scale, abs=1e-7)


def test_feature_weights_are_scaling_of_lam(data):
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 30.0])
    model = MultiTaskRegressor(2.0, feature_weights=weights).fit(
        data.X, data.y, task=data.task
    )
    penalty = np.linalg.norm(model.coef_, axis=0) @ (2.0 * (weights - 1.0))
    expected = objective(model, data.X, data.y, data.task) + penalty
    assert model.objective_ == pytest.approx(expected, rel=1e-10)
    assert not model.coef_[:, 5].any()


def test_tie_weights_free_a_feature(data):
    weights = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    model = MultiTaskRegressor(0.01, 0.0, 1e6, ties=weights, max_iter=10**6)
    model.fit(data.X, data.y, task=data.task)
    spread = np.ptp(model.coef_, axis=0)
    assert spread[0] > 1e-3
    assert spread[1:].max() < 1e-3


def test_warm_start_equals_cold_start(data, fitted):
    warm = clone(fitted).set_params(warm_start=True)
    warm.fit(data.X, data.y, task=data.task)
    warm.set_params(lam=5.0).fit(data.X, data.y, task=data.task)
    cold = clone(fitted).set_params(lam=5.0).fit(data.X, data.y, task=data.task)
    assert warm.coef_ == pytest.approx(cold.coef_, abs=1e-5)
    warm.fit(data.X, data.y, task=data.task)
    assert warm.n_iter_ == 0


def test_statistics_replace_rows(data, fitted):
    statistics = summarize(data.X, data.y, data.task)
    model = clone(fitted).fit_statistics(statistics)
    assert model.coef_ == pytest.approx(fitted.coef_, abs=1e-9)
    assert model.predict(data.X, task=data.task) == pytest.approx(
        fitted.predict(data.X, task=data.task)
    )


def test_partial_fit_adds_up(data, fitted):
    model = clone(fitted)
    order = np.random.default_rng(0).permutation(60)
    for part in np.array_split(order, 5):
        model.partial_fit(data.X[part], data.y[part], task=data.task[part])
    assert model.coef_ == pytest.approx(fitted.coef_, abs=1e-9)
    assert model.statistics_.weight.sum() == 60


def test_partial_fit_continues_fit(data, fitted):
    half = np.arange(60) % 2 == 0
    model = clone(fitted).fit(data.X[half], data.y[half], task=data.task[half])
    model.partial_fit(data.X[~half], data.y[~half], task=data.task[~half])
    assert model.coef_ == pytest.approx(fitted.coef_, abs=1e-9)


def test_partial_fit_cannot_continue_samples(data):
    model = MultiTaskRegressor().fit(data.X[:3], data.y[:3])
    with pytest.raises(ValueError, match="kept no statistics"):
        model.partial_fit(data.X, data.y)


def test_new_tasks_may_appear_in_partial_fit(data):
    model = MultiTaskRegressor()
    for i in (2, 0, 3, 1):
        rows = data.task == i
        model.partial_fit(data.X[rows], data.y[rows], task=data.task[rows])
    assert model.tasks_.tolist() == [0, 1, 2, 3]


def test_same_input_gives_the_same_bits(data, fitted):
    again = clone(fitted).fit(data.X, data.y, task=data.task)
    assert np.array_equal(again.coef_, fitted.coef_)


def test_gap_is_below_the_tolerance(data):
    model = MultiTaskRegressor(tol=1e-8).fit(data.X, data.y, task=data.task)
    residual = data.y - np.array([data.y[data.task == i].mean() for i in data.task])
    assert model.dual_gap_ <= 1e-8 * 0.5 * np.sum(residual**2)


def test_warning_names_gap_bound_and_way_out(data):
    model = MultiTaskRegressor(max_iter=1, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter\.$") as told:
        model.fit(data.X, data.y, task=data.task)
    residual = data.y - np.array([data.y[data.task == i].mean() for i in data.task])
    share = model.dual_gap_ / (0.5 * residual @ residual)
    words = str(told[0].message)
    assert f"the duality gap is {model.dual_gap_:.3g}, {share:.3g} of the" in words
    assert told[0].filename == __file__  # points at the call of fit


def test_feature_prior_is_published_with_positions(data):
    prior = FeaturePrior.similar([("a", "b")]) + FeaturePrior.from_correlation(2)
    frame = frame_of(data)
    model = MultiTaskRegressor(feature_prior=prior, task="school").fit(frame, data.y)
    plain = model.feature_prior_.to_plain()
    assert (plain[0]["first"], plain[0]["second"]) == ([0], [1])
    assert len(plain[1]["first"]) == 2


DEGENERATE = {
    "one row": ([[1.0, 2.0]], [3.0]),
    "constant columns": (np.ones((5, 2)), np.arange(5.0)),
    "duplicate columns": (
        np.repeat(np.arange(5.0)[:, None], 2, axis=1),
        np.arange(5.0),
    ),
    "equal targets": (np.eye(4), np.full(4, 7.0)),
    "zero targets": (np.eye(4), np.zeros(4)),
    "more features than rows": (np.eye(3, 8), np.arange(3.0)),
    "one feature": (np.arange(4.0)[:, None], np.arange(4.0)),
    "large offsets": (1e8 + np.eye(4), np.arange(4.0)),
    "tiny numbers": (1e-12 * np.eye(4), 1e-12 * np.arange(4.0)),
    "huge numbers": (1e12 * np.eye(4), 1e12 * np.arange(4.0)),
    "integers": (np.eye(4, dtype=np.int8), np.arange(4, dtype=np.uint8)),
    "booleans": (np.eye(4, dtype=bool), np.arange(4)),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("strength", [0.0, 1e-3, 1.0, 1e6])
def test_degenerate_data_fit(case, strength):
    X, y = DEGENERATE[case]
    model = MultiTaskRegressor(strength, strength, strength).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    assert np.isfinite(model.dual_gap_)


def test_task_with_one_row_fits(data):
    rows = np.r_[0:15, 15, 30:45]
    model = MultiTaskRegressor().fit(data.X[rows], data.y[rows], task=data.task[rows])
    assert model.coef_.shape == (3, 6)


BAD_FITS = {
    "NaN in X": ({"X": np.full((3, 2), np.nan)}, "NaN"),
    "inf in X": ({"X": np.full((3, 2), np.inf)}, "infinity"),
    "too large": ({"X": np.full((3, 2), 1e200)}, "column 0 contains values beyond"),
    "NaN in a frame": (
        {"X": pd.DataFrame({"a": [1.0, None, 2.0]})},
        "'a' contains NaN",
    ),
    "NaN in y": ({"y": [1.0, np.nan, 2.0]}, "y contains NaN"),
    "all-NaN column": (
        {"y": np.c_[np.arange(3.0), np.full(3, np.nan)]},
        r"\[1\] have none",
    ),
    "no y": ({"y": None}, "requires y to be passed"),
    "short y": ({"y": [1.0, 2.0]}, "inconsistent numbers of samples"),
    "short task": ({"task": ["a", "b"]}, "got 2 labels for 3 rows"),
    "missing task": ({"task": ["a", None, "b"]}, "missing labels"),
    "mixed tasks": ({"task": ["a", 1, 2]}, "of one kind"),
    "task and columns": ({"task": [0, 0, 1], "y": np.ones((3, 2))}, "one dimension"),
    "short weight": ({"sample_weight": [1.0]}, "one value per row"),
    "negative weight": ({"sample_weight": [1.0, -1.0, 1.0]}, "not negative"),
    "zero weights": ({"sample_weight": [0.0, 0.0, 0.0]}, "zero for all rows"),
    "empty task": ({"task": [0, 0, 1], "sample_weight": [1, 1, 0]}, r"\[1\] have none"),
}


def refuses(model, match, X, y, **kw):
    """Fitting fails with one sentence and leaves the estimator as it was."""
    before = dict(vars(model))
    with pytest.raises(ValueError, match=match) as caught:
        model.fit(X, y, **kw)
    assert vars(model) == before
    return str(caught.value)


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_data_are_refused(case):
    changes, match = BAD_FITS[case]
    arguments = {"X": np.eye(3, 2), "y": np.arange(3.0)} | changes
    refuses(MultiTaskRegressor(), match, **arguments)


BAD_SETTINGS = {
    "lam": (-1.0, "lam must be a finite number, at least 0: got -1.0"),
    "theta": (np.inf, "theta must be a finite number"),
    "epsilon": ("a", "epsilon must be a finite number"),
    "tol": (0.0, "tol must be a positive number"),
    "max_iter": (0, "max_iter must be a positive whole number"),
    "penalty": ("l1", "penalty must be one of 'l21', 'nuclear'"),
    "solver": ("newton", "solver must be one of 'auto', 'gd'"),
    "fit_intercept": ("free", 'True, False or "tied"'),
    "intercept_strength": (-1, "intercept_strength must be"),
    "feature_weights": ([1.0, 0.0], "finite and above 0"),
    "ties": ([1.0], r"one weight per feature: got shape \(1,\) for 2"),
    "feature_prior": (np.eye(3), "3 columns for 2 features"),
    "task_prior": ("ring", "task_prior must be a TaskPrior"),
    "task": ("school", "X has no column names"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    value, match = BAD_SETTINGS[name]
    message = refuses(
        MultiTaskRegressor(**{name: value}), match, np.eye(3, 2), np.arange(3.0)
    )
    assert name in message


def test_weights_of_features_need_rows():
    model = MultiTaskRegressor(penalty="nuclear", feature_weights=[1.0, 2.0])
    refuses(model, "feature_weights must be None", np.eye(3, 2), np.arange(3.0))


def test_ties_need_a_task_prior():
    model = MultiTaskRegressor(fit_intercept="tied", task_prior=None)
    message = r"task_prior must not be None .* fit_intercept=True for"
    refuses(model, message, np.eye(3, 2), np.arange(3.0))


def test_tie_weights_are_numbers_or_one_word():
    model = MultiTaskRegressor(ties="adaptiv")
    refuses(
        model, '"adaptive" or one weight per feature: got', np.eye(3, 2), np.arange(3.0)
    )


def test_unknown_names_suggest_near_ones(data):
    frame = frame_of(data).rename(columns={"a": "maths"})
    prior = FeaturePrior.similar([("math", "b")])
    model = MultiTaskRegressor(feature_prior=prior, task="school")
    refuses(model, "unknown feature 'math'.*Did you mean 'maths'", frame, data.y)
    model = MultiTaskRegressor(task="shcool")
    refuses(model, "Did you mean 'school'", frame, data.y)
    model = MultiTaskRegressor(task="school", task_prior=TaskPrior.chain(["t0", "t9"]))
    refuses(model, "unknown task in task_prior 't9'", frame, data.y)


def test_a_failed_fit_keeps_the_last_one(data, fitted):
    refuses(fitted, "NaN", np.full((3, 2), np.nan), np.arange(3.0))
    assert fitted.predict(data.X, task=data.task).shape == (60,)


def test_task_given_twice_is_refused(data):
    model = MultiTaskRegressor(task="school")
    refuses(model, "given twice", frame_of(data), data.y, task=data.task)


def test_predict_needs_a_fit():
    with pytest.raises(NotFittedError):
        MultiTaskRegressor().predict(np.eye(2))


def test_predict_refuses_unknown_tasks(data, fitted):
    with pytest.raises(ValueError, match=r"unknown task 9; known: 0, 1, 2, 3"):
        fitted.predict(data.X[:1], task=[9])


def test_one_label_is_that_of_all_rows(data, fitted):
    one = fitted.predict(data.X[:3], task=2)
    np.testing.assert_array_equal(one, fitted.predict(data.X[:3], task=[2, 2, 2]))
    with pytest.raises(ValueError, match=r"unknown task 9; known: 0, 1, 2, 3"):
        fitted.predict(data.X[:3], task=9)
    with pytest.raises(ValueError, match="task must be one label per row of X: got 2"):
        MultiTaskRegressor().fit(data.X, data.y, task=2)


def test_predict_needs_to_know_the_task(data, fitted):
    with pytest.raises(ValueError, match="this model knows 4 tasks"):
        fitted.predict(data.X)


def test_predict_refuses_other_columns(data):
    model = MultiTaskRegressor(task="school").fit(frame_of(data), data.y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame_of(data)[["b", "a", "c", "d", "e", "f", "school"]])
    with pytest.raises(ValueError, match="missing"):
        model.predict(frame_of(data).drop(columns="c"))


def test_fit_statistics_refuses_other_types():
    with pytest.raises(TypeError, match="statistics must be TaskStatistics"):
        MultiTaskRegressor().fit_statistics(np.eye(2))


def test_text_targets_are_named():
    refuses(
        MultiTaskRegressor(), "y must hold numbers: got text", np.eye(2), ["u", "v"]
    )


def test_an_interrupted_fit_leaves_the_last_one(data, fitted, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    before = dict(vars(fitted))
    monkeypatch.setattr("priormtl.solvers.solver.solve", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(data.X[:, :3], data.y, task=data.task)
    assert vars(fitted) == before


def test_a_warm_start_from_other_tasks_is_a_cold_one(data, fitted):
    warm = clone(fitted).set_params(warm_start=True)
    rows = data.task < 2
    warm.fit(data.X, data.y, task=data.task)
    warm.fit(data.X[rows], data.y[rows], task=data.task[rows])
    cold = clone(fitted).fit(data.X[rows], data.y[rows], task=data.task[rows])
    assert np.array_equal(warm.coef_, cold.coef_)


def grouped_rows(seed=0, m=15, n=12):
    """Tasks whose first slope hardly varies while the second varies a lot."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.normal(size=(m * n, 2)) * [1.0, 20.0]
    P = rng.normal(size=(m, 2)) * [0.05, 0.1] + [1.0, 0.0]
    b = rng.normal(size=m)
    return X, b[task] + np.sum(X * P[task], axis=1) + rng.normal(size=m * n), task


def adaptive(**settings):
    defaults = {"lam": 0.0, "task_prior": "mean", "fit_intercept": "tied", "tol": 1e-9}
    return MultiTaskRegressor(ties="adaptive", **{**defaults, **settings})


def test_adaptive_ties_are_published_and_solved():
    X, y, task = grouped_rows()
    model = adaptive().fit(X, y, task=task)
    fixed = MultiTaskRegressor(
        0.0,
        task_prior="mean",
        fit_intercept="tied",
        tol=1e-9,
        ties=model.tie_weights_,
        intercept_strength=model.intercept_strength_,
    ).fit(X, y, task=task)
    assert model.tie_weights_[0] > 5 * model.tie_weights_[1] / 20**2
    assert np.allclose(model.coef_, fixed.coef_, rtol=1e-9)
    assert np.array_equal(fixed.tie_weights_, model.tie_weights_)
    assert model.dual_gap_ <= 1e-9 * model.objective_


def test_strengths_are_relative_to_adaptive_ties():
    X, y, task = grouped_rows()
    whole = adaptive().fit(X, y, task=task)
    half = adaptive(epsilon=0.5, intercept_strength=0.5).fit(X, y, task=task)
    assert np.array_equal(half.tie_weights_, whole.tie_weights_)
    assert half.intercept_strength_ == pytest.approx(0.5 * whole.intercept_strength_)


def test_adaptive_ties_do_not_depend_on_standardisation():
    X, y, task = grouped_rows()
    X -= X.mean(axis=0)  # as standardisation does under tied intercepts
    plain = adaptive().fit(X, y, task=task)
    scaled = adaptive(standardize=True).fit(X, y, task=task)
    assert np.allclose(scaled.coef_, plain.coef_, rtol=1e-5, atol=1e-8)
    expected = plain.tie_weights_ / X.var(axis=0)
    assert np.allclose(scaled.tie_weights_, expected, rtol=1e-4)


def test_adaptive_ties_come_from_statistics_alone():
    X, y, task = grouped_rows()
    model = adaptive().fit(X, y, task=task)
    by_statistics = adaptive().fit_statistics(summarize(X, y, task))
    assert np.array_equal(by_statistics.tie_weights_, model.tie_weights_)
    parts = adaptive()
    for part in (task % 2 == 0, task % 2 == 1):
        parts.partial_fit(X[part], y[part], task=task[part])
    assert np.allclose(parts.tie_weights_, model.tie_weights_, rtol=1e-4)


def test_adaptive_ties_predict_better_than_one_for_all():
    errors = []
    for seed in range(5):
        X, y, task = grouped_rows(seed, n=40)
        train = np.arange(len(y)) % 40 < 8
        model = adaptive(theta=0.0).fit(X[train], y[train], task=task[train])
        plain = clone(model).set_params(ties="uniform")
        plain.fit(X[train], y[train], task=task[train])
        fits = (m.predict(X[~train], task=task[~train]) for m in (model, plain))
        errors.append([np.mean((fit - y[~train]) ** 2) for fit in fits])
    ours, theirs = np.mean(errors, axis=0)
    assert ours < theirs


def test_ties_are_published_where_they_are_given(data):
    model = MultiTaskRegressor().fit(data.X, data.y, task=data.task)
    assert np.array_equal(model.tie_weights_, np.ones(6))
    assert not hasattr(model, "intercept_strength_")
    weights = np.arange(6.0)
    model.set_params(ties=weights).fit(data.X, data.y, task=data.task)
    assert np.array_equal(model.tie_weights_, weights)


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        ({"task_prior": "chian"}, "'chain'"),
        ({"ties": "adaptiv"}, "'adaptive'"),
        ({"fit_intercept": "tide"}, "'tied'"),
    ],
)
def test_misspelled_words_are_answered_with_the_near_one(settings, meant):
    with pytest.raises(ValueError, match=f"Did you mean {meant}"):
        MultiTaskRegressor(**settings).fit([[1.0], [2.0]], [1.0, 2.0])


def test_text_for_targets_is_shown_as_text():
    with pytest.raises(ValueError, match="got text such as 'high'"):
        MultiTaskRegressor().fit([[1.0], [2.0]], np.array(["high", "low"]))
