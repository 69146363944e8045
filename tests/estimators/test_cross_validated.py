"""Cross-validated estimators: GridSearchCV's scores, from rows that are read once."""

import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    cross_val_score,
)

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    one_vs_one,
    summarize,
)
from priormtl.checks import check_jobs
from priormtl.datasets import make_related_tasks
from priormtl.estimators import make_splits

TIGHT = {"tol": 1e-14}
LAMS, THETAS, EPSILONS = [3.0, 30.0, 0.0, 0.3], [0.5, 5.0], [0.1, 10.0]
SEARCHED = {"lam": LAMS, "theta": THETAS, "epsilon": EPSILONS}


def rows(m=3, d=4, n=16, seed=0):
    """Rows of all tasks in no order."""
    data = make_related_tasks(m, d, n, noise=1.0, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    return data.X[order], data.y[order], data.task[order]


X, Y, TASK = rows()


def regressor(**settings):
    return MultiTaskRegressorCV(
        **PAPER
        | {"lams": LAMS, "thetas": THETAS, "epsilons": EPSILONS, "cv": 3, **settings}
    )


def classifier(**settings):
    return MultiTaskClassifierCV(
        **PAPER
        | {"lams": 3, "thetas": [1.0], "epsilons": [0.1, 10.0], "cv": 3, **settings}
    )


def splits_of(model, *data, **labels):
    """What the model would split the rows into."""
    table = model._read_table(*data, labels.get("task"), None, reset=True)
    needs_classes = model.fit_intercept is True or model.scoring is not None
    by_class = is_classifier(model) and needs_classes
    splits = make_splits(model.cv, table, *data, by_class=by_class)
    return [tuple(split) for split in splits]


def split_scores(results):
    return np.array([results[f"split{k}_test_score"] for k in range(3)])


@pytest.mark.parametrize(
    ("standardize", "prior", "fit_intercept"),
    [
        (False, FeaturePrior.from_correlation(2), True),
        pytest.param(
            True, FeaturePrior.similar([(0, 2)]), "tied", marks=pytest.mark.slow
        ),
    ],
)
def test_scores_are_those_of_grid_search_with_fista(standardize, prior, fit_intercept):
    settings = {
        "standardize": standardize,
        "feature_prior": prior,
        "fit_intercept": fit_intercept,
        "task_prior": "mean",
        **TIGHT,
    }
    searched = SEARCHED | {"lam": [3.0, 30.0, 0.3], "theta": [0.5]}
    grid = {f"{name}s": values for name, values in searched.items()}
    model = regressor(**settings, **grid).fit(X, Y, task=TASK)
    search = GridSearchCV(
        MultiTaskRegressor(solver="fista", task=4, max_iter=100_000, **settings),
        searched,
        cv=splits_of(model, X, Y, task=TASK),
        scoring="neg_mean_squared_error",
    )
    with warnings.catch_warnings():
        # FISTA stops at rounding errors in some cells.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(np.column_stack([X, TASK]), Y)
    ours, theirs = model.cv_results_, search.cv_results_
    assert set(ours) == set(theirs)
    assert ours["params"] == theirs["params"]
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs), rtol=1e-6)
    np.testing.assert_allclose(ours["std_test_score"], theirs["std_test_score"], 1e-4)
    assert model.best_index_ == search.best_index_
    assert model.best_score_ == pytest.approx(search.best_score_, abs=1e-6)
    chosen = {"lam": model.lam_, "theta": model.theta_, "epsilon": model.epsilon_}
    assert chosen == search.best_params_
    np.testing.assert_allclose(model.coef_, search.best_estimator_.coef_, atol=1e-4)


def pooled_error(model, X, y, task=None):
    prediction = model.predict(X, task=task)
    return -np.nanmean((y - prediction) ** 2)


