"""Clocks: CPU time for one thread, wall time where threads or processes matter."""

import statistics
from collections.abc import Callable, Iterable
from math import exp, isfinite, log
from time import perf_counter, process_time
from typing import Any

LONG_ENOUGH = 4.0  # seconds after which nothing is repeated


def cpu_seconds(action: Callable[[], Any], repeats: int) -> float:
    """Median CPU time of a call; others on the machine do not count."""
    return _median(action, repeats, process_time)


def wall_seconds(action: Callable[[], Any], repeats: int) -> float:
    """Median time of a call by the clock on the wall."""
    return _median(action, repeats, perf_counter)


def geometric_mean(values: Iterable[float]) -> float:
    """Of those that are finite; zero where one is zero, NaN where there is none."""
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return float("nan")
    if min(finite) <= 0:
        return 0.0
    return exp(sum(map(log, finite)) / len(finite))


def _median(
    action: Callable[[], Any], repeats: int, clock: Callable[[], float]
) -> float:
    times: list[float] = []
    while len(times) < repeats and sum(times) < LONG_ENOUGH:
        begin = clock()
        action()
        times.append(clock() - begin)
    return statistics.median(times)
