"""How the cross-validated score depends on the strengths."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.exceptions import unknown_name
from priormtl.plotting.names import name_ticks, say_number
from priormtl.plotting.style import LOOKS, Axes, mpl, new_axes, styled
from priormtl.plotting.surfaces import plot_surface

__all__ = ["plot_search"]

FIRST = ("lam", "theta", "epsilon")
SCORE = "Mean score on held-out rows (more is better)"
MOST_WRITTEN = 8  # columns whose numbers have room


def plot_search(
    search: Any,
    *,
    x: str | None = None,
    y: str | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Mean cross-validated score over two strengths, or along one.

    Where more than two were varied, the others stand at their chosen values, as the
    title says. The chosen candidate is framed, or marked by a vertical line.

    Parameters
    ----------
    search : fitted search, or its ``cv_results_``
        ``MultiTaskRegressorCV``, ``MultiTaskClassifierCV``, or scikit-learn's searches
        over a grid.
    x, y : str, optional
        Parameters on the axes; by default the first two that vary, of lam, theta and
        epsilon, then of others.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to add the scale of colours.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import MultiTaskRegressorCV
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressorCV(lams=3, epsilons=[1.0, 10.0], cv=3)
    >>> ax = plot_search(model.fit(X, y, task=task), y="epsilon")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('lam', 'epsilon')
    """
    trials = _read(search)
    shown = _choose_axes(trials, x, y)
    with styled():
        ax = new_axes(ax, 6.2, 3.8)
        if len(shown) == 2:
            _draw_surface(ax, trials, shown, legend=legend)
        else:
            _draw_line(ax, trials, shown[0])
        ax.set_title(_describe(trials, shown))
    return ax


@dataclass(frozen=True, eq=False)
class _Trials:
    """Candidates with their scores, and which was chosen."""

    params: list[Mapping[str, Any]]
    mean: Array
    error: Array  # standard error of the mean
    best: int

    def values(self, name: str) -> list[Any]:
        """Values of a parameter, sorted where they can be."""
        found = list(dict.fromkeys(part.get(name) for part in self.params))
        numbers = all(isinstance(value, int | float) for value in found)
        return sorted(found) if numbers else found

    @property
    def names(self) -> list[str]:
        """Parameters, strengths first."""
        names = {name for part in self.params for name in part}
        return sorted(names, key=lambda name: (_rank(name), name))

    def slice(self, shown: list[str]) -> list[int]:
        """Candidates that agree with the chosen one in all that is not shown."""
        best = {k: v for k, v in self.params[self.best].items() if k not in shown}
        return [
            k
            for k, part in enumerate(self.params)
            if {name: part[name] for name in part if name not in shown} == best
        ]


def _rank(name: str) -> int:
    plain = name.rpartition("__")[2]
    return FIRST.index(plain) if plain in FIRST else len(FIRST)


def _read(search: Any) -> _Trials:
    results = getattr(search, "cv_results_", search)
    if not isinstance(results, Mapping) or "mean_test_score" not in results:
        raise TypeError(
            "search must be a fitted search or its cv_results_, with mean_test_score: "
            f"got {type(search).__name__}; MultiTaskRegressorCV or GridSearchCV is one."
        )
    mean = np.asarray(results["mean_test_score"], dtype=np.float64)
    n_splits = sum(k.startswith("split") and k.endswith("_test_score") for k in results)
    error = np.asarray(results["std_test_score"]) / np.sqrt(max(1, n_splits - 1))
    best = getattr(search, "best_index_", None)
    best = int(np.nanargmax(mean)) if best is None else int(best)
    return _Trials(list(results["params"]), mean, error, best)


def _choose_axes(trials: _Trials, x: str | None, y: str | None) -> list[str]:
    for name in (x, y):
        if name is not None and name not in trials.names:
            raise unknown_name("parameter", name, trials.names)
    varied = [name for name in trials.names if len(trials.values(name)) > 1]
    free = [name for name in varied or trials.names[:1] if name not in (x, y)]
    asked = [x or (free.pop(0) if free else None), y or (free.pop(0) if free else None)]
    return list(dict.fromkeys(name for name in asked if name is not None))


def _describe(trials: _Trials, shown: list[str]) -> str:
    chosen = trials.params[trials.best]
    rest = [name for name in trials.names if name not in shown]
    varied = [name for name in rest if len(trials.values(name)) > 1]
    return ", ".join(f"{name} = {say_number(chosen.get(name))}" for name in varied)


def _table(trials: _Trials, shown: list[str]) -> Array:
    """Mean scores (values of y, values of x); NaN where there is no candidate."""
    x, y = (trials.values(name) for name in shown)
    table = np.full((len(y), len(x)), np.nan)
    for k in trials.slice(shown):
        part = trials.params[k]
        row, column = y.index(part.get(shown[1])), x.index(part.get(shown[0]))
        table[row, column] = trials.mean[k]
    return table


def _draw_surface(ax: Axes, trials: _Trials, shown: list[str], *, legend: bool) -> None:
    table = _table(trials, shown)
    x, y = (trials.values(name) for name in shown)
    plot_surface(
        np.arange(len(x), dtype=np.float64),
        np.arange(len(y), dtype=np.float64),
        table,
        labels=(shown[0], shown[1]),
        decimals=_decimals(table) if len(x) <= MOST_WRITTEN else None,
        ax=ax,
    )
    name_ticks(ax, "x", [say_number(value) for value in x])
    name_ticks(ax, "y", [say_number(value) for value in y])
    chosen = trials.params[trials.best]
    _frame(ax, x.index(chosen.get(shown[0])), y.index(chosen.get(shown[1])))
    if legend:
        ax.figure.colorbar(ax.images[0], ax=ax, label=SCORE.replace(" (", "\n("))


def _decimals(table: Array) -> int:
    """Digits in which neighbouring scores differ."""
    spread = float(np.nanmax(table) - np.nanmin(table))
    return 2 if spread <= 0 else int(np.clip(2 - np.floor(np.log10(spread)), 0, 6))


def _frame(ax: Axes, column: int, row: int) -> None:
    """Frame one cell, in black and white so that it is seen on any colour."""
    for colour, width in (("white", 4.0), ("black", 1.8)):
        corner = (column - 0.5, row - 0.5)
        cell = mpl.patches.Rectangle(corner, 1, 1, fill=False, ec=colour, lw=width)
        cell.set_clip_on(False)
        ax.add_patch(cell)


def _draw_line(ax: Axes, trials: _Trials, name: str) -> None:
    look, kept = LOOKS[0], trials.slice([name])
    values = [trials.params[k].get(name) for k in kept]
    order = np.argsort([trials.values(name).index(value) for value in values])
    rows = np.array(kept)[order]
    known = trials.values(name)
    log = all(isinstance(v, int | float) and v > 0 for v in known) and len(known) > 1
    places = np.array(known, float) if log else np.arange(len(known), dtype=float)
    mean, error = trials.mean[rows], trials.error[rows]
    ax.errorbar(places, mean, yerr=error, color=look.colour, marker="o", capsize=2.5)
    ax.axvline(
        places[known.index(trials.params[trials.best].get(name))],
        color="black",
        linestyle=":",
        linewidth=1.2,
    )
    if log:
        ax.set_xscale("log")
    else:
        name_ticks(ax, "x", [say_number(value) for value in known])
    ax.set(xlabel=name, ylabel=SCORE.replace(" (", "\n("))
