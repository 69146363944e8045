"""priormtl fit: fit a model to a table, or to statistics that sites have shared.

This page has the options and decides which model is fitted: by default that of
``tabular_model`` (cli/tabular.py), and a linear model (cli/linear.py) where options ask
for it or the table is too large.
"""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from typer import Option, echo

from priormtl.cli import linear, main, tabular
from priormtl.exceptions import TooLargeError

if TYPE_CHECKING:
    from typer.models import OptionInfo

    from priormtl.engines import Frame, RawTable


def _strength_option(what: str) -> "OptionInfo":
    words = f"Strength of the {what} of a linear model; tuned if not given."
    return Option(min=0.0, metavar="NUMBER", help=words)


@dataclass(frozen=True, kw_only=True)
class FitRequest(main.TableOptions):
    """Options of the command, as typed."""

    data: Annotated[Path | None, main.DATA] = None
    target: Annotated[str | None, main.column_option("Column to predict.")] = None
    out: Annotated[Path, main.file_option("Model file to write.")]
    classify: Annotated[
        bool,
        Option(
            "--classify", help="Classify: the target is one of two or more classes."
        ),
    ] = False
    loss: main.Loss = "squared"
    exposure: main.Exposure = None
    offset: main.Offset = None
    prior: main.Prior = None
    model: Annotated[
        str,
        main.word_option(
            "auto",
            "tabular",
            "linear",
            help="Model to fit; see above for which one auto selects.",
        ),
    ] = "auto"
    smooth: Annotated[
        str | None,
        Option(
            metavar="auto|none|A,B:24",
            help="Columns whose effects may be curves, with a period after a colon if "
            "the curve repeats (hour:24); by default, all numeric columns with at "
            "least five different values.",
        ),
    ] = None
    crossed: Annotated[
        str | None,
        Option(
            metavar="auto|none|A,B",
            help="Columns whose values have effects of their own in all tasks, such as "
            "the teacher of pupils in many schools; by default (auto), text columns "
            "with at least 20 values, and numbers or dates that recur in most tasks, "
            "if that helps on held-out rows. Linear models need names.",
        ),
    ] = None
    time: Annotated[
        str | None,
        main.column_option(
            "Column that orders the rows of each task: numbers, dates, or months such "
            "as 202401. The model is then chosen to predict later rows, and intervals "
            "hold for them."
        ),
    ] = None
    calibrate: Annotated[
        str | None,
        main.word_option(
            "auto",
            "rows",
            "later",
            "tasks",
            help="For which rows intervals hold: rows like those of the table, later "
            "rows (with --time), or rows of new tasks. With tasks, the model is chosen "
            "for new tasks, too, on folds of whole tasks. By default, rows, or later "
            "rows with --time.",
        ),
    ] = None
    trees: Annotated[
        str | None,
        main.word_option(
            "auto",
            "none",
            help="Whether to mix in boosted trees if they help on held-out rows (auto, "
            "the default).",
        ),
    ] = None
    ties: Annotated[
        str,
        main.word_option(
            "auto",
            "uniform",
            "adaptive",
            help="How strongly tasks are coupled: equally for all features (uniform), "
            "or with a strength estimated for each feature (adaptive).",
        ),
    ] = "auto"
    intercepts: Annotated[
        str,
        main.word_option(
            "auto",
            "tied",
            "free",
            "none",
            help="Intercepts of tasks: similar to each other (tied), independent "
            "(free), or none.",
        ),
    ] = "auto"
    task_prior: Annotated[
        str,
        main.word_option(
            "auto",
            "chain",
            "mean",
            "nested",
            "none",
            help="Which tasks are similar: neighbours in sorted order (chain), all "
            "(mean), those of a group (nested), or none; auto tries chain and mean, or "
            "nested and mean if --task names several columns.",
        ),
    ] = "auto"
    outliers: Annotated[
        bool,
        Option("--outliers", help="Identify tasks that differ from all others."),
    ] = False
    device: Annotated[
        str | None,
        Option(
            metavar="cuda|cuda:1|cpu",
            help="Device on which PyTorch computes; by default, PyTorch is not used.",
        ),
    ] = None
    penalty: Annotated[
        str,
        main.word_option(
            "l21",
            "nuclear",
            help="What tasks share in linear models: a set of features (l21) or a "
            "subspace (nuclear).",
        ),
    ] = "l21"
    lam: Annotated[float | None, _strength_option("penalty")] = None
    theta: Annotated[float | None, _strength_option("feature prior")] = None
    epsilon: Annotated[float | None, _strength_option("task prior")] = None
    folds: Annotated[int, main.least_option(2, "Number of cross-validation folds.")] = 5
    key: Annotated[
        str | None, main.column_option("Rows that share this value stay in one fold.")
    ] = None
    jobs: Annotated[
        int, main.least_option(1, "Number of workers; does not change the results.")
    ] = 1
    weight: main.Weight = None
    shards: Annotated[
        Path | None,
        Option(
            file_okay=False, help="New folder for statistics that do not fit in memory."
        ),
    ] = None
    from_stats: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Statistics to fit instead of DATA; if repeated, each file is held "
            "out once.",
        ),
    ] = None

    @property
    def strengths(self) -> dict[str, float | None]:
        """Strengths that are given; None: to be tuned."""
        return {"lam": self.lam, "theta": self.theta, "epsilon": self.epsilon}

    def linear_options(self) -> list[str]:
        """Options that only linear models have, as far as they are given."""
        given = {f"--{k}": value is not None for k, value in self.strengths.items()}
        given |= {"--penalty nuclear": self.penalty == "nuclear"}
        given |= {"--key": self.key is not None, "--shards": self.shards is not None}
        given |= {"--from-stats": bool(self.from_stats)}
        return [option for option, is_given in given.items() if is_given]

    def family_options(self) -> list[str]:
        """Options of counts and amounts, as far as they are given."""
        given = {f"--loss {self.loss}": self.loss != "squared"}
        given |= {"--exposure": self.exposure is not None}
        given |= {"--offset": self.offset is not None}
        return [option for option, is_given in given.items() if is_given]

    def needs_memory(self) -> bool:
        """Whether the tabular model needs all rows at once."""
        needs = self.classify or self.outliers or self.ties == "uniform"
        return needs or self.time is not None or bool(self.family_options())

    def check(self) -> None:
        """Fail if options contradict each other, or files cannot be written."""
        main.check_output(self.out, self.data, *(self.from_stats or ()))
        if self.data is None and not self.from_stats:
            raise ValueError("fit needs a table, DATA, or --from-stats FILE.")
        if self.task_prior == "none":
            option = "--ties adaptive" if self.ties == "adaptive" else ""
            option = option or "--intercepts tied" * (self.intercepts == "tied")
            if option:
                raise ValueError(
                    f"{option} needs a task prior, which says which tasks are similar. "
                    "Omit --task-prior none."
                )
        if self.classify:
            for option in self.family_options():
                raise ValueError(f"{option} cannot be combined with --classify.")
        given = {"--key": self.key, "--shards": self.shards}
        for option, value in (given | {"--from-stats": self.from_stats}).items():
            if value is not None and self.crossed not in (None, "none"):
                raise ValueError(
                    f"--crossed needs rows in memory and cannot be combined with "
                    f"{option}, which reads statistics. Omit one of them."
                )

    def structure(self) -> main.Facts:
        """Parameters of estimators that are given; "auto" is left to them."""
        found = main.Facts()
        if self.task_prior == "none":
            found = {"task_prior": None, "fit_intercept": True, "ties": "uniform"}
        elif self.task_prior != "auto":
            found["task_prior"] = self.task_prior
        if self.ties != "auto":
            found["ties"] = self.ties
        if self.intercepts != "auto":
            kinds = {"tied": "tied", "free": True, "none": False}
            found["fit_intercept"] = kinds[self.intercepts]
        if self.outliers:
            found["outlier_tasks"] = True
        if self.device is not None:
            found["device"] = self.device
        return found


