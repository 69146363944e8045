"""priormtl fit: a model of a table, or of statistics that sites have shared."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli.columns import (
    Categories,
    Features,
    Json,
    Missing,
    Weight,
    Where,
    read_schema,
)
from priormtl.cli.errors import needing, one_sentence, refuse_folder, short_warnings
from priormtl.cli.plain import to_json
from priormtl.cli.words import word_option

__all__ = ["fit"]


def fit(
    data: Annotated[
        Path | None,
        Argument(metavar="DATA", help="CSV, Parquet or Arrow file, or a folder."),
    ] = None,
    *,
    out: Annotated[Path, Option(dir_okay=False, help="File of the model to write.")],
    task: Annotated[
        str | None, Option(metavar="COL", help="Column of the tasks.")
    ] = None,
    target: Annotated[
        str | None, Option(metavar="COL", help="Column of the targets.")
    ] = None,
    classify: Annotated[
        bool, Option("--classify", help="Targets are two classes per task.")
    ] = False,
    prior: Annotated[
        str | None,
        Option(
            metavar="FILE|natural",
            help="Relations of features, in TOML or CSV; or the 20 strongest "
            "correlations.",
        ),
    ] = None,
    task_prior: Annotated[
        str,
        word_option(
            "chain",
            "mean",
            "none",
            help="Tasks are like their neighbours in order, like their mean, or not.",
        ),
    ] = "chain",
    penalty: Annotated[
        str,
        word_option(
            "l21", "nuclear", help="Tasks share features, or they share a subspace."
        ),
    ] = "l21",
    lam: Annotated[
        float | None,
        Option(min=0.0, metavar="NUMBER", help="Strength of the penalty; else found."),
    ] = None,
    theta: Annotated[
        float | None,
        Option(min=0.0, metavar="NUMBER", help="Strength of the prior; else found."),
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(
            min=0.0, metavar="NUMBER", help="Strength of the task prior; else found."
        ),
    ] = None,
    folds: Annotated[
        int, Option(min=2, help="Parts of the rows, each held out once.")
    ] = 5,
    key: Annotated[
        str | None,
        Option(metavar="COL", help="Rows of one value here are held out together."),
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Threads; results are the same.")] = 1,
    weight: Weight = None,
    features: Features = None,
    categories: Categories = None,
    where: Where = None,
    missing: Missing = "error",
    shards: Annotated[
        Path | None,
        Option(
            file_okay=False,
            help="New folder for statistics that are larger than memory.",
        ),
    ] = None,
    from_stats: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Statistics in place of DATA; several are each held out once.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a model of all tasks and write it to a file.

    Features are standardised. Strengths that are not given are chosen on held-out
    rows, in one pass over the table, which may be larger than memory (with --classify
    its rows are read into memory).

    Example: priormtl fit exams.csv --task school --target score --out exams.model

    Example: priormtl fit exams.csv --task school --target passed --classify
    --prior natural --task-prior mean --out exams.model

    Example: priormtl fit exams/ --task school --target score --missing mean
    --prior relations.toml --lam 10 --out exams.model

    Example: priormtl fit --from-stats north.stats --from-stats south.stats
    --out all.model
    """
    with needing("fit", "cli"):
        from priormtl import save  # noqa: PLC0415
        from priormtl.cli import account, fitting  # noqa: PLC0415
    with one_sentence(), short_warnings():
        refuse_folder(out, data, *(from_stats or ()))
        settings = fitting.Settings.read(
            fitting.Strengths(lam, theta, epsilon),
            prior,
            task_prior,
            penalty=penalty,
            folds=folds,
            jobs=jobs,
        )
        if from_stats:
            _refuse_beside_statistics(
                {"DATA": data, "--task": task, "--target": target, "--key": key}
                | {"--classify": classify, "--where": where, "--weight": weight}
                | {"--features": features, "--categories": categories}
                | {"--missing": missing != "error", "--shards": shards}
            )
            learned = fitting.fit_statistics(from_stats, settings)
        else:
            table, names = _demand(data, task, target)
            schema = read_schema(*names, weight, features, categories, missing)
            learned = fitting.fit_table(
                table,
                where,
                schema,
                settings,
                key=key,
                classify=classify,
                shards=shards,
            )
        save(learned.model, out)
    facts = account.describe(learned, out)
    _say(facts, account.tell(facts), as_json)


def _say(facts: dict[str, Any], lines: Any, as_json: bool) -> None:
    if as_json:
        echo(to_json(facts))
        return
    for line in lines:
        echo(line)
    echo(f"wrote {facts['file']}")


def _demand(
    data: Path | None, task: str | None, target: str | None
) -> tuple[Path, tuple[str, str]]:
    """Table and names, all of which must be given."""
    if data is None:
        raise ValueError("fit needs DATA, a table, or --from-stats, a file: got none.")
    if task is None or target is None:
        option = "--task" if task is None else "--target"
        raise ValueError(f"fit needs {option} COL, a column of {data}: got none.")
    return data, (task, target)


def _refuse_beside_statistics(given: dict[str, Any]) -> None:
    """Fail where something speaks of rows."""
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} cannot go with --from-stats, which holds no rows: leave it "
                "out, or give it to 'priormtl stats'."
            )
