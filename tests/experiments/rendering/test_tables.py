"""Tables: bold is the best, counts add up, gaps are told, definitions are printed."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from paper_data import LABELS, measure, planned_cells, row, score_rows
from priormtl.experiments.rendering.measurements import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    PAPER,
    PAPER_LABELS,
    Estimate,
    Progress,
    Setting,
    Verdict,
    paper_estimate,
)
from priormtl.experiments.rendering.tables import (
    chosen_table,
    control_table,
    cost_table,
    count_table,
    difference_cell,
    interval_table,
    mean_ranks,
    measured_table,
    paper_table,
    prior_table,
    rank_table,
    score_table,
    selection_table,
    table_1,
    table_2,
)
from priormtl.rendering import NOTHING

COLUMNS = [("school", "ve_pooled"), ("school", "nmse_pooled"), ("yale", "auc")]


@pytest.fixture(scope="module")
def full():
    return measure(planned=planned_cells())


@pytest.fixture(scope="module")
def partial():
    def number(made):
        return made["repeat"] + len(made["method"]) + len(made["dataset"])

    rows = [made for made in score_rows() if number(made) % 3]
    return measure(rows, planned_cells())


def measured_rows(table, place):
    return [line for line in table.rows if line.cells[place].text != NOTHING]


@pytest.mark.parametrize("place", range(len(COLUMNS)))
def test_bold_is_the_best(full, place):
    dataset, metric = COLUMNS[place]
    sign = 1 if METRICS[metric].higher_is_better else -1
    means = {
        LABELS[method]: sign * full.estimate(Setting(dataset, method), metric).mean
        for method in LABELS
    }
    rows = measured_rows(score_table(full, "t", COLUMNS), place)
    bold = [line.label for line in rows if line.cells[place].bold]
    assert bold == [max(means, key=means.get)]


def test_only_means_over_the_most_repeats_can_be_bold(partial):
    for line in score_table(partial, "t", COLUMNS).rows:
        for cell, (dataset, metric) in zip(line.cells, COLUMNS, strict=True):
            done = {
                label: partial.progress(Setting(dataset, method), metric).done
                for method, label in LABELS.items()
            }
            assert not cell.bold or done[line.label] == max(done.values())


def test_daggers_are_what_is_not_significantly_worse(full):
    rows = measured_rows(score_table(full, "t", COLUMNS), 2)
    key = {label: method for method, label in LABELS.items()}
    best = next(line.label for line in rows if line.cells[2].bold)
    for line in rows:
        verdict = full.judge(Setting("yale", key[line.label]), key[best], "auc")
        close = verdict is Verdict.EVEN and line.label != best  # which needs no dagger
        assert (line.cells[2].mark == "†") == close


def test_the_papers_methods_have_rows_though_not_measured(full):
    labels = [line.label for line in table_2(full).rows]
    assert labels[: len(LABELS)] == list(LABELS.values())
    assert labels[len(LABELS) :] == list(PAPER_LABELS.values())[:8]


def every_table(measurements):
    sets = measurements.datasets()
    return [
        table_1(measurements),
        table_2(measurements),
        count_table(measurements, sets),
    ]


class Counts(NamedTuple):
    wins: int
    ties: int
    losses: int


def counts(cell):
    return Counts(*map(int, cell.text.split(" / ")))


def test_definitions_stand_under_every_table(full):
    for table in every_table(full):
        for metric in METRICS.values():
            if any(metric.title in column for column in table.columns):
                assert metric.definition in table.notes


def test_wins_ties_and_losses_add_up(full):
    for line in count_table(full, ["yale", "mnist", "orl"]).rows:
        *cells, last = line.cells
        verdicts = [cell.verdict for cell in cells]
        assert sum(counts(last)) == len(verdicts)
        assert counts(last).wins == verdicts.count(Verdict.BETTER)
        assert counts(last).losses == verdicts.count(Verdict.WORSE)


def test_the_reference_is_not_compared_with_itself(full):
    for reference in ("natural", "none"):
        labels = [line.label for line in count_table(full, ["yale"], reference).rows]
        assert LABELS[reference] not in labels


def test_a_full_table_has_no_gap_and_a_partial_one_counts_its_runs(full, partial):
    assert "Incomplete" not in table_2(full).notes[0]
    columns = [("yale", "auc")]
    table = score_table(partial, "t", columns)
    done = sum(
        len(partial.repeats(Setting("yale", method), "auc")) for method in LABELS
    )
    assert f"Incomplete: {done} of {10 * len(LABELS)} runs" in table.notes[0]


def test_metrics_of_one_run_count_once():
    # School has six methods, Sarcos five; six columns.
    assert "0 of 110 runs" in table_1(measure([], planned_cells())).notes[0]


def test_nothing_measured_gives_the_papers_figures_alone():
    tables = [table_1(measure([])), table_2(measure([]))]
    assert len(tables[1].rows) == len(PAPER_LABELS)
    lines = [line for table in tables for line in table.rows]
    assert {cell.text for line in lines for cell in line.cells} == {NOTHING}


def test_tables_do_not_depend_on_the_order_of_rows(full):
    rows = list(score_rows())
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = measure([rows[k] for k in order], planned_cells())
    for first, second in zip(every_table(full), every_table(shuffled), strict=True):
        assert [line.label for line in first.rows] == [
            line.label for line in second.rows
        ]
        for line, other in zip(first.rows, second.rows, strict=True):
            texts = [
                [cell.text for cell in cells] for cells in (line.cells, other.cells)
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
    assert "Incomplete" not in table.notes[0]


# The paper's tables in its own shape.


def test_ten_methods_stand_side_by_side(full):
    for table in (paper_table(full, 1), paper_table(full, 2)):
        assert table.columns[1:] == tuple(PAPER_LABELS.values())
        assert all(len(line.cells) == 10 for line in table.rows)


def test_both_figures_stand_under_both_averages(full):
    labels = [line.label for line in paper_table(full, 1).rows]
    assert len(labels) == 8
    for name in ("ve_pooled", "ve_tasks", "nmse_pooled", "nmse_tasks"):
        for dataset in ("School", "Sarcos"):
            assert f"{dataset}, {METRICS[name].title}" in labels


def test_every_figure_of_the_paper_is_there(full):
    for line, dataset in zip(
        paper_table(full, 2).rows, ("yale", "mnist", "letter", "orl"), strict=True
    ):
        for cell, method in zip(line.cells, PAPER_LABELS, strict=True):
            mean, sd = paper_estimate(dataset, "auc", method)
            assert cell.asides == (f"paper {mean} ± {sd}",)


def test_means_are_those_of_the_long_table(full):
    long = {line.label: line.cells for line in table_2(full).rows}
    natural = list(PAPER_LABELS).index("natural")
    short = [line.cells[natural].text for line in paper_table(full, 2).rows]
    assert [cell.text for cell in long["ours, natural prior"]] == short


def test_the_best_of_a_row_is_bold_once(full):
    for line in paper_table(full, 2).rows:
        measured = [cell for cell in line.cells if cell.text != NOTHING]
        best = max(measured, key=lambda cell: float(cell.text.split()[0]))
        assert [cell for cell in measured if cell.bold] == [best]


# Cells.


def cell_of(values, planned=0, method="natural"):
    rows = [row("yale", method, k, "auc", value) for k, value in enumerate(values)]
    found = measure(rows, [Setting("yale", method)] * planned)
    table = score_table(found, "t", [("yale", "auc")])
    return next(line.cells[0] for line in table.rows if line.label == LABELS[method])


def test_ours_stands_beside_the_papers():
    cell = cell_of([0.9594, 0.9694, 0.9794])
    assert (cell.text, cell.asides) == ("96.9 ± 1.0", ("paper 97.7 ± 1.7",))


def test_a_single_repeat_has_no_deviation():
    assert cell_of([-0.0325]).text == "−3.2"


def test_what_is_missing_is_told():
    cell = cell_of([], planned=10, method="none")
    assert (cell.text, cell.asides) == (NOTHING, ("0 of 10",))
    assert cell_of([0.5], planned=10, method="none").asides == ("1 of 10",)
    assert not cell_of([0.5], planned=1, method="none").asides


def difference_of(ours, reference, planned=0):
    rows = [row("yale", "expert", k, "auc", value) for k, value in ours.items()]
    rows += [row("yale", "none", k, "auc", value) for k, value in reference.items()]
    setting = Setting("yale", "expert")
    return difference_cell(measure(rows, [setting] * planned), setting, "none")


@pytest.mark.parametrize(("shift", "mark"), [(0.1, "▲"), (0.0, ""), (-0.1, "▼")])
def test_differences_are_points_with_interval_and_sign(shift, mark):
    none = dict.fromkeys(range(10), 0.5)
    ours = {k: 0.501 + shift + 0.002 * (-1) ** k for k in none}
    cell = difference_of(ours, none)
    # Deviation 0.002 √(10/9), t(0.975, 9) = 2.262, ratio 2/3: 0.2108 √(1/10 + 2/3).
    mean, reach = 100 * shift + 0.1, 2.262 * 0.2108 * (1 / 10 + 2 / 3) ** 0.5
    text = f"{mean:+.2f} [{mean - reach:.2f}, {mean + reach:.2f}]".replace("-", "−")
    assert (cell.text, cell.mark, cell.bold) == (text, mark, False)
    assert not cell.asides


def test_a_difference_on_some_repeats_says_so():
    ours, none = dict.fromkeys(range(7), 0.6), dict.fromkeys(range(10), 0.5)
    assert difference_of(ours, none, planned=10).asides == ("7 of 10",)
    # More repeats than planned are there: those count.
    assert difference_of(ours, none, planned=8).asides == ("7 of 10",)
    assert not difference_of(none, none, planned=10).asides
    assert not difference_of({}, none).asides
    one = difference_of({0: 0.6}, {0: 0.5})
    assert (one.text, one.mark) == ("+10.00", "")


def test_an_incomplete_table_says_so_first():
    runs = [Progress(10, 20), Progress(7, 40)]
    table = measured_table("t", ("Method",), (), ("note",), runs)
    assert "17 of 60" in table.notes[0]
    assert table.notes[1:] == ("note",)
    for complete in ((), [Progress(10, 10)]):
        table = measured_table("t", ("Method",), (), ("note",), complete)
        assert table.notes == ("note",)


# The paper's numbers.


def test_every_row_has_all_ten_columns_in_per_cent():
    for line in PAPER.values():
        assert list(line) == list(PAPER_LABELS)
        assert all(0 < mean < 100 and 0 < sd < 20 for mean, sd in line.values())


def test_names_of_data_sets_and_metrics_are_ours():
    assert {dataset for dataset, _ in PAPER} <= set(DATASETS)
    # The median is ours alone.
    figures = {m.figure for m in METRICS.values()}
    assert {figure for _, figure in PAPER} == figures - {""}
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
        {**row(dataset, method, repeat, "auc", 0.9), "seconds": value}
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
        row("yale", method, k, "auc", 0.9 + 0.001 * place)
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
        made = row("yale", "natural", k, "auc", 0.9)
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


def test_the_expert_stands_beside_none_and_both_controls():
    levels = {"expert": 0.9, "none": 0.8, "ridge": 0.85, "contradictory": 0.92}
    rows = [
        row("yale", name, k, "auc", level + 0.001 * (k % 3), size=2, wrong=wrong)
        for name, level in levels.items()
        for wrong in [1.0 if name == "contradictory" else None]
        for k in range(6)
    ]
    (line,) = control_table(measure(rows)).rows
    assert line.label == "Yale, AUC, 2"
    assert [cell.text.split()[0] for cell in line.cells] == ["+10.00", "+5.00", "−2.00"]
    assert [cell.mark for cell in line.cells] == ["▲", "▲", "▼"]
    # A place without one of its controls is not shown.
    some = [made for made in rows if made["method"] != "ridge"]
    assert control_table(measure(some)) is None


def test_selected_features_are_counted_where_rows_tell():
    rows = [
        row("yale", "none", k, "auc", 0.9) | {"strengths": json.dumps({"features": n})}
        for k, n in enumerate((3, 9, 4))
    ]
    rows += [row("orl", "none", 0, "auc", 0.9)]
    (line,) = selection_table(measure(rows), {"yale": 12, "orl": 12}).rows
    assert [cell.text for cell in line.cells] == ["4 (3–9)", NOTHING]
    assert selection_table(measure(), {"yale": 12}) is None


def test_usual_and_adjusted_intervals_find_no_more_than_ours(full):
    for line in interval_table(full).rows:
        ours, ours_holm, usual, usual_holm = map(counts, line.cells[1:])
        assert sum(ours) == int(line.cells[0].text)
        assert ours.ties <= ours_holm.ties <= usual_holm.ties
        assert ours.ties <= usual.ties <= usual_holm.ties
    assert interval_table(measure([])) is None
