import numpy as np
import pytest
from scipy import stats

from priormtl.audits.benefit import judge_benefit, judge_tasks


def judge(with_prior, without_prior, ratio=0.0):
    a, b = np.array(with_prior, float), np.array(without_prior, float)
    lams = np.ones(len(a)), np.ones(len(a))
    return judge_benefit("error", a, b, lams=lams, test_to_train=ratio, method="m")


def test_without_overlap_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, size=(2, 8))
    expected = stats.ttest_rel(a, b)
    found = judge(a, b)
    assert found.p_value == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low / b.mean(), high / b.mean()))


def test_swapping_the_two_turns_the_verdict():
    noise = np.linspace(0, 0.01, 5)
    assert judge(0.9 + noise, np.ones(5)).verdict == "helped"
    assert judge(np.ones(5), 0.9 + noise).verdict == "harmed"
    assert judge(1 + noise - 0.005, np.ones(5)).verdict == "no difference"


def test_sentences():
    found = judge([0.80, 0.90, 0.85, 0.88], [1.0, 1.0, 1.0, 1.0], 0.25)
    assert (
        found.sentence
        == ("The prior lowered the error by 14 % (95 % interval 4.5 to 24 %).")
        == str(found)
    )
    assert "raised the error" in judge([1.2, 1.3, 1.25], [1, 1, 1]).sentence
    assert "by −0.50 %" in judge([0.5, 1.49], [1.0, 1.0]).sentence


def test_what_solvers_leave_open_is_no_difference():
    assert judge([1 + 1e-7] * 4, [1.0] * 4).verdict == "no difference"


def test_one_split_and_perfect_fits():
    assert "One split alone" in judge([0.5], [1.0]).sentence
    assert judge([0.0, 0.0], [0.0, 0.0]).change == 0
    assert judge([1.0, 1.1], [0.0, 0.0]).change > 0


def test_tasks_are_judged_on_the_splits_that_hold_them_out():
    a = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, np.nan]])
    first, second = judge_tasks(["x", 2], a, a + 1.0, 0.25)
    assert (first.task, first.with_prior, first.without_prior) == ("x", 2.0, 3.0)
    assert first.change == pytest.approx(-1 / 3)
    assert second.task == "2"
    assert np.isnan(second.with_prior)
    assert np.isnan(second.change)
