"""Dependence on the strengths: regularization paths, searches, surfaces."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array
from priormtl.archive import Settings
from priormtl.data import name_features
from priormtl.estimators import RegularizationPath
from priormtl.exceptions import unknown_name
from priormtl.plotting import style
from priormtl.plotting.coefficients import find_places
from priormtl.plotting.style import Axes
from priormtl.rendering import count_words

# Regularization paths.


def plot_path(
    path: RegularizationPath,
    *,
    features: Sequence[Hashable] | None = None,
    top: int = len(style.LINE_STYLES),
    task: Hashable = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot a regularization path, one line per feature.

    Parameters
    ----------
    path : RegularizationPath
        Result of :func:`priormtl.regularization_path`.
    features : names or positions, optional
        Features to highlight with colours and names, by default the largest ones. All
        others are thin and grey.
    top : int, default=6
        Number of features to highlight if ``features`` is not given.
    task : task label, optional
        Task whose coefficients are shown. By default, lines show ‖p_j‖ over all tasks,
        or the coefficients if there is only one task.
    ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import regularization_path
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> path = regularization_path(X, y, task=task, lams=5)
    >>> ax = plot_path(path, top=2)
    >>> len(ax.lines)
    6
    """
    if not isinstance(path, RegularizationPath):
        raise TypeError(
            "path must be the result of regularization_path(X, y, task=task): got "
            f"{type(path).__name__}."
        )
    lams, d = path.lams, path.coefs.shape[2]
    names, tasks = name_features(path.features, d), path.tasks.tolist()
    if task is None and len(tasks) > 1:
        values = np.linalg.norm(path.coefs, axis=1)
        label = "Size of coefficients over all tasks"
    else:
        wanted = tasks[0] if task is None else task
        (i,) = find_places("task", [wanted], tasks, numbered=False)
        values, label = path.coefs[:, i], "Coefficient"
    if features is not None:
        chosen = find_places("feature", features, names)
    else:
        size = np.abs(values).max(axis=0, initial=0.0)
        order = np.argsort(-size, kind="stable")
        chosen = order[size[order] > 0][:top]
    with style.styled():
        ax = style.new_axes(ax, 6.5, 3.8)
        others = np.delete(values, chosen, axis=1)
        if others.shape[1]:
            lines = ax.plot(lams, others, color="#b8b8b8", linewidth=0.7, zorder=1)
            lines[0].set_label(count_words(others.shape[1], "other feature"))
        for place, j in enumerate(chosen):
            colour, dashes, _ = style.LINE_STYLES[place % len(style.LINE_STYLES)]
            (line,) = ax.plot(lams, values[:, j], label=style.shorten(names[j]))
            line.set(color=colour, linestyle=dashes)
        # Logarithmic, but linear below the smallest positive lam where lam = 0 occurs.
        positive = lams[lams > 0]
        if len(positive) == len(lams):
            ax.set_xscale("log")
        elif len(positive):
            ax.set_xscale("symlog", linthresh=float(positive.min()))
        ax.invert_xaxis()
        least, most = path.active.sum(axis=1)[[0, -1]]
        title = f"{least} to {most} of {count_words(d, 'feature')} selected"
        ax.set(xlabel="lam", ylabel=label, title=title)
        if legend and ax.get_legend_handles_labels()[0]:
            style.add_legend(ax)
    return ax


# Searches.

FIRST = ("lam", "theta", "epsilon")
STRENGTHS = (*FIRST, "outlier_strength")  # of our searches; the rest is structure
SCORE = "Mean score on held-out rows\n(higher is better)"


