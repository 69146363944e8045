import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LAYOUTS,
    LOSSES,
    build_problem,
    from_lists,
    kind_of_intercepts,
    random_tasks,
    sine_problem,
    with_signs,
    write_out,
)
from priormtl.losses import Logistic
from priormtl.priors import FeaturePrior, TaskPrior
from priormtl.problem import (
    bound_constants,
    curvature,
    exact_constants,
    largest_curvature,
    paper_constants,
)

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_KIND = pytest.mark.parametrize("intercepts", INTERCEPTS)
TIES = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(weight=2.0),
    "graph": TaskPrior.from_graph([(0, 2, 3.0), (1, 2, 0.5)]),
}


def example(loss="squared", layout="stacked", intercepts="absent", **parts):
    data = random_tasks(layout, m=3, d=4)
    return build_problem(
        with_signs(data) if loss == "logistic" else data,
        loss=LOSSES[loss],
        intercepts=kind_of_intercepts(intercepts, 3),
        **{"lam": 0.5, "theta": 0.5, "epsilon": 0.8} | parts,
    )


def dense_spectrum(problem, multiply=None):
    return np.linalg.eigvalsh(write_out(multiply or problem.majorant, problem.shape))


@EVERY_KIND
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_constants_are_the_extreme_eigenvalues(layout, intercepts):
    problem = example("squared", layout, intercepts)
    values = dense_spectrum(problem)
    sigma, largest = exact_constants(problem)
    assert largest == pytest.approx(values[-1], rel=1e-12)
    assert sigma == pytest.approx(values[0], rel=1e-9)


def test_logistic_constants_are_a_quarter_bound_and_the_prior_alone():
    signed = FeaturePrior.similar([(0, 1), (1, 2), (2, 3)])
    signed = signed + FeaturePrior.opposite([(0, 2)])
    problem = example("logistic", pairs=signed)
    sigma, largest = exact_constants(problem)
    assert largest == pytest.approx(dense_spectrum(problem)[-1])
    assert sigma > 0
    assert sigma == pytest.approx(dense_spectrum(problem, problem.prior.gradient)[0])


@EVERY_LOSS
@EVERY_KIND
@pytest.mark.parametrize("ties", TIES)
def test_large_problems_get_the_same_constants(monkeypatch, loss, intercepts, ties):
    problem = example(loss, "stacked", intercepts, ties=TIES[ties])
    direct = exact_constants(problem)
    monkeypatch.setattr(curvature, "DENSE_SIZE", 5)
    lanczos = exact_constants(problem)
    assert direct.smoothness <= lanczos.smoothness * (1 + 1e-9)
    assert lanczos.smoothness <= direct.smoothness * (1 + 2e-6)
    margin = 2e-6 * direct.smoothness
    assert lanczos.strong_convexity == pytest.approx(
        direct.strong_convexity, abs=margin
    )
    assert largest_curvature(problem) == lanczos.smoothness


def test_many_features_get_the_same_constants(monkeypatch):
    problem = sine_problem(m=4, d=5)
    direct = exact_constants(problem)
    monkeypatch.setattr(curvature, "DENSE_SIZE", 2)
    lanczos = exact_constants(problem)
    assert lanczos.strong_convexity == pytest.approx(direct.strong_convexity, rel=1e-4)
    assert lanczos.smoothness == pytest.approx(direct.smoothness, rel=2e-6)


@pytest.mark.parametrize("dense_size", [2, 30, 800])
def test_deficient_rank_is_exactly_zero(monkeypatch, dense_size):
    monkeypatch.setattr(curvature, "DENSE_SIZE", dense_size)
    assert exact_constants(sine_problem(m=4, d=40, epsilon=5.0)).strong_convexity == 0.0


