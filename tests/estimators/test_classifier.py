"""MultiTaskClassifier: labels of any kind, two per task."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from priormtl import MultiTaskClassifier, MultiTaskRegressor, one_vs_one, one_vs_rest
from priormtl.datasets import make_related_tasks

# Before 1.8 l1_ratio is for one penalty alone; from then on that must not be said.
OLD = Version(sklearn.__version__) < Version("1.8")
LASSO = {"l1_ratio": 1.0} | ({"penalty": "elasticnet"} if OLD else {})


@pytest.fixture
def data():
    return make_related_tasks(4, 5, 20, classification=True, random_state=0)


def test_squared_loss_is_regression_on_signs(data):
    classifier = MultiTaskClassifier(loss="squared").fit(data.X, data.y, task=data.task)
    regressor = MultiTaskRegressor().fit(data.X, data.y, task=data.task)
    assert np.array_equal(classifier.coef_, regressor.coef_)
    assert not hasattr(classifier, "predict_proba")


def test_one_task_is_logistic_regression(data):
    X, y = data.X[:20], data.y[:20]
    model = MultiTaskClassifier(lam=1.0, tol=1e-10).fit(X, y)
    reference = LogisticRegression(
        **LASSO, solver="saga", tol=1e-9, max_iter=10**6, C=1.0
    ).fit(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-3)


def test_scores_probabilities_and_labels_agree(data):
    model = MultiTaskClassifier().fit(data.X, data.y, task=data.task)
    scores = model.decision_function(data.X, task=data.task)
    probability = model.predict_proba(data.X, task=data.task)
    assert probability.sum(axis=1) == pytest.approx(np.ones(80))
    assert np.array_equal(probability[:, 1] > 0.5, scores > 0)
    labels = model.predict(data.X, task=data.task)
    assert np.array_equal(labels, np.where(scores > 0, 1.0, -1.0))
    assert model.score(data.X, data.y, task=data.task) == np.mean(labels == data.y)


@pytest.mark.parametrize("labels", [(0, 1), (False, True), ("ill", "well"), (2.0, 7.0)])
def test_any_two_labels_serve(data, labels):
    y = np.array(labels)[(data.y > 0).astype(int)]
    model = MultiTaskClassifier().fit(data.X, y, task=data.task)
    signs = MultiTaskClassifier().fit(data.X, data.y, task=data.task)
    assert np.array_equal(model.coef_, signs.coef_)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(data.X, task=data.task).dtype == y.dtype


def test_tasks_may_have_their_own_classes():
    rng = np.random.default_rng(0)
    digit = np.repeat([3, 5, 8], 12)
    X = rng.standard_normal((36, 4)) + digit[:, None] * np.array([0.5, 0, -0.5, 1])
    X, y, task = one_vs_one(X, digit)
    model = MultiTaskClassifier(lam=0.1).fit(X, y, task=task)
    assert model.tasks_.tolist() == ["3 vs 5", "3 vs 8", "5 vs 8"]
    assert [row.tolist() for row in model.classes_] == [[3, 5], [3, 8], [5, 8]]
    assert model.score(X, y, task=task) > 0.9


def test_shared_columns_equal_one_vs_rest():
    rng = np.random.default_rng(1)
    label = np.repeat(["a", "b", "c"], 10)
    X = rng.standard_normal((30, 4)) + (label == "b")[:, None]
    rows, y, task = one_vs_rest(X, label)
    stacked = MultiTaskClassifier(tol=1e-10).fit(rows, y, task=task)
    Y = (label[:, None] == np.array(["a", "b", "c"])).astype(int)
    shared = MultiTaskClassifier(tol=1e-10).fit(X, Y)
    assert shared.coef_ == pytest.approx(stacked.coef_, abs=1e-5)
    assert shared.predict(X).shape == shared.predict_proba(X).shape == (30, 3)
    assert shared.score(X, Y) == np.mean(shared.predict(X) == Y)


def test_gaps_in_columns_are_left_out(data):
    X = data.X[:20]
    Y = data.y.reshape(4, 20).T.copy()
    Y[::3, 1] = np.nan
    model = MultiTaskClassifier(tol=1e-10).fit(X, Y)
    rows, columns = np.nonzero(~np.isnan(Y))
    stacked = MultiTaskClassifier(tol=1e-10).fit(
        X[rows], Y[rows, columns], task=columns
    )
    assert model.coef_ == pytest.approx(stacked.coef_, abs=1e-5)
    assert 0.5 < model.score(X, Y) <= 1.0


def test_text_labels_with_gaps_in_a_frame(data):
    words = np.where(data.y[:20] > 0, "yes", "no").astype(object)
    frame = pd.DataFrame({"u": words, "v": words[::-1]})
    frame.loc[3, "u"] = None
    model = MultiTaskClassifier().fit(data.X[:20], frame)
    assert model.tasks_.tolist() == ["u", "v"]
    assert set(model.predict(data.X[:20]).ravel()) <= {"yes", "no"}


def test_a_task_of_one_class_is_refused_where_it_has_no_optimum(data):
    y = np.where(data.task == 2, 1.0, data.y)
    model = MultiTaskClassifier()
    with pytest.raises(ValueError, match=r'task 2 has one .* use fit_intercept="tied"'):
        model.fit(data.X, y, task=data.task)
    assert not hasattr(model, "classes_")
    for settings in (
        {"fit_intercept": "tied"},
        {"fit_intercept": False},
        {"loss": "squared"},
    ):
        clone(model).set_params(**settings).fit(data.X, y, task=data.task)


def test_three_classes_are_refused_with_a_way_out(data):
    with pytest.raises(ValueError, match=r"Only binary .* one_vs_one or one_vs_rest"):
        MultiTaskClassifier(loss="squared").fit(data.X, np.arange(80) % 3)


def test_numbers_are_no_classes(data):
    with pytest.raises(ValueError, match="Unknown label type"):
        MultiTaskClassifier().fit(data.X, data.X[:, 0])


def test_unknown_loss_is_refused(data):
    with pytest.raises(ValueError, match="loss must be one of 'logistic', 'squared'"):
        MultiTaskClassifier(loss="hinge").fit(data.X, data.y)


def test_separable_data_without_penalty_end_with_a_warning_or_a_gap(data):
    X = np.r_[-np.eye(2) - 1, np.eye(2) + 1]
    model = MultiTaskClassifier(lam=1e-3, theta=0.0, epsilon=0.0).fit(X, [0, 0, 1, 1])
    assert model.dual_gap_ <= 1e-6 * 4 * np.log(2)
    assert model.predict(X).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
def test_adaptive_ties_tell_what_varies(loss, fit_intercept):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(30), 40)
    X = rng.normal(size=(1200, 2))
    P = rng.normal(size=(30, 2)) * [0.0, 1.5] + 1.0
    y = np.sum(X * P[task], axis=1) + rng.logistic(size=1200) > 0
    model = MultiTaskClassifier(
        0.01,
        loss=loss,
        task_prior="mean",
        fit_intercept=fit_intercept,
        ties="adaptive",
    ).fit(X, y, task=task)
    assert model.tie_weights_[0] > 10 * model.tie_weights_[1]
    assert model.dual_gap_ <= 1e-6 * 1200
    assert hasattr(model, "intercept_strength_") == (fit_intercept == "tied")