def assert_scores_by_hand(
    model, data, task=None, error=pooled_error, plain=None, rel=1e-5
):
    """Every score of the search, from fits to the rows of its split."""
    features, targets = data
    build = plain or MultiTaskRegressor
    settings = model._fixed(1.0, 1.0, 1.0).get_params()
    splits = splits_of(model, *data, task=task)
    for k, (train, test) in enumerate(splits):
        for c, params in enumerate(model.cv_results_["params"]):
            own = (None, None) if task is None else (task[train], task[test])
            fitted = build(**{**settings, **params}).fit(
                features[train], targets[train], task=own[0]
            )
            score = error(fitted, features[test], targets[test], own[1])
            found = model.cv_results_[f"split{k}_test_score"][c]
            assert found == pytest.approx(score, rel=rel, abs=1e-6)


def shared_targets(share=0.0):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(24, 3))
    targets = features @ rng.normal(size=(3, 4)) + rng.normal(size=(24, 4))
    return features, np.where(rng.random((24, 4)) < share, np.nan, targets)


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["all measured", "gaps"])
def test_columns_of_targets(share):
    data = shared_targets(share)
    model = regressor(thetas=[1.0], standardize=True, tol=1e-12).fit(*data)
    assert model.predict(data[0]).shape == (24, 4)
    assert_scores_by_hand(model, data)


@pytest.mark.parametrize("kind", ["sparse", "wide"])
def test_samples_where_gram_matrices_are_larger(kind):
    features, targets, task = rows(3, 4, 10) if kind == "sparse" else rows(3, 30, 10)
    features = csr_array(features) if kind == "sparse" else features
    model = regressor(thetas=[1.0], lams=[20.0, 5.0], tol=1e-12)
    model.fit(features, targets, task=task)
    assert not hasattr(model, "statistics_")
    assert_scores_by_hand(model, (features, targets), task)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3),
        ShuffleSplit(3, random_state=0),
        RepeatedKFold(n_splits=3, n_repeats=1, random_state=0),
        [(np.arange(40), np.arange(30, 48))],
        [(np.tile(np.arange(30), 2), np.arange(48) >= 30)],
    ],
    ids=["folds", "shuffled", "repeated", "overlapping", "bootstrap and mask"],
)
def test_splits_of_users(cv):
    model = regressor(cv=cv, lams=[5.0], thetas=[1.0], tol=1e-12).fit(X, Y, task=TASK)
    assert_scores_by_hand(model, (X, Y), TASK)
    assert model.n_splits_ == len(splits_of(model, X, Y, task=TASK))


def test_groups_reach_the_splitter():
    groups = np.arange(48) % 4
    model = regressor(cv=LeaveOneGroupOut()).fit(X, Y, task=TASK, groups=groups)
    listed = list(LeaveOneGroupOut().split(X, Y, groups))
    known = regressor(cv=listed).fit(X, Y, task=TASK)
    assert model.n_splits_ == 4
    np.testing.assert_array_equal(
        model.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"]
    )


def test_groups_without_a_splitter_are_refused():
    with pytest.raises(ValueError, match=r"GroupKFold\(\): got cv=3"):
        regressor().fit(X, Y, task=TASK, groups=TASK)


def test_tasks_may_be_left_out_whole():
    model = regressor(cv=LeaveOneGroupOut()).fit(X, Y, task=TASK, groups=TASK)
    scores = split_scores(model.cv_results_)
    assert np.all(np.isfinite(scores))
    # What a task has in common with the others predicts it better than their mean.
    spread = [np.mean((Y[i == TASK] - Y[i != TASK].mean()) ** 2) for i in range(3)]
    assert np.mean(scores.max(axis=1)) > -np.mean(spread)


def test_rows_are_read_once_for_the_whole_grid(monkeypatch):
    module = import_module("priormtl.data.summarizing")
    read, multiply = [], module.task_products
    monkeypatch.setattr(
        module,
        "task_products",
        lambda X, *rest: read.append(len(X)) or multiply(X, *rest),
    )
    model = regressor().fit(X, Y, task=TASK)
    assert sum(read) == len(Y)
    assert model.statistics_.weight.sum() == len(Y)


