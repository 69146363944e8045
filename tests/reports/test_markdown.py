"""Markdown: the page's answers and tables; names stay names."""

import pytest

from priormtl.reports import report
from priormtl.reports.markdown import to_markdown
from priormtl.reports.wording import spell
from reported_models import model_of, tuned_model


def plain(text):
    return text.replace("\\", "")


def test_every_answer_and_table_is_there():
    content = report(tuned_model()).content
    text = plain(to_markdown(content, 30))
    for finding in content.findings:
        assert f"## {finding.question} {finding.value}" in text
        assert finding.sentence in text
        assert finding.note in text
    for table in content.tables:
        assert f"## {table.title}" in text
        for column in table.columns:
            cells = column.values[:30]
            words = cells if column.is_text else [spell(float(v)) for v in cells]
            assert all(word in text for word in words)


def test_long_tables_are_cut_and_counted():
    text = report(model_of([[1.0] * 50])).markdown(rows=10)
    assert "… and 40 more rows." in text
    assert "… and 40 more features." in text


@pytest.mark.parametrize("name", ["a|b", "<b>x</b>", "*x*", "line\nbreak", "[x](y)"])
def test_names_stay_names(name):
    text = report(model_of([[1.0]], [name])).markdown()
    row = next(line for line in text.splitlines() if "| 1 |" in line)
    assert row.replace("\\|", "").count("|") == 8
    assert "<b>" not in text
    assert "[x](y)" not in text
