"""The model as a report sees it: its summary, comparable sizes, scores by task."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from priormtl import MultiTaskClassifier, MultiTaskRegressor
from priormtl.reports.model import (
    FittedModel,
    row_norms,
    score_rows,
    score_training,
)
from shown_models import TASKS, drawn_rows, fitted_of, model_of, tuned_model

# What was learned


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200, 0.0])
def test_norms_scale(unit):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    assert row_norms(unit * rows) == pytest.approx(unit * np.array([5.0, 0.0, 1.0]))


def test_tiny_rows_beside_huge_ones_do_not_vanish():
    assert row_norms(np.array([[1e-180, 0.0], [1e180, 0.0]])).tolist() == [
        1e-180,
        1e180,
    ]


def test_sizes_do_not_depend_on_units():
    X, y, task, _ = drawn_rows()
    unit = np.geomspace(0.01, 100.0, X.shape[1])
    sizes = [
        FittedModel.read(
            MultiTaskRegressor(1.0, standardize=True).fit(Z, y, task=task)
        ).sizes
        for Z in (X, X * unit)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)


def test_spread_comes_from_rows_where_the_model_has_none():
    rows = np.array([[0.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    model = model_of(np.ones((2, 2)))
    dense, sparse = (FittedModel.read(model, X) for X in (rows, csr_array(rows)))
    assert dense.scale == pytest.approx([rows[:, 0].std(), 1.0])
    assert sparse.scale == pytest.approx(dense.scale)


def test_scale_that_the_fit_remembers_is_used():
    known = {"feature_scale_": np.array([2.0, 3.0])}
    assert FittedModel.read(model_of(np.ones((2, 2)), **known)).scale is None
    model = model_of(np.ones((2, 2)), **known, standardize=True)
    assert FittedModel.read(model).scale.tolist() == [2.0, 3.0]


def test_names_are_the_models_or_positions():
    assert fitted_of([[1.0, 2.0]]).features == ("x0", "x1")
    assert fitted_of([[1.0]], ["é"]).features == ("é",)
    assert FittedModel.read(tuned_model()).tasks == ("East", "North", "South", "West")


def test_the_median_task_has_no_distance():
    assert fitted_of([[1.0], [2.0], [9.0]]).distances.tolist() == [1.0, 0.0, 7.0]


@pytest.mark.parametrize("model", [MultiTaskRegressor(), object()])
def test_what_is_not_fitted_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted linear model"):
        FittedModel.read(model)


# Scores


def test_scores_on_rows_are_r2():
    X, y, task, _ = drawn_rows()
    model = tuned_model()
    scores = score_rows(FittedModel.read(model), X, y, task)
    prediction = model.predict(X, task=task)
    by_task = [r2_score(y[task == t], prediction[task == t]) for t in TASKS]
    assert scores.by_task == pytest.approx(by_task)
    assert scores.overall == pytest.approx(r2_score(y, prediction))
    assert scores.rows.tolist() == [25.0] * 4


def test_statistics_score_as_rows_do():
    X, y, task, _ = drawn_rows()
    fitted = FittedModel.read(tuned_model())
    kept, rows = score_training(fitted), score_rows(fitted, X, y, task)
    assert kept.by_task == pytest.approx(rows.by_task)
    assert kept.second_by_task == pytest.approx(rows.second_by_task)
    assert kept.overall == pytest.approx(rows.overall)


def test_classes_are_scored_by_auc():
    X, y, task, _ = drawn_rows()
    label = np.where(y > 0, "yes", "no")
    model = MultiTaskClassifier(5.0).fit(X, label, task=task)
    scores = score_rows(FittedModel.read(model), X, label, task)
    score, said = model.decision_function(X, task=task), model.predict(X, task=task)
    pairs = [(label[task == t] == "yes", score[task == t]) for t in TASKS]
    assert scores.by_task == pytest.approx([roc_auc_score(*pair) for pair in pairs])
    assert scores.overall == pytest.approx(scores.by_task.mean())
    shares = [accuracy_score(label[task == t], said[task == t]) for t in TASKS]
    assert scores.second_by_task == pytest.approx(shares)


def test_targets_in_columns_may_be_missing():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    model = MultiTaskRegressor(0.1).fit(X, Y)
    Y[:5, 1] = np.nan
    scores = score_rows(FittedModel.read(model), X, Y, None)
    assert scores.rows.tolist() == [20.0, 15.0]
    expected = r2_score(Y[5:, 1], model.predict(X)[5:, 1])
    assert scores.by_task[1] == pytest.approx(expected)


def test_tasks_without_rows_or_spread_have_no_score():
    X, _, task, _ = drawn_rows()
    one = task == "North"
    scores = score_rows(
        FittedModel.read(tuned_model()), X[one], np.ones(one.sum()), task[one]
    )
    assert np.isnan(scores.by_task).all()
    assert np.isnan(scores.overall)


def test_the_task_may_be_a_column_of_the_features():
    X, y, task, _ = drawn_rows()
    frame = pd.DataFrame(X).assign(region=task)
    model = MultiTaskRegressor(1.0, task="region").fit(frame, y)
    scores = score_rows(FittedModel.read(model), frame, y, None)
    assert scores.overall == pytest.approx(model.score(frame, y))
    model.fitted_ = replace(model.fitted_, statistics=None)
    assert FittedModel.read(model, frame).scale.shape == X.shape[1:]


def test_a_model_without_statistics_may_remember_its_scores():
    scores = np.array([0.5, 0.7])
    model = model_of(
        np.ones((2, 1)), task_r2_=scores, task_weight_=np.array([8.0, 9.0])
    )
    scores = score_training(FittedModel.read(model))
    assert scores.by_task.tolist() == [0.5, 0.7]
    assert np.isnan(scores.overall)
    assert score_training(FittedModel.read(model_of(np.ones((2, 1))))) is None


def test_wrong_targets_are_named():
    X, y, task, _ = drawn_rows()
    fitted = FittedModel.read(tuned_model())
    with pytest.raises(ValueError, match="one target per prediction"):
        score_rows(fitted, X, y[:-1], task)
    label = np.where(y > 0, "yes", "no").astype(object)
    model = MultiTaskClassifier(5.0).fit(X, label, task=task)
    label[3] = "perhaps"
    with pytest.raises(ValueError, match="'perhaps'"):
        score_rows(FittedModel.read(model), X, label, task)
