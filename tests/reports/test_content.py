"""Content: tables that are cut count what they lost."""

import numpy as np
import pytest

from priormtl.reports import Column, Table

TABLE = Table(
    "t",
    "T",
    (Column("name", "Name", ("a", "b", "c")), Column("x", "X", np.arange(3.0))),
)


def test_rows_are_taken_in_the_order_asked_for():
    cut = TABLE.take(np.array([2, 0]))
    assert cut["name"] == ("c", "a")
    assert cut["x"].tolist() == [2.0, 0.0]
    assert cut.left_out == 1
    assert len(cut) == 2


def test_what_was_left_out_adds_up():
    assert TABLE.take(np.array([0, 1])).take(np.array([0])).left_out == 2


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        TABLE.title = "other"
