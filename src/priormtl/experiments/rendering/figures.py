"""Figures of results; a data set that is missing gives a panel that says so."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow.compute as pc

from priormtl._arrays import Array
from priormtl.experiments.rendering.measurements import Measurements, Repeats, Setting
from priormtl.experiments.rendering.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    NONE,
    PRIORS,
)
from priormtl.metrics import corrected_interval
from priormtl.plotting import (
    Axes,
    Curve,
    Descent,
    Figure,
    IntervalStyle,
    choose_styles,
    new_figure,
    plot_convergence,
    plot_curves,
    plot_roc_curves,
    plot_surface,
    share_legend,
    show_missing,
    styled,
)

NOT_MEASURED = "not measured"

CAPTIONS: Mapping[str, str] = {
    "figure1": "Objective minus optimum against iterations and against time, the "
    "paper's five algorithms and ours; both axes logarithmic. `linear` is the paper's "
    "Algorithm 3 with the extreme eigenvalues σ and L of the Hessian; where σ = 0 it "
    "would be FISTA with restart, and the legend says so. Dotted: the bound of the "
    "paper's theorem, with these constants and with those that the paper states. "
    "Times are CPU seconds, the least of three runs, and include what a method finds "
    "out first: `gd`, `linear` and "
    "`ista-reverse` need the extreme eigenvalues of the Hessian. One iteration of "
    "`auto` is several sweeps and a Newton step.",
    "figure2": "ROC curves with the natural prior: every task (thin, mean over "
    "repeats), mean (black), ±1 standard deviation over tasks; inset: the corner.",
    "figure3": "The metric, per cent, over two strengths, the third at its value in "
    "the best combination; mean over repeats; one scale of colours per row. Strengths "
    "are absolute, as in the paper, on features of variance one: beyond lam_max, which "
    "is below 100 on both sets of faces, all coefficients are zero, and AUC is 50 %.",
    "learning": "Metric, per cent, against training rows per task; mean over repeats. "
    "The next figure shows how sure the differences are.",
    "learning-differences": "Paired difference to the model without prior, in points "
    "for the better, with its 95 % interval (corrected resampled t). Points of one "
    "size are drawn side by side.",
    "robustness": "Paired difference of the expert prior to the model without prior, "
    "in points for the better, with its 95 % interval (corrected resampled t), against "
    "the share of its relations that are wrong; theta tuned. Random: between features "
    "drawn at random; reversed: similar features are said to be opposite.",
}


# Figure 1: convergence.

ALGORITHMS = ("gd", "ista", "ista-reverse", "fista", "linear", "auto")
BOUNDS = ("theorem", "theorem, paper's constants")
VANISHING = 1e-10  # σ/L below which `linear` is FISTA with restart


def convergence_figure(rows: Any) -> Figure:
    """Figure 1, from rows of convergence: a row of two panels for each problem."""
    problems = list(dict.fromkeys(rows["problem"].to_pylist()))
    with styled():
        figure, axes = new_figure(max(len(problems), 1), 2, width=4.6, height=3.2)
        if not problems:
            for ax in axes.flat:
                show_missing(ax, NOT_MEASURED)
        for problem, (left, right) in zip(problems, axes, strict=False):
            found = rows.filter(pc.field("problem") == problem)
            descents = _read_descents(found)
            plot_convergence(descents, ax=left, legend=False)
            plot_convergence(descents, against="seconds", ax=right, legend=False)
            _draw_bounds(left, found)
            constants = ""
            if "sigma" in found.column_names:
                sigma, largest = (found[k][0].as_py() for k in ("sigma", "smoothness"))
                constants = f" (σ = {sigma:.2g}, L = {largest:.3g})"
            left.set_title(f"{problem.capitalize()}{constants}, by iteration")
            right.set_title(f"{problem.capitalize()}, by time")
            right.set_ylabel("")
        share_legend(figure)
    return figure


def _read_descents(rows: Any) -> list[Descent]:
    """Runs of the solvers; `linear` is named after what it is on this problem."""
    present = set(rows["algorithm"].to_pylist())
    descents = []
    for name in [name for name in ALGORITHMS if name in present]:
        run = rows.filter(pc.field("algorithm") == name).sort_by("iteration")
        columns = (run[key].to_numpy() for key in ("iteration", "seconds", "excess"))
        label = name
        if name == "linear" and "sigma" in run.column_names:
            sigma, largest = run["sigma"][0].as_py(), run["smoothness"][0].as_py()
            strong = sigma > VANISHING * largest
            kind = "Algorithm 3" if strong else "σ = 0: FISTA with restart"
            label = f"linear ({kind})"
        descents.append(Descent(label, *(column.astype(float) for column in columns)))
    return descents


def _draw_bounds(ax: Axes, rows: Any) -> None:
    """Bounds of the paper's theorem, without changing the limits of the panel."""
    limits = ax.get_xlim(), ax.get_ylim()
    for name, colour in zip(BOUNDS, ("0.2", "0.6"), strict=True):
        bound = rows.filter(pc.field("algorithm") == name).sort_by("iteration")
        if bound.num_rows:
            points = (bound[key].to_numpy() for key in ("iteration", "excess"))
            ax.plot(*points, color=colour, linestyle=":", label=name)
    ax.set(xlim=limits[0], ylim=limits[1])


