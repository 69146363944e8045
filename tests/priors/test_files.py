"""Prior files: relations by name, and errors with their line."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from priormtl import FeaturePrior, MultiTaskRegressor, TaskPrior
from priormtl.data import summarize
from priormtl.design import Categories, Design, Line
from priormtl.exceptions import DataFileError
from priormtl.priors import difference_matrix, read_prior_file
from priormtl.priors.files import KINDS, find_tables, line_of_fault

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
    for path in (write(TOML), write("\ufeff" + TOML, "b.toml")):
        prior = FeaturePrior.from_file(path)
        np.testing.assert_array_equal(matrix(prior), matrix(expected))
        assert FeaturePrior.from_plain(prior.to_plain()) == prior


STATEMENTS = """\
[[near]]
feature = "price"
value = -0.5
weight = 4

[[near]]
feature = "maths"
[near.value]
north = 0.3
7 = 1

[[nonnegative]]
features = ["maths", "physics"]

[[nonpositive]]
features = ["price"]

[[common]]
features = ["colour", "age"]

[[smooth]]
features = ["age"]
weight = 2

[[task_similar]]
tasks = ["north", 7]
weight = 3

[[task_group]]
name = "cold"
tasks = ["north", "south"]
"""


def test_files_state_all_that_is_known(write):
    price = FeaturePrior.near({"price": -0.5}, 4.0)
    maths = FeaturePrior.near({"maths": {"north": 0.3, 7: 1.0}})
    others = (
        FeaturePrior.nonnegative(["maths", "physics"])
        + FeaturePrior.nonpositive(["price"])
        + FeaturePrior.common(["colour", "age"])
        + FeaturePrior.smooth(["age"], 2.0)
    )
    tasks = TaskPrior.from_graph([("north", 7, 3.0)])
    tasks += TaskPrior.groups({"cold": ["north", "south"]})
    path = write(STATEMENTS)
    assert FeaturePrior.from_file(path) == price + maths + others
    assert TaskPrior.from_file(path) == tasks


def test_files_of_the_documentation_can_be_read(write):
    page = Path(__file__).parents[2] / "docs" / "guide" / "priors.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (text,) = (text for text in blocks if "similar" in text)
    assert {one.kind for one in read_prior_file(write(text)).relations} == set(KINDS)


def test_each_prior_takes_its_own(write):
    features = read_prior_file(write("[[common]]\nfeatures = ['a']\n", "f.toml"))
    tasks = read_prior_file(write("[task_nested]\nschool = 'district'\n", "t.toml"))
    assert (len(features.feature_relations), len(features.task_relations)) == (1, 0)
    assert (len(tasks.feature_relations), len(tasks.task_relations)) == (0, 1)
    with pytest.raises(DataFileError, match=r"relates tasks only: .*TaskPrior\.from"):
        FeaturePrior.from_file(tasks)
    with pytest.raises(DataFileError, match=r"not relate tasks: .*FeaturePrior\.from"):
        TaskPrior.from_file(features)


def test_nested_tasks(write):
    text = "[task_nested]\n'school 1' = 'land / A'\n2 = 'land / B'\n"
    file = read_prior_file(write(text))
    (nested,) = file.relations
    assert nested.kind == "task_nested"
    assert nested.names == ("school 1", 2)
    assert nested.values == (("land", "A"), ("land", "B"))
    assert file.match_tasks(["school 1", 2]) == file
    assert file.match_tasks(["school 1", "2"]).relations[0].names == ("school 1", "2")
    with pytest.raises(DataFileError, match="line 2: unknown task 'school 1'"):
        file.match_tasks(["school 2", 2])
    (simple,) = read_prior_file(write("[task_nested]\n1 = 1\n2 = 'B'\n")).relations
    assert (simple.names, simple.values) == ((1, 2), (1, "B"))


def test_tasks_are_found_by_their_spelling(write):
    file = read_prior_file(write(STATEMENTS)).match_tasks(["north", "south", "7"])
    assert TaskPrior.from_file(file).ties[0].second == ("7",)
    assert file.relations[1].values == ({"north": 0.3, "7": 1.0},)
    for tasks, line, name in ((["north", 7], 31, "south"), (["south", 7], 6, "north")):
        with pytest.raises(DataFileError, match=f"line {line}: unknown task '{name}'"):
            read_prior_file(write(STATEMENTS)).match_tasks(tasks)


def test_columns_are_known_where_they_are_meant(write):
    file = read_prior_file(write(STATEMENTS))
    names = ["maths", "physics", "price", "age", "age~1"]
    terms = *(Line(n, n) for n in names), Categories("colour", "colour", ("red",))
    file.check_names(Design(terms))
    for left_out, words in {
        "age~1": "line 22: smooth needs 'age' to have a curve",
        "colour": "line 19: unknown feature 'colour'",
        "price": "line 2: unknown feature 'price'",
    }.items():
        with pytest.raises(DataFileError, match=words):
            file.check_names(Design(tuple(t for t in terms if t.name != left_out)))


def test_quoted_names_and_inline_tables(write):
    path = write('similar = [{features = ["ä", "雪"]}]')
    assert read_prior_file(path).relations[0].names == ("ä", "雪")


def test_names_are_checked_against_features_with_their_line(write):
    known = [*FEATURES[:-1], "debating"]
    path = write(TOML)
    file = read_prior_file(path)
    file.check_names(Design.of_names(FEATURES))
    with pytest.raises(DataFileError) as refused:
        file.check_names(Design.of_names(known))
    assert str(refused.value).startswith(f"{path}, line 11: unknown feature 'de")
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
        ("[[near]]\nvalue = 1\n", "line 1: near needs feature = "),
        ("[[near]]\nfeature = 'a'\n", "line 1: value must be a finite .* got None"),
        ("[[near]]\nfeature = 'a'\nvalue = nan\n", "line 3: value must be a finite"),
        ("[[near]]\nfeature='a'\n[near.value]\nb = 'c'\n", "line 4: value .* got 'c'"),
        ("[[near]]\nfeatures = ['a']\n", "line 2: unknown setting 'features'"),
        ("[[nonnegative]]\nfeatures = []\n", "line 1: nonnegative must name some"),
        (
            "[[nonpositive]]\nfeatures = ['a']\nweight = 2\n",
            "line 3: unknown setting 'weight'; known: 'features'",
        ),
        ("[[common]]\nfeatures = ['a',\n 'a']\n", "line 3: .*'a' comes twice"),
        ("[[task_similar]]\ntasks = ['a']\n", "line 1: task_similar must name two tas"),
        (
            "[[task_similar]]\ntasks = [1, 2, 3]\n",
            "two tasks: got 3; more of them are a task_group",
        ),
        ("[[task_group]]\ntasks = [1, true]\n", r"line 2: task_group needs tasks = \["),
        ("[[task_group]]\n\ntasks = [1, 2, 1]\n", "line 3: .*tasks: 1 comes twice"),
        ("[[task_group]]\nfeatures = ['a']\n", "line 2: unknown setting 'features'"),
        ("[[task_nested]]\na = 'b'\n", r"line 1: .*under \[task_nested\], in single"),
        (
            "[task_nested]\na = 'b'\nc = true\n",
            "line 3: .*group that 'c' lies in: got True",
        ),
        ("[task_nested]\n", "line 1: task_nested must name some tasks"),
    ],
)
def test_mistakes_of_toml_have_their_line(write, text, words):
    with pytest.raises(DataFileError, match=words) as refused:
        read_prior_file(write(text))
    assert "\n" not in str(refused.value)


def test_other_files_are_refused(write, tmp_path):
    with pytest.raises(DataFileError, match=r"must end in \.toml to be"):
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
    "été", "maths",
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
        ('a = 1\nb = [["]"],\n [1,\n', 2),
        ("a = 1\nb = 2 2\n", 2),
        ("a = 1\nb = '''x\ny", 2),
        ("a =", 1),
    ],
)
def test_faults_have_the_line_to_be_mended(text, line):
    with pytest.raises(tomllib.TOMLDecodeError) as refused:
        tomllib.loads(text)
    found, reason = line_of_fault(text, refused.value)
    assert found == line
    assert str(refused.value).startswith(f"{reason} (at ")
