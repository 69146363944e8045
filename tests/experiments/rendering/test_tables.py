"""Tables: bold is the best, counts add up, gaps are told, definitions are printed."""

import json

import numpy as np
import pytest
from scipy import stats

import result_rows
from priormtl.experiments.rendering.measurements import (
    Counts,
    PairedDifference,
    Progress,
    Setting,
    Verdict,
)
from priormtl.experiments.rendering.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    PAPER_LABELS,
    TABLE_1,
    TABLE_2,
    Estimate,
    paper_estimate,
)
from priormtl.experiments.rendering.tables import (
    DifferenceCell,
    ScoreCell,
    chosen_table,
    cost_table,
    count_table,
    difference_table,
    interval_table,
    mean_ranks,
    measured_table,
    paper_table_1,
    paper_table_2,
    prior_table,
    rank_table,
    score_table,
    table_1,
    table_2,
)
from priormtl.metrics import Interval
from priormtl.tables import NOTHING
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


def every_table(measurements):
    sets = measurements.datasets()
    differences = [difference_table(measurements, name) for name in sets]
    scores = table_1(measurements), table_2(measurements)
    return [*scores, *differences, count_table(measurements, sets)]


def counts(cell):
    return Counts(*map(int, cell.text.split(" / ")))


def test_definitions_stand_under_every_table(full):
    for table in every_table(full):
        for metric in METRICS.values():
            if any(metric.title in column for column in table.columns):
                assert metric.definition in table.notes


@pytest.mark.parametrize("dataset", ["school", "orl"])
def test_wins_ties_and_losses_add_up(full, dataset):
    table = difference_table(full, dataset)
    *rows, last = table.rows
    for place, cell in enumerate(last.cells):
        verdicts = [row.cells[place].verdict for row in rows]
        assert sum(counts(cell)) == len(verdicts)
        assert counts(cell).wins == verdicts.count(Verdict.BETTER)


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
        assert counts(row.cells[-1]).losses == verdicts.count(Verdict.WORSE)
        assert sum(counts(row.cells[-1])) == len(verdicts)


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
    # School has six methods, Sarcos five; six columns.
    assert table_1(full).progress == (110, 110)


def test_nothing_measured_gives_the_papers_figures_alone():
    tables = [table_1(measure([])), table_2(measure([]))]
    assert len(tables[1].rows) == len(PAPER_LABELS)
    assert not any(
        cell.ours for table in tables for row in table.rows for cell in row.cells
    )


def test_tables_do_not_depend_on_the_order_of_rows(full):
    rows = list(score_rows())
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = measure([rows[k] for k in order], planned_cells())
    for first, second in zip(every_table(full), every_table(shuffled), strict=True):
        assert [row.label for row in first.rows] == [row.label for row in second.rows]
        for row, other in zip(first.rows, second.rows, strict=True):
            texts = [
                [cell.text for cell in cells] for cells in (row.cells, other.cells)
            ]
            assert texts[0] == texts[1]


def test_the_table_of_priors_has_the_smallest_sizes_and_the_split(full):
    table = prior_table(full)
    labels = [line.label for line in table.rows]
    school = [label for label in labels if label.startswith("School")]
    assert len(school) == 4
    assert school[0] == "School, VE, pooled, 3"
    assert school[-1] == "School, VE, pooled, paper"
    sarcos = next(line for line in table.rows if line.label.startswith("Sarcos"))
    assert sarcos.cells[2].text == NOTHING
    assert not sarcos.cells[2].asides
    assert table.progress.complete


# The paper's tables in its own shape.


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


# Cells.

ALL = Progress(10, 10)


def difference(n_common=10, n_left_out=0):
    return PairedDifference(-0.0123, Interval(-0.02, 0.001, 0.1), n_common, n_left_out)


def test_ours_stands_beside_the_papers():
    cell = ScoreCell(Estimate(33.94, 0.61), Estimate(39.8, 2.2), ALL)
    assert (cell.text, list(cell.asides)) == ("33.9 ± 0.6", ["paper 39.8 ± 2.2"])


def test_a_single_repeat_has_no_deviation():
    assert ScoreCell(Estimate(-3.25, float("nan")), None, ALL).text == "−3.2"


def test_what_is_missing_is_told():
    cell = ScoreCell(None, None, Progress(0, 10))
    assert (cell.text, list(cell.asides)) == (NOTHING, ["0 of 10"])
    assert not ScoreCell(None, None, Progress(0, 0)).asides


def test_the_best_needs_no_dagger():
    both = {"best": True, "close": True}
    assert not ScoreCell(Estimate(1.0, 1.0), None, ALL, **both).mark
    assert ScoreCell(Estimate(1.0, 1.0), None, ALL, close=True).mark == "†"


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [(Verdict.BETTER, "▲"), (Verdict.EVEN, ""), (Verdict.WORSE, "▼")],
)
def test_differences_are_points_with_interval_and_sign(verdict, mark):
    cell = DifferenceCell(difference(), verdict, ALL)
    assert cell.text == "−1.23 [−2.00, 0.10]"
    assert (cell.mark, cell.bold, cell.asides) == (mark, False, ())


