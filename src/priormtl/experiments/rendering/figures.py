"""Figures of results; a data set that is missing gives a panel that says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from priormtl._arrays import Array
from priormtl.experiments.rendering.measurements import (
    CONTROLS,
    DATASETS,
    MAIN_METRICS,
    METRICS,
    NONE,
    PAPERS_LINEAR,
    PRIORS,
    Measurements,
    Repeats,
    Setting,
)
from priormtl.experiments.rendering.tables import STRENGTHS
from priormtl.metrics import corrected_interval
from priormtl.plotting import (
    Axes,
    Curve,
    Descent,
    Figure,
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


# Figure 1: convergence.


def convergence_figure(rows: pa.Table) -> Figure:
    """Figure 1, from rows of convergence: a row of two panels for each problem."""
    # Counterexamples have runs of Algorithm 3 only.
    drawn = rows.filter(pc.field("algorithm") == "gd")
    problems = list(dict.fromkeys(drawn["problem"].to_pylist()))
    with styled():
        figure, axes = new_figure(max(len(problems), 1), 2, width=4.6, height=3.2)
        if not problems:
            for ax in axes.flat:
                show_missing(ax, NOT_MEASURED)
        for problem, (left, right) in zip(problems, axes, strict=False):
            runs = rows.filter(pc.field("problem") == problem)
            sigma, largest = (runs[key][0].as_py() for key in ("sigma", "smoothness"))
            # Without strong convexity `linear` is another method.
            strong = sigma > 1e-10 * largest
            kind = "Algorithm 3" if strong else "σ = 0: FISTA with restart"
            descents = []
            algorithms = ("gd", "ista", "ista-reverse", "fista", "linear", "auto")
            for name in (*algorithms, PAPERS_LINEAR):
                run = _read_run(runs, name)
                if len(run[0]):
                    label = f"linear ({kind})" if name == "linear" else name
                    descents.append(Descent(label, *run))
            plot_convergence(descents, ax=left, legend=False)
            plot_convergence(descents, against="seconds", ax=right, legend=False)
            # Bounds of the paper's theorem, without changing the limits of the panel.
            limits = left.get_xlim(), left.get_ylim()
            for name, colour in (
                ("theorem", "0.2"),
                ("theorem, paper's constants", "0.6"),
            ):
                iteration, _, excess = _read_run(runs, name)
                if len(iteration):
                    left.plot(iteration, excess, ":", color=colour, label=name)
            left.set(xlim=limits[0], ylim=limits[1])
            constants = f"(σ = {sigma:.2g}, L = {largest:.3g})"
            left.set_title(f"{problem.capitalize()} {constants}, by iteration")
            right.set_title(f"{problem.capitalize()}, by time")
            right.set_ylabel("")
        share_legend(figure)
    return figure


def _read_run(rows: pa.Table, algorithm: str) -> tuple[Array, Array, Array]:
    """Iterations, seconds and excess of a run, or of a bound."""
    run = rows.filter(pc.field("algorithm") == algorithm).sort_by("iteration")
    iteration, seconds, excess = (
        run[key].to_numpy().astype(float) for key in ("iteration", "seconds", "excess")
    )
    return iteration, seconds, excess


# Figure 2: ROC curves.


def roc_figure(rows: pa.Table) -> Figure:
    natural = rows.filter(pc.field("method") == "natural")
    datasets = ("yale", "mnist", "orl")
    with styled():
        figure, axes = new_figure(1, len(datasets), width=3.4, height=3.6)
        for dataset, ax in zip(datasets, axes[0], strict=True):
            _draw_roc(ax, dataset, natural.filter(pc.field("dataset") == dataset))
        share_legend(figure)
    return figure


def _draw_roc(ax: Axes, dataset: str, rows: pa.Table) -> None:
    title = DATASETS[dataset]
    if not rows.num_rows:
        show_missing(ax, f"{title}: {NOT_MEASURED}")
        return
    means = rows.group_by(["task", "fpr"]).aggregate([("tpr", "mean")])
    ordered = means.sort_by([("task", "ascending"), ("fpr", "ascending")])
    fpr = np.unique(ordered["fpr"].to_numpy())
    tpr = ordered["tpr_mean"].to_numpy().reshape(-1, len(fpr))
    # The corner is enlarged where curves would run along the frame.
    corner = 0.2
    steep = np.interp(corner, fpr, tpr.mean(axis=0)) > 1.0 - corner / 2.0
    # Rows hold the upper end of the rise at zero; the curve begins at its lower end.
    fpr, tpr = np.append(0.0, fpr), np.pad(tpr, ((0, 0), (1, 0)))
    plot_roc_curves(fpr, tpr, zoom=corner if steep else None, ax=ax, legend=False)
    # Every curve has as many rows, so that this is the mean over curves.
    auc = 100.0 * pc.mean(rows["auc"]).as_py()
    ax.set_title(f"{title}: {len(tpr)} tasks, mean AUC {auc:.1f} %")


# Figure 3: surfaces over the strengths.

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
    axes: tuple[Array, ...]
    values: Array  # one axis per strength; NaN where nothing was measured

    @classmethod
    def of(cls, rows: pa.Table, dataset: str, metric: str) -> Self | None:
        """Read rows of surfaces; None where the data set or the metric is missing."""
        chosen = (pc.field("dataset") == dataset) & (pc.field("metric") == metric)
        rows = rows.filter(chosen)
        if not rows.num_rows:
            return None
        columns = (rows[name].to_numpy() for name in STRENGTHS)
        axes, places = zip(
            *(np.unique(column, return_inverse=True) for column in columns), strict=True
        )
        sums, counts = np.zeros((2, *map(len, axes)))
        np.add.at(sums, places, 100.0 * rows["value"].to_numpy())
        np.add.at(counts, places, 1.0)
        with np.errstate(invalid="ignore"):
            return cls(dataset, metric, axes, sums / counts)

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
        ranges = {}
        for k, name in enumerate(STRENGTHS):
            others = np.delete(self.best, k)
            line = np.moveaxis(self.values, k, -1)[others[0], others[1]]
            ranges[name] = float(np.nanmax(line) - np.nanmin(line))
        return ranges

    def describe(self) -> str:
        ranges = self.ranges()
        lam, theta, epsilon = (f"{size:.2f} along {k}" for k, size in ranges.items())
        low, high = self.axes[0][[0, -1]]
        return (
            f"{self.title}: from {low:g} to {high:g} the value moves by {lam}, {theta} "
            f"and {epsilon} (points, the other two at their best), most along "
            f"{max(ranges, key=ranges.__getitem__)}."
        )


def surface_figure(
    rows: pa.Table, surfaces: Sequence[tuple[str, str]] = SURFACES
) -> Figure:
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
    for (first, second), part, ax in zip(PAIRS, slices, axes, strict=True):
        third = 3 - first - second
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


# A value and the ends of its interval, per cent or percentage points.
Band = tuple[float, float, float]
SHOWN = (NONE, *PRIORS, *CONTROLS)  # along learning curves


def learning_figure(measurements: Measurements, *, gain: bool = False) -> Figure:
    """Values against training rows; ``gain``: differences to the fit without prior."""

    def read(dataset: str) -> list[Curve]:
        metric, curves = MAIN_METRICS[dataset], []
        for method in SHOWN[gain:]:
            settings = {
                float(size): Setting(dataset, method, size, CONTROLS.get(method))
                for size in measurements.sizes(dataset)
            }
            if gain:
                bands = _difference_bands(measurements, settings)
            else:
                means = {
                    size: mean_band(measurements.repeats(setting, metric))
                    for size, setting in settings.items()
                }
                bands = {size: band for size, band in means.items() if band is not None}
            curves += _join_bands(measurements.label(method), bands)
        return curves

    learning = [s for s in measurements.settings if s.size is not None]
    datasets = measurements.datasets(s for s in learning if s.wrong is None)
    panels = {name: read(name) for name in datasets}
    return _draw_panels(measurements, panels, gain=gain)


def robustness_figure(measurements: Measurements) -> Figure:
    """Gain over no prior against the share of wrong relations, for each kind."""
    kinds = {"expert": "random relations", "contradictory": "reversed relations"}
    wrong = [s for s in measurements.settings if s.wrong is not None]
    wrong.sort(key=lambda s: (s.size or 0, s.wrong))
    panels: dict[str, list[Curve]] = {}
    sizes: dict[str, int | None] = {}
    # Reversed relations are a control of all curves; shares are varied at one size.
    varied = [s for s in wrong if s.method not in CONTROLS]
    for dataset in measurements.datasets(varied):
        size = next(s.size for s in varied if s.dataset == dataset)
        settings = [s for s in wrong if (s.dataset, s.size) == (dataset, size)]
        present = {s.method for s in settings}
        methods = [name for name in kinds if name in present]
        panels[dataset], sizes[dataset] = [], size
        for method in methods + sorted(present - set(methods)):
            # Without wrong relations it is the prior of the learning curves.
            first = "expert" if method == "contradictory" else method
            places = {0.0: Setting(dataset, first, size)}
            places |= {
                100.0 * (s.wrong or 0.0): s for s in settings if s.method == method
            }
            name = kinds.get(method, measurements.label(method))
            bands = _difference_bands(measurements, places)
            panels[dataset] += _join_bands(name, bands)
    return _draw_panels(measurements, panels, gain=True, wrong=sizes)


def _draw_panels(
    measurements: Measurements,
    panels: Mapping[str, Sequence[Curve]],  # by data set
    *,
    gain: bool = False,
    wrong: Mapping[str, int | None] | None = None,
) -> Figure:
    """One panel per data set, three in a row, one legend.

    ``gain``: values are differences. ``wrong``: curves are over the share of wrong
    relations, at this size; else over sizes.
    """
    columns = max(min(3, len(panels)), 1)
    n_rows = max(-(-len(panels) // columns), 1)
    with styled():
        width = 5.4 if columns == 1 else 3.6  # room for the legend
        figure, axes = new_figure(n_rows, columns, width=width)
        if not panels:
            show_missing(axes[0, 0], NOT_MEASURED)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        for (dataset, curves), ax in zip(panels.items(), axes.flat, strict=False):
            title = DATASETS[dataset]
            ax.set_title(title)
            if not curves:
                show_missing(ax, f"{title}: {NOT_MEASURED}")
                continue
            metric = METRICS[MAIN_METRICS[dataset]]
            unit = f"rows per {'class' if metric.figure == 'AUC' else 'task'}"
            if gain:
                ax.axhline(0.0, color="black", linewidth=0.8)
            if wrong is None:
                # Methods look alike in all figures.
                names = [measurements.label(method) for method in SHOWN]
                ax.set_xlabel(f"Training {unit}")
            else:
                names = [curve.name for curve in curves]
                ax.set_xlabel("Wrong relations (%)")
                if wrong[dataset] is not None:
                    ax.set_title(f"{title}, {wrong[dataset]} {unit}")
            plot_curves(
                curves,
                styles=choose_styles(names),
                interval="bars" if gain else "none",
                log=wrong is None,
                ax=ax,
                legend=False,
            )
            shown = metric.title
            ax.set_ylabel(f"Gain in {shown} (points)" if gain else f"{shown} (%)")
        share_legend(figure)
    return figure


def mean_band(repeats: Repeats) -> Band | None:
    """Mean over repeats with its t interval, per cent; None where there is none."""
    values = 100.0 * np.array(list(repeats.values()))
    if not len(values):
        return None
    if len(values) == 1:
        return (float(values[0]),) * 3
    low, high, _ = corrected_interval(values, 0.0)
    return float(values.mean()), low, high


def _difference_bands(
    measurements: Measurements, settings: Mapping[float, Setting]
) -> dict[float, Band]:
    """Paired differences to the fit without prior at the same size, in points."""
    bands = {}
    for place, setting in settings.items():
        mean, interval, n_common, *_ = measurements.compare(setting, NONE)
        if n_common:
            low, high = interval[:2] if n_common > 1 else (mean, mean)
            bands[place] = 100.0 * mean, 100.0 * low, 100.0 * high
    return bands


def _join_bands(name: str, bands: Mapping[float, Band]) -> list[Curve]:
    """A curve over places, or none."""
    if not bands:
        return []
    return [Curve(name, np.array(list(bands)), *np.array(list(bands.values())).T)]
