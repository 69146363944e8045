"""Numbers that were read as text are told, names are not."""

import warnings

import pyarrow as pa
import pytest

from priormtl.engines import read_rows, summarize
from priormtl.engines.numeric_texts import warn_of_numbers

NUMBERS = [f"{i / 4}" for i in range(20)]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([*NUMBERS, "oops"], "'oops'"),
        ([text.replace(".", ",") for text in NUMBERS], "'0,0'"),
        (["-1e-3", *NUMBERS], "look like numbers:"),
    ],
)
def test_numbers_among_texts_are_told(values, word):
    with pytest.warns(UserWarning, match="column 'x' is text") as caught:
        warn_of_numbers("x", values)
    assert word in str(caught[0].message)


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["1", "2", "3a"],
        ["f", "m"],
        [f"p{i}" for i in range(50)],
        [f"2020-01-{i}" for i in range(10, 30)],
        [*NUMBERS[:5], *"abcdefgh"],
    ],
)
def test_names_are_not(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_numbers("x", values)


@pytest.mark.parametrize("read", [read_rows, summarize])
def test_tables_tell_once_and_not_where_categories_are_declared(read):
    values = [*NUMBERS, "oops"] * 2
    n = len(values)
    table = pa.table({"x": values, "y": range(n), "t": ["a", "b"] * (n // 2)})
    with pytest.warns(UserWarning, match="'oops'") as caught:
        read(table, task="t", target="y")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(table, task="t", target="y", categories={"x": sorted(set(values))})
