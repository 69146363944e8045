"""Columns of raw tables: every kind, with gaps, from every library, read alike."""

import datetime as dt
import enum
import io
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv

from instances import turns
from priormtl import (
    FeaturePrior,
    MultiTaskRegressor,
    SplineFeatures,
    load,
    save,
    tabular_model,
)
from priormtl.design import Design
from priormtl.estimators.tabular import TableFeatures

pytestmark = pytest.mark.usefixtures("few_trees")

N = 48
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(3 * i) for i in range(N)]
TIMES = [dt.datetime(2024, 1, 1, 6) + dt.timedelta(hours=7 * i) for i in range(N)]
LIBRARIES = ("pandas", "polars", "pyarrow")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def build(library, columns):
    """Frame of a library; None where it cannot hold these values."""
    frame = pd.DataFrame(columns)
    if library == "pandas":
        return frame
    try:
        return pa.Table.from_pandas(frame) if library == "pyarrow" else to_polars(frame)
    except (
        pl.exceptions.PolarsError,
        pa.ArrowException,
        TypeError,
        ArithmeticError,
        AttributeError,
    ):
        return None


def to_polars(frame):
    """Frame of polars, with objects as they are."""
    plain = {name: column.dtype == object for name, column in frame.items()}
    return pl.DataFrame(
        {
            name: frame[name].tolist() if objects else pl.from_pandas(frame[name])
            for name, objects in plain.items()
        }
    )


def quick(task="t", **settings):
    return tabular_model(
        "regressor", task=task, **{"trees": "none", "cv": 2, **settings}
    )


