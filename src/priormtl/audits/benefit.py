"""Whether a prior helped: paired errors on held-out rows, as a verdict."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.audits.results import PriorBenefit, TaskBenefit
from priormtl.metrics import LEVEL, Interval, corrected_interval

__all__ = ["judge_benefit", "judge_tasks"]

NEGLIGIBLE = 1e-4  # relative change that tolerances of solvers can make


def judge_benefit(
    metric: str,
    with_prior: Array,
    without_prior: Array,
    *,
    lams: tuple[Array, Array],
    test_to_train: float,
    method: str,
    by_task: tuple[TaskBenefit, ...] = (),
) -> PriorBenefit:
    """Compare errors (k,) of the same splits; ``lams`` are those with and without."""
    change, interval = _relative(with_prior, without_prior, test_to_train)
    verdict = _verdict(change, interval)
    return PriorBenefit(
        metric,
        with_prior,
        without_prior,
        *lams,
        change,
        interval.low,
        interval.high,
        LEVEL,
        interval.p_value,
        verdict,
        _sentence(metric, verdict, change, interval),
        method,
        by_task,
    )


def judge_tasks(
    tasks: Sequence[Any], with_prior: Array, without_prior: Array, test_to_train: float
) -> tuple[TaskBenefit, ...]:
    """Compare errors (k, m) task by task; NaN where a split holds out no rows."""
    columns = zip(tasks, with_prior.T, without_prior.T, strict=True)
    return tuple(_judge_task(str(t), a, b, test_to_train) for t, a, b in columns)


def _judge_task(
    task: str, with_prior: Array, without_prior: Array, test_to_train: float
) -> TaskBenefit:
    known = ~np.isnan(with_prior)
    a, b = with_prior[known], without_prior[known]
    change, interval = _relative(a, b, test_to_train)
    return TaskBenefit(task, _mean(a), _mean(b), change, interval.low, interval.high)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _relative(
    with_prior: Array, without_prior: Array, test_to_train: float
) -> tuple[float, Interval]:
    """Mean difference and its interval, in units of the mean error without prior."""
    nan = float("nan")
    if not len(with_prior):
        return nan, Interval(nan, nan, nan)
    differences = with_prior - without_prior
    unit = abs(float(without_prior.mean()))
    if unit == 0:
        unit = 1.0 if not differences.any() else float(np.abs(differences).max())
    change = float(differences.mean()) / unit
    if len(differences) < 2:
        return change, Interval(nan, nan, nan)
    low, high, p_value = corrected_interval(differences, test_to_train)
    return change, Interval(low / unit, high / unit, p_value)


def _verdict(change: float, interval: Interval) -> str:
    if interval.high < 0 and change < -NEGLIGIBLE:
        return "helped"
    if interval.low > 0 and change > NEGLIGIBLE:
        return "harmed"
    return "no difference"


def _sentence(metric: str, verdict: str, change: float, interval: Interval) -> str:
    low, high = 100 * interval.low, 100 * interval.high
    level = f"{100 * LEVEL:.0f} % interval"
    if verdict == "helped":
        return (
            f"The prior lowered the {metric} by {_percent(-100 * change)} % ({level} "
            f"{_percent(-high)} to {_percent(-low)} %)."
        )
    if verdict == "harmed":
        return (
            f"The prior did harm: it raised the {metric} by {_percent(100 * change)} % "
            f"({level} {_percent(low)} to {_percent(high)} %)."
        )
    if np.isnan(low):
        return f"One split alone cannot show whether the prior changes the {metric}."
    return (
        f"No difference could be seen: the prior changed the {metric} by "
        f"{_percent(100 * change)} % ({level} {_percent(low)} to {_percent(high)} %)."
    )


def _percent(value: float) -> str:
    """Two digits, and a true minus."""
    if abs(value) < 0.01:
        return "0"
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    return f"{value:.{digits}f}".replace("-", "−")
