"""Tables: bold is the best, counts add up, gaps are told, definitions are printed."""

import numpy as np
import pytest

from priormtl.experiments.showing.comparisons import Verdict
from priormtl.experiments.showing.measurements import Setting
from priormtl.experiments.showing.paper import METRICS, PAPER_LABELS
from priormtl.experiments.showing.tables import (
    all_tables,
    count_table,
    difference_table,
    score_table,
    table_1,
    table_2,
)
from result_rows import LABELS, measure, planned_cells, score_rows

COLUMNS = [("school", "ve_pooled"), ("school", "nmse_pooled"), ("yale", "auc")]


@pytest.fixture(scope="module")
def full():
    return measure(planned=planned_cells())


@pytest.fixture(scope="module")
def partial():
    rows = [row for row in score_rows() if hash_of(row) % 3]
    return measure(rows, planned_cells())


def hash_of(row):
    return row["repeat"] + len(row["method"]) + len(row["dataset"])


@pytest.mark.parametrize("place", range(len(COLUMNS)))
def test_bold_is_the_best(full, place):
    table = score_table(full, "t", COLUMNS)
    cells = [row.cells[place] for row in table.rows if row.cells[place].ours]
    sign = 1 if METRICS[COLUMNS[place][1]].higher_is_better else -1
    best = max(cells, key=lambda cell: sign * cell.ours.mean)
    assert [cell for cell in cells if cell.bold] == [best]


def test_only_means_over_the_most_repeats_can_be_bold(partial):
    for row in score_table(partial, "t", COLUMNS).rows:
        for cell, (dataset, metric) in zip(row.cells, COLUMNS, strict=True):
            settings = [Setting(dataset, method) for method in LABELS]
            most = max(partial.progress(setting, metric).done for setting in settings)
            assert not cell.bold or cell.progress.done == most


def test_daggers_are_what_is_not_significantly_worse(full):
    table = score_table(full, "t", COLUMNS)
    best = next(row.label for row in table.rows if row.cells[2].bold)
    key = {label: method for method, label in LABELS.items()}
    for row in table.rows:
        if row.cells[2].ours and row.label != best:
            setting = Setting("yale", key[row.label])
            verdict = full.judge(setting, Setting("yale", key[best]), "auc")
            assert (row.cells[2].mark == "†") == (verdict is Verdict.EVEN)


def test_the_papers_methods_have_rows_though_not_measured(full):
    labels = [row.label for row in table_2(full).rows]
    assert labels[: len(LABELS)] == list(LABELS.values())
    assert labels[len(LABELS) :] == list(PAPER_LABELS.values())[:8]


def test_definitions_stand_under_every_table(full):
    for table in all_tables(full):
        for metric in METRICS.values():
            if any(metric.title in column for column in table.columns):
                assert metric.definition in table.footnotes


@pytest.mark.parametrize("dataset", ["school", "orl"])
def test_wins_ties_and_losses_add_up(full, dataset):
    table = difference_table(full, dataset)
    *rows, last = table.rows
    for place, cell in enumerate(last.cells):
        verdicts = [row.cells[place].verdict for row in rows]
        assert sum(cell.counts) == len(verdicts)
        assert cell.counts.wins == verdicts.count(Verdict.BETTER)


def test_counts_over_data_sets_agree_with_the_tables_of_each(full):
    datasets = ["yale", "mnist", "orl"]
    table = count_table(full, datasets)
    for row in table.rows:
        verdicts = [
            other.cells[0].verdict
            for name in datasets
            for other in difference_table(full, name).rows[:-1]
            if other.label == row.label
        ]
        assert row.cells[-1].counts.losses == verdicts.count(Verdict.WORSE)
        assert sum(row.cells[-1].counts) == len(verdicts)


def test_the_reference_is_not_compared_with_itself(full):
    for reference in ("natural", "none"):
        labels = [row.label for row in difference_table(full, "yale", reference).rows]
        assert LABELS[reference] not in labels


def test_a_full_table_has_no_gap_and_a_partial_one_counts_its_runs(full, partial):
    assert table_2(full).progress.complete
    columns = [("yale", "auc")]
    table = score_table(partial, "t", columns)
    done = sum(
        len(partial.repeats(Setting("yale", method), "auc")) for method in LABELS
    )
    assert table.progress == (done, 10 * len(LABELS))
    assert f"{done} of {10 * len(LABELS)}" in table.notes[0]


def test_metrics_of_one_run_count_once(full):
    # School has six methods, Sarcos five; four columns.
    assert table_1(full)[0].progress == (110, 110)


def test_nothing_measured_gives_the_papers_figures_alone():
    tables = all_tables(measure([]))
    assert len(tables) == 3
    assert not any(
        cell.ours for table in tables for row in table.rows for cell in row.cells
    )


def test_tables_do_not_depend_on_the_order_of_rows(full):
    rows = list(score_rows())
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = measure([rows[k] for k in order], planned_cells())
    for first, second in zip(all_tables(full), all_tables(shuffled), strict=True):
        assert [row.label for row in first.rows] == [row.label for row in second.rows]
        for row, other in zip(first.rows, second.rows, strict=True):
            texts = [
                [cell.text for cell in cells] for cells in (row.cells, other.cells)
            ]
            assert texts[0] == texts[1]
