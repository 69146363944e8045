"""Columns in, features out: rows that count, and a matrix in which no gap is left."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.engines.columns import Values
from priormtl.engines.layout import Column, Layout, refuse_many
from priormtl.engines.recipe import Recipe

__all__ = ["Slots", "arrange_features", "fill_slots", "find_usable"]


class Slots(NamedTuple):
    """Features of some rows, and marks of their gaps."""

    X: Array  # (n, slots)
    centre: Array  # of each slot: what fills its gaps
    observed: Array  # of each column: weight of the rows that have its value


def find_usable(
    recipe: Recipe,
    special: Iterable[tuple[str | None, Values | None]],
    features: Mapping[str, Values],
    n: int,
) -> NDArray[np.bool_]:
    """Which of n rows lack nothing that they need.

    ``special`` are the columns of tasks, targets and weights, which nothing can fill.
    """
    needed = [*special]
    if recipe.missing != "mean":
        needed += features.items()
    usable = np.ones(n, dtype=bool)
    for name, values in needed:
        if values is not None and values.missing:
            _refuse_gaps(recipe, name, values.missing, n)
            usable &= ~values.gaps  # type: ignore[operator]
    return usable


def _refuse_gaps(recipe: Recipe, name: str | None, count: int, n: int) -> None:
    if recipe.missing == "error":
        raise ValueError(
            f"column {name!r} lacks {count} of {n} values: fill them, or set missing "
            "to 'drop' to leave such rows out, to 'mean' to fill features with their "
            "means."
        )


def arrange_features(
    recipe: Recipe, columns: Mapping[str, Values], order: Index
) -> tuple[tuple[Values, ...], Layout]:
    """Values of rows in this order, and the features that they become."""
    features = {name: _take(values, order) for name, values in columns.items()}
    layout = Layout(tuple(_describe(*item, recipe) for item in features.items()))
    return tuple(features.values()), layout


def fill_slots(layout: Layout, features: Sequence[Values], weight: Array) -> Slots:
    """Features of rows, whose weights are known."""
    starts = layout.starts()
    X = np.zeros((len(weight), starts[-1]), order="F")
    centre, observed = np.zeros(starts[-1]), np.full(len(features), weight.sum())
    for number, values in enumerate(features):
        column, start = layout.columns[number], starts[number]
        block = X[:, start : starts[number + 1]]
        _write(block, column, values)
        if values.gaps is not None:
            observed[number] = weight[~values.gaps].sum()
            place = slice(start, start + column.width)
            centre[place] = _fill_gaps(block, values.gaps, weight)
    return Slots(X, centre, observed)


def _take(column: Values, order: Index) -> Values:
    """Values of some rows, in this order."""
    gaps = None if column.gaps is None else column.gaps[order]
    if gaps is not None and not gaps.any():
        gaps = None
    # Places are right; looking for wrong ones takes as long as the copy.
    values = column.values.take(order, mode="clip")
    return Values(values, gaps, column.labels)


def _describe(name: str, column: Values, recipe: Recipe) -> Column:
    """The column as features; of text those values that were seen, or declared."""
    gaps = column.gaps is not None
    if column.labels is None:
        return Column(name, None, gaps)
    declared = (recipe.categories or {}).get(name)
    if declared is not None:
        return Column(name, tuple(declared), gaps)
    codes = column.values if column.gaps is None else column.values[~column.gaps]
    seen = tuple(sorted(column.labels[i] for i in np.unique(codes)))
    refuse_many(name, seen)
    return Column(name, seen, gaps)


def _write(block: Array, column: Column, values: Values) -> None:
    """Numbers as they are, or ones in the slots of texts."""
    if column.values is None or values.labels is None:
        block[:, 0] = values.values
        return
    position = {value: i for i, value in enumerate(column.values)}
    place = np.array([position.get(label, -1) for label in values.labels] or [-1])
    slots = place[values.values]
    rows = np.arange(len(block))
    if values.gaps is not None:
        rows, slots = rows[~values.gaps], slots[~values.gaps]
    block[rows, slots] = 1.0


def _fill_gaps(block: Array, gaps: NDArray[np.bool_], weight: Array) -> Array:
    """Fill gaps with the mean of the other rows, and mark them in the last slot."""
    features, seen = block[:, :-1], weight[~gaps]
    total = seen.sum()
    centre = seen @ features[~gaps] / total if total > 0 else np.zeros(len(features.T))
    features[gaps] = centre
    block[:, -1] = gaps
    return np.asarray(centre)
