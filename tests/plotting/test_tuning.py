"""Paths, searches and surfaces show what was computed, at its place."""

from dataclasses import replace
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    regularization_path,
)
from priormtl.plotting import new_figure, plot_path, plot_search, plot_surface
from shown_models import lightness, related_tasks

# Paths.


X, Y, TASK = related_tasks()
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
    with pytest.raises(
        TypeError, match=r"^path must be the result of regularization_path\("
    ):
        plot_path(MultiTaskRegressor())


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="unknown task 'x'"):
        plot_path(PATH, task="x")


# Search.


@cache
def searched(n_lams=3, thetas=(0.1, 10.0), epsilons=(1.0, 10.0)):
    prior = FeaturePrior.similar([(0, 1)])
    model = MultiTaskRegressorCV(
        lams=n_lams,
        thetas=thetas,
        epsilons=epsilons,
        cv=3,
        feature_prior=prior,
        **PAPER,
    )
    return model.fit(X, Y, task=TASK)


def cells(ax):
    return np.asarray(ax.images[0].get_array())


def score_at(model, **strengths):
    results = model.cv_results_
    (place,) = [
        k
        for k, part in enumerate(results["params"])
        if all(np.isclose(part[name], value) for name, value in strengths.items())
    ]
    return results["mean_test_score"][place]


@pytest.mark.parametrize(
    ("x", "y"), [("lam", "theta"), ("theta", "epsilon"), ("epsilon", "lam")]
)
def test_cells_are_mean_scores_at_the_chosen_rest(x, y):
    model = searched()
    found = cells(plot_search(model, x=x, y=y))
    grid = {
        name: np.unique(model.cv_results_[f"param_{name}"].data)
        for name in ("lam", "theta", "epsilon")
    }
    (rest,) = set(grid) - {x, y}
    at = getattr(model, f"{rest}_")
    expected = [
        [score_at(model, **{x: a, y: b, rest: at}) for a in grid[x]] for b in grid[y]
    ]
    assert np.array_equal(found, expected)


def test_the_chosen_candidate_is_framed():
    model = searched()
    ax = plot_search(model)
    frames = {patch.get_xy() for patch in ax.patches}
    assert len(frames) == 1
    column, row = (round(corner + 0.5) for corner in frames.pop())
    assert cells(ax)[row, column] == model.best_score_
    assert ax.get_title() == f"epsilon = {model.epsilon_:.3g}"


def test_numbers_are_written_where_they_have_room():
    few, many = plot_search(searched()), plot_search(searched(n_lams=12))
    assert len(few.texts) == cells(few).size
    assert not many.texts


def test_one_parameter_is_a_line_with_errors():
    model = searched(thetas=(1.0,), epsilons=(1.0,))
    ax = plot_search(model)
    line = ax.lines[0]
    order = np.argsort(model.cv_results_["param_lam"].data)
    mean = model.cv_results_["mean_test_score"][order]
    assert np.array_equal(line.get_ydata(), mean)
    assert np.array_equal(line.get_xdata(), model.cv_results_["param_lam"].data[order])
    (bars,) = ax.collections
    length = [np.ptp(path.vertices[:, 1]) for path in bars.get_paths()]
    splits = np.stack([model.cv_results_[f"split{k}_test_score"] for k in range(3)])
    error = splits.std(axis=0, ddof=1)[order] / np.sqrt(3)
    assert np.allclose(length, 2 * error)
    assert ax.lines[-1].get_xdata()[0] == model.lam_


def test_a_single_candidate_is_drawn():
    ax = plot_search(searched(1, (1.0,), (1.0,)))
    ax.figure.draw_without_rendering()
    assert len(ax.lines[0].get_xdata()) == 1


def test_results_alone_suffice():
    model = searched()
    assert np.array_equal(
        cells(plot_search(model.cv_results_)), cells(plot_search(model))
    )


