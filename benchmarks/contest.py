"""Ours against peers on a list of instances: seconds to certified gaps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from benchmarks import ours
from benchmarks.environments import GAPS, Run, run_peer
from benchmarks.instance import Instance
from benchmarks.timing import Seconds, side_by_side

OURS = "priormtl"
MOST_SECONDS = 20.0
NEVER_REACHED = Seconds([float("inf")])


class Result(NamedTuple):
    """One solver on one instance."""

    seconds: Mapping[float, Seconds]  # to each gap; infinite where never reached
    smallest_gap: float
    variant: str = ""
    error: str = ""  # why not, or not further

    def join(self, other: Self) -> Self:
        """Same solver and instance with the times of both."""
        seconds = {
            goal: Seconds([*first.raw, *other.seconds[goal].raw])
            for goal, first in self.seconds.items()
        }
        return self._replace(seconds=seconds)


Contest = dict[str, dict[str, Result]]  # instance → solver → result


def compete(
    instances: Sequence[Instance], peers: Mapping[str, Sequence[str]], quick: bool
) -> Contest:
    """Run everybody; ``peers`` names the instances that each one gets.

    Ours is measured before the first peer and after each, so that its median comes from
    the same hours as those of the others.
    """
    repeats = 1 if quick else 3
    contest: Contest = {
        each.name: {OURS: run_ours(each, repeats)} for each in instances
    }
    for peer, names in peers.items():
        chosen = [instance for instance in instances if instance.name in names]
        runs = run_peer(peer, chosen, 2 * repeats - 1, 3.0 if quick else 20.0)
        for instance in chosen:
            mine = [run for run in runs if run.instance == instance.name]
            for name, result in judge(instance, mine).items():
                contest[instance.name][name] = result
                show(instance.name, name, result)
        for instance in instances:
            before, again = contest[instance.name][OURS], run_ours(instance, repeats)
            contest[instance.name][OURS] = before.join(again)
    for instance in instances:
        show(instance.name, OURS, contest[instance.name][OURS])
    return contest


def run_ours(instance: Instance, repeats: int) -> Result:
    """From arrays to coefficients at each gap, everything included."""

    def fit(goal: float) -> float:
        problem = ours.build_problem(instance)
        solution = ours.minimise(problem, goal, seconds=MOST_SECONDS)
        return ours.solution_gap(problem, solution)

    gap, actions = float("inf"), {}
    for goal in GAPS:
        gap = min(gap, fit(goal))  # compiled code is loaded once, not timed
        if gap > goal:
            break
        actions[goal] = partial(fit, goal)
    seconds = dict.fromkeys(GAPS, NEVER_REACHED) | side_by_side(actions, repeats)
    return Result(seconds, gap)


def judge(instance: Instance, runs: Sequence[Run]) -> dict[str, Result]:
    """Best variant of a peer, by our certificate of its coefficients.

    SCS and Clarabel are solvers of their own and stay apart.
    """
    problem = ours.build_problem(instance)
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        apart = run.peer == "cvxpy" and run.variant
        by_name[f"cvxpy {run.variant}" if apart else run.peer].append(run)
    return {name: _judge_runs(problem, mine) for name, mine in by_name.items()}


def _judge_runs(problem: ours.Problem, runs: Sequence[Run]) -> Result:
    solved = [run for run in runs if run.coef is not None]
    errors = [run.error for run in runs if run.error]
    if not solved:
        return Result(dict.fromkeys(GAPS, NEVER_REACHED), float("nan"), "", errors[0])
    gaps = [ours.relative_gap(problem, run.coef) for run in solved]
    seconds, variant = {}, ""
    for goal in GAPS:
        good = [run for run, gap in zip(solved, gaps, strict=True) if gap <= goal]
        # The coarsest tolerance that reaches a gap was timed more than once.
        repeated = [run for run in good if len(run.seconds.raw) > 1]
        best = min(repeated or good, key=lambda run: run.seconds, default=None)
        seconds[goal] = NEVER_REACHED if best is None else best.seconds
        variant = variant if best is None else best.variant
    smallest = float(np.min(gaps))
    if smallest > min(GAPS) and not errors:
        errors = [" or ".join(sorted({run.ended for run in solved if run.ended}))]
    return Result(seconds, smallest, variant, errors[0] if errors else "")


def show(instance: str, name: str, result: Result) -> None:
    """One line of progress."""
    times = ", ".join(f"{goal:g}: {s:.4g} s" for goal, s in result.seconds.items())
    words = f" {result.error}" if result.error else ""
    print(f"  {instance:14s} {name:16s} {times} (gap {result.smallest_gap:.1e}){words}")
    print(end="", flush=True)
