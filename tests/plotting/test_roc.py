"""ROC curves of a model: rates of its scores, their areas its AUC."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from priormtl import MultiTaskClassifier
from priormtl.metrics import auc
from priormtl.plotting import new_figure, plot_roc


def tasks(m, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m * n, 3)).round(1)
    task = np.repeat([f"t{i}" for i in range(m)], n)
    y = np.where(X[:, 0] + rng.normal(size=m * n) > 0, "yes", "no")
    return X, y, task


def fit(m):
    X, y, task = tasks(m)
    return MultiTaskClassifier(20.0).fit(X, y, task=task)


def test_few_curves_are_those_of_scikit_learn():
    X, y, task = tasks(3, seed=1)
    model = fit(3)
    ax = plot_roc(model, X, y, task=task)
    scores = model.decision_function(X, task=task)
    named = [line for line in ax.lines if line.get_label().startswith("t")]
    assert len(named) == 3
    for line, label in zip(named, model.tasks_, strict=True):
        rows = task == label
        rates = roc_curve(y[rows] == "yes", scores[rows], drop_intermediate=False)[:2]
        assert np.allclose(line.get_xydata().T, rates)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_areas_are_said(m):
    X, y, task = tasks(m, seed=1)
    model = fit(m)
    scores = model.decision_function(X, task=task)
    values = auc((y == "yes") * 2 - 1, scores, task=task, average=None)
    ax = plot_roc(model, X, y, task=task)
    s = "" if m == 1 else "s"
    assert ax.get_title() == f"{m} task{s}, mean AUC {100 * values.mean():.1f} %"
    if m == 3:
        shown = [text.get_text() for text in ax.get_legend().texts]
        assert shown == [f"t{i}: {100 * values[i]:.1f} %" for i in range(3)]


def test_many_curves_rise_to_their_mean():
    X, y, task = tasks(8, seed=1)
    ax = plot_roc(fit(8), X, y, task=task)
    thin = [line.get_ydata() for line in ax.lines[:8]]
    (mean,) = [line for line in ax.lines if line.get_label() == "mean"]
    assert np.allclose(mean.get_ydata(), np.mean(thin, axis=0))
    for curve in thin:
        assert (curve[0], curve[-1]) == (0.0, 1.0)
        assert (np.diff(curve) >= 0).all()


def test_tasks_of_one_class_have_no_curve_and_are_counted():
    X, y, task = tasks(3)
    y = np.where(task == "t1", "no", y)
    ax = plot_roc(fit(3), X, y, task=task)
    assert ax.get_title().endswith("; 1 of one class")
    assert ax.get_title().startswith("2 tasks")
    ax = plot_roc(fit(3), X, np.full(len(y), "no"), task=task)
    assert [text.get_text() for text in ax.texts] == ["every task shows one class only"]


def test_steep_curves_are_enlarged():
    X, _, task = tasks(2, n=60)
    y = X[:, 0] > 0
    model = MultiTaskClassifier().fit(X, y, task=task)
    (corner,) = plot_roc(model, X, y, task=task).child_axes
    assert corner.get_xlim()[1] == pytest.approx(0.2)
    assert len(corner.lines) == 2
    X, y, task = tasks(2)
    assert not plot_roc(fit(2), X, y, task=task).child_axes


def test_given_axes_come_back():
    X, y, task = tasks(2)
    _, axes = new_figure(1, 1)
    assert plot_roc(fit(2), X, y, task=task, ax=axes[0, 0], legend=False) is axes[0, 0]
    assert axes[0, 0].get_legend() is None
