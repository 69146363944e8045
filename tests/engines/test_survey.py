"""What is learned of all rows is the same in any batches, and is what partials know."""

from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pytest

from mixed_rows import mixed_frame, to_arrow
from priormtl.engines import Recipe, summarize_batch
from priormtl.engines.batches import read_batch
from priormtl.engines.survey import Survey

FEATURES = ("size", "colour", "count")


def look(recipe, table):
    reading = read_batch(recipe, table)
    return Survey.of(reading, table.num_rows, recipe.folds or 1)


@pytest.mark.parametrize("missing", ["drop", "mean"])
@pytest.mark.parametrize("rows", [1, 7, 200])
def test_a_survey_knows_what_the_partial_knows(missing, rows):
    table = to_arrow(mixed_frame(gaps=0.2))
    recipe = Recipe("school", "score", "w", FEATURES, missing=missing, folds=3)
    parts = [look(recipe, table.slice(i, rows)) for i in range(0, 200, rows)]
    found, partial = reduce(add, parts), summarize_batch(recipe, table)
    assert found.layout == partial.layout
    assert found.tasks == partial.tasks
    assert [found.counts[task] for task in found.tasks] == partial.counts.tolist()
    assert (found.rows, found.dropped) == (partial.rows, partial.dropped)
    np.testing.assert_allclose(found.centre(), partial.centre, rtol=1e-12)
    np.testing.assert_allclose(found.observed, partial.observed, rtol=1e-12)
    np.testing.assert_allclose(found.fold_weight, partial.fold_weight, rtol=1e-12)


def test_surveys_commute():
    table = to_arrow(mixed_frame(gaps=0.2))
    recipe = Recipe("school", "score", "w", FEATURES, missing="mean")
    a, b = look(recipe, table.slice(0, 90)), look(recipe, table.slice(90))
    assert (a + b).layout == (b + a).layout
    assert (a + b).tasks == (b + a).tasks
    np.testing.assert_array_equal((a + b).centre(), (b + a).centre())


def test_a_column_of_gaps_has_no_mean():
    rows = pa.table({"x": pa.nulls(2, pa.float64()), "y": [0.0, 1.0], "t": [1, 2]})
    found = look(Recipe("t", "y", missing="mean"), rows)
    assert found.centre().tolist() == [0.0, 0.0]
    assert found.observed.tolist() == [0.0]


def test_other_things_do_not_add():
    rows = pa.table({"x": [1.0], "y": [0.0], "t": [1]})
    with pytest.raises(TypeError):
        look(Recipe("t", "y"), rows) + 1
