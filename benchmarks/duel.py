"""Auto against another of our methods on a list of problems."""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.ours import minimise, solution_gap
from benchmarks.report import Bar, Section, Table, milliseconds, times
from benchmarks.timing import cpu_seconds, geometric_mean
from priormtl.problem import Problem

GAP = 1e-6
MOST_SECONDS = 60.0


class Duel(NamedTuple):
    """CPU seconds of both to the gap; infinite where it is not reached."""

    name: str
    auto: float
    rival: float
    rival_gap: float  # where the rival ended

    @property
    def ratio(self) -> float:
        """How many times as long the rival takes."""
        return self.rival / self.auto


def fight(
    problems: Iterable[tuple[str, Problem]], rival: str, repeats: int
) -> list[Duel]:
    """Run both on each problem."""
    duels = []
    for name, problem in problems:
        auto, _ = _seconds(problem, "auto", repeats)
        slow, gap = _seconds(problem, rival, 1)
        duels.append(Duel(name, auto, slow, gap))
        words = f"auto {milliseconds(auto)} ms, {rival} {milliseconds(slow)} ms"
        print(f"  {name}: {words}", flush=True)
    return duels


def _seconds(problem: Problem, name: str, repeats: int) -> tuple[float, float]:
    """Median seconds, at least the limit where the gap stays open, and that gap."""
    if name == "auto":
        minimise(problem, GAP, name, MOST_SECONDS)  # compiled code is loaded, not timed
    gaps = []

    def run() -> None:
        solution = minimise(problem, GAP, name, MOST_SECONDS)
        gaps.append(solution_gap(problem, solution))

    seconds = cpu_seconds(run, repeats)
    unfinished = max(gaps) > 1.01 * GAP
    # An unfinished rival took at least so long; unfinished itself, auto has lost.
    return (float("inf") if unfinished and name == "auto" else seconds), max(gaps)


def duel_bar(goal: str, duels: list[Duel], least: float) -> Bar:
    """Whether auto is so many times as fast everywhere."""
    worst = min(duels, key=lambda duel: duel.ratio)
    mean = geometric_mean(duel.ratio for duel in duels)
    words = f"least {times(worst.ratio)}× ({worst.name}), mean {times(mean)}×"
    return Bar(goal, words, worst.ratio >= least)


def duel_section(duels: list[Duel], rival: str) -> Section:
    """Both times and their ratio."""
    rows = [
        [
            duel.name,
            milliseconds(duel.auto),
            milliseconds(duel.rival)
            + (" (unfinished)" * (duel.rival_gap > 1.01 * GAP)),
            times(duel.ratio),
        ]
        for duel in duels
    ]
    head = ["problem", "auto, ms", f"{rival}, ms", f"{rival} / auto"]
    note = (
        f"CPU time of a solve to a relative gap of 1e-6; {rival} is stopped after "
        f"{MOST_SECONDS:.0f} s of steps, which then counts as its time."
    )
    return Section("Time to a relative gap of 1e-6", note, Table(head, rows))