@pytest.mark.parametrize("dense_size", [2, 800])
def test_deficient_rank_of_one_task_without_ties_is_exactly_zero(
    monkeypatch, dense_size
):
    monkeypatch.setattr(curvature, "DENSE_SIZE", dense_size)
    problem = sine_problem(m=4, d=5, theta=0.0, epsilon=0.0)  # task 0: 4 rows
    assert exact_constants(problem).strong_convexity == 0.0


def test_zero_features_have_no_curvature(monkeypatch):
    problem = build_problem(from_lists([np.zeros((3, 4))] * 2, [np.ones(3)] * 2), lam=1)
    assert exact_constants(problem) == (0.0, 0.0)
    monkeypatch.setattr(curvature, "DENSE_SIZE", 2)
    assert exact_constants(problem) == (0.0, 0.0)


def test_equal_curvature_in_all_directions_is_found(monkeypatch):
    data = from_lists([np.eye(4)] * 3, [np.ones(4)] * 3)
    monkeypatch.setattr(curvature, "DENSE_SIZE", 2)
    constants = exact_constants(build_problem(data, lam=1.0))
    assert constants == pytest.approx((1.0, 1.0), abs=3e-6)


@EVERY_LOSS
@EVERY_KIND
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bounds_bracket_the_truth(loss, layout, intercepts, ties):
    weights = np.array([2.0, 0.5, 1.0, 0.0])
    problem = example(loss, layout, intercepts, ties=TIES[ties], tie_weights=weights)
    sigma, largest = bound_constants(problem)
    values = dense_spectrum(problem)
    assert sigma <= values[0] + 1e-12 * values[-1]
    assert largest >= values[-1] * (1 - 1e-12)


def test_bound_is_used_where_lanczos_finds_nothing(monkeypatch):
    problem = sine_problem()
    monkeypatch.setattr(curvature, "DENSE_SIZE", 2)
    monkeypatch.setattr(curvature, "_lanczos", lambda *_: None)
    assert largest_curvature(problem) == bound_constants(problem).smoothness


def test_bound_is_attained_by_aligned_blocks():
    X = np.diag([1.0, 0.5, 0.25])
    data = from_lists([X] * 6, [np.ones(3)] * 6)
    problem = build_problem(data, lam=0.1, epsilon=1.0, pairs=FeaturePrior.similar([]))
    assert bound_constants(problem).smoothness == pytest.approx(4.7320508, abs=1e-7)
    assert exact_constants(problem).smoothness == pytest.approx(4.7320508, abs=1e-7)


def test_paper_constants_are_the_papers_formulas():
    problem = sine_problem(m=4, d=5, theta=0.5, epsilon=0.8)
    blocks = [X.T @ X for X in sine_blocks(problem)]
    tops = [np.linalg.eigvalsh(block)[-1] for block in blocks]
    sigma, largest = paper_constants(problem)
    assert largest == pytest.approx(max(tops) + 0.5 * 2.0 + 2 * 0.8)
    assert sigma == pytest.approx(0.8)  # task 0 has fewer rows than features


def sine_blocks(problem):
    """Square roots of the task blocks of the data fit."""
    hessian = write_out(problem.fit.majorant, problem.shape)
    d, m = problem.shape
    tensor = hessian.reshape(d, m, d, m)
    for i in range(m):
        values, vectors = np.linalg.eigh(tensor[:, i, :, i])
        yield (vectors * np.sqrt(np.maximum(values, 0.0))).T


def test_lanczos_gives_equal_bits_every_time(monkeypatch):
    monkeypatch.setattr(curvature, "DENSE_SIZE", 2)
    problem = sine_problem(m=8, d=5)
    assert exact_constants(problem) == exact_constants(problem)


def test_logistic_bound_covers_ties_of_intercepts():
    data = with_signs(random_tasks("shared-wide", m=3, d=4))
    problem = build_problem(
        data, lam=0.1, loss=Logistic(), intercepts=kind_of_intercepts("tied", 3)
    )
    assert bound_constants(problem).smoothness >= exact_constants(problem).smoothness
