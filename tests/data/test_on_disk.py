"""Statistics on disk give the fits of those in memory, and stay on disk."""

import subprocess
import sys
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest

from instances import random_coef
from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.data import (
    StreamedGrams,
    TaskStatistics,
    align_tasks,
    check_statistics,
    condense,
    on_disk,
    summarize,
)
from priormtl.data.on_disk import MappedGrams
from priormtl.datasets import make_related_tasks
from priormtl.losses import FreeIntercepts, SquaredFit
from priormtl.penalties import L21
from priormtl.priors import TaskPrior, difference_matrix, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import default_method, gap_below, max_iter, solve
from processes import beside_tests

TASKS = ("u", "v", "w", "z")


def draw_parts(count=3, seed=0, offset=0.0):
    """Statistics in memory; not every part has rows of every task, and z has none."""
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(count):
        X = rng.normal(offset + k, 1.0, size=(20, 5))
        task = rng.choice(TASKS[: 1 + k], 20).tolist()
        weight = rng.uniform(0.5, 2.0, 20)
        part = summarize(X, rng.normal(size=20), task, weight)
        parts.append(align_tasks(part, TASKS))
    return parts


def map_parts(parts):
    return reduce(add, [part.mapped_gram() for part in parts])


@pytest.fixture(params=[1, 60, 2**20])
def block_numbers(request, monkeypatch):
    monkeypatch.setattr(on_disk, "BLOCK_NUMBERS", request.param)


@pytest.mark.usefixtures("block_numbers")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_are_those_of_statistics_in_memory(count):
    parts = draw_parts(count)
    expected, found = reduce(add, parts).xx, map_parts(parts)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(np.asarray(found), expected, **close)
    diagonals = np.diagonal(expected, axis1=1, axis2=2)
    np.testing.assert_allclose(found.diagonals(), diagonals, **close)
    rows = np.array([4, 1])
    read = found.read(slice(1, 3), rows)
    np.testing.assert_allclose(read, expected[1:3, rows], **close)
    factors = np.random.default_rng(1).normal(size=(4, 3, 2))
    products = found.products(factors, rows)
    np.testing.assert_allclose(products, factors @ expected[:, rows], **close)


def test_they_look_like_an_array():
    found = map_parts(draw_parts())
    assert found.shape == np.asarray(found).shape == (4, 5, 5)
    assert (len(found), found.size, found.nbytes) == (4, 100, 800)
    assert found.dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(found, copy=False)
    with pytest.raises(TypeError, match="unsupported"):
        found + 1


@pytest.mark.usefixtures("block_numbers")
def test_tasks_left_out_are_zero_and_the_others_as_they_were():
    parts, kept = draw_parts(), np.array([False, True, True, False])
    found = map_parts(parts).only(kept)
    expected = map_parts([part.only(kept) for part in parts])
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert not np.asarray(found)[~kept].any()
    assert not found.diagonals()[~kept].any()
    assert not found.products(np.ones((4, 1, 5)))[~kept].any()
    np.testing.assert_array_equal(
        np.asarray(found)[kept], np.asarray(map_parts(parts))[kept]
    )


def test_parts_without_rows_are_not_read():
    first, *_ = draw_parts()  # of task u alone
    broken = first.mapped_gram().parts[0]._replace(matrices=None)
    unread = MappedGrams((4, 5, 5), (broken,)).only(np.array([False, True, True, True]))
    assert unread.parts == ()
    assert not np.asarray(unread).any()
    assert not unread.products(np.ones((4, 2, 5))).any()


def test_a_shared_matrix_is_everybodys():
    shared = summarize(np.eye(3), np.arange(6.0).reshape(3, 2))
    found = shared.mapped_gram()
    np.testing.assert_array_equal(found, np.broadcast_to(shared.xx, (2, 3, 3)))


SETTINGS = {
    "plain": {},
    "standardised": {"standardize": True},
    "tied": {"fit_intercept": "tied", "standardize": True},
    "no intercept": {"fit_intercept": False},
    "correlations": {"feature_prior": FeaturePrior.from_correlation(3)},
    "adaptive": {"ties": "adaptive"},
    "nuclear": {"penalty": "nuclear"},
    "no penalty": {"lam": 0.0},
    "fista": {"solver": "fista"},
}


