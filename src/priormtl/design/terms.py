"""Design: which columns of a table become which features, as a value.

A ``Term`` is what one column became, or a part of it: a straight ``Line``, a smooth
``Curve``, its ``Categories``, a ``Gap`` that says where values are missing, or the
``Levels`` of a crossed factor, which have effects but are no features. A ``Design`` is
a sequence of terms. It is learned once, from a frame (``learn_plain``, and
``learn_table`` in ``learning``) or from what files show (``engines.schema``), and
encodes every table from then on. Models ask its terms what their features are; names of
features, such as ``age~1`` and ``colour=red``, are only shown to users.
"""

import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index, Matrix
from priormtl.archive import Settings
from priormtl.design.columns import (
    DATE_KINDS,
    DAY,
    NUMBERS,
    SOURCE,
    TEXTS,
    WEEKDAYS,
    Cells,
    code_texts,
    count_texts,
    find_name,
    parse_months,
    quote_name,
    read_calendar,
    read_cells,
    refuse_strays,
    show_name,
)
from priormtl.design.crossed import Crossed
from priormtl.design.frames import Frame, as_frame, build_frame, find_frame_library
from priormtl.design.splines import Curves, Expansion
from priormtl.exceptions import absent_name, unknown_name

POLICIES = ("error", "drop", "mean")  # for missing values, from strict to mild
# Names that SplineFeatures gives to the wiggles of a column.
WIGGLE = re.compile(rf"({SOURCE})~([1-9]\d*)", re.DOTALL)


# Terms.


@dataclass(frozen=True)
class Term(ABC):
    """Features that were made of one column."""

    source: str  # column of the table
    name: str  # of the column among the features: in backticks, if it is ambiguous
    kind: ClassVar[str]  # in files
    reads: ClassVar[str | None] = None  # kind of cells; None: any

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of its features."""

    @abstractmethod
    def encode(self, cells: Cells) -> Array:
        """Features (n, k) of the cells of its column; NaN where they are missing."""

    def expansion(self) -> Expansion | None:
        """How values become features, for plots; None if another term says it."""
        return None

    def with_fill(self, means: Array) -> Self:
        """Same term, which fills gaps with the means of its features."""
        return self

    def to_plain(self) -> Settings:
        """JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Squash:
    """asinh about the median: about linear near it, logarithmic in the tails."""

    middle: float
    spread: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.middle) and 0 < self.spread < np.inf):
            raise ValueError("wrong sizes of a column")

    def __call__(self, x: Array) -> Array:
        return np.arcsinh((x - self.middle) / self.spread)


@dataclass(frozen=True)
class Line(Term):
    """A number as it is, or squashed."""

    kind = "line"
    holds: str = NUMBERS  # or days of dates, durations and times
    fill: float | None = None  # in place of missing values
    squash: Squash | None = None
    ticks: tuple[float, ...] = field(default=(), compare=False)  # deciles
    unit: str = ""  # of texts such as "12 kg"

    @property
    def reads(self) -> str:  # type: ignore[override]
        return self.holds

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, cells: Cells) -> Array:
        if cells.unit not in ("", self.unit):
            raise ValueError(
                f"X column {self.source!r} must hold numbers in "
                f"{self.unit or 'no unit'}, as in fit: got {cells.unit!r}."
            )
        x = _filled(cells.values, self.fill)
        return (x if self.squash is None else self.squash(x))[:, np.newaxis]

    def with_fill(self, means: Array) -> Self:
        return replace(self, fill=float(means[0]))

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        return cls(**_read_numbers(plain))


def _read_numbers(plain: Settings) -> Settings:
    """Settings of a line or curve."""
    squash, ticks = plain["squash"], tuple(map(float, plain["ticks"]))
    found = None if squash is None else Squash(**squash)
    return plain | {"squash": found, "ticks": ticks}


