"""The default solver on tables that nobody would wish for."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl import FeaturePrior, MultiTaskClassifier, MultiTaskRegressor

LAW = settings(max_examples=20, deadline=None, derandomize=True)
SHARES = st.sampled_from([1e-3, 1e-2, 0.1, 0.5, 0.999, 1.001])
STRENGTHS = st.sampled_from([0.0, 1e-3, 1.0, 1e3])
HUGE_TOO = st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e6])
SCALES = st.sampled_from([1e-12, 1e-6, 1.0, 1.0, 1.0, 1e6, 1e12])


@st.composite
def tables(draw):
    """X, y, task: zero, constant, duplicate and offset columns at any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, d = draw(st.integers(1, 8)), draw(st.sampled_from([1, 2, 3, 8, 20, 80]))
    counts = rng.integers(2, draw(st.sampled_from([4, 10, 40])), m)
    task = np.repeat(np.arange(m), counts)
    X = rng.standard_normal((len(task), d))
    y = 2.0 * X[:, 0] + rng.standard_normal(len(task))
    if draw(st.booleans()):
        X[:, rng.integers(d)] = draw(st.sampled_from([0.0, 3.7]))
    if draw(st.booleans()):
        X[:, 0] = X[:, -1]
    if draw(st.booleans()):
        X += draw(st.sampled_from([1.0, 1e4, 1e8]))
    return X * draw(SCALES), y, task


@st.composite
def settings_of(draw, X):
    """Strengths in the units of X; the penalty follows as a share of lam_max."""
    unit = np.std(X) ** 2 or 1.0
    prior = FeaturePrior.similar([(0, X.shape[1] - 1)]) if X.shape[1] > 1 else None
    penalty = draw(st.sampled_from(["l21", "nuclear"]))
    strengths = HUGE_TOO if penalty == "l21" else STRENGTHS
    return {
        "theta": draw(strengths) * unit,
        "epsilon": draw(strengths) * unit,
        "task_prior": draw(st.sampled_from(["chain", "mean", None])),
        "feature_prior": prior,
        "penalty": penalty,
    }


def fit_at_share(model, X, y, task, share):
    """Fit with lam a share of lam_max; None where X says nothing about y."""
    data = model._read_table(X, y, task, None, reset=True).to_tasks()
    problem = model._model().pose(data).problem
    noise = 1e-10 * np.sqrt(problem.fit.magnitude) * np.abs(X).max()
    if problem.lam_max <= noise:
        return None
    return model.set_params(lam=share * problem.lam_max).fit(X, y, task=task)


def is_certified(model, X, y, task, unit):
    """The gap is small, and no neighbour is better by more than it."""
    data = model._read_table(X, y, task, None, reset=True).to_tasks()
    problem = model._model().pose(data).problem
    rng = np.random.default_rng(0)
    size = np.abs(model.coef_).max() or 1.0
    room = model.dual_gap_ + 1e-9 * unit
    moves = (rng.standard_normal(model.coef_.T.shape) for _ in range(3))
    return model.dual_gap_ <= 1e-6 * unit and all(
        problem.objective(problem.at(model.coef_.T + 1e-4 * size * move))
        >= model.objective_ - room
        for move in moves
    )


@LAW
@given(st.data(), tables(), SCALES, SHARES)
def test_regression_converges(data, table, scale, share):
    X, y, task = table
    model = MultiTaskRegressor(**data.draw(settings_of(X)))
    fitted = fit_at_share(model, X, scale * y, task, share)
    if fitted is not None:
        unit = (
            fitted._model()
            .pose(fitted._read_table(X, scale * y, task, None, reset=True).to_tasks())
            .problem.null_objective
        )
        assert is_certified(fitted, X, scale * y, task, unit)
        assert share < 1 or not fitted.coef_.any()


@st.composite
def shared_tables(draw):
    """X and one column of targets per task, some not measured, some all zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(2, 40)), draw(st.integers(1, 8))
    X = rng.standard_normal((n, draw(st.sampled_from([1, 3, 8, 80, 300]))))
    if draw(st.booleans()):
        X = np.cumsum(X, axis=1)
    if draw(st.booleans()):
        X[:, 0] = X[:, -1]
    Y = X[:, :1] + rng.standard_normal((n, m))
    Y[:, 0] *= draw(st.sampled_from([0.0, 1.0]))
    if draw(st.booleans()):
        Y[1:][rng.random((n - 1, m)) < 0.3] = np.nan
    return X * draw(SCALES), Y


@LAW
@given(st.data(), shared_tables(), SHARES)
def test_columns_of_targets_converge(data, table, share):
    X, Y = table
    model = MultiTaskRegressor(**data.draw(settings_of(X)) | {"penalty": "l21"})
    fitted = fit_at_share(model, X, Y, None, share)
    if fitted is not None:
        read = fitted._read_table(X, Y, None, None, reset=True).to_tasks()
        unit = fitted._model().pose(read).problem.null_objective
        assert is_certified(fitted, X, Y, None, unit)
        assert share < 1 or not fitted.coef_.any()


@LAW
@given(st.data(), tables(), SHARES)
def test_classification_converges(data, table, share):
    X, y, task = table
    ends = np.flatnonzero(np.diff(task, append=-1))
    y = np.where(y > 0, 1, -1)
    y[ends], y[ends - 1] = 1, -1
    model = MultiTaskClassifier(**data.draw(settings_of(X)))
    fitted = fit_at_share(model, X, y, task, share)
    if fitted is not None:
        assert is_certified(fitted, X, y, task, fitted.objective_ + len(y))


@LAW
@given(st.data(), tables())
def test_no_penalty_converges(data, table):
    X, y, task = table
    model = MultiTaskRegressor(0.0, **data.draw(settings_of(X)))
    fitted = model.fit(X, y, task=task)
    assert np.all(np.isfinite(fitted.coef_))
    assert fitted.dual_gap_ <= 1e-6 * (y @ y)
