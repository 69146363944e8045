"""Tables as values: long ones are cut and counted, numbers are spelled alike."""

import math

import pytest

from priormtl.tables import NOTHING, build_table, count_words, spell_number


@pytest.mark.parametrize("most", [None, 0, 2, 5, 9])
def test_what_is_cut_is_counted(most):
    table = build_table("t", ["i"], [[i] for i in range(5)], most=most, what="tasks")
    left_out = 5 - len(table.rows)
    assert table.notes == ((f"… and {left_out} more tasks.",) if left_out else ())
    assert [row.label for row in table.rows] == [str(i) for i in range(5)][:most]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, NOTHING),
        (math.nan, NOTHING),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (0.0, "0"),
        (-1.23456, "−1.235"),
        (1e-9, "1e−09"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_spelled_with_four_digits(value, words):
    assert spell_number(value) == words


def test_cells_hold_words_and_numbers():
    (row,) = build_table("t", ["a", "b", "c"], [["x", 7, None]]).rows
    assert (row.label, [cell.text for cell in row.cells]) == ("x", ["7", NOTHING])


def test_one_is_not_many():
    assert (count_words(1, "task"), count_words(2, "task")) == ("1 task", "2 tasks")
    assert count_words(1000, "task") == "1,000 tasks"