def statistics(n_tasks=5, n_features=7):
    X, y, task = make_related_tasks(
        n_tasks=n_tasks, n_features=n_features, random_state=0
    )
    return summarize(X, y, task)


def to_disk(held, folder):
    np.save(folder / "xx.npy", held.xx)
    return replace(held, xx=np.load(folder / "xx.npy", mmap_mode="r"))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_fits_are_those_of_statistics_in_memory(tmp_path, settings):
    held = statistics()
    model = MultiTaskRegressor(**{"lam": 3.0, "tol": 1e-10} | settings)
    expected = model.fit_statistics(held).coef_
    mapped = to_disk(held, tmp_path)
    np.testing.assert_allclose(
        model.fit_statistics(mapped).coef_, expected, rtol=1e-9, atol=1e-9
    )
    assert model.statistics_ is mapped


def test_one_task_is_no_exception(tmp_path):
    held = statistics(n_tasks=1)
    model = MultiTaskRegressor(2.0)
    expected = model.fit_statistics(held).coef_
    found = model.fit_statistics(to_disk(held, tmp_path)).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_only_matrices_on_disk_are_streamed(tmp_path):
    held = statistics()
    assert condense(held) is held
    assert isinstance(condense(to_disk(held, tmp_path)).xx, StreamedGrams)
    shared = to_disk(summarize(np.eye(3), np.ones((3, 2))), tmp_path)
    assert shared.is_shared
    assert condense(shared) is shared


@pytest.mark.parametrize("numbers", [1, 100, 2**20])
def test_blocks_of_any_size_give_the_same(monkeypatch, numbers):
    monkeypatch.setattr(on_disk, "BLOCK_NUMBERS", numbers)
    held = statistics(n_tasks=6)
    found = held.streamed()
    P = random_coef(held.shape)
    np.testing.assert_allclose(found.gram_product(P), held.gram_product(P), rtol=1e-12)
    np.testing.assert_array_equal(found.gram(), held.xx)
    np.testing.assert_allclose(found.raw_gram(), held.raw_gram(), rtol=1e-12)


def test_products_with_few_rows_read_these_rows_only():
    held = statistics()
    holes = held.xx.copy()
    holes[:, [0, 1, 2, 4, 6], :] = np.nan
    P = random_coef(held.shape)
    P[[0, 1, 2, 4, 6]] = 0.0
    found = held.derive(xx=holes).streamed().gram_product(P)
    np.testing.assert_allclose(found, held.gram_product(P), rtol=1e-9, atol=1e-9)


def test_few_features_come_into_memory_and_many_do_not():
    moments = statistics().streamed(most_held=5 * 3 * 3)
    assert isinstance(moments.restrict(np.arange(3)).xx, np.ndarray)
    part = moments.restrict(np.array([5, 0, 3, 1]))
    assert isinstance(part.xx, StreamedGrams)
    assert isinstance(part.restrict(np.array([0, 2])).xx, np.ndarray)
    assert part.restrict(np.array([0, 2])).features == moments.features


def test_what_does_not_fit_is_refused_with_the_arithmetic():
    moments = statistics().streamed(most_held=100)
    for look in (moments.gram, moments.raw_gram):
        with pytest.raises(MemoryError, match=r"5 tasks x 7² x 8 bytes are .* GB"):
            look()
    with pytest.raises(TypeError, match="do not hold samples"):
        moments.rows()


def problem_on(moments):
    ties: Laplacian = laplacian(TaskPrior.chain(), moments.tasks)
    D = difference_matrix(FeaturePrior.similar([(0, 1)]), moments)
    prior = QuadraticPrior(D, ties, 1.0, 1.0)
    return Problem(SquaredFit(moments, FreeIntercepts()), prior, L21(), 3.0)


@pytest.mark.parametrize("most_held", [0, 5 * 6 * 6])
def test_solvers_stream_what_cannot_be_held(most_held):
    held = statistics(n_features=40)
    stop = [gap_below(1e-12), max_iter(5000)]
    problem = problem_on(held)
    expected = solve(problem, default_method(problem), stop=stop)
    problem = problem_on(held.streamed(most_held))
    found = solve(problem, default_method(problem), stop=stop)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-5, atol=1e-5)
    assert found.certificate.gap <= 1e-12 * problem.null_objective


