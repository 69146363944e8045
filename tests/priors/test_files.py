"""Prior files: relations by name, and errors with their line."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.data import summarize
from priormtl.exceptions import DataFileError
from priormtl.priors import difference_matrix, read_prior_file
from priormtl.priors.files import find_tables, line_of_fault

TOML = """\
# What teachers say.
[[similar]]
features = ["maths", "physics"]
weight = 2

[[opposite]]
features = ["price", "demand"]

[[group]]
name = "verbal"
features = ["reading", "essay", "debate"]
weight = 0.5
"""

CSV = """\
relation,first,second,weight
similar,maths,physics,2
opposite,price,demand,
# Three that go together.

group,verbal,reading,0.5
group,verbal,essay,0.5
group,verbal,debate,0.5
"""

FEATURES = ["maths", "physics", "price", "demand", "reading", "essay", "debate"]


@pytest.fixture
def write(tmp_path):
    def write(text, name="prior.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def matrix(prior):
    X = pd.DataFrame(np.eye(7), columns=FEATURES)
    return difference_matrix(prior, summarize(X, np.arange(7.0))).toarray()


def test_files_say_what_the_methods_say(write):
    expected = (
        FeaturePrior.similar([("maths", "physics")], 2.0)
        + FeaturePrior.opposite([("price", "demand")])
        + FeaturePrior.from_groups({"verbal": FEATURES[4:]}, 0.5)
    )
    for path in (write(TOML), write(CSV, "prior.csv"), write("\ufeff" + CSV, "b.csv")):
        prior = FeaturePrior.from_file(path)
        np.testing.assert_array_equal(matrix(prior), matrix(expected))
        assert FeaturePrior.from_plain(prior.to_plain()) == prior


def test_quoted_names_and_inline_tables(write):
    path = write('relation,first,second\nsimilar,"a, b","colour=red"\n', "p.csv")
    assert read_prior_file(path).relations[0].names == ("a, b", "colour=red")
    path = write('similar = [{features = ["ä", "雪"]}]')
    assert read_prior_file(path).relations[0].names == ("ä", "雪")


def test_names_are_checked_against_features_with_their_line(write):
    known = [*FEATURES[:-1], "debating"]
    for path, line in ((write(TOML), 11), (write(CSV, "a.csv"), 8)):
        file = read_prior_file(path)
        file.check_names(FEATURES)
        with pytest.raises(DataFileError) as refused:
            file.check_names(known)
        assert str(refused.value).startswith(
            f"{path}, line {line}: unknown feature 'de"
        )
        assert "Did you mean 'debating'" in str(refused.value)


def test_a_fit_uses_the_file(write):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 7)), columns=FEATURES)
    prior = FeaturePrior.from_file(write(TOML))
    model = MultiTaskRegressor(0.0, 1e6, feature_prior=prior, task_prior=None)
    coef = model.fit(X, X["maths"]).coef_[0]
    assert coef[0] == pytest.approx(coef[1], abs=1e-3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no relations"),
        ('[[group]]\nfeatures = ["a",\n "b"\n\n', "line 2: this is not TOML: Unclosed"),
        ("[[similar]\n", "line 1: this is not TOML: "),
        ('[[similar]]\nfeatures = ["a", "b"]\n[[oposite]]\n', "line 3: unknown relat"),
        ('[similar]\nfeatures = ["a", "b"]\n', r"line 1: .*under \[\[similar\]\]"),
        ("\n[[similar]]\nfeature = ['a']\n", "line 3: unknown setting 'feature'.*mean"),
        ("[[similar]]\n", r"line 1: similar needs features = \["),
        ("[[similar]]\nfeatures = ['a', 1]\n", r"line 2: similar needs features = \["),
        ("[[similar]]\nfeatures = ['a']\n", "line 1: similar must name two features"),
        (
            "[[similar]]\nfeatures = ['a', 'b']\n[[similar]]\nfeatures = ['a','b','c']",
            "line 3: similar must name two features: got 3; more of them are a group",
        ),
        ("[[group]]\nfeatures = ['a']\n", "line 1: group must name two or more"),
        ("[[group]]\nfeatures = ['a', 'b', 'a']\n", "line 2: .*'a' comes twice"),
        ("[[similar]]\nfeatures = ['a', 'b']\nweight = 0\n", "line 3: weight must be"),
        ("[[similar]]\nfeatures=['a', 'b']\nweight = true\n", "line 3: weight must be"),
        ("[[similar]]\nfeatures=['a', 'b']\nweight = inf\n", "line 3: weight must be"),
    ],
)
def test_mistakes_of_toml_have_their_line(write, text, words):
    with pytest.raises(DataFileError, match=words) as refused:
        read_prior_file(write(text))
    assert "\n" not in str(refused.value)


HEAD = "relation,first,second,weight\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no relations"),
        (HEAD, "has no relations"),
        ("relation,first\n", "line 1: .*column 'second'"),
        ("relation,first,second,wieght\n", "line 1: unknown column 'wieght'.*'weight'"),
        (f"{HEAD}similiar,a,b,1\n", "line 2: unknown relation 'similiar'.*'similar'"),
        (f"{HEAD}similar,a,b,1\nsimilar,a,,1\n", "line 3: column 'second' must not be"),
        (f"{HEAD}similar,a,b,two\n", "line 2: weight must be .* got 'two'"),
        (f"{HEAD}similar,a,b,nan\n", "line 2: weight must be"),
        (f"{HEAD}similar,a,b,1,2\n", "line 2: a line must have 4 cells: got 5"),
        (f"{HEAD}similar,a\n", "line 2: column 'second' must not be empty"),
        (f"{HEAD}similar,a,a,1\n", "line 2: .*'a' comes twice"),
        (f"{HEAD}group,g,a,1\n", "line 2: group must name two or more features"),
        (f"{HEAD}group,g,a,1\ngroup,g,b,2\n", "line 3: group 'g' must have one weight"),
        (f'{HEAD}similar,"a"b,c,1\n', "line 2: this is not CSV"),
    ],
)
def test_mistakes_of_csv_have_their_line(write, text, words):
    with pytest.raises(DataFileError, match=words):
        read_prior_file(write(text, "prior.csv"))


def test_other_files_are_refused(write, tmp_path):
    with pytest.raises(DataFileError, match=r"must end in \.toml or \.csv"):
        read_prior_file(write("", "prior.txt"))
    with pytest.raises(FileNotFoundError, match="is not a file"):
        read_prior_file(tmp_path / "none.toml")
    with pytest.raises(DataFileError, match="must be text in UTF-8"):
        read_prior_file(write(b"\xff\xfe\x00"))


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