def test_searches_of_scikit_learn_are_shown_too():
    rows = np.column_stack([X, np.unique(TASK, return_inverse=True)[1]])
    grid = {"lam": [1.0, 10.0], "solver": ["auto", "fista"], "theta": [0.0]}
    folds = KFold(3, shuffle=True, random_state=0)
    model = GridSearchCV(MultiTaskRegressor(task=6), grid, cv=folds).fit(rows, Y)
    ax = plot_search(model)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["auto", "fista"]
    assert np.allclose(cells(ax)[0], cells(ax)[1], rtol=1e-3)
    line = plot_search(model, x="theta", y="theta")
    assert line.get_xlabel() == "theta"


def test_combinations_that_were_not_tried_are_empty():
    params = [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 2.0}, {"a": 1.0, "b": 2.0}]
    scores = {"mean_test_score": [0.1, 0.4, np.nan], "std_test_score": [0.0] * 3}
    ax = plot_search({"params": params, **scores})
    found = np.ma.masked_invalid(ax.images[0].get_array()).filled(np.nan)
    assert np.isnan(found).tolist() == [[False, True], [True, False]]


def test_unknown_parameters_are_refused():
    with pytest.raises(ValueError, match="unknown parameter 'lamb'"):
        plot_search(searched(), x="lamb")


def test_what_was_not_searched_is_refused():
    with pytest.raises(TypeError, match="must be a fitted search"):
        plot_search(MultiTaskRegressorCV())


def test_of_several_structures_the_chosen_one_is_shown():
    model = MultiTaskRegressorCV(lams=3, epsilons=[1.0, 10.0], cv=3)
    model.fit(X, Y, task=TASK)
    params, best = model.cv_results_["params"], model.best_index_
    same = [
        k
        for k, part in enumerate(params)
        if all(part[name] == value for name, value in model.structure_.items())
        and part["theta"] == params[best]["theta"]
    ]
    assert len(same) < len(params)
    shown = np.array(cells(plot_search(model, x="lam", y="epsilon")))
    scores = model.cv_results_["mean_test_score"][same]
    np.testing.assert_allclose(np.sort(shown.ravel()), np.sort(scores))


# Surfaces.


LAMS, THETAS = np.array([1.0, 10.0, 100.0]), np.array([1.0, 100.0])
VALUES = np.array([[90.0, 95.0, np.nan], [91.0, 92.0, 93.5]])


def draw(**options):
    return plot_surface(LAMS, THETAS, VALUES, labels=("lam", "theta"), **options)


def test_every_value_is_written_where_it_belongs():
    found = {text.get_position(): text.get_text() for text in draw().texts}
    assert found[1, 0] == "95.0"
    assert found[2, 1] == "93.5"
    assert found[2, 0] == ""


def test_strengths_and_their_names_are_on_the_axes():
    ax = draw()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10", "100"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "100"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lam", "theta")


def test_text_stands_out_from_its_cell():
    ax = draw()
    (image,) = ax.images
    for text in ax.texts:
        column, row = text.get_position()
        if not np.isnan(VALUES[row, column]):
            cell = image.to_rgba(VALUES[row, column])
            ink = mpl.colors.to_rgba(text.get_color())
            assert abs(np.diff(lightness([cell, ink]))) > 30


@pytest.mark.parametrize(("limits", "ends"), [(None, (90, 95)), ((80, 99), (80, 99))])
def test_colours_span_the_values_or_the_limits(limits, ends):
    (image,) = draw(limits=limits).images
    assert image.get_clim() == ends


def test_given_axes_come_back_surfaces():
    _, axes = new_figure(1, 1)
    assert draw(ax=axes[0, 0], decimals=2) is axes[0, 0]
    assert axes[0, 0].texts[0].get_text() == "90.00"


def test_values_need_not_be_written():
    assert not draw(decimals=None).texts


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"per x, \(2, 3\): got shape \(3, 2\)"):
        plot_surface(np.ones(3), np.ones(2), np.ones((3, 2)), labels=("a", "b"))
    with pytest.raises(TypeError, match=r"^values must be numbers \(b, a\): got str"):
        plot_surface(np.ones(3), np.ones(2), "abc", labels=("a", "b"))