def test_threads_change_no_bit():
    one, two = (regressor(n_jobs=n).fit(X, Y, task=TASK) for n in (1, 2))
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_the_refit_is_that_of_the_plain_estimator():
    model = regressor(standardize=True, tol=1e-12).fit(X, Y, task=TASK)
    plain = MultiTaskRegressor(
        model.lam_, model.theta_, model.epsilon_, standardize=True, tol=1e-12
    ).fit(X, Y, task=TASK)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-6)
    assert model.objective_ == pytest.approx(plain.objective_)
    assert model.dual_gap_ <= 1e-11 * model.objective_
    assert model.tasks_.tolist() == [0, 1, 2]
    assert model.score(X, Y, task=TASK) == pytest.approx(
        plain.score(X, Y, task=TASK), abs=1e-6
    )


def test_weights_are_repetitions():
    weight = np.random.default_rng(0).integers(0, 3, len(Y))
    listed = list(KFold(3).split(X))
    place = np.repeat(np.arange(len(Y)), weight)
    again = [(np.flatnonzero(np.isin(place, a)), np.flatnonzero(np.isin(place, b)))
             for a, b in listed]  # fmt: skip
    one = regressor(cv=listed, tol=1e-12).fit(X, Y, task=TASK, sample_weight=weight)
    two = regressor(cv=again, tol=1e-12).fit(X[place], Y[place], task=TASK[place])
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], 1e-6
    )


def test_default_grid_falls_from_lam_max():
    model = regressor(lams=None, thetas=[1.0], epsilons=[1.0]).fit(X, Y, task=TASK)
    lams = model.cv_results_["param_lam"].data
    assert len(lams) == 10
    assert lams[0] / lams[-1] == pytest.approx(1e3)
    most = MultiTaskRegressor(lams[0]).fit(X, Y, task=TASK)
    assert not most.coef_.any()
    assert len(regressor(lams=4).fit(X, Y, task=TASK).cv_results_["params"]) == 16


def test_one_standard_error_is_simpler_and_nearly_as_good():
    best = regressor(lams=20).fit(X, Y, task=TASK)
    simple = regressor(lams=20, selection="1se").fit(X, Y, task=TASK)
    error = best.cv_results_["std_test_score"][best.best_index_] / np.sqrt(2)
    assert simple.lam_ > best.lam_
    assert best.best_score_ - error <= simple.best_score_ < best.best_score_


@pytest.mark.parametrize("scoring", ["r2", make_scorer(mean_absolute_error)])
def test_scorers_of_scikit_learn(scoring):
    model = regressor(scoring=scoring, tol=1e-12).fit(X, Y, task=TASK)
    search = GridSearchCV(
        MultiTaskRegressor(task=4, tol=1e-12),
        SEARCHED,
        cv=splits_of(model, X, Y, task=TASK),
        scoring=scoring,
    ).fit(np.column_stack([X, TASK]), Y)
    np.testing.assert_allclose(
        split_scores(model.cv_results_), split_scores(search.cv_results_), atol=1e-5
    )


def test_scorers_need_every_target():
    data = shared_targets(0.3)
    with pytest.raises(ValueError, match="use scoring=None"):
        regressor(scoring="r2").fit(*data)
    model = regressor(scoring="r2", thetas=[1.0]).fit(*shared_targets())
    assert np.isfinite(model.best_score_)


def test_frames_with_a_task_column_of_categories():
    frame = pd.DataFrame(X, columns=list("abcd"))
    words = np.array(["z", "a", "m"])
    frame["town"] = pd.Categorical(words[TASK], categories=words)
    prior = FeaturePrior.similar([("a", "b")])
    model = regressor(task="town", feature_prior=prior, cv=KFold(3)).fit(frame, Y)
    assert model.tasks_.tolist() == ["z", "a", "m"]
    plain = regressor(feature_prior=FeaturePrior.similar([(0, 1)]), cv=KFold(3))
    plain.fit(X, Y, task=TASK)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert np.isfinite(cross_val_score(model, frame, Y, cv=3)).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lams": [-1.0]}, "every one of lams must be a finite number, at least 0"),
        ({"lams": 0}, "lams as a number must be a positive whole number"),
        ({"lams": []}, "lams must list at least one strength"),
        ({"thetas": "x"}, "thetas must list at least one strength"),
        ({"epsilons": [np.inf]}, "every one of epsilons"),
        ({"cv": 1}, "at least 2 folds: got 1"),
        ({"selection": "2se"}, "selection must be one of 'best', '1se'"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"solver": "x"}, "solver must be one of"),
        ({"scoring": "no such"}, "scoring"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    model = regressor(**settings)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y, task=TASK)
    assert vars(model) == before


