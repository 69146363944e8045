"""ROC curves: tasks, mean, band, corner."""

import numpy as np
import pytest

from priormtl.plotting import new_figure, plot_roc_curves

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


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    assert plot_roc_curves(FPR, TPR, ax=axes[0, 0], legend=False) is axes[0, 0]
    assert axes[0, 0].get_legend() is None


def test_rates_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match=r"^fpr must be numbers \(k,\): got str"):
        plot_roc_curves("abc", np.ones((1, 3)))
    with pytest.raises(ValueError, match="a column for each rate of fpr: got 2 for 3"):
        plot_roc_curves(np.linspace(0.0, 1.0, 3), np.ones((4, 2)))
