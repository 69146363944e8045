"""Reports: tables, plots and bars as Markdown pages with an index."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.machine import Code, describe_code, describe_commit
from benchmarks.timing import Seconds

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
NEVER = "–"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
mpl.rcParams["svg.hashsalt"] = "priormtl"  # same figures, same bytes

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
Rooms = Mapping[str, Code]  # what each page measures


@dataclass(frozen=True)
class Bar:
    """A goal, what was measured, and whether that meets it (None: not known)."""

    goal: str
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Table:
    """Rows under a head, all of them words."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_markdown(self) -> str:
        """Lines of pipes."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True)
class Plot:
    """Lines, on logarithmic axes unless ``scale`` is "linear"."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Series
    scale: str = "log"


@dataclass(frozen=True)
class Bars:
    """Groups of bars on a logarithmic axis."""

    name: str
    title: str
    y_label: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Section:
    """A titled part of a page."""

    title: str
    note: str
    table: Table
    figures: Sequence[Plot | Bars] = ()


@dataclass(frozen=True)
class Report:
    """What a workload found."""

    title: str
    note: str
    bars: Sequence[Bar]
    sections: Sequence[Section]
    numbers: Mapping[str, Any] = field(default_factory=dict)  # for the JSON file


def times(value: float) -> str:
    """Three digits of a ratio or a time, a dash where there is none."""
    if not isfinite(value):
        return NEVER
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"


def seconds_of(seconds: float, unit: float = 1.0) -> str:
    """Median, with the shortest and the longest time where there are several."""
    raw = getattr(seconds, "raw", ())
    words = times(unit * seconds)
    if len(raw) < 2 or not isfinite(max(raw)):
        return words
    return f"{words} ({times(unit * min(raw))}–{times(unit * max(raw))})"


def milliseconds(seconds: float) -> str:
    """The same in milliseconds."""
    return seconds_of(seconds, 1e3)


def write_report(name: str, report: Report, run: Mapping[str, Any]) -> None:
    """Write a page, its figures and a JSON file; ``run``: how it was measured."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    sections = []
    for section in report.sections:
        figures = {}
        for figure in section.figures:
            file = f"{name}-{figure.name}.svg"
            draw(figure, FOLDER / file)
            figures[file] = figure.title
        told = {"title": section.title, "note": section.note}
        sections.append({**told, **asdict(section.table), "figures": figures})
    facts = _plain(
        {
            "title": report.title,
            **run,
            "bars": [asdict(bar) for bar in report.bars],
            "numbers": report.numbers,
            "note": report.note,
            "sections": sections,
        }
    )
    (FOLDER / f"{name}.md").write_text(render_page(facts), encoding="utf-8")
    text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False)
    # Raw times, and other lists of numbers, on one line each.
    text = re.sub(r"\[[^][{}\"]*\]", lambda found: " ".join(found[0].split()), text)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def render_page(facts: Mapping[str, Any]) -> str:
    """The page of a workload, from what its JSON file keeps."""
    goals = [Bar(**bar) for bar in facts["bars"]]
    parts = [f"# {facts['title']}", facts["note"], _bar_table(goals).to_markdown()]
    for section in facts["sections"]:
        table = Table(section["head"], section["rows"])
        parts += [f"## {section['title']}", section["note"], table.to_markdown()]
        parts += [f"![{title}]({file})" for file, title in section["figures"].items()]
    if "machine" in facts:
        about = ", ".join(f"{key} {value}" for key, value in facts["machine"].items())
        made = f"Made by `make bench` ({facts['kind']})"
        if "commit" in facts:  # pages of version 0.1.0 do not tell it
            made += f" at commit {facts['commit']}, load average {facts['load']}"
        parts.append(f"{made}. Measured on: {about}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(value: Any) -> Any:
    """Value as JSON has it: times with all repeats, null for what was not reached."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Seconds):
        return {"median": _plain(float(value)), "raw": _plain(value.raw)}
    if hasattr(value, "tolist"):  # NumPy's arrays, numbers and truth
        return _plain(value.tolist())
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if isfinite(value) else None
    return value


def note_run(name: str, code: Code) -> None:
    """Keep with which code a page of its own was measured, for the index."""
    path = FOLDER / "runs.json"
    runs = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    runs[name] = {"commit": describe_commit(), "code": describe_code(code)}
    path.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", "utf-8")


def write_index(workloads: Rooms, pages: Rooms) -> None:
    """Write the page with all goals, from what every workload left behind."""
    (FOLDER / "README.md").write_text(render_index(workloads, pages), encoding="utf-8")