# Figure 2: ROC curves.

ROC_DATASETS = ("yale", "mnist", "orl")
ZOOM = 0.2  # corner that is enlarged where curves would run along the frame


def roc_figure(rows: Any) -> Figure:
    natural = rows.filter(pc.field("method") == "natural")
    with styled():
        figure, axes = new_figure(1, len(ROC_DATASETS), width=3.4, height=3.6)
        for dataset, ax in zip(ROC_DATASETS, axes[0], strict=True):
            _draw_roc(ax, dataset, natural.filter(pc.field("dataset") == dataset))
        share_legend(figure)
    return figure


def _draw_roc(ax: Axes, dataset: str, rows: Any) -> None:
    title = DATASETS[dataset]
    if not rows.num_rows:
        show_missing(ax, f"{title}: {NOT_MEASURED}")
        return
    means = rows.group_by(["task", "fpr"]).aggregate([("tpr", "mean")])
    ordered = means.sort_by([("task", "ascending"), ("fpr", "ascending")])
    fpr = np.unique(ordered["fpr"].to_numpy())
    tpr = ordered["tpr_mean"].to_numpy().reshape(-1, len(fpr))
    steep = np.interp(ZOOM, fpr, tpr.mean(axis=0)) > 1.0 - ZOOM / 2.0
    # Rows hold the upper end of the rise at zero; the curve begins at its lower end.
    fpr, tpr = np.append(0.0, fpr), np.pad(tpr, ((0, 0), (1, 0)))
    plot_roc_curves(fpr, tpr, zoom=ZOOM if steep else None, ax=ax, legend=False)
    # Every curve has as many rows, so that this is the mean over curves.
    auc = 100.0 * pc.mean(rows["auc"]).as_py()
    ax.set_title(f"{title}: {len(tpr)} tasks, mean AUC {auc:.1f} %")


# Figure 3: surfaces over the strengths.

STRENGTHS = ("lam", "theta", "epsilon")
PAIRS = tuple(combinations(range(3), 2))
SURFACES = (
    ("yale", "auc"),
    ("orl", "auc"),
    ("school", "ve_pooled"),
    ("school", "nmse_pooled"),
)


@dataclass(frozen=True, eq=False)
class Surface:
    """Mean over repeats, per cent, for every combination of strengths."""

    dataset: str
    metric: str
    axes: tuple[Array, Array, Array]
    values: Array  # one axis per strength; NaN where nothing was measured

    @classmethod
    def of(cls, rows: Any, dataset: str, metric: str) -> Self | None:
        """Read rows of surfaces; None where the data set or the metric is missing."""
        chosen = (pc.field("dataset") == dataset) & (pc.field("metric") == metric)
        found = rows.filter(chosen)
        if not found.num_rows:
            return None
        columns = [found[name].to_numpy() for name in (*STRENGTHS, "value")]
        axes, places = zip(
            *(np.unique(column, return_inverse=True) for column in columns[:3]),
            strict=True,
        )
        shape = tuple(len(axis) for axis in axes)
        sums, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(sums, places, 100.0 * columns[3])
        np.add.at(counts, places, 1.0)
        values = np.full(shape, np.nan)
        np.divide(sums, counts, out=values, where=counts > 0)
        return cls(dataset, metric, axes, values)

    @property
    def title(self) -> str:
        return f"{DATASETS[self.dataset]}, {METRICS[self.metric].title}"

    @property
    def best(self) -> tuple[int, ...]:
        higher = METRICS[self.metric].higher_is_better
        flat = np.nanargmax(self.values) if higher else np.nanargmin(self.values)
        return tuple(int(k) for k in np.unravel_index(flat, self.values.shape))

    def slice(self, pair: tuple[int, ...]) -> Array:
        """Values over two strengths (second, first), the third at its best."""
        (third,) = set(range(3)) - set(pair)
        return np.take(self.values, self.best[third], axis=third).T

    def ranges(self) -> dict[str, float]:
        """Range of the value along each strength, the others at their best."""
        found = {}
        for k, name in enumerate(STRENGTHS):
            place: list[Any] = list(self.best)
            place[k] = slice(None)
            line = self.values[tuple(place)]
            found[name] = float(np.nanmax(line) - np.nanmin(line))
        return found


