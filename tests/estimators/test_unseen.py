"""Unseen tasks: known ones keep their model, new ones get a mean of known ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from priormtl import (
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    one_vs_one,
    save,
    summarize,
)
from priormtl.data import align_tasks
from priormtl.datasets import make_related_tasks
from priormtl.fitted import Outliers

MODELS = [
    MultiTaskRegressor(lam=0.5),
    MultiTaskRegressor(lam=0.5, fit_intercept="tied", task_prior="mean"),
    MultiTaskRegressorCV(lams=3, thetas=[1.0], epsilons=[1.0], cv=3),
    MultiTaskClassifier(lam=0.5),
    MultiTaskClassifierCV(lams=3, thetas=[1.0], epsilons=[1.0], cv=3),
]
PREDICT = ["predict", "decision_function", "predict_proba"]


@pytest.fixture(scope="module")
def data():
    """Tasks 0, 10, 20, 30."""
    X, y, task = make_related_tasks(4, 5, 25, noise=0.3, random_state=0)
    return X, y, 10 * task


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def model(request, data):
    X, y, task = data
    targets = y if "Regressor" in type(request.param).__name__ else y > 0
    return request.param.fit(X, targets, task=task)


def raw(model, X, task):
    """Scores, before classes are made of them."""
    name = "decision_function" if hasattr(model, "classes_") else "predict"
    return getattr(model, name)(X, task=task)


@pytest.mark.parametrize("behaviour", ["error", "shared"])
def test_known_tasks_keep_their_model(model, data, behaviour):
    X, _, task = data
    before = raw(model.set_params(unseen_tasks="error"), X, task)
    model.set_params(unseen_tasks=behaviour)
    np.testing.assert_array_equal(raw(model, X, task), before)
    if behaviour != "error":
        mixed = np.where(np.arange(len(X)) % 3 == 0, 7, task)
        after = raw(model, X, mixed)
        np.testing.assert_array_equal(after[mixed != 7], before[mixed != 7])


def test_the_shared_part_is_the_mean_over_tasks(model, data):
    X = data[0][:6]
    model.set_params(unseen_tasks="shared")
    each = [raw(model, X, np.full(6, known)) for known in model.tasks_]
    new = raw(model, X, [7, 8, 9, -1, 99, 7])
    np.testing.assert_allclose(new, np.mean(each, axis=0), rtol=0, atol=1e-12)


UNNAMED = {  # of tasks 10, none, 20 and none
    "list": [10, None, 20, float("nan")],
    "array": np.array([10.0, np.nan, 20.0, np.nan]),
    "objects": pd.Series([10, None, 20, pd.NA], dtype=object),
    "nullable": pd.Series([10, None, 20, None], dtype="Int64"),
    "nullable array": pd.array([10, None, 20, None], dtype="Int64"),
    "categorical": pd.Series([10, None, 20, None], dtype="category"),
    "polars": pl.Series([10, None, 20, None]),
    "polars NaN": pl.Series([10.0, float("nan"), 20.0, None]),
    "pyarrow": pa.chunked_array([[10, None], [20, None]]),
    "pyarrow dictionary": pa.array([10, None, 20, None]).dictionary_encode(),
    "pyarrow NaN": pa.array([10.0, float("nan"), 20.0, None]),
}


@pytest.mark.parametrize("labels", UNNAMED.values(), ids=UNNAMED)
def test_rows_without_a_label_are_those_of_an_unseen_task(model, data, labels):
    X = data[0][:4]
    model.set_params(unseen_tasks="shared")
    expected = raw(model, X, [10, 7, 20, 7])
    np.testing.assert_array_equal(raw(model, X, labels), expected)
    model.set_params(unseen_tasks="error")
    with pytest.raises(ValueError, match="must not hold missing labels: 2 of 4 are"):
        raw(model, X, labels)


@pytest.mark.parametrize(
    "labels",
    [[None] * 4, float("nan"), pl.Series([None] * 4), pa.nulls(4), [pd.NaT] * 4],
    ids=["list", "NaN", "polars", "pyarrow", "pandas"],
)
def test_no_row_needs_a_label(model, data, labels):
    X = data[0][:4]
    model.set_params(unseen_tasks="shared")
    np.testing.assert_array_equal(raw(model, X, labels), raw(model, X, [7] * 4))


@pytest.mark.parametrize(
    "make",
    [
        pd.Series,
        lambda items: pd.Series(items, dtype="string"),
        lambda items: pd.Series(items, dtype="category"),
        pl.Series,
        lambda items: pl.Series(items, dtype=pl.Categorical),
        pa.array,
    ],
    ids=["object", "string", "category", "polars", "polars category", "pyarrow"],
)
def test_a_missing_label_is_no_text(make):
    X, y, task = make_related_tasks(3, 4, 20, random_state=2)
    names = np.array(["nan", "None", "NA"])
    model = MultiTaskRegressor(0.5, unseen_tasks="shared").fit(X, y, task=names[task])
    found = model.predict(X[:4], task=make(["nan", None, "None", "NA"]))
    expected = model.predict(X[:4], task=["nan", "other", "None", "NA"])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_large_whole_numbers_stay_apart_where_labels_are_missing(library):
    ids = 2**53 + np.arange(4)  # as floats, two of them are alike
    X, y, task = make_related_tasks(4, 3, 20, random_state=3)
    model = MultiTaskRegressor(unseen_tasks="shared").fit(X, y, task=ids[task])
    items = [*ids.tolist(), None]
    labels = {
        "pandas": lambda: pd.Series(items, dtype="Int64"),
        "polars": lambda: pl.Series(items, dtype=pl.Int64),
        "pyarrow": lambda: pa.array(items, pa.int64()),
    }[library]()
    found = model.predict(X[:5], task=labels)
    np.testing.assert_array_equal(found, model.predict(X[:5], task=[*ids, 5]))


def test_the_shared_part_is_what_a_task_without_rows_would_get():
    X, y, task = make_related_tasks(3, 4, 20, noise=0.3, random_state=1)
    settings = {"task_prior": "mean", "fit_intercept": "tied", "tol": 1e-12}
    known = summarize(X, y, task)
    # Without lam, which would shrink a task more that has no rows to speak for it.
    model = MultiTaskRegressor(0.0, 0.0, 2.0, unseen_tasks="shared", **settings)
    found = model.fit_statistics(known).predict(X, task=[3] * len(X))
    larger = align_tasks(known, (0, 1, 2, 3))
    expected = model.fit_statistics(larger).predict(X, task=[3] * len(X))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_classifiers_of_the_same_classes_are_averaged_by_all_methods(data):
    X, y, task = data
    labels = np.where(y > 0, "yes", "no")
    model = MultiTaskClassifier(0.5, unseen_tasks="shared").fit(X, labels, task=task)
    new = np.full(len(X), 7)
    scores = model.decision_function(X, task=new)
    predicted = np.where(scores > 0, "yes", "no")
    np.testing.assert_array_equal(model.predict(X, task=new), predicted)
    second = model.predict_proba(X, task=new)[:, 1]
    np.testing.assert_allclose(second, 1 / (1 + np.exp(-scores)))
    assert model.score(X, predicted, task=new) == 1.0


@pytest.mark.parametrize("method", PREDICT)
def test_tasks_of_different_classes_are_not_averaged(method):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X, y, task = one_vs_one(X, np.repeat(["x", "y", "z"], 20))
    model = MultiTaskClassifier(unseen_tasks="shared").fit(X, y, task=task)
    with pytest.raises(
        ValueError,
        match=r"'q' cannot be predicted .* different classes, such as \['x', 'y'\]",
    ):
        getattr(model, method)(X[:1], task=["q"])


def test_score_counts_unseen_tasks(data):
    X, y, task = data
    model = MultiTaskRegressor(0.5, unseen_tasks="shared").fit(X, y, task=task)
    assert model.score(X, model.predict(X, task=task + 1), task=task + 1) == 1.0


def test_pipelines_and_frames_take_the_setting_after_the_fit(data):
    X, y, task = data
    frame = pd.DataFrame(X, columns=list("abcde")).assign(school=task)
    model = MultiTaskRegressor(0.5, task="school").fit(frame, y)
    new = frame.assign(school=7)
    with pytest.raises(ValueError, match="unknown task 7"):
        model.predict(new)
    assert model.set_params(unseen_tasks="shared").predict(new).shape == y.shape
    pipeline = make_pipeline(StandardScaler(), MultiTaskRegressor(0.5, task=5))
    pipeline.fit(frame.to_numpy(), y)
    pipeline.set_params(multitaskregressor__unseen_tasks="shared")
    assert np.isfinite(pipeline.predict(new.to_numpy())).all()


def test_the_setting_survives_a_file(data, tmp_path):
    X, y, task = data
    model = MultiTaskRegressor(0.5, unseen_tasks="shared").fit(X, y, task=task)
    save(model, tmp_path / "m.model")
    loaded = load(tmp_path / "m.model")
    new = np.full(len(X), 7)
    np.testing.assert_array_equal(
        loaded.predict(X, task=new), model.predict(X, task=new)
    )


def test_models_of_columns_take_labels_too(data):
    X = data[0][:20]
    Y = np.column_stack([X[:, 0], X[:, 1]])
    model = MultiTaskRegressor(0.1, unseen_tasks="shared").fit(X, Y)
    whole = model.predict(X)
    np.testing.assert_allclose(model.predict(X, task=[5] * 20), whole.mean(axis=1))


def test_one_task_is_its_own_mean(data):
    X, y, _ = data
    model = MultiTaskRegressor(0.1, unseen_tasks="shared").fit(X, y)
    np.testing.assert_array_equal(
        model.predict(X, task=["new"] * len(X)), model.predict(X)
    )


def test_outlying_tasks_are_left_out_of_the_mean(data):
    X, y, task = data
    model = MultiTaskRegressor(0.5, unseen_tasks="shared").fit(X, y, task=task)
    own = np.zeros_like(model.coef_)
    own[model.tasks_.tolist().index(30)] = 1.0
    outliers = Outliers(2.0 * model.coef_, own, 1.0)
    model.fitted_ = replace(model.fitted_, outliers=outliers)
    kept = [0, 1, 2]
    by_hand = X[:3] @ (2.0 * model.coef_[kept].mean(axis=0))
    by_hand = by_hand + model.intercept_[kept].mean()
    np.testing.assert_allclose(model.predict(X[:3], task=[7] * 3), by_hand)


def test_the_default_names_tasks_near_ones_and_the_ways_out(data):
    X, y, task = data
    names = np.array(["north", "south", "east", "west"])[task // 10]
    model = MultiTaskRegressor(0.5).fit(X, y, task=names)
    with pytest.raises(ValueError, match="unknown task") as caught:
        model.predict(X[:3], task=["nort", "north", "wets"])
    message = str(caught.value)
    assert message.startswith("unknown tasks 'nort', 'wets'; known: 'east', 'north'")
    assert "Did you mean 'north'" in message
    assert 'unseen_tasks="error", the default' in message
    assert '"shared"' in message


def test_labels_of_another_type_are_told_apart_from_new_tasks(data):
    X, y, task = data
    model = MultiTaskRegressor(0.5).fit(X, y, task=task)
    with pytest.raises(ValueError, match="of type str, those known of type number"):
        model.predict(X[:1], task=[str(task[0])])
    with pytest.raises(ValueError, match="unknown task") as caught:
        model.predict(X[:1], task=[0.5])
    assert "of type" not in str(caught.value)


def test_other_words_are_refused(data):
    X, y, task = data
    with pytest.raises(ValueError, match="must be one of 'error', 'shared': got"):
        MultiTaskRegressor(unseen_tasks="mean").fit(X, y, task=task)
    model = MultiTaskRegressor().fit(X, y, task=task)
    with pytest.raises(ValueError, match="unseen_tasks must be one of"):
        model.set_params(unseen_tasks=True).predict(X, task=task)