@main.takes(FitRequest)
def fit(request: FitRequest) -> None:
    """Fit a model to all tasks and write it to a file.

    By default, this is the tabular model (tabular_model in Python). Columns may contain
    numbers, text, dates and missing values. Held-out rows decide which effects differ
    between tasks, which are curves, and whether boosted trees help. Nothing has to be
    tuned.

    Of tables with more than 20 million cells, a sample of 50,000 rows chooses the
    model, and all rows fit it.

    A linear model is fitted instead with --model linear, if a strength (--lam, --theta,
    --epsilon), --penalty nuclear, --key, --shards or --from-stats is given, or if such
    a large table has classes (--classify), or comes with --loss, --time, --outliers or
    --ties uniform. Strengths that are not given are tuned by cross-validation, in one
    pass over the table. The output names the fitted model.

    Example: priormtl fit exams.csv --task school --target score --out exams.model

    Example: priormtl fit exams.csv --task school --target passed --classify
    --drop pupil --trees none --smooth hours,books --out exams.model

    Example: priormtl fit exams.csv --task school --target score --crossed teacher,year
    --out exams.model

    Example: priormtl fit claims.csv --task district --target claims --loss poisson
    --exposure policies --out claims.model

    Example: priormtl fit exams/ --task school --target score --missing mean
    --prior relations.toml --lam 10 --out exams.model

    Example: priormtl fit --from-stats north.stats --from-stats south.stats
    --out all.model
    """
    begin = monotonic()
    request.check()
    facts, reason = run(request)
    facts |= {"reason": reason, "seconds": monotonic() - begin}
    if request.as_json:
        main.print_json(facts)
        return
    show = linear.to_lines if facts["model"] == "linear" else tabular.to_lines
    for line in show(facts, reason):
        echo(line)
    out = request.out
    echo(f"wrote {out}")
    echo(f"Next: priormtl report {out}, or priormtl predict {out} NEW --out new.csv")


