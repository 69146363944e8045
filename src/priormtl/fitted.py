"""Fitted: what a fit learned, as one value.

Estimators read data, pose a model, solve it and keep a ``Fitted`` as ``fitted_``; their
other fitted attributes are views of it (``VIEWS``). Summaries, reports, plots, audits,
model files and exports read the same value. ``to_arrays`` and ``from_arrays`` turn it
into arrays and back, without the statistics and the rows of the fit. Standard errors
are found when first asked for, as they can take longer than a small fit.
"""

import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.conditional import Conditional
from priormtl.data import TaskStatistics, from_plain, name_features, to_plain
from priormtl.design import Design
from priormtl.losses import Family, Squared
from priormtl.metrics import Reliability
from priormtl.model import Deviations, Model
from priormtl.priors import FeaturePrior, TaskPrior
from priormtl.reml import Levels
from priormtl.selection import (
    Calibration,
    Candidate,
    Grid,
    HeldOut,
    History,
    SearchResult,
    Setup,
    Structure,
)
from priormtl.trees import Boosted, Trees
from priormtl.uncertainty import StandardErrors

__all__ = [
    "Certificate",
    "CrossedFit",
    "Deviations",
    "Fitted",
    "Outliers",
    "Sample",
    "Search",
    "TimeSpan",
    "show_part",
]

PLAIN_DTYPE = re.compile(r"[<>|=](b1|[iu][1248]|f[48]|U[0-9]{1,6})")
SCORED = ("scores", "fit_seconds", "score_seconds")


class Certificate(NamedTuple):
    """How near the optimum a fit is, proved by duality."""

    objective: float
    gap: float  # the optimum is lower by this, at most
    n_iter: int

    @property
    def relative(self) -> float:
        """Gap over objective."""
        return self.gap / self.objective if self.objective > 0 else self.gap


@dataclass(frozen=True)
class KnownErrors:
    """A ``find_errors`` that has nothing to find."""

    errors: StandardErrors | None

    def __call__(self) -> StandardErrors | None:
        """Find what is known."""
        return self.errors


class Outliers(NamedTuple):
    """Coefficients without task-specific components, and their threshold."""

    shared_coef: Array  # (m, d)
    own_coef: Array  # (m, d)
    strength: float


class CrossedFit(NamedTuple):
    """Effects of the levels of crossed factors, in the order of the design."""

    effects: Array  # (levels,)
    errors: Array  # (levels,) standard errors
    sd: Array  # (factors,) standard deviations of effects
    is_stochastic: bool  # whether the likelihood was estimated by probes


class Sample(NamedTuple):
    """Rows that chose a model, which was then fitted to all rows of a table."""

    rows: int
    tasks: int
    all_rows: int

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"{self.rows:,} of {self.all_rows:,} rows ({self.tasks:,} tasks)"


class TimeSpan(NamedTuple):
    """Times of the rows of the fit."""

    column: Hashable  # name, or position in an array
    low: float
    ends: Array  # (m,) last time of each task
    reach: float  # longest horizon of forward folds

    @classmethod
    def of(
        cls, column: Hashable, time: Array, codes: Index, m: int, horizon: Array | None
    ) -> Self:
        """Span of rows, of which some were held out at a horizon."""
        ends = np.full(m, -np.inf)
        np.maximum.at(ends, codes, time)
        known = np.zeros(1) if horizon is None else horizon[~np.isnan(horizon)]
        return cls(column, float(time.min()), ends, float(known.max(initial=0.0)))


