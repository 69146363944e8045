"""Variances of counts and classes beside those of lme4 and glmmTMB.

Fits cbpp (binomial, by weights) and grouseticks (Poisson, three factors) by Laplace's
approximation, toenail (binary) by quadrature, has R do the same, and writes
``docs/benchmarks/laplace.md``. Needs R with lme4, glmmTMB and HSAUR3 (r-cran-* of
Debian)::

    python -m benchmarks.laplace
"""

import io
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.machine import describe_commit
from priormtl import FeaturePrior, MultiTaskClassifier, MultiTaskRegressor
from priormtl.data import StackedRows
from priormtl.design import Crossed
from priormtl.losses import Logistic, Poisson, TiedIntercepts
from priormtl.model import laplacian
from priormtl.priors import TaskPrior
from priormtl.reml import COMMON, Families, Ties, estimate_family_ties

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "laplace.md"
SCRIPT = """
suppressMessages({library(lme4); library(glmmTMB)})
options(digits=10)
data(toenail, package="HSAUR3")
write.csv(cbpp, "cbpp.csv"); write.csv(grouseticks, "grouseticks.csv")
write.csv(toenail, "toenail.csv")
show <- function(table, method, sd, effects)
  cat(table, method, sd, effects, sep=",", fill=1000)
cases <- list(
  cbpp=list(cbind(incidence, size - incidence) ~ period + (1|herd), cbpp, binomial),
  grouseticks=list(TICKS ~ YEAR + scale(HEIGHT) + (1|BROOD) + (1|LOCATION) + (1|INDEX),
                   grouseticks, poisson))
for (name in names(cases)) {
  case <- cases[[name]]
  control <- glmerControl(tolPwrss=1e-10, optCtrl=list(maxfun=1e5))
  f <- glmer(case[[1]], case[[2]], case[[3]], control=control)
  sd <- sqrt(unlist(VarCorr(f)))
  show(name, "glmer", sd[order(names(sd))], fixef(f)[-1])
  f <- glmmTMB(case[[1]], case[[2]], case[[3]], REML=TRUE)
  sd <- sqrt(unlist(VarCorr(f)$cond))
  show(name, "glmmTMB REML", sd[order(names(sd))], fixef(f)$cond[-1])
}
f <- glmer(outcome ~ treatment * time + (1|patientID), toenail, binomial, nAGQ=100,
           control=glmerControl(tolPwrss=1e-10, optCtrl=list(maxfun=1e5)))
show("toenail", "glmer nAGQ=100", sqrt(unlist(VarCorr(f))), fixef(f)[-1])
"""


class Case(NamedTuple):
    """A table with common effects and one varying intercept, perhaps more factors."""

    X: pd.DataFrame
    y: np.ndarray
    task: np.ndarray
    weight: np.ndarray
    crossed: pd.DataFrame


def read(name: str, folder: Path) -> Case:
    """The table as it is modelled; factors in the order of their names."""
    table = pd.read_csv(folder / f"{name}.csv")
    none = pd.DataFrame(index=table.index)
    if name == "cbpp":
        both, n = pd.concat([table, table], ignore_index=True), len(table)
        X = pd.DataFrame({f"period{k}": 1.0 * (both["period"] == k) for k in (2, 3, 4)})
        counts = [table["incidence"], table["size"] - table["incidence"]]
        weight, y = np.concatenate(counts), np.repeat([1.0, -1.0], n)
        return Case(X, y, both["herd"].to_numpy(), 1.0 * weight, none)
    if name == "grouseticks":
        height = table["HEIGHT"]
        X = pd.DataFrame({f"YEAR{k}": 1.0 * (table["YEAR"] == k) for k in (96, 97)})
        X["HEIGHT"] = (height - height.mean()) / height.std()
        y, crossed = 1.0 * table["TICKS"].to_numpy(), table[["INDEX", "LOCATION"]]
        return Case(X, y, table["BROOD"].to_numpy(), np.ones(len(y)), crossed)
    treated = 1.0 * (table["treatment"] == "terbinafine")
    X = pd.DataFrame({"treated": treated, "time": table["time"]})
    X["both"] = treated * table["time"]
    y = np.where(table["outcome"] == "none or mild", -1.0, 1.0)
    return Case(X, y, table["patientID"].to_numpy(), np.ones(len(y)), none)


