"""learn_table: terms of a raw table, by what its columns hold.

Numbers, dates, durations and times of day become a line and a curve, dates also
periodic curves of the calendar, text becomes categories, and columns with gaps have an
indicator. Columns that hold no information are left out.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from priormtl.design.columns import (
    CALENDAR,
    DATE_KINDS,
    DECIMAL_COMMA,
    TEXTS,
    Cells,
    StrayTextError,
    count_texts,
    find_limit,
    holds_measurements,
    parse_months,
    parse_numbers,
    read_calendar,
    read_cells,
    read_formats,
    refuse_strays,
)
from priormtl.design.frames import Frame, column_floats
from priormtl.design.splines import LEAST_VALUES, Curves, check_period, check_values
from priormtl.design.terms import (
    Categories,
    Curve,
    Design,
    Gap,
    Levels,
    Line,
    Squash,
    Term,
    learn_levels,
    settle_names,
)
from priormtl.exceptions import unknown_name

# Conventions: no measurement is recorded that chose these.
FEWEST_VALUES = 5  # distinct numbers of a column that gets a curve
N_KNOTS = 10
# Values of a text column from which on it is a crossed factor: its effects are the same
# in all tasks and take no dense columns. Fewer are categories, which may vary. Tried on
# drawn tables (benchmarks.width) only: no real table chose it.
FEWEST_LEVELS = 20
N_TICKS = 11  # deciles and both ends


def learn_table(
    frame: Frame,
    task: str,
    tasks: Sequence[str],
    labels: Any,
    smooth: Any = "auto",
    straight: Sequence[str] = (),
    crossed: Any = "auto",
    time: str | None = None,
) -> tuple[Design, dict[str, Cells]]:
    """Design of a raw table, and the cells of columns that are used.

    ``tasks`` are the columns of the task, ``task`` their joint name and ``labels``
    their values. ``smooth``, ``straight``, ``crossed`` and ``time`` are those of
    ``tabular_model``.
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
    factors: tuple[str, ...] = ()  # columns that are named
    if isinstance(crossed, str):
        factors = () if crossed in ("auto", "none") else (crossed,)
    elif crossed is not None:
        factors = tuple(crossed)
    wanted = (*tasks, *named, *factors, *(() if time is None else (time,)))
    for name in wanted:
        if name not in frame.columns:
            raise unknown_name("column", name, frame.columns)
    terms, used, left_out = list[Term](), dict[str, Cells](), dict[str, str]()
    numbers = column_floats(labels) if labels.dtype.is_numeric() else None
    codes = read_cells(labels, TEXTS).values
    for name in frame.columns:
        if name in tasks:
            continue
        cells = read_cells(frame.get_column(name))
        if holds_measurements(cells):
            if limit := find_limit(cells.texts):
                _warn(
                    f"column {name!r} holds limits such as {limit!r}, read as numbers."
                )
            cells = parse_numbers(cells)
        cells = parse_months(cells)
        if name in factors:
            made: list[Term] = [learn_levels(name, cells)]
            if cells.gaps.any():
                made.append(Gap(name, name))
        elif cells.kind == TEXTS:
            if name in named:
                raise ValueError(
                    f"smooth must name columns of numbers or dates: {name!r} holds "
                    "text."
                )
            stays = crossed == "none" or any(s.startswith(f"{name}=") for s in straight)
            made, reason = learn_categories(
                name, cells, labels, task, may_cross=not stays
            )
            if reason:
                left_out[name] = reason
        else:
            bends = None if smooth == "auto" else name in named
            if name in straight and bends is None:
                bends = False
            squashes = name not in straight
            made = learn_number(name, cells, bends, squashes, periods.get(name))
            if not made and 0 < np.count_nonzero(cells.gaps) < len(frame):
                made = [Gap(name, name, alone=True)]
            elif made and cells.kind in DATE_KINDS and smooth == "auto":
                made += learn_calendar(name, cells)
            elif made and numbers is not None and np.array_equal(cells.values, numbers):
                _warn(
                    f"column {name!r} is equal to the task {task!r}; drop it, unless "
                    "the labels have a trend."
                )
            if made and crossed == "auto" and _recurs(cells, codes):
                made.append(learn_levels(name, cells, is_extra=True))
        if made:
            terms += made
            used[name] = cells
        else:
            left_out.setdefault(name, "empty" if cells.gaps.all() else "one value")
    if all(isinstance(term, Levels) for term in terms):
        # Models have at least one feature. This one is zero: levels alone explain y.
        terms.append(Gap(tasks[0], tasks[0], alone=True))
    named_terms = settle_names(terms, [task])
    return Design(named_terms, task=task, left_out=left_out, time=time), used


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
        terms.append(Line(name, name, cells.kind, fill, own, ticks, cells.unit))
    if n_values >= FEWEST_VALUES if bends is None else bends:
        check_values("smooth", name, n_values)
        bent = squash if period is None else None
        curves = Curves.fit(seen if bent is None else bent(seen), N_KNOTS, period)
        terms.append(Curve(name, name, cells.kind, fill, bent, curves, ticks=ticks))
    if len(seen) < len(cells.values):
        terms.append(Gap(name, name, marks=cells.texts))
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
            terms.append(Curve(name, name, cells.kind, fill, None, curves, part, ticks))
    return terms


