"""learn_table: terms of a raw table, by what its columns hold.

Numbers, dates, durations and times of day become a line and a curve, dates also
periodic curves of the calendar, text becomes categories, and columns with gaps have an
indicator. Columns that hold no information are left out.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from priormtl.design.calendar import CALENDAR, read_calendar
from priormtl.design.columns import (
    DATES,
    TEXTS,
    Cells,
    StrayTextError,
    count_texts,
    holds_measurements,
    parse_numbers,
    read_cells,
    refuse_strays,
)
from priormtl.design.frames import column_floats
from priormtl.design.splines import LEAST_VALUES, Curves, check_period, check_values
from priormtl.design.terms import (
    Categories,
    Curve,
    Design,
    Gap,
    Line,
    Squash,
    Term,
    settle_names,
)
from priormtl.exceptions import unknown_name

# Conventions: no measurement is recorded that chose these.
FEWEST_VALUES = 5  # distinct numbers of a column that gets a curve
N_KNOTS = 10
MOST_CATEGORIES = 100  # a text column with more, and few rows each, hardly helps
MOST_INDICATORS = 2**25  # rows × categories of a column: 256 MB
N_TICKS = 11  # deciles and both ends


def learn_table(
    frame: nw.DataFrame[Any],
    task: str,
    tasks: Sequence[str],
    labels: Any,
    smooth: Any = "auto",
    straight: Sequence[str] = (),
) -> tuple[Design, dict[str, Cells]]:
    """Design of a raw table, and the cells of columns that are used.

    ``tasks`` are the columns of the task, ``task`` their joint name and ``labels``
    their values. ``smooth`` and ``straight`` are those of ``tabular_model``.
    """
    if isinstance(smooth, str) and smooth not in ("auto", "none"):
        raise ValueError(
            f'smooth must be "auto", "none", a list of columns or a mapping from '
            f"columns to periods: got {smooth!r}."
        )
    named = () if isinstance(smooth, str) else tuple(smooth)
    periods = smooth if isinstance(smooth, Mapping) else {}
    for name, period in periods.items():
        if period is not None:
            check_period("smooth", name, period)
    for name in (*tasks, *named):
        if name not in frame.columns:
            raise unknown_name("column", name, frame.columns)
    terms, used = list[Term](), dict[str, Cells]()
    numbers = column_floats(labels) if labels.dtype.is_numeric() else None
    for name in frame.columns:
        if name in tasks:
            continue
        cells = read_cells(frame.get_column(name))
        if holds_measurements(cells):
            cells = parse_numbers(cells)
        if cells.kind == TEXTS:
            if name in named:
                raise ValueError(
                    f"smooth must name columns of numbers or dates: {name!r} holds "
                    "text."
                )
            made = learn_categories(name, cells, labels, task)
        else:
            bends = None if smooth == "auto" else name in named
            if name in straight and bends is None:
                bends = False
            squashes = name not in straight
            made = learn_number(name, cells, bends, squashes, periods.get(name))
            if not made and 0 < np.count_nonzero(cells.gaps) < len(frame):
                made = [Gap(name, name, alone=True)]
            elif made and cells.kind == DATES and smooth == "auto":
                made += learn_calendar(name, cells)
            elif made and numbers is not None and np.array_equal(cells.values, numbers):
                _warn(
                    f"column {name!r} is equal to the task {task!r}; drop it, unless "
                    "the labels have a trend."
                )
        if made:
            terms += made
            used[name] = cells
    if not terms:
        raise ValueError(
            "a table needs features besides its task: got no column with two values or "
            "more."
        )
    return Design(settle_names(terms, [task]), task=task), used


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=5)


def learn_number(
    name: str, cells: Cells, bends: bool | None, squashes: bool, period: float | None
) -> list[Term]:
    """Line, curve and gap of a column; nothing for columns without two values.

    ``bends`` says whether there is a curve; None: if values are many. ``squashes``
    says whether heavy tails may be squashed.
    """
    seen = cells.values[~cells.gaps]
    if len(seen) == 0 or np.ptp(seen) <= 1e-12 * np.abs(seen).max():
        return []
    low, middle, high = np.quantile(seen, [0.25, 0.5, 0.75])
    spread = float(high - low) or float(seen.std())
    squash = Squash(float(middle), spread)
    n_values = len(np.unique(seen))
    heavy_tail = 4.0  # interquartile ranges from the median that call for squashing
    heavy = np.abs(seen - middle).max() > heavy_tail * spread
    heavy = bool(heavy and n_values >= FEWEST_VALUES and squashes)
    fill = float(middle if heavy else seen.mean())
    ticks = tuple(np.quantile(seen, np.linspace(0.0, 1.0, N_TICKS)).tolist())
    terms: list[Term] = []
    if period is None:  # else the number jumps at the end of a period
        own = squash if heavy else None
        terms.append(Line(name, name, cells.kind, fill, own, ticks))
    if n_values >= FEWEST_VALUES if bends is None else bends:
        check_values("smooth", name, n_values)
        bent = squash if period is None else None
        curves = Curves.fit(seen if bent is None else bent(seen), N_KNOTS, period)
        terms.append(Curve(name, name, cells.kind, fill, bent, curves, ticks=ticks))
    if len(seen) < len(cells.values):
        terms.append(Gap(name, name))
    return terms


def learn_calendar(name: str, cells: Cells) -> list[Term]:
    """Periodic curves of dates: parts of the calendar that repeat and vary."""
    terms, seen = list[Term](), cells.values[~cells.gaps]
    fewest_periods = 2.0  # that dates must cover
    for part, (period, length) in CALENDAR.items():
        values = read_calendar(part, seen)
        n_values = len(np.unique(values))
        if n_values >= LEAST_VALUES and np.ptp(seen) >= fewest_periods * length:
            ticks = tuple(np.quantile(values, np.linspace(0.0, 1.0, N_TICKS)).tolist())
            curves = Curves.fit(values, N_KNOTS, period)
            fill = float(values.mean())
            terms.append(Curve(name, name, DATES, fill, None, curves, part, ticks))
    return terms


def learn_categories(name: str, cells: Cells, labels: object, task: str) -> list[Term]:
    """Categories of a column beside that of tasks; nothing where it holds none."""
    values, counts, n = cells.texts, count_texts(cells), len(cells.values)
    if not cells.is_declared:
        try:
            refuse_strays(name, values, counts)
        except StrayTextError as error:
            row = int(np.argmax(cells.values == values.index(error.value)))
            raise ValueError(
                f"column {name!r} must hold numbers: got {error.value[:40]!r} in row "
                f"{row}. Correct it, or make the column categorical, in pandas by "
                f"astype({'category'!r})."
            ) from None
    n_seen, reason = int(counts.sum()), ""
    rows_per_category = 2.0
    many = len(values) > MOST_CATEGORIES and n < rows_per_category * len(values)
    if many or n_seen == len(values) >= FEWEST_VALUES:
        reason = (
            f"has {len(values)} different texts in {n} rows and is left out: it holds "
            "no categories"
        )
    elif n_seen == n and _names_tasks(cells, labels):
        reason = f"says the same as the task {task!r} and is left out"
    if reason:
        _warn(f"column {name!r} {reason}.")
        values = ()
    has_gaps = n_seen < n
    if len(values) > MOST_CATEGORIES and n * len(values) > MOST_INDICATORS:
        _warn(
            f"column {name!r} has {len(values):,} categories, too many for a feature "
            f"each: the {MOST_CATEGORIES} most frequent ones are kept, and the others "
            "have no effect."
        )
        kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
        values = tuple(values[k] for k in kept)
        zeros = (0.0,) * len(values)
        cut = Categories(name, name, values, False, zeros, zeros, is_cut=True)
        return [cut, Gap(name, name)] if has_gaps else [cut]
    if not values:
        return [Gap(name, name, alone=True)] if has_gaps and n_seen else []
    if len(values) == 1:  # a single feature says which rows have it
        return [Categories(name, name, values, fill=(0.0,))] if has_gaps else []
    binary = len(values) == 2
    # Rows that have neither of two get the share of the second.
    other = (float(counts[1]) / n_seen,) if binary else (0.0,) * len(values)
    terms: list[Term] = [Categories(name, name, values, binary, other, other)]
    return [*terms, Gap(name, name)] if has_gaps else terms


def _names_tasks(cells: Cells, tasks: Any) -> bool:
    """Whether each text belongs to one task, and each task to one text."""
    m = len(cells.texts)
    if not 1 < m == tasks.n_unique():
        return False
    labels = read_cells(tasks, TEXTS)
    return len(np.unique(cells.values * m + labels.values)) == m
