"""Two checkouts of this library against each other, on fits of ordinary size.

``python -m benchmarks.versions BEFORE AFTER [REPEATS]`` starts a process for each
checkout in turns. A process imports priormtl from the ``src`` of its checkout, fits
every workload once untimed, so that compiled code is loaded, and then several times.
The figures are CPU milliseconds, the best of all repeats and processes.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

TURNS = 3  # processes of each checkout
Fit = Callable[[], object]


def draw(
    seed: int, m: int, d: int, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, scores and tasks: m tasks of n rows whose coefficients are alike."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d))
    mean = np.where(np.arange(d) % 3 == 0, rng.standard_normal(d), 0.0)
    P = mean + 0.3 * rng.standard_normal((m, d)) * (mean != 0)
    return X, np.sum(X * P[task], axis=1) + rng.standard_normal(m * n), task


def workloads() -> dict[str, Fit]:
    """Fits by name."""
    from priormtl import (  # noqa: PLC0415
        FeaturePrior,
        MultiTaskClassifier,
        MultiTaskRegressor,
        MultiTaskRegressorCV,
    )

    school, wide = draw(0, 139, 27, 110), draw(1, 30, 80, 60)
    many, few = draw(2, 500, 20, 30), draw(3, 20, 15, 60)
    small = draw(4, 5, 4, 20)

    def regress(data: tuple, **settings: object) -> Fit:
        X, y, task = data
        return lambda: MultiTaskRegressor(**settings).fit(X, y, task=task)

    def classify(data: tuple, **settings: object) -> Fit:
        X, y, task = data
        labels = (y > 0).astype(int)
        return lambda: MultiTaskClassifier(**settings).fit(X, labels, task=task)

    X, y, task = few
    empty = np.random.default_rng(5).random(wide[0].shape) < 0.9
    sparse = csr_array(np.where(empty, 0.0, wide[0]))
    prior = FeaturePrior.similar([(0, 3), (6, 9)]) + FeaturePrior.nonnegative([12])
    tied = {"task_prior": "mean", "fit_intercept": "tied"}
    grid = MultiTaskRegressorCV(
        task_prior="mean", lams=10, epsilons=[0.1, 10.0], thetas=[0.0]
    )
    return {
        "139 × 27": regress(school, lam=30.0, epsilon=10.0, task_prior="chain"),
        "139 × 27 tied": regress(school, lam=30.0, epsilon=10.0, **tied),
        "30 × 80": regress(wide, lam=20.0, epsilon=10.0, task_prior="mean"),
        "500 × 20": regress(many, lam=30.0, epsilon=10.0, task_prior="mean"),
        "139 × 27, lam = 0": regress(school, lam=0.0, epsilon=10.0, **tied),
        "logistic free": classify(few, lam=3.0, epsilon=1.0, task_prior="mean"),
        "logistic tied": classify(few, lam=3.0, epsilon=1.0, **tied),
        "logistic 5 × 4": classify(small, lam=0.3, epsilon=1.0, task_prior="mean"),
        "logistic 5 × 4, lam = 0": classify(small, lam=0.0, epsilon=1.0, **tied),
        "sparse X": lambda: MultiTaskRegressor(20.0, epsilon=10.0).fit(
            sparse, wide[1], task=wide[2]
        ),
        "statements": regress(
            few, lam=3.0, theta=10.0, epsilon=1.0, feature_prior=prior
        ),
        "nuclear": regress(few, lam=20.0, epsilon=1.0, penalty="nuclear"),
        "cross-validation": lambda: grid.fit(X, y, task=task),
    }


def measure(repeats: int) -> dict[str, float]:
    """Best CPU milliseconds of each workload in this process."""
    best = {}
    for name, fit in workloads().items():
        fit()
        seconds = []
        for _ in range(repeats):
            begin = time.process_time()
            fit()
            seconds.append(time.process_time() - begin)
        best[name] = 1e3 * min(seconds)
    return best


def run(checkout: Path, repeats: int) -> dict[str, float]:
    """Measure a checkout in a process of its own."""
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = os.environ | one | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(Path(__file__).resolve()), str(repeats)]
    done = subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True
    )
    return json.loads(done.stdout)


def main(before: str, after: str, repeats: str = "15") -> None:
    """Print both times and their ratio."""
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(TURNS):
        for found, checkout in zip(best, (before, after), strict=True):
            for name, value in run(Path(checkout).resolve(), int(repeats)).items():
                found[name] = min(value, found.get(name, value))
    print("| workload | before, ms | after, ms | after / before |\n|---|---|---|---|")
    for name, first in best[0].items():
        second = best[1][name]
        print(f"| {name} | {first:.2f} | {second:.2f} | {second / first:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(*sys.argv[1:])
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(json.dumps(measure(int(sys.argv[1]))))
