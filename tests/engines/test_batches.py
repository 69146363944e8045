"""The map step: any batches of rows give the statistics of their rows."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from drawn_tables import assert_same_columns, mixed_frame, summarize_naively, to_arrow
from priormtl import summarize
from priormtl.engines import (
    Schema,
    accumulate_batches,
    summarize_batch,
)
from priormtl.engines import batches as engine
from priormtl.engines.batches import choose_rows, enough_rows, regroup

FEATURES = ("size", "colour", "count")


def schema(**settings):
    return Schema("school", "score", "w", FEATURES, **settings)


@pytest.mark.parametrize("missing", ["error", "drop", "mean"])
def test_a_batch_without_gaps_is_its_rows(missing):
    frame = mixed_frame()
    found = summarize_batch(schema(missing=missing), to_arrow(frame)).finish()
    assert_same_columns(found.whole, summarize_naively(frame))
    assert (found.rows, found.dropped) == (200, 0)
    assert found.categories == {"colour": ("amber", "blue", "green", "red")}
    assert found.counts == frame["school"].value_counts().to_dict()


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_gaps_by_policy(missing):
    frame = mixed_frame(gaps=0.2)
    found = summarize_batch(schema(missing=missing), to_arrow(frame)).finish()
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    dropped = frame.isna().any(axis=1).sum() if missing == "drop" else 0
    assert found.dropped == dropped


def test_gaps_are_an_error_by_default():
    frame = mixed_frame(gaps=0.2)
    lacking = frame["size"].isna().sum()
    with pytest.raises(ValueError, match=f"column 'size' lacks {lacking} of 200"):
        summarize_batch(schema(), to_arrow(frame))


@pytest.mark.parametrize("name", ["school", "score", "w"])
@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_rows_without_task_target_or_weight_are_dropped(name, missing):
    frame = mixed_frame()
    frame.loc[:10, name] = None
    found = summarize_batch(schema(missing=missing), to_arrow(frame)).finish()
    assert_same_columns(found.whole, summarize_naively(frame.iloc[11:]))
    assert found.dropped == 11
    with pytest.raises(ValueError, match=f"column '{name}' lacks 11"):
        summarize_batch(schema(), to_arrow(frame))


def test_nan_is_a_gap():
    rows = pa.table({"x": [1.0, np.nan, 5.0], "y": [0.0, 1.0, 2.0], "t": [0, 0, 0]})
    found = summarize_batch(Schema("t", "y", missing="mean"), rows).finish()
    assert found.whole.x_mean.tolist() == [[3.0]]
    assert found.whole.xx.tolist() == [[[8.0]]]


def test_rows_of_weight_zero_count_as_absent():
    frame = mixed_frame()
    frame.loc[frame["school"] == "b", "w"] = 0.0
    frame.loc[frame["colour"] == "red", "w"] = 0.0
    found = summarize_batch(schema(), to_arrow(frame)).finish()
    assert_same_columns(found.whole, summarize_naively(frame[frame["w"] > 0]))
    assert "b" not in found.counts
    assert "red" not in found.categories["colour"]


def test_without_weights_all_rows_count_alike():
    frame = mixed_frame()
    plain = Schema("school", "score", features=FEATURES)
    found = summarize_batch(plain, to_arrow(frame)).finish()
    assert_same_columns(found.whole, summarize_naively(frame, weighted=False))


def test_all_other_columns_are_features_but_the_key():
    table = to_arrow(mixed_frame()).drop_columns(["colour"])
    found = summarize_batch(Schema("school", "score", folds=2, key="id"), table)
    assert found.finish().whole.features.names == ("size", "count", "w")


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_texts_of_any_type_are_alike(kind):
    frame = mixed_frame(gaps=0.1)
    table = to_arrow(frame)
    for name in ("colour", "school"):
        column = table[name].cast(pa.string())
        is_coded = pa.types.is_dictionary(kind)
        other = column.dictionary_encode() if is_coded else column.cast(kind)
        table = table.set_column(table.column_names.index(name), name, other)
    found = summarize_batch(schema(missing="mean"), table).finish()
    assert_same_columns(found.whole, summarize_naively(frame, "mean"))


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint16(), pa.float16(), pa.float32(), pa.decimal128(21, 2)],
)
def test_numbers_of_any_type_are_alike(kind):
    values = [1, None, 3, 5]
    rows = {"x": pa.array(values, pa.int64()).cast(kind), "y": range(4), "t": [0] * 4}
    found = summarize_batch(Schema("t", "y", missing="mean"), pa.table(rows)).finish()
    assert found.whole.x_mean.tolist() == [[3.0]]


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3],
        [2.5, -0.0, 2.5],
        ["v", "ü", "v"],
        [True, False, True],
        [datetime.date(2020, 1, 2), datetime.date(2019, 1, 1)] * 2,
        [datetime.datetime(2020, 1, 2), datetime.datetime(2019, 1, 1)] * 2,
    ],
)
def test_task_labels_of_any_type(labels):
    n = len(labels)
    rows = pa.table({"x": np.arange(n), "y": np.arange(n), "t": labels})
    found = summarize_batch(Schema("t", "y"), rows).finish().whole
    expected = summarize(np.arange(n)[:, np.newaxis], np.arange(n), labels)
    assert found.tasks == expected.tasks == tuple(sorted(set(labels)))
    assert found.weight.tolist() == expected.weight.tolist()


def test_floats_that_are_no_number_are_no_task():
    rows = pa.table({"x": [1, 2, 3], "y": [1, 2, 3], "t": [2.0, np.nan, 1.0]})
    found = summarize_batch(Schema("t", "y", missing="drop"), rows).finish()
    assert found.whole.tasks == (1.0, 2.0)
    assert found.whole.x_mean.tolist() == [[3.0], [1.0]]


def test_declared_categories_are_features_though_unseen():
    rows = pa.table({"c": [3, 1, None], "y": [1.0, 2.0, 3.0], "t": [0, 0, 0]})
    declared = Schema("t", "y", categories={"c": ["3", "2", "1"]}, missing="mean")
    found = summarize_batch(declared, rows).finish()
    assert found.whole.features.names == ("c=1", "c=2", "c=3")
    np.testing.assert_allclose(found.whole.x_mean, [[0.5, 0.0, 0.5]])
    with pytest.raises(ValueError, match="'c' holds '3', which is not among"):
        summarize_batch(Schema("t", "y", categories={"c": ["1"]}), rows)


def test_no_rows_are_a_partial_that_changes_nothing():
    table = to_arrow(mixed_frame())
    nothing = summarize_batch(schema(), table.slice(0, 0))
    some = summarize_batch(schema(), table)
    assert nothing.tasks == ()
    assert_same_columns((nothing + some).finish().whole, some.finish().whole)
    assert_same_columns((some + nothing).finish().whole, some.finish().whole)
    with pytest.raises(ValueError, match="there must be rows to learn from: 0 were"):
        (nothing + nothing).finish()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [1.0, np.inf]}, "column 'x' must hold finite numbers"),
        ({"y": [1.0, -1e101]}, "column 'y' must hold finite numbers"),
        ({"y": ["1", "2"]}, "column 'y' must hold numbers: got string"),
        ({"x": [datetime.date(2020, 1, 1)] * 2}, "column 'x' must hold numbers"),
        ({"t": [[1], [2]]}, "column 't' must hold text, numbers or dates"),
        ({"w": [1.0, -1.0]}, "column 'w' must hold nonnegative weights"),
    ],
)
def test_what_cannot_be_used_is_named(change, message):
    rows = {"x": [1.0, 2.0], "y": [1.0, 2.0], "t": [1, 1], "w": [1.0, 1.0]} | change
    with pytest.raises(ValueError, match=message):
        summarize_batch(Schema("t", "y", "w"), pa.table(rows))


def test_many_texts_are_no_categories():
    names = [str(i) for i in range(1001)]
    rows = pa.table({"x": names, "y": range(1001), "t": [1] * 1001})
    with pytest.raises(ValueError, match="column 'x' holds more than 1000 different"):
        summarize_batch(Schema("t", "y"), rows)


def test_a_column_without_values_is_named():
    rows = pa.table({"x": [None, None], "y": [1.0, 2.0], "t": [1, 1]})
    partial = summarize_batch(Schema("t", "y", missing="mean"), rows)
    with pytest.raises(ValueError, match="column 'x' has no values at all"):
        partial.finish()


# Many batches.


FILLING = Schema("school", "score", "w", ("size", "colour", "count"), missing="mean")


@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("cells", [1, 900, 2**21])
def test_any_batches_and_pieces_give_the_whole(rows, cells, monkeypatch):
    monkeypatch.setattr(engine, "CELLS", cells)
    monkeypatch.setattr(engine, "FEWEST_ROWS", 16)
    monkeypatch.setattr(engine, "FIRST_ROWS", 5)
    frame = mixed_frame(gaps=0.2)
    batches = to_arrow(frame).to_batches(max_chunksize=rows)
    found = accumulate_batches(FILLING, batches).finish()
    assert_same_columns(found.whole, summarize_naively(frame, "mean"))


def test_no_batches_are_nothing():
    assert accumulate_batches(FILLING, []) is None


def test_no_piece_is_larger_than_its_share(monkeypatch):
    seen = []
    summarize = engine.summarize_batch

    def spy(schema, table):
        seen.append(table.num_rows)
        return summarize(schema, table)

    monkeypatch.setattr(engine, "summarize_batch", spy)
    monkeypatch.setattr(engine, "CELLS", 10 * 7)
    monkeypatch.setattr(engine, "FEWEST_ROWS", 4)
    monkeypatch.setattr(engine, "FIRST_ROWS", 50)
    accumulate_batches(FILLING, [to_arrow(mixed_frame(gaps=0.2))])
    assert seen[0] == 50
    assert max(seen[1:]) <= 10
    assert sum(seen) == 200


def test_small_tables_are_put_together():
    schema = pa.schema({"x": pa.int64()})
    tables = [pa.table({"x": range(i)}, schema=schema) for i in (1, 2, 3, 0, 9, 1)]

    def counts(tables):
        groups = regroup(tables, lambda: 5)
        return [[table.num_rows for table in group] for group in groups]

    assert counts(tables) == [[1, 2, 3], [0, 9], [1]]
    assert counts([tables[1], pa.table({"x": [0.5]})]) == [[2], [1]]
    assert counts([tables[3]]) == [[0]]


def test_large_statistics_want_many_rows():
    tasks = range(3000)
    table = pa.table({"x": tasks, "z": tasks, "t": tasks, "y": tasks})
    partial = accumulate_batches(Schema("t", "y"), [table])
    assert enough_rows(partial) == choose_rows(2)
    assert enough_rows(None) == engine.FIRST_ROWS


def test_rows_of_large_statistics_are_half_as_large(monkeypatch):
    monkeypatch.setattr(engine, "CELLS", 2)
    tasks = range(3000)
    table = pa.table({"x": tasks, "z": tasks, "t": tasks, "y": tasks})
    partial = accumulate_batches(Schema("t", "y"), [table])
    assert enough_rows(partial) * 2 == partial.parts[0].xx.size / 2


def test_rows_follow_the_number_of_columns():
    assert choose_rows(32) == 2**16
    assert choose_rows(10**9) == engine.FEWEST_ROWS
    assert choose_rows(0) == 2**21
