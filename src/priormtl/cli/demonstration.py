"""The demonstration: what prior knowledge is worth on few rows, and a report.

Simulated patients of clinics are fitted with and without what is known about their
measurements, and compared by their errors on new patients. Then one draw of them is
written to files, fitted, audited and reported.
"""

from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.progress import track
from rich.table import Table

from priormtl._arrays import Array
from priormtl.audits import audit_prior
from priormtl.cli import data
from priormtl.cli.main import open_console
from priormtl.estimators import MultiTaskRegressorCV
from priormtl.priors import FeaturePrior
from priormtl.reports import report
from priormtl.storage import save

SIZES = (data.ROWS, 12, 20)  # patients of each clinic to fit
DRAWS = 12
PLAIN, KNOWN = "none", "all statements"
STRENGTHS = [0.0, 1.0, 10.0, 100.0]


def show_demonstration(folder: Path) -> None:
    """Print how much priors help, and write an example with its report."""
    console = open_console(100)
    measured = compare_priors(console)
    show(console, tabulate(measured))
    show(
        console,
        "Models are tuned by cross-validation on their training rows only and scored "
        f"on other rows\n(mean ± sd over {DRAWS} draws). The gap is the duality gap, "
        "an upper bound on the distance to the optimum.",
    )
    show(console, spell_benefit(measured[PLAIN][0, 0], measured[KNOWN][0, 0]))

    data.write_example(folder)
    X, y = read_patients(folder / data.PATIENTS)
    model = build_model(FeaturePrior.from_file(folder / data.KNOWN)).fit(X, y)
    plain = build_model(None).fit(X, y)
    saved, written = folder / "patients.model", folder / "report.html"
    save(model, saved)
    new, audit = read_patients(folder / data.NEW), audit_prior(model, X, y, cv=None)
    title = f"Blood pressure after treatment: {data.CLINICS} clinics"
    page = report(model, *new, audit=audit, without=plain, title=title)
    page.save(written)
    answer = page.content.finding("prior").sentence
    show(console, f"One of these draws, with {data.ROWS} patients per clinic: {answer}")
    files = ", ".join([*data.FILES, saved.name, written.name])
    console.print(f"wrote {folder}/: {files}", highlight=False)
    console.print(f"Open {written} in a browser. To repeat this by commands:")
    fit = f"fit {folder / data.PATIENTS} --task {data.TASK} --target {data.TARGET}"
    for command in (
        f"{fit} --prior {folder / data.KNOWN} --out with.model",
        f"{fit} --out without.model",
        f"report with.model --data {folder / data.NEW} --without without.model",
    ):
        console.print(f"  priormtl {command}", highlight=False, soft_wrap=True)


def show(console: Console, what: Table | str) -> None:
    """Print a paragraph."""
    console.print(what, highlight=False)
    console.print()


def build_model(prior: FeaturePrior | None) -> MultiTaskRegressorCV:
    """One structure for all priors: a mixed model, REML says how much clinics vary."""
    return MultiTaskRegressorCV(
        lams=[0.0],
        thetas=STRENGTHS,
        epsilons=[1.0],
        feature_prior=prior,
        task_prior="mean",
        ties="adaptive",
        fit_intercept="tied",
        cv=3,
        task=data.TASK,
    )


def build_priors() -> dict[str, FeaturePrior | None]:
    """What is known about the measurements, and a control.

    Relations also shrink coefficients: what they know is what they gain over a ridge.
    """
    alike = FeaturePrior.from_groups({"before": data.DAYS})
    common = FeaturePrior.common(["age", "weight", *data.DAYS])
    return {
        PLAIN: None,
        "control: a ridge on six days": FeaturePrior.near(dict.fromkeys(data.DAYS, 0)),
        "six similar days": alike,
        KNOWN: alike + common + FeaturePrior.nonpositive(["dose"]),
    }


def compare_priors(console: Console) -> dict[str, Array]:
    """Errors on new patients, relative gaps and seconds (3, sizes, draws) by prior."""
    priors, shape = build_priors(), (3, len(SIZES), DRAWS)
    measured = {name: np.empty(shape) for name in priors}
    places, hidden = list(np.ndindex(shape[1:])), not console.is_terminal
    for size, seed in track(
        places, "fitting", console=console, transient=True, disable=hidden
    ):
        train, test = map(split_target, data.draw_patients(SIZES[size], seed))
        for name, prior in priors.items():
            begin = perf_counter()
            model = build_model(prior).fit(*train)
            seconds = perf_counter() - begin
            errors = model.predict(test[0]) - test[1].to_numpy()
            gap = model.dual_gap_ / model.objective_
            rmse = float(np.sqrt(np.mean(errors**2)))
            measured[name][:, size, seed] = rmse, gap, seconds
    return measured


def tabulate(measured: dict[str, Array]) -> Table:
    """Errors by training size, the largest gap and all seconds of every prior."""
    title = f"Patients (simulated) of {data.CLINICS} clinics, error in mmHg"
    table = Table("prior", title=title, title_justify="left", title_style="bold")
    sizes = [f"{size} patients per clinic" for size in SIZES]
    for column in (*sizes, "relative gap", "seconds"):
        table.add_column(column, justify="right")
    for name, (errors, gaps, seconds) in measured.items():
        cells = [f"{row.mean():.2f} ± {row.std(ddof=1):.2f}" for row in errors]
        table.add_row(name, *cells, f"{gaps.max():.0e}", f"{seconds.sum():.1f}")
    return table


def spell_benefit(plain: Array, known: Array) -> str:
    """Benefit of the whole prior: errors with and without it, paired by draw."""
    change = 100.0 * (known / plain - 1.0)
    spread = change.std(ddof=1) / np.sqrt(len(change))
    return (
        f"The prior changes the error on new patients by {change.mean():+.1f} ± "
        f"{spread:.1f} % (mean and standard\nerror over {len(change)} draws): "
        f"{plain.mean():.2f} mmHg without, {known.mean():.2f} with."
    )


def split_target(table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """Features with the clinic, and targets."""
    return table.drop_columns([data.TARGET]), table[data.TARGET]


def read_patients(file: Path) -> tuple[pa.Table, pa.ChunkedArray]:
    """Features and targets of a file of the example."""
    return split_target(csv.read_csv(file))