def test_a_difference_on_some_repeats_says_so():
    cell = DifferenceCell(difference(7, 3), Verdict.EVEN, ALL)
    assert cell.asides == ("7 of 10",)
    # More repeats than planned are there: those count.
    cell = DifferenceCell(difference(7, 3), Verdict.EVEN, Progress(7, 8))
    assert cell.asides == ("7 of 10",)
    assert not DifferenceCell(difference(), Verdict.EVEN, Progress(0, 0)).asides


def test_an_incomplete_table_says_so_first():
    table = measured_table("t", ("Method",), (), ("note",), Progress(17, 60))
    assert "17 of 60" in table.notes[0]
    assert table.notes[1:] == ("note",)
    assert measured_table("t", ("Method",), (), ("note",), ALL).notes == ("note",)


# The paper's numbers.

ROWS = {**TABLE_1, **TABLE_2}


def test_every_row_has_all_ten_columns_in_per_cent():
    for row in ROWS.values():
        assert list(row) == list(PAPER_LABELS)
        assert all(0 < mean < 100 and 0 < sd < 20 for mean, sd in row.values())


def test_names_of_data_sets_and_metrics_are_ours():
    assert {dataset for dataset, _ in ROWS} <= set(DATASETS)
    # The median is ours alone.
    figures = {m.figure for m in METRICS.values()}
    assert {figure for _, figure in ROWS} == figures - {""}
    assert set(MAIN_METRICS) == set(DATASETS)
    assert set(MAIN_METRICS.values()) <= set(METRICS)


@pytest.mark.parametrize(
    ("dataset", "metric", "method", "expected"),
    [
        ("school", "ve_pooled", "natural", (39.8, 2.2)),
        ("school", "ve_tasks", "artificial", (39.8, 2.5)),
        ("sarcos", "nmse_pooled", "fedem", (15.7, 3.1)),
        ("letter", "auc", "artificial", (65.5, 1.3)),
        ("orl", "auc", "rmtl", (80.2, 9.1)),
    ],
)
def test_figures_stand_where_they_belong(dataset, metric, method, expected):
    assert paper_estimate(dataset, metric, method) == Estimate(*expected)


def test_the_paper_is_silent_about_our_other_methods_and_sets():
    assert paper_estimate("school", "ve_pooled", "none") is None
    assert paper_estimate("letter_uci", "auc", "natural") is None


# Costs.


def timed(method, dataset, *seconds):
    return [
        {**result_rows.row(dataset, method, repeat, "auc", 0.9), "seconds": value}
        for repeat, value in enumerate(seconds)
    ]


def test_seconds_are_means_over_repeats():
    found = measure([*timed("dmtl", "yale", 1.0, 3.0), *timed("rmtl", "orl", 30.0)])
    table = cost_table(found)
    cells = {line.label: [cell.text for cell in line.cells] for line in table.rows}
    assert table.columns == ("Method", "Yale", "ORL")
    assert cells == {"DMTL": ["2.0", "–"], "RMTL": ["–", "30"]}


def test_metrics_and_tasks_do_not_count_twice():
    rows = timed("dmtl", "school", 1.0, 3.0)
    again = [{**one, "metric": "ve_pooled"} for one in rows]
    assert cost_table(measure([*rows, *again])).rows[0].cells[0].text == "2.0"


def test_nothing_run_is_no_table():
    assert cost_table(measure([])) is None


def test_ranks_are_those_of_scipy_and_the_papers_own_methods_lead_its_tables():
    values = [3.0, 1.0, 2.0, 1.0, 5.0]
    assert mean_ranks(values) == stats.rankdata(values).tolist()
    assert rank_table(measure([])) is None
    rows = [
        result_rows.row("yale", method, k, "auc", 0.9 + 0.001 * place)
        for place, method in enumerate(PAPER_LABELS)
        for k in range(2)
    ]
    table = rank_table(measure(rows))
    assert table.columns == ("Method", "Yale", "mean rank")
    assert [r.cells[0].text for r in table.rows] == [str(k) for k in range(10, 0, -1)]
    assert table.rows[-1].cells[0].asides == ("1.5",)


def test_chosen_strengths_at_an_end_of_their_grid_are_counted():
    chosen = [(0.1, 0.0, 1.0), (0.1, 1.0, 10.0), (0.01, 0.0, 10.0)]
    rows = []
    for k, values in enumerate(chosen):
        names = ("relative_lam", "relative_theta", "relative_epsilon")
        strengths = json.dumps(dict(zip(names, values, strict=True)))
        made = result_rows.row("yale", "natural", k, "auc", 0.9)
        rows.append(made | {"strengths": strengths})
    grid = {"lam": (0.1, 0.03, 0.01), "theta": (0.0, 1.0), "epsilon": (0.1, 1.0, 10.0)}
    (line,) = chosen_table(measure(rows), {"yale": grid}).rows
    assert [cell.text for cell in line.cells] == [
        "3",
        "2",
        "0.1 (1↓, 2↑)",
        "0 (1↑)",
        "10 (2↑)",
    ]
    assert chosen_table(measure(), {"yale": grid}) is None


def test_usual_and_adjusted_intervals_find_no_more_than_ours(full):
    for line in interval_table(full).rows:
        ours, ours_holm, usual, usual_holm = map(counts, line.cells[1:])
        assert sum(ours) == int(line.cells[0].text)
        assert ours.ties <= ours_holm.ties <= usual_holm.ties
        assert ours.ties <= usual.ties <= usual_holm.ties
    assert interval_table(measure([])) is None
