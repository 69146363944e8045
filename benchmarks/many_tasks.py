"""Measure fits of many tasks: ``python -m benchmarks.many_tasks memory 1000000``.

The first argument is where the rows are: ``memory`` (arrays), ``files`` (a Parquet
file, with coefficients written to another), ``dask`` (two workers) or ``spark``
(local[2]); ``groups`` is 125,066 groups with random intercept and slope in a million
rows; ``page`` measures all and writes the table of docs/guide/scale.md. The second is
the number of tasks, of 10 rows and 20 features each; ``--loss`` is squared or logistic.
Ties are adaptive. Prints seconds of processor of this process and its descendants, and
the peak of memory of this process, which is the driver.

On a machine that is shared, seconds of processor are what counts; on two free cores
they take a little more than half of the time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import process_memory
from priormtl import MultiTaskClassifier, MultiTaskRegressor, engines

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "scale.md"
BEGIN, END = "<!-- benchmarks.many_tasks -->", "<!-- end -->"
D, ROWS = 20, 10
SETTINGS = {
    "lam": 0.0,
    "theta": 0.0,
    "task_prior": "mean",
    "ties": "adaptive",
    "fit_intercept": "tied",
    "intercept_strength": "adaptive",
}


def draw(begin: int, end: int, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of some tasks, whose coefficients vary by 0.1 to 1."""
    rng = np.random.default_rng(begin)
    mean = np.random.default_rng(10**9).normal(size=D)
    P = rng.normal(size=(end - begin, D)) * np.linspace(0.1, 1.0, D) + mean
    task = np.repeat(np.arange(begin, end), ROWS)
    X = rng.normal(size=(len(task), D))
    eta = np.einsum("ij,ij->i", X, P[task - begin])
    eta += np.repeat(rng.normal(size=end - begin), ROWS)
    if loss == "squared":
        return X, eta + rng.normal(size=len(task)), task
    return X, (rng.random(len(task)) < 1 / (1 + np.exp(-eta))) * 1.0, task


def spans(m: int) -> list[tuple[int, int]]:
    """Tasks that are drawn at a time."""
    return [(a, min(a + 10_000, m)) for a in range(0, m, 10_000)]


def write(path: Path, m: int, loss: str) -> None:
    """Write rows of all tasks to a folder of Parquet files."""
    path.mkdir()
    for number, (begin, end) in enumerate(spans(m)):
        X, y, task = draw(begin, end, loss)
        columns = {f"x{j}": X[:, j] for j in range(D)} | {"y": y, "task": task}
        pq.write_table(pa.table(columns), path / f"{number:04d}.parquet")


def fit_memory(m: int, loss: str) -> object:
    """Fit arrays; the clock starts once they are there."""
    X, y = np.empty((m * ROWS, D)), np.empty(m * ROWS)
    for a, b in spans(m):
        X[a * ROWS : b * ROWS], y[a * ROWS : b * ROWS], _ = draw(a, b, loss)
    task = np.repeat(np.arange(m), ROWS)
    with Measured("memory", m, loss):
        return make(loss).fit(X, y, task=task)


def fit_groups() -> object:
    """125,066 groups with random intercept and slope."""
    rng = np.random.default_rng(0)
    m, n = 125_066, 10**6
    task, x = np.sort(rng.integers(0, m, n)), rng.normal(size=(n, 1))
    y = (1 + 0.5 * rng.normal(size=m))[task] + rng.normal(size=n)
    y += (2 + 0.3 * rng.normal(size=m))[task] * x[:, 0]
    with Measured("groups", m, "squared"):
        return make("squared").fit(x, y, task=task)


def make(loss: str) -> MultiTaskRegressor | MultiTaskClassifier:
    """Model that is fitted."""
    kind = MultiTaskRegressor if loss == "squared" else MultiTaskClassifier
    return kind(**SETTINGS)


def fit_where(place: str, m: int, loss: str) -> object:
    """Fit rows of Parquet files by an engine, with coefficients in files."""
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder) / "rows", Path(folder) / "out"
        write(rows, m, loss)
        columns = {"task": "task", "target": "y", "out": out}
        if place == "files":
            with Measured(place, m, loss):
                return engines.fit(make(loss), rows, **columns, folder=folder)
        if place == "dask":
            import dask.dataframe as dd  # noqa: PLC0415
            from distributed import Client, LocalCluster  # noqa: PLC0415

            with (
                LocalCluster(
                    2, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                table = dd.read_parquet(rows)
                with Measured(place, m, loss):
                    return engines.dask.fit(make(loss), table, **columns, client=client)
        from pyspark.sql import SparkSession  # noqa: PLC0415

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]")
        builder = builder.config("spark.driver.memory", "4g")
        builder = builder.config("spark.ui.enabled", "false")
        session = builder.getOrCreate()
        table = session.read.parquet(str(rows))
        with Measured(place, m, loss):
            return engines.spark.fit(make(loss), table, **columns, n_parts=16)


class Measured:
    """Print seconds of processor and the peak of memory of what is done inside."""

    def __init__(self, place: str, m: int, loss: str) -> None:
        self.found: dict[str, object] = {"place": place, "tasks": m, "loss": loss}

    def __enter__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        self.found["before"] = memory("VmRSS")
        self.begin, self.wall = processor(), perf_counter()

    def __exit__(self, *error: object) -> None:
        self.found["processor"] = processor() - self.begin
        self.found["seconds"] = perf_counter() - self.wall
        self.found["peak"] = memory("VmHWM")
        print(json.dumps(self.found), flush=True)


def processor() -> float:
    """Seconds of processor of this process, its children, and theirs."""
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (me, *me.children(recursive=True)))


def memory(field: str) -> float:
    """GiB of this process: VmRSS now, or VmHWM at the peak."""
    return process_memory(field) / 2**30


def write_page(m: int) -> None:
    """Measure all, each in a process of its own, and write a table to the page."""
    asked = [("groups",), ("memory",), ("memory", "--loss", "logistic")]
    asked += [("files",), ("files", "--loss", "logistic"), ("dask",)]
    asked += [("spark",)] if find_spec("pyspark") else []
    lines = [
        "| rows in | loss | tasks | seconds of processor | peak, GiB | before, GiB |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for place, *options in asked:
        command = [sys.executable, "-m", "benchmarks.many_tasks", place, str(m)]
        out = subprocess.run(
            [*command, *options], check=True, capture_output=True, text=True
        )
        found = json.loads(out.stdout.splitlines()[-1])
        lines.append(
            f"| {found['place']} | {found['loss']} | {found['tasks']:,} | "
            f"{found['processor']:.1f} | {found['peak']:.2f} | {found['before']:.2f} |"
        )
        print(lines[-1], flush=True)
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    table = "\n".join(lines)
    page = f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    places = ["memory", "files", "dask", "spark", "groups", "page"]
    parser.add_argument("place", choices=places)
    parser.add_argument("tasks", type=int, nargs="?", default=100_000)
    parser.add_argument("--loss", default="squared", choices=["squared", "logistic"])
    asked = parser.parse_args()
    if asked.place == "page":
        write_page(asked.tasks)
    elif asked.place == "groups":
        fit_groups()
    elif asked.place == "memory":
        fit_memory(asked.tasks, asked.loss)
    else:
        fit_where(asked.place, asked.tasks, asked.loss)


if __name__ == "__main__":
    main()