@pytest.mark.parametrize(("given", "used"), [(None, 1), (3, 3), (-1, 8), (-99, 1)])
def test_negative_jobs_leave_processors_free(monkeypatch, given, used):
    monkeypatch.setattr("priormtl.checks.os.cpu_count", lambda: 8)
    assert check_jobs(given) == used


def test_unsolved_fits_are_told_once():
    model = regressor(max_iter=1, solver="ista", lams=[0.3], thetas=[1.0])
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, Y, task=TASK)
    words = [str(one.message) for one in told]
    assert sum("fits on training parts" in word for word in words) == 1
    assert len(words) == 2  # the other is that of the refit


def test_single_rows_and_small_tasks_are_no_obstacle():
    task = np.concatenate([TASK, ["only"], ["two", "two"]]).astype(str)
    features = np.vstack([X, X[:3]])
    targets = np.concatenate([Y, Y[:3]])
    model = regressor(cv=5, task_prior="mean").fit(features, targets, task=task)
    assert np.isfinite(model.best_score_)
    assert len(model.tasks_) == 5


def test_settings_survive_cloning():
    model = regressor(cv=4, scoring="r2", selection="1se")
    assert clone(model).get_params() == model.get_params()


def test_metadata_is_routed():
    groups = np.arange(48) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        model = regressor(cv=GroupKFold(2)).set_fit_request(task=True, groups=True)
        model.set_score_request(task=True)
        scores = cross_val_score(
            model, X, Y, cv=3, params={"task": TASK, "groups": groups}
        )
    assert np.isfinite(scores).all()


def parts_of(folds, tasks=None):
    labels = TASK if tasks is None else np.asarray(tasks)[TASK]
    return [summarize(X[rows], Y[rows], labels[rows]) for rows in folds]


