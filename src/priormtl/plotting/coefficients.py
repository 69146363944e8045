"""Coefficients of a fitted model: as a heat map, or as lines over the tasks.

``read_model``, which all figures of coefficients share, uses public attributes alone,
and of these only ``coef_`` is required, so that scikit-learn's linear models can be
drawn too.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator

from priormtl._arrays import Array, Index
from priormtl.data import from_plain, pooled_scale
from priormtl.estimators import read_fitted
from priormtl.exceptions import suggest, unknown_name
from priormtl.fitted import Fitted
from priormtl.plotting import style
from priormtl.plotting.style import Axes
from priormtl.rendering import count_words

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
        if tasks is None:
            return self.order
        return find_places("task", tasks, self.tasks, numbered=False)


def read_model(model: object, per: Per = "unit") -> Learned:
    """Coefficients of a fitted model, by task in the order of their chain."""
    return read_learned(read_fitted(model), per)


def read_learned(fitted: Fitted, per: Per = "unit") -> Learned:
    several, fitted = fitted.n_classes > 1, fitted.by_class()
    tasks = tuple(_to_plain(fitted.tasks))
    # Tasks are ordered if a chain is the whole task prior; it may list its own order.
    ties = [] if fitted.task_prior is None else fitted.task_prior.to_plain()
    ordered = len(ties) == 1 and ties[0]["tie"] == "chain"
    chain = ties[0]["order"] if ordered and not several else None
    labels = tasks if chain is None else from_plain(chain)
    scale = _scale(fitted, per)
    outcome = "target"
    if fitted.is_classifier:
        outcome = "log-odds" if fitted.loss == "logistic" else "score"
    elif fitted.loss != "squared":
        outcome = "log of the mean target"
    return Learned(
        fitted.coef.T * scale[:, np.newaxis],
        fitted.names,
        tasks,
        find_places("task", labels, tasks, numbered=False),
        ordered,
        f"{outcome} {PER[per]}",
        scale,
    )


def _scale(fitted: Fitted, per: Per) -> Array:
    """Factor (d,) from coefficients per unit to the wanted ones."""
    if per not in PER:
        near = suggest([per], list(PER))
        raise ValueError(f'per must be "unit" or "deviation": got {per!r}.{near}')
    if per == "unit":
        return np.ones(fitted.shape[1])
    if fitted.statistics is None:
        raise ValueError(
            'per="deviation" needs a model with statistics_: got '
            f'{fitted.estimator} without them. Use per="unit", or standardize the '
            "features before the fit."
        )
    return pooled_scale(fitted.statistics)


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


def _to_plain(labels: Iterable[Hashable]) -> list[Hashable]:
    if isinstance(labels, str):
        return [labels]
    return [x.item() if isinstance(x, np.generic) else x for x in labels]


# Figures.


def plot_coefficients(
    model: object,
    *,
    top: int | None = 30,
    features: Sequence[Hashable] | None = None,
    tasks: Sequence[Hashable] | None = None,
    per: Per = "unit",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot coefficients as a heat map, with the largest features first.

    Dark blue is negative, light yellow is positive and grey is zero, so the sign is
    also visible in greyscale.

    Parameters
    ----------
    model : fitted linear model
        A model with ``coef_`` (m, d). Names are taken from the model.
    top : int or None, default=30
        Maximum number of features to show. Features are sorted by ‖p_j‖ over the tasks.
        None shows all features with a nonzero coefficient.
    features : names or positions, optional
        Features to show, in this order, instead of the largest ones.
    tasks : task labels, optional
        Tasks to show, in this order. By default, all tasks in the order of their chain.
    per : {"unit", "deviation"}, default="unit"
        Whether coefficients are in the units of X or per standard deviation of each
        feature, which makes features comparable.
    ax : matplotlib Axes, optional
        Axes to draw on. By default, a new figure is created.
    legend : bool, default=True
        Whether to add a legend or a colour bar.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> ax = plot_coefficients(MultiTaskRegressor().fit(X, y, task=task), top=3)
    >>> ax.get_title()
    'Strongest 3 of 6 features'
    """
    learned = read_model(model, per)
    rows = learned.choose_rows(top, features)
    columns = learned.find_tasks(tasks)
    # Inches in which names have room, also upright, on a page.
    longest = max(len(style.shorten(task)) for task in learned.tasks)
    width = float(np.clip(3.2 + 0.24 * len(learned.tasks), 4.6, 9.0))
    height = float(np.clip(1.2 + 0.19 * len(rows), 2.0, 10.0)) + 0.07 * longest
    with style.styled():
        ax = style.new_axes(ax, width, height)
        if not len(rows):
            return style.show_missing(
                ax, f"no feature is selected (of {len(learned.P)})"
            )
        values = learned.P[np.ix_(rows, columns)]
        limit = float(np.abs(values).max(initial=0.0)) or 1.0  # ±1 where all are zero
        image = ax.imshow(
            values, aspect="auto", cmap=style.SIGNED, vmin=-limit, vmax=limit
        )
        ax.grid(visible=False)
        ax.spines[:].set_visible(True)
        style.name_ticks(ax, "y", [learned.features[j] for j in rows])
        style.name_ticks(ax, "x", [learned.tasks[i] for i in columns])
        ax.set_xlabel(f"Task ({len(columns)})")
        if legend:
            label = style.fold_words(f"Coefficient: {learned.unit}", ax)
            ax.figure.colorbar(image, ax=ax, label=label)
        d, n_active = len(learned.P), len(rank_rows(learned.P))
        title = count_words(d, "feature")
        if features is None and len(rows) < n_active:
            others = "" if n_active == d else f" with a coefficient, {d} in all"
            title = (
                f"Strongest {len(rows)} of {count_words(n_active, 'feature')}{others}"
            )
        elif len(rows) < d:
            title = f"{len(rows)} of {title}{' selected' * (features is None)}"
        ax.set_title(title)
    return ax