def _recurs(cells: Cells, tasks: Any) -> bool:
    """Whether values of a column of numbers recur in several tasks, as days do.

    Then rows of one value may have something in common: the weather of a day is felt
    at all stations. There must be enough values for a variance, and rows of several
    tasks for most of them.
    """
    seen = ~cells.gaps
    values, codes = np.unique(cells.values[seen], return_inverse=True)
    if len(values) < FEWEST_LEVELS or 2 * len(values) > len(codes):
        return False
    pairs = np.unique(np.column_stack([codes, tasks[seen]]), axis=0)
    n_tasks = np.bincount(pairs[:, 0], minlength=len(values))
    # Each task has a value about once, as panels have, and not again and again.
    once = len(pairs) > 0.5 * len(codes)
    return bool(once and np.median(n_tasks) >= 3)


def learn_categories(
    name: str, cells: Cells, labels: Any, task: str, *, may_cross: bool
) -> tuple[list[Term], str]:
    """Categories or levels of a column beside the tasks, or why it is left out."""
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
        if len(values) >= FEWEST_VALUES and all(map(DECIMAL_COMMA.fullmatch, values)):
            comma = next((value for value in values if "," in value), "")
            if comma:
                raise ValueError(
                    f"column {name!r} must hold numbers with decimal points: got "
                    f"{comma[:40]!r}. Convert it, in pandas by reading the file with "
                    "decimal=','."
                )
        if len(read_formats(values)) > 1:
            _warn(
                f"column {name!r} is read as text: days and months of dates such as "
                f"{values[0]!r} cannot be told apart. Convert it to dates, in pandas "
                "by to_datetime."
            )
    n_seen, reason, words = int(counts.sum()), "", ""
    repeats = n_seen - len(values)
    # Where fewer rows repeat the text of another one, few new rows have a level that
    # was seen, and as many levels as rows take long: names of 1,016 players, of whom 32
    # have two rows, 15 of 24 s (mlb_players_18 of openintro) for the same error.
    least_repeats = 0.1 * n_seen
    if repeats == 0 and n_seen >= FEWEST_VALUES:
        reason = "all different"
    elif (
        repeats < least_repeats
        and len(values) >= FEWEST_LEVELS
        and not cells.is_declared
    ):
        reason = "nearly all different"
    if reason:
        words = f"has {len(values)} different texts in {n} rows and is left out"
    elif n_seen == n and 1 < len(values) == labels.n_unique():
        codes = read_cells(labels, TEXTS).values
        if len(np.unique(cells.values * len(values) + codes)) == len(values):
            # Each text belongs to one task, and each task to one text.
            reason = "the same as the task"
            words = f"says the same as the task {task!r} and is left out"
    if reason:
        _warn(f"column {name!r} {words}.")
        values = ()
    has_gaps = n_seen < n
    if may_cross and len(values) >= FEWEST_LEVELS:
        levels = learn_levels(name, cells)
        return [levels, Gap(name, name)] if has_gaps else [levels], reason
    if not values:
        alone = [Gap(name, name, alone=True)] if has_gaps and n_seen else []
        return [*alone], reason
    if len(values) == 1:  # a single feature says which rows have it
        only = [Categories(name, name, values, fill=(0.0,))] if has_gaps else []
        return [*only], reason
    binary = len(values) == 2
    # Rows that have neither of two get the share of the second.
    other = (float(counts[1]) / n_seen,) if binary else (0.0,) * len(values)
    terms: list[Term] = [Categories(name, name, values, binary, other, other)]
    return [*terms, Gap(name, name)] if has_gaps else terms, reason
