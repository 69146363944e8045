"""Priors in words: one line per relation or tie, for tables and summaries."""

from collections.abc import Hashable, Iterator, Sequence
from functools import singledispatch
from itertools import chain, islice
from typing import Any

from priormtl.data import unnamed_feature
from priormtl.priors.relations import Correlated, Grid, Pairs, Part, Rows
from priormtl.priors.ties import Chain, Graph, Groups, Tie
from priormtl.tables import Table, TableRow, TextCell, count_words, spell_number

__all__ = ["name_mean", "relation_table", "tie_table", "tie_words"]

MOST_SHOWN = 20
MOST_TERMS = 4

Line = tuple[str, str, str]  # what is related, how, how strongly


def relation_table(
    title: str, parts: Sequence[Part], names: Sequence[str] | None = None
) -> Table:
    """Relations between features, cut; ``names`` stand for positions."""
    lines = chain.from_iterable(relation_lines(part, names) for part in parts)
    total = sum(_count_lines(part) for part in parts)
    return _table(title, ("features", "relation", "weight"), lines, total, "relations")


def tie_table(title: str, ties: Sequence[Tie]) -> Table:
    """Ties between tasks, cut."""
    lines = chain.from_iterable(_tie_lines(tie) for tie in ties)
    total = sum(max(1, len(_circles(tie))) for tie in ties)
    return _table(title, ("tasks", "relation", "weight"), lines, total, "ties")


def _table(
    title: str, heads: tuple[str, ...], lines: Iterator[Line], total: int, what: str
) -> Table:
    # Never all lines: a prior may hold millions.
    rows = [
        TableRow(label, tuple(map(TextCell, cells)))
        for label, *cells in islice(lines, MOST_SHOWN)
    ]
    more = total - len(rows)
    notes = (f"… and {more} more {what}.",) if more > 0 else ()
    return Table(title, heads, tuple(rows), "llr", notes)


@singledispatch
def relation_lines(part: Any, names: Sequence[str] | None) -> Iterator[Line]:
    """Lines of one part of a feature prior."""
    raise TypeError(f"unknown part of a feature prior: {type(part).__name__}")


@relation_lines.register
def _(part: Pairs, names: Sequence[str] | None) -> Iterator[Line]:
    for a, b, sign, weight in zip(
        part.first, part.second, part.sign, part.weight, strict=True
    ):
        relation = "similar" if sign > 0 else "opposite"
        pair = f"{_name(a, names)}, {_name(b, names)}"
        yield pair, relation, spell_number(weight)


@relation_lines.register
def _(part: Rows, names: Sequence[str] | None) -> Iterator[Line]:
    D, names = part.D, part.features or names
    for start, end in zip(D.indptr[:-1], D.indptr[1:], strict=True):
        terms = [
            f"{spell_number(float(value))} · {_name(int(j), names)}"
            for value, j in islice(
                zip(D.data[start:end], D.indices[start:end], strict=True), MOST_TERMS
            )
        ]
        more = ["…"] if end - start > MOST_TERMS else []
        yield " + ".join(terms + more) or "nothing", "near zero", spell_number(1.0)


@relation_lines.register
def _(part: Grid, names: Sequence[str] | None) -> Iterator[Line]:
    place = f"neighbours in a {part.height} × {part.width} grid"
    yield place, "similar", spell_number(part.weight)


@relation_lines.register
def _(part: Correlated, names: Sequence[str] | None) -> Iterator[Line]:
    pairs = f"{part.strongest} most correlated pairs"
    yield pairs, "as the correlation's sign", spell_number(part.weight)


def _count_lines(part: Part) -> int:
    if isinstance(part, Pairs):
        return len(part.first)
    return int(part.D.shape[0]) if isinstance(part, Rows) else 1


def _name(feature: Hashable, names: Sequence[str] | None) -> str:
    if isinstance(feature, int):
        return unnamed_feature(feature) if names is None else names[feature]
    return str(feature)


def name_mean(number: int, n_groups: int) -> str:
    """What the tasks of a group are tied to."""
    return f"mean of group {number + 1}" if n_groups > 1 else "mean of all tasks"


@singledispatch
def tie_words(tie: Any) -> str:
    """A tie in few words."""
    raise TypeError(f"unknown tie: {type(tie).__name__}")


@tie_words.register
def _(tie: Chain) -> str:
    return "chain" if tie.order is None else f"chain of {len(tie.order)} tasks"


@tie_words.register
def _(tie: Groups) -> str:
    return "mean" if tie.members is None else count_words(len(tie.members), "group")


@tie_words.register
def _(tie: Graph) -> str:
    return count_words(len(tie.first), "edge")


def _circles(tie: Tie) -> Sequence[tuple[Hashable, ...]]:
    """Tasks that are tied to each other, by name or position."""
    if isinstance(tie, Graph) and tie.by_position is not None:
        ends = zip(tie.first, tie.second, strict=True)
        return [(f"task {a}", f"task {b}") for a, b in ends]
    return tie.circles()


def _tie_lines(tie: Any) -> Iterator[Line]:
    circles = _circles(tie)
    if not circles:
        yield _everyone(tie)
    kind = "like their mean" if isinstance(tie, Groups) else "alike"
    for k, circle in enumerate(circles):
        weight = tie.weight[k] if isinstance(tie, Graph) else tie.weight
        shown = [str(task) for task in circle[:MOST_TERMS]]
        more = [f"… ({len(circle)} in all)"] if len(circle) > MOST_TERMS else []
        yield ", ".join(shown + more), kind, spell_number(weight)


def _everyone(tie: Any) -> Line:
    """A tie that names no task."""
    if isinstance(tie, Chain) and tie.order is None:
        return "each task and the next", "alike", spell_number(tie.weight)
    if isinstance(tie, Groups) and tie.members is None:
        return "all tasks", "like their mean", spell_number(tie.weight)
    return "none", "free", spell_number(None)
