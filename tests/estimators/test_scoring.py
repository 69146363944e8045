"""ScorerOnRows: scorers get models that know each row's task."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from priormtl import MultiTaskRegressor
from priormtl.estimators.splitting import ScorerOnRows, with_task_column


def shell(d, m):
    model = MultiTaskRegressor(task=d)
    model.n_features_in_, model.tasks_ = d, np.arange(m)
    model._targets_are_columns = False
    return model


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_task_is_the_last_column(form):
    X = with_task_column(form(np.eye(3)), np.array([2, 0, 1]))
    assert issparse(X) == (form is csr_array)
    dense = X.toarray() if issparse(X) else X
    np.testing.assert_array_equal(dense, np.column_stack([np.eye(3), [2, 0, 1]]))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_each_model_predicts_with_its_own_coefficients(form):
    X = with_task_column(form(np.ones((3, 1))), np.array([1, 0, 1]))
    seen = []

    def scorer(model, X, y):
        seen.append(model.predict(X).tolist())
        return y.sum()

    score = ScorerOnRows(scorer, shell(1, 2), X, np.array([1.0, 2.0, 3.0]))
    coefs = np.array([[[1.0], [10.0]], [[2.0], [20.0]]])
    intercepts = np.array([[0.0, 0.0], [0.5, 0.0]])
    assert score(coefs, intercepts).tolist() == [6.0, 6.0]
    assert seen == [[10.0, 1.0, 10.0], [20.0, 2.5, 20.0]]
    assert not hasattr(score.model, "coef_")
