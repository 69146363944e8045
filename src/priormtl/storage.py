"""save and load: a fitted model in one file of arrays and plain settings."""

import os
import re
from collections.abc import Callable, Mapping
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from priormtl.archive import read_archive, write_archive
from priormtl.data import from_plain, read_encoding, to_plain
from priormtl.estimators.classifier import ClassificationTasks, MultiTaskClassifier
from priormtl.estimators.cross_validated import (
    STRUCTURE,
    CrossValidated,
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.estimators.intervals import Calibration
from priormtl.estimators.linear import DEVIATIONS, LinearMultiTask, task_array
from priormtl.estimators.regressor import MultiTaskRegressor, RegressionTasks
from priormtl.estimators.summary import target_variance
from priormtl.estimators.uncertainty import StandardErrors
from priormtl.exceptions import ModelFileError
from priormtl.metrics import Reliability
from priormtl.priors import FeaturePrior, TaskPrior, as_feature_prior
from priormtl.selection import (
    Grid,
    OutlierCandidate,
    OutlierResult,
    SearchResult,
    Structure,
    search_attributes,
)
from priormtl.splines import Curves
from priormtl.stacking import StackedClassifier, StackedRegressor, Trees
from priormtl.tabular import (
    CategoryColumn,
    NumberColumn,
    TableFeatures,
    TabularPipeline,
)

__all__ = ["load", "save"]

TREE_ARRAYS = (
    "roots",
    "feature",
    "threshold",
    "missing_left",
    "left",
    "right",
    "value",
)

ERRORS = ("coef", "shared", "between", "effect", "noise")
MOST_STEPS = 10**10  # multiplications that standard errors may cost in save
CALIBRATED = ("scale", "places", "factors", "knots", "unseen", "coef", "intercept")

KIND = "model"
PIPELINE = "tabular_model"
MODELS: dict[str, type[LinearMultiTask]] = {
    "MultiTaskRegressor": MultiTaskRegressor,
    "MultiTaskClassifier": MultiTaskClassifier,
    "MultiTaskRegressorCV": MultiTaskRegressorCV,
    "MultiTaskClassifierCV": MultiTaskClassifierCV,
}
SEARCHED = ("lams", "thetas", "epsilons")
SCORED = ("scores", "fit_seconds", "score_seconds")
PLAIN_DTYPE = re.compile(r"[<>|=](b1|[iu][1248]|f[48]|U[0-9]{1,6})")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    The file contains arrays, settings and a checksum, but no pickle. It contains
    everything that predictions and reports need, but not the statistics of
    ``partial_fit``, which have their own ``save``. A failure leaves no partial file.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier, their CV variants or a pipeline \
of tabular_model
        Fitted model. ``cv`` must be a number, and ``scoring`` a name or None. For
        compared methods and pipelines use joblib, whose files are pickles.
    path : path
        File to write. An existing file is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from priormtl import MultiTaskRegressor, load, save
    >>> model = MultiTaskRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> path = tempfile.mktemp(suffix=".model")
    >>> save(model, path)
    >>> load(path).predict([[3.0]]) == model.predict([[3.0]])
    array([ True])
    """
    if isinstance(model, Pipeline):
        settings, arrays = _dump_pipeline(model)
    else:
        settings, arrays = _dump(model)
    write_archive(path, KIND, settings, arrays)


def _dump(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise TypeError(
            f"model must be one of {', '.join(MODELS)}: got {name}; keep others by "
            "joblib.dump(model, path), whose files are pickles: load only such that "
            "you trust."
        )
    check_is_fitted(model)
    settings = {
        "class": name,
        "params": _plain_params(model),
        "fitted": _plain_fitted(model),
    }
    arrays = {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "ties": model.tie_weights_,
    } | {name: getattr(model, f"{name}_") for name in _measures(model)}
    if hasattr(model, "task_sd_"):
        arrays["task_sd"] = model.task_sd_
    if hasattr(model, "own_coef_"):
        arrays |= {"shared_coef": model.shared_coef_, "own_coef": model.own_coef_}
    if isinstance(model, CrossValidated):
        arrays |= _search_arrays(model)
    _add_calibration(model, settings, arrays, "calibration")
    _add_errors(model, settings, arrays)
    _add_reliability(model, arrays, "reliability")
    return settings, arrays


def _add_reliability(model: Any, arrays: dict[str, np.ndarray], prefix: str) -> None:
    known = getattr(model, "reliability_", None)
    if known is not None:
        for name, part in known._asdict().items():
            arrays[f"{prefix}_{name}"] = part


def _read_reliability(
    arrays: dict[str, np.ndarray], prefix: str
) -> dict[str, Reliability]:
    if f"{prefix}_rows" not in arrays:
        return {}
    known = Reliability(*(arrays[f"{prefix}_{name}"] for name in Reliability._fields))
    *parts, loss = known
    alike = len({part.shape for part in parts}) == 1 and parts[0].ndim == 1
    _demand(alike and loss.shape == (1,), "reliability")
    _demand(all(part.dtype == np.float64 for part in known), "type of reliability")
    return {"reliability_": known}


def _add_errors(
    model: Any, settings: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Add standard errors where they are quickly found, so that summaries have them."""
    m, d = model.coef_.shape
    if m * (d + 1) ** 3 > MOST_STEPS:
        return
    try:
        known = model._errors(0.5)
    except (ValueError, np.linalg.LinAlgError):  # classes, few rows, other penalties
        return
    settings["errors"] = known.kind
    arrays["errors_selected"] = known.selected
    for name in ERRORS:
        arrays[f"errors_{name}"] = getattr(known, name).astype(np.float32)


def _read_errors(
    settings: dict[str, Any], arrays: dict[str, np.ndarray], shape: tuple[int, ...]
) -> dict[str, StandardErrors]:
    if "errors" not in settings:
        return {}
    kind, selected = settings["errors"], arrays["errors_selected"]
    _demand(kind in ("conditional", "bootstrap"), "kind of standard errors")
    (m, d), s = shape, len(selected)
    parts = {name: arrays[f"errors_{name}"].astype(np.float64) for name in ERRORS}
    shapes = {"coef": (m, s), "shared": (s,), "between": (s,), "noise": (1,)}
    fits = all(parts[name].shape == wanted for name, wanted in shapes.items())
    fits &= len(parts["effect"]) in (0, m) and selected.dtype.kind == "i"
    fits &= bool(np.all((selected >= 0) & (selected < d)))
    _demand(fits, "standard errors")
    return {"_saved_errors": StandardErrors(kind, selected, **parts)}


def _add_calibration(
    model: Any, settings: dict[str, Any], arrays: dict[str, np.ndarray], prefix: str
) -> None:
    """Add what intervals are made of, if it is known."""
    known = getattr(model, "calibration_", None)
    if known is not None:
        settings[prefix] = known.kind
        for name in CALIBRATED:
            arrays[f"{prefix}_{name}"] = getattr(known, name)


def _read_calibration(
    settings: dict[str, Any],
    arrays: dict[str, np.ndarray],
    prefix: str,
    shape: tuple[int, ...],
) -> dict[str, Calibration]:
    """Attribute of a model with this shape of coefficients; none if not known."""
    if prefix not in settings:
        return {}
    kind = settings[prefix]
    _demand(kind in ("cv+", "normal"), "kind of intervals")
    parts = [arrays[f"{prefix}_{name}"] for name in CALIBRATED]
    scale, places, factors, knots, unseen, coef, intercept = parts
    m, d = shape
    folds = len(coef)
    fits = scale.shape == (m,) and knots.ndim == unseen.ndim == 1
    fits &= len(knots) > 1 and len(unseen) > 1
    fits &= places.ndim == 1 and places.shape == factors.shape
    fits &= coef.shape == (folds, m, d) and intercept.shape == (folds, m)
    fits &= all(part.dtype.kind == "f" for part in parts)
    _demand(all(bool(np.isfinite(part).all()) for part in parts), "intervals")
    _demand(fits and bool(np.all(scale > 0) and np.all(factors > 0)), "intervals")
    return {"calibration_": Calibration(kind, *parts)}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that was written by ``save``.

    Loading runs no code from the file. Modified files are rejected.

    Parameters
    ----------
    path : path
        File to read.

    Returns
    -------
    MultiTaskRegressor, MultiTaskClassifier, one of their CV variants, or a pipeline
    """
    settings, arrays = read_archive(path, KIND)
    try:
        if settings["class"] == PIPELINE:
            return _restore_pipeline(settings, arrays)
        return _restore(settings, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelFileError(
            f"{path} does not hold a model that this version can read ({error})."
        ) from None


def _plain_params(model: LinearMultiTask) -> dict[str, Any]:
    params = model.get_params(deep=False)
    prior = as_feature_prior(params["feature_prior"])
    params["feature_prior"] = None if prior is None else prior.to_plain()
    if isinstance(params["task_prior"], TaskPrior):
        params["task_prior"] = params["task_prior"].to_plain()
    for name in ("feature_weights", "ties"):
        if params[name] is not None and not isinstance(params[name], str):
            params[name] = np.asarray(params[name], dtype=np.float64).tolist()
    if isinstance(params["task"], tuple):
        params["task"] = list(params["task"])
    if isinstance(model, CrossValidated):
        _plain_search_params(params)
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in params.items()
    }


def _plain_search_params(params: dict[str, Any]) -> None:
    """Make lists of strengths, and refuse what would need a pickle."""
    for name in (*SEARCHED, "outlier_strengths"):
        if np.ndim(params[name]) == 1:
            params[name] = np.asarray(params[name], dtype=np.float64).tolist()
    for name, kinds in (("cv", Integral), ("scoring", str)):
        value = params[name]
        if value is not None and not isinstance(value, kinds):
            raise TypeError(
                f"{name} cannot be saved without a pickle: got {value!r}; call "
                f"model.set_params({name}=None) before, which leaves the fit as it is."
            )


def _search_arrays(model: CrossValidated) -> dict[str, np.ndarray]:
    result = model._result
    arrays = {}
    for k, structure in enumerate(result.structures):
        for name in SEARCHED:
            arrays[f"{name}_{k}"] = getattr(structure.grid, name)
    if isinstance(result, OutlierResult):
        arrays["outlier_candidates"] = np.array(result.extra).reshape(-1, 4)
    return arrays | {name: getattr(result, name) for name in SCORED}


def _measures(model: LinearMultiTask) -> tuple[str, ...]:
    """What a fit counts and measures beside the model itself."""
    goodness = ("task_r2",) if isinstance(model, RegressionTasks) else ()
    return ("task_weight", "task_effect", "feature_scale", *goodness)


def _plain_fitted(model: LinearMultiTask) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    resolved = model.feature_prior_
    encoding = getattr(model, "encoding_", None)
    fitted: dict[str, Any] = {
        "tasks": to_plain(model.tasks_.tolist()),
        "features": None if names is None else [str(name) for name in names],
        "encoding": None if encoding is None else encoding.to_plain(),
        "targets_are_columns": model._targets_are_columns,
        "objective": model.objective_,
        "dual_gap": model.dual_gap_,
        "n_iter": model.n_iter_,
        "feature_prior": None if resolved is None else resolved.to_plain(),
        "intercept_strength": getattr(model, "intercept_strength_", None),
        "outlier_strength": getattr(model, "outlier_strength_", None),
        "between": list(getattr(model, "between_", ())),
        "target_variance": target_variance(model),
        "data": getattr(model, "data_name_", None),
        "deviations": {
            name: getattr(model, name)
            for name in ("intercept_sd_", "noise_sd_")
            if hasattr(model, name)
        },
    }
    if isinstance(model, CrossValidated):
        fitted["best_index"] = model.best_index_
        structures = model._result.structures
        fitted["structures"] = [dict(structure.settings) for structure in structures]
        tried = structures[0].settings
        fitted["structure"] = {name: model.structure_[name] for name in tried}
    if isinstance(model, ClassificationTasks):
        table = model._classes
        fitted["classes"] = to_plain(table.ravel().tolist())
        fitted["class_dtype"] = table.dtype.str
    return fitted


def _restore(
    settings: dict[str, Any], arrays: dict[str, np.ndarray]
) -> LinearMultiTask:
    build = MODELS[settings["class"]]
    model = build(**_read_params(build, settings["params"]))
    fitted = settings["fitted"]
    coef, intercept = arrays["coef"], arrays["intercept"]
    ties, strength = arrays["ties"], fitted["intercept_strength"]
    tasks, features = from_plain(fitted["tasks"]), fitted["features"]
    m, d = coef.shape
    types = {array.dtype for array in (coef, intercept, ties)}
    _demand(types == {np.dtype(np.float64)}, "types of arrays")
    _demand(intercept.shape == (m,) == (len(tasks),), "number of tasks")
    finite = np.isfinite(coef).all() and np.isfinite(intercept).all()
    _demand(bool(finite), "coefficients: some are not finite")
    _demand(bool(np.all(ties >= 0)), "ties: some are negative or missing")
    _demand(ties.shape == (d,), "number of features")
    model.coef_, model.intercept_ = coef, intercept
    model.tie_weights_ = ties
    if strength is not None:
        model.intercept_strength_ = float(strength)
    for name, size in fitted.get("deviations", {}).items():
        _demand(name in DEVIATIONS, "standard deviations")
        setattr(model, name, float(size))
    if "task_sd" in arrays:
        _demand(arrays["task_sd"].shape == (d,), "number of features")
        model.task_sd_ = arrays["task_sd"]
    model.tasks_ = task_array(tasks)
    model.n_features_in_ = d
    if features is not None:
        _demand(len(features) == d, "number of features")
        _demand(all(isinstance(name, str) for name in features), "feature names")
        model.feature_names_in_ = np.array(features, dtype=object)
    names = None if features is None else tuple(features)
    model._adopt_encoding(read_encoding(fitted.get("encoding"), names))
    model._targets_are_columns = bool(fitted["targets_are_columns"])
    model.objective_ = float(fitted["objective"])
    model.dual_gap_ = float(fitted["dual_gap"])
    model.n_iter_ = int(fitted["n_iter"])
    if fitted.get("data") is not None:  # older files have none
        model.data_name_ = str(fitted["data"])
    if fitted.get("target_variance") is not None:
        model._target_variance = float(fitted["target_variance"])
    model.feature_prior_ = _maybe(FeaturePrior.from_plain, fitted["feature_prior"])
    if isinstance(model, ClassificationTasks):
        model._set_classes(_read_classes(fitted, m))
    for name in _measures(model):
        sizes = d if name.startswith("feature") else m
        _demand(arrays[name].shape == (sizes,), name)
        _demand(arrays[name].dtype == np.float64, f"type of {name}")
        setattr(model, f"{name}_", arrays[name])
    if isinstance(model, CrossValidated):
        best = int(fitted["best_index"])
        _demand(best >= 0, "index of the best candidate")
        result = _read_search(arrays, fitted["structures"], fitted["structure"])
        model.__dict__.update(search_attributes(result, best))
        model.structure_ = model._structure(dict(fitted["structure"]))
    if fitted["between"]:
        model._adopt_between(tuple(map(float, fitted["between"])))
    if "own_coef" in arrays:
        parts = arrays["shared_coef"], arrays["own_coef"]
        alike = all(p.shape == coef.shape and p.dtype == coef.dtype for p in parts)
        _demand(alike, "parts of coefficients")
        model.shared_coef_, model.own_coef_ = parts
        model.outlier_tasks_ = model.tasks_[model.own_coef_.any(axis=1)]
        model.outlier_strength_ = float(fitted["outlier_strength"])
    known: dict[str, Any] = _read_calibration(
        settings, arrays, "calibration", coef.shape
    )
    known |= _read_errors(settings, arrays, coef.shape)
    model.__dict__.update(known | _read_reliability(arrays, "reliability"))
    return model


def _read_search(
    arrays: dict[str, np.ndarray],
    tried: list[dict[str, Any]],
    chosen: dict[str, Any],
) -> SearchResult | OutlierResult:
    structures, n = list[Structure](), 0
    for k, settings in enumerate(tried):
        grid = Grid(*(arrays[f"{name}_{k}"] for name in SEARCHED))
        _demand(all(values.ndim == 1 for values in grid), "strengths")
        _demand(set(settings) <= {*STRUCTURE, "smooth", "slopes"}, "structures")
        structures.append(Structure(None, grid, (), dict(settings)))
        n += prod(len(values) for values in grid)
    scored = [arrays[name] for name in SCORED]
    extra = arrays.get("outlier_candidates")
    shape = (n + (0 if extra is None else len(extra)), scored[0].shape[1])
    _demand(all(part.shape == shape for part in scored), "shape of scores")
    scores, fit_seconds, score_seconds = (part[:n] for part in scored)
    plain = SearchResult(structures, scores, fit_seconds, score_seconds)
    _demand(chosen in tried, "structure")
    if extra is None:
        return plain
    candidates = [OutlierCandidate(*row) for row in extra.tolist()]
    outcomes = np.stack([part[n:] for part in scored])
    return OutlierResult(plain, candidates, outcomes, structure=tried.index(chosen))


def _read_params(build: type[LinearMultiTask], plain: dict[str, Any]) -> dict[str, Any]:
    params = dict(plain)
    _demand(set(params) == set(build().get_params(deep=False)), "names of settings")
    params["feature_prior"] = _maybe(FeaturePrior.from_plain, params["feature_prior"])
    if isinstance(params["task_prior"], list):
        params["task_prior"] = TaskPrior.from_plain(params["task_prior"])
    params["feature_weights"] = _maybe(_floats, params["feature_weights"])
    if not isinstance(params["ties"], str):
        params["ties"] = _maybe(_floats, params["ties"])
    return params


def _read_classes(fitted: dict[str, Any], m: int) -> np.ndarray:
    labels = from_plain(fitted["classes"])
    dtype = fitted["class_dtype"]
    if dtype == "|O":
        table = np.empty(len(labels), dtype=object)
        table[:] = labels
        return table.reshape(m, 2)
    _demand(PLAIN_DTYPE.fullmatch(dtype) is not None, "type of classes")
    return np.array(labels).astype(dtype).reshape(m, 2)


def _floats(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def _maybe(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong {what}")


# Pipelines of tabular_model.


def _dump_pipeline(model: Pipeline) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    kinds = tuple(type(step) for _, step in model.steps)
    if len(kinds) != 2 or kinds[0] is not TableFeatures:
        raise TypeError(
            "of pipelines only those of tabular_model can be saved: got "
            f"{[kind.__name__ for kind in kinds]}; keep others by joblib.dump."
        )
    features, last = model[0], model[1]
    check_is_fitted(features, "columns_")
    stacked = isinstance(last, StackedRegressor | StackedClassifier)
    settings, arrays = _dump(last.model_ if stacked else last)
    columns = []
    for number, column in enumerate(features._columns):
        plain = column._asdict()
        curves = plain.pop("curves", None)
        if curves is not None:
            plain["curve"] = [curves.low, curves.width]
            if curves.knots is not None:  # else it is periodic
                arrays[f"knots_{number}"] = curves.knots
            arrays[f"rotation_{number}"] = np.ascontiguousarray(curves.rotation)
        columns.append(plain)
    trees = last.trees_ if stacked else []
    for number, one in enumerate(trees):
        for name in TREE_ARRAYS:
            arrays[f"{name}_{number}"] = getattr(one, name)
    smooth = features.smooth
    if isinstance(smooth, Mapping):
        smooth = {str(k): None if v is None else float(v) for k, v in smooth.items()}
    elif not isinstance(smooth, str):
        smooth = [*smooth]
    table = {
        "task": features.task if isinstance(features.task, str) else [*features.task],
        "target": getattr(features, "target_column_", None),
        "smooth": smooth,
        "straight": [*features.straight],
        "names": [str(name) for name in features.feature_names_in_],
        "columns": columns,
        "stacked": stacked,
        "trees": [[one.base, one.depth] for one in trees],
        "trees_weight": last.trees_weight_ if stacked else 0.0,
    }
    saved = {"class": PIPELINE, "table": table, "model": settings}
    if stacked and last.trees_:
        _add_calibration(last, saved, arrays, "stack")
        _add_reliability(last, arrays, "stack_reliability")
    return saved, arrays


def _restore_pipeline(
    settings: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Pipeline:
    table = settings["table"]
    straight = tuple(map(str, table.get("straight", ())))  # older files have none
    features = TableFeatures(table["task"], table["smooth"], straight)
    if table.get("target") is not None:
        features.target_column_ = str(table["target"])
    features._columns = []
    for number, plain in enumerate(table["columns"]):
        if "values" in plain:
            values = tuple(map(str, plain["values"]))
            plain["values"] = values
            features._columns.append(CategoryColumn(**plain))
            continue
        curve, curves = plain.pop("curve", None), None
        if curve is not None:
            rotation, knots = (
                arrays[f"rotation_{number}"],
                arrays.get(f"knots_{number}"),
            )
            low, width = map(float, curve)
            curves = Curves(low, width, knots, rotation)
            curves.check()
        plain["ticks"] = tuple(map(float, plain.get("ticks", ())))
        sizes = np.array([plain["fill"], plain["middle"], plain["spread"]], float)
        _demand(bool(np.isfinite(sizes).all()) and sizes[2] > 0, "columns")
        features._columns.append(NumberColumn(**plain, curves=curves))
    used = [column.source for column in features._columns]
    features.columns_ = list(dict.fromkeys(used))
    features.feature_names_in_ = np.array(table["names"], dtype=object)
    features.n_features_in_ = len(table["names"])
    linear = _restore(settings["model"], arrays)
    made = [name for column in features._columns for name in column.features]
    known = getattr(linear, "feature_names_in_", np.zeros(0)).tolist()
    _demand(made == known, "features of columns")
    last: Any = linear
    if table["stacked"]:
        classifies = isinstance(linear, ClassificationTasks)
        last = (StackedClassifier if classifies else StackedRegressor)(clone(linear))
        last.model_, last.n_features_in_ = linear, linear.n_features_in_
        last.trees_weight_ = float(table["trees_weight"])
        last.trees_ = []
        for number, (base, depth) in enumerate(table["trees"]):
            parts = {name: arrays[f"{name}_{number}"] for name in TREE_ARRAYS}
            _check_trees(parts, linear.n_features_in_, depth)
            _demand(np.isfinite(base), "base of trees")
            last.trees_.append(Trees(base=float(base), depth=int(depth), **parts))
        for name in ("calibration_", "reliability_"):  # where there are no trees
            if hasattr(linear, name):
                setattr(last, name, getattr(linear, name))
        last.__dict__.update(_read_reliability(arrays, "stack_reliability"))
        shape = len(linear.tasks_), linear.n_features_in_
        last.__dict__.update(_read_calibration(settings, arrays, "stack", shape))
    return TabularPipeline([("features", features), ("model", last)])


def _check_trees(parts: dict[str, np.ndarray], d: int, depth: Any) -> None:
    """Places must be inside, so that no file can make a prediction read beyond.

    Trees are no deeper than they have nodes.
    """
    n = len(parts["value"])
    _demand(all(part.ndim == 1 for part in parts.values()), "trees")
    sizes = {len(part) for name, part in parts.items() if name != "roots"}
    _demand(sizes == {n} and bool(np.isfinite(parts["value"]).all()), "trees")
    _demand(isinstance(depth, int) and 0 <= depth <= n, "depth of trees")
    for name in ("roots", "left", "right"):
        _demand(bool(np.all((parts[name] >= 0) & (parts[name] < n))), name)
    inside = (parts["feature"] >= 0) & (parts["feature"] <= d)
    _demand(bool(np.all(inside)), "features of trees")
