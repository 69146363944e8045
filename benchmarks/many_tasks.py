"""Measure fits of many tasks: ``python -m benchmarks.many_tasks memory 1000000``.

The first argument is where the rows are: ``memory`` (arrays), ``files`` (Parquet files,
with coefficients written to others), ``dask`` (two workers) or ``spark`` (local[2]);
``groups`` is 125,066 groups with random intercept and slope in a million rows. The
second is the number of tasks, of 10 rows and 20 features each; ``--loss`` is squared or
logistic. Ties are adaptive. ``tabular`` is ``tabular_model`` on a Parquet file of 2,500
rows of each task, 12 columns of text, dates, gaps and curves; errors for new rows are
printed beside those of a linear model of the same file. Prints seconds of processor of
this process and its descendants, seconds of the clock, and the peak of memory of this
process, which is the driver.

``--reference FILE`` compares the coefficients with those of a fit in memory, which
writes them there. ``--limit`` is the most GiB of data that this process may hold, and
``--kill`` the seconds after which a worker of Dask is killed. ``--json FILE`` adds the
figures to a file of measurements; ``page`` writes those of docs/benchmarks to the table
of docs/guide/scale.md.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import process_memory
from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    engines,
    tabular_model,
)

DOCS = Path(__file__).parents[1] / "docs"
PAGE, MEASURED = DOCS / "guide" / "scale.md", DOCS / "benchmarks" / "many_tasks.json"
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


def fit_memory(measured: "Measured", m: int, loss: str) -> np.ndarray:
    """Fit arrays; the clock starts once they are there."""
    X, y = np.empty((m * ROWS, D)), np.empty(m * ROWS)
    for a, b in spans(m):
        X[a * ROWS : b * ROWS], y[a * ROWS : b * ROWS], _ = draw(a, b, loss)
    task = np.repeat(np.arange(m), ROWS)
    model = make(loss)
    with measured:
        model.fit(X, y, task=task)
    return np.column_stack([model.intercept_, model.coef_])


def fit_groups(measured: "Measured", m: int, loss: str) -> np.ndarray:
    """125,066 groups with random intercept and slope."""
    rng = np.random.default_rng(0)
    n = 10**6
    task, x = np.sort(rng.integers(0, m, n)), rng.normal(size=(n, 1))
    y = (1 + 0.5 * rng.normal(size=m))[task] + rng.normal(size=n)
    y += (2 + 0.3 * rng.normal(size=m))[task] * x[:, 0]
    model = make(loss)
    with measured:
        model.fit(x, y, task=task)
    return np.column_stack([model.intercept_, model.coef_])


def make(loss: str) -> MultiTaskRegressor | MultiTaskClassifier:
    """Model that is fitted."""
    kind = MultiTaskRegressor if loss == "squared" else MultiTaskClassifier
    return kind(**SETTINGS)


def fit_where(measured: "Measured", m: int, loss: str, kill: float) -> np.ndarray:
    """Fit rows of Parquet files by an engine, with coefficients in files."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows, out, model = folder / "rows", folder / "out", make(loss)
        write(rows, m, loss)
        columns = {"task": "task", "target": "y", "out": out}
        if measured.found["place"] == "files":
            with measured:
                engines.fit(model, rows, **columns, folder=folder)
        elif measured.found["place"] == "dask":
            import dask.dataframe as dd  # noqa: PLC0415
            from distributed import Client, LocalCluster  # noqa: PLC0415

            cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=None)
            client = stack.enter_context(Client(stack.enter_context(cluster)))
            table = dd.read_parquet(rows)
            if kill:
                worker = next(iter(client.run(os.getpid).values()))
                timer = Timer(kill, os.kill, (worker, signal.SIGKILL))
                stack.callback(timer.cancel)
                timer.start()
            with measured:
                engines.dask.fit(model, table, **columns, client=client)
        else:
            from pyspark.sql import SparkSession  # noqa: PLC0415

            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = SparkSession.builder.master("local[2]")
            builder = builder.config("spark.driver.memory", "4g")
            session = builder.config("spark.ui.enabled", "false").getOrCreate()
            table = session.read.parquet(str(rows))
            with measured:
                engines.spark.fit(model, table, **columns, n_parts=16)
        tables = [pq.read_table(file) for file in sorted(out.glob("part-*.parquet"))]
    table = pa.concat_tables(tables).sort_by("task")
    assert table["task"].to_pylist() == list(range(m))
    names = ["(intercept)", *(f"x{j}" for j in range(D))]
    return np.column_stack([table[name] for name in names])


def draw_shops(n: int, m: int, seed: int) -> tuple[pa.Table, np.ndarray]:
    """Rows of shops with curves, an interaction and gaps, and their means."""
    rng, known = np.random.default_rng(seed), np.random.default_rng(10**9)
    level, slope = known.normal(size=m), 1.0 + 0.5 * known.normal(size=m)
    brands, kinds = known.normal(size=60), known.normal(size=8)
    shop, brand, kind = (rng.integers(0, k, n) for k in (m, 60, 8))
    price, size, age, hour = rng.normal(size=(4, n))
    income, area, noise = rng.lognormal(size=n), rng.normal(size=n), rng.normal(size=n)
    day, is_open = rng.integers(0, 1000, n), rng.random(n) < 0.5
    mean = level[shop] - slope[shop] * price + np.sin(2.0 * age) + 0.5 * brands[brand]
    mean += kinds[kind] + 0.3 * np.log(income) + 0.7 * size * is_open
    mean += 0.5 * np.cos(2.0 * np.pi * day / 7.0) + 0.2 * hour**2
    days = np.datetime64("2023-01-01") + day
    table = pa.table(
        {
            "shop": np.char.add("shop ", shop.astype(str)),
            "price": price,
            "size": size,
            "age": pa.array(age, mask=rng.random(n) < 0.05),
            "hour": hour,
            "income": income,
            "area": area,
            "open": is_open,
            "day": days,
            "brand": np.char.add("brand ", brand.astype(str)),
            "kind": np.char.add("kind ", kind.astype(str)),
            "sales": mean + noise,
        }
    )
    return table, mean


