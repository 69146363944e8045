"""Nuclear norm: auto against fista."""

from collections.abc import Iterator

from benchmarks import tables
from benchmarks.duel import duel_report
from benchmarks.report import Report
from priormtl.data import TaskData, summarize_tasks
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import Nuclear
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior

TITLE = "Nuclear norm"
SHARES = (0.9, 0.5, 0.3, 0.1, 0.01, 0.001)


def measure(quick: bool) -> Report:
    """School and Sarcos over strengths."""
    note = "Squared loss, chain of tasks (ε = 1), free intercepts, features scaled."
    return duel_report(TITLE, note, problems(quick), 3 if quick else 7)


def problems(quick: bool) -> Iterator[tuple[str, Problem]]:
    """Strengths from near λ_max down, for each table."""
    sources = {"School": tables.load_school_tasks(), "Sarcos": tables.load_sarcos()}
    for name, data in sources.items():
        for share in SHARES[2:4] if quick else SHARES:
            yield f"{name}, {share:g} λ_max", _problem(data, share)


def _problem(data: TaskData, share: float) -> Problem:
    fit = Squared().bind(summarize_tasks(data), FreeIntercepts())
    none = QuadraticPrior.none(*data.shape)
    graph = laplacian(TaskPrior.chain(), data.tasks)
    prior = QuadraticPrior(none.D, graph, 0.0, 1.0)
    problem = Problem(fit, prior, Nuclear(), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)
