"""Files beyond memory: how fast one pass is, and how little memory it takes."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.big_table import ROW_BYTES, D, M, temporary_folder, write_rows
from benchmarks.environments import ROOT
from benchmarks.report import Bar, Report, Section, Table, seconds_of, times
from benchmarks.timing import Seconds

TITLE = "Files beyond memory"
LEAST_RATIO = 0.6
MOST_MEMORY = 1024  # MiB
FLAT = 1.15  # of the memory at a tenth of the rows
PASSES = {
    "numbers": "tasks are numbers, rows shuffled",
    "texts": "tasks are texts, rows shuffled",
    "sorted": "tasks are numbers, rows sorted in each row group",
    "folds": "tasks are numbers, rows shuffled, 5 folds in the same pass",
}


def measure(quick: bool) -> Report:
    """Time passes side by side, then weigh one over few and one over many rows."""
    rows, repeats = (1_000_000, 3) if quick else (10_000_000, 7)
    sizes = (1_000_000, 4_000_000) if quick else (10_000_000, 100_000_000)
    seconds = _time_passes(rows, repeats)
    weights = _weigh_passes(sizes)
    note = (
        f"Parquet files of {D} float32 features, a float32 target and {M} tasks, in "
        "row groups of 131072 rows, not compressed; statistics are sums in float64. "
        "Plain: the same columns are read into one NumPy matrix by all cores and "
        "multiplied once by BLAS (XᵀX of all rows, whatever their task), file by file, "
        "in memory that is used again. All passes take turns in one process; times are "
        "medians by the clock on the wall (shortest–longest). Files come from the "
        "cache of the system, as far as it holds them. Here BLAS has all cores, too."
    )
    bars = [_speed_bar(seconds), *_memory_bars(weights)]
    sections = [_speed_section(rows, seconds), _memory_section(weights)]
    return Report(TITLE, note, bars, sections, {"speed": seconds, "memory": weights})


def _time_passes(rows: int, repeats: int) -> dict[str, Seconds]:
    with temporary_folder(2 * rows) as folder:
        write_rows(folder / "shuffled", 0, rows)
        write_rows(folder / "sorted", 0, rows, by_task=True)
        folders = [str(folder / "shuffled"), str(folder / "sorted")]
        found = _run("speed", *folders, str(repeats))
    seconds = {name: Seconds(values) for name, values in found.items()}
    words = ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
    print(f"  seconds of {rows} rows: {words}", flush=True)
    return seconds


def _weigh_passes(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    found, begin = [], 0
    with temporary_folder(max(sizes)) as folder:
        for rows in sizes:
            write_rows(folder / "rows", begin, rows)
            weight = _run("memory", str(folder / "rows"))
            print(f"  {rows} rows: {weight['peak']:.0f} MiB", flush=True)
            found.append(weight)
            begin = rows
    return found


def _run(*arguments: str) -> Any:
    """Result of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.passes", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _speed_bar(seconds: dict[str, Seconds]) -> Bar:
    ratios = [seconds["double"] / seconds[name] for name in ("numbers", "texts")]
    return Bar(
        "one pass at 0.6 or more of the speed of plain reading and BLAS (float64)",
        f"{times(min(ratios))}",
        min(ratios) >= LEAST_RATIO,
    )


def _memory_bars(weights: list[dict[str, Any]]) -> list[Bar]:
    few, many = weights[0], weights[-1]
    growth = many["peak"] / few["peak"]
    most = max(weight["peak"] for weight in weights)
    sizes = f"{_millions(few)} to {_millions(many)} million rows"
    return [
        Bar(
            f"memory flat (at most {FLAT}×) from {sizes}",
            f"{times(growth)}×",
            growth <= FLAT,
        ),
        Bar("peak memory under 1 GiB", f"{most:.0f} MiB", most < MOST_MEMORY),
    ]


def _speed_section(rows: int, seconds: dict[str, Seconds]) -> Section:
    double, single = seconds["double"], seconds["single"]
    ours = [
        [words, *_speeds(rows, seconds[name]), times(double / seconds[name])]
        for name, words in PASSES.items()
    ]
    plain = [
        ["plain, sums in float64", *_speeds(rows, double), "1"],
        ["plain, sums in float32", *_speeds(rows, single), times(double / single)],
    ]
    head = ["pass", "seconds", "million rows/s", "MB/s", "speed / plain float64"]
    return Section(
        f"Speed at {rows // 10**6} million rows",
        "Sums in float32 lose digits, which ours keep: shown for comparison.",
        Table(head, ours + plain),
    )


def _speeds(rows: int, seconds: float) -> list[str]:
    used = rows * (ROW_BYTES - 5)  # neither key nor school
    return [
        seconds_of(seconds),
        f"{rows / seconds / 1e6:.2f}",
        f"{used / seconds / 1e6:.0f}",
    ]


def _memory_section(weights: list[dict[str, Any]]) -> Section:
    rows = [
        [
            _millions(weight),
            f"{weight['rows'] * (ROW_BYTES - 5) / 1e9:.2f}",
            f"{weight['peak']:.0f}",
            f"{weight['seconds']:.1f}",
        ]
        for weight in weights
    ]
    head = ["million rows", "GB in use", "peak memory, MiB", "seconds"]
    note = "Each in a process of its own; memory counts Python and all libraries."
    return Section("Memory", note, Table(head, rows))


def _millions(weight: dict[str, Any]) -> str:
    return f"{weight['rows'] / 1e6:g}"
