"""Words and lists of names on the command line."""

import pytest
from typer import BadParameter

from priormtl.cli.words import count, read_categories, split_names, word_of


def test_known_words_pass_and_others_are_answered():
    word = word_of(("error", "drop", "mean"))
    assert word("drop") == "drop"
    with pytest.raises(BadParameter, match=r"unknown value 'men'.*Did you mean 'mean'"):
        word("men")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, None),
        ("", []),
        (",", []),
        ("a", ["a"]),
        (" a, b ,,c=d", ["a", "b", "c=d"]),
        ('a, "b, c" ,d', ["a", "b, c", "d"]),
        ('"""b""",a"c', ['"b"', 'a"c']),
    ],
)
def test_names_stand_between_commas(text, names):
    assert split_names(text) == names


def test_categories_are_columns_and_values():
    assert read_categories(None) == {}
    assert read_categories(["sex=f,m", "a=b=c"]) == {"sex": ["f", "m"], "a": ["b=c"]}
    for wrong in ("sex", "sex="):
        with pytest.raises(ValueError, match="--categories must look like COL=A,B"):
            read_categories([wrong])


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks")]
)
def test_one_is_no_plural(n, words):
    assert count(n, "task") == words
