"""Outlier tasks as users see them: found, named, certified, or absent."""

from contextlib import contextmanager

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from drawn_tasks import plant_outliers
from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    load,
    regularization_path,
    save,
    summarize,
)
from priormtl.datasets import make_related_tasks
from priormtl.estimators import cross_validated

PRIOR = FeaturePrior.similar([(0, 1)]) + FeaturePrior.opposite([(2, 3)])
SETTINGS = {"lam": 3.0, "theta": 0.0, "epsilon": 30.0, "task_prior": "mean"}
SEARCH = PAPER | {"task_prior": "mean"}
SEARCH |= {"thetas": [0.0], "lams": 5, "epsilons": [0.1, 1, 10]}


def fit_planted(data, **settings):
    model = MultiTaskRegressor(**SETTINGS | {"outlier_tasks": True} | settings)
    return model.fit(data.X, data.y, task=data.task)


def joint_optimum(model, X, y, task, *, logistic=False):
    """Least value of the joint objective in shared and own parts, by cvxpy."""
    m, d = model.coef_.shape
    S, own, b = cp.Variable((d, m)), cp.Variable((d, m)), cp.Variable(m)
    terms, rules = [], []
    for i in range(m):
        rows, target = X[task == i], y[task == i]
        score = rows @ (S[:, i] + own[:, i]) + b[i]
        centred = rows - rows.mean(axis=0) if model.fit_intercept is True else rows
        noise = np.sqrt(np.sum(centred**2) * (0.25 if logistic else 1.0))
        terms.append(model.outlier_strength_ * noise * cp.norm(own[:, i]))
        if logistic:
            terms.append(cp.sum(cp.logistic(-cp.multiply(target, score))))
        else:
            terms.append(0.5 * cp.sum_squares(score - target))
    chain = np.diff(np.eye(m), axis=0)
    D = np.eye(d)[[0, 2]] + np.diag([-1.0, 1.0]) @ np.eye(d)[[1, 3]]
    norm = cp.normNuc(S) if model.penalty == "nuclear" else cp.sum(cp.norm(S, axis=1))
    terms += [
        model.lam * norm,
        0.5 * model.theta * cp.sum_squares(D @ S),
        0.5 * model.epsilon * cp.sum_squares(chain @ S.T),
    ]
    if model.fit_intercept == "tied":
        terms.append(0.5 * model.intercept_strength * cp.sum_squares(chain @ b))
    if model.fit_intercept is False:
        rules.append(b == 0)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.hstack(terms))), rules)
    tol = 1e-7 if logistic else 1e-9  # cones of logarithms are harder
    precise = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
    return problem.solve(solver=cp.CLARABEL, **precise)


@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
@pytest.mark.parametrize(
    ("penalty", "lam"), [("l21", 2.0), ("l21", 0.0), ("nuclear", 2.0)]
)
def test_objective_is_the_least_of_the_joint_problem(penalty, lam, fit_intercept):
    data = plant_outliers(3, m=5, d=4, rows=(6, 20))
    model = MultiTaskRegressor(
        lam,
        0.7,
        5.0,
        feature_prior=PRIOR,
        penalty=penalty,
        fit_intercept=fit_intercept,
        tol=1e-10 if lam else 1e-8,
        outlier_tasks=True,
        outlier_strength=1.0,
    ).fit(data.X, data.y, task=data.task)
    assert 0 < len(model.outlier_tasks_) < 5
    best = joint_optimum(model, data.X, data.y, data.task)
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    assert 0 <= model.dual_gap_ <= 1e-7 * model.objective_


@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
def test_so_it_is_for_logistic_loss(fit_intercept):
    data = plant_outliers(3, m=4, d=4, rows=(20, 40))
    sign = np.where(data.y > np.median(data.y), 1.0, -1.0)
    model = MultiTaskClassifier(
        1.0,
        0.7,
        2.0,
        feature_prior=PRIOR,
        fit_intercept=fit_intercept,
        tol=1e-9,
        outlier_tasks=True,
        outlier_strength=0.3,
    ).fit(data.X, sign, task=data.task)
    assert len(model.outlier_tasks_) > 0
    best = joint_optimum(model, data.X, sign, data.task, logistic=True)
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    assert 0 <= model.dual_gap_ <= 1e-8 * model.objective_


