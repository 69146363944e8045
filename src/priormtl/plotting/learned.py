"""The reading of a fitted linear model that all figures of coefficients share.

It uses public attributes alone, and of these only ``coef_`` is required, so that
scikit-learn's linear models can be drawn too.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import from_plain, name_features, pooled_scale
from priormtl.exceptions import suggest, unknown_name
from priormtl.priors import as_task_prior

Per = Literal["unit", "deviation"]
PER = {
    "unit": "per unit of the feature",
    "deviation": "per standard deviation of the feature",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """Coefficients of a model, with their names and unit."""

    P: Array  # (d, m)
    features: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    order: Index  # tasks in the order of their chain, else as in tasks_
    ordered: bool  # whether there is such a chain
    unit: str
    scale: Array  # (d,) factor from coef_ to that unit

    def choose_rows(
        self, top: int | None, features: Sequence[Hashable] | None
    ) -> Index:
        """Given features; else the ``top`` largest with a nonzero coefficient."""
        if features is not None:
            return find_places("feature", features, self.features)
        return rank_rows(self.P)[:top]

    def find_tasks(self, tasks: Sequence[Hashable] | None) -> Index:
        """Places of task labels; all, in order, where none are given."""
        if tasks is None:
            return self.order
        return find_places("task", tasks, self.tasks, numbered=False)


def read_model(model: Any, per: Per = "unit") -> Learned:
    if not hasattr(model, "coef_"):
        raise TypeError(
            "model must be a fitted linear model, with coef_: got "
            f"{type(model).__name__}; call fit first."
        )
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    m, d = coef.shape
    names = getattr(model, "feature_names_in_", None)
    features = name_features(
        names if names is not None and len(names) == d else None, d
    )
    tasks = tuple(_to_plain(getattr(model, "tasks_", range(m))))
    # Tasks are ordered if a chain is the whole task prior; it may list its own order.
    prior = as_task_prior(getattr(model, "task_prior", None))
    ties = [] if prior is None else prior.to_plain()
    ordered = len(ties) == 1 and ties[0]["tie"] == "chain"
    chain = ties[0]["order"] if ordered else None
    labels = tasks if chain is None else from_plain(chain)
    scale = _scale(model, d, per)
    outcome = "target"
    if hasattr(model, "classes_"):
        logistic = getattr(model, "loss", None) == "logistic"
        outcome = "log-odds" if logistic else "score"
    return Learned(
        coef.T * scale[:, np.newaxis],
        features,
        tasks,
        find_places("task", labels, tasks, numbered=False),
        ordered,
        f"{outcome} {PER[per]}",
        scale,
    )


def _scale(model: Any, d: int, per: Per) -> Array:
    """Factor (d,) from coefficients per unit to the wanted ones."""
    if per not in PER:
        near = suggest([per], list(PER))
        raise ValueError(f'per must be "unit" or "deviation": got {per!r}.{near}')
    if per == "unit":
        return np.ones(d)
    statistics = getattr(model, "statistics_", None)
    if statistics is None:
        raise ValueError(
            'per="deviation" needs a model with statistics_: got '
            f'{type(model).__name__} without them. Use per="unit", or standardize the '
            "features before the fit."
        )
    return pooled_scale(statistics)


def rank_rows(P: Array) -> Index:
    """Features with a nonzero coefficient, the largest ‖p_j‖ over the tasks first."""
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
    """Places of names among the known ones; with ``numbered``, also of positions."""
    place = {name: k for k, name in enumerate(known)}
    found = []
    for name in _to_plain(wanted):
        by_number = numbered and isinstance(name, int) and 0 <= name < len(known)
        if name not in place and not by_number:
            raise unknown_name(kind, name, known)
        found.append(place.get(name, name))
    return np.array(found, dtype=np.intp)


def _to_plain(labels: Any) -> list[Any]:
    if isinstance(labels, str):
        return [labels]
    return [x.item() if isinstance(x, np.generic) else x for x in labels]
