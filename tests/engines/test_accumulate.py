"""Small batches are put together and large ones cut; the sums stay the same."""

import pyarrow as pa
import pytest

from mixed_rows import assert_same, mixed_frame, naive, to_arrow
from priormtl.engines import Recipe, accumulate, accumulate_batches
from priormtl.engines.accumulate import choose_rows, regroup

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


def test_small_batches_become_tables_of_some_rows():
    schema = pa.schema({"x": pa.int64()})
    batches = [
        pa.record_batch({"x": range(i)}, schema=schema) for i in (1, 2, 3, 0, 9, 1)
    ]
    assert [table.num_rows for table in regroup(batches, 5)] == [6, 9, 1]
    other = pa.record_batch({"x": [0.5]})
    assert [table.num_rows for table in regroup([batches[1], other], 5)] == [2, 1]
    empty = pa.table({"x": pa.array([], pa.int64())})
    assert [table.num_rows for table in regroup([empty], 5)] == [0]


def test_rows_follow_the_number_of_columns():
    assert choose_rows(32) == 2**16
    assert choose_rows(10**9) == accumulate.FEWEST_ROWS
    assert choose_rows(0) == 2**21