def describe_sensitivity(surface: Surface) -> str:
    ranges = surface.ranges()
    parts = [f"{size:.2f} along {name}" for name, size in ranges.items()]
    most = max(ranges, key=ranges.__getitem__)
    low, high = (float(axis) for axis in surface.axes[0][[0, -1]])
    return (
        f"{surface.title}: from {low:g} to {high:g} the value moves by "
        f"{parts[0]}, {parts[1]} and {parts[2]} (points, the other two at their "
        f"best), most along {most}."
    )


def surface_figure(rows: Any, surfaces: Sequence[tuple[str, str]] = SURFACES) -> Figure:
    with styled():
        figure, axes = new_figure(len(surfaces), len(PAIRS), width=3.4, height=2.7)
        for (dataset, metric), line in zip(surfaces, axes, strict=True):
            surface = Surface.of(rows, dataset, metric)
            if surface is None:
                for ax in line:
                    show_missing(ax, f"{DATASETS[dataset]}: {NOT_MEASURED}")
            else:
                _draw_surface(figure, surface, line)
    return figure


def _draw_surface(figure: Figure, surface: Surface, axes: Sequence[Axes]) -> None:
    slices = [surface.slice(pair) for pair in PAIRS]
    low = min(float(np.nanmin(part)) for part in slices)
    high = max(float(np.nanmax(part)) for part in slices)
    for pair, part, ax in zip(PAIRS, slices, axes, strict=True):
        first, second = pair
        (third,) = set(range(3)) - set(pair)
        plot_surface(
            surface.axes[first],
            surface.axes[second],
            part,
            labels=(STRENGTHS[first], STRENGTHS[second]),
            limits=(low, high),
            decimals=1 if high - low > 2.0 else 2,
            ax=ax,
        )
        at = surface.axes[third][surface.best[third]]
        ax.set_title(f"{DATASETS[surface.dataset]}, {STRENGTHS[third]} = {at:.3g}")
    label = f"{surface.title} (%)"
    figure.colorbar(axes[-1].images[0], ax=list(axes), label=label)


# Learning curves and robustness curves.

COLUMNS = 3


class Band(NamedTuple):
    """A value and its interval, per cent or percentage points."""

    value: float
    low: float
    high: float


class Panel(NamedTuple):
    """What the curves of one data set share."""

    measurements: Measurements
    dataset: str
    ax: Axes

    @property
    def metric(self) -> str:
        return MAIN_METRICS[self.dataset]

    @property
    def size_title(self) -> str:
        unit = "class" if self.metric == "auc" else "task"
        return f"Training rows per {unit}"


def learning_figure(measurements: Measurements) -> Figure:
    def draw(panel: Panel) -> None:
        curves: dict[str, Curve | None] = {}
        for method in (NONE, *PRIORS):
            bands = {
                s: mean_band(measurements.repeats(s, panel.metric))
                for s in _along_sizes(panel, method, (NONE, *PRIORS))
            }
            curves[method] = _join_bands(measurements.label(method), bands)
        _draw_curves(panel, curves, interval="none")
        title = f"{METRICS[panel.metric].title} (%)"
        panel.ax.set(xlabel=panel.size_title, ylabel=title)

    return _draw_panels(measurements, _is_learning, draw)


def learning_difference_figure(measurements: Measurements) -> Figure:
    def draw(panel: Panel) -> None:
        curves = {
            method: _difference_curve(
                panel, method, _along_sizes(panel, method, PRIORS)
            )
            for method in PRIORS
        }
        panel.ax.axhline(0.0, color="black", linewidth=0.8)
        _draw_curves(panel, curves, interval="bars")
        title = METRICS[panel.metric].title
        panel.ax.set(xlabel=panel.size_title, ylabel=f"Gain in {title} (points)")

    return _draw_panels(measurements, _is_learning, draw)


WRONG_LABELS = {"expert": "random relations", "contradictory": "reversed relations"}


