"""Three questions to a table: rows like those of the fit, later rows, new tasks."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl import (
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskGroupKFold,
    TaskTimeSplit,
    load,
    save,
    tabular_model,
)
from priormtl.exceptions import FoldsError
from priormtl.selection.held_out import _next_origin

LAW = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def panel(m=12, n=15, seed=0, step=0.0, slope=1.0):
    """Rows of m tasks at n times; levels follow random walks of this step."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(step * rng.normal(size=(m, n)), axis=1)
    level = rng.normal(size=(m, 1)) + walk + slope * np.arange(n) / n
    x, noise = rng.normal(size=(m, n)), 0.2 * rng.normal(size=(m, n))
    table = pd.DataFrame(
        {
            "site": np.repeat([f"s{i:03d}" for i in range(m)], n),
            "year": np.tile(2000 + np.arange(n), m),
            "x": x.ravel(),
        }
    )
    return table, (level + 0.5 * x + noise).ravel()


# Splitters.


@LAW
@given(st.integers(1, 6), st.integers(1, 4), st.floats(0.05, 0.24), st.integers(0, 999))
def test_time_splits_train_on_what_is_before(m, n_splits, horizon, seed):
    rng = np.random.default_rng(seed)
    task, time = rng.integers(m, size=60), rng.integers(25, size=60)
    cv = TaskTimeSplit(n_splits, task=task, time=time, horizon=horizon)
    try:
        splits = list(cv.split(np.zeros((60, 1))))
    except FoldsError:  # tasks with too few times
        longest = max(len(np.unique(time[task == i])) for i in np.unique(task))
        assert (longest - 1) // max(1, round(horizon * longest)) < n_splits
        return
    assert len(splits) == n_splits
    seen = np.concatenate([test for _, test in splits])
    assert len(np.unique(seen)) == len(seen)
    for i in np.unique(task):
        times = np.unique(time[task == i])
        for back, (train, test) in enumerate(splits[::-1], 1):
            before, after = (time[part][task[part] == i] for part in (train, test))
            if not len(after):
                assert len(times) == 1 or not len(before)
                continue
            size = min(max(1, round(horizon * len(times))), len(times) - 1)
            assert before.max() < after.min()
            assert len(np.unique(after)) == size
            # All that is earlier trains, and rows of one time stay together.
            assert np.array_equal(np.unique(before), times[: len(times) - back * size])


@LAW
@given(st.integers(2, 6), st.integers(6, 30), st.integers(0, 999))
def test_group_folds_hold_out_whole_tasks(k, m, seed):
    task = np.random.default_rng(seed).permutation(np.arange(3 * m) % m)
    cv = TaskGroupKFold(k, task=task, random_state=seed)
    tests = [test for _, test in cv.split(task)]
    assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(3 * m))
    sizes = [len(set(task[test])) for test in tests]
    assert max(sizes) - min(sizes) <= 1  # tasks are of one size here
    assert sum(sizes) == m