@dataclass(frozen=True)
class Curve(Term):
    """Wiggles of a number about its straight line, or a periodic curve without one."""

    kind = "curve"
    holds: str
    fill: float
    squash: Squash | None  # of the number before it is bent
    curves: Curves = field(compare=False)
    part: str = ""  # of the calendar: the column holds dates
    ticks: tuple[float, ...] = field(default=(), compare=False)

    @property
    def reads(self) -> str:  # type: ignore[override]
        return self.holds

    @property
    def is_periodic(self) -> bool:
        """Whether there is no straight line beside it."""
        return self.curves.knots is None

    @property
    def names(self) -> tuple[str, ...]:
        count = self.curves.rotation.shape[1]
        return tuple(f"{self.name}~{number}" for number in range(1, count + 1))

    def encode(self, cells: Cells) -> Array:
        return self.bend(read_calendar(self.part, cells.values))

    def bend(self, x: Array) -> Array:
        """Wiggles (n, k) of numbers, or of parts of dates."""
        x = _filled(x, self.fill)
        return self.curves(x if self.squash is None else self.squash(x))

    def to_plain(self) -> Settings:
        plain = super().to_plain()
        low, width, knots, rotation = self.curves
        known = None if knots is None else knots.tolist()
        return plain | {"curves": [low, width, known, rotation.tolist()]}

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        curves = Curves.of(*plain["curves"])
        return cls(**_read_numbers(plain) | {"curves": curves})


@dataclass(frozen=True)
class Categories(Term):
    """One 0/1 feature per category; of two, the second one may say it all.

    Rows whose category is new have ``new`` in its place.
    """

    kind = "category"
    reads = TEXTS
    values: tuple[str, ...]
    is_binary: bool = False  # whether only the second of two is a feature
    fill: tuple[float, ...] | None = None  # features of missing values
    new: tuple[float, ...] | None = None  # of new ones; None: all zero

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={v}" for v in self.values[self.is_binary :])

    def encode(self, cells: Cells) -> Array:
        k = len(self.values)
        positions = dict(zip(self.values, range(k), strict=True))
        codes = [positions.get(text, k) for text in cells.texts]
        if k in codes:
            value = cells.texts[codes.index(k)]
            warnings.warn(
                f"Unknown category {value[:40]!r} in column {self.source!r}; all its "
                "indicators are 0.",
                UserWarning,
                stacklevel=2,
            )
        # Rows of a table: categories, then new ones, then missing ones.
        gaps = np.full(k - self.is_binary, np.nan) if self.fill is None else self.fill
        other = np.zeros(k - self.is_binary) if self.new is None else self.new
        table = np.vstack([np.eye(k)[:, self.is_binary :], other, gaps])
        return table[np.array([*codes, k + 1])[cells.values]]

    def expansion(self) -> Expansion:
        return Expansion(
            lambda texts: _named(self, self.encode(code_texts(texts))), self.values
        )

    def with_fill(self, means: Array) -> Self:
        return replace(self, fill=tuple(means.tolist()))

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        lists: Settings = {}
        for name in ("values", "fill", "new"):
            known = plain.pop(name)
            lists[name] = None if known is None else tuple(known)
        if not all(isinstance(value, str) for value in lists["values"]):
            raise TypeError("not categories")
        return cls(**plain, **lists)


@dataclass(frozen=True)
class Gap(Term):
    """Indicator of missing values."""

    kind = "gap"
    alone: bool = False  # whether the column has no other features
    marks: tuple[str, ...] = ()  # texts among numbers that stand for missing values

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.name} missing",)

    def encode(self, cells: Cells) -> Array:
        return cells.gaps.astype(np.float64)[:, np.newaxis]

    def expansion(self) -> Expansion | None:
        if not self.alone:
            return None
        (name,) = self.names
        return Expansion(
            lambda words: {name: np.array(words) == "missing"}, ("known", "missing")
        )

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        return cls(**{**plain, "marks": tuple(map(str, plain.get("marks", ())))})


