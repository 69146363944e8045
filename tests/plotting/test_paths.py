"""Lines of a path are its coefficients, or their norms over the tasks."""

from dataclasses import replace

import numpy as np
import pytest

from plotted_models import related
from priormtl import MultiTaskRegressor, regularization_path
from priormtl.plotting import new_figure, plot_path

X, Y, TASK = related()
PATH = regularization_path(X, Y, task=TASK, lams=6)


def drawn(ax):
    return np.stack([line.get_ydata() for line in ax.lines], axis=1)


def sorted_columns(values):
    return values[:, np.lexsort(values)]


def test_lines_are_norms_over_the_tasks():
    norms = np.linalg.norm(PATH.coefs, axis=1)
    ax = plot_path(PATH, top=2)
    assert np.array_equal(sorted_columns(drawn(ax)), sorted_columns(norms))
    assert all(np.array_equal(line.get_xdata(), PATH.lams) for line in ax.lines)


def test_lines_of_one_task_are_its_coefficients():
    ax = plot_path(PATH, task=PATH.tasks[1])
    expected = PATH.coefs[:, 1]
    assert np.array_equal(sorted_columns(drawn(ax)), sorted_columns(expected))
    assert ax.get_ylabel() == "Coefficient"


def test_a_single_task_keeps_its_signs():
    rows = np.isin(TASK, TASK[0])
    path = regularization_path(X[rows], Y[rows], lams=4)
    values = drawn(plot_path(path))
    assert np.array_equal(sorted_columns(values), sorted_columns(path.coefs[:, 0]))


def test_the_strongest_are_named_and_others_counted():
    names = tuple("abcdef")
    ax = plot_path(replace(PATH, features=names), top=2)
    shown = [text.get_text() for text in ax.get_legend().texts]
    size = np.linalg.norm(PATH.coefs, axis=1).max(axis=0)
    best = [names[j] for j in np.argsort(-size)[:2]]
    assert shown == ["4 other features", *best]


def test_features_can_be_chosen():
    ax = plot_path(PATH, features=[3])
    assert ax.lines[-1].get_label() == "x3"
    assert np.array_equal(
        ax.lines[-1].get_ydata(), np.linalg.norm(PATH.coefs[:, :, 3], axis=1)
    )


def test_lam_falls_to_the_right_on_a_logarithm():
    ax = plot_path(PATH)
    assert ax.get_xscale() == "log"
    assert ax.get_xlim()[0] > ax.get_xlim()[1]


def test_lam_zero_has_a_place():
    path = regularization_path(X, Y, task=TASK, lams=[10.0, 1.0, 0.0])
    ax = plot_path(path)
    ax.figure.draw_without_rendering()
    assert ax.get_xscale() == "symlog"
    assert np.array_equal(ax.lines[0].get_xdata(), [10.0, 1.0, 0.0])


@pytest.mark.parametrize("lams", [[1e9], [0.0]])
def test_a_path_of_one_point_is_drawn(lams):
    ax = plot_path(regularization_path(X, Y, task=TASK, lams=lams))
    ax.figure.draw_without_rendering()
    assert len(ax.lines) == 6


def test_names_come_from_the_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    assert regularization_path(frame, Y, task=TASK, lams=2).features == tuple("abcdef")
    assert PATH.features is None


def test_models_are_no_paths():
    with pytest.raises(TypeError, match=r"^path must be what regularization_path\("):
        plot_path(MultiTaskRegressor())


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="unknown task 'x'"):
        plot_path(PATH, task="x")


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    assert plot_path(PATH, ax=axes[0, 0], legend=False) is axes[0, 0]
    assert axes[0, 0].get_legend() is None
