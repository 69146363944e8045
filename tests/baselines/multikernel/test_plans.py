"""Plans: the variant as asked for, landmarks where rows are too many."""

import warnings

import numpy as np
import pytest

from priormtl.baselines.multikernel import plans
from priormtl.baselines.multikernel.base_kernels import Linear
from priormtl.baselines.multikernel.gathering import gather_tasks
from priormtl.baselines.multikernel.plans import Plan, PlannedFeatures, choose_plan
from priormtl.data import from_labels
from priormtl.exceptions import ApproximationWarning


def tasks(n=100):
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(n, 2)), rng.normal(size=n), np.arange(n) % 4
    data = from_labels(X, y, task)
    return gather_tasks(data, (Linear(),), normalize=True, centred=True)


@pytest.mark.parametrize(
    ("variant", "most", "landmarks", "plan"),
    [
        ("auto", 100, "auto", Plan("low-rank", None)),
        ("shared", 25, "auto", Plan("shared", None)),
        ("low-rank", 1, None, Plan("low-rank", None)),
        ("shared", 100, 7, Plan("shared", (7, 3))),
    ],
)
def test_what_fits_or_is_asked_for_is_used_without_a_word(
    variant, most, landmarks, plan
):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_plan(tasks(), variant, most, landmarks, 3) == plan


@pytest.mark.parametrize(("variant", "most"), [("low-rank", 99), ("shared", 24)])
def test_too_many_rows_are_told(variant, most):
    with pytest.warns(ApproximationWarning, match="64 landmarks among 100 distinct"):
        plan = choose_plan(tasks(), variant, most, "auto", 3)
    assert (plan.variant, plan.landmarks, plan.n_landmarks) == (variant, (64, 3), 64)


def test_few_rows_need_no_landmarks():
    assert choose_plan(tasks(64), "low-rank", 1, "auto", 0).landmarks is None


def test_large_tables_get_landmarks_of_themselves(monkeypatch):
    monkeypatch.setattr(plans, "MOST_CELLS", 9_999)
    with pytest.warns(ApproximationWarning):
        assert choose_plan(tasks(), "auto", 1000, "auto", 0).n_landmarks == 64
    assert choose_plan(tasks(), "low-rank", 1000, "auto", 0).n_landmarks is None


def test_features_of_a_plan_are_made_once():
    planned = PlannedFeatures(tasks())
    plan = Plan("low-rank", (5, 0))
    assert planned.of(plan) is planned.of(plan)
    assert planned.of(plan) is not planned.of(Plan("shared", None))
