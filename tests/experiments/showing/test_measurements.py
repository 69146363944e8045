"""Rows are found by setting, counted, ordered and compared."""

import numpy as np
import pytest

from priormtl.experiments.showing.comparisons import Verdict
from priormtl.experiments.showing.measurements import Progress, Setting
from result_rows import LABELS, measure, planned_cells, row, score_rows


def test_repeats_are_those_of_the_setting_only():
    rows = [
        row("school", "none", 0, "ve_pooled", 0.3),
        row("school", "none", 1, "ve_pooled", 0.4),
        row("school", "none", 0, "ve_pooled", 0.2, size=5),
        row("school", "none", 0, "ve_pooled", 0.1, wrong=0.5),
        row("school", "none", 0, "nmse_tasks", 0.7, task="3"),
    ]
    found = measure(rows)
    assert found.repeats(Setting("school", "none"), "ve_pooled") == {0: 0.3, 1: 0.4}
    assert found.repeats(Setting("school", "none", 5), "ve_pooled") == {0: 0.2}
    assert found.repeats(Setting("school", "none"), "nmse_tasks") == {}
    assert found.sizes("school", ["none"]) == [5]


def test_estimate_is_mean_and_sample_deviation_in_per_cent():
    rows = [row("yale", "none", k, "auc", v) for k, v in enumerate((0.9, 0.92, 0.97))]
    mean, sd = measure(rows).estimate(Setting("yale", "none"), "auc")
    assert mean == pytest.approx(93.0)
    assert sd == pytest.approx(np.std([90, 92, 97], ddof=1))
    assert measure(rows).estimate(Setting("orl", "none"), "auc") is None


def test_values_that_are_no_numbers_count_as_missing():
    rows = [row("yale", "none", k, "auc", v) for k, v in enumerate((0.9, np.nan))]
    planned = [("yale", "none", None, None, k) for k in range(3)]
    found = measure(rows, planned).progress(Setting("yale", "none"), "auc")
    assert (found, found.complete, found.text) == (Progress(1, 3), False, "1 of 3")


def test_a_repeat_that_comes_twice_is_refused():
    rows = [row("yale", "none", 0, "auc", 0.9)] * 2
    with pytest.raises(ValueError, match="each repeat once: got repeat 0"):
        measure(rows)


def test_methods_come_in_the_order_of_the_labels_whatever_that_of_the_rows():
    rows = list(score_rows(n_repeats=2))
    assert measure(rows[::-1]).methods(["school"]) == list(LABELS)
    assert measure(rows[::-1]).datasets() == measure(rows).datasets()
    assert measure(rows).order(["zeta", "dmtl", "none"]) == ["none", "dmtl", "zeta"]


def test_everything_planned_is_there_in_a_full_run():
    found = measure(planned=planned_cells())
    assert all(
        found.progress(setting, metric).complete for setting, metric in found.values
    )


def test_the_ratio_of_the_setting_reaches_the_interval():
    wide, narrow = measure(ratio=4.0), measure(ratio=0.1)
    settings = Setting("school", "expert"), Setting("school", "none")
    ends = [found.compare(*settings, "ve_pooled").interval for found in (wide, narrow)]
    assert ends[0].low < ends[1].low < ends[1].high < ends[0].high


def test_lower_errors_are_better():
    settings = Setting("school", "ridge-single"), Setting("school", "none")
    assert measure().judge(*settings, "nmse_pooled") is Verdict.WORSE
    assert measure().judge(*settings, "ve_pooled") is Verdict.WORSE
