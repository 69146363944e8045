"""The heat map is coef_, ordered, under its names."""

import numpy as np
import pytest

from plotted_models import AWKWARD, fitted, random_coef, with_coef
from priormtl import TaskPrior
from priormtl.plotting import new_figure, plot_coefficients


def cells(ax):
    (image,) = ax.images
    return np.asarray(image.get_array())


def words(labels):
    return [label.get_text() for label in labels]


def test_the_map_is_coef_with_the_strongest_first():
    model = fitted()
    order = np.argsort(-np.linalg.norm(model.coef_, axis=0))
    assert np.array_equal(cells(plot_coefficients(model)), model.coef_.T[order])


def test_names_stand_at_their_cells():
    coef = [[1.0, 0.0, -4.0], [2.0, 0.0, 1.0]]
    ax = plot_coefficients(with_coef(coef, ["a", "b", "c"], ["t", "u"]))
    assert cells(ax).tolist() == [[-4.0, 1.0], [1.0, 2.0]]
    assert words(ax.get_yticklabels()) == ["c", "a"]
    assert words(ax.get_xticklabels()) == ["t", "u"]
    assert ax.get_title() == "2 of 3 features selected"


def test_colours_are_centred_at_zero_and_explained():
    ax = plot_coefficients(with_coef([[1.0, -4.0]]))
    assert ax.images[0].get_clim() == (-4.0, 4.0)
    bar = ax.figure.axes[1]
    words = " ".join(bar.get_ylabel().split())
    assert words == "Coefficient: target per unit of the feature"


@pytest.mark.parametrize(
    ("top", "n_rows", "title"),
    [
        (30, 30, "Strongest 30 of 399 features with a coefficient, 400 in all"),
        (None, 399, "399 of 400 features selected"),
        (1, 1, "Strongest 1 of 399 features with a coefficient, 400 in all"),
    ],
)
def test_the_top_of_many_is_said(top, n_rows, title):
    coef = random_coef(200, 400)
    coef[:, 7] = 0.0
    ax = plot_coefficients(with_coef(coef), top=top)
    assert (len(cells(ax)), ax.get_title()) == (n_rows, title)
    assert len(ax.get_xticks()) < 60
    assert ax.get_xlabel() == "Task (200)"


def test_features_and_tasks_can_be_chosen():
    coef = np.arange(6.0).reshape(2, 3)
    model = with_coef(coef, ["a", "b", "c"], ["t", "u"])
    ax = plot_coefficients(model, features=["c", 0], tasks=["u"])
    assert cells(ax).tolist() == [[5.0], [3.0]]
    assert ax.get_title() == "2 of 3 features"


def test_columns_follow_the_chain():
    prior = TaskPrior.chain(order=["u", "t"])
    ax = plot_coefficients(
        with_coef([[1.0], [2.0]], None, ["t", "u"], task_prior=prior)
    )
    assert cells(ax).tolist() == [[2.0, 1.0]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_one_of_a_kind_is_drawn(shape):
    ax = plot_coefficients(with_coef(random_coef(*shape)))
    ax.figure.draw_without_rendering()
    assert cells(ax).shape == shape[::-1]


def test_nothing_learned_is_said():
    ax = plot_coefficients(with_coef(np.zeros((2, 3))))
    assert words(ax.texts) == ["no feature is selected (of 3)"]


def test_zeros_that_are_asked_for_are_drawn():
    ax = plot_coefficients(with_coef(np.zeros((2, 3))), features=[0])
    assert ax.images[0].get_clim() == (-1.0, 1.0)


def test_awkward_names_are_drawn():
    ax = plot_coefficients(with_coef(random_coef(5, 5), AWKWARD, AWKWARD))
    ax.figure.draw_without_rendering()
    assert len(ax.get_yticklabels()) == 5


def test_given_axes_come_back_without_a_scale():
    figure, axes = new_figure(1, 2)
    ax = plot_coefficients(fitted(), ax=axes[0, 1], legend=False)
    assert ax is axes[0, 1]
    assert len(figure.axes) == 2
