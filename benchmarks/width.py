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
)


def measure(drawn: Drawn, *, named: bool) -> dict[str, float]:
    """Fit once: seconds of the processor, memory, features, certified gap."""
    import resource  # noqa: PLC0415  (not on all systems)

    from priormtl import tabular_model  # noqa: PLC0415

    warnings.simplefilter("ignore")
    small = Drawn(5, 60, 3).draw(named=True)
    tabular_model("regressor", task="task", trees="none").fit(*small)  # loads
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


def main() -> None:
    """Measure all tables, and write the page."""
    lines = [
        "# Wide tables",
        "",
        "`tabular_model` on drawn tables: a curve, a slope and levels that vary "
        "between tasks, among many columns without effect. Seconds of the processor on "
        "one core, compiled loops loaded; peak memory of the process; certified "
        "duality gap over the objective. Tasks named 0, 1, 2 … may be an order; "
        "t0, t1 … are names. Made by `python -m benchmarks.width` at commit "
        f"{describe_commit()}, load average {load_average()}.",
        "",
        "| tasks | rows | numeric columns | categories | features | s, numbered | "
        "s, named | GiB | gap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, drawn in enumerate(TABLES):
        found = []
        for named in (False, True):
            command = [sys.executable, "-m", "benchmarks.width", str(number)]
            run = subprocess.run(
                [*command, str(int(named))], capture_output=True, text=True, check=True
            )
            found.append(json.loads(run.stdout.splitlines()[-1]))
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
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        place, wants_names = map(int, sys.argv[1:])
        print(json.dumps(measure(TABLES[place], named=bool(wants_names))))
    else:
        main()
