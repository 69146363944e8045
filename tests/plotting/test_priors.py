"""The prior's graph: one line per relation, darker the more data disagree."""

from types import SimpleNamespace

import numpy as np
import pytest

from plotted_models import AWKWARD, fitted, lightness, random_coef, with_coef
from priormtl import FeaturePrior, TaskPrior
from priormtl.plotting import new_figure, plot_prior
from priormtl.plotting.relations import read_fitted


def row(first, second, before=0.5, verdict="agrees", kind="feature"):
    names = {"kind": kind, "relation": "", "first": first, "second": second}
    found = {"violation_before": before, "verdict": verdict}
    return SimpleNamespace(**names, **found, sign="similar", weight=1.0)


def lines(ax):
    return ax.collections[0]


def names(ax):
    return {text.get_text() for text in ax.texts}


def test_every_relation_is_a_line_between_its_ends():
    ax = plot_prior(fitted())
    assert len(lines(ax).get_segments()) == 3
    at = {text.get_text(): text.xy for text in ax.texts}
    joined = {
        frozenset(name for name, xy in at.items() if np.allclose(xy, end))
        | frozenset(name for name, xy in at.items() if np.allclose(xy, begin))
        for begin, end in lines(ax).get_segments()
    }
    pairs = [(0, 1), (1, 2), (3, 4)]
    assert joined == {frozenset(f"x{j}" for j in pair) for pair in pairs}


def test_colours_are_the_disagreement_and_darken_with_it():
    ax = plot_prior(fitted())
    found = np.asarray(lines(ax).get_array())
    expected = [link.disagreement for link in read_fitted(fitted())]
    assert found.tolist() == sorted(expected, reverse=True)
    ax.figure.draw_without_rendering()
    assert lines(ax).get_clim() == (0.0, 1.0)
    assert (np.diff(lightness(lines(ax).get_colors())) > 0).all()


def test_rows_of_many_features_are_stars():
    D = np.array([[1.0, 1.0, -2.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    model = with_coef(random_coef(2, 4), feature_prior_=FeaturePrior.from_matrix(D))
    ax = plot_prior(model)
    assert len(lines(ax).get_segments()) == 4
    assert ax.get_title() == "2 relations of 4 features"


def test_the_top_of_many_is_said():
    neighbours = FeaturePrior((FeaturePrior.grid(8, 8).parts[0].pairs(),))
    model = with_coef(random_coef(3, 64), feature_prior_=neighbours)
    ax = plot_prior(model, top=10)
    assert len(lines(ax).get_segments()) == 10
    assert ax.get_title().startswith("Top 10 of 112 relations, ")
    everything = [link.disagreement for link in read_fitted(model)]
    assert lines(ax).get_array().min() >= sorted(everything)[-10]


def test_names_of_a_crowd_are_limited_and_that_is_said():
    ax = plot_prior(FeaturePrior.grid(10, 10), top=None)
    assert len(ax.texts) == 80
    assert ax.get_title() == "180 relations of 100 features, 80 of them named"


def test_a_prior_alone_is_drawn_without_colours():
    prior = FeaturePrior.similar([("a", "b")]) + FeaturePrior.opposite([(3, "a")])
    ax = plot_prior(prior)
    assert lines(ax).get_array() is None
    assert names(ax) == {"a", "b", "x3"}
    assert len(ax.figure.axes) == 1
    explained = [text.get_text() for text in ax.get_legend().texts]
    assert explained == ["similar", "opposite"]
    assert len({str(style) for style in lines(ax).get_linestyle()}) == 2


def test_an_audit_colours_by_the_data_and_crosses_out():
    features = [row("a", "b", 0.2), row("b", "c", 0.9, "disagrees")]
    audit = SimpleNamespace(relations=[*features, row("t", "u", kind="task")])
    ax = plot_prior(fitted(), audit)
    assert lines(ax).get_array().tolist() == [0.9, 0.2]
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    middle = np.mean(lines(ax).get_segments()[0], axis=0)
    assert np.allclose([line.get_xydata()[0] for line in crosses], [middle])
    assert "data disagree" in [text.get_text() for text in ax.get_legend().texts]
    alone = plot_prior(audit, kind="task")
    assert names(alone) == {"t", "u"}
    assert alone.get_title() == "1 relation of 2 tasks"


def test_relations_in_words_are_no_features():
    words = row(None, None)
    words.sign, words.relation = "combination", "a + b ~ c"
    ax = plot_prior(SimpleNamespace(relations=[row("a", "b"), words]))
    assert names(ax) == {"a", "b", "a + b ~ c"}
    assert ax.get_title() == "2 relations of 2 features"


def test_heavier_relations_are_broader():
    prior = FeaturePrior.similar([(0, 1)]) + FeaturePrior.similar([(2, 3)], weight=9.0)
    heavy, light = lines(plot_prior(prior)).get_linewidths()
    assert heavy > light > 0


def test_no_relation_is_said():
    ax = plot_prior(with_coef([[1.0]], feature_prior_=None))
    assert names(ax) == {"the prior holds no relation"}


def test_awkward_names_are_drawn():
    pairs = [(AWKWARD[k], AWKWARD[k + 1]) for k in range(4)]
    ax = plot_prior(FeaturePrior.similar(pairs))
    ax.figure.draw_without_rendering()
    assert len(ax.texts) == 5


@pytest.mark.parametrize(
    ("prior", "ends"),
    [
        ("chain", {"a", "b", "c"}),
        ("mean", {"a", "b", "c", "mean of all tasks"}),
        (TaskPrior.from_graph([("a", "c", 2.0)]), {"a", "c"}),
        (None, {"the prior holds no relation"}),
    ],
    ids=["chain", "mean", "graph", "none"],
)
def test_ties_of_tasks_are_drawn_without_an_audit(prior, ends):
    model = with_coef(np.eye(3), tasks=["a", "b", "c"], task_prior=prior)
    ax = plot_prior(model, kind="task")
    assert names(ax) == ends
    if prior is not None:
        assert lines(ax).get_array() is None  # no colours: nothing was judged


def test_what_holds_no_relations_is_refused():
    with pytest.raises(TypeError, match=r"^source must be a fitted .*got TaskPrior"):
        plot_prior(TaskPrior.chain())
    with pytest.raises(TypeError, match=r"^source must be .*tasks: got FeaturePrior"):
        plot_prior(FeaturePrior.similar([(0, 1)]), kind="task")
    with pytest.raises(TypeError, match=r"^audit must be what audit_prior.* got int"):
        plot_prior(fitted(), 3)
    with pytest.raises(ValueError, match='kind must be "feature" or "task"'):
        plot_prior(fitted(), kind="row")


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    assert plot_prior(fitted(), ax=axes[0, 0], legend=False) is axes[0, 0]
    assert axes[0, 0].get_legend() is None
