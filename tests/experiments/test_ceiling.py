"""What least squares explains in sample, against other ways to compute it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from priormtl import datasets
from priormtl.experiments.ceiling import school_ceiling
from small_tasks import small_school


@pytest.mark.usefixtures("small_sets")
@pytest.mark.parametrize("columns", [slice(None), [0, 1, 3]])
def test_it_is_the_r2_of_least_squares_without_and_with_effects(monkeypatch, columns):
    # All columns together hold a constant, three of them do not.
    whole = small_school()
    data = replace(whole, originals=whole.originals[:, columns])
    monkeypatch.setattr(datasets, "load_school", lambda: data)
    X, y, task = data
    effects = (task[:, np.newaxis] == np.array(data.task_names)).astype(float)
    wide = np.hstack([X, effects])
    pooled, with_effects = school_ceiling()
    assert pooled == pytest.approx(LinearRegression().fit(X, y).score(X, y))
    assert with_effects == pytest.approx(LinearRegression().fit(wide, y).score(wide, y))
    assert pooled < with_effects < 1.0


@pytest.mark.usefixtures("real_sets")
def test_no_linear_model_with_effects_reaches_what_the_paper_claims():
    pooled, with_effects = school_ceiling()
    assert pooled == pytest.approx(0.340, abs=5e-4)
    assert with_effects == pytest.approx(0.387, abs=5e-4)
