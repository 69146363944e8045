"""show_demonstration: comparisons, a learning curve, an audit and a report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from priormtl._arrays import Array
from priormtl.audits import PriorAudit, audit_prior
from priormtl.cli.demonstration.digits import pose_digits
from priormtl.cli.demonstration.patients import BOTH, PLAIN, SIZES, pose_patients
from priormtl.cli.demonstration.trials import (
    Part,
    Trial,
    spell_scores,
    tabulate,
    try_model,
)
from priormtl.cli.example import NEW, PATIENTS, RELATIONS, write_example
from priormtl.estimators import MultiTaskRegressorCV, save
from priormtl.priors import FeaturePrior
from priormtl.reports import report

__all__ = ["show_demonstration"]

REPEATS = 3
STRENGTHS = (0.0, 1.0, 10.0, 100.0, 1000.0)
MODEL, CURVE, PAGE = "patients.model", "learning-curve", "report.html"
METHOD = (
    "Models are tuned by cross-validation on their training rows alone and scored on "
    f"rows never seen\n(mean ± sd of {REPEATS} draws). Each fit is certified: its "
    "objective exceeds the optimum by at most the gap."
)


def show_demonstration(folder: Path) -> None:
    """Print what priors are worth, and write an example with its report."""
    console = Console(width=None if Console().is_terminal else 100)
    parts = [pose_digits(), pose_patients()]
    for part in parts:
        _print(console, tabulate(part, _compare(part, console)))
    _print(console, METHOD)
    curve = _follow(parts[-1], console)
    _print(console, _tabulate_curve(curve))
    write_example(folder)
    drawn = _draw_curve(folder / CURVE, curve)
    audit = _fit_example(folder)
    _print(console, str(audit).split("\n\nTies")[0])
    _tell_files(console, folder, drawn)


def _print(console: Console, what: Table | str) -> None:
    console.print(what, highlight=False)
    console.print()


@contextmanager
def _bar(console: Console, words: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
    """A bar in terminals only."""
    hidden = not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        yield bar, bar.add_task(words, total=total)


def _compare(part: Part, console: Console) -> dict[str, list[Trial]]:
    """Tune and score every model on every draw."""
    draws = [part.draw(part.size, seed) for seed in range(REPEATS)]
    results: dict[str, list[Trial]] = {name: [] for name in part.models}
    with _bar(console, "fitting", len(draws) * len(results)) as (bar, task):
        for name, trials in results.items():
            for draw in draws:
                trials.append(try_model(part, name, draw))
                bar.advance(task)
    return results


def _follow(part: Part, console: Console) -> dict[str, Array]:
    """Scores (sizes, repeats) with and without prior."""
    names = (PLAIN, BOTH)
    scores = {name: np.empty((len(SIZES), REPEATS)) for name in names}
    with _bar(console, "learning curve", len(SIZES) * REPEATS) as (bar, task):
        for place in np.ndindex(len(SIZES), REPEATS):
            draw = part.draw(SIZES[place[0]], place[1])
            for name in names:
                scores[name][place] = try_model(part, name, draw).score
            bar.advance(task)
    return scores


def _tabulate_curve(curve: dict[str, Array]) -> Table:
    table = Table(
        title="Patients: R² by patients per age group to learn from",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("model")
    for size in SIZES:
        table.add_column(str(size), justify="right")
    for name, scores in curve.items():
        table.add_row(name, *map(spell_scores, scores))
    return table


def _draw_curve(path: Path, curve: dict[str, Array]) -> bool:
    """Draw the curve, where matplotlib is installed."""
    try:
        from priormtl import plotting  # noqa: PLC0415
    except ImportError:
        return False
    figure, ((ax,),) = plotting.new_figure(1, 1, width=6.0, height=3.6)
    score, size = "R² on other patients", "Patients per age group"
    plotting.plot_learning_curve(SIZES, curve, score=score, size=size, ax=ax)
    plotting.save_figure(figure, path)
    return True


def _fit_example(folder: Path) -> PriorAudit:
    """Fit the table that was written, audit its prior, and report."""
    (X, y), new = _read(folder / PATIENTS), _read(folder / NEW)
    model = MultiTaskRegressorCV(
        thetas=STRENGTHS,
        epsilons=STRENGTHS,
        feature_prior=FeaturePrior.from_file(folder / RELATIONS),
        fit_intercept="tied",
        standardize=True,
        task="age",
    )
    audit = audit_prior(model.fit(X, y), X, y)
    save(model, folder / MODEL)
    report(model, *new, audit=audit, title="Patients by age").save(folder / PAGE)
    return audit


def _read(file: Path) -> tuple[pa.Table, pa.ChunkedArray]:
    table = csv.read_csv(file)
    return table.drop_columns(["progression"]), table["progression"]


def _tell_files(console: Console, folder: Path, drawn: bool) -> None:
    files = [
        PATIENTS,
        NEW,
        RELATIONS,
        MODEL,
        *([f"{CURVE}.png", f"{CURVE}.svg"] if drawn else []),
        PAGE,
    ]
    console.print(f"wrote {folder}/: {', '.join(files)}", highlight=False)
    console.print(f"Open {folder / PAGE} in a browser. The same by commands:")
    for command in _commands(folder):
        console.print(f"  {command}", highlight=False, soft_wrap=True)


def _commands(folder: Path) -> Sequence[str]:
    return (
        f"priormtl fit {folder / PATIENTS} --task age --target progression "
        f"--prior {folder / RELATIONS} --out my.model",
        f"priormtl predict my.model {folder / NEW} --out predictions.csv",
        f"priormtl report my.model --data {folder / NEW} --out my-report.html",
    )
