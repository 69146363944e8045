"""Traces: the way of the same solver to the same answer."""

import numpy as np
import pytest

from plotted_models import fitted, related
from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    baselines,
)
from priormtl.estimators import trace_fit

X, Y, TASK = related()


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
    assert trace.gaps[-1] == model.dual_gap_
    assert trace.gaps[-1] <= trace.tolerance < trace.gaps[0]
    assert (np.diff(trace.seconds) >= 0).all()


def test_the_model_is_left_as_it_is():
    model = fitted()
    before = {name: np.copy(value) for name, value in vars(model).items()}
    trace = trace_fit(model, X, Y, task=TASK, solver="ista")
    assert trace.name == "ista"
    assert model.solver == "auto"
    assert vars(model).keys() == before.keys()
    assert np.array_equal(model.coef_, before["coef_"])


def test_a_search_is_traced_at_what_it_chose():
    search = MultiTaskRegressorCV(lams=3, thetas=(1.0,), epsilons=(2.0,), cv=3)
    search.fit(X, Y, task=TASK)
    plain = MultiTaskRegressor(search.lam_, search.theta_, search.epsilon_)
    one, other = (trace_fit(m, X, Y, task=TASK) for m in (search, plain))
    assert np.array_equal(one.objectives, other.objectives)


@pytest.mark.parametrize("model", [baselines.DMTL(), MultiTaskRegressorCV(), None])
def test_models_without_our_solvers_are_refused(model):
    with pytest.raises(TypeError, match="model must be"):
        trace_fit(model, X, Y, task=TASK)
