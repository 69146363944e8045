"""Contests as tables, bar charts and ratios."""

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan

from benchmarks.contest import OURS, Contest, Result
from benchmarks.environments import GAPS
from benchmarks.report import NEVER, Bars, Section, Table, milliseconds, times
from benchmarks.timing import geometric_mean


def advantages(
    contest: Contest, goals: Sequence[float], peers: Sequence[str]
) -> dict[str, float]:
    """How many times as long the fastest of these peers takes, where one arrives."""
    found = {}
    for name, results in contest.items():
        for goal in goals:
            mine = results[OURS].seconds[goal]
            best = min(
                (results[p].seconds[goal] for p in peers if p in results), default=inf
            )
            if isfinite(best):
                found[f"{name} at {goal:g}"] = 0.0 if mine == inf else best / mine
    return found


def describe_ratios(
    ratios: Mapping[str, float], least: float | None = None, mean: float | None = None
) -> tuple[str, bool | None]:
    """Smallest ratio and geometric mean in words, and whether they suffice."""
    if not ratios:
        return "no peer arrived", None
    worst = min(ratios, key=lambda name: ratios[name])
    center = geometric_mean(ratios.values())
    words = f"least {times(ratios[worst])}× ({worst}), mean {times(center)}×"
    enough = least is None or ratios[worst] >= least
    return words, enough and (mean is None or center >= mean)


def contest_sections(contest: Contest, shapes: Mapping[str, str]) -> list[Section]:
    """One table per instance, and one chart of all."""
    note = (
        "Ours, and others as multiples of it. Tables below: median of repeats, with "
        "the shortest and the longest."
    )
    overview = Section("All shapes", note, *_all(contest))
    details = [
        Section(name, shapes[name] + ".", _detail(results))
        for name, results in contest.items()
    ]
    return [overview, *details]


def _all(contest: Contest) -> tuple[Table, list[Bars]]:
    solvers = list(dict.fromkeys(s for row in contest.values() for s in row))
    others = [solver for solver in solvers if solver != OURS]
    head = ["shape", "gap", f"{OURS}, ms", *(f"{s} / ours" for s in others)]
    rows = [
        [name, f"{goal:g}", *_ratios(results, others, goal)]
        for name, results in contest.items()
        for goal in GAPS
    ]
    charts = [_chart(contest, solvers, goal) for goal in (1e-6, 1e-8)]
    return Table(head, rows), charts


def _ratios(results: dict[str, Result], others: list[str], goal: float) -> list[str]:
    mine = results[OURS].seconds[goal]
    ratios = [results[s].seconds[goal] / mine if s in results else inf for s in others]
    return [milliseconds(mine), *map(times, ratios)]


def _chart(contest: Contest, solvers: list[str], goal: float) -> Bars:
    series = {
        solver: [
            results[solver].seconds[goal] if solver in results else inf
            for results in contest.values()
        ]
        for solver in solvers
    }
    title = f"Time to a relative gap of {goal:g}"
    return Bars(f"{goal:g}", title, "seconds", list(contest), series)


def _detail(results: dict[str, Result]) -> Table:
    gaps = [f"ms to {goal:g}" for goal in GAPS]
    rows = [[name, *_times(result)] for name, result in results.items()]
    return Table(["solver", *gaps, "smallest gap", "remarks"], rows)


def _times(result: Result) -> list[str]:
    gap = NEVER if isnan(result.smallest_gap) else f"{result.smallest_gap:.0e}"
    remark = ", ".join(filter(None, (result.variant, result.error)))
    return [*(milliseconds(result.seconds[goal]) for goal in GAPS), gap, remark]
