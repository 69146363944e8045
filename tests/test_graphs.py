"""The Laplacian: semidefinite, zero on constants, and equal to its quadratic form."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl import MultiTaskRegressor
from priormtl.priors import TaskPrior, laplacian
from priormtl.priors.graphs import Cosines, Laplacian

LAW = settings(max_examples=50, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 10**6)


def path(m, weight=1.0):
    return Laplacian.from_edges(
        m, np.arange(m - 1), np.arange(1, m), np.full(m - 1, weight)
    )


def complete(m):
    return Laplacian.from_groups(m, [np.arange(m)], 1.0)


def random_edges(rng, m):
    ends = rng.integers(0, m, (2, 2 * m))
    return ends[0], ends[1], rng.uniform(0.1, 3.0, 2 * m)


def random_groups(rng, m):
    return [rng.permutation(m)[:size] for size in rng.integers(1, m + 1, 3)]


def random_graph(seed, m=7):
    """Edges (with loops and repetitions) and overlapping groups."""
    rng = np.random.default_rng(seed)
    edges = Laplacian.from_edges(m, *random_edges(rng, m))
    return edges + Laplacian.from_groups(m, random_groups(rng, m), 0.7)


def quadratic_form(graph, P):
    return 0.5 * np.vdot(P, graph.times(P))


def exact_shift(diagonal, strength, graph):
    """diag(diagonal) + strength · L of six tasks in rational numbers."""
    L = [[Fraction(round(6 * v), 6) for v in row] for row in graph.dense()]
    A = [[Fraction(strength) * v for v in row] for row in L]
    for i, value in enumerate(diagonal):
        A[i][i] += Fraction(value)
    return A


def exact_solve(A, b):
    """Solve by elimination in rational numbers."""
    rows = [[*map(Fraction, row), Fraction(v)] for row, v in zip(A, b, strict=True)]
    for k in range(len(rows)):
        pivot = rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(len(rows)):
            if i != k:
                factor = rows[i][k]
                rows[i] = [u - factor * v for u, v in zip(rows[i], pivot, strict=True)]
    return np.array([float(row[-1]) for row in rows])


@LAW
@given(SEEDS)
def test_constants_are_free(seed):
    graph = random_graph(seed)
    np.testing.assert_allclose(graph.times(np.ones(7)), 0.0, atol=1e-12)


@LAW
@given(SEEDS)
def test_the_laplacian_is_symmetric_and_semidefinite(seed):
    L = random_graph(seed).dense()
    np.testing.assert_allclose(L, L.T, atol=1e-13)
    assert np.linalg.eigvalsh(L)[0] >= -1e-12


@LAW
@given(SEEDS)
def test_the_form_of_edges_is_the_sum_over_edges(seed):
    rng = np.random.default_rng(seed)
    first, second, weight = random_edges(rng, 6)
    P = rng.normal(size=(3, 6))
    gaps = np.sum((P[:, first] - P[:, second]) ** 2, axis=0)
    form = quadratic_form(Laplacian.from_edges(6, first, second, weight), P)
    assert form == pytest.approx(0.5 * weight @ gaps)


@LAW
@given(SEEDS)
def test_the_form_of_groups_is_the_spread_about_their_means(seed):
    rng = np.random.default_rng(seed)
    groups = random_groups(rng, 6)
    P = rng.normal(size=(3, 6))
    spread = sum(P[:, g].var(axis=1).sum() * len(g) for g in groups)
    form = quadratic_form(Laplacian.from_groups(6, groups, 2.5), P)
    assert form == pytest.approx(0.5 * 2.5 * spread)


@LAW
@given(SEEDS)
def test_times_multiplies_rows_and_vectors_like_the_dense_matrix(seed):
    graph = random_graph(seed)
    P = np.random.default_rng(seed + 1).normal(size=(4, 7))
    np.testing.assert_allclose(graph.times(P), P @ graph.dense(), atol=1e-12)
    np.testing.assert_allclose(graph.times(P[0]), graph.dense() @ P[0], atol=1e-12)


@LAW
@given(SEEDS, SEEDS)
def test_adding_graphs_adds_their_matrices(seed, other):
    a, b = random_graph(seed), random_graph(other)
    np.testing.assert_allclose((a + b).dense(), a.dense() + b.dense(), atol=1e-12)


@pytest.mark.parametrize("graph", [path(5), complete(5), random_graph(2, 5)])
def test_no_ties_are_neutral(graph):
    total = Laplacian.empty(5) + graph + Laplacian.empty(5)
    np.testing.assert_allclose(total.dense(), graph.dense(), atol=1e-14)
    assert not total.is_zero


def test_no_ties_do_nothing():
    graph = Laplacian.empty(3)
    assert graph.is_zero
    assert graph.m == 3
    assert graph.largest_eigenvalue == 0.0
    np.testing.assert_array_equal(graph.times(np.ones((2, 3))), np.zeros((2, 3)))
    np.testing.assert_allclose(
        graph.shifted_solver(np.array([1.0, 2.0, 4.0]), 9.0)(np.ones(3)),
        [1.0, 0.5, 0.25],
    )


def test_no_edges_and_no_groups_are_no_ties():
    none = np.zeros(0, np.intp)
    assert Laplacian.from_edges(4, none, none, np.zeros(0)).is_zero
    assert not Laplacian.from_groups(4, [], 1.0).dense().any()


def test_a_loop_ties_nothing():
    loop = Laplacian.from_edges(3, np.array([1]), np.array([1]), np.ones(1))
    np.testing.assert_array_equal(loop.dense(), np.zeros((3, 3)))


def test_a_group_of_one_is_free():
    alone = Laplacian.from_groups(3, [np.array([1])], 4.0)
    np.testing.assert_allclose(alone.dense(), 0.0, atol=1e-15)


def test_many_tasks_in_one_group_stay_sparse():
    graph = complete(100_000)
    p = np.arange(100_000.0)
    assert len(graph.weight) == 100_000
    np.testing.assert_allclose(graph.times(p), p - p.mean(), atol=1e-6)


@LAW
@given(SEEDS, st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
def test_the_shifted_solver_agrees_with_a_dense_solve(seed, strength):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed)
    diagonal, rhs = rng.uniform(0.5, 2.0, 7), rng.normal(size=7)
    solution = graph.shifted_solver(diagonal, strength)(rhs)
    expected = np.linalg.solve(np.diag(diagonal) + strength * graph.dense(), rhs)
    np.testing.assert_allclose(solution, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("graph", [path(6), complete(6)], ids=["path", "complete"])
@pytest.mark.parametrize("strength", [1e6, 1e9, 1e12, 1e30])
def test_the_shifted_solver_keeps_digits_at_large_strengths(graph, strength):
    rng = np.random.default_rng(5)
    diagonal, rhs = rng.uniform(0.5, 2.0, 6), rng.uniform(1.0, 2.0, 6)
    solution = graph.shifted_solver(diagonal, strength)(rhs)
    A = exact_shift(diagonal, strength, graph)
    np.testing.assert_allclose(solution, exact_solve(A, rhs), rtol=1e-12)


@pytest.mark.parametrize("m", [2, 3, 10, 100, 600])
def test_the_largest_eigenvalue_of_a_path(m):
    expected = 2 + 2 * np.cos(np.pi / m)
    assert path(m).largest_eigenvalue == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", [2, 3, 10, 100, 600])
def test_the_largest_eigenvalue_of_the_spread_about_the_mean_is_one(m):
    assert complete(m).largest_eigenvalue == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("m", [3, 8])
def test_the_largest_eigenvalue_of_all_pairs_is_their_number(m):
    first, second = np.triu_indices(m, 1)
    graph = Laplacian.from_edges(m, first, second, np.ones(len(first)))
    assert graph.largest_eigenvalue == pytest.approx(m)


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_eigenvalue_needs_no_dense_matrix(seed, monkeypatch):
    expected = np.linalg.eigvalsh(random_graph(seed, 40).dense())[-1]
    monkeypatch.setattr("priormtl.priors.graphs.DENSE_SIZE", 10)
    monkeypatch.setattr(Laplacian, "dense", None)
    found = random_graph(seed, 40).largest_eigenvalue
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e12])
def test_sparse_solves_agree_with_dense_ones(strength, monkeypatch):
    chain = Laplacian.from_edges(6, np.arange(5), np.arange(1, 6), np.arange(1.0, 6.0))
    both = chain + Laplacian.from_groups(6, [np.arange(4)], 0.7)
    diagonal, rhs = np.arange(1.0, 7.0), np.cos(np.arange(6.0))
    dense = both.shifted_solver(diagonal, strength)(rhs)
    monkeypatch.setattr("priormtl.priors.graphs.FEW_TASKS", 0)
    sparse = both.shifted_solver(diagonal, strength)(rhs)
    # Both lose digits to the condition number of what they solve.
    assert sparse == pytest.approx(dense, rel=1e-12 + 1e-16 * strength)


@pytest.mark.parametrize(
    "laplacian",
    [
        Laplacian.from_edges(6, np.arange(5), np.arange(1, 6), np.full(5, 0.7)),
        Laplacian.from_edges(6, np.arange(5), np.arange(1, 6), np.arange(1.0, 6.0)),
        Laplacian.from_edges(3, np.array([0, 0]), np.array([1, 2]), np.ones(2)),
        Laplacian.from_groups(6, [np.arange(6)], 2.0),
        Laplacian.from_groups(6, [np.arange(3), np.arange(3, 6)], 1.0),
        Laplacian.empty(3),
    ],
)
def test_modes_diagonalise(laplacian):
    values, vectors = laplacian.modes
    assert vectors.T @ vectors == pytest.approx(np.eye(laplacian.m), abs=1e-12)
    rebuilt = (vectors * values) @ vectors.T
    assert rebuilt == pytest.approx(laplacian.dense(), abs=1e-12)


@pytest.mark.parametrize("m", [2, 3, 8, 51])
@pytest.mark.parametrize("graph", [path, complete])
def test_modes_of_many_tasks_are_applied_without_a_table(m, graph, monkeypatch):
    values, table = graph(m).modes
    monkeypatch.setattr("priormtl.priors.graphs.DENSE_SIZE", 1)
    found, cosines = graph(m).modes
    assert isinstance(cosines, Cosines)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(np.asarray(cosines), table)
    np.testing.assert_array_equal(cosines.T.copy(), table.T)
    X = np.random.default_rng(m).normal(size=(4, m))
    assert X @ cosines == pytest.approx(X @ table, rel=1e-12, abs=1e-12)
    assert pytest.approx(X @ table.T, rel=1e-12, abs=1e-12) == X @ cosines.T
    assert X[0] @ cosines.T.T == pytest.approx(X[0] @ table, rel=1e-12, abs=1e-12)


SETTINGS = {
    "shared rows": {},
    "nuclear": {"penalty": "nuclear"},
    "adaptive": {"ties": "adaptive"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("ties", ["chain", "mean"])
def test_fits_do_not_depend_on_how_modes_are_applied(settings, ties, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    Y = X @ rng.normal(size=(5, 1)) + 0.3 * rng.normal(size=(30, 12))
    model = MultiTaskRegressor(3.0, 1.0, 50.0, task_prior=ties, tol=1e-9, **settings)
    expected = model.fit(X, Y).coef_
    monkeypatch.setattr("priormtl.priors.graphs.DENSE_SIZE", 1)
    assert model.fit(X, Y).coef_ == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_modes_of_ten_thousand_tasks_take_no_table():
    tracemalloc.start()
    _, cosines = path(10_000).modes
    back = np.ones((2, 10_000)) @ cosines @ cosines.T
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert back == pytest.approx(np.ones((2, 10_000)), rel=1e-12)
    assert peak < 50e6


def test_modes_of_a_large_odd_graph_are_not_computed(monkeypatch):
    monkeypatch.setattr("priormtl.priors.graphs.DENSE_SIZE", 2)
    assert Laplacian.from_groups(4, [np.arange(2), np.arange(2, 4)], 1.0).modes is None


@pytest.mark.parametrize("seed", range(3))
def test_degrees_are_the_diagonal(seed):
    graph = random_graph(seed)
    assert graph.degree == pytest.approx(graph.dense().diagonal(), abs=1e-12)


def test_components_are_sets_of_connected_tasks():
    chain = Laplacian.from_edges(5, np.array([0, 1]), np.array([1, 2]), np.ones(2))
    assert chain.components.tolist() == [0, 0, 0, 1, 2]
    groups = Laplacian.from_groups(5, [np.array([0, 3]), np.array([1, 2, 4])], 1.0)
    assert groups.components.tolist() == [0, 1, 1, 0, 1]
    assert (chain + groups).components.tolist() == [0] * 5
    assert len(set(Laplacian.empty(3).components)) == 3


def test_edges_and_groups_are_listed_with_their_weights():
    first, second = np.array([2, 0]), np.array([1, 2])
    edges = Laplacian.from_edges(4, first, second, np.array([0.5, 3.0]))
    groups = Laplacian.from_groups(4, [np.array([0, 3]), np.array([1, 2, 3])], 2.0)
    both = edges + groups
    assert sorted(both.pairs()) == [(0, 2, 3.0), (1, 2, 0.5)]
    assert Laplacian.empty(3).pairs() == []


def test_threads_may_share_a_factorisation():
    solve = laplacian(TaskPrior.mean(), tuple(range(40))).shifted_solver(
        np.linspace(1.0, 2.0, 40), 3.0
    )
    rhs = np.random.default_rng(0).normal(size=40)
    expected = solve(rhs)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: solve(rhs), range(5000)))
    assert all(np.array_equal(one, expected) for one in found)


def test_energies_of_nearly_equal_tasks():
    """Strong ties multiply what rounding the mean of large coefficients would lose."""
    rng = np.random.default_rng(0)
    members = np.arange(3)
    for graph in (
        Laplacian.from_groups(3, [members], 1.0),
        Laplacian.from_groups(4, [members, np.array([3])], 1.0),
    ):
        x = 1e9 * rng.normal(size=(50, 1))
        P = x + np.spacing(np.abs(x)) * rng.integers(-2, 3, (50, graph.m))
        for row, energy in zip(P, graph.energies(P), strict=True):
            tied = [Fraction(p) for p in row[:3]]
            exact = sum((p - sum(tied) / 3) ** 2 for p in tied)
            assert energy == pytest.approx(float(exact), rel=1e-12, abs=0.0)
