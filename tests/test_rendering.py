"""Layouts: every cell arrives in every format, and names are never markup."""

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from priormtl.rendering import (
    LATEX,
    NOTHING,
    Table,
    Tabled,
    TableRow,
    TextCell,
    build_table,
    count_words,
    in_latex,
    in_markdown,
    spell_number,
    to_html,
    to_html_page,
    to_json,
    to_latex,
    to_markdown,
    to_text,
)

NASTY = r'<script>alert("1")</script> a & b | 50 % _x_ ~ ^ # ${y} [l](u) \end{table}'
NAMES = [NASTY, "grösse µ R² ≥ 10⁻³ λ", "[a]", "*", "a--b |`", "ąłß „“«»", "&lt;"]
LAYOUTS = [to_text, to_markdown, to_html, to_latex]
PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\begin{document}
"""


@pytest.fixture(scope="module")
def nasty():
    """Names as labels, heads, cells, asides, notes and title."""
    cells = [TextCell(name, "†", (name, "n = 1"), bold=True) for name in NAMES]
    rows = [TableRow(name, (cell,)) for name, cell in zip(NAMES, cells, strict=True)]
    return Table(NASTY, ("[head", "*"), tuple(rows), "lr", tuple(NAMES))


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

    def handle_endtag(self, tag):
        if tag == "tbody":
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def plain_markdown(text):
    """What Markdown shows of escaped text."""
    return unescape(re.sub(r"\\([!-/:-@[-`{-~])", r"\1", text))


# Tables as values


@pytest.mark.parametrize("most", [None, 0, 2, 5, 9])
def test_rows_that_are_left_out_are_counted(most):
    table = build_table("t", ["i"], [[i] for i in range(5)], most=most, what="tasks")
    left_out = 5 - len(table.rows)
    assert table.notes == ((f"… and {left_out} more tasks.",) if left_out else ())
    assert [row.label for row in table.rows] == [str(i) for i in range(5)][:most]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, NOTHING),
        (float("nan"), NOTHING),
        (float("inf"), "∞"),
        (-float("inf"), "−∞"),
        (0.0, "0"),
        (-1.23456, "−1.235"),
        (1e-9, "1e−09"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_have_four_digits(value, words):
    assert spell_number(value) == words


def test_cells_hold_texts_and_numbers():
    table = build_table("t", ["a", "b", "c"], [["x", 7, None]])
    (row,) = table.rows
    assert (row.label, [cell.text for cell in row.cells]) == ("x", ["7", NOTHING])
    assert table.alignment == "lrr"


def test_one_is_singular():
    assert (count_words(1, "task"), count_words(2, "task")) == ("1 task", "2 tasks")
    assert count_words(1000, "task") == "1,000 tasks"


# All layouts


class Basket(Tabled):
    tables = (
        build_table("Fruit", ("name", "weight"), [("apple", 1.5), ("<pear>", 2.0)]),
        build_table("Nothing", ("name", "weight"), []),
    )

    def _tables(self):
        return self.tables


def test_every_layout_holds_every_table():
    basket = Basket()
    for layout, one in (
        (basket.to_text(), to_text),
        (basket.to_html(), to_html),
        (basket.to_latex(), to_latex),
        (basket.to_markdown(), to_markdown),
        (basket._repr_html_(), to_html),
    ):
        assert all(one(table) in layout for table in basket.tables)
    assert str(basket) == repr(basket) == basket.to_text()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bold_marks_and_asides_arrive(layout):
    cell = TextCell("1.0", "x", ("paper 2.0", "1 of 2"), bold=True)
    table = Table("t", ("", "score"), (TableRow("row", (cell,)),), "lr")
    strong = {
        to_markdown: "**1.0**x",
        to_latex: r"\textbf{1.0}x",
        to_html: "<strong>1.0</strong>x",
        to_text: "1.0x",
    }
    text = layout(table)
    assert strong[layout] in text
    assert "(paper 2.0)" in text
    assert "(1 of 2)" in text


# Plain text


def test_text_columns_are_aligned_also_for_wide_characters():
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


# Markdown


def test_markdown_escapes_are_undone_by_markdown():
    signs = "".join(map(chr, range(33, 127)))
    for text in [*NAMES, signs]:
        escaped = in_markdown(text)
        assert plain_markdown(escaped) == " ".join(text.split())
        assert not re.search(r"(?<!\\)[`*_\[\]|~$]|[<>]|&(?!\w+;)", escaped)


def test_markdown_has_one_line_per_row_and_equal_numbers_of_cells(nasty):
    lines = [line for line in to_markdown(nasty).splitlines() if line.startswith("|")]
    assert len(lines) == len(nasty.rows) + 2
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}


# HTML


def test_html_has_caption_scopes_and_all_cells(nasty):
    page = Reader(to_html(nasty))
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert scopes.count("col") == len(nasty.columns)
    assert scopes.count("row") == len(nasty.rows)
    names = [tag for tag, _ in page.tags]
    assert "caption" in names
    assert "script" not in names
    shown = [text.strip() for text in page.cells[len(nasty.columns) :: 2]]
    assert shown[: len(NAMES)] == NAMES


def test_the_page_loads_nothing(nasty):
    page = Reader(to_html_page(NASTY, [nasty]))
    names = {name for _, attributes in page.tags for name in attributes}
    assert not names & {"src", "href", "onload", "style"}
    assert "script" not in [tag for tag, _ in page.tags]
    assert page.tags[0] == ("html", {"lang": "en"})


# LaTeX


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
        ("a--b---c", "a-{}-b-{}-{}-c"),
        (",,x''", ",{},x'{}'"),
        ("?`|x|", r"?\textasciigrave{}\textbar{}x\textbar{}"),
        ("a–b “c”", "a--b ``c''"),
        ("a\x00b\x07c\x7fd\u200be\n\tf", "abcde f"),
    ],
)
def test_letters_and_signs_in_latex(words, expected):
    assert in_latex(words) == expected


def test_latex_commands_are_ascii():
    assert all(command.isascii() for command in LATEX.values())


def test_latex_has_one_line_per_row_and_equal_numbers_of_cells():
    table = build_table("Table 2", ["a & b", "n", "R²"], [["x", 1, 2.0], ["&", 3, 4.0]])
    text = to_latex(table)
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(table.rows) + 1
    assert {line.replace(r"\&", "").count("&") for line in lines} == {2}
    for word in ("toprule", "midrule", "bottomrule", "caption{Table 2"):
        assert f"\\{word}" in text
    assert text.isascii()


def test_names_are_no_latex_commands(nasty):
    text = to_latex(nasty)
    assert text.count(r"\end{table}") == 1
    assert r"50 \% \_x\_ \textasciitilde{}" in text
    assert r"\textbackslash{}end\{table\}" in text
    groups = re.sub(r"\\[{}]", "", text)
    assert groups.count("{") == groups.count("}")


@pytest.mark.parametrize("label", ["* starred", "[2mm] wide"])
def test_labels_are_no_arguments_of_the_line_before(label):
    text = to_latex(build_table("t", [label, "n"], [["a", 1], [label, 2]]))
    assert f"\\\\\n{{}}{label}" in text
    assert f"\\toprule\n{{}}{label}" in text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_pdflatex_takes_it_with_the_stated_packages(nasty, tmp_path):
    wide = build_table("wide", ["word"] * 30, [["word" * 5] * 30])
    body = "\n".join(map(to_latex, [nasty, wide]))
    text = PREAMBLE + body + "\\end{document}\n"
    (tmp_path / "t.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-draftmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-1000:]
    assert b"Overfull" not in done.stdout


# JSON


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_json_does_not_know_become_null(number):
    value = {"a": [float(number), 1.5], "b": ({"c": np.array([number, 2.0])}, 2)}
    expected = {"a": [None, 1.5], "b": [{"c": [None, 2.0]}, 2]}
    assert json.loads(to_json(value)) == expected
    assert json.loads(to_json(np.float32(number))) is None


def test_other_values_stay():
    value = {"a": "größe", "b": None, "c": [True, 3, 0.1]}
    assert json.loads(to_json(value)) == value
    assert "größe" in to_json(value, ensure_ascii=False)
    assert to_json(np.int64(3)) == "3"