def test_months_dates_and_text_are_one_order():
    months = [202311, 202312, 202401, 202402, 202403]
    texts = [f"{m // 100}-{m % 100:02d}-01" for m in months]
    found = []
    for time in (months, texts, np.array(texts, "datetime64[D]"), pd.Series(months)):
        cv = TaskTimeSplit(2, task=[0] * 5, time=time)
        found.append([(a.tolist(), b.tolist()) for a, b in cv.split(np.zeros((5, 1)))])
    assert found == [[([0, 1, 2], [3]), ([0, 1, 2, 3], [4])]] * 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TaskTimeSplit(task=None, time="t"), "task must be the name"),
        (lambda: TaskTimeSplit(task="a", time=None), "time must be the name"),
        (lambda: TaskTimeSplit(5, task="a", time="t"), r"n_splits · horizon below 1"),
        (lambda: TaskGroupKFold(1, task="a"), "n_splits must be at least 2"),
    ],
)
def test_splitters_name_wrong_arguments(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_times_must_be_known():
    table, y = panel(3, 6)
    wrong = {
        "must hold numbers, dates or text such as": ["soon"] * len(y),
        "must be known in every row: 1 of 18": [np.nan] + [1.0] * (len(y) - 1),
    }
    for words, values in wrong.items():
        model = tabular_model("regressor", task="site", time="when", trees="none")
        with pytest.raises(ValueError, match=words):
            model.fit(table.assign(when=values), y)
    with pytest.raises(ValueError, match="when"):
        tabular_model("regressor", task="site", time="when").fit(table, y)


# Tasks of which no row trains.


@pytest.mark.parametrize("fit_intercept", [True, "tied"])
def test_missing_tasks_are_predicted_as_unseen_ones(fit_intercept):
    table, y = panel(6, 8)
    table = table.drop(columns="year")
    late = table["site"].isin(["s001", "s004"]).to_numpy()
    cv = [(np.flatnonzero(~late), np.flatnonzero(late))]
    given = {"task": "site", "task_prior": "mean", "ties": "uniform", "tol": 1e-12}
    given |= {"fit_intercept": fit_intercept, "intercept_strength": 1.0}
    given |= {"unseen_tasks": "shared", "standardize": False}
    chosen = MultiTaskRegressorCV([0.0], [0.0], [2.0], cv=cv, **given).fit(table, y)
    plain = MultiTaskRegressor(0.0, 0.0, 2.0, **given).fit(table[~late], y[~late])
    error = np.mean((plain.predict(table[late]) - y[late]) ** 2)
    assert chosen.best_score_ == pytest.approx(-error, rel=1e-5)
    assert len(chosen.tasks_) == 6


def test_tasks_that_a_fold_lacks_are_no_observations():
    """Rows that keep their places must not count as rows of the noise."""
    table, y = panel(9, 6, seed=4)
    rng = np.random.default_rng(0)
    table = table.assign(**{f"z{j}": rng.normal(size=len(y)) for j in range(12)})
    late = table["site"].isin(["s001", "s004", "s006"]).to_numpy()
    cv = [(np.flatnonzero(~late), np.flatnonzero(late))]
    given = {"task": "site", "task_prior": "mean", "ties": "adaptive"}
    given |= {"fit_intercept": "tied", "unseen_tasks": "shared", "standardize": True}
    chosen = MultiTaskRegressorCV([0.0], cv=cv, time="year", **given).fit(table, y)
    plain = MultiTaskRegressor(0.0, intercept_strength="adaptive", **given)
    plain.fit(table[~late], y[~late])
    error = np.mean((plain.predict(table[late]) - y[late]) ** 2)
    scores = chosen.cv_results_["split0_test_score"]
    # All rows have told which effects vary: the same to a few per cent only.
    assert scores[0] == pytest.approx(-error, rel=0.03)


def test_classifiers_take_splits_without_some_tasks():
    table, y = panel(8, 12, step=0.3)
    cv = TaskGroupKFold(4, task="site")
    model = MultiTaskClassifierCV(task="site", cv=cv, lams=[0.0], ties="adaptive")
    model.fit(table, y > np.median(y))
    assert len(model.tasks_) == 8
    assert model.structure_["fit_intercept"] == "tied"


# Intervals.


def test_intervals_of_later_rows_widen_and_hold(tmp_path):
    table, y = panel(30, 20, step=0.5, seed=1)
    late = (table["year"] >= 2016).to_numpy()
    covered, plain = [], []
    settings = {"task": "site", "trees": "none"}
    model = tabular_model("regressor", time="year", **settings)
    model.fit(table[~late], y[~late])
    ends = model.predict_interval(table[late])
    covered = (ends[:, 0] <= y[late]) & (y[late] <= ends[:, 1])
    assert 0.8 < covered.mean() < 0.98
    # Rows left out at random say how well levels are interpolated.
    plain = tabular_model("regressor", **settings).fit(table[~late], y[~late])
    with pytest.warns(UserWarning, match="'year' outside of its range"):
        ends = plain.predict_interval(table[late])
    assert np.mean((ends[:, 0] <= y[late]) & (y[late] <= ends[:, 1])) < 0.8
    row = table[late].iloc[:1]
    widths = []
    for year in range(2015, 2024):
        ((low, high),) = model.predict_interval(row.assign(year=year))
        widths.append(high - low)
    assert np.all(np.diff(widths) >= 0)
    assert widths[-1] > 1.2 * widths[0]
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        again.predict_interval(table[late]), model.predict_interval(table[late])
    )


