"""priormtl fit: fit a model to a table, or to statistics that sites have shared.

This page has the options and decides which model is fitted: by default that of
``tabular_model`` (cli/tabular.py), and a linear model (cli/linear.py) where options ask
for it or the table is too large.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli import tabular
from priormtl.cli.columns import (
    DATA_HELP,
    Categories,
    Decimal,
    Delimiter,
    Drop,
    Features,
    Json,
    Missing,
    Prior,
    Task,
    Weight,
    Where,
    read_location,
    read_periods,
    read_schema,
    require_task,
    word_option,
)
from priormtl.cli.linear import (
    Settings,
    describe,
    fit_classes,
    fit_numbers,
    fit_statistics,
    has_rows,
    read_prior,
    to_lines,
)
from priormtl.cli.main import (
    check_output,
    exit_on_error,
    print_json,
    print_warnings,
    require_extra,
)

INTERCEPTS: dict[str, Any] = {"tied": "tied", "free": True, "none": False}


def _strength_option(what: str) -> Any:
    words = f"Strength of the {what} of a linear model; tuned if not given."
    return Option(min=0.0, metavar="NUMBER", help=words)


def fit(
    data: Annotated[
        Path | None, Argument(metavar="DATA", parser=read_location, help=DATA_HELP)
    ] = None,
    *,
    out: Annotated[Path, Option(dir_okay=False, help="Model file to write.")],
    task: Task = None,
    target: Annotated[
        str | None, Option(metavar="COL", help="Column to predict.")
    ] = None,
    classify: Annotated[
        bool,
        Option("--classify", help="Classify: the target has two classes per task."),
    ] = False,
    prior: Prior = None,
    model: Annotated[
        str,
        word_option(
            "auto",
            "tabular",
            "linear",
            help="Model to fit; see above for which one auto selects.",
        ),
    ] = "auto",
    smooth: Annotated[
        str | None,
        Option(
            metavar="auto|none|A,B:24",
            help="Columns whose effects may be curves, with a period after a colon if "
            "the curve repeats (hour:24); by default, all numeric columns with at "
            "least five different values.",
        ),
    ] = None,
    trees: Annotated[
        str | None,
        word_option(
            "auto",
            "none",
            help="Whether to mix in boosted trees if they help on held-out rows (auto, "
            "the default).",
        ),
    ] = None,
    ties: Annotated[
        str,
        word_option(
            "auto",
            "uniform",
            "adaptive",
            help="How strongly tasks are coupled: equally for all features (uniform), "
            "or with a strength estimated for each feature (adaptive).",
        ),
    ] = "auto",
    intercepts: Annotated[
        str,
        word_option(
            "auto",
            "tied",
            "free",
            "none",
            help="Intercepts of tasks: similar to each other (tied), independent "
            "(free), or none.",
        ),
    ] = "auto",
    task_prior: Annotated[
        str,
        word_option(
            "auto",
            "chain",
            "mean",
            "nested",
            "none",
            help="Which tasks are similar: neighbours in sorted order (chain), all "
            "(mean), those of a group (nested), or none; auto tries chain and mean, or "
            "nested and mean if --task names several columns.",
        ),
    ] = "auto",
    outliers: Annotated[
        bool,
        Option("--outliers", help="Identify tasks that differ from all others."),
    ] = False,
    device: Annotated[
        str | None,
        Option(
            metavar="cuda|cuda:1|cpu",
            help="Device on which PyTorch computes; by default, PyTorch is not used.",
        ),
    ] = None,
    penalty: Annotated[
        str,
        word_option(
            "l21",
            "nuclear",
            help="What tasks share in linear models: a set of features (l21) or a "
            "subspace (nuclear).",
        ),
    ] = "l21",
    lam: Annotated[float | None, _strength_option("penalty")] = None,
    theta: Annotated[float | None, _strength_option("feature prior")] = None,
    epsilon: Annotated[float | None, _strength_option("task prior")] = None,
    folds: Annotated[int, Option(min=2, help="Number of cross-validation folds.")] = 5,
    key: Annotated[
        str | None,
        Option(metavar="COL", help="Rows that share this value stay in one fold."),
    ] = None,
    jobs: Annotated[
        int, Option(min=1, help="Number of workers; does not change the results.")
    ] = 1,
    weight: Weight = None,
    features: Features = None,
    drop: Drop = None,
    categories: Categories = None,
    where: Where = None,
    missing: Missing = "error",
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    shards: Annotated[
        Path | None,
        Option(
            file_okay=False, help="New folder for statistics that do not fit in memory."
        ),
    ] = None,
    from_stats: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Statistics to fit instead of DATA; if repeated, each file is held "
            "out once.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a model to all tasks and write it to a file.

    By default, this is the tabular model (tabular_model in Python). Columns may contain
    numbers, text, dates and missing values. Held-out rows decide which effects differ
    between tasks, which are curves, and whether boosted trees help. Nothing has to be
    tuned.

    A linear model is fitted instead with --model linear, if a strength (--lam, --theta,
    --epsilon), --penalty nuclear, --key, --shards or --from-stats is given, or if the
    table has more than 20 million cells. Strengths that are not given are tuned by
    cross-validation, in one pass over the table. The output names the fitted model.

    Example: priormtl fit exams.csv --task school --target score --out exams.model

    Example: priormtl fit exams.csv --task school --target passed --classify
    --drop pupil --trees none --smooth hours,books --out exams.model

    Example: priormtl fit exams/ --task school --target score --missing mean
    --prior relations.toml --lam 10 --out exams.model

    Example: priormtl fit --from-stats north.stats --from-stats south.stats
    --out all.model
    """
    with require_extra("fit", "cli"):
        from priormtl import engines, save
        from priormtl.data import find_device
    begin = monotonic()
    with exit_on_error(), print_warnings():
        check_output(out, data, *(from_stats or ()))
        if data is None and not from_stats:
            raise ValueError("fit needs a table, DATA, or --from-stats FILE.")
        strengths = {"lam": lam, "theta": theta, "epsilon": epsilon}
        given = {f"--{name}": value is not None for name, value in strengths.items()}
        given |= {"--penalty nuclear": penalty == "nuclear", "--key": key is not None}
        given |= {"--shards": shards is not None, "--from-stats": bool(from_stats)}
        kind, reason = choose_model(model, [name for name in given if given[name]])
        structure = read_structure(task_prior, ties, intercepts, outliers=outliers)
        known = read_prior(prior)
        if getattr(known, "task_relations", ()) and task_prior != "auto":
            raise ValueError(
                f"--task-prior {task_prior} cannot be combined with {prior}, which "
                "says which tasks are similar. Omit one of them."
            )
        if device is not None:
            try:
                find_device(device)
            except ImportError as error:
                raise ValueError(str(error)) from None
            structure["device"] = device
        frame = None
        if not from_stats:
            assert data is not None
            source = engines.open_source(
                data, where, delimiter=delimiter, decimal=decimal
            )
            task = require_task(task, source)
            if target is None:
                raise ValueError(f"fit needs --target COL, a column of {data}.")
            schema = read_schema(
                task, target, weight, features, categories, missing, drop
            )
        if kind == "tabular":
            frame = tabular.read_frame(source, schema, exact=classify)
            if frame is None:
                kind, reason = "linear", "the table is too large for memory"
            elif classify and not tabular.has_two_classes(frame):
                kind, reason = "linear", "classes differ between tasks"
        if kind == "linear" and (smooth is not None or trees is not None):
            option = "--smooth" if smooth is not None else "--trees"
            raise ValueError(
                f"{option} needs the tabular model, but a linear model is fitted: "
                f"{reason}. Omit one of them."
            )
        if kind == "tabular":
            assert frame is not None
            if not classify:
                tabular.check_numbers(frame, schema, source.name)
            settings = tabular_settings(structure, smooth, trees, folds, jobs)
            pipeline = tabular.fit_frame(
                frame, schema, settings, classify=classify, prior=known
            )
            pipeline.name_source(Path(source.name).name, schema.target)
            save(pipeline, out)
            facts = tabular.describe(pipeline, frame, out, classify=classify)
        else:
            for name, option, unused in (
                ("theta", "--prior", not has_rows(known)),
                ("epsilon", "--task-prior", task_prior == "none"),
            ):
                if unused:
                    if strengths[name]:
                        text = f"--{name} has no effect without {option}."
                        warnings.warn(text, stacklevel=2)
                    strengths[name] = strengths[name] or 0.0
            given_all = None not in strengths.values()
            if given_all and not from_stats and task not in source.columns:
                structure.setdefault("task_prior", "nested")  # auto, without folds
            chosen = Settings(strengths, known, structure, penalty, folds, jobs)
            if from_stats:
                unusable: dict[str, Any] = {"DATA": data, "--task": task}
                unusable |= {"--target": target, "--key": key, "--classify": classify}
                unusable |= {"--where": where, "--weight": weight, "--drop": drop}
                unusable |= {"--features": features, "--delimiter": delimiter}
                unusable |= {"--decimal": decimal, "--categories": categories}
                unusable |= {"--missing": missing != "error", "--shards": shards}
                for option, value in unusable.items():
                    if value:
                        raise ValueError(
                            f"{option} cannot be combined with --from-stats, which "
                            "holds no rows. Give it to 'priormtl stats' instead."
                        )
                fitted = fit_statistics(from_stats, chosen)
            elif classify:
                for option, value, why in (
                    ("--key", key, "whose folds are stratified by task and class"),
                    ("--shards", shards, "which needs the rows in memory"),
                ):
                    if value is not None:
                        raise ValueError(
                            f"{option} cannot be combined with --classify, {why}. Omit "
                            "one of them."
                        )
                fitted = fit_classes(source, schema, chosen)
            else:
                fitted = fit_numbers(source, schema, chosen, key, shards)
            if not from_stats:
                learned = fitted.model.fitted_
                fitted.model.fitted_ = replace(
                    learned, data_name=Path(source.name).name
                )
            save(fitted.model, out)
            facts = describe(fitted, out)
    facts |= {"reason": reason, "seconds": monotonic() - begin}
    if as_json:
        print_json(facts)
        return
    show = to_lines if kind == "linear" else tabular.to_lines
    for line in show(facts, reason):
        echo(line)
    echo(f"wrote {out}")
    echo(f"Next: priormtl report {out}, or priormtl predict {out} NEW --out new.csv")


