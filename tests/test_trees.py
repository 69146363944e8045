"""Boosted trees: those of scikit-learn, for every loss."""

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from priormtl.estimators.stacked import CLASS_SIZES, SIZES
from priormtl.losses import (
    Gamma,
    Logistic,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Squared,
)
from priormtl.trees import ClassTrees, Trees, divide_features, grow

FAMILIES = {
    "squared_error": Squared(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "log_loss": Logistic(),
    "classes": Multinomial(3),
}


def draw(name, n=400, seed=0):
    """Features with ties and gaps, and targets of a loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 3] = rng.integers(0, 3, n)
    X[::7, 1] = np.nan
    X[X[:, 4] > 0, 4] = np.nan  # whether a value is missing tells something
    eta = np.sin(2.0 * X[:, 0]) + X[:, 2] * (X[:, 3] == 1) + np.isnan(X[:, 4])
    noisy = eta + rng.logistic(size=n)
    return X, {
        "squared_error": eta + rng.normal(size=n),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(eta)),
        "log_loss": np.where(noisy > 0.5, 1.0, -1.0),
        "classes": np.digitize(noisy, [0.0, 1.0]),
    }[name]


def scikit_learn(name, size, X, y, weight, signs=None):
    """Scores of the same boosting; those of classes sum to zero."""
    kind, loss = HistGradientBoostingRegressor, name
    if name in ("log_loss", "classes"):
        kind, loss = HistGradientBoostingClassifier, "log_loss"
    settings = size._asdict()
    del settings["sees_scores"]
    model = kind(
        loss=loss,
        **settings,
        min_samples_leaf=5,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,
        random_state=0,
        monotonic_cst=signs,
    ).fit(X, y, sample_weight=weight)
    if kind is HistGradientBoostingClassifier:
        return model.decision_function(X)
    mean = model.predict(X)
    return mean if name == "squared_error" else np.log(mean)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_trees_are_those_of_scikit_learn(name, weighted):
    # Many rows in all leaves: two features that divide few rows alike differ in
    # rounding alone. Few values, so that all weights have the same bins.
    X, y = draw(name, n=1500)
    X = np.round(X, 1)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    size = SIZES[0]._replace(max_iter=15)
    target = np.equal.outer(y, np.arange(3.0)) * 1.0 if name == "classes" else y
    scores = grow(size, X, target, weight, FAMILIES[name]).predict(X)
    theirs = scikit_learn(name, size, X, y, weight)
    if name == "classes":
        scores -= scores.mean(axis=1, keepdims=True)
        theirs -= theirs.mean(axis=1, keepdims=True)
    assert np.ptp(theirs) > 0.5
    assert np.allclose(scores, theirs, atol=1e-12)


def test_sums_of_two_sizes_are_mixed():
    X, y = draw("log_loss", n=1500)
    sizes = [SIZES[0]._replace(max_iter=15), SIZES[1]._replace(max_iter=3)]
    grown = [grow(size, X, y, None, Logistic()) for size in sizes]
    parts = [scikit_learn("log_loss", size, X, y, None) for size in sizes]
    mixed = Trees.mix(grown, (0.2, 0.5)).predict(X)
    assert np.allclose(mixed, 0.2 * parts[0] + 0.5 * parts[1], atol=1e-12)


def test_trees_respect_signs():
    X, y = draw("squared_error", n=1500)
    signs = np.array([1, 0, -1, 0, 0])
    few = SIZES[0]._replace(max_iter=15)
    trees = grow(few, X, y, None, Squared(), signs)
    theirs = scikit_learn("squared_error", few, X, y, None, signs)
    assert np.allclose(trees.predict(X), theirs, atol=1e-12)
    trees = grow(SIZES[1], X, y, None, Squared(), signs)
    raised, lowered = X.copy(), X.copy()
    raised[:, 0] += 1.0
    lowered[:, 2] += 1.0
    assert np.all(trees.predict(raised) >= trees.predict(X))
    assert np.all(trees.predict(lowered) <= trees.predict(X))
    free = grow(SIZES[1], X, y, None, Squared()).predict
    assert np.any(free(raised) < free(X))


def test_weights_are_copies_of_rows():
    X, y = draw("poisson")
    X, size = np.round(X, 1), SIZES[0]._replace(max_iter=20)
    counts = np.random.default_rng(2).integers(5, 9, len(y))  # no leaf is too small
    copied = grow(size, X.repeat(counts, axis=0), y.repeat(counts), None, Poisson())
    weighted = grow(size, X, y, counts.astype(float), Poisson())
    found = weighted.predict(X)
    assert np.corrcoef(found, copied.predict(X))[0, 1] > 0.98
    assert weighted.base == pytest.approx(copied.base)


def test_negative_binomial_counts_have_trees_of_poisson_loss():
    X, y = draw("poisson")
    ours = grow(SIZES[0], X, y, None, NegativeBinomial(0.5)).predict(X)
    assert np.array_equal(ours, grow(SIZES[0], X, y, None, Poisson()).predict(X))


def test_bins_are_values_or_quantiles():
    X = np.column_stack([[1.0, 2.0, np.nan, 2.0, 7.0], np.arange(5.0), np.ones(5)])
    bins, first, edges = divide_features(X, 4)
    assert edges[0].tolist() == [1.5, 4.5]
    assert bins[:, 0].tolist() == [0, 1, 3, 1, 2]
    assert first.tolist() == [0, 4, 8, 9]
    assert len(edges[1]) == 3
    assert bins[:, 1].max() == 3
    assert edges[2].tolist() == []


def test_weighted_quantiles_are_those_of_copies():
    rng = np.random.default_rng(3)
    x, counts = rng.normal(size=(200, 1)), rng.integers(1, 5, 200)
    _, _, weighted = divide_features(x, 16, counts.astype(float))
    _, _, copied = divide_features(x.repeat(counts, axis=0), 16)
    places = np.searchsorted(np.sort(x[:, 0]), [*weighted[0], *copied[0]])
    assert np.abs(places[:15] - places[15:]).max() <= 1


def test_classes_that_are_not_seen_have_next_to_no_chance():
    X, y = draw("classes")
    target = np.equal.outer(y + (y == 2), np.arange(4.0)) * 1.0
    trees = grow(CLASS_SIZES[0], X, target, None, Multinomial(4))
    assert isinstance(trees, ClassTrees)
    assert len(trees.classes[2].roots) == 0
    chances = np.exp(trees.predict(X))
    assert np.all(chances[:, 2] < 1e-4 * chances.sum(axis=1))