def render_index(workloads: Rooms, pages: Rooms) -> str:
    """All goals, and whether the code has changed since they were measured."""
    rows = []
    for name, code in workloads.items():
        path = FOLDER / f"{name}.json"
        if path.is_file():
            facts = json.loads(path.read_text(encoding="utf-8"))
            rows += _index_rows(name, facts, describe_code(code))
    goals = Table(("workload", "goal", "measured", "met", "commit", "code"), rows)
    own, path = [], FOLDER / "runs.json"
    runs = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    for name, code in pages.items():
        if name in runs:
            title = (FOLDER / f"{name}.md").read_text("utf-8").splitlines()[0]
            since = _since(runs[name], describe_code(code))
            own.append((f"[{title[2:]}]({name}.md)", runs[name]["commit"], since))
    others = Table(("page", "commit", "code"), own)
    return (
        "# Benchmarks\n\n"
        "Made by `make bench`, or `make bench QUICK=1` for a part; `JOBS=16` measures "
        "tables in as many processes. Every line is computed from the run at the "
        "commit that it names (older: before commits were recorded). *Code* says "
        "whether the modules that a line measures have changed since, by a digest of "
        "their syntax without docstrings, types, imports and texts of errors; moves "
        "between modules do not count. Times of one thread are CPU "
        "times: medians of repeats, with the shortest and the longest in brackets. "
        "Ratios are those of the medians, before rounding. Gaps are duality gaps as a "
        "share of the objective at P = 0, evaluated by our certificate for everybody. "
        "The JSON file beside each page keeps every repeat. Tests compare pages with "
        "their JSON, and this index with the code.\n\n"
        "Our machine often has other work to do: what is compared takes turns, and "
        "each page gives the load average before and after, and the machine. A core "
        "that is shared takes more CPU time for the same work, most of all for fits of "
        "a few milliseconds (we have seen twice as much).\n\n"
        f"{goals.to_markdown()}\n\n"
        "## Pages with commands of their own\n\n"
        f"{others.to_markdown()}\n"
    )


def draw(figure: Plot | Bars, path: Path) -> None:
    """Write a figure as SVG."""
    groups = len(figure.groups) if isinstance(figure, Bars) else 0
    canvas = Figure(figsize=(max(7.2, 0.6 * groups), 4.2), layout="constrained")
    axes = canvas.add_subplot()
    if isinstance(figure, Plot):
        _draw_lines(axes, figure)
    else:
        _draw_bars(axes, figure)
    axes.set_title(figure.title)
    axes.set_ylabel(figure.y_label)
    axes.set_yscale(figure.scale if isinstance(figure, Plot) else "log")
    axes.grid(axis="y", alpha=0.3)
    handles = axes.get_legend_handles_labels()
    # Below the axes: inside, it would cover bars.
    canvas.legend(*handles, loc="outside lower center", ncols=6, fontsize=8)
    canvas.savefig(path, metadata={"Date": None})


def _draw_lines(axes: "mpl.axes.Axes", plot: Plot) -> None:
    for colour, (label, (x, y)) in zip(COLOURS, plot.series.items(), strict=False):
        axes.plot(x, y, "o-", label=label, color=colour)
    axes.set_xlabel(plot.x_label)
    axes.set_xscale(plot.scale)


def _draw_bars(axes: "mpl.axes.Axes", bars: Bars) -> None:
    width = 0.8 / len(bars.series)
    for k, (label, values) in enumerate(bars.series.items()):
        places = [i + (k + 0.5) * width - 0.4 for i in range(len(values))]
        finite = [v if isfinite(v) else 0.0 for v in values]
        axes.bar(places, finite, width, label=label, color=COLOURS[k % len(COLOURS)])
    axes.set_xticks(range(len(bars.groups)), bars.groups, rotation=20, ha="right")


def _bar_table(bars: Sequence[Bar]) -> Table:
    rows = [(bar.goal, bar.measured, _verdict(bar.met)) for bar in bars]
    return Table(("goal", "measured", "met"), rows)


def _index_rows(name: str, facts: dict, code: str) -> list[tuple[str, ...]]:
    is_quick = facts["kind"] == "quick run"
    return [
        (
            f"[{facts['title']}]({name}.md)",
            bar["goal"],
            bar["measured"],
            _verdict(bar["met"]),
            facts.get("commit", "older") + (" (quick)" if is_quick else ""),
            _since(facts, code),
        )
        for bar in facts["bars"]
    ]


def _since(facts: dict, code: str) -> str:
    return "the same" if facts.get("code") == code else "changed"


def _verdict(met: bool | None) -> str:
    return "not measured" if met is None else "yes" if met else "**no**"
