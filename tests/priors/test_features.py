"""Feature priors: relations of every kind, and how far coefficients violate them."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse

from instances import LAYOUTS, plain_rows, random_tasks
from priormtl.data import centre_samples, condense, from_labels, summarize_tasks
from priormtl.priors import (
    FeaturePrior,
    as_feature_prior,
    difference_matrix,
    measure_violations,
    relations,
)
from priormtl.priors.relations import Correlated, Pairs

LAW = settings(max_examples=50, deadline=None, derandomize=True, database=None)

NAMES = ("maths", "physics", "price", "demand", "age", "height")

RELATIONS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from([-1, 1]),
        st.floats(0.1, 9),
    ).filter(lambda r: r[0] != r[1])
)


def moments(names=NAMES, d=6):
    X = np.random.default_rng(0).normal(size=(10, d))
    return summarize_tasks(from_labels(X, np.zeros(10), [0] * 10, features=names))


def coefficients(seed=1):
    return np.random.default_rng(seed).normal(size=(6, 3))


def brute_force(relations, P):
    """½ Σ weight ‖p_a ∓ p_b‖²."""
    return sum(0.5 * w * np.sum((P[a] - s * P[b]) ** 2) for a, b, s, w in relations)


def value(prior, P, names=NAMES):
    return 0.5 * np.sum((difference_matrix(prior, moments(names)) @ P) ** 2)


def dense(prior, names=NAMES):
    return difference_matrix(prior, moments(names)).toarray()


@LAW
@given(RELATIONS)
def test_d_measures_the_sum_over_relations(relations):
    P = coefficients()
    prior = FeaturePrior.similar([])
    for a, b, sign, weight in relations:
        build = FeaturePrior.similar if sign > 0 else FeaturePrior.opposite
        prior += build([(a, b)], weight=weight)
    assert value(prior, P) == pytest.approx(brute_force(relations, P), abs=1e-12)
    assert difference_matrix(prior, moments()).shape == (len(relations), 6)


@LAW
@given(RELATIONS)
def test_a_graph_is_the_sum_over_its_edges(relations):
    P = coefficients()
    prior = FeaturePrior.from_graph([(a, b, s * w) for a, b, s, w in relations])
    assert value(prior, P) == pytest.approx(brute_force(relations, P), abs=1e-12)


def test_d_is_sparse_with_two_entries_per_relation():
    D = difference_matrix(FeaturePrior.similar([(0, 1), (2, 5)], weight=4.0), moments())
    assert issparse(D)
    assert D.nnz == 4
    assert D.toarray().tolist() == [[2, -2, 0, 0, 0, 0], [0, 0, 2, 0, 0, -2]]


def test_opposite_features_have_entries_of_the_same_sign():
    assert dense(FeaturePrior.opposite([(1, 4)])).tolist() == [[0, 1, 0, 0, 1, 0]]


def test_names_are_positions():
    named = FeaturePrior.similar([("maths", "physics")]) + FeaturePrior.opposite(
        [("price", 3)]
    )
    numbered = FeaturePrior.similar([(0, 1)]) + FeaturePrior.opposite([(2, 3)])
    np.testing.assert_array_equal(dense(named), dense(numbered))


def test_numpy_scalars_are_names_and_positions():
    prior = FeaturePrior.similar([(np.str_("maths"), np.int64(1))])
    np.testing.assert_array_equal(dense(prior), dense(FeaturePrior.similar([(0, 1)])))


def test_the_sum_holds_the_rows_of_both():
    a, b = FeaturePrior.similar([(0, 1)]), FeaturePrior.grid(2, 3)
    np.testing.assert_array_equal(dense(a + b), np.vstack([dense(a), dense(b)]))
    assert len((a + b + a).parts) == 3


def test_only_priors_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        FeaturePrior.similar([(0, 1)]) + 1


def test_groups_relate_all_pairs():
    prior = FeaturePrior.from_groups(
        {"school": ["maths", 1, 2], "one": [3]}, weight=9.0
    )
    pairs = FeaturePrior.similar([(0, 1), (0, 2), (1, 2)], weight=9.0)
    np.testing.assert_array_equal(dense(prior), dense(pairs))


def test_a_grid_relates_neighbours():
    P = coefficients()
    image = P.reshape(2, 3, 3)
    across = np.sum((image[:, 1:] - image[:, :-1]) ** 2)
    down = np.sum((image[1:] - image[:-1]) ** 2)
    prior = FeaturePrior.grid(2, 3, weight=5.0)
    assert value(prior, P) == pytest.approx(0.5 * 5.0 * (across + down))
    assert len(dense(prior)) == 2 * 2 + 3


def test_a_grid_of_one_cell_relates_nothing():
    D = difference_matrix(FeaturePrior.grid(1, 1), moments(("a",), 1))
    assert D.shape == (0, 1)


GRAPH = [(0, 1, 2.0), (1, 3, -0.5)]


def adjacency():
    A = np.zeros((6, 6))
    for a, b, weight in GRAPH:
        A[a, b] = A[b, a] = weight
    return A


def networkx_graph(names):
    graph = nx.Graph()
    graph.add_weighted_edges_from((names[a], names[b], w) for a, b, w in GRAPH)
    return graph


@pytest.mark.parametrize(
    "graph",
    [GRAPH, adjacency(), csr_array(adjacency()), networkx_graph(NAMES)],
    ids=["list", "dense", "sparse", "networkx"],
)
def test_every_graph_gives_the_same_d(graph):
    expected = FeaturePrior.similar([(0, 1)], 2.0) + FeaturePrior.opposite(
        [(1, 3)], 0.5
    )
    np.testing.assert_allclose(dense(FeaturePrior.from_graph(graph)), dense(expected))


def test_edges_of_weight_zero_are_no_relations():
    assert len(dense(FeaturePrior.from_graph([(0, 1, 0.0), (1, 2)]))) == 1


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist])
def test_any_matrix_is_taken_as_d(form):
    D = np.array([[1.0, -1.0, 0, 0, 0, 0], [0, 0, 0.5, 0.25, 0.25, -1.0]])
    np.testing.assert_array_equal(dense(FeaturePrior.from_matrix(form(D))), D)
    np.testing.assert_array_equal(dense(as_feature_prior(form(D))), D)


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_frames_are_matched_by_name(form):
    D = form({"age": [0.0, 2.0], "maths": [1.0, 0.0], "price": [-1.0, 0.5]})
    expected = [[1.0, 0, -1.0, 0, 0, 0], [0, 0, 0.5, 0, 2.0, 0]]
    prior = as_feature_prior(D)
    np.testing.assert_array_equal(dense(prior), expected)
    np.testing.assert_array_equal(dense(prior.resolve(moments()), None), expected)
    again = FeaturePrior.from_plain(json.loads(json.dumps(prior.to_plain())))
    np.testing.assert_array_equal(dense(again), expected)


def test_columns_of_frames_count_where_one_side_has_no_names():
    D = np.arange(12.0).reshape(2, 6)
    numbered, named = pd.DataFrame(D), pd.DataFrame(D, columns=NAMES[::-1])
    np.testing.assert_array_equal(dense(as_feature_prior(numbered)), D)
    np.testing.assert_array_equal(dense(as_feature_prior(named), None), D)
    with pytest.raises(ValueError, match="D has 5 columns for 6 features"):
        dense(as_feature_prior(numbered.iloc[:, :5]))


def test_frames_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"unknown feature 'math'.*'maths'\?"):
        dense(as_feature_prior(pd.DataFrame({"math": [1.0]})))
    with pytest.raises(ValueError, match="must be finite"):
        as_feature_prior(pl.DataFrame({"maths": [1.0, None]}))
    with pytest.raises(ValueError, match="as a matrix must be"):
        as_feature_prior(pd.DataFrame({"maths": ["a"]}))


def test_names_of_columns_are_shown():
    table = as_feature_prior(pd.DataFrame({"maths": [1.0], "age": [-1.0]})).table()
    assert table.rows[0].label == "1 · maths + −1 · age"


def test_one_row_is_a_matrix():
    prior = FeaturePrior.from_matrix([1, -1, 0, 0, 0, 0])
    assert dense(prior).tolist() == [[1, -1, 0, 0, 0, 0]]


def test_an_empty_prior_has_no_rows():
    assert dense(FeaturePrior.similar([])).shape == (0, 6)
    assert dense(FeaturePrior(())).shape == (0, 6)


def test_resolving_fixes_the_positions():
    prior = FeaturePrior.similar([("maths", "age")]) + FeaturePrior.grid(3, 2)
    resolved = prior.resolve(moments())
    np.testing.assert_array_equal(dense(resolved, None), dense(prior))


def test_the_text_counts_relations_or_names_the_rule():
    pairs, matrix = FeaturePrior.similar([(0, 1)]), FeaturePrior.from_matrix(np.eye(2))
    assert repr(pairs + matrix) == "FeaturePrior(3 relations)"
    rules = FeaturePrior.grid(2, 3) + FeaturePrior.from_correlation() + pairs
    assert (
        repr(rules) == "FeaturePrior(2 x 3 grid + strongest correlations + 1 relation)"
    )


PRIORS = {
    "similar": FeaturePrior.similar([("maths", "age"), (2, 3)], weight=0.1),
    "opposite": FeaturePrior.opposite([("maths", "é<script>")]),
    "correlation": FeaturePrior.from_correlation(7, weight=2.0),
    "groups": FeaturePrior.from_groups({"g": [0, 1, 2]}),
    "graph": FeaturePrior.from_graph(networkx_graph(NAMES)),
    "adjacency": FeaturePrior.from_graph(adjacency()),
    "grid": FeaturePrior.grid(2, 3),
    "none": FeaturePrior(()),
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_priors_survive_json(prior):
    assert FeaturePrior.from_plain(json.loads(json.dumps(prior.to_plain()))) == prior


def test_matrices_survive_json():
    D = csr_array(np.array([[0.1, 0, 0, 0, 0, -0.7], [0, 0, 1e-300, 0, 0, 0]]))
    prior = FeaturePrior.from_matrix(D) + FeaturePrior.grid(2, 3)
    again = FeaturePrior.from_plain(json.loads(json.dumps(prior.to_plain())))
    np.testing.assert_array_equal(dense(again), dense(prior))


def test_an_unknown_name_is_answered_with_a_near_one():
    message = r"unknown feature 'math'; known: 'maths', .*Did you mean 'maths'\?"
    with pytest.raises(ValueError, match=message):
        dense(FeaturePrior.similar([("math", "age")]))


def test_names_need_columns_with_names():
    with pytest.raises(ValueError, match="feature 'maths', but X has no column names"):
        dense(FeaturePrior.similar([("maths", "age")]), names=None)


@pytest.mark.parametrize("position", [6, -1, 1.0, (0, 1), None], ids=repr)
def test_a_position_must_exist(position):
    with pytest.raises(ValueError, match="name features or give positions 0 … 5: got"):
        dense(FeaturePrior.similar([(0, position)]))


@pytest.mark.parametrize("pair", [(2, 2), ("price", 2), ("price", "price")])
def test_a_feature_is_not_related_to_itself(pair):
    with pytest.raises(
        ValueError, match=r"different features: .* is related to itself"
    ):
        dense(FeaturePrior.similar([pair]))


def test_a_loop_of_a_graph_is_refused():
    with pytest.raises(ValueError, match="1 is related to itself"):
        dense(FeaturePrior.from_graph(np.diag([0.0, 1.0, 0, 0, 0, 0])))


@pytest.mark.parametrize("pair", ["ab", (1,), (1, 2, 3), 5])
def test_a_relation_is_a_pair(pair):
    with pytest.raises(ValueError, match="a relation must be a pair of features: got"):
        FeaturePrior.similar([pair])


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "build",
    [
        lambda weight: FeaturePrior.similar([(0, 1)], weight),
        lambda weight: FeaturePrior.opposite([(0, 1)], weight),
        lambda weight: FeaturePrior.from_groups({"g": [0, 1]}, weight),
        lambda weight: FeaturePrior.from_correlation(3, weight),
        lambda weight: FeaturePrior.grid(2, 3, weight),
    ],
)
def test_weights_must_be_positive(build, weight):
    with pytest.raises(ValueError, match="weight must be positive and finite: got"):
        build(weight)


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "3", None])
def test_counts_must_be_positive_whole_numbers(count):
    for build in (
        FeaturePrior.from_correlation,
        lambda k: FeaturePrior.grid(k, 2),
        lambda k: FeaturePrior.grid(2, k),
    ):
        with pytest.raises(ValueError, match="must be a positive whole number: got"):
            build(count)


def test_groups_must_be_a_mapping():
    with pytest.raises(
        TypeError, match="must map names to lists of features: got list"
    ):
        FeaturePrior.from_groups([[0, 1]])


def test_a_grid_must_have_one_cell_per_feature():
    with pytest.raises(ValueError, match="a 2 x 2 grid has 4 cells for 6 features"):
        dense(FeaturePrior.grid(2, 2))


def test_a_matrix_must_have_one_column_per_feature():
    with pytest.raises(ValueError, match="D has 5 columns for 6 features"):
        dense(FeaturePrior.from_matrix(np.ones((2, 5))))


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.array([[1.0, np.nan]]), "must be finite"),
        (csr_array(np.array([[1.0, np.inf]])), "must be finite"),
        (np.array([[1j, 0]]), r"must be \(relations, features\)"),
        (np.ones((2, 2, 2)), r"must be \(relations, features\)"),
        ([["a", "b"]], r"must be \(relations, features\)"),
    ],
    ids=["NaN", "inf", "complex", "3-D", "text"],
)
def test_bad_matrices_are_refused(D, message):
    with pytest.raises(ValueError, match=f"feature_prior as a matrix {message}"):
        FeaturePrior.from_matrix(D)


def test_priors_are_taken_as_they_are():
    prior = FeaturePrior.grid(2, 3)
    assert as_feature_prior(prior) is prior
    assert as_feature_prior(None) is None


@pytest.mark.parametrize("prior", ["grid", 3, {"a": ["b"]}])
def test_other_things_are_no_priors(prior):
    with pytest.raises(
        TypeError, match="must be a FeaturePrior, a matrix D or None: got"
    ):
        as_feature_prior(prior)


def test_an_adjacency_matrix_must_match_the_features():
    prior = FeaturePrior.from_graph(np.array([[0.0, 1.0], [1.0, 0.0]]))
    moments = summarize_tasks(from_labels(np.eye(3), np.arange(3.0), [0, 0, 0]))
    with pytest.raises(ValueError, match="has 2 for 3 features"):
        prior.resolve(moments)


KEPT = {"statistics": summarize_tasks, "samples": centre_samples}

kept = pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)

forms = pytest.mark.parametrize(
    "form", [np.asarray, csr_array], ids=["dense", "sparse"]
)


def table(seed=0, n=60, d=7):
    """Correlated columns, with offsets that differ between three tasks."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % 3
    X = (
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        + rng.normal(size=(3, d))[task]
    )
    return X, task


