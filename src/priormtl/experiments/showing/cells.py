"""Tables as values: what each cell says, before any layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from priormtl.experiments.showing.comparisons import Counts, PairedDifference, Verdict
from priormtl.experiments.showing.measurements import Progress
from priormtl.experiments.showing.paper import Estimate
from priormtl.tables import NOTHING, TableRow

__all__ = [
    "CountCell",
    "DifferenceCell",
    "ScoreCell",
    "SecondsCell",
    "Table",
]

CLOSE = "†"
MARKS = {Verdict.BETTER: "▲", Verdict.WORSE: "▼"}


@dataclass(frozen=True)
class ScoreCell:
    """Ours beside the paper's."""

    ours: Estimate | None
    paper: Estimate | None
    progress: Progress
    best: bool = False
    close: bool = False  # not significantly worse than the best
    decimals: int = 1

    @property
    def text(self) -> str:
        """Mean and standard deviation, per cent."""
        return NOTHING if self.ours is None else _spell(self.ours, self.decimals)

    @property
    def mark(self) -> str:
        """A dagger where it is about as good as the best."""
        return CLOSE if self.close and not self.best else ""

    @property
    def asides(self) -> Sequence[str]:
        """The paper's figure, and how much is missing."""
        paper = () if self.paper is None else (f"paper {_spell(self.paper, 1)}",)
        missing = () if self.progress.complete else (self.progress.text,)
        return paper + missing

    @property
    def bold(self) -> bool:
        """Whether it is the best of its column."""
        return self.best


@dataclass(frozen=True)
class DifferenceCell:
    """Paired difference against the reference, in percentage points."""

    difference: PairedDifference
    verdict: Verdict
    progress: Progress

    @property
    def text(self) -> str:
        """Mean with its interval."""
        if not isfinite(self.difference.mean):
            return NOTHING
        mean = f"{100 * self.difference.mean:+.2f}".replace("-", "−")
        low, high, _ = self.difference.interval
        if self.verdict is Verdict.UNKNOWN:
            return mean
        ends = f"{100 * low:.2f}, {100 * high:.2f}".replace("-", "−")
        return f"{mean} [{ends}]"

    @property
    def mark(self) -> str:
        """A triangle up or down where the difference is significant."""
        return MARKS.get(self.verdict, "")

    @property
    def asides(self) -> Sequence[str]:
        """How many repeats it rests on, where that is not all of them."""
        n_common, n_left_out = self.difference.n_common, self.difference.n_left_out
        planned = self.progress.planned
        if not planned or (not n_left_out and self.progress.complete):
            return ()
        return (f"{n_common} of {max(planned, n_common + n_left_out)}",)

    @property
    def bold(self) -> bool:
        """Differences are marked, not bold."""
        return False


class Unadorned:
    """A cell of words alone."""

    @property
    def mark(self) -> str:
        """None."""
        return ""

    @property
    def asides(self) -> Sequence[str]:
        """None."""
        return ()

    @property
    def bold(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True)
class CountCell(Unadorned):
    """Wins, ties and losses."""

    counts: Counts

    @property
    def text(self) -> str:
        """Three numbers."""
        return " / ".join(str(count) for count in self.counts)


@dataclass(frozen=True)
class SecondsCell(Unadorned):
    """A time, or that there is none."""

    seconds: float | None

    @property
    def text(self) -> str:
        """Seconds, to two digits where they are few."""
        if self.seconds is None:
            return NOTHING
        return f"{self.seconds:.{1 if self.seconds < 10 else 0}f}"


@dataclass(frozen=True)
class Table:
    """Title, head, rows and what stands under them."""

    title: str
    columns: tuple[str, ...]  # the first is that of the labels
    rows: tuple[TableRow, ...]
    footnotes: tuple[str, ...]
    progress: Progress

    @property
    def alignment(self) -> str:
        """Numbers to the right of labels."""
        return "l" + "r" * (len(self.columns) - 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """Footnotes, first of all what is missing."""
        if self.progress.complete:
            return self.footnotes
        missing = (
            f"Incomplete: {self.progress.text} runs are there; cells name what they "
            "rest on."
        )
        return (missing, *self.footnotes)


def _spell(estimate: Estimate, decimals: int) -> str:
    mean = f"{estimate.mean:.{decimals}f}".replace("-", "−")
    return f"{mean} ± {estimate.sd:.{decimals}f}" if isfinite(estimate.sd) else mean