@dataclass(frozen=True)
class Levels(Term):
    """A crossed factor: levels that have effects of their own, and no features."""

    kind = "level"
    holds: str
    values: tuple[str, ...] | tuple[float, ...]  # in ascending order
    # Whether it repeats a number or date that is a line already, for folds to decide.
    is_extra: bool = False

    @property
    def reads(self) -> str:  # type: ignore[override]
        return self.holds

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    def encode(self, cells: Cells) -> Array:
        return np.zeros((len(cells.values), 0))

    def code(self, cells: Cells) -> Index:
        """Level of each row (n,); −1 where it is missing, or was not seen."""
        if self.holds == TEXTS:
            place = {text: code for code, text in enumerate(self.values)}
            codes = np.array([*(place.get(text, -1) for text in cells.texts), -1])
            return codes[cells.values].astype(np.intp)
        known = np.array(self.values)
        places = np.minimum(np.searchsorted(known, cells.values), len(known) - 1)
        return np.where(known[places] == cells.values, places, -1).astype(np.intp)

    @property
    def labels(self) -> list[Hashable]:
        """Levels as users know them: text, numbers, or dates."""
        if self.holds in DATE_KINDS:
            seconds = np.round(np.array(self.values) * DAY).astype("datetime64[s]")
            shown = np.datetime_as_string(seconds).tolist()
            midnight = "T00:00:00"
            if all(text.endswith(midnight) for text in shown):
                return [text.removesuffix(midnight) for text in shown]
            return shown
        return [
            int(v) if isinstance(v, float) and v.is_integer() else v
            for v in self.values
        ]

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        values = tuple(plain.pop("values"))
        kind = str if plain["holds"] == TEXTS else float
        if not values or not all(isinstance(value, kind) for value in values):
            raise TypeError("not levels")
        return cls(**plain, values=values)


KINDS: dict[str, Any] = {
    one.kind: one for one in (Line, Curve, Categories, Gap, Levels)
}


def _filled(x: Array, fill: float | None) -> Array:
    return x if fill is None else np.where(np.isnan(x), fill, x)


def _named(term: Term, block: Array) -> dict[str, Array]:
    return dict(zip(term.names, block.T, strict=True))


# Design.