def tasks_of(X, task=None, form=np.asarray):
    labels = [0] * len(X) if task is None else task
    return from_labels(form(X), np.zeros(len(X)), labels)


def chosen(moments, strongest):
    pairs = Correlated(strongest, 1.0).resolve(moments)
    return list(zip(pairs.first, pairs.second, pairs.sign, strict=True))


def strongest_by_numpy(X, strongest, weight=None):
    covariance = np.cov(X.T, aweights=weight, ddof=0)
    deviation = np.sqrt(np.diag(covariance))
    C = covariance / np.outer(deviation, deviation)
    j, k = np.triu_indices(len(C), 1)
    order = np.argsort(-np.abs(C[j, k]), kind="stable")[:strongest]
    return [(int(j[i]), int(k[i]), float(np.sign(C[j[i], k[i]]))) for i in order]


@kept
@pytest.mark.parametrize("strongest", [1, 5, 21])
@pytest.mark.parametrize("seed", range(3))
def test_the_strongest_correlations_are_numpys(keep, strongest, seed):
    X, task = table(seed)
    found = chosen(keep(tasks_of(X, task)), strongest)
    assert found == strongest_by_numpy(X, strongest)
    C = np.corrcoef(X.T)
    for j, k, sign in found:
        assert sign == np.sign(C[j, k])


