"""The surface is cv_results_, sliced at what was chosen."""

from functools import cache

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from plotted_models import related
from priormtl import FeaturePrior, MultiTaskRegressor, MultiTaskRegressorCV
from priormtl.plotting import new_figure, plot_search

X, Y, TASK = related()


@cache
def searched(n_lams=3, thetas=(0.1, 10.0), epsilons=(1.0, 10.0)):
    prior = FeaturePrior.similar([(0, 1)])
    model = MultiTaskRegressorCV(
        lams=n_lams, thetas=thetas, epsilons=epsilons, cv=3, feature_prior=prior
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


def test_given_axes_come_back_without_a_scale():
    figure, axes = new_figure(1, 1)
    assert plot_search(searched(), ax=axes[0, 0], legend=False) is axes[0, 0]
    assert len(figure.axes) == 1
