"""Variance explained, normalised error and AUC: definitions, gaps, tasks, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score, roc_auc_score

from priormtl.metrics import auc, nmse, variance_explained

LAW = settings(max_examples=50, deadline=None, derandomize=True, database=None)


def targets(seed, n=30, m=4):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, m)) + rng.normal(size=m)
    return truth, truth + 0.5 * rng.normal(size=(n, m))


def error_ratio(truth, guess):
    return np.sum((truth - guess) ** 2) / np.sum((truth - truth.mean()) ** 2)


def test_nmse_is_error_over_spread_by_hand():
    assert nmse([0.0, 2.0, 4.0], [0.0, 2.0, 6.0]) == 0.5
    assert variance_explained([0.0, 2.0, 4.0], [0.0, 2.0, 6.0]) == 0.5


@LAW
@given(st.integers(0, 10**6))
def test_the_mean_scores_zero_and_the_truth_scores_one(seed):
    truth = targets(seed)[0][:, 0]
    mean = np.full_like(truth, truth.mean())
    assert variance_explained(truth, mean) == pytest.approx(0.0, abs=1e-12)
    assert variance_explained(truth, truth) == 1.0


@LAW
@given(st.integers(0, 10**6), st.floats(-50, 50), st.floats(0.1, 50))
def test_units_do_not_matter(seed, shift, factor):
    truth, guess = targets(seed)
    moved = nmse(factor * truth + shift, factor * guess + shift)
    assert moved == pytest.approx(nmse(truth, guess), rel=1e-8)


@LAW
@given(st.integers(0, 10**6))
def test_both_metrics_add_up_to_one(seed):
    truth, guess = targets(seed)
    for average in ("pooled", "tasks", None):
        total = nmse(truth, guess, average=average) + variance_explained(
            truth, guess, average=average
        )
        np.testing.assert_allclose(total, 1.0, rtol=1e-14)


@LAW
@given(st.integers(0, 10**6))
def test_variance_explained_agrees_with_r2_score(seed):
    truth, guess = targets(seed)
    np.testing.assert_allclose(
        [
            variance_explained(truth, guess),
            variance_explained(truth, guess, average="tasks"),
            *variance_explained(truth, guess, average=None),
        ],
        [
            r2_score(truth.ravel(), guess.ravel()),
            r2_score(truth, guess),
            *r2_score(truth, guess, multioutput="raw_values"),
        ],
        rtol=1e-10,
        atol=1e-12,
    )


@LAW
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_stacked_rows_score_like_columns(seed, random):
    truth, guess = targets(seed)
    task = np.tile([2, 10, 1, 7], len(truth))
    order = random.sample(range(truth.size), truth.size)
    y, p, labels = truth.ravel()[order], guess.ravel()[order], task[order]
    by_label = np.argsort([2, 10, 1, 7])
    for average in ("pooled", "tasks"):
        stacked = nmse(y, p, task=labels, average=average)
        assert stacked == pytest.approx(nmse(truth, guess, average=average))
    np.testing.assert_allclose(
        nmse(y, p, task=labels, average=None),
        nmse(truth, guess, average=None)[by_label],
    )


def test_values_per_task_follow_the_sorted_labels():
    values = nmse(
        [0.0, 2.0, 0.0, 2.0],
        [0.0, 2.0, 2.0, 0.0],
        task=["b", "b", "a", "a"],
        average=None,
    )
    np.testing.assert_array_equal(values, [4.0, 0.0])


def test_targets_not_measured_do_not_count():
    truth, guess = targets(3)
    gaps = np.random.default_rng(0).random(truth.shape) < 0.3
    holes = np.where(gaps, np.nan, truth)
    columns = [error_ratio(truth[~g, i], guess[~g, i]) for i, g in enumerate(gaps.T)]
    np.testing.assert_allclose(nmse(holes, guess, average=None), columns)
    assert nmse(holes, guess) == pytest.approx(error_ratio(truth[~gaps], guess[~gaps]))


def test_targets_not_measured_do_not_count_in_stacked_rows():
    assert nmse([0.0, np.nan, 2.0], [0.0, 5.0, 0.0], task=["a", "a", "a"]) == 2.0


def test_predictions_where_nothing_was_measured_may_be_anything():
    assert nmse([0.0, np.nan, 2.0], [0.0, np.nan, 0.0]) == 2.0


def test_a_task_with_equal_targets_has_no_value_and_does_not_enter_the_mean():
    truth = [[0.0, 5.0], [2.0, 5.0]]
    guess = [[0.0, 5.0], [0.0, 4.0]]
    np.testing.assert_array_equal(nmse(truth, guess, average=None), [2.0, np.nan])
    assert nmse(truth, guess, average="tasks") == 2.0


@pytest.mark.parametrize("average", ["pooled", "tasks"])
def test_equal_targets_everywhere_have_no_value(average):
    assert np.isnan(nmse([5.0, 5.0], [5.0, 4.0], average=average))


def test_shapes_must_match():
    with pytest.raises(ValueError, match=r"same shape: got \(2,\) and \(3,\)"):
        nmse([1.0, 2.0], [1.0, 2.0, 3.0])


def test_one_label_per_row_is_needed():
    with pytest.raises(ValueError, match="one label per row of y_true: got 1 labels"):
        nmse([1.0, 2.0], [1.0, 2.0], task=["a"])


def test_a_task_without_targets_is_refused():
    with pytest.raises(ValueError, match="at least one measured target per task"):
        nmse([[1.0, np.nan], [2.0, np.nan]], np.zeros((2, 2)))


def test_an_unknown_average_is_refused():
    with pytest.raises(ValueError, match='"pooled", "tasks" or None: got \'macro\''):
        variance_explained([1.0, 2.0], [1.0, 2.0], average="macro")


def classes_and_scores(seed, n=40, m=3, levels=7):
    """Both classes in every column, and scores with many ties."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random((n, m)) < 0.4, 1.0, -1.0)
    y[0], y[1] = 1.0, -1.0
    return y, rng.integers(0, levels, size=(n, m)) + 0.5 * y


