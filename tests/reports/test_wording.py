"""Words: numbers with a true minus, and names that any file holds."""

import pytest

from priormtl.reports.wording import (
    LONGEST_LABEL,
    join_names,
    percent,
    spell,
    spell_label,
)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0.0, "0"),
        (-1.5, "−1.5"),
        (123456.0, "123,500"),
        (1e-9, "1e−09"),
        (1e300, "1e+300"),
        (float("nan"), "unknown"),
        (-float("inf"), "−∞"),
        (0.12345678, "0.1235"),
    ],
)
def test_numbers_are_spelled(number, words):
    assert spell(number) == words


def test_shares_are_percentages():
    assert percent(0.1234) == "12 %"
    assert percent(-0.0123) == "−1.2 %"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_names_are_joined(names, words):
    assert join_names(names) == words


def test_any_label_becomes_text_that_can_be_written():
    assert spell_label(("a", 1)) == "('a', 1)"
    assert spell_label("\ud800x").encode()
    assert len(spell_label("x" * 1000)) == LONGEST_LABEL