def choose_model(wanted: str, linear_only: list[str]) -> tuple[str, str]:
    """Model to fit, and why; some options exist for linear models only."""
    if wanted == "tabular" and linear_only:
        raise ValueError(
            f"{linear_only[0]} needs --model linear: the tabular model estimates its "
            "strengths from rows in memory. Omit one of them."
        )
    if wanted != "auto":
        return wanted, f"--model {wanted}"
    if linear_only:
        return "linear", f"{' and '.join(linear_only)} given"
    return "tabular", "the default"


def read_structure(
    task_prior: str, ties: str, intercepts: str, *, outliers: bool
) -> dict[str, Any]:
    """Parameters of estimators that are given; "auto" is left to them."""
    found: dict[str, Any] = {}
    if task_prior != "auto":
        found["task_prior"] = None if task_prior == "none" else task_prior
    if ties != "auto":
        found["ties"] = ties
    if intercepts != "auto":
        found["fit_intercept"] = INTERCEPTS[intercepts]
    if task_prior == "none":
        if intercepts == "tied" or ties == "adaptive":
            option = "--ties adaptive" if ties == "adaptive" else "--intercepts tied"
            raise ValueError(
                f"{option} needs a task prior, which says which tasks are similar. "
                "Omit --task-prior none."
            )
        found = {"fit_intercept": True, "ties": "uniform"} | found
    if outliers:
        found["outlier_tasks"] = True
    return found


def tabular_settings(
    structure: dict[str, Any],
    smooth: str | None,
    trees: str | None,
    folds: int,
    jobs: int,
) -> dict[str, Any]:
    """Arguments of ``tabular_model``."""
    settings: dict[str, Any] = {"cv": folds, "n_jobs": jobs, **structure}
    if structure.get("ties") == "uniform":
        # REML estimates nothing here, so that strengths are searched on the folds.
        settings |= {"lams": None, "thetas": None, "epsilons": None}
        if structure.get("task_prior", "auto") is None:
            settings["epsilons"] = (0.0,)
    if smooth is not None:
        plain = smooth in ("auto", "none")
        settings["smooth"] = smooth if plain else read_periods(smooth)
    if trees is not None:
        settings["trees"] = trees
    return settings
