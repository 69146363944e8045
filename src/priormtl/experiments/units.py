"""What is computed: units of work, each with rows that depend on its settings alone.

Scores of a method on a split, ROC curves, surfaces of a metric over the strengths, and
the convergence of the solvers. The settings of a unit are its key in the store: do not
change them unless the rows change.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from math import sqrt
from time import process_time
from typing import ClassVar

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_curve

import priormtl
from priormtl._arrays import Array, Index
from priormtl.data import pooled_scale, summarize_tasks, to_tasks
from priormtl.datasets import SOURCES, Rows, TaskSet, make_related_tasks
from priormtl.estimators import regularization_path
from priormtl.experiments.methods import METHODS, OURS, Scored, Training, fit_method
from priormtl.experiments.protocol import (
    Split,
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)
from priormtl.experiments.rendering.measurements import PAPERS_LINEAR, SMALL_CHANGE
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared
from priormtl.metrics import auc
from priormtl.penalties import L21
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import Problem, QuadraticPrior, exact_constants, paper_constants
from priormtl.solvers import METHODS as SOLVERS
from priormtl.solvers import Linear, Solver, gap_below, iterate, solve, stalled


def _schema(columns: str) -> pa.Schema:
    """Columns in words such as ``repeat:int``; those without a type are text."""
    types = {"": pa.string(), "int": pa.int32(), "float": pa.float64()}
    pairs = (word.partition(":") for word in columns.split())
    return pa.schema([(name, types[kind]) for name, _, kind in pairs])


# Scores.

# size: training rows per task, or images per class. wrong: share of wrong relations.
# task: null for all tasks together. seconds: CPU time of tuning and fit.
SCORES = _schema(
    "dataset method size:int wrong:float repeat:int metric task value:float "
    "seconds:float strengths version"
)


@dataclass(frozen=True)
class ScoreUnit:
    """One method, tuned and fitted on one split, scored on its test rows.

    A cell of a table, or a point of a curve.
    """

    dataset: str
    method: str
    repeat: int
    size: int | None = None  # None: the paper's split
    wrong: float | None = None  # share of wrong relations; None: as they are
    quick: bool = False

    @property
    def label(self) -> str:
        size = "" if self.size is None else f", size {self.size}"
        wrong = "" if self.wrong is None else f", {self.wrong:.0%} wrong"
        return f"{self.dataset}, {self.method}{size}{wrong}, repeat {self.repeat}"

    @property
    def family(self) -> tuple[str, ...]:
        return (self.dataset, self.method, str(self.size))

    def settings(self) -> dict[str, object]:
        protocol = find_protocol(self.dataset, quick=self.quick)
        grid: dict[str, object] = {"n_settings": protocol.n_settings}
        if self.method in OURS:
            grid = {"budget": asdict(protocol.budget), "held_out": protocol.held_out}
        return {
            "kind": "scores",
            "method": self.method,
            "method_version": METHODS[self.method].version,
            "repeat": self.repeat,
            "size": self.size,
            "wrong": self.wrong,
            **grid,
            **protocol.settings(),
        }

    def prepare(self) -> tuple[TaskSet, Split, Training]:
        protocol = find_protocol(self.dataset, quick=self.quick)
        data = load_rows(self.dataset)
        split = make_split(protocol, data, self.repeat, self.size)
        training = Training(
            data,
            split.train,
            split.folds,
            budget=protocol.budget,
            n_settings=protocol.n_settings,
            tol=protocol.tol,
            seed=self.repeat,
            wrong=self.wrong or 0.0,
            held_out=protocol.held_out,
        )
        return data, split, training

    def compute(self) -> pa.Table:
        test, fitted, seconds = fit_unit(self)
        common = asdict(self) | {
            "seconds": seconds,
            "strengths": json.dumps(fitted.strengths, sort_keys=True),
            "version": priormtl.__version__,
        }
        scores = score_tasks(load_rows(self.dataset), test, fitted.scores)
        rows = [common | score._asdict() for score in scores]
        return pa.Table.from_pylist(rows, schema=SCORES)


@lru_cache(maxsize=1)
def fit_unit(unit: ScoreUnit) -> tuple[Rows, Scored, float]:
    """Targets and scores of the test rows, and CPU seconds of tuning and fit.

    The last one is kept: scores and ROC curves of a method need the same fit.
    """
    _, split, training = unit.prepare()
    begin = process_time()
    fitted = fit_method(METHODS[unit.method], training, split)
    seconds = process_time() - begin
    return split.test._replace(X=split.test.X[:0]), fitted, seconds


# ROC curves.

ROC = _schema("dataset method repeat:int task fpr:float tpr:float auc:float")
GRID = np.linspace(0.0, 1.0, 101)  # of false positive rates, common to all curves


@dataclass(frozen=True)
class RocUnit:
    """ROC curves of all tasks of one data set: a panel of the paper's Figure 2."""

    dataset: str
    method: str = "natural"
    repeat: int = 0
    quick: bool = False

    @property
    def label(self) -> str:
        return f"{self.dataset}, ROC curves of {self.method}, repeat {self.repeat}"

    @property
    def family(self) -> tuple[str, ...]:
        return self._scores.family

    @property
    def _scores(self) -> ScoreUnit:
        return ScoreUnit(self.dataset, self.method, self.repeat, quick=self.quick)

    def settings(self) -> dict[str, object]:
        return self._scores.settings() | {"kind": "roc", "points": len(GRID)}

    def compute(self) -> pa.Table:
        (_, y, task), fitted, _ = fit_unit(self._scores)
        data, scores = load_rows(self.dataset), fitted.scores
        areas = np.asarray(auc(y, scores, task=task, average=None))
        rows = []
        for i, (name, area) in enumerate(zip(data.task_names, areas, strict=True)):
            one = (slice(None), i) if task is None else task == name
            fpr, tpr, _ = roc_curve(y[one], scores[one])
            common = asdict(self) | {"task": name, "auc": area}
            points = zip(GRID, np.interp(GRID, fpr, tpr), strict=True)
            rows += [common | {"fpr": x, "tpr": rate} for x, rate in points]
        return pa.Table.from_pylist(rows, schema=ROC)