@kept
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_and_gaps_count_in_the_correlations(keep, layout):
    data = random_tasks(layout, n=20)
    rows = plain_rows(data)
    X, weight = (
        np.concatenate([r[0] for r in rows]),
        np.concatenate([r[2] for r in rows]),
    )
    assert chosen(keep(data), 4) == strongest_by_numpy(X, 4, weight)


@LAW
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 25))
def test_blocks_do_not_matter(seed, cells, strongest):
    X, task = table(seed)
    moments = summarize_tasks(tasks_of(X, task))
    whole = chosen(moments, strongest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "BLOCK_CELLS", cells)
        assert chosen(moments, strongest) == whole


@kept
@forms
def test_duplicates_and_mirrored_columns_come_first(keep, form):
    X, task = table()
    X = np.column_stack([X, X[:, 2], -3.0 * X[:, 5] + 1.0])
    found = chosen(keep(tasks_of(X, task, form)), 2)
    assert found == [(2, 7, 1.0), (5, 8, -1.0)]


@pytest.mark.parametrize("cells", [1, 8, 16, 10**6])
def test_ties_go_to_the_earlier_pair_whatever_the_blocks(cells, monkeypatch):
    x = np.random.default_rng(0).normal(size=(30, 1))
    X = x * np.array([1.0, -2.0, 0.3, 1e5, -7.0, 1e-6, 11.0, 0.1])
    monkeypatch.setattr(relations, "BLOCK_CELLS", cells)
    found = chosen(summarize_tasks(tasks_of(X)), 4)
    assert found == [(0, 1, -1.0), (0, 2, 1.0), (0, 3, 1.0), (0, 4, -1.0)]