@dataclass(frozen=True)
class Design(Sequence[str]):
    """Terms in the order of their features; as a sequence, the names of the features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> terms = Line("size", "size"), Categories("colour", "colour", ("blue", "red"))
    >>> design = Design(terms)
    >>> list(design)
    ['size', 'colour=blue', 'colour=red']
    >>> design.encode(pa.table({"colour": ["red", "blue"], "size": [1.5, 2.5]}))
    array([[1.5, 0. , 1. ],
           [2.5, 1. , 0. ]])
    """

    terms: tuple[Term, ...]
    missing: str = "error"  # what was done with gaps, where terms do not fill them
    task: str | None = None  # columns of the task labels and of the targets
    target: str | None = None
    # Columns that are no features, with the reason in words.
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    time: str | None = None  # column that orders the rows of each task

    @classmethod
    def of_names(cls, names: Sequence[str]) -> "Design":
        """Numbers as they are."""
        if isinstance(names, Design):
            return names
        return cls(tuple(Line(str(name), str(name)) for name in names))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all features."""
        return tuple(name for term in self.terms for name in term.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: Any) -> Any:
        return self.names[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @cached_property
    def columns(self) -> tuple[tuple[Term, slice], ...]:
        """Terms, with the places of their features."""
        columns, end = list[tuple[Term, slice]](), 0
        for term in self.terms:
            start, end = end, end + len(term.names)
            columns.append((term, slice(start, end)))
        return tuple(columns)

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table that are used."""
        return tuple(dict.fromkeys(term.source for term in self.terms))

    @property
    def text_sources(self) -> tuple[str, ...]:
        """Columns that are read as text."""
        return tuple(t.source for t in self.terms if t.reads == TEXTS)

    @cached_property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Texts that stand for missing values in columns of numbers."""
        gaps = [term for term in self.terms if isinstance(term, Gap)]
        return {term.source: term.marks for term in gaps if term.marks}

    def kind_of(self, column: object) -> str | None:
        """What a column held in training, where its terms know."""
        return next((t.reads for t in self.terms if t.source == column), None)

    @property
    def is_numeric(self) -> bool:
        """Whether all features are numbers of the table as they are."""
        return all(isinstance(t, Line) and t.squash is None for t in self.terms)

    @property
    def is_plain(self) -> bool:
        """Whether it only knows the names of numbers, not of a whole table."""
        known = self.task is not None or self.time is not None
        return self.is_numeric and not known and self.missing == "error"

    @property
    def crossed(self) -> tuple[Levels, ...]:
        """Crossed factors."""
        return tuple(term for term in self.terms if isinstance(term, Levels))

    def with_crossed(self, names: Sequence[str]) -> "Design":
        """Same design with only these crossed factors."""
        kept = [t for t in self.terms if not isinstance(t, Levels) or t.source in names]
        return replace(self, terms=tuple(kept))

    # What features are.

    def wiggles(self) -> dict[str, list[int]]:
        """Places of the wiggles of each column, in order.

        In tables that SplineFeatures made, these are columns with names such as age~1.
        """
        curves = {
            term.name: list(range(places.start, places.stop))
            for term, places in self.columns
            if isinstance(term, Curve)
        }
        if curves:
            return curves
        named: dict[str, list[int]] = {}
        for term, places in self.columns:
            match = WIGGLE.fullmatch(term.name)
            if match is not None and isinstance(term, Line):
                named.setdefault(match[1], []).append(places.start)
        # A column that has wiggles itself is none.
        groups = {
            c: [j for j in group if self.names[j] not in named]
            for c, group in named.items()
        }
        return {column: group for column, group in groups.items() if group}

    def categories(self) -> dict[str, list[int]]:
        """Places of the categories of each column."""
        return {
            term.name: list(range(places.start, places.stop))
            for term, places in self.columns
            if isinstance(term, Categories)
        }

    def derived(self) -> dict[str, list[int]]:
        """Places of the wiggles and categories of each column."""
        return self.wiggles() | self.categories()

    def trend(self) -> tuple[list[int], list[int]]:
        """Places of the lines of time, and of its wiggles; none without time."""
        lines, wiggles = list[int](), list[int]()
        for term, places in self.columns:
            own = range(places.start, places.stop) if term.source == self.time else ()
            if isinstance(term, Line):
                lines += own
            elif isinstance(term, Curve) and not term.is_periodic:
                wiggles += own
        return lines, wiggles

    def tree_features(self) -> list[int]:
        """Places of features from which trees learn.

        These are all but the wiggles of lines.
        """
        kept = list[int]()
        for term, places in self.columns:
            if not isinstance(term, Curve):
                kept += range(places.start, places.stop)
            elif term.is_periodic:
                # Where in its period a value lies is known from the first two wiggles.
                kept += range(places.start, min(places.start + 2, places.stop))
        return kept

    def tree_levels(self) -> list[int]:
        """Number of levels of each crossed factor that trees see; else zero.

        Of more levels trees would take minutes: the linear part has their effects.
        """
        most = 50
        sizes = [0 if term.is_extra else len(term.values) for term in self.crossed]
        return [size if size <= most else 0 for size in sizes]

    def find(self, name: object) -> int | None:
        """Place of a feature, whose name may be in backticks; None if there is none."""
        places = self._places
        return places.get(name, places.get(find_name(name, places)))

    @cached_property
    def _places(self) -> dict[object, int]:
        return {name: place for place, name in enumerate(self.names)}

    def expansion_of(self, column: Any) -> Expansion:
        """How values of a column, or of a part of dates, become features."""
        groups: dict[str, list[Term]] = {}
        for term in self.terms:
            groups.setdefault(term.name, []).append(term)
        spelled = dict[str, str]()
        for name, (first, *_) in groups.items():
            part = first.part if isinstance(first, Curve) else ""
            spelled[f"{first.source} {part}".strip()] = name
        name = spelled.get(column, column)
        if name not in groups:
            raise unknown_name("column", column, list(spelled))
        terms = [term for term in groups[name] if isinstance(term, Line | Curve)]
        if not terms:
            return next(e for t in groups[name] if (e := t.expansion()) is not None)
        return _expand_number(terms)

    def straighten(self) -> "Design":
        """Same design without curves beside straight lines, and without calendars."""
        curves = [t for t in self.terms if isinstance(t, Curve)]
        gone = [t for t in curves if t.part or not t.is_periodic]
        return replace(self, terms=tuple(t for t in self.terms if t not in gone))

    # Encoding of tables.

    def used_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Columns to read from a table with these columns, raw or already encoded."""
        known, used = set(names), dict[str, None]()
        for term in self.terms:
            if term.source in known:
                used[term.source] = None
            elif isinstance(term, Categories) and known.issuperset(term.names):
                used.update(dict.fromkeys(term.names))
            else:
                raise absent_name("a table lacks the column", term.source, names)
        return tuple(used)

    def encode(
        self, table: object, cells: Mapping[str, Cells] = MappingProxyType({})
    ) -> Array:
        """Features (n, d) of a data frame, whose other columns are ignored.

        ``cells`` are those of columns that were read before.
        """
        frame = as_frame(table)
        if frame is None:
            raise TypeError(
                f"a table must be a data frame: got {type(table).__name__}."
            )
        used = set(self.used_columns(list(frame.columns)))
        read, X = dict(cells), np.empty((len(frame), len(self)))
        for term, places in self.columns:
            if isinstance(term, Levels):  # see ``read_levels``
                continue
            if term.source in used:
                if term.source not in read:
                    read[term.source] = self._read(frame, term)
                block = term.encode(read[term.source])
            else:  # its features are columns already
                made = (read_cells(frame.get_column(n), NUMBERS) for n in term.names)
                block = np.column_stack([column.values for column in made])
            gaps = np.any(np.isnan(block), axis=1)
            if gaps.any():
                raise ValueError(
                    f"column {term.source!r} lacks {gaps.sum()} of {len(gaps)} values: "
                    "fill them, drop these rows, learn the model with missing='mean', "
                    "or use tabular_model."
                )
            X[:, places] = block
        return X

    def _read(self, frame: Frame, term: Term) -> Cells:
        marks = self.marks.get(term.source, ())
        return read_cells(frame.get_column(term.source), term.reads, marks)

    def warn_outside(self, X: Matrix) -> None:
        """Warn, once, if numbers are outside of their range in training.

        ``X`` (n, d) are encoded rows. Most of them must be outside, as later ones are,
        or some of them by far. How time goes on is told by forward folds.
        """
        little, far = 0.05, 1.0  # shares of the range
        for term, places in self.columns:
            if not isinstance(term, Line) or not term.ticks or term.source == self.time:
                continue
            ends = np.array([term.ticks[0], term.ticks[-1]])
            low, high = ends if term.squash is None else term.squash(ends)
            x = X[:, places.start]
            beyond = np.maximum(low - x, x - high) / (high - low)
            outside = int(np.count_nonzero(beyond > little))
            if 2 * outside > len(x) or np.any(beyond > far):
                words = (
                    f"{outside:,} of {len(x):,} rows have {term.source!r} outside of "
                    "its range in training: their predictions extrapolate."
                )
                if self.time is None and term.holds in DATE_KINDS:
                    words += " To predict later rows, give the column as time."
                warnings.warn(words, UserWarning, stacklevel=4)
                return

    def read_levels(
        self, table: object, cells: Mapping[str, Cells] = MappingProxyType({})
    ) -> Crossed | None:
        """Levels of crossed factors of the rows of a data frame; None without any."""
        factors, codes = self.crossed, list[Index]()
        if not factors:
            return None
        frame = as_frame(table)
        if frame is None:
            raise TypeError(
                "X must be a data frame with the columns of crossed factors: got "
                f"{type(table).__name__}."
            )
        for term in factors:
            column = cells.get(term.source)
            if column is None:
                if term.source not in frame.columns:
                    raise absent_name("X lacks the column", term.source, frame.columns)
                column = self._read(frame, term)
            codes.append(term.code(column))
        sizes = tuple(len(term.values) for term in factors)
        names = tuple(term.source for term in factors)
        return Crossed(names, sizes, np.column_stack(codes))

    def gaps(self, table: Any) -> NDArray[np.bool_]:
        """Whether each row (n,) lacks a value of some feature."""
        frame = as_frame(table)
        found = np.zeros(len(table), dtype=bool)
        if frame is None:
            return found
        for name in self.used_columns(list(frame.columns)):
            found |= read_cells(frame.get_column(name)).gaps
        return found

    def with_means(self, means: Array) -> Self:
        """Same design after a fit, which fills gaps with means where that is wanted."""
        if self.missing != "mean":
            return self
        terms = [term.with_fill(means[places]) for term, places in self.columns]
        return replace(self, terms=tuple(terms))

    def __add__(self, other: "Design") -> "Design":
        """Design of the rows of both; columns must agree, the milder policy stays."""
        if other is self:
            return self
        if self.is_plain or other.is_plain:
            # Rows that were numbers already know nothing of raw tables.
            known, plain = (other, self) if self.is_plain else (self, other)
            if known.names == plain.names:
                return known
        # What must agree for features to mean the same: not how gaps are filled.
        differing = []
        for one, its in zip(self.terms, other.terms, strict=False):
            if (one.kind, one.names) != (its.kind, its.names):
                differing.append(one.source)
        if differing or len(self.terms) != len(other.terms):
            name = [*differing, self.terms[-1].source][0]
            raise ValueError(
                "statistics can only be added where the same columns became the same "
                f"features: got {name!r} in two ways."
            )
        missing = max(self.missing, other.missing, key=POLICIES.index)
        task = self.task if self.task == other.task else None
        target = self.target if self.target == other.target else None
        return replace(self, missing=missing, task=task, target=target)

    # Plain values, for files.

    def to_plain(self) -> Settings:
        """JSON values."""
        terms = [term.to_plain() for term in self.terms]
        own = {field.name: vars(self)[field.name] for field in fields(self)}
        return own | {"terms": terms, "left_out": dict(self.left_out)}

    @classmethod
    def from_plain(cls, plain: Settings) -> "Design":
        """Design from what ``to_plain`` made; checked, since files may be damaged."""
        terms = []
        for one in plain["terms"]:
            settings = dict(one)
            kind = KINDS[settings.pop("kind")]
            if not all(isinstance(settings[name], str) for name in ("source", "name")):
                raise TypeError("not a column")
            terms.append(kind.from_plain(settings))
        missing, names = plain["missing"], (plain["task"], plain["target"])
        known = (*names, plain["time"])
        if missing not in POLICIES or not all(isinstance(n, str | None) for n in known):
            raise TypeError("not a design")
        left_out = {str(k): str(v) for k, v in dict(plain["left_out"]).items()}
        return cls(tuple(terms), missing, *names, left_out, plain["time"])