@dataclass(frozen=True, eq=False)
class Search:
    """Scores of all candidates of a search, and the chosen one."""

    result: SearchResult  # without data
    best: int
    scoring: str  # as scikit-learn names it; "score" for functions
    rule: str  # "best" or "1se"

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return int(self.result.scores.shape[1])

    @cached_property
    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        return self.result.table()

    @property
    def candidate(self) -> Candidate:
        """The chosen candidate."""
        return self.result.candidates()[self.best]

    @property
    def setup(self) -> Setup:
        """Structure of the chosen candidate, and the strengths tried with it."""
        return self.result.setups[self.candidate.structure]

    @property
    def structure(self) -> Structure:
        """Structure of the chosen candidate, as chosen or given."""
        return self.setup.structure


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit learned. Values that a model does not have are None."""

    estimator: str  # name of its class
    model: Model | None  # what was fitted, at its strengths; None for compared methods
    tasks: np.ndarray  # (m,) labels
    coef: Array  # (m, d) in the units of X; (m, K, d) with K > 2 classes
    intercept: Array  # (m,), or (m, K)
    certificate: Certificate | None = None
    design: Design | None = None
    feature_prior: FeaturePrior | None = None  # resolved, with estimated strengths
    tie_weights: Array | None = None  # (d,)
    intercept_strength: float | None = None
    between: tuple[float, ...] = ()  # coupling of groups of nested tasks
    scale: Array | None = None  # (d,) what features were divided by
    task_weight: Array | None = None  # (m,)
    task_effect: Array | None = None  # (m,)
    task_r2: Array | None = None  # (m,) on training rows
    target_variance: float | None = None
    within_variance: float | None = None  # of targets about the mean of their task
    deviations: Deviations | None = None
    classes: np.ndarray | None = None  # (m, 2), or (m, K)
    outliers: Outliers | None = None
    crossed: CrossedFit | None = None
    conditional: Conditional | None = None  # of tasks given the shared part
    # Number of last tasks, which ``update`` has added, or a sample has not held.
    added: int = 0
    sample: Sample | None = None  # which chose the model
    drift: Levels | None = None  # levels of tasks that drift in time
    history: History | None = None  # what the last rows of tasks add to forecasts
    find_errors: Callable[[], StandardErrors | None] | None = None  # slow; kept
    search: Search | None = None
    calibration: Calibration | None = None
    reliability: Reliability | None = None
    span: TimeSpan | None = None  # where a column orders the rows of tasks
    trees: Boosted | None = None  # mixed into predictions
    targets_are_columns: bool = False
    library: str | None = None  # of the data frame that was fitted
    data_name: str | None = None  # of the file that was fitted
    # What stays in memory.
    statistics: TaskStatistics | None = None
    held_out: HeldOut | None = None

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy, which has standard errors and not what they are made of."""
        return dict(self.with_errors(self.errors).__dict__)

    @cached_property
    def errors(self) -> StandardErrors | None:
        """Standard errors, where they are quickly found."""
        return None if self.find_errors is None else self.find_errors()

    def with_errors(self, errors: StandardErrors | None) -> Self:
        """The same with these standard errors."""
        return replace(self, find_errors=KnownErrors(errors))

    @property
    def shape(self) -> tuple[int, int]:
        """Tasks and features."""
        return int(self.coef.shape[0]), int(self.coef.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes with coefficients of their own; 1 unless multinomial."""
        return int(self.coef.shape[1]) if self.coef.ndim == 3 else 1

    def by_class(self) -> "Fitted":
        """The same with each class of each task as a task, "task: class"."""
        if self.n_classes == 1:
            return self
        assert self.classes is not None
        m, K, d = self.coef.shape
        names = {
            task: [f"{task}: {one}" for one in classes]
            for task, classes in zip(self.labels, self.classes, strict=True)
        }
        tasks = [name for own in names.values() for name in own]
        prior = self.feature_prior
        own = np.empty((m * K, 2), dtype=object)
        own[:, 0], own[:, 1] = "others", self.classes.ravel()
        weight = self.task_weight
        return replace(
            self,
            tasks=np.array(tasks, dtype=object),
            coef=self.coef.reshape(m * K, d),
            intercept=self.intercept.ravel(),
            classes=own,
            feature_prior=None if prior is None else prior.divided(names),
            task_weight=None if weight is None else np.repeat(weight, K),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of features; x0, x1, … where the data had none."""
        return name_features(self.design, self.shape[1])

    @property
    def labels(self) -> list[Hashable]:
        """Labels of the tasks."""
        return self.tasks.tolist()

    @property
    def shared_coef(self) -> Array:
        """Coefficients (m, d) without task-specific components: what priors act on."""
        return self.coef if self.outliers is None else self.outliers.shared_coef

    @property
    def outlier_tasks(self) -> np.ndarray | None:
        """Tasks with a component of their own; None where they were not looked for."""
        if self.outliers is None:
            return None
        return self.tasks[self.outliers.own_coef.any(axis=1)]

    @property
    def task_prior(self) -> TaskPrior | None:
        """Task prior of the fit, as given or chosen."""
        return None if self.model is None else self.model.task_prior

    @property
    def loss(self) -> str:
        """Loss of the model."""
        return "squared" if self.model is None else self.model.loss

    @property
    def is_classifier(self) -> bool:
        """Whether targets are classes."""
        return self.classes is not None

    def crossed_values(self, values: Array) -> dict[str, dict[Hashable, float]]:
        """Values of levels (levels,), by crossed factor and level."""
        assert self.design is not None
        found, start = dict[str, dict[Hashable, float]](), 0
        for term in self.design.crossed:
            labels = term.labels
            own = values[start : start + len(labels)].tolist()
            found[term.source] = dict(zip(labels, own, strict=True))
            start += len(labels)
        return found

    @property
    def row_loss(self) -> Family | Squared:
        """Loss of one row as a function of its score."""
        assert self.model is not None
        return self.model.family or Squared()

    @property
    def held_out_prediction(self) -> Array | None:
        """Held-out rows as predicted: means of numbers, scores of classes."""
        if self.held_out is None or self.held_out.prediction is None:
            return None
        scores = self.held_out.prediction
        return scores if self.is_classifier else self.row_loss.mean(scores)

    def reliability_at(self, scores: Array, y: Array) -> Reliability:
        """Reliability of held-out scores, and targets as the loss takes them."""
        if self.is_classifier:
            return Reliability.of_scores(scores, y)
        return Reliability.of(self.row_loss.mean(scores), y)

    @property
    def units(self) -> Array:
        """What features were divided by before the penalty saw them (d,)."""
        return np.ones(self.shape[1]) if self.scale is None else self.scale

    # Arrays.

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays that say all but the statistics and rows of the fit."""
        arrays: dict[str, np.ndarray] = {}
        plain: dict[str, Any] = {
            "model": None if self.model is None else _model_to_plain(self.model),
            "tasks": to_plain(self.labels),
            "design": None if self.design is None else self.design.to_plain(),
            "prior": self.feature_prior and self.feature_prior.to_plain(),
            "between": list(self.between),
        } | {name: self.__dict__[name] for name in PLAIN}
        for name in ARRAYS:
            if self.__dict__[name] is not None:
                arrays[name] = self.__dict__[name]
        for name in PARTS:
            part = self.errors if name == "errors" else self.__dict__[name]
            if part is not None:
                own = part._asdict()
                held: dict[str, np.ndarray] = {
                    k: v for k, v in own.items() if isinstance(v, np.ndarray)
                }
                plain[name] = {k: v for k, v in own.items() if k not in held}
                arrays |= {f"{name}.{key}": array for key, array in held.items()}
        if self.classes is not None:
            labels = to_plain(self.classes.ravel().tolist())
            plain["classes"] = [labels, self.classes.dtype.str]
        if self.search is not None:
            plain["search"] = _search_to_plain(self.search, arrays)
        if self.trees is not None:
            bases = [one.base for one in self.trees.sums]
            plain["trees"] = {"share": self.trees.share, "bases": bases}
            for k, one in enumerate(self.trees.sums):
                own = one._asdict()
                for name in Trees._fields[1:]:
                    arrays[f"trees.{name}.{k}"] = own[name]
        text = json.dumps(plain, ensure_ascii=False).encode()
        return arrays | {"plain": np.frombuffer(text, np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Inverse of ``to_arrays``; fails where parts do not fit together."""
        plain, names = json.loads(bytes(arrays["plain"])), Trees._fields[1:]
        given = {name: plain[name] for name in PLAIN}
        given |= {name: arrays[name] for name in ARRAYS if name in arrays}
        labels = from_plain(plain["tasks"])
        for name, kind in PARTS.items():
            if plain.get(name) is not None:
                own = {
                    key.partition(".")[2]: value
                    for key, value in arrays.items()
                    if key.startswith(f"{name}.")
                }
                given[name] = kind(**plain[name], **own)
        if "errors" in given:
            given["find_errors"] = KnownErrors(given.pop("errors"))
        prior, design = plain["prior"], plain["design"]
        if plain.get("classes") is not None:
            given["classes"] = _read_classes(plain["classes"], len(labels))
        if plain.get("search") is not None:
            given["search"] = _search_from_plain(plain["search"], arrays)
        if plain.get("trees") is not None:
            bases, coef = plain["trees"]["bases"], given["coef"]
            classes = int(coef.shape[1]) if coef.ndim == 3 else 1
            _demand(len(bases) % max(classes, 1) == 0, "number of trees")
            sums = [
                Trees(float(base), *(arrays[f"trees.{n}.{k}"] for n in names))
                for k, base in enumerate(bases)
            ]
            share = float(plain["trees"]["share"])
            given["trees"] = Boosted.of_sums(share, sums, classes)
        fitted = cls(
            model=None if plain["model"] is None else _model_from_plain(plain["model"]),
            tasks=task_array(tuple(labels)),
            design=None if design is None else Design.from_plain(design),
            feature_prior=None if prior is None else FeaturePrior.from_plain(prior),
            between=tuple(map(float, plain["between"])),
            **given,
        )
        fitted.check()
        return fitted

    def check(self) -> None:
        """Fail if arrays, which may come from a damaged file, do not fit together."""
        _demand(self.coef.ndim in (2, 3), "shape of coefficients")
        (m, d), K = self.shape, self.n_classes
        own = () if K == 1 else (K,)
        shapes: dict[str, tuple[int, ...]] = {
            "coef": (m, *own, d),
            "intercept": (m, *own),
            "tie_weights": (d,),
            "scale": (d,),
            "task_weight": (m,),
            "task_effect": (m,),
            "task_r2": (m,),
        }
        _demand(len(self.tasks) == m, "number of tasks")
        _demand(self.design is None or len(self.design) == d, "number of features")
        for name, shape in shapes.items():
            array = self.__dict__[name]
            if array is not None:
                _demand(array.shape == shape, f"shape of {name}")
                _demand(array.dtype == np.float64, f"type of {name}")
        for name in ("coef", "intercept", "scale"):
            array = self.__dict__[name]
            finite = array is None or bool(np.all(np.isfinite(array)))
            _demand(finite, f"numbers in {name}")
        ties = self.tie_weights
        _demand(ties is None or bool(np.all(ties >= 0)), "ties")
        if self.deviations is not None:
            _demand(self.deviations.task.shape == (d,), "standard deviations")
        if self.outliers is not None:
            parts = self.outliers.shared_coef, self.outliers.own_coef
            _demand(all(p.shape == (m, d) for p in parts), "parts of coefficients")
            _demand(all(p.dtype == np.float64 for p in parts), "type of coefficients")
        factors = () if self.design is None else self.design.crossed
        if self.crossed is not None:
            size = sum(len(term.values) for term in factors)
            effects, errors, sd, _ = self.crossed
            for array, length in ((effects, size), (errors, size), (sd, len(factors))):
                fits = array.shape == (length,) and array.dtype == np.float64
                _demand(fits and bool(np.all(np.isfinite(array))), "crossed effects")
        else:
            _demand(not factors, "crossed effects")
        if self.errors is not None:
            _demand(self.errors.fits(m, d, self.n_classes), "standard errors")
        if self.conditional is not None:
            _demand(self.conditional.fits(m, d), "conditional distributions")
        _demand(0 <= self.added < m, "number of added tasks")
        if self.drift is not None:
            _demand(self.drift.fits(m), "levels that drift")
        if self.history is not None:
            _demand(self.history.fits(m, d), "last rows of tasks")
        if self.calibration is not None:
            _demand(self.calibration.fits(m, d), "intervals")
        if self.span is not None:
            _demand(self.span.ends.shape == (m,), "times")
        if self.trees is not None:
            _demand(0.0 <= self.trees.share <= 1.0, "share of trees")
            width = d
            if self.design is not None:  # the task and scores are the last columns
                width = len(self.design.tree_features())
                width += sum(self.design.tree_levels())
            width += K
            _demand(all(one.fits(width) for one in self.trees.sums), "trees")
        if self.reliability is not None:
            *rows, loss = self.reliability
            alike = len({part.shape for part in rows}) == 1
            alike &= rows[0].ndim == 1 or rows[0].shape[:-1] == (K,)
            alike &= all(part.dtype == np.float64 for part in self.reliability)
            _demand(alike and loss.shape == (1,), "reliability")


# Parts of a Fitted, by how they are stored.
PLAIN = (
    "estimator",
    "intercept_strength",
    "target_variance",
    "within_variance",
    "targets_are_columns",
    "library",
    "data_name",
    "added",
)
ARRAYS = (
    "coef",
    "intercept",
    "tie_weights",
    "scale",
    "task_weight",
    "task_effect",
    "task_r2",
)
PARTS: dict[str, Any] = {
    "certificate": Certificate,
    "deviations": Deviations,
    "outliers": Outliers,
    "crossed": CrossedFit,
    "conditional": Conditional,
    "drift": Levels,
    "history": History,
    "errors": StandardErrors,
    "calibration": Calibration,
    "reliability": Reliability,
    "sample": Sample,
    "span": TimeSpan,
}

# Fitted attributes of estimators.
VIEWS: dict[str, Callable[[Fitted], Any]] = {
    "coef_": lambda f: f.coef,
    "intercept_": lambda f: f.intercept,
    "tasks_": lambda f: f.tasks,
    "objective_": lambda f: f.certificate and f.certificate.objective,
    "dual_gap_": lambda f: f.certificate and f.certificate.gap,
    "n_iter_": lambda f: f.certificate and f.certificate.n_iter,
    "tie_weights_": lambda f: f.tie_weights,
    "intercept_strength_": lambda f: f.intercept_strength,
    "between_": lambda f: f.between or None,
    "feature_scale_": lambda f: f.scale,
    "task_weight_": lambda f: f.task_weight,
    "task_effect_": lambda f: f.task_effect,
    "task_r2_": lambda f: f.task_r2,
    "task_sd_": lambda f: f.deviations and f.deviations.task,
    "intercept_sd_": lambda f: f.deviations and f.deviations.intercept,
    "noise_sd_": lambda f: f.deviations and f.deviations.noise,
    "shared_coef_": lambda f: f.outliers and f.outliers.shared_coef,
    "own_coef_": lambda f: f.outliers and f.outliers.own_coef,
    "outlier_tasks_": lambda f: f.outlier_tasks,
    "outlier_strength_": lambda f: f.outliers and f.outliers.strength,
    "crossed_effects_": lambda f: f.crossed and f.crossed_values(f.crossed.effects),
    "crossed_sd_": lambda f: (
        f.crossed
        and f.design
        and {
            term.source: sd
            for term, sd in zip(f.design.crossed, f.crossed.sd.tolist(), strict=True)
        }
    ),
    "drift_": lambda f: f.drift and f.drift.to_dict(f.labels),
    "calibration_": lambda f: f.calibration,
    "reliability_": lambda f: f.reliability,
    "statistics_": lambda f: f.statistics,
    "held_out_": lambda f: f.held_out_prediction,
    "folds_": lambda f: f.held_out and f.held_out.folds,
    "feature_prior_": lambda f: f.feature_prior,
    "lam_": lambda f: f.search and f.search.candidate.lam,
    "theta_": lambda f: f.search and f.search.candidate.theta,
    "epsilon_": lambda f: f.search and f.search.candidate.epsilon,
    "structure_": lambda f: (
        f.search
        and f.search.structure.to_dict() | ({"between": f.between} if f.between else {})
    ),
    "best_index_": lambda f: f.search and f.search.best,
    "n_splits_": lambda f: f.search and f.search.n_splits,
    "cv_results_": lambda f: f.search and f.search.table,
    "best_score_": lambda f: (
        f.search and float(f.search.table["mean_test_score"][f.search.best])
    ),
    "data_name_": lambda f: f.data_name,
    "dispersion_": lambda f: f.model and f.model.dispersion,
}


def show_part(owner: object, fitted: Fitted | None, name: str) -> Any:
    """Fitted attribute of an estimator: a view of what it learned (``VIEWS``)."""
    if fitted is not None and name in VIEWS:
        value = VIEWS[name](fitted)
        if value is not None or name == "feature_prior_":
            return value
    raise AttributeError(f"{type(owner).__name__!r} has no attribute {name!r}")


def task_array(tasks: tuple[Hashable, ...]) -> np.ndarray:
    """Task labels as a 1-D array, also where they are tuples."""
    if any(isinstance(task, tuple) for task in tasks):
        array = np.empty(len(tasks), dtype=object)
        array[:] = tasks
        return array
    return np.array(tasks)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong {what}")


def _model_to_plain(model: Model) -> dict[str, Any]:
    plain = dict(model.__dict__)
    for name in ("feature_prior", "task_prior"):
        if plain[name] is not None:
            plain[name] = plain[name].to_plain()
    for name in ("feature_weights", "ties"):
        if plain[name] is not None and not isinstance(plain[name], str):
            plain[name] = np.asarray(plain[name], dtype=np.float64).tolist()
    plain["device"] = None if plain["device"] is None else str(plain["device"])
    for name in ("left_out", "common"):
        plain[name] = [int(j) for j in plain[name]]
    if plain["crossed"] is not None:
        plain["crossed"] = list(plain["crossed"])
    return plain


def _model_from_plain(plain: Mapping[str, Any]) -> Model:
    known = dict(plain)
    if known["feature_prior"] is not None:
        known["feature_prior"] = FeaturePrior.from_plain(known["feature_prior"])
    if known["task_prior"] is not None:
        known["task_prior"] = TaskPrior.from_plain(known["task_prior"])
    for name in ("feature_weights", "ties"):
        if known[name] is not None and not isinstance(known[name], str):
            known[name] = np.array(known[name], dtype=np.float64)
    for name in ("left_out", "common"):
        known[name] = tuple(known[name])
    if known["crossed"] is not None:
        known["crossed"] = tuple(map(str, known["crossed"]))
    return Model(**known | {"device": None})


def _search_to_plain(search: Search, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    result = search.result
    for k, setup in enumerate(result.setups):
        for name, values in setup.grid._asdict().items():
            arrays[f"search.{name}.{k}"] = values
    for name in SCORED:
        arrays[f"search.{name}"] = vars(result)[name]
    if result.outliers is not None:
        arrays["search.outliers"] = np.array(result.outliers).reshape(-1, 5)
    return {
        "best": search.best,
        "scoring": search.scoring,
        "rule": search.rule,
        "choices": list(result.choices),
        "tried": [setup.structure.to_plain() for setup in result.setups],
    }


def _search_from_plain(
    plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Search:
    setups, n = list[Setup](), 0
    names = set(Structure.__dataclass_fields__)
    for k, tried in enumerate(plain["tried"]):
        grid = Grid(*(arrays[f"search.{name}.{k}"] for name in Grid._fields))
        _demand(all(values.ndim == 1 for values in grid), "strengths")
        _demand(set(tried) == names, "structure")
        setups.append(Setup(Structure.from_plain(tried), grid))
        n += prod(len(values) for values in grid)
    outliers = None
    if "search.outliers" in arrays:
        outliers = []
        for epsilon, lam, theta, position, strength in arrays[
            "search.outliers"
        ].tolist():
            _demand(0 <= position < len(setups), "structure")
            outliers.append(Candidate(epsilon, lam, theta, int(position), strength))
        n += len(outliers)
    scores, fit_seconds, score_seconds = (arrays[f"search.{name}"] for name in SCORED)
    _demand(scores.ndim == 2 and len(scores) == n, "shape of scores")
    times = fit_seconds.shape, score_seconds.shape
    _demand(times == (scores.shape, scores.shape), "shape of scores")
    choices = [str(name) for name in plain["choices"]]
    _demand(set(choices) <= names, "structure")
    result = SearchResult(
        setups,
        scores,
        fit_seconds,
        score_seconds,
        choices=choices,
        outliers=outliers,
    )
    best = int(plain["best"])
    _demand(0 <= best < n, "index of the best candidate")
    return Search(result, best, str(plain["scoring"]), str(plain["rule"]))


def _read_classes(plain: Any, m: int) -> np.ndarray:
    labels, dtype = plain
    known = from_plain(labels)
    if dtype == "|O":
        table = np.empty(len(known), dtype=object)
        table[:] = known
        return table.reshape(m, -1)
    _demand(PLAIN_DTYPE.fullmatch(dtype) is not None, "type of classes")
    return np.array(known).astype(dtype).reshape(m, -1)