def make_kinds():
    """Columns that a model must take, without gaps."""
    rng = np.random.default_rng(0)
    number, few = rng.normal(size=N), np.arange(N) % 5
    return {
        "float": number,
        "float16": number.astype(np.float16),
        "integer": few,
        "unsigned": few.astype(np.uint64) * np.uint64(10**18),
        "huge": [2**60 + 2**50 * int(i) for i in few],
        "beyond int64": [10**30 + 10**29 * int(i) for i in few],
        "decimal": [Decimal(int(i)) / 4 for i in few],
        "boolean": few > 2,
        "mixed numbers": [1, 2.5, True, 7] * (N // 4),
        "text": np.array(list("abcde"))[few],
        "empty text": ["", "a"] * (N // 2),
        "numbers and text": [1, "a", 2.5, True] * (N // 4),
        "numbers as text": [f"{x:.2f}" for x in number],
        "codes": [f"{i:03d}" for i in few],
        "category": pd.Categorical(np.array(list("uvw"))[few % 3]),
        "category of numbers": pd.Categorical(few),
        "enum": [Colour.RED, Colour.BLUE] * (N // 2),
        "date": DAYS,
        "timestamp": pd.Series(TIMES),
        "timestamp with zone": pd.Series(TIMES).dt.tz_localize("Europe/Berlin"),
        "date as text": [str(day) for day in DAYS],
        "timestamp as text": [time.isoformat() for time in TIMES],
        "zone as text": [f"{time}+02:00" for time in TIMES],
        "duration": pd.Series([dt.timedelta(hours=int(i)) for i in few]),
        "duration objects": [dt.timedelta(hours=int(i)) for i in few],
        "time of day": [time.time() for time in TIMES],
        "time as text": [f"{time:%H:%M}" for time in TIMES],
        "constant": [1.0] * N,
        "missing": [None] * N,
        "a~1": number,
        "a missing": few,
        "c=u": number[::-1],
        "intercept": number**2,
        "": few % 2,
    }


def refused_kinds():
    few = np.arange(N) % 5
    return {
        "list": [[1, 2], [3]] * (N // 2),
        "dict": [{"a": 1}, {"a": 2}] * (N // 2),
        "bytes": [b"x", b"y"] * (N // 2),
        "complex": 1j * few,
        "object": [object() for _ in few],
        "infinite": [*([1.0] * (N - 1)), np.inf],
        "too large": [10**400 + int(i) for i in few],
        "typo": [*map(str, np.arange(N - 1) / 4), "1O.5"],
    }


KINDS = make_kinds()


def with_gaps(values, rows):
    found = (
        pd.Series(values)
        if hasattr(values, "dtype")
        else pd.Series([*values], dtype=object)
    )
    if found.dtype.kind in "biu" or found.dtype == "float16":
        found = found.astype(object)
    found = found.copy()
    found[rows] = None
    return found


# Laws.


@turns(2, library=LIBRARIES, seed=range(6))
def test_every_kind_of_column_is_fitted_and_predicted(library, seed):
    rng = np.random.default_rng(seed)
    names = rng.permutation([*KINDS])[:6].tolist()
    columns = {"t": np.array(list("xyz"))[np.arange(N) % 3], "a": rng.normal(size=N)}
    for name in names:
        rows = np.flatnonzero(rng.random(N) < 0.3)
        gappy = rng.random() < 0.5
        columns[name] = with_gaps(KINDS[name], rows) if gappy else KINDS[name]
    frame = build(library, columns)
    if frame is None:
        return
    y = rng.normal(size=N) + columns["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = quick(smooth=rng.choice(["auto", "none"]).item()).fit(frame, y)
        assert np.isfinite(model.predict(frame)).all()
        assert np.isfinite(model.predict_interval(frame)).all()
    shown = model[0].get_feature_names_out()
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", [*KINDS, *refused_kinds()])
def test_columns_are_read_or_refused_in_one_sentence_that_names_them(library, name):
    values = (KINDS | refused_kinds())[name]
    plain = {"t": [*range(4)] * (N // 4), "z": np.arange(N) / 7.0}
    for column in (values, with_gaps(values, np.arange(0, N, 5))):
        frame = build(library, plain | {name: column})
        if frame is None:
            continue
        said = refusal(TableFeatures("t").fit_transform, frame)
        assert bool(said) == (name in refused_kinds())
        also = refusal(MultiTaskRegressor(task="t").fit, frame, np.arange(N))
        for text in filter(None, (said, also)):
            assert repr(name) in text
            assert len(text) < 300


def refusal(fit, *arguments):
    """What an error says; nothing if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            fit(*arguments)
        except (ValueError, TypeError) as error:
            return str(error)
    return ""


DATES = {
    "dates": DAYS,
    "text": [str(day) for day in DAYS],
    "text with time": [f"{day} 00:00" for day in DAYS],
    "text with T": [f"{day}T00:00:00" for day in DAYS],
    "text with Z": [f"{day}T00:00:00.000Z" for day in DAYS],
    "text with zone": [f"{day}T02:00:00+02:00" for day in DAYS],
    "timestamps": pd.to_datetime(pd.Series(DAYS)),
    "timestamps with zone": pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("UTC"),
    "objects": pd.Series([np.datetime64(day) for day in DAYS], dtype=object),
    **{
        form: [f"{day:{form}}" for day in DAYS]
        for form in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%m-%d-%Y 00:00", "%Y/%m/%d")
    },
    **{
        form: [f"{day:{form}}" for day in DAYS]
        for form in ("%d %b %Y", "%d-%b-%Y", "%B %d, %Y", "%b. %d %Y", "%Y %b %d")
    },
    **{
        form: [f"{day:{form}}" for day in DAYS]
        for form in ("%m/%d/%y", "%d.%m.%y", "%d-%b-%y", "%A, %d %B %Y", "%Y%m%d")
    },
    "12 hours": [f"{day:%m/%d/%Y} 12:00 AM" for day in DAYS],
    "number": [int(f"{day:%Y%m%d}") for day in DAYS],
}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("library", [*LIBRARIES, "csv"])
def test_dates_are_the_same_in_any_form(library, gaps):
    task = np.arange(N) % 2
    seen = []
    first = TableFeatures("t").fit(build("pandas", {"t": task, "when": DATES["dates"]}))
    for form in DATES.values():
        column = with_gaps(form, [3, 7]) if gaps else form
        frame = build("pandas", {"t": task, "when": column})
        if library == "csv":
            text = frame.to_csv(index=False).encode()
            frame = csv.read_csv(io.BytesIO(text))
        else:
            frame = build(library, {"t": task, "when": column})
        if frame is None:
            continue
        features = TableFeatures("t")
        seen.append(features.fit_transform(frame).X)
        assert ("when missing" in features.get_feature_names_out()) == gaps
        # A model predicts from any form, too.
        assert first.transform(frame).X.shape[1] == seen[0].shape[1] - gaps
    assert len(seen) > 5
    assert all(np.array_equal(one, seen[0]) for one in seen)
    assert "when day of week~1" in features.get_feature_names_out()


def first_days(step):
    """First days of 48 months or quarters."""
    months = [1990 * 12 + step * i for i in range(N)]
    return [dt.date(month // 12, month % 12 + 1, 1) for month in months]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "form",
    ["%Y %b", "%b %Y", "%Y %B", "%B %Y", "%b-%Y", "%Y-%m", "%Y/%m", "%YM%m", "Q", "W"],
)
def test_months_quarters_and_weeks_are_their_first_days(library, form):
    days = first_days(3 if form == "Q" else 1)
    texts = [f"{day:{form}}" for day in days]
    if form == "Q":
        texts = [f"{day.year} Q{(day.month + 2) // 3}" for day in days]
    if form == "W":
        days = [dt.date(2019, 12, 30) + dt.timedelta(7 * i) for i in range(N)]
        texts = [f"{day:%G-W%V}" for day in days]
    task, other = np.arange(N) % 2, np.arange(N) % 5
    columns = {"t": task, "z": other, "when": texts}
    features = TableFeatures("t").fit(build("pandas", {**columns, "when": days}))
    read = TableFeatures("t").fit(build(library, columns))
    assert read.design_.terms == features.design_.terms
    # A single row is read as in training, whatever it may look like alone.
    alone = build(library, {name: values[20:21] for name, values in columns.items()})
    whole = features.transform(build("pandas", {**columns, "when": days})).X
    assert np.allclose(read.transform(alone).X[0], whole[20], rtol=1e-12)


@pytest.mark.parametrize(("first", "month"), [("%d/%m", 2), ("%m/%d", 1)])
def test_order_of_day_and_month_is_that_of_training(first, month):
    days = [dt.date(2023, 1, 1) + dt.timedelta(11 * i) for i in range(N)]
    columns = {"t": np.arange(N) % 3, "when": [f"{d:{first}/%Y}" for d in days]}
    model = TableFeatures("t", time="when").fit(build("pandas", columns))
    design = Design.from_plain(model.design_.to_plain())
    text = model.transform(build("pandas", {"t": [1], "when": ["01/02/2024"]}))
    dated = {"t": [1], "when": [dt.date(2024, month, 3 - month)]}
    assert text.time == model.transform(build("pandas", dated)).time
    assert np.array_equal(text.X, design.encode(build("pandas", dated)))
    other = {"t": [1], "when": ["05/31/2024" if month == 2 else "31/05/2024"]}
    with pytest.raises(ValueError, match=r"'when' must hold dates, .* as in fit"):
        model.transform(build("pandas", other))


@pytest.mark.parametrize(
    "texts",
    [
        [f"{year}-{(year + 1) % 100:02d}" for year in range(2000, 2012)],  # seasons
        [f"{1000 + 7 * i}-{i % 12 + 1:02d}" for i in range(24)],
        [f"{2020 + i}.1" for i in range(12)],
        [f"A{i} 2020" for i in range(1, 13)],
        [f"{i:02d}-{i + 1:02d}-20200" for i in range(1, 12)],
        ["2020-01", "2020-02"],
        ["31/02/2020", "28/02/2020"],
    ],
)
def test_codes_are_no_dates(texts):
    repeated = (texts * N)[:N]
    frame = pd.DataFrame({"t": np.arange(N) % 5, "z": np.arange(N), "code": repeated})
    design = TableFeatures("t").fit(frame).design_
    assert not any("dates" in (term.reads or "") for term in design.terms)


def test_years_as_text_are_numbers_and_ambiguous_dates_are_told():
    years = np.arange(N) % 20 + 1990
    columns = {"t": np.arange(N) % 2, "year": years}
    read = TableFeatures("t").fit(pd.DataFrame(columns))
    texts = TableFeatures("t").fit(pd.DataFrame({**columns, "year": years.astype(str)}))
    assert texts.design_.terms == read.design_.terms
    days = [f"{i % 4 + 1}/{i % 5 + 1}/2024" for i in range(N)]
    with pytest.warns(UserWarning, match="'when' is read as text: days and months"):
        TableFeatures("t").fit(pd.DataFrame({"t": 0, "z": years, "when": days}))


def test_durations_and_times_of_day_are_days():
    hours = np.arange(N) % 20
    frame = pd.DataFrame({"t": 0, "for": pd.to_timedelta(hours, "h")})
    frame["at"] = [dt.time(int(hour), 30) for hour in hours]
    frame["as text"] = [f"{hour:02d}:30" for hour in hours]
    frame["12 hours"] = [f"{dt.time(int(hour), 30):%I:%M %p}" for hour in hours]
    frame["short"] = [f"{hour}:30" for hour in hours]
    made = TableFeatures("t", "none").fit_transform(frame).to_frame()
    assert np.allclose(made["for"], hours / 24.0)
    assert np.allclose(made["at"], (hours + 0.5) / 24.0)
    for form in ("as text", "12 hours", "short"):
        assert np.allclose(made[form], made["at"])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n_values", [2, 3])
def test_categories_keep_their_gaps(library, n_values):
    rng = np.random.default_rng(0)
    code = rng.integers(0, n_values + 1, 120)
    values = [*"fmx"[:n_values], None]
    targets = np.array([*range(n_values), 5.0])[code]
    columns = {"t": np.arange(120) % 4, "sex": [values[i] for i in code]}
    model = quick().fit(build(library, columns), targets + 0.01 * rng.normal(size=120))
    assert model.score(build(library, columns), targets) > 0.99
    new = build(library, {"t": [0] * 4, "sex": ["f", "m", None, "other"]})
    with pytest.warns(UserWarning, match="Unknown category 'other'"):
        f, m, missing, other = model.predict(new)
    assert abs(missing - 5.0) < 0.1
    assert min(abs(other - f), abs(other - missing)) > 0.2
    assert abs(other - m) > 0.2 * (n_values == 2)


def test_new_values_of_two_categories_are_neither():
    table = pd.DataFrame({"t": np.arange(60) % 3, "sex": ["f", "m"] * 30})
    model = quick().fit(table, np.where(table["sex"] == "f", 0.0, 1.0))
    assert list(model[0].get_feature_names_out()) == ["sex=m"]
    with pytest.warns(UserWarning, match="Unknown category"):
        found = model.predict(pd.DataFrame({"t": [0, 0], "sex": ["x", None]}))
    assert np.allclose(found, 0.5, atol=0.05)


@pytest.mark.parametrize(
    ("value", "gap", "kind"),
    [
        (1.0, np.nan, "float64"),
        (1, pd.NA, "Int64"),
        (True, None, object),
        (True, pd.NA, "boolean"),
        ("x", None, object),
        ("x", pd.NA, "string"),
        ("x", pd.NA, object),
        (dt.date(2024, 1, 1), None, object),
        ("2024-01-01", None, object),
        (pd.Timestamp("2024-01-01"), pd.NaT, "datetime64[ns]"),
        (pd.Timedelta("1h"), pd.NaT, "timedelta64[ns]"),
    ],
)
def test_one_value_and_gaps_say_which_rows_have_it(value, gap, kind):
    rng = np.random.default_rng(0)
    gone = rng.random(90) < 0.4
    column = pd.Series([gap if g else value for g in gone], dtype=kind)
    table = pd.DataFrame({"t": np.arange(90) % 3, "c": column})
    y = 3.0 * gone + 0.1 * rng.normal(size=90)
    assert quick().fit(table, y).score(table, y) > 0.99


# Codes, measurements, identifiers and tasks.


def test_codes_may_have_words_among_them_and_measurements_may_not():
    rng = np.random.default_rng(0)
    codes = rng.choice([*map(str, range(110001, 110900, 53)), "Others"], 200)
    task, y = np.arange(200) % 4, rng.normal(size=200)
    names = (
        TableFeatures("t")
        .fit(pd.DataFrame({"t": task, "postcode": codes}))
        .get_feature_names_out()
    )
    assert "postcode=Others" in names
    for wrong, values in {
        "4o": rng.integers(18, 80, 200),
        "retired": rng.integers(18, 80, 200),
        "12 kg": rng.integers(1000, 9999, 200),
    }.items():
        column = np.append(values.astype(str)[1:], wrong)
        with pytest.raises(ValueError, match=f"'x' must hold numbers: got .{wrong[0]}"):
            quick().fit(pd.DataFrame({"t": task, "x": column}), y)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("marks", [".", "T", "?", "n/a", "NA", "…", ("-", "unknown")])
def test_marks_among_numbers_are_gaps(library, marks):
    rng = np.random.default_rng(0)
    x, task = rng.integers(18, 80, 200) / 4.0, np.arange(200) % 4
    y, gone = x + rng.normal(size=200) / 10.0, np.arange(200) % 9 == 0
    known = [float(v) if here else None for v, here in zip(x, ~gone, strict=True)]
    marked = [str(v) for v in x]
    for k, row in enumerate(np.flatnonzero(gone)):
        marked[row] = marks[k % len(marks)] if isinstance(marks, tuple) else marks
    model = quick().fit(library({"t": task, "x": marked}), y)
    twin = quick().fit(library({"t": task, "x": known}), y)
    found = model.predict(library({"t": task, "x": marked}))
    assert np.array_equal(found, twin.predict(library({"t": task, "x": known})))
    # Later tables may have them anywhere, and hold numbers otherwise.
    few = {"t": [0, 1, 2], "x": [12.0, None, 7.25]}
    later = [twin.predict(library(few)), model.predict(library(few))]
    texts = ["12", marks[0] if isinstance(marks, tuple) else marks, "7.25"]
    later.append(model.predict(library({**few, "x": texts})))
    assert np.array_equal(later[0], later[1])
    assert np.array_equal(later[0], later[2])
    (line,) = model.summary().columns
    spelled = "'-' and 'unknown'" if isinstance(marks, tuple) else repr(marks)
    assert line.became.endswith(f", with gaps for {spelled}")
    for one, other in ((model, "many"), (twin, texts[1])):  # that fit has not seen
        with pytest.raises(ValueError, match="'x' must hold numbers, as in fit"):
            one.predict(library({**few, "x": ["12", other, "7"]}))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "form", ["{:,.0f}", "${:,.2f}", "€{:.0f}", "{:.0f} kg", "{:.1f}%", "{:+,.0f} km/h"]
)
def test_numbers_as_people_write_them(library, form):
    rng = np.random.default_rng(0)
    texts = [form.format(x) for x in np.exp(rng.normal(8.0, 1.0, N))]
    plain = [float("".join(c for c in text if c in "+.0123456789")) for text in texts]
    task = np.arange(N) % 3
    twin = TableFeatures("t").fit(build(library, {"t": task, "x": plain}))
    read = TableFeatures("t").fit(build(library, {"t": task, "x": texts}))
    again = Design.from_plain(read.design_.to_plain())
    for rows in (slice(None), slice(3, 4)):  # a single row may have no separators
        part = build(library, {"t": task[rows], "x": texts[rows]})
        known = twin.transform(build(library, {"t": task[rows], "x": plain[rows]})).X
        assert np.array_equal(again.encode(part), known)
    with pytest.raises(ValueError, match=r"'x' must hold numbers in .*as in fit"):
        again.encode(build(library, {"t": [0], "x": ["12 lb"]}))


READINGS = {  # texts and their numbers, and the form of 44 others
    "limits": ("<5 >=90 ≤3 12+", (5, 90, 3, 12), "{}.5", lambda k: k + 0.5),
    "accounts": ("($12.5) \u2212$3.5 $7", (-12.5, -3.5, 7), "${}", lambda k: k),
    "spaces": ("1\u202f234 5'678", (1234, 5678), "{}.5", lambda k: k + 0.5),
    "money": ("USD12.5 USD1,200 -USD3", (12.5, 1200, -3), "USD {}", lambda k: k),
    "gaps": ("n/a - ? #DIV/0!", 4 * (None,), "{}.5", lambda k: k + 0.5),
    "minutes": ("59:30 0:01 n/a", (3570, 1, None), "{}:07", lambda k: 60 * k + 7),
    "hours": ("1:02:59 31:00:01", (3779, 111601), "{}:00:00", lambda k: 3600 * k),
    "parts": ("2h15m 45m 1day3min", (8100, 2700, 86580), "{}h", lambda k: 3600 * k),
    "dates": ("unknown 0000-00-00", (None, None), "", None),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", READINGS)
@pytest.mark.filterwarnings("ignore:column 'x' holds limits:UserWarning")
def test_other_forms_of_numbers_durations_and_gaps(library, name):
    first, known, form, number = READINGS[name]
    others = [7 * k % 60 + 1 for k in range(44)]
    texts = [*first.split(" "), *(form.format(k) for k in others)]
    if number is None:
        since = dt.date(2021, 1, 1)
        days = [since + dt.timedelta(11 * k) for k in others]
        texts, plain = [*first.split(" "), *map(str, days)], [*known, *days]
    else:
        plain = [*known, *map(number, others)]
        if name in ("minutes", "hours", "parts"):
            plain = [None if k is None else dt.timedelta(seconds=k) for k in plain]
    task = np.arange(len(texts)) % 3
    twin = TableFeatures("t").fit(build(library, {"t": task, "x": plain}))
    read = TableFeatures("t").fit(build(library, {"t": task, "x": texts}))
    again = Design.from_plain(read.design_.to_plain())
    for rows in (slice(None), slice(0, 1), slice(-1, None)):
        part = build(library, {"t": task[rows], "x": texts[rows]})
        same = build(library, {"t": task, "x": plain})
        assert np.allclose(again.encode(part), twin.transform(same).X[rows], atol=1e-12)


def test_texts_that_are_no_durations_or_limits_stay_text():
    task = np.arange(60) % 3
    for one in ("2:75", "45 minutes ago", "<b>", "3-5", "5/3", "1 h h"):
        texts = [one, *(f"{k % 20}h 3m" for k in range(59))]
        design = TableFeatures("t").fit(pd.DataFrame({"t": task, "x": texts})).design_
        assert not any("~" in name for name in design.names)


@pytest.mark.parametrize("form", ["{:.2f}", "{:,.2f}"])
def test_decimal_commas_are_told(form):
    swap = str.maketrans(".,", ",.")
    x = [form.format(i * 137.31).translate(swap) for i in range(N)]
    with pytest.raises(ValueError, match="'x' must hold numbers with decimal points"):
        TableFeatures("t").fit(pd.DataFrame({"t": np.arange(N) % 3, "x": x}))


def test_columns_that_are_the_target_are_told():
    table = pd.DataFrame({"t": np.arange(N) % 3, "x": np.arange(N) ** 2.0})
    with pytest.warns(UserWarning, match="'x' is equal to the target"):
        quick().fit(table, table["x"])


def test_marks_in_many_rows_or_of_many_kinds_are_told():
    rng = np.random.default_rng(0)
    task, y = np.arange(90) % 3, rng.normal(size=90)
    for texts in (["A", "B", "C"], ["T"] * 60):
        column = [*texts, *(str(v) for v in rng.normal(size=90 - len(texts)).round(3))]
        with pytest.raises(ValueError, match=r"'x' must hold numbers: got .[AT]"):
            quick().fit(pd.DataFrame({"t": task, "x": column}), y)


def test_identifiers_are_left_out_but_their_gaps_stay():
    table = pd.DataFrame({"t": np.arange(30) % 3, "z": np.arange(30.0)})
    table["name"] = [f"n{i}" for i in range(30)]
    with pytest.warns(UserWarning, match="'name' has 30 different texts in 30 rows"):
        assert TableFeatures("t").fit(table).design_.sources == ("z",)
    table.loc[::3, "name"] = None
    with pytest.warns(UserWarning, match="'name' has 20 different texts in 30 rows"):
        names = TableFeatures("t", "none").fit(table).get_feature_names_out()
    assert list(names) == ["z", "name missing"]


def test_columns_that_say_the_same_as_the_task_are_told():
    table = pd.DataFrame({"t": np.arange(30) % 3, "z": np.arange(30.0)})
    named = table.assign(city=np.array(["Rome", "Oslo", "Bonn"])[table["t"]])
    with pytest.warns(UserWarning, match="'city' says the same as the task 't'"):
        assert TableFeatures("t").fit(named).design_.sources == ("z",)
    with pytest.warns(UserWarning, match="'copy' is equal to the task 't'"):
        TableFeatures("t").fit(table.assign(copy=table["t"]))


# Names.


def named_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(size=(120, 5)), columns=["a", "a~1", "b", "c=u", "lag~1"]
    )
    table["lag~2"] = 100.0 * rng.normal(size=120)
    table["a missing"], table["c"] = table["b"] > 0, rng.choice(list("uv"), 120)
    table.loc[::7, "a"] = np.nan
    table["t"] = np.arange(120) % 4
    y = table["lag~1"] - table["lag~2"] / 100.0 + 2.0 * table["c=u"]
    return table, y + 0.1 * rng.normal(size=120)


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_may_be_named_like_features(library, tmp_path):
    table, y = named_table()
    known = FeaturePrior.nonpositive(["lag~2"]) + FeaturePrior.common(["lag~1"])
    model = quick(feature_prior=known).fit(build(library, table), y)
    names = [*model[-1].feature_names_in_]
    assert {"a", "a~1", "a missing", "`a~1`", "`a missing`", "c=v", "`c=u`"} < {*names}
    coef = model[-1].coef_[:, names.index("`lag~2`")]
    assert np.allclose(coef, -0.01, atol=2e-3)
    assert {"lag~1", "lag~2"} < {*model[0].design_.sources}
    save(model, tmp_path / "named.model")
    again = load(tmp_path / "named.model")
    assert np.array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize("task", ["a~1", "a missing"])
def test_the_task_may_be_named_like_a_feature(task):
    table, y = named_table()
    table = table.drop(columns=task).rename(columns={"t": task})
    names = quick(task=task).fit(table, y)[0].get_feature_names_out()
    assert task not in names
    assert {"`a`", "`a`~1", "`a` missing"} < {*names}


def test_wiggles_are_what_a_statement_says():
    table, y = named_table()
    lags = table[["lag~1", "lag~2"]]
    plain = lags.set_axis(["u", "v"], axis=1)
    fits = [
        MultiTaskRegressor(2.0, standardize=True, ties="adaptive", task_prior="mean")
        .fit(X, y, task=table["t"])
        .coef_
        for X in (lags, plain)
    ]
    assert np.allclose(*fits)
    table["a"] = table["a"].fillna(0.0)
    splines = SplineFeatures(["a"]).fit(table)
    made = splines.transform(table)
    assert list(made.columns) == list(splines.get_feature_names_out())
    assert {"a", "`a`~1", "a~1"} < set(made.columns)
    model = MultiTaskRegressor(feature_prior=FeaturePrior.smooth(["a"]), task="t")
    assert [s.feature for s in model.fit(made, y).summary().statements] == ["`a`"]


def test_encoded_columns_may_be_named_like_categories():
    frame = pd.DataFrame({"c": ["u", "v"] * 10, "c=u": np.arange(20.0)})
    model = MultiTaskRegressor().fit(frame, np.arange(20.0))
    assert list(model.feature_names_in_) == ["c=u", "c=v", "`c=u`"]
    assert np.isfinite(model.predict(frame)).all()


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ([0, 1, 2], "must have text as names: got 0"),
        (pd.MultiIndex.from_product([["x"], ["t", "a", "b"]]), r"got \('x', 't'\)"),
        (["t", "a", "a"], "different names"),
    ],
)
def test_names_must_be_different_texts(columns, match):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3)), columns=columns)
    with pytest.raises((TypeError, ValueError), match=match):
        quick().fit(table, np.arange(12.0))


def test_rows_are_taken_by_position():
    table, y = named_table()
    model = quick(smooth="none")
    found = model.fit(table, y).predict(table)
    index = np.arange(120) // 2
    twice = table.set_axis(index)
    again = model.fit(twice, pd.Series(y.to_numpy(), index=index)).predict(twice)
    assert np.array_equal(again, found)


# Targets.


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_targets_may_be_of_any_form(kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    table["t"] = np.arange(60) % 4
    y = np.sign(table["a"] * table["b"]).to_numpy()
    if kind == "classifier":
        y = np.where(y > 0, "yes", "no")
    forms = [
        y.tolist(),
        pd.DataFrame({"y": y}, index=rng.permutation(60)),
        *([pl.Series(y), pa.table({"y": y})] if kind == "regressor" else []),
    ]
    model = tabular_model(kind, task="t", cv=2)
    found = [model.fit(table, form).predict(table).tolist() for form in forms]
    assert model[-1].trees_weight_ > 0
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_rows_of_weight_zero_need_no_target(kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    table["t"] = np.arange(60) % 4
    y = np.sign(table["a"] * table["b"]).to_numpy()
    weight = 1.0 * (np.arange(60) > 5)
    gappy = pd.Series(np.where(weight > 0, y, np.nan))
    model = tabular_model(kind, task="t", cv=2)
    found = [
        model.fit(table, form, model__sample_weight=weight).predict(table)
        for form in (y, gappy if kind == "classifier" else gappy.to_numpy())
    ]
    assert np.array_equal(*found)