# Surfaces.

SURFACES = _schema(
    "dataset repeat:int lam:float theta:float epsilon:float metric value:float"
)


@dataclass(frozen=True)
class SurfaceUnit:
    """Metrics over (lam, theta, epsilon): a row of the paper's Figure 3.

    Natural prior, chain of tasks, each strength from 1 to 100, no tuning.
    """

    dataset: str
    repeat: int = 0
    quick: bool = False
    tol: ClassVar = 1e-3

    @property
    def label(self) -> str:
        return f"{self.dataset}, surface over strengths, repeat {self.repeat}"

    @property
    def family(self) -> tuple[str, ...]:
        return ("surface", self.dataset)

    @property
    def _strengths(self) -> tuple[float, ...]:
        return (1.0, 10.0, 100.0) if self.quick else (1.0, 3.0, 10.0, 30.0, 100.0)

    def settings(self) -> dict[str, object]:
        return {
            "kind": "surfaces",
            "repeat": self.repeat,
            "strengths": self._strengths,
            "gap": self.tol,
            **find_protocol(self.dataset, quick=self.quick).settings(),
        }

    def compute(self) -> pa.Table:
        protocol = find_protocol(self.dataset, quick=self.quick)
        data = load_rows(self.dataset)
        split = make_split(protocol, data, self.repeat)
        X, y, task = split.train
        rows = []
        for theta, epsilon in product(self._strengths, repeat=2):
            path = regularization_path(
                X,
                y,
                task=task,
                lams=self._strengths,
                theta=theta,
                epsilon=epsilon,
                feature_prior=FeaturePrior.from_correlation(strongest=X.shape[1]),
                tol=self.tol,
            )
            for lam, *fit in zip(path.lams, path.coefs, path.intercepts, strict=True):
                scores = _predict(split, path.tasks, *fit) * split.unit
                strengths = {"lam": float(lam), "theta": theta, "epsilon": epsilon}
                rows += [
                    asdict(self) | strengths | score._asdict()
                    for score in score_tasks(data, split.test, scores)
                    if score.task is None and not score.metric.endswith("_tasks")
                ]
        return pa.Table.from_pylist(rows, schema=SURFACES)


def _predict(split: Split, tasks: np.ndarray, coef: Array, intercept: Array) -> Array:
    test = split.test
    if test.task is None:
        return test.X @ coef.T + intercept
    scores = np.empty(len(test.y))
    for name, p, constant in zip(tasks, coef, intercept, strict=True):
        rows = test.task == name
        scores[rows] = test.X[rows] @ p + constant
    return scores


# Convergence.

# excess: objective minus optimum; start: the same at P = 0; change: of the objective
# since the iteration before. sigma, smoothness: extreme eigenvalues of the Hessian.
# Bounds of the theorems are rows too, with these constants and with the paper's.
CONVERGENCE = _schema(
    "problem algorithm iteration:int seconds:float excess:float change:float "
    "start:float sigma:float smoothness:float"
)
ALGORITHMS = (*SOLVERS, PAPERS_LINEAR, "auto")
REACHED = 1e-10  # excess at which a curve ends, relative to the start
DIVERGED = 1e20  # the same, of a run that goes the other way


