import numpy as np
import pytest

from priormtl import MultiTaskClassifier, MultiTaskRegressor, MultiTaskRegressorCV
from priormtl.audits import resample_coefficients
from priormtl.audits.refits import reweight
from priormtl.datasets import make_related_tasks

DATA = make_related_tasks(3, 5, 30, random_state=0)


def table(model, weight=None):
    return model._read_table(DATA.X, DATA.y, DATA.task, weight, reset=True)


def test_weights_keep_every_task_as_heavy_as_it_was():
    weight = np.random.default_rng(0).uniform(0, 2, size=90)
    weight[:3] = 0
    found = reweight(table(MultiTaskRegressor(), weight), np.random.default_rng(1))
    for i in range(3):
        rows = DATA.task == i
        assert found.weight[rows].sum() == pytest.approx(weight[rows].sum())
    assert np.all(found.weight[:3] == 0)
    assert np.all(found.weight[3:] > 0)


def test_fits_are_those_of_weighted_rows():
    model = MultiTaskRegressor(2.0, standardize=True, tol=1e-10)
    model.fit(DATA.X, DATA.y, task=DATA.task)
    found = resample_coefficients(model, DATA.X, DATA.y, task=DATA.task, n_resamples=2)
    weights = reweight(table(model), np.random.default_rng(0)).weight
    again = MultiTaskRegressor(2.0, standardize=True, tol=1e-10)
    again.fit(DATA.X, DATA.y, task=DATA.task, sample_weight=weights)
    assert found.coefs[0] == pytest.approx(again.coef_, abs=1e-4)
    assert found.intercepts[0] == pytest.approx(again.intercept_, abs=1e-4)


def test_spread_is_that_of_least_squares():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 2))
    y = X @ [1.0, -1.0] + rng.standard_normal(400)
    model = MultiTaskRegressor(0.0, task_prior=None).fit(X, y)
    found = resample_coefficients(model, X, y, n_resamples=200)
    errors = np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    assert found.coefs.std(axis=0)[0] == pytest.approx(errors, rel=0.2)
    low, middle, high, level = found.band(0.9)
    assert level == 0.9
    assert (high - low)[0] == pytest.approx(2 * 1.645 * errors, rel=0.25)
    assert np.all((low <= middle) & (middle <= high))


def test_seeds_decide_and_wider_levels_hold_narrower_ones():
    model = MultiTaskRegressor(2.0).fit(DATA.X, DATA.y, task=DATA.task)
    rows = (DATA.X, DATA.y)
    first, same, other = (
        resample_coefficients(
            model, *rows, task=DATA.task, n_resamples=5, random_state=s
        )
        for s in (0, 0, 1)
    )
    assert np.array_equal(first.coefs, same.coefs)
    assert not np.array_equal(first.coefs, other.coefs)
    assert np.all(first.band(0.9).high >= first.band(0.5).high)
    assert repr(first) == "ResampledCoefficients(5 resamples, 3 tasks, 5 features)"


def test_features_out_of_use_are_counted():
    model = MultiTaskRegressor(1e6).fit(DATA.X, DATA.y, task=DATA.task)
    found = resample_coefficients(model, DATA.X, DATA.y, task=DATA.task, n_resamples=3)
    assert found.selected.tolist() == [0.0] * 5


def test_other_models_and_shared_rows():
    labels = DATA.y > 0
    model = MultiTaskClassifier().fit(DATA.X, labels, task=DATA.task)
    found = resample_coefficients(model, DATA.X, labels, task=DATA.task, n_resamples=2)
    assert found.coefs.shape == (2, 3, 5)
    Y = np.column_stack([DATA.y, -DATA.y])
    Y[0, 1] = np.nan
    tuned = MultiTaskRegressorCV([1.0], [1.0], [1.0]).fit(DATA.X, Y)
    assert resample_coefficients(tuned, DATA.X, Y, n_resamples=2).coefs.shape == (
        2,
        2,
        5,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_a_shared_table_have_one_draw_in_all_tasks(weighted):
    rng = np.random.default_rng(3)
    Y = np.column_stack([DATA.y, rng.standard_normal(90), -DATA.y])
    Y[:5, 1] = np.nan
    weight = rng.uniform(0.2, 3.0, size=90) if weighted else np.ones(90)
    model = MultiTaskRegressor(2.0, tol=1e-10).fit(DATA.X, Y, sample_weight=weight)
    found = resample_coefficients(
        model, DATA.X, Y, sample_weight=weight, n_resamples=1, random_state=4
    )
    draws = np.random.default_rng(4).exponential(size=90)
    again = MultiTaskRegressor(2.0, tol=1e-10)
    again.fit(DATA.X, Y, sample_weight=weight * draws / draws.mean())
    assert found.coefs[0] == pytest.approx(again.coef_, abs=1e-4)
    assert found.intercepts[0] == pytest.approx(again.intercept_, abs=1e-4)


def test_levels_and_counts_are_checked():
    model = MultiTaskRegressor(2.0).fit(DATA.X, DATA.y, task=DATA.task)
    with pytest.raises(ValueError, match="n_resamples must be a positive"):
        resample_coefficients(model, DATA.X, DATA.y, task=DATA.task, n_resamples=0)
    found = resample_coefficients(model, DATA.X, DATA.y, task=DATA.task, n_resamples=1)
    with pytest.raises(ValueError, match="level must lie between"):
        found.band(1.0)
