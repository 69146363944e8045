"""Counts and amounts through the public face: exposure, offsets, dispersion, errors."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    summarize,
    tabular_model,
)
from priormtl.estimators import stacked

LOSSES = ["poisson", "gamma", "negative_binomial"]


def table(loss="poisson", m=4, n=40, seed=0):
    """Data frame with features a, b, c, exposure, an offset and tasks; targets."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(m * n, 3)), columns=list("abc"))
    frame["time"] = rng.uniform(0.5, 5.0, m * n)
    frame["shift"] = 0.3 * rng.normal(size=m * n)
    frame["task"] = np.repeat(np.arange(m), n)
    level = (0.3 * rng.normal(size=m))[frame["task"]]
    eta = 0.5 * frame["a"] - 0.4 * frame["b"] + level + frame["shift"]
    mean = np.exp(eta) * frame["time"]
    if loss == "gamma":
        return frame, rng.gamma(3.0, mean / 3.0)
    if loss == "negative_binomial":
        mean = mean * rng.gamma(2.0, 0.5, m * n)
    return frame, rng.poisson(mean)


def model(loss="poisson", **settings):
    given = {"task": "task", "exposure": "time", "offset": "shift"} | settings
    return MultiTaskRegressor(0.5, loss=loss, **given)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_one_task_without_penalty_agrees_with_scikit_learn(loss):
    frame, y = table(loss, m=1, n=80)
    X = frame[["a", "b", "c"]]
    theirs = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[loss]
    known = theirs(alpha=0.0, tol=1e-10, max_iter=1000).fit(X, y)
    ours = MultiTaskRegressor(0.0, loss=loss, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], known.coef_, atol=1e-6)
    assert ours.intercept_[0] == pytest.approx(known.intercept_, abs=1e-6)
    np.testing.assert_allclose(ours.predict(X), known.predict(X), rtol=1e-5)
    assert ours.score(X, y) == pytest.approx(known.score(X, y), abs=1e-6)
    power = {"poisson": 1, "gamma": 2}[loss]
    known = d2_tweedie_score(y, ours.predict(X), power=power)
    assert ours.score(X, y) == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, "tied", False])
def test_exposure_and_offset_add_to_the_score(loss, intercept):
    frame, y = table(loss)
    ours = model(loss, fit_intercept=intercept).fit(frame, y)
    assert ours.n_features_in_ == 3
    bare = frame.drop(columns="time")
    bare["shift"] = frame["shift"] + np.log(frame["time"])
    same = model(loss, exposure=None, fit_intercept=intercept).fit(bare, y)
    np.testing.assert_allclose(ours.coef_, same.coef_, atol=1e-10)
    twice = frame.assign(time=2.0 * frame["time"])
    np.testing.assert_allclose(ours.predict(twice), 2.0 * ours.predict(frame))
    assert ours.dual_gap_ <= 1e-6 * len(y) * 10
    assert ours.score(frame, y) > 0.2


def test_squared_loss_takes_an_offset():
    frame, y = table()
    ours = model("squared", exposure=None).fit(frame.drop(columns="time"), y)
    less = y - frame["shift"].to_numpy()
    plain = MultiTaskRegressor(0.5, task="task")
    plain.fit(frame[["a", "b", "c", "task"]], less)
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=1e-10)
    moved = plain.predict(frame[["a", "b", "c", "task"]]) + frame["shift"]
    np.testing.assert_allclose(ours.predict(frame.drop(columns="time")), moved)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_count_as_repetitions_and_sparse_rows_agree(loss):
    frame, y = table(loss)
    X, task = frame[["a", "b", "c"]].to_numpy(), frame["task"].to_numpy()
    weight = np.arange(len(y)) % 3 + 1.0
    settings = {"loss": loss, "tol": 1e-10}
    if loss == "negative_binomial":
        settings["dispersion"] = 0.7
    one = MultiTaskRegressor(2.0, **settings)
    one.fit(X, y, task=task, sample_weight=weight)
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    two = MultiTaskRegressor(2.0, **settings).fit(X[again], y[again], task=task[again])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-6)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)
    sparse = MultiTaskRegressor(2.0, **settings)
    sparse.fit(csr_array(X), y, task=task, sample_weight=weight)
    np.testing.assert_allclose(one.coef_, sparse.coef_, atol=1e-6)