def test_statistics_of_parts_take_the_place_of_rows():
    listed = list(KFold(3).split(X))
    by_rows = regressor(cv=listed, standardize=True).fit(X, Y, task=TASK)
    by_parts = regressor(standardize=True).fit_statistics(
        parts_of([test for _, test in listed])
    )
    np.testing.assert_array_equal(
        by_parts.cv_results_["mean_test_score"], by_rows.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(by_parts.coef_, by_rows.coef_)
    np.testing.assert_array_equal(
        by_parts.predict(X, task=TASK), by_rows.predict(X, task=TASK)
    )


def test_parts_may_lack_tasks_that_others_have():
    first, second = np.flatnonzero(TASK < 2), np.flatnonzero(TASK > 0)
    twice = [first[::2], second[::2], np.setdiff1d(np.arange(48), first[::2])]
    model = regressor().fit_statistics(parts_of(twice, ["z", "a", "m"]))
    assert model.tasks_.tolist() == ["a", "m", "z"]


def test_tasks_of_one_part_alone_stay_in_training():
    early = np.flatnonzero(TASK < 2)
    parts = parts_of([early[::2], np.setdiff1d(np.arange(48), early[::2])])
    model = regressor().fit_statistics(parts)
    assert model.n_splits_ == 2
    np.testing.assert_array_equal(
        model.coef_[2],
        model._fixed(model.lam_, model.theta_, model.epsilon_)
        .fit_statistics(parts[0] + parts[1])
        .coef_[2],
    )


def test_bad_parts_are_refused():
    parts = parts_of([np.arange(24), np.arange(24, 48)])
    with pytest.raises(TypeError, match="two or more TaskStatistics"):
        regressor().fit_statistics(parts[:1])
    with pytest.raises(TypeError, match=r"got \['ndarray', 'ndarray'\]"):
        regressor().fit_statistics([X, Y])
    with pytest.raises(ValueError, match="scoring='r2' needs rows"):
        regressor(scoring="r2").fit_statistics(parts)
    apart = parts_of([np.flatnonzero(TASK == 0), np.flatnonzero(TASK > 0)])
    with pytest.raises(ValueError, match="each of 2 parts must hold rows of tasks"):
        regressor().fit_statistics(apart)


# Classification


SIGNS = np.where(np.median(Y) < Y, "yes", "no")


def mean_area(model, X, y, task):
    areas = [
        roc_auc_score(y[task == i], model.decision_function(X, task=task)[task == i])
        for i in np.unique(task)
        if len(set(y[task == i])) == 2
    ]
    return np.mean(areas)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_areas_under_curves_by_hand(loss):
    model = classifier(loss=loss, scoring="task_auc", tol=1e-11)
    model.fit(X, SIGNS, task=TASK)
    assert model.classes_.tolist() == ["no", "yes"]
    assert_scores_by_hand(model, (X, SIGNS), TASK, mean_area, MultiTaskClassifier)


def class_error(model, X, y, task=None):
    """Negative squared error of scores for −1 and +1, or log-loss."""
    scores = model.decision_function(X, task=task)
    signs = np.where(y == "yes", 1.0, -1.0)
    if model.loss == "squared":
        return -np.mean((scores - signs) ** 2)
    return -log_loss(y, model.predict_proba(X, task=task)[:, 1])


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_default_score_of_classes_is_their_loss(loss):
    model = classifier(loss=loss, tol=1e-11).fit(X, SIGNS, task=TASK)
    assert_scores_by_hand(model, (X, SIGNS), TASK, class_error, MultiTaskClassifier)


def test_folds_hold_both_classes_of_every_task():
    model = classifier(cv=2).fit(X, SIGNS, task=TASK)
    for train, test in splits_of(model, X, SIGNS, task=TASK):
        for part in (train, test):
            for i in range(3):
                assert len(set(SIGNS[part][TASK[part] == i])) == 2


def test_training_on_one_class_names_the_task():
    one = np.flatnonzero((TASK != 1) | (SIGNS == "yes"))
    cv = [(one, np.arange(48))]
    with pytest.raises(ValueError, match=r"without a class of \[1\]"):
        classifier(cv=cv).fit(X, SIGNS, task=TASK)
    # Squared loss can learn from one class.
    assert classifier(cv=cv, loss="squared").fit(X, SIGNS, task=TASK).lam_ > 0


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss"])
def test_scorers_see_class_labels(scoring):
    model = classifier(scoring=scoring, lams=[0.5, 2.0], tol=1e-11)
    model.fit(X, SIGNS, task=TASK)
    search = GridSearchCV(
        MultiTaskClassifier(task=4, tol=1e-11),
        {"lam": [0.5, 2.0], "theta": [1.0], "epsilon": [0.1, 10.0]},
        cv=splits_of(model, X, SIGNS, task=TASK),
        scoring=scoring,
    ).fit(np.column_stack([X, TASK]), SIGNS)
    np.testing.assert_allclose(
        split_scores(model.cv_results_), split_scores(search.cv_results_), atol=1e-4
    )


def test_tasks_may_have_their_own_classes():
    features, labels, task = one_vs_one(X, np.array(["u", "v", "w"])[TASK])
    model = classifier().fit(features, labels, task=task)
    assert len(model.classes_) == 3
    assert model.predict(features, task=task).shape == labels.shape
    assert model.predict_proba(features, task=task).shape == (len(labels), 2)


def test_columns_of_classes():
    features, targets = shared_targets()
    model = classifier().fit(features, targets > 0)
    assert model.predict(features).shape == (24, 4)
    assert -np.log(2.0) < model.best_score_ < 0.0
    areas = classifier(scoring="task_auc").fit(features, targets > 0)
    assert 0.5 < areas.best_score_ <= 1.0


def test_no_probabilities_with_squared_loss():
    assert not hasattr(classifier(loss="squared"), "predict_proba")


@pytest.mark.parametrize("scale", [1e-80, 1.0, 1e90])
def test_spread_of_scores_knows_every_scale(scale):
    X, y, task = make_related_tasks(n_tasks=3, n_features=4, random_state=0)
    settings = {"epsilons": [1.0], "cv": 3, **PAPER}
    plain = MultiTaskRegressorCV([2.0], **settings).fit(X, y, task=task)
    scaled = MultiTaskRegressorCV([2.0 * scale], **settings)
    scaled.fit(X, y * scale, task=task)
    spread = plain.cv_results_["std_test_score"] * scale**2
    np.testing.assert_allclose(scaled.cv_results_["std_test_score"], spread, 1e-4)


# Structures


AUTO = {"task_prior": "auto", "ties": "auto", "fit_intercept": "auto"}
AUTO |= {"intercept_strength": "adaptive", "standardize": True}
FEW = {"lams": [5.0, 0.5], "thetas": [1.0], "epsilons": [1.0], "tol": 1e-10}


def test_structures_are_tried_one_choice_after_the_other():
    """Adaptive ties, tied intercepts and the mean first, then one change at a time."""
    model = regressor(**AUTO, **FEW).fit(X, Y, task=TASK)
    results = model.cv_results_
    assert MultiTaskRegressorCV().get_params().items() >= AUTO.items()
    names = ["ties", "fit_intercept", "task_prior"]
    tried = list(zip(*(results[f"param_{name}"] for name in names), strict=True))
    assert len(tried) == 4 * 2
    first = ("adaptive", "tied", "mean")
    assert tried[0] == first
    values = [("adaptive", "uniform"), ("tied", True), ("mean", "chain")]
    best = first
    for k, choice in enumerate(values):
        rival = (*best[:k], choice[1], *best[k + 1 :])
        assert tried[2 * k + 2] == rival
        scores = results["mean_test_score"][: 2 * k + 4]
        best = tried[int(np.argmax(scores))]
    assert tuple(model.structure_[name] for name in names) == best
    assert results["params"][model.best_index_].items() >= model.structure_.items()
    assert model.best_score_ == results["mean_test_score"].max()


@pytest.mark.parametrize(
    "kind", ["numbers", pytest.param("classes", marks=pytest.mark.slow)]
)
def test_scores_of_every_structure_are_those_of_plain_fits(kind):
    build, plain = regressor, MultiTaskRegressor
    # Enough rows for a likelihood with one maximum, wherever REML begins.
    features, targets, task = rows(8, 3, 40)
    error = pooled_error
    if kind == "classes":
        build, plain = classifier, MultiTaskClassifier
        targets, error = np.where(targets > np.median(targets), 1, -1), class_error
    model = build(**AUTO | FEW | {"lams": [5.0]}).fit(features, targets, task=task)
    adaptive = {"intercept_strength": "adaptive"}

    def adapted(**settings):
        return plain(**settings | adaptive)

    # REML begins at another estimate there, and ends within its tolerance.
    assert_scores_by_hand(model, (features, targets), task, error, adapted, rel=1e-3)


def test_labels_without_an_order_form_no_chain():
    words = np.array(["north", "south", "west"])[TASK]
    model = regressor(**AUTO, **FEW).fit(X, Y, task=words)
    assert set(model.cv_results_["param_task_prior"]) == {"mean"}


def test_what_is_given_is_not_tried():
    model = regressor(**AUTO | {"ties": "uniform", "fit_intercept": False}, **FEW)
    model.fit(X, Y, task=TASK)
    assert not {"param_ties", "param_fit_intercept"} & set(model.cv_results_)
    assert len(model.cv_results_["params"]) == 2 * 2
    given = {"ties": "uniform", "fit_intercept": False}
    assert model.structure_.items() >= given.items()
    assert not model.intercept_.any()


def test_held_out_rows_are_predicted_by_fits_without_them():
    model = regressor(**AUTO, **FEW).fit(X, Y, task=TASK)
    assert sorted(set(model.folds_.tolist())) == [0, 1, 2]
    squares = (model.held_out_ - Y) ** 2
    errors = [np.mean(squares[model.folds_ == k]) for k in range(3)]
    results, best = model.cv_results_, model.best_index_
    expected = [-results[f"split{k}_test_score"][best] for k in range(3)]
    np.testing.assert_allclose(errors, expected, rtol=1e-6)


def test_candidates_with_outlier_tasks_have_the_chosen_structure():
    model = regressor(**AUTO, **FEW, outlier_tasks=True, outlier_strengths=[0.1])
    model.fit(X, Y, task=TASK)
    params = model.cv_results_["params"]
    extra = [part for part in params if np.isfinite(part["outlier_strength"])]
    assert extra
    structures = [{name: part[name] for name in model.structure_} for part in extra]
    assert structures == [model.structure_] * len(extra)


@pytest.mark.parametrize("scoring", [None, "r2"])
def test_tasks_apart_have_free_intercepts(scoring):
    model = regressor(**AUTO | {"task_prior": None}, **FEW, scoring=scoring)
    model.fit(X, Y, task=TASK)
    apart = {"task_prior": None, "ties": "uniform", "fit_intercept": True}
    assert model.structure_ == apart
    assert len(model.cv_results_["params"]) == 2
    signs = np.where(TASK == 1, "yes", SIGNS)
    with pytest.raises(ValueError, match=r"without a class of \[1\]"):
        classifier(**AUTO | {"task_prior": None}).fit(X, signs, task=TASK)


def draw_classes(seed=0, m=6, n=25, d=3):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(m * n, d)), np.repeat(np.arange(m), n)
    coef = rng.normal(size=(3, d)) + 0.5 * rng.normal(size=(m, 3, d))
    scores = np.einsum("nd,nkd->nk", X, coef[task]) + rng.normal(size=(m, 3))[task]
    chosen = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    y = np.array(["bus", "car", "train"])[chosen]
    y[task == 0] = "car"  # a task of one class
    return X, y, task


