"""Methods: one interface, one budget, and every one of them fits what it applies to."""

import json

import numpy as np
import pytest

from priormtl import MultiTaskRegressor
from priormtl.datasets import Rows
from priormtl.experiments.compared import COMPARED
from priormtl.experiments.methods import (
    LABELS,
    METHODS,
    PRIORS,
    Method,
    Ours,
    Training,
    fit_method,
)
from priormtl.experiments.protocol import PROTOCOLS, Budget, find_protocol, make_split
from priormtl.metrics import auc
from priormtl.solvers import lam_grid
from small_tasks import KINDS, MAKERS

BUDGET = Budget((0.1, 0.01), (0.0, 1.0, 10.0), (0.1, 1.0))
CASES = [
    (dataset, name)
    for dataset in KINDS
    for name, method in METHODS.items()
    if method.applies(MAKERS[dataset]())
]
# One class against the rest: no component can be of use to several tasks.
NOTHING_SHARED = ("orl", "fedem")
everywhere = pytest.mark.parametrize("dataset", KINDS)


def prepare(dataset, *, budget=None, wrong=0.0, seed=0):
    data = MAKERS[dataset]()
    protocol = find_protocol(dataset, quick=True)
    split = make_split(PROTOCOLS[dataset], data, 0)
    chosen = budget or protocol.budget
    options = {"tol": protocol.tol, "seed": seed, "wrong": wrong}
    return split, Training(data, split.train, split.folds, chosen, **options)


def fit(build, training):
    X, y, task = training.rows
    return build(training).fit(X, y, task=task)


def fitted(name, dataset, **options):
    split, training = prepare(dataset, **options)
    return fit_method(METHODS[name], training, split)


# Names.


def test_labels_are_distinct_and_complete():
    assert list(LABELS) == list(METHODS)
    assert len(set(LABELS.values())) == len(METHODS)
    assert all(LABELS.values())


def test_the_names_agreed_on_are_there():
    variants = {
        f"{prior}{suffix}"
        for prior in PRIORS
        for suffix in ("", "-chain-tied", "-mean", "-mean-tied")
    }
    simple = {"ridge-single", "ridge-pooled", "mixed", "multitask-lasso"}
    assert set(METHODS) == variants | simple | set(COMPARED) | {"adaptive", "fedem-mlp"}


@pytest.mark.parametrize("prior", PRIORS)
def test_a_name_says_what_is_built(prior):
    assert METHODS[prior].build == Ours(prior, "chain", True)
    assert METHODS[f"{prior}-chain-tied"].build == Ours(prior, "chain", "tied")
    assert METHODS[f"{prior}-mean"].build == Ours(prior, "mean", True)
    assert METHODS[f"{prior}-mean-tied"].build == Ours(prior, "mean", "tied")


def test_methods_apply_where_they_can():
    places = {
        name: {dataset for dataset in KINDS if (dataset, name) in CASES}
        for name in METHODS
    }
    assert places["mixed"] == {"school"}
    assert places["multitask-lasso"] == {"sarcos", "orl"}
    assert places["adaptive"] == {"school", "sarcos"}
    assert places["expert"] == places["expert-mean-tied"] == set(KINDS) - {"sarcos"}
    assert places["ridge-pooled"] == set(KINDS) - {"orl"}
    for name in ("none", "natural", "artificial", "ridge-single"):
        assert places[name] == set(KINDS)


# Units of the strengths.


@everywhere
def test_lam_max_is_that_of_the_problem(dataset):
    _, training = prepare(dataset)
    X, y, task = training.rows
    model = MultiTaskRegressor(1.0, standardize=False)
    problem = model._set_up(model._read_samples(X, y, task, None, reset=True)).problem
    assert training.lam_max == pytest.approx(problem.lam_max)
    assert training.lam_max == pytest.approx(lam_grid(problem)[0])


@everywhere
def test_coefficients_vanish_at_lam_max_and_not_below(dataset):
    _, training = prepare(dataset)
    X, y, task = training.rows
    for share, empty in ((1.0001, True), (0.99, False)):
        model = MultiTaskRegressor(share * training.lam_max, standardize=False)
        assert (not model.fit(X, y, task=task).coef_.any()) == empty


