"""Ours against one other method on a list of problems, in turns."""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from benchmarks.ours import minimise, solution_gap
from benchmarks.report import Bar, Report, Section, Table, milliseconds, times
from benchmarks.timing import geometric_mean, side_by_side
from priormtl.problem import Problem

GAP = 1e-6
MOST_SECONDS = 60.0


class Duel(NamedTuple):
    """CPU seconds of both to the gap; infinite where ours does not reach it."""

    name: str
    ours: float
    rival: float
    rival_gap: float  # where the rival ended

    @property
    def ratio(self) -> float:
        """How many times as long the rival takes."""
        return self.rival / self.ours


def fight(
    problems: Iterable[tuple[str, Problem]], rival: str, repeats: int
) -> list[Duel]:
    """Run auto and another of our methods on each problem."""
    duels = []
    for name, problem in problems:
        gaps = {"auto": 0.0, rival: 0.0}

        def run(method: str, problem: Problem = problem, gaps: dict = gaps) -> None:
            solution = minimise(problem, GAP, method, MOST_SECONDS)
            gaps[method] = max(gaps[method], solution_gap(problem, solution))

        run("auto")  # compiled code is loaded, not timed
        both = {method: partial(run, method) for method in gaps}
        seconds = side_by_side(both, repeats)
        # An unfinished rival took at least so long; unfinished itself, auto has lost.
        ours = seconds["auto"] if gaps["auto"] <= 1.01 * GAP else float("inf")
        duels.append(Duel(name, ours, seconds[rival], gaps[rival]))
        words = [f"{key} {milliseconds(value)} ms" for key, value in seconds.items()]
        print(f"  {name}: {', '.join(words)}", flush=True)
    return duels


def duel_bar(goal: str, duels: list[Duel], least: float) -> Bar:
    """Whether ours is so many times as fast everywhere."""
    worst = min(duels, key=lambda duel: duel.ratio)
    mean = geometric_mean(duel.ratio for duel in duels)
    words = f"least {times(worst.ratio)}× ({worst.name}), mean {times(mean)}×"
    return Bar(goal, words, worst.ratio >= least)


def duel_report(
    title: str, note: str, problems: Iterable[tuple[str, Problem]], repeats: int
) -> Report:
    """Ours against FISTA, which must take five times as long on each problem."""
    duels = fight(problems, "fista", repeats)
    bars = [duel_bar("≥ 5× faster than `fista` to 1e-6", duels, 5.0)]
    numbers = {duel.name: duel for duel in duels}
    return Report(title, note, bars, [duel_section(duels, "fista")], numbers)


def duel_section(
    duels: list[Duel], rival: str, late: str = f"{MOST_SECONDS:.0f} s of steps"
) -> Section:
    """Both times and their ratio; ``late`` says when a rival is stopped."""
    rows = [
        [
            duel.name,
            milliseconds(duel.ours),
            milliseconds(duel.rival)
            + (" (unfinished)" * (duel.rival_gap > 1.01 * GAP)),
            times(duel.ratio),
        ]
        for duel in duels
    ]
    head = ["problem", "ours, ms", f"{rival}, ms", f"{rival} / ours"]
    note = (
        f"CPU time to a relative gap of {GAP:g}, medians of repeats in turns "
        f"(shortest–longest); {rival}: stopped after {late}, which then counts as its "
        "time."
    )
    return Section("Time to a relative gap of 1e-6", note, Table(head, rows))
