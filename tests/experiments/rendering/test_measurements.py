"""Repeats are found by setting, counted, ordered and compared in pairs."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from paper_data import LABELS, measure, planned_cells, row, score_rows
from priormtl.experiments.rendering.measurements import (
    Progress,
    Setting,
    Verdict,
    compare_repeats,
    overlap_ratio,
    tally,
)
from priormtl.experiments.rendering.tables import adjust_by_holm
from priormtl.metrics import corrected_interval


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
    assert found.repeats(Setting("school", "none"), "ve_median") == pytest.approx(
        {0: 0.3}
    )
    assert found.sizes("school") == [5]


def test_estimate_is_mean_and_sample_deviation_in_per_cent():
    rows = [row("yale", "none", k, "auc", v) for k, v in enumerate((0.9, 0.92, 0.97))]
    mean, sd = measure(rows).estimate(Setting("yale", "none"), "auc")
    assert mean == pytest.approx(93.0)
    assert sd == pytest.approx(np.std([90, 92, 97], ddof=1))
    assert measure(rows).estimate(Setting("orl", "none"), "auc") is None


def test_values_that_are_no_numbers_count_as_missing():
    rows = [row("yale", "none", k, "auc", v) for k, v in enumerate((0.9, np.nan))]
    planned = [Setting("yale", "none")] * 3
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
    expert = Setting("school", "expert")
    ends = [found.compare(expert, "none").interval for found in (wide, narrow)]
    assert ends[0].low < ends[1].low < ends[1].high < ends[0].high


def test_lower_errors_are_better():
    ridge = Setting("school", "ridge-single")
    assert measure().judge(ridge, "none", "nmse_pooled") is Verdict.WORSE
    assert measure().judge(ridge, "none", "ve_pooled") is Verdict.WORSE


def test_a_setting_is_compared_with_the_same_rows_and_no_wrong_relations():
    rows = [
        row("yale", name, 0, "auc", value, size=size, wrong=wrong)
        for name, value, size, wrong in (
            ("expert", 0.9, 2, 1.0),
            ("none", 0.8, 2, None),
            ("none", 0.1, 5, None),
        )
    ]
    compared = measure(rows).compare(Setting("yale", "expert", 2, 1.0), "none")
    assert compared.mean == pytest.approx(0.1)


# Paired differences.


def compare(values, reference, ratio=0.0, **options):
    first, second = dict(enumerate(values)), dict(enumerate(reference))
    return compare_repeats(first, second, test_to_train=ratio, **options)


def test_interval_is_the_formula_by_hand():
    differences = np.array([1.0, 2.0, 4.0])
    # Mean 7/3, variance 7/3, t(0.975, 2) = 4.302653, ratio 1/2: 7/3 (1/3 + 1/2).
    reach = 4.302652729911275 * (7 / 3 * (1 / 3 + 1 / 2)) ** 0.5
    low, high, _ = corrected_interval(differences, 0.5)
    assert (low, high) == pytest.approx((7 / 3 - reach, 7 / 3 + reach))


def test_without_correction_it_is_the_paired_t_test():
    values, reference = np.random.default_rng(0).normal(size=(2, 10))
    expected = stats.ttest_rel(values, reference)
    found = compare(values, reference).interval
    assert found.p_value == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval(0.95)
    assert found[:2] == pytest.approx((ends.low, ends.high))


def test_p_value_and_interval_agree():
    rng = np.random.default_rng(1)
    for shift in np.linspace(0, 2, 30):
        found = corrected_interval(rng.normal(shift, size=8), 0.3)
        assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)


def coverage(ratio, correlation, n_trials=2000, k=10):
    """Share of intervals that hold the true mean, 0, of correlated differences."""
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(n_trials, 1)) * correlation**0.5
    own = rng.normal(size=(n_trials, k)) * (1 - correlation) ** 0.5
    ends = np.array([corrected_interval(row, ratio)[:2] for row in shared + own])
    return np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))


def test_interval_covers_at_its_level():
    # Correlation n_test / (n_test + n_train) is what the correction assumes.
    assert coverage(0.0, 0.0) == pytest.approx(0.95, abs=0.02)
    assert coverage(2 / 3, 0.4) == pytest.approx(0.95, abs=0.02)
    assert coverage(0.0, 0.4) < 0.7


def test_swapping_the_two_swaps_the_verdict():
    rng = np.random.default_rng(3)
    values = rng.normal(size=10)
    worse = values - 1 + 0.1 * rng.normal(size=10)
    there, back = compare(values, worse, 0.5), compare(worse, values, 0.5)
    assert there.mean == pytest.approx(-back.mean)
    assert there.verdict is Verdict.BETTER
    assert back.verdict is Verdict.WORSE
    lower = compare(values, worse, 0.5, higher_is_better=False)
    assert lower.verdict is Verdict.WORSE


def test_equal_values_are_even_also_when_only_nearly_equal():
    values = np.arange(5.0)
    for shift in (0.0, 1e-13):
        found = compare(values + shift, values, 0.5)
        assert found.verdict is Verdict.EVEN


def test_a_constant_difference_is_certain():
    found = compare(np.arange(4.0) + 1, np.arange(4.0), 0.5)
    assert found.interval == (1.0, 1.0, 0.0)
    assert found.verdict is Verdict.BETTER


def test_only_common_repeats_count_and_the_rest_is_told():
    found = compare_repeats(
        {0: 1.0, 1: 2.0, 2: 3.5}, {1: 1.0, 2: 2.0, 7: 9.0}, test_to_train=0.0
    )
    assert (found.n_common, found.n_left_out) == (2, 2)
    assert found.mean == pytest.approx(1.25)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_repeats_give_no_verdict(n):
    found = compare(np.ones(n), np.zeros(n))
    assert found.verdict is Verdict.UNKNOWN
    assert np.isnan(found.interval.low)


def test_counts_add_up():
    kinds = [Verdict.WORSE, Verdict.UNKNOWN, Verdict.BETTER, Verdict.EVEN]
    assert tally(dict(enumerate(kinds))) == ([0, 2, 3], [2], [0])
    assert tally({}) == ([], [], [])


def ridge_difference(X, y, train, test):
    """Test error of a weak minus that of a strong ridge, fitted on few rows."""
    gram, target = X[train].T @ X[train], X[train].T @ y[train]
    strengths = (1.0, 20.0)
    coefs = [np.linalg.solve(gram + s * np.eye(len(gram)), target) for s in strengths]
    errors = [np.mean((y[test] - X[test] @ coef) ** 2) for coef in coefs]
    return errors[0] - errors[1]


def split_differences(n_train, n=200, d=8, k=10, n_sets=200):
    """Differences over k random splits of each of many data sets (n_sets, k)."""
    rng = np.random.default_rng(5)
    coef = rng.normal(size=d) / d**0.5
    rows = []
    for _ in range(n_sets):
        X = rng.normal(size=(n, d))
        y = X @ coef + rng.normal(size=n)
        orders = (rng.permutation(n) for _ in range(k))
        parts = ((order[:n_train], order[n_train:]) for order in orders)
        rows.append([ridge_difference(X, y, *part) for part in parts])
    return np.array(rows)


@pytest.mark.parametrize("n_train", [15, 120])
def test_intervals_cover_on_real_splits_and_are_not_far_too_long(n_train):
    differences = split_differences(n_train)
    truth = differences.mean()

    def ends(ratio):
        return np.array([corrected_interval(row, ratio)[:2] for row in differences])

    low, high = ends(overlap_ratio((200 - n_train) / n_train)).T
    assert np.mean((low <= truth) & (truth <= high)) > 0.92
    plain = np.diff(ends((200 - n_train) / n_train), axis=1).mean()
    assert (high - low).mean() <= plain * (1 + 1e-12)
    if n_train < 100:
        assert (high - low).mean() < 0.4 * plain


def test_holm_adjusts_as_statsmodels_does():
    values = np.random.default_rng(0).uniform(size=12) ** 3
    expected = multipletests(values, method="holm")[1]
    assert adjust_by_holm(values.tolist()) == pytest.approx(expected.tolist())
    assert adjust_by_holm([]) == []


def test_the_usual_interval_is_longer_where_tests_are_the_larger_part():
    rows = [
        row("school", name, k, "ve_pooled", 0.3 + 0.01 * k * (name == "natural"))
        for name in ("natural", "none")
        for k in range(4)
    ]
    pair = Setting("school", "natural"), "none"
    for ratio, same in ((4.0, False), (0.5, True)):
        found = measure(rows, ratio=ratio)
        low, high = (found.compare(*pair, "ve_pooled", usual=u) for u in (False, True))
        assert low.mean == high.mean
        assert (low.interval == high.interval) == same
        assert low.interval.high <= high.interval.high