@LAW
@given(st.integers(0, 10**6))
def test_areas_agree_with_roc_auc_score(seed):
    y, scores = classes_and_scores(seed)
    expected = [roc_auc_score(*pair) for pair in zip(y.T, scores.T, strict=True)]
    np.testing.assert_allclose(auc(y, scores, average=None), expected, rtol=1e-12)
    assert auc(y, scores) == pytest.approx(np.mean(expected), rel=1e-12)
    assert auc(y[:, 0], scores[:, 0]) == pytest.approx(expected[0], rel=1e-12)


@LAW
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_stacked_rows_have_the_areas_of_columns(seed, random):
    y, scores = classes_and_scores(seed)
    task = np.tile(["c", "a", "b"], len(y))
    order = random.sample(range(y.size), y.size)
    stacked = auc(
        y.ravel()[order], scores.ravel()[order], task=task[order], average=None
    )
    np.testing.assert_allclose(stacked, auc(y, scores, average=None)[[1, 2, 0]])


@LAW
@given(st.integers(0, 10**6))
def test_only_the_order_of_scores_matters_and_its_reverse_is_one_minus(seed):
    y, scores = classes_and_scores(seed)
    area = auc(y, scores)
    assert auc(y, np.exp(scores / 3.0)) == area
    assert auc(y, -scores) == pytest.approx(1.0 - area)
    assert auc(-y, scores) == pytest.approx(1.0 - area)


def test_ties_count_half():
    assert auc([-1, 1], [0.0, 0.0]) == 0.5
    assert auc([-1, 1, 1], [0.0, 0.0, 1.0]) == 0.75


@pytest.mark.parametrize("positive", [1, 1.0, True, 2])
def test_classes_may_be_signs_numbers_or_truth_values(positive):
    assert auc([0, positive, 0, positive], [0.1, 0.9, 0.8, 0.3]) == 0.75


def test_classes_not_measured_do_not_count():
    y, scores = classes_and_scores(3)
    gaps = np.random.default_rng(0).random(y.shape) < 0.3
    holes = np.where(gaps, np.nan, y)
    columns = [roc_auc_score(y[~g, i], scores[~g, i]) for i, g in enumerate(gaps.T)]
    np.testing.assert_allclose(auc(holes, scores, average=None), columns)
    assert auc([-1, np.nan, 1], [0.0, np.nan, 1.0]) == 1.0


def test_a_task_of_one_class_has_no_area_and_does_not_enter_the_mean():
    y, scores = [[-1, 1], [1, 1]], [[0.0, 0.0], [1.0, 1.0]]
    np.testing.assert_array_equal(auc(y, scores, average=None), [1.0, np.nan])
    assert auc(y, scores) == 1.0
    assert np.isnan(auc([1, 1], [0.0, 1.0]))


def test_an_area_is_never_pooled():
    with pytest.raises(ValueError, match="\"tasks\" or None: got 'pooled'"):
        auc([-1, 1], [0.0, 1.0], average="pooled")