@pytest.mark.slow
def test_held_out_scores_of_several_classes_are_those_of_the_folds():
    X, y, task = draw_classes()
    model = MultiTaskClassifierCV(
        ties="adaptive", fit_intercept="tied", task_prior="mean", cv=3
    ).fit(X, y, task=task)
    strengths = model.intercept_strength_, model.tie_weights_
    for fold in range(3):
        train = model.folds_ != fold
        own = MultiTaskClassifier(
            0.0,
            task_prior="mean",
            fit_intercept="tied",
            intercept_strength=strengths[0],
            ties=strengths[1],
            standardize=True,
            tol=1e-9,
        ).fit(X[train], y[train], task=task[train])
        held = own.decision_function(X[~train], task=task[~train])
        chances = softmax(held, axis=1)
        shown = softmax(model.held_out_[~train], axis=1)
        np.testing.assert_allclose(shown, chances, atol=1e-3)
    loss = log_loss(y, softmax(model.held_out_, axis=1))
    np.testing.assert_allclose(-model.best_score_, loss, rtol=1e-3)
    np.testing.assert_allclose(model.reliability_.log_loss, loss)
    assert model.reliability_.predicted.shape == (3, 10)


def test_a_class_of_one_row_always_trains():
    X, y, task = draw_classes()
    y[-1] = "boat"
    model = MultiTaskClassifierCV(
        ties="adaptive", fit_intercept="tied", task_prior="mean", cv=3
    ).fit(X, y, task=task)
    assert model.folds_[-1] == -1
    assert model.predict_proba(X, task=task).shape == (len(X), 4)
    splits = [(np.arange(len(X) - 1), np.arange(len(X) - 1, len(X)))]
    with pytest.raises(ValueError, match=r"trains without \['boat'\]"):
        model.set_params(cv=splits).fit(X, y, task=task)
