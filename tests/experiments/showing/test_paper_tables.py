"""The paper's shape: ten methods in columns, its data sets in rows, nothing lost."""

import pytest

from priormtl.experiments.showing.paper import METRICS, PAPER_LABELS, paper_estimate
from priormtl.experiments.showing.paper_tables import paper_table_1, paper_table_2
from priormtl.experiments.showing.tables import table_2
from result_rows import measure, planned_cells


@pytest.fixture(scope="module")
def full():
    return measure(planned=planned_cells())


def test_ten_methods_stand_side_by_side(full):
    for table in (paper_table_1(full), paper_table_2(full)):
        assert table.columns[1:] == tuple(PAPER_LABELS.values())
        assert all(len(row.cells) == 10 for row in table.rows)


def test_both_figures_stand_under_both_averages(full):
    labels = [row.label for row in paper_table_1(full).rows]
    assert len(labels) == 8
    for name in ("ve_pooled", "ve_tasks", "nmse_pooled", "nmse_tasks"):
        for dataset in ("School", "Sarcos"):
            assert f"{dataset}, {METRICS[name].title}" in labels


def test_every_figure_of_the_paper_is_there(full):
    for row, dataset in zip(
        paper_table_2(full).rows, ("yale", "mnist", "letter", "orl"), strict=True
    ):
        for cell, method in zip(row.cells, PAPER_LABELS, strict=True):
            assert cell.paper == paper_estimate(dataset, "auc", method)
            assert cell.paper is not None


def test_means_are_those_of_the_long_table(full):
    long = {row.label: row.cells for row in table_2(full).rows}
    natural = list(PAPER_LABELS).index("natural")
    short = [row.cells[natural].ours for row in paper_table_2(full).rows]
    whole = [cell.ours for cell in long["ours, natural prior"]]
    assert [mean for mean in whole if mean] == [mean for mean in short if mean]


def test_the_best_of_a_row_is_bold_once(full):
    for row in paper_table_2(full).rows:
        measured = [cell for cell in row.cells if cell.ours]
        best = max(measured, key=lambda cell: cell.ours.mean)
        assert [cell for cell in measured if cell.bold] == [best]