@dataclass(frozen=True)
class Instance:
    """A problem to be solved by all algorithms, or a counterexample."""

    theta: float
    epsilon: float
    lam: float  # as a share of lam_max; of the tasks of sines: lam itself
    dataset: str | None = None
    sines: int = 0  # number of such tasks; 0: related tasks, if there is no data set
    algorithms: tuple[str, ...] = ALGORITHMS

    def pose(self) -> Problem:
        """Chain of tasks; natural prior and free intercepts but for the sines."""
        if self.sines:
            statistics = summarize_tasks(to_tasks(*_sine_tasks(self.sines)))
            pairs = FeaturePrior.similar([(0, 1), (2, 3)])
            fit = Squared().bind(statistics, NoIntercepts())
        else:
            if self.dataset is not None:
                protocol = find_protocol(self.dataset)
                train = make_split(protocol, load_rows(self.dataset), repeat=0).train
                statistics = summarize_tasks(to_tasks(*train))
                statistics = statistics.rescale(pooled_scale(statistics))
            else:
                data = make_related_tasks(50, 30, 20, noise=2.0, random_state=0)
                statistics = summarize_tasks(to_tasks(data.X, data.y, data.task))
            pairs = FeaturePrior.from_correlation(strongest=statistics.shape[0])
            fit = Squared().bind(statistics, FreeIntercepts())
        D = difference_matrix(pairs, statistics)
        graph = laplacian(TaskPrior.chain(), statistics.tasks)
        prior = QuadraticPrior(D, graph, self.theta, self.epsilon)
        problem = Problem(fit, prior, L21(), 1.0)
        return problem.with_strengths(
            lam=self.lam if self.sines else self.lam * problem.lam_max
        )


def _sine_tasks(m: int, d: int = 5) -> tuple[Array, Array, Index]:
    """Tasks without random numbers, of 4, 5, … rows: X, y and the task of each row."""
    b = np.arange(1.0, d + 1)
    shared = np.append([1.5, -1.0, 0.5], np.zeros(d - 3))
    tables, targets = [], []
    for i in range(m):
        a = np.arange(1.0, 5.0 + i)
        X = np.sin(1.3 * (i + 1) + 0.7 * np.outer(a, b) + 0.4 * b)
        p = (1 + 0.2 * i) * shared + 0.1 * np.sin(b * (i + 1)) * (b <= 5)
        tables.append(X)
        targets.append(X @ p + 0.3 * np.cos(2.1 * a + (i + 1)))
    task = np.repeat(np.arange(m), [len(y) for y in targets])
    return np.vstack(tables), np.concatenate(targets), task


# The paper's Figure 1, and counterexamples of the errata with strong coupling.
INSTANCES = {
    "synthetic": Instance(10.0, 10.0, 0.1),
    "school": Instance(10.0, 10.0, 0.1, "school"),
    "four tasks, epsilon = 50": Instance(
        0.5, 50.0, 0.05, sines=4, algorithms=("linear", PAPERS_LINEAR)
    ),
    "eight tasks, epsilon = 50": Instance(
        0.5, 50.0, 0.05, sines=8, algorithms=("linear", PAPERS_LINEAR)
    ),
    "school, epsilon = 5000": Instance(
        10.0, 5000.0, 0.1, "school", algorithms=("linear", PAPERS_LINEAR)
    ),
}


