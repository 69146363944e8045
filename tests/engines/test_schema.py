"""Schemas, the layouts of columns, and sentences about what cannot be."""

import warnings

import pyarrow as pa
import pytest
from pyarrow import csv

from priormtl.design import StrayTextError
from priormtl.engines import Schema, read_rows, summarize, summarize_sharded
from priormtl.engines.schema import (
    Column,
    Layout,
    Slot,
    check_texts,
    join_layouts,
)
from priormtl.exceptions import DataFileError

NAMES = ["school", "score", "age", "colour", "id"]


def test_equal_schemas_are_equal_values():
    one = Schema("school", "score", features=["age"], categories={"age": ["2", "1"]})
    other = Schema("school", "score", features=("age",), categories={"age": (1, 2, 2)})
    assert one == other
    assert hash(one) == hash(other)


def test_schemas_are_given_whole_or_by_their_fields():
    schema = Schema("school", "score", missing="drop")
    assert Schema.of(None, task="school", target="score", missing="drop") == schema
    assert Schema.of(schema) == schema
    assert Schema.of(schema, folds=3) == Schema(
        "school", "score", missing="drop", folds=3
    )
    table = pa.table({"x": [1.0, 3.0], "score": [0.0, 1.0], "school": ["u", "u"]})
    for read in (read_rows, summarize):
        whole, named = read(table, schema), read(table, task="school", target="score")
        assert (whole.dropped, named.dropped) == (0, 0)
    with pytest.raises(ValueError, match="folds and key need statistics"):
        read_rows(table, schema, folds=2)


def test_columns_of_a_table():
    schema = Schema("school", "score", key="id", folds=2)
    assert schema.feature_columns(NAMES) == ("age", "colour")
    assert schema.used_columns(NAMES) == ("school", "score", "id", "age", "colour")
    chosen = Schema("school", "score", features=["id", "age"], key="id", folds=2)
    assert chosen.used_columns(NAMES) == ("school", "score", "id", "age")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"missing": "men"}, "unknown policy for missing values 'men'.*'mean'"),
        ({"folds": 1}, "folds must be an integer from 2 on: got 1"),
        ({"folds": True}, "folds must be an integer"),
        ({"features": "age"}, "features must be a list of columns: got the text"),
        ({"features": ["score"]}, "'score' is given twice"),
        ({"weight": "school"}, "'school' is given twice"),
        ({"key": "school"}, "key must differ from the task column 'school'"),
    ],
)
def test_impossible_recipes_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Schema("school", "score", **settings)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema("scool", "score"), "unknown column 'scool'.*'school'"),
        (Schema("school", "score", features=["ag"]), "unknown column 'ag'"),
        (Schema("school", "score", categories={"hue": []}), "unknown column 'hue'"),
        (Schema("school", "score", features=[]), "needs features"),
    ],
)
def test_unknown_columns_are_refused(schema, message):
    with pytest.raises(ValueError, match=message):
        schema.used_columns(NAMES)


# Layouts.


SIZE, MARKED = Column("size"), Column("size", gaps=True)
COLOUR = Column("colour", ("blue", "red"), gaps=True)


def test_slots_are_features_then_the_mark():
    layout = Layout((SIZE, COLOUR))
    assert layout.slots() == [
        Slot("size"),
        Slot("colour", "blue"),
        Slot("colour", "red"),
        Slot("colour", is_mark=True),
    ]
    assert layout.starts() == [0, 1, 4]
    assert [part.tolist() for part in layout.filled()] == [[1, 2], [3, 3], [1, 1]]
    assert layout.kept().tolist() == [0, 1, 2]
    assert layout.features() == ("size", "colour=blue", "colour=red")


def test_no_gaps_fill_nothing():
    assert [len(part) for part in Layout((SIZE,)).filled()] == [0, 0, 0]


def test_joined_layouts_hold_both():
    green = Column("colour", ("green",))
    joined = join_layouts(Layout((SIZE, COLOUR)), Layout((MARKED, green)))
    assert joined.columns == (MARKED, Column("colour", ("blue", "green", "red"), True))
    assert join_layouts(joined, Layout((SIZE, COLOUR))) == joined


