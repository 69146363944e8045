"""Coefficients: read from a model, as a heat map, and over the tasks."""

import numpy as np
import pytest

from priormtl import MultiTaskClassifier, TaskPrior
from priormtl.data import pooled_scale
from priormtl.plotting import plot_coefficients, plot_over_tasks
from priormtl.plotting.coefficients import find_places, rank_rows, read_model
from shown_models import (
    AWKWARD_NAMES,
    fitted_model,
    random_effects,
    related_tasks,
    with_coef,
)

# Learned.


def test_coefficients_are_the_models():
    model = fitted_model()
    assert np.array_equal(read_model(model).P, model.coef_.T)


def test_deviations_take_the_unit_of_features_away():
    X, y, task = related_tasks()
    scale = np.array([1.0, 10.0, 0.1, 1.0, 1.0, 5.0])
    model = fitted_model(standardize=True)
    rescaled = type(model)(**model.get_params()).fit(X * scale, y, task=task)
    one, other = read_model(model, "deviation"), read_model(rescaled, "deviation")
    assert np.allclose(one.P, other.P, atol=1e-4)
    assert np.allclose(one.P.T, model.coef_ * pooled_scale(model.statistics_))


def test_the_task_prior_of_a_search_is_the_chosen_one():
    assert read_model(with_coef(random_effects(2, 2), task_prior="chain")).ordered
    assert not read_model(with_coef(random_effects(2, 2), task_prior="mean")).ordered


def test_rows_are_ranked_by_size_and_zeros_left_out():
    P = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -3.0], [1.0, 0.0]])
    assert rank_rows(P).tolist() == [2, 1, 3]


def test_tasks_stand_as_their_chain_has_them():
    model = with_coef(random_effects(3, 2), tasks=["a", "b", "c"])
    assert read_model(model).order.tolist() == [0, 1, 2]
    assert not read_model(model).ordered
    chain = TaskPrior.chain(order=["c", "a", "b"])
    model = with_coef(random_effects(3, 2), tasks=["a", "b", "c"], task_prior=chain)
    assert read_model(model).order.tolist() == [2, 0, 1]
    assert read_model(model).ordered


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({}, "target"),
        ({"classes": np.array([[0, 1]]), "loss": "logistic"}, "log-odds"),
        ({"classes": np.array([[0, 1]]), "loss": "squared"}, "score"),
    ],
)
def test_the_unit_is_what_a_coefficient_changes(attributes, outcome):
    unit = read_model(with_coef([[1.0]], **attributes)).unit
    assert unit == f"{outcome} per unit of the feature"


def test_unnamed_features_are_numbered_and_vectors_are_one_task():
    learned = read_model(with_coef([[1.0, 2.0]]))
    assert learned.features == ("x0", "x1")
    learned = read_model(type("Plain", (), {"coef_": np.ones(3)})())
    assert (learned.P.shape, learned.tasks) == ((3, 1), (0,))


def test_names_win_over_positions():
    known = ("b", "a", 0)
    assert find_places("feature", ["a", 0, 1], known).tolist() == [1, 2, 1]
    assert find_places("feature", "a", known).tolist() == [1]
    assert find_places("feature", np.array([1]), known).tolist() == [1]


@pytest.mark.parametrize("wanted", [["heigth"], [7], [-1]])
def test_unknown_names_are_refused(wanted):
    with pytest.raises(ValueError, match="unknown feature"):
        find_places("feature", wanted, ("height", "age"))


def test_integer_task_labels_are_no_positions():
    with pytest.raises(ValueError, match="unknown task 0"):
        read_model(with_coef([[1.0]], tasks=[5])).find_tasks([0])


def test_an_unfitted_model_is_refused():
    with pytest.raises(TypeError, match="must be a fitted linear model"):
        read_model(MultiTaskClassifier())


def test_what_is_not_known_is_not_guessed():
    with pytest.raises(ValueError, match='="deviation" needs a model with statis'):
        read_model(with_coef([[1.0]]), "deviation")
    with pytest.raises(ValueError, match='per must be "unit" or "deviation"'):
        read_model(with_coef([[1.0]]), "sd")
    with pytest.raises(ValueError, match="Did you mean 'deviation'"):
        read_model(with_coef([[1.0]]), "deviations")


# Coefficients.


def cells(ax):
    (image,) = ax.images
    return np.asarray(image.get_array())