@pytest.mark.slow
def test_order_of_rows_and_units_of_time_do_not_matter():
    table, y = panel(10, 12, step=0.3)
    other = np.random.default_rng(0).permutation(len(y))
    days, found = 365.25, []
    for order in (slice(None), other):
        model = tabular_model("regressor", task="site", time="year", trees="none")
        model.fit(table.iloc[order], y[order])
        found.append(model.predict_interval(table.assign(year=2014)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    model = tabular_model("regressor", task="site", time="year", trees="none")
    model.fit(table.assign(year=days * table["year"]), y)
    widths = np.ptp(model.predict_interval(table.assign(year=days * 2014)), axis=1)
    assert widths.mean() == pytest.approx(np.ptp(found[0], axis=1).mean(), rel=0.02)


@pytest.mark.slow
def test_order_of_rows_of_one_time_does_not_matter():
    """Score tests of variances draw noise, which goes with targets, not positions."""
    table, y = panel(8, 9, step=0.3)
    rng = np.random.default_rng(1)
    table = table.assign(**{f"z{j}": rng.normal(size=len(y)) for j in range(10)})
    table["year"] = 2000 + (table["year"] - 2000) // 3
    y = y + 0.5 * table["z0"].to_numpy() * np.repeat(rng.normal(size=8), 9)
    given, found = {"task": "site", "time": "year", "smooth": "none"}, []
    for order in (np.arange(len(y)), rng.permutation(len(y))):
        model = tabular_model("regressor", trees="none", **given)
        model.fit(table.iloc[order], y[order])
        found.append(model.predict(table.assign(year=2003)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_each_question_has_its_folds():
    table, y = panel(24, 8, seed=3)
    new = table.assign(site="new")
    widths, given = {}, {"task": "site", "unseen_tasks": "shared", "lams": [0.0]}
    for asked in ("auto", "tasks"):
        model = MultiTaskRegressorCV(calibrate=asked, **given).fit(table, y)
        widths[asked] = np.ptp(model.predict_interval(new), axis=1).mean()
        own = np.ptp(model.predict_interval(table), axis=1).mean()
        assert own < widths[asked]
    assert model.calibration_.question == "tasks"
    # Leaving a task out in its fold's model is nearly leaving it out.
    assert widths["tasks"] == pytest.approx(widths["auto"], rel=0.2)
    # Folds are those of the splitter, and choose the structure.
    cv = TaskGroupKFold(5, task="site")
    other = MultiTaskRegressorCV(cv=cv, **given).fit(table, y)
    np.testing.assert_array_equal(model.folds_, other.folds_)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(
        model.predict_interval(new), other.predict_interval(new)
    )
    # Where the search needs other folds, models of whole tasks come after it.
    forward = MultiTaskRegressorCV(time="year", calibrate="tasks", **given)
    forward.fit(table, y)
    assert forward.n_splits_ == 3
    assert forward.calibration_.question == "tasks"
    with pytest.raises(ValueError, match="two tasks or more"):
        MultiTaskRegressorCV(calibrate="tasks").fit(
            table[["x"]], y, task=np.zeros(len(y))
        )
    later = MultiTaskRegressorCV(
        task="site", time="year", calibrate="rows", lams=[0.0]
    ).fit(table, y)
    assert later.calibration_.question == "rows"
    for wrong, words in (("later", "needs the column of time"), ("all", "calibrate")):
        with pytest.raises(ValueError, match=words):
            MultiTaskRegressorCV(task="site", calibrate=wrong).fit(table, y)


def test_folds_of_whole_tasks_choose_trees_for_new_tasks():
    """Splitters that name the column of the tasks work in the pipeline."""
    rng = np.random.default_rng(4)
    table, level = panel(12, 12, seed=4)
    table = table.assign(z=rng.normal(size=len(level)))
    y = level + 3.0 * np.sign(table["x"] * table["z"]).to_numpy()
    cv = TaskGroupKFold(3, task="site")
    model = tabular_model("regressor", task="site", cv=cv).fit(table, y)
    assert model[-1].trees_weight_ > 0.5
    assert model.fitted_.calibration.question == "tasks"
    same = tabular_model("regressor", task="site", cv=3, calibrate="tasks")
    np.testing.assert_array_equal(
        same.fit(table, y).predict_interval(table), model.predict_interval(table)
    )
    later = TaskTimeSplit(2, task="site", time="year")
    model = tabular_model("regressor", task="site", time="year", cv=later)
    assert len(model.fit(table, y).fitted_.held_out.splits) == 2


def test_folds_may_lack_drifting_levels():
    """REML may find levels that drift in some folds, and none in others."""
    table, y = panel(10, 24, step=0.8, slope=0.0)
    model = tabular_model(
        "regressor", task="site", time="year", trees="none", smooth="none"
    )
    held_out = model.fit(table, y).fitted_.held_out
    assert model.fitted_.drift is not None
    assert len(held_out.levels) == len(held_out.splits)
    encoded = model[:-1].transform(table)
    data = model[-1]._read_table(encoded, y, None, None, reset=False)
    given = data, held_out.splits, model.fitted_.labels, model.fitted_.row_loss
    scores = []
    for levels in (held_out.levels, [None, *held_out.levels[1:]], [None] * 3):
        plain = held_out._replace(levels=levels, variances=np.zeros((0, 10)))
        scores.append(plain.on_rows(*given)[0].scores[0])
    np.testing.assert_array_equal(scores[1][0], scores[2][0])
    np.testing.assert_array_equal(scores[1][1:], scores[0][1:])
    assert np.any(scores[0][0] != scores[2][0])


def test_intervals_of_later_rows_follow_the_last_origins():
    """Where errors have shrunk from origin to origin, they go on smaller."""
    fold, weight = np.repeat([0, 1, 2], 50), np.ones(150)
    size = np.abs(np.random.default_rng(0).normal(size=150))
    factors = [
        _next_origin(size * np.array(scales)[fold], weight, fold)
        for scales in ([1.0, 1.0, 1.0], [2.0, 1.4, 1.0], [1.0, 1.4, 2.0])
    ]
    assert factors[1] < factors[0] < factors[2]
    assert 1.0 < factors[0] < 1.3
    assert _next_origin(size, weight, 0 * fold) > 1.1  # one origin says little
    assert _next_origin(0.0 * size, weight, fold) == 1.0


def test_predictions_far_outside_are_announced():
    table, y = panel(8, 12)
    model = tabular_model("regressor", task="site", time="year", trees="none")
    model.fit(table, y)
    later = table.iloc[:3].assign(year=2013)
    model.predict(later)  # a year ahead is what folds have held out
    with pytest.warns(UserWarning, match="further ahead in 'year'"):
        model.predict(later.assign(year=2050))
    with pytest.warns(UserWarning, match="3 of 3 rows have 'x' outside"):
        model.predict(later.assign(x=1000.0))


@pytest.mark.slow
def test_last_rows_count_where_levels_wander():
    """Random walks: the last residual says more than any constant level."""
    table, y = panel(20, 25, step=1.0, slope=0.0, seed=5)
    late = (table["year"] >= 2022).to_numpy()
    model = tabular_model("regressor", task="site", time="year", trees="none")
    model.fit(table[~late], y[~late])
    error = np.sqrt(np.mean((model.predict(table[late]) - y[late]) ** 2))
    plain = tabular_model("regressor", task="site", trees="none")
    plain.fit(table[~late], y[~late])
    with pytest.warns(UserWarning, match="'year' outside of its range"):
        other = np.sqrt(np.mean((plain.predict(table[late]) - y[late]) ** 2))
    assert error < other
    history = model.fitted_.history
    if history is None:  # then levels drift
        assert model.fitted_.drift is not None
    # What is past is not moved towards what came last.
    early = table[table["year"] == 2005]
    again = model.fitted_.history and model.fitted_.history._replace(
        weights=np.zeros(4)
    )
    before = model.predict(early)
    model[-1].fitted_ = model.fitted_.__class__(
        **{**vars(model.fitted_), "history": again}
    )
    np.testing.assert_array_equal(model.predict(early), before)
