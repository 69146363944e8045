import re

from planted_relations import plant
from priormtl import MultiTaskRegressor, audit_prior
from priormtl.tables import in_latex


def audit(n_repeats=1, names=None):
    planted = plant(0)
    X = planted.X
    if names is not None:
        import pandas as pd  # noqa: PLC0415

        X = pd.DataFrame(X, columns=names)
    model = MultiTaskRegressor(2.0, feature_prior=planted.prior)
    model.fit(X, planted.y, task=planted.task)
    rows = (X, planted.y)
    return planted.wrong, audit_prior(
        model, *rows, task=planted.task, n_repeats=n_repeats
    )


def test_text_begins_with_the_verdict_and_names_the_doubtful():
    wrong, found = audit()
    lines = found.to_text().splitlines()
    assert lines[0] == found.helped.sentence
    assert wrong in lines[1]
    assert str(found) == repr(found) == found.to_text()


def test_tables_hold_every_relation():
    _, found = audit()
    page = found._repr_html_()
    assert page.count("<tr>") == len(found.relations) + 2
    table = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert len(table) == len(found.relations) + 4
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert cells == {8}


def test_names_stay_text():
    names = ["<script>", "a|b", "*c*", "d\ne", *"fghijklm"]
    _, found = audit(names=names[:12])
    page, marked = found.to_html(), found.to_markdown()
    assert "<script>" not in page
    assert "<script>" not in marked
    table = [line for line in marked.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {8}
    assert found.markdown() == marked
    paper = found.to_latex()
    assert "<script>" not in paper
    assert paper.count(r"\begin{table}") == 2
    assert paper.startswith(in_latex(found.helped.sentence))


def test_a_reason_stands_where_nothing_was_held_out():
    planted = plant(1)
    model = MultiTaskRegressor(feature_prior=planted.prior)
    found = audit_prior(model.fit(planted.X, planted.y, task=planted.task))
    assert found.to_text().startswith("Not judged: No rows were given")
