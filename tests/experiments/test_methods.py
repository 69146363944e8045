"""Methods: one interface, one budget, and every one of them fits what it applies to."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.linear_model import MultiTaskLassoCV
from statsmodels.regression.mixed_linear_model import MixedLM

from paper_data import KINDS, MAKERS, SHAPE
from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.baselines import (
    BASELINES,
    TunedClassifier,
    TunedRegressor,
    UsualRegressor,
)
from priormtl.data import centre_samples, to_tasks
from priormtl.datasets import Rows
from priormtl.estimators import CopyFeatures
from priormtl.experiments.methods import (
    COMPARED,
    METHODS,
    MOST_SETTINGS,
    OURS,
    PRIORS,
    Method,
    Ours,
    SharedLasso,
    Training,
    build_compared,
    contradict_prior,
    corrupt_prior,
    draw_few,
    expert_prior,
    fit_method,
)
from priormtl.experiments.protocol import (
    PROTOCOLS,
    Budget,
    find_protocol,
    load_rows,
    make_split,
)
from priormtl.experiments.rendering.measurements import PAPER_LABELS
from priormtl.metrics import auc
from priormtl.priors import difference_matrix
from priormtl.selection import split_by_fold

BUDGET = Budget((0.1, 0.01), (0.0, 1.0, 10.0), (0.1, 1.0))
CASES = [
    (dataset, name)
    for dataset in KINDS
    for name, method in METHODS.items()
    if method.applies(MAKERS[dataset]())
]
# Variants of ours that differ in their task prior and intercepts are built alike, see
# test_a_name_says_what_is_built: one stands for all. Letter is as Yale to the others.
DIFFERENT = [
    (dataset, name)
    for dataset, name in CASES
    if name not in {"none-mean", "none-chain-tied", "contradictory"}
    and (dataset != "letter" or name == "expert")
]
QUICK = {name: dataset for dataset, name in DIFFERENT}
QUICK |= {"fedem": "sarcos", "mkmtl": "school"}
FITTED = [
    pytest.param(*case, marks=pytest.mark.slow if QUICK[case[1]] != case[0] else ())
    for case in DIFFERENT
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
    options["n_settings"] = chosen.settings
    return split, Training(data, split.train, split.folds, chosen, **options)


def fit(build, training):
    X, y, task = training.rows
    return build(training).fit(X, y, task=task)


def fitted(name, dataset, **options):
    split, training = prepare(dataset, **options)
    return fit_method(METHODS[name], training, split)


# Names.


def test_labels_are_distinct_and_complete():
    labels = {method.label for method in METHODS.values()}
    assert len(labels) == len(METHODS)
    assert all(labels)


def test_the_names_agreed_on_are_there():
    ours = {*PRIORS, "none-chain-tied", "none-mean", "none-mean-tied", "adaptive"}
    ours |= {"ridge", "natural-few", "separate", "nuclear"}
    simple = {"ridge-single", "ridge-pooled", "mixed", "multitask-lasso"}
    assert set(OURS) == ours | {"contradictory"}
    assert set(METHODS) == {*OURS, *simple, *COMPARED}


def test_a_name_says_what_is_built():
    for prior in (*PRIORS, "contradictory", "ridge"):
        assert METHODS[prior].build == Ours(prior, "chain", True)
    assert METHODS["none-chain-tied"].build == Ours("none", "chain", "tied")
    assert METHODS["none-mean"].build == Ours("none", "mean", True)
    assert METHODS["none-mean-tied"].build == Ours("none", "mean", "tied")


def test_methods_apply_where_they_can():
    places = {
        name: {dataset for dataset in KINDS if (dataset, name) in CASES}
        for name in METHODS
    }
    assert places["mixed"] == {"school"}
    assert places["multitask-lasso"] == {"sarcos", "orl"}
    assert places["adaptive"] == {"school", "sarcos"}
    for name in ("expert", "contradictory", "ridge"):
        assert places[name] == set(KINDS) - {"sarcos"}
    assert places["ridge-pooled"] == set(KINDS) - {"orl"}
    for name in ("none", "natural", "artificial", "ridge-single"):
        assert places[name] == set(KINDS)


# Units of the strengths.


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


def test_adaptive_ties_are_searched_around_what_was_estimated():
    _, training = prepare("school", budget=BUDGET)
    model = METHODS["adaptive"].build(training)
    assert (model.ties, model.task_prior) == ("adaptive", "mean")
    np.testing.assert_allclose(model.epsilons, [0.1, 10.0])


def test_a_prior_and_none_differ_in_theta_alone():
    _, training = prepare("school", budget=BUDGET)
    none, prior = (METHODS[name].build(training) for name in ("none", "natural"))
    np.testing.assert_array_equal(none.lams, prior.lams)
    np.testing.assert_array_equal(none.epsilons, prior.epsilons)
    np.testing.assert_array_equal(none.thetas, [0.0])
    assert 0.0 in prior.thetas
    assert all(0.0 in protocol.budget.thetas for protocol in PROTOCOLS.values())


def test_our_model_may_be_tuned_on_fewer_of_the_folds():
    training = replace(prepare("school")[1], held_out=2)
    assert len(Ours("natural")(training).cv) == 2
    np.testing.assert_array_equal(Ours()(training).cv[1][1], training.splits[1][1])


# The budget.


def count_settings(model):
    """Settings that a fitted model has tried."""
    searching = getattr(model, "model_", model)
    if hasattr(searching, "cv_results_"):
        return len(searching.cv_results_["params"])
    return len(model.alphas)


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


@pytest.mark.parametrize(("dataset", "name"), FITTED)
def test_every_method_tries_its_settings_and_does_better_than_nothing(dataset, name):
    split, training = prepare(dataset)
    built = []

    def build(training):
        built.append(METHODS[name].build(training))
        return built[0]

    scores, strengths = fit_method(Method(name, build), training, split)
    if name != "mixed":
        most = training.n_settings
        tried = count_settings(built[0])
        if name in OURS:  # theta = 0 alone without a prior, epsilon = 0 uncoupled
            most //= len(training.budget.thetas)
            most *= len(METHODS[name].build.thetas(training.budget))
        if name == "separate":
            most //= len(training.budget.epsilons)
        # A method with ratios beside its strength cannot always use up the budget.
        assert tried == most or (name in COMPARED and 1 < tried < most)
    assert scores.shape == split.test.y.shape
    assert np.all(np.isfinite(scores))
    if (dataset, name) != NOTHING_SHARED:
        check_better_than_nothing(training.data, split.test, scores)
    if name in COMPARED:
        assert strengths == json.loads(json.dumps(strengths)) != {}
        return
    assert set(json.loads(json.dumps(strengths))) == {
        "mixed": set(),
        "ridge-single": {"lam"},
        "ridge-pooled": {"lam"},
        "multitask-lasso": {"alpha"},
    }.get(name, {"lam", "theta", "epsilon"})


def test_a_ridge_in_place_of_a_prior_shrinks_and_relates_nothing():
    _, training = prepare("yale")
    prior = METHODS["ridge"].build(training).feature_prior
    D = difference_matrix(prior, centre_samples(to_tasks(*training.rows)))
    np.testing.assert_array_equal(D.toarray(), np.eye(training.rows.X.shape[1]))


def test_few_settings_are_drawn_from_the_grid_and_hold_no_prior():
    budget = PROTOCOLS["school"].budget
    drawn = [draw_few(budget, np.random.default_rng(seed)) for seed in range(5)]
    assert len(set(drawn)) > 1
    for few in drawn:
        assert few.settings <= MOST_SETTINGS < budget.settings
        assert few.thetas[0] == 0.0
        for name, values in asdict(few).items():
            assert set(values) <= set(getattr(budget, name))
            assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", ["none", "nuclear", "artificial"])
def test_fits_tell_what_they_selected(name):
    # At the largest lam all coefficients vanish, and at a small one none does.
    for lam, count in ((1.0, 0), (1e-6, None)):
        split, training = prepare("sarcos", budget=Budget((lam,), (0.0,), (0.0,)))
        training = replace(training, tol=1e-8)
        _, strengths = fit_method(METHODS[name], training, split)
        d, m = training.slopes.shape
        full = {"none": d, "artificial": d + 1, "nuclear": min(d, m)}[name]
        kind = "rank" if name == "nuclear" else "features"
        assert strengths[kind] == (full if count is None else count)


def test_strengths_are_told_in_units_of_the_grid_too():
    split, training = prepare("school", budget=BUDGET)
    _, found = fit_method(METHODS["natural"], training, split)
    for name, grid in asdict(BUDGET).items():
        assert found[f"relative_{name.removesuffix('s')}"] in grid


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


def wrong_prior(wrong, seed=0):
    _, training = prepare("school", wrong=wrong, seed=seed)
    return Ours("expert")(training).feature_prior


def test_wrong_relations_depend_on_the_seed_alone():
    assert repr(wrong_prior(1.0)) == repr(wrong_prior(0.0))  # as many
    X, y, task = prepare("school")[1].rows
    models = [
        MultiTaskRegressor(1.0, 100.0, feature_prior=prior).fit(X, y, task=task)
        for prior in (wrong_prior(1.0), wrong_prior(1.0), wrong_prior(1.0, seed=1))
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


# Expert priors.

WITH_EXPERT = ("school", "yale", "orl")


def moments_of(data):
    return centre_samples(to_tasks(*make_split(PROTOCOLS[data.name], data, 0).train))


def relations(prior, moments):
    """D as an array."""
    return difference_matrix(prior, moments).toarray()


def related(names, D):
    """Pairs of names with the sign of their relation: −1 where they act alike."""
    pairs = []
    for row in D:
        first, second = np.flatnonzero(row)
        pairs.append((names[first], names[second], np.sign(row[first] * row[second])))
    return pairs


def components(pairs):
    """Features that hang together, as sets of names."""
    groups = []
    for a, b, _ in pairs:
        touched = [group for group in groups if group & {a, b}]
        merged = {a, b}.union(*touched)
        groups = [group for group in groups if group not in touched] + [merged]
    return groups


@pytest.fixture
def school():
    data = MAKERS["school"]()
    return data, related(data.feature_names, relations_of(data))


def relations_of(data):
    return relations(expert_prior(data), moments_of(data))


def test_school_relates_columns_of_one_kind(school):
    data, pairs = school
    alike = components([pair for pair in pairs if pair[2] < 0])
    kinds = [
        {name for name in data.feature_names if name.startswith("year_")},
        {name for name in data.feature_names if name.startswith("ethnic_")},
        {"school_mixed", "school_boys", "school_girls"},
        {"school_maintained", "school_church_of_england", "school_roman_catholic"},
    ]
    assert sorted(map(sorted, alike)) == sorted(map(sorted, kinds))
    assert [len(kind) for kind in kinds] == [3, 11, 3, 3]


def test_school_sets_poverty_against_ability(school):
    _, pairs = school
    opposite = [set(pair[:2]) for pair in pairs if pair[2] > 0]
    assert opposite == [{"school_pct_free_meals", "school_pct_vr_band1"}]


def test_every_pair_of_a_kind_is_related_once(school):
    _, pairs = school
    assert len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)
    assert len(pairs) == 3 + 11 * 10 // 2 + 3 + 3 + 1


@pytest.mark.parametrize("name", ["yale", "letter", "orl"])
def test_pixels_are_like_their_neighbours(name):
    data = MAKERS[name]()
    D = relations_of(data)
    grid = relations(FeaturePrior.grid(*SHAPE), moments_of(data))
    np.testing.assert_array_equal(D, grid)
    assert len(D) == 7  # of 2 x 3 pixels


def test_sarcos_has_no_expert():
    assert expert_prior(MAKERS["sarcos"]()) is None


@pytest.mark.usefixtures("real_sets")
def test_the_columns_of_the_real_school_have_the_same_names():
    data = load_rows("school")
    assert data.feature_names == MAKERS["school"]().feature_names
    assert len(relations_of(data)) == 65


def corrupted(name, share, seed=0):
    data = MAKERS[name]()
    prior, moments = expert_prior(data), moments_of(data)
    rng = np.random.default_rng(seed)
    worse = corrupt_prior(prior, moments, share, rng)
    return relations(prior, moments), relations(worse, moments)


def changed_rows(before, after):
    return int(np.sum(np.any(before != after, axis=1)))


@pytest.mark.parametrize("name", WITH_EXPERT)
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_corrupting_keeps_the_number_and_the_form_of_relations(name, share):
    before, after = corrupted(name, share)
    assert after.shape == before.shape
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[old != 0], new[new != 0])


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_at_most_the_share_is_changed(share):
    before, after = corrupted("school", share)
    most = round(share * len(before))
    assert 0.9 * most <= changed_rows(before, after) <= most


def test_corrupting_depends_on_the_seed_alone():
    np.testing.assert_array_equal(
        corrupted("school", 0.5)[1], corrupted("school", 0.5)[1]
    )
    other = corrupted("school", 0.5, seed=1)[1]
    assert not np.array_equal(corrupted("school", 0.5)[1], other)


def test_reversed_relations_have_the_other_sign():
    data = MAKERS["yale"]()
    moments = centre_samples(to_tasks(*data))
    prior = expert_prior(data)
    before = relations(prior, moments)
    for share in (0.5, 1.0):
        rng = np.random.default_rng(0)
        after = relations(contradict_prior(prior, moments, share, rng), moments)
        assert changed_rows(before, after) == round(share * len(before))
        np.testing.assert_array_equal(np.abs(before), np.abs(after))
    assert np.all(after.sum(axis=1) != 0)  # p_i close to −p_j


def test_wrong_relations_are_of_the_kind_that_the_method_names():
    _, training = prepare("yale", wrong=1.0)
    moments = moments_of(training.data)
    right = relations(expert_prior(training.data), moments)
    drawn, turned = (
        relations(METHODS[name].build(training).feature_prior, moments)
        for name in ("expert", "contradictory")
    )
    np.testing.assert_array_equal(np.abs(turned), np.abs(right))
    assert changed_rows(right, turned) == len(right)
    assert not np.array_equal(np.abs(drawn), np.abs(right))


def test_theta_changes_no_prediction_of_the_artificial_prior():
    """Copies share their effect equally for any theta: docs/mathematics.md."""
    X, y, task = prepare("school")[1].rows
    copies = CopyFeatures(0.2, random_state=0)
    wide = copies.fit_transform(X)

    def predict(theta, X, prior=None):
        model = MultiTaskRegressor(
            5.0, theta, 3.0, feature_prior=prior, standardize=False, tol=1e-12
        )
        return model.fit(X, y, task=task).predict(X, task=task)

    found = [predict(theta, wide, copies.prior_) for theta in (1e-2, 1.0, 1e4)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
    np.testing.assert_allclose(found[0], found[2], atol=1e-4)


# Simple methods, against scikit-learn and statsmodels.


def numbers(seed=0, n=60, d=5, m=3):
    """X, (n, m) targets, tasks and folds; some rows are never held out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0
    common = rng.normal(size=(d, 1)) + 0.5 * rng.normal(size=(d, m))
    y = X @ common + 4.0 * rng.normal(size=(n, m)) + np.arange(m)
    task = np.array(["c", "a", "b"])[np.arange(n) % m]
    folds = rng.permutation(np.arange(n) % 4) - 1
    return X, y, task, folds