@kept
@forms
@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0, 1e8 + 0.1])
@pytest.mark.parametrize("m", [1, 3])
def test_constant_columns_are_never_chosen(keep, form, value, m):
    X, _ = table(n=600)
    X[:, [1, 4]] = value
    found = chosen(keep(tasks_of(X, np.arange(600) % m, form)), 100)
    assert len(found) == 10
    assert not {1, 4} & {j for pair in found for j in pair[:2]}


@pytest.mark.parametrize("offset", [1e8, 1e12])
def test_large_offsets_do_not_matter(offset):
    X, task = table()
    far = condense(tasks_of(X + offset, task))
    assert chosen(far, 3) == strongest_by_numpy((X + offset) - offset, 3)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    X, task = table()
    units = np.where(np.arange(7) % 2, scale, 1.0)
    found = chosen(summarize_tasks(tasks_of(X * units, task)), 6)
    assert found == strongest_by_numpy(X, 6)


@pytest.mark.parametrize("d", [1, 2])
def test_few_features_have_few_pairs(d):
    X, task = table(d=d)
    assert len(chosen(summarize_tasks(tasks_of(X, task)), 20)) == d - 1


def test_one_row_has_no_correlations():
    assert chosen(summarize_tasks(tasks_of(np.ones((1, 4)))), 20) == []


