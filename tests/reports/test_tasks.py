"""Tasks: one row each, in the model's order."""

import numpy as np
import pytest

from priormtl.reports.fits import score_fit
from priormtl.reports.learned import Learned
from priormtl.reports.tasks import task_table
from reported_models import TASKS, learned_of, tuned_model


def test_numbers_are_those_of_the_model():
    model = tuned_model()
    learned = Learned.read(model)
    fits = score_fit(learned)
    table = task_table(learned, fits)
    assert table["task"] == TASKS
    assert np.array_equal(table["intercept"], model.intercept_)
    assert table["norm"] == pytest.approx(np.linalg.norm(model.coef_, axis=1))
    assert np.array_equal(table["score"], fits.scores)


def test_own_parts_have_a_column():
    learned = learned_of(np.ones((2, 2)), own_coef_=[[0.0, 0.0], [3.0, 4.0]])
    assert task_table(learned, None)["own"].tolist() == [0.0, 5.0]


def test_a_model_without_intercepts_has_zeros():
    learned = learned_of(np.ones((2, 2)), intercept_=0.0)
    assert task_table(learned, None)["intercept"].tolist() == [0.0, 0.0]
