"""Layouts: every cell arrives, nothing is taken for markup."""

from html.parser import HTMLParser

import pytest

from priormtl.experiments.rendering.measurements import Progress
from priormtl.experiments.rendering.paper import Estimate
from priormtl.experiments.rendering.tables import ScoreCell, Table, table_2
from priormtl.tables import (
    TableRow,
    build_table,
    to_html,
    to_html_page,
    to_latex,
    to_markdown,
    to_text,
)
from result_rows import LABELS, measure, planned_cells

NASTY = r'<script>alert("1")</script> a & b | 50 % _x_ $\end{table}'


@pytest.fixture(scope="module")
def table():
    return table_2(measure(planned=planned_cells()))


@pytest.fixture(scope="module")
def nasty():
    cell = ScoreCell(Estimate(1.0, 0.1), Estimate(2.0, 0.2), Progress(1, 2), best=True)
    return Table(
        NASTY, (NASTY, NASTY), (TableRow(NASTY, (cell,)),), (NASTY,), Progress(1, 2)
    )


class Reader(HTMLParser):
    """Tags in order, and the text of each cell."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_markdown_has_one_line_per_row_and_equal_numbers_of_cells(table):
    lines = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert len(lines) == len(table.rows) + 2
    assert len({line.count("|") for line in lines}) == 1


def test_html_has_caption_scopes_and_all_cells(table):
    page = Reader(to_html(table))
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert scopes.count("col") == len(table.columns)
    assert scopes.count("row") == len(table.rows)
    assert "caption" in [tag for tag, _ in page.tags]
    first = page.cells[len(table.columns) :][: len(table.columns)]
    assert first[0] == LABELS["natural"]
    assert first[1].startswith(table.rows[0].cells[0].text)


@pytest.mark.parametrize("layout", [to_markdown, to_latex, to_html, to_text])
def test_bold_marks_asides_and_gaps_arrive(nasty, layout):
    text = layout(nasty)
    strong = {to_markdown: "**1.0", to_latex: r"\textbf{1.0", to_html: "<strong>1.0"}
    strong[to_text] = "1.0"
    assert strong[layout] in text
    assert "paper 2.0" in text
    assert "1 of 2" in text


def test_html_escapes(nasty):
    page = Reader(to_html_page(NASTY, [nasty]))
    assert "script" not in [tag for tag, _ in page.tags]
    assert page.cells[0] == NASTY


def test_the_page_loads_nothing(table):
    page = Reader(to_html_page("Tables", [table]))
    names = {name for _, attributes in page.tags for name in attributes}
    assert not names & {"src", "href", "onload", "style"}
    assert page.tags[0] == ("html", {"lang": "en"})


def test_markdown_escapes(nasty):
    text = to_markdown(nasty)
    assert "<script>" not in text.replace(r"\<script\>", "")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace(r"\|", "").count("|") for line in lines} == {3}


def test_markdown_makes_no_links():
    text = to_markdown(build_table("t", ["name"], [["[a](javascript:b)"]]))
    assert "](" not in text


def test_text_columns_are_aligned_also_for_wide_signs():
    rows = [["特徴", 1.0], ["é", -22.5], ["e\u0301", 3.25]]
    lines = to_text(build_table("t", ["feature", "mean"], rows)).splitlines()
    assert lines[2:] == [
        "feature   mean",
        "───────  ─────",
        "特徴         1",
        "é        −22.5",
        "e\u0301         3.25",
    ]


def test_text_stays_on_its_line():
    text = to_text(build_table("t", ["name"], [["a\nb\x1b[31m\rc"]]))
    assert text.splitlines()[-1] == "a b[31m c"


def test_a_table_without_rows_is_a_head(nasty):
    empty = build_table("t", ["name", "n"], [])
    assert to_text(empty).splitlines()[2:] == ["name  n", "────  ─"]
    assert "<ul" not in to_html(empty)
    assert "<ul" in to_html(nasty)
