"""Contestants: the methods that take part in a comparison, by name."""

from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.base import clone

from priormtl.baselines.catalogue import BASELINES, REFERENCES, spell_method
from priormtl.baselines.tuned import tuned
from priormtl.estimators import (
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
    check_count,
)

__all__ = ["OURS", "find_contestants", "list_methods", "make_ours"]

OURS = "priormtl"

# Strengths as multiples of the mean rows per task, the most useful first: features are
# standardised, so that this is the curvature of a task's own misfit.
EPSILONS = (10.0, 0.0, 1.0, 100.0)
THETAS = (1.0, 0.0, 10.0)
FEWEST_LAMS = 2  # at the first, lam_max, all coefficients vanish
LAMS_BEFORE_OTHERS = 3  # a finer grid of lam pays more than further strengths


def list_methods() -> tuple[str, ...]:
    """Names that can be compared: ours, the compared methods, simple references."""
    return (OURS, *BASELINES, *REFERENCES)


def find_contestants(
    methods: Any,
    *,
    classify: bool,
    n_settings: int,
    rows_per_task: float,
    feature_prior: Any,
    task_prior: Any,
) -> dict[str, Any]:
    """Estimators by name: named methods tuned, those of users as they are."""
    if isinstance(methods, Mapping):
        return {name: _take_part(name, model) for name, model in methods.items()}
    count = check_count("n_settings", n_settings)
    ours = make_ours(
        count,
        rows_per_task,
        classify=classify,
        feature_prior=feature_prior,
        task_prior=task_prior,
    )
    return {
        name: ours
        if name == OURS
        else tuned(name, classify=classify, n_settings=count, standardize=True)
        for name in check_methods(methods)
    }


def check_methods(methods: Any) -> list[str]:
    """Names, all known, in any case."""
    known = list_methods()
    if isinstance(methods, str):
        methods = known if methods.casefold() == "all" else [methods]
    if not isinstance(methods, Iterable):
        raise TypeError(
            'methods must be "all", a name, names, or a mapping from names to '
            f"estimators: got {type(methods).__name__}."
        )
    return [spell_method(name, known) for name in methods]


def make_ours(
    n_settings: int,
    rows_per_task: float,
    *,
    classify: bool,
    feature_prior: Any,
    task_prior: Any,
) -> MultiTaskRegressorCV | MultiTaskClassifierCV:
    """Our search over about ``n_settings`` strengths."""
    thetas, epsilons = [0.0], [0.0]
    room = n_settings // LAMS_BEFORE_OTHERS
    if feature_prior is not None:
        thetas = _few(THETAS, room // 2, rows_per_task)
    if task_prior is not None:
        epsilons = _few(EPSILONS, room // len(thetas), rows_per_task)
    lams = max(FEWEST_LAMS, n_settings // (len(thetas) * len(epsilons)))
    kind = MultiTaskClassifierCV if classify else MultiTaskRegressorCV
    return kind(
        lams,
        thetas,
        epsilons,
        feature_prior=feature_prior,
        task_prior=task_prior,
        standardize=True,
    )


def _few(multiples: tuple[float, ...], count: int, unit: float) -> list[float]:
    """The first ``count`` (at least one) of these multiples of a unit, in order."""
    return sorted(unit * multiple for multiple in multiples[: max(1, count)])


def _take_part(name: str, model: Any) -> Any:
    if not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise TypeError(
            "methods must map names to estimators with fit and predict: "
            f"{name!r} is {model!r}."
        )
    model = clone(model)
    # The task comes as labels, whatever column held it.
    if "task" in model.get_params(deep=False):
        model.set_params(task=None)
    return model
