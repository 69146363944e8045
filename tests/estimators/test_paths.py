"""Paths are the fits of MultiTaskRegressor, all at once; traces the way to one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    baselines,
    regularization_path,
)
from priormtl.datasets import make_related_tasks
from priormtl.estimators import trace_fit
from shown_models import fitted_model

X, Y, TASK = make_related_tasks(3, 5, 20, noise=1.0, random_state=0)
SETTINGS = {
    "theta": 2.0,
    "epsilon": 5.0,
    "feature_prior": FeaturePrior.similar([(0, 1)]),
    "standardize": True,
    "tol": 1e-12,
}


def test_each_step_is_the_fit_at_its_lam():
    path = regularization_path(X, Y, task=TASK, lams=[1.0, 50.0, 8.0], **SETTINGS)
    assert path.lams.tolist() == [50.0, 8.0, 1.0]
    for k, lam in enumerate(path.lams):
        model = MultiTaskRegressor(lam, **SETTINGS).fit(X, Y, task=TASK)
        np.testing.assert_allclose(path.coefs[k], model.coef_, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(path.intercepts[k], model.intercept_, atol=1e-5)
        assert path.objectives[k] == pytest.approx(model.objective_)
        assert path.dual_gaps[k] <= 1e-11 * path.objectives[0]
        np.testing.assert_array_equal(path.active[k], model.coef_.any(axis=0))
    assert path.tasks.tolist() == [0, 1, 2]


def test_grid_begins_where_all_vanishes():
    path = regularization_path(X, Y, task=TASK)
    assert len(path.lams) == 30
    assert not path.active[0].any()
    assert path.active[-1].any()
    assert np.all(np.diff(path.objectives) <= 0)


def test_the_task_may_be_a_column():
    frame = pd.DataFrame(X, columns=list("abcde")).assign(town=TASK)
    by_name = regularization_path(frame, Y, task="town", lams=4)
    by_label = regularization_path(X, Y, task=TASK, lams=4)
    np.testing.assert_array_equal(by_name.coefs, by_label.coefs)


def test_columns_of_targets():
    targets = np.column_stack([Y, -Y])
    path = regularization_path(X, targets, lams=3, task_prior=None)
    assert path.coefs.shape == (3, 2, 5)
    np.testing.assert_allclose(path.coefs[:, 0], -path.coefs[:, 1], atol=1e-8)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="lams must list at least one"):
        regularization_path(X, Y, lams=[])
    with pytest.raises(TypeError, match="no_such"):
        regularization_path(X, Y, no_such=1)


def test_steps_that_do_not_converge_warn():
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        regularization_path(X, Y, task=TASK, lams=[0.1], solver="ista", max_iter=1)


# Traces.


@pytest.mark.parametrize("solver", ["auto", "fista"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_trace_ends_where_the_fit_ends(solver, loss):
    if loss == "squared":
        model, y = MultiTaskRegressor(5.0, solver=solver, standardize=True), Y
    else:
        model, y = MultiTaskClassifier(5.0, solver=solver), np.median(Y) < Y
    trace = trace_fit(model, X, y, task=TASK)
    model.fit(X, y, task=TASK)
    assert trace.iterations.tolist() == list(range(model.n_iter_ + 1))
    assert trace.objectives[-1] == model.objective_
    # That of the fit bounds rounding errors too.
    rounding = model.dual_gap_ - trace.gaps[-1]
    assert 0 <= rounding <= 1e-9 * model.objective_
    assert trace.gaps[-1] <= trace.tolerance < trace.gaps[0]
    assert (np.diff(trace.seconds) >= 0).all()


def test_the_model_is_left_as_it_is():
    model = fitted_model()
    before, coef = dict(vars(model)), model.coef_.copy()
    trace = trace_fit(model, X, Y, task=TASK, solver="ista")
    assert trace.name == "ista"
    assert model.solver == "auto"
    assert vars(model).keys() == before.keys()
    assert np.array_equal(model.coef_, coef)


def test_a_search_is_traced_at_what_it_chose():
    search = MultiTaskRegressorCV(lams=3, thetas=(1.0,), epsilons=(2.0,), cv=3, **PAPER)
    search.fit(X, Y, task=TASK)
    plain = MultiTaskRegressor(search.lam_, search.theta_, search.epsilon_)
    one, other = (trace_fit(m, X, Y, task=TASK) for m in (search, plain))
    assert np.array_equal(one.objectives, other.objectives)


@pytest.mark.parametrize("model", [baselines.DMTL(), MultiTaskRegressorCV(), None])
def test_models_without_our_solvers_are_refused(model):
    with pytest.raises(TypeError, match="model must be"):
        trace_fit(model, X, Y, task=TASK)
