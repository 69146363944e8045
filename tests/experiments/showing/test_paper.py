"""The paper's tables, whole, and joined to our names."""

import pytest

from priormtl.experiments.showing.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    PAPER_LABELS,
    TABLE_1,
    TABLE_2,
    Estimate,
    paper_estimate,
)

ROWS = {**TABLE_1, **TABLE_2}


@pytest.mark.parametrize("key", ROWS)
def test_every_row_has_all_ten_columns_in_per_cent(key):
    assert list(ROWS[key]) == list(PAPER_LABELS)
    assert all(0 < mean < 100 and 0 < sd < 20 for mean, sd in ROWS[key].values())


def test_names_of_data_sets_and_metrics_are_ours():
    assert {dataset for dataset, _ in ROWS} <= set(DATASETS)
    assert {figure for _, figure in ROWS} == {m.figure for m in METRICS.values()}
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
