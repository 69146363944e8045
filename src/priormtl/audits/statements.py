"""What a prior says, statement by statement, in words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.priors import name_mean

__all__ = ["Statement", "TiedTasks", "describe_rows", "list_ties"]

MOST_TERMS = 6  # of a combination that are spelled out


class Statement(NamedTuple):
    """One relation in words."""

    relation: str
    first: str | None
    second: str | None
    sign: str
    weight: float


class TiedTasks(NamedTuple):
    """One tie: its contrast over tasks is held near zero with some weight."""

    statement: Statement
    tasks: Index
    contrast: Array  # numbers of the tasks, such as 1 and −1


def describe_rows(D: csr_array, labels: Sequence[str]) -> list[Statement]:
    """One statement per row of D."""
    pairs = zip(D.indptr[:-1], D.indptr[1:], strict=True)
    return [
        _describe(D.indices[start:end], D.data[start:end], labels)
        for start, end in pairs
    ]


def _describe(places: Index, values: Array, labels: Sequence[str]) -> Statement:
    used = values != 0
    places, values = places[used], values[used]
    sizes = np.abs(values)
    if len(places) != 2 or not np.isclose(sizes[0], sizes[1], rtol=1e-12):
        words = _combination(places, values, labels)
        return Statement(words, None, None, "combination", 1.0)
    first, second = (labels[j] for j in places)
    weight = float(np.round(sizes[0] ** 2, 12)) or float(sizes[0] ** 2)
    if values[0] * values[1] < 0:
        return Statement(f"{first} ~ {second}", first, second, "similar", weight)
    return Statement(f"{first} ~ −{second}", first, second, "opposite", weight)


def _combination(places: Index, values: Array, labels: Sequence[str]) -> str:
    """Terms such as ``a + 2 b − c ~ 0``."""
    words = "".join(
        f" {'−' if value < 0 else '+'} {_factor(abs(value))}{labels[j]}"
        for j, value in zip(places[:MOST_TERMS], values[:MOST_TERMS], strict=True)
    )
    more = " + …" if len(places) > MOST_TERMS else ""
    text = words.removeprefix(" + ").strip()
    return f"{text or '0'}{more} ~ 0"


def _factor(size: float) -> str:
    return "" if size == 1 else f"{size:.3g} "


def list_ties(ties: Laplacian, tasks: Sequence[Any]) -> list[TiedTasks]:
    """Edges between tasks, then members of groups against their group's mean."""
    found = [_edge(a, b, weight, tasks) for a, b, weight in ties.pairs()]
    circles = ties.circles()
    for number, (members, weight) in enumerate(circles):
        if len(members) > 1:
            name = name_mean(number, len(circles))
            found += [_member(i, members, weight, name, tasks) for i in members]
    return found


def _edge(a: int, b: int, weight: float, tasks: Sequence[Any]) -> TiedTasks:
    first, second = str(tasks[a]), str(tasks[b])
    words = f"{first} ~ {second}"
    statement = Statement(words, first, second, "similar", weight)
    return TiedTasks(statement, np.array([a, b]), np.array([1.0, -1.0]))


def _member(
    i: int, members: Index, weight: float, name: str, tasks: Sequence[Any]
) -> TiedTasks:
    first = str(tasks[i])
    statement = Statement(f"{first} ~ {name}", first, name, "similar", weight)
    contrast = (members == i).astype(np.float64) - 1.0 / len(members)
    return TiedTasks(statement, members, contrast)
