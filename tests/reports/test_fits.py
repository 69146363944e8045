"""Fits: scores of tasks equal the metrics', on rows and from statistics."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from priormtl import MultiTaskClassifier, MultiTaskRegressor
from priormtl.reports.fits import features_of, score_fit, score_rows
from priormtl.reports.learned import Learned
from reported_models import TASKS, drawn_rows, model_of, tuned_model


def test_scores_on_rows_are_r2():
    X, y, task, _ = drawn_rows()
    model = tuned_model()
    fits = score_rows(Learned.read(model), X, y, task)
    prediction = model.predict(X, task=task)
    by_task = [r2_score(y[task == t], prediction[task == t]) for t in TASKS]
    assert fits.scores == pytest.approx(by_task)
    assert fits.whole == pytest.approx(r2_score(y, prediction))
    assert fits.rows.tolist() == [25.0] * 4


def test_statistics_score_as_rows_do():
    X, y, task, _ = drawn_rows()
    learned = Learned.read(tuned_model())
    kept, rows = score_fit(learned), score_rows(learned, X, y, task)
    assert kept.scores == pytest.approx(rows.scores)
    assert kept.seconds == pytest.approx(rows.seconds)
    assert kept.whole == pytest.approx(rows.whole)


def test_classes_are_scored_by_auc():
    X, y, task, _ = drawn_rows()
    label = np.where(y > 0, "yes", "no")
    model = MultiTaskClassifier(5.0).fit(X, label, task=task)
    fits = score_rows(Learned.read(model), X, label, task)
    score, said = model.decision_function(X, task=task), model.predict(X, task=task)
    pairs = [(label[task == t] == "yes", score[task == t]) for t in TASKS]
    assert fits.scores == pytest.approx([roc_auc_score(*pair) for pair in pairs])
    assert fits.whole == pytest.approx(fits.scores.mean())
    shares = [accuracy_score(label[task == t], said[task == t]) for t in TASKS]
    assert fits.seconds == pytest.approx(shares)


def test_targets_in_columns_may_be_missing():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    model = MultiTaskRegressor(0.1).fit(X, Y)
    Y[:5, 1] = np.nan
    fits = score_rows(Learned.read(model), X, Y, None)
    assert fits.rows.tolist() == [20.0, 15.0]
    assert fits.scores[1] == pytest.approx(r2_score(Y[5:, 1], model.predict(X)[5:, 1]))


def test_tasks_without_rows_or_spread_have_no_score():
    X, _, task, _ = drawn_rows()
    one = task == "North"
    fits = score_rows(
        Learned.read(tuned_model()), X[one], np.ones(one.sum()), task[one]
    )
    assert np.isnan(fits.scores).all()
    assert np.isnan(fits.whole)


def test_the_task_may_be_a_column_of_the_features():
    X, y, task, _ = drawn_rows()
    frame = pd.DataFrame(X).assign(region=task)
    model = MultiTaskRegressor(1.0, task="region").fit(frame, y)
    fits = score_rows(Learned.read(model), frame, y, None)
    assert fits.whole == pytest.approx(model.score(frame, y))
    assert features_of(model, frame).shape == X.shape


def test_a_model_without_statistics_may_remember_its_scores():
    scores = np.array([0.5, 0.7])
    model = model_of(
        np.ones((2, 1)), task_r2_=scores, task_weight_=np.array([8.0, 9.0])
    )
    fits = score_fit(Learned.read(model))
    assert fits.scores.tolist() == [0.5, 0.7]
    assert np.isnan(fits.whole)
    assert score_fit(Learned.read(model_of(np.ones((2, 1))))) is None


def test_wrong_targets_are_named():
    X, y, task, _ = drawn_rows()
    learned = Learned.read(tuned_model())
    with pytest.raises(ValueError, match="one target per prediction"):
        score_rows(learned, X, y[:-1], task)
    label = np.where(y > 0, "yes", "no").astype(object)
    model = MultiTaskClassifier(5.0).fit(X, label, task=task)
    label[3] = "perhaps"
    with pytest.raises(ValueError, match="'perhaps'"):
        score_rows(Learned.read(model), X, label, task)