@dataclass(frozen=True)
class ConvergenceUnit:
    """Objective minus optimum of all solvers: a row of the paper's Figure 1.

    Of counterexamples, the paper's Algorithm 3 alone.
    """

    problem: str  # of INSTANCES
    quick: bool = False
    version: int = 4
    runs: ClassVar = 3  # of each algorithm; the least time of each iteration counts

    @property
    def label(self) -> str:
        return f"convergence on {self.problem}"

    @property
    def family(self) -> tuple[str, ...]:
        return ("convergence", self.problem)

    @property
    def _most(self) -> int:
        return 300 if self.quick else 3000

    def settings(self) -> dict[str, object]:
        instance = INSTANCES[self.problem]
        source = SOURCES.get(instance.dataset or "")
        return {
            "kind": "convergence",
            "problem": self.problem,
            "data": source and {name: a.digest for name, a in source.arrays.items()},
            "instance": asdict(instance),
            "most": self._most,
            "runs": self.runs,
            "version": self.version,
            "priormtl": priormtl.__version__,
        }

    def compute(self) -> pa.Table:
        instance = INSTANCES[self.problem]
        problem = instance.pose()
        # The optimum is that of the default solver, to the last digits.
        method = Solver("auto").choose(problem)
        solution = solve(
            problem, method, stop=(gap_below(1e-13, method.check_every), stalled())
        )
        optimum = solution.certificate.primal
        start = problem.null_objective - optimum
        exact = exact_constants(problem)
        # Evenly spaced on a logarithmic scale.
        kept = np.unique(np.geomspace(1, self._most, 200).round().astype(int))
        rows: list[dict[str, object]] = []
        for name in instance.algorithms:
            runs = [
                list(_trace(problem, name, optimum, kept)) for _ in range(self.runs)
            ]
            # Runs differ in their times only, not in their iterations.
            for same in zip(*runs, strict=True):
                least = min(point["seconds"] for point in same)
                rows.append(same[0] | {"algorithm": name, "seconds": least})
        # V_k ≤ (1 − √(σ/L))^k (V_0 + σ/2 ‖P_0 − P*‖²), the paper's theorem, P_0 = 0.
        distance = float(np.sum(solution.coef**2))
        bounds = {}
        for name, (sigma, largest) in {
            "theorem": exact,
            "theorem, paper's constants": paper_constants(problem),
        }.items():
            rate, first = 1.0 - sqrt(sigma / largest), start + sigma / 2.0 * distance
            bounds[name] = first * rate**kept
        # V_k ≤ L/(2k) ‖P_0 − P*‖² (Beck and Teboulle 2009, theorem 3.1).
        bounds["theorem, Algorithm 2"] = exact.smoothness * distance / (2.0 * kept)
        for name, values in bounds.items():
            for k, value in zip(kept.tolist(), values.tolist(), strict=True):
                if value >= REACHED * start:
                    rows.append({"algorithm": name, "iteration": k, "excess": value})
        common = {"problem": self.problem, "start": start}
        common |= {"sigma": exact.strong_convexity, "smoothness": exact.smoothness}
        return pa.Table.from_pylist([common | row for row in rows], schema=CONVERGENCE)


def _trace(
    problem: Problem, name: str, optimum: float, kept: Index
) -> Iterator[dict[str, float]]:
    """Points of a run, until it is near the optimum, lost or at its last iteration.

    Besides those kept, the first one at which the paper's rule would stop.
    """
    problem.memo.clear()  # of what an earlier run has computed
    start = problem.null_objective - optimum
    is_papers = name == PAPERS_LINEAR
    method = Linear(paper_constants) if is_papers else Solver(name).choose(problem)
    run = iterate(problem, method)
    seconds, shown, last = 0.0, set(kept.tolist()), False
    before, stopped = np.inf, False
    while not last:
        begin = process_time()  # other programs do not count
        progress = next(run)
        seconds += process_time() - begin
        objective = progress.objective
        excess, change = max(objective - optimum, 0.0), abs(objective - before)
        stops, before = change < SMALL_CHANGE and not stopped, objective
        stopped = stopped or stops
        last = excess <= REACHED * start or progress.n_iter >= kept[-1]
        last = last or not excess < DIVERGED * start
        if last or stops or progress.n_iter in shown:
            point = {"iteration": progress.n_iter, "seconds": seconds}
            yield point | {"excess": excess, "change": change}


# Rows of each kind, and the units that compute them.
KINDS = {
    "scores": (ScoreUnit, SCORES),
    "convergence": (ConvergenceUnit, CONVERGENCE),
    "roc": (RocUnit, ROC),
    "surfaces": (SurfaceUnit, SURFACES),
}


# A bound on what linear models can reach on School.


def school_in_sample() -> tuple[float, float, float]:
    """Variance explained by least squares on all pupils of School, its training data.

    Without and with an effect (an intercept) of each school, and with slopes of each.
    """
    X, y, task = load_rows("school")
    schools = (task[:, np.newaxis] == np.unique(task)).astype(np.float64)

    def error(intercepts: Array, rows: Array | slice = slice(None)) -> float:
        design = np.hstack([intercepts[rows], X[rows]])
        coef, *_ = np.linalg.lstsq(design, y[rows], rcond=None)
        return float(np.sum((y[rows] - design @ coef) ** 2))

    constant = np.ones((len(y), 1))
    slopes = sum(error(constant, task == name) for name in np.unique(task))
    total = float(np.sum((y - y.mean()) ** 2))
    pooled, effects = error(constant), error(schools)
    return 1.0 - pooled / total, 1.0 - effects / total, 1.0 - slopes / total