def words(labels):
    return [label.get_text() for label in labels]


def test_the_map_is_coef_with_the_strongest_first():
    model = fitted_model()
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
    coef = random_effects(200, 400)
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
    ax = plot_coefficients(with_coef(random_effects(*shape)))
    ax.figure.draw_without_rendering()
    assert cells(ax).shape == shape[::-1]


def test_nothing_learned_is_said():
    ax = plot_coefficients(with_coef(np.zeros((2, 3))))
    assert words(ax.texts) == ["no feature is selected (of 3)"]


def test_zeros_that_are_asked_for_are_drawn():
    ax = plot_coefficients(with_coef(np.zeros((2, 3))), features=[0])
    assert ax.images[0].get_clim() == (-1.0, 1.0)


def test_awkward_names_are_drawn():
    ax = plot_coefficients(
        with_coef(random_effects(5, 5), AWKWARD_NAMES, AWKWARD_NAMES)
    )
    ax.figure.draw_without_rendering()
    assert len(ax.get_yticklabels()) == 5


# Over tasks.


def lines(ax):
    return {line.get_label(): line for line in ax.lines if line.get_label()[0] != "_"}


def ends_of(band):
    vertices = np.concatenate([path.vertices for path in band.get_paths()])
    places = np.unique(vertices[:, 0])
    heights = [vertices[vertices[:, 0] == place, 1] for place in places]
    return [(h.min(), h.max()) for h in heights]


def test_lines_are_the_coefficients():
    model = fitted_model()
    drawn = lines(plot_over_tasks(model, [2, 5]))
    for j in (2, 5):
        assert np.array_equal(drawn[f"x{j}"].get_ydata(), model.coef_[:, j])


def test_the_strongest_four_are_shown():
    coef = np.ones((3, 6)) * [1, 6, 5, 0, 4, 3]
    assert list(lines(plot_over_tasks(with_coef(coef)))) == [
        f"x{j}" for j in (1, 2, 4, 5)
    ]


@pytest.mark.parametrize("task_prior", ["chain", "mean"])
@pytest.mark.parametrize("m", [1, 4])
def test_bands_are_their_ends(task_prior, m):
    coef = random_effects(m, 2)
    band = coef - 0.5, coef + 1.0
    ax = plot_over_tasks(with_coef(coef, task_prior=task_prior), [1], band=band)
    (drawn,) = ax.collections
    expected = [(low, low + 1.5) for low in coef[:, 1] - 0.5]
    assert np.allclose(ends_of(drawn), expected)


def test_bands_have_the_unit_of_the_lines():
    model = fitted_model(standardize=True)
    band = model.coef_ - 1.0, model.coef_ + 1.0
    ax = plot_over_tasks(model, [0], band=band, per="deviation")
    wide = np.diff(ends_of(ax.collections[0]), axis=1)
    assert np.allclose(wide, 2.0 * pooled_scale(model.statistics_)[0])
    assert ax.get_title() == "1 of 6 features"


def test_only_ordered_tasks_are_joined():
    coef = random_effects(3, 1)
    for prior, style in (("chain", "-"), ("mean", "None"), (None, "None")):
        ax = plot_over_tasks(with_coef(coef, task_prior=prior))
        assert lines(ax)["x0"].get_linestyle() == style
    ax = plot_over_tasks(with_coef(coef), tasks=[2, 0])
    line = lines(ax)["x0"]
    assert line.get_linestyle() == "-"
    assert line.get_ydata().tolist() == coef[[2, 0], 0].tolist()


def test_tasks_follow_their_chain():
    prior = TaskPrior.chain(order=["u", "t"])
    ax = plot_over_tasks(with_coef([[1.0], [2.0]], None, ["t", "u"], task_prior=prior))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["u", "t"]
    assert lines(ax)["x0"].get_ydata().tolist() == [2.0, 1.0]


def test_nothing_learned_is_said_over_tasks():
    ax = plot_over_tasks(with_coef(np.zeros((2, 3))))
    assert [text.get_text() for text in ax.texts] == ["no feature is selected (of 3)"]


def test_a_band_of_another_shape_is_refused():
    coef = random_effects(3, 2)
    with pytest.raises(ValueError, match=r"shape \(3, 2\), as coef_: got \(2, 3\)"):
        plot_over_tasks(with_coef(coef), band=(coef.T, coef.T))