def test_objective_is_as_written():
    frame, y = table()
    X, task = frame[["a", "b", "c"]].to_numpy(), frame["task"].to_numpy()
    ours = MultiTaskRegressor(2.0, epsilon=0.5, loss="poisson").fit(X, y, task=task)
    eta = np.sum(X * ours.coef_[task], axis=1) + ours.intercept_[task]
    value = np.sum(np.exp(eta) - y * eta)
    value += 2.0 * np.linalg.norm(ours.coef_, axis=0).sum()
    value += 0.25 * np.sum(np.diff(ours.coef_, axis=0) ** 2)
    assert ours.objective_ == pytest.approx(value, rel=1e-10)


def test_dispersion_is_the_most_likely_one():
    statsmodels = pytest.importorskip("statsmodels.api")
    frame, y = table("negative_binomial", m=1, n=300)
    X = frame[["a", "b"]]
    ours = MultiTaskRegressor(0.0, loss="negative_binomial", tol=1e-10).fit(X, y)
    theirs = statsmodels.NegativeBinomial(y, statsmodels.add_constant(X)).fit(
        disp=0, maxiter=500
    )
    assert ours.dispersion_ == pytest.approx(theirs.params["alpha"], rel=1e-3)
    known = theirs.params[["a", "b"]].to_numpy()
    np.testing.assert_allclose(ours.coef_[0], known, atol=1e-3)
    given = MultiTaskRegressor(0.0, loss="negative_binomial", dispersion=0.3)
    assert given.fit(X, y).dispersion_ == 0.3


@pytest.mark.parametrize("loss", LOSSES)
def test_cross_validation_scores_by_deviance(loss):
    frame, y = table(loss, n=30)
    found = MultiTaskRegressorCV(
        lams=[0.0, 3.0],
        epsilons=[1.0],
        ties="uniform",
        task_prior="mean",
        fit_intercept="tied",
        task="task",
        exposure="time",
        offset="shift",
        loss=loss,
        cv=3,
    ).fit(frame, y)
    assert np.all(found.cv_results_["mean_test_score"] <= 0)
    # Held-out predictions are means, with the exposure of their rows.
    assert np.corrcoef(found.held_out_, y)[0, 1] > 0.4
    assert found.score(frame, y) > 0.2
    if loss == "negative_binomial":
        assert 0.1 < found.dispersion_ < 2.0


@pytest.mark.parametrize("loss", LOSSES)
def test_models_are_saved_and_loaded(loss, tmp_path):
    frame, y = table(loss)
    ours = model(loss, feature_prior=FeaturePrior.nonnegative(["a"])).fit(frame, y)
    save(ours, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(frame), ours.predict(frame))
    assert again.score(frame, y) == ours.score(frame, y)


def test_tied_tasks_may_have_no_counts():
    frame, y = table()
    y = np.where(frame["task"] == 2, 0, y)
    ours = model(fit_intercept="tied", task_prior="mean").fit(frame, y)
    assert ours.intercept_[2] == ours.intercept_.min()
    with pytest.raises(ValueError, match=r'"tied" or False where all.*are 0.*\[2\]'):
        model().fit(frame, y)


@pytest.mark.parametrize(
    ("settings", "change", "match"),
    [
        ({"loss": "huber"}, {}, "loss must be one of 'squared', 'poisson'"),
        ({"loss": "logistic"}, {}, "loss must be one of 'squared', 'poisson'"),
        ({"solver": "fista"}, {}, 'solver must be "auto".*Lipschitz'),
        ({"dispersion": 1.0}, {}, "dispersion must be None with loss='poisson'"),
        ({"loss": "negative_binomial", "dispersion": 0.0}, {}, "number above 0"),
        ({"exposure": "years"}, {}, "must have the column 'years' of exposure"),
        ({"exposure": "shift"}, {}, "exposure and offset must be two columns"),
        ({}, {"time": 0.0}, "exposure must be above 0 in all rows of 'time': got 0"),
        ({}, {"shift": np.inf}, "offset must be finite in all rows of 'shift'"),
    ],
)
def test_bad_settings(settings, change, match):
    frame, y = table()
    with pytest.raises(ValueError, match=match):
        model(**settings).fit(frame.assign(**change), y)


