"""Figures of the README and the paper, and a picture, from the JSON of the benchmarks.

``python -m benchmarks.readme`` writes what stands between comments of the README
(figures, speed) and of the paper (evidence), and docs/static/questions.svg. It reads
the JSON files of docs/benchmarks, and for the picture alone the results of the usual
methods (tables/usual.csv in the folder PRIORMTL_DATA). A test compares both pages with
``fill()``.
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
PAPER = README.parent / "paper" / "paper.md"
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
        f'| [new tasks]({page}), `calibrate="tasks"` | {_spread(tasks)} | '
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
    methods, peers = _read("methods"), _read("shared_x")
    return (
        "to the same certified accuracy, the paper's five methods take at least "
        f"{_said(methods, 'of the five')[0]:g} times as long (commit "
        f"{methods['commit'][:7]}), and the fastest of adelie, celer, skglm and "
        f"scikit-learn at least {_said(peers, 'fastest peer on any')[0]:g} times "
        f"({peers['commit'][:7]})"
    )


def describe_evidence() -> str:
    """Points of the paper's section on impact."""
    shared, own, mixed = _read("shared_x"), _read("own_x"), _read("mixed_model")
    tables, others, stated = (
        _read("tables"),
        _read("other_tables"),
        _read("statements"),
    )
    peers, adelie = _said(shared, "fastest peer on any"), _said(own, "slower than adel")
    _, gram = _column(own, "All shapes", "gap", "fista_gram / ours")
    gaps, coarse = _column(own, "All shapes", "gap", "adelie / ours")
    coarse = [ratio for gap, ratio in zip(gaps, coarse, strict=True) if gap == 1e-4]
    (searches,) = _said(mixed, "tuned: at least 20")
    school = 1 / _said(mixed, "tuned: not slower")[0]
    slopes = [v for g, v in _goals(mixed) if "tuned: error" in g and "School" not in g]
    worst = max(float(words.split()[0]) for words in slopes)
    (gain,) = (v for g, v in _goals(mixed) if "tuned: error" in g and "School" in g)
    mean, _, _ = _said(tables, "four fifths: mean")
    rows = _section(tables, "Each method beside the best")["rows"]
    (boosted,) = (row[1:3] for row in rows if row[0] == "LightGBM")
    true = [
        re.findall(r"[-+.0-9]+(?= ±)", v) for g, v in _goals(stated) if "lowers" in g
    ]
    few, many = ([float(one[k]) for one in true] for k in (0, 2))
    tuned = [_said(stated, g)[0] for g, _ in _goals(stated) if "costs" in g]
    fixed = [
        float(row[3].split()[0])
        for name in ("Known values", "Similar and opposite")
        for row in _section(stated, name)["rows"]
    ]
    return f"""\
- **Shared rows.** On seven shapes and gaps of $10^{{-6}}$ and $10^{{-8}}$, the time \
to a certified gap is at least {peers[0]:g} times shorter than that of the fastest of \
scikit-learn, celer, skglm and adelie on each shape, and {peers[1]:g} times in the \
geometric mean.
- **Separate rows.** Against adelie on a sparse block design, prepared beforehand, \
the smallest ratio is {adelie[0]:g} and the geometric mean {adelie[1]:g} at these \
gaps; at a gap of $10^{{-4}}$ the smallest is {min(coarse):g}. Plain FISTA on Gram \
matrices takes {min(gram):.1f} to {max(gram):.1f} times as long on small problems.
- **Mixed models.** On synthetic groups with random slopes, searches over 15 \
candidates take at most 1/{searches:.0f} of the time of `MixedLM` of statsmodels with \
random slopes, with mean errors at most {worst:.2f} % larger. On the School data, such \
a search takes {school:.1f} times as long as `MixedLM` with random intercepts only, \
and its error is {-float(gain.split()[0]):.1f} % smaller.
- **Real tables.** On fifteen public grouped tables, the error of `tabular_model` \
without further settings on rows left out at random is on average {mean:.2f} times \
that of the best of up to eighteen usual methods, chosen on the test rows for each \
table. The worst ratio is {_said(tables, "four fifths: worst")[0]:.2f}. For LightGBM \
[@ke2017] alone, these ratios are {float(boosted[0]):.2f} and {float(boosted[1]):.2f}. \
These tables were available during development, and much of the gain comes from tables \
whose tasks are measured repeatedly in time. On 26 further tables, against ridge \
regression, a mixed model and LightGBM, the mean ratio is \
{_said(others, "four fifths: mean")[0]:.2f} and the worst \
{_said(others, "four fifths: worst")[0]:.2f}. For later rows and new tasks, see the \
README.
- **Prior knowledge.** In simulations with 5 rows per task, true statements of six \
kinds lower the error by {-max(few):.0f} % to {-min(few):.0f} %. With 20 rows per task \
most gains are below 3 %, but that of smooth effects is {-min(many):.0f} %. Wrong \
statements whose strength is tuned raise it by at most {max(tuned):.1f} %. At a fixed \
strength, wrong known values and relations raise it by {min(fixed):.0f} % to \
{max(fixed):.0f} %.
"""


def _goals(facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [(bar["goal"], bar["measured"]) for bar in facts["bars"]]


def _said(facts: dict[str, Any], goal: str) -> list[float]:
    """Numbers of what was measured for the one goal with these words."""
    (said,) = (measured for words, measured in _goals(facts) if goal in words)
    said = re.sub(r"\(.*?\)", "", said)
    return [float(number) for number in re.findall(r"[0-9]+\.[0-9]+|[0-9]+", said)]


def _section(facts: dict[str, Any], title: str) -> dict[str, Any]:
    (section,) = (one for one in facts["sections"] if one["title"] == title)
    return section


def _column(facts: dict[str, Any], title: str, *names: str) -> list[list[float]]:
    """Columns of a table, of the rows where all of them are numbers."""
    table = _section(facts, title)
    places = [table["head"].index(name) for name in names]
    rows = [[row[k] for k in places] for row in table["rows"]]
    kept = [[float(cell) for cell in row] for row in rows if "–" not in row]
    return [list(column) for column in zip(*kept, strict=True)]


def fill(text: str) -> str:
    """The README or the paper with its figures as the JSON files have them now."""
    for name, describe_part in PARTS.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin in text:
            head, rest = text.split(begin)
            text = f"{head}{begin}{describe_part()}{end}{rest.split(end)[1]}"
    return text


PARTS = {
    "figures": lambda: f"\n{describe()}",
    "speed": describe_speed,
    "evidence": lambda: f"\n{describe_evidence()}",
}


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
    """Write the figures into the README and the paper, and draw the picture."""
    for page in (README, PAPER):
        page.write_text(fill(page.read_text("utf-8")), encoding="utf-8")
    print(f"wrote {README.name}, {PAPER.name} and {draw()}")


if __name__ == "__main__":
    main()
