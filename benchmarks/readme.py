"""Figures of the README, and its picture, from the JSON of the benchmarks.

``python -m benchmarks.readme`` writes what stands between comments of the README
(figures, speed), and docs/static/questions.svg. It reads docs/benchmarks/tables.json
(rows left out at random), intervals.json (their coverage), questions.json (later rows,
and new tasks), methods.json and shared_x.json (speed), and the results of the usual
methods (tables/usual.csv in the folder PRIORMTL_DATA, for the picture alone). A test
compares the README with ``fill()``.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import NEARBY
from benchmarks.questions import PANELS
from benchmarks.report import FOLDER
from benchmarks.workloads.tables import read_usual
from priormtl import plotting

README = FOLDER.parents[1] / "README.md"
# Tables of the fifteen whose tasks are measured again and again in time.
REPEATED = ("oxboys", "gapminder", "remifentanil", "mlb", "storms", "elecdemand")
RIVALS = {  # by their names on the pages of tables and of questions
    "LightGBM": ("LightGBM", "lightgbm"),
    "ridge, task dummies": ("ridge with task dummies", "ridge"),
    "mixed model": ("MixedLM intercepts", "lme4"),
    "last value": (None, "last value"),
}
TITLES = {
    "rows": "rows left out at random",
    "later": "later rows",
    "tasks": "new tasks",
}
OURS, OTHERS = "#0072b2", "#d55e00"


def read_ratios() -> dict[str, dict[str, float]]:
    """Our error by that of the best other method: question, table."""
    tables = _read("tables")["numbers"]
    found = {
        "rows": {name: one["four fifths"]["ratio"] for name, one in tables.items()}
    }
    for question in ("later", "tasks"):
        errors = read_errors(question)
        found[question] = {
            name: one.pop("ours") / min(one.values()) for name, one in errors.items()
        }
    return found


def read_errors(question: str) -> dict[str, dict[str, float]]:
    """Errors of later rows or of new tasks: table, method."""
    found = {}
    for key, one in _read("questions").items():
        name, asked = key.split(", ")
        if asked == question and "ours" in one:
            methods = {k: v for k, v in one.items() if isinstance(v, dict)}
            found[name] = {k: v["rmse"] for k, v in methods.items() if "rmse" in v}
    return found


def describe() -> str:
    """What the README says of the three questions."""
    ratios = read_ratios()
    rows, later, tasks = (np.array([*ratios[k].values()]) for k in TITLES)
    repeated = [ratio for name, ratio in ratios["rows"].items() if name in REPEATED]
    others = [ratio for name, ratio in ratios["rows"].items() if name not in REPEATED]
    names = sorted(PANELS)[1::2]  # those that judge
    unseen = [ratio for name, ratio in ratios["later"].items() if name in names]
    covered = {question: _coverage(question) for question in ("later", "tasks")}
    intervals = _read("intervals")
    shares = [
        one["coverage"]
        for name, one in intervals["numbers"].items()
        if name in ratios["rows"]
    ]
    commits = _read("tables")["commit"][:7], intervals["commit"][:7]
    seconds = [
        one["four fifths"]["seconds"]["median"]
        for one in _read("tables")["numbers"].values()
    ]
    page = "docs/benchmarks/questions.md"
    return (
        "| question | tables | mean ratio | median | worst | 90 % intervals cover |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        f"| [rows left out at random](docs/benchmarks/tables.md) | {_spread(rows)} | "
        f"[{_range(shares)}](docs/benchmarks/intervals.md) |\n"
        f"| [later rows]({page}), with `time=` | {_spread(later)} | "
        f"{covered['later']} |\n"
        f"| [new tasks]({page}), `cv=TaskGroupKFold(5)` | {_spread(tasks)} | "
        f"{covered['tasks']} |\n\n"
        "Ratio: our error divided by that of the best other method on the table, "
        "picked afterwards; below 1 is better. Rows left out at random are "
        "interpolation where tasks are measured repeatedly in time: the mean ratio is "
        f"{np.mean(repeated):.2f} on the six such tables and {np.mean(others):.2f} on "
        f"the nine others. For later rows it is {np.mean(unseen):.2f} on the tables "
        "that no choice was made on. A fit takes "
        f"{np.median(seconds):.1f} s in the median, {max(seconds):.0f} s at most. The "
        f"first row is of commit {commits[0]}, its coverage ({len(shares)} tables) of "
        f"{commits[1]}.\n"
    )


def describe_speed() -> str:
    """Least ratios of other solvers' times to ours."""
    least = []
    for name, goal in (("methods", "of the five"), ("shared_x", "fastest peer on any")):
        facts = _read(name)
        (said,) = (bar["measured"] for bar in facts["bars"] if goal in bar["goal"])
        (ratio,) = re.findall(r"least ([0-9.]+)×", said)
        least += [ratio, facts["commit"][:7]]
    return (
        "to the same certified accuracy, the paper's five methods take at least "
        f"{least[0]} times as long (commit {least[1]}), and the fastest of adelie, "
        f"celer, skglm and scikit-learn at least {least[2]} times ({least[3]})"
    )


