"""The prior's graph: its relations, its lines, and where nodes stand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from priormtl import FeaturePrior, MultiTaskRegressor, TaskPrior
from priormtl.data import pooled_scale
from priormtl.fitted import Outliers
from priormtl.plotting import plot_prior
from priormtl.plotting.priors import place_nodes, read_relations
from shown_models import (
    AWKWARD_NAMES,
    fitted_model,
    lightness,
    random_effects,
    related_tasks,
    with_coef,
)

# Priors.


def links_of(source):
    return read_relations(source, None)[0]


def row(first, second, before=0.5, verdict="agrees", kind="feature"):
    names = {"kind": kind, "relation": "", "first": first, "second": second}
    found = {"violation_before": before, "verdict": verdict}
    return SimpleNamespace(**names, **found, sign="similar", weight=1.0)


def lines(ax):
    return ax.collections[0]


def names(ax):
    return {text.get_text() for text in ax.texts}


def test_every_relation_is_a_line_between_its_ends():
    ax = plot_prior(fitted_model())
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
    ax = plot_prior(fitted_model())
    found = np.asarray(lines(ax).get_array())
    expected = [link.disagreement for link in links_of(fitted_model())]
    assert found.tolist() == sorted(expected, reverse=True)
    ax.figure.draw_without_rendering()
    assert lines(ax).get_clim() == (0.0, 1.0)
    assert (np.diff(lightness(lines(ax).get_colors())) > 0).all()


def test_rows_of_many_features_are_stars():
    D = np.array([[1.0, 1.0, -2.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    model = with_coef(random_effects(2, 4), feature_prior=FeaturePrior.from_matrix(D))
    ax = plot_prior(model)
    assert len(lines(ax).get_segments()) == 4
    assert ax.get_title() == "2 relations of 4 features"


def test_the_top_of_many_is_said():
    neighbours = FeaturePrior((FeaturePrior.grid(8, 8).parts[0].pairs(),))
    model = with_coef(random_effects(3, 64), feature_prior=neighbours)
    ax = plot_prior(model, top=10)
    assert len(lines(ax).get_segments()) == 10
    assert ax.get_title().startswith("Top 10 of 112 relations, ")
    everything = [link.disagreement for link in links_of(model)]
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
    audit = SimpleNamespace(relations=[*features, row("t", "u", kind="statement")])
    ax = plot_prior(fitted_model(), audit)
    assert lines(ax).get_array().tolist() == [0.9, 0.2]
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    middle = np.mean(lines(ax).get_segments()[0], axis=0)
    assert np.allclose([line.get_xydata()[0] for line in crosses], [middle])
    assert "data disagree" in [text.get_text() for text in ax.get_legend().texts]
    assert names(plot_prior(audit)) == {"a", "b", "c"}


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
    ax = plot_prior(with_coef([[1.0]], feature_prior=None))
    assert names(ax) == {"the prior has no relations"}


def test_awkward_names_are_drawn():
    pairs = [(AWKWARD_NAMES[k], AWKWARD_NAMES[k + 1]) for k in range(4)]
    ax = plot_prior(FeaturePrior.similar(pairs))
    ax.figure.draw_without_rendering()
    assert len(ax.texts) == 5


def test_what_holds_no_relations_is_refused():
    with pytest.raises(TypeError, match=r"^source must be a fitted .*got TaskPrior"):
        plot_prior(TaskPrior.chain())
    with pytest.raises(
        TypeError, match=r"^audit must be the result of audit_prior.* got int"
    ):
        plot_prior(fitted_model(), 3)


# Relations.


def violations(P, prior):
    """Disagreement of links with coefficients P (d, m)."""
    model = with_coef(np.asarray(P, float).T, feature_prior=prior)
    return [link.disagreement for link in links_of(model)]


def test_every_relation_is_a_link():
    links = links_of(fitted_model())
    assert [link.members for link in links] == [
        ("x0", "x1"),
        ("x1", "x2"),
        ("x3", "x4"),
    ]
    assert [link.sign for link in links] == ["similar", "similar", "opposite"]


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e100])
def test_disagreement_has_no_unit(scale):
    prior = FeaturePrior.similar([(0, 1)], weight=3.0)
    same, opposite = [[1.0, 2.0]] * 2, [[1.0, 2.0], [-1.0, -2.0]]
    assert violations(scale * np.array(same), prior) == [0.0]
    assert violations(scale * np.array(opposite), prior) == pytest.approx([1.0])
    alone = np.array([[1.0], [0.0]])
    assert violations(scale * alone, prior) == pytest.approx([0.5])


def test_own_parts_of_outlier_tasks_violate_nothing():
    prior = FeaturePrior.similar([(0, 1)])
    coef, shared = (
        np.array([[1.0, 1.0], [2.0, -7.0]]),
        np.array([[1.0, 1.0], [2.0, 2.0]]),
    )
    outliers = Outliers(shared, coef - shared, 1.0)
    model = with_coef(coef, feature_prior=prior, outliers=outliers)
    assert [link.disagreement for link in links_of(model)] == [0.0]


def test_disagreement_is_between_zero_and_one():
    prior = FeaturePrior.from_matrix(random_effects(20, 6))
    found = np.array(violations(random_effects(6, 3), prior))
    assert ((found >= 0) & (found <= 1)).all()


def test_without_coefficients_nothing_disagrees():
    assert violations(np.zeros((2, 1)), FeaturePrior.similar([(0, 1)])) == [0.0]


def test_the_prior_of_standardised_features_is_judged_on_them():
    X, y, task = related_tasks()
    scale = np.array([1.0, 100.0, 1.0, 1.0, 1.0, 1.0])
    prior = FeaturePrior.similar([(0, 1)])
    settings = {"standardize": True, "feature_prior": prior, "theta": 1e6}
    model = MultiTaskRegressor(**settings).fit(X * scale, y, task=task)
    (link,) = links_of(model)
    P = model.coef_.T * pooled_scale(model.statistics_)[:, None]
    expected = np.linalg.norm(P[0] - P[1]) / 2.0 / np.linalg.norm(P, axis=1).max()
    assert link.disagreement == pytest.approx(expected)
    assert link.disagreement < 0.01


def test_a_prior_alone_has_links_without_disagreement():
    D = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0], [0.0, 0.0, 3.0]])
    prior = FeaturePrior.opposite([("a", 3)], weight=2.0) + FeaturePrior.from_matrix(D)
    links = links_of(prior)
    assert [link.sign for link in links] == [
        "opposite",
        "similar",
        "combination",
        "combination",
    ]
    assert links[0].members == ("a", "x3")
    assert [len(link.members) for link in links] == [2, 2, 3, 1]
    assert {link.disagreement for link in links} == {None}


def test_a_grid_alone_has_its_neighbours():
    assert len(links_of(FeaturePrior.grid(3, 4))) == 3 * 3 + 2 * 4


def test_correlations_are_not_known_before_the_fit():
    with pytest.raises(ValueError, match="pass the fitted model"):
        links_of(FeaturePrior.from_correlation())


@pytest.mark.parametrize("prior", [None, FeaturePrior(())])
def test_no_prior_has_no_links(prior):
    assert links_of(with_coef([[1.0]], feature_prior=prior)) == []


def test_an_audit_gives_what_it_found():
    rows = [
        SimpleNamespace(kind="feature", relation="a ~ b", first="a", second="b",
                        sign="similar", weight=2.0, violation_before=0.7,
                        verdict="disagrees"),
        SimpleNamespace(kind="feature", relation="a + b ~ 0", first=None, second=None,
                        sign="combination", weight=1.0, violation_before=0.1,
                        verdict="agrees"),
        SimpleNamespace(kind="statement", relation="t ~ u", first="t", second="u",
                        sign="similar", weight=1.0, violation_before=0.2,
                        verdict="agrees"),
    ]  # fmt: skip
    audit = SimpleNamespace(relations=rows)
    one, other = links_of(audit)
    assert (one.members, one.disagreement, one.disagrees) == (("a", "b"), 0.7, True)
    assert (other.members, other.disagrees) == (("a + b ~ 0",), False)
    assert (one.by_name, other.by_name) == (True, False)


# Layout.


def edges(kind):
    """Number of nodes, and both ends of each edge."""
    cells = np.arange(20).reshape(4, 5)
    return {
        "none": (3, [], []),
        "pair": (2, [0], [1]),
        "chain": (6, range(5), range(1, 6)),
        "star": (9, [0] * 8, range(1, 9)),
        "ring": (7, range(7), [*range(1, 7), 0]),
        "grid": (
            20,
            [*cells[:, :-1].ravel(), *cells[:-1].ravel()],
            [*cells[:, 1:].ravel(), *cells[1:].ravel()],
        ),
        "parts": (7, [0, 1, 4], [1, 2, 5]),
        "twice": (2, [0, 1], [1, 0]),
    }[kind]


def place(kind):
    n_nodes, first, second = edges(kind)
    ends = [np.array(list(side), dtype=np.intp) for side in (first, second)]
    return place_nodes(n_nodes, *ends), *ends


KINDS = ["none", "pair", "chain", "star", "ring", "grid", "parts", "twice"]


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_about_one_long_and_nodes_stand_apart(kind):
    positions, first, second = place(kind)
    assert np.isfinite(positions).all()
    lengths = np.linalg.norm(positions[first] - positions[second], axis=1)
    assert ((lengths > 0.6) & (lengths < 1.4)).all()
    assert pdist(positions).min() > 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_graph_is_placed_alike(kind):
    assert np.array_equal(place(kind)[0], place(kind)[0])


def test_chains_and_grids_lie_flat():
    chain, grid = place("chain")[0], place("grid")[0]
    assert np.ptp(chain[:, 1]) < 0.1 * np.ptp(chain[:, 0])
    rows, columns = grid[:, 1].reshape(4, 5), grid[:, 0].reshape(4, 5)
    assert np.ptp(rows, axis=1).max() < 0.3
    assert np.ptp(columns, axis=0).max() < 0.3


def test_parts_do_not_overlap():
    positions, *_ = place("parts")
    boxes = [positions[nodes] for nodes in ([0, 1, 2], [4, 5], [3], [6])]
    for k, one in enumerate(boxes):
        for other in boxes[k + 1 :]:
            apart = (one.max(0) < other.min(0)) | (other.max(0) < one.min(0))
            assert apart.any()


def test_an_empty_graph_has_no_places():
    none = np.zeros(0, dtype=np.intp)
    assert place_nodes(0, none, none).shape == (0, 2)


def test_known_values_are_stars_and_constraints_are_no_relations():
    prior = FeaturePrior.near({"dose": 0.3, 1: 2.0}, 4.0)
    prior += FeaturePrior.nonnegative(["dose"]) + FeaturePrior.common(["dose"])
    found = links_of(prior)
    assert [(one.members, one.sign, one.weight) for one in found] == [
        (("dose",), "combination", 4.0),
        (("x1",), "combination", 4.0),
    ]
    assert names(plot_prior(prior)) == {"dose", "x1"}