def stacked(n=90):
    """Rows as ``fit`` takes them, with a task that stands out."""
    X, y, task, _ = numbers(n=n)
    y = y[np.arange(n), np.arange(n) % 3]
    return X, y + 8.0 * (task == "a"), task


def fit_statsmodels(X, y, task):
    design = np.column_stack([np.ones(len(X)), X])
    return MixedLM(y, design, groups=task).fit(), design


def test_the_mixed_model_is_that_of_statsmodels():
    X, y, task = stacked()
    result, design = fit_statsmodels(X, y, task)
    model = UsualRegressor("mixed-model").fit(X, y, task=task)
    own = np.array([result.random_effects[name].iloc[0] for name in task])
    np.testing.assert_allclose(
        model.predict(X, task=task), design @ result.fe_params + own
    )
    np.testing.assert_allclose(model.predict(X, task=task), result.fittedvalues)


def test_the_mixed_model_does_without_collinear_and_constant_columns():
    X, y, task = stacked()
    wide = np.column_stack([X[:, :2], np.full(len(X), 3.0), X, X @ np.arange(5.0)])
    plain = UsualRegressor("mixed-model").fit(X, y, task=task)
    model = UsualRegressor("mixed-model").fit(wide, y, task=task)
    np.testing.assert_allclose(
        model.predict(wide, task=task), plain.predict(X, task=task), rtol=1e-4
    )