@pytest.mark.parametrize("settings", [{}, {"fit_intercept": "tied"}, {"lam": 0.0}])
@pytest.mark.parametrize("standardize", [False, True])
def test_infinite_strength_is_the_plain_model(standardize, settings):
    data = plant_outliers()
    settings = settings | {"standardize": standardize}
    plain = fit_planted(data, outlier_tasks=False, **settings)
    model = fit_planted(data, outlier_strength=np.inf, **settings)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.shared_coef_, plain.coef_)
    assert not model.own_coef_.any()
    assert len(model.outlier_tasks_) == 0
    assert model.dual_gap_ == plain.dual_gap_
    assert not hasattr(plain, "own_coef_")


def test_tiny_strength_leaves_all_to_own_parts():
    data = plant_outliers(rows=(20, 40))
    model = fit_planted(data, outlier_strength=1e-7)
    alone = MultiTaskRegressor(0.0, 0.0, 0.0, task_prior=None)
    alone.fit(data.X, data.y, task=data.task)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)
    np.testing.assert_allclose(model.shared_coef_, 0.0, atol=1e-4)
    assert len(model.outlier_tasks_) == 16


@pytest.mark.parametrize("fit_intercept", [True, "tied"])
@pytest.mark.parametrize("seed", range(2))
def test_planted_outliers_are_found_and_spoil_nothing(seed, fit_intercept):
    data = plant_outliers(seed)
    model = fit_planted(data, fit_intercept=fit_intercept)
    plain = fit_planted(data, fit_intercept=fit_intercept, outlier_tasks=False)
    assert model.outlier_tasks_.tolist() == data.outliers

    def error(coef):
        return np.mean((coef - data.coef)[data.normal] ** 2)

    assert error(model.coef_) < error(plain.coef_)
    np.testing.assert_allclose(model.shared_coef_ + model.own_coef_, model.coef_)
    assert model.dual_gap_ <= 1e-6 * plain.objective_


def test_outliers_harm_the_others_most_where_ties_are_strong():
    ratios = []
    for seed in range(5):
        data = plant_outliers(seed)
        model = fit_planted(data, epsilon=300.0)
        plain = fit_planted(data, epsilon=300.0, outlier_tasks=False)
        errors = [
            np.mean((fitted.coef_ - data.coef)[data.normal] ** 2)
            for fitted in (model, plain)
        ]
        ratios.append(errors[0] / errors[1])
    assert np.mean(ratios) < 0.8


def test_tasks_that_are_alike_are_not_named():
    named = [
        len(fit_planted(plant_outliers(s, n_outliers=0)).outlier_tasks_)
        for s in range(10)
    ]
    assert sum(named) <= 1


def test_outliers_are_found_among_classes():
    found = []
    for seed in range(3):
        data = plant_outliers(seed, rows=(80, 160))
        sign = data.y - 0.3 * data.task > 0
        model = MultiTaskClassifier(
            1.0, 0.0, 10.0, task_prior="mean", outlier_tasks=True
        ).fit(data.X, sign, task=data.task)
        found.append(model.outlier_tasks_.tolist() == data.outliers)
    assert sum(found) >= 2


def test_a_search_takes_outliers_where_they_help():
    data = plant_outliers(0)
    plain = MultiTaskRegressorCV(**SEARCH).fit(data.X, data.y, task=data.task)
    model = MultiTaskRegressorCV(**SEARCH, outlier_tasks=True)
    model.fit(data.X, data.y, task=data.task)
    assert model.outlier_tasks_.tolist() == data.outliers
    assert np.isfinite(model.outlier_strength_)
    assert model.best_score_ > plain.best_score_
    chosen = model.cv_results_["params"][model.best_index_]
    assert chosen["outlier_strength"] == model.outlier_strength_
    assert chosen["epsilon"] == model.epsilon_ >= plain.epsilon_