def test_bad_targets_and_missing_exposure():
    frame, y = table()
    with pytest.raises(ValueError, match="must not be negative"):
        model().fit(frame, y - 100)
    with pytest.raises(ValueError, match="Rates are allowed with sample_weight"):
        model().fit(frame, y + 0.5)
    model().fit(frame, y + 0.5, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match='above 0 with loss="gamma": got 0'):
        model("gamma").fit(frame, y)
    fitted = model().fit(frame, y)
    with pytest.raises(ValueError, match="'time' of exposure, in fit and predict"):
        fitted.predict(frame.drop(columns="time"))
    with pytest.raises(ValueError, match="predict_interval needs residuals"):
        fitted.predict_interval(frame)
    with pytest.raises(ValueError, match='partial_fit needs loss="squared"'):
        fitted.partial_fit(frame, y)
    statistics = summarize(frame[["a", "b", "c"]], y, frame["task"])
    with pytest.raises(ValueError, match='loss must be "squared" for a fit to stat'):
        MultiTaskRegressor(loss="poisson").fit_statistics(statistics)


@pytest.mark.parametrize(
    "loss", ["poisson", pytest.param("gamma", marks=pytest.mark.slow)]
)
def test_default_model_mixes_trees_on_the_scale_of_scores(loss, tmp_path, monkeypatch):
    monkeypatch.setattr(stacked, "SIZES", (stacked.Booster(40, 6, 0.2, 63),))
    frame, _ = table(loss, n=60)
    rng = np.random.default_rng(1)
    both = (frame["a"] > 0) & (frame["b"] > 0)
    mean = np.exp(1.5 * both + frame["shift"]) * frame["time"]
    y = rng.gamma(5.0, mean / 5.0) if loss == "gamma" else rng.poisson(mean)
    settings = {"task": "task", "exposure": "time", "offset": "shift", "loss": loss}
    ours = tabular_model("regressor", smooth="none", **settings, cv=3).fit(frame, y)
    assert "time" not in ours[0].design_.sources
    stack = ours[-1]
    assert stack.trees_weight_ > 0.3  # an interaction that lines lack
    # Mixed scores have a smaller deviance than those of the linear model.
    loss_of = ours.fitted_.row_loss.loss
    before, after = (
        np.mean(loss_of(one.held_out.prediction, y))
        for one in (stack.model_.fitted_, ours.fitted_)
    )
    assert after < before
    np.testing.assert_allclose(stack.held_out_, np.exp(ours.fitted_.held_out[3]))
    # An exposure twice as long has twice the mean, trees included.
    twice = frame.assign(time=2.0 * frame["time"])
    np.testing.assert_allclose(ours.predict(twice), 2.0 * ours.predict(frame))
    save(ours, tmp_path / "m")
    again = load(tmp_path / "m").predict(frame)
    np.testing.assert_array_equal(again, ours.predict(frame))


@pytest.mark.parametrize("loss", [*LOSSES, "logistic"])
@pytest.mark.parametrize("level", [-2.0, 3.0])
def test_variances_are_estimated_about_the_optimum_at_any_level(loss, level):
    """REML's own solution, which scores folds, is the one that a solver finds."""
    frame, y = table(loss, m=12, n=25)
    rng, X = np.random.default_rng(2), frame[["a", "b"]].to_numpy()
    task = frame["task"].to_numpy()
    eta = 0.5 * X[:, 0] + level + 0.5 * rng.normal(size=12)[task]
    if loss == "logistic":
        y = rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))
    else:
        y = rng.gamma(3.0, np.exp(eta) / 3.0) if loss == "gamma" else None
        y = rng.poisson(np.exp(eta)) if y is None else y
    kind = MultiTaskClassifier if loss == "logistic" else MultiTaskRegressor
    settings = {"loss": loss, "tol": 1e-10, "task_prior": "mean", "ties": "adaptive"}
    settings |= {"fit_intercept": "tied", "intercept_strength": "adaptive"}
    if loss == "negative_binomial":
        settings["dispersion"] = 0.1
    ours = kind(0.0, **settings)
    data = ours._read_table(X, y, task, None, reset=True).to_tasks()
    posed = ours._model().pose(data)
    coef, intercept = posed.estimated()
    ours.fit(X, y, task=task)
    np.testing.assert_allclose(coef, ours.coef_, atol=0.1)
    np.testing.assert_allclose(intercept, ours.intercept_, atol=0.15)


