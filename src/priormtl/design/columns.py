"""Cells of one column: numbers, dates, durations, times of day, or texts.

All ways in (pandas, polars, pyarrow, files) read a column by the same rules:

- numbers and booleans are numbers;
- dates, durations and times of day are numbers of days: since 1970 (in UTC where there
  is a time zone), or since midnight;
- whole numbers such as 202401 or 20240131, all of them months or days, are dates, also
  as text;
- text in which every value is a date, a timestamp or a time of day is read as such:
  ISO text as in CSV files, and what people write, such as 31.12.2024, Dec 2024 or
  2024 Q4 (``FORMATS``);
- text in which every value is a duration such as 2h 15m or 36:15 is read as such;
- text that is numbers, all in the same unit if they have one, such as 12.5 kg, $1,234
  or 7 % (``AMOUNT``), is numbers; limits such as <5 are the number (``LIMIT``);
- marks such as "." or NA among dates and numbers stand for missing values (``MARK``);
- other text, and what is declared as categories, is text.

Columns of objects are judged by their values. Values of other types (lists, bytes, ...)
are refused, and so are stray texts among many numbers, unless these are plainly codes.
``quote_name`` keeps names of columns apart from names of features that are made of
other columns, such as ``age~1`` and ``colour=red``.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._numerics import LARGEST
from priormtl.design.frames import (
    column_floats,
    is_missing,
    refuse_infinite,
)

NUMBERS, DATES, TEXTS = "numbers", "dates", "text"
DURATIONS, TIMES = "durations", "times of day"
# Text such as 01/02/2024: other values of the column in training told which it is.
DAY_FIRST, MONTH_FIRST = "dates, day before month", "dates, month before day"
DATE_KINDS = (DATES, DAY_FIRST, MONTH_FIRST)
DAY = 86400.0  # seconds
CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
PLAIN_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?: ?[AaPp][Mm])?"
# Dates as people write them, with spaces for what separates their parts. Quarters and
# weeks are written out as their first days before.
YEAR_MONTH = "%Y %m"
FORMATS = {
    **dict.fromkeys((YEAR_MONTH, "%YM%m", "%Y %b", "%Y %B", "%b %Y", "%B %Y"), DATES),
    **dict.fromkeys(("%Y %m %d", "%Y %b %d", "%d %b %Y", "%d %B %Y"), DATES),
    **dict.fromkeys(("%b %d %Y", "%B %d %Y"), DATES),
    **dict.fromkeys(("%d %b %y", "%d %B %y", "%b %d %y", "%B %d %y", "%b %y"), DATES),
    **dict.fromkeys(("%d %m %Y", "%d %m %y"), DAY_FIRST),
    **dict.fromkeys(("%m %d %Y", "%m %d %y"), MONTH_FIRST),
}
WEEKDAY = r"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?[., ]+)?"
# Years of two digits only where nothing else is written like that: 31/12/24, 31-Dec-24,
# Dec 31, 24 and Dec-24.
SHORT_DATE = (
    r"\d{1,2}([/.])\d{1,2}\2\d\d|\d{1,2}[- ][A-Za-z]{3,9}[- ]\d\d"
    r"|[A-Za-z]{3,9} \d{1,2}, ?\d\d|[A-Za-z]{3}-\d\d"
)
DECIMAL = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(\.\d{3})*(,\d+)?\s*")
CURRENCY = r"[$€£¥₹]|USD ?|EUR ?|GBP ?|CHF ?|JPY ?|CNY ?|INR ?|AUD ?|CAD ?"
AMOUNT = re.compile(
    rf"\s*([-+]?) ?({CURRENCY}|) ?"  # sign, and money
    r"((?:0|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d*)(?:\.\d*)?|\.\d+)"
    r"\s*((?:[^\W\d_]|[%$€£¥₹°])[^\d,;:()<>+-]{0,11}?)?\s*"  # unit
)
# Limits of what was measured, which are read as the number itself, and numbers below
# zero as in accounts.
LIMIT = re.compile(r"\s*(?:[<>]=?|[≤≥]) ?(?=[-+.\d$€£¥₹])(.*)|(.*\d)\+\s*")
ACCOUNT = re.compile(rf"\s*\(((?:{CURRENCY}|)[\d.,]*\d[\d.,]*)\)\s*")
SIGNS = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
# Durations: hours, minutes and seconds with colons, or with their names.
COLONS = re.compile(r"\s*(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\s*")
NAMED_PARTS = re.compile(
    r"\s*(?:(\d+) ?d(?:ays?)?,? ?)?(?:(\d+) ?h(?:(?:ou)?rs?)?,? ?)?"
    r"(?:(\d+) ?m(?:in(?:ute)?s?)?,? ?)?(?:(\d+) ?s(?:ec(?:ond)?s?)?)?\s*",
    re.IGNORECASE,
)
FEWEST_MONTHS = 4  # different numbers such as 202401 that are taken for months
NUMBER_TYPES = (bool, int, float, Decimal, np.bool_, np.integer, np.floating)
# What a column of objects holds, by the types of its values. NumPy counts durations
# among integers, so they come first.
KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    (DURATIONS, (timedelta, np.timedelta64)),
    (NUMBERS, NUMBER_TYPES),
    (DATES, (date, np.datetime64)),
    (TIMES, (time,)),
)
NAMES = (str, Enum, date, time, *NUMBER_TYPES)  # that may be mixed as categories


class Cells(NamedTuple):
    """Values of one column."""

    kind: str
    values: NDArray[Any]  # (n,) numbers, or codes of texts; NaN or −1: missing
    texts: tuple[str, ...] = ()  # sorted; of others, the marks of missing values
    is_declared: bool = False  # whether its type says that it holds categories
    unit: str = ""  # of numbers that were text

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """Where values are missing (n,)."""
        return self.values < 0 if self.kind == TEXTS else np.isnan(self.values)


def read_cells(
    series: Any, kind: str | None = None, marks: Collection[str] = ()
) -> Cells:
    """Read a column by the rules above, or as the kind that it had in training.

    ``marks`` stood for missing values in training.
    """
    found = _read(series, kind)
    if kind in (None, found.kind) or {kind, found.kind} <= {*DATE_KINDS}:
        return found
    if found.gaps.all():
        return Cells(str(kind), np.full(len(found.values), np.nan))
    if kind in DATE_KINDS:
        months = parse_months(found, fewest=1)
        if months.kind == DATES:
            return months
    texts = [text for text in found.texts if text not in marks]
    numbers = read_amounts(texts)[1]
    strange = [text for text in texts if text not in numbers]
    if kind == NUMBERS and found.kind == TEXTS and not strange:
        return parse_numbers(found)
    example = f" such as {strange[0][:40]!r}" if strange else ""
    raise ValueError(
        f"X column {series.name!r} must hold {kind}, as in fit: got "
        f"{found.kind}{example}."
    )


def _read(series: Any, wanted: str | None) -> Cells:
    if wanted == TEXTS:
        return code_texts(series.to_list(), is_declared=True)
    name, kind = series.name, series.dtype  # which takes long to find for text
    if kind in (nw.Categorical, nw.Enum):
        return code_texts(series.to_list(), is_declared=True)
    if kind == nw.Boolean or kind.is_numeric():
        return Cells(NUMBERS, column_floats(series, kind))
    if kind in (nw.Date, nw.Datetime, nw.Duration):
        array = series.to_numpy()
        if array.dtype.kind == "M":
            return Cells(DATES, _days_of_dates(array))
        if array.dtype.kind == "m":
            return Cells(DURATIONS, _days_of_durations(array))
    values = series.to_list()
    if kind != nw.String:
        types = {type(value) for value in values if not is_missing(value)}
        if not types:
            return Cells(NUMBERS, np.full(len(values), np.nan))
        for one, members in KINDS:
            if all(issubclass(found, members) for found in types):
                return Cells(one, _object_values(name, one, values))
        strange = [found for found in types if not issubclass(found, NAMES)]
        if strange:
            raise ValueError(
                f"X column {name!r} must hold numbers, text, booleans, dates or "
                f"durations: got values of type {min(t.__name__ for t in strange)}. "
                "Convert the column, or drop it."
            )
    return parse_dates(code_texts(values), wanted)


def code_texts(values: Sequence[object], *, is_declared: bool = False) -> Cells:
    """Codes of values by their spelling."""
    plain: Iterable[Any] = values
    try:
        plain = dict.fromkeys(values)  # spell each once
    except TypeError:  # not hashable
        values = plain = [repr(value) for value in values]
    if len({type(value) for value in plain}) > 1 + any(map(is_missing, plain)):
        # Equal values of different types, such as 1 and True, are spelled differently.
        values = [None if is_missing(value) else spell_value(value) for value in values]
        plain = dict.fromkeys(values)
    spelled = {v: None if is_missing(v) else spell_value(v) for v in plain}
    texts = tuple(sorted({text for text in spelled.values() if text is not None}))
    place: dict[str | None, int] = {text: code for code, text in enumerate(texts)}
    codes = {value: place.get(text, -1) for value, text in spelled.items()}
    coded = np.fromiter(map(codes.__getitem__, values), np.intp, len(values))
    return Cells(TEXTS, coded, texts, is_declared)


def spell_value(value: object) -> str:
    """A category as Arrow writes it: whole numbers without point, truth in small."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.name if isinstance(value, Enum) else str(value)


