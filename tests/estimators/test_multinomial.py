"""Classifiers with more than two classes, through the public face."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    load,
    report,
    save,
    tabular_model,
)
from priormtl.plotting import plot_prior

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
TASK = np.arange(150) % 2


def fit(lam=1.0, **settings):
    given = {"task_prior": "mean"} | settings
    return MultiTaskClassifier(lam, **given).fit(X, NAMES, task=TASK)


@pytest.mark.parametrize("intercept", [True, False, "tied"])
@pytest.mark.filterwarnings("ignore:fit_intercept")
def test_shapes_probabilities_and_certificate(intercept):
    model = fit(fit_intercept=intercept)
    assert model.coef_.shape == (2, 3, 4)
    assert model.intercept_.shape == (2, 3)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    proba = model.predict_proba(X, task=TASK)
    assert proba.shape == (150, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    scores = model.decision_function(X, task=TASK)
    np.testing.assert_array_equal(scores.argmax(axis=1), proba.argmax(axis=1))
    assert model.score(X, NAMES, task=TASK) > 0.95
    np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-9)
    # The objective, term by term.
    value = 150 * log_loss(NAMES, proba)
    value += np.sqrt(np.sum(model.coef_**2, axis=(0, 1))).sum()
    means = model.coef_ - model.coef_.mean(axis=0)
    value += 0.5 * np.sum(means**2)
    if intercept == "tied":
        apart = model.intercept_ - model.intercept_.mean(axis=0)
        value += 0.5 * np.sum(apart**2)
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert model.dual_gap_ <= 1e-6 * 150 * np.log(3.0)


def test_sparse_rows_and_weights_count_as_repetitions():
    weight = np.arange(150) % 3 + 1.0
    again = np.repeat(np.arange(150), weight.astype(int))
    settings = {"task_prior": "mean", "tol": 1e-9}
    one = MultiTaskClassifier(2.0, **settings)
    one.fit(csr_array(X), Y, task=TASK, sample_weight=weight)
    two = MultiTaskClassifier(2.0, **settings).fit(X[again], Y[again], task=TASK[again])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-4)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-7)


def test_statements_act_on_every_class():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(task=TASK)
    prior = FeaturePrior.common(["c"]) + FeaturePrior.similar([("a", "b")])
    model = MultiTaskClassifier(
        0.1, theta=1e6, feature_prior=prior, task_prior="mean", task="task"
    ).fit(frame, NAMES)
    assert np.all(np.ptp(model.coef_[..., 2], axis=0) == 0)
    np.testing.assert_allclose(model.coef_[..., 0], model.coef_[..., 1], atol=1e-3)
    assert np.ptp(model.coef_[0, :, 2]) > 0.1


def test_saved_models_summaries_and_unseen_tasks(tmp_path):
    model = fit(unseen_tasks="shared")
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    rows = X[:5], np.full(5, 9)
    np.testing.assert_array_equal(
        again.predict_proba(rows[0], task=rows[1]),
        model.predict_proba(rows[0], task=rows[1]),
    )
    assert "0: virginica" in str(model.summary())
    assert len(model.coef_frame()) == 2 * 3 * 5
    assert again.classes_.tolist() == model.classes_.tolist()
    warm = MultiTaskClassifier(1.0, task_prior="mean", warm_start=True)
    warm.fit(X, Y, task=TASK).fit(X, Y, task=TASK)
    assert warm.n_iter_ == 0


def test_values_known_by_task_are_shown_for_every_class():
    known = FeaturePrior.near({1: {0: 2.0, 1: -1.0}})
    model = fit(feature_prior=known)
    assert "0: setosa" in str(model.summary())
    assert plot_prior(model).get_title() == "1 relation of 1 feature"
    assert "virginica" in report(model).to_json()


def test_tasks_may_lack_a_class_where_intercepts_are_tied():
    kept = (TASK == 0) | (Y < 2)
    settings = {"task_prior": "mean", "standardize": True}
    model = MultiTaskClassifier(1.0, fit_intercept="tied", **settings)
    model.fit(X[kept], Y[kept], task=TASK[kept])
    assert model.predict_proba(X, task=TASK).shape == (150, 3)
    with pytest.raises(ValueError, match=r"task 1 has no rows of \[2\]. Use fit_inter"):
        MultiTaskClassifier(1.0, **settings).fit(X[kept], Y[kept], task=TASK[kept])


def test_tasks_that_all_lack_a_class_have_it_where_intercepts_are_tied():
    task = np.arange(150) % 3  # two of them show the same pair
    kept = np.where(task == 0, Y != 2, Y != 0)
    model = MultiTaskClassifier(1.0, task_prior="mean", fit_intercept="tied")
    model.fit(X[kept], Y[kept], task=task[kept])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X, task=task).shape == (150, 3)


def test_pairs_of_classes_stay_binary():
    kept = np.where(TASK == 0, Y != 2, Y != 0)
    model = MultiTaskClassifier(1.0).fit(X[kept], Y[kept], task=TASK[kept])
    assert model.coef_.shape == (2, 4)
    assert [classes.tolist() for classes in model.classes_] == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"penalty": "nuclear"}, 'penalty must be "l21" with 3 classes'),
        ({"outlier_tasks": True}, "outlier_tasks must be False with 3 classes"),
        ({"solver": "fista"}, 'solver must be "auto" with this loss'),
        ({"loss": "squared"}, "Only binary classification is supported"),
    ],
)
def test_what_is_not_offered(settings, match):
    with pytest.raises(ValueError, match=match):
        fit(**settings)


def test_summaries_count_rows_once_and_show_features_by_class():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(task=TASK)
    prior = FeaturePrior.nonnegative(["b"])
    model = MultiTaskClassifier(2.0, feature_prior=prior, task="task")
    summary = model.fit(frame, NAMES).summary()
    assert (summary.weight, summary.n_tasks) == (150, 2)
    assert summary.classes == ("setosa", "versicolor", "virginica")
    text = str(summary)
    assert text.startswith("MultiTaskClassifier: 150 rows, 2 tasks, 3 classes, 4 feat")
    assert "multinomial" in text
    at_bound = np.count_nonzero(model.coef_[..., 1] == 0)
    assert f"at its bound in {at_bound} of 2 tasks × 3 classes" in text
    # Means over tasks, largest first.
    means = model.coef_[..., 2].mean(axis=0)
    found = summary.class_means("c")
    assert list(found) == [model.classes_[k] for k in np.argsort(-np.abs(means))]
    np.testing.assert_allclose([found[one] for one in model.classes_], means)
    first, value = next(iter(found.items()))
    assert f"{first} {value:.3g}".replace("-", "−") in text
    table = summary.to_frame("features").set_index("name")
    assert "mean" not in table.columns
    np.testing.assert_allclose(table.loc["c", "mean: virginica"], means[2])


def test_reports_count_rows_once_and_show_features_by_class():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(task=TASK)
    model = MultiTaskClassifier(2.0, task="task").fit(frame, NAMES)
    content = report(model, frame, NAMES).content
    assert "2 tasks" in content.title
    facts = dict(content.facts)
    assert facts["Rows"] == facts["Rows scored"] == "150"
    assert (facts["Tasks"], facts["Classes"]) == ("2", "3")
    assert facts["Loss"] == "multinomial"
    [answer] = [one for one in content.findings if one.key == "features"]
    name, means = answer.numbers["top"].split(", ")[0], model.summary().class_means
    first, value = next(iter(means(name).items()))
    shown = f"{first} {value:.3g}".replace("-", "−")
    assert f"Its means over tasks: {shown}" in answer.sentence
    [table] = [one for one in content.tables if one.name == "features"]
    columns = {one.label: one.values for one in table.columns}
    row = columns["Feature"].index(name)
    assert columns[f"Mean: {first}"][row] == pytest.approx(value)
    assert not {"Mean", "Same sign"} & {*columns}


def test_reports_show_curves_by_class():
    rng = np.random.default_rng(0)
    x, labels = rng.uniform(-3, 3, size=300), np.array(["low", "high", "middle"])
    eta = np.column_stack([-x, x, 2.0 - x**2]) + rng.gumbel(size=(300, 3))
    frame = pd.DataFrame({"x": x, "task": np.arange(300) % 2})
    model = tabular_model("classifier", task="task", trees="none", cv=2)
    model.fit(frame, labels[eta.argmax(axis=1)])
    content = report(model).content
    [table] = [one for one in content.tables if one.name == "curves"]
    columns = {one.name: one.values for one in table.columns}
    names, value = np.array(columns["column"]), columns["value"]
    found = {one: columns["effect"][names == f"x: {one}"] for one in labels}
    np.testing.assert_allclose(sum(found.values()), 0.0, atol=1e-6)
    grid = value[names == "x: low"]
    assert np.corrcoef(found["high"], grid)[0, 1] > 0.7
    assert np.corrcoef(found["low"], grid)[0, 1] < -0.7
    assert np.corrcoef(found["middle"], grid**2)[0, 1] < -0.7