def fill(text: str) -> str:
    """The README with its figures as the JSON files have them now."""
    for name, words in (("figures", f"\n{describe()}"), ("speed", describe_speed())):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}{words}{end}{rest.split(end)[1]}"
    return text


def _spread(ratios: Sequence[float]) -> str:
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    center = f"{np.mean(ratios):.2f} ± {error:.2f} | {np.median(ratios):.2f}"
    return f"{len(ratios)} | {center} | {np.max(ratios):.2f}"


def _coverage(question: str) -> str:
    shares = [
        one["ours"]["coverage"]
        for key, one in _read("questions").items()
        if key.endswith(f", {question}") and "ours" in one
    ]
    return _range(shares)


def _range(shares: Sequence[float]) -> str:
    return f"{min(shares):.2f} to {max(shares):.2f}, median {np.median(shares):.2f}"


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def draw() -> Path:
    """Draw one dot per table and method, and the mean of each method."""
    home = Path(os.environ.get("PRIORMTL_DATA", NEARBY))
    usual = read_usual(home / "tables" / "usual.csv")
    ours = read_ratios()
    figure, (axes,) = plotting.new_figure(1, 3, width=3.4, height=2.6)
    for ax, (question, title) in zip(axes, TITLES.items(), strict=True):
        values = {"priormtl": [*ours[question].values()]}
        for words, (way, short) in RIVALS.items():
            if question == "rows":
                errors = [usual[name, "four fifths"] for name in ours["rows"]]
                values[words] = [one[way] / min(one.values()) for one in errors if way]
                continue
            errors = [*read_errors(question).values()]
            for one in errors:
                del one["ours"]
            values[words] = [
                one[short] / min(one.values()) for one in errors if short in one
            ]
        for place, (words, ratios) in enumerate(values.items()):
            colour = OURS if words == "priormtl" else OTHERS
            # Dots that would lie on each other are moved apart, in a fixed order.
            shift = 0.09 * (np.argsort(np.argsort(ratios)) % 5 - 2)
            ax.plot(ratios, place + shift, "o", color=colour, alpha=0.6, markersize=4)
            if ratios:
                ax.plot(np.mean(ratios), place, "|", color="black", ms=20, mew=2)
        ax.axvline(1.0, color="0.6", linewidth=1, zorder=0)
        ax.set_xscale("log")
        ax.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        ax.minorticks_off()
        ax.set_yticks(range(len(values)), list(values) if ax is axes[0] else [])
        ax.invert_yaxis()
        ax.set(xlim=(0.38, 9.0), title=f"{len(ours[question])} tables: {title}")
        ax.set_xlabel("error / error of the best other method")
    svg, png = plotting.save_figure(figure, FOLDER.parent / "static" / "questions")
    png.unlink()  # the SVG is enough
    return svg


def main() -> None:
    """Write the figures into the README, and draw its picture."""
    text = README.read_text("utf-8")
    README.write_text(fill(text), encoding="utf-8")
    print(f"wrote {README.name} and {draw()}")


if __name__ == "__main__":
    main()
