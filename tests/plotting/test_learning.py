"""Learning curves: means of repeats and their standard errors."""

import numpy as np
import pytest
from scipy.stats import sem
from sklearn.model_selection import KFold, learning_curve

from plotted_models import related
from priormtl import MultiTaskRegressor
from priormtl.plotting import new_figure, plot_learning_curve

SIZES = [5, 20, 80]
SCORES = np.random.default_rng(0).normal(size=(3, 6))


def test_lines_are_means_and_bands_standard_errors():
    ax = plot_learning_curve(SIZES, SCORES)
    (line,), (band,) = ax.lines, ax.collections
    assert np.array_equal(line.get_xdata(), SIZES)
    assert np.allclose(line.get_ydata(), SCORES.mean(axis=1))
    vertices = band.get_paths()[0].vertices
    for size, scores in zip(SIZES, SCORES, strict=True):
        ends = vertices[vertices[:, 0] == size, 1]
        expected = scores.mean() + sem(scores) * np.array([-1, 1])
        assert np.allclose([ends.min(), ends.max()], expected)


def test_models_are_named():
    ax = plot_learning_curve(SIZES, {"no prior": SCORES, "_prior": SCORES + 1.0})
    assert len(ax.get_legend().texts) == 2
    assert plot_learning_curve(SIZES, SCORES).get_legend() is None


def test_missing_scores_are_left_out():
    scores = SCORES.copy()
    scores[0] = np.nan
    scores[1, 2] = np.nan
    (line,) = plot_learning_curve(SIZES, scores).lines
    assert np.array_equal(line.get_xdata(), SIZES[1:])
    assert line.get_ydata()[0] == pytest.approx(np.nanmean(scores[1]))


@pytest.mark.parametrize("scores", [SCORES[:, 0], SCORES[:, :1]])
def test_one_repeat_has_no_band(scores):
    ax = plot_learning_curve(SIZES, scores)
    vertices = ax.collections[0].get_paths()[0].vertices
    assert set(vertices[:, 1].tolist()) == set(SCORES[:, 0].tolist())


def test_the_curve_of_scikit_learn_is_taken():
    X, y, task = related()
    rows = np.column_stack([X, np.unique(task, return_inverse=True)[1]])
    sizes, _, scores = learning_curve(
        MultiTaskRegressor(task=6, tol=1e-3),
        rows,
        y,
        train_sizes=[0.5, 1.0],
        cv=KFold(3, shuffle=True, random_state=0),
        shuffle=True,
        random_state=0,
    )
    ax = plot_learning_curve(sizes, scores, score="R²", size="Rows")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Rows", "R²")
    assert np.allclose(ax.lines[0].get_ydata(), scores.mean(axis=1))


def test_scores_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match=r"got shape \(3, 6\) for 2 sizes"):
        plot_learning_curve(SIZES[:2], SCORES)


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    assert plot_learning_curve(SIZES, SCORES, ax=axes[0, 0]) is axes[0, 0]


def test_other_than_numbers_are_refused():
    with pytest.raises(TypeError, match=r"^sizes must be numbers \(k,\): got str"):
        plot_learning_curve("abc", SCORES)
    with pytest.raises(TypeError, match=r"^scores must be numbers \(k, r\): got str"):
        plot_learning_curve(SIZES, "abc")
