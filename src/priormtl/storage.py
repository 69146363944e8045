"""save and load: a fitted model in one file of arrays and plain settings.

The file holds the parameters of the estimator as JSON, and what it learned as the
arrays of its ``Fitted`` value; see ``priormtl.fitted``.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from priormtl.archive import Settings, read_archive, write_archive
from priormtl.estimators import (
    ClassificationTasks,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    StackedClassifier,
    StackedRegressor,
    TableFeatures,
    TabularPipeline,
    linear_part,
)
from priormtl.estimators.linear import LinearMultiTask
from priormtl.exceptions import ModelFileError
from priormtl.fitted import Fitted
from priormtl.priors import FeaturePrior, TaskPrior, as_feature_prior

__all__ = ["load", "save"]

MOST_STEPS = 10**10  # multiplications that standard errors may cost in save
KIND = "model"
MODELS: dict[str, type[LinearMultiTask]] = {
    "MultiTaskRegressor": MultiTaskRegressor,
    "MultiTaskClassifier": MultiTaskClassifier,
    "MultiTaskRegressorCV": MultiTaskRegressorCV,
    "MultiTaskClassifierCV": MultiTaskClassifierCV,
}


def save(model: object, path: str | os.PathLike[str]) -> None:
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
    table, linear, fitted = None, model, None
    if isinstance(model, Pipeline):
        table = _plain_features(model)
        linear, fitted = linear_part(model), model[-1].fitted_
    name = type(linear).__name__
    if MODELS.get(name) is not type(linear):
        raise TypeError(
            f"model must be one of {', '.join(MODELS)}: got {name}; keep others by "
            "joblib.dump(model, path), whose files are pickles: load only such that "
            "you trust."
        )
    check_is_fitted(linear)
    fitted = fitted or linear.fitted_
    m, d = fitted.shape
    if fitted.errors is None and m * (d + 1) ** 3 <= MOST_STEPS:
        # Standard errors that are quickly found, so that summaries have them; classes,
        # few rows and other penalties may have none.
        with suppress(ValueError, np.linalg.LinAlgError):
            fitted = fitted.with_errors(linear._errors(0.5))
    arrays = fitted.to_arrays()
    settings = {
        "class": name,
        "params": _plain_params(linear),
        "table": table,
        "fitted": json.loads(bytes(arrays.pop("plain"))),
    }
    write_archive(path, KIND, settings, arrays)


def load(path: str | os.PathLike[str]) -> BaseEstimator:
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
        plain = json.dumps(settings["fitted"]).encode()
        arrays["plain"] = np.frombuffer(plain, np.uint8)
        build, fitted = MODELS[settings["class"]], Fitted.from_arrays(arrays)
        if fitted.model is None or fitted.estimator != settings["class"]:
            raise ValueError("wrong kind of model")
        if issubclass(build, ClassificationTasks) != fitted.is_classifier:
            raise ValueError("wrong classes")
        searches = issubclass(build, MultiTaskRegressorCV | MultiTaskClassifierCV)
        if fitted.search is not None and not searches:
            raise ValueError("wrong search")
        linear = build(**_read_params(build, settings["params"]))
        linear._adopt(replace(fitted, trees=None))
        if settings["table"] is None:
            return linear
        return _build_pipeline(linear, fitted, settings["table"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelFileError(
            f"{path} does not hold a model that this version can read ({error})."
        ) from None


# Parameters.


def _plain_params(model: LinearMultiTask) -> Settings:
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
    for name in ("lams", "thetas", "epsilons", "outlier_strengths"):
        if np.ndim(params.get(name)) == 1:
            params[name] = np.asarray(params[name], dtype=np.float64).tolist()
    for name, kinds in (("cv", Integral), ("scoring", str)):
        value = params.get(name)
        if value is not None and not isinstance(value, kinds):
            raise TypeError(
                f"{name} cannot be saved without a pickle: got {value!r}; call "
                f"model.set_params({name}=None) before, which leaves the fit as it is."
            )
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in params.items()
    }


def _read_params(build: type[LinearMultiTask], plain: Settings) -> Settings:
    params = dict(plain)
    if set(params) != set(build().get_params(deep=False)):
        raise ValueError("wrong names of settings")
    if params["feature_prior"] is not None:
        params["feature_prior"] = FeaturePrior.from_plain(params["feature_prior"])
    if isinstance(params["task_prior"], list):
        params["task_prior"] = TaskPrior.from_plain(params["task_prior"])
    for name in ("feature_weights", "ties"):
        if params[name] is not None and not isinstance(params[name], str):
            params[name] = np.array(params[name], dtype=np.float64)
    return params


# Pipelines of tabular_model.


def _plain_features(model: Pipeline) -> Settings:
    """Settings of the first step of a pipeline."""
    kinds = tuple(type(step) for _, step in model.steps)
    if len(kinds) != 2 or kinds[0] is not TableFeatures:
        raise TypeError(
            "of pipelines only those of tabular_model can be saved: got "
            f"{[kind.__name__ for kind in kinds]}; keep others by joblib.dump."
        )
    features = model[0]
    check_is_fitted(features, "design_")
    smooth = features.smooth
    if isinstance(smooth, Mapping):
        smooth = {str(k): None if v is None else float(v) for k, v in smooth.items()}
    elif not isinstance(smooth, str):
        smooth = [*smooth]
    return {
        "task": features.task if isinstance(features.task, str) else [*features.task],
        "smooth": smooth,
        "straight": [*features.straight],
        "names": [str(name) for name in features.feature_names_in_],
        "stacked": isinstance(model[-1], StackedRegressor | StackedClassifier),
    }


def _build_pipeline(
    linear: LinearMultiTask, fitted: Fitted, table: Settings
) -> Pipeline:
    straight = tuple(map(str, table["straight"]))
    given = vars(linear)
    if fitted.design is None:
        raise ValueError("wrong design")
    features = TableFeatures(
        table["task"],
        table["smooth"],
        straight,
        exposure=given.get("exposure"),
        offset=given.get("offset"),
        time=fitted.design.time,
    )
    features.design_ = fitted.design
    features.feature_names_in_ = np.array(table["names"], dtype=object)
    features.n_features_in_ = len(table["names"])
    last: BaseEstimator = linear
    if table["stacked"]:
        stack = StackedClassifier if fitted.is_classifier else StackedRegressor
        last = stack(clone(linear))
        last.model_, last.fitted_ = linear, fitted
        last.n_features_in_ = fitted.shape[1]
    return TabularPipeline([("features", features), ("model", last)])