@pytest.mark.parametrize("seed", range(3))
def test_a_search_without_outliers_changes_nothing_beyond_noise(seed):
    data = plant_outliers(seed, n_outliers=0)
    held = plant_outliers(seed, n_outliers=0, rows=(200, 201))
    plain = MultiTaskRegressorCV(**SEARCH).fit(data.X, data.y, task=data.task)
    model = MultiTaskRegressorCV(**SEARCH, outlier_tasks=True)
    model.fit(data.X, data.y, task=data.task)
    gap = np.mean((model.coef_ - held.coef) ** 2) - np.mean(
        (plain.coef_ - held.coef) ** 2
    )
    assert gap <= 0.05 * np.mean((plain.coef_ - held.coef) ** 2)
    if np.isinf(model.outlier_strength_):
        np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_strengths_to_try_can_be_given():
    data = plant_outliers()
    model = MultiTaskRegressorCV(
        **SEARCH | {"epsilons": [10.0]},
        cv=2,
        outlier_tasks=True,
        outlier_strengths=[0.8, 1.2, np.inf],
    ).fit(data.X, data.y, task=data.task)
    tried = set(model.cv_results_["param_outlier_strength"])
    assert tried == {0.8, 1.2, np.inf}


@pytest.mark.slow
def test_threads_do_not_change_a_search():
    data = plant_outliers(m=8, n_outliers=1)
    models = [
        MultiTaskRegressorCV(**SEARCH, cv=2, outlier_tasks=True, n_jobs=n_jobs)
        for n_jobs in (1, 3)
    ]
    for model in models:
        model.fit(data.X, data.y, task=data.task)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].own_coef_, models[1].own_coef_)


def test_rows_statistics_and_parts_give_the_same():
    data = plant_outliers()
    model = fit_planted(data)
    by_statistics = MultiTaskRegressor(**SETTINGS, outlier_tasks=True)
    by_statistics.fit_statistics(summarize(data.X, data.y, data.task))
    bit_by_bit = MultiTaskRegressor(**SETTINGS, outlier_tasks=True)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        bit_by_bit.partial_fit(data.X[half], data.y[half], task=data.task[half])
    for other in (by_statistics, bit_by_bit):
        np.testing.assert_allclose(other.own_coef_, model.own_coef_, atol=1e-3)
        assert other.outlier_tasks_.tolist() == data.outliers


def test_the_order_of_tasks_and_features_does_not_matter():
    data = plant_outliers()
    model = fit_planted(data, tol=1e-10)
    names = np.array([f"{(7 * i) % 16:02d}" for i in range(16)])
    turned = data._replace(X=data.X[:, ::-1], task=names[data.task])
    other = fit_planted(turned, tol=1e-10)
    expected = model.own_coef_[np.argsort(names)][:, ::-1]
    np.testing.assert_allclose(other.own_coef_, expected, atol=1e-5)
    assert set(other.outlier_tasks_) == set(names[data.outliers])


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    data = plant_outliers()
    model = fit_planted(data, outlier_strength=1.0, tol=1e-10)
    larger = fit_planted(
        data._replace(y=unit * data.y),
        outlier_strength=unit,
        lam=unit * 3.0,
        tol=1e-10,
    )
    np.testing.assert_allclose(larger.own_coef_ / unit, model.own_coef_, atol=1e-5)
    by_default = fit_planted(data._replace(y=unit * data.y), lam=unit * 3.0)
    assert by_default.outlier_tasks_.tolist() == data.outliers


def test_weights_are_repetitions():
    data = plant_outliers(rows=(15, 20))
    twice = np.random.default_rng(0).integers(1, 3, len(data.y))
    weighted = MultiTaskRegressor(**SETTINGS, outlier_tasks=True, tol=1e-10)
    weighted.fit(data.X, data.y, task=data.task, sample_weight=twice)
    rows = np.repeat(np.arange(len(data.y)), twice)
    repeated = data._replace(X=data.X[rows], y=data.y[rows], task=data.task[rows])
    other = fit_planted(repeated, tol=1e-10)
    np.testing.assert_allclose(weighted.own_coef_, other.own_coef_, atol=1e-5)