MEMORY = """
import sys
import numpy as np
from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.data import TaskStatistics
from processes import watch_memory

m, d, n = 150, 350, 30

rng = np.random.default_rng(0)
xx = np.lib.format.open_memmap(sys.argv[1], "w+", np.float64, (m, d, d))
X, y = rng.normal(size=(n, d)), rng.normal(size=(m, n)) / 4
X -= X.mean(axis=0)
y -= y.mean(axis=1, keepdims=True)
y += X[:, 0] - X[:, 7]
xx[:] = X.T @ X
del xx
statistics = TaskStatistics(
    np.full(m, float(n)), np.zeros((m, d)), np.zeros(m),
    np.load(sys.argv[1], mmap_mode="r"), y @ X, np.sum(y**2, axis=1), tuple(range(m)),
)
prior = FeaturePrior.from_correlation(5)
model = MultiTaskRegressor(lam=100.0, standardize=True, feature_prior=prior)
small = rng.normal(size=(600, 300))
model.fit(small, small[:, 0], task=np.arange(600) % 2)  # compiles
_, growth = watch_memory(lambda: model.fit_statistics(statistics))
print(growth, statistics.xx.nbytes // 2**20, model.coef_.any(axis=0).sum())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_fit_never_holds_what_lies_on_disk(tmp_path):
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "xx.npy")]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=beside_tests()
    )
    growth, size, active = map(int, result.stdout.split())
    assert size == 140
    assert 2 <= active < 50
    assert growth < size / 2


def halves(folder):
    """Statistics of two sets of rows of the same tasks, in memory and on disk."""
    X, y, task = make_related_tasks(n_tasks=5, n_features=7, random_state=0)
    pairs = []
    for name, rows in (("a", slice(None, None, 2)), ("b", slice(1, None, 2))):
        held = summarize(X[rows] + (name == "b"), y[rows], task[rows])
        (folder / name).mkdir()
        pairs.append((held, to_disk(held, folder / name)))
    return zip(*pairs, strict=True)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_sums_on_disk_are_fitted_as_those_in_memory(tmp_path, settings):
    held, mapped = halves(tmp_path)
    whole = mapped[0] + mapped[1]
    assert whole.is_mapped
    model = MultiTaskRegressor(**{"lam": 3.0, "tol": 1e-10} | settings)
    expected = model.fit_statistics(held[0] + held[1]).coef_
    found = model.fit_statistics(whole).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def without_sizes(statistics):
    lines = statistics._repr_html_().splitlines()
    return [line for line in lines if " MB<" not in line]


def test_sums_on_disk_have_all_that_statistics_have(tmp_path):
    held, mapped = halves(tmp_path)
    expected, found = held[0] + held[1], mapped[0] + mapped[1]
    check_statistics(found)
    assert repr(found) == repr(expected)
    assert without_sizes(found) == without_sizes(expected)
    P, some = random_coef(expected.shape), np.array([4, 0])
    for look in (
        lambda s: s.gram(),
        lambda s: s.raw_gram(),
        lambda s: s.gram_product(P),
        lambda s: s.model_products(np.stack([P.T, 2 * P.T])),
        lambda s: s.squared_deviations(),
        lambda s: s.within_task_products(some),
        lambda s: s.task_spectra(),
        lambda s: s.restrict(some).xx,
        lambda s: s.rescale(np.arange(1.0, 8.0)).xx,
        lambda s: s.only(np.arange(5) < 2).gram(),
        lambda s: (s + held[0]).xx,
        lambda s: (held[0] + s).xx,
    ):
        np.testing.assert_allclose(look(found), look(expected), rtol=1e-9, atol=1e-9)
    found.save(tmp_path / "file")
    loaded = TaskStatistics.load(tmp_path / "file")
    np.testing.assert_allclose(loaded.xx, expected.xx, rtol=1e-12, atol=1e-12)


def test_no_rows_on_disk_change_nothing(tmp_path):
    _, (one, _) = halves(tmp_path)
    nothing = one.only(np.zeros(5, dtype=bool))
    assert nothing.is_mapped
    assert not nothing.weight.any()
    total = nothing + one
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        np.testing.assert_array_equal(getattr(total, name), getattr(one, name))
