"""Words in LaTeX: what stands there is what was said."""

import pytest

from priormtl.tables.latex_words import SIGNS, in_latex


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("grösse", "grösse"),
        ("e\u0301", "é"),
        ("R² ≥ 5 µm", r"R\ensuremath{^{2}} \ensuremath{\geq} 5 \ensuremath{\mu}m"),
        ("10⁻³", r"10\ensuremath{^{-}}\ensuremath{^{3}}"),
        ("H₂O", r"H\ensuremath{_{2}}O"),
        ("λΑ", r"\ensuremath{\lambda}A"),
        ("特徴 🎉", "特徴 🎉"),
        ("", ""),
    ],
)
def test_letters_and_signs(words, expected):
    assert in_latex(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a--b---c", "a-{}-b-{}-{}-c"),
        (",,x''", ",{},x'{}'"),
        ("?`|x|", r"?\textasciigrave{}\textbar{}x\textbar{}"),
        ("a–b “c”", "a--b ``c''"),
    ],
)
def test_signs_do_not_become_others(words, expected):
    assert in_latex(words) == expected


def test_signs_that_no_source_can_hold_are_left_out():
    assert in_latex("a\x00b\x07c\x7fd\u200be\n\tf") == "abcde f"


def test_commands_are_plain():
    assert all(command.isascii() for command in SIGNS.values())