def fit_tabular(measured: "Measured", m: int) -> None:
    """Fit a table that memory is not to hold, and compare errors for new rows."""
    rows = 2500 * m
    with tempfile.TemporaryDirectory() as folder:
        path, piece = Path(folder) / "shops.parquet", min(rows, 500_000)
        writer = None
        for seed in range(rows // piece):
            table, _ = draw_shops(piece, m, seed)
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        new, mean = draw_shops(200_000, m, 10**6)
        model = tabular_model("regressor", task="shop")
        with measured:
            model.fit_source(path, target="sales")
        trees = model[-1].trees_weight_
        print(model.fitted_.sample, model.structure_, trees, flush=True)
        linear = MultiTaskRegressorCV(task="shop", task_prior="mean", ties="adaptive")
        columns = ["price", "size", "hour", "income", "area", "open", "brand", "kind"]
        linear.fit_source(path, target="sales", features=columns)
    for name, one in (("error", model), ("linear", linear)):
        measured.found[name] = float(np.sqrt(np.mean((one.predict(new) - mean) ** 2)))
    low, high = model.predict_interval(new).T
    sales = new["sales"].to_numpy()
    measured.found["covered"] = float(np.mean((sales >= low) & (sales <= high)))
    measured.found["rows"] = rows


class Measured:
    """Measure seconds of processor and the peak of memory of what is done inside."""

    def __init__(self, place: str, m: int, loss: str, limit: float) -> None:
        self.found: dict[str, Any] = {"place": place, "tasks": m, "loss": loss}
        self.limit = int(limit * 2**30)

    def __enter__(self) -> None:
        if self.limit:
            self.found["limit"] = self.limit / 2**30
            resource.setrlimit(resource.RLIMIT_DATA, (self.limit, -1))
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        self.found["before"] = memory("VmRSS")
        self.begin, self.wall = processor(), perf_counter()

    def __exit__(self, *error: object) -> None:
        self.found["processor"] = processor() - self.begin
        self.found["seconds"] = perf_counter() - self.wall
        self.found["peak"] = memory("VmHWM")
        resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))

    def compare(self, coef: np.ndarray, reference: Path) -> None:
        """Largest difference to coefficients of a fit in memory, of the largest."""
        if self.found["place"] == "memory":
            np.save(reference, coef)
            return
        known = np.load(reference)
        self.found["apart"] = float(np.abs(coef - known).max() / np.abs(known).max())


def processor() -> float:
    """Seconds of processor of this process, its children, and theirs."""
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (me, *me.children(recursive=True)))


def memory(field: str) -> float:
    """GiB of this process: VmRSS now, or VmHWM at the peak."""
    return process_memory(field) / 2**30


def write_page() -> None:
    """Write the table of what was measured to the page."""
    lines = [
        "| rows in | loss | tasks | seconds of processor | seconds | peak, GiB | "
        "before, GiB | apart |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in json.loads(MEASURED.read_text(encoding="utf-8")):
        place = found["place"]
        if "limit" in found:
            place += f", {found['limit']:g} GiB allowed"
        if "kill" in found:
            place += ", a worker killed"
        apart = f"{found['apart']:.0e}" if "apart" in found else ""
        lines.append(
            f"| {place} | {found['loss']} | {found['tasks']:,} | "
            f"{found['processor']:.1f} | {found['seconds']:.1f} | {found['peak']:.2f} |"
            f" {found['before']:.2f} | {apart} |"
        )
    page = PAGE.read_text(encoding="utf-8")
    (head, rest), table = page.split(BEGIN), "\n".join(lines)
    page = f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    places = ["memory", "files", "dask", "spark", "groups", "tabular", "page"]
    parser.add_argument("place", choices=places)
    parser.add_argument("tasks", type=int, nargs="?", default=100_000)
    parser.add_argument("--loss", default="squared", choices=["squared", "logistic"])
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=0.0)
    parser.add_argument("--kill", type=float, default=0.0)
    asked = parser.parse_args()
    if asked.place == "page":
        write_page()
        return
    m = 125_066 if asked.place == "groups" else asked.tasks
    measured = Measured(asked.place, m, asked.loss, asked.limit)
    coef = np.zeros(0)
    if asked.place == "tabular":
        fit_tabular(measured, m)
    elif asked.place == "groups":
        coef = fit_groups(measured, m, asked.loss)
    elif asked.place == "memory":
        coef = fit_memory(measured, m, asked.loss)
    else:
        coef = fit_where(measured, m, asked.loss, asked.kill)
    if asked.kill:
        measured.found["kill"] = asked.kill
    if asked.reference:
        measured.compare(coef, asked.reference)
    print(json.dumps(measured.found), flush=True)
    if asked.json:
        known = json.loads(asked.json.read_text()) if asked.json.exists() else []
        asked.json.write_text(json.dumps([*known, measured.found], indent=1) + "\n")


if __name__ == "__main__":
    main()