def _object_values(name: str, kind: str, values: list[Any]) -> Array:
    """Numbers of a column of objects that are all of one kind."""
    known = [None if is_missing(value) else value for value in values]
    if kind == DATES:
        return _days_of_dates(np.array([_in_utc(v) for v in known], "datetime64[s]"))
    if kind == DURATIONS:
        return _days_of_durations(np.array(known, "timedelta64[us]"))
    if kind == TIMES:
        return np.array([np.nan if v is None else _days_of_time(v) for v in known])
    try:
        numbers = np.array([np.nan if v is None else float(v) for v in known])
    except OverflowError:  # integers of Python have no limit
        numbers = np.array([2.0 * LARGEST])
    refuse_infinite(numbers, name)
    return numbers


def _in_utc(value: object) -> object:
    """Date without time zone, which NumPy does not know."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _days_of_dates(dates: np.ndarray) -> Array:
    seconds = dates.astype("datetime64[s]")
    days = seconds.astype(np.int64).astype(np.float64) / DAY
    return np.where(np.isnat(seconds), np.nan, days)


def _days_of_durations(durations: np.ndarray) -> Array:
    return np.asarray(durations / np.timedelta64(1, "s") / DAY, dtype=np.float64)


def _days_of_time(value: time) -> float:
    minutes = 60.0 * value.hour + value.minute
    return (60.0 * minutes + value.second + value.microsecond / 1e6) / DAY


# Texts that mean something else.


def parse_dates(cells: Cells, wanted: str | None = None) -> Cells:
    """Dates, times of day or durations, if all texts are; else the same cells.

    Marks of missing values may be among them. ``wanted`` is the kind of the column in
    training, if it was read before.
    """
    known = [text for text in cells.texts if not NO_DATE.fullmatch(text)]
    if not known and wanted not in (None, NUMBERS):
        return Cells(wanted, np.full(len(cells.values), np.nan))
    kind, days = read_dates(known, wanted)
    if kind == TEXTS or (kind == TIMES and wanted == DURATIONS):
        kind, days = DURATIONS, read_durations(known, wanted)
    if not len(days):
        return cells
    read = dict(zip(known, days, strict=True))
    found = [read.get(text, np.nan) for text in cells.texts]
    marks = tuple(text for text in cells.texts if text and text not in read)
    return _replace_texts(cells, kind, found)._replace(texts=marks)


def read_durations(texts: Sequence[str], wanted: str | None = None) -> list[float]:
    """Days of durations such as 36:15, 1:02:59 or 2h 15m; none if one is not.

    Two numbers are minutes and seconds.
    """
    colons = [COLONS.fullmatch(text) for text in texts]
    if None not in colons:
        parts = [match.groups() for match in colons if match is not None]
        return [
            (
                60.0 * int(a) + float(b)
                if c is None
                else 3600.0 * int(a) + 60.0 * int(b) + float(c)
            )
            / DAY
            for a, b, c in parts
        ]
    named = [match.groups("0") for match in map(NAMED_PARTS.fullmatch, texts) if match]
    # Of a single unit they are numbers with this unit.
    several = wanted == DURATIONS or any(
        sum(part != "0" for part in parts) > 1 for parts in named
    )
    if len(named) < len(texts) or not several or "" in map(str.strip, texts):
        return []
    return [
        int(d) + (3600 * int(h) + 60 * int(m) + int(s)) / DAY for d, h, m, s in named
    ]


def read_dates(
    texts: Sequence[str], wanted: str | None = None
) -> tuple[str, Sequence[float]]:
    """What all texts are: dates or times of day, with their days; or just text."""
    zone = r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)"
    iso_date = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[T ](?:\d\d|{CLOCK}){zone}?)?")
    matches = [iso_date.fullmatch(text) for text in texts]
    zones = {match is not None and match["zone"] is not None for match in matches}
    try:
        if texts and all(re.fullmatch(PLAIN_CLOCK, text) for text in texts):
            return TIMES, [_days_of_time(_read_clock(text)) for text in texts]
        if None not in matches and len(zones) == 1:  # or local times beside others
            return DATES, _days_since([datetime.fromisoformat(text) for text in texts])
    except ValueError:  # no such day
        return TEXTS, ()
    readings = read_formats(texts, are_dates=wanted in DATE_KINDS)
    if wanted == DAY_FIRST or (readings and "." in texts[0]):
        readings.pop(MONTH_FIRST, None)
    elif wanted == MONTH_FIRST:
        readings.pop(DAY_FIRST, None)
    return next(iter(readings.items())) if len(readings) == 1 else (TEXTS, ())


def read_formats(
    texts: Sequence[str], *, are_dates: bool = False
) -> dict[str, list[float]]:
    """Days of all kinds of dates that all texts may be; several if it is ambiguous."""
    human_date = re.compile(
        rf"{WEEKDAY}(.*(?:1[5-9]|2[01])\d\d.*?|{SHORT_DATE})(?:,?[T ]({PLAIN_CLOCK}))?",
        re.IGNORECASE,
    )
    matches = [human_date.fullmatch(text) for text in texts]
    if not texts or None in matches or DECIMAL.fullmatch(texts[0]):
        return {}
    readings = dict[str, list[float]]()
    try:
        parts = [(_write_out(m[1]), m[3]) for m in matches if m is not None]
        clocks = [_read_clock(clock or "00:00") for _, clock in parts]
    except ValueError:  # no such week, or hour
        return {}
    for form, kind in FORMATS.items():
        try:
            read = {day: datetime.strptime(day, form) for day, _ in parts}
        except ValueError:
            continue
        # A few texts such as 2011-12 may be anything, and many may be seasons.
        seasons = all(day.month == (day.year + 1) % 100 for day in read.values())
        unsure = seasons or len(texts) < FEWEST_MONTHS
        if are_dates or form != YEAR_MONTH or not unsure:
            dates = [read[day] for day, _ in parts]
            readings[kind] = _days_since(map(datetime.combine, dates, clocks))
    if DAY_FIRST in readings and readings[DAY_FIRST] == readings.get(MONTH_FIRST):
        return {DATES: readings[DAY_FIRST]}
    return readings


def _write_out(text: str) -> str:
    """A date with spaces between its parts; first day of a quarter or a week."""
    quarter_of_year = r"(\d{4})[-/ ]?Q([1-4])|Q([1-4])[-/ ]?(\d{4})"
    if match := re.fullmatch(quarter_of_year, text):
        year, quarter = match[1] or match[4], int(match[2] or match[3])
        return f"{year}M{3 * quarter - 2}"
    if match := re.fullmatch(r"(\d{4})[- ]?W(\d\d)", text):
        return f"{date.fromisocalendar(int(match[1]), int(match[2]), 1):%Y %m %d}"
    return re.sub(r"[-/., ]+", " ", text)


def _read_clock(text: str) -> time:
    """A time of day such as 09:30, 9:30:00 or 9:30 PM."""
    digits = text.rstrip("AaPpMm ")
    found = time.fromisoformat(digits.zfill(len(digits) + (digits[1] == ":")))
    if digits == text:
        return found
    if not 1 <= found.hour <= 12:
        raise ValueError("no such hour")
    return found.replace(hour=found.hour % 12 + 12 * ("p" in text.lower()))


def _days_since(dates: Iterable[datetime]) -> list[float]:
    array = np.array([_in_utc(one) for one in dates], "datetime64[s]")
    return _days_of_dates(array).tolist()


def parse_months(cells: Cells, fewest: int = FEWEST_MONTHS) -> Cells:
    """Dates of numbers such as 202401 or 20240131, if all are; else the same cells.

    There must be at least this many: few numbers may look like dates by chance. Text
    of such numbers is read alike, unless it is declared as categories.
    """
    if cells.kind == TEXTS:
        long = [text for text in cells.texts if text.isdecimal() and len(text) >= 6]
        if cells.is_declared or len(long) < max(len(cells.texts), 1):
            return cells
        found = parse_months(parse_numbers(cells), fewest)
        return found if found.kind == DATES else cells
    known = cells.values[~cells.gaps] if cells.kind == NUMBERS else np.zeros(0)
    distinct, place = np.unique(known, return_inverse=True)
    form, low, high = "%Y%m", 150000, 220000
    if len(distinct) and distinct[0] > high:
        form, low, high = "%Y%m%d", 15000000, 22000000
    inside = np.all((distinct > low) & (distinct < high))
    if len(distinct) < fewest or not inside or np.any(distinct % 1.0):
        return cells
    try:
        dates = [datetime.strptime(str(int(one)), form) for one in distinct]
    except ValueError:  # no such month, or day
        return cells
    days = np.full(len(cells.values), np.nan)
    days[~cells.gaps] = np.array(_days_since(dates))[place]
    return Cells(DATES, days)


def read_times(values: Any, argument: str = "time", wanted: str | None = None) -> Array:
    """Times of rows (n,) as numbers: as they are, or days of dates and durations.

    ``wanted`` is the kind of the column in training, if it was read before.
    """
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        cells = read_cells(series, wanted)
    else:
        array = np.asarray(values)
        if array.dtype.kind == "M":
            cells = Cells(DATES, _days_of_dates(array))
        elif array.dtype.kind in "biuf":
            cells = Cells(NUMBERS, array.astype(np.float64))
        else:
            cells = parse_dates(code_texts(array.tolist()), wanted)
    cells = parse_months(cells)
    if cells.kind == TEXTS and all(map(DECIMAL.fullmatch, cells.texts)):
        cells = parse_numbers(cells)
    if cells.kind == TEXTS:
        raise ValueError(
            f"{argument} must hold numbers, dates or text such as 2024-01-31: got "
            f"{cells.texts[0][:40]!r}."
        )
    if cells.gaps.any():
        raise ValueError(
            f"{argument} must be known in every row: {cells.gaps.sum()} of "
            f"{len(cells.values)} are missing. Drop these rows."
        )
    return np.asarray(cells.values, dtype=np.float64)


def parse_numbers(cells: Cells) -> Cells:
    """Numbers of texts that are numbers, or else marks of missing values."""
    unit, numbers = read_amounts(cells.texts)
    marks = tuple(text for text in cells.texts if text not in numbers)
    found = [numbers.get(text, np.nan) for text in cells.texts]
    return _replace_texts(cells, NUMBERS, found)._replace(texts=marks, unit=unit)


def read_amounts(texts: Sequence[str]) -> tuple[str, dict[str, float]]:
    """The unit of numbers, and the number of each text that is one.

    Numbers that are not plain must all have the same unit, or none: "12 kg" among plain
    numbers is no number.
    """
    plain = {text: _plain_number(text) for text in texts}
    matches = {text: AMOUNT.fullmatch(plain[text]) for text in texts}
    amounts = {text: match.groups("") for text, match in matches.items() if match}
    units = {money.strip() + unit.strip() for _, money, _, unit in amounts.values()}
    if len(units) == 1 and units != {"e"}:
        numbers = {
            text: float(sign + number.replace(",", ""))
            for text, (sign, _, number, _) in amounts.items()
        }
        if units != {""} or any("," in plain[text] for text in numbers):
            return units.pop(), numbers
    return "", {
        text: float(plain[text]) for text in texts if DECIMAL.fullmatch(plain[text])
    }


def _plain_number(text: str) -> str:
    """A number with a plain minus sign, with commas between thousands, at its limit."""
    text = re.sub(r"(?<=\d)[ '’](?=\d{3}(?!\d))", ",", text.translate(SIGNS))
    if match := LIMIT.fullmatch(text):
        return match[1] or match[2]
    return f"-{match[1]}" if (match := ACCOUNT.fullmatch(text)) else text


def find_limit(texts: Iterable[str]) -> str:
    """The first text that is a limit, such as <5; or none."""
    return next((text for text in texts if LIMIT.fullmatch(text)), "")


def _replace_texts(cells: Cells, kind: str, numbers: Sequence[float]) -> Cells:
    return Cells(kind, np.array([*numbers, np.nan])[cells.values])


def holds_measurements(cells: Cells) -> bool:
    """Whether texts are numbers, and no codes: years, not all whole, or with marks."""
    texts = () if cells.is_declared else cells.texts
    numbers = read_amounts(texts)[1]
    marks = [j for j, text in enumerate(texts) if text not in numbers]
    if len(numbers) < FEWEST_NUMBERS:
        return False
    if marks:
        counts, most_marks = count_texts(cells), 2
        unsure = [j for j in marks if not MISSING.fullmatch(texts[j])]
        few = len(unsure) <= most_marks and 2 * counts[unsure].sum() <= counts.sum()
        plain = all(MARK.fullmatch(texts[j]) for j in unsure)
        return few and plain and not _are_codes(texts, marks, counts)
    years = all(len(text) == 4 and "1800" <= text <= "2100" for text in texts)
    return years or not all(text.strip().isdecimal() for text in texts)


# Texts among numbers.

FEWEST_NUMBERS = 8  # fewer distinct numbers may well be names of categories
NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
# What stands for a missing number: signs such as "." and "?" or a word; and, unless
# they are many, one or two letters, as T for a trace of rain. Longer words and
# misspelled numbers are errors.
MISSING = re.compile(
    r"[\W_]*(n[/.]?a\.?|nan|nil|null|none|missing|unknown|not available|not applicable"
    r"|trace|div/0|value|ref)?[\W_]*",
    re.IGNORECASE,
)
MARK = re.compile(rf"{MISSING.pattern}|[\W_]*[^\W\d_]{{1,2}}[\W_]*", re.IGNORECASE)
NO_DATE = re.compile(rf"{MISSING.pattern}|0{{4}}-00-00(?: 00:00:00)?", re.IGNORECASE)


class StrayTextError(ValueError):
    """A text among the numbers of a column."""

    def __init__(self, column: str, value: str, place: str = "") -> None:
        self.column, self.value = column, value
        super().__init__(
            f"column {column!r} must hold numbers: got {value[:40]!r}{place}; correct "
            "it, or declare the column as categorical (--categories "
            f"{column}, in Python categories={{{column!r}: []}})."
        )


def count_texts(cells: Cells) -> Index:
    """Number of rows of each text."""
    return np.bincount(cells.values[cells.values >= 0], minlength=len(cells.texts))


def refuse_strays(
    name: str, values: Sequence[str], counts: Index | None = None
) -> bool:
    """Fail if a few texts are among many numbers; return whether all are numbers.

    Numbers that are plainly codes, such as postcodes, may have texts among them.
    ``counts`` are the rows of each value, where they are known.
    """
    strays = [j for j, value in enumerate(values) if not NUMBER.fullmatch(value)]
    largest_share_of_others = 0.25
    few = len(strays) <= largest_share_of_others * len(values)
    if len(values) < FEWEST_NUMBERS or not few:
        return False
    if strays:
        if _are_codes(values, strays, counts):
            return False
        words = [values[j] for j in strays]  # a mark is the least of them
        raise StrayTextError(
            name, min(words, key=lambda word: bool(MARK.fullmatch(word)))
        )
    return True


def _are_codes(
    values: Sequence[str], strays: Sequence[int], counts: Index | None
) -> bool:
    """Whether numbers with a few words among them are codes, not measurements.

    Codes are whole numbers without sign. They have leading zeros; or they have about
    the same number of digits, leave out most numbers in between, and occur again and
    again, the words as well.
    """
    among = set(strays)
    numbers = [value for j, value in enumerate(values) if j not in among]
    if not all(number.isdecimal() for number in numbers):
        return False
    if any(any(map(str.isdecimal, values[j])) for j in strays):  # such as 12 kg
        return False
    if any(number[0] == "0" and len(number) > 1 for number in numbers):
        return True
    lengths, whole = [len(n) for n in numbers], [int(n) for n in numbers]
    sparse = 2 * len(numbers) <= max(whole) - min(whole) + 1
    long_code = 5  # digits of codes, where it is not known how often they occur
    if counts is None:
        return sparse and max(lengths) == min(lengths) >= long_code
    short_code = 3  # digits of codes that occur again and again
    alike = max(lengths) - min(lengths) <= 1 and min(lengths) >= short_code
    repeats = counts.sum() >= 2 * len(values) and counts[list(strays)].max() > 1
    return bool(sparse and alike and repeats)


# Names of features.

# A column in the name of a feature; in backticks, if its name has other parts as well.
SOURCE = r"`[^`]*`[^=]*|[^`=][^=]*"


def quote_name(name: str) -> str:
    """Name in backticks, as R writes names that could mean something else."""
    return f"`{name.replace('`', chr(39))}`"


def find_name(name: object, known: Collection[object]) -> Any:
    """Name of a column among names of features, where it may be in backticks."""
    quoted = quote_name(name) if isinstance(name, str) else name
    return quoted if quoted in known else name


def show_name(name: str) -> str:
    """Name of a column among features; in backticks, if it could be read otherwise."""
    ambiguous = re.fullmatch(r"|`.*|.*=.*|.+~[1-9]\d*", name, re.DOTALL)
    return quote_name(name) if ambiguous else name


# Parts of dates that repeat.

# Periods in the unit of the part, and in days.
CALENDAR = {
    "hour of day": (24.0, 1.0),
    "day of week": (7.0, 7.0),
    "day of year": (365.25, 365.25),
}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def read_calendar(part: str, days: Array) -> Array:
    """Hours of the day, days of the week (Monday is 0), or of the year; "": all."""
    if part == "hour of day":
        return days % 1.0 * 24.0
    if part == "day of week":  # the first of January 1970 was a Thursday
        return np.floor(days + 3.0) % 7.0
    return days % 365.25 if part else days
