"""Small batches are put together and large ones cut; the sums stay the same."""

import pyarrow as pa
import pytest

from mixed_rows import assert_same, mixed_frame, naive, to_arrow
from priormtl.engines import Recipe, accumulate, accumulate_batches
from priormtl.engines.accumulate import choose_rows, enough_rows, regroup

RECIPE = Recipe("school", "score", "w", ("size", "colour", "count"), missing="mean")


@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("cells", [1, 900, 2**21])
def test_any_batches_and_pieces_give_the_whole(rows, cells, monkeypatch):
    monkeypatch.setattr(accumulate, "CELLS", cells)
    monkeypatch.setattr(accumulate, "FEWEST_ROWS", 16)
    monkeypatch.setattr(accumulate, "FIRST_ROWS", 5)
    frame = mixed_frame(gaps=0.2)
    batches = to_arrow(frame).to_batches(max_chunksize=rows)
    found = accumulate_batches(RECIPE, batches).finish()
    assert_same(found.whole, naive(frame, "mean"))


def test_no_batches_are_nothing():
    assert accumulate_batches(RECIPE, []) is None


def test_no_piece_is_larger_than_its_share(monkeypatch):
    seen = []
    summarize = accumulate.summarize_batch

    def spy(recipe, table):
        seen.append(table.num_rows)
        return summarize(recipe, table)

    monkeypatch.setattr(accumulate, "summarize_batch", spy)
    monkeypatch.setattr(accumulate, "CELLS", 10 * 7)
    monkeypatch.setattr(accumulate, "FEWEST_ROWS", 4)
    monkeypatch.setattr(accumulate, "FIRST_ROWS", 50)
    accumulate_batches(RECIPE, [to_arrow(mixed_frame(gaps=0.2))])
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
    partial = accumulate_batches(Recipe("t", "y"), [table])
    assert enough_rows(partial) == choose_rows(2)
    assert enough_rows(None) == accumulate.FIRST_ROWS


def test_rows_of_large_statistics_are_half_as_large(monkeypatch):
    monkeypatch.setattr(accumulate, "CELLS", 2)
    tasks = range(3000)
    table = pa.table({"x": tasks, "z": tasks, "t": tasks, "y": tasks})
    partial = accumulate_batches(Recipe("t", "y"), [table])
    assert enough_rows(partial) * 2 == partial.parts[0].xx.size / 2


def test_rows_follow_the_number_of_columns():
    assert choose_rows(32) == 2**16
    assert choose_rows(10**9) == accumulate.FEWEST_ROWS
    assert choose_rows(0) == 2**21