def _expand_number(terms: Sequence[Term]) -> Expansion:
    """Line and curve of one column over its values."""
    first = terms[0]
    assert isinstance(first, Line | Curve)

    def expand(x: Array) -> dict[str, Array]:
        made: dict[str, Array] = {}
        for term in terms:
            block = (
                term.bend(x)
                if isinstance(term, Curve)
                else term.encode(Cells(first.holds, x))
            )
            made |= _named(term, block)
        return made

    if isinstance(first, Curve) and first.part == "day of week":
        numbers = dict(zip(WEEKDAYS, range(7), strict=True))
        return Expansion(
            lambda days: expand(np.array([numbers[d] for d in days], float)), WEEKDAYS
        )
    ticks = first.ticks
    ends = (ticks[0], ticks[-1]) if ticks else (0.0, 1.0)
    if isinstance(first, Curve):  # periodic
        width = first.curves.width
        ends, ticks = (0.0, width), tuple(tick % width for tick in ticks)
    is_date = isinstance(first, Line) and first.holds in DATE_KINDS
    return Expansion(expand, np.array(ticks), ends, is_date)


def settle_names(terms: Sequence[Term], taken: Sequence[str] = ()) -> tuple[Term, ...]:
    """Terms with names under which no two features, nor others, are the same.

    Columns whose names look like those of features of other columns are put in
    backticks.
    """
    shown = {term.source: show_name(term.source) for term in terms}
    while True:
        named, counts = list[Term](), Counter(taken)
        for term in terms:
            part = f" {term.part}" if isinstance(term, Curve) and term.part else ""
            named.append(replace(term, name=shown[term.source] + part))
            counts.update(named[-1].names)
        twice = {name for name, count in counts.items() if count > 1}
        if not twice:
            return tuple(named)
        # Columns that are named like a feature of another one give way, if there are.
        clashing = [term for term in named if twice.intersection(term.names)]
        own = [term for term in clashing if term.name in twice]
        for source in {term.source for term in own or clashing}:
            plain = shown[source] == source
            shown[source] = quote_name(source) if plain else f"{shown[source]}′"