def estimate(case: Case, *, is_restricted: bool) -> tuple[list[float], list[float]]:
    """Standard deviations, those of tasks last, and common effects."""
    order = np.argsort(case.task, kind="stable")
    labels, starts = np.unique(case.task[order], return_index=True)
    codes = np.array([pd.factorize(c)[0] for c in case.crossed.T.to_numpy()]).T
    crossed = None
    if codes.size:
        sizes = tuple((codes.max(axis=0) + 1).tolist())
        crossed = Crossed(tuple(case.crossed.columns), sizes, codes[order])
    ends = np.append(starts, len(order))
    parts = case.X.to_numpy()[order], case.y[order], case.weight[order]
    data = StackedRows(*parts, tuple(labels), None, ends, crossed=crossed)
    graph, d = laplacian(TaskPrior.mean(), data.tasks), data.shape[0]
    family = Logistic() if case.y.min() < 0 else Poisson()
    fit = family.bind(data, TiedIntercepts(graph, 1.0))
    families = Families(np.full(d, COMMON), np.full(d, -1))
    options = {"families": families, "is_restricted": is_restricted}
    found: Ties = estimate_family_ties(fit, graph, **options)
    assert found.intercept is not None
    sds = dict(found.crossed.sd) if found.crossed is not None else {}
    sds["BROOD"] = float(found.intercept**-0.5)
    effects = found.rows[1:].mean(axis=1).tolist()
    return [sds[name] for name in sorted(sds)], effects


def publish(case: Case) -> tuple[list[float], list[float]]:
    """The same by the public estimators."""
    X = pd.concat([case.X, case.crossed], axis=1).assign(task=case.task)
    kind = MultiTaskClassifier if case.y.min() < 0 else MultiTaskRegressor
    model = kind(
        lam=0.0,
        task="task",
        task_prior="mean",
        fit_intercept="tied",
        ties="adaptive",
        intercept_strength="adaptive",
        feature_prior=FeaturePrior.common(list(case.X.columns)),
        crossed=list(case.crossed.columns) or None,
    )
    if kind is MultiTaskRegressor:
        model.set_params(loss="poisson")
    model.fit(X, case.y, sample_weight=case.weight)
    sds = {"BROOD": float(model.intercept_sd_)}
    if len(case.crossed.columns):
        sds |= model.crossed_sd_
    return [sds[name] for name in sorted(sds)], model.coef_.mean(axis=0).tolist()


def main() -> None:
    """Compare, print and write the page."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = subprocess.run(
            ["Rscript", "-e", SCRIPT],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        theirs = pd.read_csv(io.StringIO(done.stdout), header=None, names=range(8))
        for _, row in theirs.iterrows():
            table, method = row[0], row[1]
            numbers = row[2:].dropna().astype(float).tolist()
            case, began = read(table, folder), time.process_time()
            if method == "glmmTMB REML":
                ours = publish(case)
            else:
                ours = estimate(case, is_restricted=False)
            took = time.process_time() - began
            found = [*ours[0], *ours[1]]
            apart = max(abs(a / b - 1.0) for a, b in zip(found, numbers, strict=True))
            shown = ", ".join(f"{a:.4f}" for a in found)
            known = ", ".join(f"{a:.4f}" for a in numbers)
            cells = table, method, known, shown, f"{apart:.1e}", f"{took:.2f}"
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    page = f"""# Variances of counts and classes

Standard deviations (factors in the order of their names), then common effects without
the intercept, and the largest relative difference; seconds of the processor. Beside
glmmTMB with `REML=TRUE` are the published estimators, whose coefficients are the
certified optimum at the estimated variances. glmer maximises over common effects
instead of integrating them out, as `estimate_family_ties(is_restricted=False)` does.
Made by `python -m benchmarks.laplace` at commit {describe_commit()}.

| table | method | R | priormtl | difference | seconds |
| --- | --- | --- | --- | --- | --- |
"""
    PAGE.write_text(page + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