def plot_over_tasks(
    model: BaseEstimator,
    features: Sequence[Hashable] | None = None,
    *,
    band: float | tuple[Array, Array] | None = None,
    tasks: Sequence[Hashable] | None = None,
    per: Per = "unit",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot coefficients of a few features over the tasks, one line per feature.

    If neither a chain nor ``tasks`` orders the tasks, points are not joined by lines.

    Parameters
    ----------
    model : fitted linear model
        A model with ``coef_`` (m, d). Names are taken from the model.
    features : names or positions, optional
        Features to show. By default, the four with the largest ‖p_j‖ over the tasks.
    band : float, or pair of (m, d) arrays, optional
        A level such as 0.95 draws the intervals of ``model.summary(level)``, and the
        title shows it. Otherwise lower and upper ends of an interval for each
        coefficient, in the units of ``coef_``.
    tasks, per, ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressor().fit(X, y, task=task)
    >>> ends = model.coef_ - 0.1, model.coef_ + 0.1
    >>> ax = plot_over_tasks(model, [0, 2], band=ends)
    >>> [text.get_text() for text in ax.get_legend().texts]
    ['x0', 'x2']
    >>> plot_over_tasks(model, [0, 2], band=0.95).get_title()
    '2 of 6 features, with 95 % bands'
    """
    learned = read_model(model, per)
    columns = learned.find_tasks(tasks)
    rows = learned.choose_rows(4, features)
    joined = learned.ordered or tasks is not None
    ends, title = None, f"{len(rows)} of {count_words(len(learned.P), 'feature')}"
    if isinstance(band, float):
        title = f"{title}, with {100 * band:g} % bands"
        found = model.summary(band)
        reach = norm.ppf(0.5 + 0.5 * band) * np.nan_to_num(found.coef_error)
        band = found.coef - reach, found.coef + reach
    if band is not None:
        low_high = np.array([*map(np.asarray, band)], dtype=np.float64)
        if low_high.shape != (2, *learned.P.T.shape):
            raise ValueError(
                f"band must be two arrays of shape {learned.P.T.shape}, as coef_: got "
                f"{low_high.shape[1:]}."
            )
        ends = (low_high * learned.scale).transpose(0, 2, 1)
    places = np.arange(len(columns))
    most_markers = 40
    with style.styled():
        ax = style.new_axes(ax, 7.0, 3.8)
        if not len(rows):
            return style.show_missing(
                ax, f"no feature is selected (of {len(learned.P)})"
            )
        style.draw_zero(ax)
        for k, j in enumerate(rows):
            colour, line, marker = style.LINE_STYLES[k % len(style.LINE_STYLES)]
            name = style.shorten(learned.features[j])
            (drawn,) = ax.plot(places, learned.P[j, columns], label=name, marker=marker)
            drawn.set(color=colour, linestyle=line if joined else "none")
            if joined:
                drawn.set_markevery(
                    style.even_places(len(places), most_markers).tolist()
                )
            if ends is not None:
                bars = not joined or len(places) == 1
                interval = ends[:, j, columns]
                style.draw_interval(ax, places, [*interval], colour, bars=bars)
        style.name_ticks(ax, "x", [learned.tasks[i] for i in columns])
        ax.set(xlabel=f"Task ({len(columns)})", title=title)
        ax.set_ylabel(style.fold_words(f"Coefficient: {learned.unit}", ax))
        if legend:
            style.add_legend(ax)
    return ax
