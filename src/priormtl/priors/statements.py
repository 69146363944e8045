"""Statements about single features: known values, signs, and common effects.

A known value c of feature j is the row √w e_j of D with target √w c in
θ/2 ‖D P − C‖², in the units of X. Signs (p_j ≥ 0 or p_j ≤ 0 in every task) and common
effects (p_j the same in all tasks, the fixed effect of a mixed model) are constraints:
they hold exactly, whatever theta is, and add no rows to D.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.archive import Settings
from priormtl.data import Moments, from_plain, to_plain
from priormtl.design import Design
from priormtl.design.columns import find_name
from priormtl.priors.relations import (
    MOST_TERMS,
    Line,
    Part,
    Tasks,
    feature_name,
    find_features,
    plain_label,
)
from priormtl.rendering import spell_number

ByTask = tuple[tuple[Hashable, float], ...]


@dataclass(frozen=True)
class Near(Part):
    """Coefficients with known values, for all tasks or task by task."""

    kind = "near"
    noun = "known value"
    features: tuple[Hashable, ...]
    values: tuple[float | ByTask, ...]
    weight: float

    @classmethod
    def of(cls, known: Mapping[Hashable, Any], weight: float) -> Self:
        """Values (numbers, or mappings from tasks to numbers) of features."""
        if not isinstance(known, Mapping):
            raise TypeError(
                f"values must map features to numbers: got {type(known).__name__}."
            )
        values = list[float | ByTask]()
        for feature, value in known.items():
            if hasattr(value, "items"):  # a mapping, or a series of pandas
                known_of = [(plain_label(task), one) for task, one in value.items()]
                values.append(tuple((t, _number(one, feature)) for t, one in known_of))
            else:
                values.append(_number(value, feature))
        return cls(tuple(map(plain_label, known)), tuple(values), weight)

    @property
    def count(self) -> int:
        return len(self.features)

    def resolve(self, moments: Moments) -> "Near":
        self.targets(moments.tasks)  # fails where tasks are missing
        return replace(self, features=tuple(find_features(self.features, moments)))

    def matrix(self, d: int) -> csr_array:
        """Rows of D: √weight at each feature."""
        rows, columns = np.arange(self.count), np.array(self.features, dtype=np.intp)
        root = np.full(self.count, np.sqrt(self.weight))
        return csr_array((root, (rows, columns)), shape=(self.count, d))

    def targets(self, tasks: Tasks) -> Array:
        found = np.empty((self.count, len(tasks)))
        for row, value in enumerate(self.values):
            if isinstance(value, tuple):
                known = dict(value)
                for task in tasks:
                    if task not in known:
                        raise ValueError(
                            "near must give a value for every task: that of "
                            f"{self.features[row]!r} in task {task!r} is missing."
                        )
                found[row] = [known[task] for task in tasks]
            else:
                found[row] = value
        return np.asarray(np.sqrt(self.weight) * found)

    def divided(self, classes: Mapping[Hashable, Sequence[str]]) -> Self:
        """The same for tasks that were divided, each into its classes."""
        values = [
            tuple((name, one) for task, one in value for name in classes.get(task, ()))
            if isinstance(value, tuple)
            else value
            for value in self.values
        ]
        return replace(self, values=tuple(values))

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        for feature, value in zip(self.features, self.values, strict=True):
            words = ""
            if isinstance(value, tuple):
                some = [f"{spell_number(v)} ({t})" for t, v in value[:MOST_TERMS]]
                words = ", ".join([*some, *(["…"] if value[MOST_TERMS:] else [])])
            else:
                words = spell_number(value)
            weight = spell_number(self.weight)
            yield feature_name(feature, names), f"near {words}", weight

    def to_plain(self) -> Settings:
        values = [
            {"tasks": to_plain([t for t, _ in v]), "values": [c for _, c in v]}
            if isinstance(v, tuple)
            else v
            for v in self.values
        ]
        return super().to_plain() | {"values": values}

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        values = tuple(
            tuple(zip(from_plain(v["tasks"]), v["values"], strict=True))
            if isinstance(v, dict)
            else v
            for v in plain["values"]
        )
        return cls(tuple(plain["features"]), values, plain["weight"])


@dataclass(frozen=True)
class Constraint(Part):
    """What holds exactly, and is no row of D."""

    features: tuple[Hashable, ...]

    @property
    def count(self) -> int:
        return len(self.features)

    @property
    def n_rows(self) -> int:
        return 0

    @property
    def positions(self) -> Index:
        """Positions of the features, of a resolved part."""
        return np.array(self.features, dtype=np.intp)

    def matrix(self, d: int) -> csr_array:
        return csr_array((0, d))


@dataclass(frozen=True)
class Signs(Constraint):
    """Coefficients that are at least zero (sign 1) or at most zero (−1)."""

    kind = "signs"
    noun = "sign"
    sign: int

    def resolve(self, moments: Moments) -> "Signs":
        return replace(self, features=tuple(find_features(self.features, moments)))

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        words = "at least 0" if self.sign > 0 else "at most 0"
        for feature in self.features:
            yield feature_name(feature, names), words, spell_number(None)


@dataclass(frozen=True)
class Common(Constraint):
    """Coefficients that are the same in all tasks."""

    kind = "common"
    noun = "common effect"

    def resolve(self, moments: Moments) -> "Common":
        """Positions of features, and of the wiggles and categories of columns."""
        design, found = moments.features or Design(()), set[int]()
        derived = design.derived()
        for feature in self.features:
            column = feature
            if isinstance(feature, int) and 0 <= feature < len(design):
                column = design[feature]
            made = derived.get(find_name(column, derived), [])
            found.update(made)
            # A column of categories is itself no feature.
            if not made or design.find(column) is not None:
                found.update(find_features([feature], moments))
        return Common(tuple(sorted(found)))

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        for feature in self.features:
            same = "the same in all tasks"
            yield feature_name(feature, names), same, spell_number(None)


def list_features(features: object) -> tuple[Hashable, ...]:
    """Names or positions that a user lists."""
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        raise TypeError(
            f"features must be a list of names or positions: got {features!r}."
        )
    return tuple(map(plain_label, features))


def check_consistency(parts: Sequence[Part], moments: Moments) -> None:
    """Fail where resolved parts contradict each other in a sign."""
    signs, names = dict[int, int](), moments.features
    for part in parts:
        if isinstance(part, Signs):
            for j in part.positions.tolist():
                if signs.setdefault(j, part.sign) != part.sign:
                    raise ValueError(
                        f"feature_prior must not state that {feature_name(j, names)!r} "
                        "is both nonnegative and nonpositive."
                    )
    for part in parts:
        if not isinstance(part, Near):
            continue
        values = part.targets(moments.tasks) / np.sqrt(part.weight)
        for j, row in zip(part.features, values, strict=True):
            assert isinstance(j, int)
            sign = signs.get(j, 0)
            wrong = row[sign * row < 0]
            if len(wrong):
                word = "nonnegative" if sign > 0 else "nonpositive"
                raise ValueError(
                    f"feature_prior must not state that {feature_name(j, names)!r} is "
                    f"near {wrong[0]:g} and {word}."
                )


def _number(value: Any, feature: Hashable) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not np.isfinite(value):
        raise ValueError(
            "near must give a finite number, or one for each task: got "
            f"{value!r} for {feature!r}."
        )
    return float(value)