@pytest.mark.parametrize("build", [MultiTaskRegressor, MultiTaskRegressorCV])
def test_parts_are_saved_and_loaded(build, tmp_path):
    data = plant_outliers()
    given = SETTINGS if build is MultiTaskRegressor else SEARCH
    model = build(**given, outlier_tasks=True).fit(data.X, data.y, task=data.task)
    save(model, tmp_path / "model")
    other = load(tmp_path / "model")
    for name in ("coef_", "shared_coef_", "own_coef_", "outlier_tasks_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    assert other.outlier_strength_ == model.outlier_strength_
    assert other.get_params().keys() == model.get_params().keys()
    if build is MultiTaskRegressorCV:
        assert other.cv_results_["params"] == model.cv_results_["params"]


def test_infinite_strengths_are_saved_too(tmp_path):
    data = plant_outliers(n_outliers=0)
    model = fit_planted(data, outlier_strength=np.inf)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").outlier_strength_ == np.inf


def test_a_later_fit_without_outliers_forgets_them():
    data = plant_outliers()
    model = fit_planted(data)
    model.set_params(outlier_tasks=False).fit(data.X, data.y, task=data.task)
    assert not hasattr(model, "own_coef_")
    assert not hasattr(model, "outlier_strength_")


def test_warm_starts_stand_where_the_last_fit_ended():
    data = plant_outliers()
    model = fit_planted(data, outlier_strength=1.0, warm_start=True, tol=1e-9)
    coef = model.coef_
    model.fit(data.X, data.y, task=data.task)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)


def test_labels_may_be_any():
    data = plant_outliers()
    labels = pd.Categorical([f"töchter {i}" for i in data.task])
    model = MultiTaskRegressor(**SETTINGS, outlier_tasks=True)
    model.fit(data.X, data.y, task=labels)
    expected = [f"töchter {i}" for i in data.outliers]
    assert sorted(model.outlier_tasks_.tolist()) == sorted(expected)


@pytest.mark.parametrize("outlier_strength", [None, 0.5])
@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
def test_degenerate_tasks_are_no_trouble(outlier_strength, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 12))
    X[:, 3] = 1.0
    X[:4, 5] = 0.0
    y = rng.normal(size=9)
    task = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3])
    model = MultiTaskRegressor(
        0.5,
        outlier_tasks=True,
        outlier_strength=outlier_strength,
        fit_intercept=fit_intercept,
    )
    model.fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()
    model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    model.fit(X, np.zeros(9), task=task)
    assert not model.coef_.any()


def test_targets_as_columns_share_one_gram_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    coef = np.tile(rng.normal(size=(5, 1)), 12)
    coef[:, 4] = 3.0 * rng.normal(size=5)
    Y = X @ coef + 0.5 * rng.normal(size=(60, 12))
    model = MultiTaskRegressor(**SETTINGS, outlier_tasks=True).fit(X, Y)
    assert model.outlier_tasks_.tolist() == [4]


def test_many_features_use_a_working_set():
    rng = np.random.default_rng(0)
    coef = np.zeros((5, 260))
    coef[:, :4] = 2.0
    coef[3, :4] = -2.0
    task = np.repeat(np.arange(5), 30)
    X = rng.normal(size=(150, 260))
    y = np.sum(X * coef[task], axis=1) + rng.normal(size=150)
    settings = SETTINGS | {"lam": 30.0, "outlier_strength": 2.3}
    models = [
        MultiTaskRegressor(**settings, outlier_tasks=True, solver=solver)
        for solver in ("auto", "fista")
    ]
    for model in models:
        model.fit(X, y, task=task)
        assert model.outlier_tasks_.tolist() == [3]
        assert 4 <= np.count_nonzero(model.shared_coef_.any(axis=0)) < 130
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=1e-5)


def test_paths_know_outliers_too():
    data = plant_outliers(m=8, n_outliers=1)
    settings = {"theta": 0.0, "epsilon": 30.0, "task_prior": "mean"}
    settings |= {"outlier_tasks": True, "tol": 1e-9}
    path = regularization_path(
        data.X, data.y, task=data.task, lams=[3.0, 30.0], **settings
    )
    for lam, coef, gap in zip(path.lams, path.coefs, path.dual_gaps, strict=True):
        model = fit_planted(data, lam=lam, **settings)
        np.testing.assert_allclose(coef, model.coef_, atol=1e-4)
        assert gap <= 1e-8 * model.objective_ * 10


