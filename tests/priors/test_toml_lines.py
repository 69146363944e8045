"""Lines of a TOML file: every word has the line on which it stands."""

import tomllib

import pytest

from priormtl.priors.toml_lines import find_tables, line_of_fault

FILE = """\
title = "not a table"
# [[similar]] "remark"
text = '''
[[similar]]
key = "no"
'''

  [[ similar ]]  # head
  features = [
    "maths",  # ["essay"]
    'phy"sics',
    "\\u00e9t\\u00e9", "maths",
  ]
"weight" = 2.5
[opposite.price]
features.first = "price"
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_words_stand_where_they_were_written(newline):
    first, similar, opposite = find_tables(FILE.replace("\n", newline))
    assert (first.name, first.line_of_key("text")) == ("", 3)
    assert (similar.name, similar.line) == ("similar", 8)
    assert (opposite.name, opposite.line) == ("opposite", 15)
    assert similar.line_of_key("features") == 9
    assert similar.line_of_key("weight") == 14
    names = ["maths", 'phy"sics', "été", "maths"]
    assert similar.lines_of_texts(names) == (10, 11, 12, 12)
    assert opposite.line_of_key("features") == 16


def test_what_is_not_there_has_the_line_of_its_table():
    _, similar, _ = find_tables(FILE)
    assert similar.line_of_key("name") == 8
    assert similar.lines_of_texts(["maths", "essay", "maths", "maths"]) == (
        *(10, 8, 12, 8),
    )
    assert [table.line for table in find_tables("")] == [1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[[similar]]\nfeatures = ["a",\n\n"b"\n', 2),
        ('a = 1\nb = [["]"],\n [1,\n', 3),
        ("a = 1\nb = 2 2\n", 2),
        ("a = 1\nb = '''x\ny", 3),
        ("a =", 1),
    ],
)
def test_faults_have_the_line_to_be_mended(text, line):
    with pytest.raises(tomllib.TOMLDecodeError) as refused:
        tomllib.loads(text)
    found, reason = line_of_fault(text, refused.value)
    assert found == line
    assert str(refused.value).startswith(f"{reason} (at ")
