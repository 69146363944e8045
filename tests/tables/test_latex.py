"""Tables in LaTeX: rows and cells arrive, and pdfLaTeX takes them."""

import re
import shutil
import subprocess

import pytest

from priormtl.experiments.rendering.tables import table_2
from priormtl.tables import Table, TableRow, TextCell, build_table, to_latex
from result_rows import measure, planned_cells

SIGNS = r"_x_ & 50 % # ${y} ~ ^ \end{table}"
NAMES = [SIGNS, "grösse µ R² ≥ 10⁻³ λ", "<script>", "[a]", "*", "a--b |`", "ąłß „“«»"]
PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\begin{document}
"""


@pytest.fixture(scope="module")
def table():
    return table_2(measure(planned=planned_cells()))


@pytest.fixture
def awkward():
    """Names where labels, heads, cells, asides, notes and the title stand."""
    cells = [TextCell(name, "†", (name, "n = 1"), bold=True) for name in NAMES]
    rows = [TableRow(name, (cell,)) for name, cell in zip(NAMES, cells, strict=True)]
    return Table(SIGNS, ("[head", "*"), tuple(rows), "lr", tuple(NAMES))


def test_there_is_one_line_per_row_and_equal_numbers_of_cells(table):
    lines = [line for line in to_latex(table).splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(table.rows) + 1
    assert {line.count("&") for line in lines} == {len(table.columns) - 1}
    for word in ("toprule", "midrule", "bottomrule", "caption{Table 2"):
        assert f"\\{word}" in to_latex(table)


def test_our_own_words_are_plain_ascii(table):
    assert to_latex(table).isascii()


def test_words_are_no_commands(awkward):
    text = to_latex(awkward)
    assert text.count(r"\end{table}") == 1
    assert r"\_x\_ \& 50 \% \# \$\{y\}" in text
    assert r"\textasciicircum{} \textbackslash{}end\{table\}" in text


@pytest.mark.parametrize("label", ["* starred", "[2mm] wide"])
def test_labels_are_no_arguments_of_the_line_before(label):
    text = to_latex(build_table("t", [label, "n"], [["a", 1], [label, 2]]))
    assert f"\\\\\n{{}}{label}" in text
    assert f"\\toprule\n{{}}{label}" in text


def test_groups_are_closed(awkward):
    text = re.sub(r"\\[{}]", "", to_latex(awkward))
    assert text.count("{") == text.count("}")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_pdflatex_takes_it_with_the_stated_packages(awkward, tmp_path):
    wide = build_table("wide", ["word"] * 30, [["word" * 5] * 30])
    body = "\n".join(map(to_latex, [awkward, wide]))
    text = PREAMBLE + body + "\\end{document}\n"
    (tmp_path / "t.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-draftmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-1000:]
    assert b"Overfull" not in done.stdout