def robustness_figure(measurements: Measurements) -> Figure:
    """Gain over no prior against the share of wrong relations, for each kind."""

    def draw(panel: Panel) -> None:
        settings = sorted(
            (
                s
                for s in measurements.settings
                if s.dataset == panel.dataset and s.wrong is not None
            ),
            key=lambda s: (s.size or 0, s.wrong),
        )
        size = settings[0].size
        present = {s.method for s in settings}
        methods = [name for name in WRONG_LABELS if name in present]
        methods += sorted(present - set(methods))
        curves: list[Curve] = []
        for method in methods:
            # Without wrong relations it is the prior of the learning curves.
            first = "expert" if method == "contradictory" else method
            right = Setting(panel.dataset, first, size)
            places = [right, *(s for s in settings if s[1:3] == (method, size))]
            curve = _difference_curve(panel, method, places)
            if curve is not None:
                name = WRONG_LABELS.get(method, curve.name)
                curves.append(replace(curve, name=name))
        if not curves:
            show_missing(panel.ax, f"{DATASETS[panel.dataset]}: {NOT_MEASURED}")
            return
        panel.ax.axhline(0.0, color="black", linewidth=0.8)
        styles = choose_styles([curve.name for curve in curves])
        plot_curves(curves, styles=styles, interval="bars", ax=panel.ax, legend=False)
        title = METRICS[panel.metric].title
        panel.ax.set(xlabel="Wrong relations (%)", ylabel=f"Gain in {title} (points)")
        if size is not None:
            unit = panel.size_title.removeprefix("Training ")
            panel.ax.set_title(f"{DATASETS[panel.dataset]}, {size} {unit}")

    return _draw_panels(measurements, lambda s: s.wrong is not None, draw)


def _is_learning(setting: Setting) -> bool:
    return setting.size is not None and setting.wrong is None


def _draw_panels(
    measurements: Measurements,
    belongs: Callable[[Setting], bool],
    draw: Callable[[Panel], None],
) -> Figure:
    """One panel per data set with such settings, three in a row, one legend."""
    datasets = measurements.datasets([s for s in measurements.settings if belongs(s)])
    columns = max(min(COLUMNS, len(datasets)), 1)
    n_rows = max(-(-len(datasets) // columns), 1)
    with styled():
        width = 5.4 if columns == 1 else 3.6  # room for the legend
        figure, axes = new_figure(n_rows, columns, width=width)
        if not datasets:
            show_missing(axes[0, 0], NOT_MEASURED)
        for ax in axes.flat[len(datasets) :]:
            ax.set_axis_off()
        for dataset, ax in zip(datasets, axes.flat, strict=False):
            ax.set_title(DATASETS[dataset])
            draw(Panel(measurements, dataset, ax))
        share_legend(figure)
    return figure


def _along_sizes(panel: Panel, method: str, methods: Sequence[str]) -> list[Setting]:
    sizes = panel.measurements.sizes(panel.dataset, methods)
    return [Setting(panel.dataset, method, size) for size in sizes]


def mean_band(repeats: Repeats) -> Band | None:
    """Mean over repeats with its t interval, per cent; None where there is none."""
    values = 100.0 * np.array(list(repeats.values()))
    if not len(values):
        return None
    if len(values) == 1:
        return Band(*[float(values[0])] * 3)
    low, high, _ = corrected_interval(values, 0.0)
    return Band(float(values.mean()), low, high)


def _difference_curve(
    panel: Panel, method: str, settings: Iterable[Setting]
) -> Curve | None:
    """Paired differences to the fit without prior at the same size, in points."""
    bands: dict[Setting, Band | None] = {}
    for setting in settings:
        other = Setting(setting.dataset, NONE, setting.size)
        found = panel.measurements.compare(setting, other, panel.metric)
        if found.n_common:
            ends = found.interval[:2] if found.n_common > 1 else (found.mean,) * 2
            bands[setting] = Band(*(100.0 * x for x in (found.mean, *ends)))
    return _join_bands(panel.measurements.label(method), bands)


def _join_bands(name: str, bands: Mapping[Setting, Band | None]) -> Curve | None:
    """Curve over sizes, or shares of wrong relations in per cent; None if empty."""
    found = {s: band for s, band in bands.items() if band is not None}
    if not found:
        return None
    shares = any(s.wrong is not None for s in found)
    places = [100.0 * (s.wrong or 0.0) if shares else float(s.size or 0) for s in found]
    return Curve(name, np.array(places), *np.array(list(found.values())).T)


def _draw_curves(
    panel: Panel, curves: Mapping[str, Curve | None], *, interval: IntervalStyle
) -> None:
    """Curves over sizes; methods look alike in all figures."""
    measurements, dataset, ax = panel
    found = [curve for curve in curves.values() if curve is not None]
    if not found:
        show_missing(ax, f"{DATASETS[dataset]}: {NOT_MEASURED}")
        return
    styles = choose_styles([measurements.label(method) for method in (NONE, *PRIORS)])
    plot_curves(found, styles=styles, interval=interval, log=True, ax=ax, legend=False)