@everywhere
def test_rows_per_task_are_a_mean_over_tasks(dataset):
    _, training = prepare(dataset)
    X, _, task = training.rows
    counts = [len(X)] if task is None else np.unique(task, return_counts=True)[1]
    assert training.rows_per_task == pytest.approx(np.mean(counts))


@everywhere
def test_strengths_are_relative_to_the_data(dataset):
    _, training = prepare(dataset, budget=BUDGET)
    model = Ours("natural")(training)
    n = training.rows_per_task
    np.testing.assert_allclose(model.lams, np.array(BUDGET.lams) * training.lam_max)
    np.testing.assert_allclose(model.thetas, np.array(BUDGET.thetas) * n)
    np.testing.assert_allclose(model.epsilons, np.array(BUDGET.epsilons) * n)


def test_without_prior_lam_is_searched_more_finely_over_the_same_range():
    _, training = prepare("school", budget=BUDGET)
    model = Ours("none")(training)
    assert len(model.lams) == len(BUDGET.lams) * len(BUDGET.thetas)
    ends = np.array([BUDGET.lams[0], BUDGET.lams[-1]]) * training.lam_max
    np.testing.assert_allclose(np.asarray(model.lams)[[0, -1]], ends)
    np.testing.assert_array_equal(model.thetas, [0.0])


# The budget.


def count_settings(model):
    """Settings that a fitted model has tried."""
    searching = getattr(model, "model_", model)
    if hasattr(searching, "cv_results_"):
        return len(searching.cv_results_["params"])
    return len(model.alphas)


@pytest.mark.parametrize(
    ("dataset", "name"),
    [case for case in CASES if case[1] not in {"mixed", "fedem-mlp"}],
)
def test_every_method_tries_as_many_settings(dataset, name):
    _, training = prepare(dataset, budget=BUDGET)
    model = fit(METHODS[name].build, training)
    tried = count_settings(model)
    # A method with ratios beside its strength cannot always use up the budget.
    assert tried == BUDGET.settings or (name in COMPARED and 1 < tried < 12)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("quick", [False, True])
def test_full_and_quick_budgets_are_kept_too(name, quick):
    budget = find_protocol(name, quick=quick).budget
    _, training = prepare("school", budget=budget)
    for build in (Ours("none"), Ours("natural"), Ours("none", "mean", True)):
        model = build(training)
        grid = len(model.lams) * len(model.thetas) * len(model.epsilons)
        assert grid == budget.settings


@pytest.mark.parametrize("name", ["none", "natural", "ridge-single", "multitask-lasso"])
def test_every_method_is_tuned_on_the_given_folds(name):
    _, training = prepare("sarcos")
    model = METHODS[name].build(training)
    if hasattr(model, "folds"):
        np.testing.assert_array_equal(model.folds, training.folds)
    else:
        held = [test for _, test in model.cv]
        assert [training.folds[rows].tolist() for rows in held] == [
            [k] * np.sum(training.folds == k) for k in range(training.folds.max() + 1)
        ]


# Fits.


def check_better_than_nothing(data, test, scores):
    if data.kind == "regression":
        assert np.mean((test.y - scores) ** 2) < np.var(test.y)
    else:
        assert auc(test.y, scores, task=test.task) > 0.5


@pytest.mark.parametrize(("dataset", "name"), CASES)
def test_every_method_fits_and_does_better_than_nothing(dataset, name):
    split, training = prepare(dataset)
    scores, strengths = fit_method(METHODS[name], training, split)
    assert scores.shape == split.test.y.shape
    assert np.all(np.isfinite(scores))
    if (dataset, name) != NOTHING_SHARED:
        check_better_than_nothing(training.data, split.test, scores)
    if name in COMPARED:
        assert strengths == json.loads(json.dumps(strengths)) != {}
        return
    assert set(json.loads(json.dumps(strengths))) == {
        "mixed": set(),
        "fedem-mlp": set(),
        "ridge-single": {"lam"},
        "ridge-pooled": {"lam"},
        "multitask-lasso": {"alpha"},
    }.get(name, {"lam", "theta", "epsilon"})


