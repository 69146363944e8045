"""History: a callback that keeps tidy rows of a run."""

from dataclasses import dataclass, field
from typing import NamedTuple

from priormtl.solvers.loop import Progress

__all__ = ["History", "Row"]


class Row(NamedTuple):
    """One look at a run."""

    n_iter: int
    seconds: float
    objective: float
    gap: float | None  # None where it was not asked for


@dataclass
class History:
    """Keep objective, gap and time of every few steps.

    Examples
    --------
    >>> history = History(every=5)  # then solve(..., callbacks=[history])
    >>> history.rows
    []
    """

    every: int = 1
    gaps: bool = True
    rows: list[Row] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        """Note where the run stands."""
        if progress.n_iter % self.every == 0:
            gap = progress.certificate.gap if self.gaps else None
            row = Row(progress.n_iter, progress.seconds, progress.objective, gap)
            self.rows.append(row)