def test_the_mixed_model_takes_constant_columns_only():
    _, y, task = stacked()
    flat = np.full((len(y), 2), 3.0)
    predicted = (
        UsualRegressor("mixed-model").fit(flat, y, task=task).predict(flat, task=task)
    )
    means = [y[task == name].mean() for name in np.unique(task)]
    shown = [predicted[task == name][0] for name in np.unique(task)]
    assert np.ptp(shown) < np.ptp(means)  # shrunk
    assert np.argsort(shown).tolist() == np.argsort(means).tolist()


def test_the_shared_lasso_is_that_of_scikit_learn():
    X, y, _, folds = numbers()
    alphas = np.geomspace(5.0, 0.05, 6)
    splits = [tuple(split) for split in split_by_fold(folds)]
    twin = MultiTaskLassoCV(alphas=alphas, cv=splits, tol=1e-3).fit(X, y)
    model = SharedLasso(alphas, folds).fit(X, y)
    assert model.alpha_ == twin.alpha_
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))
    assert model.predict(X).shape == y.shape


# Compared methods.


def test_the_papers_eight_are_there_in_its_order():
    assert list(COMPARED) == list(BASELINES) == list(PAPER_LABELS)[:8]


@pytest.mark.parametrize("name", COMPARED)
def test_kinds_of_targets_decide_what_is_built(name):
    assert isinstance(build_compared(name, prepare("school")[1]), TunedRegressor)
    assert isinstance(build_compared(name, prepare("yale")[1]), TunedClassifier)


@pytest.mark.parametrize("name", COMPARED)
def test_misfit_is_counted_as_ours_where_there_is_a_choice(name):
    method = build_compared(name, prepare("yale")[1]).method
    assert method.get_params().get("loss", "squared") == "squared"
    assert method.tol == (1e-3 if name == "fedem" else 1e-2)


@pytest.mark.parametrize(("allowed", "tried"), [(50, MOST_SETTINGS), (4, 4)])
def test_no_method_may_try_more_settings_than_it_is_allowed(allowed, tried):
    training = replace(prepare("school")[1], n_settings=allowed)
    assert build_compared("mtrl", training).n_settings == tried


def test_folds_are_those_of_every_method():
    training = prepare("school")[1]
    folds = [test for _, test in build_compared("rmtl", training).cv]
    for k, rows in enumerate(folds):
        np.testing.assert_array_equal(rows, np.flatnonzero(training.folds == k))
