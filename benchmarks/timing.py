"""Clocks: CPU time for one thread, wall time where threads or processes matter."""

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import exp, isfinite, log
from time import process_time
from typing import Any, Self

from joblib import Parallel, delayed

LONG_ENOUGH = 8.0  # seconds after which nothing is repeated
SHORT, IN_A_TURN = 0.1, 3  # calls under so many seconds are repeated in each turn

Action = Callable[[], Any]


class Seconds(float):
    """Median of repeated times, all of which it keeps."""

    raw: tuple[float, ...]

    def __new__(cls, raw: Iterable[float]) -> Self:
        """Take times in the order in which they were measured."""
        times = tuple(raw)
        self = super().__new__(cls, statistics.median(times))
        self.raw = times
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[float, ...]]]:
        """Cross to another process as it was made."""
        return type(self), (self.raw,)


def side_by_side(
    actions: Mapping[str, Action],
    repeats: int,
    clock: Callable[[], float] = process_time,
) -> dict[str, Seconds]:
    """Times of calls that take turns: a busy machine slows all of them alike.

    Short calls are repeated in each turn, since the first one finds the caches of the
    processor full of what the others left there.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn, (name, action) in product(range(repeats), actions.items()):
        raw = times[name]
        while sum(raw) < LONG_ENOUGH and len(raw) < (turn + 1) * IN_A_TURN:
            begin = clock()
            action()
            raw.append(clock() - begin)
            if raw[-1] > SHORT:
                break
    return {name: Seconds(raw) for name, raw in times.items()}


def in_processes(
    action: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """Results in the order of the arguments, from as many processes as JOBS says.

    For fits that take seconds of one thread: short times must not share a machine.
    """
    jobs = int(os.environ.get("JOBS", "1"))
    calls = (delayed(action)(*one) for one in arguments)
    results: Iterator[Any] = Parallel(jobs, return_as="generator", batch_size=1)(calls)
    return results


def cpu_seconds(action: Action, repeats: int) -> Seconds:
    """CPU time of a call; others on the machine do not count."""
    return side_by_side({"": action}, repeats)[""]


def geometric_mean(values: Iterable[float]) -> float:
    """Of those that are finite; zero where one is zero, NaN where there is none."""
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return float("nan")
    if min(finite) <= 0:
        return 0.0
    return exp(sum(map(log, finite)) / len(finite))