def test_a_column_with_the_name_of_a_category_is_quoted():
    layout = Layout((Column("colour=red"), COLOUR))
    assert layout.features() == ("`colour=red`", "colour=blue", "colour=red")


def test_too_many_values_after_a_join_are_refused():
    halves = [Column("c", tuple(f"{side}{i}" for i in range(600))) for side in "ab"]
    with pytest.raises(ValueError, match="'c' holds more than 1000"):
        join_layouts(*(Layout((half,)) for half in halves))


def test_columns_in_another_order_are_refused():
    with pytest.raises(ValueError, match="over the same columns"):
        join_layouts(Layout((SIZE, COLOUR)), Layout((COLOUR, SIZE)))


# Numbers among texts.


NUMBERS = [f"{i / 4}" for i in range(20)]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([text.replace(".", ",") for text in NUMBERS], "'0,0'"),
        (["-1e-3", *NUMBERS], "look like numbers:"),
    ],
)
def test_numbers_as_texts_are_told(values, word):
    with pytest.warns(UserWarning, match="column 'x' is text") as caught:
        check_texts("x", values)
    assert word in str(caught[0].message)


def test_a_few_texts_among_numbers_are_an_error():
    with pytest.raises(StrayTextError, match=r"'x' must hold numbers: got 'oops'"):
        check_texts("x", [*NUMBERS, "oops"])


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["1", "2", "3a"],
        ["f", "m"],
        [f"p{i}" for i in range(50)],
        [f"week {i}" for i in range(10, 30)],
        [*NUMBERS[:5], *"abcdefgh"],
    ],
)
def test_names_are_not(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_texts("x", values)


def test_dates_as_text_are_refused_as_dates_are():
    with pytest.raises(ValueError, match="'x' must hold numbers: got dates as text"):
        check_texts("x", [f"2020-01-{i}" for i in range(10, 30)])


def test_codes_may_have_words_among_them():
    postcodes = [f"{i:05d}" for i in range(1, 2000, 37)]
    check_texts("x", [*postcodes, "Others"])
    with pytest.raises(StrayTextError):
        check_texts("x", [*map(str, range(1, 90)), "unknown"])


def stray_table(n=42, bad=30):
    values = [str(i / 4) for i in range(n)]
    values[bad] = "oops"
    labels = ["a", "b"] * (n // 2)
    return pa.table({"x": values, "y": range(n), "t": labels})


@pytest.mark.parametrize("n", [42, 3000])
@pytest.mark.parametrize("read", [read_rows, summarize])
def test_tables_name_column_value_row_and_way_out(read, n, tmp_path):
    table = stray_table(n)
    words = (
        r"column 'x' must hold numbers: got 'oops' in row 31; correct it, or declare "
        r"the column as categorical \(--categories x, in Python categories={'x': \[\]}"
    )
    with pytest.raises(ValueError, match=words):
        read(table, task="t", target="y")
    csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("x,y,t\n1.5,2,a\n2.5,2,b\n")
    with pytest.raises(DataFileError, match=r"a\.csv: column 'x'.* in row 31;"):
        read(tmp_path / "a.csv", task="t", target="y", where="y >= 0")


def test_shards_name_them_too_and_leave_nothing(tmp_path):
    with pytest.raises(DataFileError, match=r"got 'oops' in row 31;"):
        summarize_sharded(stray_table(), tmp_path / "out", task="t", target="y")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read", [read_rows, summarize])
def test_columns_declared_as_categorical_have_the_values_that_occur(read):
    table = stray_table(20, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(table, task="t", target="y", categories={"x": table["x"].to_pylist()})
        found = read(table, task="t", target="y", categories={"x": []})
        numbers = pa.table({"x": [1, 2, 1, 3], "y": range(4), "t": list("aabb")})
        coded = read(numbers, task="t", target="y", categories={"x": []})

    def names(result):
        whole = getattr(result, "whole", None)
        return list(result.design if whole is None else whole.features)

    assert "x=oops" in names(found)
    assert len(names(found)) == 20
    assert names(coded) == ["x=1", "x=2", "x=3"]


def test_a_schema_of_many_declared_values_is_refused():
    table = stray_table(3000)
    with pytest.raises(ValueError, match="more than 1000 different texts"):
        read_rows(table, task="t", target="y", categories={"x": []})
