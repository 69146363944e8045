"""When to stop: rules given to the loop."""

from math import isfinite

import numpy as np

from priormtl.solvers.loop import Progress, StopReason, StopRule

__all__ = [
    "diverged",
    "gap_below",
    "max_iter",
    "max_seconds",
    "no_progress",
    "small_change",
    "stalled",
]


def gap_below(tol: float, every: int = 10) -> StopRule:
    """Stop at gap ≤ tol · (objective at P = 0), looked at every few steps."""

    def rule(progress: Progress) -> StopReason | None:
        if progress.n_iter % every:
            return None
        limit = tol * progress.problem.null_objective
        noise = progress.problem.fit.noise
        problem, point = progress.problem, progress.state.point
        wide = progress.certificate.gap > max(limit, noise)
        if wide and not problem.is_nearly_smooth(point, limit):
            return None
        # Rounding is looked at only where it may decide.
        gap = progress.rounded.gap
        if gap <= limit:
            return StopReason.GAP
        # No step could show that it has gained anything.
        hidden = progress.certificate.gap <= progress.rounded.rounding
        return StopReason.ROUNDING if gap <= noise or hidden else None

    return rule


def small_change(tol: float) -> StopRule:
    """Stop when a step changes the objective by less than ``tol``: the paper's rule."""

    def rule(progress: Progress) -> StopReason | None:
        return StopReason.SMALL_CHANGE if abs(progress.rise) < tol else None

    return rule


def stalled() -> StopRule:
    """Stop when a step has left everything where it was, to the bit."""

    def rule(progress: Progress) -> StopReason | None:
        if progress.before is None:
            return None
        here, there = progress.state.point.coef, progress.before.point.coef
        return StopReason.STALLED if np.array_equal(here, there) else None

    return rule


def no_progress(looks: int) -> StopRule:
    """Stop when the smallest gap has not halved for so many looks.

    For methods whose every step should shrink it: what is left is badly conditioned.
    """
    best, since = float("inf"), 0

    def rule(progress: Progress) -> StopReason | None:
        nonlocal best, since
        gap = progress.certificate.gap
        if gap < 0.5 * best:
            best, since = gap, 0
            return None
        since += 1
        return StopReason.NO_PROGRESS if since >= looks else None

    return rule


def max_iter(n: int) -> StopRule:
    """Stop after ``n`` steps."""

    def rule(progress: Progress) -> StopReason | None:
        return StopReason.MAX_ITER if progress.n_iter >= n else None

    return rule


def max_seconds(seconds: float) -> StopRule:
    """Stop when the steps have taken this long."""

    def rule(progress: Progress) -> StopReason | None:
        return StopReason.MAX_SECONDS if progress.seconds >= seconds else None

    return rule


def diverged(factor: float = 10.0, every: int = 1) -> StopRule:
    """Stop when the objective exceeds ``factor`` times that at P = 0.

    Looked at every few steps, where objectives are dear.
    """

    def rule(progress: Progress) -> StopReason | None:
        if progress.n_iter % every:
            return None
        if not isfinite(progress.objective):
            return StopReason.DIVERGED
        # A warm start may begin above the limit, and come down from there.
        above = progress.objective > factor * progress.problem.null_objective
        return StopReason.DIVERGED if above and progress.rise > 0 else None

    return rule