@pytest.mark.parametrize("seed", range(4))
def test_variances_of_amounts_are_found(seed):
    """Deviations 1.5 of intercepts and 1 of slopes; both were zero for most seeds."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(25), 6)
    frame = pd.DataFrame({"a": rng.normal(size=150), "task": task})
    eta = 1.5 * rng.normal(size=25)[task] + frame["a"] * rng.normal(1.0, 1.0, 25)[task]
    ours = MultiTaskRegressor(
        0.0,
        loss="gamma",
        task="task",
        ties="adaptive",
        intercept_strength="adaptive",
        task_prior="mean",
        fit_intercept="tied",
    ).fit(frame, rng.gamma(3.0, np.exp(eta) / 3.0))
    found = ours.fitted_.deviations
    assert found.intercept == pytest.approx(1.5, rel=0.3)
    assert found.task[0] == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_folds_know_nothing_of_the_rows_that_they_hold_out(seed):
    """Models of folds start at the estimate of all rows, and must leave it behind."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(25), 5)
    frame = pd.DataFrame({"a": rng.normal(size=125), "task": task})
    eta = 1.5 * rng.normal(size=25)[task] + frame["a"] * rng.normal(1.0, 1.0, 25)[task]
    y = rng.poisson(np.exp(1.0 + eta))
    settings = {"task": "task", "loss": "poisson", "ties": "adaptive"}
    settings |= {"task_prior": "mean", "fit_intercept": "tied"}
    ours = MultiTaskRegressorCV(lams=(0.0,), epsilons=(1.0,), **settings).fit(frame, y)
    held_out, want = ours.fitted_.held_out, np.empty(125)
    for train, test in held_out.splits:
        fresh = MultiTaskRegressor(0.0, intercept_strength="adaptive", **settings)
        fresh.fit(frame.iloc[train], y[train])
        want[test] = np.log(fresh.predict(frame.iloc[test]))
    apart = np.abs(held_out.prediction - want)
    assert np.quantile(apart, 0.9) < 0.1
    errors = [np.mean(np.exp(eta) - y * eta) for eta in (held_out.prediction, want)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


@pytest.mark.parametrize("loss", LOSSES)
def test_intervals_hold_their_share_and_counts_have_whole_ends(loss, tmp_path):
    frame, y = table(loss, m=10, n=80)
    train, few = np.arange(len(y)) % 2 == 0, frame["task"] == 9
    settings = {"ties": "adaptive", "fit_intercept": "tied", "task_prior": "mean"}
    ours = MultiTaskRegressorCV(
        lams=(0.0,),
        epsilons=(1.0,),
        task="task",
        exposure="time",
        offset="shift",
        unseen_tasks="shared",
        loss=loss,
        **settings,
    ).fit(frame[train & ~few], y[train & ~few])
    ends = ours.predict_interval(frame)
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert 0.87 < inside[~train & ~few].mean() < 0.97
    assert np.all(ends[:, 0] >= 0)
    wide = np.mean(ends[few, 1] - ends[few, 0]) / np.mean(ours.predict(frame)[few])
    usual = ends[~few, 1] - ends[~few, 0]
    assert wide > np.mean(usual) / np.mean(ours.predict(frame)[~few])
    if loss != "gamma":
        np.testing.assert_array_equal(ends, np.round(ends))
    narrow = ours.predict_interval(frame, coverage=0.5)
    assert np.all(narrow[:, 0] >= ends[:, 0])
    assert np.all(narrow[:, 1] <= ends[:, 1])
    save(ours, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_interval(frame), ends)
    # Models with given strengths learn the same from folds of their own.
    fixed = MultiTaskRegressor(0.0, loss=loss, task="task", exposure="time")
    fixed.set_params(fit_intercept="tied", task_prior="mean")
    known = frame.drop(columns="shift")[train]
    fixed.fit(known, y[train]).calibrate(known, y[train])
    ends = fixed.predict_interval(frame.drop(columns="shift"))
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert 0.87 < inside[~train].mean() < 0.96


@pytest.mark.parametrize("loss", [*LOSSES, "logistic"])
def test_standard_errors_are_those_of_generalised_linear_models(loss):
    statsmodels = pytest.importorskip("statsmodels.api")
    frame, y = table(loss, m=1, n=300)
    X, families = frame[["a", "b"]].to_numpy(), statsmodels.families
    known, settings, kind = families.Poisson(), {}, MultiTaskRegressor
    if loss == "gamma":
        known = families.Gamma(families.links.Log())
    elif loss == "negative_binomial":
        known, settings = families.NegativeBinomial(alpha=0.5), {"dispersion": 0.5}
    elif loss == "logistic":
        known, y, kind = families.Binomial(), np.asarray(y > 1) * 1, MultiTaskClassifier
    theirs = statsmodels.GLM(y, statsmodels.add_constant(X), family=known).fit()
    ours = kind(0.0, loss=loss, **settings).fit(X, y)
    # Theirs take expected curvatures, which are the same for canonical links.
    close = 1e-3 if loss in ("poisson", "logistic") else 0.1
    np.testing.assert_allclose(ours.fitted_.errors.coef[0], theirs.bse[1:], rtol=close)
    low, high = np.array(theirs.conf_int())[1]
    found = ours.summary(level=0.95).features
    row = next(one for one in found if one.name == "x0")
    scale = 0.1 * (high - low) if close > 0.01 else 1e-3
    assert row.lower == pytest.approx(low, abs=scale)
    assert row.upper == pytest.approx(high, abs=scale)
    # Weights are relative, unless they are numbers of trials.
    for weight, repeats in ((0.7, 1.0), (7.0, 1.0 if loss == "gamma" else 7.0)):
        again = kind(0.0, loss=loss, **settings)
        again.fit(X, y, sample_weight=np.full(len(y), weight))
        expected = ours.fitted_.errors.coef / np.sqrt(repeats)
        np.testing.assert_allclose(again.fitted_.errors.coef, expected, rtol=1e-4)


def test_intervals_of_counts_with_crossed_factors():
    frame, y = table(m=6, n=60)
    frame["level"] = [f"v{k}" for k in np.arange(len(y)) % 25]
    columns = ["a", "level", "task"]
    ours = MultiTaskRegressorCV(
        lams=(0.0,),
        epsilons=(1.0,),
        ties="adaptive",
        fit_intercept="tied",
        task_prior="mean",
        task="task",
        crossed="level",
        loss="poisson",
        cv=3,
    ).fit(frame[columns], y)
    ends = ours.predict_interval(frame[columns])
    assert 0.85 < np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) < 0.99


@pytest.mark.parametrize("scatter", [1e-9, 1.0])
def test_what_counts_scatter_beyond_their_loss_is_no_effect_of_tasks(scatter):
    """A search estimates how much that is; a model with given ties is the GLMM."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), 15)
    frame = pd.DataFrame(rng.normal(size=(180, 6))).rename(columns="x{}".format)
    mean = np.exp(1.5 + 0.3 * frame["x0"])
    y = rng.poisson(mean * rng.gamma(1.0 / scatter, scatter, 180))
    settings = {"task": "task", "loss": "poisson", "ties": "adaptive"}
    settings |= {"task_prior": "mean", "fit_intercept": "tied"}
    frame["task"] = task
    known = MultiTaskRegressor(0.0, intercept_strength="adaptive", **settings)
    known.fit(frame, y)
    search = MultiTaskRegressorCV(lams=(0.0,), epsilons=(1.0,), **settings)
    search.fit(frame, y)
    errors = [
        np.sqrt(np.mean((np.log(one.predict(frame) / mean)) ** 2))
        for one in (search, known)
    ]
    if scatter < 1.0:
        assert errors[0] == pytest.approx(errors[1], rel=0.1)
    else:
        assert errors[0] < 0.7 * errors[1]