def test_groups_of_tasks_and_classes_with_a_search():
    data = plant_outliers(rows=(40, 60), m=8, n_outliers=1)
    ties = TaskPrior.groups({"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]})
    model = MultiTaskClassifierCV(
        lams=2, thetas=[0.0], epsilons=[1.0], cv=2, task_prior=ties, outlier_tasks=True
    ).fit(data.X, data.y > 0.3 * data.task, task=data.task)
    assert model.own_coef_.shape == model.coef_.shape
    assert "outlier_strength" in model.cv_results_["params"][0]


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "strong", True])
def test_wrong_strengths_are_named(value):
    data = plant_outliers(rows=(3, 5))
    with pytest.raises(ValueError, match="outlier_strength must be a positive number"):
        fit_planted(data, outlier_strength=value)
    search = MultiTaskRegressorCV(
        **SEARCH, outlier_tasks=True, outlier_strengths=[value]
    )
    with pytest.raises(ValueError, match="every one of outlier_strengths must be"):
        search.fit(data.X, data.y, task=data.task)


def test_wrong_words_are_named():
    data = plant_outliers(rows=(5, 6))
    with pytest.raises(ValueError, match="outlier_tasks must be True or False"):
        fit_planted(data, outlier_tasks="yes")
    search = MultiTaskRegressorCV(**SEARCH, outlier_tasks=True, outlier_strengths=[])
    with pytest.raises(ValueError, match="outlier_strengths must be None or list"):
        search.fit(data.X, data.y, task=data.task)


def test_unseen_tasks_get_what_is_shared():
    data = plant_outliers()
    model = fit_planted(data, unseen_tasks="shared")
    found = model.predict(np.eye(8), task=np.full(8, 99))
    normal = data.normal
    shared = model.shared_coef_[normal].mean(axis=0) + model.intercept_[normal].mean()
    np.testing.assert_allclose(found, shared)


def test_priors_are_judged_by_what_is_shared():
    data = plant_outliers()
    model = fit_planted(data, feature_prior=PRIOR, theta=2.0, standardize=True)
    assert len(model.outlier_tasks_)
    D = model.feature_prior_.matrix(model.coef_.shape[1])
    shared = model.shared_coef_ * model.feature_scale_
    found = model.summary().feature_prior
    assert found.violation == pytest.approx(np.sum((D @ shared.T) ** 2))
    assert found.cost == pytest.approx(found.violation)


@pytest.mark.parametrize(
    ("build", "n"), [(MultiTaskRegressor, 3), (MultiTaskRegressorCV, 1)]
)
def test_defaults_find_what_was_planted(build, n):
    found = []
    for seed in range(n):
        data = make_related_tasks(12, 6, 40, random_state=seed)
        y = np.where(data.task == 3, -data.y, data.y)
        model = build(outlier_tasks=True).fit(data.X, y, task=data.task)
        found.append(model.outlier_tasks_.tolist())
    assert found == [[3]] * n


def test_tasks_that_were_not_named_have_no_part_at_any_strength():
    data = plant_outliers(rows=(30, 60))
    model = fit_planted(data, epsilon=1.0, task_prior="chain")
    assert model.outlier_tasks_.tolist() == data.outliers
    strengths = np.where(np.isin(np.arange(16), data.outliers), 1.0, np.inf)
    twin = fit_planted(
        data,
        epsilon=1.0,
        task_prior="chain",
        outlier_strength=model.outlier_strength_ * strengths,
    )
    np.testing.assert_array_equal(twin.own_coef_, model.own_coef_)
    assert twin.outlier_strength_ == model.outlier_strength_


def test_strengths_of_tasks_are_as_many_as_tasks():
    with pytest.raises(ValueError, match="one for each of 16 tasks"):
        fit_planted(plant_outliers(rows=(3, 5)), outlier_strength=np.ones(3))
    with pytest.raises(ValueError, match="every one of outlier_strength must be"):
        fit_planted(plant_outliers(rows=(3, 5)), outlier_strength=-np.ones(16))


def test_both_searches_say_how_far_they_are(monkeypatch):
    told = []

    @contextmanager
    def tell(estimator, root, name, total):
        yield lambda: told.append((name, total))

    monkeypatch.setattr(cross_validated, "show_progress", tell)
    data = plant_outliers(m=8, n_outliers=1)
    MultiTaskRegressorCV(**SEARCH, cv=2, outlier_tasks=True).fit(
        data.X, data.y, task=data.task
    )
    names = [name for name, _ in told]
    assert sorted(set(names)) == [
        "MultiTaskRegressorCV, 2 splits",
        "MultiTaskRegressorCV, outlier tasks",
    ]
    assert all(names.count(name) == total for name, total in told)
