"""Design: raw tables become the features that a fit saw, in any library."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from priormtl import TaskStatistics, summarize
from priormtl.data import pooled_means
from priormtl.design import Categories, Design, Line, as_frame, learn_plain

COLUMNS = (
    Line("size", "size"),
    Categories("colour", "colour", ("blue", "red")),
    Line("n", "n"),
)
DESIGN = Design(COLUMNS, "mean", "school", "score").with_means(
    np.array([9, 0.25, 0.75, 7])
)
RAW = {"n": [1, 2, 3], "colour": ["red", "blue", "red"], "size": [0.5, 1.5, 2.5]}
FEATURES = [[0.5, 0, 1, 1], [1.5, 1, 0, 2], [2.5, 0, 1, 3]]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
each_library = pytest.mark.parametrize("build", LIBRARIES.values(), ids=LIBRARIES)


@each_library
def test_columns_are_found_by_name_and_others_are_ignored(build):
    table = build({"other": [None, "x", "y"]} | RAW)
    np.testing.assert_array_equal(DESIGN.encode(table), FEATURES)


@each_library
def test_design_twice_is_design_once(build):
    encoded = dict(zip(DESIGN.names, np.array(FEATURES).T, strict=True))
    np.testing.assert_array_equal(DESIGN.encode(build(encoded)), FEATURES)


@each_library
def test_gaps_become_means(build):
    table = build({"size": [None, 1.5], "colour": ["red", None], "n": [1, None]})
    expected = [[9, 0, 1, 1], [1.5, 0.25, 0.75, 7]]
    np.testing.assert_array_equal(DESIGN.encode(table), expected)
    assert DESIGN.gaps(table).tolist() == [True, True]


@each_library
def test_a_column_of_gaps_alone_is_filled_too(build):
    table = build({"size": [None, None], "colour": [None, None], "n": [1, 2]})
    expected = [[9, 0.25, 0.75, 1], [9, 0.25, 0.75, 2]]
    np.testing.assert_array_equal(DESIGN.encode(table), expected)


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_gaps_are_refused_where_they_were(missing):
    design = Design(COLUMNS, missing)
    table = pa.table(RAW | {"colour": ["red", None, None]})
    with pytest.raises(ValueError, match="column 'colour' lacks 2 of 3 values"):
        design.encode(table)
    assert design.gaps(table).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([True, False], ("false", "true")),
        ([2, 10], ("10", "2")),
        ([2.0, np.nan], ("10", "2")),
        ([2.5, 1.0], ("1", "2.5")),
        (pd.Categorical(["b", "a"]), ("a", "b")),
        (["ä", "雪"], ("ä", "雪")),
        ([Decimal("1.5"), None], ("1.5",)),
    ],
)
def test_categories_of_other_kinds_are_their_texts(values, categories):
    design = Design((Categories("c", "c", categories),), "mean")
    design = design.with_means(np.zeros(len(categories)))
    table = pd.DataFrame({"c": values})
    texts = [None if pd.isna(v) else str(v).lower() for v in values]
    texts = [t and t.removesuffix(".0") for t in texts]
    expected = [[float(c == t) for c in categories] for t in texts]
    np.testing.assert_array_equal(design.encode(table), expected)


def test_new_categories_are_said_once_and_count_as_none():
    table = pa.table(RAW | {"colour": ["red", "blu", "bleu"]})
    with pytest.warns(UserWarning, match="Unknown category 'bleu' in column 'colour'"):
        found = DESIGN.encode(table)
    colours = [name.startswith("colour=") for name in DESIGN.names]
    assert found[0, colours].sum() == 1.0
    assert not found[1:, colours].any()


def test_frames_with_text_are_encoded_as_files_are():
    table = pd.DataFrame({"n": [1.0, 2.0, 3.0], "c": ["b", None, "a"]})
    design, _ = learn_plain(as_frame(table))
    assert design.names == ("n", "c=a", "c=b")
    assert not design.is_plain
    assert learn_plain(as_frame(table[["n"]]))[0].is_plain


def test_absent_columns_are_named_with_the_nearest():
    table = pa.table(RAW).rename_columns(["n", "color", "size"])
    with pytest.raises(ValueError, match=r"lacks the column 'colour'.*mean 'color'\?"):
        DESIGN.encode(table)


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="column 'size' must hold numbers, as in fit"):
        DESIGN.encode(pa.table(RAW | {"size": ["a", "b", "c"]}))
    with pytest.raises(ValueError, match="column 'n' contains inf"):
        DESIGN.encode(pa.table(RAW | {"n": [1, float("inf"), 2]}))
    with pytest.raises(TypeError, match="must be a data frame"):
        DESIGN.encode(np.ones((2, 4)))


def test_sums_commute_and_keep_the_milder_policy():
    a, b = Design(COLUMNS, "error", "t"), Design(COLUMNS, "drop", "t")
    assert a + b == b + a == Design(COLUMNS, "drop", "t")
    assert (a + a) == a
    assert (DESIGN + a).task is None
    other = Design((Line("size", "size"), *COLUMNS[2:]), "drop")
    with pytest.raises(ValueError, match=r"the same columns.*'colour'"):
        a + other


@pytest.mark.parametrize("design", [DESIGN, Design.of_names(["a", "b"])])
def test_plain_values_come_back(design):
    plain = json.loads(json.dumps(design.to_plain()))
    assert Design.from_plain(plain) == design


@pytest.mark.parametrize(
    "change",
    [
        {"terms": [Line("a", "a").to_plain() | {"source": 1}]},
        {"terms": [Line("a", "a").to_plain() | {"kind": "guess"}]},
        {"terms": [Categories("a", "a", (1,)).to_plain()]},
        {"missing": "guess"},
        {"task": 3},
    ],
)
def test_other_plain_values_are_refused(change):
    with pytest.raises((TypeError, ValueError, KeyError)):
        Design.from_plain(DESIGN.to_plain() | change)


def test_statistics_keep_it_through_sums_and_files(tmp_path):
    known = Design(COLUMNS, "drop", "school")
    table = pd.DataFrame(FEATURES, columns=list(DESIGN.names))
    b = summarize(table, [1.0, 2.0, 3.0], ["u", "u", "v"])
    a = replace(b, features=known)
    assert (a + b).features == (b + a).features == (a + a).features == known
    (a + b).save(tmp_path / "a.stats")
    assert TaskStatistics.load(tmp_path / "a.stats").features == known
    np.testing.assert_allclose(pooled_means(a), np.mean(FEATURES, axis=0))
