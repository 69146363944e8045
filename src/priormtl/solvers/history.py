"""History: a callback that records a run as rows of a table."""

from dataclasses import dataclass, field
from typing import NamedTuple

from priormtl.solvers.loop import Progress

__all__ = ["History", "Row"]


class Row(NamedTuple):
    """One iteration of a run."""

    n_iter: int
    seconds: float
    objective: float
    gap: float | None  # None if History was told not to compute gaps


@dataclass
class History:
    """Record objective, gap and time of every few iterations.

    Parameters
    ----------
    every : int
        Number of iterations from one row to the next.
    gaps : bool
        Whether to compute the duality gap for each row.

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
        """Add a row."""
        if progress.n_iter % self.every == 0:
            gap = progress.certificate.gap if self.gaps else None
            row = Row(progress.n_iter, progress.seconds, progress.objective, gap)
            self.rows.append(row)
