"""Logistic loss: auto against fista."""

from collections.abc import Iterator

from benchmarks import tables
from benchmarks.duel import duel_report
from benchmarks.report import Report
from benchmarks.workloads.images import grid_problem
from priormtl.data import centre_samples
from priormtl.losses import FreeIntercepts, Logistic
from priormtl.penalties import L21
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import Problem, QuadraticPrior

TITLE = "Logistic loss"
SHARES = (0.1, 0.02)


def measure(quick: bool) -> Report:
    """School above or below the median, and pairs of digits."""
    note = (
        "School: natural prior of ten pairs (θ = 10), chain (ε = 1). MNIST: 45 pairs "
        "of digits, grid prior (θ = 1), chain (ε = 1). Free intercepts."
    )
    return duel_report(TITLE, note, problems(quick), 1 if quick else 3)


def problems(quick: bool) -> Iterator[tuple[str, Problem]]:
    """Two strengths for each table."""
    count = 300 if quick else 1000
    for share in SHARES[:1] if quick else SHARES:
        yield f"School, {share:g} λ_max", _school(share)
        digits = tables.load_mnist(count)
        name = f"MNIST, {count} images, {share:g} λ_max"
        yield name, grid_problem(digits, 28, Logistic(), share)


def _school(share: float) -> Problem:
    data = tables.load_school_classes()
    D = difference_matrix(FeaturePrior.from_correlation(10), centre_samples(data))
    graph = laplacian(TaskPrior.chain(), data.tasks)
    fit = Logistic().bind(data, FreeIntercepts())
    problem = Problem(fit, QuadraticPrior(D, graph, 10.0, 1.0), L21(), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)