def run(request: FitRequest) -> tuple[main.Facts, str]:
    """Fit and save a model; returns what there is to tell, and why it was chosen."""
    from priormtl.data import find_device
    from priormtl.engines import RawTable
    from priormtl.priors import PriorFile

    kind, reason = choose_model(request.model, request.linear_options())
    prior = linear.read_prior(request.prior)
    ties_tasks = isinstance(prior, PriorFile) and bool(prior.task_relations)
    if ties_tasks and request.task_prior != "auto":
        raise ValueError(
            f"--task-prior {request.task_prior} cannot be combined with "
            f"{request.prior}, which says which tasks are similar. Omit one of them."
        )
    if request.device is not None:
        find_device(request.device)  # fails where it is not there
    opened = frame = raw = None
    if not request.from_stats:
        opened = request.open_table(request.weight, request.exposure, request.offset)
    if kind == "tabular":
        assert opened is not None
        raw = RawTable.of(*opened, exact=request.classify)
        frame, raw = raw.settled(RawTable.load)
        if frame is None:
            reason = "the table is too large for memory"
            if not request.needs_memory():
                frame, raw = raw.settled(RawTable.sample)
        elif request.classify:
            linear.check_classes(opened[0].name, opened[1].target, frame.y.tolist())
            if not tabular.shares_classes(frame, opened[1].task):
                frame, reason = None, "classes differ between tasks"
    if frame is not None and raw is not None:
        try:
            return fit_tabular(request, raw, frame, prior), reason
        except TooLargeError:  # a sample will not do: statistics of all its tasks
            if frame.all_tasks is None or request.model == "tabular":
                raise
            reason = "the table has too many tasks for memory"
    only = {"--smooth": request.smooth, "--trees": request.trees}
    only["--calibrate"] = request.calibrate
    for option, value in (only | dict.fromkeys(request.family_options(), "")).items():
        if value is not None:
            raise ValueError(
                f"{option} needs the tabular model, but a linear model is fitted: "
                f"{reason}. Omit one of them."
            )
    return fit_linear(request, opened, prior), reason


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


# The tabular model.


def fit_tabular(
    request: FitRequest, raw: "RawTable", frame: "Frame", prior: object
) -> main.Facts:
    """Fit ``tabular_model`` to a table, of which ``frame`` may be a sample; save it."""
    from priormtl import save

    source, schema, classify = raw.source, raw.schema, request.classify
    if not classify:
        tabular.check_numbers(frame, schema, source.name)
    settings = tabular_settings(request)
    model = tabular.build_model(frame, schema, settings, classify=classify, prior=prior)
    tabular.fit_model(model, raw, frame)
    model.name_source(Path(source.name).name, schema.target)
    save(model, request.out)
    return tabular.describe(model, frame, request.out, classify=classify)