def test_the_prior_relates_what_was_found():
    X, task = table()
    moments = summarize_tasks(tasks_of(X, task))
    resolved = FeaturePrior.from_correlation(3, weight=4.0).resolve(moments)
    (pairs,) = resolved.parts
    assert isinstance(pairs, Pairs)
    assert pairs.weight == (4.0,) * 3
    first = pairs.matrix(7).toarray()[0]
    j, k, sign = pairs.first[0], pairs.second[0], pairs.sign[0]
    assert first[[j, k]].tolist() == [2.0, -2.0 * sign]


@pytest.mark.parametrize("plain", [{"part": "code"}, {"part": None}, {}])
def test_unknown_parts_are_refused(plain):
    with pytest.raises((KeyError, ValueError), match=r"code|None|part"):
        FeaturePrior.from_plain([plain])


D = csr_array(np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 2.0], [1.0, 1.0, -1.0]]))


def test_relations_that_hold_are_not_violated():
    p = np.array([1.0, -2.0])
    np.testing.assert_allclose(
        measure_violations(D[:2], np.array([p, p, -p])), 0.0, atol=1e-15
    )


def test_contrary_relations_are_violated_fully():
    p = np.array([1.0, 3.0])
    assert measure_violations(D, np.array([p, -p, -p])) == pytest.approx([1, 1, 1 / 3])


def test_one_of_two_at_zero_is_in_between():
    P = np.array([[0.0], [2.0], [0.0]])
    assert measure_violations(D[:2], P) == pytest.approx([0.5] * 2)


def test_measures_lie_between_zero_and_one_and_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    for _ in range(50):
        P = rng.standard_normal((3, 4)) * 10.0 ** rng.integers(-9, 9)
        found = measure_violations(D, P)
        assert (found >= 0).all()
        assert (found <= 1 + 1e-12).all()
        np.testing.assert_allclose(measure_violations(5.0 * D, 3.0 * P), found)


def test_nothing_is_violated_where_all_is_zero():
    assert measure_violations(D, np.zeros((3, 2))).tolist() == [0, 0, 0]
