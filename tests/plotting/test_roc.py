"""ROC curves: rates of a model's scores, areas, mean, band and corner."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from priormtl import MultiTaskClassifier
from priormtl.metrics import auc
from priormtl.plotting import plot_roc, plot_roc_curves

# Roc.


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
    assert ax.get_title().endswith("; 1 with one class")
    assert ax.get_title().startswith("2 tasks")
    ax = plot_roc(fit(3), X, np.full(len(y), "no"), task=task)
    assert [text.get_text() for text in ax.texts] == ["every task has only one class"]


def test_steep_curves_are_enlarged():
    X, _, task = tasks(2, n=60)
    y = X[:, 0] > 0
    model = MultiTaskClassifier().fit(X, y, task=task)
    (corner,) = plot_roc(model, X, y, task=task).child_axes
    assert corner.get_xlim()[1] == pytest.approx(0.2)
    assert len(corner.lines) == 2
    X, y, task = tasks(2)
    assert not plot_roc(fit(2), X, y, task=task).child_axes


# Roc curves.


FPR = np.linspace(0, 1, 11)
TPR = np.stack([FPR**0.1, FPR**0.2, FPR**0.6])


def test_every_task_and_the_mean_are_drawn():
    ax = plot_roc_curves(FPR, TPR)
    drawn = [line.get_ydata() for line in ax.lines]
    for tpr in (*TPR, TPR.mean(axis=0)):
        assert any(np.array_equal(tpr, line) for line in drawn)
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    assert mean.get_color() == "#000000"
    assert mean.get_linewidth() > max(line.get_linewidth() for line in ax.lines[:3])


def test_the_band_is_one_deviation_inside_the_frame():
    (band,) = plot_roc_curves(FPR, TPR).collections
    ends = band.get_paths()[0].vertices[:, 1]
    mean, sd = TPR.mean(axis=0), TPR.std(axis=0)
    assert ends.max() == pytest.approx(min(1.0, (mean + sd).max()))
    assert ends.min() >= 0


def test_names_come_once():
    legend = plot_roc_curves(FPR, TPR).get_legend()
    names = [text.get_text() for text in legend.texts]
    assert names == ["each task", "±1 sd of tasks", "mean"]


def test_the_corner_replaces_the_diagonal():
    plain, zoomed = plot_roc_curves(FPR, TPR), plot_roc_curves(FPR, TPR, zoom=0.2)
    assert len(plain.lines) == len(zoomed.lines) + 1
    (corner,) = zoomed.child_axes
    assert corner.get_xlim()[1] == pytest.approx(0.2)
    assert corner.get_ylim()[0] == pytest.approx(0.8)


def test_rates_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match=r"^fpr must be numbers \(k,\): got str"):
        plot_roc_curves("abc", np.ones((1, 3)))
    with pytest.raises(ValueError, match="a column for each rate of fpr: got 2 for 3"):
        plot_roc_curves(np.linspace(0.0, 1.0, 3), np.ones((4, 2)))
