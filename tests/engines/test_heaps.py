"""Rows of a task lie in one heap, all of them, and can be had by tasks."""

import pyarrow as pa
import pytest

from mixed_rows import mixed_frame, to_arrow
from priormtl.engines import Recipe
from priormtl.engines.heaps import Heaps
from priormtl.engines.spill import Spill

RECIPE = Recipe("school", "score", "w", ("size", "colour", "count"), missing="drop")


@pytest.fixture
def spill(tmp_path):
    with Spill(tmp_path, 2) as spill:
        yield spill


def test_every_row_that_counts_lies_in_the_heap_of_its_task(spill):
    table = to_arrow(mixed_frame(gaps=0.1))
    heaps = Heaps(RECIPE, spill)
    for start in range(0, 200, 33):
        heaps.add(table.slice(start, 33))
    found, seen = [], []
    for heap, tasks in heaps.tasks():
        rows = pa.concat_tables(heaps.rows(heap, tasks))
        assert set(rows["school"].to_pylist()) == set(tasks)
        found += rows["id"].to_pylist()
        seen += tasks
    kept = mixed_frame(gaps=0.1).dropna()
    assert sorted(found) == kept["id"].tolist()
    assert sorted(seen) == list(heaps.survey.tasks) == list("abcde")
    assert heaps.survey.rows == 200


def test_rows_of_some_tasks_of_a_heap(spill):
    heaps = Heaps(RECIPE, spill)
    heaps.add(to_arrow(mixed_frame()))
    heap, tasks = next(heaps.tasks())
    assert len(tasks) == 3
    rows = pa.concat_tables(heaps.rows(heap, tasks[1:2]))
    kept = mixed_frame().query("school == @tasks[1]")
    assert sorted(rows["id"].to_pylist()) == kept["id"].tolist()


def test_labels_that_are_equal_are_one_task_whatever_their_type(spill):
    heaps = Heaps(Recipe("t", "y"), spill)
    for labels in ([1, 2], [2.0, 1.0], [True]):
        n = len(labels)
        heaps.add(pa.table({"t": labels, "x": [1.0] * n, "y": [0.0] * n}))
    assert heaps.survey.counts == {1: 3, 2: 2}
    sizes = [
        sum(table.num_rows for table in heaps.rows(heap, tasks))
        for heap, tasks in heaps.tasks()
    ]
    assert sizes == [3, 2]
