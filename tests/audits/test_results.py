import re
from dataclasses import replace
from functools import cache

import pytest

from drawn_tasks import plant_relations
from priormtl import MultiTaskRegressor, audit_prior
from priormtl.rendering import in_latex


@cache
def audit(names=None):
    planted = plant_relations(0)
    X = planted.X
    if names is not None:
        import pandas as pd  # noqa: PLC0415

        X = pd.DataFrame(X, columns=list(names))
    model = MultiTaskRegressor(2.0, feature_prior=planted.prior)
    model.fit(X, planted.y, task=planted.task)
    rows = (X, planted.y)
    return planted.wrong, audit_prior(model, *rows, task=planted.task, n_repeats=1)


def test_text_begins_with_the_verdict_and_names_the_doubtful():
    wrong, found = audit()
    lines = found.to_text().splitlines()
    assert lines[0] == found.helped.sentence
    assert wrong in lines[1]
    assert str(found) == repr(found) == found.to_text()


def test_tables_hold_every_relation():
    _, found = audit()
    page = found._repr_html_()
    assert page.count("<tr>") == len(found.relations) + 1
    table = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert len(table) == len(found.relations) + 2
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert cells == {8}


def test_names_stay_text():
    _, found = audit(names=("<script>", "a|b", "*c*", "d\ne", *"fghijklm"))
    page, marked = found.to_html(), found.to_markdown()
    assert "<script>" not in page
    assert "<script>" not in marked
    table = [line for line in marked.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {8}
    paper = found.to_latex()
    assert "<script>" not in paper
    assert paper.count(r"\begin{table}") == 1
    assert paper.startswith(in_latex(found.helped.sentence))


def test_a_reason_stands_where_nothing_was_held_out():
    planted = plant_relations(1)
    model = MultiTaskRegressor(feature_prior=planted.prior)
    found = audit_prior(model.fit(planted.X, planted.y, task=planted.task))
    assert found.to_text().startswith("Not judged: No rows were given")


@pytest.mark.parametrize("count", [0, 1, 5, 6, 25])
def test_the_first_five_contradicted_relations_are_named(count):
    _, found = audit()
    one = next(r for r in found.relations if r.kind == "feature")
    relations = [
        replace(one, relation=f"r{k}", verdict="disagrees" if k < count else "agrees")
        for k in range(30)
    ]
    relations[-1] = replace(one, relation="r29", verdict="cannot be judged")
    line = replace(found, relations=tuple(relations)).to_text().splitlines()[1]
    names = ", ".join(f"r{k}" for k in range(min(count, 5)))
    more = ", …" if count > 5 else ""
    brackets = f" ({names}{more})" if count else ""
    assert line == (
        f"Relations between features: the data contradict {count} of 30{brackets}; "
        "1 cannot be judged."
    )


def test_numbers_in_tables_and_what_is_unknown():
    _, found = audit()
    one = replace(
        found.relations[0],
        relation="a ~ b",
        verdict="agrees",
        statistic=1.26,
        p_value=0.0304,
        violation_before=0.456,
        violation_after=0.1,
        share=0.25,
    )
    unknown = replace(
        one,
        verdict="cannot be judged",
        statistic=float("nan"),
        p_value=float("nan"),
    )
    small = replace(one, p_value=0.0009)
    shown = replace(found, relations=(one, small, unknown)).to_markdown().splitlines()
    rows = [line.strip("| ").split(" | ") for line in shown if line.startswith("| a")]
    assert rows[0] == [r"a \~ b", "agrees", "1.3", "0.030", "0.46", "0.10", "25 %"]
    assert rows[1][3] == "&lt; 0.001"
    assert rows[2][2:4] == ["unknown", "unknown"]
