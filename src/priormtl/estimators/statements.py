"""What became of each statement about single features in a fitted model.

Relations between features are judged together, by ‖D P − C‖² (``summary``). Here each
known value, sign, common effect and smooth effect says what it came to.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from priormtl._arrays import Array
from priormtl.data import pooled_variance
from priormtl.design import Design
from priormtl.fitted import Fitted
from priormtl.priors import Common, Near, Ridge, Rows, Signs
from priormtl.rendering import count_words, spell_number

__all__ = ["StatementSummary", "read_statements"]


@dataclass(frozen=True)
class StatementSummary:
    """A statement of the feature prior, and what the fit made of it."""

    statement: str  # such as price ≤ 0
    outcome: str  # in words
    feature: str  # or column
    kind: str  # near, sign, common, smooth or matrix
    least: float | None  # coefficient over the tasks; None for curves
    most: float | None
    # Effective degrees of freedom of a curve beside its straight line; None: not known.
    wiggles: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Statement and outcome, such as price ≤ 0: at its bound in 7 of 12 tasks."""
        return f"{self.statement}{', ' if ':' in self.statement else ': '}{self.words}"

    @property
    def words(self) -> str:
        """Outcome with the number of effective wiggles."""
        if self.wiggles is None:
            return self.outcome
        count = spell_number(self.wiggles, 2)
        return f"{self.outcome}, about {count} effective wiggles"


def read_statements(
    fitted: Fitted, theta: float | None, n_classes: int = 0
) -> tuple[StatementSummary, ...]:
    """Statements of the resolved prior, and what the coefficients made of them.

    If there are more than two classes, "tasks" are those of each class.
    """
    prior, found = fitted.feature_prior, list[StatementSummary]()
    coef, names = fitted.shared_coef, fitted.names
    design = fitted.design or Design.of_names(names)
    for part in () if prior is None else prior.parts:
        if isinstance(part, Near | Rows):
            found += _values(part, coef, names, fitted.labels, theta)
        elif isinstance(part, Signs):
            cells = count_words(len(coef) // max(n_classes, 1), "task")
            if n_classes:
                cells += f" × {n_classes} classes"
            for j in part.positions:
                found.append(_sign(part.sign, names[j], coef[:, j], cells))
        elif isinstance(part, Common):
            found += _common(part.positions.tolist(), coef, design)
        elif isinstance(part, Ridge):
            found += _smooth(part, fitted)
    return tuple(found)


def _values(
    part: Near | Rows,
    coef: Array,
    names: Sequence[str],
    tasks: Sequence[Hashable],
    theta: float | None,
) -> Iterator[StatementSummary]:
    """Known values of coefficients, or of sums of them; relations have none."""
    targets = part.targets(tasks)
    if targets is None:
        return
    D = part.matrix(coef.shape[1])
    # Rows of known values are multiplied by the root of their weight.
    root = np.sqrt(part.weight) if isinstance(part, Near) else 1.0
    sums, targets = D @ coef.T / root, targets / root
    strength = "" if theta is None else f", theta {spell_number(theta)}"
    kind = "near" if isinstance(part, Near) else "matrix"
    for line, values, wanted in zip(part.lines(names), sums, targets, strict=True):
        low, high = float(values.min()), float(values.max())
        outcome = _range(low, high)
        if np.ptp(wanted) > 0:
            off = spell_number(float(np.abs(values - wanted).max()), 3)
            outcome = f"off by at most {off}"
        said = f"{line[0]} {line[1]}"
        yield StatementSummary(said, outcome + strength, line[0], kind, low, high)


def _sign(sign: int, name: str, values: Array, cells: str) -> StatementSummary:
    at_bound = int(np.count_nonzero(values == 0))
    ends = float(values.min()), float(values.max())
    outcome = f"at its bound in {at_bound} of {cells}"
    if not at_bound:
        outcome = f"never at its bound, {_range(*ends)}"
    return StatementSummary(
        f"{name} {'≥' if sign > 0 else '≤'} 0", outcome, name, "sign", *ends
    )


def _common(
    positions: Sequence[int], coef: Array, design: Design
) -> Iterator[StatementSummary]:
    """One statement per column: features made of one column are listed together."""
    curved = {j for group in design.wiggles().values() for j in group}
    made = {j: column for column, group in design.derived().items() for j in group}
    columns = dict[str, list[int]]()
    for j in positions:
        columns.setdefault(made.get(j, design[j]), []).append(j)
    for column, group in columns.items():
        said = f"{column}: the same in all tasks"
        if any(j in curved for j in group):
            yield StatementSummary(said, "one curve", column, "common", None, None)
            continue
        ends = float(coef[:, group].min()), float(coef[:, group].max())
        outcome = _range(*ends)
        if len(group) > 1:
            outcome = f"{len(group)} categories, {outcome}"
        yield StatementSummary(said, outcome, column, "common", *ends)


def _smooth(part: Ridge, fitted: Fitted) -> Iterator[StatementSummary]:
    """Columns whose wiggles have a ridge, estimated or given."""
    shrunken = dict(zip(part.positions, part.strengths or (), strict=False))
    coef, names = fitted.shared_coef, fitted.names
    ties = np.zeros(len(names)) if fitted.tie_weights is None else fitted.tie_weights
    same = np.isinf(ties)
    for column, group in part.curves().items():
        wiggles = None
        if not coef[:, group].any():
            outcome = "straight" if column in names else "no effect"
        else:
            spread = np.ptp(coef[:, group], axis=0).max()
            size = np.abs(coef[:, group]).max()
            outcome = "a curve for each task"
            # Share of the largest wiggle by which nearly equal curves may differ.
            if spread <= 0.01 * size:
                outcome = "one curve" if same[group].all() else "nearly one curve"
            strengths = [shrunken.get(j, np.nan) * part.weight for j in group]
            wiggles = _effective_wiggles(fitted, group, np.array(strengths))
        said = f"{column}: smooth"
        yield StatementSummary(said, outcome, column, "smooth", None, None, wiggles)


def _effective_wiggles(fitted: Fitted, group: list[int], ridge: Array) -> float | None:
    """Σ_r h_r / (h_r + s_r): the degrees of freedom of the curve that tasks share.

    s is the ridge on the shared curve, h the information about it where coefficients of
    m tasks with information g vary around it with precision t: h = m g t / (g + t).
    Minimised over the shared curve, the ridge is r = s t / (s + m t) on each task.
    """
    statistics, m = fitted.statistics, fitted.shape[0]
    if statistics is None or fitted.tie_weights is None or np.isnan(ridge).any():
        return None
    variance = pooled_variance(statistics)[group] / fitted.units[group] ** 2
    g = float(statistics.weight.sum()) / m * variance
    ties = fitted.tie_weights[group]
    if not np.isfinite(ties).any():
        h, s = m * g, m * ridge
    else:
        t = ties + ridge
        h = m * g * t / np.maximum(g + t, np.finfo(float).tiny)
        s = np.divide(ridge * m * t, ties, out=np.full(len(t), np.inf), where=ties > 0)
    total = h + s
    return float(np.sum(np.divide(h, total, out=np.zeros(len(h)), where=total > 0)))


def _range(low: float, high: float) -> str:
    ends = dict.fromkeys(spell_number(float(end), 3) for end in (low, high))
    return " to ".join(ends)
