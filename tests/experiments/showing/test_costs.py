"""Costs: means of seconds, one cell per method and data set."""

from priormtl.experiments.showing.costs import cost_table
from result_rows import measure, row


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