def tabular_settings(request: FitRequest) -> main.Facts:
    """Arguments of ``tabular_model``."""
    structure, smooth = request.structure(), request.smooth
    settings = {"cv": request.folds, "n_jobs": request.jobs, **structure}
    if structure.get("ties") == "uniform":
        # REML estimates nothing here, so that strengths are searched on the folds.
        settings |= {"lams": None, "thetas": None, "epsilons": None}
        if structure.get("task_prior", "auto") is None:
            settings["epsilons"] = (0.0,)
    if smooth is not None:
        plain = smooth in ("auto", "none")
        settings["smooth"] = smooth if plain else main.read_periods(smooth)
    if request.crossed is not None:
        plain = request.crossed in ("auto", "none")
        names = request.crossed if plain else main.split_names(request.crossed)
        settings["crossed"] = names
    if request.trees is not None:
        settings["trees"] = request.trees
    if not request.classify:
        settings |= {"loss": request.loss, "exposure": request.exposure}
        settings["offset"] = request.offset
    if request.time is not None:
        settings["time"] = request.time
    if request.calibrate is not None:
        settings["calibrate"] = request.calibrate
    return settings


# Linear models.


def fit_linear(
    request: FitRequest, opened: main.OpenTable | None, prior: object
) -> main.Facts:
    """Fit a linear model to a table or to statistics, and save it."""
    from priormtl import save

    settings = linear_settings(request, opened, prior)
    if request.time is not None:
        raise ValueError(
            "--time needs the tabular model, which reads rows in memory. Omit --time, "
            "or the options that ask for a linear model."
        )
    if request.crossed == "auto":
        raise ValueError(
            "--crossed must name columns for linear models: got auto. Use --crossed "
            "A,B or --model tabular."
        )
    if opened is None:
        refuse_columns(request)
        fitted = linear.fit_statistics(request.from_stats or [], settings)
    elif request.crossed not in (None, "none"):
        crossed = main.split_names(request.crossed) or []
        fitted = linear.fit_crossed(
            *opened, settings, crossed, classify=request.classify
        )
    elif request.classify:
        for option, value, why in (
            ("--key", request.key, "whose folds are stratified by task and class"),
            ("--shards", request.shards, "which needs the rows in memory"),
        ):
            if value is not None:
                raise ValueError(
                    f"{option} cannot be combined with --classify, {why}. Omit one of "
                    "them."
                )
        fitted = linear.fit_classes(*opened, settings)
    else:
        fitted = linear.fit_numbers(*opened, settings, request.key, request.shards)
    if opened is not None:
        name, learned = Path(opened.source.name).name, fitted.model.fitted_
        fitted.model.fitted_ = replace(learned, data_name=name)
    save(fitted.model, request.out)
    return linear.describe(fitted, request.out)


def linear_settings(
    request: FitRequest, opened: main.OpenTable | None, prior: object
) -> linear.Settings:
    """What is fitted; strengths of what is not there are zero."""
    strengths, structure = request.strengths, request.structure()
    for name, option, unused in (
        ("theta", "--prior", not linear.has_rows(prior)),
        ("epsilon", "--task-prior", request.task_prior == "none"),
    ):
        if unused:
            if strengths[name]:
                text = f"--{name} has no effect without {option}."
                warnings.warn(text, stacklevel=2)
            strengths[name] = strengths[name] or 0.0
    nested = opened is not None and opened.schema.task not in opened.source.columns
    if nested and None not in strengths.values():
        structure.setdefault("task_prior", "nested")  # auto, without folds
    penalty, folds, jobs = request.penalty, request.folds, request.jobs
    return linear.Settings(strengths, prior, structure, penalty, folds, jobs)


def refuse_columns(request: FitRequest) -> None:
    """Fail if options about rows are given with statistics, which hold none."""
    given = {
        "DATA": request.data,
        "--task": request.task,
        "--target": request.target,
        "--key": request.key,
        "--classify": request.classify,
        "--where": request.where,
        "--weight": request.weight,
        "--drop": request.drop,
        "--features": request.features,
        "--delimiter": request.delimiter,
        "--decimal": request.decimal,
        "--categories": request.categories,
        "--missing": request.missing != "error",
        "--shards": request.shards,
    }
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} cannot be combined with --from-stats, which holds no rows. "
                "Give it to 'priormtl stats' instead."
            )