def plot_search(
    search: object,
    *,
    x: str | None = None,
    y: str | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the mean cross-validated score over one or two strengths.

    If the search varied more strengths, the others have their selected values, which
    are shown in the title. The selected candidate is framed, or marked by a vertical
    line. If our estimators tried several structures, the plot shows the selected one.

    Parameters
    ----------
    search : fitted search, or its ``cv_results_``
        ``MultiTaskRegressorCV``, ``MultiTaskClassifierCV``, or a grid search of
        scikit-learn.
    x, y : str, optional
        Parameters on the axes. By default, the first two that vary among lam, theta,
        epsilon and then the others.
    ax, legend
        See :func:`plot_coefficients`.

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
    found = _read_search(search)
    for name in (x, y):
        if name is not None and name not in found.names:
            raise unknown_name("parameter", name, found.names)
    # Parameters asked for; else the first that vary; one or two.
    varied = [name for name in found.names if len(found.values(name)) > 1]
    free = [name for name in varied or found.names[:1] if name not in (x, y)]
    asked = [x or (free.pop(0) if free else None), y or (free.pop(0) if free else None)]
    shown = list(dict.fromkeys(name for name in asked if name is not None))
    with style.styled():
        ax = style.new_axes(ax, 6.2, 3.8)
        if len(shown) == 2:
            _draw_scores(ax, found, shown[0], shown[1], legend=legend)
        else:
            _draw_line(ax, found, shown[0])
        others = [
            f"{name} = {style.format_number(found.chosen.get(name))}"
            for name in found.names
            if name not in shown and len(found.values(name)) > 1
        ]
        ax.set_title(", ".join(others))
    return ax


@dataclass(frozen=True, eq=False)
class _Search:
    """Candidates with their scores, and which was chosen."""

    params: list[Settings]
    mean: Array
    error: Array  # standard error of the mean
    best: int

    @property
    def chosen(self) -> Settings:
        return self.params[self.best]

    @property
    def names(self) -> list[str]:
        """Parameters, strengths first; a pipeline's have its steps before them."""

        def rank(name: str) -> int:
            plain = name.rpartition("__")[2]
            return FIRST.index(plain) if plain in FIRST else len(FIRST)

        names = {name for part in self.params for name in part}
        return sorted(names, key=lambda name: (rank(name), name))

    def values(self, name: str) -> list[object]:
        found = list(dict.fromkeys(part.get(name) for part in self.params))
        numbers = [value for value in found if isinstance(value, int | float)]
        return [*sorted(numbers)] if len(numbers) == len(found) else found

    def slice(self, *shown: str) -> list[int]:
        """Candidates that agree with the chosen one in all that is not shown."""
        best = {k: v for k, v in self.chosen.items() if k not in shown}
        return [
            k
            for k, part in enumerate(self.params)
            if {name: part[name] for name in part if name not in shown} == best
        ]


def _read_search(search: object) -> _Search:
    results = getattr(search, "cv_results_", search)
    if not isinstance(results, Mapping) or "mean_test_score" not in results:
        raise TypeError(
            "search must be a fitted search or its cv_results_, with mean_test_score: "
            f"got {type(search).__name__}; MultiTaskRegressorCV or GridSearchCV is one."
        )
    # std_test_score divides by the number of splits, a standard error by one less.
    mean = np.asarray(results["mean_test_score"], dtype=np.float64)
    n_splits = sum(k.startswith("split") and k.endswith("_test_score") for k in results)
    error = np.asarray(results["std_test_score"]) / np.sqrt(max(1, n_splits - 1))
    best = getattr(search, "best_index_", None)
    best = int(np.nanargmax(mean)) if best is None else int(best)
    params = list(results["params"])
    if not hasattr(search, "structure_"):
        return _Search(params, mean, error, best)
    # Each structure has its own grid of strengths: only the chosen one is shown.
    strengths = [{k: part[k] for k in part if k in STRENGTHS} for part in params]
    chosen = {k: v for k, v in params[best].items() if k not in STRENGTHS}
    kept = [
        i
        for i, part in enumerate(params)
        if {k: v for k, v in part.items() if k not in STRENGTHS} == chosen
    ]
    params = [strengths[i] for i in kept]
    return _Search(params, mean[kept], error[kept], kept.index(best))


def _draw_scores(ax: Axes, search: _Search, x: str, y: str, *, legend: bool) -> None:
    columns, rows = search.values(x), search.values(y)
    table = np.full((len(rows), len(columns)), np.nan)  # NaN: no such candidate
    for k in search.slice(x, y):
        part = search.params[k]
        table[rows.index(part.get(y)), columns.index(part.get(x))] = search.mean[k]
    # As many digits as neighbouring scores differ in.
    spread = float(np.nanmax(table) - np.nanmin(table))
    digits = int(np.clip(2 - np.floor(np.log10(spread)), 0, 6)) if spread > 0 else 2
    most_written = 8  # columns whose numbers have room
    plot_surface(
        np.arange(len(columns), dtype=np.float64),
        np.arange(len(rows), dtype=np.float64),
        table,
        labels=(x, y),
        decimals=digits if len(columns) <= most_written else None,
        ax=ax,
    )
    style.name_ticks(ax, "x", [style.format_number(value) for value in columns])
    style.name_ticks(ax, "y", [style.format_number(value) for value in rows])
    column, row = columns.index(search.chosen.get(x)), rows.index(search.chosen.get(y))
    # Black on white, to be visible on any colour.
    for colour, width in (("white", 4.0), ("black", 1.8)):
        corner = (column - 0.5, row - 0.5)
        cell = style.mpl.patches.Rectangle(
            corner, 1, 1, fill=False, ec=colour, lw=width
        )
        cell.set_clip_on(False)
        ax.add_patch(cell)
    if legend:
        ax.figure.colorbar(ax.images[0], ax=ax, label=SCORE)


def _draw_line(ax: Axes, search: _Search, name: str) -> None:
    known = search.values(name)
    log = all(isinstance(v, int | float) and v > 0 for v in known) and len(known) > 1
    places = np.array(known, float) if log else np.arange(len(known), dtype=float)
    kept = search.slice(name)
    order = np.argsort([known.index(search.params[k].get(name)) for k in kept])
    rows = np.array(kept)[order]
    ax.errorbar(
        places,
        search.mean[rows],
        yerr=search.error[rows],
        color=style.LINE_STYLES[0].colour,
        marker="o",
        capsize=2.5,
    )
    chosen = places[known.index(search.chosen.get(name))]
    ax.axvline(chosen, color="black", linestyle=":", linewidth=1.2)
    if log:
        ax.set_xscale("log")
    else:
        style.name_ticks(ax, "x", [style.format_number(value) for value in known])
    ax.set(xlabel=name, ylabel=SCORE)


# Surfaces.


def plot_surface(
    x: Array,
    y: Array,
    values: Array,
    *,
    labels: tuple[str, str],
    limits: tuple[float, float] | None = None,
    decimals: int | None = 1,
    ax: Axes | None = None,
) -> Axes:
    """Plot a heat map with numbers, one cell per pair of strengths.

    ``values`` is (len(y), len(x)), with NaN for empty cells. ``limits`` are the ends of
    the colour map, to share it between panels. ``decimals`` is the number of digits;
    None writes no numbers. All cells have the same size.
    """
    x, y = style.read_numbers("x", x, "a"), style.read_numbers("y", y, "b")
    values = style.read_numbers("values", values, "b", "a")
    if values.shape != (len(y), len(x)):
        raise ValueError(
            f"values must have one row per y and one column per x, {len(y), len(x)}: "
            f"got shape {values.shape}."
        )
    low, high = (np.nanmin(values), np.nanmax(values)) if limits is None else limits
    with style.styled():
        ax = style.new_axes(ax)
        ax.imshow(
            values,
            origin="lower",
            aspect="auto",
            cmap=style.VALUES,
            vmin=low,
            vmax=high,
        )
        ax.grid(visible=False)
        ax.set_xticks(range(len(x)), [f"{strength:.3g}" for strength in x])
        ax.set_yticks(range(len(y)), [f"{strength:.3g}" for strength in y])
        ax.set(xlabel=labels[0], ylabel=labels[1])
        if decimals is not None:
            for (row, column), value in np.ndenumerate(values):
                colour = "white" if value < (low + high) / 2.0 else "black"
                text = "" if np.isnan(value) else f"{value:.{decimals}f}"
                ax.text(
                    column,
                    row,
                    text,
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=colour,
                )
    return ax
