"""What figures need of a fitted linear model: coefficients under their names."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import from_plain, name_features, pooled_scale
from priormtl.exceptions import suggest, unknown_name
from priormtl.priors import as_task_prior

__all__ = ["Learned", "Per", "feature_scale", "find_places", "rank_rows", "read_model"]

Per = Literal["unit", "deviation"]
PER = {
    "unit": "per unit of the feature",
    "deviation": "per standard deviation of the feature",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """Coefficients of a model, with names and the words for their unit."""

    P: Array  # (d, m)
    features: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    order: Index  # tasks as their chain has them, else as in tasks_
    ordered: bool  # whether there is such a chain
    unit: str
    scale: Array  # (d,) what coef_ was multiplied by for that unit

    def find_features(self, features: Sequence[Hashable]) -> Index:
        """Places of features that are named or numbered."""
        return find_places("feature", features, self.features)

    def choose_rows(
        self, top: int | None, features: Sequence[Hashable] | None
    ) -> Index:
        """Features asked for; else those with a coefficient, ``top`` of them."""
        if features is not None:
            return self.find_features(features)
        return rank_rows(self.P)[:top]

    def find_tasks(self, tasks: Sequence[Hashable] | None) -> Index:
        """Places of task labels; all, in order, where none are given."""
        if tasks is None:
            return self.order
        return find_places("task", tasks, self.tasks, numbered=False)


def read_model(model: Any, per: Per = "unit") -> Learned:
    """Coefficients of any fitted model that has ``coef_`` (m, d)."""
    if not hasattr(model, "coef_"):
        raise TypeError(
            "model must be a fitted linear model, with coef_: got "
            f"{type(model).__name__}; call fit first."
        )
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    m, d = coef.shape
    tasks = tuple(_plain(getattr(model, "tasks_", range(m))))
    scale = _scale(model, d, per)
    chain = _chain(getattr(model, "task_prior", None))
    return Learned(
        coef.T * scale[:, np.newaxis],
        _feature_names(model, d),
        tasks,
        _chain_order(chain, tasks),
        chain is not None,
        f"{_outcome(model)} {PER[per]}",
        scale,
    )


def feature_scale(model: Any) -> Array:
    """Pooled standard deviation of each feature in the data of the fit (d,)."""
    statistics = getattr(model, "statistics_", None)
    if statistics is None:
        raise ValueError(
            "the model must hold statistics_ to know the features' standard "
            'deviations; it does not keep them: use per="unit", or divide the '
            "features by them before the fit."
        )
    return pooled_scale(statistics)


def rank_rows(P: Array) -> Index:
    """Features with a coefficient, the largest ‖p_j‖ over the tasks first."""
    size = np.linalg.norm(P, axis=1)
    order = np.argsort(-size, kind="stable")
    return order[size[order] > 0]


def find_places(
    kind: str,
    wanted: Sequence[Hashable],
    known: Sequence[Hashable],
    *,
    numbered: bool = True,
) -> Index:
    """Places of names, or of numbers where these count places too."""
    place = {name: k for k, name in enumerate(known)}
    found = []
    for name in _plain(wanted):
        by_number = numbered and isinstance(name, int) and 0 <= name < len(known)
        if name not in place and not by_number:
            raise unknown_name(kind, name, known)
        found.append(place.get(name, name))
    return np.array(found, dtype=np.intp)


def _plain(labels: Any) -> list[Any]:
    """Labels as Python's own values; one name alone is a list of one."""
    if isinstance(labels, str):
        return [labels]
    return [x.item() if isinstance(x, np.generic) else x for x in labels]


def _feature_names(model: Any, d: int) -> tuple[str, ...]:
    names = getattr(model, "feature_names_in_", None)
    return name_features(names if names is not None and len(names) == d else None, d)


def _chain(prior: Any) -> dict[str, Any] | None:
    """The chain that is the whole task prior, if it is one."""
    known = as_task_prior(prior)
    ties = [] if known is None else known.to_plain()
    return ties[0] if len(ties) == 1 and ties[0]["tie"] == "chain" else None


def _chain_order(chain: dict[str, Any] | None, tasks: tuple[Hashable, ...]) -> Index:
    """Order of a chain that lists its tasks; else as they stand."""
    order = None if chain is None else chain["order"]
    labels = tasks if order is None else from_plain(order)
    return find_places("task", labels, tasks, numbered=False)


def _scale(model: Any, d: int, per: Per) -> Array:
    if per not in PER:
        near = suggest([per], list(PER))
        raise ValueError(f'per must be "unit" or "deviation": got {per!r}.{near}')
    return feature_scale(model) if per == "deviation" else np.ones(d)


def _outcome(model: Any) -> str:
    """What a coefficient changes."""
    if not hasattr(model, "classes_"):
        return "target"
    return "log-odds" if getattr(model, "loss", None) == "logistic" else "score"