def learn_levels(name: str, cells: Cells, *, is_extra: bool = False) -> Levels:
    """Crossed factor of the values of a column."""
    values: tuple[str, ...] | tuple[float, ...] = cells.texts
    if cells.kind != TEXTS:
        values = tuple(np.unique(cells.values[~cells.gaps]).tolist())
    if not values:
        raise ValueError(f"crossed column {name!r} must hold values: all are missing.")
    return Levels(name, name, cells.kind, values, is_extra)


def learn_plain(
    frame: Frame, crossed: Sequence[str] = (), time: str | None = None
) -> tuple[Design, dict[str, Cells]]:
    """Design of a frame, and the cells of columns that have no numeric type.

    Numbers stay as they are, text becomes categories, and columns that are ``crossed``
    become factors. The column of ``time`` may hold dates.
    """
    terms, cells = list[Term](), dict[str, Cells]()
    for name in crossed:
        if name not in frame.columns:
            raise unknown_name("column", name, frame.columns)
    for series in frame.iter_columns():
        name, kind = series.name, series.dtype
        if name in crossed:
            cells[name] = read_cells(series)
            terms.append(learn_levels(name, cells[name]))
            continue
        is_number = kind.is_numeric() or kind == nw.Boolean
        if is_number and name != time:
            terms.append(Line(name, name))
            continue
        cells[name] = column = read_cells(series)
        if name == time and column.kind != TEXTS:
            cells[name] = column = parse_months(column)
            terms.append(Line(name, name, column.kind))
            continue
        if column.kind not in (NUMBERS, TEXTS):
            raise ValueError(
                f"X column {name!r} must hold numbers or text: got {column.kind}. "
                "Encode it as numbers, declare it as categorical, leave it out, or use "
                "tabular_model."
            )
        if column.kind == TEXTS and not column.is_declared:
            refuse_strays(name, column.texts, count_texts(column))
        is_text = column.kind == TEXTS
        terms.append(
            Categories(name, name, column.texts) if is_text else Line(name, name)
        )
    return Design(quote_clashes(terms), time=time), cells


def quote_clashes(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms in which numbers named like a category of another column are quoted."""
    made = {n for term in terms if isinstance(term, Categories) for n in term.names}
    return tuple(
        replace(term, name=quote_name(term.source))
        if isinstance(term, Line) and term.name in made
        else term
        for term in terms
    )


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of a table as features, with the design that made them, and task labels.

    Our estimators take it in place of a frame.
    """

    design: Design
    X: Matrix  # (n, d)
    task: Any  # (n,) labels
    crossed: Crossed | None = None
    offset: Array | None = None  # (n,) known part of scores
    time: Array | None = None  # (n,) of rows, where a column orders them

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def to_frame(self, library: str | None = None) -> Any:
        """Features as a data frame, of pandas, polars or pyarrow."""
        columns = dict(zip(self.design, np.asarray(self.X).T, strict=True))
        return build_frame(columns, library or find_frame_library(None))