def test_one_against_the_rest_leaves_nothing_to_a_pooled_model():
    # Of every image's targets one is +1 and all others are −1: their mean is constant.
    scores, _ = fitted("ridge-pooled", "orl")
    np.testing.assert_allclose(scores, (2 - 5) / 5)


@pytest.mark.parametrize("name", ["artificial", "expert", "mixed", "ridge-pooled"])
def test_the_same_training_gives_the_same_bits(name):
    first, again = (fitted(name, "school", wrong=0.5) for _ in range(2))
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.strengths == again.strengths


def test_scores_are_in_the_units_of_the_targets():
    split, training = prepare("sarcos")
    model = fit(METHODS["ridge-single"].build, training)
    scores, _ = fit_method(METHODS["ridge-single"], training, split)
    np.testing.assert_allclose(scores, model.predict(split.test.X) * split.unit)


def test_copied_features_depend_on_the_seed():
    chosen = [
        tuple(fit(Ours("artificial"), prepare("school", seed=seed)[1]).copies.copied_)
        for seed in range(6)
    ]
    assert len(set(chosen)) > 1


@everywhere
def test_the_artificial_prior_relates_copies_only(dataset):
    _, training = prepare(dataset)
    d = training.rows.X.shape[1]
    model = fit(Ours("artificial"), training)
    count = max(1, round(0.05 * d))
    assert model.model_.n_features_in_ == d + count
    assert len(model.copies.copied_) == count


# Wrong relations.


def test_no_wrong_relations_are_the_experts():
    right = fitted("expert", "school", budget=BUDGET)
    same = fitted("expert", "school", budget=BUDGET, wrong=0.0)
    np.testing.assert_array_equal(right.scores, same.scores)


def spoiled_rows(wrong, seed=0):
    _, training = prepare("school", wrong=wrong, seed=seed)
    return Ours("expert")(training).feature_prior


def test_wrong_relations_depend_on_the_seed_alone():
    assert repr(spoiled_rows(1.0)) == repr(spoiled_rows(0.0))  # as many
    X, y, task = prepare("school")[1].rows
    models = [
        MultiTaskRegressor(1.0, 100.0, feature_prior=prior).fit(X, y, task=task)
        for prior in (spoiled_rows(1.0), spoiled_rows(1.0), spoiled_rows(1.0, seed=1))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not np.allclose(models[0].coef_, models[2].coef_)


@pytest.mark.parametrize("name", ["none", "natural", "artificial"])
def test_only_experts_can_be_wrong(name):
    right, wrong = (fitted(name, "school", wrong=share) for share in (0.0, 1.0))
    np.testing.assert_array_equal(right.scores, wrong.scores)


# Others.


class Means:
    """A toy: the mean of each task."""

    def fit(self, X, y, *, task):
        self.means = {name: y[task == name].mean() for name in np.unique(task)}
        return self

    def predict(self, X, *, task):
        return np.array([self.means[name] for name in task])


class Signs:
    """A toy without ``predict``: the first feature."""

    def fit(self, X, y, *, task):
        self.lam_ = 2
        return self

    def decision_function(self, X, *, task):
        return X[:, 0]


def test_any_estimator_can_join():
    split, training = prepare("school")
    method = Method("means", lambda training: Means())
    scores, strengths = fit_method(method, training, split)
    _, y, task = split.train
    assert scores[0] == pytest.approx(y[task == split.test.task[0]].mean())
    assert strengths == {}
    assert method.applies(training.data)


def test_an_estimator_needs_decision_values_or_predictions_not_both():
    split, training = prepare("yale")
    scores, strengths = fit_method(Method("x", lambda t: Signs()), training, split)
    np.testing.assert_array_equal(scores, split.test.X[:, 0])
    assert strengths == {"lam": 2.0}


def test_a_method_sees_training_rows_only():
    split, training = prepare("school")
    other = split._replace(test=Rows(-split.test.X, -split.test.y, split.test.task))
    one = fit_method(METHODS["natural"], training, split)
    two = fit_method(METHODS["natural"], training, other)
    assert one.strengths == two.strengths
