"""Lines are coefficients along the tasks, bands their ends."""

from types import SimpleNamespace

import numpy as np
import pytest

from plotted_models import fitted, random_coef, with_coef
from priormtl import TaskPrior
from priormtl.data import pooled_scale
from priormtl.plotting import new_figure, plot_over_tasks


def lines(ax):
    return {line.get_label(): line for line in ax.lines if line.get_label()[0] != "_"}


def ends_of(band):
    vertices = np.concatenate([path.vertices for path in band.get_paths()])
    places = np.unique(vertices[:, 0])
    heights = [vertices[vertices[:, 0] == place, 1] for place in places]
    return [(h.min(), h.max()) for h in heights]


def test_lines_are_the_coefficients():
    model = fitted()
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
    coef = random_coef(m, 2)
    band = coef - 0.5, coef + 1.0
    ax = plot_over_tasks(with_coef(coef, task_prior=task_prior), [1], band=band)
    (drawn,) = ax.collections
    expected = [(low, low + 1.5) for low in coef[:, 1] - 0.5]
    assert np.allclose(ends_of(drawn), expected)


def test_bands_have_the_unit_of_the_lines():
    model = fitted(standardize=True)
    band = SimpleNamespace(low=model.coef_ - 1.0, high=model.coef_ + 1.0, level=0.9)
    ax = plot_over_tasks(model, [0], band=band, per="deviation")
    wide = np.diff(ends_of(ax.collections[0]), axis=1)
    assert np.allclose(wide, 2.0 * pooled_scale(model.statistics_)[0])
    assert ax.get_title() == "1 of 6 features, with 90 % bands"


def test_only_ordered_tasks_are_joined():
    coef = random_coef(3, 1)
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


def test_nothing_learned_is_said():
    ax = plot_over_tasks(with_coef(np.zeros((2, 3))))
    assert [text.get_text() for text in ax.texts] == ["no feature is selected (of 3)"]


def test_a_band_of_another_shape_is_refused():
    coef = random_coef(3, 2)
    with pytest.raises(ValueError, match=r"shape \(3, 2\), as coef_: got \(2, 3\)"):
        plot_over_tasks(with_coef(coef), band=(coef.T, coef.T))


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    ax = plot_over_tasks(fitted(), ax=axes[0, 0], legend=False)
    assert ax is axes[0, 0]
    assert ax.get_legend() is None
