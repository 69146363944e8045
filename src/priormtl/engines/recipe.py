"""Recipe: which columns of a table mean what; plain, so that it can travel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

from priormtl.data import POLICIES
from priormtl.exceptions import unknown_name

__all__ = ["Recipe", "Wanted"]


class Wanted(NamedTuple):
    """What is read of each file of a source."""

    columns: tuple[str, ...]
    exact: Collection[str] = ()  # of these, a CSV file's whole numbers stay whole
    alone: bool = False  # whether files must have no other columns than the first


@dataclass(frozen=True)
class Recipe:
    """How rows of a table become samples.

    Parameters
    ----------
    task, target, weight : str
        Columns of task labels, targets and (optionally) weights.
    features : sequence of str, optional
        Columns of features; all others (but ``key``) where absent.
    categories : mapping, optional
        Values of some columns, which become one feature each. Other columns of text
        have the values that were seen.
    missing : {"error", "drop", "mean"}
        What a missing value means: an error; a row that is dropped; or the mean of all
        observed values of its column. With "mean", rows without task, target or weight
        are dropped.
    folds : int, optional
        Number of parts of the rows, to be held out in turn.
    key : str, optional
        Column whose values decide the part; else all columns that are used.
    seed : int
        Other seeds deal the rows in other ways.

    Examples
    --------
    >>> recipe = Recipe("school", "score", missing="drop")
    >>> Recipe.from_plain(recipe.to_plain()) == recipe
    True
    >>> recipe.feature_columns(["score", "age", "school", "books"])
    ('age', 'books')
    """

    task: str
    target: str
    weight: str | None = None
    features: Sequence[str] | None = None
    categories: Mapping[str, Sequence[str]] | None = field(default=None, hash=False)
    missing: str = "error"
    folds: int | None = None
    key: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        # Of one form, so that equal recipes are equal.
        object.__setattr__(self, "features", _as_names("features", self.features))
        declared = {
            name: tuple(sorted(set(map(str, values))))
            for name, values in (self.categories or {}).items()
        }
        object.__setattr__(self, "categories", declared)
        self._check()

    def _check(self) -> None:
        if self.missing not in POLICIES:
            raise unknown_name("policy for missing values", self.missing, POLICIES)
        if self.folds is not None and not _is_count(self.folds):
            raise ValueError(f"folds must be a number from 2 on: got {self.folds!r}.")
        roles = [self.task, self.target, self.weight, *(self.features or ())]
        names = [name for name in roles if name is not None]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    "task, target, weight and features must be different columns: "
                    f"{name!r} comes twice."
                )
        if self.key == self.task:
            raise ValueError(
                f"key must be another column than task {self.task!r}: rows of a task "
                "must come into several folds."
            )

    @property
    def special(self) -> tuple[str, str, str | None]:
        """Columns of tasks, targets and weights."""
        return self.task, self.target, self.weight

    def feature_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Columns of features in a table with these columns."""
        taken = {self.task, self.target, self.weight, self.key}
        found = self.features
        if found is None:
            found = tuple(name for name in names if name not in taken)
        if not found:
            raise ValueError(
                "a table needs features beside its task and target: got none."
            )
        for name in (*found, *(self.categories or {})):
            _refuse_unknown(name, names)
        return tuple(found)

    def used_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """All columns that are read, each once."""
        special = (self.task, self.target, self.weight, self.key)
        wanted = [name for name in special if name is not None]
        for name in wanted:
            _refuse_unknown(name, names)
        return tuple(dict.fromkeys([*wanted, *self.feature_columns(names)]))

    def wanted(self, names: Sequence[str]) -> Wanted:
        """What is read of files with these columns."""
        exact = {self.task, self.key, *(self.categories or {})} - {None}
        columns = self.used_columns(names)
        return Wanted(columns, frozenset(map(str, exact)), self.features is None)

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Build it from what ``to_plain`` made, also after JSON."""
        return cls(**values)


def _as_names(role: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise ValueError(f"{role} must be a list of columns: got the text {names!r}.")
    return None if names is None else tuple(names)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 2


def _refuse_unknown(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise unknown_name("column", name, names)
